//! Size classes of segments: arguments for which one plan is equally good.
//!
//! In: a segment. Out: its [`SegmentClass`]: its size, and the memory layouts that it reads. The legality of a plan
//! does not depend on the class, but the fastest legal plan does. A value is worth storing if reading its source again
//! is expensive (strided columns), and not if that is in cache.
//!
//! Always true: the class follows from the segment alone, so equal segments have equal classes in all processes. There
//! are few classes: similar sizes share one, and so do all strides of a kind.

use crate::cost::footprint;
use crate::rewrite::Rewrite;
use crate::segment::{Indexed, Segment, ValueId};
use crate::write::movement::{layout, strided, view_base};
use thalweg_ir::View;

/// Order of a view's elements in memory, ignoring broadcast dimensions and those of size 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Order {
    /// Row-major, without gaps.
    Contiguous,
    /// Contiguous along the innermost dimension; rows have gaps between them or are permuted.
    Gaps,
    /// Contiguous along another dimension.
    Transposed,
    /// Contiguous along no dimension.
    Strided,
    /// Not expressible by strides.
    Mapped,
}

/// Memory layout of an input, or of a slice of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Layout {
    order: Order,
    /// Whether several points read the same element: a dimension of more than one element has stride 0.
    broadcast: bool,
}

/// Key that plans are cached by, together with the pattern.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SegmentClass {
    /// Layout of each input; then of each operation whose integer arguments determine the layout of its result.
    layouts: Box<[Layout]>,
    /// Reductions that are unrolled; the choice depends on sizes.
    unrolled: Box<[u32]>,
    /// Number of thresholds in [`SIZES`] that the footprint reaches.
    size: u8,
    /// Rewrite of the segment; the choice depends on sizes.
    rewrite: Rewrite,
}

/// Footprints in bytes at which a size class ends. They grow by a factor of eight, so each cache level of common
/// processors has one. Below, launches dominate, above, memory does; there sizes make no difference.
const SIZES: [u64; 4] = [64 << 10, 512 << 10, 4 << 20, 32 << 20];

impl SegmentClass {
    /// Class of a segment. Without fusion there is only one plan, so only one class.
    pub fn of(segment: &Segment<'_>) -> SegmentClass {
        if !segment.mode.fused {
            return SegmentClass::default();
        }
        let inputs = segment.inputs.iter().map(|(_, view)| Layout::of(Some(*view)));
        // The layout of other movements follows from the pattern and the layout of their argument.
        let decides = |i: &usize| segment.ops[*i].op.info().layout_by_ints;
        let mut decided = (0..segment.ops.len()).filter(decides).peekable();
        let (layouts, unrolled) = match decided.peek() {
            None => (inputs.collect(), Box::default()),
            Some(_) => {
                let ix = Indexed::new(*segment);
                let unrolled = (0..segment.ops.len()).filter(|&i| ix.is_unrolled(i)).map(|i| i as u32).collect();
                (inputs.chain(decided.map(|i| Layout::of(place(&ix, i)))).collect(), unrolled)
            }
        };
        let bytes = footprint(segment);
        let size = SIZES.iter().filter(|&&end| bytes >= end).count() as u8;
        SegmentClass { layouts, unrolled, size, rewrite: Rewrite::of(segment) }
    }
}

/// Layout of a movement's result within the value that it is a view of; `None` if strides do not express it.
fn place(ix: &Indexed<'_>, i: usize) -> Option<View> {
    let (base, chain) = view_base(ix, ValueId::Op(i), &|_| false);
    strided(ix, layout(ix, base), &chain)
}

