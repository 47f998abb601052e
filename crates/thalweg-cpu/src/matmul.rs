//! Matrix products.
//!
//! In: a dtype and a geometry with any strides. Out: `c`, row-major. f32 and f64 go through the `matrixmultiply` crate,
//! which packs by strides itself; bf16 and f16 are widened to f32 first and rounded once; integers wrap. A product with
//! one row or one column is bound by memory and has loops of its own. The bits of the result do not depend on the
//! number of threads: chunks are rows or columns of `c`, and the order along `k` is fixed.

use crate::memory::PRIVATE;
use crate::number::{Bf16, F16, Number, Wide};
use crate::simd::{Job, Shared, dispatch};
use crate::threads::Threads;
use thalweg_ir::DType;
use thalweg_kernel::{MatmulGeometry, Moved};
use thalweg_runtime::Buffer;

/// Nanoseconds a multiplication with its addition (measured: 55 to 80 GFLOP/s a thread through `matrixmultiply` for
/// f32).
const NS_PER_MULTIPLY: f64 = 0.03;
/// Of integers.
const NS_PER_INT_MULTIPLY: f64 = 0.1;
/// Nanoseconds a byte of a matrix that meets a vector.
const NS_PER_BYTE: f64 = 0.03;
/// Rows or columns of a chunk: a whole number of every micro-kernel's, and enough to pay for packing the other matrix
/// again.
const CHUNK: usize = 96;
/// Terms that are added up in sequence before they join a sum, and columns whose sums are carried side by side.
const TERMS: usize = 512;
const COLUMNS: usize = 1024;
/// Columns whose lanes of partial sums are carried side by side in a product with a vector: 8 KiB of f32.
const VECTOR_COLUMNS: usize = 64;

/// One matrix: address of its first element, row stride and column stride.
#[derive(Clone, Copy)]
struct Matrix<T> {
    first: Shared<T>,
    rows: isize,
    columns: isize,
}

impl<T: Copy> Matrix<T> {
    fn at(self, row: usize, column: usize) -> *mut T {
        self.first.get().wrapping_offset(row as isize * self.rows + column as isize * self.columns)
    }

    fn moved(self, elements: isize) -> Matrix<T> {
        Matrix { first: Shared(self.first.get().wrapping_offset(elements)), ..self }
    }

    fn from(self, row: usize, column: usize) -> Matrix<T> {
        Matrix { first: Shared(self.at(row, column)), ..self }
    }
}

/// Runs a matrix product.
///
/// # Panics
/// When the geometry reaches outside an operand, or the output lies over an input.
pub fn launch(dtype: DType, geometry: &MatmulGeometry, operands: &[&Buffer], threads: &Threads) {
    let [a, b, c] = operands else { panic!("a matrix product has 3 operands, {} given", operands.len()) };
    let &MatmulGeometry { m, n, k, .. } = geometry;
    let batches = geometry.batch.iter().try_fold(1usize, |n, d| n.checked_mul(d.0));
    let bytes = [m, n, dtype.size()].iter().try_fold(batches.expect("a count of products"), |p, &q| p.checked_mul(q));
    assert!(bytes.is_some_and(|b| b <= c.bytes()), "the product of {m}×{k} and {k}×{n} does not fit {c:?}");
    let bytes = bytes.expect("just checked");
    if bytes == 0 {
        return;
    }
    if k == 0 {
        // SAFETY: the output has as many bytes, as just checked; zero is 0 in every dtype.
        unsafe { c.address().write_bytes(0, bytes) };
        return;
    }
    for (which, operand, at, dims, batch) in [
        ("left", a, geometry.a, [m, k], geometry.batch.iter().map(|d| (d.0, d.1)).collect::<Vec<_>>()),
        ("right", b, geometry.b, [k, n], geometry.batch.iter().map(|d| (d.0, d.2)).collect()),
    ] {
        let all = batch.into_iter().chain([(dims[0], at.1), (dims[1], at.2)]);
        let (mut low, mut high) = (at.0 as i128, at.0 as i128);
        for (size, stride) in all {
            let span = (size as i128 - 1) * stride as i128;
            low += span.min(0);
            high += span.max(0);
        }
        let has = operand.bytes() / dtype.size();
        assert!(
            low >= 0 && high < has as i128,
            "a product reaches elements {low} to {high} of its {which} side, which has {has} ({dtype})"
        );
        let (from, to) = (operand.address() as usize, c.address() as usize);
        assert!(
            from >= to + c.bytes() || to >= from + operand.bytes(),
            "a product's output lies over its {which} side"
        );
    }
    let addresses = [a.address(), b.address(), c.address()];
    let estimate = estimate_ns(dtype, geometry);
    match dtype {
        DType::F32 => run::<f32>(geometry, addresses, threads, estimate, product_f32),
        DType::F64 => run::<f64>(geometry, addresses, threads, estimate, product_f64),
        DType::BF16 => run::<Bf16>(geometry, addresses, threads, estimate, product_narrow),
        DType::F16 => run::<F16>(geometry, addresses, threads, estimate, product_narrow),
        DType::I8 | DType::U8 => run::<u8>(geometry, addresses, threads, estimate, product_int),
        DType::I16 => run::<i16>(geometry, addresses, threads, estimate, product_int),
        DType::I32 | DType::U32 => run::<i32>(geometry, addresses, threads, estimate, product_int),
        DType::I64 => run::<i64>(geometry, addresses, threads, estimate, product_int),
        DType::Bool => panic!("bool has no matrix product"),
    }
}

