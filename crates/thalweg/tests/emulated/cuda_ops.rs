//! User-defined operations in CUDA C++: separate launches, between fused kernels.

use super::{counted, emulated, tensor, values};
use thalweg::prelude::*;
use thalweg::{Backward, CudaLaunch, CudaOp, Error, Scalar, grad, with_fusion, with_reference, with_strict};

/// `a·x + b·y` of tensors of one shape.
fn blend(a: f64, b: i64) -> CudaOp {
    let text = r#"
        extern "C" __global__ void __launch_bounds__(64) blend(const float *x, const float *y, float *z, int n, float a, int b) {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) z[i] = a * x[i] + b * y[i];
        }"#;
    CudaOp::new(
        "blend",
        text,
        "blend",
        |x| [(*x[0].shape(), x[0].dtype())],
        move |x| CudaLaunch::linear(x[0].numel(), 64).size(x[0].numel()).number(a).number(b),
    )
    .reference(move |x| &x[0] * a + &x[1] * b)
    .backward(move |Backward { gradients, .. }| vec![&gradients[0] * a, &gradients[0] * b])
}

/// Sums of rows by a tree in shared memory, with a block of 4 times 8 threads per row, and the index of the largest
/// element.
fn row_sums() -> CudaOp {
    let text = r#"
        // Names that the library has, too.
        typedef unsigned u32;
        __device__ u32 begin() { return threadIdx.y * blockDim.x + threadIdx.x; }
        __global__ void sums(const double *x, double *sum, long long *largest, int n) {
            __shared__ double part[32];
            u32 t = begin();
            const double *row = x + (long long)blockIdx.x * n;
            double s = 0;
            for (int i = t; i < n; i += 32) s += row[i];
            part[t] = s;
            __syncthreads();
            for (u32 half = 16; half > 0; half /= 2) {
                if (t < half) part[t] += part[t + half];
                __syncthreads();
            }
            if (t == 0) {
                int at = 0;
                for (int i = 1; i < n; i++) at = row[i] > row[at] ? i : at;
                sum[blockIdx.x] = part[0];
                largest[blockIdx.x] = at;
            }
        }"#;
    let of_rows = |x: &[Tensor]| [([x[0].dims()[0]], DType::F64), ([x[0].dims()[0]], DType::I64)];
    let launch = |x: &[Tensor]| CudaLaunch::new([x[0].dims()[0], 1, 1], [4, 8, 1]).size(x[0].dims()[1]).cost(10);
    CudaOp::new("row_sums", text, "sums", of_rows, launch).reference(|x| (x[0].sum(1), x[0].argmax(1)))
}

fn wide(shape: [usize; 2]) -> Tensor {
    let numbers: Vec<f64> = (0..shape[0] * shape[1]).map(|i| ((i * 37 + 11) % 64) as f64 - 31.0).collect();
    Tensor::from_slice(&numbers, shape).to_device(emulated()).unwrap()
}

#[test]
fn it_costs_its_own_launch_and_nothing_else() {
    let numbers: Vec<f32> = (0..1000).map(|i| i as f32 * 0.01).collect();
    let (x, y) = (tensor(&numbers), tensor(&numbers));
    let stretch = |k: f64| {
        let a = (&x * 2.0 + 1.0).sin();
        let z = blend(k, 3).on((&a, &y));
        // An independent operation shares the kernel of the operations before.
        let beside = (&a - &y).abs();
        ((z.cos() + 1.0).square(), beside)
    };
    let ((got, beside), c) = counted(|| stretch(0.5));
    assert_eq!((c.segments, c.kernels, c.device_launches, c.host_calls), (1, 3, 3, 0), "{c:?}");
    // x, y; a, y; z: read. a and the independent one; z; the result: written.
    assert_eq!((c.bytes_read, c.bytes_written), (5 * 4000, 4 * 4000), "{c:?}");
    let of = |x: f32| ((2.0 * x + 1.0).sin(), x);
    for ((got, beside), &x) in values(&got).into_iter().zip(values(&beside)).zip(&numbers) {
        let (a, y) = of(x);
        assert!((got - ((0.5 * a + 3.0 * y).cos() + 1.0).powi(2)).abs() < 1e-4, "{x}: {got}");
        assert!((beside - (a - y).abs()).abs() < 1e-5);
    }
    // Another number needs no other plan and no other source.
    let (_, c) = counted(|| (0..5).for_each(|k| drop(values(&stretch(f64::from(k)).0))));
    assert_eq!((c.plans_made, c.programs_compiled), (0, 0), "{c:?}");
}

