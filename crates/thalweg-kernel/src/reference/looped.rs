//! What a loop means: turn after turn of one element.

use super::cast;
use thalweg_ir::element::{Build, Expr};
use thalweg_ir::monoid::Evaluate;
use thalweg_ir::{DType, First, Loop, RegionNode, Scalar};

/// The carried values of a loop after its last turn, from the arguments of one element.
pub fn looped(of: Loop, args: &[Scalar]) -> Vec<Scalar> {
    let region = of.region();
    let mut carried: Vec<Scalar> = region
        .first
        .iter()
        .map(|first| match *first {
            First::Arg(n) => args[n as usize],
            First::Const { bits, dtype } => Scalar::from_bits(bits, dtype),
        })
        .collect();
    for _ in 0..region.most {
        let values = turn(of, &carried, args);
        if values[region.go as usize][0].to_f64() == 0.0 {
            break;
        }
        carried = region.next.iter().map(|&n| values[n as usize][0]).collect();
    }
    carried
}

/// The values of a turn: one a node, but of a loop all its results.
fn turn(of: Loop, carried: &[Scalar], args: &[Scalar]) -> Vec<Vec<Scalar>> {
    let mut values: Vec<Vec<Scalar>> = Vec::with_capacity(of.region().nodes.len());
    for node in &of.region().nodes {
        let value = |n: u32| values[n as usize][0];
        let new = match node {
            RegionNode::Carried(n) => carried[*n as usize],
            RegionNode::Arg(n) => args[*n as usize],
            RegionNode::Const { bits, dtype } => Scalar::from_bits(*bits, *dtype),
            RegionNode::Cast { dtype, arg } => cast(value(*arg), *dtype),
            RegionNode::Element { op, args } => {
                let mut e = Evaluate::default();
                let args: Vec<Expr> = args[..op.row().arity].iter().map(|&a| e.given(value(a), of.dtype(a))).collect();
                let out = e.op(*op, &args);
                e.value(out)
            }
            RegionNode::Result { of, number } => values[*of as usize][*number as usize],
            RegionNode::Loop { inner, args } => {
                let args: Vec<Scalar> = args.iter().map(|&a| value(a)).collect();
                values.push(looped(*inner, &args));
                continue;
            }
        };
        values.push(vec![new]);
    }
    values
}

/// A scalar as an array of the dtype holds it.
pub(super) fn held(value: Scalar, dtype: DType) -> Scalar {
    if dtype.is_float() { Scalar::Float(value.to_f64()) } else { Scalar::Int(value.to_i64()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Halvings until it is below 1; NaN and infinities end by themselves or after the most turns.
    #[test]
    fn a_loop_ends_where_its_condition_does_not_hold() {
        let l =
            Loop::parse("loop{50;f32;a0,k0:i32;c0,k3f800000:f32,ge:0:1,k3f000000:f32,mul:0:3,c1,k1:i32,add:5:6;2;4,7}");
        let of = |x: f64| looped(l.unwrap(), &[Scalar::Float(x)]).iter().map(|v| v.to_f64()).collect::<Vec<_>>();
        assert_eq!(of(10.0), [0.625, 4.0]);
        assert_eq!(of(0.5), [0.5, 0.0]);
        assert_eq!(of(f64::INFINITY), [f64::INFINITY, 50.0]);
        assert_eq!(of(f64::NAN)[1], 0.0);
    }
}
