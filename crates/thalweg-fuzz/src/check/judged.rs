//! Comparisons of results: with the interpreter, bit by bit, or within tolerance.

use super::Checker;
use crate::program::{Argument, Program, Tensor};
use crate::stability::Stability;
use crate::tolerance::Tolerance;
use thalweg_ir::{DType, OpClass, Rounding, Scalar};
use thalweg_kernel::reference::{self, Array, RefArg};

impl Checker {
    /// Compares every step of the unfused run with the interpreter on the device's actual arguments.
    pub(super) fn against_meaning(&self, program: &Program, results: &[Option<Vec<u8>>]) -> Result<(), String> {
        let inputs: Vec<Array> = program.inputs.iter().map(|i| Array::from_bytes(i.shape, i.dtype, &i.bytes)).collect();
        let arrays: Vec<Array> = program
            .steps
            .iter()
            .zip(results)
            .map(|(s, r)| Array::from_bytes(s.shape, s.dtype, r.as_ref().expect("all are kept")))
            .collect();
        for (i, step) in program.steps.iter().enumerate() {
            let args: Vec<RefArg<'_>> = step
                .args
                .iter()
                .map(|a| match a {
                    Argument::Tensor(Tensor::Input(n)) => RefArg::Array(&inputs[*n]),
                    Argument::Tensor(Tensor::Step(n)) => RefArg::Array(&arrays[*n]),
                    Argument::Scalar(bits) => RefArg::Scalar(*bits),
                })
                .collect();
            let rel = step.rel(step.op);
            let want = reference::evaluate(&rel, step.shape, &args, &step.ints);
            #[cfg(feature = "wgpu")]
            let new = if self.fast_math { Tolerance::of_fast_math } else { Tolerance::new };
            #[cfg(not(feature = "wgpu"))]
            let new = Tolerance::new;
            let tolerance = Tolerance::of_step(step, &args, new);
            #[cfg(feature = "wgpu")]
            let permitted = super::permitted::Permitted::new(step, &args);
            for p in 0..step.shape.numel() {
                let (g, w) = (arrays[i].get(p), want.get(p));
                let is_right = tolerance.accepts(p, g, w);
                #[cfg(feature = "wgpu")]
                let is_right = is_right || self.fast_math && permitted.accepts(p, g);
                if !is_right {
                    return Err(format!("%{i} {} at {p}: {g:?}, the interpreter says {w:?}", step.op.name()));
                }
            }
        }
        Ok(())
    }

    /// Compares kept results bit by bit; all NaNs are equal.
    pub(crate) fn equal(
        &self,
        program: &Program,
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
        what: &str,
    ) -> Result<(), String> {
        let missing = program
            .steps
            .iter()
            .zip(got.iter().zip(want))
            .position(|(s, (g, w))| s.kept && (g.is_none() || w.is_none()));
        missing.map_or(Ok(()), |i| Err(format!("%{i} is missing")))?;
        self.equal_where(program, got, want, what)
    }

