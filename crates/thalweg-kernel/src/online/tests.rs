use super::*;
use crate::{Access, AccessClass, NodeId, phases};
use thalweg_ir::ElementOp;

fn access(b: &mut BodyBuilder, operand: u16, per_row: bool) -> u16 {
    let class = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
    b.access(Access { operand: Some(operand), dtype: DType::F32, class, per_row })
}

fn input(b: &mut BodyBuilder) -> NodeId {
    let access = access(b, 0, false);
    b.node(Node::Load { access })
}

fn found(b: BodyBuilder) -> Option<OnlinePasses> {
    let body = b.finish();
    let more = with_lower_moments(&body);
    online_passes(&more, &phases(&more, false), body.folds.len())
}

/// Mean, which `scale` computes from the sum of the elements, and sum of squared differences of the elements from it.
fn squares(b: &mut BodyBuilder, x: NodeId, scale: impl Fn(&mut BodyBuilder, NodeId) -> NodeId) -> (NodeId, NodeId) {
    let s = b.fold(Monoid::Sum, x);
    let mean = scale(b, s);
    let d = b.element(ElementOp::Sub, &[x, mean]);
    let q = b.element(ElementOp::Square, &[d]);
    (mean, b.fold(Monoid::Sum, q))
}

fn divided(b: &mut BodyBuilder, s: NodeId) -> NodeId {
    let n = b.scalar(0, DType::F32);
    b.element(ElementOp::Div, &[s, n])
}

#[test]
fn a_variance_is_found_with_its_mean() {
    let mut b = BodyBuilder::new(false);
    let (x, y, z) = (input(&mut b), access(&mut b, 1, true), access(&mut b, 2, true));
    let other = b.fold(Monoid::Max, x);
    let (mean, q) = squares(&mut b, x, divided);
    let both = b.element(ElementOp::Add, &[q, other]);
    b.store(both, y);
    b.store(mean, z);
    let online = found(b).expect("an online form");
    assert_eq!(online.phases, 0..3);
    let rescaled = &online.list[0];
    let how = Rescaling::Shifted {
        power: 2,
        rate: Rate::NONE,
        weighted: false,
        from: Shift::Mean(1),
        exact: true,
        lower: vec![None, Some(3)],
    };
    assert_eq!((&rescaled.how, rescaled.second), (&how, 2));
    assert_eq!(rescaled.shift, 4, "the mean is computed once a row");
}

#[test]
fn softmax_is_found_with_an_infinite_maximum_replaced_or_not() {
    for replaced in [false, true] {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (input(&mut b), access(&mut b, 1, false));
        let mut m = b.fold(Monoid::Max, x);
        if replaced {
            let (finite, zero) = (b.element(ElementOp::IsFinite, &[m]), b.constant(Scalar::Int(0), DType::F32));
            m = b.element(ElementOp::Where, &[finite, m, zero]);
        }
        let d = b.element(ElementOp::Sub, &[x, m]);
        let e = b.element(ElementOp::Exp, &[d]);
        let s = b.fold(Monoid::Sum, e);
        let out = b.element(ElementOp::Div, &[e, s]);
        b.store(out, y);
        let online = found(b).expect("an online form");
        assert_eq!(online.list.len(), 1);
        assert_eq!(online.list[0].how, exponential(0));
        assert_eq!(online.list[0].shift, if replaced { 2 } else { 0 });
    }
}

