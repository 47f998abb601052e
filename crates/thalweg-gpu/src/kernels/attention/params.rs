//! Kernel arguments of flash attention.

use crate::body::divisors;
use crate::kernels::attention::AttentionClass;
use crate::kernels::gemm::params::{BatchParams, CopyParams, part};
use crate::kernels::gemm::tma::params::FactorDimsParams;
use crate::operands::BodyParams;
use crate::params::{FaultAddress, I64, Scalar, Stride, TensorMap, U32, each, optional, params};

params! {
    /// Kernel arguments of flash attention. Its operands are rows (queries), keys and values.
    pub struct AttentionParams(class: &AttentionClass) filled by AttentionArguments {
        /// Number of rows (queries) of a product.
        rows: I64,
        /// Number of columns of the result.
        columns: I64,
        /// Number of keys.
        keys: I64,
        /// Number of terms of a score.
        depth: I64,
        /// Number of tiles of rows.
        row_tiles: U32,
        /// Address of the fault slot.
        fault: FaultAddress,
        /// Number of products in the batch.
        products: U32,
        /// Batch dimensions, with the strides of rows, keys and values: in elements, or in matrices where TMA copies
        /// them.
        batch: Vec<BatchParams> = each(class.batch.into(), |layout| BatchParams::declare(layout, 3)),
        /// Copies of rows, keys and values; empty where TMA copies them.
        copies: Vec<CopyParams> = each(if class.tma.is_none() { 3 } else { 0 }, CopyParams::declare),
        /// Dimensions of rows, keys and values for TMA; empty where all threads copy them.
        dims: Vec<FactorDimsParams> = |layout| {
            let factors = class.tma.as_slice().as_flattened();
            layout.each(factors.len(), |layout, n| FactorDimsParams::declare(layout, &factors[n]))
        },
        /// Kernel arguments of each score body.
        points: Vec<BodyParams> = |layout| layout.each(class.points.len(), |layout, n| part(layout, &class.points[n].0)),
        /// Causal offset: row `i` attends to `i` keys plus this many.
        causal_offset: Option<Stride> = optional(class.causal.is_some(), Stride::declare),
        /// Scalars of a row's final factor.
        once_scalars: Vec<Scalar> = each(class.once.as_ref().map_or(0, |o| o.0.scalars.into()), Scalar::declare),
        /// Reciprocals of the scalars that the final factor divides by.
        once_reciprocals: Vec<Scalar> =
            each(class.once.as_ref().map_or(0, |o| divisors(&o.0).len()), Scalar::declare),
        /// Arguments of the epilogue's body.
        result: BodyParams = |layout| part(layout, &class.result.0),
        /// Tensor maps of rows, keys and values; empty where all threads copy them.
        maps: Vec<TensorMap> = each(if class.tma.is_some() { 3 } else { 0 }, TensorMap::declare),
    }
}
