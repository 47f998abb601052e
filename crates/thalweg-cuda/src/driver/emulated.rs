//! Emulated GPU on the host: the same sources, compiled by g++, run thread by thread.
//!
//! In: CUDA C++ as generated for a GPU. Out: the values that a GPU would compute, except for the last bits of library
//! functions. For tests: it is as strict as is cheap (memory starts with garbage and ends at guard pages, and a barrier
//! that some threads never reach is an error), and about as fast as a slow interpreter.
//!
//! Always true: work in a queue runs when somebody waits for it, and not earlier. From other queues runs only what must
//! precede it, and randomly chosen work. So a missing wait for another queue exposes old contents. One launch runs at a
//! time in the process.
//!
//! * `compile`: sources to shared objects.
//! * `convolution`: convolutions in the place of cuDNN's.
//! * `faults`: faults of kernel threads as errors of the launch.
//! * `fibers`: the threads of a block.
//! * `fourier`: transforms in the place of cuFFT's.
//! * `solver`: decompositions in the place of cuSOLVER's.
//! * `memory`: allocations that detect out-of-bounds accesses.
//! * `queues`: pending work.
//! * `nccl`, `ranks`, `transfers`: transfers between GPUs in the place of NCCL's.

mod compile;
mod convolution;
mod faults;
mod fibers;
mod fourier;
mod memory;
mod nccl;
mod queues;
mod ranks;
mod solver;
#[cfg(test)]
mod tests;
mod transfers;

use super::{
    Chip, Driver, Event, Function, FunctionInfo, Graph, Launch, Libraries, Lines, MAP_WORDS, Matrices, Module,
    RoutineBuffers, TensorMap, capabilities,
};
use fibers::{Kernel, Outcome, Runtime, SCHEDULER, SuspendedBlock, WAIT_AT_BARRIER};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use memory::{Allocation, Guarded, RUBBISH};
use queues::{Item, Work};
use rustc_hash::FxHashMap;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_gpu::maps::MAP_RANK;
use thalweg_gpu::runtime::RankLibrary;
use thalweg_gpu::target::MAX_CORESIDENT_BLOCKS;
use thalweg_ir::Convolution;
use thalweg_runtime::environment::{self, Value};
use thalweg_runtime::{Error, QUEUES};

/// Name of the device in errors.
const NAME: &str = "cuda:emulated";
/// Maximum bytes of shared memory of a block.
const SHARED: usize = 227 << 10;
/// Maximum bytes of arguments of a launch.
const ARGUMENTS: usize = 32_760;
/// Number of fault slots that are allocated at a time.
const FAULTS: usize = 4096;

/// Emulated GPU, an H100 with less memory, and the queue that its calls submit work to.
#[derive(Debug)]
pub struct Emulated {
    parts: Arc<EmulatedState>,
    queue: usize,
}

/// State that all queues of an emulated GPU share.
#[derive(Debug)]
struct EmulatedState {
    chip: Chip,
    memory: Mutex<Blocks>,
    work: Mutex<Work>,
    /// Functions of convolutions, each one always the same.
    convolutions: Mutex<FxHashMap<Convolution, Function>>,
    /// Number among the emulated GPUs of the process.
    number: usize,
}

/// Allocated blocks by address.
#[derive(Debug, Default)]
struct Blocks {
    blocks: BTreeMap<u64, Allocation>,
    bytes: usize,
}

fn failed(message: impl Into<String>) -> Error {
    Error::Device { device: NAME.into(), message: message.into() }
}

impl Emulated {
    /// Emulates an H100.
    ///
    /// # Errors
    /// [`Error::Compile`] when there is no g++.
    pub fn new() -> Result<Emulated, Error> {
        Emulated::of(90)
    }

    /// Emulates a chip of that compute capability: 90 for 9.0.
    ///
    /// # Errors
    /// [`Error::Compile`] when there is no g++.
    pub fn of(sm: u32) -> Result<Emulated, Error> {
        let chip = Chip {
            name: "emulated GPU".into(),
            sm,
            capabilities: capabilities(sm),
            multiprocessors: 132,
            threads: 2048,
            registers: 65536,
            shared: SHARED as u32,
            l2: 50 << 20,
            memory: 8 << 30,
            bandwidth: 3352.0,
            clock: 1.98,
            arguments: ARGUMENTS,
            faults: FAULTS,
            compiler: compile::compiler()?.into(),
        };
        Ok(Emulated::with_chip(chip))
    }

