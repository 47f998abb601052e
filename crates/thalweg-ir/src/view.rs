//! Strided views: maps from the indices of a tensor to positions in its buffer.

use crate::{MAX_RANK, Shape};
use std::fmt;

/// Affine map from an index to a position in a buffer: `offset + Σ index[i]·stride[i]`, in elements.
///
/// Movement operations that an affine map can express return another `View` and copy nothing. Strides are negative for
/// flipped dimensions and 0 for expanded ones. The constructor of a view must ensure that every index inside `shape`
/// maps inside the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct View {
    /// Sizes of the view's dimensions, outermost first.
    pub shape: Shape,
    strides: [isize; MAX_RANK],
    /// Position in the buffer of the element at index 0 of every dimension.
    pub offset: isize,
}

impl View {
    /// Returns the row-major view of a whole buffer.
    pub fn contiguous(shape: Shape) -> View {
        View { shape, strides: shape.strides(), offset: 0 }
    }

    /// Creates a view of a shape with these strides, in elements.
    ///
    /// # Panics
    /// When shape and strides differ in length.
    pub fn new(shape: Shape, strides: &[isize], offset: isize) -> View {
        assert_eq!(shape.rank(), strides.len());
        let mut s = [0; MAX_RANK];
        s[..strides.len()].copy_from_slice(strides);
        View { shape, strides: s, offset }
    }

    /// Strides in elements, one per dimension.
    pub fn strides(&self) -> &[isize] {
        &self.strides[..self.shape.rank()]
    }

    /// Whether the elements are dense and row-major from position 0.
    pub fn is_contiguous(&self) -> bool {
        self.offset == 0 && self.is_dense()
    }

    /// Whether the elements are dense and row-major, at any offset.
    pub fn is_dense(&self) -> bool {
        let mut step = 1isize;
        for (&d, &s) in self.shape.iter().zip(self.strides()).rev() {
            if d != 1 && s != step {
                return self.shape.numel() == 0;
            }
            step = step.saturating_mul(d as isize);
        }
        true
    }

    /// Position in the buffer of the element at an index.
    pub fn position(&self, index: &[usize]) -> isize {
        self.offset + index.iter().zip(self.strides()).map(|(&i, &s)| i as isize * s).sum::<isize>()
    }

    /// Lowest and highest position of the view's elements; `None` if it has none.
    pub fn reach(&self) -> Option<(isize, isize)> {
        if self.shape.numel() == 0 {
            return None;
        }
        let spans = self.shape.iter().zip(self.strides()).map(|(&d, &s)| (d as isize - 1) * s);
        Some(spans.fold((self.offset, self.offset), |(low, high), s| (low + s.min(0), high + s.max(0))))
    }

    /// Number of distinct positions in the view (dimensions of stride 0 add none).
    pub fn distinct(&self) -> usize {
        self.shape.iter().zip(self.strides()).map(|(&d, &s)| if s == 0 { d.min(1) } else { d }).product()
    }

    /// Reorders dimensions: dimension `i` of the result is dimension `order[i]` of this view.
    pub fn permute(&self, order: &[usize]) -> View {
        let dims: Vec<usize> = order.iter().map(|&o| self.shape[o]).collect();
        let strides: Vec<isize> = order.iter().map(|&o| self.strides[o]).collect();
        View::new(Shape::new(&dims), &strides, self.offset)
    }

    /// Broadcasts the view to `shape` by NumPy's rule: broadcast and leading dimensions get stride 0.
    ///
    /// # Panics
    /// When the shapes do not broadcast.
    pub fn expand(&self, shape: Shape) -> View {
        let lead = shape.rank().checked_sub(self.shape.rank()).expect("expand to a lower rank");
        let mut strides = [0; MAX_RANK];
        for i in 0..self.shape.rank() {
            let (from, to) = (self.shape[i], shape[lead + i]);
            assert!(from == to || from == 1, "{} does not expand to {shape}", self.shape);
            strides[lead + i] = if from == to { self.strides[i] } else { 0 };
        }
        View { shape, strides, offset: self.offset }
    }

    /// Slices every dimension by `(start, step, len)`: takes `len` elements from `start` on, `step` apart (backward if
    /// negative).
    pub fn slice(&self, parts: &[(i64, i64, usize)]) -> View {
        let mut v = *self;
        for (i, &(start, step, len)) in parts.iter().enumerate() {
            if len > 0 {
                v.offset += start as isize * self.strides[i];
            }
            v.strides[i] = self.strides[i] * step as isize;
            v.shape.dims_mut()[i] = len;
        }
        v
    }

