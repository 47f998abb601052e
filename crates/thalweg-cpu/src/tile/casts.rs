//! Conversions between dtypes in registers, and between registers and memory.
//!
//! Rust's `as` is the conversion that the operation table defines: float to integer saturates and turns NaN into 0,
//! integers wrap to a narrower width, everything else rounds to nearest even. bf16 and f16 are held in f32 lanes.

use super::lanes::{Loop, lanes};
use half::f16;
use half::slice::HalfFloatSliceExt;
use thalweg_ir::{Compute, DType};

/// Bits of the bf16 nearest to `v`, ties to even; NaN stays NaN.
#[inline(always)]
fn bf16_bits(v: f32) -> u16 {
    let bits = v.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // Rounding could carry a NaN into an infinity: keep its top bits and make it quiet.
    let nan = (bits >> 16) | 0x40;
    (if v.is_nan() { nan } else { rounded }) as u16
}

#[inline(always)]
fn bf16_value(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Number of values per call of the f16 conversions, which fit the stack.
const CHUNK: usize = 256;

/// Rounds f32 lanes to f16 and back. `half` converts slices by processor instructions where they exist.
unsafe fn round_f16(args: [*const u8; 3], out: *mut u8, n: usize) {
    // SAFETY: the contract of `Loop`.
    let (from, to) = unsafe {
        (std::slice::from_raw_parts(args[0].cast::<f32>(), n), std::slice::from_raw_parts_mut(out.cast::<f32>(), n))
    };
    let mut short = [f16::ZERO; CHUNK];
    for (from, to) in from.chunks(CHUNK).zip(to.chunks_mut(CHUNK)) {
        let short = &mut short[..from.len()];
        short.convert_from_f32_slice(from);
        short.convert_to_f32_slice(to);
    }
}

unsafe fn load_f16(args: [*const u8; 3], out: *mut u8, n: usize) {
    // SAFETY: the contract of `Loop`.
    let (from, to) = unsafe {
        (std::slice::from_raw_parts(args[0].cast::<f16>(), n), std::slice::from_raw_parts_mut(out.cast::<f32>(), n))
    };
    from.convert_to_f32_slice(to);
}

unsafe fn store_f16(args: [*const u8; 3], out: *mut u8, n: usize) {
    // SAFETY: the contract of `Loop`.
    let (from, to) = unsafe {
        (std::slice::from_raw_parts(args[0].cast::<f32>(), n), std::slice::from_raw_parts_mut(out.cast::<f16>(), n))
    };
    to.convert_from_f32_slice(from);
}

/// Loop that rounds f32 lanes to bf16 or f16; `None` for other dtypes, whose lanes have their own precision.
pub(super) fn round(dtype: DType) -> Option<Loop> {
    match dtype {
        DType::BF16 => Some(lanes!(|v: f32| -> f32 { bf16_value(bf16_bits(v)) })),
        DType::F16 => Some(round_f16),
        _ => None,
    }
}

/// Loop that wraps i32 lanes to a narrower integer; `None` for dtypes that fill their lanes.
pub(super) fn wrap(dtype: DType) -> Option<Loop> {
    match dtype {
        DType::I8 => Some(lanes!(|v: i32| -> i32 { DType::I8.wrap(v as i64) as i32 })),
        DType::I16 => Some(lanes!(|v: i32| -> i32 { DType::I16.wrap(v as i64) as i32 })),
        DType::U8 => Some(lanes!(|v: i32| -> i32 { DType::U8.wrap(v as i64) as i32 })),
        DType::U16 => Some(lanes!(|v: i32| -> i32 { DType::U16.wrap(v as i64) as i32 })),
        _ => None,
    }
}

macro_rules! from_lanes {
    ($name:ident, $t:ident) => {
        fn $name(to: DType) -> Loop {
            match to {
                DType::F32 => lanes!(|v: $t| -> f32 { v as f32 }),
                DType::F64 => lanes!(|v: $t| -> f64 { v as f64 }),
                DType::BF16 => lanes!(|v: $t| -> f32 { DType::BF16.round(v as f64) as f32 }),
                DType::F16 => lanes!(|v: $t| -> f32 { DType::F16.round(v as f64) as f32 }),
                DType::I8 => lanes!(|v: $t| -> i32 { v as i8 as i32 }),
                DType::I16 => lanes!(|v: $t| -> i32 { v as i16 as i32 }),
                DType::I32 => lanes!(|v: $t| -> i32 { v as i32 }),
                DType::I64 => lanes!(|v: $t| -> i64 { v as i64 }),
                DType::U8 => lanes!(|v: $t| -> i32 { v as u8 as i32 }),
                DType::U16 => lanes!(|v: $t| -> i32 { v as u16 as i32 }),
                DType::U32 => lanes!(|v: $t| -> u32 { v as u32 }),
                DType::U64 => lanes!(|v: $t| -> u64 { v as u64 }),
                DType::Bool => lanes!(|v: $t| -> u8 { (v != (0 as $t)) as u8 }),
            }
        }
    };
}
from_lanes!(from_f32, f32);
from_lanes!(from_f64, f64);
from_lanes!(from_i32, i32);
from_lanes!(from_u32, u32);
from_lanes!(from_i64, i64);
from_lanes!(from_u64, u64);
from_lanes!(from_bool, u8);

/// Loop that converts lanes from dtype `from` to dtype `to`; `None` if the lanes stay unchanged.
pub(super) fn cast(from: DType, to: DType) -> Option<Loop> {
    use Compute::*;
    match (from.compute(), to.compute()) {
        // f32 lanes only need rounding, integer lanes only wrapping.
        (F32, F32) => return round(to),
        (I32 | U32, I32) => return wrap(to),
        (I32 | U32, U32) | (F64, F64) | (I64 | U64, I64 | U64) | (Mask, Mask) => return None,
        _ => {}
    }
    Some(match from.compute() {
        F32 => from_f32(to),
        F64 => from_f64(to),
        I32 => from_i32(to),
        U32 => from_u32(to),
        I64 => from_i64(to),
        U64 => from_u64(to),
        Mask => from_bool(to),
    })
}

/// Loop that reinterprets the bits of dtype `from` as dtype `to` of the same width; `None` if the lanes stay unchanged.
pub(super) fn bitcast(from: DType, to: DType) -> Option<Loop> {
    use DType::{BF16, F16, I16, U16};
    Some(match (from, to) {
        (BF16, I16) => lanes!(|v: f32| -> i32 { (v.to_bits() >> 16) as i16 as i32 }),
        (BF16, U16) => lanes!(|v: f32| -> i32 { (v.to_bits() >> 16) as i32 }),
        (BF16, F16) => lanes!(|v: f32| -> f32 { f16::from_bits((v.to_bits() >> 16) as u16).to_f32() }),
        (F16, I16) => lanes!(|v: f32| -> i32 { f16::from_f32(v).to_bits() as i16 as i32 }),
        (F16, U16) => lanes!(|v: f32| -> i32 { f16::from_f32(v).to_bits() as i32 }),
        (F16, BF16) => lanes!(|v: f32| -> f32 { bf16_value(f16::from_f32(v).to_bits()) }),
        (I16 | U16, BF16) => lanes!(|v: i32| -> f32 { bf16_value(v as u16) }),
        (I16 | U16, F16) => lanes!(|v: i32| -> f32 { f16::from_bits(v as u16).to_f32() }),
        _ => return wrap(to),
    })
}

/// Loop that converts contiguous elements in memory to lanes; `None` if both have the same format.
pub(super) fn load(dtype: DType) -> Option<Loop> {
    Some(match dtype {
        DType::BF16 => lanes!(|v: u16| -> f32 { bf16_value(v) }),
        DType::F16 => load_f16,
        DType::I8 => lanes!(|v: i8| -> i32 { v as i32 }),
        DType::I16 => lanes!(|v: i16| -> i32 { v as i32 }),
        DType::U8 => lanes!(|v: u8| -> i32 { v as i32 }),
        DType::U16 => lanes!(|v: u16| -> i32 { v as i32 }),
        DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::Bool => return None,
    })
}

/// Loop that converts lanes to contiguous elements in memory.
pub(super) fn store(dtype: DType) -> Loop {
    match dtype {
        DType::BF16 => lanes!(|v: f32| -> u16 { bf16_bits(v) }),
        DType::F16 => store_f16,
        DType::I8 => lanes!(|v: i32| -> i8 { v as i8 }),
        DType::I16 => lanes!(|v: i32| -> i16 { v as i16 }),
        DType::U8 => lanes!(|v: i32| -> u8 { v as u8 }),
        DType::U16 => lanes!(|v: i32| -> u16 { v as u16 }),
        DType::F32 | DType::I32 | DType::U32 => lanes!(|v: u32| -> u32 { v }),
        DType::F64 | DType::I64 | DType::U64 => lanes!(|v: u64| -> u64 { v }),
        DType::Bool => lanes!(|v: u8| -> u8 { v }),
    }
}

/// Reads one element from memory and converts it to lane format, as a word in the form of `Scalar::to_bits`.
///
/// # Safety
/// `at` points at an element of the dtype.
#[inline(always)]
pub(super) unsafe fn element_bits(dtype: DType, at: *const u8) -> u64 {
    // SAFETY: the caller's promise: an element of the dtype is there.
    unsafe {
        match dtype {
            DType::BF16 => bf16_value(at.cast::<u16>().read()).to_bits() as u64,
            DType::F16 => at.cast::<f16>().read().to_f32().to_bits() as u64,
            DType::I8 => at.cast::<i8>().read() as i32 as u32 as u64,
            DType::I16 => at.cast::<i16>().read() as i32 as u32 as u64,
            DType::U8 | DType::Bool => at.read() as u64,
            DType::U16 => at.cast::<u16>().read() as u64,
            DType::F32 | DType::I32 | DType::U32 => at.cast::<u32>().read() as u64,
            DType::F64 | DType::I64 | DType::U64 => at.cast::<u64>().read(),
        }
    }
}
