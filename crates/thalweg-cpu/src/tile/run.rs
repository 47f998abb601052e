//! Execution of a tile program on a thread's registers, one block of the call after the other.

use super::call::{Block, Call};
use super::counted;
use super::program::{TILE, TileProgram};
use crate::row_call::{RowArgs, Rows};
use std::cell::RefCell;

/// Storage unit of the registers: one cache line, which gives their alignment.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code, reason = "only ever reached through pointers")] [u8; 64]);

/// Register memory of one thread, retained between calls, and the current address of each register: in its tile, or in
/// memory that a load reads in place.
#[derive(Default)]
pub(super) struct Registers {
    lines: Vec<Line>,
    at: Vec<*mut u8>,
}

thread_local! {
    static REGISTERS: RefCell<Registers> = RefCell::default();
}

impl Registers {
    /// Calls `run` with memory of `bytes` bytes, and an address slot for each register.
    pub(super) fn with<R>(bytes: usize, registers: usize, run: impl FnOnce(*mut u8, &mut [*mut u8]) -> R) -> R {
        // Taken out of its slot, so that the engine is reentrant on this thread.
        let mut own = REGISTERS.take();
        let lines = bytes.div_ceil(64);
        if own.lines.len() < lines {
            own.lines.resize(lines, Line([0; 64]));
        }
        let base = own.lines.as_mut_ptr().cast::<u8>();
        own.at.clear();
        own.at.resize(registers, base);
        let result = run(base, &mut own.at);
        REGISTERS.replace(own);
        result
    }
}

impl Rows for TileProgram {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize) -> bool {
        if n == 0 || rows == 0 {
            return true;
        }
        Registers::with(self.bytes, self.pass.places.len(), |base, at| {
            let mut call = Call::new(&self.pass, &self.accesses, args, n, base, at);
            let first = Block { row: 0, rows: 1, column: 0, columns: (n * rows).min(TILE) };
            // SAFETY: hoisted steps only fill registers and compute on them, for at most a tile.
            unsafe { call.steps(&self.pass.hoisted, first) };
            call.counted = counted::on().then_some(self.operands);
            // Short rows share a tile.
            let together = (TILE / n).max(1);
            for row in (0..rows).step_by(together) {
                for column in (0..n).step_by(TILE) {
                    let block = Block { row, rows: together.min(rows - row), column, columns: TILE.min(n - column) };
                    // SAFETY: the block is within the `rows × n` points of the caller's promise, and has at most a tile
                    // of them.
                    unsafe { call.steps(&self.pass.steps, block) };
                    if call.outside {
                        return false;
                    }
                }
            }
            true
        })
    }
}
