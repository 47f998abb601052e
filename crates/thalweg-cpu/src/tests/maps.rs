//! Compares map launches with their definition, point by point.

use super::{Lcg, device, download, upload};
use crate::{Choice, CpuDevice, CpuOptions};
use std::sync::Arc;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Scalar, Shape, View};
use thalweg_kernel::{Access, AccessClass, AccessGeometry, BodyBuilder, Geometry, IndexMap, Kernel, MapGeometry, Node};
use thalweg_runtime::Device;

/// Returns the class and geometry of an access through an index map.
fn access_of(map: &IndexMap) -> (AccessClass, AccessGeometry) {
    let mut at =
        AccessGeometry { base: 0, strides: [0; MAX_RANK], map: None, reach: map.reach(), distinct: map.distinct() };
    let Some(view) = map.as_view() else {
        at.map = Some(Arc::new(map.clone()));
        return (AccessClass::Mapped, at);
    };
    at.base = view.offset;
    at.strides[..view.strides().len()].copy_from_slice(view.strides());
    (view.strides().last().map_or(AccessClass::Strided, |&step| AccessClass::of_step(step)), at)
}

/// Generates a random index map of shape `shape`, with the number of elements of its source.
fn random_map(rng: &mut Lcg, shape: Shape) -> (usize, IndexMap) {
    let rank = shape.rank();
    let whole = |s: Shape| IndexMap::new(View::contiguous(s));
    match rng.below(9) {
        0 | 1 => (shape.numel(), whole(shape)),
        2 => {
            let dims: Vec<usize> = shape.iter().map(|&d| if rng.below(2) == 0 { 1 } else { d }).collect();
            let small = Shape::new(&dims);
            (small.numel(), whole(small).expand(shape))
        }
        3 | 4 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for i in (1..rank).rev() {
                order.swap(i, rng.below(i + 1));
            }
            let mut dims = vec![0; rank];
            for (i, &o) in order.iter().enumerate() {
                dims[o] = shape[i];
            }
            let source = Shape::new(&dims);
            (source.numel(), whole(source).permute(&order))
        }
        5 => {
            // A column of a matrix in every row: packed before the launch where there are several.
            let mut dims = vec![1; rank];
            dims[rank - 1] = 3 * shape[rank - 1];
            let small = Shape::new(&dims);
            let mut parts = vec![(0, 1, 1); rank];
            parts[rank - 1] = (1, 3, shape[rank - 1]);
            (small.numel(), whole(small).slice(&parts).expand(shape))
        }
        6 => {
            let steps: Vec<i64> = shape.iter().map(|_| [1, 2, -1, -3][rng.below(4)]).collect();
            let dims: Vec<usize> = shape.iter().zip(&steps).map(|(&d, s)| d * s.unsigned_abs() as usize + 1).collect();
            let parts: Vec<(i64, i64, usize)> = shape
                .iter()
                .zip(&steps)
                .map(|(&d, &s)| if s > 0 { (1, s, d) } else { (d as i64 * -s, s, d) })
                .collect();
            let source = Shape::new(&dims);
            (source.numel(), whole(source).slice(&parts))
        }
        7 => {
            let parts: Vec<(usize, usize)> = shape.iter().map(|&d| (rng.below(d), 0)).collect();
            let parts: Vec<(usize, usize)> =
                parts.iter().zip(shape.iter()).map(|(p, &d)| (p.0, rng.below(d - p.0))).collect();
            let dims: Vec<usize> = shape.iter().zip(&parts).map(|(d, p)| d - p.0 - p.1).collect();
            let source = Shape::new(&dims);
            (source.numel(), whole(source).pad(&parts))
        }
        _ => {
            // Transposed, then reshaped: two composed views.
            let n = shape.numel();
            let d = (2..=n).find(|d| n.is_multiple_of(*d)).unwrap_or(1);
            (n, whole(Shape::new(&[d, n / d])).permute(&[1, 0]).reshape(shape))
        }
    }
}

