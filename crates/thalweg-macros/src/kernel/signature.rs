//! Parsing of a kernel's signature: its number type, parameters and results.

use super::Errors;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{
    ConstParam, FnArg, GenericParam, ItemFn, Pat, ReturnType, Token, Type, TypeParam, TypeParamBound, WherePredicate,
};

/// Parsed signature of a kernel.
pub(super) struct Signature {
    /// Type parameter of the kernel's numbers (`F` in `fn f<F: Real>`).
    pub number: Ident,
    /// Const parameters of the function.
    pub constants: Vec<ConstParam>,
    pub parameters: Vec<Parameter>,
    pub result: Given,
}

/// A parameter of a kernel function.
pub(super) struct Parameter {
    pub name: Ident,
    pub mutable: Option<Token![mut]>,
    pub kind: Kind,
    pub ty: Type,
    /// Number of dimensions of an index or field parameter, as tokens.
    pub rank: Option<TokenStream>,
}

/// Role of a parameter in a call on tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Float operand: a tensor of floats, or a number.
    Number,
    /// Integer operand: a tensor of i32, or a number.
    Int,
    /// Bool operand: a tensor of bool, or a truth value.
    Mask,
    /// Index of the result element, `[i32; N]`.
    Place,
    /// Field that an index kernel reads; the flag is true if it is passed by reference.
    Field(bool),
    /// Row of a row kernel; the flag is true if it is passed by reference.
    Row(bool),
    /// Tile of a tile kernel with its element type; the flag is true if it is passed by reference.
    Tile(Elements, bool),
    /// Plain data, known when the kernel is called on tensors.
    Plain,
}

/// Element type of a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Elements {
    Numbers,
    Ints,
    Masks,
}

