//! Comparison of emitted math functions with the scalar machine, and reports of compile times and throughput.

use super::super::inner_reduction::{assemble_inner_reduction, compile_inner_reduction_with};
use super::super::{Isa, Options, compile, compile_inner_reduction, compile_with};
use super::{Rng, isas};
use crate::math::{self, ScalarMachine};
use crate::row_call::{InnerReduction, Rows};
use std::time::{Duration, Instant};
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Node, NodeId};

fn map(dtype: DType, strict: bool, inputs: u16, f: impl Fn(&mut BodyBuilder, &[NodeId]) -> NodeId) -> Body {
    let mut b = BodyBuilder::new(strict);
    let class = AccessClass::Contiguous;
    let x: Vec<NodeId> = (0..inputs)
        .map(|k| {
            let access = b.access(Access { operand: Some(k), dtype, class, per_row: false });
            b.node(Node::Load { access })
        })
        .collect();
    let y = f(&mut b, &x);
    let access = b.access(Access { operand: Some(inputs), dtype, class, per_row: false });
    b.store(y, access);
    b.finish()
}

fn args(pointers: &[u64]) -> Vec<u64> {
    pointers.iter().flat_map(|p| [*p, 0, 0, 0]).collect()
}

#[test]
fn math_is_what_the_scalar_machine_computes() {
    let mut r = Rng(3);
    for isa in isas() {
        for &op in ElementOp::ALL {
            if math::has_f32(op) {
                let arity = op.row().arity as u16;
                let code = compile(&map(DType::F32, false, arity, |b, x| b.element(op, x)), isa).unwrap();
                for _ in 0..30 {
                    let x: Vec<Vec<f32>> =
                        (0..arity).map(|_| (0..77).map(|_| sample(&mut r) as f32).collect()).collect();
                    let mut y = vec![0f32; 77];
                    let mut p: Vec<u64> = x.iter().map(|x| x.as_ptr() as u64).collect();
                    p.push(y.as_mut_ptr() as u64);
                    // SAFETY: contiguous buffers of 77 elements.
                    let whole = unsafe { code.run(&args(&p), 77, 1) };
                    let mut any = false;
                    for i in 0..77 {
                        let a: Vec<f32> = x.iter().map(|x| x[i]).collect();
                        let mut m = ScalarMachine::default();
                        let want = math::element_f32(&mut m, op, &a).unwrap();
                        any |= m.guarded;
                        let same = m.guarded || y[i].to_bits() == want.to_bits() || (y[i].is_nan() && want.is_nan());
                        assert!(same, "{isa:?} {op:?}{a:?}: {} {want}", y[i]);
                    }
                    assert_eq!(whole, !any, "{op:?}");
                }
            }
            if math::has_f64(op) {
                let arity = op.row().arity as u16;
                let code = compile(&map(DType::F64, false, arity, |b, x| b.element(op, x)), isa).unwrap();
                for _ in 0..30 {
                    let x: Vec<Vec<f64>> = (0..arity).map(|_| (0..77).map(|_| sample(&mut r)).collect()).collect();
                    let mut y = vec![0f64; 77];
                    let mut p: Vec<u64> = x.iter().map(|x| x.as_ptr() as u64).collect();
                    p.push(y.as_mut_ptr() as u64);
                    // SAFETY: contiguous buffers of 77 elements.
                    let whole = unsafe { code.run(&args(&p), 77, 1) };
                    let mut any = false;
                    for i in 0..77 {
                        let mut m = ScalarMachine::default();
                        let x: Vec<f64> = x.iter().map(|x| x[i]).collect();
                        let want = math::element_f64(&mut m, op, &x).unwrap();
                        any |= m.guarded;
                        let same = m.guarded || y[i].to_bits() == want.to_bits() || (y[i].is_nan() && want.is_nan());
                        assert!(same, "{isa:?} {op:?} {x:?}: {} {want}", y[i]);
                    }
                    assert_eq!(whole, !any, "{op:?}");
                }
            }
        }
    }
}

fn sample(r: &mut Rng) -> f64 {
    match r.below(4) {
        0 => r.pick(&[
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-42,
            88.7,
            -103.0,
            700.0,
            -740.0,
        ]),
        1 => f32::from_bits(r.next() as u32) as f64,
        _ => (r.next() as i64 as f64) / (1u64 << 59) as f64,
    }
}

