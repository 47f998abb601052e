//! Fourier transforms along one axis of slices, by `rustfft` and `realfft`.
//!
//! In: real and imaginary parts, row-major, `[outer, n, inner]`. Out: the parts of the transforms along `n`. Always
//! true: each line is transformed separately by one plan, so the distribution over threads changes no bit.

use crate::Element;
use crate::host_threads::{has_host_threads, on_host_threads};
use rayon::prelude::*;
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, FftNum, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};
use std::sync::{Arc, LazyLock, Mutex};

/// Element type with Fourier transforms: f32 or f64.
pub(super) trait Real: Element + FftNum {
    /// Converts a number to this type, rounded.
    fn narrow(x: f64) -> Self;
    /// Cache of plans for this element type.
    fn planners() -> &'static Mutex<Planners<Self>>;
}

/// Planners, which cache plans.
pub(super) struct Planners<T: FftNum> {
    complex: FftPlanner<T>,
    real: RealFftPlanner<T>,
}

macro_rules! reals {
    ($($t:ty),*) => {$(
        impl Real for $t {
            fn narrow(x: f64) -> $t {
                x as $t
            }
            fn planners() -> &'static Mutex<Planners<$t>> {
                static OWN: LazyLock<Mutex<Planners<$t>>> = LazyLock::new(|| {
                    Mutex::new(Planners { complex: FftPlanner::new(), real: RealFftPlanner::new() })
                });
                &OWN
            }
        }
    )*};
}
reals!(f32, f64);

/// Kind of a transform, by its operand and result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Forward,
    Inverse,
    /// From real numbers to the first half of their transform.
    Half,
    /// From the first half of a transform to the real numbers, times `n`.
    Real,
}

/// Transform along an axis: its kind, the number of samples, and the factor of the results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) kind: Kind,
    pub(super) n: usize,
    pub(super) scale: f64,
}

impl Pass {
    /// Number of elements of an input line.
    pub(super) fn taken(&self) -> usize {
        if self.kind == Kind::Real { self.n / 2 + 1 } else { self.n }
    }

    /// Number of elements of an output line.
    pub(super) fn given(&self) -> usize {
        if self.kind == Kind::Half { self.n / 2 + 1 } else { self.n }
    }
}

enum Plan<T> {
    Complex(Arc<dyn Fft<T>>),
    Half(Arc<dyn RealToComplex<T>>),
    Real(Arc<dyn ComplexToReal<T>>),
}

/// Transform of lines, with its plan.
struct Lines<T> {
    pass: Pass,
    plan: Plan<T>,
}

/// Scratch memory of a thread.
struct Scratch<T> {
    complex: Vec<Complex<T>>,
    real: Vec<T>,
    plan: Vec<Complex<T>>,
    /// Lines of a strip of columns: real and imaginary input, real and imaginary output.
    strip: [Vec<T>; 4],
}

impl<T> Default for Scratch<T> {
    fn default() -> Scratch<T> {
        Scratch { complex: vec![], real: vec![], plan: vec![], strip: [const { Vec::new() }; 4] }
    }
}

/// Number of columns transformed together, so that whole cache lines are used.
const STRIP: usize = 16;
/// Number of elements of the lines that are one chunk of work.
const BLOCK: usize = 4096;
/// Minimum number of elements times the logarithm of the transform size for which threads are woken.
const PARALLEL: usize = 1 << 18;

/// Transforms `[outer, n, inner]`; real operands and results have an empty imaginary part.
pub(super) fn transform<T: Real>(pass: Pass, (outer, inner): (usize, usize), x: [&[T]; 2], y: [&mut [T]; 2]) {
    if outer * inner == 0 {
        return;
    }
    let mut planners = T::planners().lock().unwrap_or_else(|e| e.into_inner());
    let plan = match pass.kind {
        Kind::Forward => Plan::Complex(planners.complex.plan_fft_forward(pass.n)),
        Kind::Inverse => Plan::Complex(planners.complex.plan_fft_inverse(pass.n)),
        Kind::Half => Plan::Half(planners.real.plan_fft_forward(pass.n)),
        Kind::Real => Plan::Real(planners.real.plan_fft_inverse(pass.n)),
    };
    drop(planners);
    let lines = Lines { pass, plan };
    let work = outer * inner * pass.n * (pass.n.ilog2() as usize + 1);
    match work >= PARALLEL && has_host_threads() {
        true => on_host_threads(|| lines.all((outer, inner), x, y, true)),
        false => lines.all((outer, inner), x, y, false),
    }
}

