//! Row bodies: all phases of a body in one function.
//!
//! ```text
//! for each group of rows:  for each phase of the call:  for each row of the group:
//!     once:  straight-line code for values of the row
//!     pass:  accumulators = identity; main loop and masked steps as in map code; tree reduction over lanes
//! ```
//!
//! The end of a pass - a tree reduction, a root, a division - has a long latency and does not depend on other rows: in
//! a group, one row's end overlaps with the next row's pass. Each phase is lowered, scheduled and allocated separately.
//! Values of a row are frame vectors with the same value in every lane, so a phase reads them like scalars; rbx holds
//! the address of the row's values. They are loaded from and stored to memory only if a call runs some of the phases.

use super::accumulators::{Accumulators, LANES};
use super::asm::*;
use super::elements::lane_of;
use super::emit::*;
use super::function::{Frame, loads_in_rows};
use super::isa::Isa;
use super::regalloc::{self, Allocation, Limits};
use super::schedule::{self, Program};
use super::turn_code::{self, TurnCode};
use super::vir::Vir;
use super::{Knobs, Report, Unsupported, dump, limits, lower, pages, unrolled};
use crate::prepare::prepare;
use crate::row_call::MAX_ROWS_ABREAST;
use crate::row_call::{ACCESS_WORDS, InnerReduction, RowArgs};
use std::ops::Range;
use std::time::{Duration, Instant};
use thalweg_kernel::{Access, AccessClass, Body, Phases, online_passes, phases};

/// A compiled row body.
pub struct CompiledInnerReduction {
    code: pages::Code,
    /// Phases that its calls run; values and buffers are numbered here.
    pub phases: Phases,
    /// Facts about its code.
    pub report: Report,
}

/// Compiles a row body for an instruction set that this machine has; `keep` as in [`thalweg_kernel::phases`].
pub fn compile_inner_reduction(body: &Body, isa: Isa, keep: bool) -> Result<CompiledInnerReduction, Unsupported> {
    compile_inner_reduction_with(body, isa, keep, Knobs::default())
}

/// Like [`compile_inner_reduction`], for outputs larger than the caches: the last pass stores whole vectors non-temporally. The
/// first element of each row of every output that is stored point by point must be aligned to 64 bytes.
pub fn compile_inner_reduction_streaming(
    body: &Body,
    isa: Isa,
    keep: bool,
) -> Result<CompiledInnerReduction, Unsupported> {
    compile_inner_reduction_with(body, isa, keep, Knobs { streaming: true, ..Knobs::default() })
}

pub(crate) fn compile_inner_reduction_with(
    body: &Body,
    isa: Isa,
    keep: bool,
    knobs: Knobs,
) -> Result<CompiledInnerReduction, Unsupported> {
    let began = Instant::now();
    let prepared = prepare(body);
    let phases = phases(&prepared, keep);
    let (bytes, mut report) = assemble_inner_reduction(&prepared, &phases, isa, knobs)?;
    let code = pages::Code::publish(&bytes).ok_or(Unsupported::NoPages)?;
    report.time = began.elapsed();
    tracing::debug!(?report, "compiled a row body");
    Ok(CompiledInnerReduction { code, phases, report })
}

/// Vector registers reserved for loops in a pass with folds, if there are enough.
const OF_TURNS: usize = 10;

/// A phase, ready to be emitted.
struct CompiledPhase {
    v: Vir,
    /// The main loop; for a phase that runs once per row, all its code.
    main: (Program, Allocation),
    tail: Option<(Program, Allocation)>,
    held: Option<Accumulators>,
    turns: Vec<TurnCode>,
    /// Values of the row that it computes, and bytes per lane.
    gives: Vec<(u16, u8)>,
    /// Values that the caller computes from its buffers before the next phase, by user-defined monoids.
    left: Vec<(u16, u8)>,
    instructions: usize,
    slots: i32,
}

