//! Assembly of the micro-kernels that `isa/gemm.rs` describes, as simple loops with fixed registers.
//!
//! In: a level, an [`Arithmetic`] and a [`Form`]. Out: the machine code of one function.

use super::super::gemm::{Arithmetic, Form};
use super::Level;
use super::abi::SAVED;
use super::asm::{Asm, Code, Cond, Extra, Gpr, R12, R13, R14, R15, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Rm, at};
use super::ops;
use crate::gemm_call::{StreamArgs, TileArgs};
use std::mem::offset_of;

mod dots;
mod tiles;

/// Unroll factor of the tile kernel's loop over terms.
const UNROLL: i32 = 4;
/// Prefetch distance in bytes in packed panels of B (1 KiB measured 3 % faster than 512 bytes, and 8 % faster than no
/// prefetch).
const AHEAD: i32 = 1024;

/// Maximum number of rows of a tile: with two vectors of accumulators per row, this leaves registers for a row of B,
/// for a broadcast element of A, and on AVX2 for the mask.
pub fn rows(level: Level) -> usize {
    match level {
        Level::Avx2 => 6,
        Level::Avx512 => 14,
    }
}

/// Number of columns of a dots kernel with `rows` rows: enough independent sums to hide latency, if registers allow,
/// and no more columns than the hardware prefetcher follows as separate streams.
pub fn columns(level: Level, rows: usize) -> usize {
    match level {
        Level::Avx2 => [4, 3, 2, 1][rows - 1],
        Level::Avx512 => [8, 6, 6, 5][rows - 1],
    }
}

/// Assembles the machine code of a micro-kernel.
pub fn assemble(level: Level, arithmetic: Arithmetic, form: Form) -> Vec<u8> {
    let wide = arithmetic == Arithmetic::F64;
    let mut e = Emitter { a: Asm::new(level), level, arithmetic, pair: wide as usize, size: if wide { 8 } else { 4 } };
    match form {
        Form::Tile { rows, vectors, masked, along_terms } => e.tile(rows, vectors, masked, along_terms),
        Form::Stream { terms, first } => e.stream(terms, first),
        Form::Dots { rows, columns, right } => e.dots(rows, columns, right),
        Form::TileRegisters { rows, columns } => e.tile_registers(rows, columns),
        Form::Configure => e.configure(),
        Form::Release => e.release(),
    }
    e.a.finish(&[])
}

const R8: Gpr = 8;
const R9: Gpr = 9;
const R10: Gpr = 10;
const R11: Gpr = 11;
/// Pointer registers, each of which addresses three rows or terms; r11 holds the stride between two of them.
const POINTERS: [Gpr; 5] = [RSI, RBX, RBP, R12, R13];

struct Emitter {
    a: Asm,
    level: Level,
    arithmetic: Arithmetic,
    /// Index into an [`ops::Pair`] of instructions: 0 for elements of 4 bytes, 1 for 8.
    pair: usize,
    /// Bytes of an accumulator: 4 or 8.
    size: i32,
}

/// Register assignment of a tile kernel.
struct Tile {
    rows: usize,
    vectors: usize,
    masked: bool,
    along_terms: bool,
}

impl Tile {
    fn sum(&self, row: usize, vector: usize) -> u8 {
        (row * self.vectors + vector) as u8
    }
    /// Register of vector `vector` of the current row of B.
    fn right(&self, vector: usize) -> u8 {
        (self.rows * self.vectors + vector) as u8
    }
    /// Register of the broadcast element of A for a row. (Register renaming lets one or two registers serve all rows.)
    fn left(&self, row: usize, registers: usize) -> u8 {
        let first = (self.rows + 1) * self.vectors;
        let spare = registers - first - (self.masked && registers == 16) as usize;
        (first + row % spare.min(2)) as u8
    }
}

impl Emitter {
    fn vector_bytes(&self) -> i32 {
        self.level.target().vector_bytes as i32
    }

    fn op(&mut self, code: Code, reg: u8, vvvv: u8, rm: Rm, x: Extra) {
        let len = if self.level == Level::Avx512 { 2 } else { 1 };
        self.a.op(ops::vex(code, self.level), len, reg, vvvv, rm, x);
    }

