//! Matrix decompositions by device libraries, and causes of failure.

use std::fmt;

/// Kind of decomposition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DecompositionKind {
    /// The lower triangular L of `A = L Lᵀ`, with zeros above. Only the lower half of A is read.
    Cholesky,
    /// L and U of `A = P L U` in one matrix, and for each row of `L U` the index of its row of A, as a number of the
    /// dtype.
    Lu,
    /// Solution X of `A X = B`.
    Solve,
    /// Inverse of A.
    Inverse {
        /// Whether the inverse of a singular matrix is infinities instead of an error.
        singular: bool,
    },
    /// Determinant of A.
    Determinant,
    /// Sign and logarithm of the magnitude of A's determinant.
    LogDeterminant,
    /// QR decomposition: Q and R of A.
    Qr {
        /// Whether Q is square; otherwise it has as many columns as the smaller dimension of A.
        complete: bool,
    },
    /// Singular value decomposition: U, S and `Vᵀ` of A, singular values in descending order.
    Svd {
        /// Whether U and V are square; otherwise they have as many columns as there are singular values.
        full: bool,
    },
    /// Singular values of A, in descending order.
    SingularValues,
    /// Eigenvalues, ascending, and eigenvectors as columns, of a symmetric A; only the lower half is read.
    Symmetric,
    /// Eigenvalues of a symmetric A, ascending; only the lower half is read.
    SymmetricValues,
    /// Solution X of `A X = B` for a triangular A, whose other half is treated as zero.
    Triangular {
        /// Whether A is upper triangular.
        upper: bool,
        /// Whether A's diagonal is treated as ones.
        unit: bool,
    },
}

/// Decompositions of `count` row-major matrices of shape `[m, n]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decomposition {
    /// Kind of decomposition.
    pub kind: DecompositionKind,
    /// Whether elements are f64 instead of f32.
    pub double: bool,
    /// Number of matrices.
    pub count: usize,
    /// Number of rows of A.
    pub m: usize,
    /// Number of columns of A.
    pub n: usize,
    /// Number of columns of B, if there is one.
    pub columns: usize,
}

/// Reason why a matrix has no decomposition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// Index of a pivot that is 0.
    Pivot(usize),
    /// Order of a leading minor that is not positive.
    Minor(usize),
    /// Index of a row with NaN or infinity, in a matrix that must be positive definite.
    Row(usize),
    /// NaN or infinity in the matrix.
    NotFinite,
    /// Iteration that does not converge.
    NoEnd,
    /// Index of a diagonal element of a triangular matrix that is 0.
    Diagonal(usize),
}

/// Maximum number that fits in the field for the reason in an [`Unfit`] word.
const MAX_CODE: u64 = (1 << 28) - 1;

impl Unfit {
    /// Code of the reason in a word. Of two reasons for one matrix, the one with the larger code is reported.
    pub const fn code(self) -> u64 {
        match self {
            Unfit::NoEnd => 1,
            Unfit::Pivot(_) => 2,
            Unfit::Diagonal(_) => 3,
            Unfit::Row(_) => 4,
            Unfit::Minor(_) => 5,
            Unfit::NotFinite => 6,
        }
    }

    /// Decodes a word written by a device, and gives the matrix's number too. Fields: the complement of the matrix's
    /// number in 32 bits, the kind in 4, the complement of the cause's number in 28, so that the largest word is that
    /// of the first matrix. `None` for 0 and other invalid words.
    pub fn of_word(word: u64) -> Option<(usize, Unfit)> {
        let (matrix, number) = (!(word >> 32) & u64::from(u32::MAX), (MAX_CODE - (word & MAX_CODE)) as usize);
        let all = [
            Unfit::NoEnd,
            Unfit::Pivot(number),
            Unfit::Diagonal(number),
            Unfit::Minor(number),
            Unfit::Row(number),
            Unfit::NotFinite,
        ];
        let unfit = all.into_iter().find(|u| u.code() == word >> 28 & 15)?;
        Some((matrix as usize, unfit))
    }

    /// Word that reports this reason for matrix number `matrix`.
    pub fn word(self, matrix: usize) -> u64 {
        let number = match self {
            Unfit::Pivot(n) | Unfit::Minor(n) | Unfit::Row(n) | Unfit::Diagonal(n) => n as u64,
            Unfit::NotFinite | Unfit::NoEnd => 0,
        };
        (!(matrix as u64) & u64::from(u32::MAX)) << 32 | self.code() << 28 | (MAX_CODE - number.min(MAX_CODE))
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Pivot(i) => write!(f, "singular: pivot {i} is 0"),
            Unfit::Minor(order) => write!(f, "not positive definite: the leading minor of order {order} is not"),
            Unfit::Row(i) => write!(f, "not positive definite: there is NaN or infinity in row {i}"),
            Unfit::NotFinite => f.write_str("there is NaN or infinity in it"),
            Unfit::NoEnd => f.write_str("the iteration did not converge"),
            Unfit::Diagonal(i) => write!(f, "singular: element {i} of the diagonal is 0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matrix_has_the_largest_word() {
        let all = [
            (0, Unfit::NotFinite),
            (0, Unfit::Minor(2)),
            (0, Unfit::Minor(9)),
            (0, Unfit::Pivot(0)),
            (0, Unfit::Pivot(7)),
            (0, Unfit::NoEnd),
            (1, Unfit::Row(3)),
            (70_000, Unfit::Diagonal(1)),
        ];
        let words: Vec<u64> = all.iter().map(|(matrix, unfit)| unfit.word(*matrix)).collect();
        assert!(words.windows(2).all(|w| w[0] > w[1]), "{words:x?}");
        assert!(words.iter().zip(all).all(|(&word, told)| Unfit::of_word(word) == Some(told)));
        assert_eq!(Unfit::of_word(0), None);
    }
}
