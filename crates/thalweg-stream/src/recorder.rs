//! Recorder: appends operations in relative form, one after the other, and cuts segments.

mod batch;
mod deferral;
mod dense;
mod failures;
mod rematerialization;
mod running;
mod submission;

use crate::DeviceRef;
use crate::deferred::DeferredValue;
use crate::deferred_check::DeferredChecks;
use crate::hash::AddressHasher;
use crate::index_error::Sorted;
use crate::mode::{Mode, PackedMode};
use crate::pending_error::set_pending_error;
use crate::recognizer::Recognizer;
use crate::rematerialization::Decision;
use crate::report;
use crate::site::{Site, take_site};
use crate::tunable::TUNABLES;
use crate::value::{Operand, Value, is_elsewhere};
use dense::OpHeader;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use thalweg_fusion::{BitSet, Segment, independent_turns, period};
use thalweg_ir::{Arg, DType, InputKind, MAX_ARGS, Op, RelArg, RelOp, Shape, View};
use thalweg_runtime::count;

/// Number of waiting operations at which a cut is considered for the first time.
fn first_check() -> usize {
    TUNABLES.min_period_operations.size().min(TUNABLES.max_operations.get())
}

/// Counter that numbers segments over all streams: a segment's number is its epoch.
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);

/// Reason for a cut, which determines the results that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// All live results: somebody waits for them.
    All,
    /// A value that is read.
    Value {
        /// Epoch of the segment that the value was recorded in.
        epoch: u64,
        /// Index of the value's operation in that segment.
        index: u32,
    },
    /// No result yet: the cut is due to a repeating loop, or to much waiting memory.
    Nothing,
}

/// Outcome of recording an operation.
pub(crate) enum Recorded {
    /// The result of the operation.
    Value(Arc<Value>),
    /// Nothing was recorded: an argument has to be computed by another stream than this one, whose id it is.
    Elsewhere(u32),
}

/// Shapes of results, and dtypes and layouts of inputs, which a [`Segment`] borrows. They are computed at a cut, not
/// stored while recording.
type Laid = (Vec<Shape>, Vec<(DType, View)>);

/// Operation as it was recorded.
#[derive(Clone, Debug)]
pub struct RecordedOp {
    /// The operation.
    pub op: Op,
    /// Attribute of the operation; see [`RelOp::attr`].
    pub attr: u32,
    /// Integer arguments.
    pub ints: Vec<i64>,
    /// Tensor and scalar arguments, in order.
    pub args: Vec<RecordedArg>,
}

/// Argument of a recorded operation.
#[derive(Clone, Debug)]
pub enum RecordedArg {
    /// Value of a tensor.
    Value(Arc<Value>),
    /// Scalar, encoded by [`thalweg_ir::Scalar::to_bits`].
    Scalar(u64),
}

/// Operations that one stream has recorded since its last cut.
pub(crate) struct Recorder {
    stream: u32,
    device: DeviceRef,
    mode: Mode,
    /// `mode`, as operations bring it.
    packed: PackedMode,
    epoch: u64,
    recognizer: Recognizer,
    ops: Vec<RelOp>,
    values: Vec<Arc<Value>>,
    ints: Vec<i64>,
    scalars: Vec<u64>,
    inputs: Vec<Option<Arc<Value>>>,
    input_numbers: HashMap<usize, u32, BuildHasherDefault<AddressHasher>>,
    /// Sizes of the inputs, in order. For inputs that are not row-major, also strides and offset.
    input_sizes: Vec<i64>,
    input_bytes: usize,
    /// Threshold of `input_bytes` above which the bytes of inputs that nobody else holds are counted.
    input_limit: usize,
    check_at: usize,
    cut_at: usize,
    /// Whether to cut before the next operation. Not right after the last one, since the code that recorded it still
    /// holds its arguments.
    cut_next: bool,
    /// Number of operations of a loop's independent iterations, if the loop is still being recorded. An operation that
    /// reads one of their results begins a new iteration of an outer loop.
    turns: usize,
    /// Free list of values that died with their segment, as most do, for reuse by the next one. They are freed in
    /// batches larger than an allocator caches.
    spare: Vec<Arc<Value>>,
    /// Indices of operations that recompute values which earlier segments dropped.
    again: Vec<u32>,
    /// Decision about values that only a gradient tape holds, while the segment runs.
    decision: Option<Arc<Decision>>,
    /// Deferred results of earlier segments. A weak reference is alive while somebody holds the value.
    held: Vec<Weak<DeferredValue>>,
    /// Deferred checks of results since the last `synchronize`.
    checks: Vec<Weak<DeferredChecks>>,
    /// Whether the segment contains windows.
    has_windows: bool,
    /// Whether the segment is being captured. It comes again as a whole, so it is not cut where a loop repeats itself.
    capturing: bool,
    /// Call sites of the segment's gathers, scatters and foreign operations.
    sites: Vec<(u32, Site)>,
    /// Dtype and layout of each input, and the input itself if others hold it. Set while a segment with call sites
    /// runs, because the run releases inputs.
    saved: Vec<(DType, View, Option<Arc<Value>>)>,
    // Scratch buffers kept for their allocation. `live`: reachable results; `kept`: results held by a tape alone;
    // `planned`: results to write.
    live: BitSet,
    kept: BitSet,
    planned: BitSet,
    sizes: Vec<i64>,
    own: Vec<usize>,
}

