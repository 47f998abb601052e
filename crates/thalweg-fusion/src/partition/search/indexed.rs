//! Plan that moves start from: a state whose kernels are found by the operations that they store, load and compute.
//!
//! In: a [`State`]. Out: a [`Change`] for each move, which can be applied.
//!
//! Always true: making and checking a change takes time in proportion to the kernels that it concerns and to those
//! between them, not to all of the plan. Only applying one takes time in proportion to the plan.

use super::State;
use crate::partition::facts::Facts;
use crate::partition::kernels::{Kernel, Kernels};
use crate::segment::BitSet;
use crate::write::rules::Rule;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// State of a search, indexed by operation. Kernels have numbers that stay the same while others change.
#[derive(Clone)]
pub(crate) struct IndexedState {
    /// All stored operations of the segment.
    pub stored: BitSet,
    /// Predicted picoseconds.
    pub time: u64,
    /// Kernels by number; `None` for free numbers.
    kernels: Vec<Option<Rc<Kernel>>>,
    /// Free numbers.
    free: Vec<usize>,
    /// Kernel that stores each operation; `None` if there is none, or it is in another component.
    home: Vec<Option<usize>>,
    /// Kernels that load each operation.
    loading: Vec<Vec<usize>>,
    /// Kernels that compute each operation.
    computing: Vec<Vec<usize>>,
    /// Kernels that read each input.
    reading: Vec<Vec<usize>>,
    /// Position of each kernel in an order in which it comes after the kernels that it reads from.
    position: Vec<usize>,
}

/// Legal result of a move: its difference from the state that the move started from.
pub(crate) struct Change {
    /// All stored operations of the segment.
    stored: BitSet,
    /// Numbers of the kernels that are no longer there, ascending.
    removed: Vec<usize>,
    /// New kernels, also those that take the place of a removed one with the same stores.
    added: Vec<Rc<Kernel>>,
    /// Predicted picoseconds of the whole state.
    pub time: u64,
}

impl IndexedState {
    /// Indexes a state.
    pub fn new(facts: &Facts<'_>, state: State) -> IndexedState {
        let (operations, inputs) = (facts.ix.seg.ops.len(), facts.ix.seg.inputs.len());
        let mut indexed = IndexedState {
            stored: state.stored,
            time: state.time,
            kernels: vec![],
            free: vec![],
            home: vec![None; operations],
            loading: vec![vec![]; operations],
            computing: vec![vec![]; operations],
            reading: vec![vec![]; inputs],
            position: vec![],
        };
        state.kernels.into_iter().for_each(|kernel| indexed.insert(kernel));
        indexed.order();
        indexed
    }

    /// The state, with its kernels in canonical order.
    pub fn to_state(&self) -> State {
        State::new(self.stored.clone(), self.kernels.iter().flatten().cloned().collect())
    }

    /// State after a change.
    pub fn with(&self, change: Change) -> State {
        let kept =
            self.numbered().filter(|(k, _)| change.removed.binary_search(k).is_err()).map(|(_, kernel)| kernel.clone());
        State::new(change.stored, kept.chain(change.added).collect())
    }

    /// Makes a change, which was made for this state.
    pub fn apply(&mut self, change: Change) {
        change.removed.iter().for_each(|&k| self.remove(k));
        change.added.into_iter().for_each(|kernel| self.insert(kernel));
        (self.stored, self.time) = (change.stored, change.time);
        self.order();
    }

    /// Kernel with a number.
    pub fn kernel(&self, k: usize) -> &Rc<Kernel> {
        self.kernels[k].as_ref().expect("a number of a kernel that is there")
    }

    /// Kernels, in any order.
    pub fn kernels(&self) -> impl Iterator<Item = &Rc<Kernel>> {
        self.kernels.iter().flatten()
    }

    /// Numbers of all kernels, in canonical order.
    pub fn canonical(&self) -> Vec<usize> {
        self.ranked(self.numbered().map(|(k, _)| k).collect())
    }

    /// Number of the kernel that stores operation `op`.
    pub fn home(&self, op: usize) -> usize {
        self.home_of(op).expect("a stored operation has a kernel")
    }

    /// Number of the kernel that stores operation `op`; `None` if that is in another component.
    pub fn home_of(&self, op: usize) -> Option<usize> {
        self.home[op]
    }

    /// Numbers of the kernels that load operation `op`, in any order.
    pub fn loading(&self, op: usize) -> &[usize] {
        &self.loading[op]
    }

    /// Numbers of the kernels that compute operation `op`, in canonical order.
    pub fn computing(&self, op: usize) -> Vec<usize> {
        self.ranked(self.computing[op].clone())
    }

