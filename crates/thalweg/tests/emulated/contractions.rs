//! Contractions on the emulated GPU: single launches, and results equal to the CPU's.

use super::{counted, emulated, tensor};
use thalweg::prelude::*;
use thalweg::{DType, MatmulPrecision};

/// Tensors of these shapes with small values, the same on both devices.
fn inputs(shapes: &[&[usize]], dtype: DType) -> [Vec<Tensor>; 2] {
    let of = |(seed, shape): (usize, &&[usize])| {
        let n: usize = shape.iter().product();
        let value = |i: usize| (((i * 37 + seed * 101 + i / 17) % 61) as f32 - 30.0) / 40.0;
        Tensor::new(&(0..n).map(value).collect::<Vec<f32>>()[..]).reshape(*shape).cast(dtype)
    };
    let cpu: Vec<Tensor> = shapes.iter().enumerate().map(of).collect();
    let gpu = cpu.iter().map(|x| x.to_device(emulated()).unwrap()).collect();
    [cpu, gpu]
}

/// Runs `f` on both devices: results within `tolerance` of the largest one, in that many launches.
fn check(
    what: &str,
    shapes: &[&[usize]],
    (dtype, tolerance): (DType, f32),
    launches: u64,
    f: impl Fn(&[Tensor]) -> Tensor,
) {
    // Set for this thread, because other tests may have set it.
    let precision = if what.starts_with("tf32") { MatmulPrecision::High } else { MatmulPrecision::Highest };
    thalweg::set_matmul_precision(precision);
    let [cpu, gpu] = inputs(shapes, dtype);
    thalweg::synchronize().unwrap();
    let (got, c) = counted(|| f(&gpu));
    let got = got.cast(DType::F32).to_vec::<f32>().unwrap();
    let want = f(&cpu).cast(DType::F32).to_vec::<f32>().unwrap();
    let most = want.iter().filter(|v| v.is_finite()).fold(0f32, |m, v| m.max(v.abs()));
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let same = g.is_nan() && w.is_nan() || (g - w).abs() <= tolerance * most;
        assert!(same, "{what} of {dtype} {shapes:?}: {g} instead of {w} at {i}");
    }
    assert_eq!((c.kernels, c.device_launches), (1, launches), "{what} of {dtype} {shapes:?}");
}

const KINDS: [(DType, f32); 3] = [(DType::F32, 1e-5), (DType::BF16, 2e-2), (DType::F16, 2e-3)];

#[test]
fn what_follows_a_product_is_in_its_kernel() {
    for kind in KINDS {
        check("gelu", &[&[70, 48], &[48, 136], &[136]], kind, 1, |x| (x[0].matmul(&x[1]) + &x[2]).gelu());
        check("residual", &[&[3, 33, 40], &[3, 40, 7], &[3, 33, 7]], kind, 1, |x| {
            (x[0].matmul(&x[1]) * 0.5 + &x[2]).relu().cast(DType::F32)
        });
    }
}

/// Weights with contiguous terms, and whole blocks of columns: threads hold vectors of the result.
#[test]
fn what_follows_a_product_with_dealt_columns_is_in_its_kernel() {
    for kind in &KINDS[1..] {
        let shapes: &[&[usize]] = &[&[200, 72], &[288, 72], &[288], &[200, 288], &[200, 1]];
        check("gelu", &shapes[..3], *kind, 1, |x| (x[0].matmul(&x[1].t()) + &x[2]).gelu());
        check("residual", shapes, *kind, 1, |x| (x[0].matmul(&x[1].t()) + &x[2]).silu() * &x[4] + &x[3]);
        check("wide", shapes, *kind, 1, |x| (x[0].matmul(&x[1].t()) + &x[2]).cast(DType::F32) * 0.5);
        // An epilogue that does more than rounding, with rows of any alignment.
        let odd: &[&[usize]] = &[&[200, 72], &[261, 72]];
        check("rounded", odd, *kind, 1, |x| x[0].matmul(&x[1].t()));
        // A sum that is not stored is not rounded first, so it may differ by one.
        check("whole numbers", odd, (kind.0, 0.3), 1, |x| x[0].matmul(&x[1].t()).cast(DType::I16));
        check("masked", shapes, *kind, 1, |x| x[3].gt(0.0).where_(x[0].matmul(&x[1].t()), &x[2]));
    }
}

