//! Scatters whose index or values are computed by fused kernels.
//!
//! In: a scatter with map kernels for its index, its values or both. Out: the scatter of their results, which are never
//! in memory as a whole: the scatter is split into parts along its outermost dimension, and the index and values of
//! each part are computed into scratch memory that stays in cache. Parts run in the order of the index, so the split
//! does not change bits. An input that cannot be split in the same way is computed whole.

use super::{apply, prepare, tables};
use crate::hardware::PRIVATE_CACHE;
use crate::reduction;
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use thalweg_ir::{DType, ScatterOp};
use thalweg_kernel::{Geometry, MapGeometry, Moved, ScatterGeometry};
use thalweg_runtime::{Buffer, Error, Pool, Program, ProgramInfo, granted};

/// A computed input (index or values) of a scatter: its compiled map kernel, and the numbers of its operands and
/// scalars.
#[derive(Debug)]
pub struct Input {
    program: Arc<dyn Program>,
    operands: usize,
    scalars: usize,
}

impl Input {
    pub fn new(program: Arc<dyn Program>, operands: usize, scalars: usize) -> Input {
        Input { program, operands, scalars }
    }
}

/// A compiled scatter kernel, with its computed inputs.
#[derive(Debug)]
pub struct ScatterProgram {
    op: ScatterOp,
    dtype: DType,
    /// Computed index, and computed values; `None` for an input that is an operand in memory.
    inputs: [Option<Input>; 2],
    pool: Arc<Pool>,
    threads: Arc<Threads>,
}

/// Source of the index, or of the values, of one launch.
struct Source<'a> {
    /// Operand that holds the elements, or scratch memory that they are computed into.
    buffer: Cow<'a, Buffer>,
    computed: Option<Job<'a>>,
}

/// Computation of an input in one launch.
struct Job<'a> {
    input: &'a Input,
    geometry: &'a Geometry,
    operands: &'a [&'a Buffer],
    scalars: &'a [u64],
    /// Number of points per index of the scatter's outermost dimension, if the input can be computed in parts.
    part: Option<usize>,
}

impl Job<'_> {
    fn run(&self, geometry: &Geometry, into: &Buffer) -> Result<(), Error> {
        let operands: Vec<&Buffer> = self.operands.iter().copied().chain([into]).collect();
        self.input.program.launch(geometry, &operands, self.scalars)
    }
}

impl ScatterProgram {
    pub fn new(
        op: ScatterOp,
        dtype: DType,
        inputs: [Option<Input>; 2],
        pool: Arc<Pool>,
        threads: Arc<Threads>,
    ) -> ScatterProgram {
        ScatterProgram { op, dtype, inputs, pool, threads }
    }
}

impl ScatterProgram {
    /// Bytes of a computed input at a time: all of it, or a part.
    fn computed_bytes(&self, g: &ScatterGeometry, n: usize) -> usize {
        let own = g.inputs[n].as_deref().expect("a computed input has a geometry");
        let rows = || rows_of_part(g, &self.threads).min(outermost(g));
        let points = cut(g, n + 1, own).map_or_else(|| points(own), |p| p * rows());
        points * if n == 0 { 8 } else { self.dtype.size() }
    }
}

