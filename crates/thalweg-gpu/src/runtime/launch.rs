//! Bound kernels: the launches of one geometry.
//!
//! In: functions with their argument words, and which of these change from run to run. Out: launches, with their words
//! patched in place. Nothing is allocated per run but scratch memory from the pool, which is free for the queue's next
//! user as soon as the launches are queued.

use super::batch::mix;
use super::compiler::{Compiler, Unit};
use super::driver::{Function, Launch};
use super::queues::Queues;
use crate::maps::MAP_WORDS;
use crate::{Draft, Plan, RuntimeArgument};
use std::sync::Arc;
use thalweg_runtime::{Buffer, Error, Pool, count, granted};

/// One launch of a bound kernel.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Compiled function of the launch.
    pub function: Function,
    /// Number of blocks along x, y and z.
    pub grid: [u32; 3],
    /// Number of threads per block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Argument words that are the same in every run.
    pub words: Vec<u64>,
    /// Argument words that are patched at each run, by index.
    pub patches: Vec<(usize, RuntimeArgument)>,
    /// See [`Draft::unless_same`].
    pub unless_same: Option<[RuntimeArgument; 2]>,
}

/// Plan with the compilation unit of each of its launches.
#[derive(Debug)]
pub struct Written {
    /// Plan of the kernel, with its launches.
    pub plan: Plan,
    /// Compilation unit of each launch.
    pub units: Vec<Arc<Unit>>,
}

impl Written {
    /// Prints the sources that are new; does not compile them.
    pub fn new(plan: Plan, compiler: &Compiler) -> Written {
        let units = plan.stages.iter().map(|stage| compiler.unit(&stage.kernel)).collect();
        Written { plan, units }
    }

    /// Compiles the functions of the launches.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn bind(self, compiler: &Compiler) -> Result<Bound, Error> {
        let mut stages = Vec::with_capacity(self.units.len());
        let Plan { stages: drafts, scratch, needs, checked, .. } = self.plan;
        for (draft, unit) in drafts.into_iter().zip(&self.units) {
            let function = compiler.function(unit)?;
            let Draft { grid, block, shared, words, patches, unless_same, .. } = draft;
            stages.push(Stage { function, grid, block, shared, words, patches, unless_same });
        }
        Ok(Bound::new(stages, scratch, needs, checked))
    }
}

/// Kernel bound to sizes: its launches, with compiled functions.
#[derive(Debug)]
pub struct Bound {
    launches: Vec<Launch>,
    patches: Vec<Vec<(usize, RuntimeArgument)>>,
    /// Launches that are left out where two addresses are equal, by index.
    unless_same: Vec<(usize, [RuntimeArgument; 2])>,
    /// Bytes of each region of scratch memory.
    scratch: Vec<usize>,
    /// Minimum size of each operand, in bytes.
    needs: Vec<(u16, usize)>,
    /// Bytes of the inter-block exchange buffer.
    told: usize,
    /// Whether a launch may report an out-of-range index.
    pub checked: bool,
}

impl Bound {
    /// Binds launches that run in order.
    pub fn new(stages: Vec<Stage>, scratch: Vec<usize>, needs: Vec<(u16, usize)>, checked: bool) -> Bound {
        let patches: Vec<_> = stages.iter().map(|s| s.patches.clone()).collect();
        let told =
            |&(_, word): &(usize, RuntimeArgument)| if let RuntimeArgument::Exchange(bytes) = word { bytes } else { 0 };
        let told = patches.iter().flatten().map(told).max().unwrap_or(0);
        let unless_same = stages.iter().enumerate().filter_map(|(i, s)| Some((i, s.unless_same?))).collect();
        let launch = |s: Stage| Launch {
            function: s.function,
            grid: s.grid,
            block: s.block,
            shared: s.shared,
            arguments: s.words,
            early: true,
        };
        let launches = stages.into_iter().map(launch).collect();
        Bound { launches, patches, unless_same, scratch, needs, told, checked }
    }

    /// Launches of the kernel; their argument words that depend on the run are not set.
    pub fn launches(&self) -> &[Launch] {
        &self.launches
    }

    /// Bytes in use by scratch memory while the launches are submitted.
    pub fn temporary(&self) -> usize {
        self.scratch.iter().map(|&bytes| granted(bytes)).sum()
    }

