//! CUDA C++ from kernels.
//!
//! In: a body and the class of a launch. Out: source text, the same for all sizes of the class. Sizes, addresses and scalars are words of the one argument.
//!
//! * `types`, `elements`: dtypes and elementwise operations.
//! * `access`: reading and writing through index maps.
//! * `body`: nodes as statements.
//! * `map`, `rows`, …: kernels.

pub mod access;
pub mod body;
pub mod elements;
pub mod map;
pub mod matmul;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod types;

use map::MapClass;
use matmul::MatmulClass;
use rows::RowsClass;
use scan::ScanClass;
use scatter::ScatterClass;
use thalweg_kernel::Body;

/// What every source starts with.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// The first line of a source: what the compiler is asked for. Without contraction where the same bits are wanted, fused and unfused (strict bodies) or wherever
/// something is computed twice (repeatable ones).
pub fn options(same_bits: bool) -> &'static str {
    if same_bits { "// options: -fmad=false\n" } else { "// options:\n" }
}

/// What decides a source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UnitKey {
    /// A map.
    Map(Body, MapClass),
    /// A row kernel, or a stage of one.
    Rows(Body, RowsClass),
    /// A scan of rows in memory.
    Scan(ScanClass),
    /// A matrix product.
    Matmul(MatmulClass),
    /// A scatter.
    Scatter(ScatterClass),
}

impl UnitKey {
    /// The name of the function, and the source.
    pub fn source(&self) -> (&'static str, String) {
        match self {
            UnitKey::Map(body, class) => ("map", map::source(body, class)),
            UnitKey::Rows(body, class) => ("rows", rows::source(body, class)),
            UnitKey::Scan(class) => ("scan", scan::source(class)),
            UnitKey::Matmul(class) => ("matmul", matmul::source(class)),
            UnitKey::Scatter(class) => ("scatter", scatter::source(class)),
        }
    }
}
