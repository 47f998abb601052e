//! Golden contractions: products with prologues and epilogues, attention, a convolution.

use super::{Draft, sources};
use crate::driver::Absent;
use crate::render::CudaPrinter;
use std::sync::Arc;
use thalweg_gpu::runtime::Compiler;
use thalweg_ir::{DType, ElementOp, Monoid};
use thalweg_kernel::{
    Contraction, ContractionGeometry, Epilogue, FactorOrder, Geometry, GroupPart, Inner, Kernel, MapGeometry,
    MatmulGeometry, Node, NodeId, Orientation, Precision, Prologue, TileBox, TileGeometry,
};

/// Golden GEMM: products of eight pairs of bf16 matrices, of which the right ones are transposed.
pub(super) fn products() -> (Kernel, Geometry) {
    let (m, n, k) = (300, 200, 100);
    let geometry = MatmulGeometry {
        batch: vec![(8, (m * k) as isize, (k * n) as isize)],
        m,
        n,
        k,
        a: (0, k as isize, 1),
        b: (0, 1, k as isize),
        reach: [Some((0, 8 * m * k - 1)), Some((0, 8 * k * n - 1))],
    };
    (
        Kernel::Contraction(Contraction::unfused(DType::BF16, Precision::Ordered)),
        Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry))),
    )
}

/// Geometry of tiles for a map or row kernel over `[batch…, rows, columns]`.
pub(crate) fn tiles(geometry: Geometry) -> TileGeometry {
    let geometry = match geometry {
        Geometry::Map(g) => g,
        Geometry::Rows(g) => MapGeometry { extents: g.extents, accesses: g.accesses },
        other => unreachable!("no part of a contraction: {other:?}"),
    };
    let extents = geometry.extents.clone();
    let columns = extents.len() - 1;
    let boxes = vec![TileBox { origin: vec![0; extents.len()], geometry }];
    TileGeometry { rows: columns - 1, columns, boxes, extents }
}

/// Geometry of products of `count` pairs of matrices; the right ones may be transposed.
pub(crate) fn product_of(count: usize, [m, n, k]: [usize; 3], transposed: bool) -> MatmulGeometry {
    MatmulGeometry {
        batch: vec![(count, (m * k) as isize, (k * n) as isize)],
        m,
        n,
        k,
        a: (0, k as isize, 1),
        b: if transposed { (0, 1, k as isize) } else { (0, n as isize, 1) },
        reach: [Some((0, count * m * k - 1)), Some((0, count * k * n - 1))],
    }
}

/// Golden GEMM with an epilogue: `gelu(a·b + bias)` of bf16.
pub(super) fn product_with_gelu(n: usize, transposed: bool) -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[1, n, n], 0);
    let sums = d.load(DType::F32, &[0, n as isize, 1]);
    let bias = d.load(DType::BF16, &[0, 0, 1]);
    let bias = d.b.cast(bias, DType::F32);
    let x = d.two(ElementOp::Add, sums, bias);
    let (root, one, half) = (d.number(std::f64::consts::FRAC_1_SQRT_2), d.number(1.0), d.number(0.5));
    let z = d.two(ElementOp::Mul, x, root);
    let erf = d.one(ElementOp::Erf, z);
    let sum = d.two(ElementOp::Add, erf, one);
    let y = d.two(ElementOp::Mul, x, sum);
    let y = d.two(ElementOp::Mul, y, half);
    let y = d.b.cast(y, DType::BF16);
    d.store(y, &[0, n as isize, 1]);
    let (kernel, geometry) = d.map();
    let epilogue = Epilogue { kernel, sums: 0, reads: 2, writes: 1, scalars: 0 };
    let bare = Contraction::unfused(DType::BF16, Precision::Full);
    let mut sizes = ContractionGeometry::unfused(product_of(1, [n, n, n], transposed));
    sizes.epilogue = Some(Box::new(tiles(geometry)));
    let contraction = Contraction { epilogue: Some(Box::new(epilogue)), ..bare };
    (Kernel::Contraction(contraction), Geometry::Contraction(Box::new(sizes)))
}

