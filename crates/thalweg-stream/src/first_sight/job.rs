//! What is searched for on another thread, who asks for it, and what comes of it.

use crate::DeviceRef;
use crate::mode::Mode;
use crate::saved::Asked;
use std::sync::Arc;
use thalweg_fusion::{Costs, Effort, Instance, OwnedSegment, Parts, Plan, ScalarClasses, SegmentClass};
use thalweg_runtime::{Counters, Error, Program};

/// Bytes of the thread's stack: a compiler that is not ours may run on it, and takes what a main thread has.
pub(super) const STACK: usize = 8 << 20;

/// Who asks for a search.
pub(crate) trait Asks: Send + Sync {
    /// Takes what the search for a class has found, instantiated for these sizes with those scalars equal, and what it
    /// has cost.
    fn found(
        &self,
        class: &SegmentClass,
        at: (Box<[i64]>, Arc<ScalarClasses>),
        found: Result<Found, Error>,
        spent: Counters,
    );

    /// Takes what runs until the search is over, as `found` takes what comes of that.
    fn meanwhile(&self, class: &SegmentClass, at: (Box<[i64]>, Arc<ScalarClasses>), found: Found);

    /// Whether what it found for these sizes runs often.
    fn runs_often(&self, sizes: &[i64]) -> bool;

    /// Takes a plan that is better than the one that runs, as `found` takes the first one.
    fn better(&self, class: &SegmentClass, at: (Box<[i64]>, Arc<ScalarClasses>), found: Found, spent: Counters);
}

/// A class of a pattern that is to be searched for, as the segment at hand.
pub(crate) struct Job {
    pub asks: Arc<dyn Asks>,
    pub device: DeviceRef,
    pub mode: Mode,
    pub effort: Effort,
    pub segment: OwnedSegment,
    pub sizes: Box<[i64]>,
    pub class: SegmentClass,
    pub classes: Arc<ScalarClasses>,
    /// The plan, where it is known and has but to be compiled for these sizes.
    pub plan: Option<Arc<Plan>>,
}

impl Job {
    /// What it asks the planner and the disk cache, by those constants, parts at hand.
    pub fn asked<'a>(&'a self, costs: &'a Costs, parts: &'a Parts) -> Asked<'a> {
        Asked {
            device: self.device,
            segment: self.segment.as_segment(),
            costs,
            effort: self.effort,
            classes: &self.classes,
            class: (!self.mode.reproducible).then_some(&self.class),
            parts: Some(parts),
        }
    }
}

/// What a job found.
pub(crate) struct Found {
    pub plan: Plan,
    pub instance: Instance,
    pub programs: Vec<Arc<dyn Program>>,
    /// Whether the search may be gone on with.
    pub unfinished: bool,
}
