//! Arguments that many functions have: devices and shapes.

use crate::error::{run_fallible, value_error};
use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg::{Device, MAX_RANK};

/// Device of an argument: its name, or an object with a name like it.
///
/// # Errors
/// When there is no such device.
pub fn device_of_name(py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<Device> {
    let name = match device.cast::<PyString>() {
        Ok(name) => name.to_str()?.to_string(),
        Err(_) => device.str()?.to_str()?.to_string(),
    };
    run_fallible(py, || Device::from_name(&name)).map_err(|_| {
        let there = Device::names().join(", ");
        value_error(py, format!("there is no device {name:?}; there are: {there}"))
    })
}

/// Device of an optional argument; the default device if there is none.
pub fn device_or_default(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<Device> {
    match device {
        Some(device) if !device.is_none() => device_of_name(py, device),
        _ => run_fallible(py, Device::try_default),
    }
}

/// A shape as an argument: an int or a sequence of ints, which may be arrays without dimensions.
pub struct ShapeArg(pub Vec<usize>);

impl<'a, 'py> FromPyObject<'a, 'py> for ShapeArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<ShapeArg> {
        let py = object.py();
        let sizes: Vec<i64> = match object.extract::<i64>() {
            Ok(one) => vec![one],
            Err(_) => object.try_iter()?.map(|size| size?.extract::<i64>()).collect::<PyResult<_>>()?,
        };
        if sizes.len() > MAX_RANK {
            return Err(value_error(py, format!("rank {} is over the limit of {MAX_RANK}", sizes.len())));
        }
        let size = |d: &i64| usize::try_from(*d).map_err(|_| value_error(py, "negative dimensions are not allowed"));
        Ok(ShapeArg(sizes.iter().map(size).collect::<PyResult<_>>()?))
    }
}
