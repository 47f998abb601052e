//! Compares scans (row kernels), gathers (maps) and scatters over random layouts with the interpreter, on any number of
//! threads.

use super::{Lcg, device, download, read, upload, write};
use thalweg_ir::{DType, ElementOp, MAX_ARGS, MAX_RANK, Op, REVERSE, RelArg, RelOp, Scalar, ScanOp, ScatterOp, Shape};
use thalweg_kernel::reference::{self, Array, RefArg};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, BodyBuilder, Geometry, Kernel, MapGeometry, Node, Orientation, RowGeometry,
    ScatterGeometry, ScatterOrder,
};
use thalweg_runtime::{Device, Error};

/// Test tensor in some memory layout: strides, position of the first element, bytes of the buffer, logical contents.
struct Laid {
    strides: Vec<isize>,
    base: isize,
    bytes: Vec<u8>,
    array: Array,
}

/// Lays out dimensions in random order, some flipped, some with gaps, sometimes one broadcast.
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
        // SAFETY: the vector has space for that many elements.
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

/// Builds the kernel and geometry of a scatter along an axis.
fn scatter(op: ScatterOp, dtype: DType, axis: usize, [x, index, values]: [&Laid; 3]) -> (Kernel, Geometry) {
    let shape = x.array.shape;
    let out = shape.strides();
    let of = |i: usize| [x.strides[i], index.strides[i], values.strides[i], out[i]];
    let dims = |r: std::ops::Range<usize>| r.map(|i| (shape[i], of(i))).collect();
    let geometry = ScatterGeometry {
        axis,
        outer: dims(0..axis),
        inner: dims(axis + 1..shape.rank()),
        n: index.array.shape[axis],
        size: shape[axis],
        steps: of(axis),
        base: [x.base, index.base, values.base, 0],
        inputs: [None, None],
    };
    (Kernel::Scatter { op, dtype, order: ScatterOrder::Indices, inputs: [None, None] }, Geometry::Scatter(geometry))
}

/// Builder of a body and its accesses over the dimensions of a tensor in any order; `along` is the innermost one.
struct Accesses {
    b: BodyBuilder,
    order: Vec<usize>,
    along: usize,
    all: Vec<AccessGeometry>,
}

impl Accesses {
    fn add(&mut self, operand: u16, dtype: DType, base: isize, strides: &[isize]) -> u16 {
        let mut at = AccessGeometry { base, strides: [0; MAX_RANK], map: None, reach: None, distinct: 1 };
        for (to, &axis) in at.strides.iter_mut().zip(&self.order) {
            *to = strides[axis];
        }
        let class = match at.strides[self.along] {
            1 => AccessClass::Contiguous,
            0 => AccessClass::Uniform,
            _ => AccessClass::Strided,
        };
        self.all.push(at);
        self.b.access(Access { operand: Some(operand), dtype, class, per_row: false })
    }
}

/// Builds the row kernel and geometry of a scan along an axis, with inner-axis or outer-axis orientation.
fn scan(op: ScanOp, reverse: bool, axis: usize, across: bool, x: &Laid) -> (Kernel, Geometry) {
    let shape = x.array.shape;
    let order: Vec<usize> = (0..shape.rank()).filter(|&a| a != axis).chain([axis]).collect();
    let across = across && order.len() > 1;
    let kept = order.len() - 1;
    let extents = order.iter().map(|&a| shape[a]).collect();
    let along = if across { kept - 1 } else { kept };
    let mut a = Accesses { b: BodyBuilder::new(false), order, along, all: vec![] };
    let from = a.add(0, x.array.dtype, x.base, &x.strides);
    let element = a.b.node(Node::Load { access: from });
    let scanned = a.b.scan(op, reverse, element);
    let dtype = a.b.body().dtype(scanned);
    let to = a.add(1, dtype, 0, &shape.strides());
    a.b.store(scanned, to);
    let orientation = if across { Orientation::OuterAxis } else { Orientation::InnerAxis };
    let geometry = RowGeometry { extents, kept, accesses: a.all };
    (Kernel::Rows { body: a.b.finish(), orientation }, Geometry::Rows(geometry))
}

/// Builds the map kernel and geometry of a gather along an axis.
fn gather(axis: usize, x: &Laid, index: &Laid) -> (Kernel, Geometry) {
    let shape = index.array.shape;
    let order: Vec<usize> = (0..shape.rank()).collect();
    let along = order.len() - 1;
    let mut a = Accesses { b: BodyBuilder::new(false), order, along, all: vec![] };
    let mut across = x.strides.clone();
    across[axis] = 0;
    let from = a.add(0, x.array.dtype, x.base, &across);
    let by = a.add(1, DType::I64, index.base, &index.strides);
    let place = a.b.node(Node::Load { access: by });
    let [zero, end, step] =
        [0, x.array.shape[axis] as i64, x.strides[axis] as i64].map(|v| a.b.constant(Scalar::Int(v), DType::I64));
    let (low, high) = (a.b.element(ElementOp::Ge, &[place, zero]), a.b.element(ElementOp::Lt, &[place, end]));
    let inside = a.b.element(ElementOp::And, &[low, high]);
    let offset = a.b.element(ElementOp::Mul, &[place, step]);
    let element = a.b.node(Node::Gather { access: from, offset, inside });
    let to = a.add(2, x.array.dtype, 0, &shape.strides());
    a.b.store(element, to);
    let geometry = MapGeometry { extents: shape.dims().to_vec(), accesses: a.all };
    (Kernel::Map(a.b.finish()), Geometry::Map(geometry))
}

