//! Matrix products with fused prologues and epilogues: one kernel, its bytes, and the values of unfused execution.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;
use thalweg::{Attention, Conv, Costs, Counters, CpuEngine, CpuOptions, DType, Device, Pool, set_default_device};
use thalweg_stream::{Mode, mode, set_mode};

/// Runs `f` fused and unfused, in strict mode to the bit, else nearly equal. Returns the counters of the fused run.
#[track_caller]
fn alike(f: &dyn Fn() -> Tensor) -> Counters {
    let values = || f().to_vec::<f32>().unwrap();
    let before = mode();
    set_mode(Mode { strict: true, ..before });
    let one = values();
    set_mode(Mode { strict: true, fused: false, ..before });
    let other = values();
    set_mode(before);
    let differs = one.iter().zip(&other).position(|(a, b)| a.to_bits() != b.to_bits());
    assert_eq!(differs.map(|at| (at, one[at], other[at])), None, "strictly the same bits");
    let (out, counted) = counted(f);
    let fast = out.to_vec::<f32>().unwrap();
    let largest = one.iter().fold(0f32, |m, v| m.max(v.abs()));
    for (a, b) in fast.iter().zip(&one) {
        assert!((a - b).abs() <= 1e-5 * largest || a.is_nan() && b.is_nan(), "{a} is not {b}");
    }
    counted
}

const F32: u64 = 4;

#[test]
fn what_follows_a_product_is_in_its_kernel() {
    let _pinned = pinned();
    let (a, b, bias) = (randn([300, 70]), randn([70, 200]), randn([200]));
    let c = alike(&|| (a.matmul(&b) + &bias).gelu());
    assert_eq!((c.kernels, c.bytes_written), (1, 300 * 200 * F32));
    assert_eq!(c.bytes_read, (300 * 70 + 70 * 200 + 200) * F32);
}

/// Runs `f` on a device of each CPU engine of the machine.
fn on_every_engine(f: impl Fn(CpuEngine)) {
    for isa in CpuEngine::all() {
        let own = Device::new_cpu(CpuOptions { threads: 2, parallel_ns: 30_000.0, isa });
        own.set_costs(Costs::typical());
        let before = set_default_device(Some(own));
        f(isa);
        set_default_device(before);
    }
}

#[test]
fn bytes_that_are_converted_for_a_product_are_read_as_they_are() {
    let _pinned = pinned();
    let (m, n, k) = (90u64, 75u64, 301u64);
    let byte = |i: u64| (i.wrapping_mul(2_654_435_761) >> 11) as u8;
    let left: Vec<i8> = (0..m * k).map(|i| byte(i) as i8).collect();
    let right: Vec<i8> = (0..k * n).map(|i| byte(i + 7) as i8).collect();
    let free: Vec<u8> = (0..n * k).map(|i| byte(i + 9)).collect();
    let sum = |i: u64, of: &dyn Fn(u64) -> i32| (0..k).map(|p| left[(i * k + p) as usize] as i32 * of(p)).sum::<i32>();
    on_every_engine(|isa| {
        let a = Tensor::from_slice(&left, [m as usize, k as usize]);
        let b = Tensor::from_slice(&right, [k as usize, n as usize]);
        // In the layout of a linear layer's weights.
        let c = Tensor::from_slice(&free, [n as usize, k as usize]);
        let (out, counted) = counted(|| a.cast(DType::I32).matmul(&b.cast(DType::I32)));
        assert_eq!(
            (counted.kernels, counted.bytes_read, counted.bytes_written),
            (1, m * k + k * n, m * n * 4),
            "{isa:?}"
        );
        let other = (a.cast(DType::I32).matmul(&c.t().cast(DType::I32)) + 5).to_vec::<i32>().unwrap();
        for (at, (got, other)) in out.to_vec::<i32>().unwrap().into_iter().zip(other).enumerate() {
            let (i, j) = (at as u64 / n, at as u64 % n);
            assert_eq!(got, sum(i, &|p| right[(p * n + j) as usize] as i32), "{i} {j} {isa:?}");
            assert_eq!(other, 5 + sum(i, &|p| free[(j * k + p) as usize] as i32), "{i} {j} {isa:?}");
        }
    });
}

