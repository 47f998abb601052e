//! Kernel arguments of flash attention.

use crate::body::divisors;
use crate::kernels::attention::AttentionClass;
use crate::kernels::gemm::params::{BatchParams, CopyParams, part};
use crate::kernels::gemm::tma::params::FactorDimsParams;
use crate::operands::BodyParams;
use crate::params::{FaultAddress, I64, Scalar, Stride, TensorMap, U32, each, optional, params};

params! {
    /// Kernel arguments of flash attention. Factors are rows (queries), keys and values.
    pub struct AttentionParams(class: &AttentionClass) filled by AttentionArguments {
        /// Rows (queries).
        rows: I64,
        /// Columns of the result.
        columns: I64,
        /// Keys.
        keys: I64,
        /// Terms of a score.
        depth: I64,
        /// Tiles of rows.
        row_tiles: U32,
        /// Fault slot.
        fault: FaultAddress,
        /// Products of the batch.
        products: U32,
        /// Batch dimensions, with the strides of the factors: elements, or matrices of factors that are copied by TMA.
        batch: Vec<BatchParams> = each(class.batch.into(), |layout| BatchParams::declare(layout, 3)),
        /// Factors that all threads copy.
        copies: Vec<CopyParams> = each(if class.tma.is_none() { 3 } else { 0 }, CopyParams::declare),
        /// Dimensions of factors that are copied by TMA.
        dims: Vec<FactorDimsParams> = |layout| {
            let factors = class.tma.as_slice().as_flattened();
            layout.each(factors.len(), |layout, n| FactorDimsParams::declare(layout, &factors[n]))
        },
        /// Bodies on a score.
        points: Vec<BodyParams> = |layout| layout.each(class.points.len(), |layout, n| part(layout, &class.points[n].0)),
        /// Causal offset: a row sees this many keys more than its number.
        causal_offset: Option<Stride> = optional(class.causal.is_some(), Stride::declare),
        /// Scalars of a row's final factor.
        once_scalars: Vec<Scalar> = each(class.once.as_ref().map_or(0, |o| o.0.scalars.into()), Scalar::declare),
        /// Reciprocals of the scalars that it divides by.
        once_reciprocals: Vec<Scalar> =
            each(class.once.as_ref().map_or(0, |o| divisors(&o.0).len()), Scalar::declare),
        /// Epilogue.
        result: BodyParams = |layout| part(layout, &class.result.0),
        /// Factors that are copied by TMA.
        maps: Vec<TensorMap> = each(if class.tma.is_some() { 3 } else { 0 }, TensorMap::declare),
    }
}
