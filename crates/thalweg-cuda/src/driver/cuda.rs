//! A real GPU, by NVIDIA's driver.
//!
//! In: the calls of [`Driver`]. Out: work on streams of the device's primary context, which is shared with other
//! libraries in the process; a stream for each queue.
//!
//! Always true: all work is in the order of the driver's queue. Memory is allocated and freed in that order too, so
//! neither waits for the device.
//!
//! * `api`: the driver's functions.
//! * `assertion`: assertions that indices were in range.
//! * `balance`: calls that may wait for a GPU, while other GPUs of the process wait for it.
//! * `chip`: properties of a GPU.
//! * `chosen`: a matrix product with its algorithm.
//! * `code`: loaded modules, and their launches.
//! * `gpu`: context, streams, errors, waiting.
//! * `staging`: copies between host and device.
//! * `graph`: CUDA graphs.
//! * `map`: tensor maps (TMA descriptors).
//! * `peer`: copies from one GPU to another.
//! * `products`: choice of a product's algorithm in cuBLASLt.
//! * `ranks`: the GPU as NCCL's target.

mod api;
mod assertion;
mod balance;
mod chip;
mod chosen;
mod code;
mod convolutions;
mod gpu;
mod graph;
mod map;
mod peer;
mod products;
mod ranks;
mod staging;

use thalweg_gpu::product::Product;
use thalweg_gpu::runtime::RankLibrary;

use super::cufft::Plans;
use super::cusolver::Solvers;
use super::{
    Chip, Driver, Event, Function, Graph, Launch, Libraries, Lines, MAP_WORDS, Matrices, RoutineBuffers, TensorMap,
    nvrtc,
};
use api::{Api, SUCCESS};
use chip::{ask, chip};
use convolutions::Convolutions;
use cudarc::driver::sys::{
    CUdevice, CUdevice_attribute_enum as Attribute, CUevent, CUmemAllocationType_enum, CUmemLocationType_enum,
    CUmemPool_attribute_enum, CUmemPoolProps, CUmemoryPool, CUstream,
};
use gpu::Gpu;
use products::Products;
use staging::Staging;
use std::any::Any;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thalweg_ir::Convolution;
use thalweg_runtime::{Error, QUEUES, environment};

/// Minimum and maximum bytes by which the pool is grown in advance.
const MIN_POOL_GROWTH: usize = 32 << 20;
const MAX_POOL_GROWTH: usize = 512 << 20;

/// Driver of a real GPU, with the queue that its calls submit work to.
#[derive(Debug)]
pub struct Cuda {
    parts: Arc<GpuState>,
    queue: usize,
}

/// State that all queues of a GPU share.
#[derive(Debug)]
pub struct GpuState {
    gpu: Arc<Gpu>,
    chip: Chip,
    /// Pool of device memory. Null where the device does not support pools: then each block is allocated by the driver
    /// directly, which waits for the device.
    ///
    /// It is a pool of our own, and not the device's: others configure that one as they like. It keeps all memory that
    /// is freed to it, since the pool of buffers above frees only to allocate something else. The next
    /// [`Driver::synchronize`] returns unused memory to the system.
    pool: CUmemoryPool,
    /// Whether an allocation was released to the pool since the last trim, other than a reserve of [`Cuda::grow`]. If
    /// so, [`Driver::synchronize`] trims the pool.
    kept: AtomicBool,
    /// Bytes that were ever allocated, and bytes that the pool was grown by in advance: see [`Cuda::grow`].
    obtained: [AtomicUsize; 2],
    staging: Staging,
    /// CUDA version of the driver, in its own numbering: 12040 for 12.4.
    version: u32,
    /// Major CUDA version of the driver: libraries of newer majors do not work with it.
    major: u32,
    products: Products,
    convolutions: Convolutions,
    /// Cache of cuFFT plans.
    transforms: Mutex<Plans>,
    /// cuSOLVER handles of each stream.
    solvers: Mutex<Solvers>,
    /// GPUs that have access to this one's pool, for copies.
    open_to: Mutex<Vec<CUdevice>>,
    /// Function that asserts, once it was needed; `None` if it could not be compiled.
    assertion: OnceLock<Option<Function>>,
}

// SAFETY: the driver's handles may be used on any thread, several at once.
unsafe impl Send for GpuState {}
// SAFETY: as above.
unsafe impl Sync for GpuState {}

impl Deref for Cuda {
    type Target = GpuState;

