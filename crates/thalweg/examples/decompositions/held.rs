//! Properties of correct decompositions, checked on the CPU in f64: the product of the factors is the matrix, columns
//! are orthonormal, values equal those of the CPU. Shared with the tests on the emulated GPU.

use thalweg::prelude::*;

/// Matrices to decompose, on the CPU, with their properties.
pub struct Case {
    pub dtype: DType,
    /// The leading dimensions.
    pub lead: Vec<usize>,
    pub m: usize,
    pub n: usize,
}

fn wide(x: &Tensor) -> Result<Tensor, Error> {
    Ok(x.to_device(Device::cpu())?.cast(DType::F64))
}

/// A matrix with NaN in the triangle that is not read.
fn unread(x: &Tensor) -> Tensor {
    x.ones_like().tril(0).cast(DType::Bool).where_(x, f64::NAN)
}

fn largest(x: &Tensor) -> Result<f64, Error> {
    if x.numel() == 0 { Ok(0.0) } else { x.abs().amax(..).item::<f64>() }
}

impl Case {
    fn shape(&self, m: usize, n: usize) -> Vec<usize> {
        self.lead.iter().copied().chain([m, n]).collect()
    }

    fn randn(&self, m: usize, n: usize) -> Tensor {
        Tensor::randn_with(&self.shape(m, n)[..], (self.dtype, Device::cpu()))
    }

    fn eye(&self, n: usize) -> Tensor {
        Tensor::eye_with(n, n, (self.dtype, Device::cpu()))
    }

    /// The tolerance, relative to the largest element.
    fn allowed(&self) -> f64 {
        let eps = if self.dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        eps * (40.0 + 8.0 * self.m.max(self.n) as f64)
    }

    /// The error relative to the tolerance.
    fn relative_error(&self, got: &Tensor, want: &Tensor) -> Result<f64, Error> {
        if got.dims() != want.dims() {
            return Err(Error::Value(format!("shape {} and not {}", got.shape(), want.shape())));
        }
        let (got, want) = (wide(got)?, wide(want)?);
        let size = largest(&want)?.max(f64::MIN_POSITIVE);
        let off = largest(&(got - want))? / size / self.allowed();
        // NaN counts as infinite error.
        Ok(if off.is_nan() { f64::INFINITY } else { off })
    }

    /// The deviation of columns from orthonormality.
    fn angles(&self, q: &Tensor) -> Result<f64, Error> {
        let (q, k) = (wide(q)?, q.dims()[q.rank() - 1]);
        let want = Tensor::eye_with(k, k, (DType::F64, Device::cpu()));
        self.relative_error(&q.t().matmul(&q), &want.broadcast_to(&[&self.lead[..], &[k, k]].concat()[..]))
    }