#[test]
fn it_reads_what_lies_in_any_way() {
    let x = wide([6, 8]);
    let ops: [fn(&Tensor) -> Tensor; 6] = [
        |x| x.t(),
        |x| x.slice((1..5, ..)),
        |x| x.slice((.., (1..7).by(2))),
        |x| x.slice((2..3, ..)).broadcast_to([5, 8]),
        |x| x.flip(1) + 1.0,
        |x| x.reshape([3, 16]).t() * 0.5,
    ];
    for (i, view) in ops.iter().enumerate() {
        for there in [false, true] {
            let v = view(&x);
            // Held and computed, so that it is an input in that layout; or part of the segment.
            if there {
                thalweg::synchronize().unwrap();
            }
            let both = row_sums().on_all(&v);
            let want = with_reference(|| row_sums().on_all(&v));
            assert_eq!(both[0].to_vec::<f64>().unwrap(), want[0].to_vec::<f64>().unwrap(), "{i}, {there}");
            assert_eq!(both[1].to_vec::<i64>().unwrap(), want[1].to_vec::<i64>().unwrap(), "{i}, {there}");
        }
    }
    // A slice of whole rows is row-major: it is not copied.
    let (y, c) = counted(|| row_sums().on_all(&x.slice((1..5, ..))).swap_remove(0));
    assert_eq!((c.kernels, c.device_launches, c.bytes_read), (1, 1, 4 * 8 * 8), "{c:?}");
    assert_eq!(y.dims(), [4]);
    let none = row_sums().on_all(&Tensor::zeros_with([0, 4], (DType::F64, emulated())));
    assert!(none[0].to_vec::<f64>().unwrap().is_empty());
}

#[test]
fn several_results_are_one_launch() {
    let x = wide([5, 40]);
    for fused in [true, false] {
        let (y, c) = counted(|| with_fusion(fused, || row_sums().on_all(&x)));
        assert_eq!((c.kernels, c.device_launches, c.bytes_written), (1, 1, 80), "{fused}: {c:?}");
        let want = with_reference(|| row_sums().on_all(&x));
        assert_eq!(y[0].to_vec::<f64>().unwrap(), want[0].to_vec::<f64>().unwrap());
        assert_eq!(y[1].to_vec::<i64>().unwrap(), want[1].to_vec::<i64>().unwrap());
    }
    // An unwanted result goes to scratch memory.
    let (y, c) = counted(|| row_sums().on_all(&x).swap_remove(1) + 1);
    assert_eq!((c.kernels, c.scratch_bytes), (2, 64), "{c:?}");
    assert_eq!(y.to_vec::<i64>().unwrap().len(), 5);
}

#[test]
fn what_does_not_compile_is_the_error_of_its_read_alone() {
    let broken = |text: &'static str| {
        let of = |x: &[Tensor]| [(*x[0].shape(), DType::F32)];
        CudaOp::new("broken", text, "f", of, |x| CudaLaunch::linear(x[0].numel(), 32))
    };
    let x = tensor(&[1.0, 2.0]);
    let other = &x + 1.0;
    let text = "__global__ void f(const float *x, float *y) {\n  y[0] = undefined_thing;\n}";
    let (y, line) = (broken(text).on(&(&x * 2.0)), line!());
    let after = &y + 1.0;
    let said = y.to_vec::<f32>().unwrap_err().to_string();
    for part in ["broken: ", "undefined_thing", "broken:2", &format!("cuda_ops.rs:{line}")] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert!(matches!(after.to_vec::<f32>().unwrap_err(), Error::Host { .. } | Error::Failed(_)));
    assert_eq!(values(&other), [2.0, 3.0]);
    // The compiler checks dtypes and the number of parameters.
    for text in [
        "__global__ void f(const double *x, float *y) {}",
        "__global__ void f(const float *x, int *y) {}",
        "__global__ void f(const float *x, float *y, int n) {}",
        "__global__ void g(const float *x, float *y) {}",
    ] {
        assert!(matches!(broken(text).on(&x).to_vec::<f32>(), Err(Error::Host { .. })), "{text}");
    }
    assert_eq!(values(&(&x + 2.0)), [3.0, 4.0]);
}

