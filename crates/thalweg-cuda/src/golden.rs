//! Golden sources: generated code of representative kernels, kept as readable text (`golden/*.cu`).
//!
//! A change of the code generator shows as a change of these files; `THALWEG_BLESS=1 cargo test -p thalweg-cuda golden`
//! writes them anew. The prelude, which all share, is left out. Where there is an NVRTC, each source is compiled for
//! the relevant chips.

mod contractions;
mod foreign;

pub(crate) use contractions::{Masked, attention};
use contractions::{
    convolution, product_of, product_of_few_tiles, product_of_one_row, product_with_gelu, products, three_products,
};

use crate::driver::{Absent, nvrtc};
use crate::generic;
use crate::prelude::PRELUDE;
use crate::render::CudaPrinter;
use crate::render::generic::GENERIC;
use crate::render::{BY_BLOCKS, EXCHANGE, ONLINE, SCANNED, program};
use crate::render::{CONTRACTIONS, TMA_CONTRACTIONS};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use thalweg_gpu::kernels::merge_sources;
use thalweg_gpu::runtime::Compiler;
use thalweg_gpu::{Plan, Skeleton, plan};
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid, RandomKind, Scalar, ScanOp, ScatterOp, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Along, BodyBuilder, Computed, Contraction, ContractionGeometry, Geometry,
    GroupPart, IndexMap, Kernel, MapGeometry, Node, NodeId, Orientation, Precision, RowGeometry, ScatterGeometry,
    ScatterOrder, random::random_node,
};

/// Body of a golden kernel under construction, with the geometry of its accesses.
pub(crate) struct Draft {
    pub(crate) b: BodyBuilder,
    at: Vec<AccessGeometry>,
    extents: Vec<usize>,
    kept: usize,
}

impl Draft {
    /// Begins a body over points of these extents, of which the first `kept` enumerate rows.
    pub(crate) fn new(strict: bool, extents: &[usize], kept: usize) -> Draft {
        Draft { b: BodyBuilder::new(strict), at: vec![], extents: extents.to_vec(), kept }
    }

    /// Adds a strided access of the next operand (without an operand where `operand` is false).
    pub(crate) fn access(&mut self, dtype: DType, strides: &[isize], operand: bool) -> u16 {
        let class = match strides.last() {
            Some(1) => AccessClass::Contiguous,
            Some(0) => AccessClass::Uniform,
            _ => AccessClass::Strided,
        };
        let per_row = strides.len() > self.kept && strides[self.kept..].iter().all(|&s| s == 0) && self.kept > 0;
        let mut own = [0; MAX_RANK];
        own[..strides.len()].copy_from_slice(strides);
        let high: isize = strides.iter().zip(&self.extents).map(|(s, n)| s * (*n as isize - 1)).sum();
        let reach = operand.then_some((0, high as usize));
        self.push(
            Access { operand: operand.then(|| self.operands()), dtype, class, per_row },
            AccessGeometry { base: 0, strides: own, map: None, reach, distinct: high as usize + 1 },
        )
    }

    fn push(&mut self, access: Access, at: AccessGeometry) -> u16 {
        self.at.push(at);
        self.b.access(access)
    }

    fn operands(&self) -> u16 {
        self.b.body().accesses.iter().filter(|a| a.operand.is_some()).count() as u16
    }

    /// Adds an access of the next operand through an index map, whose highest offset is `high`.
    #[cfg(feature = "emulate")]
    pub(crate) fn mapped(&mut self, dtype: DType, map: IndexMap, high: usize) -> u16 {
        let access = Access { operand: Some(self.operands()), dtype, class: AccessClass::Mapped, per_row: false };
        let (strides, map) = ([0; MAX_RANK], Some(Arc::new(map)));
        self.push(access, AccessGeometry { base: 0, strides, map, reach: Some((0, high)), distinct: high + 1 })
    }

