//! Exact operations: results that are rounded to their dtype in every kernel that computes them.
//!
//! In: the operations of a segment. Out: the set of operations whose float results are written with
//! [`thalweg_kernel::Node::Round`]: a bf16 or f16 is not carried in f32, a product is not contracted with a sum. All
//! other operations are *smooth arithmetic*, which may be computed more precisely than its dtype.
//!
//! Reasons for an operation to be exact:
//!
//! - **A discrete choice depends on it.** A comparison, a step function (`floor`, `sign`), a remainder, a conversion to
//!   integers or bool, a sort, a maximum or minimum or its index, a loop that ends by data: there a rounding error
//!   decides. (Except a maximum that is only subtracted in exponents, as in a softmax.) Its argument and all ancestors
//!   of that are exact, back to values in memory, matrix products and (in f32 and f64, where the order of a sum varies
//!   anyway) sums. So every kernel and every tier chooses the same.
//! - **Its product is added to or subtracted from another product.** In `a·a - b·b` one product would be rounded and
//!   the other not, so that equal products would differ. Both are exact then, also through views, extremes and sums, as
//!   in `mean(x·x) - mean(x)·mean(x)`. A difference that only exponentials read is left alone, since it changes their
//!   results by a rounding error. So are products in bf16 and f16, which are exact in f32, unless one goes through a
//!   reduction, whose result is rounded.
//!
//! Example: in `m = s.amax(1); s.eq(m)` with `s = x / 3.3` in bf16 the division is exact; in `s.tanh().sum(1)` it is not.

use crate::segment::{BitSet, Indexed, ValueId};
use thalweg_ir::{DType, DiscreteChoice, ElementOp, Op, OpClass, ReduceOp, RegionNode, RelOp, Rounding};

/// Maximum number of operations visited when searching for a product: more are rare, and a segment may have thousands.
const MAX_PRODUCT_STEPS: usize = 32;

/// Whether the result of operation `i` is rounded to its dtype wherever it is computed.
pub(crate) fn is_exact(ix: &Indexed<'_>, i: usize) -> bool {
    ix.exact_by(find).has(i)
}

/// Whether arithmetic inside an exact operation may be contracted, or its last product with a following sum: true of
/// functions and of operations that expand into simpler ones. A kernel with such operations is
/// [`thalweg_kernel::Body::repeatable`].
pub(crate) fn may_contract_inside(op: Op, dtype: DType) -> bool {
    let Op::Element(e) = op else { return false };
    let row = e.row();
    dtype.is_float() && e != ElementOp::Square && !row.is_exact() && (row.function || row.expand.is_some())
}

/// Exact operations of a segment. None in strict mode, whose bodies are exact as a whole. Without fusion, all
/// operations with a float result, so that a GPU divides a number by a tensor there as it does in a fused exact kernel.
fn find(ix: &Indexed<'_>) -> BitSet {
    let n = ix.seg.ops.len();
    if ix.seg.mode.strict {
        return BitSet::default();
    }
    if !ix.seg.mode.fused {
        let mut all = BitSet::new(n);
        (0..n).filter(|&i| ix.seg.ops[i].dtype.is_float()).for_each(|i| all.insert(i));
        return all;
    }
    if !ix.seg.ops.iter().any(may_begin) {
        return BitSet::default();
    }
    let mut search = Search { ix, exact: BitSet::new(n), readers: None };
    for i in (0..n).rev() {
        search.roots(i);
        if search.exact.has(i) {
            search.spread(i);
        }
    }
    search.products();
    search.exact
}

/// Whether an operation may make others exact. Most segments have no such operation and skip the search.
fn may_begin(rel: &RelOp) -> bool {
    let adds = matches!(rel.op, Op::Element(ElementOp::Add | ElementOp::Sub)) && rel.dtype.is_float();
    adds || chooses(rel)
}

/// Whether an operation makes a discrete choice by the values of its arguments: the result may change abruptly with a
/// rounding error of these.
fn chooses(rel: &RelOp) -> bool {
    match rel.op.info().choice {
        DiscreteChoice::Never => false,
        DiscreteChoice::NotFloat => !rel.dtype.is_float(),
        DiscreteChoice::Always => true,
        DiscreteChoice::ByRegion => match rel.op {
            Op::Element(e) => e.row().selects(),
            op => op.region().is_some_and(|l| {
                let selects = |n: &RegionNode| matches!(n, RegionNode::Element { op, .. } if op.row().selects());
                l.region().nodes.iter().any(selects)
            }),
        },
    }
}

fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

struct Search<'a> {
    ix: &'a Indexed<'a>,
    exact: BitSet,
    /// Readers of each operation, computed on first use.
    readers: Option<Vec<Vec<u32>>>,
}

impl Search<'_> {
    /// Marks a value if an operation of the segment computes it in floats.
    fn mark(&mut self, v: ValueId) {
        if let ValueId::Op(i) = v
            && self.ix.seg.ops[i].dtype.is_float()
        {
            self.exact.insert(i);
        }
    }

    fn mark_arguments(&mut self, i: usize) {
        let ix = self.ix;
        ix.tensors(i).for_each(|(_, v)| self.mark(v));
    }

    /// Marks the float arguments of an operation whose result may change abruptly with a rounding error of its
    /// arguments. These are comparisons and step functions, maxima, minima and sorts, casts to integers, bitcasts,
    /// loops, and user-defined combines that compare. A maximum that is only subtracted in exponents is excepted.
    fn roots(&mut self, i: usize) {
        let rel = &self.ix.seg.ops[i];
        let info = rel.op.info();
        let is_maximum = info.class == OpClass::Fold && info.rounding == Rounding::Extreme && rel.dtype.is_float();
        if chooses(rel) && !(is_maximum && self.shifts_only(i)) {
            self.mark_arguments(i);
        }
    }

    /// Marks the arguments of an exact operation, so that exactness propagates to ancestors. Sums in f32 and f64 and
    /// matrix products end the propagation.
    fn spread(&mut self, i: usize) {
        let rel = &self.ix.seg.ops[i];
        let info = rel.op.info();
        let through = match info.class {
            OpClass::Elementwise | OpClass::View | OpClass::Merge | OpClass::Gather => true,
            OpClass::Fold | OpClass::Scan => match info.rounding {
                Rounding::Copies | Rounding::Extreme => true,
                Rounding::Rounds | Rounding::Accumulates => is_narrow(rel.dtype),
                Rounding::Region | Rounding::Unknown => false,
            },
            _ => false,
        };
        if through {
            self.mark_arguments(i);
        }
    }

    /// Marks products that are added to or subtracted from other products.
    fn products(&mut self) {
        let ix = self.ix;
        let mut found = [vec![], vec![]];
        for (i, rel) in ix.seg.ops.iter().enumerate() {
            let (Op::Element(op @ (ElementOp::Add | ElementOp::Sub)), true) = (rel.op, rel.dtype.is_float()) else {
                continue;
            };
            let mut values = ix.tensors(i).map(|(_, v)| v);
            let (Some(x), Some(y)) = (values.next(), values.next()) else { continue };
            found.iter_mut().for_each(Vec::clear);
            let [of_x, of_y] = [self.product(x, &mut found[0]), self.product(y, &mut found[1])];
            let mut meet = of_x.is_some() && of_y.is_some();
            if op == ElementOp::Sub && [x, y].iter().any(|v| matches!(v, ValueId::Input(_))) {
                // An input may be a product of an earlier segment. Quotients are not marked here, so a mean, which is
                // subtracted from an input in every variance, stays an ordinary operation.
                found.iter_mut().for_each(|f| f.retain(|&p| ix.seg.ops[p].op != Op::Element(ElementOp::Div)));
                meet = true;
            }
            // No engine contracts a quotient by a tensor, be it a product with a reciprocal, so that it stays cheap.
            found.iter_mut().for_each(|f| f.retain(|&p| !self.divides_by_tensor(p)));
            let reduced = [of_x, of_y].iter().flatten().any(|p| p.reduced);
            let counts = !is_narrow(rel.dtype) || reduced;
            if meet && counts && found.iter().any(|f| !f.is_empty()) && !(op == ElementOp::Sub && self.only_exp(i)) {
                found.iter().flatten().for_each(|&p| self.exact.insert(p));
            }
        }
    }

    /// Product that a value is, is selected from, or is summed from; `None` if there is none. The operations on the way
    /// are appended to `found`.
    fn product(&self, v: ValueId, found: &mut Vec<usize>) -> Option<Product> {
        let ix = self.ix;
        let (mut stack, mut product) = (vec![v], None);
        let mut reduced = false;
        let mut steps = 0;
        while let Some(v) = stack.pop() {
            let ValueId::Op(i) = v else { continue };
            let rel = &ix.seg.ops[i];
            steps += 1;
            if steps > MAX_PRODUCT_STEPS || !rel.dtype.is_float() {
                continue;
            }
            match rel.op {
                // GPUs compute a division by a number, and all engines one by a number of the row, as a product with the
                // reciprocal.
                Op::Element(ElementOp::Square | ElementOp::Mul | ElementOp::Div) => {
                    product = Some(());
                    found.push(i);
                    // A mean of products is their sum, multiplied or divided by a number.
                    stack.extend(ix.tensors(i).map(|(_, v)| v).filter(|v| self.is_sum(*v)));
                }
                Op::Matmul => product = Some(()),
                Op::Element(e) if e.row().is_exact() && e != ElementOp::Sign => {
                    stack.extend(ix.tensors(i).map(|(_, v)| v))
                }
                Op::Reduce(ReduceOp::Max | ReduceOp::Min | ReduceOp::Sum) => {
                    reduced = true;
                    stack.extend(ix.tensors(i).map(|(_, v)| v))
                }
                Op::Cast => stack.extend(ix.tensors(i).map(|(_, v)| v)),
                op if matches!(op.class(), OpClass::View | OpClass::Merge) => {
                    stack.extend(ix.tensors(i).map(|(_, v)| v))
                }
                _ => {}
            }
        }
        product.map(|()| Product { reduced })
    }

    /// Whether an operation is a division by a tensor of more than one number.
    fn divides_by_tensor(&self, i: usize) -> bool {
        let divisor = self.ix.tensors(i).find(|(at, _)| *at == 1);
        self.ix.seg.ops[i].op == Op::Element(ElementOp::Div) && divisor.is_some_and(|(_, v)| !self.is_number(v))
    }

    /// Whether a value is one number, or a view of one.
    fn is_number(&self, v: ValueId) -> bool {
        let ValueId::Op(i) = v else { return false };
        match self.ix.seg.ops[i].op {
            Op::Full => true,
            op => op.is_view() && self.ix.tensors(i).next().is_some_and(|(_, v)| self.is_number(v)),
        }
    }

    /// Whether a value is a sum over axes, or a view of one.
    fn is_sum(&self, v: ValueId) -> bool {
        let ValueId::Op(i) = v else { return false };
        match self.ix.seg.ops[i].op {
            Op::Reduce(ReduceOp::Sum) => true,
            op => op.is_view() && self.ix.tensors(i).next().is_some_and(|(_, v)| self.is_sum(v)),
        }
    }

    /// Whether an operation's result is read by exponentials only.
    fn only_exp(&mut self, i: usize) -> bool {
        let ops = self.ix.seg.ops;
        let is_exp = |r: usize| matches!(ops[r].op, Op::Element(ElementOp::Exp | ElementOp::Exp2));
        !self.ix.seg.live.has(i) && self.readers(i).iter().all(|&r| is_exp(r as usize))
    }

    /// Whether a maximum or minimum is only subtracted in exponents.
    fn shifts_only(&mut self, extreme: usize) -> bool {
        let (ix, mut stack) = (self.ix, vec![extreme]);
        while let Some(i) = stack.pop() {
            if ix.seg.live.has(i) {
                return false;
            }
            for r in self.readers(i).to_vec() {
                let r = r as usize;
                match ix.seg.ops[r].op {
                    op if op.is_view() => stack.push(r),
                    Op::Element(ElementOp::Sub) if self.only_exp(r) => {}
                    _ => return false,
                }
            }
        }
        true
    }

    /// Operations that read a result.
    fn readers(&mut self, i: usize) -> &[u32] {
        let ix = self.ix;
        &self.readers.get_or_insert_with(|| {
            let mut readers = vec![vec![]; ix.seg.ops.len()];
            for r in 0..ix.seg.ops.len() {
                for (_, v) in ix.tensors(r) {
                    if let ValueId::Op(i) = v {
                        readers[i].push(r as u32);
                    }
                }
            }
            readers
        })[i]
    }
}

