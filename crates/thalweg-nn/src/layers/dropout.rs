//! Dropout.

use crate::{Mode, Module, Tensor};

/// Sets elements to 0 with probability `p` in training and scales the rest by `1/(1 - p)` ([`Tensor::dropout`]), as
/// `torch.nn.Dropout`.
#[derive(Module, Clone, Debug)]
pub struct Dropout {
    p: f64,
    /// Training mode, in which elements are dropped.
    pub mode: Mode,
}

impl Dropout {
    /// Makes dropout with this probability.
    ///
    /// # Panics
    /// If `p` is not in [0, 1].
    #[track_caller]
    pub fn new(p: f64) -> Dropout {
        assert!((0.0..=1.0).contains(&p), "Dropout: {p} is no probability");
        Dropout { p, mode: Mode::default() }
    }

    /// Takes any shape of a float dtype; returns the input unchanged in evaluation mode.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if self.mode.is_training() { x.dropout(self.p) } else { x.clone() }
    }
}

/// Dropout of whole channels (dimension 1) of samples (Tompson et al. 2015), as `torch.nn.Dropout1d` to `Dropout3d`.
#[derive(Module, Clone, Debug)]
pub struct ChannelDropout {
    p: f64,
    /// Training mode, in which channels are dropped.
    pub mode: Mode,
}

impl ChannelDropout {
    /// Makes dropout with this probability.
    ///
    /// # Panics
    /// If `p` is not in [0, 1].
    #[track_caller]
    pub fn new(p: f64) -> ChannelDropout {
        assert!((0.0..=1.0).contains(&p), "ChannelDropout: {p} is no probability");
        ChannelDropout { p, mode: Mode::default() }
    }

    /// Takes `[samples, channels, ..]` of a float dtype; returns the input unchanged in evaluation mode.
    ///
    /// # Panics
    /// If the rank is below 2.
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
