//! Values back to the program. Here the stream is cut and what is needed runs; here the outside world's failures come up.

use crate::{DType, Element, Error, Tensor};
use half::{bf16, f16};

impl Tensor {
    /// The elements, row-major.
    ///
    /// # Errors
    /// When `T` is not the tensor's dtype, or the value cannot be computed (no memory, a failed device).
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.check_element::<T>("to_vec")?;
        Ok(T::from_bytes(&self.0.read()?))
    }

    /// The only element.
    ///
    /// # Errors
    /// When there is not exactly one, `T` is not the tensor's dtype, or the value cannot be computed.
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        self.check_element::<T>("item")?;
        if self.numel() != 1 {
            return Err(Error::Value(format!("item: shape {} has {} elements, not one", self.shape(), self.numel())));
        }
        Ok(T::from_bytes(&self.0.read()?)[0])
    }

    fn check_element<T: Element>(&self, name: &str) -> Result<(), Error> {
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        let (own, asked) = (self.dtype(), T::DTYPE);
        Err(Error::Value(format!("{name}: the tensor is {own}, not {asked}; .cast(DType::{asked:?}) converts")))
    }

    /// The elements of any dtype as f64, row-major; i64 beyond 2⁵³ is rounded.
    ///
    /// # Errors
    /// When the value cannot be computed.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>, Error> {
        let bytes = self.0.read()?;
        macro_rules! convert {
            ($t:ty, $f:expr) => {
                <$t>::from_bytes(&bytes).into_iter().map($f).collect()
            };
        }
        Ok(match self.dtype() {
            DType::F32 => convert!(f32, f64::from),
            DType::F64 => convert!(f64, |v| v),
            DType::BF16 => convert!(bf16, bf16::to_f64),
            DType::F16 => convert!(f16, f16::to_f64),
            DType::I8 => convert!(i8, f64::from),
            DType::I16 => convert!(i16, f64::from),
            DType::I32 => convert!(i32, f64::from),
            DType::I64 => convert!(i64, |v| v as f64),
            DType::U8 => convert!(u8, f64::from),
            DType::U32 => convert!(u32, f64::from),
            DType::Bool => convert!(bool, |v| v as u8 as f64),
        })
    }
}
