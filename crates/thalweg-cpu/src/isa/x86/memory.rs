//! Encoding of a step's memory accesses (contiguous loads and stores, single elements, gathers), guards, and the masks
//! of a masked step.
//!
//! In: a [`Run`] of an access. Out: its instructions. Always true: a masked step reads or writes no element past the
//! end of the row.

use super::abi::gpr;
use super::asm::*;
use super::emit::{Emit, SCRATCH, TAIL, len, mem, reg};
use super::{ops, select};
use crate::vector::ir::{DOWNWARDS, Op, TABULATED};
use crate::vector::linear::{FRAME_BITS, FRAME_COUNT, Run, Word};

/// Id of the constant-pool table from which masks of the lower lanes are loaded.
fn lower_table(lanes: usize) -> (u64, u64) {
    (u64::MAX, 64 + lanes as u64)
}
fn upper_table(lanes: usize) -> (u64, u64) {
    (u64::MAX, 128 + lanes as u64)
}

impl Emit {
    /// Returns a register with the pointer of an access: its own register, or `spare`, which is loaded from the frame.
    fn pointer(&mut self, run: &Run, spare: Gpr) -> Gpr {
        match run.pointer.expect("a memory access has a pointer").0 {
            Word::Reg(r) => gpr(r),
            Word::Mem(home) => {
                self.a.load(spare, mem(home));
                spare
            }
        }
    }

    /// Memory operand of the stride of a strided access, in elements.
    fn stride(&self, run: &Run) -> Rm {
        mem(run.pointer.expect("a memory access has a pointer").1)
    }

    /// Emits the load or store of a step's contiguous elements to or from register `r`.
    pub fn access(&mut self, run: &Run, r: u8) {
        let descending = matches!(run.inst.op, Op::Load(_)) && run.inst.aux & DOWNWARDS != 0;
        let masked = run.tail && descending && (self.avx512() || run.inst.imm >= 4);
        let upper = masked.then(|| self.upper_lanes(run));
        let mem = self.neighbours(run);
        self.access_at(run, r, mem, upper);
    }

