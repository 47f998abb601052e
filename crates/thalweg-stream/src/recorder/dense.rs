//! Foreign operations need row-major operands, because they take no strides.
//!
//! In: an operation being recorded, some of whose operands are strided. Out: the same operation on copies of these. The
//! copies are ordinary operations of the stream and can fuse with the producers of the operands.

use super::Recorder;
use crate::mode::Mode;
use crate::value::{Operand, Value};
use std::sync::Arc;
use thalweg_ir::{DType, Op, Shape};

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

impl Recorder {
    /// Records an operation that needs row-major operands: copies those that are not.
    #[cold]
    pub(super) fn record_dense(&mut self, header: OpHeader<'_>, args: &[Operand<'_>]) -> Arc<Value> {
        let mut copied = |arg: &Operand<'_>| match arg {
            Operand::Value(v) if matches!(v.state(), Some(Ok(s)) if !s.view.is_dense()) => {
                let (dtype, shape) = (v.dtype(), *v.shape());
                let cast = OpHeader { mode: header.mode, op: Op::Cast, dtype, shape, attr: 0, ints: &[] };
                Some(self.record_local(cast, &[*arg]))
            }
            _ => None,
        };
        let made: Vec<Option<Arc<Value>>> = args.iter().map(&mut copied).collect();
        let args: Vec<Operand<'_>> =
            args.iter().zip(&made).map(|(arg, made)| made.as_ref().map_or(*arg, Operand::Value)).collect();
        self.record_local(header, &args)
    }
}
