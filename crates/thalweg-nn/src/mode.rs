//! Whether a module is trained.

/// Whether a module is trained: a field of this type follows [`Module::train`](crate::Module::train) and
/// [`Module::eval`](crate::Module::eval). It starts as trained.
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
    /// Trained or not.
    pub fn new(training: bool) -> Mode {
        Mode(training)
    }

    /// Whether it is trained.
    pub fn is_training(self) -> bool {
        self.0
    }
}

impl Default for Mode {
    fn default() -> Mode {
        Mode(true)
    }
}
