//! Rewritten products, computed in another order than written: their values, kernels and bytes, and explanations.

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;
use thalweg::{Counters, DType};
use thalweg_stream::{Mode, mode, set_mode};

const F32: u64 = 4;

/// Runs `f` in strict mode, as written, and rewritten; the two are nearly equal. Returns the counters of the rewritten
/// run, and the text of its explanation.
#[track_caller]
fn rewritten(f: &dyn Fn() -> Tensor) -> (Counters, Vec<String>) {
    let before = mode();
    set_mode(Mode { strict: true, ..before });
    let written = f().to_vec::<f32>().unwrap();
    set_mode(before);
    let (out, counts) = counted(f);
    let fast = out.to_vec::<f32>().unwrap();
    let largest = written.iter().fold(0f32, |m, v| m.max(v.abs()));
    for (a, b) in fast.iter().zip(&written) {
        assert!((a - b).abs() <= 1e-5 * largest, "{a} is not {b}");
    }
    let (_, explained) = thalweg::explain(|| f().to_vec::<f32>().unwrap());
    let said = explained.segments.iter().flat_map(|s| &s.rewrites).map(|r| r.what.clone()).collect();
    (counts, said)
}

#[test]
fn a_chain_with_a_vector_multiplies_no_matrices() {
    let _pinned = pinned();
    let (a, b, v) = (randn([300, 200]), randn([200, 400]), randn([400]));
    let (c, said) = rewritten(&|| a.matmul(&b).matmul(&v));
    assert_eq!(said, ["(a·b)·c is computed as a·(b·c)"]);
    assert_eq!((c.kernels, c.bytes_written), (2, (200 + 300) * F32));
    assert_eq!(c.bytes_read, (200 * 400 + 400 + 300 * 200 + 200) * F32);
    // The product of the matrices is held.
    let (held, said) = rewritten(&|| {
        let ab = a.matmul(&b);
        let out = ab.matmul(&v);
        ab.to_vec::<f32>().unwrap();
        out
    });
    assert_eq!(said, [""; 0]);
    assert_eq!(held.bytes_written, (300 * 400 + 300) * F32);
}

#[test]
fn layers_without_an_activation_between_them_are_a_chain() {
    let _pinned = pinned();
    let (x, down, up) = (randn([8, 50, 96]), randn([4, 96]), randn([512, 4]));
    // A low-rank layer as users write it: cheap from its narrow end.
    let (_, said) = rewritten(&|| x.linear(&down, None).linear(&up, None));
    assert_eq!(said, [""; 0]);
    // In the other direction the product of the weights is as large as a weight.
    let (up, down) = (up.t(), down.t());
    let (c, said) = rewritten(&|| x.matmul(&down.matmul(&up)));
    assert_eq!(said, ["a·(b·c) is computed as (a·b)·c"]);
    assert!(c.bytes_written <= (400 * 4 + 400 * 512) * F32, "no product of the weights: {}", c.bytes_written);
}

#[test]
fn scales_of_weights_are_factors_behind_the_product() {
    let _pinned = pinned();
    let (x, scales) = (randn([64, 256]), randn([512, 1]));
    let w = (randn([512, 256]) * 20.0).cast(DType::I8);
    w.to_vec::<i8>().unwrap();
    let (c, said) = rewritten(&|| x.matmul(&(w.cast(DType::F32) * &scales).t()));
    assert_eq!(said, ["factors of columns are applied behind the sum"]);
    assert_eq!((c.kernels, c.bytes_written), (1, 64 * 512 * F32));
    assert_eq!(c.bytes_read, 64 * 256 * F32 + 512 * 256 + 512 * F32);
    // Floats are not rewritten, because the factor may keep sums small.
    let large = randn([512, 256]) * 1e30;
    large.to_vec::<f32>().unwrap();
    let (_, said) = rewritten(&|| (&x * 1e10).matmul(&(&large / large.abs().amax_keepdim(1)).t()));
    assert_eq!(said, [""; 0]);
}

#[test]
fn what_follows_a_transposed_product_is_in_its_kernel() {
    let _pinned = pinned();
    let (x, w, bias) = (randn([70, 300]), randn([300, 200]), randn([200, 70]));
    let (c, said) = rewritten(&|| (x.matmul(&w).t() + &bias).gelu());
    assert_eq!(said, ["a product whose transpose is used is computed transposed"]);
    assert_eq!((c.kernels, c.bytes_written), (1, 200 * 70 * F32));
}

