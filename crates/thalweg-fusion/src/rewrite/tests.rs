//! Rewrites keep values: random products of small integers, which every order computes exactly, by the reference
//! interpreter before and after.

use super::{Move, Rewrite};
use crate::partition::Facts;
use crate::partition::tests::graphs::{Graph, T};
use crate::segment::{BitSet, OwnedSegment};
use crate::{Costs, Effort, Planned, ScalarClasses, instantiate, plan};
use proptest::prelude::*;
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, View};
use thalweg_kernel::reference::{self, Array};

/// Moves for a segment.
fn moves(g: &Graph) -> Vec<Move> {
    Rewrite::of(&g.0.as_segment()).0.to_vec()
}

/// Small integers for each input.
fn inputs(segment: &OwnedSegment) -> Vec<Array> {
    let of = |(n, (dtype, view)): (usize, &(DType, View))| {
        let values = (0..view.shape.numel()).map(|i| ((i * 7 + n * 3) % 5) as i8 - 2);
        let bytes: Vec<u8> = match dtype {
            DType::I8 => values.flat_map(i8::to_le_bytes).collect(),
            _ => values.map(f32::from).flat_map(f32::to_le_bytes).collect(),
        };
        Array::from_bytes(view.shape, *dtype, &bytes)
    };
    segment.inputs.iter().enumerate().map(of).collect()
}

/// First index where two integer arrays differ, with both values; the sign of zero is ignored.
fn differing(a: &Array, b: &Array) -> Option<(usize, f32, f32)> {
    let values = |x: &Array| -> Vec<f32> {
        x.to_bytes().chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().expect("four bytes"))).collect()
    };
    let (a, b) = (values(a), values(b));
    let at = a.iter().zip(&b).position(|(x, y)| x != y).or((a.len() != b.len()).then_some(a.len().min(b.len())))?;
    Some((at, a.get(at).copied().unwrap_or(f32::NAN), b.get(at).copied().unwrap_or(f32::NAN)))
}

/// Asserts that a rewrite keeps the live results of a segment. Returns the multiplications of its products before and
/// after.
#[track_caller]
fn same_values(segment: &OwnedSegment) -> [usize; 2] {
    let own = segment.as_segment();
    let arrays = inputs(segment);
    let run = |s: &crate::Segment<'_>| reference::run(s.ops, s.shapes, s.ints, s.scalars, &arrays).expect("no index");
    let work = |s: &crate::Segment<'_>| {
        let facts = Facts::new(*s);
        let products = facts.needed.iter().filter(|&i| s.ops[i].op == Op::Matmul);
        let terms = |i: usize| facts.ix.tensors(i).next().map_or(0, |(_, v)| facts.ix.shape(v)[1]);
        products.map(|i| s.shapes[i].numel() * terms(i)).sum()
    };
    let before = run(&own);
    let Some(rewritten) = Rewrite::of(&own).apply(&own) else { return [work(&own); 2] };
    let new = rewritten.segment(&own);
    assert_eq!(new.ops.len(), new.shapes.len());
    let after = run(&new);
    for i in own.live.iter() {
        let place = rewritten.place(i);
        assert_eq!(rewritten.original(place), Some(i));
        assert!(new.live.has(place));
        assert_eq!(differing(&before[i], &after[place]), None, "%{i}");
    }
    assert_eq!(new.live.count(), own.live.count());
    [work(&own), work(&new)]
}

#[test]
fn a_chain_is_multiplied_from_its_narrow_end() {
    let mut g = Graph::new();
    let (a, b, v) = (g.input(&[30, 30]), g.input(&[30, 30]), g.input(&[30, 1]));
    let ab = g.matmul(a, b);
    let abv = g.matmul(ab, v);
    g.live(abv);
    assert_eq!(moves(&g), [Move::Right(1)]);
    assert_eq!(same_values(&g.0), [30 * 30 * 31, 2 * 30 * 30]);
    // The product `a·b` is live, so it exists anyway.
    g.live(ab);
    assert_eq!(moves(&g), []);
}

