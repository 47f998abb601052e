//! Kernels of tile registers (AMX): a rectangle of up to 2 × 2 tiles of sums over steps of 16 groups of terms.
//!
//! Registers: tmm0 to tmm3 have sums, tmm4 and tmm5 tiles of A, tmm6 and tmm7 tiles of B. Every tile has 16 rows of 64
//! bytes ([`Emitter::configure`]): in A a row of the product and 16 groups of its terms; in B a group of terms of 16
//! columns, as panels have it. `tdpbf16ps` takes 16 cycles, and as long with fewer rows (measured on Sapphire Rapids);
//! two tiles of A and two of B let each of four take half a load of either.

use super::super::asm::{Code, Cond, Extra, R12, R14, R15, RAX, RBX, RCX, RDI, RDX, RSI, Rm, at};
use super::super::ops;
use super::{Emitter, R8, R9, R10, R11};
use crate::gemm_call::TileArgs;
use crate::isa::gemm::TILE_SLOTS;
use std::mem::offset_of;

const LEFT: u8 = 4;
const RIGHT: u8 = 6;
/// Bytes of a row of a tile.
const ROW: i32 = 4 * TILE_SLOTS as i32;

impl Emitter {
    fn tile_op(&mut self, code: Code, reg: u8, vvvv: u8, rm: Rm) {
        self.a.op(code, 0, reg, vvvv, rm, Extra { vex: true, ..Extra::default() });
    }

    /// Emits a kernel of tile registers. Registers: rsi and r8 tiles of A, r11 stride of its rows, r9 stride of its
    /// steps; rdx tiles of B, rax stride of its groups, r12 stride of its steps; rcx number of steps; r10 and r15
    /// source of the sums and stride of its rows, r14 and rbx the same of their destination.
    pub(super) fn tile_registers(&mut self, rows: usize, columns: usize) {
        let words = [
            (RSI, offset_of!(TileArgs, left)),
            (R11, offset_of!(TileArgs, left_row)),
            (R9, offset_of!(TileArgs, left_term)),
            (RDX, offset_of!(TileArgs, right)),
            (RAX, offset_of!(TileArgs, right_term)),
            (RCX, offset_of!(TileArgs, terms)),
            (R10, offset_of!(TileArgs, from)),
            (R15, offset_of!(TileArgs, from_row)),
            (R14, offset_of!(TileArgs, to)),
            (RBX, offset_of!(TileArgs, to_row)),
        ];
        self.enter(None, &words);
        let (zeros, start, top) = (self.a.label(), self.a.label(), self.a.label());
        // The second tile of A is 16 rows below the first.
        self.copy_shifted(R8, R11);
        self.add(R8, RSI);
        self.copy_shifted(R12, RAX);
        self.a.scalar(true, &[0x85], R10, Rm::Reg(R10), 0); // test
        self.a.jump_if(Cond::Equal, zeros);
        self.each_sum(rows, columns, R10, R15, ops::TILE_LOAD);
        self.a.jump(start);
        self.a.bind(zeros);
        for sum in (0..rows).flat_map(|row| (0..columns).map(move |column| 2 * row + column)) {
            self.tile_op(ops::TILE_ZERO, sum as u8, 0, Rm::Reg(0));
        }
        self.a.bind(start);
        self.a.align(32);
        self.a.bind(top);
        self.step(rows, columns);
        self.add(RSI, R9);
        if rows == 2 {
            self.add(R8, R9);
        }
        self.add(RDX, R12);
        self.subtract(RCX, 1);
        self.a.jump_if(Cond::NotEqual, top);
        self.each_sum(rows, columns, R14, RBX, ops::TILE_STORE);
        self.leave();
    }

    /// Emits the products of one step. A tile is loaded shortly before its first use.
    fn step(&mut self, rows: usize, columns: usize) {
        for row in 0..rows as u8 {
            let from = Rm::Mem { base: [RSI, R8][row as usize], index: Some((R11, 1)), disp: 0 };
            self.tile_op(ops::TILE_LOAD, LEFT + row, 0, from);
            for column in 0..columns as u8 {
                if row == 0 {
                    let from = Rm::Mem { base: RDX, index: Some((RAX, 1)), disp: column as i32 * ROW };
                    self.tile_op(ops::TILE_LOAD, RIGHT + column, 0, from);
                }
                self.tile_op(ops::TILE_DOT_PAIRS, 2 * row + column, RIGHT + column, Rm::Reg(LEFT + row));
            }
        }
    }

    /// Emits the load or the store of all tiles of sums, whose rows are `stride` apart; changes `base`.
    fn each_sum(&mut self, rows: usize, columns: usize, base: u8, stride: u8, code: Code) {
        for row in 0..rows {
            for column in 0..columns {
                let place = Rm::Mem { base, index: Some((stride, 1)), disp: column as i32 * ROW };
                self.tile_op(code, (2 * row + column) as u8, 0, place);
            }
            if row + 1 < rows {
                self.copy_shifted(RDI, stride);
                self.add(base, RDI);
            }
        }
    }

    /// Emits `to = 16 · from`.
    fn copy_shifted(&mut self, to: u8, from: u8) {
        self.a.scalar(true, &[0x89], from, Rm::Reg(to), 0); // mov
        self.a.scalar(true, &[0xC1], 4, Rm::Reg(to), 1); // shl
        self.a.raw(&[TILE_SLOTS.trailing_zeros() as u8]);
    }

    /// Emits the load of the shapes of all tiles from the argument.
    pub(super) fn configure(&mut self) {
        self.tile_op(ops::TILE_CONFIGURE, 0, 0, at(RDI, 0));
        self.a.raw(&[0xC3]);
    }

    /// Emits the release of all tiles.
    pub(super) fn release(&mut self) {
        self.a.raw(&[0xC4, 0xE2, 0x78, 0x49, 0xC0, 0xC3]); // tilerelease, ret
    }
}
