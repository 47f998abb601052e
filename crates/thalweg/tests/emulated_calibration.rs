//! Effects of a GPU's measured costs: costs, plans, and the state of a later process. The clock returns the model's
//! times for other costs, so that everything holds on any machine.

#![cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]

use std::sync::Arc;
use thalweg::disk::{self, Cache};
use thalweg::prelude::*;
use thalweg::{Costs, Effort, explain};
use thalweg_cuda::CudaDevice;
use thalweg_cuda::driver::{Absent, Emulated};
use thalweg_stream::{DeviceRef, calibrate, calibrate_as_if, costs, save_costs, set_costs, typical_costs};

/// An emulated GPU, opened as by another process.
fn opened() -> DeviceRef {
    let driver = Arc::new(Emulated::new().expect("there is a C++ compiler"));
    DeviceRef::register(CudaDevice::with(driver, "cuda:emulated").unwrap())
}

/// A chip with slow arithmetic and fast memory.
fn truth(typical: &Costs) -> Costs {
    let mut truth = typical.clone();
    truth.special *= 6.0;
    truth.fold_across *= 3.0;
    truth.simple *= 7.0;
    for l in &mut truth.levels {
        for ns in [&mut l.read, &mut l.write, &mut l.read_all, &mut l.write_all] {
            *ns /= 7.0;
        }
    }
    truth
}

/// A small chip is measured by its events, launch by launch: every sample compiles, and accesses only its operands.
#[test]
fn every_sample_runs() {
    let driver = Emulated::new().unwrap().with_multiprocessors(1).with_cache(1 << 18);
    let device = DeviceRef::register(CudaDevice::with(Arc::new(driver), "cuda:emulated").unwrap());
    let (measured, typical) = (calibrate(device).unwrap(), typical_costs(device));
    // Independent of the host's clock. The measured costs are no longer the typical ones.
    assert_ne!(measured, *typical);
    assert_eq!(measured.clone().near(&typical, 8.01), measured);
}

/// Predicted nanoseconds, and bytes written, of two folds of one computed tensor.
fn on_this_thread(device: Device) -> (u64, usize) {
    thalweg::set_default_device(Some(device));
    thalweg::set_tiers(false);
    thalweg::set_measuring(None);
    thalweg::set_search_effort(Effort::default());
    let x = Tensor::randn([64, 96]);
    thalweg::synchronize().unwrap();
    let ((), explanation) = explain(|| {
        let y = (0..3).fold(x.clone(), |y, _| (y + 1.0).abs());
        let _sums = [y.sum(0), y.amax(1)];
        drop(y);
        thalweg::synchronize().unwrap();
    });
    let kernels = || explanation.segments.iter().flat_map(|s| &s.kernels);
    (kernels().map(|k| k.predicted_ns).sum(), kernels().map(|k| k.bytes_written).sum())
}

/// A single test, because it sets the process's disk cache, and the costs of a device that all threads share.
#[test]
fn measured_constants_change_plans_and_are_found_again() {
    let place = std::env::temp_dir().join(format!("thalweg-emulated-calibration-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    disk::set(Some(Cache::open(&place).unwrap()));

    // All fitted costs are near the true ones.
    let first = opened();
    let typical = typical_costs(first);
    let truth = truth(&typical);
    let measured = calibrate_as_if(first, &truth);
    for (name, measured, truth) in [
        ("special", measured.special, truth.special),
        ("simple", measured.simple, truth.simple),
        ("launch", measured.launch, truth.launch),
        ("out of cache", measured.levels[4].read, truth.levels[4].read),
        ("in the cache", measured.levels[2].read, truth.levels[2].read),
        ("bf16", measured.multiply[2], truth.multiply[2]),
    ] {
        assert!((measured / truth - 1.0).abs() < 0.05, "{name}: {measured} for {truth}");
    }

    // The saved costs are found by the chip and its driver.
    assert_eq!(*costs(first), *typical);
    set_costs(first, measured.clone());
    assert!(save_costs(first));
    assert_eq!(*costs(opened()), measured);
    let smaller = Arc::new(Emulated::new().unwrap().with_multiprocessors(64));
    let smaller = DeviceRef::register(CudaDevice::with(smaller, "cuda:emulated").unwrap());
    assert_eq!(*costs(smaller), *typical_costs(smaller));
    let listed = thalweg::calibrated(&Cache::open(&place).unwrap());
    assert!(listed.len() == 1 && listed[0].1 && listed[0].0.contains("132 multiprocessors"), "{listed:?}");

    // No plan of another run may be found.
    let kept = Cache::open(&place).unwrap();
    disk::set(None);

    // Plans use them: a value that is cheap to recompute is stored if arithmetic is slow.
    let device = Device::from_name("cuda:emulated").unwrap();
    // Each on a new thread, which has no plans yet.
    let planned = |costs: &Costs| {
        device.set_costs(costs.clone());
        thalweg::clear_plans();
        std::thread::spawn(move || on_this_thread(device)).join().unwrap()
    };
    let (cheap, dear) = (planned(&typical), planned(&measured));
    assert!(dear.0 != cheap.0, "{cheap:?} {dear:?}");
    assert!(cheap.1 < 64 * 96 * 4 && dear.1 >= 64 * 96 * 4, "{cheap:?} {dear:?}");

    disk::set(Some(kept));
    // Costs with a flipped bit are rejected, and a missing GPU is not measured.
    let file = std::fs::read_dir(place.join("calibration")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(*costs(opened()), *typical);
    let absent = DeviceRef::register(CudaDevice::with(Arc::new(Absent::new()), "cuda:absent").unwrap());
    assert!(calibrate(absent).is_err() && !save_costs(absent));

    disk::set(None);
    let _ = std::fs::remove_dir_all(&place);
}
