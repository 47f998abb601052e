//! Calibration by a clock that returns the model's times for other constants: fitting must find these constants. No
//! test asserts on real time.

use super::clock::{Bench, Clock, List, Model};
use super::samples::{Sample, Sizes};
use super::{SANE, calibrate, calibrate_as_if, costs, fits, save_costs, set_costs, typical_costs, watch};
use crate::DeviceRef;
use crate::tests::{DISK, Idle};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use thalweg_fusion::Costs;
use thalweg_kernel::{Geometry, Kernel, Moved};
use thalweg_runtime::disk::{self, Cache, Kind};
use thalweg_runtime::{Buffer, Device, Error, MemoryStats, Program, ProgramInfo, Throughput, Timing};

/// Estimated throughput of an H100.
const H100: Throughput =
    Throughput { memory: 2849.0, cache: 6410.0, cache_bytes: 50 << 20, additions: 29_440.0, launch: 1_000.0 };

type Constant = (&'static str, fn(&mut Costs) -> &mut f64);

/// Constants that have samples on every device.
const FITTED: &[Constant] = &[
    ("launch", |c| &mut c.launch),
    ("simple", |c| &mut c.simple),
    ("divide", |c| &mut c.divide),
    ("special", |c| &mut c.special),
    ("special_wide", |c| &mut c.special_wide),
    ("convert", |c| &mut c.convert),
    ("slow", |c| &mut c.slow),
    ("transposed", |c| &mut c.transposed),
    ("conflicting", |c| &mut c.conflicting),
    ("strided", |c| &mut c.strided),
    ("mapped", |c| &mut c.mapped),
    ("gathered", |c| &mut c.gathered),
    ("fold", |c| &mut c.fold),
    ("fold_across", |c| &mut c.fold_across),
    ("once", |c| &mut c.once),
    ("scan", |c| &mut c.scan),
    ("sort", |c| &mut c.sort),
    ("scattered", |c| &mut c.scattered),
    ("multiply f32", |c| &mut c.multiply[0]),
    ("multiply f64", |c| &mut c.multiply[1]),
    ("multiply bf16", |c| &mut c.multiply[2]),
    ("multiply f16", |c| &mut c.multiply[3]),
    ("multiply i8", |c| &mut c.multiply[4]),
    ("multiply i32", |c| &mut c.multiply[5]),
];

fn gpu() -> Costs {
    Costs::of_throughput(H100.memory, (H100.cache, H100.cache_bytes), H100.additions, H100.launch)
}

/// Factor between 0.6 and 1.6, different for neighbouring indices.
fn factor(i: usize) -> f64 {
    0.6 * 1.7f64.powf((i * 7 % 11) as f64 / 5.5)
}

fn fitted(typical: &Costs, sizes: Sizes, clock: &mut dyn Clock) -> Costs {
    let mut bench = Bench::new(typical, sizes, clock);
    fits::all(&mut bench, 1).unwrap();
    bench.costs.near(typical, SANE)
}

/// Checks that constants that differ from the typical ones are recovered from times that follow from them.
fn constants_come_back(typical: &Costs, sizes: Sizes) {
    let mut truth = Costs { threads: 1, ..typical.clone() };
    for (i, (_, constant)) in FITTED.iter().enumerate() {
        *constant(&mut truth) *= factor(i);
    }
    // One factor per sample, which covers all nearer levels too.
    let wide = sizes.wide;
    for (i, l) in truth.levels.iter_mut().enumerate() {
        let by = match (wide, i) {
            (true, 0..3) => 0.8,
            (true, _) => 1.4,
            (false, _) => 1.25,
        };
        for ns in [&mut l.read, &mut l.write, &mut l.read_all, &mut l.write_all] {
            *ns *= by;
        }
    }
    let mut found = fitted(typical, sizes, &mut Model(&truth, fits::unseen(&sizes)));
    for (name, constant) in FITTED {
        let (found, truth) = (*constant(&mut found), *constant(&mut truth));
        assert!((found / truth - 1.0).abs() < 0.05, "{name}: {found} for {truth}");
    }
    for (found, truth) in found.levels.iter().zip(&truth.levels) {
        assert!((found.read / truth.read - 1.0).abs() < 0.02, "{found:?} for {truth:?}");
        assert!((found.write / truth.write - 1.0).abs() < 0.02, "{found:?} for {truth:?}");
    }
}

#[test]
fn the_constants_of_a_processor_come_back() {
    constants_come_back(&Costs::typical(), Sizes::of(None));
    // So does that of tables whose neighbours are neighbours, which GPUs do not have.
    let typical = Costs { threads: 1, ..Costs::typical() };
    let truth = Costs { close: 0.4, ..typical.clone() };
    let found = fitted(&typical, Sizes::of(None), &mut Model(&truth, 0.0));
    assert!((found.close / 0.4 - 1.0).abs() < 0.02 && (found.mapped / truth.mapped - 1.0).abs() < 0.02, "{found:?}");
}

#[test]
fn the_constants_of_a_gpu_come_back() {
    constants_come_back(&gpu(), Sizes::of(Some(&H100)));
    // TF32 has a constant of its own on a GPU.
    let typical = gpu();
    let mut truth = typical.clone();
    truth.multiply[6] *= 0.3;
    let found = fitted(&typical, Sizes::of(Some(&H100)), &mut Model(&truth, 0.0));
    assert!((found.multiply[6] / truth.multiply[6] - 1.0).abs() < 0.02, "{:?}", found.multiply);
    assert!((found.multiply[0] / typical.multiply[0] - 1.0).abs() < 0.02, "{:?}", found.multiply);
    // So have the overlap of arithmetic and memory, boxes of a launch, and rows that stay in registers.
    let truth = Costs { overlap: 0.1, boxed: 300.0, again: 0.2, ..gpu() };
    let found = fitted(&typical, Sizes::of(Some(&H100)), &mut Model(&truth, 0.0));
    for (found, truth) in [(found.overlap, 0.1), (found.boxed, 300.0), (found.again, 0.2)] {
        assert!((found / truth - 1.0).abs() < 0.15, "{found} for {truth}");
    }
}

/// Clock that returns one time for everything, and counts calls.
struct Always(Option<f64>, usize);

impl Clock for Always {
    fn time(&mut self, _: &Sample, _: u64) -> Result<Option<f64>, Error> {
        self.1 += 1;
        Ok(self.0)
    }
}

#[test]
fn no_clock_leads_far_from_what_is_typical() {
    for (typical, sizes) in [(Costs::typical(), Sizes::of(None)), (gpu(), Sizes::of(Some(&H100)))] {
        let typical = Costs { threads: 1, ..typical };
        for ns in [0.0, 1e12, f64::NAN] {
            let found = fitted(&typical, sizes, &mut Always(Some(ns), 0));
            assert_eq!(found.clone().near(&typical, SANE), found, "{ns}");
        }
        // A clock without times leaves the constants that are measured singly unchanged.
        let mut silent = fitted(&typical, sizes, &mut Always(None, 0));
        for (name, constant) in FITTED {
            assert_eq!(*constant(&mut silent), *constant(&mut typical.clone()), "{name}");
        }
    }
}

#[test]
fn what_a_model_has_no_term_for_is_not_timed() {
    let (mut cpu, mut gpu_clock) = (Always(None, 0), Always(None, 0));
    fitted(&Costs::typical(), Sizes::of(None), &mut cpu);
    fitted(&gpu(), Sizes::of(Some(&H100)), &mut gpu_clock);
    // A GPU's model has no terms for runs, calls, strips, ends of rows, and products of a batch.
    assert_eq!((cpu.1, gpu_clock.1), (36, 34));
}

#[test]
fn what_is_compiled_before_is_what_is_timed() {
    let sizes = Sizes::of(Some(&H100));
    let mut list = List::default();
    fitted(&gpu(), sizes, &mut list);
    /// Clock that queries the list for each sample.
    struct Listed<'a>(&'a List, usize);
    impl Clock for Listed<'_> {
        fn time(&mut self, sample: &Sample, footprint: u64) -> Result<Option<f64>, Error> {
            let is = |(kernel, _): &&(_, _)| *kernel == sample.kernel;
            assert!(self.0.0.iter().any(|k| is(&k)), "{:?}", sample.kernel);
            self.1 += 1;
            Ok(Some(2.0 * sample.model(&gpu(), footprint)))
        }
    }
    let mut clock = Listed(&list, 0);
    fitted(&gpu(), sizes, &mut clock);
    assert!(clock.1 > 20 && list.0.len() > clock.1);
}

