//! A rank that fails, ends early or falls out of step is an error on all others.

use crate::common::{ENGINES, Engine, options, run, tcp};
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::{DType, Device, Error, Tensor, grad};
use thalweg_dist::{ReduceOp, World, WorldOptions};

/// Runs a function as each rank and returns the result of each. No rank may be left waiting.
fn outcomes<R: Send>(
    engine: Engine,
    size: usize,
    f: impl Fn(World) -> Result<R, Error> + Sync,
) -> Vec<Result<R, Error>> {
    let options = options();
    match engine {
        Engine::Tcp => tcp(&options, size, |world| f(world.unwrap())),
        Engine::Threads => {
            let noted: Vec<_> = (0..size).map(|_| Mutex::new(None)).collect();
            let world = options.local(size, |world| {
                let rank = world.rank();
                let result = f(world);
                *noted[rank].lock().unwrap() = Some(result.as_ref().map(drop).map_err(Error::clone));
                result
            });
            match world {
                Ok(results) => results.into_iter().map(Ok).collect(),
                Err(first) => {
                    let of = |note: Mutex<Option<Result<(), Error>>>| match note.into_inner().unwrap() {
                        Some(Err(error)) => Err(error),
                        _ => Err(first.clone()),
                    };
                    noted.into_iter().map(of).collect()
                }
            }
        }
    }
}

/// Texts of the errors of all ranks but one.
fn errors<R>(outcomes: Vec<Result<R, Error>>, but: usize) -> Vec<String> {
    let others = outcomes.into_iter().enumerate().filter(|(rank, _)| *rank != but);
    others.map(|(rank, o)| o.err().unwrap_or_else(|| panic!("rank {rank} has no error")).to_string()).collect()
}

/// A step of training, with a call of `at` between its collectives.
fn step(world: &World, at: impl Fn(usize)) -> Result<(), Error> {
    at(0);
    let w = Tensor::ones([6]).tracked();
    let x = world.broadcast(&Tensor::full([6], world.rank() as f64), 0);
    at(1);
    let y = world.all_reduce(&(&w * (x + 1.0)).exp(), ReduceOp::Mean);
    at(2);
    let sum = y.sum(..);
    at(3);
    let gradient = grad(&sum, &w);
    let all = world.all_gather(&gradient, 0);
    at(4);
    let part = world.reduce_scatter(&all, ReduceOp::Sum, 0);
    at(5);
    part.to_vec::<f32>()?;
    at(6);
    world.barrier()
}

#[test]
fn a_rank_that_panics_anywhere_is_an_error_on_all_others() {
    for engine in ENGINES {
        for size in 2..5 {
            for point in 0..7 {
                let victim = (point * 7 + size) % size;
                let failed = outcomes(engine, size, |world| {
                    step(&world, |at| assert!(world.rank() != victim || at != point, "for a test"))
                });
                for error in errors(failed, victim) {
                    let panicked = format!("rank {victim} panicked");
                    assert!(error.contains(&panicked) && error.contains("failures.rs"), "{error}");
                }
            }
        }
    }
}

#[test]
fn the_error_of_a_world_is_that_of_the_rank_that_failed() {
    let error = options().local(3, |world| {
        assert!(world.rank() != 2, "no luck");
        world.barrier()
    });
    assert_eq!(error.unwrap_err().to_string(), "rank 2 panicked: no luck");
    let error = options().local(3, |world| match world.rank() {
        1 => Err(Error::Value("no such file".into())),
        _ => world.barrier(),
    });
    assert_eq!(error.unwrap_err().to_string(), "no such file");
}

#[test]
fn a_rank_that_returns_early_is_an_error_on_all_others() {
    for engine in ENGINES {
        let ended = outcomes(engine, 3, |world| {
            let x = Tensor::ones([4]);
            let y = world.all_reduce(&x, ReduceOp::Sum);
            if world.rank() == 1 {
                return Ok(());
            }
            y.to_vec::<f32>()?;
            world.all_gather(&y, 0).to_vec::<f32>().map(drop)
        });
        let texts = errors(ended, 1);
        assert!(texts.iter().any(|text| text.contains("rank 1 has ended")), "{texts:?}");
        assert!(texts.iter().all(|text| text.contains("all_gather") && text.contains("rank 1")), "{texts:?}");
    }
}

