//! Explanations as one self-contained HTML page: the graph of every segment, kernels as colours, bytes on edges.

use super::layout::{SlotCentre, layout};
use super::{Candidate, Explanation, SegmentReport, Totals, bytes, time};
use std::collections::HashSet;
use std::fmt::Write;
use thalweg_kernel::Residence;

/// Maximum number of operations drawn. A longer segment shows its first ones and says so.
const DRAWN: usize = 400;
/// Size of a box, gap between rows, and outer margin, in pixels.
const WIDTH: f64 = 150.0;
const HEIGHT: f64 = 40.0;
const GAP_Y: f64 = 38.0;
const MARGIN: f64 = 20.0;
/// Minimum scale of a graph wider than the page; beyond that it scrolls.
const MIN_SCALE: f64 = 0.65;

const STYLE: &str = "
:root{--ink:#1c2430;--soft:#5d6b7c;--line:#d5dce4;--paper:#fff;--back:#f4f6f8}
*{box-sizing:border-box}body{margin:0;padding:2rem;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back)}
main{max-width:1200px;margin:auto}h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{margin:.3rem 0;color:var(--soft)}section{background:var(--paper);border:1px solid var(--line);border-radius:10px;padding:1rem 1.2rem;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem}th{text-align:left;white-space:nowrap;color:var(--soft);font-weight:600}
td,th{padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.graph{overflow:auto;max-height:75vh;border:1px solid var(--line);border-radius:8px;background:#fbfcfd}
.dot{display:inline-block;width:.8rem;height:.8rem;border-radius:3px;margin-right:.4rem;vertical-align:-1px}
svg text{font:12px ui-monospace,monospace;fill:var(--ink)}svg text.s{font-size:10px;fill:var(--soft)}svg text.b{fill:var(--ink)}
svg{display:block;margin:auto;max-width:100%;height:auto}svg path{fill:none}path.m{stroke:#3d4a5c;stroke-width:2}path.k{stroke:#b6c0cb}
code{font-family:ui-monospace,monospace;font-size:.9em}
.bar{height:.8rem;border-radius:3px;background:#3d7edb}.bar.u{background:#c3ccd6}";

impl Explanation {
    /// Self-contained HTML page.
    pub fn html(&self, title: &str) -> String {
        let mut out = String::new();
        let title = escape(title);
        let (run, unfused) = (self.totals(), self.unfused());
        let _ = write!(
            out,
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>\
             <p>{} segment{}. Each colour is one kernel. Dark lines go through memory, light ones stay in registers; \
             what is stored has a dark border.</p>",
            self.segments.len(),
            if self.segments.len() == 1 { "" } else { "s" }
        );
        overview(&mut out, &run, &unfused);
        for (i, s) in self.segments.iter().enumerate() {
            segment(&mut out, i, s);
        }
        out.push_str("</main></body></html>\n");
        out
    }
}

fn overview(out: &mut String, run: &Totals, unfused: &Totals) {
    out.push_str("<section><table><tr><th></th><th class=n>as run</th><th class=n>one kernel an operation</th><th style=\"width:40%\"></th></tr>");
    let rows = [
        ("kernels", run.kernels, unfused.kernels, false),
        ("bytes read", run.bytes_read, unfused.bytes_read, true),
        ("bytes written", run.bytes_written, unfused.bytes_written, true),
        ("bytes read, as the device says", run.bytes_read_measured, 0, true),
        ("bytes written, as the device says", run.bytes_written_measured, 0, true),
        ("bytes allocated", run.bytes_allocated, unfused.bytes_allocated, true),
        ("peak in use", run.peak, unfused.peak, true),
    ];
    for (name, a, b, is_bytes) in rows {
        // The unfused variant has not run, so it has no measured totals.
        let measured = name.ends_with("says");
        let show = |n: usize| if is_bytes { bytes(n) } else { n.to_string() };
        let share = |n: usize| 100.0 * n as f64 / a.max(b).max(1) as f64;
        let _ = write!(
            out,
            "<tr><td>{name}</td><td class=n>{}</td><td class=n>{}</td><td><div class=bar style=\"width:{:.1}%\"></div>\
             <div class=\"bar u\" style=\"width:{:.1}%\"></div></td></tr>",
            show(a),
            if measured { String::new() } else { show(b) },
            share(a),
            share(b)
        );
    }
    out.push_str("</table></section>");
}

fn segment(out: &mut String, number: usize, s: &SegmentReport) {
    let plan = if s.plan_made { "the plan was made for it" } else { "its plan was there already" };
    let _ = write!(out, "<h2>Segment {number}</h2><p>{} operations; {plan}.</p>", s.operations.len());
    if let Some(reason) = s.rerun {
        let _ = write!(out, "<p>Run once more, {reason}.</p>");
    }
    if let Some(error) = &s.error {
        let _ = write!(out, "<p>It failed: {}</p>", escape(error));
    }
    for r in &s.rewrites {
        let at: String = r.operations.iter().map(|i| format!(" <code>%{i}</code>")).collect();
        let _ = write!(out, "<p>Rewritten: {}:{at}.</p>", escape(&r.what));
    }
    out.push_str("<section><div class=graph>");
    graph(out, s);
    out.push_str("</div>");
    if s.operations.len() > DRAWN {
        let _ = write!(out, "<p>The first {DRAWN} operations are drawn.</p>");
    }
    out.push_str("</section><section><table><tr><th>kernel</th><th>over</th><th class=n>operations</th><th class=n>read: predicted</th><th class=n>moved</th><th class=n>written: predicted</th><th class=n>moved</th><th class=n>allocated</th><th class=n>predicted</th><th class=n>measured</th><th>run by</th></tr>");
    for (k, kernel) in s.kernels.iter().enumerate() {
        let _ = write!(
            out,
            "<tr><td><span class=dot style=\"background:{}\"></span>{k} {}</td><td><code>{}</code></td><td class=n>{}</td><td class=n>{}</td>\
             <td class=n>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{}{}</td><td class=n>{}</td><td class=n>{}</td><td>{}</td></tr>",
            colour(k),
            kernel.kind,
            kernel.domain,
            kernel.operations.len(),
            bytes(kernel.bytes_read),
            bytes(kernel.bytes_read_measured),
            bytes(kernel.bytes_written),
            bytes(kernel.bytes_written_measured),
            bytes(kernel.bytes_allocated),
            if kernel.in_place > 0 { " (in place)" } else { "" },
            time(kernel.predicted_ns),
            time(kernel.measured_ns),
            escape(&kernel.engine) + &kernel.residence.map(residence).unwrap_or_default()
        );
    }
    out.push_str("</table></section>");
    autotuning(out, &s.autotuning);
    deferred(out, s);
    saved_values(out, s);
    if !s.edges.is_empty() {
        out.push_str("<section><table><tr><th>not fused</th><th>kernels</th><th class=n>bytes</th><th>why</th></tr>");
        for e in &s.edges {
            let _ = write!(
                out,
                "<tr><td><code>%{} {}</code></td><td>{} → {}</td><td class=n>{}</td><td>{}</td></tr>",
                e.operation,
                s.operations[e.operation].name,
                e.from,
                e.to,
                bytes(e.bytes),
                escape(&e.reason)
            );
        }
        out.push_str("</table></section>");
    }
}

/// Writes the table of the plans that competed, if any.
fn autotuning(out: &mut String, candidates: &[Candidate]) {
    if candidates.is_empty() {
        return;
    }
    out.push_str("<section><table><tr><th>measured against each other</th><th class=n>predicted</th><th class=n>measured</th><th class=n>runs</th><th class=n>spills</th><th></th></tr>");
    for (n, e) in candidates.iter().enumerate() {
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{}</td><td>{}</td></tr>",
            e.name(n),
            time(e.predicted_ns),
            if e.runs > 0 { time(e.measured_ns) } else { String::new() },
            e.runs,
            e.spills.map_or(String::new(), |s| s.to_string()),
            if e.chosen { "chosen" } else { "" }
        );
    }
    out.push_str("</table></section>");
}

/// Writes the deferred results, if any.
fn deferred(out: &mut String, s: &SegmentReport) {
    if s.deferred.is_empty() {
        return;
    }
    out.push_str("<section><p>Not written, as nobody read them before; computed again if somebody asks:</p><p>");
    for &i in &s.deferred {
        let op = &s.operations[i];
        let _ = write!(out, "<code>%{i} {} {}</code> ", op.name, escape(&op.result));
    }
    out.push_str("</p></section>");
}

/// Writes the results that only a tape holds, if any.
fn saved_values(out: &mut String, s: &SegmentReport) {
    if !s.recomputed.is_empty() {
        let n = s.recomputed.len();
        let _ = write!(
            out,
            "<section><p>{n} operations recorded again, for results that an earlier segment left.</p></section>"
        );
    }
    if s.saved.is_empty() {
        return;
    }
    out.push_str("<section><table><tr><th>for the backward pass</th><th></th><th class=n>bytes</th><th class=n>µs to keep</th><th class=n>µs to compute again</th></tr>");
    for k in &s.saved {
        let op = &s.operations[k.operation];
        let _ = write!(
            out,
            "<tr><td><code>%{} {} {}</code></td><td>{}</td><td class=n>{}</td><td class=n>{:.1}</td><td class=n>{:.1}</td></tr>",
            k.operation,
            op.name,
            escape(&op.result),
            if k.written { "written" } else { "left" },
            bytes(k.bytes),
            k.saving_ns as f64 / 1e3,
            k.recompute_ns as f64 / 1e3
        );
    }
    out.push_str("</table></section>");
}

/// Writes the graph as SVG: inputs and operations as boxes, arguments as lines.
fn graph(out: &mut String, s: &SegmentReport) {
    let inputs = s.inputs.len();
    let shown = s.operations.len().min(DRAWN);
    let mut arguments: Vec<Vec<usize>> = vec![vec![]; inputs];
    for op in &s.operations[..shown] {
        let node = |a: &String| match (a.strip_prefix('%'), a.strip_prefix("in")) {
            (Some(n), _) => n.parse::<usize>().ok().map(|n| inputs + n),
            (_, Some(n)) => n.parse::<usize>().ok(),
            _ => None,
        };
        arguments.push(op.arguments.iter().filter_map(node).collect());
    }
    let layout = layout(&arguments, WIDTH);
    let (w, h) = (2.0 * MARGIN + layout.width, 2.0 * MARGIN + layout.layers as f64 * (HEIGHT + GAP_Y) - GAP_Y);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.0} {h:.0}\" style=\"min-width:{:.0}px\" role=\"img\">",
        w * MIN_SCALE
    );
    let mut labels = String::new();
    // All readers of a value read the same bytes: the label is drawn once, below its box, where no other label is near.
    let mut told = HashSet::new();
    for (i, args) in arguments.iter().enumerate() {
        for (&a, way) in args.iter().zip(&layout.ways[i]) {
            let through = crossing(s, inputs, a, i);
            let path = line(layout.nodes[a], way, layout.nodes[i]);
            let class = if through.is_some() { "m" } else { "k" };
            let _ = write!(out, "<path class={class} d=\"{path}\"/>");
            let Some(n) = through.filter(|&n| n > 0) else { continue };
            if told.insert(a) {
                let p = layout.nodes[a];
                label(&mut labels, (MARGIN + p.x, top(p.layer) + HEIGHT), &short(n));
            }
        }
    }
    let at = |i: usize| {
        let p = layout.nodes[i];
        (MARGIN + p.x - WIDTH / 2.0, top(p.layer))
    };
    for (i, text) in s.inputs.iter().enumerate() {
        node(out, at(i), "#fff", "#8a97a6", &format!("in{i}"), text, "4 3");
    }
    for (i, op) in s.operations[..shown].iter().enumerate() {
        let fill = op.kernels.first().map_or("#fff".to_string(), |&k| colour(k));
        let stored = op.live || s.kernels.iter().any(|k| k.writes.contains(&i));
        let stroke = if stored { "#1c2430" } else { "none" };
        let name = if op.kernels.len() > 1 {
            format!("%{i} {} ×{}", op.name, op.kernels.len())
        } else {
            format!("%{i} {}", op.name)
        };
        node(out, at(inputs + i), &fill, stroke, &name, &op.result, "none");
    }
    out.push_str(&labels);
    out.push_str("</svg>");
}

/// Vertical position of the boxes of a row.
fn top(layer: usize) -> f64 {
    MARGIN + layer as f64 * (HEIGHT + GAP_Y)
}

/// Writes a line from box to box through the points between them.
fn line(from: SlotCentre, way: &[SlotCentre], to: SlotCentre) -> String {
    let x = |p: SlotCentre| MARGIN + p.x;
    let mut at = (x(from), top(from.layer) + HEIGHT);
    let mut path = format!("M{:.1} {:.1}", at.0, at.1);
    for (n, &next) in way.iter().chain([&to]).enumerate() {
        let end = (x(next), top(next.layer));
        let middle = at.1.midpoint(end.1);
        let _ = write!(path, "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}", at.0, end.0, end.0, end.1);
        at = (end.0, end.1 + HEIGHT);
        if n < way.len() {
            let _ = write!(path, "L{:.1} {:.1}", at.0, at.1);
        }
    }
    path
}

/// Writes a label below a box, with a background that hides the lines behind it.
fn label(out: &mut String, (x, y): (f64, f64), text: &str) {
    let width = 6.4 * text.len() as f64 + 4.0;
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"13\" rx=\"3\" fill=\"#fbfcfd\"/>\
         <text class=\"s b\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
        x - width / 2.0,
        y + 5.0,
        y + 15.0
    );
}