/// Product found among the ancestors of a value.
struct Product {
    /// Whether the value depends on the product through a reduction.
    reduced: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::tests::graphs::{Graph, T};
    use ElementOp::{Add, Div, Eq, Exp, Mul, Sub, Tanh};

    /// Whether each of these values is exact.
    fn exact(g: &Graph, of: &[T]) -> Vec<bool> {
        let ix = Indexed::new(g.0.as_segment());
        let is_exact = |t: &T| matches!(*t, T::Op(i) if is_exact(&ix, i));
        of.iter().map(is_exact).collect()
    }

    #[test]
    fn what_is_compared_is_exact_back_to_memory() {
        let mut g = Graph::new();
        let x = g.input(&[8, 64]);
        let scaled = g.scaled(x, 0.3);
        let s = g.unary(Tanh, scaled);
        let m = g.reduce(ReduceOp::Max, s, 1);
        let hit = g.binary(Eq, s, m);
        let smooth = g.scaled(s, 2.0);
        g.live(hit);
        g.live(smooth);
        assert_eq!(exact(&g, &[scaled, s, m, smooth]), [true, true, true, false]);
    }

    #[test]
    fn what_is_added_up_is_not_what_is_compared() {
        let mut g = Graph::new();
        let x = g.input(&[8, 64]);
        let scaled = g.scaled(x, 0.3);
        let sum = g.reduce(ReduceOp::Sum, scaled, 1);
        let hit = g.binary(Eq, sum, x);
        g.live(hit);
        assert_eq!(exact(&g, &[scaled, sum]), [false, true]);
    }

