//! GEMM descriptions for a library (cuBLASLt).
//!
//! In: a [`MatmulGeometry`]: any strides, any batch dimensions. Out: one [`Product`] (column-major, each operand with
//! one unit stride and one other, one batch dimension) with the offsets of each of its launches; or nothing, and the
//! product runs on tiles of our own.
//!
//! The library is column-major where we are row-major: our row-major `c = a·b` of [m, n] is its column-major `cᵀ =
//! bᵀ·aᵀ` of [n, m], the same bytes. So `b` is its left operand.
//!
//! Always true: every launch reads and writes what the geometry describes, in the order of its arguments: left, right,
//! result, workspace.

use crate::tunable::TUNABLES;
use thalweg_ir::DType;
use thalweg_kernel::{MatmulGeometry, Precision};
use thalweg_runtime::environment::CUBLASLT_MIN_MULTIPLICATIONS;

/// Maximum alignment in bytes that is reported to the library: no algorithm requires more, and every buffer has it
/// (parts of an arena are aligned to 64).
const ALIGNED: usize = 16;
/// Number of terms whose sum of ones f32 represents exactly. Beyond that no algorithm can be checked.
const MAX_TERMS: usize = 1 << 24;

/// One operand of a product, stored column-major (the left operand as `depth` columns of `rows`, the right operand as
/// `columns` columns of `depth`), or transposed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Side {
    /// Whether the matrix is stored by rows (its rows are contiguous), and not by columns.
    pub transposed: bool,
    /// Leading dimension: elements from one stored column to the next.
    pub leading: usize,
    /// Batch stride: elements from one product of the batch to the next; 0 for a broadcast operand.
    pub stride: usize,
    /// Alignment in bytes of the first element, the minimum of all launches.
    pub alignment: usize,
}

/// A product `[rows, depth]·[depth, columns]`, or a strided batch of them, of column-major matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Product {
    /// Dtype of operands and result.
    pub dtype: DType,
    /// Whether operands may be rounded to TF32.
    pub tf32: bool,
    /// Rows of the result.
    pub rows: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Terms of each sum.
    pub depth: usize,
    /// Number of products in the batch.
    pub count: usize,
    /// Operand `[rows, depth]`.
    pub left: Side,
    /// Operand `[depth, columns]`.
    pub right: Side,
    /// Result `[rows, columns]`.
    pub result: Side,
}

/// Library GEMM with the operand offsets of each of its launches.
#[derive(Clone, PartialEq, Debug)]
pub struct Launches {
    /// Product that each launch computes.
    pub product: Product,
    /// Offsets of each launch, in bytes from the beginnings of `a`, `b` and `c`.
    pub places: Vec<[i64; 3]>,
}

/// Whether the library computes a product of that many multiplications: at least `THALWEG_CUBLASLT_MIN_MULTIPLICATIONS`
/// multiplications if set, else at least the tunable `min_library_product`.
fn is_large(multiplications: usize) -> bool {
    use std::sync::OnceLock;
    static FROM: OnceLock<Option<usize>> = OnceLock::new();
    match FROM.get_or_init(|| CUBLASLT_MIN_MULTIPLICATIONS.number().map(|n| n as usize)) {
        Some(from) => multiplications >= *from,
        None => TUNABLES.min_library_product.reached_by(multiplications),
    }
}

/// Describes a product for the library; `None` where it does not support it, or is not worth it.
pub fn launches(dtype: DType, precision: Precision, geometry: &MatmulGeometry) -> Option<Launches> {
    let products: usize = geometry.batch.iter().map(|d| d.0).product();
    let all = [geometry.m, geometry.n, geometry.k].into_iter().try_fold(products, usize::checked_mul)?;
    if precision == Precision::Ordered || all == 0 || !is_large(all) {
        return None;
    }
    described(dtype, precision == Precision::Tf32, geometry)
}

