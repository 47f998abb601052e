//! Values: what a tensor handle holds.

use crate::DeviceRef;
use crate::deferred_check::DeferredChecks;
use crate::history::Watch;
use crate::mode::Mode;
use crate::site::Site;
use crate::strided;
use crate::untold::told;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use thalweg_fusion::Stretch;
use thalweg_ir::{DType, Shape, View};
use thalweg_runtime::{Allocation, Buffer, Error};

/// Where a computed value lies: a view of a buffer, which other values may share.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The memory.
    pub buffer: Buffer,
    /// Where in it the elements lie.
    pub view: View,
}

/// The result of a recorded operation, or data that was there before.
///
/// The number of handles says whether somebody can still ask for it: a stream holds one itself until the cut, and what
/// has no other then is not computed for its own sake.
#[derive(Debug)]
pub struct Value {
    shape: Shape,
    dtype: DType,
    device: DeviceRef,
    /// The stream that recorded it.
    pub(crate) stream: u32,
    /// Its place in the segment of that epoch.
    pub(crate) index: u32,
    pub(crate) epoch: u64,
    /// A guess at its number among the inputs of the segment that last read it: epoch << 24 | number. Whoever reads it
    /// checks.
    pub(crate) input_hint: AtomicU64,
    /// How many of its handles are [`Kept`] ones.
    kept: AtomicU32,
    state: OnceLock<Box<Resolved>>,
    /// How to compute it, if it was not written.
    recipe: Mutex<Option<Arc<dyn Recompute>>>,
}

/// A handle of a tape's: of a value that is there for the backward pass alone. Where a value has no other handles at a
/// cut, the planner decides whether it is written or computed again when it is used.
#[derive(Debug)]
pub struct Kept(Arc<Value>);

impl Kept {
    /// Of this value.
    pub fn new(value: &Arc<Value>) -> Kept {
        // The handle first and the count second, and dropped the other way round: no more are counted than there are.
        let value = value.clone();
        value.kept.fetch_add(1, Relaxed);
        Kept(value)
    }
}

impl Clone for Kept {
    fn clone(&self) -> Kept {
        Kept::new(&self.0)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.kept.fetch_sub(1, Relaxed);
    }
}

impl Deref for Kept {
    type Target = Arc<Value>;
    fn deref(&self) -> &Arc<Value> {
        &self.0
    }
}

/// How results that were not written are computed after all. A trait, so that values need not know how segments run.
pub(crate) trait Recompute: std::fmt::Debug + Send + Sync {
    /// The result of an operation of the segment.
    fn make(&self, operation: usize) -> Remade;

    /// The operations that make the result, where whoever uses it may record them again.
    fn again(&self) -> Option<&Again> {
        None
    }
}

/// What [`Recompute`] gives.
pub(crate) struct Remade {
    /// The result.
    pub outcome: Result<Storage, Error>,
    /// What has to be resolved before anybody sees it.
    pub checks: Option<Arc<DeferredChecks>>,
    /// Who wants to know whether it is read, if anybody does.
    pub watch: Option<Watch>,
}

impl From<Result<Storage, Error>> for Remade {
    fn from(outcome: Result<Storage, Error>) -> Remade {
        Remade { outcome, checks: None, watch: None }
    }
}

/// Operations that make a result, to be recorded again.
#[derive(Debug)]
pub(crate) struct Again {
    /// What all results that one cut left have in common.
    pub left: Arc<LeftOver>,
    /// The operation that makes the result, among those of the stretch.
    pub at: usize,
    /// The inputs of the stretch that it follows from, by number.
    pub inputs: Vec<(u32, Arc<Value>)>,
}

/// The operations that what one cut left is computed from.
#[derive(Debug)]
pub(crate) struct LeftOver {
    pub stretch: Arc<Stretch>,
    pub scalars: Vec<u64>,
    /// Who recorded its gathers and scatters, by operation of the stretch.
    pub sites: Vec<(u32, Site)>,
    pub mode: Mode,
    /// Which operations have been recorded again in a segment, and at which place there.
    pub recorded: Mutex<(u64, Vec<Option<u32>>)>,
}

/// What became of a value.
#[derive(Debug)]
struct Resolved {
    outcome: Result<Storage, Error>,
    /// What has to be resolved before anybody sees it.
    checks: Option<Arc<DeferredChecks>>,
    /// Tells the value's pattern whether it was read.
    watch: Option<Watch>,
}

