//! Counting bits of integers, in two's complement as Rust counts them.

use crate::Tensor;
use crate::record::wrong_dtype;

/// A repeated byte truncated to `bits` bits, as a number of a signed dtype of that width.
fn repeated(byte: u8, bits: u32) -> i64 {
    let all = i64::from_le_bytes([byte; 8]);
    if bits == 64 { all } else { all & ((1 << bits) - 1) }
}

/// # Counts of bits
impl Tensor {
    /// Width of the integer dtype in bits.
    #[track_caller]
    fn integer_bits(&self, name: &str) -> u32 {
        if !self.dtype().is_int() {
            wrong_dtype(name, "an integer dtype", self.dtype());
        }
        8 * self.dtype().size() as u32
    }

    /// The number of bits of each element that are 1, in the tensor's dtype, as Rust's `count_ones`; for -1 all of
    /// them. `numpy.bitwise_count` is this of [`abs`](Tensor::abs). Takes integers.
    ///
    /// # Panics
    /// On a dtype that is not an integer.
    #[doc(alias = "count_ones")]
    #[doc(alias = "bitwise_count")]
    #[track_caller]
    pub fn bit_count(&self) -> Tensor {
        let bits = self.integer_bits("bit_count");
        // Sums of bit pairs, of groups of four, and of bytes (Warren, Hacker's Delight, 5-1). Sign bits that are
        // shifted in are masked.
        let x = self - ((self >> 1) & repeated(0x55, bits));
        let x = (&x & repeated(0x33, bits)) + ((x >> 2) & repeated(0x33, bits));
        let mut x = (&x + (&x >> 4)) & repeated(0x0f, bits);
        let mut width = 8;
        while width < bits {
            x = &x + (&x >> width as i64);
            width *= 2;
        }
        if bits == 8 { x } else { x & 0x7f }
    }

    /// The number of zeros above the highest 1 bit, in the tensor's dtype; the width for 0, and 0 for a negative
    /// number. Takes integers.
    ///
    /// # Panics
    /// On a dtype that is not an integer.
    #[track_caller]
    pub fn leading_zeros(&self) -> Tensor {
        let bits = self.integer_bits("leading_zeros");
        let mut x = self.clone();
        let mut shift = 1;
        while shift < bits {
            x = &x | (&x >> shift as i64);
            shift *= 2;
        }
        (!x).bit_count()
    }

    /// The number of zeros below the lowest 1 bit, in the tensor's dtype; the width for 0. Takes integers.
    ///
    /// # Panics
    /// On a dtype that is not an integer.
    #[track_caller]
    pub fn trailing_zeros(&self) -> Tensor {
        self.integer_bits("trailing_zeros");
        (!self & (self - 1)).bit_count()
    }
}
