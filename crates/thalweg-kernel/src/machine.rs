//! Facts about the machine behind a device, for the planner.

use crate::merged::MERGED_NODES;

/// Facts about a device's machine that decide how its programs cut a kernel: `Device::machine` reports them, the cost
/// model counts calls, strips and cache misses by them. Times are no facts; they are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Bytes of a core's private caches that programs are sized for. They bound a strip of an outer-axis reduction, and
    /// a row that is read several times.
    pub private_cache: u64,
    /// Stride in bytes at which cache lines map to few cache sets, so that they evict each other.
    pub conflict_stride: u64,
    /// Minimum and maximum number of columns of a strip of an outer-axis reduction.
    pub strip_columns: (u64, u64),
    /// Maximum number of columns of a matrix whose outer-axis reduction processes adjacent narrow rows as one long row.
    pub joined_columns: u64,
    /// Maximum number of points that one call processes if an access goes through a table of positions.
    pub table_points: u64,
    /// Number of points of a call through tables of positions below which a launch joins innermost dimensions over which
    /// results are contiguous, and minimum factor by which that lengthens the call.
    pub joined_tables: (u64, u64),
    /// Number of neighbouring points that a shorter run takes as long as, for its vector is not filled. A quarter of a
    /// vector of 4-byte elements: the rest is in the overhead of a run. 1 for a device whose lanes take points of several
    /// runs.
    pub least_run: u64,
    /// Minimum number of points of a row, and maximum bytes of its elements, at which a strided access is packed before a
    /// launch if rows read it again ([`repeated`](crate::repeated())). No bytes for a device that reads them where they
    /// are.
    pub repacked: (u64, u64),
    /// Maximum distance in bytes of elements that the lanes of a vector read through a table of positions as fast as a
    /// permutation: some lines of a cache. 0 for a device that gathers them.
    pub close_bytes: u64,
    /// Maximum number of nodes of a body that computes several boxes of a map at each point ([`merged`](crate::merged())).
    /// 0 for a device that computes one box after the other.
    pub merged_nodes: usize,
}

impl Machine {
    /// Facts of a GPU, where neighbouring lanes may take points of different runs.
    pub fn gpu() -> Machine {
        Machine { least_run: 1, repacked: (0, 0), close_bytes: 0, merged_nodes: MERGED_NODES, ..Machine::default() }
    }
}

impl Default for Machine {
    /// A core of current x86-64 servers: for plans without a device, and for devices without facts of their own.
    fn default() -> Machine {
        Machine {
            private_cache: 512 << 10,
            conflict_stride: 1024,
            strip_columns: (64, 2048),
            joined_columns: 128,
            table_points: 2048,
            joined_tables: (256, 8),
            least_run: 4,
            repacked: (16, 256 << 10),
            close_bytes: 64,
            merged_nodes: 0,
        }
    }
}
