//! `thalweg explain` and `thalweg trace`: what is done with a workload, and when.

use crate::failure::{During, Outcome};
use crate::workloads::{self, Size, Workload};
use clap::Args;
use std::path::PathBuf;
use thalweg::{Tensor, explain, trace};

/// Arguments of `thalweg explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// The workload
    workload: String,
    /// Sizes for a processor with a few cores, or for a GPU
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let workload = prepare(&self.workload, self.size)?;
        let (outcome, explanation) = explain(|| {
            let out = workload();
            thalweg::synchronize().map(|()| out)
        });
        if self.json {
            crate::out!("{}", explanation.json());
        }
        if let Some(path) = &self.html {
            std::fs::write(path, explanation.html(&self.workload)).during(path.display())?;
            eprintln!("{}", path.display());
        }
        if !self.json && self.html.is_none() {
            crate::out!("{}", explanation.to_string().trim_end());
        }
        outcome?;
        Ok(())
    }
}

/// Arguments of `thalweg trace`.
#[derive(Args, Debug)]
pub struct Trace {
    /// The workload
    workload: String,
    /// Sizes for a processor with a few cores, or for a GPU
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Where to write the trace, for chrome://tracing or ui.perfetto.dev
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl Trace {
    /// Runs the command: the first call, with planning and compiling, and a few more.
    pub fn run(self) -> Outcome {
        let workload = prepare(&self.workload, self.size)?;
        trace::start();
        let outcome = (0..5).try_for_each(|_| {
            let _out = workload();
            thalweg::synchronize()
        });
        let events = trace::finish();
        outcome?;
        std::fs::write(&self.output, events).during(self.output.display())?;
        eprintln!("{}", self.output.display());
        Ok(())
    }
}

/// What records the workload, its inputs at hand.
fn prepare(name: &str, size: Size) -> Outcome<Box<dyn Fn() -> Vec<Tensor>>> {
    if matches!(name, "cold_start" | "record" | "dyn_shapes" | "example") {
        let x = Tensor::randn([32, 32]);
        let y = Tensor::randn([32, 32]);
        let shapes = if name == "dyn_shapes" { workloads::dyn_shapes_inputs(size)? } else { vec![] };
        thalweg::synchronize()?;
        return Ok(match name {
            "record" => Box::new(move || vec![workloads::chain(&x)]),
            "example" => Box::new(move || vec![(&x + &y) * &x * &y]),
            "dyn_shapes" => Box::new(move || shapes[..2].iter().map(workloads::gelu_custom).collect()),
            _ => Box::new(move || vec![workloads::gelu_custom(&x)]),
        });
    }
    let workload: Workload = workloads::prepare(name, size)?;
    Ok(Box::new(move || workload.record()))
}
