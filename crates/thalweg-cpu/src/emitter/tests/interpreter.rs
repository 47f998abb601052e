//! Interpreter of linear code, for a target whose masks are vectors. It is the reference semantics of each line.
//!
//! In: linear code and the arguments of a call. Out: the effects on memory that emitted code must have. It is used in
//! tests only: `neutral` runs it on random bodies.

use crate::vector::ir::target::Target;
use crate::vector::ir::{DOWNWARDS, Format, Memory, Op, Predicate, Rounding};
use crate::vector::linear::{
    Cond, FRAME_BITS, FRAME_COUNT, FRAME_END, FRAME_ROWS, FRAME_START, Gpr, Label, Line, Linear, Mem, Operand, Right,
    Run, Word,
};
use half::f16;
use std::ops::Range;
use thalweg_ir::DType;
use thalweg_kernel::order;

type Vector = [u8; 64];

fn get(v: &[u8], lane: u8, i: usize) -> u64 {
    let mut b = [0; 8];
    let size = lane as usize;
    b[..size].copy_from_slice(&v[i * size..(i + 1) * size]);
    u64::from_le_bytes(b)
}

fn set(v: &mut [u8], lane: u8, i: usize, x: u64) {
    let size = lane as usize;
    v[i * size..(i + 1) * size].copy_from_slice(&x.to_le_bytes()[..size]);
}

/// Sign-extends the bits of a lane of `lane` bytes.
fn signed(x: u64, lane: u8) -> i64 {
    let unused = 64 - 8 * lane as u32;
    (x << unused) as i64 >> unused
}

/// Evaluates an expression of one to three floats in the precision of the lane.
macro_rules! float {
    ($lane:expr, $a:ident, $b:ident, $c:ident => $e:expr) => {
        if $lane == 4 {
            let ($a, $b, $c) = (f32::from_bits($a as u32), f32::from_bits($b as u32), f32::from_bits($c as u32));
            ($e).to_bits() as u64
        } else {
            let ($a, $b, $c) = (f64::from_bits($a), f64::from_bits($b), f64::from_bits($c));
            ($e).to_bits()
        }
    };
}

/// State of an interpreted call: registers and stack frame.
pub struct Interpreter {
    vector_bytes: usize,
    gpr: [u64; 24],
    vectors: [Vector; 32],
    frame: Vec<[u64; 8]>,
}

fn number(r: Gpr) -> usize {
    match r {
        Gpr::Stack => 0,
        Gpr::Args => 1,
        Gpr::Position => 2,
        Gpr::Count => 3,
        Gpr::Faults => 4,
        Gpr::A => 5,
        Gpr::B => 6,
        // The row's values are pointer 0.
        Gpr::Values => 7,
        Gpr::Pointer(k) => 7 + k as usize,
    }
}

impl Interpreter {
    pub fn new(target: &Target) -> Interpreter {
        let frame = vec![[0; 8]; (1 << 13) + 8];
        Interpreter { vector_bytes: target.vector_bytes, gpr: [0; 24], vectors: [[0; 64]; 32], frame }
    }

    fn reg(&mut self, r: Gpr) -> &mut u64 {
        &mut self.gpr[number(r)]
    }
    fn address(&self, m: Mem) -> u64 {
        let index = m.index.map_or(0, |(r, scale)| self.gpr[number(r)].wrapping_mul(scale as u64));
        self.gpr[number(m.base)].wrapping_add(index).wrapping_add(m.disp as u64)
    }
    fn read(at: u64, bytes: usize) -> u64 {
        let mut b = [0; 8];
        // SAFETY: linear code reads what its launch has, between guard pages.
        unsafe { std::ptr::copy_nonoverlapping(at as *const u8, b.as_mut_ptr(), bytes) };
        u64::from_le_bytes(b)
    }
    fn write(at: u64, bytes: usize, x: u64) {
        // SAFETY: linear code writes what its launch has, between guard pages.
        unsafe { std::ptr::copy_nonoverlapping(x.to_le_bytes().as_ptr(), at as *mut u8, bytes) };
    }
    fn load(&self, m: Mem) -> u64 {
        Self::read(self.address(m), 8)
    }
    fn word(&self, w: Word) -> u64 {
        match w {
            Word::Reg(r) => self.gpr[number(r)],
            Word::Mem(m) => self.load(m),
        }
    }
    fn frame_word(&self, offset: i32) -> u64 {
        Self::read(self.gpr[0].wrapping_add(offset as u64), 8)
    }
    fn frame_at(&self, offset: i32) -> u64 {
        self.gpr[0].wrapping_add(offset as u64)
    }
    fn vector_at(&self, at: u64) -> Vector {
        let mut v = [0; 64];
        (0..self.vector_bytes).for_each(|i| v[i] = Self::read(at + i as u64, 1) as u8);
        v
    }
    fn store_vector(&self, at: u64, v: &Vector) {
        (0..self.vector_bytes).for_each(|i| Self::write(at + i as u64, 1, v[i] as u64));
    }
    fn operand(&self, operand: &Operand) -> Vector {
        match operand {
            Operand::Reg(r) => self.vectors[*r as usize],
            Operand::Mem(m) => self.vector_at(self.address(*m)),
            Operand::Constant { bits, lane } => {
                let mut v = [0; 64];
                (0..self.vector_bytes / *lane as usize).for_each(|i| set(&mut v, *lane, i, *bits));
                v
            }
            Operand::Pool { bytes, .. } => {
                let mut v = [0; 64];
                v[..bytes.len()].copy_from_slice(bytes);
                v
            }
        }
    }

