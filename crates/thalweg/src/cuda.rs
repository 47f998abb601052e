//! NVIDIA libraries and GPUs of this machine, for people and installers: [`find`] looks for a library, [`chips`] asks
//! the driver for its GPUs.
//!
//! To use a GPU, open it by its name or number: [`crate::Device::cuda`].

pub use thalweg_cuda::driver::Chip;
pub use thalweg_cuda::find::{LibrarySearch, Sought, find};

/// Descriptions of the GPUs, by number. Opens none of them.
///
/// # Errors
/// If there is no driver, with what to install, or if it fails.
pub fn chips() -> Result<Vec<Chip>, crate::Error> {
    thalweg_cuda::driver::Cuda::chips()
}