#[test]
fn products_of_bf16_with_what_surrounds_them_are_near_and_one_kernel_on_every_engine() {
    let _pinned = pinned();
    let half = |shape: [usize; 2]| randn(shape).cast(DType::BF16);
    let (x, w, bias) =
        (half([70, 203]).to_vec::<half::bf16>().unwrap(), half([203, 90]).to_vec().unwrap(), randn([90]));
    let bias = bias.cast(DType::BF16).to_vec::<half::bf16>().unwrap();
    on_every_engine(|isa| {
        let (x, w) = (Tensor::from_slice(&x, [70, 203]), Tensor::from_slice::<half::bf16>(&w, [203, 90]));
        let bias = Tensor::from_slice(&bias, [90]);
        let f = || (x.square().matmul(&w) + &bias).gelu();
        let (out, counted) = counted(f);
        assert_eq!(counted.kernels, 1, "{isa:?}");
        let exact = {
            let [x, w, bias] = [&x.square(), &w, &bias].map(|t| t.cast(DType::F64));
            (x.matmul(&w) + &bias).gelu().to_vec::<f64>().unwrap()
        };
        for (got, want) in out.cast(DType::F64).to_vec::<f64>().unwrap().into_iter().zip(exact) {
            assert!((got - want).abs() <= 0.02 * want.abs() + 0.4, "{got} is not {want}, {isa:?}");
        }
        // Sums of small integers are exact in every order, for odd numbers of terms and single rows, too.
        for (m, k) in [(1, 31), (3, 65), (70, 203)] {
            let [a, b] = [[m, k], [k, 90]].map(|s| in_memory((Tensor::randn(s) * 2.0).round().cast(DType::BF16)));
            let exact = a.cast(DType::F32).matmul(&b.cast(DType::F32)).cast(DType::BF16);
            let got = [a.matmul(&b), a.matmul(&in_memory(b.t() * 1.0).t())];
            let want = exact.cast(DType::F32).to_vec::<f32>().unwrap();
            for got in got {
                assert_eq!(got.cast(DType::F32).to_vec::<f32>().unwrap(), want, "{m} {k} {isa:?}");
            }
        }
    });
}

fn in_memory(x: Tensor) -> Tensor {
    thalweg::synchronize().unwrap();
    x
}

#[test]
fn what_precedes_a_product_is_in_its_kernel() {
    let _pinned = pinned();
    let (a, b, scale) = (randn([300, 70]), randn([70, 200]), randn([70, 1]));
    let c = alike(&|| a.square().matmul(&(&b * &scale)));
    assert_eq!((c.kernels, c.bytes_written), (1, 300 * 200 * F32));
    // A transposed factor, one with a mask, and one that is broadcast over the batch.
    let (x, w) = (randn([5, 33, 40]), randn([40, 17]));
    alike(&|| x.permute([0, 2, 1]).exp().matmul(&randn_like_ones(33, 20)));
    alike(&|| x.slice((.., 1..30, ..)).pad([(0, 0), (2, 2), (0, 0)], 0.5).sin().matmul(&w.tanh()));
    alike(&|| x.matmul(&w.reshape([17, 40]).t().tanh()));
}

/// A tensor of ones over a broadcast row.
fn randn_like_ones(k: usize, n: usize) -> Tensor {
    Tensor::ones([1, n]).expand([k, n]) * 0.5
}

#[test]
fn several_results_and_residuals() {
    let _pinned = pinned();
    let (x, w, r) = (randn([130, 64]), randn([64, 64]), randn([130, 64]));
    let c = alike(&|| {
        let y = x.matmul(&w);
        let z = (&y + &r).relu();
        Tensor::cat(&[&y, &z], 1)
    });
    assert!(c.kernels <= 2, "{c:?}");
    // The left factor of a product, also used by its epilogue.
    alike(&|| x.tanh().matmul(&w) + x.tanh());
}

#[test]
fn attention_has_no_matrix_of_scores() {
    let _pinned = pinned();
    let (heads, n, d) = (8, 512, 64);
    let (q, k, v) = (randn([heads, n, d]), randn([heads, n, d]), randn([heads, n, d]));
    let mask = randn([n, n]);
    let c = alike(&|| (q.matmul(&k.permute([0, 2, 1])) / (d as f64).sqrt() + &mask).softmax(-1).matmul(&v));
    assert_eq!((c.kernels, c.bytes_written), (1, (heads * n * d) as u64 * F32));
    assert!(c.bytes_allocated < (heads * n * n) as u64 * F32 / 2, "{c:?}");
    // Any function of the scores.
    alike(&|| q.matmul(&k.permute([0, 2, 1])).sigmoid().matmul(&v));
}

#[test]
fn rows_before_and_after_a_product() {
    let _pinned = pinned();
    let (x, w, r) = (randn([90, 48]), randn([48, 96]), randn([90, 96]));
    alike(&|| x.rms_norm(-1, 1e-5).matmul(&w));
    let c = alike(&|| (x.matmul(&w) + &r).layer_norm(-1, 1e-5));
    assert_eq!((c.kernels, c.bytes_written), (1, 90 * 96 * F32));
    let c = alike(&|| x.matmul(&w).sum(-1));
    assert_eq!((c.kernels, c.bytes_written), (1, 90 * F32));
    alike(&|| x.cumsum(-1).matmul(&w).cumsum(-1));
}

