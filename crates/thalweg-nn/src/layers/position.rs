//! Positions: what tells a network where in a sequence a vector stands.
//!
//! Nothing is kept in tables. Angles are recorded where they are used, the place of the first vector is a scalar of the
//! plan, and the planner decides whether they are stored.

use crate::{Module, Tensor};
use thalweg::{DType, Device};

/// The angles of positions, `[length, size/2]`: position times `base^(-2i/size)`.
fn angles(length: usize, first: usize, size: usize, base: f64, device: Device) -> Tensor {
    let half = size / 2;
    let options = (DType::F32, device);
    let rate = (Tensor::arange_with(half, options) * (-2.0 * base.ln() / size as f64)).exp();
    let position = Tensor::arange_with(length, options).reshape([length, 1]) + first as f64;
    position * rate
}

/// The sines and cosines that a transformer adds to its first vectors (Vaswani et al. 2017), `[length, size]`: position
/// `first + p` has `sin(p·10000^(-2i/size))` in element `2i` and the cosine of the same in `2i + 1`. As f32 on the
/// default device.
///
/// # Panics
/// When the size is odd.
#[track_caller]
pub fn sinusoidal(length: usize, size: usize, first: usize) -> Tensor {
    assert!(size.is_multiple_of(2), "sinusoidal: the size {size} is odd");
    let angles = angles(length, first, size, 10_000.0, Device::default());
    Tensor::stack(&[angles.sin(), angles.cos()], 2).reshape([length, size])
}

/// Rotary positions (Su et al. 2021): pairs of elements of queries and keys are rotated by an angle that grows with the
/// position, so that products of the two depend on distances alone.
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
    /// Of vectors of that size: base 10000, element `i` goes with element `i + size/2`, as in GPT-NeoX and in the
    /// files of LLaMA on the Hub.
    ///
    /// # Panics
    /// When the size is odd.
    #[track_caller]
    pub fn new(size: usize) -> Rotary {
        assert!(size.is_multiple_of(2), "Rotary: the size {size} is odd");
        Rotary { size, base: 10_000.0, interleaved: false }
    }

    /// The angle of pair `i` is the position times `base^(-2i/size)`.
    #[must_use]
    pub fn base(self, base: f64) -> Rotary {
        Rotary { base, ..self }
    }

    /// Element `2i` goes with element `2i + 1`, as in the paper.
    #[must_use]
    pub fn interleaved(self) -> Rotary {
        Rotary { interleaved: true, ..self }
    }

    /// `[.., length, size]`, the first of which is at position `first`.
    ///
    /// # Panics
    /// When the last dimension is not the size, or the dtype is not a float.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, first: usize) -> Tensor {
        let rank = x.rank();
        if rank < 2 || x.dims()[rank - 1] != self.size {
            panic!("Rotary: takes [.., length, {}], not shape {}", self.size, x.shape());
        }
        let (length, half) = (x.dims()[rank - 2], self.size / 2);
        // Both elements of a pair lie along an axis of size 2, so that the other one is a flip: no part is cut out or put
        // in, here or in the backward pass.
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
