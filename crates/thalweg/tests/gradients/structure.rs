//! Every operation that is not elementwise.

use crate::differences::{check, numbers};
use thalweg::prelude::*;

fn x(shape: impl Into<thalweg::Shape>) -> Tensor {
    numbers(5, shape, -1.0, 1.0)
}

fn check1(name: &str, x: &Tensor, f: impl Fn(&Tensor) -> Tensor) {
    check(name, std::slice::from_ref(x), &|x| f(&x[0]));
}

/// Squares a tensor, so that second derivatives of data movement are not 0.
fn sq(x: Tensor) -> Tensor {
    x.square()
}

#[test]
fn views() {
    let t = x([2, 3, 4]);
    check1("reshape", &t, |x| sq(x.reshape([4, 6])));
    check1("permute", &t, |x| sq(x.permute([2, 0, 1])));
    check1("transpose", &t, |x| sq(x.transpose(0, 1)));
    check1("broadcast", &x([3, 1]), |x| sq(x.broadcast_to([2, 3, 4])));
    check1("narrow", &t, |x| sq(x.narrow(1, 1, 2)));
    check1("steps", &x([7, 5]), |x| sq(x.slice(((1..).by(2), (..).by(3)))));
    check1("backward steps", &x([7, 5]), |x| sq(x.slice(((..).by(-2), (3..).by(-1)))));
    check1("nothing", &x([4]), |x| sq(x.narrow(0, 2, 0).sum(..) + x.narrow(0, 0, 1)));
    check1("flip", &t, |x| sq(x.flip([0, 2])));
    check1("index_axis", &t, |x| sq(x.index_axis(1, -1)));
    check1("diagonal", &x([3, 4]), |x| sq(x.diagonal(1)));
    check1("squeeze, unsqueeze", &x([3, 1]), |x| sq(x.squeeze(1).unsqueeze(0)));
}

#[test]
fn joins_and_borders() {
    let two = [x([2, 3]), numbers(6, [2, 2], -1.0, 1.0)];
    check("cat", &two, &|x| sq(Tensor::cat(&[&x[0], &x[1], &x[0]], 1)));
    let same = [x([2, 3]), numbers(6, [2, 3], -1.0, 1.0)];
    check("stack", &same, &|x| sq(Tensor::stack(&[&x[0], &x[1]], 1)));
    check1("pad", &x([2, 3]), |x| sq(x.pad([(1, 0), (2, 1)], 0.5)));
    for border in [Border::Edge, Border::Reflect, Border::Wrap] {
        check1("pad by border", &x([4]), |x| sq(x.pad([(2, 1)], border)));
    }
    check1("roll", &x([5]), |x| sq(x.roll(2, 0)));
    check1("repeat, tile", &x([2, 2]), |x| sq(x.repeat(2, 0) + x.tile([2, 1])));
    check1("split", &x([5, 2]), |x| {
        let parts = x.split(2, 0);
        sq(&parts[0] * &parts[1]).sum(..) + parts[2].sum(..)
    });
    // Gradients of ranges of an axis are concatenated if disjoint, and added if they overlap.
    check1("neighbours", &x([2, 9]), |x| {
        let parts = x.split_sizes(&[4, 2, 3], 1);
        sq(parts[2].clone()).sum(..) + (&parts[1] * parts[0].slice((.., 1..3))).exp().sum(..)
    });
    check1("a gap", &x([9, 2]), |x| sq(x.slice(1..3)).sum(..) + x.slice(6..8).exp().sum(..) * x.sum(..));
    check1("stretches that meet", &x([7]), |x| sq(x.slice(..-2)).sum(..) + (x.slice(1..6) * x.slice(2..)).sum(..));
    check1("two axes", &x([3, 4]), |x| (x.slice((1.., ..)).sum(0) * x.slice((.., 2)).sum(0)).exp());
    check1("long windows", &x([120]), |x| sq(x.window(0, 100, 1)));
    check1("none of it", &x([3, 4]), |x| sq(x.slice(2..2)).sum(..) + sq(x.slice(1..)).sum(..));
    check1("unbind", &x([3, 2]), |x| x.unbind(0).into_iter().reduce(|a, b| a * b + 0.5).unwrap());
    check1("tril", &x([3, 3]), |x| sq(x.tril(0)));
}

#[test]
fn parts_that_are_replaced() {
    let two = [x([4, 5]), numbers(6, [2, 3], -1.0, 1.0)];
    check("slice_scatter", &two, &|x| sq(x[0].slice_scatter((1..3, 1..4), &x[1])));
    check("with steps", &two, &|x| sq(x[0].slice_scatter(((..).by(-3), (..).by(2)), &x[1])));
    check("broadcast", &[x([4, 5]), x([5])], &|x| sq(x[0].slice_scatter((.., ..), &x[1]) * &x[0]));
    check1("added to", &x([4, 5]), |x| {
        let mut y = x.clone();
        *y.slice_mut((1.., ..-1)) *= x.slice((..-1, 1..));
        sq(y)
    });
}

