//! Saving or recomputing for the backward pass: at a cut between forward and backward, which values are written, and
//! which are dropped and recomputed (rematerialization).
//!
//! In: a segment, and its *kept* results: no handle holds them, but a tape does, since derivative rules will read them.
//! Out: the results to write, so that every kept one is stored or computable from stored ones.
//!
//! This is a minimum cut. Each operation has two nodes: "is recomputed" and "is available in the backward pass". The
//! edge between the two has the cost of writing the result and reading it once; the edge from the source to the first
//! has the cost of recomputing it. A recomputed operation needs its arguments available. Kept results must be
//! available. The minimum cut is the choice of least time, so a value is written exactly if that beats recomputing it.
//! (As a min-cut, with bans where this has times: Zheng and others, "Fusing recomputation", functorch 2022.)
//!
//! A byte has a *price*: beside its time it occupies memory until the backward pass has read it. Under a memory limit
//! the price rises until saved values, plus what the backward pass recomputes at once, fit. If it would rise too far,
//! early operations pay the higher price and late ones the lower. Early ones are recomputed last, when the values saved
//! for the late ones are gone.
//!
//! Always true: a dropped value is computed by at most [`MAX_RECOMPUTED_OPS`] operations from values that are written, live, or
//! existed before. A value that was itself recorded again is not dropped once more.

mod network;
mod subgraph;
#[cfg(test)]
mod tests;

pub use subgraph::Subgraph;

use crate::cost::{Costs, Level};
use crate::segment::{BitSet, Indexed, Segment, ValueId};
use network::{ENDLESS, Network, SINK, SOURCE};
use thalweg_ir::{Op, OpClass};
use thalweg_kernel::Along;

/// Maximum number of operations that may be needed to recompute one value.
pub const MAX_RECOMPUTED_OPS: usize = 256;

/// Default price of a saved byte when memory is not short, as a multiple of the time to write and read it. It is 2
/// because the memory is unavailable to anything else meanwhile.
const USUAL: u32 = 2;
/// Factor by which the price of a byte rises per step of the search.
const STEEP: u32 = 8;
/// Maximum price of a byte, at which everything that may be recomputed is.
const HIGHEST: u32 = USUAL * STEEP.pow(6);
/// Number of boundaries tried between early operations, which pay the higher price, and late ones.
const TURNS: usize = 8;
/// Fraction of arithmetic time that is not hidden in a kernel bound by memory or by a product.
const SHOWS: f64 = 0.5;
/// Cost of computing a random number, in additions.
const RANDOM: f64 = 60.0;

/// Input of the decision at a cut.
pub struct Question<'a> {
    /// Segment that ends at the cut; its live results are written in any case.
    pub segment: Segment<'a>,
    /// Results that only a gradient tape holds.
    pub kept: &'a BitSet,
    /// Inputs that only this segment holds. Recomputing from them keeps them alive.
    pub dying: &'a BitSet,
    /// Operations that recompute values which an earlier segment dropped.
    pub again: &'a BitSet,
    /// Budget in bytes for saved values and for recomputation in the backward pass; `None` without a memory limit.
    pub room: Option<usize>,
}

/// Decision about the results that a tape holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Results to write in addition to the live ones: kept ones, and ancestors of dropped ones.
    pub written: BitSet,
    /// Dropped results: kept ones that are not written.
    pub left: BitSet,
    /// Bytes written for the backward pass.
    pub bytes: usize,
    /// Peak bytes in the backward pass: saved values, recomputed values, and gradients of inputs.
    pub peak: usize,
    /// Price of a byte for late and for early operations, as a multiple of the time to write and read it.
    pub price: [u32; 2],
    /// Reason for each result that is written or dropped.
    pub why: Vec<Why>,
}

/// Reason why a result is written for the backward pass, or dropped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// Index of the operation.
    pub operation: usize,
    /// Size of the operation's result in bytes.
    pub bytes: usize,
    /// Picoseconds to write the result and read it once, at the price of its bytes.
    pub keeping: u64,
    /// Picoseconds to recompute the result from available values.
    pub again: u64,
}

impl Keep {
    /// Whether the decision is also that for unlimited memory.
    pub fn is_usual(&self) -> bool {
        self.price == [USUAL; 2]
    }
}

/// Decides which of the results held by a tape are written, and which are dropped and recomputed.
pub fn keep(question: &Question<'_>, costs: &Costs) -> Keep {
    let graph = Graph::new(question, costs);
    let found = graph.decided();
    Keep { why: graph.why(&found), ..found }
}