#[test]
fn random_geometries_agree_with_the_definition() {
    let mut rng = Lcg(11);
    let mut devices = vec![device(1), device(2), device(8)];
    for isa in [Choice::Avx2, Choice::Tile].into_iter().filter(|c| c.available()) {
        devices.push(CpuDevice::with(CpuOptions { threads: 2, parallel_ns: 0.0, isa }));
    }
    for round in 0..400 {
        let large = round % 20 == 0;
        let dims: Vec<usize> = match rng.below(4) {
            0 => vec![1 + rng.below(if large { 100_000 } else { 300 })],
            1 => vec![1 + rng.below(if large { 300 } else { 40 }), 1 + rng.below(if large { 500 } else { 40 })],
            2 => vec![1 + rng.below(5), 1 + rng.below(90), 1 + rng.below(if large { 200 } else { 9 })],
            _ => vec![1 + rng.below(4), 1 + rng.below(4), 1 + rng.below(4), 1 + rng.below(70)],
        };
        let shape = Shape::new(&dims);
        let points = shape.numel();
        let inputs: Vec<(usize, IndexMap)> = (0..1 + rng.below(3)).map(|_| random_map(&mut rng, shape)).collect();

        // y = Σ input · scalar, with masks of padded inputs; z = a position.
        let mut b = BodyBuilder::new(false);
        let mut accesses = vec![];
        let s = b.scalar(0, DType::F32);
        let mut y = b.constant(Scalar::Float(0.25), DType::F32);
        for (i, (_, map)) in inputs.iter().enumerate() {
            let (class, at) = access_of(map);
            let access = b.access(Access { operand: Some(i as u16), dtype: DType::F32, class, per_row: false });
            accesses.push(at);
            let x = b.node(Node::Load { access });
            let p = b.element(ElementOp::Mul, &[x, s]);
            y = b.element(ElementOp::Add, &[y, p]);
        }
        let (class, at) = access_of(&inputs[0].1);
        let index_access = b.access(Access { operand: None, dtype: DType::U32, class, per_row: false });
        accesses.push(at);
        let index = b.node(Node::Index { access: index_access, dtype: DType::I64 });
        let valid = b.node(Node::Valid { access: index_access });
        let minus = b.constant(Scalar::Int(-1), DType::I64);
        let z = b.element(ElementOp::Where, &[valid, index, minus]);
        // The outputs: one with gaps between the outermost slices, one dense.
        let k = inputs.len() as u16;
        let mut gaps = AccessGeometry { base: 3, strides: shape.strides(), map: None, reach: None, distinct: points };
        gaps.strides[0] += if dims.len() > 1 { 5 } else { 0 };
        let end = 3 + points + 5 * dims[0];
        let dense = AccessGeometry { base: 0, strides: shape.strides(), ..gaps.clone() };
        for (node, dtype, operand, at) in [(y, DType::F32, k, &gaps), (z, DType::I64, k + 1, &dense)] {
            let out =
                b.access(Access { operand: Some(operand), dtype, class: AccessClass::Contiguous, per_row: false });
            accesses.push(at.clone());
            b.store(node, out);
        }
        let kernel = Kernel::Map(b.finish());
        let geometry = Geometry::Map(MapGeometry { extents: dims.clone(), accesses });

        let values: Vec<Vec<f32>> = inputs.iter().map(|(n, _)| (0..*n).map(|_| rng.value() as f32).collect()).collect();
        let mut wanted = vec![99.0f32; end];
        let mut wanted_index = vec![];
        for p in 0..points {
            let sum = inputs
                .iter()
                .zip(&values)
                .fold(0.25f32, |sum, ((_, map), v)| sum + map.position(p).map_or(0.0, |at| v[at]) * 0.5);
            let inner = points / dims[0];
            wanted[3 + p + if dims.len() > 1 { 5 * (p / inner) } else { 0 }] = sum;
            wanted_index.push(inputs[0].1.position(p).map_or(-1, |p| p as i64));
        }
        for device in &devices {
            let mut operands: Vec<_> = values.iter().map(|v| upload(&**device, v)).collect();
            operands.push(upload(&**device, &vec![99.0f32; end]));
            operands.push(device.allocate(points * 8).unwrap());
            let refs: Vec<_> = operands.iter().collect();
            let program = device.program(&kernel).unwrap();
            program.launch(&geometry, &refs, &[Scalar::Float(0.5).to_bits(DType::F32)]).unwrap();
            let got: Vec<f32> = download(&**device, refs[k as usize], end);
            assert_eq!(got, wanted, "{shape} {inputs:?}");
            let got: Vec<i64> = download(&**device, refs[k as usize + 1], points);
            assert_eq!(got, wanted_index, "{shape} {inputs:?}");
        }
    }
    assert!(devices[0].memory().recycled > 0);
}

