//! Compares row bodies and accumulating stores with an evaluation in the order of `thalweg_kernel::order`.

use super::super::inner_reduction::compile_inner_reduction_with;
use super::super::{Isa, Options, compile_with};
use super::evaluate::{Launch, Value, from_scalar, read};
use super::random::{BASIC, CLASSES, takes};
use super::{Rng, isas};
use crate::row_call::{InnerReduction, Rows};
use std::ops::Range;
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::order::{self, LANES};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, NodeId, Phases};

const FOLDED: [DType; 6] = [DType::F32, DType::F64, DType::I32, DType::U32, DType::I64, DType::U64];
const OPS: [Monoid; 4] = [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min];

fn bits(v: Value, dtype: DType) -> u64 {
    match v {
        Value::F(v) => Scalar::Float(v).to_bits(dtype),
        Value::I(v) => Scalar::Int(v).to_bits(dtype),
    }
}

fn bytes(v: Value, dtype: DType) -> Vec<u8> {
    match (v, dtype) {
        (Value::F(v), DType::BF16) => half::bf16::from_f64(v).to_le_bytes().to_vec(),
        (Value::F(v), DType::F16) => half::f16::from_f64(v).to_le_bytes().to_vec(),
        _ => bits(v, dtype).to_le_bytes()[..dtype.size()].to_vec(),
    }
}

