//! Cost features of a kernel, read from the kernel as it would be launched.

mod contraction;

use super::access::AccessKind;
use super::correction::{Family, KernelClass};
use super::costs::Costs;
use super::nodes::{self, NodeCounts, Work};
use serde::Serialize;
use std::sync::Arc;
use thalweg_ir::{DType, ScatterOp, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, Computed, Geometry, IndexMap, Kernel, Machine, MapGeometry, Node,
    Orientation, RowGeometry, ScatterGeometry, dims, merged, narrow, narrow::LinePattern, order, repeated,
};

/// Bytes of a cache line.
const LINE: u64 = 64;
/// Number of points whose positions in a table are looked at: those of a vector of 4-byte elements.
const CLOSE_POINTS: usize = 8;
/// Maximum period, in points, of a repeating run that is staged once for a row at next to no cost.
const MAX_STAGED_PERIOD: usize = 256;
/// Maximum number of columns at which cache conflicts of a stride do not matter.
const MIN_CONFLICT_COLUMNS: usize = 32;
/// Number of points of a chunk, the unit of work of one thread; smaller work is not split.
const CHUNK: u64 = 32 << 10;
/// Number of accesses of a call of a row whose arguments take as long as those of one through a table.
const TABLE_WORDS: u64 = 3;
/// Number of accesses of a call of a longer row that an access through a table, which is filled for each run, takes as
/// long as.
const RUN_TABLE_WORDS: u64 = 7;
/// Number of accesses of a body whose preparation is part of the overhead of its launch, or box.
const FREE_SETUP: usize = 8;

/// Traffic of one access in a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Traffic {
    /// Access pattern.
    pub access: AccessKind,
    /// Whether the access writes.
    pub write: bool,
    /// Bytes moved from or to memory: distinct elements, and the unused rest of their cache lines.
    pub bytes: u64,
    /// Bytes reread because several points need the same element.
    pub again: u64,
    /// Number of elements moved, over all points and passes; 0 for a uniform access.
    pub elements: u64,
    /// Whether elements have fewer than 4 bytes; strided ones are then extracted from 4-byte words.
    pub narrow: bool,
}

/// Cost features of the rows of a row kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RowFeatures {
    /// Orientation. `true`, inner-axis reduction: the lanes of a vector are neighbours in one row. `false`, outer-axis:
    /// they are points of neighbouring rows.
    pub along: bool,
    /// Number of rows.
    pub rows: u64,
    /// Number of points of a row.
    pub row: u64,
    /// Number of passes over each row.
    pub passes: u32,
    /// Number of folds.
    pub folds: u32,
    /// Bytes that later passes reread, plus bytes written to and read from buffers between passes.
    pub again: u64,
    /// Bytes of the data reread before the next row or strip begins. They determine the cache level that `again` is
    /// read from.
    pub near: u64,
    /// Number of independent chunks: strips of an outer-axis kernel; rows, or spans of them, of an inner-axis one.
    pub chunks: u64,
    /// Number of calls of the generated code.
    pub calls: u64,
    /// Number of accesses whose arguments are computed, over all calls.
    pub arguments: u64,
    /// Whether adjacent narrow rows are processed as one long row.
    pub joined: bool,
}

/// Cost features of a matrix product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Product {
    /// Dtype of the operands.
    #[serde(serialize_with = "name")]
    pub dtype: DType,
    /// Number of multiply-adds.
    pub multiplications: u64,
    /// Number of products in the batch.
    pub count: u64,
    /// Whether one operand is a vector (GEMV): bound by the bytes of the other.
    pub vector: bool,
    /// Whether operands may be rounded to TF32.
    pub tf32: bool,
}

