//! Modes and planning settings of the calling thread.

use crate::setting::{Setting, setting};
use std::num::NonZeroU8;
use thalweg_fusion::Effort;
use thalweg_runtime::environment::{self, Value};

/// Precision of f32 matrix products, as in `torch.set_float32_matmul_precision`. It does not affect other dtypes: bf16
/// and f16 accumulate in f32, f64 in f64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum MatmulPrecision {
    /// Full precision: operands and accumulators are f32.
    #[default]
    Highest,
    /// Operands may be rounded to TF32 (10 mantissa bits instead of 23) where the device has units for that;
    /// accumulators stay f32. No effect on the CPU and in strict mode.
    High,
}

/// Rules by which segments are planned and run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    /// Whether operations are fused into shared kernels; otherwise each is a kernel of its own.
    pub fused: bool,
    /// Whether fused and unfused results must agree bit for bit: no contraction to fused multiply-add, and narrow
    /// floats are rounded after each operation.
    pub strict: bool,
    /// Whether results are reproducible: the same program gives the same bits every time. Plans follow from what was
    /// recorded, not from the clock.
    pub reproducible: bool,
    /// Precision of f32 matrix products.
    pub matmul: MatmulPrecision,
    /// Whether a GPU may add floats by an index in any order, by atomic operations. No effect in strict and reproducible
    /// modes.
    pub atomic_sums: bool,
    /// Whether the reference interpreter runs instead of the device's kernels. Slow; for checking.
    pub reference: bool,
}

impl Mode {
    /// Mode set by `THALWEG_FUSION=off`, `THALWEG_STRICT=on`, `THALWEG_REPRODUCIBLE=on`,
    /// `THALWEG_MATMUL_PRECISION=high` and `THALWEG_ATOMIC_SUMS=on`.
    fn from_environment() -> Mode {
        Mode {
            fused: !environment::FUSION.is("off"),
            strict: environment::STRICT.is("on"),
            reproducible: environment::REPRODUCIBLE.is("on"),
            matmul: match environment::MATMUL_PRECISION.is("high") {
                true => MatmulPrecision::High,
                false => MatmulPrecision::Highest,
            },
            atomic_sums: environment::ATOMIC_SUMS.is("on"),
            reference: false,
        }
    }

    /// Index of the mode, unique among modes and below [`Mode::COUNT`].
    pub(crate) fn index(self) -> usize {
        let flags =
            [self.fused, self.strict, self.reference, self.reproducible, self.is_tf32(), self.adds_atomically()];
        flags.iter().rev().fold(0, |index, &flag| index << 1 | flag as usize)
    }

    /// Number of mode indices: one per combination of six flags.
    pub(crate) const COUNT: usize = 64;

    fn is_tf32(self) -> bool {
        self.matmul == MatmulPrecision::High
    }

    fn adds_atomically(self) -> bool {
        self.atomic_sums && !self.strict && !self.reproducible
    }

    /// Planner mode for a device with this support for contractions.
    pub(crate) fn planning(self, contracts: thalweg_kernel::Contracts) -> thalweg_fusion::Mode {
        let (tf32, atomic) = (self.is_tf32(), self.adds_atomically());
        thalweg_fusion::Mode { fused: self.fused, strict: self.strict, tf32, atomic, contracts }
    }
}

/// A mode in one byte, which every recorded operation reads and compares. Never 0, so that an unset setting is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PackedMode(NonZeroU8);

impl From<Mode> for PackedMode {
    fn from(mode: Mode) -> PackedMode {
        let Mode { fused, strict, reproducible, matmul, atomic_sums, reference } = mode;
        let high = matmul == MatmulPrecision::High;
        let flags = [true, fused, strict, reproducible, high, atomic_sums, reference];
        let bits = flags.iter().rev().fold(0, |bits, &flag| bits << 1 | flag as u8);
        PackedMode(NonZeroU8::new(bits).expect("the first flag is set"))
    }
}

impl From<PackedMode> for Mode {
    fn from(packed: PackedMode) -> Mode {
        let has = |bit: u8| packed.0.get() >> bit & 1 == 1;
        let matmul = if has(4) { MatmulPrecision::High } else { MatmulPrecision::Highest };
        Mode { fused: has(1), strict: has(2), reproducible: has(3), matmul, atomic_sums: has(5), reference: has(6) }
    }
}

