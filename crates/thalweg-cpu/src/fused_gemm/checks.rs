//! Checks of a contraction's launch before anything runs, and the offsets of the matrices of a batch.

use thalweg_ir::DType;
use thalweg_kernel::MatmulGeometry;
use thalweg_runtime::Buffer;

/// Panics if matrix operand `n` (0 for A, 1 for B) reaches outside its buffer.
pub(super) fn check_factor(n: usize, dtype: DType, p: &MatmulGeometry, operand: &Buffer) {
    let (side, at, dims) = [("left", p.a, [p.m, p.k]), ("right", p.b, [p.k, p.n])][n];
    let stride = |d: &(usize, isize, isize)| if n == 0 { d.1 } else { d.2 };
    let all = p.batch.iter().map(|d| (d.0, stride(d))).chain([(dims[0], at.1), (dims[1], at.2)]);
    let (mut low, mut high) = (at.0 as i128, at.0 as i128);
    for (size, stride) in all {
        if size == 0 {
            return;
        }
        let span = (size as i128 - 1) * stride as i128;
        low += span.min(0);
        high += span.max(0);
    }
    let has = operand.bytes() / dtype.size();
    assert!(
        low >= 0 && high < has as i128,
        "a product reaches elements {low} to {high} of its {side} side, which has {has} ({dtype})"
    );
}

/// Panics if a result overlaps a buffer that A or B is read from: operands are still read after the first tile is
/// written.
pub(super) fn check_disjoint(factors: &[&Buffer], results: &[&Buffer]) {
    let range = |b: &Buffer| (b.address() as usize, b.address() as usize + b.bytes());
    for (from, to) in factors.iter().flat_map(|f| results.iter().map(move |r| (range(f), range(r)))) {
        assert!(from.0 >= to.1 || to.0 >= from.1, "a contraction's result lies over what a factor is read from");
    }
}

/// Returns the address of the result buffer, for a contraction without epilogue; panics if the buffer is too small.
pub(super) fn result(dtype: DType, p: &MatmulGeometry, operand: &Buffer) -> *mut u8 {
    let mut sizes = p.batch.iter().map(|d| d.0).chain([p.m, p.n, dtype.size()]);
    let bytes = sizes.try_fold(1usize, usize::checked_mul);
    assert!(bytes.is_some_and(|b| b <= operand.bytes()), "the product {p:?} does not fit {operand:?}");
    operand.address()
}

/// Offset in elements of the matrix of operand `n` that a product of the batch reads.
pub(super) fn batch_offset(p: &MatmulGeometry, n: usize, product: usize) -> isize {
    let (mut rest, mut at) = (product, 0);
    for d in p.batch.iter().rev() {
        at += (rest % d.0) as isize * if n == 0 { d.1 } else { d.2 };
        rest /= d.0;
    }
    at
}

/// Index of the matrix of a computed operand that a product of the batch reads: a broadcast operand has fewer matrices
/// than products.
pub(super) fn batch_number(p: &MatmulGeometry, n: usize, product: usize) -> usize {
    let size = if n == 0 { p.m * p.k } else { p.k * p.n };
    batch_offset(p, n, product) as usize / size.max(1)
}
