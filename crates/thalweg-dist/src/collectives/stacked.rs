//! Collectives in the form that is exchanged: a tensor with a leading dimension of one entry per rank. With their
//! derivatives, which take the sum of the losses of all ranks as the function that is differentiated.

use super::bytes;
use super::record::{Collective, Origin};
use crate::World;
use crate::reduce::ReduceOp;
use thalweg::{Backward, DType, Shape, Tensor};

/// Dtype and shape for a signature.
fn agreed(dtype: DType, shape: &Shape) -> String {
    format!("{dtype}{shape}")
}

fn with_leading(size: usize, x: &Tensor) -> Shape {
    let dims: Vec<usize> = std::iter::once(size).chain(x.dims().iter().copied()).collect();
    Shape::new(&dims)
}

impl World {
    /// Reduces `x` over ranks.
    #[track_caller]
    pub(super) fn reduced(&self, x: &Tensor, op: ReduceOp, origin: Origin) -> Tensor {
        let (shape, dtype) = (*x.shape(), x.dtype());
        let collective = Collective {
            name: "all_reduce",
            operation: format!("all_reduce({op})"),
            agreed: agreed(dtype, &shape),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (shape, dtype),
        };
        let rule = move |world: &World, of: Backward<Tensor, Tensor>| reduced_rule(world, op, origin.backward(), of);
        self.record(collective, Some(Box::new(rule)), move |ranks, x, out| {
            bytes::all_reduce(ranks, (op, dtype), x, out)
        })
    }

    /// Stacks `x` of all ranks: `[3]` in, `[size, 3]` out.
    #[track_caller]
    pub(super) fn gathered(&self, x: &Tensor, name: &'static str, origin: Origin) -> Tensor {
        let collective = Collective {
            name,
            operation: name.into(),
            agreed: agreed(x.dtype(), x.shape()),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (with_leading(self.size(), x), x.dtype()),
        };
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            world.scattered(&dy, ReduceOp::Sum, origin.backward())
        };
        self.record(collective, Some(Box::new(rule)), bytes::all_gather)
    }

    /// Reduces `x` over ranks; each gets its entry of the leading dimension: `[size, 3]` in, `[3]` out.
    #[track_caller]
    pub(super) fn scattered(&self, x: &Tensor, op: ReduceOp, origin: Origin) -> Tensor {
        let dtype = x.dtype();
        let collective = Collective {
            name: "reduce_scatter",
            operation: format!("reduce_scatter({op})"),
            agreed: agreed(dtype, x.shape()),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (Shape::new(&x.dims()[1..]), dtype),
        };
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            let dx = world.gathered(&dy, "all_gather", origin.backward());
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
        };
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            let sum = world.reduced(&dy, ReduceOp::Sum, origin.backward());
            if world.rank() == root { sum } else { dy.zeros_like() }
        };
        self.record(collective, Some(Box::new(rule)), move |ranks, x, out| bytes::broadcast(ranks, root, x, out))
    }

    /// Exchanges entries of the leading dimension: the `sent[i]` entries after those for the ranks below `i` go to rank
    /// `i`, and `received[i]` come from it.
    #[track_caller]
    pub(super) fn exchanged(&self, x: &Tensor, [sent, received]: [Vec<usize>; 2], origin: Origin) -> Tensor {
        let entry = Shape::new(&x.dims()[1..]);
        let shape = Shape::new(&[&[received.iter().sum()], entry.dims()].concat());
        // The number of entries may differ between ranks.
        let collective = Collective {
            name: "all_to_all",
            operation: "all_to_all".into(),
            agreed: format!("{} rows {entry}", x.dtype()),
            is_joint: true,
            origin,
            operand: Some(x),
            result: (shape, x.dtype()),
        };
        let bytes = entry.numel() * x.dtype().size();
        let sizes = [&sent, &received].map(|counts| counts.iter().map(|n| n * bytes).collect::<Vec<usize>>());
        let rule = move |world: &World, Backward { gradients: dy, .. }: Backward<Tensor, Tensor>| {
            world.exchanged(&dy, [received.clone(), sent.clone()], origin.backward())
        };
        self.record(collective, Some(Box::new(rule)), move |ranks, x, out| {
            bytes::all_to_all(ranks, (&sizes[0], &sizes[1]), x, out)
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
            let count = sum(&is_extreme);
            sum(&dy) * is_extreme / count
        }
        // The product of the others, rather than a quotient, which has no value at 0.
        ReduceOp::Product => {
            let all = world.gathered(&x, "all_gather", origin);
            let others = (0..world.size()).filter(|&rank| rank != world.rank()).map(|rank| all.select(0, rank));
            others.fold(sum(&dy), |product, other| product * other)
        }
    }
}
