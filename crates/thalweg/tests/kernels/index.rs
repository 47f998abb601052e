//! `#[kernel(index)]`: an element of the result from its index.

use crate::assert_mistake;
use crate::chapter::program::warp;
use crate::counting::{counted, pinned, randn};
use crate::differences::{check, numbers};
use thalweg::kernel::{Edge, Field};
use thalweg::prelude::*;
use thalweg::{with_fusion, with_strict};

/// A step of the heat equation: a five-point stencil.
#[kernel(index)]
fn heat<F: Real>(at: [i32; 2], u: &Field<F, 2>, k: F) -> F {
    let [i, j] = at;
    let around = u.get([i - 1, j], Edge::Clamp)
        + u.get([i + 1, j], Edge::Clamp)
        + u.get([i, j - 1], Edge::Clamp)
        + u.get([i, j + 1], Edge::Clamp);
    u.get([i, j], Edge::Checked) * (1.0 - 4.0 * k) + k * around
}

/// Strided weighted sum of four elements with an edge mode given by the caller.
#[kernel(index)]
fn blur<F: Real>(at: [i32; 2], x: &Field<F, 2>, edge: Edge) -> F {
    let mut sum = 0.0;
    for d in -1..=2 {
        sum += x.get([at[0] * 2 + d, 1 - at[1]], edge) * F::lit(1.0 / (2.0 + d as f64));
    }
    sum
}

/// Reads with permuted axes, along a diagonal, of one row, far out of bounds.
#[kernel(index)]
fn several<F: Real>(at: [i32; 3], x: &Field<F, 2>, w: &Field<F, 1>, edge: Edge) -> (F, F) {
    let [i, j, k] = at;
    let a = x.get([k, i], edge) + x.get([0, j], edge) * 2.0 - x.get([i, i], edge);
    (a * w.get([5 - k], Edge::Wrap), w.get([3 * j - 7], edge) + w.get([j * k], edge) + x.get([-40, j - 2], edge))
}

fn field<const N: usize>(x: &Tensor) -> Field<f64, N> {
    Field::new(&x.to_vec::<f64>().unwrap(), std::array::from_fn(|d| x.dims()[d]))
}

/// Compares a result with the kernel on numbers at every index.
fn assert_places(name: &str, got: &Tensor, want: impl Fn(&[i32]) -> f64) {
    let (shape, got) = (*got.shape(), got.to_vec::<f64>().unwrap());
    for (p, got) in got.into_iter().enumerate() {
        let mut rest = p;
        let mut at: Vec<i32> = shape
            .iter()
            .rev()
            .map(|d| {
                let i = rest % d;
                rest /= d;
                i as i32
            })
            .collect();
        at.reverse();
        let want = want(&at);
        assert!((got - want).abs() < 1e-12, "{name} at {at:?}: {got} {want}");
    }
}

#[test]
fn numbers_and_tensors_agree() {
    let u = numbers(1, [6, 5], -1.0, 1.0);
    let of = field::<2>(&u);
    assert_places("heat", &heat::over([6, 5]).on(&u, 0.1), |at| heat([at[0], at[1]], &of, 0.1));
    for edge in [Edge::Zero, Edge::Clamp, Edge::Wrap] {
        for shape in [[4, 3], [9, 8], [1, 20], [3, 1]] {
            assert_places("blur", &blur::over(shape).on(&u, edge), |at| blur([at[0], at[1]], &of, edge));
        }
    }
    let (dy, dx) = (numbers(2, [7, 1], -3.0, 3.0), numbers(3, [7, 4], -3.0, 3.0));
    let (y, x) = (dy.to_vec::<f64>().unwrap(), dx.to_vec::<f64>().unwrap());
    let on = |at: &[i32]| warp([at[0], at[1]], &of, y[at[0] as usize], x[(at[0] * 4 + at[1]) as usize]);
    assert_places("warp", &warp::over([7, 4]).on(&u, &dy, &dx), on);
    let w = numbers(4, [4], -1.0, 1.0);
    let of_w = field::<1>(&w);
    for edge in [Edge::Zero, Edge::Clamp, Edge::Wrap] {
        let (a, b) = several::over([3, 9, 7]).on(&u, &w, edge);
        assert_places("several", &a, |at| several([at[0], at[1], at[2]], &of, &of_w, edge).0);
        assert_places("several", &b, |at| several([at[0], at[1], at[2]], &of, &of_w, edge).1);
    }
    assert_eq!(blur::over([0, 3]).on(&u, Edge::Wrap).dims(), [0, 3]);
    let empty = Tensor::zeros_with([0, 5], DType::F64);
    assert_eq!(blur::over([2, 2]).on(&empty, Edge::Zero).to_vec::<f64>().unwrap(), [0.0; 4]);
    // Fields may be views of any layout.
    let turned = u.t().slice((.., (..).by(-1)));
    let of = field::<2>(&turned);
    assert_places("heat", &heat::over([5, 6]).on(&turned, 0.1), |at| heat([at[0], at[1]], &of, 0.1));
}

