//! The function around the step of a map body: frame, loop over rows, main loop, masked tail.
//!
//! ```text
//! for each row:  fill the frame vectors that change by row; those of uniform accesses only where some have a stride
//!                between rows
//!                while n - i ≥ copies·lanes: main steps, unmasked
//!                while n - i ≥ lanes:        one step, unmasked
//!                if i < n:                   one step, lanes past n masked
//! ```
//!
//! In: a [`Map`]. Out: linear code. [`super::phases`] builds functions of row bodies from the same parts.

use super::emit::{Allocated, Emit, allocated};
use super::ir::{Op, Slot, Source};
use super::linear::{Cond, FRAME_GROUP, FRAME_ROWS, FRAME_WORDS, Gpr, Label, Line, Linear, Mem, Operand, at, frame};
use super::loop_code;
use super::map::{Map, loads_in_rows};
use crate::row_call::ACCESS_WORDS;
use thalweg_ir::DType;
use thalweg_kernel::{Access, AccessClass};

/// Prefetch distance of accesses with descending addresses, as the base-2 logarithm of a number of rows (8). The
/// hardware prefetcher follows long descents by itself; rows of 512 bytes end before it has started.
const ROWS_AHEAD_LOG: u8 = 3;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Limit of the magnitude of a stride, in elements; calls with larger strides take the slow path. 16 times the stride,
/// in bytes, must fit 32 bits.
const STRIDE_LIMIT: i32 = 1 << 25;
/// Maximum bytes of the frame: bodies that need more spill too much to be worth compiling.
const FRAME_LIMIT: i32 = 1 << 16;

/// Layout of the stack frame of an emitted function, from which its builders reserve space.
pub struct Frame {
    size: i32,
}

impl Frame {
    /// Returns a frame that contains the fixed words, and one word per access.
    pub fn new(accesses: &[Access]) -> Frame {
        Frame { size: FRAME_WORDS + 8 * accesses.len() as i32 }
    }
    /// Reserves a word of 8 bytes per access; returns the offset of the first.
    pub fn words(&mut self, accesses: &[Access]) -> i32 {
        let start = self.size;
        self.size += 8 * accesses.len() as i32;
        start
    }
    /// Reserves a word of 8 bytes; returns its offset.
    pub fn word(&mut self) -> i32 {
        self.size += 8;
        self.size - 8
    }
    /// Reserves `n` vectors of 64 bytes; returns the offset of the first.
    pub fn vectors(&mut self, n: usize) -> i32 {
        let start = (self.size + 63) & !63;
        self.size = start.saturating_add(i32::try_from(64 * n).unwrap_or(i32::MAX)).min(2 * FRAME_LIMIT);
        start
    }
    /// Bytes of the frame; `None` if they exceed [`FRAME_LIMIT`].
    pub fn size(&self) -> Option<i32> {
        (self.size <= FRAME_LIMIT).then_some(self.size)
    }
}

