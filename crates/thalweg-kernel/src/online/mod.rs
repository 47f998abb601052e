//! Online reductions: a fold that depends on an earlier one over the same row runs in the same pass over memory.
//!
//! The squares of `x - mean` need the mean, `exp(x - max)` needs the maximum, and so does the index of the maximum.
//! Each takes a second pass, so a row longer than the caches is read from memory twice. But both passes may run on one
//! block of the row with the block's *own* mean or maximum, while it is in the first-level cache, and the blocks'
//! results are merged afterwards. The merge depends on the function that the later pass folds ([`Rescaling`],
//! docs/monoids.md):
//!
//! - `S_p = Σ w·(x - m)^p·e^(a·(x - m))` for another `m'`, with δ = m - m', is `e^(a·δ)·Σ_q C(p, q)·δ^(p-q)·S_q`. So
//!   the block also computes its *lower moments* `S_q` (variance: Chan, Golub and LeVeque 1979; exponentials: Milakov
//!   and Gimelshein 2018);
//! - a value selected where `x` is the maximum counts if the block's maximum is that of the row.
//!
//! The mean that shifts a block is rounded, and a large mean may be off by a unit in the last place. The lower moments
//! give the error, so mean and squares of the block are corrected (the two-pass algorithm of Chan and others). The
//! result is better than that of two passes, where the rounded mean's error is in every square.
//!
//! In: a body and its phases. Out: the phases that may run together block by block, and the identity of each fold of
//! the later pass. Their execution is up to the device. Results are merged ([`OnlineFold::whole`]) in f64 and in the
//! order of the blocks, so they depend on nothing else.

mod find;
mod merge;

use crate::reciprocal::RowNodes;
use crate::{Body, BodyBuilder, Fold, Node, Phases};
use find::{Choice, Find};
pub use merge::{BlockResult, LOWER, chosen};
use std::ops::Range;
use thalweg_ir::{DType, Monoid, Scalar};

/// Definition of the later fold's shift `m` by folds of the earlier pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shift {
    /// A fixed multiple of the sum of `x`, computed by the fold with that index. A block scales its own sum, so that
    /// `m` becomes its own mean.
    Mean(u16),
    /// The maximum or minimum of `x`, computed by the fold with that index.
    Extreme(u16),
    /// A value that depends only on folds whose block results can replace them: a weighted mean.
    Own,
}

/// Identity that gives a fold from block results, each computed with the block's own earlier folds.
#[derive(Clone, PartialEq, Debug)]
pub enum Rescaling {
    /// Centred sum `Σ w·(x - m)^power·e^(rate·(x - m))`.
    Shifted {
        /// The power of `x - m`.
        power: u8,
        /// Rate of the exponential; 0 without one.
        rate: Rate,
        /// Whether there is a weight `w` that is not 1.
        weighted: bool,
        /// Definition of `m`.
        from: Shift,
        /// Whether the merge replaces a mean that is exact except for rounding by the exact mean.
        exact: bool,
        /// Folds with lower powers of `x - m`, ascending, that a block computes as well; `None` for its number of
        /// elements.
        lower: Vec<Option<u16>>,
    },
    /// Fold of a value selected where `x` is the maximum or minimum given by an earlier fold.
    Chosen {
        /// Index of the fold that computes the maximum or minimum.
        first: u16,
        /// Monoid that combines the selected values.
        op: Monoid,
    },
}

/// Number that is a constant multiplied and divided by scalars of the launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Rate {
    /// Constant factor.
    pub constant: f64,
    /// Indices of the scalars, with their dtypes, and `true` for divisors.
    pub scalars: Vec<(u16, DType, bool)>,
}

impl Rate {
    /// Rate of a sum without an exponential.
    const NONE: Rate = Rate { constant: 0.0, scalars: vec![] };

    /// Whether there is no exponential.
    pub fn is_none(&self) -> bool {
        self.constant == 0.0
    }

