//! Sorts of rows in memory: merge sorts, and radix sorts of long rows.

pub mod merge;
pub mod radix;
