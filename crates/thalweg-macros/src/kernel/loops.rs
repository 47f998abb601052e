//! Lowering of `loop`, `break`, `continue` and data-dependent `for` to `while`.
//!
//! ```text
//! loop { a; if c { b; break; } d }      { let mut goes = true; while goes { a; if c { b; goes = false; } if goes { d }
//! } } for k in a..n { b }                   { let end = n; let mut next = a; while next < end { let k = next; next +=
//! 1; b } }
//! ```
//!
//! Input: a loop as written. Output: an equivalent expression with only `while` and `if`, which `rewrite.rs` handles. A
//! `for` over constants stays a `for`; if it has a `break`, its body is in an `if`.

use super::Errors;
use proc_macro2::{Ident, Span};
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprForLoop, ExprLoop, ExprWhile, Pat, RangeLimits, Stmt, Type, parse_quote};

/// Kinds of jumps (`break`, `continue`) found in a loop's own body, not in nested loops or closures.
#[derive(Default)]
struct Jumps {
    breaks: bool,
    continues: bool,
    /// First jump found, for error messages.
    at: Option<Expr>,
}

impl Jumps {
    fn of(block: &Block) -> Jumps {
        let mut jumps = Jumps::default();
        jumps.visit_block(block);
        jumps
    }

    fn of_statement(statement: &Stmt) -> bool {
        let mut jumps = Jumps::default();
        jumps.visit_stmt(statement);
        jumps.any()
    }

    fn any(&self) -> bool {
        self.breaks || self.continues
    }
}

impl Visit<'_> for Jumps {
    fn visit_expr(&mut self, e: &Expr) {
        if matches!(e, Expr::Break(_) | Expr::Continue(_)) {
            self.at.get_or_insert_with(|| e.clone());
        }
        match e {
            Expr::Break(_) => self.breaks = true,
            Expr::Continue(_) => self.continues = true,
            // Nested loops and closures have jumps of their own.
            Expr::While(_) | Expr::Loop(_) | Expr::ForLoop(_) | Expr::Closure(_) => {}
            _ => visit::visit_expr(self, e),
        }
    }
}

/// Flag variables that replace the jumps of a loop.
struct Flags {
    goes: Ident,
    /// Variable that is true while the iteration continues; the same variable as `goes` if there is no `continue`.
    here: Ident,
}