    /// Value of the rate, given scalars encoded by [`Scalar::to_bits`].
    pub fn value(&self, scalars: &[u64]) -> f64 {
        self.scalars.iter().fold(self.constant, |rate, &(slot, dtype, below)| {
            let s = Scalar::from_bits(scalars[slot as usize], dtype).to_f64();
            if below { rate / s } else { rate * s }
        })
    }
}

/// Fold of the later pass, with the identity by which block results are merged.
#[derive(Clone, PartialEq, Debug)]
pub struct OnlineFold {
    /// Identity that merges the fold's block results.
    pub how: Rescaling,
    /// Index of the fold in the body.
    pub second: u16,
    /// Dtype of the fold.
    pub dtype: DType,
    /// Index of the row value `m` that elements are shifted by, or compared with.
    pub shift: u16,
    /// Dtype of that row value.
    pub shift_dtype: DType,
}

/// Online reductions of a body.
#[derive(Clone, PartialEq, Debug)]
pub struct OnlinePasses {
    /// Phases that run together, block by block: from the first pass to the second, with the once-per-row phases
    /// between them.
    pub phases: Range<usize>,
    /// One entry per fold of the second pass that the original body had.
    pub list: Vec<OnlineFold>,
}

/// Body with the lower moments that rescaling identities need, as folds after the existing ones.
pub fn with_lower_moments(body: &Body) -> Body {
    let nodes = RowNodes::of(body);
    let find = Find { body, nodes: &nodes };
    let mut b = BodyBuilder::copy(body);
    for fold in &body.folds {
        let Some(m) = find.monomial_of(fold).filter(|m| find.shift(m).is_some()) else { continue };
        for q in m.counted()..m.power {
            let node = m.moment(&mut b, q);
            b.fold(Monoid::Sum, node);
        }
    }
    b.finish()
}

/// Rescaling identities by which the first two passes of a body run as one. The body is from [`with_lower_moments`];
/// its first `own` folds are the original ones. None if some fold of the second pass has no identity, if the second
/// pass stores point by point, or if a once-per-row phase cannot run for a block.
pub fn online_passes(body: &Body, phases: &Phases, own: usize) -> Option<OnlinePasses> {
    let combines = body.stores.iter().any(|s| s.combine.is_some());
    // Values buffered by a pass would be shifted by the block's own value.
    if body.strict || combines || !phases.buffers.is_empty() {
        return None;
    }
    let mut passes = (0..phases.list.len()).filter(|&p| !phases.list[p].once);
    let (one, two) = (passes.next()?, passes.next()?);
    let (earlier, later) = (&phases.list[one].body, &phases.list[two].body);
    let gathers = |b: &Body| b.nodes.iter().any(|n| matches!(n, Node::Gather { .. }));
    // Once-per-row stores are redirected while blocks run, so nothing may be read through them.
    let read = |access: u16| body.nodes.iter().any(|n| n.access() == Some(access));
    let once = &phases.list[one + 1..two];
    if !later.stores.is_empty() || once.iter().any(|p| gathers(&p.body) || p.body.stores.iter().any(|s| read(s.access)))
    {
        return None;
    }
    let nodes = RowNodes::of(body);
    let find = Find { body, nodes: &nodes };
    let wanted = later.folds.iter().filter(|f| (f.slot as usize) < own).map(|f| &body.folds[f.slot as usize]);
    let rescaled = |fold: &Fold| rescaled(&find, phases, fold, (&earlier.folds, own));
    let list: Vec<OnlineFold> = wanted.map(rescaled).collect::<Option<_>>()?;
    let online = OnlinePasses { phases: one..two + 1, list };
    (!online.list.is_empty() && !online.clashes()).then_some(online)
}

