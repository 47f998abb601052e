//! Memory traffic of row kernels, phase by phase.
//!
//! In: the phases, the traversal of rows or strips of columns, and a layout, whose operands need no addresses. Out:
//! [`Moved`].

use super::combined::Combines;
use super::layout::{Layout, Line};
use super::shared_pass::GROUPS;
use crate::hardware::PRIVATE_CACHE;
use crate::traffic::{each_point, issued, loads, varying, way};
use std::ops::Range;
use thalweg_kernel::{Access, AccessClass, AccessGeometry, Body, Moved, Nest, Phases, Stream};

/// A launch of a row kernel, described for the computation of its traffic.
pub struct Rows<'a> {
    /// The row body, before its division into phases.
    pub body: &'a Body,
    /// Geometry of each access of the row body.
    pub at: &'a [AccessGeometry],
    pub layout: &'a Layout<'a>,
    pub phases: &'a Phases,
    /// Range of phases that run fused, block by block, while the block is cached.
    pub together: Option<Range<usize>>,
    /// Number of columns of a strip, for outer-axis reductions.
    pub width: Option<usize>,
    /// Traffic of a scan beyond loading and storing its buffer once, given the phase, the index of the scan, and its
    /// rows and columns.
    pub scans: &'a dyn Fn(usize, usize, [usize; 2]) -> Moved,
    pub combines: &'a Combines,
}

