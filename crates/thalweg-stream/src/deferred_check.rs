//! Deferred checks: values that may still turn out to be failed. A device with asynchronous launches reports an index
//! out of range, or a matrix that has no decomposition, only when it is asked.
//!
//! In: the pending check of a run ([`Check`]), and the deferred checks of its inputs. Out: the error, when somebody
//! reads. Recording and running go on meanwhile, so a gather costs no wait. A value computed from an unchecked one
//! waits for the same checks.
//!
//! Always true: no byte of a value is given out before all of its checks have passed, or the device asserts them before it
//! runs what reads the value.

use crate::tunable::TUNABLES;
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use thalweg_runtime::{Check, Error, FailedCheck};

/// Function that converts a failure reported by a launch into an error.
pub type FailureToError = Box<dyn Fn(FailedCheck) -> Error + Send + Sync>;

/// Function that converts the failures reported by all launches into an error; `None` if they do not concern the
/// result.
type FailuresToError = Box<dyn Fn(&[FailedCheck]) -> Option<Error> + Send + Sync>;

/// Pending check of a run in which an index may be out of range, or of a call whose matrix may be unfit.
pub(crate) struct DeferredCheck {
    check: Arc<dyn Check>,
    to_error: FailuresToError,
    outcome: OnceLock<Result<(), Error>>,
    /// Whether a caller has received the error.
    reported: AtomicBool,
}

impl std::fmt::Debug for DeferredCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeferredCheck({:?}, {:?})", self.check, self.outcome)
    }
}

impl DeferredCheck {
    /// Check whose failure `to_error` converts into an error.
    pub fn new(
        check: Arc<dyn Check>,
        to_error: impl Fn(&[FailedCheck]) -> Option<Error> + Send + Sync + 'static,
    ) -> Arc<DeferredCheck> {
        Arc::new(DeferredCheck {
            check,
            to_error: Box::new(to_error),
            outcome: OnceLock::new(),
            reported: AtomicBool::new(false),
        })
    }

    fn resolve(&self) -> &Result<(), Error> {
        self.outcome.get_or_init(|| (self.to_error)(&self.check.outcome()?).map_or(Ok(()), Err))
    }

    /// Outcome of the check, marked as received.
    fn asked(&self) -> &Result<(), Error> {
        let outcome = self.resolve();
        if outcome.is_err() {
            self.reported.store(true, Relaxed);
        }
        outcome
    }

    /// Makes the device assert the check instead of the host waiting for it; waits where the device cannot.
    fn assert(&self) -> Result<(), Error> {
        if self.outcome.get().is_none() && self.check.assert()? {
            let _ = self.outcome.set(Ok(()));
        }
        self.asked().clone()
    }

    fn is_dispelled(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(())))
    }
}

/// Deferred checks that apply to the results of one run or call.
#[derive(Debug)]
pub(crate) struct DeferredChecks {
    own: Option<Arc<DeferredCheck>>,
    /// Checks of the values that the results depend on, the oldest first.
    inherited: Vec<Arc<DeferredCheck>>,
}

impl DeferredChecks {
    /// Checks of results; `None` if there is nothing to check.
    pub fn new(own: Option<Arc<DeferredCheck>>, inherited: Vec<Arc<DeferredCheck>>) -> Option<Arc<DeferredChecks>> {
        (own.is_some() || !inherited.is_empty()).then(|| Arc::new(DeferredChecks { own, inherited }))
    }

    /// Waits until it is known whether the results are valid.
    ///
    /// # Errors
    /// The error if they are not.
    pub fn resolve(&self) -> Result<(), Error> {
        self.inherited.iter().try_for_each(|d| d.asked().as_ref().map(|_| ())).map_err(Error::poisoned)?;
        self.own.as_ref().map_or(Ok(()), |d| d.asked().clone())
    }

    /// Like [`resolve`](Self::resolve), but the device asserts the checks where it can, and the host does not wait.
    ///
    /// # Errors
    /// The error of a check that is known to have failed, and when the device fails.
    pub fn assert(&self) -> Result<(), Error> {
        self.inherited.iter().try_for_each(|d| d.assert()).map_err(|e| e.poisoned())?;
        self.own.as_ref().map_or(Ok(()), |d| d.assert())
    }

    /// Like [`assert`](Self::assert), without the checks whose failures all ranks learn of ([`Check::is_shared`]).
    ///
    /// # Errors
    /// As [`assert`](Self::assert).
    pub fn assert_unshared(&self) -> Result<(), Error> {
        let unshared = |d: &&Arc<DeferredCheck>| !d.check.is_shared();
        self.inherited.iter().filter(unshared).try_for_each(|d| d.assert()).map_err(|e| e.poisoned())?;
        self.own.as_ref().filter(unshared).map_or(Ok(()), |d| d.assert())
    }

    /// Like [`resolve`](Self::resolve), for `synchronize`: skips checks whose error somebody has received.
    ///
    /// # Errors
    /// The first error.
    pub fn resolve_unreported(&self) -> Result<(), Error> {
        let unreported = |d: &&Arc<DeferredCheck>| !d.reported.load(Relaxed);
        self.inherited.iter().chain(&self.own).filter(unreported).try_for_each(|d| d.asked().clone())
    }
}

/// Deferred checks inherited from inputs, distinct and the oldest first. Each distinct list is looked at once: inputs
/// from one run, such as parameters, share a list.
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
        // Waits for the oldest checks; after the first wait most others are known.
        let old = all.len() - most / 2;
        let mut number = 0;
        all.retain(|d| {
            number += 1;
            number > old || d.resolve().is_err()
        });
    }
    all
}

/// Deferred checks of the results of a call, if there are any.
pub(crate) fn of_call(
    own: Option<(Arc<dyn Check>, FailureToError)>,
    inherited: Vec<Arc<DeferredCheck>>,
) -> Option<Arc<DeferredChecks>> {
    let own = own.map(|(check, to_error)| {
        DeferredCheck::new(check, move |found: &[FailedCheck]| found.first().map(|&found| to_error(found)))
    });
    DeferredChecks::new(own, inherited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Check that passes, and counts how often it was asked.
    #[derive(Debug, Default)]
    struct Passes(AtomicUsize);

    impl Check for Passes {
        fn outcome(&self) -> Result<Vec<FailedCheck>, Error> {
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
        // Many inputs of one run, and of two runs.
        assert!(same(inherit(std::iter::repeat_n(&one_run, 12)), &[&a, &b]));
        assert!(same(inherit([&one_run, &other, &one_run].into_iter()), &[&a, &b, &c]));
        // A check that has passed is not inherited.
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
        // Half of the limit is waited for at a time.
        let asked = check.0.load(Relaxed);
        assert!((1000 - TUNABLES.max_checks.get()..1000).contains(&asked), "{asked}");
        checks.resolve().unwrap();
        assert_eq!(check.0.load(Relaxed), 1000);
    }
}