    fn deref(&self) -> &GpuState {
        &self.parts
    }
}

impl Cuda {
    /// Number of GPUs that the driver finds.
    ///
    /// # Errors
    /// [`Error::Device`] with what to install when there is no driver.
    pub fn count() -> Result<usize, Error> {
        let api = Api::get()?;
        let mut n = 0;
        // SAFETY: an out-pointer to a number. It fails where there is no driver, which cuInit has reported.
        let counted = unsafe { (api.device_count)(&mut n) };
        Ok(if counted == SUCCESS { n.max(0) as usize } else { 0 })
    }

    /// Properties of all GPUs, by number. No GPU is opened.
    ///
    /// # Errors
    /// [`Error::Device`] with what to install when there is no driver, or why a GPU cannot be queried.
    pub fn chips() -> Result<Vec<Chip>, Error> {
        let api = Api::get()?;
        let chip = |ordinal: usize| {
            let failed = |message| Error::Device { device: format!("cuda:{ordinal}"), message };
            let mut device = 0;
            // SAFETY: an out-pointer to a number.
            match unsafe { (api.device)(&mut device, ordinal as i32) } {
                SUCCESS => chip(api, device, &|attribute| ask(api, device, attribute)).map_err(failed),
                error => Err(failed(format!("cuDeviceGet: {}", api.describe(error)))),
            }
        };
        (0..Cuda::count()?).map(chip).collect()
    }

    /// Opens a GPU by number. Its primary context is retained for as long as the process lives: threads remember that
    /// they made it current.
    ///
    /// # Errors
    /// [`Error::Device`] with what to install when there is no driver, or why the GPU cannot be used.
    pub fn open(ordinal: usize) -> Result<Arc<Cuda>, Error> {
        let api = Api::get()?;
        let name = format!("cuda:{ordinal}");
        let failed = |message: String| Error::Device { device: name.clone(), message };
        let check = |call: &str, result: i32| match result {
            SUCCESS => Ok(()),
            error => Err(failed(format!("{call}: {}", api.describe(error)))),
        };
        let there = Cuda::count()?;
        if ordinal >= there {
            return Err(failed(format!("there is no such GPU: {there} are seen by this process")));
        }
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: an out-pointer to a number.
        check("cuDeviceGet", unsafe { (api.device)(&mut device, ordinal as i32) })?;
        // SAFETY: an out-pointer to a handle.
        check("cuDevicePrimaryCtxRetain", unsafe { (api.context)(&mut context, device) })?;
        let gpu = Arc::new(Gpu::new(api, name.clone(), context)?);
        let attribute = |attribute| ask(api, device, attribute);
        let chip = chip(api, device, &attribute).map_err(&failed)?;
        // Programmatic dependent launch needs Hopper or newer.
        let asked = !environment::CUDA_OVERLAP.is("off");
        gpu.overlaps.store(asked && chip.sm >= 90, Relaxed);
        let pooled = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED).map_err(&failed)? != 0;
        let pool = if pooled { pool(&gpu, device)? } else { null_mut() };
        let (staging, mut version) = (Staging::new(gpu.clone()), 0);
        // SAFETY: an out-pointer to a number.
        check("cuDriverGetVersion", unsafe { (api.version)(&mut version) })?;
        let parts = GpuState {
            gpu,
            chip,
            pool,
            kept: AtomicBool::new(false),
            obtained: [const { AtomicUsize::new(0) }; 2],
            staging,
            version: version.max(0) as u32,
            major: version.max(0) as u32 / 1000,
            products: Products::default(),
            convolutions: Convolutions::default(),
            transforms: Mutex::default(),
            solvers: Mutex::default(),
            open_to: Mutex::default(),
            assertion: OnceLock::new(),
        };
        let parts = Arc::new(parts);
        ranks::register(&parts);
        Ok(Arc::new(Cuda { parts, queue: 0 }))
    }

    /// Grows the pool ahead of demand once allocations of `bytes` exceed its reserve: by `bytes` plus half of the
    /// reserve (that half at least 32 MiB and at most 512 MiB). Mapping memory takes the driver some hundred
    /// microseconds each time, and computations with new sizes request memory again and again.
    fn grow(&self, bytes: usize) {
        let [obtained, held] = &self.obtained;
        let now = obtained.fetch_add(bytes, Relaxed) + bytes;
        let before = held.load(Relaxed);
        if self.pool.is_null() || now <= before || bytes > MAX_POOL_GROWTH {
            return;
        }
        let more = bytes + (before / 2).clamp(MIN_POOL_GROWTH, MAX_POOL_GROWTH);
        if let Some(address) = self.try_obtain(more) {
            held.fetch_add(more, Relaxed);
            // Memory that is held in advance is not returned to the system.
            let kept = self.kept.load(Relaxed);
            self.release(address);
            self.kept.store(kept, Relaxed);
        }
    }

    /// Returns all unused memory of the pool to the system.
    fn trim(&self) {
        self.obtained.iter().for_each(|n| n.store(0, Relaxed));
        self.kept.store(false, Relaxed);
        if !self.pool.is_null() {
            // SAFETY: the pool is ours.
            unsafe { (self.gpu.api.pool_trim)(self.pool, 0) };
        }
    }

    fn try_obtain(&self, bytes: usize) -> Option<u64> {
        let (api, mut address) = (self.gpu.api, 0);
        let turn = self.gpu.turn(self.queue).ok()?;
        // SAFETY: an out-pointer to an address; the pool is ours.
        let result = unsafe {
            if self.pool.is_null() {
                (api.allocate)(&mut address, bytes)
            } else {
                (api.pool_allocate)(&mut address, bytes, self.pool, turn.handle)
            }
        };
        let obtained = self.gpu.check("cuMemAllocAsync", result);
        let obtained = obtained.inspect_err(|error| tracing::debug!(%error, bytes, "no memory"));
        debug_assert!(address % 256 == 0);
        obtained.ok().map(|()| address)
    }
}

