//! Compares plain reductions, as row kernels, with sums in f64 and with sequential searches.

use super::{Lcg, device, download, read, upload, write};
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid, ReduceOp, Scalar};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, BodyBuilder, Geometry, Kernel, Node, NodeId, Orientation, RowGeometry,
};
use thalweg_runtime::Device;

const OPS: [ReduceOp; 8] = [
    ReduceOp::Sum,
    ReduceOp::Prod,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::Any,
    ReduceOp::All,
    ReduceOp::ArgMax,
    ReduceOp::ArgMin,
];

/// Positions in memory of the elements that are reduced to one result, in logical order.
fn positions(start: isize, dims: &[(usize, isize)]) -> Vec<isize> {
    let mut all = vec![start];
    for &(size, stride) in dims {
        all = all.iter().flat_map(|p| (0..size as isize).map(move |i| p + i * stride)).collect();
    }
    all
}

/// Geometry of a test reduction: sizes and strides of the dimensions that are kept, and of those that are reduced,
/// outermost first.
#[derive(Clone, Debug)]
struct Reduction {
    kept: Vec<(usize, isize)>,
    reduced: Vec<(usize, isize)>,
    base: isize,
}

fn access(b: &mut BodyBuilder, operand: Option<u16>, dtype: DType, step: isize, per_row: bool) -> u16 {
    let class = match step {
        1 => AccessClass::Contiguous,
        0 => AccessClass::Uniform,
        _ => AccessClass::Strided,
    };
    b.access(Access { operand, dtype, class, per_row })
}

/// Builds a reduction of `x`; `place` is the node of a point's index in its row.
fn reduce(b: &mut BodyBuilder, op: ReduceOp, dtype: DType, x: NodeId, place: NodeId) -> NodeId {
    let carried = match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        DType::I8 | DType::I16 | DType::U8 | DType::U16 | DType::Bool => DType::I32,
        d => d,
    };
    let wide = b.cast(x, carried);
    let mut plain = |op, to| {
        let value = b.fold(op, wide);
        b.cast(value, to)
    };
    match op {
        ReduceOp::Any | ReduceOp::All => {
            let truth = b.cast(x, DType::Bool);
            // In u32, the minimum is false and the maximum true, as the results for empty rows must be.
            let truth = b.cast(truth, DType::U32);
            let value = b.fold(if op == ReduceOp::Any { Monoid::Max } else { Monoid::Min }, truth);
            b.cast(value, DType::Bool)
        }
        ReduceOp::ArgMax | ReduceOp::ArgMin => {
            let best = b.fold(if op == ReduceOp::ArgMax { Monoid::Max } else { Monoid::Min }, wide);
            let mut here = b.element(ElementOp::Eq, &[wide, best]);
            if carried.is_float() {
                let nan = b.element(ElementOp::Ne, &[wide, wide]);
                here = b.element(ElementOp::Or, &[here, nan]);
            }
            let far = b.constant(Scalar::Int(i64::MAX), DType::I64);
            let at = b.element(ElementOp::Where, &[here, place, far]);
            b.fold(Monoid::Min, at)
        }
        other => plain(other.monoid(), dtype),
    }
}

