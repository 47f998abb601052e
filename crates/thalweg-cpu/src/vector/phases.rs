//! Emission of the function of a row body: for each group of rows, its phases one after the other.
//!
//! In: a [`Reduction`]. Out: linear code. `Gpr::Values` holds the address of the row's values.

use super::emit::{Allocated, Emit, allocated};
use super::function::Frame;
use super::inner_reduction::{CompiledPhase, Reduction};
use super::ir::target::Target;
use super::ir::{Slot, Vir};
use super::linear::{
    Cond, FRAME_END, FRAME_GROUP, FRAME_LEFT, FRAME_ROWS, FRAME_START, FRAME_VALUES, FRAME_WORDS, Gpr, Label, Line,
    Linear, Word, at, frame,
};
use super::loop_code;
use crate::row_call::{ACCESS_WORDS, MAX_ROWS_ABREAST};
use thalweg_kernel::Body;

/// Builds the linear code of a row body. `None` if its frame is too large.
pub fn linear(body: &Body, reduction: &mut Reduction, target: &'static Target, streaming: bool) -> Option<Linear> {
    let Reduction { phases: parts, accesses, ahead, second, values } = reduction;
    let (accesses, second, values) = (&**accesses, *second, *values);
    let mut layout = Frame::new(accesses);
    let starts = layout.words(accesses);
    let home = layout.vectors(values * MAX_ROWS_ABREAST);
    for p in parts.iter_mut() {
        p.slots = layout.vectors(p.v.slots.len());
        loop_code::place(&mut p.loops, &p.v, &mut |n| layout.vectors(n));
    }
    // A phase ends before the next begins, so phases share spill slots.
    let places = |p: &CompiledPhase| p.main.1.places.max(p.tail.as_ref().map_or(0, |t| t.1.places)) as usize;
    let spills = layout.vectors(parts.iter().map(places).max().unwrap_or(0));
    let homes = layout.vectors(parts.iter().map(|p| p.held.as_ref().map_or(0, |h| h.frame())).max().unwrap_or(0));
    parts.iter_mut().filter_map(|p| p.held.as_mut()).for_each(|h| h.homes = homes);
    let parts = &*parts;

    // No step is emitted before the first phase.
    let nothing = Vir::new(target, target.vector_bytes / 4);
    let mut e = Emit::new(&nothing, accesses);
    (e.rows, e.spills, e.scratch) = (true, spills, layout.vectors(1));
    let (exit, leave, group) = (e.code.label(), e.code.label(), e.code.label());
    e.code.push(Line::Enter { frame: layout.size()?, phases: true, leave });
    e.access_words(starts, exit);
    e.code.address(Gpr::Values, frame(home));
    e.values_from_memory(body, parts, values);
    let by_call = |p: &CompiledPhase| p.v.slots.iter().any(|s| s.by_call());
    for (k, p) in parts.iter().enumerate().filter(|(_, p)| by_call(p)) {
        let skip = e.phase(k, p);
        e.fill_slots(Slot::by_call);
        e.code.bind(skip);
    }
    e.code.bind(group);
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
        let row = e.code.label();
        e.code.bind(row);
        e.code.load(Gpr::Values, frame(FRAME_VALUES));
        match &p.tail {
            None => {
                e.pointers.clear();
                e.row_start(|s| !s.by_call());
                e.steps(allocated(&p.main));
            }
            Some(tail) => e.pass(allocated(&p.main), allocated(tail)),
        }
        e.code.push(Line::AddConst { to: Word::Mem(frame(FRAME_VALUES)), value: 64 * values as i32 });
        e.next_row(FRAME_LEFT, row);
        e.code.bind(skip);
    }
    e.next_group(body, starts, group);
    e.values_to_memory(body, parts);
    e.leave(exit, leave, streaming);
    Some(e.code)
}

impl<'a> Emit<'a> {
    /// Emits the start of phase `k`: a jump to the returned label if the call does not run the phase.
    fn phase(&mut self, k: usize, p: &'a CompiledPhase) -> Label {
        (self.v, self.held, self.slots, self.loops) = (&p.v, p.held.as_ref(), p.slots, &p.loops);
        self.salt = (k as u64 + 1) << 32;
        let skip = self.code.label();
        self.code.branch_frame(Cond::Above, FRAME_START, k as i32, skip);
        self.code.branch_frame(Cond::BelowEqual, FRAME_END, k as i32, skip);
        skip
    }

