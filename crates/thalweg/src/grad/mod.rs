//! Gradients: reverse mode on recorded operations.
//!
//! A tensor that is [`tracked`](Tensor::tracked) is a leaf. What is computed from it remembers how (`tape/` makes a
//! node for each operation), and a backward pass (`pass.rs`) applies the rule of each (`rules/`), which records
//! operations like any other code: forward and backward are planned together, and differentiate again.
//! docs/gradients.md tells the whole.

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