/// Cost features of a kernel: everything that its time depends on.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CostFeatures {
    /// Number of points of the kernel's domain.
    pub points: u64,
    /// Number of boxes of a [`Kernel::Boxes`]; else 1.
    pub boxes: u32,
    /// Number of runs of neighbouring points, over all calls. A transposed or short domain has many.
    pub runs: u64,
    /// Number of calls of the generated code.
    pub calls: u64,
    /// Number of chunks that can be divided among threads.
    pub chunks: u64,
    /// One entry per access that has an operand.
    pub traffic: Vec<Traffic>,
    /// Arithmetic by class.
    pub work: Work,
    /// Maximum number of live values.
    pub alive: u32,
    /// Features of the rows of each row kernel: one, several in a group, none if no rows are reduced or scanned.
    pub rows: Vec<RowFeatures>,
    /// Features of the product, for a contraction.
    pub product: Option<Product>,
    /// Number of elements of right operands that are repacked, over all blocks of rows.
    pub packed: u64,
    /// Bytes of operands that prologues compute.
    pub factors: u64,
    /// Number of values that a scatter writes.
    pub scattered: u64,
    /// Number of accesses that are checked and prepared for the launch, over all boxes, without the first
    /// eight of each.
    pub setup: u64,
    /// Number of launches of prologues and epilogues on rectangles of a contraction, for boxes after the first.
    pub inner_launches: u64,
    /// As `setup`, over all these launches.
    pub inner_setup: u64,
    /// Number of accesses whose arguments are computed, over all calls of maps with tables of positions.
    pub arguments: u64,
    /// Number of positions that are computed through several levels of an index map, times the dimensions of these.
    pub positions: u64,
    /// Whether no vector code can be emitted for the kernel.
    pub portable: bool,
    /// Whether weights between two products are computed in one pass from scores in registers, where possible: see
    /// [`Costs::one_pass`].
    #[serde(skip)]
    passes_once: bool,
    /// See [`Costs::borders`].
    #[serde(skip)]
    borders: bool,
    /// See [`Costs::machine`].
    #[serde(skip)]
    machine: Machine,
}

fn name<S: serde::Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(dtype)
}

impl Costs {
    /// Cost features of a kernel. `touched` are the bytes of distinct elements of each read operand, `written` those of
    /// each written one, in the order of the operands.
    pub fn features(&self, kernel: &Kernel, geometry: &Geometry, touched: &[usize], written: &[usize]) -> CostFeatures {
        let own = CostFeatures {
            passes_once: self.one_pass,
            borders: self.borders,
            machine: self.machine,
            ..CostFeatures::default()
        };
        let mut f = CostFeatures { boxes: 1, ..own };
        let mut left: Vec<u64> = touched.iter().chain(written).map(|&b| b as u64).collect();
        add(kernel, geometry, &mut left, touched.len(), &mut f);
        f.portable |= f.work.slow > 0;
        f
    }
}

fn add(kernel: &Kernel, geometry: &Geometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(g)) => map(body, g, left, reads, f),
        (Kernel::Boxes(bodies), Geometry::Boxes(all)) => {
            f.boxes = bodies.len() as u32;
            if f.machine.merged_nodes == 0 {
                bodies.iter().zip(all).for_each(|(b, g)| map(b, g, left, reads, f));
                return;
            }
            let all = merged(bodies, all, &|nodes| nodes <= f.machine.merged_nodes);
            f.boxes = all.len() as u32;
            all.iter().for_each(|(b, g)| map(b, g, left, reads, f));
        }
        (Kernel::Rows { body, orientation }, Geometry::Rows(g)) => rows(body, *orientation, g, left, reads, f),
        (Kernel::Contraction(c), Geometry::Contraction(g)) => contraction::contraction(c, g, left, reads, f),
        (Kernel::Scatter { op, inputs, .. }, Geometry::Scatter(g)) => scatter(*op, inputs, g, left, f),
        (Kernel::Foreign { .. }, Geometry::Foreign(g)) => {
            contiguous(left, reads, f);
            f.work.simple += g.launch.additions.unwrap_or(0);
            f.chunks += g.launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        }
        (Kernel::Group { kernels, parts }, Geometry::Group(all)) => {
            // All reads of all member kernels, then all writes.
            let (mut read, mut written) = (0, parts.iter().map(|p| p.reads as usize).sum::<usize>());
            for (part, geometry) in parts.iter().zip(all) {
                let (r, w) = (part.reads as usize, part.writes as usize);
                let mut own = [&left[read..read + r], &left[written..written + w]].concat();
                let boxes = f.boxes;
                add(&kernels[part.kernel as usize], geometry, &mut own, r, f);
                f.boxes = f.boxes.max(boxes + 1);
                (read, written) = (read + r, written + w);
            }
        }
        _ => panic!("kernel and geometry are of different kinds"),
    }
}

