//! Reductions.
//!
//! In: an operation, a dtype, a geometry of kept and reduced dimensions with any strides. Out: one value for each kept
//! index. The bits of the result depend on the values and their logical order alone (see `fold.rs`); NaN wins in
//! maxima and minima; bf16 and f16 are added in f32; nothing gives the identity.
//!
//! Where the reduced dimension is the denser one, each result is folded along memory; else rows of neighbouring results are
//! folded across it, in the order of memory. Threads share the results, and the blocks of each where there are few.

mod fold;
mod monoid;

use crate::simd::Shared;
use crate::threads::Threads;
use fold::{BLOCK, Reduced, Tree, column_arg, column_block, find, row_block};
pub use monoid::{Bf16, F16, Number, Wide};
use monoid::{Extreme, ExtremeKey, Monoid, Prod, Some as SomeTrue, Sum, Truth};
use std::ops::Range;
use thalweg_ir::{DType, ReduceOp};
use thalweg_kernel::ReduceGeometry;
use thalweg_runtime::Buffer;

/// Results folded side by side: with 32 lanes of 4 bytes, as much as a first-level cache holds.
const WIDTH: usize = 256;
/// Below so many elements a result is not worth a fold of its own along memory.
const SHORT: usize = 16;
/// Elements that a thread takes at a time.
const CHUNK: usize = 32 << 10;
/// Nanoseconds a byte that one thread takes where the input lies in cache (measured: 0.02 to 0.03 for f32 sums).
const NS_PER_BYTE: f64 = 0.025;

/// The dtype of a reduction's result.
pub fn output_dtype(op: ReduceOp, dtype: DType) -> DType {
    match op {
        ReduceOp::Any | ReduceOp::All => DType::Bool,
        ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I64,
        _ => dtype,
    }
}

/// Runs a reduction.
///
/// # Panics
/// When the geometry reaches outside the input, or the output is too small.
pub fn launch(op: ReduceOp, dtype: DType, geometry: &ReduceGeometry, operands: &[&Buffer], threads: &Threads) {
    let [input, output] = operands else { panic!("a reduction has 2 operands, {} given", operands.len()) };
    let results = geometry.kept.iter().try_fold(1usize, |n, d| n.checked_mul(d.0)).expect("a count of results");
    if results == 0 {
        return;
    }
    let wanted = results.checked_mul(output_dtype(op, dtype).size());
    assert!(wanted.is_some_and(|w| w <= output.bytes()), "{results} results of {} in {output:?}", op.name());
    check_reach(geometry, input.bytes() / dtype.size(), dtype);
    let (from, to) = (input.address(), output.address());
    assert!(
        (from as usize) >= to as usize + output.bytes() || (to as usize) >= from as usize + input.bytes(),
        "a reduction's output lies over its input"
    );
    macro_rules! plain {
        ($m:ty) => {
            fold_all::<$m>(Shared(from.cast()), Shared(to.cast()), geometry, threads)
        };
    }
    macro_rules! arg {
        ($m:ty) => {
            arg_all::<$m>(Shared(from.cast()), Shared(to.cast()), geometry, threads)
        };
    }
    macro_rules! number {
        ($m:ident) => {
            match dtype {
                DType::F32 => plain!($m<f32>),
                DType::F64 => plain!($m<f64>),
                DType::BF16 => plain!($m<Bf16>),
                DType::F16 => plain!($m<F16>),
                DType::I8 | DType::U8 => plain!($m<u8>),
                DType::I16 => plain!($m<i16>),
                DType::I32 | DType::U32 => plain!($m<i32>),
                DType::I64 => plain!($m<i64>),
                DType::Bool => plain!($m<Truth>),
            }
        };
    }
    macro_rules! ordered {
        ($run:ident, $m:ident, $max:expr) => {
            match dtype {
                DType::F32 => $run!($m<f32, $max>),
                DType::F64 => $run!($m<f64, $max>),
                DType::BF16 => $run!($m<Bf16, $max>),
                DType::F16 => $run!($m<F16, $max>),
                DType::I8 => $run!($m<i8, $max>),
                DType::I16 => $run!($m<i16, $max>),
                DType::I32 => $run!($m<i32, $max>),
                DType::I64 => $run!($m<i64, $max>),
                DType::U8 => $run!($m<u8, $max>),
                DType::U32 => $run!($m<u32, $max>),
                DType::Bool => $run!($m<Truth, $max>),
            }
        };
    }
    macro_rules! truth {
        ($all:expr) => {
            match (dtype.size(), dtype.is_float()) {
                (1, _) => plain!(SomeTrue<u8, $all, false>),
                (2, false) => plain!(SomeTrue<u16, $all, false>),
                (2, true) => plain!(SomeTrue<u16, $all, true>),
                (4, false) => plain!(SomeTrue<u32, $all, false>),
                (4, true) => plain!(SomeTrue<u32, $all, true>),
                (_, false) => plain!(SomeTrue<u64, $all, false>),
                (_, true) => plain!(SomeTrue<u64, $all, true>),
            }
        };
    }
    match op {
        ReduceOp::Sum => number!(Sum),
        ReduceOp::Prod => number!(Prod),
        ReduceOp::Max => ordered!(plain, Extreme, true),
        ReduceOp::Min => ordered!(plain, Extreme, false),
        ReduceOp::Any => truth!(false),
        ReduceOp::All => truth!(true),
        ReduceOp::ArgMax => ordered!(arg, ExtremeKey, true),
        ReduceOp::ArgMin => ordered!(arg, ExtremeKey, false),
    }
}

