//! Descriptions of kernels, a line each for people.

use crate::kernels::Skeleton;
use crate::kernels::gemm::tma::TmaTile;
use crate::kernels::gemm::{Math, Tile};
use crate::kernels::generic::Width;
use crate::kernels::histogram::HistogramClass;
use crate::kernels::map::MapClass;
use crate::kernels::reduce::{RowSplit, RowStrategy};
use crate::kernels::scan::ScanStrategy;
use crate::kernels::scatter::index_sort::SortStep;
use crate::kernels::scatter::{ScatterClass, ScatterStage};
use crate::kernels::sort::SortPass;
use thalweg_kernel::Along;

impl Skeleton {
    /// Describes the kernel in one line, for people.
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
                    Some(s) if s.chained => format!(
                        " Phase {} to the last, several blocks a row, which pass on what comes before.",
                        s.phase
                    ),
                    Some(s) if s.split == RowSplit::Combined => {
                        format!(" Phase {}, partial results of several blocks a row.", s.phase)
                    }
                    Some(s) if s.split != RowSplit::Whole => format!(" Phase {}, several blocks a row.", s.phase),
                    Some(s) => format!(" Phase {}.", s.phase),
                };
                let how = match class.strategy {
                    RowStrategy::Registers { group, steps, .. } => {
                        format!("Rows along: {group} threads each, {steps} vectors a thread held in registers.")
                    }
                    RowStrategy::Reread { group } if class.online.is_some() => {
                        format!("Rows along: {group} threads each, two passes at once.")
                    }
                    RowStrategy::Reread { group } => format!("Rows along: {group} threads each, read in every pass."),
                    RowStrategy::OuterAxis { wide, deep } => {
                        format!(
                            "Rows side by side: {wide} vectors of them a block, {deep} threads for the points of each."
                        )
                    }
                    RowStrategy::RegistersOfBlocks { wide, deep, steps } => {
                        format!(
                            "Rows across, held by several blocks: {wide} vectors of rows, {deep} threads for {steps} points each."
                        )
                    }
                    RowStrategy::Pairwise { rows, .. } => format!("Rows that are pairs: {rows} a thread."),
                    RowStrategy::Ordered => "Rows in order, a warp each.".into(),
                };
                how + &part
            }
            Skeleton::Scan(class) => {
                let how = match class.strategy {
                    ScanStrategy::InOrder => "a thread a row",
                    ScanStrategy::WithinWarp => "some threads of a warp a row",
                    ScanStrategy::Blocks => "blocks that share a row, or one",
                    ScanStrategy::Columns => "rows side by side",
                };
                format!("Scan of rows in memory: {:?} of {}, {how}.", class.op, class.dtype.name())
            }
            Skeleton::Sort(class) => {
                let how = match class.pass {
                    SortPass::Runs => "a stretch a block",
                    SortPass::Merge => "merges of sorted runs",
                    SortPass::Histogram => "digits counted",
                    SortPass::Digit => "moved to where its digit is",
                };
                format!("Scan of rows in memory: {:?} of {}, {how}.", class.op, class.dtype.name())
            }
            Skeleton::Combine(class) => {
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
            Skeleton::Gemm(class) => {
                let how = match class.math {
                    Math::Narrow => "on tensor cores",
                    Math::Warpgroup => "by warpgroups",
                    Math::Tf32 => "in TF32 on tensor cores",
                    Math::Plain => "on plain cores",
                };
                let Tile { m, n, k, .. } = class.tile;
                format!("Contraction of {} {how}: tiles of {m} times {n}, {k} terms a step.", class.dtype.name())
            }
            Skeleton::TmaGemm(class) => {
                let (TmaTile { team, m, n, stages }, name) = (class.tile, class.dtype.name());
                let who = if team == 1 { "two warpgroups" } else { "two pairs of warpgroups" };
                let interleaved = if class.interleaved() > 0 { ", columns dealt" } else { "" };
                format!(
                    "Contraction of {name} by {who} in turns, fed: tiles of {m} times {n}, {stages} steps ahead{interleaved}."
                )
            }
            Skeleton::Attention(class) => {
                let (rows, name) = (class.rows(), class.dtype.name());
                format!(
                    "Contraction of {name} with a streamed one inside: {rows} rows, {} keys at a time.",
                    class.block.keys
                )
            }
            Skeleton::Scatter(ScatterClass { stage, dtype, .. }) => match stage {
                ScatterStage::Lines(op) => format!("Scatter: {op:?} of {}, a thread a line.", dtype.name()),
                ScatterStage::Runs(op) => {
                    format!("Scatter: {op:?} of {}, a thread a run of sorted indices.", dtype.name())
                }
                ScatterStage::Chunks(op) => {
                    format!("Scatter: {op:?} of {}, a thread a chunk of a run of sorted indices.", dtype.name())
                }
                ScatterStage::Join(op) => {
                    format!("Scatter: {op:?} of {}, a warp the chunks of a run of sorted indices.", dtype.name())
                }
                ScatterStage::Latest => "Scatter: the last index of each element.".into(),
                ScatterStage::Take => format!("Scatter: Set of {}, the value of the last index.", dtype.name()),
                ScatterStage::Atomic(op) => format!("Scatter: {op:?} of {}, all at once.", dtype.name()),
                ScatterStage::Aggregated => format!("Scatter: Add of {}, the runs of a warp at once.", dtype.name()),
            },
            Skeleton::Histogram(_, HistogramClass { dtype, .. }) => {
                format!("Scatter: Add of {}, counted in tables of all places, several a block.", dtype.name())
            }
            Skeleton::Group(class) => format!("Parts of {} classes.", class.parts.len()),
            Skeleton::Library(_) => "A library's product.".into(),
            Skeleton::Convolution(c) => format!("A library's convolution: {}.", c.routine),
            Skeleton::IndexSort(class) => {
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
}
