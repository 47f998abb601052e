//! The vector IR: one step of the inner loop in SSA form, one operation per value.
//!
//! An operation is a meaning ("multiply and add", "select by mask"), not an instruction: the instruction set selects
//! instructions for it, and a [`Target`] says which meanings it has. A step computes `lanes` points. A 32-bit value
//! fills `4·lanes` bytes of a register and a 64-bit value `8·lanes`, so each instruction has its own vector length.
//! Masks are in mask registers (`lane` 0) or, where there are none, in vectors of 0 and -1, whose width `lane` gives.
//! Equal instructions are one value (value numbering). Always true: an instruction stands after its arguments.

pub mod target;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use target::Target;
use thalweg_ir::{DType, Monoid};

/// A value: the index of its instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Val(pub u32);

impl Val {
    /// The index as a `usize`.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Number formats, for conversions. Numbers of 16 bits are adjacent in the lower half of a vector, whose lane size is
/// that of the other side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    U16,
    F16,
    I32,
    U32,
    F32,
    I64,
    U64,
    F64,
}

impl Format {
    /// Bytes of a lane that holds it.
    pub fn lane(self) -> u8 {
        match self {
            Format::I64 | Format::U64 | Format::F64 => 8,
            _ => 4,
        }
    }
}

/// Predicate of a float comparison. All are false if an argument is NaN, but for `Ne` and `Unordered`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Predicate {
    Eq,
    Ne,
    Lt,
    Le,
    /// Some argument is NaN.
    Unordered,
}

/// Direction of a rounding to an integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rounding {
    /// Halves to even.
    Nearest,
    Down,
    Up,
    Zero,
}

/// Form of elements in memory, against that in lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// Same format as in lanes.
    Same,
    /// Narrow integers: a load extends them by their sign.
    Signed,
    /// Narrow integers: a load extends them with zeros, a store truncates lanes.
    Unsigned,
    /// f16, converted from and to f32.
    Half,
    /// Narrow elements that were packed into the lower part of a vector before the store.
    Packed,
}

