//! Streams, one per thread and device, and access to the streams of other threads.
//!
//! A stream's recorder is behind a mutex that its own thread takes for each operation. Uncontended, that is two atomic
//! operations. Another thread takes it only to ask for a value that is pending there. It must be able to do so while
//! the stream's own thread is blocked, for example joining it. No thread takes a second stream's lock while it holds
//! one.

use crate::DeviceRef;
use crate::capture::{CaptureBegin, CapturedSegment};
use crate::data_reads::note_data_read;
use crate::mode::{mode, packed_mode};
use crate::pending_error::take_pending_error;
use crate::recorder::{Recorded, RecordedOp, Recorder, Wanted};
use crate::site::{site, take_site};
use crate::template::{Mark, Template};
use crate::value::{NO_STREAM, Operand, Storage, Value, is_elsewhere};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use thalweg_ir::{DType, Op, Shape};
use thalweg_runtime::Error;

struct Stream {
    id: u32,
    recorder: Mutex<Recorder>,
    /// Whether the thread has ended. Whoever empties the stream then removes it. If its values were dropped instead,
    /// the next new stream removes it.
    orphan: AtomicBool,
}

static STREAMS: RwLock<Option<HashMap<u32, Arc<Stream>>>> = RwLock::new(None);
static NEXT_STREAM: AtomicU32 = AtomicU32::new(0);

/// Streams of the calling thread, by device.
#[derive(Default)]
struct Local(Vec<Option<Arc<Stream>>>);

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local(Vec::new())) };
}

impl Drop for Local {
    fn drop(&mut self) {
        for stream in self.0.drain(..).flatten() {
            stream.orphan.store(true, Relaxed);
            // Values that somebody still holds stay pending, to be computed on demand.
            if stream.lock().is_unwanted() {
                forget_stream(stream.id);
            }
        }
    }
}

fn forget_stream(id: u32) {
    let gone = STREAMS.write().unwrap_or_else(|e| e.into_inner()).as_mut().and_then(|s| s.remove(&id));
    // Dropped after the registry's lock is released: values drop buffers, which take locks of their own.
    drop(gone);
}

impl Stream {
    fn new(device: DeviceRef) -> Arc<Stream> {
        let id = NEXT_STREAM.fetch_add(1, Relaxed);
        assert!(id != NO_STREAM, "more streams than a process can number");
        let recorder = Mutex::new(Recorder::new(id, device, mode()));
        let stream = Arc::new(Stream { id, recorder, orphan: AtomicBool::new(false) });
        let mut streams = STREAMS.write().unwrap_or_else(|e| e.into_inner());
        let streams_now = streams.get_or_insert_default();
        let left: Vec<Arc<Stream>> = streams_now.extract_if(|_, s| s.is_left_over()).map(|(_, s)| s).collect();
        streams_now.insert(id, stream.clone());
        drop(streams);
        // After the registry's lock, as in `forget_stream`.
        drop(left);
        stream
    }

    /// Whether its thread has ended and all of its pending values have been dropped since. False for a stream that is
    /// being cut.
    fn is_left_over(&self) -> bool {
        self.orphan.load(Relaxed) && self.recorder.try_lock().is_ok_and(|r| r.is_unwanted())
    }