    /// Emits the load of a vector; if `masked`, only of the lanes of the mask, with 0 in the others.
    fn load(&mut self, to: u8, from: Rm, masked: bool) {
        match (masked, self.level) {
            (false, _) => self.op(ops::MOVUPS[self.pair], to, 0, from, Extra::default()),
            (true, Level::Avx2) => self.op(ops::MASKMOV[self.pair], to, 15, from, Extra::default()),
            (true, Level::Avx512) => {
                self.op(ops::MOVUPS[self.pair], to, 0, from, Extra { mask: 1, zero: true, ..Extra::default() });
            }
        }
    }

    fn store(&mut self, from: u8, to: Rm, masked: bool) {
        match (masked, self.level) {
            (false, _) => self.op(ops::MOVUPS_STORE[self.pair], from, 0, to, Extra::default()),
            (true, Level::Avx2) => self.op(ops::MASKMOV_STORE[self.pair], from, 15, to, Extra::default()),
            (true, Level::Avx512) => {
                self.op(ops::MOVUPS_STORE[self.pair], from, 0, to, Extra { mask: 1, ..Extra::default() });
            }
        }
    }

    fn broadcast(&mut self, to: u8, from: Rm) {
        self.op(ops::BROADCAST[self.pair], to, 0, from, Extra::default());
    }

    /// Emits `sum += x · y`, with `x` from A and `y` from B.
    fn add_product(&mut self, sum: u8, x: u8, y: Rm) {
        match (self.arithmetic, y) {
            (Arithmetic::Pairs, _) => self.op(ops::DOT_PAIRS, sum, x, y, Extra::default()),
            // The memory operand of the instruction is the signed one.
            (Arithmetic::Quads, Rm::Reg(y)) => self.op(ops::DOT_QUADS, sum, y, Rm::Reg(x), Extra::default()),
            (Arithmetic::Quads, _) => unreachable!("the right factor's bytes are read before"),
            _ => {
                // The opcode of the 231 form is 16 higher than that of the 213 form.
                let code = Code { opcode: ops::FMADD[self.pair].opcode + 0x10, ..ops::FMADD[self.pair] };
                self.op(code, sum, x, y, Extra::default());
            }
        }
    }

    /// Emits `to = x + y` in the accumulator type.
    fn add_sums(&mut self, to: u8, x: u8, y: Rm) {
        let code = if self.arithmetic == Arithmetic::Quads { ops::PADD[0] } else { ops::ADD[self.pair] };
        self.op(code, to, x, y, Extra::default());
    }

    fn zero(&mut self, register: u8) {
        self.op(ops::PXOR[0], register, register, Rm::Reg(register), Extra::default());
    }

    fn add(&mut self, to: Gpr, from: Gpr) {
        self.a.scalar(true, &[0x01], from, Rm::Reg(to), 0);
    }

    fn subtract(&mut self, from: Gpr, n: i32) {
        self.a.arith_imm(5, Rm::Reg(from), n);
    }

    fn prefetch(&mut self, from: Rm) {
        self.a.scalar(false, &[0x0F, 0x18], 1, from, 0);
    }

    /// Emits the load of the mask of the last vector, from the argument block at `rdi`.
    fn load_mask(&mut self, lanes: usize, bits: usize) {
        match self.level {
            Level::Avx2 => {
                self.a.load(RAX, at(RDI, lanes as i32));
                self.op(ops::MOVUPS[self.pair], 15, 0, at(RAX, 0), Extra::default());
            }
            Level::Avx512 => {
                self.a.load(RAX, at(RDI, bits as i32));
                let x = Extra { vex: true, ..Extra::default() };
                self.a.op(ops::KMOV_FROM_GPR, 0, 1, 0, Rm::Reg(RAX), x);
            }
        }
    }

    /// Emits the function entry: saves registers, and loads the mask and the given words of the argument block at
    /// `rdi`.
    fn enter(&mut self, mask: Option<(usize, usize)>, words: &[(Gpr, usize)]) {
        SAVED.iter().for_each(|r| self.a.push(*r));
        if let Some((lanes, bits)) = mask {
            self.load_mask(lanes, bits);
        }
        words.iter().for_each(|&(register, word)| self.a.load(register, at(RDI, word as i32)));
    }

    /// Emits code that sets each register after the first to its predecessor plus three times r11.
    fn pointers(&mut self, all: &[Gpr]) {
        for pair in all.windows(2) {
            self.a.lea(pair[1], Rm::Mem { base: pair[0], index: Some((R11, 2)), disp: 0 });
            self.add(pair[1], R11);
        }
    }

