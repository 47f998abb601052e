// Functions of f32. They follow thalweg-cpu's (math/single.rs), without fused multiply-adds, which the language does not
// promise: arguments are reduced by constants of so few bits that products with them are exact. NaN is put in by bits.
// Bounds are measured by the tests of this crate (docs/wgpu.md).

// Bits that end in those of the integer n, which is less than 2^22: conversions to integers are slow on GPUs.
fn bits_of_whole(n: f32) -> u32 { return bitcast<u32>(n + 12582912.0); }

// 2^n for whole n in -126..=127.
fn power_of_two(n: f32) -> f32 { return bitcast<f32>((bits_of_whole(n) << 23u) + 0x3f800000u); }

// x times 2^n for whole n in -252..=254, by two factors: only the second product may leave the normal numbers.
fn scaled(x: f32, n: f32) -> f32 {
  let bits = bits_of_whole(n);
  let half = (bits << 22u) & 0xff800000u;
  return x * bitcast<f32>(half + 0x3f800000u) * bitcast<f32>((bits << 23u) - half + 0x3f800000u);
}

// x - n ln 2.
fn less_ln2(x: f32, n: f32) -> f32 { return (x - n * 0.693359375) - n * -2.12194440e-4; }

fn exp_polynomial(r: f32) -> f32 {
  var p = 0.0014375022 * r + 0.0083909305;
  p = p * r + 0.041657828;
  p = p * r + 0.16666159;
  p = p * r + 0.50000036;
  p = p * r + 1.0000001;
  return p * r + 1.0;
}

fn exp_f32(x: f32) -> f32 {
  let t = clamp(x, -104.0, 89.0);
  let n = round(t * 1.44269504);
  return select(scaled(exp_polynomial(less_ln2(t, n)), n), x, is_nan(x));
}

fn exp2_polynomial(r: f32) -> f32 {
  var p = 0.00015918627 * r + 0.0013417661;
  p = p * r + 0.009616371;
  p = p * r + 0.055502716;
  p = p * r + 0.24022664;
  p = p * r + 0.69314724;
  return p * r + 1.0;
}

fn exp2_f32(x: f32) -> f32 {
  let t = clamp(x, -151.0, 129.0);
  let n = round(t);
  return select(scaled(exp2_polynomial(t - n), n), x, is_nan(x));
}

fn expm1_f32(x: f32) -> f32 {
  let t = clamp(x, -20.0, 89.0);
  let n = round(t * 1.44269504);
  let r = less_ln2(t, n);
  var q = 0.0013917586 * r + 0.008367101;
  q = q * r + 0.041666612;
  q = q * r + 0.16666539;
  q = q * r + 0.5;
  let p = r * r * q + r;
  // 2^n (p + 1 - 2^-n): scaling last avoids an overflow of 2^n.
  let y = scaled(p + (1.0 - scaled(1.0, -n)), n);
  return select(with_sign(y, x), x, is_nan(x));
}

// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x. Subnormals are normalized by integers.
struct Parts { f: f32, e: f32 }

fn parts_of(x: f32) -> Parts {
  var bits = bitcast<i32>(x);
  var e = 0i;
  if bits < 0x00800000i {
    let shift = countLeadingZeros(u32(bits)) - 8u;
    bits = i32((u32(bits) << shift) & 0x7fffffu) | 0x00800000i;
    e = -i32(shift);
  }
  let k = (bits - 0x3f3504f3i) >> 23u;
  let mantissa = bitcast<f32>(bits - (k << 23u));
  return Parts(mantissa - 1.0, f32(k + e));
}

// A logarithm's value y where its argument is x, which is 0 at `zero`.
fn log_specials(y: f32, x: f32, zero: f32) -> f32 {
  if equal_f32(x, zero) { return bits_f32(0xff800000u); }
  if less_f32(x, zero) { return bits_f32(0x7fc00000u); }
  return select(x, y, is_finite(x));
}

// Logarithm y of x with its specials; a positive finite x takes one comparison.
fn log_value(y: f32, x: f32) -> f32 {
  if bitcast<u32>(x) - 1u < 0x7f7fffffu { return y; }
  return log_specials(y, x, 0.0);
}

fn log_of_parts(parts: Parts) -> f32 {
  let f = parts.f;
  var p = -0.0745815 * f + 0.12813449;
  p = p * f + -0.13255323;
  p = p * f + 0.14193977;
  p = p * f + -0.16609548;
  p = p * f + 0.200016;
  p = p * f + -0.2500156;
  p = p * f + 0.33333325;
  p = p * f + -0.49999988;
  // f + f^2 p + e ln 2, the smallest terms first.
  return (f * f * p + parts.e * -2.12194440e-4 + f) + parts.e * 0.693359375;
}

