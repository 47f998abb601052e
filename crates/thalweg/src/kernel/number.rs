//! Kernels on numbers: operations as their rows of the table define them, rounded to the type.

use super::repr::{Edge, LoopTracer, Repr, TileOp};
use std::sync::Arc;
use thalweg_ir::monoid::Partial;
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::Along;

/// Evaluates an operation on integers or truth values of a dtype.
pub(super) fn on_ints(op: ElementOp, dtype: DType, args: &[i64]) -> i64 {
    let meaning = op.row().meaning.int.expect("the operation takes integers");
    op.output(dtype).wrap(meaning(args, dtype))
}

/// The result of an operation on floats of a dtype; a truth value is 0 or 1.
pub(super) fn on_floats(op: ElementOp, dtype: DType, args: &[f64]) -> f64 {
    let meaning = op.row().meaning.float.expect("the operation takes floats");
    dtype.round(meaning(args))
}

/// Elements of a field, in a call on numbers.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Elements<T> {
    elements: Arc<[T]>,
    sizes: Vec<usize>,
}

impl<T: Copy> Elements<T> {
    pub(super) fn new(elements: &[T], sizes: &[usize]) -> Elements<T> {
        Elements { elements: elements.into(), sizes: sizes.into() }
    }

    /// The element at an index; `None` if it is out of bounds and the edge mode gives 0.
    fn read(&self, at: &[i32], edge: Edge) -> Option<T> {
        let mut position = 0;
        for (&i, &size) in at.iter().zip(&self.sizes) {
            let (i, size) = (i64::from(i), size as i64);
            let inside = match edge {
                _ if (0..size).contains(&i) => i,
                Edge::Zero => return None,
                Edge::Clamp if size > 0 => i.clamp(0, size - 1),
                Edge::Wrap if size > 0 => i.rem_euclid(size),
                _ => panic!("a read at {at:?} of a field of sizes {:?}", self.sizes),
            };
            position = position * size + inside;
        }
        Some(self.elements[position as usize])
    }
}

/// Up to three arguments converted to another type.
fn each<A: Copy, B: Copy + Default>(args: &[A], f: impl Fn(A) -> B) -> ([B; 3], usize) {
    let mut all = [B::default(); 3];
    all.iter_mut().zip(args).for_each(|(to, from)| *to = f(*from));
    (all, args.len())
}

macro_rules! numbers {
    ($($t:ident $dtype:ident),*) => {$(
        impl Repr for $t {
            type RawInt = i32;
            type RawMask = bool;
            type RawField = Elements<$t>;
            const TRACED: bool = false;

            fn constant(value: f64) -> $t {
                value as $t
            }
            fn int(value: i32) -> i32 {
                value
            }
            fn mask(value: bool) -> bool {
                value
            }
            fn apply(op: ElementOp, args: &[$t]) -> $t {
                let (all, n) = each(args, f64::from);
                on_floats(op, DType::$dtype, &all[..n]) as $t
            }
            fn test(op: ElementOp, args: &[$t]) -> bool {
                let (all, n) = each(args, f64::from);
                on_floats(op, DType::$dtype, &all[..n]) != 0.0
            }
            fn apply_int(op: ElementOp, args: &[i32]) -> i32 {
                let (all, n) = each(args, i64::from);
                on_ints(op, DType::I32, &all[..n]) as i32
            }
            fn test_int(op: ElementOp, args: &[i32]) -> bool {
                let (all, n) = each(args, i64::from);
                on_ints(op, DType::I32, &all[..n]) != 0
            }
            fn logic(op: ElementOp, args: &[bool]) -> bool {
                let (all, n) = each(args, i64::from);
                on_ints(op, DType::Bool, &all[..n]) != 0
            }
            fn pick(c: bool, a: $t, b: $t) -> $t {
                if c { a } else { b }
            }
            fn pick_int(c: bool, a: i32, b: i32) -> i32 {
                if c { a } else { b }
            }
            fn into_int(self) -> i32 {
                self as i32
            }
            fn from_int(i: i32) -> $t {
                i as $t
            }
            fn sizes(field: &Elements<$t>) -> &[usize] {
                &field.sizes
            }
            fn read(field: &Elements<$t>, at: &[i32], edge: Edge) -> $t {
                field.read(at, edge).unwrap_or(0.0)
            }
            fn known(mask: bool) -> Option<bool> {
                Some(mask)
            }
            fn turns(_: u32) -> Option<Box<dyn LoopTracer<$t>>> {
                None
            }
            fn combining(_: Along, _: Option<(usize, [usize; 2])>) -> Option<Box<dyn LoopTracer<$t>>> {
                None
            }
            fn place(i: i32) -> i32 {
                i
            }
            fn tile_place(_: usize, _: [usize; 2], i: i32) -> i32 {
                i
            }
            fn tile(_: TileOp<$t>) -> Option<$t> {
                None
            }
            fn fold_elements(monoid: Monoid, elements: &[$t]) -> $t {
                let mut all = Partial::neutral(monoid, DType::F64);
                elements.iter().for_each(|&x| all.push(Scalar::Float(x.into())));
                match elements.is_empty() {
                    true => Partial::none(monoid, DType::$dtype).result().to_f64() as $t,
                    false => all.result().to_f64() as $t,
                }
            }
            fn dotted(pairs: &mut dyn Iterator<Item = ($t, $t)>) -> $t {
                pairs.map(|(x, y)| f64::from(x) * f64::from(y)).sum::<f64>() as $t
            }
            fn under(_: bool, _: bool) {}
            fn done() {}
        }
    )*};
}
numbers!(f32 F32, f64 F64);