fn check_reach(geometry: &ReduceGeometry, has: usize, dtype: DType) {
    let dims = || geometry.kept.iter().chain(&geometry.reduced);
    if dims().any(|d| d.0 == 0) {
        return;
    }
    let (mut low, mut high) = (geometry.base as i128, geometry.base as i128);
    for &(size, stride) in dims() {
        let span = (size as i128 - 1) * stride as i128;
        low += span.min(0);
        high += span.max(0);
    }
    assert!(
        low >= 0 && high < has as i128,
        "a reduction reaches elements {low} to {high} of its input, which has {has} ({dtype})"
    );
}

/// A kept dimension.
#[derive(Clone, Copy, Debug)]
struct Kept {
    size: usize,
    input: isize,
    output: isize,
}

/// A reduction in the order in which it is walked.
struct Layout {
    /// The kept dimensions but the innermost, and that one, in whose direction results are neighbours.
    outer: Vec<Kept>,
    inner: Kept,
    reduced: Reduced,
    /// Results that one piece of work folds side by side; 0 where each result is folded along memory.
    width: usize,
    results: usize,
}

impl Layout {
    fn new(geometry: &ReduceGeometry, exact: bool) -> Layout {
        // Nothing is read of an empty reduction, and its strides may be anything.
        let empty = geometry.reduced.iter().any(|d| d.0 == 0);
        let mut kept: Vec<Kept> = Vec::with_capacity(geometry.kept.len());
        let mut step = 1;
        for &(size, input) in geometry.kept.iter().rev() {
            let input = if empty { 0 } else { input };
            kept.push(Kept { size, input, output: step });
            step *= size as isize;
        }
        kept.retain(|d| d.size != 1);
        kept.sort_by_key(|d| std::cmp::Reverse(d.input.unsigned_abs()));
        let mut merged: Vec<Kept> = Vec::with_capacity(kept.len());
        for d in kept {
            match merged.last_mut() {
                Some(last) if last.input == d.input * d.size as isize && last.output == d.output * d.size as isize => {
                    *last = Kept { size: last.size * d.size, ..d };
                }
                _ => merged.push(d),
            }
        }
        let inner = merged.pop().unwrap_or(Kept { size: 1, input: 0, output: 1 });
        let results = inner.size * merged.iter().map(|d| d.size).product::<usize>();

        let mut from: Vec<(usize, isize)> = geometry.reduced.iter().copied().filter(|d| d.0 != 1).collect();
        if exact {
            from.sort_by_key(|d| std::cmp::Reverse(d.1.unsigned_abs()));
        }
        let mut dims: Vec<(usize, isize)> = Vec::with_capacity(from.len().max(1));
        for (size, stride) in from {
            match dims.last_mut() {
                Some(last) if last.1 == stride.wrapping_mul(size as isize) => *last = (last.0 * size, stride),
                _ => dims.push((size, stride)),
            }
        }
        if dims.is_empty() {
            dims.push((1, 1));
        }
        let count = dims.iter().map(|d| d.0).product();
        let reduced = Reduced { dims, count };
        let (run, stride) = reduced.dims[reduced.dims.len() - 1];
        let along = inner.size == 1
            || (stride.unsigned_abs() < inner.input.unsigned_abs() || inner.input == 0) && run >= SHORT
            || inner.size < 4 && run >= SHORT;
        let width = if along { 0 } else { WIDTH.min(inner.size) };
        Layout { outer: merged, inner, reduced, width, results }
    }

