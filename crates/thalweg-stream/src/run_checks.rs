//! Deferred checks of a run's results: each result gets the checks of everything it depends on.
//!
//! In: the check that the device left for the run, the checks of its inputs, and each result's dependences ([`Reach`]).
//! Out: the [`DeferredChecks`] of each result.

use crate::deferred_check::{DeferredCheck, DeferredChecks, inherit};
use crate::reach::{Indexed, Reach};
use crate::site::{Counted, Site};
use crate::value::Value;
use std::sync::Arc;
use thalweg_fusion::BitSet;
use thalweg_runtime::{Check, Error, FailedCheck};

/// Distinct lists of deferred checks of a run's inputs, each with the set of inputs that share it.
#[derive(Default)]
pub(crate) struct Inherited(Vec<(Arc<DeferredChecks>, BitSet)>);

impl Inherited {
    /// Lists of these inputs; collected before the run releases any input.
    pub fn of(inputs: &[Option<Arc<Value>>]) -> Inherited {
        let mut lists: Vec<(Arc<DeferredChecks>, BitSet)> = vec![];
        for (i, checks) in inputs.iter().enumerate().filter_map(|(i, v)| Some((i, v.as_ref()?.checks()?))) {
            let known = lists.iter().position(|(list, _)| Arc::ptr_eq(list, checks));
            let at = known.unwrap_or_else(|| {
                lists.push((checks.clone(), BitSet::new(inputs.len())));
                lists.len() - 1
            });
            lists[at].1.insert(i);
        }
        Inherited(lists)
    }

    /// Whether no input has checks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Set of the lists that results depending on these inputs inherit.
    fn reached(&self, inputs: &BitSet) -> BitSet {
        let mut all = BitSet::new(self.0.len());
        let reached = self.0.iter().enumerate().filter(|(_, list)| list.1.intersects(inputs));
        reached.for_each(|(at, _)| all.insert(at));
        all
    }
}

/// Pending check for out-of-range indices of a run, with the data for its error message.
pub(crate) struct PendingIndexCheck {
    pub check: Arc<dyn Check>,
    /// Index of the step that each launch runs.
    pub steps: Box<[u32]>,
    pub sites: Box<[(u32, Site)]>,
}

/// Deferred checks of the results of one run. Results with equal dependences share them.
pub(crate) struct OfRun {
    reach: Arc<Reach>,
    inherited: Inherited,
    met: Option<Arc<PendingIndexCheck>>,
    /// Distinct checks so far: the set of inherited lists, the first output that has them, and the checks.
    known: Vec<(BitSet, usize, Option<Arc<DeferredChecks>>)>,
}

impl OfRun {
    /// Checks of a run whose inputs have `inherited`, and for which the device left the check `met`.
    pub fn new(reach: Arc<Reach>, inherited: Inherited, met: Option<PendingIndexCheck>) -> OfRun {
        OfRun { reach, inherited, met: met.map(Arc::new), known: vec![] }
    }

    /// Checks of the output with index `output`.
    pub fn of_output(&mut self, output: usize) -> Option<Arc<DeferredChecks>> {
        let (inputs, indexed) = &self.reach.outputs[output];
        let lists = self.inherited.reached(inputs);
        let same = |k: &&(BitSet, usize, _)| k.0 == lists && self.reach.outputs[k.1].1 == *indexed;
        if let Some(known) = self.known.iter().find(same) {
            return known.2.clone();
        }
        let own = self.met.clone().filter(|_| indexed.count() > 0).map(|met| {
            let (reach, indexed) = (self.reach.clone(), indexed.clone());
            DeferredCheck::new(met.check.clone(), move |found| met.error(found, &reach, &indexed))
        });
        let inherited = inherit(lists.iter().map(|at| &self.inherited.0[at].0));
        let checks = DeferredChecks::new(own, inherited);
        self.known.push((lists, output, checks.clone()));
        checks
    }
}

impl PendingIndexCheck {
    /// Error of results that depend on the gathers and scatters in `of`; `None` if none of these failed.
    fn error(&self, found: &[FailedCheck], reach: &Reach, of: &BitSet) -> Option<Error> {
        let none = BitSet::default();
        let step =
            |f: &FailedCheck| self.steps.get(f.launch).and_then(|&s| reach.steps.get(s as usize)).unwrap_or(&none);
        // A launch with unknown operations may contain any operation.
        let matters = |f: &&FailedCheck| step(f).count() == 0 || step(f).intersects(of);
        let met = step(found.iter().find(matters)?);
        let mut said: Vec<String> = vec![];
        for indexed in met.iter().map(|at| reach.indexed[at]) {
            let Indexed { axis, size, .. } = indexed;
            let range = format!("an index is out of range for axis {axis} of size {size}");
            let text = match self.sites.iter().find(|s| s.0 as usize == indexed.op).map(|s| s.1) {
                Some(Site { name, at, counted: Counted::Combined }) => {
                    format!("{name}: an index is out of range, at {at}")
                }
                Some(Site { name, at, counted: Counted::Computed }) => {
                    let message = format!("{name}: of its own indices, {range}, at {at}");
                    return Some(Error::Internal { message, report: None });
                }
                Some(Site { name, at, .. }) => format!("{name}: {range}, at {at}"),
                None if indexed.scatters => format!("scatter: {range}"),
                None => format!("gather: {range}"),
            };
            if !said.contains(&text) {
                said.push(text);
            }
        }
        Some(Error::Index(if said.is_empty() { "an index is out of range".into() } else { said.join("; or ") }))
    }
}
