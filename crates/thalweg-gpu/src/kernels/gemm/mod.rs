//! Fused GEMM, one tile a block: its class key.

pub mod emit;
pub mod params;
pub(crate) mod select;
pub mod tma;

use crate::space::{Addressing, Inner, SpaceClass};
use thalweg_ir::DType;
use thalweg_kernel::{Access, Body, Node};

/// Arithmetic of a tile: the unit that multiplies, and the dtype of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Math {
    /// Tensor cores (`mma.sync`), operands of bf16 or f16.
    Narrow,
    /// Tensor cores by warpgroups (`wgmma`, sm_90a), operands of bf16 or f16 in 128-byte lines of shared memory.
    Warpgroup,
    /// Tensor cores, operands of f32 rounded to TF32.
    Tf32,
    /// CUDA cores, terms added in order.
    Plain,
}

/// Mode of the copies of operands to shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Copies {
    /// Asynchronous copies (`cp.async`), several steps ahead.
    Async,
    /// Through registers: elements are loaded before the arithmetic of a step and stored after it. For chips without
    /// asynchronous copies.
    Registers {
        /// Whether offsets of elements take 64 bits.
        wide: bool,
    },
}

/// Split-K: several blocks divide the terms of a tile. Each stores its accumulators in scratch memory, and they are added
/// in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Split {
    /// One launch: the last block of a tile to finish adds all of them and runs the epilogue.
    Exchanged,
    /// First of two launches, for chips whose blocks exchange nothing: accumulators are stored.
    Stored,
    /// Second launch: a block for each tile adds the accumulators and runs the epilogue.
    Added,
}

/// Tile of the result that a block computes, and its division among warps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Number of rows (M) of the tile.
    pub m: u32,
    /// Number of columns (N) of the tile.
    pub n: u32,
    /// Number of terms (K) per pipeline step.
    pub k: u32,
    /// Warps along rows and along columns; the product is the number of warps of the block. On CUDA cores only this
    /// product matters: the block's 256 threads form a grid of 16 × 16 over the tile.
    pub warps: [u32; 2],
    /// Number of buffers of the software pipeline in shared memory, at least 2 (double buffering): one buffer is
    /// multiplied while copies fill the others.
    pub stages: u32,
    /// Resident blocks per multiprocessor, a hint for register allocation (launch bounds).
    pub blocks: u32,
}

/// One body of a contraction (prologue or epilogue), over `[batch…, rows…, columns…]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BodyClass {
    /// Computation at a point of the domain.
    pub body: Body,
    /// Domain of the body: dimensions, lanes and addressing modes.
    pub space: SpaceClass,
    /// Number of batch and of row dimensions.
    pub groups: [u8; 2],
}

impl BodyClass {
    /// For an epilogue that only casts the accumulators and stores them to rows of any alignment (such as rows of odd
    /// length), returns the index of the store's access; for others `None`. `sums` is the operand index of the
    /// accumulators.
    pub fn stored_unaligned(&self, sums: u16) -> Option<usize> {
        let (space, body) = (&self.space, &self.body);
        let [store] = body.stores[..] else { return None };
        let (k, rank) = (store.access as usize, space.rank());
        let dtype = body.accesses[k].dtype;
        let alone = (0..body.accesses.len()).all(|i| i == k || body.accesses[i].operand == Some(sums));
        let unit = matches!(space.addressing[k], Addressing::Strided { inner: Inner::Unit, .. });
        let own = |n: &Node| matches!(n, Node::Load { .. } | Node::Cast { .. });
        let one_column = rank == (self.groups[0] + self.groups[1]) as usize + 1;
        let fits = space.lanes == 1 && alone && unit && one_column && body.nodes.iter().all(own);
        (fits && matches!(dtype.size(), 2 | 4)).then_some(k)
    }

    /// Like `stored_unaligned`, but only for an epilogue that rounds the accumulators once, to bf16 or f16.
    pub fn rounded(&self, sums: u16) -> Option<usize> {
        let k = self.stored_unaligned(sums)?;
        let dtype = self.body.accesses[k].dtype;
        let only = |n: &Node| !matches!(*n, Node::Cast { dtype: to, .. } if to != dtype && to != DType::F32);
        (matches!(dtype, DType::BF16 | DType::F16) && self.body.nodes.iter().all(only)).then_some(k)
    }

