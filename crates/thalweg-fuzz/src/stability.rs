//! Stability of a program: how much its results may change when roundings differ.
//!
//! Contraction, unrounded narrow floats and other orders of a reduction change a value a little; the effect on later
//! values depends on the program. So the interpreter runs it a few more times, with each float result perturbed
//! randomly by up to two ulp. Where the runs agree, a non-strict result must be near them; where they diverge (a
//! difference of equals, a comparison of close values, an overflow) nothing can be checked.
//!
//! A few runs are cheap but may agree by chance. So a result that they call wrong gets a second opinion before it is
//! reported: many runs, in which differences and sums are also perturbed by the roundings of their terms, for each
//! reader separately. For a kernel that contracts a product into a difference of equals, or two kernels that each
//! compute one of them, leave a rounding where the meaning has 0; and a narrow 0 may be an underflow.
//!
//! A product of floats may also be computed in another order. Further runs without perturbation use the two most
//! extreme orders for products that may overflow or underflow (`products.rs`): an element that changes in these runs is
//! not checked, all others of the same tensor are.

use crate::products::{Product, in_other_orders, products};
use crate::program::{Argument, Program, Step, Tensor};
use crate::tolerance::magnitude;
use fastrand::Rng;
use std::cell::{Cell, RefCell};
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, Rounding, Scalar};
use thalweg_kernel::reference::{self, Array, Data, RefArg};

/// Number of perturbed runs of a small program, and of a large one.
const RUNS: [u64; 2] = [6, 2];
/// Number of further runs of a small program, and of a large one, when the first ones do not decide.
const MORE: [u64; 2] = [128, 8];
/// Minimum total number of elements of all results of a large program. Large programs run fewer times, because the
/// interpreter is slow.
const LARGE: usize = 100_000;
/// Number of further runs between two judgements of the result.
const TURN: u64 = 8;
/// Share of readers that see a perturbed value in these runs: all, or few, as when one kernel differs from the others.
const PERTURBED_FRACTIONS: [f64; 3] = [1.0, 0.5, 0.125];
/// Allowed distance of a result, as a multiple of the runs' spread.
const SLACK: f64 = 64.0;

/// Results of perturbed interpreter runs of a program, which tell how far rounding may move each result.
pub struct Stability<'a> {
    program: &'a Program,
    runs: Vec<Vec<Array>>,
    /// Results of further, more closely perturbed runs, as far as they were needed.
    more: RefCell<Vec<Vec<Array>>>,
    /// Unperturbed results; the same with products in two other orders, with subnormals as 0, and with NaN for chains
    /// of GEMMs that may overflow. `None` if all are equal.
    orders: Option<[Vec<Array>; 5]>,
    /// For each step, whether it depends on a decision between narrow floats.
    decided: Vec<bool>,
}

