//! Slice assignment: `x.slice_mut(..).assign(v)`, `*x.slice_mut(..) += v`, `x.set(.., v)`.
//!
//! Values are immutable, so an assignment gives the handle a new value: the old one with the slice replaced. That is
//! one operation, `Op::Put`, which fuses with the producers of the new elements and with the readers of the result. Its
//! kernel is cut into boxes. If nobody else holds the old value, the new one reuses its memory, and the boxes that
//! would copy unchanged elements do not run: only the slice is written (`thalweg_kernel`, `geometry/in_place.rs`).

use crate::join::join;
use crate::operand::Arg;
use crate::record::{check_alike, push, scalar_bits};
use crate::slice::ResolvedSlice;
use crate::{IntoOperand, MAX_RANK, Operand, Shape, SliceArgs, Tensor};
use std::ops::{AddAssign, Deref, DerefMut, DivAssign, MulAssign, RemAssign, SubAssign};
use thalweg_ir::Op;

/// Start, step and number of elements of a slice along one dimension.
type Range = (i64, i64, usize);

/// # Writing into parts
///
/// Values are immutable: each method returns a new tensor, or replaces the handle (`set`, `slice_mut`).
impl Tensor {
    /// This tensor with a slice replaced, as `torch.slice_scatter` and JAX's `x.at[..].set(v)`: ranges as in
    /// [`slice`](Tensor::slice), values broadcast to the shape of the slice. This tensor is unchanged; if its handle is
    /// dropped before anything runs, the result reuses its memory.
    ///
    /// The gradient of the values is the slice of the result's gradient; that of this tensor is the result's gradient
    /// with zeros in the slice.
    ///
    /// ```
    /// # use thalweg::prelude::*;
    /// let x = Tensor::zeros([2, 4]);
    /// let y = x.slice_scatter((1, (..).by(2)), Tensor::new([7.0f32, 8.0]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 0.0, 0.0, 7.0, 0.0, 8.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`slice`](Tensor::slice); when the values do not broadcast to the slice's shape, dtypes or devices differ, or
    /// a number does not fit the dtype.
    #[track_caller]
    pub fn slice_scatter(&self, ranges: impl SliceArgs, values: impl IntoOperand) -> Tensor {
        let part = self.part_of("slice_scatter", ranges);
        self.with_part("slice_scatter", &part, values.operand())
    }

    /// This tensor with index `index` of an axis replaced, as `torch.select_scatter`; the values have the shape without
    /// that axis.
    ///
    /// See also [`set`](Tensor::set), and [`index_copy`](Tensor::index_copy) for many indices.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::zeros([2, 2]).select_scatter(0, 1, 5.0).to_vec::<f32>()?, [0.0, 0.0, 5.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis or index, the values do not broadcast to the shape without that axis, or dtypes or
    /// devices differ.
    #[track_caller]
    pub fn select_scatter(
        &self,
        axis: impl Into<crate::Axis>,
        index: impl Into<crate::Index>,
        values: impl IntoOperand,
    ) -> Tensor {
        let axis = axis.into().of("select_scatter", self.rank());
        let mut list = [crate::SliceArg::from(..); MAX_RANK];
        list[axis] = crate::SliceArg::At(index.into().get());
        let part = self.part_of("select_scatter", &list[..self.rank()]);
        self.with_part("select_scatter", &part, values.operand())
    }

    /// Replaces a slice: NumPy's `x[1:-1, :] = v` is `x.set((1..-1, ..), v)`. Short for
    /// `x = x.slice_scatter(ranges, values)`; other handles keep the old value.
    ///
    /// ```
    /// # use thalweg::prelude::*;
    /// let mut x = Tensor::zeros([3, 3]);
    /// x.set((1.., 1..), 5);
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 0.0, 5.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`slice_scatter`](Tensor::slice_scatter).
    #[track_caller]
    pub fn set(&mut self, ranges: impl SliceArgs, values: impl IntoOperand) {
        let part = self.part_of("set", ranges);
        *self = self.with_part("set", &part, values.operand());
    }

    /// A mutable slice: [`assign`](SlicePart::assign) replaces it, `+=` and the like update it. Ranges as in
    /// [`slice`](Tensor::slice). The handle gets a new value; other handles keep the old one.
    ///
    /// ```
    /// # use thalweg::prelude::*;
    /// let mut x = Tensor::arange(6).reshape([2, 3]);
    /// x.slice_mut((0, ..)).assign(9);
    /// *x.slice_mut((.., 2)) *= 2;
    /// assert_eq!(x.to_vec::<f32>()?, [9.0, 9.0, 18.0, 3.0, 4.0, 10.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`slice`](Tensor::slice).
    #[track_caller]
    pub fn slice_mut(&mut self, ranges: impl SliceArgs) -> SliceMut<'_> {
        let part = self.part_of("slice_mut", ranges);
        SliceMut(SlicePart { tensor: self, part })
    }

    /// Copy of the tensor with a slice replaced by values that broadcast to the slice's shape.
    #[track_caller]
    fn with_part(&self, name: &str, part: &ResolvedSlice, values: Operand<'_>) -> Tensor {
        let ranges = part.ranges(self.rank());
        let mut taken = *self.shape();
        taken.dims_mut().iter_mut().zip(ranges).for_each(|(d, r)| *d = r.2);
        let values = match values {
            Operand::Tensor(v) => {
                check_alike(name, self, v);
                if v.shape().broadcast(&part.shape) != Some(part.shape) {
                    panic!("{name}: values of shape {} are not of the part's shape {}", v.shape(), part.shape);
                }
                v.broadcast_to(part.shape).reshaped(taken)
            }
            Operand::Scalar(v) => {
                scalar_bits(name, v, self.dtype());
                Tensor::full_with(taken, v, crate::Options::of(self))
            }
        };
        if taken.numel() == 0 { self.clone() } else { replaced(self, &values, ranges) }
    }
}

