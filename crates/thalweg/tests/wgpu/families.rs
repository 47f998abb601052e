//! Kernel families: maps, row kernels, gathers, scatters, scans, sorts, random numbers, products.

use super::{agrees, equals, numbers};
use thalweg::prelude::*;

fn floats(shape: &[usize]) -> Tensor {
    Tensor::from_slice(&numbers(shape.iter().product()), shape)
}

fn integers(shape: &[usize], dtype: DType) -> Tensor {
    (floats(shape) * 60.0).cast(dtype)
}

const INTEGERS: [DType; 8] =
    [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];

#[test]
fn maps_of_floats() {
    let of: [fn(&Tensor) -> Tensor; 12] = [
        |x| x * 2.0 + 1.0,
        |x| x.exp(),
        |x| x.abs().sqrt(),
        |x| (x.abs() + 0.1).log(),
        |x| x.tanh(),
        |x| x.sigmoid(),
        |x| x.gelu(),
        |x| x.sin() * x.cos(),
        |x| x.erf(),
        |x| x.relu() + x.floor(),
        |x| 1.0 / (x + 5.0),
        |x| x.maximum(0.25).minimum(1.0),
    ];
    for f in of {
        for shape in [&[5][..], &[37, 12], &[3, 1025]] {
            agrees(1e-5, || f(&floats(shape)));
        }
    }
}

#[test]
fn narrow_floats_are_rounded_as_on_the_cpu() {
    for dtype in [DType::BF16, DType::F16] {
        for shape in [&[7][..], &[64, 33], &[1000]] {
            agrees(0.01, || (floats(shape).cast(dtype) * 1.5 + 0.25).exp());
            agrees(0.0, || floats(shape).cast(dtype));
        }
    }
}

#[test]
fn integers_wrap_and_divide_as_on_the_cpu() {
    for dtype in INTEGERS {
        let two = || (integers(&[6, 35], dtype), integers(&[35], dtype) + 3);
        equals(|| &two().0 + &two().1);
        equals(|| &two().0 * &two().0);
        equals(|| &two().0 - &two().1);
        equals(|| &two().0 / &two().1);
        equals(|| &two().0 % &two().1);
        equals(|| two().0.maximum(&two().1).minimum(7));
        equals(|| two().0.cast(DType::F32).cast(dtype));
    }
}

#[test]
fn conditions_select() {
    equals(|| floats(&[9, 21]).gt(0.5) & floats(&[9, 21]).lt(1.5));
    agrees(0.0, || floats(&[9, 21]).gt(0.5).where_(floats(&[9, 21]), floats(&[21]) * 2.0));
}

#[test]
fn nan_stays_nan() {
    let with_nan = || Tensor::from_slice(&[1.0f32, f32::NAN, -2.0, f32::INFINITY, 0.0, f32::NEG_INFINITY], [6]);
    agrees(0.0, || with_nan().relu());
    agrees(0.0, || with_nan().maximum(0.5));
    agrees(0.0, || with_nan().clamp(-1.0, 1.0));
    agrees(1e-6, || with_nan().exp());
    agrees(0.0, || with_nan().max(..));
    agrees(0.0, || {
        let x = with_nan();
        Tensor::cat(&[&x - &x, &x / &x], 0)
    });
    equals(|| with_nan().eq(with_nan()));
    equals(|| with_nan().ne(with_nan()));
    equals(|| with_nan().is_nan());
    equals(|| with_nan().argsort(0, false));
}

#[test]
fn views_are_read_in_place() {
    agrees(0.0, || floats(&[40, 50]).transpose(0, 1) + floats(&[50, 1]));
    agrees(0.0, || floats(&[6, 10]).flip(1) * 2.0);
    agrees(0.0, || floats(&[4, 5, 6]).permute([2, 0, 1]).reshape([6, 20]) + 1.0);
    equals(|| integers(&[30, 7], DType::U8).transpose(0, 1) + 1);
}

#[test]
fn row_kernels_fold() {
    for shape in [&[3, 7][..], &[130, 64], &[5, 5000], &[2000, 3], &[1, 70_000]] {
        agrees(1e-4, || floats(shape).sum(1));
        agrees(1e-4, || floats(shape).sum(0));
        agrees(0.0, || floats(shape).max(1));
        agrees(1e-4, || floats(shape).mean(..));
        agrees(1e-5, || floats(shape).softmax(1));
        agrees(1e-4, || floats(shape).layer_norm(1, 1e-5));
        equals(|| floats(shape).argmax(1));
        equals(|| integers(shape, DType::I64).sum(1));
        equals(|| integers(shape, DType::U8).max(0));
    }
    agrees(0.02, || floats(&[20, 300]).cast(DType::BF16).softmax(1));
}

#[test]
fn gathers_and_scatters() {
    let index = || (floats(&[40]).abs() * 10.0).cast(DType::I64);
    agrees(0.0, || floats(&[21, 6]).index_select(0, &index()));
    agrees(1e-5, || floats(&[21, 6]).index_add(0, &index(), floats(&[40, 6])));
    for dtype in [DType::I32, DType::I64, DType::U8] {
        equals(|| integers(&[21, 6], dtype).index_add(0, &index(), integers(&[40, 6], dtype)));
    }
    let of_one = || (floats(&[5000]).abs() * 3.9).cast(DType::I64);
    agrees(1e-4, || Tensor::zeros([8]).scatter_add(0, &of_one(), floats(&[5000])));
    equals(|| Tensor::zeros_with([8], DType::I32).scatter_add(0, &of_one(), integers(&[5000], DType::I32)));
    agrees(0.0, || Tensor::zeros([8]).scatter(0, &of_one(), floats(&[5000])));
}

