//! Captured segments: a submission gives what recording the operations one by one gives, on other operands.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use thalweg::{Capture, CapturedSegment, Counters, DType, Device, Tensor, counters, flush, manual_seed, with_fusion};

/// Some hundred operations with views, a product, reductions and a gather.
fn network(x: &Tensor, w: &Tensor, at: &Tensor) -> Vec<Tensor> {
    let mut h = x.clone();
    for i in 0..12 {
        let gate = (h.matmul(w) + 0.1 * i as f64).sigmoid();
        h = &h * &gate + (x.t().t() - &h).tanh() * (1.0 - &gate);
    }
    let rows = h.index_select(0, at);
    vec![h.softmax(-1), rows.sum(0), h.slice(1..3), h]
}

fn capture(f: impl Fn() -> Vec<Tensor>, operands: &[&Tensor]) -> Option<CapturedSegment> {
    flush();
    let capture = Capture::begin(operands[0].device()).expect("nothing waits");
    let results = f();
    let captured = capture.end(operands, &results.iter().collect::<Vec<_>>());
    results.iter().for_each(|y| drop(y.memory().unwrap()));
    captured
}

/// The numbers as bits of f64. Computed first, so that the conversion is a segment of its own.
fn bits(all: &[Tensor]) -> Vec<Vec<u64>> {
    all.iter().for_each(|y| drop(y.memory().unwrap()));
    let of = |y: &Tensor| y.cast(DType::F64).to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect();
    all.iter().map(of).collect()
}

fn computed(all: impl IntoIterator<Item = Tensor>) -> Vec<Tensor> {
    let all: Vec<Tensor> = all.into_iter().collect();
    all.iter().for_each(|x| drop(x.memory().unwrap()));
    all
}

fn counted<R>(f: impl FnOnce() -> R) -> (R, Counters) {
    let before = counters();
    let result = f();
    (result, counters() - before)
}

fn operands(seed: u64, rows: usize) -> Vec<Tensor> {
    manual_seed(seed);
    computed([Tensor::randn([rows, 6]), Tensor::randn([6, 6]), Tensor::randint(0..rows as i64, [4])])
}

#[test]
fn submissions_equal_operations_one_by_one() {
    let first = operands(1, 5);
    let [x, w, at] = &first[..] else { unreachable!() };
    let captured = capture(|| network(x, w, at), &[x, w, at]).expect("it can be captured");
    for seed in 2..9 {
        let other = operands(seed, 5);
        let [x, w, at] = &other[..] else { unreachable!() };
        let expected = bits(&network(x, w, at));
        let (results, counted) = counted(|| captured.submit(&[x, w, at]).expect("the same layouts"));
        assert_eq!(bits(&results), expected);
        assert_eq!((counted.captured_runs, counted.segments), (1, 1));
        assert_eq!(counted.operations, captured.operations() as u64);
    }
    // Other operands than the captured ones are refused.
    let other = operands(3, 7);
    let (none, counted) = counted(|| captured.submit(&[&other[0], &other[1], &other[2]]));
    assert!(none.is_none() && counted.segments == 0);
    let (transposed, f64s) = (computed([w.t()]), computed([w.cast(DType::F64)]));
    for w in [&transposed[0], &f64s[0]] {
        assert!(captured.submit(&[x, w, at]).is_none());
    }
    // Nothing runs while operations wait, or in another mode.
    let waits = x + 1.0;
    assert!(captured.submit(&[x, w, at]).is_none());
    drop(waits.memory().unwrap());
    assert!(with_fusion(false, || captured.submit(&[x, w, at])).is_none());
    assert!(captured.submit(&[x, w, at]).is_some());
}

#[test]
fn results_outlive_later_submissions() {
    let x = computed([Tensor::randn([64])]).remove(0);
    let f = |x: &Tensor| vec![x * 2.0, x.clone(), (x * 2.0).exp()];
    let captured = capture(|| f(&x), &[&x]).unwrap();
    let all: Vec<_> = (0..20)
        .map(|i| {
            let x = computed([&x + i as f64]).remove(0);
            (bits(&f(&x)), captured.submit(&[&x]).unwrap())
        })
        .collect();
    for (expected, results) in all {
        assert_eq!(bits(&results), expected);
        // They are operands like others.
        assert_eq!(bits(&[&results[0] - &results[1]]), bits(&[&results[0] - results[1].clone()]));
    }
}

#[test]
fn random_numbers_are_drawn_anew() {
    let x = computed([Tensor::ones([50])]).remove(0);
    let f = |x: &Tensor| vec![x.dropout(0.5) + Tensor::rand([50]), Tensor::randint(0..9, [50])];
    manual_seed(5);
    let captured = capture(|| f(&x), &[&x]).unwrap();
    for seed in 6..9 {
        manual_seed(seed);
        let expected = [bits(&f(&x)), bits(&f(&x))];
        let state = thalweg::random_state();
        manual_seed(seed);
        let results = [bits(&captured.submit(&[&x]).unwrap()), bits(&captured.submit(&[&x]).unwrap())];
        assert_eq!(results, expected);
        assert_ne!(results[0], results[1]);
        assert_eq!(thalweg::random_state(), state);
    }
    // A function that seeds the generator itself is not captured.
    assert!(
        capture(
            || {
                manual_seed(1);
                vec![Tensor::rand([50])]
            },
            &[&x]
        )
        .is_none()
    );
}

