//! From a segment to a plan: which operations share a kernel. ../../../../docs/planner.md has the idea.
//!
//! * `facts`: what holds for every plan of the segment.
//! * `legality`: the rules that a kernel keeps; `kernels`: candidates for kernels, and what they would take.
//! * `canonical`: an order of the operations that breaks all ties.
//! * `components`: the parts of a segment that are planned by themselves; `search`: the best plan of each.
//! * `horizontal`: short kernels of a finished plan in one launch.
//! * `stored`: plans as bytes, and back, whatever the bytes are.
//! * `alternatives`: other plans that are worth measuring.
//! * `why`: what keeps two kernels of a plan from being one, for explanations.
//!
//! Which kernels there are does not depend on the order in which independent operations were recorded. The order in which they run does, and with it which of
//! the short ones share a launch: a program's own order keeps few values alive at a time.

mod alternatives;
mod canonical;
mod components;
mod facts;
mod horizontal;
mod kernels;
mod legality;
mod search;
mod stored;
#[cfg(test)]
mod tests;
mod why;

use crate::cost::Costs;
use crate::movement::{Path, Step};
use crate::plan::Plan;
use crate::segment::{Indexed, Segment, ValueId};
use facts::Facts;
use kernels::Kernels;
use search::State;
use thalweg_ir::{Op, Shape};

pub use alternatives::alternatives;
pub(crate) use facts::is_constant;
pub use legality::{NoPlan, Rule};
pub use search::Effort;
pub use stored::{PLANNER, question};
pub(crate) use why::why;

/// The most operations that one kernel holds: keeps compiling linear in practice and code within the instruction cache.
const MAX_KERNEL_OPS: usize = 2048;
/// The most index maps under which one kernel computes the same operation.
const MAX_MAPS: usize = 16;
/// Where writing a kernel ends, however little what it computes again is worth storing: each doubling of a tensor (`cat(a, a)`) doubles the maps of all before it.
pub(crate) const HOPELESS_MAPS: usize = 4 * MAX_MAPS;

/// A plan, and how it was come by.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Picoseconds that it takes, as the cost model has it; 0 where fusion is off, as nobody chooses by it.
    pub time: u64,
    /// Whether the search came to its end; otherwise the budget did.
    pub complete: bool,
    /// Operations written into candidates for kernels.
    pub visits: u64,
}

/// Plans a segment.
///
/// # Errors
/// Where there is no legal plan: see [`NoPlan`].
pub fn plan(segment: Segment<'_>, costs: &Costs, effort: Effort) -> Result<Planned, NoPlan> {
    let facts = Facts::new(segment);
    let mut kernels = Kernels::new(&facts, costs);
    let (state, complete) = components::search_all(&mut kernels, effort)?;
    Ok(Planned { plan: finish(&facts, &state), time: state.time, complete, visits: kernels.visits })
}

/// The plan that a state is.
fn finish(facts: &Facts<'_>, state: &State) -> Plan {
    let first = |k: usize| state.kernels[k].stores[0];
    let reads = state.reads();
    let order = legality::run_order(&reads, first).expect("the kernels of a plan are acyclic");
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &k)| place[k] = at);
    let mut readers = vec![vec![]; order.len()];
    for (k, from) in reads.iter().enumerate() {
        from.iter().for_each(|&f| readers[place[f]].push(place[k]));
    }
    let (kernels, times) =
        order.iter().map(|&k| (state.kernels[k].candidate.plan.clone(), state.kernels[k].time)).unzip();
    let mut plan = Plan { kernels, outputs: facts.outputs.clone() };
    if facts.ix.seg.mode.fused {
        plan.kernels = horizontal::group(&facts.ix, plan.kernels, &readers, times);
    }
    plan
}

/// Whether an operation is an opaque kernel: one that nothing fuses into.
pub(crate) fn is_opaque(op: Op) -> bool {
    matches!(op, Op::Matmul | Op::Scatter(_))
}

/// Whether an operation counts among those that a kernel computes: views and constants become no code to speak of.
pub(crate) fn counts(op: Op) -> bool {
    !op.is_view() && !is_constant(op)
}

/// Needs whole rows of its operand.
pub(crate) fn takes_rows(op: Op) -> bool {
    matches!(op, Op::Reduce(_) | Op::Scan(_))
}

/// The tensor arguments of operation `i` where it is computed under `path` in a kernel over `domain`, each with its own path.
pub(crate) fn arguments(ix: &Indexed<'_>, i: usize, path: &Path, domain: Shape) -> Vec<(ValueId, Path)> {
    let (op, shape) = (ix.seg.ops[i].op, ix.seg.shapes[i]);
    ix.tensors(i)
        .map(|(n, v)| {
            let own = ix.shape(v);
            let path = match op {
                Op::Cat => {
                    let axis = ix.seg.ops[i].attr as usize;
                    let rest = shape[axis] - own[axis];
                    let (before, after) = if n == 0 { (0, rest) } else { (rest, 0) };
                    path.after(Step::Extend { axis, before, after })
                }
                Op::Pad => path.after(Step::Op(i)),
                // Whole rows are read, whichever element is asked for.
                _ if takes_rows(op) && own == domain => Path::identity(),
                _ if takes_rows(op) => Path::identity().after(Step::Reshape(domain)),
                Op::Gather => path.clone(),
                _ if op.is_view() => path.after(Step::Op(i)),
                _ if own != shape => path.after(Step::Broadcast(shape)),
                _ => path.clone(),
            };
            (v, path)
        })
        .collect()
}
