//! Compares groups with separate launches of their sub-kernels.

use super::{Lcg, device, download, upload};
use crate::{CpuDevice, CpuOptions};
use std::time::Instant;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid, Scalar, Shape};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, BodyBuilder, Geometry, GroupPart, Kernel, MapGeometry, Node,
    Orientation, RowGeometry,
};
use thalweg_runtime::{Buffer, Device};

/// Sub-kernel of a test group: kernel, geometry, and the number of f32 elements that it reads of each operand and
/// writes to the last one.
#[derive(Clone)]
struct Part {
    kernel: Kernel,
    geometry: Geometry,
    reads: Vec<usize>,
    written: usize,
}

fn access(operand: u16, class: AccessClass) -> Access {
    Access { operand: Some(operand), dtype: DType::F32, class, per_row: false }
}

fn at(strides: &[isize], distinct: usize) -> AccessGeometry {
    let mut all = [0; MAX_RANK];
    all[..strides.len()].copy_from_slice(strides);
    AccessGeometry { base: 0, strides: all, map: None, reach: None, distinct }
}

/// Builds the map body of `y = tanh(a · s) + b`, with the given access class of `a`.
fn body(class: AccessClass) -> Body {
    let mut b = BodyBuilder::new(false);
    let [a, other, to] = [(0, class), (1, AccessClass::Contiguous), (2, AccessClass::Contiguous)]
        .map(|(operand, class)| b.access(access(operand, class)));
    let a = b.node(Node::Load { access: a });
    let other = b.node(Node::Load { access: other });
    let s = b.scalar(0, DType::F32);
    let product = b.element(ElementOp::Mul, &[a, s]);
    let tanh = b.element(ElementOp::Tanh, &[product]);
    let sum = b.element(ElementOp::Add, &[tanh, other]);
    b.store(sum, to);
    b.finish()
}

fn flat(n: usize) -> Part {
    let geometry = MapGeometry { extents: vec![n], accesses: vec![at(&[1], n); 3] };
    let kernel = Kernel::Map(body(AccessClass::Contiguous));
    Part { kernel, geometry: Geometry::Map(geometry), reads: vec![n; 2], written: n }
}

/// Builds a map sub-kernel that reads the matrix `a` transposed.
fn transposed(rows: usize, columns: usize) -> Part {
    let n = rows * columns;
    let own = at(&Shape::new(&[rows, columns]).strides(), n);
    let accesses = vec![at(&[1, rows as isize], n), own.clone(), own];
    let geometry = MapGeometry { extents: vec![rows, columns], accesses };
    let kernel = Kernel::Map(body(AccessClass::Strided));
    Part { kernel, geometry: Geometry::Map(geometry), reads: vec![n; 2], written: n }
}

/// Builds a sub-kernel of two boxes: all rows but the last, and the last row.
fn boxes(rows: usize, columns: usize) -> Part {
    let chunk = |first: usize, rows: usize| {
        let mut geometry = MapGeometry { extents: vec![rows * columns], accesses: vec![at(&[1], rows * columns); 3] };
        geometry.accesses.iter_mut().for_each(|a| a.base = (first * columns) as isize);
        geometry
    };
    let geometry = Geometry::Boxes(vec![chunk(0, rows - 1), chunk(rows - 1, 1)]);
    let kernel = Kernel::Boxes(vec![body(AccessClass::Contiguous); 2]);
    Part { kernel, geometry, reads: vec![rows * columns; 2], written: rows * columns }
}

/// Builds a row sub-kernel that divides each row's elements by their sum.
fn shares(rows: usize, n: usize) -> Part {
    let mut b = BodyBuilder::new(false);
    let [from, to] = [0, 1].map(|operand| b.access(access(operand, AccessClass::Contiguous)));
    let x = b.node(Node::Load { access: from });
    let sum = b.fold(Monoid::Sum, x);
    let share = b.element(ElementOp::Div, &[x, sum]);
    b.store(share, to);
    let own = at(&[n as isize, 1], rows * n);
    let geometry = RowGeometry { extents: vec![rows, n], kept: 1, accesses: vec![own.clone(), own] };
    let kernel = Kernel::Rows { body: b.finish(), orientation: Orientation::InnerAxis };
    Part { kernel, geometry: Geometry::Rows(geometry), reads: vec![rows * n], written: rows * n }
}

