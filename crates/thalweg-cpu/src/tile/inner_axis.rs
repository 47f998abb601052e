//! Row bodies in the tile engine: one pass per phase, run row by row.
//!
//! A tile holds points of one row, so values that are uniform in the row fill their register once per row. Folds carry
//! accumulator lanes from tile to tile. Between phases, only the values and the buffers persist, both in memory, so a
//! row may run one phase at a time.

use super::call::{Block, Call};
use super::compile::{Level, compile_pass};
use super::counted;
use super::moves;
use super::program::{Pass, TILE, lay_out};
use super::run::Registers;
use crate::prepare::prepare;
use crate::row_call::{ACCESS_WORDS, InnerReduction, RowArgs};
use std::ops::Range;
use thalweg_kernel::order::{BLOCK, LANES};
use thalweg_kernel::{Access, AccessClass, Body, Phases, phases};

/// A row body compiled for the tile engine. A run returns false if an index of a `Gather` is out of range.
pub struct TileInnerReduction {
    phases: Phases,
    passes: Vec<Pass>,
    /// Total bytes of all registers, and their number.
    bytes: usize,
    registers: usize,
    accesses: Vec<Access>,
    scalars: usize,
    /// Number of operands of the launch. Operands with higher indices are buffers.
    operands: u16,
}

/// Compiles a row body; never fails. With `keep`, expensive values are saved in buffers.
pub fn compile_inner_reduction(body: &Body, keep: bool) -> TileInnerReduction {
    let body = prepare(body);
    let phases = phases(&body, keep);
    // A phase with one point per row needs no levels: its registers can be reused.
    let level = |once| if once { Level::Point } else { Level::Row };
    let mut passes: Vec<Pass> = phases.list.iter().map(|p| compile_pass(&p.body, level(p.once))).collect();
    let bytes = lay_out(&mut passes.iter_mut().collect::<Vec<_>>());
    let registers = passes.iter().map(|p| p.places.len()).sum();
    let buffers = phases.buffers.iter().zip(body.operands..).map(|(&dtype, operand)| Access {
        operand: Some(operand),
        dtype,
        class: AccessClass::Contiguous,
        per_row: false,
    });
    let accesses = body.accesses.iter().copied().chain(buffers).collect();
    TileInnerReduction {
        phases,
        passes,
        bytes,
        registers,
        accesses,
        scalars: body.scalars as usize,
        operands: body.operands,
    }
}

impl TileInnerReduction {
    /// Phases of the body, which the program runs one by one.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }
}

impl InnerReduction for TileInnerReduction {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, phases: Range<usize>) -> bool {
        let values = args[self.accesses.len() * ACCESS_WORDS + self.scalars] as *mut u64;
        let once: Vec<bool> = self.phases.list[phases.clone()].iter().map(|p| p.once).collect();
        let counted = counted::on().then_some(self.operands);
        Registers::with(self.bytes, self.registers, |base, mut at| {
            let mut calls: Vec<(&Pass, Call<'_>)> = Vec::with_capacity(once.len());
            for (pass, once) in self.passes[phases].iter().zip(&once) {
                let (own, rest) = at.split_at_mut(pass.places.len());
                at = rest;
                let mut call = Call::new(pass, &self.accesses, args, n, base, own);
                call.values = values;
                debug_assert!(pass.folds.is_empty() || n <= BLOCK, "a fold takes a block at a time, not {n} points");
                // SAFETY: hoisted steps only fill registers and compute on them, for at most a tile.
                unsafe { call.steps(&pass.hoisted, Block::of_row(0, 0, if *once { 1 } else { n.min(TILE) })) };
                call.counted = counted;
                calls.push((pass, call));
            }
            for row in 0..rows {
                for ((pass, call), &once) in calls.iter_mut().zip(&once) {
                    // SAFETY: the caller's promise for the points of the row, for per-row elements, and for the values.
                    unsafe { run_row(pass, call, row, if once { 1 } else { n }) };
                    if call.outside {
                        return false;
                    }
                }
            }
            true
        })
    }
}

/// Runs a pass for `n` points of a row.
///
/// # Safety
/// As for [`Call::steps`]; hoisted steps have run, and the row's values exist.
unsafe fn run_row(pass: &Pass, call: &mut Call<'_>, row: usize, n: usize) {
    // SAFETY: the caller's promise; registers have at least as many lanes as a fold.
    unsafe {
        for f in &pass.folds {
            moves::fill(f.identity, f.width, call.tile(f.lanes), LANES);
        }
        if n > 0 {
            // Values that are uniform in the row are not counted.
            let counted = call.counted.take();
            call.steps(&pass.row, Block::of_row(row, 0, n.min(TILE)));
            call.counted = counted;
        }
        for column in (0..n).step_by(TILE) {
            call.steps(&pass.steps, Block::of_row(row, column, TILE.min(n - column)));
        }
        for f in &pass.folds {
            call.values.add(f.slot as usize).write(f.code.finish(call.tile(f.lanes)));
        }
        for s in &pass.sets {
            call.values.add(s.slot as usize).write(moves::first(call.lanes(s.value), s.width));
        }
    }
}
