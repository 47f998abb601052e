//! The device: memory from a pool, kernels bound to sizes, launches in the queue.

use crate::adapters::{self, advice};
use crate::driver::WgpuDriver;
use crate::render::WgslPrinter;
use std::fmt;
use std::sync::Arc;
use thalweg_gpu::runtime::{Bound, Compiler, DeviceMemory, Driver, Queues, Written};
use thalweg_gpu::{Plan, plan};
use thalweg_kernel::{Contracts, Geometry, Kernel, Moved, Precision};
use thalweg_runtime::environment;
use thalweg_runtime::{
    Backend, Batch, Buffer, Device, Error, MemoryStats, Pool, Program, ProgramInfo, Throughput, Timing,
};

/// An adapter, with its memory pool, queue and compiler.
#[derive(Clone)]
pub struct WgpuDevice(Arc<DeviceState>);

struct DeviceState {
    name: String,
    driver: Arc<dyn Driver>,
    /// Maximum bytes of a tensor: those that a kernel binds.
    max_buffer: usize,
    pool: Arc<Pool>,
    queues: Arc<Queues>,
    compiler: Compiler,
}

/// The backend of adapters of `wgpu`, as the registry of devices lists it. It is never the default device: it must be
/// named.
pub const BACKEND: Backend = Backend {
    kind: "wgpu",
    count: || adapters::all().len(),
    is_usable: || Ok(false),
    open: |name| Ok(WgpuDevice::open(name)?),
    libraries: &[],
};

impl WgpuDevice {
    /// Opens the adapter of this name: `wgpu` and `wgpu:0` name the first one, in the order of [`crate::adapters()`].
    ///
    /// # Errors
    /// If no adapter has this name, or it lacks something that kernels need; the message says what to install.
    pub fn open(name: &str) -> Result<Arc<WgpuDevice>, Error> {
        environment::check()?;
        let none = |message: String| Error::Device { device: name.into(), message };
        let number = name.strip_prefix("wgpu").ok_or_else(|| none("no such device".into()))?;
        let number = if number.is_empty() { Some(0) } else { number.strip_prefix(':').and_then(|n| n.parse().ok()) };
        let number: usize = number.ok_or_else(|| none("an adapter has a number: wgpu:0".into()))?;
        let all = adapters::all();
        let adapter = all.get(number).ok_or_else(|| match all.len() {
            0 => none(advice()),
            n => none(format!("there are {n} adapters, numbered from 0")),
        })?;
        let driver = WgpuDriver::open(adapter, name)?;
        let (max_buffer, subgroup) = (driver.max_buffer(), driver.subgroup());
        let driver: Arc<dyn Driver> = Arc::new(driver);
        let queues = Queues::new(&driver, name)?;
        let pool = DeviceMemory::pool(queues.clone(), name.into());
        pool.set_limit(thalweg_runtime::limit_from_environment()?);
        let compiler = Compiler::new(driver.clone(), Box::new(WgslPrinter { subgroup }), name.into());
        Ok(Arc::new(WgpuDevice(Arc::new(DeviceState {
            name: name.into(),
            driver,
            max_buffer,
            pool,
            queues,
            compiler,
        }))))
    }

    fn error(&self, message: String) -> Error {
        Error::Device { device: self.0.name.clone(), message }
    }

    fn planned(&self, kernel: &Kernel, geometry: &Geometry) -> Result<Plan, Error> {
        if is_strict(kernel) {
            let message = "strict mode on wgpu: WGSL is fast math, whose results depend on the kernel".into();
            return Err(Error::Compile { device: self.0.name.clone(), message });
        }
        plan(kernel, geometry, &self.0.compiler)
    }

    fn written(&self, plan: Plan) -> Written {
        Written::new(plan, &self.0.compiler)
    }

    fn bind(&self, written: Written) -> Result<BoundProgram, Error> {
        let moved = written.plan.moved;
        let units = written.units.clone();
        let bound = written.bind(&self.0.compiler)?;
        let compile_ns = units.iter().map(|u| u.compile_ns()).sum();
        let info = ProgramInfo { engine: "wgpu".into(), compile_ns, ..ProgramInfo::default() };
        Ok(BoundProgram { bound, info, moved, device: self.clone() })
    }
}

