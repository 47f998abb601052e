//! Instruction selection: the x86 instruction for an operation of the vector IR, on AVX-512 or AVX2.
//!
//! In: an [`Inst`]. Out: an [`Encoding`], if one instruction performs the operation; [`super::emit`] encodes the
//! sequences for the others (memory accesses, gathers, folds, loops). This module also defines the descriptions of the
//! instruction sets for the machine-neutral stages ([`AVX512`], [`AVX2`]).

use super::abi::POINTERS;
use super::asm::Code;
use super::ops::{self, Pair};
use crate::vector::ir::target::{Combine, Constants, Masks, Operands, Target};
use crate::vector::ir::{Format, Inst, Memory, Op, Predicate, Rounding, Val, Vir};
use thalweg_ir::{DType, Monoid};

/// Operand form of an instruction: the encoding fields that hold its result and arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Two arguments: `reg = op(vvvv, rm)`.
    Rvm,
    /// One argument: `reg = op(rm)`.
    Rm,
    /// One argument, with the destination in rm: `rm = op(reg)`.
    Mr,
    /// Shift by an immediate: `vvvv = op(rm, imm)`.
    Shift,
    /// Fused multiply-add, which overwrites one argument.
    Fma,
    /// `m ? rm : vvvv`, with the mask in a mask register.
    BlendM,
    /// `m ? rm : vvvv`, with the mask in a vector register, whose number is in the immediate.
    BlendV,
    /// Operation on two mask registers.
    MaskRvm,
    /// Operation on one mask register.
    MaskRm,
}

/// Encoding of an instruction, without its registers.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    /// Form of the operands.
    pub form: Form,
    /// Opcode and its modifiers.
    pub code: Code,
    /// Immediate, if the instruction takes one.
    pub imm: u8,
}

fn rvm(code: Code) -> Encoding {
    Encoding { form: Form::Rvm, code, imm: 0 }
}
fn rm(code: Code) -> Encoding {
    Encoding { form: Form::Rm, code, imm: 0 }
}

/// Predicate of `vcmpps` that is true if an argument is NaN.
pub const UNORDERED: u8 = 0x03;

/// Encoding of a predicate in the immediate of `vcmpps`.
fn predicate(p: Predicate) -> u8 {
    match p {
        Predicate::Eq => 0x00,
        Predicate::Ne => 0x04,
        Predicate::Lt => 0x11,
        Predicate::Le => 0x12,
        Predicate::Unordered => UNORDERED,
    }
}

/// Immediate of `vroundps` and `vrndscaleps`: a rounding direction, with exceptions suppressed.
fn rounding(r: Rounding) -> u8 {
    8 | match r {
        Rounding::Nearest => 0,
        Rounding::Down => 1,
        Rounding::Up => 2,
        Rounding::Zero => 3,
    }
}

/// `vpshufb`: shuffles the bytes of each 128-bit half by a vector.
const SHUFFLE_BYTES: Op = Op::Machine(0);
/// `vpermq`: permutes 64-bit lanes by an immediate.
const PERMUTE_QUADS: Op = Op::Machine(1);

