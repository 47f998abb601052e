//! The disk cache between processes: a process finds what an earlier one saved, and damage to the files never changes
//! results.
//!
//! Child processes are this test binary, told to run only `child`, with instructions in the environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use thalweg::kernel::{Real, Row};
use thalweg::{DType, Device, Tensor, counters, kernel, with_strict};

/// Temporary directory of a test, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Place(path)
    }

    /// All entries of a kind.
    fn files(&self, kind: &str) -> Vec<PathBuf> {
        let Ok(folder) = fs::read_dir(self.0.join(kind)) else { return vec![] };
        let mut all: Vec<PathBuf> = folder.map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Report of a child.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Said {
    made: u64,
    loaded: u64,
    calibrations: u64,
    /// A hash of all bits of all results.
    results: String,
    /// Fingerprint of the costs at the end.
    costs: String,
    /// Number of compiled programs.
    compiled: u64,
    /// Number of runs without a plan.
    cold_starts: u64,
}

fn start(place: &Path, environment: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("THALWEG_CACHE", place).env("THALWEG_CALIBRATE", "off").env("TEST_CHILD", "yes");
    command.envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn said(output: Output) -> Said {
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|l| l.split_once("CHILD ")).unwrap_or_else(|| panic!("{text}")).1;
    let words: Vec<&str> = line.split(' ').collect();
    let number = |i: usize| words[i].parse().unwrap();
    Said {
        made: number(0),
        loaded: number(1),
        calibrations: number(2),
        results: words[3].to_string(),
        costs: words[4].to_string(),
        compiled: number(5),
        cold_starts: number(6),
    }
}

fn run(place: &Place, environment: &[(&str, &str)]) -> Said {
    run_in(&place.0, environment)
}

fn run_in(folder: &Path, environment: &[(&str, &str)]) -> Said {
    said(start(folder, environment).wait_with_output().unwrap())
}

/// Runs programs of all kinds; returns every bit of every result.
fn programs() -> Vec<u32> {
    let rows = std::env::var("TEST_ROWS").map_or(96, |rows| rows.parse().unwrap());
    thalweg::manual_seed(7);
    let mut bits = vec![];
    let mut take = |t: &Tensor| bits.extend(t.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits));
    let x = Tensor::randn([rows, 160]);
    take(&x.softmax(-1));
    take(&((&x - x.mean_keepdim(-1)) / (x.square().mean_keepdim(-1) + 1e-5).sqrt()));
    take(&(x.matmul(&Tensor::randn([160, 40])).gelu() + 1.0));
    let (y, z) = (x.exp().sum(0), (&x * 2.0).t().amax(1));
    take(&(y / z));
    take(&x.cumsum(1).slice((.., 3..)));
    let parameters: Vec<Tensor> = (1..20).map(|n| Tensor::randn([n, 7])).collect();
    let moved: Vec<Tensor> = parameters.iter().map(|p| p * 0.9 + p.square() * 0.1).collect();
    moved.iter().for_each(&mut take);
    bits
}

/// Newton's method until it has converged, with an inner loop.
#[kernel(max_turns = 50)]
fn root<F: Real>(a: F, most: i32) -> (F, i32) {
    let (mut x, mut n) = (1.0 + 0.5 * a, 0);
    while n < most && (x * x - a).abs() > 1e-5 * a {
        let mut i = 0;
        while i < n && x > a {
            x *= 0.75;
            i += 1;
        }
        x = 0.5 * (x + a / x);
        n += 1;
    }
    (x, n)
}

