//! Micro-kernels of matrix products (`gemm/`): their arithmetics and forms.
//!
//! A *tile* kernel (GEMM) holds a rectangle of sums in registers over a block of terms; a *stream* kernel (GEMV) adds
//! several terms of one row into sums in memory; a *dots* kernel multiplies lines with contiguous terms, with
//! [`DOT_BYTES`] bytes of lanes per sum. An instruction set assembles them as straight loops with fixed registers.
//! Always true: in the first two, each sum is one chain of fused multiply-adds over ascending terms; in the third, each
//! lane is. Lanes outside the mask are neither read nor written; `rows`, `vectors` and `columns` fit the registers
//! ([`super::Isa::tile_rows`], [`super::Isa::dot_columns`]).

/// Maximum rows of a dots kernel.
pub const MAX_DOT_ROWS: usize = 4;
/// Bytes of lanes per sum of a dots kernel.
pub const DOT_BYTES: usize = 64;
/// Maximum rows of a tile of any set.
pub const MAX_TILE_ROWS: usize = 14;
/// Vectors per row of a tile.
pub const TILE_VECTORS: usize = 2;
/// Maximum terms that a stream kernel adds at a time.
pub const MAX_STREAM_TERMS: usize = 8;

/// Arithmetic of a step of a chain: adds the product of one element of each factor, or the products of a group of
/// narrow elements of the same total width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// f32.
    F32,
    /// f64.
    F64,
    /// Two bf16, accumulated in f32 (AVX512_BF16).
    Pairs,
    /// Four bytes, signed in the left factor and unsigned in the right one, accumulated in i32 (AVX512_VNNI).
    Quads,
}

/// Parameters by which a function is specialised. Terms and elements mean groups for narrow types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Tile of `rows` rows of `vectors` vectors, the last one masked or whole. Elements of the left factor are
    /// contiguous across its terms (`along_terms`), or across its lines, as in a packed panel.
    Tile { rows: usize, vectors: usize, masked: bool, along_terms: bool },
    /// Stream of `terms` terms of one row; the `first` terms of a chain do not read the sums.
    Stream { terms: usize, first: bool },
    /// Dot products of `rows` rows times `columns` columns, with this element layout.
    Dots { rows: usize, columns: usize, right: Layout },
}

/// Element layout of operand B of a dots kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Elements as wide as accumulators, or in groups of that width.
    Slots,
    /// bf16 elements with f32 accumulators.
    Bf16,
    /// f16 elements with f32 accumulators.
    F16,
    /// Signed bytes; 128 is added to each, which gives slots of unsigned bytes.
    Offset,
}
