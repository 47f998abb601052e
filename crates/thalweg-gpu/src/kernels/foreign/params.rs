//! Kernel arguments of operations with the user's own source.

use crate::kernels::foreign::ForeignClass;
use crate::params::{Address, I64, OptionalAddress, Scalar, each, params};

params! {
    /// Arguments of a library's convolution.
    pub struct ConvolutionParams() filled by ConvolutionArguments {
        /// Address of the first operand.
        first: Address,
        /// Address of the second operand.
        second: Address,
        /// Address of the result.
        result: Address,
        /// Address of the workspace, if the algorithm needs any.
        workspace: OptionalAddress,
    }
}

params! {
    /// Kernel arguments of an operation with the user's own source.
    pub struct ForeignParams(class: &ForeignClass) filled by ForeignArguments {
        /// Addresses of the operands.
        operands: Vec<Address> = each(class.of.source().operands.len(), Address::declare),
        /// Addresses of the results.
        results: Vec<Address> = each(class.of.source().results.len(), Address::declare),
        /// Sizes that are passed to the user's entry.
        sizes: Vec<I64> = each(class.of.source().sizes, I64::declare),
        /// Numbers that are passed to the user's entry.
        numbers: Vec<Scalar> = each(class.of.source().numbers.len(), Scalar::declare),
    }
}
