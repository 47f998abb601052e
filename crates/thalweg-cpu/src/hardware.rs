//! Parameters of the CPU (cache sizes, strides that conflict) that determine blocks and chunks of programs. The planner
//! asks for them ([`machine`]) instead of repeating them.

use thalweg_kernel::Machine;

/// Bytes of a core's private caches that blocks of programs are sized for: second-level caches have 512 KiB to 2 MiB.
pub const PRIVATE_CACHE: usize = 512 << 10;
/// Stride of cache conflicts, in bytes. Columns of a source that are a multiple of it apart map to few cache sets, and
/// evict each other before their lines are used up. Blocks of such a source are packed first (measured on 4096² f32:
/// 5.6 ns an element without packing; gathers of other strides 0.3).
pub const CONFLICT_STRIDE: usize = 1024;
/// Width of a strip, in columns, of a reduction over an outer axis: the minimum that is worth a chunk of its own, and
/// the maximum, which bodies with a single pass use.
pub const STRIP_COLUMNS: (usize, usize) = (64, 2048);
/// Maximum number of columns of a matrix that runs as joined long rows: its short rows would leave vectors partly
/// empty.
pub const MAX_JOINED_COLUMNS: usize = 128;
/// Maximum number of points of a call that reads through position tables (4 bytes a point): 8 KiB per table, which
/// stays in the first-level cache.
pub const MAX_TABLE_POINTS: usize = 2048;

/// Number of points of a call through tables of positions below which the innermost dimensions of a map are joined, and
/// minimum factor by which joining dimensions must lengthen the calls of a map.
pub const JOINED_TABLES: (usize, usize) = (256, 8);

/// Minimum number of points of a row at which a strided access that rows read again is packed before a launch, and maximum
/// bytes of its elements: half of the private caches.
pub const REPACKED: (usize, usize) = (16, PRIVATE_CACHE / 2);

/// Maximum distance in bytes of elements that the lanes of a vector read through a table of positions by permutations of
/// two consecutive cache lines: that of the last element of the second line, where the first element is last in the first.
pub const CLOSE_BYTES: usize = 64;

/// Returns the parameters of this module for the planner. A process whose tunables are drawn at random (a test mode)
/// gets the same ones: plans do not depend on the draw.
pub fn machine() -> Machine {
    Machine {
        private_cache: PRIVATE_CACHE as u64,
        conflict_stride: CONFLICT_STRIDE as u64,
        strip_columns: (STRIP_COLUMNS.0 as u64, STRIP_COLUMNS.1 as u64),
        joined_columns: MAX_JOINED_COLUMNS as u64,
        table_points: MAX_TABLE_POINTS as u64,
        joined_tables: (JOINED_TABLES.0 as u64, JOINED_TABLES.1 as u64),
        least_run: 4,
        repacked: (REPACKED.0 as u64, REPACKED.1 as u64),
        close_bytes: CLOSE_BYTES as u64,
        merged_nodes: 0,
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
