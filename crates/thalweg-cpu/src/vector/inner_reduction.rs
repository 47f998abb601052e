//! Compilation of the phases of a row body: each phase is lowered, scheduled, unrolled and register-allocated.
//!
//! ```text
//! for each group of rows:  for each phase of the call:  for each row of the group:
//!     once:  straight-line code for values of the row
//!     pass:  accumulators = identity; main loop and masked steps as in map code; tree reduction over lanes
//! ```
//!
//! The end of a pass - a tree reduction, a root, a division - has a long latency and does not depend on other rows: in
//! a group, one row's end overlaps with the next row's pass. Each phase is lowered, scheduled and allocated separately.
//! Values of a row are frame vectors with the same value in every lane, so a phase reads them like scalars. They are
//! loaded from and stored to memory only if a call runs some of the phases.

use super::Options;
use super::accumulators::{Accumulators, LANES};
use super::elements::lane_of;
use super::ir::target::Target;
use super::ir::{Val, Vir};
use super::loop_code::{self, LoopCode};
use super::lower::{self, Unsupported};
use super::map::{limits, loads_in_rows, unrolled};
use super::regalloc::{self, Allocation, Limits};
use super::schedule::{self, Program};
use thalweg_kernel::{Access, AccessClass, Body, Phase, Phases, online_passes};

/// Number of vector registers that accumulators leave to loops inside a pass with folds.
const MIN_LOOP_REGISTERS: usize = 10;

/// A register-allocated phase, ready to be emitted.
pub struct CompiledPhase {
    pub v: Vir,
    /// Code of the main loop; for a phase that runs once per row, its whole code.
    pub main: (Program, Allocation),
    pub tail: Option<(Program, Allocation)>,
    pub held: Option<Accumulators>,
    pub loops: Vec<LoopCode>,
    /// Values of the row (by index) that the phase computes, with their bytes per lane.
    pub gives: Vec<(u16, u8)>,
    /// Values of the row that the caller computes before the next phase, by user-defined monoids, from the buffers that
    /// this phase fills; with their bytes per lane.
    pub left: Vec<(u16, u8)>,
    pub instructions: usize,
    pub slots: i32,
}

/// A register-allocated row body, ready to be emitted.
pub struct Reduction {
    /// Phases of the body.
    pub phases: Vec<CompiledPhase>,
    /// Accesses of all phases, buffers included.
    pub accesses: Vec<Access>,
    /// Accesses of which a late pass prefetches the next rows, with bytes per element.
    pub ahead: Vec<(u16, u8)>,
    /// Index of the second pass if the passes run fused block by block: it then prefetches the next block.
    pub second: Option<usize>,
    /// Number of values of the row (results of folds and sets).
    pub values: usize,
}

/// Compiles the phases of a prepared body, up to register allocation.
pub fn compile(
    body: &Body,
    phases: &Phases,
    target: &'static Target,
    options: Options,
) -> Result<Reduction, Unsupported> {
    let make = |p: &Phase| Ok(CompiledPhase { left: left(p), ..phase(&p.body, p.once, target, options)? });
    let compiled = phases.list.iter().map(make).collect::<Result<Vec<CompiledPhase>, _>>()?;
    let accesses: Vec<Access> = phases.list.first().map_or(body.accesses.clone(), |p| p.body.accesses.clone());
    let ahead = ahead(body, phases);
    // If passes run fused block by block, the second pass prefetches the next block.
    let second = online_passes(body, phases, body.folds.len()).map(|l| l.phases.end - 1);
    Ok(Reduction { phases: compiled, accesses, ahead, second, values: phases.values.len() })
}

/// Accesses of which a late pass prefetches the next rows: the first pass's loads, if there are several passes. No pass
/// reads into the next row, so the hardware prefetcher does not see that row before the last pass has ended, and its
/// first cache lines would stall each time (rows of 1024 in the third-level cache, layer norm: 112 ns a row without).
fn ahead(body: &Body, phases: &Phases) -> Vec<(u16, u8)> {
    let mut passes = phases.list.iter().filter(|p| !p.once);
    let (Some(first), Some(_)) = (passes.next(), passes.next()) else { return vec![] };
    loads_in_rows(&first.body, body.accesses.len(), AccessClass::Contiguous)
}