/// A stencil is one kernel that reads its field and writes its result, with the field's producers fused.
#[test]
fn a_stencil_is_one_kernel() {
    let _pinned = pinned();
    let u = randn([64, 128]);
    let bytes = 4 * 64 * 128;
    let (_, c) = counted(|| heat::over(u.shape()).on(&u, 0.1));
    assert_eq!((c.kernels, c.bytes_written), (1, bytes), "{c:?}");
    assert!(c.bytes_read <= bytes * 5 / 4, "what is read again is near: {c:?}");
    let step = || {
        let v = heat::over(u.shape()).on(&(&u * 2.0), 0.1);
        (v + 1.0).tanh()
    };
    let (_, c) = counted(step);
    assert_eq!((c.kernels, c.bytes_written), (1, bytes), "{c:?}");
    // A loop of steps makes no plan after the second iteration, for any numbers.
    let mut v = u.clone();
    for turn in 0..6 {
        let (next, c) = counted(|| heat::over(v.shape()).on(&v, 0.1 + turn as f64 * 0.01));
        v = next;
        assert!(turn < 2 || (c.plans_made, c.programs_compiled, c.kernels) == (0, 0, 1), "{c:?}");
    }
    // A warp reads its image at indices from a table: one kernel.
    let (dy, dx) = (randn([64, 128]), randn([64, 128]));
    let (_, c) = counted(|| warp::over(u.shape()).on(&u, &dy, &dx));
    assert_eq!((c.kernels, c.bytes_written), (1, bytes), "{c:?}");
}

#[test]
fn strict_bits_do_not_depend_on_fusion() {
    let (u, d) = (randn([13, 17]), randn([13, 17]));
    let run = || {
        let v = heat::over([13, 17]).on(&(&u * 0.5), 0.1);
        let y = warp::over([13, 17]).on(&(v + &d), &d, 0.25) * blur::over([13, 17]).on(&u, Edge::Wrap);
        y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    with_strict(true, || assert_eq!(run(), with_fusion(false, run)));
}

#[test]
fn gradients_are_the_inverse_map_or_scattered() {
    let u = numbers(1, [4, 5], -1.0, 1.0);
    check("heat", &[u.clone(), Tensor::new(0.1f64)], &|x| heat::over([4, 5]).on(&x[0], &x[1]).square());
    for edge in [Edge::Zero, Edge::Clamp, Edge::Wrap] {
        check("blur", std::slice::from_ref(&u), &|x| blur::over([3, 7]).on(&x[0], edge).square());
    }
    let dy = numbers(2, [4, 1], 0.2, 0.8);
    check("warp", &[u, dy], &|x| warp::over([4, 5]).on(&x[0], &x[1], 0.3).square());
}

#[test]
fn mistakes_name_the_read() {
    #[kernel(index)]
    fn beyond<F: Real>(at: [i32; 1], x: &Field<F, 1>) -> F {
        x.get([at[0] + 1], Edge::Checked)
    }
    #[kernel(index)]
    fn look_up<F: Real>(at: [i32; 1], x: &Field<F, 1>, n: i32) -> F {
        x.get([n], Edge::Checked) + at[0] as F
    }
    let x = Tensor::new([0.0f32; 4]);
    assert_mistake(
        || drop(beyond::over([4]).on(&x)),
        &["beyond: a read of `x` reaches places 1 to 4 of axis 0 of shape [4]", "`Edge`"],
    );
    assert_eq!(beyond::over([3]).on(&x).dims(), [3]);
    assert_mistake(|| drop(beyond::over([2, 2]).on(&x)), &["beyond: a place has 1 numbers", "[2, 2]"]);
    assert_mistake(|| drop(beyond::over([2]).on(&x.unsqueeze(0))), &["beyond: operand `x` has 1 dimensions", "[1, 4]"]);
    let n = Tensor::new([0i32, 3, -1, 2]);
    let error = look_up::over([4]).on(&x, &n).to_vec::<f32>().unwrap_err();
    assert!(matches!(error, Error::Index(_)), "{error}");
    assert_eq!(look_up::over([4]).on(&x, n.abs()).to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    assert_mistake(
        || drop(look_up::over([3]).on(&x, &n)),
        &["look_up: operand `n` of shape [4] does not broadcast with [3]"],
    );
}
