//! How often programs took each side of each size threshold.
//!
//! In: the counts of this process, and of earlier ones from a file. Out: a table, and an error that lists the sides which
//! were taken too rarely. Only thresholds of crates that the run's device uses count.

use crate::tuning;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use thalweg_runtime::Error;

/// Names of the sides of a threshold.
const SIDES: [&str; 2] = ["within", "beyond"];

/// Sides of thresholds that programs cannot take: whether on a CPU (else on an emulated GPU), threshold, index of the
/// side, reason.
const EXEMPT: [(bool, &str, usize, &str); 25] = [
    (true, "thalweg-fusion.max_accesses", 0, "asked where arguments are bounded: on GPUs"),
    (true, "thalweg-fusion.max_accesses", 1, "asked where arguments are bounded: on GPUs"),
    (true, "thalweg-fusion.max_compiled_nodes", 0, "asked where kernels compile long: on GPUs"),
    (true, "thalweg-fusion.max_compiled_nodes", 1, "asked where kernels compile long: on GPUs"),
    (true, "thalweg-fusion.max_fold_stores", 0, "asked where kernels compile long: on GPUs"),
    (true, "thalweg-fusion.max_fold_stores", 1, "asked where kernels compile long: on GPUs"),
    (true, "thalweg-fusion.max_siblings", 0, "GPUs group products; a CPU has no launches to save"),
    (true, "thalweg-fusion.max_siblings", 1, "GPUs group products; a CPU has no launches to save"),
    (true, "thalweg-stream.max_checks", 0, "a CPU knows at once whether an index is out of range"),
    (true, "thalweg-stream.max_checks", 1, "a CPU knows at once whether an index is out of range"),
    (true, "thalweg-stream.max_decisions", 1, "a second decision about one tape comes in few loops: 7 in 60"),
    (true, "thalweg.min_counted", 0, "unique reads its number of results: no one segment, tests of sort.rs have it"),
    (true, "thalweg.min_counted", 1, "unique reads its number of results: no one segment, tests of sort.rs have it"),
    (
        true,
        "thalweg.max_counted_range",
        0,
        "unique reads its number of results: no one segment, tests of sort.rs have it",
    ),
    (
        true,
        "thalweg.max_counted_range",
        1,
        "unique reads its number of results: no one segment, tests of sort.rs have it",
    ),
    (false, "thalweg-gpu.library_percent", 0, "the emulator has no cuBLASLt"),
    (false, "thalweg-gpu.library_percent", 1, "the emulator has no cuBLASLt"),
    (false, "thalweg-cuda.max_products", 0, "the emulator has no cuBLASLt"),
    (false, "thalweg-cuda.max_products", 1, "the emulator has no cuBLASLt"),
    (false, "thalweg-cuda.max_ring_write", 0, "the emulator has no pinned memory"),
    (false, "thalweg-cuda.max_ring_write", 1, "the emulator has no pinned memory"),
    (false, "thalweg-cuda.min_copy_part", 0, "the emulator has no pinned memory"),
    (false, "thalweg-cuda.min_copy_part", 1, "the emulator has no pinned memory"),
    (false, "thalweg-cuda.min_threaded_copy", 0, "the emulator has no pinned memory"),
    (false, "thalweg-cuda.min_threaded_copy", 1, "the emulator has no pinned memory"),
];

/// Number of times that each side of each threshold was taken.
pub struct Coverage {
    cpu: bool,
    counts: BTreeMap<String, [u64; 2]>,
}

impl Coverage {
    /// Counts of this process so far.
    pub fn of_process(device: &str) -> Coverage {
        let cpu = device == "cpu";
        let counts = tuning::used(cpu).map(|t| (t.name().to_string(), t.sides())).collect();
        Coverage { cpu, counts }
    }

