//! In place of the crate of this name: what cubecl-cuda names of its LLVM backend, with no LLVM behind it.
//!
//! cubecl-cuda is built with the feature `cpp`, so that every kernel goes through C++ and NVRTC and nothing here is ever
//! called. What is called all the same says so.

use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_runtime::compiler::{CompilationError, Compiler};
use cubecl_runtime::kernel::BufferIOAttr;
use std::ffi::c_char;
use std::fmt;

const NOT_BUILT: &str = "this program was built without cubecl's LLVM backend: kernels go through C++ and NVRTC";

/// What is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA's PTX.
    Nvptx,
}

/// The compiler.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// For what.
    pub target: LlvmTarget,
}

/// What a kernel is compiled with.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// Of other targets.
    pub arch: Option<()>,
    /// The chip.
    pub sm_arch: Option<SmArch>,
    /// The version of PTX.
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// Whether arguments are constants of the grid.
    pub grid_constants: bool,
    /// Of other targets.
    pub others: (),
}

/// A compiled kernel for CUDA.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// Its text.
    pub ptx: Vec<c_char>,
    /// The text it was made from.
    pub ir: String,
    /// Bytes of shared memory.
    pub shared_memory_size: usize,
    /// What it does with each buffer.
    pub io: Vec<BufferIOAttr>,
}

/// A compiled kernel.
pub enum PlironArtifact {
    /// For CUDA.
    NvptxCode(NvptxModule),
    /// For others.
    Other,
}

impl fmt::Display for PlironArtifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NOT_BUILT)
    }
}

impl Compiler for PlironCompiler {
    type Representation = PlironArtifact;
    type CompilationOptions = PlironOptions;

    fn compile(&mut self, _: KernelDefinition, _: &PlironOptions) -> Result<PlironArtifact, CompilationError> {
        panic!("{NOT_BUILT}")
    }

    fn extension(&self) -> &'static str {
        "ll"
    }

    fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}

/// Of NVIDIA's PTX.
pub mod nvptx {
    /// Its versions.
    pub mod ptx_version {
        /// A version, which nothing asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct PtxVersion(());

        impl PtxVersion {
            /// None: nothing is compiled to PTX here.
            pub fn for_driver(_: i32) -> Option<PtxVersion> {
                None
            }
        }

        impl std::fmt::Display for PtxVersion {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("none")
            }
        }
    }
}

/// Of all targets.
pub mod shared {
    /// What is taken away from a device that compiles by LLVM.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// The kind of device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA's.
            Nvptx,
        }

        /// Nothing compiles by LLVM here.
        pub fn restrict_features(_: &mut DeviceProperties, _: GpuTarget) {
            panic!("{}", crate::NOT_BUILT)
        }
    }
}
