//! Code emission from register-allocated steps.
//!
//! In: a [`Program`] with its registers. Out: bytes in an [`Asm`], and the pool of constants that follows the code.
//! [`super::function`] and [`super::inner_axis`] emit the code around the steps.
//!
//! r13 is the argument block, r14 the position in the row, r15 `n`, r12 the bits that guards found; rax, rcx, rsi, rdi
//! are free within an instruction; the other registers hold pointers. The frame is 64-byte aligned at rsp.

use super::Level;
use super::asm::*;
use super::ops;
use super::select::{self, Encoding, Form, fused_form};
use crate::row_call::ACCESS_WORDS;
use crate::vector::accumulators::Accumulators;
use crate::vector::ir::{CACHED, Class, DOWNWARDS, Inst, Op, Source, Val, Vir};
use crate::vector::loop_code::LoopCode;
use crate::vector::regalloc::{Allocation, Loc, Step};
use crate::vector::schedule::Program;
use std::collections::HashMap;
use thalweg_kernel::Access;

pub const FRAME_RSP: i32 = 0;
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
pub const FRAME_WORDS: i32 = 72;

/// A program with its register allocation.
pub type Allocated<'a> = (&'a Program, &'a Allocation);

/// Borrows a program and its registers.
pub fn allocated((p, a): &(Program, Allocation)) -> Allocated<'_> {
    (p, a)
}

/// A function under construction.
pub struct Emit<'a> {
    pub a: Asm,
    pub level: Level,
    /// The step being emitted.
    pub v: &'a Vir,
    pub accesses: &'a [Access],
    pub pool: Vec<u8>,
    places: HashMap<(u64, u64), u32>,
    /// Distinguishes the steps of a function in pool keys that are specific to a step.
    pub salt: u64,
    /// Pointers that have registers, by [`crate::vector::ir::pointer`].
    pub pointers: Vec<(u64, Gpr)>,
    /// Frame offsets of slot vectors, of the scratch vector, and of spilled values.
    pub slots: i32,
    pub scratch: i32,
    pub spills: i32,
    /// Whether rbx holds the address of the row's values.
    pub along: bool,
    /// Accumulators of the step's folds.
    pub held: Option<&'a Accumulators>,
    /// Loops of the step.
    pub loops: &'a [LoopCode],
    /// In a loop iteration: label after the loop.
    pub leave: Option<Label>,
    /// Number of loops emitted so far.
    pub written: u64,
    /// Copy of the step that a masked step computes.
    pub copy: u8,
    /// Accesses below this index store whole vectors non-temporally.
    pub streaming: u16,
    /// Accesses whose next row is prefetched during the last pass over this one, with bytes per element.
    pub ahead: Vec<(u16, u8)>,
    /// Descending accesses whose elements some rows ahead are prefetched, with bytes per element.
    pub descents: Vec<(u16, u8)>,
}

/// Encoded vector length of that many bytes, as a whole register if it is shorter than one.
pub fn len(width: u8) -> u8 {
    (width.max(16) / 16).trailing_zeros() as u8
}

pub fn reg(r: u8) -> Rm {
    Rm::Reg(r)
}

impl<'a> Emit<'a> {
    /// An empty function, whose first step is `v`.
    pub fn new(level: Level, v: &'a Vir, accesses: &'a [Access]) -> Emit<'a> {
        Emit {
            a: Asm::new(level),
            level,
            v,
            accesses,
            pool: Vec::new(),
            places: HashMap::new(),
            salt: 0,
            pointers: Vec::new(),
            slots: 0,
            scratch: 0,
            spills: 0,
            along: false,
            held: None,
            loops: &[],
            leave: None,
            written: 0,
            copy: 0,
            streaming: 0,
            ahead: Vec::new(),
            descents: Vec::new(),
        }
    }
}