/// Builds the row kernel and geometry of a reduction, with outer-axis (`across`) or inner-axis orientation.
fn kernel(op: ReduceOp, dtype: DType, r: &Reduction, across: bool) -> (Kernel, Geometry) {
    let (mut kept, mut reduced) = (r.kept.clone(), r.reduced.clone());
    if across && kept.is_empty() {
        kept.push((1, 1));
    }
    if reduced.is_empty() {
        reduced.push((1, 1));
    }
    let dims: Vec<(usize, isize)> = kept.iter().chain(&reduced).copied().collect();
    let along = if across { kept.len() - 1 } else { dims.len() - 1 };
    let row_major = |dims: &[(usize, isize)]| {
        let mut strides = vec![1isize; dims.len()];
        (0..dims.len().saturating_sub(1)).rev().for_each(|d| strides[d] = strides[d + 1] * dims[d + 1].0 as isize);
        strides
    };
    let mut accesses = vec![];
    let mut add = |base: isize, strides: Vec<isize>| {
        let mut at = AccessGeometry { base, strides: [0; MAX_RANK], map: None, reach: None, distinct: 1 };
        at.strides[..strides.len()].copy_from_slice(&strides);
        accesses.push(at);
        strides.get(along).copied().unwrap_or(0)
    };
    let mut b = BodyBuilder::new(false);
    let step = add(r.base, dims.iter().map(|d| d.1).collect());
    let from = access(&mut b, Some(0), dtype, step, false);
    let step = add(0, std::iter::repeat_n(0, kept.len()).chain(row_major(&reduced)).collect());
    let places = access(&mut b, None, DType::U32, step, false);
    let step = add(0, row_major(&kept));
    let x = b.node(Node::Load { access: from });
    let place = b.node(Node::Index { access: places, dtype: DType::I64 });
    let result = reduce(&mut b, op, dtype, x, place);
    let to = access(&mut b, Some(1), output_dtype(op, dtype), step, true);
    b.store(result, to);
    let body: Body = b.finish();
    let geometry = RowGeometry { extents: dims.iter().map(|d| d.0).collect(), kept: kept.len(), accesses };
    let orientation = if across { Orientation::OuterAxis } else { Orientation::InnerAxis };
    (Kernel::Rows { body, orientation }, Geometry::Rows(geometry))
}

fn output_dtype(op: ReduceOp, dtype: DType) -> DType {
    match op {
        ReduceOp::Any | ReduceOp::All => DType::Bool,
        ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I64,
        _ => dtype,
    }
}

/// Generates a random reduction: the dimensions of a row-major source, assigned to kept and reduced in random order,
/// some flipped or strided. Also returns the number of source elements.
fn random_geometry(rng: &mut Lcg, large: bool) -> (Reduction, usize) {
    let mut dims: Vec<(usize, isize)> = vec![];
    let (mut step, mut base) = (1usize, 0isize);
    for i in 0..1 + rng.below(4) {
        let size = 1 + rng.below(if large && i < 2 { 400 } else { 12 });
        let skip = 1 + (rng.below(5) == 0) as usize;
        let stride = (step * skip) as isize;
        step *= size * skip;
        if rng.below(6) == 0 {
            base += (size as isize - 1) * stride;
            dims.push((size, -stride));
        } else {
            dims.push((size, stride));
        }
    }
    if rng.below(6) == 0 {
        dims.push((1 + rng.below(9), 0));
    }
    for i in (1..dims.len()).rev() {
        if rng.below(2) == 0 {
            dims.swap(i, rng.below(i + 1));
        }
    }
    dims.reverse();
    let (mut kept, mut reduced) = (vec![], vec![]);
    for d in dims {
        if rng.below(2) == 0 { kept.push(d) } else { reduced.push(d) }
    }
    (Reduction { kept, reduced, base }, step)
}

