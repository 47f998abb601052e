//! Deferral: live results that a recorder leaves unwritten. See [`crate::deferred`].

use super::{Recorder, Wanted};
use crate::deferred::{DeferredValue, Recipe, guesses};
use crate::history::History;
use crate::recognizer::CachedPlan;
use crate::store::{self, Entry};
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_fusion::{BitSet, OwnedSegment};
use thalweg_ir::Arg;
use thalweg_runtime::count;

impl Recorder {
    /// Removes the results to defer from the planned ones, and gives their values a recipe. Returns these results.
    pub(super) fn defer_results(&mut self, wanted: Wanted) -> BitSet {
        let Some(recipe) = self.defer(wanted) else { return BitSet::default() };
        self.held.retain(|h| h.strong_count() > 0);
        for operation in recipe.deferred.iter() {
            let deferred = Arc::new(DeferredValue { recipe: recipe.clone(), operation });
            self.held.push(Arc::downgrade(&deferred));
            self.values[operation].defer(deferred);
            self.planned.remove(operation);
        }
        count(|c| c.values_deferred += recipe.deferred.count() as u64);
        recipe.deferred.clone()
    }

    /// Read history of exactly these live results in earlier runs, if a plan that writes them all is known.
    pub(super) fn history(&mut self) -> Option<Arc<History>> {
        let live = &self.live;
        self.recognizer.known().iter().find(|k| k.live == *live).map(|k| k.history.clone())
    }

    /// Recipe for results that need not be written: those that this pattern's history shows to be dropped unread, and
    /// large ones without history. None if computing them after all would keep more input bytes alive than deferring
    /// saves.
    fn defer(&mut self, wanted: Wanted) -> Option<Arc<Recipe>> {
        let (asked, guessed) = match wanted {
            Wanted::All => return None,
            Wanted::Value { epoch, index } => {
                let asked = (epoch == self.epoch).then_some(index as usize);
                (asked, self.guessed(asked))
            }
            // After a cut by a loop or by memory, what follows likely reads the results.
            Wanted::Nothing => (None, BitSet::default()),
        };
        let (entry, history) = self.writing_all(guessed.count() > 0)?;
        let mut deferred = BitSet::new(self.ops.len());
        let unread = |&i: &usize| {
            let dropped = history.is_unread(i) || guessed.has(i) && history.is_never_read(i);
            dropped && asked != Some(i)
        };
        self.live.iter().filter(unread).for_each(|i| deferred.insert(i));
        let saved: usize = deferred.iter().map(|i| self.values[i].nbytes()).sum();
        let kept = self.own_input_bytes();
        if deferred.count() == 0 || kept > saved {
            return None;
        }
        let guess = deferred.iter().any(|i| !history.is_unread(i));
        let laid = self.laid_out();
        let segment = self.segment(&laid).to_owned();
        let segment = OwnedSegment { live: self.live.clone(), ..segment };
        let inputs = self.inputs.iter().flatten().cloned().collect();
        let recorded = (self.mode, self.stream);
        let what = (segment, self.sizes.clone(), self.sites.as_slice());
        Recipe::new((self.device, recorded, entry), what, inputs, (deferred, history, kept), guess)
    }

    /// Plan store entry and read history of the pattern that writes all live results. If there is none, a new one with
    /// `make`.
    fn writing_all(&mut self, make: bool) -> Option<(Arc<Entry>, Arc<History>)> {
        let live = &self.live;
        if let Some(known) = self.recognizer.known().iter().find(|k| k.live == *live) {
            return Some((known.entry.clone(), known.history.clone()));
        }
        if !make {
            return None;
        }
        // `planned` still equals `live` here, before anything is deferred.
        let laid = self.laid_out();
        let entry = store::entry(self.device, (self.mode, self.stream), &self.segment(&laid), false);
        let history = History::new(self.ops.len());
        let known = CachedPlan { live: self.live.clone(), entry: entry.clone(), history: history.clone(), last: None };
        self.recognizer.add(known);
        Some((entry, history))
    }

    /// Large results that an operation of this segment already reads: most such handles are held until the end of a
    /// statement or scope, and dropped.
    fn guessed(&self, asked: Option<usize>) -> BitSet {
        let worth = |&i: &usize| asked != Some(i) && TUNABLES.min_guessed_bytes.reached_by(self.values[i].nbytes());
        let mut guessed = BitSet::default();
        // Fast path of every run: most segments leave no large result live.
        if !self.live.iter().any(|i| worth(&i)) || !guesses() {
            return guessed;
        }
        guessed.reset(self.ops.len());
        let read = self.ops.iter().flat_map(|op| op.args()).filter_map(|a| match a {
            Arg::Op(i) => Some(i),
            _ => None,
        });
        read.filter(|&i| self.live.has(i)).filter(worth).for_each(|i| guessed.insert(i));
        guessed
    }
}
