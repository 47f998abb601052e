//! Normalizations and losses against values computed by hand or by plain loops.

use thalweg::prelude::*;

#[track_caller]
fn near(got: &Tensor, want: &[f64]) {
    let got = got.to_f64_vec().unwrap();
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= 1e-6 * w.abs().max(1.0) || g.is_nan() && w.is_nan(), "{got:?}, not {want:?}");
    }
}

#[test]
fn normalisations_with_weights() {
    let x = Tensor::new([[1.0f64, 2.0, 3.0], [4.0, 4.0, 10.0]]);
    let (w, b) = (Tensor::new([1.0f64, 2.0, -1.0]), Tensor::new([0.5f64, 0.0, 1.0]));
    let plain = x.layer_norm(-1, 1e-3);
    let want = (&plain * &w + &b).to_f64_vec().unwrap();
    near(&x.layer_norm_with(-1, Some(&w), Some(&b), 1e-3), &want);
    near(&x.layer_norm_with(-1, None, Some(&b), 1e-3), &(&plain + &b).to_f64_vec().unwrap());
    near(&x.rms_norm_with(-1, Some(&w), 0.0), &(x.rms_norm(-1, 0.0) * &w).to_f64_vec().unwrap());
    let one = (1.5f64).sqrt();
    near(&x.layer_norm(-1, 0.0).slice(0), &[-one, 0.0, one]);
    let narrow = x.cast(DType::BF16).layer_norm_with(-1, Some(&w.cast(DType::BF16)), None, 1e-3);
    assert_eq!(narrow.dtype(), DType::BF16);
}

#[test]
fn groups_instances_and_batches() {
    let x = Tensor::randn_with([2, 4, 3], DType::F64);
    let (w, b) = (Tensor::new([1.0f64, 2.0, 3.0, 4.0]), Tensor::new([0.0f64, 1.0, 0.0, -1.0]));
    let v = x.to_f64_vec().unwrap();
    let (wv, bv) = (w.to_f64_vec().unwrap(), b.to_f64_vec().unwrap());
    let by = |group: &dyn Fn(usize, usize) -> usize| {
        let groups: Vec<usize> = (0..24).map(|p| group(p / 12, p / 3 % 4)).collect();
        let stats = |g: usize| {
            let all: Vec<f64> = (0..24).filter(|&p| groups[p] == g).map(|p| v[p]).collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            (mean, all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64)
        };
        (0..24)
            .map(|p| {
                let ((mean, var), c) = (stats(groups[p]), p / 3 % 4);
                (v[p] - mean) / (var + 1e-5).sqrt() * wv[c] + bv[c]
            })
            .collect::<Vec<f64>>()
    };
    near(&x.group_norm(2, Some(&w), Some(&b), 1e-5), &by(&|n, c| n * 4 + c / 2));
    near(&x.instance_norm(Some(&w), Some(&b), 1e-5), &by(&|n, c| n * 4 + c));
    let (mean, var) = (x.mean([0, 2]), x.var([0, 2]));
    near(&x.batch_norm(&mean, &var, Some(&w), Some(&b), 1e-5), &by(&|_, c| c));
    let old = (Tensor::ones_with([4], DType::F64), Tensor::zeros_with([4], DType::F64));
    let (y, new_mean, new_var) = x.batch_norm_train((&old.0, &old.1), Some(&w), Some(&b), 0.1, 1e-5);
    near(&y, &by(&|_, c| c));
    near(&new_mean, &(&mean * 0.1 + 0.9).to_f64_vec().unwrap());
    near(&new_var, &(x.var_with([0, 2], 1.0) * 0.1).to_f64_vec().unwrap());
}

