//! Row and column scales moved out of a product: `Σ_k (x[i, k]·r[i])·w[k, j] = r[i]·Σ_k x[i, k]·w[k, j]`, and the same
//! for columns of `w`. The product then reads its operand from memory, and the scale is one multiplication per result
//! element, in the epilogue. Typical use: 8-bit weights with one scale per output.
//!
//! Only for integers of at most 16 bits. For floats `x·w` can overflow where `(x∘r)·w` does not: users divide by a
//! norm, or by the largest element, to keep numbers small. (For norms before a product it would gain 1 to 8 % on a
//! CPU.)

use super::Move;
use super::graph::Graph;
use thalweg_ir::{Arg, DType, ElementOp, Op, RelArg, RelOp, Shape};

/// Matched operand of a product: another tensor that is multiplied or divided by one number per row or column.
struct Scaled {
    op: ElementOp,
    of: RelArg,
    by: RelArg,
}

/// Makes the moves that take scales out of products, where that pays.
pub(super) fn find(graph: &mut Graph<'_>) {
    for mut i in graph.needed() {
        if graph.factors(i).is_none() {
            continue;
        }
        // An illegal move changes nothing. After a legal one, the product is the operation added last.
        if graph.make(Move::Rows(i as u32)).is_some() {
            i = graph.ops.len() - 1;
        }
        let _ = graph.make(Move::Columns(i as u32));
    }
}

impl Graph<'_> {
    /// Rewrites `(x∘r)·w` as `(x·w)∘r`.
    pub fn row_factors_out(&mut self, product: usize) -> Option<()> {
        let [left, w] = self.factors(product)?;
        let Arg::Op(m) = left.decode() else { return None };
        let scaled = self.scaled(m, 0)?;
        if !self.users_are(m, |args| args[0] == left && args[1] != left) {
            return None;
        }
        let sums = self.add_product(product, scaled.of, w)?;
        self.scale(product, sums, &scaled, scaled.by)
    }

    /// Rewrites `x·(w∘s)` as `(x·w)∘s`; also where the right operand is the transpose of a matrix with a scale per row.
    pub fn column_factors_out(&mut self, product: usize) -> Option<()> {
        let [x, right] = self.factors(product)?;
        let turned = self.transposed(right);
        let Arg::Op(m) = turned.map_or(right, |(_, of)| of).decode() else { return None };
        let scaled = self.scaled(m, if turned.is_some() { 0 } else { 1 })?;
        let as_right = |args: [RelArg; 2]| args[1] == right && args[0] != right;
        let inside = match turned {
            Some((turn, _)) => self.users[m] == 1 && !self.is_live(turn) && self.users_are(turn, as_right),
            None => self.users_are(m, as_right),
        };
        if !inside {
            return None;
        }
        let (w, by) = match turned {
            // A scale of lower rank would be one per column.
            Some(_) if self.shape(scaled.by)?.rank() != self.shapes[m].rank() => return None,
            Some(_) => (self.add_transposed(product, scaled.of)?, self.add_transposed(product, scaled.by)?),
            None => (scaled.of, scaled.by),
        };
        let sums = self.add_product(product, x, w)?;
        self.scale(product, sums, &scaled, by)
    }

    /// Replaces a product by the elementwise scaling of `sums`, another product's result, by `by`.
    fn scale(&mut self, product: usize, sums: RelArg, scaled: &Scaled, by: RelArg) -> Option<()> {
        let shape = self.shapes[product];
        debug_assert_eq!(self.shape(sums), Some(shape), "a factor changes no shape");
        let attr = (self.shape(by)?.broadcast_mask(&shape) as u32) << 8;
        let rel = &mut self.ops[product];
        *rel = RelOp { op: Op::Element(scaled.op), attr, args: RelOp::pack(&[sums, by]), ..*rel };
        Some(())
    }

    /// Matches a scaling of integers of at most 16 bits by a tensor that is broadcast along dimension `dim`, counted
    /// from the last one.
    fn scaled(&self, m: usize, dim: u32) -> Option<Scaled> {
        let rel = &self.ops[m];
        let Op::Element(op @ (ElementOp::Mul | ElementOp::Div)) = rel.op else { return None };
        // f16 accumulators could overflow even so; integer division does not factor out.
        if self.is_live(m) || !matches!(rel.dtype, DType::F32 | DType::F64 | DType::BF16) {
            return None;
        }
        let [a, b] = [rel.args[0], rel.args[1]];
        let own = self.shapes[m];
        let fits = |of: RelArg, by: RelArg| {
            let stretched = |s: Shape| s.broadcast_mask(&own) >> dim & 1 == 1;
            self.is_narrow(of)
                && self.shape(of) == Some(own)
                && self.shape(by).is_some_and(stretched)
                && [of, by].iter().all(|&t| self.dtype(t) == Some(rel.dtype))
        };
        match () {
            () if fits(a, b) => Some(Scaled { op, of: a, by: b }),
            () if op == ElementOp::Mul && fits(b, a) => Some(Scaled { op, of: b, by: a }),
            () => None,
        }
    }

    /// Whether all uses of an operation are products whose operands satisfy `fits`.
    fn users_are(&self, i: usize, fits: impl Fn([RelArg; 2]) -> bool) -> bool {
        let users = (0..self.ops.len()).filter(|&u| self.is_needed(u) && self.ops[u].args().any(|a| a == Arg::Op(i)));
        let mut all = users.map(|u| self.factors(u).is_some_and(&fits));
        all.all(|fits| fits)
    }

    /// Whether an argument holds integers of at most 16 bits, directly or converted to another dtype.
    fn is_narrow(&self, arg: RelArg) -> bool {
        match (arg.decode(), self.dtype(arg)) {
            (_, Some(DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::Bool)) => true,
            (Arg::Op(i), _) => {
                let op = self.ops[i].op;
                (op.is_view() || op == Op::Cast) && self.is_narrow(self.ops[i].args[0])
            }
            _ => false,
        }
    }
}
