//! Counting into bins. Nothing is read: the counts, and edges that follow from the data, are tensors like any others.

use crate::record::{check_alike, wrong_dtype};
use crate::tunable::TUNABLES;
use crate::{DType, Device, Error, Options, Scalar, Tensor};
use thalweg_ir::ScatterOp;

/// The bins of a histogram: so many of one width, or their edges, ascending. Made from an integer, or from an array,
/// slice or `Vec` of `f64`, or a vector.
#[derive(Clone, Debug)]
pub enum Bins {
    /// So many of one width.
    Count(usize),
    /// Between neighbours of this vector; the last one with both its edges, the others without the right one.
    Edges(Tensor),
}

macro_rules! counts {
    ($($t:ty),*) => {$(
        impl From<$t> for Bins {
            /// # Panics
            /// Below 0.
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

/// How a histogram counts: in which range, with which weights, and whether it is a density.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    range: Option<(f64, f64)>,
    weights: Option<Tensor>,
    density: bool,
}

impl Histogram {
    /// In the range of the data, each element once.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// The first and the last edge of bins of one width; elements outside are not counted.
    pub fn range(mut self, low: f64, high: f64) -> Histogram {
        self.range = Some((low, high));
        self
    }

    /// What each element counts, in its shape. The counts are sums of these, in their dtype.
    pub fn weights(mut self, weights: &Tensor) -> Histogram {
        self.weights = Some(weights.clone());
        self
    }

    /// Counts divided by their sum and by the widths of the bins, so that the integral is 1, as f64 or in the dtype of
    /// the weights.
    pub fn density(mut self, density: bool) -> Histogram {
        self.density = density;
        self
    }
}

impl Tensor {
    /// How many elements are in each bin (i64), and the edges of the bins, as `numpy.histogram`. Bins that are given by
    /// their number have one width and reach from the smallest element to the largest. NaN is not counted. The edges are
    /// f64 for integers, and f32 for bf16 and f16; they may differ from NumPy's by a rounding, and an element on one is counted by the edges that
    /// are returned.
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

    /// [`histogram`](Tensor::histogram) with a range, weights, or as a density.
    ///
    /// # Panics
    /// On bool; when there are no bins, the range is empty or not finite, edges are no vector of this dtype or of f64, or
    /// the weights have another shape.
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
            // Edges in so few digits would be far off.
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

    /// Edges of bins of one width, and in which each element of this vector is; the number of bins for none.
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
                // The range of an empty tensor, if all elements are NaN.
                let (low, high) = (low.is_nan().where_(0.0, &low), high.is_nan().where_(1.0, &high));
                // Of one value there is a bin around it.
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
        // The division may be off by one: the edges, computed once more, decide.
        let below = self.lt(edge(&guess));
        let above = self.ge(edge(&(&guess + 1.0)));
        let place = below.where_(&guess - 1.0, above.where_(&guess + 1.0, &guess)).clamp(0.0, last);
        (edges, inside.where_(place, count as f64).cast(DType::I64))
    }

    /// Which of the bins between ascending edges each element of this vector is in; their number for none.
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

    /// How many elements, or how much weight, go to each place below `count`.
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

    /// How much weight each number of a vector of numbers from 0 on has, as `numpy.bincount(x, weights)`: at least
    /// `least` sums, and as many as the largest number asks for, in the dtype of the weights. Reads that.
    ///
    /// # Errors
    /// When a number is negative, or asks for more sums than can be addressed, or the largest cannot be computed.
    ///
    /// # Panics
    /// When this is not a vector of an integer dtype, or the weights have another shape.
    #[track_caller]
    pub fn bincount_weighted(&self, weights: &Tensor, least: usize) -> Result<Tensor, Error> {
        self.counts_of("bincount_weighted", weights.clone(), least)
    }

    /// The sums of values at each number, up to the largest.
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
        // What i64 does not hold is too large, and not negative.
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

    /// In which of the bins between ascending edges each element is, as i64, as `numpy.digitize`: 0 before the first
    /// edge, their number from the last one on. An element that equals an edge is right of it, or with `right` left of
    /// it. (`torch.bucketize` names the two the other way round.) NaN is behind all.
    ///
    /// # Panics
    /// When the edges are no vector of this dtype, or on bool.
    #[track_caller]
    pub fn digitize(&self, edges: &Tensor, right: bool) -> Tensor {
        check_alike("digitize", self, edges);
        if edges.rank() != 1 {
            panic!("digitize: takes a vector of edges, not shape {}", edges.shape());
        }
        edges.searchsorted(self, !right)
    }
}

/// So many ones to be counted.
pub(crate) fn ones(count: usize, device: Device) -> Tensor {
    Tensor::full_with((), Scalar::Int(1), (DType::I64, device)).broadcast_to([count])
}
