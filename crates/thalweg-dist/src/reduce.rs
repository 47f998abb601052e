//! Reductions of operands over ranks.
//!
//! In: the bytes of one operand per rank, all of a dtype and a length. Out: the bytes of the result. Always true:
//! elements are combined in rank order, so equal operands give equal bits on every rank and in every run. Sums and
//! products of bf16 and f16 accumulate in f32 and are rounded once; integers wrap.

use half::{bf16, f16};
use std::fmt;
use thalweg::DType;

/// Operation that combines the operands of all ranks, element by element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceOp {
    /// Sum.
    Sum,
    /// Sum divided by the number of ranks; of floats only.
    Mean,
    /// Maximum; NaN if there is one. Of bools: whether any is true.
    Max,
    /// Minimum; NaN if there is one. Of bools: whether all are true.
    Min,
    /// Product.
    Product,
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Mean => "mean",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::Product => "product",
        })
    }
}

impl ReduceOp {
    /// Whether elements of a dtype can be reduced so.
    pub(crate) fn takes(self, dtype: DType) -> bool {
        match self {
            ReduceOp::Max | ReduceOp::Min => true,
            ReduceOp::Mean => dtype.is_float(),
            ReduceOp::Sum | ReduceOp::Product => dtype != DType::Bool,
        }
    }
}

/// Elements that are accumulated at a time: a block of accumulators stays in the first-level cache.
const BLOCK: usize = 2048;

/// Reduces `operands`, one per rank, each of as many bytes as `out`.
pub(crate) fn reduce(op: ReduceOp, dtype: DType, operands: &[&[u8]], out: &mut [u8]) {
    match dtype {
        DType::F32 => blocks::<f32>(op, operands, out),
        DType::F64 => blocks::<f64>(op, operands, out),
        DType::BF16 => blocks::<bf16>(op, operands, out),
        DType::F16 => blocks::<f16>(op, operands, out),
        DType::I8 => blocks::<i8>(op, operands, out),
        DType::I16 => blocks::<i16>(op, operands, out),
        DType::I32 => blocks::<i32>(op, operands, out),
        DType::I64 => blocks::<i64>(op, operands, out),
        DType::U8 | DType::Bool => blocks::<u8>(op, operands, out),
        DType::U16 => blocks::<u16>(op, operands, out),
        DType::U32 => blocks::<u32>(op, operands, out),
        DType::U64 => blocks::<u64>(op, operands, out),
    }
}

