//! Memory shared with other libraries: tensors over memory that another library owns, and the memory of a tensor.
//!
//! In: addresses with shapes and strides. Out: tensors, and the reverse. Always true: nothing is copied; memory of
//! another library is never written.

use crate::{DType, Device, Error, Shape, Tensor};
use std::any::Any;
use std::ptr::NonNull;
use thalweg_ir::View;
use thalweg_runtime::Allocation;
use thalweg_stream::{DeviceRef, Storage, Value};

/// Memory of a computed tensor, from [`Tensor::memory`]: an address on its device, with strides. It stays allocated
/// and unchanged for as long as this object lives, which any thread may drop.
#[derive(Clone, Debug)]
pub struct TensorMemory {
    storage: Storage,
    dtype: DType,
    device: DeviceRef,
}

impl TensorMemory {
    /// Address, on the device, of the element at index 0 of every dimension. The memory must not be written.
    pub fn address(&self) -> *const u8 {
        let bytes = self.storage.view.offset * self.dtype.size() as isize;
        self.storage.buffer.address().cast_const().wrapping_offset(bytes)
    }

    /// Sizes of the dimensions.
    pub fn shape(&self) -> &Shape {
        &self.storage.view.shape
    }

    /// Strides in elements, one per dimension; negative for flipped dimensions, 0 for broadcast ones.
    pub fn strides(&self) -> &[isize] {
        self.storage.view.strides()
    }

    /// Whether the elements are dense and row-major.
    pub fn is_dense(&self) -> bool {
        self.storage.view.is_dense()
    }

    /// Whether another library owns the memory: the tensor is a view of one from [`Tensor::from_memory`].
    pub fn is_external(&self) -> bool {
        !self.storage.buffer.may_be_overwritten()
    }

    /// Dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Device that the memory is on.
    pub fn device(&self) -> Device {
        Device(self.device)
    }

    /// Waits until all work of the device that was enqueued so far has finished, the writes of this memory included.
    ///
    /// # Errors
    /// When the device fails.
    pub fn wait(&self) -> Result<(), Error> {
        self.device.device().synchronize()
    }
}

/// Owner of memory on a device with queues: the memory is freed when the work that was enqueued with it has finished.
struct FreedAfterWork {
    device: DeviceRef,
    owner: Option<Box<dyn Any + Send + Sync>>,
}

impl Drop for FreedAfterWork {
    fn drop(&mut self) {
        // A device that fails does no more work with the memory.
        let _ = self.device.device().synchronize();
        self.owner.take();
    }
}

/// # Order between libraries
impl Device {
    /// Makes everything that the calling thread enqueues on this device from now on wait for the work that another
    /// library has enqueued in a stream of its own. `stream` is the driver's handle of it: a `CUstream` on a GPU by
    /// CUDA, 0 for the default stream. The host does not wait. On the CPU, where work has finished when a call returns,
    /// nothing happens.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Safety
    /// `stream` is 0 or a stream of this device's primary context.
    pub unsafe fn after_stream(self, stream: usize) -> Result<(), Error> {
        self.0.device().after_stream(stream)
    }

    /// Makes everything that another library enqueues in its stream from now on wait for what the calling thread has
    /// enqueued on this device. Values that are recorded but not computed are not waited for:
    /// [`memory`](Tensor::memory) enqueues them.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Safety
    /// As [`after_stream`](Device::after_stream).
    pub unsafe fn before_stream(self, stream: usize) -> Result<(), Error> {
        self.0.device().before_stream(stream)
    }
}

/// # Memory shared with other libraries
///
/// For bindings of other languages and libraries; nothing is copied.
impl Tensor {
    /// The tensor's memory, to be read by another library. Computes the value; on a GPU its writes are enqueued, and
    /// [`TensorMemory::wait`] waits for them. Gradients do not flow through it.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let memory = Tensor::new([[1i32, 2], [3, 4]]).memory()?;
    /// assert_eq!((memory.strides(), memory.is_dense()), (&[2, 1][..], true));
    /// // SAFETY: the memory has four elements of i32 while `memory` lives.
    /// assert_eq!(unsafe { *memory.address().cast::<i32>().add(3) }, 4);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the value cannot be computed.
    pub fn memory(&self) -> Result<TensorMemory, Error> {
        Ok(TensorMemory { storage: self.value.storage()?, dtype: self.dtype(), device: self.value.device() })
    }

    /// Starts to compute the value; on a GPU the host does not wait for it. A function on the host that the value is a
    /// result of has run when this returns.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0]).exp();
    /// x.start()?;                                  // computed while other things are recorded
    /// assert!(x.to_vec::<f32>()?[0] > 2.7);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it is known already that the value cannot be computed.
    pub fn start(&self) -> Result<(), Error> {
        self.value.unchecked().map(|_| ())
    }

