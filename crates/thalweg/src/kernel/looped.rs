//! What `while`, `loop` and `for` to an end that is data become in a kernel.

use super::branch::{Branch, Condition};
use super::integer::{Int, Mask};
use super::real::Real;

/// Turns after which a loop of a kernel that says nothing about it ends: `#[kernel(max_turns = ..)]`.
pub const MOST_TURNS: u32 = 1 << 20;

/// A loop of a kernel.
pub struct Loop {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Turns after which it ends, where the kernel says that.
    pub most: Option<u32>,
}

/// What `while go { body }` in a kernel becomes: the variables that the loop assigns go in and come out.
///
/// On numbers it is a loop. Traced, the body is called once; each element has as many turns as its condition says, and
/// changes no more when it is done.
///
/// # Panics
/// On numbers, where a loop whose kernel sets no `max_turns` does not end within [`MOST_TURNS`]. (On tensors it ends
/// there: elements have no way to panic.)
#[track_caller]
pub fn looped<F: Real, S: Branch<F, Out = S> + Copy, C: Condition<F>>(
    of: Loop,
    first: S,
    go: impl Fn(S) -> C,
    body: impl Fn(S) -> S,
) -> S {
    let Some(mut trace) = F::turns(of.most.unwrap_or(MOST_TURNS)) else {
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
    for _ in 0..of.most.unwrap_or(MOST_TURNS) {
        if !go(state).known().unwrap_or_else(|_| unreachable!("on numbers a condition is known")) {
            return state;
        }
        state = body(state);
    }
    if of.most.is_none() {
        panic!(
            "{}: a loop has not ended after {MOST_TURNS} turns; say how many there may be: #[kernel(max_turns = ..)]",
            of.kernel
        );
    }
    state
}

/// What `for k in a..b` in a kernel counts with, where an end is an integer of the kernel.
pub fn bound<F: Real>(i: impl Into<Int<F>>) -> Int<F> {
    i.into()
}
