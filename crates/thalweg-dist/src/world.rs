//! Worlds: what a program holds to take part in collectives.

use crate::engine::{Connections, threads};
use crate::environment::Launch;
use crate::member::{Failure, Group, Member};
use crate::rendezvous::{self, Rendezvous};
use crate::traffic::TrafficTable;
use crate::watch::identity;
use std::any::Any;
use std::net::TcpListener;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use thalweg::{Device, Error, Tensor, set_default_device};

/// Ranks that compute together, as one of them sees it. A clone is the same rank of the same world.
///
/// A rank is a thread of this process ([`World::local`]) or a process ([`World::from_env`]). All ranks run the same
/// program on their own data, and exchange tensors by collectives: methods that every rank calls in the same order.
///
/// ```
/// use thalweg::{Error, Tensor};
/// use thalweg_dist::{ReduceOp, World};
///
/// let sums = World::local(3, |world| {
///     let own = Tensor::full([2], world.rank() as f64);
///     world.all_reduce(&own, ReduceOp::Sum).to_vec::<f32>()
/// })?;
/// assert_eq!(sums, [[3.0, 3.0], [3.0, 3.0], [3.0, 3.0]]);
/// # Ok::<(), Error>(())
/// ```
///
/// # When collectives run
/// A collective is recorded like any operation. It runs when its result is read or used by another operation, after
/// all collectives that the rank recorded before it. What has not run by then runs in
/// [`synchronize`](World::synchronize), [`flush`](World::flush), [`barrier`](World::barrier), and when the last handle
/// of the rank is dropped; a result that gradients flow through holds one, too. Until a rank runs a collective, the
/// others wait for it there.
///
/// # Failures
/// The first failure of a rank ends the world: each rank gets an [`Error`] with the operation and its line, which names
/// the rank that failed. A failure is a panic, an error that [`World::local`]'s function returns, an operand that
/// cannot be computed, a rank that ends early, a lost connection, another collective than on the other ranks, or no
/// answer within the [timeout](WorldOptions::timeout).
#[derive(Clone)]
pub struct World {
    pub(crate) member: Arc<Member>,
    pub(crate) group: Arc<Group>,
    /// Ends the rank with its last handle.
    membership: Arc<Membership>,
}

struct Membership(Arc<Member>);

impl Drop for Membership {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Failure::new("this rank panicked"), |rank| format!("rank {rank} panicked"));
        } else {
            // The results hold the failure, and it was logged.
            let _ = self.0.finish();
        }
        self.0.abandon();
    }
}

/// Settings of a world, and its constructors with them.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    timeout: Duration,
    devices: Option<Vec<Device>>,
}

impl Default for WorldOptions {
    /// A timeout of ten minutes; the devices that [`World::local`] and [`World::from_env`] choose.
    fn default() -> WorldOptions {
        WorldOptions { timeout: Duration::from_secs(600), devices: None }
    }
}

