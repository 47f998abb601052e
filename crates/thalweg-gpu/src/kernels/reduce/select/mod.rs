//! Lowering of row kernels: how rows are divided among blocks and threads.
//!
//! In: a body, its orientation, a geometry. Out: stages. There is one kernel where every multiprocessor gets whole
//! rows; where rows are too few for that, each pass is a kernel whose blocks divide rows. Strict kernels run in order.
//! A fold over other dimensions than the row's, combined with memory, is split off: its elements are stored, and a
//! kernel of its own folds them.

mod by_blocks;
mod chained;
mod pairs;
mod tiles;

use crate::body::{Wanted, gathers, wanted};
use crate::kernels::Skeleton;
use crate::kernels::combine::CombineClass;
use crate::kernels::combine::select::RowCombine;
use crate::kernels::plan::{Draft, Plan};
use crate::kernels::reduce;
use crate::kernels::reduce::params::{RowsArguments, RowsCounts};
use crate::kernels::reduce::{
    Online, RowSplit, RowStrategy, RowsClass, Stage, combined_values, runs_after_last_pass, state_bytes,
};
use crate::kernels::scan::RowScan;
use crate::kernels::sort;
use crate::operands::{BodyArguments, SCRATCH, needs};
use crate::params::RuntimeArgument;
use crate::space::{Addressing, Inner, Space};
use crate::target::{COUNTERS, Target};
use crate::traffic::{self, Domain};
use crate::tunable::TUNABLES;
use thalweg_ir::{MAX_RANK, ScanOp};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Along, Body, BodyBuilder, BufferCombined, Node, Orientation, Phases,
    RowGeometry, expand, reciprocals, widen, with_lower_moments,
};
use thalweg_runtime::Error;

/// Threads per row, and vectors per thread, for rows of any other length: few pairs, since each is a source.
const MASKED: [(usize, usize); 5] = [(4, 4), (32, 4), (128, 4), (512, 4), (1024, 4)];
/// Bytes of a cache line.
const LINE: usize = 128;
/// Maximum number of registers of a thread.
const MAX_THREAD_REGISTERS: usize = 255;

/// Work of a thread in a pass over a held row, for each of its points.
struct PassWork {
    /// Number of 32-bit registers of the elements that are loaded before the computation begins.
    loads: usize,
    /// Number of operations.
    operations: usize,
}

/// Adds the launches of a row kernel.
///
/// # Errors
/// [`Error::Compile`] if the row kernel has no source.
pub fn add(
    plan: &mut Plan,
    body: &Body,
    orientation: Orientation,
    geometry: &RowGeometry,
    target: &dyn Target,
) -> Result<(), Error> {
    if let Some(store) = body.stores.iter().position(|s| s.combine.is_some()) {
        return split_combining_store(plan, body, store, orientation, geometry, target);
    }
    let body = &expand(&reciprocals(&widen(body)), &|op, dtype| target.is_native(op, dtype));
    let strict = body.strict;
    let across = orientation == Orientation::OuterAxis && !strict;
    let lanes = if strict { 1 } else { 8 };
    let tiled = if across { None } else { tiles::tiled(body, geometry) };
    let order = tiled.as_ref().unwrap_or(geometry);
    let laid_out = |lanes| {
        let accesses = (&body.accesses[..], &order.accesses[..]);
        Space::new(&order.extents, geometry.kept, across, accesses, lanes)
    };
    let mut space = laid_out(lanes);
    // Decomposing the index of a point into several coordinates takes longer than reading the point: it is done once
    // for two points, where rows are long enough.
    let alone = lanes > 1 && !across && space.class.lanes == 1 && space.class.row > 1;
    if alone && TUNABLES.min_two_lane_row.reached_by(space.row()) {
        space = laid_out(2);
    }
    needs(&mut plan.needs, body, &geometry.accesses);
    plan.checked |= gathers(body);
    let spread = Spread { body, geometry, space: &space, target, online: None };
    match spread.with_lower_moments() {
        Some(more) => Spread { body: &more, online: Some(spread.own_folds()), ..spread }.launches(plan),
        None => spread.launches(plan),
    }
    Ok(())
}

/// Whether this many 32-bit registers of a thread may hold elements of a row. With `half`, only half as many may: for
/// blocks of more than 512 threads, or where several blocks share a row.
fn is_held(registers: usize, half: bool) -> bool {
    TUNABLES.max_held_registers.admits(if half { 2 * registers } else { registers })
}

