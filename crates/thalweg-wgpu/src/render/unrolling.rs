//! Loops that are written out: those that the kernel wants unrolled, with constant bounds.
//!
//! Registers whose indices are no constants are in memory, and a compiler's own unrolling is not relied on. So a loop
//! whose variable is an index of registers is written out whatever its length, and others if they are short.

use rustc_hash::FxHashSet;
use thalweg_gpu::ir::{Action, Expr, For, Name, Statement, Type, Unroll};

/// Maximum number of expressions of all iterations of a loop that is written out for speed alone.
const MAX_EXPRESSIONS: usize = 2_000;
/// Maximum number of expressions of all iterations of a loop whose variable is an index of registers.
const MAX_INDEXING: usize = 40_000;

/// Which loops of a kernel are written out.
#[derive(Debug, Default)]
pub struct Unrolling {
    /// Names of arrays in registers.
    registers: FxHashSet<Name>,
}

impl Unrolling {
    /// Finds the register arrays of a kernel's body.
    pub fn new(body: &[Statement]) -> Unrolling {
        let mut registers = FxHashSet::default();
        super::binding::each_statement(body, &mut |s| {
            if let Statement::Registers { name, .. } = s {
                registers.insert(name.clone());
            }
        });
        Unrolling { registers }
    }

    /// Values of the variable of a loop that is written out, iteration by iteration; `None` for other loops.
    pub fn values(&self, turns: &For) -> Option<Vec<i64>> {
        let (Expr::Number(from, _), Expr::Number(below, _), Expr::Number(step, _)) =
            (&turns.from, &turns.below, &turns.step)
        else {
            return None;
        };
        let is_counted = matches!(turns.ty, Type::I32 | Type::U32) && *step > 0;
        if turns.unroll != Unroll::All || !is_counted || has_breaks(&turns.body) {
            return None;
        }
        let values: Vec<i64> = (*from..*below).step_by(*step as usize).collect();
        let expressions = values.len() * self.expressions(&turns.body);
        let is_index = || self.indexes(&turns.body, &mut FxHashSet::from_iter([turns.name.clone()]));
        (expressions <= MAX_EXPRESSIONS || expressions <= MAX_INDEXING && is_index()).then_some(values)
    }

    /// Whether registers of a body have indices that depend on names of `on`, which receives the names that depend on
    /// them, too.
    fn indexes(&self, body: &[Statement], on: &mut FxHashSet<Name>) -> bool {
        body.iter().any(|s| {
            let own = match s {
                Statement::LoadVector { to: (_, at), .. }
                | Statement::StoreVector { from: (_, at), .. }
                | Statement::Do(Action::LoadShared { to: (_, at), .. }) => at.iter().any(|x| depends(x, on)),
                _ => false,
            };
            let of_values = values_of(s).into_iter().any(|x| self.indexes_in(x, on));
            if let Statement::Let(name, value) = s
                && depends(value, on)
            {
                on.insert(name.clone());
            }
            own || of_values || bodies_of(s).into_iter().any(|body| self.indexes(body, on))
        })
    }

    fn indexes_in(&self, expr: &Expr, on: &FxHashSet<Name>) -> bool {
        let own = match expr {
            Expr::Element { of, at, .. } | Expr::OfPair { of, at, .. } => {
                self.registers.contains(of) && at.iter().any(|x| depends(x, on))
            }
            _ => false,
        };
        own || expr.parts().iter().any(|x| self.indexes_in(x, on))
    }

    /// Number of expressions of statements, where loops that are written out count as often as they have iterations.
    fn expressions(&self, body: &[Statement]) -> usize {
        fn of(expr: &Expr) -> usize {
            1 + expr.parts().iter().map(of).sum::<usize>()
        }
        let one = |s: &Statement| {
            let own: usize = values_of(s).into_iter().map(of).sum();
            let inside: usize = bodies_of(s).into_iter().map(|body| self.expressions(body)).sum();
            match s {
                Statement::For(turns) => self.values(turns).map_or(1, |values| values.len()) * inside,
                Statement::LoadVector { .. } | Statement::StoreVector { .. } | Statement::Atomic { .. } => 8 + own,
                _ => 1 + own + inside,
            }
        };
        body.iter().map(one).sum()
    }
}

/// Whether an expression mentions one of these names.
fn depends(expr: &Expr, on: &FxHashSet<Name>) -> bool {
    matches!(expr, Expr::Name(name, _) if on.contains(name)) || expr.parts().iter().any(|x| depends(x, on))
}

/// Expressions of a statement itself.
fn values_of(s: &Statement) -> Vec<&Expr> {
    match s {
        Statement::Let(_, x) | Statement::Variable(_, x) | Statement::Fault(x) => vec![x],
        Statement::Split { of, .. } => vec![of],
        Statement::Set(to, x) => vec![to, x],
        Statement::Store { at, value, .. } | Statement::SetScratch { at, value, .. } => vec![at, value],
        Statement::Atomic { at, value, .. } => vec![at, value],
        Statement::LoadVector { at, .. } | Statement::StoreVector { at, .. } => vec![at],
        Statement::If(x, ..) | Statement::While(x, _) => vec![x],
        _ => vec![],
    }
}

/// Bodies inside a statement.
fn bodies_of(s: &Statement) -> Vec<&[Statement]> {
    match s {
        Statement::If(_, then, otherwise) => vec![then, otherwise],
        Statement::While(_, body) | Statement::Scope(body) | Statement::For(For { body, .. }) => vec![body],
        _ => vec![],
    }
}

/// Whether a body leaves its own loop.
fn has_breaks(body: &[Statement]) -> bool {
    body.iter().any(|s| match s {
        Statement::Break => true,
        Statement::If(_, then, otherwise) => has_breaks(then) || has_breaks(otherwise),
        Statement::Scope(body) => has_breaks(body),
        _ => false,
    })
}
