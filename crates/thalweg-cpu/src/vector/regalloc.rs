//! Register allocation for straight-line code.
//!
//! Linear scan with the exact next use (Belady): if registers run out, the value whose next use is farthest is spilled,
//! loop invariants first, since they need no store. Invariants stay in memory as operands if the instruction allows it;
//! afterwards, registers that were never used hold the most read invariants for the whole loop ([`Allocation::hoist`]).
//! A value's *home* is its location in memory: constant pool, frame slot or spill slot. Always true: a value is in at
//! most one register, and a spilled value was written to its home before its register was reassigned.

use super::ir::target::{Operands, Target};
use super::ir::{Class, Inst, Op, Val};
use super::schedule::Program;

/// Location that an instruction reads an argument from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loc {
    /// Vector or mask register with this number.
    Reg(u8),
    /// Home of the value in memory: constant pool, frame slot or spill slot.
    Home,
}

/// Machine operation that the allocator emits: an instruction, or a move of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Executes the instruction at `at`. `overwritten` is the index of the argument whose register the result
    /// overwrites, for a destructive instruction; `memory` that of the argument that is a memory operand (hoisting may
    /// have moved it to a register since).
    Run { at: u32, dst: u8, vals: [Val; 3], locs: [Loc; 3], overwritten: Option<u8>, memory: Option<u8> },
    /// Loads a value from its home in memory.
    Reload { val: Val, reg: u8 },
    /// Loads a copy of a value from its home in memory into a register that the next instruction overwrites.
    Fresh { val: Val, reg: u8 },
    /// Copies a value to another register, which the next instruction overwrites.
    Copy { val: Val, from: u8, to: u8 },
    /// Stores a value to its home in memory.
    Spill { val: Val, reg: u8 },
}

/// Registers that the allocator may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of vector registers, numbered from 0.
    pub vectors: usize,
    /// Number of mask registers, numbered from 1.
    pub masks: usize,
}

/// Result of register allocation: the machine operations of a program, and its spill slots.
pub struct Allocation {
    /// Operations in execution order.
    pub steps: Vec<Step>,
    /// Number of spill slots.
    pub places: u32,
    /// Spill slot of each value, if it has one.
    pub home: Vec<Option<u32>>,
    /// Number of stores to spill slots.
    pub spills: usize,
    /// Number of vector registers used (registers 0 to `peak` - 1).
    pub peak: usize,
    /// Invariants that are held in a register for the whole loop, with the register.
    pub hoisted: Vec<(Val, u8)>,
}

const NEVER: u32 = u32::MAX;

struct Alloc<'a> {
    p: &'a Program,
    target: &'static Target,
    /// Instruction indices that use value `v`: `uses[first[v]..first[v + 1]]`; `next[v]` is the first one still ahead.
    uses: Vec<u32>,
    first: Vec<u32>,
    next: Vec<u32>,
    reg: Vec<Option<u8>>,
    vectors: Vec<Option<Val>>,
    masks: Vec<Option<Val>>,
    /// Free spill slots: their values are dead.
    free: Vec<u32>,
    out: Allocation,
}

/// Allocates registers. `None` if an instruction needs more than there are.
pub fn allocate(p: &Program, target: &'static Target, limits: Limits) -> Option<Allocation> {
    let n = p.insts.len();
    let mut first = vec![0u32; n + 1];
    for i in &p.insts[p.start..] {
        i.args().iter().for_each(|a| first[a.at() + 1] += 1);
    }
    for i in 0..n {
        first[i + 1] += first[i];
    }
    let mut fill = first.clone();
    let mut uses = vec![0; first[n] as usize];
    for (at, i) in p.insts.iter().enumerate().skip(p.start) {
        for a in i.args() {
            uses[fill[a.at()] as usize] = at as u32;
            fill[a.at()] += 1;
        }
    }
    let out = Allocation {
        steps: Vec::with_capacity(n + n / 4),
        places: 0,
        home: vec![None; n],
        spills: 0,
        peak: 0,
        hoisted: Vec::new(),
    };
    let mut a = Alloc {
        p,
        target,
        next: first[..n].to_vec(),
        uses,
        first,
        reg: vec![None; n],
        vectors: vec![None; limits.vectors],
        masks: vec![None; limits.masks],
        free: Vec::new(),
        out,
    };
    for at in p.start..n {
        a.inst(at)?;
        a.free_places(&p.insts[at]);
    }
    Some(a.out)
}

