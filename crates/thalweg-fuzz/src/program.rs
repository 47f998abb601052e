//! Random programs as plain data: what is recorded, dropped and kept.

use std::fmt::Write;
use thalweg_fusion::OwnedSegment;
use thalweg_ir::{Arg, DType, ElementOp, MAX_ARGS, Op, RelArg, RelOp, Scalar, Shape};

/// Input tensor of a program.
#[derive(Clone, Debug)]
pub struct Input {
    /// Dtype of the input.
    pub dtype: DType,
    /// Shape of the input.
    pub shape: Shape,
    /// Elements of the input, as bytes.
    pub bytes: Vec<u8>,
}

/// Tensor of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tensor {
    /// Input, by index.
    Input(usize),
    /// Result of a step, by index.
    Step(usize),
}

/// Argument of a step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Argument {
    /// Tensor argument.
    Tensor(Tensor),
    /// Scalar argument, as bits.
    Scalar(u64),
}

/// Recorded operation of a program.
#[derive(Clone, Debug)]
pub struct Step {
    /// Operation of the step.
    pub op: Op,
    /// Dtype of the result.
    pub dtype: DType,
    /// Shape of the result.
    pub shape: Shape,
    /// Structural attributes of the operation.
    pub attr: u32,
    /// Arguments of the operation: tensors and scalars.
    pub args: Vec<Argument>,
    /// Integer arguments of the operation.
    pub ints: Vec<i64>,
    /// Whether the result is read at the end.
    pub kept: bool,
}

impl Step {
    /// Operation record for the interpreter, with `op` in place of the step's own and without arguments.
    pub fn rel(&self, op: Op) -> RelOp {
        RelOp { op, dtype: self.dtype, rank: self.shape.rank() as u8, attr: self.attr, args: [RelArg::NONE; MAX_ARGS] }
    }
}

/// Program of the fuzzer: inputs, and steps in order.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Inputs of the program.
    pub inputs: Vec<Input>,
    /// Steps of the program, in order.
    pub steps: Vec<Step>,
}

impl Program {
    /// Program of a segment's recorded operations on these inputs; live results are kept.
    pub fn of(segment: &OwnedSegment, inputs: Vec<Input>) -> Program {
        let mut out = Program { inputs, steps: vec![] };
        let (mut ints, mut scalars) = (segment.ints.iter(), segment.scalars.iter());
        for (i, rel) in segment.ops.iter().enumerate() {
            let args = rel.args().map(|arg| match arg {
                Arg::Op(n) => Argument::Tensor(Tensor::Step(n)),
                Arg::Input(n) => Argument::Tensor(Tensor::Input(n)),
                _ => Argument::Scalar(*scalars.next().expect("there is one for each")),
            });
            out.steps.push(Step {
                op: rel.op,
                dtype: rel.dtype,
                shape: segment.shapes[i],
                attr: rel.attr,
                args: args.collect(),
                ints: ints.by_ref().take(rel.int_count()).copied().collect(),
                kept: segment.live.has(i),
            });
        }
        out
    }

    /// Dtype of a tensor.
    pub fn dtype(&self, t: Tensor) -> DType {
        match t {
            Tensor::Input(i) => self.inputs[i].dtype,
            Tensor::Step(i) => self.steps[i].dtype,
        }
    }

    /// Shape of a tensor.
    pub fn shape(&self, t: Tensor) -> Shape {
        match t {
            Tensor::Input(i) => self.inputs[i].shape,
            Tensor::Step(i) => self.steps[i].shape,
        }
    }

    /// Copy of the program with each scalar changed. Scalars that were equal become different.
    pub fn with_other_scalars(&self) -> Program {
        let mut out = self.clone();
        let mut n = 0;
        for (step, new) in self.steps.iter().zip(&mut out.steps) {
            let condition = step.op == Op::Element(ElementOp::Where);
            let values = step.args.iter().skip(condition as usize);
            let dtype = values.into_iter().find_map(|a| match a {
                Argument::Tensor(t) => Some(self.dtype(*t)),
                Argument::Scalar(_) => None,
            });
            let one = dtype.unwrap_or(step.dtype);
            // Scalars of a loop have their own dtypes.
            let region = step.op.region().map(|l| l.region());
            for (i, arg) in new.args.iter_mut().enumerate() {
                let Argument::Scalar(bits) = arg else { continue };
                n += 1;
                let dtype = region.and_then(|r| r.args.get(i).copied()).unwrap_or(one);
                *bits = match Scalar::from_bits(*bits, dtype) {
                    _ if matches!(step.op, Op::Random(_)) => bits.wrapping_add(n),
                    Scalar::Bool(v) => Scalar::Bool(v ^ (n % 2 == 0)).to_bits(dtype),
                    v @ (Scalar::Int(_) | Scalar::Unsigned(_)) => {
                        Scalar::Int(dtype.wrap(v.to_i64().wrapping_add(n as i64 % 3))).to_bits(dtype)
                    }
                    Scalar::Float(v) => Scalar::Float(v + (n % 5) as f64 * 0.25).to_bits(dtype),
                };
            }
        }
        out
    }

    /// Copy of the program without one step and its dependents; `None` if no kept result remains.
    pub fn without(&self, gone: usize) -> Option<Program> {
        let mut place = vec![None; self.steps.len()];
        let mut out = Program { inputs: self.inputs.clone(), steps: vec![] };
        for (i, step) in self.steps.iter().enumerate() {
            let moved: Option<Vec<Argument>> = step
                .args
                .iter()
                .map(|a| match a {
                    Argument::Tensor(Tensor::Step(s)) => place[*s].map(|p| Argument::Tensor(Tensor::Step(p))),
                    other => Some(*other),
                })
                .collect();
            if let (true, Some(args)) = (i != gone, moved) {
                place[i] = Some(out.steps.len());
                out.steps.push(Step { args, ..step.clone() });
            }
        }
        out.steps.iter().any(|s| s.kept).then_some(out)
    }

    /// Text of the program, one line per step.
    pub fn listing(&self) -> String {
        let mut out = String::new();
        for (i, input) in self.inputs.iter().enumerate() {
            let _ = writeln!(out, "in{i}: {}{}", input.dtype, input.shape);
        }
        for (i, s) in self.steps.iter().enumerate() {
            let _ = write!(out, "%{i}{} = {} ", if s.kept { "*" } else { "" }, s.op.spelled());
            for a in &s.args {
                let _ = match a {
                    Argument::Tensor(Tensor::Input(n)) => write!(out, "in{n} "),
                    Argument::Tensor(Tensor::Step(n)) => write!(out, "%{n} "),
                    Argument::Scalar(bits) => write!(out, "{bits:#x} "),
                };
            }
            let _ = writeln!(out, "{:?} attr {:#x} -> {}{}", s.ints, s.attr, s.dtype, s.shape);
        }
        out
    }
}