#[test]
fn what_has_no_rescaling_identity_keeps_its_passes() {
    // A fold that depends on the mean in another way.
    let mut b = BodyBuilder::new(false);
    let (x, y) = (input(&mut b), access(&mut b, 1, true));
    let (mean, q) = squares(&mut b, x, divided);
    let p = b.element(ElementOp::Mul, &[x, mean]);
    let p = b.fold(Monoid::Sum, p);
    let out = b.element(ElementOp::Add, &[p, q]);
    b.store(out, y);
    assert_eq!(found(b), None);
    // The mean of something else, a mean with something added, and a sum divided by another fold.
    let scales: [fn(&mut BodyBuilder, NodeId) -> NodeId; 2] = [
        |b, s| {
            let one = b.constant(Scalar::Int(1), DType::F32);
            b.element(ElementOp::Add, &[s, one])
        },
        |b, s| {
            let x = NodeId(0);
            let m = b.fold(Monoid::Max, x);
            b.element(ElementOp::Div, &[s, m])
        },
    ];
    for scale in scales {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (input(&mut b), access(&mut b, 1, true));
        let (_, q) = squares(&mut b, x, scale);
        b.store(q, y);
        assert_eq!(found(b), None);
    }
    // Strict mode, and a store in the same pass.
    for strict in [false, true] {
        let mut b = BodyBuilder::new(strict);
        let (x, y, z) = (input(&mut b), access(&mut b, 1, true), access(&mut b, 2, false));
        let (mean, q) = squares(&mut b, x, divided);
        b.store(q, y);
        if !strict {
            let d = b.element(ElementOp::Sub, &[x, mean]);
            b.store(d, z);
        }
        assert_eq!(found(b), None);
    }
}

/// Identity of `Σ w·(x - max)^power·e^(x - max)`.
fn exponential(power: u8) -> Rescaling {
    Rescaling::Shifted {
        power,
        rate: Rate { constant: 1.0, scalars: vec![] },
        weighted: false,
        from: Shift::Extreme(0),
        exact: false,
        lower: (1..=power as u16).map(Some).collect(),
    }
}

fn moment(power: u8, exact: bool) -> Rescaling {
    Rescaling::Shifted {
        power,
        rate: Rate::NONE,
        weighted: false,
        from: Shift::Mean(0),
        exact,
        lower: vec![None; power as usize],
    }
}

fn rescaled(how: Rescaling) -> OnlineFold {
    OnlineFold { how, second: 1, dtype: DType::F32, shift: 2, shift_dtype: DType::F32 }
}

/// Block result of these elements: the `power`th moment about `shift`, times `e^(rate·(x - shift))`.
fn left(x: &[f64], shift: f64, power: u8, rate: f64) -> BlockResult {
    let fold = |q: u8| x.iter().map(|v| (v - shift).powi(q as i32) * (rate * (v - shift)).exp()).sum();
    let mut part = BlockResult { points: x.len() as f64, shift, result: fold(power), ..BlockResult::default() };
    (0..power).for_each(|q| part.lower[q as usize] = fold(q));
    part
}

#[test]
fn squares_of_blocks_are_those_of_the_row() {
    let x: Vec<f64> = (0..1000).map(|i| ((i * 37) % 101) as f64 + 1e6).collect();
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let want: f64 = x.iter().map(|v| (v - mean).powi(2)).sum();
    // Shifts that are slightly off are corrected by the lower moments.
    let blocks = || x.chunks(64);
    let part = |c: &[f64]| left(c, c.iter().sum::<f64>() / c.len() as f64 + 0.3, 2, 0.0);
    let parts: Vec<BlockResult> = blocks().map(part).collect();
    let squares = rescaled(moment(2, true));
    let got = squares.whole(&parts, mean * n, mean + 0.05, &[]);
    assert!((got - want).abs() < 1e-9 * want, "{got} {want}");
    // About another value than the mean, and about the body's value if that is asked for.
    for squares in [squares.clone(), rescaled(moment(2, false))] {
        let got = squares.whole(&parts, mean * n, mean + 10.0, &[]);
        let want = want + n * 100.0;
        assert!((got - want).abs() < 1e-6 * want, "{got} {want}");
    }
    // A block that overflows.
    let mut wild = parts.clone();
    (wild[3].result, wild[3].lower[1]) = (f64::INFINITY, f64::INFINITY);
    assert_eq!(squares.whole(&wild, mean * n, mean, &[]), f64::INFINITY);
    wild[5].result = f64::NAN;
    assert!(squares.whole(&wild, mean * n, mean, &[]).is_nan());
    let big = Scalar::Float(1e38).to_bits(DType::F32);
    assert_eq!(
        Scalar::from_bits(merge::own_mean(big, DType::F32, 10, 1000), DType::F32),
        Scalar::Float(f32::MAX as f64)
    );
}