impl Alloc<'_> {
    fn next_use(&self, v: Val) -> u32 {
        let k = self.next[v.at()];
        if k < self.first[v.at() + 1] { self.uses[k as usize] } else { NEVER }
    }
    fn dies(&self, v: Val) -> bool {
        self.next_use(v) == NEVER
    }
    fn class(&self, v: Val) -> Class {
        self.p.insts[v.at()].class
    }
    fn file(&mut self, class: Class) -> &mut Vec<Option<Val>> {
        if class == Class::Mask { &mut self.masks } else { &mut self.vectors }
    }
    /// Register number of an index in a register file; mask registers are numbered from 1.
    fn number(class: Class, place: usize) -> u8 {
        place as u8 + (class == Class::Mask) as u8
    }

    /// Returns a free register, spilling a value that is not pinned if needed.
    fn take(&mut self, class: Class, pinned: &[Val]) -> Option<u8> {
        if let Some(free) = self.file(class).iter().position(Option::is_none) {
            if class == Class::Vector {
                self.out.peak = self.out.peak.max(free + 1);
            }
            return Some(Self::number(class, free));
        }
        let held: Vec<Val> = self.file(class).iter().flatten().copied().collect();
        let far = |v: &Val| (self.p.insts[v.at()].invariant(), self.next_use(*v));
        let victim = held.into_iter().filter(|v| !pinned.contains(v)).max_by_key(far)?;
        let reg = self.reg[victim.at()]?;
        self.spill(victim);
        self.release(victim);
        Some(reg)
    }
    fn release(&mut self, v: Val) {
        if let Some(r) = self.reg[v.at()].take() {
            let class = self.class(v);
            let place = r as usize - (class == Class::Mask) as usize;
            self.file(class)[place] = None;
        }
    }
    fn hold(&mut self, v: Val, reg: u8) {
        let class = self.class(v);
        let place = reg as usize - (class == Class::Mask) as usize;
        self.file(class)[place] = Some(v);
        self.reg[v.at()] = Some(reg);
    }

    /// Frees the spill slots of arguments whose last use was this instruction. Called after the instruction, which may
    /// read them from the slots.
    fn free_places(&mut self, inst: &Inst) {
        for (k, &a) in inst.args().iter().enumerate() {
            if self.dies(a) && !inst.args()[..k].contains(&a) {
                self.free.extend(self.out.home[a.at()]);
            }
        }
    }

    /// Whether an instruction should read argument `k` as a memory operand instead of from a register.
    fn reads_memory(&self, inst: &Inst, operands: &Operands, k: usize) -> bool {
        let v = inst.args[k];
        let value = &self.p.insts[v.at()];
        let once = inst.args().iter().filter(|a| **a == v).count() == 1;
        let fits = value.op != Op::Const || operands.constants.admit(value.lane);
        let cheap = value.invariant() || self.dies(v);
        let allowed = operands.memory >> k & 1 == 1;
        allowed && once && fits && cheap && value.class == Class::Vector && self.reg[v.at()].is_none()
    }

    fn inst(&mut self, at: usize) -> Option<()> {
        let mut inst = self.p.insts[at];
        let operands = (self.target.operands)(&inst);
        for a in inst.args() {
            self.next[a.at()] += 1;
        }
        if operands.commutes && !self.reads_memory(&inst, &operands, 1) {
            let swapped = Inst { args: [inst.args[1], inst.args[0], inst.args[2]], ..inst };
            if self.reads_memory(&swapped, &operands, 1) {
                inst = swapped;
            }
        }
        let folded = (0..inst.nargs as usize).rev().find(|&k| self.reads_memory(&inst, &operands, k));
        let mut locs = [Loc::Home; 3];
        let args = inst.args;
        let pinned = &args[..inst.nargs as usize];
        for k in (0..inst.nargs as usize).filter(|k| Some(*k) != folded) {
            let v = args[k];
            if self.reg[v.at()].is_none() {
                let reg = self.take(self.class(v), pinned)?;
                self.out.steps.push(Step::Reload { val: v, reg });
                self.hold(v, reg);
            }
            locs[k] = Loc::Reg(self.reg[v.at()]?);
        }
        if !operands.overwrites.is_empty() {
            return self.overwriting(at, &inst, operands.overwrites, locs, folded);
        }
        if inst.op == Op::Loop {
            self.spill_all();
        }
        if !operands.early {
            self.release_dead(pinned);
        }
        let dst = match inst.class {
            Class::Effect => 0,
            class => {
                let reg = self.take(class, if operands.early { pinned } else { &[] })?;
                self.hold(Val(at as u32), reg);
                reg
            }
        };
        if operands.early {
            self.release_dead(pinned);
        }
        let memory = folded.map(|k| k as u8);
        self.out.steps.push(Step::Run { at: at as u32, dst, vals: args, locs, overwritten: None, memory });
        Some(())
    }

    /// Spills all live values: the next operation uses all registers.
    fn spill_all(&mut self) {
        let held: Vec<Val> = self.vectors.iter().chain(&self.masks).flatten().copied().collect();
        for v in held {
            self.spill(v);
            self.release(v);
        }
    }

    /// Stores a value to its home in memory, if it is still needed and not there yet.
    fn spill(&mut self, v: Val) {
        let Some(reg) = self.reg[v.at()] else { return };
        if self.p.insts[v.at()].invariant() || self.dies(v) || self.out.home[v.at()].is_some() {
            return;
        }
        let place = self.free.pop().unwrap_or(self.out.places);
        self.out.places = self.out.places.max(place + 1);
        self.out.home[v.at()] = Some(place);
        self.out.spills += 1;
        self.out.steps.push(Step::Spill { val: v, reg });
    }

    fn release_dead(&mut self, args: &[Val]) {
        for &a in args {
            if self.dies(a) {
                self.release(a);
            }
        }
    }

    /// Allocates a destructive instruction, whose result overwrites the register of an argument: of one that dies here,
    /// else of a copy. `order` lists the arguments that it may overwrite, by preference.
    fn overwriting(
        &mut self,
        at: usize,
        inst: &Inst,
        order: &[u8],
        mut locs: [Loc; 3],
        folded: Option<usize>,
    ) -> Option<()> {
        let args = inst.args;
        let gone = |s: &Self, k: usize| folded != Some(k) && s.dies(args[k]) && !s.p.insts[args[k].at()].invariant();
        let victim = order.iter().map(|&k| k as usize).find(|&k| gone(self, k));
        let (k, dst) = match victim {
            Some(k) => {
                let dst = self.reg[args[k].at()]?;
                self.release_dead(&args);
                (k, dst)
            }
            None => {
                let dst = self.take(Class::Vector, &args)?;
                // A value in memory is loaded instead of copied.
                let k = folded.filter(|k| order.contains(&(*k as u8))).unwrap_or(order[0] as usize);
                self.out.steps.push(match locs[k] {
                    Loc::Reg(from) => Step::Copy { val: args[k], from, to: dst },
                    Loc::Home => Step::Fresh { val: args[k], reg: dst },
                });
                self.release_dead(&args);
                (k, dst)
            }
        };
        self.hold(Val(at as u32), dst);
        locs[k] = Loc::Reg(dst);
        self.out.steps.push(Step::Run {
            at: at as u32,
            dst,
            vals: args,
            locs,
            overwritten: Some(k as u8),
            memory: folded.filter(|f| *f != k).map(|f| f as u8),
        });
        Some(())
    }
}