    /// Runs every operation that `begin` selects on a device, and reports the error relative to the tolerance.
    pub fn all(
        &self,
        there: &dyn Fn(&Tensor) -> Result<Tensor, Error>,
        begin: &dyn Fn(&str) -> bool,
        told: &dyn Fn(&str, &Result<f64, Error>),
    ) {
        let hold = |name, f: &dyn Fn() -> Result<f64, Error>| {
            if !begin(name) {
                return;
            }
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            told(name, &caught.unwrap_or_else(|_| Err(Error::Value("it panicked".into()))));
        };
        let (m, n, k) = (self.m, self.n, self.m.min(self.n));
        let a = self.randn(m, n);
        let worst = |all: &[Result<f64, Error>]| {
            all.iter().cloned().try_fold(0.0, |worst: f64, off| Ok::<_, Error>(worst.max(off?)))
        };
        let product = |all: &[&Tensor]| -> Result<Tensor, Error> {
            let first = wide(all[0])?;
            all[1..].iter().try_fold(first, |product, x| Ok(product.matmul(&wide(x)?)))
        };
        hold("lu", &|| {
            let (p, l, u) = there(&a)?.lu();
            self.relative_error(&product(&[&p, &l, &u])?, &a)
        });
        hold("lu of a view", &|| {
            let (p, l, u) = there(&a)?.t().flip(-1).lu();
            self.relative_error(&product(&[&p, &l, &u])?, &a.t().flip(-1))
        });
        hold("qr", &|| {
            let (q, r) = there(&a)?.qr();
            let upper = self.relative_error(&wide(&r)?.triu(0), &r);
            worst(&[self.relative_error(&product(&[&q, &r])?, &a), self.angles(&q), upper])
        });
        hold("qr_complete", &|| {
            let (q, r) = there(&a)?.qr_complete();
            worst(&[self.relative_error(&product(&[&q, &r])?, &a), self.angles(&q)])
        });
        let svd = |x: &Tensor, full: bool| -> Result<f64, Error> {
            let own = there(x)?;
            let (u, s, vt) = if full { own.svd_full() } else { own.svd() };
            let thin = |u: &Tensor, axis: i64| u.narrow(axis as isize, 0, k);
            let values = x.cast(DType::F64).svdvals();
            let again = product(&[&(wide(&thin(&u, -1))? * wide(&s)?.unsqueeze(-2)), &thin(&vt, -2)])?;
            let parts = [
                ("the product", self.relative_error(&again, x)?),
                ("the angles of U", self.angles(&u)?),
                ("the angles of V", self.angles(&vt.t())?),
                ("the values", self.relative_error(&s, &values.cast(self.dtype))?),
            ];
            match parts.iter().find(|(_, off)| *off > 1.0) {
                Some((what, off)) => Err(Error::Value(format!("{what}: {off:.1} times what is allowed"))),
                None => worst(&parts.map(|(_, off)| Ok(off))),
            }
        };
        hold("svd", &|| svd(&a, false));
        hold("svd_full", &|| svd(&a, true));
        // A column that is the sum of others, and a zero matrix.
        hold("svd of lower rank", &|| {
            let x = if n > 1 { Tensor::cat(&[a.narrow(-1, 0, n - 1), a.narrow(-1, 0, 1)], -1) } else { a.clone() };
            svd(&x, false)
        });
        hold("svd of zeros", &|| {
            let (u, s, vt) = there(&a.zeros_like())?.svd();
            worst(&[self.angles(&u), self.angles(&vt.t()), self.relative_error(&s, &s.zeros_like())])
        });
        hold("svdvals", &|| self.relative_error(&there(&a)?.svdvals(), &a.cast(DType::F64).svdvals().cast(self.dtype)));
        if m != n {
            return;
        }
        // Far from singular, so that results can be compared by value.
        let good = &a * (0.5 / (n as f64).sqrt()) + self.eye(n) * 2.0;
        let b = self.randn(n, 3);
        let positive = &good.matmul(&good.t());
        let symmetric = &(&a + a.t());
        let of = |x: &Tensor| x.cast(DType::F64);
        hold("cholesky", &|| {
            let l = there(&unread(positive))?.cholesky();
            self.relative_error(&l, &of(positive).cholesky().cast(self.dtype))
        });
        hold("cholesky_solve", &|| {
            let x = there(positive)?.cholesky().cholesky_solve(&there(&b)?);
            self.relative_error(&x, &of(positive).solve(&of(&b)).cast(self.dtype))
        });
        hold("solve", &|| {
            self.relative_error(&there(&good)?.solve(&there(&b)?), &of(&good).solve(&of(&b)).cast(self.dtype))
        });
        hold("solve, one column", &|| {
            let b = b.narrow(-1, 1, 1);
            self.relative_error(&there(&good)?.t().solve(&there(&b)?), &of(&good).t().solve(&of(&b)).cast(self.dtype))
        });
        for (name, upper, unit) in [
            ("solve_triangular, lower", false, false),
            ("solve_triangular, upper", true, false),
            ("solve_unit_triangular, lower", false, true),
            ("solve_unit_triangular, upper", true, true),
        ] {
            hold(name, &|| {
                let f = |a: &Tensor, b: &Tensor| match unit {
                    true => (a * 0.25).solve_unit_triangular(b, upper),
                    false => a.solve_triangular(b, upper),
                };
                self.relative_error(&f(&there(&good)?, &there(&b)?), &f(&of(&good), &of(&b)).cast(self.dtype))
            });
        }
        hold("inv", &|| self.relative_error(&there(&good)?.inv(), &of(&good).inv().cast(self.dtype)));
        // For 256 rows it would overflow f32.
        hold("det", &|| self.relative_error(&there(&(&good * 0.5))?.det(), &of(&(&good * 0.5)).det().cast(self.dtype)));
        hold("slogdet", &|| {
            let ((sign, log), want) = (there(&a)?.slogdet(), of(&a).slogdet());
            worst(&[
                self.relative_error(&sign, &want.0.cast(self.dtype)),
                self.relative_error(&log, &want.1.cast(self.dtype)),
            ])
        });
        hold("eigh", &|| {
            let (w, v) = there(&unread(symmetric))?.eigh();
            let again = product(&[&(wide(&v)? * wide(&w)?.unsqueeze(-2)), &v.t()])?;
            let values = of(symmetric).eigvalsh().cast(self.dtype);
            worst(&[self.relative_error(&again, symmetric), self.angles(&v), self.relative_error(&w, &values)])
        });
        hold("eigvalsh", &|| {
            self.relative_error(&there(symmetric)?.eigvalsh(), &of(symmetric).eigvalsh().cast(self.dtype))
        });
    }
}

