//! The graph that gradients go back along: one node for each result that a tracked tensor went into.
//!
//! A node knows what made its value, the nodes of the arguments, and those values that the rule of the derivative will
//! read. Ids are given out as operations are recorded, so an argument's id is below its result's, on all threads:
//! descending ids are an order in which gradients are complete. There is no lock but a node's own, which only a
//! backward pass takes, and no recursion: neither passes nor drops depend on how deep the graph is.

use std::any::Any;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_ir::{DType, Op, Shape};
use thalweg_stream::Kept;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// What a value came from.
pub(crate) struct Node {
    /// Above those of all that it was made from.
    pub(crate) id: u64,
    pub(crate) what: What,
    /// What the derivative reads; none once a backward pass has used it up.
    inputs: Mutex<Option<Inputs>>,
}

/// What made a value.
pub(crate) enum What {
    /// A tensor that somebody wants the gradient of.
    Leaf,
    /// A recorded operation with its attributes and integers.
    Op {
        /// The operation.
        op: Op,
        /// [`thalweg_ir::RelOp::attr`].
        attr: u32,
        /// Its integer arguments.
        ints: Box<[i64]>,
    },
    /// Something with a rule of its own: a name, and the rule, which `rules.rs` knows the type of. (`Any`, since a rule
    /// is about tensors, and a tensor holds a node.)
    Own(&'static str, Box<dyn Any + Send + Sync>),
    /// Several results that share a rule: a name and the rule, as above. No tensor has this node; each result has a
    /// [`What::Part`] of it.
    Joint(&'static str, Box<dyn Any + Send + Sync>),
    /// A result, by its number, of the only argument, a [`What::Joint`] of that name. A pass hands its gradient on as
    /// it is.
    Part(&'static str, usize),
    /// An operation that no gradient goes through: a step function, or an integer or bool result.
    Cut(Cut),
}

/// An operation that no gradient goes through.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cut {
    pub(crate) name: &'static str,
    pub(crate) at: &'static Location<'static>,
}

/// Arguments and, where the rule reads them, the results: of all nodes but a [`What::Joint`] at most one.
#[derive(Clone, Default)]
pub(crate) struct Inputs {
    pub(crate) args: Vec<Input>,
    pub(crate) results: Vec<Kept>,
}

/// One argument.
#[derive(Clone)]
pub(crate) enum Input {
    /// A tensor.
    Tensor {
        shape: Shape,
        dtype: DType,
        /// Where its gradient goes; none if it has none.
        node: Option<Arc<Node>>,
        /// Its value, where the rule reads it.
        value: Option<Kept>,
    },
    /// A scalar in the form of [`thalweg_ir::Scalar::to_bits`].
    Scalar(u64),
}

impl Input {
    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        match self {
            Input::Tensor { node, .. } => node.as_ref(),
            Input::Scalar(_) => None,
        }
    }
}

impl Node {
    pub(crate) fn new(what: What, inputs: Inputs) -> Arc<Node> {
        Arc::new(Node { id: NEXT.fetch_add(1, Relaxed), what, inputs: Mutex::new(Some(inputs)) })
    }

    /// The id that the next node will have, or a higher one.
    pub(crate) fn next_id() -> u64 {
        NEXT.load(Relaxed)
    }

    /// Whether it is a tracked tensor itself.
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self.what, What::Leaf)
    }

    /// Whether gradients go through it.
    pub(crate) fn carries(&self) -> bool {
        !matches!(self.what, What::Cut(_))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inputs>> {
        // Whoever panics while it holds the lock has taken the inputs whole or not at all.
        self.inputs.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The nodes of its arguments; none if a backward pass has used it up.
    pub(crate) fn parents(&self) -> Option<Vec<Arc<Node>>> {
        self.lock().as_ref().map(|inputs| inputs.args.iter().filter_map(|a| a.node().cloned()).collect())
    }

    /// What its rule reads; with `keep` for a later pass, too.
    pub(crate) fn inputs(&self, keep: bool) -> Option<Inputs> {
        let mut inputs = self.lock();
        if keep { inputs.clone() } else { inputs.take() }
    }

    /// The word that messages use.
    pub(crate) fn name(&self) -> &'static str {
        match &self.what {
            What::Leaf => "tracked",
            What::Op { op, .. } => op.name(),
            What::Own(name, _) | What::Joint(name, _) | What::Part(name, _) => name,
            What::Cut(cut) => cut.name,
        }
    }
}

impl Drop for Node {
    /// In a loop: a chain of nodes that nobody else holds would overflow the stack.
    fn drop(&mut self) {
        let own = |node: &mut Node| node.inputs.get_mut().unwrap_or_else(|e| e.into_inner()).take();
        let mut waiting: Vec<Arc<Node>> = vec![];
        let free = |inputs: Option<Inputs>, waiting: &mut Vec<Arc<Node>>| {
            let args = inputs.map(|i| i.args).unwrap_or_default();
            waiting.extend(args.into_iter().filter_map(|a| match a {
                Input::Tensor { node, .. } => node,
                Input::Scalar(_) => None,
            }));
        };
        free(own(self), &mut waiting);
        while let Some(node) = waiting.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                free(own(&mut node), &mut waiting);
            }
        }
    }
}
