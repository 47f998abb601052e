//! Captured segments: recorded once, submitted any number of times.
//!
//! In: everything that the calling thread recorded on a device since a capture began, with its operands and results.
//! Out: a [`CapturedSegment`]. Submitting it puts the operations into the stream as a whole and runs them at once: no
//! handle of an intermediate exists, so a submission costs a constant, plus some nanoseconds for each operand, result,
//! scalar and integer. Always true: a submission computes what recording the operations one by one and reading all
//! results would, by the same plan. Where that is not certain, there is no captured segment, or
//! [`submit`](crate::submit()) does nothing and returns `None`; the caller records as usual.

use crate::DeviceRef;
use crate::data_reads::data_reads;
use crate::mode::Mode;
use crate::site::Site;
use crate::template::Mark;
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_fusion::BitSet;
use thalweg_ir::{DType, Op, RelOp, Shape, View};

/// Beginning of a capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureBegin {
    pub(crate) mark: Mark,
    reads: u64,
}

impl CaptureBegin {
    pub(crate) fn new(mark: Mark) -> CaptureBegin {
        CaptureBegin { mark, reads: data_reads() }
    }

    /// Whether the thread has looked at data since.
    pub(crate) fn has_read(&self) -> bool {
        self.reads != data_reads()
    }
}

/// Source of an input or a result of a captured segment.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Operand with that index.
    Operand(u32),
    /// Result of the operation with that index.
    Op(u32),
    /// Value that exists already: a table that a function computed on the host.
    Constant(Arc<Value>),
}

/// Dtype and layout of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OperandKind {
    pub dtype: DType,
    pub view: View,
}

impl OperandKind {
    /// Kind of a computed value on that device; `None` for any other.
    pub fn of(value: &Value, device: DeviceRef) -> Option<OperandKind> {
        match value.state() {
            Some(Ok(storage)) if value.device() == device => {
                Some(OperandKind { dtype: value.dtype(), view: storage.view })
            }
            _ => None,
        }
    }
}

/// Lists of a segment that a recorder takes over while the segment runs.
#[derive(Clone, Debug)]
pub(crate) struct SegmentLists {
    pub ops: Vec<RelOp>,
    /// Placeholders with the shapes and dtypes of the results. Nobody else holds them, so they stay pending.
    pub values: Vec<Arc<Value>>,
    pub ints: Vec<i64>,
}

/// Segment to be submitted any number of times, from [`end_capture`](crate::end_capture()). Any thread may submit it.
#[derive(Debug)]
pub struct CapturedSegment {
    pub(crate) device: DeviceRef,
    pub(crate) mode: Mode,
    /// Number of operations.
    count: usize,
    /// Lists for the next submission; `None` while a submission uses them.
    lists: Mutex<Option<Box<SegmentLists>>>,
    /// Copy for a submission by another thread meanwhile.
    copy: SegmentLists,
    pub(crate) scalars: Vec<u64>,
    /// Indices of the scalars that are keys of random numbers.
    keys: Vec<u32>,
    pub(crate) sites: Vec<(u32, Site)>,
    pub(crate) operands: Vec<OperandKind>,
    pub(crate) inputs: Vec<Source>,
    pub(crate) results: Vec<Source>,
    /// Integers, followed by sizes and layouts of the inputs: the key of an instance.
    pub(crate) sizes: Vec<i64>,
    /// Operations whose results are returned.
    pub(crate) live: BitSet,
    /// Recognizer's node after the last operation, with the number of that recognizer; 0 before the first submission.
    pub(crate) node: AtomicU64,
}

/// Lists that a recorder holds when a capture ends.
pub(crate) struct Captured<'a> {
    pub device: DeviceRef,
    pub mode: Mode,
    pub ops: &'a [RelOp],
    pub values: &'a [Arc<Value>],
    pub ints: &'a [i64],
    pub scalars: &'a [u64],
    pub inputs: &'a [Option<Arc<Value>>],
    pub input_sizes: &'a [i64],
    pub sites: &'a [(u32, Site)],
}