#[test]
fn products_of_few_rows_are_folds_with_what_follows() {
    for kind in KINDS {
        for few in [1, 2, 8] {
            check("weights as they lie", &[&[few, 96], &[130, 96], &[130]], kind, 1, |x| {
                (x[0].matmul(&x[1].t()) + &x[2]).silu()
            });
            check("weights across", &[&[few, 40], &[40, 96], &[few, 96]], kind, 1, |x| {
                x[0].matmul(&x[1]) * 0.5 + &x[2]
            });
            check("few columns", &[&[70, 48], &[48, few], &[few]], kind, 1, |x| (x[0].matmul(&x[1]) + &x[2]).relu());
            check("heads", &[&[3, few, 32], &[3, 64, 32], &[few, 64]], kind, 1, |x| {
                x[0].matmul(&x[1].transpose(1, 2)) * 0.25 + &x[2]
            });
        }
    }
}

#[test]
fn whole_numbers_become_narrow_floats_behind_a_product() {
    // Small integer results, exact in narrow floats; few columns use a GEMV, many use tiles.
    for (m, k, n) in [(40, 3, 1), (70, 3, 66)] {
        let of = |seed: usize, rows: usize, columns: usize| {
            let all: Vec<i32> = (0..rows * columns).map(|i| (i * 7 + seed) as i32 % 5 - 2).collect();
            Tensor::new(&all[..]).reshape([rows, columns])
        };
        let cpu = [of(1, m, k), of(3, k, n)];
        let gpu = cpu.each_ref().map(|x| x.to_device(emulated()).unwrap());
        for dtype in [DType::BF16, DType::F16] {
            let f = |x: &[Tensor; 2]| (x[0].matmul(&x[1]).cast(dtype) * 0.25).exp().cast(DType::F32).to_vec::<f32>();
            let (got, want) = (f(&gpu).unwrap(), f(&cpu).unwrap());
            let near = got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-2 * w.abs());
            assert!(near, "{dtype} {m}x{k}x{n}: {got:?} instead of {want:?}");
        }
    }
}

#[test]
fn what_factors_are_computed_from_is_in_it_too() {
    for kind in KINDS {
        check("squares", &[&[70, 48], &[136, 48], &[48]], kind, 1, |x| {
            (x[0].square() * &x[2]).matmul(&x[1].t()).relu()
        });
        check("both", &[&[2, 20, 33], &[33, 65], &[65]], kind, 1, |x| x[0].relu().matmul(&(&x[1] * &x[2]).tanh()));
        check("flipped", &[&[65, 30], &[30, 64]], kind, 1, |x| x[0].flip(1).matmul(&x[1].flip(0)) + 1.0);
    }
}

/// A result independent of the sums may be stored before them. It may reuse the memory of an operand that dies here,
/// which the epilogue still has to read.
#[test]
fn what_is_stored_beside_a_product_of_few_columns_writes_over_nothing_that_is_read() {
    let run = |device: Option<&Device>| -> Vec<Vec<i64>> {
        let tensor = |n: usize, shape: &[usize], seed: i64| {
            let values: Vec<i64> = (0..n as i64).map(|i| (i * 7 + seed * 5) % 11 - 3).collect();
            let x = Tensor::from_slice(&values, shape);
            device.map_or(x.clone(), |d| x.to_device(*d).unwrap())
        };
        let (a, b) = (tensor(130 * 24, &[130, 24], 1), tensor(24, &[24, 1], 2));
        let (x, y) = (tensor(130, &[130, 1], 3), tensor(130, &[130, 1], 4));
        thalweg::synchronize().unwrap();
        let beside = &x + 100;
        let behind = a.matmul(&b) + x.minimum(&y);
        drop((x, y));
        thalweg::synchronize().unwrap();
        [beside, behind].iter().map(|t| t.to_vec::<i64>().unwrap()).collect()
    };
    assert_eq!(run(Some(&emulated())), run(None));
}