/// Bytes of node `a` if node `i` reads it through memory; 0 for inputs.
fn crossing(s: &SegmentReport, inputs: usize, a: usize, i: usize) -> Option<usize> {
    let reader = &s.operations[i.checked_sub(inputs)?];
    match a.checked_sub(inputs) {
        None => Some(0),
        Some(a) => {
            let apart = |e: &&super::EdgeReport| e.operation == a && reader.kernels.contains(&e.to);
            s.edges.iter().find(apart).map(|e| e.bytes)
        }
    }
}

fn node(out: &mut String, (x, y): (f64, f64), fill: &str, stroke: &str, name: &str, detail: &str, dash: &str) {
    let _ = write!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\" stroke-dasharray=\"{dash}\"/>\
         <text x=\"{:.1}\" y=\"{}\">{}</text><text class=s x=\"{:.1}\" y=\"{}\">{}</text>",
        x + 8.0,
        y + 17.0,
        escape(name),
        x + 8.0,
        y + 32.0,
        escape(detail)
    );
}

/// Colour of a kernel: hues a golden angle apart, so that neighbours differ.
fn colour(k: usize) -> String {
    format!("hsl({} 65% 82%)", (k * 137 + 205) % 360)
}

/// Short form of a number of bytes: `8.0 KiB`. The table has the exact number.
fn short(n: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (n.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
    match unit {
        0 => format!("{n} B"),
        _ => format!("{:.1} {}", n as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit]),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Description of the GPU resources that a kernel uses, shown below its name.
fn residence(r: Residence) -> String {
    let spilled =
        if r.spilled_bytes > 0 { format!(", {} spilled", bytes(r.spilled_bytes as usize)) } else { String::new() };
    let shared = bytes(r.shared_bytes as usize);
    let share = r.occupancy * 100.0;
    format!(
        "<br>{} registers{spilled}, {shared} shared, {} threads a multiprocessor ({share:.0} %)",
        r.registers, r.threads
    )
}