    /// Runs code on a call's arguments; returns false if some lane needs the slow path.
    pub fn run(&mut self, code: &Linear, args: &[u64], n: usize, rows: usize, phases: Range<usize>) -> bool {
        let base = (self.frame.as_ptr() as u64).next_multiple_of(64);
        self.gpr[0] = base;
        let mut labels = vec![usize::MAX; code.labels as usize];
        for (at, line) in code.lines.iter().enumerate() {
            if let Line::Bind(l) = line {
                labels[l.0 as usize] = at;
            }
        }
        let mut at = 0;
        loop {
            if let Line::Enter { phases: has, leave, .. } = code.lines[at] {
                (*self.reg(Gpr::Args), *self.reg(Gpr::Count)) = (args.as_ptr() as u64, n as u64);
                *self.reg(Gpr::Faults) = 0;
                Self::write(self.frame_at(FRAME_ROWS), 8, rows as u64);
                if has {
                    Self::write(self.frame_at(FRAME_START), 8, phases.start as u64);
                    Self::write(self.frame_at(FRAME_END), 8, phases.end as u64);
                }
                at = if rows == 0 { labels[leave.0 as usize] } else { at + 1 };
                continue;
            }
            if let Line::Leave { .. } = code.lines[at] {
                return *self.reg(Gpr::Faults) == 0;
            }
            at = self.line(&code.lines[at]).map_or(at + 1, |to| labels[to.0 as usize]);
        }
    }

