//! Boxes of one domain that a thread computes together, and lanes of scattered accesses.

use super::{counted, emulated, indices, tensor, values};
use thalweg::{Explanation, Tensor};

/// Bytes that launches read and write, as the device says.
fn moved(explained: &Explanation) -> [usize; 2] {
    let totals = explained.segments.iter().map(|s| &s.totals);
    let sum = |of: fn(&thalweg::Totals) -> usize| totals.clone().map(of).sum();
    [sum(|t| t.bytes_read_measured), sum(|t| t.bytes_written_measured)]
}

/// Products of quaternions `[n, 4]`, written as people do.
fn product(a: &Tensor, b: &Tensor) -> Tensor {
    let [w, x, y, z] = [0, 1, 2, 3].map(|i| a.select(1, i));
    let [v, i, j, k] = [0, 1, 2, 3].map(|n| b.select(1, n));
    let parts = [
        &w * &v - &x * &i - &y * &j - &z * &k,
        &w * &i + &x * &v + &y * &k - &z * &j,
        &w * &j - &x * &k + &y * &v + &z * &i,
        &w * &k + &x * &j - &y * &i + &z * &v,
    ];
    Tensor::stack(&parts, 1)
}

#[test]
fn parts_of_a_stack_load_each_element_once() {
    let n = 1000;
    let numbers = |seed: usize| (0..4 * n).map(|i| ((i * seed) % 17) as f32 - 8.0).collect::<Vec<_>>();
    let [a, b] = [5, 7].map(|seed| Tensor::from_slice(&numbers(seed), [n, 4]));
    let want = values(&product(&a, &b));
    let [a, b] = [a, b].map(|x| x.to_device(emulated()).unwrap());
    let (got, explained) = thalweg::explain(|| values(&product(&a, &b)));
    assert_eq!(got, want);
    assert_eq!(moved(&explained), [2 * 16 * n, 16 * n], "{explained}");
}

#[test]
fn halves_that_read_the_same_elements_load_them_once() {
    let n = 600;
    let (x, y) = (Tensor::arange(n as f32), Tensor::arange(n as f32) * 0.5);
    let [x, y] = [x, y].map(|x| x.to_device(emulated()).unwrap());
    let halves = || {
        let [sum, difference] = [&x + &y, &x - &y];
        Tensor::cat(&[&sum, &difference], 0)
    };
    let (got, explained) = thalweg::explain(|| values(&halves()));
    let want: Vec<f32> = [1.0, -1.0].iter().flat_map(|s| (0..n).map(move |i| i as f32 * (1.0 + s * 0.5))).collect();
    assert_eq!(got, want);
    assert_eq!(moved(&explained), [8 * n, 8 * n], "{explained}");
}

#[test]
fn memory_whose_indices_are_asserted_is_that_of_the_value() {
    let rows = tensor(&[1.0, 2.0, 3.0]).index_select(0, &indices(&[2, 0]));
    assert_eq!(rows.asserted_memory().unwrap().shape().dims(), [2]);
    assert_eq!(values(&rows), [3.0, 1.0]);
}

/// Cross products of differences of gathered rows: normals of triangles, added to their corners.
fn normals(points: &Tensor, corners: &Tensor) -> Tensor {
    let [a, b, c] = [0, 1, 2].map(|i| points.index_select(0, &corners.select(1, i)));
    let (p, q) = (&b - &a, &c - &a);
    let [p, q] = [p, q].map(|t| [0, 1, 2].map(|i| t.select(1, i)));
    let part = |i: usize, j: usize| &p[i] * &q[j] - &p[j] * &q[i];
    Tensor::stack(&[part(1, 2), part(2, 0), part(0, 1)], 1)
}

#[test]
fn components_of_a_cross_product_read_each_index_once() {
    let (n, faces) = (50, 400);
    let numbers: Vec<f32> = (0..3 * n).map(|i| ((i * 7) % 13) as f32).collect();
    let corners: Vec<i64> = (0..3 * faces).map(|i| ((i * 11) % n) as i64).collect();
    let (points, corners) = (Tensor::from_slice(&numbers, [n, 3]), Tensor::from_slice(&corners, [faces, 3]));
    let want = values(&normals(&points, &corners));
    let [points, corners] = [points, corners].map(|x| x.to_device(emulated()).unwrap());
    let (got, explained) = thalweg::explain(|| values(&normals(&points, &corners)));
    assert_eq!(got, want);
    // A box for each component would read the indices three times.
    let [read, written] = moved(&explained);
    assert!(read < 2 * 3 * 8 * faces, "{explained}");
    assert_eq!(written, faces * 12);
}

/// Rolls of reshaped rolls: two levels of index maps a load, in more boxes than get bodies of their own. A kernel of all
/// terms would keep NVRTC busy for seconds.
#[test]
fn a_kernel_computes_few_index_maps() {
    let host = Tensor::from_slice(&(0..24 * 35).map(|i| ((i * 13) % 31) as f32 - 15.0).collect::<Vec<_>>(), [24, 35]);
    let code = |x: &Tensor| {
        let term = |k: i64| x.roll(2 * k, 1).reshape([35, 24]).roll(3 * k, 0).roll(k, 1);
        (1..=8).map(term).reduce(|a, b| a * 0.5 + b).unwrap()
    };
    let x = host.to_device(emulated()).unwrap();
    let (y, c) = counted(|| {
        let y = code(&x);
        thalweg::flush();
        y
    });
    assert_eq!(values(&y), values(&code(&host)));
    assert!(c.kernels > 1, "{c:?}");
}
