//! The autograd graph: leaves, passes, freeing, hooks, and mistakes.

use crate::counting::{counted, counted_alone, pinned};
use crate::differences::numbers;
use crate::mistake::{assert_mistake_at, panic_of};
use thalweg::prelude::*;
use thalweg::{Gradients, checkpoint, grad, grad_graph, hessian, jacobian, jvp, no_grad, retain_graph, vjp};

fn vec(x: &Tensor) -> Vec<f64> {
    x.to_f64_vec().unwrap()
}

fn assert_mistake(f: impl FnOnce(), parts: &[&str]) {
    assert_mistake_at("gradients/graph.rs", f, parts);
}

#[test]
fn leaves_and_constants() {
    let w = Tensor::new([1.0f64, 2.0]).tracked();
    let clone = w.clone();
    let again = w.tracked();
    assert!(w.is_tracked() && !w.detach().is_tracked());
    let gradients = (&clone * &again).sum(..).backward();
    assert_eq!(vec(&gradients[&w]), [2.0, 4.0], "clones are the same leaf");
    assert_eq!((gradients.len(), gradients.contains(&clone)), (1, true));
    let stepped = (&w - &gradients[&w] * 0.5).tracked();
    let second = stepped.square().sum(..).backward();
    assert!(second.get(&w).is_none(), "a new leaf ends the graph");
    assert_eq!(vec(&second[&stepped]), [0.0, 0.0]);
    assert!(!no_grad(|| &w * 2.0).is_tracked());
    assert!(!w.argmax(0).is_tracked());
    assert_eq!(vec(&(w.detach() * &w).sum(..).backward()[&w]), [1.0, 2.0]);
}

#[test]
fn gradients_accumulate_and_change() {
    let (a, b) = (Tensor::new([1.0f64, 2.0]).tracked(), Tensor::new(3.0f64).tracked());
    let mut all = Gradients::default();
    all.add(&(&a * &b).sum(..).backward());
    all.add(&a.square().sum(..).backward());
    assert_eq!((vec(&all[&a]), vec(&all[&b])), (vec![5.0, 7.0], vec![3.0]));
    all.iter_mut().for_each(|g| *g *= 2.0);
    assert_eq!(vec(&all.take(&b).unwrap()), [6.0]);
    assert_eq!((all.len(), all.get(&b).is_none()), (1, true));
    all.set(&b, Tensor::new(1.0f64));
    assert_eq!(all.iter().count(), 2);
    assert_eq!(format!("{all:?}"), "[\"f64[2]\", \"f64[]\"]");
}

#[test]
fn gradients_of_intermediate_tensors_and_of_several() {
    let x = Tensor::new([1.0f64, 2.0]).tracked();
    let h = x.square();
    let y = (&h * &x).sum(..);
    let (dh, dx) = retain_graph(|| grad(&y, (&h, &x)));
    assert_eq!((vec(&dh), vec(&dx)), (vec![1.0, 2.0], vec![3.0, 12.0]));
    let [dx] = retain_graph(|| grad(&y, [&x]));
    let list = grad(&y, &vec![x.clone(), h.clone()]);
    assert_eq!((vec(&dx), vec(&list[0]), vec(&list[1])), (vec![3.0, 12.0], vec![3.0, 12.0], vec![1.0, 2.0]));
}

#[test]
fn a_pass_frees_the_graph() {
    let x = Tensor::new([1.0f64, 2.0]).tracked();
    let y = x.exp().sum(..);
    y.backward();
    assert_mistake(|| drop(y.backward()), &["backward: a backward pass has gone", "retain_graph"]);
    let y = x.exp().sum(..);
    let first = retain_graph(|| y.backward());
    assert_eq!(vec(&first[&x]), vec(&y.backward()[&x]));
}

