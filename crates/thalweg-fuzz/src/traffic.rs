//! Memory traffic reported by programs, compared with that counted by an engine.
//!
//! Input: a device that counts its loads and stores: the tile engine on the calling thread, or the emulated GPU.
//! Output: the same device, whose launches compare the counts with [`Program::moves`], kernel by kernel; differences
//! are collected until they are read. GEMMs and scatters have no loops over points and are not compared.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};
#[cfg(feature = "emulate")]
use thalweg_kernel::MapGeometry;
use thalweg_kernel::{Contracts, Geometry, Kernel, Machine, Moved, Residence};
use thalweg_runtime::{Batch, Buffer, Device, Error, MemoryStats, Program, ProgramInfo, Throughput};

/// Function that runs a launch and returns the bytes that it loaded and stored.
pub type Count = fn(&mut dyn FnMut() -> Result<(), Error>) -> (Result<(), Error>, [u64; 2]);

/// Runs a launch; returns the bytes that the tile engine counted.
pub fn by_tiles(launch: &mut dyn FnMut() -> Result<(), Error>) -> (Result<(), Error>, [u64; 2]) {
    let (done, c) = thalweg_cpu::tile::counted(launch);
    (done, [c.loaded, c.stored])
}

/// Runs a launch; returns the bytes that the emulated GPU counted, over all launches of the process.
#[cfg(feature = "emulate")]
pub fn by_emulator(launch: &mut dyn FnMut() -> Result<(), Error>) -> (Result<(), Error>, [u64; 2]) {
    let before = thalweg_cuda::driver::moved();
    let done = launch();
    let after = thalweg_cuda::driver::moved();
    (done, [after[0] - before[0], after[1] - before[1]])
}

/// Predicate: whether the traffic reported for a launch agrees with the bytes loaded and stored.
pub type Agrees = fn(&Kernel, &Geometry, &Moved, [u64; 2]) -> bool;

/// Whether the bytes that loops issue, according to the report, equal the counted ones; true for launches that are not
/// compared ([`counted`]).
pub fn as_issued(_: &Kernel, geometry: &Geometry, said: &Moved, counted_bytes: [u64; 2]) -> bool {
    !counted(geometry) || [said.loaded, said.stored] == counted_bytes
}

/// Whether the bytes written to memory, according to the report, equal those stored, scratch included, and the bytes
/// read are at most those loaded, which include reloads from caches; true for launches that are not compared.
#[cfg(feature = "emulate")]
pub fn as_moved(kernel: &Kernel, geometry: &Geometry, said: &Moved, [loaded, stored]: [u64; 2]) -> bool {
    !counted(geometry) || sorts(kernel) || said.written == stored && (said.read <= loaded || is_masked(geometry))
}

/// Whether a kernel sorts; its traffic between launches is not counted.
#[cfg(feature = "emulate")]
fn sorts(kernel: &Kernel) -> bool {
    let sort = |op| matches!(op, thalweg_ir::ScanOp::Sort | thalweg_ir::ScanOp::Argsort);
    match kernel {
        Kernel::Rows { body, .. } => body.scans.iter().any(|s| sort(s.op)),
        Kernel::Group { kernels, .. } => kernels.iter().any(sorts),
        _ => false,
    }
}

/// Descriptions of the disagreements found.
pub type Differences = Arc<Mutex<Vec<String>>>;

/// Device that compares the reported traffic of each launch with the counted one.
pub struct Compared {
    device: Arc<dyn Device>,
    count: Count,
    agrees: Agrees,
    differences: Differences,
}

impl Compared {
    /// Wraps a device; also returns the list to which differences are added.
    pub fn new(device: Arc<dyn Device>, count: Count, agrees: Agrees) -> (Arc<Compared>, Differences) {
        let differences = Differences::default();
        (Arc::new(Compared { device, count, agrees, differences: differences.clone() }), differences)
    }

    fn wrap(&self, kernel: &Kernel, program: Arc<dyn Program>) -> Arc<dyn Program> {
        let (kernel, differences) = (kernel.clone(), self.differences.clone());
        Arc::new(ComparedProgram { kernel, program, count: self.count, agrees: self.agrees, differences })
    }
}

impl Debug for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compared {:?}", self.device)
    }
}

#[derive(Debug)]
struct ComparedProgram {
    kernel: Kernel,
    program: Arc<dyn Program>,
    count: Count,
    agrees: Agrees,
    differences: Differences,
}

/// Whether some points of a map's accesses are masked out: which of the elements are then read depends on the points.
#[cfg(feature = "emulate")]
fn is_masked(geometry: &Geometry) -> bool {
    let masked = |g: &MapGeometry| g.accesses.iter().any(|a| a.map.as_ref().is_some_and(|m| m.is_masked()));
    match geometry {
        Geometry::Map(g) => masked(g),
        Geometry::Boxes(all) => all.iter().any(masked),
        Geometry::Group(parts) => parts.iter().any(is_masked),
        _ => false,
    }
}

