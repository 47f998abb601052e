//! Conversion from and to `ndarray` arrays.

use crate::{Element, Error, Shape, Tensor};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

impl<S: Data<Elem: Element>, D: Dimension> From<&ArrayBase<S, D>> for Tensor {
    /// The elements of an array, whatever its layout.
    ///
    /// # Panics
    /// When its rank is over eight, or the device has no memory for it.
    #[track_caller]
    fn from(array: &ArrayBase<S, D>) -> Tensor {
        let shape = Shape::new(array.shape());
        match array.as_slice() {
            Some(elements) => Tensor::from_slice(elements, shape),
            None => Tensor::from_slice(&array.iter().copied().collect::<Vec<_>>(), shape),
        }
    }
}

impl<S: Data<Elem: Element>, D: Dimension> From<ArrayBase<S, D>> for Tensor {
    /// As the conversion from a reference.
    #[track_caller]
    fn from(array: ArrayBase<S, D>) -> Tensor {
        Tensor::from(&array)
    }
}

impl<T: Element> TryFrom<&Tensor> for ArrayD<T> {
    type Error = Error;

    /// Reads the tensor into an array of dynamic rank (`into_dimensionality` fixes the rank).
    ///
    /// # Errors
    /// When `T` is not the tensor's dtype, or the value cannot be computed.
    fn try_from(x: &Tensor) -> Result<ArrayD<T>, Error> {
        let elements = x.to_vec::<T>()?;
        ArrayD::from_shape_vec(IxDyn(x.dims()), elements).map_err(|e| Error::Value(e.to_string()))
    }
}

impl<T: Element> TryFrom<Tensor> for ArrayD<T> {
    type Error = Error;

    fn try_from(x: Tensor) -> Result<ArrayD<T>, Error> {
        ArrayD::try_from(&x)
    }
}
