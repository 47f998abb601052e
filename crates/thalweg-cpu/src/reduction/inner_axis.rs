//! Inner-axis reductions: a vector holds adjacent points of one row.
//!
//! Rows of one block run whole, many per call, through all phases while they are cached. Longer rows, and rows of
//! several runs, run phase by phase, one block per call. If a store of the body combines rows, rows are divided into
//! groups, each of which one thread runs (`shared_pass.rs`).

use super::combined::Combines;
pub use super::inner_axis_call::InnerReductionLaunch;
use super::layout::{Block, Layout};
use super::online;
use super::passes::{self, Blockwise, CHUNK, Chunk, Failure, Kernel, Scratch};
use super::shared_pass::Columns;
use super::tables::Tables;
use crate::threads::Threads;
use thalweg_ir::DType;
use thalweg_kernel::{Phases, order};
use thalweg_runtime::Error;

impl InnerReductionLaunch<'_> {
    /// Runs the launch.
    ///
    /// # Safety
    /// The layout was checked against its operands.
    pub unsafe fn run(&self, threads: &Threads, estimate_ns: f64) -> Result<(), Error> {
        let scans = self.phases.list.iter().any(|p| p.leaves_buffers());
        let single = self.layout.runs.is_empty() && self.layout.n <= order::BLOCK;
        // SAFETY: the caller's promise.
        unsafe {
            match &self.columns {
                Some(columns) => self.in_groups(columns, single && !scans, threads, estimate_ns),
                None if single && !scans => self.whole_rows(threads, estimate_ns),
                None => passes::run(self, threads, estimate_ns),
            }
        }
    }

    /// Runs a launch whose rows are single blocks: as many rows per call as have a common stride.
    unsafe fn whole_rows(&self, threads: &Threads, estimate_ns: f64) -> Result<(), Error> {
        let layout = self.layout;
        let inner = *layout.kept.last().expect("a layout has a dimension of rows");
        let mapped = layout.is_mapped();
        let rows = if mapped { 1 } else { (CHUNK / layout.n.max(1)).clamp(1, inner) };
        let chunks = inner.div_ceil(rows);
        let grain = (CHUNK / (layout.n.max(1) * rows)).max(1);
        let failure = Failure::default();
        threads.run(layout.rows() / inner * chunks, grain, estimate_ns, |range| {
            if failure.any() {
                return;
            }
            passes::with_scratch(|scratch| {
                let memory = scratch.chunk.bytes(self.memory_bytes());
                let Scratch { args, tables, .. } = scratch;
                for chunk in range {
                    let (outer, first) = (chunk / chunks, chunk % chunks * rows);
                    let row = outer * inner + first;
                    let count = rows.min(inner - first);
                    let whole = Block { run: 0, start: 0, len: layout.n };
                    self.args((row, whole, layout.n), None, memory, memory, (args, tables));
                    *args.last_mut().expect("args end in a count of rows") = self.together as u64;
                    let phases = 0..self.phases.list.len();
                    // SAFETY: every access of the rows is inside its operand; buffers have space for a row, values for
                    // all slots. A call through tables has one row.
                    unsafe {
                        failure.note(self.call(args, layout.n, count, phases.clone()));
                        self.part(row, whole, phases, tables);
                    }
                }
            });
        });
        failure.result()
    }

    /// Runs a kernel that combines rows: its rows group by group, then the combination of the groups' results.
    ///
    /// # Safety
    /// The kernel's layout was checked against its operands.
    unsafe fn in_groups(&self, columns: &Columns, whole: bool, threads: &Threads, ns: f64) -> Result<(), Error> {
        let layout = self.layout;
        let failure = Failure::default();
        threads.run(columns.groups, 1, ns, |range| {
            passes::with_scratch(|scratch| {
                for group in range {
                    let mut row = group * columns.rows;
                    let end = layout.rows().min(row + columns.rows);
                    while row < end {
                        // SAFETY: the caller's promise; each group is run by one thread.
                        row += unsafe { self.run_rows(whole, row..end, scratch, &failure) };
                    }
                }
            });
        });
        failure.result()?;
        columns.store(layout);
        Ok(())
    }

    /// Runs at least one row from the start of a range, in a single call; returns the number of rows run.
    unsafe fn run_rows(
        &self,
        whole: bool,
        rows: std::ops::Range<usize>,
        scratch: &mut Scratch,
        failure: &Failure,
    ) -> usize {
        let layout = self.layout;
        if !whole {
            let [memory, own] = self.memory();
            let (memory, own) = (scratch.chunk.bytes(memory), scratch.own.bytes(own));
            // SAFETY: the caller's promise; the memory belongs to this thread.
            failure.note(unsafe { passes::serial(self, Chunk { number: rows.start, memory, own }, scratch) });
            return 1;
        }
        let inner = *layout.kept.last().expect("a layout has a dimension of rows");
        let count = if layout.is_mapped() { 1 } else { rows.len().min(inner - rows.start % inner) };
        let memory = scratch.chunk.bytes(self.memory_bytes());
        let Scratch { args, tables, .. } = scratch;
        let whole = Block { run: 0, start: 0, len: layout.n };
        self.args((rows.start, whole, layout.n), None, memory, memory, (args, tables));
        // SAFETY: every access of the rows is inside its operand, or in the group's memory.
        failure.note(unsafe { self.call(args, layout.n, count, 0..self.phases.list.len()) });
        count
    }
}

