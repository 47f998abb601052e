//! Corrections of the cost model: factors by which measured kernels of a class took longer than predicted.
//!
//! In: cost features of kernels that ran, with their predicted and measured times. Out: a factor for each class of
//! kernels ([`KernelClass`]: everything that decides which code runs, with sizes as powers of four). [`Costs::time`]
//! multiplies by it. A constant describes one quantity and is fitted to one kernel; a correction describes what the
//! model leaves out, such as two index maps composed in one loop.
//!
//! Always true: a factor is from [`Corrections::MIN_FACTOR`] to [`Corrections::MAX_FACTOR`], so a corrected time is
//! never below the uncorrected one, and lower bounds of the search stay lower bounds.
//!
//! [`Costs::time`]: super::Costs::time

use super::access::AccessKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

/// Maximum number of corrected classes of a device.
const CLASSES: usize = 512;

/// Kind of loops that a kernel consists of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Family {
    /// One result for each point.
    Map,
    /// Reductions or scans with the lanes of a vector along a row.
    InnerRows,
    /// Reductions or scans with the lanes of a vector across rows.
    OuterRows,
    /// Matrix product, convolution or attention.
    Product,
    /// Values added or written at computed places.
    Scatter,
}

/// Class of kernels that share an error of the cost model. Sizes are powers of four, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct KernelClass {
    /// Kind of loops.
    pub family: Family,
    /// Set of access patterns other than contiguous and uniform: bit [`AccessKind`] for reads, shifted by eight for writes.
    pub(super) accesses: u16,
    /// Set of what is computed: bit of [`COMPUTED`].
    pub(super) computed: u16,
    /// Number of points.
    pub(super) points: u8,
    /// Number of points of a run of neighbouring points; of a product the number of terms.
    pub(super) run: u8,
    /// Number of points of a row; of products their number.
    pub(super) row: u8,
}

/// Names of the bits of [`KernelClass::computed`].
const COMPUTED: [&str; 9] = [
    "division",
    "functions",
    "f64 functions",
    "no vector form",
    "scan",
    "computed factors",
    "repacked",
    "boxes",
    "narrow",
];

impl Display for KernelClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.family {
            Family::Map => "map",
            Family::InnerRows => "rows",
            Family::OuterRows => "columns",
            Family::Product => "product",
            Family::Scatter => "scatter",
        })?;
        // A class from disk may have any powers.
        let about = |power: u8| 1u64 << (2 * power.min(31));
        match self.family {
            Family::InnerRows | Family::OuterRows => write!(f, " of {}", about(self.row))?,
            Family::Product => write!(f, " of {} terms", about(self.run))?,
            Family::Map | Family::Scatter => {}
        }
        write!(f, ", {} points", about(self.points))?;
        for (kind, name) in [
            (AccessKind::Transposed, "transposed"),
            (AccessKind::Conflicting, "conflicting"),
            (AccessKind::Strided, "strided"),
            (AccessKind::Mapped, "mapped"),
            (AccessKind::Close, "mapped to neighbours"),
            (AccessKind::Gathered, "gathered"),
        ] {
            if (self.accesses | self.accesses >> 8) >> kind as u16 & 1 > 0 {
                write!(f, ", {name}")?;
            }
        }
        let computed = COMPUTED.iter().enumerate().filter(|(i, _)| self.computed >> i & 1 > 0);
        computed.map(|(_, name)| name).try_for_each(|name| write!(f, ", {name}"))
    }
}

/// Corrections of one device: a factor for each class of kernels that took longer than predicted. Cheap to clone.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Corrections(Option<Arc<BTreeMap<KernelClass, f64>>>);

impl Corrections {
    /// Minimum factor of a correction: smaller errors are within the model's precision.
    pub const MIN_FACTOR: f64 = 2.0;
    /// Maximum factor of a correction.
    pub const MAX_FACTOR: f64 = 256.0;

    /// Factor for kernels of a class; 1 without a correction.
    pub fn factor(&self, class: KernelClass) -> f64 {
        let known = self.0.as_ref().and_then(|all| all.get(&class));
        known.copied().unwrap_or(1.0)
    }

    /// Corrections with the factors of these classes replaced: by the one given, or by none if it is below
    /// [`Corrections::MIN_FACTOR`].
    pub fn with(&self, factors: impl IntoIterator<Item = (KernelClass, f64)>) -> Corrections {
        let mut all = self.0.as_deref().cloned().unwrap_or_default();
        for (class, factor) in factors {
            if factor < Corrections::MIN_FACTOR || !factor.is_finite() {
                all.remove(&class);
            } else if all.len() < CLASSES || all.contains_key(&class) {
                all.insert(class, factor.min(Corrections::MAX_FACTOR));
            }
        }
        Corrections((!all.is_empty()).then(|| Arc::new(all)))
    }

    /// Corrected classes with their factors, in the order of classes.
    pub fn iter(&self) -> impl Iterator<Item = (KernelClass, f64)> {
        self.0.iter().flat_map(|all| all.iter().map(|(&class, &factor)| (class, factor)))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostFeatures, Costs, Traffic};

    fn map(points: u64, access: AccessKind) -> CostFeatures {
        let read = Traffic { access, write: false, bytes: 4 * points, again: 0, elements: points, narrow: false };
        let write = Traffic { access: AccessKind::Contiguous, write: true, ..read };
        let mut features = CostFeatures::default();
        (features.points, features.runs, features.chunks, features.traffic) = (points, 1, 1, vec![read, write]);
        features
    }

    #[test]
    fn a_correction_scales_its_class_alone() {
        let plain = Costs::typical();
        let (slow, other) = (map(4096, AccessKind::Mapped), map(4096, AccessKind::Strided));
        let corrections = Corrections::default().with([(KernelClass::of(&slow), 5.0)]);
        let costs = Costs { corrections, ..plain.clone() };
        let (before, after) = (plain.time(&slow, 0) as f64, costs.time(&slow, 0) as f64);
        assert!((after / before - 5.0).abs() < 1e-3, "{before} {after}");
        assert_eq!(plain.time(&other, 0), costs.time(&other, 0));
        // Three times the points are of the same class, sixteen times are not.
        assert!(
            costs.time(&map(3 * 4096, AccessKind::Mapped), 0) > 3 * plain.time(&map(3 * 4096, AccessKind::Mapped), 0)
        );
        let far = map(16 * 4096, AccessKind::Mapped);
        assert_eq!(plain.time(&far, 0), costs.time(&far, 0));
        assert_eq!(plain.id(), costs.id(), "plans on disk are found whatever was corrected");
    }

    #[test]
    fn small_factors_remove_a_correction_and_large_ones_are_bounded() {
        let class = KernelClass::of(&map(64, AccessKind::Gathered));
        let some = Corrections::default().with([(class, 1e9)]);
        assert_eq!(some.iter().collect::<Vec<_>>(), [(class, Corrections::MAX_FACTOR)]);
        assert!(some.with([(class, 1.9)]).is_empty());
        assert!(some.with([(class, f64::NAN)]).is_empty());
        assert_eq!(class.to_string(), "map, 64 points, gathered");
    }
}