    fn leave(&mut self) {
        self.a.raw(&[0xC5, 0xF8, 0x77]); // vzeroupper
        SAVED.iter().rev().for_each(|r| self.a.pop(*r));
        self.a.raw(&[0xC3]);
    }

    /// Memory operand of A's element in a row, for the current term plus `term`.
    ///
    /// If the rows of a term are contiguous, one pointer (rsi) serves all rows. If the terms of a row are, each pointer
    /// serves three rows, and r11 holds the stride between two rows.
    fn left_element(&self, t: &Tile, row: usize, term: i32) -> Rm {
        if !t.along_terms {
            return at(RSI, row as i32 * self.size);
        }
        let index = [None, Some((R11, 1)), Some((R11, 2))][row % 3];
        Rm::Mem { base: POINTERS[row / 3], index, disp: term * self.size }
    }

    /// Emits a tile kernel. Registers: rsi… A, rdx B, rcx number of terms, r8 and r9 byte strides between terms of A
    /// and of B, r10 and r14 source and destination of the sums, r15 and rax byte strides of their rows.
    fn tile(&mut self, rows: usize, vectors: usize, masked: bool, along_terms: bool) {
        let t = Tile { rows, vectors, masked, along_terms };
        let mask = masked.then_some((offset_of!(TileArgs, lanes), offset_of!(TileArgs, bits)));
        let words = [
            (RSI, offset_of!(TileArgs, left)),
            (RDX, offset_of!(TileArgs, right)),
            (RCX, offset_of!(TileArgs, terms)),
            (R9, offset_of!(TileArgs, right_term)),
            (R14, offset_of!(TileArgs, to)),
            (RAX, offset_of!(TileArgs, to_row)),
        ];
        self.enter(mask, &words);
        if along_terms {
            self.a.load(R11, at(RDI, offset_of!(TileArgs, left_row) as i32));
            self.pointers(&POINTERS[..rows.div_ceil(3)]);
        } else {
            self.a.load(R8, at(RDI, offset_of!(TileArgs, left_term) as i32));
        }
        // Prefetch the destination of the sums while they are computed.
        self.a.scalar(true, &[0x89], R14, Rm::Reg(R10), 0); // mov r10, r14
        for row in 0..rows {
            self.prefetch(at(R10, 0));
            self.prefetch(at(R10, vectors as i32 * self.vector_bytes() - self.size));
            if row + 1 < rows {
                self.add(R10, RAX);
            }
        }
        (0..rows * vectors).for_each(|r| self.zero(r as u8));
        self.term_loops(&t);
        self.finish_tile(&t);
        self.leave();
    }

    fn term_loops(&mut self, t: &Tile) {
        let (top, rest, one, end) = (self.a.label(), self.a.label(), self.a.label(), self.a.label());
        self.subtract(RCX, UNROLL);
        self.a.jump_if(Cond::Below, rest);
        self.a.align(32);
        self.a.bind(top);
        for term in 0..UNROLL {
            self.term(t, term);
        }
        self.next_terms(t, UNROLL);
        self.subtract(RCX, UNROLL);
        self.a.jump_if(Cond::AboveEqual, top);
        self.a.bind(rest);
        self.a.arith_imm(0, Rm::Reg(RCX), UNROLL);
        self.a.jump_if(Cond::Equal, end);
        self.a.bind(one);
        self.term(t, 0);
        self.next_terms(t, 1);
        self.subtract(RCX, 1);
        self.a.jump_if(Cond::NotEqual, one);
        self.a.bind(end);
    }

    /// Emits the addition of one term to all accumulators.
    fn term(&mut self, t: &Tile, term: i32) {
        for v in 0..t.vectors {
            self.load(t.right(v), at(RDX, v as i32 * self.vector_bytes()), t.masked && v + 1 == t.vectors);
        }
        if !t.masked {
            // One cache line each.
            (0..t.vectors as i32 * self.vector_bytes())
                .step_by(64)
                .for_each(|line| self.prefetch(at(RDX, AHEAD + line)));
        }
        for row in 0..t.rows {
            let x = t.left(row, self.level.target().vectors);
            self.broadcast(x, self.left_element(t, row, term));
            for v in 0..t.vectors {
                self.add_product(t.sum(row, v), x, Rm::Reg(t.right(v)));
            }
        }
        self.add(RDX, R9);
        if !t.along_terms {
            self.add(RSI, R8);
        }
    }

