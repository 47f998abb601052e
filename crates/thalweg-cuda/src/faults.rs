//! Where launches tell of indices out of range, and who asks.
//!
//! In: launches that may meet such an index, or a matrix that has no decomposition. Out: a word of 64 bits of device memory
//! for each, which it sets; and later, when somebody asks, whether it did, and to what. Nobody waits before that.
//!
//! Always true: a word is 0 when a launch is given it, and nobody else's until its [`Faulted`] is gone or has been
//! asked.

use crate::driver::Driver;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use thalweg_runtime::{Check, Error, Found};

/// Words in all, of [`BYTES`] each. When all are out, everybody is asked for at once.
const WORDS: usize = 4096;
const BYTES: usize = 8;

/// The words of a device.
#[derive(Debug)]
pub struct Faults {
    driver: Arc<dyn Driver>,
    base: u64,
    words: Mutex<Words>,
}

#[derive(Debug)]
struct Words {
    /// Free, and 0.
    clean: Vec<u32>,
    /// Free, and perhaps not 0.
    dirty: Vec<u32>,
    /// Those out, in batches that have ended.
    out: Vec<Weak<Faulted>>,
}

/// What stood in words, from the first one that was read on.
struct Known {
    first: u32,
    bytes: Vec<u8>,
}

impl Known {
    fn at(&self, word: u32) -> u64 {
        let bytes = &self.bytes[BYTES * (word - self.first) as usize..][..BYTES];
        u64::from_le_bytes(bytes.try_into().expect("as many as it has"))
    }
}

/// Launches of a batch that may have met an index out of range.
#[derive(Debug)]
pub struct Faulted {
    faults: Arc<Faults>,
    /// Words, and the number of the program that has each.
    words: Vec<(u32, u32)>,
    outcome: OnceLock<Result<Vec<Found>, Error>>,
}

impl Faults {
    /// Words on that device; `None` where there is no memory.
    pub fn new(driver: Arc<dyn Driver>) -> Option<Arc<Faults>> {
        let base = driver.obtain(BYTES * WORDS)?;
        let words = Words { clean: vec![], dirty: (0..WORDS as u32).collect(), out: vec![] };
        Some(Arc::new(Faults { driver, base, words: Mutex::new(words) }))
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a word.
    pub fn address(&self, word: u32) -> u64 {
        self.base + BYTES as u64 * u64::from(word)
    }

    /// A word that is 0 for what is put in the queue from now on.
    ///
    /// # Errors
    /// When the device fails, or one batch wants more words than there are.
    pub fn take(&self) -> Result<u32, Error> {
        let mut words = self.words();
        if words.clean.is_empty() && words.dirty.is_empty() {
            drop(words);
            self.ask_all()?;
            words = self.words();
        }
        if words.clean.is_empty() {
            self.clean(&mut words)?;
        }
        words
            .clean
            .pop()
            .ok_or_else(|| Error::Value("more launches with indices in one run than there are words for".into()))
    }

    /// Sets free words to 0.
    fn clean(&self, words: &mut Words) -> Result<(), Error> {
        let mut dirty = std::mem::take(&mut words.dirty);
        dirty.sort_unstable();
        for stretch in dirty.chunk_by(|a, b| a + 1 == *b) {
            self.driver.fill(self.address(stretch[0]), 0, BYTES * stretch.len())?;
        }
        // The next to be taken lie side by side, so that a run's words are read at once.
        words.clean.extend(dirty.iter().rev());
        Ok(())
    }

    /// Asks about all batches that have ended.
    fn ask_all(&self) -> Result<(), Error> {
        let out: Vec<Arc<Faulted>> = self.words().out.drain(..).filter_map(|f| f.upgrade()).collect();
        self.ask(&out)
    }

    /// Asks about several batches at once.
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

    /// What stands in these words: all that lies between them is read at once.
    fn read<'a>(&self, words: impl Iterator<Item = &'a (u32, u32)> + Clone) -> Result<Known, Error> {
        let all = words.map(|w| w.0);
        let (first, last) = (all.clone().min().unwrap_or(0), all.max().unwrap_or(0));
        let mut bytes = vec![0; BYTES * (last - first + 1) as usize];
        self.driver.read(self.address(first), &mut bytes)?;
        Ok(Known { first, bytes })
    }

    fn give_back(&self, faulted: &Faulted, clean: bool) {
        let mut words = self.words();
        let own = faulted.words.iter().map(|w| w.0);
        if clean { words.clean.extend(own.rev()) } else { words.dirty.extend(own) }
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.driver.release(self.base);
    }
}

impl Faulted {
    /// The launches that have these words.
    pub fn new(faults: &Arc<Faults>, words: Vec<(u32, u32)>) -> Arc<Faulted> {
        let faulted = Arc::new(Faulted { faults: faults.clone(), words, outcome: OnceLock::new() });
        let mut words = faults.words();
        if words.out.len() >= WORDS {
            words.out.retain(|f| f.strong_count() > 0);
        }
        words.out.push(Arc::downgrade(&faulted));
        drop(words);
        faulted
    }

    /// The programs whose words are set, and the words.
    fn set(&self, known: &Known) -> Vec<Found> {
        let all = self.words.iter().map(|&(at, program)| Found { launch: program as usize, word: known.at(at) });
        all.filter(|found| found.word != 0).collect()
    }
}

impl Check for Faulted {
    fn outcome(&self) -> Result<Vec<Found>, Error> {
        // What was put in the queue before is through then, too: after a loop that nobody has read from for long all is asked
        // at once. What fails is told below.
        if self.outcome.get().is_none() {
            let _ = self.faults.ask_all();
        }
        // Another thread may be asking about this one, and not know yet.
        let asked = || {
            let outcome = self.faults.read(self.words.iter()).map(|known| self.set(&known));
            self.faults.give_back(self, outcome.as_ref().is_ok_and(Vec::is_empty));
            outcome
        };
        self.outcome.get_or_init(asked).clone()
    }
}

impl Drop for Faulted {
    fn drop(&mut self) {
        if self.outcome.get().is_none() {
            self.faults.give_back(self, false);
        }
    }
}
