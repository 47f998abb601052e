//! Python package of Thalweg: the extension module `thalweg._thalweg`.
//!
//! In: calls from Python. Out: arrays, or Python exceptions. Always true: the GIL is released while anything is
//! recorded, runs or waits; no panic of Rust crosses the border (`error`).

mod array;
mod dlpack;
mod dtype;
mod error;
mod functions;
mod handle;
mod promote;
mod torch;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _thalweg(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::install();
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<dtype::PyDType>()?;
    module.add("AxisError", error::axis_error_type(py)?)?;
    for dtype in dtype::ArrayDType::ALL {
        module.add(dtype.name(), dtype.object(py)?)?;
    }
    module.add_function(wrap_pyfunction!(dtype::set_default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::dtype_of_name, module)?)?;
    module.add_function(wrap_pyfunction!(array::set_printoptions, module)?)?;
    functions::register_all(module)?;
    torch::register(module)?;
    Ok(())
}
