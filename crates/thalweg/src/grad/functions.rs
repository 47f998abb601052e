//! Public functions and methods for gradients.

use super::Gradients;
use super::gradients::through;
use super::inputs::Inputs;
use super::pass::{self, PassMode, Wanted};
use crate::node::{Node, What};
use crate::tape::{self, Rule, Tracking};
use crate::{Options, Shape, Tensor, random};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

thread_local! {
    /// Whether backward passes retain the graph.
    static KEEPING: Cell<bool> = const { Cell::new(false) };
}

/// Options of `backward` and `grad` on this thread.
fn way() -> PassMode {
    PassMode { create: false, keep: KEEPING.get() }
}

const CREATING: PassMode = PassMode { create: true, keep: true };

/// # Gradients
///
/// Reverse-mode differentiation. Related free functions: [`grad`], [`grad_graph`], [`no_grad`], [`retain_graph`],
/// [`custom_grad`](crate::custom_grad), [`checkpoint`](crate::checkpoint), [`vjp`](crate::vjp()),
/// [`jvp`](crate::jvp()), [`jacobian`](crate::jacobian()), [`hessian`](crate::hessian()).
impl Tensor {
    /// A leaf with this value, whose gradient [`backward`](Tensor::backward) returns, as `requires_grad_()` in PyTorch:
    /// results computed from it are tracked, too. Clones are the same leaf; a leaf returns itself. For a computed
    /// tensor the result is a new leaf, which stops gradients as [`detach`](Tensor::detach) does, so
    /// `w = (&w - &gradients[&w] * 0.1).tracked()` is a step of gradient descent.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0, 3.0]).tracked();
    /// let gradients = x.square().sum(..).backward();
    /// assert_eq!(gradients[&x].to_vec::<f32>()?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float.
    #[track_caller]
    pub fn tracked(&self) -> Tensor {
        crate::record::check_float("tracked", self);
        match &self.node {
            Some(node) if node.is_leaf() => self.clone(),
            _ => tape::leaf(&self.value),
        }
    }

    /// Whether gradients flow through this tensor (`requires_grad` in PyTorch): it is a leaf, or was computed from one
    /// by operations with derivatives.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let w = Tensor::ones([2]).tracked();
    /// assert!((&w * 2.0).is_tracked() && !w.detach().is_tracked());
    /// ```
    pub fn is_tracked(&self) -> bool {
        self.node.as_ref().is_some_and(|n| n.carries())
    }