/// Whether a kernel was recorded in strict mode.
fn is_strict(kernel: &Kernel) -> bool {
    match kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => body.strict,
        Kernel::Boxes(bodies) => bodies.iter().any(|body| body.strict),
        Kernel::Contraction(c) => c.precision == Precision::Ordered,
        Kernel::Group { kernels, .. } => kernels.iter().any(is_strict),
        // Their values are applied in order in every mode.
        Kernel::Scatter { .. } | Kernel::Foreign { .. } => false,
    }
}

impl fmt::Debug for WgpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WgpuDevice({}, {:?})", self.0.name, self.0.pool)
    }
}

/// A kernel bound to one geometry.
#[derive(Debug)]
struct BoundProgram {
    bound: Bound,
    info: ProgramInfo,
    moved: Moved,
    device: WgpuDevice,
}

impl Program for BoundProgram {
    fn launch(&self, _: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
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
}

/// A kernel that is bound anew for every launch, the result of [`Device::program`].
#[derive(Debug)]
struct AnyProgram {
    kernel: Kernel,
    device: WgpuDevice,
}

impl Program for AnyProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let plan = self.device.planned(&self.kernel, geometry)?;
        self.device.bind(self.device.written(plan))?.launch(geometry, operands, scalars)
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        // A geometry that cannot be launched moves no bytes.
        self.device.planned(&self.kernel, geometry).map_or(Moved::default(), |plan| plan.moved)
    }

    fn info(&self) -> ProgramInfo {
        ProgramInfo { engine: "wgpu".into(), ..ProgramInfo::default() }
    }
}

impl Device for WgpuDevice {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn describe(&self) -> String {
        self.0.driver.version().unwrap_or_default()
    }

    fn throughput(&self) -> Option<Throughput> {
        let chip = self.0.driver.chip();
        let (memory, additions) = (0.8 * chip.bandwidth, 64.0 * chip.clock * f64::from(chip.multiprocessors));
        Some(Throughput { memory, cache: 2.0 * memory, cache_bytes: chip.l2, additions, launch: 10_000.0 })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        if bytes > self.0.max_buffer {
            let most = self.0.max_buffer;
            return Err(self.error(format!("a tensor of {bytes} bytes exceeds the {most} bytes that a kernel binds")));
        }
        self.0.pool.allocate(bytes)
    }

    fn contracts(&self) -> Contracts {
        Contracts::Tiles
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        Ok(Arc::new(AnyProgram { kernel: kernel.clone(), device: self.clone() }))
    }

    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        let one = |(k, g): &(&Kernel, &Geometry)| self.planned(k, g).map(|plan| self.written(plan));
        let plans = launches.iter().map(one).collect::<Result<Vec<Written>, Error>>()?;
        self.0.compiler.compile(plans.iter().flat_map(|p| &p.units));
        plans.into_iter().map(|p| -> Result<Arc<dyn Program>, Error> { Ok(Arc::new(self.bind(p)?)) }).collect()
    }

    fn compile_in_background(&self) {
        thalweg_gpu::runtime::wait_at_exit();
    }

    fn uncompiled(&self, launches: &[(&Kernel, &Geometry)]) -> usize {
        // A kernel that cannot be planned fails when it is prepared.
        let plans = launches.iter().filter_map(|(k, g)| self.planned(k, g).ok());
        let written: Vec<Written> = plans.map(|plan| self.written(plan)).collect();
        self.0.compiler.missing(written.iter().flat_map(|w| &w.units))
    }

    fn batch(&self, key: Option<u64>, timed: bool, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Batch, Error> {
        self.0.queues.mine()?.batch(key, timed, run)
    }

    fn clocked(&self, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Option<Arc<dyn Timing>>, Error> {
        self.0.queues.mine()?.clocked(run).map(Some)
    }

    fn allocate_from(&self, _: &dyn Device, _: &Buffer, _: usize) -> Option<Result<Buffer, Error>> {
        None
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
