//! Values that may yet turn out to be failed: a device that runs launches on its own tells of an index out of range, or of a
//! matrix that has no decomposition, only when it is asked.
//!
//! In: what a run's device left to be asked ([`Check`]), and the deferred checks of its inputs. Out: the error, when
//! somebody reads. Recording and running go on meanwhile, so that a gather costs no wait; what is computed from a value
//! not yet checked waits for the same checks.
//!
//! Always true: no byte of a value is given to anybody before every check of it has passed.

use crate::tunable::TUNABLES;
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use thalweg_runtime::{Check, Error, Found};

/// What to say of what a launch met.
pub type Tell = Box<dyn Fn(Found) -> Error + Send + Sync>;

/// What to say of what all launches met; `None` where that does not matter to who asks.
type TellOfAll = Box<dyn Fn(&[Found]) -> Option<Error> + Send + Sync>;

/// A run that may have met an index out of range, or a call that met a matrix that does not do.
pub(crate) struct DeferredCheck {
    check: Arc<dyn Check>,
    tell: TellOfAll,
    outcome: OnceLock<Result<(), Error>>,
    /// Whether somebody was given the error.
    told: AtomicBool,
}

impl std::fmt::Debug for DeferredCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeferredCheck({:?}, {:?})", self.check, self.outcome)
    }
}

impl DeferredCheck {
    /// What `tell` says of what this left.
    pub fn new(
        check: Arc<dyn Check>,
        tell: impl Fn(&[Found]) -> Option<Error> + Send + Sync + 'static,
    ) -> Arc<DeferredCheck> {
        Arc::new(DeferredCheck { check, tell: Box::new(tell), outcome: OnceLock::new(), told: AtomicBool::new(false) })
    }

    fn resolve(&self) -> &Result<(), Error> {
        self.outcome.get_or_init(|| (self.tell)(&self.check.outcome()?).map_or(Ok(()), Err))
    }

    /// The outcome for somebody who is given it.
    fn asked(&self) -> &Result<(), Error> {
        let outcome = self.resolve();
        if outcome.is_err() {
            self.told.store(true, Relaxed);
        }
        outcome
    }

    fn is_dispelled(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(())))
    }
}

/// The deferred checks of results.
#[derive(Debug)]
pub(crate) struct DeferredChecks {
    own: Option<Arc<DeferredCheck>>,
    /// Those about what they are computed from, the oldest first.
    inherited: Vec<Arc<DeferredCheck>>,
}

impl DeferredChecks {
    /// None where there is nothing to be checked.
    pub fn new(own: Option<Arc<DeferredCheck>>, inherited: Vec<Arc<DeferredCheck>>) -> Option<Arc<DeferredChecks>> {
        (own.is_some() || !inherited.is_empty()).then(|| Arc::new(DeferredChecks { own, inherited }))
    }

    /// Waits until it is known whether the results are what they should be.
    ///
    /// # Errors
    /// Why they are not.
    pub fn resolve(&self) -> Result<(), Error> {
        self.inherited.iter().try_for_each(|d| d.asked().as_ref().map(|_| ())).map_err(Error::poisoned)?;
        self.own.as_ref().map_or(Ok(()), |d| d.asked().clone())
    }

    /// The same for who waits for everything: of checks whose error nobody was given yet.
    ///
    /// # Errors
    /// The first of these errors.
    pub fn resolve_untold(&self) -> Result<(), Error> {
        let untold = |d: &&Arc<DeferredCheck>| !d.told.load(Relaxed);
        self.inherited.iter().chain(&self.own).filter(untold).try_for_each(|d| d.asked().clone())
    }
}