/// Creates a memory pool that keeps all memory that is freed to it.
fn pool(gpu: &Gpu, device: CUdevice) -> Result<CUmemoryPool, Error> {
    // SAFETY: all fields may be zero: no handles to share, no limit.
    let mut properties: CUmemPoolProps = unsafe { MaybeUninit::zeroed().assume_init() };
    properties.allocType = CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    let (mut pool, mut threshold) = (null_mut(), u64::MAX);
    // SAFETY: an out-pointer to a handle, and valid properties.
    gpu.check("cuMemPoolCreate", unsafe { (gpu.api.pool)(&mut pool, &properties) })?;
    let attribute = CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as u32;
    // SAFETY: the pool just created, and a value of the attribute's type.
    let set = unsafe { (gpu.api.pool_set)(pool, attribute, (&raw mut threshold).cast()) };
    gpu.check("cuMemPoolSetAttribute", set)?;
    Ok(pool)
}

impl Drop for GpuState {
    fn drop(&mut self) {
        if !self.pool.is_null() && self.gpu.drain_all().is_ok() {
            // SAFETY: the pool is ours, and the queues are empty. Blocks that are still allocated keep their memory
            // until they are freed, which is no longer possible.
            unsafe { (self.gpu.api.pool_destroy)(self.pool) };
        }
    }
}

impl Driver for Cuda {
    fn chip(&self) -> &Chip {
        &self.chip
    }

    fn version(&self) -> Option<String> {
        Some(format!("driver for CUDA {}.{}", self.version / 1000, self.version % 1000 / 10))
    }

    fn obtain(&self, bytes: usize) -> Option<u64> {
        self.gpu.enter().ok()?;
        let _guard = self.guard();
        self.grow(bytes);
        self.try_obtain(bytes.max(1)).or_else(|| {
            // Waits for freed memory that earlier launches still use, and returns fragments to the system.
            self.gpu.drain(self.queue).ok()?;
            self.trim();
            self.try_obtain(bytes.max(1))
        })
    }

    fn release(&self, address: u64) {
        let Ok(turn) = self.gpu.turn(self.queue) else { return };
        // SAFETY: it came from `obtain`, and its owner uses it in no work that is submitted later.
        let result = unsafe {
            if self.pool.is_null() {
                (self.gpu.api.free)(address)
            } else {
                self.kept.store(true, Relaxed);
                (self.gpu.api.pool_free)(address, turn.handle)
            }
        };
        if let Err(error) = self.gpu.check("cuMemFreeAsync", result) {
            tracing::debug!(%error, "memory could not be given back");
        }
    }

    fn compile(&self, source: &str) -> Result<Vec<u8>, Error> {
        nvrtc::compile_for(self.chip.sm, source)
    }

    fn load(&self, image: &[u8], functions: &[&str]) -> Result<Vec<Function>, Error> {
        let _guard = self.guard();
        code::load(&self.gpu, image, functions)
    }

