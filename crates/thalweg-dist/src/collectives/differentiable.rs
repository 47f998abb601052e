//! Collectives as they are recorded, with their derivatives. The function that is differentiated is the sum of the
//! losses of all ranks.
//!
//! Operands are in the form that is sent: the part for each rank in a leading dimension. The result is written in its
//! final shape, because an operation on it, a view even, would run the collective.

use super::bytes::{self, Concatenation};
use super::record::{Collective, Origin};
use crate::World;
use crate::reduce::ReduceOp;
use thalweg::communication::Transfer;
use thalweg::{Backward, DType, Shape, Tensor};

/// Sizes before an axis, of it, and after it.
pub(super) fn around(x: &Tensor, axis: usize) -> [usize; 3] {
    let dims = x.dims();
    [dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product()]
}

/// The `count` parts of `x` along an axis, in a leading dimension: `[count, before, part, after]`.
pub(super) fn divided(x: &Tensor, axis: usize, count: usize) -> Tensor {
    let [before, own, after] = around(x, axis);
    x.reshape([before, count, own / count, after]).movedim(1, 0)
}

fn agreed(dtype: DType, shape: &Shape) -> String {
    format!("{dtype}{shape}")
}

impl World {
    /// Reduces `x` over ranks.
    #[track_caller]
    pub(crate) fn reduced(&self, x: &Tensor, op: ReduceOp, origin: Origin) -> Tensor {
        let (shape, dtype) = (*x.shape(), x.dtype());
        let collective = Collective {
            name: "all_reduce",
            operation: format!("all_reduce({op})"),
            agreed: agreed(dtype, &shape),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (shape, dtype),
            transfer: self.combination(op, dtype).map(Transfer::AllReduce),
            is_ragged: false,
        };
        let rule = move |world: &World, of: Backward<Tensor, Tensor>| reduced_rule(world, op, origin.backward(), of);
        self.record(collective, Some(Box::new(rule)), move |ranks, x, out| {
            bytes::all_reduce(ranks, (op, dtype), x, out)
        })
    }

