//! Compares scans and sorts with the interpreter.

use super::{Lcg, read, write};
use crate::scan::scan;
use crate::threads::Threads;
use thalweg_ir::{DType, Scalar, ScanOp};
use thalweg_kernel::reference::scan_row;

const OPS: [ScanOp; 7] =
    [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min, ScanOp::LogSumExp, ScanOp::Sort, ScanOp::Argsort];

fn rounded(dtype: DType, v: Scalar) -> Scalar {
    match v {
        Scalar::Float(v) => Scalar::Float(dtype.round(v)),
        other => Scalar::integer(dtype.wrap(other.to_i64()), dtype),
    }
}

fn same(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        _ => a.to_i64() == b.to_i64(),
    }
}

fn value(rng: &mut Lcg, op: ScanOp, dtype: DType, special: bool) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(rng.below(2) == 1),
        d if d.is_int() => {
            Scalar::integer(d.wrap(if special { rng.below(5) as i64 - 2 } else { rng.below(1 << 30) as i64 * 37 }), d)
        }
        _ if special && rng.below(8) == 0 => {
            Scalar::Float([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 0.0][rng.below(6)])
        }
        d if op == ScanOp::Prod => Scalar::Float(d.round(1.0 + rng.value() / 100.0)),
        d => Scalar::Float(d.round(rng.value())),
    }
}

#[test]
fn scans_are_what_the_interpreter_says_to_the_bit() {
    let mut rng = Lcg(11);
    let threads = [Threads::new(2, 0.0), Threads::new(5, 0.0)];
    for round in 0..1500 {
        let (op, dtype, reverse) = (OPS[round % 7], DType::ALL[rng.below(DType::ALL.len())], rng.below(2) == 1);
        if op == ScanOp::LogSumExp && !dtype.is_float() {
            continue;
        }
        let width = if rng.below(2) == 0 { 1 } else { 1 + rng.below(9) };
        let n = match rng.below(60) {
            0 | 1 => 500 + rng.below(2000),
            // More than one block, and more than are interleaved.
            2 => 4000 + rng.below(if width == 1 { 70_000 } else { 9000 }),
            _ => rng.below(40),
        };
        let threads = [None, Some(&threads[0]), Some(&threads[1])][rng.below(3)];
        let special = rng.below(3) == 0;
        let out_dtype = if op == ScanOp::Argsort { DType::I64 } else { dtype };
        let elements = n * width;
        let mut from = vec![0u64; elements];
        let (size, out_size) = (dtype.size(), out_dtype.size());
        for i in 0..elements {
            let v = value(&mut rng, op, dtype, special);
            // SAFETY: an element has at most 8 bytes.
            unsafe { write(from.as_mut_ptr().cast::<u8>().add(i * size), dtype, v) };
        }
        let mut to = vec![0u64; elements];
        let in_place = op != ScanOp::Argsort && rng.below(3) == 0;
        if in_place {
            to.copy_from_slice(&from);
        }
        let source = if in_place { to.as_ptr() } else { from.as_ptr() };
        // SAFETY: both vectors hold that many elements.
        unsafe { scan((op, reverse), dtype, source.cast(), to.as_mut_ptr().cast(), [n, width], threads) };
        for j in 0..width {
            // SAFETY: as above.
            let at = |v: &[u64], i: usize, d: DType, s: usize| unsafe {
                read(v.as_ptr().cast::<u8>().add((i * width + j) * s), d)
            };
            let column: Vec<Scalar> = (0..n).map(|i| at(&from, i, dtype, size)).collect();
            for (i, want) in scan_row(op, reverse, dtype, &column).into_iter().enumerate() {
                let got = at(&to, i, out_dtype, out_size);
                let want = rounded(out_dtype, want);
                assert!(
                    same(got, want),
                    "{op:?} {dtype} reverse {reverse} n {n} of {width} at {i}: {got:?}, not {want:?}"
                );
            }
        }
    }
}
