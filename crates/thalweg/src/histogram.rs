//! Histograms. Nothing is read back: counts, and edges that depend on the data, are recorded tensors.

use crate::record::{check_alike, wrong_dtype};
use crate::tunable::TUNABLES;
use crate::{DType, Device, Error, Options, Scalar, Tensor};
use thalweg_ir::ScatterOp;

/// Bins of a histogram: a number of bins of equal width, or ascending edges.
///
/// Converts from an integer, or from an array, slice or `Vec` of `f64`, or a vector.
#[derive(Clone, Debug)]
pub enum Bins {
    /// Number of bins of equal width.
    Count(usize),
    /// Bins between neighbouring elements of this vector; the last one includes both its edges, the others only the
    /// left one.
    Edges(Tensor),
}

macro_rules! counts {
    ($($t:ty),*) => {$(
        impl From<$t> for Bins {
            /// # Panics
            /// When `count` is negative.
            #[track_caller]
            fn from(count: $t) -> Bins {
                Bins::Count(usize::try_from(count).unwrap_or_else(|_| panic!("histogram: {count} bins")))
            }
        }
    )*};
}
counts!(usize, i32, i64);

impl From<&[f64]> for Bins {
    fn from(edges: &[f64]) -> Bins {
        Bins::Edges(Tensor::from_slice(edges, [edges.len()]))
    }
}
impl<const N: usize> From<[f64; N]> for Bins {
    fn from(edges: [f64; N]) -> Bins {
        Bins::from(&edges[..])
    }
}
impl From<Vec<f64>> for Bins {
    fn from(edges: Vec<f64>) -> Bins {
        Bins::from(&edges[..])
    }
}
impl From<&Tensor> for Bins {
    fn from(edges: &Tensor) -> Bins {
        Bins::Edges(edges.clone())
    }
}

/// Options of a histogram: range, weights, and normalization to a density.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    range: Option<(f64, f64)>,
    weights: Option<Tensor>,
    density: bool,
}

impl Histogram {
    /// Defaults: the range of the data, and weight 1 for each element.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// The first and the last edge of bins of equal width; elements outside are not counted.
    pub fn range(mut self, low: f64, high: f64) -> Histogram {
        self.range = Some((low, high));
        self
    }

    /// Sets the weight of each element, in the tensor's shape. Counts are then sums of weights, in their dtype.
    pub fn weights(mut self, weights: &Tensor) -> Histogram {
        self.weights = Some(weights.clone());
        self
    }

    /// Divides counts by their sum and by the bin widths, so that the integral is 1. The result is f64 or has the dtype
    /// of the weights.
    pub fn density(mut self, density: bool) -> Histogram {
        self.density = density;
        self
    }
}

/// # Histograms
impl Tensor {
    /// The number of elements in each bin (i64), and the edges of the bins, as `numpy.histogram`. A number of bins
    /// gives bins of equal width from the smallest element to the largest. NaN is not counted.
    ///
    /// Edges are f64 for integers, and f32 for bf16 and f16. They may differ from NumPy's by a rounding; elements are
    /// counted by the edges that are returned.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (counts, edges) = Tensor::new([1.0f32, 2.0, 1.0, 3.0]).histogram(2);
    /// assert_eq!(counts.to_vec::<i64>()?, [2, 2]);
    /// assert_eq!(edges.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On bool, or when there are no bins.
    #[track_caller]
    pub fn histogram(&self, bins: impl Into<Bins>) -> (Tensor, Tensor) {
        self.histogram_with(bins, &Histogram::new())
    }

