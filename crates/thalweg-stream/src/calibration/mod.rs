//! What things take on a device: which constants are in force, and measuring them.
//!
//! In: a device. Out: its [`Costs`]. [`calibrate`] launches small kernels through the `Device` and `Program` traits
//! alone, so that it serves every device. Each constant is the one with which the model is right about one such kernel
//! (`samples.rs`), given the constants before it; so what a constant means is said in one place, [`Costs::time`], and
//! nowhere again here.
//!
//! Always true: a constant lies within a factor of [`SANE`] of [`Costs::typical`], whatever a busy machine measures.

mod measure;
mod samples;
mod saved;
pub(crate) mod watch;

pub use saved::save_costs;

use crate::DeviceRef;
use crate::mode::Mode;
use measure::Bench;
use saved::load_costs;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};
use thalweg_fusion::Costs;
use thalweg_ir::DType;
use thalweg_runtime::{Error, Throughput, count};

/// How far a measured constant may be from the typical one, as a factor.
const SANE: f64 = 8.0;
/// Bytes in use up to which one launch is timed again and again; beyond, small launches go through the buffers one
/// after another.
const WHOLE: u64 = 4 << 20;
/// Bytes that calibration touches at most; what moving takes beyond is told from the typical constants.
const MOST: u64 = 64 << 20;

/// Nanoseconds that a stream adds to a launch: operands looked up, counters, memory given back.
const STREAM: f64 = 200.0;

static TYPICAL: LazyLock<Arc<Costs>> = LazyLock::new(|| Arc::new(Costs::typical()));
static COSTS: RwLock<Option<HashMap<DeviceRef, Arc<Costs>>>> = RwLock::new(None);

/// The constants in force for a device: those that an earlier process measured and kept on disk, else
/// [`Costs::typical`], until others are set.
pub fn costs(device: DeviceRef) -> Arc<Costs> {
    let known = COSTS.read().unwrap_or_else(|e| e.into_inner());
    if let Some(set) = known.as_ref().and_then(|c| c.get(&device)) {
        return set.clone();
    }
    drop(known);
    if let Some(t) = device.device().throughput() {
        let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
        return known.get_or_insert_default().entry(device).or_insert(Arc::new(of_throughput(&t))).clone();
    }
    let kept = load_costs(device);
    if kept.is_none() {
        watch::begin(device);
    }
    // Not with the device's own number of threads: until something was measured, a plan, and with it the last bits of a
    // result, is the same on any number.
    let costs = Arc::new(kept.unwrap_or_else(Costs::typical));
    let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
    known.get_or_insert_default().entry(device).or_insert(costs).clone()
}

/// The constants that plans of a mode are made with. A reproducible one plans with the typical constants of a device of
/// that kind, whatever was measured or set.
pub(crate) fn planning_costs(device: DeviceRef, mode: Mode) -> Arc<Costs> {
    if !mode.reproducible {
        return costs(device);
    }
    device.device().throughput().map_or_else(|| TYPICAL.clone(), |t| Arc::new(of_throughput(&t)))
}

fn of_throughput(t: &Throughput) -> Costs {
    Costs::of_throughput(t.memory, (t.cache, t.cache_bytes), t.additions, t.launch).rounded()
}

/// Constants that somebody else wrote down, if a measurement on this device could have given them.
pub(crate) fn sane(device: DeviceRef, costs: Costs) -> Option<Costs> {
    let typical = &*TYPICAL;
    let like = Costs { registers: typical.registers, threads: device.device().threads() as u32, ..costs.clone() };
    let footprints = costs.levels.iter().map(|l| l.footprint).eq(typical.levels.iter().map(|l| l.footprint));
    // A little more than what is measured may be: it was rounded after it was bounded.
    let near = like.near(typical, SANE * 1.01);
    (footprints && near == costs).then_some(costs)
}

/// Puts constants in force, in all threads.
pub fn set_costs(device: DeviceRef, costs: Costs) {
    watch::end(device);
    let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
    known.get_or_insert_default().insert(device, Arc::new(costs));
}

/// Measures the constants of a device, in some 0.15 s. They are not put in force: see [`set_costs`]; nor kept: see
/// [`crate::save_costs`].
///
/// # Errors
/// When the device fails.
pub fn calibrate(device: DeviceRef) -> Result<Costs, Error> {
    count(|c| c.calibrations += 1);
    let mut b = Bench::new(device.device().clone())?;
    // What can be measured through small launches is one thread's.
    b.costs.threads = 1;
    // Arithmetic twice: the first time memory is not known yet.
    b.costs.launch -= STREAM;
    b.fit(samples::point, |c, f| c.launch *= f)?;
    b.costs.launch += STREAM;
    b.offset = STREAM;
    b.fit(samples::simple, |c, f| c.simple *= f)?;
    memory(&mut b)?;
    b.fit(samples::simple, |c, f| c.simple *= f)?;
    arithmetic(&mut b)?;
    moving(&mut b)?;
    rows(&mut b)?;
    b.fit(samples::scatter, |c, f| c.scattered *= f)?;
    let multiplied = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8, DType::I32];
    for (i, dtype) in multiplied.into_iter().enumerate() {
        b.fit_with(&|| samples::product(dtype, 1, 96), |c, f| c.multiply[i] *= f)?;
    }
    b.fit_with(&|| samples::product(DType::F32, 64, 8), |c, f| c.product *= f)?;
    threads(&mut b, device.device().threads() as u32)?;
    Ok(b.costs.near(&TYPICAL, SANE).rounded())
}

