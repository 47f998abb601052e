//! Warp-specialized TMA GEMM: its class key.

pub(crate) mod boxes;
pub mod emit;
pub mod params;
pub(crate) mod select;

use crate::kernels::gemm::{BodyClass, EpilogueShape, LINE_ELEMENTS, PassThreads};
use thalweg_ir::DType;

/// Terms (K) per pipeline step: as many as a line in shared memory has.
pub const TERMS: u32 = LINE_ELEMENTS;

/// Bytes of an mbarrier in shared memory.
pub const BARRIER: u32 = 8;

/// Tile that a team of consumer warpgroups computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TmaTile {
    /// Consumer warpgroups per tile, one or two. Two divide its rows.
    pub team: u32,
    /// Number of rows (M) of the tile: 64 or 128.
    pub m: u32,
    /// Number of columns (N) of the tile.
    pub n: u32,
    /// Number of pipeline stages in shared memory.
    pub stages: u32,
}

/// Memory layout of an operand (A or B).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TmaFactor {
    /// Whether terms are neighbours in memory (K-major).
    pub along: bool,
    /// Number of dimensions of the operand's terms.
    pub terms: u8,
    /// Number of dimensions of the operand's lines.
    pub lines: u8,
    /// Number of batch dimensions of the operand.
    pub batch: u8,
    /// Number of neighbouring result columns per thread, if the lines of B are interleaved: permuted in shared memory,
    /// so that `wgmma` assigns neighbouring columns to one thread. 0 if lines keep their order in memory.
    pub interleaved: u8,
}

/// Class key of a TMA GEMM: the properties that decide the source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TmaGemmClass {
    /// Dtype of A and B.
    pub dtype: DType,
    /// Tile of a team of consumer warpgroups.
    pub tile: TmaTile,
    /// Number of batch dimensions.
    pub batch: u8,
    /// Memory layouts of A and B.
    pub factors: [TmaFactor; 2],
    /// Epilogue, and the operand index by which it reads the accumulators.
    pub result: (BodyClass, u16),
    /// Number of products in one launch.
    pub products: u32,
    /// Whether the last lines of B, which do not fill a tile, are copied in memory order although the other lines are
    /// interleaved.
    pub rest: bool,
}

impl TmaGemmClass {
    /// Number of elements of operand A (0) or B (1) in a pipeline stage.
    pub fn all(&self, factor: usize) -> u32 {
        TERMS * if factor == 0 { self.tile.m } else { self.tile.n }
    }

    /// Threads per block: two teams of consumers that alternate between multiplying and the epilogue, and a producer
    /// warpgroup, of which one thread issues the TMA copies.
    pub fn threads(&self) -> u32 {
        (2 * self.tile.team + 1) * 128
    }

    /// Number of rows that a warpgroup computes.
    pub fn rows(&self) -> u32 {
        self.tile.m / self.tile.team
    }

    /// Number of neighbouring columns per thread, if columns are interleaved; 0 if a thread has pairs of columns.
    pub fn interleaved(&self) -> u32 {
        self.factors[1].interleaved.into()
    }

    /// Offset in bytes of the warps' epilogue buffers in shared memory.
    fn sums_at(&self) -> u32 {
        self.tile.stages * (self.all(0) + self.all(1)) * 2
    }

    /// Shape of the epilogue: number and size of its passes, and the threads that run each.
    pub fn epilogue(&self) -> EpilogueShape<'_> {
        let (result, sums) = (&self.result, DType::F32);
        if self.interleaved() > 0 {
            let columns = 4 * self.interleaved();
            let across = self.tile.n / columns;
            return EpilogueShape {
                result,
                sums,
                rows: 8,
                columns,
                passes: self.rows() / 8 * across / 4,
                by: PassThreads::Thread { across },
                staged: false,
            };
        }
        // With teams of two warpgroups a thread has half the registers, and the epilogue's loads wait in them.
        let alone = self.result.0.loads(self.result.1) == 0;
        let columns = if self.tile.team == 1 || alone { 64 } else { 32 };
        let across = self.tile.n / columns;
        let by = PassThreads::Warp { at: self.sums_at(), across };
        EpilogueShape { result, sums, rows: 16, columns, passes: self.rows() / 64 * across, by, staged: false }
    }

    /// Offset in bytes of the mbarriers in shared memory.
    pub fn barriers_at(&self) -> u32 {
        let room = if self.interleaved() > 0 { 0 } else { self.epilogue().bytes() };
        self.sums_at() + 8 * self.tile.team * room
    }

    /// Bytes of shared memory of a block.
    pub fn shared(&self) -> u32 {
        self.barriers_at() + (2 * self.tile.stages + 2) * BARRIER
    }
}
