//! The differential fuzzer: random programs run fused, unfused, with other drop points, with other scalars, in several
//! segments, across threads, on a device with eight threads, and by the reference interpreter; values, counters and
//! explanations must agree.
//!
//! See `thalweg-fuzz --help`. Program `i` has seed `S + i`; a failing program is shrunk, printed, and can be run alone
//! with `--only`. The exit code is 0 if all programs passed, 1 if one failed, and 2 if nothing could be run.

mod arguments;
mod check;
#[cfg(feature = "cuda")]
mod compile;
mod coverage;
mod disk;
mod functions;
mod generate;
mod gradients;
mod kernels;
mod loops;
#[cfg(all(test, feature = "probe"))]
mod probe;
mod products;
mod program;
mod segment;
mod selection;
mod stability;
mod tolerance;
mod traffic;
mod tuning;

use arguments::Arguments;
use check::{Checker, ExtraChecks};
use clap::Parser;
use coverage::Coverage;
use disk::Disk;
use program::Program;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use thalweg_cpu::{Choice, CpuDevice, CpuOptions};
use thalweg_runtime::{Error, environment};
use thalweg_stream::DeviceRef;
use traffic::Compared;

/// Period of programs that also run on a device with many threads: waking these takes longer than everything else.
const THREADED: u64 = 4;
/// Period of programs that are followed by nearly equal programs, which take three times as long as everything else.
const NEAR: u64 = 4;
/// Period of programs that also run with other plans.
const PLANNED: u64 = 5;
/// [`PLANNED`] for GPUs, whose kernels take longer to compile.
const PLANNED_ON_GPU: u64 = 200;

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|why| {
        eprintln!("error: {why}");
        ExitCode::from(2)
    })
}

