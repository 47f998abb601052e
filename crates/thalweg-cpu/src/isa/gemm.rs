//! Micro-kernels of matrix products (`contract/`): their forms, and published functions.
//!
//! A *tile* kernel (GEMM) holds a rectangle of sums in registers over a block of terms; a *stream* kernel (GEMV) adds
//! several terms of one row into sums in memory; a *dots* kernel multiplies lines with contiguous terms, with
//! [`DOT_BYTES`] bytes of lanes per sum. An instruction set assembles them as straight loops with fixed registers. Always
//! true: in the first two, each sum is one chain of fused multiply-adds over ascending terms; in the third, each lane is.
//! Lanes outside the mask are neither read nor written; `rows`, `vectors` and `columns` fit the registers
//! ([`Isa::tile_rows`], [`Isa::dot_columns`]).

use super::Isa;
use super::pages;
use crate::product_call::{DotArgs, StreamArgs, TileArgs};

/// Maximum rows of a dots kernel.
pub const MAX_DOT_ROWS: usize = 4;
/// Bytes of lanes per sum of a dots kernel.
pub const DOT_BYTES: usize = 64;
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

/// A published micro-kernel.
pub struct Micro(pages::Code);

impl Micro {
    /// Emits a micro-kernel. `None` if the operating system provides no executable memory.
    pub fn new(isa: Isa, arithmetic: Arithmetic, form: Form) -> Option<Micro> {
        let bytes = isa.gemm(arithmetic, form);
        let name = format!("cpu-{isa:?}-product").to_lowercase();
        thalweg_runtime::dump(&name, || {
            vec![("txt", format!("{form:?} {arithmetic:?}").into_bytes()), ("bin", bytes.clone())]
        });
        pages::Code::publish(&bytes).map(Micro)
    }

    /// Runs a tile kernel.
    ///
    /// # Safety
    /// It was emitted as a tile kernel for an instruction set that the machine has, and the arguments describe memory
    /// that may be read and written as its form does.
    pub unsafe fn tile(&self, args: &TileArgs) {
        // SAFETY: the code was emitted with this signature and published whole; it lives as long as `self`.
        let f: extern "sysv64" fn(*const TileArgs) = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }

    /// Runs a stream kernel.
    ///
    /// # Safety
    /// As [`Micro::tile`].
    pub unsafe fn stream(&self, args: &StreamArgs) {
        // SAFETY: as above.
        let f: extern "sysv64" fn(*const StreamArgs) = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }

    /// Runs a dots kernel.
    ///
    /// # Safety
    /// As [`Micro::tile`].
    pub unsafe fn dots(&self, args: &DotArgs) {
        // SAFETY: as above.
        let f: extern "sysv64" fn(*const DotArgs) = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }
}

/// Element layout of a dots kernel's right factor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// As wide as sums, or in groups of that width.
    Slots,
    /// bf16, with f32 sums.
    Bf16,
    /// f16, with f32 sums.
    F16,
    /// Signed bytes; 128 is added to each, which gives slots of unsigned bytes.
    Offset,
}
