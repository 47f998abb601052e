//! Shapes of tensors: up to eight sizes, stored inline.

use std::fmt;
use std::ops::Deref;

/// Maximum number of dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// Sizes of a tensor's dimensions, outermost first. Copyable and without heap allocation.
#[derive(Clone, Copy)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The shape of a scalar: no dimensions, one element.
    pub const SCALAR: Shape = Shape { dims: [0; MAX_RANK], rank: 0 };

    /// Creates a shape of these sizes.
    ///
    /// # Panics
    /// With more than [`MAX_RANK`] sizes.
    #[inline]
    #[track_caller]
    pub fn new(dims: &[usize]) -> Shape {
        assert!(dims.len() <= MAX_RANK, "rank {} is over the limit of {MAX_RANK}", dims.len());
        let mut s = Shape { dims: [0; MAX_RANK], rank: dims.len() as u8 };
        s.dims[..dims.len()].copy_from_slice(dims);
        s
    }

    /// The number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The sizes, outermost first.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }

    /// The sizes, outermost first, for modification.
    #[inline]
    pub fn dims_mut(&mut self) -> &mut [usize] {
        &mut self.dims[..self.rank as usize]
    }

    /// The number of elements; `usize::MAX` if it does not fit (no such tensor can exist).
    #[inline]
    pub fn numel(&self) -> usize {
        self.dims().iter().fold(1usize, |n, &d| n.saturating_mul(d))
    }

    /// Number of bytes of a tensor with elements of `size` bytes; `None` if it exceeds the limit of an allocation.
    pub fn checked_bytes(&self, size: usize) -> Option<usize> {
        let n = self.dims().iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        n.checked_mul(size).filter(|&b| b <= isize::MAX as usize)
    }

    /// Row-major strides of a dense tensor of this shape, in elements.
    pub fn strides(&self) -> [isize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut step = 1isize;
        for i in (0..self.rank()).rev() {
            strides[i] = step;
            step = step.saturating_mul(self.dims[i] as isize);
        }
        strides
    }

    /// Returns a copy with `size` inserted before dimension `at` (`at == rank` appends).
    ///
    /// # Panics
    /// When `at` is past the end or the rank limit is reached.
    #[track_caller]
    pub fn insert(&self, at: usize, size: usize) -> Shape {
        assert!(at <= self.rank() && self.rank() < MAX_RANK, "no room for dimension {at} in {self}");
        let mut s = *self;
        s.dims.copy_within(at..self.rank(), at + 1);
        s.dims[at] = size;
        s.rank += 1;
        s
    }

    /// Returns a copy without dimension `at`.
    ///
    /// # Panics
    /// When there is no such dimension.
    #[track_caller]
    pub fn remove(&self, at: usize) -> Shape {
        assert!(at < self.rank(), "no dimension {at} in {self}");
        let mut s = *self;
        s.dims.copy_within(at + 1..self.rank(), at);
        s.rank -= 1;
        s.dims[s.rank as usize] = 0;
        s
    }

    /// Returns the shape to which both shapes broadcast by NumPy's rule (aligned at the last dimension, sizes are equal
    /// or one of them is 1); `None` if they do not broadcast.
    #[inline]
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other {
            return Some(*self);
        }
        let (long, short) = if self.rank >= other.rank { (self, other) } else { (other, self) };
        let mut out = *long;
        let lead = long.rank() - short.rank();
        for i in 0..short.rank() {
            let (a, b) = (long.dims[lead + i], short.dims[i]);
            out.dims[lead + i] = match (a, b) {
                _ if a == b => a,
                (1, _) => b,
                (_, 1) => a,
                _ => return None,
            };
        }
        Some(out)
    }

    /// Bit mask of the dimensions in which this shape is broadcast to `out`. Bit `i`, counted from the last dimension
    /// of `out`, is set if this shape has size 1 there and `out` has not, or if this shape lacks that leading
    /// dimension.
    #[inline]
    pub fn broadcast_mask(&self, out: &Shape) -> u8 {
        if self == out {
            return 0;
        }
        let mut mask = 0;
        for i in 0..out.rank() {
            let stretched = match self.rank().checked_sub(i + 1) {
                Some(at) => self.dims[at] != out.dims[out.rank() - i - 1],
                None => true,
            };
            mask |= (stretched as u8) << i;
        }
        mask
    }
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        self.dims()
    }
}

impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        // Size by size: a value's shape is often compared right after it was written, and loads wider than the
        // preceding stores stall until these retire.
        self.rank == other.rank && self.dims().iter().zip(other.dims()).all(|(a, b)| a == b)
    }
}
impl Eq for Shape {}

impl std::hash::Hash for Shape {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.dims().iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

impl From<&[usize]> for Shape {
    #[track_caller]
    fn from(dims: &[usize]) -> Shape {
        Shape::new(dims)
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    #[track_caller]
    fn from(dims: [usize; N]) -> Shape {
        Shape::new(&dims)
    }
}
impl<const N: usize> From<&[usize; N]> for Shape {
    #[track_caller]
    fn from(dims: &[usize; N]) -> Shape {
        Shape::new(dims)
    }
}
impl From<&Vec<usize>> for Shape {
    #[track_caller]
    fn from(dims: &Vec<usize>) -> Shape {
        Shape::new(dims)
    }
}
impl From<Vec<usize>> for Shape {
    #[track_caller]
    fn from(dims: Vec<usize>) -> Shape {
        Shape::new(&dims)
    }
}
macro_rules! tuples {
    ($($name:ident: $t:ty),*) => {
        impl From<($($t,)*)> for Shape {
            #[track_caller]
            fn from(($($name,)*): ($($t,)*)) -> Shape {
                Shape::new(&[$($name),*])
            }
        }
    };
}
tuples!(a: usize);
tuples!(a: usize, b: usize);
tuples!(a: usize, b: usize, c: usize);
tuples!(a: usize, b: usize, c: usize, d: usize);
tuples!(a: usize, b: usize, c: usize, d: usize, e: usize);
tuples!(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize);
tuples!(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize);
tuples!(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize);

impl From<&Shape> for Shape {
    fn from(s: &Shape) -> Shape {
        *s
    }
}
impl From<usize> for Shape {
    fn from(n: usize) -> Shape {
        Shape::new(&[n])
    }
}
impl From<()> for Shape {
    fn from(_: ()) -> Shape {
        Shape::SCALAR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        let s = |d: &[usize]| Shape::new(d);
        assert_eq!(s(&[4, 1, 3]).broadcast(&s(&[5, 1])), Some(s(&[4, 5, 3])));
        assert_eq!(s(&[2]).broadcast(&s(&[3])), None);
        assert_eq!(s(&[]).broadcast(&s(&[0, 2])), Some(s(&[0, 2])));
        assert_eq!(s(&[1]).broadcast(&s(&[0])), Some(s(&[0])));
        assert_eq!(s(&[5, 1]).broadcast_mask(&s(&[4, 5, 3])), 0b101);
    }

    #[test]
    fn insert_and_remove_are_inverse() {
        let s = Shape::new(&[2, 3]);
        assert_eq!(s.insert(1, 7).dims(), [2, 7, 3]);
        assert_eq!(s.insert(1, 7).remove(1), s);
        assert_eq!(s.insert(2, 7).strides()[..3], [21, 7, 1]);
    }

    #[test]
    fn sizes_too_large_are_refused_not_wrapped() {
        let s = Shape::new(&[usize::MAX, 3]);
        assert_eq!(s.checked_bytes(4), None);
        assert_eq!(s.numel(), usize::MAX);
    }
}
