//! Gradients of composites against PyTorch's, which bench/gradients.py writes into golden.txt.

use thalweg::prelude::*;
use thalweg::{Attention, Conv, ConvTranspose, Interpolation, Pool};

/// Numbers that equal those of bench/gradients.py.
fn numbers(seed: i64, shape: &[usize], low: f64, high: f64) -> Tensor {
    let n: usize = shape.iter().product();
    let number = |i: i64| ((i * 7919 + seed * 104_729 + 31) % 9973) as f64 / 9973.0 * (high - low) + low;
    Tensor::from_slice(&(0..n as i64).map(number).collect::<Vec<_>>(), shape.to_vec())
}

struct Case {
    name: &'static str,
    /// Shape of each input, and whether all its elements are positive.
    inputs: &'static [(&'static [usize], bool)],
    f: fn(&[Tensor]) -> Tensor,
}

macro_rules! cases {
    ($($name:ident [$($sign:ident $shape:tt),*] |$x:ident| $f:expr;)*) => {
        const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            inputs: &[$((&$shape, cases!($sign))),*],
            f: |$x| $f,
        }),*];
    };
    (sym) => { false };
    (pos) => { true };
}

fn target() -> Tensor {
    Tensor::new([1i64, 0, 3])
}

fn rows() -> Tensor {
    Tensor::new([2i64, 0, 2, 1])
}

/// Weights of four classes.
fn rare() -> Tensor {
    Tensor::new([1.0, 0.5, 2.0, 3.0])
}