    /// Runs a line; returns the label that it jumps to.
    fn line(&mut self, line: &Line) -> Option<Label> {
        match *line {
            Line::Enter { .. } | Line::Leave { .. } | Line::Bind(_) | Line::Align | Line::Prefetch(_) => {}
            Line::Jump(to) => return Some(to),
            Line::Branch { cond, left, right, to } => {
                let left = self.word(left);
                let right = match right {
                    Right::Reg(r) => *self.reg(r),
                    Right::Imm(v) => v as u64,
                };
                let taken = match cond {
                    Cond::Below => left < right,
                    Cond::AboveEqual => left >= right,
                    Cond::Equal => left == right,
                    Cond::NotEqual => left != right,
                    Cond::BelowEqual => left <= right,
                    Cond::Above => left > right,
                };
                return taken.then_some(to);
            }
            Line::CountDown { at, to } => {
                let left = self.load(at).wrapping_sub(1);
                Self::write(self.address(at), 8, left);
                return (left != 0).then_some(to);
            }
            Line::LoadWord { to, from, bytes } => *self.reg(to) = Self::read(self.address(from), bytes as usize),
            Line::StoreWord { to, from } => Self::write(self.address(to), 8, *self.reg(from)),
            Line::LoadElement { to, from, dtype } => {
                let x = Self::read(self.address(from), dtype.size());
                *self.reg(to) = match dtype {
                    DType::I8 | DType::I16 => signed(x, dtype.size() as u8) as u64,
                    DType::BF16 => x << 16,
                    DType::Bool => x.wrapping_neg(),
                    _ => x,
                };
            }
            Line::Set { to, value } => *self.reg(to) = value as u64,
            Line::Copy { to, from } => *self.reg(to) = *self.reg(from),
            Line::Address { to, of } => *self.reg(to) = self.address(of),
            Line::AddConst { to: Word::Reg(r), value } => *self.reg(r) = self.reg(r).wrapping_add(value as u64),
            Line::AddConst { to: Word::Mem(m), value } => {
                Self::write(self.address(m), 8, self.load(m).wrapping_add(value as u64));
            }
            Line::AndConst { to, value } => *self.reg(to) &= value as u64,
            Line::Negate(r) => *self.reg(r) = self.reg(r).wrapping_neg(),
            Line::ShiftLeft(r, n) => *self.reg(r) <<= n,
            Line::Add { to, from } => *self.reg(to) = self.reg(to).wrapping_add(self.load(from)),
            Line::Mul { to, from } => *self.reg(to) = self.reg(to).wrapping_mul(self.load(from)),
            Line::Min { to, from } => *self.reg(to) = (*self.reg(to)).min(*self.reg(from)),
            Line::AddTo { to, from } => Self::write(self.address(to), 8, self.load(to).wrapping_add(*self.reg(from))),
            Line::SubTo { to, from, unless_zero } => {
                let left = self.load(to).wrapping_sub(*self.reg(from));
                Self::write(self.address(to), 8, left);
                return (left != 0).then_some(unless_zero);
            }
            Line::LoadVector { to, ref from } => self.vectors[to as usize] = self.operand(from),
            Line::StoreVector { to, from } => self.store_vector(self.address(to), &self.vectors[from as usize]),
            Line::CopyVector { to, from } => self.vectors[to as usize] = self.vectors[from as usize],
            Line::Constant { to, bits, lane } => {
                self.vectors[to as usize] = self.operand(&Operand::Constant { bits, lane })
            }
            Line::Broadcast { to, ref from, lane } => {
                let bits = match from {
                    Operand::Mem(m) => Self::read(self.address(*m), lane as usize),
                    other => get(&self.operand(other), lane, 0),
                };
                self.vectors[to as usize] = self.operand(&Operand::Constant { bits, lane });
            }
            Line::WidenHalf(m) => {
                let at = self.address(m);
                let halves: Vec<u64> = (0..4).map(|i| Self::read(at + 2 * i, 2)).collect();
                for (i, h) in halves.into_iter().enumerate() {
                    Self::write(at + 4 * i as u64, 4, f16::from_bits(h as u16).to_f32().to_bits() as u64);
                }
            }
            Line::Choose { to, from, mask, lane, width } => {
                for i in 0..(width / lane) as usize {
                    if signed(get(&self.vectors[mask as usize], lane, i), lane) < 0 {
                        let x = get(&self.vectors[from as usize], lane, i);
                        set(&mut self.vectors[to as usize], lane, i, x);
                    }
                }
            }
            Line::UpperHalf { to, from, bytes } => {
                let half = bytes as usize / 2;
                let v = self.vectors[from as usize];
                self.vectors[to as usize][..half].copy_from_slice(&v[half..2 * half]);
            }
            Line::TailMask { lanes, inside } => {
                let count = (self.gpr[number(Gpr::Count)] - self.gpr[number(Gpr::Position)]).min(lanes as u64);
                Self::write(self.frame_at(FRAME_COUNT), 8, count);
                Self::write(self.frame_at(FRAME_BITS), 8, (1 << count) - 1);
                for lane in [4, 8].into_iter().filter(|l| l * lanes as usize <= self.vector_bytes) {
                    let mut v = [0; 64];
                    (0..count as usize).for_each(|i| set(&mut v, lane as u8, i, u64::MAX));
                    self.store_vector(self.frame_at(inside + if lane == 8 { 64 } else { 0 }), &v);
                }
            }
            Line::Run(ref run) => self.operation(run),
            Line::Combine { fold, width, to, ref from, .. } => {
                let (x, lane) = (self.operand(from), fold.dtype.size().max(4) as u8);
                for i in 0..(width / lane) as usize {
                    let a = get(&self.vectors[to as usize], lane, i);
                    let c = order::combine(fold.op, fold.dtype, a, get(&x, lane, i));
                    set(&mut self.vectors[to as usize], lane, i, c);
                }
            }
            Line::NoteNan { lane, width, from, flag, .. } => {
                let mut v =
                    flag.register.map_or_else(|| self.vector_at(self.address(flag.home)), |r| self.vectors[r as usize]);
                for i in
                    (0..(width / lane) as usize).filter(|&i| is_nan(get(&self.vectors[from as usize], lane, i), lane))
                {
                    set(&mut v, lane, i, u64::MAX);
                }
                match flag.register {
                    Some(r) => self.vectors[r as usize] = v,
                    None => self.store_vector(self.address(flag.home), &v),
                }
            }
            Line::BranchIfNumber { lane, width, flag, to, .. } => {
                let v =
                    flag.register.map_or_else(|| self.vector_at(self.address(flag.home)), |r| self.vectors[r as usize]);
                return (0..(width / lane) as usize).all(|i| get(&v, lane, i) == 0).then_some(to);
            }
            Line::BeginLoop { nested, tail, lanes, inside, words } => match (nested, tail) {
                (true, _) => self.store_vector(self.frame_at(words + 64), &self.vectors[31]),
                (_, true) => self.vectors[31] = self.vector_at(self.frame_at(inside)),
                _ => (0..lanes as usize).for_each(|i| set(&mut self.vectors[31], 4, i, u64::MAX)),
            },
            Line::EndLoop { words } => self.vectors[31] = self.vector_at(self.frame_at(words + 64)),
            Line::Exit { dst, go, width, leave } => {
                let lanes = (width / 4) as usize;
                for i in 0..lanes {
                    let x = get(&self.vectors[31], 4, i) & get(&self.vectors[go as usize], 4, i);
                    set(&mut self.vectors[31], 4, i, x);
                }
                if (0..lanes).all(|i| get(&self.vectors[31], 4, i) == 0) {
                    return Some(leave);
                }
                self.vectors[dst as usize] = self.vectors[31];
            }
            Line::LoadMask { .. } | Line::StoreMask { .. } | Line::ClearMask(_) => unreachable!("masks are vectors"),
        }
        None
    }