#[test]
fn an_error_that_a_rank_returns_reaches_all_others() {
    let failed = outcomes(Engine::Threads, 3, |world| match world.rank() {
        2 => Err(Error::Value("no such file".into())),
        _ => world.all_reduce(&Tensor::ones([2]), ReduceOp::Sum).to_vec::<f32>().map(drop),
    });
    for text in errors(failed, 2) {
        assert!(text.starts_with("all_reduce: rank 2 ended with an error: no such file, at"), "{text}");
    }
}

/// Ranks 0 and 1 run different collectives. Both get an error that names both lines.
fn different(name: &str, own: impl Fn(&World) -> Tensor + Sync, other: impl Fn(&World) -> Tensor + Sync) {
    for engine in ENGINES {
        let failed = outcomes(engine, 3, |world| {
            let y = if world.rank() == 1 { other(&world) } else { own(&world) };
            y.to_f64_vec()
        });
        for (rank, outcome) in failed.into_iter().enumerate() {
            let text = outcome.err().unwrap_or_else(|| panic!("{name}: rank {rank}")).to_string();
            assert!(text.matches("failures.rs").count() >= 2, "{name}: {text}");
            assert!(text.contains("where rank"), "{name}: {text}");
        }
    }
}

#[test]
fn ranks_out_of_step_get_both_lines() {
    let x = Tensor::ones([2, 3]);
    different("operation", |w| w.all_reduce(&x, ReduceOp::Sum), |w| w.all_gather(&x, 0));
    different("reduction", |w| w.all_reduce(&x, ReduceOp::Sum), |w| w.all_reduce(&x, ReduceOp::Max));
    different("shape", |w| w.all_reduce(&x, ReduceOp::Sum), |w| w.all_reduce(&x.t(), ReduceOp::Sum));
    different("dtype", |w| w.all_gather(&x, 0), |w| w.all_gather(&x.cast(DType::F64), 0));
    different(
        "number",
        |w| w.all_gather(&x, 0),
        |w| {
            let _ = w.all_reduce(&x, ReduceOp::Sum);
            w.all_gather(&x, 0)
        },
    );
    different(
        "message",
        |w| w.all_reduce(&x, ReduceOp::Sum),
        |w| {
            w.send(&x, 0);
            w.all_reduce(&x, ReduceOp::Sum)
        },
    );
}

#[test]
fn errors_of_a_backward_pass_name_the_line_of_the_forward_pass() {
    for engine in ENGINES {
        let failed = outcomes(engine, 2, |world| {
            let x = Tensor::ones([4]).tracked();
            let y = world.all_reduce(&x, ReduceOp::Sum);
            if world.rank() == 1 {
                return y.to_vec::<f32>();
            }
            grad(&y.square().sum(..), &x).to_vec::<f32>()
        });
        let text = failed[0].as_ref().unwrap_err().to_string();
        let (cause, line) = text.split_once(" (in the backward pass of ").unwrap();
        assert!(cause.contains("rank 1 has ended") && line.contains("failures.rs"), "{text}");
    }
}

#[test]
fn rows_that_nobody_expects_are_an_error() {
    for engine in ENGINES {
        let failed = outcomes(engine, 2, |world| {
            let x = Tensor::ones([4, 2]);
            let received = if world.rank() == 0 { [2, 3] } else { [2, 2] };
            world.all_to_all_ragged(&x, &[2, 2], &received).to_vec::<f32>()
        });
        let text = failed[0].as_ref().unwrap_err().to_string();
        assert!(text.contains("rank 1 sent 16 bytes") && text.contains("24 were expected"), "{text}");
    }
}

