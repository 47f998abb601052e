//! Libraries of a GPU's vendor: batched Fourier transforms, and decompositions of matrices.

use std::fmt::Debug;
use thalweg_runtime::{Error, FourierKind};

/// Batched Fourier transforms of contiguous lines, with complex numbers as interleaved pairs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lines {
    /// Kind of the transform: complex, or real on one side.
    pub kind: FourierKind,
    /// Whether elements are f64 instead of f32.
    pub double: bool,
    /// Number of samples per transform.
    pub n: usize,
    /// Number of lines.
    pub count: usize,
}

/// Routine of a library (cuSOLVER, cuBLAS) on a column-major matrix, with buffers `a` to `d` ([`RoutineBuffers`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Routine {
    /// `potrf`: the lower half of A into L of `A = L Lᵀ`. After a batched call the upper half is undefined.
    Cholesky {
        /// Number of rows and columns.
        n: usize,
    },
    /// `getrf`: A into L and U of `A = P L U`. Writes the pivots to b: for each row, in order, the row that it was
    /// exchanged with, as i32 counted from 1.
    Lu {
        /// Number of rows.
        m: usize,
        /// Number of columns.
        n: usize,
    },
    /// `getrs`: solves `A X = B`. A and b are results of [`Routine::Lu`]; X overwrites B in c.
    Solve {
        /// Number of rows and columns of A.
        n: usize,
        /// Number of columns of B.
        columns: usize,
    },
    /// `geqrf`: A into R, with Householder reflectors below its diagonal. Writes the reflectors' factors to b.
    Qr {
        /// Number of rows.
        m: usize,
        /// Number of columns.
        n: usize,
    },
    /// `orgqr`: A and b, results of [`Routine::Qr`], into the first columns of the product of all reflectors (Q), in A.
    Reflections {
        /// Number of rows.
        m: usize,
        /// Number of columns of the product.
        columns: usize,
        /// Number of reflectors.
        k: usize,
    },
    /// `syevd`: the upper half of A into the eigenvectors, as columns, if requested. Writes the eigenvalues to b.
    Symmetric {
        /// Number of rows and columns.
        n: usize,
        /// Whether the eigenvectors are requested.
        vectors: bool,
    },
    /// `gesvdj`: singular values into b, U into c, V into d; overwrites A. The caller always allocates U and V,
    /// requested or not: at least m x n for U (m x m in a batched call), n x n for V.
    Singular {
        /// Number of rows, at least the number of columns.
        m: usize,
        /// Number of columns of A and of V.
        n: usize,
        /// Number of columns of U: 0, the number of singular values, or the number of rows.
        left: usize,
    },
    /// `trsm`: solves `X A = B`, or `X Aᵀ = B`. X overwrites B in c, which has `columns` rows.
    Triangular {
        /// Number of rows and columns of A.
        n: usize,
        /// Number of rows of B.
        columns: usize,
        /// Whether the upper half of A is read, instead of the lower.
        upper: bool,
        /// Whether A is transposed.
        transposed: bool,
        /// Whether A has a unit diagonal.
        unit: bool,
    },
}

/// A routine over a batch of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Matrices {
    /// Routine that is applied to each matrix.
    pub routine: Routine,
    /// Whether elements are f64 instead of f32.
    pub double: bool,
    /// Number of matrices.
    pub count: usize,
    /// Whether the matrices are small enough that one batched call processes all of them.
    pub batched: bool,
}

/// Buffer of a routine, for all matrices of a batch.
#[derive(Clone, Copy, Default, Debug)]
pub struct BatchBuffer {
    /// Address of the first matrix' buffer.
    pub at: u64,
    /// Bytes from one matrix' buffer to the next.
    pub step: usize,
    /// Address of a list of the addresses of all matrices' buffers, for batched calls.
    pub list: u64,
}

/// Buffers that a routine reads and writes, as [`Routine`] names them.
#[derive(Clone, Copy, Default, Debug)]
pub struct RoutineBuffers {
    /// Buffer of matrix A.
    pub a: BatchBuffer,
    /// Buffer b, whose contents [`Routine`] describes.
    pub b: BatchBuffer,
    /// Buffer c, whose contents [`Routine`] describes.
    pub c: BatchBuffer,
    /// Buffer d, whose contents [`Routine`] describes.
    pub d: BatchBuffer,
    /// Address of the library's status of each matrix: an i32, 0 for success.
    pub infos: u64,
    /// Address of the workspace, of the size that [`Libraries::routine`] returns.
    pub work: u64,
}

/// A queue's libraries. Methods may be called on any thread, several at once.
pub trait Libraries: Send + Sync + Debug {
    /// Bytes of workspace that a library needs for these transforms. `None` where there is no such library, or it does not
    /// compute them.
    fn transform(&self, lines: &Lines) -> Option<usize>;

    /// Submits transforms that [`Libraries::transform`] supports: addresses of the lines, of the results (the same where
    /// both are complex), and of the workspace. Results are not scaled. The input may be overwritten.
    ///
    /// # Errors
    /// When the device or the library refuses.
    fn run_transform(&self, lines: &Lines, places: [u64; 3]) -> Result<(), Error>;

    /// Bytes of workspace that a library needs for this routine. `None` where there is no such library, or it does not
    /// support these sizes.
    fn routine(&self, of: &Matrices) -> Option<usize>;

    /// Submits a routine that [`Libraries::routine`] supports. The inner error is the library's reason not to run it; the
    /// caller may use another implementation then.
    ///
    /// # Errors
    /// When the device refuses.
    fn run_routine(&self, of: &Matrices, places: &RoutineBuffers) -> Result<Result<(), String>, Error>;
}