/// GPU whose launches take the model's times for certain constants, by a clock of its own.
#[derive(Debug)]
struct Clocked {
    memory: Idle,
    own: Arc<Own>,
    /// Whether the device can be measured.
    real: bool,
}

#[derive(Debug)]
struct Own {
    truth: Costs,
    /// Picoseconds that launches have taken so far.
    now: AtomicU64,
    launches: AtomicU64,
}

#[derive(Debug)]
struct Runs(Kernel, Arc<Own>);

impl Program for Runs {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], _: &[u64]) -> Result<(), Error> {
        let bytes: Vec<usize> = operands.iter().map(|b| b.bytes()).collect();
        let (read, written) = bytes.split_at(bytes.len() - 1);
        let footprint = bytes.iter().sum::<usize>() as u64;
        let features = self.1.truth.features(&self.0, geometry, read, written);
        self.1.now.fetch_add(self.1.truth.time(&features, footprint), Relaxed);
        self.1.launches.fetch_add(1, Relaxed);
        Ok(())
    }

    fn moves(&self, _: &Geometry, _: bool) -> Moved {
        Moved::default()
    }

    fn info(&self) -> ProgramInfo {
        ProgramInfo { engine: "clocked".into(), ..ProgramInfo::default() }
    }
}

#[derive(Debug)]
struct Took(u64);