impl Elements {
    /// Type of an element of this kind in the generated function.
    pub fn on_numbers(self, number: &Ident) -> TokenStream {
        match self {
            Elements::Numbers => quote!(#number),
            Elements::Ints => quote!(::thalweg::kernel::Int<#number>),
            Elements::Masks => quote!(::thalweg::kernel::Mask<#number>),
        }
    }
}

/// Form of a kernel: the kind of values that its function computes with.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Form {
    /// Single numbers (elementwise kernel).
    #[default]
    Map,
    /// Index of the result element, and fields (whole tensors read by index).
    Index,
    /// Whole rows of tensors (row kernel).
    Row,
    /// Whole matrices, called tiles (tile kernel).
    Tile,
}

/// Result type of a kernel.
pub(super) enum Given {
    One(Kind),
    /// A row of the result (row kernels).
    Row,
    /// A tile with this element type (tile kernels).
    Tile(Elements),
    Tuple(Vec<Given>),
    Array(Box<Given>, syn::Expr),
}

impl Given {
    fn of(ty: &Type, number: &Ident, form: Form, errors: &mut Errors) -> Given {
        match ty {
            _ if form == Form::Row && is_row(ty) => Given::Row,
            _ if form == Form::Tile && tile(ty, number).is_some() => Given::Tile(tile(ty, number).expect("it is one")),
            Type::Paren(inner) => Given::of(&inner.elem, number, form, errors),
            Type::Group(inner) => Given::of(&inner.elem, number, form, errors),
            Type::Tuple(all) if !all.elems.is_empty() => {
                Given::Tuple(all.elems.iter().map(|t| Given::of(t, number, form, errors)).collect())
            }
            Type::Array(array) => {
                Given::Array(Box::new(Given::of(&array.elem, number, form, errors)), array.len.clone())
            }
            _ if form == Form::Tile => {
                let takes = format!(
                    "a tile kernel gives `Tile<{number}>`, `Tile<{number}, i32>`, `Tile<{number}, bool>`, tuples or arrays \
                     of them; a number of a tile is a tile of one element: `x.sum(0).sum(1)`"
                );
                errors.at(ty, takes);
                Given::One(Kind::Number)
            }
            _ => match kind(ty, number) {
                Some(kind) => Given::One(kind),
                None => {
                    let row = if form == Form::Row { format!("`Row<{number}>`, ") } else { String::new() };
                    let takes = format!("a kernel gives {row}`{number}`, `i32`, `bool`, tuples or arrays of them");
                    errors.at(ty, takes);
                    Given::One(Kind::Number)
                }
            },
        }
    }

    /// Type of the result in the generated function.
    pub fn on_numbers(&self, number: &Ident) -> TokenStream {
        match self {
            Given::One(Kind::Int) => quote!(::thalweg::kernel::Int<#number>),
            Given::One(Kind::Mask) => quote!(::thalweg::kernel::Mask<#number>),
            Given::One(_) => quote!(#number),
            Given::Row => quote!(::thalweg::kernel::Row<#number>),
            Given::Tile(elements) => {
                let elements = elements.on_numbers(number);
                quote!(::thalweg::kernel::Tile<#number, #elements>)
            }
            Given::Tuple(all) => {
                let all = all.iter().map(|g| g.on_numbers(number));
                quote!((#(#all,)*))
            }
            Given::Array(one, n) => {
                let one = one.on_numbers(number);
                quote!([#one; #n])
            }
        }
    }

    /// Type of the result in a call on tensors.
    pub fn on_tensors(&self) -> TokenStream {
        match self {
            Given::One(_) | Given::Row | Given::Tile(_) => quote!(::thalweg::Tensor),
            Given::Tuple(all) => {
                let all = all.iter().map(Given::on_tensors);
                quote!((#(#all,)*))
            }
            Given::Array(one, n) => {
                let one = one.on_tensors();
                quote!([#one; #n])
            }
        }
    }

    /// Whether the result contains integers or bools, which the function may return as plain values.
    pub fn has_plain(&self) -> bool {
        match self {
            Given::One(kind) => matches!(kind, Kind::Int | Kind::Mask),
            Given::Row | Given::Tile(_) => false,
            Given::Tuple(all) => all.iter().any(Given::has_plain),
            Given::Array(one, _) => one.has_plain(),
        }
    }
}

/// Returns the kind of an operand of this type; `None` if it is no operand type.
fn kind(ty: &Type, number: &Ident) -> Option<Kind> {
    let ident = match ty {
        Type::Path(path) if path.qself.is_none() => path.path.get_ident()?,
        Type::Paren(inner) => return kind(&inner.elem, number),
        Type::Group(inner) => return kind(&inner.elem, number),
        _ => return None,
    };
    match () {
        _ if ident == number => Some(Kind::Number),
        _ if ident == "i32" => Some(Kind::Int),
        _ if ident == "bool" => Some(Kind::Mask),
        _ => None,
    }
}

/// Whether the tokens of a type contain an identifier.
fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(ident) => ident == *name,
        proc_macro2::TokenTree::Group(group) => mentions(group.stream(), name),
        _ => false,
    })
}

fn is_real<'a>(mut bounds: impl Iterator<Item = &'a TypeParamBound>) -> bool {
    bounds.any(|b| matches!(b, TypeParamBound::Trait(t) if t.path.segments.last().is_some_and(|s| s.ident == "Real")))
}

/// Parses the signature of a kernel; `None`, with the reasons in `errors`, if it is not that of a kernel.
pub(super) fn read(function: &ItemFn, form: Form, errors: &mut Errors) -> Option<Signature> {
    let sig = &function.sig;
    let plain = "a kernel is a plain function";
    sig.constness.iter().for_each(|t| errors.at(t, plain));
    sig.asyncness.iter().for_each(|t| errors.at(t, plain));
    match &sig.safety {
        syn::Safety::Safe(t) => errors.at(t, plain),
        syn::Safety::Unsafe(t) => errors.at(t, plain),
        syn::Safety::Default => {}
    }
    sig.variadic.iter().for_each(|t| errors.at(t, plain));
    sig.abi.iter().for_each(|t| errors.at(t, plain));
    let (mut number, mut constants): (Option<Ident>, _) = (None, vec![]);
    let in_clause = |p: &TypeParam| {
        let predicates = sig.generics.where_clause.iter().flat_map(|w| &w.predicates);
        predicates.into_iter().any(|w| {
            let WherePredicate::Type(w) = w else { return false };
            matches!(&w.bounded_ty, Type::Path(t) if t.path.is_ident(&p.ident)) && is_real(w.bounds.iter())
        })
    };
    for parameter in &sig.generics.params {
        match parameter {
            GenericParam::Type(p) if number.is_none() && (is_real(p.bounds.iter()) || in_clause(p)) => {
                number = Some(p.ident.clone());
            }
            GenericParam::Type(p) => errors.at(p, "a kernel has one type parameter, its numbers: `F: Real`"),
            GenericParam::Lifetime(p) => errors.at(p, "a kernel takes numbers, not references"),
            GenericParam::Const(p) => constants.push(ConstParam { default: None, ..p.clone() }),
        }
    }
    let Some(number) = number else {
        if errors.0.is_none() {
            let name = &sig.ident;
            errors.at(name, format!("a kernel is generic over its numbers: `fn {name}<F: Real>(x: F) -> F`"));
        }
        return None;
    };
    let mut parameters = vec![];
    for (at, input) in sig.inputs.iter().enumerate() {
        match input {
            FnArg::Receiver(own) => errors.at(own, "a kernel is a function by itself, not a method"),
            FnArg::Typed(typed) => {
                let of = Of { number: &number, form, first: at == 0 };
                parameters.extend(parameter(typed, &of, errors));
            }
        }
    }
    if errors.0.is_none() && form == Form::Index && parameters.first().is_none_or(|p| p.kind != Kind::Place) {
        errors.at(&sig.ident, "the first parameter of an index kernel is the place of the result: `at: [i32; 2]`");
    }
    let rows = parameters.iter().any(|p| matches!(p.kind, Kind::Row(_)));
    if errors.0.is_none() && form == Form::Row && !rows {
        errors.at(&sig.ident, format!("a row kernel takes a row: a parameter of type `Row<{number}>`"));
    }
    let tiles = parameters.iter().any(|p| matches!(p.kind, Kind::Tile(..)));
    if errors.0.is_none() && form == Form::Tile && !tiles {
        errors.at(&sig.ident, format!("a tile kernel takes a tile: a parameter of type `Tile<{number}>`"));
    }
    if errors.0.is_none() && parameters.iter().all(|p| matches!(p.kind, Kind::Plain | Kind::Place)) {
        errors.at(&sig.ident, format!("a kernel takes an operand: a parameter of type `{number}`, `i32` or `bool`"));
    }
    let result = match &sig.output {
        ReturnType::Type(_, ty) => Given::of(ty, &number, form, errors),
        ReturnType::Default => {
            errors.at(&sig.ident, format!("a kernel gives something: `-> {number}`"));
            Given::One(Kind::Number)
        }
    };
    Some(Signature { number, constants, parameters, result })
}

/// Context in which a parameter is parsed.
struct Of<'a> {
    number: &'a Ident,
    /// Form of the kernel that the parameter belongs to.
    form: Form,
    first: bool,
}

/// Returns the kind and rank of an index parameter (`[i32; N]`, the first parameter only) or a field; `None` for other
/// types.
fn by_place(ty: &Type, of: &Of<'_>) -> Option<(Kind, TokenStream)> {
    match ty {
        Type::Array(array) if of.first => {
            let Type::Path(path) = &*array.elem else { return None };
            let len = &array.len;
            path.path.is_ident("i32").then(|| (Kind::Place, quote!(#len)))
        }
        Type::Reference(r) if r.mutability.is_none() => by_place(&r.elem, of)
            .and_then(|(kind, rank)| (kind == Kind::Field(false)).then_some((Kind::Field(true), rank))),
        Type::Path(path) => {
            let last = path.path.segments.last().filter(|s| s.ident == "Field")?;
            let syn::PathArguments::AngleBracketed(given) = &last.arguments else { return None };
            let rank = given.args.iter().nth(1)?;
            Some((Kind::Field(false), quote!(#rank)))
        }
        _ => None,
    }
}

/// Whether a type is `Row<..>`.
fn is_row(ty: &Type) -> bool {
    is_named(ty, "Row")
}

/// Whether a type is `name<..>`, such as `Row<..>` or `Tile<..>`.
fn is_named(ty: &Type, name: &str) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|s| s.ident == name && !s.arguments.is_empty())
}

/// Returns the element type of `Tile<F>`, `Tile<F, i32>` or `Tile<F, bool>`; `None` for other types.
fn tile(ty: &Type, number: &Ident) -> Option<Elements> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|s| s.ident == "Tile")?;
    let syn::PathArguments::AngleBracketed(given) = &last.arguments else { return None };
    let mut given = given.args.iter().map(|g| match g {
        syn::GenericArgument::Type(ty) => kind(ty, number),
        _ => None,
    });
    let (of, elements, more) = (given.next()?, given.next(), given.next());
    match (of, elements, more) {
        (Some(Kind::Number), None | Some(Some(Kind::Number)), None) => Some(Elements::Numbers),
        (Some(Kind::Number), Some(Some(Kind::Int)), None) => Some(Elements::Ints),
        (Some(Kind::Number), Some(Some(Kind::Mask)), None) => Some(Elements::Masks),
        _ => None,
    }
}

fn parameter(typed: &syn::PatType, of: &Of<'_>, errors: &mut Errors) -> Option<Parameter> {
    let number = of.number;
    let name = match &*typed.pat {
        Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => p,
        other => {
            errors.at(other, "a parameter of a kernel is a name; take it apart in the body");
            return None;
        }
    };
    if let Some((kind, rank)) = by_place(&typed.ty, of).filter(|_| of.form == Form::Index) {
        let (name, mutable) = (name.ident.clone(), name.mutability);
        return Some(Parameter { name, mutable, kind, ty: (*typed.ty).clone(), rank: Some(rank) });
    }
    let row = |ty: &Type| match ty {
        Type::Reference(r) if r.mutability.is_none() && is_row(&r.elem) => Some(Kind::Row(true)),
        ty => is_row(ty).then_some(Kind::Row(false)),
    };
    let row = row(&typed.ty).filter(|_| of.form == Form::Row);
    let tiles = match &*typed.ty {
        Type::Reference(r) if r.mutability.is_none() => tile(&r.elem, number).map(|e| (e, true)),
        ty => tile(ty, number).map(|e| (e, false)),
    };
    if let (Form::Tile, Some((elements, by_reference))) = (of.form, tiles) {
        let own = elements.on_numbers(number);
        let own: Type = syn::parse_quote!(::thalweg::kernel::Tile<#number, #own>);
        // Keep the user's tokens if they need no change.
        let ty = match (elements, by_reference) {
            (Elements::Numbers, _) => (*typed.ty).clone(),
            (_, true) => syn::parse_quote!(&#own),
            (_, false) => own,
        };
        let kind = Kind::Tile(elements, by_reference);
        return Some(Parameter { name: name.ident.clone(), mutable: name.mutability, kind, ty, rank: None });
    }
    let kind = row.or_else(|| kind(&typed.ty, number)).unwrap_or(Kind::Plain);
    if kind == Kind::Plain {
        let ty = &typed.ty;
        if mentions(quote!(#ty), number) {
            let field = format_ident!("Field");
            let takes = match of.form {
                Form::Map | Form::Row | Form::Tile if mentions(quote!(#ty), &field) => {
                    "a field is read by a kernel that is #[kernel(index)]".into()
                }
                Form::Map | Form::Row | Form::Index if mentions(quote!(#ty), &format_ident!("Tile")) => {
                    "a tile is taken by a kernel that is #[kernel(tile)]".into()
                }
                Form::Map | Form::Index | Form::Tile if mentions(quote!(#ty), &format_ident!("Row")) => {
                    "a row is taken by a kernel that is #[kernel(row)]".into()
                }
                Form::Row => {
                    format!("a parameter of a row kernel is `Row<{number}>`, `{number}`, `i32`, `bool`, or plain data")
                }
                Form::Tile => format!(
                    "a parameter of a tile kernel is `&Tile<{number}>`, `&Tile<{number}, i32>`, `&Tile<{number}, bool>`, \
                     `{number}`, `i32`, `bool`, or plain data"
                ),
                Form::Index => format!(
                    "a parameter of an index kernel is `&Field<{number}, 2>`, `{number}`, `i32`, `bool`, or plain data"
                ),
                Form::Map => format!(
                    "a parameter of a kernel is `{number}`, `i32`, `bool`, or plain data; for several numbers write \
                     several parameters"
                ),
            };
            errors.at(ty, takes);
            return None;
        }
        if matches!(**ty, Type::ImplTrait(_) | Type::Reference(_)) {
            errors.at(ty, "plain data of a kernel is of a type with a name, and no reference");
        }
    }
    Some(Parameter { name: name.ident.clone(), mutable: name.mutability, kind, ty: (*typed.ty).clone(), rank: None })
}