/// `x` with the slice that `ranges` take replaced by `v`. Puts the bounding box of the slice into `x`; along an axis
/// with a step, the box holds the old elements between the new ones.
#[track_caller]
fn replaced(x: &Tensor, v: &Tensor, ranges: &[Range]) -> Tensor {
    let mut ranges = ranges.to_vec();
    let back: Vec<usize> = (0..ranges.len()).filter(|&a| ranges[a].1 < 0).collect();
    for &axis in &back {
        let (start, step, count) = ranges[axis];
        ranges[axis] = (start + (count as i64 - 1) * step, -step, count);
    }
    let mut new = if back.is_empty() { v.clone() } else { v.flip(back) };
    let hull = |(start, step, count): Range| (start, 1, (count - 1) * step as usize + 1);
    // From the last axis to the first: the old elements are taken at the slice's indices along the axes before it, and
    // at all of the box's indices along the axes after it.
    for axis in (0..ranges.len()).rev().filter(|&a| ranges[a].1 > 1 && ranges[a].2 > 1) {
        let around: Vec<Range> = ranges.iter().enumerate().map(|(a, &r)| if a < axis { r } else { hull(r) }).collect();
        new = woven(&new, &x.sliced(&around), axis, ranges[axis].1 as usize);
    }
    let mut ints = [0; 2 * MAX_RANK];
    for (axis, &range) in ranges.iter().enumerate() {
        let (start, _, count) = hull(range);
        (ints[2 * axis], ints[2 * axis + 1]) = (start, x.dims()[axis] as i64 - start - count as i64);
    }
    put(x, &new, &ints[..2 * ranges.len()])
}

/// `x` with a box of it replaced by `part`; `ints` has the number of elements before and after the box in each
/// dimension.
#[track_caller]
pub(crate) fn put(x: &Tensor, part: &Tensor, ints: &[i64]) -> Tensor {
    push(Op::Put, x.dtype(), *x.shape(), 0, [Arg::Tensor(x), Arg::Tensor(part)], ints)
}

/// `old` with every `step`-th element along an axis, including the first and the last, replaced by those of `new`.
#[track_caller]
fn woven(new: &Tensor, old: &Tensor, axis: usize, step: usize) -> Tensor {
    // Each period is one new element and then old ones; the last new element follows the last period.
    let periods = new.dims()[axis] - 1;
    let count = |dims: &[usize]| dims.iter().product::<usize>();
    let (outer, inner) = (count(&old.dims()[..axis]), count(&old.dims()[axis + 1..]));
    let first = new.part(axis, (0, 1, periods)).reshaped(Shape::new(&[outer, periods, 1, inner]));
    let between = old.part(axis, (0, 1, periods * step)).reshaped(Shape::new(&[outer, periods, step, inner]));
    let mut shape = *old.shape();
    shape.dims_mut()[axis] = periods * step;
    let all = join(&first, &between.part(2, (1, 1, step - 1)), 2).reshaped(shape);
    join(&all, &new.part(axis, (periods as i64, 1, 1)), axis)
}

/// Mutable slice of a tensor, from [`Tensor::slice_mut`]. Its methods are those of [`SlicePart`], to which it
/// dereferences, so that `*x.slice_mut(..) += v` compiles.
#[derive(Debug)]
#[must_use = "a part of a tensor has no effect until something is assigned to it"]
pub struct SliceMut<'a>(SlicePart<'a>);

impl<'a> Deref for SliceMut<'a> {
    type Target = SlicePart<'a>;
    fn deref(&self) -> &SlicePart<'a> {
        &self.0
    }
}
impl<'a> DerefMut for SliceMut<'a> {
    fn deref_mut(&mut self) -> &mut SlicePart<'a> {
        &mut self.0
    }
}

/// Target of a [`SliceMut`]: assignment, and `+=`, `-=`, `*=`, `/=`, `%=`.
#[derive(Debug)]
pub struct SlicePart<'a> {
    tensor: &'a mut Tensor,
    part: ResolvedSlice,
}

impl SlicePart<'_> {
    /// The current elements of the slice, as [`Tensor::slice`] returns them.
    #[track_caller]
    pub fn get(&self) -> Tensor {
        self.tensor.sliced(self.part.ranges(self.tensor.rank())).reshaped(self.part.shape)
    }

    /// Replaces the slice by values that broadcast to its shape, or by a number.
    ///
    /// # Panics
    /// When the values do not broadcast to the slice's shape, dtypes or devices differ, or a number does not fit.
    #[track_caller]
    pub fn assign(&mut self, values: impl IntoOperand) {
        *self.tensor = self.tensor.with_part("assign", &self.part, values.operand());
    }

    /// Replaces the slice by a function of it: `x.slice_mut(r).update(|s| s.exp() + 1.0)`.
    ///
    /// # Panics
    /// As [`assign`](SlicePart::assign).
    #[track_caller]
    pub fn update(&mut self, f: impl FnOnce(&Tensor) -> Tensor) {
        let new = f(&self.get());
        *self.tensor = self.tensor.with_part("update", &self.part, new.operand());
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $name:literal $op:tt;)*) => {$(
        impl<R: IntoOperand> $trait<R> for SlicePart<'_> {
            #[track_caller]
            fn $method(&mut self, other: R) {
                let new = self.get() $op other;
                *self.tensor = self.tensor.with_part($name, &self.part, new.operand());
            }
        }
    )*};
}
operators! {
    AddAssign add_assign "add" +;
    SubAssign sub_assign "sub" -;
    MulAssign mul_assign "mul" *;
    DivAssign div_assign "div" /;
    RemAssign rem_assign "rem" %;
}
