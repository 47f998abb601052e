//! Cold start on a GPU: new code runs by generic kernels, and by its plan's kernels once these are compiled in the
//! background.

use super::{counted, tensor, values};
use thalweg::prelude::*;
use thalweg::{Tier, finish_searches, set_deferring, set_tiers, tier_runs};

/// A program of five operations, one of 32 such that no other test uses; and its result.
fn program(x: &Tensor, n: u32) -> (Tensor, Vec<f32>) {
    let (mut y, mut want) = (x.clone(), vec![0.1f32, 0.2, 0.3, 0.4]);
    for bit in 0..5 {
        let adds = n >> bit & 1 == 1;
        y = if adds { y.maximum(&(x * 2.0)) } else { (&y * &y).trunc() - 3.0 };
        let one = |(w, i): (&mut f32, usize)| {
            *w = if adds { w.max(0.1 * (i + 1) as f32 * 2.0) } else { (*w * *w).trunc() - 3.0 }
        };
        want.iter_mut().zip(0..).for_each(one);
    }
    (y, want)
}

fn runs_right(x: &Tensor, n: u32) {
    let (y, want) = program(x, n);
    for (got, want) in values(&y).iter().zip(&want) {
        assert!((got - want).abs() < 1e-5, "program {n}: {got} {want}");
    }
}

#[test]
fn new_code_waits_for_no_compiler_and_runs_by_its_plan_later() {
    let before = set_tiers(true);
    let x = tensor(&[0.1, 0.2, 0.3, 0.4]);
    // The generic kernels themselves.
    runs_right(&x, 0);
    let (_, c) = counted(|| (1..32).for_each(|n| runs_right(&x, n)));
    assert_eq!((c.programs_compiled, c.cold_starts, c.plans_made), (0, 31, 0));
    assert!(c.generic_kernels > 31, "{} kernels", c.generic_kernels);
    assert_eq!(tier_runs(|| runs_right(&x, 11)).1[0].tier, Tier::Singles);
    finish_searches();
    let (_, c) = counted(|| runs_right(&x, 11));
    assert_eq!((c.kernels, c.cold_starts, c.generic_kernels), (1, 0, 0));
    set_tiers(before);
}

/// A library's convolution takes dense operands. One of a view is not planned for, but has its view stored first.
#[test]
fn views_that_an_operation_does_not_take_are_stored_first() {
    let before = (set_tiers(true), set_deferring(false));
    let x = Tensor::arange(2 * 4 * 6 * 7).cast(DType::F32).reshape([2, 4, 6, 7]) * 0.125;
    let w = Tensor::arange(3 * 2 * 3 * 3).cast(DType::F32).reshape([3, 2, 3, 3]) - 20.0;
    let code = |x: &Tensor, w: &Tensor| {
        let y = (x * 2.0).slice((.., 1..3)).conv2d(w, None, Conv::default());
        (&y + 1.0).transpose(2, 3).to_vec::<f32>().unwrap()
    };
    let [a, b] = [&x, &w].map(|t| t.to_device(super::emulated()).unwrap());
    let (got, c) = counted(|| code(&a, &b));
    // The product, its part, the convolution, and the sum.
    assert_eq!((c.plans_made, c.cold_starts, c.kernels), (0, 1, 4), "{c:?}");
    assert_eq!(got, thalweg::with_fusion(false, || code(&x, &w)));
    finish_searches();
    assert_eq!(code(&a, &b), got);
    set_tiers(before.0);
    set_deferring(before.1);
}

/// Another size of a known class may need other sources, for which it does not wait either.
#[test]
fn other_sizes_of_a_known_class_are_compiled_for_beside_them() {
    // Deferral would give another pattern.
    let before = (set_tiers(true), set_deferring(false));
    let of = |n: usize| tensor(&(0..n).map(|i| i as f32 * 0.25 - 3.0).collect::<Vec<_>>());
    let run = |x: &Tensor| values(&(x.trunc().minimum(x) * 0.75).sum(0));
    let [short, long] = [of(24), of(25)];
    for _ in 0..2 {
        run(&short);
    }
    finish_searches();
    let want = run(&short);
    let (got, c) = counted(|| run(&long));
    assert_eq!(c.programs_compiled, 0);
    assert!(got[0] > want[0], "{got:?} {want:?}");
    finish_searches();
    let (again, c) = counted(|| run(&long));
    assert_eq!((c.cold_starts, c.generic_kernels), (0, 0));
    assert!((again[0] - got[0]).abs() < 1e-4);
    set_tiers(before.0);
    set_deferring(before.1);
}

/// Reductions, movement, gathers and casts, each by generic and by compiled kernels.
#[test]
fn what_is_new_has_the_values_of_what_is_compiled() {
    let x = tensor(&(0..600).map(|i| ((i * 37) % 101) as f32 * 0.5 - 20.0).collect::<Vec<_>>());
    let x = x.reshape([20, 30]);
    let code = |x: &Tensor| -> Vec<Vec<f32>> {
        let rows = x.slice((.., 3..27)).flip(0);
        let most = rows.amax(1);
        let at = x.argmax(0);
        let wide = x.pad([(1, 2), (0, 3)], 0.5).t();
        let whole = x.cast(DType::I64).sum(..).cast(DType::F32);
        let few = x.cast(DType::BF16).sum(1).cast(DType::F32);
        let all = [most, at.cast(DType::F32), wide, whole, few, Tensor::cat(&[x, x], 1)];
        all.iter().map(values).collect()
    };
    let want = code(&x);
    let before = set_tiers(true);
    let got = code(&x);
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() <= 0.01 * w.abs(), "{g} {w}");
        }
    }
    finish_searches();
    set_tiers(before);
}
