//! Recorder: where a stream is cut, and the state after a cut.

use super::{counted, element, on_its_own, scaled, vector};
use crate::flush;
use thalweg_ir::ElementOp::{Add, Exp, Neg};

#[test]
fn nothing_runs_before_it_is_asked_for_and_dead_values_never_do() {
    on_its_own(|device| {
        let x = vector(device, 100);
        let (y, c) = counted(|| {
            drop(element(Exp, &[&x]));
            element(Neg, &[&x])
        });
        assert_eq!((c.segments, c.kernels), (0, 0));
        let (_, c) = counted(|| y.read().unwrap());
        assert_eq!((c.operations, c.segments, c.kernels, c.bytes_written), (2, 1, 1, 400));
        assert!(y.is_resolved());
    });
}

#[test]
fn a_loop_that_never_reads_is_cut_at_the_same_place_every_turn() {
    on_its_own(|device| {
        let mut y = vector(device, 64);
        let mut turns = |n: usize| {
            for _ in 0..n {
                y = scaled(&element(Exp, &[&element(Add, &[&y, &y])]), 0.5);
            }
        };
        turns(3000);
        let (_, c) = counted(|| turns(3000));
        assert!(c.segments >= 4, "{} segments", c.segments);
        assert_eq!(c.plans_made, 0, "the plan of whole turns serves on");
    });
}

#[test]
fn a_failure_poisons_its_own_results_and_the_stream_goes_on() {
    on_its_own(|device| {
        let x = vector(device, 1000);
        device.device().set_memory_limit(Some(device.device().memory().in_use + 100));
        let y = element(Exp, &[&x]);
        assert!(y.read().unwrap_err().to_string().contains("idle"));
        assert!(element(Neg, &[&y]).read().is_err(), "what is computed from it fails, too");
        device.device().set_memory_limit(None);
        assert!(element(Exp, &[&x]).read().is_ok());
    });
}

#[test]
fn who_reads_on_another_thread_cuts_the_stream_that_recorded() {
    on_its_own(|device| {
        let x = vector(device, 10);
        let y = element(Exp, &[&x]);
        let there = y.clone();
        std::thread::spawn(move || there.read().unwrap()).join().unwrap();
        assert!(y.is_resolved());
        let (_, c) = counted(flush);
        assert_eq!(c.segments, 0, "nothing is left here");
    });
}
