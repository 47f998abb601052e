//! The differential fuzzer: random programs run fused, unfused, with drops in other places, with other scalars, in several
//! segments, across threads, on a device with eight threads, and by the reference interpreter; values, counters and explanations must agree.
//!
//! `thalweg-fuzz [--programs N] [--seed S] [--only SEED] [--cache DIR] [--device NAME] [--whole] [--compile 80,90]`. Program `i` has seed `S + i`; a failure is shrunk (not with `--whole`), printed, and can
//! be run alone with `--only`. With `--cache` each program also runs in new processes' stead: without plans in memory, with an empty disk cache, with one that
//! holds its plans, and with one that holds something like them. With `--compile` nothing runs: the programs' kernels are compiled for GPUs of these compute capabilities.

mod check;
#[cfg(feature = "cuda")]
mod compile;
mod disk;
mod generate;
mod program;
mod stability;
mod tolerance;

use check::{Checker, Ways};
use disk::Disk;
use program::Program;
use std::process::ExitCode;
use std::time::Instant;
use thalweg_cpu::{CpuDevice, CpuOptions};
use thalweg_stream::DeviceRef;

/// Every so many programs are also run on a device with many threads: waking them takes longer than all else.
const THREADED: u64 = 4;
/// Every so many are also run by other plans than the usual one.
const PLANNED: u64 = 5;
/// The same on a GPU, whose kernels take longer to compile.
const PLANNED_ON_GPU: u64 = 200;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let number = |name: &str| {
        option(name).map(|v| v.parse::<u64>().unwrap_or_else(|_| panic!("{name} takes a number, not {v}")))
    };
    let only = number("--only");
    let (seed, programs) = match only {
        Some(seed) => (seed, 1),
        None => (number("--seed").unwrap_or(1), number("--programs").unwrap_or(2000)),
    };
    #[cfg(feature = "cuda")]
    if let Some(chips) = option("--compile") {
        let chip = |sm: &str| sm.trim().parse().unwrap_or_else(|_| panic!("--compile takes 80,90, not {chips}"));
        let chips: Vec<u32> = chips.split(',').map(chip).collect();
        return if compile::run(seed, programs, &chips) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let many = CpuOptions { threads: 8, parallel_ns: 0.0, ..CpuOptions::default() };
    let checker = match option("--device").map(String::as_str) {
        None | Some("cpu") => {
            Checker::new(DeviceRef::register(CpuDevice::new()), DeviceRef::register(CpuDevice::with(many)))
        }
        #[cfg(feature = "cuda")]
        Some(name) => Checker::on_gpu(DeviceRef::register(
            thalweg_cuda::CudaDevice::open(name).unwrap_or_else(|why| panic!("{name}: {why}")),
        )),
        #[cfg(not(feature = "cuda"))]
        Some(name) => panic!("{name}: built without GPUs"),
    };
    let checker = match option("--cache") {
        Some(folder) => checker.with_disk(Disk::open(folder.as_ref()).unwrap_or_else(|why| panic!("{folder}: {why}"))),
        None => checker,
    };
    // Failures are reported as such; a panic's own message would only repeat them.
    std::panic::set_hook(Box::new(move |info| {
        if only.is_some() {
            eprintln!("{info}");
        }
    }));
    let planned = if option("--device").is_some_and(|d| d != "cpu") { PLANNED_ON_GPU } else { PLANNED };
    let begin = Instant::now();
    let mut failed = 0u64;
    for i in 0..programs {
        let program = generate::program(seed + i);
        let started = Instant::now();
        let ways = Ways { threads: (seed + i).is_multiple_of(THREADED), plans: (seed + i).is_multiple_of(planned) };
        let result = outcome(&checker, &program, ways);
        // Planning and compiling are to stay quick whatever the program.
        if started.elapsed().as_secs() >= 5 {
            println!("seed {}: took {:.1} s", seed + i, started.elapsed().as_secs_f64());
        }
        if let Err(why) = result {
            failed += 1;
            // Where each kernel takes long to compile, a failure is looked at alone.
            let whole = args.iter().any(|a| a == "--whole");
            let (program, why) = if whole { (program, why) } else { shrink(&checker, program, ways, why) };
            println!("seed {}: {why}\n{}", seed + i, program.listing());
            if failed >= 10 {
                println!("stopped after 10 failures");
                break;
            }
        }
        // A bounded memory of patterns: millions of different programs are not what a plan store is for.
        if i % 1000 == 999 {
            thalweg_stream::clear_plans();
            println!("{} programs, {:.0} s", i + 1, begin.elapsed().as_secs_f64());
        }
    }
    println!("{} passed, {failed} failed", programs - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn outcome(checker: &Checker, program: &Program, ways: Ways) -> Result<(), String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| checker.check(program, ways))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!(
            "panicked: {}",
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
        ))
    })
}

/// The smallest program found that fails still, by leaving out steps and asking for less.
fn shrink(checker: &Checker, mut program: Program, ways: Ways, mut why: String) -> (Program, String) {
    loop {
        let n = program.steps.len();
        let without = (0..n).rev().filter_map(|i| program.without(i));
        let unkept = (0..n).filter(|&i| program.steps[i].kept).filter_map(|i| {
            let mut p = program.clone();
            p.steps[i].kept = false;
            p.steps.iter().any(|s| s.kept).then_some(p)
        });
        let smaller = without.chain(unkept).find_map(|p| outcome(checker, &p, ways).err().map(|e| (p, e)));
        match smaller {
            Some((p, e)) => (program, why) = (p, e),
            None => return (program, why),
        }
    }
}
