//! Traffic of a launch: bytes moved between memory and the private storage of the cores, as a program traverses its
//! domain.
//!
//! In: the loops of one pass, outermost first, with the steps of each access along them ([`Nest`]); and the size of a
//! core's private storage. Out: bytes read from memory. An element that a pass uses again comes from memory again,
//! unless everything that the pass touches in between fits private storage. So a vector added to each row of a matrix
//! counts once if a row fits, and once per row if it does not.
//!
//! Always true: these are bytes of elements, not of cache lines; several cores count as one.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Traffic of a launch in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Bytes read from memory into the private storage of the cores: operands, and scratch that does not fit there.
    /// Data that a core still holds does not count again.
    pub read: u64,
    /// Bytes written to memory.
    pub written: u64,
    /// Bytes loaded from operands by the loops over points, from any level of memory. A second pass counts again; a
    /// value that is constant over a row and stays in a register does not. Engines that count at run time report the
    /// same.
    pub loaded: u64,
    /// Bytes stored to operands by the loops over points.
    pub stored: u64,
}

impl Moved {
    /// Traffic of `n` repetitions.
    pub fn times(self, n: u64) -> Moved {
        Moved { read: self.read * n, written: self.written * n, loaded: self.loaded * n, stored: self.stored * n }
    }
}

impl Add for Moved {
    type Output = Moved;
    fn add(self, o: Moved) -> Moved {
        Moved {
            read: self.read + o.read,
            written: self.written + o.written,
            loaded: self.loaded + o.loaded,
            stored: self.stored + o.stored,
        }
    }
}

impl AddAssign for Moved {
    fn add_assign(&mut self, o: Moved) {
        *self = *self + o;
    }
}

impl Sum for Moved {
    fn sum<I: Iterator<Item = Moved>>(all: I) -> Moved {
        all.fold(Moved::default(), Add::add)
    }
}

/// Access pattern of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessPattern {
    /// Strided: steps in elements along the loops of the nest, from a first position.
    Steps {
        /// First position.
        base: isize,
        /// Steps in elements, one per loop.
        steps: Vec<isize>,
    },
    /// Through an index map; points that it masks out are not read.
    Mapped {
        /// Number of distinct positions.
        distinct: usize,
        /// Whether points may be masked out.
        masked: bool,
    },
    /// At data-dependent positions: each point counts.
    Anywhere,
}

/// Access within a loop nest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Index of the operand.
    pub operand: u16,
    /// Bytes of an element.
    pub size: u64,
    /// Access pattern.
    pub way: AccessPattern,
    /// Whether the operand is written and not read: it then only occupies storage.
    pub written: bool,
}

/// Loop nest of one pass over a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nest {
    /// Loop extents, outermost first.
    pub extents: Vec<usize>,
    /// Accesses that go through memory.
    pub streams: Vec<Stream>,
}

impl Stream {
    /// Number of distinct elements that one iteration of the loops outside of loop `from` touches.
    fn distinct(&self, extents: &[usize], from: usize) -> u64 {
        let points = product(&extents[from..]);
        match &self.way {
            AccessPattern::Anywhere => points,
            AccessPattern::Mapped { distinct, .. } => points.min(*distinct as u64),
            AccessPattern::Steps { steps, .. } => {
                if points == 0 {
                    return 0;
                }
                let moving = extents[from..].iter().zip(&steps[from..]).filter(|(_, s)| **s != 0);
                let (mut n, mut span) = (1u64, 1u64);
                for (&extent, step) in moving {
                    n = n.saturating_mul(extent as u64);
                    span = span.saturating_add((extent as u64 - 1).saturating_mul(step.unsigned_abs() as u64));
                }
                n.min(span)
            }
        }
    }

    /// Lowest and highest position of a stepped access.
    fn reach(&self, extents: &[usize]) -> Option<(i128, i128)> {
        let AccessPattern::Steps { base, steps } = &self.way else { return None };
        let (mut low, mut high) = (*base as i128, *base as i128);
        for (&extent, &step) in extents.iter().zip(steps) {
            let span = (extent as i128 - 1).max(0) * step as i128;
            low += span.min(0);
            high += span.max(0);
        }
        Some((low, high))
    }
}

fn product(extents: &[usize]) -> u64 {
    extents.iter().fold(1u64, |n, &e| n.saturating_mul(e as u64))
}

impl Nest {
    /// Number of points of the domain.
    pub fn points(&self) -> u64 {
        product(&self.extents)
    }

    /// Number of bytes that the loops from loop `from` inwards touch.
    pub fn footprint(&self, from: usize) -> u64 {
        self.streams.iter().map(|s| s.distinct(&self.extents, from).saturating_mul(s.size)).fold(0, u64::saturating_add)
    }

