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
use fold::{ArgLoops, BLOCK, Columns, Loops, Reduced, Tree};
pub use monoid::{Bf16, F16, Number, Wide};
use monoid::{Extreme, Mode, Prod, Sum, Truth, Truths};
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
    let mode = Mode {
        flip: matches!(op, ReduceOp::Min | ReduceOp::All | ReduceOp::ArgMin),
        zeros_equal: matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin),
        float: dtype.is_float(),
    };
    let (from, to) = (Shared(from), Shared(to));
    match op {
        ReduceOp::ArgMax | ReduceOp::ArgMin => arg_all(&arg_loops(dtype, mode), from, to, geometry, threads),
        _ => {
            let exact = !matches!(op, ReduceOp::Sum | ReduceOp::Prod);
            fold_all(&loops(op, dtype, mode), output_dtype(op, dtype).size(), exact, [from, to], geometry, threads);
        }
    }
}

/// The loops of an operation on a dtype.
fn loops(op: ReduceOp, dtype: DType, mode: Mode) -> Loops {
    macro_rules! number {
        ($m:ident) => {
            match dtype {
                DType::F32 => Loops::of::<$m<f32>>(mode),
                DType::F64 => Loops::of::<$m<f64>>(mode),
                DType::BF16 => Loops::of::<$m<Bf16>>(mode),
                DType::F16 => Loops::of::<$m<F16>>(mode),
                DType::I8 | DType::U8 => Loops::of::<$m<u8>>(mode),
                DType::I16 => Loops::of::<$m<i16>>(mode),
                DType::I32 | DType::U32 => Loops::of::<$m<i32>>(mode),
                DType::I64 => Loops::of::<$m<i64>>(mode),
                DType::Bool => Loops::of::<$m<Truth>>(mode),
            }
        };
    }
    match op {
        ReduceOp::Sum => number!(Sum),
        ReduceOp::Prod => number!(Prod),
        ReduceOp::Any | ReduceOp::All => match dtype.size() {
            1 => Loops::of::<Truths<u8>>(mode),
            2 => Loops::of::<Truths<u16>>(mode),
            4 => Loops::of::<Truths<u32>>(mode),
            _ => Loops::of::<Truths<u64>>(mode),
        },
        _ => arg_loops(dtype, mode).fold,
    }
}

