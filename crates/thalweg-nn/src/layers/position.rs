//! Positional encodings.
//!
//! No tables are stored. Angles are recorded where they are used, the position of the first vector is a scalar argument
//! of the plan, and the planner decides whether angles are stored.

use crate::{Module, Tensor};
use thalweg::{DType, Device};

/// Angles of positions, `[length, size/2]`: position times `base^(-2i/size)`.
fn angles(length: usize, first: usize, size: usize, base: f64, device: Device) -> Tensor {
    let half = size / 2;
    let options = (DType::F32, device);
    let rate = (Tensor::arange_with(half, options) * (-2.0 * base.ln() / size as f64)).exp();
    let position = Tensor::arange_with(length, options).reshape([length, 1]) + first as f64;
    position * rate
}

/// Sinusoidal encoding, which a transformer adds to its embeddings (Vaswani et al. 2017), `[length, size]`: position
/// `p = first + row` has `sin(p·10000^(-2i/size))` in element `2i` and the cosine of the same angle in element
/// `2i + 1`. f32 on the default device.
///
/// # Panics
/// If the size is odd.
#[track_caller]
pub fn sinusoidal(length: usize, size: usize, first: usize) -> Tensor {
    assert!(size.is_multiple_of(2), "sinusoidal: the size {size} is odd");
    let angles = angles(length, first, size, 10_000.0, Device::default());
    Tensor::stack(&[angles.sin(), angles.cos()], 2).reshape([length, size])
}

/// Rotary embedding (RoPE, Su et al. 2021): pairs of elements of queries and keys are rotated by an angle proportional
/// to the position, so that their dot products depend on relative positions alone.
///
/// ```
/// use thalweg_nn::Rotary;
/// # use thalweg::Tensor;
/// let rotary = Rotary::new(8);
/// let q = Tensor::randn([1, 2, 5, 8]);
/// assert_eq!(rotary.forward(&q, 3).dims(), q.dims());
/// ```
#[derive(Module, Clone, Copy, Debug)]
pub struct Rotary {
    size: usize,
    base: f64,
    interleaved: bool,
}

impl Rotary {
    /// Makes an embedding for vectors of `size` elements: base 10000, element `i` paired with element `i + size/2`, as
    /// in GPT-NeoX and in LLaMA's files on the Hugging Face Hub.
    ///
    /// # Panics
    /// If the size is odd.
    #[track_caller]
    pub fn new(size: usize) -> Rotary {
        assert!(size.is_multiple_of(2), "Rotary: the size {size} is odd");
        Rotary { size, base: 10_000.0, interleaved: false }
    }

    /// Sets the base; the angle of pair `i` is the position times `base^(-2i/size)`.
    #[must_use]
    pub fn base(self, base: f64) -> Rotary {
        Rotary { base, ..self }
    }

    /// Pairs element `2i` with element `2i + 1`, as in the paper.
    #[must_use]
    pub fn interleaved(self) -> Rotary {
        Rotary { interleaved: true, ..self }
    }

    /// Rotates vectors `[.., length, size]`, the first of which is at position `first`. Computed in f32 and cast back
    /// to the dtype of `x`.
    ///
    /// # Panics
    /// If the rank is below 2 or the last dimension is not `size`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, first: usize) -> Tensor {
        let rank = x.rank();
        if rank < 2 || x.dims()[rank - 1] != self.size {
            panic!("Rotary: takes [.., length, {}], not shape {}", self.size, x.shape());
        }
        let (length, half) = (x.dims()[rank - 2], self.size / 2);
        // The two elements of a pair lie on an axis of size 2, so that the partner is a flip: no slices and no
        // concatenation, neither here nor in the backward pass.
        let (axis, sizes, spread) = match self.interleaved {
            true => (-1, [half, 2], [length, half, 1]),
            false => (-2, [2, half], [length, 1, half]),
        };
        let angles = angles(length, first, self.size, self.base, x.device()).reshape(spread);
        let sign = Tensor::arange_with(2, (DType::F32, x.device())) * 2.0 - 1.0;
        let sign = if self.interleaved { sign } else { sign.reshape([2, 1]) };
        let pairs = x.cast(DType::F32).unflatten(-1, sizes);
        let rotated = &pairs * angles.cos() + pairs.flip(axis) * (angles.sin() * sign);
        rotated.reshape(x.shape().dims()).cast(x.dtype())
    }
}
