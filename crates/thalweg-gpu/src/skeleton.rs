//! Skeletons: the kinds of kernels, each with what decides its code.

use crate::class::combined::CombinedClass;
use crate::class::contraction::{Math, Tile, TileClass};
use crate::class::counted::CountedClass;
use crate::class::fed::{FedClass, FedTile};
use crate::class::foreign::ForeignClass;
use crate::class::generic::Width;
use crate::class::map::MapClass;
use crate::class::rows::{RowsClass, Sharing};
use crate::class::scan::{ScanClass, Way};
use crate::class::scatter::{ScatterClass, Way as ScatterWay};
use crate::class::sorted::{SortClass, SortStep};
use crate::class::streamed::StreamedClass;
use crate::product::Product;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use thalweg_kernel::{Along, Body};

/// Key of generated code: a kind of kernel with its bodies and its class, without sizes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Skeleton {
    /// An elementwise map.
    Map(Body, MapClass),
    /// A row kernel, or a stage of one.
    Rows(Body, RowsClass),
    /// A scan of rows in memory.
    Scan(ScanClass),
    /// A fold or scan of rows in memory by a user-defined combine.
    Combined(CombinedClass),
    /// A fused GEMM, one tile a block, whose factors are copied by all threads (`cp.async`) or computed.
    Contraction(Box<TileClass>),
    /// A warp-specialized GEMM: one producer thread copies the factors by TMA.
    Fed(Box<FedClass>),
    /// Flash attention: two GEMMs with attention weights between them, by online softmax.
    Streamed(Box<StreamedClass>),
    /// A scatter.
    Scatter(ScatterClass),
    /// A histogram: sums of integers in tables in shared memory, with the body that computes the index.
    Counted(Body, CountedClass),
    /// A sort of the indices of a scatter.
    ScatterSort(SortClass),
    /// An operation with the user's own source.
    Foreign(ForeignClass),
    /// An interpreter of bodies (generic kernel).
    Generic(Width),
    /// Independent kernels of these classes in one launch (horizontal fusion).
    Joined(JoinedClass),
    /// A library's GEMM, which has no source.
    Product(Product),
}

/// A grouped launch of independent kernels.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct JoinedClass {
    /// The classes of the kernels, each once, in the order of [`Skeleton::rank`].
    pub parts: Vec<Arc<Skeleton>>,
    /// Threads per block.
    pub block: u32,
    /// Number of argument words.
    pub words: usize,
}

