//! Functions with a user-defined backward pass.
//!
//! In: inputs, a function of them, and the rule that propagates gradients from its results to the inputs. Out: the
//! results, which share one node: a pass calls the rule once, with the gradients of all results. Always true: gradients
//! from the rule are checked against the inputs before they are added to anything.

use super::Inputs;
use crate::tape::{self, JointRule};
use crate::{Shape, Tensor};
use std::panic::Location;

/// Arguments of a user-defined backward pass: see [`custom_grad`].
pub struct Backward<X, Y> {
    /// The inputs, in the form that the function took.
    pub inputs: X,
    /// The results, in the form that the function returned.
    pub outputs: Y,
    /// The gradient of each result, in the same form; zeros for a result without one.
    pub gradients: Y,
}

/// Results of a function with a user-defined backward pass: a tensor, a tuple of up to four, an array, a list.
pub trait Results: Sized {
    /// Result tensors in order.
    fn tensors(&self) -> Vec<&Tensor>;
    /// Results in their form, from as many tensors as it has.
    fn from_tensors(tensors: Vec<Tensor>) -> Self;
}

/// Return value of a backward pass: the gradient of each input, in the form of the inputs. `None` is for an input
/// without one: an index, a mask, a constant.
pub trait InputGradients {
    /// Gradients of the inputs in order.
    fn list(self) -> Vec<Option<Tensor>>;
}

impl Results for Tensor {
    fn tensors(&self) -> Vec<&Tensor> {
        vec![self]
    }
    fn from_tensors(tensors: Vec<Tensor>) -> Tensor {
        tensors.into_iter().next().expect("there is one for each")
    }
}

impl<const N: usize> Results for [Tensor; N] {
    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().collect()
    }
    fn from_tensors(tensors: Vec<Tensor>) -> [Tensor; N] {
        tensors.try_into().unwrap_or_else(|_| unreachable!("there is one for each"))
    }
}

impl Results for Vec<Tensor> {
    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().collect()
    }
    fn from_tensors(tensors: Vec<Tensor>) -> Vec<Tensor> {
        tensors
    }
}

impl InputGradients for Tensor {
    fn list(self) -> Vec<Option<Tensor>> {
        vec![Some(self)]
    }
}

impl InputGradients for Option<Tensor> {
    fn list(self) -> Vec<Option<Tensor>> {
        vec![self]
    }
}

impl<const N: usize, T: Into<Option<Tensor>>> InputGradients for [T; N] {
    fn list(self) -> Vec<Option<Tensor>> {
        self.into_iter().map(T::into).collect()
    }
}

impl<T: Into<Option<Tensor>>> InputGradients for Vec<T> {
    fn list(self) -> Vec<Option<Tensor>> {
        self.into_iter().map(T::into).collect()
    }
}

macro_rules! results {
    ($(($($n:tt)+))*) => {$(
        impl Results for ($(results!(tensor $n),)+) {
            fn tensors(&self) -> Vec<&Tensor> {
                vec![$(&self.$n),+]
            }
            fn from_tensors(tensors: Vec<Tensor>) -> Self {
                let mut each = tensors.into_iter();
                ($({ let _ = $n; each.next().expect("there is one for each") },)+)
            }
        }
    )*};
    (tensor $n:tt) => { Tensor };
}
results! { (0) (0 1) (0 1 2) (0 1 2 3) }

macro_rules! gradients {
    ($($($t:ident $n:tt)+;)*) => {$(
        impl<$($t: Into<Option<Tensor>>),+> InputGradients for ($($t,)+) {
            fn list(self) -> Vec<Option<Tensor>> {
                vec![$(self.$n.into()),+]
            }
        }
    )*};
}
gradients! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

