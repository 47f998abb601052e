//! Factors that are copied: where a body does nothing but load an element and store it, the factor lies in memory after
//! all, with several dimensions to its lines and terms.
//!
//! In: the job of a factor. Out: where its elements are, checked against the operand's bytes.

use super::parts::{Job, Programs};
use crate::contract::Grid;
use thalweg_ir::DType;
use thalweg_kernel::Node;

/// The longest step from line to line for which lines are packed one by one from memory.
const MOST_STEP: usize = 4;

/// Where the elements of a factor lie, for these batches of it, if its body, whose rows are lines or terms, only copies
/// them from there and lines that follow one another are near, or terms are neighbours.
pub(super) fn grid(
    job: &Job<'_>,
    terms_last: bool,
    dtype: DType,
    batches: impl Iterator<Item = usize>,
) -> Option<Grid> {
    let (Programs::Maps(_), [body], [part]) = (&job.part.programs, &job.part.bodies[..], &job.tiles.boxes[..]) else {
        return None;
    };
    let ([Node::Load { access }], [store]) = (&body.nodes[..], &body.stores[..]) else { return None };
    let (from, at) = (&body.accesses[*access as usize], &part.geometry.accesses[*access as usize]);
    let to = &body.accesses[store.access as usize];
    let whole = part.origin.iter().all(|&o| o == 0) && part.geometry.extents == job.tiles.extents;
    if !whole || at.map.is_some() || from.dtype != dtype || to.dtype != dtype {
        return None;
    }
    let dims: Vec<(usize, isize)> = job.tiles.extents.iter().copied().zip(at.strides).collect();
    let most = if terms_last { 1 } else { MOST_STEP };
    if dims.iter().any(|d| d.0 == 0) || dims.last().is_none_or(|d| d.1.unsigned_abs() > most) {
        return None;
    }
    // What an operand has not is refused where the body is launched.
    let operand = job.operands[from.operand? as usize];
    let span = |sign: i128| {
        let spans = dims.iter().map(|&(size, stride)| (size as i128 - 1) * stride as i128);
        at.base as i128 + spans.filter(|s| s.signum() == sign).sum::<i128>()
    };
    if span(-1) < 0 || span(1) >= (operand.bytes() / dtype.size()) as i128 {
        return None;
    }
    let first = |mut batch: usize| {
        let mut offset = at.base;
        for &(size, stride) in dims[..job.tiles.rows].iter().rev() {
            offset += (batch % size) as isize * stride;
            batch /= size;
        }
        operand.address().wrapping_offset(offset * dtype.size() as isize).cast_const()
    };
    let columns = job.tiles.columns;
    let (rows, columns) = (dims[job.tiles.rows..columns].to_vec(), dims[columns..].to_vec());
    let (lines, terms) = if terms_last { (rows, columns) } else { (columns, rows) };
    Some(Grid { first: batches.map(first).collect(), lines, terms })
}
