//! Users' own operations: backward passes, functions on the host, kernels.

#[path = "../counting/mod.rs"]
mod counting;
#[path = "../gradients/differences.rs"]
mod differences;

mod backward;
mod chapter;
mod host;
mod index;
mod map;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// File and message of a mistake.
fn mistake(f: impl FnOnce()) -> String {
    thread_local! {
        /// What this thread panicked with, while it is to.
        static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>().map(String::as_str);
            let text = text.or(info.payload().downcast_ref::<&str>().copied()).unwrap_or("");
            let message = format!("{}: {text}", info.location().map_or("", |l| l.file()));
            match LAST.with_borrow(Option::is_some) {
                true => LAST.set(Some(message)),
                false => before(info),
            }
        }));
    });
    LAST.set(Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(f));
    let message = LAST.take().unwrap_or_default();
    assert!(outcome.is_err(), "it is a mistake");
    message
}

/// Asserts that a mistake is told at the line of the test, and says all of these.
fn assert_mistake(f: impl FnOnce(), parts: &[&str]) {
    let message = mistake(f);
    assert!(message.contains("tests/kernels/"), "at the caller's line: {message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} in {message}");
    }
}