    /// Loads from the next operand by strides that may be negative, with its first element at `base`.
    #[cfg(feature = "emulate")]
    pub(crate) fn flipped(&mut self, dtype: DType, strides: &[isize], base: isize) -> NodeId {
        let class = AccessClass::of_step(strides[strides.len() - 1]);
        let access = Access { operand: Some(self.operands()), dtype, class, per_row: false };
        let mut own = [0; MAX_RANK];
        own[..strides.len()].copy_from_slice(strides);
        let ends = strides.iter().zip(&self.extents).map(|(s, n)| s * (*n as isize - 1));
        let high = (base + ends.filter(|e| *e > 0).sum::<isize>()) as usize;
        let at = AccessGeometry { base, strides: own, map: None, reach: Some((0, high)), distinct: high + 1 };
        let access = self.push(access, at);
        self.b.node(Node::Load { access })
    }

    pub(crate) fn load(&mut self, dtype: DType, strides: &[isize]) -> NodeId {
        let access = self.access(dtype, strides, true);
        self.b.node(Node::Load { access })
    }

    pub(crate) fn store(&mut self, node: NodeId, strides: &[isize]) {
        let dtype = self.b.body().dtype(node);
        let access = self.access(dtype, strides, true);
        self.b.store(node, access);
    }

    pub(crate) fn number(&mut self, v: f64) -> NodeId {
        self.b.constant(Scalar::Float(v), DType::F32)
    }

    pub(crate) fn one(&mut self, op: ElementOp, x: NodeId) -> NodeId {
        self.b.element(op, &[x])
    }

    pub(crate) fn two(&mut self, op: ElementOp, x: NodeId, y: NodeId) -> NodeId {
        self.b.element(op, &[x, y])
    }

    pub(crate) fn map(self) -> (Kernel, Geometry) {
        let geometry = MapGeometry { extents: self.extents, accesses: self.at };
        (Kernel::Map(self.b.finish()), Geometry::Map(geometry))
    }

    pub(crate) fn rows(self, orientation: Orientation) -> (Kernel, Geometry) {
        let geometry = RowGeometry { extents: self.extents, kept: self.kept, accesses: self.at };
        (Kernel::Rows { body: self.b.finish(), orientation }, Geometry::Rows(geometry))
    }
}

/// Golden map: GELU, `x·(erf(x/√2) + 1)/2`, of `n` elements.
fn gelu(dtype: DType, n: usize) -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[n], 0);
    let x = d.load(dtype, &[1]);
    let x = d.b.cast(x, DType::F32);
    let (root, one, half) = (d.number(std::f64::consts::FRAC_1_SQRT_2), d.number(1.0), d.number(0.5));
    let z = d.two(ElementOp::Mul, x, root);
    let erf = d.one(ElementOp::Erf, z);
    let sum = d.two(ElementOp::Add, erf, one);
    let y = d.two(ElementOp::Mul, x, sum);
    let y = d.two(ElementOp::Mul, y, half);
    let y = d.b.cast(y, dtype);
    d.store(y, &[1]);
    d.map()
}

/// Golden map: `xᵀ + z` of a matrix `x` and a vector `z`.
fn transposed() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[1000, 600], 0);
    let x = d.load(DType::F32, &[1, 1000]);
    let z = d.load(DType::F32, &[0, 1]);
    let y = d.two(ElementOp::Add, x, z);
    d.store(y, &[600, 1]);
    d.map()
}

/// Golden map: a matrix padded with a border of a scalar, times 2.
fn padded() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[102, 66], 0);
    let map = IndexMap::new(View::contiguous(Shape::new(&[100, 64]))).pad(&[(1, 1), (1, 1)]);
    let at = AccessGeometry {
        base: 0,
        strides: [0; MAX_RANK],
        reach: map.reach(),
        distinct: map.distinct(),
        map: Some(Arc::new(map)),
    };
    let access = Access { operand: Some(0), dtype: DType::F32, class: AccessClass::Mapped, per_row: false };
    let access = d.push(access, at);
    let x = d.b.node(Node::Load { access });
    let inside = d.b.node(Node::Valid { access });
    let border = d.b.scalar(0, DType::F32);
    let x = d.b.element(ElementOp::Where, &[inside, x, border]);
    let two = d.number(2.0);
    let y = d.two(ElementOp::Mul, x, two);
    d.store(y, &[66, 1]);
    d.map()
}