impl<T: Real> Lines<T> {
    fn all(&self, (outer, inner): (usize, usize), x: [&[T]; 2], y: [&mut [T]; 2], parallel: bool) {
        let (taken, given) = (self.pass.taken(), self.pass.given());
        if inner == 1 {
            let count = (BLOCK / self.pass.n).max(1);
            let parts = cut(y, count * given, outer.div_ceil(count));
            each(parts, parallel, |scratch, at, y| {
                let lines = at * count..outer.min((at + 1) * count);
                self.lines(x.map(|x| part(x, lines.start * taken, lines.len() * taken)), y, scratch);
            });
            return;
        }
        let of = |at: usize| x.map(|x| part(x, at * taken * inner, taken * inner));
        let blocks = cut(y, given * inner, outer);
        if outer >= 4 || !parallel {
            each(blocks, parallel, |scratch, at, mut y| {
                for from in (0..inner).step_by(STRIP) {
                    let columns = from..inner.min(from + STRIP);
                    self.strip(of(at), inner, columns.clone(), scratch);
                    let [.., re, im] = &scratch.strip;
                    for (y, lines) in y.iter_mut().zip([re, im]).filter(|(y, _)| !y.is_empty()) {
                        for (row, y) in y.chunks_exact_mut(inner).enumerate() {
                            let own = y[columns.clone()].iter_mut().enumerate();
                            own.for_each(|(i, v)| *v = lines[i * given + row]);
                        }
                    }
                }
            });
            return;
        }
        for (at, mut y) in blocks.into_iter().enumerate() {
            // Threads divide the columns: first the lines are computed into contiguous scratch, then they are written
            // as columns.
            let mut lines = y.each_ref().map(|y| vec![T::zero(); y.len()]);
            let [re, im] = &mut lines;
            let strips = cut([re, im], STRIP * given, inner.div_ceil(STRIP));
            each(strips, true, |scratch, strip, mut lines| {
                let columns = strip * STRIP..inner.min((strip + 1) * STRIP);
                self.strip(of(at), inner, columns, scratch);
                let [.., re, im] = &scratch.strip;
                for (to, from) in lines.iter_mut().zip([re, im]).filter(|(to, _)| !to.is_empty()) {
                    to.copy_from_slice(from);
                }
            });
            for (y, lines) in y.iter_mut().zip(&lines).filter(|(y, _)| !y.is_empty()) {
                y.par_chunks_mut(STRIP * inner).enumerate().for_each(|(block, y)| {
                    let first = block * STRIP;
                    for (column, line) in lines.chunks_exact(given).enumerate() {
                        for (row, y) in y.chunks_exact_mut(inner).enumerate() {
                            y[column] = line[first + row];
                        }
                    }
                });
            }
        }
    }

    /// Transforms some columns of `[n, inner]` line by line, into the last two buffers of the strip.
    fn strip(&self, x: [&[T]; 2], inner: usize, columns: std::ops::Range<usize>, scratch: &mut Scratch<T>) {
        let (taken, given) = (self.pass.taken(), self.pass.given());
        let mut strip = std::mem::take(&mut scratch.strip);
        let [re, im, yr, yi] = &mut strip;
        for (lines, x) in [&mut *re, &mut *im].into_iter().zip(x) {
            lines.clear();
            if x.is_empty() {
                continue;
            }
            lines.resize(columns.len() * taken, T::zero());
            for (row, x) in x.chunks_exact(inner).enumerate() {
                x[columns.clone()].iter().enumerate().for_each(|(i, v)| lines[i * taken + row] = *v);
            }
        }
        yr.resize(columns.len() * given, T::zero());
        yi.resize(if self.pass.kind == Kind::Real { 0 } else { columns.len() * given }, T::zero());
        self.lines([re, im], [yr, yi], scratch);
        scratch.strip = strip;
    }

