//! Measured costs: rounded, sane, and saved unchanged. Nothing here asserts on a time.

mod counting;

use counting::pinned;
use thalweg::{Costs, Device, Tensor, explain, launch_times};

#[test]
fn calibration_gives_sane_constants() {
    let _pinned = pinned();
    let device = Device::default();
    let (measured, typical) = (device.calibrate().unwrap(), Costs::typical());
    let pairs = [(measured.launch, typical.launch), (measured.special, typical.special), (measured.scan, typical.scan)];
    for (m, t) in pairs {
        assert!(m >= t / 8.1 && m <= t * 8.1, "{m} {t}");
    }
    assert!(measured.levels.windows(2).all(|w| w[0].read <= w[1].read && w[0].write_all <= w[1].write_all));
    assert_eq!(measured.clone().rounded(), measured);
    // Used once set.
    device.set_costs(measured.clone());
    assert_eq!(*device.costs(), measured);
}

#[test]
fn explanations_and_launch_times_tell_of_the_same_launches() {
    let _pinned = pinned();
    let x = Tensor::randn([64, 64]);
    thalweg::synchronize().unwrap();
    let run = || {
        let out = x.exp().sum(0) + 1.0;
        thalweg::synchronize().unwrap();
        out
    };
    let (_, explanation) = explain(run);
    let (_, times) = launch_times(run);
    let kernels = &explanation.segments[0].kernels;
    assert_eq!(times.len(), kernels.len());
    assert!(kernels.iter().all(|k| k.predicted_ns > 0 && k.measured_ns > 0 && k.features.points > 0));
}