/// What a byte takes at each level, on one thread.
fn memory(b: &mut Bench) -> Result<(), Error> {
    let mut last = 1.0;
    for i in 0..b.costs.levels.len() {
        let footprint = b.costs.levels[i].footprint;
        let scale = move |c: &mut Costs, f: f64| {
            let l = &mut c.levels[i];
            for ns in [&mut l.read, &mut l.write, &mut l.read_all, &mut l.write_all] {
                *ns *= f;
            }
        };
        if footprint > MOST {
            scale(&mut b.costs, last);
        } else if footprint <= WHOLE {
            last = b.fit_with(&|| samples::copy(footprint), scale)?;
        } else {
            last = b.fit_slices(footprint, scale)?;
        }
    }
    // More bytes in use never make one faster.
    for i in 1..b.costs.levels.len() {
        let nearer = b.costs.levels[i - 1];
        let l = &mut b.costs.levels[i];
        (l.read, l.write) = (l.read.max(nearer.read), l.write.max(nearer.write));
        (l.read_all, l.write_all) = (l.read_all.max(nearer.read_all), l.write_all.max(nearer.write_all));
    }
    Ok(())
}

fn arithmetic(b: &mut Bench) -> Result<(), Error> {
    // A value too many is written and read again: it takes what other instructions take.
    let faster = b.costs.simple / TYPICAL.simple;
    b.costs.spill *= faster;
    b.fit(samples::divide, |c, f| c.divide *= f)?;
    b.fit_with(&|| samples::special(DType::F32), |c, f| c.special *= f)?;
    b.fit_with(&|| samples::special(DType::F64), |c, f| c.special_wide *= f)?;
    b.fit(samples::convert, |c, f| c.convert *= f)?;
    b.fit(samples::slow, |c, f| c.slow *= f)?;
    Ok(())
}

fn moving(b: &mut Bench) -> Result<(), Error> {
    b.fit(samples::runs, |c, f| c.run *= f)?;
    b.fit(samples::calls, |c, f| c.call *= f)?;
    b.fit(samples::transposed, |c, f| c.transposed *= f)?;
    b.fit(samples::conflicting, |c, f| c.conflicting *= f)?;
    b.fit(samples::strided, |c, f| c.strided *= f)?;
    b.fit(samples::mapped, |c, f| c.mapped *= f)?;
    b.fit(samples::gathered, |c, f| c.gathered *= f)?;
    Ok(())
}

fn rows(b: &mut Bench) -> Result<(), Error> {
    b.fit_with(&|| samples::fold_along(16, 512), |c, f| c.fold *= f)?;
    b.fit_with(&|| samples::fold_along(512, 16), |c, f| {
        c.row *= f;
        c.row_fold *= f;
    })?;
    b.fit(samples::once, |c, f| c.once *= f)?;
    b.fit(samples::fold_across, |c, f| c.fold_across *= f)?;
    b.fit(samples::strips, |c, f| c.strip *= f)?;
    b.fit(samples::scan, |c, f| c.scan *= f)?;
    b.fit(samples::sort, |c, f| c.sort *= f)?;
    Ok(())
}

/// What moving takes all threads together.
fn threads(b: &mut Bench, count: u32) -> Result<(), Error> {
    b.costs.threads = count;
    let n = b.costs.threads as f64;
    for l in &mut b.costs.levels {
        (l.read_all, l.write_all) = (l.read / n, l.write / n);
    }
    if b.costs.threads == 1 {
        return Ok(());
    }
    let mut last = 1.0;
    for i in 0..b.costs.levels.len() {
        let footprint = b.costs.levels[i].footprint;
        // They move so little together only where they compute.
        if footprint <= WHOLE {
            continue;
        }
        let scale = move |c: &mut Costs, f: f64| {
            let l = &mut c.levels[i];
            // No more than all of them alone, no less than one.
            l.read_all = (l.read_all * f).clamp(l.read / n, l.read);
            l.write_all = (l.write_all * f).clamp(l.write / n, l.write);
        };
        if footprint <= MOST {
            last = b.fit_with(&|| samples::copy(footprint), scale)?;
        } else {
            scale(&mut b.costs, last);
        }
    }
    for i in 1..b.costs.levels.len() {
        let nearer = b.costs.levels[i - 1];
        let l = &mut b.costs.levels[i];
        (l.read_all, l.write_all) = (l.read_all.max(nearer.read_all), l.write_all.max(nearer.write_all));
    }
    Ok(())
}
