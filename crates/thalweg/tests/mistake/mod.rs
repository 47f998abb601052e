//! Helpers of tests of mistakes: the panic of a mistake, with its file.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Message and file of this thread's last panic, while it is captured.
    static LAST: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Message and file of the panic that `f` ends with; it is not printed.
pub fn panic_of<R>(f: impl FnOnce() -> R) -> (String, String) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>().map(String::as_str);
            let message = text.or(info.payload().downcast_ref::<&str>().copied()).unwrap_or("").to_string();
            let file = info.location().map_or(String::new(), |l| l.file().to_string());
            match LAST.with_borrow(Option::is_some) {
                true => LAST.set(Some((message, file))),
                false => usual(info),
            }
        }));
    });
    LAST.set(Some(Default::default()));
    let outcome = catch_unwind(AssertUnwindSafe(f));
    let last = LAST.take().unwrap_or_default();
    assert!(outcome.is_err(), "it is a mistake");
    last
}

/// Asserts that a mistake panics at a line of a test file, or of the file `tests`, with all of these parts in its
/// message.
pub fn assert_mistake_at(tests: &str, f: impl FnOnce(), parts: &[&str]) {
    let (message, file) = panic_of(f);
    let told = format!("{file}: {message}");
    assert!(told.contains(tests), "at the caller's line: {told}");
    for part in parts {
        assert!(told.contains(part), "{part:?} in {told}");
    }
}
