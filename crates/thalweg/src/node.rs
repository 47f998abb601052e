//! Autograd graph: one node for each result of an operation on a tracked tensor.
//!
//! A node has the operation of its value, the nodes of the arguments, and the values saved for the derivative. Ids are
//! assigned as operations are recorded, so an argument's id is below its result's, on all threads: in descending order
//! of ids, each gradient is complete when its node is reached. The only lock is a node's own, taken by backward passes
//! only. There is no recursion: neither passes nor drops depend on the depth of the graph.

use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_ir::{DType, Op, Shape};
use thalweg_stream::TapeHandle;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Node of the autograd graph.
pub(crate) struct Node {
    /// Id of the node, larger than those of the nodes that it is computed from.
    pub(crate) id: u64,
    pub(crate) what: What,
    /// Values saved for the derivative; `None` after a backward pass has consumed them.
    inputs: Mutex<Option<Inputs>>,
}

/// Origin of a value.
pub(crate) enum What {
    /// A tensor whose gradient is requested.
    Leaf,
    /// A recorded operation with its attributes and integers.
    Op {
        /// Kind of the operation.
        op: Op,
        /// Attributes of the operation ([`thalweg_ir::RelOp::attr`]).
        attr: u32,
        /// Integer arguments of the operation.
        ints: Box<[i64]>,
    },
    /// An operation with its own rule: a name, and the rule, whose type `rules.rs` knows. (`Any`, because a rule is
    /// about tensors, and a tensor holds a node.)
    Own(&'static str, Box<dyn Any + Send + Sync>),
    /// Several results with one rule: a name and the rule, as above. No tensor has this node; each result has a
    /// [`What::Part`] of it.
    Joint(&'static str, Box<dyn Any + Send + Sync>),
    /// One result, by its number, of its only argument, a [`What::Joint`] with that name. A backward pass forwards its
    /// gradient unchanged.
    Part(&'static str, usize),
    /// An operation without a gradient: a step function, or an integer or bool result.
    Cut(Cut),
}

/// Operation without a gradient.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cut {
    pub(crate) name: &'static str,
    pub(crate) at: &'static Location<'static>,
}

/// Arguments and, if the rule reads them, the results: at most one for every node except a [`What::Joint`].
#[derive(Clone, Default)]
pub(crate) struct Inputs {
    // Inline for most operations, so that a node is one allocation.
    pub(crate) args: SmallVec<[Input; 2]>,
    pub(crate) results: SmallVec<[TapeHandle; 1]>,
}

/// Argument of a recorded operation.
#[derive(Clone)]
pub(crate) enum Input {
    /// A tensor.
    Tensor {
        shape: Shape,
        dtype: DType,
        /// Node that the argument's gradient flows to; `None` if the argument is not tracked.
        node: Option<Arc<Node>>,
        /// Value of the argument, if the rule reads it.
        value: Option<TapeHandle>,
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

/// Maximum number of nodes that a thread keeps for reuse, a third of a kilobyte each: those of a segment of as many
/// operations as a stream records at most.
const MAX_SPARE_NODES: usize = 8192;

thread_local! {
    /// Nodes that backward passes have consumed, for reuse: an allocator caches only a few of a size.
    static SPARE: RefCell<Vec<Arc<Node>>> = const { RefCell::new(Vec::new()) };
}

/// Keeps those nodes for reuse that nobody else holds.
pub(crate) fn reuse(nodes: Vec<Arc<Node>>) {
    // Emptied and dropped while the list is not borrowed: a rule's values may be of any type.
    let mut free: Vec<Arc<Node>> = Vec::with_capacity(nodes.len());
    free.extend(nodes.into_iter().filter_map(|mut node| {
        let own = Arc::get_mut(&mut node)?;
        own.what = What::Leaf;
        own.release();
        Some(node)
    }));
    // A thread that ends has no list any more.
    let _ = SPARE.try_with(|spare| {
        if let Ok(mut spare) = spare.try_borrow_mut() {
            let room = MAX_SPARE_NODES.saturating_sub(spare.len());
            spare.extend(free.drain(..free.len().min(room)));
        }
    });
}

fn spare_node() -> Option<Arc<Node>> {
    SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop()).ok()?
}

impl Node {
    pub(crate) fn new(what: What, inputs: Inputs) -> Arc<Node> {
        Node::with(what, |own| *own = inputs)
    }

    /// A node whose inputs, empty at first, `fill` adds in place.
    #[inline]
    pub(crate) fn with(what: What, fill: impl FnOnce(&mut Inputs)) -> Arc<Node> {
        let id = NEXT.fetch_add(1, Relaxed);
        let mut node =
            spare_node().unwrap_or_else(|| Arc::new(Node { id: 0, what: What::Leaf, inputs: Mutex::new(None) }));
        let own = Arc::get_mut(&mut node).expect("nobody else has it");
        (own.id, own.what) = (id, what);
        fill(own.inputs.get_mut().unwrap_or_else(|e| e.into_inner()).insert(Inputs::default()));
        node
    }

    /// A lower bound of the id of the next node.
    pub(crate) fn next_id() -> u64 {
        NEXT.load(Relaxed)
    }

    /// Whether the node is a leaf: a tensor whose gradient is requested.
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self.what, What::Leaf)
    }

    /// Whether gradients flow through the node.
    pub(crate) fn carries(&self) -> bool {
        !matches!(self.what, What::Cut(_))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inputs>> {
        // A panic while the lock is held leaves the inputs either complete or taken.
        self.inputs.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Calls `f` with the node of each argument. False, without a call, after a backward pass has consumed the node.
    pub(crate) fn each_argument(&self, f: impl FnMut(Option<&Arc<Node>>)) -> bool {
        let inputs = self.lock();
        let Some(inputs) = &*inputs else { return false };
        inputs.args.iter().map(Input::node).for_each(f);
        true
    }

    /// The values saved for the rule; `keep` retains them for a later pass.
    pub(crate) fn inputs(&self, keep: bool) -> Option<Inputs> {
        let mut inputs = self.lock();
        if keep { inputs.clone() } else { inputs.take() }
    }

    /// Name of the node in messages.
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
    fn drop(&mut self) {
        self.release();
    }
}

impl Node {
    /// Drops the inputs, and the nodes that only this one references. Iterative: recursion over a long chain would
    /// overflow the stack.
    fn release(&mut self) {
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
