//! Tolerance of a device's result against the interpreter's, for one operation on equal arguments.

use crate::products::{Product, products};
use crate::program::Step;
use thalweg_ir::{DType, ElementOp, Op, RandomKind, ReduceOp, Scalar, ScanOp, Shape};
use thalweg_kernel::reference::{Array, RefArg};

/// Distance of two numbers in ulp of `dtype`: the number of representable values from one to the other.
fn ulps(a: f64, b: f64, dtype: DType) -> u64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0;
    }
    if a.is_nan() || b.is_nan() {
        return u64::MAX;
    }
    let line = |v: f64| -> i64 {
        let (bits, sign) = match dtype {
            DType::F32 => ((v as f32).to_bits() as i64, 1i64 << 31),
            DType::BF16 => (half::bf16::from_f64(v).to_bits() as i64, 1 << 15),
            DType::F16 => (half::f16::from_f64(v).to_bits() as i64, 1 << 15),
            _ => {
                return if v.is_sign_negative() {
                    i64::MIN.wrapping_sub(v.to_bits() as i64)
                } else {
                    v.to_bits() as i64
                };
            }
        };
        if bits & sign != 0 { sign - bits } else { bits }
    };
    line(a).abs_diff(line(b))
}

/// Tolerance of the result of one operation, derived from its arguments.
pub struct Tolerance {
    op: Op,
    dtype: DType,
    /// Largest error that follows from the magnitudes of the arguments, for operations whose error is not relative to
    /// the result.
    absolute: f64,
    /// Whether intermediate results may overflow.
    extreme: bool,
    /// For a product reduction, whether each result may overflow or underflow in one order and not in another.
    depends: Vec<bool>,
    terms: f64,
    /// Whether the device's language is fast math: see [`Tolerance::of_fast_math`].
    fast_math: bool,
}

impl Tolerance {
    /// Tolerance of a step with these arguments, by one of the functions below.
    pub fn of_step(step: &Step, args: &[RefArg<'_>], new: fn(Op, DType, u32, &[&Array]) -> Tolerance) -> Tolerance {
        let scalar = |arg: &RefArg<'_>| match arg {
            RefArg::Scalar(bits) if step.dtype.is_float() => {
                let bytes = Scalar::from_bits(*bits, step.dtype).to_f64().to_le_bytes();
                Some(Array::from_bytes(Shape::SCALAR, DType::F64, &bytes))
            }
            _ => None,
        };
        let scalars: Vec<Array> = args.iter().filter_map(scalar).collect();
        let tensor = |arg| match arg {
            &RefArg::Array(a) => Some(a),
            RefArg::Scalar(_) => None,
        };
        let all: Vec<&Array> = args.iter().filter_map(tensor).chain(&scalars).collect();
        new(step.op, step.dtype, step.attr, &all)
    }

    /// Makes the tolerance of an operation on these arguments, scalars included.
    pub fn new(op: Op, dtype: DType, attr: u32, args: &[&Array]) -> Tolerance {
        let epsilon = if dtype.is_float() { 2f64.powi(1 - dtype.mantissa_digits() as i32) } else { 0.0 };
        let (mut absolute, mut is_extreme, mut terms, mut depends) = (0.0, false, 0.0, vec![]);
        match op {
            // Its three roundings are relative to its terms, which may cancel; and a difference of large terms may
            // overflow though the result does not.
            Op::Element(ElementOp::Lerp) => {
                absolute = 4.0 * epsilon * magnitude(args);
                is_extreme = magnitude(args) > overflow(dtype);
            }
            Op::Reduce(ReduceOp::Sum) => absolute = epsilon * (16.0 + depth(args[0])) * sum_of(args[0]),
            // Accumulated in f64 and rounded once; a cumulative logarithm near 0 cancels.
            Op::Scan(ScanOp::Sum) => absolute = f64::EPSILON * depth(args[0]) * sum_of(args[0]),
            Op::Scan(ScanOp::LogSumExp) => absolute = 4.0 * f64::EPSILON * magnitude(args) * depth(args[0]),
            Op::Reduce(ReduceOp::Prod) => {
                terms = args[0].shape.numel() as f64;
                depends = products(attr, args[0], dtype).iter().map(Product::depends).collect();
            }
            Op::Matmul => {
                let k = args[0].shape.last().copied().unwrap_or(1) as f64;
                let largest = k * magnitude(&args[..1]) * magnitude(&args[1..]);
                // Instructions that multiply pairs of bf16 treat f32 subnormals as 0: factors and sums.
                let flushed = if dtype == DType::BF16 { f32::MIN_POSITIVE as f64 } else { 0.0 };
                let flushed = flushed * k * (1.0 + magnitude(&args[..1]) + magnitude(&args[1..]));
                let exact = is_exact(largest, dtype, args);
                absolute = if exact { 0.0 } else { epsilon * (k + 2.0) * largest + flushed };
            }
            _ => {}
        }
        Tolerance { op, dtype, absolute, extreme: is_extreme, depends, terms, fast_math: false }
    }

