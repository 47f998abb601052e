//! `#[kernel]`: kernels on numbers and on tensors, their cost, and their gradients.

use crate::assert_mistake;
use crate::counting::{counted, pinned, randn};
use crate::differences::{check, numbers};
use thalweg::kernel::{Int, Mask};
use thalweg::prelude::*;
use thalweg::{with_fusion, with_reference, with_strict};

#[kernel]
fn gelu<F: Real>(x: F) -> F {
    let t = (0.7978845608 * x * (1.0 + 0.044715 * x * x)).tanh();
    if x < -10.0 { 0.0 } else { 0.5 * x * (1.0 + t) }
}

/// Unrolled Newton steps to a cube root.
#[kernel]
fn cbrt<F: Real>(x: F) -> F {
    let mut y = if x > 1.0 { x / 3.0 + 0.6 } else { 0.4 + 0.6 * x };
    for _ in 0..6 {
        y -= (y * y * y - x) / (3.0 * y * y);
    }
    y
}

/// A polynomial whose coefficients are plain data.
#[kernel]
fn horner<F: Real, const N: usize>(x: F, coefficients: [f64; N]) -> F {
    let mut sum = 0.0;
    for c in coefficients.iter().rev() {
        sum = sum * x + F::lit(*c);
    }
    sum
}

/// The price of a call and of a put.
#[kernel]
fn black_scholes<F: Real>(spot: F, strike: F, years: F, rate: F, volatility: F) -> (F, F) {
    let root = volatility * years.sqrt();
    let up = ((spot / strike).ln() + (rate + 0.5 * volatility * volatility) * years) / root;
    let down = up - root;
    let discount = (-rate * years).exp();
    let call = spot * normal(up) - strike * discount * normal(down);
    (call, call - spot + strike * discount)
}

/// Kernel that is disabled by `cfg`, with everything that the macro generates.
#[cfg(any())]
#[kernel]
fn absent<F: Real>(x: F) -> F {
    nothing_of_that_name(x)
}

/// Kernel with a where clause and a mutable parameter.
#[kernel]
fn halved<F>(mut x: F, mut n: i32) -> (F, i32)
where
    F: Real,
{
    if x > 1.0 {
        x *= 0.5;
        n = 0;
    }
    (x, n)
}

/// The normal distribution function: a helper with its own constants.
#[kernel]
fn normal<F: Real>(x: F) -> F {
    0.5 * (-x * F::lit(std::f64::consts::FRAC_1_SQRT_2)).erfc()
}

/// Statements, nested branches, tuples, arrays, integers, truth values.
#[kernel]
fn mixed<F: Real>(x: F, n: i32, on: bool) -> (F, i32, bool) {
    let (mut a, mut count) = (x, 0);
    let mut seen = false;
    let weights = [0.25, 0.5, -0.25];
    let mut bins = [0.0; 3];
    for k in 0..3 {
        if x * weights[k] > 0.1 && (k > 0 || on) {
            a += weights[k];
            count += n + 1;
            bins[k] = a;
            if on || n == 2 {
                seen = true;
            } else if n < 0 {
                count -= 1;
            }
        }
        a = match k {
            0 => a * 2.0,
            1 | 2 => a - 1.0,
            _ => a,
        };
    }
    let shifted = match n % 4 {
        0 => (n << 2) ^ 5,
        1..=2 => n >> 1,
        m if m > 2 => -m,
        _ => 7,
    };
    let total = bins[0] + bins[1] * 2.0 + bins[2] as F + n as F;
    (total.max(a), count + shifted + x as i32, seen != on && !(x >= 0.5))
}

/// Arrays of integers, types at `let`, assignments to elements.
#[kernel]
fn counted_bins<F: Real>(x: F, y: F) -> [i32; 3] {
    let mut bins = [0; 3];
    let (mut last, first): (i32, bool) = (-1, true);
    let none: bool = false;
    for (k, value) in [x, y].into_iter().enumerate() {
        if value < 0.0 {
            bins[0] += 1;
            last = 0;
        } else if value < 1.0 && first != none {
            bins[1] += k as i32 + 1;
            last = 1;
        } else {
            bins = [0, 0, 7];
            bins[2] = 9;
        }
    }
    [bins[0], bins[1] * 10 + last, bins[2]]
}

