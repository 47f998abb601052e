//! The x86-64 vector emitter: compiles a map or row body to machine code.
//!
//! Body → `lower` (vector IR, one instruction per value) → `schedule` (instruction order, unrolling) → `regalloc`
//! (register allocation) → `emit` → `pages` (executable memory). Code depends on the body and the instruction set only;
//! sizes, strides, addresses and scalars are arguments. docs/cpu-emitter.md has the design.

mod accumulators;
mod asm;
mod build;
mod dump;
mod elements;
mod emit;
mod folds;
mod function;
mod inner_axis;
mod isa;
mod lower;
mod ops;
mod pages;
pub(crate) mod product;
mod regalloc;
mod schedule;
mod select;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod turn_code;
mod turns;
mod vir;

use crate::prepare::prepare;
use crate::row_call::{RowArgs, Rows};
use crate::tunable::TUNABLES;
pub use inner_axis::{CompiledInnerReduction, compile_inner_reduction, compile_inner_reduction_streaming};
pub use isa::Isa;
pub use lower::Unsupported;
use regalloc::{Allocation, Limits};
use schedule::Program;
use std::time::{Duration, Instant};
use thalweg_kernel::Body;
use vir::{Op, Val, Vir};

/// A compiled map body.
pub struct Compiled {
    code: pages::Code,
    /// Facts about its code.
    pub report: Report,
}

/// Facts about compiled code.
#[derive(Clone, Debug)]
pub struct Report {
    /// Instruction set.
    pub isa: Isa,
    /// Points per step.
    pub lanes: usize,
    /// Unroll factor: copies of the step in the main loop (of phases: the largest).
    pub copies: usize,
    /// Instructions of one step.
    pub instructions: usize,
    /// Bytes of code, constants included.
    pub bytes: usize,
    /// Values spilled to the frame in the main loop.
    pub spills: usize,
    /// Whether a run may find lanes for the slow path, and so return false after it has written outputs: inputs must
    /// then be unchanged, and so must the previous contents of accumulating stores.
    pub rereads_inputs: bool,
    /// Compile time.
    pub time: Duration,
}

/// Options beside the body: store mode, and limits for tests.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Knobs {
    /// Maximum vector registers for values, and for accumulators.
    pub registers: Option<usize>,
    /// Exact number of copies, even with spills.
    pub copies: Option<usize>,
    /// Whole vectors are stored non-temporally: see [`compile_streaming`].
    pub streaming: bool,
}

/// Compiles a body for an instruction set that this machine has.
pub fn compile(body: &Body, isa: Isa) -> Result<Compiled, Unsupported> {
    compile_with(body, isa, Knobs::default())
}

/// Like [`compile`], for outputs larger than the caches: whole vectors are stored non-temporally, which saves reading
/// the lines first. The first element of each row of every output must be aligned to 64 bytes.
pub fn compile_streaming(body: &Body, isa: Isa) -> Result<Compiled, Unsupported> {
    compile_with(body, isa, Knobs { streaming: true, ..Knobs::default() })
}

pub(crate) fn compile_with(body: &Body, isa: Isa, knobs: Knobs) -> Result<Compiled, Unsupported> {
    let began = Instant::now();
    let (bytes, mut report) = assemble(body, isa, knobs)?;
    let code = pages::Code::publish(&bytes).ok_or(Unsupported::NoPages)?;
    report.time = began.elapsed();
    tracing::debug!(?report, "compiled a map body");
    Ok(Compiled { code, report })
}

/// Assembles the machine code of a body.
pub(crate) fn assemble(body: &Body, isa: Isa, knobs: Knobs) -> Result<(Vec<u8>, Report), Unsupported> {
    let body = prepare(body);
    let v = lower::lower(&body, isa.target())?;
    let order = schedule::order(&v);
    let limits = limits(&v, knobs, false);
    let last = schedule::unroll(&v, &order, 1, 1, true);
    let tail = regalloc::allocate(&last, v.target, self::limits(&v, knobs, true)).ok_or(Unsupported::TooLarge)?;
    let mut turns = turn_code::compile(&v, limits).ok_or(Unsupported::TooLarge)?;
    let (main, mut loops) = unrolled(&v, &order, limits, tail.peak, knobs).ok_or(Unsupported::TooLarge)?;
    // A loop preserves no registers, so nothing can be hoisted across it.
    if turns.is_empty() {
        loops.hoist(&main, limits.vectors);
    }
    let single = (main.copies > 1).then(|| schedule::unroll(&v, &order, 1, 1, false));
    let single = single.and_then(|p| regalloc::allocate(&p, v.target, limits).map(|a| (p, a)));
    let steps = ((&main, &loops), single.as_ref().map(|(p, a)| (p, a)), (&last, &tail));
    let bytes = function::emit(isa, &v, &mut turns, &body, steps, knobs.streaming).ok_or(Unsupported::TooLarge)?;
    let report = Report {
        isa,
        lanes: v.lanes,
        copies: main.copies,
        instructions: order.len(),
        bytes: bytes.len(),
        spills: loops.spills,
        // A stride out of range also ends in the slow path, but before anything is written.
        rereads_inputs: turn_code::has_guards(&v),
        time: Duration::ZERO,
    };
    let parts = [("main loop".into(), &main, &loops), ("tail".into(), &last, &tail)];
    dump::write("map", &body, &report, &parts, &bytes);
    Ok((bytes, report))
}

fn limits(v: &Vir, knobs: Knobs, tail: bool) -> Limits {
    let gathers = v.insts.iter().any(|i| i.op == Op::Gather);
    let spare = (!v.target.mask_registers() && (gathers || tail)) as usize;
    let vectors = v.target.vectors - spare;
    Limits { vectors: knobs.registers.map_or(vectors, |r| r.min(vectors)), masks: v.target.masks() }
}

/// Unrolls the step by the largest factor, up to four, without spills; by one if there is none.
fn unrolled(v: &Vir, order: &[Val], limits: Limits, single: usize, knobs: Knobs) -> Option<(Program, Allocation)> {
    // Interleaving hides latency even if the code outgrows the first-level cache: 100 consecutive tanh, 2,300
    // instructions a step, take 27 µs on 1,024 points with four copies and 97 µs with one.
    for copies in [4, 2] {
        // Copies would share the frame slots of loops.
        let promising = v.loops.is_empty()
            && single * copies <= limits.vectors + limits.vectors / 2
            && TUNABLES.max_unrolled_instructions.admits(order.len() * copies);
        if !knobs.copies.map_or(promising, |c| c == copies && v.loops.is_empty()) {
            continue;
        }
        let p = schedule::unroll(v, order, copies, copies, false);
        let fits = |a: &Allocation| a.spills == 0 || knobs.copies.is_some();
        if let Some(a) = regalloc::allocate(&p, v.target, limits).filter(fits) {
            return Some((p, a));
        }
    }
    let p = schedule::unroll(v, order, 1, 1, false);
    let a = regalloc::allocate(&p, v.target, limits)?;
    Some((p, a))
}

impl Rows for Compiled {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize) -> bool {
        // SAFETY: the code was emitted with this signature and published whole; it lives as long as `self`.
        let f: extern "sysv64" fn(*const u64, usize, usize) -> u64 = unsafe { std::mem::transmute(self.code.start()) };
        f(args.as_ptr(), n, rows) == 0
    }
}
