//! Operators in every combination of ownership.

use thalweg::prelude::*;

fn i(v: Tensor) -> Vec<i32> {
    v.to_vec().unwrap()
}

#[test]
fn owned_borrowed_and_scalars_on_both_sides() {
    let (a, b) = (Tensor::new([7i32, -7]), Tensor::new([2i32, 3]));
    macro_rules! check {
        ($($op:tt $tensors:expr, $right:expr, $left:expr;)*) => {$(
            assert_eq!(i(&a $op &b), $tensors);
            assert_eq!(i(a.clone() $op &b), $tensors);
            assert_eq!(i(&a $op b.clone()), $tensors);
            assert_eq!(i(a.clone() $op b.clone()), $tensors);
            assert_eq!(i(&a $op 2), $right);
            assert_eq!(i(a.clone() $op 2), $right);
            assert_eq!(i(100 $op &b), $left);
            assert_eq!(i(100 $op b.clone()), $left);
        )*};
    }
    check! {
        + [9, -4], [9, -5], [102, 103];
        - [5, -10], [5, -9], [98, 97];
        * [14, -21], [14, -14], [200, 300];
        / [3, -2], [3, -3], [50, 33];
        % [1, 2], [1, 1], [0, 1];
        & [2, 1], [2, 0], [0, 0];
        | [7, -5], [7, -5], [102, 103];
        ^ [5, -6], [5, -5], [102, 103];
        << [28, -56], [28, -28], [400, 800];
        >> [1, -1], [1, -2], [25, 12];
    }
    assert_eq!((i(-&a), i(-a.clone())), (vec![-7, 7], vec![-7, 7]));
    assert_eq!((i(!&a), i(!a.clone())), (vec![-8, 6], vec![-8, 6]));
}

#[test]
fn assignment_replaces_the_handle_only() {
    let mut x = Tensor::new([1.0f32, 2.0]);
    let old = x.clone();
    x += 1.0;
    x *= &old;
    x -= old.clone();
    x /= 2.0;
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.5, 2.0]);
    assert_eq!(old.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn logic_on_bool_bits_on_integers() {
    let (t, f) = (Tensor::new([true, false]), Tensor::new([true, true]));
    let b = |x: Tensor| x.to_vec::<bool>().unwrap();
    assert_eq!(b(&t & &f), [true, false]);
    assert_eq!(b(&t | false), [true, false]);
    assert_eq!(b(&t ^ &f), [false, true]);
    assert_eq!(b(!&t), [false, true]);
    assert_eq!(b(t.and(&f).or(false).xor(true).not()), [true, false]);
}

#[test]
fn numbers_of_every_type_take_the_tensors_dtype() {
    let x = Tensor::new([2.0f32]);
    let y = &x + 1i8 + 1u8 + 1i64 + 1usize + 1.0f64 + thalweg::f16::ONE + Scalar::Int(1) + 1u32;
    assert_eq!((y.dtype(), y.item::<f32>().unwrap()), (DType::F32, 10.0));
    assert_eq!(Tensor::new([3i64]).mul(2.0).item::<i64>().unwrap(), 6);
    assert!(Tensor::new([3u8]).eq(3.0).item::<bool>().unwrap());
    let z = x.gt(1).where_(1.5, 0);
    assert_eq!((z.dtype(), z.item::<f32>().unwrap()), (DType::F32, 1.5));
    assert_eq!(x.gt(1).where_(&x, 0).dtype(), DType::F32);
    assert_eq!(x.lt(1).where_(1, 0).item::<i64>().unwrap(), 0);
    assert_eq!(x.masked_fill(&x.gt(1), -1).item::<f32>().unwrap(), -1.0);
}

#[test]
fn integers_wrap_and_division_by_zero_is_zero() {
    let x = Tensor::new([100i8, -128]);
    let v = |x: Tensor| x.to_vec::<i8>().unwrap();
    assert_eq!(v(&x + 100), [-56, -28]);
    assert_eq!(v(&x * 2), [-56, 0]);
    assert_eq!(v(x.abs()), [100, -128]);
    // Division by data; division by the number 0 is a mistake that panics.
    let zero = Tensor::new([0i8]);
    assert_eq!(v(&x / &zero), [0, 0]);
    assert_eq!(v(&x % &zero), [0, 0]);
    assert_eq!(v(&x << 8), [0, 0]);
    assert_eq!(v(&x >> 9), [0, -1]);
}

#[test]
fn tensors_cross_threads() {
    let x = Tensor::arange(1000) * 2.0;
    let sums: Vec<_> = (0..4)
        .map(|n| {
            let x = x.clone();
            std::thread::spawn(move || (x + n).sum(..).item::<f32>().unwrap())
        })
        .collect();
    for (n, sum) in sums.into_iter().enumerate() {
        assert_eq!(sum.join().unwrap(), 999_000.0 + 1000.0 * n as f32);
    }
}
