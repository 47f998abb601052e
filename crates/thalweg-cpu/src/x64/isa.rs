//! Vector instruction sets of the machine.

/// An instruction set that the emitter supports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// AVX2 with FMA, F16C and BMI2: 16 registers of 256 bits.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: 32 registers of 512 bits, 7 masks.
    Avx512,
}

impl Isa {
    /// Whether this machine supports it.
    pub fn available(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2");
        match self {
            Isa::Avx2 => avx2,
            Isa::Avx512 => {
                avx2 && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }
}
