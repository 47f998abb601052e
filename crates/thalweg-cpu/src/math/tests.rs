use super::accuracy::{Accuracy, BOUNDS_F32, accuracy_table, error_f32};
use super::lanes::{find_f32, find_f64};
use super::*;

fn check(table: &[Accuracy]) {
    for a in table {
        println!(
            "{:8} max {:.3} ulp at {:e} ({:#010x}), mean {:.4}, guarded {:.3}",
            a.op.name(),
            a.max_ulp,
            a.at,
            (a.at as f32).to_bits(),
            a.mean_ulp,
            a.guarded
        );
    }
    for (a, &(op, bound)) in table.iter().zip(BOUNDS_F32) {
        assert!(a.max_ulp <= bound, "{}: {} ulp at {:e}, bound {bound}", op.name(), a.max_ulp, a.at);
    }
}

#[test]
fn f32_functions_keep_their_bounds_at_a_coarse_stride() {
    check(&accuracy_table(40_009));
}

#[test]
#[ignore = "minutes: every f32 there is"]
fn f32_functions_keep_their_bounds_everywhere() {
    check(&accuracy_table(1));
}

const SPECIAL: &[f32] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    1e-40,
    -3e-39,
    f32::MAX,
    f32::MIN,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    88.7,
    88.8,
    -87.4,
    -103.9,
    -104.5,
    127.9,
    128.0,
    -149.0,
    -150.1,
    1e-8,
    -1e-8,
    9.1,
    10.1,
    -10.1,
    1e5,
    1.1e5,
    1e10,
    3e38,
    8_388_609.0,
    -8_388_609.0,
    1.000_000_1,
    0.999_999_94,
    2.5,
    -2.5,
    16_777_217.0,
];

#[test]
fn f32_special_values_are_exact() {
    for &(op, bound) in BOUNDS_F32 {
        let f = find_f32(op).unwrap();
        let mut y = vec![0.0; SPECIAL.len()];
        f(SPECIAL, SPECIAL, &mut y);
        for (&x, &y) in SPECIAL.iter().zip(&y) {
            let exact = (op.row().meaning.float.unwrap())(&[x as f64]);
            assert!(error_f32(y, exact) <= bound, "{}({x:e}) = {y:e}, exact {exact:e}", op.name());
            if x == 0.0 || x.is_infinite() || x.is_nan() {
                let same = y.to_bits() == (exact as f32).to_bits() || y.is_nan() && exact.is_nan();
                let transcendental = op == ElementOp::Atan && x.is_infinite();
                assert!(same || transcendental, "{}({x}) = {y:e}, exact {exact:e}", op.name());
            }
        }
    }
}

#[test]
fn log2_and_exp2_are_exact_at_powers_of_two() {
    let mut m = ScalarMachine::default();
    for e in -149..128 {
        let x = (e as f64).exp2() as f32;
        assert_eq!(single::log2(&mut m, x), e as f32);
        assert_eq!(single::exp2(&mut m, e as f32), x);
    }
    for e in -1074..1024 {
        let x = libm::exp2(e as f64);
        assert_eq!(double::log2(&mut m, x), e as f64);
        assert_eq!(double::exp2(&mut m, e as f64), x);
    }
}

fn check_pow(pairs: impl Iterator<Item = (f32, f32)>) {
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.unzip();
    let mut out = vec![0.0; x.len()];
    find_f32(ElementOp::Pow).unwrap()(&x, &y, &mut out);
    let (mut worst, mut at) = (0.0, (0.0, 0.0));
    for ((&x, &y), &got) in x.iter().zip(&y).zip(&out) {
        let exact = libm::pow(x as f64, y as f64);
        // Also where f64 overflows or underflows: libm gives 0 or infinity, as f32 does.
        let e = if exact == 0.0 || exact.is_infinite() {
            if got.to_bits() == (exact as f32).to_bits() { 0.0 } else { f64::INFINITY }
        } else {
            error_f32(got, exact)
        };
        if e > worst {
            (worst, at) = (e, (x, y));
        }
    }
    println!("pow: {worst} ulp at {at:?}");
    assert!(worst <= 4.0, "pow: {worst} ulp at {at:?}");
}

#[test]
fn pow_keeps_its_bound() {
    check_pow(SPECIAL.iter().flat_map(|&x| SPECIAL.iter().map(move |&y| (x, y))));
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    // Random bit patterns; then bases of every size with exponents that keep the result in range; then bases near 1.
    check_pow((0..200_000).map(|_| (f32::from_bits(next()), f32::from_bits(next()))).collect::<Vec<_>>().into_iter());
    let mut ranged = vec![];
    for _ in 0..400_000 {
        let x = f32::from_bits(next() & 0x7fff_ffff);
        let r = next() as f64 / 2f64.powi(31) - 1.0;
        let y = (r * 150.0 / (x as f64).log2()) as f32;
        ranged.push((x, y));
        let x = 1.0 + (next() as f64 / 2f64.powi(32) - 0.5) as f32;
        ranged.push((x, (r * 150.0 / (x as f64).log2()) as f32));
    }
    check_pow(ranged.into_iter());
}