    /// Emits the computation of the number of rows of the next group.
    fn group(&mut self, body: &Body) {
        let together = self.accesses.len() * ACCESS_WORDS + body.scalars as usize + 1;
        self.code.load(Gpr::A, frame(FRAME_ROWS));
        self.code.load(Gpr::B, at(Gpr::Args, together as i32 * 8));
        self.code.push(Line::Min { to: Gpr::A, from: Gpr::B });
        self.code.store(frame(FRAME_GROUP), Gpr::A);
    }

    /// Emits code that resets the accesses and values to the group's first row.
    fn first_row(&mut self, starts: i32, home: i32) {
        for access in 0..self.accesses.len() as i32 {
            self.code.load(Gpr::A, frame(starts + 8 * access));
            self.code.store(frame(FRAME_WORDS + 8 * access), Gpr::A);
        }
        self.code.address(Gpr::A, frame(home));
        self.code.store(frame(FRAME_VALUES), Gpr::A);
        self.code.load(Gpr::A, frame(FRAME_GROUP));
        self.code.store(frame(FRAME_LEFT), Gpr::A);
    }

    /// Emits code that advances to the next group, if there is one. Groups share the buffers, so only operands advance.
    fn next_group(&mut self, body: &Body, starts: i32, group: Label) {
        for access in 0..body.accesses.len() {
            self.code.load(Gpr::A, self.arg(access as u16, 1));
            self.code.push(Line::Mul { to: Gpr::A, from: frame(FRAME_GROUP) });
            self.code.push(Line::AddTo { to: frame(starts + 8 * access as i32), from: Gpr::A });
        }
        self.code.load(Gpr::A, frame(FRAME_GROUP));
        self.code.push(Line::SubTo { to: frame(FRAME_ROWS), from: Gpr::A, unless_zero: group });
    }

    /// Emits a phase over the points of a row.
    fn pass(&mut self, main: Allocated, tail: Allocated) {
        let end = self.code.label();
        self.choose_pointers();
        self.start_folds();
        // Without points, there may be no element to fill a frame vector with.
        self.code.branch_imm(Cond::Equal, Gpr::Count, 0, end);
        self.row_start(|s| !s.by_call());
        self.code.push(Line::Set { to: Gpr::Position, value: 0 });
        self.main_loop(main);
        if self.held.is_none() {
            self.tail_loop(tail, end);
        } else {
            // Each masked step is another copy of the main loop's, with its own accumulators.
            for copy in 0..main.0.copies {
                self.copy = copy as u8;
                self.code.branch(Cond::AboveEqual, Gpr::Position, Gpr::Count, end);
                self.masked_step(tail);
            }
        }
        self.code.bind(end);
        self.end_folds();
    }

    /// Emits the load of the address of the row's values, in the caller's memory, into register `A`.
    fn values_address(&mut self, body: &Body) {
        let word = self.accesses.len() * ACCESS_WORDS + body.scalars as usize;
        self.code.load(Gpr::A, at(Gpr::Args, word as i32 * 8));
    }

    /// Emits code that loads the row's values of phases before the call's first phase from the caller's memory.
    fn values_from_memory(&mut self, body: &Body, parts: &[CompiledPhase], values: usize) {
        if parts.len() < 2 || values == 0 {
            return;
        }
        let first = self.code.label();
        self.code.branch_frame(Cond::Equal, FRAME_START, 0, first);
        self.values_address(body);
        for (k, p) in parts.iter().enumerate() {
            self.code.branch_frame(Cond::BelowEqual, FRAME_START, k as i32, first);
            for &(value, lane) in p.gives.iter().chain(&p.left) {
                self.spread(at(Gpr::A, 8 * value as i32), lane, self.value_at(value));
            }
        }
        self.code.bind(first);
    }

    /// Emits code that stores the row's values of the call's phases to the caller's memory, unless the call ran all
    /// phases.
    fn values_to_memory(&mut self, body: &Body, parts: &'a [CompiledPhase]) {
        let all = self.code.label();
        let some = self.code.label();
        self.code.branch_frame(Cond::NotEqual, FRAME_START, 0, some);
        self.code.branch_frame(Cond::AboveEqual, FRAME_END, parts.len() as i32, all);
        self.code.bind(some);
        self.values_address(body);
        for (k, p) in parts.iter().enumerate().filter(|(_, p)| !p.gives.is_empty()) {
            let skip = self.phase(k, p);
            for &(value, lane) in &p.gives {
                self.code.push(Line::LoadWord { to: Gpr::B, from: self.value_at(value), bytes: lane });
                self.code.store(at(Gpr::A, 8 * value as i32), Gpr::B);
            }
            self.code.bind(skip);
        }
        self.code.bind(all);
    }
}