impl Recorder {
    pub fn new(stream: u32, device: DeviceRef, mode: Mode) -> Recorder {
        let mut recognizer = Recognizer::new();
        recognizer.restart(mode.index());
        Recorder {
            stream,
            device,
            mode,
            packed: mode.into(),
            epoch: NEXT_EPOCH.fetch_add(1, Relaxed),
            recognizer,
            ops: Vec::new(),
            values: Vec::new(),
            ints: Vec::new(),
            scalars: Vec::new(),
            inputs: Vec::new(),
            input_numbers: HashMap::default(),
            input_sizes: Vec::new(),
            input_bytes: 0,
            input_limit: TUNABLES.max_input_bytes.get(),
            check_at: first_check(),
            cut_at: usize::MAX,
            cut_next: false,
            turns: 0,
            spare: Vec::new(),
            again: Vec::new(),
            decision: None,
            held: Vec::new(),
            checks: Vec::new(),
            has_windows: false,
            capturing: false,
            sites: Vec::new(),
            saved: Vec::new(),
            live: BitSet::default(),
            kept: BitSet::default(),
            planned: BitSet::default(),
            sizes: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Records an operation. Its pending arguments all belong to this stream.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the parts of one operation, on the hottest path")]
    pub fn record(
        &mut self,
        mode: PackedMode,
        op: Op,
        dtype: DType,
        shape: &Shape,
        attr: u32,
        args: &[Operand<'_>],
        ints: &[i64],
    ) -> Recorded {
        if mode != self.packed {
            self.change_mode(mode.into());
        }
        if self.cut_next || self.turns > 0 && self.comes_round(args) {
            self.cut(Wanted::Nothing);
        }
        // Checked under the lock and after a cut for a new mode, since another thread or that cut may resolve an
        // argument until then.
        for (n, arg) in args.iter().enumerate() {
            if let Operand::Value(v) = arg
                && v.epoch != self.epoch
                && !matches!(v.state(), Some(Ok(s)) if dense::reads(op, n, &s.view))
            {
                return self.record_otherwise(OpHeader { mode: self.mode, op, dtype, shape: *shape, attr, ints }, args);
            }
        }
        let mut rel = RelOp { op, dtype, rank: shape.rank() as u8, attr, args: [RelArg::NONE; MAX_ARGS] };
        for (to, arg) in rel.args.iter_mut().zip(args) {
            *to = match arg {
                Operand::Value(v) if v.epoch == self.epoch => RelArg::op(v.index as usize),
                Operand::Value(v) => self.input(v),
                Operand::Scalar(bits) => {
                    self.scalars.push(*bits);
                    RelArg::SCALAR
                }
            };
        }
        debug_assert_eq!(rel.int_count(), ints.len(), "{}", op.name());
        self.ints.extend_from_slice(ints);
        let value = self.next_value(self.ops.len(), shape, dtype);
        if op.info().may_fail()
            && let Some(site) = take_site()
        {
            self.sites.push((self.ops.len() as u32, site));
        }
        self.has_windows |= op.info().windows;
        self.ops.push(rel);
        self.values.push(value.clone());
        let cut = self.recognizer.step(&rel);
        if cut || self.ops.len() >= self.check_at || self.input_bytes > self.input_limit {
            self.maybe_cut(cut);
        }
        Recorded::Value(value)
    }

    /// Records an operation one of whose arguments is not pending here, is no result in memory, or has a layout that the
    /// operation does not take.
    #[cold]
    fn record_otherwise(&mut self, header: OpHeader<'_>, args: &[Operand<'_>]) -> Recorded {
        match args.iter().any(|arg| is_elsewhere(arg, self.stream)) {
            true => Recorded::Elsewhere(self.stream),
            false => Recorded::Value(self.record_here(header, args)),
        }
    }

    /// Like [`Recorder::record_otherwise`], for an argument that no other stream is to compute.
    fn record_here(&mut self, header: OpHeader<'_>, args: &[Operand<'_>]) -> Arc<Value> {
        for (n, arg) in args.iter().enumerate() {
            if let Operand::Value(v) = arg
                && v.epoch != self.epoch
            {
                // Value that an earlier segment dropped or deferred.
                if v.state().is_none() {
                    return self.record_from_left(header, args);
                }
                if matches!(v.state(), Some(Ok(s)) if !dense::reads(header.op, n, &s.view)) {
                    return self.record_dense(header, args);
                }
                let Some(Err(error)) = v.state() else { continue };
                return Value::failed(self.device, error.poisoned(), header.shape, header.dtype);
            }
        }
        // Another thread has resolved the argument meanwhile.
        self.record_local(header, args)
    }

    /// Records an operation whose arguments no other stream is to compute.
    fn record_local(&mut self, header: OpHeader<'_>, args: &[Operand<'_>]) -> Arc<Value> {
        let OpHeader { mode, op, dtype, shape, attr, ints } = header;
        match self.record(mode.into(), op, dtype, &shape, attr, args, ints) {
            Recorded::Value(value) => value,
            Recorded::Elsewhere(_) => self.record_here(header, args),
        }
    }

