//! Score scaling folded into the exponent: where scores are multiplied by a scalar or constant, as in `q·k/√d`, that
//! factor is merged with the one that turns exponentials into powers of two. It is applied once a step instead of once
//! a score.
//!
//! In: the body of a visible score. Out: the body without the multiplication. The multiplication is done separately
//! where the factor is not above zero and therefore cannot be merged (maxima would become minima).

use crate::ir::{Expr, Statement, Type};
use crate::kernels::attention::AttentionClass;
use crate::kernels::attention::emit::Attention;
use crate::kernels::attention::params::AttentionParams;
use crate::operands::BodyParams;
use thalweg_ir::{DType, ElementOp};
use thalweg_kernel::{Body, Node, NodeId};

/// Multiplication of scores by a factor that may be folded into the exponent of the softmax.
pub(super) struct Scaled {
    /// Index of the score body with the multiplication.
    pub(super) number: usize,
    /// Factor of the scores.
    factor: Expr,
    /// Score body for keys that the mask does not hide, without the multiplication.
    pub(super) whole: Body,
}

/// Matches a multiplication by a scalar or constant that no other node reads. Returns the product's node, the
/// multiplicand, and the factor.
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

/// Expression of a node that is a scalar argument or a constant.
fn number(body: &Body, id: NodeId, params: &BodyParams) -> Expr {
    match body.nodes[id.index()] {
        Node::Scalar { slot, dtype } => Expr::Scalar(dtype, params.scalar(slot)),
        Node::Const { bits, dtype } => Expr::Constant(dtype, bits),
        _ => unreachable!("a number of the launch"),
    }
}

/// Copies a body without this multiplication: its product is replaced by the multiplicand.
fn without(body: &Body, [product, multiplied, _]: [NodeId; 3]) -> Body {
    let mut body = body.clone();
    body.nodes[product.index()] = body.nodes[multiplied.index()];
    body
}

/// Finds the score scaling of a class, where weights are powers of two.
pub(super) fn scaled(class: &AttentionClass, params: &AttentionParams) -> Option<Scaled> {
    if class.once.is_none() || !class.math.is_narrow() {
        return None;
    }
    let body = |n: usize| &class.points[n].0.body;
    let root = |body: &Body| body.stores[0].node;
    // Whether a score body returns its score unchanged.
    let hands_on = |n: usize| matches!(body(n).nodes[root(body(n)).index()], Node::Load { .. });
    let last = class.points.len() - 1;
    let found = if last > 0 && hands_on(last) { last - 1 } else { last };
    let whole = match &class.causal {
        None => body(found),
        // Where the mask hides nothing, the variant of visible scores runs instead of the body.
        Some((n, seen)) if *n as usize == found => &seen.body,
        Some(_) => return None,
    };
    let at = multiple(whole, root(whole))?;
    let factor = number(whole, at[2], &params.points[found]);
    Some(Scaled { number: found, factor, whole: without(whole, at) })
}

impl Attention<'_> {
    /// Emits the factor's variables: `factor`; `joins`, whether the factor is folded into the exponent; `joined`, the
    /// folded factor or 1; `by`, `joined` times log2 e.
    pub(super) fn scale(&self) -> Vec<Statement> {
        let Some(scaled) = &self.scaled else { return vec![] };
        let constant = |x: f32| Expr::Constant(DType::F32, x.to_bits().into());
        let hides =
            if self.class.causal.is_some() { Expr::name("hides", Type::BOOL) } else { Expr::Constant(DType::Bool, 1) };
        self.text()
            .value("number", scaled.factor.clone())
            .value("hides", hides)
            .value("most", constant(1e30))
            .value("log2e", constant(std::f32::consts::LOG2_E))
            .statements(&[r"
let factor = number, joins = hides && factor > zero && factor < most;
let joined = joins ? factor : one, by = joined * log2e;
"])
    }

    /// Emits the multiplication of scores by the factor, after [`Scaled::whole`], for launches that do not fold the
    /// factor into the exponent.
    pub(super) fn scale_late(&self) -> Vec<Statement> {
        self.text()
            .value("joins", Expr::name("joins", Type::BOOL))
            .value("factor", crate::kernels::attention::emit::f32("factor"))
            .statements(&[r"
if !joins {
    for j: i32 in 0..EIGHTS unroll {
        for e: i32 in 0..4 unroll { s[j][e] *= factor; }
    }
}
"])
    }
}
