//! Iteration over the first axis: `for row in &x`.

use crate::Tensor;
use std::iter::FusedIterator;

/// Iterator over the first axis of a tensor, from [`Tensor::iter`] and `for row in &x`.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    of: &'a Tensor,
    next: usize,
    end: usize,
}

/// # Iteration
impl Tensor {
    /// Iterates over the first axis, as `for row in x` in Python. Each row is a view without that dimension. Nothing is
    /// computed until one of them is read.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::arange(6).reshape([3, 2]);
    /// let mut sums = vec![];
    /// for row in &x {
    ///     sums.push(row.sum(..).item::<f32>()?);
    /// }
    /// assert_eq!(sums, [1.0, 5.0, 9.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On rank 0.
    #[doc(alias = "rows")]
    #[track_caller]
    pub fn iter(&self) -> Rows<'_> {
        assert!(self.rank() > 0, "iter: a tensor of rank 0 has no axis to go over");
        Rows { of: self, next: 0, end: self.dims()[0] }
    }
}

impl<'a> IntoIterator for &'a Tensor {
    type Item = Tensor;
    type IntoIter = Rows<'a>;

    #[track_caller]
    fn into_iter(self) -> Rows<'a> {
        self.iter()
    }
}

impl Iterator for Rows<'_> {
    type Item = Tensor;

    fn next(&mut self) -> Option<Tensor> {
        let at = self.next;
        (at < self.end).then(|| {
            self.next += 1;
            self.of.index_axis(0, at as i64)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl DoubleEndedIterator for Rows<'_> {
    fn next_back(&mut self) -> Option<Tensor> {
        (self.next < self.end).then(|| {
            self.end -= 1;
            self.of.index_axis(0, self.end as i64)
        })
    }
}

impl ExactSizeIterator for Rows<'_> {}
impl FusedIterator for Rows<'_> {}
