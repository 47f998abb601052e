//! Portable Rust implementation of the micro-kernels in `microkernels.rs`, for arithmetic and processors that the
//! emitter does not support.
//!
//! The compiler vectorises them over the columns; each sum is the same chain of operations as in emitted code.

use crate::gemm_call::{DotArgs, StreamArgs, TileArgs, lanes};
use crate::number::{Number, Scheme, Wide};
use crate::simd::{Job, dispatch};

/// Maximum number of rows (`ROWS`), and of columns (`COLUMNS`), of a portable tile.
pub const ROWS: usize = 4;
pub const COLUMNS: usize = 16;
/// Number of columns that the portable dot-product kernel computes at a time.
pub const DOT_COLUMNS: usize = 1;

/// Portable implementation of the tile kernel, `Kernels::tile`.
///
/// # Safety
/// As for `Kernels::tile`.
pub unsafe fn tile<T: Scheme>(rows: usize, columns: usize, args: &TileArgs) {
    struct Tile<'a, T> {
        rows: usize,
        columns: usize,
        args: &'a TileArgs,
        scheme: std::marker::PhantomData<T>,
    }
    impl<T: Scheme> Job for Tile<'_, T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            // SAFETY: the promise of `tile`.
            unsafe {
                if self.rows <= ROWS && self.columns <= COLUMNS {
                    return part::<T>(self.args, [0, 0], self.rows, self.columns);
                }
                // A tile sized for emitted code that could not be published.
                for row in (0..self.rows).step_by(ROWS) {
                    for column in (0..self.columns).step_by(COLUMNS) {
                        let (rows, columns) = (ROWS.min(self.rows - row), COLUMNS.min(self.columns - column));
                        part::<T>(self.args, [row, column], rows, columns);
                    }
                }
            }
        }
    }
    dispatch(Tile::<T> { rows, columns, args, scheme: std::marker::PhantomData });
}

/// Computes `rows × columns` sums of a tile, from position `[row, column]` on.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn part<T: Scheme>(args: &TileArgs, [row, column]: [usize; 2], rows: usize, columns: usize) {
    // SAFETY: the promise of `tile`, here and below; only elements of these rows, columns and terms are accessed.
    let sums = unsafe {
        match (rows, columns) {
            (ROWS, COLUMNS) => {
                chains::<T, ROWS>(args, row, column, |at| at.cast::<[T::Slot; COLUMNS]>().read_unaligned())
            }
            _ => {
                let read = |at: *const T::Slot| {
                    let mut right = [T::Slot::default(); COLUMNS];
                    right[..columns].iter_mut().enumerate().for_each(|(j, r)| *r = at.add(j).read_unaligned());
                    right
                };
                match rows {
                    1 => widened(chains::<T, 1>(args, row, column, read)),
                    2 => widened(chains::<T, 2>(args, row, column, read)),
                    3 => widened(chains::<T, 3>(args, row, column, read)),
                    _ => chains::<T, ROWS>(args, row, column, read),
                }
            }
        }
    };
    for (i, sums) in sums.iter().enumerate().take(rows) {
        let place = |base: *const u8, stride: isize| {
            base.wrapping_offset((row + i) as isize * stride).cast::<T::Sum>().wrapping_add(column)
        };
        let (from, to) = (place(args.from, args.from_row), place(args.to, args.to_row).cast_mut());
        for (j, &sum) in sums.iter().enumerate().take(columns) {
            // SAFETY: as above.
            unsafe {
                let before = if args.from.is_null() { sum } else { from.add(j).read().plus(sum) };
                to.add(j).write(before);
            }
        }
    }
}

fn widened<W: Wide, const N: usize>(sums: [[W; COLUMNS]; N]) -> [[W; COLUMNS]; ROWS] {
    std::array::from_fn(|i| if i < N { sums[i] } else { [W::ZERO; COLUMNS] })
}

/// Computes the sums of `N` rows by [`COLUMNS`] columns over all terms; `right` reads the columns of a term.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn chains<T: Scheme, const N: usize>(
    args: &TileArgs,
    row: usize,
    column: usize,
    right: impl Fn(*const T::Slot) -> [T::Slot; COLUMNS],
) -> [[T::Sum; COLUMNS]; N] {
    let mut sums = [[T::Sum::ZERO; COLUMNS]; N];
    let mut from_left = args.left.wrapping_offset(row as isize * args.left_row);
    let mut from_right = args.right.wrapping_add(column * size_of::<T::Slot>());
    for _ in 0..args.terms {
        let right = right(from_right.cast());
        for (i, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the promise of `tile`.
            let x = unsafe { from_left.wrapping_offset(i as isize * args.left_row).cast::<T::Slot>().read_unaligned() };
            for (sum, y) in sums.iter_mut().zip(right) {
                *sum = T::dot(x, y, *sum);
            }
        }
        from_left = from_left.wrapping_offset(args.left_term);
        from_right = from_right.wrapping_offset(args.right_term);
    }
    sums
}