/// One loop of the traversal: its trip count, and the stride of each access.
struct Loop {
    extent: usize,
    step: Box<dyn Fn(&Line<'_>) -> i64>,
    /// Whether the loop iterates over rows.
    rows: bool,
}

impl Rows<'_> {
    /// Loops of the traversal, outermost first.
    fn loops(&self) -> Vec<Loop> {
        let layout = self.layout;
        let row_loop = |d: usize, extent: usize, times: i64| Loop {
            extent,
            step: Box::new(move |l: &Line<'_>| l.kept[d].wrapping_mul(times)),
            rows: true,
        };
        let last = layout.kept.len() - 1;
        let outer = if self.width.is_some() { last } else { last + 1 };
        let mut loops: Vec<Loop> = (0..outer).map(|d| row_loop(d, layout.kept[d], 1)).collect();
        if let Some(width) = self.width {
            loops.push(row_loop(last, layout.kept[last].div_ceil(width), width as i64));
        }
        loops.extend(layout.runs.iter().enumerate().map(|(d, &extent)| Loop {
            extent,
            step: Box::new(move |l: &Line<'_>| l.runs[d]),
            rows: false,
        }));
        loops.push(Loop { extent: layout.n, step: Box::new(|l: &Line<'_>| l.point), rows: false });
        if let Some(width) = self.width {
            loops.push(row_loop(last, width.min(layout.kept[last]), 1));
        }
        loops
    }

    /// Loop nest of a pass that loads and stores through these accesses. With `rows`, the nest has only the loops over
    /// rows, and only operands with one element per row.
    fn nest(&self, loads: &[(usize, bool)], stores: &[usize], rows: bool) -> Nest {
        let mut loops = self.loops();
        if rows {
            loops.retain(|l| l.rows);
        }
        let stream = |a: usize, gathered: bool, written: bool| {
            let (access, line) = (&self.body.accesses[a], &self.layout.lines[a]);
            let steps = || {
                let steps = loops.iter().map(|l| ((l.step)(line) / line.unit) as isize).collect();
                ((line.start / line.unit) as isize, steps)
            };
            let way = way(gathered, &self.at[a], steps);
            Some(Stream { operand: access.operand?, size: access.dtype.size() as u64, way, written })
        };
        let own = |a: usize| a < self.body.accesses.len() && self.body.accesses[a].per_row == rows;
        let read = loads.iter().filter(|l| own(l.0)).filter_map(|l| stream(l.0, l.1, false));
        let streams = read.chain(stores.iter().filter(|a| own(**a)).filter_map(|&a| stream(a, false, true))).collect();
        Nest { extents: loops.iter().map(|l| l.extent).collect(), streams }
    }

    /// Loads and stores of a range of phases, each access once.
    fn all(&self, phases: Range<usize>) -> (Vec<(usize, bool)>, Vec<usize>) {
        let (mut all, mut stores) = (vec![], vec![]);
        for phase in &self.phases.list[phases] {
            all.extend(loads(&phase.body));
            stores.extend(phase.body.stores.iter().map(|s| s.access as usize));
        }
        all.sort_unstable();
        all.dedup();
        stores.sort_unstable();
        stores.dedup();
        (all, stores)
    }

    /// Number of bytes, buffers included, that a row or a strip of columns touches in all its phases.
    fn working_set(&self) -> u64 {
        let (loads, stores) = self.all(0..self.phases.list.len());
        let nest = self.nest(&loads, &stores, false);
        let outer = self.layout.kept.len();
        let points = self.layout.row as u64 * self.width.map_or(1, |w| w as u64);
        let buffers: u64 = self.phases.buffers.iter().map(|d| d.size() as u64).sum();
        nest.footprint(outer).saturating_add(points.saturating_mul(buffers))
    }

    /// Memory traffic of the launch.
    pub fn moves(&self) -> Moved {
        let private = PRIVATE_CACHE as u64;
        let (rows, points) = (self.layout.rows() as u64, self.layout.rows() as u64 * self.layout.row as u64);
        let lines = self.body.accesses.len();
        let near = self.working_set() <= private;
        let (all, _) = self.all(0..self.phases.list.len());
        let mut moved = Moved { read: self.nest(&all, &[], true).read(private), ..Moved::default() };
        let mut at = 0;
        while at < self.phases.list.len() {
            let joined = match &self.together {
                _ if near => 0..self.phases.list.len(),
                Some(t) if t.start == at => t.clone(),
                _ => at..at + 1,
            };
            let (loads, stores) = self.all(joined.clone());
            if self.phases.list[joined.clone()].iter().any(|p| !p.once) {
                moved.read += self.nest(&loads, &stores, false).read(private);
            }
            at = joined.end;
        }
        for (number, phase) in self.phases.list.iter().enumerate() {
            let across = self.width.is_some();
            let times = if phase.once { rows } else { points };
            // Across rows, an operand with one element per row is loaded as a vector, like any other. Along rows,
            // elements read through a table are loaded at each point even if they are uniform in a row.
            let counts = |a: &Access| if across { a.class != AccessClass::Uniform } else { each_point(a) };
            let varies = varying(&phase.body);
            let (loaded, stored) = issued(&phase.body, lines, counts, |n| across || phase.once || varies[n]);
            (moved.loaded, moved.stored) = (moved.loaded + times * loaded, moved.stored + times * stored);
            for s in phase.body.stores.iter().filter(|s| (s.access as usize) < lines && s.combine.is_none()) {
                moved.written += times * phase.body.accesses[s.access as usize].dtype.size() as u64;
            }
            moved += self.combined(&phase.body);
            if !near {
                let buffer = |a: usize| (a >= lines).then(|| points * phase.body.accesses[a].dtype.size() as u64);
                moved.read += loads(&phase.body).iter().filter_map(|l| buffer(l.0)).sum::<u64>();
                moved.written += phase.body.stores.iter().filter_map(|s| buffer(s.access as usize)).sum::<u64>();
            }
            for (c, (width, strips)) in phase.combined.iter().flat_map(|c| self.strips().map(|s| (c, s))) {
                let [loaded, stored] = self.combines.of(c.of).issued(c.along, [self.layout.row, width]);
                let columns = (width * strips) as u64;
                (moved.loaded, moved.stored) = (moved.loaded + columns * loaded, moved.stored + columns * stored);
            }
            for c in phase.combined.iter().filter(|_| !near) {
                let [reads, writes] = c.along.moves();
                let size: u64 = c.of.region().args.iter().map(|d| d.size() as u64).sum();
                moved.read += reads * points * size;
                moved.written += writes * points * size;
            }
            for (s, scan) in phase.scans.iter().enumerate() {
                for (width, strips) in self.strips().into_iter().filter(|(width, _)| *width > 0) {
                    let own = (self.scans)(number, s, [self.layout.row, width]).times(strips as u64);
                    moved.read += own.read;
                    moved.written += own.written;
                }
                if !near {
                    moved.read += points * self.phases.buffers[scan.from as usize].size() as u64;
                    moved.written += points * self.phases.buffers[scan.to as usize].size() as u64;
                }
            }
        }
        moved
    }

    /// Strips of columns of the launch: the width and the number of the whole ones, and of those at the end of the
    /// columns. A row along the inner axis is a strip of one column.
    fn strips(&self) -> [(usize, usize); 2] {
        let (rows, width) = (self.layout.rows(), self.width.unwrap_or(1));
        let columns = self.width.and_then(|_| self.layout.kept.last().copied()).unwrap_or(1);
        let each = rows / columns.max(1);
        [(width, each * (columns / width.max(1))), (columns % width.max(1), each)]
    }

    /// Traffic of stores that combine rows: each group of rows has partial results, which are combined at the end.
    fn combined(&self, phase: &Body) -> Moved {
        let lines = self.body.accesses.len();
        let stores = || phase.stores.iter().filter(|s| (s.access as usize) < lines && s.combine.is_some());
        let bytes: u64 = stores().map(|s| phase.accesses[s.access as usize].dtype.size() as u64).sum();
        let row = self.layout.row as u64 * bytes;
        let groups = self.layout.rows().min(GROUPS) as u64;
        let mut moved = Moved { written: row, stored: row, ..Moved::default() };
        if row * groups > PRIVATE_CACHE as u64 {
            (moved.read, moved.written) = (row * groups, row * (groups + 1));
        }
        moved
    }
}
