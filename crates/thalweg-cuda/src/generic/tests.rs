//! Tests of the generic kernels against compiled ones, on the emulated GPU: their bits are the same.

use crate::device::CudaDevice;
use crate::driver::{Absent, Emulated};
use crate::golden::Draft;
use std::sync::Arc;
use thalweg_ir::{DType, ElementOp, Monoid, Scalar, Shape, View};
use thalweg_kernel::{Access, AccessGeometry, Geometry, IndexMap, Kernel, Node, NodeId, Orientation};
use thalweg_runtime::{Buffer, Device, Program};

/// Dtypes that the generic kernels support.
fn known() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|d| crate::render::generic::has(*d))
}

fn device() -> Arc<CudaDevice> {
    CudaDevice::with(Arc::new(Emulated::of(90).unwrap()), "cuda:emulated").unwrap()
}

/// Test operand: special numbers, and others between them.
fn bytes(dtype: DType, n: usize, seed: usize) -> Vec<u8> {
    const SPECIAL: [f64; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.5,
        -2.5,
        3.5,
        1e-30,
        -1e30,
        127.0,
        -128.0,
        7.0,
        255.0,
    ];
    let (low, high) = if dtype.is_int() { dtype.int_range() } else { (0, 1) };
    let (low, high) = (low as i64, high as i64);
    let value = |i: usize| {
        let k = i * 7 + seed * 5 + i / 16 * seed;
        match (dtype.is_float(), k % 5) {
            (true, 0..2) => Scalar::Float(SPECIAL[k / 5 % 16]),
            (true, _) => Scalar::Float((k * 37 % 401) as f64 / 40.0 - 5.0),
            (false, 0) => Scalar::Int([low, high, low + 1, high / 2][k / 5 % 4]),
            (false, _) => Scalar::Int(((k * 31 % 43) as i64 - 12).clamp(low, high)),
        }
    };
    let data = (0..n).map(value);
    let shape = Shape::new(&[n]);
    let data = if dtype.is_float() {
        thalweg_kernel::reference::Data::Float(data.map(|s| dtype.round(s.to_f64())).collect())
    } else {
        thalweg_kernel::reference::Data::Int(data.map(|s| s.to_i64()).collect())
    };
    thalweg_kernel::reference::Array { shape, dtype, data }.to_bytes()
}

fn accesses(kernel: &Kernel, geometry: &Geometry) -> Vec<(Access, usize, bool)> {
    let (body, at) = match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(g)) => (body, &g.accesses),
        (Kernel::Rows { body, .. }, Geometry::Rows(g)) => (body, &g.accesses),
        _ => unreachable!("tests have maps and rows"),
    };
    let stored = |k: usize| body.stores.iter().any(|s| s.access as usize == k);
    let bytes = |a: &Access, g: &AccessGeometry| (g.reach.map_or(0, |r| r.1 + 1) * a.dtype.size()).max(1);
    body.accesses.iter().zip(at).enumerate().map(|(k, (a, g))| (*a, bytes(a, g), stored(k))).collect()
}

/// Replaces all NaN by the same one: which NaN an operation returns, and with which sign, depends on the compiler.
fn one_nan(dtype: DType, bytes: &mut [u8]) {
    // Bits of the exponent; NaN has a fraction besides.
    let exponent: u64 = match dtype {
        DType::F64 => 0x7FF0 << 48,
        DType::F32 => 0x7F80 << 16,
        DType::BF16 => 0x7F80,
        DType::F16 => 0x7C00,
        _ => return,
    };
    let sign = 1u64 << (8 * dtype.size() - 1);
    for element in bytes.chunks_exact_mut(dtype.size()) {
        let mut raw = [0; 8];
        raw[..element.len()].copy_from_slice(element);
        if u64::from_le_bytes(raw) & !sign > exponent {
            element.copy_from_slice(&(exponent | exponent >> 1).to_le_bytes()[..element.len()]);
        }
    }
}

