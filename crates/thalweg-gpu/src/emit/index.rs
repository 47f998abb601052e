//! Index arithmetic: coordinates of a point of the domain, offsets of accesses.

use crate::ir::{Expr, Statement, Type};
use crate::space::{Addressing, Inner, SpaceClass, SpaceParams};
use std::ops::Range;

/// Statements that decompose `index`, row-major over some dimensions, into coordinates `{name}0, {name}1, …` (numbered
/// by dimension), from the innermost on.
pub fn decompose(
    class: &SpaceClass,
    params: &SpaceParams,
    dims: Range<usize>,
    index: Expr,
    name: &str,
) -> Vec<Statement> {
    let (mut out, ty) = (vec![], Type::index(class.wide));
    if dims.is_empty() {
        return out;
    }
    let mut rest = index;
    for d in dims.clone().skip(1).rev() {
        let size = &params.dims[d];
        let (one, others) = (format!("{name}{d}"), format!("{name}q{d}"));
        if class.wide {
            let by = size.read(ty);
            out.push(Statement::Let(one, rest.clone() % by.clone()));
            out.push(Statement::Let(others.clone(), rest / by));
        } else {
            let split = format!("{name}s{d}");
            out.push(Statement::Split { name: split.clone(), of: rest.to(Type::U32), param: size.slot() });
            out.push(Statement::Let(one, Expr::Remainder(split.clone()).to(ty)));
            out.push(Statement::Let(others.clone(), Expr::Quotient(split).to(ty)));
        }
        rest = Expr::name(others, ty);
    }
    out.push(Statement::Let(format!("{name}{}", dims.start), rest));
    out
}

/// Offset that some dimensions contribute to an access, where `name` prefixes their coordinates. The dimension of lanes
/// counts in vectors, at the first lane. `None` where they contribute nothing.
pub fn offset(class: &SpaceClass, params: &SpaceParams, access: usize, dims: Range<usize>, name: &str) -> Option<Expr> {
    let Addressing::Strided { inner, .. } = &class.addressing[access] else { unreachable!("a map has no strides") };
    let ty = Type::index(class.wide);
    let lanes = Expr::Number(class.lanes.into(), ty);
    let term = |d: usize| {
        let index = Expr::name(format!("{name}{d}"), ty);
        let stride = params.accesses[access].strides[d].read(ty);
        match inner {
            _ if Some(d) != class.lane() => Some(index * stride),
            Inner::Unit => Some(index * lanes.clone()),
            Inner::Zero => None,
            Inner::Any => Some(index * lanes.clone() * stride),
        }
    };
    dims.filter_map(term).reduce(|x, y| x + y)
}

/// Emits the function `name`, which maps a row-major index of the domain to an offset, or to -1 where it is masked out.
pub fn map_function(class: &SpaceClass, params: &SpaceParams, access: usize, name: String) -> Statement {
    let i64 = |name: &str| Expr::name(name, Type::I64);
    let set = |name: Expr, value: Expr| Statement::Set(name, value);
    let inside = || Expr::name("in", Type::BOOL);
    let mut body = vec![
        Statement::Variable("at".into(), i64("point")),
        Statement::Variable("in".into(), Expr::Constant(thalweg_ir::DType::Bool, 1)),
    ];
    for view in &params.accesses[access].views {
        let mut level = vec![Statement::Variable("to".into(), view.offset.read(Type::I64))];
        for own in view.dims.iter().rev() {
            let mut dim = vec![];
            if class.wide {
                let by = own.size.read(Type::I64);
                dim.push(Statement::Let("i".into(), i64("at") % by.clone()));
                dim.push(set(i64("at"), i64("at") / by));
            } else {
                dim.push(Statement::Split { name: "s".into(), of: i64("at").to(Type::U32), param: own.size.slot() });
                dim.push(Statement::Let("i".into(), Expr::Remainder("s".into()).to(Type::I64)));
                dim.push(set(i64("at"), Expr::Quotient("s".into()).to(Type::I64)));
            }
            dim.push(set(i64("to"), i64("to") + i64("i") * own.stride.read(Type::I64)));
            if let Some(bounds) = &own.bounds {
                let (low, high) = (bounds.low.read(Type::I64), bounds.high.read(Type::I64));
                dim.push(set(inside(), inside().and(i64("i").ge(low)).and(i64("i").lt(high))));
            }
            level.push(Statement::Scope(dim));
        }
        // Where a point is masked out, the index passed to the next view is 0, since it must not be negative.
        level.push(set(i64("at"), inside().select(i64("to"), Expr::Number(0, Type::I64))));
        body.push(Statement::Scope(level));
    }
    let value = inside().select(i64("at"), Expr::Number(-1, Type::I64));
    Statement::Function { name, argument: "point".into(), body, value }
}