#[test]
fn a_long_chain_takes_the_order_of_fewest_multiplications() {
    // Example of Cormen et al.: 15,125 multiplications, against 40,500 from left to right.
    let dims = [30, 35, 15, 5, 10, 20, 25];
    let mut g = Graph::new();
    let factors: Vec<T> = dims.windows(2).map(|d| g.input(&[d[0], d[1]])).collect();
    let product = factors[1..].iter().fold(factors[0], |a, &b| g.matmul(a, b));
    g.live(product);
    let [before, after] = same_values(&g.0);
    assert_eq!((before, after), (40_500, 15_125));
}

/// A chain of thousands is left unchanged, without deep recursion.
#[test]
fn chains_of_any_length_are_looked_at() {
    for length in [23, 24, 8000] {
        let mut g = Graph::new();
        let (a, v) = (g.input(&[30, 30]), g.input(&[30, 1]));
        let power = (1..length - 1).fold(a, |x, _| g.matmul(x, a));
        let product = g.matmul(power, v);
        g.0.live = BitSet::new(length);
        g.live(product);
        assert_eq!(moves(&g).is_empty(), length > 24, "{length} factors");
    }
}

#[test]
fn what_is_used_twice_or_costs_as_much_stays() {
    let mut g = Graph::new();
    let (a, b, c) = (g.input(&[16, 16]), g.input(&[16, 16]), g.input(&[16, 16]));
    let ab = g.matmul(a, b);
    let abc = g.matmul(ab, c);
    g.live(abc);
    assert_eq!(moves(&g), [], "squares in any order");
    let v = g.input(&[16, 1]);
    let abv = g.matmul(ab, v);
    g.live(abv);
    assert_eq!(moves(&g), [], "two need the product");
}

#[test]
fn strictly_nothing_is_rewritten() {
    let mut g = Graph::new();
    let (a, b, v) = (g.input(&[30, 30]), g.input(&[30, 30]), g.input(&[30, 1]));
    let ab = g.matmul(a, b);
    let abv = g.matmul(ab, v);
    g.live(abv);
    let found = Rewrite::of(&g.0.as_segment());
    g.0.mode.strict = true;
    assert_eq!(moves(&g), []);
    assert!(found.apply(&g.0.as_segment()).is_none());
}

/// Matrix of bytes, converted to floats.
fn bytes(g: &mut Graph, shape: &[usize]) -> T {
    let T::In(n) = g.input(shape) else { panic!("an input") };
    g.0.inputs[n].0 = DType::I8;
    g.cast(T::In(n))
}

#[test]
fn factors_of_rows_and_columns_leave_the_sum() {
    let mut g = Graph::new();
    let (x, w) = (bytes(&mut g, &[8, 6]), bytes(&mut g, &[6, 10]));
    let (r, s) = (g.input(&[8, 1]), g.input(&[1, 10]));
    let rows = g.binary(ElementOp::Mul, x, r);
    let weights = g.binary(ElementOp::Mul, s, w);
    let y = g.matmul(rows, weights);
    g.live(y);
    assert_eq!(moves(&g), [Move::Rows(4), Move::Columns(5)]);
    same_values(&g.0);
    // A live result exists anyway.
    g.live(rows);
    assert_eq!(moves(&g), [Move::Columns(4)]);
}

#[test]
fn factors_of_the_rows_of_a_transposed_matrix_are_its_columns() {
    let mut g = Graph::new();
    let (x, w, s) = (g.input(&[8, 6]), bytes(&mut g, &[10, 6]), g.input(&[10, 1]));
    let weights = g.binary(ElementOp::Mul, s, w);
    let turned = g.transposed(weights);
    let y = g.matmul(x, turned);
    g.live(y);
    assert_eq!(moves(&g), [Move::Columns(3)]);
    same_values(&g.0);
}

