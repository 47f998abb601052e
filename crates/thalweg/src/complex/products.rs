//! Products of complex vectors and matrices. Each takes four real products and two sums.

use super::{Complex, common_shape};
use crate::{Axis, Contracted, Tensor};

/// Products that are linear in both operands, in terms of the real ones.
macro_rules! products {
    ($($(#[$doc:meta])* $name:ident $(($arg:ident: $t:ty))?;)*) => {
        impl Complex {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = concat!("As [`Tensor::", stringify!($name), "`].")]
            #[track_caller]
            pub fn $name(&self, other: &Complex $(, $arg: impl Into<$t>)?) -> Complex {
                $(let $arg: $t = $arg.into();)?
                let (a, b) = (self, other);
                Complex {
                    re: a.re.$name(&b.re $(, $arg)?) - a.im.$name(&b.im $(, $arg)?),
                    im: a.re.$name(&b.im $(, $arg)?) + a.im.$name(&b.re $(, $arg)?),
                }
            }
        )*}
    };
}

products! {
    /// The matrix product over the last two dimensions, leading ones broadcast, as NumPy's `@`; nothing is conjugated.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let i = Complex::from_pairs(&[(0.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 1.0)], [2, 2]);
    /// assert_eq!(i.matmul(&i).to_string(), "[[-1.+0.j  0.+0.j]\n [ 0.+0.j -1.+0.j]]");
    /// ```
    matmul;
    /// The sum of products of two vectors, `Σ aᵢ·bᵢ`, as `numpy.dot` and `torch.dot`; nothing is conjugated
    /// ([`vdot`](Complex::vdot) does).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.dot(&z).to_string(), "-10.+28.j");
    /// ```
    dot;
    /// The outer product of two vectors, as `numpy.outer`; nothing is conjugated.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.outer(&z).dims(), [2, 2]);
    /// ```
    outer;
    /// The Kronecker product, as `numpy.kron`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.kron(&z).dims(), [4]);
    /// ```
    kron;
    /// Sums of products over axes, as `numpy.tensordot`; nothing is conjugated.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let (a, b) = (Complex::randn([2, 3, 4]), Complex::randn([4, 3, 5]));
    /// assert_eq!(a.tensordot(&b, ([1, 2], [1, 0])).dims(), [2, 5]);
    /// ```
    tensordot(axes: Contracted);
}

impl Complex {
    /// The inner product of two flattened tensors, `Σ conj(aᵢ)·bᵢ`, as `numpy.vdot` and `torch.vdot`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.vdot(&z).to_string(), "30.+0.j");
    /// ```
    ///
    /// # Panics
    /// When the numbers of elements or the dtypes differ.
    #[track_caller]
    pub fn vdot(&self, other: &Complex) -> Complex {
        if self.numel() != other.numel() {
            panic!("vdot: shapes {} and {} have not as many numbers", self.shape(), other.shape());
        }
        self.flatten().conj().dot(&other.flatten())
    }

    /// The inner products of vectors along an axis, `Σ conj(aᵢ)·bᵢ`, with the other dimensions broadcast, as
    /// `numpy.vecdot`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [1, 2]);
    /// assert_eq!(z.vecdot(&z, -1).to_string(), "[30.+0.j]");
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::vecdot`].
    #[track_caller]
    pub fn vecdot(&self, other: &Complex, axis: impl Into<Axis>) -> Complex {
        let axis = axis.into();
        let (a, b) = (self, other);
        Complex {
            re: a.re.vecdot(&b.re, axis) + a.im.vecdot(&b.im, axis),
            im: a.re.vecdot(&b.im, axis) - a.im.vecdot(&b.re, axis),
        }
    }

    /// Einstein summation of one or two operands, as `numpy.einsum`; nothing is conjugated. For more operands, take two
    /// at a time.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let (a, b) = (Complex::randn([5, 2, 3]), Complex::randn([5, 3, 4]));
    /// assert_eq!(Complex::einsum("bij,bjk->bik", &[&a, &b]).dims(), [5, 2, 4]);
    /// assert_eq!(Complex::einsum("bij->b", &[&a]).dims(), [5]);
    /// ```
    ///
    /// # Panics
    /// When there are not one or two operands, and as [`Tensor::einsum`].
    #[track_caller]
    pub fn einsum(spec: &str, operands: &[&Complex]) -> Complex {
        match operands {
            [z] => Complex { re: Tensor::einsum(spec, &[&z.re]), im: Tensor::einsum(spec, &[&z.im]) },
            [a, b] => Complex {
                re: Tensor::einsum(spec, &[&a.re, &b.re]) - Tensor::einsum(spec, &[&a.im, &b.im]),
                im: Tensor::einsum(spec, &[&a.re, &b.im]) + Tensor::einsum(spec, &[&a.im, &b.re]),
            },
            _ => panic!("Complex::einsum: takes one or two operands, not {}", operands.len()),
        }
    }

    /// The conjugated transpose of the last two dimensions, as `torch.adjoint` and `a.conj().swapaxes(-1, -2)`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [1, 2]);
    /// assert_eq!(z.adjoint().to_string(), "[[1.-2.j]\n [3.-4.j]]");
    /// ```
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn adjoint(&self) -> Complex {
        if self.rank() < 2 {
            panic!("adjoint: takes matrices, not shape {}", self.shape());
        }
        Complex { re: self.re.t(), im: -self.im.t() }
    }

    /// The sum of the main diagonal of the matrices in the last two dimensions, as `numpy.linalg.trace`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (0.0, 0.0), (0.0, 0.0), (3.0, 4.0)], [2, 2]);
    /// assert_eq!(z.trace().to_string(), "4.+6.j");
    /// ```
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn trace(&self) -> Complex {
        Complex { re: self.re.trace(), im: self.im.trace() }
    }

    /// The matrix power, by repeated squaring, as `numpy.linalg.matrix_power`; the identity for 0.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let i = Complex::from_pairs(&[(0.0, 1.0)], [1, 1]);
    /// assert_eq!(i.matrix_power(2).to_string(), "[[-1.+0.j]]");
    /// ```
    ///
    /// # Panics
    /// When the rank is below 2 or the last two sizes differ.
    #[track_caller]
    pub fn matrix_power(&self, power: u32) -> Complex {
        let one = Complex { re: self.re.matrix_power(0), im: self.im.zeros_like() };
        let mut result: Option<Complex> = None;
        let (mut square, mut rest) = (self.clone(), power);
        while rest > 0 {
            if rest & 1 == 1 {
                result = Some(match result {
                    None => square.clone(),
                    Some(r) => r.matmul(&square),
                });
            }
            rest >>= 1;
            if rest > 0 {
                square = square.matmul(&square);
            }
        }
        result.unwrap_or(one)
    }

    /// The cross product along an axis of three elements, as `numpy.linalg.cross`; the other dimensions broadcast.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let x = Complex::real(&Tensor::new([1.0, 0.0, 0.0]));
    /// let y = Complex::real(&Tensor::new([0.0, 1.0, 0.0])).times_i();
    /// assert_eq!(x.cross(&y, 0).to_string(), "[0.+0.j 0.+0.j 0.+1.j]");
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::cross`].
    #[track_caller]
    pub fn cross(&self, other: &Complex, axis: impl Into<Axis>) -> Complex {
        common_shape("cross", &self.re, &other.re);
        let axis = axis.into();
        let (a, b) = (self, other);
        Complex {
            re: a.re.cross(&b.re, axis) - a.im.cross(&b.im, axis),
            im: a.re.cross(&b.im, axis) + a.im.cross(&b.re, axis),
        }
    }
}