#[test]
fn a_rank_that_does_not_answer_is_an_error_in_time() {
    for engine in ENGINES {
        let (done, waiting) = channel::<()>();
        let (done, waiting) = (Mutex::new(Some(done)), Mutex::new(waiting));
        let failed = outcomes(engine, 2, |world| {
            if world.rank() == 0 {
                world.set_timeout(Duration::from_millis(300));
            } else {
                // Until the other rank has its error, without an end: the sender is dropped.
                let waiting: &Receiver<()> = &waiting.lock().unwrap();
                let _ = waiting.recv();
            }
            let result = world.all_reduce(&Tensor::ones([2]), ReduceOp::Sum).to_vec::<f32>();
            drop(done.lock().unwrap().take());
            result
        });
        let text = failed[0].as_ref().unwrap_err().to_string();
        assert!(text.contains("all_reduce: rank 1 has not taken part within 0.3 s, at"), "{text}");
        let text = failed[1].as_ref().unwrap_err().to_string();
        assert!(text.contains("rank 0 failed in all_reduce(sum) at"), "{text}");
    }
}

#[test]
fn an_operand_that_cannot_be_computed_is_an_error_on_all_ranks() {
    for engine in ENGINES {
        let failed = outcomes(engine, 3, |world| {
            let index = if world.rank() == 1 { 7 } else { 0 };
            let x = Tensor::ones([3, 2]).index_select(0, &Tensor::new([index as i64]));
            world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()
        });
        assert!(failed[1].as_ref().unwrap_err().to_string().contains("index"), "{:?}", failed[1]);
        for text in errors(failed, 1) {
            // A GPU asserts that indices are in range before the operand is sent, and runs nothing after a failure; the
            // emulated one runs the rest, and the error is that of the world.
            let is_asserted = text.contains("an assertion: an index");
            let is_reported = text.contains("rank 1 has no operand for all_reduce(sum)") && text.contains("index");
            assert!(is_reported || is_asserted && Device::default() != Device::cpu(), "{text}");
        }
    }
}

#[test]
fn after_a_failure_every_collective_fails_at_once() {
    for engine in ENGINES {
        let failed = outcomes(engine, 2, |world| {
            if world.rank() == 1 {
                return Ok(());
            }
            let first = world.barrier().unwrap_err().to_string();
            assert!(first.contains("rank 1 has ended"), "{first}");
            let later = world.all_reduce(&Tensor::ones([2]), ReduceOp::Sum).to_vec::<f32>();
            assert!(later.unwrap_err().to_string().contains("rank 1 has ended"));
            assert!(world.flush().is_err() && world.synchronize().is_err());
            // Operations without another rank go on.
            assert_eq!(Tensor::ones([2]).sum(..).item::<f32>()?, 2.0);
            Ok(())
        });
        assert_eq!(failed.len(), 2);
    }
}

#[test]
fn a_collective_of_a_world_that_has_ended_is_an_error() {
    let mut left = options().local(2, Ok).unwrap();
    let world = left.pop().unwrap();
    let late = world.all_reduce(&Tensor::ones([2]), ReduceOp::Sum).to_vec::<f32>();
    assert!(late.unwrap_err().to_string().contains("has left its world"));
}

