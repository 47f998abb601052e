//! Chains of products, in the order that takes the fewest multiplications.

mod counting;

use counting::{counted, pinned, randn};
use thalweg::prelude::*;
use thalweg::{DType, grad};

fn near(got: &Tensor, want: &Tensor) {
    let [got, want] = [got, want].map(|t| t.cast(DType::F64).to_vec::<f64>().unwrap());
    let most = want.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for (g, w) in got.iter().zip(&want) {
        assert!((g - w).abs() <= 1e-5 * most, "{g}, not {w}");
    }
}

/// Multiplications of a chain say how long its operations take, and its first product is written where it is computed.
#[test]
fn a_vector_goes_through_matrices_one_by_one() {
    let _pinned = pinned();
    let (a, b, v) = (randn([300, 300]), randn([300, 300]), randn([300]));
    let right = || a.matmul(&b).matmul(&v);
    let left = || v.matmul(&a.matmul(&b));
    let exact = |f: &dyn Fn() -> Tensor| thalweg::with_strict(true, f);
    let square = 300 * 300 * 4;
    for f in [&right as &dyn Fn() -> Tensor, &left] {
        let (y, c) = counted(f);
        // Both matrices once, and no product of them.
        assert!(c.bytes_written < square / 10, "{} bytes written", c.bytes_written);
        near(&y, &exact(f));
        let (_, c) = counted(|| exact(f));
        assert!(c.bytes_written >= square, "strictly as it is written: {} bytes", c.bytes_written);
    }
    // A long chain, and one whose first product is wanted, too.
    near(&a.matmul(&b).matmul(&a).matmul(&v), &exact(&|| a.matmul(&b).matmul(&a).matmul(&v)));
    let ab = a.matmul(&b);
    let y = ab.matmul(&v);
    near(&ab, &exact(&|| a.matmul(&b)));
    near(&y, &exact(&right));
}

#[test]
fn matrices_of_one_size_and_small_ones_are_multiplied_as_written() {
    let _pinned = pinned();
    let (a, b, c) = (randn([128, 128]), randn([128, 128]), randn([128, 128]));
    let (_, square) = counted(|| a.matmul(&b).matmul(&c));
    let strict = thalweg::with_strict(true, || counted(|| a.matmul(&b).matmul(&c)).1);
    assert_eq!(square.bytes_written, strict.bytes_written);
    let (x, w, u) = (randn([8, 64]), randn([64, 64]), randn([64, 1]));
    let (_, few) = counted(|| x.matmul(&w).matmul(&u));
    assert_eq!(few.operations, 2);
}

#[test]
fn gradients_flow_through_a_chain() {
    let _pinned = pinned();
    let (a, b, v) = (randn([150, 150]).tracked(), randn([150, 150]), randn([150, 2]));
    let slope = grad(&a.matmul(&b).matmul(&v).sum(..), &a);
    let want = b.matmul(&v).sum(1).reshape([1, 150]).broadcast_to([150, 150]);
    near(&slope, &want);
}