#[test]
fn windows() {
    for (size, step) in [(3, 1), (2, 2), (2, 3), (4, 3), (5, 1), (6, 1), (7, 1), (9, 2), (1, 1), (1, 4)] {
        check1(&format!("window {size} by {step}"), &x([2, 11, 2]), |x| sq(x.window(1, size, step)));
        check1(&format!("window {size} by {step} of the last axis"), &x([2, 11]), |x| sq(x.window(-1, size, step)));
    }
}

#[test]
fn reductions() {
    let t = x([2, 3, 2]);
    check1("sum", &t, |x| sq(x.sum(1)));
    check1("sum of all", &t, |x| sq(x.sum(..)));
    check1("sum_keepdim", &t, |x| sq(x.sum_keepdim([0, 2])));
    check1("mean", &t, |x| sq(x.mean([0, -1])));
    check1("prod", &t, |x| sq(x.prod(1)));
    check1("prod of two axes", &t, |x| x.prod([0, 2]));
    check1("prod_keepdim of all", &t, |x| x.prod_keepdim(..));
    check1("amax", &t, |x| sq(x.amax(1)));
    check1("amin of all", &t, |x| sq(x.amin(..)));
    check1("var", &t, |x| x.var(1));
    check1("std", &t, |x| x.std([0, 1]));
    check1("norm", &t, |x| x.norm(1));
    check1("norm_p", &t, |x| x.abs().norm_p(3.0, 1));
    check1("logsumexp", &t, |x| x.logsumexp([1, 2]));
    check1("logsumexp_keepdim", &t, |x| x.logsumexp_keepdim(0));
}

#[test]
fn a_product_with_zeros() {
    for zeros in [vec![], vec![1], vec![0, 2], vec![0, 1, 2]] {
        let mut list = vec![0.7, -1.3, 0.4, 1.9];
        zeros.iter().for_each(|&z| list[z] = 0.0);
        let t = Tensor::new(list);
        check1(&format!("prod with zeros at {zeros:?}"), &t, |x| x.prod(0));
        check1(&format!("cumprod with zeros at {zeros:?}"), &t, |x| x.cumprod(0));
    }
}

#[test]
fn ties_share() {
    let x = Tensor::new([1.0f64, 3.0, 3.0, 2.0]).tracked();
    assert_eq!(x.amax(0).backward()[&x].to_vec::<f64>().unwrap(), [0.0, 0.5, 0.5, 0.0]);
    let x = Tensor::new([1.0f64, f64::NAN]).tracked();
    assert!(x.amax(0).backward()[&x].to_vec::<f64>().unwrap().iter().all(|v| v.is_nan()));
}

#[test]
fn scans() {
    let t = x([2, 6]);
    for reverse in [false, true] {
        let run = |name: &str, f: fn(&Tensor, bool) -> Tensor| check1(name, &t, |x| sq(f(x, reverse)));
        run("cumsum", |x, r| if r { x.cumsum_reverse(1) } else { x.cumsum(1) });
        run("cumprod", |x, r| if r { x.cumprod_reverse(1) } else { x.cumprod(1) });
        run("cummax", |x, r| if r { x.cummax_reverse(1) } else { x.cummax(1) });
        run("cummin", |x, r| if r { x.cummin_reverse(1) } else { x.cummin(1) });
        run("logcumsumexp", |x, r| if r { x.logcumsumexp_reverse(1) } else { x.logcumsumexp(1) });
        run("sort", |x, r| x.sort(1, r));
    }
    check1("scan of the first axis", &x([5, 2]), |x| sq(x.cumsum(0).cumprod(0)));
    let far = Tensor::new([-1000.0f64, f64::NEG_INFINITY, 3.0, 900.0, -5.0]).tracked();
    let g = far.logcumsumexp(0).sum(..).backward()[&far].to_vec::<f64>().unwrap();
    assert_eq!(g, [2.0, 0.0, 1.0, 2.0, 0.0], "far apart");
    let none = Tensor::new([f64::NEG_INFINITY, f64::NEG_INFINITY, 1.0]).tracked();
    assert!(
        none.logcumsumexp(0).backward_with(&Tensor::new([0.0f64, 0.0, 1.0]))[&none].to_vec::<f64>().unwrap()[2] == 1.0
    );
    let equal = Tensor::new([2.0f64, 1.0, 2.0, 0.0]).tracked();
    let g = equal.cummax(0).sum(..).backward()[&equal].to_vec::<f64>().unwrap();
    assert_eq!(g, [2.0, 0.0, 2.0, 0.0], "of equal ones the last so far");
}

