//! Instruction scheduling of a step, and unrolling.
//!
//! In: a [`Vir`]. Out: a [`Program`], the straight-line code that the allocator processes. The order is depth first
//! from the effects, the argument with the larger register need first. Updates of a loop's carried values come last in
//! its iteration. Stores come after every load: an output may reuse the buffer of a dead input.

use super::ir::{Class, Inst, Op, Val, Vir};

/// Straight-line code of one or more copies of a step. The instructions before `start` are invariants in memory, and
/// are not executed.
pub struct Program {
    /// Instructions; arguments are indices into them.
    pub insts: Vec<Inst>,
    /// Index of the first instruction executed.
    pub start: usize,
    /// Number of copies of the step.
    pub copies: usize,
    /// Whether the program is a masked step: lanes past the end of the row are inactive.
    pub tail: bool,
}

/// Returns the values of a step in execution order, without invariants.
pub fn order(v: &Vir) -> Vec<Val> {
    let need = register_need(v);
    let mut done = vec![false; v.insts.len()];
    let mut out = Vec::with_capacity(v.insts.len());
    let mut stack: Vec<(Val, bool)> = Vec::new();
    for &root in &v.effects {
        stack.push((root, false));
        while let Some((x, ready)) = stack.pop() {
            let inst = v.inst(x);
            if done[x.at()] || inst.invariant() {
                continue;
            }
            if ready {
                done[x.at()] = true;
                out.push(x);
                continue;
            }
            stack.push((x, true));
            let mut args: Vec<Val> = inst.args().iter().copied().filter(|a| !done[a.at()]).collect();
            // The last one pushed is computed first.
            args.sort_by_key(|a| need[a.at()]);
            stack.extend(args.into_iter().map(|a| (a, false)));
        }
    }
    let (carries, before): (Vec<Val>, _) = out.into_iter().partition(|x| v.inst(*x).op == Op::Carry);
    let mut out = stores_after_loads(v, before);
    out.extend(carries);
    out
}

/// Sethi-Ullman numbers (registers needed to compute each value), as if no value had several uses.
fn register_need(v: &Vir) -> Vec<u32> {
    let mut need = vec![0u32; v.insts.len()];
    for (i, inst) in v.insts.iter().enumerate() {
        if inst.invariant() {
            continue;
        }
        let mut args: Vec<u32> = inst.args().iter().map(|a| need[a.at()]).collect();
        args.sort_unstable_by(|a, b| b.cmp(a));
        need[i] = args.iter().enumerate().map(|(k, n)| n + k as u32).max().unwrap_or(0).max(1);
    }
    need
}

fn stores_after_loads(v: &Vir, order: Vec<Val>) -> Vec<Val> {
    let reads = |x: &Val| matches!(v.inst(*x).op, Op::Load(_) | Op::LoadAt(_) | Op::Merge(..) | Op::Gather);
    let writes = |x: &Val| matches!(v.inst(*x).op, Op::Store(_));
    let (Some(last), Some(first)) = (order.iter().rposition(reads), order.iter().position(writes)) else {
        return order;
    };
    if first > last {
        return order;
    }
    let early = order[..=last].iter().copied().filter(|x| !writes(x));
    let late = order[..=last].iter().copied().filter(writes);
    early.chain(late).chain(order[last + 1..].iter().copied()).collect()
}

/// Unrolls the step by `copies`, interleaving `abreast` copies at a time. Instructions that do not depend on the copy
/// are emitted once. Where masks are vectors, loads, stores, merges and folds of a masked step get the mask as a last
/// argument.
pub fn unroll(v: &Vir, order: &[Val], copies: usize, abreast: usize, tail: bool) -> Program {
    let mut varies = vec![false; v.insts.len()];
    for (i, inst) in v.insts.iter().enumerate() {
        varies[i] = inst.class == Class::Effect
            || matches!(
                inst.op,
                Op::Iota | Op::Load(_) | Op::LoadAt(_) | Op::Merge(..) | Op::Gather | Op::StepLow | Op::Take
            )
            || inst.args().iter().any(|a| varies[a.at()]);
    }
    const NONE: Val = Val(u32::MAX);
    let vector_masks = tail && !v.target.mask_registers();
    let mut place = vec![NONE; v.insts.len() * copies];
    let mut insts: Vec<Inst> = Vec::with_capacity(order.len() * copies + 32);
    let add = |insts: &mut Vec<Inst>, inst: Inst| {
        insts.push(inst);
        Val(insts.len() as u32 - 1)
    };
    let mut used = vec![false; v.insts.len()];
    order.iter().for_each(|x| v.inst(*x).args().iter().for_each(|a| used[a.at()] = true));
    // Invariants first; slots 0 and 1 hold the masks of the last step.
    let mut masks = [NONE; 2];
    for (i, inst) in v.insts.iter().enumerate().filter(|(_, n)| n.invariant()) {
        let mask = vector_masks && inst.op == Op::Slot && inst.aux < 2;
        if !used[i] && !mask {
            continue;
        }
        for u in 0..copies {
            place[i * copies + u] =
                if u > 0 && !varies[i] { place[i * copies] } else { add(&mut insts, Inst { step: u as u8, ..*inst }) };
        }
        if mask {
            masks[inst.aux as usize] = place[i * copies];
        }
    }
    let start = insts.len();
    let blocks = (0..copies).step_by(abreast).map(|u| u..(u + abreast).min(copies));
    for (x, block) in blocks.flat_map(|b| order.iter().map(move |x| (*x, b.clone()))) {
        let inst = v.inst(x);
        for u in block {
            if u > 0 && !varies[x.at()] {
                place[x.at() * copies + u] = place[x.at() * copies];
                continue;
            }
            let mut new = Inst { step: u as u8, ..*inst };
            for a in &mut new.args[..inst.nargs as usize] {
                *a = place[a.at() * copies + u];
            }
            let size = match inst.op {
                Op::Load(_) | Op::LoadAt(_) | Op::Store(_) | Op::Merge(..) => inst.imm,
                Op::Fold(..) => v.lane(inst.args[0]),
                _ => 0,
            };
            if vector_masks && size >= 4 {
                new.args[new.nargs as usize] = masks[(size == 8) as usize];
                new.nargs += 1;
            }
            place[x.at() * copies + u] = add(&mut insts, new);
        }
    }
    Program { insts, start, copies, tail }
}
