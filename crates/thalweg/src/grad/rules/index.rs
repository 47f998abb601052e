//! Rules of gathers and scatters.

use super::{ArgumentGradients, Step, zeros};
use crate::{DType, Shape, Tensor};
use smallvec::smallvec;
use thalweg_ir::ScatterOp;
use thalweg_stream::Counted;

/// Caller named in an index error: the index is that of the scatter being differentiated.
const SCATTER: (&str, Counted) = ("the gradient of a scatter", Counted::Plain);

/// Gradient of a gather: adds each gradient to the element that was read.
pub(super) fn gather(step: &Step<'_>, dy: &Tensor) -> Tensor {
    let (axis, shape, index) = (step.axis(), step.args[0].shape(), step.args[1].value());
    if index.dims()[axis] == 1 {
        // One element in each row, such as a class among logits: a select, which fuses, instead of a scatter.
        let mut column = Shape::new(&[1; crate::MAX_RANK][..shape.rank()]);
        column.dims_mut()[axis] = shape[axis];
        let place = crate::create::iota(shape[axis], DType::I64, dy.device()).reshaped(column);
        return place.eq(index).where_(dy, 0.0);
    }
    zeros(*shape, dy).scattered(ScatterOp::Add, axis, index, dy)
}

pub(super) fn scatter(step: &Step<'_>, op: ScatterOp, dy: &Tensor) -> ArgumentGradients {
    let (axis, values) = (step.axis(), step.args[2].shape());
    let (dx, dv) = match op {
        ScatterOp::Add => (
            step.wants(0).then(|| dy.clone()),
            step.wants(2).then(|| dy.gathered_by(SCATTER, axis, step.args[1].value())),
        ),
        ScatterOp::Set => {
            let index = step.args[1].value();
            let dx = step.wants(0).then(|| dy.scattered(ScatterOp::Set, axis, index, &zeros(*values, dy)));
            let dv = step.wants(2).then(|| {
                // Of values with one index, the last one written remains: it is the one whose position is still stored.
                let place = index.positions(axis, DType::I64).broadcast_to(*index.shape());
                let last = Tensor::zeros_with(*dy.shape(), (DType::I64, dy.device()));
                let last = last.scattered(ScatterOp::Set, axis, index, &place).gathered_by(SCATTER, axis, index);
                last.eq(place).where_(dy.gathered_by(SCATTER, axis, index), 0.0)
            });
            (dx, dv)
        }
        ScatterOp::Max | ScatterOp::Min => {
            let [x, index, v] = [0, 1, 2].map(|i| step.args[i].value());
            let y = step.result();
            let (kept, put) = (x.eq(y), v.eq(y.gathered_by(SCATTER, axis, index)));
            let count = kept.cast(dy.dtype()).scattered(ScatterOp::Add, axis, index, &put.cast(dy.dtype()));
            let dx = step.wants(0).then(|| kept.where_(dy, 0.0) / &count);
            let dv = step.wants(2).then(|| put.where_((dy / &count).gathered_by(SCATTER, axis, index), 0.0));
            (dx, dv)
        }
        ScatterOp::Prod => {
            let [x, index, v] = [0, 1, 2].map(|i| step.args[i].value());
            let cell = Cell::new(x, axis, index, v);
            let dx = step.wants(0).then(|| dy * cell.without(x, |t| t.clone()));
            let dv = step.wants(2).then(|| {
                dy.gathered_by(SCATTER, axis, index) * cell.without(v, |t| t.gathered_by(SCATTER, axis, index))
            });
            (dx, dv)
        }
    };
    smallvec![dx, None, dv]
}

/// Statistics of the factors of each element of a product-scatter.
struct Cell {
    /// Product of the factors that are not 0.
    product: Tensor,
    /// Number of factors that are 0.
    zeros: Tensor,
    /// The sum of the factors that are 0: its value is 0, but its derivative is not.
    sum: Tensor,
}

impl Cell {
    fn new(x: &Tensor, axis: usize, index: &Tensor, v: &Tensor) -> Cell {
        let put = |op: ScatterOp, of: &dyn Fn(&Tensor) -> Tensor| of(x).scattered(op, axis, index, &of(v));
        Cell {
            product: put(ScatterOp::Prod, &|t| t.eq(0.0).where_(1.0, t)),
            zeros: put(ScatterOp::Add, &|t| t.eq(0.0).cast(t.dtype())),
            sum: put(ScatterOp::Add, &|t| t.eq(0.0).where_(t, 0.0)),
        }
    }

    /// The product of the other factors, for each factor. If exactly one of them is 0, it is multiplied by their sum of
    /// zeros, so that second derivatives are right, too.
    fn without(&self, factor: &Tensor, at: impl Fn(&Tensor) -> Tensor) -> Tensor {
        let zero = factor.eq(0.0);
        let others = at(&self.zeros) - zero.cast(factor.dtype());
        let sum = at(&self.sum) - zero.where_(factor, 0.0);
        let rest = others.eq(0.0).where_(1.0, others.eq(1.0).where_(sum, 0.0));
        at(&self.product) / zero.where_(1.0, factor) * rest
    }
}
