//! Sorting, searching and distinct elements.
//!
//! Sorts are stable. NaN is larger than every number: it is last in ascending order, and first in descending order.

use crate::record::check_alike;
use crate::tunable::TUNABLES;
use crate::{Axis, DType, Error, Scalar, Tensor};
use thalweg_ir::{ScanOp, ScatterOp};

/// Block length of [`Tensor::topk`] for `k` of `n` elements, so that both of its sorts have about the same length.
fn block_length(n: usize, k: usize) -> usize {
    ((n as f64 / k as f64).sqrt() as usize).max(1).next_multiple_of(TUNABLES.block_multiple.size())
}

/// Logical or of two masks, where `None` is a mask of only false.
fn or(a: &Option<Tensor>, b: &Option<Tensor>) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a | b),
        (a, b) => a.clone().or_else(|| b.clone()),
    }
}

/// # Sorting and searching
///
/// Sorts are stable; NaN is the largest element.
impl Tensor {
    /// The elements sorted along an axis, as `numpy.sort`. Stable.
    ///
    /// With the indices it is [`sort_with_indices`](Tensor::sort_with_indices); of a few elements
    /// [`topk`](Tensor::topk) is faster.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([2.0f32, f32::NAN, -1.0]);
    /// assert_eq!(x.sort(0, false).to_vec::<f32>()?[..2], [-1.0, 2.0]);
    /// assert_eq!(x.argsort(0, true).to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn sort(&self, axis: impl Into<Axis>, descending: bool) -> Tensor {
        let axis = axis.into().of("sort", self.rank());
        self.scanned(ScanOp::Sort, axis, descending)
    }

    /// The indices that sort an axis, as i64, as `numpy.argsort`. Stable.
    ///
    /// See also [`argmax`](Tensor::argmax) and [`topk`](Tensor::topk).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([2i32, 9, 1]).argsort(0, false).to_vec::<i64>()?, [2, 0, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn argsort(&self, axis: impl Into<Axis>, descending: bool) -> Tensor {
        let axis = axis.into().of("argsort", self.rank());
        self.scanned(ScanOp::Argsort, axis, descending)
    }

    /// The elements sorted along an axis, and their indices, as `torch.sort`. Stable.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (values, at) = Tensor::new([2i32, 9, 1]).sort_with_indices(0, true);
    /// assert_eq!((values.to_vec::<i32>()?, at.to_vec::<i64>()?), (vec![9, 2, 1], vec![1, 0, 2]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn sort_with_indices(&self, axis: impl Into<Axis>, descending: bool) -> (Tensor, Tensor) {
        let axis = axis.into().of("sort_with_indices", self.rank());
        let places = self.scanned(ScanOp::Argsort, axis, descending);
        (self.gathered("sort_with_indices", axis, &places), places)
    }

    /// The `k` largest (or smallest) elements along an axis, sorted, and their indices, as `torch.topk`.
    ///
    /// See also [`kthvalue`](Tensor::kthvalue) for one of them.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (values, at) = Tensor::new([2i32, 9, 1, 7]).topk(2, 0, true);
    /// assert_eq!((values.to_vec::<i32>()?, at.to_vec::<i64>()?), (vec![9, 7], vec![1, 3]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis, or it has fewer than `k` elements.
    #[track_caller]
    pub fn topk(&self, k: usize, axis: impl Into<Axis>, largest: bool) -> (Tensor, Tensor) {
        let axis = axis.into().of("topk", self.rank());
        if k > self.dims()[axis] {
            panic!("topk: {k} elements are not in axis {axis} of {}", self.shape());
        }
        let n = self.dims()[axis];
        let number = self.dtype() != DType::Bool;
        let tune = &TUNABLES;
        let comparable = number && k > 0 && self.numel() > 0;
        let few = comparable && n < 1 << 29 && tune.max_selected.admits(k) && tune.min_selected_ratio.reached_by(n / k);
        let long = comparable
            && tune.min_blocked_row.reached_by(n)
            && tune.min_blocked_ratio.reached_by(n / k)
            && n / block_length(n, k) >= k;
        let places = if long && !tune.max_folded.admits(k) {
            self.places_by_blocks(k, axis, largest)
        } else if few {
            self.first_places(k, axis, largest)
        } else {
            self.scanned(ScanOp::Argsort, axis, largest).part(axis, (0, 1, k))
        };
        (self.gathered("topk", axis, &places), places)
    }

    /// Indices of the first `k` elements of a sort, by blocks of the row. They are in the `k` blocks whose own first
    /// elements sort first: an element of any other block comes after the first elements of those `k` blocks, which are
    /// smaller, or equal and at lower indices. So one pass finds the first element of each block, and two short sorts
    /// do the rest.
    fn places_by_blocks(&self, k: usize, axis: usize, largest: bool) -> Tensor {
        let n = self.dims()[axis];
        let rows = self.numel() / n;
        let length = block_length(n, k);
        let count = n / length;
        let x = self.detach().movedim(axis, -1).reshape([rows, n]);
        let blocks = x.narrow(1, 0, count * length).reshape([rows, count, length]);
        let chosen = blocks.firsts(largest).scanned(ScanOp::Argsort, 1, largest).part(1, (0, 1, k));
        // Blocks in index order, so that equal elements keep theirs.
        let chosen = chosen.scanned(ScanOp::Sort, 1, false).unsqueeze(-1);
        let own = crate::create::iota(length, DType::I64, self.device());
        let mut places = (chosen * length + own).reshape([rows, k * length]);
        if count * length < n {
            // The incomplete last block is always included.
            let rest = crate::create::iota(n - count * length, DType::I64, self.device()) + count * length;
            places = Tensor::cat(&[places, rest.broadcast_to([rows, n - count * length])], 1);
        }
        let first = x.gathered("topk", 1, &places).scanned(ScanOp::Argsort, 1, largest).part(1, (0, 1, k));
        let mut shape = self.shape().remove(axis);
        shape = shape.insert(shape.rank(), k);
        places.gathered("topk", 1, &first).reshaped(shape).movedim(-1, axis)
    }

    /// Element that sorts first in each row along the last axis.
    fn firsts(&self, largest: bool) -> Tensor {
        // NaN is the largest, and the result of a maximum over a row with NaN.
        if largest {
            return self.amax(-1);
        }
        if !self.dtype().is_float() {
            return self.amin(-1);
        }
        let nan = self.is_nan();
        let least = nan.where_(f64::INFINITY, self).amin(-1);
        nan.all(-1).where_(f64::NAN, least)
    }

    /// Indices of the first `k` elements of a sort, found one after the other. All of it folds over the same rows, so
    /// it is one kernel, with two passes over each row for each of the `k`.
    fn first_places(&self, k: usize, axis: usize, largest: bool) -> Tensor {
        let n = self.dims()[axis];
        let float = self.dtype().is_float();
        let place = crate::create::iota(n, DType::I32, self.device()).down(axis, self.shape());
        let nan = float.then(|| self.is_nan());
        let (low, high) = match float {
            true => (Scalar::Float(f64::NEG_INFINITY), Scalar::Float(f64::INFINITY)),
            false => Scalar::int_bounds(self.dtype()),
        };
        let mut taken: Option<Tensor> = None;
        let mut found = vec![];
        for _ in 0..k {
            // NaN is the largest: the maximum is NaN if one is left; the minimum is taken over the elements that are
            // not NaN.
            let out = if largest { taken.clone() } else { or(&nan, &taken) };
            let bound = if largest { low } else { high };
            let left = out.map_or_else(|| self.clone(), |out| out.where_(bound, self));
            let best = if largest { left.amax_keepdim(axis as i64) } else { left.amin_keepdim(axis as i64) };
            let here = self.eq(&best);
            let here = if largest { or(&Some(here), &nan).expect("one of two") } else { here };
            let left = |hit: Tensor| taken.as_ref().map_or_else(|| hit.clone(), |taken| &hit & &!taken);
            // NaN elements come after all others.
            let behind = match &nan {
                Some(nan) if !largest => left(nan.clone()).where_(&place + n as i64, 2 * n as i64),
                _ => place.full_like(2 * n as i64),
            };
            let first = left(here).where_(&place, behind).amin_keepdim(axis as i64);
            let first = if float && !largest { first.rem(n as i64) } else { first };
            let this = place.eq(&first);
            taken = Some(taken.map_or_else(|| this.clone(), |taken| taken | &this));
            found.push(first);
        }
        Tensor::cat(&found, axis as i64).cast(DType::I64)
    }

    /// The index at which each value would be inserted into this sorted tensor to keep it sorted, as i64, as
    /// `numpy.searchsorted`: before equal elements, or with `right` after them. This tensor is a vector, or has the
    /// rank and the leading sizes of the values, with one sorted row per row of values.
    ///
    /// See also [`digitize`](Tensor::digitize), which takes values first, as NumPy.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let sorted = Tensor::new([1.0f32, 2.0, 2.0, 5.0]);
    /// let values = Tensor::new([2.0f32, 6.0]);
    /// assert_eq!(sorted.searchsorted(&values, false).to_vec::<i64>()?, [1, 4]);
    /// assert_eq!(sorted.searchsorted(&values, true).to_vec::<i64>()?, [3, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When dtypes differ or are bool, or the shapes do not match.
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor {
        check_alike("searchsorted", self, values);
        if self.dtype() == DType::Bool {
            crate::record::wrong_dtype("searchsorted", "a float or integer dtype", DType::Bool);
        }
        let leading = self.rank().saturating_sub(1);
        let rows = self.rank() == values.rank() && self.dims()[..leading] == values.dims()[..leading];
        if self.rank() == 0 || !rows && self.rank() != 1 {
            panic!("searchsorted: sorted rows of shape {} and values of shape {}", self.shape(), values.shape());
        }
        // All values are searched in one sorted row.
        if self.rank() == 1 && values.rank() != 1 {
            return self.searchsorted(&values.flatten(), right).reshaped(*values.shape());
        }
        let axis = leading;
        let n = self.dims()[axis];
        let mut found = Tensor::zeros_with(*values.shape(), (DType::I64, self.device()));
        if n == 0 || values.numel() == 0 {
            return found;
        }
        // A binary search for all values at once, in steps of decreasing powers of two: if the element at a step sorts
        // before the value, so do all elements before it. NaN is larger than every number.
        let float = self.dtype().is_float();
        for bit in (0..=n.ilog2()).rev() {
            let step = 1i64 << bit;
            let next = &found + step;
            let element = self.gathered("searchsorted", axis, &(next.minimum(n) - 1));
            let mut before = if right { element.le(values) } else { element.lt(values) };
            if float {
                let beyond = if right { values.is_nan() } else { values.is_nan() & !element.is_nan() };
                before |= beyond;
            }
            found = (before & next.le(n)).where_(next, &found);
        }
        found
    }
}

