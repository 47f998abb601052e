//! Functions of the namespace. Each takes arguments in any form that Python has, promotes dtypes, and records.

pub mod arguments;
pub mod convert;
pub mod create;
pub mod dtypes;
pub mod elementwise;
#[cfg(feature = "fft")]
pub mod fft;
pub mod grad;
pub mod linalg;
pub mod manipulate;
pub mod nn;
pub mod observe;
pub mod random;
pub mod reduce;
pub mod search;
pub mod unary;

use pyo3::prelude::*;

/// Registers functions: names of `#[pyfunction]`s.
macro_rules! register {
    ($module:expr; $($name:ident),* $(,)?) => {
        $($module.add_function(pyo3::wrap_pyfunction!($name, $module)?)?;)*
    };
}
pub(crate) use register;

/// Adds all functions to the module.
///
/// # Errors
/// When the module cannot be changed.
pub fn register_all(module: &Bound<'_, PyModule>) -> PyResult<()> {
    create::register(module)?;
    dtypes::register(module)?;
    elementwise::register(module)?;
    #[cfg(feature = "fft")]
    fft::register(module)?;
    grad::register(module)?;
    linalg::register(module)?;
    manipulate::register(module)?;
    nn::register(module)?;
    observe::register(module)?;
    random::register(module)?;
    reduce::register(module)?;
    search::register(module)?;
    unary::register(module)?;
    Ok(())
}
