//! Programs cut between the passes, and within the first one.
//!
//! In strict mode values and gradients have the same bits wherever the stream is cut, whatever is saved for the
//! backward pass, and whatever the memory limit. Costs are random, too: on one device everything is cheaper to
//! recompute, on another nothing is. Memory in use must be the same before and after.

use super::{Cuts, Differentiated, differentiated};
use crate::check::{Checker, STRICT};
use crate::program::Program;
use fastrand::Rng;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg::Tensor;
use thalweg_fusion::Costs;
use thalweg_runtime::{Counters, Error, counters};
use thalweg_stream::{costs, set_costs, set_deferring, set_mode, set_recomputing};

/// Number of random cuts that are tried per program.
const TIMES: usize = 2;

/// Counts of values kept and dropped, operations recomputed, and runs under a memory limit that fit and that did not.
static TALLY: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Text of the counts, for the report.
pub fn tally() -> String {
    let [kept, left, again, fit, not] = TALLY.each_ref().map(|n| n.load(Relaxed));
    format!(
        "cut between the passes: {kept} values kept, {left} left, {again} operations again; {fit} runs within a limit, \
         {not} had too little"
    )
}

/// Bits of the value and of the gradients in f64, with all NaNs equal; `None` without gradients.
type Bits = Option<Vec<Option<Vec<u64>>>>;

/// Checks the gradients of a program whose stream is cut at random points.
pub fn check(checker: &Checker, program: &Program, seed: u64, twice: bool) -> Result<(), String> {
    let old = (set_mode(STRICT), set_deferring(false), set_recomputing(false), costs(checker.device()));
    let done = in_all_ways(checker, program, &mut Rng::with_seed(seed), twice, &old.3);
    checker.device().device().set_memory_limit(None);
    set_costs(checker.device(), (*old.3).clone());
    set_recomputing(old.2);
    set_deferring(old.1);
    set_mode(old.0);
    done
}

fn in_all_ways(checker: &Checker, program: &Program, rng: &mut Rng, twice: bool, costs: &Costs) -> Result<(), String> {
    let device = checker.device().device();
    let run = |cuts: &Cuts| bits(checker, program, twice, cuts);
    let want = run(&Cuts::default()).map_err(|e| format!("differentiated: {e}"))?;
    set_recomputing(true);
    let mut all = Counters::default();
    for _ in 0..TIMES {
        let after = (0..program.steps.len()).filter(|_| rng.u8(..6) == 0).collect();
        let cuts = Cuts { after, between: rng.u8(..4) > 0 };
        let factor = [1.0, 1e-3, 1e3][rng.usize(..3)];
        set_costs(checker.device(), dearer(costs, factor));
        let what = format!("{cuts:?}, memory {factor} times as dear");
        thalweg::synchronize().map_err(|e| e.to_string())?;
        let (before, counted) = (device.memory().in_use, counters());
        device.reset_peak();
        let got = run(&cuts).map_err(|e| format!("{what}: {e}"))?;
        same(&want, &got, &what)?;
        let moved = counters() - counted;
        all.values_saved += moved.values_saved;
        all.values_dropped += moved.values_dropped;
        all.operations_recomputed += moved.operations_recomputed;
        let rise = device.memory().peak - before;
        device.set_memory_limit(Some(before + rise * rng.usize(5..=9) / 8));
        let tight = run(&cuts);
        device.set_memory_limit(None);
        TALLY[3 + tight.is_err() as usize].fetch_add(1, Relaxed);
        match tight {
            Ok(got) => same(&want, &got, &format!("{what}, within a limit"))?,
            Err(e) if is_memory(&e) => {}
            Err(e) => return Err(format!("{what}, within a limit: {e}")),
        }
        match thalweg::synchronize() {
            // A failed segment of the limited run, whose results nobody read, is reported to the next wait.
            Err(e) if is_memory(&e) => {}
            waited => waited.map_err(|e| e.to_string())?,
        }
        if device.memory().in_use != before {
            return Err(format!("{what}: {} bytes in use before, {} after", before, device.memory().in_use));
        }
    }
    for (to, n) in TALLY.iter().zip([all.values_saved, all.values_dropped, all.operations_recomputed]) {
        to.fetch_add(n, Relaxed);
    }
    Ok(())
}

/// Costs of a device whose memory is slower by a factor than that of `costs`.
fn dearer(costs: &Costs, factor: f64) -> Costs {
    let mut new = costs.clone();
    for level in &mut new.levels {
        for ns in [&mut level.read, &mut level.write, &mut level.read_all, &mut level.write_all] {
            *ns *= factor;
        }
    }
    new
}

fn is_memory(error: &Error) -> bool {
    match error {
        Error::Failed(cause) => is_memory(cause),
        Error::OutOfMemory { .. } => true,
        _ => false,
    }
}

fn bits(checker: &Checker, program: &Program, twice: bool, cuts: &Cuts) -> Result<Bits, Error> {
    let inputs: Vec<Tensor> = checker.inputs(program)?.into_iter().map(thalweg::raw::tensor).collect();
    thalweg::set_default_device(inputs.first().map(Tensor::device));
    let Some(Differentiated { value, gradients }) = differentiated(program, &inputs, twice, cuts) else {
        return Ok(None);
    };
    drop(inputs);
    let bits = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
    let read = |x: &Tensor| x.to_f64_vec().map(|all| all.into_iter().map(bits).collect::<Vec<u64>>());
    let all = [Some(value)].into_iter().chain(gradients);
    all.map(|x| x.as_ref().map(read).transpose()).collect::<Result<_, _>>().map(Some)
}

fn same(want: &Bits, got: &Bits, what: &str) -> Result<(), String> {
    let (Some(want), Some(got)) = (want, got) else {
        return if want.is_none() == got.is_none() {
            Ok(())
        } else {
            Err(format!("{what}: gradients that come and go"))
        };
    };
    match want.iter().zip(got).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(0) => Err(format!("{what}: another value")),
        Some(n) => Err(format!("{what}: another gradient of input {}", n - 1)),
    }
}
