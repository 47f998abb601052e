//! Users' own operations: backward passes, functions on the host, kernels.

#[path = "../counting/mod.rs"]
mod counting;
#[path = "../gradients/differences.rs"]
mod differences;

mod backward;
mod host;
mod map;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a mistake says.
fn mistake(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it is a mistake");
    let text = payload.downcast_ref::<String>().cloned();
    text.or(payload.downcast_ref::<&str>().map(|t| t.to_string())).unwrap_or_default()
}

/// Asserts that a mistake says all of these.
fn assert_mistake(f: impl FnOnce(), parts: &[&str]) {
    let message = mistake(f);
    for part in parts {
        assert!(message.contains(part), "{part:?} in {message}");
    }
}