impl WorldOptions {
    /// Time that a rank waits for another one, in a collective or to connect.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> WorldOptions {
        WorldOptions { timeout, ..self }
    }

    /// Devices by the rank on a host; a rank beyond the list begins again at its start.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    #[track_caller]
    pub fn devices(self, devices: impl Into<Vec<Device>>) -> WorldOptions {
        let devices = devices.into();
        assert!(!devices.is_empty(), "devices: a world without devices");
        WorldOptions { devices: Some(devices), ..self }
    }

    /// Device of a rank on its host, of `count` ranks there. GPU number `rank` if a GPU is the default and there is one
    /// for each rank, else the CPU.
    fn device(&self, rank: usize, count: usize) -> Result<Device, Error> {
        if let Some(devices) = &self.devices {
            return Ok(devices[rank % devices.len()]);
        }
        let default = Device::try_default()?;
        if !default.name().starts_with("cuda:") || count == 1 {
            return Ok(default);
        }
        let gpus = Device::names().iter().filter(|name| name.starts_with("cuda:")).count();
        if gpus >= count { Device::cuda(rank) } else { Ok(Device::cpu()) }
    }

    /// As [`World::local`], with these settings.
    ///
    /// # Errors
    /// As [`World::local`].
    ///
    /// # Panics
    /// If `size` is 0.
    #[track_caller]
    pub fn local<R: Send>(&self, size: usize, f: impl Fn(World) -> Result<R, Error> + Sync) -> Result<Vec<R>, Error> {
        assert!(size > 0, "local: a world of 0 ranks");
        let devices = (0..size).map(|rank| self.device(rank, size)).collect::<Result<Vec<Device>, Error>>()?;
        let identities: Vec<Option<String>> = match size {
            1 => vec![],
            _ => devices.iter().map(|&device| identity(device)).collect(),
        };
        let new = |(rank, engine)| {
            World::new(Member::new((rank, size), devices[rank], engine, identities.clone(), self.timeout))
        };
        let worlds: Vec<World> = threads(size).into_iter().enumerate().map(new).collect();
        let outcomes: Vec<Outcome<R>> = std::thread::scope(|scope| {
            let start = |world: World| {
                let name = format!("thalweg-rank-{}", world.rank());
                let body = || run_rank(world, &f);
                std::thread::Builder::new().name(name).spawn_scoped(scope, body).expect("the system has a thread more")
            };
            let threads: Vec<_> = worlds.into_iter().map(start).collect();
            threads.into_iter().map(|t| t.join().expect("panics are caught")).collect()
        });
        first_failure(outcomes)
    }

    /// As [`World::from_env`], with these settings.
    ///
    /// # Errors
    /// As [`World::from_env`].
    pub fn from_env(&self) -> Result<World, Error> {
        let launch = Launch::find(|name| std::env::var(name).ok())?;
        let Launch { rank, size, local_rank, local_size, address } = launch;
        let device = self.device(local_rank, local_size)?;
        let world = if size == 1 {
            World::new(Member::new((0, 1), device, threads(1).remove(0), vec![], self.timeout))
        } else if rank == 0 {
            let listener = rendezvous::listen(&address)?;
            self.world((0, size), device, |own| rendezvous::host(&listener, size, own, self.timeout))?
        } else {
            self.world((rank, size), device, |own| rendezvous::join(&address, (rank, size), own, self.timeout))?
        };
        set_default_device(Some(device));
        Ok(world)
    }

    /// Rank 0 of a world of processes that connect to a listener: for programs that start their own ranks. The others
    /// call [`join`](WorldOptions::join) with its address.
    ///
    /// # Errors
    /// If ranks are missing when the timeout has passed; the error names them.
    ///
    /// # Panics
    /// If `size` is 0.
    #[track_caller]
    pub fn host(&self, listener: &TcpListener, size: usize) -> Result<World, Error> {
        assert!(size > 0, "host: a world of 0 ranks");
        self.world((0, size), self.device(0, 1)?, |own| rendezvous::host(listener, size, own, self.timeout))
    }

    /// Rank `rank`, above 0, of a world whose rank 0 listens at an address (`host:port`).
    ///
    /// # Errors
    /// If rank 0 does not answer within the timeout, refuses this rank, or misses other ranks.
    ///
    /// # Panics
    /// If the rank is 0, or not below `size`.
    #[track_caller]
    pub fn join(&self, address: &str, rank: usize, size: usize) -> Result<World, Error> {
        assert!((1..size).contains(&rank), "join: rank {rank} of a world of {size}");
        let meet = |own| rendezvous::join(address, (rank, size), own, self.timeout);
        self.world((rank, size), self.device(0, 1)?, meet)
    }

    /// World over the connections that `meet` makes, given the identity of this rank's device.
    fn world(
        &self,
        (rank, size): (usize, usize),
        device: Device,
        meet: impl FnOnce(Option<String>) -> Result<Rendezvous, Error>,
    ) -> Result<World, Error> {
        let Rendezvous { peers, identities } = meet(identity(device))?;
        let engine = Connections::new(peers, self.timeout);
        let engine = engine.map_err(|e| Error::Value(format!("connections between ranks: {e}")))?;
        Ok(World::new(Member::new((rank, size), device, Box::new(engine), identities, self.timeout)))
    }
}