impl CostFeatures {
    /// Features of the same work in the best layout: vector code over contiguous elements, in one call. Their times are
    /// lower bounds.
    pub(crate) fn regular(&self) -> CostFeatures {
        let traffic = self.traffic.iter().map(|t| match t.access {
            AccessKind::Gathered => *t,
            _ => Traffic { access: AccessKind::Contiguous, ..*t },
        });
        CostFeatures {
            portable: false,
            positions: 0,
            arguments: 0,
            runs: 0,
            calls: 0,
            traffic: traffic.collect(),
            ..self.clone()
        }
    }

    /// Adds the arithmetic of a body, and raises `alive` to its number of live values.
    fn take(&mut self, counted: &NodeCounts) {
        self.work += counted.work;
        self.alive = self.alive.max(counted.alive);
    }
}

fn map(body: &Body, g: &MapGeometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    let row = table_row(body, g, &f.machine).min(f.machine.table_points);
    if body.accesses.iter().any(|a| a.class == AccessClass::Mapped) && f.machine.least_run > 1 {
        // Tables that each call fills, unless its points are whole periods of all of them.
        let tables = maps(&g.accesses).count() as u64;
        let kept = whole_periods(&g.accesses).is_some_and(|whole| row.is_multiple_of(whole));
        f.arguments += g.points() as u64 / row.max(1) * tables * if kept { TABLE_WORDS } else { RUN_TABLE_WORDS };
    }
    rectangle(body, g, row, left, reads, f);
}

/// Like [`map`], if a row of a call through tables has `table_row` points.
fn rectangle(body: &Body, g: &MapGeometry, table_row: u64, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    let points = g.points() as u64;
    let inner = *g.extents.last().expect("a domain has a dimension") as u64;
    let outer = dims::rows_of_calls(&g.extents).map_or(1, |d| g.extents[d] as u64);
    let mapped = body.accesses.iter().any(|a| a.class == AccessClass::Mapped);
    // A device whose lanes take points of several runs processes them as they are.
    let joins_rows = f.machine.least_run > 1;
    let line = joins_rows.then(|| narrow::narrow(body, &g.extents, |a| &g.accesses[a].strides)).flatten();
    let (run, call) = if mapped {
        let row = table_row.min(f.machine.table_points);
        (row, row)
    } else if line.is_some() {
        // Consecutive rows, as many as a table holds.
        ((narrow::call(inner as usize) as u64).min(inner * outer), (inner * outer).min(CHUNK))
    } else {
        (inner, (inner * outer).min(CHUNK))
    };
    let (runs, calls) = (points / run.max(1), points.div_ceil(call.max(1)));
    let counted = nodes::nodes(body, points.max(runs * f.machine.least_run), 0);
    f.take(&counted);
    f.points += points;
    f.runs += runs;
    f.calls += calls;
    f.chunks += points.div_ceil(CHUNK.max(call));
    f.setup += g.accesses.len().saturating_sub(FREE_SETUP) as u64;
    f.positions += positions(&g.accesses, points, f.machine.table_points);
    let evaluations = |i: usize| points * counted.loads[i] as u64;
    traffic(body, &g.accesses, (&g.extents, g.extents.len() - 1, line.as_deref()), evaluations, left, reads, f);
}

/// Number of points of a row of a map with tables of positions: those of the innermost dimension, or of all dimensions
/// over which results are contiguous, where a launch joins these (of a `stack` of two, `[384, 64, 2]`, all 49,152).
fn table_row(body: &Body, g: &MapGeometry, machine: &Machine) -> u64 {
    let (short, gain) = machine.joined_tables;
    let last = g.extents.len() - 1;
    let inner = g.extents[last] as u64;
    if inner >= short {
        return inner;
    }
    let runs_on = |d: usize| {
        let strides = |store: &thalweg_kernel::Store| &g.accesses[store.access as usize].strides;
        body.stores.iter().all(|store| dims::runs_on(strides(store), d, d + 1, g.extents[d + 1]))
    };
    let joined = (0..last).rev().take_while(|&d| runs_on(d)).map(|d| g.extents[d] as u64).product::<u64>() * inner;
    if joined < gain * inner { inner } else { joined }
}