/// Golden GEMV with an epilogue: `silu(x·wᵀ + bias)` of one row of bf16 by 5,632 rows of weights.
pub(super) fn product_of_one_row() -> (Kernel, Geometry) {
    let (n, k) = (5632, 2048);
    let mut d = Draft::new(false, &[1, n], 0);
    let (sums, bias) = (d.load(DType::F32, &[n as isize, 1]), d.load(DType::BF16, &[0, 1]));
    let bias = d.b.cast(bias, DType::F32);
    let x = d.two(ElementOp::Add, sums, bias);
    let gate = d.one(ElementOp::Sigmoid, x);
    let y = d.two(ElementOp::Mul, x, gate);
    let y = d.b.cast(y, DType::BF16);
    d.store(y, &[n as isize, 1]);
    let (kernel, geometry) = d.map();
    let epilogue = Epilogue { kernel, sums: 0, reads: 2, writes: 1, scalars: 0 };
    let product = MatmulGeometry { batch: vec![], ..product_of(1, [1, n, k], true) };
    let mut sizes = ContractionGeometry::unfused(product);
    sizes.epilogue = Some(Box::new(tiles(geometry)));
    let bare = Contraction::unfused(DType::BF16, Precision::Full);
    let contraction = Contraction { epilogue: Some(Box::new(epilogue)), ..bare };
    (Kernel::Contraction(contraction), Geometry::Contraction(Box::new(sizes)))
}

/// Golden grouped GEMM: queries, keys and values of 4,096 rows, three products in one launch.
pub(super) fn three_products() -> (Kernel, Geometry) {
    let sizes =
        || Geometry::Contraction(Box::new(ContractionGeometry::unfused(product_of(1, [4096, 1024, 1024], true))));
    let kernel = Kernel::Contraction(Contraction::unfused(DType::BF16, Precision::Full));
    let part = GroupPart { kernel: 0, reads: 2, writes: 1, scalars: 0 };
    (Kernel::Group { kernels: vec![kernel], parts: vec![part; 3] }, Geometry::Group((0..3).map(|_| sizes()).collect()))
}

/// Mask of attention scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Masked {
    /// No mask: each row sees all keys.
    None,
    /// A mask that is an operand, which is added to the scores.
    Added,
    /// Causal mask: row `i` sees keys 0 to `i`.
    Causal,
}

/// Golden flash attention: `softmax(q·kᵀ/8, masked)·v`, as the planner builds it.
pub(crate) fn attention(heads: usize, [m, n, d]: [usize; 3], dtype: DType, masked: Masked) -> (Kernel, Geometry) {
    let added = |of: &mut Draft, scaled: NodeId| {
        let mask = of.load(dtype, &[0, n as isize, 1]);
        let mask = of.b.cast(mask, DType::F32);
        of.two(ElementOp::Add, scaled, mask)
    };
    let seen = |of: &mut Draft, scaled: NodeId| {
        let [row, key] = [[0, 1, 0], [0, 0, 1]].map(|steps| {
            let access = of.access(DType::F32, &steps, false);
            let index = of.b.node(Node::Index { access, dtype: DType::U32 });
            of.b.cast(index, DType::F32)
        });
        let seen = of.two(ElementOp::Le, key, row);
        let hidden = of.number(f64::NEG_INFINITY);
        of.b.element(ElementOp::Where, &[seen, scaled, hidden])
    };
    match masked {
        Masked::None => masked_attention(heads, [m, n, d], dtype, (1, &|_, scaled| scaled)),
        Masked::Added => masked_attention(heads, [m, n, d], dtype, (2, &added)),
        Masked::Causal => masked_attention(heads, [m, n, d], dtype, (1, &seen)),
    }
}

/// Function that applies a mask to a score.
type Mask<'a> = &'a dyn Fn(&mut Draft, NodeId) -> NodeId;