/// Cases: queries, keys and values; a gate and the gated value; two products of one shape and one of another.
#[test]
fn products_of_one_left_factor_and_one_shape_are_one_launch() {
    type Of = fn(&[Tensor]) -> Vec<Tensor>;
    type Case<'a> = (&'a str, Of, &'a [&'a [usize]], u64, u64);
    let three: Of = |x| (1..4).map(|i| x[0].matmul(&x[i])).collect();
    let biased: Of = |x| (1..4).map(|i| (x[0].matmul(&x[i]) + &x[i].slice(0)).gelu()).collect();
    let scaled: Of = |x| vec![x[0].matmul(&x[1]) * 0.5, x[0].matmul(&x[2]) * 2.0];
    let transposed: Of = |x| vec![x[0].matmul(&x[1].t()) + 1.0, x[0].matmul(&x[2].t()) + 1.0];
    let bare: Of = |x| vec![x[0].matmul(&x[1].t()), x[0].matmul(&x[2].t())];
    let unlike: Of = |x| vec![x[0].matmul(&x[1]) + 1.0, x[0].matmul(&x[2]).relu(), x[0].matmul(&x[3]) + 1.0];
    let square: &[&[usize]] = &[&[200, 96], &[96, 136], &[96, 136], &[96, 136]];
    let cases: [Case<'_>; 7] = [
        ("three", three, square, 1, 1),
        ("biased", biased, square, 1, 1),
        ("scaled", scaled, square, 1, 1),
        ("transposed", transposed, &[&[2, 70, 64], &[72, 64], &[72, 64]], 1, 1),
        ("dealt", transposed, &[&[200, 72], &[160, 72], &[160, 72]], 1, 1),
        ("dealt, of odd width", bare, &[&[200, 72], &[261, 72], &[261, 72]], 1, 1),
        ("unlike", unlike, &[&[200, 96], &[96, 136], &[96, 136], &[96, 64]], 2, 3),
    ];
    for &(dtype, tolerance) in &KINDS[1..] {
        for (what, f, shapes, kernels, launches) in cases {
            let [cpu, gpu] = inputs(shapes, dtype);
            thalweg::synchronize().unwrap();
            let (got, c) = counted(|| {
                let all = f(&gpu);
                thalweg::synchronize().unwrap();
                all
            });
            assert_eq!((c.kernels, c.device_launches), (kernels, launches), "{what} of {dtype}");
            for (n, (got, want)) in got.into_iter().zip(f(&cpu)).enumerate() {
                let [got, want] = [got, want].map(|x| x.cast(DType::F32).to_vec::<f32>().unwrap());
                let most = want.iter().fold(0f32, |m, v| m.max(v.abs()));
                let differs = got.iter().zip(&want).position(|(g, w)| (g - w).abs() > tolerance * most);
                assert_eq!(differs.map(|at| (at, got[at], want[at])), None, "{what} of {dtype}, result {n}");
            }
        }
    }
}

#[test]
fn factors_that_lie_in_heads_are_copied_by_boxes() {
    let kinds = &KINDS[1..];
    for &kind in kinds {
        // The terms are two dimensions, then the rows, then both; then the terms of a right factor.
        check("merged heads", &[&[2, 3, 128, 64], &[192, 72], &[72]], kind, 1, |x| {
            x[0].permute([0, 2, 1, 3]).reshape([256, 192]).matmul(&x[1]) + &x[2]
        });
        check("of each batch", &[&[2, 2, 128, 64], &[2, 40, 128]], kind, 1, |x| {
            x[0].permute([0, 2, 1, 3]).reshape([2, 128, 128]).matmul(&x[1].transpose(1, 2)).relu()
        });
        check("rows apart", &[&[4, 2, 64, 24], &[24, 40]], kind, 1, |x| {
            (x[0].slice((.., 1..2)).reshape([256, 24]).matmul(&x[1]) * 0.5).tanh()
        });
        check("lines first", &[&[2, 40, 64], &[40, 72]], kind, 1, |x| {
            x[0].permute([0, 2, 1]).reshape([128, 40]).matmul(&x[1]).relu()
        });
    }
}

#[test]
fn results_of_an_odd_width_are_stored_by_vectors() {
    for &kind in &KINDS[1..] {
        for n in [7, 33, 71, 131] {
            check("odd", &[&[70, 72], &[n, 72]], kind, 1, |x| x[0].matmul(&x[1].t()));
        }
    }
}

fn attention(x: &[Tensor]) -> Tensor {
    let scores = x[0].matmul(&x[1].transpose(-1, -2)) / 8.0 + &x[3];
    let e = (&scores - scores.amax_keepdim(-1)).exp();
    (&e / e.sum_keepdim(-1)).matmul(&x[2])
}

/// Sizes: rows, keys, terms and columns.
fn heads(sizes: [usize; 4], kind: (DType, f32), f: impl Fn(&[Tensor]) -> Tensor) {
    let [m, n, d, v] = sizes;
    let what = if kind.0 == DType::F32 { "tf32 attention" } else { "attention" };
    check(what, &[&[2, m, d], &[2, n, d], &[2, n, v], &[m, n]], kind, 1, f);
}

