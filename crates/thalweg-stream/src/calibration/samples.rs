//! Sample kernels for calibration: each isolates the one operation that its constant is about.
//!
//! In: [`Sizes`], for a kind of device. Out: kernels with sizes and operands.

use std::sync::Arc;
use thalweg_fusion::Costs;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid, Scalar, ScanOp, ScatterOp, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, BodyBuilder, Contraction, ContractionGeometry, Geometry, IndexMap, Kernel,
    MapGeometry, MatmulGeometry, Node, NodeId, Orientation, Precision, RowGeometry, ScatterGeometry, ScatterOrder,
};
use thalweg_runtime::Throughput;

/// Minimum work of an arithmetic sample on a GPU, in nanoseconds of additions on all cores; it determines the number of
/// points.
const WAVE: f64 = 50.0;

/// Sizes of the calibration samples on a device.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of points of arithmetic samples. On a CPU they fit the first-level cache and still outweigh a launch; on
    /// a GPU they fill it several times.
    points: usize,
    /// Number of operations of the samples with a dependent chain.
    chain: usize,
    /// Number of repetitions of the sequence of functions.
    functions: usize,
    /// Number of points of samples that move elements.
    moved: usize,
    /// Number of rows, and of columns, of transposed matrices (`turned`); the same, and the row stride in elements, of
    /// those whose row stride is a multiple of 1,024 bytes (`conflicting`).
    turned: usize,
    conflicting: (usize, usize),
    /// Number of rows, and of points per row, of the samples with folds (`rows`), and number of folds of each point
    /// (`folds`).
    rows: [usize; 2],
    folds: usize,
    /// Number of rows of the sample with per-row arithmetic, and number of repetitions of that arithmetic.
    once: (usize, usize),
    /// Number of rows, and of points per row, of scans (`scan`) and of sorts (`sort`).
    scan: [usize; 2],
    sort: [usize; 2],
    /// Number of rows, and of columns, of a product's operands.
    pub product: usize,
    /// Number of values of a scatter.
    scattered: usize,
    /// Whether launches are asynchronous and run so many points concurrently that only long samples are measurable.
    pub wide: bool,
    /// Index of the first memory level whose time differs measurably from launch overhead; nearer levels take as long.
    pub nearest: usize,
}

impl Sizes {
    /// Sizes for a device with asynchronous launches and this throughput, or for a CPU if `throughput` is `None`.
    pub fn of(throughput: Option<&Throughput>) -> Sizes {
        let Some(t) = throughput else {
            return Sizes {
                points: 4096,
                chain: 24,
                functions: 1,
                moved: 4096,
                turned: 96,
                conflicting: (256, 1024),
                rows: [16, 512],
                folds: 1,
                once: (256, 1),
                scan: [4, 1024],
                sort: [4, 256],
                product: 96,
                scattered: 2048,
                wide: false,
                nearest: 0,
            };
        };
        let points = ((t.additions * WAVE) as usize).next_power_of_two().clamp(1 << 12, 1 << 22);
        let side = (2 * points.isqrt()).next_multiple_of(256);
        Sizes {
            points,
            chain: 192,
            functions: 4,
            moved: 4 * points,
            turned: side - 48,
            conflicting: (side, side),
            rows: [points / 512, 2048],
            folds: 16,
            once: (points / 8, 4),
            scan: [points / 512, 2048],
            sort: [points / 2048, 1024],
            product: side,
            scattered: points,
            wide: true,
            nearest: 2,
        }
    }
}

/// Kernel that a constant is calibrated by, with its sizes and operands; it writes the last operand.
#[derive(Clone)]
pub struct Sample {
    pub kernel: Kernel,
    pub geometry: Geometry,
    /// Dtype of the operands.
    pub dtype: DType,
    /// Size of each operand in bytes.
    pub bytes: Vec<usize>,
    /// Contents of each operand; `None` for ordinary numbers.
    pub contents: Vec<Option<Vec<u8>>>,
}

impl Sample {
    fn new(kernel: Kernel, geometry: Geometry, dtype: DType, bytes: Vec<usize>) -> Sample {
        let contents = vec![None; bytes.len()];
        Sample { kernel, geometry, dtype, bytes, contents }
    }

    /// Nanoseconds predicted by the model, with that many bytes in use.
    pub fn model(&self, costs: &Costs, footprint: u64) -> f64 {
        let (touched, written) = self.bytes.split_at(self.bytes.len() - 1);
        costs.time(&costs.features(&self.kernel, &self.geometry, touched, written), footprint) as f64 / 1e3
    }