/// Folds one block of elements in the order of [`order`].
fn fold(op: Monoid, dtype: DType, elements: impl Iterator<Item = u64>) -> u64 {
    let mut lanes = [op.identity(dtype); LANES];
    for (i, x) in elements.enumerate() {
        lanes[i % LANES] = order::combine(op, dtype, lanes[i % LANES], x);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = order::combine(op, dtype, lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Expected contents of all buffers after a launch.
pub fn expected(l: &mut Launch, body: &Body) -> Vec<Vec<u8>> {
    let mut images: Vec<Vec<u8>> =
        l.buffers.iter_mut().map(|b| b.as_mut().map_or(vec![], |b| b.bytes().to_vec())).collect();
    for row in 0..l.rows {
        let mut known: Vec<Value> = vec![];
        for f in &body.folds {
            let dtype = body.dtype(f.node);
            let elements = (0..l.n).map(|i| bits(l.point(body, row, i, &known)[f.node.index()], dtype));
            known.push(from_scalar(Scalar::from_bits(fold(f.op, dtype, elements), dtype)));
        }
        let per_row = |a: u16| body.accesses[a as usize].per_row;
        for s in &body.stores {
            let a = s.access as usize;
            let dtype = body.accesses[a].dtype;
            for i in 0..if per_row(s.access) { 1 } else { l.n } {
                let new = l.point(body, row, i, &known)[s.node.index()];
                let at =
                    (l.position(body, a, row, i).unwrap() as u64 - l.buffers[a].as_ref().unwrap().address()) as usize;
                let place = &mut images[a][at..at + dtype.size()];
                let new = match s.combine {
                    None => new,
                    Some(op) => {
                        let v = order::combine(op, dtype, bits(read(place, dtype), dtype), bits(new, dtype));
                        from_scalar(Scalar::from_bits(v, dtype))
                    }
                };
                place.copy_from_slice(&bytes(new, dtype));
            }
        }
    }
    images
}

pub fn compare(l: &mut Launch, body: &Body, want: &[Vec<u8>], what: &str) {
    for s in &body.stores {
        let dtype = body.accesses[s.access as usize].dtype;
        let (n, rows) = (l.n, l.rows);
        let b = l.buffers[s.access as usize].as_mut().unwrap();
        assert!(b.clean(), "{what}: access {} was written outside\n{body:?}", s.access);
        let size = dtype.size();
        for (k, (got, want)) in b.bytes().chunks(size).zip(want[s.access as usize].chunks(size)).enumerate() {
            let same = match (read(got, dtype), read(want, dtype)) {
                (Value::F(a), Value::F(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
                (a, b) => a == b,
            };
            assert!(
                same,
                "{what} n {n} rows {rows} access {} element {k}: got {:?}, want {:?}\n{body:?}",
                s.access,
                read(got, dtype),
                read(want, dtype)
            );
        }
    }
}

/// Compiles a row body, runs it in one call and phase by phase, and compares the results with the expected ones.
/// Returns false if the emitter refuses the body.
fn check(body: &Body, r: &mut Rng, n: usize, rows: usize, isa: Isa, options: Options) -> bool {
    let keep = r.below(4) > 0;
    let Ok(code) = compile_inner_reduction_with(body, isa, keep, options) else { return false };
    let what = format!("{isa:?} {options:?} keep {keep} {:?}", code.report);
    check_phases(body, &code.phases, r, (n, rows), &what, |args, rows, phases| {
        // SAFETY: the launch was built for the body.
        unsafe { code.run(args, n, rows, phases) }
    });
    true
}

/// Runs the phases of a body in one call and phase by phase, and compares the results with the expected ones. `run`
/// executes a call: it gets the arguments, the number of rows and the range of phases.
pub fn check_phases(
    body: &Body,
    phases: &Phases,
    r: &mut Rng,
    (n, rows): (usize, usize),
    what: &str,
    mut run: impl FnMut(&[u64], usize, Range<usize>) -> bool,
) {
    let mut with_buffers = body.clone();
    with_buffers.accesses = phases.list[0].body.accesses.clone();
    for apart in [false, true] {
        let mut l = Launch::new(&with_buffers, r, n, rows);
        for a in body.accesses.len()..with_buffers.accesses.len() {
            l.args[4 * a + 1] = 0;
        }
        for s in body.stores.iter().filter(|s| body.accesses[s.access as usize].per_row) {
            l.args[4 * s.access as usize + 1] = body.accesses[s.access as usize].dtype.size() as u64;
        }
        let mut values = vec![r.next(); phases.values.len()];
        l.args.extend([values.as_mut_ptr() as u64, 1]);
        let want = expected(&mut l, &with_buffers);
        let all = phases.list.len();
        let what = format!("{what} apart {apart}");
        let mut call = |args: &[u64], rows, phases: Range<usize>| assert!(run(args, rows, phases), "{what}");
        if apart {
            for row in 0..rows {
                let mut args = l.args.clone();
                for a in 0..with_buffers.accesses.len() {
                    args[4 * a] = args[4 * a].wrapping_add(args[4 * a + 1].wrapping_mul(row as u64));
                }
                let mut at = 0;
                while at < all {
                    let end = at + 1 + r.below(all - at);
                    call(&args, 1, at..end);
                    at = end;
                }
            }
        } else {
            call(&l.args, rows, 0..all);
        }
        compare(&mut l, body, &want, &what);
        for a in body.accesses.len()..with_buffers.accesses.len() {
            assert!(l.buffers[a].as_mut().unwrap().clean(), "{what}: a buffer was written outside\n{body:?}");
        }
    }
}

pub fn access(b: &mut BodyBuilder, operand: &mut u16, dtype: DType, class: AccessClass, per_row: bool) -> u16 {
    *operand += 1;
    b.access(Access { operand: Some(*operand - 1), dtype, class, per_row })
}

/// For each node, whether its value is uniform in a row.
fn once(body: &Body) -> Vec<bool> {
    let mut once = vec![];
    for (k, node) in body.nodes.iter().enumerate() {
        let own = match node.access() {
            Some(a) => body.accesses[a as usize].per_row,
            None => true,
        };
        once.push(own && body.args(NodeId(k as u32)).all(|a| once[a.index()]));
    }
    once
}

pub fn random_rows(r: &mut Rng, dtypes: &[DType], size: usize, folds: usize) -> Body {
    let mut b = BodyBuilder::new(true);
    let mut nodes: Vec<NodeId> = vec![];
    let mut operand = 0;
    for k in 0..1 + r.below(3) {
        let dtype = if k == 0 { dtypes[0] } else { r.pick(dtypes) };
        let per_row = r.below(4) == 0;
        let class = if per_row { AccessClass::Uniform } else { r.pick(&CLASSES) };
        let access = access(&mut b, &mut operand, dtype, class, per_row);
        nodes.push(b.node(Node::Load { access }));
    }
    if r.below(4) == 0 {
        let per_row = r.below(3) == 0;
        let class = if per_row { AccessClass::Uniform } else { r.pick(&CLASSES[..4]) };
        let access = b.access(Access { operand: None, dtype: DType::U32, class, per_row });
        nodes.push(b.node(Node::Index { access, dtype: r.pick(&[DType::U32, DType::I64]) }));
    }
    if r.below(2) == 0 {
        nodes.push(b.scalar(0, dtypes[0]));
    }
    for _ in 0..1 + r.below(folds) {
        for _ in 0..r.below(size) {
            let x = r.pick(&nodes);
            let d = b.body().dtype(x);
            if r.below(4) == 0 {
                let to = r.pick(dtypes);
                nodes.push(b.cast(x, to));
                continue;
            }
            let op = r.pick(BASIC);
            if !takes(op, d) || op == ElementOp::Where {
                continue;
            }
            let same: Vec<NodeId> = nodes.iter().copied().filter(|n| b.body().dtype(*n) == d).collect();
            let args: Vec<NodeId> = (0..op.row().arity).map(|_| r.pick(&same)).collect();
            nodes.push(b.element(op, &args));
        }
        for _ in 0..1 + r.below(2) {
            let fit: Vec<NodeId> = nodes.iter().copied().filter(|n| FOLDED.contains(&b.body().dtype(*n))).collect();
            if !fit.is_empty() {
                // Later nodes are chosen more often.
                let from = r.below(fit.len());
                let x = r.pick(&fit[from..]);
                nodes.push(b.fold(r.pick(&OPS), x));
            }
        }
    }
    let same = once(b.body());
    for k in 0..1 + r.below(3) {
        let node = nodes[nodes.len() - 1 - k % nodes.len()];
        let dtype = b.body().dtype(node);
        let per_row = same[node.index()] && r.below(3) > 0;
        let class = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
        let to = access(&mut b, &mut operand, dtype, class, per_row);
        b.store(node, to);
    }
    let mut body = b.finish();
    for s in &mut body.stores {
        let dtype = body.accesses[s.access as usize].dtype;
        s.combine = (FOLDED.contains(&dtype) && r.below(4) == 0).then(|| r.pick(&OPS));
    }
    body
}

fn rows(body: &Body, r: &mut Rng) -> usize {
    if body.accesses.iter().any(|a| a.class == AccessClass::Mapped) { 1 } else { r.below(4) }
}

#[test]
fn every_fold_of_every_dtype_and_length() {
    let mut r = Rng(61);
    for dtype in FOLDED {
        for op in OPS {
            let mut b = BodyBuilder::new(true);
            let mut operand = 0;
            let from = access(&mut b, &mut operand, dtype, AccessClass::Contiguous, false);
            let to = access(&mut b, &mut operand, dtype, AccessClass::Uniform, true);
            let x = b.node(Node::Load { access: from });
            let f = b.fold(op, x);
            b.store(f, to);
            let body = b.finish();
            for isa in isas() {
                for n in (0..=200).step_by(1 + r.below(3)).chain([4096, 4095]) {
                    let options = Options {
                        registers: (r.below(3) == 0).then(|| 4 + r.below(4)),
                        copies: r.pick(&[None, None, Some(1), Some(2)]),
                        ..Options::default()
                    };
                    let rows = 1 + r.below(3);
                    assert!(check(&body, &mut r, n, rows, isa, options), "{dtype} {op:?}");
                }
            }
        }
    }
}

fn sweep(
    seed: u64,
    count: usize,
    dtypes: impl Fn(&mut Rng) -> Vec<DType>,
    options: impl Fn(&mut Rng) -> Options,
) -> usize {
    let mut r = Rng(seed);
    let mut taken = 0;
    for _ in 0..count {
        let d = dtypes(&mut r);
        let (size, folds) = (1 + r.below(10), 1 + r.below(3));
        let body = random_rows(&mut r, &d, size, folds);
        let options = options(&mut r);
        let n = if r.below(4) == 0 { r.below(4) } else { r.below(140) };
        let rows = rows(&body, &mut r);
        for isa in isas() {
            taken += check(&body, &mut r, n, rows, isa, options) as usize;
        }
    }
    taken
}

#[test]
fn random_row_bodies() {
    let taken = sweep(71, 1500, |r| (0..1 + r.below(3)).map(|_| r.pick(&DType::ALL)).collect(), |_| Options::default());
    assert!(taken > 1000 * isas().count(), "{taken}");
}

#[test]
fn random_row_bodies_with_few_registers() {
    let options = |r: &mut Rng| Options {
        registers: Some(5 + r.below(6)),
        copies: r.pick(&[None, Some(1), Some(2), Some(4)]),
        ..Options::default()
    };
    let taken = sweep(73, 1500, |r| (0..1 + r.below(2)).map(|_| r.pick(&FOLDED)).collect(), options);
    assert!(taken > 900 * isas().count(), "{taken}");
}

/// Tests random row bodies for a minute. Run with
/// `cargo nextest run -p thalweg-cpu --run-ignored only long_row_sweep`.
#[test]
#[ignore = "a minute long"]
fn long_row_sweep() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    println!("seed {seed}");
    let several = |r: &mut Rng| (0..1 + r.below(4)).map(|_| r.pick(&DType::ALL)).collect();
    let options = |r: &mut Rng| Options {
        registers: (r.below(2) == 0).then(|| 5 + r.below(12)),
        copies: r.pick(&[None, None, Some(1), Some(2), Some(4)]),
        ..Options::default()
    };
    sweep(seed, 40_000, several, options);
}

#[test]
fn maxima_of_nan_are_the_canonical_one() {
    for (op, dtype) in [(Monoid::Max, DType::F32), (Monoid::Min, DType::F32), (Monoid::Max, DType::F64)] {
        let mut b = BodyBuilder::new(true);
        let mut operand = 0;
        let from = access(&mut b, &mut operand, dtype, AccessClass::Contiguous, false);
        let to = access(&mut b, &mut operand, dtype, AccessClass::Uniform, true);
        let x = b.node(Node::Load { access: from });
        let f = b.fold(op, x);
        b.store(f, to);
        let body = b.finish();
        for isa in isas() {
            let code = compile_inner_reduction_with(&body, isa, true, Options::default()).unwrap();
            for (n, at) in [(1, 0), (40, 39), (100, 3), (64, 33)] {
                let (mut x, mut y) = (vec![0u64; n], [0u64]);
                if dtype == DType::F32 {
                    // SAFETY: the vector has at least that many bytes.
                    let x = unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast::<u32>(), n) };
                    x[at] = 0xFFC0_1234;
                } else {
                    x[at] = 0xFFF8_0000_0000_1234;
                }
                let mut values = [0u64];
                let args = [x.as_ptr() as u64, 0, 0, 0, y.as_mut_ptr() as u64, 0, 0, 0, values.as_mut_ptr() as u64, 1];
                // SAFETY: buffers of n elements and of one.
                assert!(unsafe { code.run(&args, n, 1, 0..2) });
                assert_eq!(y[0], Scalar::Float(f64::NAN).to_bits(dtype), "{isa:?} {n}");
            }
        }
    }
}

#[test]
fn accumulating_stores() {
    let mut r = Rng(81);
    for dtype in FOLDED {
        for op in OPS {
            let mut b = BodyBuilder::new(true);
            let mut operand = 0;
            let class = AccessClass::Contiguous;
            let from = access(&mut b, &mut operand, dtype, r.pick(&[class, AccessClass::Strided]), false);
            let (to, plain) =
                (access(&mut b, &mut operand, dtype, class, false), access(&mut b, &mut operand, dtype, class, false));
            let x = b.node(Node::Load { access: from });
            let y = b.element(ElementOp::Add, &[x, x]);
            b.store(y, to);
            b.store(x, plain);
            let mut body = b.finish();
            body.stores[0].combine = Some(op);
            for isa in isas() {
                for n in 0..150 {
                    let options = Options {
                        registers: (r.below(3) == 0).then(|| 4 + r.below(4)),
                        copies: r.pick(&[None, None, Some(1), Some(2), Some(4)]),
                        streaming: false,
                    };
                    let code = compile_with(&body, isa, options).unwrap();
                    let rows = r.below(4);
                    let mut l = Launch::new(&body, &mut r, n, rows);
                    if r.below(2) == 0 {
                        // All rows accumulate into the same one.
                        l.args[4 * to as usize + 1] = 0;
                    }
                    let want = expected(&mut l, &body);
                    // SAFETY: the launch was built for the body.
                    assert!(unsafe { code.run(&l.args, n, rows) });
                    compare(&mut l, &body, &want, &format!("{isa:?} {options:?} {op:?}"));
                }
            }
        }
    }
}

#[test]
fn more_folds_than_registers() {
    let mut r = Rng(97);
    for dtype in FOLDED {
        for count in [3, 9, 40] {
            let mut b = BodyBuilder::new(true);
            let mut operand = 0;
            let from = access(&mut b, &mut operand, dtype, AccessClass::Contiguous, false);
            let x = b.node(Node::Load { access: from });
            for k in 0..count {
                let c = b.constant(Scalar::Float(k as f64), dtype);
                let y = b.element(ElementOp::Add, &[x, c]);
                let f = b.fold(if k % 3 == 0 { r.pick(&OPS) } else { r.pick(&OPS[2..]) }, y);
                let to = access(&mut b, &mut operand, dtype, AccessClass::Uniform, true);
                b.store(f, to);
            }
            let body = b.finish();
            for isa in isas() {
                for n in [0, 1, 31, 32, 33, 100] {
                    assert!(check(&body, &mut r, n, 2, isa, Options::default()));
                }
            }
        }
    }
}

#[test]
fn no_product_is_contracted_into_a_fold() {
    let mut r = Rng(98);
    for dtype in [DType::F32, DType::F64] {
        let mut b = BodyBuilder::new(false);
        let mut operand = 0;
        let from = access(&mut b, &mut operand, dtype, AccessClass::Contiguous, false);
        let to = access(&mut b, &mut operand, dtype, AccessClass::Uniform, true);
        let x = b.node(Node::Load { access: from });
        let q = b.element(ElementOp::Mul, &[x, x]);
        let f = b.fold(Monoid::Sum, q);
        b.store(f, to);
        let body = b.finish();
        for isa in isas() {
            for n in (0..300).step_by(7) {
                assert!(check(&body, &mut r, n, 1, isa, Options::default()));
            }
        }
    }
}

#[test]
fn guards_of_row_bodies_hand_back() {
    let mut b = BodyBuilder::new(true);
    let mut operand = 0;
    let from = access(&mut b, &mut operand, DType::F32, AccessClass::Contiguous, false);
    let per_row = access(&mut b, &mut operand, DType::F32, AccessClass::Uniform, true);
    let to = access(&mut b, &mut operand, DType::F32, AccessClass::Uniform, true);
    let (x, y) = (b.node(Node::Load { access: from }), b.node(Node::Load { access: per_row }));
    let (s, t) = (b.element(ElementOp::Sin, &[x]), b.element(ElementOp::Sin, &[y]));
    let f = b.fold(Monoid::Sum, s);
    let z = b.element(ElementOp::Add, &[f, t]);
    b.store(z, to);
    let body = b.finish();
    for isa in isas() {
        let code = compile_inner_reduction_with(&body, isa, true, Options::default()).unwrap();
        assert!(code.report.rereads_inputs);
        for n in [1, 32, 77] {
            for bad in [None, Some(0), Some(n - 1), Some(n)] {
                // Elements past the row's end are ignored.
                let mut x = vec![1f32; n + 40];
                x[n..].fill(3e38);
                let (mut y, mut to, mut values) = (0.5f32, 0f32, [0u64; 4]);
                match bad {
                    Some(i) if i < n => x[i] = 3e38,
                    Some(_) => y = 3e38,
                    None => {}
                }
                let p = [x.as_ptr() as u64, &raw const y as u64, &raw mut to as u64];
                let mut args: Vec<u64> = p.iter().flat_map(|p| [*p, 0, 0, 0]).collect();
                args.extend([values.as_mut_ptr() as u64, 1]);
                // SAFETY: one row of n elements.
                let done = unsafe { code.run(&args, n, 1, 0..code.phases.list.len()) };
                assert_eq!(done, bad.is_none(), "{isa:?} {n} {bad:?}");
            }
        }
    }
}

/// Memory of output rows, aligned to 64 bytes as non-temporal stores require.
#[repr(align(64))]
struct Aligned([f32; 3 * 256]);

#[test]
fn stores_past_the_caches_store_the_same() {
    let mut b = BodyBuilder::new(false);
    let mut operand = 0;
    let (from, to) = (
        access(&mut b, &mut operand, DType::F32, AccessClass::Contiguous, false),
        access(&mut b, &mut operand, DType::F32, AccessClass::Contiguous, false),
    );
    let x = b.node(Node::Load { access: from });
    let m = b.fold(Monoid::Max, x);
    let d = b.element(ElementOp::Sub, &[x, m]);
    let e = b.element(ElementOp::Exp, &[d]);
    let s = b.fold(Monoid::Sum, e);
    let y = b.element(ElementOp::Div, &[e, s]);
    b.store(y, to);
    let body = b.finish();
    let from = Aligned(std::array::from_fn(|i| (i * 37 % 101) as f32 / 20.0));
    for isa in isas() {
        for n in 0..=256 {
            let mut results = vec![];
            for streaming in [false, true] {
                let options = Options { streaming, ..Options::default() };
                let code = compile_inner_reduction_with(&body, isa, true, options).unwrap();
                // (The buffer is unaligned: its stores are never non-temporal.)
                let (mut to, mut kept, mut values) = (Aligned([7.0; 768]), [0f32; 257], [0u64; 2]);
                let (x, y) = (from.0.as_ptr() as u64, to.0.as_mut_ptr() as u64);
                let args = [
                    x,
                    1024,
                    0,
                    0,
                    y,
                    1024,
                    0,
                    0,
                    kept[1..].as_mut_ptr() as u64,
                    0,
                    0,
                    0,
                    values.as_mut_ptr() as u64,
                    1,
                ];
                // SAFETY: three rows of up to 256 elements.
                assert!(unsafe { code.run(&args, n, 3, 0..3) });
                results.push(to.0.map(f32::to_bits));
            }
            assert_eq!(results[0], results[1], "{isa:?} {n}");
        }
    }
}
