//! Tests that a length that changes from call to call needs only a handful of sources.

use crate::driver::Absent;
use crate::golden::Draft;
use crate::render::CudaPrinter;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_gpu::plan;
use thalweg_gpu::runtime::Compiler;
use thalweg_ir::{DType, ElementOp, Monoid};
use thalweg_kernel::{Geometry, Kernel, Orientation};

/// Number of distinct sources of a kernel over all of these lengths.
fn sources(lengths: impl Iterator<Item = usize>, kernel: impl Fn(usize) -> (Kernel, Geometry)) -> usize {
    let compiler = Compiler::new(Arc::new(Absent::new()), Box::new(CudaPrinter), "cuda:0".into());
    let mut all = BTreeSet::new();
    for n in lengths {
        let (kernel, geometry) = kernel(n);
        let stages = plan(&kernel, &geometry, &compiler).unwrap().stages;
        all.extend(stages.iter().map(|s| compiler.text(&compiler.unit(&s.kernel))));
    }
    all.len()
}

/// Kernel: softmax of scaled scores, `rows` rows of `n` keys each.
fn softmax(rows: usize, n: usize, dtype: DType) -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[rows, n], 1);
    let x = d.load(dtype, &[n as isize, 1]);
    let x = d.b.cast(x, DType::F32);
    let scale = d.number(0.125);
    let x = d.two(ElementOp::Mul, x, scale);
    let most = d.b.fold(Monoid::Max, x);
    let centred = d.two(ElementOp::Sub, x, most);
    let e = d.one(ElementOp::Exp, centred);
    let sum = d.b.fold(Monoid::Sum, e);
    let y = d.two(ElementOp::Div, e, sum);
    let y = d.b.cast(y, dtype);
    d.store(y, &[n as isize, 1]);
    d.rows(Orientation::InnerAxis)
}

/// Kernel: a decoder's weighted sum over its cache. For each head, `n` weights times `n` values of 64, summed.
fn weighted(heads: usize, n: usize) -> (Kernel, Geometry) {
    let (n, width) = (n as isize, 64);
    let mut d = Draft::new(false, &[heads, width as usize, n as usize], 2);
    let p = d.load(DType::F32, &[n, 0, 1]);
    let v = d.load(DType::F32, &[n * width, 1, width]);
    let y = d.two(ElementOp::Mul, p, v);
    let sum = d.b.fold(Monoid::Sum, y);
    d.store(sum, &[width, 1, 0]);
    d.rows(Orientation::OuterAxis)
}

/// Kernel: a bias added to rows.
fn biased(rows: usize, n: usize) -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[rows, n], 0);
    let x = d.load(DType::F32, &[n as isize, 1]);
    let b = d.load(DType::F32, &[0, 1]);
    let y = d.two(ElementOp::Add, x, b);
    d.store(y, &[n as isize, 1]);
    d.map()
}

#[test]
fn six_sources_serve_a_softmax_of_512_lengths() {
    let n = sources(1..=512, |n| softmax(4096, n, DType::F32));
    assert!(n <= 6, "{n} sources");
    // Vectors of eight narrow floats where they fit, and of four.
    let n = sources(1..=512, |n| softmax(4096, n, DType::BF16));
    assert!(n <= 8, "{n} sources");
}

#[test]
fn a_map_has_one_for_vectors_and_one_without() {
    let n = sources(1..=512, |n| biased(65_536, n));
    // Each with one or two vectors a thread, and with all dimensions merged.
    assert!(n <= 5, "{n} sources");
}

#[test]
fn a_cache_that_grows_by_one_takes_a_handful() {
    let softmaxes = sources(1..=512, |n| softmax(32, n, DType::F32));
    let sums = sources(1..=512, |n| weighted(32, n));
    assert!(softmaxes <= 6 && sums <= 4, "{softmaxes} and {sums} sources");
}