/// Opcode of a vector instruction: on lanes of [`Inst::lane`] bytes, unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// One value in every lane (`aux`), in the constant pool.
    Const,
    /// A full vector of the constant pool ([`Vir::tables`]`[aux]`).
    Table,
    /// Lane numbers, plus `lanes` for each preceding copy of the step; in the constant pool.
    Iota,
    /// A vector in the stack frame ([`Vir::slots`]`[aux]`) that the prologue fills.
    Slot,
    /// All lanes true (`imm` 1) or false, in a mask register.
    MaskConst,

    /// Float sum, difference, product, quotient, square root.
    Add,
    Sub,
    Mul,
    Div,
    Sqrt,
    /// `a < b ? a : b`, so `b` if one is NaN.
    Min,
    /// `a > b ? a : b`, so `b` if one is NaN.
    Max,
    /// The smaller of two numbers, -0 below +0; unspecified if one is NaN.
    MinNumber,
    /// The larger of two numbers, -0 below +0; unspecified if one is NaN.
    MaxNumber,
    /// Nearest integer in a direction, as a float.
    Round(Rounding),
    /// `a·2ᵇ` for integral `b`, rounded once.
    Scale,
    /// `a·b + c`, rounded once.
    MulAdd,
    /// `a·b - c`, rounded once.
    MulSub,
    /// `c - a·b`, rounded once.
    NegMulAdd,

    /// Integer sum, difference, product (its low half), magnitude, extremes.
    IntAdd,
    IntSub,
    IntMul,
    /// Product of the low halves of unsigned lanes, as wide as the lanes.
    IntMulHalves,
    IntAbs,
    IntMin,
    IntMax,
    UintMin,
    UintMax,
    /// Bitwise operations. `AndNot` is `b` and not `a`.
    And,
    AndNot,
    Or,
    Xor,
    /// Shifts and rotation by a constant (`imm`).
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    RotateLeft,
    /// Shifts by another vector's lanes, as unsigned counts: 0 (or the sign) from the lane's width on.
    ShiftLeftBy,
    ShiftRightBy,
    ShiftRightSignedBy,

    /// Float comparison into a mask. `imm` of comparisons is the lane size of the arguments.
    Compare(Predicate),
    /// Integer comparisons into a mask: equal, greater.
    IntEq,
    IntGt,
    UintGt,
    /// Mask of the lanes in which `a` and `b` have a common bit.
    TestBits,
    /// Operations on mask registers. `MaskAndNot` is `b` and not `a`.
    MaskAnd,
    MaskAndNot,
    MaskOr,
    MaskXor,
    MaskNot,
    /// `m ? a : b` by a mask.
    Select,

    /// Conversion; of floats to integers toward zero. Below its range an integer is the smallest one. Above, an
    /// unsigned one is the largest one, a signed one unspecified, but for 2³¹ of f64, which becomes the smallest i32: a
    /// division needs it.
    Convert(Format, Format),
    /// Conversion of floats to integers, halves to even; unspecified out of range.
    ConvertNearest(Format, Format),
    /// The low 32 bits of 64-bit lanes, in adjacent 32-bit lanes.
    LowHalves,
    /// The low 16 bits (`imm` 2) or 8 bits (`imm` 1) of 32-bit lanes, adjacent in the lower part of the vector.
    Pack,
    /// The lanes of a vector of 16 bytes in reverse order.
    Reverse,
    /// 32-bit words of `b`, by their numbers in the words of `a`.
    PermuteWords,
    /// An operation of the instruction set's own, by its number there. Only [`Target::pack`] makes one.
    Machine(u8),

    /// Position of the step in the row, in every lane.
    Step,
    /// The two low bits of the step's address in a strided access, in every lane.
    StepLow,
    /// `lanes` contiguous elements at a pointer (`aux`); `imm` is the element size in memory.
    Load(Memory),
    /// Writes the first argument as contiguous elements. With [`CACHED`] in `aux`, never non-temporally.
    Store(Memory),
    /// Writes the lowest lane of the first argument at the pointer: `imm` bytes.
    StoreOne,
    /// Combines the first argument with the contiguous elements at the pointer, by one instruction.
    Merge(Monoid, DType),
    /// Folds the first argument into the accumulators of a fold ([`Vir::folds`]`[aux]`).
    Fold(Monoid, DType),
    /// Sets the row's value `aux` to the first argument, which is the same in every lane.
    Set,
    /// Gathers elements at the pointer plus the index lanes (first argument) times `imm`; 0 where the mask (second
    /// argument) is false.
    Gather,
    /// Records whether any lane of the mask is true.
    Guard,
    /// Stores the first argument to a frame vector of a loop ([`Vir::loops`]; `aux`: `loop << 16 | value`).
    Put,
    /// Runs the loop `aux`, which preserves no registers.
    Loop,
    /// Reads a frame vector of a loop (`aux` as for [`Op::Put`]).
    Take,
    /// In a loop iteration: narrows the active lanes to those where the first argument is true; leaves the loop if none
    /// remain.
    Exit,
    /// In a loop iteration: stores the first argument to the carried value in slot `aux`.
    Carry,
}

impl Op {
    /// Whether swapping the first two arguments changes nothing.
    pub fn commutes(self) -> bool {
        use Op::*;
        matches!(
            self,
            Add | Mul
                | IntAdd
                | IntMul
                | IntMulHalves
                | IntMin
                | IntMax
                | UintMin
                | UintMax
                | And
                | Or
                | Xor
                | IntEq
                | TestBits
                | MaskAnd
                | MaskOr
                | MaskXor
                | MinNumber
                | MaxNumber
                | MulAdd
                | MulSub
                | NegMulAdd
                | Compare(Predicate::Eq | Predicate::Ne | Predicate::Unordered)
        )
    }
}

