//! Programs with gradients.
//!
//! Input: a random program. It is recorded on tensors of the public API with its float inputs tracked, and a weighted
//! sum of its kept results is differentiated. The recorded forward and backward pass is a program like any other, with
//! all checks of [`Checker`], fused, unfused and interpreted. Besides, the gradients of the same program in f64, by the
//! interpreter, are compared with finite differences along random directions; if one-sided slopes, or slopes at two
//! distances, differ, there is a kink or a jump, and nothing is checked.

mod cut;
mod differences;

use crate::check::{Checker, ExtraChecks};
use crate::program::{Argument, Input, Program, Tensor as Place};
use crate::tuning;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use thalweg::raw::{self, RawArg};
use thalweg::{Tensor, grad_graph};
use thalweg_fusion::OwnedSegment;
use thalweg_ir::{DType, ElementOp, Op, Scalar};
use thalweg_stream::{Mode, set_mode};

/// Maximum number of steps (`MAX_STEPS`), and of elements (`MAX_ELEMENTS`), of a program: the backward pass has several
/// times as many.
const MAX_STEPS: usize = 16;
const MAX_ELEMENTS: usize = 20_000;
/// Period of programs that are differentiated twice.
const TWICE: u64 = 3;
/// Number of recorded operations at which other plans are no longer tried: searching for them takes many times as long.
const MAX_REPLANNED_STEPS: usize = 60;

/// Counts of all checks: programs without gradients, programs in several segments, and derivatives of first and second
/// order that were compared or skipped.
static TALLY: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// Text of the counts, for the report.
pub fn tally() -> String {
    let [constant, several, compared, unstable, compared2, unstable2] = TALLY.each_ref().map(|n| n.load(Relaxed));
    format!(
        "{constant} with nothing to differentiate, {several} cut on the way; slopes compared {compared} times, not \
         {unstable} times at kinks; second ones {compared2} and {unstable2}; {}",
        cut::tally()
    )
}

fn count(what: usize) {
    TALLY[what].fetch_add(1, Relaxed);
}

/// Whether a program is small enough to be differentiated.
pub fn is_small(program: &Program) -> bool {
    let elements: usize = program.steps.iter().map(|s| s.shape.numel()).sum();
    program.steps.len() <= MAX_STEPS && elements <= MAX_ELEMENTS
}

/// Checks the gradients of a program.
pub fn check(checker: &Checker, program: &Program, seed: u64, ways: ExtraChecks) -> Result<(), String> {
    // A bitcast has no derivative, and gives other values in f64, the reference.
    if program.steps.iter().any(|s| s.op == Op::Bitcast) {
        return Ok(());
    }
    let twice = seed.is_multiple_of(TWICE);
    let interpreted = Interpreted::new();
    let Some(recorded) = recorded(checker, program, twice)? else { return Ok(()) };
    drop(interpreted);
    let few = recorded.steps.len() < MAX_REPLANNED_STEPS;
    let indexed = recorded.steps.iter().any(|s| s.op.info().index_arg.is_some());
    let ways = ExtraChecks { plans: ways.plans && few, scalars: !indexed, ..ways };
    checker.check(&recorded, ways).map_err(|why| format!("{why}\nas recorded:\n{}", recorded.listing()))?;
    cut::check(checker, program, seed, twice)?;
    let _interpreted = Interpreted::new();
    let wide = in_f64(program);
    differences::check(checker, &wide, seed, false)?;
    if twice { differences::check(checker, &wide, seed, true) } else { Ok(()) }
}

/// Checks the recorded forward and backward pass of a program on a device whose language is fast math.
#[cfg(feature = "wgpu")]
pub fn check_fast_math(checker: &Checker, program: &Program, seed: u64) -> Result<crate::check::Outcome, String> {
    use crate::check::Outcome;
    let has_f64 = program.inputs.iter().map(|i| i.dtype).chain(program.steps.iter().map(|s| s.dtype));
    if has_f64.into_iter().any(|dtype| dtype == DType::F64) {
        return Ok(Outcome::Refused("it has f64".into()));
    }
    if program.steps.iter().any(|s| s.op == Op::Bitcast) {
        return Ok(Outcome::Right);
    }
    IN_F32.store(true, Relaxed);
    let interpreted = Interpreted::new();
    let recorded = recorded(checker, program, seed.is_multiple_of(TWICE));
    drop(interpreted);
    let Some(recorded) = recorded? else { return Ok(Outcome::Right) };
    checker.check_fast_math(&recorded).map_err(|why| format!("{why}\nas recorded:\n{}", recorded.listing()))
}

