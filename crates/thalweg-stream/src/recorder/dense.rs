//! Foreign operations need row-major operands, because they take no strides, and some of them aligned ones.
//!
//! In: an operation being recorded, some of whose operands are strided or not aligned. Out: the same operation on copies
//! of these. The copies are ordinary operations of the stream and can fuse with the producers of the operands.

use super::Recorder;
use crate::mode::Mode;
use crate::value::{Operand, Value};
use std::sync::Arc;
use thalweg_ir::{DType, Op, Shape, View};

/// Operation to record, without its arguments.
#[derive(Clone, Copy)]
pub(super) struct OpHeader<'a> {
    pub mode: Mode,
    pub op: Op,
    pub dtype: DType,
    pub shape: Shape,
    pub attr: u32,
    pub ints: &'a [i64],
}

/// Whether an operation can read its operand `n` in memory through this view.
#[inline]
pub(super) fn reads(op: Op, n: usize, view: &View) -> bool {
    match op {
        Op::Foreign(of) => of.reads(n, view),
        _ => true,
    }
}

impl Recorder {
    /// Records an operation with copies of those operands that it cannot read as they are.
    #[cold]
    pub(super) fn record_dense(&mut self, header: OpHeader<'_>, args: &[Operand<'_>]) -> Arc<Value> {
        let mut copied = |(n, arg): (usize, &Operand<'_>)| match arg {
            Operand::Value(v) if matches!(v.state(), Some(Ok(s)) if !reads(header.op, n, &s.view)) => {
                let (dtype, shape) = (v.dtype(), *v.shape());
                let cast = OpHeader { mode: header.mode, op: Op::Cast, dtype, shape, attr: 0, ints: &[] };
                Some(self.record_local(cast, &[*arg]))
            }
            _ => None,
        };
        let made: Vec<Option<Arc<Value>>> = args.iter().enumerate().map(&mut copied).collect();
        let args: Vec<Operand<'_>> =
            args.iter().zip(&made).map(|(arg, made)| made.as_ref().map_or(*arg, Operand::Value)).collect();
        self.record_local(header, &args)
    }
}
