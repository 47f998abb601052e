//! Products of vectors and matrices.

use crate::operand::Arg;
use crate::record::{check_alike, push, wrong_dtype};
use crate::{Axes, DType, Shape, Tensor};
use thalweg_ir::Op;

/// # Linear algebra: vectors and powers
impl Tensor {
    /// The dot products of vectors along an axis, with the other dimensions broadcast, as `numpy.vecdot`; integers are
    /// summed in their own dtype and wrap.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]), Tensor::new([1.0f32, -1.0]));
    /// assert_eq!(a.vecdot(&b, -1).to_vec::<f32>()?, [-1.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When dtypes differ or are bool, shapes do not broadcast, there is no such axis in the broadcast shape, or the
    /// axis has different sizes in the two.
    #[track_caller]
    pub fn vecdot(&self, other: &Tensor, axis: impl Into<crate::Axis>) -> Tensor {
        crate::record::check_alike("vecdot", self, other);
        let Some(shape) = self.shape().broadcast(other.shape()) else {
            crate::record::shapes_differ("vecdot", self.shape(), other.shape())
        };
        let axis = axis.into().of("vecdot", shape.rank());
        let (a, b) = (self.broadcast_to(shape), other.broadcast_to(shape));
        let behind = |t: &Tensor| t.movedim(axis, -1).unsqueeze(-2);
        let (a, b) = (behind(&a), behind(&b).transpose(-1, -2));
        a.matmul(&b).squeeze([-2, -1])
    }

    /// The matrix power, by repeated squaring, as `numpy.linalg.matrix_power`; the identity for 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1i32, 1], [0, 1]]).matrix_power(5).to_vec::<i32>()?, [1, 5, 0, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On bool, when the rank is below 2 or the last two sizes differ.
    #[track_caller]
    pub fn matrix_power(&self, power: u32) -> Tensor {
        let rank = self.rank();
        if rank < 2 || self.dims()[rank - 1] != self.dims()[rank - 2] {
            panic!("matrix_power: takes square matrices, not shape {}", self.shape());
        }
        let n = self.dims()[rank - 1];
        let mut result: Option<Tensor> = None;
        let (mut square, mut rest) = (self.clone(), power);
        while rest > 0 {
            if rest & 1 == 1 {
                result = Some(result.map_or_else(|| square.clone(), |r| r.matmul(&square)));
            }
            rest >>= 1;
            if rest > 0 {
                square = square.matmul(&square);
            }
        }
        let one = |x: &Tensor| Tensor::eye_with(n, n, crate::Options::of(x)).broadcast_to(*x.shape());
        result.unwrap_or_else(|| crate::powers::constant(self, one))
    }
}

/// # Linear algebra: products
///
/// Sums of bf16 and f16 are accumulated in f32.
impl Tensor {
    /// The matrix product over the last two dimensions, with leading ones broadcast, as NumPy's `@` and `torch.matmul`.
    /// A tensor of rank 1 is a row on the left and a column on the right, and that dimension is dropped from the
    /// result.
    ///
    /// See also [`linear`](Tensor::linear) (`x·Wᵀ + b`), [`dot`](Tensor::dot) (vectors), [`vecdot`](Tensor::vecdot)
    /// (along an axis), [`einsum`](Tensor::einsum), [`tensordot`](Tensor::tensordot).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::randn([8, 2, 3]), Tensor::randn([3, 4]));
    /// assert_eq!(a.matmul(&b).dims(), [8, 2, 4]);
    /// ```
    ///
    /// # Panics
    /// When a rank is 0, the inner sizes differ, leading dimensions do not broadcast, dtypes differ or are bool.
    ///
    /// A chain `a.matmul(&b).matmul(&c)` whose inner result has no handle is multiplied in the order with the fewest
    /// multiplications, as [`einsum`](Tensor::einsum) does, if that is clearly cheaper; in strict mode in the order
    /// written.
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
        let product = match k {
            // Sums of one term are products of elements, which fuse like any others.
            1 => &a * &b,
            _ => push(Op::Matmul, a.dtype(), shape, 0, [Arg::Tensor(&a), Arg::Tensor(&b)], &[]),
        };
        match (row, column) {
            (false, false) => product,
            (true, true) => product.reshape(()),
            (true, false) => product.reshape(shape.remove(shape.rank() - 2)),
            (false, true) => product.reshape(shape.remove(shape.rank() - 1)),
        }
    }

    /// The sum of products of two vectors of equal length: `Σ aᵢ·bᵢ`.
    ///
    /// See also [`vecdot`](Tensor::vecdot) along an axis and [`outer`](Tensor::outer).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 2.0]).dot(&Tensor::new([3.0f32, 4.0])).item::<f32>()?, 11.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When they are not vectors of equal length, or dtypes differ or are bool.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        if self.rank() != 1 || self.shape() != other.shape() {
            panic!("dot: takes two vectors of one length, not shapes {} and {}", self.shape(), other.shape());
        }
        self.mul(other).sum(0)
    }

    /// The outer product of two vectors: `cᵢⱼ = aᵢ·bⱼ`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).outer(&Tensor::new([3i32, 4])).to_vec::<i32>()?, [3, 4, 6, 8]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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

/// Axes that [`Tensor::tensordot`] sums over: a number (the last ones of the left tensor and the first ones of the
/// right), or a list for each side.
#[derive(Clone, Copy, Debug)]
pub struct Contracted(Pairs);

#[derive(Clone, Copy, Debug)]
enum Pairs {
    Count(usize),
    Lists(Axes, Axes),
}

