//! Arguments of a library's GEMM.

use crate::params::{Address, OptionalAddress, params};

params! {
    /// Arguments of a library's GEMM, which is column-major: its left side is our right factor.
    pub struct LibraryParams() filled by LibraryArguments {
        /// Left side.
        left: Address,
        /// Right side.
        right: Address,
        /// Result.
        result: Address,
        /// Workspace, where the algorithm has one.
        workspace: OptionalAddress,
    }
}
