//! Random permutations, and weighted choices.

use super::{DEFAULT, Generator, from_system};
use crate::record::{check_float, widened};
use crate::{Axis, DType, Device, Options, Shape, Tensor};
use thalweg_ir::RandomKind;

impl Generator {
    /// Draws 63 random bits for each element, as i64.
    fn keys(&mut self, shape: Shape, device: Device) -> Tensor {
        let mut bits = || self.draw(RandomKind::Bits, DType::U32, shape, device).cast(DType::I64);
        (bits() & 0x7fff_ffffi64) << 32 | bits()
    }

    /// Returns the integers below `n` in random order; see [`Tensor::randperm`].
    #[track_caller]
    pub fn randperm(&mut self, n: usize) -> Tensor {
        self.keys(Shape::new(&[n]), Device::default()).argsort(0, false)
    }

    /// Returns the slices of an axis in random order; see [`Tensor::shuffle`].
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn shuffle(&mut self, x: &Tensor, axis: impl Into<Axis>) -> Tensor {
        let axis = axis.into().of("shuffle", x.rank());
        let order = self.keys(Shape::new(&[x.dims()[axis]]), x.device()).argsort(0, false);
        x.gathered("shuffle", axis, &order.down(axis, x.shape()))
    }

    /// Indices drawn by weight; see [`Tensor::multinomial`].
    ///
    /// # Panics
    /// As [`Tensor::multinomial`].
    #[track_caller]
    pub fn multinomial(&mut self, weights: &Tensor, count: usize, replacement: bool) -> Tensor {
        check_float("multinomial", weights);
        let rank = weights.rank();
        assert!(rank > 0, "multinomial: takes weights along an axis, not shape {}", weights.shape());
        let (axis, n) = (rank - 1, weights.dims()[rank - 1]);
        assert!(n > 0 || count == 0, "multinomial: there are no weights in shape {}", weights.shape());
        assert!(
            replacement || count <= n,
            "multinomial: {count} different ones of {n} are asked for; with replacement there can be more than there are"
        );
        let w = widened(&weights.detach());
        if !replacement {
            // A race of exponential clocks: the order of arrival is distributed as draws without replacement. By
            // logarithms of the times, because a time divided by a small weight overflows to infinity, as one divided
            // by 0.
            let u = self.rand_with(*w.shape(), Options::of(&w));
            return ((-(-u).log1p()).log() - w.log()).argsort(axis, false).part(axis, (0, 1, count));
        }
        let mut shape = *w.shape();
        shape.dims_mut()[axis] = count;
        let sums = w.cast(DType::F64).cumsum(axis);
        let total = sums.part(axis, (n as i64 - 1, 1, 1));
        let u = self.rand_with(shape, (DType::F64, w.device()));
        // If rounding gives the total, the result is the last index with a weight.
        let last = sums.searchsorted(&total, false);
        sums.searchsorted(&(u * total), true).minimum(last)
    }
}

/// # Random permutations and choices
///
/// From the calling thread's generator.
impl Tensor {
    /// The integers from 0 to `n` (excluded) in random order, with equal probability of all orders, as i64, as
    /// `torch.randperm`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::randperm(4).sort(0, false).to_vec::<i64>()?, [0, 1, 2, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn randperm(n: usize) -> Tensor {
        draw!(g => g.randperm(n))
    }

    /// The slices of an axis in random order, as NumPy's `shuffle`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3i32, 1, 2]).shuffle(0).sort(0, false).to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn shuffle(&self, axis: impl Into<Axis>) -> Tensor {
        draw!(g => g.shuffle(self, axis))
    }

    /// `count` indices along the last axis, drawn with the elements as weights, as i64, as `torch.multinomial`. With
    /// `replacement` draws are independent, else no index occurs twice. Weights need not add up to 1. If more distinct
    /// indices are requested than have a weight, the rest have weight 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 1.0]).multinomial(3, true).to_vec::<i64>()?, [1, 1, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float or rank 0, or when more distinct indices are requested than there are.
    #[track_caller]
    pub fn multinomial(&self, count: usize, replacement: bool) -> Tensor {
        draw!(g => g.multinomial(self, count, replacement))
    }
}
