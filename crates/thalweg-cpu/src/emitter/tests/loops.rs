//! Compares loops with data-dependent trip counts, on both engines, with an evaluation of one element at a time.

use super::super::inner_reduction::compile_inner_reduction_with;
use super::super::{Options, compile_with};
use super::along::{access, compare, expected};
use super::evaluate::Launch;
use super::{Rng, isas};
use crate::row_call::{InnerReduction, Rows};
use crate::tile;
use thalweg_ir::{DType, ElementOp, First, Loop, Monoid, Region, RegionNode, Scalar};
use thalweg_kernel::{AccessClass, Body, BodyBuilder, Node, NodeId, reference};

/// A random region under construction, with the dtype of each node.
struct Making<'a> {
    r: &'a mut Rng,
    region: Region,
    dtypes: Vec<DType>,
}

impl Making<'_> {
    fn push(&mut self, node: RegionNode, dtype: DType) -> u32 {
        self.region.nodes.push(node);
        self.dtypes.push(dtype);
        self.dtypes.len() as u32 - 1
    }

    /// Returns a random node of the dtype.
    fn some(&mut self, dtype: DType) -> u32 {
        let all: Vec<u32> = (0..self.dtypes.len() as u32)
            .filter(|&n| self.dtypes[n as usize] == dtype)
            .filter(|&n| !matches!(self.region.nodes[n as usize], RegionNode::Loop { .. }))
            .collect();
        if all.is_empty() || self.r.below(6) == 0 {
            let bits = match dtype {
                DType::F32 => self.r.pick(&[0.5f32, 1.0, -2.0, 100.0, f32::NAN]).to_bits() as u64,
                DType::F64 => self.r.pick(&[0.5f64, 1.0, -2.0, 100.0]).to_bits(),
                DType::Bool => self.r.below(2) as u64,
                _ => self.r.pick(&[0u32, 1, 3, u32::MAX, 7]) as u64,
            };
            return self.push(RegionNode::Const { bits, dtype }, dtype);
        }
        self.r.pick(&all)
    }

    fn element(&mut self, op: ElementOp, dtype: DType) -> u32 {
        let condition = op == ElementOp::Where;
        let args = [0, 1, 2].map(|k| match () {
            _ if k >= op.row().arity => 0,
            _ if condition && k == 0 => self.some(DType::Bool),
            _ => self.some(dtype),
        });
        self.push(RegionNode::Element { op, args }, op.output(dtype))
    }

    fn step(&mut self, dtypes: &[DType], depth: usize) {
        use ElementOp::*;
        let dtype = self.r.pick(dtypes);
        if depth > 0 && self.r.below(8) == 0 {
            let inner = region(self.r, dtypes, depth - 1);
            let args: Vec<u32> = inner.region().args.iter().map(|&d| self.some(d)).collect();
            let of = self.push(RegionNode::Loop { inner, args }, inner.carried(0));
            for number in 0..inner.region().first.len() {
                self.push(RegionNode::Result { of, number: number as u16 }, inner.carried(number));
            }
            return;
        }
        if self.r.below(8) == 0 {
            let from = self.r.pick(dtypes);
            let arg = self.some(from);
            if from != dtype {
                self.push(RegionNode::Cast { dtype, arg }, dtype);
            }
            return;
        }
        let op = match dtype {
            DType::Bool => self.r.pick(&[And, Or, Not, Xor, Where]),
            d if d.is_float() => {
                self.r.pick(&[Add, Sub, Mul, Mul, Div, Sqrt, Abs, Neg, Minimum, Maximum, Floor, Where, Lt, Ge, Ne])
            }
            _ => self.r.pick(&[Add, Sub, Mul, Div, Rem, BitXor, Shr, Minimum, Where, Lt, Eq, BitAnd]),
        };
        self.element(op, dtype);
    }
}

