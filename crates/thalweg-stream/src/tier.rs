//! Tiers: how much was known of a segment when it ran. ../../../docs/tiers.md has the idea.

use std::fmt;

/// Kind of plan or interpreter that a segment ran by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tier {
    /// Unfused, one kernel per operation, with programs that exist already: the segment is new and its operations are
    /// small.
    Singles,
    /// First legal plan, improved for as long as that pays within one run: the segment is new and its operations are
    /// large.
    Quick,
    /// Plan found by a search in this process.
    Searched,
    /// Plan loaded from disk: left by an earlier process, or shipped with the program.
    Disk,
    /// One of several plans that run alternately while they are measured.
    Competing,
    /// Fastest of several plans, measured in this process or an earlier one.
    Measured,
    /// Reference interpreter, without kernels.
    Reference,
}

impl Tier {
    /// Tier number: 0 for a cold start, 1 for a plan, 2 for a measured plan.
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

/// Record of one segment's run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierRun {
    /// Kind of plan that the segment ran by.
    pub tier: Tier,
    /// Number of operations of the segment.
    pub operations: usize,
    /// Number of kernel launches.
    pub kernels: usize,
}
