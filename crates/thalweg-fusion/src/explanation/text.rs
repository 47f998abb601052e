//! Explanations as text for terminals, 80 columns wide.

use super::{Explanation, KernelReport, SegmentReport, Totals, bytes, time};
use std::fmt::{self, Display, Write};

/// Maximum number of operations listed for one kernel; the rest is counted.
const SHOWN: usize = 24;

impl Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            segment.write(f, i)?;
        }
        if self.segments.is_empty() {
            f.write_str("nothing was recorded\n")?;
        }
        let mispredicted = self.mispredicted();
        if !mispredicted.is_empty() {
            writeln!(f, "\nmispredicted, by more than 1.5 (median of {} runs)", self.runs)?;
            for (s, k) in mispredicted {
                let kernel = &self.segments[s].kernels[k];
                let predicted = time(kernel.predicted_ns * kernel.launches as u64);
                let times = format!("{predicted} predicted, {} measured", time(kernel.measured_ns));
                write!(f, "  segment {s}, kernel {k}: {times}\n    ")?;
                wrapped(f, &kernel.class)?;
            }
        }
        if self.segments.len() > 1 {
            writeln!(f, "\nall segments")?;
            totals(f, "as run", &self.totals())?;
            measured(f, &self.totals())?;
            totals(f, "unfused", &self.unfused())?;
            peak(f, &self.totals(), &self.unfused())?;
        }
        Ok(())
    }
}

fn totals(f: &mut fmt::Formatter<'_>, name: &str, t: &Totals) -> fmt::Result {
    writeln!(
        f,
        "  {name:<7} {:>3} kernel{} {:>11} read {:>11} written {:>11} allocated",
        t.kernels,
        if t.kernels == 1 { " " } else { "s" },
        bytes(t.bytes_read),
        bytes(t.bytes_written),
        bytes(t.bytes_allocated)
    )
}

/// Writes the measured traffic, below the planned one.
fn measured(f: &mut fmt::Formatter<'_>, t: &Totals) -> fmt::Result {
    let (read, written) = (bytes(t.bytes_read_measured), bytes(t.bytes_written_measured));
    writeln!(f, "  {:<7} {:>11} {read:>11} read {written:>11} written, as the device says", "moved", "")
}

/// Writes the peak memory in use, and that of one kernel per operation.
fn peak(f: &mut fmt::Formatter<'_>, run: &Totals, unfused: &Totals) -> fmt::Result {
    write!(f, "  peak    {} in use at once, {} unfused", bytes(run.peak), bytes(unfused.peak))?;
    if run.arena > 0 {
        write!(f, "; {} of it an arena", bytes(run.arena))?;
    }
    if run.repeated > 0 {
        write!(f, "\n  {} launched again to stay below the memory limit", run.repeated)?;
    }
    f.write_char('\n')
}