    /// Functions of the launches, with their registers and spilled bytes.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.launches.iter().map(|l| &l.function)
    }

    /// Adds the launches to the thread's open batch, or runs them in one of their own and waits for their checks.
    ///
    /// # Errors
    /// As [`Bound::run`], and [`Error::Index`] where an index of a batch of its own is out of range.
    ///
    /// # Panics
    /// When an operand is too small.
    pub fn launch(
        &self,
        queues: &Queues,
        pool: &Arc<Pool>,
        operands: &[&Buffer],
        scalars: &[u64],
    ) -> Result<(), Error> {
        let queue = queues.mine()?;
        let mut run = || self.run(queues, pool, operands, scalars);
        if queue.is_open() {
            return run();
        }
        match queue.batch(None, false, &mut run)?.check.map(|check| check.outcome()).transpose()? {
            Some(found) if !found.is_empty() => Err(Error::Index("an index is out of range".into())),
            _ => Ok(()),
        }
    }

    /// Adds the launches to the thread's open batch.
    ///
    /// # Errors
    /// When there is no scratch memory, or the device refuses.
    ///
    /// # Panics
    /// When an operand is too small, or no batch is open.
    pub fn run(&self, queues: &Queues, pool: &Arc<Pool>, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        for &(operand, bytes) in &self.needs {
            let has = operands[operand as usize].bytes();
            assert!(has >= bytes, "operand {operand} is reached up to byte {bytes}, and has {has}");
        }
        let (queue, missing) = (queues.mine()?, &|other| queues.make_whole(other));
        let scratch: Result<Vec<Buffer>, Error> = self.scratch.iter().map(|&bytes| pool.allocate(bytes)).collect();
        let (scratch, fault) = (scratch?, queue.begin(self.checked)?);
        if !scratch.is_empty() {
            count(|c| c.scratch_bytes += self.scratch.iter().sum::<usize>() as u64);
        }
        let all = operands.iter().copied().chain(&scratch);
        all.into_iter().try_for_each(|buffer| queue.uses(buffer, missing))?;
        let told = if self.told == 0 { 0 } else { queue.exchange_buffer(self.told)? };
        let address = |b: &Buffer, offset| (b.address() as u64).wrapping_add_signed(offset);
        let of_argument = |argument: &RuntimeArgument| match *argument {
            RuntimeArgument::Operand(o, offset) => Some(address(operands[o as usize], offset)),
            RuntimeArgument::Scratch(s, offset) => Some(address(&scratch[s as usize], offset)),
            _ => None,
        };
        let is_left_out = |n: usize| {
            let own = self.unless_same.iter().find(|(i, _)| *i == n);
            own.is_some_and(|(_, [a, b])| of_argument(a) == of_argument(b))
        };
        for (n, (launch, patches)) in self.launches.iter().zip(&self.patches).enumerate() {
            if is_left_out(n) {
                continue;
            }
            queue.launch(launch, &mut |words| {
                let mut addresses = 0;
                for &(at, word) in patches {
                    let address = match word {
                        RuntimeArgument::Operand(o, offset) | RuntimeArgument::TensorMap(o, offset) => {
                            address(operands[o as usize], offset)
                        }
                        RuntimeArgument::Scratch(s, offset) | RuntimeArgument::ScratchTensorMap(s, offset) => {
                            address(&scratch[s as usize], offset)
                        }
                        RuntimeArgument::Exchange(_) => told,
                        _ => 0,
                    };
                    match word {
                        RuntimeArgument::TensorMap(..) | RuntimeArgument::ScratchTensorMap(..) => {
                            queue.driver().place(&mut words[at..][..MAP_WORDS], address)
                        }
                        RuntimeArgument::Operand(..) | RuntimeArgument::Scratch(..) | RuntimeArgument::Exchange(_) => {
                            words[at] = address
                        }
                        RuntimeArgument::Scalar(s) => words[at] = scalars[s as usize],
                        RuntimeArgument::Reciprocal(s, true) => {
                            words[at] = (1.0 / f64::from_bits(scalars[s as usize])).to_bits()
                        }
                        RuntimeArgument::Reciprocal(s, false) => {
                            words[at] = u64::from((1.0 / f32::from_bits(scalars[s as usize] as u32)).to_bits());
                        }
                        RuntimeArgument::Fault => words[at] = fault,
                        RuntimeArgument::Counters => words[at] = queue.counters(),
                    }
                    if address != 0 {
                        addresses = mix(addresses, address);
                    }
                }
                addresses
            })?;
        }
        Ok(())
    }
}