/// `x·w` can overflow where `(x/r)·w` does not, which is why users divide.
#[test]
fn floats_keep_their_factors() {
    let mut g = Graph::new();
    let (x, w) = (g.input(&[8, 6]), g.input(&[6, 10]));
    let most = g.reduce(ReduceOp::Max, x, 1);
    let small = g.binary(ElementOp::Div, x, most);
    let y = g.matmul(small, w);
    g.live(y);
    assert_eq!(moves(&g), []);
}

#[test]
fn a_product_whose_transpose_is_computed_with_is_computed_transposed() {
    let mut g = Graph::new();
    let (a, b, c) = (g.input(&[16, 14]), g.input(&[14, 19]), g.input(&[19, 16]));
    let ab = g.matmul(a, b);
    let turned = g.transposed(ab);
    let sum = g.binary(ElementOp::Add, turned, c);
    g.live(sum);
    assert_eq!(moves(&g), [Move::Transpose(1)]);
    same_values(&g.0);
    let kernels = |g: &Graph| plan(g.0.as_segment(), &Costs::typical(), Effort::default()).unwrap().plan.kernel_count();
    assert_eq!(kernels(&g), 1);
    // As an operand only, it is a view of the product.
    let mut g = Graph::new();
    let (a, b) = (g.input(&[16, 14]), g.input(&[14, 19]));
    let ab = g.matmul(a, b);
    let turned = g.transposed(ab);
    g.live(turned);
    assert_eq!(moves(&g), []);
}

#[test]
fn reductions_of_a_few_computed_elements_are_unrolled() {
    let mut g = Graph::new();
    let (a, b) = (g.input(&[300, 4]), g.input(&[300, 4]));
    let difference = g.binary(ElementOp::Sub, a, b);
    let sum = g.reduce(ReduceOp::Sum, difference, 1);
    let twice = g.binary(ElementOp::Add, sum, sum);
    let place = g.reduce(ReduceOp::ArgMax, difference, 1);
    g.live(twice);
    g.live(place);
    assert_eq!(moves(&g), [Move::Unroll(1), Move::Unroll(3)]);
    same_values(&g.0);
    // Neighbours in memory, and long rows, are reduced as rows.
    for (shape, computed) in [([300, 4], false), ([4, 300], true)] {
        let mut g = Graph::new();
        let mut x = g.input(&shape);
        if computed {
            x = g.binary(ElementOp::Sub, x, x);
        }
        let sum = g.reduce(ReduceOp::Sum, x, 1);
        g.live(sum);
        assert_eq!(moves(&g), []);
    }
}

#[test]
fn reductions_of_a_few_rows_are_unrolled() {
    for (shape, axis, unrolled) in
        [(vec![8, 300], 0, true), (vec![9, 300], 0, false), (vec![5, 4, 20], 1, true), (vec![5, 4, 3], 1, false)]
    {
        let mut g = Graph::new();
        let x = g.input(&shape);
        let sum = g.reduce(ReduceOp::Sum, x, axis);
        g.live(sum);
        assert_eq!(moves(&g), if unrolled { vec![Move::Unroll(0)] } else { vec![] }, "{shape:?}");
        same_values(&g.0);
    }
}

#[test]
fn products_of_small_matrices_are_computed_by_terms() {
    let mut g = Graph::new();
    let (a, b, c) = (g.input(&[3, 4]), g.input(&[4, 5]), g.input(&[5, 1]));
    let ab = g.matmul(a, b);
    let abc = g.matmul(ab, c);
    g.live(ab);
    g.live(abc);
    assert_eq!(moves(&g), [Move::Terms(0), Move::Terms(1)]);
    same_values(&g.0);
    // Large matrices, and sums of many terms.
    for [m, k, n] in [[300, 4, 4], [2, 17, 2], [9, 9, 9]] {
        let mut g = Graph::new();
        let (a, b) = (g.input(&[m, k]), g.input(&[k, n]));
        let ab = g.matmul(a, b);
        g.live(ab);
        assert_eq!(moves(&g), []);
    }
}

