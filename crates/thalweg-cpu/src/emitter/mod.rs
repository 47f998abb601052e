//! Compilation of map and row bodies to callable functions.
//!
//! In: a body and an instruction set. Out: code in executable memory, with a report. `vector` compiles the body up to
//! register allocation, the instruction set (`isa`) encodes the function. Code depends on the body and the instruction
//! set only; sizes, strides, addresses and scalars are arguments. docs/cpu-emitter.md has the design.

mod dump;
pub(crate) mod gemm;
mod inner_reduction;
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) mod tests;

pub use crate::isa::Isa;
use crate::isa::MapFunction;
use crate::isa::pages::Code;
use crate::row_call::{RowArgs, Rows};
pub use crate::vector::Unsupported;
use crate::vector::{Options, function, loop_code, map};
pub use inner_reduction::{CompiledInnerReduction, compile_inner_reduction, compile_inner_reduction_streaming};
use std::time::{Duration, Instant};
use thalweg_kernel::Body;

/// A map body compiled to machine code for one instruction set.
pub struct Compiled {
    code: Code,
    /// Statistics of the emitted code (size, spills, time).
    pub report: Report,
}

/// Statistics of compiled code.
#[derive(Clone, Debug)]
pub struct Report {
    /// Instruction set of the code.
    pub isa: Isa,
    /// Number of points that one step of the loop computes.
    pub lanes: usize,
    /// Unroll factor: copies of the step in the main loop (for a row body, the largest of any phase).
    pub copies: usize,
    /// Number of vector IR instructions of one step.
    pub instructions: usize,
    /// Bytes of code, constants included.
    pub bytes: usize,
    /// Number of values spilled to the frame in the main loop.
    pub spills: usize,
    /// Whether a run may find lanes that need the slow path, and so return false after it has written outputs. The slow
    /// path then needs unchanged inputs, and the previous contents of accumulating stores.
    pub rereads_inputs: bool,
    /// Time that compilation took.
    pub time: Duration,
}

/// Compiles a map body for an instruction set that this machine has.
pub fn compile(body: &Body, isa: Isa) -> Result<Compiled, Unsupported> {
    compile_with(body, isa, Options::default())
}

/// Like [`compile`], for outputs larger than the caches: whole vectors are stored non-temporally, which saves reading
/// the lines first. The first element of each row of every output must be aligned to 64 bytes.
pub fn compile_streaming(body: &Body, isa: Isa) -> Result<Compiled, Unsupported> {
    compile_with(body, isa, Options { streaming: true, ..Options::default() })
}

pub(crate) fn compile_with(body: &Body, isa: Isa, options: Options) -> Result<Compiled, Unsupported> {
    let began = Instant::now();
    let (bytes, mut report) = assemble(body, isa, options)?;
    let code = Code::publish(&bytes).ok_or(Unsupported::NoPages)?;
    report.time = began.elapsed();
    tracing::debug!(?report, "compiled a map body");
    Ok(Compiled { code, report })
}

/// Assembles the machine code of a map body.
pub(crate) fn assemble(body: &Body, isa: Isa, options: Options) -> Result<(Vec<u8>, Report), Unsupported> {
    let mut map = map::compile(body, isa.target(), options)?;
    let code = function::linear(&mut map, options.streaming).ok_or(Unsupported::TooLarge)?;
    let bytes = isa.encode(&code);
    let (main, tail) = (&map.main, &map.tail);
    let report = Report {
        isa,
        lanes: map.v.lanes,
        copies: main.0.copies,
        instructions: map.instructions,
        bytes: bytes.len(),
        spills: main.1.spills,
        // A stride out of range also ends in the slow path, but before anything is written.
        rereads_inputs: loop_code::has_guards(&map.v),
        time: Duration::ZERO,
    };
    let parts = [("main loop".into(), &main.0, &main.1), ("tail".into(), &tail.0, &tail.1)];
    dump::write("map", &map.body, &report, &parts, &bytes);
    Ok((bytes, report))
}

impl Rows for Compiled {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize) -> bool {
        // SAFETY: the code was emitted with this signature and published whole; it lives as long as `self`.
        let f: MapFunction = unsafe { std::mem::transmute(self.code.start()) };
        f(args.as_ptr(), n, rows) == 0
    }
}
