//! Code generation: CUDA C++ from kernels.
//!
//! In: a [`Skeleton`]. Out: source text, the same for all sizes of its class. Sizes, addresses and scalars are kernel
//! arguments, words of the one parameter.
//!
//! * `print`: programs of `thalweg-gpu`, which nearly all kernels are.
//! * `types`, `elements`, `monoid`: dtypes, elementwise operations, combine operations of folds and scans. `warpgroup`:
//!   `wgmma`.
//! * `generic`: an interpreter of bytecode. `foreign`: the user's own sources.
//! * `joined`: grouped launches.
//! * `tidy`: formatting.

pub mod elements;
pub mod foreign;
pub mod generic;
pub mod joined;
mod monoid;
pub mod print;
mod tidy;
pub mod types;
mod warpgroup;

use crate::prelude::PRELUDE;
use elements::is_native;
use thalweg_gpu::Skeleton;
use thalweg_gpu::ir::{Kernel, verify};
use thalweg_gpu::kernels::sort::SortPass;
use thalweg_gpu::runtime::{Printer, Source};
use thalweg_ir::{DType, ElementOp};
use tidy::tidy;

/// First line of a source: the compiler options. Exact kernels are compiled without contraction to FMA.
fn options(of: &Skeleton) -> &'static str {
    match (of.has_warpgroups(), of.is_exact()) {
        (false, false) => "// options:\n",
        (false, true) => "// options: -fmad=false\n",
        (true, false) => "// options: --gpu-architecture=sm_90a\n",
        (true, true) => "// options: --gpu-architecture=sm_90a -fmad=false\n",
    }
}

/// Device functions of row kernels with scans in registers.
pub const SCANNED: &str = concat!(include_str!("told.cuh"), include_str!("scanned.cuh"));
/// Device functions of contractions.
pub const CONTRACTIONS: &str = include_str!("contraction.cuh");
/// Device functions of contractions whose operands are copied by tensor maps (TMA).
pub const TMA_CONTRACTIONS: &str = concat!(include_str!("contraction.cuh"), include_str!("mapped.cuh"));
/// Device functions for exchange between blocks of a launch.
pub const EXCHANGE: &str = include_str!("told.cuh");
/// Device functions of row kernels whose blocks hold a segment of each row.
pub const BY_BLOCKS: &str = concat!(include_str!("told.cuh"), include_str!("by_blocks.cuh"));
/// Device functions of row kernels with online passes.
pub const ONLINE: &str = include_str!("online.cuh");

/// Printer of CUDA C++.
#[derive(Debug)]
pub struct CudaPrinter;

impl Printer for CudaPrinter {
    fn prelude(&self) -> &'static str {
        PRELUDE
    }

    fn source(&self, of: &Skeleton) -> Source {
        source(of)
    }

    fn program(&self, of: &Skeleton) -> Option<Kernel> {
        program(of)
    }

    fn is_native(&self, op: ElementOp, dtype: DType) -> bool {
        is_native(op, dtype)
    }

    fn extension(&self) -> &'static str {
        "cu"
    }
}

/// Source of a kernel, with its compiler options. A grouped launch is assembled from the sources of its components.
///
/// # Panics
/// For a library's GEMM, which has no source.
pub fn source(of: &Skeleton) -> Source {
    let own = match program(of) {
        Some(kernel) => print::kernel(&kernel),
        None => text(of),
    };
    if let Skeleton::Group(_) = of {
        return Source { options: options(of), own };
    }
    // The user's own lines and hand-written sources are not reformatted.
    let as_is = matches!(of, Skeleton::Foreign(_) | Skeleton::Generic(_));
    let own = if as_is { own } else { tidy(own.trim_start()) };
    Source { options: options(of), own: format!("{}\n// {}\n{own}", before(of), of.about()) }
}

/// Program (GPU IR) of a kernel; `None` for kernels with hand-written CUDA C++. It is verified wherever programs are
/// tested.
///
/// # Panics
/// When the program is invalid.
pub fn program(of: &Skeleton) -> Option<Kernel> {
    let kernel = of.program(&is_native)?;
    if cfg!(any(debug_assertions, feature = "emulate"))
        && let Err(what) = verify(&kernel)
    {
        panic!("{what}\n{kernel}");
    }
    Some(kernel)
}

/// Source of a kernel that has hand-written CUDA C++ instead of a program.
fn text(of: &Skeleton) -> String {
    match of {
        Skeleton::Map(..)
        | Skeleton::Rows(..)
        | Skeleton::Scatter(_)
        | Skeleton::Histogram(..)
        | Skeleton::Scan(_)
        | Skeleton::Sort(_)
        | Skeleton::Combine(_)
        | Skeleton::Gemm(_)
        | Skeleton::TmaGemm(_)
        | Skeleton::Attention(_)
        | Skeleton::IndexSort(_) => unreachable!("it has a program"),
        Skeleton::Foreign(class) => foreign::source(class),
        Skeleton::Generic(width) => generic::source(*width),
        Skeleton::Group(class) => joined::source(class),
        Skeleton::Library(_) | Skeleton::Convolution(_) => unreachable!("a library's function has no source"),
    }
}

/// Device functions of a kernel, between the prelude and its own text.
fn before(of: &Skeleton) -> &'static str {
    match of {
        Skeleton::TmaGemm(_) => TMA_CONTRACTIONS,
        Skeleton::Attention(class) if class.tma.is_some() => TMA_CONTRACTIONS,
        Skeleton::Gemm(_) | Skeleton::Attention(_) => CONTRACTIONS,
        Skeleton::Sort(class) if class.pass == SortPass::Digit => EXCHANGE,
        Skeleton::Rows(body, class) if class.has_scans(body) => SCANNED,
        Skeleton::Rows(_, class) if class.is_held_by_blocks() => BY_BLOCKS,
        Skeleton::Rows(_, class) if class.online.is_some() => ONLINE,
        _ => "",
    }
}