/// Golden map: rows of a table gathered by an index, `y[i, j] = x[index[i], j]`.
fn gathered() -> (Kernel, Geometry) {
    let (n, columns, rows) = (4096, 256, 50_000);
    let mut d = Draft::new(false, &[n, columns], 0);
    let from = d.access(DType::F32, &[0, 1], true);
    d.at[0].reach = Some((0, rows * columns - 1));
    let index = d.load(DType::I64, &[1, 0]);
    let whole = |d: &mut Draft, v: usize| d.b.constant(Scalar::Int(v as i64), DType::I64);
    let (zero, end, step) = (whole(&mut d, 0), whole(&mut d, rows), whole(&mut d, columns));
    let (low, high) = (d.two(ElementOp::Ge, index, zero), d.two(ElementOp::Lt, index, end));
    let inside = d.two(ElementOp::And, low, high);
    let offset = d.two(ElementOp::Mul, index, step);
    let x = d.b.node(Node::Gather { access: from, offset, inside });
    d.store(x, &[columns as isize, 1]);
    d.map()
}

/// Golden row kernel: softmax along the inner axis or (`columns`) along the outer axis.
fn softmax(columns: bool) -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[8192, if columns { 8192 } else { 4096 }], 1);
    let strides = if columns { [1, 8192] } else { [4096, 1] };
    let x = d.load(DType::F32, &strides);
    let most = d.b.fold(Monoid::Max, x);
    let centred = d.two(ElementOp::Sub, x, most);
    let e = d.one(ElementOp::Exp, centred);
    let sum = d.b.fold(Monoid::Sum, e);
    let y = d.two(ElementOp::Div, e, sum);
    d.store(y, &strides);
    d.rows(if columns { Orientation::OuterAxis } else { Orientation::InnerAxis })
}

/// Golden row kernel: squared distances of many points from few, in the pairwise strategy.
fn distances() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[200_000, 64, 16], 2);
    let (x, y) = (d.load(DType::F32, &[16, 0, 1]), d.load(DType::F32, &[0, 16, 1]));
    let apart = d.two(ElementOp::Sub, x, y);
    let square = d.one(ElementOp::Square, apart);
    let sum = d.b.fold(Monoid::Sum, square);
    d.store(sum, &[64, 1, 0]);
    d.rows(Orientation::InnerAxis)
}

/// Golden row kernel: layer normalization of short bf16 rows, a warp each, with scale and shift.
fn layernorm() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[8192, 768], 1);
    let wide = |d: &mut Draft, strides: &[isize]| {
        let x = d.load(DType::BF16, strides);
        d.b.cast(x, DType::F32)
    };
    let (x, g, b) = (wide(&mut d, &[768, 1]), wide(&mut d, &[0, 1]), wide(&mut d, &[0, 1]));
    let (count, epsilon) = (d.number(1.0 / 768.0), d.number(1e-5));
    let sum = d.b.fold(Monoid::Sum, x);
    let mean = d.two(ElementOp::Mul, sum, count);
    let centred = d.two(ElementOp::Sub, x, mean);
    let square = d.two(ElementOp::Mul, centred, centred);
    let squares = d.b.fold(Monoid::Sum, square);
    let variance = d.two(ElementOp::Mul, squares, count);
    let variance = d.two(ElementOp::Add, variance, epsilon);
    let factor = d.one(ElementOp::Rsqrt, variance);
    let y = d.two(ElementOp::Mul, centred, factor);
    let y = d.two(ElementOp::Mul, y, g);
    let y = d.two(ElementOp::Add, y, b);
    let y = d.b.cast(y, DType::BF16);
    d.store(y, &[768, 1]);
    d.rows(Orientation::InnerAxis)
}

