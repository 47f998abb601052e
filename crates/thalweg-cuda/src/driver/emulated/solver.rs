//! Decompositions that replace cuSOLVER's and cuBLAS's: textbook algorithms in f64, one matrix at a time.
//!
//! Matrices are column-major, and parts that the library does not modify are not modified. Where its behaviour is
//! undefined (a matrix with NaN, say) any result is possible.

use crate::driver::{BatchBuffer, Matrices, Routine, RoutineBuffers};

/// A column-major matrix in device memory.
#[derive(Clone, Copy)]
struct ColumnMajor {
    at: u64,
    /// Number of rows, also its leading dimension.
    rows: usize,
    double: bool,
}

impl ColumnMajor {
    fn get(self, i: usize, j: usize) -> f64 {
        let at = j * self.rows + i;
        // SAFETY: `reaches` was checked, and by the promise of `run`'s caller nobody else uses it.
        unsafe {
            match self.double {
                true => *(self.at as *const f64).add(at),
                false => f64::from(*(self.at as *const f32).add(at)),
            }
        }
    }

    fn set(self, i: usize, j: usize, v: f64) {
        let at = j * self.rows + i;
        // SAFETY: as above.
        unsafe {
            match self.double {
                true => *(self.at as *mut f64).add(at) = v,
                false => *(self.at as *mut f32).add(at) = v as f32,
            }
        }
    }

    fn read(self, columns: usize) -> Dense {
        Dense::new(self.rows, columns, |i, j| self.get(i, j))
    }

    fn write(self, x: &Dense) {
        for j in 0..x.columns {
            for i in 0..x.rows {
                self.set(i, j, x.at(i, j));
            }
        }
    }
}

/// Dense matrix in host memory, in f64, which the algorithms modify.
#[derive(Clone)]
struct Dense {
    rows: usize,
    columns: usize,
    x: Vec<f64>,
}