struct Spread<'a> {
    body: &'a Body,
    geometry: &'a RowGeometry,
    space: &'a Space,
    target: &'a dyn Target,
    /// Fusion of two passes into an online reduction, if any.
    online: Option<Online>,
}

impl Spread<'_> {
    fn launches(&self, plan: &mut Plan) {
        let strategy = self.strategy();
        let body = self.body;
        let one = if body.scans.is_empty() { !self.is_split(strategy) } else { self.scans_are_held(strategy) };
        if !one || !body.combined.is_empty() {
            return self.stages(plan, strategy);
        }
        let class = self.class(strategy, None);
        let held = matches!(strategy, RowStrategy::Registers { .. } | RowStrategy::RegistersOfBlocks { .. });
        let phases = class.phases(self.body);
        let together = class.passes(self.body, &phases).map(|o| o.phases);
        plan.moved += traffic::whole(&phases.list, Domain::of(self.geometry), held, together);
        self.draft(plan, class, self.parts(strategy), &[], (&[], &[]));
    }

    fn class(&self, strategy: RowStrategy, stage: Option<Stage>) -> RowsClass {
        RowsClass { space: self.space.class.clone(), strategy, stage, online: self.online }
    }

    /// The body with the lower moments that rescaling identities need, where rows are along the inner axis, would be
    /// read in every pass, and two of the passes can be fused.
    fn with_lower_moments(&self) -> Option<Body> {
        let strategy = self.strategy();
        let along = matches!(strategy, RowStrategy::Registers { .. } | RowStrategy::Reread { .. });
        let again = matches!(strategy, RowStrategy::Reread { .. }) || along && self.is_split(strategy);
        let exchange = self.target.chip().capabilities.exchange;
        if !exchange
            || !again
            || self.body.folds.len() < 2
            || !self.body.scans.is_empty()
            || !self.body.combined.is_empty()
        {
            return None;
        }
        let more = expand(&with_lower_moments(self.body), &|op, dtype| self.target.is_native(op, dtype));
        let class = RowsClass { online: Some(self.own_folds()), ..self.class(self.reread(), None) };
        class.passes(&more, &class.phases(&more)).is_some().then_some(more)
    }

    /// Online reduction of the body as given: all folds are its own, without added folds for lower moments.
    fn own_folds(&self) -> Online {
        Online { own: self.body.folds.len() as u16, tiles: TUNABLES.shifted_tiles.size() as u8 }
    }

    /// Strategy in which each pass reads the rows from memory.
    fn reread(&self) -> RowStrategy {
        RowStrategy::Reread { group: 1 << TUNABLES.reread_threads_log.size() }
    }

    fn lanes(&self) -> usize {
        self.space.class.lanes as usize
    }

    /// Number of rows, and of points per row. One of them is in vectors: rows in outer-axis kernels, else points.
    fn counts(&self) -> (usize, usize) {
        let (rows, row) = (self.space.rows(), self.space.row());
        if self.space.class.across { (rows / self.lanes(), row) } else { (rows, row / self.lanes()) }
    }

    fn strategy(&self) -> RowStrategy {
        let (rows, n) = self.counts();
        if self.body.strict {
            return RowStrategy::Ordered;
        }
        if self.space.class.across {
            if let Some(held) = self.by_blocks() {
                return held;
            }
            // Few rows are split among many blocks, whose last one combines the partial results of all. With narrow
            // blocks that work is divided among more of them, and they still read whole cache lines.
            let most = if TUNABLES.min_wide_rows.reached_by(rows) { 32 } else { self.line() };
            let wide = rows.next_power_of_two().clamp(1, most);
            // Powers of four, so that changing lengths compile less often.
            let deep = n.next_power_of_two();
            let deep = (deep << (deep.trailing_zeros() % 2)).clamp(1, 256 / wide);
            let wide = rows.next_power_of_two().clamp(1, 256 / deep);
            return RowStrategy::OuterAxis { wide: wide as u16, deep: deep as u16 };
        }
        self.pairs().or_else(|| self.held(n)).unwrap_or_else(|| self.reread())
    }

    /// Number of vectors of rows in a cache line, for the narrowest operand that is read.
    fn line(&self) -> usize {
        let vectors =
            self.space.class.addressing.iter().zip(&self.body.accesses).filter_map(|(way, access)| match way {
                Addressing::Strided { inner: Inner::Unit, .. } if access.operand.is_some() => Some(access.dtype.size()),
                _ => None,
            });
        let bytes = self.lanes() * vectors.min().unwrap_or(LINE);
        (LINE / bytes).next_power_of_two().clamp(4, 32)
    }

    /// Strategy that holds rows of `n` vectors in registers; `None` if the registers do not suffice.
    ///
    /// Four vectors a thread: enough loads in flight, and registers left for the computation. If a group of threads
    /// covers a long row exactly, the source is specialized for this group. All other lengths share few sources: group
    /// sizes are some powers of two apart, and the last vectors are masked. So a length that changes from call to call
    /// (a decoder's cache) compiles next to nothing.
    fn held(&self, n: usize) -> Option<RowStrategy> {
        let weight = self.weight() * self.lanes();
        let pass = self.pass_work();
        let fits = |group: usize, steps: usize| {
            is_held(steps * weight, group > 512)
                && self.is_unrolled(&pass, steps)
                && self.is_loaded(&pass, steps, group)
        };
        let of = |group: usize, steps: usize, exact| RowStrategy::Registers {
            group: group as u16,
            steps: steps as u8,
            exact,
        };
        let group = n.div_ceil(4).next_power_of_two().clamp(32, 1024);
        let exact = (0..6).map(|s| (group << s).min(1024)).find(|&g| n.is_multiple_of(g) && fits(g, n / g));
        if let Some(group) = exact.filter(|_| TUNABLES.min_exact_row.reached_by(n * self.lanes())) {
            return Some(of(group, n / group, true));
        }
        MASKED.into_iter().filter(|&(group, steps)| group * steps >= n || group == 1024).find_map(|(group, most)| {
            let least = n.div_ceil(group).next_power_of_two();
            let steps = if fits(group, most.max(least)) { most.max(least) } else { least };
            (steps <= u8::MAX as usize && fits(group, steps)).then(|| of(group, steps, false))
        })
    }

    /// Phases of the body where a thread holds the elements of its row.
    fn held_phases(&self) -> Phases {
        let strategy = RowStrategy::Registers { group: 32, steps: 1, exact: false };
        self.class(strategy, None).phases(self.body)
    }

    /// Number of 32-bit registers that a point occupies from its first pass to its last.
    fn weight(&self) -> usize {
        let phases = self.held_phases();
        let passes: Vec<_> = phases.list.iter().filter(|p| !p.once).map(|p| wanted(&p.body)).collect();
        let loads = |k: &usize| passes.iter().filter(|w| w[*k].load).count() > 1;
        let cached = (0..self.body.accesses.len()).filter(loads).map(|k| self.body.accesses[k].dtype.size());
        let words = cached.chain(phases.buffers.iter().map(|d| d.size().max(4))).map(|b| b.max(2).div_ceil(4));
        words.sum::<usize>().max(1)
    }

    /// Work of a pass over a held row, the most of all passes.
    fn pass_work(&self) -> PassWork {
        let phases = self.held_phases();
        let accesses = &self.body.accesses;
        let bodies: Vec<&Body> = phases.list.iter().filter(|p| !p.once).map(|p| &p.body).collect();
        let wants: Vec<_> = bodies.iter().map(|body| wanted(body)).collect();
        let words = |k: usize| accesses[k].dtype.size().div_ceil(4);
        let points = || (0..accesses.len()).filter(|&k| accesses[k].operand.is_some() && !accesses[k].per_row);
        // Accesses of several passes are held all the time.
        let is_held = |k: &usize| wants.iter().filter(|w| w[*k].load).count() > 1;
        let held: usize = points().filter(is_held).map(words).sum();
        let own = |w: &Vec<Wanted>| points().filter(|k| w[*k].load && !is_held(k)).map(words).sum::<usize>();
        let loads = held + wants.iter().map(own).max().unwrap_or(0);
        let operations = bodies.iter().map(|body| reduce::operations(body, &self.space.class)).max().unwrap_or(0);
        PassWork { loads, operations }
    }

    /// Whether passes may be unrolled over `steps` vectors.
    fn is_unrolled(&self, pass: &PassWork, steps: usize) -> bool {
        TUNABLES.max_unrolled_operations.admits(pass.operations * self.lanes() * steps)
    }

    /// Whether what passes load of `steps` vectors ahead of its use fits the registers of a thread of a block of
    /// `threads`, beside a quarter for the computation.
    fn is_loaded(&self, pass: &PassWork, steps: usize, threads: usize) -> bool {
        let registers = (self.target.chip().registers as usize / threads).min(MAX_THREAD_REGISTERS);
        pass.loads * self.lanes() * steps <= registers * 3 / 4
    }

    /// Whether rows are so few that blocks have to share them, and so long that each gets a chunk.
    fn is_split(&self, strategy: RowStrategy) -> bool {
        let (rows, n) = self.counts();
        let is_large = || !TUNABLES.max_unsplit_elements.admits(self.space.rows() * self.space.row());
        let busy = self.target.chip().multiprocessors as usize;
        let blocks = rows.div_ceil(strategy.rows() as usize);
        let wanted = match strategy {
            RowStrategy::Pairwise { .. } | RowStrategy::Ordered | RowStrategy::RegistersOfBlocks { .. } => false,
            RowStrategy::OuterAxis { deep, .. } => {
                is_large() && blocks < 2 * busy && TUNABLES.min_split_points.reached_by(n / deep as usize)
            }
            _ => is_large() && rows < busy && !TUNABLES.max_unsplit_row.admits(n),
        };
        wanted && self.chunks(self.shared(strategy), self.online.is_some()) > 1
    }

    /// Strategy for split rows, in which all threads of a block process a chunk of one row.
    fn shared(&self, strategy: RowStrategy) -> RowStrategy {
        match strategy {
            RowStrategy::Registers { .. } | RowStrategy::Reread { .. } => self.reread(),
            other => other,
        }
    }

    /// Number of chunks of a row, such that all blocks run at once: a further block would run alone at the end. Blocks
    /// that hold the tiles of an online reduction take twice the registers, so fewer run at once.
    fn chunks(&self, strategy: RowStrategy, online: bool) -> usize {
        let (rows, n) = self.counts();
        let tiles = rows.div_ceil(strategy.rows() as usize).max(1);
        let busy = if online { 2 } else { 6 } * self.target.chip().multiprocessors as usize;
        let least = match strategy {
            RowStrategy::OuterAxis { deep, .. } => TUNABLES.min_chunk_points.size() * deep as usize,
            _ => TUNABLES.min_chunk_vectors.size(),
        };
        (busy / tiles).min(n / least).clamp(1, (COUNTERS / tiles).max(1))
    }

    /// Launch of a class, before its kernel is compiled. Regions of scratch memory: `folds` for the results and partial
    /// results of folds, `buffers` for buffers of row elements, `states` for the states of online folds.
    fn draft(
        &self,
        plan: &mut Plan,
        class: RowsClass,
        chunks: usize,
        folds: &[u16],
        (buffers, states): (&[u16], &[u16]),
    ) {
        let phases = class.phases(self.body);
        let counts = RowsCounts::new(&class, self.body, &phases);
        let (mut rows, n) = self.counts();
        let runs = &self.geometry.extents[self.geometry.kept..];
        let last = runs.last().copied().unwrap_or(1);
        let count: usize = runs.iter().rev().skip(1).product();
        let mut chunks_or_extent = chunks;
        if let RowStrategy::Pairwise { rows: own, .. } = class.strategy {
            let [first, second] = [0, 1].map(|d| self.space.extents[d]);
            rows = first.div_ceil(own.into()) * second;
            chunks_or_extent = first;
        }
        let strategy = class.strategy;
        let tiles = rows.div_ceil(strategy.rows() as usize);
        let counters_or_exchange = match class.tile() {
            Some(_) => Some(RuntimeArgument::Exchange(chained::exchange_bytes(tiles, chunks))),
            None if class.is_held_by_blocks() => {
                Some(RuntimeArgument::Exchange(self.exchange_bytes(strategy, tiles * chunks)))
            }
            None => class.stage.map(|_| RuntimeArgument::Counters),
        };
        let regions = |all: &[u16], count: usize| -> Vec<Option<RuntimeArgument>> {
            (0..count).map(|i| all.get(i).map(|&region| RuntimeArgument::Scratch(region, 0))).collect()
        };
        let (values, partials) = folds.split_at(counts.values.min(folds.len()));
        let arguments = RowsArguments {
            rows,
            points: n,
            chunks_or_extent,
            chunk_points: class.tile().unwrap_or(n.div_ceil(chunks.max(1)).max(1)),
            runs_or_tiles: if class.is_held_by_blocks() { tiles } else { count },
            run_points: last,
            body: BodyArguments::new(self.body, self.space),
            fault: gathers(self.body),
            values: regions(values, counts.values),
            partials: regions(partials, counts.partials),
            buffers: regions(buffers, counts.buffers),
            counters_or_exchange,
            states: regions(states, counts.states),
        };
        let arguments = arguments.fill(&class, self.body, &counts);
        let of_row = if class.split() == RowSplit::Combined { 1 } else { chunks };
        let grid = [u32::try_from(tiles * of_row).expect("a launch has fewer than 2^31 blocks"), 1, 1];
        let kernel = Skeleton::Rows(self.body.clone(), class);
        plan.stages.push(Draft::new(kernel, grid, strategy.block(), 0, arguments));
    }

    /// Adds a launch for each pass, and launches of the scans between them.
    fn stages(&self, plan: &mut Plan, strategy: RowStrategy) {
        let split = self.is_split(strategy);
        let chained = self.chained(strategy);
        // Where blocks divide a row, all threads of a block belong to it.
        let strategy = match strategy {
            strategy if split => self.shared(strategy),
            RowStrategy::Registers { group, .. } if group <= 32 => RowStrategy::Reread { group },
            RowStrategy::Registers { .. } => RowStrategy::Reread { group: 256 },
            other => other,
        };
        let class = |stage: Option<Stage>| self.class(strategy, stage);
        let stage = |phase: usize, split| Some(Stage { phase: phase as u8, split, chained: false });
        let whole_or_split = if split { RowSplit::Exchanged } else { RowSplit::Whole };
        let first = class(stage(0, whole_or_split));
        let phases = first.phases(self.body);
        let online = first.passes(self.body, &phases);
        let together = online.as_ref().map(|o| o.phases.clone());
        let (_, n) = self.counts();
        let chunks = if split { self.chunks(strategy, online.is_some()) } else { 1 };
        let (alone, tail) = phases.list.split_at(chained.map_or(phases.list.len(), |l| l.phase));
        let more = !tail.is_empty() || (0..phases.list.len()).any(|n| runs_after_last_pass(&phases, n));
        plan.moved += traffic::staged(alone, more, Domain::of(self.geometry), chunks, together.clone());
        plan.moved += traffic::whole(tail, Domain::of(self.geometry), true, None);
        let per_row = self.space.rows();
        let mut region = |bytes: usize| {
            plan.scratch.push(bytes.max(64));
            plan.scratch.len() as u16 - 1
        };
        let size = |f: &thalweg_kernel::Fold| self.body.dtype(f.node).size();
        let mut folds: Vec<u16> = self.body.folds.iter().map(|f| region(per_row * size(f))).collect();
        let values = &phases.values[folds.len()..][..combined_values(self.body)];
        folds.extend(values.iter().map(|d| region(per_row * d.size())));
        let parts: Vec<u16> = self.body.folds.iter().map(|f| region(per_row * chunks * size(f))).collect();
        folds.extend(parts);
        let points = per_row * self.space.row();
        let in_memory = if chained.is_some() { &[] } else { &phases.buffers[..] };
        let buffers: Vec<u16> = in_memory.iter().map(|d| region(points * d.size())).collect();
        let states: Vec<usize> = online.as_ref().map_or(vec![], state_bytes);
        if split {
            plan.moved += traffic::scratch((per_row * chunks * states.iter().sum::<usize>()) as u64);
        }
        let states: Vec<u16> = states.into_iter().map(|bytes| region(per_row * chunks * bytes)).collect();
        // Two fused passes are one launch, at the position of the second one.
        let within = |number: usize| together.as_ref().is_some_and(|t| t.contains(&number) && number + 1 != t.end);
        for (number, phase) in alone.iter().enumerate().filter(|(n, p)| !p.once && !within(*n)) {
            let exchange = self.target.chip().capabilities.exchange;
            let launches: &[RowSplit] = match split && !exchange && !phase.body.folds.is_empty() {
                true => &[RowSplit::Stored, RowSplit::Combined],
                false => &[whole_or_split],
            };
            for &split in launches {
                self.draft(plan, class(stage(number, split)), chunks, &folds, (&buffers, &states));
            }
            for scan in &phase.scans {
                self.scan(plan, &phases, scan, &buffers);
            }
            for c in &phase.combined {
                self.combined(plan, c, &buffers, &folds);
            }
        }
        if let Some(chained) = chained {
            let class = self.chained_class(chained);
            let chunks = n.div_ceil(class.tile().expect("it has tiles"));
            return self.draft(plan, class, chunks, &folds, (&[], &[]));
        }
        for (number, phase) in phases.list.iter().enumerate().filter(|(n, _)| runs_after_last_pass(&phases, *n)) {
            debug_assert!(phase.once, "what runs behind the last pass runs once a row");
            self.draft(plan, class(stage(number, RowSplit::Whole)), 1, &folds, (&buffers, &[]));
        }
        // A row with once-a-row phases but no pass: it has no points to store.
        if phases.list.iter().all(|p| p.once) {
            self.draft(plan, class(None), 1, &[], (&[], &[]));
        }
    }

    fn combined(&self, plan: &mut Plan, c: &BufferCombined, buffers: &[u16], values: &[u16]) {
        let (rows, row) = (self.space.rows(), self.space.row());
        let class = CombineClass { of: c.of, along: c.along };
        let components = class.components();
        RowCombine {
            class,
            size: [rows, row],
            steps: if self.space.class.across { [1, rows] } else { [row, 1] },
            buffers: &buffers[c.buffers as usize..][..components],
            results: if c.along == Along::Fold { &values[c.slot as usize..][..components] } else { &[] },
        }
        .add(plan);
    }

    fn scan(&self, plan: &mut Plan, phases: &Phases, scan: &thalweg_kernel::BufferScan, buffers: &[u16]) {
        let (rows, row) = (self.space.rows(), self.space.row());
        // In an outer-axis kernel buffers are stored point by point, so that neighbours are rows.
        let [row_step, point_step] = if self.space.class.across { [1, rows] } else { [row, 1] };
        let scan = RowScan {
            op: scan.scan.op,
            reverse: scan.scan.reverse,
            dtype: phases.buffers[scan.from as usize],
            rows,
            points: row,
            row_step,
            point_step,
            from: buffers[scan.from as usize],
            to: buffers[scan.to as usize],
        };
        match scan.op {
            ScanOp::Sort | ScanOp::Argsort => sort::select::add(scan, plan, self.target),
            _ => scan.add(plan, self.target),
        }
    }
}