/// Segment with the costs of saving and recomputing.
struct Graph<'a> {
    ix: Indexed<'a>,
    question: &'a Question<'a>,
    /// Ancestors of kept results, including these.
    reached: BitSet,
    /// Picoseconds to recompute each operation.
    again: Vec<u64>,
    /// Picoseconds per byte: for writing and reading it, and for reading it only.
    byte: (f64, f64),
}

/// Result of the minimum cut: operations to recompute, and operations available in the backward pass.
struct Cut {
    again: BitSet,
    there: BitSet,
}

impl<'a> Graph<'a> {
    fn new(question: &'a Question<'a>, costs: &Costs) -> Graph<'a> {
        let ix = Indexed::new(question.segment);
        let mut reached = question.kept.clone();
        for i in (0..question.segment.ops.len()).rev() {
            if reached.has(i) {
                ix.tensors(i).for_each(|(_, v)| {
                    if let ValueId::Op(o) = v {
                        reached.insert(o);
                    }
                });
            }
        }
        // The memory level of written values depends on the total size of all kept ones.
        let far: usize = question.kept.iter().map(|i| ix.bytes(ValueId::Op(i))).sum();
        let level = costs.level(far as u64);
        let again = (0..question.segment.ops.len()).map(|i| (anew(&ix, i, costs, level) * 1e3) as u64).collect();
        let byte = ((level.read_all + level.write_all) * 1e3, level.read_all * 1e3);
        Graph { ix, question, reached, again, byte }
    }

    /// First decision that fits the budget, approximately in order of increasing time.
    fn decided(&self) -> Keep {
        let n = self.question.segment.ops.len();
        let usual = self.cut([USUAL; 2], 0, MAX_RECOMPUTED_OPS);
        let mut best = self.finish(&usual, &usual, [USUAL; 2]);
        let Some(room) = self.question.room else { return best };
        let better = |found: Keep, best: &mut Keep| {
            let fits = found.peak <= room;
            if found.peak < best.peak {
                *best = found;
            }
            fits
        };
        for low in std::iter::successors(Some(USUAL), |p| Some(p * STEEP)).take_while(|&p| p < HIGHEST) {
            if best.peak <= room {
                return best;
            }
            let prices = [low, low * STEEP];
            for part in 1..=TURNS {
                let turn = |part: usize| n * part / TURNS;
                let found = self.finish(&self.cut(prices, turn(part), MAX_RECOMPUTED_OPS), &usual, prices);
                if found.peak <= room {
                    return self.refined(prices, (turn(part - 1), turn(part)), (&usual, room), found);
                }
                better(found, &mut best);
            }
        }
        // Nothing fits so far: recompute everything, over shorter and shorter spans.
        for most in [MAX_RECOMPUTED_OPS / 4, MAX_RECOMPUTED_OPS / 16] {
            let found = self.finish(&self.cut([HIGHEST; 2], 0, most), &usual, [HIGHEST; 2]);
            if better(found, &mut best) {
                break;
            }
        }
        best
    }

    /// Edge capacity in picoseconds for having a result available without recomputing it.
    fn keeping(&self, v: ValueId, price: u32) -> u64 {
        let written = matches!(v, ValueId::Op(o) if !self.question.segment.live.has(o));
        let byte = if written { self.byte.0 } else { self.byte.1 };
        // At least 1: free results, too, are saved only if needed.
        (self.ix.bytes(v) as f64 * byte * price as f64) as u64 + 1
    }

    /// Computes the minimum cut. Bytes of operations before index `turn` have the second price, later ones the first. A
    /// value is recomputed by at most `most` operations.
    fn cut(&self, price: [u32; 2], turn: usize, most: usize) -> Cut {
        let n = self.question.segment.ops.len();
        let inputs = self.question.segment.inputs.len();
        let (again, there) = (|i: usize| 2 + 2 * i, |i: usize| 3 + 2 * i);
        let input = |i: usize| 2 + 2 * n + i;
        let mut network = Network::new(2 + 2 * n + inputs);
        for i in self.question.dying.iter() {
            network.edge(SOURCE, input(i), self.keeping(ValueId::Input(i), price[0]));
        }
        for i in self.reached.iter() {
            let ban = self.question.again.has(i);
            network.edge(SOURCE, again(i), if ban { ENDLESS } else { self.again[i] });
            network.edge(again(i), there(i), self.keeping(ValueId::Op(i), price[(i < turn) as usize]));
            for (_, v) in self.ix.tensors(i) {
                match v {
                    ValueId::Op(o) => network.edge(there(o), again(i), ENDLESS),
                    ValueId::Input(o) if self.question.dying.has(o) => network.edge(input(o), again(i), ENDLESS),
                    ValueId::Input(_) => {}
                }
            }
            if self.question.kept.has(i) {
                network.edge(there(i), SINK, ENDLESS);
            }
        }
        let side = network.sink_side();
        let mut cut = Cut { again: BitSet::new(n), there: BitSet::new(n) };
        for i in self.reached.iter() {
            if side[again(i)] {
                cut.again.insert(i);
            }
            if side[there(i)] {
                cut.there.insert(i);
            }
        }
        self.shorten(&mut cut, most);
        cut
    }

    /// Marks results as written whose recomputation would need more than `most` operations.
    fn shorten(&self, cut: &mut Cut, most: usize) {
        let n = self.question.segment.ops.len();
        let mut from: Vec<BitSet> = vec![];
        let mut place = vec![usize::MAX; n];
        for i in self.reached.iter().filter(|&i| cut.again.has(i)).collect::<Vec<_>>() {
            let mut all = BitSet::new(n);
            all.insert(i);
            for (_, v) in self.ix.tensors(i) {
                if let ValueId::Op(o) = v
                    && cut.again.has(o)
                {
                    all.union(&from[place[o]]);
                }
            }
            if all.count() > most {
                cut.again.remove(i);
                continue;
            }
            place[i] = from.len();
            from.push(all);
        }
    }

    /// Decision for a cut. `usual` gives the values that the backward pass prefers to have written.
    fn finish(&self, cut: &Cut, usual: &Cut, price: [u32; 2]) -> Keep {
        let n = self.question.segment.ops.len();
        let live = self.question.segment.live;
        // Only ancestors of dropped results: after shortening, a cut may be wider than necessary.
        let (mut needed, mut written, mut left) = (self.question.kept.clone(), BitSet::new(n), BitSet::new(n));
        for i in (0..n).rev().filter(|&i| self.reached.has(i)) {
            if !needed.has(i) || live.has(i) {
                continue;
            }
            if !cut.again.has(i) {
                written.insert(i);
                continue;
            }
            if self.question.kept.has(i) {
                left.insert(i);
            }
            for (_, v) in self.ix.tensors(i) {
                if let ValueId::Op(o) = v {
                    needed.insert(o);
                }
            }
        }
        let bytes = written.iter().map(|i| self.ix.bytes(ValueId::Op(i))).sum();
        let peak = self.peak(&written, cut, usual);
        Keep { written, left, bytes, peak, price, why: vec![] }
    }

    fn why(&self, keep: &Keep) -> Vec<Why> {
        let mut seen = vec![usize::MAX; self.question.segment.ops.len()];
        let about = (0..seen.len()).filter(|&i| keep.written.has(i) || keep.left.has(i));
        let mut out = vec![];
        for operation in about {
            // Ancestors of the operation, down to available values.
            let (mut again, mut waiting) = (0, vec![operation]);
            while let Some(i) = waiting.pop() {
                again += self.again[i];
                for (_, v) in self.ix.tensors(i) {
                    if let ValueId::Op(o) = v
                        && !keep.written.has(o)
                        && !self.question.segment.live.has(o)
                        && std::mem::replace(&mut seen[o], operation) != operation
                    {
                        waiting.push(o);
                    }
                }
            }
            let keeping = self.keeping(ValueId::Op(operation), keep.price[0]);
            out.push(Why { operation, bytes: self.ix.bytes(ValueId::Op(operation)), keeping, again });
        }
        out
    }

    /// Peak bytes in the backward pass, which goes from the last operation to the first: written values still to be
    /// read; for each span being recomputed, the values its operations would otherwise have found; and gradients of
    /// inputs.
    fn peak(&self, written: &BitSet, cut: &Cut, usual: &Cut) -> usize {
        let n = self.question.segment.ops.len();
        let wished = |i: usize| cut.again.has(i) && usual.there.has(i) && !usual.again.has(i);
        let end = self.last_recomputed(cut, wished);
        // Bytes that appear and disappear at each position of the pass.
        let (mut comes, mut goes) = (vec![0usize; n + 1], vec![0usize; n + 1]);
        for i in self.reached.iter() {
            let bytes = self.ix.bytes(ValueId::Op(i));
            if written.has(i) {
                comes[n] += bytes;
                goes[i] += bytes;
            } else if wished(i) {
                comes[end[i]] += bytes;
                goes[i] += bytes;
            }
        }
        let mut first = vec![true; self.question.segment.inputs.len()];
        for i in (0..n).rev() {
            for (_, v) in self.ix.tensors(i) {
                if let ValueId::Input(o) = v
                    && self.ix.dtype(v).is_float()
                    && !self.question.dying.has(o)
                    && std::mem::take(&mut first[o])
                {
                    comes[i] += self.ix.bytes(v);
                }
            }
        }
        let (mut now, mut most) = (0, 0);
        for at in (0..=n).rev() {
            now += comes[at];
            most = most.max(now);
            now -= goes[at];
        }
        most
    }

    /// For each recomputed operation, the last operation recomputed with it: a connected span is recomputed as a whole.
    /// Values that do not depend on a large dropped one, such as a mask, form spans of their own.
    fn last_recomputed(&self, cut: &Cut, wished: impl Fn(usize) -> bool) -> Vec<usize> {
        let n = self.question.segment.ops.len();
        let mut span: Vec<usize> = (0..n).collect();
        let find = |span: &mut Vec<usize>, mut i: usize| {
            while span[i] != i {
                span[i] = span[span[i]];
                i = span[i];
            }
            i
        };
        let mut heavy = BitSet::new(n);
        for i in cut.again.iter() {
            if wished(i) {
                heavy.insert(i);
            }
            for (_, v) in self.ix.tensors(i) {
                if let ValueId::Op(o) = v
                    && cut.again.has(o)
                    && heavy.has(o)
                {
                    heavy.insert(i);
                    let (a, b) = (find(&mut span, i), find(&mut span, o));
                    span[a.max(b)] = a.min(b);
                }
            }
        }
        let mut end = vec![0; n];
        for i in cut.again.iter() {
            let s = find(&mut span, i);
            end[s] = end[s].max(i);
        }
        (0..n).map(|i| end[find(&mut span, i)].max(i)).collect()
    }

    /// Refines a range that contains a boundary of early operations which fits, to as few early operations as suffice.
    fn refined(&self, prices: [u32; 2], range: (usize, usize), (usual, room): (&Cut, usize), fits: Keep) -> Keep {
        let ((mut short, mut enough), mut best) = (range, fits);
        while enough - short > 8 {
            let turn = (short + enough) / 2;
            let found = self.finish(&self.cut(prices, turn, MAX_RECOMPUTED_OPS), usual, prices);
            if found.peak <= room {
                (enough, best) = (turn, found);
            } else {
                short = turn;
            }
        }
        best
    }
}