fn log_f32(x: f32) -> f32 { return log_value(log_of_parts(parts_of(x)), x); }

fn log2_f32(x: f32) -> f32 {
  let parts = parts_of(x);
  let f = parts.f;
  var p = -0.053000115 * f + 0.15694313;
  p = p * f + -0.20058794;
  p = p * f + 0.21015392;
  p = p * f + -0.2391094;
  p = p * f + 0.28823584;
  p = p * f + -0.36070725;
  p = p * f + 0.48090464;
  p = p * f + -0.7213473;
  p = p * f + 0.442695;
  return log_value((f * p + f) + parts.e, x);
}

fn log1p_f32(x: f32) -> f32 {
  // With 2^e from 1 + x, f = 2^-e x + (2^-e - 1) has a negligible error: none at all for e = 0.
  let k = (bitcast<i32>(x + 1.0) - 0x3f3504f3i) >> 23u;
  let shift = k << 23u;
  let scaled_x = bitcast<f32>(bitcast<i32>(x) - shift);
  let power = max(bitcast<f32>(0x3f800000i - shift), 0.0);
  let parts = Parts(scaled_x + (power - 1.0), f32(k));
  let y = select(with_sign(log_of_parts(parts), x), x, abs(x) < 1e-8);
  return log_specials(y, x, -1.0);
}

// x - n pi, by parts of pi of 8 bits, so that products with n below 2^16 are exact.
fn less_pi(x: f32, n: f32) -> f32 {
  let r = ((x - n * 3.140625) - n * 0.000965118408203125) - n * 2.5331974029541015625e-6;
  return r - n * 1.98418703689640096854e-9;
}

fn sine_polynomial(r: f32) -> f32 {
  let s = r * r;
  var p = 2.606445e-06 * s + -0.00019809986;
  p = p * s + 0.008333071;
  p = p * s + -0.1666666;
  return r * s * p + r;
}

// x - n pi / 2 for large x, by a product of x with bits of 2 / pi (Payne and Hanek 1983), and n.
struct Turn { rest: f32, n: u32 }

fn bits_of_two_over_pi(n: i32) -> u32 {
  switch n {
    case 0i: { return 0x28be60dbu; }
    case 1i: { return 0x9391054au; }
    case 2i: { return 0x7f09d5f4u; }
    case 3i: { return 0x7d4d3770u; }
    case 4i: { return 0x36d8a566u; }
    case 5i: { return 0x4f10e410u; }
    default: { return 0u; }
  }
}

fn less_quarters(x: f32) -> Turn {
  let bits = bitcast<u32>(x);
  let exponent = i32((bits >> 23u) & 255u) - 126i;
  let word = exponent >> 5u;
  let shift = u32(exponent) & 31u;
  // Four neighbouring words, shifted to three.
  let w0 = bits_of_two_over_pi(word - 1i);
  let w1 = bits_of_two_over_pi(word);
  let w2 = bits_of_two_over_pi(word + 1i);
  let w3 = bits_of_two_over_pi(word + 2i);
  let high = (w0 << shift) | ((w1 >> 1u) >> (31u - shift));
  let middle = (w1 << shift) | ((w2 >> 1u) >> (31u - shift));
  let low = (w2 << shift) | ((w3 >> 1u) >> (31u - shift));
  let fraction = u64((bits << 8u) | 0x80000000u);
  var p = (fraction * u64(low)) >> 32u;
  p = p + fraction * u64(middle);
  p = p + ((fraction * u64(high)) << 32u);
  // The quotient in the two upper bits, rounded to nearest.
  var n = u32(p >> 62u);
  var rest = i64(p & ((u64(1) << 62u) - u64(1)));
  if !less_i64(rest, i64(1) << 61u) {
    rest = rest - (i64(1) << 62u);
    n = n + 1u;
  }
  let size = f32(rest) * 3.4061215800304e-19;
  let is_negative = (bits >> 31u) == 1u;
  return Turn(select(size, -size, is_negative), select(n, 0u - n, is_negative));
}

fn cosine_polynomial(r: f32) -> f32 {
  let s = r * r;
  var p = 2.44677067e-5 * s + -1.38877297e-3;
  p = p * s + 4.16666567e-2;
  p = p * s + -0.5;
  return p * s + 1.0;
}

