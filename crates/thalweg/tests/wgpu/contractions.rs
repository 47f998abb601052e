//! Products of matrices with their prologues and epilogues, convolutions, and attention.

use super::{agrees, equals, numbers};
use thalweg::prelude::*;

fn floats(shape: &[usize]) -> Tensor {
    Tensor::from_slice(&numbers(shape.iter().product()), shape) / 2.0
}

fn integers(shape: &[usize], dtype: DType) -> Tensor {
    (floats(shape) * 60.0).cast(dtype)
}

/// Sizes with whole and partial tiles of rows, columns and terms: one tile and many.
const SIZES: [[usize; 3]; 8] =
    [[5, 7, 9], [64, 64, 64], [1, 300, 200], [130, 3, 70], [65, 129, 17], [200, 300, 33], [128, 256, 8], [33, 600, 5]];

#[test]
fn products_of_all_layouts() {
    for [m, n, k] in SIZES {
        agrees(1e-4, || floats(&[m, k]).matmul(&floats(&[k, n])));
        agrees(1e-4, || floats(&[m, k]).matmul(&floats(&[n, k]).transpose(0, 1)));
        agrees(1e-4, || floats(&[k, m]).transpose(0, 1).matmul(&floats(&[k, n])));
        agrees(1e-4, || floats(&[k, m]).transpose(0, 1).matmul(&floats(&[n, k]).transpose(0, 1)));
        // Rows and columns that are apart.
        agrees(1e-4, || floats(&[m, 2 * k]).narrow(1, 3, k).matmul(&floats(&[k, n])));
    }
    agrees(0.0, || floats(&[40, 0]).matmul(&floats(&[0, 50])));
    agrees(1e-4, || floats(&[40, 1]).matmul(&floats(&[1, 50])));
}

#[test]
fn few_tiles_divide_long_sums() {
    // One tile, whose terms two workgroups divide on lavapipe.
    for [m, n, k] in [[20, 30, 5000], [16, 60, 4097]] {
        agrees(1e-4, || floats(&[m, k]).matmul(&floats(&[k, n])) / 100.0);
        agrees(1e-4, || (floats(&[m, k]).matmul(&floats(&[n, k]).transpose(0, 1)) / 100.0 + floats(&[n])).relu());
        equals(|| integers(&[m, k], DType::I32).matmul(&integers(&[k, n], DType::I32)));
        agrees(0.05, || {
            let [x, w] = [floats(&[m, k]), floats(&[k, n])].map(|t| t.cast(DType::BF16));
            x.matmul(&w).cast(DType::F32) / 100.0
        });
    }
}

#[test]
fn batches_of_products() {
    agrees(1e-4, || floats(&[3, 10, 20]).matmul(&floats(&[3, 20, 30])));
    agrees(1e-4, || floats(&[2, 3, 70, 20]).matmul(&floats(&[3, 20, 90])));
    agrees(1e-4, || floats(&[5, 1, 66, 20]).matmul(&floats(&[4, 20, 65])));
    // Heads that are interleaved in memory.
    agrees(1e-4, || {
        let heads = |n: usize| floats(&[2, n, 4, 16]).transpose(1, 2);
        heads(70).matmul(&heads(80).transpose(2, 3))
    });
}

#[test]
fn products_of_all_dtypes() {
    for dtype in [DType::BF16, DType::F16] {
        for [m, n, k] in [[33, 65, 20], [130, 140, 70]] {
            agrees(0.05, || floats(&[m, k]).cast(dtype).matmul(&floats(&[k, n]).cast(dtype)));
            agrees(0.05, || floats(&[m, k]).cast(dtype).matmul(&floats(&[n, k]).cast(dtype).transpose(0, 1)).gelu());
        }
    }
    for dtype in [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64] {
        equals(|| integers(&[12, 30], dtype).matmul(&integers(&[30, 80], dtype)));
        equals(|| integers(&[70, 19], dtype).matmul(&integers(&[66, 19], dtype).transpose(0, 1)) * 3 - 1);
    }
}