impl Layout {
    fn of(view: Option<View>) -> Layout {
        let Some(view) = view else { return Layout { order: Order::Mapped, broadcast: false } };
        let all = view.shape.iter().copied().zip(view.strides().iter().copied()).filter(|&(extent, _)| extent > 1);
        let broadcast = all.clone().any(|(_, stride)| stride == 0);
        let dims: Vec<(usize, isize)> = all.filter(|&(_, stride)| stride != 0).collect();
        let mut step = 1;
        let dense = dims.iter().rev().all(|&(extent, stride)| {
            let is_next = stride == step;
            step = step.saturating_mul(extent as isize);
            is_next
        });
        let order = match dims.last() {
            _ if dense || view.shape.numel() == 0 => Order::Contiguous,
            Some((_, 1)) => Order::Gaps,
            _ if dims.iter().any(|&(_, stride)| stride == 1) => Order::Transposed,
            _ => Order::Strided,
        };
        Layout { order, broadcast }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{BitSet, Mode};
    use thalweg_ir::{DType, ElementOp, InputKind, Op, RelArg, RelOp, Shape};

    fn order(dims: &[usize], strides: &[isize]) -> (Order, bool) {
        let Layout { order, broadcast } = Layout::of(Some(View::new(Shape::new(dims), strides, 3)));
        (order, broadcast)
    }

    #[test]
    fn a_layout_is_identified_by_its_strides_whatever_its_sizes() {
        for n in [2, 7, 64] {
            let own = n as isize;
            assert_eq!(order(&[5, n], &[own, 1]), (Order::Contiguous, false));
            assert_eq!(order(&[5, n], &[own + 4, 1]), (Order::Gaps, false));
            assert_eq!(order(&[n, 5], &[1, own]), (Order::Transposed, false));
            assert_eq!(order(&[5, n], &[16 * own, 16]), (Order::Strided, false));
            assert_eq!(order(&[5, n], &[0, 1]), (Order::Contiguous, true));
            assert_eq!(order(&[5, n], &[-own, -1]), (Order::Strided, false));
            // A dimension of size 1 does not affect the order.
            assert_eq!(order(&[1, n], &[77, 1]), (Order::Contiguous, false));
        }
        assert_eq!(order(&[0, 4], &[9, 2]), (Order::Contiguous, false));
        assert_eq!(Layout::of(None).order, Order::Mapped);
    }

    /// Class of a segment that slices `rows` rows and every `step`th column, and computes exponentials of the slice.
    fn class(rows: usize, columns: usize, step: usize, fused: bool) -> SegmentClass {
        let wide = View::contiguous(Shape::new(&[rows, columns * step]));
        let input = RelArg::input(0, InputKind { dtype: DType::F32, rank: 2, contiguous: true });
        let rel = |op, arg| RelOp { op, dtype: DType::F32, rank: 2, attr: 0, args: RelOp::pack(&[arg]) };
        let ops = [rel(Op::Slice, input), rel(Op::Element(ElementOp::Exp), RelArg::op(0))];
        let mut live = BitSet::new(2);
        live.insert(1);
        SegmentClass::of(&Segment {
            ops: &ops,
            live: &live,
            mode: Mode { fused, ..Mode::fused(thalweg_kernel::Contracts::Rows) },
            shapes: &[Shape::new(&[rows, columns]); 2],
            ints: &[0, 1, rows as i64, 0, step as i64, columns as i64],
            scalars: &[],
            inputs: &[(DType::F32, wide)],
        })
    }

    #[test]
    fn a_thousand_batch_sizes_have_a_handful_of_classes() {
        let mut all: Vec<SegmentClass> = (1..=1000).map(|rows| class(rows, 512, 1, true)).collect();
        all.dedup();
        assert_eq!(all.len(), 3, "up to 4 MB, a class for each factor of eight from 64 KiB on");
    }

    #[test]
    fn what_a_slice_leaves_between_elements_is_part_of_the_class() {
        // Nearly equal numbers of bytes.
        assert_ne!(class(64, 512, 1, true), class(8, 512, 16, true));
        assert_eq!(class(64, 512, 16, true).layouts, class(60, 480, 5, true).layouts);
        assert_eq!(class(64, 512, 1, false), class(8, 512, 16, false), "without fusion there is one plan");
    }
}