/// Recomputation cost in nanoseconds that never pays, for foreign operations: their cost is unknown.
const NEVER: f64 = 1e12;

/// Nanoseconds to recompute an operation whose arguments are available, within a kernel that is needed anyway. An
/// operation that needs a kernel of its own also costs a launch.
fn anew(ix: &Indexed<'_>, i: usize, costs: &Costs, level: Level) -> f64 {
    let rel = &ix.seg.ops[i];
    let elements = ix.shape(ValueId::Op(i)).numel() as f64;
    let threads = costs.threads.max(1) as f64;
    let wide = if rel.dtype.size() == 8 { 2.0 } else { 1.0 };
    let operand = ix.tensors(i).next().map(|(_, v)| (ix.shape(v).numel() as f64, ix.bytes(v) as f64));
    let (from, read) = operand.unwrap_or_default();
    let own = costs.launch + (read + ix.bytes(ValueId::Op(i)) as f64) * level.read_all;
    // Additions per element of a region.
    let region = rel.op.region().map(|l| l.cost());
    match rel.op.class() {
        OpClass::Elementwise => match (rel.op, region) {
            (Op::Element(e), _) => {
                let cost = e.row().cost as f64;
                let addition = if cost > 4.0 { costs.special } else { costs.simple };
                SHOWS * elements * wide * cost.max(1.0) * addition / threads
            }
            (_, Some(cost)) => SHOWS * elements * wide * cost as f64 * costs.simple / threads,
            _ => SHOWS * elements * wide * costs.convert / threads,
        },
        OpClass::Random => SHOWS * elements * wide * RANDOM * costs.simple / threads,
        OpClass::Constant | OpClass::View => 0.0,
        OpClass::Merge => SHOWS * elements * costs.simple / threads,
        OpClass::Fold => match region {
            Some(cost) => own + from * wide * cost as f64 * costs.simple / threads,
            None => own + from * wide * costs.fold / threads,
        },
        OpClass::Matmul => {
            let each = costs.multiply_of(ix.operand_dtype(i), false);
            let depth = ix.tensors(i).next().map_or(1, |(_, v)| ix.shape(v).last().copied().unwrap_or(1));
            own + elements * depth as f64 * each / threads
        }
        OpClass::Scan => match (rel.op, region) {
            (_, Some(cost)) => {
                own + elements * wide * (Along::Scan.steps() * u64::from(cost)) as f64 * costs.simple / threads
            }
            (Op::Scan(of), None) if of.monoid().is_none() => own + elements * costs.sort / threads,
            _ => own + elements * costs.scan / threads,
        },
        OpClass::Gather => own + elements * costs.gathered / threads,
        OpClass::Scatter => own + elements * costs.scattered,
        OpClass::Foreign => NEVER,
    }
}