/// Builds attention with a mask; the scores' body has `reads` operands.
fn masked_attention(
    heads: usize,
    [m, n, d]: [usize; 3],
    dtype: DType,
    (reads, mask): (u16, Mask),
) -> (Kernel, Geometry) {
    let lines = [(m * n) as isize, n as isize, 1];
    let mut of = Draft::new(false, &[heads, m, n], 0);
    let sums = of.load(DType::F32, &lines);
    let eighth = of.number(0.125);
    let scaled = of.two(ElementOp::Mul, sums, eighth);
    let score = mask(&mut of, scaled);
    of.store(score, &lines);
    let (kernel, scored) = of.map();
    let scores = Epilogue { kernel, sums: 0, reads, writes: 1, scalars: 0 };
    let precision = if dtype == DType::F32 { Precision::Tf32 } else { Precision::Full };
    let bare = || Contraction::unfused(dtype, precision);
    let inner =
        Inner { product: Contraction { epilogue: Some(Box::new(scores)), ..bare() }, sums: 0, dtype: DType::F32 };
    let mut of = Draft::new(false, &[heads, m, n], 2);
    let x = of.load(DType::F32, &lines);
    let max = of.b.fold(Monoid::Max, x);
    let difference = of.two(ElementOp::Sub, x, max);
    let e = of.one(ElementOp::Exp, difference);
    let sum = of.b.fold(Monoid::Sum, e);
    let weight = of.two(ElementOp::Div, e, sum);
    let weight = of.b.cast(weight, dtype);
    of.store(weight, &lines);
    let (kernel, weights) = of.rows(Orientation::InnerAxis);
    let prologue = Prologue { kernel, order: FactorOrder::Own, operands: 0, scalars: 0, inner: Some(Box::new(inner)) };
    let mut of_inner = ContractionGeometry::unfused(product_of(heads, [m, n, d], true));
    of_inner.epilogue = Some(Box::new(tiles(scored)));
    let mut sizes = ContractionGeometry::unfused(product_of(heads, [m, d, n], false));
    sizes.product.batch[0].1 = (m * n) as isize;
    sizes.product.reach[0] = None;
    (sizes.factors[0], sizes.inner) = (Some(Box::new(tiles(weights))), Some(Box::new(of_inner)));
    let contraction = Contraction { factors: [Some(Box::new(prologue)), None], ..bare() };
    (Kernel::Contraction(contraction), Geometry::Contraction(Box::new(sizes)))
}

/// Golden convolution: 3 × 3 windows of 16 images of 8 channels, by 64 filters.
pub(super) fn convolution(dtype: DType, precision: Precision) -> (Kernel, Geometry) {
    let (images, channels, side, out) = (16, 8, 16, 14);
    let (m, n, k) = (64, out * out, 9 * channels);
    let mut of = Draft::new(false, &[images, channels, 3, 3, out, out], 0);
    let (row, plane) = (side as isize, (side * side) as isize);
    let x = of.load(dtype, &[channels as isize * plane, plane, row, 1, row, 1]);
    let own = [k * n, 9 * n, 3 * n, n, out, 1].map(|s| s as isize);
    of.store(x, &own);
    let (kernel, geometry) = of.map();
    let windows = Prologue { kernel, order: FactorOrder::Own, operands: 1, scalars: 0, inner: None };
    let mut sizes = ContractionGeometry::unfused(product_of(images, [m, n, k], false));
    sizes.product.batch[0].1 = 0;
    sizes.product.reach = [Some((0, m * k - 1)), None];
    sizes.factors[1] = Some(Box::new(TileGeometry { rows: 1, columns: 4, ..tiles(geometry) }));
    let contraction =
        Contraction { factors: [None, Some(Box::new(windows))], ..Contraction::unfused(dtype, precision) };
    (Kernel::Contraction(contraction), Geometry::Contraction(Box::new(sizes)))
}

/// Golden unfused GEMM: a product of bf16 with contiguous terms on the left and contiguous columns on the right.
fn bare(m: usize, n: usize, k: usize) -> (Kernel, Geometry) {
    let product = MatmulGeometry {
        batch: vec![],
        m,
        n,
        k,
        a: (0, k as isize, 1),
        b: (0, n as isize, 1),
        reach: [Some((0, m * k - 1)), Some((0, k * n - 1))],
    };
    let kernel = Kernel::Contraction(Contraction::unfused(DType::BF16, Precision::Full));
    (kernel, Geometry::Contraction(Box::new(ContractionGeometry::unfused(product))))
}

