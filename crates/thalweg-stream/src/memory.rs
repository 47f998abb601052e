//! Schedules: the memory plans of an instance, made when they are first needed.
//!
//! In: what the segment alone holds of its inputs, and what the device's limit leaves. Out: the schedule to run. Most segments see the same inputs
//! dying every time and no limit, so the first schedule is nearly always the right one; the list of them is read without a lock.

use crate::DeviceRef;
use crate::calibration::costs;
use crate::store::Ready;
use crate::value::Value;
use std::sync::{Arc, OnceLock};
use thalweg_fusion::{Needs, Schedule, schedule, schedule_within};
use thalweg_runtime::{Error, granted};

/// Schedules kept for one instance; beyond, they are made for each run.
const MAX_SCHEDULES: usize = 16;

/// Schedules made so far: a list that only grows.
#[derive(Default)]
pub(crate) struct Schedules {
    entry: OnceLock<Made>,
    next: OnceLock<Box<Schedules>>,
}

struct Made {
    /// Bytes of each input that the segment alone held.
    own: Box<[usize]>,
    /// The bytes that there were for it, where that was less than it wanted.
    room: Option<usize>,
    schedule: Arc<Schedule>,
}

impl Schedules {
    /// The schedule that `fits` says is the right one, else one made now and kept where there is room.
    fn find(
        &self,
        fits: impl Fn(&Made) -> bool,
        make: impl FnOnce() -> Result<Made, Error>,
    ) -> Result<Arc<Schedule>, Error> {
        let mut list = self;
        for _ in 0..MAX_SCHEDULES {
            match list.entry.get() {
                Some(made) if fits(made) => return Ok(made.schedule.clone()),
                Some(_) => list = list.next.get_or_init(Box::default),
                None => {
                    let made = make()?;
                    let schedule = made.schedule.clone();
                    // Where another thread was faster, its schedule is kept.
                    let _ = list.entry.set(made);
                    return Ok(schedule);
                }
            }
        }
        Ok(make()?.schedule)
    }
}

/// Fills in, for each input, the bytes that nobody but the segment holds.
pub(crate) fn held_alone(inputs: &[Option<Arc<Value>>], own: &mut Vec<usize>) {
    let bytes = |v: &Arc<Value>| match v.state() {
        Some(Ok(s)) if Arc::strong_count(v) == 1 && Arc::strong_count(&s.buffer) == 1 => s.buffer.bytes(),
        _ => 0,
    };
    own.clear();
    own.extend(inputs.iter().map(|v| v.as_ref().map_or(0, bytes)));
}

impl Ready {
    /// The schedule for a run on `device`, where the segment alone holds so many bytes of each input.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the device's limit leaves too little, whatever is computed twice.
    pub fn schedule(&self, device: DeviceRef, own: &[usize]) -> Result<Arc<Schedule>, Error> {
        let rereads = |step: usize, operand: usize| self.programs[step].rereads_for(operand);
        let needs = Needs { own, rereads: &rereads, granted };
        let made = |room, s| Made { own: own.into(), room, schedule: Arc::new(s) };
        let usual = self.schedules.find(
            |m| m.room.is_none() && *m.own == *own,
            || Ok(made(None, schedule(&self.instance, &needs))),
        )?;
        let memory = device.device().memory();
        let Some(limit) = memory.limit else { return Ok(usual) };
        let room = limit.saturating_sub(memory.in_use);
        if usual.peak <= room {
            return Ok(usual);
        }
        // One made for hardly less does, too.
        let fits = |m: &Made| {
            m.schedule.peak <= room && m.room.is_some_and(|r| r >= room - room / 8) && *m.own == *own
        };
        let within = || {
            let (costs, footprint) = (costs(device), self.instance.footprint());
            let times: Vec<u64> =
                self.instance.steps.iter().map(|s| costs.time(&self.instance.figures(s), footprint)).collect();
            schedule_within(&self.instance, &needs, room, &|step| times[step]).map(|s| made(Some(room), s))
        };
        self.schedules.find(fits, || {
            within().map_err(|least| Error::OutOfMemory {
                requested: least,
                in_use: memory.in_use,
                limit: Some(limit),
                device: device.device().name().to_string(),
            })
        })
    }
}