#[test]
fn second_order_and_products() {
    let x = Tensor::new([0.5f64, -1.5, 2.0]);
    let f = |x: Tensor| (x.square() * x.flip(0)).sum(..);
    // ∂²/∂xᵢ∂xⱼ of x₀²x₂ + x₁³ + x₂²x₀
    let want = [4.0, 0.0, 5.0, 0.0, -9.0, 0.0, 5.0, 0.0, 1.0];
    assert_eq!(vec(&hessian(f, &x)), want);
    let leaf = x.tracked();
    let v = Tensor::new([1.0f64, 0.0, 2.0]);
    let hv = grad(&grad_graph(&f(leaf.clone()), &leaf).dot(&v), &leaf);
    assert_eq!(vec(&hv), [14.0, 0.0, 7.0]);
    let j = jacobian(|x| x.square().narrow(0, 0, 2), &x);
    assert_eq!((j.dims().to_vec(), vec(&j)), (vec![2, 3], vec![1.0, 0.0, 0.0, 0.0, -3.0, 0.0]));
    let (y, dy) =
        jvp(|(x, w)| x.matmul(&w).tanh(), (&x.unsqueeze(0), &x.unsqueeze(1)), (&v.unsqueeze(0), &v.unsqueeze(1)));
    let s = 0.25f64 + 2.25 + 4.0;
    let slope = 1.0 - s.tanh().powi(2);
    assert!((vec(&y)[0] - s.tanh()).abs() < 1e-12 && (vec(&dy)[0] - slope * 2.0 * (0.5 + 4.0)).abs() < 1e-12);
    let (_, pull) = vjp(|[a, b]| a * b, [&x, &v]);
    let [a, b] = pull(&Tensor::ones_with([3], DType::F64));
    assert_eq!((vec(&a), vec(&b)), (vec(&v), vec(&x)));
    assert_eq!(vec(&hessian(|x| x.sum(..), &v)), [0.0; 9], "a line does not bend");
}

#[test]
fn hooks_replace_gradients() {
    let x = Tensor::new([3.0f64, -4.0]).tracked();
    let y = x.on_grad(|g| g * 10.0).square().on_grad(|g| g + 1.0);
    assert_eq!(vec(&y.sum(..).backward()[&x]), [120.0, -160.0]);
    let bad = x.on_grad(|g| g.sum(..)).square().sum(..);
    assert!(panic_of(|| drop(bad.backward())).0.contains("on_grad: a gradient f64[] for a tensor f64[2]"));
    let twice = grad_graph(&x.on_grad(|g| g.square()).powi(2).sum(..), &x);
    assert_eq!(vec(&twice), [36.0, 64.0]);
    // 8x, and the hook of this pass squares that.
    assert_eq!(vec(&grad(&twice.sum(..), &x)), [576.0, 1024.0], "a hook is differentiated, too");
}

#[test]
fn checkpoints_give_the_same_gradients() {
    let (x, w) = (numbers(1, [3, 4], -1.0, 1.0).tracked(), numbers(2, [4, 4], -1.0, 1.0).tracked());
    let early = w.sin();
    let block = |w: &Tensor, early: &Tensor| {
        let (w, early) = (w.clone(), early.clone());
        move |x: Tensor| (x.matmul(&w).tanh() * 2.0 + early.sum(0)).dropout(0.3)
    };
    let run = |kept: bool| {
        thalweg::manual_seed(5);
        let mut y = &x * 1.5;
        for _ in 0..3 {
            y = if kept { checkpoint(block(&w, &early), &y) } else { block(&w, &early)(y) };
        }
        let after = Tensor::rand([2]);
        (y.square().sum(..), after)
    };
    let ((plain, r1), (kept, r2)) = (run(false), run(true));
    assert_eq!((vec(&plain), vec(&r1)), (vec(&kept), vec(&r2)));
    let (a, b) = (retain_graph(|| plain.backward()), retain_graph(|| kept.backward()));
    for leaf in [&x, &w] {
        let (a, b) = (vec(&a[leaf]), vec(&b[leaf]));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} {b:?}");
    }
    // And the second derivatives.
    let second = |y: &Tensor| {
        let (gx, gw) = grad_graph(y, (&x, &w));
        let (hx, hw) = retain_graph(|| grad(&(gx.square().sum(..) + gw.square().sum(..)), (&x, &w)));
        [vec(&hx), vec(&hw)].concat()
    };
    let (a, b) = (second(&plain), second(&kept));
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-9 * a.abs().max(1.0)), "{a:?} {b:?}");
    // One tensor twice, and one that needs none.
    let pair =
        checkpoint(|[a, b, i]: [Tensor; 3]| a * b.gather(0, &i), [&w, &w, &Tensor::zeros_with([4, 4], DType::I64)]);
    let want = &w * w.narrow(0, 0, 1);
    assert_eq!(vec(&grad(&pair.sum(..), &w)), vec(&grad(&want.sum(..), &w)));
    assert!(!checkpoint(|x| x * 2.0, &x.detach()).is_tracked());
}

