//! Lowering of operations with the user's own source (`thalweg-cuda/src/render/foreign.rs`).

use crate::kernels::Skeleton;
use crate::kernels::foreign::ForeignClass;
use crate::kernels::plan::{Draft, Plan};
use crate::params::Word;
use crate::target::Target;
use std::sync::Arc;
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
    let mut words = vec![0; class.words()];
    let mut patches = vec![];
    for (o, (&(first, elements), dtype)) in geometry.operands.iter().zip(&source.operands).enumerate() {
        let size = dtype.size();
        patches.push((o, Word::Operand(o as u16, (first * size as isize) as i64)));
        plan.needs.push((o as u16, (first as usize + elements) * size));
        plan.moved.read += (elements * size) as u64;
    }
    let operands = source.operands.len();
    for (r, &bytes) in geometry.results.iter().enumerate() {
        let word = match wanted.iter().position(|&w| w as usize == r) {
            Some(at) => {
                let operand = (operands + at) as u16;
                plan.needs.push((operand, bytes));
                Word::Operand(operand, 0)
            }
            None => {
                plan.scratch.push(bytes.max(64));
                Word::Scratch(plan.scratch.len() as u16 - 1, 0)
            }
        };
        patches.push((operands + r, word));
        plan.moved += Moved { written: bytes as u64, ..Moved::default() };
    }
    let sizes = operands + source.results.len();
    words[sizes..].iter_mut().zip(&geometry.sizes).for_each(|(w, &n)| *w = n as u64);
    let numbers = (0..source.numbers.len()).map(|n| (sizes + source.sizes + n, Word::Scalar(n as u16)));
    patches.extend(numbers);
    let kernel = Arc::new(Skeleton::Foreign(class));
    let block = launch.block.iter().product();
    plan.stages.push(Draft { kernel, grid: launch.grid, block, shared: launch.shared, words, patches });
    Ok(())
}