cases! {
    mlp [sym [3, 4], sym [5, 4], sym [5], sym [2, 5]] |x| x[0].linear(&x[1], Some(&x[2])).tanh().matmul(&x[3].t());
    softmax [sym [3, 5]] |x| (&x[0] * 3).softmax(-1);
    log_softmax [sym [3, 5]] |x| (&x[0] * 3).log_softmax(0);
    logsumexp [sym [3, 5]] |x| (&x[0] * 5).logsumexp(1);
    layer_norm [sym [3, 6], sym [6], sym [6]] |x| x[0].layer_norm_with(-1, Some(&x[1]), Some(&x[2]), 1e-5);
    rms_norm [sym [3, 6], sym [6]] |x| x[0].rms_norm_with(-1, Some(&x[1]), 1e-5);
    group_norm [sym [2, 4, 3], sym [4], sym [4]] |x| x[0].group_norm(2, Some(&x[1]), Some(&x[2]), 1e-5);
    batch_norm [sym [4, 3, 2], sym [3], sym [3]] |x| {
        let running = (Tensor::zeros_with([3], DType::F64), Tensor::ones_with([3], DType::F64));
        let (y, mean, var) =
            x[0].batch_norm_train((&running.0, &running.1), Some(&x[1]), Some(&x[2]), 0.1, 1e-5);
        assert!(!mean.is_tracked() && !var.is_tracked(), "running statistics are constants");
        y
    };
    instance_norm [sym [2, 3, 4]] |x| x[0].instance_norm(None, None, 1e-5);
    cross_entropy [sym [3, 4]] |x| (&x[0] * 4).cross_entropy(&target(), Reduction::Mean);
    cross_entropy_smooth [sym [3, 4]] |x| x[0].cross_entropy_with(&target(), &ClassLoss::default().ignore(0).smoothing(0.1));
    cross_entropy_weighted [sym [3, 4]] |x| {
        let options = ClassLoss::default().weights(&rare()).ignore(0).smoothing(0.1);
        x[0].cross_entropy_with(&target(), &options)
    };
    cross_entropy_soft [sym [3, 4], sym [3, 4]] |x| {
        let options = ClassLoss::default().weights(&rare()).smoothing(0.2);
        // PyTorch's mean is over samples.
        x[0].cross_entropy_with(&x[1].softmax(1), &options)
    };
    nll_weighted [sym [3, 4]] |x| {
        x[0].log_softmax(1).nll_loss_with(&target(), &ClassLoss::default().weights(&rare()))
    };
    nll [sym [3, 4]] |x| x[0].log_softmax(1).nll_loss(&target(), Reduction::None);
    mse [sym [3, 4], sym [3, 4]] |x| x[0].mse_loss(&x[1], Reduction::Mean);
    huber [sym [3, 4], sym [3, 4]] |x| x[0].huber_loss(&x[1], 0.5, Reduction::Mean);
    bce_weighted [sym [6], pos [6]] |x| {
        (&x[0] * 3).bce_with_logits_weighted(&(&x[1] / 2), &Tensor::new(3.0), Reduction::Mean)
    };
    bce_logits [sym [6], pos [6]] |x| (&x[0] * 3).bce_with_logits(&(&x[1] / 2), Reduction::Mean);
    kl_div [sym [2, 4], sym [2, 4]] |x| x[0].log_softmax(1).kl_div(&x[1].softmax(1), Reduction::Sum);
    cosine [sym [3, 4], sym [3, 4]] |x| x[0].cosine_similarity(&x[1], 1, 1e-8);
    cdist [sym [3, 2], sym [4, 2]] |x| x[0].cdist(&x[1], 2.0);
    cdist_by_products [sym [3, 2], sym [4, 2]] |x| x[0].cdist_by_products(&x[1]);
    gelu [sym [7]] |x| (&x[0] * 3).gelu();
    gelu_tanh [sym [7]] |x| (&x[0] * 3).gelu_tanh();
    silu_mish [sym [7]] |x| (&x[0] * 3).silu() + (&x[0] * 2).mish();
    elu_selu [sym [7]] |x| (&x[0] * 2).elu(0.7) * x[0].selu();
    hard [sym [9]] |x| (&x[0] * 5).hardswish() + x[0].softshrink(0.3) + x[0].leaky_relu(0.2);
    softplus [sym [7]] |x| (&x[0] * 9).softplus() + (&x[0] * 9).log_sigmoid();
    attention [sym [1, 2, 4, 3], sym [1, 2, 5, 3], sym [1, 2, 5, 2]] |x|
        x[0].scaled_dot_product_attention(&x[1], &x[2], Attention::default());
    attention_causal [sym [2, 4, 3], sym [2, 4, 3], sym [2, 4, 2]] |x|
        x[0].scaled_dot_product_attention(&x[1], &x[2], Attention::default().causal(true));
    conv1d [sym [2, 3, 7], sym [4, 3, 3], sym [4]] |x|
        x[0].conv1d(&x[1], Some(&x[2]), Conv::default().stride(2).padding(1));
    conv2d [sym [1, 2, 5, 6], sym [3, 2, 3, 2], sym [3]] |x|
        x[0].conv2d(&x[1], Some(&x[2]), Conv::default().padding([1, 0]));
    conv2d_dilated [sym [1, 2, 7, 7], sym [2, 2, 3, 3]] |x|
        x[0].conv2d(&x[1], None, Conv::default().stride(2).padding(2).dilation(2));
    conv2d_grouped [sym [1, 4, 5, 5], sym [6, 2, 3, 3]] |x| x[0].conv2d(&x[1], None, Conv::default().groups(2));
    conv2d_depthwise [sym [1, 3, 5, 5], sym [3, 1, 3, 3]] |x|
        x[0].conv2d(&x[1], None, Conv::default().padding(1).groups(3));
    conv3d [sym [1, 1, 3, 4, 3], sym [2, 1, 2, 2, 2]] |x| x[0].conv3d(&x[1], None, Conv::default().padding(1));
    conv_transpose1d [sym [1, 2, 4], sym [2, 3, 3]] |x|
        x[0].conv_transpose1d(&x[1], None, ConvTranspose::default().stride(2).padding(1).output_padding(1));
    conv_transpose2d [sym [1, 4, 3, 3], sym [4, 2, 3, 3], sym [4]] |x| {
        let options = ConvTranspose::default().stride(2).padding(1).output_padding(1).groups(2);
        x[0].conv_transpose2d(&x[1], Some(&x[2]), options)
    };
    max_pool2d [sym [1, 2, 6, 6]] |x| x[0].max_pool2d(Pool::new(3).stride(2).padding(1));
    max_pool1d_wide [sym [1, 1, 14]] |x| x[0].max_pool1d(Pool::new(9).stride(2));
    avg_pool2d [sym [1, 2, 5, 5]] |x| x[0].avg_pool2d(Pool::new(2).stride(1).padding(1).count_padding(false));
    adaptive_avg_pool2d [sym [1, 2, 5, 7]] |x| x[0].adaptive_avg_pool2d([3, 4]);
    adaptive_max_pool1d [sym [1, 2, 7]] |x| x[0].adaptive_max_pool1d(3);
    interpolate [sym [1, 1, 3, 4]] |x| x[0].interpolate([5, 7], Interpolation::Linear { align_corners: false });
    embedding [sym [4, 3]] |x| x[0].embedding(&rows());
    cumulative [pos [3, 4]] |x| x[0].cumsum(0) * x[0].cumprod(1);
    logcumsumexp [sym [3, 4]] |x| (&x[0] * 4).logcumsumexp(1);
    cummax [sym [3, 4]] |x| x[0].cummax(1) * &x[0];
    statistics [sym [3, 4]] |x| x[0].std(1) + x[0].var_with(1, 1.0) + x[0].norm(1);
    prod_amax [pos [3, 4]] |x| x[0].prod(1) * x[0].amax(1) - x[0].amin(1);
    sort_topk [sym [3, 5]] |x| x[0].sort(1, false).narrow(1, 0, 2) * x[0].topk(2, 1, true).0;
    gather_scatter [sym [4, 3], sym [4, 3]] |x| {
        let index = rows().unsqueeze(1).broadcast_to([4, 3]);
        x[0].scatter_add(0, &index, &x[1]) * x[1].gather(0, &index)
    };
    einsum [sym [2, 3, 4], sym [4, 3, 2]] |x| Tensor::einsum("bij,jik->bk", &[&x[0], &x[1]]);
    lstm_cell [sym [2, 3], sym [2, 4], sym [2, 4], sym [16, 3], sym [16, 4]] |x| {
        let gates = (x[0].matmul(&x[3].t()) + x[1].matmul(&x[4].t())).chunk(4, 1);
        let c = gates[1].sigmoid() * &x[2] + gates[0].sigmoid() * gates[2].tanh();
        let h = gates[3].sigmoid() * c.tanh();
        Tensor::stack(&[h, c], 0)
    };
}