/// Generates a random loop over values of these dtypes.
pub fn region(r: &mut Rng, dtypes: &[DType], depth: usize) -> Loop {
    let args: Vec<DType> = (0..1 + r.below(4)).map(|_| r.pick(dtypes)).collect();
    let mut first: Vec<(First, DType)> = vec![];
    for (n, &d) in args.iter().enumerate() {
        if r.below(3) > 0 {
            first.push((First::Arg(n as u16), d));
        }
    }
    first.push((First::Const { bits: 0, dtype: DType::I32 }, DType::I32));
    let most = r.pick(&[1, 3, 10, 40]);
    let region = Region { most, args, first: first.iter().map(|f| f.0).collect(), nodes: vec![], go: 0, next: vec![] };
    let mut m = Making { r, region, dtypes: vec![] };
    for (n, f) in first.iter().enumerate() {
        m.push(RegionNode::Carried(n as u16), f.1);
    }
    for n in 0..m.region.args.len() {
        let dtype = m.region.args[n];
        m.push(RegionNode::Arg(n as u16), dtype);
    }
    let count = first.len() as u32 - 1;
    for _ in 0..1 + m.r.below(10) {
        m.step(dtypes, depth);
    }
    // Usually a counter limits the loop, so that there are a few iterations.
    let limit = m.push(RegionNode::Const { bits: 17, dtype: DType::I32 }, DType::I32);
    let more = m.push(RegionNode::Element { op: ElementOp::Lt, args: [count, limit, count] }, DType::Bool);
    let other = m.some(DType::Bool);
    let op = m.r.pick(&[ElementOp::And, ElementOp::Or]);
    m.region.go = m.push(RegionNode::Element { op, args: [more, other, more] }, DType::Bool);
    let one = m.push(RegionNode::Const { bits: 1, dtype: DType::I32 }, DType::I32);
    let counted = m.push(RegionNode::Element { op: ElementOp::Add, args: [count, one, count] }, DType::I32);
    m.region.next = first[..first.len() - 1].iter().map(|f| m.some(f.1)).collect();
    m.region.next.push(counted);
    m.region.intern()
}

/// Generates a body that applies a loop between other operations, and stores and (`folds`) folds the results.
pub fn body(r: &mut Rng, dtypes: &[DType], folds: bool) -> Body {
    let mut b = BodyBuilder::new(true);
    let mut operand = 0;
    let mut of = |b: &mut BodyBuilder, l: Loop, per_row: bool| -> Vec<(NodeId, DType)> {
        let args: Vec<NodeId> = l
            .region()
            .args
            .iter()
            .map(|&d| {
                let class = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
                let access = access(b, &mut operand, d, class, per_row);
                b.node(Node::Load { access })
            })
            .collect();
        let of = b.looped(l, &args);
        let result = |(number, n): (usize, &u32)| {
            (b.node(Node::Looped { of, number: number as u16, dtype: l.dtype(*n) }), l.dtype(*n))
        };
        l.region().next.iter().enumerate().map(result).collect()
    };
    let mut values = of(&mut b, region(r, dtypes, 1), false);
    if r.below(2) == 0 {
        let per_row = folds && r.below(2) == 0;
        let l = region(r, dtypes, 1);
        values.extend(of(&mut b, l, per_row));
    }
    for (x, dtype) in values {
        let y = if dtype == DType::Bool { b.element(ElementOp::Not, &[x]) } else { b.element(ElementOp::Abs, &[x]) };
        let at = access(&mut b, &mut operand, dtype, AccessClass::Contiguous, false);
        b.store(y, at);
        if folds && dtype != DType::Bool && r.below(2) == 0 {
            let sum = b.fold(r.pick(&[Monoid::Max, Monoid::Min, Monoid::Sum]), y);
            let at = access(&mut b, &mut operand, dtype, AccessClass::Uniform, true);
            b.store(sum, at);
        }
    }
    b.finish()
}

pub const KINDS: [&[DType]; 3] = [
    &[DType::F32, DType::I32, DType::Bool],
    &[DType::F64, DType::F32, DType::I32, DType::Bool],
    &[DType::I32, DType::Bool],
];

#[test]
fn random_loops_have_the_bits_of_one_element_after_the_other() {
    let mut r = Rng(1_580_000_011);
    let mut taken = 0;
    for turn in 0..200 {
        let kind = r.pick(&KINDS);
        let body = body(&mut r, kind, false);
        let (n, rows) = (r.below(70), 1 + r.below(3));
        for isa in isas() {
            let registers = (r.below(2) == 0).then(|| 6 + r.below(8));
            let Ok(code) = compile_with(&body, isa, Options { registers, ..Options::default() }) else { continue };
            let mut l = Launch::new(&body, &mut r, n, rows);
            let want = expected(&mut l, &body);
            // SAFETY: the launch was built for the body.
            assert!(unsafe { code.run(&l.args, n, rows) });
            compare(&mut l, &body, &want, &format!("{turn} {isa:?} {registers:?}, n {n}"));
            taken += 1;
        }
        let n = if turn % 8 == 0 { n * 12 } else { n };
        let mut l = Launch::new(&body, &mut r, n, rows);
        let want = expected(&mut l, &body);
        // SAFETY: as above.
        assert!(unsafe { tile::compile(&body).run(&l.args, n, rows) });
        compare(&mut l, &body, &want, &format!("{turn} tiles, n {n}"));
    }
    assert!(taken > 150 * isas().count(), "{taken}");
}

