//! Other sizes for images: interpolation along one axis after the other, by elements at computed places.

use crate::record::{check_float, widened};
use crate::{DType, Options, Shape, Tensor};

/// How [`Tensor::interpolate`] finds values between elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// The element that the place falls in, by PyTorch's "nearest": `⌊i·n/m⌋`.
    Nearest,
    /// The nearest element's centre: `⌊(i + 1/2)·n/m⌋` (PyTorch's "nearest-exact").
    NearestExact,
    /// A line between two elements: linear, bilinear, trilinear.
    Linear {
        /// Whether the first and last elements stay where they are, rather than the borders of the first and last.
        align_corners: bool,
    },
    /// A cubic through four elements, with a = -0.75 (Keys 1981): "bicubic" for two axes.
    Cubic {
        /// Whether the first and last elements stay where they are, rather than the borders of the first and last.
        align_corners: bool,
    },
}

impl Tensor {
    /// Resized along its last axes, as many as there are sizes; the axes before them (samples, channels) stay. One axis
    /// after the other, the last one first.
    ///
    /// Places and weights are computed in f32 (of f64 in f64), bf16 and f16 in f32 and rounded once; results are the
    /// same each time.
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

    /// One axis resized.
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
        // Along the axis, against the dimensions behind it.
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
            // Whole repetitions are a view.
            return self.repeat(size / own, axis);
        }
        if own.is_multiple_of(size) && by == Interpolation::Nearest {
            return self.part(axis, (0, (own / size) as i64, size));
        }
        // In integers, since ⌊i·n/m⌋ of floats may be off by one.
        let number = Tensor::arange_with(size, (DType::I64, self.device()));
        let place = match by {
            Interpolation::NearestExact => ((number * 2 + 1) * own).floor_div(2 * size),
            _ => (number * own).floor_div(size),
        };
        self.index_select(axis, &place)
    }
}

/// The cubic's weight of an element less than 1 away.
fn inner(d: Tensor) -> Tensor {
    ((&d * 1.25 - 2.25) * &d) * d + 1.0
}

/// The cubic's weight of an element 1 to 2 away.
fn outer(d: Tensor) -> Tensor {
    ((&d * -0.75 + 3.75) * &d - 6.0) * d + 3.0
}