impl<'a> Emit<'a> {
    pub fn avx512(&self) -> bool {
        self.level == Level::Avx512
    }
    pub fn arg(&self, access: u16, word: i32) -> Rm {
        at(R13, (access as i32 * ACCESS_WORDS as i32 + word) * 8)
    }
    pub fn slot_at(&self, slot: u64) -> Rm {
        if let Source::Value(value) = self.v.slots[slot as usize].source {
            return self.value_at(value);
        }
        at(RSP, self.slots + 64 * slot as i32)
    }
    pub fn value_at(&self, value: u16) -> Rm {
        at(RBX, 64 * value as i32)
    }
    pub fn vector(&mut self, c: Code, len: u8, r: u8, vvvv: u8, rm: Rm, imm: Option<u8>) {
        let c = ops::vex(c, self.level);
        self.a.op(c, len, r, vvvv, rm, Extra { imm, ..Extra::default() });
    }
    /// Encoded length of a vector of lanes of that many bytes.
    pub fn len(&self, lane: u8) -> u8 {
        len(self.v.width(lane))
    }
    pub fn full(&self) -> u8 {
        if self.avx512() { 2 } else { 1 }
    }

    pub fn pointer_home(&self, p: u64) -> Rm {
        let access = (p / 2) as u16;
        if p % 2 == 1 { self.arg(access, 3) } else { at(RSP, FRAME_WORDS + 8 * access as i32) }
    }
    /// Returns a register with the pointer: its own, or `spare`, loaded.
    fn pointer(&mut self, p: u64, spare: Gpr) -> Gpr {
        if let Some(&(_, r)) = self.pointers.iter().find(|q| q.0 == p) {
            return r;
        }
        let home = self.pointer_home(p);
        self.a.load(spare, home);
        spare
    }

    pub fn mask_op(&mut self, c: Code, len: u8, r: u8, vvvv: u8, rm: Rm) {
        self.a.op(c, len, r, vvvv, rm, Extra { vex: true, ..Extra::default() });
    }

    /// Offset in the pool of these bytes; equal keys share one.
    pub fn place(&mut self, bytes: Vec<u8>, key: (u64, u64), align: usize) -> u32 {
        if let Some(&p) = self.places.get(&key) {
            return p;
        }
        let p = self.pool.len().next_multiple_of(align);
        self.pool.resize(p, 0);
        self.pool.extend_from_slice(&bytes);
        self.places.insert(key, p as u32);
        p as u32
    }

    /// A constant in the pool, and whether only one element of it is stored there (for broadcasts).
    pub fn constant(&mut self, bits: u64, lane: u8) -> (Rm, bool) {
        let (key, lane) = ((bits, lane as u64), lane as usize);
        let element = bits.to_le_bytes()[..lane].to_vec();
        if self.avx512() {
            return (Rm::Pool(self.place(element, key, lane)), true);
        }
        (Rm::Pool(self.place(element.repeat(32 / lane), key, 32)), false)
    }

    /// Memory operand of a value, and whether it is a single element (for broadcasts).
    pub fn home(&mut self, (p, alloc): Allocated, val: Val) -> (Rm, bool) {
        let inst = &p.insts[val.at()];
        let lane = inst.lane as usize;
        match inst.op {
            Op::Const => self.constant(inst.aux, inst.lane),
            Op::Iota => {
                let n = self.v.lanes as u64;
                let first = inst.step as u64 * n;
                let mut bytes: Vec<u8> = (first..first + n).flat_map(|i| i.to_le_bytes()[..lane].to_vec()).collect();
                bytes.resize(self.level.target().vector_bytes, 0);
                (Rm::Pool(self.place(bytes, (inst.step as u64 | self.salt, 16 + lane as u64), 64)), false)
            }
            Op::Table => {
                let bytes = self.v.tables[inst.aux as usize].clone();
                (Rm::Pool(self.place(bytes, (inst.aux | self.salt, 32), 64)), false)
            }
            Op::Slot => (self.slot_at(inst.aux), false),
            _ => {
                let place = alloc.home[val.at()].expect("what is read from memory was written there");
                (at(RSP, self.spills + 64 * place as i32), false)
            }
        }
    }

