//! Error bounds of folds and scans by a user-defined combine on a device whose language is fast math.
//!
//! In: a step and its arguments. Out: the interpreter's value of each element of the result, and a bound of its
//! distance from every value that the device may compute. The combine runs in the order that is part of its meaning,
//! with an interval for each value (running error analysis, Higham 2002, section 3.3): an operation's interval has its
//! results at the corners of its operands' intervals, its own roundings, and 0 where a value may be subnormal. So a
//! product that is contracted into a sum is within the bound, as is what is left where two products cancel. Constants
//! of the bound are the roundings of WGSL: it does not depend on the result that is checked.

use thalweg_ir::{COMPONENT, DType, ElementOp, Loop, Op, REVERSE, RegionNode, Scalar};
use thalweg_kernel::order;
use thalweg_kernel::reference::{self, Array};

use crate::program::Step;

/// Value of the interpreter, and a bound of its distance from the device's; infinite where nothing is known.
#[derive(Clone, Copy, Debug)]
pub struct Bounded {
    /// The interpreter's value.
    pub value: Scalar,
    /// Bound of the distance; 0 for values that are the same on every device.
    pub error: f64,
    dtype: DType,
}

impl Bounded {
    fn exact(value: Scalar, dtype: DType) -> Bounded {
        Bounded { value, error: 0.0, dtype }
    }

    /// Value of a dtype that may be 0 where it is subnormal.
    fn flushed(value: Scalar, error: f64, dtype: DType) -> Bounded {
        let least = f64::from(f32::MIN_POSITIVE);
        let is_small = dtype.is_float() && value.to_f64().abs() - error < least;
        let flush = if is_small { value.to_f64().abs().min(least) } else { 0.0 };
        Bounded { value, error: error + flush, dtype }
    }

    /// Whether a device's value is within the bound.
    pub fn holds(&self, got: Scalar) -> bool {
        match (self.value, got) {
            (Scalar::Float(w), Scalar::Float(g)) => self.error.is_infinite() || deviation(g, w) <= self.error,
            (w, g) => w == g || self.error > 0.0,
        }
    }

    /// Middle and ends of the interval; both values of a condition that is not known. `None` for an integer that is
    /// not known.
    fn corners(&self) -> Option<[Scalar; 3]> {
        let v = self.value;
        Some(match self.dtype {
            _ if self.error == 0.0 => [v; 3],
            DType::Bool => [v, computed(ElementOp::Not, DType::Bool, &[v]), v],
            float if float.is_float() => {
                [v, Scalar::Float(v.to_f64() + self.error), Scalar::Float(v.to_f64() - self.error)]
            }
            _ => return None,
        })
    }
}

/// Distance of two values; infinite where only one is NaN, or infinite.
fn deviation(a: f64, b: f64) -> f64 {
    if a == b || a.is_nan() && b.is_nan() {
        0.0
    } else {
        Some((a - b).abs()).filter(|d| !d.is_nan()).unwrap_or(f64::INFINITY)
    }
}

/// Rounding error of an operation relative to its result, the interpreter's included.
fn own_error(op: ElementOp, dtype: DType) -> f64 {
    use ElementOp::*;
    let epsilon = 2f64.powi(1 - dtype.mantissa_digits() as i32);
    match op {
        Neg | Abs | Sign | Minimum | Maximum | Where | Clamp | Relu | Floor | Ceil | Round | Trunc => 0.0,
        Add | Sub | Mul | Square => epsilon,
        Div | Sqrt | Rsqrt | Recip => 5.0 * epsilon,
        Lerp => 3.0 * epsilon,
        other => (5.0 + 2.0 * f64::from(other.row().ulps)) * epsilon,
    }
}

