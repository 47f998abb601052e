//! The device: memory from a pool, kernels bound to sizes, launches in the calling thread's queue.

use crate::decompose::Decompositions;
use crate::driver::{Absent, Cuda, Driver, Launch, nvrtc};
use crate::find::{Sought, find};
use crate::fourier::Fouriers;
use crate::generic;
use crate::render::CudaPrinter;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use thalweg_gpu::kernels::merge_sources;
use thalweg_gpu::runtime::{Bound, Compiler, DeviceMemory, MEMORY, Queues, TO_DEVICE, Written};
use thalweg_gpu::{Plan, Skeleton, Target, plan};
use thalweg_ir::{Convolution, View};
use thalweg_kernel::{Contracts, Geometry, Kernel, Moved, Residence};
use thalweg_runtime::environment;
use thalweg_runtime::{
    Backend, Batch, Buffer, Communication, Decomposition, Device, Error, Fourier, MemoryStats, Pool, Program,
    ProgramInfo, Throughput, Timing, count,
};

/// A GPU, with its memory pool, queues and compiler.
#[derive(Clone)]
pub struct CudaDevice(Arc<DeviceState>);

struct DeviceState {
    name: String,
    driver: Arc<dyn Driver>,
    pool: Arc<Pool>,
    queues: Arc<Queues>,
    compiler: Compiler,
    fouriers: Fouriers,
    decompositions: Decompositions,
    /// Whether generic kernels (interpreters) are preferred to compiled ones where both apply.
    generic: bool,
}

/// The backend of NVIDIA GPUs, as the registry of devices lists it.
pub const BACKEND: Backend = Backend {
    kind: "cuda",
    count: || Cuda::count().unwrap_or(0),
    is_usable: CudaDevice::is_usable,
    open: |name| Ok(CudaDevice::open(name)?),
    libraries: &[&environment::CUDA_DRIVER, &environment::NVRTC],
};

impl CudaDevice {
    /// Opens the device of this name. `cuda` and `cuda:0` name the first GPU, `cuda:1` the second.
    ///
    /// `cuda:absent` is a device with an H100's properties that plans and generates kernels but computes nothing:
    /// `explain` works with it on machines without a GPU.
    ///
    /// With the feature `emulate` (Linux on x86-64), `cuda:emulated` and `cuda:emulated:1` to `3` are four GPUs emulated on
    /// the host. `cuda:emulated:small` is an emulated GPU for tests, with 16 multiprocessors, a second-level cache of 4
    /// KiB, and queues that allocate three fault slots at a time.
    ///
    /// # Errors
    /// If no device has this name, or the driver or the compiler is missing; the message says what to install.
    pub fn open(name: &str) -> Result<Arc<CudaDevice>, Error> {
        environment::check()?;
        let none = |message: String| Error::Device { device: name.into(), message };
        let number = name.strip_prefix("cuda").ok_or_else(|| none("no such device".into()))?;
        #[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
        if matches!(number, ":emulated" | ":emulated:1" | ":emulated:2" | ":emulated:3") {
            return CudaDevice::with(Arc::new(crate::driver::Emulated::new()?), name);
        }
        #[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
        if number == ":emulated:small" {
            let small = crate::driver::Emulated::new()?.with_multiprocessors(16).with_cache(4 << 10).with_faults(3);
            return CudaDevice::with(Arc::new(small), name);
        }
        if number == ":absent" {
            return CudaDevice::with(Arc::new(Absent::new()), name);
        }
        let number = if number.is_empty() { Some(0) } else { number.strip_prefix(':').and_then(|n| n.parse().ok()) };
        let number = number.ok_or_else(|| none("a GPU has a number: cuda:0".into()))?;
        // The driver's error does not know which GPU was asked for.
        let named = |why| match why {
            Error::Device { message, .. } => none(message),
            other => other,
        };
        CudaDevice::with(Cuda::open(number).map_err(named)?, name)
    }