/// Selects the instruction for an operation; `None` if it needs a sequence of instructions.
pub fn encoding(evex: bool, inst: &Inst) -> Option<Encoding> {
    let wide = inst.lane == 8;
    let of = |p: Pair| p[wide as usize];
    // Of comparisons, whose result may be in a mask register.
    let compared = |p: Pair| p[(inst.imm == 8) as usize];
    let two = |p: Pair| Some(rvm(of(p)));
    let one = |code: Code| Some(rm(code));
    let shift = |code: Code| Some(Encoding { form: Form::Shift, code, imm: inst.imm });
    let fused = |p: Pair| Some(Encoding { form: Form::Fma, code: of(p), imm: 0 });
    let mask = |code: Code| Some(Encoding { form: Form::MaskRvm, code, imm: 0 });
    let back = |code: Code| Some(Encoding { form: Form::Mr, code, imm: 0 });
    match inst.op {
        Op::Add => two(ops::ADD),
        Op::Sub => two(ops::SUB),
        Op::Mul => two(ops::MUL),
        Op::Div => two(ops::DIV),
        Op::Min => two(ops::MIN),
        Op::Max => two(ops::MAX),
        Op::MinNumber => Some(Encoding { imm: 4, ..rvm(of(ops::RANGE)) }),
        Op::MaxNumber => Some(Encoding { imm: 5, ..rvm(of(ops::RANGE)) }),
        Op::Scale => two(ops::SCALEF),
        Op::IntAdd => two(ops::PADD),
        Op::IntSub => two(ops::PSUB),
        Op::IntMul => two(ops::PMULL),
        Op::IntMulHalves => Some(rvm(ops::PMULUDQ)),
        Op::IntMin => two(ops::PMINS),
        Op::IntMax => two(ops::PMAXS),
        Op::UintMin => two(ops::PMINU),
        Op::UintMax => two(ops::PMAXU),
        Op::And => two(ops::PAND),
        Op::AndNot => two(ops::PANDN),
        Op::Or => two(ops::POR),
        Op::Xor => two(ops::PXOR),
        Op::ShiftLeftBy => two(ops::SHLV),
        Op::ShiftRightBy => two(ops::SHRV),
        Op::ShiftRightSignedBy => two(ops::SARV),
        Op::Sqrt => one(of(ops::SQRT)),
        Op::IntAbs => one(of(ops::PABS)),
        Op::Round(r) => Some(Encoding { imm: rounding(r), ..rm(of(ops::ROUND)) }),
        Op::MulAdd => fused(ops::FMADD),
        Op::MulSub => fused(ops::FMSUB),
        Op::NegMulAdd => fused(ops::FNMADD),
        Op::ShiftLeft => shift(of(ops::SHL)),
        Op::ShiftRight => shift(of(ops::SHR)),
        Op::ShiftRightSigned => shift(of(ops::SAR)),
        Op::RotateLeft => shift(ops::ROL),
        Op::Compare(p) => Some(Encoding { imm: predicate(p), ..rvm(compared(ops::CMP)) }),
        Op::IntEq if evex => Some(Encoding { imm: 0, ..rvm(compared(ops::PCMP)) }),
        Op::IntEq => Some(rvm(compared(ops::PCMPEQ))),
        Op::IntGt if evex => Some(Encoding { imm: 6, ..rvm(compared(ops::PCMP)) }),
        Op::IntGt => Some(rvm(compared(ops::PCMPGT))),
        Op::UintGt => Some(Encoding { imm: 6, ..rvm(compared(ops::PCMPU)) }),
        Op::TestBits => Some(rvm(compared(ops::PTESTM))),
        Op::MaskAnd => mask(ops::KAND),
        Op::MaskAndNot => mask(ops::KANDN),
        Op::MaskOr => mask(ops::KOR),
        Op::MaskXor => mask(ops::KXOR),
        Op::MaskNot => Some(Encoding { form: Form::MaskRm, code: ops::KNOT, imm: 0 }),
        Op::Select if evex => Some(Encoding { form: Form::BlendM, code: of(ops::BLENDM), imm: 0 }),
        Op::Select => Some(Encoding { form: Form::BlendV, code: of(ops::BLENDV), imm: 0 }),
        Op::Convert(Format::F32, Format::F16) => back(ops::F32_F16),
        Op::Convert(from, to) => one(conversion(from, to)),
        Op::ConvertNearest(Format::F64, _) => one(ops::CVT_F64_I32),
        Op::ConvertNearest(..) => one(ops::CVT_F32_I32),
        Op::LowHalves => back(ops::MOV_QD),
        Op::Pack => back(if inst.imm == 2 { ops::MOV_DW } else { ops::MOV_DB }),
        Op::Reverse => Some(Encoding { imm: 0b00_01_10_11, ..rm(ops::PSHUFD) }),
        Op::PermuteWords => Some(rvm(ops::PERMD)),
        SHUFFLE_BYTES => Some(rvm(ops::PSHUFB)),
        PERMUTE_QUADS => Some(Encoding { imm: inst.imm, ..rm(ops::PERMQ) }),
        _ => None,
    }
}

fn conversion(from: Format, to: Format) -> Code {
    use Format::*;
    match (from, to) {
        (I32, F32) => ops::CVT_I32_F32,
        (U32, F32) => ops::CVT_U32_F32,
        (F32, I32) => ops::CVTT_F32_I32,
        (F32, U32) => ops::CVTT_F32_U32,
        (I32, F64) => ops::CVT_I32_F64,
        (U32, F64) => ops::CVT_U32_F64,
        (F64, I32) => ops::CVTT_F64_I32,
        (F64, U32) => ops::CVTT_F64_U32,
        (F64, F32) => ops::CVT_F64_F32,
        (F32, F64) => ops::CVT_F32_F64,
        (I64, F64) => ops::CVT_I64_F64,
        (I64, F32) => ops::CVT_I64_F32,
        (F64, I64) => ops::CVTT_F64_I64,
        (U64, F64) => ops::CVT_U64_F64,
        (U64, F32) => ops::CVT_U64_F32,
        (F64, U64) => ops::CVTT_F64_U64,
        (I32, I64) => ops::MOVSX_DQ,
        (U32, U64) => ops::MOVZX_DQ,
        (U16, U32) => ops::MOVZX_W,
        (F16, F32) => ops::F16_F32,
        _ => unreachable!("lowering makes no such conversion: {from:?} to {to:?}"),
    }
}