/// Tests transposes whose columns conflict in the caches, so that launches pack blocks.
#[test]
fn transposes_of_powers_of_two() {
    let (rows, columns) = (256usize, 300usize);
    for (dtype, size) in [(DType::F64, 8), (DType::I32, 4), (DType::I16, 2), (DType::U8, 1)] {
        let pitch = 1024 / size;
        let device = device(2);
        let mut rng = Lcg(size as u64);
        let source: Vec<u8> = (0..columns * pitch * size).map(|_| (rng.below(64) as u8) | 1).collect();
        let mut b = BodyBuilder::new(false);
        let from = b.access(Access { operand: Some(0), dtype, class: AccessClass::Strided, per_row: false });
        let to = b.access(Access { operand: Some(1), dtype, class: AccessClass::Contiguous, per_row: false });
        let x = b.node(Node::Load { access: from });
        b.store(x, to);
        let (input, output) = (upload(&*device, &source), device.allocate(rows.min(pitch) * columns * size).unwrap());
        let rows = rows.min(pitch);
        let accesses = vec![strided(0, &[1, pitch as isize]), strided(0, &[columns as isize, 1])];
        let geometry = Geometry::Map(MapGeometry { extents: vec![rows, columns], accesses });
        let program = device.program(&Kernel::Map(b.finish())).unwrap();
        program.launch(&geometry, &[&input, &output], &[]).unwrap();
        let got: Vec<u8> = download(&*device, &output, rows * columns * size);
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let (have, want) = ((i * columns + j) * size, (j * pitch + i) * size);
            assert_eq!(got[have..have + size], source[want..want + size], "{dtype} {i} {j}");
        }
    }
}

/// Launches the map `out[p] = -input[p]` with these geometries.
fn negate(extents: &[usize], input: AccessGeometry, class: AccessClass, output: AccessGeometry, bytes: [usize; 2]) {
    let device = device(2);
    let mut b = BodyBuilder::new(false);
    let from = b.access(Access { operand: Some(0), dtype: DType::F32, class, per_row: false });
    let x = b.node(Node::Load { access: from });
    let y = b.element(ElementOp::Neg, &[x]);
    let to = b.access(Access { operand: Some(1), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false });
    b.store(y, to);
    let program = device.program(&Kernel::Map(b.finish())).unwrap();
    let (a, c) = (upload(&*device, &vec![0u8; bytes[0]]), upload(&*device, &vec![0u8; bytes[1]]));
    let geometry = Geometry::Map(MapGeometry { extents: extents.to_vec(), accesses: vec![input, output] });
    program.launch(&geometry, &[&a, &c], &[]).unwrap();
}

fn strided(base: isize, strides: &[isize]) -> AccessGeometry {
    let mut at = AccessGeometry { base, strides: [0; MAX_RANK], map: None, reach: Some((0, 0)), distinct: 1 };
    at.strides[..strides.len()].copy_from_slice(strides);
    at
}

#[test]
#[should_panic(expected = "reaches elements 1 to 10 of operand 0, which has 10")]
fn reading_outside_an_operand_panics_whatever_the_reach_says() {
    negate(&[10], strided(1, &[1]), AccessClass::Contiguous, strided(0, &[1]), [40, 40]);
}

#[test]
#[should_panic(expected = "of operand 1, which has 9")]
fn writing_outside_an_operand_panics() {
    negate(&[2, 5], strided(0, &[0, 0]), AccessClass::Uniform, strided(0, &[5, 1]), [4, 39]);
}

#[test]
#[should_panic(expected = "of operand 0")]
fn reading_before_an_operand_panics() {
    negate(&[4], strided(2, &[-1]), AccessClass::Strided, strided(0, &[1]), [40, 40]);
}

#[test]
#[should_panic(expected = "writes one element from two points")]
fn overlapping_writes_panic() {
    negate(&[3, 4], strided(0, &[0, 1]), AccessClass::Contiguous, strided(0, &[2, 1]), [40, 48]);
}

