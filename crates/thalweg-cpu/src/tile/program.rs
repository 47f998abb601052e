//! A compiled tile program and how it runs.

use super::casts;
use super::lanes::Loop;
use crate::math::lanes::Lanes;
use crate::rows::{ACCESS_WORDS, RowArgs, Rows};
use std::cell::RefCell;
use thalweg_ir::DType;
use thalweg_kernel::{Access, AccessClass};

/// Points that a loop handles at once: a dozen f32 registers of this size fit the smallest first-level caches.
pub(super) const TILE: usize = 512;

/// A tile of lanes, by number.
pub(super) type Register = u32;

/// What a step runs.
#[derive(Clone, Copy)]
pub(super) enum Code {
    Loop(Loop),
    F32(Lanes<f32>),
    F64(Lanes<f64>),
}

/// Where a value that is the same for all points comes from.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bits(u64),
    Scalar(u16),
}

/// One pass over a tile.
pub(super) enum Step {
    /// The same value in all lanes.
    Fill { value: Value, width: usize, out: Register },
    /// Neighbours in memory; without a conversion, and if the rows follow one another, they are used where they are.
    Load { access: u16, convert: Option<Loop>, size: usize, width: usize, in_place: bool, out: Register },
    /// One element a row.
    Uniform { access: u16, dtype: DType, width: usize, out: Register },
    /// Elements as memory holds them, from here and there.
    Gather { access: u16, size: usize, class: AccessClass, out: Register },
    /// Positions, as u32 or i64.
    Index { access: u16, wide: bool, out: Register },
    /// Whether positions are inside.
    Valid { access: u16, out: Register },
    /// A loop over registers.
    Apply { code: Code, args: [Register; 3], out: Register },
    /// A register to memory.
    Store { access: u16, value: Register, run: Loop },
}

/// A body compiled for the tile engine: a list of loops, run over tiles of 512 points. Needs no slow path.
pub struct TileProgram {
    /// Run once for a call: what is the same for all points.
    pub(super) hoisted: Vec<Step>,
    /// Run for each tile, stores last (an output may lie over an input).
    pub(super) steps: Vec<Step>,
    /// Where each register's tile starts.
    pub(super) offsets: Vec<usize>,
    /// Bytes of all tiles.
    pub(super) bytes: usize,
    pub(super) accesses: Vec<Access>,
}

/// A cache line, for its alignment.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code, reason = "only ever reached through pointers")] [u8; 64]);

/// The tiles of one thread, kept from call to call, and where each register is at the moment: in its tile, or
/// in memory that a load reads in place.
#[derive(Default)]
struct Registers {
    lines: Vec<Line>,
    at: Vec<*mut u8>,
}

thread_local! {
    static REGISTERS: RefCell<Registers> = RefCell::default();
}

/// The points of one tile: `rows × columns` of the call, their lanes row after row.
#[derive(Clone, Copy)]
struct Block {
    row: usize,
    rows: usize,
    column: usize,
    columns: usize,
}

impl Rows for TileProgram {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize) -> bool {
        if n == 0 || rows == 0 {
            return true;
        }
        // Taken out, so that the engine may be entered again on this thread.
        let mut registers = REGISTERS.take();
        let lines = self.bytes.div_ceil(64);
        if registers.lines.len() < lines {
            registers.lines.resize(lines, Line([0; 64]));
        }
        let base = registers.lines.as_mut_ptr().cast::<u8>();
        registers.at.clear();
        // SAFETY: offsets are below `bytes`, for which there are lines.
        registers.at.extend(self.offsets.iter().map(|&o| unsafe { base.add(o) }));
        let mut call = Call { program: self, args, n, base, at: &mut registers.at };
        let first = Block { row: 0, rows: 1, column: 0, columns: (n * rows).min(TILE) };
        for step in &self.hoisted {
            // SAFETY: hoisted steps only fill registers and compute on them, at most a tile.
            unsafe { call.step(step, first) };
        }
        // Short rows share a tile.
        let together = (TILE / n).max(1);
        for row in (0..rows).step_by(together) {
            for column in (0..n).step_by(TILE) {
                let block = Block { row, rows: together.min(rows - row), column, columns: TILE.min(n - column) };
                for step in &self.steps {
                    // SAFETY: the block lies in the `rows × n` points that the caller vouches for, and has at most a tile of them.
                    unsafe { call.step(step, block) };
                }
            }
        }
        REGISTERS.replace(registers);
        true
    }
}

