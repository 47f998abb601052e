//! Micro-kernels of matrix products (`contract/`), emitted as straight loops with fixed registers.
//!
//! In: an instruction set, an [`Arithmetic`] and a [`Form`]. Out: one function. A *tile* kernel (GEMM) holds a
//! rectangle of sums in registers over a block of terms; a *stream* kernel (GEMV) adds several terms of one row into
//! sums in memory; a *dots* kernel multiplies lines with contiguous terms, with 64 bytes of lanes per sum. Always true:
//! in the first two, each sum is one chain of fused multiply-adds over ascending terms; in the third, each lane is.
//! Lanes outside the mask are neither read nor written; `rows`, `vectors` and `columns` fit the registers ([`rows`],
//! [`dots::columns`]).

use super::asm::{Asm, Code, Cond, Extra, Gpr, R12, R13, R14, R15, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Rm, at};
use super::isa::Isa;
use super::ops;
use super::pages;
use crate::product_call::{DotArgs, StreamArgs, TileArgs};
use std::mem::offset_of;

pub mod dots;

use dots::Lying;

/// Unroll factor of the tile kernel's loop over terms.
const UNROLL: i32 = 4;
/// Prefetch distance in bytes on a packed right factor (1 KiB measured 3 % faster than 512 bytes, and 8 % than no
/// prefetch).
const AHEAD: i32 = 1024;

/// Vectors per row of a tile.
pub const VECTORS: usize = 2;
/// Maximum terms that a stream kernel adds at a time.
pub const MAX_STREAM_TERMS: usize = 8;

/// Maximum rows of a tile: with two vectors per row, this leaves registers for a row of the right factor, for an
/// element of the left one, and on AVX2 for the mask.
pub const fn rows(isa: Isa) -> usize {
    match isa {
        Isa::Avx2 => 6,
        Isa::Avx512 => 14,
    }
}

/// Arithmetic of a step of a chain: adds the product of one element of each factor, or the products of a group of
/// narrow elements of the same total width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// f32.
    F32,
    /// f64.
    F64,
    /// Two bf16, accumulated in f32 (AVX512_BF16).
    Pairs,
    /// Four bytes, signed in the left factor and unsigned in the right one, accumulated in i32 (AVX512_VNNI).
    Quads,
}

/// Parameters by which a function is specialised. Terms and elements mean groups for narrow types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Tile of `rows` rows of `vectors` vectors, the last one masked or whole. Elements of the left factor are
    /// contiguous across its terms (`along_terms`), or across its lines, as in a packed panel.
    Tile { rows: usize, vectors: usize, masked: bool, along_terms: bool },
    /// Stream of `terms` terms of one row; the `first` terms of a chain do not read the sums.
    Stream { terms: usize, first: bool },
    /// Dot products of `rows` rows times `columns` columns, with this element layout.
    Dots { rows: usize, columns: usize, right: Lying },
}

/// A published micro-kernel.
pub struct Micro(pages::Code);

impl Micro {
    /// Emits a micro-kernel. `None` if the operating system provides no executable memory.
    pub fn new(isa: Isa, arithmetic: Arithmetic, form: Form) -> Option<Micro> {
        let bytes = assemble(isa, arithmetic, form);
        let name = format!("cpu-{isa:?}-product").to_lowercase();
        thalweg_runtime::dump(&name, || {
            vec![("txt", format!("{form:?} {arithmetic:?}").into_bytes()), ("bin", bytes.clone())]
        });
        pages::Code::publish(&bytes).map(Micro)
    }

    /// Runs a tile kernel.
    ///
    /// # Safety
    /// It was emitted as a tile kernel for an instruction set that the machine has, and the arguments describe memory
    /// that may be read and written as its form does.
    pub unsafe fn tile(&self, args: &TileArgs) {
        // SAFETY: the code was emitted with this signature and published whole; it lives as long as `self`.
        let f: extern "sysv64" fn(*const TileArgs) = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }

    /// Runs a stream kernel.
    ///
    /// # Safety
    /// As [`Micro::tile`].
    pub unsafe fn stream(&self, args: &StreamArgs) {
        // SAFETY: as above.
        let f: extern "sysv64" fn(*const StreamArgs) = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }

    /// Runs a dots kernel.
    ///
    /// # Safety
    /// As [`Micro::tile`].
    pub unsafe fn dots(&self, args: &DotArgs) {
        // SAFETY: as above.
        let f: extern "sysv64" fn(*const DotArgs) = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }
}

/// Assembles the machine code of a form.
pub(super) fn assemble(isa: Isa, arithmetic: Arithmetic, form: Form) -> Vec<u8> {
    let wide = arithmetic == Arithmetic::F64;
    let mut e = Emitter { a: Asm::new(isa), isa, arithmetic, pair: wide as usize, size: if wide { 8 } else { 4 } };
    match form {
        Form::Tile { rows, vectors, masked, along_terms } => e.tile(rows, vectors, masked, along_terms),
        Form::Stream { terms, first } => e.stream(terms, first),
        Form::Dots { rows, columns, right } => e.dots(rows, columns, right),
    }
    e.a.finish(&[])
}

