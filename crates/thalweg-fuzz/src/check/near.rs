//! Nearly equal programs after one that has been planned: one operation more at the end, one less, other kept results.
//! Their plans reuse components of the first one's plan. Values are compared with those of an unfused run and of the
//! interpreter, bit by bit in strict mode, and must not change after further searches.

use super::{Checker, Drops, FAST, STRICT, UNFUSED};
use crate::program::{Argument, Program, Step, Tensor};
use crate::stability::Stability;
use std::cell::LazyCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_fusion::Effort;
use thalweg_ir::{DType, ElementOp, Op, ReduceOp};
use thalweg_runtime::counters;
use thalweg_stream::{
    Mode, clear_plans, finish_further_searches, finish_searches, set_deferring, set_effort, set_tiers,
};

/// Number of runs of each program before its plan searches are waited for.
const MEETINGS: usize = 2;
/// Search budget that ends most searches early.
const TRUNCATED_SEARCH: Effort = Effort::Visits(30);

static TAKEN: AtomicU64 = AtomicU64::new(0);
static GROWN: AtomicU64 = AtomicU64::new(0);
static IMPROVED: AtomicU64 = AtomicU64::new(0);

/// Totals over all programs: number of components that reused the plan of an equal component, number of components
/// whose search started from known plans of others, and number of plans replaced by better ones.
pub fn known_parts() -> [u64; 3] {
    [&TAKEN, &GROWN, &IMPROVED].map(|n| n.load(Relaxed))
}

type Results = Vec<Option<Vec<u8>>>;

impl Checker {
    /// Checks the program and its variants, planned one after the other.
    pub(super) fn near_misses(&self, program: &Program) -> Result<(), String> {
        let all = variants(program);
        let wanted =
            |p: &Program| self.run(p, UNFUSED, Drops::Early, true).map_err(|e| format!("nearly the same: {e}"));
        let want = all.iter().map(wanted).collect::<Result<Vec<Results>, String>>()?;
        // The interpreter dominates the time: it has checked the first program, and checks one of the others.
        let held = 1 + program.steps.len() % (all.len() - 1).max(1);
        if let (Some(p), Some(want)) = (all.get(held), want.get(held)) {
            self.against_meaning(p, want)?;
        }
        let stability: Vec<_> = all.iter().map(|p| LazyCell::new(|| Stability::new(p))).collect();
        for mode in [STRICT, FAST] {
            for (which, got) in self.in_turns(&all, mode)? {
                let (p, want) = (&all[which], &want[which]);
                let what = format!("near miss {which} of {mode:?}");
                let close = || self.close((p, &stability[which]), &got, want);
                let judged = if mode.strict { self.equal(p, &got, want, &what) } else { close() };
                judged.map_err(|e| format!("{what}: {e}\n{}", p.listing()))?;
            }
        }
        Ok(())
    }

    /// Runs the programs in order on a thread without plans: each before it has a plan, by its plan, and again after
    /// all further searches. Returns the program's index with each result.
    fn in_turns(&self, all: &[Program], mode: Mode) -> Result<Vec<(usize, Results)>, String> {
        clear_plans();
        let run = || -> Result<Vec<(usize, Results)>, String> {
            set_deferring(false);
            set_tiers(true);
            if all[0].steps.len() % 2 == 1 {
                set_effort(TRUNCATED_SEARCH);
            }
            let one = |which: usize| {
                let got = self.run_on(self.new_code, &all[which], mode, Drops::Early, false);
                got.map(|got| (which, got)).map_err(|e| format!("near miss {which}: {e}"))
            };
            let before = counters();
            let mut out = vec![];
            for which in 0..all.len() {
                for _ in 0..MEETINGS {
                    out.push(one(which)?);
                }
                finish_searches();
                out.push(one(which)?);
            }
            finish_further_searches();
            for which in 0..all.len() {
                out.push(one(which)?);
            }
            let c = counters() - before;
            for (n, by) in [(&TAKEN, c.components_reused), (&GROWN, c.components_seeded), (&IMPROVED, c.plans_improved)]
            {
                n.fetch_add(by, Relaxed);
            }
            Ok(out)
        };
        std::thread::scope(|s| s.spawn(run).join()).map_err(|_| "near misses: a thread panicked".to_string())?
    }
}

/// Returns the program and its variants.
fn variants(program: &Program) -> Vec<Program> {
    let mut all = vec![program.clone()];
    let grown = with_one_more(program);
    all.extend(grown.as_ref().and_then(with_a_fold));
    all.extend(grown);
    all.extend(with_other_results(program));
    all.extend(program.without(program.steps.len() - 1));
    all
}

/// Index of the last step with a float result.
fn last_of_floats(program: &Program) -> Option<usize> {
    let fits = |s: &Step| matches!(s.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16);
    program.steps.iter().rposition(fits)
}

fn of_one(program: &Program, from: usize, op: Op) -> Step {
    let Step { dtype, shape, .. } = program.steps[from];
    let args = vec![Argument::Tensor(Tensor::Step(from))];
    Step { op, dtype, shape, attr: 0, args, ints: vec![], kept: true }
}

/// Adds an operation on the last float result, which is then no longer kept.
fn with_one_more(program: &Program) -> Option<Program> {
    let from = last_of_floats(program)?;
    let op = [ElementOp::Tanh, ElementOp::Neg, ElementOp::Abs][program.steps.len() % 3];
    let mut out = program.clone();
    out.steps.push(of_one(program, from, Op::Element(op)));
    out.steps[from].kept = false;
    Some(out)
}

/// Adds the maximum of each row of a result.
fn with_a_fold(program: &Program) -> Option<Program> {
    let from =
        last_of_floats(program).filter(|&s| program.steps[s].shape.rank() > 0 && program.steps[s].shape.numel() > 0)?;
    let mut out = program.clone();
    let mut fold = of_one(program, from, Op::Reduce(ReduceOp::Max));
    let axis = fold.shape.rank() - 1;
    fold.shape.dims_mut()[axis] = 1;
    fold.attr = 1 << axis | 0x100;
    out.steps.push(fold);
    Some(out)
}

/// Keeps a result that was not kept; in a program with an even number of steps, then drops the last one that is kept.
/// `None` if all results are kept.
fn with_other_results(program: &Program) -> Option<Program> {
    let mut out = program.clone();
    let n = program.steps.len();
    let first = (0..n).map(|i| (i + n / 2) % n).find(|&i| !program.steps[i].kept)?;
    out.steps[first].kept = true;
    if let Some(last) = (0..n).rfind(|&i| program.steps[i].kept).filter(|_| n.is_multiple_of(2)) {
        out.steps[last].kept = false;
    }
    Some(out)
}