    fn with_chip(chip: Chip) -> Emulated {
        let (memory, work, convolutions) = Default::default();
        let number = queues::next_number();
        let parts = Arc::new(EmulatedState { chip, memory, work, convolutions, number });
        queues::register(&parts);
        Emulated { parts, queue: 0 }
    }

    /// Returns a GPU with `count` multiprocessors.
    pub fn with_multiprocessors(self, count: u32) -> Emulated {
        let chip = Chip { multiprocessors: count, ..self.parts.chip.clone() };
        Emulated::with_chip(chip)
    }

    /// Returns a GPU that allocates `faults` fault slots at a time.
    pub fn with_faults(self, faults: usize) -> Emulated {
        let chip = Chip { faults, ..self.parts.chip.clone() };
        Emulated::with_chip(chip)
    }

    /// Returns a GPU with a second-level cache of `bytes` bytes.
    pub fn with_cache(self, bytes: usize) -> Emulated {
        let chip = Chip { l2: bytes, ..self.parts.chip.clone() };
        Emulated::with_chip(chip)
    }

    /// Submits a convolution. The memory traffic counts for the calling thread.
    fn convolve(&self, c: Convolution, words: &[u64]) -> Result<(), Error> {
        let &[first, second, result, workspace] = words else {
            return Err(failed(format!("a convolution has 4 words, not {}", words.len())));
        };
        if let Some(address) = [first, second, result].iter().find(|a| !a.is_multiple_of(16)) {
            return Err(failed(format!("a convolution's tensor at {address:#x} is not aligned to 16 bytes")));
        }
        let (moved, sizes) = (MOVED.with(Arc::clone), convolution::bytes(&c));
        self.put(move |parts| {
            let spans = [first, second, result].into_iter().zip(sizes);
            spans.chain([(workspace, convolution::WORKSPACE)]).try_for_each(|(at, bytes)| parts.check(at, bytes))?;
            // SAFETY: all of it is within allocations that, by the submitter's promise, nobody else uses now.
            unsafe { convolution::run(&c, [first, second, result]) };
            moved[0].fetch_add((sizes[0] + sizes[1]) as u64, Relaxed);
            moved[1].fetch_add(sizes[2] as u64, Relaxed);
            Ok(())
        })
    }

    /// Submits work to the queue.
    fn put(&self, work: impl FnOnce(&EmulatedState) -> Result<(), Error> + Send + 'static) -> Result<(), Error> {
        self.parts.put(self.queue, Item::Do(Box::new(work)))
    }
}

impl EmulatedState {
    fn memory(&self) -> MutexGuard<'_, Blocks> {
        self.memory.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns an error unless the range is within one allocation.
    fn check(&self, address: u64, bytes: usize) -> Result<(), Error> {
        let memory = self.memory();
        let block = memory.blocks.range(..=address).next_back();
        let end = address.checked_add(bytes as u64);
        let inside = block.is_some_and(|(start, b)| end.is_some_and(|end| end <= start + b.bytes() as u64));
        if inside || bytes == 0 {
            Ok(())
        } else {
            Err(failed(format!("{bytes} bytes at {address:#x} are in no allocation")))
        }
    }
}

/// Loaded shared object with its kernels.
#[derive(Debug)]
struct Object {
    entries: Box<[Entry]>,
    /// Kept so that the code stays loaded.
    _library: Library,
}

impl Module for Object {}

/// Kernel of a shared object, or a library's function. The handle of a [`Function`] is its address.
#[derive(Debug)]
struct Entry {
    name: String,
    what: What,
}

/// Code that an entry runs.
#[derive(Debug)]
enum What {
    /// Kernel of a shared object.
    Kernel(Kernel, *mut Runtime),
    /// Convolution, in the place of cuDNN's.
    Convolution(Box<Convolution>),
}

/// Module of a library's function.
#[derive(Debug)]
struct LibraryEntry(Entry);

impl Module for LibraryEntry {}

// SAFETY: `runtime` is written only by the holder of `SCHEDULER`.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

fn entry(function: &Function) -> &Entry {
    // SAFETY: handles are created in `load`, from entries of the object that `function.module` keeps.
    unsafe { &*(function.handle as *const Entry) }
}

impl Driver for Emulated {
    fn on(&self, queue: usize) -> Arc<dyn Driver> {
        assert!(queue < QUEUES, "queue {queue} of {QUEUES}");
        Arc::new(Emulated { parts: self.parts.clone(), queue })
    }

    fn chip(&self) -> &Chip {
        &self.parts.chip
    }

