//! Results in the order of dimensions that PyTorch expects, from the largest stride to the smallest.

use super::value::Value;
use thalweg::Tensor;

/// Result of a run before it is computed.
#[derive(Clone)]
pub enum OrderedResult {
    /// A tensor with its dimensions reordered, and the order that undoes it.
    Tensor(Tensor, Vec<usize>),
    /// A value that is no tensor.
    Other(Value),
}

/// Inverse of an order of dimensions.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut out = vec![0; order.len()];
    for (i, &from) in order.iter().enumerate() {
        out[from] = i;
    }
    out
}

/// The tensor with its dimensions in `order`, and the order that undoes it.
pub fn ordered(x: &Tensor, order: Option<&[usize]>) -> (Tensor, Vec<usize>) {
    match order {
        Some(order) if order.len() == x.rank() => (x.permute(order), inverse(order)),
        _ => (x.clone(), (0..x.rank()).collect()),
    }
}