/// Whether a launch of that geometry is one whose loops are counted. Which points of a row lie under a mask, and so
/// which loads run, differs with how a strip or a block is cut.
fn counted(geometry: &Geometry) -> bool {
    match geometry {
        Geometry::Contraction(_) | Geometry::Scatter(_) | Geometry::Foreign(_) => false,
        Geometry::Rows(g) => !g.accesses.iter().any(|a| a.map.as_ref().is_some_and(|m| m.is_masked())),
        Geometry::Group(parts) => parts.iter().all(counted),
        Geometry::Map(_) | Geometry::Boxes(_) => true,
    }
}

/// Whether a boxes map writes over its own input, so that it need not run all boxes.
fn is_in_place(kernel: &Kernel, operands: &[&Buffer]) -> bool {
    let Kernel::Boxes(_) = kernel else { return false };
    let Some((last, read)) = operands.split_last() else { return false };
    read.iter().any(|o| o.address() == last.address())
}

impl Program for ComparedProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let (done, counted_bytes) = (self.count)(&mut || self.program.launch(geometry, operands, scalars));
        let said = self.program.moves(geometry, is_in_place(&self.kernel, operands));
        if done.is_ok() && !(self.agrees)(&self.kernel, geometry, &said, counted_bytes) {
            let what = format!(
                "says that it moves {said:?} bytes, loaded and stored were {counted_bytes:?}: {:?}, {geometry:?}",
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

    fn contracts(&self) -> Contracts {
        self.device.contracts()
    }

    fn machine(&self) -> Machine {
        self.device.machine()
    }

    fn throughput(&self) -> Option<Throughput> {
        self.device.throughput()
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.device.allocate(bytes)
    }

    fn allocate_with(&self, spans: &[&[u8]]) -> Result<Buffer, Error> {
        self.device.allocate_with(spans)
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        self.device.program(kernel).map(|p| self.wrap(kernel, p))
    }

    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        let programs = self.device.prepare(launches)?;
        Ok(launches.iter().zip(programs).map(|(l, p)| self.wrap(l.0, p)).collect())
    }

    // Launches are enqueued one by one so that each is counted separately.
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

    fn zeroed_bytes<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a mut [u8]> {
        self.device.zeroed_bytes(buffer)
    }
}

#[cfg(all(test, feature = "emulate"))]
mod tests {
    use super::*;
    use crate::check::Checker;
    use crate::program::{Argument, Input, Program, Step, Tensor};
    use thalweg_ir::{DType, ElementOp, Op, ReduceOp, ScanOp, Shape};
    use thalweg_stream::DeviceRef;

    /// A map, a row sum split among blocks, statistics that take two passes, and a scan whose chunks are split among
    /// blocks: scratch, partial results and second passes.
    fn program() -> Program {
        let (rows, n) = (3, 40_000);
        let (shape, column) = (Shape::new(&[rows, n]), Shape::new(&[rows, 1]));
        let step = |op, shape, attr, args, kept| Step { op, dtype: DType::F32, shape, attr, args, ints: vec![], kept };
        let of = |n| Argument::Tensor(Tensor::Step(n));
        let element = |op, args| step(Op::Element(op), shape, 0, args, false);
        // Sums of small whole numbers are the same in every order.
        let bytes = (0..rows * n).flat_map(|i| ((i % 7) as f32).to_le_bytes()).collect();
        let steps = vec![
            Step { kept: true, ..element(ElementOp::Neg, vec![Argument::Tensor(Tensor::Input(0))]) },
            step(Op::Reduce(ReduceOp::Max), column, 0b10 | 1 << 8, vec![of(0)], false),
            // The second dimension of the second argument is broadcast.
            Step { attr: 0b10 << 8, ..element(ElementOp::Sub, vec![of(0), of(1)]) },
            step(Op::Reduce(ReduceOp::Sum), Shape::new(&[rows]), 0b10, vec![of(2)], true),
            step(Op::Scan(ScanOp::Sum), shape, 1, vec![of(0)], true),
        ];
        Program { inputs: vec![Input { dtype: DType::F32, shape, bytes }], steps }
    }

    fn emulated(agrees: Agrees) -> Checker {
        let open = || thalweg_cuda::CudaDevice::open("cuda:emulated").expect("a C++ compiler");
        let (counting, differences) = Compared::new(open(), by_emulator, agrees);
        Checker::on_gpu(DeviceRef::register(open())).with_counted(DeviceRef::register(counting), differences)
    }

    #[test]
    fn a_gpu_moves_what_its_programs_say_scratch_and_second_passes_included() {
        emulated(as_moved).counts(&program()).unwrap();
        // The compared traffic must not be zero.
        let some: Agrees = |_, _, said, counted| said.written > 0 && counted[0] > 0 && counted[1] > 0;
        emulated(some).counts(&program()).unwrap();
        let least = emulated(|_, _, _, _| false).counts(&program()).unwrap_err();
        assert!(least.contains("loaded and stored were"), "{least}");
    }
}