    /// [`histogram`](Tensor::histogram) with a range, weights, or normalized to a density.
    ///
    /// # Panics
    /// On bool; when there are no bins, the range is empty or not finite, the edges are not a vector of this dtype or
    /// of f64, or the weights have another shape.
    #[track_caller]
    pub fn histogram_with(&self, bins: impl Into<Bins>, how: &Histogram) -> (Tensor, Tensor) {
        if self.dtype() == DType::Bool {
            wrong_dtype("histogram", "a float or integer dtype", DType::Bool);
        }
        if let Some((low, high)) = how.range {
            assert!(low < high && (high - low).is_finite(), "histogram: there is no range from {low} to {high}");
        }
        let x = match self.dtype() {
            DType::F32 | DType::F64 => self.flatten(),
            // bf16 and f16 have too few digits for edges.
            DType::BF16 | DType::F16 => self.flatten().cast(DType::F32),
            _ => self.flatten().cast(DType::F64),
        };
        let (edges, place) = match bins.into() {
            Bins::Count(count) => x.even_bins(count, how.range),
            Bins::Edges(edges) if edges.dtype() == self.dtype() => x.between(&edges.cast(x.dtype())),
            Bins::Edges(edges) => x.between(&edges),
        };
        let count = edges.numel() - 1;
        let counts = x.counted(&place, count, how.weights.as_ref(), self);
        if !how.density {
            return (counts, edges);
        }
        let shares = if counts.dtype().is_float() { counts } else { counts.cast(DType::F64) };
        let widths = (edges.narrow(0, 1, count) - edges.narrow(0, 0, count)).cast(shares.dtype());
        (&shares / widths / shares.sum(..), edges)
    }

    /// The edges of bins of equal width, and the bin of each element of this vector; `count` for elements in no bin.
    #[track_caller]
    fn even_bins(&self, count: usize, range: Option<(f64, f64)>) -> (Tensor, Tensor) {
        assert!(count > 0, "histogram: there are no bins");
        let options = Options::of(self);
        let number = |v: f64| Tensor::full_with((), v, options);
        let (low, high) = match range {
            Some((low, high)) => (number(low), number(high)),
            None if self.numel() == 0 => (number(0.0), number(1.0)),
            None => {
                let (low, high) = (self.nanmin(..), self.nanmax(..));
                // All elements are NaN: the range of an empty tensor.
                let (low, high) = (low.is_nan().where_(0.0, &low), high.is_nan().where_(1.0, &high));
                // All elements are equal: a bin around the value.
                let margin = low.eq(&high).where_(low.full_like(0.5), 0.0);
                (low - &margin, high + margin)
            }
        };
        let i = Tensor::arange_with(count + 1, options);
        let width = (&high - &low) / count as f64;
        let edge = |i: &Tensor| &low + i * &width;
        let edges = i.eq(count as f64).where_(&high, edge(&i));
        if !TUNABLES.max_even_bins.admits(count) {
            return self.between(&edges);
        }
        let inside = self.ge(&low) & self.le(&high);
        let last = (count - 1) as f64;
        let guess = (((self - &low) / (&high - &low)) * count as f64).floor().clamp(0.0, last);
        // The division may be off by one bin; a comparison with the edges decides.
        let below = self.lt(edge(&guess));
        let above = self.ge(edge(&(&guess + 1.0)));
        let place = below.where_(&guess - 1.0, above.where_(&guess + 1.0, &guess)).clamp(0.0, last);
        (edges, inside.where_(place, count as f64).cast(DType::I64))
    }

    /// The edges, and the bin between ascending edges of each element of this vector; the number of bins for elements
    /// in no bin.
    #[track_caller]
    fn between(&self, edges: &Tensor) -> (Tensor, Tensor) {
        let edges = if edges.dtype() == DType::F64 { edges.cast(self.dtype()) } else { edges.clone() };
        check_alike("histogram", self, &edges);
        if edges.rank() != 1 || edges.numel() < 2 {
            panic!("histogram: takes a vector of at least two edges, not shape {}", edges.shape());
        }
        let count = edges.numel() as i64 - 1;
        let (first, last) = (edges.slice(0), edges.slice(-1));
        let place = (edges.searchsorted(self, true) - 1).clamp(0, count - 1);
        let place = self.eq(&last).where_(count - 1, place);
        let inside = self.ge(first) & self.le(last);
        (edges.clone(), inside.where_(place, count))
    }