    /// Makes a pending value for the operation at index `at`, from a spare value if there is one.
    #[inline]
    fn next_value(&mut self, at: usize, shape: &Shape, dtype: DType) -> Arc<Value> {
        let index = at as u32;
        match self.spare.pop() {
            Some(mut spare) => {
                let value = Arc::get_mut(&mut spare).expect("nobody else has it");
                value.reset(shape, dtype, self.device, (self.stream, self.epoch, index));
                spare
            }
            None => Arc::new(Value::pending(*shape, dtype, self.device, self.stream, self.epoch, index)),
        }
    }

    /// Recorded operation whose result is `value`, if the value is pending here.
    pub fn made(&self, value: &Value) -> Option<RecordedOp> {
        if value.epoch != self.epoch {
            return None;
        }
        let at = value.index as usize;
        let (rel, behind) = (&self.ops[at], &self.ops[at + 1..]);
        let scalars = |op: &RelOp| op.args().filter(|a| *a == Arg::Scalar).count();
        let last = |all: usize, count: &dyn Fn(&RelOp) -> usize| {
            let end = all - behind.iter().map(count).sum::<usize>();
            end - count(rel)..end
        };
        let mut scalars = self.scalars[last(self.scalars.len(), &scalars)].iter();
        let mut args = vec![];
        for arg in rel.args() {
            args.push(match arg {
                Arg::Op(n) => RecordedArg::Value(self.values[n].clone()),
                Arg::Input(n) => RecordedArg::Value(self.inputs[n].clone()?),
                _ => RecordedArg::Scalar(*scalars.next()?),
            });
        }
        let ints = self.ints[last(self.ints.len(), &RelOp::int_count)].to_vec();
        Some(RecordedOp { op: rel.op, attr: rel.attr, ints, args })
    }

    /// Whether an operation recorded since the last cut gives windows.
    pub fn has_windows(&self) -> bool {
        self.has_windows
    }

