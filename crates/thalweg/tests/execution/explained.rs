//! Explanations of small programs, as a person would check them: fused operations, unfused ones, and reasons.

use crate::counting::{pinned, randn};
use thalweg::prelude::*;
use thalweg::{SegmentReport, explain};

/// Kernels with their operations, stored ones with a star, and the values between kernels with the reason.
fn told<T>(f: impl FnOnce() -> T) -> String {
    let (_out, e) = explain(f);
    e.segments.iter().map(outline).collect::<Vec<_>>().join("")
}

fn outline(s: &SegmentReport) -> String {
    let name = |i: &usize| s.operations[*i].name;
    let mut text = String::new();
    for k in &s.kernels {
        let ops: Vec<String> = k
            .operations
            .iter()
            .filter(|i| !["reshape", "expand"].contains(&name(i)))
            .map(|i| format!("{}{}", name(i), if k.writes.contains(i) { "*" } else { "" }))
            .collect();
        let parts = if k.parts > 1 { format!(" of {} parts", k.parts) } else { String::new() };
        text += &format!("{}{parts} over {}: {}\n", k.kind, k.domain, ops.join(" "));
    }
    for e in &s.edges {
        text += &format!("{} from {} to {}: {}\n", name(&e.operation), e.from, e.to, e.reason);
    }
    text
}

#[test]
fn three_consumers_of_one_producer() {
    let _pinned = pinned();
    let x = randn([256, 256]);
    let text = told(|| {
        let h = (&x * 2.0).tanh();
        (&h + 1.0, h.exp(), h.sum(1))
    });
    assert_eq!(text, "rows over [256, 256]: mul tanh add* exp* sum*\n");
}

#[test]
fn siblings() {
    let _pinned = pinned();
    let (x, y) = (randn([256, 256]), randn([256, 256]));
    let text = told(|| (x.exp(), &x * &y, y.amax(1), x.sum(0)));
    assert_eq!(text, "rows over [256, 256]: exp* mul* amax* sum*\n");
}

#[test]
fn a_diamond() {
    let _pinned = pinned();
    let x = randn([256, 256]);
    let text = told(|| {
        let h = x.exp();
        let (left, right) = (&h * 2.0, h.sin());
        left + right
    });
    assert_eq!(text, "map over [256, 256]: exp mul sin add*\n");
}

#[test]
fn a_diamond_around_a_product() {
    let _pinned = pinned();
    let (x, w) = (randn([64, 64]), randn([64, 64]));
    let text = told(|| {
        let h = x.relu();
        let y = h.matmul(&w);
        (y + &h).tanh()
    });
    assert_eq!(text, "contraction over [64, 64]: relu matmul add tanh*\n");
}

#[test]
fn reductions_along_different_axes() {
    let _pinned = pinned();
    let x = randn([512, 512]);
    let text = told(|| {
        let h = x.tanh();
        &h / h.sum_keepdim(0) + &h * h.amax_keepdim(1)
    });
    assert_eq!(
        text,
        "rows over [512, 512]: tanh* amax*\n\
         rows over [512, 512]: sum div mul add*\n\
         tanh from 0 to 1: read at other elements; storing is cheaper than computing them again\n\
         amax from 0 to 1: result of amax over other rows, which has to be complete\n"
    );
}

#[test]
fn a_chain_with_a_view_in_the_middle() {
    let _pinned = pinned();
    let x = randn([300, 200]);
    let text = told(|| ((&x + 1.0).exp().t().slice((.., (..).by(-1))).reshape([400, 150]) * 2.0).sin());
    assert_eq!(text, "map over [400, 150]: add exp permute slice mul sin*\n");
}

#[test]
fn an_update_of_two_hundred_parameters() {
    let _pinned = pinned();
    let shapes: Vec<[usize; 2]> = (0..200).map(|i| [1 + i % 17, 8 + 3 * i]).collect();
    let tensors = || -> Vec<Tensor> { shapes.iter().map(|&s| Tensor::randn(s)).collect() };
    let (p, g) = (tensors(), tensors());
    let (m, v) = (tensors(), tensors());
    thalweg::synchronize().unwrap();
    let (_new, e) = explain(|| {
        let mut new = vec![];
        for i in 0..shapes.len() {
            let first = &m[i] * 0.9 + &g[i] * 0.1;
            let second = &v[i] * 0.999 + &g[i] * &g[i] * 0.001;
            let step = (&first / 0.1) / ((&second / 0.001).sqrt() + 1e-8) * 1e-3;
            new.push((&p[i] - step, first, second));
        }
        new
    });
    let s = &e.segments[0];
    assert_eq!((e.segments.len(), s.kernels.len(), s.kernels[0].parts), (1, 1, 200), "{e}");
    assert_eq!(s.kernels[0].writes.len(), 600);
    assert!(s.edges.is_empty());
}

#[test]
fn a_convolution_with_a_bias_and_relu() {
    let _pinned = pinned();
    let (x, w, b) = (randn([4, 16, 28, 28]), randn([32, 16, 3, 3]), randn([32]));
    let text = told(|| x.conv2d(&w, Some(&b), thalweg::Conv::default()).relu());
    assert_eq!(text, "contraction over [4, 32, 676]: window window permute matmul add relu*\n");
}
