//! Kernel arguments of GEMMs.

use crate::ir::Layout;
use crate::kernels::gemm::{BodyClass, FactorClass, GemmClass};
use crate::operands::{BodyArguments, BodyParams};
use crate::params::{
    Address, Arguments, Divisor, FaultAddress, I64, Params, Stride, U32, each, flat, optional, params,
};

params! {
    /// Kernel arguments of a tiled GEMM.
    pub struct GemmParams(class: &GemmClass) filled by GemmArguments {
        /// Sizes of the GEMM: M, N, K, and numbers of tiles.
        problem: ProblemParams = flat(ProblemParams::declare),
        /// Batch dimensions, with the strides of A and B.
        batch: Vec<BatchParams> = each(class.batch.into(), |layout| BatchParams::declare(layout, 2)),
        /// Kernel arguments of operands A and B.
        factors: Vec<FactorParams> = |layout| layout.each(2, |layout, n| FactorParams::declare(layout, &class.factors[n])),
        /// Kernel arguments of the epilogue's body.
        result: BodyParams = |layout| part(layout, &class.result.0),
        /// Arguments of split-K; `None` if one block computes a tile.
        split: Option<SplitParams> = optional(class.split.is_some(), SplitParams::declare),
    }
}

params! {
    /// Kernel arguments with the sizes of a GEMM.
    pub struct ProblemParams() filled by ProblemArguments {
        /// Rows of the result (M).
        rows: I64,
        /// Columns of the result (N).
        columns: I64,
        /// Number of terms (K).
        terms: I64,
        /// Number of tiles along rows.
        row_tiles: U32,
        /// Number of tiles along columns.
        column_tiles: U32,
        /// Address of the fault slot.
        fault: FaultAddress,
    }
}

params! {
    /// Kernel arguments of a batch dimension.
    pub struct BatchParams(factors: usize) filled by BatchArguments {
        /// Size of the batch dimension.
        size: Divisor,
        /// Stride of the dimension in each operand: in elements for a copied operand, in matrices for other operands.
        strides: Vec<Stride> = each(factors, Stride::declare),
    }
}

params! {
    /// Kernel arguments of an operand that is copied in vectors.
    pub struct CopyParams() filled by CopyArguments {
        /// Address of the first element that is copied.
        address: Address,
        /// Pitch: elements from line to line, or from term to term.
        pitch: Stride,
    }
}

params! {
    /// Kernel arguments of split-K.
    pub struct SplitParams() filled by SplitArguments {
        /// Number of pipeline steps per split.
        steps: U32,
        /// Number of splits.
        splits: U32,
        /// Scratch memory for the partial accumulators.
        partials: Address,
        /// Counters of finished splits, one for each tile.
        counters: Address,
    }
}

/// Declares the arguments of a body of a contraction.
pub fn part(layout: &mut Layout, part: &BodyClass) -> BodyParams {
    BodyParams::declare(layout, &part.space, &part.body)
}

/// Kernel arguments of an operand (A or B).
#[derive(Clone, Debug)]
pub enum FactorParams {
    /// Operand that is copied in vectors.
    Copied(CopyParams),
    /// Operand that is computed by its body, or copied element by element.
    Body(BodyParams),
}

/// Values of the kernel arguments [`FactorParams`] of an operand.
pub enum FactorArguments {
    /// Operand that is copied in vectors.
    Copied(CopyArguments),
    /// Operand that is computed by its body, or copied element by element.
    Body(BodyArguments),
}

impl FactorParams {
    fn declare(layout: &mut Layout, class: &FactorClass) -> FactorParams {
        match class {
            FactorClass::Copied { .. } => FactorParams::Copied(CopyParams::declare(layout)),
            FactorClass::Computed(of) | FactorClass::Strided { part: of, .. } => FactorParams::Body(part(layout, of)),
        }
    }
}

impl Params for FactorParams {
    type Values = FactorArguments;

    fn fill(&self, values: FactorArguments, out: &mut Arguments) {
        match (self, values) {
            (FactorParams::Copied(params), FactorArguments::Copied(values)) => params.fill(values, out),
            (FactorParams::Body(params), FactorArguments::Body(values)) => params.fill(values, out),
            _ => unreachable!("arguments are of their class"),
        }
    }
}