struct Call<'a> {
    program: &'a TileProgram,
    args: &'a RowArgs,
    n: usize,
    /// Where the tiles start.
    base: *mut u8,
    /// Where each register's lanes are now.
    at: &'a mut [*mut u8],
}

impl Call<'_> {
    fn word(&self, access: u16, word: usize) -> u64 {
        self.args[access as usize * ACCESS_WORDS + word]
    }

    /// Word 0 moved to a row: an address or a position.
    fn at_row(&self, access: u16, row: usize) -> u64 {
        self.word(access, 0).wrapping_add(self.word(access, 1).wrapping_mul(row as u64))
    }

    /// Runs one step over a block.
    ///
    /// # Safety
    /// That of [`Rows::run`], for the points of the block, of which there are at most [`TILE`].
    unsafe fn step(&mut self, step: &Step, b: Block) {
        let lanes = b.rows * b.columns;
        // SAFETY: registers have room for a tile of their width, and what steps read has been written by earlier ones
        // (topological order); memory is as the caller vouches.
        unsafe {
            match *step {
                Step::Fill { value, width, out } => {
                    let bits = match value {
                        Value::Bits(bits) => bits,
                        Value::Scalar(slot) => self.args[self.program.accesses.len() * ACCESS_WORDS + slot as usize],
                    };
                    fill(bits, width, self.tile(out), lanes);
                }
                Step::Load { access, convert, size, width, in_place, out } => {
                    self.load(access, convert, size, width, in_place, out, b)
                }
                Step::Uniform { access, dtype, width, out } => {
                    let to = self.tile(out);
                    for r in 0..b.rows {
                        let bits = casts::element_bits(dtype, self.at_row(access, b.row + r) as *const u8);
                        fill(bits, width, to.add(r * b.columns * width), b.columns);
                    }
                }
                Step::Gather { access, size, class, out } => {
                    let to = self.tile(out);
                    for r in 0..b.rows {
                        let to = to.add(r * b.columns * size);
                        self.gather(access, size, class, b.row + r, b.column, to, b.columns);
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
                    let mapped = self.program.accesses[access as usize].class == AccessClass::Mapped;
                    for i in 0..lanes {
                        to.add(i).write((!mapped || self.position(access, b.row, b.column + i) >= 0) as u8);
                    }
                }
                Step::Apply { code, args, out } => {
                    let args = args.map(|a| self.at[a as usize] as *const u8);
                    apply(code, args, self.tile(out), lanes);
                }
                Step::Store { access, value, run } => {
                    let a = self.program.accesses[access as usize];
                    let (from, size) = (self.at[value as usize] as *const u8, a.dtype.size());
                    let lane = super::compile::width(a.dtype);
                    if self.dense(access, size, b) {
                        let to = (self.at_row(access, b.row) as *mut u8).add(b.column * size);
                        return run([from; 3], to, lanes);
                    }
                    for r in 0..b.rows {
                        let to = (self.at_row(access, b.row + r) as *mut u8).add(b.column * size);
                        run([from.add(r * b.columns * lane); 3], to, b.columns);
                    }
                }
            }
        }
    }

    /// The tile of a register, where its lanes are from now on.
    fn tile(&mut self, r: Register) -> *mut u8 {
        // SAFETY: offsets are within the tiles' memory.
        let tile = unsafe { self.base.add(self.program.offsets[r as usize]) };
        self.at[r as usize] = tile;
        tile
    }

    /// Whether the elements of a block follow one another in memory without gaps.
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
        // SAFETY: the elements of the block are readable, the register has room for as many lanes, and does not overlap them.
        unsafe {
            let from = (self.at_row(access, b.row) as *const u8).add(b.column * size);
            let dense = self.dense(access, size, b);
            if dense && in_place && convert.is_none() {
                self.at[out as usize] = from.cast_mut();
                return;
            }
            let to = self.tile(out);
            let (pieces, each) = if dense { (1, lanes) } else { (b.rows, b.columns) };
            for r in 0..pieces {
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
        // SAFETY: the elements at these strides or positions are readable, the register has room for n of their size.
        unsafe {
            if class == AccessClass::Strided {
                let stride = self.word(access, 2) as isize;
                let from = (self.at_row(access, row) as *const u8).offset(stride * column as isize * size as isize);
                match size {
                    1 => strided::<u8>(from, stride, to, n),
                    2 => strided::<u16>(from, stride, to, n),
                    4 => strided::<u32>(from, stride, to, n),
                    _ => strided::<u64>(from, stride, to, n),
                }
            } else {
                let (from, table) = (self.word(access, 0) as *const u8, self.word(access, 3) as *const i32);
                let table = table.add(column);
                match size {
                    1 => mapped::<u8>(from, table, to, n),
                    2 => mapped::<u16>(from, table, to, n),
                    4 => mapped::<u32>(from, table, to, n),
                    _ => mapped::<u64>(from, table, to, n),
                }
            }
        }
    }

    /// The position that an access points at.
    ///
    /// # Safety
    /// The point is one of the call's.
    #[inline(always)]
    unsafe fn position(&self, access: u16, row: usize, column: usize) -> i64 {
        let start = self.at_row(access, row) as i64;
        match self.program.accesses[access as usize].class {
            AccessClass::Contiguous => start.wrapping_add(column as i64),
            AccessClass::Uniform => start,
            AccessClass::Strided => start.wrapping_add((self.word(access, 2) as i64).wrapping_mul(column as i64)),
            // SAFETY: the table has an entry for each column.
            AccessClass::Mapped => unsafe { (self.word(access, 3) as *const i32).add(column).read() as i64 },
        }
    }
}

/// # Safety
/// Arguments that the code takes hold `n` lanes, `out` has room for as many and overlaps none of them.
unsafe fn apply(code: Code, args: [*const u8; 3], out: *mut u8, n: usize) {
    // SAFETY: as above; registers are aligned to cache lines, memory to its elements.
    unsafe {
        match code {
            Code::Loop(run) => run(args, out, n),
            Code::F32(run) => run(
                std::slice::from_raw_parts(args[0].cast(), n),
                std::slice::from_raw_parts(args[1].cast(), n),
                std::slice::from_raw_parts_mut(out.cast(), n),
            ),
            Code::F64(run) => run(
                std::slice::from_raw_parts(args[0].cast(), n),
                std::slice::from_raw_parts(args[1].cast(), n),
                std::slice::from_raw_parts_mut(out.cast(), n),
            ),
        }
    }
}

/// # Safety
/// `out` has room for `n` lanes of the width.
unsafe fn fill(bits: u64, width: usize, out: *mut u8, n: usize) {
    // SAFETY: as above.
    unsafe {
        match width {
            1 => std::slice::from_raw_parts_mut(out, n).fill((bits != 0) as u8),
            4 => std::slice::from_raw_parts_mut(out.cast::<u32>(), n).fill(bits as u32),
            _ => std::slice::from_raw_parts_mut(out.cast::<u64>(), n).fill(bits),
        }
    }
}

/// # Safety
/// `n` elements of `T`, `stride` elements apart, are readable; `out` has room for them.
unsafe fn strided<T: Copy>(from: *const u8, stride: isize, out: *mut u8, n: usize) {
    let (from, out) = (from.cast::<T>(), out.cast::<T>());
    for i in 0..n {
        // SAFETY: as above.
        unsafe { out.add(i).write(from.offset(stride * i as isize).read()) };
    }
}

/// # Safety
/// The table has `n` positions, and those not negative are readable elements of `T`; `out` has room for `n`.
unsafe fn mapped<T: Copy + Default>(from: *const u8, table: *const i32, out: *mut u8, n: usize) {
    let (from, out) = (from.cast::<T>(), out.cast::<T>());
    for i in 0..n {
        // SAFETY: as above.
        unsafe {
            let at = table.add(i).read();
            let v = if at < 0 { T::default() } else { from.offset(at as isize).read() };
            out.add(i).write(v);
        }
    }
}
