//! Two products with weights between them: what decides their code, and where their words are.

use super::body::divisors;
use super::contraction::{By, Handed, LINE_ELEMENTS, Math, PartClass, PartSlots};
use super::fed::{BARRIER, FedFactor};
use crate::maps::MAP_WORDS;
use thalweg_ir::DType;
use thalweg_kernel::{Body, Seen};

/// Words before those of the batch dimensions: rows, columns of the result, keys, terms of a score, tiles of rows, where
/// an index out of range is told, products of the batch.
pub const HEAD: usize = 7;

/// What a block has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamedBlock {
    /// Warps that compute, each with 16 rows.
    pub warps: u32,
    /// Keys of a step.
    pub keys: u32,
    /// Blocks that a multiprocessor is to hold, for the compiler's use of registers.
    pub blocks: u32,
    /// Whether it stays until all tiles are done: two or three warpgroups that share keys, and one more, of which a thread
    /// has them copied.
    pub stays: bool,
}

/// What decides the source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StreamedClass {
    /// Of the factors.
    pub dtype: DType,
    /// On tensor cores: any but [`Math::Plain`].
    pub math: Math,
    /// How it is shared among threads.
    pub block: StreamedBlock,
    /// Terms of a score and columns of the result, as powers of two, at least 16, for warpgroups 64.
    pub sizes: [u32; 2],
    /// Batch dimensions.
    pub batch: u8,
    /// Of rows, keys and values: whether terms are neighbours (of values the keys are the terms).
    pub along: [bool; 3],
    /// How they lie, where a warp of its own has them copied by boxes: then the others are one warpgroup.
    pub fed: Option<[FedFactor; 3]>,
    /// What is made of a score, each of the last one's result, which is this operand of it: the first product's
    /// epilogue, where it has one, then the weights.
    pub points: Vec<(PartClass, u16)>,
    /// Where rows see their first keys only: which of `points` says so, and how.
    pub seen: Option<(u8, Seen)>,
    /// What a weight is multiplied by at the end, with the values of the row that are maximum and sum; `None` where
    /// weights are no exponentials.
    pub once: Option<(Body, [u16; 2])>,
    /// What is made of the sums, which are this operand of it.
    pub result: (PartClass, u16),
}

/// Where the words are.
#[derive(Clone, Debug)]
pub struct StreamedSlots {
    /// Address and pitch of rows, keys and values; of those that are copied by boxes the words to divide by.
    pub factors: [usize; 3],
    /// Their maps.
    pub maps: [usize; 3],
    /// All.
    pub end: usize,
    /// Of what is made of a score.
    pub points: Vec<PartSlots>,
    /// How many keys more than its number a row sees.
    pub ahead: usize,
    /// The scalars of the factor at the end, and their reciprocals.
    pub once: [usize; 2],
    /// Of the result.
    pub result: PartSlots,
}

impl StreamedSlots {
    /// Those of a class. Each batch dimension has five words: two to divide by its size, then how far it goes in rows,
    /// keys and values.
    pub fn new(class: &StreamedClass) -> StreamedSlots {
        let mut end = HEAD + 5 * class.batch as usize;
        let mut factors = [end, end + 2, end + 4];
        end += 6;
        if let Some(fed) = &class.fed {
            factors = [0, 1, 2].map(|n| factors[0] + fed[..n].iter().map(FedFactor::divisors).sum::<usize>());
            end = factors[2] + fed[2].divisors();
        }
        let mut points = vec![];
        for (part, _) in &class.points {
            points.push(PartSlots::new(part, end));
            end = points.last().map_or(end, |p| p.end);
        }
        let ahead = end;
        end += class.seen.is_some() as usize;
        let (scalars, divided) = class.once.as_ref().map_or((0, 0), |(b, _)| (b.scalars as usize, divisors(b).len()));
        let once = [end, end + scalars];
        let result = PartSlots::new(&class.result.0, end + scalars + divided);
        let mut end = result.end;
        let mut maps = [0; 3];
        if class.fed.is_some() {
            let first = end.next_multiple_of(MAP_WORDS);
            maps = [0, 1, 2].map(|n| first + n * MAP_WORDS);
            end = first + 3 * MAP_WORDS;
        }
        StreamedSlots { factors, maps, points, ahead, once, result, end }
    }
}

impl StreamedClass {
    /// Its bodies.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        let points = self.points.iter().map(|p| &p.0.body);
        points.chain(self.once.iter().map(|o| &o.0)).chain([&self.result.0.body])
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        let others = match (&self.fed, self.block.stays) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 4,
        };
        32 * (self.block.warps + others)
    }

    /// Steps in shared memory at a time.
    pub fn stages(&self) -> u32 {
        if self.fed.is_some() && !self.block.stays && self.block.keys * self.sizes[0].max(self.sizes[1]) <= 64 * 64 {
            3
        } else {
            2
        }
    }

    /// Rows of a block.
    pub fn rows(&self) -> u32 {
        16 * self.block.warps
    }

    /// Of rows, keys and values: elements from line to line or term to term in shared memory, and all of a block's.
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
        // Threads side by side are to read from different banks.
        let pitch = match self.math {
            Math::Tf32 if factor == 1 && self.scores_by_fours() => inner + (16 + 32 - inner % 32) % 32,
            Math::Tf32 if self.along[factor] || factor == 2 => inner + 4,
            _ => inner + 8,
        };
        [pitch, pitch * outer]
    }

    /// Whether a thread takes four terms of a key side by side in shared memory, for two multiplications: the order of terms within
    /// sixteen is the threads' own. What it takes of its rows for one lies side by side, too.
    pub fn scores_by_fours(&self) -> bool {
        self.math == Math::Tf32 && self.along[0] && self.along[1]
    }

    /// Bytes of rows, keys and values in shared memory.
    fn factors(&self) -> u32 {
        let [rows, keys, values] = [0, 1, 2].map(|f| self.layout(f)[1]);
        (rows + self.stages() * (keys + values)) * self.dtype.size() as u32
    }

    /// How sums are handed to what is made of them.
    pub fn handed(&self) -> Handed<'_> {
        let columns = self.sizes[1];
        let all = Handed {
            result: &self.result,
            sums: DType::F32,
            rows: self.rows(),
            columns,
            passes: 1,
            by: By::Block(self.threads()),
        };
        if self.fed.is_none() {
            return all;
        }
        let across = columns / LINE_ELEMENTS;
        Handed { rows: 16, columns: LINE_ELEMENTS, passes: across, by: By::Warp { at: self.factors(), across }, ..all }
    }

    /// Where the barriers of a block that is fed are in shared memory.
    pub fn barriers_at(&self) -> u32 {
        self.factors() + self.block.warps * self.handed().bytes()
    }

    /// Bytes of shared memory.
    pub fn shared(&self) -> u32 {
        match self.fed {
            Some(_) if self.block.stays => self.barriers_at() + barriers(self) * BARRIER,
            Some(_) => self.barriers_at() + 2 * self.stages() * BARRIER,
            None => self.factors().max(self.handed().bytes()),
        }
    }
}

/// Warpgroups that compute.
pub fn groups(class: &StreamedClass) -> u32 {
    class.block.warps / 4
}

/// Barriers of a block: rows copied, rows done with; the same of each place for keys and for values; turns.
pub fn barriers(class: &StreamedClass) -> u32 {
    2 + 4 * class.stages() + groups(class)
}
