//! Random programs of collectives and of operations between them, with reads at random places on each rank, over random
//! sub-worlds. Some ranks fail at random.

use crate::common::{ENGINES, Plain, run};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use thalweg::{DType, Error, Tensor};
use thalweg_dist::{ReduceOp, World};

const ROWS: usize = 4;

/// Operation on the current value of each rank, a tensor of `ROWS` small integers.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reduces over the world, or over the ranks that have the same parity.
    Reduce(ReduceOp, bool),
    /// The row sums of all ranks' values.
    Gather,
    Broadcast(usize),
    /// Every rank gets the value of the one before it.
    Ring,
    /// An operation that each rank computes by itself.
    Own,
}

fn step() -> impl Strategy<Value = Step> {
    let op = (0usize..3).prop_map(|op| [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][op]);
    prop_oneof![
        (op, any::<bool>()).prop_map(|(op, halves)| Step::Reduce(op, halves)),
        Just(Step::Gather),
        (0usize..5).prop_map(Step::Broadcast),
        Just(Step::Ring),
        Just(Step::Own),
    ]
}

/// Keeps values small: the remainder by 7, which is not negative.
fn small(x: &Tensor) -> Tensor {
    x % 7
}

fn small_plain(x: Plain) -> Plain {
    Plain { elements: x.elements.into_iter().map(|e| e.rem_euclid(7.0)).collect(), ..x }
}

/// Runs a program as a rank. Returns its last value.
fn program(world: &World, steps: &[Step], seed: u64, at: impl Fn(usize)) -> Result<Vec<f64>, Error> {
    let (rank, size) = (world.rank(), world.size());
    let halves = world.split(rank % 2)?;
    let mut x = Plain::random(&[ROWS], DType::I32, seed ^ rank as u64).tensor(DType::I32);
    let mut unread = vec![];
    for (number, step) in steps.iter().enumerate() {
        at(number);
        x = match *step {
            Step::Reduce(op, true) => halves.all_reduce(&x, op),
            Step::Reduce(op, false) => world.all_reduce(&x, op),
            Step::Gather => world.all_gather(&x.reshape([ROWS, 1]), 1).sum_keepdim(1).reshape([ROWS]).cast(DType::I32),
            Step::Broadcast(root) => world.broadcast(&x, root % size),
            Step::Ring if size > 1 => {
                world.send(&x, (rank + 1) % size);
                world.receive([ROWS], DType::I32, (rank + size - 1) % size)
            }
            Step::Ring => x,
            Step::Own => &x * 3 + rank as i32,
        };
        // Some results stay unread for a while, others are read at once, differently on each rank.
        match (seed >> (number % 32)).wrapping_add(rank as u64) % 3 {
            0 => unread.push(x.clone()),
            1 => drop(x.to_vec::<i32>()?),
            _ => x = small(&x),
        }
        x = small(&x);
    }
    for value in unread.iter().rev() {
        value.to_vec::<i32>()?;
    }
    x.to_f64_vec()
}

/// Values of all ranks after the program.
fn expected(size: usize, steps: &[Step], seed: u64) -> Vec<Vec<f64>> {
    let mut x: Vec<Plain> = (0..size as u64).map(|rank| Plain::random(&[ROWS], DType::I32, seed ^ rank)).collect();
    for step in steps {
        let next = |rank: usize| match *step {
            Step::Reduce(op, halves) => {
                let ranks = (0..size).filter(|other| !halves || other % 2 == rank % 2);
                Plain::reduced(&ranks.map(|other| x[other].clone()).collect::<Vec<_>>(), op, DType::I32)
            }
            Step::Gather => Plain::reduced(&x, ReduceOp::Sum, DType::I32),
            Step::Broadcast(root) => x[root % size].clone(),
            Step::Ring => x[(rank + size - 1) % size].clone(),
            Step::Own => {
                let elements = x[rank].elements.iter().map(|e| e * 3.0 + rank as f64).collect();
                Plain { dims: vec![ROWS], elements }
            }
        };
        x = (0..size).map(|rank| small_plain(next(rank))).collect();
    }
    x.into_iter().map(|x| x.elements).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn programs_have_the_values_of_plain_arrays(
        size in 1usize..6, steps in proptest::collection::vec(step(), 1..12), seed in any::<u64>(),
    ) {
        for engine in ENGINES {
            let found = run(engine, size, |world| program(&world, &steps, seed, |_| ()));
            prop_assert_eq!(found.unwrap(), expected(size, &steps, seed), "{:?}", engine);
        }
    }

    #[test]
    fn a_rank_that_panics_at_random_leaves_none_waiting(
        size in 2usize..6, steps in proptest::collection::vec(step(), 1..12), seed in any::<u64>(), point in 0usize..12,
    ) {
        let (victim, point) = (seed as usize % size, point % steps.len());
        for engine in ENGINES {
            let ended = AtomicUsize::new(0);
            let found = run(engine, size, |world| {
                let at = |number: usize| assert!(world.rank() != victim || number != point, "for a test");
                let result = program(&world, &steps, seed, at);
                ended.fetch_add(1, Relaxed);
                // All others need the rank in the end.
                result.and_then(|_| world.barrier())
            });
            prop_assert!(found.unwrap_err().to_string().contains("panicked"));
            prop_assert_eq!(ended.load(Relaxed), size - 1);
        }
    }
}
