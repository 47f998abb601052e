//! Implementation of `#[kernel]`.
//!
//! Input: a function that is generic over its numbers. Output: the rewritten function (`rewrite.rs`), and a struct of
//! the same name whose function `on` is the operation on tensors. (Rust has separate namespaces for functions and
//! structs with braces.) Invariant: the remaining tokens of the user keep their spans, so that the compiler's errors
//! point into the user's code.

mod assigned;
mod loops;
mod matches;
mod rewrite;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use signature::{Elements, Form, Kind, Parameter, Signature};
use syn::{ConstParam, Error, Expr, ItemFn, Type};

/// Collected errors of one kernel, each at the token that causes it.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    fn at(&mut self, token: impl quote::ToTokens, message: impl std::fmt::Display) {
        self.add(Error::new_spanned(token, message));
    }

    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }
}

pub(crate) fn expand(options: TokenStream, function: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (form, most) = read_options(options, &mut errors);
    let mut function = match syn::parse2::<ItemFn>(function) {
        Ok(function) => function,
        Err(error) => {
            errors.add(Error::new(error.span(), format!("#[kernel] goes with a function: {error}")));
            return errors.0.expect("one was added").to_compile_error();
        }
    };
    let signature = signature::read(&function, form, &mut errors);
    let Some(signature) = signature else { return compile_errors(errors) };
    rewrite::function(&mut function, &signature.number, (form, most), &mut errors);
    match errors.0 {
        Some(_) => compile_errors(errors),
        None => write(&function, &signature),
    }
}

/// Parses the options of `#[kernel(…)]`: the form of the kernel, and the iteration limit of its loops.
fn read_options(options: TokenStream, errors: &mut Errors) -> (Form, Option<u32>) {
    let (mut form, mut most) = (Form::Map, None);
    let read = syn::meta::parser(|option| match () {
        _ if option.path.is_ident("index") => {
            form = Form::Index;
            Ok(())
        }
        _ if option.path.is_ident("row") => {
            form = Form::Row;
            Ok(())
        }
        _ if option.path.is_ident("tile") => {
            form = Form::Tile;
            Ok(())
        }
        _ if option.path.is_ident("max_turns") => {
            let value: syn::LitInt = option.value()?.parse()?;
            let turns = value.base10_parse::<u32>()?;
            if turns == 0 {
                return Err(Error::new(value.span(), "a loop has a turn at least"));
            }
            most = Some(turns);
            Ok(())
        }
        _ => Err(option.error(
            "a kernel is #[kernel], #[kernel(index)], #[kernel(row)], #[kernel(tile)] or #[kernel(max_turns = 1000)]",
        )),
    });
    if let Err(error) = syn::parse::Parser::parse2(read, options) {
        errors.add(error);
    }
    (form, most)
}

fn compile_errors(errors: Errors) -> TokenStream {
    errors.0.map_or_else(TokenStream::new, |e| e.to_compile_error())
}

/// Generates the `#[allow]` attribute for lints that would fire on generated code.
fn allowed() -> TokenStream {
    quote! {
        #[allow(
            unused_mut, unused_variables, unused_assignments, unused_parens, unused_braces, clippy::let_unit_value,
            clippy::unused_unit, clippy::blocks_in_conditions, clippy::redundant_closure_call, clippy::let_and_return,
            clippy::needless_range_loop, clippy::too_many_arguments, clippy::double_parens, clippy::type_complexity,
            clippy::excessive_precision, clippy::needless_late_init,
            reason = "written by #[kernel]"
        )]
    }
}

