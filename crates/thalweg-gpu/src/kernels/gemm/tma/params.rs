//! Kernel arguments of TMA GEMMs.

use crate::kernels::gemm::params::{BatchParams, ProblemParams, part};
use crate::kernels::gemm::tma::{TmaFactor, TmaGemmClass};
use crate::operands::BodyParams;
use crate::params::{Divisor, Padding, TensorMap, U32, each, flat, optional, params};

params! {
    /// Kernel arguments of a TMA GEMM. Those of several problems of one launch follow each other.
    pub struct TmaGemmParams(class: &TmaGemmClass) filled by TmaGemmArguments {
        /// Sizes.
        problem: ProblemParams = flat(ProblemParams::declare),
        /// Tiles of all products of the batch.
        tiles: U32,
        /// Batch dimensions, with the strides of both factors in matrices.
        batch: Vec<BatchParams> = each(class.batch.into(), |layout| BatchParams::declare(layout, 2)),
        /// Dimensions of the factors.
        dims: Vec<FactorDimsParams> =
            |layout| layout.each(2, |layout, n| FactorDimsParams::declare(layout, &class.factors[n])),
        /// Factors.
        maps: Vec<TensorMap> = each(2, TensorMap::declare),
        /// Last lines of the right factor, which do not fill a tile.
        rest: Option<TensorMap> = optional(class.rest, TensorMap::declare),
        /// Epilogue.
        result: BodyParams = |layout| part(layout, &class.result.0),
        /// Padding.
        padding: Padding,
    }
}

params! {
    /// Sizes of a factor's dimensions but the outermost one of its terms, its lines and its batch.
    pub struct FactorDimsParams(factor: &TmaFactor) filled by FactorDimsArguments {
        /// Terms.
        terms: Vec<Divisor> = each(inner(factor.terms), Divisor::declare),
        /// Lines.
        lines: Vec<Divisor> = each(inner(factor.lines), Divisor::declare),
        /// Batch.
        batch: Vec<Divisor> = each(inner(factor.batch), Divisor::declare),
    }
}

/// Number of dimensions but the outermost one.
fn inner(dims: u8) -> usize {
    dims.saturating_sub(1).into()
}
