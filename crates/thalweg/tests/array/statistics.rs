//! Statistics and rearrangements beyond the golden cases: gradients, edge cases, and cost.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;
use thalweg::{Error, Histogram};

#[test]
fn gradients_go_to_the_elements_that_a_quantile_lies_between() {
    let x = Tensor::new([4.0, 1.0, 3.0, 10.0]).tracked();
    let g = x.median(..).backward();
    assert_eq!(g[&x].to_vec::<f64>().unwrap(), [0.5, 0.0, 0.5, 0.0]);
    let g = x.quantile(0.75, 0).backward();
    assert_eq!(g[&x].to_vec::<f64>().unwrap(), [0.75, 0.0, 0.0, 0.25]);
    let y = Tensor::new([1.0, f64::NAN, 3.0]).tracked();
    assert_eq!(y.nanmean(0).backward()[&y].to_vec::<f64>().unwrap(), [0.5, 0.0, 0.5]);
}

#[test]
fn masks_and_interpolation_have_gradients() {
    let (x, v) = (Tensor::new([1.0, -2.0, 3.0]).tracked(), Tensor::new([5.0, 7.0, 9.0]).tracked());
    let y = x.masked_scatter(&x.detach().gt(0.0), &v) * Tensor::new([1.0, 10.0, 100.0]);
    let g = y.sum(..).backward();
    assert_eq!(g[&x].to_vec::<f64>().unwrap(), [0.0, 10.0, 0.0]);
    assert_eq!(g[&v].to_vec::<f64>().unwrap(), [1.0, 100.0, 0.0]);
    let (at, f) = (Tensor::new([0.25, 5.0]).tracked(), Tensor::new([2.0, 6.0]).tracked());
    let g = at.interp(&Tensor::new([0.0, 1.0]), &f).sum(..).backward();
    assert_eq!(g[&at].to_vec::<f64>().unwrap(), [4.0, 0.0]);
    assert_eq!(g[&f].to_vec::<f64>().unwrap(), [0.75, 1.25]);
}

#[test]
fn quantiles_beside_infinities() {
    let inf = f64::INFINITY;
    let median = |v: [f64; 2]| Tensor::new(v).median(..).item::<f64>().unwrap();
    assert_eq!((median([1.0, inf]), median([-inf, 1.0]), median([inf, inf])), (inf, -inf, inf));
    assert!(median([-inf, inf]).is_nan());
    // The difference would overflow.
    assert_eq!(median([f64::MIN, f64::MAX]), 0.0);
    let x = Tensor::new([1.0f64, 2.0, inf]).tracked();
    assert_eq!(x.quantile(0.25, 0).item::<f64>().unwrap(), 1.5);
    assert_eq!(x.quantile(0.25, 0).backward()[&x].to_vec::<f64>().unwrap(), [0.5, 0.5, 0.0]);
    // Equal elements share the gradient by the position of the quantile.
    let x = Tensor::new([2.0f64, 2.0]).tracked();
    assert_eq!(x.quantile(0.25, 0).backward()[&x].to_vec::<f64>().unwrap(), [0.75, 0.25]);
}

#[test]
fn histograms_pass_over_nan_and_take_edges_of_their_dtype() {
    let x = Tensor::new([f32::NAN, 1.0, 2.0, 1.0, 3.0]);
    let (counts, edges) = x.histogram(2);
    assert_eq!(counts.to_vec::<i64>().unwrap(), [2, 2]);
    assert_eq!(edges.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(Tensor::new([f32::NAN]).histogram(2).0.to_vec::<i64>().unwrap(), [0, 0]);
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64, DType::I32] {
        let x = Tensor::new([0i32, 1, 2, 5]).cast(dtype);
        let (counts, _) = x.histogram(&Tensor::new([0i32, 2, 4]).cast(dtype));
        assert_eq!(counts.to_vec::<i64>().unwrap(), [2, 1], "{dtype}");
    }
}

#[test]
fn special_values_and_empty_rows() {
    let none = Tensor::zeros([0]);
    assert_eq!(none.nansum(0).item::<f32>().unwrap(), 0.0);
    assert!(none.nanmean(0).item::<f32>().unwrap().is_nan());
    assert_eq!(none.histogram(2).0.to_vec::<i64>().unwrap(), [0, 0]);
    assert_eq!(Tensor::new([5.0f32; 3]).histogram(2).0.to_vec::<i64>().unwrap(), [0, 3]);
    let holes = Tensor::new([f32::NAN, 1.0, f32::INFINITY, -1.0]);
    let (counts, _) = holes.histogram_with(2, &Histogram::new().range(-1.0, 1.0));
    assert_eq!(counts.to_vec::<i64>().unwrap(), [1, 1]);
    assert!(holes.median(0).item::<f32>().unwrap().is_nan());
    assert_eq!(holes.nanmedian(0).item::<f32>().unwrap(), 1.0);
    let infinite = Tensor::new([f32::INFINITY; 4]);
    assert_eq!(infinite.quantile(0.3, 0).item::<f32>().unwrap(), f32::INFINITY);
    assert_eq!(
        Tensor::new([3i32, 1, 3]).isin(&Tensor::zeros_with([0], DType::I32)).to_vec::<bool>().unwrap(),
        [false; 3]
    );
    assert_eq!(Tensor::zeros([2, 3, 0]).quantile([0.5, 1.0], 1).dims(), [2, 2, 0]);
    assert_eq!(Tensor::zeros([3]).diff(5, 0).numel(), 0);
    assert_eq!(Tensor::new([true, true, false]).diff(1, 0).to_vec::<bool>().unwrap(), [false, true]);
    assert_eq!(Tensor::new([true, false]).diag(1).sum(..).item::<i64>().unwrap(), 1);
}