#[test]
#[should_panic(expected = "access 0 reaches")]
fn maps_that_lead_outside_panic() {
    let map = IndexMap::new(View::contiguous(Shape::new(&[4]))).pad(&[(2, 0)]);
    let mut at = strided(0, &[]);
    at.map = Some(Arc::new(map));
    negate(&[6], at, AccessClass::Mapped, strided(0, &[1]), [12, 24]);
}

#[test]
fn more_than_the_machine_has_is_an_error() {
    assert!(device(1).allocate(1 << 46).is_err());
}

#[test]
fn programs_are_compiled_once() {
    let device = device(1);
    let kernel = || {
        let mut b = BodyBuilder::new(false);
        let x = b.constant(Scalar::Int(3), DType::I32);
        let to =
            b.access(Access { operand: Some(0), dtype: DType::I32, class: AccessClass::Contiguous, per_row: false });
        b.store(x, to);
        Kernel::Map(b.finish())
    };
    let before = thalweg_runtime::counters();
    let first = device.program(&kernel()).unwrap();
    assert!(Arc::ptr_eq(&first, &device.program(&kernel()).unwrap()));
    assert_eq!((thalweg_runtime::counters() - before).programs_compiled, 1);
    assert!(device.program(&kernel()).is_ok());
}

/// Lanes that read one cache line, two of them, or more, of every dtype, from any place in a line.
#[test]
fn neighbours_in_tables_are_read_from_their_lines() {
    let mut devices = vec![device(1)];
    for isa in [Choice::Avx512, Choice::Avx2].into_iter().filter(|c| c.available()) {
        devices.push(CpuDevice::with(CpuOptions { threads: 1, parallel_ns: 0.0, isa }));
    }
    let shape = Shape::new(&[13, 3, 4]);
    for dtype in [DType::F32, DType::F64, DType::I64, DType::BF16, DType::U8] {
        for (row, inner, step) in [(4, 0, 1), (9, 3, 1), (16, 4, 1), (16, 0, 4), (33, 1, 3), (40, 11, 0), (200, 1, 60)]
        {
            for (first, masked) in [(0, false), (1, true), (6, false), (13, true), (15, false)] {
                let view = View::new(shape, &[row, inner, step], first);
                let len = (first + 12 * row + 2 * inner + 3 * step + 1) as usize;
                let values: Vec<u8> =
                    (0..len * dtype.size()).map(|i| (i / dtype.size() * 37 + 11 * (i % 2)) as u8).collect();
                // Masked where the first or the last of the innermost four would be: the result there is 0.
                let map = IndexMap::new(view);
                let map = if masked {
                    map.slice(&[(0, 1, 13), (0, 1, 3), (1, 1, 2)]).pad(&[(0, 0), (0, 0), (1, 1)])
                } else {
                    map
                };
                let at = |base, strides, map: Option<IndexMap>| AccessGeometry {
                    base,
                    strides,
                    reach: Some((0, if map.is_some() { len } else { shape.numel() } - 1)),
                    map: map.map(Arc::new),
                    distinct: len,
                };
                let mut b = BodyBuilder::new(false);
                let class = AccessClass::Mapped;
                let from = b.access(Access { operand: Some(0), dtype, class, per_row: false });
                let to = b.access(Access::contiguous(1, dtype));
                let x = b.node(Node::Load { access: from });
                b.store(x, to);
                let kernel = Kernel::Map(b.finish());
                let mut along = [0; MAX_RANK];
                along[0] = 1;
                let accesses = vec![at(0, [0; MAX_RANK], Some(map.clone())), at(0, along, None)];
                let geometry = Geometry::Map(MapGeometry { extents: vec![shape.numel()], accesses });
                for device in &devices {
                    let (from, to) =
                        (upload(&**device, &values), upload(&**device, &vec![0xffu8; shape.numel() * dtype.size()]));
                    device.program(&kernel).unwrap().launch(&geometry, &[&from, &to], &[]).unwrap();
                    let got: Vec<u8> = download(&**device, &to, shape.numel() * dtype.size());
                    for (point, got) in got.chunks_exact(dtype.size()).enumerate() {
                        let expected = match map.position(point) {
                            Some(p) => values[p * dtype.size()..][..dtype.size()].to_vec(),
                            None => vec![0; dtype.size()],
                        };
                        assert_eq!(got, expected, "{dtype}, point {point} of {row}, {inner}, {step} from {first}");
                    }
                }
            }
        }
    }
}