    /// Whether there is a GPU, and kernels can be compiled for the first one. Where there is no driver the check is
    /// fast.
    ///
    /// # Errors
    /// The reason why an existing GPU, or a driver, cannot be used.
    pub fn is_usable() -> Result<bool, Error> {
        let driver = find(Sought::Driver);
        if driver.library.is_none() {
            // A named driver file that cannot be loaded is an error, and not a machine without a GPU.
            let named = environment::CUDA_DRIVER.read()?.and(driver.advice);
            return named.map_or(Ok(false), |message| Err(Error::Device { device: "cuda:0".into(), message }));
        }
        let chips = Cuda::chips()?;
        let Some(chip) = chips.first() else { return Ok(false) };
        let sms = nvrtc::supported_sms()?;
        match sms.first() {
            Some(&oldest) if chip.sm < oldest => {
                let message = format!("{} has sm_{}, and NVRTC compiles for sm_{oldest} and newer", chip.name, chip.sm);
                Err(Error::Device { device: "cuda:0".into(), message })
            }
            _ => Ok(true),
        }
    }

    /// Creates a device that submits its work to `driver` and is called `name`.
    ///
    /// # Errors
    /// When it cannot allocate any memory.
    pub fn with(driver: Arc<dyn Driver>, name: &str) -> Result<Arc<CudaDevice>, Error> {
        CudaDevice::of(driver, name, false)
    }

    /// Returns a copy of this device that runs generic kernels (interpreters) wherever they apply, even where compiled
    /// ones exist. For tests.
    ///
    /// # Errors
    /// When it cannot allocate any memory.
    pub fn by_generic_kernels(&self) -> Result<Arc<CudaDevice>, Error> {
        CudaDevice::of(self.0.driver.clone(), &self.0.name, true)
    }

    fn of(driver: Arc<dyn Driver>, name: &str, generic: bool) -> Result<Arc<CudaDevice>, Error> {
        let queues = Queues::new(&driver, name)?;
        let pool = DeviceMemory::pool(queues.clone(), name.into());
        pool.set_limit(thalweg_runtime::limit_from_environment()?);
        // cuBLASLt algorithms are checked in the memory queue, which runs none of the program's kernels.
        let compiler = Compiler::new(queues.order().driver(MEMORY).clone(), Box::new(CudaPrinter), name.into());
        Ok(Arc::new(CudaDevice(Arc::new(DeviceState {
            name: name.into(),
            driver,
            pool,
            queues,
            compiler,
            fouriers: Fouriers::default(),
            decompositions: Decompositions::default(),
            generic,
        }))))
    }

    /// Driver of the GPU.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.0.driver
    }

    fn engine(&self) -> String {
        format!("cuda sm_{}", self.0.driver.chip().sm)
    }

    fn bind(&self, written: Written) -> Result<BoundProgram, Error> {
        let moved = written.plan.moved;
        let any = |is: fn(&Skeleton) -> bool| written.plan.stages.iter().any(|s| is(&s.kernel));
        let generic = any(|kernel| matches!(kernel, Skeleton::Generic(_)));
        let product = any(|kernel| matches!(kernel, Skeleton::Library(_)));
        let convolution = any(|kernel| matches!(kernel, Skeleton::Convolution(_)));
        let units = written.units.clone();
        let bound = written.bind(&self.0.compiler)?;
        let engine = match product {
            true => format!("{}, cuBLASLt", self.engine()),
            false if convolution => format!("{}, cuDNN", self.engine()),
            false if generic => format!("{}, generic", self.engine()),
            false => self.engine(),
        };
        let info = ProgramInfo {
            engine,
            compile_ns: units.iter().map(|u| u.compile_ns()).sum(),
            spills: bound.functions().map(|f| f.info.local as usize / 4).max(),
            ..ProgramInfo::default()
        };
        Ok(BoundProgram { bound, info, moved, generic, device: self.clone() })
    }

    fn written(&self, plan: Plan) -> Written {
        Written::new(plan, &self.0.compiler)
    }

    /// Prints the new sources of the kernels of a segment, whose groups share some.
    fn written_plans(&self, mut plans: Vec<Plan>) -> Vec<Written> {
        merge_sources(&mut plans);
        plans.into_iter().map(|plan| self.written(plan)).collect()
    }

    /// Binds a kernel to the generic kernels (interpreters); `None` where they do not support it.
    pub(crate) fn generic(&self, kernel: &Kernel, geometry: &Geometry) -> Option<Result<BoundProgram, Error>> {
        let plan = generic::plan(kernel, geometry, &self.0.compiler)?;
        let written = self.written(plan);
        generic::compile(&written.units, &self.0.compiler);
        Some(self.bind(written))
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaDevice({}, {:?})", self.0.name, self.0.pool)
    }
}

