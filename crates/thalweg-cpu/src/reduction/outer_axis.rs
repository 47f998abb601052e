//! Outer-axis reductions: a vector holds the same point of adjacent rows.
//!
//! A strip of adjacent rows is a matrix with one column per row, and each phase of the body is a map over blocks of
//! that matrix. In: a phase. Out: a map body, in which a value of the row is read from an array with one element per
//! column, a buffer is a matrix, and a fold is a store that combines with a *bank* of partial results, one per column.
//! Each fold has 32 banks, one per lane of a block ([`order::LANES`]): the points of a lane, 32 apart, are the rows of one
//! call. The points of a block that has one a lane are the rows of one, too.
//!
//! If a strip is a whole matrix without gaps, 32 consecutive points are contiguous in memory, as the banks are, so they
//! run as one long row. Operands with one element per column are replicated 32 times for that.

use super::arena::ArenaLayout;
use super::combined::Combines;
use super::layout::{Block, Layout};
use super::passes::{Chunk, Kernel};
use super::tables::Tables;
use super::{Stores, fold, may_stream};
use crate::engine::{Choice, Engine};
use crate::tunable::TUNABLES;
use thalweg_kernel::order::LANES;
use thalweg_kernel::{Access, AccessClass, Body, Node, Phase, Phases, Store, resolve};
use thalweg_runtime::Error;

/// Alignment of strips in columns, so that vectors of 4-byte elements are whole.
const UNIT: usize = 16;

/// Source of an access of a converted phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// Operand of the launch, through the access of the row body with this index.
    Line(usize),
    Buffer(usize),
    Value(usize),
    /// Bank of accumulators of a fold of this phase.
    Bank(usize),
}

impl Source {
    /// Index of the row body's access whose elements must be replicated for a joined call, because it has one element
    /// per row; `None` for other sources.
    fn repeated(self, access: &Access) -> Option<usize> {
        let plain = matches!(access.class, AccessClass::Contiguous | AccessClass::Strided);
        match self {
            Source::Line(i) if access.per_row && access.operand.is_some() && plain => Some(i),
            _ => None,
        }
    }
}

/// A phase of the row body, converted to a map and compiled.
struct Map {
    engine: Engine,
    accesses: Vec<(Source, Access)>,
    folds: usize,
    once: bool,
    mapped: bool,
    /// Accesses that the phase writes, if all its stores go to operands, point by point; else empty.
    written: Vec<usize>,
}

/// A row body compiled for outer-axis reductions.
pub struct Program {
    pub phases: Phases,
    maps: Vec<Map>,
    pub combines: Combines,
}

impl Program {
    /// Compiles each phase of a row body as a map.
    pub fn new(phases: Phases, of: &Body, choice: Choice) -> Program {
        let maps = phases.list.iter().map(|p| convert(&phases, p, of, choice)).collect();
        Program { phases, maps, combines: Combines::new(of, choice) }
    }

    /// Engines of the phases, in order.
    pub fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.maps.iter().map(|m| &m.engine)
    }
}

