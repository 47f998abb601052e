//! Loops with data-dependent trip counts.
//!
//! In: a loop and its arguments. Out: statements that leave its carried values in variables ([`result`]). Always true:
//! carried values change together, at the end of an iteration.

use crate::ir::{Expr, For, Name, Statement, Type, Unroll};
use thalweg_ir::{DType, ElementOp, First, Loop};
use thalweg_kernel::{Body, Node, NodeId, expand, turn};

/// Predicate of a device: whether it has a native operation on a dtype.
pub type Native<'a> = &'a dyn Fn(ElementOp, DType) -> bool;

/// Name of the variable that holds carried value `number` of the loop `name`.
pub fn result(name: &str, number: u16) -> Name {
    format!("{name}_{number}")
}

/// Arguments of an elementwise node. In strict bodies they are hidden from the compiler: its constant folding of
/// functions may differ in the last bit.
pub fn arguments(body: &Body, id: NodeId, name: impl Fn(NodeId) -> Expr) -> Vec<Expr> {
    let Node::Element { op, .. } = body.nodes[id.index()] else { unreachable!("only operations have arguments") };
    let hide = body.strict && op.row().function && body.operand_dtype(id).is_float();
    let arg = |id| if hide { Expr::Hidden(Box::new(name(id))) } else { name(id) };
    body.args(id).map(arg).collect()
}

/// Emits the loop `of` under the name `name`, with the arguments `args`.
pub fn statements(of: Loop, name: &str, args: &[Expr], native: Native) -> Vec<Statement> {
    let region = of.region();
    let body = expand(&turn(of), native);
    let mut out = vec![];
    for (i, first) in region.first.iter().enumerate() {
        let value = match *first {
            First::Arg(n) => args[n as usize].clone(),
            First::Const { bits, dtype } => Expr::Constant(dtype, bits),
        };
        out.push(Statement::Variable(result(name, i as u16), value));
    }
    let carried = |i: usize| Expr::name(result(name, i as u16), Type::Held(of.carried(i)));
    let own = |id: NodeId| Expr::name(inner(name, id), Type::Held(body.dtype(id)));
    let mut inside = vec![];
    let go = body.sets[0].node;
    for i in 0..body.nodes.len() {
        inside.extend(statement(&body, NodeId(i as u32), (name, args), &carried, region.first.len(), native));
        if i == go.index() {
            inside.push(Statement::when(negated(own(go)), vec![Statement::Break]));
        }
    }
    inside.extend(body.sets[1..].iter().enumerate().map(|(i, s)| Statement::Set(carried(i), own(s.node))));
    let (from, below) = (Expr::Number(0, Type::U32), Expr::Number(region.most.into(), Type::U32));
    let step = Expr::Number(1, Type::U32);
    let turns =
        For { name: format!("{name}_t"), ty: Type::U32, from, below, step, unroll: Unroll::Never, body: inside };
    out.push(Statement::For(turns));
    out
}

fn negated(condition: Expr) -> Expr {
    Expr::Operation(ElementOp::Not, DType::Bool, vec![condition])
}

/// Name of the variable of a node of the loop body.
pub fn inner(name: &str, id: NodeId) -> Name {
    format!("{name}n{}", id.0)
}

/// Emits a node of the loop body. The first `count` of its values are carried, the others are `args`.
pub fn statement(
    body: &Body,
    id: NodeId,
    (name, args): (&str, &[Expr]),
    carried: &dyn Fn(usize) -> Expr,
    count: usize,
    native: Native,
) -> Vec<Statement> {
    let own = |id: NodeId| Expr::name(inner(name, id), Type::Held(body.dtype(id)));
    let value = match body.nodes[id.index()] {
        // A copy, since the carried value changes before the iteration ends.
        Node::Value { slot, .. } if (slot as usize) < count => carried(slot as usize),
        Node::Value { slot, .. } => args[slot as usize - count].clone(),
        Node::Const { bits, dtype } => Expr::Constant(dtype, bits),
        Node::Cast { dtype, arg } => Expr::Cast(body.dtype(arg), dtype, Box::new(own(arg))),
        Node::Element { op, .. } => Expr::Operation(op, body.operand_dtype(id), arguments(body, id, own)),
        Node::Loop { of, .. } => {
            let args: Vec<Expr> = body.args(id).map(own).collect();
            return statements(of, &inner(name, id), &args, native);
        }
        Node::Looped { of, number, dtype } => Expr::name(result(&inner(name, of), number), Type::Held(dtype)),
        ref other => unreachable!("{other:?} is not in a turn"),
    };
    vec![Statement::Let(inner(name, id), value)]
}
