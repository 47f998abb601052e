//! Cold start: new code runs at once, and by a plan after it has come again.

mod counting;

use counting::{Pinned, counted, counted_alone, pinned};
use thalweg::prelude::*;
use thalweg::{
    Effort, Tier, explain, finish_further_searches, finish_searches, set_deferring, set_reproducible,
    set_search_effort, set_tiers, tier_runs, with_fusion, with_strict,
};

/// A device of its own, with tiers on.
fn tiers() -> Pinned {
    let pinned = pinned();
    set_tiers(true);
    set_deferring(false);
    pinned
}

/// Code of six kernels without fusion, two with it.
fn code(x: &Tensor) -> Vec<f32> {
    let y = (x * 0.5 + 1.0).tanh();
    let z = (&y / y.sum_keepdim(0)).exp();
    z.t().to_vec().unwrap()
}

fn input(rows: usize) -> Tensor {
    Tensor::from_slice(&(0..rows * 24).map(|i| (i % 17) as f32 * 0.1 - 0.6).collect::<Vec<_>>(), [rows, 24])
}

#[test]
fn what_is_met_twice_is_searched_for_and_runs_by_its_plan_from_then_on() {
    let _pinned = tiers();
    let x = input(40);
    let want = with_fusion(false, || code(&x));
    for _ in 0..2 {
        let (got, c) = counted(|| code(&x));
        assert_eq!(got, want, "one kernel an operation has the bits of an unfused run");
        assert_eq!((c.cold_starts, c.kernels, c.plans_made), (1, 6, 0));
    }
    finish_searches();
    let (_, c) = counted(|| code(&x));
    assert_eq!((c.cold_starts, c.plans_made), (0, 1));
    assert!(c.kernels < 3, "{} kernels", c.kernels);
    let (_, c) = counted(|| code(&x));
    assert_eq!((c.cold_starts, c.plans_made, c.plans_found), (0, 0, 1));
}

/// Equal operations with other live results: the earlier run counts as the first time.
#[test]
fn other_live_results_of_known_operations_are_searched_for_at_once() {
    let _pinned = tiers();
    let x = input(40);
    let run = |keep: bool| {
        let y = (&x * 0.25 - 1.0).tanh();
        let sums = y.sum(0);
        let kept = keep.then(|| y.clone());
        drop(y);
        sums.to_vec::<f32>().unwrap();
        kept
    };
    run(true);
    let (_, c) = counted(|| run(false));
    assert_eq!((c.cold_starts, c.plans_made), (1, 0));
    finish_searches();
    let (_, c) = counted(|| run(false));
    assert_eq!((c.cold_starts, c.plans_made), (0, 1), "met once in each form");
}

#[test]
fn runs_tell_by_what_they_ran() {
    let _pinned = tiers();
    let x = input(40);
    let run = || tier_runs(|| code(&x)).1[0];
    let (first, second) = (run(), run());
    assert_eq!((first.tier, second.tier, first.kernels), (Tier::Singles, Tier::Singles, 6));
    finish_searches();
    assert_eq!(run().tier, Tier::Searched);
    let large = Tensor::from_slice(&vec![0.5f32; 1 << 20], [1024, 1024]);
    let (_, runs) = tier_runs(|| (large.softmax(0) * 2.0).sum(1).to_vec::<f32>());
    assert_eq!(runs[0].tier.number(), u8::from(runs[0].tier == Tier::Searched), "{runs:?}");
}

#[test]
fn strictly_the_bits_are_the_same_in_every_tier() {
    let _pinned = tiers();
    with_strict(true, || {
        let x = input(33);
        let want = with_fusion(false, || code(&x));
        for turn in 0..4 {
            assert_eq!(code(&x), want, "run {turn}");
            if turn == 1 {
                finish_searches();
            }
        }
    });
}

#[test]
fn another_size_of_the_class_is_met_again_and_has_the_plan_too() {
    let _pinned = tiers();
    let sizes = [40, 41, 42, 43].map(input);
    let (_, c) = counted(|| sizes[..2].iter().for_each(|x| drop(code(x))));
    assert_eq!((c.cold_starts, c.plans_made), (2, 0));
    finish_searches();
    let (_, c) = counted(|| sizes.iter().for_each(|x| drop(code(x))));
    assert_eq!((c.cold_starts, c.plans_made), (0, 1));
}

