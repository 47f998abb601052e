//! Contractions whose kernels only this device has: `fed` by a warp that has the chip copy the factors, and `streamed`, two
//! products, the rows of one through the other. Tiles that threads copy are programs ([`thalweg_gpu::write::contraction`]).
//!
//! In: a class. Out: a source with one function, `contraction`. Nothing here knows sizes; which class a contraction gets is
//! decided in `lower/contraction`.

pub mod fed;
pub mod streamed;

use super::access::Accesses;
use super::body::Names;
use super::print;
use thalweg_gpu::class::body::divisors;
use thalweg_gpu::class::contraction::{PartClass, PartSlots};
use thalweg_gpu::ir::{Expr, Type};

/// What every source of a contraction has behind the prelude.
pub const CONTRACTIONS: &str = include_str!("../contraction.cuh");
/// What those have whose factors are copied by maps of tensors.
pub const FED: &str = concat!(include_str!("../contraction.cuh"), include_str!("../mapped.cuh"));

/// What a body needs of the kernel around it.
fn names<'a>(
    accesses: &'a Accesses<'a>,
    (part, slots): (&'a PartClass, &'a PartSlots),
    load: &'a dyn Fn(u16) -> String,
    gather: &'a dyn Fn(u16, &str, &str) -> String,
    use_names: &mut dyn FnMut(&Names<'_>),
    at: &'a str,
) {
    let names = Names {
        load,
        index: &|k, dtype| accesses.index(k as usize, dtype, at),
        valid: &|k| accesses.valid(k as usize, at),
        gather,
        value: &|_| unreachable!("a map has no values of rows"),
        scalar: &|s| slots.scalars + s as usize,
        reciprocal: &|s| {
            let at = divisors(&part.body).iter().position(|d| d.0 == s)?;
            Some(slots.reciprocals + at)
        },
    };
    use_names(&names);
}

/// The statements that say which tile a number stands for: `product` of the batch, `row0`, `column0`.
fn which_tile(number: &str, tile: [u32; 2]) -> String {
    print::statements(&thalweg_gpu::write::contraction::which_tile(Expr::name(number, Type::U32), tile))
}
