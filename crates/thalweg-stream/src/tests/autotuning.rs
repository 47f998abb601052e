//! Autotuning: plans compete once, timed alternately; never in reproducible modes.

use super::{FUSED, counted, element, on_its_own, vector};
use crate::{DeviceRef, Mode, set_measuring, set_mode};
use thalweg_ir::ElementOp::{Add, Exp, Neg, Sin};
use thalweg_runtime::Counters;

/// Runs, `n` times, a sequence with more than one plan: `h` may be stored or recomputed.
fn runs(device: DeviceRef, n: usize) -> Counters {
    let x = vector(device, 4096);
    let one = || {
        let h = element(Sin, &[&element(Exp, &[&x])]);
        let (a, b) = (element(Neg, &[&h]), element(Add, &[&h, &x]));
        drop(h);
        (a.read().unwrap(), b.read().unwrap())
    };
    counted(|| (0..n).for_each(|_| drop(one()))).1
}

#[test]
fn plans_compete_once_and_the_winner_stays() {
    on_its_own(|device| {
        set_measuring(Some(f64::INFINITY));
        assert_eq!(runs(device, 60).autotuned, 1);
        let later = runs(device, 60);
        assert_eq!((later.autotuned, later.plans_made), (0, 0));
    });
}

#[test]
fn nothing_competes_without_measuring_or_where_runs_are_to_be_alike() {
    on_its_own(|device| {
        assert_eq!(runs(device, 60).autotuned, 0);
        set_measuring(Some(f64::INFINITY));
        set_mode(Mode { reproducible: true, ..FUSED });
        assert_eq!(runs(device, 60).autotuned, 0);
    });
}
