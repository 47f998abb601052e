//! Emission of register-allocated steps as linear code. A *step* is the body's computation for one vector of points.
//!
//! In: a [`Program`] with its registers. Out: lines in a [`Linear`]. [`super::function`] and [`super::phases`] emit the
//! code around the steps.

use super::accumulators::Accumulators;
use super::ir::target::Target;
use super::ir::{CACHED, Class, Inst, Op, Source, Vir};
use super::ir::{Memory, Val};
use super::linear::{FRAME_WORDS, Gpr, Label, Line, Linear, Mem, Operand, Run, Word, at, frame};
use super::loop_code::LoopCode;
use super::regalloc::{Allocation, Loc, Step};
use super::schedule::Program;
use crate::row_call::ACCESS_WORDS;
use thalweg_kernel::Access;

/// A program with its register allocation.
pub type Allocated<'a> = (&'a Program, &'a Allocation);

/// Borrows a program and its registers.
pub fn allocated((p, a): &(Program, Allocation)) -> Allocated<'_> {
    (p, a)
}

/// Builder of the linear code of a function, and its current step.
pub struct Emit<'a> {
    pub code: Linear,
    pub target: &'static Target,
    /// Step that is being emitted.
    pub v: &'a Vir,
    pub accesses: &'a [Access],
    /// Number that distinguishes the steps of a function in the ids of constant-pool vectors that are specific to a
    /// step.
    pub salt: u64,
    /// Pointers (ids of [`super::ir::pointer`]) that are in general registers.
    pub pointers: Vec<(u64, Gpr)>,
    /// Frame offsets of the slot vectors, of the scratch vector (`scratch`), and of spilled values (`spills`).
    pub slots: i32,
    pub scratch: i32,
    pub spills: i32,
    /// Whether the function is that of a row body, which keeps the address of the row's values in a register.
    pub rows: bool,
    /// Placement of the accumulators of the step's folds, if it has any.
    pub held: Option<&'a Accumulators>,
    /// Compiled loops inside the step.
    pub loops: &'a [LoopCode],
    /// Label after the innermost loop, inside a loop iteration.
    pub leave: Option<Label>,
    /// Number of loops emitted so far, from which loops get distinct ids.
    pub written: u64,
    /// Index of the copy of the step (with its own accumulators) that a masked step stands for.
    pub copy: u8,
    /// Number of leading accesses whose stores of whole vectors are non-temporal.
    pub streaming: u16,
    /// Accesses whose next row is prefetched during the last pass over the current row, with bytes per element.
    pub ahead: Vec<(u16, u8)>,
    /// Descending accesses whose elements some rows ahead are prefetched, with bytes per element.
    pub descents: Vec<(u16, u8)>,
}

