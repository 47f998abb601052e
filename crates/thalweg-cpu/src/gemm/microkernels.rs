//! Micro-kernels of GEMM and GEMV. *Tile*: a register tile of sums over a block of terms. *Stream*: a few terms of one
//! row, added to sums in memory. *Dots*: dot products of lines with contiguous terms.
//!
//! In: addresses, strides in bytes, counts. Out: sums. If the machine has an instruction set that the emitter supports,
//! floats and groups of bytes run as emitted code; everything else runs as portable code. "Terms" here means groups of
//! terms ([`Scheme::GROUP`]). Always true: a sum is one chain of fused multiply-adds
//! ([`Scheme::dot`]) from 0 over ascending terms (for dot products, as many chains as fit 64 bytes), so all
//! implementations give the same bits; elements outside `rows`, `columns` and `terms` are not accessed.

use super::portable;
use crate::engine::Choice;
use crate::gemm_call::{DotArgs, StreamArgs, TileArgs, lanes};
use crate::number::{Scheme, Wide};
use std::marker::PhantomData;
#[cfg(unix)]
use {
    crate::emitter::gemm::Micro,
    crate::isa::Isa,
    crate::isa::gemm::{self, Arithmetic, Form, Layout},
    crate::number::{Bf16, F16, Pairs},
    std::any::TypeId,
    std::sync::OnceLock,
};

/// Table of lane masks: 16 words of all ones, then 16 zeros. The 64 bytes from a suitable offset on are the mask of any
/// number of leading lanes of a vector of up to 64 bytes.
#[repr(align(32))]
struct Masks([u32; 32]);
static MASKS: Masks = {
    let mut m = [0; 32];
    let mut i = 0;
    while i < 16 {
        m[i] = u32::MAX;
        i += 1;
    }
    Masks(m)
};

/// Mask of the first `lanes` lanes, of `size` bytes each: the address of a vector of words, and a bit mask.
fn mask(lanes: usize, size: usize) -> (*const u8, u64) {
    (MASKS.0.as_ptr().cast::<u8>().wrapping_add(64 - lanes * size), (1 << lanes) - 1)
}

/// Micro-kernels of a scheme on an engine, and the tile sizes that they support.
pub struct Kernels<T> {
    #[cfg(unix)]
    emitted: Option<(Isa, Arithmetic)>,
    /// Maximum number of rows of a tile.
    pub rows: usize,
    /// Maximum number of columns of a tile.
    pub columns: usize,
    scheme: PhantomData<T>,
}

impl<T: Scheme> Kernels<T> {
    /// Selects the micro-kernels of an engine: emitted ones, or portable ones.
    pub fn new(choice: Choice) -> Kernels<T> {
        const { assert!(size_of::<T::Slot>() == size_of::<T::Sum>()) };
        #[cfg(unix)]
        if let Some((isa, arithmetic)) = choice.isa().filter(|i| i.available()).zip(arithmetic::<T>()) {
            let columns = gemm::TILE_VECTORS * isa.bytes() / size_of::<T::Sum>();
            let emitted = Some((isa, arithmetic));
            return Kernels { emitted, rows: isa.tile_rows(), columns, scheme: PhantomData };
        }
        let _ = choice;
        Kernels {
            #[cfg(unix)]
            emitted: None,
            rows: portable::ROWS,
            columns: portable::COLUMNS,
            scheme: PhantomData,
        }
    }

