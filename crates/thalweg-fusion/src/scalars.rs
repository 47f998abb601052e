//! Classes of equal scalars, which share their arithmetic.
//!
//! A program written by hand names the same constant many times (`x·p` and `-x·p`); half of its work may disappear if
//! the two are known to be equal. Equality is not structure: it holds for one run and may fail in the next. So it is an
//! assumption beside the plan. Scalars are sorted into classes, and every run checks that the classes still hold. If
//! they do not, they are split, never merged again. So the classes of a pattern with `n` scalars change at most `n`
//! times.

use rustc_hash::FxHashMap;

/// Partition of a pattern's scalars into classes of equal bits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ScalarClasses {
    /// Representative of each scalar: the first scalar of its class.
    first: Vec<u32>,
    /// Scalars that are not the representative of their class. Each run compares them with it.
    others: Vec<u32>,
}

impl ScalarClasses {
    /// Sorts scalars into classes of equal bits.
    pub fn new(scalars: &[u64]) -> ScalarClasses {
        ScalarClasses::sort(scalars.iter().map(|&s| (s, 0)))
    }

    fn sort(keys: impl Iterator<Item = (u64, u32)>) -> ScalarClasses {
        let mut seen: FxHashMap<(u64, u32), u32> = FxHashMap::default();
        let first: Vec<u32> = keys.enumerate().map(|(i, key)| *seen.entry(key).or_insert(i as u32)).collect();
        let others = first.iter().enumerate().filter(|(i, c)| *i as u32 != **c).map(|(i, _)| i as u32).collect();
        ScalarClasses { first, others }
    }

    /// Whether these scalars are equal within each class.
    #[inline]
    pub fn hold(&self, scalars: &[u64]) -> bool {
        self.others.iter().all(|&i| scalars[i as usize] == scalars[self.first[i as usize] as usize])
    }

    /// Splits the classes so that these scalars are equal within each; classes are never merged.
    pub fn split(&self, scalars: &[u64]) -> ScalarClasses {
        ScalarClasses::sort(scalars.iter().zip(&self.first).map(|(&s, &c)| (s, c)))
    }

    /// Representative of the class of scalar `i`: its first scalar.
    pub(crate) fn representative(&self, i: usize) -> usize {
        self.first[i] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_only_split() {
        let c = ScalarClasses::new(&[5, 7, 5, 5]);
        assert!(c.hold(&[1, 1, 1, 1]) && !c.hold(&[1, 2, 1, 3]));
        let c = c.split(&[1, 2, 1, 3]);
        assert!(c.hold(&[4, 4, 4, 9]) && c.hold(&[1, 2, 1, 3]) && !c.hold(&[1, 1, 2, 1]));
        assert_eq!((0..4).map(|i| c.representative(i)).collect::<Vec<_>>(), [0, 1, 0, 3]);
    }
}
