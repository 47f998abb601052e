//! Compares each element of a packed grid with its definition.

use super::terms::within;
use super::*;
use crate::number::{Bf16, Wide};

/// Test convolution: the border of images of 11 × 40 elements, and the stride of 3 × 2 windows over them.
#[derive(Clone, Copy)]
struct Windows {
    border: usize,
    step: usize,
}

impl Windows {
    /// Number of windows in a row.
    fn width(self) -> usize {
        (40 + 2 * self.border - 2) / self.step + 1
    }

    fn rows(self) -> usize {
        11 + 2 * self.border - 2
    }

    /// Grid of the windows of 4 channels; it is valid for the second of two products.
    fn grid<T>(self, memory: &[T]) -> Grid {
        let Windows { border, step } = self;
        let first = memory.as_ptr().wrapping_offset(-(41 * border as isize));
        let limit = |lines: [i64; 2], terms: [i64; 3], size: i64| {
            let first = vec![i64::MAX, -(border as i64)];
            Limit { first, lines: lines.to_vec(), terms: terms.to_vec(), valid: (0, size) }
        };
        let limits = vec![limit([1, 0], [0, 1, 0], 11), limit([0, step as i64], [0, 0, 1], 40)];
        Grid {
            dtype: DType::F32,
            first: vec![std::ptr::null(), first.cast()],
            lines: vec![(self.rows(), 40), (self.width(), step as isize)],
            terms: vec![(4, 440), (3, 40), (2, 1)],
            limits: if border > 0 { limits } else { vec![] },
            outside: 7,
        }
    }

    /// Index of an element of a window, if it is in memory.
    fn place(self, line: usize, term: usize) -> Option<usize> {
        let y = (line / self.width() + term / 2 % 3).checked_sub(self.border).filter(|y| *y < 11)?;
        let x = (line % self.width() * self.step + term % 2).checked_sub(self.border).filter(|x| *x < 40)?;
        Some(term / 6 * 440 + y * 40 + x)
    }
}

/// Packs a rectangle of a grid, and compares each element of the panels with its definition.
fn check<T: Number>(
    grid: &Grid,
    lines: Range<usize>,
    terms: Range<usize>,
    panel: usize,
    of: impl Fn(usize, usize) -> T::Wide,
) where
    T::Wide: PartialEq + std::fmt::Debug,
{
    let cuts = Cuts::whole(lines.len(), panel);
    let mut to = vec![T::Wide::of_bits(77); cuts.count() * panel * terms.len()];
    // SAFETY: the memory has all windows, and there is space for the panels.
    unsafe { grid.of_product::<T>(1).pack(lines.clone(), terms.clone(), cuts, to.as_mut_ptr()) };
    for (n, got) in to.iter().enumerate() {
        let (number, term, line) = (n / (panel * terms.len()), n / panel % terms.len(), n % panel);
        let (t, l) = (terms.start + term, lines.start + number * panel + line);
        let want = if l < lines.end { of(l, t) } else { T::Wide::ZERO };
        assert_eq!(*got, want, "line {l}, term {t} of {lines:?} and {terms:?}, panels of {panel}, {grid:?}");
    }
}

/// Checks lines and terms of windows, and the same grid with lines and terms swapped.
fn packed<T: Number>(of: impl Fn(usize) -> T, lines: Range<usize>, terms: Range<usize>, panel: usize, windows: Windows)
where
    T::Wide: PartialEq + std::fmt::Debug,
{
    let memory: Vec<T> = (0..4 * 11 * 40).map(&of).collect();
    let grid = windows.grid(&memory);
    let outside = T::Wide::of_bits(7);
    let element = |l: usize, t: usize| windows.place(l, t).map_or(outside, |at| memory[at].widen());
    check::<T>(&grid, lines.clone(), terms.clone(), panel, element);
    let limits = windows.grid(&memory).limits.into_iter();
    let exchanged = Grid {
        lines: grid.terms,
        terms: grid.lines,
        limits: limits.map(|l| Limit { lines: l.terms, terms: l.lines, ..l }).collect(),
        ..grid
    };
    check::<T>(&exchanged, terms, lines, panel, |l, t| element(t, l));
}

#[test]
fn each_element_has_its_place() {
    for border in [0, 1, 3] {
        let windows = |step| Windows { border, step };
        for panel in [6, 8, 14, 32] {
            for (lines, terms) in [(0..342, 0..24), (5..38, 3..4), (37..41, 5..19), (100..229, 7..24), (3..4, 0..1)] {
                packed(|i| i as f32, lines.clone(), terms.clone(), panel, windows(1));
                packed(|i| Bf16::narrow((i % 200) as f32), lines.clone(), terms.clone(), panel, windows(1));
                packed(|i| i as i64, lines, terms, panel, windows(1));
            }
            packed(|i| i as f64, 2..170, 0..24, panel, windows(2));
            packed(|i| i as f32, 0..100, 3..20, panel, windows(3));
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
        let got: Vec<usize> = within(&[limit], [at].into_iter(), |_| step, count).collect();
        assert_eq!(got, want, "{lo}..{hi} from {at} by {step}");
    }
}