/// Assembles the machine code of a prepared body's phases.
pub(crate) fn assemble_inner_reduction(
    body: &Body,
    phases: &Phases,
    isa: Isa,
    knobs: Knobs,
) -> Result<(Vec<u8>, Report), Unsupported> {
    let make = |p: &thalweg_kernel::Phase| Ok(CompiledPhase { left: left(p), ..part(&p.body, p.once, isa, knobs)? });
    let mut parts = phases.list.iter().map(make).collect::<Result<Vec<CompiledPhase>, _>>()?;
    let nothing = Vir::new(isa.target(), isa.bytes() / 4);
    let accesses: Vec<Access> = phases.list.first().map_or(body.accesses.clone(), |p| p.body.accesses.clone());
    let ahead = ahead(body, phases);
    // If passes run fused block by block, the second pass prefetches the next block.
    let second = online_passes(body, phases, body.folds.len()).map(|l| l.phases.end - 1);
    let bytes = emit(isa, body, &mut parts, &nothing, &accesses, (phases.values.len(), ahead, second), knobs.streaming)
        .ok_or(Unsupported::TooLarge)?;
    let passes = || parts.iter().filter(|p| p.tail.is_some());
    let report = Report {
        isa,
        lanes: passes().map(|p| p.v.lanes).min().unwrap_or(1),
        copies: passes().map(|p| p.main.0.copies).max().unwrap_or(1),
        instructions: parts.iter().map(|p| p.instructions).sum(),
        bytes: bytes.len(),
        spills: parts.iter().map(|p| p.main.1.spills).sum(),
        rereads_inputs: parts.iter().any(|p| turn_code::has_guards(&p.v)),
        time: Duration::ZERO,
    };
    let loops = parts.iter().enumerate().flat_map(|(k, p)| {
        let main = if p.tail.is_some() { "main loop" } else { "once a row" };
        let both = [Some((main, &p.main)), p.tail.as_ref().map(|t| ("tail", t))];
        both.into_iter().flatten().map(move |(what, l)| (format!("phase {k}, {what}"), &l.0, &l.1))
    });
    dump::write("rows", body, &report, &loops.collect::<Vec<_>>(), &bytes);
    Ok((bytes, report))
}

/// Accesses that a late pass prefetches: the first pass's loads, if there are several passes. No pass reads into the
/// next row, so the hardware prefetcher does not see that row before the last pass has ended, and its first lines would
/// stall each time (rows of 1024 in the third-level cache, layer norm: 112 ns a row without).
fn ahead(body: &Body, phases: &Phases) -> Vec<(u16, u8)> {
    let mut passes = phases.list.iter().filter(|p| !p.once);
    let (Some(first), Some(_)) = (passes.next(), passes.next()) else { return vec![] };
    loads_in_rows(&first.body, body.accesses.len(), AccessClass::Contiguous)
}

/// Values that folds by user-defined monoids compute from the buffers of a phase.
fn left(phase: &thalweg_kernel::Phase) -> Vec<(u16, u8)> {
    let folds = phase.combined.iter().filter(|c| c.along == thalweg_kernel::Along::Fold);
    folds.flat_map(|c| (c.slot..).zip(c.of.region().args.iter().map(|&d| lane_of(d)))).collect()
}

