//! Foreign operations need row-major operands, because they take no strides, and some of them aligned ones.
//!
//! In: an operation being recorded, some of whose operands are strided or not aligned. Out: the same operation on copies
//! of these. The copies are ordinary operations of the stream and can fuse with the producers of the operands.

use super::Recorder;
use crate::mode::Mode;
use crate::value::{Operand, Value};
use std::sync::Arc;
use thalweg_ir::{DType, Foreign, Op, Shape};

/// Foreign operation to record, without its arguments.
pub(super) struct OpHeader<'a> {
    pub mode: Mode,
    pub dtype: DType,
    pub shape: Shape,
    pub attr: u32,
    pub ints: &'a [i64],
}

/// Whether operand `n` of a foreign operation lies in memory in a way that the operation cannot read.
pub(super) fn is_copied((of, n): (Foreign, usize), operand: &Value) -> bool {
    matches!(operand.state(), Some(Ok(s)) if !of.reads(n, &s.view))
}

impl Recorder {
    /// Records a foreign operation with copies of those operands that it cannot read as they are.
    #[cold]
    pub(super) fn record_dense(&mut self, (of, parts): (Foreign, OpHeader<'_>), args: &[Operand<'_>]) -> Arc<Value> {
        let (op, OpHeader { mode, dtype, shape, attr, ints }) = (Op::Foreign(of), parts);
        let mut copied = |(n, arg): (usize, &Operand<'_>)| match arg {
            Operand::Value(v) if is_copied((of, n), v) => {
                Some(self.record(mode, Op::Cast, v.dtype(), *v.shape(), 0, &[*arg], &[]))
            }
            _ => None,
        };
        let made: Vec<Option<Arc<Value>>> = args.iter().enumerate().map(&mut copied).collect();
        let args: Vec<Operand<'_>> =
            args.iter().zip(&made).map(|(arg, made)| made.as_ref().map_or(*arg, Operand::Value)).collect();
        self.record(mode, op, dtype, shape, attr, &args, ints)
    }
}