    /// An untracked handle to this value: a constant in every backward pass. Records no operation.
    ///
    /// See also [`no_grad`](crate::no_grad) for a whole function.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let w = Tensor::new(3.0f32).tracked();
    /// let y = &w * w.detach();                     // the second factor is a constant
    /// assert_eq!(y.backward()[&w].item::<f32>()?, 3.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn detach(&self) -> Tensor {
        Tensor::of(self.value.clone())
    }

    /// The gradients of this scalar with respect to all tracked tensors that it was computed from. It only records
    /// operations: read the loss after it, and forward and backward pass are planned together. Unlike in PyTorch,
    /// gradients are returned, not stored in the tensors.
    ///
    /// The saved values of the graph are freed; a second pass through it panics ([`retain_graph`]).
    ///
    /// ```
    /// # use thalweg::{Reduction, Tensor};
    /// let (x, target) = (Tensor::randn([8, 3]), Tensor::zeros([8, 1]));
    /// let mut w = Tensor::randn([3, 1]).tracked();
    /// for _ in 0..10 {
    ///     let loss = x.matmul(&w).mse_loss(&target, Reduction::Mean);
    ///     let gradients = loss.backward();
    ///     w = (&w - &gradients[&w] * 0.1).tracked();
    ///     println!("{}", loss.item::<f32>()?);
    /// }
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When this has more than one element, it was computed from no tracked tensor, or a pass has freed the graph.
    #[track_caller]
    pub fn backward(&self) -> Gradients {
        let seed = self.seed("backward");
        Gradients::new(pass::run("backward", self.root("backward"), seed, &Wanted::Leaves, way()))
    }

    /// The gradients of `Σ self·dy`: [`backward`](Tensor::backward) from a result of any shape with its gradient `dy`,
    /// as `y.backward(dy)` in PyTorch.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0]).tracked();
    /// let gradients = x.square().backward_with(&Tensor::new([1.0f32, 10.0]));
    /// assert_eq!(gradients[&x].to_vec::<f32>()?, [2.0, 40.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shape or dtype differ, and as [`backward`](Tensor::backward).
    #[track_caller]
    pub fn backward_with(&self, dy: &Tensor) -> Gradients {
        check_alike("backward_with", self, dy);
        Gradients::new(pass::run("backward_with", self.root("backward_with"), dy.detach(), &Wanted::Leaves, way()))
    }

    /// As [`backward`](Tensor::backward); calls `ready` with the index of each of `leaves` and its gradient as soon as that
    /// is recorded in full, while the rest of the pass is not. So its use can start early: a collective over several
    /// GPUs, say.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (w, v) = (Tensor::new([2.0f32, 3.0]).tracked(), Tensor::new([1.0f32, 4.0]).tracked());
    /// let loss = ((&w * 5.0).exp().log() * &v).sum(..);
    /// let mut order = vec![];
    /// let gradients = loss.backward_observed(&[&w, &v], |leaf, gradient| {
    ///     assert_eq!(gradient.dims(), [2]);
    ///     order.push(leaf);
    /// });
    /// assert_eq!((order, gradients.len()), (vec![1, 0], 2));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`backward`](Tensor::backward), and when one of `leaves` is not a tracked leaf.
    #[track_caller]
    pub fn backward_observed(&self, leaves: &[impl AsRef<Tensor>], mut ready: impl FnMut(usize, &Tensor)) -> Gradients {
        let mut indices: HashMap<u64, usize> = HashMap::with_capacity(leaves.len());
        for (i, leaf) in leaves.iter().enumerate() {
            match leaf.as_ref().node.as_ref().filter(|node| node.is_leaf()) {
                Some(node) => indices.insert(node.id, i),
                None => panic!("backward_observed: tensor {i} of shape {} is no tracked leaf", leaf.as_ref().shape()),
            };
        }
        let mut observe = |id: u64, gradient: &Tensor| {
            if let Some(&at) = indices.get(&id) {
                ready(at, gradient);
            }
        };
        let (seed, root) = (self.seed("backward"), self.root("backward"));
        Gradients::new(pass::run_observed("backward", root, seed, &Wanted::Leaves, way(), Some(&mut observe)))
    }

    /// This tensor with a hook on its gradient, as `register_hook` in PyTorch: a pass replaces the gradient by `f` of
    /// it, to clip, scale or inspect it. `f` is called once per backward pass and may record operations. Use the
    /// result, not `self`. An untracked tensor is returned as it is.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, -30.0]).tracked();
    /// let gradients = x.on_grad(|g| g.clamp(-1.0, 1.0)).square().sum(..).backward();
    /// assert_eq!(gradients[&x].to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// The backward pass panics when `f` returns another shape or dtype.
    pub fn on_grad(&self, f: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) -> Tensor {
        let rule: Box<Rule> = Box::new(move |_, _, dy| {
            let new = f(&dy);
            check_alike("on_grad", &dy, &new);
            vec![Some(new)]
        });
        tape::own(&self.value, "on_grad", (std::slice::from_ref(self), false), vec![], rule)
    }

    /// Initial gradient of a backward pass: 1, for a tensor of one element.
    #[track_caller]
    fn seed(&self, name: &str) -> Tensor {
        if self.numel() != 1 {
            panic!(
                "{name}: takes one element, not shape {}; reduce it (.mean(..), .sum(..)), or give its gradient with \
                 .backward_with(&dy)",
                self.shape()
            );
        }
        self.detach().ones_like()
    }

    /// Node of this tensor, where a backward pass begins.
    #[track_caller]
    fn root(&self, name: &str) -> &Arc<Node> {
        match &self.node {
            Some(node) => match node.what {
                What::Cut(cut) => panic!(
                    "{name}: no gradient goes through `{}` at {}, which this comes from (a step, an integer or a bool); \
                     for a straight-through estimate write x + (step(x) - x).detach()",
                    cut.name, cut.at
                ),
                _ => node,
            },
            None => panic!(
                "{name}: nothing that this tensor of shape {} was computed from is tracked; call .tracked() on what \
                 gradients are wanted of before computing with it (detach() and no_grad() end it)",
                self.shape()
            ),
        }
    }
}