    /// Whether an argument is a result of an early, independent iteration of a loop, so that an outer loop begins its
    /// next iteration. Marks the recognizer's node, so that later runs cut here too.
    fn comes_round(&mut self, args: &[Operand<'_>]) -> bool {
        let early = |v: &Value| v.epoch == self.epoch && (v.index as usize) < self.turns;
        let round = args.iter().any(|a| matches!(a, Operand::Value(v) if early(v)));
        if round {
            self.recognizer.cut_here();
        }
        round
    }

    #[cold]
    fn change_mode(&mut self, mode: Mode) {
        self.cut(Wanted::Nothing);
        (self.mode, self.packed) = (mode, mode.into());
        self.recognizer.restart(mode.index());
    }

    /// Returns the input argument for a value that existed before this segment; adds the input at its first use.
    #[inline]
    fn input(&mut self, v: &Arc<Value>) -> RelArg {
        let number = match v.hint(self.epoch) {
            Some(n) if self.is_input(n, v) => n,
            _ => self.find_input(v),
        };
        let contiguous = matches!(v.state(), Some(Ok(s)) if s.view.is_contiguous());
        RelArg::input(number, InputKind { dtype: v.dtype(), rank: v.shape().rank(), contiguous })
    }

    fn is_input(&self, n: usize, v: &Arc<Value>) -> bool {
        self.inputs.get(n).is_some_and(|i| i.as_ref().is_some_and(|i| Arc::ptr_eq(i, v)))
    }

    fn find_input(&mut self, v: &Arc<Value>) -> usize {
        v.note_read();
        let new = self.inputs.len();
        let number = *self.input_numbers.entry(Arc::as_ptr(v) as usize).or_insert(new as u32) as usize;
        if number == new {
            self.inputs.push(Some(v.clone()));
            self.input_sizes.extend(v.shape().iter().map(|&d| d as i64));
            if let Some(Ok(storage)) = v.state() {
                self.input_bytes += storage.buffer.bytes();
                if !storage.view.is_contiguous() {
                    self.input_sizes.extend(storage.view.strides().iter().map(|&s| s as i64));
                    self.input_sizes.push(storage.view.offset as i64);
                }
            }
        }
        v.set_hint(self.epoch, number);
        number
    }

    /// Decides about a cut if the recognizer asks for one, or if many operations or input bytes wait.
    #[cold]
    fn maybe_cut(&mut self, known: bool) {
        let n = self.ops.len();
        let most = TUNABLES.max_operations.get();
        if self.input_bytes > self.input_limit && !TUNABLES.max_input_bytes.admits(self.own_input_bytes()) {
            return self.cut(Wanted::Nothing);
        }
        // Memory that others hold anyway is no reason to cut: operations over one large tensor fuse like any others.
        while self.input_bytes > self.input_limit {
            self.input_limit += TUNABLES.max_input_bytes.get();
        }
        if known && !self.capturing || n >= self.cut_at || TUNABLES.max_operations.reached_by(n) {
            self.recognizer.cut_here();
            self.cut_next = true;
            return;
        }
        if n >= self.check_at && self.cut_at == usize::MAX {
            // Searched once for a sequence: some nanoseconds an operation.
            let found = if self.recognizer.is_aperiodic() { None } else { period(&self.ops) };
            let Some(p) = found else {
                self.recognizer.set_aperiodic();
                self.check_at = (2 * self.check_at).min(most);
                return;
            };
            // Cut after whole iterations, so that the next segment starts at the same point of the loop.
            self.cut_at = match independent_turns(&self.ops, p) {
                Some(begun) => {
                    self.turns = n - begun;
                    n - begun + most.saturating_sub(n - begun) / p * p
                }
                None => n.div_ceil(p) * p,
            };
            self.check_at = self.cut_at;
            if self.cut_at == n {
                self.maybe_cut(false);
            }
        }
    }

    /// Bytes of inputs that only this segment holds.
    fn own_input_bytes(&self) -> usize {
        let own = self.inputs.iter().flatten().filter(|v| Arc::strong_count(v) == 1);
        own.filter_map(|v| v.state()).flatten().map(|s| s.buffer.bytes()).sum()
    }

    /// Whether nobody outside of the recorder holds a pending value.
    pub fn is_unwanted(&self) -> bool {
        self.values.iter().all(|v| Arc::strong_count(v) == 1)
    }

    /// Cuts the stream: runs what was recorded and begins a new segment.
    pub fn cut(&mut self, wanted: Wanted) {
        if !self.ops.is_empty() {
            self.find_live(wanted);
            self.run_segment(wanted);
        }
        self.note_checks();
        let room = TUNABLES.max_spare_values.size().saturating_sub(self.spare.len());
        let dead =
            self.values.drain(..).filter_map(|mut v| Arc::get_mut(&mut v).is_some_and(Value::empty).then_some(v));
        self.spare.extend(dead.take(room));
        self.begin_segment();
    }

    /// Runs the recorded operations, whose live results are known, and resolves these.
    fn run_segment(&mut self, wanted: Wanted) {
        report::cut(|| {
            self.planned.clone_from(&self.live);
            self.planned.union(&self.kept);
            let laid = self.laid_out();
            self.segment(&laid).to_owned()
        });
        let left = self.decide(wanted);
        self.planned.clone_from(&self.live);
        count(|c| {
            c.operations += self.ops.len() as u64;
            c.segments += 1;
        });
        // A panic is a defect of the library. Values that it leaves unresolved get the error, and the stream goes
        // on. Stages before the launches catch their own panics.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run(wanted)));
        let error = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(panic) => Some(self.panicked(&*panic)),
        };
        let sorted = error.as_ref().and_then(|e| self.sort_out(e));
        let error = error.filter(|e| sorted.is_some() || !self.run_unfused(e));
        if let Some(error) = &error {
            count(|c| c.failed_segments += 1);
            // The error of the failing operation has the caller's line, if it was found.
            let found = sorted.as_ref().and_then(|s| s.errors.iter().flatten().next());
            set_pending_error(found.unwrap_or(error).clone());
        }
        if let Some(Sorted { errors, made }) = sorted {
            for (i, made) in made {
                self.values[i].resolve(made);
            }
            for i in self.live.iter() {
                if let Some(error) = &errors[i] {
                    self.values[i].resolve(Err(error.clone()));
                }
            }
            for (i, recipe) in left {
                match &errors[i] {
                    Some(error) => self.values[i].resolve(Err(error.clone())),
                    None => self.values[i].defer(recipe),
                }
            }
        } else if let Some(error) = error {
            tracing::warn!(%error, operations = self.ops.len(), "a segment failed");
            for i in self.live.iter().chain(left.iter().map(|l| l.0)) {
                self.values[i].resolve(Err(error.clone()));
            }
        } else {
            left.into_iter().for_each(|(i, recipe)| self.values[i].defer(recipe));
        }
    }

