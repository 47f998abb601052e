//! Bit casts: the bits of elements as another dtype, NumPy's and PyTorch's `view(dtype)`.
//!
//! In: a tensor and a dtype. Out: the same bits. Between dtypes of one width it is one operation ([`Op::Bitcast`]),
//! which moves nothing by itself and fuses like an elementwise one. Between two widths it is written in integers: the
//! narrow components of a wide element, the lowest first (little-endian, as every supported machine), are shifted out
//! or combined along the last axis.

use crate::record::record1;
use crate::{By, DType, SliceArg, Tensor};
use thalweg_ir::Op;

/// The unsigned integer dtype of that many bytes.
fn bits(bytes: usize) -> DType {
    match bytes {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// # Views of bits
impl Tensor {
    /// The bits of the elements as another dtype, as `numpy.ndarray.view(dtype)` and `torch.Tensor.view(dtype)`.
    ///
    /// With the same width the shape stays. Otherwise the last axis gets longer or shorter by the ratio of the widths;
    /// the lowest bits come first. Values are not converted: `cast` does that. The bits of a computed NaN are
    /// unspecified, and a signalling NaN of bf16 or f16 may become a quiet one; all other bits are kept.
    ///
    /// ```
    /// use thalweg::{DType, Tensor};
    /// let x = Tensor::new([1.0f32, -2.0]);
    /// assert_eq!(x.bitcast(DType::U32).to_vec::<u32>()?, [0x3f80_0000, 0xc000_0000]);
    /// assert_eq!(x.bitcast(DType::U8).to_vec::<u8>()?, [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
    /// assert_eq!(x.bitcast(DType::U16).bitcast(DType::F32).to_vec::<f32>()?, [1.0, -2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// From or to bool; when the last axis does not hold whole elements of the dtype; when the rank is 0 and the width
    /// differs; when the tensor is tracked, because bits have no derivative.
    #[doc(alias = "view")]
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        let from = self.dtype();
        if from == dtype {
            return self.clone();
        }
        if from == DType::Bool || dtype == DType::Bool {
            panic!(
                "bitcast: {from} to {dtype}: a bool is a byte of 0 or 1, and other bits would be no truth value; compare \
                 (.ne(0)) or .cast(..)"
            );
        }
        if crate::tape::is_tracking() && self.is_tracked() {
            panic!("bitcast: {from} to {dtype}: bits have no derivative, and the tensor is tracked; .detach() it");
        }
        let (own, wanted) = (from.size(), dtype.size());
        if own == wanted {
            return record1(Op::Bitcast, dtype, *self.shape(), 0, self, &[]);
        }
        let Some(&last) = self.dims().last() else {
            panic!("bitcast: {from} to {dtype}: another width takes a last axis, which shape {} has not", self.shape());
        };
        let axis = self.rank() - 1;
        let mut shape = self.dims().to_vec();
        if wanted < own {
            let parts = own / wanted;
            shape[axis] = last * parts;
            return self.bitcast(bits(own)).parted(parts, bits(wanted)).reshape(shape).bitcast(dtype);
        }
        let parts = wanted / own;
        if !last.is_multiple_of(parts) {
            panic!(
                "bitcast: {from} to {dtype}: the last axis of shape {} has {last} elements, which are no multiple of the \
                 {parts} that become one",
                self.shape()
            );
        }
        shape[axis] = last / parts;
        self.bitcast(bits(own)).joined(parts, bits(wanted)).reshape(shape).bitcast(dtype)
    }

    /// Splits each integer into `parts` narrower ones along the last axis, the lowest bits first.
    fn parted(&self, parts: usize, to: DType) -> Tensor {
        let width = 8 * to.size();
        let part = |i: usize| if i == 0 { self.cast(to) } else { (self >> (i * width)).cast(to) };
        if parts == 2 {
            return Tensor::stack(&[part(0), part(1)], -1);
        }
        let shifts = Tensor::arange_with(parts, (self.dtype(), self.device())) * width;
        (self.unsqueeze(-1) >> shifts).cast(to)
    }

    /// Every `parts` neighbours along the last axis as one wider integer, the first in the lowest bits.
    fn joined(&self, parts: usize, to: DType) -> Tensor {
        let width = 8 * self.dtype().size();
        let each = |i: usize| {
            let every = self.slice((SliceArg::Rest, (i as i64..).by(parts as i64))).cast(to);
            if i == 0 { every } else { every << (i * width) }
        };
        (1..parts).fold(each(0), |all, i| all | each(i))
    }
}
