//! Replay of operations on whole tiles: products, reductions, transposes, indices, results.
//!
//! Always true: a node of a tile kernel is a tensor whose last two dimensions broadcast to the sizes of its tile; the
//! dimensions before them are batches. So elementwise operations are recorded as in every kernel, and a tensor is
//! broadcast only where its sizes matter.

use super::combining::combine;
use super::replay::{Recording, Value, spread};
use super::repr::TileOp;
use super::trace::Kind;
use crate::combine::Combined;
use crate::{DType, Shape, Tensor};
use thalweg_ir::Monoid;

impl Recording<'_> {
    /// An operand of a tile kernel: a tile with both dimensions; a number per batch as a tile of one element.
    pub(super) fn tile_operand(&self, number: usize, t: &Tensor) -> Tensor {
        match (self.takes[number].is_tile(), t.rank()) {
            (true, 1) => t.unsqueeze(0),
            (true, _) | (false, 0) => t.clone(),
            (false, _) => t.unsqueeze(-1).unsqueeze(-1),
        }
    }

    /// Value of node `i` as a tile of these sizes, with the node's own batches.
    #[track_caller]
    fn tile(&self, i: usize, sizes: [usize; 2]) -> Tensor {
        let dtype = self.dtype(self.trace.nodes[i].1);
        match self.value(i) {
            Value::Scalar(s) => Tensor::full_with(Shape::new(&sizes), *s, (dtype, self.device)),
            Value::Tensor(t) => {
                let rank = t.rank().max(2);
                let mut shape = t.shape().broadcast(&Shape::new(&[1, 1])).expect("ones broadcast");
                shape.dims_mut()[rank - 2..].copy_from_slice(&sizes);
                if *t.shape() == shape { t.clone() } else { t.broadcast_to(shape) }
            }
        }
    }

    /// A result of a tile kernel: a tile for each batch.
    #[track_caller]
    pub(super) fn tile_result(&self, i: usize, sizes: [usize; 2]) -> Tensor {
        let batches = self.over;
        let shape = batches.insert(batches.rank(), sizes[0]);
        let shape = shape.insert(shape.rank(), sizes[1]);
        spread(self.value(i).given(), self.dtype(self.trace.nodes[i].1), shape, self.device)
    }

    /// The result of an operation on whole tiles.
    #[track_caller]
    pub(super) fn tiles(&self, of: u32) -> Tensor {
        match self.trace.tiles[of as usize] {
            TileOp::Dot { x, y, sizes: [n, k, m] } => {
                self.tile(x as usize, [n, k]).matmul(&self.tile(y as usize, [k, m]))
            }
            TileOp::Transposed { x } => match self.value(x as usize) {
                Value::Tensor(t) if t.rank() >= 2 => t.transpose(-1, -2),
                Value::Tensor(t) => t.clone(),
                Value::Scalar(_) => unreachable!("a number is known"),
            },
            TileOp::Reduced { monoid, x, axis, sizes } => {
                let (x, axis) = (self.tile(x as usize, sizes), axis as i64 - 2);
                match monoid {
                    Monoid::Sum => x.sum_keepdim(axis),
                    Monoid::Max => x.amax_keepdim(axis),
                    _ => x.amin_keepdim(axis),
                }
            }
            TileOp::Place { axis, sizes } => {
                let mut own = [1, 1];
                own[axis] = sizes[axis];
                let places = Tensor::arange_with(sizes[axis], (DType::I32, self.device));
                places.reshaped(Shape::new(&own)).broadcast_to(Shape::new(&sizes))
            }
        }
    }

    /// The components of a fold by a combine along an axis of a tile.
    #[track_caller]
    pub(super) fn fold_tile(&self, of: usize, (axis, sizes): (usize, [usize; 2])) -> Vec<Option<Tensor>> {
        let name = self.name;
        let c = &self.trace.combined[of];
        let l = match combine(&self.trace, &self.known, self.regions.dtype(Kind::Float), of) {
            Ok(l) => l,
            Err(wrong) => panic!("{name}: {wrong}"),
        };
        let element = |(&e, &dtype): (&u32, &DType)| {
            let t = self.tile(e as usize, sizes);
            if t.dtype() == dtype { t } else { t.cast(dtype) }
        };
        let elements: Vec<Tensor> = c.elements.iter().zip(&l.region().args).map(element).collect();
        let shape = elements.iter().fold(Shape::SCALAR, |all, t| all.broadcast(t.shape()).expect("batches broadcast"));
        let elements: Vec<Tensor> =
            elements.into_iter().map(|t| if *t.shape() == shape { t } else { t.broadcast_to(shape) }).collect();
        Combined { of: l, along: c.along, axis: shape.rank() - 2 + axis }.record(&elements, &self.wanted[of])
    }
}
