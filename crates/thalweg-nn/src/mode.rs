//! Training and evaluation mode.

/// Training or evaluation mode: a field of this type follows [`Module::train`](crate::Module::train) and
/// [`Module::eval`](crate::Module::eval). The default is training.
///
/// ```
/// use thalweg_nn::prelude::*;
/// #[derive(Module, Clone)]
/// struct Noise { deviation: f64, mode: Mode }
/// impl Noise {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         if self.mode.is_training() { x + x.randn_like() * self.deviation } else { x.clone() }
///     }
/// }
/// let mut noise = Noise { deviation: 0.1, mode: Mode::default() };
/// noise.eval();
/// assert!(!noise.mode.is_training());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode(bool);

impl Mode {
    /// Creates training mode if `training`, else evaluation mode.
    pub fn new(training: bool) -> Mode {
        Mode(training)
    }

    /// Whether the mode is training.
    pub fn is_training(self) -> bool {
        self.0
    }
}

impl Default for Mode {
    fn default() -> Mode {
        Mode(true)
    }
}