    /// Bytes of all operands.
    pub fn footprint(&self) -> u64 {
        self.bytes.iter().sum::<usize>() as u64
    }
}

/// Access geometry with strides over `extents`: base, strides, and the positions reached.
fn at(extents: &[usize], strides: &[isize], base: isize) -> AccessGeometry {
    let mut at = AccessGeometry { base, strides: [0; MAX_RANK], map: None, reach: None, distinct: 1 };
    at.strides[..strides.len()].copy_from_slice(strides);
    let moved = |(&n, &s): (&usize, &isize)| (n as isize - 1) * s;
    at.reach = Some((base as usize, (base + extents.iter().zip(strides).map(moved).sum::<isize>()) as usize));
    at.distinct = extents.iter().zip(strides).filter(|(_, s)| **s != 0).map(|(n, _)| n).product();
    at
}

fn row_major(extents: &[usize]) -> Vec<isize> {
    (0..extents.len()).map(|i| extents[i + 1..].iter().product::<usize>() as isize).collect()
}

/// Sample of a map `y = f(x)`: `x` is read with these strides, `y` is row-major.
fn map(
    dtype: DType,
    (extents, class, strides): (&[usize], AccessClass, &[isize]),
    base: isize,
    f: impl FnOnce(&mut BodyBuilder, NodeId) -> NodeId,
) -> Sample {
    let mut b = BodyBuilder::new(false);
    let from = b.access(Access { operand: Some(0), dtype, class, per_row: false });
    let to = b.access(Access { operand: Some(1), dtype, class: AccessClass::Contiguous, per_row: false });
    let x = b.node(Node::Load { access: from });
    let y = f(&mut b, x);
    b.store(y, to);
    let (from, to) = (at(extents, strides, base), at(extents, &row_major(extents), base));
    let bytes = [&from, &to].map(|a| (a.reach.expect("it has points").1 + 1) * dtype.size()).to_vec();
    let geometry = MapGeometry { extents: extents.to_vec(), accesses: vec![from, to] };
    Sample::new(Kernel::Map(b.finish()), Geometry::Map(geometry), dtype, bytes)
}

fn flat(dtype: DType, n: usize, f: impl FnOnce(&mut BodyBuilder, NodeId) -> NodeId) -> Sample {
    map(dtype, (&[n], AccessClass::Contiguous, &[1]), 0, f)
}

fn constant(b: &mut BodyBuilder, v: f64) -> NodeId {
    b.constant(Scalar::Float(v), DType::F32)
}

/// Sample of one point: launch overhead only.
pub fn point() -> Sample {
    flat(DType::F32, 1, |_, x| x)
}

/// Sample that copies one half of the bytes to the other half.
pub fn copy(bytes: u64) -> Sample {
    flat(DType::F32, bytes as usize / 8, |_, x| x)
}

/// Like [`copy`], starting at element `element`.
pub fn copy_from(bytes: u64, element: u64) -> Sample {
    map(DType::F32, (&[bytes as usize / 8], AccessClass::Contiguous, &[1]), element as isize, |_, x| x)
}

/// Sample that fills operands without contents of their own with ordinary numbers, for which functions do all of their
/// work.
pub fn filled(dtype: DType, bytes: usize) -> Sample {
    let mut b = BodyBuilder::new(false);
    let to = b.access(Access { operand: Some(0), dtype, class: AccessClass::Contiguous, per_row: false });
    let value = b.constant(if dtype.is_float() { Scalar::Float(0.6) } else { Scalar::Int(1) }, dtype);
    b.store(value, to);
    let extents = vec![bytes / dtype.size()];
    let geometry = MapGeometry { accesses: vec![at(&extents, &[1], 0)], extents };
    Sample::new(Kernel::Map(b.finish()), Geometry::Map(geometry), dtype, vec![bytes])
}

/// Sample of sums and differences that cannot be contracted with a product.
pub fn simple(sizes: &Sizes) -> Sample {
    flat(DType::F32, sizes.points, |b, x| {
        let one = constant(b, 1.0);
        let step = |y, i: usize| {
            if i.is_multiple_of(2) { b.element(ElementOp::Add, &[y, x]) } else { b.element(ElementOp::Sub, &[one, y]) }
        };
        (0..sizes.chain).fold(x, step)
    })
}

/// Sample whose arithmetic takes about as long as its memory traffic.
pub fn beside(sizes: &Sizes) -> Sample {
    flat(DType::F32, sizes.moved, |b, x| (0..sizes.chain / 4).fold(x, |y, _| b.element(ElementOp::Add, &[y, x])))
}

