//! Shared parts of the examples: a progress line, and learning curves as a picture.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg::Device;

/// Progress line of a training run: loss, samples per second, memory.
pub struct Progress {
    bar: ProgressBar,
    begin: Instant,
    samples: usize,
}

impl Progress {
    /// Makes a line for `steps` steps.
    pub fn new(name: &str, steps: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {msg} {eta}");
        bar.set_style(style.expect("a template as indicatif writes them"));
        bar.set_prefix(name.to_string());
        Progress { bar, begin: Instant::now(), samples: 0 }
    }

    /// Reports a finished step of `samples` samples.
    pub fn step(&mut self, loss: f32, samples: usize) {
        self.samples += samples;
        let rate = self.samples as f64 / self.begin.elapsed().as_secs_f64();
        let memory = Device::default().memory().in_use as f64 / 1e6;
        self.bar.set_message(format!("loss {loss:.3}, {rate:.0} samples/s, {memory:.1} MB,"));
        self.bar.inc(1);
    }

    /// Removes the line and returns the elapsed time.
    pub fn finish(self) -> Duration {
        self.bar.finish_and_clear();
        self.begin.elapsed()
    }
}

/// Writes curves over steps as an SVG picture, each with its colour and name.
pub fn write_curves(path: &Path, title: &str, curves: &[(&str, &[f32])]) -> std::io::Result<()> {
    const COLOURS: [&str; 4] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"];
    let (width, height, edge) = (720.0, 400.0, 50.0);
    let all = || curves.iter().flat_map(|(_, values)| values.iter().copied()).filter(|v| v.is_finite());
    let most = all().fold(0f32, f32::max).max(1e-6) as f64;
    let steps = curves.iter().map(|(_, values)| values.len()).max().unwrap_or(0).max(2) as f64;
    let x = |step: usize| edge + step as f64 / (steps - 1.0) * (width - 2.0 * edge);
    let y = |value: f64| height - edge - value.min(most) / most * (height - 2.0 * edge);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"25\" text-anchor=\"middle\" font-size=\"16\">{title}</text>\n",
        width / 2.0
    );
    for tick in 0..=4 {
        let value = most * tick as f64 / 4.0;
        let at = y(value);
        let _ = write!(
            svg,
            "<path d=\"M{edge} {at:.1}H{}\" stroke=\"#ddd\"/>\n<text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{value:.2}</text>\n",
            width - edge,
            edge - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step (of {})</text>",
        width / 2.0,
        height - 15.0,
        steps
    );
    for (i, (name, values)) in curves.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points = values.iter().enumerate().filter(|(_, v)| v.is_finite());
        let points: Vec<String> = points.map(|(step, &v)| format!("{:.1},{:.1}", x(step), y(v as f64))).collect();
        let _ = writeln!(svg, "<polyline fill=\"none\" stroke=\"{colour}\" points=\"{}\"/>", points.join(" "));
        let line = edge + 20.0 + 18.0 * i as f64;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{line}\" fill=\"{colour}\">{name}</text>", width - edge - 150.0);
    }
    svg.push_str("</svg>\n");
    std::fs::write(path, svg)
}