impl CapturedSegment {
    /// Segment of a recorder's lists. `None` if an operand is given twice or has no value yet, or a result or an input
    /// comes from elsewhere.
    pub(crate) fn of(c: &Captured<'_>, operands: &[&Arc<Value>], results: &[&Arc<Value>]) -> Option<CapturedSegment> {
        let kinds = operands.iter().map(|v| OperandKind::of(v, c.device)).collect::<Option<Vec<_>>>()?;
        let mut indices: FxHashMap<*const Value, u32> = FxHashMap::default();
        for (i, v) in operands.iter().enumerate() {
            if indices.insert(Arc::as_ptr(v), i as u32).is_some() {
                return None;
            }
        }
        let outside = |v: &Arc<Value>| match indices.get(&Arc::as_ptr(v)) {
            Some(&i) => Some(Source::Operand(i)),
            None => matches!(v.state(), Some(Ok(_))).then(|| Source::Constant(v.clone())),
        };
        let inputs = c.inputs.iter().map(|v| outside(v.as_ref()?)).collect::<Option<Vec<_>>>()?;
        let mut live = BitSet::new(c.ops.len());
        let mut source = |v: &&Arc<Value>| {
            let at = v.index as usize;
            if c.values.get(at).is_some_and(|own| Arc::ptr_eq(own, v)) {
                live.insert(at);
                return Some(Source::Op(at as u32));
            }
            outside(v)
        };
        let results = results.iter().map(&mut source).collect::<Option<Vec<_>>>()?;
        // One placeholder for all results of a kind.
        let mut placeholders: FxHashMap<(Shape, DType), Arc<Value>> = FxHashMap::default();
        let mut placeholder = |v: &Arc<Value>| {
            let new = || Arc::new(Value::pending(*v.shape(), v.dtype(), c.device, v.stream, 0, 0));
            placeholders.entry((*v.shape(), v.dtype())).or_insert_with(new).clone()
        };
        let values = c.values.iter().map(&mut placeholder).collect();
        let mut keys = vec![];
        let mut at = 0;
        for op in c.ops {
            let scalars = op.args().filter(|a| *a == thalweg_ir::Arg::Scalar).count();
            if matches!(op.op, Op::Random(_)) {
                keys.push(at);
            }
            at += scalars as u32;
        }
        let copy = SegmentLists { ops: c.ops.to_vec(), values, ints: c.ints.to_vec() };
        Some(CapturedSegment {
            device: c.device,
            mode: c.mode,
            count: c.ops.len(),
            lists: Mutex::new(Some(Box::new(copy.clone()))),
            copy,
            scalars: c.scalars.to_vec(),
            keys,
            sites: c.sites.to_vec(),
            operands: kinds,
            inputs,
            results,
            sizes: [c.ints, c.input_sizes].concat(),
            live,
            node: AtomicU64::new(0),
        })
    }

    /// Number of operations.
    pub fn operations(&self) -> usize {
        self.count
    }

    /// Whether a computed value is stored in memory of a constant, which later submissions read: nobody may write it.
    pub fn holds(&self, value: &Value) -> bool {
        let address = |v: &Value| match v.state() {
            Some(Ok(storage)) => Some((storage.buffer.address().addr(), storage.buffer.bytes())),
            _ => None,
        };
        let constants = self.inputs.iter().chain(&self.results).filter_map(|source| match source {
            Source::Constant(v) => address(v),
            _ => None,
        });
        let inside = |(start, bytes): (usize, usize)| {
            address(value).is_some_and(|(at, _)| (start..start + bytes.max(1)).contains(&at))
        };
        constants.into_iter().any(inside)
    }

    /// Keys of the random numbers that the segment draws, in order. A submission takes new ones.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        self.keys.iter().map(|&at| self.scalars[at as usize])
    }

    /// Index of the scalar of each key.
    pub(crate) fn key_indices(&self) -> &[u32] {
        &self.keys
    }

    /// Whether operands have the dtypes and layouts of the captured ones, and are computed.
    pub(crate) fn accepts(&self, operands: &[&Arc<Value>]) -> bool {
        let same = |(kind, v): (&OperandKind, &&Arc<Value>)| OperandKind::of(v, self.device).as_ref() == Some(kind);
        self.operands.len() == operands.len() && self.operands.iter().zip(operands).all(same)
    }

    /// Takes the lists for a submission.
    pub(crate) fn take(&self) -> Box<SegmentLists> {
        let own = self.lists.lock().unwrap_or_else(PoisonError::into_inner).take();
        own.unwrap_or_else(|| Box::new(self.copy.clone()))
    }

    /// Returns the lists after a submission.
    pub(crate) fn put_back(&self, lists: Box<SegmentLists>) {
        *self.lists.lock().unwrap_or_else(PoisonError::into_inner) = Some(lists);
    }

    /// Placeholder of an operation's result.
    pub(crate) fn placeholder(&self, op: usize) -> &Arc<Value> {
        &self.copy.values[op]
    }

    /// The remembered node of a recognizer with that number.
    pub(crate) fn node_in(&self, recognizer: u32) -> Option<u32> {
        let node = self.node.load(Relaxed);
        (node >> 32 == u64::from(recognizer)).then_some(node as u32)
    }

    /// Remembers a recognizer's node.
    pub(crate) fn set_node(&self, recognizer: u32, node: u32) {
        self.node.store(u64::from(recognizer) << 32 | u64::from(node), Relaxed);
    }
}
