//! Kernel families, one folder each, and the selection among them (docs/gpu-kernels.md).
//!
//! In: a kernel and a geometry. Out: a [`Plan`]: launches of [`Skeleton`]s with their arguments, chosen by sizes,
//! layouts and the chip's properties. A family's `mod.rs` has its class key, which decides the code; `params` declares
//! the kernel arguments, `select` chooses classes and fills arguments, `emit` builds programs.
//!
//! * `map`, `reduce`, `scan`, `sort`, `combine`, `scatter`, `histogram`, `gemm`, `attention`, `foreign`, `generic`:
//!   families. `gemv`: products as row kernels. `contraction`: selection among the forms of a contraction.
//! * `plan`: launches and scratch memory. `group`: independent launches, fused into one (horizontal fusion).
//!
//! Always true: two launches of one class differ in arguments alone.

pub mod attention;
pub mod combine;
mod contraction;
mod describe;
pub mod foreign;
pub mod gemm;
mod gemv;
pub mod generic;
mod group;
pub mod histogram;
pub mod map;
pub mod plan;
pub mod reduce;
pub mod scan;
pub mod scatter;
pub mod sort;

pub use group::merge_sources;

use crate::emit::loops::Native;
use crate::ir;
use crate::kernels::attention::AttentionClass;
use crate::kernels::combine::CombineClass;
use crate::kernels::foreign::ForeignClass;
use crate::kernels::gemm::tma::TmaGemmClass;
use crate::kernels::gemm::{GemmClass, Math};
use crate::kernels::generic::Width;
use crate::kernels::histogram::HistogramClass;
use crate::kernels::map::MapClass;
use crate::kernels::map::select::{add_boxes, add_map};
use crate::kernels::plan::{MAX_BLOCKS, Plan};
use crate::kernels::reduce::RowsClass;
use crate::kernels::scan::ScanClass;
use crate::kernels::scatter::ScatterClass;
use crate::kernels::scatter::index_sort::IndexSortClass;
use crate::kernels::sort::{SortClass, SortPass};
use crate::params::RuntimeArgument;
use crate::product::Product;
use crate::target::Target;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use thalweg_ir::Convolution;
use thalweg_kernel::{Body, Geometry, GroupPart, Kernel};
use thalweg_runtime::Error;

/// Key of generated code: a kind of kernel with its bodies and its class, without sizes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Skeleton {
    /// Elementwise map.
    Map(Body, MapClass),
    /// Row kernel, or a stage of one.
    Rows(Body, RowsClass),
    /// Scan of rows in memory.
    Scan(ScanClass),
    /// Sort of rows in memory.
    Sort(SortClass),
    /// Fold or scan of rows in memory by a user-defined combine.
    Combine(CombineClass),
    /// A fused GEMM, one tile a block, whose operands are copied by all threads (`cp.async`) or computed.
    Gemm(Box<GemmClass>),
    /// Warp-specialized GEMM: one producer thread copies the operands by TMA.
    TmaGemm(Box<TmaGemmClass>),
    /// Flash attention: two GEMMs with attention weights between them, by online softmax.
    Attention(Box<AttentionClass>),
    /// Launch of a scatter.
    Scatter(ScatterClass),
    /// A histogram: sums of integers in tables in shared memory, with the body that computes the index.
    Histogram(Body, HistogramClass),
    /// Launch of the sort of a scatter's indices.
    IndexSort(IndexSortClass),
    /// Kernel with the user's own source.
    Foreign(ForeignClass),
    /// Generic kernel: an interpreter of bytecode.
    Generic(Width),
    /// Independent kernels of these classes in one launch (horizontal fusion).
    Group(GroupClass),
    /// GEMM of a library, which has no source.
    Library(Product),
    /// Convolution of a library, which has no source.
    Convolution(Box<Convolution>),
}

/// A grouped launch of independent kernels.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupClass {
    /// The classes of the kernels, each once, in the order of [`Skeleton::rank`].
    pub parts: Vec<Arc<Skeleton>>,
    /// Threads per block.
    pub block: u32,
    /// Number of 64-bit argument words of all components.
    pub words: usize,
}

