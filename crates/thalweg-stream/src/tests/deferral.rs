//! Deferred results: left unwritten, and computed when somebody asks.

use super::{FUSED, counted, element, on_its_own, vector};
use crate::{Mode, Value, set_deferring, set_mode, synchronize};
use std::sync::Arc;
use thalweg_ir::ElementOp::{Exp, Neg};

/// One iteration in which a temporary is still held when the result is read. Returns the temporary and the bytes
/// written.
fn turn(x: &Arc<Value>) -> (Arc<Value>, u64) {
    let y = element(Exp, &[x]);
    let z = element(Neg, &[&y]);
    let (_, c) = counted(|| z.read().unwrap());
    (y, c.bytes_written)
}

#[test]
fn what_was_dropped_unread_twice_is_not_written_the_third_time() {
    on_its_own(|device| {
        let x = vector(device, 100);
        assert_eq!((0..4).map(|_| turn(&x).1).collect::<Vec<_>>(), [800, 800, 400, 400]);
    });
}

#[test]
fn a_deferred_result_that_is_asked_for_is_computed_and_written_from_then_on() {
    on_its_own(|device| {
        let x = vector(device, 100);
        (0..3).for_each(|_| drop(turn(&x)));
        let (y, written) = turn(&x);
        assert_eq!(written, 400);
        let (_, c) = counted(|| y.read().unwrap());
        assert_eq!((c.values_recomputed, y.is_resolved()), (1, true));
        assert_eq!(turn(&x).1, 800);
    });
}

#[test]
fn synchronize_writes_everything_and_so_does_a_reproducible_stream() {
    on_its_own(|device| {
        let x = vector(device, 100);
        (0..3).for_each(|_| drop(turn(&x)));
        let y = element(Exp, &[&x]);
        let z = element(Neg, &[&y]);
        let (_, c) = counted(|| synchronize().unwrap());
        assert_eq!(c.bytes_written, 800, "all of it was asked for");
        drop((y, z));
        set_mode(Mode { reproducible: true, ..FUSED });
        assert_eq!((0..4).map(|_| turn(&x).1).collect::<Vec<_>>(), [800; 4]);
    });
}

#[test]
fn deferring_can_be_turned_off() {
    on_its_own(|device| {
        set_deferring(false);
        let x = vector(device, 100);
        assert_eq!((0..4).map(|_| turn(&x).1).collect::<Vec<_>>(), [800; 4]);
    });
}

#[test]
fn synchronize_computes_what_is_held_and_the_pattern_writes_it_from_then_on() {
    on_its_own(|device| {
        let x = vector(device, 100);
        (0..3).for_each(|_| drop(turn(&x)));
        let (y, written) = turn(&x);
        assert_eq!((written, y.is_resolved()), (400, false));
        let (_, c) = counted(|| synchronize().unwrap());
        assert_eq!(c.values_recomputed, 1);
        let (_, c) = counted(|| y.read().unwrap());
        assert_eq!((c.kernels, c.values_recomputed), (0, 0), "nothing is left to compute");
        drop(y);
        let (y, written) = turn(&x);
        assert_eq!(written, 800);
        let (_, c) = counted(|| synchronize().unwrap());
        assert_eq!((c.kernels, c.values_recomputed), (0, 0));
        drop(y);
    });
}

#[test]
fn what_was_dropped_before_synchronize_stays_unwritten() {
    on_its_own(|device| {
        let x = vector(device, 100);
        let step = |_| {
            let (y, written) = turn(&x);
            drop(y);
            let (_, c) = counted(|| synchronize().unwrap());
            (written, c.kernels)
        };
        assert_eq!((0..5).map(step).collect::<Vec<_>>(), [(800, 0), (800, 0), (400, 0), (400, 0), (400, 0)]);
    });
}