    fn lock(&self) -> MutexGuard<'_, Recorder> {
        // A panic while recording leaves at most an operation without a value that anybody holds.
        self.recorder.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Local {
    #[inline]
    fn stream(&mut self, device: DeviceRef) -> &Arc<Stream> {
        let at = device.0 as usize;
        if self.0.get(at).is_none_or(|s| s.is_none()) {
            self.add(device);
        }
        self.0[at].as_ref().expect("just made")
    }

    #[cold]
    fn add(&mut self, device: DeviceRef) {
        let at = device.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(Stream::new(device));
    }
}

/// Records an operation on the calling thread's stream of `device`. Runs nothing, unless a loop repeats or much memory
/// waits.
///
/// The caller has checked shapes and dtypes. `shape` and `dtype` are those of the result; `attr`, `args` and `ints`
/// follow the variants of [`Op`]. An argument that failed gives a result that failed.
#[inline]
pub fn record(
    device: DeviceRef,
    op: Op,
    dtype: DType,
    shape: Shape,
    attr: u32,
    args: &[Operand<'_>],
    ints: &[i64],
) -> Arc<Value> {
    loop {
        let recorded = LOCAL.with_borrow_mut(|local| {
            local.stream(device).lock().record(packed_mode(), op, dtype, &shape, attr, args, ints)
        });
        match recorded {
            Recorded::Value(value) => return value,
            Recorded::Elsewhere(own) => compute_elsewhere(args, own),
        }
    }
}

/// Recorded operation whose result is this value, if it is pending on a stream of the calling thread.
pub fn made(value: &Value) -> Option<RecordedOp> {
    of_own(value, |recorder| recorder.made(value))
}

/// Whether a value is pending on a stream of the calling thread that has recorded windows since its last cut.
pub fn is_among_windows(value: &Value) -> bool {
    of_own(value, |recorder| recorder.has_windows().then_some(())).is_some()
}

fn of_own<R>(value: &Value, f: impl FnOnce(&Recorder) -> Option<R>) -> Option<R> {
    if value.is_resolved() {
        return None;
    }
    LOCAL.with_borrow(|local| {
        let stream = local.0.get(value.device().0 as usize)?.as_ref().filter(|s| s.id == value.stream)?;
        f(&stream.lock())
    })
}

/// Computes arguments that are pending on other streams before the operation is recorded, so that no two streams ever
/// wait for each other. The thread's own streams are unlocked meanwhile, since a user's function may run.
#[cold]
fn compute_elsewhere(args: &[Operand<'_>], own: u32) {
    // The call site is taken here: operations that such a function records do not belong to it.
    let by = take_site();
    for arg in args.iter().filter(|arg| is_elsewhere(arg, own)) {
        let Operand::Value(v) = arg else { continue };
        v.compute();
        if v.is_pending() {
            // Its stream is gone.
            v.resolve(v.outcome().map_err(|e| e.poisoned()));
        }
    }
    by.into_iter().for_each(site);
}

/// Position at which the calling thread's next operation on a device is recorded.
pub fn mark(device: DeviceRef) -> Mark {
    LOCAL.with_borrow_mut(|local| local.stream(device).lock().mark(device))
}

/// Template of what the calling thread recorded on a device since a mark, to be recorded on other operands as one
/// batch. The caller names the operands and results, and guarantees that nothing else determined what was recorded.
/// `None` if a template cannot express it: an operation depends on more than its arguments, or the stream was cut.
pub fn template(mark: Mark, operands: &[&Arc<Value>], results: &[&Arc<Value>]) -> Option<Template> {
    LOCAL.with_borrow_mut(|local| local.stream(mark.device).lock().template(mark, operands, results))
}

/// Records the operations of a template on other operands, which have the shapes and dtypes of the original ones, in
/// their order. `scalars` replaces the template's scalars by index. Returns what `then` makes of the results. `None`,
/// with nothing recorded, if an operand has no value yet that this stream knows.
pub fn record_batch<R>(
    device: DeviceRef,
    template: &Template,
    operands: &[&Arc<Value>],
    scalars: impl Iterator<Item = (usize, u64)>,
    then: impl FnOnce(&mut dyn Iterator<Item = Arc<Value>>) -> R,
) -> Option<R> {
    LOCAL.with_borrow_mut(|local| local.stream(device).lock().record_batch(mode(), template, operands, scalars, then))
}

/// Begins to capture what the calling thread records on a device, for [`end_capture`]. `None` while operations wait
/// there, which what follows could depend on.
pub fn begin_capture(device: DeviceRef) -> Option<CaptureBegin> {
    LOCAL.with_borrow_mut(|local| local.stream(device).lock().begin_capture(device))
}

/// Segment of everything that the calling thread recorded since `begin`, to be [submitted](submit) on other operands of
/// the same dtypes and layouts. The caller guarantees that nothing but these, and the keys of random numbers, determined
/// what was recorded. `None` if that cannot be: the stream was cut, the thread has looked at the data of a value, or a
/// result is neither an operand nor was recorded.
pub fn end_capture(begin: &CaptureBegin, operands: &[&Arc<Value>], results: &[&Arc<Value>]) -> Option<CapturedSegment> {
    LOCAL.with_borrow_mut(|local| local.stream(begin.mark.device).lock().end_capture(begin, operands, results))
}

/// Runs a captured segment on other operands, which it does not overwrite, and returns the results, which are computed
/// or have failed. `keys` replace those of the random numbers. `None`, with nothing run, if an operand is not computed
/// or has another dtype or layout than the captured one, if the calling thread's mode is another one, or while
/// operations wait in its stream.
pub fn submit(
    segment: &CapturedSegment,
    operands: &[&Arc<Value>],
    keys: impl Iterator<Item = u64>,
) -> Option<Vec<Arc<Value>>> {
    // Cloned first: running may drop tensors, which must find the thread's streams unborrowed.
    let stream = LOCAL.with_borrow_mut(|local| local.stream(segment.device).clone());
    stream.lock().submit(segment, mode(), operands, keys)
}

impl Value {
    /// Computes the value if it is not resolved: cuts the stream that recorded it and runs what waits there.
    pub fn compute(&self) {
        if self.is_resolved() {
            return;
        }
        if self.is_pending() {
            cut_stream(self.stream, Wanted::Value { epoch: self.epoch, index: self.index });
        }
        // That cut or an earlier one may have deferred or dropped the value.
        self.follow_recipe();
    }

    /// Storage of the value, computed now if necessary, after its deferred checks have passed.
    ///
    /// # Errors
    /// The error that prevented the value.
    pub fn storage(&self) -> Result<Storage, Error> {
        self.compute();
        self.outcome()
    }

    /// Storage of the value, computed now if necessary. The device asserts its deferred checks before it runs what is
    /// enqueued later; the host waits for them only where the device cannot.
    ///
    /// # Errors
    /// The error that prevented the value, if one is known already, and when the device fails.
    pub fn asserted(&self) -> Result<Storage, Error> {
        self.compute();
        self.checks().map_or(Ok(()), |checks| checks.assert())?;
        self.outcome()
    }

    /// Storage of a value whose deferred checks may still fail, without waiting for them. For callers that read it by
    /// [`Value::read_to`] later, or that see to its checks themselves.
    ///
    /// # Errors
    /// The error, if one is known already.
    pub fn unchecked(&self) -> Result<Storage, Error> {
        self.compute();
        self.note_read();
        note_data_read();
        match self.state() {
            Some(Ok(storage)) => Ok(storage.clone()),
            _ => self.outcome(),
        }
    }

    /// The elements, row-major, as bytes of the dtype in the machine's order.
    ///
    /// # Errors
    /// The error that prevented the value or its copy.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        self.compute();
        self.bytes()
    }

    /// As [`Value::read`], into an existing buffer.
    ///
    /// # Errors
    /// The error that prevented the value or its copy.
    ///
    /// # Panics
    /// When `out` does not have exactly the size of the elements.
    pub fn read_to(&self, out: &mut [u8]) -> Result<(), Error> {
        assert_eq!(out.len(), self.shape().numel() * self.dtype().size(), "bytes of {} elements", self.shape());
        self.compute();
        self.copy_to(out)
    }
}

/// Cuts the stream with that id, if it still exists, and runs what it recorded.
fn cut_stream(id: u32, wanted: Wanted) {
    let streams = STREAMS.read().unwrap_or_else(|e| e.into_inner());
    let stream = streams.as_ref().and_then(|s| s.get(&id)).cloned();
    drop(streams);
    let Some(stream) = stream else { return };
    stream.lock().cut(wanted);
    if stream.orphan.load(Relaxed) {
        forget_stream(id);
    }
}

/// Calls `f` with each of the calling thread's recorders.
pub(crate) fn each_own(mut f: impl FnMut(&mut Recorder)) {
    // Cloned first: running may drop tensors, which must find the thread's streams unborrowed.
    let own: Vec<Arc<Stream>> = LOCAL.with_borrow(|l| l.0.iter().flatten().cloned().collect());
    for stream in own {
        f(&mut stream.lock());
    }
}

/// Cuts the calling thread's streams, computes everything that was recorded on them and is still held, and waits for
/// their devices.
///
/// # Errors
/// The first error among these, and the error of a segment that failed since the last call if no read has returned it.
/// Values that depend on it return it when they are read, too.
pub fn synchronize() -> Result<(), Error> {
    flush();
    // Streams are unlocked here: computing deferred results may run users' functions.
    let (mut held, mut checks) = (vec![], vec![]);
    each_own(|r| {
        let (own, own_checks) = r.take_held();
        held.extend(own);
        checks.extend(own_checks);
    });
    let computed = held.iter().map(|h| h.demand()).fold(Ok(()), Result::and);
    let devices: Vec<DeviceRef> = LOCAL.with_borrow(|l| {
        l.0.iter().enumerate().filter(|(_, s)| s.is_some()).map(|(at, _)| DeviceRef(at as u16)).collect()
    });
    devices.into_iter().try_for_each(|d| d.device().synchronize())?;
    let checked = checks.iter().map(|c| c.resolve_unreported()).fold(Ok(()), Result::and);
    take_pending_error().map_or(Ok(()), Err).and(computed).and(checked)
}

/// Starts everything that this thread recorded, without waiting.
pub fn flush() {
    each_own(|r| r.cut(Wanted::All));
}