    pub fn reload(&mut self, from: Allocated, val: Val, r: u8) {
        let inst = from.0.insts[val.at()];
        let (home, one) = self.home(from, val);
        if inst.class == Class::Mask {
            self.mask_op(ops::KMOV, 0, r, 0, home);
        } else if one {
            self.vector(ops::BROADCAST[(inst.lane == 8) as usize], self.full(), r, 0, home, None);
        } else {
            self.vector(ops::MOVUPS[0], self.full(), r, 0, home, None);
        }
    }

    pub fn steps(&mut self, prog: Allocated) {
        for s in &prog.1.steps {
            match *s {
                Step::Run { at, dst, vals, locs, overwritten, memory } => {
                    self.run(prog, at, dst, vals, locs, (overwritten, memory));
                }
                Step::Reload { val, reg } | Step::Fresh { val, reg } => self.reload(prog, val, reg),
                Step::Copy { from, to, .. } => self.vector(ops::MOVAPS, self.full(), to, 0, reg(from), None),
                Step::Spill { val, reg: r } => {
                    let (home, _) = self.home(prog, val);
                    if prog.0.insts[val.at()].class == Class::Mask {
                        self.mask_op(ops::KMOV_STORE, 0, r, 0, home);
                    } else {
                        self.vector(ops::MOVUPS_STORE[0], self.full(), r, 0, home, None);
                    }
                }
            }
        }
    }

    /// Emits an instruction; `how` as in [`Step::Run`].
    fn run(
        &mut self,
        prog: Allocated,
        at: u32,
        dst: u8,
        vals: [Val; 3],
        locs: [Loc; 3],
        how: (Option<u8>, Option<u8>),
    ) {
        let inst = prog.0.insts[at as usize];
        let r = |k: usize| match locs[k] {
            Loc::Reg(r) => r,
            Loc::Home => 0,
        };
        if let Some(encoding) = select::encoding(self.avx512(), &inst) {
            return self.single(prog, &inst, encoding, dst, vals, locs, how);
        }
        match inst.op {
            Op::MaskConst => {
                let code = if inst.imm == 1 { ops::KXNOR } else { ops::KXOR };
                self.mask_op(code, 1, dst, dst, reg(dst));
            }
            Op::Merge(..) => self.merge_with_memory(prog.0.tail, &inst, dst, r(0), (inst.nargs == 2).then(|| r(1))),
            Op::Fold(..) => {
                let x = self.operand(prog, vals[0], locs[0]);
                self.fold(prog.0.tail, &inst, x, (inst.nargs == 2).then(|| r(1)));
            }
            Op::Set => self.set_value(inst.aux as u16, prog.0.insts[vals[0].at()].lane, r(0)),
            Op::StoreOne => self.store_one(&inst, r(0)),
            Op::Load(_) => self.access(prog.0.tail, &inst, dst, locs),
            Op::Store(_) => self.access(prog.0.tail, &inst, r(0), locs),
            Op::Gather => self.gather(prog.0.tail, &inst, dst, r(0), (inst.nargs == 2).then(|| r(1))),
            Op::Step => self.splat(R14, inst.lane, len(inst.width), dst),
            Op::StepLow => {
                self.strided_address(&inst, inst.imm);
                self.a.arith_imm(4, reg(RAX), 3);
                self.splat(RAX, 4, len(inst.width), dst);
            }
            Op::Guard => self.guard(prog, vals[0], r(0)),
            Op::Put => self.put_value(&inst, r(0)),
            Op::Take => self.take_value(&inst, dst),
            Op::Loop => self.run_loop(inst.aux as usize, prog.0.tail),
            Op::Exit => self.exit(dst, r(0)),
            Op::Carry => self.carry(prog, inst.aux, r(0)),
            _ => unreachable!("invariants are not executed, and other meanings have an encoding"),
        }
    }

    /// Operand of an argument, and whether it is a single element in memory (for broadcasts).
    fn operand(&mut self, prog: Allocated, val: Val, loc: Loc) -> (Rm, bool) {
        match loc {
            Loc::Reg(r) => (reg(r), false),
            Loc::Home => self.home(prog, val),
        }
    }