fn described(dtype: DType, tf32: bool, geometry: &MatmulGeometry) -> Option<Launches> {
    let is_float = matches!(dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16);
    if !is_float || dtype != DType::F64 && geometry.k >= MAX_TERMS {
        return None;
    }
    let (batch, m, rows_of_a) = merged_batch(geometry);
    let (n, k) = (geometry.n, geometry.k);
    let left = stored([n, k], [geometry.b.2, geometry.b.1])?;
    // Columns of the right side are our rows.
    let right = stored([m, k], [rows_of_a, geometry.a.2]).map(|(transposed, leading)| (!transposed, leading))?;
    let (inner, outer) = taken(&batch)?;
    let stride = |s: isize| usize::try_from(s).ok();
    let (count, strides) = (inner.size, [stride(inner.a)?, stride(inner.b)?, inner.c * m * n]);
    let size = dtype.size() as i64;
    let places: Vec<[i64; 3]> = offsets(&outer)
        .map(|[a, b, c]| {
            [geometry.a.0 as i64 + a, geometry.b.0 as i64 + b, c * (m * n) as i64].map(|elements| elements * size)
        })
        .collect();
    let aligned = |which: usize| {
        let all = places.iter().fold(ALIGNED as u64, |all, p| all | p[which].unsigned_abs());
        1 << all.trailing_zeros()
    };
    let side = |(transposed, leading), stride, which| Side { transposed, leading, stride, alignment: aligned(which) };
    let product = Product {
        dtype,
        tf32,
        rows: n,
        columns: m,
        depth: k,
        count,
        left: side(left, strides[1], 1),
        right: side(right, strides[0], 0),
        result: side((false, n), strides[2], 2),
    };
    Some(Launches { product, places })
}

/// A batch dimension: its size, and its strides in `a`, `b` (elements) and `c` (products).
#[derive(Clone, Copy, PartialEq, Debug)]
struct Batch {
    size: usize,
    a: isize,
    b: isize,
    c: usize,
}

/// Batch dimensions, merged where strides allow, with the number of rows of `a` and their stride. A dimension over
/// which `b` is broadcast, and whose stride in `a` continues its rows, becomes more rows.
fn merged_batch(geometry: &MatmulGeometry) -> (Vec<Batch>, usize, isize) {
    let (mut m, mut step) = (geometry.m, geometry.a.1);
    let mut out: Vec<Batch> = vec![];
    let mut products = 1;
    for &(size, a, b) in geometry.batch.iter().rev().filter(|d| d.0 > 1) {
        if out.is_empty() && b == 0 && (m == 1 || a == step * m as isize) {
            step = if m == 1 { a } else { step };
            m *= size;
            continue;
        }
        match out.last_mut() {
            Some(o) if a == o.a * o.size as isize && b == o.b * o.size as isize => o.size *= size,
            _ => out.push(Batch { size, a, b, c: products }),
        }
        products *= size;
    }
    (out, m, step)
}

/// Splits the batch dimensions into the library's one and those that are looped over, with as few launches as possible.
/// `None` where there are too many.
fn taken(batch: &[Batch]) -> Option<(Batch, Vec<Batch>)> {
    let none = Batch { size: 1, a: 0, b: 0, c: 0 };
    let fits = |b: &Batch| b.a >= 0 && b.b >= 0;
    let inner = batch.iter().copied().filter(fits).max_by_key(|b| b.size).unwrap_or(none);
    let mut outer = batch.to_vec();
    if let Some(at) = outer.iter().position(|b| *b == inner) {
        outer.remove(at);
    }
    let turns = outer.iter().try_fold(1usize, |n, b| n.checked_mul(b.size))?;
    TUNABLES.max_library_launches.admits(turns).then_some((inner, outer))
}

/// Offsets of all combinations of these dimensions, in elements of `a` and `b` and products of `c`.
fn offsets(outer: &[Batch]) -> impl Iterator<Item = [i64; 3]> {
    let turns: usize = outer.iter().map(|b| b.size).product();
    (0..turns).map(|turn| {
        let mut rest = turn;
        outer.iter().fold([0; 3], |[a, b, c], d| {
            let i = (rest % d.size) as i64;
            rest /= d.size;
            [a + i * d.a as i64, b + i * d.b as i64, c + i * d.c as i64]
        })
    })
}

