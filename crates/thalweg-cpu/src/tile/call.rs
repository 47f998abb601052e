//! Execution of a tile program's steps on one block of points.

use super::lanes::Loop;
use super::moves::{self, Indexed};
use super::program::{Pass, Register, Step, Value, Write};
use super::{casts, counted};
use crate::row_call::{ACCESS_WORDS, RowArgs};
use thalweg_kernel::{Access, AccessClass};

/// Block of a call's points that is processed as one tile: `rows × columns` points from (`row`, `column`) on. Lanes are
/// row-major.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub row: usize,
    pub rows: usize,
    pub column: usize,
    pub columns: usize,
}

impl Block {
    /// Creates a block of `columns` points within one row.
    pub(super) fn of_row(row: usize, column: usize, columns: usize) -> Block {
        Block { row, rows: 1, column, columns }
    }
}

/// State of a pass during a call.
pub(super) struct Call<'a> {
    pass: &'a Pass,
    accesses: &'a [Access],
    args: &'a RowArgs,
    n: usize,
    /// Base address of the registers' tiles.
    base: *mut u8,
    /// Current address of each register's lanes.
    at: &'a mut [*mut u8],
    /// Address of the row's values, for passes of row bodies.
    pub values: *mut u64,
    /// Whether an index of a gather was out of range.
    pub outside: bool,
    /// Number of operands of the launch, if loads and stores are counted ([`counted()`]); else `None`.
    pub counted: Option<u16>,
}