    /// Emits [`Emit::access`] at a memory operand; `upper` is the mask of a masked step's descending elements.
    fn access_at(&mut self, run: &Run, r: u8, mem: Rm, upper: Option<u8>) {
        let (inst, tail, size) = (&run.inst, run.tail, run.inst.imm);
        let load = matches!(inst.op, Op::Load(_) | Op::LoadAt(_));
        let (code, len) = (select::access(inst), len(inst.width));
        let downwards = load && inst.aux & DOWNWARDS != 0;
        let mut x = Extra { imm: code.imm.then_some(0), ..Extra::default() };
        if tail && self.avx512() {
            x.mask = upper.unwrap_or(TAIL);
            x.zero = load;
            return self.a.op(code, len, r, 0, mem, x);
        }
        if tail && size >= 4 {
            let mask = upper.unwrap_or(run.args[inst.nargs as usize - 1]);
            let masked = if load { ops::MASKMOV } else { ops::MASKMOV_STORE }[(size == 8) as usize];
            // The pd form has W = 0, too.
            return self.a.op(Code { w: false, ..masked }, len, r, mask, mem, x);
        }
        if !tail {
            let code = if run.streaming { ops::MOVNTPS } else { code };
            return self.a.op(code, len, r, 0, mem, x);
        }
        // Narrow elements of the last step are copied through the frame, byte by byte.
        let scratch = at(RSP, run.scratch);
        if !load {
            self.a.op(code, len, r, 0, scratch, x);
        }
        let (outside, inside) = if load { (RSI, RDI) } else { (RDI, RSI) };
        self.a.lea(outside, mem);
        self.a.lea(inside, scratch);
        if downwards {
            self.lanes_past(run, RCX);
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

    /// Emits the computation of the number of lanes past the end of the row, in a masked step.
    fn lanes_past(&mut self, run: &Run, to: Gpr) {
        self.a.set(to, run.lanes as u32);
        self.a.scalar(true, &[0x2B], to, at(RSP, FRAME_COUNT), 0); // sub
    }

    /// Emits the mask of a descending load in a masked step, where the elements inside the row are in the upper lanes.
    /// The mask is in k6 on AVX-512, in the last vector register on AVX2; returns its number.
    fn upper_lanes(&mut self, run: &Run) -> u8 {
        if self.avx512() {
            self.lanes_past(run, RAX);
            self.a.set(RCX, u32::MAX);
            self.a.raw(&[0xC4, 0xE2, 0x78, 0xF5, 0xC9]); // bzhi ecx, ecx, eax
            self.a.scalar(false, &[0xF7], 2, reg(RCX), 0); // not
            self.mask_op(ops::KMOV_FROM_GPR, 0, SCRATCH, 0, reg(RCX));
            return SCRATCH;
        }
        let lanes = run.lanes as usize;
        let mut table = vec![0; lanes * 4];
        table.resize(lanes * 8, 0xFF);
        let place = self.place(&table, upper_table(lanes), 32);
        self.a.lea(RCX, Rm::Pool(place));
        self.a.load(RAX, at(RSP, FRAME_COUNT));
        let mask = Rm::Mem { base: RCX, index: Some((RAX, 4)), disp: 0 };
        let t = self.last();
        let code = if run.inst.imm == 8 { ops::MOVSX_DQ } else { ops::MOVUPS[0] };
        self.vector(code, len(run.inst.width), t, 0, mask, None);
        t
    }

    /// Emits the load of a step's contiguous elements at an offset ([`Op::LoadAt`]).
    pub fn load_at(&mut self, run: &Run) {
        let (inst, lanes, size) = (&run.inst, run.lanes as i32, run.inst.imm);
        let [offset, mask, _] = run.args;
        let base = self.pointer(run, RAX);
        self.vector(ops::MOVD_STORE[1], 0, offset, 0, reg(RCX), None);
        self.a.scalar(true, &[0x01], R14, reg(RCX), 0); // add
        self.a.lea(RAX, Rm::Mem { base, index: Some((RCX, size)), disp: 0 });
        if self.avx512() {
            self.mask_op(ops::KMOV_TO_GPR, 0, RCX, 0, reg(mask));
        } else {
            self.vector(ops::MOVD_STORE[1], 0, mask, 0, reg(RCX), None);
        }
        self.vector(ops::PXOR[0], len(inst.width), run.dst, run.dst, reg(run.dst), None);
        let outside = self.a.label();
        self.a.arith_imm(4, reg(RCX), 1);
        self.a.jump_if(Cond::Equal, outside);
        let disp = inst.step as i32 * lanes * size as i32;
        self.access_at(run, run.dst, Rm::Mem { base: RAX, index: None, disp }, None);
        self.a.bind(outside);
    }

    /// Memory operand of the step's contiguous elements.
    fn neighbours(&mut self, run: &Run) -> Rm {
        let (inst, lanes, size) = (&run.inst, run.lanes as i32, run.inst.imm);
        if matches!(inst.op, Op::Load(_)) && inst.aux & DOWNWARDS != 0 {
            let base = self.pointer(run, RCX);
            self.a.scalar(true, &[0x89], R14, reg(RAX), 0); // mov rax, r14
            self.a.scalar(true, &[0xF7], 3, reg(RAX), 0); // neg
            let last = (inst.step as i32 + 1) * lanes - 1;
            return Rm::Mem { base, index: Some((RAX, size)), disp: -last * size as i32 };
        }
        let base = self.pointer(run, RAX);
        Rm::Mem { base, index: Some((R14, size)), disp: inst.step as i32 * lanes * size as i32 }
    }

    /// Emits the combination of a register with the contiguous elements of an access ([`Op::Merge`]).
    pub fn merge_with_memory(&mut self, run: &Run) {
        let inst = &run.inst;
        let Op::Merge(op, dtype) = inst.op else { unreachable!("called for merges") };
        let (code, _) = select::fold_code(self.avx512(), op, dtype).expect("lowering asked for it");
        let len = len(inst.width);
        let mut mem = self.neighbours(run);
        let mut extra = Extra::default();
        if run.tail && self.avx512() {
            extra = Extra { mask: TAIL, zero: true, ..extra };
        }
        if inst.nargs == 2 {
            let t = self.last();
            let load = Code { w: false, ..ops::MASKMOV[(inst.imm == 8) as usize] };
            self.a.op(load, len, t, run.args[1], mem, Extra::default());
            mem = reg(t);
        }
        self.a.op(code, len, run.dst, run.args[0], mem, extra);
    }

    /// Emits the store of a register's lowest lane to the single element of an access.
    pub fn store_one(&mut self, run: &Run) {
        let base = self.pointer(run, RCX);
        let r = run.args[0];
        match run.inst.imm {
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

    /// Emits code that sets rax to the address of the step's first element in a strided access.
    pub fn strided_address(&mut self, run: &Run, size: u8) {
        self.a.lea(RAX, at(R14, run.inst.step as i32 * run.lanes as i32));
        let stride = self.stride(run);
        self.a.scalar(true, &[0x0F, 0xAF], RAX, stride, 0); // imul
        let base = self.pointer(run, RCX);
        self.a.lea(RAX, Rm::Mem { base, index: Some((RAX, size)), disp: 0 });
    }

    /// Emits a gather of elements by the index lanes ([`Op::Gather`]).
    pub fn gather(&mut self, run: &Run) {
        let (inst, tail, dst, index) = (&run.inst, run.tail, run.dst, run.args[0]);
        let mask = (inst.nargs == 2).then_some(run.args[1]);
        let aligned = inst.aux >> 32 & 1 == 1;
        let base = if mask.is_none() {
            self.strided_address(run, if aligned { (inst.aux >> 33 & 3) as u8 } else { inst.imm });
            RAX
        } else if aligned {
            let base = self.pointer(run, RAX);
            if base != RAX {
                self.a.scalar(true, &[0x89], base, reg(RAX), 0);
            }
            RAX
        } else {
            self.pointer(run, RAX)
        };
        if aligned {
            self.a.arith_imm(4, reg(RAX), -4);
        }
        // Bound only in the AVX-512 branch: only AVX-512 code jumps there.
        let done = self.a.label();
        if mask.is_none() && !aligned && inst.imm == 4 && self.avx512() && run.lanes == 16 {
            self.every_second(run, done);
        }
        if let Some(mask) = mask
            && inst.aux & TABULATED != 0
            && self.avx512()
        {
            self.close_lanes(run, base, mask, done);
        }
        let (code, len) = (select::access(inst), len(inst.width));
        let mem = Rm::Mem { base, index: Some((index, inst.imm)), disp: 0 };
        let x = Extra { vsib: true, ..Extra::default() };
        self.vector(ops::PXOR[0], len, dst, dst, reg(dst), None);
        if self.avx512() {
            match (mask, tail) {
                (Some(m), true) => self.mask_op(ops::KAND, 1, SCRATCH, m, reg(TAIL)),
                (Some(m), false) => self.mask_op(ops::KMOV, 0, SCRATCH, 0, reg(m)),
                (None, true) => self.mask_op(ops::KMOV, 0, SCRATCH, 0, reg(TAIL)),
                (None, false) => self.mask_op(ops::KXNOR, 1, SCRATCH, SCRATCH, reg(SCRATCH)),
            }
            self.a.op(code, len, dst, 0, mem, Extra { mask: SCRATCH, ..x });
            return self.a.bind(done);
        }
        let t = self.last();
        let inside = at(RSP, run.inside + 64 * (inst.lane == 8) as i32);
        match (mask, tail) {
            (Some(m), true) => self.vector(ops::PAND[0], len, t, m, inside, None),
            (Some(m), false) => self.vector(ops::MOVAPS, len, t, 0, reg(m), None),
            (None, true) => self.vector(ops::MOVUPS[0], len, t, 0, inside, None),
            (None, false) => self.vector(ops::PCMPEQ[0], len, t, t, reg(t), None),
        }
        self.a.op(code, len, dst, t, mem, x);
    }

    /// Emits the fast path of a strided access of 4-byte elements, from rax on, whose stride is 2 at run time: loads
    /// two vectors that hold the elements and those between them, permutes them by the index lanes (twice the lane
    /// number), and jumps to `done`. Nothing is read after the last lane's element, since that memory may be unmapped:
    /// the second vector is loaded without its last element, and both without elements past the row. (Zen 5: 16
    /// elements in 3 cycles; a gather takes 25.)
    fn every_second(&mut self, run: &Run, done: Label) {
        let (len, dst, index) = (len(run.inst.width), run.dst, run.args[0]);
        let (apart, few) = (self.a.label(), self.a.label());
        let stride = self.stride(run);
        self.a.arith_imm(7, stride, 2);
        self.a.jump_if(Cond::NotEqual, apart);
        let masked = Extra { mask: SCRATCH, zero: true, ..Extra::default() };
        let loads = |e: &mut Self, from: i32| {
            e.mask_op(ops::KMOV_FROM_GPR, 0, SCRATCH, 0, reg(RSI));
            e.a.op(ops::MOVUPS[0], len, dst, 0, at(RAX, from), masked);
        };
        if run.tail {
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
        self.vector(ops::PERMD, len, dst, index, reg(dst), None);
        self.a.set(RSI, 0xFF);
        self.mask_op(ops::KMOV_FROM_GPR, 0, SCRATCH, 0, reg(RSI));
        self.a.op(ops::PERMD, len, dst, index, at(RAX, 0), Extra { mask: SCRATCH, ..Extra::default() });
        self.a.jump(done);
        if run.tail {
            self.a.bind(few);
            loads(self, 0);
            self.vector(ops::PERMD, len, dst, index, reg(dst), None);
            self.a.jump(done);
        }
        self.a.bind(apart);
    }

    /// Emits the fast path of a gather by a table (AVX-512), from `base` on, where all lanes of `mask` read one cache line
    /// or two consecutive ones: permutes the lines by the index lanes, and jumps to `done`. Nothing else is read than
    /// lines with elements of the lanes. (Zen 4: 8 elements in 1 to 2 ns; a gather takes 8 to 10.)
    fn close_lanes(&mut self, run: &Run, base: Gpr, mask: u8, done: Label) {
        let (inst, dst, index) = (&run.inst, run.dst, run.args[0]);
        let (eights, lanes, place) = (inst.imm == 8, len(run.lanes * 4), self.last());
        // Elements are 1 << size bytes.
        let size = 2 + eights as u8;
        let (apart, two) = (self.a.label(), self.a.label());
        let zero = |e: &mut Self, r: Gpr| e.a.raw(&[0x85, 0xC0 | r << 3 | r]); // test r, r
        // The line of the first lane's element, which has to be read.
        self.mask_op(ops::KMOV_TO_GPR, 0, RCX, 0, reg(mask));
        self.a.arith_imm(4, reg(RCX), 1);
        self.a.jump_if(Cond::Equal, apart);
        self.vector(ops::MOVD_STORE[0], 0, index, 0, reg(RCX), None);
        self.a.lea(RSI, Rm::Mem { base, index: Some((RCX, inst.imm)), disp: 0 });
        self.a.scalar(true, &[0x89], RSI, reg(RDI), 0); // mov rdi, rsi
        self.a.arith_imm(4, reg(RDI), (1 << size) - 1);
        self.a.jump_if(Cond::NotEqual, apart);
        self.a.scalar(true, &[0x89], RSI, reg(RDI), 0);
        self.a.arith_imm(4, reg(RSI), -64);
        self.a.arith_imm(4, reg(RDI), 63);
        self.a.raw(&[0xC1, 0xE8 | RDI, size]); // shr edi, size
        self.a.scalar(false, &[0x29], RDI, reg(RCX), 0); // sub ecx, edi
        // Each lane's place after the beginning of the line, and the number of its line.
        self.vector(ops::BROADCAST_GPR[0], lanes, place, 0, reg(RCX), None);
        self.vector(ops::PSUB[0], lanes, place, index, reg(place), None);
        let shift = |e: &mut Self, from: u8, by: u8| {
            e.vector(ops::SHR[0], lanes, ops::SHR[0].ext, dst, reg(from), Some(by));
        };
        // Sets a register to the lanes of the mask for which that number, or what is left of it, is not zero.
        let test = |e: &mut Self, to: Gpr| {
            let mask = if run.tail { SCRATCH } else { mask };
            if run.tail {
                e.mask_op(ops::KAND, 1, SCRATCH, run.args[1], reg(TAIL));
            }
            e.a.op(ops::PTESTM[0], lanes, SCRATCH, dst, reg(dst), Extra { mask, ..Extra::default() });
            e.mask_op(ops::KMOV_TO_GPR, 0, to, 0, reg(SCRATCH));
            zero(e, to);
        };
        shift(self, place, 6 - size);
        test(self, RDI);
        if eights {
            self.vector(ops::MOVZX_DQ, 2, place, 0, reg(place), None);
        }
        let permute = |e: &mut Self, line: i32, mask: u8, zero: bool| {
            e.a.op(
                ops::PERMUTE[eights as usize],
                2,
                dst,
                place,
                at(RSI, line),
                Extra { mask, zero, ..Extra::default() },
            );
        };
        self.a.jump_if(Cond::NotEqual, two);
        permute(self, 0, mask, true);
        self.a.jump(done);
        self.a.bind(two);
        shift(self, dst, 1);
        test(self, RCX);
        self.a.jump_if(Cond::NotEqual, apart);
        self.mask_op(ops::KMOV_FROM_GPR, 0, SCRATCH, 0, reg(RDI));
        permute(self, 0, mask, true);
        permute(self, 64, SCRATCH, false);
        self.a.jump(done);
        self.a.bind(apart);
    }

    /// Emits code that sets the faults register if a lane of a mask, inside the row, is true ([`Op::Guard`]).
    pub fn guard(&mut self, run: &Run) {
        let m = run.args[0];
        if self.avx512() {
            let code = if run.lanes == 8 { ops::KMOV_TO_GPR_8 } else { ops::KMOV_TO_GPR };
            self.mask_op(code, 0, RAX, 0, reg(m));
            if run.lanes == 4 {
                self.a.arith_imm(4, reg(RAX), 15);
            }
        } else {
            let lane = run.lane;
            self.vector(ops::MOVMSK[(lane == 8) as usize], len(run.lanes * lane), RAX, 0, reg(m), None);
        }
        if run.tail {
            self.a.scalar(false, &[0x23], RAX, at(RSP, FRAME_BITS), 0);
        }
        self.a.scalar(false, &[0x09], RAX, reg(R12), 0);
    }

    /// Emits code for the start of a masked step: computes the number of lanes inside the row, and their masks.
    pub fn tail_mask(&mut self, lanes: u8, inside: i32) {
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
            self.mask_op(ops::KMOV_FROM_GPR, 0, TAIL, 0, reg(RCX));
            return;
        }
        let n = lanes as usize;
        let mut table = vec![0xFF; n * 4];
        table.resize(n * 8, 0);
        let place = self.place(&table, lower_table(n), 32);
        // lea rcx, [table + 4·(lanes - count)]
        self.a.lea(RCX, Rm::Pool(place + lanes as u32 * 4));
        self.a.scalar(true, &[0xF7], 3, reg(RAX), 0); // neg rax
        self.a.lea(RCX, Rm::Mem { base: RCX, index: Some((RAX, 4)), disp: 0 });
        let t = self.last();
        self.vector(ops::MOVUPS[0], len(lanes * 4), t, 0, at(RCX, 0), None);
        self.vector(ops::MOVUPS_STORE[0], len(lanes * 4), t, 0, at(RSP, inside), None);
        if lanes == 4 {
            self.vector(ops::MOVSX_DQ, 1, t, 0, at(RCX, 0), None);
            self.vector(ops::MOVUPS_STORE[0], 1, t, 0, at(RSP, inside + 64), None);
        }
    }
}