/// Converts a phase of a body to a map, and compiles it.
fn convert(phases: &Phases, phase: &Phase, of: &Body, choice: Choice) -> Map {
    let mut body = phase.body.clone();
    let mut sources: Vec<Source> = (0..of.accesses.len()).map(Source::Line).collect();
    sources.extend((0..phases.buffers.len()).map(Source::Buffer));
    for access in &mut body.accesses {
        // A per-row access has one element per column, whatever the stride between columns.
        access.per_row = false;
    }
    let mut operands = body.operands + phases.buffers.len() as u16;
    let mut add = |body: &mut Body, source, dtype| {
        let class = AccessClass::Contiguous;
        body.accesses.push(Access { operand: Some(operands), dtype, class, per_row: false });
        operands += 1;
        sources.push(source);
        body.accesses.len() as u16 - 1
    };
    let values: Vec<u16> =
        phases.values.iter().enumerate().map(|(i, &dtype)| add(&mut body, Source::Value(i), dtype)).collect();
    for node in &mut body.nodes {
        if let Node::Value { slot, .. } = *node {
            *node = Node::Load { access: values[slot as usize] };
        }
    }
    for s in std::mem::take(&mut body.sets) {
        body.stores.push(Store { node: s.node, access: values[s.slot as usize], combine: None });
    }
    let folds = std::mem::take(&mut body.folds);
    for (i, f) in folds.iter().enumerate() {
        let dtype = body.dtype(f.node);
        let access = add(&mut body, Source::Bank(i), dtype);
        body.stores.push(Store { node: f.node, access, combine: Some(f.op) });
    }
    body.operands = operands;
    for s in &body.stores {
        let access = &mut body.accesses[s.access as usize];
        if access.class == AccessClass::Uniform {
            access.class = AccessClass::Strided;
        }
    }
    let (body, kept) = resolve(&body, &vec![None; body.accesses.len()]);
    let row = |k: usize| phase.body.accesses.get(k).is_some_and(|a| a.per_row);
    let told = |(&k, &access): (&usize, &Access)| (sources[k], Access { per_row: row(k), ..access });
    let accesses: Vec<_> = kept.iter().zip(&body.accesses).map(told).collect();
    let mapped = accesses.iter().any(|(_, a)| a.class == AccessClass::Mapped);
    let written: Vec<usize> = body.stores.iter().map(|s| s.access as usize).collect();
    let points = !phase.once && written.iter().all(|&a| matches!(accesses[a].0, Source::Line(_)));
    let written = if points { written } else { vec![] };
    Map {
        engine: Engine::restored(&body, of.operands, choice),
        accesses,
        folds: folds.len(),
        once: phase.once,
        mapped,
        written,
    }
}

/// A launch of an outer-axis reduction.
pub struct OuterReductionLaunch<'a> {
    program: &'a Program,
    layout: &'a Layout<'a>,
    scalars: &'a [u64],
    stores: Stores,
    /// Number of columns (size of the dimension that vectors run along; `columns`), and number of columns per strip
    /// (`width`).
    columns: usize,
    pub width: usize,
    strips: usize,
    /// For each phase, whether 32 points run as one long row, so that values and per-row elements are replicated.
    joined: Vec<bool>,
    values: Vec<usize>,
    repeats: usize,
    buffers: Vec<usize>,
    banks: Vec<usize>,
    /// Offsets, in a thread's memory, of saved copies of the banks, for calls that may have to be repeated.
    saved: Vec<usize>,
    /// Offsets of replicated per-row elements in a thread's memory, by access.
    copies: Vec<Option<usize>>,
    memory: [usize; 2],
}

