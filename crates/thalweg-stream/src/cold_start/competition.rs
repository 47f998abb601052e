//! Work at the begin and the end of a competition of plans: searches, and predictions of each launch. They take
//! milliseconds to seconds, and no run waits for them.

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
    stage: CompetitionStage,
}

/// Begin or end of the competition.
enum CompetitionStage {
    /// Other plans are named. `launches` are the nanoseconds of each launch of the plan, if they were timed.
    Begin { launches: Vec<u64> },
    /// The model learns from the launches, and the winner is saved. `own` is the segment's plan before any competition.
    End { own: Arc<Ready> },
}

impl CompetitionWork {
    /// Naming of plans that compete with `ready`, whose launches took `launches` nanoseconds, if they were timed.
    pub fn begin(
        ready: &Arc<Ready>,
        device: DeviceRef,
        segment: (Mode, Segment<'_>),
        launches: Vec<u64>,
    ) -> CompetitionWork {
        CompetitionWork::new(ready, device, segment, CompetitionStage::Begin { launches })
    }

    /// Evaluation of the competition of `ready`; `own` is the plan of the segment before any.
    pub fn end(
        ready: &Arc<Ready>,
        device: DeviceRef,
        segment: (Mode, Segment<'_>),
        own: &Arc<Ready>,
    ) -> CompetitionWork {
        CompetitionWork::new(ready, device, segment, CompetitionStage::End { own: own.clone() })
    }

    fn new(
        ready: &Arc<Ready>,
        device: DeviceRef,
        (mode, segment): (Mode, Segment<'_>),
        stage: CompetitionStage,
    ) -> CompetitionWork {
        let (ready, segment) = (ready.clone(), segment.to_owned());
        CompetitionWork { ready, device, mode, effort: effort(), segment, stage }
    }

    /// Does the work.
    pub fn run(self) {
        set_mode(self.mode);
        set_effort(self.effort);
        let segment = self.segment.as_segment();
        match self.stage {
            // This holds one reference itself; the plan store and recognizers hold the others.
            CompetitionStage::Begin { .. } if Arc::strong_count(&self.ready) == 1 => {}
            CompetitionStage::Begin { launches } => {
                let named = self.ready.others(self.device, segment, &launches);
                self.ready.autotuning.named(named);
            }
            CompetitionStage::End { own } => self.ready.keep_best(self.device, segment, &own),
        }
    }
}
