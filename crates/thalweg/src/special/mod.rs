//! Special functions: the gamma function's logarithm and derivatives, Bessel functions, the inverse of erf, and small
//! functions of one or two arguments of NumPy and PyTorch.
//!
//! They are compositions of table operations, so they fuse, run on every device, and give the same bits on a device
//! each time. Errors are about 1e-15 for f64 and 1e-7 for f32, relative to the result, or absolute beside a root; bf16
//! and f16 are computed in f32. A derivative that has its own name is recorded as that function, not as the derivative
//! of polynomials.

mod bessel;
mod bits;
mod gamma;
mod inverse;
mod pairs;
mod polynomials;

use crate::record::{check_float, widened};
use crate::tape::{self, Rule};
use crate::{DType, Tensor};

/// A polynomial in `t`, lowest coefficients first: the long list in f64, the short one in f32.
fn polynomial(t: &Tensor, long: &[f64], short: &[f64]) -> Tensor {
    let list = if t.dtype() == DType::F64 { long } else { short };
    let [rest @ .., before, last] = list else { unreachable!("a polynomial has two coefficients and more") };
    rest.iter().rev().fold(t * *last + *before, |sum, c| sum * t + *c)
}

/// A function of one float argument: `f` of it, in its own dtype or in f32, and its derivative as a function of the
/// argument. `f` itself is not differentiated.
#[track_caller]
pub(crate) fn function(
    name: &'static str,
    x: &Tensor,
    f: impl FnOnce(&Tensor) -> Tensor,
    derivative: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static,
) -> Tensor {
    check_float(name, x);
    let wide = widened(x);
    let y = f(&wide.detach());
    let rule: Box<Rule> = Box::new(move |_, args, dy| {
        let x = args[0].as_ref().expect("the rule reads its argument");
        vec![Some(dy * derivative(x))]
    });
    tape::own(&y.value, name, (std::slice::from_ref(&wide), true), vec![], rule).cast(x.dtype())
}