#[test]
fn losses_of_elements() {
    let (x, t) = (Tensor::new([1.0f64, 2.0, -3.0]), Tensor::new([1.5f64, 2.0, 1.0]));
    near(&x.mse_loss(&t, Reduction::None), &[0.25, 0.0, 16.0]);
    near(&x.mse_loss(&t, Reduction::Mean), &[16.25 / 3.0]);
    near(&x.l1_loss(&t, Reduction::Sum), &[4.5]);
    near(&x.huber_loss(&t, 1.0, Reduction::None), &[0.125, 0.0, 3.5]);
    let p = Tensor::new([1.0f64, 0.0, 0.25]);
    let want: Vec<f64> = [(1.0f64, 1.0f64), (2.0, 0.0), (-3.0, 0.25)]
        .iter()
        .map(|&(x, t)| -(t * (1.0 / (1.0 + (-x).exp())).ln() + (1.0 - t) * (1.0 / (1.0 + x.exp())).ln()))
        .collect();
    near(&x.bce_with_logits(&p, Reduction::None), &want);
    near(&Tensor::new([1000.0f64]).bce_with_logits(&Tensor::new([0.0f64]), Reduction::Mean), &[1000.0]);
    near(&Tensor::new([0.5f64, 0.5]).log().kl_div(&Tensor::new([1.0f64, 0.0]), Reduction::None), &[2f64.ln(), 0.0]);
}

#[test]
fn losses_of_classes() {
    let x = Tensor::new([[1.0f64, 2.0, 0.5], [0.0, 0.0, 0.0], [3.0, -1.0, 2.0]]);
    let v = x.to_f64_vec().unwrap();
    let target = Tensor::new([1i64, 0, -100]);
    let logp = |n: usize, c: usize| {
        let row = &v[3 * n..3 * n + 3];
        row[c] - row.iter().map(|x| x.exp()).sum::<f64>().ln()
    };
    let two = [-logp(0, 1), -logp(1, 0)];
    near(
        &x.cross_entropy_with(&target, &ClassLoss::default().ignore(-100).reduction(Reduction::None)),
        &[two[0], two[1], 0.0],
    );
    near(&x.cross_entropy_with(&target, &ClassLoss::default().ignore(-100)), &[(two[0] + two[1]) / 2.0]);
    near(
        &x.log_softmax(1).nll_loss_with(&target, &ClassLoss::default().ignore(-100).reduction(Reduction::Sum)),
        &[two[0] + two[1]],
    );
    near(&x.slice(0).cross_entropy(&Tensor::new(1u8), Reduction::Mean), &[two[0]]);
    let mixed = |n: usize, c: usize| -0.9 * logp(n, c) - 0.1 * (0..3).map(|c| logp(n, c)).sum::<f64>() / 3.0;
    let all = Tensor::new([1i64, 0, 2]);
    near(
        &x.cross_entropy_with(&all, &ClassLoss::default().smoothing(0.1).reduction(Reduction::None)),
        &[mixed(0, 1), mixed(1, 0), mixed(2, 2)],
    );
    // Dimensions after the classes.
    let images = x.t().unsqueeze(0);
    near(&images.cross_entropy(&all.unsqueeze(0), Reduction::None), &[two[0], two[1], -logp(2, 2)]);
    let wrong = x.cross_entropy(&Tensor::new([0i64, 1, 3]), Reduction::Mean).item::<f64>();
    assert!(wrong.unwrap_err().to_string().contains("cross_entropy: index 3 is out of range for axis 1 of size 3"));
    assert!(x.cross_entropy(&target, Reduction::Mean).item::<f64>().is_err());
}

#[test]
fn distances() {
    let (a, b) = (Tensor::new([[3.0f64, 4.0], [1.0, 0.0]]), Tensor::new([[4.0f64, 3.0], [0.0, 0.0], [1.0, 0.0]]));
    near(&a.slice(0).cosine_similarity(&b.slice(0), 0, 1e-8), &[0.96]);
    near(&a.cosine_similarity(&b.slice(2), 1, 1e-8), &[0.6, 1.0]);
    near(&a.cosine_similarity(&b.slice(1), -1, 1e-8), &[0.0, 0.0]);
    let r = f64::sqrt;
    near(&a.cdist(&b, 2.0), &[r(2.0), 5.0, r(20.0), r(18.0), 1.0, 0.0]);
    near(&a.cdist_by_products(&b), &[r(2.0), 5.0, r(20.0), r(18.0), 1.0, 0.0]);
    near(&a.cdist(&b, 1.0), &[2.0, 7.0, 6.0, 6.0, 1.0, 0.0]);
    near(&a.cdist(&b, f64::INFINITY), &[1.0, 4.0, 4.0, 3.0, 1.0, 0.0]);
}