#[test]
fn long_chains_neither_overflow_nor_leak() {
    let device = crate::counting::pinned();
    let before = Device::default().memory().in_use;
    let x = Tensor::new([1.0f64]).tracked();
    // Dropped without a pass.
    let mut y = x.clone();
    for _ in 0..100_000 {
        y *= 1.00001;
    }
    assert!(y.is_tracked());
    drop(y);
    // A pass through all of it.
    let mut y = x.clone();
    for _ in 0..100_000 {
        y *= 1.00001;
    }
    let gradient = y.backward()[&x].item::<f64>().unwrap();
    assert!((gradient - 1.00001f64.powi(100_000)).abs() < 1e-9 * gradient);
    drop((x, y));
    thalweg::synchronize().unwrap();
    let left = Device::default().memory().in_use - before;
    assert!(left < 1 << 16, "{left} bytes are left");
    drop(device);
}

#[test]
fn graphs_cross_threads() {
    let x = Tensor::new([1.0f64, 2.0]).tracked();
    let y = std::thread::scope(|s| s.spawn(|| x.square()).join().unwrap());
    let z = (y * 3.0).sum(..);
    let gradients = std::thread::spawn(move || z.backward()).join().unwrap();
    assert_eq!(vec(&gradients[&x]), [6.0, 12.0]);
}

/// Gradients by tracked tensors that the result does not depend on are 0, of every order.
#[test]
fn a_gradient_of_what_is_not_in_the_result_is_zero() {
    let x = Tensor::new([1.5f64, f64::NAN]).tracked();
    let y = Tensor::new([2.0f64]).tracked();
    let gradients = y.exp().sum(..).backward();
    assert!(gradients.get(&x).is_none() && !gradients.contains(&x));
    assert_eq!(gradients[&x].to_f64_vec().unwrap(), [0.0, 0.0]);
    assert_eq!(gradients[&x].dims(), [2]);
    let (dx, dy) = grad(&y.exp().sum(..), (&x, &y));
    assert_eq!((dx.to_f64_vec().unwrap(), dy.numel()), (vec![0.0, 0.0], 1));
    // A function that does not depend on its argument is no mistake.
    assert_eq!(x.powf(0.0).sum(..).backward()[&x].to_f64_vec().unwrap(), [0.0, 0.0]);
    let m = Tensor::new([[1.0f64, 2.0], [3.0, 4.0]]).tracked();
    assert_eq!(m.matrix_power(0).sum(..).backward()[&m].to_f64_vec().unwrap(), [0.0; 4]);
    // The second derivative of a linear function.
    let slope = grad_graph(&(&m * 3.0).sum(..), &m);
    assert_eq!(grad(&(slope.sum(..) + m.sum(..) * 0.0), &m).to_f64_vec().unwrap(), [0.0; 4]);
}

