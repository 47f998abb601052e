//! The vector IR: one step of the inner loop in SSA form, one operation per value.
//!
//! An operation is machine-neutral ("multiply and add", "select by mask"): the instruction set selects instructions for
//! it, and a [`Target`] says which operations are native. A step computes `lanes` points. A 32-bit value fills
//! `4·lanes` bytes of a register and a 64-bit value `8·lanes`, so each instruction has its own vector length. Masks are
//! in mask registers (`lane` 0) or, on a machine without mask registers, in vectors of 0 and -1 with lanes of `lane`
//! bytes. Equal instructions are one value (value numbering). Always true: an instruction comes after its arguments.

pub mod target;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use target::Target;
use thalweg_ir::{DType, Monoid};

/// A value of the IR, identified by the index of the instruction that computes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Val(pub u32);

impl Val {
    /// The index of the instruction as a `usize`.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Number format of one side of a conversion. Numbers of 16 bits are adjacent in the lower half of a vector, and the
/// lane size is that of the other side's format.
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
    /// Bytes of a lane that holds a number of this format.
    pub fn lane(self) -> u8 {
        match self {
            Format::I64 | Format::U64 | Format::F64 => 8,
            _ => 4,
        }
    }
}

/// Predicate of a float comparison. If an argument is NaN, only `Ne` and `Unordered` are true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Predicate {
    Eq,
    Ne,
    Lt,
    Le,
    /// True if at least one argument is NaN.
    Unordered,
}

/// Rounding mode of a conversion to an integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rounding {
    /// To the nearest integer, halves to even.
    Nearest,
    Down,
    Up,
    Zero,
}

/// Format of elements in memory, relative to that in lanes; loads and stores convert.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// Elements of the same format as lanes.
    Same,
    /// Narrow integers: a load extends them by their sign.
    Signed,
    /// Narrow integers: a load extends them with zeros, a store truncates lanes.
    Unsigned,
    /// Elements of f16, converted from and to f32 lanes.
    Half,
    /// Narrow elements that were packed into the lower part of a vector before the store.
    Packed,
}

