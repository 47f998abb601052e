//! Streams on a device that computes nothing: recording, cuts, plans, caches and runs, checked by the counters.

mod autotuning;
mod cuts;
mod deferral;
mod plans;
#[cfg(unix)]
mod saved;

use crate::{DeviceRef, MatmulPrecision, Mode, Operand, Value, record, set_deferring, set_measuring, set_mode};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};
use thalweg_ir::{DType, ElementOp, Op, Shape};
use thalweg_kernel::{Geometry, Kernel, Moved, Node};
use thalweg_runtime::{
    Block, Buffer, Counters, Device, Error, Memory, MemoryStats, Pool, Program, ProgramInfo, counters,
};

/// Device whose launches do nothing: values are whatever memory held before.
#[derive(Debug)]
pub(crate) struct Idle {
    pool: Arc<Pool>,
}

impl Idle {
    pub(crate) fn new() -> Idle {
        Idle { pool: Pool::new("idle".into(), Box::new(Host)) }
    }
}

struct Host;

impl Memory for Host {
    fn obtain(&self, bytes: usize) -> Option<Block> {
        // SAFETY: the layout has at least one byte.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)) }).map(Block::unused)
    }

    unsafe fn release(&self, block: Block, bytes: usize) {
        // SAFETY: the caller promises that the block came from `obtain` with this size.
        unsafe { std::alloc::dealloc(block.start.as_ptr(), layout(bytes)) }
    }

    fn total(&self) -> Option<usize> {
        None
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), 64).expect("a size that exists")
}

#[derive(Debug)]
struct Nothing(Option<(u64, u64)>);

impl Program for Nothing {
    fn launch(&self, _: &Geometry, _: &[&Buffer], _: &[u64]) -> Result<(), Error> {
        Ok(())
    }

    /// Traffic as if every element of every operand were moved once.
    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        let Geometry::Map(map) = geometry else { return Moved::default() };
        let Some((read, written)) = self.0 else { return Moved::default() };
        let points = map.points() as u64;
        Moved { read: points * read, written: points * written, ..Moved::default() }
    }

    fn info(&self) -> ProgramInfo {
        ProgramInfo { engine: "idle".into(), ..ProgramInfo::default() }
    }
}

/// Bytes that a map reads and writes per point.
fn bytes_of_a_point(kernel: &Kernel) -> Option<(u64, u64)> {
    let Kernel::Map(body) = kernel else { return None };
    let size = |access: u16| body.accesses[access as usize].dtype.size() as u64;
    let loads = body.nodes.iter().filter_map(|n| match n {
        Node::Load { access } => Some(size(*access)),
        _ => None,
    });
    Some((loads.sum(), body.stores.iter().map(|s| size(s.access)).sum()))
}

impl Device for Idle {
    fn name(&self) -> &str {
        "idle"
    }

    fn describe(&self) -> String {
        "computes nothing".into()
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.pool.allocate(bytes)
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        Ok(Arc::new(Nothing(bytes_of_a_point(kernel))))
    }

    fn write(&self, _: &Buffer, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn read(&self, _: &Buffer, bytes: &mut [u8]) -> Result<(), Error> {
        bytes.fill(0);
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

    fn host_bytes<'a>(&self, _: &'a Buffer) -> Option<&'a [u8]> {
        None
    }
}

/// Lock on the process's disk cache: a test that sets one holds it exclusively; tests that count plans run without one.
pub(crate) static DISK: RwLock<()> = RwLock::new(());

/// Runs a test on a new thread and device, with settings independent of the environment.
fn on_its_own(test: impl FnOnce(DeviceRef) + Send + 'static) {
    let run = move || {
        let _without = DISK.read().unwrap_or_else(PoisonError::into_inner);
        set_mode(FUSED);
        set_measuring(None);
        set_deferring(true);
        test(DeviceRef::register(Arc::new(Idle::new())));
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

const FUSED: Mode = Mode {
    fused: true,
    strict: false,
    reproducible: false,
    reference: false,
    matmul: MatmulPrecision::Highest,
    atomic_sums: false,
};

/// Vector in memory.
fn vector(device: DeviceRef, n: usize) -> Arc<Value> {
    let buffer = device.device().allocate(4 * n).unwrap();
    Value::ready(device, buffer, Shape::new(&[n]), DType::F32)
}

/// Records an elementwise operation over tensors of one shape.
fn element(op: ElementOp, args: &[&Arc<Value>]) -> Arc<Value> {
    let operands: Vec<Operand<'_>> = args.iter().map(|v| Operand::Value(v)).collect();
    record(args[0].device(), Op::Element(op), DType::F32, *args[0].shape(), 0, &operands, &[])
}

/// Records a product with a scalar.
fn scaled(x: &Arc<Value>, by: f32) -> Arc<Value> {
    let operands = [Operand::Value(x), Operand::Scalar(by.to_bits() as u64)];
    record(x.device(), Op::Element(ElementOp::Mul), DType::F32, *x.shape(), 0, &operands, &[])
}

/// Counters of the calling thread while `f` ran.
fn counted<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    let before = counters();
    let out = f();
    (out, counters() - before)
}
