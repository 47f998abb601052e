//! Reads of values into host memory. A read cuts the stream, runs what the value needs, and returns failures as errors.

use crate::{DType, Element, Error, Tensor};
use half::{bf16, f16};
use thalweg_stream::Storage;

/// # Reading
///
/// A read computes what is recorded and waits for it.
impl Tensor {
    /// The elements in row-major order, as `numpy.ndarray.ravel` of a copy. Waits until they are computed.
    ///
    /// One element is read by [`item`](Tensor::item), any dtype as f64 by [`to_f64_vec`](Tensor::to_f64_vec);
    /// [`to_vec_async`](Tensor::to_vec_async) does not wait.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When `T` is not the tensor's dtype, or the value cannot be computed (no memory, a failed device).
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.check_element::<T>("to_vec")?;
        let Storage { buffer, view } = self.value.storage()?;
        if view.is_contiguous() && self.value.device().device().host_bytes(&buffer).is_some() {
            return self.with_bytes(T::from_bytes);
        }
        T::filled(self.numel(), |bytes| self.value.read_to(bytes))
    }

    /// The only element, as `torch.Tensor.item`. Waits until it is computed.
    ///
    /// All elements are read by [`to_vec`](Tensor::to_vec).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i64, 2]).sum(..).item::<i64>()?, 3);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is not exactly one, `T` is not the tensor's dtype, or the value cannot be computed.
    #[doc(alias = "to_scalar")]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        self.check_element::<T>("item")?;
        if self.numel() != 1 {
            return Err(Error::Value(format!("item: shape {} has {} elements, not one", self.shape(), self.numel())));
        }
        self.with_bytes(|bytes| T::from_bytes(bytes)[0])
    }

    /// The only element as f64, whatever the dtype, for comparisons and printing. i64 and u64 beyond 2⁵³ are rounded.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let loss = Tensor::new([0.25f32, 0.5]).mean(..);
    /// if loss.item_f64()? < 0.5 {
    ///     println!("good enough");
    /// }
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is not exactly one, or the value cannot be computed.
    pub fn item_f64(&self) -> Result<f64, Error> {
        if self.numel() != 1 {
            let (shape, count) = (self.shape(), self.numel());
            return Err(Error::Value(format!("item_f64: shape {shape} has {count} elements, not one")));
        }
        Ok(self.to_f64_vec()?[0])
    }

    /// Calls `f` with the bytes of the elements in row-major order: the device's own memory if the host sees it and the
    /// value is contiguous, else a copy.
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        let Storage { buffer, view } = self.value.storage()?;
        let count = view.shape.numel() * self.dtype().size();
        if view.is_contiguous()
            && let Some(bytes) = self.value.device().device().host_bytes(&buffer)
        {
            return Ok(f(&bytes[..count]));
        }
        Ok(f(&self.value.read()?))
    }

    fn check_element<T: Element>(&self, name: &str) -> Result<(), Error> {
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        let (own, asked) = (self.dtype(), T::DTYPE);
        Err(Error::Value(format!("{name}: the tensor is {own}, not {asked}; .cast(DType::{asked:?}) converts")))
    }

    /// The elements of any dtype as f64, in row-major order; i64 and u64 beyond 2⁵³ are rounded.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).to_f64_vec()?, [1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the value cannot be computed.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>, Error> {
        fn convert<T: Element>(bytes: &[u8], f: fn(T) -> f64) -> Vec<f64> {
            T::from_bytes(bytes).into_iter().map(f).collect()
        }
        let dtype = self.dtype();
        self.with_bytes(|bytes| match dtype {
            DType::F32 => convert::<f32>(bytes, f64::from),
            DType::F64 => convert::<f64>(bytes, |v| v),
            DType::BF16 => convert(bytes, bf16::to_f64),
            DType::F16 => convert(bytes, f16::to_f64),
            DType::I8 => convert::<i8>(bytes, f64::from),
            DType::I16 => convert::<i16>(bytes, f64::from),
            DType::I32 => convert::<i32>(bytes, f64::from),
            DType::I64 => convert::<i64>(bytes, |v| v as f64),
            DType::U8 => convert::<u8>(bytes, f64::from),
            DType::U16 => convert::<u16>(bytes, f64::from),
            DType::U32 => convert::<u32>(bytes, f64::from),
            DType::U64 => convert::<u64>(bytes, |v| v as f64),
            DType::Bool => convert::<bool>(bytes, |v| v as u8 as f64),
        })
    }
}
