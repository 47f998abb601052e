//! Contractions whose tiles are fed: what decides their code, and where their words are.

use super::contraction::{By, HEAD, Handed, LINE_ELEMENTS, PartClass, PartSlots};
use crate::maps::MAP_WORDS;
use thalweg_ir::DType;

/// Terms of a step: those of a line in shared memory.
pub const TERMS: u32 = LINE_ELEMENTS;

/// Bytes of a barrier.
pub const BARRIER: u32 = 8;

/// The tile of a team.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FedTile {
    /// Warpgroups that compute it together, rows shared among them: one, or two.
    pub team: u32,
    /// Rows: 64 or 128.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Steps in shared memory at a time.
    pub stages: u32,
}

/// How a factor lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FedFactor {
    /// Whether terms are neighbours in memory.
    pub along: bool,
    /// Dimensions of its terms, of its lines, and of its batch.
    pub terms: u8,
    /// See above.
    pub lines: u8,
    /// See above.
    pub batch: u8,
    /// How many neighbouring columns of the result each thread has, where the lines of the right factor are *dealt*: they lie in shared
    /// memory in the order in which a multiplication gives them to threads. 0 where they lie as in memory.
    pub dealt: u8,
}

/// What decides the source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FedClass {
    /// Of the factors.
    pub dtype: DType,
    /// The tile.
    pub tile: FedTile,
    /// Batch dimensions.
    pub batch: u8,
    /// The factors.
    pub factors: [FedFactor; 2],
    /// What is made of the sums, which are this operand of it.
    pub result: (PartClass, u16),
    /// Products in one launch.
    pub products: u32,
    /// Whether lines of the right factor that fill no tile are copied as they lie, though the others are dealt.
    pub rest: bool,
}

/// Where the words are.
#[derive(Clone, Debug)]
pub struct FedSlots {
    /// The maps of the factors.
    pub maps: [usize; 2],
    /// The map of the right one's lines that fill no tile.
    pub rest: usize,
    /// Of each factor, two words to divide by for each of its dimensions but the outermost ones: of terms, lines, batch.
    pub dims: [usize; 2],
    /// Of the result.
    pub result: PartSlots,
    /// All, a multiple of those of a map, as the argument is aligned.
    pub end: usize,
}

/// The word with the number of tiles.
pub const TILES: usize = HEAD;

impl FedSlots {
    /// Those of a class. Behind those of every contraction is the number of tiles. Each batch dimension has four words: two
    /// to divide by its size, then how many matrices it goes further in each factor.
    pub fn new(class: &FedClass) -> FedSlots {
        let first = FedSlots::batch(class.batch as usize);
        let second = first + class.factors[0].divisors();
        let maps = (second + class.factors[1].divisors()).next_multiple_of(MAP_WORDS);
        let rest = maps + 2 * MAP_WORDS;
        let result = PartSlots::new(&class.result.0, rest + if class.rest { MAP_WORDS } else { 0 });
        let end = result.end.next_multiple_of(MAP_WORDS);
        FedSlots { maps: [maps, maps + MAP_WORDS], rest, dims: [first, second], result, end }
    }

    /// The first word of a batch dimension.
    pub fn batch(d: usize) -> usize {
        HEAD + 1 + 4 * d
    }
}

impl FedFactor {
    /// Words to divide by.
    pub fn divisors(&self) -> usize {
        inner(self.terms) + inner(self.lines) + inner(self.batch)
    }
}

impl FedClass {
    /// Elements of a step of a factor.
    pub fn all(&self, factor: usize) -> u32 {
        TERMS * if factor == 0 { self.tile.m } else { self.tile.n }
    }

    /// Threads of a block: two teams that compute in turns, and a warpgroup of which one thread has the factors copied.
    pub fn threads(&self) -> u32 {
        (2 * self.tile.team + 1) * 128
    }

    /// Rows of a warpgroup.
    pub fn rows(&self) -> u32 {
        self.tile.m / self.tile.team
    }

    /// How many neighbouring columns a thread has the sums of; 0 where it has pairs.
    pub fn dealt(&self) -> u32 {
        self.factors[1].dealt.into()
    }

    /// Where the warps' sums are in shared memory.
    fn sums_at(&self) -> u32 {
        self.tile.stages * (self.all(0) + self.all(1)) * 2
    }

    /// How sums are handed to what is made of them.
    pub fn handed(&self) -> Handed<'_> {
        let (result, sums) = (&self.result, DType::F32);
        if self.dealt() > 0 {
            let columns = 4 * self.dealt();
            let across = self.tile.n / columns;
            return Handed {
                result,
                sums,
                rows: 8,
                columns,
                passes: self.rows() / 8 * across / 4,
                by: By::Thread { across },
            };
        }
        // Two warpgroups have half the registers each, and what is read beside the sums waits in them.
        let alone = self.result.0.loads(self.result.1) == 0;
        let columns = if self.tile.team == 1 || alone { 64 } else { 32 };
        let across = self.tile.n / columns;
        let by = By::Warp { at: self.sums_at(), across };
        Handed { result, sums, rows: 16, columns, passes: self.rows() / 64 * across, by }
    }

    /// Where the barriers are in shared memory.
    pub fn barriers_at(&self) -> u32 {
        let room = if self.dealt() > 0 { 0 } else { self.handed().bytes() };
        self.sums_at() + 8 * self.tile.team * room
    }

    /// Bytes of shared memory.
    pub fn shared(&self) -> u32 {
        self.barriers_at() + (2 * self.tile.stages + 2) * BARRIER
    }
}

/// Words to divide by along so many dimensions.
pub fn inner(dims: u8) -> usize {
    2 * (dims as usize).saturating_sub(1)
}
