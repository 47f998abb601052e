//! User-defined operations on the host: a decoder, a database, a library.
//!
//! In: shapes and dtypes of the results, known before anything runs, and a function over slices. Out: ordinary tensors.
//! Always true: the function runs when a result is needed, at most once; its error is the error of that read; its
//! operands are computed in as few kernels as if they were read.

use crate::grad::{Backward, InputGradients, Inputs};
use crate::opaque::{self, Back, Outputs};
use crate::{DType, Device, Element, Error, Shape, Tensor};
use half::{bf16, f16};
use std::any::Any;
use std::convert::Infallible;
use std::panic::Location;
use std::sync::Arc;
use thalweg_runtime::{Buffer, Check, Decomposition, FailedCheck, Fourier, Span, Unfit};
use thalweg_stream::{Caller, DeviceRef, FailureToError, OnDevice, Queued, Storage};

/// Operation that a device may have a library for.
pub(crate) enum LibraryOp {
    #[cfg_attr(not(feature = "fft"), expect(dead_code, reason = "made by transforms"))]
    Fourier(Fourier),
    /// A decomposition, with the leading (batch) dimensions.
    #[cfg_attr(not(feature = "linalg"), expect(dead_code, reason = "made by decompositions"))]
    Decomposition(Decomposition, Vec<usize>),
}

/// Function from operands to the library operation; `None` if no library has it.
type Library = dyn Fn(&[Tensor]) -> Option<LibraryOp> + Send + Sync;
type Run = dyn Fn(&[HostInput<'_>], &mut [HostOutput<'_>]) -> Result<(), Failure> + Send + Sync;
/// Function to call instead of [`Run`] with the error of an operand.
type OnFailedOperand = dyn Fn(&Error) + Send + Sync;
/// Host-visible memory of each result; `None` where the host does not see the device's memory.
type HostSlices<'a> = Vec<Option<&'a mut [u8]>>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Wait for the end of queued work, which returns the failure of the operation.
pub(crate) type Wait = Box<dyn Fn() -> Result<(), Failure> + Send + Sync>;
/// Function that queues an operation on the device: from spans of the operands to spans of the results.
type Enqueue = dyn Fn(&[Span<'_>], &[Span<'_>]) -> Result<Wait, Failure> + Send + Sync;

/// User-defined operation on the host: a function from slices of its operands to slices of its results.
///
/// It is opaque: nothing fuses into it. The operations before it are planned together up to its operands, and those
/// after it from its results on. It runs when one of its results is read or used, and never if none is, so it should be
/// a pure function of its operands. On a GPU its operands are copied to the host.
///
/// ```
/// # use thalweg::{DType, HostOp, Tensor};
/// let names = ["ann", "bob", "cleo"];
/// let lengths = HostOp::new(
///     "name_lengths",
///     |ids: &[Tensor]| [(*ids[0].shape(), DType::F32)],
///     move |x, y| {
///         for (id, out) in x[0].slice::<i64>().iter().zip(y[0].slice_mut::<f32>()) {
///             *out = names.get(*id as usize).ok_or("there is no such id")?.len() as f32;
///         }
///         Ok(())
///     },
/// );
/// let y = lengths.on(&Tensor::new([2i64, 0, 1])) * 2.0;
/// assert_eq!(y.to_vec::<f32>()?, [8.0, 6.0, 6.0]);
/// let error = lengths.on(&Tensor::new([7i64])).to_vec::<f32>().unwrap_err();
/// assert!(error.to_string().starts_with("name_lengths: there is no such id, at "));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
pub struct HostOp {
    name: &'static str,
    outputs: Arc<Outputs>,
    run: Arc<Run>,
    on_failed_operand: Option<Arc<OnFailedOperand>>,
    backward: Option<Arc<Back>>,
    library: Option<Arc<Library>>,
    transfer: Option<Arc<Enqueue>>,
    at: Option<&'static Location<'static>>,
}

/// Operand of a [`HostOp`]: its elements in row-major order.
pub struct HostInput<'a> {
    shape: Shape,
    dtype: DType,
    held: &'a Held,
}

/// Result of a [`HostOp`]: its elements in row-major order, initially zero.
pub struct HostOutput<'a> {
    shape: Shape,
    dtype: DType,
    place: OutputBuffer<'a>,
}