#[test]
fn prologues_and_epilogues() {
    for [m, n, k] in [[20, 70, 33], [150, 130, 65]] {
        let (x, w, b) = (move || floats(&[m, k]), move || floats(&[k, n]), move || floats(&[n]));
        agrees(1e-4, || (x().matmul(&w()) + b()).gelu());
        agrees(1e-4, || (x().relu() * 2.0).matmul(&w()));
        agrees(1e-4, || x().matmul(&(w().tanh() + 1.0)));
        agrees(1e-4, || (x().exp() / 4.0).matmul(&w().sigmoid()) + floats(&[m, n]));
        agrees(1e-4, || {
            let y = x().matmul(&w()) + b();
            Tensor::cat(&[y.relu(), y.tanh()], 1)
        });
        agrees(1e-4, || x().matmul(&w()).sum(0));
        agrees(1e-4, || (x().matmul(&w()) + b()).softmax(1));
        agrees(0.05, || (x().cast(DType::BF16).matmul(&w().cast(DType::BF16)) + b().cast(DType::BF16)).silu());
    }
}

#[test]
fn convolutions() {
    let image = || floats(&[2, 6, 15, 17]);
    let plain = Conv::default;
    agrees(1e-4, || image().conv2d(&floats(&[70, 6, 3, 3]), None, plain().padding(1)));
    agrees(1e-4, || image().conv2d(&floats(&[8, 6, 3, 2]), Some(&floats(&[8])), plain().stride(2)).relu());
    agrees(1e-4, || image().conv2d(&floats(&[6, 2, 3, 3]), None, plain().groups(3).dilation(2)));
    agrees(0.05, || image().cast(DType::F16).conv2d(&floats(&[70, 6, 3, 3]).cast(DType::F16), None, plain()));
    agrees(1e-3, || {
        let w = floats(&[9, 6, 3, 3]).tracked();
        let loss = image().conv2d(&w, None, plain().padding(1)).tanh().square().mean(..);
        loss.backward()[&w].clone()
    });
}

#[test]
fn attention_with_masks_and_gradients() {
    let heads = |n: usize, d: usize| floats(&[2, 3, n, d]);
    for (n, m, d) in [(33, 40, 16), (70, 130, 64), (5, 200, 24), (128, 128, 64)] {
        agrees(1e-4, || {
            let scores = heads(n, d).matmul(&heads(m, d).transpose(2, 3)) * 0.25;
            scores.softmax(3).matmul(&heads(m, d))
        });
        agrees(1e-4, || {
            let mask = Tensor::tri(n, m, 0).gt(0.0).where_(Tensor::zeros([n, m]), f64::NEG_INFINITY);
            let scores = heads(n, d).matmul(&heads(m, d).transpose(2, 3)) * 0.25 + mask;
            scores.softmax(3).matmul(&heads(m, d))
        });
        agrees(1e-4, || heads(n, d).matmul(&heads(m, d).transpose(2, 3)).sigmoid().matmul(&heads(m, d)) / 8.0);
    }
    agrees(1e-4, || {
        heads(90, 32).scaled_dot_product_attention(&heads(90, 32), &heads(90, 32), Attention::default().causal(true))
    });
    agrees(0.05, || {
        let [q, k, v] = [90, 70, 70].map(|n| heads(n, 64).cast(DType::BF16));
        q.scaled_dot_product_attention(&k, &v, Attention::default())
    });
    agrees(1e-3, || {
        let q = heads(40, 16).tracked();
        let out = q.scaled_dot_product_attention(&heads(50, 16), &heads(50, 16), Attention::default());
        out.square().mean(..).backward()[&q].clone()
    });
}

#[test]
fn training_has_the_losses_of_the_cpu() {
    agrees(1e-3, || {
        let x = floats(&[96, 12]);
        let y = x.square().mean_keepdim(1);
        let mut weights = [floats(&[12, 40]) * 0.3, floats(&[40, 40]) * 0.2, floats(&[40, 1]) * 0.3];
        let mut losses = vec![];
        for _ in 0..30 {
            let own = weights.each_ref().map(Tensor::tracked);
            let hidden = x.matmul(&own[0]).tanh().matmul(&own[1]).gelu();
            let loss = (hidden.matmul(&own[2]) - &y).square().mean(..);
            let gradients = loss.backward();
            weights = [0, 1, 2].map(|n| &weights[n] - &gradients[&own[n]] * 0.1);
            losses.push(loss.detach().reshape([1]));
        }
        Tensor::cat(&losses, 0)
    });
}
