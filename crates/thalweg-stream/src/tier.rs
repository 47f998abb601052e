//! By what a segment ran: how much was known of it by then. ../../../docs/tiers.md has the idea.

use std::fmt;

/// By what a segment ran.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tier {
    /// One kernel an operation, by programs that exist: new, and its operations are small.
    Singles,
    /// The first legal plan, improved for as long as pays in one run: new, and its operations are large.
    Quick,
    /// The plan that a search has found, in this process.
    Searched,
    /// The plan that an earlier process has left on disk, or one that came with the program.
    Disk,
    /// One of several plans that take turns, to be measured.
    Competing,
    /// The plan that was the fastest of several, measured in this process or an earlier one.
    Measured,
    /// Not by kernels, but by the reference interpreter.
    Reference,
}

impl Tier {
    /// 0 at first sight, 1 by a plan, 2 by one that was measured.
    pub fn number(self) -> u8 {
        match self {
            Tier::Singles | Tier::Quick => 0,
            Tier::Searched | Tier::Disk | Tier::Reference => 1,
            Tier::Competing | Tier::Measured => 2,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tier::Singles => "0: new, one kernel an operation",
            Tier::Quick => "0: new and large, a quick plan",
            Tier::Searched => "1: a plan searched for",
            Tier::Disk => "1: a plan from disk",
            Tier::Competing => "2: plans take turns",
            Tier::Measured => "2: the fastest by measurement",
            Tier::Reference => "the reference interpreter",
        })
    }
}

/// A segment that ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierRun {
    /// By what.
    pub tier: Tier,
    /// Its operations.
    pub operations: usize,
    /// Its launches.
    pub kernels: usize,
}