    fn version(&self) -> Option<String> {
        Some("emulated".into())
    }

    fn obtain(&self, bytes: usize) -> Option<u64> {
        let try_obtain = || {
            let mut memory = self.parts.memory();
            let now = memory.bytes.checked_add(bytes).filter(|&b| b <= self.parts.chip.memory)?;
            let block = Allocation::new(bytes)?;
            let address = block.address();
            memory.blocks.insert(address, block);
            memory.bytes = now;
            Some(address)
        };
        try_obtain().or_else(|| {
            // Runs pending frees.
            self.parts.run_all();
            try_obtain()
        })
    }

    fn release(&self, address: u64) {
        let give_back = move |parts: &EmulatedState| {
            let mut memory = parts.memory();
            let Some(block) = memory.blocks.remove(&address) else {
                return Err(failed(format!("{address:#x} is given back and was not handed out")));
            };
            memory.bytes -= block.bytes();
            match block.is_overrun() {
                true => Err(failed(format!("something was written beside an allocation of {} bytes", block.bytes()))),
                false => Ok(()),
            }
        };
        self.parts.put_quietly(self.queue, Item::Do(Box::new(give_back)));
    }

    fn compile(&self, source: &str) -> Result<Vec<u8>, Error> {
        // Sources that run here must also be valid CUDA C++: `THALWEG_EMULATE_NVRTC=80,90` has NVRTC compile every
        // source for these chips.
        if let Some(Value::Numbers(chips)) = environment::EMULATE_NVRTC.read()? {
            chips.into_iter().try_for_each(|sm| super::nvrtc::compile_for(sm, source).map(|_| ()))?;
        }
        compile::compile(source)
    }

    fn load(&self, image: &[u8], functions: &[&str]) -> Result<Vec<Function>, Error> {
        let file = compile::Temporary::new();
        std::fs::write(&file.0, image).map_err(|e| failed(format!("no temporary file: {e}")))?;
        let refused = |e: libloading::Error| failed(format!("the compiled kernel cannot be loaded: {e}"));
        // SAFETY: created by `compile`; it has no initialisers.
        let library = unsafe { Library::open(Some(&file.0), RTLD_NOW | RTLD_LOCAL) }.map_err(refused)?;
        // SAFETY: a variable of emulated.cpp, with its type there.
        let runtime = unsafe { library.get::<*mut Runtime>(b"thalweg_runtime\0") }.map_err(refused)?;
        let runtime: *mut Runtime = *runtime;
        let mut entries = vec![];
        for &name in functions {
            // SAFETY: kernels have one parameter, which is passed by address here.
            let kernel = unsafe { library.get::<Kernel>(name.as_bytes()) }.map_err(refused)?;
            entries.push(Entry { name: name.into(), what: What::Kernel(*kernel, runtime) });
        }
        // SAFETY: `runtime` is set when the object is loaded; these two are never written.
        let shared = unsafe { (*runtime).fixed_end as usize - (*runtime).fixed as usize };
        let object = Arc::new(Object { entries: entries.into(), _library: library });
        // Total of all functions: the object does not attribute shared memory to functions.
        let info = FunctionInfo { registers: 32, local: 0, shared: shared as u32, workspace: None };
        let function = |e: &Entry| Function { handle: std::ptr::from_ref(e) as usize, module: object.clone(), info };
        Ok(object.entries.iter().map(function).collect())
    }

    fn occupancy(&self, _function: &Function, block: u32, shared: u32) -> u32 {
        let memory = shared + 1024;
        (self.parts.chip.threads / block.next_multiple_of(32).max(32)).min((SHARED as u32 + 1024) / memory).min(32)
    }

    fn launch(&self, launch: &Launch) -> Result<(), Error> {
        check(launch)?;
        match &entry(&launch.function).what {
            What::Kernel(..) => self.put(running(launch.clone())),
            What::Convolution(convolution) => self.convolve(**convolution, &launch.arguments),
        }
    }

    fn convolution(&self, convolution: &Convolution) -> Option<Function> {
        if environment::CUDNN.is("off") || !convolution::is_supported(convolution) {
            return None;
        }
        let new = || {
            let what = What::Convolution(Box::new(*convolution));
            let module = Arc::new(LibraryEntry(Entry { name: "a convolution".into(), what }));
            let info = FunctionInfo { workspace: Some(convolution::WORKSPACE), ..FunctionInfo::default() };
            Function { handle: std::ptr::from_ref(&module.0) as usize, module, info }
        };
        let mut known = self.parts.convolutions.lock().unwrap_or_else(|e| e.into_inner());
        Some(known.entry(*convolution).or_insert_with(new).clone())
    }

