//! Rule of matrix products: two more matrix products.

use super::{ArgumentGradients, Step};
use crate::{Shape, Tensor};
use smallvec::smallvec;

/// `dA = dY·Bᵀ` and `dB = Aᵀ·dY`, summed where leading dimensions broadcast. For a factor that is one matrix for all
/// samples, the product itself sums over samples and rows. For a factor that is a transpose, such as a layer's weights,
/// the gradient is computed as that of the original, `(dYᵀ·A)ᵀ`, so that its reader gets it in row-major order.
pub(super) fn matmul(step: &Step<'_>, dy: &Tensor) -> ArgumentGradients {
    let batch = Shape::new(&dy.dims()[..dy.rank() - 2]);
    let one_for_all = |i: usize| {
        let shape = step.args[i].shape();
        batch.numel() > 1 && shape.dims()[..shape.rank() - 2].iter().all(|&d| d == 1)
    };
    let product = |i: usize, a: &Tensor, b: &Tensor| match step.is_transpose(i) {
        true => b.t().matmul(&a.t()).t(),
        false => a.matmul(b),
    };
    let left = step.wants(0).then(|| {
        let (b, shape) = (step.args[1].value(), step.args[0].shape());
        if !one_for_all(0) {
            return product(0, dy, &b.t()).sum_to(*shape);
        }
        let (dy, b) = (side_by_side(dy), side_by_side(&over(b, &batch)));
        product(0, &dy, &b.t()).reshaped(*shape)
    });
    let right = step.wants(1).then(|| {
        let (a, shape) = (step.args[0].value(), step.args[1].shape());
        if !one_for_all(1) {
            return product(1, &a.t(), dy).sum_to(*shape);
        }
        let (a, dy) = (stacked(&over(a, &batch)), stacked(dy));
        product(1, &a.t(), &dy).reshaped(*shape)
    });
    smallvec![left, right]
}

/// View of a matrix that repeats it for all samples.
fn over(x: &Tensor, batch: &Shape) -> Tensor {
    let (rows, columns) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
    let shape = batch.insert(batch.rank(), rows);
    x.broadcast_to(shape.insert(shape.rank(), columns))
}

/// Matrices of all samples, stacked vertically to one matrix.
fn stacked(x: &Tensor) -> Tensor {
    let columns = x.dims()[x.rank() - 1];
    let rows = x.dims()[..x.rank() - 1].iter().product();
    x.reshaped(Shape::new(&[rows, columns]))
}

/// Matrices of all samples, side by side in one matrix.
fn side_by_side(x: &Tensor) -> Tensor {
    let rows = x.dims()[x.rank() - 2];
    let columns = x.dims()[..x.rank() - 2].iter().product::<usize>() * x.dims()[x.rank() - 1];
    x.movedim(-2, 0).reshaped(Shape::new(&[rows, columns]))
}
