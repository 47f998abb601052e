//! Assembly of dots micro-kernels: dot products of rows and columns with contiguous terms, with 64 bytes of lanes per
//! sum.
//!
//! In: numbers of rows and columns, and the element layout of B. Out: the code of one function. Always true: a lane is
//! one chain of fused multiply-adds over ascending terms, and lanes are added in a tree of halves; nothing past the
//! terms is read.

use super::super::super::gemm::{Arithmetic, DOT_BYTES, Layout, MAX_DOT_ROWS};
use super::super::Level;
use super::super::asm::{Cond, Extra, Gpr, R14, R15, RAX, RCX, RDX, RSI, Rm, at};
use super::super::ops;
use super::{Emitter, POINTERS, R8, R9, R10, R11};
use crate::gemm_call::DotArgs;
use std::mem::offset_of;

/// Vector register with the sign bit of every byte, which [`Layout::Offset`] flips.
const SIGNS: u8 = 31;
/// Prefetch distance in bytes in each column of B.
const AHEAD: i32 = 1024;

impl Emitter {
    /// Emits a dots kernel. Registers: rsi, rbx… columns of B (three each), r11 the stride between them; rdx, r8, r9,
    /// r10 rows of A, rcx number of terms, r14 destination, r15 stride of its rows.
    pub(super) fn dots(&mut self, rows: usize, columns: usize, right: Layout) {
        const LEFT: [Gpr; MAX_DOT_ROWS] = [RDX, R8, R9, R10];
        let lines = &POINTERS[..columns.div_ceil(3)];
        let vectors = DOT_BYTES / self.level.target().vector_bytes;
        let words = [
            (RSI, offset_of!(DotArgs, right)),
            (R11, offset_of!(DotArgs, right_column)),
            (RDX, offset_of!(DotArgs, left)),
            (RAX, offset_of!(DotArgs, left_row)),
            (RCX, offset_of!(DotArgs, terms)),
            (R14, offset_of!(DotArgs, sums)),
            (R15, offset_of!(DotArgs, sums_row)),
        ];
        self.enter(None, &words);
        self.pointers(lines);
        for pair in LEFT[..rows].windows(2) {
            self.a.lea(pair[1], Rm::Mem { base: pair[0], index: Some((RAX, 1)), disp: 0 });
        }
        let sum = |row: usize, column: usize, v: usize| ((row * columns + column) * vectors + v) as u8;
        (0..sum(rows, 0, 0)).for_each(|r| self.zero(r));
        if right == Layout::Offset {
            self.a.set(RAX, 0x8080_8080);
            self.op(ops::BROADCAST_GPR[0], SIGNS, 0, Rm::Reg(RAX), Extra::default());
        }
        let (top, end, lanes) = (self.a.label(), self.a.label(), DOT_BYTES as i32 / self.size);
        let element = if matches!(right, Layout::Slots | Layout::Offset) { self.size } else { 2 };
        self.a.arith_imm(7, Rm::Reg(RCX), lanes);
        self.a.jump_if(Cond::Below, end);
        self.a.align(32);
        self.a.bind(top);
        for v in 0..vectors {
            let disp = v as i32 * self.vector_bytes();
            let first = sum(rows, 0, 0);
            for (row, left) in LEFT.iter().enumerate().take(rows) {
                self.load(first + row as u8, at(*left, disp), false);
            }
            for column in 0..columns {
                let index = [None, Some((R11, 1)), Some((R11, 2))][column % 3];
                let place = |disp| Rm::Mem { base: lines[column / 3], index, disp };
                if v == 0 {
                    self.prefetch(place(AHEAD));
                }
                let y = first + rows as u8;
                let y = match self.widened(y, place(disp / self.size * element), right, rows) {
                    true => Rm::Reg(y),
                    false => place(disp),
                };
                (0..rows).for_each(|row| self.add_product(sum(row, column, v), first + row as u8, y));
            }
        }
        lines.iter().for_each(|p| self.a.arith_imm(0, Rm::Reg(*p), lanes * element));
        LEFT[..rows].iter().for_each(|p| self.a.arith_imm(0, Rm::Reg(*p), DOT_BYTES as i32));
        self.subtract(RCX, lanes);
        self.a.arith_imm(7, Rm::Reg(RCX), lanes);
        self.a.jump_if(Cond::AboveEqual, top);
        self.a.bind(end);
        for row in 0..rows {
            for column in 0..columns {
                let (first, spare) = (sum(row, column, 0), sum(rows, 0, 0));
                (1..vectors as u8).for_each(|v| self.add_sums(first, first, Rm::Reg(first + v)));
                self.total(first, spare);
                let x = Extra::default();
                self.a.op(ops::MOVD_STORE[self.pair], 0, first, 0, at(R14, column as i32 * self.size), x);
            }
            self.add(R14, R15);
        }
        self.leave();
    }

    /// Emits the sum of a vector's lanes, in a tree of halves, into its first lane.
    fn total(&mut self, lanes: u8, spare: u8) {
        let imm = |imm| Extra { imm: Some(imm), ..Extra::default() };
        let add = if self.arithmetic == Arithmetic::Quads { ops::PADD[0] } else { ops::ADD[self.pair] };
        if self.level == Level::Avx512 {
            self.a.op(ops::EXTRACT_HALF, 2, lanes, 0, Rm::Reg(spare), imm(1));
            self.a.op(add, 1, lanes, lanes, Rm::Reg(spare), Extra::default());
        }
        self.a.op(ops::EXTRACT, 1, lanes, 0, Rm::Reg(spare), imm(1));
        self.a.op(add, 0, lanes, lanes, Rm::Reg(spare), Extra::default());
        // The upper two lanes of four, and then the second.
        for &order in if self.size == 8 { &[0xEE][..] } else { &[0xEE, 0x55] } {
            self.a.op(ops::PSHUFD, 0, spare, 0, Rm::Reg(lanes), imm(order));
            self.a.op(add, 0, lanes, lanes, Rm::Reg(spare), Extra::default());
        }
    }

    /// Emits the load of a vector of B's elements, widened to accumulator width. Returns false, and emits nothing, if
    /// the single row can read the elements as a memory operand.
    fn widened(&mut self, to: u8, from: Rm, layout: Layout, rows: usize) -> bool {
        match layout {
            Layout::Slots if rows == 1 && self.arithmetic != Arithmetic::Quads => return false,
            Layout::Slots => self.load(to, from, false),
            Layout::Offset => self.op(ops::PXOR[0], to, SIGNS, from, Extra::default()),
            Layout::F16 => self.op(ops::F16_F32, to, 0, from, Extra::default()),
            Layout::Bf16 => {
                self.op(ops::MOVZX_W, to, 0, from, Extra::default());
                let x = Extra { imm: Some(16), ..Extra::default() };
                self.op(ops::SHL[0], 6, to, Rm::Reg(to), x);
            }
        }
        true
    }
}