#[kernel]
fn only_integers<F: Real>(n: i32) -> i32 {
    let mut h = n * 747796405 + 5;
    h = ((h >> ((h >> 28) + 4)) ^ h) * 277803737;
    if h > 0 { h } else { -1 }
}

#[test]
fn numbers_and_tensors_agree() {
    let xs: Vec<f32> = (-30..30).map(|i| i as f32 * 0.37).collect();
    let x = Tensor::new(xs.clone());
    let assert = |name: &str, got: &Tensor, f: &dyn Fn(f32) -> f32| {
        let want: Vec<f32> = xs.iter().map(|&x| f(x)).collect();
        for (got, want) in got.to_vec::<f32>().unwrap().into_iter().zip(want) {
            let near = (got - want).abs() <= 1e-5 * want.abs().max(1.0) || got.is_nan() && want.is_nan();
            assert!(near, "{name}: {got} {want}");
        }
    };
    assert("gelu", &gelu::on(&x), &gelu);
    let positive = x.abs() + 0.1;
    assert("cbrt", &cbrt::on(&positive), &|x| cbrt(x.abs() + 0.1));
    assert("horner", &horner::on(&x, [1.0, -0.5, 0.25]), &|x| horner(x, [1.0, -0.5, 0.25]));
    assert_eq!(horner::on(&x, [3.0]).dims(), x.dims(), "a constant has the operands' shape");
    let (call, put) = black_scholes::on(&positive, 2.0, 1.5, 0.02, &(&positive * 0.1 + 0.1));
    let number = |x: f32| black_scholes(x, 2.0, 1.5, 0.02, x * 0.1 + 0.1);
    assert("call", &call, &|x| number(x.abs() + 0.1).0);
    assert("put", &put, &|x| number(x.abs() + 0.1).1);
    for on in [false, true] {
        let ns = Tensor::new([-3i32, 0, 1, 2, 3, 9]).unsqueeze(1);
        let got = mixed::on(&x, &ns, on);
        let (a, n, c) =
            (got.0.to_vec::<f32>().unwrap(), got.1.to_vec::<i32>().unwrap(), got.2.to_vec::<bool>().unwrap());
        assert_eq!(got.0.dims(), [6, 60]);
        for (i, (&k, &x)) in [-3, 0, 1, 2, 3, 9].iter().flat_map(|k| xs.iter().map(move |x| (k, x))).enumerate() {
            let want = mixed(x, k, on);
            assert!((a[i] - want.0).abs() < 1e-5, "{x} {k} {on}: {} {want:?}", a[i]);
            assert_eq!((n[i], c[i]), (want.1.get(), want.2.get()), "{x} {k} {on}");
        }
    }
    let n = Tensor::arange_with(1000, DType::I32) - 500;
    let got = only_integers::on(&n).to_vec::<i32>().unwrap();
    (0..1000).for_each(|i| assert!(only_integers::<f32>(i - 500) == got[i as usize], "{i}"));
    let all = counted_bins::on(&x, positive.slice(By::by(.., -1)));
    let ys = positive.slice(By::by(.., -1)).to_vec::<f32>().unwrap();
    let all = all.map(|t| t.to_vec::<i32>().unwrap());
    for (i, (&x, &y)) in xs.iter().zip(&ys).enumerate() {
        let want = counted_bins(x, y);
        assert!((0..3).all(|k| want[k] == all[k][i]), "{x} {y}: {want:?}");
    }
    let (y, n) = halved::on(Tensor::new([4.0f32, 0.5]), 3);
    assert_eq!((y.to_vec::<f32>().unwrap(), n.to_vec::<i32>().unwrap()), (vec![2.0, 0.5], vec![0, 3]));
    // On numbers the type is the caller's.
    assert_eq!((gelu(1.0f64) * 1e6).round(), 841192.0);
    assert_eq!(mixed(1.0f64, Int::from(3), true).1, mixed(1.0f32, 3, true).1.get());
}

