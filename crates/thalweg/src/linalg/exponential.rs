//! The exponential of one matrix: a Padé approximant of the scaled matrix, then repeated squaring.
//!
//! N. J. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005): the degree follows from
//! the 1-norm, so that the approximant is exact to f64's rounding. f32 is computed in f64, too.

use super::each::{EachMatrix, Real, ResultShape};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};

#[derive(Clone, Copy)]
pub(super) struct Exponential;

impl EachMatrix<1, 1> for Exponential {
    const NAME: &'static str = "matrix_exp";

    fn parts(&self, [(n, _)]: [(usize, usize); 1]) -> [ResultShape; 1] {
        [ResultShape::Matrix(n, n)]
    }

    fn run<T: Real>(&self, [a]: [MatRef<'_, T>; 1], [mut y]: [MatMut<'_, T>; 1], par: Par) -> Result<(), String> {
        let n = a.nrows();
        let wide = Mat::from_fn(n, n, |i, j| a[(i, j)].wide());
        let result = match wide.as_ref().is_all_finite() {
            true => exponential(wide, par),
            // As every power series of the matrix.
            false => Mat::from_fn(n, n, |_, _| f64::NAN),
        };
        for i in 0..n {
            for j in 0..n {
                y[(i, j)] = T::narrow(result[(i, j)]);
            }
        }
        Ok(())
    }
}

/// Padé approximants of low degree: the maximum 1-norm for which each is exact to rounding, and the coefficients of its
/// numerator.
const LOW: [(f64, &[f64]); 4] = [
    (1.495585217958292e-2, &[120.0, 60.0, 12.0, 1.0]),
    (2.53939833006323e-1, &[30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0]),
    (9.504178996162932e-1, &[17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0]),
    (
        2.097847961257068,
        &[17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0, 110880.0, 3960.0, 90.0, 1.0],
    ),
];

const THIRTEEN: (f64, [f64; 14]) = (
    5.371920351148152,
    [
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ],
);

fn product(a: &Mat<f64>, b: &Mat<f64>, par: Par) -> Mat<f64> {
    let mut y = Mat::zeros(a.nrows(), b.ncols());
    matmul(y.as_mut(), Accum::Replace, a.as_ref(), b.as_ref(), 1.0, par);
    y
}

/// Linear combination of matrices and `identity` times the identity.
fn sum(n: usize, identity: f64, terms: &[(&Mat<f64>, f64)]) -> Mat<f64> {
    Mat::from_fn(n, n, |i, j| {
        let own = if i == j { identity } else { 0.0 };
        terms.iter().fold(own, |s, (m, c)| s + m[(i, j)] * c)
    })
}

fn exponential(a: Mat<f64>, par: Par) -> Mat<f64> {
    let n = a.nrows();
    let norm = (0..n).map(|j| (0..n).map(|i| a[(i, j)].abs()).sum::<f64>()).fold(0.0, f64::max);
    if let Some((_, c)) = LOW.iter().find(|(bound, _)| norm <= *bound) {
        let square = product(&a, &a, par);
        let mut powers = vec![square];
        while 2 * (powers.len() + 1) < c.len() {
            powers.push(product(&powers[powers.len() - 1], &powers[0], par));
        }
        let of = |first: usize| {
            let terms: Vec<_> = powers.iter().enumerate().map(|(k, m)| (m, c[2 * k + 2 + first])).collect();
            sum(n, c[first], &terms)
        };
        return quotient(product(&a, &of(1), par), of(0), par);
    }
    let (bound, c) = THIRTEEN;
    let squarings = (norm / bound).log2().ceil().max(0.0) as i32;
    let scale = 0.5f64.powi(squarings);
    let a = Mat::from_fn(n, n, |i, j| a[(i, j)] * scale);
    let a2 = product(&a, &a, par);
    let a4 = product(&a2, &a2, par);
    let a6 = product(&a4, &a2, par);
    let half = |first: usize| {
        let high = sum(n, 0.0, &[(&a6, c[12 + first]), (&a4, c[10 + first]), (&a2, c[8 + first])]);
        let high = product(&a6, &high, par);
        sum(n, c[first], &[(&high, 1.0), (&a6, c[6 + first]), (&a4, c[4 + first]), (&a2, c[2 + first])])
    };
    let mut y = quotient(product(&a, &half(1), par), half(0), par);
    for _ in 0..squarings {
        y = product(&y, &y, par);
    }
    y
}

/// `(V - U)⁻¹ (V + U)`.
fn quotient(u: Mat<f64>, v: Mat<f64>, par: Par) -> Mat<f64> {
    let mut y = Mat::from_fn(u.nrows(), u.nrows(), |i, j| v[(i, j)] + u[(i, j)]);
    let below = Mat::from_fn(u.nrows(), u.nrows(), |i, j| v[(i, j)] - u[(i, j)]);
    super::factors::divide(below.as_ref(), y.as_mut(), par);
    y
}