    /// Emits one instruction.
    #[allow(clippy::too_many_arguments, reason = "the fields of a step, taken apart")]
    fn single(
        &mut self,
        prog: Allocated,
        inst: &Inst,
        Encoding { form, mut code, imm }: Encoding,
        dst: u8,
        vals: [Val; 3],
        locs: [Loc; 3],
        (overwritten, memory): (Option<u8>, Option<u8>),
    ) {
        let r = |k: usize| match locs[k] {
            Loc::Reg(r) => r,
            Loc::Home => 0,
        };
        let mut x = Extra { imm: code.imm.then_some(imm), ..Extra::default() };
        let len = len(inst.width);
        let mut operand = |e: &mut Self, k: usize| {
            let (rm, one) = e.operand(prog, vals[k], locs[k]);
            x.broadcast = one;
            rm
        };
        match form {
            Form::MaskRvm => self.mask_op(code, 1, dst, r(0), reg(r(1))),
            Form::MaskRm => self.mask_op(code, 0, dst, 0, reg(r(0))),
            Form::Rvm => {
                let rm = operand(self, 1);
                self.a.op(code, len, dst, r(0), rm, x);
            }
            Form::Rm => {
                let rm = operand(self, 0);
                self.a.op(code, len, dst, 0, rm, x);
            }
            Form::Mr => self.a.op(code, len, r(0), 0, reg(dst), x),
            Form::Shift => self.a.op(code, len, code.ext, dst, reg(r(0)), x),
            Form::Fma => {
                let (vvvv, rm, distance) = fused_form(overwritten.unwrap_or(2), memory);
                code.opcode = code.opcode.wrapping_add_signed(distance);
                let rm = operand(self, rm);
                self.a.op(code, len, dst, r(vvvv), rm, x);
            }
            Form::BlendM => {
                let rm = operand(self, 1);
                x.mask = r(0);
                self.a.op(code, len, dst, r(2), rm, x);
            }
            Form::BlendV => {
                let rm = operand(self, 1);
                x.imm = Some(r(0) << 4);
                self.a.op(code, len, dst, r(2), rm, x);
            }
        }
    }

    /// Broadcasts a general register to every lane.
    fn splat(&mut self, from: Gpr, lane: u8, len: u8, dst: u8) {
        let wide = (lane == 8) as usize;
        if self.avx512() {
            return self.vector(ops::BROADCAST_GPR[wide], len, dst, 0, reg(from), None);
        }
        self.vector(ops::MOVD[wide], 0, dst, 0, reg(from), None);
        self.vector(ops::PBROADCAST[wide], len, dst, 0, reg(dst), None);
    }

