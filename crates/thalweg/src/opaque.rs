//! Shared front end of opaque operations: functions on the host, sources in CUDA C++.
//!
//! In: the operation's name, its operands, and the declared results. Out: checks, which panic at the caller's line
//! before anything is recorded; results with the node for the backward pass.

use crate::grad::{Backward, checked};
use crate::{DType, Shape, Tensor, tape};
use std::sync::Arc;
use thalweg_stream::Value;

/// Function from operands to the shape and dtype of each result.
pub(crate) type Outputs = dyn Fn(&[Tensor]) -> Vec<(Shape, DType)> + Send + Sync;
/// Backward pass of an opaque operation.
pub(crate) type Back = dyn Fn(Backward<Vec<Tensor>, Vec<Tensor>>) -> Vec<Option<Tensor>> + Send + Sync;

/// Boxes a function that declares the shape and dtype of each result.
pub(crate) fn outputs<O, S>(f: impl Fn(&[Tensor]) -> O + Send + Sync + 'static) -> Arc<Outputs>
where
    O: IntoIterator<Item = (S, DType)>,
    S: Into<Shape>,
{
    Arc::new(move |x: &[Tensor]| f(x).into_iter().map(|(shape, dtype)| (shape.into(), dtype)).collect())
}

/// The operands without their autograd nodes, and the declared results.
///
/// # Panics
/// When an operand is tracked and there is no backward pass, or a result is larger than any memory.
#[track_caller]
pub(crate) fn prepare(
    name: &str,
    from: &[Tensor],
    backward: bool,
    outputs: &Outputs,
) -> (Vec<Tensor>, Vec<(Shape, DType)>) {
    let tracked = from.iter().position(Tensor::is_tracked).filter(|_| tape::is_tracking());
    if let (Some(i), false) = (tracked, backward) {
        panic!(
            "{name}: operand {i} of shape {} is tracked, and the operation has no backward; give it one with \
             .backward(..), or .detach() the operand",
            from[i].shape()
        );
    }
    let plain: Vec<Tensor> = from.iter().map(Tensor::detach).collect();
    let outputs = outputs(&plain);
    if let Some((shape, dtype)) = outputs.iter().find(|(shape, dtype)| shape.checked_bytes(dtype.size()).is_none()) {
        panic!("{name}: a result of shape {shape} and dtype {dtype} is beyond any memory");
    }
    (plain, outputs)
}

/// Wraps the results as tensors, with a node if there is a backward pass.
#[track_caller]
pub(crate) fn results(
    name: &'static str,
    values: Vec<Arc<Value>>,
    from: &[Tensor],
    backward: &Option<Arc<Back>>,
) -> Vec<Tensor> {
    match backward {
        None => values.into_iter().map(Tensor::of).collect(),
        Some(backward) => {
            let backward = backward.clone();
            let rule = move |inputs, outputs, gradients| backward(Backward { inputs, outputs, gradients });
            tape::joint(&values, name, from, checked(name, rule))
        }
    }
}

/// The only result of an operation.
///
/// # Panics
/// When the number of results is not 1.
#[track_caller]
pub(crate) fn only(name: &str, mut all: Vec<Tensor>) -> Tensor {
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => one,
        (last, _) => {
            let count = all.len() + last.is_some() as usize;
            panic!("{name}: it has {count} results, not one; .on_all(..) gives all of them")
        }
    }
}
