use super::*;
use std::sync::Arc;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, BodyBuilder, Geometry, GroupPart, IndexMap, Kernel, MapGeometry, Node, NodeId,
    Orientation, RowGeometry,
};

/// Body of `ops` times `y = op(y)` over `n` f32 elements.
fn map(op: ElementOp, ops: usize, n: usize) -> CostFeatures {
    map_of(|b, x| (0..ops).fold(x, |y, _| b.element(op, &[y])), n)
}

fn map_of(f: impl Fn(&mut BodyBuilder, NodeId) -> NodeId, n: usize) -> CostFeatures {
    let mut b = BodyBuilder::new(false);
    let access = |o| Access { operand: Some(o), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false };
    let (from, to) = (b.access(access(0)), b.access(access(1)));
    let x = b.node(Node::Load { access: from });
    let y = f(&mut b, x);
    b.store(y, to);
    let mut at = AccessGeometry { base: 0, strides: [0; MAX_RANK], map: None, reach: Some((0, n - 1)), distinct: n };
    at.strides[0] = 1;
    let geometry = MapGeometry { extents: vec![n], accesses: vec![at.clone(), at] };
    Costs::typical().features(&Kernel::Map(b.finish()), &Geometry::Map(geometry), &[4 * n], &[4 * n])
}

/// Softmax over rows. `passes` is 3; without the division, the sum of exponentials alone would have 2.
fn softmax(rows: usize, row: usize) -> (Kernel, Geometry) {
    let mut b = BodyBuilder::new(false);
    let access = |o| Access { operand: Some(o), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false };
    let (from, to) = (b.access(access(0)), b.access(access(1)));
    let x = b.node(Node::Load { access: from });
    let m = b.fold(Monoid::Max, x);
    let d = b.element(ElementOp::Sub, &[x, m]);
    let e = b.element(ElementOp::Exp, &[d]);
    let s = b.fold(Monoid::Sum, e);
    let y = b.element(ElementOp::Div, &[e, s]);
    b.store(y, to);
    let n = rows * row;
    let mut at = AccessGeometry { base: 0, strides: [0; MAX_RANK], map: None, reach: Some((0, n - 1)), distinct: n };
    (at.strides[0], at.strides[1]) = (row as isize, 1);
    let geometry = RowGeometry { extents: vec![rows, row], kept: 1, accesses: vec![at.clone(), at] };
    (Kernel::Rows { body: b.finish(), orientation: Orientation::InnerAxis }, Geometry::Rows(geometry))
}

#[test]
fn features_of_a_softmax() {
    let (kernel, geometry) = softmax(128, 1000);
    let f = Costs::typical().features(&kernel, &geometry, &[512_000], &[512_000]);
    let rows = f.rows[0];
    assert_eq!((rows.rows, rows.row, rows.passes, rows.folds, rows.along), (128, 1000, 3, 2, true));
    // Exponentials are buffered for the last pass: computed once.
    assert_eq!(f.work.special, ElementOp::Exp.row().cost as u64 * 128_000);
    // The division is by a value of the row: two products.
    assert_eq!((f.work.divide, f.work.simple, f.work.fold), (0, 3 * 128_000, 256_000));
    // Loads of the second pass; exponentials written and read.
    assert_eq!(rows.again, (4 + 8) * 128_000);
    assert_eq!(f.traffic.iter().map(|t| (t.bytes, t.write)).collect::<Vec<_>>(), [(512_000, false), (512_000, true)]);
}

#[test]
fn never_nothing() {
    assert!(Costs::typical().time(&CostFeatures::default(), 0) > 0);
    let costs = Costs { launch: 0.0, ..Costs::typical() };
    assert!(costs.time(&CostFeatures::default(), 0) > 0);
}

#[test]
fn time_grows_with_arithmetic_bytes_and_passes() {
    let costs = Costs::typical();
    for n in [64, 4_000, 60_000, 1 << 20, 1 << 24] {
        for footprint in [8 * n as u64, 1 << 20, 1 << 30] {
            let mut f = map(ElementOp::Abs, 1, n);
            let mut last = costs.time(&f, footprint);
            let mut grows = |f: &CostFeatures| {
                let time = costs.time(f, footprint);
                assert!(time > last, "{n} {footprint}: {last} {time}");
                last = time;
            };
            for _ in 0..20 {
                f.work.special += n as u64 * 12;
                grows(&f);
            }
            for _ in 0..20 {
                f.traffic[0].bytes += 4 * n as u64;
                grows(&f);
            }
        }
    }
    let (kernel, geometry) = softmax(256, 512);
    let mut f = Costs::typical().features(&kernel, &geometry, &[1 << 19], &[1 << 19]);
    let three = costs.time(&f, 1 << 20);
    f.rows[0].passes = 2;
    assert!(costs.time(&f, 1 << 20) < three);
}