    fn libraries(&self) -> Option<&dyn Libraries> {
        Some(self)
    }

    fn ranks(&self) -> Result<Arc<dyn RankLibrary>, String> {
        ranks::library(self)
    }

    fn has_queues(&self) -> bool {
        !environment::CUDA_QUEUES.is("off")
    }

    fn has_graphs(&self) -> bool {
        !environment::CUDA_GRAPHS.is("off")
    }

    /// Encodes a tensor map as `map_copy` in mapped.cuh reads it: address, rank, extents, strides, elements of a box.
    fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        if !self.parts.chip.capabilities.tensor_maps || !map.is_possible() {
            return None;
        }
        let mut words = [0; MAP_WORDS];
        words[1] = map.extents.len() as u64;
        words[2..2 + MAP_RANK].iter_mut().zip(&map.extents).for_each(|(w, &n)| *w = n as u64);
        words[8..8 + MAP_RANK - 1].iter_mut().zip(&map.strides).for_each(|(w, &s)| *w = s as u64);
        words[12] = u64::from(map.tile[0]);
        words[13] = map.tile[1..].iter().rev().fold(0, |all, &n| all << 16 | u64::from(n));
        Some(words)
    }

    fn place(&self, map: &mut [u64], address: u64) {
        assert!(address.is_multiple_of(16), "a map begins at {address:#x}");
        map[0] = address;
    }

    fn graph(&self, launches: &[Launch]) -> Result<Box<dyn Graph>, Error> {
        let shapes = launches.iter().map(shape).collect();
        Ok(Box::new(Chain { gpu: Emulated { parts: self.parts.clone(), queue: self.queue }, shapes }))
    }

    fn assert_zero(&self, address: u64, words: usize) -> Result<bool, Error> {
        let bytes = words * size_of::<u64>();
        self.parts.check(address, bytes)?;
        self.put(move |parts| {
            parts.check(address, bytes)?;
            // SAFETY: as in `fill`; addresses of words are multiples of their size.
            let all = unsafe { std::slice::from_raw_parts(address as *const u64, words) };
            if all.iter().any(|&word| word != 0) {
                return Err(failed("an assertion: an index is in range"));
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), Error> {
        self.parts.check(address, bytes)?;
        self.put(move |parts| {
            parts.check(address, bytes)?;
            // SAFETY: it is within an allocation that, by the submitter's promise, nobody else uses now.
            unsafe { (address as *mut u8).write_bytes(value, bytes) };
            Ok(())
        })
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.parts.check(address, bytes.len())?;
        let bytes: Box<[u8]> = bytes.into();
        self.put(move |parts| {
            parts.check(address, bytes.len())?;
            // SAFETY: as in `fill`.
            unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            Ok(())
        })
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.parts.finish(self.queue)?;
        self.parts.check(address, bytes.len())?;
        // SAFETY: as in `fill`; every byte of a block has a value.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(address as *const u8, bytes.len()) };
        Ok(())
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        if from.abs_diff(to) < bytes as u64 {
            return Err(failed(format!("copying {bytes} bytes from {from:#x} to {to:#x}: they overlap")));
        }
        self.put(move |parts| {
            parts.check(from, bytes)?;
            parts.check(to, bytes)?;
            // SAFETY: as in `fill`, and they do not overlap.
            unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
            Ok(())
        })
    }

    fn copy_from(&self, other: &dyn Driver, from: u64, to: u64, bytes: usize) -> Option<Result<(), Error>> {
        let other = (other as &dyn Any).downcast_ref::<Emulated>()?.parts.clone();
        Some(self.put(move |parts| {
            other.check(from, bytes)?;
            parts.check(to, bytes)?;
            // SAFETY: as in `fill`; memory of two GPUs does not overlap.
            unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
            Ok(())
        }))
    }

    fn event(&self) -> Result<Box<dyn Event>, Error> {
        Ok(Box::new(self.parts.moment(self.queue)?))
    }

    fn after(&self, event: &dyn Event) -> Result<(), Error> {
        self.parts.put(self.queue, Item::After(queues::Moment::of(event)))
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.parts.run_all();
        self.parts.healthy()
    }
}

impl Libraries for Emulated {
    fn transform(&self, lines: &Lines) -> Option<usize> {
        // Like the library, which needs some workspace.
        (!environment::CUFFT.is("off")).then_some(16 * lines.n)
    }

    fn run_transform(&self, lines: &Lines, [from, to, work]: [u64; 3]) -> Result<(), Error> {
        let (lines, [taken, given]) = (*lines, fourier::bytes(lines));
        self.put(move |parts| {
            parts.check(from, taken)?;
            parts.check(to, given)?;
            parts.check(work, 16 * lines.n)?;
            // SAFETY: both are within allocations that, by the submitter's promise, nobody else uses now.
            unsafe { fourier::run(&lines, from, to) };
            Ok(())
        })
    }

    fn routine(&self, of: &Matrices) -> Option<usize> {
        // Like the library, which needs some workspace.
        (!environment::CUSOLVER.is("off")).then_some(64 * of.count)
    }

    fn run_routine(&self, of: &Matrices, places: &RoutineBuffers) -> Result<Result<(), String>, Error> {
        let (of, places) = (*of, *places);
        let put = self.put(move |parts| {
            solver::reaches(&of, &places).into_iter().try_for_each(|(at, bytes)| parts.check(at, bytes))?;
            // SAFETY: all of it is within allocations that, by the submitter's promise, nobody else uses now.
            unsafe { solver::run(&of, &places) };
            Ok(())
        });
        put.map(Ok)
    }
}

/// Emulated CUDA graph. `shapes` has the function handle and block size of each launch, which an update cannot change.
#[derive(Debug)]
struct Chain {
    gpu: Emulated,
    shapes: Vec<(usize, u32)>,
}

fn shape(launch: &Launch) -> (usize, u32) {
    (launch.function.handle, launch.block)
}

impl Graph for Chain {
    fn run(&mut self, launches: &[Launch]) -> Result<(), Error> {
        if !launches.iter().map(shape).eq(self.shapes.iter().copied()) {
            return Err(failed("a graph is run with other functions or blocks than it was made with"));
        }
        launches.iter().try_for_each(|launch| self.gpu.launch(launch))
    }
}

/// Returns an error for a launch that a real driver would refuse.
fn check(launch: &Launch) -> Result<(), Error> {
    let name = &entry(&launch.function).name;
    refused(launch).map_or(Ok(()), |what| Err(failed(format!("launch of {name}: {what}"))))
}

fn refused(launch: &Launch) -> Option<String> {
    let Launch { grid: [x, y, z], block, shared, arguments, .. } = launch;
    if !(1..=1024).contains(block) {
        return Some(format!("{block} threads in a block"));
    }
    if [x, y, z].contains(&&0) || *x > i32::MAX as u32 || *y > 65535 || *z > 65535 {
        return Some(format!("a grid of {x}×{y}×{z} blocks"));
    }
    if *shared as usize > SHARED {
        return Some(format!("{shared} bytes of dynamic shared memory"));
    }
    (arguments.len() * 8 > ARGUMENTS).then(|| format!("{} words of arguments", arguments.len()))
}

/// Memory of the running launch: its shared memory, and its argument words. Each ends at a guard page.
struct Around {
    shared: Guarded,
    arguments: Guarded,
}

static AROUND: Mutex<Option<Around>> = Mutex::new(None);

/// Returns the work item that runs a launch. The memory traffic of the launch counts for the calling thread.
fn running(launch: Launch) -> impl FnOnce(&EmulatedState) -> Result<(), Error> + Send + 'static {
    let moved = MOVED.with(Arc::clone);
    move |_| run(&launch, &moved)
}

/// Runs all blocks of a launch.
fn run(launch: &Launch, moved_before: &[AtomicU64; 2]) -> Result<(), Error> {
    faults::catch();
    let entry = entry(&launch.function);
    // The lock also separates launches that use the same runtime and shared memory.
    let mut scheduler = SCHEDULER.lock().unwrap_or_else(|e| e.into_inner());
    let mut around = AROUND.lock().unwrap_or_else(|e| e.into_inner());
    if around.is_none() {
        let new = || Some(Around { shared: Guarded::new(SHARED)?, arguments: Guarded::new(ARGUMENTS)? });
        *around = Some(new().ok_or_else(|| failed("no memory for a block's shared memory"))?);
    }
    let Around { shared, arguments } = around.as_ref().expect("just made");
    let (words, bytes) = (&launch.arguments, (launch.shared as usize).next_multiple_of(16));
    // SAFETY: `check` made sure that both fit, and nobody else uses them while they are locked.
    let (words, dynamic) = unsafe {
        let at = arguments.end().cast::<u64>().sub(words.len());
        at.copy_from_nonoverlapping(words.as_ptr(), words.len());
        (at, shared.end().sub(bytes))
    };
    let [nx, ny, nz] = launch.grid;
    let What::Kernel(kernel, runtime) = entry.what else { unreachable!("only kernels have blocks") };
    // SAFETY: the object is loaded as long as the function lives, and the scheduler is locked: nobody else writes.
    unsafe {
        (*runtime).meet = WAIT_AT_BARRIER;
        (*runtime).shared = dynamic;
        (*runtime).block_size = [launch.block, 1, 1];
        (*runtime).grid_size = launch.grid;
        (*runtime).moved = [0; 2];
    }
    let blocks = u64::from(nx) * u64::from(ny) * u64::from(nz);
    let (threads_back, blocks_back) = scheduler.directions();
    let say = |block: [u32; 3], why: String| failed(format!("{} in block {block:?}: {why}", entry.name));
    // SAFETY: as above.
    let (static_part, fixed) = unsafe { ((*runtime).fixed, (*runtime).fixed_end as usize - (*runtime).fixed as usize) };
    // Suspended blocks, which wait for other blocks: their threads, block indices and shared memory contents.
    let mut aside: VecDeque<(SuspendedBlock, [u32; 3], Vec<u8>)> = VecDeque::new();
    let shared_now = || {
        let mut all = vec![0; fixed + bytes];
        // SAFETY: as above; the shared memory is the running block's alone.
        unsafe {
            static_part.copy_to(all.as_mut_ptr(), fixed);
            dynamic.copy_to(all.as_mut_ptr().add(fixed), bytes);
        }
        all
    };
    for index in 0..blocks {
        let index = if blocks_back { blocks - 1 - index } else { index };
        let (row, x) = (index / u64::from(nx), (index % u64::from(nx)) as u32);
        let block = [x, (row % u64::from(ny)) as u32, (row / u64::from(ny)) as u32];
        // SAFETY: as above; the shared memory is this block's alone.
        let done = unsafe {
            (*runtime).block = block;
            static_part.write_bytes(RUBBISH, fixed);
            dynamic.write_bytes(RUBBISH, bytes);
            scheduler.run_block(runtime, kernel, words, launch.block as usize, threads_back == (index % 2 == 0))
        };
        match done.map_err(|why| say(block, why))? {
            Outcome::Done => {}
            Outcome::Waits(who, _) => aside.push_back((who, block, shared_now())),
        }
        // Waiting blocks resume one after the other, until none of them makes progress. `in_vain` counts those that were
        // resumed since the last progress.
        let mut in_vain = 0;
        while in_vain < aside.len() {
            let (who, block, memory) = aside.pop_front().expect("some wait");
            // SAFETY: as above; the memory is what this block had when it was suspended.
            let done = unsafe {
                (*runtime).block = block;
                static_part.copy_from(memory.as_ptr(), fixed);
                dynamic.copy_from(memory.as_ptr().add(fixed), bytes);
                scheduler.take_up(who)
            };
            match done.map_err(|why| say(block, why))? {
                Outcome::Done => in_vain = 0,
                Outcome::Waits(who, further) => {
                    in_vain = if further { 0 } else { in_vain + 1 };
                    aside.push_back((who, block, shared_now()));
                }
            }
        }
        if aside.len() >= MAX_CORESIDENT_BLOCKS {
            scheduler.forget();
            return Err(say(
                block,
                format!("{} blocks wait for others, more than a chip is sure to hold", aside.len()),
            ));
        }
    }
    if let Some((_, block, _)) = aside.front() {
        let block = *block;
        scheduler.forget();
        return Err(say(block, "it waits for what no block tells".into()));
    }
    // SAFETY: as above, and no block runs any more.
    let moved = unsafe { (*runtime).moved };
    moved_before.iter().zip(moved).for_each(|(all, more)| {
        all.fetch_add(more, Relaxed);
    });
    Ok(())
}

thread_local! {
    static MOVED: Arc<[AtomicU64; 2]> = Arc::default();
}

/// Bytes of global memory that the kernels launched by the calling thread have loaded and stored, including scratch,
/// second passes, and loads of one element by several threads. Atomic operations, sorts and scatters are not counted,
/// or not in full. Pending work of all emulated GPUs runs first.
pub fn moved() -> [u64; 2] {
    queues::run_everything();
    MOVED.with(|moved| moved.each_ref().map(|m| m.load(Relaxed)))
}
