//! Row kernels: bodies with folds (reductions) and scans over the rows of their domain.
//!
//! In: a body with an orientation, compiled once; then geometries, operands, scalars. Out: launches.
//! [`thalweg_kernel::phases`] defines the phases of a body, [`thalweg_kernel::order`] the order in which elements are
//! combined. Both implementations - `inner_axis` and `outer_axis` reductions - follow them,
//! so they give the same bits, on any number of threads.
//!
//! As for maps, every access is checked against its operand before anything runs.

mod arena;
mod combined;
mod fold;
mod inner_axis;
mod inner_axis_call;
mod layout;
mod online;
mod outer_axis;
mod panels;
mod passes;
mod plain_scan;
mod scans;
mod shared_pass;
mod tables;
mod traffic;

use crate::check::{self, Points};
use crate::engine::{Choice, InnerReductionEngine, STREAM_ALIGN};
use crate::launch::estimate_ns;
use crate::memory;
use crate::prepare::prepare;
use crate::repack::Repacked;
use crate::scan;
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use combined::Combines;
use inner_axis::InnerReductionLaunch;
use layout::Layout;
use online::OnlineProgram;
use outer_axis::OuterReductionLaunch;
use plain_scan::PlainScan;
use std::sync::{Arc, OnceLock};
use thalweg_ir::MAX_RANK;
use thalweg_kernel::{AccessClass, Body, Geometry, Moved, OnlinePasses, Orientation, Phases, RowGeometry, phases};
use thalweg_runtime::{Buffer, Error, Program, ProgramInfo};

pub use passes::Failure;

/// A compiled row kernel.
pub struct RowsProgram {
    body: Body,
    choice: Choice,
    threads: Arc<Threads>,
    /// Arithmetic cost of a point, including recomputation in later phases.
    cost: u64,
    way: RowEngines,
    repacked: Repacked<RowsProgram>,
}

/// A variant of a program, compiled on first use; `None` inside if the variant does not exist.
type Later<T> = OnceLock<Option<Box<T>>>;

enum RowEngines {
    Inner {
        kept: Box<InnerReductionEngine>,
        combines: Combines,
        /// Variant that recomputes values in each pass instead of saving them in buffers, for long rows.
        bare: Later<InnerReductionEngine>,
        /// Variant in which rescaling identities (online reduction) let two passes read a row once, for rows beyond the
        /// caches.
        online: Later<OnlineProgram>,
    },
    Outer {
        kept: Box<outer_axis::Program>,
        /// Variant that recomputes values in each pass instead of saving them in buffers.
        bare: Later<outer_axis::Program>,
    },
}

impl RowsProgram {
    /// Compiles a row body for an orientation and an engine.
    pub fn new(body: &Body, orientation: Orientation, choice: Choice, threads: Arc<Threads>) -> RowsProgram {
        let phases = phases(&prepare(body), true);
        let combined: u64 = body.combined.iter().map(|c| c.cost()).sum();
        let cost = combined + phases.list.iter().filter(|p| !p.once).map(|p| p.body.cost()).sum::<u64>();
        let way = match orientation {
            Orientation::InnerAxis => {
                let kept = Box::new(InnerReductionEngine::new(body, choice, true));
                let combines = Combines::new(body, choice);
                RowEngines::Inner { kept, combines, bare: OnceLock::new(), online: OnceLock::new() }
            }
            Orientation::OuterAxis => {
                let kept = Box::new(outer_axis::Program::new(phases, body, choice));
                RowEngines::Outer { kept, bare: OnceLock::new() }
            }
        };
        RowsProgram { body: body.clone(), choice, threads, cost, way, repacked: Repacked::new(body) }
    }

    fn orientation(&self) -> Orientation {
        match self.way {
            RowEngines::Inner { .. } => Orientation::InnerAxis,
            RowEngines::Outer { .. } => Orientation::OuterAxis,
        }
    }

