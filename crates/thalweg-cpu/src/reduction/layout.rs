//! Loop structure of a row geometry.
//!
//! In: a checked geometry, operands. Out: for each access, its address (for index-only accesses, its position) at the
//! domain's first point, and its strides in bytes. A *run* is the innermost dimension of a row. Adjacent dimensions are
//! merged wherever every access has one stride over both: separately those that enumerate the rows, and those that
//! enumerate the runs of a row. The run itself is never merged, since its boundaries are part of a fold's definition.

use super::panels;
use crate::check;
use std::sync::Arc;
use thalweg_ir::MAX_RANK;
use thalweg_kernel::order::BLOCK;
use thalweg_kernel::{AccessClass, Body, IndexMap, Orientation, Positions, RowGeometry, dims};
use thalweg_runtime::Error;

/// Addresses and strides of one access, from which argument words are computed: in bytes (index only: in positions).
pub struct Line<'a> {
    /// Value of argument word 0 (address, or position) at the first point of the domain.
    pub start: i64,
    /// Bytes of an element; 1 for index-only accesses.
    pub unit: i64,
    /// Strides of the dimensions that enumerate the rows.
    pub kept: [i64; MAX_RANK],
    /// Strides of the dimensions that enumerate the runs.
    pub runs: [i64; MAX_RANK],
    /// Stride between adjacent points of a run.
    pub point: i64,
    /// Position table, if the access is not strided.
    pub map: Option<Mapped<'a>>,
    /// Address of the operand's element 0 and its number of elements, if something is gathered through it.
    bounds: Option<[u64; 2]>,
}

impl Line<'_> {
    /// Value of argument word 3 for an access without a position table: the address of its gather bounds, or 0.
    pub fn bounds(&self) -> u64 {
        self.bounds.as_ref().map_or(0, |b| b.as_ptr() as u64)
    }
}

/// Index map of a mapped access, with the data that its position tables are computed from.
pub struct Mapped<'a> {
    pub map: &'a Arc<IndexMap>,
    pub positions: Positions,
    /// Period of the positions in points, and the amount by which they shift per period; `None` if they do not repeat.
    pub shift: Option<(usize, i64)>,
    /// Whether the body reads positions as values. A shift of the address would not update them, so the table is then
    /// refilled.
    pub numbers: bool,
    /// Unique number of the launch, by which threads recognise their cached tables.
    pub launch: u64,
    /// Address of the operand and its number of elements; `None` for index-only accesses.
    pub operand: Option<(*const u8, usize)>,
    /// Whether positions may exceed an i32, so that tables hold them relative to an origin.
    pub wide: bool,
    /// Whether the access goes through packed copies: loads are packed before a call, which reads the copy
    /// contiguously; stores are unpacked after a call, which wrote the copy.
    pub packed: bool,
    /// Whether the body stores through the access.
    pub written: bool,
}
// SAFETY: the address is only dereferenced in operands that live as long as the launch.
unsafe impl Sync for Mapped<'_> {}

/// Loop structure of one launch of a row kernel: dimensions of rows and runs, and the strides of each access.
pub struct Layout<'a> {
    /// Sizes of the dimensions that enumerate the rows; at least one.
    pub kept: Vec<usize>,
    /// Sizes of the dimensions that enumerate the runs of a row; may be empty.
    pub runs: Vec<usize>,
    /// Number of points of a run, the innermost dimension of a row.
    pub n: usize,
    /// Number of points of a row.
    pub row: usize,
    pub lines: Vec<Line<'a>>,
    /// For each access, whether its elements are packed into panels for several runs. Only in inner-axis reductions.
    pub panels: Vec<bool>,
}

/// Position of a block in its row.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub run: usize,
    /// Offset of the block's first point in the run.
    pub start: usize,
    pub len: usize,
}

/// Merged dimensions, outermost first: size, and the source dimension that provides the strides (`None`: an added
/// dimension of size 1).
type Dims = Vec<(usize, Option<usize>)>;

