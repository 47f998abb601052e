//! Linear algebra: matrix decompositions and solvers. Behind the feature `linalg`.
//!
//! In: tensors whose last two dimensions are matrices, f32 or f64. Out: tensors. Always true: a decomposition is a
//! [`HostOp`](crate::HostOp) over the leading dimensions, a function on the host or in a device's library. Everything
//! around it - products, transposes, gradients - is recorded operations, which fuse. Failures that depend on values (a
//! singular matrix, one that is not positive definite, NaN where an iteration would not end) are errors where a result
//! is read, with the operation, the line of the call and the index of the matrix in the batch. docs/linear-algebra.md
//! has the formulas of the gradients.

mod cholesky;
mod complex;
mod each;
mod eigen;
mod exp;
mod exponential;
mod factors;
mod inverse;
mod lu;
mod norms;
mod qr;
mod singular;
mod solve;
mod spectra;

pub use norms::MatrixNorm;

use crate::record::wrong_dtype;
use crate::{DType, Options, Tensor};

/// Checks that a tensor has matrices of f32 or f64; returns their sizes.
#[track_caller]
fn matrices(name: &str, x: &Tensor) -> (usize, usize) {
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        wrong_dtype(name, "f32 or f64", x.dtype());
    }
    if x.rank() < 2 {
        panic!("{name}: takes matrices, not shape {}", x.shape());
    }
    each::sizes(x.shape())
}

/// Checks that a tensor has square matrices of f32 or f64; returns their size.
#[track_caller]
fn squares(name: &str, x: &Tensor) -> usize {
    let (rows, columns) = matrices(name, x);
    if rows != columns {
        panic!("{name}: takes square matrices, not shape {}", x.shape());
    }
    rows
}

/// Identity matrix, which broadcasts over batches.
fn identity(n: usize, like: &Tensor) -> Tensor {
    Tensor::eye_with(n, n, Options::of(like))
}

/// Difference `A - Aᵀ`, which is skew-symmetric.
fn skew(a: &Tensor) -> Tensor {
    a - a.t()
}

/// Matrix of the differences `x[j] - x[i]` of a vector's elements, with 1 on the diagonal.
fn gaps(x: &Tensor, n: usize) -> Tensor {
    x.unsqueeze(-2) - x.unsqueeze(-1) + identity(n, x)
}

/// Lower triangle of a matrix, with half of its diagonal.
fn lower_half(a: &Tensor, n: usize) -> Tensor {
    a.tril(0) * (1.0 - identity(n, a) * 0.5)
}
