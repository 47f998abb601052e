// Functions of the kernels. A kernel's source has those that it calls, directly or through others (functions.rs).
// Fast math is the language's standard: whatever tells NaN, infinities or zeros apart looks at bits.

// A float that is no constant to the compiler, since constants may be neither infinite nor NaN.
fn bits_f32(bits: u32) -> f32 { return bitcast<f32>(bits); }

fn long_i64(x: i64) -> i64 { return x; }

fn long_u64(x: u64) -> u64 { return x; }

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

fn is_infinite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }

fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u; }

// Integer that compares like a float: 0 for -infinity, 0xff000000 for infinity, more for NaN; zeros are equal,
// subnormals are not 0.
fn rank_of(x: f32) -> u32 {
  let bits = bitcast<i32>(x);
  let sign = bits >> 31u;
  return bitcast<u32>(((bits & 0x7fffffffi) ^ sign) - sign + 0x7f800000i);
}

fn equal_f32(x: f32, y: f32) -> bool {
  let rank = rank_of(y);
  return (rank_of(x) == rank) & (rank <= 0xff000000u);
}

fn less_f32(x: f32, y: f32) -> bool {
  let rank = rank_of(y);
  return (rank_of(x) < rank) & (rank <= 0xff000000u);
}

fn less_equal_f32(x: f32, y: f32) -> bool {
  let rank = rank_of(y);
  return (rank_of(x) <= rank) & (rank <= 0xff000000u);
}

// Bits of a float that compare like it as an i32, with -0 below +0, and NaN at the ends; its own inverse.
fn total_order(bits: u32) -> u32 { return bits ^ (bitcast<u32>(bitcast<i32>(bits) >> 31u) & 0x7fffffffu); }

// Extremes as u32, after a rotation that puts NaN of either sign above infinity, or below -infinity: so a NaN wins
// without a test.
fn larger_f32(x: f32, y: f32) -> f32 {
  let most = max(total_order(bitcast<u32>(x)) + 0x7f800001u, total_order(bitcast<u32>(y)) + 0x7f800001u);
  return bitcast<f32>(total_order(most - 0x7f800001u));
}

fn smaller_f32(x: f32, y: f32) -> f32 {
  let least = min(total_order(bitcast<u32>(x)) + 0x807fffffu, total_order(bitcast<u32>(y)) + 0x807fffffu);
  return bitcast<f32>(total_order(least - 0x807fffffu));
}

// x - x and x / x.
fn no_difference_f32(x: f32) -> f32 { return select(bits_f32(0x7fc00000u), 0.0, is_finite(x)); }

fn unit_quotient_f32(x: f32) -> f32 {
  return select(bits_f32(0x7fc00000u), 1.0, is_finite(x) & ((bitcast<u32>(x) & 0x7fffffffu) != 0u));
}

// -infinity to -0 are a range of bits.
fn relu_f32(x: f32) -> f32 { return select(x, 0.0, bitcast<u32>(x) - 0x80000000u <= 0x7f800000u); }

fn sign_f32(x: f32) -> f32 {
  let rank = rank_of(x);
  let sign = select(select(0.0, -1.0, rank < 0x7f800000u), 1.0, rank > 0x7f800000u);
  return select(sign, x, is_nan(x));
}

// Magnitude of x with another number's sign. Mesa 22.3 miscompiles it where it is put together from bits and selected.
fn with_sign(x: f32, sign: f32) -> f32 { return select(abs(x), -abs(x), (bitcast<u32>(sign) >> 31u) == 1u); }

fn bool_of_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) != 0u; }

// Narrow floats, which registers hold as f32.
fn from_bf16(bits: u32) -> f32 { return bitcast<f32>(bits << 16u); }

fn bits_bf16(x: f32) -> u32 { return bitcast<u32>(x) >> 16u; }

fn round_bf16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let rounded = bits + 0x7fffu + ((bits >> 16u) & 1u);
  return bitcast<f32>(select(rounded, bits | 0x400000u, is_nan(x)) & 0xffff0000u);
}

fn from_f16(bits: u32) -> f32 {
  let sign = (bits & 0x8000u) << 16u;
  let exponent = (bits >> 10u) & 31u;
  let fraction = bits & 1023u;
  if exponent == 31u { return bitcast<f32>(sign | 0x7f800000u | (fraction << 13u)); }
  if exponent != 0u { return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (fraction << 13u)); }
  // A subnormal is a multiple of 2^-24.
  return bitcast<f32>(bitcast<u32>(f32(fraction) * 5.9604644775390625e-8) | sign);
}

fn bits_f16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let size = bits & 0x7fffffffu;
  if size > 0x7f800000u { return sign | 0x7e00u | ((size >> 13u) & 1023u); }
  if size >= 0x477ff000u { return sign | 0x7c00u; }
  if size >= 0x38800000u {
    let rounded = size + 0xfffu + ((size >> 13u) & 1u);
    return sign | ((rounded - 0x38000000u) >> 13u);
  }
  if size < 0x33000000u { return sign; }
  // A subnormal: the fraction with its leading 1, shifted right and rounded to nearest even.
  let fraction = (size & 0x7fffffu) | 0x800000u;
  let shift = 126u - (size >> 23u);
  let whole = fraction >> shift;
  let rest = fraction & ((1u << shift) - 1u);
  let half = 1u << (shift - 1u);
  let up = rest > half || (rest == half && (whole & 1u) == 1u);
  return sign | (whole + u32(up));
}

