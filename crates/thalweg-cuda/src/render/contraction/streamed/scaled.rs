//! Scores that are a multiple of something by a number of the launch, as `q·k/√d` are: the number joins the one that
//! turns exponentials into powers of two, and is multiplied with once a step instead of once a score.
//!
//! In: what is made of a score that is seen. Out: the same without the multiplication, which is made up for where the
//! number may not join, since it is not above zero (maxima would be minima).

use super::{StreamedClass, StreamedSlots};
use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Body, Node, NodeId};

/// What is known of such scores.
pub(super) struct Scaled {
    /// Which of what is made of scores multiplies.
    pub(super) number: usize,
    /// Statements that say what the factor is and where it has gone: `factor`, `joins`, `joined`, `by`.
    pub(super) declared: String,
    /// What is made of a score that is seen: without the factor.
    pub(super) whole: Body,
}

/// Statements behind [`Scaled::whole`], where the factor has not joined the exponent.
pub(super) fn late(class: &StreamedClass) -> String {
    format!(
        "    if (!joins) {{\n#pragma unroll\n      for (int j = 0; j < {}; j++)\n#pragma unroll\n        for (int e = 0; e < 4; e++) s[j][e] *= factor;\n    }}\n",
        class.block.keys / 8
    )
}

/// A product with a number of the launch: its node, what is multiplied, and the number, which nothing else reads.
fn multiple(body: &Body, id: NodeId) -> Option<[NodeId; 3]> {
    let Node::Element { op: ElementOp::Mul, args: [a, b, _], dtype: DType::F32 } = body.nodes[id.index()] else {
        return None;
    };
    let number = |id: NodeId| {
        let once = (0..body.nodes.len()).flat_map(|n| body.args(NodeId(n as u32))).filter(|&n| n == id).count() == 1;
        once && matches!(
            body.nodes[id.index()],
            Node::Scalar { dtype: DType::F32, .. } | Node::Const { dtype: DType::F32, .. }
        )
    };
    match () {
        () if number(b) => Some([id, a, b]),
        () if number(a) => Some([id, b, a]),
        () => None,
    }
}

/// The number, as an expression.
fn number(body: &Body, id: NodeId, scalars: usize) -> String {
    match body.nodes[id.index()] {
        Node::Scalar { slot, .. } => format!("bits_f32((u32)a.w[{}])", scalars + slot as usize),
        Node::Const { bits, dtype } => {
            format!("bits_f32({:#x}u)", (Scalar::from_bits(bits, dtype).to_f64() as f32).to_bits())
        }
        _ => unreachable!("a number of the launch"),
    }
}

/// The body without its multiplication.
fn without(body: &Body, [product, multiplied, _]: [NodeId; 3]) -> Body {
    let mut body = body.clone();
    body.nodes[product.index()] = body.nodes[multiplied.index()];
    body
}

/// What is known of the scores of a class, where they are such multiples and weights are powers of two.
pub(super) fn scaled(class: &StreamedClass, slots: &StreamedSlots) -> Option<Scaled> {
    if class.once.is_none() || !class.math.is_narrow() {
        return None;
    }
    let body = |n: usize| &class.points[n].0.body;
    let root = |body: &Body| body.stores[0].node;
    // What hands a score on changes nothing.
    let hands_on = |n: usize| matches!(body(n).nodes[root(body(n)).index()], Node::Load { .. });
    let last = class.points.len() - 1;
    let found = if last > 0 && hands_on(last) { last - 1 } else { last };
    let (whole, hides) = match &class.seen {
        None => (body(found), ""),
        // Where nothing hides scores the body is another one.
        Some((n, seen)) if *n as usize == found => (&seen.body, "hides && "),
        Some(_) => return None,
    };
    let at = multiple(whole, root(whole))?;
    let declared = format!(
        "  const float factor = {};\n  const bool joins = {hides}factor > 0 && factor < 1.0e30f;\n  const float joined = joins ? factor : 1.0f, by = joined * 1.44269504f;\n",
        number(whole, at[2], slots.points[found].scalars)
    );
    Some(Scaled { number: found, declared, whole: without(whole, at) })
}