#[test]
fn it_has_the_backward_pass_that_it_was_given() {
    let (x, y) = (tensor(&[1.0, 2.0, 3.0]).tracked(), tensor(&[0.5, -1.0, 2.0]));
    let loss = (blend(0.5, 2).on((&x, &y)) * &y).sum(..);
    assert_eq!(values(&grad(&loss, &x)), [0.25, -0.5, 1.0]);
}

/// Random segments around calls: in every mode the result of the reference, to the bit.
#[test]
fn random_stretches_around_it_are_what_the_reference_gives() {
    let inputs: Vec<Tensor> = (0..3u32)
        .map(|k| Tensor::from_fn([4, 6], |at: &[usize]| ((at[0] * 7 + at[1] * 5 + k as usize) % 9) as f32 * 0.25 - 1.0))
        .map(|x| x.to_device(emulated()).unwrap())
        .collect();
    for seed in 0..40u64 {
        let stretch = || {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut next = |n: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % n
            };
            let mut all = inputs.clone();
            for _ in 0..8 {
                let (a, b) = (all[next(all.len())].clone(), all[next(all.len())].clone());
                all.push(match next(7) {
                    0 => blend(next(3) as f64 - 1.0, next(4) as i64).on((&a, &b)),
                    1 => blend(0.5, 1).on((&a.flip(1), &b)),
                    2 => {
                        let sums = row_sums().on_all(&a.cast(DType::F64));
                        sums[next(2)].cast(DType::F32).unsqueeze(1).broadcast_to([4, 6]) * 0.125
                    }
                    3 => a.maximum(&b) * 0.5,
                    4 => a.reshape([6, 4]).t().reshape([4, 6]) + &b,
                    5 => a.sum_keepdim(1) * 0.125 - &b,
                    _ => a * 0.25,
                });
                // Some results are dropped.
                if next(4) == 0 {
                    let at = next(all.len() - 1);
                    drop(all.swap_remove(at));
                }
            }
            all
        };
        let bits = |all: Vec<Tensor>| -> Vec<Vec<u32>> {
            all.iter().map(|x| values(x).into_iter().map(|v| (v + 0.0).to_bits()).collect()).collect()
        };
        let want = bits(with_reference(stretch));
        for fused in [true, false] {
            assert_eq!(bits(with_strict(true, || with_fusion(fused, stretch))), want, "seed {seed}, fused {fused}");
        }
    }
}

#[test]
fn mistakes_are_told_at_the_call() {
    let said = |f: &dyn Fn() -> Tensor| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(f()))).unwrap_err();
        panic.downcast_ref::<String>().cloned().unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap().to_string())
    };
    let x = tensor(&[1.0, 2.0]);
    let plain = |launch: CudaLaunch| {
        let of = |x: &[Tensor]| [(*x[0].shape(), DType::F32)];
        CudaOp::new("plain", "", "f", of, move |_| launch.clone())
    };
    let one = || CudaLaunch::linear(2, 32);
    assert!(said(&|| plain(one()).on(&x.tracked())).starts_with("plain: operand 0 of shape [2] is tracked"));
    assert!(
        said(&|| plain(one()).on(&Tensor::new([1.0f32]))).starts_with("plain: it is written in CUDA C++, which cpu")
    );
    assert!(said(&|| with_reference(|| plain(one()).on(&x))).contains("the reference interpreter does not run"));
    assert!(said(&|| plain(CudaLaunch::linear(0, 32)).on(&x)).contains("0 x 1 x 1 blocks"));
    assert!(said(&|| plain(CudaLaunch::new([1, 1, 1], [64, 32, 1])).on(&x)).contains("[64, 32, 1] threads"));
    let many = (0..8).fold(one(), |l, i| l.number(Scalar::Int(i)));
    assert!(said(&|| plain(many.clone()).on(&x)).contains("1 operands and 8 numbers"));
    let other = plain(one()).reference(|x| x[0].cast(DType::F64));
    assert!(said(&|| with_reference(|| other.on(&x))).contains("its reference gives f64[2]"));
}