#[test]
fn attention_is_one_launch() {
    for kind in [KINDS[1], KINDS[2]] {
        heads([70, 136, 64, 64], kind, attention);
        heads([16, 64, 16, 24], kind, attention);
        heads([1, 63, 40, 8], kind, attention);
        heads([5, 200, 8, 128], kind, |x| attention(x).relu() + 1.0);
        heads([33, 66, 32, 32], kind, |x| (x[0].matmul(&x[1].transpose(-1, -2)) + &x[3]).sigmoid().matmul(&x[2]));
    }
}

/// Values whose rows are not aligned to 16 bytes, large enough to be copied first.
#[test]
fn attention_over_unaligned_values_copies_them() {
    let (m, n, d, v) = (1536, 2048, 16, 90);
    check("attention", &[&[m, d], &[n, d], &[n, v], &[m, n]], (DType::BF16, 8e-2), 2, attention);
}

#[test]
fn attention_in_tf32_is_one_launch() {
    let kind = (DType::F32, 2e-3);
    heads([70, 136, 64, 64], kind, attention);
    heads([9, 65, 20, 12], kind, attention);
    check("tf32", &[&[70, 48], &[48, 136], &[136]], kind, 1, |x| (x[0].matmul(&x[1]) + &x[2]).gelu());
}

#[test]
fn rows_that_are_masked_whole_are_no_numbers() {
    let masked = |x: &[Tensor]| {
        let lower = Tensor::tri(40, 72, 0).to_device(x[0].device()).unwrap().gt(0.0);
        let mask = lower.where_(&x[3], f64::NEG_INFINITY);
        let scores =
            x[0].matmul(&x[1].transpose(-1, -2)) + mask.slice((5.., ..)).pad([(5, 0), (0, 0)], f64::NEG_INFINITY);
        let e = (&scores - scores.amax_keepdim(-1)).exp();
        (&e / e.sum_keepdim(-1)).matmul(&x[2])
    };
    let [cpu, gpu] = inputs(&[&[40, 64], &[72, 64], &[72, 64], &[40, 72]], DType::BF16);
    let values = |x: &[Tensor]| masked(x).cast(DType::F32).to_vec::<f32>().unwrap();
    for (g, w) in values(&gpu).iter().zip(values(&cpu)) {
        // Scores stored in between are rounded to bf16, by up to 3 % of their exponentials.
        assert!(g.is_nan() && w.is_nan() || (g - w).abs() < 0.05, "{g} {w}");
    }
}

/// Programs that replace a maximum of -∞ have weights of 0 where a row is masked whole, in either spelling.
#[test]
fn rows_that_are_masked_whole_are_zeros_behind_a_guard() {
    let guarded = |x: &[Tensor], by_choice: bool| {
        // The first 30 rows see no key: a block of rows has some that do.
        let hidden = x[3].slice((0..1, ..)).expand([30, 136]);
        let mask = Tensor::cat(&[&hidden * 0.0 - f64::INFINITY, x[3].slice((30.., ..))], 0);
        let scores = (x[0].matmul(&x[1].transpose(-1, -2)) + mask).cast(DType::F32);
        let top = scores.amax_keepdim(-1);
        let (shift, least) = match by_choice {
            true => (top.eq(f64::NEG_INFINITY).where_(0.0, &top), 1e-30),
            false => (top.maximum(f32::MIN as f64), f32::MIN_POSITIVE as f64),
        };
        let e = (scores - shift).exp();
        (&e / e.sum_keepdim(-1).maximum(least)).cast(x[0].dtype()).matmul(&x[2])
    };
    for kind in [(DType::BF16, 3e-2), (DType::F16, 4e-3)] {
        for by_choice in [true, false] {
            let shapes: [&[usize]; 4] = [&[70, 64], &[136, 64], &[136, 40], &[70, 136]];
            let [cpu, gpu] = inputs(&shapes, kind.0);
            let values = |x: &[Tensor]| guarded(x, by_choice).cast(DType::F32).to_vec::<f32>().unwrap();
            let got = values(&gpu);
            assert!(got[..30 * 40].iter().all(|&v| v == 0.0), "rows without a key");
            for (g, w) in got.iter().zip(values(&cpu)) {
                assert!((g - w).abs() < kind.1, "{g} {w}");
            }
        }
    }
    let no_mask = |x: &[Tensor]| {
        let scores = x[0].matmul(&x[1].transpose(-1, -2)).cast(DType::F32);
        let top = scores.amax_keepdim(-1);
        let e = (&scores - top.eq(f64::NEG_INFINITY).where_(0.0, &top)).exp();
        (&e / e.sum_keepdim(-1)).cast(x[0].dtype()).matmul(&x[2])
    };
    heads([70, 136, 64, 64], KINDS[1], |x| no_mask(x) + 1.0);
}

