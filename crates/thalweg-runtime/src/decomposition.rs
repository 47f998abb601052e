//! Decompositions of matrices as a library of a device takes them, and what of a matrix keeps it from having one.

use std::fmt;

/// What becomes of which matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DecompositionKind {
    /// A into the lower triangle L of `A = L Lᵀ`, with zeros above. The lower half of A is read.
    Cholesky,
    /// A into L and U of `A = P L U` in one matrix, and the row of A that each row of `L U` is, as a number of the dtype.
    Lu,
    /// A and B into X of `A X = B`.
    Solve,
    /// A into its inverse.
    Inverse {
        /// Whether that of a singular matrix is infinities, and no error.
        singular: bool,
    },
    /// A into its determinant.
    Determinant,
    /// A into its determinant's sign and the logarithm of its magnitude.
    LogDeterminant,
    /// A into Q and R.
    Qr {
        /// Whether Q is square, and has not only as many columns as the smaller size of A.
        complete: bool,
    },
    /// A into U, S and `Vᵀ`, the largest value first.
    Svd {
        /// Whether U and V are square, and have not only as many columns as there are values.
        full: bool,
    },
    /// A into its singular values, the largest first.
    SingularValues,
    /// A, of which the lower half is read, into eigenvalues, the smallest first, and eigenvectors as columns.
    Symmetric,
    /// A, of which the lower half is read, into its eigenvalues, the smallest first.
    SymmetricValues,
    /// A and B into X of `A X = B`, where one half of A is taken to be zero.
    Triangular {
        /// Whether it is the lower one.
        upper: bool,
        /// Whether A's diagonal is taken to be ones.
        unit: bool,
    },
}

/// Decompositions of `count` matrices of `[m, n]`, row-major.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decomposition {
    /// What becomes of them.
    pub kind: DecompositionKind,
    /// Whether they are f64, and not f32.
    pub double: bool,
    /// Matrices.
    pub count: usize,
    /// Rows of A.
    pub m: usize,
    /// Columns of A.
    pub n: usize,
    /// Columns of B, where there is one.
    pub columns: usize,
}

/// What of a matrix keeps it from having a decomposition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// A pivot is 0: which.
    Pivot(usize),
    /// A leading minor is not positive: of which order.
    Minor(usize),
    /// There is NaN or infinity in a row that has to be positive definite: in which.
    Row(usize),
    /// There is NaN or infinity.
    NotFinite,
    /// An iteration did not end.
    NoEnd,
    /// An element of a triangle's diagonal is 0: which.
    Diagonal(usize),
}

/// The largest number that [`Unfit`] holds in a word.
const MOST: u64 = (1 << 28) - 1;

impl Unfit {
    /// The number of its kind in a word; of two in one matrix the larger one is told.
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

    /// What a device has left in a word, and the number of the matrix: the complement of the matrix's number in 32 bits, the
    /// kind in 4, the complement of its number in 28, so that the largest word is that of the first matrix. `None` of 0,
    /// and of what is no such word.
    pub fn of_word(word: u64) -> Option<(usize, Unfit)> {
        let (matrix, number) = (!(word >> 32) & u64::from(u32::MAX), (MOST - (word & MOST)) as usize);
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

    /// The word of a matrix of which that is so.
    pub fn word(self, matrix: usize) -> u64 {
        let number = match self {
            Unfit::Pivot(n) | Unfit::Minor(n) | Unfit::Row(n) | Unfit::Diagonal(n) => n as u64,
            Unfit::NotFinite | Unfit::NoEnd => 0,
        };
        (!(matrix as u64) & u64::from(u32::MAX)) << 32 | self.code() << 28 | (MOST - number.min(MOST))
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
