//! Set operations on the elements of tensors. All but the membership test wait for the size of their result.

use crate::record::{check_alike, wrong_dtype};
use crate::{DType, Error, Tensor};

/// # Sets
///
/// The elements of a tensor as a set; results are sorted vectors.
impl Tensor {
    /// Whether each element is in `test`, as bool, as `numpy.isin` and `torch.isin`. NaN is never a member. Waits for
    /// nothing.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1i32, 5, 2, 5]);
    /// assert_eq!(x.isin(&Tensor::new([5i32, 7])).to_vec::<bool>()?, [false, true, false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When dtypes differ, or on bool.
    #[track_caller]
    pub fn isin(&self, test: &Tensor) -> Tensor {
        check_alike("isin", self, test);
        if self.dtype() == DType::Bool {
            wrong_dtype("isin", "a float or integer dtype", DType::Bool);
        }
        if test.numel() == 0 || self.numel() == 0 {
            return Tensor::zeros_with(*self.shape(), (DType::Bool, self.device()));
        }
        let sorted = test.flatten().sort(0, false);
        let x = self.flatten();
        let place = sorted.searchsorted(&x, false).minimum(sorted.numel() as i64 - 1);
        sorted.gathered("isin", 0, &place).eq(&x).reshaped(*self.shape())
    }

    /// The distinct elements of two tensors in ascending order, as `numpy.union1d`; all NaN are one. Waits for their
    /// number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::new([3i32, 1]), Tensor::new([3i32, 2]));
    /// assert_eq!(a.union(&b)?.to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    ///
    /// # Panics
    /// When dtypes differ.
    #[track_caller]
    pub fn union(&self, other: &Tensor) -> Result<Tensor, Error> {
        check_alike("union", self, other);
        Tensor::cat(&[self.flatten(), other.flatten()], 0).unique()
    }

    /// The distinct elements of both tensors, in ascending order, as `numpy.intersect1d`. Waits for their number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::new([3i32, 1]), Tensor::new([3i32, 2]));
    /// assert_eq!(a.intersect(&b)?.to_vec::<i32>()?, [3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    ///
    /// # Panics
    /// When dtypes differ, or on bool.
    #[track_caller]
    pub fn intersect(&self, other: &Tensor) -> Result<Tensor, Error> {
        self.distinct_where("intersect", other, |among| among)
    }

    /// The distinct elements of this tensor that are not in the other, in ascending order, as `numpy.setdiff1d`. Waits
    /// for their number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::new([3i32, 1]), Tensor::new([3i32, 2]));
    /// assert_eq!(a.setdiff(&b)?.to_vec::<i32>()?, [1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    ///
    /// # Panics
    /// When dtypes differ, or on bool.
    #[track_caller]
    pub fn setdiff(&self, other: &Tensor) -> Result<Tensor, Error> {
        self.distinct_where("setdiff", other, |among| !among)
    }

    /// The distinct elements that are in exactly one of two tensors, in ascending order, as `numpy.setxor1d`. Waits for
    /// their number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::new([3i32, 1]), Tensor::new([3i32, 2]));
    /// assert_eq!(a.setxor(&b)?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    ///
    /// # Panics
    /// When dtypes differ, or on bool.
    #[track_caller]
    pub fn setxor(&self, other: &Tensor) -> Result<Tensor, Error> {
        let (own, others) = (self.setdiff(other)?, other.setdiff(self)?);
        Ok(Tensor::cat(&[own, others], 0).sort(0, false))
    }

    #[track_caller]
    fn distinct_where(&self, name: &str, other: &Tensor, f: fn(Tensor) -> Tensor) -> Result<Tensor, Error> {
        check_alike(name, self, other);
        if self.dtype() == DType::Bool {
            wrong_dtype(name, "a float or integer dtype", DType::Bool);
        }
        let own = self.unique()?;
        own.masked_select(&f(own.isin(other)))
    }
}