/// Selects the load, store or gather instruction of a memory access.
pub fn access(inst: &Inst) -> Code {
    match inst.op {
        Op::Load(Memory::Same) | Op::LoadAt(Memory::Same) => ops::MOVUPS[(inst.imm == 8) as usize],
        Op::Load(Memory::Signed) | Op::LoadAt(Memory::Signed) => [ops::MOVSX_B, ops::MOVSX_W][(inst.imm == 2) as usize],
        Op::Load(Memory::Unsigned) | Op::LoadAt(Memory::Unsigned) => {
            [ops::MOVZX_B, ops::MOVZX_W][(inst.imm == 2) as usize]
        }
        Op::Load(Memory::Half) | Op::LoadAt(Memory::Half) => ops::F16_F32,
        Op::Store(Memory::Same) => ops::MOVUPS_STORE[(inst.imm == 8) as usize],
        Op::Store(Memory::Half) => ops::F32_F16,
        Op::Store(Memory::Packed) => match inst.width {
            16 => ops::MOVUPS_STORE[0],
            8 => ops::MOVD_STORE[1],
            _ => ops::MOVD_STORE[0],
        },
        Op::Store(_) => [ops::MOV_DB, ops::MOV_DW][(inst.imm == 2) as usize],
        _ => ops::GATHER[(inst.lane == 8) as usize],
    }
}

/// Selects the instruction that combines elements of a fold. The flag says whether it suffices; if not, it is the main
/// instruction of a sequence.
pub fn fold_code(evex: bool, op: Monoid, dtype: DType) -> Option<(Code, bool)> {
    let w = (dtype.size() == 8) as usize;
    Some(match (op, dtype) {
        (Monoid::Sum, DType::F32 | DType::F64) => (ops::ADD[w], true),
        (Monoid::Prod, DType::F32 | DType::F64) => (ops::MUL[w], true),
        (Monoid::Max | Monoid::Min, DType::F32 | DType::F64) if evex => (ops::RANGE[w], false),
        (Monoid::Max, DType::F32 | DType::F64) => (ops::MAX[w], false),
        (Monoid::Min, DType::F32 | DType::F64) => (ops::MIN[w], false),
        (Monoid::Sum, _) => (ops::PADD[w], true),
        (Monoid::Prod, DType::I64 | DType::U64) if !evex => (ops::PMULUDQ, false),
        (Monoid::Prod, _) => (ops::PMULL[w], true),
        (Monoid::Max | Monoid::Min, DType::I64 | DType::U64) if !evex => (ops::PCMPGT[1], false),
        (Monoid::Max, DType::U32 | DType::U64) => (ops::PMAXU[w], true),
        (Monoid::Min, DType::U32 | DType::U64) => (ops::PMINU[w], true),
        (Monoid::Max, _) => (ops::PMAXS[w], true),
        (Monoid::Min, _) => (ops::PMINS[w], true),
        _ => return None,
    })
}

fn combine(evex: bool, op: Monoid, dtype: DType) -> Option<Combine> {
    let (_, alone) = fold_code(evex, op, dtype)?;
    if alone {
        return Some(Combine::Single);
    }
    let third = !evex && (dtype == DType::U64 || dtype == DType::I64 && op == Monoid::Prod);
    Some(Combine::Sequence { temporaries: if evex { 0 } else { 1 + third as usize } })
}