/// Opcode of a vector instruction. It works on lanes of [`Inst::lane`] bytes, unless its description says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Constant with the bits `aux` in every lane, read from the constant pool.
    Const,
    /// Constant vector with different lanes ([`Vir::tables`]`[aux]`), read from the constant pool.
    Table,
    /// Lane indices 0, 1, 2, …, plus `lanes` for each preceding copy of the step; read from the constant pool.
    Iota,
    /// Vector in the stack frame ([`Vir::slots`]`[aux]`), which code before the step fills.
    Slot,
    /// Mask register with all lanes true (`imm` 1) or all false (`imm` 0).
    MaskConst,

    /// Float sum `a + b`.
    Add,
    /// Float difference `a - b`.
    Sub,
    /// Float product `a·b`.
    Mul,
    /// Float quotient `a/b`.
    Div,
    /// Float square root.
    Sqrt,
    /// Float minimum as x86 defines it: `a < b ? a : b`, so `b` if one is NaN.
    Min,
    /// Float maximum as x86 defines it: `a > b ? a : b`, so `b` if one is NaN.
    Max,
    /// Float minimum with -0 below +0; unspecified if an argument is NaN.
    MinNumber,
    /// Float maximum with -0 below +0; unspecified if an argument is NaN.
    MaxNumber,
    /// Float rounded to an integer in a direction, still as a float.
    Round(Rounding),
    /// Float `a·2ᵇ` for integral `b`, rounded once.
    Scale,
    /// Fused multiply-add `a·b + c`, rounded once.
    MulAdd,
    /// Fused multiply-subtract `a·b - c`, rounded once.
    MulSub,
    /// Fused negated multiply-add `c - a·b`, rounded once.
    NegMulAdd,

    /// Integer sum, wrapping.
    IntAdd,
    /// Integer difference, wrapping.
    IntSub,
    /// Low half of an integer product.
    IntMul,
    /// Full product of the low halves of two lanes, as unsigned integers: 32 × 32 bits in a lane of 64.
    IntMulHalves,
    /// Magnitude of signed integers; the minimum stays itself.
    IntAbs,
    /// Minimum of signed integers.
    IntMin,
    /// Maximum of signed integers.
    IntMax,
    /// Minimum of unsigned integers.
    UintMin,
    /// Maximum of unsigned integers.
    UintMax,
    /// Bitwise `a & b`.
    And,
    /// Bitwise `b & !a`.
    AndNot,
    /// Bitwise `a | b`.
    Or,
    /// Bitwise `a ^ b`.
    Xor,
    /// Shift left by the constant `imm`.
    ShiftLeft,
    /// Logical shift right by the constant `imm`.
    ShiftRight,
    /// Arithmetic shift right by the constant `imm`.
    ShiftRightSigned,
    /// Rotation left by the constant `imm`.
    RotateLeft,
    /// Shift left by the lanes of `b`, as unsigned counts; 0 if the count is at least the lane's width.
    ShiftLeftBy,
    /// Logical shift right by the lanes of `b`, as unsigned counts; 0 if the count is at least the lane's width.
    ShiftRightBy,
    /// Arithmetic shift right by the lanes of `b`, as unsigned counts; the sign if the count is at least the lane's
    /// width.
    ShiftRightSignedBy,

    /// Float comparison; the result is a mask. `imm` of all comparisons is the lane size of the arguments in bytes.
    Compare(Predicate),
    /// Integer comparison `a = b`; the result is a mask.
    IntEq,
    /// Signed integer comparison `a > b`; the result is a mask.
    IntGt,
    /// Unsigned integer comparison `a > b`; the result is a mask.
    UintGt,
    /// Mask of the lanes in which `a` and `b` have a common bit.
    TestBits,
    /// `a & b` on mask registers.
    MaskAnd,
    /// `b & !a` on mask registers.
    MaskAndNot,
    /// `a | b` on mask registers.
    MaskOr,
    /// `a ^ b` on mask registers.
    MaskXor,
    /// `!a` on a mask register.
    MaskNot,
    /// Selection `m ? a : b` by lane; the mask is the first argument.
    Select,

    /// Conversion between formats; floats are rounded to integers toward zero. A float below the integer's range gives
    /// the smallest integer. A float above it gives the largest unsigned integer; a signed result is unspecified,
    /// except that the f64 2³¹ gives the smallest i32, which integer division relies on.
    Convert(Format, Format),
    /// Conversion of floats to integers, halves to even; unspecified out of range.
    ConvertNearest(Format, Format),
    /// Truncation of 64-bit lanes to their low 32 bits, in adjacent 32-bit lanes.
    LowHalves,
    /// Truncation of 32-bit lanes to their low 16 bits (`imm` 2) or 8 bits (`imm` 1), adjacent in the lower part of the
    /// vector.
    Pack,
    /// Reversal of the lanes of a vector of 16 bytes.
    Reverse,
    /// Permutation of the 32-bit words of `b`: result word `i` is word `a[i]` of `b`.
    PermuteWords,
    /// Operation specific to the instruction set, identified by a number that the instruction set defines. Only
    /// [`Target::pack`] creates one.
    Machine(u8),

    /// Position of the step in the row, in every lane.
    Step,
    /// Two low bits of the address of the step's first element in a strided access, in every lane.
    StepLow,
    /// Load of `lanes` contiguous elements at a pointer (`aux`); `imm` is the element size in memory.
    Load(Memory),
    /// Store of the first argument as contiguous elements. With [`CACHED`] in `aux`, it is never non-temporal.
    Store(Memory),
    /// Store of the lowest lane of the first argument at the pointer (`imm` bytes).
    StoreOne,
    /// Combination of the first argument with the contiguous elements at the pointer, by one instruction that reads
    /// memory.
    Merge(Monoid, DType),
    /// Accumulation of the first argument into a fold ([`Vir::folds`]`[aux]`).
    Fold(Monoid, DType),
    /// Assignment of the first argument, which is the same in every lane, to the row's value `aux`.
    Set,
    /// Gather of elements at the pointer plus the index lanes (first argument) times `imm`; 0 where the mask (second
    /// argument) is false.
    Gather,
    /// Load as [`Op::Load`] from the pointer moved by as many elements as the lowest lane of the first argument says; 0,
    /// and no access, where the lowest lane of the mask (second argument) is false.
    LoadAt(Memory),
    /// Guard: if any lane of the mask is true, the call reports that its rectangle must take the slow path.
    Guard,
    /// Store of the first argument to a frame vector of a loop ([`Vir::loops`]; `aux`: `loop << 16 | value`).
    Put,
    /// Execution of the loop `aux`, which preserves no registers.
    Loop,
    /// Load of a frame vector of a loop (`aux` as for [`Op::Put`]).
    Take,
    /// Loop exit test, in a loop iteration: lanes where the first argument is false become inactive, and the loop ends
    /// if no lane is active.
    Exit,
    /// Update of the loop-carried value in slot `aux` with the first argument, in a loop iteration.
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

