//! Values that may yet turn out to be failed: a device that runs launches on its own tells of an index out of range only when it is asked.
//!
//! In: what a run's device left to be asked ([`Check`]), and the doubts about its inputs. Out: the error, when somebody reads. Recording and running go on meanwhile, so that a gather costs no
//! wait; what is computed from a value in doubt is in the same doubt.
//!
//! Always true: no byte of a value is given to anybody before every doubt about it is settled.

use crate::value::Value;
use std::sync::{Arc, OnceLock};
use thalweg_fusion::{Instance, Schedule};
use thalweg_kernel::{Geometry, Kernel};
use thalweg_runtime::{Check, Error};

/// Doubts about one value that are carried along; beyond, the oldest are settled by waiting. A loop that reads something now and then never comes to it.
const MOST: usize = 256;

/// A run that may have met an index out of range.
#[derive(Debug)]
pub(crate) struct Doubt {
    check: Arc<dyn Check>,
    /// What to say, by launch.
    messages: Vec<Option<String>>,
    settled: OnceLock<Result<(), Error>>,
}

impl Doubt {
    fn settle(&self) -> &Result<(), Error> {
        self.settled.get_or_init(|| match self.check.outcome()? {
            Some(launch) => {
                let message = self.messages.get(launch).cloned().flatten();
                Err(Error::Index(message.unwrap_or_else(|| "an index is out of range".into())))
            }
            None => Ok(()),
        })
    }

    fn is_dispelled(&self) -> bool {
        matches!(self.settled.get(), Some(Ok(())))
    }
}

/// The doubts about the results of one run.
#[derive(Debug)]
pub(crate) struct Doubts {
    own: Option<Arc<Doubt>>,
    /// Those about its inputs, the oldest first.
    inherited: Vec<Arc<Doubt>>,
}

impl Doubts {
    /// Waits until it is known whether the results are what they should be.
    ///
    /// # Errors
    /// Why they are not.
    pub fn settle(&self) -> Result<(), Error> {
        self.inherited.iter().try_for_each(|d| d.settle().as_ref().map(|_| ())).map_err(Error::poisoned)?;
        self.own.as_ref().map_or(Ok(()), |d| d.settle().clone())
    }
}

/// The doubts that results of these inputs have.
pub(crate) fn inherit(inputs: &[Option<Arc<Value>>]) -> Vec<Arc<Doubt>> {
    let mut all: Vec<Arc<Doubt>> = vec![];
    for doubts in inputs.iter().flatten().filter_map(|v| v.doubts()) {
        for d in doubts.inherited.iter().chain(&doubts.own) {
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
            number > old || d.settle().is_err()
        });
    }
    all
}

/// The doubts about the results of a run of `schedule`, where there are any.
pub(crate) fn about(
    instance: &Instance,
    schedule: &Schedule,
    check: Option<Arc<dyn Check>>,
    inherited: Vec<Arc<Doubt>>,
) -> Option<Arc<Doubts>> {
    let own = check.map(|check| {
        let message = |launch: &thalweg_fusion::Launch| {
            let step = &instance.steps[launch.step];
            step.out_of_range.clone().or_else(|| scattered(&step.kernel, &step.geometry))
        };
        let messages = schedule.launches.iter().map(message).collect();
        Arc::new(Doubt { check, messages, settled: OnceLock::new() })
    });
    (own.is_some() || !inherited.is_empty()).then(|| Arc::new(Doubts { own, inherited }))
}

/// What a scatter says, which the device does not know.
fn scattered(kernel: &Kernel, geometry: &Geometry) -> Option<String> {
    let (Kernel::Scatter { .. }, Geometry::Scatter(g)) = (kernel, geometry) else { return None };
    Some(format!("scatter: an index is out of range for axis {} of size {}", g.axis, g.size))
}
