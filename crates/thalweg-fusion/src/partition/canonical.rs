//! Canonical order of a segment's operations, independent of the order of recording.
//!
//! Each operation gets a number from its ancestors and descendants (Weisfeiler and Lehman's colour refinement on the
//! graph), sizes included. Inputs, and classes of equal scalars, are distinguished by their readers; values do not
//! count. Coarse colours come first: of sizes they contain only what matters when the plan of one component is reused
//! for another. So similar components have their operations in the same order.
//!
//! Operations with equal colours are structurally equivalent. Which of them comes first depends on the recording, but
//! is chosen once: the chosen one gets a new colour and refinement runs again, so everything connected with it follows.
//! The resulting order is unique up to automorphisms of the graph. (Colours do not distinguish all graphs, and in very
//! large segments not every choice is followed up. That is rare, and the plan then merely depends on the order of
//! recording.)

use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use rustc_hash::FxHashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg_ir::{Arg, Shape};

/// Maximum number of rounds of one refinement. Each round propagates colours through the graph from end to end.
/// Refinement stops early when a round distinguishes nothing new.
const ROUNDS: usize = 8;
/// Budget for repeated refinement after choices between equal operations, in operations times rounds: some
/// milliseconds.
const CHOICES: usize = 1 << 15;
/// Constant that is mixed into the colour of a chosen operation.
const CHOSEN: u64 = 0x5851_F42D_4C95_7F2D;

/// Rank of each operation in the canonical order.
pub(super) fn ranks(ix: &Indexed<'_>) -> Vec<usize> {
    let n = ix.seg.ops.len();
    let graph = Graph::new(ix);
    let coarse = graph.refined(graph.coarse());
    let fine = graph.refined(graph.fine(&coarse));
    let component = components(ix);
    let mut order: Vec<usize> = (0..n).collect();
    let mut colours = fine.clone();
    for round in 1.. {
        let key = |&i: &usize| (coarse.ops[i], fine.ops[i], colours.ops[i]);
        order.sort_unstable_by_key(|i| (key(i), component[*i], *i));
        let chosen = chosen(&order, &component, key);
        if chosen.is_empty() || round * n > CHOICES {
            break;
        }
        chosen.into_iter().for_each(|i| colours.ops[i] = mix(colours.ops[i], CHOSEN));
        colours = graph.refined(colours);
    }
    let mut rank = vec![0; n];
    order.into_iter().enumerate().for_each(|(at, i)| rank[i] = at);
    rank
}

/// First operation, in each component, that is equivalent to others of the component: the one that gets a new colour.
fn chosen<K: PartialEq>(order: &[usize], component: &[usize], key: impl Fn(&usize) -> K) -> Vec<usize> {
    let mut first: FxHashMap<usize, usize> = FxHashMap::default();
    for equal in order.chunk_by(|a, b| key(a) == key(b)) {
        for both in equal.windows(2).filter(|w| component[w[0]] == component[w[1]]) {
            first.entry(component[both[0]]).or_insert(both[0]);
        }
    }
    first.into_values().collect()
}

/// Component number of each operation: equal for operations connected by values.
fn components(ix: &Indexed<'_>) -> Vec<usize> {
    let n = ix.seg.ops.len();
    let mut parent: Vec<usize> = (0..n).collect();
    let mut reader: Vec<Option<usize>> = vec![None; ix.seg.inputs.len()];
    for i in 0..n {
        for (_, v) in ix.tensors(i) {
            let other = match v {
                ValueId::Op(a) => Some(a),
                ValueId::Input(a) => reader[a].replace(i),
            };
            if let Some(other) = other {
                let (a, b) = (root(&mut parent, i), root(&mut parent, other));
                parent[a.max(b)] = a.min(b);
            }
        }
    }
    (0..n).map(|i| root(&mut parent, i)).collect()
}

/// Graph to colour: operations, and their inputs and scalars as leaves.
struct Graph<'a> {
    ix: &'a Indexed<'a>,
    classes: ScalarClasses,
}

/// Colour of each operation, input and scalar (for scalars only the first of a class counts).
#[derive(Clone)]
struct Colours {
    ops: Vec<u64>,
    inputs: Vec<u64>,
    scalars: Vec<u64>,
}