fn part(body: &Body, once: bool, isa: Isa, knobs: Knobs) -> Result<CompiledPhase, Unsupported> {
    let v = lower::lower_phase(body, isa.target(), once)?;
    let order = schedule::order(&v);
    let given = body.folds.iter().map(|f| (f.slot, f.node)).chain(body.sets.iter().map(|s| (s.slot, s.node)));
    let gives = given.map(|(slot, node)| (slot, lane_of(body.dtype(node)))).collect();
    let (instructions, left) = (order.len(), vec![]);
    let whole = |p: Program, limits| {
        let a = regalloc::allocate(&p, v.target, limits).ok_or(Unsupported::TooLarge)?;
        Ok((p, a))
    };
    let loops = |limits| turn_code::compile(&v, limits).ok_or(Unsupported::TooLarge);
    if once {
        let all = isa.registers() - 1;
        let limits = Limits { vectors: knobs.registers.map_or(all, |r| r.min(all)), masks: v.target.masks() };
        let main = whole(schedule::unroll(&v, &order, 1, 1, false), limits)?;
        let turns = loops(limits)?;
        return Ok(CompiledPhase { v, main, tail: None, held: None, turns, gives, left, instructions, slots: 0 });
    }
    let mut masked = limits(&v, knobs, true);
    let tail = whole(schedule::unroll(&v, &order, 1, 1, true), masked)?;
    if v.folds.is_empty() {
        let limits = limits(&v, knobs, false);
        let (p, mut a) = unrolled(&v, &order, limits, tail.1.peak, knobs).ok_or(Unsupported::TooLarge)?;
        let turns = loops(limits)?;
        if turns.is_empty() {
            a.hoist(&p, limits.vectors);
        }
        return Ok(CompiledPhase {
            v,
            main: (p, a),
            tail: Some(tail),
            held: None,
            turns,
            gives,
            left,
            instructions,
            slots: 0,
        });
    }
    // Loops need registers, too.
    let need = if v.loops.is_empty() { tail.1.peak } else { tail.1.peak.max(OF_TURNS) };
    let held = Accumulators::new(&v, need, knobs.registers);
    masked = Limits { vectors: masked.vectors.min(held.vectors), masks: held.masks };
    let tail = whole(tail.0, masked)?;
    let (p, mut a) = folding(&v, &order, masked, tail.1.peak, knobs).ok_or(Unsupported::TooLarge)?;
    let turns = loops(masked)?;
    if turns.is_empty() {
        a.hoist(&p, masked.vectors);
    }
    Ok(CompiledPhase {
        v,
        main: (p, a),
        tail: Some(tail),
        held: Some(held),
        turns,
        gives,
        left,
        instructions,
        slots: 0,
    })
}

/// Unrolls by as many copies as the order of folds requires, interleaving as many as the registers allow.
fn folding(
    v: &Vir,
    order: &[super::Val],
    limits: Limits,
    single: usize,
    knobs: Knobs,
) -> Option<(Program, Allocation)> {
    let copies = LANES / v.lanes;
    // Interleaved copies would share the frame slots of loops.
    let mut abreast = if v.loops.is_empty() { knobs.copies.unwrap_or(copies).min(copies) } else { 1 };
    loop {
        if abreast == 1 || knobs.copies.is_some() || single * abreast <= limits.vectors + limits.vectors / 2 {
            let p = schedule::unroll(v, order, copies, abreast, false);
            // Two interleaved copies of exp on AVX2 are worth one spill each.
            let fits = |a: &Allocation| a.spills <= abreast || knobs.copies.is_some() || abreast == 1;
            match regalloc::allocate(&p, v.target, limits).filter(fits) {
                Some(a) => return Some((p, a)),
                None if abreast == 1 => return None,
                None => {}
            }
        }
        abreast = (abreast / 2).max(1);
    }
}

