//! Order of a chain of matrix products. `((a·b)·c)·d` can be evaluated in five orders with very different numbers of
//! multiplications: for `a·b·v` with a vector `v`, one order multiplies matrices and the other does not.
//!
//! In: products each of which is used only as an operand of the next. Out: moves, if another order costs clearly less.
//! The cheapest order is found over all intervals (matrix chain ordering; Cormen et al., Introduction to Algorithms,
//! 15.2), and reached by rotations of the tree.

use super::Move;
use super::graph::{Graph, batch, last_two};
use crate::tunable::TUNABLES;
use thalweg_ir::{DType, RelArg, Shape};

/// Cost of writing and reading an element of an intermediate result, in multiply-adds.
const ELEMENT: f64 = 16.0;
/// Maximum fraction of the recorded order's cost at which another order is taken.
const WORTH: f64 = 0.8;

/// Makes the moves that reorder chains, where that pays.
pub(super) fn find(graph: &mut Graph<'_>) {
    let mut inner = vec![];
    let products: Vec<usize> = graph.needed().into_iter().filter(|&i| graph.factors(i).is_some()).collect();
    for &i in &products {
        inner.extend(graph.factors(i).into_iter().flatten().filter_map(|f| chained(graph, i, f)));
    }
    for root in products.into_iter().filter(|i| !inner.contains(i)) {
        reorder(graph, root);
    }
}

/// Product whose result is the operand `factor` of another product, if the two form a chain. `None` for f16:
/// intermediate results could overflow in another order.
fn chained(graph: &Graph<'_>, product: usize, factor: RelArg) -> Option<usize> {
    let dtype = graph.ops[product].dtype;
    graph.inner_product(factor).filter(|&i| graph.ops[i].dtype == dtype && dtype != DType::F16)
}

fn reorder(graph: &mut Graph<'_>, root: usize) -> Option<()> {
    let mut factors = vec![];
    let written = flatten(graph, root, &mut factors, TUNABLES.max_chain_factors.get())?;
    if factors.len() < 3 || !TUNABLES.max_chain_factors.admits(factors.len()) {
        return None;
    }
    let splits = Splits::of(&factors)?;
    if splits.cost(0, factors.len() - 1) >= WORTH * written {
        return None;
    }
    splits.regroup(graph, root, 0, factors.len() - 1)
}

/// Collects the shapes of a chain's operands and returns the cost of the recorded order; `None` if products are nested
/// too deeply. (A segment may have thousands.)
fn flatten(graph: &Graph<'_>, product: usize, factors: &mut Vec<Shape>, deepest: usize) -> Option<f64> {
    let Some(deeper) = deepest.checked_sub(1) else {
        TUNABLES.max_chain_factors.side(false);
        return None;
    };
    let [a, b] = graph.factors(product)?;
    let own = cost(graph.shape(a)?, graph.shape(b)?)?.0;
    let mut below = 0.0;
    for factor in [a, b] {
        match chained(graph, product, factor) {
            Some(link) => below += flatten(graph, link, factors, deeper)?,
            None => factors.push(graph.shape(factor)?),
        }
    }
    Some(own + below)
}

/// Cost of a product in multiply-adds, and the shape of its result; `None` if the shapes do not match.
fn cost(a: Shape, b: Shape) -> Option<(f64, Shape)> {
    let ([m, k], [inner, n]) = (last_two(a)?, last_two(b)?);
    let leading = batch(a).broadcast(&batch(b)).filter(|_| k == inner)?;
    let elements = leading.numel() as f64 * m as f64 * n as f64;
    let shape = leading.insert(leading.rank(), m);
    Some((elements * (k as f64 + ELEMENT), shape.insert(shape.rank(), n)))
}

/// Best split of each interval of a chain.
struct Splits {
    n: usize,
    /// For operands `lo..=hi`, at `lo * n + hi`: cost of their product, last operand of its left part, and shape.
    best: Vec<(f64, usize, Shape)>,
}