/// Runs a program; returns the contents of the written operands.
fn run(device: &Arc<CudaDevice>, program: &dyn Program, (kernel, geometry): &(Kernel, Geometry)) -> Vec<Vec<u8>> {
    let all = accesses(kernel, geometry);
    let operands: u16 = all.iter().filter_map(|a| a.0.operand).max().map_or(0, |o| o + 1);
    let buffers: Vec<Buffer> = (0..operands)
        .map(|o| {
            let (access, size, _) = all.iter().filter(|a| a.0.operand == Some(o)).max_by_key(|a| a.1).unwrap();
            let buffer = device.allocate(*size).unwrap();
            device.write(&buffer, &bytes(access.dtype, size / access.dtype.size(), o as usize)).unwrap();
            buffer
        })
        .collect();
    program.launch(geometry, &buffers.iter().collect::<Vec<_>>(), &[]).unwrap();
    let written = all.iter().filter(|a| a.2);
    let read = |(access, size, _): &(Access, usize, bool)| {
        let mut out = vec![0; *size];
        device.read(&buffers[access.operand.unwrap() as usize], &mut out).unwrap();
        one_nan(access.dtype, &mut out);
        out
    };
    written.map(read).collect()
}

fn generic(device: &Arc<CudaDevice>, kernel: &(Kernel, Geometry)) -> Option<Vec<Vec<u8>>> {
    let program = device.generic(&kernel.0, &kernel.1)?.unwrap();
    Some(run(device, &program, kernel))
}

fn compiled(device: &Arc<CudaDevice>, kernel: &(Kernel, Geometry)) -> Vec<Vec<u8>> {
    let program = device.prepare(&[(&kernel.0, &kernel.1)]).unwrap().remove(0);
    run(device, &*program, kernel)
}

/// Runs a kernel by the interpreter and by compiled code, and compares the bits of the results.
fn check(device: &Arc<CudaDevice>, kernel: &(Kernel, Geometry), what: &str) {
    let got = generic(device, kernel).unwrap_or_else(|| panic!("{what} is not covered"));
    assert!(got == compiled(device, kernel), "{what}");
}

const SIZE: usize = 203;

/// Kernel of several operations on a dtype, each with a result of its own. (The first argument of `Where` is a
/// condition.)
fn elements(dtype: DType, ops: &[ElementOp]) -> (Kernel, Geometry) {
    let mut d = Draft::new(true, &[SIZE], 0);
    let [x, y, z] = [(); 3].map(|()| d.load(dtype, &[1]));
    let zero = d.b.constant(Scalar::Int(0), dtype);
    let condition = d.b.element(ElementOp::Ne, &[x, zero]);
    for op in ops {
        let args = if *op == ElementOp::Where { [condition, y, z] } else { [x, y, z] };
        let value = d.b.element(*op, &args[..op.row().arity]);
        d.store(value, &[1]);
    }
    d.map()
}

#[test]
fn every_operation_has_the_bits_of_a_compiled_one_on_every_dtype() {
    let device = device();
    for dtype in known() {
        let takes = |op: &ElementOp| op.row().takes.has(dtype) && op.row().arity <= 3;
        let ops: Vec<ElementOp> = ElementOp::ALL.iter().copied().filter(takes).collect();
        let want = compiled(&device, &elements(dtype, &ops));
        for (op, want) in ops.iter().zip(want) {
            let got = generic(&device, &elements(dtype, &[*op]));
            assert_eq!(got, Some(vec![want]), "{op:?} of {dtype}");
        }
    }
}

#[test]
fn every_cast_has_the_bits_of_a_compiled_one() {
    let device = device();
    let casts = |from: DType, to: &[DType]| {
        let mut d = Draft::new(true, &[SIZE], 0);
        let x = d.load(from, &[1]);
        for &dtype in to {
            let y = d.b.cast(x, dtype);
            d.store(y, &[1]);
        }
        d.map()
    };
    for from in known() {
        let want = compiled(&device, &casts(from, &known().collect::<Vec<_>>()));
        for (to, want) in known().zip(want) {
            assert_eq!(generic(&device, &casts(from, &[to])), Some(vec![want]), "{from} to {to}");
        }
    }
}

