//! Scans, gathers and scatters over random layouts against the interpreter, on any number of threads.

use super::{Lcg, device, download, read, upload, write};
use thalweg_ir::{DType, Op, REVERSE, RelArg, RelOp, Scalar, ScanOp, ScatterOp, Shape};
use thalweg_kernel::reference::{self, Array, RefArg};
use thalweg_kernel::{AxisGeometry, Geometry, Kernel};
use thalweg_runtime::{Device, Error};

/// A tensor that lies somehow: its strides, the position of its first element, all bytes of its buffer, and its meaning.
struct Laid {
    strides: Vec<isize>,
    base: isize,
    bytes: Vec<u8>,
    array: Array,
}

/// Dimensions in any order in memory, some flipped, some with gaps, now and then one repeated.
fn lay(rng: &mut Lcg, shape: &[usize], dtype: DType, repeat: bool, mut value: impl FnMut(&mut Lcg) -> Scalar) -> Laid {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i + 1));
    }
    let (mut strides, mut step, mut base) = (vec![0; shape.len()], 1usize, 0isize);
    for &i in &order {
        if repeat && rng.below(5) == 0 {
            continue;
        }
        step *= 1 + (rng.below(5) == 0) as usize;
        let flipped = rng.below(4) == 0 && shape[i] > 0;
        strides[i] = if flipped { -(step as isize) } else { step as isize };
        base += if flipped { (shape[i] as isize - 1) * step as isize } else { 0 };
        step *= shape[i].max(1);
    }
    let mut bytes = vec![0u8; step * dtype.size()];
    for i in 0..step {
        let v = value(rng);
        // SAFETY: the vector has room for as many elements.
        unsafe { write(bytes.as_mut_ptr().add(i * dtype.size()), dtype, v) };
    }
    let mut packed = vec![];
    for p in 0..shape.iter().product::<usize>() {
        let (mut rest, mut at) = (p, base);
        for i in (0..shape.len()).rev() {
            at += (rest % shape[i]) as isize * strides[i];
            rest /= shape[i];
        }
        let at = at as usize * dtype.size();
        packed.extend(&bytes[at..at + dtype.size()]);
    }
    let array = Array::from_bytes(Shape::new(shape), dtype, &packed);
    Laid { strides, base, bytes, array }
}

fn geometry(axis: usize, n: usize, shape: &[usize], operands: &[&Laid], out: &[usize]) -> AxisGeometry {
    let row_major = Shape::new(out).strides();
    let of = |i: usize| {
        let mut all = [0; 4];
        operands.iter().enumerate().for_each(|(k, o)| all[k] = o.strides[i]);
        all[operands.len()] = row_major[i];
        all
    };
    let dims = |r: std::ops::Range<usize>| r.map(|i| (shape[i], of(i))).collect();
    let mut base = [0; 4];
    operands.iter().enumerate().for_each(|(k, o)| base[k] = o.base);
    AxisGeometry {
        axis,
        outer: dims(0..axis),
        inner: dims(axis + 1..shape.len()),
        n,
        size: shape[axis],
        steps: of(axis),
        base,
    }
}

fn value(rng: &mut Lcg, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(rng.below(2) == 1),
        d if d.is_float() && rng.below(60) == 0 => Scalar::Float([f64::NAN, f64::INFINITY, -0.0][rng.below(3)]),
        d if d.is_float() => Scalar::Float(d.round(rng.value())),
        d => Scalar::Int(d.wrap(rng.below(1 << 20) as i64 * 4099)),
    }
}

fn same(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        _ => a.to_i64() == b.to_i64(),
    }
}