/// Register class of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// A vector register.
    Vector,
    /// A mask register.
    Mask,
    /// No register: the instruction has an effect instead.
    Effect,
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inst {
    /// Operation.
    pub op: Op,
    /// Vector length in bytes; 0 if the operation has none.
    pub width: u8,
    /// Immediate; its meaning depends on the operation.
    pub imm: u8,
    /// Number of arguments.
    pub nargs: u8,
    /// Bytes per lane of the result; 0 for mask registers.
    pub lane: u8,
    /// Arguments; unused ones are `Val(0)`.
    pub args: [Val; 3],
    /// Extra operand; its meaning depends on the operation.
    pub aux: u64,
    /// Register class of the result.
    pub class: Class,
    /// Copy of the step, after unrolling.
    pub step: u8,
}

impl Hash for Inst {
    /// Few words instead of a word for each field: every value of a step is looked up by it.
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.op.hash(to);
        let bytes = [self.width, self.imm, self.nargs, self.lane, self.step, self.class as u8, 0, 0];
        to.write_u64(u64::from_le_bytes(bytes));
        to.write_u64((self.args[0].0 as u64) << 32 | self.args[1].0 as u64);
        to.write_u64(self.aux.rotate_left(32) ^ self.args[2].0 as u64);
    }
}

impl Inst {
    /// The arguments.
    pub fn args(&self) -> &[Val] {
        &self.args[..self.nargs as usize]
    }
    /// Whether the value is loop-invariant and in memory: it is never spilled, but read again instead.
    pub fn invariant(&self) -> bool {
        matches!(self.op, Op::Const | Op::Table | Op::Iota | Op::Slot)
    }
}

/// Source of a frame vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A scalar argument, in the form of [`thalweg_ir::Scalar::to_bits`]; bool as 0 or -1.
    Scalar(u16),
    /// Word 0 of an access, advanced by rows.
    Word(u16),
    /// Word 2 of an access.
    Stride(u16),
    /// The element at word 0 of an access.
    Uniform(u16),
    /// The two low bits of word 0.
    Low(u16),
    /// A value of the row, which an earlier phase left in the frame.
    Value(u16),
    /// A value of a loop iteration: a carried one, or an argument of the loop.
    Iteration(u16),
    /// -1 in the lanes inside the row.
    Tail,
}

/// A vector in the frame: one value in every lane, except for [`Source::Tail`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Source of the value.
    pub source: Source,
    /// Dtype of the value.
    pub dtype: DType,
    /// Bytes per lane.
    pub lane: u8,
}

impl Slot {
    /// Whether it is the same for all rows of a call.
    pub fn by_call(&self) -> bool {
        matches!(self.source, Source::Scalar(_) | Source::Stride(_))
    }
}

/// A loop inside a step.
pub struct LoopIteration {
    /// Code of one iteration.
    pub v: Vir,
    /// Maximum number of iterations.
    pub max_iterations: u32,
}

/// A fold over the points of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accumulate {
    /// Monoid.
    pub op: Monoid,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Value of the row that receives the result.
    pub value: u16,
}

/// Flag in a load's `aux`: the pointer descends, so the step's elements end at its start. The vector has memory order,
/// the last point first.
pub const DOWNWARDS: u64 = 1 << 32;

/// Flag in a store's `aux`: its cache lines are read again soon.
pub const CACHED: u64 = 1 << 32;

/// Id of a pointer for loads and stores: word 0 of an access (even) or word 3 (odd).
pub fn pointer(access: u16, table: bool) -> u64 {
    access as u64 * 2 + table as u64
}

/// A multiplicative hasher: keys are small and not adversarial.
#[derive(Default)]
pub struct Mix(u64);
impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(b as u64);
        }
    }
    fn write_u8(&mut self, v: u8) {
        self.write_u64(v as u64);
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(v as u64);
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(5) ^ v).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
    fn write_isize(&mut self, v: isize) {
        self.write_u64(v as u64);
    }
}

/// One step, under construction or complete.
pub struct Vir {
    /// The instruction set.
    pub target: &'static Target,
    /// Number of points per step.
    pub lanes: usize,
    /// Instructions, one per value.
    pub insts: Vec<Inst>,
    /// Stores and guards, in program order.
    pub effects: Vec<Val>,
    /// Frame vectors.
    pub slots: Vec<Slot>,
    /// Folds over the points, each with its own accumulators.
    pub folds: Vec<Accumulate>,
    /// Loops with data-dependent trip counts.
    pub loops: Vec<LoopIteration>,
    /// Mask of active lanes, in a loop iteration.
    pub active: Option<Val>,
    /// Vectors of the constant pool, each as long as a register.
    pub tables: Vec<Vec<u8>>,
    known: HashMap<Inst, Val, BuildHasherDefault<Mix>>,
}

