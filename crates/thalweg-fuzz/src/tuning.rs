//! Random size thresholds for each program.
//!
//! Input: a seed. Output: every [`Tunable`] of every crate set to its default, to the smallest value of its range, or
//! to one between, so that small programs take the algorithms of large ones. `--coverage` prints how often each side of
//! each threshold was taken.

use fastrand::Rng;
use std::fmt::Write;
use thalweg_ir::tunable::Tunable;
use thalweg_runtime::Error;

/// Seed mask of the random source for thresholds, which separates it from the program's.
const TUNING: u64 = 0x7475_6e69_6e67;

/// Thresholds of each crate that has some.
fn crates() -> Vec<Vec<&'static Tunable>> {
    vec![
        thalweg::tunable::TUNABLES.all(),
        thalweg_stream::tunable::TUNABLES.all(),
        thalweg_fusion::tunable::TUNABLES.all(),
        thalweg_cpu::tunable::TUNABLES.all(),
        #[cfg(feature = "cuda")]
        thalweg_gpu::tunable::TUNABLES.all(),
        #[cfg(feature = "cuda")]
        thalweg_cuda::tunable::TUNABLES.all(),
    ]
}

/// Thresholds of all crates.
fn all() -> impl Iterator<Item = &'static Tunable> {
    crates().into_iter().flatten()
}

/// Thresholds of the crates that run programs on a CPU (`cpu`) or on a GPU.
pub fn used(cpu: bool) -> impl Iterator<Item = &'static Tunable> {
    let other: &[&str] = if cpu { &["thalweg-gpu.", "thalweg-cuda."] } else { &["thalweg-cpu."] };
    all().filter(move |t| !other.iter().any(|of| t.name().starts_with(of)))
}

/// Random source of a program for the threshold or crate of this name (FNV-1a), so that a new threshold changes nothing
/// that is drawn for the others.
fn source(seed: u64, name: &str) -> Rng {
    let hashed = name.bytes().fold(seed ^ TUNING, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
    Rng::with_seed(hashed)
}

/// Draws every threshold from a program's seed.
pub fn draw(seed: u64) {
    // Running searches must not see thresholds change.
    thalweg_stream::finish_searches();
    thalweg_stream::finish_further_searches();
    for tunables in crates() {
        let of_crate = tunables.first().and_then(|t| t.name().split('.').next()).unwrap_or_default();
        let defaults = source(seed, of_crate).u32(..3) == 0;
        for tunable in tunables {
            let mut rng = source(seed, tunable.name());
            let (low, high) = tunable.range().into_inner();
            let value = match rng.u32(..4) {
                _ if defaults => tunable.default(),
                0 => tunable.default(),
                1 => low,
                _ => rng.usize(low..=high),
            };
            tunable.set(value);
        }
    }
}

/// Sets the thresholds named as `NAME=VALUE`, and all others to their defaults.
///
/// # Errors
/// A message for an unknown threshold, or a value out of its range.
pub fn set(named: &[String]) -> Result<(), Error> {
    all().for_each(|t| t.set(t.default()));
    for text in named {
        let wrong = || Error::Value(format!("{text} is no threshold with a value in its range"));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let value: usize = value.parse().map_err(|_| wrong())?;
        let tunable = all().find(|t| t.name() == name).filter(|t| t.range().contains(&value) || value == t.default());
        tunable.ok_or_else(wrong)?.set(value);
    }
    Ok(())
}

/// Calls a function with the stream's thresholds at their defaults, so that it records one segment.
pub fn in_one_segment<R>(f: impl FnOnce() -> R) -> R {
    let drawn: Vec<usize> = thalweg_stream::tunable::TUNABLES.all().iter().map(|t| t.get()).collect();
    thalweg_stream::tunable::TUNABLES.all().iter().for_each(|t| t.set(t.default()));
    let made = f();
    thalweg_stream::tunable::TUNABLES.all().iter().zip(drawn).for_each(|(t, value)| t.set(value));
    made
}

/// Whether the stream's thresholds are at their defaults, so that a program is one segment and its plan is found again.
pub fn keeps_plans() -> bool {
    thalweg_stream::tunable::TUNABLES.all().iter().all(|t| t.get() == t.default())
}

/// Whether GPU kernels divide work by the default thresholds, so that they use little scratch memory compared to their
/// operands.
pub fn splits_by_default() -> bool {
    all().filter(|t| t.name().starts_with("thalweg-gpu.")).all(|t| t.get() == t.default())
}

/// Settings that differ from their defaults, for the report of a failure.
pub fn drawn() -> String {
    let mut out = String::new();
    for tunable in all().filter(|t| t.get() != t.default()) {
        let _ = write!(out, "{}={} ", tunable.name(), tunable.get());
    }
    if out.is_empty() { "thresholds at their defaults".into() } else { format!("thresholds {}", out.trim_end()) }
}
