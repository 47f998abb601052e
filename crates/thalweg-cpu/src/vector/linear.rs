//! Linear code: a function as a list of machine-neutral operations, after register allocation.
//!
//! In: the builders of this folder push [`Line`]s. Out: [`Linear`], which an instruction set encodes line by line.
//! General registers have roles ([`Gpr`]); vector and mask registers are numbered as the allocator did. Always true: a
//! line needs only its fields to be encoded; a label that is used is bound once; between lines, the general registers
//! `A` and `B` hold what the lines say, and no other temporary lives on.

use super::ir::{Accumulate, Inst};
use std::rc::Rc;
use thalweg_ir::DType;

/// A general register, by its role in a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gpr {
    /// Stack pointer; the frame begins there, aligned to 64 bytes.
    Stack,
    /// The argument block.
    Args,
    /// Position of the step in the row.
    Position,
    /// Number of points of a row.
    Count,
    /// Bits that guards found.
    Faults,
    /// Address of the row's values, in functions of row bodies; it is pointer 0 there.
    Values,
    /// Temporaries.
    A,
    B,
    /// Pointers of accesses.
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

/// Right side of a comparison.
#[derive(Clone, Copy, Debug)]
pub enum Right {
    Reg(Gpr),
    Imm(i32),
}

/// A vector operand.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A vector register.
    Reg(u8),
    /// A vector in memory.
    Mem(Mem),
    /// One value in every lane, in the constant pool.
    Constant { bits: u64, lane: u8 },
    /// A vector in the constant pool; equal ids share one.
    Pool { id: (u64, u64), bytes: Rc<[u8]> },
}

/// Conditions of branches, on unsigned words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cond {
    Below,
    AboveEqual,
    Equal,
    NotEqual,
    BelowEqual,
    Above,
}

/// A jump target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(pub u32);

/// Flag of a fold that some element was NaN: a register (a mask register, or a vector where masks are vectors), or a
/// frame vector.
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
    /// Argument whose register the result takes over.
    pub overwritten: Option<u8>,
    /// Argument that the allocator gave from memory, and where it is, if it is there still.
    pub memory: Option<u8>,
    pub operand: Option<Operand>,
    /// Lane size of the first argument.
    pub lane: u8,
    /// Points of a step.
    pub lanes: u8,
    /// Whether lanes past the end of the row are masked.
    pub tail: bool,
    /// Frame offsets of a scratch vector, and of the masks of lanes inside the row (of 4 and 8 bytes), where masks are
    /// vectors.
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
    /// Function entry: saves registers, makes a frame of that many bytes, sets `Args`, `Count` and `Faults`, stores the
    /// number of rows in the frame; of row bodies (`phases`) also the range of phases. Jumps to `leave` if there are no
    /// rows.
    Enter {
        frame: i32,
        phases: bool,
        leave: Label,
    },
    /// Function exit: returns `Faults`. `fence`: after non-temporal stores.
    Leave {
        fence: bool,
    },
    /// Binds a label.
    Bind(Label),
    /// Aligns the top of a loop.
    Align,
    Jump(Label),
    /// Compares two words, and jumps.
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
    /// Address of a memory operand.
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
    /// `to += [from]`
    Add {
        to: Gpr,
        from: Mem,
    },
    /// `to *= [from]`
    Mul {
        to: Gpr,
        from: Mem,
    },
    /// `to = min(to, from)`
    Min {
        to: Gpr,
        from: Gpr,
    },
    /// `[to] += from`
    AddTo {
        to: Mem,
        from: Gpr,
    },
    /// `[to] -= from`; jumps unless the result is 0.
    SubTo {
        to: Mem,
        from: Gpr,
        unless_zero: Label,
    },
    /// Prefetches a cache line.
    Prefetch(Mem),

    /// Loads a whole register.
    LoadVector {
        to: u8,
        from: Operand,
    },
    /// Stores a whole register.
    StoreVector {
        to: Mem,
        from: u8,
    },
    /// Copies a whole register.
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
    /// All lanes false.
    ClearMask(u8),
    /// One value in every lane.
    Constant {
        to: u8,
        bits: u64,
        lane: u8,
    },
    /// The lowest lane of a register, or an element in memory, in every lane of a whole register.
    Broadcast {
        to: u8,
        from: Operand,
        lane: u8,
    },
    /// Converts the four f16 at an address to f32, in place.
    WidenHalf(Mem),
    /// `to = mask ? from : to`, by a vector mask.
    Choose {
        to: u8,
        from: u8,
        mask: u8,
        lane: u8,
        width: u8,
    },
    /// The upper half of the lowest `bytes` bytes, at the bottom of a register.
    UpperHalf {
        to: u8,
        from: u8,
        bytes: u8,
    },

    /// Sets the masks of the last step: of the lanes inside the row; also their number and bits in the frame.
    TailMask {
        lanes: u8,
        inside: i32,
    },
    /// An operation of the vector IR.
    Run(Run),
    /// Combines elements with an accumulator; float extremes are correct for numbers only. `tail`: lanes past the end
    /// of the row keep their value, if masks have registers.
    Combine {
        fold: Accumulate,
        width: u8,
        to: u8,
        from: Operand,
        temporaries: [u8; 4],
        tail: bool,
    },
    /// Records in a fold's flag whether a lane is NaN.
    NoteNan {
        lane: u8,
        width: u8,
        from: u8,
        flag: NanFlag,
        temporary: u8,
        tail: bool,
    },
    /// Jumps if no lane was NaN.
    BranchIfNumber {
        lane: u8,
        width: u8,
        flag: NanFlag,
        temporary: u8,
        to: Label,
    },

    /// Sets the active lanes of a loop's first iteration: those inside the row, or, in a nested loop, those of the
    /// outer one, which are saved at the frame offset `words`.
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
    /// Narrows the active lanes to those where `go` is true, copies them to `dst`, leaves if there are none.
    Exit {
        dst: u8,
        go: u8,
        width: u8,
        leave: Label,
    },
}

/// Offsets of words in the frame: the stack pointer to restore, the number of rows, the number and the bits of lanes
/// inside the last step.
pub const FRAME_STACK: i32 = 0;
pub const FRAME_ROWS: i32 = 8;
pub const FRAME_COUNT: i32 = 16;
pub const FRAME_BITS: i32 = 24;
/// First phase to run, and the end of the range.
pub const FRAME_START: i32 = 32;
pub const FRAME_END: i32 = 40;
/// Number of rows of a group, rows that a phase has left to do, and the address of the next row's values.
pub const FRAME_GROUP: i32 = 48;
pub const FRAME_LEFT: i32 = 56;
pub const FRAME_VALUES: i32 = 64;
/// Word 0 of each access, advanced by rows.
pub const FRAME_WORDS: i32 = 72;

/// Linear code under construction or complete.
#[derive(Default)]
pub struct Linear {
    /// Lines in execution order.
    pub lines: Vec<Line>,
    /// Number of labels.
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
    /// Jumps by a comparison of a register with a constant.
    pub fn branch_imm(&mut self, cond: Cond, left: Gpr, right: i32, to: Label) {
        self.push(Line::Branch { cond, left: Word::Reg(left), right: Right::Imm(right), to });
    }
    /// Jumps by a comparison of a word in the frame with a constant.
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
