//! Command line of the fuzzer.

use std::path::PathBuf;

/// Runs random programs fused, unfused, with other drop points, with other scalars, in several segments, across threads
/// and by the reference interpreter; values, counters and explanations must agree
#[derive(clap::Parser, Debug)]
#[command(name = "thalweg-fuzz", max_term_width = 100)]
pub struct Arguments {
    /// Number of programs
    #[arg(long, default_value_t = 2000)]
    pub programs: u64,
    /// Seed of the first program; each further one adds 1
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run only the program with this seed, and print panic messages
    #[arg(long, value_name = "SEED", conflicts_with_all = ["programs", "seed"])]
    pub only: Option<u64>,
    /// Print a failing program without shrinking it
    #[arg(long)]
    pub whole: bool,
    /// Run programs with gradients: each program is differentiated, the recorded operations run in every mode, and
    /// gradients are compared with finite differences
    #[arg(long, conflicts_with_all = ["cache"])]
    pub gradients: bool,
    /// Run random kernels: each is called on numbers, by the interpreter, and between other operations, which run in
    /// every mode; with --gradients, which are differentiated
    #[arg(long, conflicts_with_all = ["cache"])]
    pub kernels: bool,
    /// Run library functions composed of operations: the recorded operations run in every mode
    #[arg(long, conflicts_with_all = ["cache", "gradients", "kernels"])]
    pub functions: bool,
    /// Run loops of up to a hundred iterations whose results are read, or waited for, at their end
    #[arg(long, conflicts_with_all = ["cache", "gradients", "kernels", "functions"])]
    pub loops: bool,
    /// Set this size threshold and leave all that are not named at their defaults, such as thalweg-cpu.min_radix=2
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    pub threshold: Vec<String>,
    /// Leave all size thresholds at their defaults
    #[arg(long)]
    pub default_thresholds: bool,
    /// Print how often each side of each size threshold was taken
    #[arg(long)]
    pub coverage: bool,
    /// Fail when a side of a size threshold was taken fewer than N times; each such side is listed
    #[arg(long, value_name = "N")]
    pub least_coverage: Option<u64>,
    /// Add the counts of sides to those in this file, which --coverage and --least-coverage look at then; with --programs 0
    /// these of earlier runs alone
    #[arg(long, value_name = "FILE")]
    pub coverage_file: Option<PathBuf>,
    /// The device: cpu, cuda:0, cuda:emulated, cuda:emulated:small whose cache holds next to nothing, wgpu:0 (with the features that they need)
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Also run each program as new processes would: with an empty disk cache, with one that holds its plans, and with
    /// one that holds altered plans
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Cache machine code for GPUs in this folder, which concurrent fuzzers may share
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["cache"])]
    pub code: Option<PathBuf>,
    /// Run nothing, and compile the programs' kernels for GPUs of these compute capabilities, such as 80,90
    #[cfg(feature = "cuda")]
    #[arg(long, value_name = "CHIPS", value_delimiter = ',', conflicts_with_all = ["device", "cache", "whole"])]
    pub compile: Vec<u32>,
    /// Plan the segment in a file named by an error message of Thalweg, and print the plan
    #[arg(long, value_name = "FILE", conflicts_with_all = ["programs", "seed", "only", "device", "cache", "whole", "gradients", "kernels", "functions"])]
    pub segment: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory, Parser};

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("thalweg-fuzz").chain(words.iter().copied()))
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for words in
            [&["--program", "5"][..], &["--strict"], &["5"], &["--programs", "many"], &["--only", "1", "--seed", "2"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
        let arguments = parse(&["--programs", "5", "--seed", "7"]).unwrap();
        assert_eq!((arguments.programs, arguments.seed, arguments.only), (5, 7, None));
        assert_eq!(parse(&["--only", "9"]).unwrap().only, Some(9));
    }

    #[test]
    fn help_names_every_option() {
        let help = Arguments::command().render_long_help().to_string();
        for option in [
            "--programs",
            "--seed",
            "--only",
            "--whole",
            "--gradients",
            "--kernels",
            "--functions",
            "--coverage",
            "--least-coverage",
            "--coverage-file",
            "--threshold",
            "--default-thresholds",
            "--loops",
            "--device",
            "--cache",
            "--segment",
        ] {
            assert!(help.contains(option), "{help}");
        }
    }
}