    /// Number, or total weight, of the elements in each bin below `count`.
    #[track_caller]
    fn counted(&self, place: &Tensor, count: usize, weights: Option<&Tensor>, of: &Tensor) -> Tensor {
        let weights = match weights {
            Some(w) if w.shape() != of.shape() => {
                panic!("histogram: weights of shape {} are not of shape {}", w.shape(), of.shape())
            }
            Some(w) => w.flatten(),
            None => ones(self.numel(), self.device()),
        };
        let none = Tensor::zeros_with([count + 1], Options::of(&weights));
        none.scattered(ScatterOp::Add, 0, place, &weights).narrow(0, 0, count)
    }

    /// The total weight of each value of a vector of non-negative integers, as `numpy.bincount(x, weights)`, in the
    /// dtype of the weights. The result has at least `least` elements, and more if the largest value requires it. Waits
    /// for the largest value.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let weights = Tensor::new([0.5f32, 1.0, 2.0]);
    /// assert_eq!(Tensor::new([0i64, 1, 1]).bincount_weighted(&weights, 0)?.to_vec::<f32>()?, [0.5, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a value is negative or too large for the result to be addressed, or the largest cannot be computed.
    ///
    /// # Panics
    /// When this is not a vector of an integer dtype, or the weights have another shape.
    #[track_caller]
    pub fn bincount_weighted(&self, weights: &Tensor, least: usize) -> Result<Tensor, Error> {
        self.counts_of("bincount_weighted", weights.clone(), least)
    }

    /// Sums of `values` for the integers from 0 to the largest one, at least `least` sums. Waits for the largest
    /// integer; fails if one is negative or too large.
    #[track_caller]
    pub(crate) fn counts_of(&self, name: &str, values: Tensor, least: usize) -> Result<Tensor, Error> {
        if !self.dtype().is_int() {
            wrong_dtype(name, "an integer dtype", self.dtype());
        }
        if self.rank() != 1 {
            panic!("{name}: takes a vector, not shape {}", self.shape());
        }
        if values.shape() != self.shape() {
            panic!("{name}: weights of shape {} are not of shape {}", values.shape(), self.shape());
        }
        // A u64 beyond i64 counts as too large, not as negative.
        let x = if self.dtype() == DType::U64 { self.minimum(i64::MAX) } else { self.clone() }.cast(DType::I64);
        let mut size = least;
        if self.numel() > 0 {
            let [low, high]: [i64; 2] =
                Tensor::stack(&[x.amin(0), x.amax(0)], 0).to_vec()?.try_into().expect("two elements");
            if low < 0 {
                return Err(Error::Index(format!("{name}: {low} is negative")));
            }
            if high as u64 >= i64::MAX as u64 / values.dtype().size() as u64 {
                return Err(Error::Index(format!("{name}: {high} asks for more sums than can be addressed")));
            }
            size = size.max(high as usize + 1);
        }
        let none = Tensor::zeros_with([size], Options::of(&values));
        Ok(none.scattered(ScatterOp::Add, 0, &x, &values))
    }

    /// The index of the bin between ascending edges that each element is in, as i64, as `numpy.digitize`: 0 before the
    /// first edge, the number of edges from the last one on. An element equal to an edge is to its right, with `right`
    /// to its left. (`torch.bucketize` has the opposite meaning of `right`.) NaN is after all edges.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let edges = Tensor::new([0.0f32, 1.0, 2.0]);
    /// assert_eq!(Tensor::new([0.5f32, 1.5]).digitize(&edges, false).to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the edges are not a vector of this dtype, or on bool.
    #[track_caller]
    pub fn digitize(&self, edges: &Tensor, right: bool) -> Tensor {
        check_alike("digitize", self, edges);
        if edges.rank() != 1 {
            panic!("digitize: takes a vector of edges, not shape {}", edges.shape());
        }
        edges.searchsorted(self, !right)
    }
}

/// Vector of `count` ones (i64): the weights of elements that are counted.
pub(crate) fn ones(count: usize, device: Device) -> Tensor {
    Tensor::full_with((), Scalar::Int(1), (DType::I64, device)).broadcast_to([count])
}
