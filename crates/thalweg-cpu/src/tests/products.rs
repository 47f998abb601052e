//! Compares matrix products with the defining sum.

use super::{Lcg, device, download, read, upload, write};
use thalweg_ir::{DType, MAX_ARGS, Op, RelArg, RelOp, Scalar, Shape};
use thalweg_kernel::reference::{Array, Data, RefArg, evaluate};
use thalweg_kernel::{Contraction, ContractionGeometry, Geometry, Kernel, MatmulGeometry, Precision};
use thalweg_runtime::{Device, Error};

#[test]
fn random_products_agree_with_the_definition_on_any_number_of_threads() {
    let mut rng = Lcg(17);
    let devices = [device(1), device(2), device(8)];
    let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|d| *d != DType::Bool).collect();
    for round in 0..75 {
        let dtype = dtypes[round % dtypes.len()];
        let large = if round % 15 < 2 { 300 } else { 40 };
        let mut size = || match rng.below(8) {
            0 => 1,
            1 if round % 3 == 0 => 0,
            _ => 1 + rng.below(large),
        };
        let (m, n, k) = (size(), size(), size());
        // Any order of a factor's dimensions in memory; a batch dimension may be broadcast.
        let mut side = |rows: usize, columns: usize, batches: usize| {
            let skip = 1 + rng.below(2) as isize;
            let (r, c) = if rng.below(2) == 0 { (columns as isize * skip, skip) } else { (skip, rows as isize * skip) };
            let whole = rows * columns * skip as usize;
            let batch = if rng.below(3) == 0 { 0 } else { whole as isize };
            ((0, r, c), batch, whole * batches)
        };
        let batches = [1, 3][round % 2];
        let (a, batch_a, len_a) = side(m, k, batches);
        let (b, batch_b, len_b) = side(k, n, batches);
        let geometry = MatmulGeometry {
            batch: if batches == 1 { vec![] } else { vec![(batches, batch_a, batch_b)] },
            m,
            n,
            k,
            a,
            b,
            reach: [None, None],
        };
        let mut fill = |len: usize| {
            let mut bytes = vec![0u8; len * dtype.size()];
            for i in 0..len {
                let v = rng.value();
                let v = if dtype.is_float() { Scalar::Float(v) } else { Scalar::Int(dtype.wrap((v * 64.0) as i64)) };
                // SAFETY: the vector has space for that many elements.
                unsafe { write(bytes.as_mut_ptr().add(i * dtype.size()), dtype, v) };
            }
            bytes
        };
        let (va, vb) = (fill(len_a), fill(len_b));
        let count = batches * m * n;
        let mut first: Option<Vec<u8>> = None;
        for device in &devices {
            let (da, db) = (upload(&**device, &va), upload(&**device, &vb));
            let dc = upload(&**device, &vec![0xffu8; count * dtype.size()]);
            let program = device.program(&Kernel::Contraction(Contraction::unfused(dtype, Precision::Full))).unwrap();
            program
                .launch(
                    &Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry.clone()))),
                    &[&da, &db, &dc],
                    &[],
                )
                .unwrap();
            let got: Vec<u8> = download(&**device, &dc, count * dtype.size());
            assert_eq!(&got, first.get_or_insert(got.clone()), "threads change {dtype} {geometry:?}");
        }
        let got = first.unwrap();
        // SAFETY: the positions are inside the vectors, by construction.
        let element = |v: &[u8], p: isize| unsafe { read(v.as_ptr().offset(p * dtype.size() as isize), dtype) };
        for i in 0..count {
            let (g, row, column) = ((i / (m * n)) as isize, (i / n % m) as isize, (i % n) as isize);
            let (mut sum, mut size, mut int) = (0.0, 0.0, 0i64);
            for p in 0..k as isize {
                let x = element(&va, g * batch_a * (batches > 1) as isize + row * a.1 + p * a.2);
                let y = element(&vb, g * batch_b * (batches > 1) as isize + p * b.1 + column * b.2);
                sum += x.to_f64() * y.to_f64();
                size += (x.to_f64() * y.to_f64()).abs();
                int = int.wrapping_add(x.to_i64().wrapping_mul(y.to_i64()));
            }
            let have = element(&got, i as isize);
            let good = if dtype.is_float() {
                let rounding = sum.abs() * 2f64.powi(-(dtype.mantissa_digits() as i32));
                let steps = if dtype == DType::F64 { 1e-14 } else { 4e-6 };
                (have.to_f64() - sum).abs() <= rounding + size * steps
            } else {
                have.to_i64() == dtype.wrap(int)
            };
            assert!(good, "{dtype} element {i}: {have:?}, not {sum} or {int}; {geometry:?}");
        }
    }
}

