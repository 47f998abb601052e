//! Compares encodings with an independent decoder.

mod encoder;
pub mod gemm;