    /// Bytes that a thread reads for one point, without the accumulators (operand `sums`). An access through an index
    /// map counts 8 bytes more for its address.
    pub fn loads(&self, sums: u16) -> usize {
        let read = |k: usize| self.body.nodes.iter().any(|n| n.access() == Some(k as u16));
        let all = self.body.accesses.iter().enumerate().filter(|&(k, a)| a.operand != Some(sums) && read(k));
        let bytes = |(k, a): (usize, &Access)| {
            let value = if a.operand.is_some() { a.dtype.size() } else { 0 };
            let placed = matches!(self.space.addressing[k], Addressing::Strided { .. });
            value + if placed { 0 } else { 8 }
        };
        all.map(bytes).sum()
    }
}

/// Load strategy of an operand (A or B): how its tile gets to shared memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FactorClass {
    /// Copied from memory in vectors of 16 bytes, along terms or along its lines (rows of A, columns of B).
    Copied {
        /// Whether terms are neighbours in memory (K-major).
        along: bool,
    },
    /// Copied from memory element by element, by strides of several dimensions, as the windows of a convolution are.
    Strided {
        /// Body that only loads and stores the operand.
        part: BodyClass,
        /// Whether elements are denser in memory along terms (K) than along lines: by extent divided by stride of the
        /// innermost dimensions.
        along: bool,
    },
    /// Computed in registers by its body (prologue).
    Computed(BodyClass),
}

/// Class key of a tiled GEMM: the properties that decide its source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GemmClass {
    /// Dtype of A and B.
    pub dtype: DType,
    /// Dtype of the accumulators.
    pub sums: DType,
    /// Arithmetic of the tile: tensor cores or CUDA cores.
    pub math: Math,
    /// Tile of the result that a block computes.
    pub tile: Tile,
    /// Mode of the copies of A and B.
    pub copies: Copies,
    /// Number of batch dimensions.
    pub batch: u8,
    /// Load strategies of A and B.
    pub factors: [FactorClass; 2],
    /// Epilogue, and the operand index by which it reads the accumulators.
    pub result: (BodyClass, u16),
    /// Split-K, if several blocks divide the terms of a tile.
    pub split: Option<Split>,
}

impl Math {
    /// Whether operands are stored as bf16 or f16 in shared memory.
    pub fn is_narrow(self) -> bool {
        matches!(self, Math::Narrow | Math::Warpgroup)
    }
}

impl Tile {
    /// Number of threads of a block that computes this tile.
    pub fn threads(&self) -> u32 {
        32 * self.warps[0] * self.warps[1]
    }
}

/// Layout of an operand in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Whether terms are neighbours (K-major).
    pub along: bool,
    /// Pitch in elements, from line to line or from term to term.
    pub pitch: u32,
    /// Number of elements of the operand in a pipeline stage.
    pub all: u32,
}

impl GemmClass {
    /// Number of accumulators per thread.
    pub fn sums_of_thread(&self) -> u32 {
        self.tile.m * self.tile.n / self.tile.threads()
    }