#[test]
fn edges() {
    let _pinned = pinned();
    for (m, k, n) in [(1, 1, 1), (1, 40, 30), (40, 1, 30), (40, 30, 1), (7, 13, 17), (1, 300, 1), (65, 257, 33)] {
        let (a, b, c) = (randn([m, k]), randn([k, n]), randn([n]));
        alike(&|| (a.exp().matmul(&b.sin()) + &c).tanh());
        alike(&|| a.softmax(-1).matmul(&b).softmax(-1));
        alike(&|| a.matmul(&b).matmul(&b.t()).relu());
    }
    let (none, w) = (Tensor::zeros([4, 0]), Tensor::zeros([0, 5]));
    alike(&|| none.exp().matmul(&w.exp()) + 1.0);
    assert_eq!(Tensor::zeros([0, 3]).exp().matmul(&Tensor::ones([3, 5])).dims(), [0, 5]);
}

#[test]
fn an_index_out_of_range_in_a_factor_is_an_error() {
    let _pinned = pinned();
    let (table, w) = (randn([10, 8]), randn([8, 8]));
    let good = Tensor::new([3i64, 9, 0]);
    let c = alike(&|| table.index_select(0, &good).matmul(&w).relu());
    assert_eq!(c.kernels, 1);
    let bad = Tensor::new([3i64, 10]);
    let message = table.index_select(0, &bad).matmul(&w).relu().to_vec::<f32>().unwrap_err().to_string();
    assert!(message.contains("out of range"), "{message}");
}

/// Convolutions: memory allocated beside the images is counted.
#[test]
fn a_convolution_has_no_unrolled_input() {
    let _pinned = pinned();
    let (n, channels, size, outer) = (2, 16, 24, 20);
    let (x, w, b) = (randn([n, channels, size, size]), randn([outer, channels, 3, 3]), randn([outer]));
    let (images, weights) = ((n * channels * size * size) as u64 * F32, (outer * channels * 9) as u64 * F32);
    let inner = size - 2;
    let out = (n * outer * inner * inner) as u64 * F32;
    let c = alike(&|| x.conv2d(&w, Some(&b), Conv::default()).relu());
    assert_eq!((c.kernels, c.bytes_written), (1, out));
    assert!(c.bytes_allocated <= out + 4096, "{c:?}");
    assert!(c.bytes_read <= images + weights + outer as u64 * F32, "{c:?}");
    // With padding: padded images may be stored or not.
    let c = alike(&|| x.conv2d(&w, Some(&b), Conv::default().padding(1)).relu());
    let bordered = (n * channels * (size + 2) * (size + 2)) as u64 * F32;
    let out = (n * outer * size * size) as u64 * F32;
    assert!(c.kernels <= 2 && c.bytes_allocated <= bordered + out + 8192, "{c:?}");
    // Strides, dilation and groups are views as well.
    let options = Conv::default().stride(2).dilation(2).groups(4);
    let (w, out) = (randn([outer, channels / 4, 3, 3]), (n * outer * 10 * 10) as u64 * F32);
    let c = alike(&|| x.conv2d(&w, None, options));
    assert_eq!((c.kernels, c.bytes_written), (1, out));
    // Depthwise convolution, and pooling: one pass over the images.
    let w = randn([channels, 1, 3, 3]);
    let c = alike(&|| x.conv2d(&w, None, Conv::default().groups(channels)).relu());
    assert_eq!((c.kernels, c.bytes_written), (1, (n * channels * inner * inner) as u64 * F32));
    let c = alike(&|| x.max_pool2d(Pool::new(3).stride(1)));
    assert_eq!((c.kernels, c.bytes_written), (1, (n * channels * inner * inner) as u64 * F32));
}

#[test]
fn attention_by_name_is_one_kernel() {
    let _pinned = pinned();
    let (heads, n, d) = (4, 256, 32);
    let (q, kv) = (randn([2, heads, n, d]), randn([2, 2, n, d]));
    let out = (2 * heads * n * d) as u64 * F32;
    let c = alike(&|| q.scaled_dot_product_attention(&kv, &kv, Attention::default()));
    assert_eq!((c.kernels, c.bytes_written), (1, out));
    // The causal mask may be stored once for all heads, one byte each; the scores are not stored.
    let c = alike(&|| q.scaled_dot_product_attention(&kv, &kv, Attention::default().causal(true)));
    assert!(c.kernels <= 2 && c.bytes_written <= out + (n * n) as u64, "{c:?}");
    assert!(c.bytes_allocated < (2 * heads * n * n) as u64 * F32 / 2, "{c:?}");
    let seen = randn([n, n]).gt(0.0);
    thalweg::synchronize().unwrap();
    let c = alike(&|| q.scaled_dot_product_attention(&kv, &kv, Attention::default().mask(&seen)));
    assert_eq!(c.kernels, 1);
}