/// Builds the group of all sub-kernels, each with one scalar, and its geometry.
fn together(parts: &[Part]) -> (Kernel, Geometry) {
    let mut kernels: Vec<Kernel> = vec![];
    let mut split = vec![];
    for part in parts {
        let kernel = kernels.iter().position(|k| *k == part.kernel).unwrap_or_else(|| {
            kernels.push(part.kernel.clone());
            kernels.len() - 1
        });
        split.push(GroupPart { kernel: kernel as u32, reads: part.reads.len() as u32, writes: 1, scalars: 1 });
    }
    let geometries = parts.iter().map(|p| p.geometry.clone()).collect();
    (Kernel::Group { kernels, parts: split }, Geometry::Group(geometries))
}

struct Operands {
    reads: Vec<Vec<Buffer>>,
    writes: Vec<Buffer>,
    scalars: Vec<u64>,
}

impl Operands {
    fn new(device: &CpuDevice, parts: &[Part]) -> Operands {
        let mut rng = Lcg(3);
        let mut buffer = |n: &usize| upload(device, &(0..*n).map(|_| rng.value() as f32).collect::<Vec<_>>());
        let reads = parts.iter().map(|p| p.reads.iter().map(&mut buffer).collect()).collect();
        let writes = parts.iter().map(|p| upload(device, &vec![f32::NAN; p.written])).collect();
        let scalar = |i: usize| Scalar::Float(0.25 + i as f64 / 8.0).to_bits(DType::F32);
        Operands { reads, writes, scalars: (0..parts.len()).map(scalar).collect() }
    }

    /// All operands in the order of a group: reads of all sub-kernels, then writes.
    fn all(&self) -> Vec<&Buffer> {
        self.reads.iter().flatten().chain(&self.writes).collect()
    }

    fn results(&self, device: &CpuDevice, parts: &[Part]) -> Vec<Vec<u32>> {
        self.writes.iter().zip(parts).map(|(b, p)| download(device, b, p.written)).collect()
    }
}

/// Launches the sub-kernels separately, and returns the bits of their results.
fn one_by_one(device: &CpuDevice, parts: &[Part]) -> Vec<Vec<u32>> {
    let operands = Operands::new(device, parts);
    for (i, part) in parts.iter().enumerate() {
        let own: Vec<&Buffer> = operands.reads[i].iter().chain([&operands.writes[i]]).collect();
        let program = device.program(&part.kernel).unwrap();
        program.launch(&part.geometry, &own, &operands.scalars[i..i + 1]).unwrap();
    }
    operands.results(device, parts)
}

fn mixed() -> Vec<Part> {
    let mut parts: Vec<Part> = [1, 2, 63, 64, 1000, 1, 40_000, 5].map(flat).into();
    parts.extend([transposed(7, 9), transposed(1, 1), transposed(300, 200)]);
    parts.extend([boxes(2, 3), boxes(90, 1000)]);
    parts.extend([shares(1, 1), shares(30, 17), shares(3, 0), shares(2, 9000)]);
    // Split over threads.
    parts.extend([flat(300_001), shares(400, 100)]);
    parts.extend((0..200).map(|i| flat(1 + 7 * i)));
    parts
}

#[test]
fn a_group_gives_the_bits_of_its_parts_on_any_number_of_threads() {
    let parts = mixed();
    let (kernel, geometry) = together(&parts);
    let want = one_by_one(&device(1), &parts);
    for threads in [1, 2, 8] {
        let device = device(threads);
        let operands = Operands::new(&device, &parts);
        let program = device.program(&kernel).unwrap();
        program.launch(&geometry, &operands.all(), &operands.scalars).unwrap();
        assert!(operands.results(&device, &parts) == want, "{threads} threads");
    }
}

