//! Instruction sets, and the functions that each must provide to the emitter.
//!
//! An instruction set has a folder with its [`Target`] (the description for the machine-neutral stages of `vector`),
//! the encoder of linear code, and micro-kernels of matrix products. To add one, write such a folder, and add an arm to
//! each `match` here. All sets are compiled into the crate on every machine, since encoding is plain arithmetic;
//! `available` says which ones this machine can run.

pub mod gemm;
pub mod pages;
mod x86;

#[cfg(all(test, target_arch = "x86_64"))]
pub use x86::tests::gemm::assembled as gemm_functions;

/// Placeholder function types for machines whose instruction set is not supported: no code is ever called there.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use abi::{GemmFunction, MapFunction, RowFunction};
/// Types of emitted functions, in the calling convention of this machine.
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::abi::{GemmFunction, MapFunction, RowFunction};

use crate::vector::ir::target::Target;
use crate::vector::linear::Linear;
use x86::Level;

/// An instruction set that the emitter supports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// AVX2 with FMA, F16C and BMI2: 16 registers of 256 bits.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: 32 registers of 512 bits, 7 usable mask registers.
    Avx512,
}

#[cfg(not(target_arch = "x86_64"))]
mod abi {
    pub type MapFunction = extern "C" fn(*const u64, usize, usize) -> u64;
    pub type RowFunction = extern "C" fn(*const u64, usize, usize, usize, usize) -> u64;
    pub type GemmFunction<T> = extern "C" fn(*const T);
}

impl Isa {
    /// Number of supported instruction sets.
    pub(crate) const COUNT: usize = 2;

    fn level(self) -> Level {
        match self {
            Isa::Avx2 => Level::Avx2,
            Isa::Avx512 => Level::Avx512,
        }
    }

    /// Whether this machine supports the instruction set.
    pub fn available(self) -> bool {
        self.level().available()
    }

    /// Whether this machine has `vdpbf16ps` (AVX512_BF16), which adds the products of pairs of bf16 to f32, and the
    /// instruction set includes it.
    pub(crate) fn pairs(self) -> bool {
        self.level().pairs()
    }

    /// Whether this machine has `vpdpbusd` (AVX512_VNNI), which adds the products of groups of four bytes to i32, and
    /// the instruction set includes it.
    pub(crate) fn quads(self) -> bool {
        self.level().quads()
    }

    /// Whether this machine has tile registers with `tdpbf16ps` (AMX), the operating system lets this process use them,
    /// and the instruction set includes them.
    pub(crate) fn tiles(self) -> bool {
        self.level().tiles()
    }

    /// Description of the instruction set for the machine-neutral stages.
    pub(crate) fn target(self) -> &'static Target {
        self.level().target()
    }

    /// Bytes of a vector register.
    pub(crate) fn bytes(self) -> usize {
        self.target().vector_bytes
    }

    /// Maximum number of rows of a GEMM tile.
    pub(crate) fn tile_rows(self) -> usize {
        x86::gemm::rows(self.level())
    }

    /// Number of columns that a dots kernel with `rows` rows computes at a time.
    pub(crate) fn dot_columns(self, rows: usize) -> usize {
        x86::gemm::columns(self.level(), rows)
    }

    /// Assembles the machine code of a GEMM micro-kernel.
    pub(crate) fn gemm(self, arithmetic: gemm::Arithmetic, form: gemm::Form) -> Vec<u8> {
        x86::gemm::assemble(self.level(), arithmetic, form)
    }

    /// Name of a register for listings: of a vector of `bytes` bytes (`ymm3`), or of a mask register (0 bytes; `k3`).
    pub(crate) fn register(self, bytes: u8, number: u8) -> String {
        x86::register(bytes, number)
    }

    /// Encodes linear code as machine code.
    pub(crate) fn encode(self, code: &Linear) -> Vec<u8> {
        x86::encode(self.level(), code)
    }
}
