//! Compilation of row bodies to machine code: all phases of a body in one function.

use super::{Isa, Report, Unsupported, dump};
use crate::isa::RowFunction;
use crate::isa::pages::Code;
use crate::prepare::prepare;
use crate::row_call::{InnerReduction, RowArgs};
use crate::vector::{Options, inner_reduction, loop_code};
use std::ops::Range;
use std::time::{Duration, Instant};
use thalweg_kernel::{Body, Phases, phases};

/// A row body compiled to machine code for one instruction set.
pub struct CompiledInnerReduction {
    code: Code,
    /// Phases that a call runs; the indices of the row's values and buffers refer to this list.
    pub phases: Phases,
    /// Statistics of the emitted code (size, spills, time).
    pub report: Report,
}

/// Compiles a row body for an instruction set that this machine has; `keep` as in [`thalweg_kernel::phases`].
pub fn compile_inner_reduction(body: &Body, isa: Isa, keep: bool) -> Result<CompiledInnerReduction, Unsupported> {
    compile_inner_reduction_with(body, isa, keep, Options::default())
}

/// Like [`compile_inner_reduction`], for outputs larger than the caches: the last pass stores whole vectors
/// non-temporally. The first element of each row of every output that is stored point by point must be aligned to 64
/// bytes.
pub fn compile_inner_reduction_streaming(
    body: &Body,
    isa: Isa,
    keep: bool,
) -> Result<CompiledInnerReduction, Unsupported> {
    compile_inner_reduction_with(body, isa, keep, Options { streaming: true, ..Options::default() })
}

pub(crate) fn compile_inner_reduction_with(
    body: &Body,
    isa: Isa,
    keep: bool,
    options: Options,
) -> Result<CompiledInnerReduction, Unsupported> {
    let began = Instant::now();
    let prepared = prepare(body);
    let phases = phases(&prepared, keep);
    let (bytes, mut report) = assemble_inner_reduction(&prepared, &phases, isa, options)?;
    let code = Code::publish(&bytes).ok_or(Unsupported::NoPages)?;
    report.time = began.elapsed();
    tracing::debug!(?report, "compiled a row body");
    Ok(CompiledInnerReduction { code, phases, report })
}

/// Assembles the machine code of a prepared body's phases.
pub(crate) fn assemble_inner_reduction(
    body: &Body,
    phases: &Phases,
    isa: Isa,
    options: Options,
) -> Result<(Vec<u8>, Report), Unsupported> {
    let mut compiled = inner_reduction::compile(body, phases, isa.target(), options)?;
    let code = crate::vector::phases::linear(body, &mut compiled, isa.target(), options.streaming)
        .ok_or(Unsupported::TooLarge)?;
    let bytes = isa.encode(&code);
    let parts = &compiled.phases;
    let passes = || parts.iter().filter(|p| p.tail.is_some());
    let report = Report {
        isa,
        lanes: passes().map(|p| p.v.lanes).min().unwrap_or(1),
        copies: passes().map(|p| p.main.0.copies).max().unwrap_or(1),
        instructions: parts.iter().map(|p| p.instructions).sum(),
        bytes: bytes.len(),
        spills: parts.iter().map(|p| p.main.1.spills).sum(),
        rereads_inputs: parts.iter().any(|p| loop_code::has_guards(&p.v)),
        time: Duration::ZERO,
    };
    let loops = parts.iter().enumerate().flat_map(|(k, p)| {
        let main = if p.tail.is_some() { "main loop" } else { "once a row" };
        let both = [Some((main, &p.main)), p.tail.as_ref().map(|t| ("tail", t))];
        both.into_iter().flatten().map(move |(what, l)| (format!("phase {k}, {what}"), &l.0, &l.1))
    });
    dump::write("rows", body, &report, &loops.collect::<Vec<_>>(), &bytes);
    Ok((bytes, report))
}

impl InnerReduction for CompiledInnerReduction {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, phases: Range<usize>) -> bool {
        // SAFETY: the code was emitted with this signature and published whole; it lives as long as `self`.
        let f: RowFunction = unsafe { std::mem::transmute(self.code.start()) };
        f(args.as_ptr(), n, rows, phases.start, phases.end) == 0
    }
}
