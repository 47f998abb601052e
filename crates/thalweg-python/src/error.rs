//! The border between Rust and Python: failures and panics of the front become Python exceptions.
//!
//! In: a function that records or reads, to run without the GIL. Out: its result, or a Python exception of the kind
//! that NumPy raises, whose message ends with the caller's own Python line. Always true: no panic of a front function is
//! printed or crosses the border.

use pyo3::exceptions::{
    PyIndexError, PyMemoryError, PyOSError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use thalweg::{Error, MistakeKind, take_mistake_kind};

thread_local! {
    /// Whether this thread is inside [`caught`], where panics are not printed.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether anything was recorded in this process, so that a fork copies threads' locks and plans without the threads.
static USED: AtomicBool = AtomicBool::new(false);
/// Whether this process is a fork of one in which [`USED`] was set.
static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn after_fork() {
    if USED.load(Relaxed) {
        FORKED.store(true, Relaxed);
    }
}

/// Silences the panic message of panics that [`run`] catches, and registers the check for forks. Called once, when the
/// module is imported.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !INSIDE.get() {
                previous(info);
            }
        }));
        // SAFETY: the handler only writes an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
}

/// Calls `f`; a panic is returned as its message and the kind of the mistake.
fn caught<R>(f: impl FnOnce() -> R) -> Result<R, (String, Option<MistakeKind>)> {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _restore = Restore(INSIDE.replace(true));
    // Kinds of panics that other code has caught are forgotten.
    take_mistake_kind();
    // A front function that panics has recorded nothing, so no state is left half changed.
    panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| (text_of(&*payload), take_mistake_kind()))
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_string(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".into(),
    }
}

/// Refuses work in a fork of a process that has used Thalweg.
fn check_fork(py: Python<'_>) -> PyResult<()> {
    if FORKED.load(Relaxed) {
        return Err(with_line(
            py,
            PyRuntimeError::new_err(
                "this process was forked from one that had used thalweg, whose threads and locks a fork does not copy; \
             start processes with multiprocessing.get_context(\"spawn\") or \"forkserver\", or fork before first use",
            ),
        ));
    }
    USED.store(true, Relaxed);
    Ok(())
}

/// Calls `f` without the GIL. A panic becomes a `TypeError`, `ValueError` or `IndexError` by its kind.
///
/// # Errors
/// The panic, and work in a forked process.
#[inline]
pub fn run<R: Send>(py: Python<'_>, f: impl FnOnce() -> R + Send) -> PyResult<R> {
    check_fork(py)?;
    py.detach(|| caught(f)).map_err(|(text, kind)| mistake(py, &text, kind))
}

/// As [`run`], for a function that returns a failure.
///
/// # Errors
/// As [`run`], and the failure as an exception.
#[inline]
pub fn run_fallible<R: Send>(py: Python<'_>, f: impl FnOnce() -> Result<R, Error> + Send) -> PyResult<R> {
    run(py, f)?.map_err(|e| failure(py, &e))
}

/// As [`run`], for a function that returns an error message.
///
/// # Errors
/// As [`run`], and a `ValueError` of the message.
pub fn value_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    with_line(py, PyValueError::new_err(message.into()))
}

/// A `TypeError` that ends with the caller's line.
pub fn type_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    with_line(py, PyTypeError::new_err(message.into()))
}

/// An `IndexError` that ends with the caller's line.
pub fn index_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    with_line(py, PyIndexError::new_err(message.into()))
}

/// An `OverflowError` that ends with the caller's line.
pub fn overflow_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    with_line(py, PyOverflowError::new_err(message.into()))
}

/// `thalweg.AxisError`: a `ValueError` and an `IndexError`, as NumPy's.
pub fn axis_error_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let made = TYPE.get_or_try_init(py, || -> PyResult<Py<PyType>> {
        let bases = PyTuple::new(py, [py.get_type::<PyValueError>(), py.get_type::<PyIndexError>()])?;
        let members = PyDict::new(py);
        members.set_item("__module__", "thalweg")?;
        members.set_item("__doc__", "An axis that does not exist: a ValueError and an IndexError, as NumPy's.")?;
        let class = py.get_type::<PyType>().call1(("AxisError", bases, members))?;
        Ok(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py).clone())
}

