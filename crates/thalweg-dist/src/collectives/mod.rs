//! The collectives of a [`World`]: checks of arguments, which panic at the caller's line before anything is recorded.

mod bytes;
mod differentiable;
mod record;

use crate::World;
use crate::reduce::ReduceOp;
use bytes::Concatenation;
use differentiable::divided;
use record::Collective;
pub(crate) use record::Origin;
use std::sync::Arc;
use thalweg::{DType, Error, Shape, Tensor};

/// Axis of a tensor; negative ones count from the end.
#[track_caller]
fn axis_of(name: &str, x: &Tensor, axis: isize) -> usize {
    let rank = x.rank() as isize;
    assert!((-rank..rank).contains(&axis), "{name}: axis {axis} of a tensor of shape {}", x.shape());
    axis.rem_euclid(rank) as usize
}

/// # Collectives
///
/// Every rank of the world calls the same ones in the same order, with operands of the same dtype and shape; only the
/// values differ. They take any dtype. Gradients are those of the sum of all ranks' losses.
impl World {
    /// The elements of all ranks' operands combined, on every rank; as `torch.distributed.all_reduce`.
    ///
    /// Elements are combined in rank order, so all ranks get the same bits, and runs repeat. The gradient of a maximum
    /// is divided equally between the ranks that have it.
    ///
    /// ```
    /// # use thalweg::{Tensor, grad};
    /// # use thalweg_dist::{ReduceOp, World};
    /// World::local(2, |world| {
    ///     let x = Tensor::new([1.0f32, 2.0]).tracked();
    ///     let mean = world.all_reduce(&(&x * (world.rank() as f64)), ReduceOp::Mean);
    ///     assert_eq!(mean.to_vec::<f32>()?, [0.5, 1.0]);
    ///     let gradient = grad(&mean.sum(..), &x);
    ///     assert_eq!(gradient.to_vec::<f32>()?, [world.rank() as f32; 2]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a sum or product of bools, or a mean of integers.
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, op: ReduceOp) -> Tensor {
        let dtype = x.dtype();
        assert!(op.takes(dtype), "all_reduce: no {op} of {dtype}");
        if self.size() == 1 { x.clone() } else { self.reduced(x, op, Origin::here()) }
    }

    /// The operands of all ranks concatenated along an axis, in rank order.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// # use thalweg_dist::World;
    /// World::local(2, |world| {
    ///     let x = Tensor::full([2, 1], world.rank() as f64);
    ///     assert_eq!(world.all_gather(&x, 1).to_vec::<f32>()?, [0.0, 1.0, 0.0, 1.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, axis: isize) -> Tensor {
        let axis = axis_of("all_gather", x, axis);
        if self.size() == 1 { x.clone() } else { self.gathered(x, axis, Origin::here()) }
    }

    /// The elements of all ranks' operands combined; each rank gets its part of the result along an axis, of a size
    /// divided by the number of ranks.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// # use thalweg_dist::{ReduceOp, World};
    /// World::local(2, |world| {
    ///     let x = Tensor::new([1i32, 2, 3, 4]);
    ///     let own = world.reduce_scatter(&x, ReduceOp::Sum, 0).to_vec::<i32>()?;
    ///     assert_eq!(own, if world.rank() == 0 { [2, 4] } else { [6, 8] });
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, or its size is no multiple of the number of ranks; as
    /// [`all_reduce`](World::all_reduce); on a tracked operand of a maximum, minimum or product.
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, op: ReduceOp, axis: isize) -> Tensor {
        let (axis, dtype) = (axis_of("reduce_scatter", x, axis), x.dtype());
        assert!(op.takes(dtype), "reduce_scatter: no {op} of {dtype}");
        let shape = self.part("reduce_scatter", x, axis);
        if self.size() == 1 {
            return x.clone();
        }
        self.scattered(&divided(x, axis, self.size()), op, shape, Origin::here())
    }

    /// The operand of rank `root`, on every rank. The others pass a tensor of the same dtype and shape, whose values
    /// are not used.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// # use thalweg_dist::World;
    /// World::local(2, |world| {
    ///     let x = Tensor::full([2], world.rank() as f64);
    ///     assert_eq!(world.broadcast(&x, 1).to_vec::<f32>()?, [1.0, 1.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no rank `root`.
    #[track_caller]
    pub fn broadcast(&self, x: &Tensor, root: usize) -> Tensor {
        self.check_rank("broadcast", root);
        if self.size() == 1 { x.clone() } else { self.broadcasted(x, root, Origin::here()) }
    }

    /// Divides the operand along an axis into a part for each rank, and concatenates the parts that come from all ranks
    /// along another axis, in rank order; as `jax.lax.all_to_all`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// # use thalweg_dist::World;
    /// World::local(2, |world| {
    ///     // Each rank has a row, and gets a column.
    ///     let row = Tensor::new([[10i32, 11]]) + 10 * world.rank() as i32;
    ///     let column = world.all_to_all(&row, 1, 0);
    ///     assert_eq!(column.dims(), [2, 1]);
    ///     assert_eq!(column.to_vec::<i32>()?, [10 + world.rank() as i32, 20 + world.rank() as i32]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, or the size of `split` is no multiple of the number of ranks.
    #[track_caller]
    pub fn all_to_all(&self, x: &Tensor, split: isize, concat: isize) -> Tensor {
        let [split, concat] = [split, concat].map(|axis| axis_of("all_to_all", x, axis));
        let (mut shape, size) = (self.part("all_to_all", x, split), self.size());
        if size == 1 {
            return x.clone();
        }
        let part = shape.numel();
        shape.dims_mut()[concat] *= size;
        let agreed = format!("{}{} from axis {split} to {concat}", x.dtype(), x.shape());
        let counts = [vec![part; size], vec![part; size]];
        self.exchanged(&divided(x, split, size), (agreed, false), counts, (shape, concat), Origin::here())
    }

    /// Sends the rows of the operand to ranks, in their order: `sent[i]` rows to rank `i`. The result has the rows that
    /// come from all ranks, in rank order: `received[i]` from rank `i`, which must be as many as that rank sends here.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// # use thalweg_dist::World;
    /// World::local(2, |world| {
    ///     // Rank 0 has three rows for rank 1, and rank 1 one row for rank 0.
    ///     let counts = [[0, 3], [1, 0]];
    ///     let x = Tensor::ones([counts[world.rank()].iter().sum::<usize>(), 5]);
    ///     let received = [counts[0][world.rank()], counts[1][world.rank()]];
    ///     let y = world.all_to_all_ragged(&x, &counts[world.rank()], &received);
    ///     assert_eq!(y.to_vec::<f32>()?.len(), 5 * received.iter().sum::<usize>());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a scalar, when there are not as many numbers as ranks, or `sent` is not all rows.
    #[track_caller]
    pub fn all_to_all_ragged(&self, x: &Tensor, sent: &[usize], received: &[usize]) -> Tensor {
        let (size, shape) = (self.size(), x.shape());
        assert!(x.rank() > 0, "all_to_all_ragged: a scalar has no rows");
        assert!(
            sent.len() == size && received.len() == size,
            "all_to_all_ragged: {} and {} numbers of rows in a world of {size}",
            sent.len(),
            received.len()
        );
        let total: usize = sent.iter().sum();
        assert!(total == x.dims()[0], "all_to_all_ragged: {total} rows to send of shape {shape}");
        if size == 1 && sent == received {
            return x.clone();
        }
        let mut shape = *shape;
        shape.dims_mut()[0] = received.iter().sum();
        let row = Shape::new(&x.dims()[1..]);
        let counts = [sent, received].map(|rows| rows.iter().map(|n| n * row.numel()).collect());
        self.exchanged(x, (format!("{} rows {row}", x.dtype()), true), counts, (shape, 0), Origin::here())
    }

    /// Sends a tensor to a rank, which calls [`receive`](World::receive). No gradient flows back: send that by a
    /// `receive` and a `send` of its own.
    ///
    /// It does not wait for the receiver. Like every collective it runs later, at the latest in
    /// [`flush`](World::flush).
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// # use thalweg_dist::World;
    /// World::local(2, |world| {
    ///     let next = 1 - world.rank();
    ///     world.send(&Tensor::new([world.rank() as i32]), next);
    ///     assert_eq!(world.receive([1], DType::I32, next).item::<i32>()?, next as i32);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such rank, or it is the caller; on a tracked tensor.
    #[track_caller]
    pub fn send(&self, x: &Tensor, to: usize) {
        self.check_rank("send", to);
        assert!(to != self.rank(), "send: rank {to} sends to itself");
        let from = self.rank();
        let sent = self.message("send", (from, to), (*x.shape(), x.dtype()));
        let collective = Collective { operand: Some(x), result: (Shape::new(&[0]), DType::U8), ..sent };
        // The queue of collectives that wait holds the result, which is empty.
        let _ = self.record(collective, None, move |ranks, x, _| ranks.send(to, Arc::new(x.to_vec())));
    }

    /// The tensor of that shape and dtype that a rank [`send`](World::send)s here.
    ///
    /// # Panics
    /// When there is no such rank, or it is the caller.
    #[track_caller]
    pub fn receive(&self, shape: impl Into<Shape>, dtype: DType, from: usize) -> Tensor {
        self.check_rank("receive", from);
        assert!(from != self.rank(), "receive: rank {from} receives from itself");
        let to = self.rank();
        let received = self.message("receive", (from, to), (shape.into(), dtype));
        self.record(received, None, move |ranks, _, out| {
            out.copy_from_slice(&ranks.receive(from, out.len())?);
            Ok(())
        })
    }

    /// Waits until all ranks of this world have called it, and with that run all that they recorded before.
    ///
    /// # Errors
    /// The failure of the world.
    #[track_caller]
    pub fn barrier(&self) -> Result<(), Error> {
        if self.size() > 1 {
            let (operation, origin, result) = ("barrier".into(), Origin::here(), (Shape::new(&[0]), DType::U8));
            let (agreed, operand) = (String::new(), None);
            let (transfer, is_ragged) = (None, false);
            let all = Collective {
                name: "barrier",
                operation,
                agreed,
                is_joint: true,
                origin,
                operand,
                result,
                transfer,
                is_ragged,
            };
            let arrived = Concatenation { sizes: vec![0; self.size()], rows: 1 };
            self.record(all, None, move |ranks, x, out| bytes::all_gather(ranks, &arrived, x, out)).memory()?;
        }
        self.flush()
    }

    #[track_caller]
    fn check_rank(&self, name: &str, rank: usize) {
        assert!(rank < self.size(), "{name}: rank {rank} in a world of {}", self.size());
    }

    /// Shape of each rank's part of `x` along an axis.
    #[track_caller]
    fn part(&self, name: &str, x: &Tensor, axis: usize) -> Shape {
        let (mut shape, size) = (*x.shape(), self.size());
        assert!(shape.dims()[axis].is_multiple_of(size), "{name}: axis {axis} of shape {shape} among {size} ranks");
        shape.dims_mut()[axis] /= size;
        shape
    }

    /// Message from a rank to another, without operand. Both ranks have the same signature.
    #[track_caller]
    fn message(&self, name: &'static str, (from, to): (usize, usize), result: (Shape, DType)) -> Collective<'_> {
        let (operation, agreed) = (format!("send({from} to {to})"), format!("{}{}", result.1, result.0));
        // NCCL's sends wait for their receivers, so two ranks that both send first would wait forever.
        let (origin, operand, transfer) = (Origin::here(), None, None);
        Collective { name, operation, agreed, is_joint: false, origin, operand, result, transfer, is_ragged: false }
    }
}
