//! Body transformations: lowering to native operations, specialization to part of a domain, widening to f32.

use crate::{Access, Body, BodyBuilder, Node, NodeId, Store};
use thalweg_ir::element::{Build, Expr};
use thalweg_ir::{DType, ElementOp};

/// Lowers every operation that `native` rejects to simpler ones (see [`thalweg_ir::element::Row::expand`]). An
/// operation without an expansion stays.
pub fn expand(body: &Body, native: &dyn Fn(ElementOp, DType) -> bool) -> Body {
    let mut b = BodyBuilder::like(body);
    // An expansion may use operations that need expansion themselves, so this recurses until none is left.
    struct Expanding<'a>(&'a mut BodyBuilder, &'a dyn Fn(ElementOp, DType) -> bool);
    impl Build for Expanding<'_> {
        fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr {
            let dtype = self.0.body.dtype(NodeId(args[args.len() - 1].0));
            match op.row().expand {
                Some(expand) if !(self.1)(op, dtype) => expand(self, args),
                _ => self.0.op(op, args),
            }
        }
        fn constant(&mut self, like: Expr, value: f64) -> Expr {
            Build::constant(self.0, like, value)
        }
    }
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        let id = match *node {
            Node::Element { op, .. } => {
                let args: Vec<Expr> = body.args(NodeId(i as u32)).map(|a| Expr(place[a.index()].0)).collect();
                NodeId(Expanding(&mut b, native).op(op, &args).0)
            }
            Node::Cast { dtype, arg } => b.cast(place[arg.index()], dtype),
            other => b.node(other.with_args(|a| place[a.index()])),
        };
        place.push(id);
    }
    b.take_roots(body, &place);
    b.finish()
}

/// Specializes a body, given that some accesses are inside their source throughout (`Some(true)`) or outside
/// (`Some(false)`): their validity becomes a constant, and outside loads become 0. Also returns the old numbers of the
/// remaining accesses.
pub fn resolve(body: &Body, inside: &[Option<bool>]) -> (Body, Vec<usize>) {
    let mut b = BodyBuilder::like(body);
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let dtype = body.dtype(id);
        let new = match *node {
            Node::Valid { access } if inside[access as usize].is_some() => {
                Node::Const { bits: (inside[access as usize] == Some(true)) as u64, dtype }
            }
            Node::Load { access } | Node::Index { access, .. } if inside[access as usize] == Some(false) => {
                Node::Const { bits: 0, dtype }
            }
            Node::Element { op, .. } => {
                let args: Vec<NodeId> = body.args(id).map(|a| place[a.index()]).collect();
                place.push(b.element(op, &args));
                continue;
            }
            Node::Cast { dtype, arg } => {
                place.push(b.cast(place[arg.index()], dtype));
                continue;
            }
            other => other.with_args(|a| place[a.index()]),
        };
        place.push(b.node(new));
    }
    b.take_roots(body, &place);
    let mut out = b.finish();
    out.operands = body.operands;
    out.scalars = body.scalars;
    let mut used = vec![false; out.accesses.len()];
    for n in &out.nodes {
        if let Some(access) = n.access() {
            used[access as usize] = true;
        }
    }
    out.stores.iter().for_each(|s| used[s.access as usize] = true);
    let kept: Vec<usize> = (0..used.len()).filter(|&a| used[a]).collect();
    let number = |a: u16| kept.iter().position(|&k| k == a as usize).expect("a used access is kept") as u16;
    out.nodes.iter_mut().for_each(|n| *n = n.with_access(number));
    out.stores.iter_mut().for_each(|s| s.access = number(s.access));
    out.accesses = kept.iter().map(|&a| out.accesses[a]).collect();
    (out, kept)
}

/// Body that computes what two bodies of a map compute at the same point: stores of the first, then those of the second.
/// `number` gives the access of `accesses` that an access of the second body becomes; those of the first come first.
/// Equal nodes are computed once.
pub fn join(first: &Body, second: &Body, accesses: Vec<Access>, number: &dyn Fn(u16) -> u16) -> Body {
    let mut b = BodyBuilder::like(first);
    b.body.accesses = accesses;
    b.body.operands = first.operands.max(second.operands);
    b.body.scalars = first.scalars.max(second.scalars);
    let mut stores = vec![];
    for (body, is_second) in [(first, false), (second, true)] {
        let number = |access| if is_second { number(access) } else { access };
        let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
        for node in &body.nodes {
            place.push(b.node(node.with_access(number).with_args(|a| place[a.index()])));
        }
        let placed = |s: &Store| Store { node: place[s.node.index()], access: number(s.access), combine: s.combine };
        stores.extend(body.stores.iter().map(placed));
    }
    b.body.stores = stores;
    b.finish()
}