    /// Bytes read from memory with private storage of `private` bytes.
    pub fn read(&self, private: u64) -> u64 {
        if self.points() == 0 {
            return 0;
        }
        // Whether data reused in the next iteration of each loop has been evicted by then.
        let far: Vec<bool> = (0..self.extents.len()).map(|d| self.footprint(d + 1) > private).collect();
        let mut done = vec![false; self.streams.len()];
        let mut bytes = 0u64;
        for i in 0..self.streams.len() {
            if done[i] || self.streams[i].written {
                continue;
            }
            let mut same: Vec<usize> =
                (i..self.streams.len()).filter(|&j| !done[j] && self.is_cached_from(i, j, private)).collect();
            if !same.contains(&i) {
                same.push(i);
            }
            same.iter().for_each(|&j| done[j] = true);
            bytes = bytes.saturating_add(self.read_of(&same, &far, private));
        }
        bytes
    }

    /// Whether data that stream `i` has loaded is still in private storage when stream `j` needs it.
    fn is_cached_from(&self, i: usize, j: usize, private: u64) -> bool {
        let (a, b) = (&self.streams[i], &self.streams[j]);
        if a.operand != b.operand || b.written || a.size != b.size {
            return false;
        }
        match (&a.way, &b.way) {
            (AccessPattern::Anywhere, _) | (_, AccessPattern::Anywhere) => false,
            (AccessPattern::Steps { base, steps }, AccessPattern::Steps { base: other, steps: others })
                if steps == others =>
            {
                (base.abs_diff(*other) as u64).saturating_mul(a.size) <= private || self.footprint(0) <= private
            }
            _ => self.footprint(0) <= private,
        }
    }

    /// Bytes read from memory by the streams `same`, which share their data.
    fn read_of(&self, same: &[usize], far: &[bool], private: u64) -> u64 {
        let (mut sum, mut most) = (0u64, 1u64);
        let (mut low, mut high, mut bounded) = (i128::MAX, i128::MIN, true);
        for &i in same {
            let s = &self.streams[i];
            let distinct = s.distinct(&self.extents, 0);
            let again = match &s.way {
                AccessPattern::Anywhere => 1,
                AccessPattern::Mapped { masked, .. } => {
                    // It is unknown which points share an element: each counts, unless everything fits.
                    let stays = distinct.saturating_mul(s.size) <= private;
                    if stays || *masked { 1 } else { (self.points() / distinct.max(1)).max(1) }
                }
                AccessPattern::Steps { steps, .. } => {
                    let again = |d: usize| steps[d] == 0 && self.extents[d] > 1 && far[d];
                    (0..far.len()).filter(|&d| again(d)).fold(1u64, |n, d| n.saturating_mul(self.extents[d] as u64))
                }
            };
            most = most.max(again);
            sum = sum.saturating_add(distinct.saturating_mul(again));
            match s.reach(&self.extents) {
                Some((l, h)) => (low, high) = (low.min(l), high.max(h)),
                None => bounded = false,
            }
        }
        let size = self.streams[same[0]].size;
        if bounded && same.len() > 1 {
            let span = u64::try_from(high - low + 1).unwrap_or(u64::MAX);
            sum = sum.min(span.saturating_mul(most));
        }
        sum.saturating_mul(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(operand: u16, base: isize, steps: &[isize]) -> Stream {
        Stream { operand, size: 4, way: AccessPattern::Steps { base, steps: steps.to_vec() }, written: false }
    }

    fn nest(extents: &[usize], streams: Vec<Stream>) -> Nest {
        Nest { extents: extents.to_vec(), streams }
    }

    #[test]
    fn a_row_read_twice_counts_twice_if_it_exceeds_the_cache() {
        let n = nest(&[100, 50], vec![steps(0, 0, &[50, 1]), steps(1, 0, &[0, 1])]);
        assert_eq!(n.read(400), 4 * (5000 + 50), "a row of both is 400 bytes");
        assert_eq!(n.read(399), 4 * (5000 + 5000));
    }

    #[test]
    fn neighbours_of_one_operand_load_common_lines_once() {
        let window = nest(&[1000], vec![steps(0, 0, &[1]), steps(0, 1, &[1]), steps(0, 2, &[1])]);
        assert_eq!(window.read(64), 4 * 1002);
        let halves = nest(&[1000], vec![steps(0, 0, &[1]), steps(0, 1000, &[1])]);
        assert_eq!(halves.read(64), 4 * 2000);
        let flipped = nest(&[1000], vec![steps(0, 0, &[1]), steps(0, 999, &[-1])]);
        assert_eq!((flipped.read(8000), flipped.read(7999)), (4000, 8000));
        let overlapping = nest(&[998, 3], vec![steps(0, 0, &[1, 1])]);
        assert_eq!(overlapping.read(64), 4000, "windows within one access");
    }

    #[test]
    fn places_that_are_data_count_each_and_masked_points_do_not() {
        let way = |way| Stream { operand: 0, size: 8, way, written: false };
        assert_eq!(nest(&[300], vec![way(AccessPattern::Anywhere)]).read(1 << 20), 2400);
        let padded = way(AccessPattern::Mapped { distinct: 36, masked: true });
        assert_eq!(nest(&[8, 8], vec![padded]).read(0), 8 * 36);
        let repeated = way(AccessPattern::Mapped { distinct: 10, masked: false });
        assert_eq!(nest(&[100], vec![repeated.clone()]).read(80), 80);
        assert_eq!(nest(&[100], vec![repeated]).read(79), 800);
    }
}
