//! Compares maps over narrow rows with their definition, point by point.

use super::{Lcg, device, download, upload};
use crate::{Choice, CpuDevice, CpuOptions};
use thalweg_ir::{DType, ElementOp, MAX_RANK};
use thalweg_kernel::{Access, AccessClass, AccessGeometry, Body, BodyBuilder, Geometry, Kernel, MapGeometry, Node};
use thalweg_runtime::Device;

/// Layout of an operand over a domain of `[slices, rows, width]`: strides, and position of the first element.
type Lies = ([isize; 3], isize);

/// Returns layout number `way`: dense; the same for all rows; the same for the rows of a slice; one element per row;
/// reversed rows; planes; reversed and the same for all rows; one element for all.
fn lies(way: usize, [_, rows, width]: [usize; 3]) -> Lies {
    let (rows, width) = (rows as isize, width as isize);
    match way {
        0 => ([rows * width, width, 1], 0),
        1 => ([0, 0, 1], 0),
        2 => ([width, 0, 1], 2),
        3 => ([rows, 1, 0], 1),
        4 => ([rows * width, width, -1], width - 1),
        5 => ([rows * width, 1, rows], 0),
        6 => ([0, 0, -1], width),
        _ => ([0, 0, 0], 3),
    }
}

fn geometry(extents: [usize; 3], lies: &[Lies]) -> MapGeometry {
    let accesses = lies.iter().map(|&(steps, base)| {
        let mut strides = [0; MAX_RANK];
        strides[..3].copy_from_slice(&steps);
        AccessGeometry { base, strides, map: None, reach: None, distinct: 1 }
    });
    MapGeometry { extents: extents.to_vec(), accesses: accesses.collect() }
}

/// Builds the map body `2·x + y` of f32 and u8 elements; `check` stores the result with gaps between slices.
fn body(classes: [AccessClass; 2]) -> Body {
    let mut b = BodyBuilder::new(false);
    let x = b.access(Access { class: classes[0], ..Access::contiguous(0, DType::F32) });
    let y = b.access(Access { class: classes[1], ..Access::contiguous(1, DType::U8) });
    let to = b.access(Access::contiguous(2, DType::F32));
    let [x, y] = [x, y].map(|access| b.node(Node::Load { access }));
    let (y, two) = (b.cast(y, DType::F32), b.constant(2.0.into(), DType::F32));
    let product = b.element(ElementOp::Mul, &[x, two]);
    let sum = b.element(ElementOp::Add, &[product, y]);
    b.store(sum, to);
    b.finish()
}

fn check(device: &CpuDevice, body: &Body, rng: &mut Lcg, extents: [usize; 3], inputs: [Lies; 2]) {
    let [slices, rows, width] = extents;
    let (apart, all) = (rows * width + 5, slices * rows * width);
    let result = ([apart as isize, width as isize, 1], 2);
    let places = all + 2 * width + 8;
    let x: Vec<f32> = (0..places).map(|_| rng.value() as f32).collect();
    let y: Vec<u8> = (0..places).map(|_| rng.below(256) as u8).collect();
    let operands = [upload(device, &x), upload(device, &y), upload(device, &vec![99.0f32; 2 + slices * apart])];
    let geometry = geometry(extents, &[inputs[0], inputs[1], result]);
    let program = device.program(&Kernel::Map(body.clone())).unwrap();
    program.launch(&Geometry::Map(geometry), &operands.each_ref(), &[]).unwrap();
    let got: Vec<f32> = download(device, &operands[2], 2 + slices * apart);
    let mut want = vec![99.0f32; 2 + slices * apart];
    for p in 0..all {
        let index = [p / (rows * width), p / width % rows, p % width];
        let at = |(steps, base): Lies| (0..3).map(|d| steps[d] * index[d] as isize).sum::<isize>() + base;
        want[at(result) as usize] = x[at(inputs[0]) as usize] * 2.0 + y[at(inputs[1]) as usize] as f32;
    }
    assert!(got == want, "{extents:?} {inputs:?}");
}

#[test]
fn narrow_rows_agree_with_the_definition() {
    let mut rng = Lcg(5);
    let mut devices = vec![device(1), device(2)];
    for isa in [Choice::Avx2, Choice::Tile].into_iter().filter(|c| c.available()) {
        devices.push(CpuDevice::with(CpuOptions { threads: 2, parallel_ns: 0.0, isa }));
    }
    let class = |l: Lies| AccessClass::of_step(l.0[2]);
    for round in 0..120 {
        let width = [2, 3, 4, 5, 6, 7, 8, 9, 31, 100, 128, 130][rng.below(if round % 3 == 0 { 12 } else { 7 })];
        let rows = [7, 8, 9, 40, 1000, 20_000][rng.below(if round % 10 == 0 { 6 } else { 5 })];
        let extents = [1 + rng.below(3), rows, width];
        let inputs = [rng.below(8), rng.below(8)].map(|way| lies(way, extents));
        let body = body(inputs.map(class));
        for device in &devices {
            check(device, &body, &mut rng, extents, inputs);
        }
    }
}

/// Tests that one program serves launches with different operand layouts of the same access classes.
#[test]
fn a_program_meets_rows_that_lie_otherwise() {
    let (mut rng, device) = (Lcg(6), device(2));
    let extents = [2, 500, 3];
    let body = body([AccessClass::Uniform; 2]);
    for ways in [[3, 7], [7, 3], [3, 3], [7, 7], [3, 7]] {
        check(&device, &body, &mut rng, extents, ways.map(|w| lies(w, extents)));
    }
}
