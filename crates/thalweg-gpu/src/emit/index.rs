//! Index arithmetic: coordinates of a point of the domain, offsets of accesses.

use crate::ir::{Expr, Statement, Type};
use crate::space::{Inner, Slots, SpaceClass, Way};
use std::ops::Range;

/// Statements that decompose `index`, row-major over some dimensions, into coordinates `{name}0, {name}1, …` (numbered
/// by dimension), from the innermost on.
pub fn decompose(class: &SpaceClass, slots: &Slots, dims: Range<usize>, index: Expr, name: &str) -> Vec<Statement> {
    let (mut out, ty) = (vec![], Type::index(class.wide));
    if dims.is_empty() {
        return out;
    }
    let mut rest = index;
    for d in dims.clone().skip(1).rev() {
        let word = slots.dims + 2 * d;
        let (one, others) = (format!("{name}{d}"), format!("{name}q{d}"));
        if class.wide {
            let by = Expr::word(word).to(ty);
            out.push(Statement::Let(one, rest.clone() % by.clone()));
            out.push(Statement::Let(others.clone(), rest / by));
        } else {
            let split = format!("{name}s{d}");
            out.push(Statement::Split { name: split.clone(), of: rest.to(Type::U32), param: word.into() });
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
pub fn offset(class: &SpaceClass, slots: &Slots, access: usize, dims: Range<usize>, name: &str) -> Option<Expr> {
    let Way::Strided { inner, .. } = &class.ways[access] else { unreachable!("a map has no strides") };
    let ty = Type::index(class.wide);
    let lanes = Expr::Number(class.lanes.into(), ty);
    let term = |d: usize| {
        let index = Expr::name(format!("{name}{d}"), ty);
        let stride = Expr::word(slots.accesses[access] + 1 + d).to(ty);
        match inner {
            _ if Some(d) != class.lane() => Some(index * stride),
            Inner::Unit => Some(index * lanes.clone()),
            Inner::Zero => None,
            Inner::Any => Some(index * lanes.clone() * stride),
        }
    };
    dims.filter_map(term).reduce(|x, y| x + y)
}

/// Function that maps a row-major index of the domain to an offset, -1 where it is masked out.
pub fn map_function(class: &SpaceClass, slots: &Slots, access: usize, name: String) -> Statement {
    let Way::Mapped(levels) = &class.ways[access] else { unreachable!("no map") };
    let i64 = |name: &str| Expr::name(name, Type::I64);
    let set = |name: Expr, value: Expr| Statement::Set(name, value);
    let inside = || Expr::name("in", Type::BOOL);
    let mut body = vec![
        Statement::Variable("at".into(), i64("point")),
        Statement::Variable("in".into(), Expr::Constant(thalweg_ir::DType::Bool, 1)),
    ];
    let mut w = slots.accesses[access] + 1;
    for &(rank, masked) in levels {
        let step = if masked { 5 } else { 3 };
        let mut level = vec![Statement::Variable("to".into(), Expr::word(w).to(Type::I64))];
        w += 1;
        for d in (0..rank as usize).rev() {
            let at = w + d * step;
            let mut dim = vec![];
            if class.wide {
                let by = Expr::word(at).to(Type::I64);
                dim.push(Statement::Let("i".into(), i64("at") % by.clone()));
                dim.push(set(i64("at"), i64("at") / by));
            } else {
                dim.push(Statement::Split { name: "s".into(), of: i64("at").to(Type::U32), param: (at).into() });
                dim.push(Statement::Let("i".into(), Expr::Remainder("s".into()).to(Type::I64)));
                dim.push(set(i64("at"), Expr::Quotient("s".into()).to(Type::I64)));
            }
            dim.push(set(i64("to"), i64("to") + i64("i") * Expr::word(at + 2).to(Type::I64)));
            if masked {
                let (low, high) = (Expr::word(at + 3).to(Type::I64), Expr::word(at + 4).to(Type::I64));
                dim.push(set(inside(), inside().and(i64("i").ge(low)).and(i64("i").lt(high))));
            }
            level.push(Statement::Scope(dim));
        }
        // Where a point is masked out, the next view must not get a negative index.
        level.push(set(i64("at"), inside().select(i64("to"), Expr::Number(0, Type::I64))));
        body.push(Statement::Scope(level));
        w += rank as usize * step;
    }
    let value = inside().select(i64("at"), Expr::Number(-1, Type::I64));
    Statement::Function { name, argument: "point".into(), body, value }
}