/// A kernel is its operations: it fuses with its neighbours, and costs no launch and no bytes.
#[test]
fn between_two_maps_it_costs_no_launch_and_no_bytes() {
    let _pinned = pinned();
    let x = randn([64, 256]);
    let step = || gelu::on(&(&x * 2.0)).square() + 1.0;
    let (y, c) = counted(step);
    let bytes = 4 * 64 * 256;
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, bytes, bytes), "{c:?}");
    drop(y);
    // No plan after the second iteration, for any numbers; constants need no operation.
    let step = |k: f64| black_scholes::on(x.abs(), k, k * 0.5, 0.02, 0.3).0;
    drop(counted(|| step(1.0)));
    drop(counted(|| step(2.0)));
    for turn in 3..8 {
        let (_, c) = counted(|| drop(step(turn as f64).to_vec::<f32>()));
        assert_eq!((c.plans_made, c.instances_made, c.programs_compiled, c.kernels), (0, 0, 0, 1), "{c:?}");
    }
    // Several results of one kernel are one launch; an unwanted one costs nothing.
    let (_, c) = counted(|| mixed::on(&x, 3, true));
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, bytes, 9 * bytes / 4), "{c:?}");
    let plain = |x: &Tensor| {
        let t = ((x * 0.7978845608) * (x * 0.044715 * x + 1.0)).tanh();
        x.lt(-10.0).where_(0.0, x * 0.5 * (t + 1.0))
    };
    let ((_, own), (_, by_hand)) = (counted(|| gelu::on(&x)), counted(|| plain(&x)));
    assert_eq!((own.operations, own.kernels), (by_hand.operations, by_hand.kernels), "{own:?}");
}

/// Fused, unfused and by the interpreter, between other operations: the same bits in strict mode.
#[test]
fn strict_bits_do_not_depend_on_fusion() {
    let x = randn([33, 17]);
    let run = || {
        let (call, put) = black_scholes::on(&(x.abs() + 0.5), 1.5, 0.5, 0.02, 0.3);
        let y = cbrt::on(gelu::on(&x).abs()) + call * put;
        y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    with_strict(true, || assert_eq!(run(), with_fusion(false, run)));
    let far = with_reference(run).into_iter().zip(run()).map(|(a, b)| f32::from_bits(a) - f32::from_bits(b));
    assert!(far.fold(0.0, |m: f32, d| m.max(d.abs())) < 1e-4);
}

#[test]
fn gradients_of_all_orders() {
    let x = numbers(1, [2, 5], -1.5, 1.5);
    check("gelu", std::slice::from_ref(&x), &|x| gelu::on(&x[0]));
    check("cbrt", &[x.square() + 0.3], &|x| cbrt::on(&x[0]));
    let of = |seed, shape: &[usize], low, high| numbers(seed, Shape::new(shape), low, high);
    let xs = [of(2, &[3, 1], 0.8, 1.2), of(3, &[4], 0.8, 1.2), of(4, &[], 0.5, 1.0), of(5, &[3, 4], 0.2, 0.4)];
    check("black_scholes", &xs, &|x| {
        let (call, put) = black_scholes::on(&x[0], &x[1], &x[2], 0.02, &x[3]);
        call * 2.0 + put.square()
    });
    check("mixed", &[x], &|x| mixed::on(&x[0], 2, true).0.square());
}

#[test]
fn dtypes_and_devices() {
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        let x = Tensor::new([0.5f64, -2.0, 20.0]).cast(dtype);
        let y = gelu::on(&x);
        assert_eq!(y.dtype(), dtype);
        let tolerance = if matches!(dtype, DType::BF16 | DType::F16) { 0.1 } else { 1e-6 };
        for (got, x) in y.to_f64_vec().unwrap().into_iter().zip([0.5, -2.0, 20.0]) {
            assert!((got - gelu(x)).abs() < tolerance, "{dtype}: {got} {}", gelu(x));
        }
    }
    assert_eq!(gelu::on(Tensor::zeros([0, 3])).dims(), [0, 3]);
}