/// Computes the expected result of a reduction, and its tolerance for floats.
fn wanted(op: ReduceOp, dtype: DType, x: &[Scalar]) -> (f64, f64) {
    let v: Vec<f64> = x.iter().map(|s| s.to_f64()).collect();
    let better = |a: f64, b: f64, max: bool| !b.is_nan() && (a.is_nan() || if max { a > b } else { a < b });
    let best = |max: bool| (1..v.len()).fold(0, |best, i| if better(v[i], v[best], max) { i } else { best });
    let int = |f: fn(i64, i64) -> i64, one: i64| {
        Scalar::integer(dtype.wrap(x.iter().fold(one, |a, b| f(a, b.to_i64()))), dtype).to_f64()
    };
    let ends = if dtype.is_float() {
        (f64::NEG_INFINITY, f64::INFINITY)
    } else {
        (dtype.int_range().0 as f64, dtype.int_range().1 as f64)
    };
    let epsilon = if dtype.is_float() { 2f64.powi(-(dtype.mantissa_digits() as i32)) } else { 0.0 };
    let steps = (f64::EPSILON / 2.0).max(if dtype == DType::F64 { 0.0 } else { 2f64.powi(-24) }) * 150.0;
    match op {
        ReduceOp::Sum if dtype.is_float() => {
            let sum: f64 = v.iter().sum();
            (sum, sum.abs() * epsilon + steps * v.iter().map(|x| x.abs()).sum::<f64>())
        }
        ReduceOp::Prod if dtype.is_float() => {
            let product: f64 = v.iter().product();
            (product, product.abs() * (2.0 * epsilon + 2.0 * steps) + 1e-40)
        }
        ReduceOp::Sum => (int(i64::wrapping_add, 0), 0.0),
        ReduceOp::Prod => (int(i64::wrapping_mul, 1), 0.0),
        ReduceOp::Max => (if v.is_empty() { ends.0 } else { v[best(true)] }, 0.0),
        ReduceOp::Min => (if v.is_empty() { ends.1 } else { v[best(false)] }, 0.0),
        ReduceOp::Any => (v.iter().any(|&x| x != 0.0) as u8 as f64, 0.0),
        ReduceOp::All => (v.iter().all(|&x| x != 0.0) as u8 as f64, 0.0),
        ReduceOp::ArgMax => (best(true) as f64, 0.0),
        ReduceOp::ArgMin => (best(false) as f64, 0.0),
        #[allow(unreachable_patterns, reason = "there is another one with the feature `probe`")]
        other => unreachable!("{} is not among those of this test", other.name()),
    }
}

#[test]
fn random_reductions_agree_with_the_definition_on_any_number_of_threads() {
    let mut rng = Lcg(5);
    let devices = [device(1), device(2), device(8)];
    for round in 0..250 {
        let (mut geometry, elements) = random_geometry(&mut rng, round % 12 == 0);
        let op = OPS[round % 8];
        // An argmax of an empty row is undefined.
        if round % 50 < 2 && !matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin) {
            geometry.reduced.push((0, 3));
        }
        let mut dtype = DType::ALL[rng.below(DType::ALL.len())];
        if geometry.reduced.contains(&(0, 3)) && dtype.size() < 4 {
            // A wider accumulator has another identity than the dtype.
            dtype = DType::F32;
        }
        if op == ReduceOp::Sum && dtype == DType::Bool {
            // Sums of bools are counted in i64.
            dtype = DType::I64;
        }
        let special = rng.below(4) == 0;
        let mut bytes = vec![0u8; elements * dtype.size()];
        for i in 0..elements {
            let value = match (op, dtype) {
                (_, DType::Bool) => Scalar::Bool(rng.below(5) > 0),
                (ReduceOp::Prod, d) if d.is_float() => Scalar::Float(1.0 + rng.value() / 1000.0),
                (ReduceOp::Any, _) => Scalar::Int((rng.below(30) == 0) as i64),
                (ReduceOp::All, _) => Scalar::Int((rng.below(30) != 0) as i64),
                (_, d) if d.is_float() && special && rng.below(50) == 0 => {
                    Scalar::Float([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0][rng.below(4)])
                }
                (_, d) if d.is_float() => Scalar::Float(rng.value()),
                (_, d) => Scalar::Int(d.wrap(rng.below(1 << 30) as i64 * 3)),
            };
            // SAFETY: the vector has space for that many elements.
            unsafe { write(bytes.as_mut_ptr().add(i * dtype.size()), dtype, value) };
        }
        let out_dtype = output_dtype(op, dtype);
        let results = positions(0, &geometry.kept).len();
        let mut first: Option<Vec<u8>> = None;
        for across in [false, true] {
            let (kernel, launched) = kernel(op, dtype, &geometry, across);
            for device in &devices {
                let (input, output) = (upload(&**device, &bytes), device.allocate(results * out_dtype.size()).unwrap());
                let program = device.program(&kernel).unwrap();
                program.launch(&launched, &[&input, &output], &[]).unwrap();
                let got: Vec<u8> = download(&**device, &output, results * out_dtype.size());
                let first = first.get_or_insert(got.clone());
                let same = super::rows::same(out_dtype, &got, first);
                assert_eq!(same, Ok(()), "{op:?} {dtype} {geometry:?}, across: {across}");
            }
        }
        let got = first.unwrap();
        for (i, start) in positions(geometry.base, &geometry.kept).into_iter().enumerate() {
            // SAFETY: the positions are inside the vector, by construction.
            let element = |p: isize| unsafe { read(bytes.as_ptr().offset(p * dtype.size() as isize), dtype) };
            let x: Vec<Scalar> = positions(start, &geometry.reduced).into_iter().map(element).collect();
            let (want, within) = wanted(op, dtype, &x);
            // SAFETY: a result with that index exists.
            let have = unsafe { read(got.as_ptr().add(i * out_dtype.size()), out_dtype) }.to_f64();
            let same = have == want || have.is_nan() && want.is_nan() || (have - want).abs() <= within;
            assert!(same, "{op:?} {dtype} result {i}: {have}, not {want} ± {within}; {geometry:?}");
        }
    }
}

