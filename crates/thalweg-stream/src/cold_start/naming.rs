//! Naming of plans that compete with one that runs often: searches of milliseconds to seconds, for which no run waits.

use crate::DeviceRef;
use crate::mode::{Mode, effort, set_effort, set_mode};
use crate::ready::Ready;
use std::sync::Arc;
use thalweg_fusion::{Effort, OwnedSegment, Segment};

/// Request for alternative plans of a segment.
pub(crate) struct Naming {
    /// Plan with which they compete.
    ready: Arc<Ready>,
    device: DeviceRef,
    mode: Mode,
    effort: Effort,
    segment: OwnedSegment,
    /// Nanoseconds of each launch of the plan, if they were timed.
    launches: Vec<u64>,
}

impl Naming {
    /// Request for the plans that compete with `ready`, whose launches took `ns` nanoseconds, if they were timed.
    pub fn new(ready: &Arc<Ready>, device: DeviceRef, (mode, segment): (Mode, Segment<'_>), ns: &[u64]) -> Naming {
        let (ready, segment) = (ready.clone(), segment.to_owned());
        Naming { ready, device, mode, effort: effort(), segment, launches: ns.to_vec() }
    }

    /// Names the plans, and lets them compete.
    pub fn run(self) {
        // The request holds one reference itself; the plan store and recognizers hold the others.
        if Arc::strong_count(&self.ready) == 1 {
            return;
        }
        set_mode(self.mode);
        set_effort(self.effort);
        let named = self.ready.others(self.device, self.segment.as_segment(), &self.launches);
        self.ready.autotuning.named(named);
    }
}