    fn occupancy(&self, function: &Function, block: u32, shared: u32) -> u32 {
        let ask = || -> Result<i32, Error> {
            let (entry, mut blocks) = (code::entry(function), 0);
            self.gpu.enter()?;
            let function = entry.allow(&self.gpu, shared)?;
            // SAFETY: an out-pointer to a number, and a loaded function.
            let asked = unsafe { (self.gpu.api.occupancy)(&mut blocks, function, block as i32, shared as usize) };
            self.gpu.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", asked)?;
            Ok(blocks)
        };
        // Where the driver refuses this, it would refuse the launch.
        ask().map_or(0, |blocks| blocks.max(0) as u32)
    }

    fn launch(&self, launch: &Launch) -> Result<(), Error> {
        code::launch(&self.gpu, &mut self.gpu.turn(self.queue)?, launch)
    }

    fn product(&self, product: &Product) -> Option<Function> {
        let _guard = self.guard();
        self.chosen(product)
    }

    fn convolution(&self, convolution: &Convolution) -> Option<Function> {
        let _guard = self.guard();
        self.chosen_convolution(convolution)
    }

    fn libraries(&self) -> Option<&dyn Libraries> {
        Some(self)
    }

    fn ranks(&self) -> Result<Arc<dyn RankLibrary>, String> {
        let target = ranks::OfGpu::new(Cuda { parts: self.parts.clone(), queue: self.queue });
        Ok(Arc::new(super::nccl::Nccl::open(Arc::new(target), self.major)?))
    }

    fn has_queues(&self) -> bool {
        !environment::CUDA_QUEUES.is("off")
    }

    fn has_graphs(&self) -> bool {
        !environment::CUDA_GRAPHS.is("off")
    }

    fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        (self.chip.capabilities.tensor_maps && map.is_possible()).then(|| self.gpu.map(map)).flatten()
    }

    fn place(&self, map: &mut [u64], address: u64) {
        self.gpu.place(map, address);
    }

    fn graph(&self, launches: &[Launch]) -> Result<Box<dyn Graph>, Error> {
        let _guard = self.guard();
        Ok(Box::new(graph::Chain::new(self.gpu.clone(), self.queue, launches)?))
    }

    fn assert_zero(&self, address: u64, words: usize) -> Result<bool, Error> {
        let Some(function) = assertion::function(&self.assertion, self) else { return Ok(false) };
        self.launch(&assertion::launch(function, address, words))?;
        Ok(true)
    }

    fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), Error> {
        let turn = self.gpu.turn(self.queue)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range is the caller's.
        self.gpu.check("cuMemsetD8Async", unsafe { (self.gpu.api.fill)(address, value, bytes, turn.handle) })
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.staging.write(self.queue, address, &[bytes])
    }

    fn write_all(&self, address: u64, spans: &[&[u8]]) -> Result<(), Error> {
        self.staging.write(self.queue, address, spans)
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.staging.read(self.queue, address, bytes)
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        let turn = self.gpu.turn(self.queue)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges are the caller's.
        self.gpu.check("cuMemcpyDtoDAsync", unsafe { (self.gpu.api.within)(to, from, bytes, turn.handle) })
    }

    fn copy_from(&self, other: &dyn Driver, from: u64, to: u64, bytes: usize) -> Option<Result<(), Error>> {
        let other = (other as &dyn Any).downcast_ref::<Cuda>()?;
        Some(self.copy_from_peer(other, (from, to), bytes))
    }

    fn event(&self) -> Result<Box<dyn Event>, Error> {
        self.mark(true)
    }

    fn point(&self) -> Result<Box<dyn Event>, Error> {
        self.mark(false)
    }

    fn after(&self, event: &dyn Event) -> Result<(), Error> {
        let turn = self.gpu.turn(self.queue)?;
        // SAFETY: an event of a context of this process, and a stream of this one.
        let put = unsafe { (self.gpu.api.stream_wait)(turn.handle, event.handle() as CUevent, 0) };
        self.gpu.check("cuStreamWaitEvent", put)
    }

    fn stream_event(&self, stream: usize) -> Result<Option<Box<dyn Event>>, Error> {
        self.gpu.enter()?;
        let moment = Moment { gpu: self.gpu.clone(), event: self.gpu.obtain_event(false)?, timed: false };
        // SAFETY: an event of this context; the caller's stream is of the same one.
        let put = unsafe { (self.gpu.api.event_record)(moment.event, stream as CUstream) };
        self.gpu.check("cuEventRecord", put)?;
        Ok(Some(Box::new(moment)))
    }

    fn before_stream(&self, stream: usize) -> Result<(), Error> {
        let moment = self.mark(false)?;
        // SAFETY: as above.
        let put = unsafe { (self.gpu.api.stream_wait)(stream as CUstream, moment.handle() as CUevent, 0) };
        self.gpu.check("cuStreamWaitEvent", put)
    }

    fn on(&self, queue: usize) -> Arc<dyn Driver> {
        assert!(queue < QUEUES, "queue {queue} of {QUEUES}");
        Arc::new(Cuda { parts: self.parts.clone(), queue })
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.gpu.drain_all()?;
        if self.kept.load(Relaxed) {
            self.trim();
        }
        Ok(())
    }
}

