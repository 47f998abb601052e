//! Values: the shared state behind tensor handles.

use crate::DeviceRef;
use crate::data_reads::note_data_read;
use crate::deferred_check::DeferredChecks;
use crate::history::Watch;
use crate::mode::Mode;
use crate::pending_error::clear_pending_error;
use crate::site::Site;
use crate::strided;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use thalweg_fusion::Subgraph;
use thalweg_ir::{DType, Shape, View};
use thalweg_runtime::{Allocation, Buffer, Error};

/// Storage of a computed value: a view of a buffer that other values may share.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Buffer that holds the elements.
    pub buffer: Buffer,
    /// Offset and strides of the elements in the buffer.
    pub view: View,
}

/// Result of a recorded operation, or data that existed before.
///
/// The reference count says whether the value is still reachable: a stream holds one reference itself until the cut. A
/// value without another reference is then not computed for its own sake.
#[derive(Debug)]
pub struct Value {
    shape: Shape,
    dtype: DType,
    device: DeviceRef,
    /// Id of the stream that recorded the value.
    pub(crate) stream: u32,
    /// Index of the value's operation in the segment of epoch `epoch`.
    pub(crate) index: u32,
    pub(crate) epoch: u64,
    /// Hint of the value's input index in the segment that last read it: epoch << 24 | index. Readers verify it.
    pub(crate) input_hint: AtomicU64,
    /// Number of handles of the value that are [`TapeHandle`]s.
    kept: AtomicU32,
    state: OnceLock<Box<Resolved>>,
    /// Recipe that computes the value, if its segment did not write it.
    recipe: Mutex<Option<Arc<dyn Recompute>>>,
}

/// Handle of a gradient tape, which holds a value for the backward pass only. If a value has no other handles at a cut,
/// the planner decides whether it is written, or recomputed when it is used.
#[derive(Debug)]
pub struct TapeHandle(Arc<Value>);

impl TapeHandle {
    /// Creates a tape's handle of a value.
    pub fn new(value: &Arc<Value>) -> TapeHandle {
        // Clone before counting, and drop in reverse order: the count never exceeds the number of handles.
        let value = value.clone();
        value.kept.fetch_add(1, Relaxed);
        TapeHandle(value)
    }
}

impl Clone for TapeHandle {
    fn clone(&self) -> TapeHandle {
        TapeHandle::new(&self.0)
    }
}

impl Drop for TapeHandle {
    fn drop(&mut self) {
        self.0.kept.fetch_sub(1, Relaxed);
    }
}

impl Deref for TapeHandle {
    type Target = Arc<Value>;
    fn deref(&self) -> &Arc<Value> {
        &self.0
    }
}

/// Recipe that recomputes results which were not written. It is a trait, so that values need not know how segments run.
pub(crate) trait Recompute: std::fmt::Debug + Send + Sync {
    /// Computes the result of an operation of the segment, and its checks.
    fn make(&self, operation: usize) -> Remade;

    /// Operations that recompute the result; `None` if a user of the value cannot record them again.
    fn recomputation(&self) -> Option<&Recomputation> {
        None
    }
}

/// Outcome of a [`Recompute`].
pub(crate) struct Remade {
    /// Storage of the result, or the error that prevented it.
    pub outcome: Result<Storage, Error>,
    /// Deferred checks to resolve before the result is given to anybody.
    pub checks: Option<Arc<DeferredChecks>>,
    /// Watch to notify when the result is read, if any.
    pub watch: Option<Watch>,
}

impl From<Result<Storage, Error>> for Remade {
    fn from(outcome: Result<Storage, Error>) -> Remade {
        Remade { outcome, checks: None, watch: None }
    }
}

/// Operations that compute a result, to be recorded again.
#[derive(Debug)]
pub(crate) struct Recomputation {
    /// Subgraph and state shared by all results that one cut dropped.
    pub left: Arc<LeftOver>,
    /// Index, in the subgraph, of the operation that computes the result.
    pub at: usize,
    /// Inputs of the subgraph that the result depends on, each with its index, ascending.
    pub inputs: Vec<(u32, Arc<Value>)>,
}