    /// Number of lanes of a step that are inside the row.
    fn inside(&self, run: &Run) -> usize {
        if run.tail { self.frame_word(FRAME_COUNT) as usize } else { run.lanes as usize }
    }

    fn operation(&mut self, run: &Run) {
        let inst = &run.inst;
        let args = run.args.map(|r| self.vectors[r as usize]);
        let (n, size) = (run.lanes as usize, inst.imm as u64);
        let mut out = [0; 64];
        let position = self.gpr[number(Gpr::Position)].wrapping_add(inst.step as u64 * n as u64);
        let pointer = |e: &Self| e.word(run.pointer.unwrap().0);
        let strided = |e: &Self, size: u64| {
            let first = position.wrapping_mul(e.load(run.pointer.unwrap().1));
            pointer(e).wrapping_add(first.wrapping_mul(size))
        };
        match inst.op {
            Op::Load(form) | Op::LoadAt(form) => {
                let at = matches!(inst.op, Op::LoadAt(_));
                if at && get(&args[1], 8, 0) == 0 {
                    self.vectors[run.dst as usize] = out;
                    return;
                }
                let moved = if at { get(&args[0], 8, 0) } else { 0 };
                let position = position.wrapping_add(moved);
                let inside = self.inside(run);
                for i in 0..n {
                    // A descending vector has the last point first.
                    let down = inst.aux & DOWNWARDS != 0;
                    let point = if down { n - 1 - i } else { i };
                    if point >= inside {
                        continue;
                    }
                    let offset = position.wrapping_add(point as u64).wrapping_mul(size);
                    let at = if down { pointer(self).wrapping_sub(offset) } else { pointer(self).wrapping_add(offset) };
                    let x = Self::read(at, size as usize);
                    let x = match form {
                        Memory::Signed => signed(x, size as u8) as u64,
                        Memory::Half => f16::from_bits(x as u16).to_f32().to_bits() as u64,
                        _ => x,
                    };
                    set(&mut out, inst.lane, i, x);
                }
            }
            Op::Store(form) => {
                for i in 0..self.inside(run) {
                    let at = pointer(self).wrapping_add(position.wrapping_add(i as u64).wrapping_mul(size));
                    let x = match form {
                        Memory::Packed => get(&args[0], size as u8, i),
                        Memory::Half => f16::from_f32(f32::from_bits(get(&args[0], 4, i) as u32)).to_bits() as u64,
                        Memory::Same => get(&args[0], size as u8, i),
                        _ => get(&args[0], 4, i),
                    };
                    Self::write(at, size as usize, x);
                }
                return;
            }
            Op::StoreOne => return Self::write(pointer(self), size as usize, get(&args[0], 8, 0)),
            Op::Merge(op, dtype) => {
                for i in 0..self.inside(run) {
                    let at = pointer(self).wrapping_add(position.wrapping_add(i as u64).wrapping_mul(size));
                    let old = Self::read(at, size as usize);
                    set(&mut out, inst.lane, i, order::combine(op, dtype, old, get(&args[0], inst.lane, i)));
                }
            }
            Op::Gather => {
                let aligned = inst.aux >> 32 & 1 == 1;
                let element = if aligned { inst.aux >> 33 } else { size };
                let base = if inst.nargs == 1 { strided(self, element) } else { pointer(self) };
                let base = if aligned { base & !3 } else { base };
                for i in (0..self.inside(run)).filter(|&i| inst.nargs == 1 || get(&args[1], inst.lane, i) != 0) {
                    let at = base.wrapping_add((signed(get(&args[0], 4, i), 4) as u64).wrapping_mul(size));
                    set(&mut out, inst.lane, i, Self::read(at, size as usize));
                }
            }
            Op::Guard => {
                let any = (0..self.inside(run)).any(|i| get(&args[0], run.lane, i) != 0);
                *self.reg(Gpr::Faults) |= any as u64;
                return;
            }
            Op::Step => (0..n).for_each(|i| set(&mut out, inst.lane, i, self.gpr[number(Gpr::Position)])),
            Op::StepLow => {
                let low = strided(self, size) & 3;
                (0..n).for_each(|i| set(&mut out, 4, i, low));
            }
            Op::LowHalves => (0..n).for_each(|i| set(&mut out, 4, i, get(&args[0], 8, i))),
            Op::Pack => (0..n).for_each(|i| set(&mut out, inst.imm, i, get(&args[0], 4, i))),
            Op::Reverse => {
                let count = inst.width as usize / inst.lane as usize;
                (0..count).for_each(|i| set(&mut out, inst.lane, i, get(&args[0], inst.lane, count - 1 - i)));
            }
            Op::PermuteWords => {
                (0..inst.width as usize / 4)
                    .for_each(|i| set(&mut out, 4, i, get(&args[1], 4, get(&args[0], 4, i) as usize)));
            }
            Op::Convert(from, to) => {
                (0..n).for_each(|i| set(&mut out, held(to), i, convert(from, to, get(&args[0], held(from), i))));
            }
            Op::ConvertNearest(from, _) => {
                for i in 0..n {
                    let x = number_of(from, get(&args[0], held(from), i));
                    set(&mut out, 4, i, x.round_ties_even() as i32 as u64);
                }
            }
            _ => {
                let lane = if matches!(inst.op, Op::Compare(_) | Op::IntEq | Op::IntGt | Op::UintGt) {
                    inst.imm
                } else {
                    inst.lane
                };
                for i in 0..n {
                    let [a, b, c] = args.map(|v| get(&v, lane, i));
                    set(&mut out, lane, i, lanewise(inst.op, lane, inst.imm, a, b, c));
                }
            }
        }
        self.vectors[run.dst as usize] = out;
    }
}

