//! Run order of a plan's kernels.

/// Order in which each kernel runs after those it reads from; among ready kernels, the one with the lowest `first`
/// comes first. `None` if there is a cycle.
pub(crate) fn run_order(reads: &[Vec<usize>], first: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
    let mut readers = vec![vec![]; reads.len()];
    let mut waits = vec![0; reads.len()];
    for (k, from) in reads.iter().enumerate() {
        for &r in from {
            readers[r].push(k);
            waits[k] += 1;
        }
    }
    let mut ready: std::collections::BTreeSet<(usize, usize)> =
        (0..waits.len()).filter(|&k| waits[k] == 0).map(|k| (first(k), k)).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some((_, k)) = ready.pop_first() {
        order.push(k);
        for &r in &readers[k] {
            waits[r] -= 1;
            if waits[r] == 0 {
                ready.insert((first(r), r));
            }
        }
    }
    (order.len() == waits.len()).then_some(order)
}
