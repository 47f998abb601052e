//! Work at the begin and the end of a competition of plans: searches, and predictions of each launch. They take
//! milliseconds to seconds, and no run waits for them.

use super::background;
use crate::DeviceRef;
use crate::mode::{Mode, effort, set_effort, set_mode};
use crate::ready::Ready;
use std::sync::Arc;
use thalweg_fusion::{Effort, OwnedSegment, Segment};

/// Work for the competition of a plan.
pub(crate) struct CompetitionWork {
    /// Plan with which others compete.
    ready: Arc<Ready>,
    device: DeviceRef,
    mode: Mode,
    effort: Effort,
    segment: OwnedSegment,
    part: Part,
}

/// Begin or end of the competition.
enum Part {
    /// Other plans are named. `launches` are the nanoseconds of each launch of the plan, if they were timed.
    Begin { launches: Vec<u64> },
    /// The model learns from the launches, and the winner is saved. `own` is the segment's plan before any competition.
    End { own: Arc<Ready> },
}

impl CompetitionWork {
    fn new(ready: &Arc<Ready>, device: DeviceRef, (mode, segment): (Mode, Segment<'_>), part: Part) -> CompetitionWork {
        CompetitionWork { ready: ready.clone(), device, mode, effort: effort(), segment: segment.to_owned(), part }
    }

    /// Does the work.
    pub fn run(self) {
        set_mode(self.mode);
        set_effort(self.effort);
        let segment = self.segment.as_segment();
        match self.part {
            // This holds one reference itself; the plan store and recognizers hold the others.
            Part::Begin { .. } if Arc::strong_count(&self.ready) == 1 => {}
            Part::Begin { launches } => {
                let named = self.ready.others(self.device, segment, &launches);
                self.ready.autotuning.named(named);
            }
            Part::End { own } => self.ready.keep_best(self.device, segment, &own),
        }
    }
}

/// Queues the naming of plans that compete with `ready`, whose launches took `ns` nanoseconds, if they were timed.
/// Returns whether there was space for it.
pub(crate) fn name_others(
    ready: &Arc<Ready>,
    device: DeviceRef,
    segment: (Mode, Segment<'_>),
    launches: Vec<u64>,
) -> bool {
    background::compete(CompetitionWork::new(ready, device, segment, Part::Begin { launches }))
}

/// Queues what follows the competition of `ready`; `own` is the segment's plan before any. Returns whether there was
/// space for it.
pub(crate) fn keep_best(ready: &Arc<Ready>, device: DeviceRef, segment: (Mode, Segment<'_>), own: &Arc<Ready>) -> bool {
    background::compete(CompetitionWork::new(ready, device, segment, Part::End { own: own.clone() }))
}
