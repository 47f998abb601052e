//! Analysis of the variables that a branch or loop body assigns but does not declare.

use proc_macro2::Ident;
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, ExprClosure, ExprForLoop, Item, Local, Pat};

/// Returns the variables that these expressions assign but do not declare, in order of first assignment.
pub(super) fn assigned<'a>(branches: impl IntoIterator<Item = &'a Expr>) -> Vec<Ident> {
    let mut finder = Finder::default();
    branches.into_iter().for_each(|b| finder.visit_expr(b));
    finder.found
}

#[derive(Default)]
struct Finder {
    /// Variables declared by each open scope.
    scopes: Vec<HashSet<Ident>>,
    found: Vec<Ident>,
}

impl Finder {
    fn scope(&mut self, f: impl FnOnce(&mut Finder)) {
        self.scopes.push(HashSet::new());
        f(self);
        self.scopes.pop();
    }

    fn declare(&mut self, pattern: &Pat) {
        struct Names<'a>(&'a mut HashSet<Ident>);
        impl Visit<'_> for Names<'_> {
            fn visit_pat_ident(&mut self, p: &syn::PatIdent) {
                self.0.insert(p.ident.clone());
                visit::visit_pat_ident(self, p);
            }
        }
        if let Some(scope) = self.scopes.last_mut() {
            Names(scope).visit_pat(pattern);
        }
    }

    /// Records the outer variable that an assignment to the expression `place` changes.
    fn place(&mut self, place: &Expr) {
        match place {
            Expr::Path(path) => {
                let Some(name) = path.path.get_ident() else { return };
                let inside = self.scopes.iter().any(|s| s.contains(name));
                if !inside && !self.found.contains(name) {
                    self.found.push(name.clone());
                }
            }
            Expr::Index(index) => self.place(&index.expr),
            Expr::Field(field) => self.place(&field.base),
            Expr::Paren(inner) => self.place(&inner.expr),
            Expr::Group(inner) => self.place(&inner.expr),
            Expr::Unary(inner) => self.place(&inner.expr),
            Expr::Tuple(all) => all.elems.iter().for_each(|e| self.place(e)),
            Expr::Array(all) => all.elems.iter().for_each(|e| self.place(e)),
            _ => {}
        }
    }
}

/// Whether an operator is a compound assignment.
pub(super) fn assigns(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

impl Visit<'_> for Finder {
    fn visit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Assign(e) => self.place(&e.left),
            Expr::Binary(e) if assigns(&e.op) => self.place(&e.left),
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_block(&mut self, block: &Block) {
        self.scope(|f| visit::visit_block(f, block));
    }

    fn visit_local(&mut self, local: &Local) {
        visit::visit_local(self, local);
        self.declare(&local.pat);
    }

    fn visit_expr_for_loop(&mut self, e: &ExprForLoop) {
        self.visit_expr(&e.expr);
        self.scope(|f| {
            f.declare(&e.pat);
            f.visit_block(&e.body);
        });
    }

    fn visit_expr_closure(&mut self, e: &ExprClosure) {
        self.scope(|f| {
            e.inputs.iter().for_each(|p| f.declare(p));
            f.visit_expr(&e.body);
        });
    }

    fn visit_arm(&mut self, arm: &Arm) {
        self.scope(|f| {
            f.declare(&arm.pat);
            visit::visit_arm(f, arm);
        });
    }

    fn visit_item(&mut self, _: &Item) {}
}
