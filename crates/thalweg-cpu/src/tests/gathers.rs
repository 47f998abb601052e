//! Tests of gathers with an index for every element, in and out of range.

use super::{Lcg, device, download, upload};
use crate::Choice;
use crate::engine::InnerReductionEngine;
use half::bf16;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid, Scalar};
use thalweg_kernel::{Access, AccessClass, AccessGeometry, Body, BodyBuilder, Geometry, Kernel, MapGeometry, Node};
use thalweg_runtime::{Device, Error};

fn strided(strides: &[isize]) -> AccessGeometry {
    let mut own = [0; MAX_RANK];
    own[..strides.len()].copy_from_slice(strides);
    AccessGeometry { base: 0, strides: own, map: None, reach: None, distinct: 1 }
}

/// Builds the body of `out[i, j] = x[i, index[i, j]]`, where `x` has `columns` columns, `apart` elements apart.
/// Operands: x, index, out.
fn select(columns: i64, apart: i64, class: AccessClass) -> Body {
    let mut b = BodyBuilder::new(false);
    let access = |operand, dtype, class| Access { operand: Some(operand), dtype, class, per_row: false };
    let from = b.access(access(0, DType::F32, AccessClass::Uniform));
    let index = b.access(access(1, DType::I64, class));
    let out = b.access(access(2, DType::F32, AccessClass::Contiguous));
    let index = b.node(Node::Load { access: index });
    let (zero, end) = (b.constant(Scalar::Int(0), DType::I64), b.constant(Scalar::Int(columns), DType::I64));
    let (low, high) = (b.element(ElementOp::Ge, &[index, zero]), b.element(ElementOp::Lt, &[index, end]));
    let inside = b.element(ElementOp::And, &[low, high]);
    let apart = b.constant(Scalar::Int(apart), DType::I64);
    let offset = b.element(ElementOp::Mul, &[index, apart]);
    let x = b.node(Node::Gather { access: from, offset, inside });
    b.store(x, out);
    b.finish()
}

#[test]
fn launches_gather_and_name_an_index_that_is_out_of_range() {
    let (rows, n, columns) = (300, 700, 50);
    let mut rng = Lcg(4);
    let x: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let index: Vec<i64> = (0..rows * n).map(|_| rng.below(columns) as i64).collect();
    for threads in [1, 3] {
        let device = device(threads);
        // The source row-major and column-major; the index contiguous and transposed, for which launches pack blocks of
        // it.
        for (by_columns, transposed) in [(false, false), (true, false), (false, true), (true, true)] {
            let class = if transposed { AccessClass::Strided } else { AccessClass::Contiguous };
            let (row, apart) = if by_columns { (1, rows) } else { (columns, 1) };
            let body = select(columns as i64, apart as i64, class);
            let strides = if transposed { [1, rows as isize] } else { [n as isize, 1] };
            let accesses = vec![strided(&[row as isize, 0]), strided(&strides), strided(&[n as isize, 1])];
            let geometry = Geometry::Map(MapGeometry { extents: vec![rows, n], accesses });
            let program = device.program(&Kernel::Map(body)).unwrap();
            let mut index = index.clone();
            for wrong in [None, Some((0, -1)), Some((rows * n - 1, columns as i64)), Some((777, i64::MIN))] {
                let kept = index.clone();
                if let Some((at, value)) = wrong {
                    index[at] = value;
                }
                let (from, by) = (upload(&*device, &x), upload(&*device, &index));
                let out = upload(&*device, &vec![0.0f32; rows * n]);
                match program.launch(&geometry, &[&from, &by, &out], &[]) {
                    Ok(()) => assert_eq!(wrong, None),
                    Err(Error::Index(message)) => assert!(wrong.is_some() && message.contains("gather"), "{message}"),
                    Err(other) => panic!("{other}"),
                }
                if wrong.is_none() {
                    let out: Vec<f32> = download(&*device, &out, rows * n);
                    for (p, &got) in out.iter().enumerate() {
                        let (i, j) = (p / n, p % n);
                        let at = index[(i as isize * strides[0] + j as isize * strides[1]) as usize] as usize;
                        assert_eq!(got, x[i * row + at * apart], "{i}, {j}");
                    }
                }
                index = kept;
            }
        }
    }
}

