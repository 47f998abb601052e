//! Argument words of the calls of an inner-axis reduction: for whole rows, or for a block of a row.

use super::arena::ArenaLayout;
use super::combined::Combines;
use super::layout::{Block, Layout, Line};
use super::panels;
use super::shared_pass::Columns;
use super::tables::Tables;
use super::{Stores, may_stream};
use crate::check::{self, AccessUse};
use crate::engine::InnerReductionEngine;
use crate::row_call::{ACCESS_WORDS, MAX_ROWS_ABREAST};
use crate::tunable::TUNABLES;
use std::ops::Range;
use thalweg_kernel::{Body, OnlinePasses, Phases};
use thalweg_runtime::Error;

/// A launch of an inner-axis reduction.
pub struct InnerReductionLaunch<'a> {
    engine: &'a InnerReductionEngine,
    /// User-defined monoids of the body.
    pub combines: &'a Combines,
    pub phases: &'a Phases,
    /// Rescaling identities by which the body's first two passes run fused.
    pub online: Option<&'a OnlinePasses>,
    pub layout: &'a Layout<'a>,
    /// Unique number of the launch, by which threads recognise their cached panels.
    launch: u64,
    /// Scalars of the body.
    pub scalars: &'a [u64],
    /// Whether outputs overlap inputs that a second run of a call would read.
    in_place: bool,
    /// Index of the phase with non-temporal stores, if any, and the accesses that it writes point by point.
    stream: Option<(usize, Vec<usize>)>,
    /// Byte offsets of the buffers in the memory of a row, after the row's values.
    pub buffers: Vec<usize>,
    /// Bytes of the memory of a row.
    pub bytes: usize,
    /// Accesses that each phase uses.
    used: Vec<Vec<u16>>,
    /// Number of rows that a call interleaves, if rows run whole.
    pub together: usize,
    /// Partial results by group of rows, if a store of the body combines rows.
    pub columns: Option<Columns>,
}

