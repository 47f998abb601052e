//! Recognition of matrix operands whose prologue only copies: if the body only loads an element and stores it, the
//! operand can be packed from memory directly. It then has several dimensions of lines and terms (the windows of a
//! convolution), and a constant border if it was padded.
//!
//! In: the launch of a prologue. Out: the memory layout of the operand's elements, checked against the buffer's bytes.
//! Bytes converted to i32 also count as being in memory, for products of bytes.

use super::compiled_bodies::{Job, Programs};
use crate::gemm::{Grid, Limit};
use thalweg_ir::DType;
use thalweg_kernel::{AccessGeometry, Bordered, Copied, Node, copied, widened_bytes};

/// Maximum stride between adjacent lines or terms, in elements, at which they are packed directly from memory.
const MAX_STRIDE: usize = 4;

/// Returns the memory layout of a matrix operand for these batches. `None` unless its body (whose rows are lines or
/// terms) only copies elements, and adjacent lines or terms are near each other.
pub(super) fn grid(
    job: &Job<'_>,
    terms_last: bool,
    dtype: DType,
    batches: impl Iterator<Item = usize>,
) -> Option<Grid> {
    let (Programs::Maps(_), [body], [part]) = (&job.part.programs, &job.part.bodies[..], &job.tiles.boxes[..]) else {
        return None;
    };
    let whole = part.origin.iter().all(|&o| o == 0) && part.geometry.extents == job.tiles.extents;
    if !whole || part.geometry.points() == 0 {
        return None;
    }
    let Copied { access, from: lying, outside } =
        copied(body, &part.geometry).or_else(|| widened_bytes(body, &part.geometry))?;
    let (from, at) = (&body.accesses[access], &part.geometry.accesses[access]);
    let to = &body.accesses[body.stores[0].access as usize];
    let widened = dtype == DType::I32 && matches!(from.dtype, DType::I8 | DType::U8);
    if from.dtype != dtype && !widened || to.dtype != dtype || widened && outside.is_some() {
        return None;
    }
    let extents = &job.tiles.extents;
    if lying.strides[extents.len() - 1].unsigned_abs() > MAX_STRIDE {
        return None;
    }
    // An out-of-range operand fails where the body is launched.
    let operand = job.operands[from.operand? as usize];
    if !inside(&lying, at, extents, operand.bytes() / from.dtype.size()) {
        return None;
    }
    let outside = outside.map_or(Some(0), |node| match body.nodes[node.index()] {
        Node::Const { bits, .. } => Some(bits),
        Node::Scalar { slot, .. } => job.scalars.get(slot as usize).copied(),
        _ => None,
    })?;
    // The body rounds an element when it stores it, and so the border value.
    let outside = match dtype {
        DType::BF16 => half::bf16::from_f32(f32::from_bits(outside as u32)).to_f32().to_bits() as u64,
        _ => outside,
    };
    let (rows, columns) = (job.tiles.rows, job.tiles.columns);
    let batches: Vec<usize> = batches.collect();
    // Value of a linear coordinate at the first point of each batch.
    let firsts = |start: i64, steps: &[i64]| -> Vec<i64> {
        let of = |mut batch: usize| {
            (0..rows).rev().fold(start, |at, d| {
                let index = batch % extents[d];
                batch /= extents[d];
                at + index as i64 * steps[d]
            })
        };
        batches.iter().map(|&batch| of(batch)).collect()
    };
    let sides = |steps: &[i64]| {
        let (rows, columns) = (steps[rows..columns].to_vec(), steps[columns..extents.len()].to_vec());
        if terms_last { (rows, columns) } else { (columns, rows) }
    };
    let sizes = sides(&extents.iter().map(|&n| n as i64).collect::<Vec<_>>());
    let strides = lying.strides.map(|s| s as i64);
    let steps = sides(&strides);
    let dims =
        |sizes: &[i64], steps: &[i64]| sizes.iter().zip(steps).map(|(&n, &s)| (n as usize, s as isize)).collect();
    let address = |at: i64| operand.address().wrapping_offset(at as isize * from.dtype.size() as isize).cast_const();
    let limits = lying.bounds.iter().map(|b| {
        let (lines, terms) = sides(&b.steps);
        Limit { first: firsts(b.start, &b.steps), lines, terms, valid: b.valid }
    });
    Some(Grid {
        dtype: from.dtype,
        first: firsts(lying.base as i64, &strides).into_iter().map(address).collect(),
        lines: dims(&sizes.0, &steps.0),
        terms: dims(&sizes.1, &steps.1),
        limits: limits.collect(),
        outside,
    })
}

/// Whether all elements are inside an operand of this length.
fn inside(lying: &Bordered, at: &AccessGeometry, extents: &[usize], elements: usize) -> bool {
    // A map reports the range of its valid points; strides without bounds reach their extremes.
    let (least, most) = match &at.map {
        Some(map) => map.reach().map_or((0, -1), |(least, most)| (least as i128, most as i128)),
        None => {
            extents.iter().zip(lying.strides).fold((lying.base as i128, lying.base as i128), |range, (&n, step)| {
                let far = (n as i128 - 1) * step as i128;
                (range.0 + far.min(0), range.1 + far.max(0))
            })
        }
    };
    least >= 0 && most < elements as i128
}
