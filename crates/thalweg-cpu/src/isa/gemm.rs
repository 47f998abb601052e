//! Forms and arithmetic of the emitted micro-kernels of matrix products (`gemm/`).
//!
//! A *term* is an index of the K dimension. A *tile* kernel (GEMM) holds a rectangle of sums in registers over a block
//! of terms; a *stream* kernel (GEMV) adds several terms of one row into sums in memory; a *dots* kernel multiplies
//! rows and columns with contiguous terms, with [`DOT_BYTES`] bytes of lanes per sum. A kernel of *tile registers* (AMX)
//! adds 16 groups of terms at a time to each of 16 × 16 sums or more. An instruction set assembles them
//! as simple loops with fixed registers. Always true: in tile and stream kernels, each sum is one chain of fused
//! multiply-adds over ascending terms; in dots kernels, each lane is. Lanes outside the mask are neither read nor
//! written; `rows`, `vectors` and `columns` fit the registers ([`super::Isa::tile_rows`], [`super::Isa::dot_columns`]).

/// Maximum number of rows of A that a dots kernel multiplies at a time.
pub const MAX_DOT_ROWS: usize = 4;
/// Maximum number of columns of B that a dots kernel multiplies at a time, on any instruction set.
pub const MAX_DOT_COLUMNS: usize = 8;
/// Total bytes of the lanes in which a dots kernel accumulates one sum: 16 lanes of f32.
pub const DOT_BYTES: usize = 64;
/// Maximum number of rows of a tile on any instruction set.
pub const MAX_TILE_ROWS: usize = 14;
/// Maximum number of vectors in a row of a tile.
pub const TILE_VECTORS: usize = 2;
/// Maximum number of terms that a stream kernel adds at a time.
pub const MAX_STREAM_TERMS: usize = 8;

/// Arithmetic of one accumulation step: adds the product of an element of A and an element of B, or the products of
/// groups of narrow elements that are together as wide as the accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// Products and sums of f32.
    F32,
    /// Products and sums of f64.
    F64,
    /// Two products of bf16, accumulated in f32 (`vdpbf16ps` of AVX512_BF16).
    Pairs,
    /// Four products of bytes, signed in A and unsigned in B, accumulated in i32 (`vpdpbusd` of AVX512_VNNI).
    Quads,
    /// Pairs of bf16 in tile registers, accumulated in f32 (`tdpbf16ps` of AMX).
    PairTiles,
}

impl Arithmetic {
    /// Number of variants.
    pub const COUNT: usize = 5;
}

/// Parameters for which a micro-kernel is specialised. For narrow types, terms and elements mean groups of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Tile of `rows` rows of `vectors` vectors, the last of which is masked or whole. In A, the terms of a row are
    /// contiguous (`along_terms`), or the rows of a term, as in a packed panel.
    Tile { rows: usize, vectors: usize, masked: bool, along_terms: bool },
    /// Stream of `terms` terms of one row. With `first`, these are the first terms of a chain, and the sums in memory
    /// are not read.
    Stream { terms: usize, first: bool },
    /// Dot products of `rows` rows with `columns` columns; `right` is the element layout of B.
    Dots { rows: usize, columns: usize, right: Layout },
    /// Rectangle of `rows` × `columns` tile registers (1 or 2 each) of 16 × 16 sums, over steps of [`TILE_SLOTS`]
    /// groups. Rows and columns past the edge of the product are read and written, too.
    TileRegisters { rows: usize, columns: usize },
    /// Loads the shapes of all tile registers: 16 rows of 64 bytes.
    Configure,
    /// Releases the tile registers, so that a context switch need not save them.
    Release,
}

/// Number of rows of a tile register, and of slots (4 bytes each) in a row.
pub const TILE_SLOTS: usize = 16;

/// Element layout of operand B of a dots kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Slots: elements as wide as accumulators, or groups of narrow elements of that width.
    Slots,
    /// bf16 elements with f32 accumulators.
    Bf16,
    /// f16 elements with f32 accumulators.
    F16,
    /// Groups of four signed bytes; the kernel adds 128 to each, which makes them unsigned.
    Offset,
}