/// Error of an f64 result, in ulp of the golden value.
fn error_f64(got: f64, want: f64) -> f64 {
    if got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan() {
        return 0.0;
    }
    if got.is_nan() || want.is_nan() || got.is_infinite() != want.is_infinite() || want == 0.0 {
        return f64::INFINITY;
    }
    // In two factors, since 2^1074 overflows.
    let e = (((want.to_bits() >> 52) & 0x7ff) as i32).max(1) - 1023 - 52;
    (got - want).abs() * libm::scalbn(1.0, -e / 2) * libm::scalbn(1.0, -e - -e / 2)
}

#[test]
fn f64_functions_agree_with_golden_values() {
    let mut worst: Vec<(ElementOp, f64, f64)> = vec![];
    for line in include_str!("golden_f64.txt").lines() {
        let mut words = line.split(' ');
        let op = ElementOp::from_name(words.next().unwrap()).unwrap();
        let mut number = || f64::from_bits(u64::from_str_radix(words.next().unwrap(), 16).unwrap());
        let x = number();
        let other = if op == ElementOp::Pow { number() } else { x };
        let want = number();
        let mut y = [0.0];
        find_f64(op).unwrap()(&[x], &[other], &mut y);
        let e = error_f64(y[0], want);
        match worst.iter_mut().find(|w| w.0 == op) {
            Some(w) if w.1 >= e => {}
            Some(w) => *w = (op, e, x),
            None => worst.push((op, e, x)),
        }
    }
    for (op, e, x) in worst {
        println!("{:8} {e:.2} ulp at {x:e}", op.name());
        use ElementOp::{Erf, Erfc, Pow, Sigmoid, Tanh};
        let bound = if matches!(op, Tanh | Sigmoid | Erf | Erfc | Pow) { 4.0 } else { 2.0 };
        assert!(e <= bound, "{}: {e} ulp at {x:e}", op.name());
    }
}

#[test]
fn f64_special_values_are_exact() {
    let points = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e300, 1e10, -1e10, -5.0];
    for op in ElementOp::ALL.iter().copied().filter(|&op| has_f64(op) && op != ElementOp::Pow) {
        for x in points {
            let want = (op.row().meaning.float.unwrap())(&[x]);
            let mut y = [0.0];
            find_f64(op).unwrap()(&[x], &[x], &mut y);
            assert!(error_f64(y[0], want) <= 2.0, "{}({x}) = {:e}, want {want:e}", op.name(), y[0]);
        }
    }
}

/// Special cases of IEEE 754 (zeros, infinities, NaN, negative bases, integer exponents), and random numbers.
#[test]
fn f64_powers_are_those_of_libm() {
    let special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e300, -1e300, 1e-300, 5e-324, -5e-324];
    let more = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 9007199254740991.0, -9007199254740993.0, 1.0000000001, 2.5];
    let all: Vec<f64> = special.into_iter().chain(more).collect();
    let mut pairs: Vec<(f64, f64)> = all.iter().flat_map(|&x| all.iter().map(move |&y| (x, y))).collect();
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for _ in 0..100_000 {
        let mut share = || (next() >> 11) as f64 / 2f64.powi(52) - 1.0;
        let (a, b, c) = (share(), share(), share());
        let x = f64::from_bits(next() >> 1);
        pairs.push((x, a * 1075.0 / x.log2()));
        let near = 1.0 + b * 2f64.powi(-1 - (next() >> 58) as i32 % 50);
        pairs.push((near, c * 1070.0 / near.log2()));
    }
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let mut out = vec![0.0; x.len()];
    find_f64(ElementOp::Pow).unwrap()(&x, &y, &mut out);
    for ((x, y), got) in x.iter().zip(&y).zip(out) {
        let want = libm::pow(*x, *y);
        // libm is off by hundreds of ulp for exponents beyond 2³¹; golden values cover those.
        if want != 0.0 && want.is_finite() && y.abs() > 2f64.powi(31) {
            continue;
        }
        assert!(error_f64(got, want) <= 3.0, "{x:e} ** {y:e} = {got:e}, not {want:e}");
    }
}

#[test]
fn the_lists_agree_with_the_dispatch() {
    for &op in ElementOp::ALL {
        let mut m = ScalarMachine::default();
        assert_eq!(has_f32(op), element_f32(&mut m, op, &[0.5, 0.5]).is_some(), "{}", op.name());
        assert_eq!(has_f64(op), element_f64(&mut m, op, &[0.5, 0.5]).is_some(), "{}", op.name());
        assert_eq!(has_f32(op), find_f32(op).is_some(), "{}", op.name());
        assert_eq!(has_f64(op), find_f64(op).is_some(), "{}", op.name());
    }
}
