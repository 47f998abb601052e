//! Explanations, counters, devices and settings.

use super::register;
use crate::error::{run, run_fallible, value_error};
use crate::functions::arguments::device_or_default;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Explanation of a call: which operations shared a kernel, bytes moved, and why the rest was not fused.
///
/// ``print`` shows it as text, a notebook as HTML.
#[pyclass(name = "Explanation", module = "thalweg", frozen)]
pub struct Explanation(thalweg::Explanation);

#[pymethods]
impl Explanation {
    /// Number of kernels that ran.
    #[getter]
    fn kernels(&self) -> usize {
        self.0.totals().kernels
    }

    /// Number of kernels without fusion.
    #[getter]
    fn kernels_unfused(&self) -> usize {
        self.0.unfused().kernels
    }

    /// The explanation as JSON text.
    fn json(&self) -> String {
        self.0.json()
    }

    /// The explanation as an HTML page.
    #[pyo3(signature = (title = "thalweg"))]
    fn html(&self, title: &str) -> String {
        self.0.html(title)
    }

    fn _repr_html_(&self) -> String {
        // A page of its own: its styles must not change the notebook's.
        let page = self.0.html("thalweg").replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe style=\"width:100%;height:480px;border:0\" srcdoc=\"{page}\"></iframe>")
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// A function with its arguments, to be called without the GIL held by the caller.
struct Callback {
    f: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
}

impl Callback {
    fn new(f: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Callback {
        let kwargs = kwargs.map(|k| k.clone().unbind());
        Callback { f: f.clone().unbind(), args: args.clone().unbind(), kwargs }
    }

    /// Calls the function. Its result is held until everything has run, so that it is computed.
    fn call(&self) -> PyResult<Py<PyAny>> {
        Python::attach(|py| self.f.call(py, self.args.bind(py), self.kwargs.as_ref().map(|k| k.bind(py))))
    }
}

/// Calls `f` while PyTorch, if it is loaded, runs backward passes on this thread instead of one of its own for each GPU,
/// so that an explanation covers them.
fn with_backward_here<T>(py: Python<'_>, f: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let Some(torch) = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.get_item("torch")? else {
        return f();
    };
    let context = torch.getattr("autograd")?.call_method1("set_multithreading_enabled", (false,))?;
    context.call_method0("__enter__")?;
    let out = f();
    context.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    out
}

/// Calls ``f(*args, **kwargs)`` for about half a second and at least eight times, until its plans are found and have been
/// measured, and explains a call. The time of a kernel is its median over several calls. Only this thread's work is
/// reported; backward passes of PyTorch run on it meanwhile.
///
/// If ``f`` must not be called more than once, use ``explain_once``.
#[pyfunction]
#[pyo3(signature = (f, /, *args, **kwargs))]
fn explain(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Explanation> {
    // A call that fails is not repeated.
    f.call(args, kwargs)?;
    let callback = Callback::new(f, args, kwargs);
    let steady = || run(py, move || thalweg::explain_steady(|| callback.call()));
    let (returned, explanation) = with_backward_here(py, steady)?;
    returned?;
    Ok(Explanation(explanation))
}

/// Calls ``f(*args, **kwargs)`` once, runs everything that was recorded, and explains it. Times include the compilation of
/// kernels that are new. Only this thread's work is reported.
#[pyfunction]
#[pyo3(signature = (f, /, *args, **kwargs))]
fn explain_once(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Explanation> {
    let callback = Callback::new(f, args, kwargs);
    let (returned, explanation) = with_backward_here(py, || run(py, move || thalweg::explain(|| callback.call())))?;
    returned?;
    Ok(Explanation(explanation))
}

/// Counters of this process: kernels, bytes, plans and so on, as a dict. They only increase, so differences count a part
/// of a program.
#[pyfunction]
fn counters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in thalweg::counters().list() {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// Computes everything that this thread recorded and that is still held, and waits for it.
///
/// Raises the first error since the last call: an index out of range, no memory, a failed device.
#[pyfunction]
fn synchronize(py: Python<'_>) -> PyResult<()> {
    run_fallible(py, thalweg::synchronize)
}

/// Starts everything that this thread recorded, without waiting for a GPU.
#[pyfunction]
fn flush(py: Python<'_>) -> PyResult<()> {
    run(py, thalweg::flush)
}

/// Names of the devices: ``["cpu", "cuda:0"]``.
#[pyfunction]
fn devices() -> Vec<String> {
    thalweg::Device::names()
}

/// Name of the device of arrays created without one.
#[pyfunction]
fn default_device(py: Python<'_>) -> PyResult<&'static str> {
    Ok(run_fallible(py, thalweg::Device::try_default)?.name())
}

/// Sets the device of arrays that this thread creates without one; ``None`` removes the setting.
#[pyfunction]
#[pyo3(signature = (device, /))]
fn set_default_device(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let device = device.map(|d| device_or_default(py, Some(d))).transpose()?;
    thalweg::set_default_device(device);
    Ok(())
}

/// Statistics of a device's memory in bytes: in_use, peak, reserved, limit.
#[pyfunction]
#[pyo3(signature = (device = None))]
fn memory<'py>(py: Python<'py>, device: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyDict>> {
    let stats = device_or_default(py, device)?.memory();
    let dict = PyDict::new(py);
    dict.set_item("in_use", stats.in_use)?;
    dict.set_item("peak", stats.peak)?;
    dict.set_item("reserved", stats.reserved)?;
    dict.set_item("limit", stats.limit)?;
    Ok(dict)
}

/// Sets how many bytes arrays and intermediates may use at once; ``None`` for no limit.
#[pyfunction]
#[pyo3(signature = (bytes, device = None))]
fn set_memory_limit(py: Python<'_>, bytes: Option<usize>, device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    device_or_default(py, device)?.set_memory_limit(bytes);
    Ok(())
}

/// Precision of float32 matrix products, for this thread: "highest" or "high" (TF32 where the device gains by it).
#[pyfunction]
#[pyo3(signature = (precision, /))]
fn set_matmul_precision(py: Python<'_>, precision: &str) -> PyResult<()> {
    let precision = match precision {
        "highest" => thalweg::MatmulPrecision::Highest,
        "high" => thalweg::MatmulPrecision::High,
        other => return Err(value_error(py, format!("precision is \"highest\" or \"high\", not {other:?}"))),
    };
    run(py, || thalweg::set_matmul_precision(precision))?;
    Ok(())
}

/// Allows this thread's sums of floats by an index in any order on a GPU (True), or not: faster, last bits differ from run to
/// run. Returns the previous setting.
#[pyfunction]
#[pyo3(signature = (on, /))]
fn set_atomic_sums(py: Python<'_>, on: bool) -> PyResult<bool> {
    run(py, || thalweg::set_atomic_sums(on))
}

/// Makes this thread repeat its results to the bit in every run (True), or not. Returns the previous setting.
#[pyfunction]
#[pyo3(signature = (on, /))]
fn set_reproducible(py: Python<'_>, on: bool) -> PyResult<bool> {
    run(py, || thalweg::set_reproducible(on))
}

/// Ends background work, when the interpreter exits.
#[pyfunction]
fn _shutdown(py: Python<'_>) {
    // A fork has no threads to wait for, so its error is dropped.
    let _ = run(py, || {
        let _ = thalweg::synchronize();
        thalweg::finish_searches();
    });
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; explain, explain_once, counters, synchronize, flush, devices, default_device, set_default_device, memory,
        set_memory_limit, set_matmul_precision, set_atomic_sums, set_reproducible, _shutdown);
    module.add_class::<Explanation>()
}
