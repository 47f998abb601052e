//! Gradients of Python functions: `grad`, `value_and_grad`, `vjp`, `jvp`.
//!
//! In: a Python function of arrays. Out: functions that call it with tracked arrays. Always true: gradients are recorded
//! operations; inside another gradient they are tracked, so they nest.

use super::register;
use crate::error::{run, type_error, value_error};
use crate::handle::{Array, Data};
use crate::promote::Arg;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use std::cell::Cell;
use thalweg::{DType, Tensor};

thread_local! {
    /// Number of gradients that this thread computes around the present one.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Guard of a nested gradient.
struct Nested;

impl Nested {
    fn enter() -> Nested {
        DEPTH.set(DEPTH.get() + 1);
        Nested
    }

    /// Whether another gradient is computed around the present one.
    fn is_inner() -> bool {
        DEPTH.get() > 1
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// A float array as the input of a gradient: a leaf, or a new node if it is tracked by a gradient around this one.
fn input(py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let data = match Arg::of(object)? {
        Some(Arg::Array(data)) => data,
        Some(scalar) => {
            let dtype = scalar.own_dtype();
            let device = run(py, thalweg::Device::default)?;
            crate::functions::elementwise::array_of(py, &scalar, dtype, device)?
        }
        None => crate::functions::convert::of_nested(object, None)?,
    };
    let x = match data {
        Data::Real(x) if x.dtype().is_float() => x,
        other => {
            let text = format!("{name}: gradients are of real float arrays, not {}", other.dtype().name());
            return Err(type_error(py, text));
        }
    };
    run(py, || if x.is_tracked() { x.on_grad(Tensor::clone) } else { x.detach().tracked() })
}

/// Calls the function with some arguments replaced.
fn call<'py>(
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    replaced: &[(usize, Tensor)],
) -> PyResult<Bound<'py, PyAny>> {
    let py = f.py();
    let mut all: Vec<Bound<'py, PyAny>> = args.iter().collect();
    for (i, x) in replaced {
        all[*i] = Bound::new(py, Array::from(x.clone()))?.into_any();
    }
    f.call(PyTuple::new(py, all)?, kwargs)
}

/// The result of the function as a tensor.
fn result_of(py: Python<'_>, name: &str, y: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    match y.cast::<Array>() {
        Ok(y) => y.get().data().real(py, name),
        Err(_) => Err(type_error(py, format!("{name}: the function returns an array, not {}", y.get_type().name()?))),
    }
}

/// Gradients of one element; zeros for inputs that it does not depend on.
fn gradients(py: Python<'_>, name: &str, y: &Tensor, inputs: &[Tensor]) -> PyResult<Vec<Tensor>> {
    if y.numel() != 1 {
        return Err(value_error(py, format!("{name}: the function returns one element, not shape {}", y.shape())));
    }
    if !y.dtype().is_float() {
        return Err(type_error(py, format!("{name}: the function returns a float, not {}", y.dtype())));
    }
    run(py, || {
        if !y.is_tracked() {
            return inputs.iter().map(|x| x.detach().zeros_like()).collect();
        }
        if Nested::is_inner() { thalweg::grad_graph(y, inputs) } else { thalweg::grad(y, inputs) }
    })
}

/// Positions of the arguments that gradients are of.
struct Numbers {
    list: Vec<usize>,
    /// One int was given, so one gradient is returned, no tuple.
    single: bool,
}

impl Numbers {
    fn new(argnums: &Bound<'_, PyAny>) -> PyResult<Numbers> {
        match argnums.extract::<usize>() {
            Ok(one) => Ok(Numbers { list: vec![one], single: true }),
            Err(_) => Ok(Numbers { list: argnums.extract()?, single: false }),
        }
    }

    fn inputs(&self, py: Python<'_>, name: &str, args: &Bound<'_, PyTuple>) -> PyResult<Vec<(usize, Tensor)>> {
        let each = |&i: &usize| {
            let object = args
                .get_item(i)
                .map_err(|_| value_error(py, format!("{name}: argnums {i} of {} positional arguments", args.len())))?;
            Ok((i, input(py, name, &object)?))
        };
        self.list.iter().map(each).collect()
    }
}

