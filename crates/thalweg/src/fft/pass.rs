//! A transform along one axis as an operation, and its gradient, which is a transform, too.
//!
//! In: real and imaginary part. Out: the same. Always true: a transform is a linear function of its parts, so its
//! gradient is the transpose: the opposite direction with the same factor. In the half of a transform, numbers that
//! occur twice in the whole are counted twice, or half, in the gradient.

use super::lines::{Kind, Pass, Real, transform};
use crate::host::LibraryOp;
use crate::{Backward, Complex, DType, HostInput, HostOp, HostOutput, Options, Shape, Tensor};
use thalweg_runtime::{Fourier, FourierKind};

/// Number of elements before and after an axis.
fn around(shape: &Shape, axis: usize) -> (usize, usize) {
    (shape[..axis].iter().product(), shape[axis + 1..].iter().product())
}

fn host_op(name: &'static str, axis: usize, pass: Pass) -> HostOp {
    let results = if pass.kind == Kind::Real { 1 } else { 2 };
    let outputs = move |x: &[Tensor]| {
        let mut shape = *x[0].shape();
        shape.dims_mut()[axis] = pass.given();
        vec![(shape, x[0].dtype()); results]
    };
    HostOp::new(name, outputs, move |x, y| {
        match x[0].dtype() {
            DType::F32 => run::<f32>(axis, pass, x, y),
            _ => run::<f64>(axis, pass, x, y),
        }
        Ok(())
    })
    .known(move |x| {
        let (outer, inner) = around(x[0].shape(), axis);
        let kind = match pass.kind {
            Kind::Forward => FourierKind::Forward,
            Kind::Inverse => FourierKind::Inverse,
            Kind::Half => FourierKind::Half,
            Kind::Real => FourierKind::Real,
        };
        let double = x[0].dtype() == DType::F64;
        Some(LibraryOp::Fourier(Fourier { kind, double, outer, n: pass.n, inner, scale: pass.scale }))
    })
}

fn run<T: Real>(axis: usize, pass: Pass, x: &[HostInput<'_>], y: &mut [HostOutput<'_>]) {
    let lines = around(x[0].shape(), axis);
    let parts = [x[0].slice::<T>(), x.get(1).map_or(&[], |x| x.slice::<T>())];
    let mut y = y.iter_mut();
    let mut next = || y.next().map_or(&mut [][..], |y| y.slice_mut::<T>());
    let results = [next(), next()];
    transform(pass, lines, parts, results);
}

/// Records a transform of complex numbers.
#[track_caller]
pub(super) fn complex(name: &'static str, z: &Complex, axis: usize, inverse: bool, scale: f64) -> Complex {
    let kind = if inverse { Kind::Inverse } else { Kind::Forward };
    let back = move |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
        let g = pair(b.gradients);
        let g = complex(name, &g, axis, !inverse, scale);
        [g.re, g.im]
    };
    let pass = Pass { kind, n: z.dims()[axis], scale };
    pair(host_op(name, axis, pass).backward(back).on_all(&[z.re.clone(), z.im.clone()]))
}

/// Records the first half of the transform of real numbers.
#[track_caller]
pub(super) fn half(name: &'static str, x: &Tensor, axis: usize, scale: f64) -> Complex {
    let n = x.dims()[axis];
    let back = move |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
        let g = pair(b.gradients);
        let weights = once_or_twice(&g.re, axis, n, 0.5);
        [real(name, &(g * weights), axis, n, scale)]
    };
    pair(host_op(name, axis, Pass { kind: Kind::Half, n, scale }).backward(back).on_all(x))
}

/// Records `n` times the real numbers whose transform has that first half.
#[track_caller]
pub(super) fn real(name: &'static str, z: &Complex, axis: usize, n: usize, scale: f64) -> Tensor {
    let back = move |b: Backward<Vec<Tensor>, Vec<Tensor>>| {
        let g = half(name, &b.gradients[0], axis, scale);
        let weights = once_or_twice(&g.re, axis, n, 2.0);
        let g = g * weights;
        [g.re, g.im]
    };
    let op = host_op(name, axis, Pass { kind: Kind::Real, n, scale });
    op.backward(back).on(&[z.re.clone(), z.im.clone()])
}

fn pair(parts: Vec<Tensor>) -> Complex {
    let [re, im] = <[Tensor; 2]>::try_from(parts).unwrap_or_else(|_| unreachable!("a real and an imaginary part"));
    Complex { re, im }
}

/// Weights along an axis of a half transform: 1 for numbers that occur once in the whole transform of `n` numbers, else
/// `twice`.
fn once_or_twice(like: &Tensor, axis: usize, n: usize, twice: f64) -> Tensor {
    let i = Tensor::arange_with(n / 2 + 1, (DType::I64, like.device()));
    let once = if n.is_multiple_of(2) { i.eq(0) | i.eq(n / 2) } else { i.eq(0) };
    let one = Tensor::ones_with((), Options::of(like));
    let mut sizes = vec![1; like.rank()];
    sizes[axis] = n / 2 + 1;
    once.where_(&one, one.clone() * twice).reshape(sizes)
}