/// Bounds of the elements of a fold or scan by a user-defined combine. `None` for other steps, and for combines with
/// inner loops.
pub fn bounds(step: &Step, args: &[&Array]) -> Option<Vec<Bounded>> {
    let (Op::FoldBy(of) | Op::ScanBy(of)) = step.op else { return None };
    let region = of.region();
    if region.nodes.iter().any(|n| matches!(n, RegionNode::Loop { .. })) {
        return None;
    }
    let is_fold = matches!(step.op, Op::FoldBy(_));
    let from = args.first()?.shape;
    let axis = if is_fold { (step.attr & 0xFF).trailing_zeros() } else { step.attr & 0xFF } as usize;
    let (n, component) = (from[axis], (step.attr >> COMPONENT) as usize);
    let stride: usize = from[axis + 1..].iter().product();
    let combine = |a: &Vec<Bounded>, b: &Vec<Bounded>| combined(of, a, b);
    let elements = step.shape.numel();
    let rows = elements / if is_fold { 1 } else { n.max(1) };
    let mut out = vec![Bounded::exact(Scalar::Int(0), DType::I32); elements];
    for row in 0..rows {
        let first = (row / stride) * stride * n + row % stride;
        let element = |i: usize| -> Vec<Bounded> {
            let all = args.iter().map(|a| Bounded::flushed(a.get(first + i * stride), 0.0, a.dtype));
            all.collect()
        };
        let mut values: Vec<Vec<Bounded>> = (0..n).map(element).collect();
        if is_fold {
            let identity =
                of.identity().zip(&region.args).map(|(bits, &d)| Bounded::exact(Scalar::from_bits(bits, d), d));
            out[row] = order::fold_by(values, identity.collect(), combine)[component];
            continue;
        }
        let is_reverse = step.attr & REVERSE != 0;
        if is_reverse {
            values.reverse();
        }
        order::scan_by(&mut values, &combine);
        for (i, value) in values.into_iter().enumerate() {
            let i = if is_reverse { n - 1 - i } else { i };
            out[first + i * stride] = value[component];
        }
    }
    Some(out)
}

/// Combination of two partial results.
fn combined(of: Loop, before: &[Bounded], after: &[Bounded]) -> Vec<Bounded> {
    let (region, dtypes) = (of.region(), of.dtypes());
    let mut values: Vec<Bounded> = Vec::with_capacity(region.nodes.len());
    for node in &region.nodes {
        let value = match node {
            RegionNode::Carried(n) => before[*n as usize],
            RegionNode::Arg(n) => after[*n as usize],
            RegionNode::Const { bits, dtype } => Bounded::exact(Scalar::from_bits(*bits, *dtype), *dtype),
            RegionNode::Cast { dtype, arg } => {
                let epsilon = if dtype.is_float() { 2f64.powi(1 - dtype.mantissa_digits() as i32) } else { 0.0 };
                evaluated(&[values[*arg as usize]], *dtype, epsilon, |x| reference::cast(x[0], *dtype))
            }
            RegionNode::Element { op, args } => {
                let arity = op.row().arity;
                let operand = dtypes[args[arity - 1] as usize];
                let args: Vec<Bounded> = args[..arity].iter().map(|a| values[*a as usize]).collect();
                let result = op.output(operand);
                let epsilon = if result.is_float() { own_error(*op, result) } else { 0.0 };
                evaluated(&args, result, epsilon, |x| computed(*op, operand, x))
            }
            RegionNode::Loop { .. } | RegionNode::Result { .. } => unreachable!("it has no inner loops"),
        };
        values.push(value);
    }
    region.next.iter().map(|&n| values[n as usize]).collect()
}

/// Result of an operation on scalars.
fn computed(op: ElementOp, operand: DType, args: &[Scalar]) -> Scalar {
    let (meaning, result) = (op.row().meaning, op.output(operand));
    if operand.is_float() {
        let args: Vec<f64> = args.iter().map(|x| x.to_f64()).collect();
        let y = result.round(meaning.float.expect("it is defined on floats")(&args));
        return if result.is_float() { Scalar::Float(y) } else { Scalar::integer(y as i64, result) };
    }
    let args: Vec<i64> = args.iter().map(|x| x.to_i64()).collect();
    Scalar::integer(result.wrap(meaning.int.expect("it is defined on integers")(&args, operand)), result)
}