/// Golden row kernel: an operand that is constant along rows and is read by two passes, for `sum(x)` and whether `x` is
/// infinite.
fn same_along_rows() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[1000, 8], 1);
    let x = d.load(DType::F32, &[1, 0]);
    let sum = d.b.fold(Monoid::Sum, x);
    let infinite = d.one(ElementOp::IsInf, x);
    d.store(infinite, &[8, 1]);
    d.store(sum, &[8, 1]);
    d.rows(Orientation::InnerAxis)
}

/// Golden row kernel: sums over the last dimension, or the first (`columns`).
fn sum(strict: bool, [rows, n]: [usize; 2], columns: bool) -> (Kernel, Geometry) {
    let mut d = Draft::new(strict, &[rows, n], 1);
    let x = d.load(DType::F32, &if columns { [1, rows as isize] } else { [n as isize, 1] });
    let sum = d.b.fold(Monoid::Sum, x);
    d.store(sum, &[1, 0]);
    d.rows(if columns { Orientation::OuterAxis } else { Orientation::InnerAxis })
}

/// Golden row kernel: `1 / (1 + Σeˣ)` along rows, with a scan from the end.
fn running(rows: usize, n: usize) -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[rows, n], 1);
    let x = d.load(DType::F32, &[n as isize, 1]);
    let e = d.one(ElementOp::Exp, x);
    let sum = d.b.scan(ScanOp::Sum, true, e);
    let one = d.number(1.0);
    let sum = d.two(ElementOp::Add, sum, one);
    let y = d.one(ElementOp::Recip, sum);
    d.store(y, &[n as isize, 1]);
    d.rows(Orientation::InnerAxis)
}

fn scanned(op: ScanOp) -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[64, 10_000], 1);
    let x = d.load(DType::F32, &[10_000, 1]);
    let y = d.b.scan(op, false, x);
    d.store(y, &[10_000, 1]);
    d.rows(Orientation::InnerAxis)
}

/// Golden sort: indices of the sorted elements of one long row.
fn argsort_of_all() -> (Kernel, Geometry) {
    let n = 1 << 22;
    let mut d = Draft::new(false, &[1, n], 1);
    let x = d.load(DType::F32, &[n as isize, 1]);
    let y = d.b.scan(ScanOp::Argsort, false, x);
    d.store(y, &[n as isize, 1]);
    d.rows(Orientation::InnerAxis)
}

/// Golden scatter: `x[index[i], j] += v[i, j]`.
fn scattered((dtype, ordered): (DType, bool), columns: usize) -> (Kernel, Geometry) {
    // Few elements with many values each where the order is free: runs in chunks.
    let order = if ordered { ScatterOrder::Indices } else { ScatterOrder::Fixed };
    let (rows, n, step) = (if ordered { 1000 } else { 10 }, 5000, columns as isize);
    let geometry = ScatterGeometry {
        axis: 0,
        outer: vec![],
        inner: vec![(columns, [1, 0, 1, 1])],
        n,
        size: rows,
        steps: [step, 1, step, step],
        base: [0; 4],
        inputs: [None, None],
    };
    (Kernel::Scatter { op: ScatterOp::Add, dtype, order, inputs: [None, None] }, Geometry::Scatter(geometry))
}

/// Golden scatter along the last axis, whose sums are in any order: rows of a sparse matrix.
fn segments() -> (Kernel, Geometry) {
    let (dtype, order) = (DType::F64, ScatterOrder::Any);
    let geometry = ScatterGeometry {
        axis: 0,
        outer: vec![],
        inner: vec![],
        n: 4_000_000,
        size: 200_000,
        steps: [1; 4],
        base: [0; 4],
        inputs: [None, None],
    };
    (Kernel::Scatter { op: ScatterOp::Add, dtype, order, inputs: [None, None] }, Geometry::Scatter(geometry))
}