fn value(rng: &mut Lcg, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(rng.below(2) == 1),
        d if d.is_float() && rng.below(60) == 0 => Scalar::Float([f64::NAN, f64::INFINITY, -0.0][rng.below(3)]),
        d if d.is_float() => Scalar::Float(d.round(rng.value())),
        d => Scalar::integer(d.wrap((rng.below(1 << 20) as i64).wrapping_mul(0x1003_0000_4099)), d),
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
    let scans = [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min, ScanOp::Sort, ScanOp::Argsort];
    for round in 0..900 {
        let rank = 1 + rng.below(4);
        let long = rng.below(20) == 0;
        let shape: Vec<usize> = (0..rank).map(|i| 1 + rng.below(if long && i < 2 { 150 } else { 7 })).collect();
        let (axis, dtype) = (rng.below(rank), DType::ALL[rng.below(DType::ALL.len())]);
        let mut index_shape = shape.clone();
        index_shape[axis] = rng.below(2 * shape[axis] + 2);
        if rank == 1 && rng.below(2) == 0 {
            // Many values per index.
            index_shape[0] = 20 * shape[0] + rng.below(70);
        }
        let size = shape[axis];
        let x = lay(&mut rng, &shape, dtype, true, |r| value(r, dtype));
        let index = lay(&mut rng, &index_shape, DType::I64, true, |r| Scalar::Int(r.below(size) as i64));
        let values = lay(&mut rng, &index_shape, dtype, true, |r| value(r, dtype));
        let reverse = rng.below(2) == 1;
        let (op, (kernel, geometry), operands, out) = match round % 3 {
            0 => {
                let op = scans[rng.below(scans.len())];
                (Op::Scan(op), scan(op, reverse, axis, rng.below(2) == 1, &x), vec![&x], &shape)
            }
            1 if index_shape[axis] == 0 => continue,
            1 => (Op::Gather, gather(axis, &x, &index), vec![&x, &index], &index_shape),
            _ => {
                let op = scatters[if dtype == DType::Bool { 0 } else { rng.below(5) }];
                (Op::Scatter(op), scatter(op, dtype, axis, [&x, &index, &values]), vec![&x, &index, &values], &shape)
            }
        };
        let out_dtype = if op == Op::Scan(ScanOp::Argsort) { DType::I64 } else { dtype };
        let attr = axis as u32 | if reverse && operands.len() == 1 { REVERSE } else { 0 };
        let rel = RelOp { op, dtype: out_dtype, rank: rank as u8, attr, args: [RelArg::NONE; MAX_ARGS] };
        let args: Vec<RefArg<'_>> = operands.iter().map(|o| RefArg::Array(&o.array)).collect();
        let want = reference::evaluate(&rel, Shape::new(out), &args, &[]);
        let elements = out.iter().product::<usize>();
        for device in &devices {
            let mut buffers: Vec<_> = operands.iter().map(|o| upload(&**device, &o.bytes)).collect();
            buffers.push(device.allocate(elements * out_dtype.size()).unwrap());
            let all: Vec<_> = buffers.iter().collect();
            let program = device.program(&kernel).unwrap();
            program.launch(&geometry, &all, &[]).unwrap();
            let got: Vec<u8> = download(&**device, all[all.len() - 1], elements * out_dtype.size());
            for p in 0..elements {
                // SAFETY: the vector holds that many elements.
                let v = unsafe { read(got.as_ptr().add(p * out_dtype.size()), out_dtype) };
                assert!(same(v, want.get(p)), "{kernel:?} {geometry:?} at {p}: {v:?}, not {:?}", want.get(p));
            }
        }
    }
}

#[test]
fn a_scatter_by_an_index_out_of_range_writes_nothing_and_is_an_error() {
    let device = device(4);
    let (x, values) = (upload(&*device, &[1f32, 2.0, 3.0]), upload(&*device, &[9f32, 9.0, 9.0]));
    // Memory after the result belongs to others.
    let out = device.allocate(16).unwrap();
    for wrong in [3i64, -1, i64::MAX, i64::MIN] {
        let index = upload(&*device, &[0i64, wrong, 2]);
        let (outer, inner, inputs) = (vec![], vec![], [None, None]);
        let g = ScatterGeometry { axis: 0, outer, inner, n: 3, size: 3, steps: [1; 4], base: [0; 4], inputs };
        let scatter = device
            .program(&Kernel::Scatter {
                op: ScatterOp::Add,
                dtype: DType::F32,
                order: ScatterOrder::Indices,
                inputs: [None, None],
            })
            .unwrap();
        let result = scatter.launch(&Geometry::Scatter(g), &[&x, &index, &values, &out], &[]);
        let Err(Error::Index(message)) = result else { panic!("{result:?}") };
        assert!(message.contains(&format!("index {wrong} is out of range for axis 0 of size 3")), "{message}");
    }
    assert_eq!(download::<f32>(&*device, &x, 3), [1.0, 2.0, 3.0]);
}