/// Interval of an operation's result: its values at the corners of its arguments' intervals, and its own rounding.
fn evaluated(args: &[Bounded], dtype: DType, epsilon: f64, of: impl Fn(&[Scalar]) -> Scalar) -> Bounded {
    let value = of(&args.iter().map(|a| a.value).collect::<Vec<_>>());
    let corners: Option<Vec<[Scalar; 3]>> = args.iter().map(Bounded::corners).collect();
    let Some(corners) = corners else { return Bounded { value, error: f64::INFINITY, dtype } };
    let mut error: f64 = 0.0;
    for n in 1..3usize.pow(args.len() as u32) {
        let at: Vec<Scalar> = corners.iter().enumerate().map(|(i, c)| c[n / 3usize.pow(i as u32) % 3]).collect();
        error = error.max(match (of(&at), value) {
            (Scalar::Float(a), Scalar::Float(b)) => deviation(a, b),
            (a, b) if a == b => 0.0,
            _ => f64::INFINITY,
        });
    }
    // Rounding of the largest value of the interval. Infinite and NaN results have none.
    let size = value.to_f64().abs() + error;
    let rounding = if size.is_finite() && dtype.is_float() { epsilon * size } else { 0.0 };
    Bounded::flushed(value, error + rounding, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::Shape;

    /// Product of complex numbers along a row.
    fn product(parts: [[f32; 3]; 2], component: u32) -> Bounded {
        let text = "loop{1;f32,f32;k3f800000:f32,k0:f32;k1:bool,c0,c1,a0,a1,mul:1:3,mul:2:4,sub:5:6,mul:1:4,mul:2:3,\
                    add:8:9;0;7,10}";
        let of = Loop::parse(text).expect("a combine");
        let shape = Shape::new(&[3]);
        let arrays = parts.map(|part| {
            Array::from_bytes(shape, DType::F32, &part.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
        });
        let attr = component << COMPONENT | 1;
        let step = Step {
            op: Op::FoldBy(of),
            dtype: DType::F32,
            shape: Shape::SCALAR,
            attr,
            args: vec![],
            ints: vec![],
            kept: true,
        };
        bounds(&step, &[&arrays[0], &arrays[1]]).expect("it is a fold")[0]
    }

    #[test]
    fn a_contracted_product_is_within_the_bound_and_a_wrong_one_is_not() {
        let (a, b) = ([1.1f32, -0.7, 1.3], [0.9f32, 0.4, -1.2]);
        let bound = product([a, b], 0);
        // The order of a fold of three: (0, 2), then 1.
        let contracted = |(r, i): (f32, f32), (s, j): (f32, f32)| (r.mul_add(s, -(i * j)), r.mul_add(j, i * s));
        let first = contracted((a[0], b[0]), (a[2], b[2]));
        let want = contracted(first, (a[1], b[1])).0;
        assert!(bound.holds(Scalar::Float(want.into())), "{bound:?} {want}");
        assert!(!bound.holds(Scalar::Float(f64::from(want) * (1.0 + 3e-6))), "{bound:?} {want}");
        assert!(!bound.holds(Scalar::Float(f64::NAN)));
    }

    #[test]
    fn what_is_left_of_equal_products_is_a_rounding_of_them() {
        let x = 1.000_000_1f32;
        let bound = product([[x, x, 1.0], [x, x, 0.0]], 0);
        assert_eq!(bound.value, Scalar::Float(0.0));
        assert!(bound.holds(Scalar::Float(1e-7)) && !bound.holds(Scalar::Float(1e-6)), "{bound:?}");
    }

    #[test]
    fn a_subnormal_may_count_as_zero_and_a_normal_number_may_not() {
        let bound = product([[1e-39, 1.0, 1e3], [0.0; 3]], 0);
        assert!(bound.holds(Scalar::Float(0.0)) && bound.holds(Scalar::Float(1e-36)), "{bound:?}");
        let bound = product([[1e-20, 1.0, 1e3], [0.0; 3]], 0);
        assert!(!bound.holds(Scalar::Float(0.0)), "{bound:?}");
        // Infinity times a subnormal is NaN where that counts as 0.
        assert!(product([[1e-39, 1.0, f32::INFINITY], [0.0; 3]], 0).holds(Scalar::Float(f64::NAN)));
    }
}