impl Splits {
    fn of(factors: &[Shape]) -> Option<Splits> {
        let n = factors.len();
        let mut splits = Splits { n, best: vec![(0.0, 0, Shape::new(&[])); n * n] };
        (0..n).for_each(|i| splits.best[i * n + i].2 = factors[i]);
        for length in 1..n {
            for lo in 0..n - length {
                let hi = lo + length;
                let mut best: Option<(f64, usize, Shape)> = None;
                for at in lo..hi {
                    let (left, right) = (splits.best[lo * n + at], splits.best[(at + 1) * n + hi]);
                    let (own, shape) = cost(left.2, right.2)?;
                    let all = left.0 + right.0 + own;
                    if best.is_none_or(|b| all < b.0) {
                        best = Some((all, at, shape));
                    }
                }
                splits.best[lo * n + hi] = best?;
            }
        }
        Some(splits)
    }

    fn cost(&self, lo: usize, hi: usize) -> f64 {
        self.best[lo * self.n + hi].0
    }

    /// Rewrites the product of operands `lo..=hi` into the best order.
    fn regroup(&self, graph: &mut Graph<'_>, product: usize, lo: usize, hi: usize) -> Option<()> {
        let at = self.best[lo * self.n + hi].1;
        split(graph, product, (lo, hi), at)?;
        let [a, b] = graph.factors(product)?;
        if at > lo {
            self.regroup(graph, chained(graph, product, a)?, lo, at)?;
        }
        if at + 1 < hi {
            self.regroup(graph, chained(graph, product, b)?, at + 1, hi)?;
        }
        Some(())
    }
}

/// Rotates the tree of a product of operands `lo..=hi` until the left part ends with operand `at`.
fn split(graph: &mut Graph<'_>, product: usize, (lo, hi): (usize, usize), at: usize) -> Option<()> {
    let [a, b] = graph.factors(product)?;
    let now = lo + leaves(graph, product, a)? - 1;
    if now > at {
        split(graph, chained(graph, product, a)?, (lo, now), at)?;
        graph.make(Move::Right(product as u32))
    } else if now < at {
        split(graph, chained(graph, product, b)?, (now + 1, hi), at)?;
        graph.make(Move::Left(product as u32))
    } else {
        Some(())
    }
}

/// Number of the chain's operands that an operand of a product is computed from.
fn leaves(graph: &Graph<'_>, product: usize, factor: RelArg) -> Option<usize> {
    let Some(link) = chained(graph, product, factor) else { return Some(1) };
    let [a, b] = graph.factors(link)?;
    Some(leaves(graph, link, a)? + leaves(graph, link, b)?)
}

impl Graph<'_> {
    /// Rewrites `(a·b)·c` as `a·(b·c)`.
    pub fn regroup_right(&mut self, product: usize) -> Option<()> {
        let [left, c] = self.factors(product)?;
        let [a, b] = self.factors(chained(self, product, left)?)?;
        let shape = self.shapes[product];
        let inner = self.product_shape(b, c)?;
        if cost(self.shape(a)?, inner)?.1 != shape {
            return None;
        }
        let right = self.add_product(product, b, c)?;
        self.ops[product].args[..2].copy_from_slice(&[a, right]);
        Some(())
    }

    /// Rewrites `a·(b·c)` as `(a·b)·c`.
    pub fn regroup_left(&mut self, product: usize) -> Option<()> {
        let [a, right] = self.factors(product)?;
        let [b, c] = self.factors(chained(self, product, right)?)?;
        let shape = self.shapes[product];
        let inner = self.product_shape(a, b)?;
        if cost(inner, self.shape(c)?)?.1 != shape {
            return None;
        }
        let left = self.add_product(product, a, b)?;
        self.ops[product].args[..2].copy_from_slice(&[left, c]);
        Some(())
    }
}