// Sine of x, a quarter turn further for each of `quarters`.
fn far_sine(x: f32, quarters: u32) -> f32 {
  let turn = less_quarters(x);
  let n = turn.n + quarters;
  let y = select(sine_polynomial(turn.rest), cosine_polynomial(turn.rest), (n & 1u) == 1u);
  return select(y, -y, (n & 2u) == 2u);
}

fn sin_f32(x: f32) -> f32 {
  if !is_finite(x) { return bits_f32(0x7fc00000u); }
  if !bool_of_f32(x) { return x; }
  if abs(x) > 200.0 { return far_sine(x, 0u); }
  let n = round(x * 0.318309886);
  let y = sine_polynomial(less_pi(x, n));
  return select(y, -y, (bits_of_whole(n) & 1u) == 1u);
}

fn cos_f32(x: f32) -> f32 {
  if !is_finite(x) { return bits_f32(0x7fc00000u); }
  if abs(x) > 200.0 { return far_sine(x, 1u); }
  // cos x = -(-1)^h sin(x - (h + 1/2) pi); products with halves are exact, too.
  let h = round(x * 0.318309886 - 0.5);
  let y = sine_polynomial(less_pi(x, h + 0.5));
  return select(-y, y, (bits_of_whole(h) & 1u) == 1u);
}

// tan x = sin r / cos r, or -cos r / sin r beyond an odd number of quarter turns.
fn tan_f32(x: f32) -> f32 {
  if !is_finite(x) { return bits_f32(0x7fc00000u); }
  if !bool_of_f32(x) { return x; }
  var r = 0.0;
  var n = 0u;
  if abs(x) > 200.0 {
    let turn = less_quarters(x);
    r = turn.rest;
    n = turn.n;
  } else {
    let quarters = round(x * 0.636619772);
    r = less_pi(x, 0.5 * quarters);
    n = bits_of_whole(quarters);
  }
  let sine = sine_polynomial(r);
  let cosine = cosine_polynomial(r);
  let is_odd = (n & 1u) == 1u;
  let y = select(sine, cosine, is_odd) / select(cosine, sine, is_odd);
  return select(y, -y, is_odd);
}

// Arc tangent of t in 0..=1.
fn atan_polynomial(t: f32) -> f32 {
  let s = t * t;
  var p = 0.0029200881 * s + -0.01636541;
  p = p * s + 0.043207597;
  p = p * s + -0.075518385;
  p = p * s + 0.10665822;
  p = p * s + -0.14211008;
  p = p * s + 0.19993767;
  p = p * s + -0.33333153;
  return t * s * p + t;
}

fn atan_f32(x: f32) -> f32 {
  let a = abs(x);
  let beyond = a > 1.0;
  let near = atan_polynomial(select(a, 1.0 / a, beyond));
  let y = select(near, 1.57079637 - (near + 4.37113883e-8), beyond);
  return select(with_sign(y, x), x, is_nan(x));
}

// Two magnitudes times one power of 2, which makes the larger one normal, with a normal reciprocal; subnormals are read as
// integers. The smaller one may become 0 where the quotient is below the normal numbers.
struct Magnitudes { least: f32, most: f32, power: f32 }

fn scaled_magnitudes(least: u32, most: u32) -> Magnitudes {
  if most < 0x35800000u {
    let low = select(bitcast<f32>(least) * 1.2676506e30, f32(least) * 1.7763568394002505e-15, least < 0x800000u);
    let high = select(bitcast<f32>(most) * 1.2676506e30, f32(most) * 1.7763568394002505e-15, most < 0x800000u);
    return Magnitudes(low, high, 7.8886091e-31);
  }
  let is_large = most > 0x71800000u;
  let factor = select(1.0, 7.8886091e-31, is_large);
  return Magnitudes(bitcast<f32>(least) * factor, bitcast<f32>(most) * factor, select(1.0, 1.2676506e30, is_large));
}

// The angle is an arc tangent in 0..=1, added to or subtracted from a multiple of pi / 2 in two parts.
fn atan2_f32(y: f32, x: f32) -> f32 {
  let a = bitcast<u32>(y) & 0x7fffffffu;
  let b = bitcast<u32>(x) & 0x7fffffffu;
  let least = min(a, b);
  let most = max(a, b);
  if most > 0x7f800000u { return bits_f32(0x7fc00000u); }
  var q = 0.0;
  if least == most {
    q = select(0.0, 1.0, most != 0u);
  } else if most != 0x7f800000u {
    let pair = scaled_magnitudes(least, most);
    q = pair.least / pair.most;
  }
  let t = atan_polynomial(q);
  let is_steep = a > b;
  let is_left = (bitcast<u32>(x) >> 31u) == 1u;
  let quarters = select(select(0.0, 2.0, is_left), 1.0, is_steep);
  let rest = select(t, -t, is_steep != is_left);
  return with_sign(quarters * 1.57079637 + (rest - quarters * 4.37113883e-8), y);
}

