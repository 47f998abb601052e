//! Values that may yet turn out to be failed: a device that runs launches on its own tells of an index out of range
//! only when it is asked.
//!
//! In: what a run's device left to be asked ([`Check`]), and the deferred checks of its inputs. Out: the error, when
//! somebody reads. Recording and running go on meanwhile, so that a gather costs no wait; what is computed from a value
//! not yet checked waits for the same checks.
//!
//! Always true: no byte of a value is given to anybody before every check of it has passed.

use std::sync::{Arc, OnceLock};
use thalweg_fusion::{Instance, Schedule};
use thalweg_kernel::{Geometry, Kernel};
use thalweg_runtime::{Check, Error};

/// Deferred checks of one value that are carried along; beyond, the oldest are made by waiting. A loop that reads
/// something now and then never comes to it.
const MOST: usize = 256;

/// A run that may have met an index out of range.
#[derive(Debug)]
pub(crate) struct DeferredCheck {
    check: Arc<dyn Check>,
    /// What to say, by launch.
    messages: Vec<Option<String>>,
    outcome: OnceLock<Result<(), Error>>,
}

impl DeferredCheck {
    fn resolve(&self) -> &Result<(), Error> {
        self.outcome.get_or_init(|| match self.check.outcome()? {
            Some(launch) => {
                let message = self.messages.get(launch).cloned().flatten();
                Err(Error::Index(message.unwrap_or_else(|| "an index is out of range".into())))
            }
            None => Ok(()),
        })
    }

    fn is_dispelled(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(())))
    }
}

/// The deferred checks of the results of one run.
#[derive(Debug)]
pub(crate) struct DeferredChecks {
    own: Option<Arc<DeferredCheck>>,
    /// Those about its inputs, the oldest first.
    inherited: Vec<Arc<DeferredCheck>>,
}

impl DeferredChecks {
    /// Waits until it is known whether the results are what they should be.
    ///
    /// # Errors
    /// Why they are not.
    pub fn resolve(&self) -> Result<(), Error> {
        self.inherited.iter().try_for_each(|d| d.resolve().as_ref().map(|_| ())).map_err(Error::poisoned)?;
        self.own.as_ref().map_or(Ok(()), |d| d.resolve().clone())
    }
}

/// The deferred checks that results have whose inputs have these.
pub(crate) fn inherit<'a>(inputs: impl Iterator<Item = &'a Arc<DeferredChecks>>) -> Vec<Arc<DeferredCheck>> {
    let mut all: Vec<Arc<DeferredCheck>> = vec![];
    for checks in inputs {
        for d in checks.inherited.iter().chain(&checks.own) {
            if !d.is_dispelled() && !all.iter().any(|known| Arc::ptr_eq(known, d)) {
                all.push(d.clone());
            }
        }
    }
    if all.len() > MOST {
        // The first one waits; behind it the others mostly are known.
        let old = all.len() - MOST / 2;
        let mut number = 0;
        all.retain(|d| {
            number += 1;
            number > old || d.resolve().is_err()
        });
    }
    all
}

/// The deferred checks of the results of a run of `schedule`, where there are any.
pub(crate) fn about(
    instance: &Instance,
    schedule: &Schedule,
    check: Option<Arc<dyn Check>>,
    inherited: Vec<Arc<DeferredCheck>>,
) -> Option<Arc<DeferredChecks>> {
    let own = check.map(|check| {
        let message = |launch: &thalweg_fusion::Launch| {
            let step = &instance.steps[launch.step];
            step.out_of_range.clone().or_else(|| scattered(&step.kernel, &step.geometry))
        };
        let messages = schedule.launches.iter().map(message).collect();
        Arc::new(DeferredCheck { check, messages, outcome: OnceLock::new() })
    });
    (own.is_some() || !inherited.is_empty()).then(|| Arc::new(DeferredChecks { own, inherited }))
}

/// What a scatter says, which the device does not know.
fn scattered(kernel: &Kernel, geometry: &Geometry) -> Option<String> {
    let (Kernel::Scatter { .. }, Geometry::Scatter(g)) = (kernel, geometry) else { return None };
    Some(format!("scatter: an index is out of range for axis {} of size {}", g.axis, g.size))
}
