//! Compares gradients in f64, by the interpreter, with finite differences along random directions.
//!
//! If one-sided slopes, or slopes at two distances, differ, there is a kink or a jump, and nothing is checked. Four
//! effects look like a wrong gradient but are none, so each is looked for when one seems wrong: kinks of several
//! elements that cancel in a direction (halves of it are tried, down to one element); gradients that are differences of
//! nearly equal terms (they change as much when the inputs move by less than their last bits); 0 times an infinite
//! derivative, which is NaN here as in PyTorch, of an overflowed element that nobody reads; and second derivatives at a
//! tie between the candidates of a selection.

use super::{Cuts, count, differentiated, has_poles, inputs, moved_and_tracked, scalar, weighted};
use crate::check::Checker;
use crate::program::{Argument, Program, Tensor as Place};
use fastrand::Rng;
use thalweg::Tensor;
use thalweg::raw::{self, RawArg};
use thalweg_ir::{DType, ElementOp, Op, ReduceOp, ScanOp, ScatterOp};

/// Number of random directions per program.
const DIRECTIONS: usize = 3;
/// Distances from the point at which finite differences are taken.
const STEPS: [f64; 4] = [1e-5, -1e-5, 2e-6, -2e-6];

/// Direction of a finite difference: the move of each element of each input.
type Direction = Vec<Vec<f64>>;

/// Point of the input space of a program, at which its gradients are checked.
struct Point<'a> {
    checker: &'a Checker,
    program: &'a Program,
    at: Vec<Vec<f64>>,
    /// Whether the gradient of a weighted sum of the gradients is checked (second derivative).
    second: bool,
    value: f64,
    gradients: Vec<Option<Vec<f64>>>,
}

/// Result of the comparison along one direction.
enum Outcome {
    Agrees,
    /// Not decidable, for example at a kink.
    Unstable,
    /// Gradient along the direction, and the finite difference, which differ.
    Differs(f64, f64),
}

