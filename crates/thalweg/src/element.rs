//! Rust types of elements, and nested data of them.

use crate::{DType, MAX_RANK, Shape};
use half::{bf16, f16};

/// Rust type of the elements of a dtype: `f32`, `f64`, [`bf16`], [`struct@f16`], `i8`, `i16`, `i32`, `i64`,
/// `u8`, `u16`, `u32`, `u64`, `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of a tensor",
    label = "not the type of a dtype",
    note = "f32, f64, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64 and bool are; `.cast(..)` converts a tensor"
)]
pub trait Element:
    Data<Elem = Self> + Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static + sealed::Sealed
{
    /// Dtype of a tensor with these elements.
    const DTYPE: DType;
    /// The bytes of elements, as in device memory (host byte order).
    #[doc(hidden)]
    fn as_bytes(data: &[Self]) -> &[u8];
    /// Elements from bytes, copied.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
    /// Elements from bytes without a copy; `None` if the bytes are not aligned.
    #[doc(hidden)]
    fn in_bytes(bytes: &[u8]) -> Option<&[Self]>;
    /// Mutable form of [`in_bytes`](Element::in_bytes). `None` for bool, whose bytes must be 0 or 1.
    #[doc(hidden)]
    fn in_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Self]>;
    /// `count` elements whose bytes `fill` writes.
    ///
    /// # Errors
    /// Errors of `fill`.
    #[doc(hidden)]
    fn filled<E>(count: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Vec<Self>, E>;
}

macro_rules! elements {
    ($($t:ty => $dtype:ident),*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            fn as_bytes(data: &[$t]) -> &[u8] {
                bytemuck::must_cast_slice(data)
            }
            fn from_bytes(bytes: &[u8]) -> Vec<$t> {
                bytemuck::pod_collect_to_vec(bytes)
            }
            fn in_bytes(bytes: &[u8]) -> Option<&[$t]> {
                bytemuck::try_cast_slice(bytes).ok()
            }
            fn in_bytes_mut(bytes: &mut [u8]) -> Option<&mut [$t]> {
                bytemuck::try_cast_slice_mut(bytes).ok()
            }
            fn filled<E>(count: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Vec<$t>, E> {
                let mut all: Vec<$t> = bytemuck::zeroed_vec(count);
                fill(bytemuck::must_cast_slice_mut(&mut all))?;
                Ok(all)
            }
        }
        impl sealed::Sealed for $t {}
    )*};
}
elements!(f32 => F32, f64 => F64, bf16 => BF16, f16 => F16, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16,
          u32 => U32, u64 => U64);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn as_bytes(data: &[bool]) -> &[u8] {
        bytemuck::must_cast_slice(data)
    }
    fn from_bytes(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().map(|&b| b != 0).collect()
    }
    fn in_bytes(bytes: &[u8]) -> Option<&[bool]> {
        bytemuck::checked::try_cast_slice(bytes).ok()
    }
    fn in_bytes_mut(_: &mut [u8]) -> Option<&mut [bool]> {
        None
    }
    fn filled<E>(count: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Vec<bool>, E> {
        let mut all = vec![0; count];
        fill(&mut all)?;
        Ok(bool::from_bytes(&all))
    }
}
impl sealed::Sealed for bool {}

mod sealed {
    /// Seals the trait: dtypes are a closed set.
    pub trait Sealed {}
}

/// Data for [`Tensor::new`](crate::Tensor::new): an element, or arrays, slices and `Vec`s of such data, nested up to
/// eight deep.
#[diagnostic::on_unimplemented(
    message = "a tensor cannot be made of `{Self}`",
    label = "neither a number nor an array, slice or `Vec` of such data",
    note = "elements are f32, f64, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64 and bool; `Tensor::stack` puts tensors together"
)]
pub trait Data {
    /// Type of the elements.
    type Elem: Element;
    /// Nesting depth; 0 for an element.
    #[doc(hidden)]
    const DEPTH: usize;
    /// Fills in the size of each level, taken from the first item of each level.
    #[doc(hidden)]
    fn sizes(&self, out: &mut [usize]);
    /// Appends the elements in row-major order.
    ///
    /// # Errors
    /// Two sizes that should agree and do not: the data is ragged.
    #[doc(hidden)]
    fn append(&self, sizes: &[usize], out: &mut Vec<Self::Elem>) -> Result<(), (usize, usize)>;
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Data for $t {
            type Elem = $t;
            const DEPTH: usize = 0;
            fn sizes(&self, _: &mut [usize]) {}
            fn append(&self, _: &[usize], out: &mut Vec<$t>) -> Result<(), (usize, usize)> {
                out.push(*self);
                Ok(())
            }
        }
    )*};
}
plain!(f32, f64, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64, bool);

impl<D: Data> Data for [D] {
    type Elem = D::Elem;
    const DEPTH: usize = D::DEPTH + 1;
    fn sizes(&self, out: &mut [usize]) {
        out[0] = self.len();
        if let Some(first) = self.first() {
            first.sizes(&mut out[1..]);
        }
    }
    fn append(&self, sizes: &[usize], out: &mut Vec<D::Elem>) -> Result<(), (usize, usize)> {
        if self.len() != sizes[0] {
            return Err((sizes[0], self.len()));
        }
        self.iter().try_for_each(|item| item.append(&sizes[1..], out))
    }
}

macro_rules! through_slice {
    ($([$($generics:tt)*] $t:ty),*) => {$(
        impl<$($generics)*> Data for $t {
            type Elem = D::Elem;
            const DEPTH: usize = <[D]>::DEPTH;
            fn sizes(&self, out: &mut [usize]) { <[D]>::sizes(&self[..], out) }
            fn append(&self, sizes: &[usize], out: &mut Vec<D::Elem>) -> Result<(), (usize, usize)> {
                <[D]>::append(&self[..], sizes, out)
            }
        }
    )*};
}
through_slice!([D: Data, const N: usize] [D; N], [D: Data] Vec<D>);

impl<D: Data + ?Sized> Data for &D {
    type Elem = D::Elem;
    const DEPTH: usize = D::DEPTH;
    fn sizes(&self, out: &mut [usize]) {
        (**self).sizes(out)
    }
    fn append(&self, sizes: &[usize], out: &mut Vec<D::Elem>) -> Result<(), (usize, usize)> {
        (**self).append(sizes, out)
    }
}

/// The elements and the shape of nested data.
///
/// # Panics
/// When it is ragged or too deep.
#[track_caller]
pub(crate) fn flatten<D: Data>(data: &D) -> (Vec<D::Elem>, Shape) {
    assert!(D::DEPTH <= MAX_RANK, "new: data nested {} deep is over the rank limit of {MAX_RANK}", D::DEPTH);
    let mut sizes = [0; MAX_RANK];
    data.sizes(&mut sizes[..D::DEPTH]);
    let shape = Shape::new(&sizes[..D::DEPTH]);
    let mut out = Vec::with_capacity(shape.numel());
    if let Err((one, other)) = data.append(&sizes[..D::DEPTH], &mut out) {
        panic!("new: nested data is ragged, lengths {one} and {other} stand at one level");
    }
    (out, shape)
}
