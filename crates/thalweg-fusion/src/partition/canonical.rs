//! An order of a segment's operations that does not depend on when they were recorded.
//!
//! Each operation gets a number from what it is computed from and one from what is computed from it (Weisfeiler and Lehman's colours on the graph, upwards and downwards),
//! sizes included and scalars not. An input is told apart by who reads it. Only operations that play the same part in the graph have
//! equal numbers, and between those any choice gives the same plan up to their names.

use crate::segment::Indexed;
use thalweg_ir::Arg;

/// The place of each operation in the order.
pub(crate) fn ranks(ix: &Indexed<'_>) -> Vec<usize> {
    let n = ix.seg.ops.len();
    let mut inputs: Vec<u64> = ix.seg.inputs.iter().map(|(dtype, view)| hash_of(&(*dtype, *view))).collect();
    let mut colours = vec![(0, 0); n];
    for _ in 0..2 {
        let up = upward(ix, &inputs);
        let (down, of_inputs) = downward(ix, &up);
        colours = up.into_iter().zip(down).collect();
        inputs.iter_mut().zip(of_inputs).for_each(|(i, read)| *i = mix(*i, read));
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&i| (colours[i], i));
    let mut rank = vec![0; n];
    order.into_iter().enumerate().for_each(|(at, i)| rank[i] = at);
    rank
}

/// What each operation is computed from.
fn upward(ix: &Indexed<'_>, inputs: &[u64]) -> Vec<u64> {
    let mut up: Vec<u64> = Vec::with_capacity(ix.seg.ops.len());
    for (i, op) in ix.seg.ops.iter().enumerate() {
        let mut colour = hash_of(&(op.op, op.dtype, op.attr, ix.seg.shapes[i], ix.ints(i), ix.seg.live.has(i)));
        for arg in op.args() {
            colour = mix(
                colour,
                match arg {
                    Arg::Op(a) => up[a],
                    Arg::Input(a) => inputs[a],
                    Arg::Scalar => 1,
                    Arg::None => 2,
                },
            );
        }
        up.push(colour);
    }
    up
}

/// What is computed from each operation, and from each input.
fn downward(ix: &Indexed<'_>, up: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let mut down = vec![0u64; up.len()];
    let mut inputs = vec![0u64; ix.seg.inputs.len()];
    for i in (0..up.len()).rev() {
        let own = mix(up[i], down[i]);
        for (n, arg) in ix.seg.ops[i].args().enumerate() {
            // A sum, so that the order of the users does not matter.
            let used = mix(own, n as u64 + 3);
            match arg {
                Arg::Op(a) => down[a] = down[a].wrapping_add(used),
                Arg::Input(a) => inputs[a] = inputs[a].wrapping_add(used),
                Arg::Scalar | Arg::None => {}
            }
        }
    }
    (down, inputs)
}

fn hash_of(x: &impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut h = DefaultHasher::new();
    x.hash(&mut h);
    h.finish()
}

/// The finaliser of MurmurHash3 over both.
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.rotate_left(17) ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x = (x ^ x >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    x ^ x >> 33
}
