//! Consistency of the table: expansions agree with meanings, derivatives with differences.

use super::*;

/// Evaluator of expressions in f64 as they are built.
#[derive(Default)]
struct Evaluate(Vec<f64>);

impl Evaluate {
    fn value(&mut self, v: f64) -> Expr {
        self.0.push(v);
        Expr(self.0.len() as u32 - 1)
    }
}

impl Build for Evaluate {
    fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr {
        let x: Vec<f64> = args.iter().map(|a| self.0[a.0 as usize]).collect();
        let v = match op.row().meaning.float {
            Some(f) => f(&x),
            None => {
                (op.row().meaning.int.unwrap())(&x.iter().map(|&v| v as i64).collect::<Vec<_>>(), DType::Bool) as f64
            }
        };
        self.value(v)
    }
    fn constant(&mut self, _: Expr, value: f64) -> Expr {
        self.value(value)
    }
}

const POINTS: &[f64] = &[
    0.0,
    -0.0,
    0.3,
    -0.3,
    0.75,
    -0.9,
    1.0,
    -1.0,
    1.5,
    2.5,
    -2.5,
    3.0,
    7.25,
    17.0,
    -30.0,
    60.0,
    1e-9,
    1e12,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn tuples(arity: usize) -> Vec<Vec<f64>> {
    let mut out: Vec<Vec<f64>> = vec![vec![]];
    for _ in 0..arity {
        out = out.iter().flat_map(|t| POINTS.iter().map(|&p| [t.clone(), vec![p]].concat())).collect();
    }
    out
}

#[test]
fn rows_stand_at_their_discriminants() {
    assert_eq!(ROWS.len(), ElementOp::ALL.len());
    for (i, row) in ROWS.iter().enumerate() {
        assert_eq!(row.op as usize, i, "{}", row.name);
        assert_eq!(ElementOp::from_name(row.name), Some(row.op));
        assert!(row.meaning.float.is_some() || row.meaning.int.is_some());
        assert_eq!(row.takes.has(DType::F32), row.meaning.float.is_some(), "{}", row.name);
    }
}

#[test]
fn expansions_mean_what_the_row_means() {
    for row in ROWS {
        let (Some(expand), Some(f)) = (row.expand, row.meaning.float) else { continue };
        for x in tuples(row.arity) {
            let mut g = Evaluate::default();
            let args: Vec<Expr> = x.iter().map(|&v| g.value(v)).collect();
            let y = expand(&mut g, &args);
            let (got, want) = (g.0[y.0 as usize], f(&x));
            // hypot(inf, NaN) and friends follow IEEE in both; signs of zero are compared by value.
            let close = got == want || (got.is_nan() && want.is_nan()) || ((got - want) / want).abs() < 1e-11;
            assert!(close, "{}{x:?}: expansion {got}, meaning {want}", row.name);
        }
    }
}

/// The sinh of -0 is -0, and so on: other functions of the front depend on the side of a branch cut.
#[test]
fn expansions_keep_the_sign_of_zero() {
    let odd = [ElementOp::Tan, ElementOp::Asin, ElementOp::Sinh, ElementOp::Asinh, ElementOp::Atanh];
    for row in odd.map(ElementOp::row) {
        let Some(expand) = row.expand else { continue };
        for zero in [0.0f64, -0.0] {
            let mut g = Evaluate::default();
            let x = g.value(zero);
            let y = expand(&mut g, &[x]);
            assert_eq!(g.0[y.0 as usize].to_bits(), zero.to_bits(), "{} of {zero}", row.name);
        }
    }
}

#[test]
fn derivatives_agree_with_central_differences() {
    // Points away from kinks and poles of every function in the table.
    let points = [[0.37, 0.61, 0.83], [-0.52, 0.29, 0.71], [0.91, -0.44, 0.15], [0.66, 0.58, -0.35]];
    for row in ROWS {
        let (Some(d), Some(f)) = (row.derivative, row.meaning.float) else { continue };
        for p in points {
            let mut x: Vec<f64> = p[..row.arity].to_vec();
            match row.op {
                ElementOp::Acosh => x[0] = 1.5 + x[0].abs(),
                ElementOp::Sqrt
                | ElementOp::Rsqrt
                | ElementOp::Log
                | ElementOp::Log2
                | ElementOp::Log10
                | ElementOp::Pow => x[0] = x[0].abs(),
                ElementOp::Where => x[0] = (x[0] > 0.0) as u8 as f64,
                ElementOp::Clamp => x[1] = -x[1].abs(),
                _ => {}
            }
            let mut g = Evaluate::default();
            let args: Vec<Expr> = x.iter().map(|&v| g.value(v)).collect();
            let y = g.value(f(&x));
            for (i, partial) in d(&mut g, &args, y).into_iter().enumerate() {
                let Some(partial) = partial else { continue };
                let h = 1e-6;
                let at = |dx: f64| {
                    let mut x = x.clone();
                    x[i] += dx;
                    f(&x)
                };
                let want = (at(h) - at(-h)) / (2.0 * h);
                let got = g.0[partial.0 as usize];
                assert!(
                    (got - want).abs() <= 1e-7 * want.abs().max(1.0),
                    "∂{}/∂x{i} at {x:?}: {got}, difference {want}",
                    row.name
                );
            }
        }
    }
}

/// Requirements of a row: floats have either a derivative or `flat`, library functions a permitted error.
#[test]
fn every_row_says_what_its_derivative_is() {
    for row in ROWS {
        let floats = row.meaning.float.is_some() && row.output == Output::Same;
        assert_eq!(floats, row.derivative.is_some() || row.flat, "{}: a derivative, or flat", row.name);
        assert!(row.derivative.is_none() || !row.flat, "{}: flat, and with a derivative", row.name);
        assert!(!row.function || row.ulps > 0, "{}: a function that is rounded correctly", row.name);
    }
}

/// Left and right slopes at a point along one argument, if finite.
fn slopes(f: fn(&[f64]) -> f64, x: &[f64], along: usize) -> Option<[f64; 2]> {
    let slope = |h: f64| {
        let mut moved = x.to_vec();
        moved[along] += h;
        (f(&moved) - f(x)) / h
    };
    let side = |sign: f64| {
        let (far, near) = (slope(sign * 1e-5), slope(sign * 1e-6));
        (far.is_finite() && (far - near).abs() < 1e-3).then_some(near)
    };
    Some([side(-1.0)?, side(1.0)?])
}

#[test]
fn a_kink_has_a_stated_choice_that_the_derivative_keeps() {
    for row in ROWS {
        let (Some(d), Some(f)) = (row.derivative, row.meaning.float) else { continue };
        let mut kinks = 0;
        for x in tuples(row.arity).into_iter().filter(|x| x.iter().all(|v| *v == 0.0 || (0.1..3.0).contains(&v.abs())))
        {
            // A condition is not a number, and crossing bounds are unspecified.
            if row.op == ElementOp::Where || row.op == ElementOp::Clamp && x[1] >= x[2] {
                continue;
            }
            for along in 0..row.arity {
                let Some([left, right]) = slopes(f, &x, along) else { continue };
                if (left - right).abs() < 1e-2 {
                    continue;
                }
                kinks += 1;
                let mut g = Evaluate::default();
                let args: Vec<Expr> = x.iter().map(|&v| g.value(v)).collect();
                let y = g.value(f(&x));
                let Some(partial) = d(&mut g, &args, y)[along] else { continue };
                let got = g.0[partial.0 as usize];
                let between = got >= left.min(right) - 1e-3 && got <= left.max(right) + 1e-3;
                assert!(between || got.is_nan(), "{}{x:?}: {got} along {along}, from {left} to {right}", row.name);
                assert_eq!(got.is_nan(), row.kink.is_some_and(|k| k.starts_with("NaN")), "{}{x:?}", row.name);
            }
        }
        assert_eq!(kinks > 0, row.kink.is_some(), "{}: {kinks} kinks, stated: {:?}", row.name, row.kink);
    }
}

#[test]
fn integer_corners() {
    let i = |op: ElementOp, x: &[i64], d: DType| d.wrap((op.row().meaning.int.unwrap())(x, d));
    assert_eq!(i(ElementOp::Div, &[7, 0], DType::I32), 0);
    assert_eq!(i(ElementOp::Div, &[i64::MIN, -1], DType::I64), i64::MIN);
    assert_eq!(i(ElementOp::FloorDiv, &[-7, 2], DType::I32), -4);
    assert_eq!(i(ElementOp::Rem, &[-7, 3], DType::I32), 2);
    assert_eq!(i(ElementOp::Rem, &[7, -3], DType::I32), -2);
    assert_eq!(i(ElementOp::Shl, &[1, 8], DType::U8), 0);
    assert_eq!(i(ElementOp::Shr, &[-1, 40], DType::I32), -1);
    assert_eq!(i(ElementOp::Abs, &[-128], DType::I8), -128);
    assert_eq!(i(ElementOp::Pow, &[-1, -3], DType::I32), -1);
    assert_eq!(i(ElementOp::Pow, &[3, 5], DType::U8), 243);
    assert_eq!(i(ElementOp::Sub, &[0, 1], DType::U16), 65_535);
    let (top, most) = (i64::MIN, -1);
    let u = |op: ElementOp, x: &[i64]| i(op, x, DType::U64) as u64;
    assert_eq!(u(ElementOp::Div, &[most, 2]), u64::MAX / 2);
    assert_eq!(u(ElementOp::FloorDiv, &[top, most]), 0);
    assert_eq!(u(ElementOp::Rem, &[most, top]), u64::MAX % (1 << 63));
    assert_eq!(u(ElementOp::Maximum, &[most, 1]), u64::MAX);
    assert_eq!(u(ElementOp::Minimum, &[most, 1]), 1);
    assert_eq!(u(ElementOp::Clamp, &[top, 1, 7]), 7);
    assert_eq!((u(ElementOp::Lt, &[most, 1]), u(ElementOp::Ge, &[top, 1])), (0, 1));
    assert_eq!(
        (u(ElementOp::Sign, &[most]), u(ElementOp::Abs, &[top]), u(ElementOp::Relu, &[top])),
        (1, 1 << 63, 1 << 63)
    );
    assert_eq!(
        (u(ElementOp::Shr, &[most, 60]), u(ElementOp::Shr, &[most, most]), u(ElementOp::Shl, &[most, 64])),
        (15, 0, 0)
    );
    assert_eq!(
        u(ElementOp::Pow, &[3, most]),
        3u64.wrapping_pow(u32::MAX).wrapping_mul(u(ElementOp::Pow, &[3, !0xFFFF_FFFF]))
    );
    let f = |op: ElementOp, x: &[f64]| (op.row().meaning.float.unwrap())(x);
    assert_eq!(f(ElementOp::Round, &[2.5]), 2.0);
    assert_eq!(f(ElementOp::Rem, &[-7.0, 3.0]), 2.0);
    assert!(f(ElementOp::Maximum, &[f64::NAN, 1.0]).is_nan());
}
