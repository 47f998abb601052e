//! Online reductions: what lets a fold that depends on an earlier one over the same row run in the same pass over
//! memory.
//!
//! The squares of `x - mean` need the mean, `exp(x - max)` needs the maximum, the place of the maximum needs it, too. So
//! each takes a second pass, and a row that is longer than the caches is read from memory twice. But both passes may run
//! on one block of the row with the block's *own* mean or maximum while it is in the nearest cache, and the blocks'
//! results be put together afterwards. How follows from what the later pass folds ([`Rescaling`], docs/monoids.md):
//!
//! - `S_p = Σ w·(x - m)^p·e^(a·(x - m))` for another `m'`, with δ = m - m', is `e^(a·δ)·Σ_q C(p, q)·δ^(p-q)·S_q`, so the
//!   block gives its *lower moments* `S_q` beside (variance: Chan, Golub and LeVeque 1979; exponentials: Milakov and
//!   Gimelshein 2018);
//! - what is chosen where `x` is the largest counts where the block's largest is that of the row.
//!
//! The mean that a block is shifted by is rounded, and may be a unit in the last place of a large mean off. The lower
//! moments say by how much, so mean and squares of the block are corrected (the two-pass algorithm of Chan and others).
//! What comes out is better than what two passes give, which has the error of the rounded mean in every square.
//!
//! In: a body and its phases. Out: the phases that may run together block by block, and the identity of each fold of
//! the later pass. How they run is the device's; how results are put together is in [`merge`](Part), in f64 and in the
//! order of the blocks, so it depends on nothing else.

mod find;
mod merge;

use crate::reciprocal::RowNodes;
use crate::{Body, BodyBuilder, Fold, Node, Phases};
use find::{Choice, Find};
pub use merge::{LOWER, Part, chosen};
use std::ops::Range;
use thalweg_ir::{DType, Monoid, Scalar};

/// What the elements of the earlier fold, or its result, are to the later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shift {
    /// A fixed multiple of the sum of `x`: of that fold. A block scales its own sum, so that it has its own mean.
    Mean(u16),
    /// The maximum or minimum of `x`, that fold.
    Extreme(u16),
    /// What follows from such folds of the row as a block has itself: a weighted mean.
    Own,
}

/// How a fold follows from what it is in blocks, each with earlier folds of its own.
#[derive(Clone, PartialEq, Debug)]
pub enum Rescaling {
    /// `Σ w·(x - m)^power·e^(rate·(x - m))`.
    Shifted {
        /// The power of `x - m`.
        power: u8,
        /// The rate of the exponential; 0 where there is none.
        rate: Rate,
        /// Whether there is a `w` that is not 1.
        weighted: bool,
        /// What `m` is.
        from: Shift,
        /// Whether a mean that is one but for its rounding stands for the exact one.
        exact: bool,
        /// The folds of lower powers, ascending, that the block gives; none for the number of its elements.
        lower: Vec<Option<u16>>,
    },
    /// The fold of what is chosen where `x` is the extreme that this earlier fold gives.
    Chosen {
        /// The earlier fold.
        first: u16,
        /// How the chosen are put together.
        op: Monoid,
    },
}

/// A number: a constant times and over scalars that are given at launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Rate {
    /// The constant.
    pub constant: f64,
    /// Scalars, with their dtypes, and whether it is their reciprocal.
    pub scalars: Vec<(u16, DType, bool)>,
}

impl Rate {
    /// No exponential.
    const NONE: Rate = Rate { constant: 0.0, scalars: vec![] };

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.constant == 0.0
    }

    /// The number, scalars in the form of [`Scalar::to_bits`].
    pub fn value(&self, scalars: &[u64]) -> f64 {
        self.scalars.iter().fold(self.constant, |rate, &(slot, dtype, below)| {
            let s = Scalar::from_bits(scalars[slot as usize], dtype).to_f64();
            if below { rate / s } else { rate * s }
        })
    }
}

/// A fold of the later pass with its identity.
#[derive(Clone, PartialEq, Debug)]
pub struct OnlineFold {
    /// Which identity.
    pub how: Rescaling,
    /// The fold.
    pub second: u16,
    /// Its dtype.
    pub dtype: DType,
    /// The value of the row that elements are shifted by, or compared with.
    pub shift: u16,
    /// Its dtype.
    pub shift_dtype: DType,
}

/// The online reductions of a body.
#[derive(Clone, PartialEq, Debug)]
pub struct OnlinePasses {
    /// The phases that run together, block by block: from the first pass to the second, with what runs once a row
    /// between.
    pub phases: Range<usize>,
    /// One for each fold of the second pass that the body had.
    pub list: Vec<OnlineFold>,
}

/// The body with the lower moments that rescaling identities want, as folds behind those that it has.
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

/// The rescaling identities by which the first two passes of a body (one with [`with_lower_moments`], of which the first
/// `own` folds are the body's) run as one. None where some fold of the second pass obeys none, where the second pass
/// stores point by point, or where what runs once a row cannot run for a block.
pub fn online_passes(body: &Body, phases: &Phases, own: usize) -> Option<OnlinePasses> {
    let combines = body.stores.iter().any(|s| s.combine.is_some());
    // What a pass keeps in a buffer would be shifted by the block's own value.
    if body.strict || combines || !phases.buffers.is_empty() {
        return None;
    }
    let mut passes = (0..phases.list.len()).filter(|&p| !phases.list[p].once);
    let (one, two) = (passes.next()?, passes.next()?);
    let (earlier, later) = (&phases.list[one].body, &phases.list[two].body);
    let gathers = |b: &Body| b.nodes.iter().any(|n| matches!(n, Node::Gather { .. }));
    // Stores of what is the same for a row go elsewhere while blocks run, so nothing may be read through them.
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

/// The identity of a fold. `earlier` are the folds of the earlier pass, the first `own` are the body's.
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
            // Who asks for what the rounding leaves takes it into account.
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

    /// Sums that a block scales. Several rescaling identities may share one.
    fn means(&self) -> Vec<u16> {
        self.firsts(|from| if let Shift::Mean(first) = from { Some(first) } else { None })
    }

    /// Extremes that are kept finite in a block: what differs from an infinite one is NaN, and beside a finite one of
    /// the row it is not.
    fn bounded(&self) -> Vec<u16> {
        self.firsts(|from| if let Shift::Extreme(first) = from { Some(first) } else { None })
    }

    /// Whether one identity needs as it is what another changes.
    fn clashes(&self) -> bool {
        let (means, bounded) = (self.means(), self.bounded());
        self.list.iter().any(|l| match &l.how {
            Rescaling::Shifted { lower, .. } => lower.iter().flatten().any(|slot| means.contains(slot)),
            Rescaling::Chosen { first, .. } => bounded.contains(first),
        })
    }

    /// What stands for the folds of the earlier pass, of a row of `row` elements, in a block of `points`, where that is
    /// not the block's own: `value` gives, and `set` takes, the value of a fold in the form of [`Scalar::to_bits`].
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
