//! How far results of a program may move when it is rounded in other places.
//!
//! Contraction, unrounded narrow floats and other orders of a fold change a value a little; what that does to what is computed from it depends on the
//! program. So the interpreter runs it a few times more, each float result put off by a unit in the last place or two at random: where the
//! runs stay together a non-strict result has to be near them, and where they come apart (a difference of equals, a comparison of
//! near ones, an overflow) nothing can be asked.

use crate::program::{Argument, Program, Tensor};
use fastrand::Rng;
use thalweg_ir::{DType, Op, ReduceOp, RelArg, RelOp, ScanOp, ScatterOp};
use thalweg_kernel::reference::{self, Array, Data, RefArg};

/// How often the program runs.
const RUNS: u64 = 5;
/// How much further than the runs from each other a result may be.
const SLACK: f64 = 64.0;

/// What the runs gave.
pub struct Stability {
    runs: Vec<Vec<Array>>,
}

impl Stability {
    /// Runs the program.
    pub fn new(program: &Program) -> Stability {
        Stability { runs: (0..RUNS).map(|seed| run(program, &mut Rng::with_seed(seed), seed % 2 == 1)).collect() }
    }

    /// What is wrong with `got` as result of a step that is strictly `want`.
    pub fn judge(&self, step: usize, got: &Array, want: &Array) -> Option<String> {
        let runs: Vec<&Array> = self.runs.iter().map(|r| &r[step]).collect();
        let n = want.shape.numel();
        let differ = |what: &dyn Fn(usize) -> bool| {
            let at = (0..n).find(|&p| what(p))?;
            Some(format!("at {at}: {:?}, strictly {:?}", got.get(at), want.get(at)))
        };
        if !want.dtype.is_float() {
            let stable = runs.iter().all(|r| r.data == want.data);
            return if stable { differ(&|p| got.get(p) != want.get(p)) } else { None };
        }
        let value = |a: &Array, p: usize| a.get(p).to_f64();
        // Infinities and NaN that stay what they are ask nothing of others; those that come and go do.
        let apart = |a: f64, b: f64| match (a.is_finite(), b.is_finite()) {
            (true, true) => (a - b).abs(),
            (false, false) => 0.0,
            _ => f64::INFINITY,
        };
        let spread = |p: usize| runs.iter().map(|r| apart(value(r, p), value(want, p))).fold(0.0, f64::max);
        // Of the whole tensor, since a single element's runs may agree by chance.
        let all = (0..n).map(spread).fold(0.0, f64::max);
        let epsilon = 2f64.powi(1 - want.dtype.mantissa_digits() as i32);
        differ(&|p| {
            let (g, w) = (value(got, p), value(want, p));
            w.is_finite() && apart(g, w) > SLACK * (all + epsilon * w.abs())
        })
    }
}

/// One run, each float result that rounds being put off at random, or `alike` within an operation.
fn run(program: &Program, rng: &mut Rng, alike: bool) -> Vec<Array> {
    let inputs: Vec<Array> = program.inputs.iter().map(|i| Array::from_bytes(i.shape, i.dtype, &i.bytes)).collect();
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
        let rank = step.shape.rank() as u8;
        let rel = RelOp { op: step.op, dtype: step.dtype, rank, attr: step.attr, args: [RelArg::NONE; 3] };
        let mut result = reference::evaluate(&rel, step.shape, &args, &step.ints);
        if rounds(step.op, step.dtype) {
            put_off(&mut result, rng, alike);
        }
        done.push(result);
    }
    done
}

/// Whether an operation makes new values: movement and choice do not. Narrow floats are rounded where they are stored, so one use of such a value
/// may differ from another, and a view of it from itself.
fn rounds(op: Op, dtype: DType) -> bool {
    match op {
        _ if matches!(dtype, DType::BF16 | DType::F16) => true,
        Op::Element(_) | Op::Cast | Op::Matmul | Op::Random(_) => true,
        Op::Reduce(r) => matches!(r, ReduceOp::Sum | ReduceOp::Prod),
        Op::Scan(s) => matches!(s, ScanOp::Sum | ScanOp::Prod | ScanOp::LogSumExp),
        Op::Scatter(s) => matches!(s, ScatterOp::Add | ScatterOp::Prod),
        _ => false,
    }
}

fn put_off(array: &mut Array, rng: &mut Rng, alike: bool) {
    let dtype = array.dtype;
    if let Data::Float(values) = &mut array.data {
        let epsilon = 2f64.powi(1 - dtype.mantissa_digits() as i32);
        let all = rng.i32(-2..=2);
        for v in values.iter_mut().filter(|v| v.is_finite()) {
            let by = if alike { all } else { rng.i32(-2..=2) };
            *v = dtype.round(*v * (1.0 + epsilon * by as f64));
        }
    }
}
