//! Collectives run lazily, in the order of recording, whatever is read first; what is around them fuses.

use crate::common::{ENGINES, Engine, run};
use thalweg::{Tensor, explain};
use thalweg_dist::ReduceOp;

#[test]
fn a_read_runs_the_collectives_before_it_and_no_others() {
    for engine in ENGINES {
        run(engine, 3, |world| {
            let x = Tensor::ones([4]);
            let first = world.all_reduce(&x, ReduceOp::Sum);
            let second = world.all_gather(&x, 0);
            let third = world.broadcast(&x, 1);
            assert_eq!(world.traffic().total().calls, 0);
            second.to_vec::<f32>()?;
            let calls = |name: &str| world.traffic().of(name).calls;
            assert_eq!((calls("all_reduce(sum)"), calls("all_gather"), calls("broadcast(from 1)")), (1, 1, 0));
            drop((first, third));
            world.flush()?;
            assert_eq!(calls("broadcast(from 1)"), 1);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn ranks_may_read_in_any_order() {
    for engine in ENGINES {
        let found = run(engine, 4, |world| {
            let all: Vec<Tensor> = (0..8)
                .map(|i| world.all_reduce(&Tensor::full([3], (i * 10 + world.rank()) as f64), ReduceOp::Max))
                .collect();
            let order = (0..8).map(|i| (i * 5 + world.rank() * 3) % 8);
            let mut values = vec![0.0; 8];
            for i in order {
                values[i] = all[i].slice(0).item::<f32>()?;
            }
            Ok(values)
        });
        let expected: Vec<f32> = (0..8).map(|i| (i * 10 + 3) as f32).collect();
        assert!(found.unwrap().iter().all(|values| *values == expected));
    }
}

#[test]
fn a_rank_that_reads_nothing_takes_part_before_its_world_ends() {
    for engine in ENGINES {
        let found = run(engine, 3, |world| {
            let sum = world.all_reduce(&Tensor::new([world.rank() as f32]), ReduceOp::Sum);
            if world.rank() == 0 { sum.item::<f32>() } else { Ok(0.0) }
        });
        assert_eq!(found.unwrap(), [3.0, 0.0, 0.0]);
    }
}

#[test]
fn a_result_is_read_on_another_thread_and_after_the_end() {
    for engine in ENGINES {
        let found = run(engine, 2, |world| {
            let x = Tensor::ones([5]);
            let (first, second) = (world.all_reduce(&x, ReduceOp::Sum), world.all_gather(&x, 0));
            let later = world.all_reduce(&(first.clone() * 2.0), ReduceOp::Sum);
            let read = std::thread::scope(|scope| {
                let second = scope.spawn(|| second.to_vec::<f32>());
                let first = first.to_vec::<f32>()?;
                Ok::<_, thalweg::Error>((first, second.join().unwrap()?))
            })?;
            assert_eq!(read, (vec![2.0; 5], vec![1.0; 10]));
            Ok(later)
        });
        for later in found.unwrap() {
            assert_eq!(later.to_vec::<f32>().unwrap(), [8.0; 5]);
        }
    }
}

#[test]
fn thousands_may_wait() {
    let found = run(Engine::Threads, 2, |world| {
        let x = Tensor::new([1i64]);
        let all: Vec<Tensor> = (0..3000).map(|_| world.all_reduce(&x, ReduceOp::Sum)).collect();
        all[2999].item::<i64>()
    });
    assert_eq!(found.unwrap(), [2, 2]);
}

#[test]
fn operations_before_and_after_a_collective_fuse() {
    run(Engine::Threads, 2, |world| {
        let x = Tensor::randn([64, 8]);
        x.memory()?;
        let (kernels, explanation) = explain(|| {
            let before = ((&x * 2.0).tanh() + 1.0).exp();
            let sum = world.all_reduce(&before, ReduceOp::Sum);
            ((sum * 0.5).relu() + 3.0).sqrt()
        });
        drop(kernels);
        // One for the operand and one for what uses the result.
        assert_eq!(explanation.totals().kernels, 2);
        Ok(())
    })
    .unwrap();
}

#[test]
fn traces_have_a_span_for_each_collective() {
    thalweg::trace::start();
    run(Engine::Threads, 2, |world| world.all_gather(&Tensor::ones([3]), 0).to_vec::<f32>()).unwrap();
    let trace = thalweg::trace::finish();
    assert!(trace.contains("all_gather of f32[3] along axis 0") && trace.contains("\"cat\":\"collective\""), "{trace}");
}

#[test]
fn bytes_are_counted() {
    for engine in ENGINES {
        run(engine, 4, |world| {
            let x = Tensor::zeros([100]);
            world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()?;
            world.all_gather(&x, 0).to_vec::<f32>()?;
            let reduced = world.traffic().of("all_reduce(sum)");
            // Three quarters of the operand, to be reduced, and this rank's quarter to three others.
            assert_eq!((reduced.calls, reduced.sent, reduced.received), (1, 600, 600));
            let gathered = world.traffic().of("all_gather");
            assert_eq!((gathered.sent, gathered.received), (1200, 1200));
            assert_eq!(world.traffic().total().sent, 1800);
            assert!(world.traffic().to_string().contains("all_gather"));
            Ok(())
        })
        .unwrap();
    }
}
