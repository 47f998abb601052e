//! Rows along memory: vectors hold neighbours of one row.
//!
//! Rows of one block run whole, many of them a call, through all phases while they are in cache. Longer rows and rows of several runs go phase by
//! phase, a block a call.

use super::columns::Columns;
use super::layout::{Block, Layout, Line, Tables};
use super::online;
use super::passes::{self, Blockwise, CHUNK, Chunk, Failure, Kernel, Places, Scratch};
use super::{Stores, may_stream};
use crate::engine::AlongEngine;
use crate::row_call::{ACCESS_WORDS, MOST_ROWS_ABREAST};
use crate::threads::Threads;
use std::ops::Range;
use thalweg_ir::DType;
use thalweg_kernel::{Body, OnlinePasses, Phases, order};
use thalweg_runtime::Error;

/// Bytes of the rows that are passed over side by side: they stay in the smallest first-level caches.
const NEAR_BYTES: usize = 24 << 10;

/// One launch.
pub struct Along<'a> {
    engine: &'a AlongEngine,
    pub phases: &'a Phases,
    /// By which its first two passes run together.
    pub online: Option<&'a OnlinePasses>,
    pub layout: &'a Layout<'a>,
    /// As many as the body has.
    scalars: &'a [u64],
    /// Outputs lie over inputs that may be read again.
    in_place: bool,
    /// What is written point by point, if it goes past the caches: in this phase, through these accesses.
    stream: Option<(usize, Vec<usize>)>,
    /// Where buffers lie in the memory of a row, values being at its start.
    buffers: Vec<usize>,
    /// Bytes of that memory.
    bytes: usize,
    /// Rows that are passed over side by side where they run whole.
    together: usize,
    /// Where rows are put together.
    columns: Option<Columns>,
}

impl<'a> Along<'a> {
    pub fn new(
        engine: &'a AlongEngine,
        online: Option<&'a OnlinePasses>,
        body: &Body,
        layout: &'a Layout<'a>,
        scalars: &'a [u64],
        stores: Stores,
    ) -> Along<'a> {
        let phases = engine.phases();
        let in_place = stores.aliased && engine.rereads_inputs();
        let written = body.stores.iter().map(|s| s.access as usize).filter(|&a| !body.accesses[a].per_row);
        let last = phases.list.iter().rposition(|p| !p.once).filter(|_| stores.stream);
        let stream = last.map(|l| (l, written.collect()));
        let mut places = Places::default();
        places.take(8 * phases.values.len());
        let buffers = phases.buffers.iter().map(|d| places.take(layout.row * d.size())).collect();
        let columns = Columns::new(body, layout);
        let last = layout.kept.len() - 1;
        let read =
            layout.lines.iter().enumerate().filter(|(i, l)| {
                l.point != 0 && l.kept[last] != 0 && body.stores.iter().all(|s| s.access as usize != *i)
            });
        let point = read.map(|(_, l)| l.unit as usize).chain(phases.buffers.iter().map(|d| d.size())).sum::<usize>();
        let together = (NEAR_BYTES / (point * layout.n).max(1)).clamp(1, MOST_ROWS_ABREAST);
        Along {
            engine,
            phases,
            online,
            layout,
            scalars,
            in_place,
            stream,
            buffers,
            bytes: places.bytes,
            together,
            columns,
        }
    }

    /// Bytes of memory for the rows of a call.
    pub fn memory_bytes(&self) -> usize {
        self.bytes * self.together
    }

    /// Runs the launch.
    ///
    /// # Safety
    /// The layout was checked against its operands.
    pub unsafe fn run(&self, threads: &Threads, estimate_ns: f64) -> Result<(), Error> {
        let scans = self.phases.list.iter().any(|p| !p.scans.is_empty());
        let single = self.layout.runs.is_empty() && self.layout.n <= order::BLOCK;
        // SAFETY: the caller's promise.
        unsafe {
            match &self.columns {
                Some(columns) => columns.run(self, single && !scans, threads, estimate_ns),
                None if single && !scans => self.whole_rows(threads, estimate_ns),
                None => passes::run(self, threads, estimate_ns),
            }
        }
    }

    /// Runs rows of one block, as many a call as lie one step apart.
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
                    self.args(row, whole, layout.n, memory, memory, (args, tables));
                    *args.last_mut().expect("args end in a count of rows") = self.together as u64;
                    // SAFETY: every access of the rows is inside its operand; buffers have room for a row, values for all slots.
                    failure.note(unsafe { self.call(args, layout.n, count, 0..self.phases.list.len()) });
                }
            });
        });
        failure.result()
    }

    /// Runs phases for rows that the args stand at.
    ///
    /// # Safety
    /// As [`crate::row_call::Along::run`].
    pub unsafe fn call(&self, args: &[u64], n: usize, rows: usize, phases: Range<usize>) -> Result<(), Error> {
        let fits = |(phase, written): &(usize, Vec<usize>)| phases.contains(phase) && may_stream(written, args, rows);
        // SAFETY: the caller's promise; rows that go past the caches are aligned.
        unsafe {
            if self.stream.as_ref().is_some_and(fits) {
                self.engine.run_streaming(args, n, rows, phases)?;
            } else {
                self.engine.run(args, n, rows, phases, self.in_place)?;
            }
        }
        Ok(())
    }

    /// Words for a call of `n` points from a block's first point on.
    pub fn args(
        &self,
        row: usize,
        block: Block,
        n: usize,
        memory: *mut u8,
        values: *mut u8,
        (args, tables): (&mut Vec<u64>, &mut Tables),
    ) {
        let layout = self.layout;
        let inner = layout.kept.len() - 1;
        args.clear();
        for (i, line) in layout.lines.iter().enumerate() {
            if line.map.is_some() {
                // A row without points has no places; a phase that runs once may still ask.
                let first = (layout.row > 0).then(|| row * layout.row + block.run * layout.n + block.start);
                let (at, table) = tables.fill(i, line, first, 1, n);
                args.extend([at, 0, 0, table]);
            } else {
                let own = || line.start.wrapping_add(layout.to_row(line, row));
                let start = self.columns.as_ref().and_then(|c| c.start(i, row)).unwrap_or_else(own);
                let at = start.wrapping_add(layout.to_point(line, block));
                args.extend([at as u64, line.kept[inner] as u64, step(line) as u64, line.bounds()]);
            }
        }
        for (&at, dtype) in self.buffers.iter().zip(&self.phases.buffers) {
            let point = block.run * layout.n + block.start;
            args.extend([memory as u64 + (at + point * dtype.size()) as u64, self.bytes as u64, 1, 0]);
        }
        args.extend_from_slice(self.scalars);
        args.push(values as u64);
        args.push(1);
        debug_assert_eq!(args.len(), ACCESS_WORDS * (layout.lines.len() + self.buffers.len()) + self.scalars.len() + 2);
    }
}

