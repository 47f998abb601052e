use super::*;

const DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::I32, DType::U32, DType::I64];

fn elements(dtype: DType) -> Vec<Scalar> {
    let numbers = if dtype.is_float() {
        vec![0.0, -0.0, 1.5, -3.25, 7.0, -1e3, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
    } else {
        vec![0.0, 1.0, 3.0, 7.0, 100.0, 2147483647.0]
    };
    numbers.into_iter().map(|v| if dtype.is_float() { Scalar::Float(v) } else { Scalar::Int(v as i64) }).collect()
}

fn same(a: Scalar, b: Scalar) -> bool {
    a.to_f64().to_bits() == b.to_f64().to_bits() || a.to_f64().is_nan() && b.to_f64().is_nan()
}

fn monoids(dtype: DType) -> impl Iterator<Item = Monoid> {
    Monoid::ALL.iter().copied().filter(move |m| m.row().takes.has(dtype))
}

#[test]
fn each_row_stands_at_its_variant() {
    assert_eq!(MONOIDS.len(), Monoid::ALL.len());
    for (i, &m) in Monoid::ALL.iter().enumerate() {
        assert!(m as usize == i && m.row().monoid == m, "{m:?}");
    }
}

/// Combining with a neutral partial result, on either side, preserves an element's bits.
#[test]
fn a_neutral_partial_changes_no_element() {
    for dtype in DTYPES {
        for m in monoids(dtype) {
            for x in elements(dtype) {
                let mut after = Partial::neutral(m, dtype);
                after.push(x);
                let mut before = Partial::of(m, dtype, x);
                before.put(&Partial::neutral(m, dtype));
                for got in [after, before].map(|p| p.result()) {
                    // Other monoids do not specify the sign of a zero.
                    let exact = matches!(m, Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min);
                    let zero = !exact && got.to_f64() == 0.0 && x.to_f64() == 0.0;
                    assert!(same(got, x) || zero, "{m:?} {dtype} {x:?}: {got:?}");
                }
            }
        }
    }
}

#[test]
fn where_the_order_does_not_show_there_is_none() {
    for dtype in DTYPES {
        for m in monoids(dtype).filter(|m| !m.row().ordered) {
            for x in elements(dtype) {
                for y in elements(dtype) {
                    let both = |x, y| {
                        let mut p = Partial::of(m, dtype, x);
                        p.push(y);
                        p.result()
                    };
                    let (a, b) = (both(x, y), both(y, x));
                    assert!(a.to_f64() == b.to_f64() || same(a, b), "{m:?} {dtype} {x:?} {y:?}: {a:?} {b:?}");
                }
            }
        }
    }
}

/// Partial result of two components: combining blocks agrees with folding element by element.
#[test]
fn log_sum_exp_goes_block_by_block() {
    let of = |elements: &[f64]| {
        let mut p = Partial::none(Monoid::LogSumExp, DType::F64);
        elements.iter().for_each(|&x| p.push(Scalar::Float(x)));
        p
    };
    let (a, b) = ([700.0, 710.5, -3.0], [1000.0, 999.0]);
    let mut blocks = of(&a);
    blocks.put(&of(&b));
    let whole = of(&[a.as_slice(), &b].concat()).result().to_f64();
    assert!((blocks.result().to_f64() - whole).abs() < 1e-12 && (whole - 1000.3132616875182).abs() < 1e-9, "{whole}");
    assert_eq!(of(&[]).result(), Scalar::Float(f64::NEG_INFINITY));
    assert_eq!(of(&[f64::NEG_INFINITY; 2]).result(), Scalar::Float(f64::NEG_INFINITY));
    assert_eq!(of(&[1.0, f64::INFINITY, f64::INFINITY]).result(), Scalar::Float(f64::INFINITY));
    assert!(of(&[1.0, f64::NAN]).result().to_f64().is_nan());
}
