//! Rewrites the body of a kernel: language constructs that Rust cannot overload become calls of `thalweg::kernel`.
//!
//! | written | becomes |
//! |---|---|
//! | `0.5` | `F::lit(0.5)` |
//! | `a < b` | `compare(Lt, a, b)` |
//! | `if c { a } else { b }` | `select(c, \|\| a, \|\| b)`; assigned variables are passed in and out as a tuple |
//! | `a && b` | `and(a, \|\| b)` |
//! | `match n { 0 => a, _ => b }` | a chain of `if` |
//! | `while c { .. }` | `looped(.., \|..\| c, \|..\| { .. })`, likewise; `loops.rs` lowers other loops to `while` |
//! | `let mut i = 0` | `let mut i = Int::from(0)` |
//! | `i as F`, `x as i32` | `to_real(i)`, `to_int(x)` |
//! | `1.0 - x` in a tile kernel | `Left(F::lit(1.0)) - x`, where `x` may be a tile |
//! | `x.get([i, 0], ..)` | `x.get([coordinate(i), coordinate(0)], ..)` |
//!
//! Early exits, and other constructs that cannot be applied to all elements at once, are errors at their tokens.

use super::assigned::assigned;
use super::signature::Form;
use super::{Errors, loops, matches, verbatim};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    BinOp, Block, Expr, ExprForLoop, ExprIf, ExprLoop, ExprWhile, FnArg, Item, ItemFn, Lit, Local, Pat, StmtMacro,
    Type, parse_quote, parse_quote_spanned,
};

/// Maximum number of outer variables that the branches of one `if` may assign: `Branch` is implemented for tuples of up
/// to that many elements.
const MAX_ASSIGNED: usize = 11;

/// Macros whose arguments are not part of the kernel's computation.
const MACROS: [&str; 5] = ["assert", "debug_assert", "panic", "unreachable", "todo"];

