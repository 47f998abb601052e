//! Tiles in tile kernels: matrices as values.

use super::branch::Branch;
use super::integer::{Int, Mask};
use super::real::Real;
use super::repr::{LoopTracer, Repr, TileOp};
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};
use thalweg_ir::Monoid;
use thalweg_kernel::{Along, order};

/// Matrix of an operand, or of values computed from some.
///
/// In a call on tensors it is the last two dimensions of an operand, whole, for every matrix of the dimensions before
/// them; for a call on numbers it holds the elements ([`Tile::new`]). A column (`[n, 1]`), a row (`[1, m]`) and a
/// single element (`[1, 1]`) are tiles, too, and broadcast.
#[derive(Clone, Debug)]
pub struct Tile<F: Real, T = F> {
    /// Elements of the tile, row-major; in a trace, a single one stands for all.
    elements: Vec<T>,
    sizes: [usize; 2],
    of: PhantomData<F>,
}

/// Tiles of plain numbers, for calls of a kernel on numbers.
impl<F: Real + Repr<RawMask = bool>, T> Tile<F, T> {
    /// A tile of these row-major elements, for a call on numbers.
    ///
    /// # Panics
    /// When the number of elements does not match the sizes.
    #[track_caller]
    pub fn new<E: Branch<F, Out = T>>(elements: impl IntoIterator<Item = E>, sizes: [usize; 2]) -> Tile<F, T> {
        let elements: Vec<T> = elements.into_iter().map(E::lift).collect();
        let (own, count) = (elements.len(), sizes[0] * sizes[1]);
        assert!(own == count, "a tile of sizes {sizes:?} has {count} elements, not {own}");
        Tile { elements, sizes, of: PhantomData }
    }
}

impl<F: Real, T: Copy> Tile<F, T> {
    /// A traced tile with one element for all elements of a tensor's last two dimensions.
    pub(super) fn traced(element: T, sizes: [usize; 2]) -> Tile<F, T> {
        Tile { elements: vec![element], sizes, of: PhantomData }
    }

    /// The elements, row-major, on numbers; in a call on tensors a single one for all.
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// The numbers of rows and columns, as plain numbers.
    pub fn sizes(&self) -> [usize; 2] {
        self.sizes
    }

    /// A tile from a function of the indices; in a trace, one traced element for all.
    fn from_fn(sizes: [usize; 2], mut f: impl FnMut(usize, usize) -> T) -> Tile<F, T> {
        if F::TRACED {
            return Tile::traced(f(0, 0), sizes);
        }
        let [n, m] = sizes;
        let elements = (0..n * m).map(|p| f(p / m, p % m)).collect();
        Tile { elements, sizes, of: PhantomData }
    }

    /// Element at an index of the shape that the tile broadcasts to.
    fn at(&self, i: usize, j: usize) -> T {
        let [n, m] = self.sizes;
        let (i, j) = (if n == 1 { 0 } else { i }, if m == 1 { 0 } else { j });
        self.elements[i * m + j]
    }

    /// Each element mapped by a function to numbers, `i32`, `bool`, or tuples and arrays of them. The function may be a
    /// `#[kernel]` of one number.
    pub fn map<U: Branch<F, Out: Copy>>(&self, f: impl Fn(T) -> U) -> Tile<F, U::Out> {
        let elements = self.elements.iter().map(|&x| f(x).lift()).collect();
        Tile { elements, sizes: self.sizes, of: PhantomData }
    }

    /// Pairs of the elements of two tiles, which broadcast.
    ///
    /// # Panics
    /// When the tiles do not broadcast.
    #[track_caller]
    pub fn zip<U: Copy>(&self, other: &Tile<F, U>) -> Tile<F, (T, U)> {
        let sizes = both("zip", self.sizes, other.sizes);
        Tile::from_fn(sizes, |i, j| (self.at(i, j), other.at(i, j)))
    }

    /// The index of each element: its row and its column, from 0.
    pub fn places(&self) -> Tile<F, (Int<F>, Int<F>)> {
        let sizes = self.sizes;
        let place = |axis, i: usize| Int(F::tile_place(axis, sizes, i as i32));
        Tile::from_fn(sizes, |i, j| (place(0, i), place(1, j)))
    }
}

/// The sizes that two tiles broadcast to.
#[track_caller]
fn both(name: &str, a: [usize; 2], b: [usize; 2]) -> [usize; 2] {
    let one = |a: usize, b: usize| (a == b || b == 1).then_some(a).or((a == 1).then_some(b));
    match [one(a[0], b[0]), one(a[1], b[1])] {
        [Some(n), Some(m)] => [n, m],
        _ => panic!("{name}: tiles of sizes {a:?} and {b:?} do not broadcast"),
    }
}