#[test]
fn mistakes_name_the_kernel_and_its_operand() {
    let x = Tensor::zeros([2, 3]);
    assert_mistake(|| drop(gelu::on(1.0)), &["gelu: no operand is a tensor", "gelu(..)"]);
    assert_mistake(|| drop(gelu::on(x.cast(DType::I32))), &["gelu: operand `x` takes a float dtype, not i32", ".cast"]);
    assert_mistake(
        || drop(black_scholes::on(&x, x.cast(DType::F64), 1.0, 1.0, 1.0)),
        &["black_scholes: operands `spot` and `strike` are f32 and f64"],
    );
    assert_mistake(
        || drop(black_scholes::on(&x, Tensor::zeros([4]), 1.0, 1.0, 1.0)),
        &["black_scholes: operand `strike` of shape [4] does not broadcast with [2, 3]"],
    );
    assert_mistake(|| drop(mixed::on(&x, &x, true)), &["mixed: operand `n` is f32, not i32", ".cast(DType::I32)"]);
    assert_mistake(|| drop(mixed::on(&x, 2.5, true)), &["mixed: operand `n` is Float(2.5), which does not fit i32"]);
    #[kernel]
    fn long<F: Real>(x: F) -> F {
        let mut y = x;
        for _ in 0..100_000 {
            y = y * 0.5 + 1.0;
        }
        y
    }
    assert_mistake(|| drop(long::on(&x)), &["long: more than 16384 operations", "unrolled"]);
    // Nothing is lost: the thread continues.
    assert_eq!(gelu::on(&x).to_vec::<f32>().unwrap(), [0.0; 6]);
}

/// A number that selects a branch, and one that is only an operand.
#[kernel]
fn signed<F: Real>(x: F, up: bool, by: F, n: i32) -> (F, i32, F) {
    let y = if up { x + by } else { x * (by + 1.0) };
    (y, n * 2 + if x > 0.0 { 1 } else { 0 }, 0.5)
}

/// A replayed call equals a traced one: for other numbers, shapes and dtypes, and for numbers in place of tensors.
#[test]
fn a_later_call_records_what_a_trace_would() {
    let numbers = [-1.5f32, 0.25, 3.0];
    let (x, n) = (Tensor::new(numbers), Tensor::new([4i32, -7, 0]));
    for _ in 0..3 {
        for (up, by) in [(true, 0.5f32), (false, 0.5), (false, -2.0)] {
            for given in [true, false] {
                let count = |i: usize| if given { [4, -7, 0][i] } else { 5 };
                let (y, c, half) = if given { signed::on(&x, up, by, &n) } else { signed::on(&x, up, by, 5) };
                let wide = signed::on(x.cast(DType::F64), up, by, 5).0.to_vec::<f64>().unwrap();
                let (y, c) = (y.to_vec::<f32>().unwrap(), c.to_vec::<i32>().unwrap());
                assert_eq!((half.dims(), half.to_vec::<f32>().unwrap()), (&[3usize][..], vec![0.5; 3]));
                for (i, &x) in numbers.iter().enumerate() {
                    let (want, count, _) = signed(x, Mask::from(up), by, Int::from(count(i)));
                    assert_eq!((y[i], c[i]), (want, count.get()), "{x} {up} {by}");
                    assert_eq!(wide[i], signed(f64::from(x), Mask::from(up), f64::from(by), Int::from(5)).0);
                }
            }
        }
    }
    // Of other shapes, and with their own broadcasts.
    let column = Tensor::new([[1.0f32], [2.0]]);
    for _ in 0..2 {
        let (y, _, _) = signed::on(&x, Tensor::new([[true], [false]]), &column, 1);
        assert_eq!(y.to_vec::<f32>().unwrap(), [-0.5, 1.25, 4.0, -4.5, 0.75, 9.0]);
    }
}