impl Program for ScatterProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Scatter(g) = geometry else { panic!("a scatter is launched with {geometry:?}") };
        let read = self.inputs.iter().map(|i| i.as_ref().map_or(1, |i| i.operands));
        let wanted = 2 + read.clone().sum::<usize>();
        assert!(operands.len() == wanted, "a scatter has {wanted} operands, {} given", operands.len());
        let (tensor, to) = (operands[0], operands[wanted - 1]);
        let (outermost, rows) = (outermost(g), rows_of_part(g, &self.threads));
        let (mut operands, mut scalars) = (&operands[1..wanted - 1], scalars);
        let mut sources = vec![];
        for (n, input) in self.inputs.iter().enumerate() {
            let Some(input) = input else {
                sources.push(Source { buffer: Cow::Borrowed(operands[0]), computed: None });
                operands = &operands[1..];
                continue;
            };
            let own = g.inputs[n].as_deref().expect("a computed input has a geometry");
            let part = cut(g, n + 1, own);
            let buffer = Cow::Owned(self.pool.allocate(self.computed_bytes(g, n))?);
            let (reads, left) = operands.split_at(input.operands);
            let (bits, rest) = scalars.split_at(input.scalars);
            (operands, scalars) = (left, rest);
            let job = Job { input, geometry: own, operands: reads, scalars: bits, part };
            sources.push(Source { buffer, computed: Some(job) });
        }
        let [index, values] = &sources[..] else { unreachable!("two inputs") };
        for s in [index, values] {
            if let Some(job) = &s.computed
                && job.part.is_none()
            {
                job.run(job.geometry, &s.buffer)?;
            }
        }
        prepare(self.dtype, g, tensor, to, &self.threads);
        let cuts = [index, values].map(|s| s.computed.as_ref().is_some_and(|job| job.part.is_some()));
        let buffers = [&*index.buffer, &*values.buffer, to];
        if cuts == [false; 2] {
            return apply(self.op, self.dtype, g, buffers, &self.threads);
        }
        for start in (0..outermost).step_by(rows) {
            let range = start..outermost.min(start + rows);
            for s in [index, values] {
                if let Some(Job { geometry: Geometry::Map(map), part: Some(part), .. }) = &s.computed {
                    let job = s.computed.as_ref().expect("just seen");
                    job.run(&Geometry::Map(part_of_map(map, range.start * part..range.end * part)), &s.buffer)?;
                }
            }
            apply(self.op, self.dtype, &part_of(g, cuts, range), buffers, &self.threads)?;
        }
        Ok(())
    }

    fn temporary(&self, geometry: &Geometry) -> usize {
        let Geometry::Scatter(g) = geometry else { panic!("a scatter is launched with {geometry:?}") };
        let computed = (0..2).filter(|&n| self.inputs[n].is_some());
        computed.map(|n| granted(self.computed_bytes(g, n))).sum()
    }

    fn moves(&self, geometry: &Geometry, in_place: bool) -> Moved {
        let Geometry::Scatter(g) = geometry else { panic!("a scatter is launched with {geometry:?}") };
        let size = self.dtype.size() as u64;
        let beside = g.outer.iter().chain(&g.inner).map(|d| d.0).product::<usize>();
        let (result, values) = ((beside * g.size) as u64 * size, beside * g.n);
        let mut moved = Moved::default();
        for (n, input) in self.inputs.iter().enumerate() {
            let bytes = if n == 0 { 8 } else { size };
            let (Some(input), Some(own)) = (input, &g.inputs[n]) else {
                moved.read += distinct(g, n + 1) as u64 * bytes;
                continue;
            };
            let computed = points(own) as u64 * bytes;
            let inner = input.program.moves(own, false);
            moved += Moved { written: inner.written.saturating_sub(computed), ..inner };
            // Computed in parts that stay in cache, or whole.
            if cut(g, n + 1, own).is_none() && computed > PRIVATE_CACHE as u64 {
                moved.written += computed;
                moved.read += computed;
            }
        }
        if !in_place {
            moved.read += result;
            moved.written += result;
        }
        // If the result does not fit the caches, each value reads or writes its element in memory.
        let touched = values as u64 * size;
        if result > PRIVATE_CACHE as u64 {
            let element = if self.op == ScatterOp::Set { 0 } else { touched };
            moved.read += element;
            moved.written += touched;
        } else if in_place {
            moved.read += result.min(touched);
            moved.written += result.min(touched);
        }
        moved
    }

    fn info(&self) -> ProgramInfo {
        let native = ProgramInfo { engine: "native".into(), ..ProgramInfo::default() };
        let computed = self.inputs.iter().flatten().map(|i| i.program.info());
        // Inputs are computed into scratch, which is not an operand.
        ProgramInfo { rereads_inputs: false, ..reduction::sum(std::iter::once(native).chain(computed)) }
    }

    fn rereads_for(&self, _: usize) -> bool {
        false
    }
}