fn gradient_function<'py>(
    f: Bound<'py, PyAny>,
    argnums: &Bound<'py, PyAny>,
    has_aux: bool,
    with_value: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = f.py();
    let numbers = Numbers::new(argnums)?;
    let name = if with_value { "value_and_grad" } else { "grad" };
    let held = f.clone().unbind();
    let closure = move |args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let py = args.py();
        let _nested = Nested::enter();
        let inputs = numbers.inputs(py, name, args)?;
        let returned = call(held.bind(py), args, kwargs, &inputs)?;
        let (y, aux) = if has_aux {
            let (y, aux): (Bound<'_, PyAny>, Bound<'_, PyAny>) = returned.extract()?;
            (y, Some(aux))
        } else {
            (returned, None)
        };
        let y = result_of(py, name, &y)?;
        let tensors: Vec<Tensor> = inputs.into_iter().map(|i| i.1).collect();
        let grads = gradients(py, name, &y, &tensors)?;
        let grads: Vec<Data> = grads.into_iter().map(Data::Real).collect();
        let grads = match numbers.single {
            true => grads.into_iter().next().expect("one argument").into_pyobject(py)?.into_any(),
            false => PyTuple::new(py, grads)?.into_any(),
        };
        let value = || -> PyResult<Bound<'_, PyAny>> {
            let y = if Nested::is_inner() { y.clone() } else { y.detach() };
            Ok(Data::Real(y).into_pyobject(py)?.into_any())
        };
        Ok(match (with_value, aux) {
            (false, None) => grads.unbind(),
            (false, Some(aux)) => PyTuple::new(py, [grads, aux])?.into_any().unbind(),
            (true, None) => PyTuple::new(py, [value()?, grads])?.into_any().unbind(),
            (true, Some(aux)) => {
                let first = PyTuple::new(py, [value()?, aux])?.into_any();
                PyTuple::new(py, [first, grads])?.into_any().unbind()
            }
        })
    };
    let made = PyCFunction::new_closure(py, None, None, closure)?;
    Ok(made.into_any())
}

/// Function that returns the gradient of ``f``, which returns one float element.
///
/// Parameters
/// ----------
/// f : function of arrays
/// argnums : position of the argument that the gradient is of, or a tuple of positions (a tuple of gradients then)
/// has_aux : whether ``f`` returns a pair; the second is then returned beside the gradient
///
/// Gradients nest: ``grad(grad(f))``. They have the shape and dtype of the argument.
#[pyfunction]
#[pyo3(signature = (f, /, argnums = None, *, has_aux = false))]
fn grad<'py>(f: Bound<'py, PyAny>, argnums: Option<Bound<'py, PyAny>>, has_aux: bool) -> PyResult<Bound<'py, PyAny>> {
    let argnums = argnums.unwrap_or(0i64.into_pyobject(f.py())?.into_any());
    gradient_function(f, &argnums, has_aux, false)
}

/// Function that returns the value of ``f`` and its gradient; see ``grad``.
#[pyfunction]
#[pyo3(signature = (f, /, argnums = None, *, has_aux = false))]
fn value_and_grad<'py>(
    f: Bound<'py, PyAny>,
    argnums: Option<Bound<'py, PyAny>>,
    has_aux: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let argnums = argnums.unwrap_or(0i64.into_pyobject(f.py())?.into_any());
    gradient_function(f, &argnums, has_aux, true)
}

/// Tensors of arguments, all of which are inputs.
fn all_inputs(py: Python<'_>, name: &str, args: &Bound<'_, PyTuple>) -> PyResult<Vec<(usize, Tensor)>> {
    args.iter().enumerate().map(|(i, object)| Ok((i, input(py, name, &object)?))).collect()
}