// asin(t) / t - 1 for t^2 = s up to 1/4 (fdlibm).
fn asin_quotient(s: f32) -> f32 {
  let p = s * (0.16666587 + s * (-0.042743422 + s * -0.008656363));
  return p / (1.0 + s * -0.70662963);
}

// Arc sine of the root of (1 - |x|) / 2, for |x| in 1/2..=1.
fn asin_of_rest(a: f32) -> f32 {
  let s = 0.5 - 0.5 * a;
  let t = sqrt(s);
  return t + t * asin_quotient(s);
}

fn asin_f32(x: f32) -> f32 {
  let a = abs(x);
  if bitcast<u32>(a) > 0x3f800000u { return bits_f32(0x7fc00000u); }
  if a < 0.5 { return x + x * asin_quotient(x * x); }
  return with_sign(1.57079637 - (2.0 * asin_of_rest(a) + 4.37113883e-8), x);
}

fn acos_f32(x: f32) -> f32 {
  let a = abs(x);
  if bitcast<u32>(a) > 0x3f800000u { return bits_f32(0x7fc00000u); }
  if a < 0.5 { return 1.57079637 - ((x + x * asin_quotient(x * x)) + 4.37113883e-8); }
  let y = 2.0 * asin_of_rest(a);
  return select(y, 3.14159274 - (y + 8.74227766e-8), (bitcast<u32>(x) >> 31u) == 1u);
}

// e^|x| / 2 without an overflow before that of the hyperbolic functions.
fn half_exp(x: f32) -> f32 {
  let a = min(abs(x), 91.0);
  let n = round(a * 1.44269504);
  return scaled(exp_polynomial(less_ln2(a, n)), n - 1.0);
}

fn cosh_f32(x: f32) -> f32 {
  let e = half_exp(x);
  return select(e + 0.25 / e, x, is_nan(x));
}

fn sinh_f32(x: f32) -> f32 {
  let s = x * x;
  var p = 2.5052108e-8 * s + 2.7557319e-6;
  p = p * s + 1.9841270e-4;
  p = p * s + 8.3333333e-3;
  p = p * s + 0.16666667;
  let near = x * s * p + x;
  let e = half_exp(x);
  let far = with_sign(e - 0.25 / e, x);
  return select(select(far, near, abs(x) < 1.0), x, is_nan(x));
}

// Inverse hyperbolic functions: of large arguments log(2 a), else log1p of a sum without cancellation.
fn asinh_f32(x: f32) -> f32 {
  let a = abs(x);
  if !is_finite(x) || a < 1e-4 { return x; }
  let s = a * a;
  let y = select(log1p_f32(a + s / (1.0 + sqrt(s + 1.0))), log_f32(a) + 0.69314718, a > 1e9);
  return with_sign(y, x);
}

fn acosh_f32(x: f32) -> f32 {
  // In 1..=infinity positive bits compare like numbers.
  if bitcast<i32>(x) < 0x3f800000i || is_nan(x) { return bits_f32(0x7fc00000u); }
  if is_infinite(x) { return x; }
  let t = x - 1.0;
  return select(log1p_f32(t + sqrt(t * (t + 2.0))), log_f32(x) + 0.69314718, x > 1e9);
}

fn atanh_f32(x: f32) -> f32 {
  let a = abs(x);
  let bits = bitcast<u32>(a);
  if bits >= 0x3f800000u { return with_sign(bits_f32(select(0x7fc00000u, 0x7f800000u, bits == 0x3f800000u)), x); }
  if a < 1e-4 { return x; }
  return with_sign(0.5 * log1p_f32((a + a) / (1.0 - a)), x);
}

// An infinity takes precedence over NaN (IEEE 754).
fn hypot_f32(x: f32, y: f32) -> f32 {
  let a = bitcast<u32>(x) & 0x7fffffffu;
  let b = bitcast<u32>(y) & 0x7fffffffu;
  let least = min(a, b);
  let most = max(a, b);
  if least == 0u { return bits_f32(most); }
  if most >= 0x7f800000u { return bits_f32(select(0x7fc00000u, 0x7f800000u, a == 0x7f800000u || b == 0x7f800000u)); }
  let pair = scaled_magnitudes(least, most);
  let q = pair.least / pair.most;
  return pair.most * sqrt(1.0 + q * q) * pair.power;
}

