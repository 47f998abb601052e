//! How the calling thread's segments are planned and run.

use std::cell::Cell;
use std::sync::OnceLock;
use thalweg_fusion::Effort;

/// How segments are planned and run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    /// Operations share kernels; otherwise each is a kernel of its own.
    pub fused: bool,
    /// Fused and unfused agree to the bit: no contraction to fused multiply-add, narrow floats rounded after each operation.
    pub strict: bool,
    /// The reference interpreter runs instead of the device's kernels. Slow; for checking.
    pub reference: bool,
}

impl Mode {
    /// From `THALWEG_FUSION=off` and `THALWEG_STRICT=on`.
    fn from_environment() -> Mode {
        let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v.eq_ignore_ascii_case(value));
        Mode { fused: !is("THALWEG_FUSION", "off"), strict: is("THALWEG_STRICT", "on"), reference: false }
    }

    /// A small number, one for each mode.
    pub(crate) fn index(self) -> usize {
        self.fused as usize | (self.strict as usize) << 1 | (self.reference as usize) << 2
    }

    pub(crate) fn planning(self) -> thalweg_fusion::Mode {
        thalweg_fusion::Mode { fused: self.fused, strict: self.strict }
    }
}

static ENVIRONMENT: OnceLock<Mode> = OnceLock::new();

thread_local! {
    static MODE: Cell<Option<Mode>> = const { Cell::new(None) };
}

/// The calling thread's mode: from the environment until set.
#[inline]
pub fn mode() -> Mode {
    match MODE.get() {
        Some(mode) => mode,
        None => set_from_environment(),
    }
}

#[cold]
fn set_from_environment() -> Mode {
    let mode = *ENVIRONMENT.get_or_init(Mode::from_environment);
    MODE.set(Some(mode));
    mode
}

/// Sets the calling thread's mode for what is recorded from now on, and returns the old one.
pub fn set_mode(new: Mode) -> Mode {
    let old = mode();
    MODE.set(Some(new));
    old
}

static EFFORT: OnceLock<Effort> = OnceLock::new();

thread_local! {
    static OWN_EFFORT: Cell<Option<Effort>> = const { Cell::new(None) };
}

/// How long the calling thread's new patterns are planned for: from `THALWEG_SEARCH` (`none`, a number of visits, or `full`) until set.
pub fn effort() -> Effort {
    let from_environment = || match std::env::var("THALWEG_SEARCH").unwrap_or_default().to_ascii_lowercase().as_str() {
        "none" | "0" => Effort::None,
        "full" => Effort::Full,
        other => other.parse().map_or_else(|_| Effort::default(), Effort::Visits),
    };
    OWN_EFFORT.get().unwrap_or_else(|| *EFFORT.get_or_init(from_environment))
}

/// Sets how long the calling thread's new patterns are planned for, and returns the old effort.
pub fn set_effort(new: Effort) -> Effort {
    let old = effort();
    OWN_EFFORT.set(Some(new));
    old
}

static MEASURING: OnceLock<Option<f64>> = OnceLock::new();

thread_local! {
    static OWN_MEASURING: Cell<Option<Option<f64>>> = const { Cell::new(None) };
}

/// The share of its run time that a segment of the calling thread may spend on measuring other plans; `None` for not measuring. From
/// `THALWEG_MEASURE` (`off`, or a percentage: 5 unless said) until set.
#[inline]
pub fn measuring() -> Option<f64> {
    match OWN_MEASURING.get() {
        Some(own) => own,
        None => set_measuring_from_environment(),
    }
}

#[cold]
fn set_measuring_from_environment() -> Option<f64> {
    let share = *MEASURING.get_or_init(|| {
        let text = std::env::var("THALWEG_MEASURE").unwrap_or_default().to_ascii_lowercase();
        match text.trim_end_matches('%').parse::<f64>() {
            Ok(percent) if percent > 0.0 => Some((percent / 100.0).min(1.0)),
            Ok(_) => None,
            Err(_) if text == "off" => None,
            Err(_) => Some(0.05),
        }
    });
    OWN_MEASURING.set(Some(share));
    share
}

/// Sets what [`measuring`] tells the calling thread, and returns what it was.
pub fn set_measuring(share: Option<f64>) -> Option<f64> {
    let old = measuring();
    OWN_MEASURING.set(Some(share));
    old
}
