//! Loops: a body of a few actions, repeated up to a hundred times, whose results are read or waited for at the end.
//!
//! Input: a seed, which chooses sizes and the actions of a body: maps, reductions, scans, selections by computed
//! integer indices, tensors that grow by `cat`, sums by index. The loop runs unfused, fused and in cold starts,
//! sometimes with its states held, in strict mode and thus to the same bits; results are read, or waited for by
//! `synchronize` or `flush` and then read. Invariants: no segment fails, and after `synchronize` no held value is left
//! to compute.

#[cfg(feature = "wgpu")]
use crate::check::SINGLE;
use crate::check::{Checker, FAST, STRICT, UNFUSED};
use fastrand::Rng;
use thalweg::prelude::*;
use thalweg_runtime::counters;
use thalweg_stream::{Mode, clear_plans, finish_searches, set_mode, set_tiers};

/// Number of runs of the loop with tiers on.
const MEETINGS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Action {
    /// Applies elementwise operations to the state.
    Map,
    /// Subtracts the mean from the state.
    Centre,
    /// Gathers rows of the table by the indices.
    Select,
    /// Computes new indices by integer arithmetic.
    Step,
    /// Computes the indices of the largest elements of the state.
    Top,
    /// Computes indices by an argsort of the state's rows.
    Order,
    /// Gathers rows of the text, and appends the indices to them.
    Append,
    /// Appends the state to the cache, and computes a sum over the cache.
    Cache,
    /// Adds the state to rows of the table.
    Add,
    /// Computes cumulative sums of the state.
    Scan,
}

use Action::*;

const ACTIONS: [Action; 10] = [Map, Centre, Select, Step, Top, Order, Append, Cache, Add, Scan];

/// Way in which the results of the loop are requested.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ask {
    Read,
    Synchronize,
    Flush,
}

/// Random loop over a state, such as a decoder's.
#[derive(Clone, Debug)]
pub struct Loop {
    actions: Vec<Action>,
    turns: usize,
    rows: usize,
    columns: usize,
    words: usize,
    /// Whether the state of each iteration is held until the end.
    held: bool,
}

impl Loop {
    /// Makes the loop of a seed.
    pub fn new(seed: u64) -> Loop {
        let rng = &mut Rng::with_seed(seed);
        let actions: Vec<Action> = (0..rng.usize(2..7)).map(|_| ACTIONS[rng.usize(..ACTIONS.len())]).collect();
        let turns = if rng.u32(..4) == 0 { 100 } else { rng.usize(1..14) };
        let held = rng.u32(..4) == 0 && turns < 20;
        Loop { actions, turns, rows: rng.usize(1..5), columns: rng.usize(1..6), words: rng.usize(4..12), held }
    }

    fn run(&self, ask: Ask) -> Result<Vec<Vec<f32>>, Error> {
        let &Loop { rows, columns, words, .. } = self;
        let number = |shape: &[usize], by: f64| {
            let n: usize = shape.iter().product();
            (Tensor::arange_with(n, DType::F32) * by).sin().reshape(shape)
        };
        let mut table = number(&[words, columns], 1.3);
        let mut x = number(&[rows, columns], 0.7);
        let mut index = Tensor::zeros_with([rows], DType::I64);
        let mut text = Tensor::zeros_with([rows, 0], DType::I64);
        let mut cache = Tensor::zeros_with([rows, 0, columns], DType::F32);
        let mut held = vec![];
        for turn in 0..self.turns {
            for action in &self.actions {
                match action {
                    Map => x = (&x * 1.1 + 0.1).tanh(),
                    Centre => x = &x - x.mean_keepdim(-1),
                    Select => x = table.index_select(0, &index) * 0.5 + &x * 0.25,
                    Step => index = (&index * 5 + (turn + 1) as i64) % words as i64,
                    Top => {
                        let scores = (x.unsqueeze(1) * &table).sum(2).flatten();
                        let (_, at) = scores.topk(rows, 0, true);
                        index = at % words as i64;
                    }
                    Order => index = x.sum(1).argsort(0, true),
                    Append => {
                        let from = x.sum(1).argsort(0, false);
                        text = Tensor::cat(&[text.index_select(0, &from), index.unsqueeze(1)], 1);
                    }
                    Cache => {
                        cache = Tensor::cat(&[cache, x.unsqueeze(1)], 1);
                        x = (&cache * x.unsqueeze(1)).sum(1).tanh();
                    }
                    Add => table = table.index_add(0, &index, &(&x * 0.01)),
                    Scan => x = x.cumsum(-1).sin(),
                }
            }
            if self.held {
                held.push(x.clone());
            }
        }
        held.extend([x, table, index.cast(DType::F32), text.cast(DType::F32), cache]);
        match ask {
            Ask::Read => {}
            Ask::Synchronize => thalweg::synchronize()?,
            Ask::Flush => thalweg::flush(),
        }
        let before = counters();
        let read: Result<Vec<Vec<f32>>, Error> = held.iter().map(Tensor::to_vec).collect();
        match (counters() - before).kernels {
            kernels if kernels > 0 && ask == Ask::Synchronize => {
                Err(Error::Value(format!("{kernels} kernels of what is held ran after synchronize")))
            }
            _ => read,
        }
    }

