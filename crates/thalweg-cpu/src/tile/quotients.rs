//! Quotients and remainders of i64, which have no vector instructions.
//!
//! In: lanes of i64. Out: quotients toward zero, floored quotients, or remainders, as `thalweg_ir::element::integers`
//! defines them. If all numbers of a tile have magnitudes below 2^50, they are divided as f64, in vectors: the nearest
//! f64 to a quotient of such numbers lies between the same integers as the quotient. A quotient that is no integer is
//! at least 1/|b| away from the next one, which is 1/|a| of it or more; half an ulp is 2^-53 of it. Larger numbers are
//! divided one by one.

use super::lanes::{Loop, whole};
use thalweg_ir::ElementOp;
use thalweg_ir::element::integers;

/// Exclusive bound on the magnitude of the integers that are divided as f64. Such an integer fits the low bits of an
/// f64 with the exponent of [`MAGIC`], sign included, and so does the quotient of two.
const EXACT_BOUND: i64 = 1 << 50;
/// Constant 1.5 * 2^52 for conversions between i64 and f64 without an instruction: adding a small integer to the bits
/// of this f64 gives the f64 `MAGIC` plus the integer.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Loop of a division or remainder of i64; `None` for other operations.
pub(super) fn i64(op: ElementOp) -> Option<Loop> {
    Some(match op {
        ElementOp::Div => whole!(div, |a: i64, b: i64| -> i64),
        ElementOp::FloorDiv => whole!(floor_div, |a: i64, b: i64| -> i64),
        ElementOp::Rem => whole!(rem, |a: i64, b: i64| -> i64),
        _ => return None,
    })
}

#[inline(always)]
fn div(a: &[i64], b: &[i64], out: &mut [i64]) {
    by_size(a, b, out, |a, b| small(a, b, f64::trunc), integers::div);
}

#[inline(always)]
fn floor_div(a: &[i64], b: &[i64], out: &mut [i64]) {
    by_size(a, b, out, |a, b| small(a, b, f64::floor), integers::floor_div);
}

#[inline(always)]
fn rem(a: &[i64], b: &[i64], out: &mut [i64]) {
    let rem = |a: i64, b: i64| if b == 0 { 0 } else { a.wrapping_sub(b.wrapping_mul(small(a, b, f64::floor))) };
    by_size(a, b, out, rem, integers::rem);
}

/// Computes a tile with `small` if the magnitudes of all its numbers are below [`EXACT_BOUND`], else with `any`.
#[inline(always)]
fn by_size(a: &[i64], b: &[i64], out: &mut [i64], small: impl Fn(i64, i64) -> i64, any: impl Fn(i64, i64) -> i64) {
    let n = out.len();
    let (a, b) = (&a[..n], &b[..n]);
    // Bits above those of the sum of a small number and 2^50.
    let mut above = 0u64;
    for i in 0..n {
        above |= a[i].wrapping_add(EXACT_BOUND) as u64 | b[i].wrapping_add(EXACT_BOUND) as u64;
    }
    if above < 2 * EXACT_BOUND as u64 {
        (0..n).for_each(|i| out[i] = small(a[i], b[i]));
    } else {
        (0..n).for_each(|i| out[i] = any(a[i], b[i]));
    }
}

/// Quotient of two integers of magnitude below [`EXACT_BOUND`], rounded by `round`; 0 for division by 0.
#[inline(always)]
fn small(a: i64, b: i64, round: impl Fn(f64) -> f64) -> i64 {
    let float = |x: i64| f64::from_bits((x.wrapping_add(MAGIC.to_bits() as i64)) as u64) - MAGIC;
    let quotient = round(float(a) / float(b)) + MAGIC;
    if b == 0 { 0 } else { (quotient.to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_those_of_the_table() {
        let edges = [
            0,
            1,
            2,
            3,
            7,
            10,
            1 << 31,
            1 << 50,
            EXACT_BOUND - 2,
            EXACT_BOUND - 1,
            EXACT_BOUND,
            1 << 52,
            1 << 62,
            i64::MAX,
            i64::MIN,
        ];
        let mut numbers: Vec<i64> = edges.iter().flat_map(|&x| [x, x.wrapping_neg(), x.wrapping_sub(1)]).collect();
        let mut random = 7u64;
        numbers.extend((0..200).map(|n| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random as i64 >> (n % 64)
        }));
        type Meaning = fn(i64, i64) -> i64;
        let all: [(ElementOp, Meaning); 3] = [
            (ElementOp::Div, integers::div),
            (ElementOp::FloorDiv, integers::floor_div),
            (ElementOp::Rem, integers::rem),
        ];
        for (op, meaning) in all {
            let run = i64(op).expect("a division");
            // Pairs of small numbers separately, too: a tile with a large number takes the other path.
            for most in [EXACT_BOUND, i64::MAX] {
                let some: Vec<i64> =
                    numbers.iter().copied().filter(|&x| most == i64::MAX || (-most..most).contains(&x)).collect();
                let pairs: Vec<(i64, i64)> = some.iter().flat_map(|&a| some.iter().map(move |&b| (a, b))).collect();
                let near = some.iter().filter(|&&b| b != 0).flat_map(|&b| {
                    [-1i64, 0, 1].map(|off| {
                        (
                            b.wrapping_mul(EXACT_BOUND / b.unsigned_abs().min(i64::MAX as u64) as i64)
                                .wrapping_add(off),
                            b,
                        )
                    })
                });
                let pairs: Vec<(i64, i64)> =
                    pairs.into_iter().chain(near.filter(|p| (-most..most).contains(&p.0))).collect();
                let (a, b): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
                let mut out = vec![0i64; a.len()];
                let args = [a.as_ptr().cast(), b.as_ptr().cast(), std::ptr::null()];
                // SAFETY: all have that many elements, and the result does not overlap.
                unsafe { run(args, out.as_mut_ptr().cast(), out.len()) };
                for (&(a, b), got) in pairs.iter().zip(out) {
                    assert_eq!(got, meaning(a, b), "{op:?} of {a} and {b}");
                }
            }
        }
    }
}
