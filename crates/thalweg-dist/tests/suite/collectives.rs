//! Every collective, over each engine, compared with a computation on plain arrays.

use crate::common::{ENGINES, Engine, Plain, run};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use thalweg::{DType, Tensor, bf16, f16};
use thalweg_dist::{ReduceOp, World};

fn takes(op: ReduceOp, dtype: DType) -> bool {
    match op {
        ReduceOp::Mean => dtype.is_float(),
        ReduceOp::Max | ReduceOp::Min => true,
        ReduceOp::Sum | ReduceOp::Product => dtype != DType::Bool,
    }
}

const OPS: [ReduceOp; 5] = [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product];

/// A world and the operands in it.
#[derive(Clone, Debug)]
struct Case {
    size: usize,
    dtype: DType,
    dims: Vec<usize>,
    layout: usize,
    axis: usize,
    concat: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let dims = proptest::collection::vec(0usize..4, 1..4);
    (1usize..6, 0..DType::ALL.len(), dims, 0usize..4, 0usize..3, 0usize..3, any::<u64>()).prop_map(
        |(size, dtype, dims, layout, axis, concat, seed)| {
            let (axis, concat) = (axis % dims.len(), concat % dims.len());
            Case { size, dtype: DType::ALL[dtype], dims, layout, axis, concat, seed }
        },
    )
}

impl Case {
    /// Operands of all ranks, with an axis as often as there are ranks where `divided`.
    fn operands(&self, divided: bool) -> Vec<Plain> {
        let mut dims = self.dims.clone();
        if divided {
            dims[self.axis] *= self.size;
        }
        (0..self.size as u64).map(|rank| Plain::random(&dims, self.dtype, self.seed ^ (rank << 32))).collect()
    }

    /// Part of a rank along the axis.
    fn part(&self, of: &Plain, rank: usize) -> Plain {
        let own = of.dims[self.axis] / self.size;
        of.narrow(self.axis, rank * own, (rank + 1) * own)
    }
}

/// Names, results and expected results of all collectives on a rank; all are recorded before any is read.
fn results(world: &World, case: &Case) -> Vec<(String, Tensor, Plain)> {
    let Case { size, dtype, axis, concat, layout, .. } = *case;
    let rank = world.rank();
    let (whole, divided) = (case.operands(false), case.operands(true));
    let [x, y] = [&whole, &divided].map(|all| all[rank].laid_out(dtype, layout));
    let mut results = vec![];
    for op in OPS.into_iter().filter(|&op| takes(op, dtype)) {
        let expected = Plain::reduced(&whole, op, dtype);
        results.push((format!("all_reduce({op})"), world.all_reduce(&x, op), expected));
        let expected = case.part(&Plain::reduced(&divided, op, dtype), rank);
        results.push((format!("reduce_scatter({op})"), world.reduce_scatter(&y, op, axis as isize), expected));
    }
    results.push(("all_gather".into(), world.all_gather(&x, axis as isize), Plain::cat(&whole, axis)));
    let root = case.seed as usize % size;
    results.push(("broadcast".into(), world.broadcast(&x, root), whole[root].clone()));
    let parts: Vec<Plain> = divided.iter().map(|of| case.part(of, rank)).collect();
    let exchanged = world.all_to_all(&y, axis as isize, concat as isize - y.rank() as isize);
    results.push(("all_to_all".into(), exchanged, Plain::cat(&parts, concat)));
    // Rank i sends (i + j + 1) % 3 rows to rank j.
    let rows = |from: usize, to: usize| (from + to + 1) % 3;
    let ragged = |from: usize| {
        let count = (0..size).map(|to| rows(from, to)).sum();
        Plain::random(&[&[count], &case.dims[1..]].concat(), dtype, case.seed + from as u64)
    };
    let received: Vec<Plain> = (0..size)
        .map(|from| {
            let start = (0..rank).map(|to| rows(from, to)).sum();
            ragged(from).narrow(0, start, start + rows(from, rank))
        })
        .collect();
    let counts = |f: &dyn Fn(usize) -> usize| (0..size).map(f).collect::<Vec<usize>>();
    let (sent, expected) = (counts(&|to| rows(rank, to)), counts(&|from| rows(from, rank)));
    let exchanged = world.all_to_all_ragged(&ragged(rank).tensor(dtype), &sent, &expected);
    results.push(("all_to_all_ragged".into(), exchanged, Plain::cat(&received, 0)));
    if size > 1 {
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        world.send(&x, next);
        let received = world.receive(x.shape(), dtype, previous);
        results.push(("receive".into(), received, whole[previous].clone()));
    }
    results
}

