//! Accuracy of the functions of `math.wgsl` on the first adapter, and values of those of `prelude.wgsl`.

use crate::adapters;
use crate::driver::{MEMORY, WgpuDriver};
use crate::render::functions::needed;
use thalweg_gpu::runtime::{Driver, Launch};
use thalweg_ir::ElementOp;

/// The first adapter, opened; `None` with a printed reason where there is none.
fn driver() -> Option<WgpuDriver> {
    let Some(adapter) = adapters::all().first() else {
        println!("left out: {}", adapters::advice());
        return None;
    };
    WgpuDriver::open(adapter, "wgpu:0").inspect_err(|why| println!("left out: {why}")).ok()
}

/// Computes the WGSL expression of the words `x` and `y`, a u32, for pairs of words.
fn computed(driver: &WgpuDriver, expression: &str, pairs: &[[u32; 2]]) -> Vec<u32> {
    let text = format!(
        "{MEMORY} 0\nstruct Arguments {{ w: array<vec4<u32>, 2> }}\n@group(0) @binding(0) var<uniform> a: Arguments;\n{}\
         @compute @workgroup_size(64)\nfn test(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let at = (a.w[0].x >> 2u) + 2u * id.x;\nif id.x >= a.w[0].z {{ return; }}\n\
         let x = memory_0[at];\nlet y = memory_0[at + 1u];\nmemory_0[at] = {expression};\n}}\n",
        needed(expression)
    );
    let bytes: Vec<u8> = pairs.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let address = driver.obtain(bytes.len()).unwrap();
    driver.write(address, &bytes).unwrap();
    let function = driver.load(&driver.compile(&text).unwrap(), &["test"]).unwrap().remove(0);
    let grid = [pairs.len().div_ceil(64) as u32, 1, 1];
    let arguments = vec![address, pairs.len() as u64];
    driver.launch(&Launch { function, grid, block: 64, shared: 0, arguments, early: false }).unwrap();
    let mut out = vec![0; bytes.len()];
    driver.read(address, &mut out).unwrap();
    driver.release(address);
    out.chunks_exact(8).map(|c| u32::from_le_bytes(c[..4].try_into().unwrap())).collect()
}

/// Error of an f32 result in ulp of the exact one; subnormal results and arguments may count as 0. Infinite if a NaN or
/// an infinity is wrong.
fn error(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got.to_bits() == rounded.to_bits() || got.is_nan() && rounded.is_nan() {
        return if rounded.is_finite() { (f64::from(got) - exact).abs() / ulp(exact) } else { 0.0 };
    }
    if got.is_nan() || rounded.is_nan() || exact.is_infinite() {
        return f64::INFINITY;
    }
    if exact.abs() < f64::from(f32::MIN_POSITIVE) && got.abs() <= f32::MIN_POSITIVE {
        return 0.0;
    }
    let step = |v: f64| v.clamp(-(2f64.powi(128)), 2f64.powi(128));
    (step(f64::from(got)) - step(exact)).abs() / ulp(exact)
}

