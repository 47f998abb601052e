//! The device: memory from a pool, kernels bound to sizes, launches in one queue.

use crate::compiler::Compiler;
use crate::driver::Driver;
use crate::launch::Bound;
use crate::memory::DriverMemory;
use crate::program::plan;
use crate::queue::Queue;
use rayon::prelude::*;
use std::fmt;
use std::sync::Arc;
use thalweg_kernel::{Geometry, Kernel};
use thalweg_runtime::{Buffer, Device, Error, MemoryStats, Pool, Program, ProgramInfo};

/// A GPU.
pub struct CudaDevice {
    name: String,
    driver: Arc<dyn Driver>,
    pool: Arc<Pool>,
    queue: Arc<Queue>,
    compiler: Arc<Compiler>,
}

impl CudaDevice {
    /// The device of a driver, under that name.
    ///
    /// # Errors
    /// When it has no memory at all.
    pub fn with(driver: Arc<dyn Driver>, name: &str) -> Result<Arc<CudaDevice>, Error> {
        let pool = Pool::new(name.into(), Box::new(DriverMemory::new(driver.clone())));
        let queue = Arc::new(Queue::new(driver.clone(), name)?);
        let compiler = Arc::new(Compiler::new(driver.clone(), name.into()));
        Ok(Arc::new(CudaDevice { name: name.into(), driver, pool, queue, compiler }))
    }

    /// The driver.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    fn bind(&self, kernel: &Kernel, geometry: &Geometry) -> Result<BoundProgram, Error> {
        let start = std::time::Instant::now();
        let bound = plan(kernel, geometry, &self.compiler)?.bind(&self.compiler)?;
        let functions = bound.functions();
        let info = ProgramInfo {
            engine: format!("cuda sm_{}", self.driver.chip().sm),
            compile_ns: start.elapsed().as_nanos() as u64,
            spills: functions.iter().map(|f| f.info.local as usize / 4).max(),
            ..ProgramInfo::default()
        };
        Ok(BoundProgram { bound, info, queue: self.queue.clone(), pool: self.pool.clone() })
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaDevice({}, {:?})", self.name, self.pool)
    }
}

/// A kernel bound to one geometry.
#[derive(Debug)]
struct BoundProgram {
    bound: Bound,
    info: ProgramInfo,
    queue: Arc<Queue>,
    pool: Arc<Pool>,
}

impl Program for BoundProgram {
    fn launch(&self, _: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        self.bound.run(&self.queue, &self.pool, operands, scalars)?;
        if self.bound.checked && self.queue.faulted()? {
            return Err(Error::Index("an index is out of range".into()));
        }
        Ok(())
    }

    fn info(&self) -> ProgramInfo {
        self.info.clone()
    }

    fn rereads_for(&self, _: usize) -> bool {
        false
    }
}

/// A kernel that is bound anew for every launch: what [`Device::program`] has to give.
struct AnyProgram {
    kernel: Kernel,
    device: Arc<Parts>,
}

/// What binding needs of a device.
struct Parts {
    device: CudaDevice,
}

impl fmt::Debug for AnyProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyProgram({:?})", self.kernel)
    }
}

impl Program for AnyProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        self.device.device.bind(&self.kernel, geometry)?.launch(geometry, operands, scalars)
    }

    fn info(&self) -> ProgramInfo {
        ProgramInfo { engine: format!("cuda sm_{}", self.device.device.driver.chip().sm), ..ProgramInfo::default() }
    }

    fn rereads_for(&self, _: usize) -> bool {
        false
    }
}

impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> String {
        let chip = self.driver.chip();
        let gib = chip.memory as f64 / (1u64 << 30) as f64;
        format!("{}, sm_{}, {} multiprocessors, {gib:.0} GiB", chip.name, chip.sm, chip.multiprocessors)
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.pool.allocate(bytes)
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        let device = CudaDevice {
            name: self.name.clone(),
            driver: self.driver.clone(),
            pool: self.pool.clone(),
            queue: self.queue.clone(),
            compiler: self.compiler.clone(),
        };
        Ok(Arc::new(AnyProgram { kernel: kernel.clone(), device: Arc::new(Parts { device }) }))
    }

    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        let bind = |(kernel, geometry): &(&Kernel, &Geometry)| -> Result<Arc<dyn Program>, Error> {
            Ok(Arc::new(self.bind(kernel, geometry)?))
        };
        if let [one] = launches {
            return Ok(vec![bind(one)?]);
        }
        launches.par_iter().map(bind).collect()
    }

    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), Error> {
        assert!(bytes.len() <= buffer.bytes(), "{} bytes written to a buffer of {}", bytes.len(), buffer.bytes());
        self.driver.write(buffer.address() as u64, bytes)
    }

    fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<(), Error> {
        assert!(bytes.len() <= buffer.bytes(), "{} bytes read from a buffer of {}", bytes.len(), buffer.bytes());
        self.driver.read(buffer.address() as u64, bytes)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.driver.synchronize()
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

    fn host_bytes<'a>(&self, _: &'a Buffer) -> Option<&'a [u8]> {
        None
    }
}