const MODE: Setting<PackedMode> = setting!(PackedMode, || Mode::from_environment().into());
const CONVOLUTION: Setting<Option<MatmulPrecision>> = setting!(Option<MatmulPrecision>, || None);
const EFFORT: Setting<Effort> = setting!(Effort, effort_from_environment);
const MEASURING: Setting<Option<f64>> = setting!(Option<f64>, measuring_from_environment);

/// The calling thread's mode: from the environment until it is set.
#[inline]
pub fn mode() -> Mode {
    MODE.get().into()
}

/// [`mode`] as it is stored.
#[inline]
pub(crate) fn packed_mode() -> PackedMode {
    MODE.get()
}

/// Sets the calling thread's mode for what is recorded from now on, and returns the old one.
pub fn set_mode(new: Mode) -> Mode {
    MODE.set(new.into()).into()
}

/// Turns [`Mode::reproducible`] on or off for the calling thread and for threads that have recorded nothing yet.
/// Returns the calling thread's old value.
pub fn set_reproducible(on: bool) -> bool {
    // Read first: in a thread that has recorded nothing yet, `mode` would return the new common value afterwards.
    let old = mode();
    MODE.change_common(|common| Mode { reproducible: on, ..common.into() }.into());
    set_mode(Mode { reproducible: on, ..old });
    old.reproducible
}

/// Sets [`Mode::matmul`] for the calling thread and for threads that have recorded nothing yet. Returns the calling
/// thread's old value.
pub fn set_matmul_precision(matmul: MatmulPrecision) -> MatmulPrecision {
    let old = mode();
    MODE.change_common(|common| Mode { matmul, ..common.into() }.into());
    set_mode(Mode { matmul, ..old });
    old.matmul
}

/// Precision of f32 convolutions that a library computes: that of [`set_convolution_precision`], else that of matrix
/// products.
pub fn convolution_precision() -> MatmulPrecision {
    CONVOLUTION.get().unwrap_or(mode().matmul)
}

/// Sets the precision of convolutions for what the calling thread records from now on, and returns the old one; `None`
/// is that of matrix products.
pub fn set_convolution_precision(new: Option<MatmulPrecision>) -> Option<MatmulPrecision> {
    CONVOLUTION.set(new)
}

/// Sets [`Mode::atomic_sums`] for what the calling thread records from now on, and returns the old value.
pub fn set_atomic_sums(on: bool) -> bool {
    let old = mode();
    set_mode(Mode { atomic_sums: on, ..old });
    old.atomic_sums
}

/// Search effort for the calling thread's new patterns: from `THALWEG_SEARCH` (`none`, a number of visits, or `full`)
/// until it is set.
pub fn effort() -> Effort {
    EFFORT.get()
}

/// Sets the search effort for the calling thread's new patterns and returns the old one.
pub fn set_effort(new: Effort) -> Effort {
    EFFORT.set(new)
}

fn effort_from_environment() -> Effort {
    match environment::SEARCH.get() {
        Some(Value::Word("none") | Value::Number(0)) => Effort::None,
        Some(Value::Word(_)) => Effort::Full,
        Some(Value::Number(visits)) => Effort::Visits(visits),
        _ => Effort::default(),
    }
}

/// Default of [`measuring`].
pub(crate) const DEFAULT_FRACTION: f64 = 0.05;

/// Fraction of its run time that a segment of the calling thread may spend on measuring other plans; `None` disables
/// measuring. From `THALWEG_AUTOTUNE` (`off`, or a percentage; default 5) until it is set. Always `None` in a
/// reproducible mode.
#[inline]
pub fn measuring() -> Option<f64> {
    MEASURING.get().filter(|_| !mode().reproducible)
}

/// Sets the calling thread's [`measuring`] budget and returns the old one.
pub fn set_measuring(share: Option<f64>) -> Option<f64> {
    MEASURING.set(share)
}

fn measuring_from_environment() -> Option<f64> {
    match environment::AUTOTUNE.get() {
        // The only word that the variable accepts is `off`.
        Some(Value::Word(_)) => None,
        Some(Value::Share(share)) => (share > 0.0).then_some(share),
        _ => Some(DEFAULT_FRACTION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_mode_is_the_mode() {
        for bits in 0..64 {
            let has = |bit: u8| bits >> bit & 1 == 1;
            let matmul = if has(3) { MatmulPrecision::High } else { MatmulPrecision::Highest };
            let mode = Mode {
                fused: has(0),
                strict: has(1),
                reproducible: has(2),
                matmul,
                atomic_sums: has(4),
                reference: has(5),
            };
            assert_eq!(Mode::from(PackedMode::from(mode)), mode);
        }
    }
}
