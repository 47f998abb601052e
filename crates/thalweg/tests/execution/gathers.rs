//! Gathers moved before elementwise functions: few gathered elements are computed, not the whole source.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;
use thalweg::{DType, Error, grad};

/// 5,000 rows of 64: 1.28 MB.
fn table() -> Tensor {
    randn([5000, 64])
}

fn rows() -> Tensor {
    let rows = Tensor::new([17i64, 4999, 0, 17, 2500]);
    thalweg::synchronize().unwrap();
    rows
}

/// Compares `f` fused, in strict mode, and on a source computed before; in strict mode to the bit. Reads at most
/// `bytes`.
fn few(name: &str, bytes: u64, source: &dyn Fn() -> Tensor, f: &dyn Fn(&Tensor) -> Tensor) {
    let (y, c) = counted(|| f(&source()));
    // Resolving negative indices may be a kernel before it.
    assert!(c.kernels <= 2, "{name}");
    assert!(c.bytes_read <= bytes, "{name} reads {} bytes, not {bytes}", c.bytes_read);
    let before = |strict: bool| {
        thalweg::with_strict(strict, || {
            let x = source();
            thalweg::synchronize().unwrap();
            f(&x).cast(DType::F32).to_vec::<f32>().unwrap()
        })
    };
    for (a, b) in y.cast(DType::F32).to_vec::<f32>().unwrap().iter().zip(before(false)) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{name}: {a}, not {b}");
    }
    let strict = thalweg::with_strict(true, || f(&source()).cast(DType::F32).to_vec::<f32>().unwrap());
    assert_eq!(strict, before(true), "{name}: strictly the same bits");
}

#[test]
fn functions_of_a_table_are_computed_for_rows_that_are_asked_for() {
    let _pinned = pinned();
    let (x, rows) = (table(), rows());
    let (row, scale, shift) = (randn([64]), randn([5000, 1]), randn([5000, 64]));
    // Five rows of 256 bytes, and the other operands.
    let some = 5 * 256 + 5 * 8;
    few("a function", some, &|| x.exp(), &|t| t.index_select(0, &rows));
    few("a scaled cast", some, &|| (&x * 0.5).cast(DType::BF16), &|t| t.embedding(&rows));
    few("several", some, &|| (x.square() + 1.0).sqrt().gt(1.5).cast(DType::F32), &|t| t.index_select(0, &rows));
    few("a vector beside it", some + 256, &|| &x * &row, &|t| t.index_select(0, &rows));
    few("a factor a row", some + 5 * 256, &|| &x * &scale, &|t| t.index_select(0, &rows));
    few("two tables", 2 * some, &|| &x + &shift, &|t| t.index_select(0, &rows));
    few("a choice", 2 * some, &|| x.gt(0.0).where_(&x, &shift), &|t| t.index_select(0, &rows));
    few("of a flat table", some, &|| x.exp(), &|t| t.take(&rows));
    let columns = Tensor::new([3i64, 60]);
    thalweg::synchronize().unwrap();
    few("columns", 64 * 5000 * 4 / 8, &|| x.tanh(), &|t| t.index_select(1, &columns));
}

#[test]
fn many_rows_or_many_gathers_take_from_what_is_in_memory() {
    let _pinned = pinned();
    let x = randn([100, 64]);
    let rows = Tensor::arange_with(100, DType::I64);
    thalweg::synchronize().unwrap();
    let (_, c) = counted(|| x.exp().index_select(0, &rows));
    assert_eq!(c.kernels, 2, "each row once: the function first");
}

#[test]
fn gradients_and_errors_are_those_of_the_function_first() {
    let _pinned = pinned();
    let x = randn([300, 4]);
    let rows = Tensor::new([7i64, 299, 7]);
    let leaf = x.tracked();
    let slope = grad(&(&leaf * 3.0).sin().index_select(0, &rows).sum(..), &leaf).to_vec::<f32>().unwrap();
    for (i, (got, x)) in slope.iter().zip(x.to_vec::<f32>().unwrap()).enumerate() {
        let times = [7, 299, 7].iter().filter(|&&r| r == i / 4).count() as f32;
        assert!((got - times * 3.0 * (3.0 * x).cos()).abs() < 1e-4, "{i}: {got}");
    }
    let wrong = Tensor::new([1i64, 300]);
    let error = x.exp().index_select(0, &wrong).to_vec::<f32>().unwrap_err();
    let Error::Index(message) = error else { panic!("{error}") };
    assert!(message.starts_with("index_select: ") && message.contains("300"), "{message}");
}