/// Builds the linear code of a map body. `None` if its frame is too large.
pub fn linear(map: &mut Map, streaming: bool) -> Option<Linear> {
    let Map { body, v, main, single, tail, loops, .. } = map;
    let (main, single, tail) = (allocated(main), single.as_ref().map(allocated), allocated(tail));
    let mut layout = Frame::new(&body.accesses);
    let mut e = Emit::new(v, &body.accesses);
    let uniform = e.uniform_accesses();
    let moves = frame(layout.word());
    e.slots = layout.vectors(v.slots.len());
    e.scratch = layout.vectors(1);
    let places = [Some(main), single, Some(tail)].into_iter().flatten().map(|p| p.1.places).max();
    e.spills = layout.vectors(places.unwrap_or(0) as usize);
    loop_code::place(loops, v, &mut |n| layout.vectors(n));
    e.loops = loops;
    e.streaming = if streaming { body.accesses.len() as u16 } else { 0 };
    if body.stores.iter().any(|s| s.combine.is_some()) {
        // Rows of accumulating stores are far apart and short, so they are prefetched.
        e.ahead = loads_in_rows(body, body.accesses.len(), AccessClass::Contiguous);
    }
    e.descents = loads_in_rows(body, body.accesses.len(), AccessClass::Reversed);
    e.choose_pointers();
    let (exit, leave, row) = (e.code.label(), e.code.label(), e.code.label());
    e.code.push(Line::Enter { frame: layout.size()?, phases: false, leave });
    e.code.branch_imm(Cond::Equal, Gpr::Count, 0, leave);
    e.access_words(FRAME_WORDS, exit);
    e.fill_slots(Slot::by_call);
    // Uniform accesses are the same in all rows of most calls, and a stencil or a convolution has many of them.
    let next = if uniform.is_empty() { row } else { e.code.label() };
    if !uniform.is_empty() {
        e.note_strides(&uniform, moves);
        e.fill_slots(Slot::is_uniform);
        e.code.push(Line::Jump(row));
        e.code.bind(next);
        e.code.load(Gpr::A, moves);
        e.code.branch_imm(Cond::Equal, Gpr::A, 0, row);
        uniform.iter().for_each(|&access| e.advance(access));
        e.fill_slots(Slot::is_uniform);
    }
    e.code.bind(row);
    e.row_start(|s| !s.by_call() && !s.is_uniform());
    e.code.push(Line::Set { to: Gpr::Position, value: 0 });
    let end = e.code.label();
    e.main_loop(main);
    if let Some(single) = single {
        e.single_steps(single);
    }
    e.tail_loop(tail, end);
    e.code.bind(end);
    for access in (0..body.accesses.len() as u16).filter(|access| !uniform.contains(access)) {
        e.advance(access);
    }
    e.code.push(Line::CountDown { at: frame(FRAME_ROWS), to: next });
    e.leave(exit, leave, streaming);
    Some(e.code)
}