#[test]
fn mistakes_name_the_remedy_at_the_callers_line() {
    let x = Tensor::new([1.5f64, 2.5]).tracked();
    let plain = Tensor::new([1.0f64, 2.0]);
    assert_mistake(|| drop(x.exp().backward()), &["backward: takes one element, not shape [2]", ".backward_with(&dy)"]);
    assert_mistake(|| drop(plain.sum(..).backward()), &["nothing that this tensor", ".tracked()"]);
    assert_mistake(|| drop(x.detach().sum(..).backward()), &["detach()"]);
    assert_mistake(|| drop(Tensor::new([1i32]).tracked()), &["tracked: takes a float dtype, not i32"]);
    assert_mistake(|| drop(x.round().sum(..).backward()), &["`round` at", "gradients/graph.rs", "straight-through"]);
    assert_mistake(|| drop(x.argmax(0).cast(DType::F64).backward()), &["`argmax` at"]);
    assert_mistake(|| drop(x.gt(2.0).where_(plain.full_like(1.0), 0.0).sum(..).backward()), &["`gt` at"]);
    assert_mistake(|| drop(x.cast(DType::I32).cast(DType::F64).sum(..).backward()), &["`cast` at"]);
    let two = Tensor::new([1.0f64, 1.0]).tracked();
    assert_mistake(
        || drop((x.round() * &two).sum(..).backward()[&x].clone()),
        &["does not depend on it", "`round` at"],
    );
    assert_mistake(|| drop(two.sum(..).backward()[&plain].clone()), &["it is not tracked"]);
    let h = two.exp();
    assert_mistake(|| drop(h.sum(..).backward()[&h].clone()), &["the result of `exp`", "grad(&loss, &tensor)"]);
    let rounded = x.round() * &two;
    assert_mistake(
        || drop(grad(&rounded.sum(..), &x)),
        &["grad: the result does not depend on input 0 of shape [2]", "`round` at"],
    );
    assert_mistake(|| drop(grad(&two.sum(..), (&two, &plain))), &["grad: input 1 of shape [2] is not tracked"]);
    assert_mistake(|| drop(x.exp().backward_with(&Tensor::new(1.0f64))), &["a gradient f64[] for a tensor f64[2]"]);
    assert_mistake(|| drop(Gradients::default().set(&plain, plain.clone())), &["set: the tensor of shape [2] is no"]);
    assert_mistake(|| drop(jvp(|x| x.exp(), &plain, &Tensor::new(1.0f64))), &["jvp: a gradient f64[]"]);
}

#[test]
fn a_step_function_beside_a_path_counts_for_nothing() {
    let x = Tensor::new([1.5f64, 2.25]).tracked();
    assert_eq!(vec(&x.fract().sum(..).backward()[&x]), [1.0, 1.0]);
    let straight = &x + (x.round() - &x).detach();
    assert_eq!(vec(&straight.square().sum(..).backward()[&x]), [4.0, 4.0]);
}

#[test]
fn a_network_and_its_gradients_are_one_segment_and_a_second_step_plans_nothing() {
    let _pinned = pinned();
    let data = (Tensor::randn([32, 16]), Tensor::randint(0..4, [32]));
    let mut layers: Vec<Tensor> = [[16, 24], [24, 24], [24, 4]].iter().map(|&s| Tensor::randn(s) * 0.2).collect();
    thalweg::synchronize().unwrap();
    let mut step = || {
        let leaves: Vec<Tensor> = layers.iter().map(Tensor::tracked).collect();
        let h = data.0.matmul(&leaves[0]).relu().matmul(&leaves[1]).relu().matmul(&leaves[2]);
        let loss = h.cross_entropy(&data.1, Reduction::Mean);
        let gradients = loss.backward();
        layers = leaves.iter().map(|w| w.detach() - &gradients[w] * 0.1).collect();
        thalweg::synchronize().unwrap();
        loss.item::<f32>().unwrap()
    };
    let (first, c) = counted_alone(&mut step);
    assert_eq!((c.segments, c.plans_made), (1, 1), "{c:?}");
    step();
    let (last, c) = counted_alone(&mut step);
    assert_eq!((c.segments, c.plans_made), (1, 0), "{c:?}");
    assert!(last < first);
    println!("{c:?}");
}

/// Gradients of several tensors that are sums of ranges: a pass that recorded these in another order each time would be
/// another segment each time.
#[test]
fn passes_over_equal_graphs_record_equal_operations() {
    let _pinned = pinned();
    let leaves: Vec<Tensor> = (0..5).map(|_| Tensor::randn([6, 15]).tracked()).collect();
    let pass = || {
        let parts = leaves.iter().map(|q| q.split_sizes(&[7, 8], -1));
        let y = parts.fold(Tensor::full((), 0.0), |y, p| y + p[0].tanh().sum(..) * p[1].sigmoid().mean(..));
        let all: Vec<Tensor> = thalweg::grad(&y, &leaves);
        all.iter().map(|g| g.sum(..).item::<f32>().unwrap()).sum::<f32>()
    };
    // Other results are live in the first passes, until it is known which are never read.
    for _ in 0..3 {
        pass();
    }
    let first = pass();
    let (again, c) = counted(|| (0..8).map(|_| pass()).collect::<Vec<_>>());
    assert!(again.iter().all(|&g| g == first), "{again:?}, {first}");
    assert_eq!(c.plans_made, 0);
}