#[track_caller]
fn check_alike(name: &str, y: &Tensor, dy: &Tensor) {
    if (y.shape(), y.dtype()) != (dy.shape(), dy.dtype()) {
        panic!("{name}: a gradient {}{} for a tensor {}{}", dy.dtype(), dy.shape(), y.dtype(), y.shape());
    }
}

/// Gradients of `y` with respect to the inputs, in the form of `inputs`.
#[track_caller]
fn asked<I: Inputs>(name: &str, y: &Tensor, dy: Tensor, inputs: &I, way: PassMode) -> I::Each {
    let tensors = inputs.tensors();
    let mut nodes: Vec<Arc<Node>> = Vec::with_capacity(tensors.len());
    for (i, x) in tensors.iter().enumerate() {
        match &x.node {
            Some(node) if node.carries() => nodes.push(node.clone()),
            _ => panic!(
                "{name}: input {i} of shape {} is not tracked; call .tracked() on it before computing with it",
                x.shape()
            ),
        }
    }
    let found = pass::run(name, y.root(name), dy, &Wanted::Nodes(&nodes), way);
    let mut each = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        match found.get(node.id) {
            Some(gradient) => each.push(gradient.clone()),
            None if found.cuts.is_empty() => each.push(tensors[i].detach().zeros_like()),
            None => panic!(
                "{name}: the result does not depend on input {i} of shape {}{}",
                tensors[i].shape(),
                through(&found.cuts)
            ),
        }
    }
    inputs.form()(each)
}

/// The gradients of a scalar with respect to tracked tensors; `None` for those that it does not depend on. With
/// `create` they are tracked themselves.
#[track_caller]
pub(crate) fn gradients_of(name: &str, y: &Tensor, x: &[Tensor], create: bool) -> Vec<Option<Tensor>> {
    let nodes: Vec<Arc<Node>> = x.iter().filter_map(|x| x.node.clone()).collect();
    assert_eq!(nodes.len(), x.len(), "each is tracked");
    let way = if create { CREATING } else { PassMode { create: false, keep: false } };
    let found = pass::run(name, y.root(name), y.seed(name), &Wanted::Nodes(&nodes), way);
    nodes.iter().map(|n| found.get(n.id).cloned()).collect()
}

/// The gradients of a scalar with respect to tracked tensors, as `torch.autograd.grad`, in the form of the inputs: one,
/// a tuple, an array, a list ([`Inputs`]). They need not be leaves. Frees the graph, as [`Tensor::backward`] does.
///
/// ```
/// # use thalweg::{Tensor, grad};
/// let (x, y) = (Tensor::new(3.0f32).tracked(), Tensor::new(4.0f32).tracked());
/// let r = (x.square() + y.square()).sqrt();
/// let (dx, dy) = grad(&r, (&x, &y));
/// assert_eq!((dx.item::<f32>()?, dy.item::<f32>()?), (0.6, 0.8));
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Panics
/// When the result has more than one element, it was computed from no tracked tensor, it depends on an input only
/// through steps, integers or bools, or a pass has freed the graph. The gradient with respect to an input that it does
/// not depend on is 0.
#[track_caller]
pub fn grad<I: Inputs>(result: &Tensor, inputs: I) -> I::Each {
    asked("grad", result, result.seed("grad"), &inputs, way())
}

/// [`grad`] with gradients that are tracked themselves, for second derivatives (`create_graph=True` in PyTorch). The
/// graph is retained.
///
/// ```
/// # use thalweg::{Tensor, grad, grad_graph};
/// let x = Tensor::new(2.0f32).tracked();
/// let slope = grad_graph(&x.powi(3), &x);
/// assert_eq!(grad(&slope, &x).item::<f32>()?, 12.0);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Panics
/// As [`grad`].
#[track_caller]
pub fn grad_graph<I: Inputs>(result: &Tensor, inputs: I) -> I::Each {
    asked("grad_graph", result, result.seed("grad_graph"), &inputs, CREATING)
}