/// Sample of one point in each of four boxes, of other elements each, so that no device merges them.
pub fn boxes() -> Sample {
    let mut s = point();
    let (Kernel::Map(body), Geometry::Map(one)) = (&s.kernel, &s.geometry) else { unreachable!("it is a map") };
    let part = |i: usize| {
        let mut g = one.clone();
        g.accesses = vec![at(&[1], &[1], i as isize); 2];
        g
    };
    let geometry = Geometry::Boxes((0..4).map(part).collect());
    s.kernel = Kernel::Boxes(vec![body.clone(); 4]);
    s.geometry = geometry;
    s.bytes = vec![16; 2];
    s
}

pub fn divide(sizes: &Sizes) -> Sample {
    flat(DType::F32, sizes.points, |b, x| {
        let one = constant(b, 1.0);
        let x = b.element(ElementOp::Add, &[x, one]);
        // Both arguments vary: a GPU multiplies by the reciprocal if the divisor is a constant.
        (0..sizes.chain / 4).fold(x, |y, _| b.element(ElementOp::Div, &[x, y]))
    })
}

/// Sample of independent elementary functions, each with ordinary arguments.
pub fn special(dtype: DType, sizes: &Sizes) -> Sample {
    use ElementOp::{Exp, Log1p, Sigmoid, Sin, Tanh};
    flat(dtype, sizes.points / 2, |b, x| {
        let all = |b: &mut BodyBuilder, x: NodeId| {
            let y = b.element(Exp, &[x]);
            [Sin, Tanh, Log1p, Sigmoid].iter().fold(y, |y, &op| {
                let z = b.element(op, &[x]);
                b.element(ElementOp::Add, &[y, z])
            })
        };
        let mut y = all(b, x);
        for _ in 1..sizes.functions {
            // Maps the result back to values between 0 and 1.
            let x = b.element(Sigmoid, &[y]);
            y = all(b, x);
        }
        y
    })
}

/// Sample of conversions of narrow elements at load and store, with no other work.
pub fn convert(sizes: &Sizes) -> Sample {
    if sizes.wide {
        // Narrow loads and stores would measure memory only.
        return flat(DType::F32, sizes.points, |b, x| {
            (0..sizes.chain / 4).fold(x, |y, _| {
                let z = b.cast(y, DType::BF16);
                let z = b.cast(z, DType::F32);
                b.element(ElementOp::Add, &[z, x])
            })
        });
    }
    flat(DType::BF16, sizes.points, |b, x| b.element(ElementOp::Abs, &[x]))
}

/// Sample of a function that few engines implement in f64.
pub fn slow(sizes: &Sizes) -> Sample {
    let n = sizes.points / 16;
    let mut s = flat(DType::F64, n, |b, x| b.element(ElementOp::Erf, &[x]));
    // Arguments of all magnitudes: the function branches on them.
    let values = (0..n as u32).flat_map(|i| ((i * 97 % 256) as f64 / 64.0 - 2.0).to_le_bytes());
    s.contents[0] = Some(values.collect());
    s
}

/// Sample of short contiguous runs.
pub fn runs() -> Sample {
    map(DType::F32, (&[512, 8], AccessClass::Contiguous, &[12, 1]), 0, |_, x| x)
}

/// Sample of small boxes of a three-dimensional domain, each of which takes a call.
pub fn calls() -> Sample {
    map(DType::F32, (&[64, 8, 8], AccessClass::Contiguous, &[120, 12, 1]), 0, |_, x| x)
}

pub fn transposed(sizes: &Sizes) -> Sample {
    let n = sizes.turned;
    map(DType::F32, (&[n, n], AccessClass::Strided, &[1, n as isize]), 0, |_, x| x)
}

/// Sample of a transposed copy whose source has a row stride that is a multiple of 1,024 bytes.
pub fn conflicting(sizes: &Sizes) -> Sample {
    let (n, apart) = sizes.conflicting;
    map(DType::F32, (&[n, n], AccessClass::Strided, &[1, apart as isize]), 0, |_, x| x)
}

pub fn strided(sizes: &Sizes) -> Sample {
    map(DType::F32, (&[sizes.moved], AccessClass::Strided, &[2]), 0, |_, x| x)
}

/// Sample of a transposed and flattened matrix, through a table of positions: neighbours are far apart. On a GPU, which
/// uses divisions instead of a table: padding of the rows and columns of images, flattened into one dimension.
pub fn mapped(sizes: &Sizes) -> Sample {
    let map_of = |inner: &[usize]| IndexMap::new(View::contiguous(Shape::new(inner)));
    let map = if sizes.wide {
        map_of(&[sizes.moved / 4096, 60, 60]).pad(&[(0, 0), (1, 1), (1, 1)])
    } else {
        map_of(&[64, sizes.moved / 64]).permute(&[1, 0])
    };
    let n = map.shape().numel();
    by_table(map.reshape(Shape::new(&[n])))
}