/// Sums of two operands with various strides and numbers of points.
#[test]
fn strides_and_sizes_are_what_the_launch_says() {
    let device = device();
    let of = |dtype: DType, extents: &[usize], strides: [&[isize]; 2]| {
        let mut d = Draft::new(true, extents, 0);
        let (x, y) = (d.load(dtype, strides[0]), d.load(dtype, strides[1]));
        let sum = d.two(ElementOp::Add, x, y);
        let mut own = vec![1isize; extents.len()];
        (1..extents.len()).rev().for_each(|i| own[i - 1] = own[i] * extents[i] as isize);
        d.store(sum, &own);
        d.map()
    };
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8] {
        for n in [1, 3, 511, 512, 513, 40_000] {
            check(&device, &of(dtype, &[n], [&[1], &[0]]), &format!("{n} of {dtype}"));
        }
        check(&device, &of(dtype, &[7, 5, 11], [&[1, 77, 7], &[0, 11, 1]]), "transposed and broadcast");
        check(&device, &of(dtype, &[3, 2, 4, 5, 2], [&[1, 3, 6, 24, 120], &[40, 0, 0, 8, 4]]), "of rank five");
    }
}

/// A flip begins at the last element and goes back: offsets are below its base.
#[test]
fn flips_go_back_from_where_they_begin() {
    let device = device();
    for dtype in [DType::F32, DType::F16, DType::I64] {
        let mut d = Draft::new(true, &[9, 6], 0);
        let x = d.flipped(dtype, &[6, -1], 5);
        let y = d.flipped(dtype, &[-6, -1], 53);
        let sum = d.two(ElementOp::Add, x, y);
        d.store(sum, &[6, 1]);
        check(&device, &d.map(), "flipped");
    }
}

/// Kernel with an index map: a source of five by seven elements with a border of zeros, and every second column.
fn mapped(dtype: DType) -> (Kernel, Geometry) {
    let map = IndexMap::new(View::contiguous(Shape::new(&[5, 7])));
    let map = map.slice(&[(0, 1, 5), (0, 2, 4)]).pad(&[(1, 2), (0, 3)]);
    let shape = map.shape().to_vec();
    let mut d = Draft::new(true, &shape, 0);
    let access = d.mapped(dtype, map, 34);
    let x = d.b.node(Node::Load { access });
    let inside = d.b.node(Node::Valid { access });
    let at = d.b.node(Node::Index { access, dtype: DType::U32 });
    let (y, zero) = (d.b.cast(at, dtype), d.b.constant(Scalar::Int(0), dtype));
    let y = d.b.element(ElementOp::Where, &[inside, y, zero]);
    let sum = d.two(ElementOp::Add, x, y);
    d.store(sum, &[shape[1] as isize, 1]);
    d.map()
}

#[test]
fn padding_and_slices_go_through_maps() {
    let device = device();
    for dtype in [DType::F32, DType::F64, DType::I16] {
        check(&device, &mapped(dtype), "mapped");
    }
}

/// Kernel of maxima and minima of rows, folds whose order cannot be observed: inner- or outer-axis, in one block or
/// divided among many.
fn extremes(dtype: DType, [rows, n]: [usize; 2], across: bool) -> (Kernel, Geometry) {
    let strides = if across { [1, rows as isize] } else { [n as isize, 1] };
    let mut d = Draft::new(true, &[rows, n], 1);
    let x = d.load(dtype, &strides);
    let most = d.b.fold(Monoid::Max, x);
    let least = d.b.fold(Monoid::Min, x);
    d.store(most, &[1, 0]);
    d.store(least, &[1, 0]);
    d.rows(if across { Orientation::OuterAxis } else { Orientation::InnerAxis })
}

#[test]
fn folds_without_an_order_have_the_same_bits() {
    let device = device();
    for dtype in [DType::F32, DType::F64, DType::I32, DType::U32, DType::I64] {
        for size in [[1, 1], [3, 5], [40, 33], [1, 30_000], [2, 700], [200, 3]] {
            for across in [false, true] {
                check(&device, &extremes(dtype, size, across), &format!("{dtype} {size:?} {across}"));
            }
        }
    }
}

