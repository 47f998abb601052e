//! The CPU device: a cache of compiled programs by kernel, memory from a pool, synchronous launches.

use crate::engine::Choice;
use crate::fused_gemm::ContractionProgram;
use crate::group::{GroupProgram, PartProgram};
use crate::hardware;
use crate::map::{BoxesProgram, MapProgram};
use crate::memory::HostMemory;
use crate::reduction::RowsProgram;
use crate::scatter::{Input, ScatterProgram};
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Instant;
use thalweg_ir::DType;
use thalweg_kernel::{Computed, Contracts, Geometry, Kernel, Machine};
use thalweg_runtime::environment::{self, Value};
use thalweg_runtime::{Buffer, Device, Error, MemoryStats, Pool, Program, count};

/// Minimum estimated nanoseconds of work at which a launch uses more than the calling thread. Waking a helper that
/// still spins takes 1 µs, one that sleeps 20 to 50 µs (measured on two cores of a Zen 5 under a hypervisor); the
/// caller waits for neither. A token of a decoder, whose weights are read once, takes 5 % less time with 12 µs than
/// with 30.
const PARALLEL_NS: f64 = 12_000.0;

/// Capacity of the program cache; the cache is cleared when it is full. Plans own the programs that they run.
const MAX_PROGRAMS: usize = 16_384;

/// Estimated nanoseconds that one thread takes to compile a kernel; decides how many threads compile a batch.
const COMPILE_NS: f64 = 50_000.0;

/// Options of a [`CpuDevice`].
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// Number of threads that a launch may use, including the calling one.
    pub threads: usize,
    /// Minimum estimated nanoseconds of work at which a launch uses more than the calling thread.
    pub parallel_ns: f64,
    /// Engine that compiles map bodies.
    pub isa: Choice,
}

impl CpuOptions {
    /// Options from the environment: `THALWEG_THREADS` threads, or as many as the process may use; the engine that
    /// `THALWEG_ISA` names, or the best available one.
    ///
    /// # Errors
    /// If one of these variables has an invalid value.
    pub fn from_environment() -> Result<CpuOptions, Error> {
        let threads = match environment::THREADS.read()? {
            Some(Value::Number(n)) => n as usize,
            _ => std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        Ok(CpuOptions { threads, parallel_ns: PARALLEL_NS, isa: Choice::from_environment()? })
    }
}

impl Default for CpuOptions {
    /// Returns the options from the environment: [`CpuOptions::from_environment`]. Panics on an error.
    fn default() -> CpuOptions {
        CpuOptions::from_environment().unwrap_or_else(|mistake| panic!("{mistake}"))
    }
}

/// The CPUs of the host as a device.
pub struct CpuDevice {
    pool: Arc<Pool>,
    threads: Arc<Threads>,
    isa: Choice,
    programs: RwLock<HashMap<Kernel, Compiled>>,
}

/// Compiled program of a kernel: `Part` may be a sub-kernel of a group (maps and row kernels), `Whole` may not.
#[derive(Clone)]
enum Compiled {
    Part(PartProgram),
    Whole(Arc<dyn Program>),
}

impl Compiled {
    fn program(&self) -> Arc<dyn Program> {
        match self {
            Compiled::Part(part) => part.program(),
            Compiled::Whole(program) => program.clone(),
        }
    }
}

impl CpuDevice {
    /// Opens the device configured by the environment, including `THALWEG_MEMORY_LIMIT`.
    ///
    /// # Errors
    /// If a variable of the environment has an invalid value.
    pub fn open() -> Result<Arc<CpuDevice>, Error> {
        environment::check()?;
        let device = CpuDevice::with(CpuOptions::from_environment()?);
        device.pool.set_limit(thalweg_runtime::limit_from_environment()?);
        Ok(device)
    }

