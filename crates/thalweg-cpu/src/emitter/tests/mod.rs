//! Tests of the emitter: emitted code is compared with a point-by-point evaluation of the operation table, on every
//! instruction set of the machine.

mod along;
mod decode;
mod evaluate;
mod gathers;
mod interpreter;
mod loops;
mod machine_code;
pub(crate) mod memory;
mod neutral;
mod random;
mod speed;

use super::Isa;
use crate::vector::Options;

/// Instruction sets that this machine can test.
fn isas() -> impl Iterator<Item = Isa> {
    [Isa::Avx512, Isa::Avx2].into_iter().filter(|i| i.available())
}

/// Pseudo-random number generator (xorshift64*); the field is its state.
pub struct Rng(pub u64);
impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