/// Distance in bytes between adjacent numbers of a format in a vector; numbers of 16 bits are packed.
fn held(f: Format) -> u8 {
    if matches!(f, Format::F16 | Format::U16) { 2 } else { f.lane() }
}

fn is_nan(x: u64, lane: u8) -> bool {
    if lane == 4 { f32::from_bits(x as u32).is_nan() } else { f64::from_bits(x).is_nan() }
}

fn number_of(from: Format, x: u64) -> f64 {
    match from {
        Format::F32 => f32::from_bits(x as u32) as f64,
        Format::F64 => f64::from_bits(x),
        _ => unreachable!("a float"),
    }
}

fn convert(from: Format, to: Format, x: u64) -> u64 {
    use Format::*;
    match (from, to) {
        (U16 | U32, U32 | U64) => x,
        (I32, I64) => signed(x, 4) as u64,
        (F16, F32) => f16::from_bits(x as u16).to_f32().to_bits() as u64,
        (F32, F16) => f16::from_f32(f32::from_bits(x as u32)).to_bits() as u64,
        (F32, F64) => number_of(F32, x).to_bits(),
        (F64, F32) => (number_of(F64, x) as f32).to_bits() as u64,
        (I32, F32) => (signed(x, 4) as f32).to_bits() as u64,
        (U32, F32) => (x as f32).to_bits() as u64,
        (I32 | U32, F64) => (if from == I32 { signed(x, 4) as f64 } else { x as f64 }).to_bits(),
        (I64, F32) => (x as i64 as f32).to_bits() as u64,
        (U64, F32) => (x as f32).to_bits() as u64,
        (I64, F64) => (x as i64 as f64).to_bits(),
        (U64, F64) => (x as f64).to_bits(),
        // The quotient of the smallest number by -1 wraps.
        (F64, I32) => number_of(from, x) as i64 as u64,
        (F32, I32) => number_of(from, x) as i32 as u64,
        (F32 | F64, U32) => number_of(from, x) as u32 as u64,
        (F32 | F64, I64) => number_of(from, x) as i64 as u64,
        (F32 | F64, U64) => number_of(from, x) as u64,
        _ => unreachable!("lowering makes no such conversion: {from:?} to {to:?}"),
    }
}