    fn access(&mut self, tail: bool, inst: &Inst, r: u8, locs: [Loc; 3]) {
        let size = inst.imm;
        let load = matches!(inst.op, Op::Load(_));
        let (code, len) = (select::access(inst), len(inst.width));
        let downwards = load && inst.aux & DOWNWARDS != 0;
        let upper = (tail && downwards && (self.avx512() || size >= 4)).then(|| self.upper_lanes(inst));
        let mem = self.neighbours(inst);
        let mut x = Extra { imm: code.imm.then_some(0), ..Extra::default() };
        if tail && self.avx512() {
            x.mask = upper.unwrap_or(7);
            x.zero = load;
            return self.a.op(code, len, r, 0, mem, x);
        }
        if tail && size >= 4 {
            let mask = match locs[if load { 0 } else { 1 }] {
                Loc::Reg(m) => upper.unwrap_or(m),
                Loc::Home => unreachable!("masks of moves are in registers"),
            };
            let masked = if load { ops::MASKMOV } else { ops::MASKMOV_STORE }[(size == 8) as usize];
            // The pd form has W = 0, too.
            return self.a.op(Code { w: false, ..masked }, len, r, mask, mem, x);
        }
        if !tail {
            let whole = size as usize * self.v.lanes == 16 << len;
            let past = !load && whole && inst.aux & CACHED == 0 && inst.aux / 2 < self.streaming as u64;
            let code = if past { ops::MOVNTPS } else { code };
            return self.a.op(code, len, r, 0, mem, x);
        }
        // Narrow elements of the last step are copied through the frame, byte by byte.
        let scratch = at(RSP, self.scratch);
        if !load {
            self.a.op(code, len, r, 0, scratch, x);
        }
        let (outside, inside) = if load { (RSI, RDI) } else { (RDI, RSI) };
        self.a.lea(outside, mem);
        self.a.lea(inside, scratch);
        if downwards {
            self.lanes_past(RCX);
            let skipped = |base| Rm::Mem { base, index: Some((RCX, size)), disp: 0 };
            self.a.lea(outside, skipped(outside));
            self.a.lea(inside, skipped(inside));
        }
        self.a.load(RCX, at(RSP, FRAME_COUNT));
        if size == 2 {
            self.a.scalar(true, &[0x01], RCX, reg(RCX), 0);
        }
        self.a.raw(&[0xF3, 0xA4]); // rep movsb
        if load {
            self.a.op(code, len, r, 0, scratch, x);
        }
    }

    /// Number of lanes of the last step that are past the end of the row.
    fn lanes_past(&mut self, to: Gpr) {
        self.a.set(to, self.v.lanes as u32);
        self.a.scalar(true, &[0x2B], to, at(RSP, FRAME_COUNT), 0); // sub
    }

    /// Mask of a descending load in the last step: the elements inside the row are in the upper lanes. In k6 on
    /// AVX-512, in the last vector register on AVX2.
    fn upper_lanes(&mut self, inst: &Inst) -> u8 {
        if self.avx512() {
            self.lanes_past(RAX);
            self.a.set(RCX, u32::MAX);
            self.a.raw(&[0xC4, 0xE2, 0x78, 0xF5, 0xC9]); // bzhi ecx, ecx, eax
            self.a.scalar(false, &[0xF7], 2, reg(RCX), 0); // not
            self.mask_op(ops::KMOV_FROM_GPR, 0, 6, 0, reg(RCX));
            return 6;
        }
        let lanes = self.v.lanes;
        let mut table = vec![0; lanes * 4];
        table.resize(lanes * 8, 0xFF);
        let place = self.place(table, (u64::MAX, 128 + lanes as u64), 32);
        self.a.lea(RCX, Rm::Pool(place));
        self.a.load(RAX, at(RSP, FRAME_COUNT));
        let mask = Rm::Mem { base: RCX, index: Some((RAX, 4)), disp: 0 };
        let t = self.level.target().vectors as u8 - 1;
        let code = if inst.imm == 8 { ops::MOVSX_DQ } else { ops::MOVUPS[0] };
        self.vector(code, len(inst.width), t, 0, mask, None);
        t
    }

    /// Memory operand of the step's contiguous elements.
    fn neighbours(&mut self, inst: &Inst) -> Rm {
        if matches!(inst.op, Op::Load(_)) && inst.aux & DOWNWARDS != 0 {
            let base = self.pointer(inst.aux as u32 as u64, RCX);
            self.a.scalar(true, &[0x89], R14, reg(RAX), 0); // mov rax, r14
            self.a.scalar(true, &[0xF7], 3, reg(RAX), 0); // neg
            let last = (inst.step as i32 + 1) * self.v.lanes as i32 - 1;
            return Rm::Mem { base, index: Some((RAX, inst.imm)), disp: -last * inst.imm as i32 };
        }
        let base = self.pointer(inst.aux as u32 as u64, RAX);
        let disp = inst.step as i32 * self.v.lanes as i32 * inst.imm as i32;
        Rm::Mem { base, index: Some((R14, inst.imm)), disp }
    }