    #[test]
    fn a_softmax_is_smooth_and_a_maximum_is_not() {
        let mut g = Graph::new();
        let x = g.input(&[8, 64]);
        let scaled = g.scaled(x, 0.3);
        let m = g.reduce(ReduceOp::Max, scaled, 1);
        let d = g.binary(Sub, scaled, m);
        let e = g.unary(Exp, d);
        g.live(e);
        assert_eq!(exact(&g, &[scaled, m, d, e]), [false; 4]);
        g.live(m);
        assert_eq!(exact(&g, &[scaled, m, d, e]), [true, false, false, false]);
    }

    #[test]
    fn products_that_are_added_are_exact() {
        let mut g = Graph::new();
        let [a, b, c] = [(); 3].map(|()| g.input(&[64]));
        let [p, q, r] = [(a, a), (b, b), (a, c)].map(|(x, y)| g.binary(Mul, x, y));
        let d = g.binary(Sub, p, q);
        let s = g.binary(Add, r, c);
        g.live(d);
        g.live(s);
        assert_eq!(exact(&g, &[p, q, r]), [true, true, false]);
        // An input may be the same product, from an earlier segment.
        let mut g = Graph::new();
        let [a, b] = [(); 2].map(|()| g.input(&[64]));
        let p = g.binary(Mul, a, a);
        let d = g.binary(Sub, b, p);
        g.live(d);
        assert_eq!(exact(&g, &[p]), [true]);
    }

    #[test]
    fn a_mean_that_is_subtracted_from_an_input_is_smooth() {
        let mut g = Graph::new();
        let x = g.input(&[8, 64]);
        let sum = g.reduce(ReduceOp::Sum, x, 1);
        let n = g.full(&[8, 1], 64.0);
        let mean = g.binary(Div, sum, n);
        let d = g.binary(Sub, x, mean);
        let squared = g.binary(Mul, d, d);
        g.live(squared);
        assert_eq!(exact(&g, &[sum, mean, d, squared]), [false; 4]);
    }

    /// No engine contracts a quotient by a tensor, so it stays cheap; a product that it meets is exact.
    #[test]
    fn subtracted_quotients_by_tensors_are_not_exact() {
        let mut g = Graph::new();
        let [a, b, c] = [(); 3].map(|()| g.input(&[64]));
        let [p, q] = [a, b].map(|x| g.binary(Div, x, c));
        let d = g.binary(Sub, p, q);
        let product = g.binary(Mul, a, b);
        let sum = g.binary(Add, product, q);
        let e = g.binary(Mul, d, sum);
        g.live(e);
        assert_eq!(exact(&g, &[p, q, product]), [false, false, true]);
    }

    #[test]
    fn sums_of_products_are_added_to_products() {
        let mut g = Graph::new();
        let x = g.input(&[8, 64]);
        let square = g.binary(Mul, x, x);
        let sum = g.reduce(ReduceOp::Sum, square, 1);
        let mean_of_squares = g.scaled(sum, 1.0 / 64.0);
        let sum = g.reduce(ReduceOp::Sum, x, 1);
        let mean = g.scaled(sum, 1.0 / 64.0);
        let square_of_mean = g.binary(Mul, mean, mean);
        let d = g.binary(Sub, mean_of_squares, square_of_mean);
        g.live(d);
        assert_eq!(exact(&g, &[square, mean_of_squares, square_of_mean]), [true; 3]);
    }
}