/// A kernel bound to one geometry.
#[derive(Debug)]
pub(crate) struct BoundProgram {
    bound: Bound,
    info: ProgramInfo,
    moved: Moved,
    /// Whether the program runs generic kernels.
    generic: bool,
    device: CudaDevice,
}

impl Program for BoundProgram {
    fn launch(&self, _: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        count(|c| c.generic_kernels += u64::from(self.generic));
        let DeviceState { queues, pool, .. } = &*self.device.0;
        self.bound.launch(queues, pool, operands, scalars)
    }

    fn moves(&self, _: &Geometry, _: bool) -> Moved {
        self.moved
    }

    fn temporary(&self, _: &Geometry) -> usize {
        self.bound.temporary()
    }

    fn info(&self) -> ProgramInfo {
        self.info.clone()
    }

    fn residence(&self) -> Option<Residence> {
        let driver = &self.device.0.driver;
        let of = |launch: &Launch| {
            let info = launch.function.info;
            let blocks = driver.occupancy(&launch.function, launch.block, launch.shared);
            let threads = blocks * launch.block;
            Residence {
                registers: info.registers,
                spilled_bytes: info.local,
                shared_bytes: info.shared + launch.shared,
                blocks,
                threads,
                occupancy: threads as f32 / driver.chip().threads.max(1) as f32,
            }
        };
        let own = self.bound.launches().iter().filter(|l| l.function.info.workspace.is_none());
        own.map(of).min_by(|a, b| a.occupancy.total_cmp(&b.occupancy))
    }
}

/// A kernel that is bound anew for every launch, the result of [`Device::program`].
#[derive(Debug)]
struct AnyProgram {
    kernel: Kernel,
    device: CudaDevice,
}

impl Program for AnyProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let plan = plan(&self.kernel, geometry, &self.device.0.compiler)?;
        self.device.bind(self.device.written(plan))?.launch(geometry, operands, scalars)
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        // A geometry that cannot be launched moves no bytes.
        plan(&self.kernel, geometry, &self.device.0.compiler).map_or(Moved::default(), |plan| plan.moved)
    }

    fn info(&self) -> ProgramInfo {
        ProgramInfo { engine: self.device.engine(), ..ProgramInfo::default() }
    }
}

impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn describe(&self) -> String {
        let chip = self.0.driver.chip();
        let gib = chip.memory as f64 / (1u64 << 30) as f64;
        format!("{}, sm_{}, {} multiprocessors, {gib:.0} GiB", chip.name, chip.sm, chip.multiprocessors)
    }

    fn identity(&self) -> Option<String> {
        let version = self.0.driver.version()?;
        Some(format!("{}, {}, {version}", self.describe(), self.0.driver.chip().compiler))
    }

    fn contracts(&self) -> Contracts {
        Contracts::Tiles
    }

    fn convolves(&self, convolution: &Convolution) -> bool {
        self.0.compiler.convolution(convolution).is_some()
    }

    fn throughput(&self) -> Option<Throughput> {
        let chip = self.0.driver.chip();
        // Measured on an H100: 0.82 to 0.93 of the memory bandwidth, 0.88 of the additions of 128 lanes a
        // multiprocessor.
        let (memory, additions) = (0.85 * chip.bandwidth, 0.88 * 128.0 * chip.clock * chip.multiprocessors as f64);
        Some(Throughput { memory, cache: 2.25 * memory, cache_bytes: chip.l2, additions, launch: 1_000.0 })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.0.pool.allocate(bytes)
    }

    fn allocate_with(&self, spans: &[&[u8]]) -> Result<Buffer, Error> {
        let bytes = spans.iter().map(|s| s.len()).sum();
        let buffer = self.0.pool.allocate_for(bytes, self.0.queues.to_device(bytes))?;
        self.0.queues.write(&buffer, spans)?;
        Ok(buffer)
    }

    fn allocate_from(&self, other: &dyn Device, buffer: &Buffer, bytes: usize) -> Option<Result<Buffer, Error>> {
        let other = (other as &dyn Any).downcast_ref::<CudaDevice>()?;
        let queues = &self.0.queues;
        let to = match self.0.pool.allocate_for(bytes, Some(queues.order().queue(TO_DEVICE))) {
            Ok(to) => to,
            Err(error) => return Some(Err(error)),
        };
        let copied = queues.copy_from(&to, &other.0.queues, buffer, bytes)?;
        Some(copied.map(|()| to))
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        Ok(Arc::new(AnyProgram { kernel: kernel.clone(), device: self.clone() }))
    }

    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        let compiler = &self.0.compiler;
        let plans: Result<Vec<Plan>, Error> = launches.iter().map(|(k, g)| plan(k, g, compiler)).collect();
        let plans = self.written_plans(plans?);
        compiler.compile(plans.iter().flat_map(|p| &p.units));
        plans.into_iter().map(|p| -> Result<Arc<dyn Program>, Error> { Ok(Arc::new(self.bind(p)?)) }).collect()
    }

    fn at_once(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Option<Arc<dyn Program>>>, Error> {
        let compiler = &self.0.compiler;
        let one = |(kernel, geometry): &(&Kernel, &Geometry)| -> Result<Option<Arc<dyn Program>>, Error> {
            let first = if self.0.generic { self.generic(kernel, geometry) } else { None };
            let own = || -> Result<Option<BoundProgram>, Error> {
                let own = self.written(plan(kernel, geometry, compiler)?);
                match compiler.missing(own.units.iter()) {
                    0 => self.bind(own).map(Some),
                    _ => self.generic(kernel, geometry).transpose(),
                }
            };
            let bound = first.transpose()?.map_or_else(own, |first| Ok(Some(first)))?;
            Ok(bound.map(|program| Arc::new(program) as Arc<dyn Program>))
        };
        launches.iter().map(one).collect()
    }

    fn compile_in_background(&self) {
        thalweg_gpu::runtime::wait_at_exit();
    }

    fn uncompiled(&self, launches: &[(&Kernel, &Geometry)]) -> usize {
        let compiler = &self.0.compiler;
        // A kernel that cannot be planned fails when it is prepared.
        let plans = launches.iter().filter_map(|(k, g)| plan(k, g, compiler).ok());
        let written = self.written_plans(plans.collect());
        compiler.missing(written.iter().flat_map(|w| &w.units))
    }

    fn batch(&self, key: Option<u64>, timed: bool, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Batch, Error> {
        self.0.queues.mine()?.batch(key, timed, run)
    }

    fn clocked(&self, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Option<Arc<dyn Timing>>, Error> {
        self.0.queues.mine()?.clocked(run).map(Some)
    }

    fn fourier(&self, of: &Fourier, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<Result<(), Error>> {
        self.0.fouriers.run((&self.0.queues, &self.0.pool), of, x, y)
    }

    fn decompose(&self, of: &Decomposition, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<Result<Batch, Error>> {
        self.0.decompositions.run((&self.0.queues, &self.0.pool), of, x, y)
    }

    fn communication(&self) -> Result<Arc<dyn Communication>, Error> {
        thalweg_gpu::runtime::communication(&self.0.queues, &self.0.name)
    }

    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), Error> {
        assert!(bytes.len() <= buffer.bytes(), "{} bytes written to a buffer of {}", bytes.len(), buffer.bytes());
        self.0.queues.write(buffer, &[bytes])
    }

    fn will_read(&self, buffer: &Buffer) {
        self.0.queues.order().mark(buffer.uses());
    }

    fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<(), Error> {
        assert!(bytes.len() <= buffer.bytes(), "{} bytes read from a buffer of {}", bytes.len(), buffer.bytes());
        self.0.queues.read(buffer, bytes)
    }

    fn after_stream(&self, stream: usize) -> Result<(), Error> {
        self.0.queues.after_stream(stream)
    }

    fn before_stream(&self, stream: usize) -> Result<(), Error> {
        self.0.queues.before_stream(stream)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.0.driver.synchronize()
    }

    fn memory(&self) -> MemoryStats {
        self.0.pool.stats()
    }

    fn reset_peak(&self) {
        self.0.pool.reset_peak();
    }

    fn set_memory_limit(&self, bytes: Option<usize>) {
        self.0.pool.set_limit(bytes);
    }

    fn host_bytes<'a>(&self, _: &'a Buffer) -> Option<&'a [u8]> {
        None
    }
}
