//! Access patterns of operands.

use serde::Serialize;

/// Access pattern of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub enum AccessKind {
    /// Neighbouring elements at neighbouring points.
    Contiguous,
    /// One element for a whole run of points.
    Uniform,
    /// Strided, with the elements between used by neighbouring runs: a transposed view.
    Transposed,
    /// Transposed, with a stride at which cache lines evict each other before they are used up.
    Conflicting,
    /// Strided, with the elements between unused, or reversed.
    Strided,
    /// Through a table of positions that the launch fills.
    Mapped,
    /// Through such a table, with the lanes of a vector close to each other ([`thalweg_kernel::Machine::close_bytes`]).
    Close,
    /// Elements at computed indices (a gather).
    Gathered,
}