/// An argument of an operation.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// A tensor's value.
    Value(&'a Arc<Value>),
    /// A scalar in the form of [`thalweg_ir::Scalar::to_bits`], for the dtype it is computed in.
    Scalar(u64),
}

/// The stream and epoch of values that no stream recorded.
pub(crate) const NO_STREAM: u32 = u32::MAX;

impl Value {
    pub(crate) fn pending(shape: Shape, dtype: DType, device: DeviceRef, stream: u32, epoch: u64, index: u32) -> Value {
        Value {
            shape,
            dtype,
            device,
            stream,
            index,
            epoch,
            input_hint: AtomicU64::new(0),
            kept: AtomicU32::new(0),
            state: OnceLock::new(),
            recipe: Mutex::new(None),
        }
    }

    /// One that [`empty`](Value::empty) was called of, as [`Value::pending`]: field by field, where it lies.
    #[inline]
    pub(crate) fn begin_again(&mut self, shape: Shape, dtype: DType, device: DeviceRef, at: (u32, u64, u32)) {
        debug_assert!(self.state.get().is_none());
        (self.shape, self.dtype, self.device) = (shape, dtype, device);
        (self.stream, self.epoch, self.index) = at;
        *self.input_hint.get_mut() = 0;
        *self.kept.get_mut() = 0;
    }

    fn resolved(shape: Shape, dtype: DType, device: DeviceRef, state: Result<Storage, Error>) -> Arc<Value> {
        let value = Value::pending(shape, dtype, device, NO_STREAM, 0, 0);
        value.resolve(state);
        Arc::new(value)
    }

    /// A value that is there already, row-major from the start of `buffer`.
    ///
    /// # Panics
    /// When the buffer is too small for it.
    pub fn ready(device: DeviceRef, buffer: Buffer, shape: Shape, dtype: DType) -> Arc<Value> {
        let need = shape.checked_bytes(dtype.size());
        assert!(need.is_some_and(|n| n <= buffer.bytes()), "{shape} of {dtype} does not fit {} bytes", buffer.bytes());
        Value::resolved(shape, dtype, device, Ok(Storage { buffer, view: View::contiguous(shape) }))
    }

    /// A value that lies there.
    pub(crate) fn stored(device: DeviceRef, storage: Storage, dtype: DType) -> Arc<Value> {
        Value::resolved(storage.view.shape, dtype, device, Ok(storage))
    }

    /// A value that could not be had.
    pub fn failed(device: DeviceRef, error: Error, shape: Shape, dtype: DType) -> Arc<Value> {
        Value::resolved(shape, dtype, device, Err(error))
    }

    /// Its shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes of its elements.
    pub(crate) fn nbytes(&self) -> usize {
        self.shape.numel() * self.dtype.size()
    }

    /// Its dtype.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its device.
    #[inline]
    pub fn device(&self) -> DeviceRef {
        self.device
    }

    /// Whether it has been computed (or has failed).
    #[inline]
    pub fn is_resolved(&self) -> bool {
        self.state.get().is_some()
    }

    #[inline]
    pub(crate) fn state(&self) -> Option<&Result<Storage, Error>> {
        self.state.get().map(|s| &s.outcome)
    }

    /// Sets the outcome; the first one stays.
    pub(crate) fn resolve(&self, state: Result<Storage, Error>) {
        self.resolve_watched(state, None, None);
    }

    /// The same, with what is still to be checked about it, and who wants to know whether it is read.
    pub(crate) fn resolve_watched(
        &self,
        outcome: Result<Storage, Error>,
        checks: Option<Arc<DeferredChecks>>,
        watch: Option<Watch>,
    ) {
        let _ = self.state.set(Box::new(Resolved { outcome, checks, watch }));
    }

    /// What is still to be checked about it.
    pub(crate) fn checks(&self) -> Option<&Arc<DeferredChecks>> {
        self.state.get().and_then(|s| s.checks.as_ref())
    }

    /// Says how to compute the value in place of its outcome.
    pub(crate) fn defer(&self, recipe: Arc<dyn Recompute>) {
        *self.recipe() = Some(recipe);
    }

    fn recipe(&self) -> MutexGuard<'_, Option<Arc<dyn Recompute>>> {
        // A panic while a recipe is followed leaves it to be followed again.
        self.recipe.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Notes that somebody reads the value or computes from it.
    pub(crate) fn note_read(&self) {
        if let Some(watch) = self.state.get().and_then(|s| s.watch.as_ref()) {
            watch.read();
        }
    }