/// The result of `forward`, with `backward` as its derivative in place of that of its operations, as
/// `torch.autograd.Function`. Use it where there is a better formula, or for a gradient that differs from the
/// function's own.
///
/// `forward` is called at once; `backward` once per pass, when it reaches the results. Both record operations like any
/// other code, so they fuse with the operations around them. Inputs and results are saved for the pass like those of
/// any operation: the planner decides which of them are written if the stream is cut in between. Second derivatives are
/// those of `backward`, if it uses the inputs it is passed.
///
/// ```
/// # use thalweg::{Backward, Tensor, custom_grad, grad};
/// // softplus by a formula that holds for large numbers, and its derivative
/// let softplus = |x: &Tensor| custom_grad(
///     x,
///     |x| x.relu() + (-x.abs()).exp().log1p(),
///     |Backward { inputs: x, gradients: dy, .. }| dy * x.sigmoid(),
/// );
/// let x = Tensor::new([0.0f32, 100.0]).tracked();
/// assert_eq!(grad(&softplus(&x).sum(..), &x).to_vec::<f32>()?, [0.5, 1.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Panics
/// When a result depends on a tracked tensor that is not an input, because its gradient would be lost. The backward
/// pass panics when the number of gradients is not that of the inputs, or one has another shape or dtype than its
/// input.
#[track_caller]
pub fn custom_grad<I, Y, G>(
    inputs: I,
    forward: impl FnOnce(I::Each) -> Y,
    backward: impl Fn(Backward<I::Each, Y>) -> G + Send + Sync + 'static,
) -> Y
where
    I: Inputs<Each: 'static>,
    Y: Results,
    G: InputGradients,
{
    let from: Vec<Tensor> = inputs.tensors().into_iter().cloned().collect();
    let y = forward(inputs.form()(from.iter().map(Tensor::detach).collect()));
    if let Some(y) = y.tensors().iter().find(|y| y.is_tracked()) {
        panic!(
            "custom_grad: the result of shape {} comes from a tracked tensor that is no input, whose gradient would be \
             lost; make it an input, or .detach() it",
            y.shape()
        );
    }
    let form = inputs.form();
    let rule = move |args: Vec<Tensor>, outputs: Vec<Tensor>, gradients: Vec<Tensor>| {
        let (inputs, outputs) = (form(args), Y::from_tensors(outputs));
        backward(Backward { inputs, outputs, gradients: Y::from_tensors(gradients) }).list()
    };
    let values: Vec<_> = y.tensors().iter().map(|y| y.value.clone()).collect();
    Y::from_tensors(tape::joint(&values, "custom_grad", &from, checked("custom_grad", rule)))
}

/// Rule of a custom gradient, whose gradients are checked. Results without a gradient get zeros.
#[track_caller]
pub(crate) fn checked(
    name: &'static str,
    rule: impl Fn(Vec<Tensor>, Vec<Tensor>, Vec<Tensor>) -> Vec<Option<Tensor>> + Send + Sync + 'static,
) -> Box<JointRule> {
    let at = Location::caller();
    Box::new(move |args, results, dys| {
        let zeros = |y: &Tensor| Tensor::zeros_with(*y.shape(), (y.dtype(), y.device()));
        let dys = results.iter().zip(dys).map(|(y, dy)| dy.unwrap_or_else(|| zeros(y))).collect();
        let found = rule(args.to_vec(), results.to_vec(), dys);
        if found.len() != args.len() {
            panic!("{name} at {at}: its backward gives {} gradients for {} inputs", found.len(), args.len());
        }
        for (i, (x, dx)) in args.iter().zip(&found).enumerate() {
            let Some(dx) = dx else { continue };
            let kind = |t: &Tensor| -> (Shape, _) { (*t.shape(), t.dtype()) };
            if kind(x) != kind(dx) {
                panic!(
                    "{name} at {at}: its backward gives {}{} for input {i}, which is {}{}",
                    dx.dtype(),
                    dx.shape(),
                    x.dtype(),
                    x.shape()
                );
            }
        }
        found
    })
}