#[test]
fn nothing_is_gathered_from_an_operand_without_elements() {
    let device = device(1);
    let program = device.program(&Kernel::Map(select(0, 1, AccessClass::Contiguous))).unwrap();
    let (from, by) = (upload::<f32>(&*device, &[]), upload(&*device, &[0i64; 4]));
    let out = upload(&*device, &[0.0f32; 4]);
    let accesses = vec![strided(&[0]), strided(&[1]), strided(&[1])];
    let geometry = Geometry::Map(MapGeometry { extents: vec![4], accesses });
    let failed = program.launch(&geometry, &[&from, &by, &out], &[]);
    assert!(matches!(failed, Err(Error::Index(_))));
}

/// Tests the mean of bf16 rows, computed in f32 and stored as bf16, and the difference of each element from it.
#[test]
fn rows_of_bf16_are_folded_in_f32_and_stored_as_bf16() {
    let mut b = BodyBuilder::new(false);
    let access = |operand, class| Access {
        operand: Some(operand),
        dtype: DType::BF16,
        class,
        per_row: class == AccessClass::Uniform,
    };
    let (x, mean) = (b.access(access(0, AccessClass::Contiguous)), b.access(access(1, AccessClass::Uniform)));
    let more = b.access(access(2, AccessClass::Contiguous));
    let x = b.node(Node::Load { access: x });
    let wide = b.cast(x, DType::F32);
    let sum = b.fold(Monoid::Sum, wide);
    let count = b.scalar(0, DType::F32);
    let whole = b.element(ElementOp::Div, &[sum, count]);
    let short = b.cast(whole, DType::BF16);
    b.store(short, mean);
    let rest = b.element(ElementOp::Sub, &[x, short]);
    b.store(rest, more);
    let body = b.finish();
    let (n, rows) = (1000, 3);
    let mut rng = Lcg(9);
    let input: Vec<bf16> = (0..n * rows).map(|_| bf16::from_f64(rng.value())).collect();
    for choice in Choice::all() {
        for keep in [false, true] {
            let engine = InnerReductionEngine::new(&body, choice, keep);
            let (mut means, mut more) = (vec![bf16::ZERO; rows], vec![bf16::ZERO; n * rows]);
            let mut values = vec![0u64; engine.phases().values.len()];
            let mut buffers: Vec<Vec<u64>> = engine.phases().buffers.iter().map(|_| vec![0; n]).collect();
            let mut args = vec![input.as_ptr() as u64, 2 * n as u64, 0, 0, means.as_mut_ptr() as u64, 2, 0, 0];
            args.extend([more.as_mut_ptr() as u64, 2 * n as u64, 0, 0]);
            args.extend(buffers.iter_mut().flat_map(|b| [b.as_mut_ptr() as u64, 0, 0, 0]));
            args.push(Scalar::Float(n as f64).to_bits(DType::F32));
            args.extend([values.as_mut_ptr() as u64, 1]);
            let all = engine.phases().list.len();
            // SAFETY: the words describe the vectors.
            unsafe { engine.run(&args, n, rows, 0..all, false) }.unwrap();
            for r in 0..rows {
                // Sums of these multiples of 1/64 are exact, so every order gives the same.
                let row = &input[r * n..][..n];
                let mean = bf16::from_f32(row.iter().map(|v| v.to_f32()).sum::<f32>() / n as f32);
                assert_eq!(means[r], mean);
                for (got, x) in more[r * n..][..n].iter().zip(row) {
                    assert_eq!(*got, bf16::from_f32(x.to_f32() - mean.to_f32()));
                }
            }
        }
    }
}
