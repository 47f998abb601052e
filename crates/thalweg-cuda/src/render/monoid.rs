//! Monoids in CUDA C++, from the expressions of their rows ([`thalweg_ir::monoid`]).

use super::elements::{expression, is_native};
use super::types::{constant, held};
use thalweg_ir::{DType, Monoid, ScanOp};
use thalweg_kernel::monoid::combination;
use thalweg_kernel::{Node, NodeId, expand};

/// CUDA C++ expression that combines two partial results, the variables named by `before` and `after`.
pub fn combined(op: Monoid, dtype: DType, before: &str, after: &str) -> String {
    // The prelude's maximum and minimum return one NaN without further help.
    let body = expand(&combination(op, dtype, false), &is_native);
    let mut text: Vec<String> = Vec::with_capacity(body.nodes.len());
    let last = body.nodes.len() - 1;
    for (i, node) in body.nodes.iter().enumerate() {
        text.push(match *node {
            Node::Value { slot: 0, .. } => before.into(),
            Node::Value { .. } => after.into(),
            Node::Const { bits, dtype } => constant(dtype, bits),
            Node::Element { op, .. } => {
                let id = NodeId(i as u32);
                let args: Vec<&str> = body.args(id).map(|a| text[a.index()].as_str()).collect();
                let value = expression(op, body.operand_dtype(id), &args);
                if i == last { value } else { format!("({value})") }
            }
            ref other => unreachable!("{other:?} is no operation on two partial results"),
        });
    }
    text.swap_remove(body.sets[0].node.index())
}

/// Name of the C++ struct of a monoid: the monoid's name and the register type, joined by `_`.
pub fn name(op: Monoid, dtype: DType) -> String {
    format!("{}_{}", op.row().name, held(dtype))
}

/// Definition of the C++ struct of a monoid, whose function `of` combines two partial results.
pub fn definition(op: Monoid, dtype: DType) -> String {
    let (name, h, of) = (name(op, dtype), held(dtype), combined(op, dtype, "x", "y"));
    format!("struct {name} {{ FN static {h} of({h} x, {h} y) {{ return {of}; }} }};\n")
}

/// CUDA C++ text for the accumulator of a scan.
pub struct Running {
    /// C++ type of the accumulator.
    pub wide: &'static str,
    /// Expression of the accumulator's identity element.
    pub identity: String,
    /// Expression that combines the accumulators `x` and `y`; `x` is of the earlier elements.
    pub combined: String,
    /// Definitions of device functions that the expression calls; empty for none.
    pub functions: &'static str,
}

impl Running {
    /// Describes the accumulator of a scan over elements of this dtype.
    pub fn new(op: ScanOp, dtype: DType) -> Running {
        let carried = if dtype.is_float() { DType::F64 } else { Monoid::widest(dtype) };
        let wide = held(carried);
        let monoid = op.monoid().expect("what is no sort runs a monoid");
        let identity = constant(carried, (monoid.row().neutral)(carried).to_bits(carried));
        // The accumulator of a running log-sum-exp is a logarithm: that of a sum of two follows from their logarithms.
        let (combined, functions) = match monoid {
            Monoid::LogSumExp => ("log_add(x, y)".into(), LOG_ADD),
            other => (combined(other, carried, "x", "y"), ""),
        };
        Running { wide, identity, combined, functions }
    }
}

const LOG_ADD: &str = r#"
#ifndef LOG_ADD
#define LOG_ADD
FN double log_add(double x, double y) {
  double high = larger(x, y), low = smaller(x, y);
  if (high != high) return high;
  if (high == -__longlong_as_double(0x7ff0000000000000ll) || high == __longlong_as_double(0x7ff0000000000000ll)) return high;
  return high + log1p(exp(low - high));
}
#endif"#;