/// Operation with matrices for which it is an error.
type Failing<'a> = (&'static str, &'a dyn Fn(&Tensor) -> Tensor, &'a Tensor);

/// Error messages for a batch, by operation name: on the device, and on the CPU.
pub fn errors(there: &dyn Fn(&Tensor) -> Result<Tensor, Error>, dtype: DType) -> Vec<(&'static str, String, String)> {
    let good = Tensor::eye_with(3, 3, (dtype, Device::cpu()));
    let like = |x: [[f64; 3]; 3]| Tensor::new(x).to_device(Device::cpu()).expect("it comes back").cast(dtype);
    let batch = |bad: &Tensor| Tensor::stack(&[&good, &good, &good, &good, bad, bad], 0).reshape([2, 3, 3, 3]);
    let bad = like([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]);
    let zero = like([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]);
    let minus = like([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]);
    let nan = like([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, f64::NAN, 1.0]]);
    let endless = like([[1.0, 0.0, 0.0], [0.0, f64::INFINITY, 0.0], [0.0, 0.0, 1.0]]);
    let all: [Failing<'_>; 11] = [
        ("inv", &|x| x.inv(), &bad),
        ("solve", &|x| x.solve(&x.narrow(-1, 0, 1)), &bad),
        ("inv of zeros", &|x| x.inv(), &zero),
        ("cholesky", &|x| x.cholesky(), &minus),
        ("cholesky of NaN", &|x| x.cholesky(), &nan),
        ("cholesky of infinity", &|x| x.cholesky(), &endless),
        ("solve_triangular", &|x| x.solve_triangular(x, false), &zero),
        ("svd", &|x| x.svd().1, &nan),
        ("svdvals", &|x| x.svdvals(), &nan),
        ("eigh", &|x| x.eigh().0, &nan),
        ("eigvalsh", &|x| x.eigvalsh(), &nan),
    ];
    let said = |y: Result<Tensor, Error>| match y.and_then(|y| y.to_f64_vec()) {
        Ok(values) => format!("no error: {values:?}"),
        Err(error) => error.to_string(),
    };
    let mut told = vec![];
    for (name, f, x) in all {
        for x in [batch(x), x.clone()] {
            told.push((name, said(there(&x).map(|x| f(&x))), said(Ok(f(&x)))));
        }
    }
    told
}