    /// Opens a device with these options; ignores the environment.
    pub fn with(options: CpuOptions) -> Arc<CpuDevice> {
        Arc::new(CpuDevice {
            pool: Pool::new("cpu".into(), Box::new(HostMemory::default())),
            threads: Arc::new(Threads::new(options.threads, options.parallel_ns)),
            isa: options.isa,
            programs: RwLock::default(),
        })
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled, Error> {
        let threads = self.threads.clone();
        Ok(match kernel {
            Kernel::Map(body) => Compiled::Part(PartProgram::Map(Arc::new(MapProgram::new(body, self.isa, threads)))),
            Kernel::Boxes(bodies) => {
                Compiled::Part(PartProgram::Boxes(Arc::new(BoxesProgram::new(bodies, self.isa, &threads))))
            }
            Kernel::Rows { body, orientation } => {
                let program = RowsProgram::new(body, *orientation, self.isa, threads);
                Compiled::Part(PartProgram::Rows(Arc::new(program)))
            }
            Kernel::Contraction(c) if c.dtype == DType::Bool => {
                return Err(Error::Compile { device: "cpu".into(), message: "bool has no matrix product".into() });
            }
            Kernel::Contraction(c) => Compiled::Whole(Arc::new(ContractionProgram::new(c, self.isa, threads))),
            Kernel::Scatter { op, dtype, inputs, .. } => {
                let compile = |input: &Option<Box<Computed>>| -> Result<Option<Input>, Error> {
                    let Some(c) = input.as_deref() else { return Ok(None) };
                    Ok(Some(Input::new(self.compile(&c.kernel)?.program(), c.operands, c.scalars)))
                };
                let inputs = [compile(&inputs[0])?, compile(&inputs[1])?];
                Compiled::Whole(Arc::new(ScatterProgram::new(*op, *dtype, inputs, self.pool.clone(), threads)))
            }
            Kernel::Foreign { of, .. } => {
                let message = format!("{} is written in CUDA C++", of.source().name);
                return Err(Error::Compile { device: "cpu".into(), message });
            }
            Kernel::Group { kernels, parts } => {
                // Programs are shared with separate launches of the same kernels.
                let program = |kernel: &Kernel| match self.compiled(kernel)? {
                    Compiled::Part(part) => Ok(part),
                    Compiled::Whole(_) => panic!("no part of a group: {kernel:?}"),
                };
                let programs: Result<Vec<PartProgram>, Error> = kernels.iter().map(program).collect();
                Compiled::Whole(Arc::new(GroupProgram::new(&programs?, parts, threads)))
            }
        })
    }

    /// Compiles the kernels that have no program yet, on all threads, if there are at least
    /// `TUNABLES.min_compiled_together` of them. Failures are ignored here; the later request for the program reports
    /// them.
    fn compile_in_parallel<'a>(&self, kernels: impl Iterator<Item = &'a Kernel>) {
        let programs = self.programs.read().unwrap_or_else(|e| e.into_inner());
        let mut seen = HashSet::new();
        let parts = kernels.flat_map(|kernel| match kernel {
            Kernel::Group { kernels, .. } => kernels.as_ref(),
            one => std::slice::from_ref(one),
        });
        let new: Vec<&Kernel> = parts.filter(|k| !programs.contains_key(k) && seen.insert(*k)).collect();
        drop(programs);
        if !TUNABLES.min_compiled_together.reached_by(new.len()) {
            return;
        }
        let made: Vec<OnceLock<(Compiled, u64)>> = new.iter().map(|_| OnceLock::new()).collect();
        let compile = |range: Range<usize>| {
            for at in range {
                let start = Instant::now();
                if let Ok(compiled) = self.compile(new[at]) {
                    let _ = made[at].set((compiled, start.elapsed().as_nanos() as u64));
                }
            }
        };
        self.threads.run(new.len(), 1, new.len() as f64 * COMPILE_NS, compile);
        let mut programs = self.programs.write().unwrap_or_else(|e| e.into_inner());
        if programs.len() + new.len() > MAX_PROGRAMS {
            programs.clear();
        }
        for (kernel, made) in new.into_iter().zip(made) {
            let Some((compiled, ns)) = made.into_inner() else { continue };
            programs.entry(kernel.clone()).or_insert(compiled);
            count(|c| {
                c.programs_compiled += 1;
                c.compile_ns += ns;
            });
        }
    }

