//! Minimum cut of a flow network by Dinic's algorithm (1970), which saturates all shortest paths of one length per
//! phase.
//!
//! No recursion: networks are as deep as segments are long.

/// Capacity of edges that no cut may contain.
pub(super) const ENDLESS: u64 = u64::MAX / 4;

struct Edge {
    to: u32,
    /// Residual capacity. The reverse of edge `e` is edge `e ^ 1`.
    left: u64,
}

/// Flow network with a source and a sink.
pub(super) struct Network {
    edges: Vec<Edge>,
    from: Vec<Vec<u32>>,
}

/// Index of the source node.
pub(super) const SOURCE: usize = 0;
/// Index of the sink node.
pub(super) const SINK: usize = 1;

impl Network {
    /// Network with `nodes` nodes, including source and sink, and no edges.
    pub(super) fn new(nodes: usize) -> Network {
        Network { edges: vec![], from: vec![vec![]; nodes] }
    }

    /// Adds an edge, and its reverse with capacity 0.
    pub(super) fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        self.from[from].push(self.edges.len() as u32);
        self.edges.push(Edge { to: to as u32, left: capacity });
        self.from[to].push(self.edges.len() as u32);
        self.edges.push(Edge { to: from as u32, left: 0 });
    }

    /// Whether each node is on the sink's side of the minimum cut; of several minimum cuts, the one nearest to the
    /// sink.
    pub(super) fn sink_side(mut self) -> Vec<bool> {
        while let Some(level) = self.levels() {
            self.fill(&level);
        }
        // Nodes from which the sink can still be reached.
        let mut reaches = vec![false; self.from.len()];
        reaches[SINK] = true;
        let mut waiting = vec![SINK];
        while let Some(node) = waiting.pop() {
            for &e in &self.from[node] {
                let back = &self.edges[e as usize ^ 1];
                let before = self.edges[e as usize].to as usize;
                if back.left > 0 && !reaches[before] {
                    reaches[before] = true;
                    waiting.push(before);
                }
            }
        }
        reaches
    }

    /// Distance of each node from the source, in edges with residual capacity; `u32::MAX` for nodes that cannot be
    /// reached. `None` if the sink cannot be reached.
    fn levels(&self) -> Option<Vec<u32>> {
        let mut level = vec![u32::MAX; self.from.len()];
        level[SOURCE] = 0;
        let mut queue = std::collections::VecDeque::from([SOURCE]);
        while let Some(node) = queue.pop_front() {
            for &e in &self.from[node] {
                let Edge { to, left } = self.edges[e as usize];
                if left > 0 && level[to as usize] == u32::MAX {
                    level[to as usize] = level[node] + 1;
                    queue.push_back(to as usize);
                }
            }
        }
        (level[SINK] != u32::MAX).then_some(level)
    }

    /// Saturates paths from the source to the sink along ascending levels until none is left. Changes the residual
    /// capacities.
    fn fill(&mut self, level: &[u32]) {
        let mut next = vec![0usize; self.from.len()];
        let mut path: Vec<u32> = vec![];
        loop {
            let node = path.last().map_or(SOURCE, |&e| self.edges[e as usize].to as usize);
            if node == SINK {
                let least = path.iter().map(|&e| self.edges[e as usize].left).min().unwrap_or(0);
                for &e in &path {
                    self.edges[e as usize].left -= least;
                    self.edges[e as usize ^ 1].left += least;
                }
                // Continues from the node before the first saturated edge.
                let full = path.iter().position(|&e| self.edges[e as usize].left == 0).unwrap_or(0);
                path.truncate(full);
                continue;
            }
            match self.from[node].get(next[node]) {
                Some(&e) => {
                    let Edge { to, left } = self.edges[e as usize];
                    if left > 0 && level[to as usize] == level[node] + 1 {
                        path.push(e);
                    } else {
                        next[node] += 1;
                    }
                }
                None => match path.pop() {
                    // Dead end: its predecessor continues with the next edge.
                    Some(e) => next[self.edges[e as usize ^ 1].to as usize] += 1,
                    None => return,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minimum capacity of all cuts, by exhaustive search.
    fn tried(nodes: usize, edges: &[(usize, usize, u64)]) -> u64 {
        let sides = (0..1u32 << nodes).filter(|s| s >> SOURCE & 1 == 0 && s >> SINK & 1 == 1);
        let over = |s: u32| edges.iter().filter(|e| s >> e.0 & 1 == 0 && s >> e.1 & 1 == 1).map(|e| e.2).sum();
        sides.map(over).min().expect("there is a cut")
    }

    #[test]
    fn no_cut_is_smaller_and_none_as_small_is_nearer_to_the_sink() {
        let mut seed = 7u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let nodes = 3 + random(6) as usize;
            let edges: Vec<(usize, usize, u64)> = (0..3 * nodes)
                .map(|_| (random(nodes as u64) as usize, random(nodes as u64) as usize, random(5)))
                .filter(|e| e.0 != e.1)
                .collect();
            let mut network = Network::new(nodes);
            edges.iter().for_each(|&(a, b, c)| network.edge(a, b, c));
            let side = network.sink_side();
            let cut: u64 = edges.iter().filter(|e| !side[e.0] && side[e.1]).map(|e| e.2).sum();
            assert!(!side[SOURCE] && side[SINK]);
            assert_eq!(cut, tried(nodes, &edges), "{edges:?}");
        }
    }
}