fn tanh_f32(x: f32) -> f32 {
  let a = min(abs(x), 10.0);
  let n = round(a * 2.88539008);
  let r = (a - n * 0.3466796875) - n * -1.06097220e-4;
  var q = 0.025169201 * r + 0.089184456;
  q = q * r + 0.2666766;
  q = q * r + 0.66666347;
  q = q * r + 1.3333333;
  q = q * r + 2.0;
  q = q * r + 2.0;
  let s = power_of_two(n);
  let t = s * (r * q) + (s - 1.0);
  return select(with_sign(t / (t + 2.0), x), x, is_nan(x));
}

fn sigmoid_f32(x: f32) -> f32 {
  let t = clamp(x, -105.0, 30.0);
  let n = round(t * 1.44269504);
  // 2^n / (2^n + e^-r)
  let s = scaled(1.0, n);
  return select(s / (s + exp_polynomial(-less_ln2(t, n))), x, is_nan(x));
}

fn erf_f32(x: f32) -> f32 {
  let s = x * x;
  var p = -2.6334934e-05 * s + -0.0004822536;
  p = p * s + 0.0048241364;
  p = p * s + -0.026661403;
  p = p * s + 0.11278968;
  p = p * s + -0.37612218;
  let near = x * s * p + x * 1.1283791;
  let a = min(abs(x), 4.0);
  var q = 0.00054790545 * a + -0.0040523093;
  q = q * a + 0.017999722;
  q = q * a + -0.0337037;
  q = q * a + 0.07480488;
  q = q * a + 0.048418153;
  q = q * a + 0.15971968;
  q = q * a + 0.99637777;
  q = q * q;
  q = q * q;
  q = q * q;
  let far = with_sign(1.0 - 1.0 / q, x);
  return select(select(far, near, a < 1.0), x, is_nan(x));
}

fn erfc_f32(x: f32) -> f32 {
  let a = min(abs(x), 10.2);
  let inverse = 2.0 / (a + 2.0);
  let t = a * inverse;
  var g = 3.4127628e-05 * t + -0.00031827134;
  g = g * t + 0.001033349;
  g = g * t + -0.0013197744;
  g = g * t + 0.0014034352;
  g = g * t + -0.0038331659;
  g = g * t + -0.005845377;
  g = g * t + 0.026387645;
  g = g * t + 0.12162885;
  g = g * t + -0.62837946;
  g = g * t + 1.0;
  // a^2 = s + rest, where s is exact: the square of a's upper 12 bits.
  let high = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  let s = high * high;
  let rest = (a - high) * (a + high);
  let n = round(s * 1.44269504);
  let e = exp_polynomial(-(less_ln2(s, n) + rest));
  let y = scaled(e * (g * inverse), -n);
  return select(select(y, 2.0 - y, less_f32(x, 0.0)), x, is_nan(x));
}

// Logarithm to base 2 of the positive finite x, in units of 2^-55: e + 2 log2(e) atanh(f / (f + 2)).
fn fixed_log2(x: f32) -> i64 {
  let parts = parts_of(x);
  let m = i64(round(parts.f * 33554432.0));
  let below = parts.f < 0.0;
  let size = u64(select(m, i64(0) - m, below));
  let divisor = u64(m + i64(67108864));
  // s in units of 2^-60, in two steps of a long division.
  let first = (size << 38u) / divisor;
  let left = (size << 38u) - first * divisor;
  let s = (first << 22u) + (left << 22u) / divisor;
  let s2 = upper_u64(s << 2u, s << 2u);
  // 1/15 .. 1/3 in units of 2^-60.
  var p = 76861433640456464lu;
  p = 88686269585142080lu + upper_u64(p << 4u, s2);
  p = 104811045873349728lu + upper_u64(p << 4u, s2);
  p = 128102389400760768lu + upper_u64(p << 4u, s2);
  p = 164703072086692416lu + upper_u64(p << 4u, s2);
  p = 230584300921369408lu + upper_u64(p << 4u, s2);
  p = 384307168202282304lu + upper_u64(p << 4u, s2);
  p = 1152921504606846976lu + upper_u64(p << 4u, s2);
  // 2 log2(e) in units of 2^-61.
  let y = i64(upper_u64(upper_u64(p << 3u, s << 4u) << 1u, 6653256548922161245lu) >> 6u);
  return (i64(parts.e) << 55u) + select(y, i64(0) - y, below);
}