/// The loops of maxima and minima of a dtype.
fn arg_loops(dtype: DType, mode: Mode) -> ArgLoops {
    match dtype {
        DType::F32 => ArgLoops::of::<Extreme<f32>>(mode),
        DType::F64 => ArgLoops::of::<Extreme<f64>>(mode),
        DType::BF16 => ArgLoops::of::<Extreme<Bf16>>(mode),
        DType::F16 => ArgLoops::of::<Extreme<F16>>(mode),
        DType::I8 => ArgLoops::of::<Extreme<i8>>(mode),
        DType::I16 => ArgLoops::of::<Extreme<i16>>(mode),
        DType::I32 => ArgLoops::of::<Extreme<i32>>(mode),
        DType::I64 => ArgLoops::of::<Extreme<i64>>(mode),
        DType::U8 => ArgLoops::of::<Extreme<u8>>(mode),
        DType::U32 => ArgLoops::of::<Extreme<u32>>(mode),
        DType::Bool => ArgLoops::of::<Extreme<Truth>>(mode),
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

    fn estimate_ns(&self, element: usize) -> f64 {
        self.results as f64 * self.reduced.count as f64 * element as f64 * NS_PER_BYTE
    }

    fn grain(&self) -> usize {
        CHUNK.div_ceil(self.reduced.count.max(1).saturating_mul(self.width.max(1)))
    }
}

fn fold_all(
    loops: &Loops,
    result_bytes: usize,
    exact: bool,
    [input, output]: [Shared<u8>; 2],
    geometry: &ReduceGeometry,
    threads: &Threads,
) {
    let layout = Layout::new(geometry, exact);
    let reduced = &layout.reduced;
    let blocks = reduced.blocks();
    let element = loops.element as isize;
    let estimate = layout.estimate_ns(loops.element);
    // The partial results of one block of one piece.
    let block = |at: isize, range: Range<usize>, lanes: &mut Vec<u64>, out: &mut [i64]| {
        let from = input.get().wrapping_offset(geometry.base.wrapping_add(at).wrapping_mul(element));
        // SAFETY: `launch` found all elements of the geometry inside the input; the piece and the block are parts of it.
        unsafe {
            if layout.width == 0 {
                out[0] = loops.row(from, reduced, range);
            } else {
                let step = layout.inner.input;
                loops.columns(Columns { input: from, step, reduced, range, mode: loops.mode }, lanes, out);
            }
        }
    };
    let store = |to: isize, slots: &[i64]| {
        let bytes = result_bytes as isize;
        // SAFETY: results of different pieces and places differ, and the output has room for all; see `launch`.
        unsafe { loops.finish(slots, output.get().offset(to * bytes), layout.inner.output * bytes) };
    };
    let width = layout.width.max(1);
    if layout.split(threads.for_work(estimate)) {
        let mut partial = vec![0i64; layout.pieces() * blocks * width];
        let places = Shared(partial.as_mut_ptr());
        threads.run(layout.pieces() * blocks, (CHUNK / BLOCK / width).max(1), estimate, |range| {
            let mut lanes = Vec::new();
            for i in range {
                let (at, _, n) = layout.piece(i / blocks);
                // SAFETY: each piece and block has `width` places of its own.
                let out = unsafe { std::slice::from_raw_parts_mut(places.get().add(i * width), n) };
                block(at, reduced.block(i % blocks), &mut lanes, out);
            }
        });
        let mut tree = Tree::default();
        for piece in 0..layout.pieces() {
            let (_, to, n) = layout.piece(piece);
            for i in 0..n {
                (0..blocks).for_each(|b| tree.push(loops, partial[(piece * blocks + b) * width + i]));
                store(to + i as isize * layout.inner.output, &[tree.take(loops)]);
            }
        }
        return;
    }
    threads.run(layout.pieces(), layout.grain(), estimate, |range| {
        let (mut lanes, mut out) = (Vec::new(), vec![0; width]);
        let mut trees: Vec<Tree> = (0..if blocks > 1 { width } else { 0 }).map(|_| Tree::default()).collect();
        for piece in range {
            let (at, to, n) = layout.piece(piece);
            let out = &mut out[..n];
            // A reduction of nothing has no block; the range of its first is empty and gives the identity.
            for b in 0..blocks.max(1) {
                block(at, reduced.block(b), &mut lanes, out);
                trees.iter_mut().zip(&*out).for_each(|(tree, &v)| tree.push(loops, v));
            }
            trees.iter_mut().zip(&mut *out).for_each(|(tree, v)| *v = tree.take(loops));
            store(to, out);
        }
    });
}

fn arg_all(loops: &ArgLoops, input: Shared<u8>, output: Shared<u8>, geometry: &ReduceGeometry, threads: &Threads) {
    // The order of the elements is the result here.
    let layout = Layout::new(geometry, false);
    let reduced = &layout.reduced;
    let blocks = reduced.blocks();
    let element = loops.fold.element as isize;
    let estimate = layout.estimate_ns(loops.fold.element) * 2.0;
    let width = layout.width.max(1);
    let start = |at: isize| input.get().wrapping_offset(geometry.base.wrapping_add(at).wrapping_mul(element));
    // The largest keys of a block of a piece, and (across memory) where in it they are.
    let block = |at: isize, range: Range<usize>, best: &mut [i64], place: &mut [u32]| {
        // SAFETY: `launch` found all elements of the geometry inside the input.
        unsafe {
            if layout.width == 0 {
                best[0] = loops.fold.row(start(at), reduced, range);
            } else {
                let (step, mode) = (layout.inner.input, loops.fold.mode);
                loops.columns(Columns { input: start(at), step, reduced, range, mode }, best, place);
            }
        }
    };
    // Along memory only the block is known: the place is looked for in it.
    let store = |at: isize, to: isize, key: i64, place: i64| {
        // SAFETY: as above, and as in `fold_all`.
        unsafe {
            let place = if layout.width == 0 && reduced.count > 0 {
                loops.find(start(at), reduced, reduced.block(place as usize / BLOCK), key) as i64
            } else {
                place
            };
            output.get().cast::<i64>().offset(to).write(place);
        }
    };
    // Each piece is folded whole, or by blocks whose results are then compared in order: the first of the largest is the same.
    let split = layout.split(threads.for_work(estimate));
    let (shares, share) = if split { (blocks, 1) } else { (1, blocks.max(1)) };
    let grain = if split { (CHUNK / BLOCK / width).max(1) } else { layout.grain() };
    let mut partial = vec![(0i64, 0i64); if split { layout.pieces() * shares * width } else { 0 }];
    let places = Shared(partial.as_mut_ptr());
    threads.run(layout.pieces() * shares, grain, estimate, |range| {
        let (mut key, mut place, mut best) = (vec![0; width], vec![0; width], vec![(0, 0); width]);
        for i in range {
            let (at, to, n) = layout.piece(i / shares);
            let first = i % shares * share;
            for b in first..first + share {
                block(at, reduced.block(b), &mut key[..n], &mut place[..n]);
                for (best, (&key, &place)) in best[..n].iter_mut().zip(key.iter().zip(&place)) {
                    if b == first || key > best.0 {
                        *best = (key, (b * BLOCK) as i64 + place as i64);
                    }
                }
            }
            for (j, &(key, place)) in best[..n].iter().enumerate() {
                if split {
                    // SAFETY: each piece and block has `width` places of its own.
                    unsafe { places.get().add(i * width + j).write((key, place)) };
                } else {
                    store(at, to + j as isize * layout.inner.output, key, place);
                }
            }
        }
    });
    for piece in 0..if split { layout.pieces() } else { 0 } {
        let (at, to, n) = layout.piece(piece);
        for j in 0..n {
            let of = |share: usize| partial[(piece * shares + share) * width + j];
            let best = (1..shares).fold(of(0), |best, s| if of(s).0 > best.0 { of(s) } else { best });
            store(at, to + j as isize * layout.inner.output, best.0, best.1);
        }
    }
}
