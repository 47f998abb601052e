//! Fourier transforms that replace cuFFT's: each result by its defining sum, in f64.

use crate::driver::Lines;
use std::f64::consts::TAU;
use thalweg_runtime::FourierKind;

/// Bytes of the input and the output lines.
pub(super) fn bytes(lines: &Lines) -> [usize; 2] {
    let size = if lines.double { 8 } else { 4 };
    let of = |n: usize, real: bool| lines.count * n * size * if real { 1 } else { 2 };
    let kind = lines.kind;
    [of(kind.taken(lines.n), kind == FourierKind::Half), of(kind.given(lines.n), kind == FourierKind::Real)]
}

/// Transforms all lines from address `from` to address `to`.
///
/// # Safety
/// Both addresses have [`bytes`] of memory, of numbers of the type, which nobody else uses.
pub(super) unsafe fn run(lines: &Lines, from: u64, to: u64) {
    let Lines { kind, n, count, .. } = *lines;
    let (taken, given) = (kind.taken(n), kind.given(n));
    let [real_in, real_out] = [kind == FourierKind::Half, kind == FourierKind::Real];
    let sign = if matches!(kind, FourierKind::Inverse | FourierKind::Real) { 1.0 } else { -1.0 };
    for line in 0..count {
        // SAFETY: the caller's promise.
        let get = |i: usize| unsafe { read(lines, from, i) };
        let x: Vec<(f64, f64)> = (0..taken)
            .map(|k| line * taken + k)
            .map(|i| if real_in { (get(i), 0.0) } else { (get(2 * i), get(2 * i + 1)) })
            .collect();
        // The missing half follows by symmetry.
        let at = |k: usize| if k < taken { x[k] } else { (x[n - k].0, -x[n - k].1) };
        for j in 0..given {
            let (mut re, mut im) = (0.0, 0.0);
            for k in 0..n {
                let ((a, b), (sin, cos)) = (at(k), (sign * TAU * ((j * k) % n) as f64 / n as f64).sin_cos());
                re += a * cos - b * sin;
                im += a * sin + b * cos;
            }
            let i = line * given + j;
            // SAFETY: the caller's promise.
            unsafe {
                if real_out {
                    write(lines, to, i, re);
                } else {
                    write(lines, to, 2 * i, re);
                    write(lines, to, 2 * i + 1, im);
                }
            }
        }
    }
}

unsafe fn read(lines: &Lines, from: u64, i: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { if lines.double { *(from as *const f64).add(i) } else { f64::from(*(from as *const f32).add(i)) } }
}

unsafe fn write(lines: &Lines, to: u64, i: usize, v: f64) {
    // SAFETY: the caller's promise.
    unsafe { if lines.double { *(to as *mut f64).add(i) = v } else { *(to as *mut f32).add(i) = v as f32 } }
}