    /// Returns the program of a kernel; compiles it on a cache miss.
    fn compiled(&self, kernel: &Kernel) -> Result<Compiled, Error> {
        // The map is consistent at every point at which a panic could poison the lock.
        if let Some(program) = self.programs.read().unwrap_or_else(|e| e.into_inner()).get(kernel) {
            return Ok(program.clone());
        }
        let start = Instant::now();
        let made = self.compile(kernel)?;
        // A group has no code of its own; its sub-kernels are counted.
        if !matches!(kernel, Kernel::Group { .. }) {
            let ns = start.elapsed().as_nanos() as u64;
            count(|c| {
                c.programs_compiled += 1;
                c.compile_ns += ns;
            });
        }
        // If two threads compiled the same kernel, the first program stays.
        let mut programs = self.programs.write().unwrap_or_else(|e| e.into_inner());
        if programs.len() >= MAX_PROGRAMS {
            programs.clear();
        }
        Ok(programs.entry(kernel.clone()).or_insert(made).clone())
    }
}

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuDevice({}, {:?})", self.describe(), self.pool)
    }
}

/// Address of a buffer in host memory.
fn bytes_of(buffer: &Buffer) -> *mut u8 {
    buffer.address()
}

impl Device for CpuDevice {
    fn name(&self) -> &str {
        "cpu"
    }

    fn describe(&self) -> String {
        // Only the first 2 KiB: reading the whole file takes milliseconds on a machine with many processors, and every
        // process pays for this call.
        let mut text = vec![];
        let read = std::fs::File::open("/proc/cpuinfo").and_then(|f| f.take(2048).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let model = read.ok().and_then(|_| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let n = self.threads.count();
        format!("{model}, {}, {n} thread{}", self.isa.name(), if n == 1 { "" } else { "s" })
    }

    fn threads(&self) -> usize {
        self.threads.count()
    }

    fn machine(&self) -> Machine {
        let machine = hardware::machine();
        if self.isa.permutes_lines() { machine } else { Machine { close_bytes: 0, ..machine } }
    }

    fn contracts(&self) -> Contracts {
        Contracts::Rows
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.pool.allocate(bytes)
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        Ok(self.compiled(kernel)?.program())
    }

    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        if TUNABLES.min_compiled_together.reached_by(launches.len()) {
            self.compile_in_parallel(launches.iter().map(|(kernel, _)| *kernel));
        }
        launches.iter().map(|(kernel, _)| self.program(kernel)).collect()
    }

    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), Error> {
        assert!(bytes.len() <= buffer.bytes(), "{} bytes written to a buffer of {}", bytes.len(), buffer.bytes());
        // SAFETY: the buffer is at least as long as the source. `copy` also permits overlap.
        unsafe { std::ptr::copy(bytes.as_ptr(), bytes_of(buffer), bytes.len()) };
        Ok(())
    }

    fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<(), Error> {
        assert!(bytes.len() <= buffer.bytes(), "{} bytes read from a buffer of {}", bytes.len(), buffer.bytes());
        // SAFETY: the buffer holds that many bytes; launches have finished when they return, so nobody writes them.
        unsafe { std::ptr::copy(bytes_of(buffer), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn reset_peak(&self) {
        self.pool.reset_peak();
    }

    fn set_memory_limit(&self, bytes: Option<usize>) {
        self.pool.set_limit(bytes);
    }

    fn host_bytes<'a>(&self, buffer: &'a Buffer) -> Option<&'a [u8]> {
        // SAFETY: the allocation lives as long as the borrow, and the caller makes sure that nobody writes it
        // meanwhile.
        Some(unsafe { std::slice::from_raw_parts(bytes_of(buffer), buffer.bytes()) })
    }

    fn zeroed_bytes<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a mut [u8]> {
        let count = Arc::get_mut(buffer)?.bytes();
        // SAFETY: the allocation has `count` bytes, lives as long as the borrow, and has no other owner; all its bytes
        // are written before the slice exists.
        unsafe {
            bytes_of(buffer).write_bytes(0, count);
            Some(std::slice::from_raw_parts_mut(bytes_of(buffer), count))
        }
    }
}