/// Softmax by a user-defined fold, and a linear recurrence.
#[kernel(row)]
fn mixed<F: Real>(x: &Row<F>) -> (Row<F>, Row<F>) {
    let none = (F::lit(f64::NEG_INFINITY), 0.0);
    let (m, s) = x.map(|x| (x, 1.0)).fold(none, |(m1, s1), (m2, s2)| {
        let m = m1.max(m2);
        (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
    });
    let h = x.map(|x| (0.5, x)).scan(|(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2));
    (x.map(|x| (x - m).exp() / s), h.map(|(_, h)| h))
}

/// Kernels with loops and rows between other operations, and a CUDA C++ operation if the device compiles it.
fn kernels(device: &str) -> Vec<u32> {
    let device = Device::from_name(device).unwrap();
    let numbers: Vec<f32> = (0..40 * 70).map(|i| (i * 37 % 101) as f32 * 0.125 + 0.25).collect();
    let x = Tensor::from_slice(&numbers, [40, 70]).to_device(device).unwrap();
    let mut bits = vec![];
    let mut take = |t: Tensor| bits.extend(t.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits));
    let (y, n) = root::on(&x * 2.0, 40);
    take(y + n.cast(DType::F32));
    let (p, h) = mixed::on(&x * 0.5);
    take(p * &x - h);
    take(root::on(x.sum(1), 9).0.sqrt());
    let text = "__global__ void f(const float *x, float *y, int n) {\n  for (int i = threadIdx.x; i < n; i += 32) y[i] = 2 * x[i];\n}";
    let launch = |x: &[Tensor]| thalweg::CudaLaunch::new([1; 3], [32, 1, 1]).size(x[0].numel());
    let twice = thalweg::CudaOp::new("twice", text, "f", |x| [(*x[0].shape(), DType::F32)], launch);
    take(twice.reference(|x| &x[0] * 2.0).on(&(&x + 1.0)).sqrt());
    bits
}

/// Runs a segment of some `operations` small operations with tiers on, three times before and once after all searches.
fn tiers(operations: usize) -> Vec<u32> {
    thalweg::set_tiers(true);
    thalweg::set_deferring(false);
    let run = || {
        let x = Tensor::from_slice(&(0..60).map(|i| i as f32 * 0.25 - 7.0).collect::<Vec<_>>(), [6, 10]);
        let mut y = x.clone();
        for k in 0..operations / 4 {
            // Not a loop: each step differs from the one before.
            y = (&y * (0.5 + k as f64 * 1e-3)).maximum(&(&x - k as f64 * 0.03125)) - y.amax_keepdim(k % 2);
        }
        y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<u32>>()
    };
    let before: Vec<u32> = (0..3).flat_map(|_| run()).collect();
    thalweg::finish_searches();
    [before, run()].concat()
}

#[test]
#[ignore = "run by the others as a process of its own"]
fn child() {
    if std::env::var_os("TEST_CHILD").is_none() {
        return;
    }
    if let Some(file) = std::env::var_os("TEST_SHIPPED") {
        let brought = thalweg::disk::ship(&mut fs::File::open(file).unwrap()).unwrap();
        assert!(brought.entries > 0 && brought.ignored.is_empty());
    }
    let bits = match (std::env::var("TEST_KERNELS"), std::env::var("TEST_OPERATIONS")) {
        (Ok(device), _) => kernels(&device),
        (_, Ok(operations)) => tiers(operations.parse().unwrap()),
        _ => [programs(), with_strict(true, programs)].concat(),
    };
    let hash = bits.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ b as u64).wrapping_mul(0x0100_0000_01b3));
    let c = counters();
    let costs = Device::default().costs().id();
    let (made, loaded, compiled) = (c.plans_made, c.plans_loaded, c.programs_compiled);
    println!("CHILD {made} {loaded} {} {hash:016x} {costs:016x} {compiled} {}", c.calibrations, c.cold_starts);
}

