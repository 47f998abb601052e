//! Bound kernels: what one launch of a geometry puts in the queue.
//!
//! In: functions with the words of their arguments, and which of these words change from run to run. Out: launches,
//! their words patched in place. Nothing is allocated on the way but scratch memory from the pool, which is free for
//! the queue's next user as soon as the launches are queued.

use crate::batch::mix;
use crate::driver::{Function, Launch, MAP_WORDS};
use crate::queues::Queues;
use std::sync::Arc;
use thalweg_runtime::{Buffer, Error, Pool, count};

/// A word that changes from run to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Word {
    /// The address of an operand, plus so many bytes.
    Operand(u16, i64),
    /// A scalar.
    Scalar(u16),
    /// The reciprocal of one, as f64 or as f32.
    Reciprocal(u16, bool),
    /// The address of a region of scratch memory, plus so many bytes.
    Scratch(u16, i64),
    /// The map of an operand, [`MAP_WORDS`] words, whose first element is so many bytes behind its address.
    Map(u16, i64),
    /// The same of a region of scratch memory.
    ScratchMap(u16, i64),
    /// Where an index out of range is told.
    Fault,
    /// Counters that are 0 between launches.
    Counters,
    /// Memory of so many bytes in which blocks of a launch tell each other something, in words that also say which
    /// launch wrote them.
    Told(usize),
}

/// One launch of a bound kernel.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What runs.
    pub function: Function,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Words that stay.
    pub words: Vec<u64>,
    /// Words that change.
    pub patches: Vec<(usize, Word)>,
}

/// A kernel with its sizes.
#[derive(Debug)]
pub struct Bound {
    launches: Vec<Launch>,
    patches: Vec<Vec<(usize, Word)>>,
    /// Bytes of each region of scratch memory.
    scratch: Vec<usize>,
    /// The bytes that each operand must have.
    needs: Vec<(u16, usize)>,
    /// Bytes in which the blocks of its launches tell each other something.
    told: usize,
    /// Whether an index may be out of range.
    pub checked: bool,
}

impl Bound {
    /// Of stages that run one after the other.
    pub fn new(stages: Vec<Stage>, scratch: Vec<usize>, needs: Vec<(u16, usize)>, checked: bool) -> Bound {
        let patches: Vec<_> = stages.iter().map(|s| s.patches.clone()).collect();
        let told = |&(_, word): &(usize, Word)| if let Word::Told(bytes) = word { bytes } else { 0 };
        let told = patches.iter().flatten().map(told).max().unwrap_or(0);
        let launch = |s: Stage| Launch {
            function: s.function,
            grid: s.grid,
            block: s.block,
            shared: s.shared,
            arguments: s.words,
            early: true,
        };
        Bound { launches: stages.into_iter().map(launch).collect(), patches, scratch, needs, told, checked }
    }

    /// Its launches, with arguments that are not all set.
    pub fn launches(&self) -> &[Launch] {
        &self.launches
    }

    /// Registers, spilled bytes and the like of its functions.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.launches.iter().map(|l| &l.function)
    }

    /// Puts the launches in the thread's batch, which is open.
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
        let told = if self.told == 0 { 0 } else { queue.told(self.told)? };
        let address = |b: &Buffer, offset| (b.address() as u64).wrapping_add_signed(offset);
        for (launch, patches) in self.launches.iter().zip(&self.patches) {
            queue.launch(launch, &mut |words| {
                let mut addresses = 0;
                for &(at, word) in patches {
                    let address = match word {
                        Word::Operand(o, offset) | Word::Map(o, offset) => address(operands[o as usize], offset),
                        Word::Scratch(s, offset) | Word::ScratchMap(s, offset) => address(&scratch[s as usize], offset),
                        Word::Told(_) => told,
                        _ => 0,
                    };
                    match word {
                        Word::Map(..) | Word::ScratchMap(..) => {
                            queue.driver().place(&mut words[at..][..MAP_WORDS], address)
                        }
                        Word::Operand(..) | Word::Scratch(..) | Word::Told(_) => words[at] = address,
                        Word::Scalar(s) => words[at] = scalars[s as usize],
                        Word::Reciprocal(s, true) => words[at] = (1.0 / f64::from_bits(scalars[s as usize])).to_bits(),
                        Word::Reciprocal(s, false) => {
                            words[at] = u64::from((1.0 / f32::from_bits(scalars[s as usize] as u32)).to_bits());
                        }
                        Word::Fault => words[at] = fault,
                        Word::Counters => words[at] = queue.counters(),
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