impl Vir {
    /// An empty step.
    pub fn new(target: &'static Target, lanes: usize) -> Vir {
        Vir {
            target,
            lanes,
            insts: Vec::with_capacity(128),
            effects: Vec::new(),
            slots: Vec::new(),
            folds: Vec::new(),
            loops: Vec::new(),
            active: None,
            tables: Vec::new(),
            known: HashMap::default(),
        }
    }

    /// Bytes of a vector with lanes of that many bytes.
    pub fn width(&self, lane: u8) -> u8 {
        (self.lanes * lane as usize) as u8
    }

    /// The instruction of a value.
    pub fn inst(&self, v: Val) -> &Inst {
        &self.insts[v.at()]
    }

    /// Bytes per lane of the value.
    pub fn lane(&self, v: Val) -> u8 {
        self.inst(v).lane
    }

    /// Appends an instruction, or returns the equal one that exists.
    pub fn push(&mut self, mut i: Inst) -> Val {
        if i.op.commutes() && i.args[1] < i.args[0] {
            i.args.swap(0, 1);
        }
        if let Some(&v) = self.known.get(&i) {
            return v;
        }
        let v = Val(self.insts.len() as u32);
        self.insts.push(i);
        self.known.insert(i, v);
        v
    }

    /// An instruction on registers. `lane` is the lane size of the result (0: a mask register); `size` the lane size
    /// that sets the vector length.
    pub fn make(&mut self, op: Op, size: u8, lane: u8, imm: u8, args: &[Val]) -> Val {
        let mut a = [Val(0); 3];
        a[..args.len()].copy_from_slice(args);
        let class = if lane == 0 { Class::Mask } else { Class::Vector };
        let (width, nargs) = (self.width(size), args.len() as u8);
        self.push(Inst { op, width, imm, nargs, lane, args: a, aux: 0, class, step: 0 })
    }

    /// Value of an instruction without arguments.
    pub fn leaf(&mut self, op: Op, lane: u8, imm: u8, aux: u64) -> Val {
        let class = if lane == 0 { Class::Mask } else { Class::Vector };
        let width = if lane == 0 { 0 } else { self.width(lane) };
        self.push(Inst { op, width, imm, nargs: 0, lane, args: [Val(0); 3], aux, class, step: 0 })
    }

    /// One value in every lane, given by its bits.
    pub fn constant(&mut self, bits: u64, lane: u8) -> Val {
        self.leaf(Op::Const, lane, 0, bits)
    }

    /// Value that is a vector of the constant pool.
    pub fn table(&mut self, mut bytes: Vec<u8>, lane: u8) -> Val {
        bytes.resize(self.target.vector_bytes, 0);
        let at = self.tables.iter().position(|t| *t == bytes).unwrap_or_else(|| {
            self.tables.push(bytes);
            self.tables.len() - 1
        });
        self.leaf(Op::Table, lane, 0, at as u64)
    }

    /// Value that is a vector of the frame.
    pub fn slot(&mut self, slot: Slot) -> Val {
        let at = self.slots.iter().position(|s| *s == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        });
        self.leaf(Op::Slot, slot.lane, 0, at as u64)
    }

    /// Appends an instruction with an effect, ordered after all earlier effects.
    pub fn effect(&mut self, op: Op, width: u8, imm: u8, args: &[Val], aux: u64) {
        let mut a = [Val(0); 3];
        a[..args.len()].copy_from_slice(args);
        let nargs = args.len() as u8;
        let v = self.push(Inst { op, width, imm, nargs, lane: 0, args: a, aux, class: Class::Effect, step: 0 });
        if !self.effects.contains(&v) {
            self.effects.push(v);
        }
    }
}