/// Elements of an operand during a call of the function.
enum Held {
    /// Borrowed from memory that the host sees.
    Shared(Storage, DeviceRef),
    /// Copied from device memory.
    Own(Box<dyn Any + Send>),
}

/// Destination of a result.
enum OutputBuffer<'a> {
    /// Memory of the result itself.
    There(&'a mut [u8]),
    /// A list of elements, which is then copied to the result's memory if the host sees that.
    Own(Box<dyn Any + Send>, Option<&'a mut [u8]>),
}

/// Calls a generic function with the element type of a dtype.
macro_rules! by_dtype {
    ($dtype:expr, $f:ident($($args:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32>($($args),*),
            DType::F64 => $f::<f64>($($args),*),
            DType::BF16 => $f::<bf16>($($args),*),
            DType::F16 => $f::<f16>($($args),*),
            DType::I8 => $f::<i8>($($args),*),
            DType::I16 => $f::<i16>($($args),*),
            DType::I32 => $f::<i32>($($args),*),
            DType::I64 => $f::<i64>($($args),*),
            DType::U8 => $f::<u8>($($args),*),
            DType::U16 => $f::<u16>($($args),*),
            DType::U32 => $f::<u32>($($args),*),
            DType::U64 => $f::<u64>($($args),*),
            DType::Bool => $f::<bool>($($args),*),
        }
    };
}

fn from_bytes<T: Element>(bytes: &[u8]) -> Box<dyn Any + Send> {
    Box::new(T::from_bytes(bytes))
}

fn bytes_of<T: Element>(elements: &(dyn Any + Send)) -> &[u8] {
    T::as_bytes(elements.downcast_ref::<Vec<T>>().expect("made for this dtype"))
}

fn filled<T: Element>(count: usize, fill: impl FnOnce(&mut [u8])) -> Box<dyn Any + Send> {
    let Ok(elements) = T::filled(count, |bytes| {
        fill(bytes);
        Ok::<(), Infallible>(())
    });
    Box::new(elements)
}

fn lie_there<T: Element>(bytes: &[u8]) -> bool {
    T::in_bytes(bytes).is_some()
}

#[track_caller]
fn wrong<T: Element>(dtype: DType) -> ! {
    panic!("a slice of {} was asked for, but its dtype is {dtype}", T::DTYPE)
}

impl Held {
    fn new(x: &Tensor) -> Result<Held, Error> {
        let (dtype, device) = (x.dtype(), x.device().0);
        let storage = x.value.storage()?;
        let count = x.numel() * dtype.size();
        if storage.view.is_contiguous()
            && let Some(bytes) = device.device().host_bytes(&storage.buffer)
            && by_dtype!(dtype, lie_there(&bytes[..count]))
        {
            return Ok(Held::Shared(storage, device));
        }
        Ok(Held::Own(x.with_bytes(|bytes| by_dtype!(dtype, from_bytes(bytes)))?))
    }
}

impl HostInput<'_> {
    /// The operand's shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The operand's dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The operand's elements; without a copy for a contiguous tensor on the CPU.
    ///
    /// # Panics
    /// When `T` is not its dtype; the panic becomes an error of the operation.
    #[track_caller]
    pub fn slice<T: Element>(&self) -> &[T] {
        if T::DTYPE != self.dtype {
            wrong::<T>(self.dtype);
        }
        match self.held {
            Held::Shared(storage, device) => {
                let bytes = device.device().host_bytes(&storage.buffer).expect("seen before");
                T::in_bytes(&bytes[..self.shape.numel() * self.dtype.size()]).expect("seen before")
            }
            Held::Own(elements) => elements.downcast_ref::<Vec<T>>().expect("made for this dtype"),
        }
    }

    /// The bytes of the operand's elements, in the machine's order; for functions of any dtype.
    pub fn bytes(&self) -> &[u8] {
        match self.held {
            Held::Shared(storage, device) => {
                let bytes = device.device().host_bytes(&storage.buffer).expect("seen before");
                &bytes[..self.shape.numel() * self.dtype.size()]
            }
            Held::Own(elements) => by_dtype!(self.dtype, bytes_of(&**elements)),
        }
    }
}

impl<'a> HostOutput<'a> {
    fn new(&(shape, dtype): &(Shape, DType), place: Option<&'a mut [u8]>) -> HostOutput<'a> {
        let place = match place {
            Some(bytes) if dtype != DType::Bool => OutputBuffer::There(bytes),
            place => {
                let zeros = vec![0; shape.numel() * dtype.size()];
                OutputBuffer::Own(by_dtype!(dtype, from_bytes(&zeros)), place)
            }
        };
        HostOutput { shape, dtype, place }
    }

    /// The result's shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The result's dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The result's elements, to be written.
    ///
    /// # Panics
    /// When `T` is not its dtype; the panic becomes an error of the operation.
    #[track_caller]
    pub fn slice_mut<T: Element>(&mut self) -> &mut [T] {
        if T::DTYPE != self.dtype {
            wrong::<T>(self.dtype);
        }
        match &mut self.place {
            OutputBuffer::There(bytes) => T::in_bytes_mut(bytes).expect("memory of a device is aligned"),
            OutputBuffer::Own(elements, _) => elements.downcast_mut::<Vec<T>>().expect("made for this dtype"),
        }
    }

    /// Lets a function write the bytes of all elements, in the machine's order; for functions of any dtype. They are
    /// initially zero. A byte of a bool that is not 0 counts as 1.
    pub fn fill(&mut self, f: impl FnOnce(&mut [u8])) {
        match &mut self.place {
            OutputBuffer::There(bytes) => f(bytes),
            OutputBuffer::Own(elements, _) => *elements = by_dtype!(self.dtype, filled(self.shape.numel(), f)),
        }
    }

    /// The bytes to copy to the device; `None` if the result is in its memory already.
    fn bytes(self) -> Option<Vec<u8>> {
        match self.place {
            OutputBuffer::There(_) => None,
            OutputBuffer::Own(elements, None) => Some(by_dtype!(self.dtype, bytes_of(&*elements)).to_vec()),
            OutputBuffer::Own(elements, Some(place)) => {
                place.copy_from_slice(by_dtype!(self.dtype, bytes_of(&*elements)));
                None
            }
        }
    }
}

impl HostOp {
    /// An operation with a name (for error messages), a function from the operands to the shape and dtype of each
    /// result, which may not look at values, and the function to run. An error or a panic of that function is an error
    /// of the read of a result ([`Error::Host`]), with the line of the call.
    pub fn new<O, S>(
        name: &'static str,
        outputs: impl Fn(&[Tensor]) -> O + Send + Sync + 'static,
        run: impl Fn(&[HostInput<'_>], &mut [HostOutput<'_>]) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> HostOp
    where
        O: IntoIterator<Item = (S, DType)>,
        S: Into<Shape>,
    {
        let (outputs, run) = (opaque::outputs(outputs), Arc::new(run));
        HostOp { name, outputs, run, on_failed_operand: None, backward: None, library: None, transfer: None, at: None }
    }

    /// Adds a backward pass, as that of [`custom_grad`](crate::custom_grad()). Without one, calls with a tracked
    /// operand panic.
    pub fn backward<G: InputGradients>(
        self,
        f: impl Fn(Backward<Vec<Tensor>, Vec<Tensor>>) -> G + Send + Sync + 'static,
    ) -> HostOp {
        HostOp { backward: Some(Arc::new(move |b| f(b).list())), ..self }
    }

    /// Adds a function that is called instead of the operation's own if an operand could not be computed. The results
    /// have the operand's error either way. It is for operations that others wait for: a rank of a collective reports
    /// that it cannot take part.
    pub fn on_failed_operand(self, f: impl Fn(&Error) + Send + Sync + 'static) -> HostOp {
        HostOp { on_failed_operand: Some(Arc::new(f)), ..self }
    }

    /// Adds a library operation: a device with a library for it computes it there, without copying operands to the
    /// host.
    #[cfg(any(feature = "fft", feature = "linalg"))]
    pub(crate) fn known(self, of: impl Fn(&[Tensor]) -> Option<LibraryOp> + Send + Sync + 'static) -> HostOp {
        HostOp { library: Some(Arc::new(of)), ..self }
    }

    /// Sets the line that errors name, if it is not that of the call: for calls from closures, which hide their caller.
    pub fn at(self, location: &'static Location<'static>) -> HostOp {
        HostOp { at: Some(location), ..self }
    }

    /// Adds an implementation that a device with asynchronous launches runs instead: a function that enqueues a transfer
    /// between ranks ([`Communicator`](crate::communication::Communicator)), from row-major operands to results, and
    /// returns a function that waits for it. Reads of the results call that, and return its error. Before the call, the
    /// device asserts that the operands are valid.
    pub fn transfer(
        self,
        enqueue: impl Fn(&[Span<'_>], &[Span<'_>]) -> Result<Wait, Failure> + Send + Sync + 'static,
    ) -> HostOp {
        HostOp { transfer: Some(Arc::new(enqueue)), ..self }
    }

    /// Records a call with one result.
    ///
    /// # Panics
    /// When it does not have exactly one result, and as [`on_all`](HostOp::on_all).
    #[track_caller]
    pub fn on<I: Inputs>(&self, inputs: I) -> Tensor {
        opaque::only(self.name, self.on_all(inputs))
    }

    /// Records a call with all its results. They are on the device of the first operand.
    ///
    /// # Panics
    /// When an operand is tracked and there is no [`backward`](HostOp::backward), or a result is larger than any
    /// memory.
    #[track_caller]
    pub fn on_all<I: Inputs>(&self, inputs: I) -> Vec<Tensor> {
        let from: Vec<Tensor> = inputs.tensors().into_iter().cloned().collect();
        let name = self.name;
        let (plain, outputs) = opaque::prepare(name, &from, self.backward.is_some(), &*self.outputs);
        let device = from.first().map_or_else(Device::default, Tensor::device);
        let caller = Caller { name, at: self.at.unwrap_or(Location::caller()) };
        let (run, failed, of) = (self.run.clone(), self.on_failed_operand.clone(), outputs.clone());
        // If kernels run on the host, so would a library.
        let apart = device.0.device().throughput().is_some();
        let known = self.library.as_ref().filter(|_| apart).and_then(|library| library(&plain));
        let operands = || plain.iter().map(|x| x.value.clone()).collect();
        let on_device = match (known, self.transfer.clone().filter(|_| apart)) {
            (Some(known), _) => Some(OnDevice {
                operands: operands(),
                is_shared: false,
                run: Box::new(move |x: &[Storage], y: &[Buffer]| on_device(device, caller, known, x, y)),
            }),
            (None, Some(enqueue)) => {
                let (operands, failed, outputs) = (plain.clone(), failed.clone(), outputs.clone());
                Some(OnDevice {
                    operands: operands.iter().map(|x| x.value.clone()).collect(),
                    is_shared: true,
                    run: Box::new(move |x: &[Storage], y: &[Buffer]| {
                        let dense = dense(&operands, x).inspect_err(|e| failed.iter().for_each(|f| f(e)));
                        Some(dense.and_then(|x| transfer(caller, &*enqueue, (&operands, &x), (&outputs, y))))
                    }),
                })
            }
            (None, None) => None,
        };
        let call = move |places: HostSlices<'_>| call(caller, (&*run, failed.as_deref()), &plain, &of, places);
        let values = thalweg_stream::host_call(caller, device.0, &outputs, on_device, call);
        opaque::results(name, values, &from, &self.backward)
    }
}

/// Runs the operation in the device's library; `None` if it has none for the operation.
fn on_device(
    device: Device,
    caller: Caller,
    known: LibraryOp,
    x: &[Storage],
    y: &[Buffer],
) -> Option<Result<Queued, Error>> {
    let (device, y): (_, Vec<&Buffer>) = (device.0.device(), y.iter().collect());
    let x: Vec<_> = x.iter().map(|s| (&s.buffer, &s.view)).collect();
    match known {
        LibraryOp::Fourier(of) => Some(device.fourier(&of, &x, &y)?.map(|()| None)),
        LibraryOp::Decomposition(of, lead) => {
            let batch = device.decompose(&of, &x, &y)?;
            let tell = move |word: u64| match Unfit::of_word(word) {
                Some((matrix, unfit)) => of_matrix(matrix, &lead, unfit),
                None => "a matrix has no decomposition".into(),
            };
            let Caller { name, at } = caller;
            let error = move |found: thalweg_runtime::FailedCheck| Error::Host {
                operation: name.into(),
                at,
                cause: Arc::from(Box::from(tell(found.word))),
            };
            Some(batch.map(|batch| batch.check.map(|check| (check, Box::new(error) as FailureToError))))
        }
    }
}

/// Row-major storage of operands: their own, or that of a copy.
fn dense(operands: &[Tensor], x: &[Storage]) -> Result<Vec<Storage>, Error> {
    let one = |(tensor, storage): (&Tensor, &Storage)| match storage.view.is_dense() {
        true => Ok(storage.clone()),
        false => tensor.deep_copy()?.value.unchecked(),
    };
    operands.iter().zip(x).map(one).collect()
}

/// Queues a transfer between ranks. Its check is the end of the transfer.
fn transfer(
    caller: Caller,
    enqueue: &Enqueue,
    (operands, x): (&[Tensor], &[Storage]),
    (outputs, y): (&[(Shape, DType)], &[Buffer]),
) -> Result<Queued, Error> {
    let of = |(tensor, storage): (&Tensor, &Storage)| (tensor.dtype().size(), storage.view.offset);
    let x: Vec<Span<'_>> = operands
        .iter()
        .zip(x)
        .map(|(tensor, storage)| {
            let (size, offset) = of((tensor, storage));
            Span { buffer: &storage.buffer, offset: offset as usize * size, count: tensor.numel() }
        })
        .collect();
    let y: Vec<Span<'_>> =
        y.iter().zip(outputs).map(|(buffer, (shape, _))| Span { buffer, offset: 0, count: shape.numel() }).collect();
    let failed =
        move |cause: Failure| Error::Host { operation: caller.name.into(), at: caller.at, cause: cause.into() };
    let wait = enqueue(&x, &y).map_err(failed)?;
    let check = Arrival { wait, caller };
    Ok(Some((Arc::new(check), Box::new(|_: FailedCheck| unreachable!("a transfer fails as a whole")))))
}

/// Check of a transfer's results.
struct Arrival {
    wait: Wait,
    caller: Caller,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arrival({})", self.caller.name)
    }
}

impl Check for Arrival {
    fn outcome(&self) -> Result<Vec<FailedCheck>, Error> {
        let Caller { name, at } = self.caller;
        let failed = |cause: Failure| Error::Host { operation: name.into(), at, cause: cause.into() };
        (self.wait)().map(|()| vec![]).map_err(failed)
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// An error message for matrix number `at` of a batch with these leading dimensions.
pub(crate) fn of_matrix(at: usize, lead: &[usize], why: impl std::fmt::Display) -> String {
    if lead.is_empty() {
        return why.to_string();
    }
    let mut rest = at;
    let of = |&size: &usize| {
        let own = rest % size;
        rest /= size;
        own.to_string()
    };
    let mut index: Vec<String> = lead.iter().rev().map(of).collect();
    index.reverse();
    format!("matrix [{}]: {why}", index.join(", "))
}

/// Runs the function. Returns the bytes of the results whose memory the host does not see.
fn call(
    caller: Caller,
    (run, failed): (&Run, Option<&OnFailedOperand>),
    inputs: &[Tensor],
    outputs: &[(Shape, DType)],
    places: HostSlices<'_>,
) -> Result<Vec<Vec<u8>>, Error> {
    let held = inputs.iter().map(Held::new).collect::<Result<Vec<Held>, Error>>().map_err(|error| {
        failed.into_iter().for_each(|f| f(&error));
        error.poisoned()
    })?;
    let x = held.iter().zip(inputs).map(|(held, x)| HostInput { shape: *x.shape(), dtype: x.dtype(), held });
    let x: Vec<HostInput<'_>> = x.collect();
    let mut y: Vec<HostOutput<'_>> = outputs.iter().zip(places).map(|(o, place)| HostOutput::new(o, place)).collect();
    let Caller { name, at } = caller;
    run(&x, &mut y).map_err(|cause| Error::Host { operation: name.into(), at, cause: Arc::from(cause) })?;
    Ok(y.into_iter().filter_map(HostOutput::bytes).collect())
}