fn round_f16(x: f32) -> f32 { return from_f16(bits_f16(x)); }

// An integer as a float of 24 bits, rounded to odd: rounding that to fewer digits is then as if it had been done at once.
fn odd_u64(x: u64) -> f32 {
  var size = x;
  var power = 1.0;
  while !less_u64(size, u64(1) << 24u) {
    size = (size >> 1u) | (size & u64(1));
    power = power * 2.0;
  }
  return f32(u32(size)) * power;
}

fn odd_i64(x: i64) -> f32 {
  if less_i64(x, i64(0)) { return -odd_u64(u64(0) - u64(x)); }
  return odd_u64(u64(x));
}

// Elements of 8 and 16 bits.
fn signed_8(bits: u32) -> i32 { return bitcast<i32>(bits << 24u) >> 24u; }

fn signed_16(bits: u32) -> i32 { return bitcast<i32>(bits << 16u) >> 16u; }

// A float as an integer: saturates, and NaN gives 0.
fn saturated_i32(x: f32, low: f32, high: f32, least: i32, most: i32) -> i32 {
  if is_nan(x) { return 0i; }
  if x <= low { return least; }
  if x >= high { return most; }
  return i32(x);
}

fn to_i32(x: f32) -> i32 { return saturated_i32(x, -2147483648.0, 2147483648.0, bitcast<i32>(0x80000000u), 2147483647i); }

fn to_u32(x: f32) -> u32 {
  if is_nan(x) || x <= 0.0 { return 0u; }
  if x >= 4294967296.0 { return 0xffffffffu; }
  return u32(x);
}

// Shifts the 24 bits of a float's fraction to their place.
fn whole_u64(x: f32) -> u64 {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  let exponent = i32(bits >> 23u) - 150i;
  let fraction = u64((bits & 0x7fffffu) | 0x800000u);
  if exponent >= 0i { return fraction << u32(exponent); }
  if exponent < -24i { return u64(0); }
  return fraction >> u32(-exponent);
}

fn to_u64(x: f32) -> u64 {
  if is_nan(x) || x <= 0.0 { return u64(0); }
  if x >= 18446744073709551616.0 { return u64(0) - u64(1); }
  return whole_u64(x);
}

fn to_i64(x: f32) -> i64 {
  if is_nan(x) { return i64(0); }
  if x >= 9223372036854775808.0 { return i64((u64(1) << 63u) - u64(1)); }
  if x <= -9223372036854775808.0 { return i64(u64(1) << 63u); }
  let size = i64(whole_u64(x));
  return select(size, i64(0) - size, x < 0.0);
}

// A word of the arguments.
fn word_u64(word: vec2<u32>) -> u64 { return u64(word.x) | (u64(word.y) << 32u); }

fn halves_of(x: u64) -> vec2<u32> { return vec2<u32>(u32(x & u64(0xffffffffu)), u32(x >> 32u)); }

// Values of other threads of the subgroup.
fn of_lane_u64(x: u64, lane: u32) -> u64 {
  let halves = halves_of(x);
  return word_u64(vec2<u32>(subgroupShuffle(halves.x, lane), subgroupShuffle(halves.y, lane)));
}

fn of_lane_xor_u64(x: u64, offset: u32) -> u64 {
  let halves = halves_of(x);
  return word_u64(vec2<u32>(subgroupShuffleXor(halves.x, offset), subgroupShuffleXor(halves.y, offset)));
}

// Comparisons of integers. Those of 64 bits are by halves: Mesa 22.3 compares an i64 that was an i32 with a constant as if
// it were larger.
fn less_i32(x: i32, y: i32) -> bool { return x < y; }

fn equal_i32(x: i32, y: i32) -> bool { return x == y; }

fn less_u32(x: u32, y: u32) -> bool { return x < y; }

fn equal_u32(x: u32, y: u32) -> bool { return x == y; }

fn less_u64(x: u64, y: u64) -> bool {
  let a = halves_of(x);
  let b = halves_of(y);
  return (a.y < b.y) | ((a.y == b.y) & (a.x < b.x));
}

fn equal_u64(x: u64, y: u64) -> bool { return all(halves_of(x) == halves_of(y)); }

fn less_i64(x: i64, y: i64) -> bool {
  let a = halves_of(u64(x));
  let b = halves_of(u64(y));
  return (bitcast<i32>(a.y) < bitcast<i32>(b.y)) | ((a.y == b.y) & (a.x < b.x));
}

fn equal_i64(x: i64, y: i64) -> bool { return equal_u64(u64(x), u64(y)); }

// Upper half of a product.
fn upper_u32(x: u32, y: u32) -> u32 { return u32((u64(x) * u64(y)) >> 32u); }

fn upper_u64(x: u64, y: u64) -> u64 {
  let low = u64(0xffffffffu);
  let x0 = x & low; let x1 = x >> 32u;
  let y0 = y & low; let y1 = y >> 32u;
  let middle = x1 * y0 + ((x0 * y0) >> 32u);
  return x1 * y1 + (middle >> 32u) + (((middle & low) + x0 * y1) >> 32u);
}

// Division by a number known to the host: the divisor and its multiplier, and the shift. For n < 2^31.
struct Split { q: u32, r: u32 }

fn split(n: u32, divisor: vec2<u32>, shift: u32) -> Split {
  let q = (upper_u32(n, divisor.y) + n) >> shift;
  return Split(q, n - q * divisor.x);
}