#[test]
fn what_depends_on_data_or_gradients_is_not_captured() {
    let x = computed([Tensor::ones([3])]).remove(0);
    let read_operand = || {
        let first = x.select(0, 0);
        vec![if x.to_vec::<f32>().unwrap()[0] > 0.0 { first + 1.0 } else { first }]
    };
    assert!(capture(read_operand, &[&x]).is_none());
    assert!(capture(|| vec![&x + (&x * 2.0).sum(..).item::<f32>().unwrap()], &[&x]).is_none());
    let w = x.tracked();
    assert!(capture(|| vec![&w * 2.0], &[&x]).is_none());
    assert!(capture(Vec::new, &[&x]).is_none());
    // A table from the host is a constant.
    let table = || vec![&x * Tensor::from_slice(&[1.0f32, 2.0, 3.0], [3])];
    let captured = capture(table, &[&x]).unwrap();
    let results = captured.submit(&[&x]).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert!(!captured.holds(&results[0]) && !captured.holds(&x));
    // One that is stored in the table's memory.
    let view = || {
        let table = Tensor::from_slice(&[1.0f32, 2.0, 3.0], [3]);
        vec![&x + &table, table.flip(0), table]
    };
    let captured = capture(view, &[&x]).unwrap();
    let held: Vec<bool> = captured.submit(&[&x]).unwrap().iter().map(|y| captured.holds(y)).collect();
    assert_eq!((held[0], held[2]), (false, true));
    // A loop that would be cut where it repeats itself, and one that is too long.
    let some = || vec![(0..1000).fold(x.clone(), |y, _| y * 1.0001)];
    let expected = bits(&some());
    let captured = capture(some, &[&x]).expect("a capture is not cut where a loop repeats itself");
    assert_eq!((captured.operations(), bits(&captured.submit(&[&x]).unwrap())), (1000, expected));
    let many = || vec![(0..20_000).fold(x.clone(), |y, _| y * 1.0001)];
    assert!(capture(many, &[&x]).is_none());
}

#[test]
fn a_failed_submission_fails_its_results_alone() {
    let x = computed([Tensor::randn([4, 2])]).remove(0);
    let index = |at: i64| computed([Tensor::from_slice(&[at], [1])]).remove(0);
    let (good, bad) = (index(3), index(4));
    let f = |at: &Tensor| vec![x.index_select(0, at) * 2.0, &x + 1.0];
    let captured = capture(|| f(&good), &[&x, &good]).unwrap();
    for at in [&good, &bad, &good, &bad, &good] {
        let results = captured.submit(&[&x, at]).unwrap();
        let expected = f(at);
        let said = |y: &Tensor| y.to_vec::<f32>().map_err(|e| e.to_string());
        // The message has the line of the captured call, which is the same.
        assert_eq!(results.iter().map(said).collect::<Vec<_>>(), expected.iter().map(said).collect::<Vec<_>>());
        assert_eq!(said(&results[0]).is_ok(), std::ptr::eq(at, &good));
    }
}

#[test]
fn threads_submit_one_segment_at_once() {
    let first = operands(1, 5);
    let [x, w, at] = &first[..] else { unreachable!() };
    let captured = capture(|| network(x, w, at), &[x, w, at]).unwrap();
    let submitted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (captured, submitted) = (&captured, &submitted);
            scope.spawn(move || {
                for seed in 0..20 {
                    let own = operands(100 * thread + seed, 5);
                    let [x, w, at] = &own[..] else { unreachable!() };
                    let expected = bits(&network(x, w, at));
                    assert_eq!(bits(&captured.submit(&[x, w, at]).unwrap()), expected);
                    submitted.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert_eq!(submitted.into_inner(), 80);
}

#[test]
fn a_submission_is_explained_and_reaches_the_searched_plan() {
    let first = operands(1, 5);
    let [x, w, at] = &first[..] else { unreachable!() };
    let captured = capture(|| network(x, w, at), &[x, w, at]).unwrap();
    for _ in 0..3 {
        captured.submit(&[x, w, at]).unwrap();
        thalweg::finish_searches();
    }
    let (_, counted) = counted(|| captured.submit(&[x, w, at]).unwrap());
    assert_eq!((counted.cold_starts, counted.plans_found, counted.captured_runs), (0, 1, 1));
    let (results, report) = thalweg::explain(|| captured.submit(&[x, w, at]));
    assert!(results.is_some());
    assert_eq!(report.segments.len(), 1);
    assert_eq!(captured.submit(&[x, w, at]).unwrap()[0].device(), Device::cpu());
}