#[test]
fn large_tensors_are_planned_for_at_once() {
    let _pinned = tiers();
    let x = Tensor::from_slice(&vec![0.5f32; 1 << 20], [1024, 1024]);
    let (_, c) = counted(|| ((&x * 0.5 + 1.0).tanh() * &x).sum(..).item::<f32>().unwrap());
    assert!(c.kernels < 3, "{} kernels: no temporary of four megabytes is written", c.kernels);
}

#[test]
fn temporaries_of_a_statement_are_not_written_the_first_time_either() {
    let _pinned = tiers();
    set_deferring(true);
    let x = Tensor::from_slice(&vec![0.5f32; 1 << 20], [1024, 1024]);
    let (_, c) = counted_alone(|| x.exp().square().sqrt().tanh().sum(..).item::<f32>().unwrap());
    assert_eq!((c.values_deferred, c.bytes_written), (4, 4), "four handles live until the semicolon; a sum is written");

    // A handle that is read after all: the same bits, and written from then on.
    let run = || {
        let y = (&x * 3.0).sin();
        let sum = y.sum(..).item::<f32>().unwrap();
        (sum, y.to_vec::<f32>().unwrap())
    };
    let want = with_fusion(false, || with_strict(true, run)).1;
    let ((_, got), c) = counted_alone(|| with_strict(true, run));
    assert_eq!((c.values_deferred, c.values_recomputed), (1, 1));
    assert!(got == want, "the bits of an unfused run");
    let (_, c) = counted_alone(|| with_strict(true, run));
    assert_eq!((c.values_deferred, c.values_recomputed), (0, 0));
}

#[test]
fn who_wants_to_know_plans_gets_the_plan() {
    let _pinned = tiers();
    let x = input(50);
    let (_, explanation) = explain(|| code(&x));
    assert!(explanation.totals().kernels < 3, "{explanation}");

    let before = set_reproducible(true);
    let (_, c) = counted(|| code(&input(51)));
    set_reproducible(before);
    assert_eq!((c.cold_starts, c.plans_made), (0, 1));

    let device = counting::device();
    device.set_memory_limit(Some(1 << 20));
    let x = input(52).to_device(device).unwrap();
    assert_eq!(counted(|| code(&x)).1.cold_starts, 0);
}

#[test]
fn code_that_never_repeats_is_never_searched_for() {
    let _pinned = tiers();
    let x = input(8);
    let (_, c) = counted(|| {
        for program in 0..64u32 {
            let mut y = x.clone();
            for bit in 0..6 {
                y = if program >> bit & 1 == 0 { y.sin() } else { &y + 1.0 };
            }
            y.to_vec::<f32>().unwrap();
        }
    });
    assert_eq!(
        (c.cold_starts, c.plans_made, c.programs_compiled),
        (64, 0, 2),
        "of two operations there are two programs"
    );
}

#[test]
fn a_loop_runs_on_while_its_turn_is_searched_for() {
    let _pinned = tiers();
    let turns = |n: usize| {
        let mut x = input(30);
        for _ in 0..n {
            x = (&x - x.mean_keepdim(0)).tanh() + 0.25;
        }
        x.to_vec::<f32>().unwrap()
    };
    let want = with_strict(true, || with_fusion(false, || turns(900)));
    let got = with_strict(true, || turns(900));
    assert_eq!(got, want);
    finish_searches();
    let (got, c) = counted_alone(|| with_strict(true, || turns(900)));
    assert_eq!(got, want);
    assert!(c.cold_starts < c.segments, "{} of {} segments", c.cold_starts, c.segments);
}

#[test]
fn threads_record_read_and_drop_while_plans_are_exchanged() {
    let _pinned = tiers();
    let device = counting::device();
    let work = |seed: usize| {
        set_tiers(true);
        thalweg::set_default_device(Some(device));
        with_strict(true, || {
            let mut held = vec![];
            for n in 0..60 {
                let x = input(10 + (seed + n) % 5);
                let y = (&x * 2.0).sin();
                let z = if n % 3 == 0 { y.sum_keepdim(0) * &x } else { &y - y.amax_keepdim(1) };
                held.push(z.clone());
                if n % 4 == 1 {
                    held.clear();
                }
                let got = z.to_vec::<f32>().unwrap();
                let want = with_fusion(false, || {
                    let y = (&x * 2.0).sin();
                    if n % 3 == 0 { y.sum_keepdim(0) * &x } else { &y - y.amax_keepdim(1) }.to_vec::<f32>().unwrap()
                });
                assert_eq!(got, want, "turn {n}");
            }
        });
        set_tiers(false);
    };
    std::thread::scope(|s| {
        for seed in 0..6 {
            s.spawn(move || work(seed));
        }
    });
}

