//! Lifetimes: results that nobody reads are not written.
//!
//! Whoever writes `let y = f(&x); let z = g(&y);` holds `y` until the end of its scope, so `y` is live when `z` is
//! read, and would be written to memory for nobody. A pattern remembers what became of its live results ([`History`]):
//! of those that were dropped unread every time, at least twice, no more is written. Such a value is *deferred*: it
//! keeps a [`Recipe`], and in the rare case that somebody asks for it after all, the segment is run once more by the
//! very plan that would have written it, so the value is the same to the bit; and the pattern writes it from then on.
//!
//! Always true: what a read asks for is written, and what is still held when [`crate::synchronize`] is called is computed. A recipe keeps the segment's inputs alive;
//! where nobody else does, these are no more bytes than were saved, and all recipes together keep at most
//! 256 MiB. `THALWEG_DEFER=off` or [`set_deferring`] turns it off.

use crate::DeviceRef;
use crate::first_sight::tiers;
use crate::history::{History, Watch};
use crate::index_error::{Outcomes, outcomes};
use crate::mode::Mode;
use crate::outside::Outside;
use crate::setting::{Setting, setting};
use crate::site::Site;
use crate::store::Entry;
use crate::tunable::TUNABLES;
use crate::value::{Recompute, Remade, Value};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use thalweg_fusion::{BitSet, OwnedSegment};
use thalweg_runtime::{Error, count};

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
    /// In which mode it was recorded, on which stream.
    pub recorded: (Mode, u32),
    pub segment: OwnedSegment,
    pub sizes: Vec<i64>,
    pub sites: Box<[(u32, Site)]>,
    pub entry: Arc<Entry>,
    pub inputs: Vec<Arc<Value>>,
    /// The operations that were deferred, and who wants to know whether they are read.
    pub deferred: BitSet,
    pub history: Arc<History>,
    /// Bytes of inputs that nothing else keeps.
    pub kept: usize,
    /// Whether no run before says that these are dropped unread.
    guess: bool,
    /// What became of the deferred results, once one was asked for.
    made: OnceLock<Outcomes>,
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipe({} operations, {} inputs)", self.segment.ops.len(), self.inputs.len())
    }
}

impl Recipe {
    /// The recipe, if what it keeps is little enough.
    pub fn new(
        (device, recorded, entry): (DeviceRef, (Mode, u32), Arc<Entry>),
        (segment, sizes, sites): (OwnedSegment, Vec<i64>, &[(u32, Site)]),
        inputs: Vec<Arc<Value>>,
        (deferred, history, kept): (BitSet, Arc<History>, usize),
        guess: bool,
    ) -> Option<Arc<Recipe>> {
        let before = KEPT.fetch_add(kept, Relaxed);
        let (sites, made) = (sites.into(), OnceLock::new());
        // Gives the bytes back when it is dropped.
        let recipe =
            Recipe { device, recorded, segment, sizes, sites, entry, inputs, deferred, history, kept, guess, made };
        (TUNABLES.max_recipe_bytes.admits(before + kept)).then(|| Arc::new(recipe))
    }

    fn run(&self) -> Outcomes {
        count(|c| c.values_recomputed += self.deferred.count() as u64);
        let segment = self.segment.as_segment();
        let outside = Outside { device: self.device, recorded: self.recorded, segment, sites: &self.sites };
        outcomes(&outside, &self.entry, &self.sizes, self.inputs.clone(), &self.deferred)
    }
}

/// A deferred result, as its value knows of it: it is there for as long as somebody holds the value and nobody has asked
/// for it.
#[derive(Debug)]
pub(crate) struct DeferredValue {
    pub recipe: Arc<Recipe>,
    pub operation: usize,
}

impl DeferredValue {
    /// Computes the result for whoever waits for all that is held. The pattern writes it from then on.
    ///
    /// # Errors
    /// What kept it from being computed.
    pub fn demand(&self) -> Result<(), Error> {
        let Remade { outcome, watch, .. } = self.make(self.operation);
        watch.iter().for_each(Watch::read);
        outcome.map(|_| ())
    }
}

impl Recompute for DeferredValue {
    fn make(&self, operation: usize) -> Remade {
        let made = self.recipe.made.get_or_init(|| self.recipe.run());
        let outcome = made[operation].clone().expect("only deferred operations are asked for");
        Remade { outcome, checks: None, watch: Some(Watch::new(&self.recipe.history, operation)) }
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