/// Builds a GELU with Abramowitz and Stegun's approximation of erf, as a user would write it.
fn gelu(b: &mut BodyBuilder, x: NodeId) -> NodeId {
    use ElementOp::*;
    let k = |b: &mut BodyBuilder, v: f64| b.constant(Scalar::Float(v), DType::F32);
    let (half, one, root) = (k(b, 0.5), k(b, 1.0), k(b, std::f64::consts::FRAC_1_SQRT_2));
    let z = b.element(Mul, &[x, root]);
    let erf = |b: &mut BodyBuilder, z: NodeId| {
        let a = b.element(Abs, &[z]);
        let p = b.constant(Scalar::Float(0.3275911), DType::F32);
        let one = b.constant(Scalar::Float(1.0), DType::F32);
        let d = b.element(Mul, &[p, a]);
        let d = b.element(Add, &[d, one]);
        let t = b.element(Div, &[one, d]);
        let mut y = b.constant(Scalar::Float(1.061405429), DType::F32);
        for c in [-1.453152027, 1.421413741, -0.284496736, 0.254829592] {
            let c = b.constant(Scalar::Float(c), DType::F32);
            y = b.element(Mul, &[y, t]);
            y = b.element(Add, &[y, c]);
        }
        y = b.element(Mul, &[y, t]);
        let s = b.element(Mul, &[z, z]);
        let n = b.element(Neg, &[s]);
        let e = b.element(Exp, &[n]);
        y = b.element(Mul, &[y, e]);
        b.element(Sub, &[one, y])
    };
    let positive = erf(b, z);
    let nz = b.element(Neg, &[z]);
    let mirrored = erf(b, nz);
    let mirrored = b.element(Neg, &[mirrored]);
    let zero = b.constant(Scalar::Float(0.0), DType::F32);
    let below = b.element(Lt, &[z, zero]);
    let e = b.element(Where, &[below, mirrored, positive]);
    let s = b.element(Add, &[one, e]);
    let h = b.element(Mul, &[half, x]);
    b.element(Mul, &[h, s])
}

/// Builds a map body with four rounds of the Threefry generator on the elements' bits.
fn rounds() -> Body {
    use ElementOp::{Add, BitOr, BitXor, Shl, Shr};
    map(DType::U32, false, 1, |b, x| {
        let (mut p, mut q) = (x[0], b.constant(Scalar::Int(77), DType::U32));
        for n in [13i64, 15, 26, 6] {
            let (left, right) = (b.constant(Scalar::Int(n), DType::U32), b.constant(Scalar::Int(32 - n), DType::U32));
            p = b.element(Add, &[p, q]);
            let (l, h) = (b.element(Shl, &[q, left]), b.element(Shr, &[q, right]));
            q = b.element(BitOr, &[l, h]);
            q = b.element(BitXor, &[q, p]);
        }
        b.element(BitXor, &[p, q])
    })
}

fn best(mut f: impl FnMut() -> Duration) -> Duration {
    (0..40).map(|_| f()).min().unwrap()
}

fn throughput(body: &Body, isa: Isa, options: Options, inputs: usize, n: usize) -> f64 {
    let code = compile_with(body, isa, options).unwrap();
    let x: Vec<Vec<f32>> = (0..inputs).map(|_| (0..n).map(|i| (i % 999) as f32 / 250.0 - 2.0).collect()).collect();
    let mut y = vec![0f32; n];
    let mut p: Vec<u64> = x.iter().map(|x| x.as_ptr() as u64).collect();
    p.push(y.as_mut_ptr() as u64);
    let a = args(&p);
    let turns = (1 << 22) / n + 1;
    let t = best(|| {
        let t = Instant::now();
        for _ in 0..turns {
            // SAFETY: contiguous buffers of n elements.
            unsafe { code.run(&a, n, 1) };
        }
        t.elapsed()
    });
    t.as_nanos() as f64 / (turns * n) as f64
}