fn emit(
    isa: Isa,
    body: &Body,
    parts: &mut [CompiledPhase],
    nothing: &Vir,
    accesses: &[Access],
    (values, ahead, second): (usize, Vec<(u16, u8)>, Option<usize>),
    streaming: bool,
) -> Option<Vec<u8>> {
    let mut frame = Frame::new(accesses);
    let starts = frame.words(accesses);
    let home = frame.vectors(values * MAX_ROWS_ABREAST);
    for p in parts.iter_mut() {
        p.slots = frame.vectors(p.v.slots.len());
        turn_code::place(&mut p.turns, &p.v, &mut |n| frame.vectors(n));
    }
    // A phase ends before the next begins, so phases share spill slots.
    let places = |p: &CompiledPhase| p.main.1.places.max(p.tail.as_ref().map_or(0, |t| t.1.places)) as usize;
    let spills = frame.vectors(parts.iter().map(places).max().unwrap_or(0));
    let homes = frame.vectors(parts.iter().map(|p| p.held.as_ref().map_or(0, |h| h.frame())).max().unwrap_or(0));
    parts.iter_mut().filter_map(|p| p.held.as_mut()).for_each(|h| h.homes = homes);
    let parts = &*parts;

    let mut e = Emit::new(isa, nothing, accesses);
    (e.along, e.spills, e.scratch) = (true, spills, frame.vectors(1));
    let (exit, leave, group) = (e.a.label(), e.a.label(), e.a.label());
    e.prologue(frame.size()?, leave);
    e.a.store(at(RSP, FRAME_START), RCX);
    e.a.store(at(RSP, FRAME_END), 8);
    e.access_words(starts, exit);
    e.a.lea(RBX, at(RSP, home));
    e.values_from_memory(body, parts, values);
    let by_call = |p: &CompiledPhase| p.v.slots.iter().any(|s| s.by_call());
    for (k, p) in parts.iter().enumerate().filter(|(_, p)| by_call(p)) {
        let skip = e.phase(k, p);
        e.fill_slots(false);
        e.a.bind(skip);
    }
    e.a.bind(group);
    e.group(body);
    let last = parts.iter().rposition(|p| p.tail.is_some());
    // A pass between the first and the last leaves memory bandwidth unused, but must be long enough.
    let passes: Vec<usize> = (0..parts.len()).filter(|&k| parts[k].tail.is_some()).collect();
    let between = passes.get(1..passes.len().saturating_sub(1)).unwrap_or_default();
    let long = |k: &usize| parts[*k].instructions >= 2 * last.map_or(0, |l| parts[l].instructions);
    let asks = second.or(between.iter().copied().filter(long).max_by_key(|&k| parts[k].instructions)).or(last);
    for (k, p) in parts.iter().enumerate() {
        let skip = e.phase(k, p);
        e.streaming = if streaming && Some(k) == last { body.accesses.len() as u16 } else { 0 };
        e.ahead = if Some(k) == asks { ahead.clone() } else { vec![] };
        e.first_row(starts, home);
        let row = e.a.label();
        e.a.bind(row);
        e.a.load(RBX, at(RSP, FRAME_VALUES));
        match &p.tail {
            None => {
                e.pointers.clear();
                e.row_start();
                e.steps((&p.main.0, &p.main.1));
            }
            Some(tail) => e.pass((&p.main.0, &p.main.1), (&tail.0, &tail.1)),
        }
        e.a.arith_imm(0, at(RSP, FRAME_VALUES), 64 * values as i32);
        e.next_row(FRAME_LEFT, row);
        e.a.bind(skip);
    }
    e.next_group(body, starts, group);
    e.values_to_memory(body, parts);
    e.a.jump(leave);
    e.a.bind(exit);
    e.a.set(R12, 1);
    e.a.bind(leave);
    e.epilogue(streaming);
    Some(e.a.finish(&e.pool))
}

impl<'a> Emit<'a> {
    /// Starts a phase; jumps to the returned label if the call does not run it.
    fn phase(&mut self, k: usize, p: &'a CompiledPhase) -> Label {
        (self.v, self.held, self.slots, self.turns) = (&p.v, p.held.as_ref(), p.slots, &p.turns);
        self.salt = (k as u64 + 1) << 32;
        let skip = self.a.label();
        self.a.arith_imm(7, at(RSP, FRAME_START), k as i32);
        self.a.jump_if(Cond::Above, skip);
        self.a.arith_imm(7, at(RSP, FRAME_END), k as i32);
        self.a.jump_if(Cond::BelowEqual, skip);
        skip
    }

    /// Computes the number of rows of the next group.
    fn group(&mut self, body: &Body) {
        let together = self.accesses.len() * ACCESS_WORDS + body.scalars as usize + 1;
        self.a.load(RAX, at(RSP, FRAME_ROWS));
        self.a.load(RCX, at(R13, together as i32 * 8));
        self.a.scalar(true, &[0x39], RCX, Rm::Reg(RAX), 0); // cmp rax, rcx
        self.a.scalar(true, &[0x0F, 0x47], RAX, Rm::Reg(RCX), 0); // cmova
        self.a.store(at(RSP, FRAME_GROUP), RAX);
    }

    /// Resets the accesses and values to the group's first row.
    fn first_row(&mut self, starts: i32, home: i32) {
        for access in 0..self.accesses.len() as i32 {
            self.a.load(RAX, at(RSP, starts + 8 * access));
            self.a.store(at(RSP, FRAME_WORDS + 8 * access), RAX);
        }
        self.a.lea(RAX, at(RSP, home));
        self.a.store(at(RSP, FRAME_VALUES), RAX);
        self.a.load(RAX, at(RSP, FRAME_GROUP));
        self.a.store(at(RSP, FRAME_LEFT), RAX);
    }