/// More values than the exhaustive search takes, over whole rows and columns.
fn block(x: &Tensor) -> Tensor {
    let mut a = x.clone();
    for n in 0..8 {
        let e = a.exp();
        let wave = (&e / e.sum_keepdim(n % 2)).sin();
        a = &wave - wave.amax_keepdim(1);
    }
    a
}

/// Code that differs a little in each iteration: only the new part is searched.
#[test]
fn code_that_changes_a_little_each_turn_searches_only_what_is_new() {
    let _pinned = tiers();
    set_deferring(true);
    let x = Tensor::from_slice(&(0..1 << 20).map(|i| (i % 97) as f32 * 0.02 - 1.0).collect::<Vec<_>>(), [1024, 1024]);
    type Turn = fn(Tensor) -> Tensor;
    let turns: [Turn; 6] =
        [|a| a, |a| a.tanh(), |a| a.tanh().sum(0), |a| a.sum(1), |a| a.sum(1).sqrt(), |a| (&a * 0.5).amax(0)];
    let run = |turn: Turn| turn(block(&x)).to_vec::<f32>().unwrap();
    let counts = turns.map(|turn| {
        let want = with_fusion(false, || run(turn));
        let (got, c) = counted(|| run(turn));
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-3 * b.abs().max(1.0)));
        c
    });
    let first = counts[0].plan_visits;
    assert_eq!((counts[0].components_reused, counts[0].components_seeded), (0, 0));
    for (turn, c) in counts.iter().enumerate().skip(1) {
        assert_eq!((c.components_reused, c.components_seeded), (0, 1), "turn {turn}");
        assert!(4 * c.plan_visits < first, "turn {turn}: {} visits, {first} in the first", c.plan_visits);
        assert!(c.kernels <= counts[0].kernels + 2, "turn {turn}: {} kernels, {}", c.kernels, counts[0].kernels);
    }
}

/// A background search reuses known components, too, whichever thread found them.
#[test]
fn a_class_that_is_new_takes_the_parts_that_are_known() {
    let _pinned = tiers();
    let x = input(40);
    let searched = |code: &dyn Fn() -> Vec<f32>| {
        code();
        code();
        finish_searches();
        counted(code).1
    };
    let first = searched(&|| block(&x).to_vec().unwrap());
    assert_eq!((first.plans_made, first.components_reused, first.components_seeded), (1, 0, 0));
    let grown = searched(&|| {
        let a = block(&x).tanh();
        a.to_vec().unwrap()
    });
    assert_eq!((grown.plans_made, grown.components_reused, grown.components_seeded), (1, 0, 1));
    assert!(4 * grown.plan_visits < first.plan_visits, "{} and {} visits", grown.plan_visits, first.plan_visits);
    // On a thread without plans, and beside other operations.
    let other = std::thread::scope(|s| {
        let run = || {
            set_tiers(true);
            set_deferring(false);
            let (x, y) = (input(40), input(60));
            searched(&|| {
                let (a, b) = (block(&x).tanh(), (&y * 0.25).cos());
                b.to_vec::<f32>().unwrap();
                a.to_vec().unwrap()
            })
        };
        let device = x.device();
        let on_device = move || {
            thalweg::set_default_device(Some(device));
            run()
        };
        s.spawn(on_device).join().unwrap()
    });
    assert!(other.components_reused >= 1, "{other:?}");
}

#[test]
fn who_wants_to_know_plans_is_given_none_of_known_parts() {
    let _pinned = tiers();
    let x = Tensor::from_slice(&vec![0.5f32; 1 << 20], [1024, 1024]);
    block(&x).to_vec::<f32>().unwrap();
    let before = set_reproducible(true);
    let (_, c) = counted(|| block(&x).tanh().to_vec::<f32>().unwrap());
    set_reproducible(before);
    assert_eq!((c.plans_made, c.components_reused, c.components_seeded), (1, 0, 0));
    let ((), c) = counted(|| drop(explain(|| block(&x).cos().to_vec::<f32>().unwrap())));
    assert_eq!((c.plans_made, c.components_reused, c.components_seeded), (1, 0, 0));
    set_tiers(false);
    let (_, c) = counted(|| block(&x).sqrt().to_vec::<f32>().unwrap());
    assert_eq!((c.plans_made, c.components_reused, c.components_seeded), (1, 0, 0));
}

