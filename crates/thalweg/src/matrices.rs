//! Diagonals, traces, and Kronecker, cross and power products.

use crate::record::{check_alike, wrong_dtype};
use crate::{Axis, DType, MAX_RANK, Shape, Tensor};

/// # Linear algebra: diagonals, Kronecker and cross products
impl Tensor {
    /// For a vector, the matrix with it on diagonal `offset` and zeros elsewhere; for a matrix, that diagonal. As
    /// `numpy.diag` and `torch.diag`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).diag(0).to_vec::<i32>()?, [1, 0, 0, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the rank is neither 1 nor 2.
    #[track_caller]
    pub fn diag(&self, offset: i64) -> Tensor {
        match self.rank() {
            1 => self.diag_embed(offset),
            2 => self.diagonal(offset),
            _ => panic!("diag: takes a vector or a matrix, not shape {}", self.shape()),
        }
    }

    /// Matrices with the rows of this tensor on diagonal `offset` and zeros elsewhere, as `torch.diag_embed`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::ones([2, 3]).diag_embed(0).dims(), [2, 3, 3]);
    /// ```
    ///
    /// # Panics
    /// On rank 0, or when the rank is 8 already.
    #[track_caller]
    pub fn diag_embed(&self, offset: i64) -> Tensor {
        let rank = self.rank();
        assert!((1..MAX_RANK).contains(&rank), "diag_embed: takes rows, at most rank 7, not shape {}", self.shape());
        let n = self.dims()[rank - 1];
        let (row, column) = ((-offset).max(0) as usize, offset.max(0) as usize);
        let i = Tensor::arange_with(n, (DType::I64, self.device()));
        let on = i.unsqueeze(1).eq(&i);
        let zero = Tensor::zeros_with((), (self.dtype(), self.device()));
        let square = on.where_(self.unsqueeze(-1), &zero);
        let mut widths = vec![(0, 0); rank + 1];
        (widths[rank - 1], widths[rank]) = ((row, column), (column, row));
        square.pad(widths, 0)
    }

    /// The diagonal `offset` of the matrices in dimensions `a` (rows) and `b` (columns), as the last dimension of the
    /// result; as `torch.diagonal(offset, a, b)` and `numpy.diagonal`.
    ///
    /// # Panics
    /// When one of the axes does not exist, or they are the same.
    #[track_caller]
    pub fn diagonal_of(&self, offset: i64, a: impl Into<Axis>, b: impl Into<Axis>) -> Tensor {
        let (a, b) = (a.into().of("diagonal_of", self.rank()), b.into().of("diagonal_of", self.rank()));
        if a == b {
            crate::axes::named_twice("diagonal_of", a);
        }
        let order: Vec<usize> = (0..self.rank()).filter(|&i| i != a && i != b).chain([a, b]).collect();
        self.permute(order).diagonal(offset)
    }

    /// The sum of the main diagonal of the matrices in the last two dimensions, as `numpy.linalg.trace` and
    /// `torch.trace`. Integers and bool give i64.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]).trace().item::<f32>()?, 5.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        assert!(self.rank() >= 2, "trace: takes at least two dimensions, not shape {}", self.shape());
        self.diagonal(0).sum(-1)
    }

    /// The Kronecker product, as `numpy.kron` and `torch.kron`: each element of `self` times all of `other`. Missing
    /// dimensions are 1, added in front.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1i32, 2]]).kron(&Tensor::new([[1i32, 1]])).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When dtypes differ or are bool.
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        check_alike("kron", self, other);
        if self.dtype() == DType::Bool {
            wrong_dtype("kron", "a float or integer dtype", DType::Bool);
        }
        let rank = self.rank().max(other.rank());
        let full = |t: &Tensor| {
            let mut dims = vec![1; rank - t.rank()];
            dims.extend(t.dims());
            dims
        };
        let (da, db) = (full(self), full(other));
        let sizes: Vec<usize> = da.iter().zip(&db).map(|(x, y)| x * y).collect();
        let all = self.reshape([self.numel(), 1]) * other.reshape([1, other.numel()]);
        interleaved(&all, &da, &db).reshape(sizes)
    }

    /// The cross product along an axis of three elements, as `numpy.linalg.cross` and `torch.linalg.cross`; the other
    /// dimensions broadcast.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (x, y) = (Tensor::new([1.0f32, 0.0, 0.0]), Tensor::new([0.0f32, 1.0, 0.0]));
    /// assert_eq!(x.cross(&y, 0).to_vec::<f32>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis in both, it does not have three elements, dtypes differ or are bool, or shapes do not
    /// broadcast.
    #[track_caller]
    pub fn cross(&self, other: &Tensor, axis: impl Into<Axis>) -> Tensor {
        check_alike("cross", self, other);
        let Some(shape) = self.shape().broadcast(other.shape()) else {
            crate::record::shapes_differ("cross", self.shape(), other.shape())
        };
        let axis = axis.into().of("cross", shape.rank());
        assert!(shape[axis] == 3, "cross: axis {axis} of {shape} has not three elements");
        let (a, b) = (self.broadcast_to(shape), other.broadcast_to(shape));
        let at = |t: &Tensor, i: i64| t.part(axis, (i, 1, 1));
        let of = |i: i64, j: i64| at(&a, i) * at(&b, j) - at(&a, j) * at(&b, i);
        Tensor::cat(&[of(1, 2), of(2, 0), of(0, 1)], axis)
    }

    /// The Vandermonde matrix of a vector, as `numpy.vander`: `columns` powers of each element, from the highest down
    /// to 0, or `increasing` from 0 on. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([2.0f32, 3.0]).vander(3, true).to_vec::<f32>()?, [1.0, 2.0, 4.0, 1.0, 3.0, 9.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When this is not a vector, or is bool.
    #[track_caller]
    pub fn vander(&self, columns: usize, increasing: bool) -> Tensor {
        if self.rank() != 1 {
            panic!("vander: takes a vector, not shape {}", self.shape());
        }
        if self.dtype() == DType::Bool {
            wrong_dtype("vander", "a float or integer dtype", DType::Bool);
        }
        let n = self.numel();
        if columns == 0 {
            return Tensor::zeros_with([n, 0], crate::Options::of(self));
        }
        // By products, as NumPy: powers by logarithms are not exact.
        let mut powers = vec![self.ones_like()];
        for k in 1..columns {
            // The product of two half powers, so that few roundings accumulate.
            powers.push(&powers[k / 2] * &powers[k - k / 2 - 1] * self);
        }
        if !increasing {
            powers.reverse();
        }
        Tensor::stack(&powers, 1)
    }
}

/// Reorders the products of all pairs from `[a0, a1, .., b0, b1, ..]` to `[a0·b0, a1·b1, ..]`, dimension by dimension.
#[track_caller]
fn interleaved(all: &Tensor, da: &[usize], db: &[usize]) -> Tensor {
    let mut x = all.clone();
    let (mut done, rest) = (1, |d: &[usize]| d.iter().product::<usize>());
    for k in 0..da.len() {
        let (ra, rb) = (rest(&da[k + 1..]), rest(&db[k + 1..]));
        // [done, a_k, ra, b_k, rb] -> [done·a_k·b_k, ra, rb]
        x = x.reshape([done, da[k], ra, db[k], rb]).permute([0, 1, 3, 2, 4]);
        done *= da[k] * db[k];
        x = x.reshaped(Shape::new(&[done, ra * rb]));
    }
    x
}