/// # Distinct elements
///
/// The number of distinct elements is the size of the result, so these methods wait until it is computed.
impl Tensor {
    /// Sorts the flattened tensor; finds the sorted elements that begin a run of equal ones, and their indices.
    fn runs(&self) -> Result<Runs, Error> {
        let (sorted, order) = self.flatten().sort_with_indices(0, false);
        let first = sorted.begins();
        let starts = first.flat_nonzero()?;
        Ok(Runs { sorted, order, first, starts })
    }

    /// Mask of the elements of a sorted vector that begin a run of equal ones.
    fn begins(&self) -> Tensor {
        let n = self.numel();
        if n == 0 {
            return self.ne(self);
        }
        let (here, before) = (self.narrow(0, 1, n - 1), self.narrow(0, 0, n - 1));
        let mut differs = here.ne(&before);
        if self.dtype().is_float() {
            differs &= !(here.is_nan() & before.is_nan());
        }
        differs.pad([(1, 0)], true)
    }

    /// The distinct elements in ascending order, as a vector; all NaN are one. As `numpy.unique`. Waits for their
    /// number. For large integer tensors it waits for the minimum and the maximum first: if their range is small,
    /// elements are counted instead of sorted.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3i32, 1, 3]).unique()?.to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    pub fn unique(&self) -> Result<Tensor, Error> {
        if let Some(distinct) = self.unique_by_counting()? {
            return Ok(distinct);
        }
        // A sort without indices is faster.
        self.flatten().sort(0, false).of_runs()
    }

    /// Distinct elements of a sorted vector: the first element of each run of equal ones.
    fn of_runs(&self) -> Result<Tensor, Error> {
        if self.numel() == 0 {
            return Ok(self.clone());
        }
        // Writes elements to the index of their run, from the last one on, so that the first of each run remains. Every
        // result element is overwritten, so the initial contents do not matter.
        let run = self.begins().cumsum(0) - 1;
        let count = run.slice(-1).item::<i64>()? as usize + 1;
        Ok(self.narrow(0, 0, count).scattered(ScatterOp::Set, 0, &run.flip(0), &self.flip(0)))
    }

    /// The distinct elements of many integers of a small range, by counting each integer of the range; `None` if that
    /// does not apply.
    fn unique_by_counting(&self) -> Result<Option<Tensor>, Error> {
        // A u64 may not fit i64.
        if !self.dtype().is_int() || self.dtype() == DType::U64 || !TUNABLES.min_counted.reached_by(self.numel()) {
            return Ok(None);
        }
        let x = self.flatten().cast(DType::I64);
        let ends = Tensor::stack(&[x.amin(0), x.amax(0)], 0).to_vec::<i64>()?;
        let [low, high] = ends[..] else { unreachable!("two elements") };
        let Some(range) = high.checked_sub(low).filter(|&r| TUNABLES.max_counted_range.admits(r as usize + 1)) else {
            return Ok(None);
        };
        let options = (DType::I64, self.device());
        let none = Tensor::zeros_with([range as usize + 1], options);
        let ones = crate::histogram::ones(x.numel(), self.device());
        let found = none.scattered(ScatterOp::Add, 0, &(x - low), &ones).ne(0);
        let numbers = Tensor::arange_with(range + 1, options) + low;
        numbers.cast(self.dtype()).compacted(&found).map(Some)
    }

    /// The distinct elements in ascending order, and for each element of this tensor the index of its value among them.
    /// Waits for their number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (values, at) = Tensor::new([3i32, 1, 3]).unique_inverse()?;
    /// assert_eq!((values.to_vec::<i32>()?, at.to_vec::<i64>()?), (vec![1, 3], vec![1, 0, 1]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    pub fn unique_inverse(&self) -> Result<(Tensor, Tensor), Error> {
        let r = self.runs()?;
        let which = r.first.cumsum(0) - 1;
        let inverse = which.zeros_like().scattered(ScatterOp::Set, 0, &r.order, &which);
        Ok((r.sorted.gathered("unique", 0, &r.starts), inverse.reshaped(*self.shape())))
    }

    /// The distinct elements in ascending order; the first index of each in the flattened tensor; for each element of
    /// this tensor the index of its value among them; and the count of each. As `unique_all` of the array API standard
    /// and `numpy.unique` with all of its results. Waits for their number.
    ///
    /// # Errors
    /// When it cannot be computed.
    pub fn unique_all(&self) -> Result<[Tensor; 4], Error> {
        let r = self.runs()?;
        // The sort is stable: the first of equal elements comes first.
        let first = r.order.gathered("unique", 0, &r.starts);
        let (values, inverse) = self.unique_inverse()?;
        let (_, counts) = self.unique_counts()?;
        Ok([values, first, inverse, counts])
    }

    /// The distinct elements in ascending order, and the count of each. Waits for their number.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (values, counts) = Tensor::new([3i32, 1, 3]).unique_counts()?;
    /// assert_eq!((values.to_vec::<i32>()?, counts.to_vec::<i64>()?), (vec![1, 3], vec![1, 2]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    pub fn unique_counts(&self) -> Result<(Tensor, Tensor), Error> {
        let r = self.runs()?;
        let values = r.sorted.gathered("unique", 0, &r.starts);
        let count = r.starts.numel();
        if count == 0 {
            return Ok((values, r.starts));
        }
        let ends = r.starts.narrow(0, 1, count - 1).pad([(0, 1)], self.numel());
        Ok((values, ends - r.starts))
    }
}

struct Runs {
    sorted: Tensor,
    order: Tensor,
    first: Tensor,
    starts: Tensor,
}
