//! Loops whose ends depend on data: a `for` with a `break`.
//!
//! In: a loop and the expressions of its arguments. Out: statements that leave its carried values in variables
//! ([`result`]). Always true: carried values change together, after all else of a turn.

use super::elements::{expression, is_native};
use super::types::{cast, constant, held};
use thalweg_ir::{First, Loop};
use thalweg_kernel::{Body, Node, NodeId, expand, turn};

/// The variable of a carried value of the loop of that name.
pub fn result(name: &str, number: u16) -> String {
    format!("{name}_{number}")
}

/// The arguments of an elementwise node of a strict body: no function of a constant is folded by the compiler, whose last
/// bit is another.
pub fn arguments(body: &Body, id: NodeId, name: impl Fn(NodeId) -> String) -> Vec<String> {
    let Node::Element { op, .. } = body.nodes[id.index()] else { unreachable!("only operations have arguments") };
    let hide = body.strict && op.row().function && body.operand_dtype(id).is_float();
    let arg = |id| if hide { format!("hidden({})", name(id)) } else { name(id) };
    body.args(id).map(arg).collect()
}

/// The loop of that name on these arguments.
pub fn statements(of: Loop, name: &str, args: &[String], indent: &str) -> String {
    let region = of.region();
    let body = expand(&turn(of), &is_native);
    let mut out = String::new();
    for (i, first) in region.first.iter().enumerate() {
        let value = match *first {
            First::Arg(n) => args[n as usize].clone(),
            First::Const { bits, dtype } => constant(dtype, bits),
        };
        out += &format!("{indent}{} {} = {value};\n", held(of.carried(i)), result(name, i as u16));
    }
    // Not unrolled: nothing is known of how many turns there are.
    out += &format!("{indent}#pragma unroll 1\n");
    out += &format!("{indent}for (u32 {name}_t = 0; {name}_t < {}u; ++{name}_t) {{\n", region.most);
    let inside = format!("{indent}    ");
    let go = body.sets[0].node;
    for i in 0..body.nodes.len() {
        out += &statement(&body, NodeId(i as u32), (name, args, region.first.len()), &inside);
        if i == go.index() {
            out += &format!("{inside}if (!{}) break;\n", inner(name, go));
        }
    }
    for (i, s) in body.sets[1..].iter().enumerate() {
        out += &format!("{inside}{} = {};\n", result(name, i as u16), inner(name, s.node));
    }
    out += &format!("{indent}}}\n");
    out
}

/// The variable of a node of a turn.
pub fn inner(name: &str, id: NodeId) -> String {
    format!("{name}n{}", id.0)
}

/// A node of a turn, carried values being the first `carried` of its values and the others `args`.
pub fn statement(body: &Body, id: NodeId, (name, args, carried): (&str, &[String], usize), indent: &str) -> String {
    let own = |id| inner(name, id);
    let value = match body.nodes[id.index()] {
        // A copy, since it changes before the turn is over.
        Node::Value { slot, .. } if (slot as usize) < carried => result(name, slot),
        Node::Value { slot, .. } => args[slot as usize - carried].clone(),
        Node::Const { bits, dtype } => constant(dtype, bits),
        Node::Cast { dtype, arg } => cast(body.dtype(arg), dtype, &own(arg)),
        Node::Element { op, .. } => {
            let args = arguments(body, id, own);
            expression(op, body.operand_dtype(id), &args.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Node::Loop { of, .. } => {
            let args: Vec<String> = body.args(id).map(own).collect();
            return statements(of, &own(id), &args, indent);
        }
        Node::Looped { of, number, .. } => result(&own(of), number),
        ref other => unreachable!("{other:?} is not in a turn"),
    };
    format!("{indent}const {} {} = {value};\n", held(body.dtype(id)), own(id))
}
