//! Reference of loops: one iteration of one element after the other.

use super::cast;
use thalweg_ir::{DType, First, Loop, Region, RegionNode, Scalar};

/// Carried values of a loop after its last iteration, from the arguments of one element.
pub fn looped(of: Loop, args: &[Scalar]) -> Vec<Scalar> {
    let region = of.region();
    let args: Vec<Scalar> = args.iter().zip(&region.args).map(|(&a, &dtype)| held(a, dtype)).collect();
    let mut turn = Iteration::new(of);
    let mut carried: Vec<Scalar> = region
        .first
        .iter()
        .map(|first| match *first {
            First::Arg(n) => args[n as usize],
            First::Const { bits, dtype } => held(Scalar::from_bits(bits, dtype), dtype),
        })
        .collect();
    for _ in 0..region.most {
        turn.run(&carried, &args);
        if turn.values[region.go as usize].to_i64() == 0 {
            break;
        }
        carried.iter_mut().zip(&region.next).for_each(|(to, &n)| *to = turn.values[n as usize]);
    }
    carried
}

/// Combination of two partial results by a user-defined combine ([`Loop::is_combine`]).
pub fn combined(of: Loop, before: &[Scalar], after: &[Scalar]) -> Vec<Scalar> {
    let region = of.region();
    let mut turn = Iteration::new(of);
    let held = |values: &[Scalar]| -> Vec<Scalar> {
        values.iter().zip(&region.args).map(|(&v, &dtype)| held(v, dtype)).collect()
    };
    turn.run(&held(before), &held(after));
    region.next.iter().map(|&n| turn.values[n as usize]).collect()
}

/// Scalar in the form that values of the dtype have.
fn held(value: Scalar, dtype: DType) -> Scalar {
    if dtype.is_float() { Scalar::Float(value.to_f64()) } else { Scalar::integer(value.to_i64(), dtype) }
}

struct Iteration {
    region: &'static Region,
    /// Dtype of each node.
    dtypes: &'static [DType],
    values: Vec<Scalar>,
    /// Results of inner loops, by node.
    inner: Vec<(u32, Vec<Scalar>)>,
}

impl Iteration {
    fn new(of: Loop) -> Iteration {
        let region = of.region();
        Iteration { region, dtypes: of.dtypes(), values: vec![Scalar::Int(0); region.nodes.len()], inner: vec![] }
    }

    /// Computes the values of all nodes of the region for one iteration, into `values`.
    fn run(&mut self, carried: &[Scalar], args: &[Scalar]) {
        self.inner.clear();
        for (i, node) in self.region.nodes.iter().enumerate() {
            let value = |n: &u32| self.values[*n as usize];
            self.values[i] = match node {
                RegionNode::Carried(n) => carried[*n as usize],
                RegionNode::Arg(n) => args[*n as usize],
                RegionNode::Const { bits, dtype } => held(Scalar::from_bits(*bits, *dtype), *dtype),
                RegionNode::Cast { dtype, arg } => cast(value(arg), *dtype),
                RegionNode::Element { op, args } => {
                    let (row, n) = (op.row(), op.row().arity);
                    let operand = self.dtypes[args[n - 1] as usize];
                    let out = op.output(operand);
                    if operand.is_float() {
                        let mut x = [0.0; 3];
                        for (x, arg) in x.iter_mut().zip(&args[..n]) {
                            *x = value(arg).to_f64();
                        }
                        let y = row.meaning.float.expect("defined on floats")(&x[..n]);
                        held(Scalar::Float(out.round(y)), out)
                    } else {
                        let mut x = [0; 3];
                        for (x, arg) in x.iter_mut().zip(&args[..n]) {
                            *x = value(arg).to_i64();
                        }
                        let y = row.meaning.int.expect("defined on integers")(&x[..n], operand);
                        Scalar::integer(out.wrap(y), out)
                    }
                }
                RegionNode::Result { of, number } => {
                    let (_, results) = self.inner.iter().find(|l| l.0 == *of).expect("a loop comes before its results");
                    results[*number as usize]
                }
                RegionNode::Loop { inner, args } => {
                    let args: Vec<Scalar> = args.iter().map(value).collect();
                    self.inner.push((i as u32, looped(*inner, &args)));
                    Scalar::Int(0)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Halvings until the value is below 1; NaN ends immediately, infinity after the maximum number of iterations.
    #[test]
    fn a_loop_ends_where_its_condition_does_not_hold() {
        let text = "loop{50;f32;a0,k0:i32;c0,k3f800000:f32,ge:0:1,k3f000000:f32,mul:0:3,c1,k1:i32,add:5:6;2;4,7}";
        let l = Loop::parse(text).expect("a loop");
        let of = |x: f64| looped(l, &[Scalar::Float(x)]).iter().map(|v| v.to_f64()).collect::<Vec<_>>();
        assert_eq!(of(10.0), [0.625, 4.0]);
        assert_eq!(of(0.5), [0.5, 0.0]);
        assert_eq!(of(f64::INFINITY), [f64::INFINITY, 50.0]);
        assert_eq!(of(f64::NAN)[1], 0.0);
    }
}
