//! Folds over the points of a row: initialisation, update and tree reduction of accumulators.
//!
//! The order of a fold is part of a kernel's definition (`thalweg_kernel::order`): 32 lanes, so a pass that folds has
//! exactly as many copies of the step as make 32 points, each with its own accumulator for every fold. Accumulators are
//! in registers above those of the allocator from the row's start to its end; if registers run out, the others are in
//! the frame. Always true: lanes that no element reaches stay at the identity.
//!
//! Maxima and minima of floats track NaN in a separate flag, since the instructions drop one: a bit in a mask register
//! says that some element was NaN (where masks are vectors: the lanes of a vector).

use super::accumulators::{Accumulators, tracks_nan};
use super::elements::lane_of;
use super::emit::Emit;
use super::ir::Inst;
use super::linear::{Line, NanFlag, Operand, frame};
use thalweg_ir::Scalar;

impl<'a> Emit<'a> {
    fn accumulators(&self) -> &'a Accumulators {
        self.held.expect("a step with folds has accumulators")
    }

    fn nan_flag(&self, fold: usize) -> NanFlag {
        let held = self.accumulators();
        NanFlag { register: held.nan[fold], home: frame(held.nan_home(fold)) }
    }

    /// Emits lines that set the accumulators to the identity of their monoid.
    pub fn start_folds(&mut self) {
        let Some(held) = self.held else { return };
        for (k, f) in self.v.folds.iter().enumerate() {
            let lane = lane_of(f.dtype);
            let bits = f.op.identity(f.dtype);
            for copy in 0..held.copies {
                let r = held.register(k, copy).unwrap_or(held.spare[3]);
                self.code.constant(r, bits, lane);
                self.put_back(k, copy, r);
            }
            if !tracks_nan(f) {
                continue;
            }
            match held.nan[k] {
                Some(r) if self.target.mask_registers() => self.code.push(Line::ClearMask(r)),
                Some(r) => self.code.constant(r, 0, 4),
                None => {
                    let r = held.spare[0];
                    self.code.constant(r, 0, 4);
                    self.code.store_vector(frame(held.nan_home(k)), r);
                }
            }
        }
    }

    /// Emits the load of an accumulator into register `r`, if it is in the frame.
    fn bring(&mut self, fold: usize, copy: usize, r: u8) {
        let held = self.accumulators();
        if held.register(fold, copy).is_none() {
            self.code.load_vector(r, frame(held.home(fold, copy)));
        }
    }

    /// Emits the store of an accumulator from register `r`, if it is in the frame.
    fn put_back(&mut self, fold: usize, copy: usize, r: u8) {
        let held = self.accumulators();
        if held.register(fold, copy).is_none() {
            self.code.store_vector(frame(held.home(fold, copy)), r);
        }
    }

    /// Emits lines that fold a step's elements `x` into an accumulator. `mask` is the register with the mask of the
    /// lanes inside the row, in a masked step where masks are vectors.
    pub fn fold(&mut self, tail: bool, inst: &Inst, mut x: Operand, mask: Option<u8>) {
        let held = self.accumulators();
        let k = inst.aux as usize;
        let fold = self.v.folds[k];
        let copy = if tail { self.copy } else { inst.step } as usize;
        let (lane, width) = (lane_of(fold.dtype), inst.width);
        if let (Some(mask), &Operand::Reg(from)) = (mask, &x) {
            let to = held.spare[1];
            self.code.constant(to, fold.op.identity(fold.dtype), lane);
            self.code.push(Line::Choose { to, from, mask, lane, width });
            x = Operand::Reg(to);
        }
        let to = held.register(k, copy).unwrap_or(held.spare[3]);
        self.bring(k, copy, to);
        let element = if let Operand::Reg(r) = x { Some(r) } else { None };
        self.code.push(Line::Combine { fold, width, to, from: x, temporaries: held.spare, tail });
        self.put_back(k, copy, to);
        if let (true, Some(from)) = (tracks_nan(&fold), element) {
            let flag = self.nan_flag(k);
            self.code.push(Line::NoteNan { lane, width, from, flag, temporary: held.spare[0], tail });
        }
    }

    /// Emits the reduction of each fold's accumulators to one element, which is broadcast as a value of the row.
    pub fn end_folds(&mut self) {
        let Some(held) = self.held else { return };
        let registers: Vec<u8> = (0..self.v.folds.len()).map(|k| self.copies_to_one(k)).collect();
        for (k, a) in registers.into_iter().enumerate() {
            let f = self.v.folds[k];
            let lane = lane_of(f.dtype);
            self.bring(k, 0, a);
            self.lanes_to_one(k, a);
            if tracks_nan(&f) {
                let (number, flag) = (self.code.label(), self.nan_flag(k));
                let (width, temporary) = (self.v.width(lane), held.spare[0]);
                self.code.push(Line::BranchIfNumber { lane, width, flag, temporary, to: number });
                self.code.constant(a, Scalar::Float(f64::NAN).to_bits(f.dtype), lane);
                self.code.bind(number);
            }
            self.code.push(Line::Broadcast { to: a, from: Operand::Reg(a), lane });
            let home = self.value_at(f.value);
            self.code.store_vector(home, a);
        }
    }

    /// Emits the combination of register `from` into `to`, on their lowest `width` bytes.
    fn combine(&mut self, k: usize, width: u8, to: u8, from: u8) {
        let (fold, temporaries) = (self.v.folds[k], self.accumulators().spare);
        self.code.push(Line::Combine { fold, width, to, from: Operand::Reg(from), temporaries, tail: false });
    }

    /// Emits the tree reduction of a fold's accumulators to the first one; returns the register that holds it.
    fn copies_to_one(&mut self, k: usize) -> u8 {
        let held = self.accumulators();
        let width = self.v.width(lane_of(self.v.folds[k].dtype));
        let [_, v, _, s] = held.spare;
        let mut half = held.copies / 2;
        while half > 0 {
            for copy in 0..half {
                let a = held.register(k, copy).unwrap_or(s);
                self.bring(k, copy, a);
                let b = held.register(k, copy + half).unwrap_or(v);
                self.bring(k, copy + half, b);
                self.combine(k, width, a, b);
                self.put_back(k, copy, a);
            }
            half /= 2;
        }
        held.register(k, 0).unwrap_or(s)
    }

    /// Emits the tree reduction of the lanes of a register to the lowest lane: the upper half is combined into the
    /// lower.
    fn lanes_to_one(&mut self, k: usize, a: u8) {
        let lane = lane_of(self.v.folds[k].dtype);
        // Where masks are vectors, combining may use the first temporary.
        let other = self.accumulators().spare[!self.target.mask_registers() as usize];
        let mut bytes = self.v.width(lane);
        while bytes > lane {
            self.code.push(Line::UpperHalf { to: other, from: a, bytes });
            // The shortest vectors are combined whole.
            self.combine(k, (bytes / 2).max(16), a, other);
            bytes /= 2;
        }
    }

    /// Emits the broadcast of a register's lowest lane to a value of the row.
    pub fn set_value(&mut self, value: u16, lane: u8, from: u8) {
        // The source register may live on, so it is not overwritten; the allocator does not use the last register here.
        let to = self.last_register();
        self.code.push(Line::Broadcast { to, from: Operand::Reg(from), lane });
        let home = self.value_at(value);
        self.code.store_vector(home, to);
    }
}
