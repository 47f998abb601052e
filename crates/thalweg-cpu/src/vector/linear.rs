//! Linear code: a function as a list of machine-neutral operations, after register allocation.
//!
//! In: the builders of this folder push [`Line`]s. Out: [`Linear`], which an instruction set encodes line by line.
//! General registers have roles ([`Gpr`]); vector and mask registers have the numbers that the allocator assigned.
//! Always true: a line needs only its fields to be encoded; a label that is used is bound once; of the temporaries,
//! only the general registers `A` and `B` carry values from line to line (lines of vector operations may overwrite
//! them).

use super::ir::{Accumulate, Inst};
use std::rc::Rc;
use thalweg_ir::DType;

/// A general register, by its role in a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gpr {
    /// Stack pointer; the frame begins there, aligned to 64 bytes.
    Stack,
    /// Address of the call's argument block.
    Args,
    /// Index in the row of the step's first point.
    Position,
    /// Number of points of a row.
    Count,
    /// Nonzero if a guard found a lane that needs the slow path; the function's return value.
    Faults,
    /// Address of the row's values, in functions of row bodies; it uses the register of pointer 0.
    Values,
    /// First temporary register.
    A,
    /// Second temporary register.
    B,
    /// Register of an access's pointer.
    Pointer(u8),
}

/// Memory operand `[base + index·scale + disp]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mem {
    pub base: Gpr,
    pub index: Option<(Gpr, u8)>,
    pub disp: i32,
}

/// Memory operand `[base + disp]`.
pub fn at(base: Gpr, disp: i32) -> Mem {
    Mem { base, index: None, disp }
}

/// Memory operand in the frame.
pub fn frame(disp: i32) -> Mem {
    at(Gpr::Stack, disp)
}

/// A general register or a word in memory.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    Reg(Gpr),
    Mem(Mem),
}

/// Right operand of a comparison.
#[derive(Clone, Copy, Debug)]
pub enum Right {
    Reg(Gpr),
    Imm(i32),
}

/// A vector operand of a line: register, memory or constant.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A vector register.
    Reg(u8),
    /// A vector in memory.
    Mem(Mem),
    /// A constant with the same bits in every lane, in the constant pool.
    Constant { bits: u64, lane: u8 },
    /// A constant vector in the constant pool; operands with equal ids share one entry.
    Pool { id: (u64, u64), bytes: Rc<[u8]> },
}

/// Condition of a branch, on unsigned words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cond {
    Below,
    AboveEqual,
    Equal,
    NotEqual,
    BelowEqual,
    Above,
}

/// A jump target, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(pub u32);

/// Location of a fold's flag that some element was NaN: a register (a mask register, or a vector register where masks
/// are vectors), or, without one, a frame vector.
#[derive(Clone, Copy, Debug)]
pub struct NanFlag {
    pub register: Option<u8>,
    pub home: Mem,
}

/// An operation of the vector IR with its registers.
#[derive(Clone, Debug)]
pub struct Run {
    pub inst: Inst,
    /// Register of the result.
    pub dst: u8,
    /// Registers of the arguments.
    pub args: [u8; 3],
    /// Index of the argument whose register the result overwrites.
    pub overwritten: Option<u8>,
    /// Index of the argument that the allocator placed in memory, and its memory operand; `operand` is `None` if the
    /// argument has moved to a register since.
    pub memory: Option<u8>,
    pub operand: Option<Operand>,
    /// Lane size of the first argument.
    pub lane: u8,
    /// Number of points of a step.
    pub lanes: u8,
    /// Whether lanes past the end of the row are masked.
    pub tail: bool,
    /// Frame offsets of a scratch vector (`scratch`), and of the masks of lanes inside the row (`inside`: of 4, then of
    /// 8 bytes a lane), which exist where masks are vectors.
    pub scratch: i32,
    pub inside: i32,
    /// Pointer of a memory access; stride of a strided one, in elements.
    pub pointer: Option<(Word, Mem)>,
    /// Whether a whole vector is stored non-temporally.
    pub streaming: bool,
}

