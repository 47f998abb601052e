//! Repeated accesses: strided elements that many rows read again.
//!
//! A gather of strided elements takes ten times as long as a load of adjacent ones. Where each element is read several
//! times, as the coordinates of points are for the distances between all of them, a CPU packs them before a launch. The
//! cost model counts such an access as contiguous.

use crate::{Access, AccessClass, AccessGeometry};

/// Minimum number of times that each element of a repeated access is read.
const MIN_READS: usize = 4;

/// Number of elements of a strided access over a domain of sizes `extents`, if each is read several times; vectors go
/// along dimension `lane`.
pub fn repeated(access: &Access, at: &AccessGeometry, extents: &[usize], lane: usize) -> Option<usize> {
    let strided = access.class == AccessClass::Strided && access.operand.is_some() && at.map.is_none();
    if !strided || access.per_row || at.strides[lane] == 0 {
        return None;
    }
    let product = |moves: bool| {
        let sizes = extents.iter().zip(&at.strides).filter(|(_, stride)| (**stride != 0) == moves).map(|(n, _)| *n);
        sizes.fold(1usize, usize::saturating_mul)
    };
    (product(false) >= MIN_READS).then(|| product(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{DType, MAX_RANK};

    #[test]
    fn repeated_elements_are_counted_once() {
        let access = Access { class: AccessClass::Strided, ..Access::contiguous(0, DType::F32) };
        let at = |steps: [isize; 3]| {
            let mut strides = [0; MAX_RANK];
            strides[..3].copy_from_slice(&steps);
            AccessGeometry { base: 0, strides, map: None, reach: None, distinct: 0 }
        };
        let of = |steps, extents: [usize; 3]| repeated(&access, &at(steps), &extents, 2);
        assert_eq!(of([0, 0, 3], [5, 2, 20]), Some(20));
        assert_eq!(of([0, 60, 3], [5, 2, 20]), Some(40));
        assert_eq!(of([60, 0, 3], [5, 2, 20]), None, "read twice");
        assert_eq!(of([0, 3, 0], [5, 2, 20]), None, "one element a row");
        let all = repeated(&Access::contiguous(0, DType::F32), &at([0, 0, 1]), &[5, 2, 20], 2);
        assert_eq!(all, None);
    }
}
