//! Where the operations of a segment stand on a page: layers by depth, neighbours near their arguments
//! (Sugiyama, Tagawa, Toda 1981, with barycentres).

/// A node's place: its layer, and its position in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub layer: usize,
    pub slot: usize,
}

/// Places for nodes with these arguments (each before its uses).
pub(super) fn places(arguments: &[Vec<usize>]) -> Vec<Place> {
    let n = arguments.len();
    let mut layer = vec![0usize; n];
    for i in 0..n {
        layer[i] = arguments[i].iter().map(|&a| layer[a] + 1).max().unwrap_or(0);
    }
    // A source stands just above its first use rather than at the top of the page.
    let mut uses: Vec<Vec<usize>> = vec![vec![]; n];
    for (i, args) in arguments.iter().enumerate() {
        for &a in args {
            uses[a].push(i);
        }
    }
    for i in (0..n).rev() {
        if arguments[i].is_empty()
            && let Some(first) = uses[i].iter().map(|&u| layer[u]).min()
        {
            layer[i] = first.saturating_sub(1);
        }
    }
    let depth = layer.iter().max().map_or(0, |d| d + 1);
    let mut rows: Vec<Vec<usize>> = vec![vec![]; depth];
    for i in 0..n {
        rows[layer[i]].push(i);
    }
    let mut slot = vec![0usize; n];
    let number = |rows: &[Vec<usize>], slot: &mut [usize]| {
        for row in rows {
            for (s, &i) in row.iter().enumerate() {
                slot[i] = s;
            }
        }
    };
    number(&rows, &mut slot);
    for round in 0..6 {
        let near = if round % 2 == 0 { arguments } else { &uses };
        for row in &mut rows {
            let centre = |i: usize| {
                let around = &near[i];
                match around.len() {
                    0 => slot[i] as f64,
                    len => around.iter().map(|&a| slot[a] as f64).sum::<f64>() / len as f64,
                }
            };
            let mut keyed: Vec<(f64, usize)> = row.iter().map(|&i| (centre(i), i)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            *row = keyed.into_iter().map(|k| k.1).collect();
        }
        number(&rows, &mut slot);
    }
    (0..n).map(|i| Place { layer: layer[i], slot: slot[i] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_above_and_nothing_overlaps() {
        let arguments = vec![vec![], vec![], vec![0, 1], vec![0], vec![2, 3], vec![]];
        let p = places(&arguments);
        for (i, args) in arguments.iter().enumerate() {
            assert!(args.iter().all(|&a| p[a].layer < p[i].layer));
            assert!((0..i).all(|j| p[i] != p[j]));
        }
    }
}
