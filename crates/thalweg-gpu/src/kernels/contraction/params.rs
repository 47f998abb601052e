//! Arguments of a library's GEMM.

use crate::params::{Address, OptionalAddress, params};

params! {
    /// Arguments of a library's GEMM, which is column-major: its left operand is our B.
    pub struct LibraryParams() filled by LibraryArguments {
        /// Address of the left operand, which is our B.
        left: Address,
        /// Address of the right operand, which is our A.
        right: Address,
        /// Address of the result.
        result: Address,
        /// Address of the workspace, if the algorithm needs any.
        workspace: OptionalAddress,
    }
}
