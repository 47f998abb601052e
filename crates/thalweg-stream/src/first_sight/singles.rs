//! Single operations as kernels with their programs, known by what they follow from: what a process has met of them.
//!
//! In: a segment. Out: its operations one after the other, each by its program. A program that never does the same
//! twice uses the same operations all the same.

use crate::DeviceRef;
use crate::defect;
use crate::ready::prepare_steps;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use thalweg_fusion::{Instance, Plan, Segment, Single, SingleKey, unfused};
use thalweg_runtime::{Error, Program};

/// Operations known on one device; beyond, they are found anew (ten microseconds each).
const MOST: usize = 1 << 14;

/// A single operation with its program, if it has something to write.
type Known = (Option<Arc<dyn Program>>, Arc<Single>);

type OfDevice = FxHashMap<SingleKey, Option<Known>>;

static SINGLES: Mutex<Vec<(DeviceRef, OfDevice)>> = Mutex::new(Vec::new());

/// A segment as one kernel an operation; `None` where an operation is no single launch.
///
/// # Errors
/// What the compiler gives.
pub(super) fn put_together(
    device: DeviceRef,
    segment: Segment<'_>,
) -> Result<Option<(Plan, Instance, Vec<Arc<dyn Program>>)>, Error> {
    // What a panic leaves is a map of what is known.
    let mut singles = SINGLES.lock().unwrap_or_else(|e| e.into_inner());
    let at = singles.iter().position(|s| s.0 == device).unwrap_or_else(|| {
        singles.push((device, OfDevice::default()));
        singles.len() - 1
    });
    let of_device = &mut singles[at].1;
    let mut known = |key: &SingleKey| -> Result<Option<Known>, Error> {
        if let Some(known) = of_device.get(key) {
            return Ok(known.clone());
        }
        let made = make(device, key)?;
        if of_device.len() >= MOST {
            of_device.clear();
        }
        of_device.insert(key.clone(), made.clone());
        Ok(made)
    };
    let made = defect::caught("one kernel an operation", device, &segment, || unfused(segment, &mut known))??;
    Ok(made.map(|(plan, instance, programs)| (plan, instance, programs.into_iter().flatten().collect())))
}

fn make(device: DeviceRef, key: &SingleKey) -> Result<Option<Known>, Error> {
    let Some(single) = key.plan() else { return Ok(None) };
    let mut programs = prepare_steps(device, single.step())?;
    Ok(Some((programs.pop(), Arc::new(single))))
}
