//! Compilation of a map body: its step is lowered, scheduled, unrolled and register-allocated.
//!
//! In: a body and a target. Out: a [`Map`], from which the function is emitted. Always true: its three programs compute
//! the same values; the main loop needs no masks.

use super::Options;
use super::ir::target::Target;
use super::ir::{Op, Val, Vir};
use super::loop_code::{self, LoopCode};
use super::lower::{self, Unsupported};
use super::regalloc::{self, Allocation, Limits};
use super::schedule::{self, Program};
use crate::prepare::prepare;
use crate::tunable::TUNABLES;
use thalweg_kernel::{AccessClass, Body, Node};

/// A program with its register allocation.
pub type Allocated = (Program, Allocation);

/// A register-allocated map body, ready to be emitted.
pub struct Map {
    /// Map body after the rewrites of [`prepare`].
    pub body: Body,
    /// Vector IR of one step.
    pub v: Vir,
    /// Code of the main loop: unrolled, unmasked steps.
    pub main: Allocated,
    /// Code of a single unmasked step, if the main loop is unrolled.
    pub single: Option<Allocated>,
    /// Code of the masked step at the end of a row.
    pub tail: Allocated,
    /// Code of the loops inside the step.
    pub loops: Vec<LoopCode>,
    /// Number of instructions of a step.
    pub instructions: usize,
}

/// Compiles a map body, up to register allocation.
pub fn compile(body: &Body, target: &'static Target, options: Options) -> Result<Map, Unsupported> {
    let body = prepare(body);
    let v = lower::lower(&body, target)?;
    let order = schedule::order(&v);
    let limits = limits(&v, options, false);
    let last = schedule::unroll(&v, &order, 1, 1, true);
    let tail = regalloc::allocate(&last, target, self::limits(&v, options, true)).ok_or(Unsupported::TooLarge)?;
    let loops = loop_code::compile(&v, limits).ok_or(Unsupported::TooLarge)?;
    let (main, mut registers) = unrolled(&v, &order, limits, tail.peak, options).ok_or(Unsupported::TooLarge)?;
    // A loop preserves no registers, so nothing can be hoisted across it.
    if loops.is_empty() {
        registers.hoist(&main, limits.vectors);
    }
    let single = (main.copies > 1).then(|| schedule::unroll(&v, &order, 1, 1, false));
    let single = single.and_then(|p| regalloc::allocate(&p, target, limits).map(|a| (p, a)));
    let instructions = order.len();
    Ok(Map { body, v, main: (main, registers), single, tail: (last, tail), loops, instructions })
}

/// Registers that the allocator may use for a step; `tail` selects the masked step.
pub fn limits(v: &Vir, options: Options, tail: bool) -> Limits {
    let gathers = v.insts.iter().any(|i| i.op == Op::Gather);
    let spare = (gathers || !v.target.mask_registers() && tail) as usize;
    let vectors = v.target.vectors - spare;
    Limits { vectors: options.registers.map_or(vectors, |r| r.min(vectors)), masks: v.target.masks() }
}

/// Unrolls the step by the largest of the target's factors that needs no spills; does not unroll if there is none.
pub fn unrolled(
    v: &Vir,
    order: &[Val],
    limits: Limits,
    single: usize,
    options: Options,
) -> Option<(Program, Allocation)> {
    // Interleaving hides latency even if the code outgrows the first-level cache: 100 consecutive tanh, 2,300
    // instructions a step, take 27 µs on 1,024 points with four copies and 97 µs with one.
    for &copies in v.target.unroll {
        // Copies would share the frame slots of loops.
        let promising = v.loops.is_empty()
            && single * copies <= limits.vectors + limits.vectors / 2
            && TUNABLES.max_unrolled_instructions.admits(order.len() * copies);
        if !options.copies.map_or(promising, |c| c == copies && v.loops.is_empty()) {
            continue;
        }
        let p = schedule::unroll(v, order, copies, copies, false);
        let fits = |a: &Allocation| a.spills == 0 || options.copies.is_some();
        if let Some(a) = regalloc::allocate(&p, v.target, limits).filter(fits) {
            return Some((p, a));
        }
    }
    let p = schedule::unroll(v, order, 1, 1, false);
    let a = regalloc::allocate(&p, v.target, limits)?;
    Some((p, a))
}

/// Maximum number of accesses that a function prefetches.
const MAX_PREFETCHED: usize = 3;

/// Finds the accesses to prefetch: the first few of a class, with index below `end`, that the body loads from at every
/// point. Returns each with its bytes per element.
pub fn loads_in_rows(body: &Body, end: usize, class: AccessClass) -> Vec<(u16, u8)> {
    let loads = body.nodes.iter().filter_map(|n| match *n {
        Node::Load { access } if (access as usize) < end => Some((access, &body.accesses[access as usize])),
        _ => None,
    });
    let in_rows = loads.filter(|(_, a)| a.class == class && !a.per_row);
    let mut ahead: Vec<(u16, u8)> = in_rows.map(|(n, a)| (n, a.dtype.size() as u8)).collect();
    ahead.dedup();
    ahead.truncate(MAX_PREFETCHED);
    ahead
}
