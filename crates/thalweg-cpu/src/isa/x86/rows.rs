//! The function of a row body: its phases, one after the other, for groups of rows.
//!
//! rbx holds the address of the row's values.

use super::Level;
use super::asm::*;
use super::emit::*;
use super::function::Frame;
use crate::row_call::ACCESS_WORDS;
use crate::row_call::MAX_ROWS_ABREAST;
use crate::vector::ir::Vir;
use crate::vector::loop_code;
use crate::vector::reduction::{CompiledPhase, Reduction};
use thalweg_kernel::Body;

/// Emits the function of a row body, followed by its pool. `None` if the frame is too large.
pub fn emit(level: Level, body: &Body, reduction: &mut Reduction, streaming: bool) -> Option<Vec<u8>> {
    let Reduction { phases: parts, accesses, ahead, second, values } = reduction;
    let (accesses, second, values) = (&**accesses, *second, *values);
    // No step is emitted before the first phase.
    let nothing = &Vir::new(level.target(), level.target().vector_bytes / 4);
    let mut frame = Frame::new(accesses);
    let starts = frame.words(accesses);
    let home = frame.vectors(values * MAX_ROWS_ABREAST);
    for p in parts.iter_mut() {
        p.slots = frame.vectors(p.v.slots.len());
        loop_code::place(&mut p.loops, &p.v, &mut |n| frame.vectors(n));
    }
    // A phase ends before the next begins, so phases share spill slots.
    let places = |p: &CompiledPhase| p.main.1.places.max(p.tail.as_ref().map_or(0, |t| t.1.places)) as usize;
    let spills = frame.vectors(parts.iter().map(places).max().unwrap_or(0));
    let homes = frame.vectors(parts.iter().map(|p| p.held.as_ref().map_or(0, |h| h.frame())).max().unwrap_or(0));
    parts.iter_mut().filter_map(|p| p.held.as_mut()).for_each(|h| h.homes = homes);
    let parts = &*parts;

    let mut e = Emit::new(level, nothing, accesses);
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
        (self.v, self.held, self.slots, self.loops) = (&p.v, p.held.as_ref(), p.slots, &p.loops);
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