/// Machine-neutral instruction of linear code, after register allocation.
#[derive(Clone, Debug)]
pub enum Line {
    /// Function entry: saves registers, allocates a frame of `frame` bytes, sets `Args`, `Count` and `Faults`, and
    /// stores the number of rows in the frame; in functions of row bodies (`phases`) also the range of phases. Jumps to
    /// `leave` if there are no rows.
    Enter {
        frame: i32,
        phases: bool,
        leave: Label,
    },
    /// Function exit: returns `Faults`. With `fence`, first waits for non-temporal stores.
    Leave {
        fence: bool,
    },
    /// Binds a label to this position of the code.
    Bind(Label),
    /// Aligns the following code, the top of a loop.
    Align,
    Jump(Label),
    /// Compares two words, and jumps if the condition holds.
    Branch {
        cond: Cond,
        left: Word,
        right: Right,
        to: Label,
    },
    /// Decrements a word in memory, and jumps unless it became 0.
    CountDown {
        at: Mem,
        to: Label,
    },

    /// Loads a word of 4 bytes (extended with zeros) or 8 bytes.
    LoadWord {
        to: Gpr,
        from: Mem,
        bytes: u8,
    },
    StoreWord {
        to: Mem,
        from: Gpr,
    },
    /// Loads an element of 1 or 2 bytes in its compute form (f16: its bits; bool: 0 or -1).
    LoadElement {
        to: Gpr,
        from: Mem,
        dtype: DType,
    },
    Set {
        to: Gpr,
        value: u32,
    },
    Copy {
        to: Gpr,
        from: Gpr,
    },
    /// Computes the address of a memory operand.
    Address {
        to: Gpr,
        of: Mem,
    },
    AddConst {
        to: Word,
        value: i32,
    },
    AndConst {
        to: Gpr,
        value: i32,
    },
    Negate(Gpr),
    ShiftLeft(Gpr, u8),
    /// Adds a word in memory to a register: `to += [from]`.
    Add {
        to: Gpr,
        from: Mem,
    },
    /// Multiplies a register by a word in memory: `to *= [from]`.
    Mul {
        to: Gpr,
        from: Mem,
    },
    /// Unsigned minimum of two registers: `to = min(to, from)`.
    Min {
        to: Gpr,
        from: Gpr,
    },
    /// Adds a register to a word in memory: `[to] += from`.
    AddTo {
        to: Mem,
        from: Gpr,
    },
    /// Subtracts a register from a word in memory (`[to] -= from`), and jumps unless the result is 0.
    SubTo {
        to: Mem,
        from: Gpr,
        unless_zero: Label,
    },
    /// Prefetches a cache line.
    Prefetch(Mem),

    /// Loads a whole vector register.
    LoadVector {
        to: u8,
        from: Operand,
    },
    /// Stores a whole vector register.
    StoreVector {
        to: Mem,
        from: u8,
    },
    /// Copies a whole vector register.
    CopyVector {
        to: u8,
        from: u8,
    },
    LoadMask {
        to: u8,
        from: Mem,
    },
    StoreMask {
        to: Mem,
        from: u8,
    },
    /// Sets all lanes of a mask register to false.
    ClearMask(u8),
    /// Sets every lane of a whole register to a constant.
    Constant {
        to: u8,
        bits: u64,
        lane: u8,
    },
    /// Broadcasts the lowest lane of a register, or an element in memory, to every lane of a whole register.
    Broadcast {
        to: u8,
        from: Operand,
        lane: u8,
    },
    /// Converts the four f16 at an address to f32, in place.
    WidenHalf(Mem),
    /// Selects by a vector mask: `to = mask ? from : to`.
    Choose {
        to: u8,
        from: u8,
        mask: u8,
        lane: u8,
        width: u8,
    },
    /// Moves the upper half of a register's lowest `bytes` bytes to the lowest `bytes / 2` bytes of another register.
    UpperHalf {
        to: u8,
        from: u8,
        bytes: u8,
    },

    /// Sets the masks of a masked step, which select the lanes inside the row; also stores the number and the bit mask
    /// of these lanes in the frame.
    TailMask {
        lanes: u8,
        inside: i32,
    },
    /// Executes an operation of the vector IR.
    Run(Run),
    /// Combines elements with an accumulator; float maxima and minima are correct for numbers only, not for NaN. With
    /// `tail`, lanes past the end of the row keep their value, if masks have registers.
    Combine {
        fold: Accumulate,
        width: u8,
        to: u8,
        from: Operand,
        temporaries: [u8; 4],
        tail: bool,
    },
    /// Sets a fold's NaN flag if a lane is NaN.
    NoteNan {
        lane: u8,
        width: u8,
        from: u8,
        flag: NanFlag,
        temporary: u8,
        tail: bool,
    },
    /// Jumps if a fold's NaN flag is not set.
    BranchIfNumber {
        lane: u8,
        width: u8,
        flag: NanFlag,
        temporary: u8,
        to: Label,
    },