fn rows(body: &Body, orientation: Orientation, g: &RowGeometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    let (rows, row) = (g.rows() as u64, g.row() as u64);
    let points = rows * row;
    let counted = nodes::nodes(body, points, rows);
    f.take(&counted);
    f.points += points;
    let along = orientation == Orientation::InnerAxis;
    let lane = if along { g.extents.len() - 1 } else { g.kept - 1 };
    let evaluations = |i: usize| {
        let loads = counted.loads[i] as u64;
        if body.accesses[i].per_row { rows * loads.min(1) } else { points * loads }
    };
    traffic(body, &g.accesses, (&g.extents, lane, None), evaluations, left, reads, f);
    let tables = g.accesses.iter().filter(|a| a.map.is_some()).count() as u64;
    let r = row_features(body, along, g, (&counted, tables), &f.machine);
    f.setup += g.accesses.len().saturating_sub(FREE_SETUP) as u64;
    f.positions += positions(&g.accesses, points, f.machine.table_points) * if along { 1 } else { u64::from(r.passes) };
    let lanes = order::LANES as u64;
    let passes = counted.passes as u64;
    let row_runs = passes * points / (g.extents[lane] as u64).max(1);
    if along {
        f.runs += row_runs;
        // A non-contiguous store has no vector form.
        f.portable |= body.stores.iter().any(|s| {
            let access = body.accesses[s.access as usize];
            !access.per_row && access.class != AccessClass::Contiguous
        });
    } else {
        // 32 adjacent points of a strip are processed as one run.
        f.runs += if r.joined { row_runs.div_ceil(lanes) } else { row_runs };
        // The lanes of each fold start from the identity, and are combined at the end.
        f.work.fold += rows * row.div_ceil(order::BLOCK as u64) * row.min(lanes) * counted.folds as u64;
    }
    let long = along && row > order::BLOCK as u64;
    f.chunks += if long { points.div_ceil(CHUNK) } else { rows.min(points.div_ceil(CHUNK)) };
    f.rows.push(r);
}

/// Positions of `points` points through each map of several levels, times the dimensions of these levels. Positions that
/// repeat are computed for one period, where a call of at most `table_points` points consists of whole periods of all maps.
fn positions(all: &[AccessGeometry], points: u64, table_points: u64) -> u64 {
    let whole = whole_periods(all).filter(|&w| w <= table_points);
    let call = whole.unwrap_or(table_points).max(1);
    let of = |map: &Arc<IndexMap>| {
        let sizes = map.levels().flat_map(|(view, _)| view.shape.iter());
        let dims = sizes.filter(|n| **n > 1).count() as u64;
        let points = period(map).filter(|&period| call.is_multiple_of(period)).map_or(points, |_| call.min(points));
        // Bounded strides take one addition a point.
        if map.bordered().is_some() { points } else { dims * points }
    };
    maps(all).filter(|map| map.levels().len() > 1).map(of).sum()
}

/// Index maps of accesses, each once.
fn maps(all: &[AccessGeometry]) -> impl Iterator<Item = &Arc<IndexMap>> {
    let first = |(i, at): (usize, &AccessGeometry)| {
        let same = |other: &Arc<IndexMap>| at.map.as_ref().is_some_and(|map| Arc::ptr_eq(map, other));
        !all[..i].iter().any(|a| a.map.as_ref().is_some_and(same))
    };
    all.iter().enumerate().filter(move |&entry| first(entry)).filter_map(|(_, at)| at.map.as_ref())
}

/// Number of points after which the positions of a map repeat, shifted.
fn period(map: &IndexMap) -> Option<u64> {
    map.shift().map(|(points, _)| points as u64)
}