impl Libraries for Cuda {
    fn transform(&self, lines: &Lines) -> Option<usize> {
        let stream = self.gpu.turn(self.queue).ok()?.handle as usize;
        let mut plans = self.transforms.lock().unwrap_or_else(PoisonError::into_inner);
        let made = plans.workspace(lines, stream, self.major);
        made.inspect_err(|why| tracing::debug!(why, ?lines, "transformed on the host")).ok()
    }

    fn run_transform(&self, lines: &Lines, places: [u64; 3]) -> Result<(), Error> {
        let turn = self.gpu.turn(self.queue)?;
        let mut plans = self.transforms.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller has device memory at these addresses, and the stream is this context's.
        let put = unsafe { plans.run(lines, places, turn.handle as usize, self.major) };
        put.map_err(|message| Error::Device { device: self.gpu.name.clone(), message })
    }

    fn routine(&self, of: &Matrices) -> Option<usize> {
        let stream = self.gpu.turn(self.queue).ok()?.handle as usize;
        let mut solvers = self.solvers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = solvers.workspace(of, stream, self.major);
        known.inspect_err(|why| tracing::debug!(why, ?of, "decomposed on the host")).ok()
    }

    fn run_routine(&self, of: &Matrices, places: &RoutineBuffers) -> Result<Result<(), String>, Error> {
        let turn = self.gpu.turn(self.queue)?;
        let mut solvers = self.solvers.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller has device memory at these addresses, and the stream is this context's.
        let put = unsafe { solvers.run(of, places, turn.handle as usize, self.major) };
        drop(turn);
        // A failure that ended the context is an error of the device.
        self.gpu.enter()?;
        Ok(put)
    }
}

impl Cuda {
    /// Begins a call that may wait until the GPU is idle.
    fn guard(&self) -> balance::Guard {
        balance::guard(self.gpu.context as usize)
    }

    fn mark(&self, timed: bool) -> Result<Box<dyn Event>, Error> {
        let turn = self.gpu.turn(self.queue)?;
        let moment = Moment { gpu: self.gpu.clone(), event: self.gpu.obtain_event(timed)?, timed };
        turn.record(&self.gpu, moment.event)?;
        Ok(Box::new(moment))
    }
}

/// Event in a CUDA stream.
#[derive(Debug)]
struct Moment {
    gpu: Arc<Gpu>,
    event: CUevent,
    /// Whether the event records a timestamp.
    timed: bool,
}

// SAFETY: an event may be used on any thread, several at once.
unsafe impl Send for Moment {}
// SAFETY: as above.
unsafe impl Sync for Moment {}

impl Event for Moment {
    fn wait(&self) -> Result<(), Error> {
        self.gpu.enter()?;
        self.gpu.wait(self.event)
    }

    fn has_happened(&self) -> Result<bool, Error> {
        self.gpu.enter()?;
        self.gpu.has_happened(self.event)
    }

    fn since(&self, earlier: &dyn Event) -> Result<f64, Error> {
        self.wait()?;
        let mut milliseconds = 0f32;
        // SAFETY: an out-pointer to a number; both are events of this device that have happened.
        let asked = unsafe { (self.gpu.api.event_elapsed)(&mut milliseconds, earlier.handle() as CUevent, self.event) };
        self.gpu.check("cuEventElapsedTime", asked)?;
        Ok(f64::from(milliseconds) * 1e6)
    }

    fn handle(&self) -> usize {
        self.event as usize
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        self.gpu.release_event(self.event, self.timed);
    }
}
