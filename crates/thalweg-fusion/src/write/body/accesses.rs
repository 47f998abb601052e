//! Loads of a body: interned accesses and scalars.

use super::Writer;
use crate::segment::ValueId;
use crate::write::movement::{Path, layout};
use crate::write::step::{BitRange, ScalarArg};
use thalweg_ir::{DType, Scalar, Shape};
use thalweg_kernel::{Access, AccessClass, IndexMap, Node, NodeId};

impl Writer<'_> {
    pub(super) fn load(&mut self, v: ValueId, path: &Path) -> NodeId {
        if self.is_nowhere(self.ix.shape(v)) {
            return self.zero(self.ix.dtype(v));
        }
        let map = path.apply(self.ix, IndexMap::new(layout(self.ix, v)));
        let access = self.access(Some(v), map);
        self.builder.node(Node::Load { access })
    }

    /// Whether a value of that shape has no element at any point of the domain, as an empty tensor that is one side of
    /// a `cat`. An engine must not receive an access to it, since every position is outside its buffer, masked or not.
    pub(super) fn is_nowhere(&self, shape: Shape) -> bool {
        shape.numel() == 0 && self.domain.numel() > 0
    }

    /// Returns the node of a placeholder value for a masked access, which is never selected; adds the node if it is
    /// new.
    pub(super) fn zero(&mut self, dtype: DType) -> NodeId {
        let zero = if dtype.is_float() { Scalar::Float(0.0) } else { Scalar::integer(0, dtype) };
        self.builder.constant(zero, dtype)
    }

    pub(super) fn access(&mut self, source: Option<ValueId>, map: IndexMap) -> u16 {
        if let Some(&a) = self.accesses.get(&(source, map.clone())) {
            return a;
        }
        let operand = source.map(|v| {
            let at = self.reads.iter().position(|r| *r == v).unwrap_or_else(|| {
                self.reads.push(v);
                self.reads.len() - 1
            });
            u16::try_from(at).expect("a kernel has at most 65,536 operands")
        });
        let dtype = match source {
            None => DType::U32,
            Some(ValueId::Op(i)) if self.outline.product.is_some_and(|p| p.0 == i) => {
                self.outline.product.expect("just asked").1
            }
            Some(v) => self.ix.dtype(v),
        };
        // The class is set later, by the sizes.
        let access = self.builder.access(Access { operand, dtype, class: AccessClass::Contiguous, per_row: false });
        self.maps.push(map.clone());
        self.sources.push(source);
        self.accesses.insert((source, map), access);
        access
    }

    pub(super) fn scalar(&mut self, op: usize, arg: usize, dtype: DType) -> NodeId {
        self.scalar_part(op, arg, dtype, BitRange::Whole)
    }

    pub(super) fn scalar_part(&mut self, op: usize, arg: usize, dtype: DType, part: BitRange) -> NodeId {
        let index = self.classes.representative(self.ix.scalar(op, arg)) as u32;
        self.scalar_argument(ScalarArg::Segment { index, part }, dtype)
    }

    pub(super) fn scalar_argument(&mut self, wanted: ScalarArg, dtype: DType) -> NodeId {
        let slot = self.scalars.iter().position(|s| *s == wanted).unwrap_or_else(|| {
            self.scalars.push(wanted);
            self.scalars.len() - 1
        });
        let slot = u16::try_from(slot).expect("a kernel has at most 65,536 scalars");
        self.builder.scalar(slot, dtype)
    }

    /// Returns the node of an integer that follows from the sizes; adds it if it is new. It is a scalar argument of the
    /// launch, so that the body is the same for all sizes.
    pub(super) fn size(&mut self, value: i64) -> NodeId {
        self.scalar_argument(ScalarArg::Size(value), DType::I64)
    }
}