#[test]
fn nothing_is_held_after_a_failure() {
    for engine in ENGINES {
        let owner = Arc::new(vec![1.0f32; 8]);
        let failed = outcomes(engine, 2, |world| {
            let address = NonNull::from(&owner[0]).cast();
            // SAFETY: the vector has eight elements, is held by the owner, and is not changed.
            let x = unsafe { Tensor::from_memory(address, [8], &[1], DType::F32, Device::cpu(), owner.clone()) };
            let _ = world.all_reduce(&x, ReduceOp::Sum);
            let read = world.all_gather(&x, 0);
            assert!(world.rank() != 1, "for a test");
            read.to_vec::<f32>()
        });
        assert!(failed.iter().all(Result::is_err));
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}

#[test]
fn missing_ranks_are_named() {
    let hasty = WorldOptions::default().timeout(Duration::from_millis(300));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Long enough to hear from rank 0.
    let patient = options();
    let joined = std::thread::spawn(move || patient.join(&address, 2, 4).map(drop));
    let missing = |result: Result<(), Error>| result.unwrap_err().to_string();
    // Rank 2 may connect too late on a loaded machine.
    let text = missing(hasty.host(&listener, 4).map(drop));
    drop(listener);
    assert!(text == "rendezvous: ranks 1, 3 of 4 are missing after 300ms" || text.contains("1, 2, 3"), "{text}");
    if !text.contains("1, 2, 3") {
        assert_eq!(missing(joined.join().unwrap()), text);
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let text = missing(hasty.join(&nobody, 1, 2).map(drop));
    assert!(text.contains("rank 0 does not answer at 127.0.0.1"), "{text}");
}

#[test]
fn strangers_and_ranks_of_other_worlds_are_refused() {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let options = options();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| {
            let world = options.host(&listener, 2)?;
            world.all_reduce(&Tensor::ones([1]), ReduceOp::Sum).item::<f32>()
        });
        let mut stranger = std::net::TcpStream::connect(&address).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let other = options.join(&address, 1, 3).map(drop);
        assert!(other.unwrap_err().to_string().contains("rank 1 of 3 does not belong to a world of 2"));
        let world = options.join(&address, 1, 2).unwrap();
        assert_eq!(world.all_reduce(&Tensor::ones([1]), ReduceOp::Sum).item::<f32>().unwrap(), 2.0);
        assert_eq!(host.join().unwrap().unwrap(), 2.0);
    });
}

#[test]
fn one_of_two_processes_with_the_same_rank_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let options = options();
    let sum = |world: World| world.all_reduce(&Tensor::ones([1]), ReduceOp::Sum).item::<f32>();
    let joined = |rank: usize| options.join(&address, rank, 3).and_then(sum);
    std::thread::scope(|scope| {
        let host = scope.spawn(|| options.host(&listener, 3).and_then(sum));
        let twins = [scope.spawn(|| joined(1)), scope.spawn(|| joined(1))];
        // Until one is refused: the other waits for rank 2.
        while !twins.iter().any(|twin| twin.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(joined(2).unwrap(), 3.0);
        assert_eq!(host.join().unwrap().unwrap(), 3.0);
        let twins = twins.map(|twin| twin.join().unwrap().map_err(|e| e.to_string()));
        assert!(
            twins.contains(&Ok(3.0)) && twins.contains(&Err("rendezvous: there are two ranks 1".into())),
            "{twins:?}"
        );
    });
}

#[test]
fn mistakes_panic_at_the_callers_line() {
    let texts = run(Engine::Threads, 2, |world| {
        let x = Tensor::ones([3]);
        let mistakes: [(&str, &dyn Fn()); 7] = [
            ("all_reduce: no mean of i32", &|| drop(world.all_reduce(&x.cast(DType::I32), ReduceOp::Mean))),
            ("all_reduce: no sum of bool", &|| drop(world.all_reduce(&x.cast(DType::Bool), ReduceOp::Sum))),
            ("all_gather: axis 1 of a tensor of shape [3]", &|| drop(world.all_gather(&x, 1))),
            ("reduce_scatter: axis 0 of shape [3] among 2 ranks", &|| drop(world.reduce_scatter(&x, ReduceOp::Sum, 0))),
            ("broadcast: rank 2 in a world of 2", &|| drop(world.broadcast(&x, 2))),
            ("all_to_all_ragged: 2 rows to send of shape [3]", &|| {
                drop(world.all_to_all_ragged(&x, &[1, 1], &[1, 1]));
            }),
            ("send: operand 0 of shape [3] is tracked", &|| world.send(&x.tracked(), 1 - world.rank())),
        ];
        for (expected, mistake) in mistakes {
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(mistake)).unwrap_err();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(text.starts_with(expected), "{text}");
        }
        // Nothing was recorded by them.
        world.all_reduce(&x, ReduceOp::Sum).to_vec::<f32>()
    });
    assert_eq!(texts.unwrap(), [[2.0; 3]; 2]);
}
