//! Folds of what sliding windows hold, in a number of steps that grows with the logarithm of their length.
//!
//! In: a tensor and the windows over some of its axes, or a tensor that was just recorded as windows of another, perhaps
//! with elementwise functions on the way. Out: the fold of each window, from folds of 2, 4, 8 … neighbours, each of which
//! is two of the ones before: a window of 64 takes 6 additions an element where it holds 64. Windows over several axes
//! are folded along one after the other. Of extremes two folds that overlap are enough (van Herk 1992 has a constant
//! number of steps, but goes element after element).
//!
//! Always true: no element is in a fold that its window is not, so infinities and NaN stay where they are; sums are
//! added up in a tree, as accurate as those of a fold, in another order. So sums, products and variances of floats are
//! left to folds in strict and reproducible mode, where nothing may depend on what was recorded together.

use crate::made::{Argument, made, may_reorder, record_again};
use crate::tunable::TUNABLES;
use crate::{DType, Tensor};
use thalweg_ir::{Monoid, Op, ReduceOp};
use thalweg_stream as stream;

/// Windows along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Along {
    /// The axis.
    pub axis: usize,
    /// Elements of a window.
    pub size: usize,
    /// Argument window to window.
    pub step: usize,
}

impl Along {
    /// Whether windows share so many elements that folds of neighbours are fewer steps than the elements.
    fn overlaps(self) -> bool {
        let doublings = self.size.ilog2() as usize;
        self.size > 4 * self.step * doublings.max(1)
    }
}

/// Windows over axes of a tensor that has them no more.
pub(crate) struct Windows {
    /// What they are of.
    source: Tensor,
    /// By the axis that runs inside one: behind those of the source, in this order.
    along: Vec<Along>,
}

impl Windows {
    /// What a tensor is windows of, if it was just recorded so, with at most so many functions on the way.
    #[track_caller]
    fn of(x: &Tensor, functions: u32) -> Option<Windows> {
        let made = made(x)?;
        let less = functions.checked_sub(1);
        match made.op {
            Op::Window => {
                let (axis, [size, step]) = (made.attr as usize, made.ints[..].try_into().ok()?);
                let source = made.operand()?.clone();
                let mut below = Windows::of_window(&source).unwrap_or(Windows { source, along: vec![] });
                let is_new = axis < below.source.rank() && below.along.iter().all(|a| a.axis != axis);
                below.along.push(Along { axis, size: size as usize, step: step as usize });
                is_new.then_some(below)
            }
            // A function of what windows hold is that of the tensor, in windows.
            Op::Cast => {
                let below = Windows::of(made.operand()?, less?)?;
                Some(Windows { source: below.source.cast(x.dtype()), ..below })
            }
            Op::Element(op) => {
                let is_tensor = |a: &&Argument| matches!(a, Argument::Tensor(_));
                let tensors: Vec<&Argument> = made.args.iter().filter(is_tensor).collect();
                let [Argument::Tensor(operand)] = tensors[..] else { return None };
                let below = Windows::of(operand, less?)?;
                let instead =
                    |a: &Argument| if is_tensor(&a) { Argument::Tensor(below.source.clone()) } else { a.clone() };
                let args: Vec<Argument> = made.args.iter().map(instead).collect();
                Some(Windows { source: record_again(op, x, &args), ..below })
            }
            _ => None,
        }
    }

    /// The same of nothing but a window.
    #[track_caller]
    fn of_window(x: &Tensor) -> Option<Windows> {
        made(x).filter(|made| made.op == Op::Window).and_then(|_| Windows::of(x, 0))
    }

    /// What a tensor is windows of, or functions of them, if it was just recorded so.
    #[track_caller]
    fn just_recorded(x: &Tensor) -> Option<Windows> {
        stream::is_among_windows(&x.value)
            .then(|| Windows::of(x, TUNABLES.max_window_functions.size() as u32))
            .flatten()
    }

    /// Whether a reduction over these axes is one over all of a window, and one that has fewer steps along its axes.
    fn suits(&self, mask: u32) -> bool {
        let rank = self.source.rank();
        let inside = ((1u32 << self.along.len()) - 1) << rank;
        let elements: usize = self.along.iter().map(|a| a.size).product();
        mask & inside == inside
            && !TUNABLES.max_folded_window.admits(elements)
            && self.along.iter().any(|a| a.overlaps())
    }

    /// A reduction over these axes, with those that are left of the source still to be reduced: the folds of windows,
    /// and the axes.
    #[track_caller]
    fn fold(&self, op: ReduceOp, mask: u32) -> (Tensor, u32) {
        let narrow = matches!(self.source.dtype(), DType::BF16 | DType::F16);
        let wide = narrow && matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        let mut x = if wide { self.source.cast(DType::F32) } else { self.source.clone() };
        for along in self.along.iter().rev() {
            x = match op {
                ReduceOp::Sum => folded(&x, *along, false, &|a, b| a + b),
                ReduceOp::Prod => folded(&x, *along, false, &|a, b| a * b),
                ReduceOp::Max => folded(&x, *along, true, &|a, b| a.maximum(b)),
                _ => folded(&x, *along, true, &|a, b| a.minimum(b)),
            };
        }
        (x, mask & ((1 << self.source.rank()) - 1))
    }
}

