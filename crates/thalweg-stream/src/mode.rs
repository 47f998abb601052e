//! How the calling thread's segments are planned and run.

use crate::setting::{Setting, setting};
use thalweg_fusion::Effort;

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
        let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v.eq_ignore_ascii_case(value));
        Mode {
            fused: !is("THALWEG_FUSION", "off"),
            strict: is("THALWEG_STRICT", "on"),
            reproducible: is("THALWEG_REPRODUCIBLE", "on"),
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
    MODE.change_common(|common| Mode { reproducible: on, ..common });
    let old = mode();
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
    match std::env::var("THALWEG_SEARCH").unwrap_or_default().to_ascii_lowercase().as_str() {
        "none" | "0" => Effort::None,
        "full" => Effort::Full,
        other => other.parse().map_or_else(|_| Effort::default(), Effort::Visits),
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
    let text = std::env::var("THALWEG_MEASURE").unwrap_or_default().to_ascii_lowercase();
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent > 0.0 => Some((percent / 100.0).min(1.0)),
        Ok(_) => None,
        Err(_) if text == "off" => None,
        Err(_) => Some(0.05),
    }
}
