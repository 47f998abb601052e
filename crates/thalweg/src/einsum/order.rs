//! Contraction order of an einsum: the one with the fewest multiplications.
//!
//! In: the labels of each operand and of the result, and their sizes. Out: for each step the indices of two operands,
//! which are removed from the list, while their product is appended. For few operands it searches every order, by
//! subsets (the dynamic program of opt_einsum's "optimal" path, Smith and Gray 2018); for more, it takes the cheapest
//! pair repeatedly.

use super::spec::LABELS;
use crate::tunable::TUNABLES;

/// Order of the pairwise products: the indices of the two operands of each product. Operands are bit masks of labels.
pub fn order(operands: &[u64], output: u64, sizes: &[usize; LABELS]) -> Vec<(usize, usize)> {
    if TUNABLES.max_exact_operands.admits(operands.len()) {
        exact(operands, output, sizes)
    } else {
        greedy(operands, output, sizes)
    }
}

/// The number of multiplications of a product over these labels, as a float, which does not overflow.
fn points(labels: u64, sizes: &[usize; LABELS]) -> f64 {
    (0..LABELS).filter(|l| labels >> l & 1 == 1).map(|l| sizes[l] as f64).product()
}

fn exact(operands: &[u64], output: u64, sizes: &[usize; LABELS]) -> Vec<(usize, usize)> {
    let n = operands.len();
    let all = (1usize << n) - 1;
    let union = |set: usize| (0..n).filter(|i| set >> i & 1 == 1).fold(0, |m, i| m | operands[i]);
    // The labels of the product of each set: those that other operands or the result need.
    let left: Vec<u64> = (0..=all).map(|set| union(set) & (output | union(all ^ set))).collect();
    let mut best = vec![(f64::INFINITY, 0usize); all + 1];
    for set in 1..=all {
        if set.is_power_of_two() {
            best[set].0 = 0.0;
            continue;
        }
        let lowest = set & set.wrapping_neg();
        let mut part = (set - 1) & set;
        while part > 0 {
            let other = set ^ part;
            // Each pair of subsets once: the subset with the first operand.
            if part & lowest != 0 {
                let cost = best[part].0 + best[other].0 + points(left[part] | left[other], sizes);
                if cost < best[set].0 {
                    best[set] = (cost, part);
                }
            }
            part = (part - 1) & set;
        }
    }
    let mut list: Vec<usize> = (0..n).map(|i| 1 << i).collect();
    let mut steps = vec![];
    emit(all, &best, &mut list, &mut steps);
    steps
}

/// Appends the steps that compute the product of a set; `list` has the sets that exist.
fn emit(set: usize, best: &[(f64, usize)], list: &mut Vec<usize>, steps: &mut Vec<(usize, usize)>) {
    if set.is_power_of_two() {
        return;
    }
    let (part, other) = (best[set].1, set ^ best[set].1);
    emit(part, best, list, steps);
    emit(other, best, list, steps);
    let place = |set: usize| list.iter().position(|&s| s == set).expect("both parts were made");
    let (a, b) = (place(part), place(other));
    list.remove(a.max(b));
    list.remove(a.min(b));
    list.push(set);
    steps.push((a, b));
}

fn greedy(operands: &[u64], output: u64, sizes: &[usize; LABELS]) -> Vec<(usize, usize)> {
    let mut list = operands.to_vec();
    let mut steps = vec![];
    while list.len() > 1 {
        let kept = |a: usize, b: usize| {
            let others = (0..list.len()).filter(|&i| i != a && i != b).fold(output, |m, i| m | list[i]);
            (list[a] | list[b]) & others
        };
        // Candidate pairs are compared by the growth of the memory of intermediates, then by the cost.
        let price = |a: usize, b: usize| {
            let gone = points(list[a], sizes) + points(list[b], sizes);
            (points(kept(a, b), sizes) - gone, points(list[a] | list[b], sizes))
        };
        let pairs = (0..list.len()).flat_map(|a| (a + 1..list.len()).map(move |b| (a, b)));
        let (a, b) = pairs
            .min_by(|&x, &y| price(x.0, x.1).partial_cmp(&price(y.0, y.1)).expect("sizes are numbers"))
            .expect("two are left");
        let made = kept(a, b);
        list.remove(b);
        list.remove(a);
        list.push(made);
        steps.push((a, b));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(of: &[usize]) -> [usize; LABELS] {
        let mut sizes = [1; LABELS];
        sizes[..of.len()].copy_from_slice(of);
        sizes
    }

    #[test]
    fn a_chain_begins_where_it_is_short() {
        // a[0, 1]·b[1, 2]·c[2, 3] where 3 has size 1: b·c first.
        let operands = [0b0011, 0b0110, 0b1100];
        let wide = sizes(&[100, 100, 100, 1]);
        assert_eq!(order(&operands, 0b1001, &wide), [(1, 2), (0, 1)]);
        let tall = sizes(&[1, 100, 100, 100]);
        assert_eq!(order(&operands, 0b1001, &tall), [(0, 1), (1, 0)]);
    }

    #[test]
    fn many_operands_are_all_taken() {
        let n = 20;
        let operands: Vec<u64> = (0..n).map(|i| 0b11 << i).collect();
        let steps = order(&operands, 1 | 1 << n, &sizes(&[3; 21]));
        assert_eq!(steps.len(), n as usize - 1);
        let mut left = n as usize;
        for (a, b) in steps {
            assert!(a != b && a < left && b < left);
            left -= 1;
        }
        assert!(order(&[1], 1, &sizes(&[3])).is_empty());
    }
}