/// Size of the outermost dimension of the scatter's loop over values (the axis, if there is no outer dimension).
fn outermost(g: &ScatterGeometry) -> usize {
    g.outer.first().map_or(g.n, |d| d.0)
}

/// Number of indices of the outermost dimension in a part.
fn rows_of_part(g: &ScatterGeometry, threads: &Threads) -> usize {
    let all: usize = g.outer.iter().chain(&g.inner).map(|d| d.0).product::<usize>() * g.n;
    let row = (all / outermost(g).max(1)).max(1);
    // Each part wakes the threads twice. Tables take so little time per value that this matters.
    let part = TUNABLES.scatter_part.size();
    let part = if tables::pays(g, size_of::<u64>()) { 4 * part } else { part };
    (part * threads.count() / row).max(1)
}

/// Strides of the outermost dimension in the four operands; if it is the axis, only index and values have a stride.
fn outer_strides(g: &ScatterGeometry) -> [isize; 4] {
    g.outer.first().map_or([0, g.steps[1], g.steps[2], 0], |d| d.1)
}

/// Number of distinct elements of operand `which` (1: index, 2: values) that a scatter reads.
fn distinct(g: &ScatterGeometry, which: usize) -> usize {
    let along = (g.n, g.steps);
    g.outer.iter().chain(&g.inner).chain([&along]).filter(|d| d.1[which] != 0).map(|d| d.0).product()
}

/// Number of points of a computed input.
fn points(geometry: &Geometry) -> usize {
    match geometry {
        Geometry::Map(map) => map.points(),
        Geometry::Boxes(boxes) => boxes.iter().map(MapGeometry::points).sum(),
        other => panic!("an input is computed by a map, not with {other:?}"),
    }
}

/// Number of points of computed operand `which` per index of the outermost dimension, if the points of successive
/// indices are contiguous, both as computed and as read.
fn cut(g: &ScatterGeometry, which: usize, own: &Geometry) -> Option<usize> {
    let Geometry::Map(map) = own else { return None };
    let part = usize::try_from(outer_strides(g)[which]).ok().filter(|&p| p > 0)?;
    let behind = g.outer.iter().skip(1).chain(&g.inner).map(|d| (d.0, d.1[which]));
    let axis = (!g.outer.is_empty()).then_some((g.n, g.steps[which]));
    let mut reach = 0;
    for (size, stride) in behind.chain(axis) {
        reach += size.saturating_sub(1) * usize::try_from(stride).ok()?;
    }
    let inner: usize = map.extents[1..].iter().product();
    let fits = g.base[which] == 0 && reach < part && part * outermost(g) == map.points() && part % inner == 0;
    (fits && map.accesses.iter().all(|a| a.map.is_none())).then_some(part)
}

/// Restricts a map without tables to a range of its row-major points.
fn part_of_map(map: &MapGeometry, range: Range<usize>) -> MapGeometry {
    let inner: usize = map.extents[1..].iter().product();
    let (first, last) = (range.start / inner, range.end / inner);
    let (mut part, written) = (map.clone(), map.accesses.len() - 1);
    part.extents[0] = last - first;
    for (n, at) in part.accesses.iter_mut().enumerate() {
        // The output is scratch, which each part fills from its beginning.
        if n < written {
            at.base += first as isize * at.strides[0];
        }
    }
    part
}

/// Restricts a scatter to a range of its outermost dimension; computed inputs hold only that range.
fn part_of(g: &ScatterGeometry, computed: [bool; 2], range: Range<usize>) -> ScatterGeometry {
    let mut part = g.clone();
    let strides = outer_strides(g);
    match part.outer.first_mut() {
        Some(d) => d.0 = range.len(),
        None => part.n = range.len(),
    }
    for (which, base) in part.base.iter_mut().enumerate() {
        let moves = !matches!((which, computed), (1, [true, _]) | (2, [_, true]));
        *base += if moves { range.start as isize * strides[which] } else { 0 };
    }
    part
}