impl World {
    fn new(member: Arc<Member>) -> World {
        let group = member.group(0, (0..member.size).collect());
        World { membership: Arc::new(Membership(member.clone())), member, group: Arc::new(group) }
    }

    /// Runs a function as each rank of a world of `size` threads of this process, and returns the results by rank. Each
    /// thread has its own default device: GPU number `rank` if a GPU is the default device and there is one for each
    /// rank, else the CPU.
    ///
    /// # Errors
    /// The first failure: a rank's own error, or the panic of a rank. All other ranks get an error where they wait for
    /// that rank.
    ///
    /// # Panics
    /// If `size` is 0.
    #[track_caller]
    pub fn local<R: Send>(size: usize, f: impl Fn(World) -> Result<R, Error> + Sync) -> Result<Vec<R>, Error> {
        WorldOptions::default().local(size, f)
    }

    /// This process as a rank of the world that a launcher started: `torchrun`, Open MPI's or MPICH's `mpirun`, Slurm's
    /// `srun`. A world of one without a launcher.
    ///
    /// The ranks find each other through rank 0, which listens at `MASTER_ADDR:MASTER_PORT`. Without `MASTER_ADDR` all
    /// ranks are taken to be on this host, unless Slurm names the hosts. The default port is 29500. The default device
    /// of the calling thread becomes GPU number `local rank` if a GPU is the default and there are enough, else the
    /// CPU. Connections are neither encrypted nor authenticated, so the network must be trusted.
    ///
    /// ```no_run
    /// use thalweg_dist::World;
    /// let world = World::from_env()?;
    /// println!("rank {} of {} on {}", world.rank(), world.size(), world.device());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// If variables of a launcher are missing or invalid, or ranks are missing when the timeout has passed; the error
    /// names them.
    pub fn from_env() -> Result<World, Error> {
        WorldOptions::default().from_env()
    }

    /// Rank of the caller, from 0.
    pub fn rank(&self) -> usize {
        self.group.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.group.ranks.len()
    }

    /// Device of this rank.
    pub fn device(&self) -> Device {
        self.member.device
    }

    /// Sets how long this rank waits for another one in a collective, in this world and all others that it is in.
    pub fn set_timeout(&self, timeout: Duration) {
        self.member.set_timeout(timeout);
    }

    /// Divides the world into one world for each color, of the ranks that pass it, in the order of their ranks here.
    /// All ranks call it; it waits for them.
    ///
    /// ```
    /// use thalweg_dist::{ReduceOp, World};
    /// # use thalweg::Tensor;
    /// let sums = World::local(4, |world| {
    ///     let pair = world.split(world.rank() / 2)?;
    ///     pair.all_reduce(&Tensor::new(1i64 << world.rank()), ReduceOp::Sum).item::<i64>()
    /// })?;
    /// assert_eq!(sums, [0b11, 0b11, 0b1100, 0b1100]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a rank fails.
    #[track_caller]
    pub fn split(&self, color: usize) -> Result<World, Error> {
        let number = self.group.recorded.load(std::sync::atomic::Ordering::Relaxed);
        let colors = self.all_gather(&Tensor::new([color as i64]), 0).to_vec::<i64>()?;
        let inside: Vec<usize> = (0..self.size()).filter(|&rank| colors[rank] == color as i64).collect();
        let ranks = inside.into_iter().map(|rank| self.group.ranks[rank]).collect();
        let id = world_id([self.group.id, number, color as u64]);
        let group = Arc::new(self.member.group(id, ranks));
        Ok(World { member: self.member.clone(), group, membership: self.membership.clone() })
    }