impl<'a> InnerReductionLaunch<'a> {
    pub fn new(
        (engine, combines): (&'a InnerReductionEngine, &'a Combines),
        online: Option<&'a OnlinePasses>,
        body: &Body,
        layout: &'a Layout<'a>,
        scalars: &'a [u64],
        stores: Stores,
    ) -> InnerReductionLaunch<'a> {
        let phases = engine.phases();
        let in_place = stores.aliased && engine.rereads_inputs();
        let written = body.stores.iter().map(|s| s.access as usize).filter(|&a| !body.accesses[a].per_row);
        // Packed stores that are unpacked afterwards go through the caches.
        let parted = layout.lines.iter().any(|l| l.map.as_ref().is_some_and(|m| m.written));
        let last = phases.list.iter().rposition(|p| !p.once).filter(|_| stores.stream && !parted);
        let stream = last.map(|l| (l, written.collect()));
        let mut places = ArenaLayout::default();
        places.take(8 * phases.values.len());
        let buffers = phases.buffers.iter().map(|d| places.take(layout.row * d.size())).collect();
        let columns = Columns::new(body, layout);
        let last = layout.kept.len() - 1;
        let read =
            layout.lines.iter().enumerate().filter(|(i, l)| {
                l.point != 0 && l.kept[last] != 0 && body.stores.iter().all(|s| s.access as usize != *i)
            });
        let point = read.map(|(_, l)| l.unit as usize).chain(phases.buffers.iter().map(|d| d.size())).sum::<usize>();
        let together = (TUNABLES.abreast_bytes.size() / (point * layout.n).max(1)).clamp(1, MAX_ROWS_ABREAST);
        InnerReductionLaunch {
            engine,
            combines,
            phases,
            online,
            layout,
            launch: panels::launch(),
            scalars,
            in_place,
            stream,
            buffers,
            bytes: places.bytes,
            used: phases.list.iter().map(|p| accesses(&p.body)).collect(),
            together,
            columns,
        }
    }

    /// Bytes of memory that a call needs for its interleaved rows.
    pub fn memory_bytes(&self) -> usize {
        self.bytes * self.together
    }

    /// Runs phases for the rows that the args describe.
    ///
    /// # Safety
    /// As for [`crate::row_call::InnerReduction::run`].
    pub unsafe fn call(&self, args: &[u64], n: usize, rows: usize, phases: Range<usize>) -> Result<(), Error> {
        let fits = |(phase, written): &(usize, Vec<usize>)| phases.contains(phase) && may_stream(written, args, rows);
        // SAFETY: the caller's promise; rows with non-temporal stores are aligned.
        unsafe {
            if self.stream.as_ref().is_some_and(fits) {
                self.engine.run_streaming(args, n, rows, phases)?;
            } else {
                self.engine.run(args, n, rows, phases, self.in_place)?;
            }
        }
        Ok(())
    }

    /// Sets the argument words of a call of `n` points from a block's first point on; fills tables and panels. `phase` is
    /// the only one that the call runs, if given: words of accesses that it does not use are 0.
    pub fn args(
        &self,
        (row, block, n): (usize, Block, usize),
        phase: Option<usize>,
        memory: *mut u8,
        values: *mut u8,
        (args, tables): (&mut Vec<u64>, &mut Tables),
    ) {
        let layout = self.layout;
        let inner = layout.kept.len() - 1;
        args.clear();
        args.resize(ACCESS_WORDS * layout.lines.len(), 0);
        let used = phase.map(|p| self.used[p].iter().map(|&i| i as usize));
        let all = if phase.is_some() { 0..0 } else { 0..layout.lines.len() };
        for i in used.into_iter().flatten().chain(all) {
            // Buffers follow the body's own accesses.
            let Some(line) = layout.lines.get(i) else { continue };
            let words = &mut args[ACCESS_WORDS * i..][..ACCESS_WORDS];
            if line.map.is_some() {
                // A row without points has no positions, but a phase that runs once may still need the words.
                let first = (layout.row > 0).then(|| self.first_point(row, block));
                let (at, table) = tables.fill(i, line, first, 1, n);
                words.copy_from_slice(&[at, 0, 0, table]);
            } else if layout.panels[i] && n > 1 {
                // SAFETY: the launch was checked against its operands.
                let at = unsafe { layout.panel(&mut tables.panels, self.launch, i, (row, block)) };
                words.copy_from_slice(&[at, 0, 1, 0]);
            } else {
                let own = || line.start.wrapping_add(layout.to_row(line, row));
                let start = self.columns.as_ref().and_then(|c| c.start(i, row)).unwrap_or_else(own);
                let at = start.wrapping_add(layout.to_point(line, block));
                words.copy_from_slice(&[at as u64, line.kept[inner] as u64, step(line) as u64, line.bounds()]);
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

impl InnerReductionLaunch<'_> {
    /// Row-major index in the domain of a block's first point.
    fn first_point(&self, row: usize, block: Block) -> usize {
        row * self.layout.row + block.run * self.layout.n + block.start
    }

    /// Copies the results of a block that these phases stored to packed copies to their operands.
    ///
    /// # Safety
    /// A call with the words of [`InnerReductionLaunch::args`] for this block, of as many points, has just run these
    /// phases.
    pub unsafe fn part(&self, row: usize, block: Block, phases: Range<usize>, tables: &Tables) {
        let parted = |i: &usize| self.layout.lines.get(*i).is_some_and(|l| l.map.as_ref().is_some_and(|m| m.written));
        if self.layout.row == 0 {
            return;
        }
        for phase in self.phases.list[phases].iter().filter(|p| !p.once) {
            for number in phase.body.stores.iter().map(|s| s.access as usize).filter(parted) {
                let first = self.first_point(row, block);
                // SAFETY: the caller's promise; each row and block belongs to one thread.
                unsafe { tables.part(number, &self.layout.lines[number], first, block.len) };
            }
        }
    }
}

/// Accesses that a body uses, in ascending order.
fn accesses(body: &Body) -> Vec<u16> {
    let used = |u: &AccessUse| u.gathered || u.loaded || u.numbers || u.masked;
    let all = check::uses(body);
    (0..all.len()).filter(|&i| used(&all[i])).map(|i| i as u16).collect()
}

/// Stride of an access between points of a row, in elements.
fn step(line: &Line<'_>) -> i64 {
    line.point / line.unit
}
