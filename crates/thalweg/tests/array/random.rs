//! Distributions: moments and frequencies of many draws, within five standard deviations of the exact ones.

use thalweg::Generator;
use thalweg::prelude::*;

const N: usize = 40_000;

/// Compares mean and variance of draws with those of the distribution.
fn check(name: &str, x: &Tensor, mean: f64, var: f64) {
    let x = x.cast(DType::F64).flatten();
    let n = x.numel() as f64;
    let (got_var, got_mean) = x.var_mean(.., 1.0);
    let (got_mean, got_var) = (got_mean.item::<f64>().unwrap(), got_var.item::<f64>().unwrap());
    assert!((got_mean - mean).abs() <= 5.0 * (var / n).sqrt(), "{name}: mean {got_mean} instead of {mean}");
    // The variance of the variance, for tails as long as an exponential's.
    assert!(
        (got_var - var).abs() < 5.0 * var * (8.0 / n).sqrt() + 1e-12,
        "{name}: variance {got_var} instead of {var}"
    );
}

#[test]
fn moments_are_those_of_the_distribution() {
    let mut g = Generator::seed(17);
    let full = |v: f64| Tensor::full([N], v);
    for p in [0.0, 0.3, 1.0] {
        check("bernoulli", &g.bernoulli(&full(p)), p, p * (1.0 - p));
    }
    for rate in [0.5, 3.0] {
        check("exponential", &g.exponential(&full(rate)), 1.0 / rate, 1.0 / (rate * rate));
    }
    for mean in [0.0, 0.2, 3.0, 9.9, 10.1, 40.0, 1000.0] {
        let x = g.poisson(&full(mean));
        check(&format!("poisson of {mean}"), &x, mean, mean);
        assert!(x.eq(x.floor()).all(..).item::<bool>().unwrap());
    }
    for shape in [0.2, 1.0, 2.5, 30.0] {
        check(&format!("gamma of {shape}"), &g.standard_gamma(&full(shape)), shape, shape);
    }
    check("uniform", &g.uniform(-1.0, 3.0, [N]), 1.0, 16.0 / 12.0);
    check("normal", &g.normal(-2.0, 3.0, [N]), -2.0, 9.0);
    // scipy.stats.truncnorm(-1, 2): mean 0.2296, variance 0.5199 (scaled by 4, and shifted by 5).
    let x = g.truncated_normal((5.0, 2.0), (3.0, 9.0), [N]);
    check("truncated normal", &x, 5.0 + 2.0 * 0.229_640_37, 4.0 * 0.519_792_7);
    let (low, high) = x.aminmax(..);
    assert!(low.item::<f32>().unwrap() >= 3.0 && high.item::<f32>().unwrap() <= 9.0);
    assert!(g.poisson(&Tensor::new([-1.0f32])).item::<f32>().unwrap().is_nan());
    assert!(g.standard_gamma(&Tensor::new([0.0f32])).item::<f32>().unwrap().is_nan());
}

/// Frequencies of small counts are the probabilities, on both sides of the change of method.
#[test]
fn counts_are_distributed_as_poissons() {
    let mut g = Generator::seed(3);
    for mean in [4.0f64, 12.0] {
        let x = g.poisson(&Tensor::full([N], mean)).cast(DType::I64);
        let counts = x.bincount(40).unwrap().to_vec::<i64>().unwrap();
        let mut p = (-mean).exp();
        for (k, &count) in counts.iter().enumerate().take(30) {
            let off = count as f64 - p * N as f64;
            assert!(
                off.abs() < 5.0 * (p * N as f64).sqrt() + 1.0,
                "{count} times {k} of mean {mean}, not {}",
                p * N as f64
            );
            p *= mean / (k + 1) as f64;
        }
    }
}

#[test]
fn orders_are_permutations_and_all_are_likely() {
    let mut g = Generator::seed(1);
    let order = g.randperm(1000).to_vec::<i64>().unwrap();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
    assert_ne!(order, sorted);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..1200 {
        *seen.entry(g.randperm(3).to_vec::<i64>().unwrap()).or_insert(0) += 1;
    }
    assert!(seen.len() == 6 && seen.values().all(|n| (140..260).contains(n)), "{seen:?}");
    let x = Tensor::arange(12).reshape([4, 3]);
    let y = g.shuffle(&x, 0);
    assert_eq!(y.sort(0, false).to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    assert_eq!((y.slice((.., 1)) - y.slice((.., 0))).to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn places_are_drawn_by_weight() {
    let mut g = Generator::seed(9);
    let weights = Tensor::new([[1.0f32, 0.0, 3.0], [0.0, 2.0, 0.0]]);
    let drawn = g.multinomial(&weights, N, true);
    assert_eq!(drawn.dims(), [2, N]);
    assert_eq!(drawn.slice(1).amin(..).item::<i64>().unwrap(), 1);
    let counts = drawn.slice(0).bincount(3).unwrap().to_vec::<i64>().unwrap();
    assert!(counts[1] == 0 && (counts[0] as f64 / N as f64 - 0.25).abs() < 0.012, "{counts:?}");
    // Without replacement: the heavier index is first in three of four draws, and no index occurs twice.
    let rows = Tensor::new([1.0f32, 3.0]).broadcast_to([4000, 2]);
    let both = g.multinomial(&rows, 2, false);
    assert!(both.sum(1).eq(1).all(..).item::<bool>().unwrap());
    let heavy = both.slice((.., 0)).cast(DType::F32).mean(..).item::<f32>().unwrap();
    assert!((heavy - 0.75).abs() < 0.035, "{heavy}");
    // Indices with small weights are drawn before those without weight.
    let small = Tensor::new([0.0f32, 1e-38, 0.0, 1e-42, 3e-38]).broadcast_to([500, 5]);
    let three = g.multinomial(&small, 3, false).sort(1, false).unique_all().unwrap();
    assert_eq!(three[0].to_vec::<i64>().unwrap(), [1, 3, 4]);
}

#[test]
fn equal_seeds_draw_equal_numbers() {
    let draw = || {
        thalweg::manual_seed(4);
        let p = Tensor::full([9], 0.5);
        let all =
            [p.bernoulli(), p.exponential(), p.poisson(), p.standard_gamma(), Tensor::randperm(9).cast(DType::F32)];
        Tensor::stack(&all, 0).to_vec::<f32>().unwrap()
    };
    assert_eq!(draw(), draw());
}
