//! End-to-end tests of the program: output, files, refusals.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use thalweg::Tensor;

/// The program with these arguments, and an environment that is the same for all runs of these tests, because plans and
/// measurements depend on it.
fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(args).current_dir(folder()).stdin(Stdio::null());
    for variable in thalweg::environment::ALL {
        command.env_remove(variable.name);
    }
    command
        .env("THALWEG_CACHE", "off")
        .env("THALWEG_DEVICE", "cpu")
        .env("THALWEG_THREADS", "2")
        .env("THALWEG_AUTOTUNE", "off");
    command
}

fn thalweg(args: &[&str]) -> Output {
    program(args).output().expect("the program starts")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn refusal(args: &[&str]) -> String {
    let output = thalweg(args);
    assert!(!output.status.success(), "{args:?} should fail");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn demo_takes_an_array_and_writes_its_gelu() {
    let (x, y) = (folder().join("demo-x.npy"), folder().join("demo-y.npy"));
    Tensor::new([-1.0f32, 0.0, 1.0, 2.0]).write_npy(&x).unwrap();
    let page = folder().join("demo.html");
    let args = ["demo", "--input", x.to_str().unwrap(), "--output", y.to_str().unwrap(), "--html"];
    let out = text(&thalweg(&[&args[..], &[page.to_str().unwrap()]].concat()));
    assert_eq!(out.matches("all 4 values agree with the reference interpreter's").count(), 3, "{out}");
    let long: Vec<&str> = out.lines().skip(1).filter(|l| l.chars().count() > 80 && !l.contains("demo")).collect();
    assert!(long.is_empty(), "wider than 80 columns: {long:?}");
    let gelu = Tensor::read_npy(&y).unwrap().to_vec::<f32>().unwrap();
    let expected = [-0.158_655_26, 0.0, 0.841_344_7, 1.954_499_7];
    assert!(gelu.iter().zip(expected).all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-6), "{gelu:?}");
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
}

#[test]
fn demo_refuses_what_is_no_array() {
    assert!(refusal(&["demo", "--input", "there-is-none.npy"]).contains("there-is-none.npy"));
    let bad = folder().join("bad.npy");
    std::fs::write(&bad, b"\x93NUMPY and then nothing").unwrap();
    assert!(refusal(&["demo", "--input", bad.to_str().unwrap()]).starts_with("error: "));
}

#[test]
fn bench_prints_the_promised_keys() {
    let out = text(&thalweg(&["bench", "small_chain", "--json"]));
    for key in [
        "workload",
        "device",
        "mode",
        "median_ms",
        "min_ms",
        "cold_ms",
        "runs",
        "kernels",
        "bytes_read",
        "bytes_written",
        "bytes_allocated",
        "operations",
        "plans_made",
        "plans_found",
    ] {
        assert!(out.contains(&format!("\"{key}\":")), "{key} is missing in {out}");
    }
    assert!(out.contains("\"operations\":300,\"plans_made\":1,"), "{out}");
}

#[test]
fn bench_starts_fresh_processes() {
    let out = text(&thalweg(&["bench", "cold_start", "--json"]));
    assert!(out.contains("\"runs\":20,\"kernels\":") && out.contains("\"operations\":47,"), "{out}");
}

#[test]
fn workloads_that_are_not_there_are_refused() {
    assert!(refusal(&["bench", "nonsense"]).contains("gelu_custom"));
    assert!(refusal(&["bench", "gelu_ref", "--device", "cuda:9"]).contains("cuda:9"));
}

#[test]
fn explain_says_the_same_in_every_form() {
    let out = text(&thalweg(&["explain", "example"]));
    assert!(out.lines().all(|l| l.chars().count() <= 80), "wider than 80 columns: {out}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("as run 1 kernel 8,192 B read 4,096 B written 4,096 B allocated"), "{out}");
    assert!(words.contains("unfused 3 kernels 24,576 B read 12,288 B written"), "{out}");
    let json = text(&thalweg(&["explain", "example", "--json"]));
    assert!(json.contains("\"bytes_read\": 8192"), "{json}");
}

#[test]
fn trace_and_doctor_work() {
    let file = folder().join("trace.json");
    text(&thalweg(&["trace", "example", "--output", file.to_str().unwrap()]));
    assert!(std::fs::read_to_string(file).unwrap().contains("\"ph\":\"X\""));
    let out = text(&thalweg(&["doctor"]));
    assert!(out.contains("bandwidth") && out.contains("\nGPUs"), "{out}");
    // Paths are on lines of their own, which may be longer.
    let long: Vec<&str> = out.lines().filter(|l| l.chars().count() > 80 && !l.contains('/')).collect();
    assert!(long.is_empty(), "wider than 80 columns: {long:?}");
}

#[test]
fn numerics_keep_their_bounds() {
    let out = text(&thalweg(&["numerics", "--elements", "10000"]));
    assert!(out.lines().all(|l| l.chars().count() <= 80), "wider than 80 columns: {out}");
    assert!(out.contains("1e6 + normal") && out.contains("all -inf") && !out.contains(" NO"), "{out}");
}

#[test]
fn a_worker_answers_line_by_line() {
    use std::io::Write;
    let mut worker = program(&["worker"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let requests =
        "{\"workload\":\"small_chain\",\"runs\":3,\"ms\":1}\nnonsense\n{\"workload\":\"none\",\"runs\":3,\"ms\":1}\n";
    worker.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let out = text(&worker.wait_with_output().unwrap());
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 3 && lines[0].contains("median_ms"), "{out}");
    assert!(lines[1].starts_with("{\"error\"") && lines[2].starts_with("{\"error\""), "{out}");
}

#[test]
fn the_disk_cache_can_be_seen_emptied_and_carried_away() {
    let (one, other) = (folder().join("cache-one"), folder().join("cache-other"));
    let _ = (std::fs::remove_dir_all(&one), std::fs::remove_dir_all(&other));
    let with = |cache: &Path, args: &[&str]| {
        let mut command = program(args);
        command.env("THALWEG_CACHE", cache).env("THALWEG_CALIBRATE", "off").output().expect("the program starts")
    };
    let bench = |cache: &Path| text(&with(cache, &["bench", "small_chain", "--json"]));
    assert!(bench(&one).contains("\"plans_made\":1,"));
    let again = bench(&one);
    assert!(again.contains("\"plans_made\":0,") && again.contains("\"plans_loaded\":1"), "{again}");
    let info = text(&with(&one, &["cache", "info"]));
    let entries = info.lines().find_map(|l| l.strip_prefix("all")?.split_whitespace().next()?.parse().ok());
    let entries: usize = entries.unwrap_or_else(|| panic!("{info}"));
    assert!(entries > 0 && info.lines().skip(1).all(|l| l.chars().count() <= 80), "{info}");
    let entry = std::fs::read_dir(one.join("plan")).unwrap().next().unwrap().unwrap().path();
    let good = std::fs::read(&entry).unwrap();

    assert!(text(&with(&one, &["cache", "export", "all.cache"])).contains(&format!("wrote {entries} entr")));
    assert!(text(&with(&other, &["cache", "import", "all.cache"])).contains(&format!("took {entries} entr")));
    assert!(bench(&other).contains("\"plans_loaded\":1"));
    let refused = with(&other, &["cache", "import", "Cargo.toml"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).starts_with("error: "));

    std::fs::write(&entry, &good[..good.len() - 1]).unwrap();
    let info = text(&with(&one, &["cache", "info"]));
    assert!(info.contains("ignored       1 file") && info.contains("cut off"), "{info}");
    assert!(text(&with(&one, &["cache", "clear"])).contains(&format!("removed {entries} file")));
    assert!(text(&with(&one, &["cache", "info"])).contains("all           0 entries"));
    assert!(!with(Path::new("off"), &["cache", "info"]).status.success());
}

#[test]
fn a_cache_is_warmed_by_running_a_program() {
    let (own, carried) = (folder().join("cache-warm"), folder().join("cache-carried"));
    let _ = (std::fs::remove_dir_all(&own), std::fs::remove_dir_all(&carried));
    let with = |cache: &Path, args: &[&str]| {
        let mut command = program(args);
        command.env("THALWEG_CACHE", cache).env("THALWEG_CALIBRATE", "off").output().expect("the program starts")
    };
    let this = env!("CARGO_BIN_EXE_thalweg");
    let warm = |more: &[&str]| with(&own, &[&["cache", "warm"], more, &[this, "bench", "small_chain"]].concat());
    // With `--to`, nothing is left in the folder.
    assert!(text(&warm(&["--to", "warm.cache"])).contains("to warm.cache"));
    assert!(text(&with(&own, &["cache", "info"])).contains("all           0 entries"));
    text(&with(&carried, &["cache", "import", "warm.cache"]));
    assert!(text(&warm(&[])).contains(" more in "));
    for cache in [&own, &carried] {
        let out = text(&with(cache, &["bench", "small_chain", "--json"]));
        assert!(out.contains("\"plans_made\":0,") && out.contains("\"plans_loaded\":1"), "{out}");
    }
    let failed = with(&own, &["cache", "warm", "--to", "none.cache", this, "no-such-command"]);
    assert!(!failed.status.success() && !folder().join("none.cache").exists());
}

/// Runs the program with one more variable set.
fn with_variable(name: &str, value: &str, args: &[&str]) -> Output {
    program(args).env(name, value).output().expect("the program starts")
}

#[test]
fn a_misspelt_variable_is_an_error_that_lists_what_is_allowed() {
    for (name, value, allowed) in [
        ("THALWEG_ISA", "avx3", "avx512-amx, avx512-narrow, avx512, avx2 or tile"),
        ("THALWEG_THREADS", "many", "a number of threads, 1 to 1048576"),
        ("THALWEG_MEMORY_LIMIT", "4Q", "a number of bytes such as 512M or 4G"),
        ("THALWEG_DEVICE", "gpu", "cpu, cuda, cuda:0 and so on, or wgpu:0 and so on"),
        ("THALWEG_FUSION", "of", "on or off"),
        ("THALWEG_STRICT", "yes", "on or off"),
        ("THALWEG_SEARCH", "ful", "none, full, or a number of operations"),
        ("THALWEG_AUTOTUNE", "on", "off, or a percentage from 0 to 100"),
        ("THALWEG_DEFER", "no", "on or off"),
        ("THALWEG_CALIBRATE", "never", "off, or a number of milliseconds of kernels"),
        ("THALWEG_CACHE", "of", "off, or a folder (a new one has a slash in it)"),
        ("THALWEG_CUDA_GRAPHS", "0", "on or off"),
        ("THALWEG_CUDA_OVERLAP", "0", "on or off"),
        ("THALWEG_CUDA_QUEUES", "0", "on or off"),
    ] {
        for command in [&["bench", "small_chain"][..], &["cache", "info"]] {
            let output = with_variable(name, value, command);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert_eq!(said, format!("error: {name}={value}: it may be {allowed}\n"));
        }
        let output = with_variable(name, value, &["doctor"]);
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(2), "{shown}");
        assert!(shown.contains(&format!("{value}  WRONG: it may be {allowed}")), "{shown}");
    }
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_and_no_panic() {
    for command in ["bench small_chain", "demo", "bandwidth", "explain example", "numerics", "predict", "doctor"] {
        let args: Vec<&str> = command.split(' ').collect();
        let output = with_variable("THALWEG_DEVICE", "cuda:99", &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command}");
        assert!(said.starts_with("error: cuda:99: ") && said.lines().count() == 1, "{command}: {said}");
    }
}

#[test]
fn a_variable_that_nothing_reads_is_warned_of() {
    let output = with_variable("THALWEG_THREAD", "2", &["explain", "example"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "warning: THALWEG_THREAD is set, and nothing reads it: is THALWEG_THREADS meant?\n");
    let shown = text(&with_variable("THALWEG_THREAD", "2", &["doctor"]));
    assert!(shown.contains("THALWEG_THREAD is set, and nothing reads it"), "{shown}");
    assert!(shown.contains("THALWEG_ISA") && shown.contains("avx512, avx2 or tile"), "{shown}");
}