#[test]
fn scans() {
    for shape in [&[5, 9][..], &[3, 300], &[2, 9000], &[40, 40]] {
        agrees(1e-4, || floats(shape).cumsum(1));
        agrees(1e-4, || floats(shape).cumsum(0));
        agrees(0.0, || floats(shape).cummax(1));
        agrees(1e-4, || floats(shape).flip(1).cumsum(1).flip(1));
        agrees(4e-2, || floats(shape).cast(DType::BF16).cumsum(1).cast(DType::F32));
        equals(|| integers(shape, DType::I32).cumsum(1));
        equals(|| integers(shape, DType::I8).cumsum(1));
        equals(|| integers(shape, DType::I64).cumsum(0));
        equals(|| integers(shape, DType::I64).cumsum(1));
        equals(|| integers(shape, DType::U64).cumprod(1));
        equals(|| integers(shape, DType::U64).cumprod(1).max(1));
    }
}

#[test]
fn sorts() {
    for shape in [&[4, 9][..], &[3, 700], &[1, 9000]] {
        agrees(0.0, || floats(shape).sort(1, false));
        equals(|| floats(shape).argsort(1, true));
        equals(|| integers(shape, DType::I64).sort(1, true));
        equals(|| integers(shape, DType::U8).sort(1, false));
        agrees(0.0, || floats(shape).cast(DType::BF16).sort(1, false));
        agrees(0.0, || floats(shape).topk(3, 1, true).0);
    }
}

#[test]
fn random_numbers_are_those_of_the_cpu() {
    let of = |seed| {
        thalweg::manual_seed(seed);
        Tensor::rand([1000])
    };
    agrees(1e-6, || of(7));
    agrees(2e-5, || {
        thalweg::manual_seed(9);
        Tensor::randn([999])
    });
    // A single number, of which everything but the seed is known.
    agrees(1e-3, || {
        thalweg::manual_seed(3);
        Tensor::rand([1]).cast(DType::F16)
    });
    agrees(2e-5, || {
        thalweg::manual_seed(4);
        Tensor::randn([1, 8]).softmax(1)
    });
}

#[test]
fn products() {
    for [m, n, k] in [[5, 7, 9], [64, 64, 64], [1, 300, 200], [130, 3, 70]] {
        agrees(1e-4, || floats(&[m, k]).matmul(&floats(&[k, n])));
        agrees(1e-4, || floats(&[m, k]).matmul(&floats(&[n, k]).transpose(0, 1)).gelu());
    }
    agrees(1e-4, || floats(&[3, 10, 20]).matmul(&floats(&[3, 20, 30])));
    agrees(0.02, || floats(&[33, 65]).cast(DType::BF16).matmul(&floats(&[65, 20]).cast(DType::BF16)));
    equals(|| integers(&[12, 30], DType::I32).matmul(&integers(&[30, 8], DType::I32)));
    let heads = |n: usize| floats(&[2, 4, n, 16]);
    agrees(1e-4, || {
        let scores = (heads(33).matmul(&heads(40).transpose(2, 3)) * 0.25).softmax(3);
        scores.matmul(&heads(40))
    });
}

#[test]
fn long_rows_are_divided_among_workgroups() {
    // Sizes at which a row has several chunks, whole and not.
    for n in [1 << 20, 700_001] {
        let x = move || floats(&[n]);
        agrees(1e-4, || x().sum(..) / n as f64);
        agrees(0.0, || x().max(..));
        agrees(1e-4, || x().var(..));
        agrees(1e-5, || (x() * 2.0).softmax(0) * n as f64);
        equals(|| x().argmax(0));
        equals(|| (x() * 50.0).cast(DType::I64).sum(..));
        agrees(1e-4, || x().cast(DType::BF16).cast(DType::F32).mean(..));
    }
    for shape in [[200_000, 3], [100_000, 8]] {
        agrees(1e-4, || floats(&shape).mean(0));
        agrees(0.0, || floats(&shape).min(0));
        agrees(1e-4, || floats(&shape) - floats(&shape).mean(0));
    }
    agrees(1e-4, || {
        let x = floats(&[1, 300_000]);
        (&x - x.mean_keepdim(1)) / (x.var_keepdim(1) + 1e-5).sqrt()
    });
}

#[test]
fn extremes_are_found_where_they_are() {
    equals(|| (floats(&[1, 3, 6, 3]) / 3.3).tanh().argmin(0));
    equals(|| (floats(&[2, 30]) / 3.3).tanh().argmin(0));
    let special = || {
        let all = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-40, -1e-42, 3.0, -2e38];
        Tensor::from_slice(&all, [1, 9])
    };
    equals(|| (special() / 3.3).tanh().argmin(0));
    equals(|| special().argmax(0));
    equals(|| {
        let y = (special() / 3.3).tanh();
        y.argmin(0) + y.eq(y.min(0)).cast(DType::I64)
    });
}

#[test]
fn gradients() {
    agrees(1e-4, || {
        let w = floats(&[12, 8]).tracked();
        let loss = floats(&[20, 12]).matmul(&w).tanh().square().mean(..);
        loss.backward()[&w].clone()
    });
}
