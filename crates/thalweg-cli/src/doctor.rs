//! `thalweg doctor`: what there is to run on, and what the environment says.

use crate::failure::Outcome;
use crate::report;
use thalweg::Device;

/// Environment variables that Thalweg reads, and what they do.
const VARIABLES: &[(&str, &str)] = &[
    ("THALWEG_DEVICE", "the default device: cpu, cuda:0, …"),
    ("THALWEG_THREADS", "threads of the CPU device"),
    ("THALWEG_MEMORY_LIMIT", "bytes in use on the device, such as 512M or 4G"),
    ("THALWEG_ISA", "avx512, avx2 or tile, not the best"),
    ("THALWEG_FUSION", "off: one kernel an operation"),
    ("THALWEG_STRICT", "on: fused and unfused agree to the bit"),
    ("THALWEG_MATMUL_PRECISION", "high: f32 products in TF32 on GPUs"),
    ("THALWEG_SEARCH", "none, full, or a number of visits"),
    ("THALWEG_MEASURE", "off, or % of time for measuring plans"),
    ("THALWEG_DEFER", "off: unread results are written too"),
    ("THALWEG_CUDA_GRAPHS", "off: each launch by itself, never as a graph"),
    ("THALWEG_CUDA_OVERLAP", "off: launches wait for those before"),
    ("THALWEG_CUBLASLT_FROM", "least multiplications for cuBLASLt"),
    ("THALWEG_CUDA_DUMP", "a folder for the sources that are compiled"),
    ("THALWEG_CACHE", "off, or the folder of the disk cache"),
    ("THALWEG_CALIBRATE", "off, or after how many ms of kernels"),
];

/// Arguments of `thalweg doctor`.
#[derive(clap::Args, Debug)]
pub struct Doctor {
    /// Measure what things take on this device (0.15 s), for all processes to come
    #[arg(long)]
    calibrate: bool,
}

impl Doctor {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        run(self.calibrate)
    }
}

fn run(calibrate: bool) -> Outcome {
    crate::out!("thalweg       {}", env!("CARGO_PKG_VERSION"));
    let device = Device::try_default()?;
    crate::out!("device        {}: {}", device.name(), device.describe());
    #[cfg(feature = "cuda")]
    crate::gpus::show();
    #[cfg(not(feature = "cuda"))]
    crate::out!("GPUs          built without them (feature `cuda`)");
    crate::out!("vectors       {}", instruction_sets());
    let bandwidth = device.bandwidth()?;
    crate::out!(
        "bandwidth     {} with one thread, {} with {}",
        report::rate(bandwidth.one),
        report::rate(bandwidth.all),
        bandwidth.threads
    );
    crate::out!("memory        {}", memory());
    crate::out!("huge pages    {}", huge_pages());
    crate::out!("disk cache    {}", crate::cache::summary());
    crate::costs::show(device, calibrate)?;
    crate::out!("environment");
    for (name, about) in VARIABLES {
        let value = std::env::var(name).unwrap_or_else(|_| "-".into());
        crate::out!("  {name:<17} {value:<10} {about}");
    }
    Ok(())
}

/// The vector extensions that the processor has, of those that code is emitted for or that matter to it.
fn instruction_sets() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let all = [
            ("sse4.2", is_x86_feature_detected!("sse4.2")),
            ("avx", is_x86_feature_detected!("avx")),
            ("f16c", is_x86_feature_detected!("f16c")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512bw", is_x86_feature_detected!("avx512bw")),
            ("avx512dq", is_x86_feature_detected!("avx512dq")),
            ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ];
        all.iter().filter(|f| f.1).map(|f| f.0).collect::<Vec<_>>().join(" ")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        format!("{}: the portable engine runs here", std::env::consts::ARCH)
    }
}

fn memory() -> String {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(report::size(kib * 1024))
    };
    match (field("MemTotal"), field("MemAvailable")) {
        (Some(total), Some(free)) => format!("{total}, {free} available"),
        _ => "unknown on this system".into(),
    }
}

fn huge_pages() -> String {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let chosen = std::fs::read_to_string(path).ok().and_then(|text| {
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_string())
    });
    match chosen.as_deref() {
        Some("never") => "never: large tensors start slowly (echo madvise > ".to_string() + path + ")",
        Some(mode) => format!("{mode} (large buffers ask for them)"),
        None => "unknown on this system".into(),
    }
}