/// Golden histogram: number of a vector's elements in each unit interval below 100.
fn counted() -> (Kernel, Geometry) {
    let n = 1 << 24;
    let mut d = Draft::new(false, &[n], 0);
    let x = d.load(DType::F32, &[1]);
    let bin = d.one(ElementOp::Floor, x);
    let bin = d.b.cast(bin, DType::I64);
    d.store(bin, &[1]);
    let (kernel, index) = d.map();
    let geometry = ScatterGeometry {
        axis: 0,
        outer: vec![],
        inner: vec![],
        n,
        size: 100,
        steps: [1, 1, 0, 1],
        base: [0; 4],
        inputs: [Some(Box::new(index)), None],
    };
    let index = Some(Box::new(Computed { kernel, operands: 1, scalars: 0 }));
    (
        Kernel::Scatter { op: ScatterOp::Add, dtype: DType::I64, order: ScatterOrder::Indices, inputs: [index, None] },
        Geometry::Scatter(geometry),
    )
}

fn normal() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[1 << 16], 0);
    let at = d.access(DType::U32, &[1], false);
    let low = d.b.node(Node::Index { access: at, dtype: DType::U32 });
    let high = d.b.constant(Scalar::Int(0), DType::U32);
    let key = [d.b.scalar(0, DType::U32), d.b.scalar(1, DType::U32)];
    let x = random_node(&mut d.b, RandomKind::Normal, DType::F32, [low, high], key);
    d.store(x, &[1]);
    d.map()
}

/// Golden row kernel: variances of long rows, with two passes fused to an online reduction.
fn variance() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[4, 1 << 22], 1);
    let x = d.load(DType::F32, &[1 << 22, 1]);
    let n = d.b.scalar(0, DType::F32);
    let sum = d.b.fold(Monoid::Sum, x);
    let mean = d.two(ElementOp::Div, sum, n);
    let away = d.two(ElementOp::Sub, x, mean);
    let square = d.one(ElementOp::Square, away);
    let squares = d.b.fold(Monoid::Sum, square);
    let variance = d.two(ElementOp::Div, squares, n);
    d.store(variance, &[1, 0]);
    d.rows(Orientation::InnerAxis)
}

/// All golden kernels, by the names of their files.
fn kernels() -> Vec<(&'static str, (Kernel, Geometry))> {
    vec![
        ("gelu_f32", gelu(DType::F32, 32 << 20)),
        ("gelu_bf16", gelu(DType::BF16, 1 << 20)),
        ("biased", biased()),
        ("transposed", transposed()),
        ("padded", padded()),
        ("gathered", gathered()),
        ("softmax", softmax(false)),
        ("softmax_of_columns", softmax(true)),
        ("layernorm_bf16", layernorm()),
        ("same_along_rows", same_along_rows()),
        ("distances", distances()),
        ("sum_of_long_rows", sum(false, [4, 1 << 22], false)),
        ("variance_of_long_rows", variance()),
        ("sum_of_columns", sum(false, [512, 1 << 14], true)),
        ("sum_in_order", sum(true, [512, 3000], false)),
        ("cumsum", scanned(ScanOp::Sum)),
        ("cumsum_between_maps", running(1, 1 << 26)),
        ("sort", scanned(ScanOp::Sort)),
        ("argsort_of_all", argsort_of_all()),
        ("scatter_add", scattered((DType::F32, true), 64)),
        ("scatter_add_in_chunks", scattered((DType::F32, false), 64)),
        ("scatter_add_i64", scattered((DType::I64, true), 64)),
        ("scatter_add_in_few_places", counted()),
        ("scatter_add_aggregated", segments()),
        ("scatter_add_of_many_lines", scattered((DType::F32, true), 1 << 17)),
        ("products_bf16", products()),
        ("product_gelu_bf16", product_with_gelu(4096, false)),
        ("product_dealt_bf16", product_with_gelu(4096, true)),
        ("product_of_one_row_bf16", product_of_one_row()),
        ("product_of_few_tiles", product_of_few_tiles()),
        ("three_products_bf16", three_products()),
        ("product_of_odd_width_bf16", {
            let sizes = ContractionGeometry::unfused(product_of(1, [8192, 50257, 768], true));
            let kernel = Kernel::Contraction(Contraction::unfused(DType::BF16, Precision::Full));
            (kernel, Geometry::Contraction(Box::new(sizes)))
        }),
        ("attention_bf16", attention(64, [2048, 2048, 64], DType::BF16, Masked::Added)),
        ("attention_tf32", attention(64, [2048, 2048, 64], DType::F32, Masked::Added)),
        ("attention_full_bf16", attention(64, [2048, 2048, 64], DType::BF16, Masked::None)),
        ("attention_causal_bf16", attention(64, [2048, 2048, 64], DType::BF16, Masked::Causal)),
        ("attention_long_bf16", attention(32, [8192, 8192, 128], DType::BF16, Masked::Causal)),
        ("convolution_tf32", convolution(DType::F32, Precision::Tf32)),
        ("convolution_bf16", convolution(DType::BF16, Precision::Full)),
        ("normal", normal()),
        ("loop_mandelbrot", mandelbrot()),
        ("recurrence", combined(Along::Scan)),
        ("fold_by_two", combined(Along::Fold)),
        ("users_own", foreign::transposed()),
    ]
}