/// Values of the row that folds by user-defined monoids compute from the buffers of a phase, with their bytes per lane.
fn left(phase: &Phase) -> Vec<(u16, u8)> {
    let folds = phase.combined.iter().filter(|c| c.along == thalweg_kernel::Along::Fold);
    folds.flat_map(|c| (c.slot..).zip(c.of.region().args.iter().map(|&d| lane_of(d)))).collect()
}

/// Compiles one phase, up to register allocation.
fn phase(body: &Body, once: bool, target: &'static Target, options: Options) -> Result<CompiledPhase, Unsupported> {
    let v = lower::lower_phase(body, target, once)?;
    let order = schedule::order(&v);
    let given = body.folds.iter().map(|f| (f.slot, f.node)).chain(body.sets.iter().map(|s| (s.slot, s.node)));
    let gives = given.map(|(slot, node)| (slot, lane_of(body.dtype(node)))).collect();
    let (instructions, left) = (order.len(), vec![]);
    let whole = |p: Program, limits| {
        let a = regalloc::allocate(&p, v.target, limits).ok_or(Unsupported::TooLarge)?;
        Ok((p, a))
    };
    let inner = |limits| loop_code::compile(&v, limits).ok_or(Unsupported::TooLarge);
    if once {
        let all = target.vectors - 1;
        let limits = Limits { vectors: options.registers.map_or(all, |r| r.min(all)), masks: v.target.masks() };
        let main = whole(schedule::unroll(&v, &order, 1, 1, false), limits)?;
        let loops = inner(limits)?;
        return Ok(CompiledPhase { v, main, tail: None, held: None, loops, gives, left, instructions, slots: 0 });
    }
    let mut masked = limits(&v, options, true);
    let tail = whole(schedule::unroll(&v, &order, 1, 1, true), masked)?;
    if v.folds.is_empty() {
        let limits = limits(&v, options, false);
        let (p, mut a) = unrolled(&v, &order, limits, tail.1.peak, options).ok_or(Unsupported::TooLarge)?;
        let loops = inner(limits)?;
        if loops.is_empty() {
            a.hoist(&p, limits.vectors);
        }
        return Ok(CompiledPhase {
            v,
            main: (p, a),
            tail: Some(tail),
            held: None,
            loops,
            gives,
            left,
            instructions,
            slots: 0,
        });
    }
    // Loops need registers, too.
    let need = if v.loops.is_empty() { tail.1.peak } else { tail.1.peak.max(MIN_LOOP_REGISTERS) };
    let held = Accumulators::new(&v, need, options.registers);
    masked = Limits { vectors: masked.vectors.min(held.vectors), masks: held.masks };
    let tail = whole(tail.0, masked)?;
    let (p, mut a) = folding(&v, &order, masked, tail.1.peak, options).ok_or(Unsupported::TooLarge)?;
    let loops = inner(masked)?;
    if loops.is_empty() {
        a.hoist(&p, masked.vectors);
    }
    Ok(CompiledPhase {
        v,
        main: (p, a),
        tail: Some(tail),
        held: Some(held),
        loops,
        gives,
        left,
        instructions,
        slots: 0,
    })
}

/// Unrolls a pass with folds by as many copies as the order of folds requires (32 points), interleaving as many copies
/// as the registers allow.
fn folding(v: &Vir, order: &[Val], limits: Limits, single: usize, options: Options) -> Option<(Program, Allocation)> {
    let copies = LANES / v.lanes;
    // Interleaved copies would share the frame slots of loops.
    let mut abreast = if v.loops.is_empty() { options.copies.unwrap_or(copies).min(copies) } else { 1 };
    loop {
        if abreast == 1 || options.copies.is_some() || single * abreast <= limits.vectors + limits.vectors / 2 {
            let p = schedule::unroll(v, order, copies, abreast, false);
            // Two interleaved copies of exp are worth one spill each (16 registers of 32 bytes).
            let fits = |a: &Allocation| a.spills <= abreast || options.copies.is_some() || abreast == 1;
            match regalloc::allocate(&p, v.target, limits).filter(fits) {
                Some(a) => return Some((p, a)),
                None if abreast == 1 => return None,
                None => {}
            }
        }
        abreast = (abreast / 2).max(1);
    }
}
