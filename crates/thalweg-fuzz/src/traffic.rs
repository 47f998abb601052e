//! What programs say that they move, beside what an engine counts as it runs them.
//!
//! In: a device whose engine counts its loads and stores on the calling thread. Out: the same device, whose launches
//! compare what was counted with [`Program::moves`], kernel by kernel; what differs is kept until it is asked for.
//! Matrix products and scatters have no loops over points, and are not compared.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};
use thalweg_kernel::{Geometry, Kernel, Moved, Residence};
use thalweg_runtime::{Batch, Buffer, Device, Error, MemoryStats, Program, ProgramInfo, Throughput};

/// Runs a launch, and gives the bytes that were loaded and stored.
pub type Count = fn(&mut dyn FnMut() -> Result<(), Error>) -> (Result<(), Error>, [u64; 2]);

/// Of what the tile engine runs.
pub fn by_tiles(launch: &mut dyn FnMut() -> Result<(), Error>) -> (Result<(), Error>, [u64; 2]) {
    let (done, c) = thalweg_cpu::tile::counted(launch);
    (done, [c.loaded, c.stored])
}

/// What did not agree.
pub type Differences = Arc<Mutex<Vec<String>>>;

/// A device that compares.
pub struct Compared {
    device: Arc<dyn Device>,
    count: Count,
    differences: Differences,
}

impl Compared {
    /// The device, and what will differ.
    pub fn new(device: Arc<dyn Device>, count: Count) -> (Arc<Compared>, Differences) {
        let differences = Differences::default();
        (Arc::new(Compared { device, count, differences: differences.clone() }), differences)
    }

    fn wrap(&self, program: Arc<dyn Program>) -> Arc<dyn Program> {
        Arc::new(ComparedProgram { program, count: self.count, differences: self.differences.clone() })
    }
}

impl Debug for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compared {:?}", self.device)
    }
}

#[derive(Debug)]
struct ComparedProgram {
    program: Arc<dyn Program>,
    count: Count,
    differences: Differences,
}

/// Whether a launch of that geometry is one whose loops are counted. Which points of a row lie under a mask, and so which
/// loads run, differs with how a strip or a block is cut.
fn counted(geometry: &Geometry) -> bool {
    match geometry {
        Geometry::Matmul(_) | Geometry::Scatter(_) => false,
        Geometry::Rows(g) => !g.accesses.iter().any(|a| a.map.as_ref().is_some_and(|m| m.is_masked())),
        Geometry::Group(parts) => parts.iter().all(counted),
        Geometry::Map(_) | Geometry::Boxes(_) => true,
    }
}

impl Program for ComparedProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let (done, counted_bytes) = (self.count)(&mut || self.program.launch(geometry, operands, scalars));
        let said = self.program.moves(geometry, false);
        if done.is_ok() && counted(geometry) && [said.loaded, said.stored] != counted_bytes {
            let what = format!(
                "says that it loads and stores {:?} bytes, counted {counted_bytes:?}: {:?}, {geometry:?}",
                [said.loaded, said.stored],
                self.program
            );
            self.differences.lock().unwrap_or_else(|e| e.into_inner()).push(what);
        }
        done
    }

    fn moves(&self, geometry: &Geometry, in_place: bool) -> Moved {
        self.program.moves(geometry, in_place)
    }

    fn info(&self) -> ProgramInfo {
        self.program.info()
    }

    fn residence(&self) -> Option<Residence> {
        self.program.residence()
    }

    fn rereads_for(&self, operand: usize) -> bool {
        self.program.rereads_for(operand)
    }
}

impl Device for Compared {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }

    fn threads(&self) -> usize {
        self.device.threads()
    }

    fn throughput(&self) -> Option<Throughput> {
        self.device.throughput()
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.device.allocate(bytes)
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        self.device.program(kernel).map(|p| self.wrap(p))
    }

    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        Ok(self.device.prepare(launches)?.into_iter().map(|p| self.wrap(p)).collect())
    }

    // Launches go into the queue one by one: each is counted by itself.
    fn batch(&self, _: Option<u64>, timed: bool, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Batch, Error> {
        self.device.batch(None, timed, run)
    }

    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), Error> {
        self.device.write(buffer, bytes)
    }

    fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<(), Error> {
        self.device.read(buffer, bytes)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.device.synchronize()
    }

    fn memory(&self) -> MemoryStats {
        self.device.memory()
    }

    fn reset_peak(&self) {
        self.device.reset_peak();
    }

    fn set_memory_limit(&self, bytes: Option<usize>) {
        self.device.set_memory_limit(bytes);
    }

    fn host_bytes<'a>(&self, buffer: &'a Buffer) -> Option<&'a [u8]> {
        self.device.host_bytes(buffer)
    }
}