/// Golden map with data-dependent loops: the number of iterations for which `z² + c` stays inside, plus that of another
/// loop. Its arithmetic is contracted.
fn mandelbrot() -> (Kernel, Geometry) {
    let turns = "loop{200;f32,f32;k0:f32,k0:f32,k0:i32;c0,c1,mul:0:0,mul:1:1,add:2:3,k40800000:f32,le:4:5,sub:2:3,a0,add:7:8,\
                 add:0:0,mul:10:1,a1,add:11:12,c2,k1:i32,add:14:15;6;9,13,16}";
    let of = thalweg_ir::Loop::parse(turns).expect("a loop");
    let mut d = Draft::new(false, &[1 << 20], 0);
    let (x, y) = (d.load(DType::F32, &[1]), d.load(DType::F32, &[1]));
    let half = d.number(0.5);
    let x = d.two(ElementOp::Mul, x, half);
    let of = d.b.looped(of, &[x, y]);
    let n = d.b.node(Node::Looped { of, number: 2, dtype: DType::I32 });
    d.store(n, &[1]);
    d.map()
}

/// Golden row kernel: a linear recurrence along rows, or its last element for each row. The user-defined combine is a
/// launch between two passes.
fn combined(along: Along) -> (Kernel, Geometry) {
    let of = "loop{1;f32,f32;k3f800000:f32,k0:f32;k1:bool,c0,c1,a0,a1,mul:1:3,mul:3:2,add:6:4;0;5,7}";
    let of = thalweg_ir::Loop::parse(of).expect("a combine");
    let mut d = Draft::new(false, &[64, 4096], 1);
    let (a, b) = (d.load(DType::F32, &[4096, 1]), d.load(DType::F32, &[4096, 1]));
    let a = d.b.element(ElementOp::Sigmoid, &[a]);
    let h = d.b.combined(of, along, &[a, b], 1);
    let y = d.two(ElementOp::Mul, h, b);
    d.store(y, &[4096, 1]);
    d.rows(Orientation::InnerAxis)
}

/// Sources of the generic kernels, with the names of their files.
fn generic() -> Vec<(&'static str, String)> {
    let compiler = Compiler::new(Arc::new(Absent::new()), Box::new(CudaPrinter), "cuda:0".into());
    let texts = generic::units(&compiler).map(|u| compiler.text(&u));
    ["generic_narrow", "generic_functions", "generic_wide", "generic_double"].into_iter().zip(texts).collect()
}

/// Sources of all kernels, with the names of their files.
fn all() -> Vec<(&'static str, Vec<String>)> {
    let own = kernels().into_iter().map(|(name, kernel)| (name, sources(&kernel)));
    own.chain(generic().into_iter().map(|(name, text)| (name, vec![text]))).collect()
}

