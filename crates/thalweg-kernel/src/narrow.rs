//! Narrow domains: rows of a few points (three channels, a few columns) that are contiguous in the output, with some
//! operand that is not contiguous from row to row.
//!
//! In: a map body, the sizes of its domain and the strides of its accesses. Out: the pattern of each access along the
//! *line* of all rows one after the other, if the launch can iterate over that line instead of over rows. An access
//! that is not contiguous along it is staged in that order first: a row that repeats once for many rows, other accesses
//! one chunk at a time.
//!
//! **Example.** `images / std` of shapes `[8192, 3]` and `[3]`: the images and the result are contiguous, the divisor
//! repeats every three points. The line has 24,576 points, beside a table of some copies of the divisor.

use crate::{AccessClass, Body, Node};
use thalweg_ir::MAX_RANK;

/// Pattern of an access along the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinePattern {
    /// Contiguous or with one stride along the whole line.
    Runs,
    /// Periodic: every row reads the same elements.
    Repeats,
    /// Any other pattern: rows read different elements, and the line has no constant stride.
    Differs,
}

/// Maximum row widths: first if every operand is contiguous or repeats, second if some operand does neither. Staging an
/// element costs about as much as a row's overhead, which is shared by the row's points.
const MAX_WIDTHS: (usize, usize) = (128, 8);
/// Minimum number of rows for which iterating over the line pays.
const MIN_ROWS: usize = 8;
/// Approximate number of points that one call processes.
const CALL: usize = 1536;

/// Pattern of each access along the line of all rows, if the launch may iterate over it; `None` if rows are wide or
/// few, if a result is not contiguous, or if nothing would be gained.
pub fn narrow<'a>(
    body: &Body,
    extents: &[usize],
    strides: impl Fn(usize) -> &'a [isize; MAX_RANK],
) -> Option<Vec<LinePattern>> {
    let last = extents.len().checked_sub(1).filter(|&l| l > 0)?;
    let (rows, width) = (extents[last - 1], extents[last]);
    if rows < MIN_ROWS || width < 2 || width > MAX_WIDTHS.0 {
        return None;
    }
    let gathered =
        |a: usize| body.nodes.iter().any(|n| matches!(n, Node::Gather { access, .. } if *access as usize == a));
    let stored = |a: usize| body.stores.iter().any(|s| s.access as usize == a);
    let mut ways = Vec::with_capacity(body.accesses.len());
    for (a, access) in body.accesses.iter().enumerate() {
        let (row, step) = (strides(a)[last - 1], strides(a)[last]);
        let moved = access.operand.is_some() && !gathered(a) && !stored(a);
        ways.push(match row {
            _ if access.class == AccessClass::Mapped => return None,
            _ if row == step.wrapping_mul(width as isize) => LinePattern::Runs,
            0 if moved => LinePattern::Repeats,
            _ if moved && width <= MAX_WIDTHS.1 => LinePattern::Differs,
            _ => return None,
        });
    }
    ways.iter().any(|w| *w != LinePattern::Runs).then_some(ways)
}

/// Number of points of a call along a line of narrow rows: whole rows, and whole vectors of any dtype (of wide rows: of
/// 4 bytes).
pub fn call(width: usize) -> usize {
    let vectors = if width <= 32 { 64 } else { 16 };
    // Number of rows that together are whole vectors.
    let unit = vectors >> width.trailing_zeros().min(u32::trailing_zeros(vectors as u32));
    (CALL / width).next_multiple_of(unit) * width
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, BodyBuilder};
    use thalweg_ir::{DType, ElementOp};

    /// Body that stores `x op y`.
    fn body(class: AccessClass) -> Body {
        let mut b = BodyBuilder::new(false);
        let x = b.access(Access::contiguous(0, DType::F32));
        let y = b.access(Access { class, ..Access::contiguous(1, DType::F32) });
        let to = b.access(Access::contiguous(2, DType::F32));
        let [x, y] = [x, y].map(|access| b.node(Node::Load { access }));
        let sum = b.element(ElementOp::Add, &[x, y]);
        b.store(sum, to);
        b.finish()
    }

    fn ways(extents: [usize; 2], y: [isize; 2], class: AccessClass) -> Option<Vec<LinePattern>> {
        let width = extents[1] as isize;
        let strides = [[width, 1], y, [width, 1]].map(|[row, step]| {
            let mut s = [0; MAX_RANK];
            (s[0], s[1]) = (row, step);
            s
        });
        narrow(&body(class), &extents, |a| &strides[a])
    }

    #[test]
    fn rows_that_repeat_and_rows_that_differ() {
        use AccessClass::{Contiguous, Reversed, Strided, Uniform};
        use LinePattern::{Differs, Repeats, Runs};
        let found = |y| Some(vec![Runs, y, Runs]);
        assert_eq!(ways([100, 3], [0, 1], Contiguous), found(Repeats), "a vector of channels");
        assert_eq!(ways([100, 3], [1, 0], Uniform), found(Differs), "one for all channels");
        assert_eq!(ways([100, 3], [3, -1], Reversed), found(Differs), "channels in the other order");
        assert_eq!(ways([100, 4], [1, 100], Strided), found(Differs), "planes");
        assert_eq!(ways([100, 3], [0, 0], Uniform), None, "a scalar runs on");
        assert_eq!(ways([100, 128], [0, 1], Contiguous), found(Repeats));
        assert_eq!(ways([100, 129], [0, 1], Contiguous), None, "wide rows");
        assert_eq!(ways([100, 9], [1, 0], Uniform), None, "wide rows of what lies apart");
        assert_eq!(ways([7, 3], [0, 1], Contiguous), None, "few rows");
    }

    #[test]
    fn calls_are_whole_rows_and_whole_vectors() {
        for width in 2..=128 {
            let n = call(width);
            let vector = if width <= 32 { 64 } else { 16 };
            assert!(n.is_multiple_of(width) && n.is_multiple_of(vector), "{width}: {n}");
            assert!((1024..4096).contains(&n), "{width}: {n}");
        }
        assert_eq!(call(3), 1536);
    }
}