/// Portable implementation of the kernel of tile registers, `Kernels::tile_registers`. It computes only the rows and
/// columns of the product, sum by sum: it defines their order, and is not fast.
///
/// # Safety
/// As for `Kernels::tile_registers`.
pub unsafe fn steps<T: Scheme>(rows: usize, columns: usize, args: &TileArgs) {
    struct Steps<'a, T> {
        rows: usize,
        columns: usize,
        args: &'a TileArgs,
        scheme: std::marker::PhantomData<T>,
    }
    impl<T: Scheme> Job for Steps<'_, T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let args = self.args;
            let slot = |at: *const u8, row: isize, stride: isize, slot: usize| {
                // SAFETY: the promise of `steps`: slots of the factors, at any alignment.
                unsafe { at.wrapping_offset(row * stride).cast::<T::Slot>().wrapping_add(slot).read_unaligned() }
            };
            for (i, j) in (0..self.rows).flat_map(|i| (0..self.columns).map(move |j| (i, j))) {
                let place = |base: *const u8, stride: isize| {
                    base.wrapping_offset(i as isize * stride).cast::<T::Sum>().wrapping_add(j)
                };
                let before = match args.from.is_null() {
                    true => T::Sum::ZERO,
                    // SAFETY: as above; the sums belong to this thread.
                    false => unsafe { place(args.from, args.from_row).read() },
                };
                let sum = (0..args.terms).fold(before, |sum, step| {
                    let left = args.left.wrapping_offset(step as isize * args.left_term);
                    let right = |s: usize| slot(args.right, (step * T::STEP + s) as isize, args.right_term, j);
                    T::step(|s| slot(left, i as isize, args.left_row, s), right, sum)
                });
                // SAFETY: as above.
                unsafe { place(args.to, args.to_row).cast_mut().write(sum) };
            }
        }
    }
    dispatch(Steps::<T> { rows, columns, args, scheme: std::marker::PhantomData });
}

/// Portable implementation of the stream kernel, `Kernels::stream`.
///
/// # Safety
/// As for `Kernels::stream`.
pub unsafe fn stream<T: Scheme>(terms: usize, first: bool, args: &StreamArgs) {
    struct Stream<'a, T> {
        terms: usize,
        first: bool,
        args: &'a StreamArgs,
        scheme: std::marker::PhantomData<T>,
    }
    impl<T: Scheme> Job for Stream<'_, T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let args = self.args;
            // SAFETY: the promise of `stream`: this many sums, which nobody else accesses.
            let sums = unsafe { std::slice::from_raw_parts_mut(args.sums.cast::<T::Sum>(), args.columns) };
            if self.first {
                sums.fill(T::Sum::ZERO);
            }
            for term in 0..self.terms {
                let row = args.right.wrapping_offset(term as isize * args.right_term).cast::<T::Slot>();
                // SAFETY: as above; the columns of a term are contiguous.
                let (x, row) = unsafe {
                    (args.left.cast::<T::Slot>().add(term).read(), std::slice::from_raw_parts(row, args.columns))
                };
                for (sum, &y) in sums.iter_mut().zip(row) {
                    *sum = T::dot(x, y, *sum);
                }
            }
        }
    }
    dispatch(Stream::<T> { terms, first, args, scheme: std::marker::PhantomData });
}

/// Portable implementation of the dots kernel, `Kernels::dots`.
///
/// # Safety
/// As for `Kernels::dots`.
pub unsafe fn dots<T: Scheme>(rows: usize, columns: usize, args: &DotArgs) {
    struct Dot<'a, T: Scheme> {
        left: &'a [T::Slot],
        right: &'a [T::Element],
    }
    impl<T: Scheme> Job for Dot<'_, T> {
        type Out = T::Sum;
        #[inline(always)]
        fn run(self) -> T::Sum {
            // A constant number of lanes, so that they stay in registers.
            match lanes::<T::Sum>() {
                8 => self.sum::<8>(),
                16 => self.sum::<16>(),
                32 => self.sum::<32>(),
                _ => self.sum::<64>(),
            }
        }
    }
    impl<T: Scheme> Dot<'_, T> {
        #[inline(always)]
        fn sum<const LANES: usize>(self) -> T::Sum {
            let mut lanes = [T::Sum::ZERO; LANES];
            for (left, right) in self.left.chunks_exact(LANES).zip(self.right.chunks_exact(LANES * T::GROUP)) {
                for (n, (lane, x)) in lanes.iter_mut().zip(left).enumerate() {
                    *lane = T::dot(*x, lying::<T>(right, n), *lane);
                }
            }
            let mut half = LANES / 2;
            while half > 0 {
                let (low, high) = lanes.split_at_mut(half);
                low.iter_mut().zip(high).for_each(|(low, high)| *low = low.plus(*high));
                half /= 2;
            }
            lanes[0]
        }
    }
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let left = args.left.wrapping_offset(row as isize * args.left_row).cast();
        let right = args.right.wrapping_offset(column as isize * args.right_column).cast();
        let to = args.sums.wrapping_offset(row as isize * args.sums_row).cast::<T::Sum>();
        // SAFETY: the promise of `dots`: both lines are contiguous, and there is space for a sum.
        unsafe {
            let left = std::slice::from_raw_parts(left, args.terms);
            let right = std::slice::from_raw_parts(right, args.terms * T::GROUP);
            to.add(column).write(dispatch(Dot::<T> { left, right }));
        }
    }
}

/// Slot `n` of a line of an operand B that is read in place instead of packed; terms past the end are 0.
#[inline(always)]
pub fn lying<T: Scheme>(line: &[T::Element], n: usize) -> T::Slot {
    let zero = T::Element::narrow(Wide::ZERO);
    let mut slot = T::slot(|term| line.get(n * T::GROUP + term).copied().unwrap_or(zero));
    if T::OFFSET {
        // SAFETY: one slot, of plain bytes.
        unsafe { super::pack::flip_signs(&mut slot, 1) };
    }
    slot
}
