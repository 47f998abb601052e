//! Jobs of background searches, the interface of who asks for them, and their results.

use crate::DeviceRef;
use crate::mode::Mode;
use crate::saved::{Asked, Origin};
use std::sync::Arc;
use thalweg_fusion::{Costs, Effort, Instance, OwnedSegment, PartitionCache, Plan, ScalarClasses, SegmentClass};
use thalweg_runtime::{Counters, Error, Program};

/// Stack size of the search threads in bytes. A foreign compiler may run on them, which expects the stack of a main
/// thread.
pub(super) const STACK: usize = 8 << 20;

/// Receiver of a search's results: the entry of the plan store that requests it.
pub(crate) trait Asks: Send + Sync {
    /// Receives the result of the search for a class. The plan is instantiated for the sizes `at.0`, with the scalars
    /// equal that `at.1` says; `spent` is the cost of the search.
    fn found(
        &self,
        class: &SegmentClass,
        at: (Box<[i64]>, Arc<ScalarClasses>),
        found: Result<SearchedPlan, Error>,
        spent: Counters,
    );

    /// Receives a plan to run until the search is over. Arguments are those of `found`.
    fn meanwhile(&self, class: &SegmentClass, at: (Box<[i64]>, Arc<ScalarClasses>), found: SearchedPlan);

    /// Whether the plan for these sizes runs often.
    fn runs_often(&self, sizes: &[i64]) -> bool;

    /// Receives a plan that is better than the one that runs. Arguments are those of `found`.
    fn better(&self, class: &SegmentClass, at: (Box<[i64]>, Arc<ScalarClasses>), found: SearchedPlan, spent: Counters);
}

/// Background job: the search of a plan for a class of a pattern, with a segment of that class as the example.
pub(crate) struct Job {
    pub asks: Arc<dyn Asks>,
    pub device: DeviceRef,
    pub mode: Mode,
    pub effort: Effort,
    pub segment: OwnedSegment,
    pub sizes: Box<[i64]>,
    pub class: SegmentClass,
    pub classes: Arc<ScalarClasses>,
    /// Plan that only has to be compiled for these sizes; `None` if it has to be searched for.
    pub plan: Option<Arc<Plan>>,
}

impl Job {
    /// Question of the job to the planner and the disk cache, with these cost constants and known partial plans.
    pub fn asked<'a>(&'a self, costs: &'a Costs, parts: &'a PartitionCache) -> Asked<'a> {
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

/// Result of a job.
pub(crate) struct SearchedPlan {
    pub plan: Plan,
    pub instance: Instance,
    pub programs: Vec<Arc<dyn Program>>,
    /// Predicted picoseconds of all launches.
    pub predicted: u64,
    /// Origin of the plan.
    pub origin: Origin,
    /// Whether the search may be continued.
    pub unfinished: bool,
}