    /// Concatenates `x` of all ranks along an axis.
    #[track_caller]
    pub(super) fn gathered(&self, x: &Tensor, axis: usize, origin: Origin) -> Tensor {
        let (dtype, size) = (x.dtype(), self.size());
        let mut shape = *x.shape();
        shape.dims_mut()[axis] *= size;
        let [before, own, after] = around(x, axis);
        if before > 1 && self.is_on_device(x) {
            // A library concatenates along the first axis only. The permutation starts the collective, without a wait.
            let parts = self.gathered(&x.reshape([1, x.numel()]), 0, origin);
            return parts.reshape([size, before, own, after]).movedim(0, 1).reshape(shape);
        }
        let collective = Collective {
            name: "all_gather",
            operation: "all_gather".into(),
            agreed: format!("{} along axis {axis}", agreed(dtype, x.shape())),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (shape, dtype),
            transfer: Some(Transfer::AllGather),
            is_ragged: false,
        };
        let own = *x.shape();
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            world.scattered(&divided(&dy, axis, size), ReduceOp::Sum, own, origin.backward())
        };
        let parts = Concatenation { sizes: vec![x.numel() * dtype.size(); size], rows: around(x, axis)[0] };
        self.record(collective, Some(Box::new(rule)), move |ranks, x, out| bytes::all_gather(ranks, &parts, x, out))
    }

    /// Reduces `x` over ranks; each gets its entry of the leading dimension, in a shape.
    #[track_caller]
    pub(super) fn scattered(&self, x: &Tensor, op: ReduceOp, shape: Shape, origin: Origin) -> Tensor {
        let dtype = x.dtype();
        let collective = Collective {
            name: "reduce_scatter",
            operation: format!("reduce_scatter({op})"),
            agreed: agreed(dtype, x.shape()),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (shape, dtype),
            transfer: self.combination(op, dtype).map(Transfer::ReduceScatter),
            is_ragged: false,
        };
        let operand = *x.shape();
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            let dx = world.gathered(&dy.reshape([1, dy.numel()]), 0, origin.backward()).reshape(operand);
            if op == ReduceOp::Mean { dx / world.size() as f64 } else { dx }
        };
        let has_rule = matches!(op, ReduceOp::Sum | ReduceOp::Mean);
        self.record(collective, has_rule.then(|| Box::new(rule) as _), move |ranks, x, out| {
            bytes::reduce_scatter(ranks, (op, dtype), x, out)
        })
    }

    /// `x` of rank `root`.
    #[track_caller]
    pub(super) fn broadcasted(&self, x: &Tensor, root: usize, origin: Origin) -> Tensor {
        let collective = Collective {
            name: "broadcast",
            operation: format!("broadcast(from {root})"),
            agreed: agreed(x.dtype(), x.shape()),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (*x.shape(), x.dtype()),
            transfer: Some(Transfer::Broadcast { root }),
            is_ragged: false,
        };
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            let sum = world.reduced(&dy, ReduceOp::Sum, origin.backward());
            if world.rank() == root { sum } else { dy.zeros_like() }
        };
        self.record(collective, Some(Box::new(rule)), move |ranks, x, out| bytes::broadcast(ranks, root, x, out))
    }

    /// Sends the next `sent[i]` elements of `x` to each rank `i`; concatenates the `received[i]` elements from each
    /// along an axis of the result's shape. `is_ragged`: whether the numbers may differ between sender and receiver.
    #[track_caller]
    pub(super) fn exchanged(
        &self,
        x: &Tensor,
        (agreed, is_ragged): (String, bool),
        [sent, received]: [Vec<usize>; 2],
        (shape, axis): (Shape, usize),
        origin: Origin,
    ) -> Tensor {
        let (dtype, size) = (x.dtype(), self.size());
        let rows: usize = shape.dims()[..axis].iter().product();
        if rows > 1 && self.is_on_device(x) {
            // As in a gather; all parts are of one size.
            let parts = [size, shape.numel() / size];
            let exchanged = self.exchanged(x, (agreed, is_ragged), [sent, received], (Shape::new(&parts), 0), origin);
            let [own, after] = [shape.dims()[axis] / size, shape.dims()[axis + 1..].iter().product()];
            return exchanged.reshape([size, rows, own, after]).movedim(0, 1).reshape(shape);
        }
        let collective = Collective {
            name: "all_to_all",
            operation: "all_to_all".into(),
            agreed: agreed.clone(),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (shape, dtype),
            transfer: Some(Transfer::AllToAll { sent: sent.clone(), received: received.clone() }),
            is_ragged,
        };
        let in_bytes = |counts: &[usize]| counts.iter().map(|n| n * dtype.size()).collect::<Vec<usize>>();
        let (sizes, parts) = (in_bytes(&sent), Concatenation { sizes: in_bytes(&received), rows });
        let operand = *x.shape();
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            // Of several rows: all parts are of one size.
            let dy = if rows == 1 { dy } else { divided(&dy, axis, size) };
            let counts = [received.clone(), sent.clone()];
            world.exchanged(&dy, (agreed.clone(), is_ragged), counts, (operand, 0), origin.backward())
        };
        self.record(collective, Some(Box::new(rule)), move |ranks, x, out| {
            bytes::all_to_all(ranks, (&sizes, &parts), x, out)
        })
    }
}

/// Gradient of an all-reduce's operand.
#[track_caller]
fn reduced_rule(world: &World, op: ReduceOp, origin: Origin, of: Backward<Tensor, Tensor>) -> Tensor {
    let Backward { inputs: x, outputs: y, gradients: dy } = of;
    let sum = |t: &Tensor| world.reduced(t, ReduceOp::Sum, origin);
    match op {
        ReduceOp::Sum => sum(&dy),
        ReduceOp::Mean => world.reduced(&dy, ReduceOp::Mean, origin),
        // Ranks with equal extremes get equal parts.
        ReduceOp::Max | ReduceOp::Min => {
            let is_extreme = x.eq(&y).cast(x.dtype());
            let (total, count) = (sum(&dy), sum(&is_extreme));
            total * is_extreme / count
        }
        // The product of the others, rather than a quotient, which has no value at 0.
        ReduceOp::Product => {
            let total = sum(&dy);
            let all = world.gathered(&x.reshape([1, x.numel()]), 0, origin);
            let others = (0..world.size()).filter(|&rank| rank != world.rank());
            others.fold(total, |product, other| product * all.select(0, other).reshape(x.shape()))
        }
    }
}
