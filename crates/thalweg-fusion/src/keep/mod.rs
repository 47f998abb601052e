//! What a cut between a forward and a backward pass writes for the latter, and what it leaves to be computed again.
//!
//! In: a segment, and which of its results are *kept*: no handle holds them, but a tape does, since rules of
//! derivatives will read them. Out: which results to write, so that every kept one is there or follows from what is.
//!
//! It is a least cut. Each operation has two nodes: "is computed again" and "is there on the way back". Between the two
//! stands what it takes to write the result and to read it once; before the first, from the source, what it takes to
//! compute it again; what is computed again needs its arguments to be there. Kept results must be there. The least cut
//! is the choice that takes least time: this is the exact form of "written only where that beats computing it again".
//! (As a min-cut, with bans where this has times: Zheng and others, "Fusing recomputation", functorch 2022.)
//!
//! A byte has a *price*: beside its time it takes memory until the backward pass has read it. Below a memory limit the
//! price rises until what is kept, with what is computed again at once on the way back, fits; and where it would rise
//! too far, early operations pay the higher price and late ones the lower: the early ones are computed again last, when
//! what was kept for the late ones is gone.
//!
//! Always true: what is left follows from at most [`MOST_AGAIN`] operations on what is written, live, or was there
//! before; what was itself recorded again is not left once more.

mod network;
mod stretch;
#[cfg(test)]
mod tests;

pub use stretch::Stretch;

use crate::cost::{Costs, Level};
use crate::segment::{BitSet, Indexed, Segment, ValueId};
use network::{ENDLESS, Network, SINK, SOURCE};
use thalweg_ir::{DType, Op, ScanOp};
use thalweg_kernel::Along;

/// Operations that a value may be away from what it is computed from again.
pub const MOST_AGAIN: usize = 256;

/// What a byte costs beside the time that it takes to write and to read, where memory is not short, in such times: as
/// much again, since it is memory that nothing else has meanwhile.
const USUAL: u32 = 2;
/// By how much the price rises at a time.
const STEEP: u32 = 8;
/// The highest price, at which all is computed again that may be.
const HIGHEST: u32 = USUAL * STEEP.pow(6);
/// Places up to which early operations pay the higher price, that are tried.
const TURNS: usize = 8;
/// How much of arithmetic shows in a kernel that goes through memory or multiplies anyway, as a fraction.
const SHOWS: f64 = 0.5;
/// Additions that a random number takes.
const RANDOM: f64 = 60.0;

/// What is asked at a cut.
pub struct Question<'a> {
    /// The segment; its live results are written in any case.
    pub segment: Segment<'a>,
    /// Results that a tape alone holds.
    pub kept: &'a BitSet,
    /// Inputs that nobody but this segment holds: whoever computes from them again keeps them.
    pub dying: &'a BitSet,
    /// Operations that were recorded again, for an earlier segment.
    pub again: &'a BitSet,
    /// Bytes that there are for what is kept, and for what is computed again on the way back; none where there is no
    /// limit.
    pub room: Option<usize>,
}

/// What is done with the results that a tape holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Results to write beside the live ones: kept ones, and what others follow from.
    pub written: BitSet,
    /// Kept results that are not written.
    pub left: BitSet,
    /// Bytes that are written for the backward pass.
    pub bytes: usize,
    /// Bytes that are kept, computed again and alive, or gradients of inputs, at once on the way back.
    pub peak: usize,
    /// What a byte was worth, in the times it takes to write and read it: of late operations and of early ones.
    pub price: [u32; 2],
    /// Why, for each result that is kept or written.
    pub why: Vec<Why>,
}

/// Why a result is written for the backward pass, or left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// The operation.
    pub operation: usize,
    /// Bytes of its result.
    pub bytes: usize,
    /// Picoseconds to write it and to read it once, at the price of its bytes.
    pub keeping: u64,
    /// Picoseconds to compute it again from what is there.
    pub again: u64,
}

impl Keep {
    /// Whether it is what is decided where memory is not short.
    pub fn is_usual(&self) -> bool {
        self.price == [USUAL; 2]
    }
}

