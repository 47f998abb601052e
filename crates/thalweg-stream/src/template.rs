//! Stretches of operations that are recorded together.
//!
//! In: what a function of tensors recorded when it was called, with its operands and results. Out: a [`Template`], whose
//! operations are recorded again on other operands of the same shapes and dtypes in one go: under one lock, with one handle for
//! each result and none for what stands between. Always true: what a template records is what the function would, operation by
//! operation; where that is not sure, nothing is recorded, and the caller calls the function.

use crate::DeviceRef;
use crate::value::Value;
use std::sync::Arc;
use thalweg_ir::{Arg, Op, RelOp, Shape};

/// Tensors that the operations of a template may be recorded on.
pub const MOST_OPERANDS: usize = 8;

/// Operations that are recorded together.
#[derive(Debug)]
pub struct Template {
    /// The operations; of their arguments those are right that are scalars or none.
    pub(crate) ops: Vec<RelOp>,
    /// The shapes of their results.
    pub(crate) shapes: Vec<Shape>,
    /// Their other arguments, in order.
    pub(crate) links: Vec<Link>,
    pub(crate) ints: Vec<i64>,
    pub(crate) scalars: Vec<u64>,
    pub(crate) results: Vec<From>,
}

/// An argument that is a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Of which operation, and which of its arguments.
    pub step: u32,
    pub slot: u32,
    pub from: From,
}

/// Where a tensor comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// The operation of that number, counted from the first.
    Step(u32),
    /// The operand of that number.
    Operand(u32),
}

/// A place in what the calling thread records on a device: what is recorded behind it may become a template.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(crate) device: DeviceRef,
    pub(crate) epoch: u64,
    pub(crate) at: usize,
    pub(crate) ints: usize,
    pub(crate) scalars: usize,
}

impl Template {
    /// The scalars of its operations, in order, in the form of [`thalweg_ir::Scalar::to_bits`].
    pub fn scalars(&self) -> &[u64] {
        &self.scalars
    }

    /// How many operations it records.
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Of what was recorded behind a mark: operations with their shapes, whose arguments are among themselves, `inputs` by
    /// number, or earlier operations. None where something else is read than the operands, where an operation depends on
    /// more than its arguments, or where two operands are one tensor: then it is not known which of them is meant.
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
            // What they record has a place of its own in errors, or is drawn anew.
            if matches!(rel.op, Op::Gather | Op::Scatter(_) | Op::Foreign(_) | Op::Random(_) | Op::Window) {
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