impl Timing for Took {
    fn elapsed(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.0))
    }
}

impl Device for Clocked {
    fn name(&self) -> &str {
        "clocked"
    }

    fn describe(&self) -> String {
        "a chip with a clock".into()
    }

    fn identity(&self) -> Option<String> {
        self.real.then(|| "a chip with a clock, and its driver".into())
    }

    fn throughput(&self) -> Option<Throughput> {
        Some(H100)
    }

    fn clocked(&self, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Option<Arc<dyn Timing>>, Error> {
        let before = self.own.now.load(Relaxed);
        run()?;
        Ok(Some(Arc::new(Took((self.own.now.load(Relaxed) - before) / 1000))))
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Error> {
        self.memory.allocate(bytes)
    }

    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error> {
        Ok(Arc::new(Runs(kernel.clone(), self.own.clone())))
    }

    fn write(&self, _: &Buffer, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn read(&self, _: &Buffer, bytes: &mut [u8]) -> Result<(), Error> {
        bytes.fill(0);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }

    fn memory(&self) -> MemoryStats {
        self.memory.memory()
    }

    fn reset_peak(&self) {}

    fn set_memory_limit(&self, bytes: Option<usize>) {
        self.memory.set_memory_limit(bytes);
    }

    fn host_bytes<'a>(&self, _: &'a Buffer) -> Option<&'a [u8]> {
        None
    }
}

/// Additions take three times their typical time, memory two thirds, bf16 products twice.
fn truth() -> Costs {
    let mut truth = gpu();
    truth.simple *= 3.0;
    truth.multiply[2] *= 2.0;
    for l in &mut truth.levels {
        (l.read, l.write) = (l.read / 1.5, l.write / 1.5);
        (l.read_all, l.write_all) = (l.read, l.write);
    }
    truth
}

fn clocked(real: bool) -> (DeviceRef, Arc<Own>) {
    let own = Arc::new(Own { truth: truth(), now: AtomicU64::new(0), launches: AtomicU64::new(0) });
    (DeviceRef::register(Arc::new(Clocked { memory: Idle::new(), own: own.clone(), real })), own)
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.1
}

#[test]
fn a_device_is_measured_by_its_own_clock() {
    let (device, own) = clocked(true);
    assert_eq!(*typical_costs(device), gpu().rounded());
    let (found, truth) = (calibrate(device).unwrap(), truth());
    assert!(close(found.simple, truth.simple), "{} {}", found.simple, truth.simple);
    assert!(close(found.multiply[2], truth.multiply[2]), "{:?}", found.multiply);
    assert!(close(found.multiply[0], gpu().multiply[0]), "{:?}", found.multiply);
    assert!(close(found.levels[4].read, truth.levels[4].read), "{:?}", found.levels);
    assert!(own.launches.load(Relaxed) > 100);
    // The model without a device gives the same.
    let model = calibrate_as_if(device, &truth);
    assert!(close(model.simple, found.simple) && close(model.scan, found.scan), "{model:?} {found:?}");
    // A device that cannot be measured is not measured, and nothing is saved for it.
    let (absent, own) = clocked(false);
    assert!(calibrate(absent).unwrap_err().to_string().contains("nothing can be measured"));
    assert_eq!(own.launches.load(Relaxed), 0);
    assert!(!save_costs(absent));
}

/// Runs `f` while the process has a disk cache in a folder of its own.
fn with_cache(test: &str, f: impl FnOnce(&Cache)) {
    let _turn = DISK.write().unwrap_or_else(PoisonError::into_inner);
    let path = std::env::temp_dir().join(format!("thalweg-calibration-{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    disk::set(Some(Cache::open(&path).expect("a folder of the user's own")));
    f(&Cache::open(&path).expect("it is there"));
    disk::set(None);
    let _ = std::fs::remove_dir_all(&path);
}

#[test]
fn constants_are_kept_by_the_chip_and_believed_only_if_they_are_sane() {
    with_cache("kept", |cache| {
        let (first, _) = clocked(true);
        let measured = calibrate(first).unwrap();
        set_costs(first, measured.clone());
        assert!(save_costs(first));
        assert_eq!(super::calibrated(cache), [("a chip with a clock, and its driver".to_string(), true)]);
        // A second device of that kind, as in another process: its number does not matter.
        let (second, own) = clocked(true);
        assert_eq!((*costs(second)).clone(), measured);
        assert_ne!((*costs(second)).clone(), *typical_costs(second));
        assert_eq!(own.launches.load(Relaxed), 0);
        // A reproducible run plans with the typical constants regardless.
        let reproducible = crate::Mode { reproducible: true, ..crate::mode() };
        assert_eq!(*super::planning_costs(second, reproducible), *typical_costs(second));
        // Constants that no measurement here can give.
        let hostile: &[fn(&mut Costs)] = &[
            |c| c.launch *= 100.0,
            |c| c.simple = 0.0,
            |c| c.simple = -c.simple,
            |c| c.levels[0].footprint += 1,
            |c| c.levels[3].read = 1e300,
            |c| c.factor = 1e300,
            |c| c.packing = 1.0,
            |c| c.threads = 64,
            |c| c.registers = 0,
            |c| c.one_pass = false,
            |c| c.row = 1.0,
        ];
        for (i, change) in hostile.iter().enumerate() {
            let mut costs = measured.clone();
            change(&mut costs);
            set_costs(first, costs);
            assert!(save_costs(first));
            let (other, _) = clocked(true);
            assert_eq!(*super::costs(other), *typical_costs(other), "{i}");
        }
        // Bytes that do not parse as constants.
        let key = super::saved::costs_key(first).unwrap();
        for bytes in [&b""[..], b"{}", b"{\"costs\":{}}", b"[1,2]", b"\xff\xfe", b"{\"costs\":null,\"device\":7}"] {
            cache.put(Kind::Calibration, &key, bytes);
            let (other, _) = clocked(true);
            assert_eq!(*super::costs(other), *typical_costs(other), "{bytes:?}");
            assert!(super::calibrated(cache).is_empty(), "{bytes:?}");
        }
    });
}

#[test]
fn a_gpu_is_measured_between_two_segments_once_its_samples_are_compiled() {
    with_cache("watch", |cache| {
        let (device, own) = clocked(true);
        assert_eq!(*costs(device), *typical_costs(device));
        // Another test's device may have replaced it: then that one waits.
        watch::begin(device);
        assert!(watch::waits(device));
        let patience = Duration::from_secs(30);
        let begin = std::time::Instant::now();
        // The host's time is ignored; what counts is that segments follow one another.
        while own.launches.load(Relaxed) == 0 {
            assert!(begin.elapsed() < patience, "it is never measured");
            watch::spent(device, Duration::from_secs(1000));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!watch::waits(device));
        assert!(close(costs(device).simple, truth().simple));
        assert_eq!(cache.all(Kind::Calibration).len(), 1);
        // A device that cannot be measured is not watched.
        let (absent, _) = clocked(false);
        let _ = costs(absent);
        assert!(!watch::waits(absent));
    });
}