    /// Forgets the operations and begins a new segment.
    fn begin_segment(&mut self) {
        self.ops.clear();
        self.decision = None;
        self.sites.clear();
        self.has_windows = false;
        self.capturing = false;
        self.saved.clear();
        self.again.clear();
        self.ints.clear();
        self.scalars.clear();
        self.inputs.clear();
        self.input_numbers.clear();
        self.input_sizes.clear();
        self.input_bytes = 0;
        self.input_limit = TUNABLES.max_input_bytes.get();
        self.check_at = first_check();
        self.cut_at = usize::MAX;
        self.cut_next = false;
        self.turns = 0;
        self.epoch = NEXT_EPOCH.fetch_add(1, Relaxed);
        self.recognizer.restart(self.mode.index());
    }

    /// Finds the results that are still reachable, and those that only a tape holds.
    fn find_live(&mut self, wanted: Wanted) {
        let n = self.ops.len();
        self.live.reset(n);
        self.kept.reset(n);
        for (i, v) in self.values.iter().enumerate() {
            match v.holders(1) {
                (true, _) => self.live.insert(i),
                (false, true) => self.kept.insert(i),
                (false, false) => {}
            }
        }
        // A value that is read now must be written.
        if let Wanted::Value { epoch, index } = wanted
            && epoch == self.epoch
            && self.kept.has(index as usize)
        {
            self.kept.remove(index as usize);
            self.live.insert(index as usize);
        }
        self.sizes.clear();
        self.sizes.extend_from_slice(&self.ints);
        self.sizes.extend_from_slice(&self.input_sizes);
    }

    /// Shapes and layouts; see [`Laid`].
    fn laid_out(&self) -> Laid {
        let shapes = self.values.iter().map(|v| *v.shape()).collect();
        (shapes, self.inputs.iter().flatten().map(|v| (v.dtype(), view_of(v))).collect())
    }

    fn segment<'a>(&'a self, (shapes, inputs): &'a Laid) -> Segment<'a> {
        Segment {
            ops: &self.ops,
            live: &self.planned,
            mode: self.mode.planning(self.device.device().contracts()),
            shapes,
            ints: &self.ints,
            scalars: &self.scalars,
            inputs,
        }
    }
}

fn view_of(v: &Value) -> View {
    match v.state() {
        Some(Ok(storage)) => storage.view,
        _ => View::contiguous(*v.shape()),
    }
}
