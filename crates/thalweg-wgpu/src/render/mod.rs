//! Code generation: WGSL from kernels.
//!
//! In: a [`Skeleton`]. Out: source text, the same for all sizes of its class. Kernel arguments are a uniform buffer of
//! 64-bit words; the address of an operand is a 32-bit offset in the chunk that the operand's argument names.
//!
//! * `kernel`: a whole source. `statements`, `expressions`, `memory`, `routines`: its parts.
//! * `scans`: scans of rows in registers.
//! * `types`, `elements`, `monoid`: dtypes, elementwise operations, combine operations of folds and scans.
//! * `binding`: the type by which memory is bound. `unrolling`: loops that are written out.
//! * `functions`: the prelude, of which a source has the functions that it calls.
//!
//! A kernel that WGSL cannot express becomes a source that the driver refuses to compile, with the reason.

mod binding;
mod elements;
mod expressions;
pub mod functions;
mod kernel;
mod memory;
mod monoid;
mod routines;
mod scans;
mod scope;
mod statements;
pub mod types;
mod unrolling;

use crate::driver::REFUSED;
use elements::is_native;
use thalweg_gpu::Skeleton;
use thalweg_gpu::ir::Kernel;
use thalweg_gpu::runtime::{Printer, Source};
use thalweg_ir::{DType, ElementOp};

/// Printer of WGSL.
#[derive(Debug)]
pub struct WgslPrinter {
    /// Threads of a subgroup; 1 where subgroups are not used.
    pub subgroup: u32,
}

impl Printer for WgslPrinter {
    fn prelude(&self) -> &'static str {
        ""
    }

    fn source(&self, of: &Skeleton) -> Source {
        let own = program(of).and_then(|kernel| kernel::source(&kernel, self.subgroup));
        let own = own.unwrap_or_else(|why| format!("{REFUSED}{} on wgpu: {why}\n", of.about()));
        Source { options: "", own }
    }

    fn program(&self, of: &Skeleton) -> Option<Kernel> {
        program(of).ok()
    }

    fn is_native(&self, op: ElementOp, dtype: DType) -> bool {
        is_native(op, dtype)
    }

    fn extension(&self) -> &'static str {
        "wgsl"
    }
}

/// Program of a kernel.
///
/// # Errors
/// The reason why there is none, where a kernel is not supported.
fn program(of: &Skeleton) -> Result<Kernel, String> {
    match of {
        Skeleton::TmaGemm(_) | Skeleton::Attention(_) => return Err("it has no tensor cores".into()),
        Skeleton::Foreign(_) => return Err("CUDA C++ does not run there".into()),
        _ => {}
    }
    of.program(&is_native).ok_or_else(|| "there are no such kernels".into())
}