    /// Numbers of the kernels that load, compute or store operation `op`.
    pub fn concerned(&self, op: usize) -> impl Iterator<Item = usize> {
        self.loading[op].iter().chain(&self.computing[op]).copied().chain(self.home[op])
    }

    /// Numbers of the other kernels that read, store or compute something that kernel `k` reads, stores or computes, in
    /// canonical order.
    pub fn related(&self, k: usize) -> Vec<usize> {
        let kernel = self.kernel(k);
        let mut all: Vec<usize> = kernel.candidate.loads.iter().filter_map(|&l| self.home[l]).collect();
        kernel.candidate.loads.iter().chain(&kernel.stores).for_each(|&o| all.extend(&self.loading[o]));
        kernel.candidate.ops().iter().for_each(|&o| all.extend(&self.computing[o]));
        kernel.inputs.iter().for_each(|&i| all.extend(&self.reading[i]));
        all.retain(|&other| other != k);
        self.ranked(all)
    }

    /// Numbers of kernels in canonical order, each once.
    pub fn ranked(&self, mut numbers: Vec<usize>) -> Vec<usize> {
        numbers.sort_unstable_by_key(|&k| self.kernel(k).rank);
        numbers.dedup();
        numbers
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Rc<Kernel>)> {
        self.kernels.iter().enumerate().filter_map(|(k, kernel)| Some((k, kernel.as_ref()?)))
    }

    fn insert(&mut self, kernel: Rc<Kernel>) {
        let k = self.free.pop().unwrap_or_else(|| {
            self.kernels.push(None);
            self.position.push(0);
            self.kernels.len() - 1
        });
        kernel.stores.iter().for_each(|&s| self.home[s] = Some(k));
        kernel.candidate.loads.iter().for_each(|&l| self.loading[l].push(k));
        kernel.candidate.ops().iter().for_each(|&o| self.computing[o].push(k));
        kernel.inputs.iter().for_each(|&i| self.reading[i].push(k));
        self.kernels[k] = Some(kernel);
    }

    fn remove(&mut self, k: usize) {
        let kernel = self.kernels[k].take().expect("a number of a kernel that is there");
        let without = |all: &mut Vec<usize>| all.retain(|&other| other != k);
        kernel.stores.iter().for_each(|&s| self.home[s] = None);
        kernel.candidate.loads.iter().for_each(|&l| without(&mut self.loading[l]));
        kernel.candidate.ops().iter().for_each(|&o| without(&mut self.computing[o]));
        kernel.inputs.iter().for_each(|&i| without(&mut self.reading[i]));
        self.free.push(k);
    }

    /// Sets all positions (Kahn's algorithm).
    fn order(&mut self) {
        let mut waits = vec![0usize; self.kernels.len()];
        let mut ready = vec![];
        for (k, kernel) in self.numbered() {
            waits[k] = kernel.candidate.loads.iter().filter(|&&l| self.home[l].is_some_and(|h| h != k)).count();
            ready.extend((waits[k] == 0).then_some(k));
        }
        let mut next = 0;
        while let Some(k) = ready.pop() {
            self.position[k] = next;
            next += 1;
            for &s in &self.kernel(k).stores {
                for &r in self.loading[s].iter().filter(|&&r| r != k) {
                    waits[r] -= 1;
                    ready.extend((waits[r] == 0).then_some(r));
                }
            }
        }
    }

    /// Checks the rules about several kernels for a state without the kernels `removed`, ascending, and with the kernels
    /// `added`, as [`State::check`] does.
    fn check(&self, facts: &Facts<'_>, removed: &[usize], added: &[Rc<Kernel>]) -> Result<(), Rule> {
        let changed = Changed::new(self, removed, added);
        if changed.has_cycle() {
            return Err(Rule::Cycle);
        }
        // Values that the added kernels store, and those that the removed ones read.
        let stores = added.iter().flat_map(|kernel| &kernel.stores);
        let loads = removed.iter().flat_map(|&k| &self.kernel(k).candidate.loads).filter(|&&l| changed.is_stored(l));
        let unread = |&s: &usize| !facts.required.has(s) && !changed.is_read(s);
        if stores.chain(loads).any(unread) { Err(Rule::Unread) } else { Ok(()) }
    }
}

/// State without some kernels and with others.
struct Changed<'c> {
    state: &'c IndexedState,
    removed: &'c [usize],
    added: &'c [Rc<Kernel>],
    /// Index in `added` of the kernel that stores an operation.
    home: FxHashMap<usize, usize>,
    /// Indices in `added` of the kernels that load an operation.
    loading: FxHashMap<usize, Vec<usize>>,
}