/// Calls `f` without tracking on this thread, as `torch.no_grad`: its results are constants, and nothing is saved for a
/// backward pass.
///
/// ```
/// # use thalweg::{Tensor, no_grad};
/// let w = Tensor::ones([2]).tracked();
/// assert!(!no_grad(|| &w * 2.0).is_tracked());
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _tracking = Tracking::set(false);
    f()
}

/// Calls `f` with backward passes on this thread that retain the graph, so that another pass can use it.
///
/// ```
/// # use thalweg::{Tensor, grad, retain_graph};
/// let x = Tensor::new(3.0f32).tracked();
/// let y = x.square();
/// let first = retain_graph(|| grad(&y, &x));
/// assert_eq!(first.item::<f32>()?, grad(&y, &x).item::<f32>()?);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn retain_graph<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the previous setting, also when a panic unwinds.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            KEEPING.set(self.0);
        }
    }
    let _restore = Restore(KEEPING.replace(true));
    f()
}

/// New leaves with the values of these inputs (inputs of other dtypes than floats are detached), and the result of `f`
/// on them.
fn on_leaves<I: Inputs>(f: impl FnOnce(I::Each) -> Tensor, inputs: &I) -> (Vec<Tensor>, Tensor) {
    let leaf = |x: &&Tensor| if x.dtype().is_float() { tape::leaf(&x.value) } else { x.detach() };
    let leaves: Vec<Tensor> = inputs.tensors().iter().map(leaf).collect();
    let _tracking = Tracking::set(true);
    let y = f(inputs.form()(leaves.clone()));
    (leaves, y)
}

/// The result of a function, and a function that propagates a gradient of it to the inputs (a vector-Jacobian product),
/// as `torch.func.vjp`. It can be called any number of times.
///
/// ```
/// # use thalweg::{Tensor, vjp};
/// let x = Tensor::new([1.0f32, 2.0]);
/// let (y, pull) = vjp(|x| x.square(), &x);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(pull(&Tensor::new([1.0f32, 10.0])).to_vec::<f32>()?, [2.0, 40.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Panics
/// The returned function panics when its argument has another shape or dtype than the result, or the result does not
/// depend on an input.
pub fn vjp<I: Inputs>(f: impl FnOnce(I::Each) -> Tensor, inputs: I) -> (Tensor, impl Fn(&Tensor) -> I::Each) {
    let (leaves, y) = on_leaves(f, &inputs);
    let (form, result) = (inputs.form(), y.detach());
    let pull = move |dy: &Tensor| {
        check_alike("vjp", &y, dy);
        form(asked("vjp", &y, dy.detach(), &leaves.as_slice(), PassMode { create: false, keep: true }))
    };
    (result, pull)
}

/// The result of a function, and its derivative along tangents of the inputs (a Jacobian-vector product), as
/// `torch.func.jvp`. The tangents have the inputs' form.
///
/// It is the gradient of `v ↦ vjp(v)`, which is linear (Townsend 2017). The first pass is never computed, since nothing
/// reads it.
///
/// ```
/// # use thalweg::{Tensor, jvp};
/// let (x, dx) = (Tensor::new([1.0f32, 2.0]), Tensor::new([1.0f32, 10.0]));
/// let (y, dy) = jvp(|x| x.square(), &x, &dx);
/// assert_eq!((y.to_vec::<f32>()?, dy.to_vec::<f32>()?), (vec![1.0, 4.0], vec![2.0, 40.0]));
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Panics
/// When a tangent has another shape or dtype than its input, or the result does not depend on an input.
#[track_caller]
pub fn jvp<I: Inputs, T: Inputs>(f: impl FnOnce(I::Each) -> Tensor, inputs: I, tangents: T) -> (Tensor, Tensor) {
    let (leaves, y) = on_leaves(f, &inputs);
    let tangents = tangents.tensors();
    if tangents.len() != leaves.len() {
        panic!("jvp: {} tangents for {} inputs", tangents.len(), leaves.len());
    }
    for (x, dx) in leaves.iter().zip(&tangents) {
        check_alike("jvp", x, dx);
    }
    let v = tape::leaf(&y.detach().ones_like().value);
    let _tracking = Tracking::set(true);
    let pulled = asked("jvp", &y, v.clone(), &leaves.as_slice(), CREATING);
    let products = pulled.iter().zip(&tangents).map(|(g, dx)| (g * dx.detach()).sum(..));
    let sum = products.reduce(|a, b| a + b).expect("there is an input");
    let dy = asked("jvp", &sum, sum.seed("jvp"), &&v, PassMode { create: false, keep: false });
    (y.detach(), dy)
}