    /// Selects the engine for rows of `row` points: with buffers, or, for long rows, without.
    fn inner_engine<'a>(
        &'a self,
        kept: &'a InnerReductionEngine,
        bare: &'a Later<InnerReductionEngine>,
        row: usize,
    ) -> &'a InnerReductionEngine {
        if kept.phases().buffers.is_empty() || TUNABLES.max_kept_points.admits(row) {
            return kept;
        }
        let made = bare.get_or_init(|| {
            let bare = InnerReductionEngine::new(&self.body, self.choice, false);
            (bare.phases().buffers.len() < kept.phases().buffers.len()).then(|| Box::new(bare))
        });
        made.as_deref().unwrap_or(kept)
    }

    /// Selects the engine of an inner-axis launch, and the passes that run fused as an online reduction, if any.
    fn inner_passes<'a>(
        &'a self,
        kept: &'a InnerReductionEngine,
        (bare, online): (&'a Later<InnerReductionEngine>, &'a Later<OnlineProgram>),
        layout: &Layout<'_>,
    ) -> (&'a InnerReductionEngine, Option<&'a OnlinePasses>) {
        let made = || OnlineProgram::new(&self.body, self.choice, kept.info()).map(Box::new);
        let pays = online::pays(&self.body, layout);
        match if pays { online.get_or_init(made).as_deref() } else { None } {
            Some(l) => (&l.engine, Some(&l.online)),
            None => (self.inner_engine(kept, bare, layout.row), None),
        }
    }

    /// Selects the outer-axis program for rows of `row` points: with buffers, or, for long rows, without.
    fn outer_program<'a>(
        &'a self,
        kept: &'a outer_axis::Program,
        bare: &'a Later<outer_axis::Program>,
        row: usize,
    ) -> &'a outer_axis::Program {
        let bytes: usize = kept.phases.buffers.iter().map(|d| d.size()).sum();
        if TUNABLES.max_kept_strip.admits(row.saturating_mul(bytes * TUNABLES.min_strip_columns.get())) {
            return kept;
        }
        let made = bare.get_or_init(|| {
            let phases = phases(&prepare(&self.body), false);
            let fewer = phases.buffers.len() < kept.phases.buffers.len();
            fewer.then(|| Box::new(outer_axis::Program::new(phases, &self.body, self.choice)))
        });
        made.as_deref().unwrap_or(kept)
    }

    /// Checks that a launch is sound.
    ///
    /// # Panics
    /// If geometry, operands and scalars do not fit the body, an access reaches outside its operand, or two points
    /// write the same element.
    pub fn check(&self, geometry: &RowGeometry, operands: &[&Buffer], scalars: &[u64]) {
        check(&self.body, geometry, self.orientation(), operands, scalars);
    }

    /// Estimated nanoseconds that one thread takes for a launch.
    pub fn estimate_ns(&self, geometry: &RowGeometry) -> f64 {
        let points = geometry.rows() * geometry.row().max(1);
        let scans: f64 = self.body.scans.iter().map(|s| scan::ns_per_element(s.op)).sum();
        let combined: f64 = self.body.combined.iter().map(combined::ns_per_element).sum();
        estimate_ns(&self.body, &geometry.accesses, points, self.cost) + (scans + combined) * points as f64
    }

    /// Memory traffic of a launch with this geometry.
    fn moved(&self, geometry: &RowGeometry) -> Moved {
        // Only strides are needed, so operands have null addresses.
        let nowhere = |_: u16| (std::ptr::null_mut(), 0);
        let Ok(layout) = Layout::new(&self.body, geometry, self.orientation(), &nowhere) else {
            // A launch with this geometry fails.
            return Moved::default();
        };
        let threads = self.threads.for_work(self.estimate_ns(geometry));
        if let Some(bare) = PlainScan::of(&self.body, geometry) {
            return bare.moved(threads);
        }
        let told = |phases: &Phases, combines: &Combines, together, width: Option<usize>| {
            let chunks = width.map_or(layout.rows(), |w| layout.rows().div_ceil(w));
            let split = passes::splits(chunks, layout.blocks(), threads);
            let scan = |phase: usize, number: usize, size| {
                let scan = &phases.list[phase].scans[number];
                scan::moves(scan.scan.op, phases.buffers[scan.from as usize], size, split)
            };
            let (body, at, layout) = (&self.body, &geometry.accesses[..], &layout);
            traffic::Rows { body, at, layout, phases, together, width, scans: &scan, combines }.moves()
        };
        match &self.way {
            RowEngines::Inner { kept, combines, bare, online } => {
                let (engine, online) = self.inner_passes(kept, (bare, online), &layout);
                told(engine.phases(), combines, online.map(|o| o.phases.clone()), None)
            }
            RowEngines::Outer { kept, bare } => {
                let program = self.outer_program(kept, bare, layout.row);
                let stores = Stores { aliased: false, stream: false };
                let width = OuterReductionLaunch::new(program, &layout, &[], stores, threads).width;
                told(&program.phases, &program.combines, None, Some(width))
            }
        }
    }

    /// Runs a checked launch on `threads`, after packing the operands that rows read again.
    ///
    /// # Safety
    /// [`RowsProgram::check`] accepted the launch.
    ///
    /// # Errors
    /// As [`Program::launch`].
    pub unsafe fn run(
        &self,
        geometry: &RowGeometry,
        operands: &[&Buffer],
        scalars: &[u64],
        threads: &Threads,
    ) -> Result<(), Error> {
        let lane = match self.way {
            RowEngines::Inner { .. } => geometry.extents.len() - 1,
            RowEngines::Outer { .. } => geometry.kept - 1,
        };
        let make = |body: &Body| RowsProgram::new(body, self.orientation(), self.choice, self.threads.clone());
        if let Some(packing) = self.repacked.packing(&self.body, &geometry.accesses, (&geometry.extents, lane))
            && let Some(program) = self.repacked.variant(&packing, make)
        {
            return packing.with_copies(&geometry.accesses, operands, |accesses, operands| {
                let packed = RowGeometry { accesses, ..geometry.clone() };
                // SAFETY: the caller's promise; copies have the elements of what they are read for, and nothing else has
                // changed.
                unsafe { program.run_as_is(&packed, operands, scalars, threads) }
            });
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_as_is(geometry, operands, scalars, threads) }
    }

    /// Runs a checked launch on `threads`; see [`RowsProgram::run`].
    ///
    /// # Safety
    /// [`RowsProgram::check`] accepted the launch.
    unsafe fn run_as_is(
        &self,
        geometry: &RowGeometry,
        operands: &[&Buffer],
        scalars: &[u64],
        threads: &Threads,
    ) -> Result<(), Error> {
        let body = &self.body;
        let place = |o: u16| (operands[o as usize].address(), operands[o as usize].bytes());
        let layout = Layout::new(body, geometry, self.orientation(), &place)?;
        let estimate = self.estimate_ns(geometry);
        if let Some(bare) = PlainScan::of(body, geometry) {
            // SAFETY: the caller's promise.
            unsafe { bare.run(operands, threads, estimate) };
            return Ok(());
        }
        let aliased = check::aliased(body, &check::uses(body), operands, |i| {
            let (access, at) = (&body.accesses[i], &geometry.accesses[i]);
            if let Some(map) = &at.map {
                return map.reach();
            }
            let extents = moves(geometry, access.per_row);
            (!extents.contains(&0)).then(|| check::strided_reach(extents, at))
        });
        let scalars = &scalars[..body.scalars as usize];
        // A non-temporal store saves reading the line first, if outputs exceed the last-level cache.
        let points = body.stores.iter().filter(|s| !body.accesses[s.access as usize].per_row);
        let written = points.map(|s| body.accesses[s.access as usize].dtype.size()).sum::<usize>();
        let combines = body.stores.iter().any(|s| s.combine.is_some());
        let large = written.saturating_mul(layout.rows() * layout.row) > memory::last_level_cache();
        let stores = Stores { aliased, stream: large && !aliased && !combines };
        // SAFETY: the check found every access of the domain inside its operand. No two rows write the same element,
        // since no two points share one.
        unsafe {
            match &self.way {
                RowEngines::Inner { kept, combines, bare, online } => {
                    let (engine, online) = self.inner_passes(kept, (bare, online), &layout);
                    InnerReductionLaunch::new((engine, combines), online, body, &layout, scalars, stores)
                        .run(threads, estimate)
                }
                RowEngines::Outer { kept, bare } => {
                    let program = self.outer_program(kept, bare, layout.row);
                    let across =
                        OuterReductionLaunch::new(program, &layout, scalars, stores, threads.for_work(estimate));
                    passes::run(&across, threads, estimate)
                }
            }
        }
    }
}

