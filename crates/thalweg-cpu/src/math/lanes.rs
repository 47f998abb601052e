//! Vector math functions over slices: [`ScalarMachine`] in loops that the compiler vectorises.
//!
//! Each loop is compiled twice on x86-64: for the baseline, where a fused multiply-add is a library call, and for AVX2
//! with FMA, selected at run time. Lanes that trip a function's guard are recomputed by the `libm` crate, so all
//! results are valid.

use super::{ScalarMachine, double, single};
use thalweg_ir::ElementOp;

/// Whether this machine runs the versions of the loops that are compiled for AVX2 and FMA.
#[inline]
pub fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Placeholder slow path of a function that guards no lane (the sigmoid), which `libm` lacks.
fn unguarded(_: f64) -> f64 {
    unreachable!("sigmoid guards no lane")
}

/// Type of a math function over slices of equal length: first argument, second argument (for unary functions, the first
/// one again), results.
pub type Lanes<T> = fn(&[T], &[T], &mut [T]);

macro_rules! functions {
    ($module:ident, $t:ty, $find:ident, $doc:literal: $($op:ident $name:ident($($arg:ident),+) or $slow:path;)+) => {
        $(mod $name {
            use super::*;

            #[inline(always)]
            fn lane(m: &mut ScalarMachine, $($arg: $t),+) -> $t {
                $module::$name(m, $($arg),+)
            }

            #[inline(always)]
            fn body(a: &[$t], b: &[$t], out: &mut [$t]) {
                let n = out.len();
                let (a, b) = (&a[..n], &b[..n]);
                let mut m = ScalarMachine::default();
                for i in 0..n {
                    functions!(@bind i a b $($arg)+);
                    out[i] = lane(&mut m, $($arg),+);
                }
                if m.guarded {
                    recompute_guarded(a, b, out);
                }
            }

            /// Recomputes the guarded lanes by `libm`. The main loop only records that a lane was guarded, not which.
            #[cold]
            fn recompute_guarded(a: &[$t], b: &[$t], out: &mut [$t]) {
                for i in 0..out.len() {
                    let mut m = ScalarMachine::default();
                    functions!(@bind i a b $($arg)+);
                    lane(&mut m, $($arg),+);
                    if m.guarded {
                        out[i] = $slow($(f64::from($arg)),+) as $t;
                    }
                }
            }

            fn baseline(a: &[$t], b: &[$t], out: &mut [$t]) {
                body(a, b, out)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn with_fma(a: &[$t], b: &[$t], out: &mut [$t]) {
                body(a, b, out)
            }

            pub fn pick() -> Lanes<$t> {
                #[cfg(target_arch = "x86_64")]
                if has_fma() {
                    // SAFETY: the processor has the features, as just checked.
                    return |a, b, out| unsafe { with_fma(a, b, out) };
                }
                baseline
            }
        })+

        #[doc = $doc]
        pub fn $find(op: ElementOp) -> Option<Lanes<$t>> {
            match op {
                $(ElementOp::$op => Some($name::pick()),)+
                _ => None,
            }
        }
    };
    (@bind $i:ident $a:ident $b:ident $x:ident) => { let ($x, _) = ($a[$i], $b[$i]); };
    (@bind $i:ident $a:ident $b:ident $x:ident $y:ident) => { let ($x, $y) = ($a[$i], $b[$i]); };
}

mod f32s {
    use super::*;
    functions! {
        single, f32, find, "The f32 function of the operation.":
        Exp exp(x) or libm::exp;
        Exp2 exp2(x) or libm::exp2;
        Expm1 expm1(x) or libm::expm1;
        Log log(x) or libm::log;
        Log2 log2(x) or libm::log2;
        Log1p log1p(x) or libm::log1p;
        Sin sin(x) or libm::sin;
        Cos cos(x) or libm::cos;
        Atan atan(x) or libm::atan;
        Tanh tanh(x) or libm::tanh;
        Sigmoid sigmoid(x) or unguarded;
        Erf erf(x) or libm::erf;
        Erfc erfc(x) or libm::erfc;
        Pow pow(x, y) or libm::pow;
    }
}

mod f64s {
    use super::*;
    functions! {
        double, f64, find, "The f64 function of the operation.":
        Exp exp(x) or libm::exp;
        Exp2 exp2(x) or libm::exp2;
        Expm1 expm1(x) or libm::expm1;
        Log log(x) or libm::log;
        Log2 log2(x) or libm::log2;
        Log1p log1p(x) or libm::log1p;
        Sin sin(x) or libm::sin;
        Cos cos(x) or libm::cos;
        Atan atan(x) or libm::atan;
        Tanh tanh(x) or libm::tanh;
        Sigmoid sigmoid(x) or unguarded;
        Erf erf(x) or libm::erf;
        Erfc erfc(x) or libm::erfc;
        Pow pow(x, y) or libm::pow;
    }
}

pub use f32s::find as find_f32;
pub use f64s::find as find_f64;
