//! Encoding of linear code: x86 instructions for each line.
//!
//! In: [`Linear`] code. Out: bytes of a function, followed by the pool of constants. `abi` has the registers of roles;
//! k6 and k7 (AVX2: the last vector register) are reserved for masks of gathers, of the last step and of loops.

use super::Level;
use super::abi::gpr;
use super::asm::*;
use super::ops;
use super::select::{self, Encoding, Form, fused_form};
use crate::vector::ir::Op;
use crate::vector::linear::{self, Line, Linear, Mem, Operand, Right, Run, Word};
use std::collections::HashMap;
use thalweg_ir::DType;

/// Number of the mask register (k7) that selects the lanes inside the row, in a masked step.
pub const TAIL: u8 = 7;
/// Number of the mask register (k6) that selects a loop's active lanes; other lines use it as scratch.
pub const SCRATCH: u8 = 6;

/// Encoder of a function: machine code and constant pool under construction.
pub struct Emit {
    pub a: Asm,
    pub level: Level,
    pool: Vec<u8>,
    places: HashMap<(u64, u64), u32>,
    labels: Vec<Label>,
}

/// Encoded length (0, 1, 2 for 16, 32, 64 bytes) of a vector of `width` bytes; a shorter vector counts as 16 bytes.
pub fn len(width: u8) -> u8 {
    (width.max(16) / 16).trailing_zeros() as u8
}

pub fn reg(r: u8) -> Rm {
    Rm::Reg(r)
}

/// Converts a memory operand of linear code to one of the encoder.
pub fn mem(m: Mem) -> Rm {
    Rm::Mem { base: gpr(m.base), index: m.index.map(|(r, scale)| (gpr(r), scale)), disp: m.disp }
}

fn word(w: Word) -> Rm {
    match w {
        Word::Reg(r) => Rm::Reg(gpr(r)),
        Word::Mem(m) => mem(m),
    }
}

fn cond(c: linear::Cond) -> Cond {
    match c {
        linear::Cond::Below => Cond::Below,
        linear::Cond::AboveEqual => Cond::AboveEqual,
        linear::Cond::Equal => Cond::Equal,
        linear::Cond::NotEqual => Cond::NotEqual,
        linear::Cond::BelowEqual => Cond::BelowEqual,
        linear::Cond::Above => Cond::Above,
    }
}

/// Encodes linear code as machine code, followed by its constant pool.
pub fn encode(level: Level, code: &Linear) -> Vec<u8> {
    let mut a = Asm::new(level);
    let labels = (0..code.labels).map(|_| a.label()).collect();
    let mut e = Emit { a, level, pool: Vec::new(), places: HashMap::new(), labels };
    code.lines.iter().for_each(|line| e.line(line));
    e.a.finish(&e.pool)
}

impl Emit {
    pub fn avx512(&self) -> bool {
        self.level == Level::Avx512
    }
    /// Number of the last vector register.
    pub fn last(&self) -> u8 {
        self.level.target().vectors as u8 - 1
    }
    /// Encoded length of a whole vector register.
    pub fn full(&self) -> u8 {
        if self.avx512() { 2 } else { 1 }
    }
    pub fn label(&self, l: linear::Label) -> Label {
        self.labels[l.0 as usize]
    }
    pub fn vector(&mut self, c: Code, len: u8, r: u8, vvvv: u8, rm: Rm, imm: Option<u8>) {
        let c = ops::vex(c, self.level);
        self.a.op(c, len, r, vvvv, rm, Extra { imm, ..Extra::default() });
    }
    pub fn mask_op(&mut self, c: Code, len: u8, r: u8, vvvv: u8, rm: Rm) {
        self.a.op(c, len, r, vvvv, rm, Extra { vex: true, ..Extra::default() });
    }

    /// Adds bytes to the constant pool and returns their offset; equal ids share one entry.
    pub fn place(&mut self, bytes: &[u8], id: (u64, u64), align: usize) -> u32 {
        if let Some(&p) = self.places.get(&id) {
            return p;
        }
        let p = self.pool.len().next_multiple_of(align);
        self.pool.resize(p, 0);
        self.pool.extend_from_slice(bytes);
        self.places.insert(id, p as u32);
        p as u32
    }

