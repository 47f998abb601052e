//! Explanations as one self-contained HTML page: the graph of every segment, kernels as colours, bytes on edges.

use super::layout::places;
use super::{Explanation, SegmentReport, Totals, bytes};
use std::fmt::Write;

/// Operations drawn; a longer segment shows its first ones and says so.
const DRAWN: usize = 400;
/// Size of a box, and the space between boxes, in pixels.
const WIDTH: usize = 150;
const HEIGHT: usize = 40;
const GAP_X: usize = 18;
const GAP_Y: usize = 34;

const STYLE: &str = "
:root{--ink:#1c2430;--soft:#5d6b7c;--line:#d5dce4;--paper:#fff;--back:#f4f6f8}
*{box-sizing:border-box}body{margin:0;padding:2rem;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back)}
main{max-width:1200px;margin:auto}h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{margin:.3rem 0;color:var(--soft)}section{background:var(--paper);border:1px solid var(--line);border-radius:10px;padding:1rem 1.2rem;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem}th{text-align:left;color:var(--soft);font-weight:600}
td,th{padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.graph{overflow:auto;max-height:75vh;border:1px solid var(--line);border-radius:8px;background:#fbfcfd}
.dot{display:inline-block;width:.8rem;height:.8rem;border-radius:3px;margin-right:.4rem;vertical-align:-1px}
svg text{font:12px ui-monospace,monospace;fill:var(--ink)}svg text.s{font-size:10px;fill:var(--soft)}code{font-family:ui-monospace,monospace;font-size:.9em}
.bar{height:.8rem;border-radius:3px;background:#3d7edb}.bar.u{background:#c3ccd6}";

impl Explanation {
    /// A page that needs nothing but a browser.
    pub fn html(&self, title: &str) -> String {
        let mut out = String::new();
        let title = escape(title);
        let (run, unfused) = (self.totals(), self.unfused());
        let _ = write!(
            out,
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>\
             <p>{} segment{}. Each colour is one kernel; what lies inside a colour never touches memory.</p>",
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
        ("bytes allocated", run.bytes_allocated, unfused.bytes_allocated, true),
    ];
    for (name, a, b, is_bytes) in rows {
        let show = |n: usize| if is_bytes { bytes(n) } else { n.to_string() };
        let share = |n: usize| 100.0 * n as f64 / a.max(b).max(1) as f64;
        let _ = write!(
            out,
            "<tr><td>{name}</td><td class=n>{}</td><td class=n>{}</td><td><div class=bar style=\"width:{:.1}%\"></div>\
             <div class=\"bar u\" style=\"width:{:.1}%\"></div></td></tr>",
            show(a),
            show(b),
            share(a),
            share(b)
        );
    }
    out.push_str("</table></section>");
}

fn segment(out: &mut String, number: usize, s: &SegmentReport) {
    let plan = if s.plan_made { "the plan was made for it" } else { "its plan was there already" };
    let _ = write!(out, "<h2>Segment {number}</h2><p>{} operations; {plan}.</p>", s.operations.len());
    if let Some(error) = &s.error {
        let _ = write!(out, "<p>It failed: {}</p>", escape(error));
    }
    out.push_str("<section><div class=graph>");
    graph(out, s);
    out.push_str("</div>");
    if s.operations.len() > DRAWN {
        let _ = write!(out, "<p>The first {DRAWN} operations are drawn.</p>");
    }
    out.push_str("</section><section><table><tr><th>kernel</th><th>over</th><th class=n>operations</th><th class=n>read</th><th class=n>written</th><th class=n>allocated</th><th>run by</th></tr>");
    for (k, kernel) in s.kernels.iter().enumerate() {
        let _ = write!(
            out,
            "<tr><td><span class=dot style=\"background:{}\"></span>{k} {}</td><td><code>{}</code></td><td class=n>{}</td><td class=n>{}</td>\
             <td class=n>{}</td><td class=n>{}{}</td><td>{}</td></tr>",
            colour(k),
            kernel.kind,
            kernel.domain,
            kernel.operations.len(),
            bytes(kernel.bytes_read),
            bytes(kernel.bytes_written),
            bytes(kernel.bytes_allocated),
            if kernel.in_place > 0 { " (in place)" } else { "" },
            escape(&kernel.engine)
        );
    }
    out.push_str("</table></section>");
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

/// Inputs and operations as boxes, arguments as lines.
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
    let places = places(&arguments);
    let widest = places.iter().map(|p| p.slot + 1).max().unwrap_or(1);
    let depth = places.iter().map(|p| p.layer + 1).max().unwrap_or(1);
    let mut row_width = vec![0; depth];
    for p in &places {
        row_width[p.layer] = row_width[p.layer].max(p.slot + 1);
    }
    let at = |i: usize| {
        let p = places[i];
        let indent = (widest - row_width[p.layer]) * (WIDTH + GAP_X) / 2;
        (20 + indent + p.slot * (WIDTH + GAP_X), 20 + p.layer * (HEIGHT + GAP_Y))
    };
    let (w, h) = (40 + widest * (WIDTH + GAP_X), 40 + depth * (HEIGHT + GAP_Y));
    let _ = write!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" role=\"img\">");
    for (i, args) in arguments.iter().enumerate() {
        for &a in args {
            let through = crossing(s, inputs, a, i);
            let (x0, y0) = at(a);
            let (x1, y1) = at(i);
            let (x0, y0, x1) = (x0 + WIDTH / 2, y0 + HEIGHT, x1 + WIDTH / 2);
            let (stroke, width) = if through.is_some() { ("#3d4a5c", "2") } else { ("#b6c0cb", "1") };
            let middle = y0.midpoint(y1);
            let _ = write!(
                out,
                "<path d=\"M{x0} {y0}C{x0} {middle} {x1} {middle} {x1} {y1}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>"
            );
            if let Some(n) = through.filter(|n| *n > 0) {
                let _ = write!(
                    out,
                    "<text class=s x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    x0.midpoint(x1),
                    middle,
                    bytes(n)
                );
            }
        }
    }
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
    out.push_str("</svg>");
}

/// The bytes that go from node `a` to node `i` through memory, if they do.
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

fn node(out: &mut String, (x, y): (usize, usize), fill: &str, stroke: &str, name: &str, detail: &str, dash: &str) {
    let _ = write!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\" stroke-dasharray=\"{dash}\"/>\
         <text x=\"{}\" y=\"{}\">{}</text><text class=s x=\"{}\" y=\"{}\">{}</text>",
        x + 8,
        y + 17,
        escape(name),
        x + 8,
        y + 32,
        escape(detail)
    );
}

/// A colour for each kernel: hues a golden angle apart, so that neighbours differ.
fn colour(k: usize) -> String {
    format!("hsl({} 65% 82%)", (k * 137 + 205) % 360)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