/// Distinct sources of a kernel's launches, in the order in which they run.
fn sources((kernel, geometry): &(Kernel, Geometry)) -> Vec<String> {
    let compiler = Compiler::new(Arc::new(Absent::new()), Box::new(CudaPrinter), "cuda:0".into());
    let mut all: Vec<String> = vec![];
    for draft in plan(kernel, geometry, &compiler).unwrap().stages {
        let text = compiler.text(&compiler.unit(&draft.kernel));
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

/// Text of the distinct programs (GPU IR) of a kernel.
fn programs((kernel, geometry): &(Kernel, Geometry)) -> String {
    let compiler = Compiler::new(Arc::new(Absent::new()), Box::new(CudaPrinter), "cuda:0".into());
    let stages = plan(kernel, geometry, &compiler).unwrap().stages;
    let mut all: Vec<String> = stages.iter().map(|s| program(&s.kernel).expect("it is no text").to_string()).collect();
    all.dedup();
    all.join("\n")
}

/// Golden map: a bias of 1,024 elements added to rows, the example of docs/gpu.md.
fn biased() -> (Kernel, Geometry) {
    let mut d = Draft::new(false, &[1 << 15, 1024], 0);
    let (x, b) = (d.load(DType::F32, &[1024, 1]), d.load(DType::F32, &[0, 1]));
    let y = d.two(ElementOp::Add, x, b);
    d.store(y, &[1024, 1]);
    d.map()
}

/// Part of a source that it does not share with other sources.
fn own(source: &str) -> String {
    // Texts that contain other shared texts are removed first.
    let shared = [PRELUDE, TMA_CONTRACTIONS, CONTRACTIONS, SCANNED, BY_BLOCKS, EXCHANGE, GENERIC, ONLINE];
    shared.iter().fold(source.to_owned(), |own, part| own.replacen(part, "", 1))
}

#[test]
fn golden_sources_are_as_they_were() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden");
    let bless = thalweg_runtime::environment::BLESS.get().is_some();
    let mut changed = vec![];
    let own = |sources: Vec<String>| sources.iter().map(|s| own(s)).collect::<Vec<_>>().join("\n");
    let texts = all().into_iter().map(|(name, sources)| (format!("{name}.cu"), own(sources)));
    let shown =
        [("biased", biased()), ("softmax", softmax(false)), ("sum_of_long_rows", sum(false, [4, 1 << 22], false))];
    let shown = shown.iter().map(|(name, kernel)| (format!("{name}.ir"), programs(kernel)));
    for (name, text) in texts.chain(shown) {
        let file = folder.join(&name);
        if bless {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, text).unwrap();
        } else if std::fs::read_to_string(&file).unwrap_or_default() != text {
            changed.push(name);
        }
    }
    assert!(changed.is_empty(), "{changed:?} changed; THALWEG_BLESS=1 writes them anew, for `git diff` to show");
}

#[test]
fn a_launch_has_no_more_blocks_than_a_grid_may_have() {
    let compiler = Compiler::new(Arc::new(Absent::new()), Box::new(CudaPrinter), "cuda:0".into());
    let plan = |n: usize| {
        let (kernel, geometry) = gelu(DType::F32, n);
        plan(&kernel, &geometry, &compiler).map(|p| p.stages[0].grid[0])
    };
    let most = i32::MAX as usize;
    let each = (1usize << 30) / plan(1 << 30).unwrap() as usize;
    assert_eq!(plan(most * each).map_err(|e| e.to_string()), Ok(i32::MAX as u32));
    for more in [most + 1, 1 << 32, 1 << 34] {
        let why = plan(more * each).unwrap_err().to_string();
        assert!(why.contains("more than the 2147483647 blocks that a launch may have"), "{why}");
    }
}

/// Grouped launch of the kernels, each with so many reads, one write and no scalars.
fn group(all: &[((Kernel, Geometry), u32)]) -> (Kernel, Geometry) {
    let part =
        |(at, (_, reads)): (usize, &(_, u32))| GroupPart { kernel: at as u32, reads: *reads, writes: 1, scalars: 0 };
    let parts = all.iter().enumerate().map(part).collect();
    let kernels = all.iter().map(|((kernel, _), _)| kernel.clone()).collect();
    let geometries = all.iter().map(|((_, geometry), _)| geometry.clone()).collect();
    (Kernel::Group { kernels, parts }, Geometry::Group(geometries))
}

