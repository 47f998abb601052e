//! The duration of planning, and its results. The figures are for people: `cargo test --release --test planning --
//! --ignored --nocapture`.

mod counting;

use counting::pinned;
use thalweg::prelude::*;
use thalweg::{Counters, Effort, counters, explain, set_search_effort};

/// Blocks of a product, a layer norm, GELU, softmax and a residual: 25 operations each.
fn blocks(v: &Tensor, w: &Tensor, n: usize) -> Tensor {
    let mut y = v.clone();
    for i in 0..n {
        let h = y.matmul(w);
        let c = &h - h.mean_keepdim(1);
        let normalised = &c / ((&c * &c).mean_keepdim(1) + 1e-5).sqrt();
        let g = normalised.gelu();
        let e = (&g - g.amax_keepdim(1)).exp();
        let s = &e / e.sum_keepdim(1);
        y = if i % 2 == 0 { s + &y } else { s * 2.0 };
        y = (y.t() + 1.0).t() + &y;
    }
    y
}

/// Runs `f` on a thread without plans, with an empty store.
fn cold(f: impl Fn() -> Tensor + Sync) -> Counters {
    thalweg::clear_plans();
    std::thread::scope(|s| {
        let run = || {
            let before = counters();
            f().to_vec::<f32>().unwrap();
            counters() - before
        };
        s.spawn(run).join().unwrap()
    })
}

#[test]
fn a_search_is_as_long_as_it_is_told() {
    let _pinned = pinned();
    let (v, w) = (Tensor::randn([64, 64]), Tensor::randn([64, 64]));
    thalweg::synchronize().unwrap();
    let kernels = |effort| {
        let run = || {
            set_search_effort(effort);
            let (_out, e) = explain(|| blocks(&v, &w, 4));
            let predicted: u64 = e.segments.iter().flat_map(|s| &s.kernels).map(|k| k.predicted_ns).sum();
            (e.totals().kernels, predicted)
        };
        std::thread::scope(|s| s.spawn(run).join().unwrap())
    };
    let (none, some, full) = (kernels(Effort::None), kernels(Effort::default()), kernels(Effort::Full));
    assert!(none.0 > some.0 && none.1 > some.1, "{none:?} {some:?}");
    assert!(full.1 <= some.1 + some.1 / 100, "{some:?} {full:?}");
}

#[test]
#[ignore = "figures for people"]
fn report() {
    let (v, w) = (Tensor::randn([64, 64]), Tensor::randn([64, 64]));
    thalweg::synchronize().unwrap();
    for n in [1, 5, 20, 40] {
        let mut all: Vec<Counters> = (0..9).map(|_| cold(|| blocks(&v, &w, n))).collect();
        all.sort_by_key(|c| c.plan_ns);
        let c = all[4];
        println!("{} operations, {} kernels: planned in {:.2} ms", c.operations, c.kernels, c.plan_ns as f64 / 1e6);
    }
}