#[test]
fn dropout_keeps_the_mean() {
    let x = Tensor::ones([100_000]);
    let y = Generator::seed(3).dropout(&x, 0.25);
    let v = y.to_vec::<f32>().unwrap();
    let kept = v.iter().filter(|v| **v != 0.0).count();
    assert!(v.iter().all(|v| *v == 0.0 || *v == 1.0 / 0.75), "dropped or scaled");
    assert!((74_000..76_000).contains(&kept), "{kept}");
    assert_eq!(Generator::seed(3).dropout(&x, 0.25).to_vec::<f32>().unwrap(), v);
    assert_eq!(x.dropout(0.0).to_vec::<f32>().unwrap(), vec![1.0; 100_000]);
    assert_eq!(x.dropout(1.0).sum(..).item::<f32>().unwrap(), 0.0);
}

/// Literals from the definition, in double precision.
#[test]
fn window_functions_are_torchs() {
    let windows: [fn(usize, bool, DType) -> Tensor; 3] =
        [Tensor::hann_window_with, Tensor::hamming_window_with, Tensor::blackman_window_with];
    let periodic = [
        [0.0, 0.34549150, 0.90450850, 0.90450850, 0.34549150],
        [0.08, 0.39785218, 0.91214782, 0.91214782, 0.39785218],
        [0.0, 0.20077014, 0.84922986, 0.84922986, 0.20077014],
    ];
    let symmetric = [[0.0, 0.5, 1.0, 0.5, 0.0], [0.08, 0.54, 1.0, 0.54, 0.08], [0.0, 0.34, 1.0, 0.34, 0.0]];
    for (i, window) in windows.into_iter().enumerate() {
        near(&window(5, true, DType::F64), &periodic[i]);
        near(&window(5, false, DType::F64), &symmetric[i]);
        // 1 alone, and nothing; a narrow dtype is rounded once.
        near(&window(1, true, DType::F32), &[1.0]);
        near(&window(1, false, DType::F32), &[1.0]);
        assert_eq!(window(0, true, DType::F32).dims(), [0]);
        let narrow = window(5, true, DType::BF16);
        let rounded = window(5, true, DType::F32).cast(DType::BF16);
        assert_eq!(narrow.to_f64_vec().unwrap(), rounded.to_f64_vec().unwrap());
    }
    near(&Tensor::hann_window(5), &periodic[0]);
    near(&Tensor::hamming_window(5), &periodic[1]);
    near(&Tensor::blackman_window(5), &periodic[2]);
}

#[test]
fn vectors_are_normalised_as_torch_does() {
    let x = Tensor::new([[3.0f64, -4.0], [0.0, 0.0], [1e-3, 0.0]]);
    near(&x.normalize(2.0, 1, 1e-12), &[0.6, -0.8, 0.0, 0.0, 1.0, 0.0]);
    near(&x.normalize(1.0, -1, 1e-12), &[3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0, 1.0, 0.0]);
    near(&x.normalize(f64::INFINITY, 0, 1e-12), &[1.0, -1.0, 0.0, 0.0, 1e-3 / 3.0, 0.0]);
    near(&x.normalize(2.0, 1, 0.1), &[0.6, -0.8, 0.0, 0.0, 0.01, 0.0]);
    near(&x.slice(0).normalize(2.0, .., 1e-12), &[0.6, -0.8]);
    assert_eq!(Tensor::zeros([0, 3]).normalize(f64::INFINITY, 0, 1e-12).dims(), [0, 3]);
    // Orthogonal to the vector; of zeros 1/eps.
    let x = x.tracked();
    let gradient = (x.normalize(2.0, 1, 0.1) * Tensor::new([1.0f64, 0.0])).sum(..).backward()[&x].clone();
    near(&gradient, &[16.0 / 125.0, 12.0 / 125.0, 10.0, 0.0, 10.0, 0.0]);
}
