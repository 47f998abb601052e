//! Figures of the machine by which programs are cut. The planner asks for them ([`machine`]) instead of repeating them.

use thalweg_kernel::Machine;

/// Bytes of a core's private caches that programs are cut for: second-level caches have 512 KiB to 2 MiB.
pub const PRIVATE_CACHE: usize = 512 << 10;
/// If the columns of a source are a multiple of this many bytes apart, they map to few cache sets and evict each other
/// before their lines are used up. Such blocks are packed first (measured on 4096² f32: 5.6 ns an element without
/// packing; gathers of other strides 0.3).
pub const CONFLICT_STRIDE: usize = 1024;
/// Minimum columns of a strip that are worth a chunk, and maximum columns where width alone matters.
pub const STRIP_COLUMNS: (usize, usize) = (64, 2048);
/// Maximum columns of a matrix that runs as joined long rows: its short rows would leave vectors partly empty.
pub const MAX_JOINED_COLUMNS: usize = 128;
/// Maximum points of a call through tables: 8 KiB per table, which stays in the first-level cache.
pub const MAX_TABLE_POINTS: usize = 2048;

/// These figures, for the planner. (Those of a process whose thresholds are drawn at random are the same: plans do not
/// depend on the draw.)
pub fn machine() -> Machine {
    Machine {
        private_cache: PRIVATE_CACHE as u64,
        conflict_stride: CONFLICT_STRIDE as u64,
        strip_columns: (STRIP_COLUMNS.0 as u64, STRIP_COLUMNS.1 as u64),
        joined_columns: MAX_JOINED_COLUMNS as u64,
        table_points: MAX_TABLE_POINTS as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_without_a_device_are_those_for_this_one() {
        assert_eq!(machine(), Machine::default());
    }
}