/// An instruction of the vector IR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inst {
    /// Opcode.
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
    /// Index of the copy of the step that the instruction belongs to, after unrolling.
    pub step: u8,
}

impl Hash for Inst {
    /// Hashes a few words instead of a word for each field: every value of a step is looked up by its instruction.
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.op.hash(to);
        let bytes = [self.width, self.imm, self.nargs, self.lane, self.step, self.class as u8, 0, 0];
        to.write_u64(u64::from_le_bytes(bytes));
        to.write_u64((self.args[0].0 as u64) << 32 | self.args[1].0 as u64);
        to.write_u64(self.aux.rotate_left(32) ^ self.args[2].0 as u64);
    }
}

impl Inst {
    /// The arguments that the instruction has.
    pub fn args(&self) -> &[Val] {
        &self.args[..self.nargs as usize]
    }
    /// Whether the value is loop-invariant and has a copy in memory: it is then never spilled, but read again instead.
    pub fn invariant(&self) -> bool {
        matches!(self.op, Op::Const | Op::Table | Op::Iota | Op::Slot)
    }
}

/// Source of the contents of a frame vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A scalar argument, in the form of [`thalweg_ir::Scalar::to_bits`]; bool as 0 or -1.
    Scalar(u16),
    /// Argument word 0 of an access (address or position), advanced row by row.
    Word(u16),
    /// Argument word 2 of an access: its stride within a row, in elements.
    Stride(u16),
    /// The element at the address of an access (argument word 0), the same for all points of a row.
    Uniform(u16),
    /// The two low bits of the address of an access (argument word 0).
    Low(u16),
    /// A value of the row that an earlier phase stored in the frame.
    Value(u16),
    /// A value of a loop iteration: a loop-carried value, or an argument of the loop.
    Iteration(u16),
    /// Mask of a masked step: -1 in the lanes inside the row, 0 in the others.
    Tail,
}

/// A vector in the stack frame. All lanes have the same value, except for [`Source::Tail`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Source of the slot's contents.
    pub source: Source,
    /// Dtype of the slot's contents.
    pub dtype: DType,
    /// Bytes per lane of the slot.
    pub lane: u8,
}

impl Slot {
    /// Whether the slot has the same contents for all rows of a call.
    pub fn by_call(&self) -> bool {
        matches!(self.source, Source::Scalar(_) | Source::Stride(_))
    }

    /// Whether it is the element of an access that has one a row.
    pub fn is_uniform(&self) -> bool {
        matches!(self.source, Source::Uniform(_))
    }
}

/// A loop with a data-dependent trip count inside a step.
pub struct LoopIteration {
    /// Vector IR of one iteration.
    pub v: Vir,
    /// Maximum number of iterations.
    pub max_iterations: u32,
}

/// A fold over the points of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accumulate {
    /// Monoid that combines the elements.
    pub op: Monoid,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Index of the row's value that receives the result.
    pub value: u16,
}

/// Flag in a load's `aux`: addresses descend from point to point, so the step's elements end at the pointer. The loaded
/// vector has memory order, the last point first.
pub const DOWNWARDS: u64 = 1 << 32;
/// Flag in [`Inst::aux`] of a gather by a table of positions, whose lanes are often close to each other.
pub const TABULATED: u64 = 1 << 40;

/// Flag in a store's `aux`: the stored cache lines are read again soon, so the store is never non-temporal.
pub const CACHED: u64 = 1 << 32;

/// Id of a pointer for loads and stores: even for argument word 0 of an access (its elements), odd for word 3 (its
/// position table).
pub fn pointer(access: u16, table: bool) -> u64 {
    access as u64 * 2 + table as u64
}

/// A multiplicative hasher for the value-numbering table: its keys are small and not adversarial.
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