#[test]
fn exponentials_of_blocks_are_those_of_the_row() {
    let rescaled = rescaled(exponential(0));
    let (low, least) = (f64::NEG_INFINITY, f32::MIN as f64);
    let part = |shift: f64, result: f64| BlockResult { points: 4.0, shift, result, ..BlockResult::default() };
    let whole = |parts: &[BlockResult], shift: f64| rescaled.whole(parts, shift, shift, &[]);
    let got = whole(&[part(1.0, 2.0), part(3.0, 1.5), part(-900.0, 3.0)], 3.0);
    assert!((got - (2.0 * (-2f64).exp() + 1.5)).abs() < 1e-12);
    // A block of only -∞, alone and with others.
    let bits = |v: f64| Scalar::Float(v).to_bits(DType::F32);
    assert_eq!(merge::finite(bits(low), DType::F32, Monoid::Max), bits(least));
    assert_eq!(merge::finite(bits(low), DType::F32, Monoid::Min), bits(low));
    assert_eq!(whole(&[part(least, 0.0), part(3.0, 1.5)], 3.0), 1.5);
    assert!(whole(&[part(least, 0.0)], low).is_nan());
    // Shifted by 0 instead, with a maximum for which exp(0 - max) would overflow.
    assert_eq!(whole(&[part(0.0, 0.0), part(-1000.0, 1.5)], -1000.0), 1.5);
    assert!(whole(&[part(f64::INFINITY, f64::NAN), part(3.0, 1.5)], f64::INFINITY).is_nan());
    assert!(whole(&[part(f64::NAN, f64::NAN), part(3.0, 1.5)], f64::NAN).is_nan());
}