impl From<usize> for Contracted {
    fn from(count: usize) -> Contracted {
        Contracted(Pairs::Count(count))
    }
}

impl<A: Into<Axes>, B: Into<Axes>> From<(A, B)> for Contracted {
    fn from((left, right): (A, B)) -> Contracted {
        Contracted(Pairs::Lists(left.into(), right.into()))
    }
}

/// # Linear algebra: contractions
impl Tensor {
    /// The products of all elements of two tensors, summed over pairs of axes, as NumPy's and PyTorch's `tensordot`.
    /// The result has the other axes of the left tensor, then those of the right.
    ///
    /// It is one [`matmul`](Tensor::matmul) of permuted views, with the same order of sums.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::randn([2, 3, 4]), Tensor::randn([4, 3, 5]));
    /// assert_eq!(a.tensordot(&b, ([1, 2], [1, 0])).dims(), [2, 5]);
    /// assert_eq!(a.tensordot(&b, 1).dims(), [2, 3, 3, 5]);
    /// ```
    ///
    /// # Panics
    /// When an axis does not exist or is named twice, the lists or the paired sizes differ, the result would have more
    /// than eight axes, or dtypes differ or are bool.
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, axes: impl Into<Contracted>) -> Tensor {
        check_alike("tensordot", self, other);
        if self.dtype() == DType::Bool {
            wrong_dtype("tensordot", "a float or integer dtype", self.dtype());
        }
        let (m, n) = (self.rank(), other.rank());
        let ((left, count), (right, pairs)) = match axes.into().0 {
            Pairs::Count(count) if count <= m.min(n) => {
                let (left, right): (Vec<usize>, Vec<usize>) = ((m - count..m).collect(), (0..count).collect());
                (Axes::from(left).of("tensordot", m), Axes::from(right).of("tensordot", n))
            }
            Pairs::Count(count) => {
                panic!("tensordot: {count} axes of shapes {} and {}", self.shape(), other.shape())
            }
            Pairs::Lists(left, right) => (left.of("tensordot", m), right.of("tensordot", n)),
        };
        let (left, right) = (&left[..count], &right[..pairs]);
        let sizes = |x: &Tensor, axes: &[usize]| axes.iter().map(|&a| x.dims()[a]).collect::<Vec<_>>();
        let terms = sizes(self, left);
        if terms != sizes(other, right) {
            panic!("tensordot: axes {left:?} of {} against axes {right:?} of {}", self.shape(), other.shape());
        }
        let rest = |rank: usize, gone: &[usize]| (0..rank).filter(|a| !gone.contains(a)).collect::<Vec<_>>();
        let (rows, columns) = (rest(m, left), rest(n, right));
        let out = [sizes(self, &rows), sizes(other, &columns)].concat();
        if out.len() > crate::MAX_RANK {
            panic!(
                "tensordot: shapes {} and {} give {} axes, over the rank limit",
                self.shape(),
                other.shape(),
                out.len()
            );
        }
        let product = |sizes: &[usize]| sizes.iter().product::<usize>();
        let (k, split) = (product(&terms), rows.len());
        let a = self.permute([rows.as_slice(), left].concat()).reshaped(Shape::new(&[product(&out[..split]), k]));
        let b = other.permute([right, &columns].concat()).reshaped(Shape::new(&[k, product(&out[split..])]));
        a.matmul(&b).reshaped(Shape::new(&out))
    }

    /// A linear layer, `x·wᵀ + b`, as `torch.nn.functional.linear`: the last axis times weights `[out, in]`, plus a
    /// bias per output. Leading dimensions stay; all rows are one product.
    ///
    /// Sums are those of [`matmul`](Tensor::matmul): bf16 and f16 are accumulated in f32 and rounded once, then the
    /// bias is added.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (x, w, b) = (Tensor::randn([2, 5, 3]), Tensor::randn([4, 3]), Tensor::randn([4]));
    /// assert_eq!(x.linear(&w, Some(&b)).dims(), [2, 5, 4]);
    /// ```
    ///
    /// # Panics
    /// When the last axis has another size than the weights' inputs, the weights are not a matrix, the bias has not one
    /// element per output, or dtypes differ or are bool.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        check_alike("linear", self, weight);
        if self.dtype() == DType::Bool {
            wrong_dtype("linear", "a float or integer dtype", self.dtype());
        }
        let fits = self.rank() > 0 && weight.rank() == 2 && self.dims()[self.rank() - 1] == weight.dims()[1];
        if !fits {
            panic!("linear: shape {} by weights of shape {}, which are [out, in]", self.shape(), weight.shape());
        }
        let (outer, inner) = (weight.dims()[0], weight.dims()[1]);
        if let Some(bias) = bias {
            check_alike("linear", self, bias);
            if bias.dims() != [outer] {
                panic!("linear: a bias of shape {} for weights of shape {}", bias.shape(), weight.shape());
            }
        }
        let mut shape = *self.shape();
        let rows = shape[..shape.rank() - 1].iter().product::<usize>();
        shape.dims_mut()[self.rank() - 1] = outer;
        let sums = self.reshaped(Shape::new(&[rows, inner])).matmul(&weight.t());
        bias.map_or_else(|| sums.clone(), |bias| &sums + bias).reshaped(shape)
    }
}

/// The leading dimensions, and the sizes of the last two.
fn parts(x: &Tensor) -> (Shape, [usize; 2]) {
    let (batch, last) = x.dims().split_at(x.rank() - 2);
    (Shape::new(batch), [last[0], last[1]])
}
