//! Contractions by tiles: what decides their code, and where their words are.

use super::body::divisors;
use crate::space::{Inner, Slots, SpaceClass, Way};
use thalweg_ir::DType;
use thalweg_kernel::{Access, Body, Node};

/// Words before those of the batch dimensions: rows, columns, terms, tiles of rows, tiles of columns, where an index
/// out of range is told.
pub const HEAD: usize = 6;

/// Arithmetic of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Math {
    /// Tensor cores, factors of bf16 or f16.
    Narrow,
    /// The same by warpgroups, whose factors lie in shared memory in lines of 128 bytes (sm_90a).
    Warpgroup,
    /// Tensor cores, factors of f32 rounded to TF32.
    Tf32,
    /// Plain cores, in order.
    Plain,
}

/// What a block computes, and how it is shared among its threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Terms a step.
    pub k: u32,
    /// Warps along rows and along columns; of plain cores 16 times 16 threads stand as these warps do.
    pub warps: [u32; 2],
    /// Steps in shared memory at a time.
    pub stages: u32,
    /// Blocks that a multiprocessor is to hold, for the compiler's use of registers.
    pub blocks: u32,
}

/// A body of the contraction over `[batch…, rows…, columns…]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PartClass {
    /// What is computed at a point.
    pub body: Body,
    /// Its domain.
    pub space: SpaceClass,
    /// How many dimensions the batch and the rows have.
    pub groups: [u8; 2],
}

impl PartClass {
    /// The store of sums that are written as they are, to rows that begin anywhere, as those of an odd length do: the access. Nothing else is
    /// read or written.
    pub fn shifted(&self, sums: u16) -> Option<usize> {
        let (space, body) = (&self.space, &self.body);
        let [store] = body.stores[..] else { return None };
        let (k, rank) = (store.access as usize, space.rank());
        let dtype = body.accesses[k].dtype;
        let alone = (0..body.accesses.len()).all(|i| i == k || body.accesses[i].operand == Some(sums));
        let unit = matches!(space.ways[k], Way::Strided { inner: Inner::Unit, .. });
        let own = |n: &Node| matches!(n, Node::Load { .. } | Node::Cast { .. });
        let one_column = rank == (self.groups[0] + self.groups[1]) as usize + 1;
        let fits = space.lanes == 1 && alone && unit && one_column && body.nodes.iter().all(own);
        (fits && matches!(dtype.size(), 2 | 4)).then_some(k)
    }

    /// The same of sums that are but rounded on the way, to a narrow float.
    pub fn rounded(&self, sums: u16) -> Option<usize> {
        let k = self.shifted(sums)?;
        let dtype = self.body.accesses[k].dtype;
        let only = |n: &Node| !matches!(*n, Node::Cast { dtype: to, .. } if to != dtype && to != DType::F32);
        (matches!(dtype, DType::BF16 | DType::F16) && self.body.nodes.iter().all(only)).then_some(k)
    }

    /// Bytes that a thread reads for one point, but for an operand in registers or in shared memory; with the place of
    /// what is not there by strides.
    pub fn loads(&self, sums: u16) -> usize {
        let read = |k: usize| self.body.nodes.iter().any(|n| n.access() == Some(k as u16));
        let all = self.body.accesses.iter().enumerate().filter(|&(k, a)| a.operand != Some(sums) && read(k));
        let bytes = |(k, a): (usize, &Access)| {
            let value = if a.operand.is_some() { a.dtype.size() } else { 0 };
            let placed = matches!(self.space.ways[k], Way::Strided { .. });
            value + if placed { 0 } else { 8 }
        };
        all.map(bytes).sum()
    }
}

/// How a factor comes into shared memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FactorClass {
    /// As it lies: 16 bytes at a time, along terms or along its lines (rows of the left one, columns of the right one).
    Copied {
        /// Whether terms are neighbours.
        along: bool,
    },
    /// As it lies, element by element: what it reads is by strides of several dimensions, as windows are.
    Strided {
        /// A body that loads and stores.
        part: PartClass,
        /// Whether elements that are near each other in memory are terms.
        along: bool,
    },
    /// Computed on its way through registers.
    Computed(PartClass),
}

/// What decides the source of a contraction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TileClass {
    /// Of the factors.
    pub dtype: DType,
    /// Of the sums.
    pub sums: DType,
    /// The arithmetic.
    pub math: Math,
    /// The tile.
    pub tile: Tile,
    /// Batch dimensions.
    pub batch: u8,
    /// The factors.
    pub factors: [FactorClass; 2],
    /// What is made of the sums, which are this operand of it.
    pub result: (PartClass, u16),
    /// Whether several blocks share the terms of a tile: each leaves its sums, and the last one makes something of all.
    pub split: bool,
}

impl Math {
    /// Whether factors are narrow floats as they are in memory.
    pub fn is_narrow(self) -> bool {
        matches!(self, Math::Narrow | Math::Warpgroup)
    }
}

impl Tile {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        32 * self.warps[0] * self.warps[1]
    }
}

/// Where the words of a part are.
#[derive(Clone, Debug)]
pub struct PartSlots {
    /// Of its domain.
    pub space: Slots,
    /// The first scalar.
    pub scalars: usize,
    /// The reciprocals of those that are divided by.
    pub reciprocals: usize,
    /// The first word behind.
    pub end: usize,
}

impl PartSlots {
    /// From word `first` on.
    pub fn new(part: &PartClass, first: usize) -> PartSlots {
        let space = Slots::new(&part.space, first);
        let scalars = space.end;
        let reciprocals = scalars + part.body.scalars as usize;
        PartSlots { space, scalars, reciprocals, end: reciprocals + divisors(&part.body).len() }
    }
}

