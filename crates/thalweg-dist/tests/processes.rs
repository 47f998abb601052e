//! Ranks as processes: they find each other, compute what threads compute, and notice the death of one.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thalweg::{Error, Tensor};
use thalweg_dist::{ReduceOp, World, WorldOptions};

/// Environment variable with the step at which rank 1 aborts, in a child process; unset in the test itself.
const ABORT_AT: &str = "RANK_1_OF_THIS_TEST_ABORTS_AT";
/// Environment variable of a child process: address of rank 0.
const ADDRESS: &str = "RANK_0_OF_THIS_TEST_LISTENS_AT";

const STEPS: usize = 5;

fn options() -> WorldOptions {
    WorldOptions::default().timeout(Duration::from_secs(120))
}

/// Repeatedly adds the sum over ranks. Rank 1 aborts before a step.
fn steps(world: &World, abort_at: usize) -> Result<Vec<f32>, Error> {
    let mut x = Tensor::new([1.0f32, world.rank() as f32]);
    for step in 0..STEPS {
        if world.rank() == 1 && step == abort_at {
            std::process::abort();
        }
        x = &x + world.all_reduce(&x, ReduceOp::Sum);
        x.memory()?;
    }
    world.all_gather(&x, 0).to_vec::<f32>()
}

fn start(test: &str, address: &str, rank: usize, size: usize, abort_at: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env(ADDRESS, address).env(ABORT_AT, abort_at.to_string());
    command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The rank of this process, if it is a child of the test.
fn child() -> Option<(World, usize)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let (address, abort_at) = (std::env::var(ADDRESS).ok()?, number(ABORT_AT)?);
    let world = options().join(&address, number("RANK")?, number("WORLD_SIZE")?).unwrap();
    Some((world, abort_at))
}

/// Runs rank 0 here and the others in processes. Returns the result of rank 0, and whether each child succeeded.
fn run(test: &str, size: usize, abort_at: usize) -> (Result<Vec<f32>, Error>, Vec<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let children: Vec<Child> = (1..size).map(|rank| start(test, &address, rank, size, abort_at)).collect();
    let result = options().host(&listener, size).and_then(|world| steps(&world, abort_at));
    let succeeded = children.into_iter().map(|mut child| child.wait().unwrap().success()).collect();
    (result, succeeded)
}

#[test]
fn four_processes_compute_what_four_threads_do() {
    if let Some((world, abort_at)) = child() {
        steps(&world, abort_at).unwrap();
        return;
    }
    let (result, succeeded) = run("four_processes_compute_what_four_threads_do", 4, usize::MAX);
    let threads = World::local(4, |world| steps(&world, usize::MAX)).unwrap();
    assert_eq!(result.unwrap(), threads[0]);
    assert_eq!(succeeded, [true; 3]);
}

#[test]
fn the_death_of_a_process_is_an_error_on_all_others() {
    if let Some((world, abort_at)) = child() {
        // The test checks that this process failed.
        return assert!(steps(&world, abort_at).is_ok());
    }
    for abort_at in 0..STEPS {
        let (result, succeeded) = run("the_death_of_a_process_is_an_error_on_all_others", 3, abort_at);
        let text = result.unwrap_err().to_string();
        assert!(text.contains("rank 1 is gone") && text.contains("all_reduce"), "{text}");
        assert_eq!(succeeded, [false; 2]);
    }
}

#[test]
fn launchers_are_read_from_the_environment() {
    if std::env::var("MASTER_PORT").is_ok() && std::env::var(ABORT_AT).is_ok() {
        let world = WorldOptions::default().timeout(Duration::from_secs(60)).from_env().unwrap();
        assert_eq!(steps(&world, usize::MAX).unwrap().len(), 2 * world.size());
        return;
    }
    // A free port, which another program might take meanwhile: then this fails, and says so.
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let start = |rank: usize, port: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "launchers_are_read_from_the_environment"]);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "2").env("LOCAL_RANK", rank.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port).env(ABORT_AT, "never");
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let succeeds = |port: String| {
        let mut ranks: Vec<Child> = (0..2).map(|rank| start(rank, &port)).collect();
        let ends: Vec<bool> = ranks.iter_mut().map(|rank| rank.wait().unwrap().success()).collect();
        ends == [true; 2]
    };
    assert!((0..3).any(|_| succeeds(free())), "no free port in three attempts");
}
