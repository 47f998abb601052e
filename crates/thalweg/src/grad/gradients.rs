//! [`Gradients`]: the result of a backward pass.

use super::pass::PassResult;
use crate::Tensor;
use crate::node::Cut;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::sync::OnceLock;

/// Gradients of a scalar with respect to every [tracked](Tensor::tracked) tensor that it was computed from.
///
/// `gradients[&w]` is the gradient of `w`: zeros for a leaf that the scalar does not depend on, and a panic with the
/// reason if there is none. [`get`](Gradients::get) returns `None` in both of these cases.
///
/// ```
/// # use thalweg::Tensor;
/// let (w, x) = (Tensor::new([2.0f32, -1.0]).tracked(), Tensor::new([3.0f32, 5.0]));
/// let gradients = (&w * &x).sum(..).backward();
/// assert_eq!(gradients[&w].to_vec::<f32>()?, [3.0, 5.0]);
/// assert!(gradients.get(&x).is_none());
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Gradients {
    /// Gradients by the id of the leaf, so in the order in which leaves were tracked.
    of: BTreeMap<u64, Tensor>,
    /// Operations without a gradient that the pass met, for the message about a missing one.
    cuts: Vec<Cut>,
    /// Requested zeros of leaves that the scalar does not depend on.
    zeros: OnceLock<Box<Zero>>,
}

/// Gradient of zeros, in an append-only list, so that references to it stay valid.
#[derive(Clone)]
struct Zero {
    id: u64,
    gradient: Tensor,
    next: OnceLock<Box<Zero>>,
}

impl Gradients {
    pub(super) fn new(found: PassResult) -> Gradients {
        Gradients { of: found.grads.into_iter().collect(), cuts: found.cuts, zeros: OnceLock::new() }
    }

    /// The gradient of a tracked tensor (or of a clone of it), if there is one.
    pub fn get(&self, tensor: &Tensor) -> Option<&Tensor> {
        tensor.node.as_ref().and_then(|n| self.of.get(&n.id))
    }

    /// Zeros as the gradient of a leaf that the scalar does not depend on.
    fn zero(&self, id: u64, leaf: &Tensor) -> &Tensor {
        let mut place = &self.zeros;
        loop {
            let new = || Box::new(Zero { id, gradient: leaf.detach().zeros_like(), next: OnceLock::new() });
            let zero = place.get_or_init(new);
            if zero.id == id {
                return &zero.gradient;
            }
            place = &zero.next;
        }
    }

    /// Whether there is a gradient of a tensor.
    pub fn contains(&self, tensor: &Tensor) -> bool {
        self.get(tensor).is_some()
    }

    /// Removes and returns the gradient of a tensor.
    pub fn take(&mut self, tensor: &Tensor) -> Option<Tensor> {
        tensor.node.as_ref().and_then(|n| self.of.remove(&n.id))
    }

    /// Replaces the gradient of a tensor, and returns the previous one.
    ///
    /// # Panics
    /// When the tensor is not a tracked leaf, or the gradient has another shape or dtype.
    #[track_caller]
    pub fn set(&mut self, tensor: &Tensor, gradient: Tensor) -> Option<Tensor> {
        let Some(node) = tensor.node.as_ref().filter(|n| n.is_leaf()) else {
            panic!("set: the tensor of shape {} is no tracked leaf", tensor.shape())
        };
        if (gradient.shape(), gradient.dtype()) != (tensor.shape(), tensor.dtype()) {
            panic!(
                "set: a gradient {}{} for a tensor {}{}",
                gradient.dtype(),
                gradient.shape(),
                tensor.dtype(),
                tensor.shape()
            );
        }
        self.of.insert(node.id, gradient)
    }

    /// Adds the gradients of another pass, tensor by tensor: gradient accumulation over several batches.
    ///
    /// ```
    /// # use thalweg::{Gradients, Tensor};
    /// let w = Tensor::new([1.0f32, 2.0]).tracked();
    /// let mut all = Gradients::default();
    /// for batch in [3.0, 4.0] {
    ///     all.add(&(&w * batch).sum(..).backward());
    /// }
    /// assert_eq!(all[&w].to_vec::<f32>()?, [7.0, 7.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn add(&mut self, other: &Gradients) {
        for (&id, gradient) in &other.of {
            let sum = self.of.get(&id).map_or_else(|| gradient.clone(), |own| own + gradient);
            self.of.insert(id, sum);
        }
        self.cuts.extend(&other.cuts);
        self.cuts.sort_unstable();
        self.cuts.dedup();
    }

    /// The gradients, in the order in which their tensors were tracked.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.of.values()
    }

    /// Iterates over the gradients for changes, such as scaling or clipping.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Tensor> {
        self.of.values_mut()
    }

    /// The number of gradients.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there are no gradients.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

impl Index<&Tensor> for Gradients {
    type Output = Tensor;

    /// The gradient of a tracked tensor; zeros if the scalar does not depend on it.
    ///
    /// # Panics
    /// When there is none: the tensor is not tracked, or the scalar depends on it only through steps, integers or bools.
    #[track_caller]
    fn index(&self, tensor: &Tensor) -> &Tensor {
        match (self.get(tensor), &tensor.node) {
            (Some(gradient), _) => gradient,
            (None, Some(node)) if node.is_leaf() && self.cuts.is_empty() => self.zero(node.id, tensor),
            (None, _) => missing(tensor, &self.cuts),
        }
    }
}

impl fmt::Debug for Gradients {
    /// Prints dtypes and shapes; computes nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shapes = self.of.values().map(|g| format!("{}{}", g.dtype(), g.shape()));
        f.debug_list().entries(shapes).finish()
    }
}

#[cold]
#[track_caller]
fn missing(tensor: &Tensor, cuts: &[Cut]) -> ! {
    let shape = tensor.shape();
    match &tensor.node {
        None => panic!(
            "no gradient of the tensor of shape {shape}: it is not tracked; call .tracked() on it before computing with \
             it"
        ),
        Some(node) if !node.is_leaf() => panic!(
            "no gradient of the tensor of shape {shape}: it is the result of `{}`, and `backward` gives those of \
             tracked leaves; ask for it with `grad(&loss, &tensor)`",
            node.name()
        ),
        Some(_) => {
            panic!("no gradient of the tensor of shape {shape}: the result does not depend on it{}", through(cuts))
        }
    }
}

/// Message with the possible reasons for a missing gradient.
pub(super) fn through(cuts: &[Cut]) -> String {
    if cuts.is_empty() {
        return " (or only through detach() or no_grad())".into();
    }
    let named: Vec<String> = cuts.iter().take(4).map(|cut| format!("`{}` at {}", cut.name, cut.at)).collect();
    format!(
        ", or only through {}, which no gradient goes through (a step, an integer or a bool); for a straight-through \
         estimate write x + (step(x) - x).detach()",
        named.join(", ")
    )
}
