//! Loops with data-dependent trip counts: iterations over a tile until no lane is active.
//!
//! In: the body of an iteration ([`thalweg_kernel::turn`]). Out: a [`Looping`], a step that contains steps. A lane that
//! has left keeps its carried values, whatever is computed for it in later iterations. Always true: the inputs of an
//! iteration - carried values and arguments - are in registers that none of its steps writes.

use super::call::{Block, Call};
use super::compile::{Compiler, Level};
use super::program::{Looping, Register, Step, Value, width};
use crate::prepare::prepare;
use std::mem::take;
use thalweg_ir::{First, Loop};
use thalweg_kernel::{Node, NodeId, turn};

impl Compiler<'_> {
    /// Compiles a loop on these arguments, node `id`; returns the registers of its carried values.
    pub(super) fn looped(&mut self, id: NodeId, of: Loop, args: &[Register]) -> Vec<Register> {
        let region = of.region();
        let widths: Vec<usize> = (0..region.first.len()).map(|i| width(of.carried(i))).collect();
        let mut first = vec![];
        for (i, f) in region.first.iter().enumerate() {
            let from = match *f {
                First::Arg(n) => args[n as usize],
                First::Const { bits, .. } => self.constant(bits, widths[i]),
            };
            let to = self.allocate(widths[i], usize::MAX, Level::Point);
            first.push((from, to, widths[i]));
        }
        let carried: Vec<Register> = first.iter().map(|m| m.1).collect();
        let active = self.allocate(1, usize::MAX, Level::Point);
        let around = self.active.replace(active);

        let body = prepare(&turn(of));
        let before = self.widths.len();
        let free = self.free.clone();
        let given = carried.iter().chain(args).copied().collect();
        let (go, next) = (body.sets[0].node, &body.sets[1..]);
        let outer = take(&mut self.pass.steps);
        let mut inner = self.inside(&body, given);
        for i in 0..=go.index() {
            inner.node(NodeId(i as u32));
        }
        let steps = take(&mut inner.pass.steps);
        for i in go.index() + 1..body.nodes.len() {
            inner.node(NodeId(i as u32));
        }
        let goes = inner.register(go);
        let next: Vec<Register> = next.iter().map(|s| inner.register(s.node)).collect();
        let rest = take(&mut inner.pass.steps);
        self.outside(inner, outer);
        self.active = around;

        let mut swapped = vec![];
        let mut moves = vec![];
        for ((&to, mut from), &width) in carried.iter().zip(next).zip(&widths).filter(|((to, from), _)| *to != from) {
            if carried.contains(&from) {
                let copy = self.allocate(width, usize::MAX, Level::Point);
                swapped.push((from, copy, width));
                from = copy;
            }
            moves.push((from, to, width));
        }
        // Registers of the iteration are free afterwards, except for the results.
        let own = |r: Register| self.pass.places[r as usize].1;
        let used: Vec<Register> = (before as Register..self.widths.len() as Register).filter(|&r| !own(r)).collect();
        let used = used.into_iter().chain(free).chain([active]);
        let used: Vec<Register> = used.filter(|r| !carried.contains(r) && !self.free.contains(r)).collect();
        self.free.extend(used);
        self.read_until(id, &carried);
        let looping = Looping { most: region.most, first, around, active, go: steps, goes, rest, swapped, next: moves };
        self.push(Level::Point, Step::Loop(Box::new(looping)));
        carried
    }

    /// Records how long the results of a loop are read, and frees those that are not read.
    fn read_until(&mut self, id: NodeId, carried: &[Register]) {
        for (k, &r) in carried.iter().enumerate() {
            let result = |n: &Node| matches!(*n, Node::Looped { of, number, .. } if of == id && number as usize == k);
            let all = self.body.nodes.iter().enumerate().filter(|(_, n)| result(n));
            let last = all.map(|(i, _)| self.readers[i].max(i)).max();
            match last {
                Some(last) => self.last[r as usize] = last,
                None => self.free.push(r),
            }
        }
    }

    /// Allocates a register that holds a constant for the whole call.
    fn constant(&mut self, bits: u64, width: usize) -> Register {
        self.fill(Value::Bits(bits), width, Level::Call)
    }
}

impl Call<'_> {
    /// Runs a loop over a block.
    ///
    /// # Safety
    /// As [`Call::steps`].
    pub(super) unsafe fn looped(&mut self, l: &Looping, b: Block) {
        let lanes = b.rows * b.columns;
        // SAFETY: registers have space for a tile of their width, and what is read has been written: arguments by
        // earlier steps, carried values here, all else by the steps of the iteration. No loop over lanes writes a
        // register that it reads.
        unsafe {
            for &(from, to, width) in l.first.iter() {
                self.copy(from, to, lanes * width);
            }
            match l.around {
                Some(around) => self.copy(around, l.active, lanes),
                None => self.tile(l.active).write_bytes(1, lanes),
            }
            for _ in 0..l.most {
                self.steps(&l.go, b);
                let (goes, active) = (self.lanes(l.goes), self.tile(l.active));
                let (goes, active) =
                    (std::slice::from_raw_parts(goes, lanes), std::slice::from_raw_parts_mut(active, lanes));
                let mut any = 0;
                for (a, g) in active.iter_mut().zip(goes) {
                    *a &= g;
                    any |= *a;
                }
                if any == 0 {
                    return;
                }
                self.steps(&l.rest, b);
                for &(from, to, width) in &l.swapped {
                    self.copy(from, to, lanes * width);
                }
                let active = self.lanes(l.active);
                for &(from, to, width) in &l.next {
                    let (from, to) = (self.lanes(from), self.tile(to));
                    match width {
                        1 => choose::<u8>(active, from, to, lanes),
                        4 => choose::<u32>(active, from, to, lanes),
                        _ => choose::<u64>(active, from, to, lanes),
                    }
                }
            }
        }
    }

    /// Copies the contents of a register to the tile of another one.
    ///
    /// # Safety
    /// The registers have `bytes` bytes, and are distinct.
    unsafe fn copy(&mut self, from: Register, to: Register, bytes: usize) {
        let (from, to) = (self.lanes(from), self.tile(to));
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }
}

/// Copies the lanes of `from` that are active to `to`; other lanes of `to` keep their value.
///
/// # Safety
/// All have `lanes` lanes; none overlaps another.
unsafe fn choose<T: Copy>(active: *const u8, from: *const u8, to: *mut u8, lanes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let active = std::slice::from_raw_parts(active, lanes);
        let from = std::slice::from_raw_parts(from.cast::<T>(), lanes);
        let to = std::slice::from_raw_parts_mut(to.cast::<T>(), lanes);
        for i in 0..lanes {
            to[i] = if active[i] != 0 { from[i] } else { to[i] };
        }
    }
}
