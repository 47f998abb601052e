//! Folds and scans along an axis with a user-defined combine: recording and derivatives.
//!
//! In: a combine ([`Loop::is_combine`]) and the components of the elements, tensors of one shape. Out: the components
//! of the result. A combine that is a row of the table of monoids is recorded as that row, with its derivative.
//! Otherwise:
//!
//! * a fold `y = x_0 ∘ x_1 ∘ …` has the derivative of `(before_i ∘ x_i) ∘ after_i` by `x_i`, where the prefixes and the
//!   suffixes come from two scans;
//! * the linear recurrence `h_t = a_t·h_{t-1} + b_t` has its own: with `dh` the gradient of `h`, that of `b` is the
//!   recurrence `λ_t = dh_t + a_{t+1}·λ_{t+1}` from the last element to the first, and that of `a` is `λ_t·h_{t-1}`;
//! * any other scan, and a fold whose gradient is to be differentiated, has that of the same computation in recorded
//!   steps (`steps.rs`).

mod steps;

use crate::grad::{Backward, custom_grad};
use crate::operand::Arg;
use crate::record::{push_all, record1};
use crate::tape::{Tracking, is_tracking};
use crate::{Border, Scalar, Tensor};
use steps::{PartialComponent, put, weighted};
use thalweg_ir::{COMPONENT, ElementOp, Loop, Op, REVERSE, ReduceOp, RegionNode, ScanOp};
use thalweg_kernel::Along;

/// Fold or scan with a user-defined combine.
#[derive(Clone)]
pub(crate) struct Combined {
    pub of: Loop,
    pub along: Along,
    pub axis: usize,
}

impl Combined {
    /// Built-in reduction and scan that the combine equals, if any.
    fn plain(&self) -> Option<(ReduceOp, ScanOp)> {
        let region = self.of.region();
        let [RegionNode::Element { op, args }] = [region.nodes.get(*region.next.first()? as usize)?] else {
            return None;
        };
        let side = |n: u32| &region.nodes[n as usize];
        let both = matches!(
            [side(args[0]), side(args[1])],
            [RegionNode::Carried(0), RegionNode::Arg(0)] | [RegionNode::Arg(0), RegionNode::Carried(0)]
        );
        let found = match op {
            _ if !both || region.next.len() != 1 => return None,
            ElementOp::Add => (ReduceOp::Sum, ScanOp::Sum),
            ElementOp::Mul => (ReduceOp::Prod, ScanOp::Prod),
            ElementOp::Maximum => (ReduceOp::Max, ScanOp::Max),
            ElementOp::Minimum => (ReduceOp::Min, ScanOp::Min),
            _ => return None,
        };
        let own = self.of.identity().next() == Some(found.0.monoid().identity(self.of.carried(0)));
        (own || self.along != Along::Fold).then_some(found)
    }

    fn reversed(&self) -> Combined {
        let along = if self.along == Along::Scan { Along::Reversed } else { Along::Scan };
        Combined { along, ..self.clone() }
    }

    /// Records component `number` of the result, without a derivative.
    fn component(&self, elements: &[Tensor], number: usize) -> Tensor {
        let args: Vec<Arg<'_>> = elements.iter().map(Arg::Tensor).collect();
        let (mut shape, component) = (*elements[0].shape(), (number as u32) << COMPONENT);
        let (op, attr) = match self.along {
            Along::Fold => {
                shape.dims_mut()[self.axis] = 1;
                (Op::FoldBy(self.of), 1 << self.axis | 1 << 8)
            }
            Along::Scan => (Op::ScanBy(self.of), self.axis as u32),
            Along::Reversed => (Op::ScanBy(self.of), self.axis as u32 | REVERSE),
        };
        push_all(op, self.of.carried(number), shape, attr | component, &args, &[])
    }

    /// Records the wanted components of the result. For a fold the axis stays, with one element.
    #[track_caller]
    pub fn record(&self, elements: &[Tensor], wanted: &[bool]) -> Vec<Option<Tensor>> {
        let x = &elements[0];
        if let Some((reduce, scan)) = self.plain() {
            return vec![Some(match self.along {
                Along::Fold => {
                    let mut shape = *x.shape();
                    shape.dims_mut()[self.axis] = 1;
                    record1(Op::Reduce(reduce), x.dtype(), shape, 1 << self.axis | 1 << 8, x, &[])
                }
                along => x.scanned(scan, self.axis, along == Along::Reversed),
            })];
        }
        let numbers: Vec<usize> = (0..wanted.len()).filter(|&n| wanted[n]).collect();
        let tracked = is_tracking() && elements.iter().any(Tensor::is_tracked);
        let results = match (tracked, self.along) {
            (false, _) => numbers.iter().map(|&n| self.component(elements, n)).collect(),
            (true, Along::Fold) => self.tracked_fold(elements, &numbers),
            (true, _) => self.tracked_scan(elements, &numbers),
        };
        let mut all = vec![None; wanted.len()];
        numbers.into_iter().zip(results).for_each(|(n, y)| all[n] = Some(y));
        all
    }