#[test]
fn too_few_values_and_negative_counts_are_errors_where_they_are_read() {
    let x = Tensor::zeros([4]);
    let y = x.masked_scatter(&x.eq(0.0), &Tensor::new([1.0f32, 2.0]));
    assert!(matches!(y.to_vec::<f32>(), Err(e) if e.to_string().contains("out of range")));
    let none = x.masked_scatter(&x.ne(0.0), &Tensor::zeros([0]));
    assert_eq!(none.to_vec::<f32>().unwrap(), [0.0; 4]);
    let y = x.masked_scatter(&x.eq(0.0), &Tensor::zeros([0]));
    assert!(y.to_vec::<f32>().is_err());
    let counts = Tensor::new([1i64, -1, 0, 2]);
    assert!(matches!(x.repeat_interleave(&counts, 0), Err(Error::Value(e)) if e.contains("-1")));
}

#[test]
fn rows_are_gone_over_from_both_ends() {
    let x = Tensor::arange(6).reshape([3, 2]);
    let sums: Vec<f32> = x.iter().map(|row| row.sum(..).item().unwrap()).collect();
    assert_eq!(sums, [1.0, 5.0, 9.0]);
    let mut rows = x.iter();
    assert_eq!((rows.len(), rows.next_back().unwrap().to_vec::<f32>().unwrap()), (3, vec![4.0, 5.0]));
    assert_eq!(rows.len(), 2);
}

#[test]
fn passing_over_nan_reads_the_tensor_once() {
    let _pinned = pinned();
    let x = randn([512, 300]);
    let reductions: [fn(&Tensor) -> Tensor; 4] = [|x| x.nanmean(1), |x| x.nanmax(1), |x| x.nanvar(1), |x| x.ptp(1)];
    for (n, f) in reductions.iter().enumerate() {
        let (_y, c) = counted(|| f(&x));
        // The remaining work per row may be a kernel of its own.
        let once = 512 * 300 * 4;
        assert!(c.kernels <= 2 && c.bytes_read <= once + 2 * 512 * 4, "reduction {n}: {c:?}");
    }
    let (_y, c) = counted(|| (x.gradient(1.0, 1).square() + x.gradient(0.5, 0).square()).sqrt());
    assert_eq!((c.kernels, c.bytes_written), (1, 512 * 300 * 4), "the length of a slope");
}

#[test]
fn a_row_is_longer_than_its_dtype_counts() {
    let median = |zeros: usize, ones: usize, dtype: DType| {
        let x = Tensor::cat(&[Tensor::zeros([zeros]), Tensor::ones([ones])], 0).cast(dtype);
        [x.median(0), x.nanmedian(0)].map(|m| m.cast(DType::F64).item::<f64>().unwrap())
    };
    // bf16 cannot represent 257, nor f16 70,001.
    assert_eq!(median(128, 129, DType::BF16), [1.0; 2]);
    assert_eq!(median(35_000, 35_001, DType::F16), [1.0; 2]);
}

#[test]
fn numbers_beyond_what_there_is() {
    let says = |x: Tensor| x.bincount(0).map(|_| ()).unwrap_err().to_string();
    assert_eq!(says(Tensor::new([i64::MAX])), "bincount: 9223372036854775807 asks for more sums than can be addressed");
    assert_eq!(
        says(Tensor::new([3, 1i64 << 60])),
        "bincount: 1152921504606846976 asks for more sums than can be addressed"
    );
    assert!(says(Tensor::new([u64::MAX])).ends_with("asks for more sums than can be addressed"));
    assert_eq!(says(Tensor::new([3i64, -1])), "bincount: -1 is negative");
    let x = Tensor::ones([2, 3]);
    let f32s = |x: Tensor| x.to_vec::<f32>().unwrap();
    for far in [3, 100, i64::MAX - 1, i64::MAX] {
        assert_eq!((f32s(x.triu(far)), f32s(x.tril(far))), (vec![0.0; 6], vec![1.0; 6]), "{far}");
        assert_eq!(f32s(Tensor::tri(2, 3, far)), [1.0; 6], "{far}");
        assert_eq!(x.diagonal(far).dims(), [0], "{far}");
    }
    for far in [-2, -100, i64::MIN + 1, i64::MIN] {
        assert_eq!((f32s(x.triu(far)), f32s(x.tril(far))), (vec![1.0; 6], vec![0.0; 6]), "{far}");
        assert_eq!(x.diagonal(far).dims(), [0], "{far}");
    }
    assert_eq!(f32s(x.triu(2)), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(f32s(x.tril(-1)), [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
}