/// Shifts compose: by a and then by b equals a + b, and blocks in any grouping give the same, for every power and rate.
#[test]
fn moments_of_blocks_are_those_of_the_row_for_every_power_and_rate() {
    let x: Vec<f64> = (0..600).map(|i| ((i * 37) % 101) as f64 / 20.0 - 3.0).collect();
    for power in 0..=LOWER as u8 {
        for rate in [0.0, 1.0, -0.5] {
            if power == 0 && rate == 0.0 {
                continue;
            }
            let how = match rate {
                0.0 => moment(power, false),
                _ => Rescaling::Shifted {
                    power,
                    rate: Rate { constant: rate, scalars: vec![] },
                    weighted: false,
                    from: Shift::Extreme(0),
                    exact: false,
                    lower: vec![None; power as usize],
                },
            };
            let rescaled = rescaled(how);
            let want = left(&x, 1.25, power, rate).result;
            for size in [600, 100, 7] {
                let shift = |c: &[f64]| c.iter().copied().fold(f64::MIN, f64::max);
                let parts: Vec<BlockResult> = x.chunks(size).map(|c| left(c, shift(c), power, rate)).collect();
                let got = rescaled.whole(&parts, 0.0, 1.25, &[]);
                assert!((got - want).abs() < 1e-9 * (1.0 + want.abs()), "{power} {rate} {size}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn rates_are_constants_times_and_over_scalars() {
    let scalars = [2.0f32, 8.0].map(|v| v.to_bits() as u64);
    let rate = Rate { constant: 3.0, scalars: vec![(0, DType::F32, false), (1, DType::F32, true)] };
    assert_eq!(rate.value(&scalars), 0.75);
}

/// Functions of `x - m`, each with the expected power, whether it has a rate, whether it has weights, and the folds
/// that it adds.
#[test]
fn identities_follow_from_the_function_of_what_differs() {
    type Build = fn(&mut BodyBuilder, NodeId, NodeId) -> NodeId;
    let third: Build = |b, d, _| {
        let q = b.element(ElementOp::Square, &[d]);
        b.element(ElementOp::Mul, &[q, d])
    };
    let fourth: Build = |b, d, _| {
        let q = b.element(ElementOp::Square, &[d]);
        b.element(ElementOp::Square, &[q])
    };
    let weighted: Build = |b, d, w| {
        let q = b.element(ElementOp::Mul, &[d, w]);
        let q = b.element(ElementOp::Mul, &[q, d]);
        b.element(ElementOp::Neg, &[q])
    };
    let entropy: Build = |b, d, _| {
        let e = b.element(ElementOp::Exp, &[d]);
        b.element(ElementOp::Mul, &[d, e])
    };
    let warm: Build = |b, d, w| {
        let t = b.scalar(0, DType::F32);
        let d = b.element(ElementOp::Div, &[d, t]);
        let e = b.element(ElementOp::Exp, &[d]);
        b.element(ElementOp::Mul, &[e, w])
    };
    for (name, build, largest, wanted) in [
        ("third", third, false, Some((3, false, false, 2))),
        ("fourth", fourth, false, Some((4, false, false, 3))),
        ("weighted", weighted, true, Some((2, false, true, 2))),
        ("entropy", entropy, true, Some((1, true, false, 1))),
        ("warm", warm, true, Some((0, true, true, 0))),
        // Shifted by a mean, an exponential may overflow in a block and not in the row.
        ("entropy about the mean", entropy, false, None),
    ] {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (input(&mut b), access(&mut b, 1, true));
        let at = access(&mut b, 2, false);
        let w = b.node(Node::Load { access: at });
        let m = if largest {
            b.fold(Monoid::Max, x)
        } else {
            let s = b.fold(Monoid::Sum, x);
            divided(&mut b, s)
        };
        let d = b.element(ElementOp::Sub, &[x, m]);
        let node = build(&mut b, d, w);
        let s = b.fold(Monoid::Sum, node);
        b.store(s, y);
        let body = b.finish();
        let more = with_lower_moments(&body);
        let found = online_passes(&more, &phases(&more, false), body.folds.len());
        let got = found.map(|online| {
            let Rescaling::Shifted { power, rate, weighted, .. } = &online.list[0].how else { panic!("{name}") };
            (*power, !rate.is_none(), *weighted, more.folds.len() - body.folds.len())
        });
        assert_eq!(got, wanted, "{name}");
    }
}

/// Index of the maximum: which of two equal elements, with NaN and zeros of either sign.
#[test]
fn the_place_of_the_largest_is_found_with_it() {
    for nan in [false, true] {
        let mut b = BodyBuilder::new(false);
        let (x, y) = (input(&mut b), access(&mut b, 1, true));
        let index =
            b.access(Access { operand: None, dtype: DType::U32, class: AccessClass::Contiguous, per_row: false });
        let m = b.fold(Monoid::Max, x);
        let mut hit = b.element(ElementOp::Eq, &[x, m]);
        if nan {
            let is = b.element(ElementOp::Ne, &[x, x]);
            hit = b.element(ElementOp::Or, &[hit, is]);
        }
        let place = b.node(Node::Index { access: index, dtype: DType::U32 });
        let none = b.constant(Scalar::Int(u32::MAX as i64), DType::U32);
        let candidate = b.element(ElementOp::Where, &[hit, place, none]);
        let first = b.fold(Monoid::Min, candidate);
        b.store(first, y);
        let online = found(b).expect("an online form");
        assert_eq!(online.list[0].how, Rescaling::Chosen { first: 0, op: Monoid::Min });
    }
    let bits = |v: f32| v.to_bits() as u64;
    let of = |extreme: f32, blocks: &[(f32, u64)]| {
        let blocks = blocks.iter().map(|&(own, at)| (bits(own), at));
        chosen(Monoid::Min, DType::U32, (bits(extreme), DType::F32), blocks)
    };
    assert_eq!(of(3.0, &[(1.0, 2), (3.0, 70), (3.0, 90)]), 70);
    assert_eq!(of(0.0, &[(-0.0, 5), (0.0, 70)]), 5);
    assert_eq!(of(f32::NAN, &[(9.0, 5), (f32::NAN, 70)]), 70);
    assert_eq!(of(3.0, &[]), u32::MAX as u64);
}