    /// Adds a constant to the pool. Returns its operand, and whether the pool has a single element, which needs a
    /// broadcast.
    fn constant(&mut self, bits: u64, lane: u8) -> (Rm, bool) {
        let (id, lane) = ((bits, lane as u64), lane as usize);
        let element = &bits.to_le_bytes()[..lane];
        if self.avx512() {
            return (Rm::Pool(self.place(element, id, lane)), true);
        }
        (Rm::Pool(self.place(&element.repeat(32 / lane), id, 32)), false)
    }

    /// Emits instructions that set every lane of a register to a constant.
    pub fn splat_constant(&mut self, to: u8, bits: u64, lane: u8) {
        match bits {
            0 => self.vector(ops::PXOR[0], self.full(), to, to, reg(to), None),
            _ => self.load_vector(to, &Operand::Constant { bits, lane }),
        }
    }

    /// Converts a vector operand. Also returns whether it is a single element in memory, which needs a broadcast.
    pub fn operand(&mut self, operand: &Operand) -> (Rm, bool) {
        match operand {
            Operand::Reg(r) => (reg(*r), false),
            Operand::Mem(m) => (mem(*m), false),
            Operand::Constant { bits, lane } => self.constant(*bits, *lane),
            Operand::Pool { id, bytes } => (Rm::Pool(self.place(bytes, *id, 64)), false),
        }
    }

    fn load_vector(&mut self, to: u8, from: &Operand) {
        let (rm, one) = self.operand(from);
        let code = match from {
            Operand::Constant { lane, .. } if one => ops::BROADCAST[(*lane == 8) as usize],
            _ => ops::MOVUPS[0],
        };
        self.vector(code, self.full(), to, 0, rm, None);
    }

