//! `thalweg doctor`: devices and environment.

use crate::failure::Outcome;
use crate::report;
use thalweg::{Device, environment};

/// Arguments of `thalweg doctor`.
#[derive(clap::Args, Debug)]
pub struct Doctor {
    /// Measure the cost constants of this device (0.15 s), for all later processes
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
    // An invalid environment prevents measurements, but its errors can be shown.
    if let Err(wrong) = environment::check() {
        show_environment();
        return Err(wrong.into());
    }
    let device = Device::try_default()?;
    crate::out!("device        {}: {}", device.name(), device.describe());
    #[cfg(feature = "cuda")]
    crate::gpus::show();
    #[cfg(not(feature = "cuda"))]
    crate::out!("GPUs          built without them (feature `cuda`)");
    #[cfg(feature = "wgpu")]
    crate::adapters::show();
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
    show_environment();
    Ok(())
}

/// Prints the environment variables that Thalweg reads: value, meaning, and valid values.
fn show_environment() {
    crate::out!("environment");
    for variable in environment::ALL.iter().filter(|v| !v.inner || v.text().is_some()) {
        let value = variable.text().map_or("-".into(), |v| v.to_string_lossy().into_owned());
        let wrong = variable.read().err().map_or(String::new(), |mistake| format!("  WRONG: {}", mistake.why));
        crate::out!("  {:<22} {value}{wrong}", variable.name);
        crate::out!("    {}: {}", variable.about, variable.allowed());
    }
    environment::unknown().iter().for_each(|unknown| crate::out!("  {unknown}"));
    environment::outdated().iter().for_each(|outdated| crate::out!("  {outdated}"));
}

/// Vector extensions of the processor, of those that emitted code uses or that matter to it.
fn instruction_sets() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let all = [
            ("sse4.2", is_x86_feature_detected!("sse4.2")),
            ("avx", is_x86_feature_detected!("avx")),
            ("f16c", is_x86_feature_detected!("f16c")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx2", is_x86_feature_detected!("avx2")),
        ];
        let of_avx512 = [
            ("f", is_x86_feature_detected!("avx512f")),
            ("bw", is_x86_feature_detected!("avx512bw")),
            ("dq", is_x86_feature_detected!("avx512dq")),
            ("vl", is_x86_feature_detected!("avx512vl")),
            ("bf16", is_x86_feature_detected!("avx512bf16")),
            ("vnni", is_x86_feature_detected!("avx512vnni")),
        ];
        let there = |of: &[(&'static str, bool)]| of.iter().filter(|f| f.1).map(|f| f.0).collect::<Vec<_>>();
        let mut shown = there(&all).join(" ");
        if let parts @ [_, ..] = &there(&of_avx512)[..] {
            shown += &format!(" avx512({})", parts.join(" "));
        }
        // The processor has them, and the operating system lets this process use them.
        if thalweg::CpuEngine::Avx512Amx.available() {
            shown += " amx(bf16)";
        }
        shown
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