    /// Runs a tile of `rows` × `columns`, each at least 1 and at most the maximum in `self`. With `along_terms`, the
    /// terms of a row of A are contiguous, else its rows.
    ///
    /// # Safety
    /// All elements that the arguments describe are readable, those of `to` writable, and nobody else writes them or
    /// the factors meanwhile. `from` and `to` are the same elements or disjoint.
    pub unsafe fn tile(&self, rows: usize, columns: usize, along_terms: bool, args: &mut TileArgs) {
        debug_assert!((1..=self.rows).contains(&rows) && (1..=self.columns).contains(&columns) && args.terms > 0);
        debug_assert_eq!(if along_terms { args.left_term } else { args.left_row }, size_of::<T::Slot>() as isize);
        #[cfg(unix)]
        if let Some((isa, arithmetic)) = self.emitted {
            let size = size_of::<T::Sum>();
            let lanes = isa.bytes() / size;
            let vectors = columns.div_ceil(lanes);
            let last = columns - (vectors - 1) * lanes;
            (args.lanes, args.bits) = mask(last, size);
            let form = Form::Tile { rows, vectors, masked: last < lanes, along_terms };
            if let Some(micro) = emitted(isa, arithmetic, form) {
                // SAFETY: the machine has the instruction set (`new`); the rest is the caller's promise.
                unsafe { micro.tile(args) };
                return;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { portable::tile::<T>(rows, columns, args) };
    }

    /// Adds `terms` terms, 1 to [`MAX_STREAM_TERMS`], of one row to `args.columns` sums; with `first`, the sums start
    /// from 0.
    ///
    /// # Safety
    /// As for [`Kernels::tile`].
    pub unsafe fn stream(&self, terms: usize, first: bool, args: &mut StreamArgs) {
        debug_assert!((1..=MAX_STREAM_TERMS).contains(&terms));
        #[cfg(unix)]
        if let Some((isa, arithmetic)) = self.emitted {
            let size = size_of::<T::Sum>();
            (args.lanes, args.bits) = mask(args.columns % (isa.bytes() / size), size);
            if let Some(micro) = emitted(isa, arithmetic, Form::Stream { terms, first }) {
                // SAFETY: as above.
                unsafe { micro.stream(args) };
                return;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { portable::stream::<T>(terms, first, args) };
    }

    /// Maximum number of columns of [`Kernels::dots`] for `rows` rows; not less for fewer rows.
    pub fn dot_columns(&self, rows: usize) -> usize {
        #[cfg(unix)]
        if let Some((isa, _)) = self.emitted {
            return isa.dot_columns(rows);
        }
        let _ = rows;
        portable::DOT_COLUMNS
    }

    /// Computes the dot products of `rows` rows, 1 to [`DOT_ROWS`], with `columns` columns, 1 to
    /// [`Kernels::dot_columns`].
    ///
    /// # Safety
    /// As for [`Kernels::tile`].
    pub unsafe fn dots(&self, rows: usize, columns: usize, args: &DotArgs) {
        debug_assert!((1..=DOT_ROWS).contains(&rows) && (1..=self.dot_columns(rows)).contains(&columns));
        debug_assert!(args.terms.is_multiple_of(lanes::<T::Sum>()));
        #[cfg(unix)]
        if let Some((isa, arithmetic)) = self.emitted {
            let right = match TypeId::of::<T>() {
                t if t == TypeId::of::<Bf16>() => Layout::Bf16,
                t if t == TypeId::of::<F16>() => Layout::F16,
                _ if T::OFFSET => Layout::Offset,
                _ => Layout::Slots,
            };
            if let Some(micro) = emitted(isa, arithmetic, Form::Dots { rows, columns, right }) {
                // SAFETY: as above.
                unsafe { micro.dots(args) };
                return;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { portable::dots::<T>(rows, columns, args) };
    }
}

/// Returns the emitter's arithmetic for a scheme; `None` if the emitter does not support the scheme.
#[cfg(unix)]
fn arithmetic<T: Scheme>() -> Option<Arithmetic> {
    match TypeId::of::<T>() {
        t if t == TypeId::of::<Pairs>() => Some(Arithmetic::Pairs),
        _ if T::GROUP == 4 => Some(Arithmetic::Quads),
        _ if !T::Sum::FLOAT => None,
        _ if size_of::<T::Sum>() == 8 => Some(Arithmetic::F64),
        _ => Some(Arithmetic::F32),
    }
}

/// Maximum number of rows of [`Kernels::dots`].
pub const DOT_ROWS: usize = 4;
#[cfg(unix)]
const _: () = assert!(DOT_ROWS == gemm::MAX_DOT_ROWS && gemm::DOT_BYTES == 64);

/// Maximum number of columns of [`Kernels::dots`] on any engine.
pub const MAX_DOT_COLUMNS: usize = 8;
#[cfg(unix)]
const _: () = assert!(MAX_DOT_COLUMNS == gemm::MAX_DOT_COLUMNS && MAX_DOT_COLUMNS >= portable::DOT_COLUMNS);

/// Maximum number of terms of [`Kernels::stream`].
pub const MAX_STREAM_TERMS: usize = 8;

/// Number of micro-kernel forms (tile sizes, stream lengths, dot-product sizes) per instruction set and arithmetic.
#[cfg(unix)]
const FORMS: usize = STREAMS + 2 * gemm::MAX_STREAM_TERMS + 4 * gemm::MAX_DOT_ROWS * gemm::MAX_DOT_COLUMNS;
/// Index of the first stream kernel in the table of forms; tile kernels precede it, dot-product kernels follow.
#[cfg(unix)]
const STREAMS: usize = gemm::TILE_VECTORS * 4 * gemm::MAX_TILE_ROWS;

/// Returns the code of a micro-kernel form, emitted on first request. `None` if the operating system provides no
/// executable memory.
#[cfg(unix)]
fn emitted(isa: Isa, arithmetic: Arithmetic, form: Form) -> Option<&'static Micro> {
    static EMITTED: [[[OnceLock<Option<Micro>>; FORMS]; 4]; Isa::COUNT] =
        [const { [const { [const { OnceLock::new() }; FORMS] }; 4] }; Isa::COUNT];
    let number = match form {
        Form::Tile { rows, vectors, masked, along_terms } => {
            ((rows - 1) * gemm::TILE_VECTORS + vectors - 1) * 4 + 2 * masked as usize + along_terms as usize
        }
        Form::Stream { terms, first } => STREAMS + 2 * (terms - 1) + first as usize,
        Form::Dots { rows, columns, right } => {
            let number = ((rows - 1) * 4 + right as usize) * gemm::MAX_DOT_COLUMNS + columns - 1;
            STREAMS + 2 * gemm::MAX_STREAM_TERMS + number
        }
    };
    let place = &EMITTED[isa as usize][arithmetic as usize][number];
    place.get_or_init(|| Micro::new(isa, arithmetic, form)).as_ref()
}
