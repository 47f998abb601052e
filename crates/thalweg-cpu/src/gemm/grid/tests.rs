//! Compares each element of a packed grid with its definition.

use super::terms::within;
use super::*;
use crate::number::{Bf16, F16, PairTiles, Pairs, Quads, Wide};

/// Test convolution: the border of images of 11 × 40 elements, and the stride and the dilation of 3 × 2 windows over them.
#[derive(Clone, Copy, Debug)]
struct Windows {
    border: usize,
    step: usize,
    dilation: usize,
}

impl Windows {
    /// Number of windows in a row.
    fn width(self) -> usize {
        (40 + 2 * self.border - self.dilation - 1) / self.step + 1
    }

    fn rows(self) -> usize {
        11 + 2 * self.border - 2
    }

    /// Grid of the windows of 4 channels; it is valid for the second of two products.
    fn grid<T>(self, memory: &[T]) -> Grid {
        let Windows { border, step, dilation } = self;
        let first = memory.as_ptr().wrapping_offset(-(41 * border as isize));
        let limit = |lines: [i64; 2], terms: [i64; 3], size: i64| {
            let first = vec![i64::MAX, -(border as i64)];
            Limit { first, lines: lines.to_vec(), terms: terms.to_vec(), valid: (0, size) }
        };
        let limits = vec![limit([1, 0], [0, 1, 0], 11), limit([0, step as i64], [0, 0, dilation as i64], 40)];
        Grid {
            dtype: DType::F32,
            first: vec![std::ptr::null(), first.cast()],
            lines: vec![(self.rows(), 40), (self.width(), step as isize)],
            terms: vec![(4, 440), (3, 40), (2, dilation as isize)],
            limits: if border > 0 { limits } else { vec![] },
            outside: 7,
        }
    }

    /// Index of an element of a window, if it is in memory.
    fn place(self, line: usize, term: usize) -> Option<usize> {
        let y = (line / self.width() + term / 2 % 3).checked_sub(self.border).filter(|y| *y < 11)?;
        let x = line % self.width() * self.step + term % 2 * self.dilation;
        let x = x.checked_sub(self.border).filter(|x| *x < 40)?;
        Some(term / 6 * 440 + y * 40 + x)
    }
}

/// Packs a rectangle of a grid, and compares each slot of the panels with its definition.
fn check<S: Scheme>(
    grid: &Grid,
    lines: Range<usize>,
    terms: Range<usize>,
    panel: usize,
    of: impl Fn(usize, usize) -> S::Element,
) where
    S::Slot: PartialEq + std::fmt::Debug,
{
    let (cuts, zero) = (Cuts::whole(lines.len(), panel), S::Element::narrow(Wide::ZERO));
    let groups = terms.len().div_ceil(S::GROUP);
    let space = groups.next_multiple_of(S::STEP);
    // Something else than zeros, behind the panels too.
    let other = S::slot(|_| S::Element::narrow(S::Element::widen(of(lines.start, terms.start)).plus(Wide::of_bits(1))));
    let mut to = vec![other; cuts.count() * panel * space + 1];
    // SAFETY: the memory has all windows, and there is space for the panels.
    unsafe { grid.of_product::<S::Element>(1).pack::<S>(lines.clone(), terms.clone(), cuts, S::STEP, to.as_mut_ptr()) };
    assert_eq!(to.pop(), Some(other), "what is behind the panels stays");
    for (n, got) in to.iter().enumerate() {
        let (number, group, line) = (n / (panel * space), n / panel % space, n % panel);
        let l = lines.start + number * panel + line;
        let element = |term: usize| match terms.start + group * S::GROUP + term {
            t if t < terms.end && l < lines.end => of(l, t),
            _ => zero,
        };
        let want = S::slot(element);
        assert_eq!(*got, want, "line {l}, group {group} of {lines:?} and {terms:?}, panels of {panel}, {grid:?}");
    }
}

/// Checks lines and terms of windows, and the same grid with lines and terms swapped.
fn packed<S: Scheme>(
    of: impl Fn(usize) -> S::Element,
    lines: Range<usize>,
    terms: Range<usize>,
    panel: usize,
    windows: Windows,
) where
    S::Slot: PartialEq + std::fmt::Debug,
{
    let memory: Vec<S::Element> = (0..4 * 11 * 40).map(&of).collect();
    let grid = windows.grid(&memory);
    let outside = S::Element::narrow(Wide::of_bits(7));
    let element = |l: usize, t: usize| windows.place(l, t).map_or(outside, |at| memory[at]);
    let whole = |range: &Range<usize>| range.start / S::GROUP * S::GROUP..range.end;
    check::<S>(&grid, lines.clone(), whole(&terms), panel, element);
    let limits = windows.grid(&memory).limits.into_iter();
    let exchanged = Grid {
        lines: grid.terms,
        terms: grid.lines,
        limits: limits.map(|l| Limit { lines: l.terms, terms: l.lines, ..l }).collect(),
        ..grid
    };
    check::<S>(&exchanged, terms, whole(&lines), panel, |l, t| element(t, l));
}

#[test]
fn each_element_has_its_place() {
    let narrow = |i: usize| Bf16::narrow((i % 200) as f32);
    for (border, step, dilation) in
        [0, 1, 3].into_iter().flat_map(|b| [(1, 1), (2, 1), (1, 2), (3, 1)].map(|s| (b, s.0, s.1)))
    {
        let windows = Windows { border, step, dilation };
        for panel in [6, 8, 14, 32] {
            for (lines, terms) in [(0..100, 0..24), (5..38, 3..4), (37..41, 5..19), (20..111, 7..24), (3..4, 0..1)] {
                packed::<f32>(|i| i as f32, lines.clone(), terms.clone(), panel, windows);
                packed::<Bf16>(narrow, lines.clone(), terms.clone(), panel, windows);
                packed::<F16>(|i| F16::narrow((i % 200) as f32), lines.clone(), terms.clone(), panel, windows);
                packed::<Pairs>(narrow, lines.clone(), terms.clone(), panel, windows);
                packed::<PairTiles>(narrow, lines.clone(), terms.clone(), panel, windows);
                packed::<Quads>(|i| i as u8, lines.clone(), terms.clone(), panel, windows);
                packed::<u8>(|i| i as u8, lines.clone(), terms.clone(), panel, windows);
                packed::<i16>(|i| i as i16, lines.clone(), terms.clone(), panel, windows);
                packed::<i64>(|i| i as i64, lines.clone(), terms.clone(), panel, windows);
                packed::<f64>(|i| i as f64, lines, terms, panel, windows);
            }
        }
    }
}

#[test]
fn what_is_inside_follows_one_another() {
    for (lo, hi, at, step, count) in [
        (0, 5, -2, 1, 9),
        (0, 5, -3, 2, 4),
        (0, 6, 7, -1, 10),
        (1, 6, 9, -3, 5),
        (0, 4, 2, 0, 3),
        (0, 4, 4, 0, 3),
        (0, 9, -20, 4, 3),
    ] {
        let limit = Limit { first: vec![], lines: vec![], terms: vec![], valid: (lo, hi) };
        let want: Vec<usize> = (0..count).filter(|&i| (lo..hi).contains(&(at + i as i64 * step))).collect();
        let got: Vec<usize> = within(&[limit], |_| at, |_| step, count).collect();
        assert_eq!(got, want, "{lo}..{hi} from {at} by {step}");
    }
}