impl<'a> Graph<'a> {
    fn new(ix: &'a Indexed<'a>) -> Graph<'a> {
        Graph { ix, classes: ScalarClasses::new(ix.seg.scalars) }
    }

    /// Initial colours that similar components have in common.
    fn coarse(&self) -> Colours {
        let ix = self.ix;
        let op = |i: usize| {
            let op = &ix.seg.ops[i];
            hash_of(&(op.op, op.dtype, op.rank, op.attr, magnitude(ix.seg.shapes[i]), ix.seg.live.has(i)))
        };
        let input =
            |(dtype, view): &(_, thalweg_ir::View)| hash_of(&(*dtype, (!view.is_contiguous()).then_some(*view)));
        Colours {
            ops: (0..ix.seg.ops.len()).map(op).collect(),
            inputs: ix.seg.inputs.iter().map(input).collect(),
            scalars: vec![],
        }
    }

    /// Initial colours from everything that a plan may depend on.
    fn fine(&self, coarse: &Colours) -> Colours {
        let ix = self.ix;
        let op = |i: usize| mix(coarse.ops[i], hash_of(&(ix.seg.shapes[i], ix.ints(i))));
        Colours {
            ops: (0..ix.seg.ops.len()).map(op).collect(),
            inputs: coarse.inputs.iter().zip(ix.seg.inputs).map(|(&c, input)| mix(c, hash_of(input))).collect(),
            scalars: vec![0; ix.seg.scalars.len()],
        }
    }

    /// Refines colours until a round distinguishes nothing new, for at most [`ROUNDS`] rounds.
    fn refined(&self, mut colours: Colours) -> Colours {
        let mut known = distinct(&colours);
        for _ in 0..ROUNDS {
            colours = self.round(&colours);
            let now = distinct(&colours);
            if now == known {
                break;
            }
            known = now;
        }
        colours
    }

    /// Colours after one round: they propagate from arguments to users, then from users to arguments.
    fn round(&self, colours: &Colours) -> Colours {
        let ix = self.ix;
        let mut ops: Vec<u64> = Vec::with_capacity(colours.ops.len());
        for (i, &own) in colours.ops.iter().enumerate() {
            let args = ix.seg.ops[i].args().enumerate().map(|(n, arg)| match arg {
                Arg::Op(a) => ops[a],
                Arg::Input(a) => colours.inputs[a],
                Arg::Scalar => colours.scalars.get(self.class(i, n)).copied().unwrap_or(1),
                Arg::None => 2,
            });
            ops.push(args.fold(own, mix));
        }
        let mut down = vec![0u64; ops.len()];
        let (mut inputs, mut scalars) = (vec![0; colours.inputs.len()], vec![0; colours.scalars.len()]);
        for i in (0..ops.len()).rev() {
            ops[i] = mix(ops[i], down[i]);
            for (n, arg) in ix.seg.ops[i].args().enumerate() {
                let to = match arg {
                    Arg::Op(a) => Some(&mut down[a]),
                    Arg::Input(a) => Some(&mut inputs[a]),
                    Arg::Scalar => scalars.get_mut(self.class(i, n)),
                    Arg::None => None,
                };
                // A sum, so that the order of users does not matter.
                if let Some(to) = to {
                    *to = to.wrapping_add(mix(ops[i], n as u64 + 3));
                }
            }
        }
        let with = |own: &[u64], down: Vec<u64>| own.iter().zip(down).map(|(&own, down)| mix(own, down)).collect();
        Colours { inputs: with(&colours.inputs, inputs), scalars: with(&colours.scalars, scalars), ops }
    }

    /// Index of the scalar that represents the class of the scalar argument `arg` of operation `i`.
    fn class(&self, i: usize, arg: usize) -> usize {
        self.classes.representative(self.ix.scalar(i, arg))
    }
}

/// Number of distinct colours: of operations, of inputs, of scalars.
fn distinct(colours: &Colours) -> [usize; 3] {
    [&colours.ops, &colours.inputs, &colours.scalars].map(|all| {
        let mut all = all.clone();
        all.sort_unstable();
        all.dedup();
        all.len()
    })
}

pub(super) fn hash_of(x: &impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    x.hash(&mut h);
    h.finish()
}

/// Hash of two 64-bit numbers, by the finaliser of MurmurHash3.
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.rotate_left(17) ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x = (x ^ x >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    x ^ x >> 33
}

/// Representative of the set that contains `i` (union-find). Shortens the paths in `parent`.
pub(super) fn root(parent: &mut [usize], mut i: usize) -> usize {
    while parent[i] != i {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    i
}

/// Number of binary digits of a tensor's element count, as a measure of its size.
pub(super) fn magnitude(shape: Shape) -> u32 {
    usize::BITS - shape.numel().leading_zeros()
}