    /// The tensor's memory as [`Tensor::memory`] returns it, without waiting on a GPU until indices are known to be in
    /// range. If one is not, the GPU's context ends with an assertion before anything that is enqueued later runs, as
    /// PyTorch's does: all later calls on that GPU fail, here and in other libraries, and no wrong value is read. On
    /// other devices the same as `memory`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let rows = Tensor::new([[1f32, 2.], [3., 4.]]).index_select(0, &Tensor::new([1i64]));
    /// assert_eq!(rows.asserted_memory()?.shape().dims(), [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the value cannot be computed.
    pub fn asserted_memory(&self) -> Result<TensorMemory, Error> {
        Ok(TensorMemory { storage: self.value.asserted()?, dtype: self.dtype(), device: self.value.device() })
    }

    /// A copy that is recorded like any operation and computed later: the product with 1, which is exact. No gradient
    /// flows through it.
    #[doc(hidden)]
    pub fn recorded_copy(&self) -> Tensor {
        let x = self.detach();
        if x.dtype() == DType::Bool { (x.cast(DType::U8) * 1).cast(DType::Bool) } else { x * 1 }
    }

    /// A dense copy of the tensor in memory of its own, which nothing else shares. Computes the value.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]]);
    /// let copy = x.t().deep_copy()?;
    /// assert!(copy.memory()?.is_dense() && copy.memory()?.address() != x.memory()?.address());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the value cannot be computed, or the device has no memory for it.
    pub fn deep_copy(&self) -> Result<Tensor, Error> {
        // A kernel copies, unless the planner makes the copy a view.
        let copy = self.recorded_copy();
        let (from, to) = (self.value.unchecked()?, copy.value.unchecked()?);
        if to.view.is_dense() && from.buffer.address() != to.buffer.address() {
            return Ok(copy);
        }
        self.with_bytes(|bytes| Tensor::from_bytes(bytes, *self.shape(), self.dtype(), self.device()))?
    }

    /// A tensor over memory of another library, which is not copied and never written. `address` is that of the element
    /// at index 0 of every dimension; `strides` are in elements. `owner` is dropped when the tensor and everything
    /// that reads its memory are gone, on any thread; it frees the memory. On a GPU it is dropped after the work
    /// that was enqueued by then.
    ///
    /// ```
    /// # use std::ptr::NonNull;
    /// # use thalweg::{DType, Device, Tensor};
    /// let numbers = vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    /// let address = NonNull::from(&numbers[0]).cast();
    /// // SAFETY: the vector owns the elements, is the owner, and is not changed.
    /// let x = unsafe { Tensor::from_memory(address, [3, 2], &[1, 3], DType::F32, Device::cpu(), numbers) };
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shape and strides differ in length, or the address is not a multiple of the dtype's size.
    ///
    /// # Safety
    /// Until `owner` is dropped, every index maps to initialised memory on `device`, of valid elements (a bool is 0 or
    /// 1), which nobody writes while work may read it.
    #[track_caller]
    pub unsafe fn from_memory(
        address: NonNull<u8>,
        shape: impl Into<Shape>,
        strides: &[isize],
        dtype: DType,
        device: Device,
        owner: impl Any + Send + Sync,
    ) -> Tensor {
        let mut owner: Box<dyn Any + Send + Sync> = Box::new(owner);
        if device.0.device().throughput().is_some() {
            owner = Box::new(FreedAfterWork { device: device.0, owner: Some(owner) });
        }
        // SAFETY: the caller's promise.
        unsafe { Tensor::over(address, shape.into(), strides, dtype, device, owner) }
    }

    /// A tensor over memory of another library, as [`from_memory`](Tensor::from_memory), for a library that orders its
    /// own work after this device's by [`Device::before_stream`]. Nothing waits for the GPU when `owner` is dropped.
    ///
    /// # Panics
    /// As [`from_memory`](Tensor::from_memory).
    ///
    /// # Safety
    /// As [`from_memory`](Tensor::from_memory), until the tensor and all that reads it are computed (which
    /// [`memory`](Tensor::memory) of the last results does); on a GPU the memory is afterwards written, and freed, only
    /// by work in a stream that has been given to [`Device::before_stream`] since, on this thread.
    #[track_caller]
    pub unsafe fn from_stream_memory(
        address: NonNull<u8>,
        shape: impl Into<Shape>,
        strides: &[isize],
        dtype: DType,
        device: Device,
        owner: impl Any + Send + Sync,
    ) -> Tensor {
        // SAFETY: the caller's promise.
        unsafe { Tensor::over(address, shape.into(), strides, dtype, device, Box::new(owner)) }
    }