/// First block, place of the arguments, and class of each component of a plan's only launch, which is a group.
fn components(plan: &Plan) -> Vec<(u64, Arc<Skeleton>)> {
    let [draft] = &plan.stages[..] else { panic!("{} launches", plan.stages.len()) };
    let Skeleton::Group(class) = &*draft.kernel else { panic!("no group") };
    let heads = &draft.words[1..][..draft.words[0] as usize];
    heads.iter().map(|head| (head & ((1 << 52) - 1), class.parts[(head >> 52) as usize].clone())).collect()
}

#[test]
fn groups_with_classes_in_common_have_one_source() {
    let compiler = Compiler::new(Arc::new(Absent::new()), Box::new(CudaPrinter), "cuda:0".into());
    let [a, b, c] = [(gelu(DType::F32, 1000), 1), (gelu(DType::BF16, 1000), 1), (gelu(DType::F16, 1000), 1)];
    let rows = (sum(false, [64, 300], false), 1);
    let of = |all: &[((Kernel, Geometry), u32)]| {
        let (kernel, geometry) = group(all);
        plan(&kernel, &geometry, &compiler).unwrap()
    };
    let all = || {
        let longer = (gelu(DType::F32, 5000), 1);
        vec![
            of(&[a.clone(), b.clone()]),
            of(&[c.clone(), b.clone()]),
            of(&[c.clone(), longer]),
            of(&[a.clone(), rows.clone()]),
        ]
    };
    let (apart, mut merged) = (all(), all());
    merge_sources(&mut merged);
    let source = |plan: &Plan| plan.stages[0].kernel.clone();
    assert_eq!([1, 2].map(|i| source(&merged[i]) == source(&merged[0])), [true; 2]);
    assert_ne!(source(&merged[3]), source(&merged[0]), "its row kernel has shared memory");
    let Skeleton::Group(class) = &*source(&merged[0]) else { panic!("no group") };
    assert_eq!(class.parts.len(), 3);
    for (apart, merged) in apart.iter().zip(&merged) {
        assert_eq!(components(apart), components(merged), "a component has another class");
    }
}

#[test]
fn golden_sources_are_readable() {
    for (name, sources) in all() {
        for source in sources {
            for line in own(&source).lines() {
                assert_eq!(line.trim_end(), line, "{name}: spaces at the end");
            }
        }
    }
}

/// Compiles a source of `name` for a chip, and checks NVRTC's remarks on it.
fn compile_checked(name: &str, source: &str, sm: u32) {
    let compiled = nvrtc::remarks_for(sm, source);
    let (image, log) = compiled.unwrap_or_else(|why| panic!("{name} for sm_{sm}: {why}"));
    assert_eq!(&image[..4], b"\x7fELF", "{name} for sm_{sm}");
    // Remarks C75 report that multiplications by warpgroups are serialized.
    assert!(!log.contains("C75"), "{name} for sm_{sm}: {log}");
    // The cost of a spill depends on where it is; in the main loop of a contraction it is high.
    let spilled = log.contains("spill") && !log.contains(" 0 bytes spill stores");
    let tight = [" contraction(", " scanned(", " scan(", " generic("].iter().any(|name| source.contains(name));
    assert!(!spilled || !tight, "{name} for sm_{sm}: {log}");
}

#[test]
fn golden_sources_compile_for_every_chip() {
    let sms = match nvrtc::supported_sms() {
        Ok(sms) => sms,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let mut chips: Vec<u32> = [80, 90].into_iter().filter(|sm| sms.contains(sm)).chain(sms.last().copied()).collect();
    chips.dedup();
    let kernels = all();
    let sources = kernels.iter().flat_map(|(name, sources)| sources.iter().map(move |source| (name, source)));
    let cases: Vec<_> = sources.flat_map(|(name, source)| chips.iter().map(move |&sm| (name, source, sm))).collect();
    // A minute of one core: two threads share the cases.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, source, sm)) = cases.get(next.fetch_add(1, Relaxed)) {
                    compile_checked(name, source, *sm);
                }
            });
        }
    });
    eprintln!("compiled for {chips:?}");
}
