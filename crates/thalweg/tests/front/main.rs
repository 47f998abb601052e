//! The front against NumPy (golden.py writes what NumPy says), and against what its documentation promises.

#[cfg(feature = "ndarray")]
mod arrays;
mod creation;
mod display;
mod golden;
mod mistakes;
mod npy;
mod operators;
mod random;
mod values;