/// Causal rows: keys that no row of a block attends to are skipped, block by block. Their values may be anything.
#[test]
fn what_a_causal_mask_hides_is_left_out() {
    let _pinned = pinned();
    let number = |n: usize| Tensor::arange_with(n, (DType::F32, thalweg::Device::default()));
    let attend = |[q, k, v]: [&Tensor; 3], ahead: i64| {
        let row = number(q.size(-2)).unsqueeze(1);
        let seen = number(k.size(-2)).le(if ahead == 0 { row } else { row + ahead as f64 });
        let scores = q.matmul(&k.transpose(-1, -2)) * 0.2;
        seen.where_(scores, f64::NEG_INFINITY).softmax(-1).matmul(v)
    };
    for (rows, keys, ahead) in [(200, 200, 0), (70, 150, 80), (150, 70, -20), (130, 600, 1), (513, 513, 0)] {
        let (q, k, v) = (randn([3, rows, 32]), randn([3, keys, 32]), randn([3, keys, 24]));
        let c = alike(&|| attend([&q, &k, &v], ahead));
        assert_eq!(c.kernels, 1, "{rows} rows, {keys} keys, {ahead} ahead");
    }
    let (q, k) = (randn([2, 256, 32]), randn([2, 256, 32]));
    let v = Tensor::cat(&[randn([2, 128, 24]), Tensor::full([2, 128, 24], f64::NAN)], 1);
    let y = attend([&q, &k, &v], 0).slice((.., ..64, ..)).to_vec::<f32>().unwrap();
    assert!(y.iter().all(|y| y.is_finite()), "the first rows see the first keys");
}

/// Without an exponential a weight of -∞ is not zero: nothing is skipped.
#[test]
fn weights_that_are_infinite_by_themselves_count() {
    let _pinned = pinned();
    for (n, dtype) in [(200, DType::F32), (130, DType::F32), (130, DType::BF16)] {
        let number = || Tensor::arange_with(n, (DType::F32, thalweg::Device::default()));
        let [q, k, v] = [0; 3].map(|_| randn([2, n, 64]).cast(dtype));
        let (y, c) = counted(|| {
            let scores = q.matmul(&k.transpose(-1, -2)).cast(DType::F32) * 0.02;
            let weights = number().le(number().unsqueeze(1)).where_(scores, f64::NEG_INFINITY);
            weights.cast(dtype).matmul(&v).tanh()
        });
        assert_eq!(c.kernels, 1);
        let y = y.cast(DType::F32).to_vec::<f32>().unwrap();
        for (row, y) in y.chunks(64).enumerate() {
            let all = row % n == n - 1;
            assert!(y.iter().all(|y| all || y.is_nan() || y.abs() == 1.0), "row {row} of {n} {dtype}: {y:?}");
        }
    }
}

#[test]
fn einsum_and_linear_are_products_without_copies() {
    let _pinned = pinned();
    let (q, k) = (randn([2, 40, 4, 32]), randn([2, 50, 4, 32]));
    let c = alike(&|| Tensor::einsum("bqhd,bkhd->bhqk", &[&q, &k]) * 0.5);
    assert_eq!((c.kernels, c.bytes_written), (1, 2 * 4 * 40 * 50 * F32));
    let (x, w, b) = (randn([6, 20, 32]), randn([48, 32]), randn([48]));
    let c = alike(&|| x.linear(&w, Some(&b)).gelu());
    assert_eq!((c.kernels, c.bytes_written), (1, 6 * 20 * 48 * F32));
}

/// A plan that puts row sums of another tensor into the product's kernel, because it has as many points, does not apply
/// to sizes where it has not.
#[test]
fn rows_of_another_tensor_need_as_many_points_as_the_product() {
    let _pinned = pinned();
    let of = |k: usize| {
        let x = randn([9, 6, k]);
        let product = x.matmul(&x.t()) / 2.0;
        let sums = x.abs().sum_keepdim(-1);
        thalweg::synchronize().unwrap();
        let want = x.abs().to_f64_vec().unwrap().chunks(k).map(|row| row.iter().sum()).collect::<Vec<f64>>();
        for (a, b) in sums.to_f64_vec().unwrap().iter().zip(&want) {
            assert!((a - b).abs() < 1e-5, "{a} instead of {b} with {k} terms");
        }
        assert_eq!(product.dims(), [9, 6, 6]);
    };
    for strict in [false, true] {
        thalweg::with_strict(strict, || [6, 2, 6, 5, 7].into_iter().for_each(of));
    }
}