/// Element of a dtype, with its accumulator.
trait Number: Sized {
    type Accumulator: Copy;
    const SIZE: usize = size_of::<Self>();
    fn load(bytes: &[u8]) -> Self::Accumulator;
    fn store(from: Self::Accumulator, bytes: &mut [u8]);
    fn add(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
    fn multiply(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
    fn max(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
    fn min(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
    fn divide(a: Self::Accumulator, count: usize) -> Self::Accumulator;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Accumulator = $t;
            fn load(bytes: &[u8]) -> $t {
                <$t>::from_ne_bytes(bytes.try_into().expect("bytes of one element"))
            }
            fn store(from: $t, bytes: &mut [u8]) {
                bytes.copy_from_slice(&from.to_ne_bytes());
            }
            fn add(a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
            fn multiply(a: $t, b: $t) -> $t {
                a.wrapping_mul(b)
            }
            fn max(a: $t, b: $t) -> $t {
                a.max(b)
            }
            fn min(a: $t, b: $t) -> $t {
                a.min(b)
            }
            fn divide(_: $t, _: usize) -> $t {
                unreachable!("means are of floats")
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($t:ty: $accumulator:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Number for $t {
            type Accumulator = $accumulator;
            fn load(bytes: &[u8]) -> $accumulator {
                $widen(<$t>::from_ne_bytes(bytes.try_into().expect("bytes of one element")))
            }
            fn store(from: $accumulator, bytes: &mut [u8]) {
                bytes.copy_from_slice(&$narrow(from).to_ne_bytes());
            }
            fn add(a: $accumulator, b: $accumulator) -> $accumulator {
                a + b
            }
            fn multiply(a: $accumulator, b: $accumulator) -> $accumulator {
                a * b
            }
            fn max(a: $accumulator, b: $accumulator) -> $accumulator {
                // The comparison is false if `a` is NaN, which then stays.
                if b > a || b.is_nan() { b } else { a }
            }
            fn min(a: $accumulator, b: $accumulator) -> $accumulator {
                if b < a || b.is_nan() { b } else { a }
            }
            fn divide(a: $accumulator, count: usize) -> $accumulator {
                a / count as $accumulator
            }
        }
    )*};
}
floats! {
    f32: f32, |x| x, |x| x;
    f64: f64, |x| x, |x| x;
    bf16: f32, bf16::to_f32, bf16::from_f32;
    f16: f32, f16::to_f32, f16::from_f32;
}

fn blocks<T: Number>(op: ReduceOp, operands: &[&[u8]], out: &mut [u8]) {
    match op {
        ReduceOp::Sum => fold::<T>(operands, out, T::add, |a| a),
        ReduceOp::Mean => fold::<T>(operands, out, T::add, |a| T::divide(a, operands.len())),
        ReduceOp::Max => fold::<T>(operands, out, T::max, |a| a),
        ReduceOp::Min => fold::<T>(operands, out, T::min, |a| a),
        ReduceOp::Product => fold::<T>(operands, out, T::multiply, |a| a),
    }
}

fn fold<T: Number>(
    operands: &[&[u8]],
    out: &mut [u8],
    combine: impl Fn(T::Accumulator, T::Accumulator) -> T::Accumulator,
    finish: impl Fn(T::Accumulator) -> T::Accumulator,
) {
    let (first, rest) = operands.split_first().expect("a world has a rank");
    let bytes = BLOCK * T::SIZE;
    let mut totals = Vec::with_capacity(BLOCK);
    for (number, out) in out.chunks_mut(bytes).enumerate() {
        let block = number * bytes..number * bytes + out.len();
        totals.clear();
        totals.extend(first[block.clone()].chunks_exact(T::SIZE).map(T::load));
        for operand in rest {
            for (total, element) in totals.iter_mut().zip(operand[block.clone()].chunks_exact(T::SIZE)) {
                *total = combine(*total, T::load(element));
            }
        }
        for (total, element) in totals.iter().zip(out.chunks_exact_mut(T::SIZE)) {
            T::store(finish(*total), element);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(op: ReduceOp, operands: &[&[f32]]) -> Vec<f32> {
        let bytes: Vec<Vec<u8>> = operands.iter().map(|x| x.iter().flat_map(|x| x.to_ne_bytes()).collect()).collect();
        let mut out = vec![0; bytes[0].len()];
        reduce(op, DType::F32, &bytes.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut out);
        out.chunks_exact(4).map(f32::load).collect()
    }

    #[test]
    fn nan_is_the_maximum_and_the_minimum() {
        for order in [[f32::NAN, 1.0, 2.0], [1.0, f32::NAN, 2.0], [1.0, 2.0, f32::NAN]] {
            let operands = order.each_ref().map(std::slice::from_ref);
            assert!(reduced(ReduceOp::Max, &operands)[0].is_nan());
            assert!(reduced(ReduceOp::Min, &operands)[0].is_nan());
        }
    }

    #[test]
    fn elements_beyond_a_block_are_reduced() {
        let x: Vec<f32> = (0..2 * BLOCK as i32 + 3).map(|i| i as f32).collect();
        let twice: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
        assert_eq!(reduced(ReduceOp::Sum, &[&x, &x]), twice);
        assert_eq!(reduced(ReduceOp::Mean, &[&x, &x]), x);
    }

    #[test]
    fn narrow_sums_are_rounded_once() {
        // 256 + 1 + 1 is 258 in bf16; rounded after each addition it would stay 256.
        let operands = [256.0, 1.0, 1.0].map(|x| bf16::from_f32(x).to_ne_bytes());
        let mut out = [0; 2];
        reduce(ReduceOp::Sum, DType::BF16, &operands.each_ref().map(|x| &x[..]), &mut out);
        assert_eq!(bf16::from_ne_bytes(out).to_f32(), 258.0);
    }
}