/// Prints compile time and throughput of map bodies. Run with
/// `cargo nextest run -p thalweg-cpu --release --run-ignored only speed_report --no-capture`.
#[test]
#[ignore = "a report, not a test"]
fn speed_report() {
    use ElementOp::*;
    let bodies: Vec<(&str, Body, usize)> = vec![
        ("x + y", map(DType::F32, false, 2, |b, x| b.element(Add, x)), 2),
        ("gelu by hand", map(DType::F32, false, 1, |b, x| gelu(b, x[0])), 1),
        ("exp", map(DType::F32, false, 1, |b, x| b.element(Exp, x)), 1),
        ("tanh", map(DType::F32, false, 1, |b, x| b.element(Tanh, x)), 1),
        ("erf", map(DType::F32, false, 1, |b, x| b.element(Erf, x)), 1),
        ("log", map(DType::F32, false, 1, |b, x| b.element(Log, x)), 1),
        ("sin", map(DType::F32, false, 1, |b, x| b.element(Sin, x)), 1),
        ("threefry rotations", rounds(), 1),
        ("pow", map(DType::F32, false, 2, |b, x| b.element(Pow, x)), 2),
    ];
    for isa in isas() {
        for (name, body, inputs) in &bodies {
            let times: Vec<Duration> = (0..50).map(|_| compile(body, isa).unwrap().report.time).collect();
            let report = compile(body, isa).unwrap().report;
            let t = |copies, n| throughput(body, isa, Options { copies, ..Options::default() }, *inputs, n);
            println!(
                "{isa:?} {name}: {} instructions x{}, {} bytes, {} spills, compiled in {:?} (first {:?}); ns/element 64K {:.3} (x1 {:.3}, x2 {:.3}, x4 {:.3}), 8M {:.3}",
                report.instructions,
                report.copies,
                report.bytes,
                report.spills,
                times.iter().min().unwrap(),
                times[0],
                t(None, 1 << 16),
                t(Some(1), 1 << 16),
                t(Some(2), 1 << 16),
                t(Some(4), 1 << 16),
                t(None, 1 << 23),
            );
        }
    }
}

/// Builds a row body with one input and one output.
fn rows_of(f: impl Fn(&mut BodyBuilder, NodeId, NodeId) -> NodeId) -> Body {
    let mut b = BodyBuilder::new(false);
    let class = AccessClass::Contiguous;
    let access = |operand| Access { operand: Some(operand), dtype: DType::F32, class, per_row: false };
    let (x, y) = (b.access(access(0)), b.access(access(1)));
    let (x, n) = (b.node(Node::Load { access: x }), b.scalar(0, DType::F32));
    let out = f(&mut b, x, n);
    b.store(out, y);
    b.finish()
}

fn softmax(b: &mut BodyBuilder, x: NodeId) -> NodeId {
    let m = b.fold(Monoid::Max, x);
    let d = b.element(ElementOp::Sub, &[x, m]);
    let e = b.element(ElementOp::Exp, &[d]);
    let s = b.fold(Monoid::Sum, e);
    b.element(ElementOp::Div, &[e, s])
}

fn layernorm(b: &mut BodyBuilder, x: NodeId, n: NodeId) -> NodeId {
    let s = b.fold(Monoid::Sum, x);
    let mean = b.element(ElementOp::Div, &[s, n]);
    let d = b.element(ElementOp::Sub, &[x, mean]);
    let q = b.element(ElementOp::Mul, &[d, d]);
    let s = b.fold(Monoid::Sum, q);
    let variance = b.element(ElementOp::Div, &[s, n]);
    let least = b.constant(Scalar::Float(1e-5), DType::F32);
    let v = b.element(ElementOp::Add, &[variance, least]);
    let root = b.element(ElementOp::Sqrt, &[v]);
    b.element(ElementOp::Div, &[d, root])
}

/// Number of points per row (`N`), and number of rows, in the reports on row bodies.
const N: usize = 1024;
const ROWS: usize = 64;