    /// Advances to the next group, if there is one. Groups share the buffers.
    fn next_group(&mut self, body: &Body, starts: i32, group: Label) {
        for access in 0..body.accesses.len() {
            self.a.load(RAX, self.arg(access as u16, 1));
            self.a.scalar(true, &[0x0F, 0xAF], RAX, at(RSP, FRAME_GROUP), 0); // imul
            self.a.scalar(true, &[0x01], RAX, at(RSP, starts + 8 * access as i32), 0);
        }
        self.a.load(RAX, at(RSP, FRAME_GROUP));
        self.a.scalar(true, &[0x29], RAX, at(RSP, FRAME_ROWS), 0); // sub
        self.a.jump_if(Cond::NotEqual, group);
    }

    /// Emits a phase over the points of a row.
    fn pass(&mut self, main: Allocated, tail: Allocated) {
        let end = self.a.label();
        self.choose_pointers();
        self.start_folds();
        // Without points, there may be no element to fill a frame vector with.
        self.a.scalar(true, &[0x85], R15, Rm::Reg(R15), 0); // test
        self.a.jump_if(Cond::Equal, end);
        self.row_start();
        self.a.scalar(false, &[0x31], R14, Rm::Reg(R14), 0);
        self.main_loop(main);
        if self.held.is_none() {
            self.tail_loop(tail, end);
        } else {
            // Each masked step is another copy of the main loop's, with its own accumulators.
            let lanes = self.v.lanes as i32;
            for copy in 0..main.0.copies {
                self.copy = copy as u8;
                self.a.scalar(true, &[0x39], R15, Rm::Reg(R14), 0);
                self.a.jump_if(Cond::AboveEqual, end);
                self.tail_mask(lanes);
                self.steps(tail);
                self.a.arith_imm(0, Rm::Reg(R14), lanes);
            }
        }
        self.a.bind(end);
        self.end_folds();
    }

    /// Sets rax to the address of the row's values.
    fn values_address(&mut self, body: &Body) {
        let word = self.accesses.len() * ACCESS_WORDS + body.scalars as usize;
        self.a.load(RAX, at(R13, word as i32 * 8));
    }

    /// Loads the values that phases before the call's first computed.
    fn values_from_memory(&mut self, body: &Body, parts: &[CompiledPhase], values: usize) {
        if parts.len() < 2 || values == 0 {
            return;
        }
        let first = self.a.label();
        self.a.arith_imm(7, at(RSP, FRAME_START), 0);
        self.a.jump_if(Cond::Equal, first);
        self.values_address(body);
        for (k, p) in parts.iter().enumerate() {
            self.a.arith_imm(7, at(RSP, FRAME_START), k as i32);
            self.a.jump_if(Cond::BelowEqual, first);
            for &(value, lane) in p.gives.iter().chain(&p.left) {
                self.spread(at(RAX, 8 * value as i32), lane, self.value_at(value));
            }
        }
        self.a.bind(first);
    }

    /// Stores the values that the call's phases computed, if it did not run all phases.
    fn values_to_memory(&mut self, body: &Body, parts: &'a [CompiledPhase]) {
        let all = self.a.label();
        let some = self.a.label();
        self.a.arith_imm(7, at(RSP, FRAME_START), 0);
        self.a.jump_if(Cond::NotEqual, some);
        self.a.arith_imm(7, at(RSP, FRAME_END), parts.len() as i32);
        self.a.jump_if(Cond::AboveEqual, all);
        self.a.bind(some);
        self.values_address(body);
        for (k, p) in parts.iter().enumerate().filter(|(_, p)| !p.gives.is_empty()) {
            let skip = self.phase(k, p);
            for &(value, lane) in &p.gives {
                self.a.scalar(lane == 8, &[0x8B], RCX, self.value_at(value), 0);
                self.a.store(at(RAX, 8 * value as i32), RCX);
            }
            self.a.bind(skip);
        }
        self.a.bind(all);
    }
}

impl InnerReduction for CompiledInnerReduction {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, phases: Range<usize>) -> bool {
        type Function = extern "sysv64" fn(*const u64, usize, usize, usize, usize) -> u64;
        // SAFETY: the code was emitted with this signature and published whole; it lives as long as `self`.
        let f: Function = unsafe { std::mem::transmute(self.code.start()) };
        f(args.as_ptr(), n, rows, phases.start, phases.end) == 0
    }
}
