//! `--segment FILE`: plans the segment of a defect report again.
//!
//! Input: a file named by an error of Thalweg. Output: the plan of its segment, or the error; panics are not caught
//! because they are what is looked for.

use std::path::Path;
use std::process::ExitCode;
use thalweg_fusion::{KernelPlan, ScalarClasses, instantiate, plan as search, text};
use thalweg_runtime::Error;

/// Reads a file with a segment, plans the segment, and prints the plan.
pub fn plan(path: &Path) -> Result<ExitCode, Error> {
    let refused = |message: String| Error::File { path: path.display().to_string(), message };
    let text = std::fs::read_to_string(path).map_err(|e| refused(e.to_string()))?;
    let (segment, costs, effort) = text::read(&text).map_err(refused)?;
    let segment = segment.as_segment();
    let planned = match search(segment, &costs, effort) {
        Ok(planned) => planned,
        Err(why) => {
            println!("no plan: {why}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let Some(instance) = instantiate(&planned.plan, segment, &ScalarClasses::new(segment.scalars)) else {
        println!("the plan does not fit the segment that it was made for: {:?}", planned.plan);
        return Ok(ExitCode::FAILURE);
    };
    let (launches, complete) =
        (instance.steps.len(), if planned.complete { "" } else { ", the budget ended the search" });
    println!(
        "{} operations, {launches} launches, {:.1} µs by the model{complete}",
        segment.ops.len(),
        planned.time as f64 / 1e6
    );
    for (n, kernel) in planned.plan.kernels.iter().enumerate() {
        let named = |i: usize| format!("%{i} {}", segment.ops[i].op.name());
        let stores: Vec<String> = kernel.writes().map(named).collect();
        let kind = match kernel {
            KernelPlan::Map { rows: Some(_), .. } => "rows",
            KernelPlan::Map { .. } => "map",
            KernelPlan::Contraction { .. } => "contraction",
            KernelPlan::Opaque { .. } => "by itself",
            KernelPlan::Group { .. } => "together",
        };
        println!("{n}: {kind}, {} operations, stores {}", kernel.ops().count(), stores.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}