    fn merge_with_memory(&mut self, tail: bool, inst: &Inst, dst: u8, x: u8, mask: Option<u8>) {
        let Op::Merge(op, dtype) = inst.op else { unreachable!("called for merges") };
        let (code, _) = select::fold_code(self.avx512(), op, dtype).expect("lowering asked for it");
        let len = len(inst.width);
        let mut mem = self.neighbours(inst);
        let mut extra = Extra::default();
        if tail && self.avx512() {
            extra = Extra { mask: 7, zero: true, ..extra };
        }
        if let Some(mask) = mask {
            let t = self.level.target().vectors as u8 - 1;
            let load = Code { w: false, ..ops::MASKMOV[(inst.imm == 8) as usize] };
            self.a.op(load, len, t, mask, mem, Extra::default());
            mem = reg(t);
        }
        self.a.op(code, len, dst, x, mem, extra);
    }

    /// Stores the lowest lane of a register to the single element of an access.
    fn store_one(&mut self, inst: &Inst, r: u8) {
        let base = self.pointer(inst.aux as u32 as u64, RCX);
        match inst.imm {
            8 => self.vector(ops::MOVD_STORE[1], 0, r, 0, at(base, 0), None),
            4 => self.vector(ops::MOVD_STORE[0], 0, r, 0, at(base, 0), None),
            size => {
                self.vector(ops::MOVD_STORE[0], 0, r, 0, reg(RAX), None);
                if size == 2 {
                    self.a.raw(&[0x66]);
                }
                self.a.scalar(false, &[if size == 2 { 0x89 } else { 0x88 }], RAX, at(base, 0), 0);
            }
        }
    }

    /// Sets rax to the address of the step's first element in a strided access.
    fn strided_address(&mut self, inst: &Inst, size: u8) {
        let p = inst.aux as u32 as u64;
        self.a.lea(RAX, at(R14, inst.step as i32 * self.v.lanes as i32));
        let stride = self.arg((p / 2) as u16, 2);
        self.a.scalar(true, &[0x0F, 0xAF], RAX, stride, 0); // imul
        let base = self.pointer(p, RCX);
        self.a.lea(RAX, Rm::Mem { base, index: Some((RAX, size)), disp: 0 });
    }

    fn gather(&mut self, tail: bool, inst: &Inst, dst: u8, index: u8, mask: Option<u8>) {
        let aligned = inst.aux >> 32 & 1 == 1;
        let p = inst.aux as u32 as u64;
        let base = if mask.is_none() {
            self.strided_address(inst, if aligned { (inst.aux >> 33) as u8 } else { inst.imm });
            RAX
        } else if aligned {
            let base = self.pointer(p, RAX);
            if base != RAX {
                self.a.scalar(true, &[0x89], base, reg(RAX), 0);
            }
            RAX
        } else {
            self.pointer(p, RAX)
        };
        if aligned {
            self.a.arith_imm(4, reg(RAX), -4);
        }
        // Bound only in the AVX-512 branch: only AVX-512 code jumps there.
        let done = self.a.label();
        if mask.is_none() && !aligned && inst.imm == 4 && self.avx512() && self.v.lanes == 16 {
            self.every_second(tail, inst, (dst, index), done);
        }
        let mem = Rm::Mem { base, index: Some((index, inst.imm)), disp: 0 };
        let x = Extra { vsib: true, ..Extra::default() };
        self.vector(ops::PXOR[0], len(inst.width), dst, dst, reg(dst), None);
        if self.avx512() {
            match (mask, tail) {
                (Some(m), true) => self.mask_op(ops::KAND, 1, 6, m, reg(7)),
                (Some(m), false) => self.mask_op(ops::KMOV, 0, 6, 0, reg(m)),
                (None, true) => self.mask_op(ops::KMOV, 0, 6, 0, reg(7)),
                (None, false) => self.mask_op(ops::KXNOR, 1, 6, 6, reg(6)),
            }
            self.a.op(select::access(inst), len(inst.width), dst, 0, mem, Extra { mask: 6, ..x });
            return self.a.bind(done);
        }
        let t = self.level.target().vectors as u8 - 1;
        let inside = self.slot_at((inst.lane == 8) as u64);
        match (mask, tail) {
            (Some(m), true) => self.vector(ops::PAND[0], len(inst.width), t, m, inside, None),
            (Some(m), false) => self.vector(ops::MOVAPS, len(inst.width), t, 0, reg(m), None),
            (None, true) => self.vector(ops::MOVUPS[0], len(inst.width), t, 0, inside, None),
            (None, false) => self.vector(ops::PCMPEQ[0], len(inst.width), t, t, reg(t), None),
        }
        self.a.op(select::access(inst), len(inst.width), dst, t, mem, x);
    }

