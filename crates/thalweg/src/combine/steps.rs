//! Folds and scans in recorded steps, with derivatives of every order.
//!
//! In: a combine and the components of the elements. Out: the components of the result, with every partial result
//! recorded by the operations of the combine. A fold combines the first half of a row with the second, and so on; a
//! scan combines each element with the one 1, 2, 4, … before it (Hillis and Steele 1986). A row of n elements takes log
//! n steps, each on n elements in a scan and on half as many as the previous one in a fold. Always true: no identity is
//! used, so that an infinity in it makes no NaN.

use super::Combined;
use crate::grad::gradients_of;
use crate::operand::Arg;
use crate::record::push;
use crate::tape::Tracking;
use crate::{DType, Scalar, Shape, Tensor};
use thalweg_ir::{ElementOp, Loop, Op, RegionNode};
use thalweg_kernel::{Along, reference};

impl Combined {
    /// The gradients of the elements; `dy` are those of the components `numbers`. Tracked if `x` or `dy` is.
    pub(super) fn gradients_in_steps(&self, x: &[Tensor], numbers: &[usize], dy: &[Tensor]) -> Vec<Option<Tensor>> {
        let create = x.iter().chain(dy).any(Tensor::is_tracked);
        let _tracking = Tracking::set(true);
        // Gradients stop at these copies: `dy` may depend on the same elements.
        let leaf = |x: &Tensor| match (x.dtype().is_float(), x.is_tracked()) {
            (false, _) => x.clone(),
            (true, true) => x.on_grad(Tensor::clone),
            (true, false) => x.tracked(),
        };
        let leaves: Vec<Tensor> = x.iter().map(leaf).collect();
        let sum = weighted(&self.in_steps(&leaves), numbers, dy);
        let floats: Vec<Tensor> = leaves.iter().filter(|x| x.dtype().is_float()).cloned().collect();
        let mut found = match sum {
            Some(sum) => gradients_of("fold", &sum, &floats, create),
            None => vec![None; floats.len()],
        }
        .into_iter();
        let of = |x: &Tensor| {
            x.dtype().is_float().then(|| found.next().flatten().unwrap_or_else(|| x.detach().zeros_like()))
        };
        x.iter().map(of).collect()
    }

    fn in_steps(&self, x: &[Tensor]) -> Vec<PartialComponent> {
        let (axis, mut n) = (self.axis, x[0].dims()[self.axis]);
        let mut all = x.to_vec();
        let part = |all: &[Tensor], from: usize, count: usize| -> Vec<Tensor> {
            all.iter().map(|x| x.part(axis, (from as i64, 1, count))).collect()
        };
        let joined = |a: &[Tensor], b: &[Tensor]| -> Vec<Tensor> {
            a.iter().zip(b).map(|(a, b)| Tensor::cat(&[a, b], axis)).collect()
        };
        if self.along == Along::Fold {
            while n > 1 {
                let half = n / 2;
                let both = self.combine(&part(&all, 0, half), &part(&all, half, half));
                all = if n % 2 == 1 { joined(&both, &part(&all, n - 1, 1)) } else { both };
                n = half + n % 2;
            }
        } else {
            let mut step = 1;
            while step < n {
                let (first, last) = (part(&all, 0, n - step), part(&all, step, n - step));
                all = match self.along {
                    Along::Reversed => joined(&self.combine(&last, &first), &part(&all, n - step, step)),
                    _ => joined(&part(&all, 0, step), &self.combine(&first, &last)),
                };
                step *= 2;
            }
        }
        all.into_iter().map(PartialComponent::Tensor).collect()
    }

    /// Combines two lists of partial results, element by element.
    fn combine(&self, before: &[Tensor], after: &[Tensor]) -> Vec<Tensor> {
        let parts =
            |all: &[Tensor]| -> Vec<PartialComponent> { all.iter().cloned().map(PartialComponent::Tensor).collect() };
        let tensor = |(n, part): (usize, PartialComponent)| match part {
            PartialComponent::Tensor(t) => t,
            PartialComponent::Scalar(s) => {
                Tensor::full_with(*before[n].shape(), s, (before[n].dtype(), before[n].device()))
            }
        };
        put(self.of, &parts(before), &parts(after)).into_iter().enumerate().map(tensor).collect()
    }
}

/// `Σ y·dy` of the components `numbers` that a gradient flows through; `None` if there are none.
pub(super) fn weighted(y: &[PartialComponent], numbers: &[usize], dy: &[Tensor]) -> Option<Tensor> {
    let products = numbers.iter().zip(dy).filter_map(|(&n, dy)| match &y[n] {
        PartialComponent::Tensor(y) if y.is_tracked() => Some((y * dy).sum(..)),
        _ => None,
    });
    products.reduce(|a, b| a + b)
}

/// Component of a partial result: a tensor (all of one shape) or a number.
#[derive(Clone)]
pub(super) enum PartialComponent {
    Tensor(Tensor),
    Scalar(Scalar),
}

/// Combines two partial results by recorded operations.
pub(super) fn put(of: Loop, before: &[PartialComponent], after: &[PartialComponent]) -> Vec<PartialComponent> {
    let region = of.region();
    let mut values: Vec<PartialComponent> = Vec::with_capacity(region.nodes.len());
    for (i, node) in region.nodes.iter().enumerate() {
        let value = match node {
            RegionNode::Carried(n) => before[*n as usize].clone(),
            RegionNode::Arg(n) => after[*n as usize].clone(),
            RegionNode::Const { bits, dtype } => PartialComponent::Scalar(Scalar::from_bits(*bits, *dtype)),
            RegionNode::Cast { dtype, arg } => match &values[*arg as usize] {
                PartialComponent::Tensor(t) => PartialComponent::Tensor(t.cast(*dtype)),
                PartialComponent::Scalar(s) => PartialComponent::Scalar(reference::cast(*s, *dtype)),
            },
            RegionNode::Element { op, args } => {
                let args = &args[..op.row().arity];
                element(*op, args.iter().map(|&a| (&values[a as usize], of.dtype(a))), of.dtype(i as u32))
            }
            RegionNode::Loop { .. } | RegionNode::Result { .. } => unreachable!("a combine has no loops"),
        };
        values.push(value);
    }
    region.next.iter().map(|&n| values[n as usize].clone()).collect()
}

/// Records an operation on components, at least one of which is a tensor (operations on numbers were folded when the
/// combine was traced).
fn element<'a>(
    op: ElementOp,
    args: impl Iterator<Item = (&'a PartialComponent, DType)>,
    dtype: DType,
) -> PartialComponent {
    let (mut all, mut n, mut shape) = ([Arg::Scalar(0); 3], 0, Shape::SCALAR);
    for (part, dtype) in args {
        all[n] = match part {
            PartialComponent::Tensor(t) => {
                shape = *t.shape();
                Arg::Tensor(t)
            }
            PartialComponent::Scalar(s) => Arg::Scalar(s.to_bits(dtype)),
        };
        n += 1;
    }
    let [a, b, c] = all;
    let op = Op::Element(op);
    PartialComponent::Tensor(match n {
        1 => push(op, dtype, shape, 0, [a], &[]),
        2 => push(op, dtype, shape, 0, [a, b], &[]),
        _ => push(op, dtype, shape, 0, [a, b, c], &[]),
    })
}