fn ulp(exact: f64) -> f64 {
    let exponent = ((exact.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    2f64.powi(exponent.clamp(-126, 127) - 23)
}

/// Largest error of a function of one float over every `step`-th bit pattern, and its argument.
fn measured(driver: &WgpuDriver, name: &str, op: ElementOp, step: u32) -> (f64, f32) {
    let exact = op.row().meaning.float.unwrap();
    let all: Vec<[u32; 2]> = (0..u32::MAX / step).map(|n| [n * step + n % 7, 0]).collect();
    let (mut most, mut at) = (0.0, 0.0);
    for part in all.chunks(1 << 20) {
        let got = computed(driver, &format!("bitcast<u32>({name}_f32(bitcast<f32>(x)))"), part);
        for (&[bits, _], got) in part.iter().zip(got) {
            let x = f32::from_bits(bits);
            // Subnormal arguments count as 0 on some adapters.
            if x.is_subnormal() {
                continue;
            }
            let own = error(f32::from_bits(got), exact(&[f64::from(x)]));
            if own > most {
                (most, at) = (own, x);
            }
        }
    }
    (most, at)
}

/// Bounds in ulp.
const BOUNDS: &[(&str, ElementOp, f64)] = &[
    ("exp", ElementOp::Exp, 2.0),
    ("exp2", ElementOp::Exp2, 2.0),
    ("expm1", ElementOp::Expm1, 3.0),
    ("log", ElementOp::Log, 2.0),
    ("log2", ElementOp::Log2, 3.0),
    ("log1p", ElementOp::Log1p, 3.0),
    ("sin", ElementOp::Sin, 3.0),
    ("cos", ElementOp::Cos, 3.0),
    ("atan", ElementOp::Atan, 3.0),
    ("tanh", ElementOp::Tanh, 5.0),
    ("sigmoid", ElementOp::Sigmoid, 4.0),
    ("erf", ElementOp::Erf, 4.0),
    ("erfc", ElementOp::Erfc, 6.0),
    ("tan", ElementOp::Tan, 5.0),
    ("asin", ElementOp::Asin, 3.0),
    ("acos", ElementOp::Acos, 3.0),
    ("sinh", ElementOp::Sinh, 4.0),
    ("cosh", ElementOp::Cosh, 3.0),
    ("asinh", ElementOp::Asinh, 5.0),
    ("acosh", ElementOp::Acosh, 5.0),
    ("atanh", ElementOp::Atanh, 5.0),
];

#[test]
fn functions_are_within_their_bounds() {
    let Some(driver) = driver() else { return };
    let mut wrong = vec![];
    for &(name, op, bound) in BOUNDS {
        let (most, at) = measured(&driver, name, op, 4093);
        println!("{name}: {most:.2} ulp at {at:e}");
        if most > bound {
            wrong.push(format!("{name}: {most:.2} ulp at {at:e}, more than {bound}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Compares a function of two floats with its meaning, on pairs of notable and of random numbers.
fn of_two(driver: &WgpuDriver, name: &str, op: ElementOp, bound: f64) {
    let notable = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.0,
        3.0,
        2.5,
        -3.5,
        1e-30,
        1e30,
        -1e30,
        f32::INFINITY,
        -f32::INFINITY,
        f32::NAN,
        -f32::NAN,
    ];
    let mut pairs: Vec<[u32; 2]> =
        notable.iter().flat_map(|x| notable.iter().map(|y| [x.to_bits(), y.to_bits()])).collect();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 24) as f32
    };
    pairs.extend((0..100_000).map(|_| [(random() * 40.0 - 4.0f32).to_bits(), (random() * 30.0 - 15.0).to_bits()]));
    pairs.extend((0..100_000).map(|_| [(0.9 + 0.2 * random()).to_bits(), ((random() - 0.5) * 1000.0).to_bits()]));
    // Numbers of all magnitudes.
    let mut any = || (random() - 0.5) * 2f32.powf(random() * 250.0 - 124.0);
    pairs.extend((0..50_000).map(|_| [any().to_bits(), any().to_bits()]));
    let got = computed(driver, &format!("bitcast<u32>({name}_f32(bitcast<f32>(x), bitcast<f32>(y)))"), &pairs);
    let exact = op.row().meaning.float.unwrap();
    let (mut most, mut at) = (0.0, [0.0; 2]);
    for (&pair, got) in pairs.iter().zip(got) {
        let args = pair.map(f32::from_bits);
        let own = error(f32::from_bits(got), exact(&args.map(f64::from)));
        if own > most {
            (most, at) = (own, args);
        }
    }
    println!("{name}: {most:.2} ulp at {at:?}");
    assert!(most <= bound, "{name}: {most} ulp at {at:?}");
}

#[test]
fn powers_are_within_their_bound() {
    let Some(driver) = driver() else { return };
    of_two(&driver, "pow", ElementOp::Pow, 4.0);
}

#[test]
fn angles_and_lengths_are_within_their_bounds() {
    let Some(driver) = driver() else { return };
    of_two(&driver, "atan2", ElementOp::Atan2, 4.0);
    of_two(&driver, "hypot", ElementOp::Hypot, 3.0);
}

#[test]
fn remainders_are_exact() {
    let Some(driver) = driver() else { return };
    of_two(&driver, "remainder", ElementOp::Rem, 0.5);
}

#[test]
fn comparisons_and_extremes_respect_nan() {
    let Some(driver) = driver() else { return };
    of_two(&driver, "larger", ElementOp::Maximum, 0.0);
    of_two(&driver, "smaller", ElementOp::Minimum, 0.0);
    let all = [f32::NAN, -f32::INFINITY, -1.0, -1e-40, -0.0, 0.0, 1e-40, 1.0, f32::INFINITY];
    let pairs: Vec<[u32; 2]> = all.iter().flat_map(|x| all.iter().map(|y| [x.to_bits(), y.to_bits()])).collect();
    type Compare = fn(f32, f32) -> bool;
    let compares: [(&str, Compare); 3] =
        [("less", |x, y| x < y), ("less_equal", |x, y| x <= y), ("equal", |x, y| x == y)];
    for (name, compare) in compares {
        let got = computed(&driver, &format!("u32({name}_f32(bitcast<f32>(x), bitcast<f32>(y)))"), &pairs);
        for (&[x, y], got) in pairs.iter().zip(got) {
            let (x, y) = (f32::from_bits(x), f32::from_bits(y));
            assert_eq!(got == 1, compare(x, y), "{x} {name} {y}");
        }
    }
}

#[test]
fn narrow_floats_are_rounded_to_nearest_even() {
    let Some(driver) = driver() else { return };
    let pairs: Vec<[u32; 2]> = (0..1u32 << 20).map(|n| [n.wrapping_mul(4093), 0]).collect();
    let f16 = computed(&driver, "bits_f16(bitcast<f32>(x))", &pairs);
    let back = computed(&driver, "bitcast<u32>(from_f16(x & 0xffffu))", &pairs);
    let bf16 = computed(&driver, "bits_bf16(round_bf16(bitcast<f32>(x)))", &pairs);
    for (n, &[bits, _]) in pairs.iter().enumerate() {
        let x = f32::from_bits(bits);
        let (a, b) = (half::f16::from_f32(x), half::bf16::from_f32(x));
        assert!(f16[n] as u16 == a.to_bits() || a.is_nan() && half::f16::from_bits(f16[n] as u16).is_nan(), "{x:e}");
        assert!(bf16[n] as u16 == b.to_bits() || b.is_nan() && half::bf16::from_bits(bf16[n] as u16).is_nan(), "{x:e}");
        let wide = half::f16::from_bits(bits as u16).to_f32();
        assert!(f32::from_bits(back[n]) == wide || wide.is_nan(), "{bits:x}");
    }
}

#[test]
fn integers_become_floats_by_rounding_once() {
    let Some(driver) = driver() else { return };
    let pairs: Vec<[u32; 2]> = (0..1u32 << 16).map(|n| [n.wrapping_mul(65_599), n]).collect();
    let got = computed(&driver, "bits_f16(odd_i64(i64(bitcast<i32>(x)) >> (y & 31u)))", &pairs);
    for (&[x, y], got) in pairs.iter().zip(got) {
        let n = i64::from(x as i32) >> (y & 31);
        assert_eq!(got as u16, half::f16::from_f64(n as f64).to_bits(), "{n}");
    }
}

/// Mesa 22.3 takes an i64 that was an i32 for larger than any constant.
#[test]
fn integers_of_64_bits_are_compared_by_halves() {
    let Some(driver) = driver() else { return };
    let pairs: Vec<[u32; 2]> = [5, -7, 100, i32::MIN, 0].iter().map(|&x: &i32| [x as u32, 0]).collect();
    for limit in [0i64, 50, -8] {
        let got = computed(&driver, &format!("u32(less_i64(i64(bitcast<i32>(x)), i64({limit})))"), &pairs);
        for (&[x, _], got) in pairs.iter().zip(got) {
            assert_eq!(got == 1, i64::from(x as i32) < limit, "{} < {limit}", x as i32);
        }
    }
}