    fn run_by(&self, mode: Mode, ask: Ask) -> Result<Vec<Vec<f32>>, String> {
        let old = set_mode(mode);
        let done = self.run(ask).map_err(|e| format!("{mode:?}, {ask:?}: {e}"));
        set_mode(old);
        done
    }
}

/// Runs the loop of a seed in every mode; the error describes the first failure.
pub fn check(checker: &Checker, seed: u64) -> Result<(), String> {
    let of = Loop::new(seed);
    // The check runs on a new thread, which has no plans yet.
    let run = || -> Result<(), String> {
        thalweg::set_default_device(Some(thalweg::raw::tensor(checker.empty()?).device()));
        set_tiers(false);
        let bits = |all: &[Vec<f32>]| -> Vec<Vec<u32>> {
            all.iter().map(|v| v.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()).collect()
        };
        let want = bits(&of.run_by(UNFUSED, Ask::Read)?);
        let same = |got: Vec<Vec<f32>>, what: &str| match bits(&got) == want {
            true => Ok(()),
            false => Err(format!("{what}: other values than unfused")),
        };
        for ask in [Ask::Read, Ask::Synchronize, Ask::Flush, Ask::Synchronize] {
            same(of.run_by(STRICT, ask)?, &format!("strict, {ask:?}"))?;
            of.run_by(FAST, ask)?;
        }
        clear_plans();
        set_tiers(true);
        for turn in 0..MEETINGS {
            let ask = if turn % 2 == 0 { Ask::Synchronize } else { Ask::Read };
            same(of.run_by(STRICT, ask)?, &format!("at a cold start, run {turn}, {ask:?}"))?;
            of.run_by(FAST, ask)?;
            if turn == 1 {
                finish_searches();
            }
        }
        match counters().failed_segments {
            0 => Ok(()),
            failed => Err(format!("{failed} segments failed, and were run again")),
        }
    };
    let done = std::thread::scope(|s| s.spawn(run).join());
    done.unwrap_or_else(|_| Err("panicked".into())).map_err(|why| format!("{why}\n{of:?}"))
}

/// Runs the loop of a seed on a device without strict mode: one kernel per operation with the same bits each time, and
/// fused, where a selection may go another way.
#[cfg(feature = "wgpu")]
pub fn check_fast_math(checker: &Checker, seed: u64) -> Result<(), String> {
    let of = Loop::new(seed);
    let run = || -> Result<(), String> {
        thalweg::set_default_device(Some(thalweg::raw::tensor(checker.empty()?).device()));
        set_tiers(false);
        let bits = |all: &[Vec<f32>]| -> Vec<Vec<u32>> {
            all.iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect()
        };
        let want = bits(&of.run_by(SINGLE, Ask::Read)?);
        for ask in [Ask::Synchronize, Ask::Flush] {
            if bits(&of.run_by(SINGLE, ask)?) != want {
                return Err(format!("one by one, {ask:?}: other values than before"));
            }
            of.run_by(FAST, ask)?;
        }
        match counters().failed_segments {
            0 => Ok(()),
            failed => Err(format!("{failed} segments failed, and were run again")),
        }
    };
    let done = std::thread::scope(|s| s.spawn(run).join());
    done.unwrap_or_else(|_| Err("panicked".into())).map_err(|why| format!("{why}\n{of:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_of_a_hundred_turns_and_hundreds_of_gathers_come_up() {
        let all: Vec<Loop> = (0..200).map(Loop::new).collect();
        let gathers = |l: &Loop| {
            let each = l.actions.iter().filter(|a| matches!(a, Select | Append | Top | Add)).count();
            l.turns * each
        };
        assert!(all.iter().filter(|l| l.turns == 100).count() > 20);
        assert!(all.iter().filter(|l| gathers(l) >= 300).count() > 5);
        assert!(all.iter().filter(|l| l.held).count() > 10);
    }
}
