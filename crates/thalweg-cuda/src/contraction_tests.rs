//! Tests of matrix products on the emulated GPU, with small integers: exact for every tile, layout and edge.

use crate::device::CudaDevice;
use crate::driver::Emulated;
use crate::golden::Masked;
use std::sync::Arc;
use thalweg_ir::{DType, Shape};
use thalweg_kernel::reference::{Array, Data};
use thalweg_kernel::{Contraction, ContractionGeometry, Geometry, Kernel, MatmulGeometry, Precision};
use thalweg_runtime::Device;

/// Test value: a small integer that depends on the index.
fn value(seed: usize, i: usize) -> f64 {
    ((i * 7 + seed * 13 + i / 11) % 9) as f64 - 4.0
}

fn array(dtype: DType, values: Vec<f64>) -> Array {
    let shape = Shape::new(&[values.len()]);
    let data =
        if dtype.is_float() { Data::Float(values) } else { Data::Int(values.iter().map(|&v| v as i64).collect()) };
    Array { shape, dtype, data }
}

/// Layout of a matrix operand: whether terms are contiguous, elements before it, and gap in elements between its lines.
#[derive(Clone, Copy, Debug)]
struct OperandLayout {
    along: bool,
    first: usize,
    between: usize,
}

fn check(
    device: &Arc<CudaDevice>,
    (dtype, precision): (DType, Precision),
    [count, m, n, k]: [usize; 4],
    lies: [OperandLayout; 2],
) {
    let lay = |n: usize, lines: usize| {
        let OperandLayout { along, first, between } = lies[n];
        let (outer, inner) = if along { (lines, k) } else { (k, lines) };
        let pitch = inner + between;
        let steps = if along { (pitch as isize, 1) } else { (1, pitch as isize) };
        (first, outer * pitch, steps, first + count * outer * pitch)
    };
    let (a, b) = (lay(0, m), lay(1, n));
    let values = [a.3, b.3].map(|len| len.max(1));
    let values = [0, 1].map(|s| (0..values[s]).map(|i| value(s, i)).collect::<Vec<f64>>());
    let geometry = MatmulGeometry {
        batch: vec![(count, a.1 as isize, b.1 as isize)],
        m,
        n,
        k,
        a: (a.0 as isize, a.2.0, a.2.1),
        b: (b.0 as isize, b.2.1, b.2.0),
        reach: [0, 1].map(|s| (k > 0).then(|| (0, values[s].len() - 1))),
    };
    let mut want = vec![0.0; count * m * n];
    for (i, w) in want.iter_mut().enumerate() {
        let (p, r, c) = (i / (m * n), i / n % m, i % n);
        *w = (0..k)
            .map(|t| {
                let x = a.0 + p * a.1 + (r as isize * a.2.0 + t as isize * a.2.1) as usize;
                let y = b.0 + p * b.1 + (c as isize * b.2.0 + t as isize * b.2.1) as usize;
                values[0][x] * values[1][y]
            })
            .fold(0.0, |sum, x| sum + x);
    }
    let buffers = values.map(|v| {
        let bytes = array(dtype, v).to_bytes();
        let buffer = device.allocate(bytes.len()).unwrap();
        device.write(&buffer, &bytes).unwrap();
        buffer
    });
    let bytes = array(dtype, want.clone()).to_bytes();
    let result = device.allocate(bytes.len()).unwrap();
    let kernel = Kernel::Contraction(Contraction::unfused(dtype, precision));
    let geometry = Geometry::Contraction(Box::new(ContractionGeometry::unfused(geometry)));
    let program = device.prepare(&[(&kernel, &geometry)]).unwrap().remove(0);
    eprintln!("CASE {dtype} {precision:?} {count}x{m}x{n}x{k}, {lies:?}");
    program.launch(&geometry, &[&buffers[0], &buffers[1], &result], &[]).unwrap();
    let mut got = vec![0; bytes.len()];
    device.read(&result, &mut got).unwrap();
    let at =
        (0..want.len()).find(|i| got[i * dtype.size()..][..dtype.size()] != bytes[i * dtype.size()..][..dtype.size()]);
    if let Some(at) = at {
        let values = Array::from_bytes(Shape::new(&[want.len()]), dtype, &got);
        eprintln!(
            "{at}: {:?}",
            (at..want.len().min(at + 20)).map(|i| (values.get(i).to_f64(), want[i])).collect::<Vec<_>>()
        );
    }
    assert!(got == bytes, "{dtype} {precision:?} {count}x{m}x{n}x{k}, {lies:?}");
}

