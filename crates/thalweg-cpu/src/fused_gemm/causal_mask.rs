//! Causal masks of attention: the number of leading keys that a block of query rows attends to, if a mask compares
//! positions.
//!
//! In: the bodies that compute attention weights, and the scalars of a launch. Out: the number of leading keys that a
//! block of rows attends to. Neither scores nor weights of the other keys are computed, and their values are not read:
//! they would only add zeros at the end of sums, which changes no bits, unless a value is not finite.

use std::ops::Range;
use thalweg_ir::{DType, Scalar};
use thalweg_kernel::{Body, Contraction, ContractionGeometry, causal_mask_of, exponentiated};

/// Granularity, in keys, in which keys are skipped: whole panels of a GEMM, whole vectors of a row.
const KEYS: usize = 64;

/// Bodies that compute the attention weights and may contain a causal mask, found once per kernel; `None` if the kernel
/// is no attention.
#[derive(Debug)]
pub(super) struct Masks(Option<Vec<Body>>);

impl Masks {
    pub(super) fn new(c: &Contraction) -> Masks {
        Masks(exponentiated(c))
    }

    /// Computes the mask of a launch. `scalars` are those of the epilogue of the producer GEMM (scores), and those of
    /// the body that computes the weights.
    pub(super) fn visible_keys(&self, g: &ContractionGeometry, scalars: [&[u64]; 2]) -> VisibleKeys {
        let keys = g.product.k;
        let ahead = self.0.as_ref().and_then(|bodies| {
            let (body, seen) = causal_mask_of(bodies, g)?;
            // The last body computes the weights.
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
        VisibleKeys { ahead, keys }
    }
}

/// Causal mask of a launch: each query row attends to a number of leading keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct VisibleKeys {
    /// Offset of the diagonal: row `r` attends to the keys below `r + ahead`; `None` without a mask.
    ahead: Option<i64>,
    /// Total number of keys, masked or not.
    keys: usize,
}

impl VisibleKeys {
    /// Number of leading keys for which a block of rows needs scores, rounded up to [`KEYS`].
    pub(super) fn of(&self, rows: &Range<usize>) -> usize {
        // A row that attends to no keys is NaN; a block with such a row is computed whole.
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
        let causal = VisibleKeys { ahead: Some(1), keys: 300 };
        let seen = [0..16, 48..64, 64..65, 240..256, 256..257, 290..300].map(|rows| causal.of(&rows));
        assert_eq!(seen, [64, 64, 128, 256, 300, 300]);
        // The first row of the block sees no keys.
        assert_eq!(VisibleKeys { ahead: Some(-3), keys: 300 }.of(&(3..19)), 300);
        assert_eq!(VisibleKeys { ahead: Some(-3), keys: 300 }.of(&(4..20)), 64);
        assert_eq!(VisibleKeys { ahead: None, keys: 300 }.of(&(0..16)), 300);
    }
}