/// Builds the row bodies that the report measures, with their names.
fn row_bodies() -> [(&'static str, Body); 5] {
    use ElementOp::*;
    let mut sum = BodyBuilder::new(false);
    let (x, y) = (
        sum.access(Access::contiguous(0, DType::F32)),
        sum.access(Access { operand: Some(1), dtype: DType::F32, class: AccessClass::Uniform, per_row: true }),
    );
    let x = sum.node(Node::Load { access: x });
    let q = sum.element(Mul, &[x, x]);
    let s = sum.fold(Monoid::Sum, q);
    sum.store(s, y);
    let moments = |b: &mut BodyBuilder, x, _| {
        let q = b.element(Mul, &[x, x]);
        let (s, t) = (b.fold(Monoid::Sum, x), b.fold(Monoid::Sum, q));
        let (least, most) = (b.fold(Monoid::Min, x), b.fold(Monoid::Max, x));
        let u = b.element(Add, &[s, t]);
        let w = b.element(Add, &[least, most]);
        b.element(Add, &[u, w])
    };
    let taken_away = |b: &mut BodyBuilder, x, _| {
        let m = b.fold(Monoid::Max, x);
        b.element(Sub, &[x, m])
    };
    [
        ("softmax", rows_of(|b, x, _| softmax(b, x))),
        ("layernorm", rows_of(layernorm)),
        ("sum of squares", sum.finish()),
        ("moments", rows_of(moments)),
        ("maximum taken away", rows_of(taken_away)),
    ]
}

/// Prints the measurements of a row body whose main loop is unrolled `copies` times.
fn row_report(name: &str, body: &Body, isa: Isa, copies: Option<usize>, x: &[f32]) {
    let code = compile_inner_reduction_with(body, isa, true, Options { copies, ..Options::default() }).unwrap();
    if let Some(folder) = thalweg_runtime::environment::CODE.path() {
        let prepared = crate::prepare::prepare(body);
        let (bytes, _) = assemble_inner_reduction(&prepared, &code.phases, isa, Options::default()).unwrap();
        std::fs::write(folder.join(format!("{isa:?}-{name}")), bytes).unwrap();
    }
    let (mut y, mut kept) = (vec![0f32; N * ROWS], vec![0f32; N]);
    let (row, mut values) = (4 * N as u64, [0u64; 8]);
    let to_one = body.accesses[1].per_row;
    let mut a = vec![x.as_ptr() as u64, row, 0, 0, y.as_mut_ptr() as u64, if to_one { 4 } else { row }, 0, 0];
    for _ in &code.phases.buffers {
        a.extend([kept.as_mut_ptr() as u64, 0, 0, 0]);
    }
    a.extend((0..body.scalars).map(|_| (N as f32).to_bits() as u64));
    a.extend([values.as_mut_ptr() as u64, 1]);
    let each = |n: usize| {
        let t = best(|| {
            let t = Instant::now();
            for _ in 0..20 {
                // SAFETY: rows of N elements.
                unsafe { code.run(&a, n, ROWS, 0..code.phases.list.len()) };
            }
            t.elapsed()
        });
        t.as_nanos() as f64 / (20 * ROWS) as f64
    };
    println!(
        "{isa:?} {name} {copies:?}: {} phases, {} buffers, {} instructions, {} bytes, {} spills, compiled in {:?}; ns a row: 1024 {:.0}, 1000 {:.0}, 64 {:.0}, 1 {:.0}, 0 {:.0}",
        code.phases.list.len(),
        code.phases.buffers.len(),
        code.report.instructions,
        code.report.bytes,
        code.report.spills,
        (0..50).map(|_| compile_inner_reduction(body, isa, true).unwrap().report.time).min().unwrap(),
        each(1024),
        each(1000),
        each(64),
        each(1),
        each(0),
    );
}

/// Prints the measurements of column sums, where all rows accumulate into the same output row.
fn columns_report(isa: Isa, x: &[f32]) {
    let mut body = map(DType::F32, false, 1, |_, x| x[0]);
    body.stores[0].combine = Some(Monoid::Sum);
    let code = compile(&body, isa).unwrap();
    let mut y = vec![0f32; N];
    let a = [x.as_ptr() as u64, 4 * N as u64, 0, 0, y.as_mut_ptr() as u64, 0, 0, 0];
    let t = best(|| {
        let t = Instant::now();
        for _ in 0..20 {
            // SAFETY: rows of N elements.
            unsafe { code.run(&a, N, ROWS) };
        }
        t.elapsed()
    });
    println!(
        "{isa:?} column sums: {} copies, ns a row {:.0}",
        code.report.copies,
        t.as_nanos() as f64 / (20 * ROWS) as f64
    );
    if let Some(folder) = thalweg_runtime::environment::CODE.path() {
        let bytes = super::super::assemble(&body, isa, Options::default()).unwrap().0;
        std::fs::write(folder.join(format!("{isa:?}-columns")), bytes).unwrap();
    }
}

/// Prints measurements of row bodies. Run with
/// `cargo nextest run -p thalweg-cpu --release --run-ignored only rows_report --no-capture`.
#[test]
#[ignore = "a report, not a test"]
fn rows_report() {
    let bodies = row_bodies();
    let x: Vec<f32> = (0..N * ROWS).map(|i| (i * 37 % 999) as f32 / 250.0 - 2.0).collect();
    for isa in isas() {
        for (name, body) in &bodies {
            [None, Some(1), Some(2), Some(4)].into_iter().for_each(|copies| row_report(name, body, isa, copies, &x));
        }
    }
    isas().for_each(|isa| columns_report(isa, &x));
}