impl Kernel for InnerReductionLaunch<'_> {
    fn phases(&self) -> &Phases {
        self.phases
    }

    fn layout(&self) -> &Layout<'_> {
        self.layout
    }

    fn chunks(&self) -> usize {
        self.layout.rows()
    }

    fn width(&self, _: usize) -> usize {
        1
    }

    fn widest(&self) -> usize {
        1
    }

    fn memory(&self) -> [usize; 2] {
        // One more word, as the target of suppressed stores: see `online`.
        [self.bytes, 8 * (self.phases.values.len() + 1)]
    }

    fn buffer(&self, number: usize) -> usize {
        self.buffers[number]
    }

    fn combines(&self) -> &Combines {
        self.combines
    }

    unsafe fn block(
        &self,
        phase: usize,
        block: Block,
        chunk: Chunk,
        scratch: (&mut Vec<u64>, &mut Tables),
        out: *mut u64,
    ) -> Result<(), Error> {
        let (args, tables) = scratch;
        let values = self.phases.values.len();
        // SAFETY: values of the row have one word each, in its memory and in the thread's copy: folds write the copy,
        // while other threads may read the row's.
        unsafe { std::ptr::copy_nonoverlapping(chunk.memory, chunk.own, 8 * values) };
        self.args((chunk.number, block, block.len), Some(phase), chunk.memory, chunk.own, (args, tables));
        // SAFETY: every access of the block is inside its operand, and buffers have space for the row.
        unsafe {
            self.call(args, block.len, 1, phase..phase + 1)?;
            self.part(chunk.number, block, phase..phase + 1, tables);
        }
        let body = &self.phases.list[phase].body;
        for (f, fold) in body.folds.iter().enumerate() {
            // SAFETY: there is a word for each slot, and space for each fold.
            unsafe {
                let bits = chunk.own.cast::<u64>().add(fold.slot as usize).read();
                let to = out.add(f);
                if body.dtype(fold.node).size() == 4 { to.cast::<u32>().write(bits as u32) } else { to.write(bits) }
            }
        }
        Ok(())
    }

    unsafe fn once(&self, phase: usize, chunk: Chunk, scratch: (&mut Vec<u64>, &mut Tables)) -> Result<(), Error> {
        let (args, tables) = scratch;
        let first = Block { run: 0, start: 0, len: 1 };
        self.args((chunk.number, first, 1), Some(phase), chunk.memory, chunk.memory, (args, tables));
        // SAFETY: as above, for per-row accesses; sets write the row's values.
        unsafe { self.call(args, 1, 1, phase..phase + 1) }
    }

    fn blockwise(&self) -> Option<Blockwise> {
        self.online.map(|online| Blockwise { phases: online.phases.clone(), words: online::words(self.phases, online) })
    }

    unsafe fn run_fused_block(
        &self,
        block: Block,
        chunk: Chunk,
        scratch: (&mut Vec<u64>, &mut Tables),
        out: *mut u64,
    ) -> Result<(), Error> {
        let online = self.online.expect("phases run together by their rescaling identities");
        // SAFETY: the caller's promise.
        unsafe { online::block(self, online, block, chunk, scratch, out) }
    }

    unsafe fn resolve(
        &self,
        chunk: Chunk,
        results: *const u64,
        scratch: (&mut Vec<u64>, &mut Tables),
    ) -> Result<(), Error> {
        let online = self.online.expect("phases run together by their rescaling identities");
        // SAFETY: the caller's promise.
        unsafe { online::resolve(self, online, chunk, results, scratch) }
    }

    unsafe fn set(&self, slot: u16, chunk: Chunk, from: *const u8) {
        // SAFETY: there is a word for each slot; `from` holds one element of the dtype.
        unsafe {
            let to = chunk.memory.cast::<u64>().add(slot as usize);
            let dtype: DType = self.phases.values[slot as usize];
            to.write(if dtype.size() == 4 { from.cast::<u32>().read() as u64 } else { from.cast::<u64>().read() });
        }
    }
}
