//! x86-64: AVX-512 and AVX2.
//!
//! `select` chooses instructions for meanings of the vector IR, `ops` lists instructions, `asm` encodes them. `emit` encodes
//! linear code, with `memory`, `folds` and `loops`; `abi` is the calling convention. `gemm` has the micro-kernels of matrix
//! products.

pub mod abi;
mod asm;
mod emit;
mod folds;
pub mod gemm;
mod loops;
mod memory;
mod ops;
mod select;
#[cfg(test)]
pub mod tests;

use crate::vector::ir::target::Target;
pub use emit::encode;

/// Generation of the vector instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// AVX2 with FMA, F16C and BMI2: 16 registers of 256 bits.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: 32 registers of 512 bits, 7 masks.
    Avx512,
}

impl Level {
    /// Whether this machine has it.
    pub fn available(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2");
        match self {
            Level::Avx2 => avx2,
            Level::Avx512 => {
                avx2 && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }

    /// Its description for the machine-neutral stages.
    pub fn target(self) -> &'static Target {
        match self {
            Level::Avx512 => &select::AVX512,
            Level::Avx2 => &select::AVX2,
        }
    }
}

/// Name of a vector register that holds so many bytes, or of a mask register (0 bytes).
pub fn register(bytes: u8, number: u8) -> String {
    match bytes {
        0 => format!("k{number}"),
        1..=16 => format!("xmm{number}"),
        32 => format!("ymm{number}"),
        _ => format!("zmm{number}"),
    }
}
