//! Lowering of operations with the user's own source (`thalweg-cuda/src/render/foreign.rs`).

use crate::kernels::Skeleton;
use crate::kernels::foreign::ForeignClass;
use crate::kernels::foreign::params::ForeignArguments;
use crate::kernels::plan::{Draft, Plan};
use crate::params::RuntimeArgument;
use crate::target::Target;
use thalweg_ir::Foreign;
use thalweg_kernel::{ForeignGeometry, Moved};
use thalweg_runtime::Error;

/// Adds the launch. Results that nothing uses go to scratch memory.
///
/// # Errors
/// [`Error::Compile`] where the chip has less shared memory per block than requested.
pub fn add(
    plan: &mut Plan,
    (of, wanted): (Foreign, &[u16]),
    geometry: &ForeignGeometry,
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
    let mut operands = vec![];
    for (o, (&(first, elements), dtype)) in geometry.operands.iter().zip(&source.operands).enumerate() {
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
    let numbers = (0..source.numbers.len()).map(|n| RuntimeArgument::Scalar(n as u16)).collect();
    let sizes = geometry.sizes.iter().map(|&n| n as usize).collect();
    let arguments = ForeignArguments { operands, results, sizes, numbers };
    let arguments = arguments.fill(&class);
    let block = launch.block.iter().product();
    plan.stages.push(Draft::new(Skeleton::Foreign(class), launch.grid, block, launch.shared, arguments));
    Ok(())
}