impl Emit<'_> {
    /// Assigns general registers to the step's most important pointers: those of stores first.
    pub fn choose_pointers(&mut self) {
        self.pointers.clear();
        for &x in &self.v.effects {
            let i = self.v.inst(x);
            if matches!(i.op, Op::Store(_)) {
                self.want_pointer(i.aux as u32 as u64);
            }
        }
        for i in &self.v.insts {
            if matches!(i.op, Op::Load(_) | Op::LoadAt(_) | Op::Merge(..) | Op::Gather | Op::StepLow) {
                self.want_pointer(i.aux as u32 as u64);
            }
        }
    }
    fn want_pointer(&mut self, p: u64) {
        let next = self.pointers.len() + self.rows as usize;
        if self.pointers.iter().all(|q| q.0 != p) && next < self.target.pointers {
            self.pointers.push((p, Gpr::Pointer(next as u8)));
        }
    }

    /// Frame word with the address of an access in the current row (argument word 0, advanced row by row).
    fn word(&self, access: u16) -> Mem {
        frame(FRAME_WORDS + 8 * access as i32)
    }

    /// Emits code that copies argument word 0 of every access to the frame, from offset `to` on, where it is advanced
    /// row by row. Strides out of range jump to `exit`.
    pub fn access_words(&mut self, to: i32, exit: Label) {
        for (i, access) in self.accesses.iter().enumerate() {
            if access.class == AccessClass::Strided && access.operand.is_some() {
                self.code.load(Gpr::A, self.arg(i as u16, 2));
                self.code.add_const(Gpr::A, STRIDE_LIMIT);
                self.code.branch_imm(Cond::AboveEqual, Gpr::A, 2 * STRIDE_LIMIT, exit);
            }
            self.code.load(Gpr::A, self.arg(i as u16, 0));
            self.code.store(frame(to + 8 * i as i32), Gpr::A);
        }
    }

    /// Emits code that advances every access by a row, and jumps to `row` unless the counter at `left` reaches 0.
    pub fn next_row(&mut self, left: i32, row: Label) {
        (0..self.accesses.len() as u16).for_each(|access| self.advance(access));
        self.code.push(Line::CountDown { at: frame(left), to: row });
    }

    /// Emits code that advances an access by a row.
    fn advance(&mut self, access: u16) {
        self.code.load(Gpr::A, self.arg(access, 1));
        self.code.push(Line::AddTo { to: self.word(access), from: Gpr::A });
    }

    /// Accesses that are only read through slots of one element a row.
    fn uniform_accesses(&self) -> Vec<u16> {
        let access = |s: &Slot| if let Source::Uniform(access) = s.source { Some(access) } else { None };
        let mut all: Vec<u16> = self.v.slots.iter().filter_map(access).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Emits code that stores in `to` whether any of these accesses has a stride between rows.
    fn note_strides(&mut self, accesses: &[u16], to: Mem) {
        let (some, end) = (self.code.label(), self.code.label());
        for &access in accesses {
            self.code.load(Gpr::A, self.arg(access, 1));
            self.code.branch_imm(Cond::NotEqual, Gpr::A, 0, some);
        }
        self.code.push(Line::Jump(end));
        self.code.bind(some);
        self.code.push(Line::Set { to: Gpr::A, value: 1 });
        self.code.bind(end);
        self.code.store(to, Gpr::A);
    }

    /// Emits the end of a function: rejected calls arrive at `exit`, others fall through or jump to `leave`.
    pub fn leave(&mut self, exit: Label, leave: Label, streaming: bool) {
        self.code.push(Line::Jump(leave));
        self.code.bind(exit);
        self.code.push(Line::Set { to: Gpr::Faults, value: 1 });
        self.code.bind(leave);
        self.code.push(Line::Leave { fence: streaming });
    }

    /// Emits code for the start of a row: fills the slots that `filled` holds for, and loads its pointers.
    pub fn row_start(&mut self, filled: impl Fn(&Slot) -> bool) {
        self.fill_slots(filled);
        for (p, r) in self.pointers.clone() {
            self.code.load(r, self.pointer_home(p));
        }
    }

    /// Emits code that fills the frame vectors of the slots that `filled` holds for, and that are filled outside of steps.
    pub fn fill_slots(&mut self, filled: impl Fn(&Slot) -> bool) {
        for (i, s) in self.v.slots.clone().into_iter().enumerate() {
            if !matches!(s.source, Source::Tail | Source::Value(_) | Source::Iteration(_)) && filled(&s) {
                self.fill_slot(i as u64, s);
            }
        }
    }

    fn fill_slot(&mut self, i: u64, s: Slot) {
        let home = self.slot_at(i);
        match s.source {
            Source::Scalar(slot) => {
                let word = self.accesses.len() * ACCESS_WORDS + slot as usize;
                let word = at(Gpr::Args, word as i32 * 8);
                if s.dtype != DType::Bool {
                    return self.spread(word, s.lane, home);
                }
                self.code.load(Gpr::A, word);
                self.code.push(Line::Negate(Gpr::A));
            }
            Source::Stride(access) => return self.spread(self.arg(access, 2), s.lane, home),
            Source::Word(access) => return self.spread(self.word(access), s.lane, home),
            Source::Low(access) => {
                self.code.load(Gpr::A, self.word(access));
                self.code.push(Line::AndConst { to: Gpr::A, value: 3 });
            }
            Source::Uniform(access) => {
                self.code.load(Gpr::B, self.word(access));
                let from = at(Gpr::B, 0);
                if s.dtype.size() >= 4 {
                    return self.spread(from, s.lane, home);
                }
                self.code.push(Line::LoadElement { to: Gpr::A, from, dtype: s.dtype });
            }
            Source::Tail | Source::Value(_) | Source::Iteration(_) => {}
        }
        self.code.store(home, Gpr::A);
        if matches!(s.source, Source::Uniform(_)) && s.dtype == DType::F16 {
            self.code.push(Line::WidenHalf(home));
        }
        self.spread(home, s.lane, home);
    }

    /// Emits the broadcast of the element at `from` to a frame vector. (Register 0 is free between steps.)
    pub fn spread(&mut self, from: Mem, lane: u8, to: Mem) {
        self.code.push(Line::Broadcast { to: 0, from: Operand::Mem(from), lane });
        self.code.store_vector(to, 0);
    }

    /// Emits the main loop: unrolled steps from position 0 while at least `copies·lanes` points are left.
    pub fn main_loop(&mut self, main: Allocated) {
        let stride = self.v.lanes as i32 * main.0.copies as i32;
        let (top, rest) = (self.code.label(), self.code.label());
        self.code.branch_imm(Cond::Below, Gpr::Count, stride, rest);
        for &(val, r) in &main.1.hoisted {
            self.reload(main, val, r);
        }
        self.code.push(Line::Align);
        self.code.bind(top);
        self.prefetch(stride);
        self.steps(main);
        self.code.add_const(Gpr::Position, stride);
        self.code.address(Gpr::A, at(Gpr::Position, stride));
        self.code.branch(Cond::BelowEqual, Gpr::A, Gpr::Count, top);
        self.code.bind(rest);
    }

    /// Emits the loop of single unmasked steps, which runs while at least `lanes` points are left.
    fn single_steps(&mut self, single: Allocated) {
        let lanes = self.v.lanes as i32;
        let (top, rest) = (self.code.label(), self.code.label());
        self.code.address(Gpr::A, at(Gpr::Position, lanes));
        self.code.branch(Cond::Above, Gpr::A, Gpr::Count, rest);
        self.code.bind(top);
        self.steps(single);
        self.code.add_const(Gpr::Position, lanes);
        self.code.address(Gpr::A, at(Gpr::Position, lanes));
        self.code.branch(Cond::BelowEqual, Gpr::A, Gpr::Count, top);
        self.code.bind(rest);
    }

    /// Emits prefetches of the next `points` points of later rows: of the next row (in row bodies, the next group of
    /// rows) for `ahead`, of the 8th row on for `descents`.
    fn prefetch(&mut self, points: i32) {
        for (access, size) in self.ahead.clone() {
            self.code.load(Gpr::A, self.arg(access, 1));
            if self.rows {
                // Earlier passes have read the rows of this group already.
                self.code.push(Line::Mul { to: Gpr::A, from: frame(FRAME_GROUP) });
            }
            self.code.push(Line::Add { to: Gpr::A, from: self.word(access) });
            for line in (0..points * size as i32).step_by(LINE) {
                self.code.push(Line::Prefetch(Mem { base: Gpr::A, index: Some((Gpr::Position, size)), disp: line }));
            }
        }
        for (access, size) in self.descents.clone() {
            self.code.load(Gpr::A, self.arg(access, 1));
            self.code.push(Line::ShiftLeft(Gpr::A, ROWS_AHEAD_LOG));
            self.code.push(Line::Add { to: Gpr::A, from: self.word(access) });
            self.code.push(Line::Copy { to: Gpr::B, from: Gpr::Position });
            self.code.push(Line::Negate(Gpr::B));
            for line in (0..points * size as i32).step_by(LINE) {
                self.code.push(Line::Prefetch(Mem { base: Gpr::A, index: Some((Gpr::B, size)), disp: -line }));
            }
        }
    }

    /// Emits the loop of masked steps to the end of the row, which jumps to `end` if no points are left.
    pub fn tail_loop(&mut self, tail: Allocated, end: Label) {
        let last = self.code.label();
        self.code.branch(Cond::AboveEqual, Gpr::Position, Gpr::Count, end);
        for &(val, r) in &tail.1.hoisted {
            self.reload(tail, val, r);
        }
        self.code.bind(last);
        self.masked_step(tail);
        self.code.branch(Cond::Below, Gpr::Position, Gpr::Count, last);
    }

    /// Emits one step whose lanes past the end of the row are masked.
    pub fn masked_step(&mut self, tail: Allocated) {
        self.code.push(Line::TailMask { lanes: self.v.lanes as u8, inside: self.slots });
        self.steps(tail);
        self.code.add_const(Gpr::Position, self.v.lanes as i32);
    }
}