    /// Transforms contiguous lines.
    fn lines(&self, [re, im]: [&[T]; 2], [yr, yi]: [&mut [T]; 2], scratch: &mut Scratch<T>) {
        let (taken, given, scale) = (self.pass.taken(), self.pass.given(), T::narrow(self.pass.scale));
        let Scratch { complex, real, plan: own, .. } = scratch;
        let zero = Complex::new(T::zero(), T::zero());
        match &self.plan {
            Plan::Complex(plan) => {
                own.resize(plan.get_inplace_scratch_len(), zero);
                complex.clear();
                complex.extend(re.iter().zip(im).map(|(re, im)| Complex::new(*re, *im)));
                plan.process_with_scratch(complex, own);
                store(complex, yr, yi, scale);
            }
            Plan::Half(plan) => {
                own.resize(plan.get_scratch_len(), zero);
                complex.resize(given, zero);
                for ((re, yr), yi) in
                    re.chunks_exact(taken).zip(yr.chunks_exact_mut(given)).zip(yi.chunks_exact_mut(given))
                {
                    real.clear();
                    real.extend_from_slice(re);
                    plan.process_with_scratch(real, complex, own).expect("the lengths are the plan's");
                    store(complex, yr, yi, scale);
                }
            }
            Plan::Real(plan) => {
                own.resize(plan.get_scratch_len(), zero);
                let even = self.pass.n.is_multiple_of(2);
                for ((re, im), y) in re.chunks_exact(taken).zip(im.chunks_exact(taken)).zip(yr.chunks_exact_mut(given))
                {
                    complex.clear();
                    complex.extend(re.iter().zip(im).map(|(re, im)| Complex::new(*re, *im)));
                    // These elements are real in the transform of real numbers.
                    complex[0].im = T::zero();
                    if even {
                        complex[taken - 1].im = T::zero();
                    }
                    plan.process_with_scratch(complex, y, own).expect("the lengths are the plan's");
                    y.iter_mut().for_each(|v| *v = *v * scale);
                }
            }
        }
    }
}

fn store<T: Real>(from: &[Complex<T>], re: &mut [T], im: &mut [T], scale: T) {
    for ((z, re), im) in from.iter().zip(re).zip(im) {
        (*re, *im) = (z.re * scale, z.im * scale);
    }
}

/// Range of a slice, which may be empty.
fn part<T>(x: &[T], from: usize, count: usize) -> &[T] {
    if x.is_empty() { x } else { &x[from..from + count] }
}

/// Splits both slices into `count` chunks of `size`, the last one possibly smaller; an empty slice into empty chunks.
fn cut<T>(y: [&mut [T]; 2], size: usize, count: usize) -> Vec<[&mut [T]; 2]> {
    let mut rest = y;
    let mut next = || {
        rest.each_mut().map(|left| {
            let all = std::mem::take(left);
            let (own, behind) = all.split_at_mut(size.min(all.len()));
            *left = behind;
            own
        })
    };
    (0..count).map(|_| next()).collect()
}

/// Calls `f` for each chunk, with its index and scratch that calls reuse.
fn each<T: Real>(parts: Vec<[&mut [T]; 2]>, parallel: bool, f: impl Fn(&mut Scratch<T>, usize, [&mut [T]; 2]) + Sync) {
    if parallel {
        return parts.into_par_iter().enumerate().for_each_init(Scratch::default, |s, (at, y)| f(s, at, y));
    }
    let mut scratch = Scratch::default();
    parts.into_iter().enumerate().for_each(|(at, y)| f(&mut scratch, at, y));
}