/// Pairs of layouts of A and B: terms or lines contiguous, with and without gaps, aligned and not.
fn ways(quick: bool) -> Vec<[OperandLayout; 2]> {
    let lies = |along, first, between| OperandLayout { along, first, between };
    let [a, b, c, d] = [lies(true, 0, 0), lies(false, 0, 0), lies(true, 16, 16), lies(false, 3, 1)];
    if quick { vec![[a, b], [b, a]] } else { vec![[a, b], [b, a], [a, a], [b, b], [c, d], [d, c], [d, a], [c, b]] }
}

fn check_all(kinds: &[(DType, Precision)], sizes: &[[usize; 4]], quick: bool) {
    for sm in [80, 90] {
        let device = CudaDevice::with(Arc::new(Emulated::of(sm).unwrap()), "cuda:emulated").unwrap();
        for &kind in kinds {
            // Only bf16 and f16 use another arithmetic on sm_90.
            let narrow = matches!(kind.0, DType::BF16 | DType::F16);
            for &size in sizes.iter().filter(|_| sm == 90 || narrow) {
                for lies in ways(quick) {
                    check(&device, kind, size, lies);
                }
            }
        }
    }
}

#[test]
fn products_on_tensor_cores_are_exact_for_small_integers() {
    let kinds = [(DType::BF16, Precision::Full), (DType::F16, Precision::Full), (DType::F32, Precision::Tf32)];
    check_all(&kinds, &[[2, 65, 40, 33], [1, 3, 70, 72]], false);
}

#[test]
fn products_on_plain_cores_are_exact_for_small_integers() {
    let full = [DType::F32, DType::F64, DType::I64, DType::U8].map(|d| (d, Precision::Full));
    check_all(&full, &[[2, 65, 40, 17]], false);
    let ordered = [DType::BF16, DType::F32].map(|d| (d, Precision::Ordered));
    check_all(&ordered, &[[1, 33, 65, 48]], true);
}

#[test]
fn terms_of_few_tiles_are_shared() {
    let kinds = [
        (DType::BF16, Precision::Full),
        (DType::F16, Precision::Full),
        (DType::F32, Precision::Full),
        (DType::F32, Precision::Tf32),
        (DType::F64, Precision::Full),
        (DType::I32, Precision::Full),
    ];
    // Splits of equal length with a shorter last one, tiles that exceed the result, and batches.
    check_all(&kinds, &[[1, 64, 64, 512], [2, 65, 130, 700], [1, 5, 9, 1000]], true);
    // Split-K stores accumulators in scratch: one launch, with scratch memory.
    let device = CudaDevice::with(Arc::new(Emulated::of(80).unwrap()), "cuda:emulated").unwrap();
    let scratch = |k: usize, precision| {
        let before = thalweg_runtime::counters();
        check(&device, (DType::F32, precision), [1, 64, 128, k], ways(true)[0]);
        thalweg_runtime::counters().scratch_bytes - before.scratch_bytes
    };
    // Two tiles with 8 splits of 128 terms each; a single split for few terms, and in strict mode.
    let bytes = (2 * 64 * 64 * 4) as u64;
    assert_eq!([1024, 200].map(|k| scratch(k, Precision::Full)), [8 * bytes, 0]);
    assert_eq!(scratch(1024, Precision::Ordered), 0);
}

#[test]
fn edges_of_tiles_of_every_size() {
    let kinds = [(DType::BF16, Precision::Full), (DType::F32, Precision::Full), (DType::F32, Precision::Tf32)];
    // Few terms and many; large tiles where there are many tiles.
    let sizes = [[1, 64, 64, 1], [1, 63, 65, 31], [3, 2, 2, 0], [1, 64, 128, 64], [3, 70, 66, 129]];
    check_all(&kinds, &sizes, true);
}