#[test]
fn sorts_and_selections() {
    let t = x([3, 5]);
    check1("topk", &t, |x| sq(x.topk(2, 1, true).0));
    check1("topk of many", &x([2, 64]), |x| sq(x.topk(3, 1, false).0));
    check1("sort_with_indices", &t, |x| sq(x.sort_with_indices(0, true).0));
    let index = Tensor::new([[1i64, 0, 1], [2, 2, 0]]);
    check1("gather", &x([3, 3]), |x| sq(x.gather(0, &index)));
    check1("gather of one", &t, |x| sq(x.gather(1, &Tensor::new([[1i64], [0], [-1]]))));
    check1("index_select", &t, |x| sq(x.index_select(1, &Tensor::new([4i32, 0, 0]))));
    check1("embedding", &x([4, 3]), |x| sq(x.embedding(&Tensor::new([[1i64, 3], [1, 0]]))));
    check1("index", &t, |x| sq(x.index(&[Tensor::new([0i64, 2]), Tensor::new([1i64, 1])])));
    check1("take", &t, |x| sq(x.take(&Tensor::new([3i64, 14]))));
    check1("masked_select", &t, |x| {
        let mask = x.detach().gt(0.0);
        sq(x.masked_select(&mask).unwrap()).sum(..)
    });
}

#[test]
fn scatters() {
    let index = Tensor::new([[0i64, 2], [2, 2], [0, 1]]);
    let both = [numbers(5, [4, 2], 0.2, 1.0), numbers(6, [3, 2], 0.2, 1.0)];
    check("scatter", &both, &|x| sq(x[0].scatter(0, &index, &x[1])));
    check("scatter_add", &both, &|x| sq(x[0].scatter_add(0, &index, &x[1])));
    for op in [thalweg::ScatterOp::Prod, thalweg::ScatterOp::Max, thalweg::ScatterOp::Min] {
        check(op.name(), &both, &|x| sq(x[0].scatter_reduce(0, &index, &x[1], op)));
    }
    let mut zeros = both[1].to_vec::<f64>().unwrap();
    (zeros[1], zeros[0], zeros[4]) = (0.0, 0.0, 0.0);
    let zeros = [both[0].clone(), Tensor::from_slice(&zeros, [3, 2])];
    check("scatter_prod with zeros", &zeros, &|x| x[0].scatter_reduce(0, &index, &x[1], thalweg::ScatterOp::Prod));
    check("index_add", &both, &|x| sq(x[0].index_add(0, &Tensor::new([1i64, 1, 3]), &x[1])));
    check("index_copy", &both, &|x| sq(x[0].index_copy(0, &Tensor::new([1i64, 1, 3]), &x[1])));
    check("index_put", &both, &|x| {
        let at = [Tensor::new([0i64, 0, 3]), Tensor::new([1i64, 1, 0])];
        let values = x[1].narrow(1, 0, 1).squeeze(1);
        sq(x[0].index_put(&at, &values, true)) + sq(x[0].index_put(&at, values, false))
    });
}

#[test]
fn products() {
    let cases: [(&[usize], &[usize]); 10] = [
        (&[2, 3], &[3, 4]),
        (&[3], &[3]),
        (&[3], &[3, 2]),
        (&[2, 3], &[3]),
        (&[2, 2, 3], &[2, 3, 2]),
        (&[2, 2, 3], &[3, 2]),
        (&[2, 3], &[2, 3, 2]),
        (&[2, 1, 2, 3], &[3, 3, 2]),
        (&[1, 2, 3], &[2, 3, 2]),
        (&[3, 2, 2, 3], &[2, 3, 1]),
    ];
    for (a, b) in cases {
        let both = [x(a), numbers(6, b, -1.0, 1.0)];
        check(&format!("matmul {a:?} {b:?}"), &both, &|x| sq(x[0].matmul(&x[1])));
    }
    let three = [x([2, 3]), numbers(6, [4, 3], -1.0, 1.0), numbers(7, [4], -1.0, 1.0)];
    check("linear", &three, &|x| sq(x[0].linear(&x[1], Some(&x[2]))));
    let both = [x([2, 3, 2]), numbers(6, [2, 2, 3], -1.0, 1.0)];
    check("einsum", &both, &|x| sq(Tensor::einsum("bij,bjk->bk", &[&x[0], &x[1]])));
    check("einsum, a trace", &[x([3, 3])], &|x| sq(Tensor::einsum("ii->", &[&x[0]])));
    check("tensordot", &both, &|x| sq(x[0].tensordot(&x[1], ([2], [1]))));
}

#[test]
fn casts() {
    let x = numbers(5, [6], -2.0, 2.0).cast(DType::F32).tracked();
    let y = x.cast(DType::F64).square().cast(DType::F32).sum(..);
    let g = y.backward()[&x].clone();
    assert_eq!(g.dtype(), DType::F32);
    assert_eq!(g.to_vec::<f32>().unwrap(), (x.detach() * 2.0).to_vec::<f32>().unwrap());
}

#[test]
fn second_gradients_of_windows_take_memory_as_windows_do() {
    let before = thalweg::counters().bytes_allocated;
    let x = x([600]).tracked();
    let first = thalweg::grad_graph(&sq(x.window(0, 500, 1)).sum(..), std::slice::from_ref(&x));
    let second = first[0].square().sum(..).backward();
    assert!(second[&x].to_vec::<f64>().unwrap().iter().all(|v| v.is_finite()));
    // 101 windows of 500 elements take 404 KB; 500 to the fourth power would be 500 GB.
    let taken = thalweg::counters().bytes_allocated - before;
    assert!(taken < 100 << 20, "{taken} bytes");
}