impl<'a> Layout<'a> {
    /// Computes the layout of a geometry. `place` gives the address and size in bytes of an operand. With null
    /// addresses, only the strides of the layout are meaningful.
    pub fn new(
        body: &Body,
        geometry: &'a RowGeometry,
        orientation: Orientation,
        place: &dyn Fn(u16) -> (*mut u8, usize),
    ) -> Result<Layout<'a>, Error> {
        let (extents, kept) = (&geometry.extents, geometry.kept);
        let row = geometry.row();
        let mapped = |i: usize| geometry.accesses[i].map.is_some();
        let across = orientation == Orientation::OuterAxis;
        let strides: Vec<[isize; MAX_RANK]> = geometry
            .accesses
            .iter()
            .enumerate()
            .map(|(i, at)| {
                let mut strides = if mapped(i) { [0; MAX_RANK] } else { at.strides };
                if body.accesses[i].per_row || row == 0 {
                    strides[kept..].fill(0);
                }
                if across && extents[kept - 1] == 1 && !mapped(i) {
                    // A single element has any stride, but what is merged into it must have the stride of its class.
                    strides[kept - 1] = (body.accesses[i].class == AccessClass::Contiguous) as isize;
                }
                strides
            })
            .collect();
        let runs_on =
            |o: usize, i: usize, n: usize| (0..strides.len()).all(|a| mapped(a) || dims::runs_on(&strides[a], o, i, n));
        let merge = |from: std::ops::Range<usize>, keep_last: bool| -> Dims {
            dims::merge(extents, from, keep_last, runs_on).into_iter().map(|m| (m.extent, Some(m.inner))).collect()
        };
        let mut rows = merge(0..kept, across);
        if rows.is_empty() {
            rows.push((1, None));
        }
        let last = extents.len() - 1;
        let runs = if row == 0 { vec![] } else { merge(kept..last, false) };
        let launch = if (0..body.accesses.len()).any(mapped) { panels::launch() } else { 0 };
        let uses = check::uses(body);
        let mut lines = Vec::with_capacity(body.accesses.len());
        for (i, (access, at)) in body.accesses.iter().zip(&geometry.accesses).enumerate() {
            let unit = if access.operand.is_some() { access.dtype.size() as i64 } else { 1 };
            let operand = access.operand.map(place);
            let positions = at.map.as_ref().filter(|_| mapped(i)).map(|map| (map, map.positions()));
            let map = positions.map(|(map, positions)| Mapped {
                map,
                shift: positions.shift(),
                positions,
                numbers: uses[i].numbers,
                launch,
                operand: operand.map(|(at, bytes)| (at.cast_const(), bytes / unit as usize)),
                wide: map.reach().is_some_and(|(_, high)| high > i32::MAX as usize),
                packed: access.class != AccessClass::Mapped,
                written: uses[i].stored,
            });
            if map.as_ref().is_some_and(|m| m.wide && m.operand.is_none()) {
                return Err(Error::Device {
                    device: "cpu".into(),
                    message: "indices over more than 2^31 positions through a reshaped or padded view".into(),
                });
            }
            let step = |d: usize| (strides[i][d] as i64).wrapping_mul(unit);
            let spread = |dims: &Dims| {
                let mut steps = [0; MAX_RANK];
                for (to, (_, d)) in steps.iter_mut().zip(dims) {
                    *to = d.map_or(0, step);
                }
                steps
            };
            let base = if map.is_some() { 0 } else { (at.base as i64).wrapping_mul(unit) };
            lines.push(Line {
                start: operand.map_or(0, |o| o.0 as i64).wrapping_add(base),
                unit,
                kept: spread(&rows),
                runs: spread(&runs),
                point: if row == 0 { 0 } else { step(last) },
                map,
                bounds: operand
                    .filter(|_| uses[i].gathered)
                    .map(|(at, bytes)| [at as u64, (bytes / unit as usize) as u64]),
            });
        }
        let sizes = |dims: Dims| dims.into_iter().map(|d| d.0).collect::<Vec<_>>();
        let n = if row == 0 { 0 } else { extents[last] };
        let mut layout = Layout { kept: sizes(rows), runs: sizes(runs), n, row, lines, panels: vec![] };
        let wants = |i: usize| !across && layout.wants_panels(body, i);
        layout.panels = (0..layout.lines.len()).map(wants).collect();
        Ok(layout)
    }

    pub fn rows(&self) -> usize {
        self.kept.iter().product()
    }

    /// Number of blocks per row.
    pub fn blocks(&self) -> usize {
        self.runs.iter().product::<usize>() * self.n.div_ceil(BLOCK)
    }

    /// Position of block `number` of a row.
    pub fn block(&self, number: usize) -> Block {
        let each = self.n.div_ceil(BLOCK);
        let start = number % each * BLOCK;
        Block { run: number / each, start, len: BLOCK.min(self.n - start) }
    }

    /// Offset of an access at the first point of row `row`, in bytes.
    pub fn to_row(&self, line: &Line<'_>, row: usize) -> i64 {
        linear_offset(&self.kept, &line.kept, row)
    }

    /// Offset of an access at the first point of a block, relative to its row, in bytes.
    pub fn to_point(&self, line: &Line<'_>, block: Block) -> i64 {
        linear_offset(&self.runs, &line.runs, block.run).wrapping_add(line.point.wrapping_mul(block.start as i64))
    }

    /// Whether loads through an access are packed into panels for several runs: a transposed operand, in a body that
    /// stores nothing point by point, so that no operand changes.
    fn wants_panels(&self, body: &Body, number: usize) -> bool {
        let Some((&many, inner)) = self.runs.last().zip(self.runs.len().checked_sub(1)) else { return false };
        let (access, line) = (&body.accesses[number], &self.lines[number]);
        let at_points = body.stores.iter().any(|s| !body.accesses[s.access as usize].per_row || s.combine.is_some());
        let loaded = access.operand.is_some() && body.stores.iter().all(|s| s.access as usize != number);
        let plain = access.class == AccessClass::Strided && !access.per_row && line.map.is_none();
        let steps = [line.unit, line.point, line.runs[inner]];
        loaded && plain && !at_points && line.bounds() == 0 && panels::pay(steps, [many, self.n])
    }

    /// Number of adjacent blocks that one thread should take together, to reuse panels.
    pub fn grain(&self) -> usize {
        let wide = self.lines.iter().zip(&self.panels).filter(|(_, wants)| **wants);
        wide.map(|(line, _)| panels::runs(line.unit) * self.n.div_ceil(BLOCK)).max().unwrap_or(1)
    }

    /// Address of the contiguous elements of a block, for an access that is packed into panels.
    ///
    /// # Safety
    /// The launch was checked against its operands.
    pub unsafe fn panel(
        &self,
        panels: &mut panels::Panels,
        launch: u64,
        number: usize,
        (row, block): (usize, Block),
    ) -> u64 {
        let (line, many) = (&self.lines[number], *self.runs.last().expect("a row of runs"));
        let most = panels::runs(line.unit);
        let inside = block.run % many % most;
        let first_run = block.run - inside;
        let first = Block { run: first_run, ..block };
        let source = panels::Source {
            from: line.start.wrapping_add(self.to_row(line, row)).wrapping_add(self.to_point(line, first)),
            unit: line.unit,
            point: line.point,
            sizes: [most.min(many - first_run % many), block.len],
        };
        let key = panels::Key { launch, access: number, row, first_run, start: block.start };
        // SAFETY: the caller's promise, for runs that the row has.
        unsafe { panels.of(key, source, inside) }
    }

    /// Whether an access of the body goes through an index map.
    pub fn is_mapped(&self) -> bool {
        self.lines.iter().any(|l| l.map.is_some())
    }
}

/// Offset of a row-major index over these sizes, given the stride of each dimension.
pub fn linear_offset(sizes: &[usize], steps: &[i64], mut number: usize) -> i64 {
    let mut moved = 0i64;
    for (size, step) in sizes.iter().zip(steps).rev() {
        moved = moved.wrapping_add(step.wrapping_mul((number % size) as i64));
        number /= size;
    }
    moved
}