/// Evaluates an operation on the bits of one lane.
fn lanewise(op: Op, lane: u8, imm: u8, a: u64, b: u64, c: u64) -> u64 {
    let bits = 8 * lane as u64;
    let (sa, sb) = (signed(a, lane), signed(b, lane));
    let truth = |t: bool| if t { u64::MAX } else { 0 };
    let compared = |p: Predicate| {
        let value = |x: u64| if lane == 4 { f32::from_bits(x as u32) as f64 } else { f64::from_bits(x) };
        let (a, b) = (value(a), value(b));
        match p {
            Predicate::Eq => a == b,
            Predicate::Ne => a != b,
            Predicate::Lt => a < b,
            Predicate::Le => a <= b,
            Predicate::Unordered => a.is_nan() || b.is_nan(),
        }
    };
    match op {
        Op::Add => float!(lane, a, b, c => { let _ = c; a + b }),
        Op::Sub => float!(lane, a, b, c => { let _ = c; a - b }),
        Op::Mul => float!(lane, a, b, c => { let _ = c; a * b }),
        Op::Div => float!(lane, a, b, c => { let _ = c; a / b }),
        Op::Sqrt => float!(lane, a, b, c => { let _ = (b, c); a.sqrt() }),
        Op::Min => float!(lane, a, b, c => { let _ = c; if a < b { a } else { b } }),
        Op::Max => float!(lane, a, b, c => { let _ = c; if a > b { a } else { b } }),
        Op::MinNumber => {
            float!(lane, a, b, c => { let _ = c; if a < b || a == b && a.is_sign_negative() { a } else { b } })
        }
        Op::MaxNumber => {
            float!(lane, a, b, c => { let _ = c; if a > b || a == b && b.is_sign_negative() { a } else { b } })
        }
        Op::Round(Rounding::Nearest) => float!(lane, a, b, c => { let _ = (b, c); a.round_ties_even() }),
        Op::Round(Rounding::Down) => float!(lane, a, b, c => { let _ = (b, c); a.floor() }),
        Op::Round(Rounding::Up) => float!(lane, a, b, c => { let _ = (b, c); a.ceil() }),
        Op::Round(Rounding::Zero) => float!(lane, a, b, c => { let _ = (b, c); a.trunc() }),
        Op::MulAdd => float!(lane, a, b, c => a.mul_add(b, c)),
        Op::MulSub => float!(lane, a, b, c => a.mul_add(b, -c)),
        Op::NegMulAdd => float!(lane, a, b, c => (-a).mul_add(b, c)),
        Op::IntAdd => a.wrapping_add(b),
        Op::IntSub => a.wrapping_sub(b),
        Op::IntMul => a.wrapping_mul(b),
        Op::IntMulHalves => (a as u32 as u64) * (b as u32 as u64),
        Op::IntAbs => sa.unsigned_abs(),
        Op::IntMin => sa.min(sb) as u64,
        Op::IntMax => sa.max(sb) as u64,
        Op::UintMin => a.min(b),
        Op::UintMax => a.max(b),
        Op::And => a & b,
        Op::AndNot => !a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::ShiftLeft => a << imm,
        Op::ShiftRight => a >> imm,
        Op::ShiftRightSigned => (sa >> imm) as u64,
        Op::ShiftLeftBy => {
            if b < bits {
                a << b
            } else {
                0
            }
        }
        Op::ShiftRightBy => {
            if b < bits {
                a >> b
            } else {
                0
            }
        }
        Op::ShiftRightSignedBy => (sa >> b.min(63)) as u64,
        Op::Compare(p) => truth(compared(p)),
        Op::IntEq => truth(a == b),
        Op::IntGt => truth(sa > sb),
        Op::UintGt => truth(a > b),
        Op::Select => {
            if sa < 0 {
                b
            } else {
                c
            }
        }
        _ => unreachable!("{op:?} is not native, or no operation on lanes"),
    }
}