impl<'a> Call<'a> {
    /// Creates the state of a call of a pass, whose registers are laid out from `base` on.
    pub(super) fn new(
        pass: &'a Pass,
        accesses: &'a [Access],
        args: &'a RowArgs,
        n: usize,
        base: *mut u8,
        at: &'a mut [*mut u8],
    ) -> Call<'a> {
        for (at, (offset, _)) in at.iter_mut().zip(&pass.places) {
            *at = base.wrapping_add(*offset);
        }
        Call { pass, accesses, args, n, base, at, values: std::ptr::null_mut(), outside: false, counted: None }
    }

    /// Runs steps over a block.
    ///
    /// # Safety
    /// As for [`Rows::run`](crate::row_call::Rows::run), for the points of the block; it has at most
    /// [`TILE`](super::program::TILE) points.
    pub(super) unsafe fn steps(&mut self, steps: &[Step], block: Block) {
        for step in steps {
            // SAFETY: the caller's promise.
            unsafe { self.step(step, block) };
        }
    }

    /// Adds the bytes that a step loads and stores to the counters.
    fn count(&self, step: &Step, operands: u16, lanes: usize) {
        let access = |a: u16| &self.accesses[a as usize];
        match *step {
            Step::Load { access: a, size, .. } | Step::Gather { access: a, size, .. }
                if counted::counts(access(a), operands) =>
            {
                counted::note(lanes * size, 0);
            }
            // Its positions depend on data, so it counts even if the access is uniform.
            Step::Indexed { access: a, size, .. } if access(a).operand.is_some_and(|o| o < operands) => {
                counted::note(lanes * size, 0);
            }
            Step::Store { access: a, ref write, .. } if counted::counts(access(a), operands) => {
                let bytes = lanes * access(a).dtype.size();
                counted::note(if matches!(write, Write::Combine(_)) { bytes } else { 0 }, bytes);
            }
            _ => {}
        }
    }

    fn word(&self, access: u16, word: usize) -> u64 {
        self.args[access as usize * ACCESS_WORDS + word]
    }

    /// Argument word 0 of an access, advanced to a row: an address or a position.
    fn at_row(&self, access: u16, row: usize) -> u64 {
        self.word(access, 0).wrapping_add(self.word(access, 1).wrapping_mul(row as u64))
    }

    /// Runs a step over a block, and counts its loads and stores if that is enabled.
    ///
    /// # Safety
    /// As [`Call::steps`].
    unsafe fn step(&mut self, step: &Step, b: Block) {
        let lanes = b.rows * b.columns;
        if let Some(operands) = self.counted {
            self.count(step, operands, lanes);
        }
        // SAFETY: registers have space for a tile of their width, and earlier steps have written what steps read
        // (topological order); memory is as the caller promises.
        unsafe {
            match *step {
                Step::Fill { value, width, out } => {
                    let bits = match value {
                        Value::Bits(bits) => bits,
                        Value::Scalar(slot) => self.args[self.accesses.len() * ACCESS_WORDS + slot as usize],
                        Value::Row(slot) => self.values.add(slot as usize).read(),
                    };
                    moves::fill(bits, width, self.tile(out), lanes);
                }
                Step::Load { access, convert, size, width, in_place, out } => {
                    self.load(access, convert, size, width, in_place, out, b)
                }
                Step::Uniform { access, dtype, width, out } => {
                    let to = self.tile(out);
                    for r in 0..b.rows {
                        let bits = casts::element_bits(dtype, self.at_row(access, b.row + r) as *const u8);
                        moves::fill(bits, width, to.add(r * b.columns * width), b.columns);
                    }
                }
                Step::Gather { access, size, class, out } => {
                    let to = self.tile(out);
                    for r in 0..b.rows {
                        let to = to.add(r * b.columns * size);
                        self.gather(access, size, class, b.row + r, b.column, to, b.columns);
                    }
                }
                Step::Indexed { access, size, offset, inside, out } => {
                    let to = self.tile(out);
                    for r in 0..b.rows {
                        let lane = r * b.columns;
                        let offset = self.at[offset as usize].cast::<i64>().add(lane);
                        let inside = self.at[inside as usize].add(lane);
                        let from = self.indexed(access, size, b.row + r, b.column);
                        let all = moves::indexed(size, from, offset, inside, to.add(lane * size), b.columns);
                        self.outside |= !all;
                    }
                }
                Step::Index { access, wide, out } => {
                    let to = self.tile(out);
                    for r in 0..b.rows {
                        for i in 0..b.columns {
                            let position = self.position(access, b.row + r, b.column + i);
                            let lane = r * b.columns + i;
                            if wide {
                                to.cast::<i64>().add(lane).write(position);
                            } else {
                                to.cast::<u32>().add(lane).write(position as u32);
                            }
                        }
                    }
                }
                Step::Valid { access, out } => {
                    let to = self.tile(out);
                    let mapped = self.accesses[access as usize].class == AccessClass::Mapped;
                    for i in 0..lanes {
                        to.add(i).write((!mapped || self.position(access, b.row, b.column + i) >= 0) as u8);
                    }
                }
                Step::Apply { code, args, out } => {
                    let args = args.map(|a| self.at[a as usize] as *const u8);
                    code.run(args, self.tile(out), lanes);
                }
                Step::Loop(ref l) => self.looped(l, b),
                Step::Fold { value, ref code, lanes: acc } => {
                    code.accumulate(self.at[acc as usize], self.at[value as usize], lanes)
                }
                Step::Store { access, value, ref write } => self.store(access, value, write, b),
            }
        }
    }

    /// Current address of a register's lanes: in its tile, or in memory that a load reads in place.
    pub(super) fn lanes(&self, r: Register) -> *const u8 {
        self.at[r as usize]
    }

    /// Redirects a register to its own tile, and returns the tile's address.
    pub(super) fn tile(&mut self, r: Register) -> *mut u8 {
        // SAFETY: offsets are within the tiles' memory.
        let tile = unsafe { self.base.add(self.pass.places[r as usize].0) };
        self.at[r as usize] = tile;
        tile
    }

    /// Whether the elements of a block are contiguous in memory.
    fn dense(&self, access: u16, size: usize, b: Block) -> bool {
        b.rows == 1 || self.word(access, 1) == (self.n * size) as u64
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a step")]
    unsafe fn load(
        &mut self,
        access: u16,
        convert: Option<Loop>,
        size: usize,
        width: usize,
        in_place: bool,
        out: Register,
        b: Block,
    ) {
        let lanes = b.rows * b.columns;
        // SAFETY: the elements of the block are readable; the register has space for as many lanes and does not overlap
        // them.
        unsafe {
            let from = (self.at_row(access, b.row) as *const u8).add(b.column * size);
            let dense = self.dense(access, size, b);
            if dense && in_place && convert.is_none() {
                self.at[out as usize] = from.cast_mut();
                return;
            }
            let to = self.tile(out);
            let (chunks, each) = if dense { (1, lanes) } else { (b.rows, b.columns) };
            for r in 0..chunks {
                let from = (self.at_row(access, b.row + r) as *const u8).add(b.column * size);
                let to = to.add(r * each * width);
                match convert {
                    Some(run) => run([from; 3], to, each),
                    None => std::ptr::copy_nonoverlapping(from, to, each * size),
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a step and of a row")]
    unsafe fn gather(
        &self,
        access: u16,
        size: usize,
        class: AccessClass,
        row: usize,
        column: usize,
        to: *mut u8,
        n: usize,
    ) {
        // SAFETY: the elements at these strides or positions are readable; the register has space for `n` of their
        // size.
        unsafe {
            if class != AccessClass::Mapped {
                let stride = self.step_of(access) as isize;
                let from = (self.at_row(access, row) as *const u8).offset(stride * column as isize * size as isize);
                moves::strided(size, from, stride, to, n);
            } else {
                let (from, table) = (self.word(access, 0) as *const u8, self.word(access, 3) as *const i32);
                moves::mapped(size, from, table.add(column), to, n);
            }
        }
    }

    /// Describes the source of a `Gather` through an access, from the point in that row and column on.
    ///
    /// # Safety
    /// Word 3 is as [`RowArgs`] says.
    unsafe fn indexed(&self, access: u16, size: usize, row: usize, column: usize) -> Indexed {
        let bounds = self.word(access, 3) as *const u64;
        // SAFETY: the caller's promise.
        let (start, len) = unsafe { (bounds.read(), bounds.add(1).read()) };
        let step = self.step_of(access);
        let position = self.at_row(access, row).wrapping_sub(start) as i64 / size as i64;
        let first = position.wrapping_add(step.wrapping_mul(column as i64));
        Indexed { start: start as *const u8, len, first, step }
    }

    /// Stride of an access within a row, in elements.
    fn step_of(&self, access: u16) -> i64 {
        match self.accesses[access as usize].class {
            AccessClass::Contiguous => 1,
            AccessClass::Uniform => 0,
            AccessClass::Reversed => -1,
            AccessClass::Strided => self.word(access, 2) as i64,
            AccessClass::Mapped => unreachable!("what is written or gathered from is not mapped"),
        }
    }

    /// Writes the lanes of a register through an access.
    ///
    /// # Safety
    /// As [`Call::steps`].
    unsafe fn store(&mut self, access: u16, value: Register, write: &Write, b: Block) {
        let a = self.accesses[access as usize];
        let (from, size, lane) = (self.at[value as usize] as *const u8, a.dtype.size(), super::program::width(a.dtype));
        let step = self.step_of(access) as isize;
        // Contiguous rows are stored as one. Others are stored row by row: if they have the same elements, the last row
        // wins, and sums include all rows.
        let together = step == 1 && self.dense(access, size, b);
        let (chunks, each) = if together { (1, b.rows * b.columns) } else { (b.rows, b.columns) };
        for r in 0..chunks {
            // SAFETY: the elements of the block are writable, the registers hold its lanes.
            unsafe {
                let to = (self.at_row(access, b.row + r) as *mut u8).offset(b.column as isize * step * size as isize);
                let from = from.add(r * each * lane);
                match write {
                    Write::Dense(run) => run([from; 3], to, each),
                    &Write::Apart { size, convert: None } => moves::scatter(size, from, to, step, each),
                    &Write::Apart { size, convert: Some((run, raw)) } => {
                        let raw = self.tile(raw);
                        run([from; 3], raw, each);
                        moves::scatter(size, raw, to, step, each);
                    }
                    Write::Combine(code) => code.merge(to, step, from, each),
                }
            }
        }
    }

    /// Position (element index) of an access at a point, for steps that compute positions as values.
    ///
    /// # Safety
    /// The point is inside the call.
    #[inline(always)]
    unsafe fn position(&self, access: u16, row: usize, column: usize) -> i64 {
        let start = self.at_row(access, row) as i64;
        match self.accesses[access as usize].class {
            AccessClass::Contiguous => start.wrapping_add(column as i64),
            AccessClass::Uniform => start,
            AccessClass::Reversed => start.wrapping_sub(column as i64),
            AccessClass::Strided => start.wrapping_add((self.word(access, 2) as i64).wrapping_mul(column as i64)),
            // SAFETY: the table has an entry for each column.
            AccessClass::Mapped => unsafe { (self.word(access, 3) as *const i32).add(column).read() as i64 },
        }
    }
}