/// Layout of a matrix of that size (contiguous dimension, other one) with these strides: whether its second dimension
/// is contiguous, and the leading dimension then. `None` where neither has a unit stride, or columns overlap.
fn stored([x, k]: [usize; 2], [step_x, step_k]: [isize; 2]) -> Option<(bool, usize)> {
    // The leading dimension of a single column does not matter; the minimum is the most common one.
    let leading = |others: usize, step: isize, neighbours: usize| match others {
        1 => Some(neighbours),
        _ => usize::try_from(step).ok().filter(|&s| s >= neighbours),
    };
    let along_x = || leading(k, step_k, x).map(|l| (false, l));
    let along_k = || leading(x, step_x, k).map(|l| (true, l));
    let (unit_x, unit_k) = (step_x == 1 && x > 1, step_k == 1 && k > 1);
    let true_unit = if unit_x { along_x() } else { None }.or_else(|| if unit_k { along_k() } else { None });
    // The stride of a dimension of extent 1 does not matter.
    true_unit.or_else(|| if x == 1 { along_x() } else { None }).or_else(|| if k == 1 { along_k() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(
        batch: &[(usize, isize, isize)],
        [m, n, k]: [usize; 3],
        a: [isize; 2],
        b: [isize; 2],
    ) -> MatmulGeometry {
        MatmulGeometry { batch: batch.to_vec(), m, n, k, a: (0, a[0], a[1]), b: (0, b[0], b[1]), reach: [None, None] }
    }

    fn f32(g: &MatmulGeometry) -> Option<Launches> {
        described(DType::F32, false, g)
    }

    fn shape(l: &Launches) -> ([usize; 4], [(bool, usize, usize); 2]) {
        let p = &l.product;
        let side = |s: &Side| (s.transposed, s.leading, s.stride);
        ([p.rows, p.columns, p.depth, p.count], [side(&p.left), side(&p.right)])
    }

    #[test]
    fn rows_become_columns() {
        let plain = f32(&geometry(&[], [3, 5, 7], [7, 1], [5, 1])).unwrap();
        assert_eq!(shape(&plain), ([5, 3, 7, 1], [(false, 5, 0), (false, 7, 0)]));
        let transposed = f32(&geometry(&[], [3, 5, 7], [1, 3], [1, 9])).unwrap();
        assert_eq!(shape(&transposed), ([5, 3, 7, 1], [(true, 9, 0), (true, 3, 0)]));
        assert_eq!(transposed.places, [[0, 0, 0]]);
    }

    #[test]
    fn without_a_unit_stride_or_with_columns_that_overlap_there_is_none() {
        for (a, b) in [([14, 2], [5, 1]), ([7, 1], [5, -1]), ([7, 1], [3, 1]), ([0, 1], [5, 1]), ([-7, 1], [5, 1])] {
            assert_eq!(f32(&geometry(&[], [3, 5, 7], a, b)), None, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_single_row_or_column_has_any_stride() {
        // [1, 7]·[7, 5], where the row has stride 2.
        let row = f32(&geometry(&[], [1, 5, 7], [99, 2], [5, 1])).unwrap();
        assert_eq!(shape(&row), ([5, 1, 7, 1], [(false, 5, 0), (true, 2, 0)]));
        let row = f32(&geometry(&[], [1, 5, 7], [0, 1], [5, 1])).unwrap();
        assert_eq!(shape(&row).1[1], (false, 7, 0));
        // [3, 1]·[1, 5]
        let outer = f32(&geometry(&[], [3, 5, 1], [2, 0], [0, 1])).unwrap();
        assert_eq!(shape(&outer), ([5, 3, 1, 1], [(false, 5, 0), (false, 2, 0)]));
        // A row that is broadcast along k is not possible.
        assert_eq!(f32(&geometry(&[], [1, 5, 7], [0, 0], [5, 1])), None);
        let one = f32(&geometry(&[], [1, 1, 1], [0, 0], [0, 0])).unwrap();
        assert_eq!(shape(&one), ([1, 1, 1, 1], [(false, 1, 0), (true, 1, 0)]));
    }

    #[test]
    fn batches_are_merged_with_rows_or_looped_over() {
        let (m, n, k) = (3, 5, 7);
        let (a, b) = ([7, 1], [5, 1]);
        let of = |batch: &[(usize, isize, isize)]| f32(&geometry(batch, [m, n, k], a, b));
        let merged = of(&[(2, 84, 140), (4, 21, 35)]).unwrap();
        assert_eq!(shape(&merged), ([5, 3, 7, 8], [(false, 5, 35), (false, 7, 21)]));
        assert_eq!(merged.product.result.stride, 15);
        // One b for all products: more rows.
        let rows = of(&[(2, 84, 0), (4, 21, 0)]).unwrap();
        assert_eq!(shape(&rows), ([5, 24, 7, 1], [(false, 5, 0), (false, 7, 0)]));
        // One a for all products.
        let shared = of(&[(4, 0, 35)]).unwrap();
        assert_eq!(shape(&shared), ([5, 3, 7, 4], [(false, 5, 35), (false, 7, 0)]));
        // b is broadcast over the inner dimension, and not over the outer one.
        let both = of(&[(4, 42, 35), (2, 21, 0)]).unwrap();
        assert_eq!(shape(&both), ([5, 6, 7, 4], [(false, 5, 35), (false, 7, 42)]));
        assert_eq!(both.product.result.stride, 30);
        // Two dimensions that cannot be merged: the larger one is the library's.
        let turns = of(&[(9, 1000, 35), (2, 21, 1000)]).unwrap();
        assert_eq!(shape(&turns), ([5, 3, 7, 9], [(false, 5, 35), (false, 7, 1000)]));
        assert_eq!(turns.product.result.stride, 30);
        assert_eq!(turns.places, [[0, 0, 0], [84, 4000, 60]]);
        assert_eq!(of(&[(100, 1000, 35), (99, 21, 1000)]), None);
        // Negative stride: one launch per product.
        let backwards = of(&[(3, -21, 35)]).unwrap();
        assert_eq!((backwards.product.count, backwards.places.len()), (1, 3));
        assert_eq!(backwards.places[2], [-168, 280, 120]);
    }

    #[test]
    fn alignment_is_that_of_every_launch() {
        let mut g = geometry(&[(9, 1000, 36), (2, 21, 1000)], [4, 4, 7], [7, 1], [4, 1]);
        (g.a.0, g.b.0) = (8, 2);
        let p = f32(&g).unwrap().product;
        assert_eq!([p.right.alignment, p.left.alignment, p.result.alignment], [4, 8, 16]);
    }

    #[test]
    fn what_has_an_order_of_its_own_or_is_small_or_of_integers_is_none() {
        let g = geometry(&[], [300, 300, 300], [300, 1], [300, 1]);
        assert!(launches(DType::F32, Precision::Full, &g).is_some());
        assert!(launches(DType::F32, Precision::Tf32, &g).unwrap().product.tf32);
        assert!(launches(DType::F32, Precision::Ordered, &g).is_none());
        assert!(launches(DType::I32, Precision::Full, &g).is_none());
        let empty = geometry(&[], [300, 300, 0], [1, 1], [300, 1]);
        assert!(launches(DType::F32, Precision::Full, &empty).is_none());
        let long = geometry(&[], [3, 3, MAX_TERMS], [MAX_TERMS as isize, 1], [3, 1]);
        assert!(launches(DType::BF16, Precision::Full, &long).is_none());
        assert!(launches(DType::F64, Precision::Full, &long).is_some());
    }
}
