//! How the calling thread's segments are planned and run.

use crate::setting::{Setting, setting};
use thalweg_fusion::Effort;
use thalweg_runtime::environment::{self, Value};

/// How exactly matrix products of f32 are computed, as in `torch.set_float32_matmul_precision`. Products of other
/// dtypes are not concerned: narrow floats are added up in f32, f64 in f64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum MatmulPrecision {
    /// In f32.
    #[default]
    Highest,
    /// Factors may be rounded to TF32 (10 bits behind the point instead of 23), where the device has units for that;
    /// sums stay f32. On the CPU and in strict mode nothing changes.
    High,
}

/// How segments are planned and run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    /// Operations share kernels; otherwise each is a kernel of its own.
    pub fused: bool,
    /// Fused and unfused agree to the bit: no contraction to fused multiply-add, narrow floats rounded after each
    /// operation.
    pub strict: bool,
    /// The same program gives the same bits every time: plans follow from what was recorded, not from the clock.
    pub reproducible: bool,
    /// How exactly products of f32 are computed.
    pub matmul: MatmulPrecision,
    /// The reference interpreter runs instead of the device's kernels. Slow; for checking.
    pub reference: bool,
}

impl Mode {
    /// From `THALWEG_FUSION=off`, `THALWEG_STRICT=on`, `THALWEG_REPRODUCIBLE=on` and `THALWEG_MATMUL_PRECISION=high`.
    fn from_environment() -> Mode {
        Mode {
            fused: !environment::FUSION.is("off"),
            strict: environment::STRICT.is("on"),
            reproducible: environment::REPRODUCIBLE.is("on"),
            matmul: match environment::MATMUL_PRECISION.is("high") {
                true => MatmulPrecision::High,
                false => MatmulPrecision::Highest,
            },
            reference: false,
        }
    }

    /// A small number, one for each mode.
    pub(crate) fn index(self) -> usize {
        let flags = [self.fused, self.strict, self.reference, self.reproducible, self.is_tf32()];
        flags.iter().rev().fold(0, |index, &flag| index << 1 | flag as usize)
    }

    /// How many modes have a number: it is below this.
    pub(crate) const COUNT: usize = 32;

    fn is_tf32(self) -> bool {
        self.matmul == MatmulPrecision::High
    }

    /// How the planner is to plan for a device that contracts so much.
    pub(crate) fn planning(self, contracts: thalweg_kernel::Contracts) -> thalweg_fusion::Mode {
        thalweg_fusion::Mode { fused: self.fused, strict: self.strict, tf32: self.is_tf32(), contracts }
    }
}

const MODE: Setting<Mode> = setting!(Mode, Mode::from_environment);
const EFFORT: Setting<Effort> = setting!(Effort, effort_from_environment);
const MEASURING: Setting<Option<f64>> = setting!(Option<f64>, measuring_from_environment);

/// The calling thread's mode: from the environment until set.
#[inline]
pub fn mode() -> Mode {
    MODE.get()
}

/// Sets the calling thread's mode for what is recorded from now on, and returns the old one.
pub fn set_mode(new: Mode) -> Mode {
    MODE.set(new)
}

/// Turns [`Mode::reproducible`] on or off for the calling thread and for threads that have recorded nothing yet;
/// returns what it was for the calling thread.
pub fn set_reproducible(on: bool) -> bool {
    // Asked for first: a thread that has recorded nothing yet would be told what is common from now on.
    let old = mode();
    MODE.change_common(|common| Mode { reproducible: on, ..common });
    set_mode(Mode { reproducible: on, ..old });
    old.reproducible
}

/// Sets [`Mode::matmul`] for the calling thread and for threads that have recorded nothing yet; returns what it was for
/// the calling thread.
pub fn set_matmul_precision(matmul: MatmulPrecision) -> MatmulPrecision {
    let old = mode();
    MODE.change_common(|common| Mode { matmul, ..common });
    set_mode(Mode { matmul, ..old });
    old.matmul
}

/// How long the calling thread's new patterns are planned for: from `THALWEG_SEARCH` (`none`, a number of visits, or
/// `full`) until set.
pub fn effort() -> Effort {
    EFFORT.get()
}

/// Sets how long the calling thread's new patterns are planned for, and returns the old effort.
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

/// The share of its run time that a segment of the calling thread may spend on measuring other plans; `None` for not
/// measuring. From `THALWEG_MEASURE` (`off`, or a percentage: 5 unless said) until set. Nothing is measured in a
/// reproducible mode, whatever is set.
#[inline]
pub fn measuring() -> Option<f64> {
    MEASURING.get().filter(|_| !mode().reproducible)
}

/// Sets what [`measuring`] tells the calling thread, and returns what it was.
pub fn set_measuring(share: Option<f64>) -> Option<f64> {
    MEASURING.set(share)
}

fn measuring_from_environment() -> Option<f64> {
    match environment::MEASURE.get() {
        // The one word that it may be is `off`.
        Some(Value::Word(_)) => None,
        Some(Value::Share(share)) => (share > 0.0).then_some(share),
        _ => Some(0.05),
    }
}
