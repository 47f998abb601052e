//! Flash attention: two products, with softmax or other weights between them. Class key.

pub mod emit;
pub mod params;
pub(crate) mod select;

use crate::kernels::gemm::tma::{BARRIER, TmaFactor};
use crate::kernels::gemm::{BodyClass, EpilogueShape, LINE_ELEMENTS, Math, PassThreads};
use thalweg_ir::DType;
use thalweg_kernel::{Body, CausalMask};

/// Shape of a block of flash attention.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AttentionBlock {
    /// Number of consumer warps, each with 16 query rows.
    pub warps: u32,
    /// Number of keys per pipeline step.
    pub keys: u32,
    /// Resident blocks per multiprocessor, a hint for register allocation (launch bounds).
    pub blocks: u32,
    /// Whether the block is persistent: two or three consumer warpgroups that share keys, and a producer warpgroup, of
    /// which one thread issues the TMA copies.
    pub persistent: bool,
}

/// Class key of flash attention: the properties that decide the source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AttentionClass {
    /// Dtype of rows, keys and values.
    pub dtype: DType,
    /// Arithmetic on tensor cores: any but [`Math::Plain`].
    pub math: Math,
    /// Shape of a block, and its division among warps.
    pub block: AttentionBlock,
    /// Terms of a score and columns of the result, rounded up to powers of two of at least 16 (for warpgroups 64).
    pub sizes: [u32; 2],
    /// Number of batch dimensions.
    pub batch: u8,
    /// Whether terms are neighbours in memory (K-major), for rows, keys and values. The terms of values are the keys.
    pub along: [bool; 3],
    /// Memory layouts of rows, keys and values, where a producer warp copies them by TMA. The other warps are one
    /// warpgroup then, or several of a persistent block.
    pub tma: Option<[TmaFactor; 3]>,
    /// Chain of bodies applied to a score: the first product's epilogue, if any, then the weights. Each has the operand
    /// index by which the body reads the result of the previous one, or the accumulators if it is the first.
    pub points: Vec<(BodyClass, u16)>,
    /// Causal mask, if any, by which rows attend only to their first keys: the index of its body in `points`, and its
    /// form.
    pub causal: Option<(u8, CausalMask)>,
    /// Final factor of the row's weights, with the slots of the row's maximum and sum; `None` where weights are not
    /// exponentials.
    pub once: Option<(Body, [u16; 2])>,
    /// Epilogue, and the operand index by which it reads the accumulators.
    pub result: (BodyClass, u16),
}

impl AttentionClass {
    /// All bodies of the kernel: the score bodies, the body of the final factor, and the epilogue.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        let points = self.points.iter().map(|p| &p.0.body);
        points.chain(self.once.iter().map(|o| &o.0)).chain([&self.result.0.body])
    }

    /// Number of threads per block, including the producer.
    pub fn threads(&self) -> u32 {
        let others = match (&self.tma, self.block.persistent) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 4,
        };
        32 * (self.block.warps + others)
    }

    /// Number of pipeline stages in shared memory.
    pub fn stages(&self) -> u32 {
        if self.tma.is_some() && !self.block.persistent && self.block.keys * self.sizes[0].max(self.sizes[1]) <= 64 * 64
        {
            3
        } else {
            2
        }
    }

    /// Number of rows (queries) per block.
    pub fn rows(&self) -> u32 {
        16 * self.block.warps
    }

    /// Layout in shared memory of rows (0), keys (1) or values (2): pitch in elements (from line to line or from term
    /// to term), and elements of a stage.
    pub fn layout(&self, factor: usize) -> [u32; 2] {
        let (lines, terms) = match factor {
            0 => (self.rows(), self.sizes[0]),
            1 => (self.block.keys, self.sizes[0]),
            _ => (self.sizes[1], self.block.keys),
        };
        if self.math == Math::Warpgroup {
            return [LINE_ELEMENTS, lines * terms];
        }
        let (inner, outer) = if self.along[factor] { (terms, lines) } else { (lines, terms) };
        // Neighbouring threads must read from different banks.
        let pitch = match self.math {
            Math::Tf32 if factor == 1 && self.scores_by_fours() => inner + (16 + 32 - inner % 32) % 32,
            Math::Tf32 if self.along[factor] || factor == 2 => inner + 4,
            _ => inner + 8,
        };
        [pitch, pitch * outer]
    }

    /// Whether a thread reads four neighbouring terms of a key in shared memory, for two multiplications: the order of
    /// terms within sixteen is permuted. Its row elements for one multiplication are neighbours, too.
    pub fn scores_by_fours(&self) -> bool {
        self.math == Math::Tf32 && self.along[0] && self.along[1]
    }

    /// Bytes of shared memory for rows, keys and values of all pipeline stages.
    fn factors(&self) -> u32 {
        let [rows, keys, values] = [0, 1, 2].map(|f| self.layout(f)[1]);
        (rows + self.stages() * (keys + values)) * self.dtype.size() as u32
    }

    /// Shape of the epilogue: number and size of its passes, and the threads that run each.
    pub fn epilogue(&self) -> EpilogueShape<'_> {
        let columns = self.sizes[1];
        let all = EpilogueShape {
            result: &self.result,
            sums: DType::F32,
            rows: self.rows(),
            columns,
            passes: 1,
            by: PassThreads::Block(self.threads()),
            staged: false,
        };
        if self.tma.is_none() {
            return all;
        }
        let across = columns / LINE_ELEMENTS;
        EpilogueShape {
            rows: 16,
            columns: LINE_ELEMENTS,
            passes: across,
            by: PassThreads::Warp { at: self.factors(), across },
            ..all
        }
    }

    /// Offset in bytes of the mbarriers in shared memory.
    pub fn barriers_at(&self) -> u32 {
        self.factors() + self.block.warps * self.epilogue().bytes()
    }

    /// Bytes of shared memory of a block.
    pub fn shared(&self) -> u32 {
        match self.tma {
            Some(_) if self.block.persistent => self.barriers_at() + barriers(self) * BARRIER,
            Some(_) => self.barriers_at() + 2 * self.stages() * BARRIER,
            None => self.factors().max(self.epilogue().bytes()),
        }
    }
}

/// Number of consumer warpgroups.
pub fn groups(class: &AttentionClass) -> u32 {
    class.block.warps / 4
}

/// Number of mbarriers of a persistent block: full and empty for rows; full and empty for keys and values in each
/// stage; one per warpgroup for the ping-pong schedule.
pub fn barriers(class: &AttentionClass) -> u32 {
    2 + 4 * class.stages() + groups(class)
}