/// Splits off the store of index `store`, which combines with memory: one kernel stores the elements to scratch memory,
/// another folds them.
fn split_combining_store(
    plan: &mut Plan,
    body: &Body,
    store: usize,
    orientation: Orientation,
    geometry: &RowGeometry,
    target: &dyn Target,
) -> Result<(), Error> {
    let taken = body.stores[store];
    let op = taken.combine.expect("it is one that combines");
    let was = body.accesses[taken.access as usize];
    let dtype = body.dtype(taken.node);
    // Row-major strides of the scratch buffer.
    let mut strides = [0isize; MAX_RANK];
    let mut step = 1;
    for d in (0..geometry.extents.len()).rev() {
        strides[d] = step;
        step *= geometry.extents[d] as isize;
    }
    let points = step as usize;
    plan.scratch.push((points * dtype.size()).max(64));
    let scratch = plan.scratch.len() as u16 - 1;
    let operand = SCRATCH + scratch;
    let place = |base| AccessGeometry { base, strides, map: None, reach: None, distinct: points };
    let class = AccessClass::Strided;
    let mut rest = body.clone();
    let mut own = geometry.clone();
    rest.accesses.push(Access { operand: Some(operand), dtype, class, per_row: false });
    own.accesses.push(place(0));
    rest.stores[store] =
        thalweg_kernel::Store { node: taken.node, access: rest.accesses.len() as u16 - 1, combine: None };
    add(plan, &rest, orientation, &own, target)?;
    // The rows of this kernel are the points of the other kernel's rows.
    let (kept, row) = geometry.extents.split_at(geometry.kept);
    let transposed: Vec<usize> = row.iter().chain(kept).copied().collect();
    let turn = |from: &[isize; MAX_RANK]| {
        let mut to = [0; MAX_RANK];
        to[..row.len()].copy_from_slice(&from[kept.len()..kept.len() + row.len()]);
        to[row.len()..transposed.len()].copy_from_slice(&from[..kept.len()]);
        to
    };
    let mut b = BodyBuilder::new(body.strict);
    let from = b.access(Access { operand: Some(operand), dtype, class, per_row: false });
    let to = b.access(Access { class, per_row: true, ..was });
    let x = b.node(Node::Load { access: from });
    let folded = b.fold(op, x);
    b.store(folded, to);
    let to = &geometry.accesses[taken.access as usize];
    let accesses = vec![
        AccessGeometry { strides: turn(&strides), ..place(0) },
        AccessGeometry { strides: turn(&to.strides), ..to.clone() },
    ];
    let columns = RowGeometry { extents: transposed, kept: row.len(), accesses };
    add(plan, &b.finish(), Orientation::OuterAxis, &columns, target)
}
