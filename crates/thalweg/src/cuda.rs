//! What there is of NVIDIA's on this machine, for people and installers: [`find`] looks for a library, [`chips`] asks
//! the driver for its GPUs.
//!
//! A GPU is used by its name or number: [`crate::Device::cuda`].

pub use thalweg_cuda::driver::Chip;
pub use thalweg_cuda::find::{Found, Sought, find};

/// What the GPUs are like, by number. None of them is opened.
///
/// # Errors
/// When there is no driver, with what to install, or when it fails.
pub fn chips() -> Result<Vec<Chip>, crate::Error> {
    thalweg_cuda::driver::Cuda::chips()
}
