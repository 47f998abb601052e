//! Reductions of sliding windows in a number of steps that grows with the logarithm of their length.
//!
//! In: a tensor and the windows over some of its axes, or a tensor that was just recorded as windows of another,
//! perhaps with elementwise functions in between. Out: the reduction of each window, from those of 2, 4, 8 …
//! neighbours, each combined from two of the previous step: a window of 64 takes 6 additions per element instead of 64.
//! Windows over several axes are reduced one axis after the other. For extremes, two overlapping partial results are
//! enough (van Herk 1992 has a constant number of steps, but is sequential).
//!
//! Always true: a partial result has only elements of its window, so infinities and NaN do not spread. Sums are added
//! in a tree, as accurately as in a fold, but in another order. So sums, products and variances of floats stay folds in
//! strict and reproducible mode, where results may not depend on what was recorded together.

use crate::recorded::{Argument, may_reorder, recorded_op, rerecord};
use crate::tunable::TUNABLES;
use crate::{DType, Tensor};
use thalweg_ir::{Monoid, Op, ReduceOp};
use thalweg_stream as stream;

/// Windows along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WindowAxis {
    /// Axis that the windows are along.
    pub axis: usize,
    /// Number of elements of a window.
    pub size: usize,
    /// Distance between windows, in elements.
    pub step: usize,
}

impl WindowAxis {
    /// Whether windows overlap so much that partial results take fewer steps than the elements.
    fn overlaps(self) -> bool {
        let doublings = self.size.ilog2() as usize;
        self.size > 4 * self.step * doublings.max(1)
    }
}

/// Windows over axes of a tensor, found in the recorded operations.
pub(crate) struct Windows {
    /// The tensor that has the windows.
    source: Tensor,
    /// The windows of each windowed axis. The axes of their elements follow those of the source, in this order.
    along: Vec<WindowAxis>,
}

impl Windows {
    /// Finds the tensor that `x` was just recorded as windows of, with at most `functions` elementwise functions in
    /// between.
    #[track_caller]
    fn of(x: &Tensor, functions: u32) -> Option<Windows> {
        let made = recorded_op(x)?;
        let less = functions.checked_sub(1);
        match made.op {
            Op::Window => {
                let (axis, [size, step]) = (made.attr as usize, made.ints[..].try_into().ok()?);
                let source = made.operand()?.clone();
                let mut below = Windows::of_window(&source).unwrap_or(Windows { source, along: vec![] });
                let is_new = axis < below.source.rank() && below.along.iter().all(|a| a.axis != axis);
                below.along.push(WindowAxis { axis, size: size as usize, step: step as usize });
                is_new.then_some(below)
            }
            // A function of windows is windows of the function.
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
                Some(Windows { source: rerecord(op, x, &args), ..below })
            }
            _ => None,
        }
    }

    /// Like `of`, for a tensor that is itself the result of a window operation.
    #[track_caller]
    fn of_window(x: &Tensor) -> Option<Windows> {
        recorded_op(x).filter(|made| made.op == Op::Window).and_then(|_| Windows::of(x, 0))
    }

    /// Finds the windows that `x`, just recorded, consists of or is a function of.
    #[track_caller]
    fn just_recorded(x: &Tensor) -> Option<Windows> {
        stream::is_among_windows(&x.value)
            .then(|| Windows::of(x, TUNABLES.max_window_functions.size() as u32))
            .flatten()
    }

    /// Whether a reduction over these axes covers whole windows, and takes fewer steps by partial results.
    fn suits(&self, mask: u32) -> bool {
        let rank = self.source.rank();
        let inside = ((1u32 << self.along.len()) - 1) << rank;
        let elements: usize = self.along.iter().map(|a| a.size).product();
        mask & inside == inside
            && !TUNABLES.max_folded_window.admits(elements)
            && self.along.iter().any(|a| a.overlaps())
    }

    /// Reduces the windows. Returns the results, and the mask of the source's axes that remain to be reduced.
    #[track_caller]
    fn fold(&self, op: ReduceOp, mask: u32) -> (Tensor, u32) {
        let narrow = matches!(self.source.dtype(), DType::BF16 | DType::F16);
        let wide = narrow && matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        let mut x = if wide { self.source.cast(DType::F32) } else { self.source.clone() };
        for along in self.along.iter().rev() {
            x = match op {
                ReduceOp::Sum => reduce_windows(&x, *along, false, &|a, b| a + b),
                ReduceOp::Prod => reduce_windows(&x, *along, false, &|a, b| a * b),
                ReduceOp::Max => reduce_windows(&x, *along, true, &|a, b| a.maximum(b)),
                _ => reduce_windows(&x, *along, true, &|a, b| a.minimum(b)),
            };
        }
        (x, mask & ((1 << self.source.rank()) - 1))
    }
}

/// Reduces `size` neighbours along an axis, from every `step`th on. `overlap`: two partial results may share elements.
#[track_caller]
pub(crate) fn reduce_windows(
    x: &Tensor,
    along: WindowAxis,
    overlap: bool,
    two: &dyn Fn(&Tensor, &Tensor) -> Tensor,
) -> Tensor {
    doubled(x.clone(), along, overlap, &|a, b, _| two(a, b), &|x, part| x.part(along.axis, part), &|x| {
        x.dims()[along.axis]
    })
}

/// Function that takes a range along an axis: start, step, length.
type TakePart<'a, S> = &'a dyn Fn(&S, (i64, i64, usize)) -> S;

/// `reduce_windows` for any state. `two` takes the number of elements of each side, `part` takes a range along the axis,
/// `length` returns the length of the axis.
#[track_caller]
fn doubled<S: Clone>(
    x: S,
    along: WindowAxis,
    overlap: bool,
    two: &dyn Fn(&S, &S, [usize; 2]) -> S,
    part: TakePart<'_, S>,
    length: &dyn Fn(&S) -> usize,
) -> S {
    let WindowAxis { size, step, .. } = along;
    let out = (length(&x) - size) / step + 1;
    let taken = |x: &S, from: usize| part(x, (from as i64, step as i64, out));
    // Partial results of `have` neighbours from each element on; the result so far, and its number of elements.
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

/// Whether a reduction gives the same result in any order.
fn exact(op: ReduceOp, dtype: DType) -> bool {
    !dtype.is_float() || op.plain().is_some_and(|m: Monoid| !m.row().ordered)
}

impl Tensor {
    /// The reduction of windows by partial results of neighbours, and the mask of the source's axes that remain to be
    /// reduced. `None` if `self` is not windows, or if that saves no steps. (A tracked extreme keeps its own rule:
    /// equal elements share its gradient evenly.)
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

    /// The sum of squared deviations from the mean of each window, combined from those of two halves and their means
    /// (Chan, Golub and LeVeque 1979). `None` unless the axes are exactly those of windows.
    #[track_caller]
    pub(crate) fn window_squares(&self, mask: u32) -> Option<Tensor> {
        let windows = may_reorder().then(|| Windows::just_recorded(self)).flatten()?;
        let source = &windows.source;
        if !windows.suits(mask) || mask & ((1 << source.rank()) - 1) != 0 {
            return None;
        }
        // Mean and sum of squares. That of one element is 0 and left out.
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
        // The deviation from an infinite mean is NaN, also where the element is that infinity.
        let (mean, squares) = state;
        Some(squares? + mean * 0.0)
    }
}
