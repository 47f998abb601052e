//! Buckets: collectives on several tensors at once, as one flat tensor.
//!
//! In: tensors, and a collective that keeps shapes. Out: its results for each of them. Always true: tensors are grouped
//! by their order, dtypes and sizes alone, so all ranks make the same buckets.

use crate::{ReduceOp, World};
use thalweg::{DType, Tensor};

/// Groups consecutive tensors of a dtype into buckets of up to `bytes`, at least one tensor in each. Returns the
/// positions of each bucket's tensors.
fn group(kinds: &[(DType, usize)], bytes: usize) -> Vec<Vec<usize>> {
    // The open bucket of each dtype, with its bytes.
    let mut open: Vec<(DType, usize, Vec<usize>)> = vec![];
    let mut full = vec![];
    for (at, &(dtype, size)) in kinds.iter().enumerate() {
        let slot = open.iter().position(|(of, ..)| *of == dtype).unwrap_or_else(|| {
            open.push((dtype, 0, vec![]));
            open.len() - 1
        });
        let (_, filled, members) = &mut open[slot];
        if !members.is_empty() && *filled + size > bytes {
            full.push(std::mem::take(members));
            *filled = 0;
        }
        *filled += size;
        members.push(at);
    }
    full.extend(open.into_iter().map(|(.., members)| members));
    full
}

/// Collective that keeps shapes and dtypes.
#[derive(Clone, Copy)]
pub(crate) enum BucketCollective {
    AllReduce(ReduceOp),
    /// From the rank with this number.
    Broadcast(usize),
}

/// Applies a collective to all tensors, bucket by bucket.
#[track_caller]
pub(crate) fn apply(world: &World, collective: BucketCollective, tensors: &[Tensor], bytes: usize) -> Vec<Tensor> {
    let buckets = of(tensors, bytes);
    // All are recorded before the first result is used, which runs it: what they depend on is computed as one segment.
    let mut flats = Vec::with_capacity(buckets.len());
    for bucket in &buckets {
        let flat = flat(bucket.iter().map(|&at| &tensors[at]));
        flats.push(match collective {
            BucketCollective::AllReduce(op) => world.all_reduce(&flat, op),
            BucketCollective::Broadcast(root) => world.broadcast(&flat, root),
        });
    }
    split(tensors, buckets, flats)
}

/// Positions of the tensors of each bucket.
pub(crate) fn of(tensors: &[Tensor], bytes: usize) -> Vec<Vec<usize>> {
    let kinds: Vec<(DType, usize)> = tensors.iter().map(|t| (t.dtype(), t.numel() * t.dtype().size())).collect();
    group(&kinds, bytes)
}

/// The elements of tensors of one dtype, one tensor after the other.
pub(crate) fn flat<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Tensor {
    Tensor::cat(&tensors.map(Tensor::flatten).collect::<Vec<Tensor>>(), 0)
}

/// The parts of flat tensors, one for each bucket, in the shapes and positions of `tensors`.
pub(crate) fn split(tensors: &[Tensor], buckets: Vec<Vec<usize>>, flats: Vec<Tensor>) -> Vec<Tensor> {
    let mut results: Vec<Option<Tensor>> = vec![None; tensors.len()];
    for (bucket, flat) in buckets.into_iter().zip(flats) {
        let mut start = 0;
        for at in bucket {
            let count = tensors[at].numel();
            results[at] = Some(flat.narrow(0, start, count).reshape(tensors[at].shape()));
            start += count;
        }
    }
    results.into_iter().map(|result| result.expect("each tensor is in a bucket")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_of_one_dtype_and_size() {
        let (f, b) = (DType::F32, DType::BF16);
        assert_eq!(group(&[], 8), Vec::<Vec<usize>>::new());
        assert_eq!(group(&[(f, 4), (f, 4), (f, 4)], 8), [vec![0, 1], vec![2]]);
        assert_eq!(group(&[(f, 4), (b, 2), (f, 4), (b, 2)], 8), [vec![0, 2], vec![1, 3]]);
        assert_eq!(group(&[(f, 100), (f, 4), (f, 0)], 8), [vec![0], vec![1, 2]]);
    }
}