impl Stability<'_> {
    /// Runs the program with perturbed results.
    pub fn new(program: &Program) -> Stability<'_> {
        Stability {
            program,
            runs: (0..RUNS[is_large(program) as usize]).map(|n| one(program, n, false)).collect(),
            more: RefCell::default(),
            orders: orders(program),
            decided: decided(program),
        }
    }

    /// Describes the error of `got` as the result of a step that is `want` in strict mode; `None` if there is none.
    pub fn judge(&self, step: usize, got: &Array, want: &Array) -> Option<String> {
        self.judge_by(&self.runs, step, got, want)?;
        let (mut more, most) = (self.more.borrow_mut(), MORE[is_large(self.program) as usize]);
        // Further runs are made a few at a time: the first ones decide most reports.
        loop {
            if !more.is_empty() {
                let wrong = self.judge_by(&more, step, got, want)?;
                if more.len() as u64 >= most {
                    return Some(wrong);
                }
            }
            let next = more.len() as u64;
            more.extend((next..next + TURN).map(|n| one(self.program, n, true)));
        }
    }

    fn judge_by(&self, runs: &[Vec<Array>], step: usize, got: &Array, want: &Array) -> Option<String> {
        let runs: Vec<&Array> = runs.iter().map(|r| &r[step]).collect();
        let n = want.shape.numel();
        let differ = |what: &dyn Fn(usize) -> bool| {
            let at = (0..n).find(|&p| what(p))?;
            Some(format!("at {at}: {:?}, strictly {:?}", got.get(at), want.get(at)))
        };
        if self.decided[step] {
            return None;
        }
        if !want.dtype.is_float() {
            let stable = runs.iter().all(|r| r.data == want.data);
            let asked = |p: usize| self.by_order(step, p) == 0.0;
            return if stable { differ(&|p| got.get(p) != want.get(p) && asked(p)) } else { None };
        }
        let value = |a: &Array, p: usize| a.get(p).to_f64();
        let spread = |p: usize| runs.iter().map(|r| distance(value(r, p), value(want, p))).fold(0.0, f64::max);
        // The spread is the maximum over the tensor, because the runs of a single element may agree by chance.
        let all = (0..n).map(spread).fold(0.0, f64::max);
        let epsilon = 2f64.powi(1 - want.dtype.mantissa_digits() as i32);
        differ(&|p| {
            let (g, w) = (value(got, p), value(want, p));
            let allowed = SLACK * (all + epsilon * w.abs() + self.by_order(step, p));
            // With such a tolerance a narrow float may have overflowed.
            let overflows = g.is_infinite() && want.dtype.round(w.abs() + allowed).is_infinite();
            w.is_finite() && distance(g, w) > allowed && !overflows
        })
    }
}

impl Stability<'_> {
    /// Change of element `p` when products are computed in another order.
    fn by_order(&self, step: usize, p: usize) -> f64 {
        let Some([usual, others @ ..]) = &self.orders else { return 0.0 };
        let value = |run: &[Array]| run[step].get(p).to_f64();
        others.iter().map(|other| distance(value(other), value(usual))).fold(0.0, f64::max)
    }
}

/// Distance of two results. 0 if both are not finite; infinite if only one is.
fn distance(a: f64, b: f64) -> f64 {
    match (a.is_finite(), b.is_finite()) {
        (true, true) => (a - b).abs(),
        (false, false) => 0.0,
        _ => f64::INFINITY,
    }
}

/// Results of the interpreter: unchanged, with order-dependent products in two other orders, with subnormals as 0 in
/// GEMMs of bf16, and with NaN for chains of GEMMs whose intermediate results may overflow in another order; `None` if
/// nothing changes.
fn orders(program: &Program) -> Option<[Vec<Array>; 5]> {
    let product = |s: &Step| s.op == Op::Reduce(ReduceOp::Prod) && s.dtype.is_float();
    let pairs = |s: &Step| s.op == Op::Matmul && s.dtype == DType::BF16;
    if !program.steps.iter().any(|s| product(s) || s.op == Op::Matmul) {
        return None;
    }
    // Whether a step depends on the order of products; the first run finds all of them.
    let any = Cell::new(false);
    let one = |way: Option<usize>| {
        let mut chains = Chains::default();
        evaluate(program, |step, args, result| {
            if chains.overflows(step, args) {
                any.set(true);
                if let (Some(3), Data::Float(values)) = (way, &mut result.data) {
                    values.fill(f64::NAN);
                }
            }
            if pairs(step) {
                let Some(flushed) = without_subnormals(args) else { return };
                any.set(true);
                if way == Some(2) {
                    let args: Vec<RefArg<'_>> = flushed.iter().map(RefArg::Array).collect();
                    *result = reference::evaluate(&step.rel(step.op), step.shape, &args, &step.ints);
                }
                return;
            }
            let (Some(RefArg::Array(a)), true) = (args.first(), product(step)) else { return };
            let [falling, rising] = in_other_orders(step.attr, a, result);
            any.set(any.get() || products(step.attr, a, result.dtype).iter().any(Product::depends));
            match way {
                Some(0) => *result = falling,
                Some(1) => *result = rising,
                _ => {}
            }
        })
    };
    let usual = one(None);
    any.get().then(|| [usual, one(Some(0)), one(Some(1)), one(Some(2)), one(Some(3))])
}

