//! The macros of `thalweg` and `thalweg-nn`.
//!
//! `#[kernel]`, in: a function over numbers. Out: the function with what Rust cannot overload rewritten, and its
//! operation on tensors. `#[derive(Module)]`, in: a struct or an enum. Out: an implementation of `thalweg_nn::Module`
//! that goes over its fields in the order they are written. What cannot be is one error at the token that it is about;
//! no tokens make a macro panic.

mod kernel;
mod module;

use proc_macro::TokenStream;

/// Derives `thalweg_nn::Module`: see there.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    module::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a function over numbers an operation on tensors, too: see `thalweg::kernel`.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, function: TokenStream) -> TokenStream {
    kernel::expand(options.into(), function.into()).into()
}
