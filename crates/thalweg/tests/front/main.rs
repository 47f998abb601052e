//! The front against NumPy (golden.py writes what NumPy says), and against what its documentation promises.

mod along;
#[cfg(feature = "ndarray")]
mod arrays;
mod creation;
mod display;
mod golden;
#[path = "../mistake/mod.rs"]
mod mistake;
mod mistakes;
mod networks;
mod npy;
mod operators;
mod products;
mod random;
mod readings;
mod values;
mod windows;