/// Columns of `b` and terms that `matrixmultiply` packs at a time (`S::nc` and `S::kc` of its f32 and f64 kernels).
const PACKED_COLUMNS: usize = 1024;
const PACKED_TERMS: usize = 256;

/// How a launch cuts `c`: the length of its longer side in a chunk, how many chunks a product has, and whether that
/// side is its rows.
fn chunks(geometry: &MatmulGeometry, threads: &Threads, estimate: f64) -> (usize, usize, bool) {
    let &MatmulGeometry { m, n, .. } = geometry;
    let batches: usize = geometry.batch.iter().map(|d| d.0).product();
    let (long, by_rows) = if m >= n { (m, true) } else { (n, false) };
    let wanted = if threads.for_work(estimate) == 1 { 1 } else { (4 * threads.count()).div_ceil(batches) };
    let length = long.div_ceil(wanted).next_multiple_of(CHUNK).min(long);
    (length, long.div_ceil(length), by_rows)
}

/// The time that one thread will take.
fn estimate_ns(dtype: DType, geometry: &MatmulGeometry) -> f64 {
    let &MatmulGeometry { m, n, k, .. } = geometry;
    let batches: usize = geometry.batch.iter().map(|d| d.0).product();
    let multiplications = batches as f64 * m as f64 * n as f64 * k as f64;
    let thin = NS_PER_BYTE * dtype.size() as f64;
    multiplications
        * match dtype {
            _ if m == 1 || n == 1 => thin,
            DType::F64 => 2.0 * NS_PER_MULTIPLY,
            _ if dtype.is_float() => NS_PER_MULTIPLY,
            _ => NS_PER_INT_MULTIPLY,
        }
}

/// What a launch moves: each chunk packs its own parts of both matrices, panels of them a block of columns and terms at
/// a time, and floats come back to `c` for each block of terms.
pub fn moves(dtype: DType, geometry: &MatmulGeometry, threads: &Threads) -> Moved {
    let &MatmulGeometry { m, n, k, .. } = geometry;
    let batches: usize = geometry.batch.iter().map(|d| d.0).product();
    let size = dtype.size();
    if batches * m * n == 0 {
        return Moved::default();
    }
    // A matrix that all products share, or that a step of 0 leads along, has fewer elements than it seems.
    let distinct = |which: usize, dims: [usize; 2], steps: (isize, isize, isize)| {
        let stride = |d: &(usize, isize, isize)| if which == 0 { d.1 } else { d.2 };
        let shared = geometry.batch.iter().filter(|d| stride(d) == 0).map(|d| d.0).product::<usize>();
        let own = [steps.1, steps.2].iter().zip(dims).filter(|(s, _)| **s != 0).map(|(_, d)| d).product::<usize>();
        [own * size, shared]
    };
    let written = batches * m * n * size;
    if k == 0 {
        return Moved { written: written as u64, ..Moved::default() };
    }
    let [a, a_shared] = distinct(0, [m, k], geometry.a);
    let [b, b_shared] = distinct(1, [k, n], geometry.b);
    let near = |bytes: usize| bytes <= PRIVATE;
    // One product, all of which may stay.
    let whole = a + b + m * n * size;
    let of = |bytes: usize, shared: usize, again: usize| match near(whole) {
        true => bytes * batches / shared,
        false => bytes * batches * again,
    };
    let (_, parts, by_rows) = chunks(geometry, threads, estimate_ns(dtype, geometry));
    let (long, float) = (m.max(n).div_ceil(parts), dtype.is_float());
    let (rows, columns) = if by_rows { (long, n) } else { (m, long) };
    if m == 1 || n == 1 {
        let read = of(a, a_shared, if by_rows { 1 } else { parts }) + of(b, b_shared, if by_rows { parts } else { 1 });
        return Moved { read: read as u64, written: written as u64, ..Moved::default() };
    }
    let blocks = |n: usize, of: usize| if float { n.div_ceil(of) } else { 1 };
    let (columns_at_a_time, terms) = (blocks(columns, PACKED_COLUMNS), blocks(k, PACKED_TERMS));
    let a_again = columns_at_a_time * if by_rows { 1 } else { parts };
    let b_again = if by_rows { parts } else { 1 };
    let mut moved = Moved {
        read: (of(a, a_shared, a_again) + of(b, b_shared, b_again)) as u64,
        written: written as u64,
        ..Moved::default()
    };
    if !near(whole) && float {
        let again = (written * (terms - 1)) as u64;
        (moved.read, moved.written) = (moved.read + again, moved.written + again);
    }
    // Narrow floats are widened, and integers packed, into matrices of a chunk.
    let wide = if float { 4 } else { size };
    let narrow = float && size < 4;
    let scratch = if narrow { (rows + columns) * k + rows * columns } else { columns * k };
    let packs = narrow || !float;
    if packs && !near(scratch * wide) {
        let all = (scratch * wide * parts * batches) as u64;
        (moved.read, moved.written) = (moved.read + all, moved.written + all);
    }
    moved
}

