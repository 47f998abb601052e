//! Micro-kernels of GEMM and GEMV. *Tile*: a register tile of sums over a block of terms. *Stream*: a few terms of one
//! row, added to sums in memory. *Dots*: dot products of lines with contiguous terms. *Tile registers*: a rectangle
//! of sums over a block of terms, in the tile registers of AMX.
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
    crate::number::{Bf16, F16, PairTiles, Pairs},
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
        if T::IN_STEPS {
            let emitted = choice.isa().zip(arithmetic::<T>(choice));
            return Kernels { emitted, rows: REGISTER_TILE, columns: REGISTER_TILE, scheme: PhantomData };
        }
        #[cfg(unix)]
        if let Some((isa, arithmetic)) = choice.isa().filter(|i| i.available()).zip(arithmetic::<T>(choice)) {
            let columns = gemm::TILE_VECTORS * isa.bytes() / size_of::<T::Sum>();
            let emitted = Some((isa, arithmetic));
            return Kernels { emitted, rows: isa.tile_rows(), columns, scheme: PhantomData };
        }
        let _ = choice;
        let [rows, columns] = if T::STEP > 1 { [REGISTER_TILE; 2] } else { [portable::ROWS, portable::COLUMNS] };
        Kernels {
            #[cfg(unix)]
            emitted: None,
            rows,
            columns,
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
        unsafe { portable::tile::<T::Arithmetic>(rows, columns, args) };
    }

    /// Runs a rectangle of tile registers for `rows` × `columns` sums, over `args.terms` steps of [`Scheme::STEP`] slots
    /// each. The terms of a row of A are contiguous; B is a panel of [`Kernels::columns`] columns.
    ///
    /// # Safety
    /// As for [`Kernels::tile`], for the rows and columns of whole tile registers (multiples of [`TILE_SLOTS`]); the
    /// thread holds a [`TileRegisters`] of these kernels.
    pub unsafe fn tile_registers(&self, rows: usize, columns: usize, args: &TileArgs) {
        debug_assert!((1..=self.rows).contains(&rows) && (1..=self.columns).contains(&columns) && args.terms > 0);
        #[cfg(unix)]
        if let Some((isa, arithmetic)) = self.emitted {
            let form = Form::TileRegisters { rows: rows.div_ceil(TILE_SLOTS), columns: columns.div_ceil(TILE_SLOTS) };
            if let Some(micro) = emitted(isa, arithmetic, form) {
                // SAFETY: the machine has the instruction set (`new`), and the tiles are configured (the caller's
                // promise, as the rest).
                unsafe { micro.tile(args) };
                return;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { portable::steps::<T::Arithmetic>(rows, columns, args) };
    }

    /// Configures the tile registers of this thread, if these kernels use them, until the value is dropped.
    pub fn hold_tile_registers(&self) -> TileRegisters {
        #[cfg(unix)]
        if let Some((isa, arithmetic)) = self.emitted.filter(|_| T::STEP > 1) {
            let both = [Form::Configure, Form::Release].map(|form| emitted(isa, arithmetic, form));
            if let [Some(configure), Some(release)] = both {
                if HOLDERS.get() == 0 {
                    // SAFETY: the machine has tile registers, which this process may use (`new`).
                    unsafe { configure.configure(&SHAPES.0) };
                }
                HOLDERS.set(HOLDERS.get() + 1);
                return TileRegisters { release: Some(release), thread: PhantomData };
            }
        }
        TileRegisters {
            #[cfg(unix)]
            release: None,
            thread: PhantomData,
        }
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
        unsafe { portable::stream::<T::Arithmetic>(terms, first, args) };
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

/// Maximum number of rows, and of columns, of a rectangle of tile registers: two of each.
const REGISTER_TILE: usize = 32;
/// Number of rows of a tile register, and of slots in a row.
pub const TILE_SLOTS: usize = 16;
#[cfg(unix)]
const _: () = assert!(TILE_SLOTS == gemm::TILE_SLOTS && REGISTER_TILE == 2 * TILE_SLOTS);

/// Configuration that `ldtilecfg` loads: palette 1, and for 8 tiles 64 bytes a row and 16 rows.
#[cfg(unix)]
#[repr(align(64))]
struct Shapes([u8; 64]);
#[cfg(unix)]
static SHAPES: Shapes = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    Shapes(bytes)
};

#[cfg(unix)]
thread_local! {
    /// Number of [`TileRegisters`] of this thread: products may be nested, and all use the same shapes.
    static HOLDERS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Configured tile registers of the current thread, released when the last such value of the thread is dropped.
pub struct TileRegisters {
    #[cfg(unix)]
    release: Option<&'static Micro>,
    /// The registers belong to the thread: the value must not be sent to another one.
    thread: PhantomData<*const ()>,
}

impl Drop for TileRegisters {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(release) = self.release {
            HOLDERS.set(HOLDERS.get() - 1);
            if HOLDERS.get() == 0 {
                // SAFETY: the machine has tile registers, and nobody on this thread uses them any more.
                unsafe { release.release() };
            }
        }
    }
}

/// Returns the emitter's arithmetic for a scheme; `None` if the emitter does not support the scheme, or the engine lacks
/// its instruction.
#[cfg(unix)]
fn arithmetic<T: Scheme>(choice: Choice) -> Option<Arithmetic> {
    match TypeId::of::<T>() {
        t if t == TypeId::of::<Pairs>() => choice.pairs().then_some(Arithmetic::Pairs),
        t if t == TypeId::of::<PairTiles>() => choice.tiles().then_some(Arithmetic::PairTiles),
        _ if T::GROUP == 4 => choice.quads().then_some(Arithmetic::Quads),
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
const FORMS: usize = TILE_REGISTERS + 4 + 2;
/// Index of the first kernel of tile registers in the table of forms.
#[cfg(unix)]
const TILE_REGISTERS: usize = STREAMS + 2 * gemm::MAX_STREAM_TERMS + 4 * gemm::MAX_DOT_ROWS * gemm::MAX_DOT_COLUMNS;
/// Index of the first stream kernel in the table of forms; tile kernels precede it, dot-product kernels follow.
#[cfg(unix)]
const STREAMS: usize = gemm::TILE_VECTORS * 4 * gemm::MAX_TILE_ROWS;

/// Returns the code of a micro-kernel form, emitted on first request. `None` if the operating system provides no
/// executable memory.
#[cfg(unix)]
fn emitted(isa: Isa, arithmetic: Arithmetic, form: Form) -> Option<&'static Micro> {
    static EMITTED: [[[OnceLock<Option<Micro>>; FORMS]; Arithmetic::COUNT]; Isa::COUNT] =
        [const { [const { [const { OnceLock::new() }; FORMS] }; Arithmetic::COUNT] }; Isa::COUNT];
    let number = match form {
        Form::Tile { rows, vectors, masked, along_terms } => {
            ((rows - 1) * gemm::TILE_VECTORS + vectors - 1) * 4 + 2 * masked as usize + along_terms as usize
        }
        Form::Stream { terms, first } => STREAMS + 2 * (terms - 1) + first as usize,
        Form::Dots { rows, columns, right } => {
            let number = ((rows - 1) * 4 + right as usize) * gemm::MAX_DOT_COLUMNS + columns - 1;
            STREAMS + 2 * gemm::MAX_STREAM_TERMS + number
        }
        Form::TileRegisters { rows, columns } => TILE_REGISTERS + 2 * (rows - 1) + columns - 1,
        Form::Configure => TILE_REGISTERS + 4,
        Form::Release => TILE_REGISTERS + 5,
    };
    let place = &EMITTED[isa as usize][arithmetic as usize][number];
    place.get_or_init(|| Micro::new(isa, arithmetic, form)).as_ref()
}
