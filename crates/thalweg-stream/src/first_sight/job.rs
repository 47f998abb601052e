//! What is searched for on another thread, who asks for it, and what comes of it.

use crate::DeviceRef;
use crate::mode::Mode;
use std::sync::Arc;
use thalweg_fusion::{Effort, Instance, OwnedSegment, Plan, ScalarClasses, SegmentClass};
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

/// What a job found.
pub(crate) struct Found {
    pub plan: Plan,
    pub instance: Instance,
    pub programs: Vec<Arc<dyn Program>>,
    /// Whether the search may be gone on with.
    pub unfinished: bool,
}