/// Least number of points that is a whole number of periods of all maps; `None` if one of them has no period.
fn whole_periods(all: &[AccessGeometry]) -> Option<u64> {
    maps(all).try_fold(1, |whole, map| common(whole, period(map)?))
}

/// Least common multiple; `None` on overflow.
fn common(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b)
}

fn row_features(
    body: &Body,
    along: bool,
    g: &RowGeometry,
    (counted, tables): (&NodeCounts, u64),
    machine: &Machine,
) -> RowFeatures {
    let (rows, row) = (g.rows() as u64, g.row() as u64);
    let loaded = |i: &usize| counted.loads[*i] > 0 && !body.accesses[*i].per_row && body.accesses[*i].operand.is_some();
    let (mut again, mut point) = (counted.kept, counted.held);
    for i in (0..body.accesses.len()).filter(loaded) {
        let size = body.accesses[i].dtype.size() as u64;
        again += size * (counted.loads[i] as u64 - 1);
        point += size;
    }
    let again = again * rows * row;
    let mut r = RowFeatures {
        along,
        rows,
        row,
        passes: counted.passes,
        folds: counted.folds,
        again,
        near: 0,
        chunks: 0,
        calls: 0,
        arguments: 0,
        joined: false,
    };
    let block = order::BLOCK as u64;
    let passes = counted.passes as u64;
    if along {
        // Longer rows are processed block by block where rescaling identities connect their folds.
        let online = !body.strict && passes > 1 && point * row > machine.private_cache && row >= block;
        r.near = point * if online { block } else { row };
        let run = (*g.extents.last().expect("a row has a dimension") as u64).max(1);
        let inner = if g.kept == 0 { 1 } else { g.extents[g.kept - 1] as u64 };
        // Scans run over the whole buffer of a row, between calls.
        let phase_by_phase = !body.scans.is_empty() || !body.combined.is_empty();
        let arguments = counted.loads.iter().map(|&l| u64::from(l.max(1))).sum::<u64>() + TABLE_WORDS * tables;
        if run == row && row <= block && (phase_by_phase || tables > 0) && machine.least_run > 1 {
            // Tables, and the phases between scans, are for one row.
            r.chunks = rows;
            let phases = if phase_by_phase { 2 } else { 1 };
            (r.calls, r.arguments) = (rows * phases, rows * arguments);
        } else if run == row && row <= block {
            // As many rows per call as have a constant stride.
            r.chunks = rows / inner.max(1) * (inner * row).div_ceil(CHUNK);
            r.calls = r.chunks;
        } else {
            r.chunks = rows;
            let blocks = rows * (row / run) * run.div_ceil(block);
            (r.calls, r.arguments) = (blocks * passes, blocks * passes * RUN_TABLE_WORDS * tables);
        }
        return r;
    }
    let columns = g.extents[g.kept - 1] as u64;
    let (narrow, wide) = machine.strip_columns;
    let fits = (machine.private_cache / (point * row).max(1)).clamp(narrow, wide);
    let strip = (if passes > 1 { fits } else { wide }).min(columns).max(1);
    let even = |a: &thalweg_kernel::Access| matches!(a.class, AccessClass::Contiguous | AccessClass::Uniform);
    r.joined = columns <= machine.joined_columns && strip == columns && body.accesses.iter().all(even);
    r.near = point * row * strip;
    r.chunks = rows / columns * columns.div_ceil(strip);
    // A call a lane; one for a block of one point a lane.
    let lanes = order::LANES as u64;
    let mapped =
        (0..body.accesses.len()).any(|i| counted.loads[i] > 0 && body.accesses[i].class == AccessClass::Mapped);
    let each = if row <= lanes && !mapped { 1 } else { row.min(lanes) };
    r.calls = r.chunks * row.div_ceil(block) * passes * if r.joined { 1 } else { each };
    r
}