    /// Adds the counts in a file, and writes the sums to it. The file is locked meanwhile: several processes may add to
    /// it at a time.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn accumulate(&mut self, path: &Path) -> Result<(), Error> {
        let wrong = |why: &dyn std::fmt::Display| Error::Value(format!("{}: {why}", path.display()));
        let open = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = open.map_err(|e| wrong(&e))?;
        file.lock().map_err(|e| wrong(&e))?;
        let mut before = String::new();
        file.read_to_string(&mut before).map_err(|e| wrong(&e))?;
        self.add(&before).map_err(|line| wrong(&format!("no counts of a threshold: {line}")))?;
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(self.lines().as_bytes())
        };
        write(&mut file).map_err(|e| wrong(&e))
    }

    /// Adds the counts in lines `NAME WITHIN BEYOND`; lines of thresholds that no longer exist are ignored.
    fn add(&mut self, lines: &str) -> Result<(), String> {
        for line in lines.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, within, beyond] = words[..] else { return Err(line.into()) };
            let counts = [within, beyond].map(|n| n.parse::<u64>().map_err(|_| line.to_string()));
            for (to, n) in self.counts.get_mut(name).into_iter().flatten().zip(counts) {
                *to += n?;
            }
        }
        Ok(())
    }

    fn lines(&self) -> String {
        self.counts.iter().map(|(name, [within, beyond])| format!("{name} {within} {beyond}\n")).collect()
    }

    /// Returns a table with a line for each threshold.
    pub fn table(&self) -> String {
        let mut out = format!("{:<44}{:>14}{:>14}\n", "threshold", SIDES[0], SIDES[1]);
        for (name, [within, beyond]) in &self.counts {
            let _ = writeln!(out, "{name:<44}{within:>14}{beyond:>14}");
        }
        out
    }

    /// Fails where a side was taken fewer than `least` times and is not exempt.
    ///
    /// # Errors
    /// A line for each such side.
    pub fn check(&self, least: u64) -> Result<(), Error> {
        let exempt = |name: &str, side: usize| EXEMPT.iter().any(|e| (e.0, e.1, e.2) == (self.cpu, name, side));
        let mut out = String::new();
        for (name, counts) in &self.counts {
            for (side, &n) in counts.iter().enumerate().filter(|(side, n)| **n < least && !exempt(name, *side)) {
                let _ = write!(out, "\n  {name}: {} taken {n} times", SIDES[side]);
            }
        }
        if out.is_empty() {
            Ok(())
        } else {
            Err(Error::Value(format!("thresholds taken fewer than {least} times:{out}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(&str, [u64; 2])]) -> Coverage {
        Coverage { cpu: true, counts: counts.iter().map(|(name, n)| (name.to_string(), *n)).collect() }
    }

    #[test]
    fn counts_of_processes_add_up_in_a_file() {
        let path = std::env::temp_dir().join(format!("thalweg-coverage-{}", std::process::id()));
        of(&[("a", [1, 2]), ("b", [0, 30])]).accumulate(&path).unwrap();
        let mut sum = of(&[("a", [20, 20])]);
        sum.accumulate(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a 21 22\n");
        // Two at a time lose nothing.
        let add = || (0..50).for_each(|_| of(&[("a", [1, 1])]).accumulate(&path).unwrap());
        std::thread::scope(|threads| [0, 1].map(|_| threads.spawn(add)).map(|t| t.join().unwrap()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a 121 122\n");
        std::fs::write(&path, "a 1\n").unwrap();
        assert!(sum.accumulate(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn rare_sides_are_listed() {
        let coverage = of(&[("a", [20, 20]), ("b", [0, 30]), ("c", [30, 19])]);
        let why = coverage.check(20).unwrap_err().to_string();
        assert!(why.contains("b: within taken 0 times") && why.contains("c: beyond taken 19 times"), "{why}");
        assert!(!why.contains("a:") && coverage.check(0).is_ok());
    }

    /// Thresholds of GPUs are known only where the fuzzer has one.
    #[cfg(feature = "cuda")]
    #[test]
    fn what_is_exempt_is_a_threshold() {
        for (cpu, name, side, reason) in EXEMPT {
            assert!(tuning::used(cpu).any(|t| t.name() == name) && side < 2 && !reason.is_empty(), "{name}");
        }
    }
}
