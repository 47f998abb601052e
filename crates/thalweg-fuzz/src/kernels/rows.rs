//! Random row kernels: reductions and scans by combines from a small set of associative ones, of rows computed from
//! operands, between other operations.
//!
//! Input: a seed. By the interpreter a kernel has the bits of its results on numbers, row by row; the recorded
//! operations form a program like any other.

use super::{after, before, input, record_program};
use crate::check::{Checker, ExtraChecks};
use crate::program::Input;
use fastrand::Rng;
use thalweg::kernel::{Call, Int, Over, Plain, Prepared, Real, Row, Take, and, compare, or, select, to_real};
use thalweg::{Element, Operand, Scalar, Tensor};
use thalweg_ir::{DType, ElementOp, Shape};

/// Random row kernel with its arguments.
#[derive(Debug)]
struct Case {
    dtype: DType,
    axis: usize,
    /// Two rows, the second of which broadcasts, and an operand with one element per row.
    inputs: Vec<Input>,
    scalar: f64,
    /// Choices of the elements, the reduction, the scan and the results.
    what: [usize; 4],
    reverse: bool,
    around: [usize; 2],
    /// Cache of the kernel's calls: all calls but the first are recorded at once, if possible.
    known: Prepared,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed);
        let dtype = if rng.usize(..3) == 0 { DType::F64 } else { DType::F32 };
        let rank = rng.usize(1..4);
        let mut dims: Vec<usize> = (0..rank).map(|_| rng.usize(1..7)).collect();
        let axis = rng.usize(..rank);
        // The row has one segment or several, or is longer than a block.
        dims[axis] = match rng.usize(..12) {
            0 => 5000 + rng.usize(..99),
            1..5 => rng.usize(60..300),
            5 => 0,
            _ => rng.usize(1..40),
        };
        let some = |rng: &mut Rng, dims: &[usize]| -> Vec<usize> {
            dims.iter().map(|&d| if rng.usize(..3) == 0 { 1 } else { d }).collect()
        };
        let second = some(&mut rng, &dims);
        let mut once = some(&mut rng, &dims);
        once.remove(axis);
        let shapes = [&dims[..], &second, &once];
        let inputs = shapes.iter().map(|dims| input(&mut rng, dtype, Shape::new(dims))).collect();
        let what = std::array::from_fn(|_| rng.usize(..6));
        let around = [rng.usize(..4), rng.usize(..4)];
        Case {
            dtype,
            axis,
            inputs,
            scalar: rng.f64() * 4.0 - 2.0,
            what,
            reverse: rng.bool(),
            around,
            known: Prepared::new(),
        }
    }

    /// Runs the kernel on one row: returns a row, a float and an integer.
    fn run<F: Real>(&self, x: &Row<F>, y: &Row<F>, once: F, s: F) -> (Row<F>, F, Int<F>) {
        let x = match self.what[0] {
            0 => x.map(|x| x * s),
            1 => x.zip(y).map(|(x, y)| x - y),
            2 => x.map(|x| (x + once).tanh()),
            3 => x.zip(&x.places()).map(|(x, i)| x * to_real::<F>(i) * F::lit(0.125)),
            _ => x.clone(),
        };
        let (v, i) = self.fold(&x, y);
        let h = self.scan(&x, y);
        let row = match self.what[3] {
            0 => h.map(|h| h - v),
            1 => h.zip(&x).map(|(h, x)| (x - v).exp() + h * once),
            2 => x.map(|x| x + v * s),
            _ => h,
        };
        (row, v * F::lit(0.5) + once, i)
    }

    fn fold<F: Real>(&self, x: &Row<F>, y: &Row<F>) -> (F, Int<F>) {
        let (zero, one, least) = (F::lit(0.0), F::lit(1.0), F::lit(f64::NEG_INFINITY));
        match self.what[1] {
            0 => {
                let (m, s) = x.map(|x| (x, one)).fold((least, zero), |(m1, s1), (m2, s2)| {
                    let m = m1.max(m2);
                    (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
                });
                (m + s.ln(), Int::from(0))
            }
            1 => x.zip(&x.places()).fold((least, Int::from(i32::MAX)), |(v1, i1), (v2, i2)| {
                let same = and(compare(ElementOp::Eq, v2, v1), || compare(ElementOp::Lt, i2, i1));
                select::<F, _, _, _>(or(compare(ElementOp::Gt, v2, v1), || same), || (v2, i2), || (v1, i1))
            }),
            2 => {
                let (n, sum, squares) =
                    x.map(|x| (one, x, x * x)).fold((zero, zero, zero), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
                (squares / n - (sum / n) * (sum / n), Int::from(3))
            }
            3 => {
                let product = |a: (F, F), b: (F, F)| (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0);
                let of = x.zip(y).map(|(x, y)| (x.tanh(), y.tanh()));
                (of.fold((one, zero), product).0, Int::from(1))
            }
            4 => (x.fold(zero, |a, b| a + b), Int::from(2)),
            _ => (x.fold(least, |a, b| a.max(b)), x.places().fold(0, |a, b| a + b)),
        }
    }

    fn scan<F: Real>(&self, x: &Row<F>, y: &Row<F>) -> Row<F> {
        let zero = F::lit(0.0);
        let recurrence = |(a1, b1): (F, F), (a2, b2): (F, F)| (a1 * a2, a2 * b1 + b2);
        let last = |a: F, b: F| select::<F, _, _, _>(compare(ElementOp::Gt, b, zero), || b, || a);
        let matrix = |a: [F; 4], b: [F; 4]| {
            let [p, q] = [0, 1].map(|j| b[0] * a[j] + b[1] * a[j + 2]);
            let [r, t] = [0, 1].map(|j| b[2] * a[j] + b[3] * a[j + 2]);
            [p, q, r, t]
        };
        let pairs = x.zip(y).map(|(x, y)| (x.tanh(), y));
        let matrices = x.zip(y).map(|(x, y)| [x.tanh(), F::lit(0.25), y.tanh() * F::lit(0.5), F::lit(0.5)]);
        match (self.what[2], self.reverse) {
            (0 | 1, false) => pairs.scan(recurrence).map(|(_, h)| h),
            (0 | 1, true) => pairs.scan_reverse(recurrence).map(|(_, h)| h),
            (2, false) => x.scan(last),
            (2, true) => x.scan_reverse(last),
            (3, false) => matrices.scan(matrix).map(|m| m[1]),
            (3, true) => matrices.scan_reverse(matrix).map(|m| m[2]),
            (4, false) => x.scan(|a, b| a.max(b)),
            (4, true) => x.scan_reverse(|a, b| a + b),
            _ => x.clone(),
        }
    }

    /// Calls the kernel on tensors.
    fn on(&self, x: &[Tensor]) -> (Tensor, Tensor, Tensor) {
        let operands = [
            ("x", Take::Row, Operand::Tensor(&x[0])),
            ("y", Take::Row, Operand::Tensor(&x[1])),
            ("once", Take::Number, Operand::Tensor(&x[2])),
            ("s", Take::Number, Operand::Scalar(Scalar::Float(self.scalar))),
        ];
        Call::cached(&self.known, Over::Rows(self.axis.into()), Some(&Plain::new()), "random", &operands, |call| {
            self.run(&call.row(0), &call.row(1), call.number(2), call.number(3))
        })
    }

    /// Runs the kernel on numbers; returns the elements and the single values of each row.
    fn on_numbers<T: Real<RawInt = i32> + Element + Into<f64>>(
        &self,
        x: &[Tensor],
    ) -> Result<Vec<(Vec<f64>, f64, i32)>, thalweg::Error> {
        let shape = *x[0].shape();
        let mut once = shape;
        once.dims_mut()[self.axis] = 1;
        let lines = |t: &Tensor, shape: Shape| t.broadcast_to(shape).movedim(self.axis as i64, -1).to_vec::<T>();
        let (a, b) = (lines(&x[0], shape)?, lines(&x[1], shape)?);
        let c = lines(&x[2].broadcast_to(shape.remove(self.axis)).unsqueeze(self.axis), once)?;
        let n = shape[self.axis];
        let one = |r: usize| {
            let row = |all: &[T]| Row::new(&all[r * n..][..n]);
            let (h, v, i) = self.run(&row(&a), &row(&b), c[r], T::lit(self.scalar));
            (h.elements().iter().map(|&h| h.into()).collect(), v.into(), i.get())
        };
        Ok((0..c.len()).map(one).collect())
    }
}

/// Checks the row kernel of a seed against the interpreter, in every mode.
pub fn check(checker: &Checker, seed: u64, ways: ExtraChecks) -> Result<(), String> {
    let case = Case::new(seed);
    let told = |why: String| format!("{why}\n{case:?}");
    let x = super::tensors(checker, &case.inputs)?;
    // The first call is traced, the second one comes from the cache.
    by_numbers(&case, &x).map_err(told)?;
    by_numbers(&case, &x).map_err(|why| told(format!("called again: {why}")))?;
    let made = |x: &[Tensor]| {
        let (y, v, i) = case.on(x);
        (after(&y, case.around[1]), vec![v, i])
    };
    let recorded = record_program(&case.inputs, &x, &|i, x| before(x, case.around[0] + i), &made).map_err(told)?;
    let ways = ExtraChecks { plans: ways.plans && recorded.steps.len() < 60, ..ways };
    checker.check(&recorded, ways).map_err(|why| told(format!("{why}\nas recorded:\n{}", recorded.listing())))
}

/// Checks that the interpreter gives the bits of the numbers, except for monoids of the table, which run in another
/// order.
fn by_numbers(case: &Case, x: &[Tensor]) -> Result<(), String> {
    let failed = |e: thalweg::Error| e.to_string();
    let tables = matches!(case.what[1], 4 | 5) || case.what[2] == 4;
    let (y, v, i) = thalweg::with_reference(|| {
        let (y, v, i) = case.on(x);
        let y = y.movedim(case.axis as i64, -1);
        Ok::<_, thalweg::Error>((y.to_f64_vec()?, v.to_f64_vec()?, i.to_vec::<i32>()?))
    })
    .map_err(failed)?;
    let want = match case.dtype {
        DType::F32 => case.on_numbers::<f32>(x),
        _ => case.on_numbers::<f64>(x),
    };
    let n = x[0].dims()[case.axis];
    let same = |got: f64, want: f64| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
    for (r, (row, once, place)) in want.map_err(failed)?.into_iter().enumerate() {
        if i[r] != place {
            return Err(format!("row {r}: place {} on tensors, {place} on numbers", i[r]));
        }
        if tables {
            continue;
        }
        let differs = row.iter().enumerate().find(|&(k, &want)| !same(y[r * n + k], want));
        if let Some((k, want)) = differs {
            return Err(format!("row {r} at {k}: {} on tensors, {want} on numbers", y[r * n + k]));
        }
        if !same(v[r], once) {
            return Err(format!("row {r}: {} on tensors, {once} on numbers", v[r]));
        }
    }
    Ok(())
}