/// Keys and values of heads that several heads of queries share, as a broadcast with merged dimensions.
#[test]
fn heads_that_share_keys_are_one_launch() {
    let shared = |x: &Tensor| {
        let &[b, few, _, n, d] = x.dims() else { unreachable!() };
        x.expand([b, few, 3, n, d]).reshape([b, few * 3, n, d])
    };
    let attend = |x: &[Tensor]| {
        let (k, v) = (shared(&x[1]), shared(&x[2]));
        let scores = x[0].matmul(&k.transpose(-1, -2)).cast(DType::F32) * 0.125;
        scores.softmax(-1).cast(x[0].dtype()).matmul(&v)
    };
    let shapes: [&[usize]; 3] = [&[2, 6, 40, 64], &[2, 2, 1, 72, 64], &[2, 2, 1, 72, 32]];
    check("attention", &shapes, (DType::BF16, 2e-2), 1, attend);
    let product = |x: &[Tensor]| (x[0].matmul(&shared(&x[1]).transpose(-1, -2))).gelu();
    check("product", &shapes[..2], KINDS[0], 1, product);
}

/// Causal rows: blocks of keys that no row of a block attends to are skipped.
#[test]
fn causal_attention_goes_through_the_keys_that_are_seen() {
    let attend = |x: &[Tensor], ahead: i64| {
        let [rows, keys] = [x[0].size(-2), x[1].size(-2)];
        let number = |n: usize| Tensor::arange_with(n, (DType::F32, x[0].device()));
        let row = number(rows).unsqueeze(1);
        let seen = number(keys).le(if ahead == 0 { row } else { row + ahead as f64 });
        let scores = x[0].matmul(&x[1].transpose(-1, -2)).cast(DType::F32) * 0.125;
        let weights = seen.where_(scores, f64::NEG_INFINITY).softmax(-1);
        weights.cast(x[0].dtype()).matmul(&x[2])
    };
    for (what, dtype, tolerance) in [("bf16", DType::BF16, 2e-2), ("f16", DType::F16, 2e-3), ("tf32", DType::F32, 5e-3)]
    {
        for (rows, keys, ahead) in [(200, 200, 0), (70, 150, 80), (150, 70, -20), (130, 260, 1)] {
            let shapes: [&[usize]; 3] = [&[2, rows, 64], &[2, keys, 64], &[2, keys, 40]];
            check(what, &shapes, (dtype, tolerance), 1, |x| attend(x, ahead));
        }
    }
    // As many keys as rows: half of them, and the remainder of the last blocks. Traffic that depends on a scalar is not
    // counted.
    let bytes = |ahead: i64| {
        let [_, gpu] = inputs(&[&[2, 512, 64], &[2, 512, 64], &[2, 512, 64]], DType::BF16);
        thalweg::synchronize().unwrap();
        let (y, c) = counted(|| attend(&gpu, ahead));
        drop(y);
        c.bytes_read
    };
    let (half, all) = (bytes(0), bytes(600));
    assert!(half < all * 2 / 3, "{half} of {all} bytes");
}

/// Without an exponential a weight of -∞ is not zero: no keys are skipped.
#[test]
fn weights_that_are_infinite_by_themselves_count() {
    let [_, x] = inputs(&[&[2, 130, 64], &[2, 130, 64], &[2, 130, 64]], DType::BF16);
    thalweg::synchronize().unwrap();
    let number = || Tensor::arange_with(130, (DType::F32, x[0].device()));
    let (y, c) = counted(|| {
        let scores = x[0].matmul(&x[1].transpose(-1, -2)).cast(DType::F32) * 0.02;
        let weights = number().le(number().unsqueeze(1)).where_(scores, f64::NEG_INFINITY);
        weights.cast(DType::BF16).matmul(&x[2]).tanh()
    });
    assert_eq!(c.device_launches, 1);
    let y = y.cast(DType::F32).to_vec::<f32>().unwrap();
    for (row, y) in y.chunks(64).enumerate() {
        assert!(row % 130 == 129 || y.iter().all(|y| y.is_nan() || y.abs() == 1.0), "row {row}: {y:?}");
    }
}