/// Runs the fuzzer; an error means that nothing could be checked.
fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    environment::check()?;
    environment::unknown().iter().for_each(|unknown| eprintln!("warning: {unknown}"));
    if let Some(path) = &arguments.segment {
        return segment::plan(path);
    }
    let only = arguments.only;
    let (seed, programs) = only.map_or((arguments.seed, arguments.programs), |seed| (seed, 1));
    #[cfg(feature = "cuda")]
    if !arguments.compile.is_empty() {
        let failed = compile::run(seed, programs, &arguments.compile);
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    // Checks of plans expect searched ones; `tiers` checks cold starts.
    thalweg_stream::set_tiers_of_new_threads(false);
    // Ignore the user's disk cache: one device might find plans there and the other not.
    let code = arguments.code.as_deref().map(disk::code).transpose()?;
    thalweg_runtime::disk::set(code);
    let checker = checker(arguments)?;
    // Failures are reported; the panic's own message would only repeat them.
    std::panic::set_hook(Box::new(move |info| {
        if only.is_some() {
            eprintln!("{info}");
        }
    }));
    let planned = if arguments.device == "cpu" { PLANNED } else { PLANNED_ON_GPU };
    if arguments.coverage || arguments.least_coverage.is_some() || arguments.coverage_file.is_some() {
        thalweg_ir::tunable::count_sides();
    }
    let begin = Instant::now();
    let (mut failed, mut skipped) = (0u64, 0u64);
    for i in 0..programs {
        match arguments.default_thresholds || !arguments.threshold.is_empty() {
            true => tuning::set(&arguments.threshold)?,
            false => tuning::draw(seed + i),
        }
        let (name, program) = match (arguments.functions, arguments.kernels, arguments.gradients) {
            (true, _, _) => match functions::program(&checker, seed + i).map_err(Error::Value)? {
                Some(made) => made,
                None => {
                    skipped += 1;
                    continue;
                }
            },
            // A kernel is determined by its seed and cannot be shrunk. Devices of fast math run what one records.
            (_, true, false) if !arguments.device.starts_with("wgpu") => ("", Program::default()),
            (_, true, _) => {
                let made = kernels::program(&checker, seed + i);
                ("", made.unwrap_or_else(|why| panic!("seed {}: {why}", seed + i)))
            }
            // A loop is determined by its seed and cannot be shrunk.
            _ if arguments.loops => ("", Program::default()),
            _ => ("", generate::program(seed + i)),
        };
        // User-defined combines are differentiated when a kernel is called, not as operations.
        let combined = program.steps.iter().any(|s| s.op.is_combined());
        if arguments.gradients && (combined || !gradients::is_small(&program)) {
            skipped += 1;
            continue;
        }
        let started = busy();
        let ways = ExtraChecks {
            threads: (seed + i).is_multiple_of(THREADED),
            plans: (seed + i).is_multiple_of(planned),
            near: (seed + i) % NEAR == 1,
            scalars: true,
        };
        #[cfg(feature = "wgpu")]
        let is_fast_math = arguments.device.starts_with("wgpu");
        let check = |program: &Program| match (arguments.gradients, arguments.kernels, arguments.functions) {
            #[cfg(feature = "wgpu")]
            _ if is_fast_math && arguments.loops => loops::check_fast_math(&checker, seed + i),
            #[cfg(feature = "wgpu")]
            _ if is_fast_math => {
                let gradients_of = arguments.gradients.then_some(seed + i);
                check_fast_math(&checker, program, gradients_of)
            }
            _ if arguments.loops => loops::check(&checker, seed + i),
            (true, _, _) => gradients::check(&checker, program, seed + i, ways),
            (_, true, _) => kernels::check(&checker, seed + i, ways),
            (_, _, true) => functions::check(&checker, program, ways),
            _ => checker.check(program, ways),
        };
        let result = outcome(&check, &program);
        // Planning and compiling a program must not take long.
        let taken = busy() - started;
        if taken.as_secs() >= 5 {
            println!("seed {}: took {:.1} s", seed + i, taken.as_secs_f64());
            if only.is_some() {
                println!("{}", tuning::drawn());
            }
        }
        if let Err(why) = result {
            failed += 1;
            // Where kernels take long to compile, a failing program is not shrunk.
            let (program, why) = if arguments.whole { (program, why) } else { shrink(&check, program, why) };
            println!("seed {}: {name} {why}\n{}{}", seed + i, program.listing(), tuning::drawn());
            if failed >= 10 {
                println!("stopped after 10 failures");
                break;
            }
        }
        // Plans of millions of different programs would fill the memory.
        if i % 1000 == 999 {
            thalweg_stream::clear_plans();
            println!("{} programs, {:.0} s", i + 1, begin.elapsed().as_secs_f64());
        }
    }
    if arguments.gradients {
        println!("{skipped} too large; {}", gradients::tally());
    } else if arguments.functions {
        println!("{skipped} are no single segment");
    }
    let generic = check::generic_kernels();
    #[cfg(feature = "wgpu")]
    if arguments.device.starts_with("wgpu") {
        let refused = REFUSED.lock().unwrap_or_else(|e| e.into_inner());
        println!("{} programs refused", refused.values().sum::<u64>());
        refused.iter().for_each(|(why, n)| println!("  {n}: {why}"));
    }
    if arguments.device.starts_with("cuda") {
        println!("{generic} kernels by the generic ones");
        // If no generic kernel ever ran, all values would be right and the path untested: that is a failure.
        failed += u64::from(generic == 0 && programs >= 20 && only.is_none() && !arguments.loops);
    }
    let parts = check::known_parts();
    if arguments.device == "cpu" && !(arguments.gradients || arguments.kernels || arguments.loops) {
        let [taken, grown, improved] = parts;
        println!(
            "{taken} parts of plans taken, {grown} begun from known ones, {improved} plans exchanged for better ones"
        );
        println!("{} submissions of captured programs", check::submissions());
        let unused = parts.contains(&0) || check::submissions() == 0;
        failed += u64::from(unused && programs >= 200 && only.is_none());
    }
    let mut coverage = Coverage::of_process(&arguments.device);
    if let Some(path) = &arguments.coverage_file {
        coverage.accumulate(path)?;
    }
    if arguments.coverage {
        print!("{}", coverage.table());
    }
    println!("{} passed, {failed} failed", programs - failed.min(programs) - skipped);
    if let Some(least) = arguments.least_coverage
        && let Err(why) = coverage.check(least)
    {
        println!("{why}");
        failed += 1;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// CPU time of this thread if the system reports it; wall time means little on a shared machine.
fn busy() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = said.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.map_or_else(|| BEGIN.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

/// Makes the checker of the requested device; for the CPU with a second device of many threads.
fn checker(arguments: &Arguments) -> Result<Checker, Error> {
    let checker = match arguments.device.as_str() {
        "cpu" => {
            let many = CpuOptions { threads: 8, parallel_ns: 0.0, ..CpuOptions::from_environment()? };
            let tiles = CpuOptions { threads: 1, isa: Choice::Tile, ..CpuOptions::from_environment()? };
            let (tiles, differences) = Compared::new(CpuDevice::with(tiles), traffic::by_tiles, traffic::as_issued);
            Checker::new(DeviceRef::register(CpuDevice::open()?), DeviceRef::register(CpuDevice::with(many)))
                .with_counted(DeviceRef::register(tiles), differences)
        }
        #[cfg(feature = "emulate")]
        name @ ("cuda:emulated" | "cuda:emulated:small") => {
            let open = || thalweg_cuda::CudaDevice::open(name);
            let (counting, differences) = Compared::new(open()?, traffic::by_emulator, traffic::as_moved);
            on_gpu(&open()?)?.with_counted(DeviceRef::register(counting), differences)
        }
        #[cfg(feature = "wgpu")]
        name if name.starts_with("wgpu") => {
            Checker::fast_math(DeviceRef::register(thalweg_wgpu::WgpuDevice::open(name)?))
        }
        #[cfg(feature = "cuda")]
        name => on_gpu(&thalweg_cuda::CudaDevice::open(name)?)?,
        #[cfg(not(feature = "cuda"))]
        name => return Err(Error::Device { device: name.into(), message: "built without GPUs".into() }),
    };
    let Some(folder) = &arguments.cache else { return Ok(checker) };
    Ok(checker.with_disk(Disk::open(folder)?))
}

/// Makes a checker of a GPU; new code runs by the generic kernels, even if its operations have been compiled.
#[cfg(feature = "cuda")]
fn on_gpu(device: &std::sync::Arc<thalweg_cuda::CudaDevice>) -> Result<Checker, Error> {
    let generic = device.by_generic_kernels()?;
    Ok(Checker::on_gpu(DeviceRef::register(device.clone())).with_new_code_on(DeviceRef::register(generic)))
}

/// Programs that a device refused, by reason.
#[cfg(feature = "wgpu")]
static REFUSED: std::sync::Mutex<std::collections::BTreeMap<String, u64>> =
    std::sync::Mutex::new(std::collections::BTreeMap::new());

/// Checks a program, or its gradients for this seed, on a device without strict mode; a refused program passes, and is
/// counted.
#[cfg(feature = "wgpu")]
fn check_fast_math(checker: &Checker, program: &Program, gradients_of: Option<u64>) -> Result<(), String> {
    let outcome = match gradients_of {
        Some(seed) => gradients::check_fast_math(checker, program, seed)?,
        None => checker.check_fast_math(program)?,
    };
    if let check::Outcome::Refused(why) = outcome {
        *REFUSED.lock().unwrap_or_else(|e| e.into_inner()).entry(why).or_default() += 1;
    }
    Ok(())
}

fn outcome(check: &dyn Fn(&Program) -> Result<(), String>, program: &Program) -> Result<(), String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(program))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!(
            "panicked: {}",
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
        ))
    })
}

/// Shrinks a failing program by leaving out steps and keeping fewer results.
fn shrink(check: &dyn Fn(&Program) -> Result<(), String>, mut program: Program, mut why: String) -> (Program, String) {
    loop {
        let n = program.steps.len();
        let without = (0..n).rev().filter_map(|i| program.without(i));
        let unkept = (0..n).filter(|&i| program.steps[i].kept).filter_map(|i| {
            let mut p = program.clone();
            p.steps[i].kept = false;
            p.steps.iter().any(|s| s.kept).then_some(p)
        });
        let smaller = without.chain(unkept).find_map(|p| outcome(check, &p).err().map(|e| (p, e)));
        match smaller {
            Some((p, e)) => (program, why) = (p, e),
            None => return (program, why),
        }
    }
}