#[test]
fn large_tiles_are_taken_where_there_are_many() {
    for (sm, dtype, precision) in [
        (80, DType::BF16, Precision::Full),
        (90, DType::BF16, Precision::Full),
        (90, DType::F32, Precision::Tf32),
        (90, DType::F32, Precision::Full),
    ] {
        let device = CudaDevice::with(Arc::new(Emulated::of(sm).unwrap()), "cuda:emulated").unwrap();
        let [a, b] = [true, false].map(|along| OperandLayout { along, first: 0, between: 0 });
        check(&device, (dtype, precision), [66, 5, 260, 20], [a, b]);
        check(&device, (dtype, precision), [33, 130, 130, 3], [b, a]);
    }
}

#[test]
fn tma_gemms_reuse_pipeline_stages() {
    let device = CudaDevice::with(Arc::new(Emulated::of(90).unwrap()), "cuda:emulated").unwrap();
    let [a, b] = [true, false].map(|along| OperandLayout { along, first: 0, between: 0 });
    let bf16 = (DType::BF16, Precision::Full);
    // More steps than stages; tiles of one round and of three, large and small.
    check(&device, bf16, [1, 72, 136, 648], [a, b]);
    check(&device, bf16, [1, 72, 136, 648], [b, a]);
    check(&device, bf16, [33, 136, 136, 72], [b, a]);
    check(&device, (DType::F16, Precision::Full), [70, 136, 136, 40], [a, b]);
    check(&device, bf16, [400, 8, 72, 8], [b, b]);
    // Both: a warpgroup waits while the other one passes all stages more than once.
    check(&device, bf16, [140, 8, 8, 648], [a, a]);
    check(&device, bf16, [267, 8, 8, 1200], [b, a]);
    let apart = |along| OperandLayout { along, first: 8, between: 24 };
    check(&device, bf16, [3, 65, 72, 136], [apart(true), apart(false)]);
}

/// Interleaved accumulator columns in GEMMs of whole blocks of columns, with a last tile narrower than the others, and
/// with terms (K) that end within a pipeline step.
#[test]
fn accumulator_columns_are_interleaved() {
    let device = CudaDevice::with(Arc::new(Emulated::of(90).unwrap()), "cuda:emulated").unwrap();
    let [a, b] = [true, false].map(|along| OperandLayout { along, first: 0, between: 0 });
    let apart = OperandLayout { along: true, first: 8, between: 24 };
    for dtype in [DType::BF16, DType::F16] {
        check(&device, (dtype, Precision::Full), [1, 72, 160, 648], [a, a]);
        check(&device, (dtype, Precision::Full), [1, 200, 288, 72], [b, apart]);
    }
    check(&device, (DType::BF16, Precision::Full), [1, 1500, 1120, 40], [a, a]);
    // Rows of any alignment, whose last tile has few columns or none.
    for (n, between) in [(257, 0), (131, 0), (1031, 8), (190, 0), (1151, 0)] {
        let b = OperandLayout { along: true, first: 0, between };
        check(&device, (DType::F16, Precision::Full), [1, 200, n, 72], [a, b]);
        check(&device, (DType::BF16, Precision::Full), [1, 1500, n, 40], [a, b]);
    }
}

#[test]
fn misaligned_operands_are_copied_to_staging() {
    let device = CudaDevice::with(Arc::new(Emulated::of(90).unwrap()), "cuda:emulated").unwrap();
    let [a, b, c] = [(true, 0), (false, 0), (true, 3)].map(|(along, first)| OperandLayout { along, first, between: 0 });
    let bf16 = (DType::BF16, Precision::Full);
    // An odd number of contiguous terms, then of contiguous columns.
    check(&device, bf16, [1, 64, 66, 65537], [c, b]);
    check(&device, bf16, [1, 64, 2051, 2048], [a, b]);
}

/// Reference `softmax(q·kᵀ/8 + mask)·v` of row-major inputs.
fn attention_of([heads, m, n, d]: [usize; 4], x: &[Vec<f64>]) -> Vec<f64> {
    let mut out = vec![0.0; heads * m * d];
    for row in 0..heads * m {
        let (head, i) = (row / m, row % m);
        let score = |j: usize| {
            let of = |t: usize| x[0][row * d + t] * x[1][(head * n + j) * d + t];
            (0..d).map(of).sum::<f64>() / 8.0 + x[2][i * n + j]
        };
        let scores: Vec<f64> = (0..n).map(score).collect();
        let most = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
        let all: f64 = weights.iter().sum();
        for c in 0..d {
            out[row * d + c] = (0..n).map(|j| weights[j] * x[3][(head * n + j) * d + c]).sum::<f64>() / all;
        }
    }
    out
}

