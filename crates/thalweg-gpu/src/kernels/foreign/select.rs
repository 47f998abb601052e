//! Lowering of operations with the user's own source (`thalweg-cuda/src/render/foreign.rs`), and of a library's
//! convolutions.

use crate::kernels::Skeleton;
use crate::kernels::foreign::ForeignClass;
use crate::kernels::foreign::params::{ConvolutionArguments, ForeignArguments};
use crate::kernels::plan::{Draft, Plan};
use crate::params::RuntimeArgument;
use crate::target::Target;
use thalweg_ir::{Convolution, ConvolutionRoutine, Foreign, ForeignCode};
use thalweg_kernel::{ForeignGeometry, Moved};
use thalweg_runtime::Error;

/// Adds the launch. Results that nothing uses go to scratch memory.
///
/// # Errors
/// [`Error::Compile`] where the chip has less shared memory per block than requested, or no library computes the
/// convolution.
pub fn add(
    plan: &mut Plan,
    (of, wanted): (Foreign, &[u16]),
    geometry: &ForeignGeometry,
    target: &dyn Target,
) -> Result<(), Error> {
    let (operands, results) = addresses(plan, of, wanted, geometry);
    match of.source().code {
        ForeignCode::Cuda { .. } => add_source(plan, of, geometry, (operands, results), target),
        ForeignCode::Convolution(routine) => add_routine(plan, (of, routine), geometry, (operands, results), target),
    }
}

/// Addresses of all operands, and of all results. Adds what a call needs and moves.
fn addresses(
    plan: &mut Plan,
    of: Foreign,
    wanted: &[u16],
    geometry: &ForeignGeometry,
) -> (Vec<RuntimeArgument>, Vec<RuntimeArgument>) {
    let mut operands = vec![];
    for (o, (&(first, elements), dtype)) in geometry.operands.iter().zip(&of.source().operands).enumerate() {
        let size = dtype.size();
        operands.push(RuntimeArgument::Operand(o as u16, (first * size as isize) as i64));
        plan.needs.push((o as u16, (first as usize + elements) * size));
        plan.moved.read += (elements * size) as u64;
    }
    let mut results = vec![];
    for (r, &bytes) in geometry.results.iter().enumerate() {
        results.push(match wanted.iter().position(|&w| w as usize == r) {
            Some(at) => {
                let operand = (operands.len() + at) as u16;
                plan.needs.push((operand, bytes));
                RuntimeArgument::Operand(operand, 0)
            }
            None => {
                plan.scratch.push(bytes.max(64));
                RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0)
            }
        });
        plan.moved += Moved { written: bytes as u64, ..Moved::default() };
    }
    (operands, results)
}

/// Adds the launch of the user's source.
fn add_source(
    plan: &mut Plan,
    of: Foreign,
    geometry: &ForeignGeometry,
    (operands, results): (Vec<RuntimeArgument>, Vec<RuntimeArgument>),
    target: &dyn Target,
) -> Result<(), Error> {
    let (source, launch) = (of.source(), geometry.launch);
    let most = target.chip().shared;
    if launch.shared > most {
        let name = &source.name;
        let message = format!("{name} asks for {} bytes of shared memory a block, which has {most}", launch.shared);
        return Err(Error::Compile { device: target.device().into(), message });
    }
    let class = ForeignClass { of, block: launch.block };
    let numbers = (0..source.numbers.len()).map(|n| RuntimeArgument::Scalar(n as u16)).collect();
    let sizes = geometry.sizes.iter().map(|&n| n as usize).collect();
    let arguments = ForeignArguments { operands, results, sizes, numbers };
    let arguments = arguments.fill(&class);
    let block = launch.block.iter().product();
    plan.stages.push(Draft::new(Skeleton::Foreign(class), launch.grid, block, launch.shared, arguments));
    Ok(())
}

/// Adds the launch of a library's convolution.
fn add_routine(
    plan: &mut Plan,
    (of, routine): (Foreign, ConvolutionRoutine),
    geometry: &ForeignGeometry,
    (operands, results): (Vec<RuntimeArgument>, Vec<RuntimeArgument>),
    target: &dyn Target,
) -> Result<(), Error> {
    let source = of.source();
    let convolution = Convolution::from_ints(routine, source.results[0], &geometry.sizes);
    let Some(workspace) = target.convolution(&convolution) else {
        let message = format!("{}: no library of the device computes {convolution:?}", source.name);
        return Err(Error::Compile { device: target.device().into(), message });
    };
    plan.scratch.extend((workspace > 0).then_some(workspace));
    let arguments = ConvolutionArguments {
        first: operands[0],
        second: operands[1],
        result: results[0],
        workspace: (workspace > 0).then(|| RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0)),
    };
    plan.stages.push(Draft::new(Skeleton::Convolution(Box::new(convolution)), [1; 3], 1, 0, arguments.fill()));
    Ok(())
}