/// Gradients of every element of `y` with respect to `x`, as `[y's shape, x's shape]`.
#[track_caller]
fn rows(name: &str, y: &Tensor, x: &Tensor) -> Tensor {
    let shape = [y.dims(), x.dims()].concat();
    assert!(
        shape.len() <= crate::MAX_RANK,
        "{name}: shapes {} and {} together are over the rank limit of {}",
        y.shape(),
        x.shape(),
        crate::MAX_RANK
    );
    let n = y.numel();
    let options = Options::of(y);
    if n == 0 || !y.is_tracked() {
        // The function is constant: its derivative is 0.
        return Tensor::zeros_with(Shape::new(&shape), options);
    }
    let number = Tensor::arange_with(n, (thalweg_ir::DType::I64, y.device())).reshape(*y.shape());
    let mut all = Vec::with_capacity(n);
    for i in 0..n {
        let dy = number.eq(i).cast(y.dtype());
        all.push(asked(name, y, dy, &x, PassMode { create: false, keep: true }));
    }
    Tensor::stack(&all, 0).reshape(shape)
}

/// The derivative of every element of a function's result with respect to every element of its argument, as
/// `torch.func.jacrev`: `[result's shape, argument's shape]`. It takes one pass per element of the result, all of them
/// planned together.
///
/// ```
/// # use thalweg::{Tensor, jacobian};
/// let j = jacobian(|x| x.cumsum(0), &Tensor::new([1.0f32, 2.0]));
/// assert_eq!(j.to_vec::<f32>()?, [1.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Panics
/// When the argument's dtype is not a float, or the two shapes together have more than eight dimensions.
#[track_caller]
pub fn jacobian(f: impl FnOnce(Tensor) -> Tensor, x: &Tensor) -> Tensor {
    crate::record::check_float("jacobian", x);
    let (leaves, y) = on_leaves(f, &x);
    rows("jacobian", &y, &leaves[0])
}

/// The second derivatives of a scalar function: `[x's shape, x's shape]`. For a product with one vector, this is
/// cheaper: `grad(&(grad_graph(&f(&x), &x) * v).sum(..), &x)`.
///
/// ```
/// # use thalweg::{Tensor, hessian};
/// let h = hessian(|x| x.prod(0), &Tensor::new([2.0f32, 3.0]));
/// assert_eq!(h.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Panics
/// When the argument's dtype is not a float, the result has more than one element, or the argument more than four
/// dimensions.
#[track_caller]
pub fn hessian(f: impl FnOnce(Tensor) -> Tensor, x: &Tensor) -> Tensor {
    crate::record::check_float("hessian", x);
    let (leaves, y) = on_leaves(f, &x);
    let x = &leaves[0];
    let slope = asked("hessian", &y, y.seed("hessian"), &x, CREATING);
    rows("hessian", &slope, x)
}