/// Tests that the sums of a matrix are the same in row-major and column-major layout.
#[test]
fn the_layout_of_an_input_does_not_change_a_sum() {
    let mut rng = Lcg(3);
    for (rows, columns) in [(9000, 7), (70, 300), (5, 10_000), (4097, 65)] {
        let values: Vec<f32> = (0..rows * columns).map(|_| rng.value() as f32 / 3.0).collect();
        let transposed: Vec<f32> = (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect();
        let sums = [(values, columns as isize, 1), (transposed, 1, rows as isize)].map(|(v, down, side)| {
            let device = device(2);
            let (input, output) = (upload(&*device, &v), device.allocate(columns * 4).unwrap());
            let reduction = Reduction { kept: vec![(columns, side)], reduced: vec![(rows, down)], base: 0 };
            let (kernel, geometry) = kernel(ReduceOp::Sum, DType::F32, &reduction, side == 1);
            device.program(&kernel).unwrap().launch(&geometry, &[&input, &output], &[]).unwrap();
            download::<u32>(&*device, &output, columns)
        });
        assert_eq!(sums[0], sums[1], "{rows} × {columns}");
    }
}

#[test]
fn long_sums_stay_accurate() {
    let device = device(2);
    let n = 3_000_001;
    let input = upload(&*device, &vec![0.1f32; n]);
    let output = device.allocate(4).unwrap();
    let reduction = Reduction { kept: vec![], reduced: vec![(n, 1)], base: 0 };
    let (kernel, geometry) = kernel(ReduceOp::Sum, DType::F32, &reduction, false);
    device.program(&kernel).unwrap().launch(&geometry, &[&input, &output], &[]).unwrap();
    let (got, want) = (download::<f32>(&*device, &output, 1)[0] as f64, 0.1f32 as f64 * n as f64);
    assert!((got - want).abs() / want < 2e-6, "{got} {want}");
}

#[test]
#[should_panic(expected = "access 0 reaches elements 0 to 11 of operand 0, which has 10")]
fn reading_outside_the_input_panics() {
    let device = device(1);
    let (input, output) = (device.allocate(40).unwrap(), device.allocate(12).unwrap());
    let reduction = Reduction { kept: vec![(3, 4)], reduced: vec![(4, 1)], base: 0 };
    let (kernel, geometry) = kernel(ReduceOp::Max, DType::F32, &reduction, false);
    device.program(&kernel).unwrap().launch(&geometry, &[&input, &output], &[]).unwrap();
}