impl Skeleton {
    /// Name of the kernel and of its function.
    pub fn name(&self) -> &'static str {
        match self {
            Skeleton::Map(..) => "map",
            Skeleton::Rows(body, class) => class.name(body),
            Skeleton::Scan(_) | Skeleton::Sort(_) => "scan",
            Skeleton::Combine(_) => "combine",
            Skeleton::Gemm(_) | Skeleton::TmaGemm(_) | Skeleton::Attention(_) => "contraction",
            Skeleton::Scatter(_) | Skeleton::Histogram(..) | Skeleton::IndexSort(_) => "scatter",
            Skeleton::Foreign(_) => "foreign",
            Skeleton::Generic(_) => "generic",
            Skeleton::Group(_) => "group",
            Skeleton::Library(_) => "product",
            Skeleton::Convolution(_) => "convolution",
        }
    }

    /// Whether results must have the same bits in every kernel that computes them, so that multiplications and
    /// additions are not contracted to FMA. True if fused and unfused results must agree (strict bodies), or if values
    /// are recomputed (repeatable bodies).
    pub fn is_exact(&self) -> bool {
        let same_bits = |body: &Body| body.strict || body.repeatable || body.has_loops();
        match self {
            Skeleton::Map(body, _) | Skeleton::Rows(body, _) | Skeleton::Histogram(body, _) => same_bits(body),
            Skeleton::Scan(_)
            | Skeleton::Sort(_)
            | Skeleton::Combine(_)
            | Skeleton::Scatter(_)
            | Skeleton::IndexSort(_) => true,
            Skeleton::Gemm(class) => class.bodies().any(same_bits),
            Skeleton::TmaGemm(class) => same_bits(&class.result.0.body),
            Skeleton::Attention(class) => class.bodies().any(same_bits),
            Skeleton::Foreign(_) | Skeleton::Library(_) | Skeleton::Convolution(_) => false,
            Skeleton::Generic(_) => true,
            Skeleton::Group(class) => class.parts.iter().any(|part| part.is_exact()),
        }
    }

    /// Whether blocks depend on nothing but arguments and the block's number, so that the kernel can join a
    /// grouped launch.
    pub fn is_simple(&self) -> bool {
        match self {
            Skeleton::Map(..) => true,
            Skeleton::Rows(body, class) => !class.has_scans(body),
            _ => false,
        }
    }

    /// Whether the kernel multiplies by warpgroups (`wgmma`), which only chips of compute capability 9.0 have.
    pub fn has_warpgroups(&self) -> bool {
        match self {
            Skeleton::Gemm(class) => class.math == Math::Warpgroup,
            Skeleton::TmaGemm(_) => true,
            Skeleton::Attention(class) => class.math == Math::Warpgroup,
            _ => false,
        }
    }

    /// Program of a kernel for a device with these native operations; `None` for kernels that are written in a device's
    /// language, groups, and a library's functions.
    pub fn program(&self, native: Native) -> Option<ir::Kernel> {
        Some(match self {
            Skeleton::Map(body, class) => map::emit::kernel(body, class, native),
            Skeleton::Rows(body, class) => reduce::emit::kernel(body, class, native),
            Skeleton::Scatter(class) => scatter::emit::kernel(class),
            Skeleton::Histogram(body, class) => histogram::emit::kernel(body, class, native),
            Skeleton::Scan(class) => scan::emit::kernel(class),
            Skeleton::Sort(class) => match class.pass {
                SortPass::Runs | SortPass::Merge => sort::merge::emit::kernel(class),
                SortPass::Histogram | SortPass::Digit => sort::radix::emit::kernel(class),
            },
            Skeleton::IndexSort(class) => scatter::index_sort::emit::kernel(class),
            Skeleton::Combine(class) => combine::emit::kernel(class, native),
            Skeleton::Gemm(class) => gemm::emit::kernel(class, native),
            Skeleton::TmaGemm(class) => gemm::tma::emit::kernel(class, native),
            Skeleton::Attention(class) => attention::emit::kernel(class, native),
            Skeleton::Foreign(_)
            | Skeleton::Generic(_)
            | Skeleton::Group(_)
            | Skeleton::Library(_)
            | Skeleton::Convolution(_) => return None,
        })
    }

    /// Returns a number that orders the classes of a grouped launch, so that launches of the same classes share code.
    pub fn rank(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Plans the launches of a kernel with a geometry.
///
/// # Errors
/// [`Error::Compile`] if the kernel has no source, or a launch would have too many blocks.
///
/// # Panics
/// When geometry and kernel are of different kinds.
pub fn plan(kernel: &Kernel, geometry: &Geometry, target: &dyn Target) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(geometry)) => add_map(&mut plan, body, geometry, target),
        (Kernel::Boxes(bodies), Geometry::Boxes(boxes)) => {
            add_boxes(&mut plan, bodies, boxes, target);
            let all: Vec<usize> = (0..plan.stages.len()).collect();
            group::join(&mut plan, &all, target);
        }
        (Kernel::Rows { body, orientation }, Geometry::Rows(geometry)) => {
            reduce::select::add(&mut plan, body, *orientation, geometry, target)?;
        }
        (Kernel::Contraction(c), Geometry::Contraction(geometry)) => {
            plan = contraction::plan(c, geometry, target)?;
        }
        (Kernel::Scatter { op, dtype, order, inputs }, Geometry::Scatter(geometry)) => {
            scatter::select::add(&mut plan, (*op, *dtype, *order), inputs, geometry, target)?;
        }
        (Kernel::Foreign { of, wanted }, Geometry::Foreign(geometry)) => {
            foreign::select::add(&mut plan, (*of, wanted), geometry, target)?;
        }
        (Kernel::Group { kernels, parts }, Geometry::Group(geometries)) => {
            add_group(&mut plan, kernels, parts, geometries, target)?;
        }
        (kernel, geometry) => panic!("{kernel:?} with {geometry:?}"),
    }
    match plan.stages.iter().find(|s| s.grid[0] > MAX_BLOCKS) {
        None => Ok(plan),
        Some(stage) => {
            let name = stage.kernel.name();
            let message = format!("{name} would take more than the {MAX_BLOCKS} blocks that a launch may have");
            Err(Error::Compile { device: target.device().into(), message })
        }
    }
}