impl<'a> OuterReductionLaunch<'a> {
    pub fn new(
        program: &'a Program,
        layout: &'a Layout<'a>,
        scalars: &'a [u64],
        stores: Stores,
        threads: usize,
    ) -> OuterReductionLaunch<'a> {
        let phases = &program.phases;
        let columns = *layout.kept.last().expect("a layout has a dimension of rows");
        let mut across = OuterReductionLaunch {
            program,
            layout,
            scalars,
            stores,
            columns,
            width: 0,
            strips: 0,
            joined: vec![],
            values: vec![],
            repeats: 1,
            buffers: vec![],
            banks: vec![],
            saved: vec![],
            copies: vec![None; layout.lines.len()],
            memory: [0; 2],
        };
        across.width = across.strip(threads);
        across.strips = columns.div_ceil(across.width);
        across.joined = program.maps.iter().map(|m| across.joins(m)).collect();
        if across.joined.iter().zip(&program.maps).any(|(&j, m)| j && m.reads_values()) {
            across.repeats = LANES;
        }
        let width = across.width;
        let mut places = ArenaLayout::default();
        across.values = phases.values.iter().map(|d| places.take(width * across.repeats * d.size())).collect();
        across.buffers = phases.buffers.iter().map(|d| places.take(layout.row * width * d.size())).collect();
        let mut own = ArenaLayout::default();
        let folds = program.maps.iter().map(|m| m.folds).max().unwrap_or(0);
        across.banks = (0..folds).map(|_| own.take(LANES * width * 8)).collect();
        if program.maps.iter().any(|m| m.engine.restores()) {
            across.saved = (0..folds).map(|_| own.take(LANES * width * 8)).collect();
        }
        for (map, _) in program.maps.iter().zip(&across.joined).filter(|(_, j)| **j) {
            for i in map.accesses.iter().filter_map(|(s, a)| s.repeated(a)) {
                let bytes = LANES * width * layout.lines[i].unit as usize;
                across.copies[i].get_or_insert_with(|| own.take(bytes));
            }
        }
        across.memory = [places.bytes, own.bytes];
        across
    }

    /// Chooses the number of columns per strip.
    fn strip(&self, threads: usize) -> usize {
        let columns = self.columns;
        let passes = self.program.phases.list.iter().filter(|p| !p.once).count();
        let outer = self.layout.rows() / columns;
        let (narrow, wide) = (TUNABLES.min_strip_columns.size(), TUNABLES.max_strip_columns.size());
        let mut width = if passes <= 1 {
            wide
        } else {
            let body = self.layout.lines.iter().filter(|l| l.point != 0 || l.map.is_some()).map(|l| l.unit as usize);
            let buffers = self.program.phases.buffers.iter().map(|d| d.size());
            let bytes = (body.sum::<usize>() + buffers.sum::<usize>()) * self.layout.row;
            (TUNABLES.strip_bytes.size() / bytes.max(1)).clamp(narrow, wide)
        };
        // A few strips per thread, unless they would become too narrow.
        if threads > 1 {
            let wanted = (2 * threads).div_ceil(outer);
            width = width.min((columns / wanted).max(if passes <= 1 { 4 * narrow } else { narrow }));
        }
        let width = (width / UNIT * UNIT).max(UNIT);
        if columns <= width {
            return columns;
        }
        // Strips of equal width.
        let strips = columns.div_ceil(width);
        columns.div_ceil(strips).next_multiple_of(UNIT)
    }

    /// Whether 32 consecutive points of a phase may run as one long row: for each access, their elements are contiguous
    /// in memory, or can be replicated.
    fn joins(&self, map: &Map) -> bool {
        if map.once {
            return false;
        }
        let last = self.layout.kept.len() - 1;
        let fits = |&(source, access): &(Source, Access)| {
            let Source::Line(i) = source else { return true };
            let line = &self.layout.lines[i];
            match access.class {
                // Gather indices are relative to the access's address, which a copy would change.
                _ if source.repeated(&access).is_some() => line.bounds() == 0,
                AccessClass::Contiguous => line.point == self.columns as i64 * line.unit,
                AccessClass::Uniform => line.point == 0 && (line.kept[last] == 0 || self.columns == 1),
                _ => false,
            }
        };
        self.width == self.columns && TUNABLES.max_joined_columns.admits(self.columns) && map.accesses.iter().all(fits)
    }

    /// Index of the first row of a chunk.
    fn first(&self, chunk: usize) -> usize {
        chunk / self.strips * self.columns + chunk % self.strips * self.width
    }

    /// Sets the argument words of all accesses for the first point of a block; for banks, those of lane 0.
    fn args(&self, map: &Map, chunk: Chunk, block: Block, args: &mut Vec<u64>) {
        let (layout, width) = (self.layout, self.width(chunk.number));
        let (last, first) = (layout.kept.len() - 1, self.first(chunk.number));
        args.clear();
        for &(source, access) in &map.accesses {
            let words = match source {
                Source::Line(i) => {
                    let line = &layout.lines[i];
                    let at = line.start.wrapping_add(layout.to_row(line, first));
                    let step = line.kept[last] / line.unit;
                    [at.wrapping_add(layout.to_point(line, block)) as u64, 0, step as u64, line.bounds()]
                }
                Source::Buffer(i) => {
                    let point = block.run * layout.n + block.start;
                    let at = self.buffers[i] + point * width * access.dtype.size();
                    [chunk.memory as u64 + at as u64, 0, 1, 0]
                }
                Source::Value(i) => [chunk.memory as u64 + self.values[i] as u64, 0, 1, 0],
                Source::Bank(i) => [chunk.own as u64 + self.banks[i] as u64, 0, 1, 0],
            };
            args.extend(words);
        }
        args.extend_from_slice(self.scalars);
    }

    /// Byte stride of an access between points of a run.
    fn point(&self, source: Source, access: Access, width: usize) -> i64 {
        match source {
            Source::Line(i) => self.layout.lines[i].point,
            Source::Buffer(_) => (width * access.dtype.size()) as i64,
            Source::Value(_) | Source::Bank(_) => 0,
        }
    }

    /// Replicates the per-row elements for a joined call, and redirects the argument words of their accesses to the
    /// copies.
    ///
    /// # Safety
    /// The args describe the chunk, and the elements of its columns are readable.
    unsafe fn copy(&self, map: &Map, chunk: Chunk, args: &mut [u64]) {
        let (width, last) = (self.width(chunk.number), self.layout.kept.len() - 1);
        for (a, (source, access)) in map.accesses.iter().enumerate() {
            let Some(i) = source.repeated(access) else { continue };
            let at = self.copies[i].expect("a joined phase has places for what it repeats");
            let (from, line) = (args[4 * a] as *const u8, &self.layout.lines[i]);
            let unit = line.unit as usize;
            // SAFETY: the caller's promise; there is space for `LANES` rows.
            unsafe {
                let to = chunk.own.add(at);
                for column in 0..width {
                    let element = from.offset(column as isize * line.kept[last] as isize);
                    std::ptr::copy_nonoverlapping(element, to.add(column * unit), unit);
                }
                repeat(to, width * unit, LANES);
                args[4 * a] = to as u64;
            }
            args[4 * a + 2] = 1;
        }
    }

    /// Fills the position tables of the mapped accesses for the same point of each column.
    fn tables(&self, map: &Map, chunk: Chunk, point: Option<usize>, args: &mut [u64], tables: &mut Tables) {
        let row = self.layout.row;
        let width = self.width(chunk.number);
        for (a, &(source, access)) in map.accesses.iter().enumerate() {
            if let (Source::Line(i), AccessClass::Mapped) = (source, access.class) {
                let first = point.map(|p| self.first(chunk.number) * row + p);
                let (at, table) = tables.fill(i, &self.layout.lines[i], first, row, width);
                (args[4 * a], args[4 * a + 3]) = (at, table);
            }
        }
    }

    /// Runs a phase on `rows × n` points, with non-temporal stores where they are permitted.
    ///
    /// # Safety
    /// As for [`crate::row_call::Rows::run`].
    unsafe fn call(&self, map: &Map, own: *mut u8, args: &[u64], n: usize, rows: usize) -> Result<(), Error> {
        if map.engine.restores() {
            // SAFETY: the caller's promise.
            return unsafe { self.restoring(map, own, args, n, rows) };
        }
        let in_place = self.stores.aliased && map.engine.rereads_inputs();
        let stream = self.stores.stream && !map.written.is_empty() && may_stream(&map.written, args, rows);
        // SAFETY: the caller's promise; rows with non-temporal stores are aligned.
        unsafe {
            if stream {
                map.engine.run_streaming(args, n, rows)?;
            } else {
                map.engine.run(args, n, rows, in_place)?;
            }
        }
        Ok(())
    }

    /// Like [`OuterReductionLaunch::call`]; restores the banks before a second run.
    unsafe fn restoring(&self, map: &Map, own: *mut u8, args: &[u64], n: usize, rows: usize) -> Result<(), Error> {
        // Banks updated in this call: `n` elements of each.
        let banks = map.accesses.iter().enumerate().filter_map(|(a, &(source, access))| match source {
            Source::Bank(i) => Some((args[4 * a] as *mut u8, self.saved[i], n * access.dtype.size())),
            _ => None,
        });
        // SAFETY: banks and their saved copies hold 32 rows of the strip's width, which no call exceeds.
        unsafe {
            banks.clone().for_each(|(at, saved, bytes)| std::ptr::copy_nonoverlapping(at, own.add(saved), bytes));
            let restore = || banks.for_each(|(at, saved, n)| std::ptr::copy_nonoverlapping(own.add(saved), at, n));
            map.engine.run_restoring(args, n, rows, self.stores.aliased, restore)?;
        }
        Ok(())
    }

    /// Runs the points of a block; the banks must be initialised. The points of a lane (32 apart) are one call; so is a
    /// block of a point a lane.
    unsafe fn lanes(
        &self,
        map: &Map,
        joined: bool,
        block: Block,
        chunk: Chunk,
        args: &mut Vec<u64>,
        tables: &mut Tables,
    ) -> Result<(), Error> {
        let width = self.width(chunk.number);
        self.args(map, chunk, block, args);
        if joined {
            // SAFETY: the memory of the thread has space for 32 rows of each.
            unsafe { self.copy(map, chunk, args) };
        }
        let points: Vec<i64> = map.accesses.iter().map(|&(s, a)| self.point(s, a, width)).collect();
        let bank = |a: usize| matches!(map.accesses[a].0, Source::Bank(_));
        let starts: Vec<i64> = (0..points.len()).map(|a| args[4 * a] as i64).collect();
        // Word 0 at a point of the block; for banks, at the point's lane.
        let at = |a: usize, point: usize, pitch: usize| {
            let moved = if bank(a) {
                (point % LANES * pitch * map.accesses[a].1.dtype.size()) as i64
            } else {
                points[a].wrapping_mul(point as i64)
            };
            starts[a].wrapping_add(moved) as u64
        };
        // Steps between the rows of a call: so many points, and from lane to lane or none in banks.
        let step = |args: &mut [u64], points_each: i64, next_lane: bool| {
            for a in 0..points.len() {
                args[4 * a + 1] = match bank(a) {
                    true if next_lane => (width * map.accesses[a].1.dtype.size()) as u64,
                    true => 0,
                    false => points[a].wrapping_mul(points_each) as u64,
                };
            }
        };
        // SAFETY: every access of the block is inside its operand; values, banks and buffers have space for the width
        // of the strip.
        unsafe {
            if map.mapped {
                for point in 0..block.len {
                    (0..points.len()).for_each(|a| args[4 * a] = at(a, point, width));
                    let place = block.run * self.layout.n + block.start + point;
                    self.tables(map, chunk, Some(place), args, tables);
                    self.call(map, chunk.own, args, width, 1)?;
                }
                return Ok(());
            }
            if joined {
                let (groups, rest) = (block.len / LANES, block.len % LANES);
                if groups > 0 {
                    step(args, LANES as i64, false);
                    self.call(map, chunk.own, args, LANES * width, groups)?;
                }
                if rest > 0 {
                    (0..points.len()).for_each(|a| args[4 * a] = at(a, groups * LANES, width));
                    self.call(map, chunk.own, args, rest * width, 1)?;
                }
                return Ok(());
            }
            if map.folds == 0 {
                step(args, 1, false);
                return self.call(map, chunk.own, args, width, block.len);
            }
            if block.len <= LANES && !map.engine.restores() {
                // A point a lane.
                step(args, 1, true);
                return self.call(map, chunk.own, args, width, block.len);
            }
            step(args, LANES as i64, false);
            for lane in 0..LANES.min(block.len) {
                (0..points.len()).for_each(|a| args[4 * a] = at(a, lane, width));
                self.call(map, chunk.own, args, width, (block.len - lane).div_ceil(LANES))?;
            }
        }
        Ok(())
    }
}

