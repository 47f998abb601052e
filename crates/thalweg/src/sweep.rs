//! Sliding windows over the last axes of a tensor, for convolutions and pooling.
//!
//! In: sizes, kernel, stride, dilation and padding. Out: a checked [`Sweep`], and views of a tensor through it: all
//! windows at once, or one position of all windows. No view copies.

use crate::{Border, MAX_RANK, Scalar, Shape, Tensor};

/// Number for each of `N` axes. Converts from one number for all of them, or an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Each<const N: usize>(
    /// Numbers, one per axis.
    pub [usize; N],
);

impl<const N: usize> From<usize> for Each<N> {
    fn from(all: usize) -> Each<N> {
        Each([all; N])
    }
}

impl<const N: usize> From<[usize; N]> for Each<N> {
    fn from(each: [usize; N]) -> Each<N> {
        Each(each)
    }
}

/// Padding of a tensor before windows slide over it. Converts from one number for all sides, one per axis, or a pair
/// (before, after) per axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Padding<const N: usize> {
    /// No padding: windows are inside the tensor.
    Valid,
    /// Padding for `⌈n/stride⌉` windows along an axis of size `n`. If its total is odd, the extra element is at the
    /// end, as in PyTorch and TensorFlow.
    Same,
    /// Numbers of elements before and after, for each axis.
    Explicit([(usize, usize); N]),
}

impl<const N: usize> From<usize> for Padding<N> {
    fn from(all: usize) -> Padding<N> {
        Padding::Explicit([(all, all); N])
    }
}

impl<const N: usize> From<[usize; N]> for Padding<N> {
    fn from(each: [usize; N]) -> Padding<N> {
        Padding::Explicit(each.map(|p| (p, p)))
    }
}

impl<const N: usize> From<[(usize, usize); N]> for Padding<N> {
    fn from(each: [(usize, usize); N]) -> Padding<N> {
        Padding::Explicit(each)
    }
}

/// Windows over the last `N` axes of tensors of one shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep<const N: usize> {
    /// Number of elements of a window along each axis.
    pub(crate) kernel: [usize; N],
    /// Distance between windows along each axis, in elements.
    pub(crate) stride: [usize; N],
    /// Distance between the elements of a window along each axis.
    pub(crate) dilation: [usize; N],
    /// Number of elements of padding before and after each axis.
    pub(crate) pads: [(usize, usize); N],
    /// Number of windows along each axis.
    pub(crate) out: [usize; N],
}

impl<const N: usize> Sweep<N> {
    /// The windows over a tensor.
    ///
    /// # Panics
    /// When a number is 0, or no window fits along an axis.
    #[track_caller]
    pub(crate) fn new(
        name: &str,
        x: &Tensor,
        kernel: [usize; N],
        (stride, dilation): ([usize; N], [usize; N]),
        padding: Padding<N>,
    ) -> Sweep<N> {
        let mut made = Sweep { kernel, stride, dilation, pads: [(0, 0); N], out: [0; N] };
        if kernel.contains(&0) || stride.contains(&0) || dilation.contains(&0) {
            panic!("{name}: kernel {kernel:?}, stride {stride:?} and dilation {dilation:?} must be above 0");
        }
        for i in 0..N {
            let (size, span) = (x.dims()[x.rank() - N + i], made.span(i));
            let (before, after) = match padding {
                Padding::Valid => (0, 0),
                Padding::Explicit(pads) => pads[i],
                Padding::Same => {
                    let windows = size.div_ceil(stride[i]);
                    let all = (windows.saturating_sub(1) * stride[i] + span).saturating_sub(size);
                    (all / 2, all - all / 2)
                }
            };
            let all = size + before + after;
            if all < span {
                panic!(
                    "{name}: a window of {span} elements (kernel {kernel:?}, dilation {dilation:?}) is over the {all} of axis \
                     {} of {} with padding",
                    x.rank() - N + i,
                    x.shape()
                );
            }
            (made.pads[i], made.out[i]) = ((before, after), (all - span) / stride[i] + 1);
        }
        made
    }

    /// Number of elements from the first to the last of a window along an axis, both included.
    pub(crate) fn span(&self, axis: usize) -> usize {
        self.dilation[axis] * (self.kernel[axis] - 1) + 1
    }

    /// The padded tensor.
    #[track_caller]
    pub(crate) fn padded(&self, x: &Tensor, border: Scalar) -> Tensor {
        let mut widths = [(0, 0); MAX_RANK];
        widths[x.rank() - N..x.rank()].copy_from_slice(&self.pads);
        x.pad(&widths[..x.rank()], Border::Constant(border))
    }

    /// All windows of a padded tensor, as a view: `[.., size…]` becomes `[.., kernel…, out…]`.
    #[track_caller]
    pub(crate) fn windows(&self, x: &Tensor) -> Tensor {
        let rank = x.rank();
        let lead = rank - N;
        let mut all = x.clone();
        for i in 0..N {
            all = all.window(lead + i, self.span(i), self.stride[i]);
            if self.dilation[i] > 1 {
                all = all.part(rank + i, (0, self.dilation[i] as i64, self.kernel[i]));
            }
        }
        let order: Vec<usize> = (0..lead).chain(rank..rank + N).chain(lead..rank).collect();
        all.permute(order)
    }

    /// Element `at` of every window of a padded tensor: `[.., out…]`.
    pub(crate) fn element(&self, x: &Tensor, at: [usize; N]) -> Tensor {
        let lead = x.rank() - N;
        let mut parts = crate::slice::whole(x.dims());
        for i in 0..N {
            parts[lead + i] = ((at[i] * self.dilation[i]) as i64, self.stride[i] as i64, self.out[i]);
        }
        x.sliced(&parts[..x.rank()])
    }

    /// All positions in a window, the last axis fastest.
    pub(crate) fn positions(&self) -> impl Iterator<Item = [usize; N]> {
        let kernel = self.kernel;
        (0..kernel.iter().product()).map(move |mut rest: usize| {
            let mut at = [0; N];
            for i in (0..N).rev() {
                at[i] = rest % kernel[i];
                rest /= kernel[i];
            }
            at
        })
    }
}

/// Adds a dimension of samples to a tensor of channels × `N` axes, and returns whether it did; a tensor of samples ×
/// channels × `N` axes stays.
///
/// # Panics
/// On another rank.
#[track_caller]
pub(crate) fn samples<const N: usize>(name: &str, x: &Tensor) -> (Tensor, bool) {
    match x.rank() {
        r if r == N + 2 => (x.clone(), false),
        r if r == N + 1 => (x.unsqueeze(0), true),
        _ => panic!("{name}: takes samples × channels × {N} axes, or channels × {N} axes, not shape {}", x.shape()),
    }
}

/// Removes the dimension that [`samples`] added.
pub(crate) fn unsampled(x: Tensor, added: bool) -> Tensor {
    if added { x.squeeze(0) } else { x }
}

/// A shape concatenated from two lists of sizes.
pub(crate) fn joined(lead: &[usize], rest: &[usize]) -> Shape {
    Shape::new(&[lead, rest].concat())
}
