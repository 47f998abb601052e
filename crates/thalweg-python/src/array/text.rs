//! Arrays as text: `str` and `repr` as NumPy's.

use crate::dtype::{ArrayDType, ArrayDType::Real};
use crate::error::run_fallible;
use crate::handle::{Array, Data};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use thalweg::{DType, TextStyle};

static PRECISION: AtomicUsize = AtomicUsize::new(8);

/// Sets the maximum number of digits after the decimal point in printed arrays (8 by default).
#[pyfunction]
#[pyo3(signature = (*, precision = 8))]
pub fn set_printoptions(precision: usize) {
    PRECISION.store(precision.min(17), Relaxed);
}

fn text(py: Python<'_>, data: &Data, commas: bool, indent: usize) -> PyResult<String> {
    let style = TextStyle { precision: PRECISION.load(Relaxed), commas, indent };
    let text = run_fallible(py, || match data {
        Data::Real(x) => x.to_text(&style),
        Data::Complex(z) => z.to_text(&style),
    })?;
    // Python's bools have capitals.
    if data.dtype() == Real(DType::Bool) {
        return Ok(text.replace("true", "True").replace("false", "False"));
    }
    Ok(text)
}

#[pymethods]
impl Array {
    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        text(py, &self.data(), false, 0)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let data = self.data();
        let mut text = text(py, &data, true, "Array(".len())?;
        let dtype = data.dtype();
        if data.numel() == 0 && data.dims() != [0] {
            let sizes: Vec<String> = data.dims().iter().map(usize::to_string).collect();
            text += &format!(", shape=({}{})", sizes.join(", "), if sizes.len() == 1 { "," } else { "" });
        }
        let implied =
            matches!(dtype, Real(DType::F64 | DType::I64 | DType::Bool) | ArrayDType::Complex128) && data.numel() > 0;
        if !implied {
            text += &format!(", dtype={}", dtype.name());
        }
        Ok(format!("Array({text})"))
    }

    fn __format__(slf: &Bound<'_, Self>, spec: &str) -> PyResult<String> {
        let py = slf.py();
        if slf.get().with(Data::rank) == 0 && !spec.is_empty() {
            let item = slf.call_method0("item")?;
            return py.import("builtins")?.call_method1("format", (item, spec))?.extract();
        }
        slf.get().__str__(py)
    }
}
