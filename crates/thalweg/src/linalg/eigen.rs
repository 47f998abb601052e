//! Eigenvalues and eigenvectors.

use super::each::host_op;
use super::spectra::{General, GeneralValues, Symmetric, SymmetricValues};
use super::{gaps, identity, skew, squares};
use crate::{Backward, Complex, Tensor};

/// # Linear algebra: eigenvalues
///
/// With the feature `linalg`.
impl Tensor {
    /// The eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns, as `numpy.linalg.eigh`
    /// and `torch.linalg.eigh`. Reads only the lower triangle. The signs of the vectors are arbitrary. Takes f32 and
    /// f64. NaN and infinity are an error where a result is read. Needs the feature `linalg`.
    ///
    /// The gradient of the vectors requires distinct eigenvalues, and a function that does not depend on signs, as
    /// PyTorch's.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let a = Tensor::new([[2.0f64, 1.0], [1.0, 2.0]]);
    /// let (w, v) = a.eigh();
    /// assert!((&w - Tensor::new([1.0, 3.0])).abs().amax(..).item::<f64>()? < 1e-12);
    /// assert!((a.matmul(&v) - v * w).abs().amax(..).item::<f64>()? < 1e-12);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn eigh(&self) -> (Tensor, Tensor) {
        let n = squares("eigh", self);
        let back = move |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let (w, v, gw, gv) = (&b.outputs[0], &b.outputs[1], &b.gradients[0], &b.gradients[1]);
            // V [diag(gw) + skew(Vᵀ gV) / 2E] Vᵀ with E[i, j] = w[j] - w[i]: symmetric, as PyTorch's
            let off = skew(&v.t().matmul(gv)) / gaps(w, n) * 0.5;
            let middle = off + identity(n, w) * gw.unsqueeze(-2);
            [v.matmul(&middle).matmul(&v.t())]
        };
        let mut both = host_op(Symmetric).backward(back).on_all(self).into_iter();
        both.next().zip(both.next()).expect("it has two results")
    }

    /// The eigenvalues of symmetric matrices in ascending order, as `numpy.linalg.eigvalsh`: faster than
    /// [`eigh`](Tensor::eigh), and with a gradient also for equal eigenvalues. Needs the feature `linalg`.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn eigvalsh(&self) -> Tensor {
        squares("eigvalsh", self);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let (_, v) = b.inputs[0].eigh();
            [(&v * b.gradients[0].unsqueeze(-2)).matmul(&v.t())]
        };
        host_op(SymmetricValues).backward(back).on(self)
    }

    /// The eigenvalues and eigenvectors of square matrices, as `numpy.linalg.eig` and `torch.linalg.eig`. They are
    /// complex and in no order, with conjugate pairs adjacent. Vectors are columns of Euclidean norm 1 with arbitrary
    /// phase. Takes f32 and f64. NaN and infinity are an error where a result is read. Needs the feature `linalg`.
    ///
    /// The gradient requires distinct eigenvalues and, for the vectors, a function that does not depend on their phase,
    /// as PyTorch's.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (w, _) = Tensor::new([[0.0f64, -1.0], [1.0, 0.0]]).eig();
    /// assert!((w.im.abs() - 1.0).abs().amax(..).item::<f64>()? < 1e-12);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn eig(&self) -> (Complex, Complex) {
        squares("eig", self);
        let back = |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
            let pair = |t: &[Tensor], i: usize| Complex { re: t[i].clone(), im: t[i + 1].clone() };
            let (y, g) = (&b.outputs, &b.gradients);
            [eig_gradient(&pair(y, 0), &pair(y, 2), &pair(g, 0), Some(&pair(g, 2)))]
        };
        let mut all = host_op(General).backward(back).on_all(self).into_iter();
        let mut pair = || Complex { re: all.next().expect("four results"), im: all.next().expect("four results") };
        (pair(), pair())
    }

    /// The eigenvalues of square matrices, as `numpy.linalg.eigvals`: faster than [`eig`](Tensor::eig). Needs the
    /// feature `linalg`.
    ///
    /// # Panics
    /// When the matrices are not square, or not of f32 or f64.
    #[track_caller]
    pub fn eigvals(&self) -> Complex {
        squares("eigvals", self);
        if self.is_tracked() {
            // The gradient needs the vectors in the same order.
            return self.eig().0;
        }
        let mut all = host_op(GeneralValues).on_all(self).into_iter();
        Complex { re: all.next().expect("two results"), im: all.next().expect("two results") }
    }
}

/// The gradient of `eig`, as in PyTorch: the real part of `V⁻ᴴ [diag(gw) + (Vᴴ gV - Vᴴ V diag(Re(Vᴴ gV))) / E*] Vᴴ`
/// with `E[i, j] = w[j] - w[i]`, 1 on the diagonal.
fn eig_gradient(w: &Complex, v: &Complex, gw: &Complex, gv: Option<&Complex>) -> Tensor {
    let n = w.dims()[w.dims().len() - 1];
    let unit = identity(n, &w.re);
    let vh = v.adjoint();
    let mut middle = gw.map(|g| &unit * g.unsqueeze(-2));
    if let Some(gv) = gv {
        let vgv = vh.matmul(gv);
        let along = vgv.re.diagonal(0).unsqueeze(-2);
        let off = vgv - vh.matmul(v) * along;
        // 1 on the diagonal, where the other part of the difference is 0.
        let e = w.map(|w| w.unsqueeze(-2) - w.unsqueeze(-1));
        let e = Complex { re: e.re + &unit, im: -e.im };
        middle += off / e * (1.0 - &unit);
    }
    vh.solve(&middle.matmul(&vh)).re
}
