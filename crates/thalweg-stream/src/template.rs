//! Stretches of operations that are recorded together.
//!
//! In: what a function of tensors recorded when it was called, with its operands and results. Out: a [`Template`], whose
//! operations are recorded again on other operands of the same shapes and dtypes in one go: under one lock, with one handle for
//! each result and none for what stands between. Always true: what a template records is what the function would, operation by
//! operation; where that is not sure, nothing is recorded, and the caller calls the function.

use crate::DeviceRef;
use crate::value::Value;
use std::sync::Arc;
use thalweg_ir::{Arg, MAX_ARGS, Op, RelArg, RelOp, Shape};

/// Operations that are recorded together.
#[derive(Debug)]
pub struct Template {
    /// The operations; arguments that are operations are numbered from the first.
    pub(crate) steps: Vec<Step>,
    /// The arguments of all steps.
    pub(crate) args: Vec<From>,
    pub(crate) ints: Vec<i64>,
    pub(crate) scalars: Vec<u64>,
    /// The results: of steps, or operands themselves.
    pub(crate) results: Vec<From>,
}

/// An operation of a template.
#[derive(Debug)]
pub(crate) struct Step {
    /// The operation; of its arguments those are right that are scalars or none.
    pub rel: RelOp,
    pub shape: Shape,
    /// How many arguments it has.
    pub count: u32,
}

/// An argument of a step, or a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// The result of a step.
    Step(u32),
    Operand(u32),
    /// The next scalar.
    Scalar,
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
        self.steps.len()
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
        let (mut steps, mut args) = (Vec::with_capacity(recorded.len()), vec![]);
        for (rel, made) in recorded {
            // What they record has a place of its own in errors, or is drawn anew.
            if matches!(rel.op, Op::Gather | Op::Scatter(_) | Op::Foreign(_) | Op::Random(_) | Op::Window) {
                return None;
            }
            let (mut own, mut count) = (*rel, 0);
            for (slot, arg) in own.args.iter_mut().zip(rel.args()) {
                count += 1;
                args.push(match arg {
                    Arg::Op(n) if n >= first => From::Step((n - first) as u32),
                    Arg::Scalar => From::Scalar,
                    other => operand(&value(other)?)?,
                });
                if arg != Arg::Scalar {
                    *slot = RelArg::NONE;
                }
            }
            steps.push(Step { rel: own, shape: *made.shape(), count });
        }
        let result = |r: &&Arc<Value>| {
            let step = recorded.iter().position(|(_, made)| Arc::ptr_eq(made, r));
            step.map(|i| From::Step(i as u32)).or_else(|| operand(r))
        };
        let results = results.iter().map(result).collect::<Option<Vec<_>>>()?;
        debug_assert!(steps.iter().all(|s| s.count as usize <= MAX_ARGS));
        Some(Template { steps, args, ints: ints.to_vec(), scalars: scalars.to_vec(), results })
    }
}