/// Kernel of two passes: counts the elements above half of the maximum.
fn counted([rows, n]: [usize; 2]) -> (Kernel, Geometry) {
    let mut d = Draft::new(true, &[rows, n], 1);
    let x = d.load(DType::I32, &[n as isize, 1]);
    let most = d.b.fold(Monoid::Max, x);
    let two = d.b.constant(Scalar::Int(2), DType::I32);
    let half = d.two(ElementOp::Div, most, two);
    let is = d.two(ElementOp::Gt, x, half);
    let one = d.b.cast(is, DType::I32);
    let count = d.b.fold(Monoid::Sum, one);
    let count = d.two(ElementOp::Add, count, half);
    d.store(count, &[1, 0]);
    d.rows(Orientation::InnerAxis)
}

#[test]
fn later_passes_know_what_earlier_ones_found() {
    let device = device();
    for size in [[1, 1], [5, 9], [3, 4000]] {
        check(&device, &counted(size), &format!("{size:?}"));
    }
}

/// Sums of floats are in another order, which strict mode does not allow, and close otherwise.
#[test]
fn sums_of_floats_are_close_and_never_strict() {
    let device = device();
    let sums = |strict: bool, [rows, n]: [usize; 2]| {
        let mut d = Draft::new(strict, &[rows, n], 1);
        let x = d.load(DType::F32, &[0, 0]);
        let y = d.load(DType::I32, &[n as isize, 1]);
        let y = d.b.cast(y, DType::F32);
        let (scale, zero) = (d.number(1e-9), d.number(0.0));
        let x = d.two(ElementOp::Mul, x, zero);
        let y = d.two(ElementOp::Mul, y, scale);
        let z = d.two(ElementOp::Add, x, y);
        let sum = d.b.fold(Monoid::Sum, z);
        d.store(sum, &[1, 0]);
        d.rows(Orientation::InnerAxis)
    };
    for size in [[1, 1], [7, 100], [1, 50_000]] {
        assert!(generic(&device, &sums(true, size)).is_none());
        let (got, want) = (generic(&device, &sums(false, size)).unwrap(), compiled(&device, &sums(false, size)));
        for (g, w) in got[0].chunks(4).zip(want[0].chunks(4)) {
            let [g, w] = [g, w].map(|b| f32::from_le_bytes(b.try_into().unwrap()) as f64);
            assert!((g - w).abs() <= 1e-5 * size[1] as f64, "{size:?}: {g} {w}");
        }
    }
}

/// A flag in the launch's arguments tells the kernel to compute with 64-bit indices, which it divides by sizes. 32-bit
/// indices are divided by multiplication with precomputed reciprocals.
#[test]
fn positions_of_64_bits_are_told_to_the_kernel() {
    let compiler = thalweg_gpu::runtime::Compiler::new(
        Arc::new(Absent::new()),
        Box::new(crate::render::CudaPrinter),
        "cuda:0".into(),
    );
    let of = |rows: usize| {
        let mut d = Draft::new(true, &[rows, 3], 0);
        let x = d.load(DType::U8, &[4, 1]);
        d.store(x, &[3, 1]);
        d.map()
    };
    for (rows, wide) in [(1usize << 20, 0), (1 << 30, 1)] {
        let (kernel, geometry) = of(rows);
        let plan = super::plan(&kernel, &geometry, &compiler).unwrap();
        let words = &plan.stages[0].words;
        assert_eq!(words[4] >> 5 & 1, wide, "{rows}");
        assert_eq!(words[1], 3 * rows as u64);
    }
}

#[test]
fn several_operations_of_a_body_share_slots() {
    let device = device();
    let mut d = Draft::new(true, &[SIZE], 0);
    let x = d.load(DType::I32, &[1]);
    let y = d.load(DType::I32, &[1]);
    let mut all: Vec<NodeId> = vec![x, y];
    for i in 0..40 {
        let op = [ElementOp::Add, ElementOp::Mul, ElementOp::Maximum, ElementOp::Sub][i % 4];
        let next = d.two(op, all[i], all[i + 1]);
        all.push(next);
    }
    d.store(all[41], &[1]);
    check(&device, &d.map(), "a chain");
}
