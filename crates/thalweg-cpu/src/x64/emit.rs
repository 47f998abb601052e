//! From allocated steps to a function: frame, prologue, loop over rows, main loop, masked last steps.
//!
//! ```text
//! for each row:  fill the frame vectors that change by row
//!                while n - i ≥ copies·lanes: main steps, unmasked
//!                while i < n:                one step, lanes past n masked
//! ```
//!
//! r13 is the argument block, r14 the position in the row, r15 `n`, r12 what guards found; rax, rcx, rsi, rdi are free inside an
//! instruction; the others hold pointers. The frame is 64-byte aligned under rsp.

use super::asm::*;
use super::isa::Isa;
use super::ops;
use super::regalloc::{Allocation, Loc, Step};
use super::schedule::Program;
use super::vir::{Class, Inst, Op, Slot, Source, Val, Vir};
use crate::rows::ACCESS_WORDS;
use std::collections::HashMap;
use thalweg_ir::DType;
use thalweg_kernel::{AccessClass, Body};

const SAVED: [Gpr; 6] = [RBX, RBP, R12, R13, R14, R15];
const POINTERS: [Gpr; 7] = [RBX, RBP, RDX, 8, 9, 10, 11];
const FRAME_RSP: i32 = 0;
const FRAME_ROWS: i32 = 8;
const FRAME_COUNT: i32 = 16;
const FRAME_BITS: i32 = 24;
const FRAME_WORDS: i32 = 32;
/// Strides beyond this are left to the slow path: 16 of them, in bytes, must fit 32 bits.
const STRIDE_LIMIT: i32 = 1 << 25;
/// Larger frames are not worth a register allocator.
const FRAME_LIMIT: i32 = 1 << 16;

/// A program with its registers.
pub type Allocated<'a> = (&'a Program, &'a Allocation);

struct Emit<'a> {
    a: Asm,
    v: &'a Vir,
    body: &'a Body,
    pool: Vec<u8>,
    places: HashMap<(u64, u64), u32>,
    /// Pointers in registers, by [`super::vir::pointer`].
    pointers: Vec<(u64, Gpr)>,
    slots: i32,
    scratch: i32,
    spills: i32,
    /// Whole vectors are stored past the caches.
    streaming: bool,
}

fn reg(r: u8) -> Rm {
    Rm::Reg(r)
}

/// The function's bytes, its pool behind. `None`: the frame would be too large.
pub fn emit(v: &Vir, body: &Body, main: Allocated, tail: Allocated, streaming: bool) -> Option<Vec<u8>> {
    let words = FRAME_WORDS + 8 * body.accesses.len() as i32;
    let slots = (words + 63) & !63;
    let scratch = slots + 64 * v.slots.len() as i32;
    let spills = scratch + 64;
    let frame = spills + 64 * main.1.places.max(tail.1.places) as i32;
    if frame > FRAME_LIMIT {
        return None;
    }
    let (a, pool, places) = (Asm::new(v.isa), Vec::new(), HashMap::new());
    let mut e = Emit { a, v, body, pool, places, pointers: Vec::new(), slots, scratch, spills, streaming };
    e.choose_pointers();
    let (exit, leave) = (e.a.label(), e.a.label());
    e.prologue(frame, exit, leave);
    let row = e.a.label();
    e.a.bind(row);
    e.row_start();
    e.loops(main, tail);
    for access in 0..body.accesses.len() {
        let word = at(RSP, FRAME_WORDS + 8 * access as i32);
        e.a.load(RAX, e.arg(access as u16, 1));
        e.a.scalar(true, &[0x01], RAX, word, 0);
    }
    e.a.scalar(true, &[0xFF], 1, at(RSP, FRAME_ROWS), 0); // dec
    e.a.jump_if(Cond::NotEqual, row);
    e.a.jump(leave);
    e.a.bind(exit);
    e.a.set(R12, 1);
    e.a.bind(leave);
    if streaming {
        e.a.raw(&[0x0F, 0xAE, 0xF8]); // sfence: what was stored is seen before what follows
    }
    e.a.scalar(true, &[0x89], R12, reg(RAX), 0); // mov rax, r12
    e.a.raw(&[0xC5, 0xF8, 0x77]); // vzeroupper
    e.a.load(RSP, at(RSP, FRAME_RSP));
    SAVED.iter().rev().for_each(|r| e.a.pop(*r));
    e.a.raw(&[0xC3]);
    Some(e.a.finish(&e.pool))
}