/// Adds the traffic of each access, executed `evaluations` times; `left` holds the bytes of each operand not counted
/// yet. `line` has the patterns of accesses along narrow rows.
fn traffic(
    body: &Body,
    all: &[AccessGeometry],
    (extents, lane, line): (&[usize], usize, Option<&[LinePattern]>),
    evaluations: impl Fn(usize) -> u64,
    left: &mut [u64],
    reads: usize,
    f: &mut CostFeatures,
) {
    let gathers =
        |i: usize| body.nodes.iter().any(|n| matches!(n, Node::Gather { access, .. } if *access as usize == i));
    let any_gather = body.nodes.iter().any(|n| matches!(n, Node::Gather { .. }));
    for (i, (access, at)) in body.accesses.iter().zip(all).enumerate() {
        let size = access.dtype.size() as u64;
        let Some(operand) = access.operand else {
            if access.class == AccessClass::Mapped {
                let elements = evaluations(i);
                f.traffic.push(Traffic {
                    access: AccessKind::Mapped,
                    write: false,
                    bytes: 0,
                    again: 0,
                    elements,
                    narrow: false,
                });
            }
            continue;
        };
        let write = operand as usize >= reads;
        let gathered = any_gather && gathers(i);
        let (way, spread) = match line {
            _ if gathered => (AccessKind::Gathered, 1),
            // Packed chunk by chunk, or read through a table.
            Some(line) if line[i] == LinePattern::Differs => {
                let view = View::new(Shape::new(extents), &at.strides[..extents.len()], at.base);
                (by_table(&IndexMap::new(view), size, &f.machine), 1)
            }
            _ => way(access, at, (extents, lane), size, &f.machine),
        };
        let points: u64 = extents.iter().map(|&n| n as u64).product();
        let elements = match (write, way) {
            (true, _) if access.per_row => at.distinct as u64,
            (true, _) => points,
            (false, AccessKind::Uniform) => 0,
            (false, _) => evaluations(i),
        };
        // A gather moves no more than it asks for.
        let distinct =
            if gathered { elements.min(at.distinct.max(1) as u64 * LINE).max(1) } else { at.distinct as u64 };
        let counted = left.get_mut(operand as usize);
        let bytes = match counted {
            Some(left) if !gathered => {
                let bytes = (distinct * size).min(*left);
                *left -= bytes;
                bytes
            }
            Some(left) => (elements * size).min(*left),
            None => distinct * size,
        };
        let again = (elements.min(points) * size).saturating_sub(bytes);
        f.traffic.push(Traffic { access: way, write, bytes: bytes * spread, again, elements, narrow: size < 4 });
    }
}

/// Access pattern of an access if the lanes of a vector go along dimension `lane`, and the number of bytes moved per
/// byte used.
fn way(
    access: &Access,
    at: &AccessGeometry,
    (extents, lane): (&[usize], usize),
    size: u64,
    machine: &Machine,
) -> (AccessKind, u64) {
    match access.class {
        AccessClass::Mapped => {
            return (at.map.as_ref().map_or(AccessKind::Mapped, |map| by_table(map, size, machine)), 1);
        }
        AccessClass::Uniform => return (AccessKind::Uniform, 1),
        // A source that restarts periodically is staged once and then repeated.
        AccessClass::Contiguous if at.map.as_ref().is_some_and(|m| m.period() > MAX_STAGED_PERIOD) => {
            return (AccessKind::Mapped, 1);
        }
        // Reversed while loaded into lanes, at no memory cost.
        AccessClass::Contiguous | AccessClass::Reversed => return (AccessKind::Contiguous, 1),
        AccessClass::Strided => {}
    }
    let bytes = |d: usize| at.strides[d].unsigned_abs() as u64 * size;
    let moves = |&d: &usize| extents[d] > 1 && at.strides[d] != 0;
    let least = (0..extents.len()).filter(moves).map(bytes).min().unwrap_or(size);
    let spread = (least.min(LINE) / size).max(1);
    let (least_points, most_bytes) = machine.repacked;
    let packed = repeated(access, at, extents, lane).is_some_and(|n| n as u64 * size <= most_bytes);
    if packed && extents[lane] as u64 >= least_points {
        return (AccessKind::Contiguous, spread);
    }
    let transposed = bytes(lane) >= LINE && least < LINE;
    // With few rows the lines stay in cache anyway.
    let conflicts = bytes(lane).is_multiple_of(machine.conflict_stride) && extents[lane] > MIN_CONFLICT_COLUMNS;
    let way = match (transposed, conflicts) {
        (true, true) => AccessKind::Conflicting,
        (true, false) => AccessKind::Transposed,
        _ => AccessKind::Strided,
    };
    (way, spread)
}

