//! Cache of single-operation kernels with their programs, for the unfused fallback.
//!
//! In: a segment. Out: its operations one after the other, each with its program. Even a process that never runs the
//! same segment twice reuses the same operations. New ones are compiled together, without holding the cache's lock.

use crate::DeviceRef;
use crate::defect;
use crate::tunable::TUNABLES;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_fusion::{Segment, Single, SingleKey, Step, Unfused, unfused};
use thalweg_runtime::{Error, Program};

/// Single operation in the cache, with its program. There is no program until it is compiled, or if the operation
/// writes nothing.
type CachedSingle = (Option<Arc<dyn Program>>, Arc<Single>);

/// Cached single operations of one device; `None` for an operation that is not a single launch.
type OfDevice = FxHashMap<SingleKey, Option<CachedSingle>>;

static SINGLES: Mutex<Vec<(DeviceRef, OfDevice)>> = Mutex::new(Vec::new());

fn singles() -> MutexGuard<'static, Vec<(DeviceRef, OfDevice)>> {
    // A panic leaves a valid map.
    SINGLES.lock().unwrap_or_else(|e| e.into_inner())
}

fn of_device(all: &mut Vec<(DeviceRef, OfDevice)>, device: DeviceRef) -> &mut OfDevice {
    let at = all.iter().position(|s| s.0 == device).unwrap_or_else(|| {
        all.push((device, OfDevice::default()));
        all.len() - 1
    });
    &mut all[at].1
}

/// Unfused segment, one kernel per operation, with the program of each launch.
pub(crate) type Singles = Unfused<Arc<dyn Program>>;

/// Unfused segment, one kernel per operation; `None` if an operation is not a single launch.
///
/// # Errors
/// Errors of the compiler.
pub(crate) fn assemble_unfused(device: DeviceRef, segment: Segment<'_>) -> Result<Option<Singles>, Error> {
    let (made, new) = assembled(device, segment)?;
    if new.is_empty() {
        return Ok(made);
    }
    if made.is_none() {
        return Ok(None);
    }
    let steps: Vec<&Step> = new.iter().filter_map(|(_, single)| single.step()).collect();
    let mut programs = programs(device, &steps)?.into_iter();
    let mut all = singles();
    let known = of_device(&mut all, device);
    if !TUNABLES.max_singles.admits(known.len() + new.len()) {
        known.clear();
    }
    for (key, single) in new {
        let program = single.step().and_then(|_| programs.next());
        known.insert(key, Some((program, single)));
    }
    drop(all);
    let (made, left) = assembled(device, segment)?;
    // If another thread cleared the cache meanwhile, the planner is asked instead.
    Ok(made.filter(|_| left.is_empty()))
}

/// Programs of new operations: those that need no slow compiler, and the others compiled together, for which the caller
/// waits.
fn programs(device: DeviceRef, steps: &[&Step]) -> Result<Vec<Arc<dyn Program>>, Error> {
    let launches: Vec<_> = steps.iter().map(|s| (&*s.kernel, &*s.geometry)).collect();
    let at_once = device.device().at_once(&launches)?;
    let left = at_once.iter().zip(&launches).filter(|(p, _)| p.is_none()).map(|(_, launch)| *launch);
    let left: Vec<_> = left.collect();
    let compiled = if left.is_empty() { vec![] } else { device.device().prepare(&left)? };
    let mut compiled = compiled.into_iter();
    Ok(at_once.into_iter().filter_map(|p| p.or_else(|| compiled.next())).collect())
}

type New = Vec<(SingleKey, Arc<Single>)>;

/// Unfused segment, as far as its operations are known, and the new operations, which have no programs yet.
fn assembled(device: DeviceRef, segment: Segment<'_>) -> Result<(Option<Singles>, New), Error> {
    let mut all = singles();
    let known = of_device(&mut all, device);
    let mut new = New::new();
    let mut find = |key: &SingleKey| -> Result<Option<CachedSingle>, Error> {
        if let Some(known) = known.get(key) {
            return Ok(known.clone());
        }
        if let Some((_, single)) = new.iter().find(|n| n.0 == *key) {
            return Ok(Some((None, single.clone())));
        }
        let Some(single) = key.plan().map(Arc::new) else {
            known.insert(key.clone(), None);
            return Ok(None);
        };
        new.push((key.clone(), single.clone()));
        Ok(Some((None, single)))
    };
    let made = defect::caught("one kernel an operation", device, &segment, || unfused(segment, &mut find))??;
    // New operations have no program yet.
    let programs = |beside: Vec<Option<_>>| beside.into_iter().flatten().collect();
    Ok((made.map(|Unfused { plan, instance, beside }| Unfused { plan, instance, beside: programs(beside) }), new))
}