/// Operations from which the results that one cut dropped can be recomputed.
#[derive(Debug)]
pub(crate) struct LeftOver {
    pub subgraph: Arc<Subgraph>,
    pub scalars: Vec<u64>,
    /// Call sites of gathers and scatters, by operation of the subgraph, ascending.
    pub sites: Vec<(u32, Site)>,
    pub mode: Mode,
    /// Epoch of a segment, and the index there of each operation that was recorded again in that segment.
    pub recorded: Mutex<(u64, Vec<Option<u32>>)>,
}

impl LeftOver {
    /// Call sites of an operation of the subgraph.
    pub fn sites_of(&self, op: usize) -> impl Iterator<Item = Site> {
        let first = self.sites.partition_point(|s| (s.0 as usize) < op);
        self.sites[first..].iter().take_while(move |s| s.0 as usize == op).map(|s| s.1)
    }
}

/// Outcome of a value, with its checks and the watch of its reads.
#[derive(Debug)]
struct Resolved {
    outcome: Result<Storage, Error>,
    /// Deferred checks to resolve before the value is given to anybody.
    checks: Option<Arc<DeferredChecks>>,
    /// Reports to the pattern's history whether the value was read.
    watch: Option<Watch>,
}

/// Argument of an operation that is being recorded.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// Value of a tensor.
    Value(&'a Arc<Value>),
    /// Scalar, encoded by [`thalweg_ir::Scalar::to_bits`] for the dtype that it is computed in.
    Scalar(u64),
}

/// Whether an argument has to be computed by a stream other than `own`.
#[inline]
pub(crate) fn is_elsewhere(arg: &Operand<'_>, own: u32) -> bool {
    matches!(arg, Operand::Value(v) if v.stream != own && !v.is_resolved() && v.recompute_recipe().is_none())
}

