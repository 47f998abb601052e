//! Plans for a device with tile contractions: operands of products, and kernels that would compile slowly.

use super::graphs::{Graph, T};
use crate::cost::Costs;
use crate::partition::{Effort, Planned, plan};
use crate::tunable::TUNABLES;
use thalweg_ir::{ElementOp, ReduceOp};
use thalweg_kernel::Contracts;

/// Plan with the constants of an H200.
fn planned(g: &mut Graph) -> Planned {
    g.0.mode.contracts = Contracts::Tiles;
    let costs = Costs::of_throughput(4224.0, (8448.0, 60 << 20), 18_959.0, 2_000.0);
    plan(g.0.as_segment(), &costs, Effort::default()).unwrap()
}

/// Operations that each kernel of a plan stores; members of groups separately.
fn stores(planned: &Planned) -> Vec<Vec<usize>> {
    let parts = planned.plan.kernels.iter().flat_map(|k| k.parts());
    parts.map(|part| part.writes().collect()).collect()
}

#[test]
fn what_a_product_takes_is_written_by_the_kernel_that_folds_its_rows() {
    let mut g = Graph::new();
    let (mut x, mut norms) = (g.input(&[4096, 1024]), vec![]);
    for _ in 0..8 {
        let most = g.reduce(ReduceOp::Max, x, 1);
        let most = g.reshaped(most, &[4096, 1]);
        let norm = g.binary(ElementOp::Div, x, most);
        let T::Op(number) = norm else { panic!("it is computed") };
        norms.push(vec![number]);
        let w = g.input(&[1024, 1024]);
        x = g.matmul(norm, w);
    }
    g.live(x);
    let stores = stores(&planned(&mut g));
    assert!(norms.iter().all(|n| stores.contains(n)), "{stores:?}");
    assert_eq!(stores.len(), 16, "{stores:?}");
}

#[test]
fn a_weight_that_is_made_for_two_products_is_made_once() {
    let mut g = Graph::new();
    let (x, y, w) = (g.input(&[4096, 1024]), g.input(&[4096, 1024]), g.input(&[1024, 1024]));
    let made = g.unary(ElementOp::Exp, w);
    for (left, turned) in [(x, false), (y, true)] {
        let right = if turned { g.transposed(made) } else { made };
        let out = g.matmul(left, right);
        g.live(out);
    }
    assert_eq!(stores(&planned(&mut g)).len(), 3);
}

#[test]
fn many_folds_of_one_tensor_are_several_kernels() {
    let mut g = Graph::new();
    let x = g.input(&[4096, 1024]);
    for by in 0..3 * TUNABLES.max_fold_stores.get() {
        let scaled = g.scaled(x, by as f64 + 0.5);
        let exp = g.unary(ElementOp::Exp, scaled);
        let sum = g.reduce(ReduceOp::Sum, exp, 0);
        g.live(sum);
    }
    let stores = stores(&planned(&mut g));
    assert!(stores.iter().all(|s| s.len() <= TUNABLES.max_fold_stores.get()), "{stores:?}");
    assert!(stores.len() < TUNABLES.max_fold_stores.get(), "those that fit share a pass: {}", stores.len());
}

#[test]
fn what_a_factor_is_joined_of_is_written_once_where_nothing_is_searched_for() {
    let mut g = Graph::new();
    g.0.mode.contracts = Contracts::Rows;
    let (x, y, w) = (g.input(&[128, 64]), g.input(&[64, 64]), g.input(&[64, 32]));
    let parts = [x, y].map(|part| g.unary(ElementOp::Exp, part));
    let joined = g.cat(parts[0], parts[1]);
    let T::Op(number) = joined else { panic!("it is computed") };
    // The operand of two products is a view of it.
    let products = [(joined, w), (g.transposed(joined), g.input(&[192, 8]))].map(|(a, b)| g.matmul(a, b));
    products.into_iter().for_each(|p| {
        g.live(p);
    });
    let planned = plan(g.0.as_segment(), &Costs::typical(), Effort::None).unwrap();
    let stores = stores(&planned);
    assert!(stores.contains(&vec![number]), "{stores:?}");
    assert_eq!(stores.len(), 3, "what is joined is computed in its kernel: {stores:?}");
}

/// Softmax along the rows of a tensor.
fn softmax(g: &mut Graph, scores: T) -> T {
    let most = g.reduce(ReduceOp::Max, scores, 1);
    let below = g.binary(ElementOp::Sub, scores, most);
    let exp = g.unary(ElementOp::Exp, below);
    let sum = g.reduce(ReduceOp::Sum, exp, 1);
    g.binary(ElementOp::Div, exp, sum)
}

/// Fuzzer program 1735014702, which panicked: the second product takes the first, whose turn was next, into its kernel.
/// Their order follows from their shapes and operands.
#[test]
fn a_product_whose_weights_are_another_product_of_weights_is_planned() {
    for (rows, terms) in [(7, 2), (128, 64), (4096, 128)] {
        for (activated, turned) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut g = Graph::new();
            g.0.mode.tf32 = true;
            let (scores, mut keys, mut values) = (g.input(&[rows, terms]), g.input(&[terms, 64]), g.input(&[64, 16]));
            if activated {
                keys = g.unary(ElementOp::Sigmoid, keys);
            }
            if turned {
                values = g.flipped(values, 0);
            }
            let weights = softmax(&mut g, scores);
            let inner = g.matmul(weights, keys);
            let weights = softmax(&mut g, inner);
            let outer = g.matmul(weights, values);
            g.live(outer);
            let (T::Op(inner), T::Op(outer)) = (inner, outer) else { panic!("they are computed") };
            let stores = stores(&planned(&mut g));
            assert!(stores.iter().flatten().any(|&s| s == outer), "{stores:?}");
            assert!(stores.iter().flatten().all(|&s| s != inner), "it is inside: {stores:?}");
        }
    }
}