#[test]
fn bool_has_no_product() {
    let refused = device(1).program(&Kernel::Contraction(Contraction::unfused(DType::Bool, Precision::Full)));
    assert!(matches!(refused, Err(Error::Compile { .. })));
}

#[test]
#[should_panic(expected = "a product reaches elements 0 to 5 of its right side, which has 5")]
fn reading_outside_a_side_panics() {
    let device = device(1);
    let [a, b, c] = [24, 20, 16].map(|n| device.allocate(n).unwrap());
    let geometry = MatmulGeometry { batch: vec![], m: 2, n: 2, k: 3, a: (0, 3, 1), b: (0, 2, 1), reach: [None, None] };
    let program = device.program(&Kernel::Contraction(Contraction::unfused(DType::F32, Precision::Full))).unwrap();
    program
        .launch(&Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry))), &[&a, &b, &c], &[])
        .unwrap();
}

/// Tests products of small integers, for which every order gives the exact sum, so results equal the interpreter's.
#[test]
fn products_of_small_integers_are_what_the_interpreter_says() {
    let mut rng = Lcg(23);
    for round in 0..60 {
        let dtype = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I8][round % 6];
        let edges = [1, 2, 5, 6, 7, 12, 13, 15, 16, 17, 33];
        let (m, n) = (edges[rng.below(edges.len())], edges[rng.below(edges.len())]);
        // Sums of bf16 stay exact: at most 2⁸ in magnitude.
        let k = [1, 3, 8, 31][rng.below(4)];
        let mut side = |rows: usize, columns: usize| {
            let values = (0..rows * columns).map(|_| rng.below(5) as i64 - 2);
            let data = match dtype.is_float() {
                true => Data::Float(values.map(|v| v as f64).collect()),
                false => Data::Int(values.collect()),
            };
            Array { shape: Shape::new(&[rows, columns]), dtype, data }
        };
        let (a, b) = (side(m, k), side(k, n));
        let rel = RelOp { op: Op::Matmul, dtype, rank: 2, attr: 0, args: [RelArg::NONE; MAX_ARGS] };
        let expected = evaluate(&rel, Shape::new(&[m, n]), &[RefArg::Array(&a), RefArg::Array(&b)], &[]);
        let device = device(1 + round % 3);
        let (da, db) = (upload(&*device, &a.to_bytes()), upload(&*device, &b.to_bytes()));
        let dc = upload(&*device, &vec![0xffu8; m * n * dtype.size()]);
        let geometry = MatmulGeometry {
            batch: vec![],
            m,
            n,
            k,
            a: (0, k as isize, 1),
            b: (0, n as isize, 1),
            reach: [None, None],
        };
        let program = device.program(&Kernel::Contraction(Contraction::unfused(dtype, Precision::Full))).unwrap();
        program
            .launch(&Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry))), &[&da, &db, &dc], &[])
            .unwrap();
        let got: Vec<u8> = download(&*device, &dc, m * n * dtype.size());
        // Compared by value: a sum begins with +0 here, and with -0 in the interpreter, so sums of -0 differ in sign.
        let got = Array::from_bytes(Shape::new(&[m, n]), dtype, &got);
        assert_eq!(got.data, expected.data, "{dtype} {m} {n} {k}");
    }
}

#[test]
fn a_product_says_what_it_moves() {
    let moves = |threads: usize, m: usize, n: usize, k: usize| {
        let program =
            device(threads).program(&Kernel::Contraction(Contraction::unfused(DType::F32, Precision::Full))).unwrap();
        let geometry = MatmulGeometry {
            batch: vec![],
            m,
            n,
            k,
            a: (0, k as isize, 1),
            b: (0, n as isize, 1),
            reach: [None, None],
        };
        program.moves(&Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry))), false)
    };
    // Everything fits the caches: each factor is read once.
    let small = moves(2, 64, 64, 64);
    assert_eq!([small.read, small.written], [2 * 64 * 64 * 4, 64 * 64 * 4]);
    // GEMV: the matrix is read once, and so is the vector.
    let row = moves(2, 1, 1024, 4096);
    assert_eq!([row.read, row.written], [4 * (4096 + 1024 * 4096), 4 * 1024]);
    // Panels of the right factor are written and read again; the result is written once, whatever the number of terms.
    let size = 1500 * 1500 * 4;
    let large = moves(1, 1500, 1500, 1500);
    assert!(large.written >= 2 * size && large.written < 3 * size, "{large:?}");
    assert!(large.read >= 3 * size, "{large:?}");
    assert_eq!(moves(1, 1500, 1500, 0).written, size);
}
