//! Interpolation of images to other sizes, one axis after the other, by gathers at computed indices.

use crate::record::{check_float, widened};
use crate::{DType, Options, Shape, Tensor};

/// Interpolation method of [`Tensor::interpolate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// The element that the position falls in, PyTorch's "nearest": `⌊i·n/m⌋`.
    Nearest,
    /// The element with the nearest centre, PyTorch's "nearest-exact": `⌊(i + 1/2)·n/m⌋`.
    NearestExact,
    /// Linear between two elements: linear, bilinear, trilinear.
    Linear {
        /// Whether the centres of the first and last elements stay in place, rather than their outer edges.
        align_corners: bool,
    },
    /// Cubic through four elements, with a = -0.75 (Keys 1981): "bicubic" for two axes.
    Cubic {
        /// Whether the centres of the first and last elements stay in place, rather than their outer edges.
        align_corners: bool,
    },
}

/// # Resizing
impl Tensor {
    /// This tensor resized along its last axes, as many as there are sizes, as `torch.nn.functional.interpolate`. The
    /// axes before them (samples, channels) stay. Axes are resized one after the other, the last one first.
    ///
    /// Positions and weights are computed in f32 (for f64 in f64); bf16 and f16 are computed in f32 and rounded once.
    /// Results are the same each time.
    ///
    /// ```
    /// # use thalweg::{Interpolation, Tensor};
    /// let x = Tensor::arange(4).reshape([1, 1, 2, 2]);
    /// let y = x.interpolate([3, 3], Interpolation::Linear { align_corners: true });
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 2.5, 3.0]);
    /// assert_eq!(x.interpolate([4, 4], Interpolation::Nearest).slice((0, 0, 1)).to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, with more sizes than axes, or when an axis or a size is 0.
    #[track_caller]
    pub fn interpolate(&self, sizes: impl Into<Shape>, by: Interpolation) -> Tensor {
        check_float("interpolate", self);
        let sizes = sizes.into();
        if sizes.rank() > self.rank() {
            panic!("interpolate: {} sizes {sizes} for shape {}", sizes.rank(), self.shape());
        }
        let lead = self.rank() - sizes.rank();
        if sizes.iter().chain(&self.dims()[lead..]).any(|&d| d == 0) {
            panic!("interpolate: shape {} to sizes {sizes}: a size is 0", self.shape());
        }
        let mut x = widened(self);
        for (i, &size) in sizes.iter().enumerate().rev() {
            x = x.resized(lead + i, size, by);
        }
        x.cast(self.dtype())
    }

    /// Resizes one axis of the tensor.
    #[track_caller]
    fn resized(&self, axis: usize, size: usize, by: Interpolation) -> Tensor {
        let own = self.dims()[axis];
        let corners = match by {
            Interpolation::Nearest | Interpolation::NearestExact => return self.nearest(axis, size, by),
            Interpolation::Linear { align_corners } | Interpolation::Cubic { align_corners } => align_corners,
        };
        if size == own {
            return self.clone();
        }
        let number = Tensor::arange_with(size, Options::of(self));
        let place = match corners {
            true if size == 1 => number * 0.0,
            true => number * ((own - 1) as f64 / (size - 1) as f64),
            false => (number + 0.5) * (own as f64 / size as f64) - 0.5,
        };
        // The vector is reshaped to broadcast along the axis.
        let along = |v: Tensor| v.reshape([&[size][..], &vec![1; self.rank() - axis - 1]].concat());
        let at = |place: &Tensor, by: i64| self.index_select(axis, &(place.cast(DType::I64) + by).clamp(0, own - 1));
        if let Interpolation::Cubic { .. } = by {
            let first = place.floor();
            let t = place - &first;
            let mut sum: Option<Tensor> = None;
            for (by, weight) in
                [(-1, outer(&t + 1.0)), (0, inner(t.clone())), (1, inner(1.0 - &t)), (2, outer(2.0 - &t))]
            {
                let term = at(&first, by) * along(weight);
                sum = Some(sum.map_or_else(|| term.clone(), |sum| sum + &term));
            }
            return sum.expect("a cubic has four terms");
        }
        let place = place.maximum(0.0);
        let first = place.floor();
        let t = along(place - &first);
        at(&first, 0) * (1.0 - &t) + at(&first, 1) * t
    }

    #[track_caller]
    fn nearest(&self, axis: usize, size: usize, by: Interpolation) -> Tensor {
        let own = self.dims()[axis];
        if size.is_multiple_of(own) {
            // Repetition by an integer factor is a view.
            return self.repeat(size / own, axis);
        }
        if own.is_multiple_of(size) && by == Interpolation::Nearest {
            return self.part(axis, (0, (own / size) as i64, size));
        }
        // In integers, because ⌊i·n/m⌋ of floats may be off by one.
        let number = Tensor::arange_with(size, (DType::I64, self.device()));
        let place = match by {
            Interpolation::NearestExact => ((number * 2 + 1) * own).floor_div(2 * size),
            _ => (number * own).floor_div(size),
        };
        self.index_select(axis, &place)
    }
}

/// The cubic weight of an element at distance less than 1.
fn inner(d: Tensor) -> Tensor {
    ((&d * 1.25 - 2.25) * &d) * d + 1.0
}

/// The cubic weight of an element at distance 1 to 2.
fn outer(d: Tensor) -> Tensor {
    ((&d * -0.75 + 3.75) * &d - 6.0) * d + 3.0
}