thread_local! {
    /// Whether a backward pass is calling the function of a checkpoint again.
    static RECOMPUTING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is inside the second call of a [`checkpoint`] function, in a backward pass. State that
/// the function changes (running statistics, counters) was changed by the first call, and must not be changed again.
///
/// ```
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
/// # use thalweg::{Tensor, checkpoint, is_recomputing};
/// let steps = Arc::new(AtomicU32::new(0));
/// let counted = { let steps = steps.clone(); move |x: Tensor| {
///     if !is_recomputing() { steps.fetch_add(1, Relaxed); }
///     x.exp()
/// } };
/// checkpoint(counted, &Tensor::ones([3]).tracked()).sum(..).backward();
/// assert_eq!(steps.load(Relaxed), 1);
/// ```
pub fn is_recomputing() -> bool {
    RECOMPUTING.get()
}

/// Guard: until it is dropped, the calling thread is inside the second call of a checkpoint's function.
struct Recomputing(bool);

impl Recomputing {
    fn begin() -> Recomputing {
        Recomputing(RECOMPUTING.replace(true))
    }
}

impl Drop for Recomputing {
    fn drop(&mut self) {
        RECOMPUTING.set(self.0);
    }
}

/// The result of `f`, with only the inputs saved for the backward pass, which records `f` again, as
/// `torch.utils.checkpoint`: less memory for more time (Griewank and Walther 2000). Random numbers are the same the
/// second time. Tracked tensors that `f` owns, such as a model's parameters, get their gradients, too. Buffers of
/// thalweg-nn, such as running statistics, are updated by the first call only; a function with its own state checks
/// [`is_recomputing`].
///
/// ```
/// # use thalweg::{Tensor, checkpoint};
/// let (x, w) = (Tensor::randn([4, 8]), Tensor::randn([8, 8]).tracked());
/// let block = { let w = w.clone(); move |x: Tensor| x.matmul(&w).gelu().dropout(0.1) };
/// let gradients = checkpoint(block, &x).sum(..).backward();
/// assert_eq!(gradients[&w].dims(), [8, 8]);
/// ```
#[track_caller]
pub fn checkpoint<I>(f: impl Fn(I::Each) -> Tensor + Send + Sync + 'static, inputs: I) -> Tensor
where
    I: Inputs<Each: 'static>,
{
    let xs: Vec<Tensor> = inputs.tensors().into_iter().cloned().collect();
    let form = inputs.form();
    if !tape::is_tracking() {
        return f(form(xs));
    }
    let numbers = random::state();
    let begin = Node::next_id();
    // Recorded with its graph, to find the tracked tensors that it reads; the graph is dropped.
    let y = f(form(xs.iter().map(alias).collect()));
    let Some(root) = y.node.as_ref().filter(|n| n.carries() && n.id >= begin) else { return y };
    let aliased = |node: &Node| matches!(node.what, What::Own(ALIAS, _));
    let graph = pass::reached("checkpoint", root, 0, |n| n.id < begin || aliased(n));
    let captured: Vec<Arc<Node>> = graph.into_nodes().filter(|n| n.id < begin).collect();
    let count = xs.len();
    let rule: Box<Rule> = Box::new(move |inputs, args, dy| {
        let create = tape::is_tracking();
        let _tracking = Tracking::set(true);
        let _numbers = random::Restored::new(numbers);
        let _recomputing = Recomputing::begin();
        let begin = Node::next_id();
        let again = |x: &Option<Tensor>| {
            let x = x.as_ref().expect("the inputs are kept");
            match (x.dtype().is_float(), create) {
                (false, _) => x.detach(),
                (true, true) => alias(x),
                (true, false) => tape::leaf(&x.value),
            }
        };
        let xs: Vec<Tensor> = args[..count].iter().map(again).collect();
        let y = f(form(xs.clone()));
        let root = y.root("checkpoint");
        let of = xs.iter().map(|x| x.node.clone());
        let nodes: Vec<Option<Arc<Node>>> = of.chain(inputs.args[count..].iter().map(|a| a.node().cloned())).collect();
        let wanted: Vec<Arc<Node>> = nodes.iter().flatten().cloned().collect();
        let way = PassMode { create, keep: create };
        let mut found = pass::run("checkpoint", root, dy, &Wanted::Ends(&wanted, begin), way);
        nodes.into_iter().map(|n| n.and_then(|n| found.take(n.id))).collect()
    });
    tape::own(&y.value, "checkpoint", (&xs, true), captured, rule)
}

/// Name of a node that is an alias of another.
const ALIAS: &str = "alias";

/// This tensor under a node of its own, if it is tracked.
fn alias(x: &Tensor) -> Tensor {
    let rule: Box<Rule> = Box::new(|_, _, dy| vec![Some(dy)]);
    tape::own(&x.value, ALIAS, (std::slice::from_ref(x), false), vec![], rule)
}
