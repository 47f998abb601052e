//! Random kernels.
//!
//! Input: a seed. A kernel is called on tensors and on numbers: by the interpreter its results have the bits of those
//! on numbers, at every index. Then it is called between other operations, and the recorded operations form a program
//! like any other, with all checks of [`Checker`]: fused, unfused, on every engine and device, with other scalars, and
//! so on.

mod code;
mod rows;
mod sources;
mod tiles;

use crate::check::{Checker, ExtraChecks};
use crate::program::{Input, Program};
use crate::tuning;
use code::{Code, Fields, Registers};
use fastrand::Rng;
use thalweg::kernel::{Call, Field, Int, Mask, Over, Plain, Prepared, Real, Take, Traced};
use thalweg::{Element, Operand, Scalar, Tensor};
use thalweg_ir::{DType, Op, Shape};

/// Period of kernel forms by seed: the first of each period is a row kernel, the third a tile kernel.
const SHAPES: u64 = 4;

/// Period, by seed, of CUDA C++ sources on GPUs: the second seed of each period is one.
const SOURCES: u64 = 8;

/// Random kernel with its arguments.
struct Case {
    code: Code,
    dtype: DType,
    /// Shape of an index kernel's results.
    over: Option<Shape>,
    /// Operands: two floats, an integer, a bool, and the field of an index kernel, all of them tensors.
    inputs: Vec<Input>,
    /// Value of the scalar operand.
    scalar: f64,
    /// Choices of the operations before and after the kernel.
    around: [usize; 3],
    /// Cache of the kernel's calls: all calls but the first are recorded at once, if possible.
    known: Prepared,
}

impl Case {
    fn new(seed: u64, loops: bool) -> Case {
        let mut rng = Rng::with_seed(seed);
        let code = Code::new(&mut rng, loops);
        let dtype = if rng.usize(..3) == 0 { DType::F64 } else { DType::F32 };
        let rank = code.index.map_or_else(|| rng.usize(..4), |[rank, _]| rank);
        let most = if rng.usize(..20) == 0 { 40 } else { 7 };
        let mut dims: Vec<usize> = (0..rank).map(|_| rng.usize(1..most)).collect();
        if !dims.is_empty() && rng.usize(..40) == 0 {
            let at = rng.usize(..dims.len());
            dims[at] = 0;
        }
        let whole = Shape::new(&dims);
        let mut inputs = vec![];
        let dtypes = [dtype, dtype, DType::I32, DType::Bool];
        for (i, &dtype) in dtypes.iter().enumerate() {
            // The first has the full shape, others broadcast.
            let own: Vec<usize> = dims.iter().map(|&d| if i > 0 && rng.usize(..3) == 0 { 1 } else { d }).collect();
            let shape = Shape::new(&own[if i > 0 { rng.usize(..=own.len()) } else { 0 }..]);
            inputs.push(input(&mut rng, dtype, shape));
        }
        if let Some([_, dimensions]) = code.index {
            let own: Vec<usize> = (0..dimensions).map(|_| rng.usize(1..7)).collect();
            inputs.push(input(&mut rng, dtype, Shape::new(&own)));
        }
        let around = [rng.usize(..4), rng.usize(..4), rng.usize(..4)];
        let (over, scalar) = (code.index.map(|_| whole), rng.f64() * 4.0 - 2.0);
        Case { over, code, dtype, inputs, scalar, around, known: Prepared::new() }
    }

    /// Calls the kernel on tensors.
    fn on(&self, x: &[Tensor]) -> (Tensor, Tensor, Tensor) {
        let mut operands = vec![
            ("x", Take::Number, Operand::Tensor(&x[0])),
            ("y", Take::Number, Operand::Tensor(&x[1])),
            ("n", Take::Int, Operand::Tensor(&x[2])),
            ("on", Take::Mask, Operand::Tensor(&x[3])),
            ("s", Take::Number, Operand::Scalar(Scalar::Float(self.scalar))),
        ];
        if let Some(field) = x.get(4) {
            operands.push(("field", Take::Field(field.rank()), Operand::Tensor(field)));
        }
        let over = self.over.map_or(Over::Elements, Over::Places);
        Call::cached(&self.known, over, Some(&Plain::new()), "random", &operands, |call| self.called(call))
    }

    /// Runs the kernel on the traced operands of a call.
    fn called(&self, call: &Call<'_>) -> (Traced, Int<Traced>, Mask<Traced>) {
        let at: Vec<Int<Traced>> = match self.over.map(|o| o.rank()) {
            None => vec![],
            Some(1) => call.place::<1>().to_vec(),
            Some(2) => call.place::<2>().to_vec(),
            Some(_) => call.place::<3>().to_vec(),
        };
        let fields = match self.code.index {
            None => Fields::None,
            Some([_, 1]) => Fields::One(call.field(5)),
            Some(_) => Fields::Two(call.field(5)),
        };
        let mut ints = vec![call.int(2)];
        ints.extend(&at);
        let registers =
            Registers { floats: vec![call.number(0), call.number(1), call.number(4)], ints, masks: vec![call.mask(3)] };
        self.code.run(registers, &at, &fields)
    }

