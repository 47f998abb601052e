//! The backward pass, from one result to the nodes whose gradients are requested.
//!
//! Nodes are visited by descending id, so that the gradient of each is complete when its rule is applied. Only nodes
//! that lead to a requested one are visited. The order of additions depends only on the order of recording.

use super::coming::{Coming, RangeGradient};
use super::rules;
use crate::Tensor;
use crate::node::{Cut, Input, Inputs, Node, What};
use crate::tape::Tracking;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use thalweg_ir::Op;

/// Nodes whose gradients a backward pass returns.
pub(crate) enum Wanted<'a> {
    /// Gradients of all leaves.
    Leaves,
    /// Gradients of these nodes.
    Nodes(&'a [Arc<Node>]),
    /// Gradients of these nodes. The pass ends at them, and at all nodes with a smaller id than the given one.
    Ends(&'a [Arc<Node>], u64),
}

/// Options of a backward pass.
#[derive(Clone, Copy)]
pub(crate) struct PassMode {
    /// Whether gradients are tracked, for higher derivatives. The graph is retained for them.
    pub(crate) create: bool,
    /// Whether the graph is retained for another pass.
    pub(crate) keep: bool,
}

/// Result of a backward pass.
pub(crate) struct PassResult {
    /// Gradients by node id.
    pub(crate) grads: HashMap<u64, Tensor>,
    /// Operations without a gradient that the pass met.
    pub(crate) cuts: Vec<Cut>,
}

/// Node in a heap that is ordered by id, the largest first.
struct ById(Arc<Node>);

impl PartialEq for ById {
    fn eq(&self, other: &ById) -> bool {
        self.0.id == other.0.id
    }
}
impl Eq for ById {}
impl PartialOrd for ById {
    fn partial_cmp(&self, other: &ById) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ById {
    fn cmp(&self, other: &ById) -> std::cmp::Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

/// The nodes reachable from `root` with ids above `floor`, by descending id; the search stops at `ends`.
///
/// # Panics
/// When a backward pass has freed one of them.
#[track_caller]
pub(crate) fn reached(name: &str, root: &Arc<Node>, floor: u64, ends: impl Fn(&Node) -> bool) -> Vec<Arc<Node>> {
    let mut heap = BinaryHeap::from([ById(root.clone())]);
    let mut order: Vec<Arc<Node>> = vec![];
    while let Some(ById(node)) = heap.pop() {
        if order.last().is_some_and(|last| last.id == node.id) {
            continue;
        }
        if !ends(&node) {
            let Some(parents) = node.parents() else { used_up(name, &node) };
            heap.extend(parents.into_iter().filter(|p| p.id >= floor).map(ById));
        }
        order.push(node);
    }
    order
}

/// Propagates `dy`, the gradient of the value of `root`, to the requested nodes.
///
/// # Panics
/// When a backward pass has freed the graph.
#[track_caller]
pub(crate) fn run(name: &str, root: &Arc<Node>, dy: Tensor, wanted: &Wanted<'_>, way: PassMode) -> PassResult {
    run_observed(name, root, dy, wanted, way, None)
}

/// Function that is called with a leaf's id and its gradient.
pub(crate) type Observer<'a> = &'a mut dyn FnMut(u64, &Tensor);

/// Like [`run`], with a function to call with each leaf's gradient as soon as it is complete.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub(crate) fn run_observed(
    name: &str,
    root: &Arc<Node>,
    dy: Tensor,
    wanted: &Wanted<'_>,
    way: PassMode,
    mut observer: Option<Observer<'_>>,
) -> PassResult {
    let (floor, end) = match wanted {
        Wanted::Leaves => (0, 0),
        Wanted::Nodes(nodes) => (nodes.iter().map(|n| n.id).min().unwrap_or(u64::MAX), 0),
        Wanted::Ends(_, end) => (0, *end),
    };
    let named: HashSet<u64> = match wanted {
        Wanted::Leaves => HashSet::new(),
        Wanted::Nodes(nodes) | Wanted::Ends(nodes, _) => nodes.iter().map(|n| n.id).collect(),
    };
    let ends = |node: &Node| node.id < end || end > 0 && named.contains(&node.id);
    let asked = |node: &Node| match wanted {
        Wanted::Leaves => matches!(node.what, What::Leaf),
        _ => named.contains(&node.id),
    };
    let order = reached(name, root, floor, ends);
    let mut cuts: Vec<Cut> = vec![];
    // From the requested nodes upwards: the nodes that lead to them, and those that do so through their arguments.
    let mut leads: HashSet<u64> = HashSet::with_capacity(order.len());
    let mut through: HashSet<u64> = HashSet::with_capacity(order.len());
    // Leaves whose gradients are complete after a node, by its id: it is the last one that is visited of their users.
    let mut complete: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut used: HashSet<u64> = HashSet::new();
    for node in order.iter().rev() {
        if let What::Cut(cut) = node.what {
            cuts.push(cut);
        }
        let parents = || node.parents().unwrap_or_default();
        if !ends(node) && parents().iter().any(|p| leads.contains(&p.id)) {
            through.insert(node.id);
            leads.insert(node.id);
            if observer.is_some() {
                let leaves =
                    parents().into_iter().filter(|p| p.is_leaf() && leads.contains(&p.id) && used.insert(p.id));
                complete.insert(node.id, leaves.map(|leaf| leaf.id).collect());
            }
        } else if asked(node) {
            leads.insert(node.id);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    let _mode = Tracking::set(way.create);
    let mut grads: HashMap<u64, Coming> = HashMap::from([(root.id, Coming::of(dy))]);
    // Gradients of the results of a shared rule, by its node.
    let mut parts: HashMap<u64, Vec<(usize, Tensor)>> = HashMap::new();
    let mut observe = |node: Option<u64>, grads: &mut HashMap<u64, Coming>| {
        let (Some(observer), Some(leaves)) = (&mut observer, node.and_then(|id| complete.remove(&id))) else { return };
        for leaf in leaves {
            if let Some(gradient) = grads.remove(&leaf).and_then(Coming::total) {
                observer(leaf, &gradient);
                grads.insert(leaf, Coming::of(gradient));
            }
        }
    };
    let mut visited = None;
    for node in order {
        if !through.contains(&node.id) {
            continue;
        }
        observe(visited.replace(node.id), &mut grads);
        let dy = grads.remove(&node.id).and_then(Coming::total);
        if let Some(dy) = dy.as_ref().filter(|_| asked(&node)) {
            grads.insert(node.id, Coming::of(dy.clone()));
        }
        let Some(inputs) = node.inputs(way.keep || way.create) else { used_up(name, &node) };
        let to = |i: usize| inputs.args[i].node().filter(|n| leads.contains(&n.id));
        if let (Some(range), Some(whole)) = (dy.as_ref().and_then(|dy| range_gradient(&node, &inputs, dy)), to(0)) {
            grads.entry(whole.id).or_default().add_range(range);
            continue;
        }
        let found = match (&node.what, dy) {
            (What::Part(_, i), Some(dy)) => {
                to(0).into_iter().for_each(|whole| parts.entry(whole.id).or_default().push((*i, dy.clone())));
                continue;
            }
            (What::Joint(..), _) => match parts.remove(&node.id) {
                Some(dys) => rules::of_joint(&node, &inputs, dys, way.create),
                None => continue,
            },
            (_, Some(dy)) => rules::gradients(&node, &inputs, dy, |i| to(i).is_some(), way.create),
            (_, None) => continue,
        };
        hand_down(found, to, &mut grads);
    }
    observe(visited, &mut grads);
    // Only gradients of leaves and requested nodes are left; the others have been propagated. Sums are recorded in an
    // order that is the same for each pass, since another order is another segment.
    let mut left: Vec<(u64, Coming)> = grads.into_iter().filter(|(id, _)| leads.contains(id)).collect();
    left.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
    let grads = left.into_iter().filter_map(|(id, coming)| Some((id, coming.total()?))).collect();
    PassResult { grads, cuts }
}

/// Gradient of a slice of a contiguous range of one axis, as a gradient of that range.
fn range_gradient(node: &Node, inputs: &Inputs, dy: &Tensor) -> Option<RangeGradient> {
    match (&node.what, inputs.args.first()) {
        (What::Op { op: Op::Slice, ints, .. }, Some(Input::Tensor { shape, .. })) => RangeGradient::of(dy, shape, ints),
        _ => None,
    }
}

/// Adds the gradients from a rule to those of the arguments; `to` maps an argument to its node.
fn hand_down<'a>(
    found: Vec<Option<Tensor>>,
    to: impl Fn(usize) -> Option<&'a Arc<Node>>,
    grads: &mut HashMap<u64, Coming>,
) {
    for (i, gradient) in found.into_iter().enumerate() {
        if let (Some(parent), Some(gradient)) = (to(i), gradient) {
            grads.entry(parent.id).or_default().add(gradient);
        }
    }
}

#[cold]
#[track_caller]
fn used_up(name: &str, node: &Node) -> ! {
    panic!(
        "{name}: a backward pass has gone through `{}` already and freed what it had kept; take all gradients in one \
         pass (`grad(&loss, (&a, &b))`, `(loss_1 + loss_2).backward()`), or put the first one into \
         `retain_graph(|| ..)`",
        node.name()
    )
}