/// Compares the gradients of a program in f64 with finite differences of its values, or with `second` those of a
/// weighted sum of its gradients.
pub(super) fn check(checker: &Checker, program: &Program, seed: u64, second: bool) -> Result<(), String> {
    let at: Vec<Vec<f64>> = program
        .inputs
        .iter()
        .map(|i| match i.dtype {
            DType::F64 => i.bytes.chunks(8).map(|b| f64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect(),
            _ => vec![],
        })
        .collect();
    // Beyond that, squares and exponentials exceed the range in which slopes can be measured.
    if at.iter().flatten().any(|x| x.abs() > 1e6 || x.is_nan()) {
        count(3 + 2 * second as usize);
        return Ok(());
    }
    let mut rng = Rng::with_seed(seed);
    let still: Direction = at.iter().map(|x| vec![0.0; x.len()]).collect();
    let mut point = Point { checker, program, at, second, value: 0.0, gradients: vec![] };
    let Some((value, gradients)) = point.gradients_at(1.0, &still)? else { return Ok(()) };
    (point.value, point.gradients) = (value, gradients);
    for _ in 0..DIRECTIONS {
        // Few elements move in some directions, all in others.
        let share = [0.05, 0.5, 1.0][rng.usize(..3)];
        let one = |rng: &mut Rng| if rng.f64() < share { rng.f64() * 2.0 - 1.0 } else { 0.0 };
        let directional: Direction = point.at.iter().map(|x| x.iter().map(|_| one(&mut rng)).collect()).collect();
        let outcome = match point.compare_directional(&directional, 0.0)? {
            Outcome::Differs(..) => point.looked_at(directional, &mut rng)?,
            outcome => outcome,
        };
        match outcome {
            Outcome::Agrees => count(2 + 2 * second as usize),
            Outcome::Unstable => count(3 + 2 * second as usize),
            Outcome::Differs(got, want) => {
                let order = if second { "second" } else { "first" };
                return Err(format!("{order} order: {got} along a direction, the difference is {want}"));
            }
        }
    }
    Ok(())
}

impl Point<'_> {
    fn tensors(&self, by: f64, along: &Direction) -> Result<Vec<Tensor>, String> {
        let mut moved = self.program.clone();
        for ((input, x), d) in moved.inputs.iter_mut().zip(&self.at).zip(along).filter(|((_, x), _)| !x.is_empty()) {
            input.bytes = x.iter().zip(d).flat_map(|(x, d)| (x + by * d).to_ne_bytes()).collect();
        }
        inputs(self.checker, &moved)
    }

    /// Value and gradients at inputs moved by `by` along a direction; `None` if the program does not depend on any
    /// input.
    #[allow(clippy::type_complexity, reason = "as the fields")]
    fn gradients_at(&self, by: f64, along: &Direction) -> Result<Option<(f64, Vec<Option<Vec<f64>>>)>, String> {
        let made = differentiated(self.program, &self.tensors(by, along)?, self.second, &Cuts::default());
        let Some(here) = made else { return Ok(None) };
        let all: Result<_, String> = here.gradients.iter().map(|g| g.as_ref().map(read).transpose()).collect();
        Ok(Some((read(&here.value)?[0], all?)))
    }

    fn value_at(&self, by: f64, along: &Direction) -> Result<f64, String> {
        let moved = self.tensors(by, along)?;
        let there = match self.second {
            true => differentiated(self.program, &moved, false, &Cuts::default()).and_then(|d| {
                let parts = d.gradients.iter().flatten().enumerate();
                parts.map(|(i, g)| weighted(g, 0.2 * i as f64)).reduce(|a, b| a + b)
            }),
            false => scalar(self.program, &moved_and_tracked(&moved), &Cuts::default()),
        };
        Ok(read(&there.ok_or("a value that comes and goes")?)?[0])
    }

    /// Compares the gradient along a direction with finite differences, with a tolerance of `unsure` added.
    fn compare_directional(&self, along: &Direction, unsure: f64) -> Result<Outcome, String> {
        let mut slopes = vec![];
        for h in STEPS {
            slopes.push((self.value_at(h, along)? - self.value) / h);
        }
        let scale = slopes.iter().fold(0.0f64, |m, s| m.max(s.abs()));
        let noise = 1e-9 * self.value.abs() + 1e-8;
        let central = [(slopes[0] + slopes[1]) / 2.0, (slopes[2] + slopes[3]) / 2.0];
        // The difference of the one-sided slopes shrinks with the distance, except at a kink right here.
        let kink = (5.0 * (slopes[2] - slopes[3]) - (slopes[0] - slopes[1])).abs() / 4.0;
        let steady = |v: f64| v.is_finite() && v.abs() < 1e9;
        let smooth = (slopes[0] - slopes[1]).abs() <= 2e-3 * scale + noise
            && (central[0] - central[1]).abs() <= 1e-5 * scale + noise;
        if !slopes.iter().all(|s| steady(*s)) || !steady(self.value) || !smooth {
            return Ok(Outcome::Unstable);
        }
        let terms = products(&self.gradients, along);
        let got: f64 = terms.iter().sum();
        let size = terms.iter().map(|t| t.abs()).sum::<f64>().max(scale);
        if got.is_nan() && (self.program.steps.iter().any(|s| has_poles(s.op)) || self.overflows()?) {
            return Ok(Outcome::Unstable);
        }
        match (got - central[1]).abs() > 2e-5 * size + 2.0 * kink + 10.0 * noise + unsure || got.is_nan() {
            true => Ok(Outcome::Differs(got, central[1])),
            false => Ok(Outcome::Agrees),
        }
    }

    /// Examines a direction along which the gradient seems wrong: whether it still does with an allowance for rounding,
    /// and along a half of the direction, down to a single element.
    fn looked_at(&self, mut along: Direction, rng: &mut Rng) -> Result<Outcome, String> {
        loop {
            let mut unsure = 0.0f64;
            let here: f64 = products(&self.gradients, &along).iter().sum();
            for _ in 0..2 {
                let jitter = self.at.iter().map(|x| x.iter().map(|x| x * (rng.f64() - 0.5)).collect()).collect();
                if let Some((_, moved)) = self.gradients_at(1e-14, &jitter)? {
                    unsure = unsure.max((products(&moved, &along).iter().sum::<f64>() - here).abs());
                }
            }
            let Outcome::Differs(got, want) = self.compare_directional(&along, 100.0 * unsure)? else {
                return Ok(Outcome::Unstable);
            };
            let moving: Vec<(usize, usize)> = (0..along.len())
                .flat_map(|i| (0..along[i].len()).map(move |j| (i, j)))
                .filter(|&(i, j)| along[i][j] != 0.0)
                .collect();
            if moving.len() <= 1 {
                return match self.touches(&along, rng)? {
                    true => Ok(Outcome::Unstable),
                    false => Ok(Outcome::Differs(got, want)),
                };
            }
            let (first, second) = moving.split_at(moving.len() / 2);
            let mut half = None;
            for still in [second, first] {
                let mut part = along.clone();
                still.iter().for_each(|&(i, j)| part[i][j] = 0.0);
                if let Outcome::Differs(..) = self.compare_directional(&part, 0.0)? {
                    half = Some(part);
                    break;
                }
            }
            match half {
                Some(part) => along = part,
                None => return Ok(Outcome::Unstable),
            }
        }
    }

    /// Whether this point is a tie between the candidates of a selection, as `max(x, eˣ - 1)` at 0: each has a share in
    /// the gradient, which is right, and in its slope, which is that of neither. Nearby nothing is wrong.
    fn touches(&self, along: &Direction, rng: &mut Rng) -> Result<bool, String> {
        if !self.second || !self.program.steps.iter().any(|s| chooses(s.op)) {
            return Ok(false);
        }
        for _ in 0..2 {
            let near = self.at.iter().map(|x| x.iter().map(|x| x + 1e-2 * (rng.f64() - 0.5)).collect()).collect();
            let mut near = Point { at: near, gradients: vec![], ..*self };
            let still: Direction = near.at.iter().map(|x| vec![0.0; x.len()]).collect();
            let Some((value, gradients)) = near.gradients_at(1.0, &still)? else { return Ok(false) };
            (near.value, near.gradients) = (value, gradients);
            if let Outcome::Differs(..) = near.compare_directional(along, 0.0)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a step has a NaN, or an element beyond 1e150, whose square overflows.
    fn overflows(&self) -> Result<bool, String> {
        let inputs = inputs(self.checker, self.program)?;
        let mut steps: Vec<Tensor> = vec![];
        for step in &self.program.steps {
            let args: Vec<RawArg<'_>> = step
                .args
                .iter()
                .map(|a| match a {
                    Argument::Tensor(Place::Input(n)) => RawArg::Tensor(&inputs[*n]),
                    Argument::Tensor(Place::Step(n)) => RawArg::Tensor(&steps[*n]),
                    Argument::Scalar(bits) => RawArg::Scalar(*bits),
                })
                .collect();
            let made = raw::record(step.op, step.dtype, step.shape, step.attr, &args, &step.ints);
            drop(args);
            steps.push(made);
        }
        for step in steps.iter().filter(|s| s.dtype().is_float()) {
            // The derivative may be infinite if the square overflows.
            if read(step)?.iter().any(|v| v.abs() > 1e150 || v.is_nan()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether an operation selects one of several elements.
fn chooses(op: Op) -> bool {
    use ElementOp::{Maximum, Minimum};
    matches!(op, Op::Element(Maximum | Minimum) | Op::Scatter(ScatterOp::Max | ScatterOp::Min))
        || matches!(op, Op::Reduce(ReduceOp::Max | ReduceOp::Min) | Op::Scan(ScanOp::Max | ScanOp::Min | ScanOp::Sort))
}

fn read(x: &Tensor) -> Result<Vec<f64>, String> {
    x.to_f64_vec().map_err(|e| format!("differentiated: {e}"))
}

/// Contribution of each element to the derivative along a direction.
fn products(gradients: &[Option<Vec<f64>>], along: &Direction) -> Vec<f64> {
    let both = gradients.iter().zip(along).filter_map(|(g, d)| Some((g.as_ref()?, d)));
    both.flat_map(|(g, d)| g.iter().zip(d).filter(|(_, d)| **d != 0.0).map(|(g, d)| g * d)).collect()
}
