//! Lowering of loops with data-dependent trip counts: the IR of an iteration, and the instructions around the loop.

use super::{Lower, Unsupported};
use crate::machine::Machine;
use crate::prepare::prepare;
use crate::vector::elements::lane_of;
use crate::vector::ir::{Class, Inst, LoopIteration, Op, Slot, Source, Val, Vir};
use thalweg_ir::{DType, First, Loop};
use thalweg_kernel::{NodeId, turn};

impl Lower<'_> {
    /// Lowers a loop node: stores its initial values and arguments, and runs the loop.
    pub(super) fn looped(&mut self, id: NodeId, of: Loop) -> Result<Val, Unsupported> {
        let (region, number) = (of.region(), self.loops.len() as u64);
        let args: Vec<Val> = self.body.args(id).map(|a| self.place[a.index()]).collect();
        let mut values = vec![];
        for (i, first) in region.first.iter().enumerate() {
            values.push(match *first {
                First::Arg(n) => (args[n as usize], of.carried(i)),
                First::Const { bits, dtype: DType::Bool } => (self.v.mask_const(bits != 0), DType::Bool),
                First::Const { bits, dtype } => (self.v.constant(bits, lane_of(dtype)), dtype),
            });
        }
        values.extend(args.into_iter().zip(region.args.iter().copied()));
        let v = lower_iteration(of, &values, &self.v)?;
        for (i, (x, dtype)) in values.into_iter().enumerate() {
            let x = if dtype == DType::Bool { self.v.truth_lanes(x) } else { x };
            self.v.effect(Op::Put, 0, 0, &[x], number << 16 | i as u64);
        }
        self.v.loops.push(LoopIteration { v, max_iterations: region.most });
        self.v.effect(Op::Loop, 0, 0, &[], number);
        self.loops.push(id);
        // Only the loop's results are read, by `Looped` nodes.
        Ok(Val(0))
    }
}

/// Describes the frame vector of a loop's value.
pub(super) fn value_slot(number: usize, dtype: DType) -> Slot {
    Slot { source: Source::Iteration(number as u16), dtype, lane: lane_of(dtype) }
}

/// Lowers one iteration of a loop with these values (carried ones first) in a step `around`.
fn lower_iteration(of: Loop, values: &[(Val, DType)], around: &Vir) -> Result<Vir, Unsupported> {
    let body = prepare(&turn(of));
    let mut l = Lower::new(&body, false, Vir::new(around.target, around.lanes));
    l.turn = true;
    // In order of value number, as `Put` stores them.
    let slots: Vec<Val> = values.iter().enumerate().map(|(i, v)| l.v.slot(value_slot(i, v.1))).collect();
    let go = body.sets[0].node;
    for i in 0..body.nodes.len() {
        let val = l.node(NodeId(i as u32))?;
        l.place.push(val);
        if i == go.index() {
            l.v.exit(val);
        }
    }
    let active = l.v.active.expect("what ends the loop is among the nodes");
    for (i, s) in body.sets[1..].iter().enumerate() {
        let (new, dtype) = (l.place[s.node.index()], values[i].1);
        let lane = lane_of(dtype);
        let new = if dtype == DType::Bool { l.v.truth_lanes(new) } else { new };
        let kept = l.v.pick(lane, active, new, slots[i]);
        if kept != slots[i] {
            l.v.effect(Op::Carry, 0, 0, &[kept], i as u64);
        }
    }
    Ok(l.v)
}

impl Vir {
    /// Converts a mask to lanes of -1 and 0, of 4 bytes.
    fn truth_lanes(&mut self, m: Val) -> Val {
        if self.masks() {
            let (ones, zero) = (self.i(-1), self.i(0));
            return self.pick(4, m, ones, zero);
        }
        self.mask_to(m, 4)
    }

    /// Appends the exit test of a loop iteration: lanes where `go` is false become inactive.
    fn exit(&mut self, go: Val) {
        let (lane, class) = if self.masks() { (0, Class::Mask) } else { (4, Class::Vector) };
        let go = if self.masks() { go } else { self.mask_to(go, 4) };
        let args = [go, Val(0), Val(0)];
        let exit = Inst { op: Op::Exit, width: 0, imm: 0, nargs: 1, lane, args, aux: 0, class, step: 0 };
        let active = self.push(exit);
        self.effects.push(active);
        self.active = Some(active);
    }
}