impl Allocation {
    /// Assigns unused registers to loop invariants, the most often read first, and replaces their reads from memory.
    pub fn hoist(&mut self, p: &Program, limit: usize) {
        let mut wanted = vec![0u32; p.start];
        let invariant = |v: Val| v.at() < p.start;
        for s in &self.steps {
            match s {
                // Without a register, a separate load reads it.
                Step::Reload { val, .. } if invariant(*val) => wanted[val.at()] += 4,
                Step::Run { at, vals, locs, .. } => {
                    let n = p.insts[*at as usize].nargs as usize;
                    for k in 0..n {
                        if locs[k] == Loc::Home && invariant(vals[k]) {
                            wanted[vals[k].at()] += 1;
                        }
                    }
                }
                _ => {}
            }
        }
        let mut order: Vec<usize> = (0..p.start).filter(|v| wanted[*v] > 0).collect();
        order.sort_by_key(|v| std::cmp::Reverse(wanted[*v]));
        let mut given = vec![None; p.start];
        for (v, reg) in order.into_iter().zip(self.peak..limit) {
            given[v] = Some(reg as u8);
            self.hoisted.push((Val(v as u32), reg as u8));
        }
        if self.hoisted.is_empty() {
            return;
        }
        self.steps.retain(|s| !matches!(s, Step::Reload { val, .. } if invariant(*val) && given[val.at()].is_some()));
        let place = |v: Val| given.get(v.at()).copied().flatten();
        for s in &mut self.steps {
            match s {
                Step::Run { at, vals, locs, overwritten, .. } => {
                    for k in 0..p.insts[*at as usize].nargs as usize {
                        if let Some(r) = place(vals[k]).filter(|_| *overwritten != Some(k as u8)) {
                            locs[k] = Loc::Reg(r);
                        }
                    }
                }
                Step::Copy { val, from, .. } => *from = place(*val).unwrap_or(*from),
                // The current version of a carried value is only in its register.
                Step::Fresh { val, reg } => {
                    if let Some(from) = place(*val) {
                        *s = Step::Copy { val: *val, from, to: *reg };
                    }
                }
                _ => {}
            }
        }
    }
}
