//! Padding: a border of a constant, or of the tensor's own elements.

use crate::join::join;
use crate::operand::Arg;
use crate::record::{push, scalar_bits};
use crate::{MAX_RANK, Scalar, Tensor};
use half::{bf16, f16};
use thalweg_ir::Op;

/// Border that [`Tensor::pad`] adds. A number converts to a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Border {
    /// One value.
    Constant(Scalar),
    /// The nearest element of the tensor (NumPy "edge", PyTorch "replicate").
    Edge,
    /// The tensor mirrored at its first and last element, which are not repeated. At most the size minus 1.
    Reflect,
    /// The tensor continued from its other end (NumPy "wrap", PyTorch "circular"). At most the size.
    Wrap,
}

macro_rules! constants {
    ($($t:ty),*) => {$(
        impl From<$t> for Border {
            fn from(value: $t) -> Border { Border::Constant(value.into()) }
        }
    )*};
}
constants!(f32, f64, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64, usize, bool, Scalar);

/// # Padding
impl Tensor {
    /// This tensor with a border, as `numpy.pad`: `widths[i]` elements before and after along dimension `i`.
    ///
    /// ```
    /// # use thalweg::{Border, Tensor};
    /// let x = Tensor::arange(4);
    /// assert_eq!(x.pad([(2, 1)], Border::Reflect).to_vec::<f32>()?, [2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0]);
    /// assert_eq!(x.pad([(0, 2)], -1).to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0, -1.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the number of pairs is not the rank, the constant does not fit the dtype, or a dimension is too small for
    /// the border.
    #[track_caller]
    pub fn pad(&self, widths: impl AsRef<[(usize, usize)]>, border: impl Into<Border>) -> Tensor {
        let widths = widths.as_ref();
        let border = border.into();
        if widths.len() != self.rank() {
            panic!("pad: {} pairs of widths for shape {}", widths.len(), self.shape());
        }
        if let Border::Constant(value) = border {
            return self.pad_constant(widths, value);
        }
        let mut x = self.clone();
        for (axis, &(before, after)) in widths.iter().enumerate() {
            x = x.pad_axis(axis, before, after, border);
        }
        x
    }

    #[track_caller]
    fn pad_constant(&self, widths: &[(usize, usize)], value: Scalar) -> Tensor {
        let bits = scalar_bits("pad", value, self.dtype());
        if widths.iter().all(|&w| w == (0, 0)) {
            return self.clone();
        }
        let mut shape = *self.shape();
        let mut ints = [0; 2 * MAX_RANK];
        for (axis, &(before, after)) in widths.iter().enumerate() {
            let Some(size) = self.dims()[axis].checked_add(before).and_then(|s| s.checked_add(after)) else {
                panic!("pad: widths {widths:?} are beyond any memory")
            };
            shape.dims_mut()[axis] = size;
            (ints[2 * axis], ints[2 * axis + 1]) = (before as i64, after as i64);
        }
        push(Op::Pad, self.dtype(), shape, 0, [Arg::Tensor(self), Arg::Scalar(bits)], &ints[..2 * widths.len()])
    }

    #[track_caller]
    fn pad_axis(&self, axis: usize, before: usize, after: usize, border: Border) -> Tensor {
        let size = self.dims()[axis];
        let limit = match border {
            Border::Reflect => size.saturating_sub(1),
            Border::Wrap => size,
            _ if size > 0 => usize::MAX,
            _ => 0,
        };
        if before.max(after) > limit {
            panic!(
                "pad: axis {axis} of {} is too small for a border of {} by {border:?}",
                self.shape(),
                before.max(after)
            );
        }
        let last = size as i64 - 1;
        let part = |width: usize, at_start: bool| match border {
            Border::Reflect if at_start => self.part(axis, (width as i64, -1, width)),
            Border::Reflect => self.part(axis, (last - 1, -1, width)),
            Border::Wrap if at_start => self.part(axis, ((size - width) as i64, 1, width)),
            Border::Wrap => self.part(axis, (0, 1, width)),
            _ => {
                let edge = self.part(axis, (if at_start { 0 } else { last }, 1, 1));
                let mut shape = *self.shape();
                shape.dims_mut()[axis] = width;
                edge.broadcast_to(shape)
            }
        };
        let mut x = self.clone();
        if before > 0 {
            x = join(&part(before, true), &x, axis);
        }
        if after > 0 {
            x = join(&x, &part(after, false), axis);
        }
        x
    }
}