    /// The memory of a value that only the caller can reach.
    pub(crate) fn take_storage(&mut self) -> Option<Storage> {
        match self.state.take() {
            Some(resolved) => resolved.outcome.ok(),
            None => None,
        }
    }

    /// Lets go of all that it holds; true, for what comes next.
    pub(crate) fn empty(&mut self) -> bool {
        self.state.take();
        *self.recipe.get_mut().unwrap_or_else(|e| e.into_inner()) = None;
        true
    }

    pub(crate) fn hint(&self, epoch: u64) -> Option<usize> {
        let hint = self.input_hint.load(Relaxed);
        (hint >> 24 == epoch & ((1 << 40) - 1)).then_some((hint & 0xFF_FFFF) as usize)
    }

    pub(crate) fn set_hint(&self, epoch: u64, input: usize) {
        self.input_hint.store(epoch << 24 | input as u64, Relaxed);
    }

    /// Whether it waits in the stream that recorded it: it has no outcome yet, and nobody was told how to compute it.
    pub(crate) fn is_pending(&self) -> bool {
        // Whoever follows a recipe holds it until the value is resolved. So without one the value is resolved by now,
        // or pending.
        let recipe = self.recipe();
        recipe.is_none() && !self.is_resolved()
    }

    /// How it can be recorded again, where its segment left it for that.
    pub(crate) fn again(&self) -> Option<Arc<dyn Recompute>> {
        self.recipe().as_ref().filter(|r| r.again().is_some()).cloned()
    }

    /// Whether anything but so many handles and those of tapes holds it, and whether a tape does. What another thread
    /// does meanwhile may show in one and not in the other; no value depends on the answer.
    pub(crate) fn holders(self: &Arc<Value>, own: usize) -> (bool, bool) {
        let kept = self.kept.load(Relaxed) as usize;
        (Arc::strong_count(self) > own + kept, kept > 0)
    }

    /// Computes what its segment did not write, if that is how it is.
    pub(crate) fn follow_recipe(&self) {
        let mut recipe = self.recipe();
        if let Some(r) = &*recipe {
            let Remade { outcome, checks, watch } = r.make(self.index as usize);
            self.resolve_watched(outcome, checks, watch);
            // What it is computed from is let go with the recipe.
            *recipe = None;
        }
    }

    /// Where a value lies that its stream has run, sure to be what it should be.
    ///
    /// # Errors
    /// What kept it from being computed.
    pub(crate) fn outcome(&self) -> Result<Storage, Error> {
        self.note_read();
        if let Some(checks) = self.checks() {
            checks.resolve()?;
        }
        match self.state() {
            Some(Ok(storage)) => Ok(storage.clone()),
            Some(Err(error)) => {
                told(error);
                Err(error.clone())
            }
            None => Err(Error::Value("the stream that was to compute this value is gone".into())),
        }
    }

    /// The elements of a value that its stream has run, row-major, as bytes of the dtype in the machine's order.
    ///
    /// # Errors
    /// What kept the value from being computed or copied.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; self.nbytes()];
        self.copy_to(&mut out)?;
        Ok(out)
    }

    /// As [`Value::bytes`], to memory of that many bytes.
    pub(crate) fn copy_to(&self, out: &mut [u8]) -> Result<(), Error> {
        let Storage { buffer, view } = self.outcome()?;
        let device = self.device.device();
        if out.is_empty() {
            return Ok(());
        }
        if device.host_bytes(&buffer).is_none() {
            thalweg_runtime::expect_to_fill(out);
        }
        if view.is_contiguous() {
            return device.read(&buffer, out);
        }
        let size = self.dtype.size();
        if let Some(bytes) = device.host_bytes(&buffer) {
            strided::copy(&view, bytes, size, out);
            return Ok(());
        }
        // No more is brought from the device than lies between its first element and its last: of a large tensor somebody
        // may want the last one.
        let Some((low, high)) = view.reach() else { return Ok(()) };
        let part = Allocation::part(&buffer, low as usize * size, (high - low + 1) as usize * size);
        let mut view = view;
        view.offset -= low;
        if view.is_contiguous() {
            return device.read(&part, out);
        }
        let mut bytes = vec![0u8; part.bytes()];
        device.read(&part, &mut bytes)?;
        strided::copy(&view, &bytes, size, out);
        Ok(())
    }
}
