//! Values computed by a function on the host.
//!
//! In: the shapes and dtypes of the results, and a function that returns their bytes. Out: values that are computed
//! once somebody reads one of them or records an operation on it. Only then the function runs, once, on that thread.
//! Always true: no lock of a stream is held while it runs, so it may compute with tensors itself. Its error, or its
//! panic, becomes the error of its results.

use crate::DeviceRef;
use crate::defect;
use crate::deferred_check::{self, DeferredChecks, FailureToError};
use crate::value::{NO_STREAM, Recompute, Remade, Storage, Value};
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock};
use thalweg_ir::{DType, Shape, View};
use thalweg_runtime::{Buffer, Check, Error, count};

/// Host function that writes the elements of each result, row-major, as bytes of its dtype. Results in host-visible
/// memory are passed as zeroed slices. For the others it returns the bytes, in order.
type Function = Box<dyn FnOnce(Vec<Option<&mut [u8]>>) -> Result<Vec<Vec<u8>>, Error> + Send>;

/// Implementation of a host function on the device.
pub struct OnDevice {
    /// Operands, computed first. The results inherit their deferred checks, without a wait.
    pub operands: Vec<Arc<Value>>,
    /// Whether other processes or threads get the results, which cannot be withdrawn there. The device then asserts the
    /// operands' deferred checks first.
    pub is_shared: bool,
    /// Queues the computation of the results into the given buffers. Returns `None`, with nothing done, if the device
    /// has no such function.
    pub run: RunOnDevice,
}

/// Function that runs an operation on the device instead of the host.
pub type RunOnDevice = Box<dyn FnOnce(&[Storage], &[Buffer]) -> Option<Result<Queued, Error>> + Send>;

/// Check that must pass before queued results are given to anybody, and the error to report if it fails.
pub type Queued = Option<(Arc<dyn Check>, FailureToError)>;

/// Called operation, for error messages: its name and call site.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Name of the function.
    pub name: &'static str,
    /// Location of the call.
    pub at: &'static Location<'static>,
}

/// Storage of the results, with their deferred checks.
type Results = (Vec<Storage>, Option<Arc<DeferredChecks>>);

/// Call of a host function, shared by its results.
struct Call {
    caller: Caller,
    device: DeviceRef,
    outputs: Vec<(Shape, DType)>,
    /// Device and host implementations until one of them runs; what they own is dropped then.
    function: Mutex<Option<(Option<OnDevice>, Function)>>,
    made: OnceLock<Result<Results, Error>>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Call({})", self.caller.name)
    }
}

impl Call {
    fn run(&self) -> Result<Results, Error> {
        let (on_device, function) =
            self.function.lock().unwrap_or_else(|e| e.into_inner()).take().expect("it runs once");
        let device = self.device.device();
        let size = |(shape, dtype): &(Shape, DType)| shape.numel() * dtype.size();
        let mut buffers = self.outputs.iter().map(|o| device.allocate(size(o))).collect::<Result<Vec<_>, _>>()?;
        if let Some(done) = on_device.and_then(|f| f.run(&buffers)) {
            return Ok((self.stored(buffers), done?));
        }
        count(|c| c.host_calls += 1);
        let places: Vec<_> = buffers
            .iter_mut()
            .zip(&self.outputs)
            .map(|(b, o)| device.zeroed_bytes(b).map(|bytes| &mut bytes[..size(o)]))
            .collect();
        let elsewhere: Vec<bool> = places.iter().map(Option::is_none).collect();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(places)));
        let bytes = outcome.unwrap_or_else(|panic| {
            let cause = format!("it panicked: {}", defect::said(&*panic));
            let Caller { name, at } = self.caller;
            Err(Error::Host { operation: name.into(), at, cause: Arc::from(Box::from(cause)) })
        })?;
        let there = buffers.iter().zip(elsewhere).filter(|(_, elsewhere)| *elsewhere);
        for ((buffer, _), bytes) in there.zip(bytes) {
            device.write(buffer, &bytes)?;
        }
        Ok((self.stored(buffers), None))
    }

    fn stored(&self, buffers: Vec<Buffer>) -> Vec<Storage> {
        let all = buffers.into_iter().zip(&self.outputs);
        all.map(|(buffer, &(shape, _))| Storage { buffer, view: View::contiguous(shape) }).collect()
    }
}

impl Recompute for Call {
    fn make(&self, result: usize) -> Remade {
        match self.made.get_or_init(|| self.run()) {
            Ok((all, checks)) => Remade { outcome: Ok(all[result].clone()), checks: checks.clone(), watch: None },
            Err(error) => Err(error.clone()).into(),
        }
    }
}

impl OnDevice {
    fn run(self, buffers: &[Buffer]) -> Option<Result<Option<Arc<DeferredChecks>>, Error>> {
        // An operand that cannot be computed is reported by the host function.
        let held = self.operands.iter().map(|v| v.unchecked()).collect::<Result<Vec<Storage>, Error>>().ok()?;
        if self.is_shared {
            self.operands.iter().filter_map(|v| v.checks()).try_for_each(|checks| checks.assert_unshared()).ok()?;
        }
        let inherited = deferred_check::inherit(self.operands.iter().filter_map(|v| v.checks()));
        let done = (self.run)(&held, buffers)?;
        Some(done.map(|own| deferred_check::of_call(own, inherited)))
    }
}

/// Results of a host function, which runs when one of them is asked for, if ever. It writes one result per element of
/// `outputs`, each with the bytes that shape and dtype require. If the device has its own implementation, that runs
/// instead.
pub fn host_call(
    caller: Caller,
    device: DeviceRef,
    outputs: &[(Shape, DType)],
    on_device: Option<OnDevice>,
    function: impl FnOnce(Vec<Option<&mut [u8]>>) -> Result<Vec<Vec<u8>>, Error> + Send + 'static,
) -> Vec<Arc<Value>> {
    let function = Mutex::new(Some((on_device, Box::new(function) as Function)));
    let call = Arc::new(Call { caller, device, outputs: outputs.to_vec(), function, made: OnceLock::new() });
    let value = |(i, &(shape, dtype)): (usize, &(Shape, DType))| {
        let value = Value::pending(shape, dtype, device, NO_STREAM, 0, i as u32);
        value.defer(call.clone());
        Arc::new(value)
    };
    outputs.iter().enumerate().map(value).collect()
}
