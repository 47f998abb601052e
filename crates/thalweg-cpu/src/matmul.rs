//! Matrix products of operands in memory.
//!
//! In: a dtype and a geometry with any strides. Out: `c`, row-major. Here a launch is checked; `contract` runs it.

use crate::contract::{self, Contraction, Factor, Finish};
use crate::engine::Choice;
use crate::threads::Threads;
use thalweg_ir::DType;
use thalweg_kernel::{MatmulGeometry, Moved};
use thalweg_runtime::Buffer;

/// Runs a matrix product.
///
/// # Panics
/// When the geometry reaches outside an operand, or the output lies over an input.
pub fn launch(dtype: DType, geometry: &MatmulGeometry, operands: &[&Buffer], isa: Choice, threads: &Threads) {
    let [a, b, c] = operands else { panic!("a matrix product has 3 operands, {} given", operands.len()) };
    let &MatmulGeometry { m, n, k, .. } = geometry;
    let batches = geometry.batch.iter().try_fold(1usize, |n, d| n.checked_mul(d.0));
    let bytes = [m, n, dtype.size()].iter().try_fold(batches.expect("a count of products"), |p, &q| p.checked_mul(q));
    assert!(bytes.is_some_and(|b| b <= c.bytes()), "the product of {m}×{k} and {k}×{n} does not fit {c:?}");
    let bytes = bytes.expect("just checked");
    if bytes == 0 {
        return;
    }
    if k == 0 {
        // SAFETY: the output has as many bytes, as just checked; zero is 0 in every dtype.
        unsafe { c.address().write_bytes(0, bytes) };
        return;
    }
    for (which, operand, at, dims, batch) in [
        ("left", a, geometry.a, [m, k], geometry.batch.iter().map(|d| (d.0, d.1)).collect::<Vec<_>>()),
        ("right", b, geometry.b, [k, n], geometry.batch.iter().map(|d| (d.0, d.2)).collect()),
    ] {
        let all = batch.into_iter().chain([(dims[0], at.1), (dims[1], at.2)]);
        let (mut low, mut high) = (at.0 as i128, at.0 as i128);
        for (size, stride) in all {
            let span = (size as i128 - 1) * stride as i128;
            low += span.min(0);
            high += span.max(0);
        }
        let has = operand.bytes() / dtype.size();
        assert!(
            low >= 0 && high < has as i128,
            "a product reaches elements {low} to {high} of its {which} side, which has {has} ({dtype})"
        );
        let (from, to) = (operand.address() as usize, c.address() as usize);
        assert!(
            from >= to + c.bytes() || to >= from + operand.bytes(),
            "a product's output lies over its {which} side"
        );
    }
    let factor = |operand: &Buffer, (base, line, term): (isize, isize, isize), batch: Vec<isize>| Factor::Strided {
        first: operand.address().cast_const().wrapping_offset(base * dtype.size() as isize),
        batch,
        line,
        term,
    };
    // All elements were found inside their operands, and the output apart from the inputs.
    let product = Contraction {
        dtype,
        batch: geometry.batch.iter().map(|d| d.0).collect(),
        m,
        n,
        k,
        left: factor(a, geometry.a, geometry.batch.iter().map(|d| d.1).collect()),
        right: factor(b, (geometry.b.0, geometry.b.2, geometry.b.1), geometry.batch.iter().map(|d| d.2).collect()),
        finish: Finish::Store(c.address()),
    };
    contract::run(&product, isa, threads);
}

/// What a launch moves.
pub fn moves(dtype: DType, geometry: &MatmulGeometry, isa: Choice, threads: &Threads) -> Moved {
    contract::moves::moves(dtype, geometry, isa, threads)
}
