//! The function around a step: frame, prologue, loop over rows, main loop, masked tail.
//!
//! ```text
//! for each row:  fill the frame vectors that change by row
//!                while n - i ≥ copies·lanes: main steps, unmasked
//!                while n - i ≥ lanes:        one step, unmasked
//!                if i < n:                   one step, lanes past n masked
//! ```
//!
//! [`super::rows`] builds functions of row bodies from the same parts.

use super::Level;
use super::asm::*;
use super::emit::*;
use super::ops;
use crate::row_call::ACCESS_WORDS;
use crate::vector::ir::{Op, Slot, Source};
use crate::vector::loop_code;
use crate::vector::map::{Map, loads_in_rows};
use thalweg_ir::DType;
use thalweg_kernel::{Access, AccessClass};

const SAVED: [Gpr; 6] = [RBX, RBP, R12, R13, R14, R15];
const POINTERS: [Gpr; 7] = [RBX, RBP, RDX, 8, 9, 10, 11];
/// Rows ahead at which descending accesses are prefetched, as a power of two. The hardware prefetcher follows long
/// descents by itself; rows of 512 bytes end before it has started.
const ROWS_AHEAD_LOG: u8 = 3;

/// Larger strides, in elements, take the slow path: 16 of them, in bytes, must fit 32 bits.
const STRIDE_LIMIT: i32 = 1 << 25;
/// Maximum bytes of the frame: bodies that need more spill too much to be worth compiling.
const FRAME_LIMIT: i32 = 1 << 16;

/// Layout of the stack frame.
pub struct Frame {
    size: i32,
}

impl Frame {
    /// The frame after the words of the accesses.
    pub fn new(accesses: &[Access]) -> Frame {
        Frame { size: FRAME_WORDS + 8 * accesses.len() as i32 }
    }
    /// Reserves a word per access; returns the offset of the first.
    pub fn words(&mut self, accesses: &[Access]) -> i32 {
        let start = self.size;
        self.size += 8 * accesses.len() as i32;
        start
    }
    /// Reserves `n` vectors; returns the offset of the first.
    pub fn vectors(&mut self, n: usize) -> i32 {
        let start = (self.size + 63) & !63;
        self.size = start.saturating_add(i32::try_from(64 * n).unwrap_or(i32::MAX)).min(2 * FRAME_LIMIT);
        start
    }
    /// Bytes of the frame; `None` if it is too large.
    pub fn size(&self) -> Option<i32> {
        (self.size <= FRAME_LIMIT).then_some(self.size)
    }
}

/// Emits the function of a map body, followed by its pool. `None` if the frame is too large.
pub fn emit(level: Level, map: &mut Map, streaming: bool) -> Option<Vec<u8>> {
    let Map { body, v, main, single, tail, loops, .. } = map;
    let (main, single, tail) = (allocated(main), single.as_ref().map(allocated), allocated(tail));
    let mut frame = Frame::new(&body.accesses);
    let mut e = Emit::new(level, v, &body.accesses);
    e.slots = frame.vectors(v.slots.len());
    e.scratch = frame.vectors(1);
    let places = [Some(main), single, Some(tail)].into_iter().flatten().map(|p| p.1.places).max();
    e.spills = frame.vectors(places.unwrap_or(0) as usize);
    loop_code::place(loops, v, &mut |n| frame.vectors(n));
    e.loops = loops;
    e.streaming = if streaming { body.accesses.len() as u16 } else { 0 };
    if body.stores.iter().any(|s| s.combine.is_some()) {
        // Rows of accumulating stores are far apart and short, so they are prefetched.
        e.ahead = loads_in_rows(body, body.accesses.len(), AccessClass::Contiguous);
    }
    e.descents = loads_in_rows(body, body.accesses.len(), AccessClass::Reversed);
    e.choose_pointers();
    let (exit, leave, row) = (e.a.label(), e.a.label(), e.a.label());
    e.prologue(frame.size()?, leave);
    e.a.scalar(true, &[0x85], R15, Rm::Reg(R15), 0); // test
    e.a.jump_if(Cond::Equal, leave);
    e.access_words(FRAME_WORDS, exit);
    e.fill_slots(false);
    e.a.bind(row);
    e.row_start();
    e.a.scalar(false, &[0x31], R14, Rm::Reg(R14), 0);
    let end = e.a.label();
    e.main_loop(main);
    if let Some(single) = single {
        e.single_steps(single);
    }
    e.tail_loop(tail, end);
    e.a.bind(end);
    e.next_row(FRAME_ROWS, row);
    e.a.jump(leave);
    e.a.bind(exit);
    e.a.set(R12, 1);
    e.a.bind(leave);
    e.epilogue(streaming);
    Some(e.a.finish(&e.pool))
}