#[test]
fn random_loops_in_rows_with_folds() {
    let mut r = Rng(1_580_000_019);
    let mut taken = 0;
    for turn in 0..150 {
        let kind = r.pick(&KINDS);
        let body = body(&mut r, kind, true);
        let (n, rows) = (r.below(150), 1 + r.below(3));
        for isa in isas() {
            let registers = (r.below(2) == 0).then(|| 6 + r.below(8));
            let options = Options { registers, ..Options::default() };
            let Ok(code) = compile_inner_reduction_with(&body, isa, false, options) else { continue };
            let mut l = Launch::new(&body, &mut r, n, rows);
            let mut values = [0u64; 64];
            l.args.extend([values.as_mut_ptr() as u64, 1]);
            let want = expected(&mut l, &body);
            let all = code.phases.list.len();
            // SAFETY: the launch was built for the body.
            assert!(unsafe { code.run(&l.args, n, rows, 0..all) });
            compare(&mut l, &body, &want, &format!("{turn} {isa:?} {registers:?}, n {n}"));
            taken += 1;
        }
    }
    assert!(taken > 100 * isas().count(), "{taken}");
}

/// Tests that many values that are live across a loop survive it.
#[test]
fn what_lives_across_a_loop_is_there_after_it() {
    let mut r = Rng(1_580_000_023);
    let l = region(&mut r, KINDS[0], 0);
    let mut b = BodyBuilder::new(true);
    let mut operand = 0;
    let at = access(&mut b, &mut operand, DType::F32, AccessClass::Contiguous, false);
    let x = b.node(Node::Load { access: at });
    let mut values = vec![x];
    for k in 0..40 {
        let y = b.element([ElementOp::Mul, ElementOp::Add][k % 2], &[values[k], x]);
        values.push(y);
    }
    let test = b.element(ElementOp::Lt, &[values[3], x]);
    let int = b.cast(x, DType::I32);
    let args: Vec<NodeId> = l
        .region()
        .args
        .iter()
        .map(|d| match d {
            DType::Bool => test,
            DType::I32 => int,
            _ => x,
        })
        .collect();
    let of = b.looped(l, &args);
    let number = l.region().next.len() as u16 - 1;
    let turns = b.node(Node::Looped { of, number, dtype: DType::I32 });
    let mut sum = b.cast(turns, DType::F32);
    for v in values.into_iter().rev() {
        sum = b.element(ElementOp::Add, &[sum, v]);
    }
    for value in [sum, x] {
        let at = access(&mut b, &mut operand, DType::F32, AccessClass::Contiguous, false);
        b.store(value, at);
    }
    let body = b.finish();
    for isa in isas() {
        let code = compile_with(&body, isa, Options::default()).unwrap();
        let mut l = Launch::new(&body, &mut r, 37, 2);
        let want = expected(&mut l, &body);
        // SAFETY: the launch was built for the body.
        assert!(unsafe { code.run(&l.args, 37, 2) });
        compare(&mut l, &body, &want, &format!("{isa:?}"));
    }
}

/// The remainder of a floor division is a fused multiply-add with a carried value, which changes in its register.
#[test]
fn what_a_loop_carries_is_a_factor_of_a_sum_with_a_product() {
    let text = "loop{3;f32,f32;a1;k1:bool,a0,c0,floor_div:1:2;0;3}";
    let l = Loop::parse(text).expect("a loop");
    let mut b = BodyBuilder::new(true);
    let mut operand = 0;
    let mut loaded = || {
        let at = access(&mut b, &mut operand, DType::F32, AccessClass::Contiguous, false);
        b.node(Node::Load { access: at })
    };
    let args = [loaded(), loaded()];
    let of = b.looped(l, &args);
    let y = b.node(Node::Looped { of, number: 0, dtype: DType::F32 });
    let at = access(&mut b, &mut operand, DType::F32, AccessClass::Contiguous, false);
    b.store(y, at);
    let body = b.finish();
    let x = [3.0f32, -3.0, 0.5, -0.5, 100.0, 7.7, 5.0, 1e-40, 2.0, -9.0, 64.0];
    let z = [-1.0f32, -1.0, -1.0, 0.5, -1.0, 7.7, f32::NEG_INFINITY, -0.0, 2.0, 4.0, -3.0];
    let meaning = |(&x, &z): (&f32, &f32)| {
        let all = reference::looped(l, &[x, z].map(|v| Scalar::Float(f64::from(v))));
        all[0].to_f64() as f32
    };
    let want: Vec<u32> = x.iter().zip(&z).map(|at| meaning(at).to_bits()).collect();
    for isa in isas() {
        for registers in [None, Some(8)] {
            let code = compile_with(&body, isa, Options { registers, ..Options::default() }).unwrap();
            let mut got = [0f32; 11];
            let args = [x.as_ptr() as u64, 0, 1, 0, z.as_ptr() as u64, 0, 1, 0, got.as_mut_ptr() as u64, 0, 1, 0];
            // SAFETY: each buffer has that many elements.
            assert!(unsafe { code.run(&args, x.len(), 1) });
            assert_eq!(got.map(f32::to_bits).to_vec(), want, "{isa:?} {registers:?}: {got:?}");
        }
    }
}