impl Map {
    fn reads_values(&self) -> bool {
        self.accesses.iter().any(|(s, _)| matches!(s, Source::Value(_)))
    }
}

impl Kernel for OuterReductionLaunch<'_> {
    fn phases(&self) -> &Phases {
        &self.program.phases
    }

    fn layout(&self) -> &Layout<'_> {
        self.layout
    }

    fn chunks(&self) -> usize {
        self.layout.rows() / self.columns * self.strips
    }

    fn width(&self, chunk: usize) -> usize {
        self.width.min(self.columns - chunk % self.strips * self.width)
    }

    fn widest(&self) -> usize {
        self.width
    }

    fn memory(&self) -> [usize; 2] {
        self.memory
    }

    fn buffer(&self, number: usize) -> usize {
        self.buffers[number]
    }

    fn combines(&self) -> &Combines {
        &self.program.combines
    }

    unsafe fn block(
        &self,
        phase: usize,
        block: Block,
        chunk: Chunk,
        scratch: (&mut Vec<u64>, &mut Tables),
        out: *mut u64,
    ) -> Result<(), Error> {
        let map = &self.program.maps[phase];
        let width = self.width(chunk.number);
        let body = &self.program.phases.list[phase].body;
        // Lanes without points hold the identity, and combining with it changes nothing: they are skipped.
        let used = LANES.min(block.len);
        // SAFETY: a bank has space for all lanes of the strip's width, `out` for as many results per fold; the rest is
        // the caller's promise.
        unsafe {
            for (fold, &bank) in body.folds.iter().zip(&self.banks) {
                fold::identities(fold.op, body.dtype(fold.node), chunk.own.add(bank), used * width);
            }
            self.lanes(map, self.joined[phase], block, chunk, scratch.0, scratch.1)?;
            for (f, (fold, &bank)) in body.folds.iter().zip(&self.banks).enumerate() {
                let (bank, dtype) = (chunk.own.add(bank), body.dtype(fold.node));
                let pitch = width * dtype.size();
                let mut half = LANES / 2;
                while half > 0 {
                    let pairs = half.min(used.saturating_sub(half));
                    fold::combine(fold.op, dtype, bank, bank.add(half * pitch), pairs * width);
                    half /= 2;
                }
                std::ptr::copy_nonoverlapping(bank, out.add(f * self.width).cast(), pitch);
            }
        }
        Ok(())
    }

    unsafe fn once(&self, phase: usize, chunk: Chunk, scratch: (&mut Vec<u64>, &mut Tables)) -> Result<(), Error> {
        let map = &self.program.maps[phase];
        let (args, tables) = scratch;
        let width = self.width(chunk.number);
        self.args(map, chunk, Block { run: 0, start: 0, len: 1 }, args);
        if map.mapped {
            self.tables(map, chunk, (self.layout.row > 0).then_some(0), args, tables);
        }
        // SAFETY: the accesses are per row, one element per column, inside their operands; values have space for the
        // strip.
        unsafe {
            self.call(map, chunk.own, args, width, 1)?;
            for set in &self.program.phases.list[phase].body.sets {
                let slot = set.slot as usize;
                let bytes = width * self.program.phases.values[slot].size();
                repeat(chunk.memory.add(self.values[slot]), bytes, self.repeats);
            }
        }
        Ok(())
    }

    unsafe fn set(&self, slot: u16, chunk: Chunk, from: *const u8) {
        let width = self.width(chunk.number);
        let slot = slot as usize;
        // SAFETY: the value has space for the strip; `from` holds as much.
        unsafe {
            let to = chunk.memory.add(self.values[slot]);
            let bytes = width * self.program.phases.values[slot].size();
            std::ptr::copy_nonoverlapping(from, to, bytes);
            repeat(to, bytes, self.repeats);
        }
    }
}

/// Replicates the first row, of `bytes` bytes, to `rows` rows.
///
/// # Safety
/// The first row was written, and there is space for all.
unsafe fn repeat(first: *mut u8, bytes: usize, rows: usize) {
    for i in 1..rows {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(first, first.add(i * bytes), bytes) };
    }
}
