//! Compiles the sources of programs for GPUs that need not be present.
//!
//! Input: programs. Output: the kernels that NVRTC rejects, by chip. Each program is planned as usual, some also in
//! strict mode, on a device that collects sources; nothing runs. Sources common to several programs are compiled once.

use crate::check::Checker;
use crate::generate;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use thalweg_cuda::CudaDevice;
use thalweg_cuda::driver::{Absent, joined, nvrtc, readable};
use thalweg_stream::DeviceRef;

/// Number of sources that a thread takes at a time.
const PART: usize = 48;
/// Maximum number of sources compiled as one.
const JOINED: usize = 16;
/// Period of programs that are planned in strict mode, too, whose kernels are of fewer kinds.
const STRICT: u64 = 5;

/// Kernel source, with the seed of the first program that has it.
struct KernelSource {
    seed: u64,
    source: String,
}

/// Compiles the kernels of programs for these chips; returns the number of failures.
pub fn run(seed: u64, programs: u64, chips: &[u32]) -> u64 {
    let begin = Instant::now();
    let (found, mut failed) = collect(seed, programs);
    println!("{} sources of {programs} programs, {:.1} s", found.len(), begin.elapsed().as_secs_f64());
    let known = nvrtc::supported_sms().unwrap_or_else(|why| panic!("{why}"));
    let (chips, unknown): (Vec<u32>, Vec<u32>) = chips.iter().partition(|sm| known.contains(sm));
    if !unknown.is_empty() {
        println!("this NVRTC does not know {unknown:?}");
    }
    for (source, (seed, refusals)) in compile(&found, &chips) {
        failed += 1;
        println!("seed {seed}: {}\n{}", refusals.join("\n"), readable(source));
    }
    println!(
        "{} sources compiled for {chips:?}, {failed} failures, {:.1} s",
        found.len(),
        begin.elapsed().as_secs_f64()
    );
    failed
}

/// Collects the sources of programs; also counts the programs that could not be planned.
fn collect(seed: u64, programs: u64) -> (Vec<KernelSource>, u64) {
    // The disk cache is off: cached kernels would not be compiled, and the stub's output is not machine code.
    thalweg_runtime::disk::set(None);
    let driver = Arc::new(Absent::new());
    let device = CudaDevice::with(driver.clone(), "cuda:absent").unwrap_or_else(|why| panic!("{why}"));
    let checker = Checker::on_gpu(DeviceRef::register(device));
    let (mut found, mut failed) = (vec![], 0);
    for seed in seed..seed + programs {
        let program = generate::program(seed);
        let planned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            checker.plan(&program, seed.is_multiple_of(STRICT))
        }));
        let why = match planned {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why.to_string()),
            Err(_) => Some("panicked".into()),
        };
        if let Some(why) = why {
            failed += 1;
            println!("seed {seed}: {why}\n{}", program.listing());
        }
        found.extend(driver.take().into_iter().map(|source| KernelSource { seed, source }));
    }
    (found, failed)
}

/// Compiles sources; returns those rejected, with the seed of a program and the compiler's messages per chip.
fn compile<'a>(found: &'a [KernelSource], chips: &[u32]) -> BTreeMap<&'a str, (u64, Vec<String>)> {
    let parts: Vec<&[KernelSource]> = found.chunks(PART).collect();
    let (next, refused) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(part) = parts.get(next.fetch_add(1, Relaxed)) {
            let sources: Vec<&str> = part.iter().map(|f| f.source.as_str()).collect();
            let all = joined(&sources, JOINED);
            for &sm in chips {
                if all.iter().all(|source| nvrtc::compile_for(sm, source).is_ok()) {
                    continue;
                }
                for f in *part {
                    let Err(why) = nvrtc::compile_for(sm, &f.source) else { continue };
                    let mut refused = refused.lock().unwrap_or_else(|e| e.into_inner());
                    let of = refused.entry(f.source.as_str()).or_insert((f.seed, vec![]));
                    of.1.push(format!("for sm_{sm}: {why}"));
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    refused.into_inner().unwrap_or_else(|e| e.into_inner())
}
