//! Replay of row kernels: operands with one element per row, folds, scans, and results.

use super::combining::combine;
use super::replay::{Recording, Value};
use super::trace::{Kind, Take};
use crate::combine::Combined;
use crate::{DType, Tensor};

impl Recording<'_> {
    /// An operand in the form of the kernel; in a row kernel, an operand with one element per row gets a dimension for
    /// the row.
    pub(super) fn operand(&self, number: usize, t: &Tensor) -> Tensor {
        if self.of_tiles {
            return self.tile_operand(number, t);
        }
        let Some(axis) = self.trace.axis.filter(|_| self.takes[number] != Take::Row) else { return t.clone() };
        // Dimensions after the axis are after it in the operand, too.
        let behind = self.over.rank() - 1 - axis;
        if t.rank() <= behind { t.clone() } else { t.unsqueeze(t.rank() - behind) }
    }

    /// Result of a row kernel with one element for each row.
    #[track_caller]
    pub(super) fn once_a_row(&self, i: usize, axis: usize) -> Tensor {
        let mut kept = self.over;
        kept.dims_mut()[axis] = 1;
        let shape = self.over.remove(axis);
        match self.value(i) {
            Value::Tensor(t) if *t.shape() == kept => t.reshaped(shape),
            Value::Tensor(t) => t.broadcast_to(kept).reshaped(shape),
            Value::Scalar(s) => Tensor::full_with(shape, *s, (self.dtype(self.trace.nodes[i].1), self.device)),
        }
    }

    /// Component `number` of the result of a fold or scan.
    #[track_caller]
    pub(super) fn combined(&self, of: u32, number: u32, kind: Kind) -> Value {
        let known = self.combined.borrow().get(&of).map(|all| all[number as usize].clone());
        let result = match known {
            Some(result) => result,
            None => {
                let all = self.combine(of as usize);
                let result = all[number as usize].clone();
                self.combined.borrow_mut().insert(of, all);
                result
            }
        };
        let result = result.expect("what is asked for is recorded");
        let dtype = self.dtype(kind);
        Value::Tensor(if result.dtype() == dtype { result } else { result.cast(dtype) })
    }

    #[track_caller]
    fn combine(&self, of: usize) -> Vec<Option<Tensor>> {
        let c = &self.trace.combined[of];
        if let Some(tile) = c.tile {
            return self.fold_tile(of, tile);
        }
        let name = self.name;
        let l = match combine(&self.trace, &self.known, self.regions.dtype(Kind::Float), of) {
            Ok(l) => l,
            Err(wrong) => panic!("{name}: {wrong}"),
        };
        let axis = self.trace.axis.expect("a fold is a row kernel's");
        let combined = Combined { of: l, along: c.along, axis };
        let element = |(&e, &dtype): (&u32, &DType)| match self.value(e as usize) {
            Value::Tensor(t) => {
                let t = if t.dtype() == dtype { t.clone() } else { t.cast(dtype) };
                if *t.shape() == self.over { t } else { t.broadcast_to(self.over) }
            }
            Value::Scalar(s) => Tensor::full_with(self.over, *s, (dtype, self.device)),
        };
        let elements: Vec<Tensor> = c.elements.iter().zip(&l.region().args).map(element).collect();
        combined.record(&elements, &self.wanted[of])
    }
}