/// Decides.
pub fn keep(question: &Question<'_>, costs: &Costs) -> Keep {
    let graph = Graph::new(question, costs);
    let found = graph.decided();
    Keep { why: graph.why(&found), ..found }
}

/// The segment as a cut sees it.
struct Graph<'a> {
    ix: Indexed<'a>,
    question: &'a Question<'a>,
    /// Operations that kept results come from.
    reached: BitSet,
    /// Picoseconds that each takes to compute again.
    again: Vec<u64>,
    /// Picoseconds that it takes to have a byte: written and read, read alone.
    byte: (f64, f64),
}

/// A cut: what is computed again, and what is there on the way back.
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
        // What is written now is as far away on the way back as all that is kept is large.
        let far: usize = question.kept.iter().map(|i| ix.bytes(ValueId::Op(i))).sum();
        let level = costs.level(far as u64);
        let again = (0..question.segment.ops.len()).map(|i| (anew(&ix, i, costs, level) * 1e3) as u64).collect();
        let byte = ((level.read_all + level.write_all) * 1e3, level.read_all * 1e3);
        Graph { ix, question, reached, again, byte }
    }

    /// The first choice that fits the room, in the order of what they take: nearly.
    fn decided(&self) -> Keep {
        let n = self.question.segment.ops.len();
        let usual = self.cut([USUAL; 2], 0, MOST_AGAIN);
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
                let found = self.finish(&self.cut(prices, turn(part), MOST_AGAIN), &usual, prices);
                if found.peak <= room {
                    return self.refined(prices, (turn(part - 1), turn(part)), (&usual, room), found);
                }
                better(found, &mut best);
            }
        }
        // Nothing fits that way. All is computed again, over shorter and shorter stretches.
        for most in [MOST_AGAIN / 4, MOST_AGAIN / 16] {
            let found = self.finish(&self.cut([HIGHEST; 2], 0, most), &usual, [HIGHEST; 2]);
            if better(found, &mut best) {
                break;
            }
        }
        best
    }

    /// What it takes to have a result on the way back that is not computed again.
    fn keeping(&self, v: ValueId, price: u32) -> u64 {
        let written = matches!(v, ValueId::Op(o) if !self.question.segment.live.has(o));
        let byte = if written { self.byte.0 } else { self.byte.1 };
        // At least one: of what costs nothing, too, only what is needed is kept.
        (self.ix.bytes(v) as f64 * byte * price as f64) as u64 + 1
    }

    /// The least cut, where a byte of what is before operation `turn` has the second price, and behind it the first, and
    /// nothing is more than `most` operations away.
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

    /// Writes what would be more operations away.
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

    /// The choice that a cut is. What the backward pass would like to have written is what `usual` writes.
    fn finish(&self, cut: &Cut, usual: &Cut, price: [u32; 2]) -> Keep {
        let n = self.question.segment.ops.len();
        let live = self.question.segment.live;
        // Only what a kept result that is left needs: a cut may be wider than that after it was shortened.
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
            // What it is computed from, down to what is there.
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

    /// Bytes at once on the way back, which goes from the last operation to the first: what was written and is still
    /// to be read; of each stretch that is computed again, once it is, what its operations would rather have found; and
    /// the gradients of inputs.
    fn peak(&self, written: &BitSet, cut: &Cut, usual: &Cut) -> usize {
        let n = self.question.segment.ops.len();
        let wished = |i: usize| cut.again.has(i) && usual.there.has(i) && !usual.again.has(i);
        let end = self.stretches(cut, wished);
        // What comes at each place of the way, and goes there.
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

    /// For each operation that is computed again the last one that is computed again with it: what a stretch is
    /// computed from comes back as a whole. What follows from nothing that was wished for, such as a mask, is no part of
    /// a stretch: each has its own.
    fn stretches(&self, cut: &Cut, wished: impl Fn(usize) -> bool) -> Vec<usize> {
        let n = self.question.segment.ops.len();
        let mut stretch: Vec<usize> = (0..n).collect();
        let find = |stretch: &mut Vec<usize>, mut i: usize| {
            while stretch[i] != i {
                stretch[i] = stretch[stretch[i]];
                i = stretch[i];
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
                    let (a, b) = (find(&mut stretch, i), find(&mut stretch, o));
                    stretch[a.max(b)] = a.min(b);
                }
            }
        }
        let mut end = vec![0; n];
        for i in cut.again.iter() {
            let s = find(&mut stretch, i);
            end[s] = end[s].max(i);
        }
        (0..n).map(|i| end[find(&mut stretch, i)].max(i)).collect()
    }

    /// Where early operations pay the second price up to the end of a range and that fits: as few of them as will do.
    fn refined(&self, prices: [u32; 2], range: (usize, usize), (usual, room): (&Cut, usize), fits: Keep) -> Keep {
        let ((mut short, mut enough), mut best) = (range, fits);
        while enough - short > 8 {
            let turn = (short + enough) / 2;
            let found = self.finish(&self.cut(prices, turn, MOST_AGAIN), usual, prices);
            if found.peak <= room {
                (enough, best) = (turn, found);
            } else {
                short = turn;
            }
        }
        best
    }
}