#[test]
fn row_kernels_of_a_group_cost_what_each_costs() {
    let costs = Costs::typical();
    let (kernel, geometry) = softmax(256, 512);
    let (short, small) = softmax(4, 8);
    let bytes = [1 << 19, 128, 1 << 19, 128];
    let time = |kernels: Vec<Kernel>, all: Vec<Geometry>, bytes: &[usize]| {
        let part = |kernel| GroupPart { kernel, reads: 1, writes: 1, scalars: 0 };
        let parts = (0..all.len() as u32).map(part).collect();
        let f = costs.features(&Kernel::Group { kernels, parts }, &Geometry::Group(all), &bytes[..2], &bytes[2..]);
        (f.rows.len(), costs.time(&f, 1 << 20))
    };
    let (kernels, geometries) = ([kernel, short], [geometry, small]);
    let [there, back] = [[0, 1], [1, 0]].map(|order: [usize; 2]| {
        let at = order.map(|i| [bytes[i], bytes[2 + i]]);
        let bytes = [at[0][0], at[1][0], at[0][1], at[1][1]];
        time(order.map(|i| kernels[i].clone()).into(), order.map(|i| geometries[i].clone()).into(), &bytes)
    });
    assert_eq!(there, back);
    assert_eq!(there.0, 2);
    let alone = costs.time(&costs.features(&kernels[0], &geometries[0], &bytes[..1], &bytes[2..3]), 1 << 20);
    assert!(there.1 >= alone, "{} for both, {alone} for the larger one", there.1);
}

#[test]
fn two_kernels_cost_a_launch_more_than_one() {
    let costs = Costs::typical();
    for n in [10, 10_000, 100_000, 1 << 22] {
        for (a, b) in [(1, 1), (3, 9), (40, 2)] {
            let footprint = 8 * n as u64;
            let time = |ops| costs.time(&map(ElementOp::Exp, ops, n), footprint);
            let launch = (costs.launch * 1e3) as u64;
            assert!(time(a) + time(b) + 2 >= launch + time(a + b), "{n} {a} {b}");
        }
    }
}

#[test]
fn little_work_stays_on_one_thread() {
    let many = Costs { threads: 64, ..Costs::typical() };
    let one = Costs { threads: 1, ..Costs::typical() };
    let small = map(ElementOp::Abs, 2, 70_000);
    assert_eq!(many.time(&small, 1 << 16), one.time(&small, 1 << 16));
    let large = map(ElementOp::Exp, 20, 1 << 22);
    assert!(many.time(&large, 1 << 25) < one.time(&large, 1 << 25) / 8);
}

#[test]
fn nearer_bytes_take_less_and_nothing_jumps() {
    let costs = Costs::typical();
    let f = map(ElementOp::Abs, 1, 1 << 16);
    let mut footprint = 1024f64;
    let mut last = costs.time(&f, footprint as u64);
    while footprint < 1e10 {
        footprint *= 1.02;
        let time = costs.time(&f, footprint as u64);
        assert!(time >= last && (time as f64) < last as f64 * 1.05, "{footprint}: {last} {time}");
        last = time;
    }
}

#[test]
fn constants_are_told_apart_and_kept() {
    let typical = Costs::typical();
    let other = Costs { fold: typical.fold * 1.001, ..typical.clone() };
    assert_ne!(typical.id(), other.id());
    let text = serde_json::to_string(&typical).unwrap();
    let read: Costs = serde_json::from_str(&text).unwrap();
    assert_eq!((&read, read.id()), (&typical, typical.id()));
}

#[test]
fn values_needed_twice_again_and_again_are_no_trouble() {
    let f = map_of(|b, x| (0..200).fold(x, |y, _| b.element(ElementOp::Mul, &[y, y])), 100);
    assert_eq!((f.work.simple, f.alive), (200 * 100, 2));
}

/// A `stack` of two interleaves them: rows of two points, read through tables, are joined into one.
#[test]
fn rows_of_two_points_through_tables_are_one_row() {
    let features = |rows: usize, pitch: usize| {
        let map = Arc::new(
            IndexMap::new(View::contiguous(Shape::new(&[rows, 2]))).permute(&[1, 0]).reshape(Shape::new(&[rows, 2])),
        );
        let mut b = BodyBuilder::new(false);
        let from = b.access(Access { class: AccessClass::Mapped, ..Access::contiguous(0, DType::F32) });
        let to = b.access(Access::contiguous(1, DType::F32));
        let x = b.node(Node::Load { access: from });
        b.store(x, to);
        let n = 2 * rows;
        let at = |strides, map| AccessGeometry { base: 0, strides, map, reach: Some((0, n - 1)), distinct: n };
        let mut strides = [0; MAX_RANK];
        (strides[0], strides[1]) = (pitch as isize, 1);
        let accesses = vec![at([0; MAX_RANK], Some(map)), at(strides, None)];
        let geometry = MapGeometry { extents: vec![rows, 2], accesses };
        Costs::typical().features(&Kernel::Map(b.finish()), &Geometry::Map(geometry), &[4 * n], &[4 * n])
    };
    assert_eq!((features(4096, 2).calls, features(4096, 3).calls, features(4, 2).calls), (4, 4096, 4));
}