/// Steps of a random graph of products: a kind, and arguments counted back from the last tensor.
fn choices() -> impl Strategy<Value = Vec<(u8, usize, usize, bool)>> {
    prop::collection::vec((0..10u8, 0..8usize, 0..8usize, prop::bool::weighted(0.1)), 1..9)
}

fn random(choices: &[(u8, usize, usize, bool)]) -> Graph {
    let mut g = Graph::new();
    let mut all: Vec<T> =
        [[4, 4], [4, 1], [1, 4], [4, 2], [2, 4], [4, 4]].iter().map(|s: &[usize; 2]| g.input(s)).collect();
    all.push(bytes(&mut g, &[4, 4]));
    for &(kind, a, b, live) in choices {
        let back = |k: usize| all[all.len() - 1 - k % all.len()];
        let (a, b) = (back(a), back(b));
        let (x, y) = (g.shape(a), g.shape(b));
        let new = match kind {
            0..=4 if x[1] == y[0] => g.matmul(a, b),
            5 if x.broadcast(&y).is_some() => g.binary(ElementOp::Mul, a, b),
            6 => g.transposed(a),
            7 if x.broadcast(&y).is_some() => g.binary(ElementOp::Add, a, b),
            8 => {
                let flat = g.reshaped(a, &[x[0] * x[1], 1]);
                g.reshaped(flat, &[x[0], x[1]])
            }
            9 => g.reduce(ReduceOp::Sum, a, 1),
            _ => continue,
        };
        if live {
            g.live(new);
        }
        all.push(new);
    }
    let last = *all.last().expect("there are inputs");
    g.live(last);
    g
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn random_products_keep_their_values(choices in choices()) {
        let g = random(&choices);
        same_values(&g.0);
    }

    /// A plan includes its segment's rewrite; so do its bytes.
    #[test]
    fn plans_of_rewritten_segments_are_kept(choices in choices()) {
        let g = random(&choices);
        let (segment, costs) = (g.0.as_segment(), Costs::typical());
        let planned = plan(segment, &costs, Effort::default()).unwrap();
        let instance = instantiate(&planned.plan, segment, &ScalarClasses::new(segment.scalars)).expect("it fits");
        let live: Vec<usize> = segment.live.iter().collect();
        prop_assert_eq!(instance.outputs.iter().map(|o| o.op).collect::<Vec<_>>(), live);
        let again = Planned::from_bytes(&planned.to_bytes(), segment, &costs).expect("its own bytes");
        prop_assert_eq!(again.plan, planned.plan);
    }

    /// Arbitrary moves give a segment with the same values, or none.
    #[test]
    fn moves_from_anywhere_are_legal_or_refused(choices in choices(), wild in prop::collection::vec((0..7u8, 0..14u32), 1..6)) {
        let g = random(&choices);
        let segment = g.0.as_segment();
        let moves: Vec<Move> = wild.iter().map(|&(kind, i)| match kind {
            0 => Move::Right(i),
            1 => Move::Left(i),
            2 => Move::Transpose(i),
            3 => Move::Rows(i),
            4 => Move::Columns(i),
            5 => Move::Unroll(i),
            _ => Move::Terms(i),
        }).collect();
        if let Some(rewritten) = Rewrite(moves.into()).apply(&segment) {
            let arrays = inputs(&g.0);
            let new = rewritten.segment(&segment);
            let before = reference::run(segment.ops, segment.shapes, segment.ints, segment.scalars, &arrays).unwrap();
            let after = reference::run(new.ops, new.shapes, new.ints, new.scalars, &arrays).unwrap();
            for i in segment.live.iter() {
                prop_assert_eq!(differing(&before[i], &after[rewritten.place(i)]), None);
            }
        }
    }
}