impl<'a> Emit<'a> {
    /// An empty function, whose first step is `v`.
    pub fn new(v: &'a Vir, accesses: &'a [Access]) -> Emit<'a> {
        Emit {
            code: Linear::default(),
            target: v.target,
            v,
            accesses,
            salt: 0,
            pointers: Vec::new(),
            slots: 0,
            scratch: 0,
            spills: 0,
            rows: false,
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

    /// Index of the last vector register, which the allocator leaves free in steps that need a temporary.
    pub fn last_register(&self) -> u8 {
        self.target.vectors as u8 - 1
    }
    /// Memory operand of word `word` of an access in the argument block.
    pub fn arg(&self, access: u16, word: i32) -> Mem {
        at(Gpr::Args, (access as i32 * ACCESS_WORDS as i32 + word) * 8)
    }
    /// Memory operand of a frame vector of the step.
    pub fn slot_at(&self, slot: u64) -> Mem {
        if let Source::Value(value) = self.v.slots[slot as usize].source {
            return self.value_at(value);
        }
        frame(self.slots + 64 * slot as i32)
    }
    /// Memory operand of a value of the row.
    pub fn value_at(&self, value: u16) -> Mem {
        at(Gpr::Values, 64 * value as i32)
    }
    /// Memory operand in which the pointer with this id is stored.
    pub fn pointer_home(&self, p: u64) -> Mem {
        let access = (p / 2) as u16;
        if p % 2 == 1 { self.arg(access, 3) } else { frame(FRAME_WORDS + 8 * access as i32) }
    }
    /// Register of the pointer with this id, or the memory operand in which it is stored.
    fn pointer(&self, p: u64) -> Word {
        match self.pointers.iter().find(|q| q.0 == p) {
            Some(&(_, r)) => Word::Reg(r),
            None => Word::Mem(self.pointer_home(p)),
        }
    }

    /// Memory operand of a value: in the constant pool, a frame slot or a spill slot.
    pub fn home(&self, (p, alloc): Allocated, val: Val) -> Operand {
        let inst = &p.insts[val.at()];
        match inst.op {
            Op::Const => Operand::Constant { bits: inst.aux, lane: inst.lane },
            Op::Iota => {
                let (n, lane) = (self.v.lanes as u64, inst.lane as usize);
                let first = inst.step as u64 * n;
                let mut bytes: Vec<u8> = (first..first + n).flat_map(|i| i.to_le_bytes()[..lane].to_vec()).collect();
                bytes.resize(self.target.vector_bytes, 0);
                Operand::Pool { id: (inst.step as u64 | self.salt, 16 + lane as u64), bytes: bytes.into() }
            }
            Op::Table => {
                let bytes = self.v.tables[inst.aux as usize].as_slice().into();
                Operand::Pool { id: (inst.aux | self.salt, 32), bytes }
            }
            Op::Slot => Operand::Mem(self.slot_at(inst.aux)),
            _ => {
                let place = alloc.home[val.at()].expect("what is read from memory was written there");
                Operand::Mem(frame(self.spills + 64 * place as i32))
            }
        }
    }

    /// Emits the load of a value from its home in memory.
    pub fn reload(&mut self, of: Allocated, val: Val, to: u8) {
        let from = self.home(of, val);
        match (of.0.insts[val.at()].class, from) {
            (Class::Mask, Operand::Mem(from)) => self.code.push(Line::LoadMask { to, from }),
            (_, from) => self.code.push(Line::LoadVector { to, from }),
        }
    }

    /// Emits the machine operations of a program.
    pub fn steps(&mut self, prog: Allocated) {
        self.code.lines.reserve(prog.1.steps.len());
        for s in &prog.1.steps {
            match *s {
                Step::Run { at, dst, vals, locs, overwritten, memory } => {
                    self.run(prog, at, dst, vals, locs, (overwritten, memory));
                }
                Step::Reload { val, reg } | Step::Fresh { val, reg } => self.reload(prog, val, reg),
                Step::Copy { from, to, .. } => self.code.push(Line::CopyVector { to, from }),
                Step::Spill { val, reg } => {
                    let Operand::Mem(to) = self.home(prog, val) else { unreachable!("invariants are not spilled") };
                    self.code.push(match prog.0.insts[val.at()].class {
                        Class::Mask => Line::StoreMask { to, from: reg },
                        _ => Line::StoreVector { to, from: reg },
                    });
                }
            }
        }
    }

    /// Emits the instruction at `at`. `how` has the index of the argument that is overwritten, and of the argument that
    /// is read from memory.
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
        let args = locs.map(|loc| match loc {
            Loc::Reg(r) => r,
            Loc::Home => 0,
        });
        let tail = prog.0.tail;
        let lane = prog.0.insts[vals[0].at()].lane;
        let operand = how.1.filter(|k| locs[*k as usize] == Loc::Home).map(|k| self.home(prog, vals[k as usize]));
        match inst.op {
            Op::Fold(..) => {
                let x = operand.unwrap_or(Operand::Reg(args[0]));
                return self.fold(tail, &inst, x, (inst.nargs == 2).then_some(args[1]));
            }
            Op::Set => return self.set_value(inst.aux as u16, lane, args[0]),
            Op::Put => {
                let to = self.value_home(inst.aux);
                return self.code.store_vector(to, args[0]);
            }
            Op::Take => {
                let from = self.value_home(inst.aux);
                return self.code.load_vector(dst, from);
            }
            Op::Loop => return self.run_loop(inst.aux as usize, tail),
            Op::Exit => {
                let leave = self.leave.expect("an exit is in a loop");
                return self.code.push(Line::Exit { dst, go: args[0], width: self.v.width(4), leave });
            }
            Op::Carry => return self.carry(prog, inst.aux, args[0]),
            _ => {}
        }
        let (overwritten, memory) = how;
        let pointer = self.access(&inst);
        // Offset of slots 0 and 1, where masks are vectors.
        let inside = self.slots;
        let (scratch, streaming) = (self.scratch, self.streams(&inst));
        let lanes = self.v.lanes as u8;
        self.code.push(Line::Run(Run {
            inst,
            dst,
            args,
            overwritten,
            memory,
            operand,
            lane,
            lanes,
            tail,
            scratch,
            inside,
            pointer,
            streaming,
        }));
    }

    /// Pointer and stride of an instruction that accesses memory; `None` for other instructions.
    fn access(&self, inst: &Inst) -> Option<(Word, Mem)> {
        let accesses = matches!(
            inst.op,
            Op::Load(_) | Op::LoadAt(_) | Op::Store(_) | Op::StoreOne | Op::Merge(..) | Op::Gather | Op::StepLow
        );
        let p = inst.aux as u32 as u64;
        accesses.then(|| (self.pointer(p), self.arg((p / 2) as u16, 2)))
    }

    /// Whether an instruction is a store that is emitted as a non-temporal one.
    fn streams(&self, inst: &Inst) -> bool {
        let whole = match inst.op {
            Op::Store(Memory::Same) => true,
            // A packed vector may be a whole register, too.
            Op::Store(Memory::Packed) => inst.width >= 16,
            _ => false,
        };
        whole && inst.aux & CACHED == 0 && inst.aux / 2 < self.streaming as u64
    }
}
