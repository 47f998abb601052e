//! Dropout.

use crate::{Mode, Module, Tensor};

/// Each element 0 with a probability while it is trained, the rest scaled so that the mean stays
/// ([`Tensor::dropout`]).
#[derive(Module, Clone, Debug)]
pub struct Dropout {
    p: f64,
    /// Whether it drops.
    pub mode: Mode,
}

impl Dropout {
    /// Of that probability.
    ///
    /// # Panics
    /// When it is not in [0, 1].
    #[track_caller]
    pub fn new(p: f64) -> Dropout {
        assert!((0.0..=1.0).contains(&p), "Dropout: {p} is no probability");
        Dropout { p, mode: Mode::default() }
    }

    /// Any shape, of a float dtype.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if self.mode.is_training() { x.dropout(self.p) } else { x.clone() }
    }
}

/// Dropout of whole channels (dimension 1) of samples (Tompson et al. 2015): `torch.nn.Dropout1d` to `Dropout3d`.
#[derive(Module, Clone, Debug)]
pub struct ChannelDropout {
    p: f64,
    /// Whether it drops.
    pub mode: Mode,
}

impl ChannelDropout {
    /// Of that probability.
    ///
    /// # Panics
    /// When it is not in [0, 1].
    #[track_caller]
    pub fn new(p: f64) -> ChannelDropout {
        assert!((0.0..=1.0).contains(&p), "ChannelDropout: {p} is no probability");
        ChannelDropout { p, mode: Mode::default() }
    }

    /// `[samples, channels, ..]`, of a float dtype.
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        assert!(x.rank() >= 2, "ChannelDropout: takes samples of channels (rank 2 or more), not shape {}", x.shape());
        if !self.mode.is_training() {
            return x.clone();
        }
        let sizes: Vec<usize> = (0..x.rank()).map(|i| if i < 2 { x.dims()[i] } else { 1 }).collect();
        x * Tensor::ones_with(sizes, (x.dtype(), x.device())).dropout(self.p)
    }
}