impl Emit<'_> {
    fn avx512(&self) -> bool {
        self.v.isa == Isa::Avx512
    }
    fn arg(&self, access: u16, word: i32) -> Rm {
        at(R13, (access as i32 * ACCESS_WORDS as i32 + word) * 8)
    }
    fn slot_at(&self, slot: u64) -> Rm {
        at(RSP, self.slots + 64 * slot as i32)
    }
    fn vector(&mut self, c: Code, len: u8, r: u8, vvvv: u8, rm: Rm, imm: Option<u8>) {
        let c = ops::vex(c, self.v.isa);
        self.a.op(c, len, r, vvvv, rm, Extra { imm, ..Extra::default() });
    }
    fn full(&self) -> u8 {
        if self.avx512() { 2 } else { 1 }
    }

    fn choose_pointers(&mut self) {
        for &x in &self.v.effects {
            let i = self.v.inst(x);
            if i.op == Op::Store {
                self.want_pointer(i.aux);
            }
        }
        for i in &self.v.insts {
            if matches!(i.op, Op::Load | Op::Gather | Op::StepLow) {
                self.want_pointer(i.aux as u32 as u64);
            }
        }
    }
    fn want_pointer(&mut self, p: u64) {
        if self.pointers.iter().all(|q| q.0 != p) && self.pointers.len() < POINTERS.len() {
            self.pointers.push((p, POINTERS[self.pointers.len()]));
        }
    }
    fn pointer_home(&self, p: u64) -> Rm {
        let access = (p / 2) as u16;
        if p % 2 == 1 { self.arg(access, 3) } else { at(RSP, FRAME_WORDS + 8 * access as i32) }
    }
    /// The pointer in a register: its own, or `spare`.
    fn pointer(&mut self, p: u64, spare: Gpr) -> Gpr {
        if let Some(&(_, r)) = self.pointers.iter().find(|q| q.0 == p) {
            return r;
        }
        let home = self.pointer_home(p);
        self.a.load(spare, home);
        spare
    }

    fn prologue(&mut self, frame: i32, exit: Label, leave: Label) {
        SAVED.iter().for_each(|r| self.a.push(*r));
        self.a.scalar(true, &[0x89], RSP, reg(RAX), 0); // mov rax, rsp
        // Touch every page on the way down, as compilers do: the guard page must not be stepped over.
        for page in 1..=frame / 4096 {
            self.a.scalar(true, &[0x85], RSP, at(RSP, -page * 4096), 0); // test
        }
        self.a.arith_imm(5, reg(RSP), frame);
        self.a.arith_imm(4, reg(RSP), -64);
        self.a.store(at(RSP, FRAME_RSP), RAX);
        self.a.store(at(RSP, FRAME_ROWS), RDX);
        self.a.scalar(true, &[0x89], RDI, reg(R13), 0);
        self.a.scalar(true, &[0x89], RSI, reg(R15), 0);
        self.a.scalar(false, &[0x31], R12, reg(R12), 0);
        for r in [RSI, RDX] {
            self.a.scalar(true, &[0x85], r, reg(r), 0);
            self.a.jump_if(Cond::Equal, leave);
        }
        for (i, access) in self.body.accesses.iter().enumerate() {
            if access.class == AccessClass::Strided && access.operand.is_some() {
                self.a.load(RAX, self.arg(i as u16, 2));
                self.a.arith_imm(0, reg(RAX), STRIDE_LIMIT);
                self.a.arith_imm(7, reg(RAX), 2 * STRIDE_LIMIT);
                self.a.jump_if(Cond::AboveEqual, exit);
            }
            self.a.load(RAX, self.arg(i as u16, 0));
            self.a.store(at(RSP, FRAME_WORDS + 8 * i as i32), RAX);
        }
        self.fill_slots(false);
    }

    fn row_start(&mut self) {
        self.fill_slots(true);
        for (p, r) in self.pointers.clone() {
            let home = self.pointer_home(p);
            self.a.load(r, home);
        }
    }

    fn fill_slots(&mut self, by_row: bool) {
        for (i, s) in self.v.slots.clone().into_iter().enumerate() {
            let call = matches!(s.source, Source::Scalar(_) | Source::Stride(_));
            if s.source != Source::Tail && call != by_row {
                self.fill_slot(i as u64, s);
            }
        }
    }

    fn fill_slot(&mut self, i: u64, s: Slot) {
        let home = self.slot_at(i);
        let word = |access: u16| at(RSP, FRAME_WORDS + 8 * access as i32);
        match s.source {
            Source::Scalar(slot) => {
                let block = self.body.accesses.len() * ACCESS_WORDS + slot as usize;
                self.a.load(RAX, at(R13, block as i32 * 8));
                if s.dtype == DType::Bool {
                    self.a.scalar(true, &[0xF7], 3, reg(RAX), 0); // neg
                }
            }
            Source::Stride(access) => self.a.load(RAX, self.arg(access, 2)),
            Source::Word(access) => self.a.load(RAX, word(access)),
            Source::Low(access) => {
                self.a.load(RAX, word(access));
                self.a.arith_imm(4, reg(RAX), 3);
            }
            Source::Uniform(access) => {
                self.a.load(RCX, word(access));
                self.element(s.dtype);
            }
            Source::Tail => {}
        }
        self.a.store(home, RAX);
        if matches!(s.source, Source::Uniform(_)) && s.dtype == DType::F16 {
            self.vector(ops::F16_F32, 0, 0, 0, home, None);
            self.vector(ops::MOVUPS_STORE[0], 0, 0, 0, home, None);
        }
        let full = self.full();
        self.vector(ops::BROADCAST[(s.lane == 8) as usize], full, 0, 0, home, None);
        self.vector(ops::MOVUPS_STORE[0], full, 0, 0, home, None);
    }

    /// rax = the element at rcx, in its computed form (f16: its bits).
    fn element(&mut self, dtype: DType) {
        let (wide, opcode): (bool, &[u8]) = match dtype {
            DType::F64 | DType::I64 => (true, &[0x8B]),
            DType::F32 | DType::I32 | DType::U32 => (false, &[0x8B]),
            DType::I8 => (false, &[0x0F, 0xBE]),
            DType::I16 => (false, &[0x0F, 0xBF]),
            DType::U8 | DType::Bool => (false, &[0x0F, 0xB6]),
            DType::BF16 | DType::F16 => (false, &[0x0F, 0xB7]),
        };
        self.a.scalar(wide, opcode, RAX, at(RCX, 0), 0);
        match dtype {
            DType::BF16 => self.a.raw(&[0xC1, 0xE0, 16]), // shl eax, 16
            DType::Bool => self.a.scalar(true, &[0xF7], 3, reg(RAX), 0),
            _ => {}
        }
    }

    fn loops(&mut self, main: Allocated, tail: Allocated) {
        let lanes = self.v.lanes as i32;
        let stride = lanes * main.0.copies as i32;
        let (top, rest, last, end) = (self.a.label(), self.a.label(), self.a.label(), self.a.label());
        self.a.scalar(false, &[0x31], R14, reg(R14), 0);
        self.a.arith_imm(7, reg(R15), stride);
        self.a.jump_if(Cond::Below, rest);
        for &(val, r) in &main.1.hoisted {
            self.reload(main, val, r);
        }
        self.a.align(32);
        self.a.bind(top);
        self.steps(main);
        self.a.arith_imm(0, reg(R14), stride);
        self.a.lea(RAX, at(R14, stride));
        self.a.scalar(true, &[0x39], R15, reg(RAX), 0); // cmp rax, r15
        self.a.jump_if(Cond::BelowEqual, top);
        self.a.bind(rest);
        self.a.scalar(true, &[0x39], R15, reg(R14), 0);
        self.a.jump_if(Cond::AboveEqual, end);
        for &(val, r) in &tail.1.hoisted {
            self.reload(tail, val, r);
        }
        self.a.bind(last);
        self.tail_mask(lanes);
        self.steps(tail);
        self.a.arith_imm(0, reg(R14), lanes);
        self.a.scalar(true, &[0x39], R15, reg(R14), 0);
        self.a.jump_if(Cond::Below, last);
        self.a.bind(end);
    }

    /// Count, bits and vectors of the lanes inside the row.
    fn tail_mask(&mut self, lanes: i32) {
        self.a.scalar(true, &[0x89], R15, reg(RAX), 0);
        self.a.scalar(true, &[0x29], R14, reg(RAX), 0); // sub rax, r14
        self.a.set(RCX, lanes as u32);
        self.a.scalar(true, &[0x39], RCX, reg(RAX), 0);
        self.a.scalar(true, &[0x0F, 0x47], RAX, reg(RCX), 0); // cmova
        self.a.store(at(RSP, FRAME_COUNT), RAX);
        self.a.set(RCX, u32::MAX);
        self.a.raw(&[0xC4, 0xE2, 0x78, 0xF5, 0xC9]); // bzhi ecx, ecx, eax
        self.a.store(at(RSP, FRAME_BITS), RCX);
        if self.avx512() {
            self.mask_op(ops::KMOV_FROM_GPR, 0, 7, 0, reg(RCX));
            return;
        }
        let mut table = vec![0xFF; lanes as usize * 4];
        table.resize(lanes as usize * 8, 0);
        let place = self.place(table, (u64::MAX, 0), 32);
        // lea rcx, [table + 4·(lanes - count)]
        self.a.lea(RCX, Rm::Pool(place + lanes as u32 * 4));
        self.a.raw(&[0x48, 0xF7, 0xD8]); // neg rax
        self.a.lea(RCX, Rm::Mem { base: RCX, index: Some((RAX, 4)), disp: 0 });
        let t = self.v.isa.registers() as u8 - 1;
        self.vector(ops::MOVUPS[0], self.v.len(4), t, 0, at(RCX, 0), None);
        self.vector(ops::MOVUPS_STORE[0], self.v.len(4), t, 0, self.slot_at(0), None);
        if lanes == 4 {
            self.vector(ops::MOVSX_DQ, 1, t, 0, at(RCX, 0), None);
            self.vector(ops::MOVUPS_STORE[0], 1, t, 0, self.slot_at(1), None);
        }
    }

    fn mask_op(&mut self, c: Code, len: u8, r: u8, vvvv: u8, rm: Rm) {
        self.a.op(c, len, r, vvvv, rm, Extra { vex: true, ..Extra::default() });
    }

    /// A place in the pool for these bytes, shared by key.
    fn place(&mut self, bytes: Vec<u8>, key: (u64, u64), align: usize) -> u32 {
        if let Some(&p) = self.places.get(&key) {
            return p;
        }
        let p = self.pool.len().next_multiple_of(align);
        self.pool.resize(p, 0);
        self.pool.extend_from_slice(&bytes);
        self.places.insert(key, p as u32);
        p as u32
    }

    /// A value's home in memory, and whether it is one element there.
    fn home(&mut self, (p, alloc): Allocated, val: Val) -> (Rm, bool) {
        let inst = &p.insts[val.at()];
        let lane = inst.lane as usize;
        match inst.op {
            Op::Const => {
                let key = (inst.aux, lane as u64);
                let element = inst.aux.to_le_bytes()[..lane].to_vec();
                if self.avx512() {
                    return (Rm::Pool(self.place(element, key, lane)), true);
                }
                (Rm::Pool(self.place(element.repeat(32 / lane), key, 32)), false)
            }
            Op::Iota => {
                let n = self.v.lanes as u64;
                let first = inst.step as u64 * n;
                let mut bytes: Vec<u8> = (first..first + n).flat_map(|i| i.to_le_bytes()[..lane].to_vec()).collect();
                bytes.resize(self.v.isa.bytes(), 0);
                (Rm::Pool(self.place(bytes, (inst.step as u64, 16 + lane as u64), 64)), false)
            }
            Op::Table => {
                let bytes = self.v.tables[inst.aux as usize].clone();
                (Rm::Pool(self.place(bytes, (inst.aux, 32), 64)), false)
            }
            Op::Slot => (self.slot_at(inst.aux), false),
            _ => {
                let place = alloc.home[val.at()].expect("what is read from memory was written there");
                (at(RSP, self.spills + 64 * place as i32), false)
            }
        }
    }

    fn reload(&mut self, from: Allocated, val: Val, r: u8) {
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

    fn steps(&mut self, prog: Allocated) {
        for s in &prog.1.steps {
            match *s {
                Step::Run { at, dst, vals, locs, form } => self.run(prog, at, dst, vals, locs, form),
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

    fn run(&mut self, prog: Allocated, at: u32, dst: u8, vals: [Val; 3], locs: [Loc; 3], form: i8) {
        let inst = prog.0.insts[at as usize];
        let r = |k: usize| match locs[k] {
            Loc::Reg(r) => r,
            Loc::Home => 0,
        };
        let mut x = Extra { imm: inst.code.imm.then_some(inst.imm), ..Extra::default() };
        let mut code = inst.code;
        let mut memory = |e: &mut Self, k: usize| match locs[k] {
            Loc::Reg(r) => reg(r),
            Loc::Home => {
                let (home, one) = e.home(prog, vals[k]);
                x.broadcast = one;
                home
            }
        };
        match inst.op {
            Op::Rvm | Op::Rm if inst.class == Class::Mask && is_mask_op(code) => {
                let two = inst.op == Op::Rvm;
                let (vvvv, rm) = if two { (r(0), r(1)) } else { (0, r(0)) };
                self.mask_op(code, two as u8, dst, vvvv, reg(rm));
            }
            Op::Rvm => {
                let rm = memory(self, 1);
                self.a.op(code, inst.len, dst, r(0), rm, x);
            }
            Op::Rm => {
                let rm = memory(self, 0);
                self.a.op(code, inst.len, dst, 0, rm, x);
            }
            Op::Mr => self.a.op(code, inst.len, r(0), 0, reg(dst), x),
            Op::Shift => self.a.op(code, inst.len, code.ext, dst, reg(r(0)), x),
            Op::Fma => {
                code.opcode = code.opcode.wrapping_add_signed(form);
                let rm = memory(self, 2);
                self.a.op(code, inst.len, dst, r(1), rm, x);
            }
            Op::BlendM => {
                let rm = memory(self, 1);
                x.mask = r(0);
                self.a.op(code, inst.len, dst, r(2), rm, x);
            }
            Op::BlendV => {
                let rm = memory(self, 1);
                x.imm = Some(r(0) << 4);
                self.a.op(code, inst.len, dst, r(2), rm, x);
            }
            Op::KConst => {
                let code = if inst.imm == 1 { ops::KXNOR } else { ops::KXOR };
                self.mask_op(code, 1, dst, dst, reg(dst));
            }
            Op::Load | Op::Store => self.access(prog.0.tail, &inst, if inst.op == Op::Load { dst } else { r(0) }, locs),
            Op::Gather => self.gather(prog.0.tail, &inst, dst, r(0), (inst.nargs == 2).then(|| r(1))),
            Op::Step => self.splat(R14, inst.lane, inst.len, dst),
            Op::StepLow => {
                self.strided_address(&inst, inst.imm);
                self.a.arith_imm(4, reg(RAX), 3);
                self.splat(RAX, 4, inst.len, dst);
            }
            Op::Guard => self.guard(prog, vals[0], r(0)),
            Op::Const | Op::Table | Op::Iota | Op::Slot => unreachable!("invariants are not executed"),
        }
    }

    /// Every lane is the general register.
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
        let load = inst.op == Op::Load;
        let base = self.pointer(inst.aux, RAX);
        let disp = inst.step as i32 * self.v.lanes as i32 * size as i32;
        let mem = Rm::Mem { base, index: Some((R14, size)), disp };
        let mut x = Extra { imm: inst.code.imm.then_some(0), ..Extra::default() };
        if tail && self.avx512() {
            x.mask = 7;
            x.zero = load;
            return self.a.op(inst.code, inst.len, r, 0, mem, x);
        }
        if tail && size >= 4 {
            let mask = match locs[if load { 0 } else { 1 }] {
                Loc::Reg(m) => m,
                Loc::Home => unreachable!("masks of moves are in registers"),
            };
            let code = if load { ops::MASKMOV } else { ops::MASKMOV_STORE }[(size == 8) as usize];
            // The pd form is W0 too.
            return self.a.op(Code { w: false, ..code }, inst.len, r, mask, mem, x);
        }
        if !tail {
            let whole = size as usize * self.v.lanes == 16 << inst.len;
            let code = if self.streaming && !load && whole { ops::MOVNTPS } else { inst.code };
            return self.a.op(code, inst.len, r, 0, mem, x);
        }
        // Narrow elements of the last step: by way of the frame, byte for byte.
        let scratch = at(RSP, self.scratch);
        if !load {
            self.a.op(inst.code, inst.len, r, 0, scratch, x);
        }
        let (outside, inside) = if load { (RSI, RDI) } else { (RDI, RSI) };
        self.a.lea(outside, mem);
        self.a.lea(inside, scratch);
        self.a.load(RCX, at(RSP, FRAME_COUNT));
        if size == 2 {
            self.a.scalar(true, &[0x01], RCX, reg(RCX), 0);
        }
        self.a.raw(&[0xF3, 0xA4]); // rep movsb
        if load {
            self.a.op(inst.code, inst.len, r, 0, scratch, x);
        }
    }

    /// rax = address of the step's first element in a strided access.
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
        let mem = Rm::Mem { base, index: Some((index, inst.imm)), disp: 0 };
        let x = Extra { vsib: true, ..Extra::default() };
        self.vector(ops::PXOR[0], inst.len, dst, dst, reg(dst), None);
        if self.avx512() {
            match (mask, tail) {
                (Some(m), true) => self.mask_op(ops::KAND, 1, 6, m, reg(7)),
                (Some(m), false) => self.mask_op(ops::KMOV, 0, 6, 0, reg(m)),
                (None, true) => self.mask_op(ops::KMOV, 0, 6, 0, reg(7)),
                (None, false) => self.mask_op(ops::KXNOR, 1, 6, 6, reg(6)),
            }
            return self.a.op(inst.code, inst.len, dst, 0, mem, Extra { mask: 6, ..x });
        }
        let t = self.v.isa.registers() as u8 - 1;
        let inside = self.slot_at((inst.lane == 8) as u64);
        match (mask, tail) {
            (Some(m), true) => self.vector(ops::PAND[0], inst.len, t, m, inside, None),
            (Some(m), false) => self.vector(ops::MOVAPS, inst.len, t, 0, reg(m), None),
            (None, true) => self.vector(ops::MOVUPS[0], inst.len, t, 0, inside, None),
            (None, false) => self.vector(ops::PCMPEQ[0], inst.len, t, t, reg(t), None),
        }
        self.a.op(inst.code, inst.len, dst, t, mem, x);
    }

    fn guard(&mut self, prog: Allocated, val: Val, m: u8) {
        let lane = prog.0.insts[val.at()].lane;
        if self.avx512() {
            let code = if self.v.lanes == 8 { ops::KMOV_TO_GPR_8 } else { ops::KMOV_TO_GPR };
            self.mask_op(code, 0, RAX, 0, reg(m));
        } else {
            self.vector(ops::MOVMSK[(lane == 8) as usize], self.v.len(lane), RAX, 0, reg(m), None);
        }
        if prog.0.tail {
            self.a.scalar(false, &[0x23], RAX, at(RSP, FRAME_BITS), 0);
        }
        self.a.scalar(false, &[0x09], RAX, reg(R12), 0);
    }
}

fn is_mask_op(c: Code) -> bool {
    c.map == 1 && c.pp == 0 && (0x41..=0x47).contains(&c.opcode)
}