    /// Pieces of work that results fall into.
    fn pieces(&self) -> usize {
        match self.width {
            0 => self.results,
            w => self.results / self.inner.size * self.inner.size.div_ceil(w),
        }
    }

    /// Where a piece's first result starts in the input and goes in the output, and how many results it has.
    fn piece(&self, number: usize) -> (isize, isize, usize) {
        let w = self.width.max(1);
        let across = self.inner.size.div_ceil(w);
        let column = number % across * w;
        let (mut input, mut output) = (column as isize * self.inner.input, column as isize * self.inner.output);
        let mut rest = number / across;
        for d in self.outer.iter().rev() {
            input += (rest % d.size) as isize * d.input;
            output += (rest % d.size) as isize * d.output;
            rest /= d.size;
        }
        (input, output, w.min(self.inner.size - column))
    }

    /// Whether there are too few pieces for the threads, so that blocks have to be shared too.
    fn split(&self, threads: usize) -> bool {
        threads > 1 && self.reduced.blocks() > 1 && self.pieces() < 4 * threads
    }

    fn estimate_ns<T>(&self) -> f64 {
        (self.results as f64) * (self.reduced.count * size_of::<T>()) as f64 * NS_PER_BYTE
    }

    fn grain(&self) -> usize {
        CHUNK.div_ceil(self.reduced.count.max(1).saturating_mul(self.width.max(1)))
    }
}

fn fold_all<M: Monoid>(input: Shared<M::In>, output: Shared<M::Out>, geometry: &ReduceGeometry, threads: &Threads) {
    let layout = Layout::new(geometry, M::EXACT);
    let reduced = &layout.reduced;
    let blocks = reduced.blocks();
    let estimate = layout.estimate_ns::<M::In>();
    // SAFETY (of every use below): `launch` found all elements of the geometry inside the input.
    let start = input.get().wrapping_offset(geometry.base);
    let start = Shared(start);
    // The partial results of one block of one piece, into `lanes[..n]`.
    let block = |at: isize, n: usize, range: Range<usize>, lanes: &mut Vec<M::Acc>| {
        // SAFETY: as above; the piece and its blocks are of this geometry.
        unsafe {
            let from = start.get().wrapping_offset(at);
            if layout.width == 0 {
                lanes.clear();
                lanes.push(row_block::<M>(from, reduced, range));
            } else {
                column_block::<M>(from, layout.inner.input, reduced, range, n, lanes);
            }
        }
    };
    // SAFETY: results of different pieces and places differ, and the output has room for all; see `launch`.
    let store = |at: isize, i: usize, value: M::Acc| unsafe {
        output.get().offset(at + i as isize * layout.inner.output).write(M::finish(value));
    };
    let width = layout.width.max(1);
    if layout.split(threads.for_work(estimate)) {
        let mut partial = vec![M::IDENTITY; layout.pieces() * blocks * width];
        let places = Shared(partial.as_mut_ptr());
        threads.run(layout.pieces() * blocks, (CHUNK / BLOCK / width).max(1), estimate, |range| {
            let mut lanes = Vec::new();
            for i in range {
                let (at, _, n) = layout.piece(i / blocks);
                block(at, n, reduced.block(i % blocks), &mut lanes);
                // SAFETY: each piece and block has `width` places of its own.
                unsafe { std::ptr::copy_nonoverlapping(lanes.as_ptr(), places.get().add(i * width), n) };
            }
        });
        let mut tree = Tree::<M>::new();
        for piece in 0..layout.pieces() {
            let (_, to, n) = layout.piece(piece);
            for i in 0..n {
                (0..blocks).for_each(|b| tree.push(partial[(piece * blocks + b) * width + i]));
                store(to, i, tree.take());
            }
        }
        return;
    }
    threads.run(layout.pieces(), layout.grain(), estimate, |range| {
        let mut lanes = Vec::new();
        let mut trees: Vec<Tree<M>> = (0..if blocks > 1 { width } else { 0 }).map(|_| Tree::new()).collect();
        for piece in range {
            let (at, to, n) = layout.piece(piece);
            if blocks <= 1 {
                // A reduction of nothing has no block; its range is empty and gives the identity.
                block(at, n, reduced.block(0), &mut lanes);
                (0..n).for_each(|i| store(to, i, lanes[i]));
                continue;
            }
            for b in 0..blocks {
                block(at, n, reduced.block(b), &mut lanes);
                trees.iter_mut().zip(&lanes[..n]).for_each(|(tree, &v)| tree.push(v));
            }
            trees[..n].iter_mut().enumerate().for_each(|(i, tree)| store(to, i, tree.take()));
        }
    });
}