/// Value of ``f(*args)`` and a function that pulls a gradient of the value back to gradients of the arguments, as a
/// tuple (vector-Jacobian product).
#[pyfunction]
#[pyo3(signature = (f, /, *args))]
fn vjp<'py>(f: Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> PyResult<(Data, Bound<'py, PyAny>)> {
    let py = f.py();
    let _nested = Nested::enter();
    let inputs = all_inputs(py, "vjp", args)?;
    let y = result_of(py, "vjp", &call(&f, args, None, &inputs)?)?;
    let value = Data::Real(if Nested::is_inner() { y.clone() } else { y.detach() });
    let inner = Nested::is_inner();
    let tensors: Vec<Tensor> = inputs.into_iter().map(|i| i.1).collect();
    let pull = move |args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let py = args.py();
        let dy = args.get_item(0)?.extract::<Data>()?.real(py, "vjp")?;
        if dy.shape() != y.shape() || dy.dtype() != y.dtype() {
            let text = format!("vjp: a gradient of shape {} for a value of shape {}", dy.shape(), y.shape());
            return Err(value_error(py, text));
        }
        let grads = run(py, || {
            if !y.is_tracked() {
                return tensors.iter().map(|x| x.detach().zeros_like()).collect::<Vec<_>>();
            }
            let weighted = (&y * &dy).sum(..);
            if inner || dy.is_tracked() {
                thalweg::grad_graph(&weighted, &tensors)
            } else {
                thalweg::retain_graph(|| thalweg::grad(&weighted, &tensors))
            }
        })?;
        Ok(PyTuple::new(py, grads.into_iter().map(Data::Real))?.into_any().unbind())
    };
    Ok((value, PyCFunction::new_closure(py, None, None, pull)?.into_any()))
}

/// Value of ``f(*primals)``, and its derivative in the direction of ``tangents`` (Jacobian-vector product).
///
/// There is no forward mode: the derivative is that of a gradient, at about three times the cost of ``f``.
#[pyfunction]
#[pyo3(signature = (f, primals, tangents, /))]
fn jvp<'py>(f: Bound<'py, PyAny>, primals: &Bound<'py, PyTuple>, tangents: Vec<Data>) -> PyResult<(Data, Data)> {
    let py = f.py();
    let _nested = Nested::enter();
    if tangents.len() != primals.len() {
        return Err(value_error(py, format!("jvp: {} tangents for {} primals", tangents.len(), primals.len())));
    }
    let inputs = all_inputs(py, "jvp", primals)?;
    let tangents: Vec<Tensor> = tangents.into_iter().map(|t| t.real(py, "jvp")).collect::<PyResult<_>>()?;
    for ((i, x), t) in inputs.iter().zip(&tangents) {
        if (x.shape(), x.dtype()) != (t.shape(), t.dtype()) {
            return Err(value_error(py, format!("jvp: tangent {i} has not the shape and dtype of its primal")));
        }
    }
    let y = result_of(py, "jvp", &call(&f, primals, None, &inputs)?)?;
    let tensors: Vec<Tensor> = inputs.into_iter().map(|i| i.1).collect();
    let inner = Nested::is_inner();
    let (value, dy) = run(py, || {
        if !y.is_tracked() || y.dtype() == DType::Bool || tensors.is_empty() {
            return (y.detach(), y.detach().zeros_like());
        }
        // The gradient of Σ y·v is linear in v; its product with the tangents, differentiated by v, is the result.
        let v = y.detach().ones_like().tracked();
        let pulled = thalweg::grad_graph(&(&y * &v).sum(..), &tensors);
        let products = pulled.iter().zip(&tangents).map(|(g, t)| (g * t).sum(..));
        let sum = products.reduce(|a, b| a + b).expect("there is an input");
        let value = if inner { y.clone() } else { y.detach() };
        if !sum.is_tracked() {
            return (value, y.detach().zeros_like());
        }
        let dy = if inner { thalweg::grad_graph(&sum, &v) } else { thalweg::grad(&sum, &v) };
        (value, dy)
    })?;
    Ok((value.into(), dy.into()))
}

/// Values of ``x``, through which no gradient flows.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn stop_gradient(x: Data) -> Data {
    x.map(Tensor::detach)
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; grad, value_and_grad, vjp, jvp, stop_gradient);
    Ok(())
}
