//! Conversions between f32 and the 16-bit floats as a few integer operations, which inline into loops and vectorise.
//! (Those of the crate `half` detect the processor at each call, and are calls.)

/// Value of the bits of a bf16.
#[inline(always)]
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Bits of the bf16 nearest to a value, ties to even; NaN becomes quiet.
#[inline(always)]
pub fn to_bf16(v: f32) -> u16 {
    let bits = v.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    (if v.is_nan() { quiet } else { rounded }) as u16
}

/// Value of the bits of an f16.
#[inline(always)]
pub fn from_f16(bits: u16) -> f32 {
    // The exponent is off by 112 until a product with 2¹¹² corrects it, for subnormals too.
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let value = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    // Infinity and NaN have the largest exponent in both formats.
    let special = bits & 0x7c00 == 0x7c00;
    let magnitude = if special { magnitude | 0x7f80_0000 } else { value.to_bits() };
    f32::from_bits(magnitude | u32::from(bits & 0x8000) << 16)
}

/// Bits of the f16 nearest to a value, ties to even; NaN becomes quiet.
#[inline(always)]
pub fn to_f16(v: f32) -> u16 {
    let bits = v.to_bits();
    let (magnitude, sign) = (bits & 0x7fff_ffff, bits >> 16 & 0x8000);
    // Adding 0.5 leaves a subnormal result's bits, rounded, at the end of the sum.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let normal = magnitude.wrapping_sub(0x3800_0000).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    let number = if magnitude < 0x3880_0000 { subnormal } else { normal };
    // From 65,520 on, and infinity.
    let number = if magnitude >= 0x477f_f000 { 0x7c00 } else { number };
    let number = if magnitude > 0x7f80_0000 { 0x7e00 | magnitude >> 13 & 0x3ff } else { number };
    (number | sign) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn all_narrow_values_are_widened() {
        for bits in 0..=u16::MAX {
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(same(from_f16(bits), f16::from_bits(bits).to_f32()), "{bits:x}");
            assert!(same(from_bf16(bits), bf16::from_bits(bits).to_f32()), "{bits:x}");
        }
    }

    #[test]
    fn values_are_rounded_as_the_crate_half_does() {
        let mut state = 1u32;
        let random = (0..2_000_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        });
        // Every f16, the ties between neighbours, and the values next to both.
        let near = (0..=u16::MAX).flat_map(|h| {
            let bits = f16::from_bits(h).to_f32().to_bits();
            [0u32, 1, 0x0fff, 0x1000, 0x1001, 0u32.wrapping_sub(1)].map(|by| bits.wrapping_add(by))
        });
        for bits in random.chain(near) {
            let v = f32::from_bits(bits);
            assert_eq!(f16::from_bits(to_f16(v)).is_nan(), v.is_nan(), "{v}");
            assert!(v.is_nan() || to_f16(v) == f16::from_f32(v).to_bits(), "{v} {bits:x}");
            assert!(v.is_nan() || to_bf16(v) == bf16::from_f32(v).to_bits(), "{v} {bits:x}");
        }
    }
}