#[test]
fn attention_is_right_on_every_kind_of_tensor_cores() {
    for (sm, dtype) in [(80, DType::BF16), (80, DType::F32), (90, DType::F16), (90, DType::BF16)] {
        let device = CudaDevice::with(Arc::new(Emulated::of(sm).unwrap()), "cuda:emulated").unwrap();
        for sizes in
            [[2, 70, 136, 40], [1, 3, 64, 64], [1, 65, 63, 8], [33, 5, 70, 72], [17, 129, 66, 8], [2, 130, 300, 128]]
        {
            check_attention(&device, sizes, dtype, Masked::Added);
        }
    }
}

/// With few multiprocessors, persistent blocks of two or three warpgroups run several tiles.
#[test]
fn attention_is_right_in_blocks_that_stay() {
    for count in [1, 3, 2] {
        let chip = Emulated::of(90).unwrap().with_multiprocessors(count);
        let device = CudaDevice::with(Arc::new(chip), "cuda:emulated").unwrap();
        let sizes = [
            [3, 200, 136, 64],
            [2, 384, 513, 40],
            [5, 129, 384, 128],
            [4, 65, 64, 72],
            [7, 3, 257, 8],
            [2, 500, 128, 128],
        ];
        for (i, sizes) in sizes.into_iter().enumerate() {
            let dtype = if i % 2 == 0 { DType::BF16 } else { DType::F16 };
            check_attention(&device, sizes, dtype, Masked::None);
            check_attention(&device, sizes, dtype, Masked::Added);
            check_attention(&device, sizes, dtype, Masked::Causal);
        }
    }
}

/// Compares an attention kernel with [`attention_of`].
fn check_attention(device: &CudaDevice, sizes: [usize; 4], dtype: DType, masked: Masked) {
    let [heads, m, n, d] = sizes;
    let mask = |i: usize| match masked {
        Masked::None => 0.0,
        Masked::Added if (i % n) > i / n % m + n / 2 => f64::NEG_INFINITY,
        Masked::Added => (i % 7) as f64 / 4.0,
        Masked::Causal => {
            if i % n > i / n {
                f64::NEG_INFINITY
            } else {
                0.0
            }
        }
    };
    let inputs = [heads * m * d, heads * n * d, m * n, heads * n * d].into_iter().enumerate();
    let inputs = inputs.map(|(s, len)| (0..len).map(|i| if s == 2 { mask(i) } else { value(s, i) / 4.0 }).collect());
    let inputs: Vec<Vec<f64>> = inputs.collect();
    let want = attention_of(sizes, &inputs);
    let upload = |v: &Vec<f64>| {
        let bytes = array(dtype, v.clone()).to_bytes();
        let buffer = device.allocate(bytes.len()).unwrap();
        device.write(&buffer, &bytes).unwrap();
        buffer
    };
    let read = |s: &usize| masked == Masked::Added || *s != 2;
    let mut buffers: Vec<_> = (0..inputs.len()).filter(read).map(|s| upload(&inputs[s])).collect();
    buffers.push(device.allocate(want.len() * dtype.size()).unwrap());
    let (kernel, geometry) = crate::golden::attention(heads, [m, n, d], dtype, masked);
    let program = device.prepare(&[(&kernel, &geometry)]).unwrap().remove(0);
    program.launch(&geometry, &buffers.iter().collect::<Vec<_>>(), &[]).unwrap();
    let mut got = vec![0; want.len() * dtype.size()];
    device.read(buffers.last().unwrap(), &mut got).unwrap();
    let got = Array::from_bytes(Shape::new(&[want.len()]), dtype, &got);
    for (i, w) in want.iter().enumerate() {
        let g = got.get(i).to_f64();
        assert!((g - w).abs() < 0.005, "{dtype} {sizes:?} {masked:?}: {g} instead of {w} at {i}");
    }
}

#[test]
fn one_row_or_one_column_is_a_gemv() {
    let kinds = [(DType::F32, Precision::Full), (DType::BF16, Precision::Full), (DType::I32, Precision::Full)];
    check_all(&kinds, &[[2, 1, 300, 37], [1, 200, 1, 64], [3, 1, 1, 50], [1, 1, 7, 3000]], true);
}
