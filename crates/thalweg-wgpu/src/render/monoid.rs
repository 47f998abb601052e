//! Combine operations of folds and scans as functions, from the rows of their monoids ([`thalweg_ir::monoid`]).

use super::elements::{expression, is_native};
use super::kernel::Emitter;
use super::types::{cast, constant, held};
use thalweg_gpu::ir::Definition;
use thalweg_ir::{DType, Monoid};
use thalweg_kernel::monoid::combination;
use thalweg_kernel::{Node, NodeId, expand};

/// Name of a monoid's function.
pub fn name(op: Monoid, dtype: DType) -> String {
    format!("{}_{}", op.row().name, dtype)
}

/// Statements that combine two partial results `x` and `y`, and return the result.
fn combined(op: Monoid, dtype: DType) -> String {
    let body = expand(&combination(op, dtype, false), &is_native);
    let mut out = String::new();
    for (i, node) in body.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let text = match *node {
            Node::Value { slot: 0, .. } => "x".into(),
            Node::Value { .. } => "y".into(),
            Node::Const { bits, dtype } => constant(dtype, bits),
            Node::Cast { dtype, arg } => cast(body.dtype(arg), dtype, &format!("n{}", arg.0)),
            Node::Element { op, .. } => {
                let args: Vec<String> = body.args(id).map(|a| format!("n{}", a.0)).collect();
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                expression(op, body.operand_dtype(id), &args)
                    .unwrap_or_else(|| unreachable!("{} is expanded", op.name()))
            }
            ref other => unreachable!("{other:?} is no operation on two partial results"),
        };
        out += &format!("  let n{i} = {text};\n");
    }
    out + &format!("  return n{};\n", body.sets[0].node.0)
}

impl Emitter<'_> {
    /// Defines what a routine of the kernel needs.
    pub fn definition(&mut self, of: &Definition) {
        match *of {
            Definition::Monoid(op, dtype) => self.monoid(op, dtype),
            Definition::Scan { op, dtype, .. } => {
                let Some(monoid) = op.monoid() else { return };
                let carried = self.scan_dtype(dtype);
                if monoid == Monoid::LogSumExp {
                    self.log_add();
                } else {
                    self.monoid(monoid, carried);
                }
            }
            Definition::Warpgroups { .. } => {
                self.refuse("it has no tensor cores");
            }
            Definition::State { .. } => {
                self.refuse("there are no online folds");
            }
        }
    }

    /// Dtype in which a scan of elements of a dtype accumulates.
    pub fn scan_dtype(&self, dtype: DType) -> DType {
        let of = |d: &Definition| matches!(*d, Definition::Scan { dtype: own, .. } if own == dtype);
        let number = self.kernel.definitions.iter().find(|d| of(d)).and_then(|d| match *d {
            Definition::Scan { number, .. } => Some(number),
            _ => None,
        });
        number.and_then(|n| self.wide(n)).unwrap_or(dtype)
    }

    /// Defines the function of a monoid.
    pub fn monoid(&mut self, op: Monoid, dtype: DType) {
        let Some(ty) = held(dtype) else {
            self.refuse(format!("there is no {dtype}"));
            return;
        };
        let name = name(op, dtype);
        let text = format!("fn {name}(x: {ty}, y: {ty}) -> {ty} {{\n{}}}", combined(op, dtype));
        self.globals.insert(name, text);
    }

    /// Defines the sum of two numbers that are given by their logarithms.
    fn log_add(&mut self) {
        let text = "fn log_add(x: f32, y: f32) -> f32 {\n  let high = larger_f32(x, y);\n  if !is_finite(high) { return high; }\n  return high + log1p_f32(exp_f32(smaller_f32(x, y) - high));\n}";
        self.globals.insert("log_add".into(), text.into());
    }
}
