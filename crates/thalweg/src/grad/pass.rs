//! The backward pass, from one result to the nodes whose gradients are requested.
//!
//! Nodes are visited by descending id, so that the gradient of each is complete when its rule is applied. Only nodes
//! that lead to a requested one are visited. The order of additions depends only on the order of recording.

use super::coming::{Coming, RangeGradient};
use super::rules;
use crate::Tensor;
use crate::node::{Cut, Input, Inputs, Node, What, reuse};
use crate::tape::Tracking;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;
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
    /// Gradients with the ids of their nodes, in descending order.
    pub(crate) grads: Vec<(u64, Tensor)>,
    /// Operations without a gradient that the pass met.
    pub(crate) cuts: Vec<Cut>,
}

impl PassResult {
    /// The gradient of a node.
    pub(crate) fn get(&self, id: u64) -> Option<&Tensor> {
        self.index(id).map(|at| &self.grads[at].1)
    }

    /// Removes and returns the gradient of a node.
    pub(crate) fn take(&mut self, id: u64) -> Option<Tensor> {
        self.index(id).map(|at| self.grads.remove(at).1)
    }

    fn index(&self, id: u64) -> Option<usize> {
        self.grads.binary_search_by(|(other, _)| id.cmp(other)).ok()
    }
}

/// Index of an argument without a node, or whose node the pass does not visit.
const NO_NODE: u32 = u32::MAX;

/// Subgraph that a node reaches. Edges are indices into `nodes`, so that a pass looks nothing up by id.
pub(crate) struct Reached {
    /// The nodes, in the order in which the search found them: the root is the first.
    nodes: Vec<Arc<Node>>,
    /// Nodes of the arguments of all nodes, one after the other: an index into `nodes`, or [`NO_NODE`].
    edges: Vec<u32>,
    /// Range of each node's arguments in `edges`; empty where the search ended.
    args: Vec<(u32, u32)>,
    /// Indices of the nodes by descending id: each node before those of its arguments.
    order: Vec<u32>,
}

impl Reached {
    /// The nodes by descending id.
    pub(crate) fn into_nodes(self) -> impl Iterator<Item = Arc<Node>> {
        self.order.into_iter().map(move |at| self.nodes[at as usize].clone())
    }

    /// Nodes of the arguments of a node.
    fn parents(&self, at: u32) -> &[u32] {
        let (begin, end) = self.args[at as usize];
        &self.edges[begin as usize..end as usize]
    }
}

