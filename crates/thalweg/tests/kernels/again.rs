//! Repeated kernel calls are replayed in one go, with the same results.

use crate::counting::{counted, pinned, randn};
use thalweg::kernel::{Edge, Field, Row, Tile};
use thalweg::prelude::*;

#[kernel]
fn blend<F: Real>(x: F, y: F, weight: F) -> F {
    if x > y { x * weight + y } else { y - 0.5 * x }
}

#[kernel]
fn power<F: Real, const N: usize>(x: F, shifts: [f64; 2], down: bool) -> F {
    let mut y = x + F::lit(shifts[0]);
    for _ in 1..N {
        y = y * x + F::lit(shifts[1]);
    }
    if down { -y } else { y }
}

#[kernel(row)]
fn scaled<F: Real>(x: &Row<F>, times: F) -> (Row<F>, F) {
    let most = x.fold(F::lit(f64::NEG_INFINITY), |a, b| a.max(b));
    (x.map(|x| (x - most) * times), most)
}

#[kernel(index)]
fn slope<F: Real>(at: [i32; 1], x: &Field<F, 1>, times: F) -> F {
    times * (x.get([at[0] + 1], Edge::Clamp) - x.get([at[0] - 1], Edge::Clamp))
}

#[kernel(tile)]
fn layer<F: Real>(x: &Tile<F>, w: &Tile<F>) -> Tile<F> {
    x.dot(w).map(|y| y.tanh())
}

#[kernel]
fn same<F: Real>(x: F, y: F) -> (F, F) {
    (x, x * 0.0 + y)
}