/// Guard that makes the thread's segments run in the interpreter while it lives.
pub struct Interpreted(Mode);

impl Interpreted {
    /// Switches the thread to the interpreter.
    pub fn new() -> Interpreted {
        Interpreted(set_mode(Mode {
            fused: false,
            strict: true,
            reproducible: false,
            reference: true,
            matmul: thalweg_stream::MatmulPrecision::Highest,
            atomic_sums: false,
        }))
    }
}

impl Drop for Interpreted {
    fn drop(&mut self) {
        set_mode(self.0);
    }
}

/// Value and gradients of a differentiated program.
struct Differentiated {
    /// Scalar that was differentiated.
    value: Tensor,
    /// Gradient by each float input; `None` where the value does not depend on the input.
    gradients: Vec<Option<Tensor>>,
}

/// Points at which a stream is cut while a program is differentiated.
#[derive(Clone, Default, Debug)]
struct Cuts {
    /// Indices of the steps after which the stream is cut.
    after: Vec<usize>,
    /// Whether the stream is cut between the passes, by reading the value (and that of a first backward pass).
    between: bool,
}

/// Records the steps on tensors of the public API; returns a scalar to which every kept element contributes
/// differently. Intermediate results are dropped after their last use.
fn scalar(program: &Program, inputs: &[Tensor], cuts: &Cuts) -> Option<Tensor> {
    let mut steps: Vec<Option<Tensor>> = vec![];
    let mut last = vec![0; program.steps.len()];
    for (i, step) in program.steps.iter().enumerate() {
        for arg in &step.args {
            if let Argument::Tensor(Place::Step(n)) = arg {
                last[*n] = i;
            }
        }
    }
    for (i, step) in program.steps.iter().enumerate() {
        let args: Vec<RawArg<'_>> = step
            .args
            .iter()
            .map(|a| match a {
                Argument::Tensor(Place::Input(n)) => RawArg::Tensor(&inputs[*n]),
                Argument::Tensor(Place::Step(n)) => RawArg::Tensor(steps[*n].as_ref().expect("used while held")),
                Argument::Scalar(bits) => RawArg::Scalar(*bits),
            })
            .collect();
        let made = raw::record(step.op, step.dtype, step.shape, step.attr, &args, &step.ints);
        drop(args);
        steps.push(Some(made));
        for d in (0..=i).filter(|&d| last[d] <= i && !program.steps[d].kept) {
            steps[d] = None;
        }
        if cuts.after.contains(&i) {
            thalweg::flush();
        }
    }
    let kept = program.steps.iter().zip(steps).filter(|(s, _)| s.kept && s.dtype.is_float() && s.shape.numel() > 0);
    let parts = kept.filter_map(|(_, y)| Some(weighted(&y?, 0.7)));
    parts.reduce(|a, b| a + b).filter(Tensor::is_tracked)
}

/// Whether sums are in f32 instead of f64, for devices without f64.
static IN_F32: AtomicBool = AtomicBool::new(false);

/// Weighted sum in f64 of a tensor's elements, each with a different weight. (In f32 for devices without f64.)
fn weighted(x: &Tensor, from: f64) -> Tensor {
    let (n, dtype) = (x.numel(), if IN_F32.load(Relaxed) { DType::F32 } else { DType::F64 });
    let weights = (Tensor::arange_with(n, dtype) * 1.3 + from).sin().reshape(*x.shape());
    (x.cast(dtype) * weights).sum(..)
}

/// Differentiates a program once or twice; `None` if it does not depend on any input.
fn differentiated(program: &Program, inputs: &[Tensor], twice: bool, cuts: &Cuts) -> Option<Differentiated> {
    let leaf = |x: &Tensor| if x.dtype().is_float() { x.tracked() } else { x.clone() };
    let leaves: Vec<Tensor> = inputs.iter().map(leaf).collect();
    let mut value = scalar(program, &leaves, cuts)?;
    let cut = || {
        if cuts.between {
            thalweg::flush()
        }
    };
    cut();
    if twice {
        let first = thalweg::retain_graph(|| value.backward());
        let reached: Vec<&Tensor> = leaves.iter().filter(|x| first.contains(x)).collect();
        let gradients = grad_graph(&value, reached.as_slice());
        let parts = gradients.iter().enumerate().map(|(i, g)| weighted(g, 0.2 * i as f64));
        value = parts.reduce(|a, b| a + b).filter(Tensor::is_tracked)?;
        cut();
    }
    let mut all = value.backward();
    Some(Differentiated { gradients: leaves.iter().map(|x| all.take(x)).collect(), value: value.detach() })
}