/// Identity of a fold. `earlier` are the folds of the earlier pass; the first `own` are the original body's.
fn rescaled(find: &Find<'_>, phases: &Phases, fold: &Fold, (earlier, own): (&[Fold], usize)) -> Option<OnlineFold> {
    let known = |slot: u16| earlier.iter().any(|f| f.slot == slot);
    let (how, shift) = match (find.monomial_of(fold), find.choice_of(fold)) {
        (Some(m), _) => {
            let (from, firsts) = find.shift(&m)?;
            if !firsts.into_iter().all(known) {
                return None;
            }
            let lower = (0..m.power).map(|q| if q < m.counted() { Some(None) } else { find.moment(&m, q).map(Some) });
            let lower = lower.collect::<Option<_>>()?;
            let (power, rate, weighted) = (m.power, m.rate.clone(), m.is_weighted());
            // A body that computes the first moment itself accounts for the mean's rounding error.
            let asked = find.moment(&m, 1).is_some_and(|slot| (slot as usize) < own);
            let exact = matches!(from, Shift::Mean(_)) && power > 1 && !weighted && !asked;
            (Rescaling::Shifted { power, rate, weighted, from, exact, lower }, m.shift)
        }
        (None, Some(Choice { first, value })) => {
            if !known(first) {
                return None;
            }
            (Rescaling::Chosen { first, op: fold.op }, value)
        }
        (None, None) => return None,
    };
    let value = match find.body.nodes[shift.index()] {
        Node::Value { slot, .. } => slot,
        _ => phases.held.iter().find(|(n, _)| *n == shift)?.1,
    };
    let shift_dtype = find.body.dtype(shift);
    Some(OnlineFold { how, second: fold.slot, dtype: find.body.dtype(fold.node), shift: value, shift_dtype })
}

impl OnlinePasses {
    fn firsts(&self, of: impl Fn(Shift) -> Option<u16>) -> Vec<u16> {
        let shift = |l: &OnlineFold| match l.how {
            Rescaling::Shifted { from, .. } => of(from),
            Rescaling::Chosen { .. } => None,
        };
        let mut all: Vec<u16> = self.list.iter().filter_map(shift).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Indices of the sums that a block scales to derive its own mean. Several identities may share one.
    fn means(&self) -> Vec<u16> {
        self.firsts(|from| if let Shift::Mean(first) = from { Some(first) } else { None })
    }

    /// Indices of the maxima and minima that must stay finite in a block: differences from an infinite one are NaN,
    /// even if the row's own is finite.
    fn bounded(&self) -> Vec<u16> {
        self.firsts(|from| if let Shift::Extreme(first) = from { Some(first) } else { None })
    }

    /// Whether one identity needs a fold unchanged that another identity replaces.
    fn clashes(&self) -> bool {
        let (means, bounded) = (self.means(), self.bounded());
        self.list.iter().any(|l| match &l.how {
            Rescaling::Shifted { lower, .. } => lower.iter().flatten().any(|slot| means.contains(slot)),
            Rescaling::Chosen { first, .. } => bounded.contains(first),
        })
    }

    /// Replaces folds of the earlier pass whose block value the later pass cannot use as it is: sums become scaled to
    /// the block, infinite maxima finite. The block has `points` of the row's `row` elements. `value` returns and `set`
    /// stores the value of a fold, encoded by [`Scalar::to_bits`].
    pub fn localise(
        &self,
        earlier: &Body,
        (points, row): (usize, usize),
        value: &dyn Fn(u16, DType) -> u64,
        set: &mut dyn FnMut(u16, u64),
    ) {
        let (means, bounded) = (self.means(), self.bounded());
        for fold in &earlier.folds {
            let dtype = earlier.dtype(fold.node);
            let own = || value(fold.slot, dtype);
            if means.contains(&fold.slot) {
                set(fold.slot, merge::own_mean(own(), dtype, points, row));
            } else if bounded.contains(&fold.slot) {
                set(fold.slot, merge::finite(own(), dtype, fold.op));
            }
        }
    }
}

#[cfg(test)]
mod tests;