    /// All bodies of the kernel: the bodies of computed operands (prologues), and the epilogue.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        let factors = self.factors.iter().filter_map(|f| match f {
            FactorClass::Computed(part) => Some(&part.body),
            FactorClass::Copied { .. } | FactorClass::Strided { .. } => None,
        });
        factors.chain([&self.result.0.body])
    }

    /// Bytes of an operand's element in shared memory.
    pub fn element_size(&self) -> u32 {
        match (self.math, self.dtype) {
            (Math::Narrow | Math::Warpgroup, _) => 2,
            (_, DType::BF16 | DType::F16) => 4,
            (_, other) => other.size() as u32,
        }
    }

    /// Layout of operand A (0) or B (1) in shared memory. Pitches are such that the threads of a warp read from
    /// different banks.
    pub fn layout(&self, factor: usize) -> Layout {
        let lines = if factor == 0 { self.tile.m } else { self.tile.n };
        let along = self.math != Math::Plain
            && match &self.factors[factor] {
                FactorClass::Copied { along } | FactorClass::Strided { along, .. } => *along,
                FactorClass::Computed(_) => factor == 0,
            };
        if self.math == Math::Warpgroup {
            return Layout { along, pitch: LINE_ELEMENTS, all: lines * self.tile.k };
        }
        let pad = match self.math {
            Math::Narrow | Math::Warpgroup => 8,
            Math::Tf32 => {
                if along {
                    4
                } else {
                    8
                }
            }
            Math::Plain => (16 / self.element_size()).max(1),
        };
        let (pitch, others) = if along { (self.tile.k + pad, lines) } else { (lines + pad, self.tile.k) };
        Layout { along, pitch, all: pitch * others }
    }

    /// Rows of accumulators that are in shared memory at a time in the epilogue.
    fn rows_a_pass(&self) -> u32 {
        if self.is_staged() {
            // Accumulators of a pass take no more shared memory than the operands.
            let row = (self.tile.n + STAGED_PAD) * self.sums.size() as u32;
            let most = self.stage_bytes() / row;
            return [64, 32, 16, 8].into_iter().find(|&rows| rows <= most.min(self.tile.m)).unwrap_or(4);
        }
        match self.math {
            Math::Plain | Math::Warpgroup => self.tile.m.min(64),
            _ => self.tile.m / self.tile.warps[0],
        }
    }

    /// Shape of the epilogue: number and size of its passes, and the threads that run each.
    pub fn epilogue(&self) -> EpilogueShape<'_> {
        let (rows, by) = (self.rows_a_pass(), PassThreads::Block(self.tile.threads()));
        EpilogueShape {
            result: &self.result,
            sums: self.sums,
            rows,
            columns: self.tile.n,
            passes: self.tile.m / rows,
            by,
            staged: self.is_staged(),
        }
    }

    /// Whether operands are copied through registers, instead of asynchronously.
    pub fn is_staged(&self) -> bool {
        self.copies != Copies::Async
    }

    /// Bytes of shared memory of the operands, in all pipeline stages.
    fn stage_bytes(&self) -> u32 {
        self.tile.stages * (self.layout(0).all + self.layout(1).all) * self.element_size()
    }

    /// Bytes of shared memory of a block.
    pub fn shared(&self) -> u32 {
        self.table_at(2)
    }

    /// Offset in shared memory of the table of a strided operand's terms, after everything else; for `factor` 2 the end
    /// of all tables.
    pub fn table_at(&self, factor: usize) -> u32 {
        let tables = self.factors[..factor].iter().map(|f| match f {
            FactorClass::Strided { part, .. } => self.tile.stages * self.tile.k * if part.space.wide { 8 } else { 4 },
            _ => 0,
        });
        self.stage_bytes().max(self.epilogue().bytes()).next_multiple_of(16) + tables.sum::<u32>()
    }
}

/// Shape of the epilogue, which receives the accumulators pass by pass.
pub struct EpilogueShape<'a> {
    /// Epilogue, and the operand index by which it reads the accumulators.
    pub result: &'a (BodyClass, u16),
    /// Dtype of the accumulators.
    pub sums: DType,
    /// Number of rows per pass.
    pub rows: u32,
    /// Number of columns per pass.
    pub columns: u32,
    /// Number of passes in which the epilogue processes the tile.
    pub passes: u32,
    /// Threads that run a pass.
    pub by: PassThreads,
    /// Whether the kernel copies its operands through registers. Its passes are a loop, in which the body is emitted
    /// once, and their accumulators fit the shared memory of the operands.
    pub staged: bool,
}

/// Elements between the rows of accumulators in shared memory, against bank conflicts.
const PAD: u32 = 8;
/// Such elements in kernels that copy through registers, so that the pass of a large tile has 32 rows.
const STAGED_PAD: u32 = 4;

/// Threads that run a pass of the epilogue together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassThreads {
    /// All threads of a block, in this number. Accumulators go through shared memory.
    Block(u32),
    /// A warp; accumulators go through shared memory of its own. The kernel defines its first row (`warp_row`).
    Warp {
        /// Offset in bytes of the first warp's accumulators in shared memory.
        at: u32,
        /// Number of passes that cover a row of the tile, along columns.
        across: u32,
    },
    /// Each thread by itself, from its accumulator registers: as many neighbouring columns of a row as a vector has. A
    /// pass of a warp has eight rows.
    Thread {
        /// Number of passes of eight rows side by side along columns.
        across: u32,
    },
}

impl EpilogueShape<'_> {
    /// Pitch of accumulators in shared memory, in elements from row to row.
    pub fn pitch(&self) -> u32 {
        self.columns + if self.staged { STAGED_PAD } else { PAD }
    }

    /// Bytes of shared memory for the accumulators of a pass: of the block, or of one warp.
    pub fn bytes(&self) -> u32 {
        self.rows * self.pitch() * self.sums.size() as u32
    }
}

/// Bytes of a line of an operand in shared memory (the swizzle span of `wgmma`).
pub const LINE: u32 = 128;

/// Elements of bf16 or f16 in a line.
pub const LINE_ELEMENTS: u32 = 64;
