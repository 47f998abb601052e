//! Operations whose operands lie row-major: those in another language, which know no strides.
//!
//! In: an operation as it is recorded, some of whose operands lie otherwise in memory. Out: the same on copies of these,
//! which are operations of the stream like any other, so that whatever makes them may share a kernel.

use super::Recorder;
use crate::mode::Mode;
use crate::value::{Operand, Value};
use std::sync::Arc;
use thalweg_ir::{DType, Op, Shape};

/// What is recorded, but for its arguments.
pub(super) struct Parts<'a> {
    pub mode: Mode,
    pub op: Op,
    pub dtype: DType,
    pub shape: Shape,
    pub attr: u32,
    pub ints: &'a [i64],
}

impl Recorder {
    /// Records an operation whose operands have to lie row-major: those that do not are copied first.
    #[cold]
    pub(super) fn record_dense(&mut self, parts: Parts<'_>, args: &[Operand<'_>]) -> Arc<Value> {
        let Parts { mode, op, dtype, shape, attr, ints } = parts;
        let mut copied = |arg: &Operand<'_>| match arg {
            Operand::Value(v) if matches!(v.state(), Some(Ok(s)) if !s.view.is_dense()) => {
                Some(self.record(mode, Op::Cast, v.dtype(), *v.shape(), 0, &[*arg], &[]))
            }
            _ => None,
        };
        let made: Vec<Option<Arc<Value>>> = args.iter().map(&mut copied).collect();
        let args: Vec<Operand<'_>> =
            args.iter().zip(&made).map(|(arg, made)| made.as_ref().map_or(*arg, Operand::Value)).collect();
        self.record(mode, op, dtype, shape, attr, &args, ints)
    }
}