/// Nanoseconds that are never worth it: of what is in another language nobody knows what it takes.
const NEVER: f64 = 1e12;

/// Nanoseconds that an operation takes to be done again where its arguments are there, in a kernel that somebody else
/// needs; one that makes a launch of its own necessary counts that.
fn anew(ix: &Indexed<'_>, i: usize, costs: &Costs, level: Level) -> f64 {
    let rel = &ix.seg.ops[i];
    let elements = ix.shape(ValueId::Op(i)).numel() as f64;
    let threads = costs.threads.max(1) as f64;
    let wide = if rel.dtype.size() == 8 { 2.0 } else { 1.0 };
    let operand = ix.tensors(i).next().map(|(_, v)| (ix.shape(v).numel() as f64, ix.bytes(v) as f64));
    let (from, read) = operand.unwrap_or_default();
    let own = costs.launch + (read + ix.bytes(ValueId::Op(i)) as f64) * level.read_all;
    match rel.op {
        Op::Element(e) => {
            let cost = e.row().cost as f64;
            let addition = if cost > 4.0 { costs.special } else { costs.simple };
            SHOWS * elements * wide * cost.max(1.0) * addition / threads
        }
        Op::Loop(l) => SHOWS * elements * wide * l.cost() as f64 * costs.simple / threads,
        Op::Cast | Op::Bitcast => SHOWS * elements * wide * costs.convert / threads,
        Op::Random(_) => SHOWS * elements * wide * RANDOM * costs.simple / threads,
        Op::Full | Op::Iota | Op::Reshape | Op::Permute | Op::Expand | Op::Slice | Op::Window => 0.0,
        Op::Pad | Op::Cat | Op::Put => SHOWS * elements * costs.simple / threads,
        Op::Reduce(_) => own + from * wide * costs.fold / threads,
        Op::FoldBy(l) => own + from * wide * l.cost() as f64 * costs.simple / threads,
        Op::ScanBy(l) => {
            own + elements * wide * (Along::Scan.steps() * u64::from(l.cost())) as f64 * costs.simple / threads
        }
        Op::Matmul => {
            let kind = match ix.operand_dtype(i) {
                DType::F32 => 0,
                DType::F64 => 1,
                DType::BF16 | DType::F16 => 2,
                _ => 3,
            };
            let depth = ix.tensors(i).next().map_or(1, |(_, v)| ix.shape(v).last().copied().unwrap_or(1));
            own + elements * depth as f64 * costs.multiply[kind] / threads
        }
        Op::Scan(ScanOp::Sort | ScanOp::Argsort) => own + elements * costs.sort / threads,
        Op::Scan(_) => own + elements * costs.scan / threads,
        Op::Gather => own + elements * costs.gathered / threads,
        Op::Scatter(_) => own + elements * costs.scattered,
        Op::Foreign(_) => NEVER,
    }
}
