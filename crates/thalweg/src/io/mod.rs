//! Files.

mod npy;