/// Sizes of a tile after a reduction along an axis.
#[track_caller]
fn without(name: &str, mut sizes: [usize; 2], axis: usize) -> [usize; 2] {
    assert!(axis < 2, "{name}: a tile has axes 0 and 1, not {axis}");
    sizes[axis] = 1;
    sizes
}

impl<F: Real> Tile<F> {
    /// The matrix product: `[n, k]` by `[k, m]` gives `[n, m]`. Elementwise functions of its factors fuse into it as
    /// its prologue, and those of its result as its epilogue.
    ///
    /// On numbers, products are summed in f64, from the first to the last, and rounded once.
    ///
    /// # Panics
    /// When the columns of the left tile are not as many as the rows of the right one.
    #[track_caller]
    pub fn dot(&self, other: &Tile<F>) -> Tile<F> {
        let ([n, k], [rows, m]) = (self.sizes, other.sizes);
        assert!(
            k == rows,
            "dot: tiles of sizes {:?} and {:?}: {k} columns against {rows} rows",
            self.sizes,
            other.sizes
        );
        let sizes = [n, m];
        match F::tile(TileOp::Dot { x: self.one(), y: other.one(), sizes: [n, k, m] }) {
            Some(product) => Tile::traced(product, sizes),
            None => Tile::from_fn(sizes, |i, j| F::dotted(&mut (0..k).map(|q| (self.at(i, q), other.at(q, j))))),
        }
    }

    /// The transpose. A product reads a transposed factor without a copy.
    pub fn t(&self) -> Tile<F> {
        let [n, m] = self.sizes;
        match F::tile(TileOp::Transposed { x: self.one() }) {
            Some(x) => Tile::traced(x, [m, n]),
            None => Tile::from_fn([m, n], |i, j| self.at(j, i)),
        }
    }

    /// The sum along axis 0 (giving a row) or 1 (giving a column).
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn sum(&self, axis: usize) -> Tile<F> {
        self.reduced("sum", Monoid::Sum, axis)
    }

    /// The maximum along an axis; NaN if any is NaN.
    ///
    /// # Panics
    /// When there is no such axis, or it has no elements.
    #[track_caller]
    pub fn max(&self, axis: usize) -> Tile<F> {
        self.reduced("max", Monoid::Max, axis)
    }

    /// The minimum along an axis; NaN if any is NaN.
    ///
    /// # Panics
    /// When there is no such axis, or it has no elements.
    #[track_caller]
    pub fn min(&self, axis: usize) -> Tile<F> {
        self.reduced("min", Monoid::Min, axis)
    }

    #[track_caller]
    fn reduced(&self, name: &str, monoid: Monoid, axis: usize) -> Tile<F> {
        let sizes = without(name, self.sizes, axis);
        let empty = self.sizes[axis] == 0 && monoid != Monoid::Sum;
        assert!(!empty, "{name}: nothing along axis {axis} of a tile of sizes {:?}", self.sizes);
        match F::tile(TileOp::Reduced { monoid, x: self.one(), axis, sizes: self.sizes }) {
            Some(x) => Tile::traced(x, sizes),
            None => Tile::from_fn(sizes, |i, j| F::fold_elements(monoid, &self.line(axis, i + j))),
        }
    }

    /// The traced element. (On numbers it is not used; a tile may have no elements there.)
    fn one(&self) -> F {
        self.elements.first().copied().unwrap_or(F::lit(0.0))
    }
}

impl<F: Real, T: Copy> Tile<F, T> {
    /// Elements along an axis, at index `place` of the other axis.
    fn line(&self, axis: usize, place: usize) -> Vec<T> {
        let [i, j] = if axis == 0 { [1, 0] } else { [0, 1] };
        let at = if axis == 0 { [0, place] } else { [place, 0] };
        (0..self.sizes[axis]).map(|q| self.at(at[0] + q * i, at[1] + q * j)).collect()
    }
}

impl<F: Real, T: Branch<F, Out = T> + Copy> Tile<F, T> {
    /// The elements along an axis reduced by `combine`, which takes two partial results and returns one; `identity` is
    /// the result over no elements. As [`Row::fold`](super::Row::fold).
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn fold<I, R>(&self, axis: usize, identity: I, combine: impl Fn(T, T) -> R) -> Tile<F, T>
    where
        I: Branch<F, Out = T>,
        R: Branch<F, Out = T>,
    {
        let (sizes, identity) = (without("fold", self.sizes, axis), identity.lift());
        let Some(mut trace) = F::combining(Along::Fold, Some((axis, self.sizes))) else {
            let one =
                |i: usize, j: usize| order::fold_by(self.line(axis, i + j), identity, |&a, &b| combine(a, b).lift());
            return Tile::from_fn(sizes, one);
        };
        let element = self.elements[0];
        let before = element.each(&mut *trace);
        trace.end();
        let after = element.each(&mut *trace);
        trace.end();
        identity.each(&mut *trace);
        trace.end();
        combine(before, after).lift().each(&mut *trace);
        trace.end();
        Tile::traced(element.each(&mut *trace), sizes)
    }
}