fn write(function: &ItemFn, signature: &Signature) -> TokenStream {
    let Signature { number, parameters, result, .. } = signature;
    let ItemFn { attrs, vis, sig, block, .. } = function;
    let (name, generics, clause) = (&sig.ident, &sig.generics, &sig.generics.where_clause);
    let allow = allowed();
    // The function also accepts plain integers and bools.
    let (mut inputs, mut converted) = (vec![], vec![]);
    for Parameter { name, mutable, kind, ty, rank } in parameters {
        let own = match kind {
            Kind::Number | Kind::Plain | Kind::Field(_) | Kind::Row(_) | Kind::Tile(..) => {
                inputs.push(quote!(#mutable #name: #ty));
                continue;
            }
            Kind::Place => {
                let own = quote!(::thalweg::kernel::Int<#number>);
                inputs.push(quote!(#name: [impl ::core::convert::Into<#own>; #rank]));
                converted.push(quote!(let #mutable #name: [#own; #rank] = #name.map(::core::convert::Into::into);));
                continue;
            }
            Kind::Int => quote!(::thalweg::kernel::Int<#number>),
            Kind::Mask => quote!(::thalweg::kernel::Mask<#number>),
        };
        inputs.push(quote!(#name: impl ::core::convert::Into<#own>));
        converted.push(quote!(let #mutable #name: #own = ::core::convert::Into::into(#name);));
    }
    let output = result.on_numbers(number);
    let statements = &block.stmts;
    let body = match result.has_plain() {
        true => quote!(::thalweg::kernel::lift::<#number, _>({ #(#statements)* })),
        false => quote!(#(#statements)*),
    };
    let operation = operation(function, signature);
    quote! {
        #(#attrs)*
        #allow
        #vis fn #name #generics(#(#inputs),*) -> #output #clause {
            #(#converted)*
            #body
        }
        #operation
    }
}

/// Token lists for the generated function `on`: its parameters, the operands of `Call::new`, and the arguments that it
/// passes to the kernel function.
#[derive(Default)]
struct Arguments {
    inputs: Vec<TokenStream>,
    operands: Vec<TokenStream>,
    arguments: Vec<TokenStream>,
    /// Names and types of the plain-data parameters of `on`.
    plain: Vec<(Ident, Type)>,
}

impl Arguments {
    fn push(&mut self, at: usize, Parameter { name, kind, ty, rank, .. }: &Parameter) {
        // Hygienic, so that it does not collide with the user's names.
        let given = format_ident!("operand_{at}", span = Span::mixed_site());
        let number = self.operands.len();
        let (take, argument) = match kind {
            Kind::Number => (quote!(Number), quote!(call.number(#number))),
            Kind::Int => (quote!(Int), quote!(call.int(#number))),
            Kind::Mask => (quote!(Mask), quote!(call.mask(#number))),
            Kind::Field(false) => (quote!(Field(#rank)), quote!(call.field(#number))),
            Kind::Field(true) => (quote!(Field(#rank)), quote!(&call.field(#number))),
            Kind::Row(false) => (quote!(Row), quote!(call.row(#number))),
            Kind::Row(true) => (quote!(Row), quote!(&call.row(#number))),
            Kind::Tile(elements, by_reference) => {
                let (take, read) = match elements {
                    Elements::Numbers => (quote!(Tile), quote!(call.tile(#number))),
                    Elements::Ints => (quote!(IntTile), quote!(call.int_tile(#number))),
                    Elements::Masks => (quote!(MaskTile), quote!(call.mask_tile(#number))),
                };
                (take, if *by_reference { quote!(&#read) } else { read })
            }
            Kind::Place => return self.arguments.push(quote!(call.place::<{ #rank }>())),
            Kind::Plain => {
                self.inputs.push(quote!(#given: #ty));
                self.plain.push((given.clone(), ty.clone()));
                return self.arguments.push(quote!(#given));
            }
        };
        let text = name.to_string();
        let (form, operand) = match kind {
            Kind::Field(_) => (quote!(&::thalweg::Tensor), quote!(::thalweg::Operand::Tensor(#given))),
            _ => (quote!(impl ::thalweg::IntoOperand), quote!(::thalweg::IntoOperand::operand(&#given))),
        };
        self.inputs.push(quote!(#given: #form));
        self.operands.push(quote!((#text, ::thalweg::kernel::Take::#take, #operand)));
        self.arguments.push(argument);
    }
}

/// Generates the type whose function `on` is the operation on tensors.
fn operation(function: &ItemFn, signature: &Signature) -> TokenStream {
    let Signature { parameters, result, constants, .. } = signature;
    let ItemFn { attrs, vis, sig, .. } = function;
    let name = &sig.ident;
    let by_place = parameters.first().is_some_and(|p| p.kind == Kind::Place);
    let by_tile = parameters.iter().any(|p| matches!(p.kind, Kind::Tile(..)));
    let by_row = parameters.iter().any(|p| matches!(p.kind, Kind::Row(_)));
    let mut all = Arguments::default();
    parameters.iter().enumerate().for_each(|(at, parameter)| all.push(at, parameter));
    let Arguments { inputs, operands, arguments, plain: given_plain } = all;
    let (output, text) = (result.on_tensors(), name.to_string());
    let conditions: Vec<_> = attrs.iter().filter(|a| a.path().is_ident("cfg")).collect();
    let about = format!("The kernel `{text}` as an operation on tensors.");
    let of_tiles = match by_tile {
        true => " Tiles are the last two dimensions of a tensor; those before are batches, which broadcast.",
        false => "",
    };
    let on = format!(
        "Records the kernel on tensors and numbers, at least one of them a tensor, which broadcast: in order `{}`.{of_tiles}\n\n\
         # Panics\nWhen dtypes are not what the kernel takes, or shapes do not broadcast.",
        parameters
            .iter()
            .filter(|p| p.kind != Kind::Place)
            .map(|p| p.name.to_string())
            .collect::<Vec<_>>()
            .join("`, `")
    );
    let plain = plain_data(&given_plain, constants);
    let (declared, used): (Vec<_>, Vec<_>) = constants.iter().map(|c| (quote!(#c), c.ident.clone())).unzip();
    // An index kernel stores the shape of its result, given to `over`.
    let (fields, make_over, receiver) = match by_place {
        false => (quote!(), quote!(), quote!()),
        true => (
            quote!(over: ::thalweg::Shape),
            quote! {
                /// Creates the kernel for results of this shape.
                #[allow(dead_code, reason = "written by #[kernel]")]
                #vis fn over(shape: impl ::core::convert::Into<::thalweg::Shape>) -> Self {
                    Self { over: ::core::convert::Into::into(shape) }
                }
            },
            quote!(&self,),
        ),
    };
    if by_row {
        let on_last = format!("{on} Rows are along the last axis.");
        let along = format!("The same with rows along an axis. {on}");
        let given: Vec<_> = inputs.iter().map(|input| input.clone().into_iter().next()).collect();
        return quote! {
            #(#conditions)*
            #[doc = #about]
            #[allow(non_camel_case_types, dead_code, reason = "named as its function")]
            #[derive(Clone, Copy)]
            #vis struct #name {}
            #(#conditions)*
            impl #name {
                #[doc = #on_last]
                #[track_caller]
                #[allow(dead_code, clippy::too_many_arguments, reason = "written by #[kernel]")]
                #vis fn on<#(#declared),*>(#(#inputs),*) -> #output {
                    #name::along::<#(#used),*>(-1 #(, #given)*)
                }
                #[doc = #along]
                #[track_caller]
                #[allow(dead_code, clippy::too_many_arguments, reason = "written by #[kernel]")]
                #vis fn along<#(#declared),*>(
                    axis: impl ::core::convert::Into<::thalweg::Axis>
                    #(, #inputs)*
                ) -> #output {
                    static KNOWN: ::thalweg::kernel::Prepared = ::thalweg::kernel::Prepared::new();
                    let over = ::thalweg::kernel::Over::Rows(::core::convert::Into::into(axis));
                    ::thalweg::kernel::Call::cached(&KNOWN, over, #plain, #text, &[#(#operands),*], |call| {
                        #name::<::thalweg::kernel::Traced #(, #used)*>(#(#arguments),*)
                    })
                }
            }
        };
    }
    let over = match (by_place, by_tile) {
        (true, _) => quote!(::thalweg::kernel::Over::Places(self.over)),
        (_, true) => quote!(::thalweg::kernel::Over::Tiles),
        _ => quote!(::thalweg::kernel::Over::Elements),
    };
    let body = quote! {
        static KNOWN: ::thalweg::kernel::Prepared = ::thalweg::kernel::Prepared::new();
        ::thalweg::kernel::Call::cached(&KNOWN, #over, #plain, #text, &[#(#operands),*], |call| {
            #name::<::thalweg::kernel::Traced #(, #used)*>(#(#arguments),*)
        })
    };
    quote! {
        #(#conditions)*
        #[doc = #about]
        #[allow(non_camel_case_types, dead_code, reason = "named as its function")]
        #[derive(Clone, Copy)]
        #vis struct #name { #fields }
        #(#conditions)*
        impl #name {
            #make_over
            #[doc = #on]
            #[track_caller]
            #[allow(dead_code, clippy::too_many_arguments, reason = "written by #[kernel]")]
            #vis fn on<#(#declared),*>(#receiver #(#inputs),*) -> #output {
                #body
            }
        }
    }
}

/// Generates an expression of type `Option`: the plain data of a call, by which calls are compared. `None` if some type
/// may not be comparable.
fn plain_data(plain: &[(Ident, Type)], constants: &[ConstParam]) -> TokenStream {
    if !plain.iter().all(|(_, ty)| is_compared(ty)) {
        return quote!(::core::option::Option::None);
    }
    let names = plain.iter().map(|(name, _)| name).chain(constants.iter().map(|c| &c.ident));
    quote!(::core::option::Option::Some(&::thalweg::kernel::Plain::new()#(.with(&#names))*))
}

/// Whether a plain type is known to be comparable: numbers, and arrays of them.
fn is_compared(ty: &Type) -> bool {
    const NUMBERS: [&str; 14] =
        ["i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize", "bool", "char", "f32", "f64"];
    match ty {
        Type::Path(path) => path.path.get_ident().is_some_and(|name| NUMBERS.iter().any(|n| name == n)),
        Type::Array(array) => is_compared(&array.elem),
        Type::Paren(inner) => is_compared(&inner.elem),
        Type::Group(inner) => is_compared(&inner.elem),
        _ => false,
    }
}

/// Wraps tokens as an expression that `syn` does not parse; the compiler checks it.
fn verbatim(tokens: TokenStream) -> Expr {
    Expr::Verbatim(tokens)
}
