//! Hasher for addresses and small keys that no outsider controls (no protection against collision attacks).

use std::hash::Hasher;

/// Multiplicative hasher. One multiplication spreads an address well enough; a relative operation takes several.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        // The high bits of the product are well mixed, but a hash table indexes by the low ones.
        self.0.rotate_left(32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(b as u64);
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}
