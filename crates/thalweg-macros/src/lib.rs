//! The macros of `thalweg` and `thalweg-nn`.
//!
//! `#[kernel]` takes a function over numbers. It generates the function, in which language constructs that Rust cannot
//! overload (such as `if` and `<`) are replaced by calls, and its operation on tensors. `#[derive(Module)]` takes a
//! struct or an enum. It generates an implementation of `thalweg_nn::Module` that visits the fields in declaration
//! order. Invalid input is an error at the token in question; a macro never panics.

mod kernel;
mod module;

use proc_macro::TokenStream;

/// Derives `thalweg_nn::Module`, whose documentation describes the field attributes.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    module::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Defines a function over numbers as an operation on tensors, too; `thalweg::kernel` documents the kernel language.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, function: TokenStream) -> TokenStream {
    kernel::expand(options.into(), function.into()).into()
}