/// Neighbours along an axis folded, `size` of them from every `step`th on. `overlap`: two folds may share elements.
#[track_caller]
pub(crate) fn folded(x: &Tensor, along: Along, overlap: bool, two: &dyn Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    doubled(x.clone(), along, overlap, &|a, b, _| two(a, b), &|x, part| x.part(along.axis, part), &|x| {
        x.dims()[along.axis]
    })
}

/// Takes a part along an axis: start, step, length.
type TakePart<'a, S> = &'a dyn Fn(&S, (i64, i64, usize)) -> S;

/// The same of any state: `two` takes how many elements each side is of, `part` takes a part along the axis, `length`
/// says how long it is.
#[track_caller]
fn doubled<S: Clone>(
    x: S,
    along: Along,
    overlap: bool,
    two: &dyn Fn(&S, &S, [usize; 2]) -> S,
    part: TakePart<'_, S>,
    length: &dyn Fn(&S) -> usize,
) -> S {
    let Along { size, step, .. } = along;
    let out = (length(&x) - size) / step + 1;
    let taken = |x: &S, from: usize| part(x, (from as i64, step as i64, out));
    // Folds of `have` neighbours from each element on; what they gave to the result, and of how many elements.
    let (mut x, mut have) = (x, 1);
    let mut result: Option<(S, usize)> = None;
    loop {
        if overlap && 2 * have > size {
            return match size - have {
                0 => taken(&x, 0),
                more => two(&taken(&x, 0), &taken(&x, more), [have, have]),
            };
        }
        if !overlap && size & have != 0 {
            result = Some(match result {
                Some((before, many)) => (two(&before, &taken(&x, many), [many, have]), many + have),
                None => (taken(&x, 0), have),
            });
        }
        if 2 * have > size {
            return result.expect("a size has a highest bit").0;
        }
        let rest = length(&x) - have;
        x = two(&part(&x, (0, 1, rest)), &part(&x, (have as i64, 1, rest)), [have, have]);
        have *= 2;
    }
}

/// Whether a reduction gives the same in any order.
fn exact(op: ReduceOp, dtype: DType) -> bool {
    !dtype.is_float() || op.plain().is_some_and(|m: Monoid| !m.row().ordered)
}

impl Tensor {
    /// The reduction of windows by folds of neighbours, with the axes of their source that are left to reduce. None
    /// where it is another reduction, or where that is no fewer steps. (A tracked extreme is left to its rule: equal
    /// elements share its gradient evenly.)
    #[track_caller]
    pub(crate) fn window_reduced(&self, op: ReduceOp, mask: u32) -> Option<(Tensor, u32)> {
        let sums = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        if !sums && (!matches!(op, ReduceOp::Max | ReduceOp::Min) || self.node.is_some()) {
            return None;
        }
        let allowed = exact(op, self.dtype()) || may_reorder();
        let windows = allowed.then(|| Windows::just_recorded(self)).flatten().filter(|w| w.suits(mask))?;
        let (x, left) = windows.fold(op, mask);
        Some((x.cast(self.dtype()), left))
    }

    /// The sum of squares of what differs from the mean of each window, where the axes are those of windows and no
    /// others: from those of two halves and their means (Chan, Golub and LeVeque 1979).
    #[track_caller]
    pub(crate) fn window_squares(&self, mask: u32) -> Option<Tensor> {
        let windows = may_reorder().then(|| Windows::just_recorded(self)).flatten()?;
        let source = &windows.source;
        if !windows.suits(mask) || mask & ((1 << source.rank()) - 1) != 0 {
            return None;
        }
        // Elements, mean and squares. Those of one element are 0, which nothing has to add.
        let mut state = (source.clone(), None::<Tensor>);
        let mut each = 1;
        for along in windows.along.iter().rev() {
            let two = |a: &(Tensor, Option<Tensor>), b: &(Tensor, Option<Tensor>), [m, n]: [usize; 2]| {
                let (m, n) = ((m * each) as f64, (n * each) as f64);
                let away = &b.0 - &a.0;
                let between = away.square() * (m * n / (m + n));
                let squares = match (&a.1, &b.1) {
                    (Some(a), Some(b)) => a + b + between,
                    (Some(a), None) | (None, Some(a)) => a + between,
                    (None, None) => between,
                };
                (&a.0 + away * (n / (m + n)), Some(squares))
            };
            let part = |x: &(Tensor, Option<Tensor>), part| {
                (x.0.part(along.axis, part), x.1.as_ref().map(|s| s.part(along.axis, part)))
            };
            state = doubled(state, *along, false, &two, &part, &|x| x.0.dims()[along.axis]);
            each *= along.size;
        }
        // What differs from an infinite mean is NaN where it is that infinity.
        let (mean, squares) = state;
        Some(squares? + mean * 0.0)
    }
}