/// Selection between tiles by one condition.
impl<F: Real, T: Branch<F, Out = T> + Copy> Branch<F> for Tile<F, T> {
    type Out = Tile<F, T>;
    fn lift(self) -> Tile<F, T> {
        self
    }
    fn pick(c: Mask<F>, a: Tile<F, T>, b: Tile<F, T>) -> Tile<F, T> {
        a.zip(&b).map(|(a, b)| T::pick(c, a, b))
    }
    // The macro does not allow loops with data-dependent ends around tiles.
    fn each(self, _: &mut dyn LoopTracer<F>) -> Tile<F, T> {
        panic!("a tile goes through no loop whose end depends on data; loop over its elements, in `map`");
    }
}

macro_rules! operators {
    ($($trait:ident $f:ident $name:literal, $assign:ident $g:ident;)*) => {$(
        impl<F: Real> $trait<&Tile<F>> for &Tile<F> {
            type Output = Tile<F>;
            #[track_caller]
            fn $f(self, other: &Tile<F>) -> Tile<F> {
                let sizes = both($name, self.sizes, other.sizes);
                Tile::from_fn(sizes, |i, j| self.at(i, j).$f(other.at(i, j)))
            }
        }
        impl<F: Real> $trait<F> for &Tile<F> {
            type Output = Tile<F>;
            fn $f(self, other: F) -> Tile<F> {
                self.map(|x| x.$f(other))
            }
        }
        impl<F: Real> $trait<Tile<F>> for &Tile<F> {
            type Output = Tile<F>;
            #[track_caller]
            fn $f(self, other: Tile<F>) -> Tile<F> {
                self.$f(&other)
            }
        }
        impl<F: Real> $trait<&Tile<F>> for Tile<F> {
            type Output = Tile<F>;
            #[track_caller]
            fn $f(self, other: &Tile<F>) -> Tile<F> {
                (&self).$f(other)
            }
        }
        impl<F: Real> $trait<Tile<F>> for Tile<F> {
            type Output = Tile<F>;
            #[track_caller]
            fn $f(self, other: Tile<F>) -> Tile<F> {
                (&self).$f(&other)
            }
        }
        impl<F: Real> $trait<F> for Tile<F> {
            type Output = Tile<F>;
            fn $f(self, other: F) -> Tile<F> {
                (&self).$f(other)
            }
        }
        impl<F: Real> $assign<&Tile<F>> for Tile<F> {
            #[track_caller]
            fn $g(&mut self, other: &Tile<F>) {
                *self = (&*self).$f(other);
            }
        }
        impl<F: Real> $assign<Tile<F>> for Tile<F> {
            #[track_caller]
            fn $g(&mut self, other: Tile<F>) {
                *self = (&*self).$f(&other);
            }
        }
        impl<F: Real> $assign<F> for Tile<F> {
            fn $g(&mut self, other: F) {
                *self = (&*self).$f(other);
            }
        }
    )*};
}

operators! {
    Add add "+", AddAssign add_assign;
    Sub sub "-", SubAssign sub_assign;
    Mul mul "*", MulAssign mul_assign;
    Div div "/", DivAssign div_assign;
}

/// Left operand of an operator whose right operand may be a tile; generated by the macro.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Left<F>(pub F);

macro_rules! from_the_left {
    ($($trait:ident $f:ident;)*) => {$(
        impl<F: Real> $trait<F> for Left<F> {
            type Output = F;
            fn $f(self, other: F) -> F {
                self.0.$f(other)
            }
        }
        impl<F: Real> $trait<&Tile<F>> for Left<F> {
            type Output = Tile<F>;
            fn $f(self, other: &Tile<F>) -> Tile<F> {
                other.map(|x| self.0.$f(x))
            }
        }
        impl<F: Real> $trait<Tile<F>> for Left<F> {
            type Output = Tile<F>;
            fn $f(self, other: Tile<F>) -> Tile<F> {
                self.$f(&other)
            }
        }
    )*};
}

from_the_left! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl<F: Real> Neg for &Tile<F> {
    type Output = Tile<F>;
    fn neg(self) -> Tile<F> {
        self.map(|x: F| -x)
    }
}

impl<F: Real> Neg for Tile<F> {
    type Output = Tile<F>;
    fn neg(self) -> Tile<F> {
        -&self
    }
}