/// Access pattern of elements that are read through a table of the positions of `map`.
fn by_table(map: &IndexMap, size: u64, machine: &Machine) -> AccessKind {
    if map.is_close(CLOSE_POINTS, machine.close_bytes / size) { AccessKind::Close } else { AccessKind::Mapped }
}

/// Adds the traffic of operands of which each byte is read or written once, in order. `left` are their bytes; the first
/// `reads` operands are read.
fn contiguous(left: &[u64], reads: usize, f: &mut CostFeatures) {
    f.traffic.extend(left.iter().enumerate().map(|(i, &bytes)| Traffic {
        access: AccessKind::Contiguous,
        write: i >= reads,
        bytes,
        again: 0,
        elements: 0,
        narrow: false,
    }));
}

fn scatter(
    _: ScatterOp,
    inputs: &[Option<Box<Computed>>; 2],
    g: &ScatterGeometry,
    left: &mut [u64],
    f: &mut CostFeatures,
) {
    let around: u64 = g.outer.iter().chain(&g.inner).map(|d| d.0 as u64).product();
    f.scattered += around * g.n as u64;
    f.points += around * g.n as u64;
    f.chunks += around.max(1);
    // Operands: the tensor, then the sources of index and values, then the result.
    let last = left.len() - 1;
    contiguous(&[left[0], left[last]], 1, f);
    let mut at = 1;
    for (input, geometry) in inputs.iter().zip(&g.inputs) {
        let Some((input, geometry)) = input.as_deref().zip(geometry.as_deref()) else {
            contiguous(&left[at..at + 1], 1, f);
            at += 1;
            continue;
        };
        let reads = input.operands;
        // Its output stays in cache and is no operand of the launch.
        let mut own: Vec<u64> = left[at..at + reads].to_vec();
        add(&input.kernel, geometry, &mut own, usize::MAX, f);
        at += reads;
    }
}

/// Exponent of the greatest power of four that is at most `n`; 0 for 0.
fn power(n: u64) -> u8 {
    (n.max(1).ilog2() / 2) as u8
}

impl KernelClass {
    /// Class of a kernel with these features.
    pub fn of(f: &CostFeatures) -> KernelClass {
        let bit = |kind: AccessKind, write: bool| 1u16 << (kind as u16 + if write { 8 } else { 0 });
        let plain = |kind| matches!(kind, AccessKind::Contiguous | AccessKind::Uniform);
        let accesses = f.traffic.iter().filter(|t| !plain(t.access)).fold(0, |set, t| set | bit(t.access, t.write));
        let computed = [
            f.work.divide > 0,
            f.work.special > 0,
            f.work.special_wide > 0,
            f.work.slow > 0 || f.portable,
            f.work.scan + f.work.sort > 0,
            f.factors > 0,
            f.packed > 0,
            f.boxes > 1,
            f.traffic.iter().any(|t| t.narrow && !plain(t.access)),
        ];
        let computed = computed.iter().enumerate().fold(0, |set, (i, &is)| set | (is as u16) << i);
        let (family, run, row) = match (f.product, f.rows.first()) {
            (Some(p), _) => (Family::Product, p.multiplications / f.points.max(1), p.count),
            (None, Some(r)) => {
                let family = if r.along { Family::InnerRows } else { Family::OuterRows };
                (family, f.points * r.passes as u64 / f.runs.max(1), r.row)
            }
            (None, None) if f.scattered > 0 => (Family::Scatter, 0, 0),
            (None, None) => (Family::Map, f.points / f.runs.max(1), 0),
        };
        KernelClass { family, accesses, computed, points: power(f.points), run: power(run), row: power(row) }
    }
}