/// A search without budget continues in the background; the better plan is used between two runs.
#[test]
fn a_search_that_its_budget_ended_goes_on_in_the_background() {
    let _pinned = tiers();
    set_search_effort(Effort::Visits(20));
    let x = input(900);
    let run = || block(&x).to_vec::<f32>().unwrap();
    let strict = |run: &dyn Fn() -> Vec<f32>| with_strict(true, run);
    let want = strict(&run);
    let (_, c) = counted(run);
    assert_eq!((c.cold_starts, c.plans_made, c.plans_improved), (1, 0, 0));
    run();
    finish_searches();
    let (_, before) = counted(run);
    assert_eq!((before.cold_starts, before.plans_made), (0, 1));
    finish_further_searches();
    let (got, after) = counted(run);
    assert_eq!((after.plans_made, after.plans_improved), (0, 1), "exchanged between two runs");
    assert!(after.plan_visits > before.plan_visits, "{} and {} visits", after.plan_visits, before.plan_visits);
    assert!(after.kernels < before.kernels, "{} kernels, {} before", after.kernels, before.kernels);
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-4));
    // From then on it is available, and no other size of the class has the old one.
    let (_, c) = counted(run);
    assert_eq!((c.plans_found, c.plans_improved, c.kernels), (1, 0, after.kernels));
    let (_, c) = counted(|| block(&input(901)).to_vec::<f32>().unwrap());
    assert_eq!((c.plans_made, c.kernels), (0, after.kernels));
    // In strict mode, all plans have the same bits.
    for _ in 0..3 {
        assert_eq!(strict(&run), want);
        finish_searches();
        finish_further_searches();
    }
    set_search_effort(Effort::default());
}

/// Selections are equal before there is a plan, by the plan, and by competing plans.
#[test]
fn selections_are_the_same_in_every_tier() {
    let _pinned = tiers();
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        let x = input(64).cast(dtype);
        let code = || {
            let s = ((&x / 3.3 + 0.37).tanh() * 1.7 + &x) * 1.3;
            let (_, top) = s.topk(3, 1, true);
            let steps = (&s * 9.0).floor().cast(DType::I64);
            let routed = s.gather(1, &top).gt(0.4).cast(DType::I64);
            [s.argmax(1), top, steps, routed].map(|t| t.to_vec::<i64>().unwrap())
        };
        let want = with_fusion(false, code);
        for call in 0..100 {
            if call == 4 {
                finish_searches();
            }
            assert_eq!(code(), want, "{dtype:?}, call {call}");
        }
    }
}

/// The loss and its gradient depend on the largest margin of each row: in bf16 it must equal one of the row.
#[test]
fn a_hinge_loss_in_bf16_stays_finite_while_plans_take_over() {
    let _pinned = tiers();
    let x = input(48).cast(DType::BF16);
    let mut w = Tensor::linspace(-0.5, 0.5, 24 * 6).reshape([24, 6]).cast(DType::BF16);
    let classes = Tensor::arange_with(0..48, DType::I64) % 6;
    let mut losses = vec![];
    for step in 0..60 {
        if step == 4 {
            finish_searches();
        }
        let tracked = w.clone().tracked();
        let scores = x.matmul(&tracked) / 1.7;
        let own = scores.gather(1, &classes.unsqueeze(1));
        let margin = (scores - own + 1.0).amax(1).relu().mean(..);
        let gradient = thalweg::grad(&margin, &tracked);
        w = (&w - gradient * 0.05).detach();
        losses.push(margin.cast(DType::F32).item::<f32>().unwrap());
    }
    assert!(losses.iter().all(|l| l.is_finite()), "{losses:?}");
    assert!(losses[59] < losses[0], "{losses:?}");
}

/// Held gradients are computed by `synchronize`, whatever the pattern's history of reads.
#[test]
fn synchronize_computes_gradients_that_are_held() {
    let _pinned = pinned();
    set_deferring(true);
    let (x, w) = (input(16).to_vec::<f32>().unwrap(), Tensor::linspace(-1.0, 1.0, 24 * 4).reshape([24, 4]).tracked());
    let x = Tensor::from_slice(&x, [16, 24]);
    for call in 0..6 {
        let loss = x.matmul(&w).tanh().square().mean(..);
        let gradients = loss.backward();
        loss.item::<f32>().unwrap();
        thalweg::synchronize().unwrap();
        let (_, c) = counted(|| gradients[&w].to_vec::<f32>().unwrap());
        assert_eq!(c.kernels, 0, "call {call}: what is held was computed");
    }
}
