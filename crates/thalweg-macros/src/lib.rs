//! The derive macro of `thalweg-nn`.
//!
//! In: a struct or an enum. Out: an implementation of `thalweg_nn::Module` that goes over its fields in the order they
//! are written. What cannot be derived is one error at the token that it is about. The documentation of the macro is
//! with the trait.

mod module;

use proc_macro::TokenStream;

/// Derives `thalweg_nn::Module`: see there.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    module::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