/// The deferred checks that results have whose inputs have these, the oldest first. Each input's list is looked at once: those
/// of one run, as parameters are, share it.
pub(crate) fn inherit<'a>(inputs: impl Iterator<Item = &'a Arc<DeferredChecks>>) -> Vec<Arc<DeferredCheck>> {
    let mut lists: Vec<&Arc<DeferredChecks>> = vec![];
    for checks in inputs {
        if !lists.iter().any(|known| Arc::ptr_eq(known, checks)) {
            lists.push(checks);
        }
    }
    let mut known = FxHashSet::default();
    let several = lists.len() > 1;
    let mut all: Vec<Arc<DeferredCheck>> = vec![];
    for d in lists.iter().flat_map(|checks| checks.inherited.iter().chain(&checks.own)) {
        if !d.is_dispelled() && (!several || known.insert(Arc::as_ptr(d))) {
            all.push(d.clone());
        }
    }
    let most = TUNABLES.max_checks.get();
    if !TUNABLES.max_checks.admits(all.len()) {
        // The first one waits; behind it the others mostly are known.
        let old = all.len() - most / 2;
        let mut number = 0;
        all.retain(|d| {
            number += 1;
            number > old || d.resolve().is_err()
        });
    }
    all
}

/// The deferred checks of the results of a call, where there are any.
pub(crate) fn of_call(
    own: Option<(Arc<dyn Check>, Tell)>,
    inherited: Vec<Arc<DeferredCheck>>,
) -> Option<Arc<DeferredChecks>> {
    let own = own
        .map(|(check, tell)| DeferredCheck::new(check, move |found: &[Found]| found.first().map(|&found| tell(found))));
    DeferredChecks::new(own, inherited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Passes, and counts how often it was asked.
    #[derive(Debug, Default)]
    struct Passes(AtomicUsize);

    impl Check for Passes {
        fn outcome(&self) -> Result<Vec<Found>, Error> {
            self.0.fetch_add(1, Relaxed);
            Ok(vec![])
        }
    }

    fn one(check: &Arc<Passes>) -> Arc<DeferredCheck> {
        DeferredCheck::new(check.clone(), |_| None)
    }

    fn list(inherited: &[Arc<DeferredCheck>], own: Option<&Arc<DeferredCheck>>) -> Arc<DeferredChecks> {
        Arc::new(DeferredChecks { own: own.cloned(), inherited: inherited.to_vec() })
    }

    #[test]
    fn each_check_is_inherited_once_and_the_oldest_first() {
        let check = Arc::new(Passes::default());
        let [a, b, c] = [one(&check), one(&check), one(&check)];
        let (one_run, other) = (list(std::slice::from_ref(&a), Some(&b)), list(&[a.clone(), b.clone()], Some(&c)));
        let same = |got: Vec<Arc<DeferredCheck>>, want: &[&Arc<DeferredCheck>]| {
            got.len() == want.len() && got.iter().zip(want).all(|(x, y)| Arc::ptr_eq(x, y))
        };
        // Many inputs of one run, and of two.
        assert!(same(inherit(std::iter::repeat_n(&one_run, 12)), &[&a, &b]));
        assert!(same(inherit([&one_run, &other, &one_run].into_iter()), &[&a, &b, &c]));
        // What has passed is nobody's.
        a.resolve().as_ref().unwrap();
        assert!(same(inherit([&one_run, &other].into_iter()), &[&b, &c]));
        assert_eq!(check.0.load(Relaxed), 1);
    }

    #[test]
    fn a_loop_that_nobody_reads_from_waits_for_the_oldest_now_and_then() {
        let check = Arc::new(Passes::default());
        let mut checks = list(&[], None);
        for step in 0..1000 {
            let inherited = inherit([&checks, &checks].into_iter());
            assert!(inherited.len() <= TUNABLES.max_checks.get(), "{} at step {step}", inherited.len());
            checks = list(&inherited, Some(&one(&check)));
        }
        // Half of what may be carried along at a time.
        let asked = check.0.load(Relaxed);
        assert!((1000 - TUNABLES.max_checks.get()..1000).contains(&asked), "{asked}");
        checks.resolve().unwrap();
        assert_eq!(check.0.load(Relaxed), 1000);
    }
}
