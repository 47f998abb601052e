//! Gradients of collectives are those of the sum of all ranks' losses, computed on one tensor.

use crate::common::{Engine, run};
use thalweg::{Error, Tensor, grad};
use thalweg_dist::{ReduceOp, World};

const SIZE: usize = 3;

fn operand(rank: usize) -> Tensor {
    Tensor::new((0..12).map(|i| ((i * 5 + rank * 3) % 7) as f32 - 3.0).collect::<Vec<_>>()).reshape([6, 2])
}

fn weights(rank: usize, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::new((0..count).map(|i| ((i * 3 + rank) % 5) as f32 - 1.5).collect::<Vec<_>>()).reshape(shape)
}

/// Loss of a rank: a sum of squares, weighted differently on each rank.
fn loss(y: &Tensor, rank: usize) -> Tensor {
    (y.square() * weights(rank, y.dims())).sum(..)
}

/// Compares the gradients of a collective with those of its formula: `plain` returns the results of all ranks.
fn check(name: &str, collective: impl Fn(&World, &Tensor) -> Tensor + Sync, plain: impl Fn(&[Tensor]) -> Vec<Tensor>) {
    let found = run(Engine::Threads, SIZE, |world| {
        let x = operand(world.rank()).tracked();
        let y = collective(&world, &x);
        grad(&loss(&y, world.rank()), &x).to_vec::<f32>()
    });
    let x: Vec<Tensor> = (0..SIZE).map(|rank| operand(rank).tracked()).collect();
    let total = plain(&x).iter().enumerate().map(|(rank, y)| loss(y, rank)).reduce(|a, b| a + b).unwrap();
    let gradients = total.backward();
    for (rank, found) in found.unwrap().into_iter().enumerate() {
        let expected = gradients[&x[rank]].to_vec::<f32>().unwrap();
        let close = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
        assert!(close, "{name} on rank {rank}: {found:?}, not {expected:?}");
    }
}

fn combined(x: &[Tensor], f: impl Fn(Tensor, &Tensor) -> Tensor) -> Tensor {
    x[1..].iter().fold(x[0].clone(), f)
}

#[test]
fn gradients_of_reductions() {
    let repeated = |y: Tensor| vec![y; SIZE];
    check("sum", |w, x| w.all_reduce(x, ReduceOp::Sum), |x| repeated(combined(x, |a, b| a + b)));
    check("mean", |w, x| w.all_reduce(x, ReduceOp::Mean), |x| repeated(combined(x, |a, b| a + b) / SIZE as f64));
    // Operands have zeros.
    check("product", |w, x| w.all_reduce(x, ReduceOp::Product), |x| repeated(combined(x, |a, b| a * b)));
    check("max", |w, x| w.all_reduce(x, ReduceOp::Max), |x| repeated(Tensor::stack(x, 0).amax(0)));
    check("min", |w, x| w.all_reduce(x, ReduceOp::Min), |x| repeated(Tensor::stack(x, 0).amin(0)));
    let parts = |y: Tensor| (0..SIZE).map(|rank| y.narrow(0, 2 * rank, 2)).collect::<Vec<_>>();
    check("scatter", |w, x| w.reduce_scatter(x, ReduceOp::Sum, 0), |x| parts(combined(x, |a, b| a + b)));
    check(
        "scattered mean",
        |w, x| w.reduce_scatter(x, ReduceOp::Mean, 0),
        |x| parts(combined(x, |a, b| a + b) / SIZE as f64),
    );
}

#[test]
fn gradients_of_moves() {
    check("gather 0", |w, x| w.all_gather(x, 0), |x| vec![Tensor::cat(x, 0); SIZE]);
    check("gather 1", |w, x| w.all_gather(x, 1), |x| vec![Tensor::cat(x, 1); SIZE]);
    check("broadcast", |w, x| w.broadcast(x, 1), |x| vec![x[1].clone(); SIZE]);
    check(
        "exchange",
        |w, x| w.all_to_all(x, 0, 1),
        |x| {
            let part = |rank: usize| x.iter().map(|x| x.narrow(0, 2 * rank, 2)).collect::<Vec<_>>();
            (0..SIZE).map(|rank| Tensor::cat(&part(rank), 1)).collect()
        },
    );
    let counts = [[1, 2, 3], [0, 6, 0], [2, 2, 2]];
    let received = |rank: usize| counts.map(|sent| sent[rank]);
    check(
        "ragged",
        |w, x| w.all_to_all_ragged(x, &counts[w.rank()], &received(w.rank())),
        |x| {
            let part = |from: usize, to: usize| {
                let start: usize = counts[from][..to].iter().sum();
                x[from].narrow(0, start, counts[from][to])
            };
            (0..SIZE).map(|to| Tensor::cat(&[part(0, to), part(1, to), part(2, to)], 0)).collect()
        },
    );
}

#[test]
fn gradients_flow_through_several_collectives_and_layers() {
    check(
        "several",
        |w, x| {
            let mean = w.all_reduce(&x.tanh(), ReduceOp::Mean);
            w.all_gather(&(mean * x).exp(), 1)
        },
        |x| {
            let mean = combined(&x.iter().map(Tensor::tanh).collect::<Vec<_>>(), |a, b| a + b) / SIZE as f64;
            let each: Vec<Tensor> = x.iter().map(|x| (&mean * x).exp()).collect();
            vec![Tensor::cat(&each, 1); SIZE]
        },
    );
}

#[test]
fn second_derivatives() {
    let found = run(Engine::Threads, 2, |world| {
        let x = Tensor::new([1.0f32 + world.rank() as f32]).tracked();
        // Both losses are the cube of the sum 3; the gradient of their sum is 6 · 3².
        let loss = world.all_reduce(&x, ReduceOp::Sum).powi(3).sum(..);
        let first = thalweg::grad_graph(&loss, &x);
        let second = grad(&first.sum(..), &x);
        Ok::<_, Error>((first.item::<f32>()?, second.item::<f32>()?))
    });
    // Of the sum of both ranks' first gradients, 2 · 6 · s²: 24 · s.
    assert_eq!(found.unwrap(), [(54.0, 72.0); 2]);
}
