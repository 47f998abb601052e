//! Lifetimes: results that nobody reads are not written.
//!
//! Whoever writes `let y = f(&x); let z = g(&y);` holds `y` until the end of its scope, so `y` is live when `z` is
//! read, and would be written to memory for nobody. A pattern remembers what became of its live results ([`History`]):
//! of those that were dropped unread every time, at least twice, no more is written. Such a value is *deferred*: it
//! keeps a [`Recipe`], and in the rare case that somebody asks for it after all, the segment is run once more by the
//! very plan that would have written it, so the value is the same to the bit; and the pattern writes it from then on.
//!
//! Always true: what a read or [`crate::synchronize`] asks for is written. A recipe keeps the segment's inputs alive;
//! where nobody else does, these are no more bytes than were saved, and all recipes together keep at most
//! [`MOST_BYTES`]. `THALWEG_DEFER=off` or [`set_deferring`] turns it off.

use crate::DeviceRef;
use crate::first_sight::tiers;
use crate::history::{History, Watch};
use crate::mode::{Mode, measuring};
use crate::run::{self, Timed};
use crate::setting::{Setting, setting};
use crate::store::{self, Entry};
use crate::value::{Recompute, Remade, Storage, Value};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use thalweg_fusion::{BitSet, OwnedSegment, Segment};
use thalweg_runtime::{Error, count};

/// Bytes of inputs that recipes alone keep alive, at most.
const MOST_BYTES: usize = 256 << 20;

/// Bytes of a result from which on it is worth guessing that nobody will read it.
pub(crate) const WORTH_GUESSING: usize = 256 << 10;

/// Recipes made by a guess whose values were dropped unread, and those that somebody read.
static GUESSED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Whether results that were never read, and never dropped unread either, may be left unwritten: while most such
/// guesses are right. Somebody has to wait for one that is wrong.
pub(crate) fn guesses() -> bool {
    let [right, wrong] = [0, 1].map(|i| GUESSED[i].load(Relaxed));
    tiers() && 4 * wrong <= right + 8
}

/// Bytes that recipes alone keep alive.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// How to compute what was not written: the segment, its inputs, and the plan that writes all its live results.
pub(crate) struct Recipe {
    pub device: DeviceRef,
    pub segment: OwnedSegment,
    pub sizes: Vec<i64>,
    pub entry: Arc<Entry>,
    pub inputs: Vec<Arc<Value>>,
    /// The operations that were deferred, and who wants to know whether they are read.
    pub deferred: BitSet,
    pub history: Arc<History>,
    /// Bytes of inputs that nothing else keeps.
    pub kept: usize,
    /// Whether no run before says that these are dropped unread.
    guess: bool,
    /// The deferred results, once one was asked for.
    made: OnceLock<Result<Vec<Option<Storage>>, Error>>,
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipe({} operations, {} inputs)", self.segment.ops.len(), self.inputs.len())
    }
}

impl Recipe {
    /// The recipe, if what it keeps is little enough.
    pub fn new(
        (device, entry): (DeviceRef, Arc<Entry>),
        (segment, sizes): (OwnedSegment, Vec<i64>),
        inputs: Vec<Arc<Value>>,
        (deferred, history, kept): (BitSet, Arc<History>, usize),
        guess: bool,
    ) -> Option<Arc<Recipe>> {
        let before = KEPT.fetch_add(kept, Relaxed);
        let made = OnceLock::new();
        // Gives the bytes back when it is dropped.
        let recipe = Recipe { device, segment, sizes, entry, inputs, deferred, history, kept, guess, made };
        (before + kept <= MOST_BYTES).then(|| Arc::new(recipe))
    }

    fn run(&self) -> Result<Vec<Option<Storage>>, Error> {
        count(|c| c.values_recomputed += self.deferred.count() as u64);
        let inputs = self.inputs.iter().cloned().map(Some).collect();
        run_alone(self.device, &self.entry, (self.segment.as_segment(), &self.sizes), inputs, &self.deferred)
    }
}

/// Runs a segment whose inputs somebody holds, outside of any stream, and gives those of its live results that are
/// wanted.
pub(crate) fn run_alone(
    device: DeviceRef,
    entry: &Arc<Entry>,
    (segment, sizes): (Segment<'_>, &[i64]),
    mut inputs: Vec<Option<Arc<Value>>>,
    wanted: &BitSet,
) -> Result<Vec<Option<Storage>>, Error> {
    let (ready, _) = entry.ready(device, segment, sizes)?;
    let ready = measuring().and(ready.autotuning.winner()).cloned().unwrap_or(ready);
    let fresh = |i: usize| {
        let (shape, dtype) = (segment.shapes[i], segment.ops[i].dtype);
        Arc::new(Value::pending(shape, dtype, device, crate::value::NO_STREAM, 0, i as u32))
    };
    let values: Vec<Arc<Value>> = (0..segment.ops.len()).map(fresh).collect();
    let found = ready.schedule(device, &vec![0; inputs.len()], || ready.lean(device, segment))?;
    let what = (segment.ops, &[][..]);
    run::run((&found.0, found.1), device, what, (&values, None), &mut inputs, segment.scalars, Timed::No)?;
    let made = |i: usize| wanted.has(i).then(|| values[i].outcome()).transpose();
    (0..values.len()).map(made).collect()
}

/// Runs a part of a segment, of which those results are wanted, on these inputs: see [`run_alone`].
pub(crate) fn run_part(
    device: DeviceRef,
    (mode, stream): (Mode, u32),
    part: OwnedSegment,
    inputs: Vec<Arc<Value>>,
    wanted: &BitSet,
) -> Result<Vec<Option<Storage>>, Error> {
    let mut segment = OwnedSegment { live: wanted.clone(), ..part };
    for (to, v) in segment.inputs.iter_mut().zip(&inputs) {
        *to = (v.dtype(), v.outcome()?.view);
    }
    segment.relink();
    let mut sizes = segment.ints.clone();
    for (_, view) in &segment.inputs {
        sizes.extend(view.shape.iter().map(|&d| d as i64));
        if !view.is_contiguous() {
            sizes.extend(view.strides().iter().map(|&s| s as i64));
            sizes.push(view.offset as i64);
        }
    }
    let entry = store::entry(device, (mode, stream), &segment.as_segment(), false);
    let inputs = inputs.into_iter().map(Some).collect();
    run_alone(device, &entry, (segment.as_segment(), &sizes), inputs, wanted)
}

impl Recompute for Recipe {
    fn make(&self, operation: usize) -> Remade {
        let outcome = match self.made.get_or_init(|| self.run()) {
            Ok(all) => Ok(all[operation].clone().expect("only deferred operations are asked for")),
            Err(error) => Err(error.clone()),
        };
        Remade { outcome, checks: None, watch: Some(Watch::new(&self.history, operation)) }
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.kept, Relaxed);
        if self.guess {
            GUESSED[self.made.get().is_some() as usize].fetch_add(1, Relaxed);
        }
    }
}

const DEFERRING: Setting<bool> = setting!(bool, || !thalweg_runtime::environment::DEFER.is("off"));

/// Whether results of the calling thread that were never read are no longer written: unless `THALWEG_DEFER=off`, until
/// set.
pub fn deferring() -> bool {
    DEFERRING.get()
}

/// Sets what [`deferring`] tells the calling thread, and returns what it was.
pub fn set_deferring(on: bool) -> bool {
    DEFERRING.set(on)
}