/// Elements from point to point.
fn step(line: &Line<'_>) -> i64 {
    line.point / line.unit
}

impl Kernel for Along<'_> {
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
        // A word more for what is stored nowhere: see `online`.
        [self.bytes, 8 * (self.phases.values.len() + 1)]
    }

    fn buffer(&self, number: usize) -> usize {
        self.buffers[number]
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
        // SAFETY: values of the row have a word each, in its memory and in the thread's: folds write there, and other threads may read the row's.
        unsafe { std::ptr::copy_nonoverlapping(chunk.memory, chunk.own, 8 * values) };
        self.args(chunk.number, block, block.len, chunk.memory, chunk.own, (args, tables));
        // SAFETY: every access of the block is inside its operand, and buffers have room for the row.
        unsafe { self.call(args, block.len, 1, phase..phase + 1)? };
        let body = &self.phases.list[phase].body;
        for (f, fold) in body.folds.iter().enumerate() {
            // SAFETY: a word for each slot, a place for each fold.
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
        self.args(chunk.number, Block { run: 0, start: 0, len: 1 }, 1, chunk.memory, chunk.memory, (args, tables));
        // SAFETY: as above, for the accesses that are per row; sets are written to the row's values.
        unsafe { self.call(args, 1, 1, phase..phase + 1) }
    }

    fn together(&self) -> Option<Blockwise> {
        self.online.map(|online| Blockwise { phases: online.phases.clone(), words: online::words(self.phases, online) })
    }

    unsafe fn blocks_together(
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
        // SAFETY: a word for each slot; `from` holds one element of the dtype.
        unsafe {
            let to = chunk.memory.cast::<u64>().add(slot as usize);
            let dtype: DType = self.phases.values[slot as usize];
            to.write(if dtype.size() == 4 { from.cast::<u32>().read() as u64 } else { from.cast::<u64>().read() });
        }
    }
}
