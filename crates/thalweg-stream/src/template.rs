//! Templates: sequences of operations that are recorded as one batch.
//!
//! In: what a function of tensors recorded when it was called, with its operands and results. Out: a [`Template`],
//! whose operations are recorded again on other operands of the same shapes and dtypes. That takes one lock, and makes
//! handles for the results only, not for intermediates. Always true: a template records what the function would,
//! operation by operation. Where that is not certain nothing is recorded, and the caller calls the function.

use crate::DeviceRef;
use crate::value::Value;
use std::sync::Arc;
use thalweg_ir::{Arg, RelOp, Shape};

/// Maximum number of tensor operands of a template.
pub const MAX_OPERANDS: usize = 8;

/// Sequence of operations to record as one batch.
#[derive(Debug)]
pub struct Template {
    /// Operations of the template. Their scalar and empty arguments are valid; tensor arguments are in `links` instead.
    pub(crate) ops: Vec<RelOp>,
    /// Shapes of the results of `ops`.
    pub(crate) shapes: Vec<Shape>,
    /// Tensor arguments of `ops`, in order.
    pub(crate) links: Vec<Link>,
    pub(crate) ints: Vec<i64>,
    pub(crate) scalars: Vec<u64>,
    pub(crate) results: Vec<From>,
}

/// Tensor argument of an operation of a template, and its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Index of the operation, and index of its argument (`slot`).
    pub step: u32,
    pub slot: u32,
    pub from: From,
}

/// Source of a tensor in a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// Result of the operation with that index, counted from the template's first.
    Step(u32),
    /// Operand of the template with that index.
    Operand(u32),
}

/// Position in the calling thread's recording on a device: operations after it may become a template.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(crate) device: DeviceRef,
    pub(crate) epoch: u64,
    pub(crate) at: usize,
    pub(crate) ints: usize,
    pub(crate) scalars: usize,
}

impl Template {
    /// Scalars of the operations, in order, encoded by [`thalweg_ir::Scalar::to_bits`].
    pub fn scalars(&self) -> &[u64] {
        &self.scalars
    }

    /// Number of operations that the template records.
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Template of operations recorded since a mark, the first of which has index `first`. `value` gives the value of
    /// an argument. None if something other than the operands is read, if an operation depends on more than its
    /// arguments, or if two operands are the same tensor: then it is ambiguous which one is meant.
    pub(crate) fn of(
        recorded: &[(RelOp, &Arc<Value>)],
        first: usize,
        (ints, scalars): (&[i64], &[u64]),
        value: impl Fn(Arg) -> Option<Arc<Value>>,
        operands: &[&Arc<Value>],
        results: &[&Arc<Value>],
    ) -> Option<Template> {
        let same = |i: usize, j: usize| i != j && Arc::ptr_eq(operands[i], operands[j]);
        if (0..operands.len()).any(|i| (0..i).any(|j| same(i, j))) {
            return None;
        }
        let operand = |v: &Arc<Value>| {
            let found = operands.iter().position(|o| Arc::ptr_eq(o, v))?;
            Some(From::Operand(found as u32))
        };
        let (mut ops, mut shapes, mut links) = (Vec::with_capacity(recorded.len()), vec![], vec![]);
        for (step, (rel, made)) in recorded.iter().enumerate() {
            // These have call sites of their own for errors, or draw new random numbers.
            if !rel.op.info().is_repeatable() {
                return None;
            }
            for (slot, arg) in rel.args().enumerate() {
                let from = match arg {
                    Arg::Scalar => continue,
                    Arg::Op(n) if n >= first => From::Step((n - first) as u32),
                    other => operand(&value(other)?)?,
                };
                links.push(Link { step: step as u32, slot: slot as u32, from });
            }
            ops.push(*rel);
            shapes.push(*made.shape());
        }
        let result = |r: &&Arc<Value>| {
            let step = recorded.iter().position(|(_, made)| Arc::ptr_eq(made, r));
            step.map(|i| From::Step(i as u32)).or_else(|| operand(r))
        };
        let results = results.iter().map(result).collect::<Option<Vec<_>>>()?;
        Some(Template { ops, shapes, links, ints: ints.to_vec(), scalars: scalars.to_vec(), results })
    }
}