const R8: Gpr = 8;
const R9: Gpr = 9;
const R10: Gpr = 10;
const R11: Gpr = 11;
/// Callee-saved registers.
const SAVED: [Gpr; 6] = [RBX, RBP, R12, R13, R14, R15];
/// Registers that each address three rows or terms; r11 holds the stride between two.
const POINTERS: [Gpr; 5] = [RSI, RBX, RBP, R12, R13];

struct Emitter {
    a: Asm,
    isa: Isa,
    arithmetic: Arithmetic,
    /// Index into a [`ops::Pair`] of instructions.
    pair: usize,
    /// Bytes of an element.
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
    /// Register of a vector of the right factor.
    fn right(&self, vector: usize) -> u8 {
        (self.rows * self.vectors + vector) as u8
    }
    /// Register of a broadcast element of the left factor. (Register renaming lets one or two serve all rows.)
    fn left(&self, row: usize, registers: usize) -> u8 {
        let first = (self.rows + 1) * self.vectors;
        let spare = registers - first - (self.masked && registers == 16) as usize;
        (first + row % spare.min(2)) as u8
    }
}

impl Emitter {
    fn vector_bytes(&self) -> i32 {
        self.isa.bytes() as i32
    }

    fn op(&mut self, code: Code, reg: u8, vvvv: u8, rm: Rm, x: Extra) {
        let len = if self.isa == Isa::Avx512 { 2 } else { 1 };
        self.a.op(ops::vex(code, self.isa), len, reg, vvvv, rm, x);
    }

    /// Loads a vector; if `masked`, only the lanes of the mask, and 0 in the others.
    fn load(&mut self, to: u8, from: Rm, masked: bool) {
        match (masked, self.isa) {
            (false, _) => self.op(ops::MOVUPS[self.pair], to, 0, from, Extra::default()),
            (true, Isa::Avx2) => self.op(ops::MASKMOV[self.pair], to, 15, from, Extra::default()),
            (true, Isa::Avx512) => {
                self.op(ops::MOVUPS[self.pair], to, 0, from, Extra { mask: 1, zero: true, ..Extra::default() });
            }
        }
    }

    fn store(&mut self, from: u8, to: Rm, masked: bool) {
        match (masked, self.isa) {
            (false, _) => self.op(ops::MOVUPS_STORE[self.pair], from, 0, to, Extra::default()),
            (true, Isa::Avx2) => self.op(ops::MASKMOV_STORE[self.pair], from, 15, to, Extra::default()),
            (true, Isa::Avx512) => {
                self.op(ops::MOVUPS_STORE[self.pair], from, 0, to, Extra { mask: 1, ..Extra::default() });
            }
        }
    }

    fn broadcast(&mut self, to: u8, from: Rm) {
        self.op(ops::BROADCAST[self.pair], to, 0, from, Extra::default());
    }

    /// `sum += x · y`, with `x` from the left factor and `y` from the right one.
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

    /// `to = x + y`
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

    /// Loads the mask of the last vector, from the argument block at `rdi`.
    fn load_mask(&mut self, lanes: usize, bits: usize) {
        match self.isa {
            Isa::Avx2 => {
                self.a.load(RAX, at(RDI, lanes as i32));
                self.op(ops::MOVUPS[self.pair], 15, 0, at(RAX, 0), Extra::default());
            }
            Isa::Avx512 => {
                self.a.load(RAX, at(RDI, bits as i32));
                let x = Extra { vex: true, ..Extra::default() };
                self.a.op(ops::KMOV_FROM_GPR, 0, 1, 0, Rm::Reg(RAX), x);
            }
        }
    }

    /// Function entry: saves registers, and loads the mask and these words of the argument block at `rdi`.
    fn enter(&mut self, mask: Option<(usize, usize)>, words: &[(Gpr, usize)]) {
        SAVED.iter().for_each(|r| self.a.push(*r));
        if let Some((lanes, bits)) = mask {
            self.load_mask(lanes, bits);
        }
        words.iter().for_each(|&(register, word)| self.a.load(register, at(RDI, word as i32)));
    }

    /// Sets each of these registers after the first to the one before plus three times r11.
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

    /// Address of the left factor's element of a row, for the current term plus `term`.
    ///
    /// If lines are contiguous, one pointer (rsi) serves all rows. If terms are, each pointer serves three rows, and
    /// r11 holds the stride between two rows.
    fn left_element(&self, t: &Tile, row: usize, term: i32) -> Rm {
        if !t.along_terms {
            return at(RSI, row as i32 * self.size);
        }
        let index = [None, Some((R11, 1)), Some((R11, 2))][row % 3];
        Rm::Mem { base: POINTERS[row / 3], index, disp: term * self.size }
    }

    /// Registers: rsi… left, rdx right, rcx terms, r8 and r9 byte strides between terms of the left and right factor,
    /// r10 and r14 source and destination of sums, r15 and rax byte strides of their rows.
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

    /// Adds one term to all sums.
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
            let x = t.left(row, self.isa.registers());
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

    /// Adds the sums of earlier blocks, if there are any, and stores the sums.
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

    /// Registers: rsi, rbx, rbp right factor (three terms each), r11 stride between two terms, r10 sums, rcx columns;
    /// vectors 0 to 7 have the left factor's elements, those from 8 on sums.
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