fn pow_f32(x: f32, y: f32) -> f32 {
  if !bool_of_f32(y) || bitcast<u32>(x) == 0x3f800000u { return 1.0; }
  if is_nan(x) || is_nan(y) { return bits_f32(0x7fc00000u); }
  let a = abs(x);
  let is_whole = !is_finite(y) || equal_f32(round(y), y);
  let is_odd = is_finite(y) && is_whole && abs(y) < 16777216.0 && (i32(y) & 1i) == 1i;
  let below_zero = (bitcast<u32>(x) >> 31u) == 1u;
  let is_negative = below_zero && is_odd;
  if below_zero && !is_whole && is_finite(x) && bool_of_f32(x) { return bits_f32(0x7fc00000u); }
  var p = 0.0;
  let rises = (bitcast<u32>(y) >> 31u) == 0u;
  if !bool_of_f32(x) || is_infinite(x) {
    p = select(0.0, bits_f32(0x7f800000u), (is_infinite(x)) == rises);
  } else if is_infinite(y) {
    let above = bitcast<u32>(a) > 0x3f800000u;
    p = select(select(0.0, bits_f32(0x7f800000u), above == rises), 1.0, bitcast<u32>(a) == 0x3f800000u);
  } else {
    let l = fixed_log2(a);
    let falls = less_i64(l, i64(0)) == rises;
    // |y| = m 2^e with m of 24 bits; the product |l| m, less its 24 lowest bits, is shifted to units of 2^-40.
    let y_bits = bitcast<u32>(y) & 0x7fffffffu;
    let e = max(i32(y_bits >> 23u), 1i) - 150i;
    let m = u64((y_bits & 0x7fffffu) | select(0u, 0x800000u, y_bits >= 0x800000u));
    let product = upper_u64(u64(select(l, i64(0) - l, less_i64(l, i64(0)))), m << 40u);
    let most = i64(200) << 40u;
    var z = i64(0);
    let shift = e + 9i;
    if shift >= 0i {
      let fits = shift < 48i && less_u64(product, u64(most) >> u32(min(shift, 48i)));
      if fits { z = i64(product << u32(shift)); } else { z = select(most, i64(0), equal_u64(product, u64(0))); }
    } else if shift > -64i {
      z = smaller_i64(i64(product >> u32(-shift)), most);
    }
    z = select(z, i64(0) - z, falls);
    let n = (z + (i64(1) << 39u)) >> 40u;
    p = scaled(exp2_polynomial(f32(z - (n << 40u)) * 9.094947017729282e-13), f32(n));
  }
  return select(p, -p, is_negative);
}

// Remainder with the sign of y, exact: a long division of fractions.
fn remainder_f32(x: f32, y: f32) -> f32 {
  if !is_finite(x) || is_nan(y) || !bool_of_f32(y) { return bits_f32(0x7fc00000u); }
  var r = x;
  if is_finite(y) {
    let a = bitcast<u32>(x) & 0x7fffffffu;
    let b = bitcast<u32>(y) & 0x7fffffffu;
    let b_exponent = max(b >> 23u, 1u);
    let divisor = select(b & 0x7fffffu, (b & 0x7fffffu) | 0x800000u, (b >> 23u) > 0u);
    let a_exponent = max(a >> 23u, 1u);
    var rest = select(a & 0x7fffffu, (a & 0x7fffffu) | 0x800000u, (a >> 23u) > 0u);
    if a_exponent >= b_exponent {
      rest = rest % divisor;
      for (var k = a_exponent - b_exponent; k > 0u; k--) { rest = (rest << 1u) % divisor; }
      // rest 2^(b_exponent - 150)
      var bits = rest;
      var exponent = b_exponent;
      if rest != 0u {
        let up = min(countLeadingZeros(rest) - 8u, exponent - 1u);
        bits = rest << up;
        exponent = exponent - up;
        bits = select(bits, (bits & 0x7fffffu) | (exponent << 23u), bits >= 0x800000u);
      }
      r = bitcast<f32>(bits | (bitcast<u32>(x) & 0x80000000u));
    }
  }
  if !bool_of_f32(r) { return with_sign(r, y); }
  return select(r, r + y, ((bitcast<u32>(r) ^ bitcast<u32>(y)) >> 31u) == 1u);
}