/// Adds the launches of independent kernels (a group). Operands: first all that the kernels read, then all that they
/// write.
fn add_group(
    plan: &mut Plan,
    kernels: &[Kernel],
    parts: &[GroupPart],
    geometries: &[Geometry],
    target: &dyn Target,
) -> Result<(), Error> {
    let (mut reads, mut scalars) = (0, 0);
    let mut writes: u16 = parts.iter().map(|p| p.reads as u16).sum();
    let mut all = vec![];
    for (part, geometry) in parts.iter().zip(geometries) {
        let operands = |first: u16, n: u32| (first..first + n as u16).map(|o| RuntimeArgument::Operand(o, 0));
        let own: Vec<RuntimeArgument> = operands(reads, part.reads).chain(operands(writes, part.writes)).collect();
        all.push((&kernels[part.kernel as usize], geometry, own, scalars));
        reads += part.reads as u16;
        writes += part.writes as u16;
        scalars += part.scalars as u16;
    }
    if let Some(products) = all.iter().map(as_product).collect::<Option<Vec<_>>>()
        && contraction::add_grouped(plan, &products, target)
    {
        return Ok(());
    }
    let mut apart = vec![];
    for (kernel, geometry, operands, scalars) in all {
        let mut own = Plan::default();
        match (kernel, geometry) {
            // The boxes of a map are components of the group like others.
            (Kernel::Boxes(bodies), Geometry::Boxes(g)) => add_boxes(&mut own, bodies, g, target),
            (kernel, geometry) => own = self::plan(kernel, geometry, target)?,
        }
        let from = plan.stages.len();
        let independent = own.stages.len() == 1 || matches!(geometry, Geometry::Boxes(_));
        plan.absorb(own, &operands, scalars);
        apart.extend((from..plan.stages.len()).filter(|_| independent));
    }
    group::join(plan, &apart, target);
    Ok(())
}

/// Component of a group that is a matrix product: kernel and geometry, operands, and its first scalar.
fn as_product<'a>(
    (kernel, geometry, operands, scalars): &(&'a Kernel, &'a Geometry, Vec<RuntimeArgument>, u16),
) -> Option<contraction::Sibling<'a>> {
    let (Kernel::Contraction(contraction), Geometry::Contraction(geometry)) = (kernel, geometry) else { return None };
    Some(contraction::Sibling { contraction, geometry, operands: operands.clone(), scalars: *scalars })
}