/// Sample of padding by one zero on both sides, through a table of positions whose neighbours are neighbours.
pub fn close(sizes: &Sizes) -> Sample {
    by_table(IndexMap::new(View::contiguous(Shape::new(&[sizes.moved - 2]))).pad(&[(1, 1)]))
}

/// Sample of a copy through a map of one dimension.
fn by_table(map: IndexMap) -> Sample {
    let mut s = self::map(DType::F32, (&[map.shape().numel()], AccessClass::Mapped, &[1]), 0, |_, x| x);
    let Geometry::Map(g) = &mut s.geometry else { unreachable!("it is a map") };
    g.accesses[0] = AccessGeometry {
        base: 0,
        strides: [0; MAX_RANK],
        reach: map.reach(),
        distinct: map.distinct(),
        map: Some(Arc::new(map)),
    };
    s
}

/// Sample that gathers each element by its own index; on a GPU, where those would be neighbours, in a shuffled order.
pub fn gathered(sizes: &Sizes) -> Sample {
    let count = sizes.moved;
    let mut b = BodyBuilder::new(false);
    let access = |operand, class| Access { operand, dtype: DType::F32, class, per_row: false };
    let from = b.access(access(Some(0), AccessClass::Uniform));
    let to = b.access(access(Some(1), AccessClass::Contiguous));
    let places = b.access(access(None, AccessClass::Contiguous));
    let mut offset = b.node(Node::Index { access: places, dtype: DType::I64 });
    if sizes.wide {
        // With a power of two, the low bits of odd multiples are a permutation of all indices.
        let [odd, last] = [2_654_435_769, count as i64 - 1].map(|v| b.constant(Scalar::Int(v), DType::I64));
        offset = b.element(ElementOp::Mul, &[offset, odd]);
        offset = b.element(ElementOp::BitAnd, &[offset, last]);
    }
    let inside = b.constant(Scalar::Bool(true), DType::Bool);
    let y = b.node(Node::Gather { access: from, offset, inside });
    b.store(y, to);
    let n = [count];
    let mut source = at(&n, &[0], 0);
    source.distinct = 1;
    let accesses = vec![source, at(&n, &[1], 0), at(&n, &[1], 0)];
    let geometry = MapGeometry { extents: n.to_vec(), accesses };
    Sample::new(Kernel::Map(b.finish()), Geometry::Map(geometry), DType::F32, vec![4 * count, 4 * count])
}

/// Sample of a row body over `rows` rows of `row` points; its output has one value per row, or one per point.
fn rows(
    [rows, row]: [usize; 2],
    orientation: Orientation,
    per_row: bool,
    f: impl FnOnce(&mut BodyBuilder, NodeId) -> NodeId,
) -> Sample {
    let along = orientation == Orientation::InnerAxis;
    let mut b = BodyBuilder::new(false);
    let contiguous = AccessClass::Contiguous;
    let class = if along && per_row { AccessClass::Uniform } else { contiguous };
    let from = b.access(Access { operand: Some(0), dtype: DType::F32, class: contiguous, per_row: false });
    let to = b.access(Access { operand: Some(1), dtype: DType::F32, class, per_row });
    let x = b.node(Node::Load { access: from });
    let y = f(&mut b, x);
    b.store(y, to);
    let extents = [rows, row];
    let strides = if along { [row as isize, 1] } else { [1, rows as isize] };
    let to = if per_row { at(&extents, &[1, 0], 0) } else { at(&extents, &strides, 0) };
    let bytes = vec![4 * rows * row, 4 * to.distinct];
    let geometry = RowGeometry { extents: extents.to_vec(), kept: 1, accesses: vec![at(&extents, &strides, 0), to] };
    Sample::new(Kernel::Rows { body: b.finish(), orientation }, Geometry::Rows(geometry), DType::F32, bytes)
}

fn sum(b: &mut BodyBuilder, x: NodeId) -> NodeId {
    b.fold(Monoid::Sum, x)
}

/// Body of independent folds, each of other values.
fn folds(count: usize) -> impl FnOnce(&mut BodyBuilder, NodeId) -> NodeId {
    move |b, x| {
        (1..count).fold(sum(b, x), |all, i| {
            let by = constant(b, i as f64);
            let y = b.element(ElementOp::Add, &[x, by]);
            let y = sum(b, y);
            b.element(ElementOp::Add, &[all, y])
        })
    }
}