    /// Tolerance on a device whose language is fast math: quotients and square roots are off by up to 4 ulp, scans are
    /// accumulated in f32, and subnormals count as 0.
    #[cfg(feature = "wgpu")]
    pub fn of_fast_math(op: Op, dtype: DType, attr: u32, args: &[&Array]) -> Tolerance {
        let mut tolerance = Tolerance { fast_math: true, ..Tolerance::new(op, dtype, attr, args) };
        let epsilon = f64::from(f32::EPSILON);
        match op {
            Op::Scan(ScanOp::Sum) => tolerance.absolute = epsilon * (16.0 + depth(args[0])) * sum_of(args[0]),
            Op::Scan(ScanOp::LogSumExp) => {
                tolerance.absolute = 4.0 * epsilon * magnitude(args) * (16.0 + depth(args[0]));
            }
            Op::Scan(ScanOp::Prod) => tolerance.terms = args[0].shape.numel() as f64,
            _ => {}
        }
        tolerance
    }

    /// Whether a result is acceptable by the bounds of fast math alone.
    fn is_fast_math(&self, got: f64, want: f64, distance: u64) -> bool {
        let flushed = 2.0 * f64::from(f32::MIN_POSITIVE);
        let relative = 4.0 * self.terms * f64::from(f32::EPSILON) * want.abs();
        let ulps = match self.op {
            Op::Element(e) => {
                let divides = matches!(e, ElementOp::Div | ElementOp::Sqrt | ElementOp::Rsqrt | ElementOp::Recip);
                if divides || e.row().ulps > 0 { 4 + 2 * u64::from(e.row().ulps) } else { 0 }
            }
            _ => 0,
        };
        self.fast_math
            && (distance <= ulps || (got - want).abs() <= relative || got.abs() <= flushed && want.abs() <= flushed)
    }

    /// Whether `got` is acceptable as element `p` of the result if the interpreter gives `want`.
    pub fn accepts(&self, p: usize, got: Scalar, want: Scalar) -> bool {
        let (Scalar::Float(g), Scalar::Float(w)) = (got, want) else {
            return got == want || self.op.region().is_some_and(|l| !l.is_exact());
        };
        let distance = ulps(g, w, self.dtype);
        if self.is_fast_math(g, w, distance) {
            return true;
        }
        // Narrow floats are computed in f32 and rounded a second time.
        let narrow = matches!(self.dtype, DType::BF16 | DType::F16) as u64;
        let near = (g - w).abs() <= self.absolute;
        let infinite = !w.is_finite() || !g.is_finite();
        match self.op {
            Op::Element(ElementOp::FloorDiv) => distance <= 1 || (g - w).abs() <= 1.0,
            Op::Element(ElementOp::Lerp) => {
                distance <= 2 + narrow || near || !w.is_finite() || !g.is_finite() && self.extreme
            }
            Op::Element(e) => distance <= e.row().ulps as u64 + narrow,
            Op::Cast | Op::Scatter(_) => distance <= narrow,
            // Scans in f64 round at each step, all others once.
            Op::Scan(ScanOp::Sum | ScanOp::Prod | ScanOp::LogSumExp) => distance <= 1 || near,
            // A function with an error of an ulp may end the loop an iteration earlier.
            Op::Loop(l) => distance == 0 || !l.is_exact(),
            // The order is the same on every device; each step may be off by an ulp or two.
            Op::FoldBy(l) | Op::ScanBy(l) => {
                let relative = 512.0 * 2f64.powi(1 - self.dtype.mantissa_digits() as i32) * w.abs();
                distance == 0 || !l.is_exact() && ((g - w).abs() <= relative.max(tiny(self.dtype)) || infinite)
            }
            Op::Random(RandomKind::Normal) => (g - w).abs() <= 2e-5 || distance <= narrow,
            Op::Reduce(ReduceOp::Sum) => infinite || near,
            Op::Reduce(ReduceOp::Prod) => {
                let epsilon = 2f64.powi(1 - self.dtype.mantissa_digits() as i32);
                let relative = (g - w).abs() <= 4.0 * self.terms * epsilon * w.abs();
                // Narrow floats are carried in f32, and overflow or underflow in the final rounding.
                let end = narrow == 1 && (infinite && w.abs() > overflow(self.dtype) || w.abs() < tiny(self.dtype));
                distance == 0 || relative || end || self.depends[p]
            }
            Op::Matmul => infinite || near || !self.absolute.is_finite(),
            _ => distance == 0,
        }
    }
}

/// Whether a GEMM has the same sums in every order: integer factors, and sums that the accumulator represents exactly.
fn is_exact(largest: f64, dtype: DType, args: &[&Array]) -> bool {
    let most = if dtype == DType::F64 { 2f64.powi(53) } else { 2f64.powi(24) };
    largest < most && args.iter().all(|a| floats(a).all(|v| v.fract() == 0.0))
}

fn overflow(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 3e3,
        DType::F64 => 1e306,
        _ => 1e37,
    }
}

fn tiny(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-3,
        DType::F64 => 1e-280,
        _ => 1e-30,
    }
}

/// Growth of a sum's error with the number of terms; in f64 the interpreter's own sequential roundings dominate.
fn depth(a: &Array) -> f64 {
    let n = a.shape.numel() as f64;
    if a.dtype == DType::F64 { n } else { n.sqrt() }
}

fn floats(a: &Array) -> impl Iterator<Item = f64> + '_ {
    (0..a.shape.numel()).map(|i| a.get(i).to_f64())
}

fn sum_of(a: &Array) -> f64 {
    floats(a).map(f64::abs).filter(|v| v.is_finite()).sum()
}

/// Largest finite magnitude among the elements of the arrays, at least 1.
pub fn magnitude(args: &[&Array]) -> f64 {
    args.iter().flat_map(|a| floats(a)).map(f64::abs).filter(|v| v.is_finite()).fold(1.0, f64::max)
}
