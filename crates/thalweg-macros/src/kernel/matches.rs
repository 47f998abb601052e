//! Lowering of `match` on numbers to a chain of `if`.

use super::Errors;
use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;
use syn::{Arm, Expr, ExprMatch, Pat, RangeLimits, parse_quote, parse_quote_spanned};

/// Whether a `match` is on traced numbers: all its patterns are numbers, ranges of numbers, guards or catch-alls, and
/// at least one is a number, range or guard. Any other `match` is on plain data, which is known when the kernel is
/// called on tensors, and stays as it is.
pub(super) fn is_on_numbers(e: &ExprMatch) -> bool {
    fn number(pattern: &Pat) -> bool {
        match pattern {
            Pat::Lit(_) | Pat::Range(_) => true,
            Pat::Or(or) => or.cases.iter().all(number),
            Pat::Paren(p) => number(&p.pat),
            Pat::Guard(g) => number(&g.pat) || is_rest(&g.pat),
            _ => false,
        }
    }
    e.arms.iter().any(|a| number(&a.pat)) && e.arms.iter().all(|a| number(&a.pat) || is_rest(&a.pat))
}

/// Whether a pattern matches every value (`_`, or a name).
fn is_rest(pattern: &Pat) -> bool {
    matches!(pattern, Pat::Wild(_)) || matches!(pattern, Pat::Ident(p) if p.subpat.is_none())
}

/// Rewrites a `match` as a chain of `if`; `None` if a pattern is unsupported or the last arm is no catch-all, which is
/// added to `errors`.
pub(super) fn chain(e: &ExprMatch, errors: &mut Errors) -> Option<Expr> {
    let value = Ident::new("matched", Span::mixed_site());
    let Some(last) = e.arms.last().filter(|a| is_rest(&a.pat)) else {
        errors.at(e.match_token, "a `match` on numbers in a kernel ends with `_ => ..`");
        return None;
    };
    let mut chain = body(last, &value);
    for arm in e.arms.iter().rev().skip(1) {
        let span = arm.pat.span();
        let condition = condition(&arm.pat, &value, errors)?;
        let body = body(arm, &value);
        chain = parse_quote_spanned!(span=> if #condition { #body } else { #chain });
    }
    let scrutinee = &e.expr;
    Some(parse_quote!({ let #value = #scrutinee; #chain }))
}

/// Generates the body of an arm, with the value bound to the pattern's name.
fn body(arm: &Arm, value: &Ident) -> Expr {
    let body = &arm.body;
    let pattern = match &arm.pat {
        Pat::Guard(g) => &*g.pat,
        pattern => pattern,
    };
    match pattern {
        Pat::Ident(name) => parse_quote!({ let #name = #value; #body }),
        _ => parse_quote!({ #body }),
    }
}

fn condition(pattern: &Pat, value: &Ident, errors: &mut Errors) -> Option<Expr> {
    let span = pattern.span();
    match pattern {
        Pat::Lit(number) => Some(parse_quote_spanned!(span=> #value == #number)),
        Pat::Paren(p) => condition(&p.pat, value, errors),
        Pat::Wild(_) => Some(parse_quote_spanned!(span=> true)),
        Pat::Ident(_) => Some(parse_quote_spanned!(span=> true)),
        Pat::Guard(g) => {
            let (own, guard) = (condition(&g.pat, value, errors)?, &g.guard);
            Some(match &*g.pat {
                Pat::Ident(name) => parse_quote_spanned!(span=> { let #name = #value; #guard }),
                _ => parse_quote_spanned!(span=> (#own) && (#guard)),
            })
        }
        Pat::Or(or) => {
            let mut all = or.cases.iter();
            let mut any = condition(all.next()?, value, errors)?;
            for case in all {
                let case = condition(case, value, errors)?;
                any = parse_quote_spanned!(span=> #any || #case);
            }
            Some(any)
        }
        Pat::Range(range) => {
            let low: Option<Expr> = range.start.as_ref().map(|s| parse_quote_spanned!(span=> #value >= #s));
            let high: Option<Expr> = range.end.as_ref().map(|e| match range.limits {
                RangeLimits::Closed(_) => parse_quote_spanned!(span=> #value <= #e),
                RangeLimits::HalfOpen(_) => parse_quote_spanned!(span=> #value < #e),
            });
            match (low, high) {
                (Some(low), Some(high)) => Some(parse_quote_spanned!(span=> #low && #high)),
                (low, high) => low.or(high),
            }
        }
        other => {
            errors.at(other, "a pattern in a kernel is a number, a range of numbers, or `_`");
            None
        }
    }
}
