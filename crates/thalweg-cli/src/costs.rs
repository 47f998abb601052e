//! Table of the planner's cost constants.

use crate::report;
use std::time::Instant;
use thalweg::{Costs, Device};

/// Calibrates the device if asked to, and prints the constants in use.
pub fn show(device: Device, calibrate: bool) -> crate::failure::Outcome {
    if calibrate {
        let begin = Instant::now();
        device.compile_samples()?;
        let compiled = begin.elapsed();
        device.set_costs(device.calibrate()?);
        let kept = if device.save_costs() { "kept for later processes" } else { "not kept: the disk cache is off" };
        let [compiled, all] = [compiled, begin.elapsed()].map(|t| t.as_secs_f64() * 1e3);
        crate::out!("calibration   {:.0} ms, behind {compiled:.0} to compile the samples; {kept}", all - compiled);
    }
    let costs = device.costs();
    let typical = Costs { threads: costs.threads, ..(*device.typical_costs()).clone() };
    let corrected = costs.corrections.iter().count();
    let from = match costs.uncorrected() == typical {
        false => "measured",
        true if device.name().starts_with("cuda") => "what a chip of that size should give (--calibrate measures)",
        true => "typical (--calibrate measures)",
    };
    crate::out!("costs         {from}; {:016x}", costs.id());
    if corrected > 0 {
        crate::out!("              {corrected} classes of kernels corrected by what they took");
    }
    let all = if costs.threads == 1 { String::new() } else { format!("all {} threads", costs.threads) };
    crate::out!("  {:<10} {:>12} {:>12}   {:>12} {:>12}", "in use", "read", "write", all, "");
    for l in &costs.levels {
        let rate = |ns: f64| report::rate(1e9 / ns);
        let both =
            if costs.threads == 1 { [String::new(), String::new()] } else { [l.read_all, l.write_all].map(rate) };
        let [read_all, write_all] = both;
        let size = format!("{} KiB", l.footprint >> 10);
        crate::out!("  {size:<10} {:>12} {:>12}   {read_all:>12} {write_all:>12}", rate(l.read), rate(l.write));
    }
    for row in numbers(&costs).chunks(3) {
        let cells: Vec<String> = row.iter().map(|(name, ns)| format!("{name:<15} {:>7}", short(*ns))).collect();
        crate::out!("  {}", cells.join("  ").trim_end());
    }
    crate::out!("  in nanoseconds: a launch, a wake …; an element of f32 the rest");
    Ok(())
}

fn numbers(c: &Costs) -> Vec<(&'static str, f64)> {
    vec![
        ("launch", c.launch),
        ("box more", c.boxed),
        ("wake a thread", c.wake),
        ("call", c.call),
        ("stretch", c.run),
        ("one more thread", c.parallel),
        ("strip across", c.strip),
        ("row", c.row),
        ("fold's end", c.row_fold),
        ("add once a row", c.once),
        ("add", c.simple),
        ("divide, root", c.divide),
        ("convert", c.convert),
        ("function, an add", c.special),
        ("in f64", c.special_wide),
        ("no vector form", c.slow),
        ("fold along", c.fold),
        ("fold across", c.fold_across),
        ("running sum", c.scan),
        ("sort", c.sort),
        ("scatter", c.scattered),
        ("spill", c.spill),
        ("transposed", c.transposed),
        ("… 1 KiB apart", c.conflicting),
        ("strided", c.strided),
        ("by a table", c.mapped),
        ("… of neighbours", c.close),
        ("gather", c.gathered),
        ("product", c.product),
        ("multiply f32", c.multiply[0]),
        ("multiply f64", c.multiply[1]),
        ("multiply bf16", c.multiply[2]),
        ("multiply f16", c.multiply[3]),
        ("multiply i8", c.multiply[4]),
        ("multiply i32", c.multiply[5]),
        ("multiply TF32", c.multiply[6]),
        ("overlap", c.overlap),
        ("read again", c.again),
    ]
}

/// Formats a cost constant with about three significant digits; below a picosecond in scientific notation.
fn short(ns: f64) -> String {
    match ns {
        v if v > 0.0 && v < 1e-3 => format!("{v:.1e}"),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}