    fn next_terms(&mut self, t: &Tile, terms: i32) {
        if t.along_terms {
            for pointer in &POINTERS[..t.rows.div_ceil(3)] {
                self.a.arith_imm(0, Rm::Reg(*pointer), terms * self.size);
            }
        }
    }

    /// Emits code that adds the sums of earlier blocks of terms, if there are any, and stores the sums.
    fn finish_tile(&mut self, t: &Tile) {
        let (write, x) = (self.a.label(), t.right(0));
        self.a.load(R10, at(RDI, offset_of!(TileArgs, from) as i32));
        self.a.load(R15, at(RDI, offset_of!(TileArgs, from_row) as i32));
        self.a.scalar(true, &[0x85], R10, Rm::Reg(R10), 0); // test
        self.a.jump_if(Cond::Equal, write);
        for row in 0..t.rows {
            for v in 0..t.vectors {
                let (sum, place) = (t.sum(row, v), at(R10, v as i32 * self.vector_bytes()));
                if t.masked && v + 1 == t.vectors {
                    self.load(x, place, true);
                    self.add_sums(sum, x, Rm::Reg(sum));
                } else {
                    self.add_sums(sum, sum, place);
                }
            }
            self.add(R10, R15);
        }
        self.a.bind(write);
        for row in 0..t.rows {
            for v in 0..t.vectors {
                let place = at(R14, v as i32 * self.vector_bytes());
                self.store(t.sum(row, v), place, t.masked && v + 1 == t.vectors);
            }
            self.add(R14, RAX);
        }
    }

    /// Emits a stream kernel. Registers: rsi, rbx, rbp B (three terms each), r11 stride between two terms, r10 sums,
    /// rcx number of columns; vector registers 0 to 7 have the elements of A, those from 8 on sums.
    fn stream(&mut self, terms: usize, first: bool) {
        let pointers = &POINTERS[..terms.div_ceil(3)];
        let words = [
            (RSI, offset_of!(StreamArgs, right)),
            (RDX, offset_of!(StreamArgs, left)),
            (RCX, offset_of!(StreamArgs, columns)),
            (R10, offset_of!(StreamArgs, sums)),
            (R11, offset_of!(StreamArgs, right_term)),
        ];
        self.enter(Some((offset_of!(StreamArgs, lanes), offset_of!(StreamArgs, bits))), &words);
        self.pointers(pointers);
        (0..terms).for_each(|g| self.broadcast(g as u8, at(RDX, g as i32 * self.size)));
        let lanes = self.vector_bytes() / self.size;
        for (vectors, masked) in [(4, false), (1, false), (1, true)] {
            let (top, end) = (self.a.label(), self.a.label());
            self.a.arith_imm(7, Rm::Reg(RCX), if masked { 1 } else { vectors * lanes });
            self.a.jump_if(Cond::Below, end);
            self.a.align(32);
            self.a.bind(top);
            self.stream_step(terms, first, vectors, masked);
            if !masked {
                let bytes = vectors * self.vector_bytes();
                pointers.iter().chain([&R10]).for_each(|p| self.a.arith_imm(0, Rm::Reg(*p), bytes));
                self.subtract(RCX, vectors * lanes);
                self.a.arith_imm(7, Rm::Reg(RCX), vectors * lanes);
                self.a.jump_if(Cond::AboveEqual, top);
            }
            self.a.bind(end);
        }
        self.leave();
    }

    fn stream_step(&mut self, terms: usize, first: bool, vectors: i32, masked: bool) {
        let sum = |v: i32| 8 + v as u8;
        for v in 0..vectors {
            match first {
                true => self.zero(sum(v)),
                false => self.load(sum(v), at(R10, v * self.vector_bytes()), masked),
            }
        }
        for term in 0..terms {
            let index = [None, Some((R11, 1)), Some((R11, 2))][term % 3];
            for v in 0..vectors {
                let place = Rm::Mem { base: POINTERS[term / 3], index, disp: v * self.vector_bytes() };
                if masked || self.arithmetic == Arithmetic::Quads {
                    self.load(14, place, masked);
                    self.add_product(sum(v), term as u8, Rm::Reg(14));
                } else {
                    self.add_product(sum(v), term as u8, place);
                }
            }
        }
        for v in 0..vectors {
            self.store(sum(v), at(R10, v * self.vector_bytes()), masked);
        }
    }
}