/// Body for another dtype of a read operand: loads are converted to the dtype that the body was written for.
pub fn reading(body: &Body, operand: u16, dtype: DType) -> Body {
    let is_it = |access: u16| body.accesses[access as usize].operand == Some(operand);
    let mut from = body.clone();
    from.accesses.iter_mut().filter(|a| a.operand == Some(operand)).for_each(|a| a.dtype = dtype);
    if from == *body {
        return from;
    }
    let mut b = BodyBuilder::like(&from);
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        let new = b.node(node.with_args(|a| place[a.index()]));
        let loads = matches!(node, Node::Load { access } | Node::Gather { access, .. } if is_it(*access));
        place.push(if loads { b.cast(new, body.dtype(NodeId(i as u32))) } else { new });
    }
    b.take_roots(body, &place);
    b.finish()
}

/// Carries out elementwise operations on bf16 and f16 in f32: arguments are widened, and results are rounded back in
/// strict bodies; elsewhere only where a [`Node::Round`] asks for it. Later steps (expansion, code generation) then see
/// no narrow arithmetic, and rounding happens after an operation, not after each step of its expansion.
pub fn widen(body: &Body) -> Body {
    widen_sums(body, None)
}

/// Like [`widen`], but operand `sums` holds the accumulators of a product in f32 where the body expects narrow floats.
/// Accumulators are rounded when they are stored, not when they are used further, like other values of a kernel. They
/// are rounded earlier where the same bits are needed, or where something is computed twice.
pub fn widen_sums(body: &Body, sums: Option<u16>) -> Body {
    let narrow = |d: DType| matches!(d, DType::BF16 | DType::F16);
    let ids = || (0..body.nodes.len() as u32).map(NodeId);
    let exact = body.strict || body.repeatable;
    let is_sum = |id: NodeId| match body.nodes[id.index()] {
        Node::Load { access } => {
            let access = &body.accesses[access as usize];
            // Integer accumulators are rounded where they become narrow floats.
            sums.is_some() && access.operand == sums && access.dtype == DType::F32
        }
        _ => false,
    };
    let rounds_sums = |id: NodeId| match body.nodes[id.index()] {
        Node::Cast { dtype, arg } => !exact && narrow(dtype) && is_sum(arg),
        _ => false,
    };
    let is_narrow = |n: NodeId| matches!(body.nodes[n.index()], Node::Element { .. }) && narrow(body.operand_dtype(n));
    // Rounding to f32 and f64 concerns products: they are not contracted.
    let rounds = |n: NodeId| match body.nodes[n.index()] {
        Node::Round { arg } => narrow(body.dtype(arg)) || !matches!(body.nodes[arg.index()], Node::Element { .. }),
        _ => false,
    };
    if !ids().any(|n| is_narrow(n) || rounds_sums(n) || rounds(n)) {
        return body.clone();
    }
    let mut b = BodyBuilder::like(body);
    let mut is_root = vec![false; body.nodes.len()];
    body.roots().for_each(|r| is_root[r.index()] = true);
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    let mut root: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for id in ids() {
        let new = match body.nodes[id.index()] {
            Node::Element { op, dtype, .. } => {
                let wide = narrow(body.operand_dtype(id));
                let args: Vec<NodeId> = body
                    .args(id)
                    .map(|a| {
                        let p = place[a.index()];
                        if wide && narrow(b.body.dtype(p)) { b.cast(p, DType::F32) } else { p }
                    })
                    .collect();
                let result = b.element(op, &args);
                if wide && narrow(dtype) && body.strict { b.cast(result, dtype) } else { result }
            }
            Node::Cast { arg, .. } if rounds_sums(id) => place[arg.index()],
            Node::Cast { dtype, arg } => b.cast(place[arg.index()], dtype),
            Node::Round { arg } => {
                let held = place[arg.index()];
                let dtype = body.dtype(arg);
                let computed = matches!(b.body.nodes[held.index()], Node::Element { .. });
                if narrow(dtype) || !computed { b.cast(held, dtype) } else { b.round(held) }
            }
            // The bits are those of the rounded value.
            Node::Bitcast { dtype, arg } => {
                let held = b.cast(place[arg.index()], body.dtype(arg));
                b.bitcast(held, dtype)
            }
            other => b.node(other.with_args(|a| place[a.index()])),
        };
        place.push(new);
        // Roots keep their dtype. The cast is here, not at the end: the operand of a fold or scan must come before its
        // result.
        root.push(if is_root[id.index()] { b.cast(new, body.dtype(id)) } else { new });
    }
    b.take_roots(body, &root);
    b.finish()
}
