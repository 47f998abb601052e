//! Replays: a program's operations, captured at one run and submitted at later ones on other tensors.
//!
//! In: the inputs of a run. Out: its results, if an earlier run of equal numbers, dtypes and layouts was captured. Always
//! true: a submission gives what recording the instructions would. What a rule records depends on its arguments alone:
//! on numbers, and on dtypes, shapes and layouts of tensors, which are compared, and on settings, which are compared as
//! well. [`thalweg::Capture`] refuses a run that looked at data; the program refuses one in which PyTorch's kernels ran.

use super::order::OrderedResult;
use super::value::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg::{Capture, CapturedSegment, Device, Tensor};

/// Maximum number of captured runs of a program: shapes that take turns, such as the last batch of an epoch.
const MAX_CAPTURES: usize = 8;

/// Number of recent runs whose inputs are remembered: inputs that come again are captured the second time. Not more than
/// [`MAX_CAPTURES`], so that more shapes than that, one after the other, are not captured in vain.
const MAX_RECENT: usize = 8;

/// Whether runs are captured and replayed.
static REPLAYS: AtomicBool = AtomicBool::new(true);

/// Turns replays on or off, and returns whether they were on.
pub fn set_replays(on: bool) -> bool {
    REPLAYS.swap(on, Relaxed)
}

/// Settings of the calling program that rules look at: whether sums by an index are deterministic, and whether products
/// and convolutions may round to TF32.
pub type Settings = (bool, (bool, bool));

/// An input, as far as rules can see it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum InputKind {
    None,
    Int(i64),
    /// Bits of a float.
    Float(u64),
    Bool(bool),
    /// A tensor. The captured segment compares its dtype and layout.
    Tensor,
}

/// Inputs and settings of a run.
#[derive(Clone, PartialEq, Debug)]
struct Key {
    /// Hash of the inputs, dtypes and shapes of tensors included, and of the settings.
    hash: u64,
    inputs: Vec<InputKind>,
    settings: Settings,
}

impl Key {
    /// `None` for inputs that no tensor of Thalweg describes, and if replays are off.
    fn of(inputs: &[Value], settings: Settings) -> Option<Key> {
        if !REPLAYS.load(Relaxed) {
            return None;
        }
        let (deterministic, (products, convolutions)) = settings;
        let mut hash = u64::from(deterministic) | u64::from(products) << 1 | u64::from(convolutions) << 2;
        // Like FxHash: some nanoseconds for a tensor.
        let mut add = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        let mut kinds = Vec::with_capacity(inputs.len());
        for input in inputs {
            let (kind, word) = match input {
                Value::None => (InputKind::None, 0),
                Value::Int(v) => (InputKind::Int(*v), *v as u64),
                Value::Float(v) => (InputKind::Float(v.to_bits()), v.to_bits()),
                Value::Bool(v) => (InputKind::Bool(*v), u64::from(*v)),
                Value::Tensor(x) => {
                    x.dims().iter().for_each(|&d| add(d as u64));
                    (InputKind::Tensor, (x.rank() as u64) << 8 | x.dtype() as u64)
                }
                Value::Foreign(_) => return None,
            };
            kinds.push(kind);
            add(word);
        }
        Some(Key { hash, inputs: kinds, settings })
    }
}

/// Tensors among the inputs.
fn tensors(inputs: &[Value]) -> Vec<&Tensor> {
    inputs.iter().filter_map(|value| if let Value::Tensor(x) = value { Some(x) } else { None }).collect()
}

/// Captured run.
pub struct Replay {
    key: Key,
    /// Operations of the run.
    pub segment: CapturedSegment,
    /// Results of the program. `Ok`: the next result of the segment, with the order of its dimensions.
    results: Vec<Result<Vec<usize>, Value>>,
}

/// Captured runs of a program.
#[derive(Default)]
pub struct Replays(Mutex<State>);

#[derive(Default)]
struct State {
    /// The most recently used first.
    captured: Vec<Arc<Replay>>,
    /// Hashes of the inputs of recent runs that were recorded.
    recent: VecDeque<u64>,
    /// Hashes of the inputs of runs that could not be captured.
    refused: VecDeque<u64>,
}

/// Adds a hash in front of a list of the latest.
fn note(list: &mut VecDeque<u64>, hash: u64) {
    list.truncate(MAX_RECENT - 1);
    list.push_front(hash);
}

/// Capture of a run in progress.
pub struct RunCapture {
    key: Key,
    capture: Capture,
    operands: Vec<Tensor>,
}

impl Replays {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Results of a run on these inputs, computed, if a run like it was captured.
    pub fn submit(&self, inputs: &[Value], settings: Settings) -> Option<(Arc<Replay>, Vec<OrderedResult>)> {
        let key = Key::of(inputs, settings)?;
        let equal: Vec<Arc<Replay>> = self.lock().captured.iter().filter(|r| r.key == key).cloned().collect();
        let operands = tensors(inputs);
        // Several, if layouts differ.
        let (replay, results) = equal.iter().find_map(|r| Some((r, r.segment.submit(&operands)?)))?;
        let mut state = self.lock();
        if let Some(at) = state.captured.iter().position(|r| Arc::ptr_eq(r, replay)) {
            state.captured[..=at].rotate_right(1);
        }
        drop(state);
        let mut results = results.into_iter();
        let mut ordered = |result: &Result<Vec<usize>, Value>| match result {
            Ok(back) => OrderedResult::Tensor(results.next().expect("one for each tensor"), back.clone()),
            Err(value) => OrderedResult::Other(value.clone()),
        };
        let results = replay.results.iter().map(&mut ordered).collect();
        Some((replay.clone(), results))
    }

    /// Begins to capture a run on these inputs, if they came before.
    pub fn begin(&self, inputs: &[Value], settings: Settings, device: Device) -> Option<RunCapture> {
        let key = Key::of(inputs, settings)?;
        let mut state = self.lock();
        if state.refused.contains(&key.hash) {
            return None;
        }
        if !state.recent.contains(&key.hash) {
            note(&mut state.recent, key.hash);
            return None;
        }
        drop(state);
        let operands = tensors(inputs).into_iter().cloned().collect();
        Some(RunCapture { key, capture: Capture::begin(device)?, operands })
    }

    /// Ends a capture: the run has recorded everything, and nothing is computed yet. `eager`: PyTorch's kernels ran in it.
    pub fn end(&self, run: RunCapture, ordered: &[OrderedResult], eager: bool) -> Option<Arc<Replay>> {
        let RunCapture { key, capture, operands } = run;
        let tensor = |result: &OrderedResult| match result {
            OrderedResult::Tensor(x, _) => Some(x.clone()),
            OrderedResult::Other(_) => None,
        };
        let results: Vec<Tensor> = ordered.iter().filter_map(tensor).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let foreign = ordered.iter().any(|r| matches!(r, OrderedResult::Other(Value::Foreign(_))));
        let segment = match eager || foreign {
            true => None,
            false => capture.end(&operands, &results.iter().collect::<Vec<_>>()),
        };
        let Some(segment) = segment else {
            note(&mut self.lock().refused, key.hash);
            return None;
        };
        let kind = |result: &OrderedResult| match result {
            OrderedResult::Tensor(_, back) => Ok(back.clone()),
            OrderedResult::Other(value) => Err(value.clone()),
        };
        let replay = Arc::new(Replay { key, segment, results: ordered.iter().map(kind).collect() });
        let mut state = self.lock();
        state.captured.truncate(MAX_CAPTURES - 1);
        state.captured.insert(0, replay.clone());
        Some(replay)
    }
}
