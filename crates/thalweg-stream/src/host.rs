//! Values that a function on the host computes.
//!
//! In: the shapes and dtypes of the results, and a function that gives their bytes. Out: values that are there once
//! somebody reads one of them, or records an operation on it: only then the function runs, once, on that thread. Always
//! true: no lock of a stream is held while it runs, so it may compute with tensors itself; what it fails with, or panics
//! with, is the error of its results.

use crate::DeviceRef;
use crate::defect;
use crate::history::Watch;
use crate::value::{NO_STREAM, Recompute, Storage, Value};
use std::sync::{Arc, Mutex, OnceLock};
use thalweg_ir::{DType, Shape, View};
use thalweg_runtime::{Error, count};

/// A function that gives the elements of each result, row-major, as bytes of its dtype.
type Function = Box<dyn FnOnce() -> Result<Vec<Vec<u8>>, Error> + Send>;

/// One call of a function.
struct Call {
    name: &'static str,
    device: DeviceRef,
    shapes: Vec<Shape>,
    /// Until it runs; what it holds is let go then.
    function: Mutex<Option<Function>>,
    made: OnceLock<Result<Vec<Storage>, Error>>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Call({})", self.name)
    }
}

impl Call {
    fn run(&self) -> Result<Vec<Storage>, Error> {
        let function = self.function.lock().unwrap_or_else(|e| e.into_inner()).take().expect("it runs once");
        count(|c| c.host_calls += 1);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(function));
        let all = outcome.unwrap_or_else(|panic| {
            let cause = format!("it panicked: {}", defect::said(&*panic));
            Err(Error::Host { operation: self.name.into(), cause: Arc::from(Box::from(cause)) })
        })?;
        let device = self.device.device();
        let written = self.shapes.iter().zip(all).map(|(&shape, bytes)| {
            let buffer = device.allocate(bytes.len())?;
            device.write(&buffer, &bytes)?;
            Ok(Storage { buffer, view: View::contiguous(shape) })
        });
        written.collect()
    }
}

impl Recompute for Call {
    fn make(&self, result: usize) -> (Result<Storage, Error>, Option<Watch>) {
        let made = self.made.get_or_init(|| self.run());
        (made.as_ref().map(|all| all[result].clone()).map_err(Error::clone), None)
    }
}

/// The results of a function on the host, which runs when one of them is asked for, if ever. It gives the bytes of as
/// many results as there are `outputs`, each as many as shape and dtype ask for.
pub fn host_call(
    name: &'static str,
    device: DeviceRef,
    outputs: &[(Shape, DType)],
    function: impl FnOnce() -> Result<Vec<Vec<u8>>, Error> + Send + 'static,
) -> Vec<Arc<Value>> {
    let shapes = outputs.iter().map(|o| o.0).collect();
    let function = Mutex::new(Some(Box::new(function) as Function));
    let call = Arc::new(Call { name, device, shapes, function, made: OnceLock::new() });
    let value = |(i, &(shape, dtype)): (usize, &(Shape, DType))| {
        let value = Value::pending(shape, dtype, device, NO_STREAM, 0, i as u32);
        value.defer(call.clone());
        Arc::new(value)
    };
    outputs.iter().enumerate().map(value).collect()
}