/// Stream id of a value that no stream recorded.
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

    /// Reinitializes a value that was [emptied](Value::empty), in place and field by field, to the state of
    /// [`Value::pending`].
    #[inline]
    pub(crate) fn reset(&mut self, shape: &Shape, dtype: DType, device: DeviceRef, at: (u32, u64, u32)) {
        debug_assert!(self.state.get().is_none());
        (self.shape, self.dtype, self.device) = (*shape, dtype, device);
        (self.stream, self.epoch, self.index) = at;
        *self.input_hint.get_mut() = 0;
        *self.kept.get_mut() = 0;
    }

    fn resolved(shape: Shape, dtype: DType, device: DeviceRef, state: Result<Storage, Error>) -> Arc<Value> {
        let value = Value::pending(shape, dtype, device, NO_STREAM, 0, 0);
        value.resolve(state);
        Arc::new(value)
    }

    /// Creates a resolved value, row-major from the start of `buffer`.
    ///
    /// # Panics
    /// When the buffer is too small for it.
    pub fn ready(device: DeviceRef, buffer: Buffer, shape: Shape, dtype: DType) -> Arc<Value> {
        let need = shape.checked_bytes(dtype.size());
        assert!(need.is_some_and(|n| n <= buffer.bytes()), "{shape} of {dtype} does not fit {} bytes", buffer.bytes());
        Value::resolved(shape, dtype, device, Ok(Storage { buffer, view: View::contiguous(shape) }))
    }

    /// Creates a resolved value with this storage, whose view must lie within its buffer.
    pub fn stored(device: DeviceRef, storage: Storage, dtype: DType) -> Arc<Value> {
        Value::resolved(storage.view.shape, dtype, device, Ok(storage))
    }

    /// Creates a resolved value with this error.
    pub fn failed(device: DeviceRef, error: Error, shape: Shape, dtype: DType) -> Arc<Value> {
        Value::resolved(shape, dtype, device, Err(error))
    }

    /// Shape of the value.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of bytes of the value's elements.
    pub(crate) fn nbytes(&self) -> usize {
        self.shape.numel() * self.dtype.size()
    }

    /// Dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Device that holds the value.
    #[inline]
    pub fn device(&self) -> DeviceRef {
        self.device
    }

    /// Whether the value is resolved: it has its storage or its error.
    #[inline]
    pub fn is_resolved(&self) -> bool {
        self.state.get().is_some()
    }

    #[inline]
    pub(crate) fn state(&self) -> Option<&Result<Storage, Error>> {
        self.state.get().map(|s| &s.outcome)
    }

    /// Sets the outcome; only the first call has an effect.
    pub(crate) fn resolve(&self, state: Result<Storage, Error>) {
        self.resolve_watched(state, None, None);
    }

    /// Sets the outcome with its deferred checks and the watch to notify of reads; only the first call has an effect.
    pub(crate) fn resolve_watched(
        &self,
        outcome: Result<Storage, Error>,
        checks: Option<Arc<DeferredChecks>>,
        watch: Option<Watch>,
    ) {
        let _ = self.state.set(Box::new(Resolved { outcome, checks, watch }));
    }

    /// Deferred checks of the value.
    pub(crate) fn checks(&self) -> Option<&Arc<DeferredChecks>> {
        self.state.get().and_then(|s| s.checks.as_ref())
    }

    /// Sets the recipe to compute the value by, in place of an outcome.
    pub(crate) fn defer(&self, recipe: Arc<dyn Recompute>) {
        *self.recipe() = Some(recipe);
    }

    fn recipe(&self) -> MutexGuard<'_, Option<Arc<dyn Recompute>>> {
        // A panic while a recipe is followed leaves it in place, to be followed again.
        self.recipe.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Records that the value is read or is an argument of an operation.
    pub(crate) fn note_read(&self) {
        if let Some(watch) = self.state.get().and_then(|s| s.watch.as_ref()) {
            watch.read();
        }
    }

    /// Takes the storage out of a value that only the caller can reach.
    pub(crate) fn take_storage(&mut self) -> Option<Storage> {
        match self.state.take() {
            Some(resolved) => resolved.outcome.ok(),
            None => None,
        }
    }

    /// Drops the outcome and the recipe, so that the value can be reused. Always returns true, for use in a condition.
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

    /// Whether the value is pending in the stream that recorded it: it has neither an outcome nor a recipe.
    pub(crate) fn is_pending(&self) -> bool {
        // A thread that follows a recipe holds this lock until the value is resolved. So a value without a recipe is
        // resolved by now, or pending.
        let recipe = self.recipe();
        recipe.is_none() && !self.is_resolved()
    }

    /// Recipe whose operations can be recorded again, if its segment left one.
    pub(crate) fn recompute_recipe(&self) -> Option<Arc<dyn Recompute>> {
        self.recipe().as_ref().filter(|r| r.recomputation().is_some()).cloned()
    }

    /// Whether anything holds the value except `own` references and tapes, and whether a tape holds it. A concurrent
    /// change in another thread may show in one answer and not in the other; no value depends on that.
    pub(crate) fn holders(self: &Arc<Value>, own: usize) -> (bool, bool) {
        let kept = self.kept.load(Relaxed) as usize;
        (Arc::strong_count(self) > own + kept, kept > 0)
    }

    /// Computes the value by its recipe, if it has one, and drops the recipe.
    pub(crate) fn follow_recipe(&self) {
        let mut recipe = self.recipe();
        if let Some(r) = &*recipe {
            let Remade { outcome, checks, watch } = r.make(self.index as usize);
            self.resolve_watched(outcome, checks, watch);
            // The recipe's inputs are dropped with it.
            *recipe = None;
        }
    }

    /// Storage of a value that its stream has run, after its deferred checks have passed.
    ///
    /// # Errors
    /// The error that prevented the value.
    pub(crate) fn outcome(&self) -> Result<Storage, Error> {
        self.note_read();
        note_data_read();
        if let Some(checks) = self.checks() {
            checks.resolve()?;
        }
        match self.state() {
            Some(Ok(storage)) => Ok(storage.clone()),
            Some(Err(error)) => {
                clear_pending_error(error);
                Err(error.clone())
            }
            None => Err(Error::Value("the stream that was to compute this value is gone".into())),
        }
    }

    /// The elements of a value that its stream has run, row-major, as bytes of the dtype in the machine's order.
    ///
    /// # Errors
    /// The error that prevented the value or its copy.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; self.nbytes()];
        self.copy_to(&mut out)?;
        Ok(out)
    }

    /// As [`Value::bytes`], into a buffer of exactly that size.
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
        // Reads only the range between the view's first and last element: somebody may want the last element of a large
        // tensor.
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
