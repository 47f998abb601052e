//! The x86-64 instruction sets AVX-512 and AVX2.
//!
//! `select` chooses instructions for operations of the vector IR, `ops` lists instructions, `asm` encodes them. `emit`
//! encodes linear code, with `memory`, `folds` and `loops`; `abi` is the calling convention. `gemm` has the
//! micro-kernels of matrix products, `tiles` the permission to use tile registers (AMX).

pub mod abi;
mod asm;
mod emit;
mod folds;
pub mod gemm;
mod loops;
mod memory;
mod ops;
mod select;
#[cfg(all(test, target_arch = "x86_64"))]
pub mod tests;
mod tiles;

use crate::vector::ir::target::Target;
pub use emit::encode;

/// Whether this machine has an x86 feature; false on other architectures.
macro_rules! detected {
    ($feature:tt) => {{
        #[cfg(target_arch = "x86_64")]
        let has = is_x86_feature_detected!($feature);
        #[cfg(not(target_arch = "x86_64"))]
        let has = false;
        has
    }};
}

/// Instruction set level: the generation of vector instructions that code uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// AVX2 with FMA, F16C and BMI2: 16 registers of 256 bits.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: 32 registers of 512 bits, 7 usable mask registers.
    Avx512,
}

impl Level {
    /// Whether this machine has all features of the level.
    pub fn available(self) -> bool {
        let avx2 = [detected!("avx2"), detected!("fma"), detected!("f16c"), detected!("bmi2")];
        let avx512 = [detected!("avx512f"), detected!("avx512dq"), detected!("avx512bw"), detected!("avx512vl")];
        avx2 == [true; 4] && (self == Level::Avx2 || avx512 == [true; 4])
    }

    /// Whether the level and this machine have `vdpbf16ps` (AVX512_BF16).
    pub fn pairs(self) -> bool {
        self == Level::Avx512 && detected!("avx512bf16")
    }

    /// Whether the level and this machine have `vpdpbusd` (AVX512_VNNI).
    pub fn quads(self) -> bool {
        self == Level::Avx512 && detected!("avx512vnni")
    }

    /// Whether the level and this machine have tile registers with products of bf16 (AMX), and the
    /// operating system lets this process use them.
    pub fn tiles(self) -> bool {
        self == Level::Avx512 && tiles::permitted()
    }

    /// Description of the level for the machine-neutral stages.
    pub fn target(self) -> &'static Target {
        match self {
            Level::Avx512 => &select::AVX512,
            Level::Avx2 => &select::AVX2,
        }
    }
}

/// Name of a register for listings: of a vector of `bytes` bytes (`ymm3`), or of a mask register (0 bytes; `k3`).
pub fn register(bytes: u8, number: u8) -> String {
    match bytes {
        0 => format!("k{number}"),
        1..=16 => format!("xmm{number}"),
        32 => format!("ymm{number}"),
        _ => format!("zmm{number}"),
    }
}
