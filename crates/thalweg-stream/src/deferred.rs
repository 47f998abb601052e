//! Deferred results: results that nobody reads are not written.
//!
//! After `let y = f(&x); let z = g(&y);` the caller holds `y` until the end of its scope. So `y` is live when `z` is
//! read, and would be written to memory for nobody. A pattern remembers the reads of its live results ([`History`]).
//! Results that were dropped unread every time, at least twice, are no longer written. Such a value is *deferred* and
//! keeps a [`Recipe`]. In the rare case that somebody asks for it after all, the segment runs again by the plan that
//! would have written it, so its value is the same to the bit. The pattern writes it from then on.
//!
//! Always true: a result that is read is computed, and every result still held at [`crate::synchronize`] is computed. A
//! recipe keeps the segment's inputs alive. Inputs that nobody else holds have no more bytes than deferring saved, and
//! all recipes together keep at most 256 MiB of them. `THALWEG_DEFER=off` or [`set_deferring`] turns deferral off.

use crate::DeviceRef;
use crate::cold_start::tiers;
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

/// Number of recipes made by a guess: of those whose values were dropped unread, and of those of which a value was
/// read.
static GUESSED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Whether results without history, neither read nor dropped unread before, may be deferred. True while most such
/// guesses are right: a reader has to wait for a wrong one.
pub(crate) fn guesses() -> bool {
    let [right, wrong] = [0, 1].map(|i| GUESSED[i].load(Relaxed));
    tiers() && 4 * wrong <= right + 8
}

/// Bytes of inputs that only recipes keep alive.
static RECIPE_INPUT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Recipe for unwritten results: the segment, its inputs, and the plan that writes all its live results.
pub(crate) struct Recipe {
    pub device: DeviceRef,
    /// Mode and stream id that the segment was recorded with.
    pub recorded: (Mode, u32),
    pub segment: OwnedSegment,
    pub sizes: Vec<i64>,
    pub sites: Box<[(u32, Site)]>,
    pub entry: Arc<Entry>,
    pub inputs: Vec<Arc<Value>>,
    /// Operations whose results were deferred. Their reads are reported to `history`.
    pub deferred: BitSet,
    pub history: Arc<History>,
    /// Bytes of inputs that only this recipe keeps alive.
    pub kept: usize,
    /// Whether the deferral is a guess: no earlier run shows that these results are dropped unread.
    guess: bool,
    /// Outcomes of the deferred results, set once one of them was asked for.
    made: OnceLock<Outcomes>,
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipe({} operations, {} inputs)", self.segment.ops.len(), self.inputs.len())
    }
}

impl Recipe {
    /// Creates a recipe, if all recipes together stay below their memory limit.
    pub fn new(
        (device, recorded, entry): (DeviceRef, (Mode, u32), Arc<Entry>),
        (segment, sizes, sites): (OwnedSegment, Vec<i64>, &[(u32, Site)]),
        inputs: Vec<Arc<Value>>,
        (deferred, history, kept): (BitSet, Arc<History>, usize),
        guess: bool,
    ) -> Option<Arc<Recipe>> {
        let before = RECIPE_INPUT_BYTES.fetch_add(kept, Relaxed);
        let (sites, made) = (sites.into(), OnceLock::new());
        // `Drop` subtracts the bytes again.
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

/// Reference to the recipe of one deferred result, held by its value. It lives while somebody holds the value and
/// nobody has asked for it.
#[derive(Debug)]
pub(crate) struct DeferredValue {
    pub recipe: Arc<Recipe>,
    pub operation: usize,
}

impl DeferredValue {
    /// Computes the result for `synchronize`. The pattern writes it from then on.
    ///
    /// # Errors
    /// The error that prevented the result.
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
        RECIPE_INPUT_BYTES.fetch_sub(self.kept, Relaxed);
        if self.guess {
            GUESSED[self.made.get().is_some() as usize].fetch_add(1, Relaxed);
        }
    }
}

const DEFERRING: Setting<bool> = setting!(bool, || !thalweg_runtime::environment::DEFER.is("off"));

/// Whether results of the calling thread that were never read are no longer written. On unless `THALWEG_DEFER=off`,
/// until it is set.
pub fn deferring() -> bool {
    DEFERRING.get()
}

/// Sets [`deferring`] for the calling thread and returns the old value.
pub fn set_deferring(on: bool) -> bool {
    DEFERRING.set(on)
}