    /// Encodes a line of linear code.
    fn line(&mut self, line: &Line) {
        match *line {
            Line::Enter { frame, phases, leave } => {
                let leave = self.label(leave);
                self.a.enter(frame, phases, leave);
            }
            Line::Leave { fence } => self.a.leave(fence),
            Line::Bind(l) => {
                let l = self.label(l);
                self.a.bind(l);
            }
            Line::Align => self.a.align(32),
            Line::Jump(l) => {
                let l = self.label(l);
                self.a.jump(l);
            }
            Line::Branch { cond: c, left, right, to } => {
                match (left, right) {
                    (Word::Reg(r), Right::Imm(0)) => self.a.scalar(true, &[0x85], gpr(r), Rm::Reg(gpr(r)), 0), // test
                    (_, Right::Imm(v)) => self.a.arith_imm(7, word(left), v),
                    (_, Right::Reg(r)) => self.a.scalar(true, &[0x39], gpr(r), word(left), 0), // cmp
                }
                let to = self.label(to);
                self.a.jump_if(cond(c), to);
            }
            Line::CountDown { at, to } => {
                self.a.scalar(true, &[0xFF], 1, mem(at), 0); // dec
                let to = self.label(to);
                self.a.jump_if(Cond::NotEqual, to);
            }
            Line::LoadWord { to, from, bytes } => self.a.scalar(bytes == 8, &[0x8B], gpr(to), mem(from), 0),
            Line::StoreWord { to, from } => self.a.store(mem(to), gpr(from)),
            Line::LoadElement { to, from, dtype } => self.load_element(gpr(to), mem(from), dtype),
            Line::Set { to, value: 0 } => self.a.scalar(false, &[0x31], gpr(to), Rm::Reg(gpr(to)), 0), // xor
            Line::Set { to, value } => self.a.set(gpr(to), value),
            Line::Copy { to, from } => self.a.scalar(true, &[0x89], gpr(from), Rm::Reg(gpr(to)), 0),
            Line::Address { to, of } => self.a.lea(gpr(to), mem(of)),
            Line::AddConst { to, value } => self.a.arith_imm(0, word(to), value),
            Line::AndConst { to, value } => self.a.arith_imm(4, Rm::Reg(gpr(to)), value),
            Line::Negate(r) => self.a.scalar(true, &[0xF7], 3, Rm::Reg(gpr(r)), 0),
            Line::ShiftLeft(r, n) => {
                self.a.scalar(true, &[0xC1], 4, Rm::Reg(gpr(r)), 1);
                self.a.raw(&[n]);
            }
            Line::Add { to, from } => self.a.scalar(true, &[0x03], gpr(to), mem(from), 0),
            Line::Mul { to, from } => self.a.scalar(true, &[0x0F, 0xAF], gpr(to), mem(from), 0),
            Line::Min { to, from } => {
                self.a.scalar(true, &[0x39], gpr(from), Rm::Reg(gpr(to)), 0); // cmp
                self.a.scalar(true, &[0x0F, 0x47], gpr(to), Rm::Reg(gpr(from)), 0); // cmova
            }
            Line::AddTo { to, from } => self.a.scalar(true, &[0x01], gpr(from), mem(to), 0),
            Line::SubTo { to, from, unless_zero } => {
                self.a.scalar(true, &[0x29], gpr(from), mem(to), 0);
                let to = self.label(unless_zero);
                self.a.jump_if(Cond::NotEqual, to);
            }
            Line::Prefetch(m) => self.a.scalar(false, &[0x0F, 0x18], 1, mem(m), 0), // prefetcht0
            Line::LoadVector { to, ref from } => self.load_vector(to, from),
            Line::StoreVector { to, from } => {
                self.vector(ops::MOVUPS_STORE[0], self.full(), from, 0, mem(to), None);
            }
            Line::CopyVector { to, from } => self.vector(ops::MOVAPS, self.full(), to, 0, reg(from), None),
            Line::LoadMask { to, from } => self.mask_op(ops::KMOV, 0, to, 0, mem(from)),
            Line::StoreMask { to, from } => self.mask_op(ops::KMOV_STORE, 0, from, 0, mem(to)),
            Line::ClearMask(r) => self.mask_op(ops::KXOR, 1, r, r, reg(r)),
            Line::Constant { to, bits, lane } => self.splat_constant(to, bits, lane),
            Line::Broadcast { to, ref from, lane } => {
                let (rm, _) = self.operand(from);
                self.vector(ops::BROADCAST[(lane == 8) as usize], self.full(), to, 0, rm, None);
            }
            Line::WidenHalf(m) => {
                self.vector(ops::F16_F32, 0, 0, 0, mem(m), None);
                self.vector(ops::MOVUPS_STORE[0], 0, 0, 0, mem(m), None);
            }
            Line::Choose { to, from, mask, lane, width } => {
                let code = ops::BLENDV[(lane == 8) as usize];
                self.vector(code, len(width), to, to, reg(from), Some(mask << 4));
            }
            Line::UpperHalf { to, from, bytes } => self.upper_half(to, from, bytes),
            Line::TailMask { lanes, inside } => self.tail_mask(lanes, inside),
            Line::Run(ref run) => self.run(run),
            Line::Combine { fold, width, to, ref from, temporaries, tail } => {
                let from = self.operand(from);
                self.combine(fold, width, to, from, temporaries, tail);
            }
            Line::NoteNan { lane, width, from, flag, temporary, tail } => {
                self.note_nan((lane, width), from, flag, temporary, tail);
            }
            Line::BranchIfNumber { lane, width, flag, temporary, to } => {
                let to = self.label(to);
                self.branch_if_number((lane, width), flag, temporary, to);
            }
            Line::BeginLoop { nested, tail, lanes, inside, words } => {
                self.begin_loop(nested, tail, lanes, inside, words);
            }
            Line::EndLoop { words } => self.end_loop(words),
            Line::Exit { dst, go, width, leave } => {
                let leave = self.label(leave);
                self.exit(dst, go, width, leave);
            }
        }
    }

