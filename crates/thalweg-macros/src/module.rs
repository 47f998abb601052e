//! Implementation of `#[derive(Module)]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashMap;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, Ident, LitStr, Result, Type, Variant};

/// Options of a field, from its attribute `#[module(…)]`.
#[derive(Default)]
struct Options {
    /// Whether the field is skipped, because it holds no tensors.
    skip: bool,
    /// Component of tensor names that replaces the field's own name.
    name: Option<LitStr>,
    /// Whether the field adds no component to tensor names: its tensors are named as if they were this module's own.
    flatten: bool,
}

impl Options {
    fn parse(attributes: &[Attribute]) -> Result<Options> {
        let mut options = Options::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    options.skip = true;
                } else if meta.path.is_ident("flatten") {
                    options.flatten = true;
                } else if meta.path.is_ident("name") {
                    let name: LitStr = meta.value()?.parse()?;
                    check_name(&name)?;
                    options.name = Some(name);
                } else {
                    return Err(meta.error("not an option of #[module(..)]: there are skip, flatten and name = \"..\""));
                }
                Ok(())
            })?;
            if options.skip as u8 + options.flatten as u8 + options.name.is_some() as u8 > 1 {
                return Err(Error::new_spanned(attribute, "skip, flatten and name exclude each other"));
            }
        }
        Ok(options)
    }
}

fn check_name(name: &LitStr) -> Result<()> {
    let text = name.value();
    match text.is_empty() || text.contains(['.', '\0']) {
        true => Err(Error::new_spanned(name, "a part of a name is not empty and holds no dot (flatten leaves it out)")),
        false => Ok(()),
    }
}

/// A visited field: its binding, its component of tensor names (`None`: flattened), its type.
struct VisitedField<'a> {
    binding: Ident,
    name: Option<String>,
    ty: &'a Type,
}

/// Returns the pattern that binds the fields of a struct or variant, and the visited (not skipped) fields.
fn parts(fields: &Fields, transparent: bool) -> Result<(TokenStream, Vec<VisitedField<'_>>)> {
    let mut parts = Vec::new();
    let mut names: HashMap<String, Span> = HashMap::new();
    let (mut bindings, mut patterns) = (Vec::new(), Vec::new());
    for (at, field) in fields.iter().enumerate() {
        let options = Options::parse(&field.attrs)?;
        let binding = format_ident!("field_{at}", span = Span::mixed_site());
        bindings.push(if options.skip { quote!(_) } else { quote!(#binding) });
        if let (Some(ident), false) = (&field.ident, options.skip) {
            patterns.push(quote!(#ident: #binding));
        }
        if options.skip {
            continue;
        }
        let name = match (&options.name, &field.ident) {
            _ if options.flatten || transparent => None,
            (Some(name), _) => Some((name.value(), name.span())),
            (None, Some(ident)) => Some((unraw(ident), ident.span())),
            (None, None) => Some((at.to_string(), field.ty.span())),
        };
        if let Some((name, span)) = &name
            && names.insert(name.clone(), *span).is_some()
        {
            return Err(Error::new(*span, format!("two fields are named {name:?}")));
        }
        parts.push(VisitedField { binding, name: name.map(|n| n.0), ty: &field.ty });
    }
    let pattern = match fields {
        Fields::Named(_) => quote!({ #(#patterns,)* .. }),
        Fields::Unnamed(_) => quote!((#(#bindings),*)),
        Fields::Unit => quote!(),
    };
    Ok((pattern, parts))
}

fn unraw(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map(str::to_string).unwrap_or(text)
}

/// Generates the calls of a trait method for each visited field.
fn calls(parts: &[VisitedField<'_>], method: &str) -> TokenStream {
    let calls = parts.iter().map(|VisitedField { binding, name, ty }| {
        let method = Ident::new(method, Span::mixed_site());
        // Uses the span of the type, so that a field whose type is no module is an error there.
        let call = quote_spanned!(ty.span()=> <#ty as ::thalweg_nn::Module>::#method(#binding, path, f););
        match name {
            Some(name) => quote!(path.part(#name, |path| { #call });),
            None => call,
        }
    });
    quote!(#(#calls)*)
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(attribute) = input.attrs.iter().find(|a| a.path().is_ident("module")) {
        return Err(Error::new_spanned(attribute, "#[module(..)] goes with a field"));
    }
    let (mut visits, mut changes) = (Vec::new(), Vec::new());
    let mut arm = |head: TokenStream, fields: &Fields, transparent: bool| -> Result<()> {
        let (pattern, parts) = parts(fields, transparent)?;
        let (visit, change) = (calls(&parts, "visit"), calls(&parts, "visit_mut"));
        visits.push(quote!(#head #pattern => { #visit }));
        changes.push(quote!(#head #pattern => { #change }));
        Ok(())
    };
    let mut all: Vec<&Field> = Vec::new();
    match &input.data {
        Data::Struct(data) => {
            all.extend(&data.fields);
            arm(quote!(Self), &data.fields, false)?;
        }
        Data::Enum(data) => {
            for Variant { ident, fields, attrs, .. } in &data.variants {
                if let Some(attribute) = attrs.iter().find(|a| a.path().is_ident("module")) {
                    return Err(Error::new_spanned(attribute, "#[module(..)] goes with a field"));
                }
                all.extend(fields);
                // An enum of modules: the variant is not part of the names.
                let transparent = matches!(fields, Fields::Unnamed(f) if f.unnamed.len() == 1);
                arm(quote!(Self::#ident), fields, transparent)?;
            }
            if data.variants.is_empty() {
                return Err(Error::new_spanned(&input.ident, "an enum without variants is no module"));
            }
        }
        Data::Union(data) => {
            return Err(Error::new_spanned(
                data.union_token,
                "Module is derived for structs and enums, not for unions",
            ));
        }
    }
    let name = &input.ident;
    let mut generics = input.generics.clone();
    let parameters: Vec<Ident> = generics.type_params().map(|p| p.ident.clone()).collect();
    // Fields with generic types get a bound; missing implementations of other types are reported at the field.
    let mut bounds = Vec::new();
    for field in all {
        if !Options::parse(&field.attrs)?.skip && mentions(&field.ty, &parameters) {
            bounds.push(&field.ty);
        }
    }
    if !bounds.is_empty() {
        let clause = generics.make_where_clause();
        bounds.iter().for_each(|ty| clause.predicates.push(syn::parse_quote!(#ty: ::thalweg_nn::Module)));
    }
    let (of, types, clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #of ::thalweg_nn::Module for #name #types #clause {
            #[allow(unused_variables, reason = "a module without tensors uses neither")]
            fn visit(
                &self,
                path: &mut ::thalweg_nn::NamePath,
                f: &mut dyn FnMut(&str, ::thalweg_nn::Kind, &::thalweg_nn::Tensor),
            ) {
                match self { #(#visits)* }
            }
            #[allow(unused_variables, reason = "a module without tensors uses neither")]
            fn visit_mut(
                &mut self,
                path: &mut ::thalweg_nn::NamePath,
                f: &mut dyn FnMut(&str, ::thalweg_nn::Slot<'_>),
            ) {
                match self { #(#changes)* }
            }
        }
    })
}

/// Whether a type mentions one of these type parameters.
fn mentions(ty: &Type, parameters: &[Ident]) -> bool {
    fn any(tokens: TokenStream, parameters: &[Ident]) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(ident) => parameters.contains(&ident),
            proc_macro2::TokenTree::Group(group) => any(group.stream(), parameters),
            _ => false,
        })
    }
    any(quote!(#ty), parameters)
}