    #[track_caller]
    unsafe fn over(
        address: NonNull<u8>,
        shape: Shape,
        strides: &[isize],
        dtype: DType,
        device: Device,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Tensor {
        let size = dtype.size();
        assert!(shape.rank() == strides.len(), "from_memory: {} strides for shape {shape}", strides.len());
        assert!(
            address.as_ptr().addr().is_multiple_of(size),
            "from_memory: the address is not a multiple of {size}, the size of {dtype}"
        );
        let (low, high) = View::new(shape, strides, 0).reach().map_or((0, -1), |reach| reach);
        // SAFETY: the caller says that the element at the lowest index is in memory.
        let start = unsafe { address.offset(low * size as isize) };
        // Kernels of a GPU rely on buffers that begin at such addresses, as all allocations there do, and read several
        // elements at a time where a view's offset allows it.
        let before = match device.0.device().throughput() {
            Some(_) => start.as_ptr().addr() % GPU_ALIGNMENT,
            None => 0,
        };
        let start = NonNull::new(start.as_ptr().wrapping_sub(before)).expect("an allocation does not begin at 0");
        let bytes = before + (high - low + 1) as usize * size;
        // SAFETY: the memory reaches from the lowest to the highest element, by the caller's contract. What is before
        // the lowest belongs to the same allocation; no view reaches it.
        let buffer = unsafe { Allocation::external(start, bytes, owner) };
        let view = View::new(shape, strides, (before / size) as isize - low);
        Tensor::of(Value::stored(device.0, Storage { buffer, view }, dtype))
    }
}

/// Alignment in bytes of the allocations of a GPU, the most that kernels rely on.
const GPU_ALIGNMENT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    struct Numbers(#[expect(dead_code, reason = "only kept")] Vec<f32>, Arc<AtomicBool>);

    impl Drop for Numbers {
        fn drop(&mut self) {
            self.1.store(true, Relaxed);
        }
    }

    /// A tensor over numbers, and whether they are freed.
    fn shared(numbers: Vec<f32>, shape: &[usize], strides: &[isize], first: usize) -> (Tensor, Arc<AtomicBool>) {
        let freed = Arc::new(AtomicBool::new(false));
        let address = NonNull::from(&numbers[first]).cast();
        let owner = Numbers(numbers, freed.clone());
        // SAFETY: the owner keeps the numbers, which nobody changes; each test's strides stay within them.
        (unsafe { Tensor::from_memory(address, shape, strides, DType::F32, Device::cpu(), owner) }, freed)
    }

    #[test]
    fn memory_of_another_library_is_read_in_place_and_freed_once() {
        let (x, freed) = shared((0..12).map(|i| i as f32).collect(), &[3, 4], &[4, 1], 0);
        let address = x.memory().unwrap().address();
        let y = &x * 2.0 + 1.0;
        assert_eq!(y.sum(..).item::<f32>().unwrap(), 144.0);
        assert_eq!(x.memory().unwrap().address(), address);
        drop(x);
        let _ = y.to_vec::<f32>().unwrap();
        drop(y);
        crate::synchronize().unwrap();
        assert!(freed.load(Relaxed));
    }

    #[test]
    fn strided_and_reversed_memory() {
        let (x, _freed) = shared((0..12).map(|i| i as f32).collect(), &[2, 3], &[-6, -2], 11);
        assert_eq!(x.to_vec::<f32>().unwrap(), [11.0, 9.0, 7.0, 5.0, 3.0, 1.0]);
        assert_eq!((&x + 1.0).t().to_vec::<f32>().unwrap(), [12.0, 6.0, 10.0, 4.0, 8.0, 2.0]);
        let (x, _freed) = shared(vec![5.0], &[2, 2], &[0, 0], 0);
        assert_eq!((x * 2.0).to_vec::<f32>().unwrap(), [10.0; 4]);
        let (x, _freed) = shared(vec![5.0], &[0, 2], &[2, 1], 0);
        assert!(x.to_vec::<f32>().unwrap().is_empty());
    }

    /// A dying input is overwritten by the result, if it is not another library's.
    #[test]
    fn memory_of_another_library_is_never_written() {
        let mut numbers = vec![1.0f32; 1 << 16];
        let address = NonNull::from(&mut numbers[0]).cast();
        for _ in 0..5 {
            // SAFETY: the vector outlives the tensor, and is only read below.
            let x = unsafe { Tensor::from_memory(address, [1 << 16], &[1], DType::F32, Device::cpu(), ()) };
            let y = &x * 3.0;
            drop(x);
            assert_eq!(y.to_vec::<f32>().unwrap()[7], 3.0);
            // SAFETY: nobody writes the vector.
            assert_eq!(unsafe { address.cast::<f32>().read_volatile() }, 1.0);
        }
        assert!(numbers.iter().all(|&v| v == 1.0));
    }

    /// An exported result is not overwritten, although its tensor is gone.
    #[test]
    fn exported_memory_stays_unchanged() {
        for _ in 0..5 {
            let x = Tensor::full([1 << 16], 2.0) + Tensor::rand([1 << 16]) * 0.0;
            let memory = x.memory().unwrap();
            let y = &x * 3.0;
            drop(x);
            assert_eq!(y.to_vec::<f32>().unwrap()[9], 6.0);
            // SAFETY: the memory has as many elements.
            assert_eq!(unsafe { memory.address().cast::<f32>().add(9).read() }, 2.0);
        }
    }
}