    /// Emits the load of an element of 1 or 2 bytes into a general register, in its compute form (f16: its bits).
    fn load_element(&mut self, to: Gpr, from: Rm, dtype: DType) {
        let opcode: &[u8] = match dtype {
            DType::I8 => &[0x0F, 0xBE],
            DType::I16 => &[0x0F, 0xBF],
            DType::U8 | DType::Bool => &[0x0F, 0xB6],
            _ => &[0x0F, 0xB7],
        };
        self.a.scalar(false, opcode, to, from, 0);
        match dtype {
            DType::BF16 => {
                self.a.scalar(false, &[0xC1], 4, Rm::Reg(to), 1); // shl
                self.a.raw(&[16]);
            }
            DType::Bool => self.a.scalar(true, &[0xF7], 3, Rm::Reg(to), 0), // neg
            _ => {}
        }
    }

    /// Encodes an operation of the vector IR.
    fn run(&mut self, run: &Run) {
        if let Some(encoding) = select::encoding(self.avx512(), &run.inst) {
            return self.single(run, encoding);
        }
        match run.inst.op {
            Op::MaskConst => {
                let (code, dst) = (if run.inst.imm == 1 { ops::KXNOR } else { ops::KXOR }, run.dst);
                self.mask_op(code, 1, dst, dst, reg(dst));
            }
            Op::Merge(..) => self.merge_with_memory(run),
            Op::StoreOne => self.store_one(run),
            Op::Load(_) => self.access(run, run.dst),
            Op::LoadAt(_) => self.load_at(run),
            Op::Store(_) => self.access(run, run.args[0]),
            Op::Gather => self.gather(run),
            Op::Step => self.splat(R14, run.inst.lane, len(run.inst.width), run.dst),
            Op::StepLow => {
                self.strided_address(run, run.inst.imm);
                self.a.arith_imm(4, reg(RAX), 3);
                self.splat(RAX, 4, len(run.inst.width), run.dst);
            }
            Op::Guard => self.guard(run),
            _ => unreachable!("invariants are not executed, and other meanings have an encoding or lines of their own"),
        }
    }

    /// Emits an operation that is a single instruction.
    fn single(&mut self, run: &Run, Encoding { form, mut code, imm }: Encoding) {
        let (dst, args, len) = (run.dst, run.args, len(run.inst.width));
        let mut x = Extra { imm: code.imm.then_some(imm), ..Extra::default() };
        let mut operand = |e: &mut Self, k: usize| match &run.operand {
            Some(operand) if run.memory == Some(k as u8) => {
                let (rm, one) = e.operand(operand);
                x.broadcast = one;
                rm
            }
            _ => reg(args[k]),
        };
        match form {
            Form::MaskRvm => self.mask_op(code, 1, dst, args[0], reg(args[1])),
            Form::MaskRm => self.mask_op(code, 0, dst, 0, reg(args[0])),
            Form::Rvm => {
                let rm = operand(self, 1);
                self.a.op(code, len, dst, args[0], rm, x);
            }
            Form::Rm => {
                let rm = operand(self, 0);
                self.a.op(code, len, dst, 0, rm, x);
            }
            Form::Mr => self.a.op(code, len, args[0], 0, reg(dst), x),
            Form::Shift => self.a.op(code, len, code.ext, dst, reg(args[0]), x),
            Form::Fma => {
                let (vvvv, rm, distance) = fused_form(run.overwritten.unwrap_or(2), run.memory);
                code.opcode = code.opcode.wrapping_add_signed(distance);
                let rm = operand(self, rm);
                self.a.op(code, len, dst, args[vvvv], rm, x);
            }
            Form::BlendM => {
                let rm = operand(self, 1);
                x.mask = args[0];
                self.a.op(code, len, dst, args[2], rm, x);
            }
            Form::BlendV => {
                let rm = operand(self, 1);
                x.imm = Some(args[0] << 4);
                self.a.op(code, len, dst, args[2], rm, x);
            }
        }
    }

    /// Emits the broadcast of a general register to every lane of a vector register.
    fn splat(&mut self, from: Gpr, lane: u8, len: u8, dst: u8) {
        let wide = (lane == 8) as usize;
        if self.avx512() {
            return self.vector(ops::BROADCAST_GPR[wide], len, dst, 0, reg(from), None);
        }
        self.vector(ops::MOVD[wide], 0, dst, 0, reg(from), None);
        self.vector(ops::PBROADCAST[wide], len, dst, 0, reg(dst), None);
    }
}