/// Sizes of one product.
#[derive(Clone, Copy)]
struct Sizes {
    m: usize,
    n: usize,
    k: usize,
}

/// A whole product of that size, `c` with any strides.
type Product<T> = unsafe fn(Sizes, Matrix<T>, Matrix<T>, Matrix<T>);

fn run<T: Number>(
    geometry: &MatmulGeometry,
    addresses: [*mut u8; 3],
    threads: &Threads,
    estimate: f64,
    product: Product<T>,
) {
    let &MatmulGeometry { m, n, k, .. } = geometry;
    let at = |i: usize, (base, rows, columns): (isize, isize, isize)| {
        Matrix { first: Shared(addresses[i].cast::<T>()), rows, columns }.moved(base)
    };
    let (a, b, c) = (at(0, geometry.a), at(1, geometry.b), at(2, (0, n as isize, 1)));
    let batches: usize = geometry.batch.iter().map(|d| d.0).product();
    // Chunks are cut along the longer side of `c`, some for each thread, or one a batch where there are enough of
    // those.
    let (length, parts, by_rows) = chunks(geometry, threads, estimate);
    let long = m.max(n);
    threads.run(batches * parts, 1, estimate, |range| {
        for i in range {
            let (mut from_a, mut from_b, mut rest) = (0, 0, i / parts);
            for &(size, stride_a, stride_b) in geometry.batch.iter().rev() {
                from_a += (rest % size) as isize * stride_a;
                from_b += (rest % size) as isize * stride_b;
                rest /= size;
            }
            let (a, b) = (a.moved(from_a), b.moved(from_b));
            let c = c.moved((i / parts * m * n) as isize);
            let start = i % parts * length;
            let len = length.min(long - start);
            let (a, b, c, sizes) = if by_rows {
                (a.from(start, 0), b, c.from(start, 0), Sizes { m: len, n, k })
            } else {
                (a, b.from(0, start), c.from(0, start), Sizes { m, n: len, k })
            };
            // SAFETY: `launch` found all elements of the geometry inside their operands and the output apart from the
            // inputs; no two chunks have an element of `c` in common.
            unsafe {
                if m == 1 {
                    vector(sizes.k, sizes.n, (a.first, a.columns), b, (c.first, c.columns));
                } else if n == 1 {
                    let transposed = Matrix { first: a.first, rows: a.columns, columns: a.rows };
                    vector(sizes.k, sizes.m, (b.first, b.rows), transposed, (c.first, c.rows));
                } else {
                    product(sizes, a, b, c);
                }
            }
        }
    });
}