#[test]
fn equal_parts_share_one_program_with_launches_of_their_own() {
    let device = device(1);
    let before = thalweg_runtime::counters();
    let (kernel, _) = together(&(1..100).map(flat).collect::<Vec<_>>());
    let program = device.program(&kernel).unwrap();
    let alone = device.program(&flat(1).kernel).unwrap();
    assert_eq!((thalweg_runtime::counters() - before).programs_compiled, 1);
    assert_eq!(program.info().code_bytes, alone.info().code_bytes);
    assert_eq!(program.info().engine, alone.info().engine);
}

#[test]
fn a_part_may_write_over_what_it_reads() {
    let parts = [flat(1000), flat(10), shares(5, 40)];
    let (kernel, geometry) = together(&parts);
    let device = device(2);
    let want = one_by_one(&device, &parts);
    let operands = Operands::new(&device, &parts);
    let program = device.program(&kernel).unwrap();
    let mut all = operands.all();
    let first_write = all.len() - parts.len();
    for (n, own) in operands.reads.iter().enumerate() {
        if !program.rereads_for(first_write + n) {
            all[first_write + n] = &own[0];
        }
    }
    program.launch(&geometry, &all, &operands.scalars).unwrap();
    for ((n, want), part) in want.iter().enumerate().zip(&parts) {
        assert!(download::<u32>(&*device, all[first_write + n], part.written) == *want, "part {n}");
    }
}

#[test]
fn nothing_runs_where_one_part_is_refused() {
    let mut parts = vec![flat(100), flat(100)];
    let device = device(1);
    let operands = Operands::new(&device, &parts);
    let Geometry::Map(geometry) = &mut parts[1].geometry else { unreachable!() };
    geometry.extents = vec![101];
    let (kernel, geometry) = together(&parts);
    let program = device.program(&kernel).unwrap();
    let launch = || program.launch(&geometry, &operands.all(), &operands.scalars);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(launch)).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("reaches elements 0 to 100 of operand 0, which has 100"));
    assert!(download::<f32>(&*device, &operands.writes[0], 100).iter().all(|v| v.is_nan()));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "what a part of a group writes is another's operand")]
fn parts_that_meet_are_refused() {
    let parts = [flat(100), flat(100)];
    let (kernel, geometry) = together(&parts);
    let device = device(1);
    let operands = Operands::new(&device, &parts);
    let mut all = operands.all();
    all[0] = &operands.writes[1];
    let _ = device.program(&kernel).unwrap().launch(&geometry, &all, &operands.scalars);
}

/// Measures the overhead of a sub-kernel beside its loop, and that of a separate launch.
#[test]
#[ignore = "measures"]
fn parts() {
    for threads in [1, CpuOptions::default().threads] {
        let device = CpuDevice::with(CpuOptions { threads, ..CpuOptions::default() });
        for n in [1usize, 16, 64, 256, 1024, 4096, 16_384] {
            let parts: Vec<Part> = (0..200).map(|_| flat(n)).collect();
            let (kernel, geometry) = together(&parts);
            let operands = Operands::new(&device, &parts);
            let all = operands.all();
            let program = device.program(&kernel).unwrap();
            let single = device.program(&parts[0].kernel).unwrap();
            let own: Vec<Vec<&Buffer>> =
                (0..200).map(|i| operands.reads[i].iter().chain([&operands.writes[i]]).collect()).collect();
            let (mut group, mut alone) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..200 {
                let start = Instant::now();
                program.launch(&geometry, &all, &operands.scalars).unwrap();
                group = group.min(start.elapsed().as_nanos() as f64);
                let start = Instant::now();
                for (own, part) in own.iter().zip(&parts) {
                    single.launch(&part.geometry, own, &operands.scalars).unwrap();
                }
                alone = alone.min(start.elapsed().as_nanos() as f64);
            }
            println!("{threads} threads, 200 of {n:5}: {:.0} ns a part, {:.0} a launch", group / 200.0, alone / 200.0);
        }
    }
}
