//! The macros of `thalweg` and `thalweg-nn`.
//!
//! `#[kernel]` takes a function over numbers; it generates the function with what Rust cannot overload rewritten, and
//! its operation on tensors. `#[derive(Module)]` takes a struct or an enum; it generates an implementation of
//! `thalweg_nn::Module` that visits its fields in the order they are written. Invalid input is an error at the token in
//! question; a macro never panics.

mod kernel;
mod module;

use proc_macro::TokenStream;

/// Derives `thalweg_nn::Module`; see there.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    module::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a function over numbers an operation on tensors, too; see `thalweg::kernel`.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, function: TokenStream) -> TokenStream {
    kernel::expand(options.into(), function.into()).into()
}