/// An `AxisError` that ends with the caller's line.
pub fn axis_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    match axis_error_type(py) {
        Ok(class) => with_line(py, PyErr::from_type(class, (message.into(),))),
        Err(e) => e,
    }
}

/// Begins of panic messages of the standard library, which are no mistake of the caller.
const DEFECTS: [&str; 9] = [
    "index out of bounds",
    "called `",
    "assertion ",
    "internal error",
    "attempt to ",
    "range ",
    "slice index",
    "mid > len",
    "not implemented",
];

/// The exception of a panic of the front by its kind; the message says what the caller did wrong.
fn mistake(py: Python<'_>, text: &str, kind: Option<MistakeKind>) -> PyErr {
    if kind.is_none() && DEFECTS.iter().any(|d| text.starts_with(d)) {
        let message = format!("a defect of Thalweg, not of the calling program: {text}");
        return with_line(py, PyRuntimeError::new_err(message));
    }
    let message = in_python(text);
    let error = match kind {
        Some(MistakeKind::Axis) => return axis_error(py, message),
        Some(MistakeKind::Index) => PyIndexError::new_err(message),
        Some(MistakeKind::DType) => PyTypeError::new_err(message),
        Some(MistakeKind::Range) => PyOverflowError::new_err(message),
        _ => PyValueError::new_err(message),
    };
    with_line(py, error)
}

/// A message of the front without advice that is Rust.
fn in_python(text: &str) -> String {
    let mut text = text.to_string();
    for begin in ["; convert one with .cast(", "; .cast(", "; move one with .to_device("] {
        if let Some(at) = text.find(begin) {
            text.truncate(at);
            text += match begin {
                "; move one with .to_device(" => "; move one with .to_device(device)",
                _ => "; convert with astype",
            };
        }
    }
    text
}

/// A message without the `, at FILE.rs:LINE:COLUMN` of a recording call in this crate.
fn without_rust_line(text: &str) -> String {
    let Some(at) = text.rfind(", at ").or_else(|| text.rfind(" at ")) else { return text.to_string() };
    let place = &text[at..];
    if place.contains(".rs:") { text[..at].to_string() } else { text.to_string() }
}

/// The exception of a failure that is found when a value is read.
pub fn failure(py: Python<'_>, error: &Error) -> PyErr {
    let message = without_rust_line(&error.to_string());
    let mut cause = error;
    while let Error::Failed(inner) = cause {
        cause = inner;
    }
    let error = match cause {
        Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
        Error::File { .. } => PyOSError::new_err(message),
        Error::Value(_) | Error::Environment(_) => PyValueError::new_err(message),
        Error::Index(_) => PyIndexError::new_err(message),
        Error::Host { .. } => PyValueError::new_err(message),
        _ => PyRuntimeError::new_err(message),
    };
    with_line(py, error)
}

/// Appends the Python line that called: the innermost frame outside this package.
fn with_line(py: Python<'_>, error: PyErr) -> PyErr {
    let Ok(Some(line)) = caller(py) else { return error };
    let class = error.get_type(py);
    PyErr::from_type(class, (format!("{}, at {line}", error.value(py)),))
}

/// File and line of the innermost Python frame outside this package; `None` if there is none.
fn caller(py: Python<'_>) -> PyResult<Option<String>> {
    static PACKAGE: PyOnceLock<String> = PyOnceLock::new();
    let package = PACKAGE.get_or_init(py, || {
        let folder = || -> PyResult<String> {
            let file: String = py.import("thalweg")?.getattr("__file__")?.extract()?;
            Ok(file.rsplit_once('/').map_or(file.clone(), |(folder, _)| format!("{folder}/")))
        };
        folder().unwrap_or_default()
    });
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    while !frame.is_none() {
        let file: String = frame.getattr("f_code")?.getattr("co_filename")?.extract()?;
        if package.is_empty() || !file.starts_with(package.as_str()) {
            let line: usize = frame.getattr("f_lineno")?.extract()?;
            return Ok(Some(format!("{file}:{line}")));
        }
        frame = frame.getattr("f_back")?;
    }
    Ok(None)
}