    /// Runs the kernel on numbers, at every index of the results' shape.
    fn on_numbers<T: Real<RawInt = i32, RawMask = bool> + Element>(
        &self,
        x: &[Tensor],
        shape: &Shape,
        field: impl Fn(&[T], &[usize]) -> Fields<T>,
    ) -> Result<Vec<(T, i32, bool)>, thalweg::Error> {
        let [a, b] = [0, 1].map(|i: usize| x[i].broadcast_to(*shape).to_vec::<T>());
        let (a, b) = (a?, b?);
        let (n, on) = (x[2].broadcast_to(*shape).to_vec::<i32>()?, x[3].broadcast_to(*shape).to_vec::<bool>()?);
        let fields = match x.get(4) {
            Some(x) => field(&x.to_vec::<T>()?, x.dims()),
            None => Fields::None,
        };
        let one = |p: usize| {
            let mut at = vec![Int::from(0); if self.over.is_some() { shape.rank() } else { 0 }];
            let mut rest = p;
            for (i, &d) in at.iter_mut().zip(shape.iter()).rev() {
                *i = Int::from((rest % d) as i32);
                rest /= d;
            }
            let mut ints = vec![Int::from(n[p])];
            ints.extend(&at);
            let floats = vec![a[p], b[p], T::lit(self.scalar)];
            let (x, i, m) = self.code.run(Registers { floats, ints, masks: vec![Mask::from(on[p])] }, &at, &fields);
            (x, i.get(), m.get())
        };
        Ok((0..shape.numel()).map(one).collect())
    }
}

fn input(rng: &mut Rng, dtype: DType, shape: Shape) -> Input {
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, -1.0, 1e9, 1e-30];
    let mut bytes = vec![];
    for _ in 0..shape.numel() {
        let x = if rng.usize(..12) == 0 { special[rng.usize(..special.len())] } else { rng.f64() * 8.0 - 4.0 };
        match dtype {
            DType::F32 => bytes.extend((x as f32).to_le_bytes()),
            DType::F64 => bytes.extend(x.to_le_bytes()),
            DType::I32 => bytes.extend(if rng.usize(..12) == 0 { rng.i32(..) } else { rng.i32(-9..10) }.to_le_bytes()),
            _ => bytes.push(rng.bool() as u8),
        }
    }
    Input { dtype, shape, bytes }
}

/// Uploads the operands of a kernel to the checker's device.
fn tensors(checker: &Checker, inputs: &[Input]) -> Result<Vec<Tensor>, String> {
    let program = Program { inputs: inputs.to_vec(), steps: vec![] };
    let values = checker.inputs(&program).map_err(|e| e.to_string())?;
    let tensors: Vec<Tensor> = values.into_iter().map(thalweg::raw::tensor).collect();
    thalweg::set_default_device(tensors.first().map(Tensor::device));
    Ok(tensors)
}

/// Program recorded by a call of a seed's kernel between other operations, to be differentiated: it has no
/// data-dependent loops.
pub fn program(checker: &Checker, seed: u64) -> Result<Program, String> {
    if seed % SHAPES == 2 {
        return tiles::program(checker, seed);
    }
    let case = Case::new(seed, false);
    recorded(&case, &tensors(checker, &case.inputs)?)
}

/// Checks the kernel of a seed against the interpreter, in every mode.
pub fn check(checker: &Checker, seed: u64, ways: ExtraChecks) -> Result<(), String> {
    if seed % SOURCES == 1 && checker.runs_cuda() {
        return sources::check(checker, seed);
    }
    match seed % SHAPES {
        0 => return rows::check(checker, seed, ways),
        2 => return tiles::check(checker, seed, ways),
        _ => {}
    }
    let case = Case::new(seed, true);
    let told = |why: String| format!("{why}\n{:?} over {:?}\n{:#?}", case.dtype, case.over, case.code);
    let tensors = tensors(checker, &case.inputs)?;
    if is_refused(&case, &tensors) {
        return Ok(());
    }
    // The first call is traced, the second one comes from the cache.
    by_numbers(&case, &tensors).map_err(told)?;
    by_numbers(&case, &tensors).map_err(|why| told(format!("called again: {why}")))?;
    let recorded = recorded(&case, &tensors).map_err(told)?;
    let indexed = recorded.steps.iter().any(|s| matches!(s.op, Op::Gather));
    let ways =
        ExtraChecks { scalars: ways.scalars && !indexed, plans: ways.plans && recorded.steps.len() < 60, ..ways };
    checker.check(&recorded, ways).map_err(|why| told(format!("{why}\nas recorded:\n{}", recorded.listing())))
}