impl Skeleton {
    /// Name of the kernel and of its function.
    pub fn name(&self) -> &'static str {
        match self {
            Skeleton::Map(..) => "map",
            Skeleton::Rows(body, class) => class.name(body),
            Skeleton::Scan(_) => "scan",
            Skeleton::Combined(_) => "combine",
            Skeleton::Contraction(_) | Skeleton::Fed(_) | Skeleton::Streamed(_) => "contraction",
            Skeleton::Scatter(_) | Skeleton::Counted(..) | Skeleton::ScatterSort(_) => "scatter",
            Skeleton::Foreign(_) => "foreign",
            Skeleton::Generic(_) => "generic",
            Skeleton::Joined(_) => "group",
            Skeleton::Product(_) => "product",
        }
    }

    /// Whether the arithmetic must have the same bits wherever it is compiled, so that multiplications and additions
    /// are not contracted to FMA. Holds where fused and unfused results must agree (strict bodies), or something is
    /// computed twice (repeatable ones).
    pub fn is_exact(&self) -> bool {
        let same_bits = |body: &Body| body.strict || body.repeatable || body.has_loops();
        match self {
            Skeleton::Map(body, _) | Skeleton::Rows(body, _) | Skeleton::Counted(body, _) => same_bits(body),
            Skeleton::Scan(_) | Skeleton::Combined(_) | Skeleton::Scatter(_) | Skeleton::ScatterSort(_) => true,
            Skeleton::Contraction(class) => class.bodies().any(same_bits),
            Skeleton::Fed(class) => same_bits(&class.result.0.body),
            Skeleton::Streamed(class) => class.bodies().any(same_bits),
            Skeleton::Foreign(_) | Skeleton::Product(_) => false,
            Skeleton::Generic(_) => true,
            Skeleton::Joined(class) => class.parts.iter().any(|part| part.is_exact()),
        }
    }

    /// Whether blocks depend on nothing but argument words and the block's number, so that the kernel can join a
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
            Skeleton::Contraction(class) => class.math == Math::Warpgroup,
            Skeleton::Fed(_) => true,
            Skeleton::Streamed(class) => class.math == Math::Warpgroup,
            _ => false,
        }
    }

    /// Returns a description of one line for people.
    pub fn about(&self) -> String {
        match self {
            Skeleton::Map(_, MapClass { tile: Some(t), vectors, space }) => {
                let [deep, wide] = t.sizes(*vectors);
                format!("Tiles of {deep} times {wide} vectors, {} neighbours each.", space.lanes)
            }
            Skeleton::Map(_, class) => {
                format!("Each point by itself: {} times {} neighbours a thread.", class.vectors, class.space.lanes)
            }
            Skeleton::Rows(_, class) => {
                let part = match class.stage {
                    None => String::new(),
                    Some(s) if s.linked => format!(
                        " Phase {} to the last, several blocks a row, which pass on what comes before.",
                        s.phase
                    ),
                    Some(s) if s.split => format!(" Phase {}, several blocks a row.", s.phase),
                    Some(s) => format!(" Phase {}.", s.phase),
                };
                let how = match class.sharing {
                    Sharing::Held { group, steps, .. } => {
                        format!("Rows along: {group} threads each, {steps} vectors a thread held in registers.")
                    }
                    Sharing::Again { group } if class.online.is_some() => {
                        format!("Rows along: {group} threads each, two passes at once.")
                    }
                    Sharing::Again { group } => format!("Rows along: {group} threads each, read in every pass."),
                    Sharing::Across { wide, deep } => {
                        format!(
                            "Rows side by side: {wide} vectors of them a block, {deep} threads for the points of each."
                        )
                    }
                    Sharing::HeldByBlocks { wide, deep, steps } => {
                        format!(
                            "Rows across, held by several blocks: {wide} vectors of rows, {deep} threads for {steps} points each."
                        )
                    }
                    Sharing::Pairs { rows, .. } => format!("Rows that are pairs: {rows} a thread."),
                    Sharing::Ordered => "Rows in order, a warp each.".into(),
                };
                how + &part
            }
            Skeleton::Scan(class) => {
                let how = match class.way {
                    Way::InOrder => "a thread a row",
                    Way::Short => "some threads of a warp a row",
                    Way::Long => "blocks that share a row, or one",
                    Way::Across => "rows side by side",
                    Way::Stretch => "a stretch a block",
                    Way::Merge => "merges of sorted runs",
                    Way::Count => "digits counted",
                    Way::Pass => "moved to where its digit is",
                };
                format!("Scan of rows in memory: {:?} of {}, {how}.", class.op, class.dtype.name())
            }
            Skeleton::Combined(class) => {
                let what = if class.along == Along::Fold { "Fold" } else { "Scan" };
                format!("{what} of rows in memory by a combine of the user's own, a block a row.")
            }
            Skeleton::Foreign(_) => "An operation whose source is the user's.".into(),
            Skeleton::Generic(Width::Narrow) => {
                "Any single operation on values of up to 32 bits, but for functions of floats.".into()
            }
            Skeleton::Generic(Width::Functions) => "Any single operation on floats of up to 32 bits.".into(),
            Skeleton::Generic(Width::Wide) => "Any single operation on integers of 64 bits, too.".into(),
            Skeleton::Generic(Width::Double) => "Any single operation, functions of f64 included.".into(),
            Skeleton::Contraction(class) => {
                let how = match class.math {
                    Math::Narrow => "on tensor cores",
                    Math::Warpgroup => "by warpgroups",
                    Math::Tf32 => "in TF32 on tensor cores",
                    Math::Plain => "on plain cores",
                };
                let Tile { m, n, k, .. } = class.tile;
                format!("Contraction of {} {how}: tiles of {m} times {n}, {k} terms a step.", class.dtype.name())
            }
            Skeleton::Fed(class) => {
                let (FedTile { team, m, n, stages }, name) = (class.tile, class.dtype.name());
                let who = if team == 1 { "two warpgroups" } else { "two pairs of warpgroups" };
                let dealt = if class.dealt() > 0 { ", columns dealt" } else { "" };
                format!(
                    "Contraction of {name} by {who} in turns, fed: tiles of {m} times {n}, {stages} steps ahead{dealt}."
                )
            }
            Skeleton::Streamed(class) => {
                let (rows, name) = (class.rows(), class.dtype.name());
                format!(
                    "Contraction of {name} with a streamed one inside: {rows} rows, {} keys at a time.",
                    class.block.keys
                )
            }
            Skeleton::Scatter(ScatterClass { way, dtype, .. }) => match way {
                ScatterWay::Copy => "Scatter: the copy of the tensor.".into(),
                ScatterWay::Lines(op) => format!("Scatter: {op:?} of {}, a thread a line.", dtype.name()),
                ScatterWay::Runs(op) => {
                    format!("Scatter: {op:?} of {}, a thread a run of sorted indices.", dtype.name())
                }
                ScatterWay::Pieces(op) => {
                    format!("Scatter: {op:?} of {}, a thread a piece of a run of sorted indices.", dtype.name())
                }
                ScatterWay::Join(op) => {
                    format!("Scatter: {op:?} of {}, a warp the pieces of a run of sorted indices.", dtype.name())
                }
                ScatterWay::Clear => "Scatter: no index is known of any element.".into(),
                ScatterWay::Latest => "Scatter: the last index of each element.".into(),
                ScatterWay::Take => format!("Scatter: Set of {}, the value of the last index.", dtype.name()),
                ScatterWay::AtOnce(op) => format!("Scatter: {op:?} of {}, all at once.", dtype.name()),
            },
            Skeleton::Counted(_, CountedClass { dtype, .. }) => {
                format!("Scatter: Add of {}, counted in tables of all places, several a block.", dtype.name())
            }
            Skeleton::Joined(class) => format!("Parts of {} classes.", class.parts.len()),
            Skeleton::Product(_) => "A library's product.".into(),
            Skeleton::ScatterSort(class) => {
                let of = if class.dims.is_some() { "indices" } else { "pairs of place and number" };
                match class.step {
                    SortStep::Count => format!("Sort of the indices of a scatter: digits of {of} counted."),
                    SortStep::Offsets => "Sort of the indices of a scatter: where digits of tiles begin.".into(),
                    SortStep::Move => {
                        format!("Sort of the indices of a scatter: {of} moved to where their digits are.")
                    }
                }
            }
        }
    }

    /// Returns a number that orders the classes of a grouped launch, so that launches of the same classes share code.
    pub fn rank(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