    /// Fast path for elements of 4 bytes with stride 2 at run time, from rax on: loads two vectors that hold them and
    /// the elements between, and jumps to `done`. `index` is twice the number of each lane. Nothing is read after the
    /// last lane's element, since that memory may be unmapped: the second vector is loaded without its last element,
    /// and both without elements past the row. (Zen 5: 16 elements in 3 cycles; a gather takes 25.)
    fn every_second(&mut self, tail: bool, inst: &Inst, (dst, index): (u8, u8), done: Label) {
        let (apart, few) = (self.a.label(), self.a.label());
        let stride = self.arg((inst.aux as u32 / 2) as u16, 2);
        self.a.arith_imm(7, stride, 2);
        self.a.jump_if(Cond::NotEqual, apart);
        let masked = Extra { mask: 6, zero: true, ..Extra::default() };
        let loads = |e: &mut Self, from: i32| {
            e.mask_op(ops::KMOV_FROM_GPR, 0, 6, 0, reg(RSI));
            e.a.op(ops::MOVUPS[0], len(inst.width), dst, 0, at(RAX, from), masked);
        };
        if tail {
            // Elements from the first lane's to the last lane's: 2 * count - 1.
            self.a.load(RCX, at(RSP, FRAME_COUNT));
            self.a.lea(RCX, Rm::Mem { base: RCX, index: Some((RCX, 1)), disp: -1 });
            self.a.set(RSI, u32::MAX);
            self.a.raw(&[0xC4, 0xE2, 0x70, 0xF5, 0xF6]); // bzhi esi, esi, ecx
            self.a.arith_imm(7, reg(RCX), 16);
            self.a.jump_if(Cond::Below, few);
            self.a.raw(&[0xC1, 0xEE, 16]); // shr esi, 16
        } else {
            self.a.set(RSI, 0x7FFF);
        }
        loads(self, 64);
        // The elements of the upper lanes, then those of the lower ones.
        self.vector(ops::PERMD, len(inst.width), dst, index, reg(dst), None);
        self.a.set(RSI, 0xFF);
        self.mask_op(ops::KMOV_FROM_GPR, 0, 6, 0, reg(RSI));
        self.a.op(ops::PERMD, len(inst.width), dst, index, at(RAX, 0), Extra { mask: 6, ..Extra::default() });
        self.a.jump(done);
        if tail {
            self.a.bind(few);
            loads(self, 0);
            self.vector(ops::PERMD, len(inst.width), dst, index, reg(dst), None);
            self.a.jump(done);
        }
        self.a.bind(apart);
    }

    fn guard(&mut self, prog: Allocated, val: Val, m: u8) {
        let lane = prog.0.insts[val.at()].lane;
        if self.avx512() {
            let code = if self.v.lanes == 8 { ops::KMOV_TO_GPR_8 } else { ops::KMOV_TO_GPR };
            self.mask_op(code, 0, RAX, 0, reg(m));
            if self.v.lanes == 4 {
                self.a.arith_imm(4, reg(RAX), 15);
            }
        } else {
            self.vector(ops::MOVMSK[(lane == 8) as usize], self.len(lane), RAX, 0, reg(m), None);
        }
        if prog.0.tail {
            self.a.scalar(false, &[0x23], RAX, at(RSP, FRAME_BITS), 0);
        }
        self.a.scalar(false, &[0x09], RAX, reg(R12), 0);
    }
}