/// The nodes reachable from `root` with ids of at least `floor`; the search stops at `ends`.
///
/// # Panics
/// When a backward pass has freed one of them.
#[track_caller]
pub(crate) fn reached(name: &str, root: &Arc<Node>, floor: u64, ends: impl Fn(&Node) -> bool) -> Reached {
    let mut known = FxHashMap::from_iter([(root.id, 0)]);
    let mut found = Reached { nodes: vec![root.clone()], edges: vec![], args: vec![], order: vec![] };
    // Breadth-first: nodes are also the queue.
    while let Some(node) = found.nodes.get(found.args.len()) {
        let (begin, mut new) = (found.edges.len() as u32, smallvec::SmallVec::<[Arc<Node>; 4]>::new());
        if !ends(node) {
            let next = found.nodes.len();
            let visit = |parent: Option<&Arc<Node>>| {
                let index = match parent {
                    Some(p) if p.id >= floor => match known.entry(p.id) {
                        Entry::Occupied(at) => *at.get(),
                        Entry::Vacant(at) => {
                            new.push(p.clone());
                            *at.insert((next + new.len() - 1) as u32)
                        }
                    },
                    _ => NO_NODE,
                };
                found.edges.push(index);
            };
            if !node.each_argument(visit) {
                used_up(name, node)
            }
        }
        found.args.push((begin, found.edges.len() as u32));
        found.nodes.extend(new);
    }
    let mut order: Vec<(u64, u32)> = found.nodes.iter().enumerate().map(|(i, n)| (n.id, i as u32)).collect();
    order.sort_unstable_by_key(|&(id, _)| std::cmp::Reverse(id));
    found.order.extend(order.into_iter().map(|(_, i)| i));
    found
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

/// Role of a node in a pass.
#[derive(Clone, Copy, Default)]
struct Role {
    /// Whether the gradient of the node is returned.
    asked: bool,
    /// Whether the node, or one that it is computed from, is asked for.
    leads: bool,
    /// Whether a node that it is computed from is asked for, so that its rule is applied.
    through: bool,
}

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
    let named: FxHashSet<u64> = match wanted {
        Wanted::Leaves => FxHashSet::default(),
        Wanted::Nodes(nodes) | Wanted::Ends(nodes, _) => nodes.iter().map(|n| n.id).collect(),
    };
    let ends = |node: &Node| node.id < end || end > 0 && named.contains(&node.id);
    let asked = |node: &Node| match wanted {
        Wanted::Leaves => matches!(node.what, What::Leaf),
        _ => named.contains(&node.id),
    };
    let graph = reached(name, root, floor, ends);
    let mut cuts: Vec<Cut> = vec![];
    let mut roles = vec![Role::default(); graph.nodes.len()];
    // Leaves whose gradients are complete after a node: it is the last one that is visited of their users.
    let mut complete: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    let mut used: FxHashSet<u32> = FxHashSet::default();
    // From the requested nodes upwards.
    for &at in graph.order.iter().rev() {
        let node = &graph.nodes[at as usize];
        if let What::Cut(cut) = node.what {
            cuts.push(cut);
        }
        let leads = |p: u32| p != NO_NODE && roles[p as usize].leads;
        let asked = asked(node);
        let through = graph.parents(at).iter().any(|&p| leads(p));
        if through && observer.is_some() {
            let leaf = |p: u32| leads(p) && graph.nodes[p as usize].is_leaf();
            let leaves = graph.parents(at).iter().copied().filter(|&p| leaf(p) && used.insert(p));
            complete.insert(at, leaves.collect());
        }
        roles[at as usize] = Role { asked, leads: asked || through, through };
    }
    cuts.sort_unstable();
    cuts.dedup();
    let _mode = Tracking::set(way.create);
    let mut grads: Vec<Coming> = Vec::new();
    grads.resize_with(graph.nodes.len(), Coming::default);
    grads[0].add(dy);
    // Gradients of the results of a shared rule, by its node.
    let mut parts: FxHashMap<u32, Vec<(usize, Tensor)>> = FxHashMap::default();
    let mut observe = |node: Option<u32>, grads: &mut [Coming]| {
        let Some(observer) = &mut observer else { return };
        let Some(leaves) = node.and_then(|at| complete.remove(&at)) else { return };
        for leaf in leaves {
            if let Some(gradient) = std::mem::take(&mut grads[leaf as usize]).total() {
                observer(graph.nodes[leaf as usize].id, &gradient);
                grads[leaf as usize].add(gradient);
            }
        }
    };
    let mut visited = None;
    for &at in &graph.order {
        let (node, role) = (&graph.nodes[at as usize], roles[at as usize]);
        if !role.through {
            continue;
        }
        observe(visited.replace(at), &mut grads);
        let dy = std::mem::take(&mut grads[at as usize]).total();
        if let Some(dy) = dy.as_ref().filter(|_| role.asked) {
            grads[at as usize].add(dy.clone());
        }
        let Some(inputs) = node.inputs(way.keep || way.create) else { used_up(name, node) };
        let parents = graph.parents(at);
        let to = |i: usize| parents.get(i).copied().filter(|&p| p != NO_NODE && roles[p as usize].leads);
        if let (Some(range), Some(whole)) = (dy.as_ref().and_then(|dy| range_gradient(node, &inputs, dy)), to(0)) {
            grads[whole as usize].add_range(range);
            continue;
        }
        let found = match (&node.what, dy) {
            (What::Part(_, i), Some(dy)) => {
                to(0).into_iter().for_each(|whole| parts.entry(whole).or_default().push((*i, dy.clone())));
                continue;
            }
            (What::Joint(..), _) => match parts.remove(&at) {
                Some(dys) => rules::of_joint(node, &inputs, dys, way.create),
                None => continue,
            },
            (_, Some(dy)) => rules::gradients(node, &inputs, dy, |i| to(i).is_some(), way.create),
            (_, None) => continue,
        };
        for (i, gradient) in found.into_iter().enumerate() {
            if let (Some(parent), Some(gradient)) = (to(i), gradient) {
                grads[parent as usize].add(gradient);
            }
        }
    }
    observe(visited, &mut grads);
    // Only gradients of leaves and requested nodes are left; the others have been propagated. Sums are recorded in an
    // order that is the same for each pass, since another order is another segment.
    let total = |&at: &u32| {
        let coming = std::mem::take(&mut grads[at as usize]);
        Some((graph.nodes[at as usize].id, coming.total()?))
    };
    let grads = graph.order.iter().filter(|&&at| roles[at as usize].leads).filter_map(total).collect();
    reuse(graph.nodes);
    PassResult { grads, cuts }
}

/// Gradient of a slice of a contiguous range of one axis, as a gradient of that range.
fn range_gradient(node: &Node, inputs: &Inputs, dy: &Tensor) -> Option<RangeGradient> {
    match (&node.what, inputs.args.first()) {
        (What::Op { op: Op::Slice, ints, .. }, Some(Input::Tensor { shape, .. })) => RangeGradient::of(dy, shape, ints),
        _ => None,
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