fn named(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Rewrites the body of a loop: replaces jumps by assignments of flags. Returns the flags and the new body, or `None`
/// if the body has no jumps.
fn turn(body: &Block, errors: &mut Errors) -> Option<(Flags, Block)> {
    let jumps = Jumps::of(body);
    if !jumps.any() {
        return None;
    }
    let goes = named("loop_goes_on");
    let here = if jumps.continues { named("turn_goes_on") } else { goes.clone() };
    let flags = Flags { goes, here };
    let mut block = flags.block(body.clone(), errors);
    // A jump that is left is in a position that cannot be lowered.
    if let Some(jump) = Jumps::of(&block).at {
        errors.at(jump, MISPLACED);
        block.stmts.clear();
    }
    if jumps.continues {
        let here = &flags.here;
        block.stmts.insert(0, parse_quote!(let mut #here = true;));
    }
    Some((flags, block))
}

impl Flags {
    /// Rewrites a block: statements after a jump become conditional on the flag.
    fn block(&self, block: Block, errors: &mut Errors) -> Block {
        let mut out = vec![];
        let mut rest = block.stmts.into_iter();
        while let Some(statement) = rest.next() {
            if !Jumps::of_statement(&statement) {
                out.push(statement);
                continue;
            }
            out.push(match statement {
                Stmt::Expr(e, _) => Stmt::Expr(self.expression(e, errors), Some(Default::default())),
                other => other,
            });
            let rest: Vec<Stmt> = rest.by_ref().collect();
            if !rest.is_empty() {
                let rest = self.block(Block { brace_token: block.brace_token, stmts: rest }, errors);
                let here = &self.here;
                out.push(parse_quote!(if #here #rest));
            }
        }
        Block { brace_token: block.brace_token, stmts: out }
    }

    /// Rewrites an expression statement: replaces its jumps by assignments of flags.
    fn expression(&self, e: Expr, errors: &mut Errors) -> Expr {
        let (goes, here) = (&self.goes, &self.here);
        match e {
            Expr::Break(e) => {
                if let Some(label) = &e.label {
                    errors
                        .at(label, "labels cannot stand in a kernel; put the loops into functions, or assign a `bool`");
                }
                if let Some(value) = &e.expr {
                    errors.at(value, "a loop in a kernel gives nothing; assign a variable before the `break`");
                }
                if goes == here {
                    parse_quote!({ #goes = false; })
                } else {
                    parse_quote!({ #goes = false; #here = false; })
                }
            }
            Expr::Continue(e) => {
                if let Some(label) = &e.label {
                    errors
                        .at(label, "labels cannot stand in a kernel; put the loops into functions, or assign a `bool`");
                }
                parse_quote!({ #here = false; })
            }
            Expr::Block(mut e) => {
                e.block = self.block(e.block, errors);
                Expr::Block(e)
            }
            Expr::If(mut e) => {
                e.then_branch = self.block(e.then_branch, errors);
                if let Some((_, branch)) = &mut e.else_branch {
                    let old = std::mem::replace(&mut **branch, parse_quote!({}));
                    **branch = self.expression(old, errors);
                }
                Expr::If(e)
            }
            Expr::Match(mut e) => {
                for arm in &mut e.arms {
                    let old = std::mem::replace(&mut *arm.body, parse_quote!({}));
                    let body = self.expression(old, errors);
                    *arm.body = parse_quote!({ #body });
                }
                Expr::Match(e)
            }
            other => other,
        }
    }
}

const MISPLACED: &str =
    "in a kernel, `break` and `continue` stand by themselves in the loop's body, in an `if`, or in an arm of a `match`";

/// Rewrites a `while` loop with jumps as one without; `None` if the loop has no jumps and stays as it is.
pub(super) fn plain_while(e: &ExprWhile, errors: &mut Errors) -> Option<Expr> {
    let (flags, body) = turn(&e.body, errors)?;
    let (goes, condition) = (&flags.goes, &e.cond);
    Some(parse_quote!({
        let mut #goes = true;
        while #goes && (#condition) #body
    }))
}

/// Rewrites a `loop` as a `while` loop without jumps. A `loop` without `break` is added to `errors`.
pub(super) fn plain_loop(e: &ExprLoop, errors: &mut Errors) -> Expr {
    if !Jumps::of(&e.body).breaks {
        errors.at(e.loop_token, "this loop has no `break` and does not end; write one, or `while ..`");
        return parse_quote!({});
    }
    let (flags, body) = turn(&e.body, errors).expect("there is a jump");
    let goes = &flags.goes;
    parse_quote!({
        let mut #goes = true;
        while #goes #body
    })
}

/// Rewrites a data-dependent `for` loop as a `while` loop; removes the jumps of any other `for` loop (a loop over
/// constants). `None` if no change is needed. `own` are the variables that hold traced integers or bools of the kernel.
pub(super) fn plain_for(e: &ExprForLoop, own: &HashSet<Ident>, errors: &mut Errors) -> Option<Expr> {
    if let Some((from, to)) = data_ends(e, own, errors) {
        let (end, next) = (named("loop_end"), named("loop_next"));
        let (pattern, statements) = (&e.pat, &e.body.stmts);
        return Some(parse_quote!({
            let #end: i32 = ::thalweg::kernel::bound(#to);
            let mut #next: i32 = ::thalweg::kernel::bound(#from);
            while #next < #end {
                let #pattern = #next;
                #next += 1;
                #(#statements)*
            }
        }));
    }
    let (flags, body) = turn(&e.body, errors)?;
    let (goes, pattern, over) = (&flags.goes, &e.pat, &e.expr);
    Some(parse_quote!({
        let mut #goes = true;
        for #pattern in #over {
            if #goes #body
        }
    }))
}

/// Whether a bound of a `for` loop depends on data, that is, contains a variable in `own` or a cast to `i32`.
pub(super) fn ends_by_data(e: &ExprForLoop, own: &HashSet<Ident>) -> bool {
    let Expr::Range(range) = &*e.expr else { return false };
    [&range.start, &range.end].into_iter().flatten().any(|end| is_data(end, own))
}

/// Returns the bounds `from..to` of a `for` loop if one of them depends on data, else `None`. An inclusive range, or a
/// loop variable that is a pattern, is added to `errors`.
fn data_ends<'a>(e: &'a ExprForLoop, own: &HashSet<Ident>, errors: &mut Errors) -> Option<(&'a Expr, &'a Expr)> {
    let Expr::Range(range) = &*e.expr else { return None };
    let (from, to) = (range.start.as_deref()?, range.end.as_deref()?);
    if !is_data(from, own) && !is_data(to, own) {
        return None;
    }
    if let RangeLimits::Closed(token) = &range.limits {
        errors.at(token, "a `for` to an end that is data goes up to it, without: write `a..n + 1`");
    }
    if !matches!(&*e.pat, Pat::Ident(_) | Pat::Wild(_)) {
        errors.at(&e.pat, "a `for` to an end that is data counts in a variable");
        return None;
    }
    Some((from, to))
}

/// Whether an expression depends on data: it contains a variable in `own`, or a cast to `i32` of anything but a
/// literal.
fn is_data(e: &Expr, own: &HashSet<Ident>) -> bool {
    struct Finder<'a>(&'a HashSet<Ident>, bool);
    impl Visit<'_> for Finder<'_> {
        fn visit_expr(&mut self, e: &Expr) {
            match e {
                Expr::Path(path) => self.1 |= path.path.get_ident().is_some_and(|name| self.0.contains(name)),
                Expr::Cast(cast) => {
                    self.1 |= matches!(&*cast.ty, Type::Path(ty) if ty.path.is_ident("i32"))
                        && !matches!(&*cast.expr, Expr::Lit(_));
                }
                _ => {}
            }
            visit::visit_expr(self, e);
        }
    }
    let mut finder = Finder(own, false);
    finder.visit_expr(e);
    finder.1
}
