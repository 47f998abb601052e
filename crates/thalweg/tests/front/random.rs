//! Random numbers: their distribution, and dependence on the seed only.

use thalweg::manual_seed;
use thalweg::prelude::*;

fn moments(x: &Tensor) -> (f64, f64) {
    let v = x.to_f64_vec().unwrap();
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    (mean, v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64)
}

#[test]
fn distributions_have_their_moments() {
    let n = 100_000;
    for dtype in [DType::F32, DType::F64] {
        let mut g = Generator::seed(1);
        let (mean, var) = moments(&g.rand_with([n], dtype));
        // Six standard errors: √(1/12/n) = 0.0009, and 0.0002 for the variance.
        assert!((mean - 0.5).abs() < 0.006 && (var - 1.0 / 12.0).abs() < 0.0015, "{mean} {var}");
        let (mean, var) = moments(&g.randn_with([n], dtype));
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "{mean} {var}");
    }
    let u = Generator::seed(2).rand([n]).to_vec::<f32>().unwrap();
    assert!(u.iter().all(|v| (0.0..1.0).contains(v)));
    let z = Generator::seed(2).randn([n]).to_vec::<f32>().unwrap();
    let beyond = z.iter().filter(|v| v.abs() > 2.0).count() as f64 / n as f64;
    assert!((beyond - 0.0455).abs() < 0.005, "{beyond}");
}

#[test]
fn neighbouring_draws_and_elements_are_uncorrelated() {
    let n = 100_000;
    let mut g = Generator::seed(3);
    let (a, b) = (g.randn([n]).to_vec::<f32>().unwrap(), g.randn([n]).to_vec::<f32>().unwrap());
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| (x * y) as f64).sum::<f64>() / n as f64;
    assert!(dot(&a, &b).abs() < 0.02);
    assert!(dot(&a[1..], &a[..n - 1]).abs() < 0.02);
}

#[test]
fn equal_seeds_give_equal_numbers() {
    let draw = || (Tensor::rand([5]).to_vec::<f32>().unwrap(), Tensor::randn([3]).to_vec::<f32>().unwrap());
    manual_seed(7);
    let first = draw();
    let next = draw();
    manual_seed(7);
    assert_eq!(draw(), first);
    assert_ne!(next, first);
    let other = std::thread::spawn(move || {
        manual_seed(7);
        draw()
    });
    assert_eq!(other.join().unwrap(), first);
    let mut g = Generator::seed(7);
    assert_eq!(g.rand([5]).to_vec::<f32>().unwrap(), first.0);
}

#[test]
fn values_do_not_depend_on_fusion_or_on_what_is_read() {
    let draw =
        |fused| thalweg::with_fusion(fused, || (Generator::seed(5).rand([100]) * 2.0 + 1.0).to_vec::<f32>().unwrap());
    let whole = draw(true);
    assert_eq!(whole, draw(false));
    let part = (Generator::seed(5).rand([100]) * 2.0 + 1.0).slice((10..90).by(7)).to_vec::<f32>().unwrap();
    assert_eq!(part, whole[10..90].iter().step_by(7).copied().collect::<Vec<_>>());
}

#[test]
fn integers_fill_their_range() {
    let mut g = Generator::seed(11);
    let dice = g.randint(1..7, [60_000]).to_vec::<i64>().unwrap();
    for face in 1..=6 {
        let count = dice.iter().filter(|&&d| d == face).count();
        assert!((9_500..10_500).contains(&count), "{face}: {count}");
    }
    assert!(dice.iter().all(|d| (1..7).contains(d)));
    let wide = g.randint(i64::MIN / 2..i64::MAX / 2, [1000]).to_f64_vec().unwrap();
    let mean = wide.iter().sum::<f64>() / 1000.0;
    assert!(mean.abs() < 6.0 * 2f64.powi(63) / 12f64.sqrt() / 1000f64.sqrt(), "{mean:e}");
    let bytes = g.randint_with(0..256, [1000], DType::U8).to_vec::<u8>().unwrap();
    assert!(bytes.contains(&0) || bytes.contains(&255));
    assert_eq!(g.randint(5..6, [4]).to_vec::<i64>().unwrap(), [5; 4]);
}

#[test]
fn narrow_floats_are_drawn_too() {
    for dtype in [DType::F16, DType::BF16] {
        let u = Generator::seed(4).rand_with([20_000], dtype).to_f64_vec().unwrap();
        assert!(u.iter().all(|v| (0.0..=1.0).contains(v)), "{dtype}");
        let mean = u.iter().sum::<f64>() / u.len() as f64;
        assert!((mean - 0.5).abs() < 0.02, "{dtype}: {mean}");
        assert_eq!(u.iter().filter(|&&v| v == 1.0).count(), 0, "{dtype}");
    }
}