    fn tracked_scan(&self, elements: &[Tensor], numbers: &[usize]) -> Vec<Tensor> {
        let Some([a, b]) = self.of.linear() else {
            let each = self.clone();
            return self.with_rule(elements, numbers, move |x, which, dy| each.gradients_in_steps(x, which, dy));
        };
        let one = |&n: &usize| match n == a {
            true => elements[a].scanned(ScanOp::Prod, self.axis, self.along == Along::Reversed),
            false => self.recurrence(&elements[a], &elements[b], [a, b]),
        };
        numbers.iter().map(one).collect()
    }

    /// Records the linear recurrence `h_t = a_t·h_{t-1} + b_t`; `first` and `second` are the numbers of its components.
    fn recurrence(&self, a: &Tensor, b: &Tensor, [first, second]: [usize; 2]) -> Tensor {
        let elements =
            |a: &Tensor, b: &Tensor| if first == 0 { [a.clone(), b.clone()] } else { [b.clone(), a.clone()] };
        let (own, back) = (self.clone(), self.reversed());
        custom_grad(
            [a, b],
            |[a, b]| own.component(&elements(&a, &b), second),
            move |Backward { inputs: [a, _], outputs: h, gradients: dh }| {
                // The coefficient of the preceding element in the order of this pass.
                let next = back.moved(&a, Scalar::Float(0.0));
                let gradient = match next.is_tracked() || dh.is_tracked() {
                    true => back.recurrence(&next, &dh, [first, second]),
                    false => {
                        let of = if first == 0 { [next, dh] } else { [dh, next] };
                        back.component(&of, second)
                    }
                };
                let before = back.reversed().moved(&h, Scalar::Float(0.0));
                [&gradient * before, gradient]
            },
        )
    }

    /// Elements shifted by one toward later in the order of the scan, with `first` as the first.
    fn moved(&self, x: &Tensor, first: Scalar) -> Tensor {
        let n = x.dims()[self.axis];
        if n == 0 {
            return x.clone();
        }
        let mut widths = vec![(0, 0); x.rank()];
        let start = if self.along == Along::Reversed { 1 } else { 0 };
        widths[self.axis] = if self.along == Along::Reversed { (0, 1) } else { (1, 0) };
        x.part(self.axis, (start, 1, n - 1)).pad(&widths, Border::Constant(first))
    }

    fn tracked_fold(&self, elements: &[Tensor], numbers: &[usize]) -> Vec<Tensor> {
        let each = self.clone();
        self.with_rule(elements, numbers, move |x, which, dy| each.fold_gradients(x, which, dy))
    }

    /// The components `numbers` of the result, with a rule that gives the gradients of the elements.
    fn with_rule(
        &self,
        elements: &[Tensor],
        numbers: &[usize],
        rule: impl Fn(&[Tensor], &[usize], &[Tensor]) -> Vec<Option<Tensor>> + Send + Sync + 'static,
    ) -> Vec<Tensor> {
        let which = numbers.to_vec();
        custom_grad(
            elements,
            |x: Vec<Tensor>| -> Vec<Tensor> { numbers.iter().map(|&n| self.component(&x, n)).collect() },
            move |Backward { inputs: x, gradients: dy, .. }| rule(&x, &which, &dy),
        )
    }

    /// Gradients of the elements `x` of a fold; `dy` are the gradients of the components `numbers` of its result.
    fn fold_gradients(&self, x: &[Tensor], numbers: &[usize], dy: &[Tensor]) -> Vec<Option<Tensor>> {
        if x.iter().chain(dy).any(Tensor::is_tracked) {
            return self.gradients_in_steps(x, numbers, dy);
        }
        let beside = |along: Along| -> Vec<PartialComponent> {
            let scan = Combined { along, ..self.clone() };
            let identity = self.of.identity().enumerate();
            identity
                .map(|(n, bits)| {
                    let first = Scalar::from_bits(bits, self.of.carried(n));
                    PartialComponent::Tensor(scan.moved(&scan.component(x, n), first))
                })
                .collect()
        };
        let leaves: Vec<Tensor> =
            x.iter().map(|x| if x.dtype().is_float() { x.detach().tracked() } else { x.clone() }).collect();
        let _tracking = Tracking::set(true);
        let own: Vec<PartialComponent> = leaves.iter().cloned().map(PartialComponent::Tensor).collect();
        let y = put(self.of, &put(self.of, &beside(Along::Scan), &own), &beside(Along::Reversed));
        let sum = weighted(&y, numbers, dy);
        let gradients = sum.map(|sum| sum.backward());
        let of = |x: &Tensor| gradients.as_ref().and_then(|g| g.get(x)).cloned();
        leaves.iter().map(|x| x.is_tracked().then(|| of(x).unwrap_or_else(|| x.detach().zeros_like()))).collect()
    }
}