/// The key of plans has the structure of loops and combines, which two processes number differently. A GPU's programs
/// come from disk, too; those of a CPU are compiled anew.
#[test]
fn plans_of_users_kernels_come_from_disk() {
    let emulated = cfg!(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"));
    for device in ["cpu", "cuda:emulated"].into_iter().take(1 + emulated as usize) {
        let place = Place::new(&device.replace(':', "-"));
        let first = run(&place, &[("TEST_KERNELS", device)]);
        assert!(first.made >= 4 && first.loaded == 0 && first.compiled >= 4, "{device}: {first:?}");
        let second = run(&place, &[("TEST_KERNELS", device)]);
        assert_eq!((second.made, second.loaded), (0, first.made), "{device}: {second:?}");
        assert_eq!(second.results, first.results, "{device}");
        assert!(device == "cpu" || second.compiled == 0, "{device}: {second:?}");
    }
}

#[test]
fn a_second_process_searches_and_measures_nothing() {
    let place = Place::new("second");
    let first = run(&place, &[]);
    assert!(first.made > 5 && first.loaded == 0, "{first:?}");
    let second = run(&place, &[]);
    assert_eq!((second.made, second.loaded), (0, first.made), "{second:?}");
    assert_eq!(second.results, first.results);
    let without = run(&place, &[("THALWEG_CACHE", "off")]);
    assert_eq!(without, first, "a plan from disk is the plan that is searched for");
    // The search effort is part of the key.
    let other = run(&place, &[("THALWEG_SEARCH", "none")]);
    assert!(other.made == first.made && other.loaded == 0, "{other:?}");
}

/// Loading a plan takes its time for each operation, and so a large segment runs while that is done.
#[test]
fn plans_of_large_segments_are_loaded_while_they_run() {
    for (operations, at_once) in [("40", true), ("400", false)] {
        let place = Place::new(&format!("large-{operations}"));
        // Corrections of the model, which depend on time, are no part of this.
        let environment = [("TEST_OPERATIONS", operations), ("THALWEG_AUTOTUNE", "off")];
        let first = run(&place, &environment);
        assert!(first.made == 1 && first.loaded == 0 && first.cold_starts >= 2, "{first:?}");
        let second = run(&place, &environment);
        assert_eq!((second.made, second.loaded), (0, 1), "{second:?}");
        assert_eq!(second.cold_starts == 0, at_once, "{second:?}");
    }
}

#[test]
fn other_sizes_find_the_plans_of_their_class() {
    let place = Place::new("classes");
    let first = run(&place, &[]);
    let more_rows = [("TEST_ROWS", "97")];
    let other = run(&place, &more_rows);
    assert_eq!((other.made, other.loaded), (0, first.made), "{other:?}");
    // In reproducible mode, results must not depend on other processes.
    let alike = [more_rows[0], ("THALWEG_REPRODUCIBLE", "on")];
    let alone = run(&Place::new("classes-alone"), &alike);
    assert_eq!(run(&place, &alike).results, alone.results);
}

#[test]
fn a_program_brings_its_plans_with_it() {
    let (place, away) = (Place::new("shipping"), Place::new("shipped"));
    let first = run(&place, &[]);
    fs::create_dir(&away.0).unwrap();
    let file = away.0.join("plans.cache");
    let kept = thalweg::disk::Cache::open(&place.0).unwrap();
    kept.export(&mut fs::File::create(&file).unwrap()).unwrap();
    let brings = ("TEST_SHIPPED", file.to_str().unwrap());
    for folder in ["off".into(), away.0.join("folder")] {
        let second = run_in(&folder, &[brings]);
        assert_eq!((second.made, second.loaded, &second.results), (0, first.made, &first.results), "{folder:?}");
    }
}

#[test]
fn a_process_measures_its_device_once_and_leaves_it_to_others() {
    let place = Place::new("calibration");
    let soon = [("THALWEG_CALIBRATE", "0")];
    let first = run(&place, &soon);
    assert_eq!((first.calibrations, place.files("calibration").len()), (1, 1), "{first:?}");
    // Other costs give other plans: all but the first were made with them. The third process finds them all.
    let second = run(&place, &soon);
    assert_eq!((second.calibrations, second.made, &second.costs), (0, 1, &first.costs), "{second:?}");
    let third = run(&place, &soon);
    assert_eq!((third.calibrations, third.made, third.loaded), (0, 0, first.made), "{third:?}");
    assert_eq!((&third.results, &third.costs), (&second.results, &first.costs));
    // Implausible costs are rejected, even with a valid checksum.
    let file = &place.files("calibration")[0];
    let bytes = fs::read(file).unwrap();
    let typical = run(&place, &[("THALWEG_CACHE", "off")]);
    for (from, to) in
        [("\"launch\":", "\"launch\":99"), ("\"threads\":", "\"threads\":1"), ("\"simple\":", "\"simple\":-")]
    {
        let text = String::from_utf8_lossy(&bytes[104..]).replace(from, to);
        fs::write(file, Forged::new(&bytes, text.as_bytes()).0).unwrap();
        assert_eq!(run(&place, &[]).costs, typical.costs, "{to}");
    }
    fs::write(file, &bytes).unwrap();
    assert_eq!(run(&place, &[]).costs, first.costs);
}

/// Entry with a replaced payload and a valid checksum.
struct Forged(Vec<u8>);

impl Forged {
    fn new(entry: &[u8], payload: &[u8]) -> Forged {
        let mut bytes = entry[..96].to_vec();
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(payload);
        let checksum = blake3::hash(&bytes[40..]);
        bytes[8..40].copy_from_slice(checksum.as_bytes());
        Forged(bytes)
    }
}

#[test]
fn sixteen_processes_at_once_compute_the_same() {
    let place = Place::new("sixteen");
    let children: Vec<Child> = (0..16).map(|_| start(&place.0, &[])).collect();
    let all: Vec<Said> = children.into_iter().map(|c| said(c.wait_with_output().unwrap())).collect();
    assert!(
        all.iter().all(|s| s.results == all[0].results && s.made + s.loaded == all[0].made + all[0].loaded),
        "{all:?}"
    );
    let after = run(&place, &[]);
    assert_eq!((after.made, &after.results), (0, &all[0].results));
    let unfinished = |p: &&PathBuf| p.file_name().unwrap().to_str().unwrap().starts_with("new-");
    assert_eq!(place.files("plan").iter().filter(unfinished).count(), 0);
}

/// Damage to a good file.
type Damage<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

#[test]
fn damaged_files_are_made_anew() {
    let place = Place::new("damaged");
    let first = run(&place, &[]);
    let (plans, classes) = (place.files("plan"), place.files("class"));
    assert!(!classes.is_empty(), "a plan is kept for its class, too");
    let files = [plans.as_slice(), &classes].concat();
    let good: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).unwrap()).collect();
    let other = good[plans.len() - 1].clone();
    let damage: [&Damage; 6] = [
        &|_| b"garbage".to_vec(),
        &|_| vec![],
        &|good| good[..good.len() / 2].to_vec(),
        &|good| good.iter().map(|b| b ^ 4).collect(),
        // Another version, with a valid checksum.
        &|good| Forged::new(&[&good[..48], b"0.0.1\0", &good[54..]].concat(), &good[104..]).0,
        // Another entry's content.
        &|_| other.clone(),
    ];
    for (n, damage) in damage.iter().enumerate() {
        files.iter().zip(&good).for_each(|(f, good)| fs::write(f, damage(good)).unwrap());
        let again = run(&place, &[]);
        let spared = files.iter().zip(&good).filter(|(_, good)| damage(good) == **good).count() as u64;
        assert_eq!((again.made, again.loaded), (first.made - spared, spared), "damage {n}");
        assert_eq!(again.results, first.results, "damage {n}");
        assert_eq!(run(&place, &[]).made, 0, "made anew after damage {n}");
    }
}