pub fn fold_inner(sizes: &Sizes) -> Sample {
    rows(sizes.rows, Orientation::InnerAxis, true, folds(sizes.folds))
}

/// Sample of many short rows.
pub fn short_rows() -> Sample {
    rows([512, 16], Orientation::InnerAxis, true, sum)
}

/// Sample of narrow strips: a batch of 16x16 matrices, reduced along the outer axis of each.
pub fn strips() -> Sample {
    let mut s = rows([32 * 16, 16], Orientation::OuterAxis, true, sum);
    let Geometry::Rows(g) = &mut s.geometry else { unreachable!("it has rows") };
    (g.extents, g.kept) = (vec![32, 16, 16], 2);
    g.accesses = vec![at(&g.extents, &[256, 1, 16], 0), at(&g.extents, &[16, 1, 0], 0)];
    s
}

pub fn fold_outer(sizes: &Sizes) -> Sample {
    if sizes.wide {
        return rows([sizes.rows[1], sizes.rows[0]], Orientation::OuterAxis, true, folds(sizes.folds));
    }
    rows([192, 128], Orientation::OuterAxis, true, sum)
}

/// Sample of two passes: rows minus their sum, which reads each element twice.
pub fn twice(sizes: &Sizes) -> Sample {
    rows([2 * sizes.rows[0], sizes.rows[1]], Orientation::InnerAxis, false, |b, x| {
        let s = sum(b, x);
        b.element(ElementOp::Sub, &[x, s])
    })
}

/// Sample of per-row arithmetic: rows divided by their root mean square, with a division and square roots once per row.
pub fn once(sizes: &Sizes) -> Sample {
    let (count, times) = sizes.once;
    rows([count, 32], Orientation::InnerAxis, false, |b, x| {
        let square = b.element(ElementOp::Mul, &[x, x]);
        let s = sum(b, square);
        let one = constant(b, 1.0);
        let root = (0..times).fold(s, |s, _| {
            let s = b.element(ElementOp::Add, &[s, one]);
            b.element(ElementOp::Sqrt, &[s])
        });
        let scale = b.element(ElementOp::Div, &[one, root]);
        b.element(ElementOp::Mul, &[x, scale])
    })
}

pub fn scan(sizes: &Sizes) -> Sample {
    rows(sizes.scan, Orientation::InnerAxis, false, |b, x| b.scan(ScanOp::Sum, false, x))
}

pub fn sort(sizes: &Sizes) -> Sample {
    let mut s = rows(sizes.sort, Orientation::InnerAxis, false, |b, x| b.scan(ScanOp::Sort, false, x));
    // Contents that are far from sorted.
    let n = sizes.sort.iter().product::<usize>() as u32;
    let values = (0..n).flat_map(|i| ((i.wrapping_mul(2_654_435_769) >> 8) as f32).to_le_bytes());
    s.contents[0] = Some(values.collect());
    s
}

/// Sample of a batch of `count` products of square matrices.
pub fn product((dtype, precision): (DType, Precision), count: usize, n: usize) -> Sample {
    let all = n * n;
    let geometry = MatmulGeometry {
        batch: vec![(count, all as isize, all as isize)],
        m: n,
        n,
        k: n,
        a: (0, n as isize, 1),
        b: (0, n as isize, 1),
        reach: [Some((0, count * all - 1)); 2],
    };
    let bytes = vec![count * all * dtype.size(); 3];
    let kernel = Kernel::Contraction(Contraction::unfused(dtype, precision));
    let geometry = Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry)));
    Sample::new(kernel, geometry, dtype, bytes)
}

/// Sample of a scatter-add with shuffled indices.
pub fn scatter(sizes: &Sizes) -> Sample {
    let n = sizes.scattered;
    let kernel =
        Kernel::Scatter { op: ScatterOp::Add, dtype: DType::F32, order: ScatterOrder::Fixed, inputs: [None, None] };
    let geometry = ScatterGeometry {
        axis: 0,
        outer: vec![],
        inner: vec![],
        n,
        size: n,
        steps: [1; 4],
        base: [0; 4],
        inputs: [None, None],
    };
    let mut s = Sample::new(kernel, Geometry::Scatter(geometry), DType::F32, vec![4 * n, 8 * n, 4 * n, 4 * n]);
    let index = (0..n as u64).flat_map(|i| ((i * 1031) % n as u64).to_le_bytes());
    s.contents[1] = Some(index.collect());
    s
}
