//! Kernel arguments of TMA GEMMs.

use crate::kernels::gemm::params::{BatchParams, ProblemParams, part};
use crate::kernels::gemm::tma::{TmaFactor, TmaGemmClass};
use crate::operands::BodyParams;
use crate::params::{Divisor, Padding, TensorMap, U32, each, flat, optional, params};

params! {
    /// Kernel arguments of a TMA GEMM. In a grouped launch, the arguments of the products follow each other.
    pub struct TmaGemmParams(class: &TmaGemmClass) filled by TmaGemmArguments {
        /// Sizes of the GEMM: M, N, K, and numbers of tiles.
        problem: ProblemParams = flat(ProblemParams::declare),
        /// Number of tiles of all products of the batch.
        tiles: U32,
        /// Batch dimensions, with the strides of A and B in matrices.
        batch: Vec<BatchParams> = each(class.batch.into(), |layout| BatchParams::declare(layout, 2)),
        /// Sizes of the dimensions of operands A and B, for the coordinates of boxes.
        dims: Vec<FactorDimsParams> =
            |layout| layout.each(2, |layout, n| FactorDimsParams::declare(layout, &class.factors[n])),
        /// Tensor maps of A and B.
        maps: Vec<TensorMap> = each(2, TensorMap::declare),
        /// Tensor map of B's last lines where these do not fill a tile.
        rest: Option<TensorMap> = optional(class.rest, TensorMap::declare),
        /// Kernel arguments of the epilogue's body.
        result: BodyParams = |layout| part(layout, &class.result.0),
        /// Padding that aligns the arguments of the next GEMM like these.
        padding: Padding,
    }
}

params! {
    /// Sizes of an operand's dimensions, but for the outermost one of its terms, its lines and its batch.
    pub struct FactorDimsParams(factor: &TmaFactor) filled by FactorDimsArguments {
        /// Sizes of the dimensions of the operand's terms (K), without the outermost.
        terms: Vec<Divisor> = each(inner(factor.terms), Divisor::declare),
        /// Sizes of the dimensions of the operand's lines (M or N), without the outermost.
        lines: Vec<Divisor> = each(inner(factor.lines), Divisor::declare),
        /// Sizes of the operand's batch dimensions, without the outermost.
        batch: Vec<Divisor> = each(inner(factor.batch), Divisor::declare),
    }
}

/// Number of dimensions whose size is an argument: all but the outermost one.
fn inner(dims: u8) -> usize {
    dims.saturating_sub(1).into()
}