/// Vector IR of one step, under construction or complete.
pub struct Vir {
    /// Instruction set that the step is lowered for.
    pub target: &'static Target,
    /// Number of points that a step computes.
    pub lanes: usize,
    /// Instructions, one per value.
    pub insts: Vec<Inst>,
    /// Instructions with effects (stores, folds, guards), in program order.
    pub effects: Vec<Val>,
    /// Frame vectors that [`Op::Slot`] reads.
    pub slots: Vec<Slot>,
    /// Folds over the points of a row, each with its own accumulators.
    pub folds: Vec<Accumulate>,
    /// Loops inside the step, which have data-dependent trip counts.
    pub loops: Vec<LoopIteration>,
    /// Mask of the lanes that have not left the loop, in a loop iteration.
    pub active: Option<Val>,
    /// Vectors of the constant pool that [`Op::Table`] reads, each as long as a register.
    pub tables: Vec<Vec<u8>>,
    known: HashMap<Inst, Val, BuildHasherDefault<Mix>>,
}

impl Vir {
    /// Returns an empty step of `lanes` points.
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

    /// Bytes of a vector of the step's points with lanes of `lane` bytes.
    pub fn width(&self, lane: u8) -> u8 {
        (self.lanes * lane as usize) as u8
    }

    /// The instruction that computes a value.
    pub fn inst(&self, v: Val) -> &Inst {
        &self.insts[v.at()]
    }

    /// Bytes per lane of the value.
    pub fn lane(&self, v: Val) -> u8 {
        self.inst(v).lane
    }

    /// Appends an instruction and returns its value; returns the existing value if there is an equal instruction.
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

    /// Appends an instruction on registers. `lane` is the lane size of the result (0: a mask register); `size` is the
    /// lane size that determines the vector length.
    pub fn make(&mut self, op: Op, size: u8, lane: u8, imm: u8, args: &[Val]) -> Val {
        let mut a = [Val(0); 3];
        a[..args.len()].copy_from_slice(args);
        let class = if lane == 0 { Class::Mask } else { Class::Vector };
        let (width, nargs) = (self.width(size), args.len() as u8);
        self.push(Inst { op, width, imm, nargs, lane, args: a, aux: 0, class, step: 0 })
    }

    /// Appends an instruction without arguments.
    pub fn leaf(&mut self, op: Op, lane: u8, imm: u8, aux: u64) -> Val {
        let class = if lane == 0 { Class::Mask } else { Class::Vector };
        let width = if lane == 0 { 0 } else { self.width(lane) };
        self.push(Inst { op, width, imm, nargs: 0, lane, args: [Val(0); 3], aux, class, step: 0 })
    }

    /// Appends a constant, given by its bits, in every lane.
    pub fn constant(&mut self, bits: u64, lane: u8) -> Val {
        self.leaf(Op::Const, lane, 0, bits)
    }

    /// Appends a vector of the constant pool, padded with zeros to a register.
    pub fn table(&mut self, mut bytes: Vec<u8>, lane: u8) -> Val {
        bytes.resize(self.target.vector_bytes, 0);
        let at = self.tables.iter().position(|t| *t == bytes).unwrap_or_else(|| {
            self.tables.push(bytes);
            self.tables.len() - 1
        });
        self.leaf(Op::Table, lane, 0, at as u64)
    }

    /// Appends the value of a frame vector; equal slots share one.
    pub fn slot(&mut self, slot: Slot) -> Val {
        let at = self.slots.iter().position(|s| *s == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        });
        self.leaf(Op::Slot, slot.lane, 0, at as u64)
    }

    /// Whether a value is known to be the same in all lanes.
    pub fn is_uniform(&self, x: Val) -> bool {
        let mut uniform = vec![false; x.at() + 1];
        for (i, inst) in self.insts[..=x.at()].iter().enumerate() {
            let own = match inst.op {
                Op::Slot => !matches!(self.slots[inst.aux as usize].source, Source::Tail | Source::Iteration(_)),
                Op::Table | Op::Iota | Op::StepLow | Op::Take | Op::Pack | Op::Reverse | Op::PermuteWords => false,
                Op::Load(_) | Op::LoadAt(_) | Op::Merge(..) | Op::Gather | Op::Machine(_) => false,
                _ => true,
            };
            uniform[i] = own && inst.args().iter().all(|a| uniform[a.at()]);
        }
        uniform[x.at()]
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