impl SegmentReport {
    fn write(&self, f: &mut fmt::Formatter<'_>, number: usize) -> fmt::Result {
        let plan = if self.plan_made { "plan made" } else { "plan found" };
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (operations, kernels) = (plural(self.operations.len(), "operation"), plural(self.kernels.len(), "kernel"));
        writeln!(f, "segment {number}: {operations}, {kernels}, {plan}")?;
        totals(f, "as run", &self.totals)?;
        measured(f, &self.totals)?;
        totals(f, "unfused", &self.unfused)?;
        peak(f, &self.totals, &self.unfused)?;
        if let Some(reason) = self.rerun {
            writeln!(f, "  run once more, {reason}")?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "  failed: {error}")?;
        }
        for (n, e) in self.autotuning.iter().enumerate() {
            let spills = e.spills.map_or(String::new(), |s| format!(", {s} spills"));
            let (runs, mark) = (plural(e.runs, "run"), if e.chosen { ", chosen" } else { "" });
            let us = |ns: u64| ns as f64 / 1e3;
            writeln!(
                f,
                "  {}: {:.1} µs predicted, {:.1} µs in {runs}{spills}{mark}",
                e.name(n),
                us(e.predicted_ns),
                us(e.measured_ns)
            )?;
        }
        for (k, kernel) in self.kernels.iter().enumerate() {
            self.write_kernel(f, k, kernel)?;
        }
        for r in &self.rewrites {
            write!(f, "{}:", r.what)?;
            r.operations.iter().take(SHOWN).try_for_each(|i| write!(f, " %{i}"))?;
            f.write_char('\n')?;
        }
        let aliases: Vec<usize> = (0..self.operations.len()).filter(|&i| self.operations[i].alias).collect();
        if !aliases.is_empty() {
            f.write_str("views of memory that is there anyway:")?;
            aliases.iter().try_for_each(|i| write!(f, " %{i}"))?;
            f.write_char('\n')?;
        }
        if !self.deferred.is_empty() {
            f.write_str("not written, nobody read them before:")?;
            self.deferred.iter().try_for_each(|i| write!(f, " %{i}"))?;
            f.write_char('\n')?;
        }
        self.saved_values(f)?;
        let dead = self.operations.iter().filter(|o| o.kernels.is_empty() && !o.alias).count();
        if dead > 0 {
            writeln!(f, "{dead} operations that nobody needed or that only re-label memory")?;
        }
        if !self.edges.is_empty() {
            f.write_str("not fused:\n")?;
            for e in &self.edges {
                let name = self.operations[e.operation].name;
                writeln!(f, "  %{} {name}, kernel {} to {}, {}:", e.operation, e.from, e.to, bytes(e.bytes))?;
                writeln!(f, "    {}", e.reason)?;
            }
        }
        Ok(())
    }

    /// Writes results that only a tape holds, and operations recorded again.
    fn saved_values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (written, title) in [(true, "kept for the backward pass"), (false, "left, to be computed again there")] {
            let mut about: Vec<_> = self.saved.iter().filter(|k| k.written == written).collect();
            if about.is_empty() {
                continue;
            }
            let all = about.iter().map(|k| k.bytes).sum();
            writeln!(f, "{title}: {} results, {}", about.len(), bytes(all))?;
            about.sort_by_key(|k| std::cmp::Reverse(k.bytes));
            let us = |ns: u64| ns as f64 / 1e3;
            for k in about.iter().take(SHOWN) {
                let (name, result) = (self.operations[k.operation].name, &self.operations[k.operation].result);
                writeln!(f, "  %{} {name} {result}, {}:", k.operation, bytes(k.bytes))?;
                let (keeping, again) = (us(k.saving_ns), us(k.recompute_ns));
                writeln!(f, "    {keeping:.1} µs to keep, {again:.1} µs to compute again")?;
            }
            if about.len() > SHOWN {
                writeln!(f, "  and {} more", about.len() - SHOWN)?;
            }
        }
        if !self.recomputed.is_empty() {
            writeln!(
                f,
                "{} operations recorded again, for results that an earlier segment left",
                self.recomputed.len()
            )?;
        }
        Ok(())
    }

    fn write_kernel(&self, f: &mut fmt::Formatter<'_>, k: usize, kernel: &KernelReport) -> fmt::Result {
        let engine = if kernel.engine.is_empty() { "no points" } else { &kernel.engine };
        let over = if kernel.parts > 1 { "of" } else { "over" };
        writeln!(f, "kernel {k}: {} {over} {}, {engine}", kernel.kind, kernel.domain)?;
        // If the device reports the planned traffic, it is written once.
        let moved = |planned: usize, measured: usize| match planned == measured || kernel.launches == 0 {
            true => bytes(planned),
            false => format!("{} predicted, {} moved", bytes(planned), bytes(measured)),
        };
        write!(f, "  reads {}", moved(kernel.bytes_read, kernel.bytes_read_measured))?;
        if !kernel.reads.is_empty() {
            write!(f, " ({})", list(&kernel.reads))?;
        }
        let writes: Vec<String> = kernel.writes.iter().map(|w| format!("%{w}")).collect();
        let written = moved(kernel.bytes_written, kernel.bytes_written_measured);
        write!(f, "\n  writes {written} ({})", list(&writes))?;
        if kernel.in_place > 0 {
            write!(f, ", {} in place", kernel.in_place)?;
        }
        if kernel.launches > 1 {
            write!(f, ", launched {} times", kernel.launches)?;
        }
        f.write_char('\n')?;
        if !kernel.engine.is_empty() {
            writeln!(f, "  {} predicted, {} measured", time(kernel.predicted_ns), time(kernel.measured_ns))?;
        }
        if let Some(r) = kernel.residence {
            let spilled = if r.spilled_bytes > 0 {
                format!(", {} spilled", bytes(r.spilled_bytes as usize))
            } else {
                String::new()
            };
            writeln!(f, "  {} registers{spilled}, {} shared", r.registers, bytes(r.shared_bytes as usize))?;
            let share = r.occupancy * 100.0;
            writeln!(f, "  {} blocks, {} threads a multiprocessor: {share:.0} % of it", r.blocks, r.threads)?;
        }
        for &o in kernel.operations.iter().take(SHOWN) {
            let op = &self.operations[o];
            let mark = if kernel.writes.contains(&o) { "*" } else { " " };
            writeln!(f, "  {mark} %{o:<4} {:<12} {:<24} {}", op.name, op.arguments.join(", "), op.result)?;
        }
        match kernel.operations.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => writeln!(f, "    … and {more} more"),
            _ => Ok(()),
        }
    }
}

/// Writes a list with commas on lines of at most 76 columns, indented by four.
fn wrapped(f: &mut fmt::Formatter<'_>, list: &str) -> fmt::Result {
    let mut column = 0;
    for (n, part) in list.split(", ").enumerate() {
        let width = part.chars().count() + 2;
        if n > 0 && column + width > 76 {
            f.write_str(",\n    ")?;
            column = 0;
        } else if n > 0 {
            f.write_str(", ")?;
        }
        f.write_str(part)?;
        column += width;
    }
    f.write_char('\n')
}

/// Comma-separated names, shortened if there are many.
fn list(names: &[String]) -> String {
    match names.len() {
        0..=8 => names.join(", "),
        n => format!("{}, … {} more", names[..6].join(", "), n - 6),
    }
}
