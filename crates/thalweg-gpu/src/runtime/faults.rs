//! Fault slots: reports of out-of-range indices by launches, and their checks.
//!
//! In: launches that may meet such an index, or a matrix that has no decomposition. Out: a 64-bit word of device memory
//! for each, which the launch sets. Later a check asks whether it did, and reads the report. Nobody waits before that.
//!
//! Slots are allocated in chunks. When all are in use, all batches that have ended are checked. Where a single batch
//! uses them all, another chunk is allocated, so that a run may have any number of launches with indices.
//!
//! Always true: a slot is 0 when a launch gets it, and nobody else's until its [`Faulted`] is dropped or checked.

use super::driver::Driver;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use thalweg_runtime::{Check, Error, FailedCheck};

/// Bytes of a fault slot in device memory.
const BYTES: usize = 8;

/// Fault slots of a device, each of which one launch reports an out-of-range index to.
#[derive(Debug)]
pub struct Faults {
    driver: Arc<dyn Driver>,
    /// Number of slots in a chunk of device memory.
    chunk: usize,
    words: Mutex<Words>,
}

#[derive(Debug)]
struct Words {
    /// Addresses of the chunks. Slot `n` is in chunk `n / chunk`.
    chunks: Vec<u64>,
    /// Free slots whose value is 0.
    clean: Vec<u32>,
    /// Free slots that must be zeroed before they are used.
    dirty: Vec<u32>,
    /// Ended batches whose slots have not been read yet.
    out: Vec<Weak<Faulted>>,
}

/// Values read from slots: for each chunk, its first slot that was read, and the bytes from there on.
struct SlotValues(Vec<(u32, Vec<u8>)>);

impl SlotValues {
    fn at(&self, word: u32) -> u64 {
        let of = |(first, bytes): &&(u32, Vec<u8>)| *first <= word && (word - first) as usize * BYTES < bytes.len();
        let (first, bytes) = self.0.iter().find(of).expect("it was read");
        let bytes = &bytes[BYTES * (word - first) as usize..][..BYTES];
        u64::from_le_bytes(bytes.try_into().expect("as many as it has"))
    }
}

/// Fault slots of a batch whose launches may have met an out-of-range index.
#[derive(Debug)]
pub struct Faulted {
    faults: Arc<Faults>,
    /// Fault slots, each with the number of its program in the batch.
    words: Vec<(u32, u32)>,
    outcome: OnceLock<Result<Vec<FailedCheck>, Error>>,
}

impl Faults {
    /// Allocates the first fault slots of a device; `None` where there is no memory.
    pub fn new(driver: Arc<dyn Driver>) -> Option<Arc<Faults>> {
        let words = Words { chunks: vec![], clean: vec![], dirty: vec![], out: vec![] };
        let chunk = driver.chip().faults;
        let faults = Arc::new(Faults { driver, chunk, words: Mutex::new(words) });
        let grown = faults.grow(&mut faults.words());
        grown.then_some(faults)
    }

