//! Products of vectors and matrices.

use crate::record::{check_alike, wrong_dtype};
use crate::{DType, Shape, Tensor};
use thalweg_ir::Op;
use thalweg_stream::{Operand, record};

impl Tensor {
    /// The matrix product over the last two dimensions, leading ones broadcast, as NumPy's `@`. A tensor of rank 1 is
    /// a row on the left and a column on the right, and that dimension is dropped from the result.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::randn([8, 2, 3]), Tensor::randn([3, 4]));
    /// assert_eq!(a.matmul(&b).dims(), [8, 2, 4]);
    /// ```
    ///
    /// # Panics
    /// When a rank is 0, the inner sizes differ, leading dimensions do not broadcast, dtypes differ or are bool.
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        check_alike("matmul", self, other);
        if self.dtype() == DType::Bool {
            wrong_dtype("matmul", "a float or integer dtype", self.dtype());
        }
        let refuse = |why: &str| -> String { format!("matmul: shapes {} and {} {why}", self.shape(), other.shape()) };
        if self.rank() == 0 || other.rank() == 0 {
            panic!("{}", refuse("are not both of rank 1 or more"));
        }
        let row = self.rank() == 1;
        let column = other.rank() == 1;
        let a = if row { self.reshape([1, self.dims()[0]]) } else { self.clone() };
        let b = if column { other.reshape([other.dims()[0], 1]) } else { other.clone() };
        let ((a_batch, [m, k]), (b_batch, [inner, n])) = (parts(&a), parts(&b));
        if k != inner {
            panic!("{}", refuse(&format!("do not multiply: {k} columns against {inner} rows")));
        }
        let Some(batch) = a_batch.broadcast(&b_batch) else {
            panic!("{}", refuse("do not broadcast in their leading dimensions"))
        };
        let shape = batch.insert(batch.rank(), m);
        let shape = shape.insert(shape.rank(), n);
        let args = [Operand::Value(&a.0), Operand::Value(&b.0)];
        let product = Tensor(record(a.0.device(), Op::Matmul, a.dtype(), shape, 0, &args, &[]));
        match (row, column) {
            (false, false) => product,
            (true, true) => product.reshape(()),
            (true, false) => product.reshape(shape.remove(shape.rank() - 2)),
            (false, true) => product.reshape(shape.remove(shape.rank() - 1)),
        }
    }

    /// The sum of products of two vectors of one length: `Σ aᵢ·bᵢ`.
    ///
    /// # Panics
    /// When they are not both of rank 1 and one length, or dtypes differ or are bool.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        if self.rank() != 1 || self.shape() != other.shape() {
            panic!("dot: takes two vectors of one length, not shapes {} and {}", self.shape(), other.shape());
        }
        self.mul(other).sum(0)
    }

    /// The products of every element of one vector with every element of another: `cᵢⱼ = aᵢ·bⱼ`.
    ///
    /// # Panics
    /// When they are not both of rank 1, or dtypes differ or are bool.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        if self.rank() != 1 || other.rank() != 1 {
            panic!("outer: takes two vectors, not shapes {} and {}", self.shape(), other.shape());
        }
        self.unsqueeze(1).mul(other)
    }
}

/// Leading dimensions, and the last two.
fn parts(x: &Tensor) -> (Shape, [usize; 2]) {
    let (batch, last) = x.dims().split_at(x.rank() - 2);
    (Shape::new(batch), [last[0], last[1]])
}