    /// Starts all collectives that this rank has recorded, in this world and all others that it is in. Those on GPUs are
    /// enqueued after the computation of their operands, and run while the program goes on; the others run now.
    pub fn start(&self) {
        self.member.run_before(u64::MAX);
    }

    /// Whether collectives of GPU tensors are enqueued on the GPUs, by NCCL: each rank has a GPU of its own, and the
    /// library is there. Else they run on the host.
    pub fn is_on_gpus(&self) -> bool {
        self.group.is_on_devices
    }

    /// Runs all collectives that this rank has recorded, in this world and all others that it is in, and waits for them.
    ///
    /// # Errors
    /// The failure of the world.
    pub fn flush(&self) -> Result<(), Error> {
        self.member.run_all().map_err(|failure| Error::Value(failure.to_string()))
    }

    /// Runs all collectives that this rank has recorded, as [`flush`](World::flush), and then all else that the thread
    /// has, as [`thalweg::synchronize`].
    ///
    /// # Errors
    /// The failure of the world, or of anything else that was computed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.flush()?;
        thalweg::synchronize()
    }

    /// Calls and bytes of this rank's collectives, in this world and all others that it is in, so far.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// # use thalweg_dist::{ReduceOp, World};
    /// World::local(2, |world| {
    ///     world.all_reduce(&Tensor::zeros([1000]), ReduceOp::Sum).to_vec::<f32>()?;
    ///     // Half of the elements to the other rank to be reduced there, and the other half when it is reduced.
    ///     assert_eq!(world.traffic().of("all_reduce(sum)").sent, 4000);
    ///     println!("{}", world.traffic());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn traffic(&self) -> TrafficTable {
        self.member.traffic()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World(rank {} of {} on {})", self.rank(), self.size(), self.device())
    }
}

/// Id of a sub-world: the FNV-1a hash of its parent, the number of the split there, and the color.
fn world_id(of: [u64; 3]) -> u64 {
    let bytes = of.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3))
}

/// Result of a rank, with whether its failure was reported by another one.
struct Outcome<R> {
    result: Result<R, Error>,
    is_reported: bool,
}

/// Runs the function of [`World::local`] as one rank.
fn run_rank<R>(world: World, f: impl Fn(World) -> Result<R, Error>) -> Outcome<R> {
    set_default_device(Some(world.device()));
    let (member, rank) = (world.member.clone(), world.rank());
    // This handle is dropped last: here the cause of a failure is known.
    let handle = world.clone();
    let returned = std::panic::catch_unwind(AssertUnwindSafe(|| f(world)));
    let before = member.failure().cloned();
    let result = match returned {
        Ok(Ok(result)) => match member.finish() {
            Ok(()) => Ok(result),
            Err(failure) => Err(Error::Value(failure.to_string())),
        },
        Ok(Err(error)) => {
            member.fail(Failure::new(error.to_string()), |rank| format!("rank {rank} ended with an error: {error}"));
            Err(error)
        }
        Err(panic) => {
            let text = format!("rank {rank} panicked: {}", message(&*panic));
            member.fail(Failure::new(&*text), |_| text.clone());
            Err(Error::Value(text))
        }
    };
    member.abandon();
    drop(handle);
    let noticed = before.or_else(|| member.failure().cloned());
    Outcome { result, is_reported: noticed.is_some_and(|failure| failure.reported) }
}

/// Results of all ranks, or the error of the first rank that failed by itself.
fn first_failure<R>(outcomes: Vec<Outcome<R>>) -> Result<Vec<R>, Error> {
    let own = outcomes.iter().position(|o| o.result.is_err() && !o.is_reported);
    let mut outcomes = outcomes;
    if let Some(at) = own {
        return Err(outcomes.swap_remove(at).result.err().expect("it failed"));
    }
    outcomes.into_iter().map(|o| o.result).collect()
}

/// Text of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
