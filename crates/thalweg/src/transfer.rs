//! Copies of tensors between devices.

use crate::tape::{self, Rule};
use crate::{Device, Error, Tensor};
use thalweg_stream::{Storage, Value};

/// # Devices and transfer
///
/// The device of a tensor is [`device`](Tensor::device); creation takes one in [`Options`](crate::Options), and
/// [`set_default_device`](crate::set_default_device) sets the default.
impl Tensor {
    /// Copies the tensor to another device, as `torch.Tensor.to`; a clone of the handle if it is there already.
    /// Computes the value first. A copy between two GPUs waits for nothing, and bypasses the host where the driver
    /// supports peer access.
    ///
    /// ```
    /// # use thalweg::{Device, Tensor};
    /// let x = Tensor::new([1i32, 2]).to_device(Device::cpu())?;
    /// assert_eq!(x.device(), Device::cpu());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the value cannot be computed, or the device has no memory for it.
    pub fn to_device(&self, device: Device) -> Result<Tensor, Error> {
        if device == self.device() {
            return Ok(self.clone());
        }
        let there = match self.beside_the_host(device)? {
            Some(there) => there,
            None => self.with_bytes(|bytes| Tensor::from_bytes(bytes, *self.shape(), self.dtype(), device))??,
        };
        let home = self.device();
        let rule: Box<Rule> = Box::new(move |_, _, dy| {
            // A failed copy of the gradient is an error where the gradient is read.
            let failed = |error| Tensor::of(Value::failed(home.0, error, *dy.shape(), dy.dtype()));
            vec![Some(dy.to_device(home).unwrap_or_else(failed))]
        });
        Ok(tape::own(&there.value, "to_device", (std::slice::from_ref(self), false), vec![], rule))
    }

    /// Copies directly from device to device; `None` if the devices cannot do that or the value is not contiguous.
    fn beside_the_host(&self, device: Device) -> Result<Option<Tensor>, Error> {
        let Storage { buffer, view } = self.value.storage()?;
        if !view.is_contiguous() {
            return Ok(None);
        }
        let bytes = view.shape.numel() * self.dtype().size();
        let (home, there) = (self.device().0.device(), device.0.device());
        let copied = there.allocate_from(&**home, &buffer, bytes).transpose()?;
        Ok(copied.map(|buffer| Tensor::of(Value::ready(device.0, buffer, *self.shape(), self.dtype()))))
    }
}