impl Emit<'_> {
    /// Assigns registers to the pointers of the step.
    pub fn choose_pointers(&mut self) {
        self.pointers.clear();
        for &x in &self.v.effects {
            let i = self.v.inst(x);
            if matches!(i.op, Op::Store(_)) {
                self.want_pointer(i.aux as u32 as u64);
            }
        }
        for i in &self.v.insts {
            if matches!(i.op, Op::Load(_) | Op::Merge(..) | Op::Gather | Op::StepLow) {
                self.want_pointer(i.aux as u32 as u64);
            }
        }
    }
    fn want_pointer(&mut self, p: u64) {
        let free = &POINTERS[self.along as usize..];
        if self.pointers.iter().all(|q| q.0 != p) && self.pointers.len() < free.len() {
            self.pointers.push((p, free[self.pointers.len()]));
        }
    }

    /// Saves registers, allocates the frame, reads the argument block, `n` and the number of rows; leaves if there are
    /// no rows.
    pub fn prologue(&mut self, frame: i32, leave: Label) {
        SAVED.iter().for_each(|r| self.a.push(*r));
        self.a.scalar(true, &[0x89], RSP, reg(RAX), 0); // mov rax, rsp
        // Touch every page on the way down, as compilers do: the guard page must not be skipped.
        for page in 1..=frame / 4096 {
            self.a.scalar(true, &[0x85], RSP, at(RSP, -page * 4096), 0); // test
        }
        self.a.arith_imm(5, reg(RSP), frame);
        self.a.arith_imm(4, reg(RSP), -64);
        self.a.store(at(RSP, FRAME_RSP), RAX);
        self.a.store(at(RSP, FRAME_ROWS), RDX);
        self.a.scalar(true, &[0x89], RDI, reg(R13), 0);
        self.a.scalar(true, &[0x89], RSI, reg(R15), 0);
        self.a.scalar(false, &[0x31], R12, reg(R12), 0);
        self.a.scalar(true, &[0x85], RDX, reg(RDX), 0);
        self.a.jump_if(Cond::Equal, leave);
    }

    /// Copies word 0 of every access to the frame, from `to` on, where rows advance it; strides out of range jump to
    /// `exit`.
    pub fn access_words(&mut self, to: i32, exit: Label) {
        for (i, access) in self.accesses.iter().enumerate() {
            if access.class == AccessClass::Strided && access.operand.is_some() {
                self.a.load(RAX, self.arg(i as u16, 2));
                self.a.arith_imm(0, reg(RAX), STRIDE_LIMIT);
                self.a.arith_imm(7, reg(RAX), 2 * STRIDE_LIMIT);
                self.a.jump_if(Cond::AboveEqual, exit);
            }
            self.a.load(RAX, self.arg(i as u16, 0));
            self.a.store(at(RSP, to + 8 * i as i32), RAX);
        }
    }

    /// Advances every access by a row, and jumps to `row` if the counter at `left` has rows left.
    pub fn next_row(&mut self, left: i32, row: Label) {
        for access in 0..self.accesses.len() {
            let word = at(RSP, FRAME_WORDS + 8 * access as i32);
            self.a.load(RAX, self.arg(access as u16, 1));
            self.a.scalar(true, &[0x01], RAX, word, 0);
        }
        self.a.scalar(true, &[0xFF], 1, at(RSP, left), 0); // dec
        self.a.jump_if(Cond::NotEqual, row);
    }

    /// Returns the guards' result.
    pub fn epilogue(&mut self, streaming: bool) {
        if streaming {
            self.a.raw(&[0x0F, 0xAE, 0xF8]); // sfence: earlier stores become visible before later ones
        }
        self.a.scalar(true, &[0x89], R12, reg(RAX), 0); // mov rax, r12
        self.a.raw(&[0xC5, 0xF8, 0x77]); // vzeroupper
        self.a.load(RSP, at(RSP, FRAME_RSP));
        SAVED.iter().rev().for_each(|r| self.a.pop(*r));
        self.a.raw(&[0xC3]);
    }

    /// Fills the slots and loads the pointers of a row.
    pub fn row_start(&mut self) {
        self.fill_slots(true);
        for (p, r) in self.pointers.clone() {
            let home = self.pointer_home(p);
            self.a.load(r, home);
        }
    }

    /// Fills the frame vectors that change by row, or those that do not.
    pub fn fill_slots(&mut self, by_row: bool) {
        for (i, s) in self.v.slots.clone().into_iter().enumerate() {
            if !matches!(s.source, Source::Tail | Source::Value(_) | Source::Iteration(_)) && s.by_call() != by_row {
                self.fill_slot(i as u64, s);
            }
        }
    }

    fn fill_slot(&mut self, i: u64, s: Slot) {
        let home = self.slot_at(i);
        let word = |access: u16| at(RSP, FRAME_WORDS + 8 * access as i32);
        match s.source {
            Source::Scalar(slot) => {
                let block = self.accesses.len() * ACCESS_WORDS + slot as usize;
                if s.dtype != DType::Bool {
                    return self.spread(at(R13, block as i32 * 8), s.lane, home);
                }
                self.a.load(RAX, at(R13, block as i32 * 8));
                self.a.scalar(true, &[0xF7], 3, reg(RAX), 0); // neg
            }
            Source::Stride(access) => return self.spread(self.arg(access, 2), s.lane, home),
            Source::Word(access) => return self.spread(word(access), s.lane, home),
            Source::Low(access) => {
                self.a.load(RAX, word(access));
                self.a.arith_imm(4, reg(RAX), 3);
            }
            Source::Uniform(access) => {
                self.a.load(RCX, word(access));
                if s.dtype.size() >= 4 {
                    return self.spread(at(RCX, 0), s.lane, home);
                }
                self.element(s.dtype);
            }
            Source::Tail | Source::Value(_) | Source::Iteration(_) => {}
        }
        self.a.store(home, RAX);
        if matches!(s.source, Source::Uniform(_)) && s.dtype == DType::F16 {
            self.vector(ops::F16_F32, 0, 0, 0, home, None);
            self.vector(ops::MOVUPS_STORE[0], 0, 0, 0, home, None);
        }
        self.spread(home, s.lane, home);
    }

    /// Broadcasts the element at `from` to a frame vector. (Register 0 is free between steps.)
    pub fn spread(&mut self, from: Rm, lane: u8, to: Rm) {
        let full = self.full();
        self.vector(ops::BROADCAST[(lane == 8) as usize], full, 0, 0, from, None);
        self.vector(ops::MOVUPS_STORE[0], full, 0, 0, to, None);
    }

    /// Sets rax to the element at rcx, of 1 or 2 bytes, in its compute form (f16: its bits).
    fn element(&mut self, dtype: DType) {
        let opcode: &[u8] = match dtype {
            DType::I8 => &[0x0F, 0xBE],
            DType::I16 => &[0x0F, 0xBF],
            DType::U8 | DType::Bool => &[0x0F, 0xB6],
            _ => &[0x0F, 0xB7],
        };
        self.a.scalar(false, opcode, RAX, at(RCX, 0), 0);
        match dtype {
            DType::BF16 => self.a.raw(&[0xC1, 0xE0, 16]), // shl eax, 16
            DType::Bool => self.a.scalar(true, &[0xF7], 3, reg(RAX), 0),
            _ => {}
        }
    }

    /// Unrolled steps from r14 = 0 while a whole stride is left.
    pub fn main_loop(&mut self, main: Allocated) {
        let stride = self.v.lanes as i32 * main.0.copies as i32;
        let (top, rest) = (self.a.label(), self.a.label());
        self.a.arith_imm(7, reg(R15), stride);
        self.a.jump_if(Cond::Below, rest);
        for &(val, r) in &main.1.hoisted {
            self.reload(main, val, r);
        }
        self.a.align(32);
        self.a.bind(top);
        self.ask_ahead(stride);
        self.steps(main);
        self.a.arith_imm(0, reg(R14), stride);
        self.a.lea(RAX, at(R14, stride));
        self.a.scalar(true, &[0x39], R15, reg(RAX), 0); // cmp rax, r15
        self.a.jump_if(Cond::BelowEqual, top);
        self.a.bind(rest);
    }

    /// Single steps while a whole step is left: all but the last step of rows shorter than the main loop's stride.
    fn single_steps(&mut self, single: Allocated) {
        let lanes = self.v.lanes as i32;
        let (top, rest) = (self.a.label(), self.a.label());
        self.a.lea(RAX, at(R14, lanes));
        self.a.scalar(true, &[0x39], R15, reg(RAX), 0); // cmp rax, r15
        self.a.jump_if(Cond::Above, rest);
        self.a.bind(top);
        self.steps(single);
        self.a.arith_imm(0, reg(R14), lanes);
        self.a.lea(RAX, at(R14, lanes));
        self.a.scalar(true, &[0x39], R15, reg(RAX), 0);
        self.a.jump_if(Cond::BelowEqual, top);
        self.a.bind(rest);
    }

    /// Prefetches the elements a row ahead of the next `points` points.
    fn ask_ahead(&mut self, points: i32) {
        for (access, size) in self.ahead.clone() {
            self.a.load(RAX, self.arg(access, 1));
            if self.along {
                // Earlier passes have read the rows of this group already.
                self.a.scalar(true, &[0x0F, 0xAF], RAX, at(RSP, FRAME_GROUP), 0); // imul
            }
            self.a.scalar(true, &[0x03], RAX, at(RSP, FRAME_WORDS + 8 * access as i32), 0); // add
            for line in (0..points * size as i32).step_by(64) {
                let place = Rm::Mem { base: RAX, index: Some((R14, size)), disp: line };
                self.a.scalar(false, &[0x0F, 0x18], 1, place, 0); // prefetcht0
            }
        }
        for (access, size) in self.descents.clone() {
            self.a.load(RAX, self.arg(access, 1));
            self.a.raw(&[0x48, 0xC1, 0xE0, ROWS_AHEAD_LOG]); // shl rax
            self.a.scalar(true, &[0x03], RAX, at(RSP, FRAME_WORDS + 8 * access as i32), 0); // add
            self.a.scalar(true, &[0x89], R14, reg(RCX), 0); // mov rcx, r14
            self.a.scalar(true, &[0xF7], 3, reg(RCX), 0); // neg
            for line in (0..points * size as i32).step_by(64) {
                let place = Rm::Mem { base: RAX, index: Some((RCX, size)), disp: -line };
                self.a.scalar(false, &[0x0F, 0x18], 1, place, 0); // prefetcht0
            }
        }
    }

    /// Masked steps to the end of the row.
    pub fn tail_loop(&mut self, tail: Allocated, end: Label) {
        let lanes = self.v.lanes as i32;
        let last = self.a.label();
        self.a.scalar(true, &[0x39], R15, reg(R14), 0);
        self.a.jump_if(Cond::AboveEqual, end);
        for &(val, r) in &tail.1.hoisted {
            self.reload(tail, val, r);
        }
        self.a.bind(last);
        self.tail_mask(lanes);
        self.steps(tail);
        self.a.arith_imm(0, reg(R14), lanes);
        self.a.scalar(true, &[0x39], R15, reg(R14), 0);
        self.a.jump_if(Cond::Below, last);
    }

    /// Computes the count, bits and vector masks of the lanes inside the row.
    pub fn tail_mask(&mut self, lanes: i32) {
        self.a.scalar(true, &[0x89], R15, reg(RAX), 0);
        self.a.scalar(true, &[0x29], R14, reg(RAX), 0); // sub rax, r14
        self.a.set(RCX, lanes as u32);
        self.a.scalar(true, &[0x39], RCX, reg(RAX), 0);
        self.a.scalar(true, &[0x0F, 0x47], RAX, reg(RCX), 0); // cmova
        self.a.store(at(RSP, FRAME_COUNT), RAX);
        self.a.set(RCX, u32::MAX);
        self.a.raw(&[0xC4, 0xE2, 0x78, 0xF5, 0xC9]); // bzhi ecx, ecx, eax
        self.a.store(at(RSP, FRAME_BITS), RCX);
        if self.avx512() {
            self.mask_op(ops::KMOV_FROM_GPR, 0, 7, 0, reg(RCX));
            return;
        }
        let mut table = vec![0xFF; lanes as usize * 4];
        table.resize(lanes as usize * 8, 0);
        let place = self.place(table, (u64::MAX, 64 + lanes as u64), 32);
        // lea rcx, [table + 4·(lanes - count)]
        self.a.lea(RCX, Rm::Pool(place + lanes as u32 * 4));
        self.a.raw(&[0x48, 0xF7, 0xD8]); // neg rax
        self.a.lea(RCX, Rm::Mem { base: RCX, index: Some((RAX, 4)), disp: 0 });
        let t = self.level.target().vectors as u8 - 1;
        self.vector(ops::MOVUPS[0], self.len(4), t, 0, at(RCX, 0), None);
        self.vector(ops::MOVUPS_STORE[0], self.len(4), t, 0, self.slot_at(0), None);
        if lanes == 4 {
            self.vector(ops::MOVSX_DQ, 1, t, 0, at(RCX, 0), None);
            self.vector(ops::MOVUPS_STORE[0], 1, t, 0, self.slot_at(1), None);
        }
    }
}