/// Rewrites the body of a kernel function in place: constructs that Rust cannot overload become calls of
/// `thalweg::kernel`. `number` is the type parameter of the kernel's numbers, `most` the iteration limit of its loops.
/// Unsupported constructs are added to `errors`.
pub(super) fn function(function: &mut ItemFn, number: &Ident, (form, most): (Form, Option<u32>), errors: &mut Errors) {
    let name = function.sig.ident.clone();
    // Parameters of these types are the kernel's from the start.
    let most = match most {
        Some(most) => quote!(::core::option::Option::Some(#most)),
        None => quote!(::core::option::Option::None),
    };
    let whole_tiles = form == Form::Tile;
    let mut rewrite = Rewrite {
        name,
        number,
        own: HashSet::new(),
        most,
        of_tiles: whole_tiles,
        numbers: HashSet::new(),
        whole_tiles,
        errors,
    };
    for input in &function.sig.inputs {
        if let FnArg::Typed(typed) = input
            && let Pat::Ident(name) = &*typed.pat
            && rewrite.own_type(&typed.ty).is_some()
        {
            rewrite.own.insert(name.ident.clone());
        }
        if let FnArg::Typed(typed) = input
            && let Pat::Ident(name) = &*typed.pat
            && matches!(&*typed.ty, Type::Path(ty) if ty.path.is_ident(number))
        {
            rewrite.numbers.insert(name.ident.clone());
        }
    }
    rewrite.visit_block_mut(&mut function.block);
}

struct Rewrite<'a> {
    /// Name of the kernel.
    name: Ident,
    /// Type parameter of the kernel's numbers.
    number: &'a Ident,
    /// Variables that hold traced integers or bools of the kernel; plain values assigned to them are lifted.
    own: HashSet<Ident>,
    /// Iteration limit of the kernel's loops, as tokens of an `Option`.
    most: TokenStream,
    /// Whether the kernel is a tile kernel.
    of_tiles: bool,
    /// Names of the parameters of the type `number`, which are traced floats.
    numbers: HashSet<Ident>,
    /// Whether the code being rewritten works on whole tiles (in a tile kernel, code outside closures).
    whole_tiles: bool,
    errors: &'a mut Errors,
}

impl Rewrite<'_> {
    /// Returns the traced type that replaces `i32` (`Int`) or `bool` (`Mask`) in a kernel; `None` for other types.
    fn own_type(&self, ty: &Type) -> Option<Type> {
        let Type::Path(path) = ty else { return None };
        let number = self.number;
        match path.path.get_ident()? {
            ident if ident == "i32" => Some(parse_quote!(::thalweg::kernel::Int<#number>)),
            ident if ident == "bool" => Some(parse_quote!(::thalweg::kernel::Mask<#number>)),
            _ => None,
        }
    }

    /// Whether an expression is certainly a number of the kernel: literals, operands, and arithmetic on these.
    fn is_number(&self, e: &Expr) -> bool {
        match e {
            Expr::Lit(lit) => matches!(&lit.lit, Lit::Float(value) if value.suffix().is_empty()),
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| self.numbers.contains(name)),
            Expr::Paren(inner) => self.is_number(&inner.expr),
            Expr::Unary(inner) => matches!(inner.op, syn::UnOp::Neg(_)) && self.is_number(&inner.expr),
            Expr::Binary(e) => is_arithmetic(&e.op) && self.is_number(&e.left) && self.is_number(&e.right),
            Expr::Cast(e) => matches!(&*e.ty, Type::Path(ty) if ty.path.is_ident(self.number)),
            Expr::Call(e) => {
                let Expr::Path(path) = &*e.func else { return false };
                let mut segments = path.path.segments.iter();
                let of = segments.next().is_some_and(|s| s.ident == *self.number);
                of && segments.next().is_some_and(|s| s.ident == "lit")
            }
            _ => false,
        }
    }

    /// Changes the element type of `Tile<F, i32>` to `Int` and of `Tile<F, bool>` to `Mask`, in a tile kernel; leaves
    /// other types as they are.
    fn elements_of_tile(&self, ty: &mut Type) {
        let Type::Path(path) = ty else { return };
        let Some(last) = path.path.segments.last_mut().filter(|s| self.of_tiles && s.ident == "Tile") else { return };
        let syn::PathArguments::AngleBracketed(given) = &mut last.arguments else { return };
        if let Some(syn::GenericArgument::Type(elements)) = given.args.iter_mut().nth(1)
            && let Some(own) = self.own_type(elements)
        {
            *elements = own;
        }
    }

    /// Handles a declaration. A literal initial value becomes a traced value, if the variable is mutable and has no
    /// declared type, or if that type is `i32` or `bool`. Variables with traced values are added to `own`.
    fn begin(&mut self, pattern: &Pat, ty: Option<&Type>, init: &mut Expr) {
        match (pattern, init) {
            (Pat::Tuple(patterns), Expr::Tuple(inits)) => {
                let types = match ty {
                    Some(Type::Tuple(all)) => all.elems.iter().map(Some).collect(),
                    _ => vec![None; patterns.elems.len()],
                };
                for ((p, ty), init) in patterns.elems.iter().zip(types).zip(&mut inits.elems) {
                    self.begin(p, ty, init);
                }
            }
            (Pat::Type(typed), init) => self.begin(&typed.pat, Some(&typed.ty), init),
            (Pat::Ident(name), init) => {
                let said = ty.is_some_and(|ty| self.own_type(ty).is_some());
                let lifted = (said || ty.is_none() && name.mutability.is_some()) && self.lift(init);
                let cast =
                    matches!(&*init, Expr::Cast(e) if matches!(&*e.ty, Type::Path(ty) if ty.path.is_ident("i32")));
                self.own.extend((said || lifted || cast).then(|| name.ident.clone()));
            }
            _ => {}
        }
    }

    /// Rewrites the value of an assignment: a literal integer or bool becomes a traced value if the variable is in
    /// `own`.
    fn assign(&self, place: &Expr, value: &mut Expr) {
        match (place, value) {
            (Expr::Tuple(places), Expr::Tuple(values)) => {
                places.elems.iter().zip(&mut values.elems).for_each(|(p, v)| self.assign(p, v));
            }
            (Expr::Index(index), value) => self.assign(&index.expr, value),
            (Expr::Path(path), value) if path.path.get_ident().is_some_and(|name| self.own.contains(name)) => {
                self.lift(value);
            }
            _ => {}
        }
    }

    /// Rewrites a literal integer or bool, or an array of literals, to a traced value in place; returns whether it was
    /// one.
    fn lift(&self, init: &mut Expr) -> bool {
        let number = self.number;
        match init {
            Expr::Array(all) => return all.elems.iter_mut().fold(false, |any, e| self.lift(e) | any),
            Expr::Repeat(e) => return self.lift(&mut e.expr),
            _ => {}
        }
        let kind = match &*init {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Int(i) if matches!(i.suffix(), "" | "i32") => quote!(Int),
                Lit::Bool(_) => quote!(Mask),
                _ => return false,
            },
            Expr::Unary(e) => match (&e.op, &*e.expr) {
                (syn::UnOp::Neg(_), Expr::Lit(lit)) if matches!(lit.lit, Lit::Int(_)) => quote!(Int),
                _ => return false,
            },
            _ => return false,
        };
        let span = init.span();
        *init = verbatim(
            quote_spanned!(span=> <::thalweg::kernel::#kind<#number> as ::core::convert::From<_>>::from(#init)),
        );
        true
    }

    /// Rewrites `if` as a call of `select`, whose closures also return the variables that the branches assign.
    fn choice(&mut self, e: &mut ExprIf) -> TokenStream {
        let span = e.if_token.span;
        let then: Expr = Expr::Block(parse_quote!({}));
        let mut then = match then {
            Expr::Block(mut block) => {
                block.block = e.then_branch.clone();
                Expr::Block(block)
            }
            other => other,
        };
        let mut or_else: Expr = match e.else_branch.take() {
            Some((_, branch)) => *branch,
            None => parse_quote!({}),
        };
        let names = assigned([&then, &or_else]);
        if names.len() > MAX_ASSIGNED {
            let many = format!("more than {MAX_ASSIGNED} variables are assigned in this `if`; put some into an array");
            self.errors.at(e.if_token, many);
        }
        self.visit_expr_mut(&mut e.cond);
        self.visit_expr_mut(&mut then);
        self.visit_expr_mut(&mut or_else);
        let (condition, number) = (&e.cond, self.number);
        if names.is_empty() {
            return quote_spanned!(span=> {
                ::thalweg::kernel::select::<#number, _, _, _>(#condition, || #then, || #or_else)
            });
        }
        let value = Ident::new("value", Span::mixed_site());
        let new: Vec<Ident> = (0..names.len()).map(|i| format_ident!("new_{i}", span = Span::mixed_site())).collect();
        let branch = |body: &Expr| {
            quote_spanned!(span=> || {
                #(let mut #names = #names;)*
                let #value = #body;
                (#value, (#(#names,)*))
            })
        };
        let (then, or_else) = (branch(&then), branch(&or_else));
        quote_spanned!(span=> {
            let (#value, (#(#new,)*)) =
                ::thalweg::kernel::select::<#number, _, _, _>(#condition, #then, #or_else);
            #(#names = #new;)*
            #value
        })
    }

    /// Replaces a loop expression by a call of `looped`, after lowering it to a `while` loop. A data-dependent loop
    /// over whole tiles is added to `errors`.
    fn repeated(&mut self, expr: &mut Expr) {
        if let Some(token) = self.around_tiles(expr) {
            self.errors.at(token, NO_LOOPS_OF_TILES);
            return;
        }
        match expr {
            Expr::While(e) => match loops::plain_while(e, self.errors) {
                Some(plain) => self.instead(expr, plain),
                None => *expr = verbatim(self.turns(e)),
            },
            Expr::Loop(e) => {
                let plain = loops::plain_loop(e, self.errors);
                self.instead(expr, plain);
            }
            Expr::ForLoop(e) => match loops::plain_for(e, &self.own, self.errors) {
                Some(plain) => self.instead(expr, plain),
                None => {
                    // Its loop variable is a plain number.
                    let hidden = matches!(&*e.pat, Pat::Ident(name) if self.own.remove(&name.ident));
                    visit_mut::visit_expr_for_loop_mut(self, e);
                    if let (true, Pat::Ident(name)) = (hidden, &*e.pat) {
                        self.own.insert(name.ident.clone());
                    }
                }
            },
            _ => {}
        }
    }

    /// Returns the keyword of a data-dependent loop over whole tiles, for the error message; `None` for other loops.
    fn around_tiles(&self, expr: &Expr) -> Option<TokenStream> {
        if !self.whole_tiles {
            return None;
        }
        match expr {
            Expr::While(e) => Some(e.while_token.to_token_stream()),
            Expr::Loop(e) => Some(e.loop_token.to_token_stream()),
            Expr::ForLoop(e) => loops::ends_by_data(e, &self.own).then(|| e.for_token.to_token_stream()),
            _ => None,
        }
    }

    /// Replaces an expression by its lowered form `plain`, after rewriting that form, too.
    fn instead(&mut self, expr: &mut Expr, mut plain: Expr) {
        self.visit_expr_mut(&mut plain);
        *expr = plain;
    }

    /// Rewrites `while` as a call of `looped`, whose closures take and return the variables that the loop assigns.
    fn turns(&mut self, e: &mut ExprWhile) -> TokenStream {
        let span = e.while_token.span;
        let body: Block = e.body.clone();
        let mut body: Expr = parse_quote!(#body);
        let names = assigned([&*e.cond, &body]);
        if names.is_empty() {
            self.errors.at(e.while_token, "this loop assigns no variable of outside, so it would not end");
        }
        if names.len() > MAX_ASSIGNED {
            let many = format!("more than {MAX_ASSIGNED} variables are assigned in this loop; put some into an array");
            self.errors.at(e.while_token, many);
        }
        self.visit_expr_mut(&mut e.cond);
        self.visit_expr_mut(&mut body);
        let (condition, number, kernel, most) = (&e.cond, self.number, self.name.to_string(), &self.most);
        let new: Vec<Ident> = (0..names.len()).map(|i| format_ident!("new_{i}", span = Span::mixed_site())).collect();
        quote_spanned!(span=> {
            let (#(#new,)*) = ::thalweg::kernel::looped::<#number, _, _>(
                ::thalweg::kernel::Loop { kernel: #kernel, most: #most },
                (#(::thalweg::kernel::lift::<#number, _>(#names),)*),
                |(#(#names,)*)| #condition,
                |(#(mut #names,)*)| {
                    #body
                    (#(::thalweg::kernel::lift::<#number, _>(#names),)*)
                },
            );
            #(#names = #new;)*
        })
    }

    /// Rewrites comparisons, `&&` and `||` as calls; returns `None` for other operators.
    fn operator(&mut self, e: &mut syn::ExprBinary) -> Option<TokenStream> {
        let op = match e.op {
            BinOp::Lt(_) => "Lt",
            BinOp::Le(_) => "Le",
            BinOp::Gt(_) => "Gt",
            BinOp::Ge(_) => "Ge",
            BinOp::Eq(_) => "Eq",
            BinOp::Ne(_) => "Ne",
            BinOp::And(_) => "and",
            BinOp::Or(_) => "or",
            _ => return None,
        };
        self.visit_expr_mut(&mut e.left);
        self.visit_expr_mut(&mut e.right);
        let (left, right) = (&e.left, &e.right);
        let op = Ident::new(op, e.op.span());
        let span = e.op.span();
        Some(match e.op {
            BinOp::And(_) | BinOp::Or(_) => quote_spanned!(span=> ::thalweg::kernel::#op(#left, || #right)),
            _ => quote_spanned!(span=> ::thalweg::kernel::compare(::thalweg::kernel::ElementOp::#op, #left, #right)),
        })
    }

    /// Returns the token and the error message of an expression that a kernel may not contain; `None` for allowed ones.
    fn refused(e: &Expr) -> Option<(TokenStream, &'static str)> {
        let at = |token: &dyn ToTokens| token.to_token_stream();
        Some(match e {
            Expr::Return(e) => (
                at(&e.return_token),
                "a kernel cannot return early, since elements differ in when; write `if .. { a } else { b }` as its last \
                 expression",
            ),
            Expr::Try(e) => (at(&e.question_token), "a kernel cannot return early; it gives numbers, no `Result`"),
            Expr::Let(e) => (at(e), "`let` in a condition looks at plain data; in a kernel, match that before"),
            Expr::While(ExprWhile { label: Some(label), .. })
            | Expr::Loop(ExprLoop { label: Some(label), .. })
            | Expr::ForLoop(ExprForLoop { label: Some(label), .. }) => {
                (at(label), "labels cannot stand in a kernel; put the loops into functions, or assign a `bool`")
            }
            Expr::Break(e) => (at(&e.break_token), "there is no loop around this"),
            Expr::Continue(e) => (at(&e.continue_token), "there is no loop around this"),
            Expr::Await(e) => (at(&e.await_token), "a kernel waits for nothing"),
            Expr::Async(e) => (at(&e.async_token), "a kernel waits for nothing"),
            Expr::Yield(e) => (at(&e.yield_token), "a kernel gives its results at its end"),
            Expr::Unsafe(e) => (at(&e.unsafe_token), "a kernel is safe: it reads numbers and gives numbers"),
            Expr::RawAddr(e) => (at(e), "a kernel is safe: it reads numbers and gives numbers"),
            Expr::TryBlock(e) => (at(&e.try_token), "a kernel gives numbers, no `Result`"),
            Expr::Macro(e) if !may_be_called(&e.mac.path) => (at(&e.mac.path), NO_MACROS),
            _ => return None,
        })
    }
}

/// Names of methods that tiles lack but users of block-based kernel languages expect, each with an error message.
const NO_METHODS_OF_TILES: [(&str, &str); 8] = [
    ("blocks", NO_BLOCKS),
    ("chunks", NO_BLOCKS),
    (
        "load",
        "a tile is there as it is: a tile kernel takes whole matrices, and the planner takes blocks of them to the chip",
    ),
    ("store", "a tile kernel writes nothing; it gives its results at its end"),
    ("matmul", "the product of two tiles is `x.dot(&y)`"),
    ("transpose", "a transposed tile is `x.t()`"),
    ("softmax", "say it of tiles: `let e = (&x - x.max(1)).map(|x| x.exp()); &e / e.sum(1)`"),
    ("mean", "say it of tiles: `x.sum(1) / F::lit(x.sizes()[1] as f64)`"),
];

const NO_BLOCKS: &str = "a tile is whole, and the planner takes blocks of it for the chip at hand; write the product or reduction \
                         over the whole axis: `q.dot(&k.t())`, `s.max(1)`, or a `fold`";

const NO_LOOPS_OF_TILES: &str = "tiles go through no loop whose end depends on data: they are whole, and have no ends of their \
                                 own; loop over elements, in `x.map(|x| ..)`, or over constants: `for k in 0..4`";

const NO_MACROS: &str = "what stands in a macro cannot be read here; write the expression itself, or a function";

/// Whether an operator is `+`, `-`, `*` or `/`.
fn is_arithmetic(op: &BinOp) -> bool {
    matches!(op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_))
}

/// Error message that explains why tiles lack a method of this name; `None` for other names.
fn no_method(name: &Ident) -> Option<&'static str> {
    NO_METHODS_OF_TILES.iter().find(|(method, _)| name == method).map(|(_, why)| *why)
}

fn may_be_called(path: &syn::Path) -> bool {
    path.segments.last().is_some_and(|s| MACROS.iter().any(|m| s.ident == m))
}

impl VisitMut for Rewrite<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Some((token, message)) = Rewrite::refused(expr) {
            self.errors.at(token, message);
            return;
        }
        let number = self.number;
        match expr {
            Expr::Lit(e) => {
                if let Lit::Float(value) = &e.lit
                    && value.suffix().is_empty()
                {
                    let span = value.span();
                    *expr = verbatim(quote_spanned!(span=> <#number as ::thalweg::kernel::Real>::lit(#value)));
                }
            }
            Expr::Assign(e) => {
                self.assign(&e.left, &mut e.right);
                visit_mut::visit_expr_assign_mut(self, e);
            }
            Expr::If(e) => *expr = verbatim(self.choice(e)),
            Expr::While(_) | Expr::Loop(_) | Expr::ForLoop(_) => self.repeated(expr),
            Expr::Binary(e) => match self.operator(e) {
                Some(tokens) => *expr = verbatim(tokens),
                None => {
                    if self.whole_tiles && is_arithmetic(&e.op) && self.is_number(&e.left) {
                        let (left, span) = (&e.left, e.left.span());
                        *e.left = parse_quote_spanned!(span=> ::thalweg::kernel::Left(#left));
                    }
                    visit_mut::visit_expr_mut(self, expr);
                }
            },
            Expr::Match(e) if matches::is_on_numbers(e) => {
                if let Some(mut chain) = matches::chain(e, self.errors) {
                    self.visit_expr_mut(&mut chain);
                    *expr = chain;
                }
            }
            Expr::Cast(e) => {
                self.visit_expr_mut(&mut e.expr);
                let (inner, span) = (&e.expr, e.as_token.span);
                match &*e.ty {
                    Type::Path(ty) if ty.path.is_ident(number) => {
                        *expr = verbatim(quote_spanned!(span=> ::thalweg::kernel::to_real::<#number>(#inner)));
                    }
                    Type::Path(ty) if ty.path.is_ident("i32") => {
                        *expr = verbatim(quote_spanned!(span=> ::thalweg::kernel::to_int::<#number>(#inner)));
                    }
                    _ => {}
                }
            }
            Expr::MethodCall(e) if self.of_tiles && no_method(&e.method).is_some() => {
                let why = no_method(&e.method).expect("it is one");
                self.errors.at(&e.method, why);
                visit_mut::visit_expr_method_call_mut(self, e);
            }
            Expr::MethodCall(e) if e.method == "get" => {
                if let Some(Expr::Array(place)) = e.args.first_mut() {
                    // Coordinates may be plain numbers, too.
                    for i in &mut place.elems {
                        self.visit_expr_mut(i);
                        let span = i.span();
                        *i = verbatim(quote_spanned!(span=> ::thalweg::kernel::coordinate::<#number>(#i)));
                    }
                    self.visit_expr_mut(&mut e.receiver);
                    e.args.iter_mut().skip(1).for_each(|a| self.visit_expr_mut(a));
                } else {
                    visit_mut::visit_expr_method_call_mut(self, e);
                }
            }
            Expr::Call(e) => {
                if let Expr::Path(path) = &*e.func {
                    // `lit` takes plain numbers.
                    if path.path.segments.last().is_some_and(|s| s.ident == "lit") {
                        return;
                    }
                    if path.path.is_ident(&self.name) {
                        self.errors.at(path, "a kernel cannot call itself: it would for ever; write a loop");
                        return;
                    }
                }
                visit_mut::visit_expr_call_mut(self, e);
            }
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        if let Some(init) = &mut local.init {
            self.begin(&local.pat, None, &mut init.expr);
            if let Some((token, _)) = &init.diverge {
                self.errors.at(token, "`let .. else` leaves the kernel early; match plain data before");
                return;
            }
            self.visit_expr_mut(&mut init.expr);
        }
        visit_mut::visit_pat_mut(self, &mut local.pat);
    }

    fn visit_stmt_macro_mut(&mut self, e: &mut StmtMacro) {
        if !may_be_called(&e.mac.path) {
            self.errors.at(&e.mac.path, NO_MACROS);
        }
    }

    fn visit_type_mut(&mut self, ty: &mut Type) {
        match self.own_type(ty) {
            Some(own) => *ty = own,
            None => {
                self.elements_of_tile(ty);
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }

    // Numbers in patterns stay plain.
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        if let Pat::Type(typed) = pattern {
            self.visit_type_mut(&mut typed.ty);
        }
    }

    // Parameter types of closures stay as written; a closure in a tile kernel works on elements.
    fn visit_expr_closure_mut(&mut self, e: &mut syn::ExprClosure) {
        let outside = std::mem::replace(&mut self.whole_tiles, false);
        self.visit_expr_mut(&mut e.body);
        self.whole_tiles = outside;
    }

    // Nested items are not part of the kernel.
    fn visit_item_mut(&mut self, _: &mut Item) {}

    // Array lengths stay plain.
    fn visit_expr_repeat_mut(&mut self, e: &mut syn::ExprRepeat) {
        self.visit_expr_mut(&mut e.expr);
    }

    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}
}
