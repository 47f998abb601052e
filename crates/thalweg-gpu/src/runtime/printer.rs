//! Interface to a printer of kernels: source text in the driver's language.

use crate::Skeleton;
use crate::ir::Kernel;
use std::fmt::Debug;
use thalweg_ir::{DType, ElementOp};

/// Source of a compilation: options and the printer's prelude, followed by a kernel's own text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source {
    /// First line, the compiler options.
    pub options: &'static str,
    /// Kernel's own text, which follows the prelude.
    pub own: String,
}

/// Printer of kernels for one language.
pub trait Printer: Send + Sync + Debug {
    /// Text before every kernel: types and device functions.
    fn prelude(&self) -> &'static str;

    /// Source of a kernel.
    ///
    /// # Panics
    /// For a library's GEMM, which has no source.
    fn source(&self, of: &Skeleton) -> Source;

    /// Program that the source is printed from; `None` for sources written by hand.
    fn program(&self, of: &Skeleton) -> Option<Kernel>;

    /// Whether the language has the operation for that dtype, or a device function of the prelude.
    fn is_native(&self, op: ElementOp, dtype: DType) -> bool;

    /// File extension of sources: "cu".
    fn extension(&self) -> &'static str;

    /// Whole text of a source, including the prelude.
    fn text(&self, source: &Source) -> String {
        format!("{}{}{}", source.options, self.prelude(), source.own)
    }
}