/// Kernel of a changed state.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// Number of a kernel that remains.
    Old(usize),
    /// Index in the added kernels.
    New(usize),
}

impl<'c> Changed<'c> {
    fn new(state: &'c IndexedState, removed: &'c [usize], added: &'c [Rc<Kernel>]) -> Changed<'c> {
        let (mut home, mut loading) = (FxHashMap::default(), FxHashMap::<usize, Vec<usize>>::default());
        for (n, kernel) in added.iter().enumerate() {
            home.extend(kernel.stores.iter().map(|&s| (s, n)));
            kernel.candidate.loads.iter().for_each(|&l| loading.entry(l).or_default().push(n));
        }
        Changed { state, removed, added, home, loading }
    }

    fn remains(&self, k: usize) -> bool {
        self.removed.binary_search(&k).is_err()
    }

    fn is_stored(&self, op: usize) -> bool {
        self.home.contains_key(&op) || self.state.home[op].is_some_and(|k| self.remains(k))
    }

    fn is_read(&self, op: usize) -> bool {
        self.loading.contains_key(&op) || self.state.loading[op].iter().any(|&k| self.remains(k))
    }

    /// Whether kernels wait for each other. Without the added kernels none do, so depth-first searches from these
    /// find any cycle. It passes through a remaining kernel only on the way to one that an added kernel reads from, so kept
    /// kernels behind all of these are left out.
    fn has_cycle(&self) -> bool {
        let position = |&l: &usize| self.state.home[l].filter(|&k| self.remains(k)).map(|k| self.state.position[k]);
        let last = self.added.iter().flat_map(|kernel| &kernel.candidate.loads).filter_map(position).max();
        let mut ended: FxHashSet<Node> = FxHashSet::default();
        let mut path: Vec<(Node, Vec<Node>)> = vec![];
        let mut on_path: FxHashSet<Node> = FxHashSet::default();
        for n in 0..self.added.len() {
            if ended.contains(&Node::New(n)) {
                continue;
            }
            path.push((Node::New(n), self.readers(Node::New(n), last)));
            on_path.insert(Node::New(n));
            while let Some((node, left)) = path.last_mut() {
                match left.pop() {
                    Some(next) if on_path.contains(&next) => return true,
                    Some(next) if ended.contains(&next) => {}
                    Some(next) => {
                        on_path.insert(next);
                        path.push((next, self.readers(next, last)));
                    }
                    None => {
                        on_path.remove(node);
                        ended.insert(*node);
                        path.pop();
                    }
                }
            }
        }
        false
    }

    /// Kernels that read from `node`, of the remaining ones those at positions up to `last`.
    fn readers(&self, node: Node, last: Option<usize>) -> Vec<Node> {
        let kernel = match node {
            Node::Old(k) => self.state.kernel(k),
            Node::New(n) => &self.added[n],
        };
        let near = |k: usize| last.is_some_and(|last| self.state.position[k] <= last) && self.remains(k);
        let mut readers = vec![];
        for s in &kernel.stores {
            readers.extend(self.state.loading[*s].iter().copied().filter(|&k| near(k)).map(Node::Old));
            readers.extend(self.loading.get(s).into_iter().flatten().copied().map(Node::New));
        }
        readers.retain(|&reader| reader != node);
        readers
    }
}

impl Kernels<'_, '_> {
    /// Change to another set of stored operations and to `added` instead of the kernels `removed`. `changed` are the
    /// operations that become stored or are no longer stored. Kernels that load or compute one of them are rebuilt.
    ///
    /// # Errors
    /// The rule that a kernel breaks, or several together.
    pub fn changed(
        &mut self,
        state: &IndexedState,
        (stored, changed): (BitSet, &[usize]),
        removed: &[usize],
        added: &[Vec<usize>],
    ) -> Result<Change, Rule> {
        let touched = changed.iter().flat_map(|&c| state.loading[c].iter().chain(&state.computing[c])).copied();
        let rebuilt = state.ranked(touched.filter(|k| !removed.contains(k)).collect());
        let mut made = Vec::with_capacity(rebuilt.len() + added.len());
        for &k in &rebuilt {
            made.push(self.get(&state.kernel(k).stores, &stored)?);
        }
        for stores in added.iter().filter(|s| !s.is_empty()) {
            made.push(self.get(stores, &stored)?);
        }
        let mut removed: Vec<usize> = removed.iter().copied().chain(rebuilt).collect();
        removed.sort_unstable();
        state.check(self.facts, &removed, &made)?;
        let before: u64 = removed.iter().map(|&k| state.kernel(k).time).sum();
        let after: u64 = made.iter().map(|kernel| kernel.time).sum();
        Ok(Change { stored, removed, added: made, time: state.time - before + after })
    }
}