    /// Allocates another chunk of slots; `false` where there is no memory.
    fn grow(&self, words: &mut Words) -> bool {
        let Some(base) = self.driver.obtain(BYTES * self.chunk) else { return false };
        let first = (words.chunks.len() * self.chunk) as u32;
        words.chunks.push(base);
        words.dirty.extend(first..first + self.chunk as u32);
        true
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Device address of a slot.
    pub fn address(&self, word: u32) -> u64 {
        self.address_in(&self.words().chunks, word)
    }

    fn address_in(&self, chunks: &[u64], word: u32) -> u64 {
        chunks[word as usize / self.chunk] + (BYTES * (word as usize % self.chunk)) as u64
    }

    /// Takes a slot that is 0 for work that is submitted from now on.
    ///
    /// # Errors
    /// When the device fails, or has no memory.
    pub fn take(&self) -> Result<u32, Error> {
        let mut words = self.words();
        if words.clean.is_empty() && words.dirty.is_empty() {
            drop(words);
            self.ask_all()?;
            words = self.words();
        }
        let none = || Error::OutOfMemory {
            requested: BYTES * self.chunk,
            in_use: 0,
            limit: None,
            device: self.driver.chip().name.clone(),
        };
        // Whether the open batch alone has taken all slots.
        let out = words.clean.is_empty() && words.dirty.is_empty();
        if !out || self.grow(&mut words) {
            if words.clean.is_empty() {
                self.clean(&mut words)?;
            }
            return words.clean.pop().ok_or_else(none);
        }
        Err(none())
    }

    /// Zeroes the free slots that are dirty.
    fn clean(&self, words: &mut Words) -> Result<(), Error> {
        let mut dirty = std::mem::take(&mut words.dirty);
        dirty.sort_unstable();
        for run in dirty.chunk_by(|a, b| self.are_neighbours(*a, *b)) {
            self.driver.fill(self.address_in(&words.chunks, run[0]), 0, BYTES * run.len())?;
        }
        // The next slots to be taken are neighbours, so that one read gets a run's slots.
        words.clean.extend(dirty.iter().rev());
        Ok(())
    }

    /// Checks all batches that have ended and are not checked yet.
    fn ask_all(&self) -> Result<(), Error> {
        let out: Vec<Arc<Faulted>> = self.words().out.drain(..).filter_map(|f| f.upgrade()).collect();
        self.ask(&out)
    }

    /// Reads the slots of several batches at once, and records the outcome of each.
    fn ask(&self, all: &[Arc<Faulted>]) -> Result<(), Error> {
        if all.is_empty() {
            return Ok(());
        }
        let known = self.read(all.iter().flat_map(|f| &f.words))?;
        for faulted in all {
            let outcome = faulted.set(&known);
            faulted.outcome.get_or_init(|| {
                self.give_back(faulted, outcome.is_empty());
                Ok(outcome)
            });
        }
        Ok(())
    }

    /// Submits an assertion that all of these slots are 0; `false` where the device has no assertions.
    fn assert<'a>(&self, words: impl Iterator<Item = &'a (u32, u32)>) -> Result<bool, Error> {
        let mut all: Vec<u32> = words.map(|w| w.0).collect();
        all.sort_unstable();
        for run in all.chunk_by(|a, b| self.are_neighbours(*a, *b)) {
            if !self.driver.assert_zero(self.address(run[0]), run.len())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether slot `b` is behind `a` in the same chunk.
    fn are_neighbours(&self, a: u32, b: u32) -> bool {
        a + 1 == b && !(b as usize).is_multiple_of(self.chunk)
    }

    /// Reads the values of these slots, by one read for each chunk, from its first slot in use to its last one.
    fn read<'a>(&self, words: impl Iterator<Item = &'a (u32, u32)>) -> Result<SlotValues, Error> {
        let mut all: Vec<u32> = words.map(|w| w.0).collect();
        all.sort_unstable();
        let same = |a: &u32, b: &u32| *a as usize / self.chunk == *b as usize / self.chunk;
        let of_chunk = |words: &[u32]| {
            let (first, last) = (words[0], words[words.len() - 1]);
            let mut bytes = vec![0; BYTES * (last - first + 1) as usize];
            self.driver.read(self.address(first), &mut bytes).map(|()| (first, bytes))
        };
        all.chunk_by(same).map(of_chunk).collect::<Result<_, Error>>().map(SlotValues)
    }

    fn give_back(&self, faulted: &Faulted, clean: bool) {
        let mut words = self.words();
        let own = faulted.words.iter().map(|w| w.0);
        if clean { words.clean.extend(own.rev()) } else { words.dirty.extend(own) }
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        let chunks = &self.words.get_mut().unwrap_or_else(PoisonError::into_inner).chunks;
        chunks.iter().for_each(|&base| self.driver.release(base));
    }
}

impl Faulted {
    /// Registers the slots of a batch that ends.
    pub fn new(faults: &Arc<Faults>, words: Vec<(u32, u32)>) -> Arc<Faulted> {
        let faulted = Arc::new(Faulted { faults: faults.clone(), words, outcome: OnceLock::new() });
        let mut words = faults.words();
        if words.out.len() >= faults.chunk {
            words.out.retain(|f| f.strong_count() > 0);
        }
        words.out.push(Arc::downgrade(&faulted));
        drop(words);
        faulted
    }

    /// Failed checks of a batch: its programs whose slots are not 0.
    fn set(&self, known: &SlotValues) -> Vec<FailedCheck> {
        let all = self.words.iter().map(|&(at, program)| FailedCheck { launch: program as usize, word: known.at(at) });
        all.filter(|found| found.word != 0).collect()
    }
}

impl Check for Faulted {
    fn outcome(&self) -> Result<Vec<FailedCheck>, Error> {
        // All batches submitted before have ended by now, too: after a long loop without reads, all are checked at
        // once. A failure is reported below.
        if self.outcome.get().is_none() {
            let _ = self.faults.ask_all();
        }
        // Another thread may be checking this batch, and have no outcome yet.
        let asked = || {
            let outcome = self.faults.read(self.words.iter()).map(|known| self.set(&known));
            self.faults.give_back(self, outcome.as_ref().is_ok_and(Vec::is_empty));
            outcome
        };
        self.outcome.get_or_init(asked).clone()
    }

    fn assert(&self) -> Result<bool, Error> {
        if let Some(known) = self.outcome.get() {
            return Ok(known.as_ref().is_ok_and(Vec::is_empty));
        }
        if !self.faults.assert(self.words.iter())? {
            return Ok(false);
        }
        // Launches that get the slots next run after the assertion.
        let passed = || {
            self.faults.give_back(self, true);
            Ok(vec![])
        };
        Ok(self.outcome.get_or_init(passed).as_ref().is_ok_and(Vec::is_empty))
    }
}

impl Drop for Faulted {
    fn drop(&mut self) {
        if self.outcome.get().is_none() {
            self.faults.give_back(self, false);
        }
    }
}