fn operands(evex: bool, inst: &Inst) -> Operands {
    let none = Operands { memory: 0, constants: Constants::None, commutes: false, overwrites: &[], early: false };
    let constants = |code: Code| match evex {
        false => Constants::All,
        true if code.broadcast => Constants::Lane(if code.w { 8 } else { 4 }),
        true => Constants::None,
    };
    match inst.op {
        Op::Gather | Op::LoadAt(_) => return Operands { early: true, ..none },
        // (With a mask, the argument is first loaded into a register.)
        Op::Fold(op, dtype) if inst.nargs == 1 => {
            return match fold_code(evex, op, dtype) {
                Some((code, true)) => Operands { memory: 1, constants: constants(code), ..none },
                _ => none,
            };
        }
        _ => {}
    }
    let Some(Encoding { form, code, .. }) = encoding(evex, inst) else { return none };
    let constants = constants(code);
    match form {
        Form::Rvm => Operands { memory: 0b10, constants, commutes: code.commutes, ..none },
        Form::Rm => Operands { memory: 0b01, constants, ..none },
        Form::BlendM | Form::BlendV => Operands { memory: 0b10, constants, ..none },
        Form::Fma => Operands { memory: 0b111, constants, overwrites: &[2, 0, 1], ..none },
        Form::Mr | Form::Shift | Form::MaskRvm | Form::MaskRm => none,
    }
}

/// Selects the form of a fused multiply-add: the indices of the arguments in vvvv and rm, and the distance of its
/// opcode from that of the 213 form.
pub fn fused_form(overwritten: u8, memory: Option<u8>) -> (usize, usize, i8) {
    match (overwritten, memory) {
        (2, Some(0)) => (1, 0, 0x10),
        (2, _) => (0, 1, 0x10),
        (0, Some(1)) => (2, 1, -0x10),
        (0, _) => (1, 2, 0),
        (_, Some(0)) => (2, 0, -0x10),
        _ => (0, 2, 0),
    }
}

/// Description of AVX-512 F, DQ, BW and VL. k6 and k7 are reserved for masks of masked steps, gathers and loops.
pub static AVX512: Target = Target {
    vector_bytes: 64,
    vectors: 32,
    masks: Masks::Registers(5),
    pointers: POINTERS.len(),
    unroll: &[4, 2],
    native: |_, _| true,
    combine: |op, dtype| combine(true, op, dtype),
    operands: |inst| operands(true, inst),
    pack: |_, _, x| x,
};

/// Description of AVX2 with FMA, F16C and BMI2.
pub static AVX2: Target = Target {
    vector_bytes: 32,
    vectors: 16,
    masks: Masks::Vectors,
    pointers: POINTERS.len(),
    unroll: &[4, 2],
    native: native_avx2,
    combine: |op, dtype| combine(false, op, dtype),
    operands: |inst| operands(false, inst),
    pack,
};

fn native_avx2(op: Op, lane: u8) -> bool {
    use Format::{F32, F64, I64, U32, U64};
    match op {
        Op::MinNumber | Op::MaxNumber | Op::Scale | Op::RotateLeft | Op::UintGt | Op::TestBits => false,
        Op::IntAbs | Op::IntMul | Op::ShiftRightSigned | Op::ShiftRightSignedBy => lane == 4,
        Op::IntMin | Op::IntMax | Op::UintMin | Op::UintMax => lane == 4,
        Op::Convert(U32, F32 | F64) | Op::Convert(F32 | F64, U32) => false,
        Op::Convert(I64 | U64, F32 | F64) | Op::Convert(F32 | F64, I64 | U64) => false,
        Op::LowHalves | Op::Pack => false,
        Op::Store(form) => matches!(form, Memory::Same | Memory::Packed),
        _ => true,
    }
}

/// Lowers [`Op::Pack`] for AVX2, whose byte shuffles stay within halves of 128 bits.
fn pack(v: &mut Vir, size: u8, x: Val) -> Val {
    if size == 2 {
        let x = shuffle(v, x, &[0, 1, 4, 5, 8, 9, 12, 13]);
        return if v.lanes == 8 { v.make(PERMUTE_QUADS, 4, 4, 0x08, &[x]) } else { x };
    }
    let x = shuffle(v, x, &[0, 4, 8, 12]);
    if v.lanes == 4 {
        return x;
    }
    let to = v.table([0u32, 4].iter().flat_map(|i| i.to_le_bytes()).collect(), 4);
    v.two(Op::PermuteWords, 4, to, x)
}

/// Appends a shuffle that selects bytes of each 128-bit half in this order, followed by zeros.
fn shuffle(v: &mut Vir, x: Val, order: &[u8]) -> Val {
    let mut half = order.to_vec();
    half.resize(16, 0x80);
    let table = v.table([half.clone(), half].concat(), 4);
    v.two(SHUFFLE_BYTES, 4, x, table)
}
