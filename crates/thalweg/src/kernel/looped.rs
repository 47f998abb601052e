//! Lowering of `while`, `loop`, and `for` up to a data-dependent end, in a kernel.

use super::branch::{Branch, Condition};
use super::integer::{Int, Mask};
use super::real::Real;

/// Maximum number of iterations of a kernel's loop, unless `#[kernel(max_turns = ..)]` sets it.
pub const MAX_ITERATIONS: u32 = 1 << 20;

/// Name and iteration limit of a kernel's loop.
pub struct Loop {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Maximum number of iterations, if the kernel sets it.
    pub most: Option<u32>,
}

/// Lowering of `while go { body }` in a kernel: the variables that the loop assigns are passed in and returned.
///
/// On numbers it is a loop. Traced, the body is called once. Each element has as many iterations as its condition says,
/// and is unchanged afterwards.
///
/// # Panics
/// On numbers, if a loop of a kernel without `max_turns` does not end within [`MAX_ITERATIONS`] iterations. (On tensors it
/// ends there: elements cannot panic.)
#[track_caller]
pub fn looped<F: Real, S: Branch<F, Out = S> + Copy, C: Condition<F>>(
    of: Loop,
    first: S,
    go: impl Fn(S) -> C,
    body: impl Fn(S) -> S,
) -> S {
    let Some(mut trace) = F::turns(of.most.unwrap_or(MAX_ITERATIONS)) else {
        return on_numbers(of, first, go, body);
    };
    let state = first.each(&mut *trace);
    let another: Mask<F> = go(state).mask();
    trace.go(another.0);
    body(state).each(&mut *trace);
    trace.end();
    first.each(&mut *trace)
}

#[track_caller]
fn on_numbers<F: Real, S: Copy, C: Condition<F>>(of: Loop, first: S, go: impl Fn(S) -> C, body: impl Fn(S) -> S) -> S {
    let mut state = first;
    for _ in 0..of.most.unwrap_or(MAX_ITERATIONS) {
        if !go(state).known().unwrap_or_else(|_| unreachable!("on numbers a condition is known")) {
            return state;
        }
        state = body(state);
    }
    if of.most.is_none() {
        panic!(
            "{}: a loop has not ended after {MAX_ITERATIONS} turns; say how many there may be: #[kernel(max_turns = ..)]",
            of.kernel
        );
    }
    state
}

/// Lowering of `for k in a..b` in a kernel: a bound of the range, if one is an integer of the kernel.
pub fn bound<F: Real>(i: impl Into<Int<F>>) -> Int<F> {
    i.into()
}