fn check(engine: Engine, case: &Case) -> Result<(), TestCaseError> {
    let found = run(engine, case.size, |world| {
        let mut results = results(&world, case);
        // Reads in another order than that of recording.
        results.reverse();
        let pairs = results.into_iter().map(|(name, result, expected)| {
            assert_eq!(result.dtype(), case.dtype);
            Ok((name, Plain::of(&result)?, expected))
        });
        pairs.collect::<Result<Vec<_>, thalweg::Error>>()
    });
    for (rank, results) in found.unwrap().into_iter().enumerate() {
        for (name, result, expected) in results {
            prop_assert_eq!(result, expected, "{} on rank {}", name, rank);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn collectives_of_threads_are_those_of_plain_arrays(case in case()) {
        check(Engine::Threads, &case)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn collectives_over_tcp_are_those_of_plain_arrays(case in case()) {
        check(Engine::Tcp, &case)?;
    }
}

#[test]
fn every_dtype_goes_through_every_collective() {
    for (seed, dtype) in DType::ALL.into_iter().enumerate() {
        let case = Case { size: 3, dtype, dims: vec![2, 3], layout: seed % 4, axis: 1, concat: 0, seed: seed as u64 };
        ENGINES.into_iter().for_each(|engine| check(engine, &case).unwrap());
    }
}

#[test]
fn scalars_are_reduced_and_broadcast() {
    for engine in ENGINES {
        let found = run(engine, 3, |world| {
            let x = Tensor::new(world.rank() as f32 + 1.0);
            Ok([world.all_reduce(&x, ReduceOp::Product).item::<f32>()?, world.broadcast(&x, 2).item::<f32>()?])
        });
        assert_eq!(found.unwrap(), [[6.0, 3.0]; 3]);
    }
}

/// Floats of different magnitudes, whose sum depends on the order.
fn uneven(rank: usize) -> Vec<f32> {
    (0..1000)
        .map(|i| ((i * 7919 + rank * 104_729) as f32 * 0.37).sin() * 10f32.powi((i + rank) as i32 % 7 - 3))
        .collect()
}

#[test]
fn sums_are_in_rank_order_and_have_the_same_bits_on_all_ranks() {
    let expected: Vec<u32> =
        (0..1000).map(|i| (0..4).map(|rank| uneven(rank)[i]).reduce(|a, b| a + b).unwrap().to_bits()).collect();
    for engine in ENGINES {
        let found = run(engine, 4, |world| {
            let x = Tensor::new(uneven(world.rank()));
            world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()
        });
        for sums in found.unwrap() {
            assert_eq!(sums.into_iter().map(f32::to_bits).collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn narrow_floats_are_rounded_once() {
    for engine in ENGINES {
        let found = run(engine, 3, |world| {
            let x = uneven(world.rank());
            let wide = Tensor::new(x);
            let sums = |dtype| world.all_reduce(&wide.cast(dtype), ReduceOp::Sum);
            Ok((sums(DType::BF16).to_vec::<bf16>()?, sums(DType::F16).to_vec::<f16>()?))
        });
        for (b, h) in found.unwrap() {
            for i in 0..1000 {
                let elements = (0..3).map(|rank| uneven(rank)[i]);
                let narrow = elements.clone().map(|x| bf16::from_f32(x).to_f32()).reduce(|a, b| a + b).unwrap();
                assert_eq!(b[i], bf16::from_f32(narrow));
                let narrow = elements.map(|x| f16::from_f32(x).to_f32()).reduce(|a, b| a + b).unwrap();
                assert_eq!(h[i], f16::from_f32(narrow));
            }
        }
    }
}

#[test]
fn operands_larger_than_the_buffers_of_a_connection() {
    const COUNT: usize = 1 << 20;
    for engine in ENGINES {
        run(engine, 3, |world| {
            let x = Tensor::arange_with(COUNT, DType::I32) + world.rank() as i32;
            let sum = world.all_reduce(&x, ReduceOp::Sum);
            let all = world.all_gather(&x, 0);
            assert_eq!(all.slice(COUNT * 2 + 5).item::<i32>()?, 7);
            assert!(sum.eq(Tensor::arange_with(COUNT, DType::I32) * 3 + 3).all(..).item::<bool>()?);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn sub_worlds_have_their_own_collectives() {
    for engine in ENGINES {
        let found = run(engine, 5, |world| {
            let halves = world.split(world.rank() % 2)?;
            let own = Tensor::new([world.rank() as i32]);
            // Collectives of the whole world between those of its parts, all read in the end.
            let sum = halves.all_reduce(&own, ReduceOp::Sum);
            let all = world.all_gather(&own, 0);
            let members = halves.all_gather(&own, 0);
            let quarters = halves.split(halves.rank() / 2)?;
            let inner = quarters.all_gather(&own, 0);
            Ok([inner, members, all, sum].map(|t| t.to_vec::<i32>().unwrap()))
        });
        let found = found.unwrap();
        for (rank, [inner, members, all, sum]) in found.into_iter().enumerate() {
            let half: Vec<i32> = (0..5).filter(|r| r % 2 == rank as i32 % 2).collect();
            assert_eq!(all, [0, 1, 2, 3, 4]);
            assert_eq!(members, half);
            assert_eq!(sum, [half.iter().sum::<i32>()]);
            let at = half.iter().position(|&r| r == rank as i32).unwrap();
            assert_eq!(inner, half[at / 2 * 2..half.len().min(at / 2 * 2 + 2)]);
        }
    }
}

#[test]
fn a_world_of_one_returns_its_operands() {
    let found = World::local(1, |world| {
        let x = Tensor::new([[1.5f32, 2.0]]);
        let all = [
            world.all_reduce(&x, ReduceOp::Mean),
            world.all_gather(&x, 1),
            world.reduce_scatter(&x, ReduceOp::Sum, 0),
            world.broadcast(&x, 0),
            world.all_to_all(&x, 1, 0),
            world.all_to_all_ragged(&x, &[1], &[1]),
        ];
        world.barrier()?;
        assert_eq!(world.traffic().total().calls, 0);
        Ok(all.map(|t| t.to_vec::<f32>().unwrap()))
    });
    assert_eq!(found.unwrap(), [[[1.5, 2.0]; 6]]);
}