impl Program for RowsProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Rows(geometry) = geometry else { panic!("a row kernel is launched with {geometry:?}") };
        self.check(geometry, operands, scalars);
        // SAFETY: just checked.
        unsafe { self.run(geometry, operands, scalars, &self.threads) }
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        let Geometry::Rows(geometry) = geometry else { panic!("a row kernel is launched with {geometry:?}") };
        self.moved(geometry)
    }

    fn rereads_for(&self, _: usize) -> bool {
        match &self.way {
            RowEngines::Inner { kept, .. } => kept.rereads_inputs(),
            RowEngines::Outer { kept, .. } => kept.engines().any(|e| e.rereads_inputs()),
        }
    }

    fn info(&self) -> ProgramInfo {
        match &self.way {
            RowEngines::Inner { kept, .. } => kept.info().clone(),
            RowEngines::Outer { kept, .. } => sum(kept.engines().map(|e| e.info().clone())),
        }
    }
}

impl std::fmt::Debug for RowsProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.orientation(), self.info())
    }
}

/// Store mode of a launch of a row kernel.
#[derive(Clone, Copy)]
struct Stores {
    /// Whether outputs overlap inputs.
    aliased: bool,
    /// Whether stores are non-temporal, if rows are aligned.
    stream: bool,
}