#[test]
fn a_forged_plan_is_legal_or_not_used() {
    let place = Place::new("forged");
    let first = run(&place, &[]);
    let files = [place.files("plan"), place.files("class")].concat();
    let good: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).unwrap()).collect();
    // Plans of other segments, empty plans, plans with everything in one kernel, plans with operations that do not
    // exist.
    let payloads: [&dyn Fn(usize) -> Vec<u8>; 5] = [
        &|n| good[(n + 1) % good.len()][104..].to_vec(),
        &|_| br#"{"complete":true,"kernels":[]}"#.to_vec(),
        &|_| br#"{"complete":true,"kernels":[[0,1,2,3,4,5]]}"#.to_vec(),
        &|_| br#"{"complete":true,"kernels":[[4294967295],[],[7,7]]}"#.to_vec(),
        &|_| b"[".repeat(100_000),
    ];
    for (turn, payload) in payloads.iter().enumerate() {
        for (n, file) in files.iter().enumerate() {
            fs::write(file, Forged::new(&good[n], &payload(n)).0).unwrap();
        }
        let again = run(&place, &[]);
        assert_eq!(again.made + again.loaded, first.made, "forgery {turn}");
        // Outside of strict mode, another legal plan may compute in another order; strict bits are checked by the
        // fuzzer's `--cache`.
        if again.loaded == 0 {
            assert_eq!(again.results, first.results, "forgery {turn}");
        }
    }
}

#[test]
fn without_a_usable_folder_everything_goes_on() {
    let place = Place::new("unusable");
    let first = run(&place, &[("THALWEG_CACHE", "off")]);
    fs::write(&place.0, "a file where the folder should be").unwrap();
    assert_eq!(run(&place, &[]), first);
    fs::remove_file(&place.0).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir(&place.0).unwrap();
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(run(&place, &[]), first);
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
    }
    assert_eq!(run(&place, &[("THALWEG_CACHE", "/proc/there/is/no/such")]), first);
}
