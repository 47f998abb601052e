//! Gradients: reverse-mode differentiation of recorded operations.
//!
//! A [`tracked`](Tensor::tracked) tensor is a leaf. Results computed from it remember how (`tape/` builds a node for
//! each operation). A backward pass (`pass.rs`) applies the rule of each (`rules/`), which records operations like any
//! other code: forward and backward are planned together, and the result can be differentiated again. docs/gradients.md
//! describes all of it.

mod coming;
mod custom;
mod functions;
mod gradients;
mod inputs;
mod pass;
mod rules;

pub(crate) use custom::checked;
pub use custom::{Backward, InputGradients, Results, custom_grad};
pub(crate) use functions::gradients_of;
pub use functions::{checkpoint, grad, grad_graph, hessian, is_recomputing, jacobian, jvp, no_grad, retain_graph, vjp};
pub use gradients::Gradients;
pub use inputs::{Form, Inputs};