fn arg_all<M: Monoid<Acc: Ord>>(
    input: Shared<M::In>,
    output: Shared<i64>,
    geometry: &ReduceGeometry,
    threads: &Threads,
) {
    // The order of the elements is the result here.
    let layout = Layout::new(geometry, false);
    let reduced = &layout.reduced;
    let blocks = reduced.blocks();
    let estimate = layout.estimate_ns::<M::In>() * 2.0;
    let start = Shared(input.get().wrapping_offset(geometry.base));
    let width = layout.width.max(1);
    // The largest keys of a block of a piece, and (across memory) where they are.
    let block = |at: isize, range: Range<usize>, best: &mut [M::Acc], place: &mut [i64]| {
        let from = start.get().wrapping_offset(at);
        // SAFETY: `launch` found all elements of the geometry inside the input.
        unsafe {
            if layout.width == 0 {
                place[0] = range.start as i64;
                best[0] = row_block::<M>(from, reduced, range);
            } else {
                column_arg::<M>(from, layout.inner.input, reduced, range, best, place);
            }
        }
    };
    // SAFETY: as in `fold_all`.
    let store = |at: isize, to: isize, i: usize, key: M::Acc, place: i64| unsafe {
        let place = if layout.width == 0 && reduced.count > 0 {
            let number = place as usize / BLOCK;
            find::<M>(start.get().wrapping_offset(at), reduced, reduced.block(number), key) as i64
        } else {
            place
        };
        output.get().offset(to + i as isize * layout.inner.output).write(place);
    };
    let split = layout.split(threads.for_work(estimate));
    // Each piece is folded whole, or by blocks whose results are then compared in order: the first of the largest is the same.
    let share = if split { 1 } else { blocks.max(1) };
    let shares = if split { blocks } else { 1 };
    let grain = if split { (CHUNK / BLOCK / width).max(1) } else { layout.grain() };
    let kept = if split { layout.pieces() * shares * width } else { 0 };
    let (mut keys, mut places) = (vec![M::IDENTITY; kept], vec![0i64; kept]);
    let (all_keys, all_places) = (Shared(keys.as_mut_ptr()), Shared(places.as_mut_ptr()));
    threads.run(layout.pieces() * shares, grain, estimate, |range| {
        let (mut best, mut place) = (vec![M::IDENTITY; width], vec![0; width]);
        let (mut key, mut at_key) = (best.clone(), place.clone());
        for i in range {
            let (at, to, n) = layout.piece(i / shares);
            let first = i % shares * share;
            block(at, reduced.block(first), &mut best[..n], &mut place[..n]);
            for b in first + 1..first + share {
                block(at, reduced.block(b), &mut key[..n], &mut at_key[..n]);
                for j in (0..n).filter(|&j| key[j] > best[j]).collect::<Vec<_>>() {
                    (best[j], place[j]) = (key[j], at_key[j]);
                }
            }
            if split {
                // SAFETY: each piece and block has `width` places of its own.
                unsafe {
                    std::ptr::copy_nonoverlapping(best.as_ptr(), all_keys.get().add(i * width), n);
                    std::ptr::copy_nonoverlapping(place.as_ptr(), all_places.get().add(i * width), n);
                }
            } else {
                (0..n).for_each(|j| store(at, to, j, best[j], place[j]));
            }
        }
    });
    if split {
        for piece in 0..layout.pieces() {
            let (at, to, n) = layout.piece(piece);
            for j in 0..n {
                let of = |b: usize| (piece * shares + b) * width + j;
                let best = (1..shares).fold(of(0), |best, b| if keys[of(b)] > keys[best] { of(b) } else { best });
                store(at, to, j, keys[best], places[best]);
            }
        }
    }
}