/// Where the words of a factor are.
#[derive(Clone, Debug)]
pub enum FactorSlots {
    /// The address, then the elements from line to line, or from term to term.
    Copied(usize),
    /// Those of its part.
    Computed(PartSlots),
}

/// Where the words of a contraction are.
#[derive(Clone, Debug)]
pub struct TileSlots {
    /// Of each factor.
    pub factors: [FactorSlots; 2],
    /// Of the result.
    pub result: PartSlots,
    /// Where terms are shared: the steps of a share, how many shares there are, the addresses of their sums and of counters.
    pub split: usize,
    /// Words in all.
    pub end: usize,
}

/// Words of a tile whose terms are shared.
const SPLIT_WORDS: usize = 4;

impl TileSlots {
    /// Those of a class. Each batch dimension has four words: two to divide by its size, then how far it goes in the
    /// left and in the right factor: elements of a copied one, matrices of a computed one.
    pub fn new(class: &TileClass) -> TileSlots {
        let mut end = HEAD + 4 * class.batch as usize;
        let mut factor = |f: &FactorClass| match f {
            FactorClass::Copied { .. } => {
                end += 2;
                FactorSlots::Copied(end - 2)
            }
            FactorClass::Computed(part) | FactorClass::Strided { part, .. } => {
                let slots = PartSlots::new(part, end);
                end = slots.end;
                FactorSlots::Computed(slots)
            }
        };
        let factors = [factor(&class.factors[0]), factor(&class.factors[1])];
        let result = PartSlots::new(&class.result.0, end);
        let split = result.end;
        TileSlots { factors, result, split, end: split + if class.split { SPLIT_WORDS } else { 0 } }
    }
}

/// How a factor lies in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Whether terms are neighbours.
    pub along: bool,
    /// Elements from line to line, or from term to term.
    pub pitch: u32,
    /// Elements of a stage.
    pub all: u32,
}

impl TileClass {
    /// Sums of a thread.
    pub fn sums_of_thread(&self) -> u32 {
        self.tile.m * self.tile.n / self.tile.threads()
    }

    /// Its bodies.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        let factors = self.factors.iter().filter_map(|f| match f {
            FactorClass::Computed(part) => Some(&part.body),
            FactorClass::Copied { .. } | FactorClass::Strided { .. } => None,
        });
        factors.chain([&self.result.0.body])
    }

    /// Bytes of an element in shared memory.
    pub fn element_size(&self) -> u32 {
        match (self.math, self.dtype) {
            (Math::Narrow | Math::Warpgroup, _) => 2,
            (_, DType::BF16 | DType::F16) => 4,
            (_, other) => other.size() as u32,
        }
    }

    /// How a factor lies in shared memory. Pitches are such that the threads of a warp read from different banks.
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

    /// Rows of the sums that are in shared memory at a time.
    fn rows_a_pass(&self) -> u32 {
        match self.math {
            Math::Plain | Math::Warpgroup => self.tile.m.min(64),
            _ => self.tile.m / self.tile.warps[0],
        }
    }

    /// How sums are handed to what is made of them.
    pub fn handed(&self) -> Handed<'_> {
        let (rows, by) = (self.rows_a_pass(), By::Block(self.tile.threads()));
        Handed { result: &self.result, sums: self.sums, rows, columns: self.tile.n, passes: self.tile.m / rows, by }
    }

    /// Bytes of shared memory.
    pub fn shared(&self) -> u32 {
        self.table_at(2)
    }

    /// Where the table of a strided factor's terms is in shared memory, behind everything else; of factor 2 the end of all.
    pub fn table_at(&self, factor: usize) -> u32 {
        let stages = self.tile.stages * (self.layout(0).all + self.layout(1).all) * self.element_size();
        let tables = self.factors[..factor].iter().map(|f| match f {
            FactorClass::Strided { part, .. } => self.tile.stages * self.tile.k * if part.space.wide { 8 } else { 4 },
            _ => 0,
        });
        stages.max(self.handed().bytes()).next_multiple_of(16) + tables.sum::<u32>()
    }
}

/// Sums on their way through shared memory.
pub struct Handed<'a> {
    /// What is made of them, and which of its operands they are.
    pub result: &'a (PartClass, u16),
    /// Their dtype.
    pub sums: DType,
    /// Rows that are there at a time.
    pub rows: u32,
    /// Columns that are there at a time.
    pub columns: u32,
    /// How many times.
    pub passes: u32,
    /// Who does it.
    pub by: By,
}

/// Who makes something of the sums together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// All threads of a block, of so many.
    Block(u32),
    /// A warp. The kernel says where its first row is (`warp_row`).
    Warp {
        /// Where its own sums are in shared memory, in bytes from the beginning.
        at: u32,
        /// Passes that are beside each other.
        across: u32,
    },
    /// A thread, of the sums in its registers: as many neighbouring columns of a row as a vector has. A warp has eight rows a pass.
    Thread {
        /// Passes of eight rows that are beside each other.
        across: u32,
    },
}

impl Handed<'_> {
    /// Elements from row to row.
    pub fn pitch(&self) -> u32 {
        self.columns + 8
    }

    /// Bytes of shared memory, of all threads of a block or of a warp.
    pub fn bytes(&self) -> u32 {
        self.rows * self.pitch() * self.sums.size() as u32
    }
}

/// Bytes of a line of a matrix in shared memory.
pub const LINE: u32 = 128;

/// Elements of it.
pub const LINE_ELEMENTS: u32 = 64;
