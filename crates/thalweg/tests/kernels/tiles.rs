//! Tile kernels in terms of methods and elementwise kernels: matrix products with user-defined functions as prologue,
//! in between and as epilogue are one kernel each, without intermediates in memory.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;

/// User-defined attention score: capped, with a distance penalty, masked.
#[kernel]
fn score<F: Real>(s: F, i: i32, j: i32) -> F {
    let capped = 20.0 * (s / 20.0).tanh() - 0.05 * (i - j).abs() as F;
    if j > i { F::lit(f64::NEG_INFINITY) } else { capped }
}

#[kernel]
fn gated<F: Real>(a: F, b: F) -> F {
    a / (1.0 + (-a).exp()) * b
}

/// Number of kernels, and of bytes written, of attention with a user-defined score, whose values are checked.
fn attention(heads: usize) -> (u64, u64) {
    let _pinned = pinned();
    let (n, d) = (128usize, 32usize);
    let (q, k, v) = (randn([heads, n, d]), randn([heads, n, d]), randn([heads, n, d]));
    let (i, j) = (Tensor::arange_with(n, DType::I32).reshape([n, 1]), Tensor::arange_with(n, DType::I32));
    let (y, c) = counted(|| {
        let s = q.matmul(&k.transpose(-1, -2)) / (d as f64).sqrt();
        score::on(s, &i, &j).softmax(-1).matmul(&v)
    });
    let s = (q.matmul(&k.transpose(-1, -2)) / (d as f64).sqrt() / 20.0).tanh() * 20.0
        - (&i - &j).abs().cast(DType::F32) * 0.05;
    let want = j.gt(&i).where_(f32::NEG_INFINITY, s).softmax(-1).matmul(&v);
    assert!(y.allclose(&want, 1e-4, 1e-5).unwrap());
    (c.kernels, c.bytes_written)
}

#[test]
fn attention_with_scores_of_ones_own_is_one_kernel() {
    assert_eq!(attention(1), (1, 4 * 128 * 32));
}

/// With several heads, the planner chooses to store the distances, which they share.
#[test]
fn what_heads_share_may_be_stored() {
    assert_eq!(attention(4), (2, 4 * (4 * 128 * 32 + 128 * 128)));
}

/// A product by 8-bit weights with a scale for each group of 32 rows, and its epilogue.
#[test]
fn a_quantised_product_is_one_kernel() {
    let _pinned = pinned();
    let (m, k, n, group) = (48usize, 128usize, 64usize, 32usize);
    let (x, bias) = (randn([m, k]), randn([n]));
    let (weights, scales) = (Tensor::randint(-127..128, [k, n]).cast(DType::I8), randn([k / group, 1, n]));
    thalweg::synchronize().unwrap();
    let whole = || {
        let w = weights.cast(DType::F32).reshape([k / group, group, n]) * &scales;
        (x.matmul(&w.reshape([k, n])) + &bias).gelu()
    };
    let (y, c) = counted(whole);
    assert_eq!((c.kernels, c.bytes_written), (1, 4 * (m * n) as u64), "{c:?}");
    assert!(y.allclose(thalweg::with_fusion(false, whole), 1e-4, 1e-3).unwrap());
}

/// Two products of one input, a function of both, and a third: intermediates are fused into them.
#[test]
fn a_gated_network_is_its_products() {
    let _pinned = pinned();
    let (m, k, h) = (64usize, 96usize, 128usize);
    let (x, w, u, down) = (randn([m, k]), randn([k, h]), randn([k, h]), randn([h, k]));
    thalweg::synchronize().unwrap();
    let whole = || gated::on(x.matmul(&w), x.matmul(&u)).matmul(&down) + &x;
    let (y, c) = counted(whole);
    assert_eq!((c.kernels, c.bytes_written), (3, 4 * (2 * m * h + m * k) as u64), "{c:?}");
    assert!(y.allclose(thalweg::with_fusion(false, whole), 1e-3, 1e-2).unwrap());
}