#[test]
fn sizes_of_a_pattern_are_multiplied_in_an_order_of_their_own() {
    let _pinned = pinned();
    // One pattern: the better order depends on the sizes.
    for (m, k, n, p) in [(64, 64, 64, 2), (2, 64, 64, 64), (64, 2, 64, 64), (64, 64, 2, 64)] {
        let (a, b, c) = (randn([m, k]), randn([k, n]), randn([n, p]));
        let (counts, said) = rewritten(&|| a.matmul(&b).matmul(&c));
        let right = k * n * p + m * k * p < m * k * n + m * n * p;
        assert_eq!(said.len(), right as usize, "{m} {k} {n} {p}");
        let inner = if right { k * p } else { m * n };
        assert!(counts.bytes_written <= (inner + m * p) as u64 * F32, "{m} {k} {n} {p}");
    }
}

/// Distances of all points are one kernel that stores nothing but its result: the sum over three coordinates is computed
/// point by point.
#[test]
fn a_sum_over_coordinates_is_computed_in_the_kernel_that_uses_it() {
    let _pinned = pinned();
    let (a, b) = (randn([300, 3]), randn([200, 3]));
    let (c, said) = rewritten(&|| (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1).sqrt().amin(1));
    assert_eq!(said, ["a reduction of a few elements is computed element by element"]);
    assert_eq!((c.kernels, c.bytes_written), (1, 300 * F32));
    // The index of the largest of a few, and reductions of bools.
    for f in [
        |x: &Tensor| (x * 2.0).argmax(-1).cast(DType::F32),
        |x: &Tensor| x.gt(0.5).all(-1).cast(DType::F32),
        |x: &Tensor| x.gt(0.5).any(-1).cast(DType::F32),
    ] {
        let (c, said) = rewritten(&|| f(&a) * 3.0 + 1.0);
        assert_eq!((c.kernels, said.len()), (1, 1));
    }
    // Long rows are rows.
    let x = randn([40, 300]);
    let (_, said) = rewritten(&|| (&x * 2.0).sum(-1));
    assert_eq!(said, [""; 0]);
}

/// Small products are computed by terms, in one kernel with what surrounds them; the sums are those of other products.
#[test]
fn a_product_of_small_matrices_is_computed_in_the_kernel_that_uses_it() {
    let _pinned = pinned();
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        let of = |shape: [usize; 3]| (randn(shape) * 4.0).cast(dtype);
        let (a, b, c) = (of([200, 3, 4]), of([200, 4, 3]), of([200, 3, 3]));
        thalweg::synchronize().unwrap();
        let (counts, said) = rewritten(&|| (a.matmul(&b) + &c).cast(DType::F32));
        assert_eq!(said, ["a product of small matrices is computed element by element"]);
        if dtype != DType::BF16 {
            // Factors of bf16 may be converted once, before their elements are read three times.
            assert_eq!((counts.kernels, counts.bytes_written), (1, 200 * 9 * F32), "{dtype}");
        }
        let wide = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>().unwrap();
        let (sums, a, b) = (wide(&a.matmul(&b)), wide(&a), wide(&b));
        for (i, sum) in sums.iter().enumerate() {
            let (product, row, column) = (i / 9, i / 3 % 3, i % 3);
            let terms = (0..4).map(|k| a[product * 12 + row * 4 + k] * b[product * 12 + k * 3 + column]);
            let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
            let error = if dtype == DType::I32 { 0.0 } else { size * 2f64.powi(1 - dtype.mantissa_digits() as i32) };
            assert!((sum - exact).abs() <= error, "{dtype} {i}: {sum}, not {exact}");
        }
    }
}

/// Products whose bodies are launched for a group of them: factors of their own, shared, and transposed, and what follows.
#[test]
fn small_products_in_groups_are_those_of_each_alone() {
    for (m, k, n) in [(12, 10, 9), (20, 17, 33), (9, 40, 11)] {
        let (a, b, c) = (randn([37, m, k]), randn([37, n, k]), randn([37, m, n]));
        let shared = randn([k, n]);
        let f = |a: &Tensor, b: &Tensor, c: &Tensor| {
            let own = (a * 2.0 - 1.0).matmul(&(b.abs() + 0.5).transpose(1, 2)) * 0.5 + c;
            let with_shared = (a.tanh()).matmul(&(&shared * 3.0 + 1.0)).relu() - c;
            (own, with_shared, c.exp().matmul(b))
        };
        let all = f(&a, &b, &c);
        for i in 0..37 {
            let one = |x: &Tensor| x.narrow(0, i, 1);
            let alone = f(&one(&a), &one(&b), &one(&c));
            for (all, alone) in [(&all.0, &alone.0), (&all.1, &alone.1), (&all.2, &alone.2)] {
                let (all, alone) = (one(all).to_vec::<f32>().unwrap(), alone.to_vec::<f32>().unwrap());
                let close = all.iter().zip(&alone).all(|(x, y)| (x - y).abs() <= 1e-4 * (1.0 + y.abs()));
                assert!(close && all.len() == alone.len(), "{m} {k} {n}, product {i}");
            }
        }
    }
}
