//! A matrix product, a bias and relu with a user-defined backward pass: the custom kernel example of Burn's book, which
//! takes 303 lines there. It takes as many kernels as without the backward pass, forward and backward.
//!
//! ```sh
//! cargo run --release --example own_backward
//! ```

use thalweg::prelude::*;
use thalweg::{Backward, custom_grad, explain};

/// The layer, with its own backward pass.
pub fn fused(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    custom_grad(
        [x, w, b],
        |[x, w, b]| (x.matmul(&w) + b).relu(),
        |Backward { inputs: [x, w, b], outputs: y, gradients: dy }| {
            let d = y.gt(0).where_(dy, 0);
            [d.matmul(&w.t()), x.t().matmul(&d), d.sum_to(*b.shape())]
        },
    )
}

#[allow(dead_code, reason = "the tests have the function from here")]
fn main() -> Result<(), Error> {
    let (m, k, n) = (96, 160, 224);
    let (x, w, b) = (Tensor::randn([m, k]), Tensor::randn([k, n]), Tensor::randn([n]));
    thalweg::synchronize()?;
    let plain = |x: &Tensor, w: &Tensor, b: &Tensor| (x.matmul(w) + b).relu();
    type Layer = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
    for (name, f) in [("own", fused as Layer), ("plain", plain as Layer)] {
        let leaves = [&x, &w, &b].map(Tensor::tracked);
        let (gradients, told) = explain(|| {
            let y = f(&leaves[0].tanh(), &leaves[1], &leaves[2]) * 0.5;
            y.square().sum(..).backward()
        });
        let (all, unfused) = (told.totals(), told.unfused());
        println!(
            "{name}: {} kernels and {} bytes, one operation at a time {} and {}",
            all.kernels,
            all.bytes_read + all.bytes_written,
            unfused.kernels,
            unfused.bytes_read + unfused.bytes_written
        );
        println!("|dw| = {}", gradients[&leaves[1]].abs().sum(..).item::<f32>()?);
    }
    Ok(())
}