/// Bounds of chains of GEMMs, whose order the planner chooses.
#[derive(Default)]
struct Chains {
    /// For each step so far that is a GEMM, or a view of one: bound of the magnitude of every product of its factors.
    bounds: Vec<Option<f64>>,
}

impl Chains {
    /// Adds the next step; returns whether it is a GEMM of at least three factors, some of which may overflow in some
    /// order.
    fn overflows(&mut self, step: &Step, args: &[RefArg<'_>]) -> bool {
        let inner = |n: usize| match step.args.get(n) {
            Some(Argument::Tensor(Tensor::Step(from))) => self.bounds[*from],
            _ => None,
        };
        if step.op != Op::Matmul {
            let bound = if step.op.is_view() { inner(0) } else { None };
            self.bounds.push(bound);
            return false;
        }
        let factors = [0, 1].map(|n| match (inner(n), args.get(n)) {
            (Some(bound), _) => (true, bound),
            (None, Some(RefArg::Array(a))) => (false, magnitude(&[*a])),
            _ => (false, 1.0),
        });
        let terms = args.first().map_or(1, |a| if let RefArg::Array(a) = a { a.shape.numel() } else { 1 });
        let bound = terms as f64 * factors[0].1 * factors[1].1;
        self.bounds.push(Some(bound));
        (factors[0].0 || factors[1].0) && step.dtype.is_float() && step.dtype.round(bound).is_infinite()
    }
}

/// Factors of a GEMM with f32 subnormals replaced by 0, if there are any: instructions that add pairs of bf16 products
/// do so, and infinity times 0 is NaN.
fn without_subnormals(args: &[RefArg<'_>]) -> Option<Vec<Array>> {
    let mut any = false;
    let mut flushed = |arg: &RefArg<'_>| {
        let RefArg::Array(a) = arg else { return None };
        let mut a = (*a).clone();
        if let Data::Float(values) = &mut a.data {
            for v in values.iter_mut().filter(|v| **v != 0.0 && v.abs() < f32::MIN_POSITIVE as f64) {
                (*v, any) = (0f64.copysign(*v), true);
            }
        }
        Some(a)
    };
    let all: Option<Vec<Array>> = args.iter().take(2).map(&mut flushed).collect();
    all.filter(|_| any)
}

/// Marks steps that depend on a decision between narrow floats: a comparison, the index of an extreme, a cast to an
/// integer. Rounded to 8 or 11 bits, many numbers are equal, or infinite, that differ in f32, and small perturbations
/// do not reach that.
fn decided(program: &Program) -> Vec<bool> {
    let (mut narrow, mut decided) = (vec![], vec![]);
    for step in &program.steps {
        let of = |steps: &[bool], inputs: bool| {
            step.args.iter().any(|a| match a {
                Argument::Tensor(Tensor::Step(n)) => steps[*n],
                Argument::Tensor(Tensor::Input(n)) => {
                    inputs && matches!(program.inputs[*n].dtype, DType::BF16 | DType::F16)
                }
                Argument::Scalar(_) => false,
            })
        };
        let from_narrow = of(&narrow, true);
        decided.push(of(&decided, false) || from_narrow && !step.dtype.is_float());
        narrow.push(from_narrow || matches!(step.dtype, DType::BF16 | DType::F16));
    }
    decided
}

fn is_large(program: &Program) -> bool {
    program.steps.iter().map(|s| s.shape.numel()).sum::<usize>() >= LARGE
}

/// Results of run number `n` of a program; `closely` for a further run, where the first ones do not decide.
fn one(program: &Program, n: u64, closely: bool) -> Vec<Array> {
    // Runs come in pairs with opposite perturbations: at a discontinuity one of them is below it.
    let (way, alike) = (if n.is_multiple_of(2) { 1.0 } else { -1.0 }, n / 2 % 2 == 1);
    let rng = &mut Rng::with_seed(n / 2);
    if !closely {
        return run(program, rng, alike, way);
    }
    run_closely(
        program,
        rng,
        alike,
        way,
        n / 4 % 2 == 1,
        PERTURBED_FRACTIONS[n as usize / 8 % PERTURBED_FRACTIONS.len()],
    )
}

/// One run, with each rounded float result perturbed at random, or equally within an operation if `alike`.
fn run(program: &Program, rng: &mut Rng, alike: bool, way: f64) -> Vec<Array> {
    evaluate(program, |step, _, result| {
        if rounds(step.op, step.dtype) {
            put_off(result, rng, alike, way);
            if step.op == Op::Element(ElementOp::Tan) {
                poles(result, way);
            }
        }
    })
}

/// One run of a second opinion. Readers of a rounded result, a fraction `share` of them, see it perturbed separately,
/// as kernels that recompute it do, and not only relatively, but also by the roundings of its terms. With `rounded`,
/// perturbed values are rounded to the dtype because close ones may become equal.
fn run_closely(program: &Program, rng: &mut Rng, alike: bool, way: f64, rounded: bool, share: f64) -> Vec<Array> {
    // Error of each result from its terms, the same for all readers.
    let mut errors: Vec<Option<Array>> = vec![];
    let rng = RefCell::new(rng);
    let again = |n: usize, value: &Array, errors: &[Option<Array>]| {
        let (step, mut value) = (&program.steps[n], value.clone());
        let rng = &mut **rng.borrow_mut();
        if rounds(step.op, step.dtype) && rng.f64() < share {
            put_off(&mut value, rng, alike, way);
            match &errors[n] {
                Some(error) => add_at_random(&mut value, error, rng),
                None => vanished(&mut value, rng),
            }
            if step.op == Op::Element(ElementOp::Tan) {
                poles(&mut value, way);
            }
            if matches!(step.op, Op::Element(ElementOp::Mul | ElementOp::Square)) {
                contracted(&mut value);
            }
            if let (true, Data::Float(values)) = (rounded, &mut value.data) {
                values.iter_mut().for_each(|v| *v = step.dtype.round(*v));
            }
        }
        value
    };
    let inputs = arrays(program);
    let mut done: Vec<Array> = vec![];
    for step in &program.steps {
        let copies: Vec<Option<Array>> = step
            .args
            .iter()
            .map(|a| match a {
                Argument::Tensor(Tensor::Step(n)) => Some(again(*n, &done[*n], &errors)),
                _ => None,
            })
            .collect();
        let args: Vec<RefArg<'_>> = step
            .args
            .iter()
            .zip(&copies)
            .map(|(a, copy)| match (a, copy) {
                (Argument::Tensor(Tensor::Input(n)), _) => RefArg::Array(&inputs[*n]),
                (Argument::Scalar(bits), _) => RefArg::Scalar(*bits),
                (_, copy) => RefArg::Array(copy.as_ref().expect("a step's result was copied")),
            })
            .collect();
        let result = evaluated(step, &args);
        errors.push(error_of_terms(step, &args));
        done.push(result);
    }
    done.iter().enumerate().map(|(n, value)| again(n, value, &errors)).collect()
}

/// One run of the interpreter in which `change` modifies each result.
fn evaluate(program: &Program, mut change: impl FnMut(&Step, &[RefArg<'_>], &mut Array)) -> Vec<Array> {
    let inputs = arrays(program);
    let mut done: Vec<Array> = Vec::with_capacity(program.steps.len());
    for step in &program.steps {
        let args: Vec<RefArg<'_>> = step
            .args
            .iter()
            .map(|a| match a {
                Argument::Tensor(Tensor::Input(n)) => RefArg::Array(&inputs[*n]),
                Argument::Tensor(Tensor::Step(n)) => RefArg::Array(&done[*n]),
                Argument::Scalar(bits) => RefArg::Scalar(*bits),
            })
            .collect();
        let mut result = evaluated(step, &args);
        change(step, &args, &mut result);
        done.push(result);
    }
    done
}

/// Evaluates a step by the interpreter. An index computed from perturbed values may be out of range; it is then
/// clamped.
fn evaluated(step: &Step, args: &[RefArg<'_>]) -> Array {
    let rel = step.rel(step.op);
    let index_arg = step.op.info().index_arg.map(usize::from);
    let (Some(n), Some(RefArg::Array(from))) = (index_arg, args.first()) else {
        return reference::evaluate(&rel, step.shape, args, &step.ints);
    };
    let RefArg::Array(index) = args[n] else { unreachable!("an index is a tensor") };
    let last = from.shape[step.attr as usize & 7] as i64 - 1;
    let mut index = index.clone();
    if let Data::Int(places) = &mut index.data {
        places.iter_mut().for_each(|v| *v = (*v).clamp(0, last.max(0)));
    }
    let mut args: Vec<RefArg<'_>> = args.to_vec();
    args[n] = RefArg::Array(&index);
    reference::evaluate(&rel, step.shape, &args, &step.ints)
}

fn arrays(program: &Program) -> Vec<Array> {
    program.inputs.iter().map(|i| Array::from_bytes(i.shape, i.dtype, &i.bytes)).collect()
}

/// Whether roundings of a result may differ between its uses: all but data in memory and movement of wide values.
/// Extremes, too: a kernel that contracts a product into one use, and reduces the rounded product in another, has two
/// values of it.
fn rounds(op: Op, dtype: DType) -> bool {
    match op.info().rounding {
        // Narrow values are rounded when they are stored, so a view of a value may differ from it.
        _ if matches!(dtype, DType::BF16 | DType::F16) => true,
        Rounding::Rounds | Rounding::Accumulates | Rounding::Extreme => true,
        Rounding::Region => op.is_combined(),
        Rounding::Copies | Rounding::Unknown => false,
    }
}

/// Rounding errors of the terms of a sum, which matter if the terms cancel.
fn error_of_terms(step: &Step, args: &[RefArg<'_>]) -> Option<Array> {
    let op = match step.op {
        _ if !step.dtype.is_float() => return None,
        Op::Element(ElementOp::Add | ElementOp::Sub) => Op::Element(ElementOp::Add),
        op @ (Op::Reduce(ReduceOp::Sum) | Op::Matmul) => op,
        _ => return None,
    };
    let arrays: Vec<Option<Array>> = args.iter().map(size).collect();
    let of_scalar = |bits| Scalar::Float(Scalar::from_bits(bits, step.dtype).to_f64().abs()).to_bits(step.dtype);
    let sizes: Vec<RefArg<'_>> = args
        .iter()
        .zip(&arrays)
        .map(|(a, size)| match (a, size) {
            (_, Some(size)) => RefArg::Array(size),
            (RefArg::Scalar(bits), None) => RefArg::Scalar(of_scalar(*bits)),
            (other, None) => *other,
        })
        .collect();
    let mut sizes = reference::evaluate(&step.rel(op), step.shape, &sizes, &step.ints);
    let epsilon = 2f64.powi(1 - step.dtype.mantissa_digits() as i32);
    if let Data::Float(values) = &mut sizes.data {
        values.iter_mut().for_each(|v| *v *= epsilon);
    }
    Some(sizes)
}

fn add_at_random(array: &mut Array, error: &Array, rng: &mut Rng) {
    if let (Data::Float(values), Data::Float(errors)) = (&mut array.data, &error.data) {
        for (v, error) in values.iter_mut().zip(errors).filter(|(_, error)| !error.is_nan()) {
            match error.is_finite() {
                true if v.is_finite() => *v += error * (2.0 * rng.f64() - 1.0),
                // The magnitudes of the terms overflow when summed: in some orders the sum overflows, in others not. If
                // it does, parts of it may overflow with opposite signs.
                false if rng.bool() && v.is_finite() => *v = f64::INFINITY.copysign(rng.f64() - 0.5),
                false if rng.bool() && v.is_infinite() => *v = f64::NAN,
                _ => {}
            }
        }
    }
}

/// Magnitudes of an array's elements; 0 for infinities, whose effect does not depend on the order.
fn size(arg: &RefArg<'_>) -> Option<Array> {
    let RefArg::Array(a) = arg else { return None };
    let Data::Float(values) = &a.data else { return None };
    let data = Data::Float(values.iter().map(|v| if v.is_infinite() { 0.0 } else { v.abs() }).collect());
    Some(Array { shape: a.shape, dtype: a.dtype, data })
}

/// Perturbs small values of narrow dtypes by up to the smallest subnormal: a narrow 0 may be an underflow of a value
/// kept as f32 elsewhere, and small values are as far apart as 0 and the smallest subnormal.
fn vanished(array: &mut Array, rng: &mut Rng) {
    if let (DType::BF16 | DType::F16, Data::Float(values)) = (array.dtype, &mut array.data) {
        let least = if array.dtype == DType::BF16 { 9e-41 } else { 6e-8 };
        let small = values.iter_mut().filter(|v| v.abs() < 1024.0 * least);
        small.for_each(|v| *v += least * (2.0 * rng.f64() - 1.0));
    }
}

/// Replaces infinities by the largest finite number: a product that overflows by itself does not if it is contracted
/// into a difference.
fn contracted(array: &mut Array) {
    let most = match array.dtype {
        DType::F16 => 65504.0,
        DType::F64 => f64::MAX,
        _ => f32::MAX as f64,
    };
    if let Data::Float(values) = &mut array.data {
        values.iter_mut().filter(|v| v.is_infinite()).for_each(|v| *v = most.copysign(*v));
    }
}

/// Replaces large values of narrow dtypes by an infinity with the sign of `way`: near a pole of the tangent, narrow
/// floats are too far apart to tell how large it gets, or its sign.
fn poles(array: &mut Array, way: f64) {
    if let (DType::BF16 | DType::F16, Data::Float(values)) = (array.dtype, &mut array.data) {
        values.iter_mut().filter(|v| v.abs() > 16.0).for_each(|v| *v = f64::INFINITY * way);
    }
}

/// Perturbs values without rounding them again, so that two errors hardly ever cancel.
fn put_off(array: &mut Array, rng: &mut Rng, alike: bool, way: f64) {
    let dtype = array.dtype;
    if let Data::Float(values) = &mut array.data {
        let epsilon = way * 2f64.powi(1 - dtype.mantissa_digits() as i32);
        let by = |rng: &mut Rng| {
            let size = 0.5 + 1.5 * rng.f64();
            if rng.bool() { size * epsilon } else { -size * epsilon }
        };
        // Half of the operations stay unchanged: a perturbed 1 may leave the domain of the next function.
        let all = by(rng) * rng.u8(..2) as f64;
        for v in values.iter_mut() {
            let by = if alike { all } else { by(rng) };
            // A value that overflows or underflows in f16 may be finite and nonzero in f32.
            *v = match *v {
                v if dtype == DType::F16 && v.is_infinite() && by > 0.0 => (65504.0 * (1.0 + rng.f64())).copysign(v),
                v if dtype == DType::F16 && v == 0.0 => by.signum() * 6e-8,
                v if v.is_finite() => v * (1.0 + by),
                v => v,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Input;
    use thalweg_ir::Shape;

    /// Product of each row of a matrix with two rows, and its double.
    fn program(values: [f32; 6]) -> Program {
        let shape = Shape::new(&[2, 3]);
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let step = |op, attr, args: Vec<Argument>| Step {
            op,
            dtype: DType::F32,
            shape: Shape::new(&[2]),
            attr,
            args,
            ints: vec![],
            kept: true,
        };
        let two = Argument::Scalar(u64::from(2f32.to_bits()));
        Program {
            inputs: vec![Input { dtype: DType::F32, shape, bytes }],
            steps: vec![
                step(Op::Reduce(ReduceOp::Prod), 0b10, vec![Argument::Tensor(Tensor::Input(0))]),
                step(Op::Element(ElementOp::Mul), 0, vec![Argument::Tensor(Tensor::Step(0)), two]),
            ],
        }
    }

    fn row(values: [f64; 2]) -> Array {
        Array { shape: Shape::new(&[2]), dtype: DType::F32, data: Data::Float(values.to_vec()) }
    }

    #[test]
    fn a_sum_whose_terms_have_none_may_overflow_on_the_way() {
        let mut rng = Rng::with_seed(1);
        let shape = thalweg_ir::Shape::new(&[5]);
        let of = |values: [f64; 5]| Array { shape, dtype: DType::F32, data: Data::Float(values.to_vec()) };
        // The last but one overflowed; in the last one an infinite element makes the sum infinite.
        let error = of([f64::INFINITY, 0.5, 0.0, f64::INFINITY, 1.0]);
        let (mut overflowed, mut stayed, mut both_ways) = (false, false, false);
        for _ in 0..64 {
            let mut sums = of([9e37, 1.0, 2.0, f64::NEG_INFINITY, f64::INFINITY]);
            add_at_random(&mut sums, &error, &mut rng);
            let value = |p: usize| sums.get(p).to_f64();
            overflowed |= value(0).is_infinite();
            stayed |= value(0) == 9e37;
            both_ways |= value(3).is_nan();
            assert!((value(1) - 1.0).abs() <= 0.5 && value(2) == 2.0 && value(4) == f64::INFINITY);
        }
        assert!(overflowed && stayed && both_ways);
        let sizes = size(&RefArg::Array(&of([-2.0, f64::INFINITY, 1.0, f64::NEG_INFINITY, 0.0]))).unwrap();
        assert_eq!(sizes.data, Data::Float(vec![2.0, 0.0, 1.0, 0.0, 0.0]));
    }

    #[test]
    fn a_product_may_overflow_times_zero_and_its_neighbour_may_not() {
        let program = program([1e30, 1e30, 0.0, 2.0, 3.0, 4.0]);
        let stability = Stability::new(&program);
        for step in [0, 1] {
            let right = [24.0, 48.0][step];
            assert_eq!(stability.judge(step, &row([f64::NAN, right]), &row([0.0, right])), None);
            // Other errors are reported, also in the same tensor.
            assert!(stability.judge(step, &row([f64::NAN, right + 1.0]), &row([0.0, right])).is_some());
            assert!(stability.judge(step, &row([0.0, f64::NAN]), &row([0.0, right])).is_some());
        }
    }

    #[test]
    fn a_difference_of_equals_is_a_rounding_of_its_terms_and_no_more() {
        let mut program = program([3.0; 6]);
        let of = |n| Argument::Tensor(Tensor::Step(n));
        program.steps[0].op = Op::Reduce(ReduceOp::Sum);
        program.steps[1] =
            Step { op: Op::Element(ElementOp::Sub), args: vec![of(0), of(0)], ..program.steps[1].clone() };
        program.steps.push(Step { op: Op::Element(ElementOp::Sign), args: vec![of(1)], ..program.steps[1].clone() });
        let stability = Stability::new(&program);
        assert_eq!(stability.judge(1, &row([1e-6, -1e-6]), &row([0.0, 0.0])), None);
        assert_eq!(stability.judge(2, &row([1.0, -1.0]), &row([0.0, 0.0])), None);
        assert!(stability.judge(1, &row([1e-2, 0.0]), &row([0.0, 0.0])).is_some());
        assert!(stability.judge(0, &row([9.1, 9.0]), &row([9.0, 9.0])).is_some());
    }

    #[test]
    fn a_product_that_stays_in_range_gives_no_nan() {
        let program = program([1e15, 1e15, 0.0, 2.0, 3.0, 4.0]);
        let stability = Stability::new(&program);
        assert!(stability.judge(0, &row([f64::NAN, 24.0]), &row([0.0, 24.0])).is_some());
        assert!(stability.judge(1, &row([1.0, 48.0]), &row([0.0, 48.0])).is_some());
    }
}
