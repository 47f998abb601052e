//! The backend of `torch.compile`.
//!
//! In: FX graphs as lists of operations, from `thalweg/torch/lower.py`. Out: programs that run them. Always true: an
//! operation without a rule, or whose rule refuses its arguments, runs by PyTorch's own kernel and is counted.

mod call;
mod exchange;
mod object;
mod ops;
mod order;
mod program;
mod replay;
mod value;

use pyo3::prelude::*;

/// Names of all operations with a rule.
#[pyfunction]
fn operations() -> Vec<&'static str> {
    ops::names()
}

/// Waits for all plan searches of other threads, so that later runs use their plans. For measurements.
#[pyfunction]
fn finish_searches(py: Python<'_>) {
    py.detach(|| {
        thalweg::finish_searches();
        thalweg::finish_further_searches();
    });
}

/// Turns replays of captured runs on or off for all programs of the process, and returns whether they were on. For
/// comparisons: results are the same.
#[pyfunction]
fn set_replays(on: bool) -> bool {
    replay::set_replays(on)
}

/// Adds the submodule `torch` to the module.
///
/// # Errors
/// When the module cannot be changed.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let torch = PyModule::new(py, "torch")?;
    torch.add_class::<program::Program>()?;
    torch.add_function(wrap_pyfunction!(operations, &torch)?)?;
    torch.add_function(wrap_pyfunction!(finish_searches, &torch)?)?;
    torch.add_function(wrap_pyfunction!(set_replays, &torch)?)?;
    module.add_submodule(&torch)
}