fn inputs(checker: &Checker, program: &Program) -> Result<Vec<Tensor>, String> {
    let values = checker.inputs(program).map_err(|e| e.to_string())?;
    let tensors: Vec<Tensor> = values.into_iter().map(raw::tensor).collect();
    // Operations without arguments run on the device of the inputs.
    thalweg::set_default_device(tensors.first().map(Tensor::device));
    Ok(tensors)
}

/// Program of the recorded forward and backward pass.
fn recorded(checker: &Checker, program: &Program, twice: bool) -> Result<Option<Program>, String> {
    let tensors = inputs(checker, program)?;
    let (made, segments) = tuning::in_one_segment(|| {
        thalweg_stream::segments(|| differentiated(program, &tensors, twice, &Cuts::default()))
    });
    if made.is_none() {
        count(0);
        return Ok(None);
    }
    let [segment] = segments.as_slice() else {
        count(1);
        return Ok(None);
    };
    // Inputs are numbered in the order of their first read, which is in the forward pass.
    let mut order: Vec<usize> = vec![];
    for arg in program.steps.iter().flat_map(|s| &s.args) {
        if let Argument::Tensor(Place::Input(n)) = arg
            && !order.contains(n)
        {
            order.push(*n);
        }
    }
    as_program(segment, program, &order).map(Some)
}

/// Program of a segment that keeps the segment's live results; `order` maps the segment's inputs to those of `from`.
pub fn as_program(segment: &OwnedSegment, from: &Program, order: &[usize]) -> Result<Program, String> {
    let known = segment.inputs.iter().zip(order).all(|((dtype, view), &n)| {
        let input = &from.inputs[n];
        (input.dtype, input.shape) == (*dtype, view.shape)
    });
    if segment.inputs.len() != order.len() || !known {
        return Err("the segment has other inputs than the program".into());
    }
    Ok(Program::of(segment, order.iter().map(|&n| from.inputs[n].clone()).collect()))
}

/// Program with all floats in f64 instead of their own dtype.
fn in_f64(program: &Program) -> Program {
    let wide = |dtype: DType| if dtype.is_float() { DType::F64 } else { dtype };
    let mut out = program.clone();
    for input in out.inputs.iter_mut().filter(|i| i.dtype.is_float()) {
        let list = thalweg_kernel::reference::Array::from_bytes(input.shape, input.dtype, &input.bytes);
        let bytes = (0..input.shape.numel()).flat_map(|p| list.get(p).to_f64().to_ne_bytes()).collect();
        *input = Input { dtype: DType::F64, shape: input.shape, bytes };
    }
    for (step, new) in program.steps.iter().zip(&mut out.steps) {
        new.dtype = wide(step.dtype);
        let values = step.args.iter().skip((step.op == Op::Element(ElementOp::Where)) as usize);
        let of = values.into_iter().find_map(|a| match a {
            Argument::Tensor(t) => Some(program.dtype(*t)),
            Argument::Scalar(_) => None,
        });
        let dtype = of.unwrap_or(step.dtype);
        if matches!(step.op, Op::Random(_)) || !dtype.is_float() {
            continue;
        }
        for (i, arg) in new.args.iter_mut().enumerate() {
            let condition = i == 0 && step.op == Op::Element(ElementOp::Where);
            if let (Argument::Scalar(bits), false) = (arg, condition) {
                *bits = Scalar::from_bits(*bits, dtype).to_bits(DType::F64);
            }
        }
    }
    out
}

/// Whether an operation has an infinite slope somewhere, where a derivative may be `∞ - ∞` though the value is finite,
/// as in `√(x - x)`.
fn has_poles(op: Op) -> bool {
    use ElementOp::*;
    let Op::Element(op) = op else { return false };
    let roots = matches!(op, Sqrt | Rsqrt | Recip | Div | Pow | Rem | Hypot | Atan2);
    roots || matches!(op, Log | Log2 | Log10 | Log1p | Tan | Asin | Acos | Acosh | Atanh)
}

/// Tracks float inputs, so that a value exists in exactly the cases in which it would be differentiated.
fn moved_and_tracked(inputs: &[Tensor]) -> Vec<Tensor> {
    inputs.iter().map(|x| if x.dtype().is_float() { x.tracked() } else { x.clone() }).collect()
}