/// A factor of all scores is merged into the exponent if it is positive and hidden scores are -∞; else it is not.
#[test]
fn scores_have_any_factor() {
    let attend = |x: &[Tensor], scale: f64, hidden: Option<f64>| {
        let number = |n: usize| Tensor::arange_with(n, (DType::F32, x[0].device()));
        let [row, key] = [number(x[0].size(-2)).unsqueeze(1), number(x[1].size(-2))];
        let scores = x[0].matmul(&x[1].transpose(-1, -2)).cast(DType::F32) * scale;
        let scores = hidden.map_or(scores.clone(), |hidden| key.le(row + 20.0).where_(scores, hidden));
        scores.softmax(-1).cast(x[0].dtype()).matmul(&x[2])
    };
    // Few heads, and enough of them for persistent blocks.
    for heads in [2, 140] {
        let shapes: [&[usize]; 3] = [&[heads, 9, 64], &[heads, 150, 64], &[heads, 150, 40]];
        for scale in [-0.25, 0.0, 0.5] {
            for hidden in [None, Some(f64::NEG_INFINITY), Some(-3.0)] {
                let what = format!("{heads} heads, scale {scale}, hidden {hidden:?}");
                check(&what, &shapes, (DType::BF16, 2e-2), 1, |x| attend(x, scale, hidden));
            }
        }
    }
}

#[test]
fn a_convolution_is_what_the_cpu_computes() {
    for (what, dtype, tolerance) in [
        ("f32", DType::F32, 1e-5f32),
        ("tf32", DType::F32, 5e-3),
        ("bf16", DType::BF16, 2e-2),
        ("f16", DType::F16, 4e-3),
    ] {
        let precision = if what == "tf32" { MatmulPrecision::High } else { MatmulPrecision::Highest };
        thalweg::set_matmul_precision(precision);
        for (side, stride, padding) in [(3, 1, 1), (3, 2, 1), (1, 2, 0), (5, 3, 0)] {
            let [cpu, gpu] = inputs(&[&[2, 5, 17, 13], &[7, 5, side, side], &[7]], dtype);
            let values = |x: &[Tensor]| {
                let conv = thalweg::Conv::default().padding(padding).stride(stride);
                x[0].relu().conv2d(&x[1], Some(&x[2]), conv).relu().cast(DType::F32).to_vec::<f32>().unwrap()
            };
            let (got, c) = counted(|| values(&gpu));
            let want = values(&cpu);
            let most = want.iter().fold(0f32, |m, v| m.max(v.abs()));
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                assert!((g - w).abs() <= tolerance * most, "{what} {side} by {stride}: {g} instead of {w} at {i}");
            }
            // Windows are never in memory: at most the padded image is stored.
            assert!(c.device_launches <= 3, "{what} {side} by {stride}: {} launches", c.device_launches);
        }
    }
}

#[test]
fn products_of_heads_beside_each_other_are_one_launch() {
    let (samples, rows, heads, d) = (3, 72, 2, 64);
    let input: Vec<f32> = (0..samples * rows * heads * d * 2).map(|i| ((i * 7 + i / 11) % 5) as f32 - 2.0).collect();
    let product = |x: &Tensor| {
        let x = x.reshape([samples, rows, 2 * heads * d]).cast(DType::BF16);
        let part = |i: usize| x.narrow(-1, i * heads * d, heads * d).unflatten(-1, [heads, d]).transpose(1, 2);
        let (a, b) = (part(0), part(1));
        let scores = a.matmul(&b.transpose(-1, -2));
        let sums = scores.matmul(&b);
        [scores, sums].map(|t| t.to_f64_vec().unwrap())
    };
    let (got, want) = (product(&tensor(&input)), product(&Tensor::new(&input[..])));
    assert!(got == want);
}

#[test]
fn a_row_that_is_a_matrix_in_another_order_is_a_factor() {
    // With one row on a side, a dimension is dropped; the terms are two dimensions that do not merge.
    for kind in KINDS {
        let row = |x: &[Tensor]| x[0].t().reshape([1, 24]).matmul(&x[1].permute([3, 1, 0, 2]).reshape([24, 3]));
        check("a row", &[&[6, 4], &[3, 6, 1, 4]], kind, 1, row);
        let column = |x: &[Tensor]| x[1].permute([0, 2, 3, 1]).reshape([3, 24]).matmul(&x[0].t().reshape([24, 1]));
        check("a column", &[&[6, 4], &[3, 6, 1, 4]], kind, 1, column);
    }
}
