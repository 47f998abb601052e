//! How many keys rows of weights see, where a mask says so by comparing places.
//!
//! In: the bodies of a product of weights, and the scalars of a launch. Out: how many of its first keys a block of rows
//! sees: of the others neither scores nor weights are computed, and their values are not read. What they would add to
//! sums are zeros at the end, which changes no bit of these, unless a value is not finite.

use std::ops::Range;
use thalweg_ir::{DType, Scalar};
use thalweg_kernel::{Body, Contraction, ContractionGeometry, exponentiated, seen_of};

/// Keys are left out in so many: whole panels of a product, whole vectors of a row.
const KEYS: usize = 64;

/// What may say which keys are seen, found once a kernel.
#[derive(Debug)]
pub(super) struct Masks(Option<Vec<Body>>);

impl Masks {
    pub(super) fn new(c: &Contraction) -> Masks {
        Masks(exponentiated(c))
    }

    /// What rows see in a launch: `scalars` are those of the first product's epilogue and those of the weights.
    pub(super) fn sight(&self, g: &ContractionGeometry, scalars: [&[u64]; 2]) -> Sight {
        let keys = g.product.k;
        let ahead = self.0.as_ref().and_then(|bodies| {
            let (body, seen) = seen_of(bodies, g)?;
            // The last body is that of the weights.
            let own = scalars[(body + 1 == bodies.len()) as usize];
            let number = |slot: u16| Scalar::from_bits(own[slot as usize], DType::F32).to_f64();
            if seen.hidden.is_some_and(|slot| number(slot) != f64::NEG_INFINITY) {
                return None;
            }
            let Some((slot, minus)) = seen.moved else { return Some(seen.ahead) };
            let by = number(slot);
            let whole = by.fract() == 0.0 && by.abs() < (1 << 24) as f64;
            whole.then_some(seen.ahead + if minus { -by as i64 } else { by as i64 })
        });
        Sight { ahead, keys }
    }
}

/// What the rows of a launch see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// Row `r` sees keys below `r` and this.
    ahead: Option<i64>,
    /// How many there are.
    keys: usize,
}

impl Sight {
    /// Of how many of the first keys these rows need scores.
    pub(super) fn of(&self, rows: &Range<usize>) -> usize {
        // A row that sees none is NaN, and whoever computes it computes all of it.
        let all = |ahead: &i64| rows.start as i64 + ahead > 0;
        let Some(ahead) = self.ahead.filter(all) else { return self.keys };
        let last = (rows.end as i64 - 1 + ahead) as usize;
        last.next_multiple_of(KEYS).min(self.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_see_whole_groups_of_keys_up_to_their_last() {
        let causal = Sight { ahead: Some(1), keys: 300 };
        let seen = [0..16, 48..64, 64..65, 240..256, 256..257, 290..300].map(|rows| causal.of(&rows));
        assert_eq!(seen, [64, 64, 128, 256, 300, 300]);
        // The first row of the block sees nothing.
        assert_eq!(Sight { ahead: Some(-3), keys: 300 }.of(&(3..19)), 300);
        assert_eq!(Sight { ahead: Some(-3), keys: 300 }.of(&(4..20)), 64);
        assert_eq!(Sight { ahead: None, keys: 300 }.of(&(0..16)), 300);
    }
}