    /// Sets the active lanes of a loop's first iteration: the lanes inside the row, or, in a nested loop, the active
    /// lanes of the outer loop, which are saved at the frame offset `words`.
    BeginLoop {
        nested: bool,
        tail: bool,
        lanes: u8,
        inside: i32,
        words: i32,
    },
    /// Restores the active lanes of the outer loop.
    EndLoop {
        words: i32,
    },
    /// Deactivates the lanes where `go` is false, copies the mask of active lanes to `dst`, and jumps to `leave` if
    /// none is active.
    Exit {
        dst: u8,
        go: u8,
        width: u8,
        leave: Label,
    },
}

/// Frame offset, in bytes, of the caller's stack pointer, which the exit restores.
pub const FRAME_STACK: i32 = 0;
/// Frame offset of the number of rows left to compute.
pub const FRAME_ROWS: i32 = 8;
/// Frame offset of the number of lanes inside the row, in a masked step.
pub const FRAME_COUNT: i32 = 16;
/// Frame offset of the bit mask of the lanes inside the row, in a masked step.
pub const FRAME_BITS: i32 = 24;
/// Frame offset of the index of the first phase to run.
pub const FRAME_START: i32 = 32;
/// Frame offset of the end (exclusive) of the range of phases to run.
pub const FRAME_END: i32 = 40;
/// Frame offset of the number of rows of the current group.
pub const FRAME_GROUP: i32 = 48;
/// Frame offset of the number of rows of the group that the current phase has yet to process.
pub const FRAME_LEFT: i32 = 56;
/// Frame offset of the address of the next row's values.
pub const FRAME_VALUES: i32 = 64;
/// Frame offset of one word per access: its argument word 0, advanced row by row.
pub const FRAME_WORDS: i32 = 72;

/// Linear code of a function, under construction or complete.
#[derive(Default)]
pub struct Linear {
    /// Lines in execution order.
    pub lines: Vec<Line>,
    /// Number of labels created so far.
    pub labels: u32,
}

impl Linear {
    /// Appends a line.
    pub fn push(&mut self, line: Line) {
        self.lines.push(line);
    }
    /// Creates a label to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }
    /// Binds a label to this position.
    pub fn bind(&mut self, label: Label) {
        self.push(Line::Bind(label));
    }
    /// Appends a load of a word.
    pub fn load(&mut self, to: Gpr, from: Mem) {
        self.push(Line::LoadWord { to, from, bytes: 8 });
    }
    /// Appends a store of a word.
    pub fn store(&mut self, to: Mem, from: Gpr) {
        self.push(Line::StoreWord { to, from });
    }
    /// Appends the addition of a constant to a register.
    pub fn add_const(&mut self, to: Gpr, value: i32) {
        self.push(Line::AddConst { to: Word::Reg(to), value });
    }
    /// Appends the computation of an address.
    pub fn address(&mut self, to: Gpr, of: Mem) {
        self.push(Line::Address { to, of });
    }
    /// Appends a conditional jump by a comparison of registers.
    pub fn branch(&mut self, cond: Cond, left: Gpr, right: Gpr, to: Label) {
        self.push(Line::Branch { cond, left: Word::Reg(left), right: Right::Reg(right), to });
    }
    /// Appends a conditional jump by a comparison of a register with a constant.
    pub fn branch_imm(&mut self, cond: Cond, left: Gpr, right: i32, to: Label) {
        self.push(Line::Branch { cond, left: Word::Reg(left), right: Right::Imm(right), to });
    }
    /// Appends a conditional jump by a comparison of a word in the frame with a constant.
    pub fn branch_frame(&mut self, cond: Cond, offset: i32, right: i32, to: Label) {
        self.push(Line::Branch { cond, left: Word::Mem(frame(offset)), right: Right::Imm(right), to });
    }
    /// Appends a load of a whole vector register.
    pub fn load_vector(&mut self, to: u8, from: Mem) {
        self.push(Line::LoadVector { to, from: Operand::Mem(from) });
    }
    /// Appends a store of a whole vector register.
    pub fn store_vector(&mut self, to: Mem, from: u8) {
        self.push(Line::StoreVector { to, from });
    }
    /// Appends a line that sets every lane of a register to a constant.
    pub fn constant(&mut self, to: u8, bits: u64, lane: u8) {
        self.push(Line::Constant { to, bits, lane });
    }
}