#[test]
fn composites_have_pytorchs_gradients() {
    let mut lines = include_str!("golden.txt").lines();
    for case in CASES {
        assert_eq!(lines.next(), Some(case.name));
        let leaf = |(i, (shape, positive)): (usize, &(&[usize], bool))| {
            let (low, high) = if *positive { (0.1, 2.0) } else { (-1.0, 1.0) };
            numbers(i as i64 + 1, shape, low, high).tracked()
        };
        let leaves: Vec<Tensor> = case.inputs.iter().enumerate().map(leaf).collect();
        let y = (case.f)(&leaves);
        let gradients = (&y * numbers(77, y.dims(), 0.5, 1.5)).sum(..).backward();
        for (i, x) in leaves.iter().enumerate() {
            let line = lines.next().unwrap();
            let want: Vec<f64> = line.split(' ').map(|v| v.parse().unwrap()).collect();
            let got = gradients[x].to_vec::<f64>().unwrap();
            assert_eq!(got.len(), want.len(), "{}", case.name);
            let scale = want.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            for (g, w) in got.iter().zip(&want) {
                assert!((g - w).abs() <= 1e-9 * scale, "{}, input {i}: {g}, PyTorch {w}\n{got:?}\n{want:?}", case.name);
            }
        }
    }
    assert_eq!(lines.next(), None);
}