fn list(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

#[test]
fn the_same_operations_kernels_and_bytes() {
    let _pinned = pinned();
    let (x, y) = (randn([40, 8]), randn([40, 8]));
    let (row, w) = (randn([320]), randn([8, 8]));
    thalweg::synchronize().unwrap();
    let all = || {
        let z = blend::on(&x * 2.0, &y, 0.25).tanh();
        let (rows, most) = scaled::on(&z, 2.0);
        (power::on::<3>(&z, [0.5, 1.5], true), rows, most, slope::over(*row.shape()).on(&row, 0.5), layer::on(&z, &w))
    };
    let (first, a) = counted(all);
    let (second, b) = counted(all);
    let (third, c) = counted(all);
    assert_eq!((a.operations, a.kernels, a.segments), (b.operations, b.kernels, b.segments), "{a:?}\n{b:?}");
    assert_eq!((a.bytes_read, a.bytes_written), (c.bytes_read, c.bytes_written), "{a:?}\n{c:?}");
    assert_eq!((b.plans_made, c.plans_made), (0, 0));
    for other in [second, third] {
        assert_eq!(list(&first.0), list(&other.0));
        assert_eq!(list(&first.1), list(&other.1));
        assert_eq!(list(&first.2), list(&other.2));
        assert_eq!(list(&first.3), list(&other.3));
        assert_eq!(list(&first.4), list(&other.4));
    }
}

#[test]
fn numbers_plain_data_and_constants_are_told_apart() {
    let x = Tensor::new([0.5f32, -1.0, 2.0]);
    for _ in 0..3 {
        for k in [0.25f64, -2.0, 0.0, -0.0, 3.0] {
            let y = Tensor::new([1.0f32, -3.0, 0.5]);
            let want: Vec<f32> = [(0.5, 1.0), (-1.0, -3.0), (2.0, 0.5)].map(|(x, y)| blend(x, y, k as f32)).into();
            assert_eq!(list(&blend::on(&x, &y, k)), want);
            let (rows, most) = scaled::on(&x, k);
            assert_eq!(list(&rows), [-1.5 * k as f32, -3.0 * k as f32, 0.0 * k as f32]);
            assert_eq!(list(&most), [2.0]);
            assert_eq!(list(&slope::over([3]).on(&x, k)), [-1.5 * k as f32, 1.5 * k as f32, 3.0 * k as f32]);
            // As many indices as requested.
            assert_eq!(list(&slope::over([2]).on(&x, k)), [-1.5 * k as f32, 1.5 * k as f32]);
        }
        for shift in [0.0, 1.0] {
            for down in [false, true] {
                let of =
                    |f: fn(f32, [f64; 2], bool) -> f32| [0.5, -1.0, 2.0].map(|x| f(x, [shift, 2.0], down)).to_vec();
                assert_eq!(list(&power::on::<2>(&x, [shift, 2.0], down)), of(power::<f32, 2>));
                assert_eq!(list(&power::on::<3>(&x, [shift, 2.0], down)), of(power::<f32, 3>));
            }
        }
    }
}

#[test]
fn one_tensor_for_two_operands_is_no_other_tensor() {
    let (x, y) = (Tensor::new([1.0f32, 2.0]), Tensor::new([5.0f32, -6.0]));
    for _ in 0..3 {
        for (a, b) in [(&x, &x), (&x, &y), (&y, &x), (&y, &y)] {
            let (first, second) = same::on(a, b);
            assert_eq!((list(&first), list(&second)), (list(a), list(b)));
        }
        // With pending operands, too.
        let (p, q) = (&x + 1.0, &y + 1.0);
        let (first, second) = same::on(&p, &q);
        assert_eq!((list(&first), list(&second)), (vec![2.0, 3.0], vec![6.0, -5.0]));
    }
}

#[test]
fn other_shapes_dtypes_and_axes() {
    for round in 0..2 {
        for n in 1..50usize {
            let x = Tensor::arange(n as i64).cast(DType::F32).reshape([1, n]) + round as f64;
            let y = Tensor::full([n, 1], 2.0f32);
            let got = blend::on(&x, &y, 0.5);
            assert_eq!(*got.shape(), Shape::new(&[n, n]));
            let last = (n - 1 + round) as f32;
            assert_eq!(list(&got)[n * n - 1], blend(last, 2.0, 0.5), "{n}");
            let (rows, most) = scaled::along(1, &x, 1.0);
            assert_eq!((list(&rows)[0], list(&most)), (-((n - 1) as f32), vec![last]));
            let (_, most) = scaled::along(0, &x, 1.0);
            assert_eq!(most.dims(), [n]);
        }
        let wide = Tensor::new([1.0f64, 0.25]);
        assert_eq!(blend::on(&wide, &wide, 0.1).to_vec::<f64>().unwrap(), [1.0 - 0.5, 0.125]);
    }
}

#[test]
fn tracked_operands_have_gradients_as_ever() {
    let (x, y) = (Tensor::new([3.0f32, 1.0]), Tensor::new([2.0f32, 4.0]));
    for _ in 0..3 {
        drop(list(&blend::on(&x, &y, 0.25)));
        let leaf = x.tracked();
        let loss = blend::on(&leaf, &y, 0.25).sum(..);
        assert_eq!(list(&loss.backward()[&leaf]), [0.25, -0.5]);
    }
}

#[test]
fn a_loop_of_calls_goes_on_and_makes_no_plan() {
    let _pinned = pinned();
    let (x, w) = (Tensor::full([8, 8], 0.5f32), Tensor::eye(8) * 0.5f64);
    thalweg::synchronize().unwrap();
    let run = |turns: usize| {
        let mut y = x.clone();
        let mut want = 0.5f64;
        for _ in 0..turns {
            y = layer::on(blend::on(&y, &y * 0.5, 0.125), &w);
            want = ((want * 0.125 + want * 0.5) * 0.5).tanh();
        }
        let got = list(&y);
        assert!(got.iter().all(|&g| (f64::from(g) - want).abs() < 1e-6 + 1e-4 * want), "{got:?} {want}");
    };
    // Within one segment, and over many.
    for turns in [7, 1500, 7, 1500, 1500] {
        run(turns);
    }
    let (_, c) = counted(|| run(1500));
    assert_eq!(c.plans_made, 0, "{c:?}");
}

#[test]
fn operands_that_failed_or_are_windows_take_the_long_way() {
    let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0]);
    for _ in 0..3 {
        assert_eq!(list(&scaled::on(&x, 1.0).1), [4.0]);
        let failed = x.gather(0, &Tensor::new([9i64, 0, 0, 0]));
        assert!(scaled::on(&failed, 1.0).1.to_vec::<f32>().is_err());
        assert_eq!(list(&scaled::on(&x + 1.0, 1.0).1), [5.0]);
        let windows = (&x * 2.0).window(0, 2, 1);
        assert_eq!(list(&scaled::on(&windows, 1.0).1), [4.0, 6.0, 8.0]);
    }
    // From another thread's stream.
    let there = std::thread::spawn(|| Tensor::new([1.0f32, 2.0, 3.0, 4.0]) * 3.0).join().unwrap();
    assert_eq!(list(&scaled::on(&there, 1.0).1), [12.0]);
}
