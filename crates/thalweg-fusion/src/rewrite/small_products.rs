//! Products of small matrices, such as rotations of points, or covariances of filters, mostly many at once. The kernel
//! of a product takes longer to begin one than to multiply a few numbers, and its tiles are mostly empty. As the sum of
//! a few terms, each a product of two elements, such a product is elementwise arithmetic: it runs along the batch, and in
//! the kernel of whatever needs it. Sums of bf16 and f16 are f32, as those of other products.

use super::Move;
use super::graph::{Graph, last_two};
use crate::segment::MAX_UNROLLED;
use crate::tunable::TUNABLES;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Op, ReduceOp, RelOp, Shape, UNROLLED};

/// Makes the moves that compute products element by element, where matrices are small.
pub(super) fn find(graph: &mut Graph<'_>) {
    for i in graph.needed() {
        if let Some([m, k, n]) = graph.sizes(i)
            && [m * k, k * n, m * n].iter().all(|&size| TUNABLES.max_small_matrix.admits(size))
        {
            // An illegal move changes nothing.
            let _ = graph.make(Move::Terms(i as u32));
        }
    }
}

/// Whether a product of that shape could be computed element by element.
pub(super) fn may_pay(shape: Shape) -> bool {
    last_two(shape).is_some_and(|[m, n]| TUNABLES.max_small_matrix.admits(m * n))
}

impl Graph<'_> {
    /// Rows, terms and columns of operation `i`, if it is a matrix product.
    fn sizes(&self, i: usize) -> Option<[usize; 3]> {
        let [a, b] = self.factors(i)?;
        let ([m, k], [_, n]) = (last_two(self.shape(a)?)?, last_two(self.shape(b)?)?);
        Some([m, k, n])
    }

    /// Rewrites `a·b` as `Σ_k a[.., i, k] * b[.., k, j]`, a reduction that is unrolled.
    pub fn product_by_terms(&mut self, product: usize) -> Option<()> {
        let [a, b] = self.factors(product)?;
        let [_, k, _] = self.sizes(product)?;
        let (shape, rel) = (self.shapes[product], self.ops[product]);
        let dtype = match rel.dtype {
            DType::BF16 | DType::F16 => DType::F32,
            DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => rel.dtype,
            _ => return None,
        };
        if shape.numel() == 0
            || !(1..=MAX_UNROLLED).contains(&k)
            || shape.rank() == MAX_RANK
            || [a, b].iter().any(|&x| self.dtype(x) != Some(rel.dtype))
        {
            return None;
        }
        let (rank, terms) = (shape.rank(), shape.insert(shape.rank(), k));
        // A row of a and a column of b for each element, with their terms last.
        let a = self.add_cast(product, a, dtype)?;
        let b = self.add_cast(product, b, dtype)?;
        let b = self.add_transposed(product, b)?;
        let [left, right] = [self.shape(a)?, self.shape(b)?];
        let a = self.add_reshaped(product, a, left.insert(left.rank() - 1, 1))?;
        let b = self.add_reshaped(product, b, right.insert(right.rank() - 2, 1))?;
        let masks = [self.shape(a)?, self.shape(b)?].map(|s| s.broadcast_mask(&terms) as u32);
        let op = Op::Element(ElementOp::Mul);
        let args = RelOp::pack(&[a, b]);
        let of = self.add(
            product,
            RelOp { op, dtype, rank: terms.rank() as u8, attr: masks[0] | masks[1] << 8, args },
            terms,
        );
        let (op, attr) = (Op::Reduce(ReduceOp::Sum), 1 << rank | UNROLLED);
        let sum = RelOp { op, dtype, attr, args: RelOp::pack(&[of]), ..rel };
        self.ops[product] = match dtype == rel.dtype {
            true => sum,
            false => RelOp { op: Op::Cast, attr: 0, args: RelOp::pack(&[self.add(product, sum, shape)]), ..rel },
        };
        Some(())
    }
}