unsafe fn product_f32(s: Sizes, a: Matrix<f32>, b: Matrix<f32>, c: Matrix<f32>) {
    // SAFETY: the caller's promise; `c` is not read, and its rows do not overlap.
    unsafe {
        matrixmultiply::sgemm(
            s.m,
            s.k,
            s.n,
            1.0,
            a.at(0, 0),
            a.rows,
            a.columns,
            b.at(0, 0),
            b.rows,
            b.columns,
            0.0,
            c.at(0, 0),
            c.rows,
            c.columns,
        );
    }
}

unsafe fn product_f64(s: Sizes, a: Matrix<f64>, b: Matrix<f64>, c: Matrix<f64>) {
    // SAFETY: as above.
    unsafe {
        matrixmultiply::dgemm(
            s.m,
            s.k,
            s.n,
            1.0,
            a.at(0, 0),
            a.rows,
            a.columns,
            b.at(0, 0),
            b.rows,
            b.columns,
            0.0,
            c.at(0, 0),
            c.rows,
            c.columns,
        );
    }
}

unsafe fn product_narrow<T: Number<Wide = f32>>(s: Sizes, a: Matrix<T>, b: Matrix<T>, c: Matrix<T>) {
    // SAFETY: the caller's promise, for all three.
    unsafe {
        let mut wide_a = widened(a, s.m, s.k);
        let mut wide_b = widened(b, s.k, s.n);
        let mut wide_c = vec![0f32; s.m * s.n];
        let dense = |v: &mut Vec<f32>, columns: usize| Matrix {
            first: Shared(v.as_mut_ptr()),
            rows: columns as isize,
            columns: 1,
        };
        product_f32(s, dense(&mut wide_a, s.k), dense(&mut wide_b, s.n), dense(&mut wide_c, s.n));
        for (i, row) in wide_c.chunks_exact(s.n).enumerate() {
            for (j, &x) in row.iter().enumerate() {
                c.at(i, j).write(T::narrow(x));
            }
        }
    }
}

/// A matrix row-major in the type that it is computed in.
///
/// # Safety
/// All its elements are readable.
unsafe fn widened<T: Number>(from: Matrix<T>, rows: usize, columns: usize) -> Vec<T::Wide> {
    struct Widen<T> {
        from: Matrix<T>,
        rows: usize,
        columns: usize,
    }
    impl<T: Number> Job for Widen<T> {
        type Out = Vec<T::Wide>;
        #[inline(always)]
        fn run(self) -> Vec<T::Wide> {
            let mut out = vec![T::Wide::ZERO; self.rows * self.columns];
            for (i, row) in out.chunks_exact_mut(self.columns).enumerate() {
                let from = self.from.at(i, 0);
                for (j, x) in row.iter_mut().enumerate() {
                    let step = if self.from.columns == 1 { j as isize } else { j as isize * self.from.columns };
                    // SAFETY: the promise of `widened`.
                    *x = unsafe { from.offset(step).read() }.widen();
                }
            }
            out
        }
    }
    dispatch(Widen { from, rows, columns })
}

/// A product of integers: rows of `b`, packed, added up into rows of `c`.
unsafe fn product_int<T: Number<Wide = T> + Wide>(s: Sizes, a: Matrix<T>, b: Matrix<T>, c: Matrix<T>) {
    struct Rows<'a, T> {
        sizes: Sizes,
        a: Matrix<T>,
        b: &'a [T],
        c: Matrix<T>,
    }
    impl<T: Number<Wide = T> + Wide> Job for Rows<'_, T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let Sizes { m, n, k } = self.sizes;
            let mut sums = vec![T::ZERO; n.min(COLUMNS)];
            for (first, block) in (0..n).step_by(COLUMNS).map(|j| (j, COLUMNS.min(n - j))) {
                for i in 0..m {
                    let sums = &mut sums[..block];
                    sums.fill(T::ZERO);
                    for p in 0..k {
                        // SAFETY: `product_int` is given readable elements.
                        let x = unsafe { self.a.at(i, p).read() };
                        for (sum, &y) in sums.iter_mut().zip(&self.b[p * n + first..][..block]) {
                            *sum = sum.plus(x.times(y));
                        }
                    }
                    for (j, &sum) in sums.iter().enumerate() {
                        // SAFETY: `product_int` is given a writable `c`.
                        unsafe { self.c.at(i, first + j).write(sum) };
                    }
                }
            }
        }
    }
    // SAFETY: the caller's promise.
    let packed = unsafe { widened(b, s.k, s.n) };
    dispatch(Rows { sizes: s, a, b: &packed, c });
}

