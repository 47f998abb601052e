//! Algorithms of the collectives, over bytes.
//!
//! In: the bytes of a rank's operand. Out: those of its result, written to `out`. Every rank sends to every other one
//! directly: a rank of `n` sends `n - 1` messages, twice that in an all-reduce.

use crate::member::{Exchange, Failure};
use crate::reduce::{ReduceOp, reduce};
use std::ops::Range;
use std::sync::Arc;
use thalweg::DType;

/// Reduces the operands of all ranks: each rank reduces a chunk in rank order and sends the result to all.
pub(super) fn all_reduce(
    ranks: &mut Exchange<'_>,
    (op, dtype): (ReduceOp, DType),
    x: &[u8],
    out: &mut [u8],
) -> Result<(), Failure> {
    let (own, size) = (ranks.rank(), ranks.size());
    let chunk = |rank: usize| chunk(x.len() / dtype.size(), rank, size, dtype.size());
    for rank in ranks.others() {
        ranks.send(rank, Arc::new(x[chunk(rank)].to_vec()))?;
    }
    let mut total = vec![0; chunk(own).len()];
    reduce_received(ranks, (op, dtype), &x[chunk(own)], &mut total)?;
    out[chunk(own)].copy_from_slice(&total);
    let total = Arc::new(total);
    for rank in ranks.others() {
        ranks.send(rank, total.clone())?;
    }
    for rank in ranks.others() {
        out[chunk(rank)].copy_from_slice(&ranks.receive(rank, chunk(rank).len())?);
    }
    Ok(())
}

/// Bytes of the chunk that a rank reduces, of `count` elements. Chunks differ by at most one element.
fn chunk(count: usize, rank: usize, ranks: usize, size: usize) -> Range<usize> {
    let start = |rank: usize| rank * (count / ranks) + rank.min(count % ranks);
    start(rank) * size..start(rank + 1) * size
}

/// Reduces a chunk of this rank with the chunks that the others have sent, in rank order.
fn reduce_received(
    ranks: &mut Exchange<'_>,
    (op, dtype): (ReduceOp, DType),
    own: &[u8],
    out: &mut [u8],
) -> Result<(), Failure> {
    let mut received = vec![None; ranks.size()];
    for rank in ranks.others() {
        received[rank] = Some(ranks.receive(rank, own.len())?);
    }
    let operands: Vec<&[u8]> = received.iter().map(|r| r.as_ref().map_or(own, |bytes| bytes.as_slice())).collect();
    reduce(op, dtype, &operands, out);
    Ok(())
}

/// Result that is concatenated, along an axis, from a part of each rank, in rank order.
#[derive(Clone, Debug)]
pub(super) struct Concatenation {
    /// Bytes of the part of each rank.
    pub sizes: Vec<usize>,
    /// Number of rows that each part consists of: the product of the sizes before the axis.
    pub rows: usize,
}

impl Concatenation {
    /// Copies the part of a rank to its rows of the whole: `row 0 of all parts, row 1 of all parts …`.
    fn put(&self, rank: usize, part: &[u8], whole: &mut [u8]) {
        if part.is_empty() {
            return;
        }
        let row = |bytes: usize| bytes / self.rows;
        let (start, size) = (row(self.sizes[..rank].iter().sum()), row(part.len()));
        let stride = row(self.sizes.iter().sum());
        for (number, bytes) in part.chunks_exact(size).enumerate() {
            whole[number * stride + start..][..size].copy_from_slice(bytes);
        }
    }
}

/// Concatenates the operands of all ranks, in rank order.
pub(super) fn all_gather(
    ranks: &mut Exchange<'_>,
    parts: &Concatenation,
    x: &[u8],
    out: &mut [u8],
) -> Result<(), Failure> {
    let payload = Arc::new(x.to_vec());
    for rank in ranks.others() {
        ranks.send(rank, payload.clone())?;
    }
    parts.put(ranks.rank(), x, out);
    for rank in ranks.others() {
        parts.put(rank, &ranks.receive(rank, x.len())?, out);
    }
    Ok(())
}

/// Reduces the operands of all ranks, of which each rank gets its chunk.
pub(super) fn reduce_scatter(
    ranks: &mut Exchange<'_>,
    how: (ReduceOp, DType),
    x: &[u8],
    out: &mut [u8],
) -> Result<(), Failure> {
    let chunk = |rank: usize| rank * out.len()..(rank + 1) * out.len();
    for rank in ranks.others() {
        ranks.send(rank, Arc::new(x[chunk(rank)].to_vec()))?;
    }
    let own = chunk(ranks.rank());
    reduce_received(ranks, how, &x[own], out)
}

/// Sends a rank's operand to all.
pub(super) fn broadcast(ranks: &mut Exchange<'_>, root: usize, x: &[u8], out: &mut [u8]) -> Result<(), Failure> {
    if ranks.rank() != root {
        out.copy_from_slice(&ranks.receive(root, x.len())?);
        return Ok(());
    }
    let payload = Arc::new(x.to_vec());
    for rank in ranks.others() {
        ranks.send(rank, payload.clone())?;
    }
    out.copy_from_slice(x);
    Ok(())
}

/// Sends the next `sent[i]` bytes of the operand to each rank `i`, and concatenates what comes from all ranks.
pub(super) fn all_to_all(
    ranks: &mut Exchange<'_>,
    (sent, received): (&[usize], &Concatenation),
    x: &[u8],
    out: &mut [u8],
) -> Result<(), Failure> {
    let chunk = |rank: usize| {
        let start = sent[..rank].iter().sum();
        &x[start..start + sent[rank]]
    };
    for rank in ranks.others() {
        ranks.send(rank, Arc::new(chunk(rank).to_vec()))?;
    }
    let own = ranks.rank();
    if sent[own] != received.sizes[own] {
        let (sent, expected) = (sent[own], received.sizes[own]);
        return Err(Failure::new(format!("the rank sends itself {sent} bytes, and {expected} were expected")));
    }
    received.put(own, chunk(own), out);
    for rank in ranks.others() {
        received.put(rank, &ranks.receive(rank, received.sizes[rank])?, out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_elements_in_order() {
        for (count, ranks) in [(0, 3), (2, 3), (7, 3), (9, 3), (5, 1)] {
            let chunks: Vec<Range<usize>> = (0..ranks).map(|rank| chunk(count, rank, ranks, 4)).collect();
            assert_eq!((chunks[0].start, chunks[ranks - 1].end), (0, 4 * count));
            assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
            let sizes = chunks.iter().map(|c| c.len() / 4);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }

    #[test]
    fn parts_are_concatenated_row_by_row() {
        let parts = Concatenation { sizes: vec![2, 0, 4], rows: 2 };
        let mut whole = [0; 6];
        parts.put(0, &[1, 2], &mut whole);
        parts.put(1, &[], &mut whole);
        parts.put(2, &[3, 4, 5, 6], &mut whole);
        assert_eq!(whole, [1, 3, 4, 2, 5, 6]);
    }
}
