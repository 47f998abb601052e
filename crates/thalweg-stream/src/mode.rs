//! How the calling thread's segments are planned and run.

use crate::setting::{Setting, setting};
use thalweg_fusion::Effort;
use thalweg_runtime::environment::{self, Value};

/// How segments are planned and run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    /// Operations share kernels; otherwise each is a kernel of its own.
    pub fused: bool,
    /// Fused and unfused agree to the bit: no contraction to fused multiply-add, narrow floats rounded after each operation.
    pub strict: bool,
    /// The same program gives the same bits every time: plans follow from what was recorded, not from the clock.
    pub reproducible: bool,
    /// The reference interpreter runs instead of the device's kernels. Slow; for checking.
    pub reference: bool,
}

impl Mode {
    /// From `THALWEG_FUSION=off`, `THALWEG_STRICT=on` and `THALWEG_REPRODUCIBLE=on`.
    fn from_environment() -> Mode {
        Mode {
            fused: !environment::FUSION.is("off"),
            strict: environment::STRICT.is("on"),
            reproducible: environment::REPRODUCIBLE.is("on"),
            reference: false,
        }
    }

    /// A small number, one for each mode.
    pub(crate) fn index(self) -> usize {
        self.fused as usize
            | (self.strict as usize) << 1
            | (self.reference as usize) << 2
            | (self.reproducible as usize) << 3
    }

    pub(crate) fn planning(self) -> thalweg_fusion::Mode {
        thalweg_fusion::Mode { fused: self.fused, strict: self.strict }
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

/// Turns [`Mode::reproducible`] on or off for the calling thread and for threads that have recorded nothing yet; returns what it was for the calling thread.
pub fn set_reproducible(on: bool) -> bool {
    // Asked for first: a thread that has recorded nothing yet would be told what is common from now on.
    let old = mode();
    MODE.change_common(|common| Mode { reproducible: on, ..common });
    set_mode(Mode { reproducible: on, ..old });
    old.reproducible
}

/// How long the calling thread's new patterns are planned for: from `THALWEG_SEARCH` (`none`, a number of visits, or `full`) until set.
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

/// The share of its run time that a segment of the calling thread may spend on measuring other plans; `None` for not measuring. From
/// `THALWEG_MEASURE` (`off`, or a percentage: 5 unless said) until set. Nothing is measured in a reproducible mode, whatever is set.
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
