//! Workloads that need fresh processes: each run starts this program again with a first argument that [`child`]
//! recognizes.

use crate::failure::{During, Outcome, failure};
use crate::measure::{Mode, Times, Work, counted, ms_since};
use crate::workloads::{self, Size};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use thalweg::Tensor;

const COLD_START: &str = "cold-start-child";
const DYN_SHAPES: &str = "dyn-shapes-child";

/// Output of a child of [`dyn_shapes`].
#[derive(Serialize, Deserialize)]
struct DynShapes {
    total_ms: f64,
    work: Work,
}

/// Runs as a child process if the arguments say so. Called before anything else in `main`: cold_start counts every
/// microsecond.
pub fn child() -> Option<Outcome> {
    let mut args = std::env::args().skip(1);
    match args.next()?.as_str() {
        COLD_START => Some(cold_start_child()),
        DYN_SHAPES => Some(dyn_shapes_child(args.next().as_deref() == Some("large"))),
        _ => None,
    }
}

fn cold_start_child() -> Outcome {
    let (values, counters) = counted(|| Ok(workloads::gelu_custom(&Tensor::randn([32, 32])).to_vec::<f32>()?))?;
    let mut out = std::io::stdout().lock();
    // The parent's clock stops at this line.
    writeln!(out, "{}", values[0]).and_then(|()| out.flush()).during("standard output")?;
    writeln!(out, "{}", serde_json::to_string(&Work::new(counters, counters))?).during("standard output")?;
    Ok(())
}

fn dyn_shapes_child(large: bool) -> Outcome {
    let inputs = workloads::dyn_shapes_inputs(if large { Size::Large } else { Size::Small })?;
    let (total_ms, counters) = counted(|| {
        let begin = Instant::now();
        for x in &inputs {
            let _y = workloads::gelu_custom(x);
            thalweg::synchronize()?;
        }
        Ok(ms_since(begin))
    })?;
    crate::out!("{}", serde_json::to_string(&DynShapes { total_ms, work: Work::new(counters, counters) })?);
    Ok(())
}

fn spawn(args: &[&str], mode: Mode) -> Outcome<Child> {
    let program = std::env::current_exe().during("the path of this program")?;
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped());
    command.envs(mode.environment());
    command.spawn().during(program.display())
}

/// Output lines of a child.
fn lines(child: &mut Child) -> Outcome<impl Iterator<Item = std::io::Result<String>> + use<>> {
    let out = child.stdout.take().ok_or_else(|| failure("a child without a standard output"))?;
    Ok(BufReader::new(out).lines())
}

fn next(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Outcome<String> {
    lines.next().ok_or_else(|| failure("a child process ended without a result"))?.during("a child process")
}

/// Measures the time from the start of a fresh process until it has read the first gelu_custom on `[32, 32]`, `runs`
/// times.
pub fn cold_start(runs: usize, mode: Mode) -> Outcome<(Times, Work)> {
    let one = || -> Outcome<(f64, Work)> {
        let begin = Instant::now();
        let mut child = spawn(&[COLD_START], mode)?;
        let mut lines = lines(&mut child)?;
        next(&mut lines)?;
        let ms = ms_since(begin);
        let work = serde_json::from_str(&next(&mut lines)?)?;
        child.wait().during("a child process")?;
        Ok((ms, work))
    };
    // The first run also loads the program's file into memory.
    let (cold, work) = one()?;
    let times: Outcome<Vec<f64>> = (0..runs).map(|_| Ok(one()?.0)).collect();
    Ok((Times::new(cold, times?), work))
}

/// Measures the total time of 64 first calls on 64 shapes, in `runs` fresh processes.
pub fn dyn_shapes(runs: usize, size: Size, mode: Mode) -> Outcome<(Times, Work)> {
    let class = if size == Size::Large { "large" } else { "small" };
    let one = || -> Outcome<DynShapes> {
        let mut child = spawn(&[DYN_SHAPES, class], mode)?;
        let report = serde_json::from_str(&next(&mut lines(&mut child)?)?)?;
        child.wait().during("a child process")?;
        Ok(report)
    };
    let first = one()?;
    let times: Outcome<Vec<f64>> = (0..runs).map(|_| Ok(one()?.total_ms)).collect();
    Ok((Times::new(first.total_ms, times?), first.work))
}
