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

/// Concatenates the operands of all ranks, in rank order.
pub(super) fn all_gather(ranks: &mut Exchange<'_>, x: &[u8], out: &mut [u8]) -> Result<(), Failure> {
    let payload = Arc::new(x.to_vec());
    for rank in ranks.others() {
        ranks.send(rank, payload.clone())?;
    }
    let chunk = |rank: usize| rank * x.len()..(rank + 1) * x.len();
    out[chunk(ranks.rank())].copy_from_slice(x);
    for rank in ranks.others() {
        out[chunk(rank)].copy_from_slice(&ranks.receive(rank, x.len())?);
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

/// Sends chunk `i` of the operand to rank `i`, and concatenates the chunks from all ranks, in rank order. `sent` and
/// `received` are their sizes in bytes.
pub(super) fn all_to_all(
    ranks: &mut Exchange<'_>,
    (sent, received): (&[usize], &[usize]),
    x: &[u8],
    out: &mut [u8],
) -> Result<(), Failure> {
    let chunk = |sizes: &[usize], rank: usize| {
        let start = sizes[..rank].iter().sum();
        start..start + sizes[rank]
    };
    for rank in ranks.others() {
        ranks.send(rank, Arc::new(x[chunk(sent, rank)].to_vec()))?;
    }
    let own = ranks.rank();
    if sent[own] != received[own] {
        let (sent, received) = (sent[own], received[own]);
        return Err(Failure::new(format!("the rank sends itself {sent} bytes and expects {received}")));
    }
    out[chunk(received, own)].copy_from_slice(&x[chunk(sent, own)]);
    for rank in ranks.others() {
        out[chunk(received, rank)].copy_from_slice(&ranks.receive(rank, received[rank])?);
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
}
