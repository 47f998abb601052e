//! Scans: running reductions along an axis, from either end.

use crate::record::{record1, wrong_dtype};
use crate::{Axis, DType, Tensor};
use thalweg_ir::{Monoid, Op, REVERSE, ScanOp};

impl Tensor {
    /// Records a scan or sort whose dtype was checked.
    #[track_caller]
    pub(crate) fn scanned(&self, op: ScanOp, axis: usize, reverse: bool) -> Tensor {
        let dtype = if op == ScanOp::Argsort { DType::I64 } else { self.dtype() };
        record1(Op::Scan(op), dtype, *self.shape(), axis as u32 | if reverse { REVERSE } else { 0 }, self, &[])
    }

    #[track_caller]
    fn running(&self, op: ScanOp, axis: Axis, reverse: bool) -> Tensor {
        let (name, dtype) = (op.name(), self.dtype());
        let axis = axis.of(name, self.rank());
        match op {
            ScanOp::LogSumExp if !dtype.is_float() => wrong_dtype(name, "a float dtype", dtype),
            ScanOp::Max | ScanOp::Min if dtype == DType::Bool => wrong_dtype(name, "a float or integer dtype", dtype),
            // As for sums and products over an axis: a count may not fit a narrow dtype.
            ScanOp::Sum | ScanOp::Prod if !dtype.is_float() => {
                self.cast(Monoid::widest(dtype)).scanned(op, axis, reverse)
            }
            _ => self.scanned(op, axis, reverse),
        }
    }
}

/// # Scans with indices
///
/// Running extremes with their indices.
impl Tensor {
    /// The running maximum along an axis and its index (the last one among equals), as `torch.cummax`. From the first
    /// NaN on, the maximum is NaN and its index that of the last NaN so far.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (values, at) = Tensor::new([1i32, 3, 2]).cummax_with_indices(0);
    /// assert_eq!((values.to_vec::<i32>()?, at.to_vec::<i64>()?), (vec![1, 3, 3], vec![0, 1, 1]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On bool, or when there is no such axis.
    #[track_caller]
    pub fn cummax_with_indices(&self, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let axis = axis.into();
        let largest = self.running(ScanOp::Max, axis, false);
        let places = self.last_places(axis.of("cummax", self.rank()), &largest);
        (largest, places)
    }

    /// The running minimum along an axis and its index, as [`cummax_with_indices`](Tensor::cummax_with_indices).
    ///
    /// # Panics
    /// On bool, or when there is no such axis.
    #[track_caller]
    pub fn cummin_with_indices(&self, axis: impl Into<Axis>) -> (Tensor, Tensor) {
        let axis = axis.into();
        let smallest = self.running(ScanOp::Min, axis, false);
        let places = self.last_places(axis.of("cummin", self.rank()), &smallest);
        (smallest, places)
    }

    /// The last index so far at which an element equals the running extreme.
    #[track_caller]
    fn last_places(&self, axis: usize, extreme: &Tensor) -> Tensor {
        let mut is = self.eq(extreme);
        if self.dtype().is_float() {
            is |= self.is_nan();
        }
        is.where_(self.positions(axis, DType::I64), 0).scanned(ScanOp::Max, axis, false)
    }
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident $reverse:ident => $op:ident, $panics:literal;)*) => {
        /// # Scans
        ///
        /// Running reductions: each result is over its element and all before it.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $name(&self, axis: impl Into<Axis>) -> Tensor {
                self.running(ScanOp::$op, axis.into(), false)
            }
            #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") from the last element to the first: each result is over its element and all behind it.")]
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $reverse(&self, axis: impl Into<Axis>) -> Tensor {
                self.running(ScanOp::$op, axis.into(), true)
            }
        )*}
    };
}

scans! {
    /// The running sum along an axis: each result is the sum of its element and all before it. Floats are accumulated
    /// in f64 and each result is rounded once; integers and bool give i64, u64 gives u64.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0, 4.0]);
    /// assert_eq!(x.cumsum(0).to_vec::<f32>()?, [1.0, 3.0, 7.0]);
    /// assert_eq!(x.cumsum_reverse(0).to_vec::<f32>()?, [7.0, 6.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    cumsum cumsum_reverse => Sum, "When there is no such axis.";
    /// The running product along an axis, as [`cumsum`](Tensor::cumsum).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 2.0, 3.0]).cumprod(0).to_vec::<f32>()?, [1.0, 2.0, 6.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    cumprod cumprod_reverse => Prod, "When there is no such axis.";
    /// The running maximum along an axis; NaN from the first NaN on. Only the values;
    /// [`cummax_with_indices`](Tensor::cummax_with_indices) returns their indices, too.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 3, 2]).cummax(0).to_vec::<i32>()?, [1, 3, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    cummax cummax_reverse => Max, "On bool, or when there is no such axis.";
    /// The running minimum along an axis; NaN from the first NaN on. Only the values;
    /// [`cummin_with_indices`](Tensor::cummin_with_indices) returns their indices, too.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([2i32, 3, 1]).cummin(0).to_vec::<i32>()?, [2, 2, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    cummin cummin_reverse => Min, "On bool, or when there is no such axis.";
    /// The running `ln Σeˣ` along an axis, without overflow.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::zeros([2]).logcumsumexp(0).allclose(Tensor::new([0.0f32, 0.6931472]), 1e-6, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    logcumsumexp logcumsumexp_reverse => LogSumExp, "On a dtype that is not a float, or when there is no such axis.";
}