    /// Compares the kept results that both runs have, bit by bit.
    fn equal_where(
        &self,
        program: &Program,
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
        what: &str,
    ) -> Result<(), String> {
        self.compare(program, got, want, |i, p, g, w| {
            let nan = |v: Scalar| matches!(v, Scalar::Float(f) if f.is_nan());
            let same = nan(g) && nan(w)
                || match (g, w) {
                    (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
                    _ => g == w,
                };
            if same {
                Ok(())
            } else {
                Err(format!("%{i} {} at {p}: {what} {g:?}, not {w:?}", program.steps[i].op.name()))
            }
        })
    }

    /// Compares the selections that must be the same under every plan, bit by bit.
    pub(super) fn equal_selections(
        &self,
        program: &Program,
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
        what: &str,
    ) -> Result<(), String> {
        let alike = crate::selection::alike(program);
        let only = |results: &[Option<Vec<u8>>]| -> Vec<Option<Vec<u8>>> {
            results.iter().zip(&alike).map(|(r, alike)| r.clone().filter(|_| *alike)).collect()
        };
        self.equal_where(program, &only(got), &only(want), what)
    }

    /// Compares kept results within tolerance: contraction, unrounded narrow floats and other orders change a value
    /// little if its computation is stable.
    pub(crate) fn close(
        &self,
        (program, stability): (&Program, &Stability<'_>),
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
    ) -> Result<(), String> {
        for (i, step) in program.steps.iter().enumerate().filter(|(_, s)| s.kept) {
            let (Some(g), Some(w)) = (&got[i], &want[i]) else { return Err(format!("%{i} is missing")) };
            let (g, w) = (Array::from_bytes(step.shape, step.dtype, g), Array::from_bytes(step.shape, step.dtype, w));
            if let Some(wrong) = stability.judge(i, &g, &w) {
                return Err(format!("%{i} {} {wrong}", step.op.name()));
            }
        }
        let exact = exact(program, self.gpu);
        self.compare(program, got, want, |i, p, g, w| {
            let nan = |v: Scalar| matches!(v, Scalar::Float(f) if f.is_nan());
            if !exact[i] || g == w || nan(g) && nan(w) {
                return Ok(());
            }
            Err(format!("%{i} {} at {p}: {g:?}, strictly {w:?}", program.steps[i].op.name()))
        })
    }

    fn compare(
        &self,
        program: &Program,
        got: &[Option<Vec<u8>>],
        want: &[Option<Vec<u8>>],
        check: impl Fn(usize, usize, Scalar, Scalar) -> Result<(), String>,
    ) -> Result<(), String> {
        for (i, step) in program.steps.iter().enumerate().filter(|(_, s)| s.kept) {
            let (Some(g), Some(w)) = (&got[i], &want[i]) else { continue };
            let (g, w) = (Array::from_bytes(step.shape, step.dtype, g), Array::from_bytes(step.shape, step.dtype, w));
            for p in 0..step.shape.numel() {
                check(i, p, g.get(p), w.get(p))?;
            }
        }
        Ok(())
    }
}

/// Marks steps whose computation contains no contraction and no rounding: movement, selection, integers, and single
/// operations on exact values.
fn exact(program: &Program, gpu: bool) -> Vec<bool> {
    use thalweg_ir::{ElementOp::*, Op};
    let mut exact: Vec<bool> = vec![];
    // Arithmetic may be contracted into the next sum, so values one step away from it are not exact.
    let mut contracts: Vec<bool> = vec![];
    for step in &program.steps {
        let mut inner = step.args.iter().filter_map(|a| match a {
            Argument::Tensor(Tensor::Step(s)) => Some(*s),
            _ => None,
        });
        let from_exact = inner.clone().all(|s| exact[s]);
        let through = inner.any(|s| contracts[s]);
        let narrow = |d: DType| matches!(d, DType::BF16 | DType::F16);
        let wide = !narrow(step.dtype)
            && step.args.iter().all(|a| !matches!(a, Argument::Tensor(t) if narrow(program.dtype(*t))));
        let info = step.op.info();
        let chooses = match info.class {
            OpClass::Elementwise => matches!(step.op, Op::Element(Neg | Abs | Minimum | Maximum | Where | Relu)),
            OpClass::Fold => false,
            _ => matches!(info.rounding, Rounding::Copies | Rounding::Extreme),
        };
        let single = match step.op {
            // A GPU multiplies by the reciprocal of a scalar.
            Op::Element(Div) if gpu => false,
            // An operation expanded into simpler ones may be contracted internally.
            Op::Element(e) => wide && (e.row().expand.is_none() || !step.dtype.is_float()),
            Op::Cast => wide,
            _ => false,
        };
        exact.push(from_exact && !through && (chooses || single));
        use OpClass::{Fold, Matmul, Random, Scan, Scatter};
        let makes = matches!(info.class, Fold | Matmul | Random | Scan | Scatter);
        contracts.push(through || (makes || single && !chooses) && step.dtype.is_float());
    }
    exact
}
