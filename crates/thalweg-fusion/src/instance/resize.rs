//! Resizing: a launch over another number of points, with the same body and a new layout.
//!
//! In: a kernel of elementwise operations, a launch of it for other sizes, and the sizes. Out: the launch for these, at
//! a tenth of the cost of writing its body again.
//!
//! The body depends only on the pattern and on the broadcast axes of each value: its [`Form`]. No other decision of
//! the writer depends on sizes, since its paths have broadcasts only and every value is read under one map. The layout
//! of the accesses is computed again.

use crate::plan::KernelPlan;
use crate::segment::{Indexed, ValueId};
use crate::write::map_layout::lay_out;
use crate::write::movement::layout;
use crate::write::step::{Form, Step};
use thalweg_ir::{Shape, View};
use thalweg_kernel::{Geometry, IndexMap, Kernel};

/// Encodes a shape relative to a domain: its rank in the high byte, and in the low byte a mask of its axes, counted
/// from the last, along which it is broadcast. `None` if it does not broadcast to the domain.
fn against(shape: Shape, domain: Shape) -> Option<u16> {
    let lead = domain.rank().checked_sub(shape.rank())?;
    let mut word = (shape.rank() as u16) << 8;
    for i in 0..shape.rank() {
        match (shape[i], domain[lead + i]) {
            (a, b) if a == b => {}
            (1, _) => word |= 1 << (shape.rank() - 1 - i),
            _ => return None,
        }
    }
    Some(word)
}

/// Form of an elementwise kernel over a domain of at least two points, with contiguous inputs. `None` for other
/// kernels.
pub(crate) fn form(ix: &Indexed<'_>, kernel: &KernelPlan) -> Option<Form> {
    let KernelPlan::Map { domain, rows: None, row_stores, column_stores, stores, ops } = kernel else { return None };
    let domain = ix.shape(*domain);
    let plain = row_stores.is_empty() && column_stores.is_empty() && ix.seg.mode.fused && domain.numel() > 1;
    if !plain || stores.iter().any(|&s| ix.seg.shapes[s] != domain) {
        return None;
    }
    let ones = (0..domain.rank()).filter(|&i| domain[i] == 1).fold(0, |ones, i| ones | 1 << i);
    let mut words = Vec::with_capacity(2 + 3 * ops.len());
    words.extend([domain.rank() as u16, ones]);
    for &i in ops {
        if !ix.seg.ops[i].op.by_element() {
            return None;
        }
        words.push(against(ix.seg.shapes[i], domain)?);
        for (_, v) in ix.tensors(i) {
            let shape = ix.shape(v);
            if let ValueId::Input(n) = v
                && ix.seg.inputs[n].1 != View::contiguous(shape)
            {
                return None;
            }
            words.push(against(shape, domain)?);
        }
    }
    Some(Form(words))
}

/// Launch adapted from `before`, a launch of the same kernel with the same form. `reads` are the values of its
/// operands. `None` if the kernel has to be written again.
pub(crate) fn resized(ix: &Indexed<'_>, kernel: &KernelPlan, before: &Step, reads: &[ValueId]) -> Option<Step> {
    let KernelPlan::Map { domain, .. } = kernel else { return None };
    let Kernel::Map(body) = &*before.kernel else { return None };
    let domain = ix.shape(*domain);
    let writes: Vec<ValueId> = kernel.writes().map(ValueId::Op).collect();
    // One access per operand; a value read twice has two maps.
    if body.accesses.len() != reads.len() + writes.len() {
        return None;
    }
    let value = |operand: u16| reads.iter().chain(&writes).nth(operand as usize).copied();
    let maps: Option<Vec<IndexMap>> =
        body.accesses.iter().map(|a| Some(IndexMap::new(layout(ix, value(a.operand?)?).expand(domain)))).collect();
    let (body, geometry) = lay_out(body.clone(), domain, &maps?);
    let loaded = body.loaded();
    let is_read = |operand| body.accesses.iter().zip(&loaded).any(|(a, l)| *l && a.operand == Some(operand as u16));
    let touched: Vec<usize> =
        reads.iter().enumerate().map(|(n, v)| if is_read(n) { ix.bytes(*v) } else { 0 }).collect();
    Some(Step {
        kernel_index: before.kernel_index,
        kernel: Kernel::Map(body).into(),
        geometry: Geometry::Map(geometry).into(),
        operands: before.operands.clone(),
        first_write: before.first_write,
        scalars: before.scalars.clone(),
        in_place: before.in_place.clone(),
        out_of_range: None,
        bytes_read: touched.iter().sum(),
        touched,
        bytes_written: writes.iter().map(|v| ix.bytes(*v)).sum(),
        form: before.form.clone(),
    })
}