#[test]
fn factors_whose_rows_begin_anywhere_are_copied_before_they_are_fed() {
    let fed = |s: &String| s.contains("barrier_expect(");
    let copies = |product: &(Kernel, Geometry)| {
        let all = sources(product);
        assert!(all.last().is_some_and(fed), "the product is fed");
        all.len() - 1
    };
    assert_eq!(copies(&bare(8192, 768, 50257)), 1, "terms that are neighbours, in odd numbers");
    assert_eq!(copies(&bare(768, 50257, 8192)), 1, "columns in odd numbers");
    assert_eq!(copies(&bare(8192, 50257, 768)), 1, "the same, of few terms");
    assert_eq!(sources(&bare(8, 50257, 768)).iter().filter(|s| fed(s)).count(), 0, "few rows read them once");
}

#[test]
fn a_pitch_that_does_not_fit_32_bits_is_none_of_a_copy() {
    let far = 3isize << 30;
    for dtype in [DType::F32, DType::I64] {
        let copied = |a, b| {
            let product = MatmulGeometry { batch: vec![], a, b, ..product_of(1, [32, 32, 64], false) };
            let kernel = Kernel::Contraction(Contraction::unfused(dtype, Precision::Full));
            let all = sources(&(kernel, Geometry::Contraction(Box::new(ContractionGeometry::unfused(product)))));
            ["pitch0", "pitch1"].map(|name| all.iter().any(|s| s.contains(name)))
        };
        assert_eq!(copied((0, 64, 1), (0, 32, 1)), [true, true]);
        assert_eq!(copied((0, far, 1), (0, 32, 1)), [false, true], "rows far apart");
        assert_eq!(copied((0, 64, 1), (0, far, 1)), [true, false], "terms far apart");
    }
}

#[test]
fn tiles_count_rows_columns_and_terms_in_32_bits() {
    let compiler = Compiler::new(Arc::new(Absent::new()), Box::new(CudaPrinter), "cuda:0".into());
    let told = |sizes| {
        let product = MatmulGeometry { batch: vec![], ..product_of(1, sizes, false) };
        let kernel = Kernel::Contraction(Contraction::unfused(DType::I32, Precision::Ordered));
        let plan = thalweg_gpu::plan(
            &kernel,
            &Geometry::Contraction(Box::new(ContractionGeometry::unfused(product))),
            &compiler,
        );
        plan.err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(told([1 << 30, 16, 16]), "");
    for sizes in [[1 << 31, 16, 16], [16, 3 << 30, 16], [16, 16, 1 << 32]] {
        assert!(told(sizes).contains("too many rows, columns or terms"), "{}", told(sizes));
    }
}

/// Golden split-K GEMM: `relu(a·b + bias)` of f32 in 16 tiles of 64 × 64, whose terms eight blocks divide.
pub(super) fn product_of_few_tiles() -> (Kernel, Geometry) {
    let (m, n, k) = (128, 512, 1024);
    let mut d = Draft::new(false, &[1, m, n], 0);
    let sums = d.load(DType::F32, &[0, n as isize, 1]);
    let bias = d.load(DType::F32, &[0, 0, 1]);
    let x = d.two(ElementOp::Add, sums, bias);
    let y = d.one(ElementOp::Relu, x);
    d.store(y, &[0, n as isize, 1]);
    let (kernel, geometry) = d.map();
    let epilogue = Epilogue { kernel, reads: 2, writes: 1, sums: 0, scalars: 0 };
    let product = product_of(1, [m, n, k], true);
    let sizes =
        ContractionGeometry { epilogue: Some(Box::new(tiles(geometry))), ..ContractionGeometry::unfused(product) };
    let bare = Contraction::unfused(DType::F32, Precision::Full);
    let contraction = Contraction { epilogue: Some(Box::new(epilogue)), ..bare };
    (Kernel::Contraction(contraction), Geometry::Contraction(Box::new(sizes)))
}