    /// Returns sliding windows of `size` elements every `step` elements along `axis`: dimension `axis` becomes the
    /// index of the window, and a new last dimension the index inside it (`[10]` with size 4, step 2: `[4, 4]`).
    pub fn window(&self, axis: usize, size: usize, step: usize) -> View {
        let count = (self.shape[axis] - size) / step + 1;
        let mut shape = self.shape;
        shape.dims_mut()[axis] = count;
        let mut strides = self.strides().to_vec();
        let inner = strides[axis];
        strides[axis] *= step as isize;
        strides.push(inner);
        View::new(shape.insert(shape.rank(), size), &strides, self.offset)
    }

    /// Returns a view of another shape with the same order of elements; `None` if strides cannot express it.
    pub fn reshape(&self, shape: Shape) -> Option<View> {
        debug_assert_eq!(self.shape.numel(), shape.numel());
        if self.shape.numel() == 0 {
            return Some(View::contiguous(shape));
        }
        // Dimensions of this view without those of size 1, contiguous neighbours merged: (size, stride).
        let mut runs: Vec<(usize, isize)> = Vec::with_capacity(MAX_RANK);
        for (&d, &s) in self.shape.iter().zip(self.strides()) {
            match runs.last_mut() {
                _ if d == 1 => {}
                Some((size, stride)) if *stride == s * d as isize => {
                    *size *= d;
                    *stride = s;
                }
                _ => runs.push((d, s)),
            }
        }
        // Splits the new sizes from the merged dimensions, starting at the last.
        let mut strides = [0isize; MAX_RANK];
        let mut run = runs.pop();
        for i in (0..shape.rank()).rev() {
            let d = shape[i];
            if d == 1 {
                continue;
            }
            let (size, stride) = run.take()?;
            if size % d != 0 {
                return None;
            }
            strides[i] = stride;
            run = if size == d { runs.pop() } else { Some((size / d, stride * d as isize)) };
        }
        Some(View { shape, strides, offset: self.offset })
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        if !self.is_contiguous() {
            write!(f, " strides {:?} offset {}", self.strides(), self.offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(v: &View) -> Vec<isize> {
        let mut out = vec![];
        let n = v.shape.numel();
        for mut i in 0..n {
            let mut index = vec![0; v.shape.rank()];
            for a in (0..v.shape.rank()).rev() {
                index[a] = i % v.shape[a];
                i /= v.shape[a];
            }
            out.push(v.position(&index));
        }
        out
    }

    #[test]
    fn reach_is_from_the_first_position_to_the_last() {
        let whole = View::contiguous(Shape::new(&[4, 5]));
        let views = [
            whole,
            whole.slice(&[(3, -2, 2), (1, 1, 3)]),
            whole.permute(&[1, 0]),
            whole.slice(&[(3, 1, 1), (4, 1, 1)]),
        ];
        for v in views {
            let all = positions(&v);
            assert_eq!(v.reach(), Some((*all.iter().min().unwrap(), *all.iter().max().unwrap())));
        }
        assert_eq!(whole.slice(&[(0, 1, 0), (0, 1, 5)]).reach(), None);
    }

    #[test]
    fn reshape_keeps_the_order_or_refuses() {
        let base = View::contiguous(Shape::new(&[4, 6]));
        for v in
            [base, base.permute(&[1, 0]), base.slice(&[(0, 2, 2), (5, -1, 6)]), base.slice(&[(1, 1, 2), (0, 1, 6)])]
        {
            for shape in [[2, 2, 6, 1], [4, 3, 1, 2], [1, 24, 1, 1], [2, 3, 2, 1], [2, 1, 2, 3]] {
                let s = Shape::new(&shape);
                if s.numel() != v.shape.numel() {
                    continue;
                }
                if let Some(r) = v.reshape(s) {
                    assert_eq!(positions(&r), positions(&v), "{v:?} to {s}");
                }
            }
        }
        assert!(base.reshape(Shape::new(&[2, 2, 3, 2])).is_some());
        assert!(base.permute(&[1, 0]).reshape(Shape::new(&[24])).is_none());
        assert!(base.slice(&[(1, 1, 2), (0, 1, 6)]).reshape(Shape::new(&[12])).is_some());
    }

    #[test]
    fn windows_overlap() {
        let v = View::contiguous(Shape::new(&[5])).window(0, 3, 2);
        assert_eq!(v.shape.dims(), [2, 3]);
        assert_eq!(positions(&v), [0, 1, 2, 2, 3, 4]);
    }

    #[test]
    fn expand_reaches_few_positions() {
        let v = View::contiguous(Shape::new(&[3, 1])).expand(Shape::new(&[2, 3, 4]));
        assert_eq!(v.distinct(), 3);
        assert!(!v.is_contiguous());
    }
}