/// Whether a call is refused because a loop captures too many values; that is not a failure.
fn is_refused(case: &Case, x: &[Tensor]) -> bool {
    let called = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(case.on(x))));
    let told = called.err().and_then(|why| why.downcast::<String>().ok());
    told.is_some_and(|why| why.contains("values of outside, which are at most"))
}

/// Checks that the interpreter gives the same bits as the kernel run on numbers.
fn by_numbers(case: &Case, x: &[Tensor]) -> Result<(), String> {
    let failed = |e: thalweg::Error| e.to_string();
    let (got, i, m) = thalweg::with_reference(|| {
        let (y, i, m) = case.on(x);
        Ok::<_, thalweg::Error>(((y.to_f64_vec()?, *y.shape()), i.to_vec::<i32>()?, m.to_vec::<bool>()?))
    })
    .map_err(failed)?;
    let (got, shape) = got;
    let wide = |all: Vec<(f32, i32, bool)>| all.into_iter().map(|(x, i, m)| (f64::from(x), i, m)).collect();
    let field = |x: &[f32], sizes: &[usize]| match *sizes {
        [n] => Fields::One(Field::new(x, [n])),
        _ => Fields::Two(Field::new(x, [sizes[0], sizes[1]])),
    };
    let field_64 = |x: &[f64], sizes: &[usize]| match *sizes {
        [n] => Fields::One(Field::new(x, [n])),
        _ => Fields::Two(Field::new(x, [sizes[0], sizes[1]])),
    };
    let want: Vec<(f64, i32, bool)> = match case.dtype {
        DType::F32 => wide(case.on_numbers(x, &shape, field).map_err(failed)?),
        _ => case.on_numbers(x, &shape, field_64).map_err(failed)?,
    };
    for (p, want) in want.into_iter().enumerate() {
        let same = got[p].to_bits() == want.0.to_bits() || got[p].is_nan() && want.0.is_nan();
        if !same || (i[p], m[p]) != (want.1, want.2) {
            return Err(format!("at {p}: ({}, {}, {}) on tensors, {want:?} on numbers", got[p], i[p], m[p]));
        }
    }
    Ok(())
}

/// Program recorded by a call of the kernel between other operations.
fn recorded(case: &Case, inputs: &[Tensor]) -> Result<Program, String> {
    let made = |x: &[Tensor]| {
        let (y, i, m) = case.on(x);
        (after(&y, case.around[1]), if case.around[2] < 2 { vec![i, m] } else { vec![] })
    };
    record_program(&case.inputs, inputs, &|i, x| before(x, case.around[0] + i), &made)
}

/// Function that returns one result and further ones that may be kept.
type KernelFn<'a> = dyn Fn(&[Tensor]) -> (Tensor, Vec<Tensor>) + 'a;

/// Program recorded when `made` is applied to inputs on which an operation has been done before.
fn record_program(
    inputs: &[Input],
    tensors: &[Tensor],
    before: &dyn Fn(usize, &Tensor) -> Tensor,
    made: &KernelFn<'_>,
) -> Result<Program, String> {
    let record = |all: bool| {
        tuning::in_one_segment(|| {
            thalweg_stream::segments(|| {
                // Each input is first read here, in order.
                let x: Vec<Tensor> = tensors.iter().enumerate().map(|(i, x)| before(i, x)).collect();
                let (y, rest) = made(&x);
                (y, rest, if all { x } else { vec![] })
            })
        })
    };
    // Inputs without effect are not part of the segment; if there are any, all inputs are kept.
    let (_kept, mut segments) = record(false);
    if segments.first().is_none_or(|s| s.inputs.len() != inputs.len()) {
        segments = record(true).1;
    }
    let [segment] = segments.as_slice() else { return Err(format!("{} segments", segments.len())) };
    if segment.inputs.len() != inputs.len() {
        return Err(format!("{} inputs of {}", segment.inputs.len(), inputs.len()));
    }
    Ok(Program::of(segment, inputs.to_vec()))
}

/// Applies an operation to an input; the result has the input's shape and dtype.
fn before(x: &Tensor, how: usize) -> Tensor {
    match (x.dtype(), how % 4) {
        (DType::Bool, _) => !x,
        (DType::I32, _) => x + 1,
        (_, 0) => x * 0.5,
        (_, 1) => (x * -1.5).flip(..),
        (_, 2) => x.abs() - 1.0,
        _ => x.maximum(-2.0),
    }
}

/// Applies operations to a result.
fn after(y: &Tensor, how: usize) -> Tensor {
    match how {
        0 => y.tanh() + 1.0,
        1 if y.rank() > 0 => y.t() * 2.0,
        2 if y.rank() > 0 && y.numel() > 0 => y.amax_keepdim(-1) - y,
        _ => y.clone(),
    }
}