#[test]
fn random_layouts_agree_with_the_interpreter_on_any_number_of_threads() {
    let mut rng = Lcg(77);
    let devices = [device(1), device(2), device(7)];
    let scatters = [ScatterOp::Set, ScatterOp::Add, ScatterOp::Prod, ScatterOp::Max, ScatterOp::Min];
    let scans = [ScanOp::Sum, ScanOp::Max, ScanOp::Sort, ScanOp::Argsort];
    for round in 0..900 {
        let rank = 1 + rng.below(4);
        let long = rng.below(20) == 0;
        let shape: Vec<usize> = (0..rank).map(|i| 1 + rng.below(if long && i < 2 { 150 } else { 7 })).collect();
        let (axis, dtype) = (rng.below(rank), DType::ALL[rng.below(11)]);
        let mut index_shape = shape.clone();
        index_shape[axis] = rng.below(2 * shape[axis] + 2);
        let size = shape[axis];
        let x = lay(&mut rng, &shape, dtype, true, |r| value(r, dtype));
        let index = lay(&mut rng, &index_shape, DType::I64, true, |r| Scalar::Int(r.below(size) as i64));
        let values = lay(&mut rng, &index_shape, dtype, true, |r| value(r, dtype));
        let reverse = rng.below(2) == 1;
        let (op, kernel, operands, out) = match round % 3 {
            0 => {
                let op = scans[rng.below(4)];
                (Op::Scan(op), Kernel::Scan { op, reverse, dtype }, vec![&x], &shape)
            }
            1 => (Op::Gather, Kernel::Gather { dtype }, vec![&x, &index], &index_shape),
            _ => {
                let op = scatters[if dtype == DType::Bool { 0 } else { rng.below(5) }];
                (Op::Scatter(op), Kernel::Scatter { op, dtype }, vec![&x, &index, &values], &shape)
            }
        };
        let n = if operands.len() == 1 { size } else { index_shape[axis] };
        let g = geometry(axis, n, &shape, &operands, out);
        let out_dtype = if op == Op::Scan(ScanOp::Argsort) { DType::I64 } else { dtype };
        let attr = axis as u32 | if reverse && operands.len() == 1 { REVERSE } else { 0 };
        let rel = RelOp { op, dtype: out_dtype, rank: rank as u8, attr, args: [RelArg::NONE; 3] };
        let args: Vec<RefArg<'_>> = operands.iter().map(|o| RefArg::Array(&o.array)).collect();
        let want = reference::evaluate(&rel, Shape::new(out), &args, &[]);
        let elements = out.iter().product::<usize>();
        for device in &devices {
            let mut buffers: Vec<_> = operands.iter().map(|o| upload(&**device, &o.bytes)).collect();
            buffers.push(device.allocate(elements * out_dtype.size()).unwrap());
            let all: Vec<_> = buffers.iter().collect();
            let program = device.program(&kernel).unwrap();
            program.launch(&Geometry::Axis(g.clone()), &all, &[]).unwrap();
            let got: Vec<u8> = download(&**device, all[all.len() - 1], elements * out_dtype.size());
            for p in 0..elements {
                // SAFETY: the vector holds as many elements.
                let v = unsafe { read(got.as_ptr().add(p * out_dtype.size()), out_dtype) };
                assert!(same(v, want.get(p)), "{kernel:?} {g:?} at {p}: {v:?}, not {:?}", want.get(p));
            }
        }
    }
}

#[test]
fn an_index_out_of_range_writes_nothing_and_is_an_error() {
    let device = device(4);
    let (x, values) = (upload(&*device, &[1f32, 2.0, 3.0]), upload(&*device, &[9f32, 9.0, 9.0]));
    // What lies behind the result belongs to others.
    let out = device.allocate(16).unwrap();
    for wrong in [3i64, -1, i64::MAX, i64::MIN] {
        let index = upload(&*device, &[0i64, wrong, 2]);
        let strides = [1, 1, 1, 1];
        let g = AxisGeometry { axis: 0, outer: vec![], inner: vec![], n: 3, size: 3, steps: strides, base: [0; 4] };
        let scatter = device.program(&Kernel::Scatter { op: ScatterOp::Add, dtype: DType::F32 }).unwrap();
        let gather = device.program(&Kernel::Gather { dtype: DType::F32 }).unwrap();
        for result in [
            scatter.launch(&Geometry::Axis(g.clone()), &[&x, &index, &values, &out], &[]),
            gather.launch(&Geometry::Axis(g.clone()), &[&x, &index, &out], &[]),
        ] {
            let Err(Error::Index(message)) = result else { panic!("{result:?}") };
            assert!(message.contains(&format!("index {wrong} is out of range for axis 0 of size 3")), "{message}");
        }
    }
    assert_eq!(download::<f32>(&*device, &x, 3), [1.0, 2.0, 3.0]);
}