/// `y[j] = Σ x[p]·matrix[p, j]` over `p < k`, for `j < n`; `x` and `y` with their strides.
///
/// # Safety
/// All elements of `x` and the matrix are readable, those of `y` writable and apart from them.
unsafe fn vector<T: Number>(k: usize, n: usize, x: (Shared<T>, isize), matrix: Matrix<T>, y: (Shared<T>, isize)) {
    struct Vector<T> {
        k: usize,
        n: usize,
        x: (Shared<T>, isize),
        matrix: Matrix<T>,
        y: (Shared<T>, isize),
    }
    impl<T: Number> Job for Vector<T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let element = |p: usize| {
                // SAFETY: the promise of `vector`.
                unsafe { self.x.0.get().wrapping_offset(p as isize * self.x.1).read() }.widen()
            };
            let x: Vec<T::Wide> = (0..self.k).map(element).collect();
            let write = |j: usize, v: T::Wide| {
                // SAFETY: as above.
                unsafe { self.y.0.get().wrapping_offset(j as isize * self.y.1).write(T::narrow(v)) };
            };
            if self.matrix.rows == 1 && self.k > 1 {
                for j in 0..self.n {
                    // SAFETY: the column's elements are neighbours.
                    let column = unsafe { std::slice::from_raw_parts(self.matrix.at(0, j), self.k) };
                    write(j, dot::<T>(&x, column));
                }
                return;
            }
            // The same lanes and blocks for every column as in `dot`: the layout of the matrix does not change the sum.
            let width = self.n.min(VECTOR_COLUMNS);
            let (mut sums, mut lanes) = (vec![T::Wide::ZERO; width], vec![T::Wide::ZERO; LANES * width]);
            for (first, block) in (0..self.n).step_by(VECTOR_COLUMNS).map(|j| (j, VECTOR_COLUMNS.min(self.n - j))) {
                let sums = &mut sums[..block];
                sums.fill(T::Wide::ZERO);
                for (b, terms) in x.chunks(LANES * TERMS).enumerate() {
                    lanes.fill(T::Wide::ZERO);
                    for (p, &x) in terms.iter().enumerate() {
                        let row = self.matrix.at(b * LANES * TERMS + p, first);
                        let lane = &mut lanes[p % LANES * width..][..block];
                        if self.matrix.columns == 1 {
                            // SAFETY: the row's elements are neighbours.
                            let row = unsafe { std::slice::from_raw_parts(row, block) };
                            for (sum, y) in lane.iter_mut().zip(row) {
                                *sum = sum.plus(x.times(y.widen()));
                            }
                        } else {
                            for (j, sum) in lane.iter_mut().enumerate() {
                                // SAFETY: as above.
                                let y = unsafe { row.wrapping_offset(j as isize * self.matrix.columns).read() };
                                *sum = sum.plus(x.times(y.widen()));
                            }
                        }
                    }
                    let mut half = LANES / 2;
                    while half > 0 {
                        let (low, high) = lanes.split_at_mut(half * width);
                        for (l, h) in low.iter_mut().zip(&high[..half * width]) {
                            *l = l.plus(*h);
                        }
                        half /= 2;
                    }
                    for (sum, &lane) in sums.iter_mut().zip(&lanes[..block]) {
                        *sum = sum.plus(lane);
                    }
                }
                for (j, &sum) in sums.iter().enumerate() {
                    write(first + j, sum);
                }
            }
        }
    }
    dispatch(Vector { k, n, x, matrix, y });
}

/// Partial sums of an inner product.
const LANES: usize = 32;

/// The inner product, in lanes by blocks.
#[inline(always)]
fn dot<T: Number>(x: &[T::Wide], y: &[T]) -> T::Wide {
    let mut total = T::Wide::ZERO;
    for (x, y) in x.chunks(LANES * TERMS).zip(y.chunks(LANES * TERMS)) {
        let mut lanes = [T::Wide::ZERO; LANES];
        let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
        let rest = xs.remainder().iter().zip(ys.remainder());
        for (x, y) in xs.zip(ys) {
            for l in 0..LANES {
                lanes[l] = lanes[l].plus(x[l].times(y[l].widen()));
            }
        }
        for (lane, (x, y)) in lanes.iter_mut().zip(rest) {
            *lane = lane.plus(x.times(y.widen()));
        }
        let mut half = LANES / 2;
        while half > 0 {
            for l in 0..half {
                lanes[l] = lanes[l].plus(lanes[l + half]);
            }
            half /= 2;
        }
        total = total.plus(lanes[0]);
    }
    total
}