impl Dense {
    fn new(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Dense {
        let x = (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| f(i, j)).collect();
        Dense { rows, columns, x }
    }

    fn identity(rows: usize, columns: usize) -> Dense {
        Dense::new(rows, columns, |i, j| f64::from(u8::from(i == j)))
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.x[j * self.rows + i]
    }

    fn of(&mut self, i: usize, j: usize) -> &mut f64 {
        &mut self.x[j * self.rows + i]
    }

    fn column(&self, j: usize) -> &[f64] {
        &self.x[j * self.rows..][..self.rows]
    }

    /// Rotates columns i and j to `c i - s j` and `s i + c j`.
    fn turn(&mut self, i: usize, j: usize, c: f64, s: f64) {
        for r in 0..self.rows {
            let (a, b) = (self.at(r, i), self.at(r, j));
            *self.of(r, i) = c * a - s * b;
            *self.of(r, j) = s * a + c * b;
        }
    }

    /// Rotates rows i and j in the same way.
    fn turn_rows(&mut self, i: usize, j: usize, c: f64, s: f64) {
        for k in 0..self.columns {
            let (a, b) = (self.at(i, k), self.at(j, k));
            *self.of(i, k) = c * a - s * b;
            *self.of(j, k) = s * a + c * b;
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Cosine and sine of the rotation that diagonalizes `[[a, c], [c, b]]`.
fn diagonal(a: f64, b: f64, c: f64) -> (f64, f64) {
    let zeta = (b - a) / (2.0 * c);
    let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
    let cosine = 1.0 / (1.0 + t * t).sqrt();
    (cosine, cosine * t)
}

/// Maximum number of sweeps of Jacobi rotations.
const SWEEPS: usize = 60;

/// Singular values, largest first, and vectors of a matrix with no more columns than rows (one-sided Jacobi). U has
/// `left` columns.
fn singular(mut a: Dense, left: usize) -> (Dense, Vec<f64>, Dense) {
    let n = a.columns;
    let mut v = Dense::identity(n, n);
    for _ in 0..SWEEPS {
        let mut turned = false;
        for i in 0..n {
            for j in i + 1..n {
                let (aa, bb, ab) =
                    (dot(a.column(i), a.column(i)), dot(a.column(j), a.column(j)), dot(a.column(i), a.column(j)));
                if ab.abs() > 1e-17 * (aa * bb).sqrt() && ab != 0.0 {
                    let (c, s) = diagonal(aa, bb, ab);
                    a.turn(i, j, c, s);
                    v.turn(i, j, c, s);
                    turned = true;
                }
            }
        }
        if !turned {
            break;
        }
    }
    let lengths: Vec<f64> = (0..n).map(|j| dot(a.column(j), a.column(j)).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| lengths[j].total_cmp(&lengths[i]));
    let s: Vec<f64> = order.iter().map(|&j| lengths[j]).collect();
    let small = s.first().map_or(0.0, |s| s * 1e-15);
    let given = |i: usize, k: usize| if k < n && s[k] > small { a.at(i, order[k]) / s[k] } else { 0.0 };
    let mut u = Dense::new(a.rows, left, given);
    // Columns of length zero, and those beyond A's columns, are completed orthogonally.
    for k in 0..left {
        let mut unit = 0;
        while dot(u.column(k), u.column(k)) < 0.5 {
            let mut e: Vec<f64> = (0..a.rows).map(|i| f64::from(u8::from(i == unit))).collect();
            for _ in 0..2 {
                for other in (0..left).filter(|&o| o != k) {
                    let along = dot(&e, u.column(other));
                    e.iter_mut().zip(u.column(other)).for_each(|(e, u)| *e -= along * u);
                }
            }
            let length = dot(&e, &e).sqrt();
            if length > 1e-3 {
                (0..a.rows).for_each(|i| *u.of(i, k) = e[i] / length);
            }
            unit += 1;
        }
    }
    let turned = Dense::new(n, n, |i, k| v.at(i, order[k]));
    (u, s, turned)
}

/// Eigenvalues, smallest first, and eigenvectors of a symmetric matrix (Jacobi).
fn symmetric(mut a: Dense) -> (Vec<f64>, Dense) {
    let n = a.columns;
    let mut v = Dense::identity(n, n);
    for _ in 0..SWEEPS {
        let mut turned = false;
        for i in 0..n {
            for j in i + 1..n {
                let off = a.at(i, j);
                if off.abs() > 1e-18 * (a.at(i, i).abs() + a.at(j, j).abs()) {
                    let (c, s) = diagonal(a.at(i, i), a.at(j, j), off);
                    a.turn(i, j, c, s);
                    a.turn_rows(i, j, c, s);
                    v.turn(i, j, c, s);
                    turned = true;
                }
            }
        }
        if !turned {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a.at(i, i).total_cmp(&a.at(j, j)));
    (order.iter().map(|&i| a.at(i, i)).collect(), Dense::new(n, n, |i, k| v.at(i, order[k])))
}

/// Computes U of `A = Uᵀ U` in the upper half; returns the order of the first minor that is not positive, or 0.
fn cholesky(a: &mut Dense) -> usize {
    for j in 0..a.columns {
        for i in 0..=j {
            let sum = a.at(i, j) - dot(&a.column(i)[..i], &a.column(j)[..i]);
            if i == j {
                if sum <= 0.0 {
                    return j + 1;
                }
                *a.of(j, j) = sum.sqrt();
            } else {
                *a.of(i, j) = sum / a.at(i, i);
            }
        }
    }
    0
}

/// Replaces A by L and U; returns the exchanged rows, and the first zero pivot, counted from 1.
fn lu(a: &mut Dense) -> (Vec<usize>, usize) {
    let (mut exchanged, mut zero) = (vec![], 0);
    for k in 0..a.rows.min(a.columns) {
        let mut p = k;
        for i in k..a.rows {
            if a.at(i, k).abs() > a.at(p, k).abs() {
                p = i;
            }
        }
        exchanged.push(p);
        for j in 0..a.columns {
            let (x, y) = (a.at(k, j), a.at(p, j));
            (*a.of(k, j), *a.of(p, j)) = (y, x);
        }
        let pivot = a.at(k, k);
        if pivot == 0.0 {
            zero = if zero == 0 { k + 1 } else { zero };
            continue;
        }
        for i in k + 1..a.rows {
            let factor = a.at(i, k) / pivot;
            *a.of(i, k) = factor;
            for j in k + 1..a.columns {
                *a.of(i, j) -= factor * a.at(k, j);
            }
        }
    }
    (exchanged, zero)
}

/// Replaces A by R, and reflectors `1 - tau v vᵀ` below its diagonal; returns the factors tau.
fn qr(a: &mut Dense) -> Vec<f64> {
    let mut factors = vec![];
    for k in 0..a.rows.min(a.columns) {
        let (alpha, rest) = (a.at(k, k), dot(&a.column(k)[k + 1..], &a.column(k)[k + 1..]));
        if rest == 0.0 {
            factors.push(0.0);
            continue;
        }
        let beta = -alpha.signum() * (alpha * alpha + rest).sqrt();
        let tau = (beta - alpha) / beta;
        (k + 1..a.rows).for_each(|i| *a.of(i, k) /= alpha - beta);
        *a.of(k, k) = beta;
        for j in k + 1..a.columns {
            reflect(&a.clone(), k, tau, |i| a.x[j * a.rows + i], k).into_iter().for_each(|(i, v)| *a.of(i, j) = v);
        }
        factors.push(tau);
    }
    factors
}

/// Computes `x - tau v (vᵀ x)` from row k on, with v in column k.
fn reflect(a: &Dense, k: usize, tau: f64, x: impl Fn(usize) -> f64, from: usize) -> Vec<(usize, f64)> {
    let v = |i: usize| if i == k { 1.0 } else { a.at(i, k) };
    let along: f64 = (from..a.rows).map(|i| v(i) * x(i)).sum();
    (from..a.rows).map(|i| (i, x(i) - tau * v(i) * along)).collect()
}

/// Ranges of memory that a routine accesses: start addresses, and numbers of bytes.
pub(super) fn reaches(of: &Matrices, places: &RoutineBuffers) -> Vec<(u64, usize)> {
    let size = if of.double { 8 } else { 4 };
    let mut all = vec![];
    let mut part = |place: BatchBuffer, bytes: usize| {
        (0..of.count).for_each(|i| all.push((place.at + (place.step * i) as u64, bytes)));
        if place.list != 0 {
            all.push((place.list, 8 * of.count));
        }
    };
    match of.routine {
        Routine::Cholesky { n } => part(places.a, n * n * size),
        Routine::Lu { m, n } => {
            part(places.a, m * n * size);
            part(places.b, 4 * m.min(n));
        }
        Routine::Solve { n, columns } => {
            part(places.a, n * n * size);
            part(places.b, 4 * n);
            part(places.c, n * columns * size);
        }
        Routine::Qr { m, n } => {
            part(places.a, m * n * size);
            part(places.b, m.min(n) * size);
        }
        Routine::Reflections { m, columns, k } => {
            part(places.a, m * columns * size);
            part(places.b, k * size);
        }
        Routine::Symmetric { n, .. } => {
            part(places.a, n * n * size);
            part(places.b, n * size);
        }
        Routine::Singular { m, n, left } => {
            part(places.a, m * n * size);
            part(places.b, n * size);
            part(places.c, m * left.max(if of.batched { m } else { n }) * size);
            part(places.d, n * n * size);
        }
        Routine::Triangular { n, columns, .. } => {
            part(places.a, n * n * size);
            part(places.c, n * columns * size);
        }
    }
    all.push((places.infos, 4 * of.count));
    all.push((places.work, 64 * of.count));
    all
}

/// Runs a routine over all matrices.
///
/// # Safety
/// All ranges of [`reaches`] are memory with elements of the dtype, which nobody else uses.
pub(super) unsafe fn run(of: &Matrices, places: &RoutineBuffers) {
    for i in 0..of.count {
        // The matrices of a batched call are at the addresses in the list.
        let at = |place: BatchBuffer| match (of.batched, place.list) {
            // SAFETY: the caller's promise.
            (true, list) if list != 0 => unsafe { *(list as *const u64).add(i) },
            _ => place.at + (place.step * i) as u64,
        };
        let part = |place: BatchBuffer, rows: usize| ColumnMajor { at: at(place), rows, double: of.double };
        // SAFETY: the caller's promise.
        let info = |value: usize| unsafe { *(places.infos as *mut i32).add(i) = value as i32 };
        let pivots = at(places.b) as *mut i32;
        match of.routine {
            Routine::Cholesky { n } => {
                let a = part(places.a, n);
                let mut x = Dense::new(n, n, |i, j| a.get(i.max(j), i.min(j)));
                info(cholesky(&mut x));
                // Like the library, whose batched call leaves the other half undefined.
                let other = |i: usize, j: usize| if of.batched { f64::NAN } else { a.get(i, j) };
                a.write(&Dense::new(n, n, |i, j| if i < j { other(i, j) } else { x.at(j, i) }));
            }
            Routine::Lu { m, n } => {
                let mut x = part(places.a, m).read(n);
                let (exchanged, zero) = lu(&mut x);
                part(places.a, m).write(&x);
                for (k, &p) in exchanged.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { *pivots.add(k) = p as i32 + 1 };
                }
                info(zero);
            }
            Routine::Solve { n, columns } => {
                let (a, c) = (part(places.a, n).read(n), part(places.c, n));
                let mut x = c.read(columns);
                for j in 0..columns {
                    for k in 0..n {
                        // SAFETY: the caller's promise.
                        let p = unsafe { *pivots.add(k) } as usize - 1;
                        x.x.swap(j * n + k, j * n + p);
                    }
                    for k in 0..n {
                        *x.of(k, j) -= (0..k).map(|i| a.at(k, i) * x.at(i, j)).sum::<f64>();
                    }
                    for k in (0..n).rev() {
                        let rest: f64 = (k + 1..n).map(|i| a.at(k, i) * x.at(i, j)).sum();
                        *x.of(k, j) = (x.at(k, j) - rest) / a.at(k, k);
                    }
                }
                c.write(&x);
            }
            Routine::Qr { m, n } => {
                let mut x = part(places.a, m).read(n);
                let factors = qr(&mut x);
                part(places.a, m).write(&x);
                factors.iter().enumerate().for_each(|(k, &tau)| part(places.b, factors.len()).set(k, 0, tau));
                info(0);
            }
            Routine::Reflections { m, columns, k } => {
                let (v, b) = (part(places.a, m).read(columns), part(places.b, k));
                let mut q = Dense::identity(m, columns);
                for r in (0..k).rev() {
                    for j in 0..columns {
                        let reflected = reflect(&v, r, b.get(r, 0), |i| q.at(i, j), r);
                        reflected.into_iter().for_each(|(i, x)| *q.of(i, j) = x);
                    }
                }
                part(places.a, m).write(&q);
                info(0);
            }
            Routine::Symmetric { n, vectors } => {
                let a = part(places.a, n);
                let (values, v) = symmetric(Dense::new(n, n, |i, j| a.get(i.min(j), i.max(j))));
                values.iter().enumerate().for_each(|(k, &w)| part(places.b, n).set(k, 0, w));
                // Without vectors A is destroyed.
                a.write(&if vectors { v } else { Dense::new(n, n, |_, _| f64::NAN) });
                info(0);
            }
            Routine::Singular { m, n, left } => {
                let a = part(places.a, m);
                let (u, s, v) = singular(a.read(n), left);
                s.iter().enumerate().for_each(|(k, &s)| part(places.b, n).set(k, 0, s));
                if left > 0 {
                    part(places.c, m).write(&u);
                    part(places.d, n).write(&v);
                }
                a.write(&Dense::new(m, n, |_, _| f64::NAN));
                info(0);
            }
            Routine::Triangular { n, columns, upper, transposed, unit } => {
                let (a, c) = (part(places.a, n), part(places.c, columns));
                let of_a = |i: usize, j: usize| if transposed { a.get(j, i) } else { a.get(i, j) };
                let mut x = c.read(n);
                // X A = B: column j of X depends on the columns for which A's column j has elements.
                let forwards = upper != transposed;
                for step in 0..n {
                    let j = if forwards { step } else { n - 1 - step };
                    let others = if forwards { 0..j } else { j + 1..n };
                    for r in 0..columns {
                        let rest: f64 = others.clone().map(|k| x.at(r, k) * of_a(k, j)).sum();
                        let pivot = if unit { 1.0 } else { of_a(j, j) };
                        *x.of(r, j) = (x.at(r, j) - rest) / pivot;
                    }
                }
                c.write(&x);
            }
        }
    }
}
