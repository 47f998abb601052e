//! Checks cold starts: a program gives the same values before it has a plan, during the search, and afterwards; also
//! with tiers switched on and off.

use super::{Checker, Drops, FAST, STRICT};
use crate::program::Program;
use crate::stability::Stability;
use crate::tuning;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_runtime::{Counters, counters};
use thalweg_stream::{Mode, clear_plans, finish_searches, set_deferring, set_tiers};

/// For each of seven runs of a program, whether tiers are on. Before the fifth run, the searches that earlier runs
/// requested have finished.
const TURNS: [bool; 7] = [true, true, false, true, true, true, true];
const SEARCHED: usize = 4;

/// Number of kernels that the generic kernels of a GPU have run.
static GENERIC_KERNELS: AtomicU64 = AtomicU64::new(0);

/// Number of kernels that the generic kernels (interpreters) of a GPU have run so far.
pub fn generic_kernels() -> u64 {
    GENERIC_KERNELS.load(Relaxed)
}

type Results = Vec<Option<Vec<u8>>>;

impl Checker {
    /// Checks cold starts: strict runs must have the bits of an unfused run in every tier, other runs be within
    /// tolerance, with the same selections in every tier; and a pattern that was met twice and searched for must have a
    /// plan.
    pub(super) fn at_cold_start(
        &self,
        (program, stability): (&Program, &Stability<'_>),
        want: &Results,
    ) -> Result<(), String> {
        for (mode, drops) in [(STRICT, Drops::Early), (STRICT, Drops::Cut(3)), (FAST, Drops::Early)] {
            let (all, moved) = self.turns(program, mode, drops)?;
            for (turn, got) in all.iter().enumerate() {
                let what = format!("at a cold start, run {turn} of {mode:?}");
                match mode.strict {
                    true => self.equal(program, got, want, &what)?,
                    false => {
                        self.close((program, stability), got, want).map_err(|e| format!("{what}: {e}"))?;
                        // Values that cross segments may differ by a rounding.
                        if moved.iter().all(|c| c.segments <= 1) {
                            let what = format!("{what}, selected otherwise than by the first");
                            self.equal_selections(program, got, &all[0], &what)?;
                        }
                    }
                }
            }
            let late: u64 = moved[SEARCHED..].iter().map(|c| c.cold_starts).sum();
            GENERIC_KERNELS.fetch_add(moved.iter().map(|c| c.generic_kernels).sum(), Relaxed);
            if drops == Drops::Early && late > 0 && tuning::keeps_plans() {
                return Err(format!("{late} segments run without a plan after it was searched for"));
            }
        }
        Ok(())
    }

    /// Runs the program as [`TURNS`] says, on a thread without plans; returns the results of each run, and the change
    /// of the counters by it.
    fn turns(&self, program: &Program, mode: Mode, drops: Drops) -> Result<(Vec<Results>, Vec<Counters>), String> {
        clear_plans();
        let run = || -> Result<(Vec<Results>, Vec<Counters>), String> {
            set_deferring(false);
            let (mut all, mut moved) = (vec![], vec![]);
            for (turn, &tiers) in TURNS.iter().enumerate() {
                if turn == SEARCHED {
                    finish_searches();
                }
                set_tiers(tiers);
                let before = counters();
                let values = self
                    .run_on(self.new_code, program, mode, drops, false)
                    .map_err(|e| format!("at a cold start: {e}"));
                all.push(values?);
                moved.push(counters() - before);
            }
            Ok((all, moved))
        };
        std::thread::scope(|s| s.spawn(run).join()).map_err(|_| "at a cold start: a thread panicked".to_string())?
    }
}
