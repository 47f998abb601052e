//! Plan store: which plan is found for a pattern, its sizes and scalars.

use super::{FUSED, counted, element, on_its_own, scaled, vector};
use crate::{MatmulPrecision, Mode, plan_store, set_mode};
use thalweg_ir::ElementOp::{Add, Exp};

#[test]
fn a_pattern_has_one_plan_whatever_its_sizes_and_scalars() {
    on_its_own(|device| {
        let run = |n: usize, by: f32| {
            let x = vector(device, n);
            let y = element(Exp, &[&x]);
            let z = scaled(&y, by);
            // If it were held at the read it would be live, and deferred from the third time on, which is another plan.
            drop(y);
            z.read().unwrap();
        };
        let (_, c) = counted(|| run(10, 2.0));
        assert_eq!((c.plans_made, c.instances_made), (1, 1));
        let (_, c) = counted(|| (0..50).for_each(|i| run(10, i as f32)));
        assert_eq!((c.plans_made, c.instances_made, c.plans_found), (0, 0, 50));
        let (_, c) = counted(|| (11..31).for_each(|n| run(n, 2.0)));
        assert_eq!((c.plans_made, c.instances_made), (0, 20));
    });
}

#[test]
fn handles_dropped_before_the_cut_leave_no_trace_in_the_key() {
    on_its_own(|device| {
        let x = vector(device, 10);
        let run = |hold: bool| {
            let y = element(Exp, &[&x]);
            let held = hold.then(|| y.clone());
            let z = element(Add, &[&y, &x]);
            drop((y, held));
            z.read().unwrap();
        };
        run(false);
        let (_, c) = counted(|| run(true));
        assert_eq!((c.plans_made, c.plans_found), (0, 1));
    });
}

#[test]
fn modes_share_no_plans_and_threads_do_unless_reproducible() {
    on_its_own(|device| {
        let run = move |reproducible: bool| {
            set_mode(Mode { reproducible, ..FUSED });
            let x = vector(device, 10);
            counted(|| element(Exp, &[&element(Exp, &[&x])]).read().unwrap()).1.plans_made
        };
        assert_eq!(run(false), 1);
        assert_eq!(run(true), 1, "another mode, another plan");
        let before = plan_store().plans;
        assert_eq!(std::thread::spawn(move || run(false)).join().unwrap(), 0, "another thread's plan is found");
        assert_eq!(std::thread::spawn(move || run(true)).join().unwrap(), 1, "but not where runs are to be alike");
        assert!(plan_store().plans > before);
    });
}

#[test]
fn precision_is_that_of_the_time_of_recording() {
    on_its_own(|device| {
        let x = vector(device, 10);
        let (z, c) = counted(|| {
            let y = element(Exp, &[&x]);
            // Nothing runs until more is recorded.
            let ran = counted(|| set_mode(Mode { matmul: MatmulPrecision::High, ..FUSED })).1;
            assert_eq!(ran.segments, 0);
            element(Exp, &[&y])
        });
        assert_eq!((c.segments, c.plans_made), (1, 1), "what was recorded before is cut off");
        z.read().unwrap();
        let again = |matmul| {
            set_mode(Mode { matmul, ..FUSED });
            counted(|| element(Exp, &[&vector(device, 10)]).read().unwrap()).1.plans_made
        };
        assert_eq!((again(MatmulPrecision::High), again(MatmulPrecision::Highest)), (0, 0));
        let of_thread = || std::thread::spawn(|| crate::mode().matmul).join().unwrap();
        let before = (of_thread(), crate::set_matmul_precision(MatmulPrecision::High));
        assert_eq!((of_thread(), crate::mode().matmul), (MatmulPrecision::High, MatmulPrecision::High));
        crate::set_matmul_precision(before.0);
    });
}
