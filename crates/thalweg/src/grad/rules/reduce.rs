//! Rules of reductions.

use super::{Step, zeros};
use crate::{Shape, Tensor};
use thalweg_ir::ReduceOp;

/// Bit mask of the reduced axes, from the operation's attribute.
fn mask(step: &Step<'_>) -> u32 {
    step.attr & 0xFF
}

/// Broadcasts the result of a reduction over the elements that were reduced to it.
fn spread(y: &Tensor, shape: &Shape, mask: u32) -> Tensor {
    let mut kept = *shape;
    for (i, d) in kept.dims_mut().iter_mut().enumerate() {
        if mask >> i & 1 == 1 {
            *d = 1;
        }
    }
    y.reshaped(kept).broadcast_to(*shape)
}

pub(super) fn rule(step: &Step<'_>, op: ReduceOp, dy: &Tensor) -> Tensor {
    let (shape, mask) = (step.args[0].shape(), mask(step));
    match op {
        ReduceOp::Sum => spread(dy, shape, mask),
        ReduceOp::Prod => {
            let x = step.args[0].value();
            if x.numel() == 0 {
                return zeros(*shape, dy);
            }
            spread(dy, shape, mask) * product_of_others(x, mask)
        }
        // Elements equal to the result share its gradient. If the result is NaN, none is equal, and 0/0 gives NaN.
        _ => {
            let (x, axes) = (step.args[0].value(), axes(shape, mask));
            let hit = x.eq(spread(step.result(), shape, mask));
            let count = hit.cast(x.dtype()).sum_keepdim(axes);
            hit.where_(spread(dy, shape, mask), 0.0) / count
        }
    }
}

fn axes(shape: &Shape, mask: u32) -> Vec<usize> {
    (0..shape.rank()).filter(|i| mask >> i & 1 == 1).collect()
}

/// For each element the product of all others that are reduced with it: of those before it and those after it. There is
/// no division, so zeros need no special case.
fn product_of_others(x: &Tensor, mask: u32) -> Tensor {
    let shape = x.shape();
    let reduced = axes(shape, mask);
    let kept: Vec<usize> = (0..shape.rank()).filter(|i| mask >> i & 1 == 0).collect();
    let order = [kept.as_slice(), &reduced].concat();
    let moved = x.permute(order.as_slice());
    let count: usize = reduced.iter().map(|&i| shape[i]).product();
    let rows = moved.reshape([x.numel() / count, count]);
    let before = rows.cumprod(1).part(1, (0, 1, count - 1)).pad([(0, 0), (1, 0)], 1);
    let behind = rows.cumprod_reverse(1).part(1, (1, 1, count - 1)).pad([(0, 0), (0, 1)], 1);
    let mut back = vec![0usize; order.len()];
    order.iter().enumerate().for_each(|(i, &o)| back[o] = i);
    (before * behind).reshaped(*moved.shape()).permute(back)
}
