//! Rules of views: gradients go back to where elements came from. All of it is index arithmetic, and sums where an
//! element was used several times.

use super::{ArgumentGradients, Step, zeros};
use crate::tape::{self, Rule, Tracking};
use crate::tunable::TUNABLES;
use crate::{Shape, Tensor};
use smallvec::smallvec;
use thalweg_ir::unpack_order;

pub(super) fn unpermuted(dy: &Tensor, attr: u32) -> Tensor {
    let order = unpack_order(attr, dy.rank());
    let mut inverse = vec![0usize; order.len()];
    order.iter().enumerate().for_each(|(i, &o)| inverse[o] = i);
    dy.permute(inverse)
}

/// Gradient of a slice: writes the gradients of its elements among zeros.
pub(super) fn unsliced(dy: &Tensor, shape: &Shape, ints: &[i64]) -> Tensor {
    if dy.numel() == 0 {
        return zeros(*shape, dy);
    }
    let parts: Vec<(i64, i64, usize)> = ints.chunks(3).map(|p| (p[0], p[1], p[2] as usize)).collect();
    let backward: Vec<usize> = (0..parts.len()).filter(|&i| parts[i].1 < 0).collect();
    let mut g = dy.flip(backward);
    let mut widths = Vec::with_capacity(parts.len());
    for (axis, &(start, step, count)) in parts.iter().enumerate() {
        let last = start + (count as i64 - 1) * step;
        let (first, end) = (start.min(last) as usize, start.max(last) as usize + 1);
        g = g.dilated(axis, step.unsigned_abs() as usize);
        widths.push((first, shape[axis] - end));
    }
    g.pad(widths, 0)
}

pub(super) fn unpadded(dy: &Tensor, shape: &Shape, ints: &[i64]) -> Tensor {
    let parts: Vec<(i64, i64, usize)> = ints.chunks(2).zip(shape.iter()).map(|(w, &size)| (w[0], 1, size)).collect();
    dy.sliced(&parts)
}

pub(super) fn parted(step: &Step<'_>, dy: &Tensor) -> ArgumentGradients {
    let axis = step.axis();
    let sizes = [step.args[0].shape()[axis], step.args[1].shape()[axis]];
    let part = |i: usize| step.wants(i).then(|| dy.part(axis, ([0, sizes[0]][i] as i64, 1, sizes[i])));
    smallvec![part(0), part(1)]
}

/// Rule of `put`: the gradient of the tensor has zeros in the box, that of the box is its part of `dy`.
pub(super) fn put(step: &Step<'_>, dy: &Tensor) -> ArgumentGradients {
    let part = *step.args[1].shape();
    let around = || crate::assign::put(dy, &zeros(part, dy), step.ints);
    smallvec![step.wants(0).then(around), step.wants(1).then(|| unpadded(dy, &part, step.ints))]
}

/// The sum for each element over the windows that contain it. Its own gradient is the windows of the incoming one; the
/// rules of its operations would go through a tensor with the fourth power of a window's elements.
pub(super) fn unwindowed(dy: &Tensor, shape: &Shape, axis: usize, ints: &[i64]) -> Tensor {
    let (size, step) = (ints[0] as usize, ints[1] as usize);
    let sums = {
        let _untracked = Tracking::set(false);
        over_windows(dy, shape, axis, (size, step))
    };
    let rule: Box<Rule> = Box::new(move |_, _, back| vec![Some(back.window(axis, size, step))]);
    tape::own(&sums.value, "window", (std::slice::from_ref(dy), false), vec![], rule)
}

fn over_windows(dy: &Tensor, shape: &Shape, axis: usize, (size, step): (usize, usize)) -> Tensor {
    let length = shape[axis];
    if dy.numel() == 0 {
        return zeros(*shape, dy);
    }
    let (last, windows) = (dy.rank() - 1, dy.dims()[axis]);
    let chunks = size.div_ceil(step);
    if TUNABLES.max_shifted_terms.admits(chunks) {
        // Chunk p of a window is elements p·step to (p+1)·step. The chunks with one number are contiguous.
        let mut total: Option<Tensor> = None;
        for p in 0..chunks {
            let inside = step.min(size - p * step);
            let mut widths = vec![(0, 0); dy.rank()];
            widths[last].1 = step - inside;
            let chunk = dy.part(last, ((p * step) as i64, 1, inside)).pad(&widths, 0).movedim(last, axis + 1);
            let mut whole = *shape;
            whole.dims_mut()[axis] = windows * step;
            let mut chunk = chunk.reshaped(whole);
            let (first, behind) = (p * step, (p + windows) * step);
            if behind > length {
                chunk = chunk.part(axis, (0, 1, length - first));
            }
            let mut widths = vec![(0, 0); shape.rank()];
            widths[axis] = (first, length.saturating_sub(behind));
            let chunk = chunk.pad(&widths, 0);
            total = Some(total.map_or_else(|| chunk.clone(), |sum| sum + &chunk));
        }
        return total.expect("there is a chunk");
    }
    // With windows at every index, and zeros for those that do not exist, element p is the sum of [p - k, k] over k.
    // With k counted backward that is [p + j, j], a diagonal: in a row-major matrix of `size` columns every (size +
    // 1)-th element from p·size on.
    let all = dy.dilated(axis, step).flip(last as i64);
    let mut widths = vec![(0, 0); dy.rank()];
    widths[axis] = (size - 1, length - all.dims()[axis]);
    let matrix = all.pad(&widths, 0).movedim(axis, last - 1);
    let lead: Vec<usize> = matrix.dims()[..last - 1].to_vec();
    let rows: usize = lead.iter().product();
    let flat = matrix.reshape([rows, (length + size - 1) * size]);
    let diagonals = flat.window(1, (size - 1) * (size + 1) + 1, size).part(2, (0, size as i64 + 1, size));
    let sums = diagonals.sum(2).reshape([lead.as_slice(), &[length]].concat());
    sums.movedim(-1, axis)
}