/// Whether the rows that a call writes through these accesses are aligned for non-temporal stores.
fn may_stream(written: &[usize], args: &[u64], rows: usize) -> bool {
    let aligned = |word: usize| args[word].is_multiple_of(STREAM_ALIGN as u64);
    written.iter().all(|a| aligned(4 * a) && (rows == 1 || aligned(4 * a + 1)))
}

/// Sums the information of several programs, such as the phases of a body or the boxes of a map.
pub fn sum(infos: impl Iterator<Item = ProgramInfo>) -> ProgramInfo {
    let mut sum = ProgramInfo::default();
    for info in infos {
        sum.code_bytes += info.code_bytes;
        sum.compile_ns += info.compile_ns;
        sum.spills = sum.spills.max(info.spills);
        sum.rereads_inputs |= info.rereads_inputs;
        // The slowest engine is the one worth reporting.
        if sum.engine.is_empty() || info.engine == Choice::Tile.name() {
            sum.engine = info.engine;
        }
    }
    sum
}

/// Sizes of the dimensions that an access varies over: those that enumerate rows, and, unless it is per row, those of
/// the row.
fn moves(geometry: &RowGeometry, per_row: bool) -> &[usize] {
    if per_row { &geometry.extents[..geometry.kept] } else { &geometry.extents }
}

/// Panics if a launch would be unsound: see [`RowsProgram::check`].
fn check(body: &Body, geometry: &RowGeometry, orientation: Orientation, operands: &[&Buffer], scalars: &[u64]) {
    let (extents, kept) = (&geometry.extents, geometry.kept);
    assert!(kept < extents.len() && extents.len() <= MAX_RANK, "{kept} of {} dimensions number rows", extents.len());
    let across = orientation == Orientation::OuterAxis;
    assert!(!across || kept > 0, "no dimension for a kernel across rows");
    let product = |sizes: &[usize]| sizes.iter().try_fold(1usize, |n, &e| n.checked_mul(e));
    let rows = product(&extents[..kept]).filter(|&n| n > 0);
    let rows = rows.unwrap_or_else(|| panic!("no rows have the sizes {:?}", &extents[..kept]));
    // If a row is empty, its other sizes must not matter.
    let row = if extents[kept..].contains(&0) { Some(0) } else { product(&extents[kept..]) };
    let domain = row.and_then(|n| rows.checked_mul(n)).unwrap_or_else(|| panic!("no domain has the sizes {extents:?}"));
    check::counts(body, &geometry.accesses, operands, scalars);
    let uses = &check::uses(body);
    for (i, (access, at)) in body.accesses.iter().zip(&geometry.accesses).enumerate() {
        let extents = moves(geometry, access.per_row);
        let along = if across { Some(kept - 1) } else { extents.len().checked_sub(1).filter(|_| !access.per_row) };
        let points = Points { extents, along, domain, packs: !across && !access.per_row, uses };
        check::access(body, i, at, points, operands);
        let one = matches!(access.class, AccessClass::Uniform | AccessClass::Mapped);
        assert!(across || !access.per_row || one, "access {i} is the same for a row, and {:?}", access.class);
    }
    assert!(!across || shared_pass::stores(body).next().is_none(), "rows are put together along rows alone");
    shared_pass::check(body, geometry);
    for store in &body.stores {
        let (access, at) = (&body.accesses[store.access as usize], &geometry.accesses[store.access as usize]);
        let runs = matches!(access.class, AccessClass::Contiguous | AccessClass::Strided);
        let fits = runs || access.per_row && access.class == AccessClass::Uniform;
        assert!(
            fits && access.operand.is_some(),
            "access {} is written, so it must have an operand and be contiguous, strided or one a row",
            store.access
        );
        if store.combine.is_some() {
            continue;
        }
        let extents = moves(geometry, access.per_row);
        let apart = extents.contains(&0) || check::injective(extents, at);
        assert!(apart, "access {} writes one element from two points: {at:?}", store.access);
    }
}
