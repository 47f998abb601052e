//! Compiled prologue and epilogue bodies of a contraction, and their launches on rectangles.
//!
//! In: a rectangle of a body's domain, and the addresses of operands that are blocks or tiles. Out: launches of map or
//! row programs on the calling thread, checked like all others.

use crate::engine::Choice;
use crate::launch_common::with_scratch;
use crate::map::MapProgram;
use crate::reduction::RowsProgram;
use crate::threads::Threads;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use thalweg_ir::DType;
use thalweg_kernel::{Body, Geometry, Kernel, Local, Rectangle, TileGeometry, bodies};
use thalweg_runtime::{Allocation, Buffer, Program, ProgramInfo};

/// Compiled bodies of a contraction: the prologues of A and B, and the epilogue.
#[derive(Debug)]
pub(super) struct CompiledBodies {
    pub(super) factors: [Option<CompiledBody>; 2],
    pub(super) epilogue: Option<CompiledBody>,
}

/// A compiled body that runs on rectangles of its domain: one map program per box, or a row program.
#[derive(Debug)]
pub(super) struct CompiledBody {
    pub(super) programs: Programs,
    pub(super) bodies: Vec<Body>,
}

#[derive(Debug)]
pub(super) enum Programs {
    Maps(Vec<MapProgram>),
    Rows(Box<RowsProgram>),
}

/// A body with its operands and scalars, to be launched on rectangles.
pub(super) struct Job<'a> {
    pub(super) part: &'a CompiledBody,
    pub(super) tiles: &'a TileGeometry,
    /// Operands of the body, with placeholders for blocks and tiles.
    pub(super) operands: Vec<&'a Buffer>,
    pub(super) scalars: &'a [u64],
    pub(super) failed: &'a AtomicBool,
}

/// Operand that is a block or tile in scratch memory: its index, the address of its first element, the stride between
/// its rows in elements (`pitch`), and its dtype.
#[derive(Clone, Copy)]
pub(super) struct Near {
    pub(super) operand: u16,
    pub(super) at: *mut u8,
    pub(super) pitch: usize,
    pub(super) dtype: DType,
}

impl CompiledBody {
    pub(super) fn new(kernel: &Kernel, isa: Choice, threads: &Arc<Threads>) -> CompiledBody {
        let bodies = bodies(kernel).to_vec();
        let programs = match kernel {
            Kernel::Rows { body, orientation } => {
                Programs::Rows(Box::new(RowsProgram::new(body, *orientation, isa, Arc::new(Threads::new(1, 0.0)))))
            }
            _ => Programs::Maps(bodies.iter().map(|b| MapProgram::new(b, isa, threads.clone())).collect()),
        };
        CompiledBody { programs, bodies }
    }

    pub(super) fn infos(&self) -> Vec<ProgramInfo> {
        match &self.programs {
            Programs::Maps(all) => all.iter().map(Program::info).collect(),
            Programs::Rows(rows) => vec![rows.info()],
        }
    }
}

impl Job<'_> {
    /// Runs the body on a rectangle, with the operands `near` in scratch memory.
    ///
    /// # Safety
    /// Each of `near` has as many rows of elements as the rectangle, and nobody else uses them meanwhile.
    pub(super) unsafe fn run(&self, of: &Rectangle, near: &[Near]) {
        if self.failed.load(Relaxed) || of.rows.is_empty() || of.columns.is_empty() {
            return;
        }
        let block = |n: &Near| {
            let bytes = ((of.rows.len() - 1) * n.pitch + of.columns.len()) * n.dtype.size();
            // SAFETY: the caller's promise; the buffer is dropped before this returns.
            unsafe { Allocation::foreign(NonNull::new(n.at).expect("a block has an address"), bytes) }
        };
        let blocks: Vec<Buffer> = near.iter().map(block).collect();
        let mut operands = self.operands.clone();
        near.iter().zip(&blocks).for_each(|(n, block)| operands[n.operand as usize] = block);
        let locals: Vec<Local> = near.iter().map(|n| Local { operand: n.operand, pitch: n.pitch }).collect();
        if !self.launch(of, &operands, &locals) {
            self.failed.store(true, Relaxed);
        }
    }

    /// Launches the body on a rectangle; returns false if an index was out of range.
    pub(super) fn launch(&self, of: &Rectangle, operands: &[&Buffer], locals: &[Local]) -> bool {
        match &self.part.programs {
            Programs::Rows(rows) => self.tiles.row_launches(of, &self.part.bodies[0], locals).into_iter().all(|g| {
                let geometry = Geometry::Rows(g);
                rows.launch(&geometry, operands, self.scalars).is_ok()
            }),
            Programs::Maps(maps) => self.tiles.launches(of, &self.part.bodies, locals).iter().all(|(n, geometry)| {
                let job = maps[*n].job(geometry, operands, self.scalars);
                job.is_ok_and(|job| with_scratch(|scratch| job.run(0..job.chunks, scratch)).is_ok())
            }),
        }
    }
}
