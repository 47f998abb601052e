//! Code generation: CUDA C++ from kernels.
//!
//! In: a [`Skeleton`]. Out: source text, the same for all sizes of its class. Sizes, addresses and scalars are words of
//! the one argument.
//!
//! * `print`: programs of `thalweg-gpu`, which nearly all kernels are.
//! * `types`, `elements`, `monoid`: dtypes, elementwise operations, combine operations of folds and scans. `warpgroup`:
//!   `wgmma`.
//! * `generic`: an interpreter of bodies. `foreign`: the user's own sources.
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
use thalweg_gpu::class::scan::Way;
use thalweg_gpu::ir::{Kernel, verify};
use thalweg_gpu::{Skeleton, write};
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
/// Device functions of contractions whose factors are copied by tensor maps (TMA).
pub const TMA_CONTRACTIONS: &str = concat!(include_str!("contraction.cuh"), include_str!("mapped.cuh"));
/// Device functions for exchange between blocks of a launch.
pub const EXCHANGE: &str = include_str!("told.cuh");
/// Device functions of row kernels whose blocks hold a segment of each row.
pub const BY_BLOCKS: &str = concat!(include_str!("told.cuh"), include_str!("by_blocks.cuh"));
/// Device functions of row kernels with online passes.
pub const ONLINE: &str = include_str!("online.cuh");

/// Source of a compilation: options and the prelude, followed by a kernel's own text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source {
    /// First line, the compiler options.
    pub options: &'static str,
    /// Text after the prelude.
    pub own: String,
}

impl Source {
    /// Whole source.
    pub fn text(&self) -> String {
        format!("{}{PRELUDE}{}", self.options, self.own)
    }
}

/// Source of a kernel. A grouped launch is assembled from the sources of its components.
///
/// # Panics
/// For a library's GEMM, which has no source.
pub fn source(of: &Skeleton) -> Source {
    let own = match program(of) {
        Some(kernel) => print::kernel(&kernel),
        None => text(of),
    };
    if let Skeleton::Joined(_) = of {
        return Source { options: options(of), own };
    }
    // The user's own lines and hand-written sources are not reformatted.
    let as_is = matches!(of, Skeleton::Foreign(_) | Skeleton::Generic(_));
    let own = if as_is { own } else { tidy(own.trim_start()) };
    Source { options: options(of), own: format!("{}\n// {}\n{own}", before(of), of.about()) }
}

/// Program of a kernel; `None` for kernels with hand-written CUDA C++. It is verified wherever programs are tested.
///
/// # Panics
/// When the program is invalid.
pub fn program(of: &Skeleton) -> Option<Kernel> {
    let kernel = match of {
        Skeleton::Map(body, class) => write::map::kernel(body, class, &is_native),
        Skeleton::Rows(body, class) => write::rows::kernel(body, class, &is_native),
        Skeleton::Scatter(class) => write::scatter::kernel(class),
        Skeleton::Counted(body, class) => write::counted::kernel(body, class, &is_native),
        Skeleton::Scan(class) => match class.way {
            Way::Stretch | Way::Merge => write::sort::kernel(class),
            Way::Count | Way::Pass => write::radix::kernel(class),
            _ => write::scan::kernel(class),
        },
        Skeleton::ScatterSort(class) => write::scatter_sort::kernel(class),
        Skeleton::Combined(class) => write::combined::kernel(class, &is_native),
        Skeleton::Contraction(class) => write::contraction::kernel(class, &is_native),
        Skeleton::Fed(class) => write::contraction::fed::kernel(class, &is_native),
        Skeleton::Streamed(class) => write::contraction::streamed::kernel(class, &is_native),
        _ => return None,
    };
    if cfg!(any(debug_assertions, feature = "emulate"))
        && let Err(what) = verify(&kernel)
    {
        panic!("{what}\n{kernel}");
    }
    Some(kernel)
}

/// Source of a kernel without a program.
fn text(of: &Skeleton) -> String {
    match of {
        Skeleton::Map(..)
        | Skeleton::Rows(..)
        | Skeleton::Scatter(_)
        | Skeleton::Counted(..)
        | Skeleton::Scan(_)
        | Skeleton::Combined(_)
        | Skeleton::Contraction(_)
        | Skeleton::Fed(_)
        | Skeleton::Streamed(_)
        | Skeleton::ScatterSort(_) => unreachable!("it has a program"),
        Skeleton::Foreign(class) => foreign::source(class),
        Skeleton::Generic(width) => generic::source(*width),
        Skeleton::Joined(class) => joined::source(class),
        Skeleton::Product(_) => unreachable!("a library's product has no source"),
    }
}

/// Device functions of a kernel, between the prelude and its own text.
fn before(of: &Skeleton) -> &'static str {
    match of {
        Skeleton::Fed(_) => TMA_CONTRACTIONS,
        Skeleton::Streamed(class) if class.fed.is_some() => TMA_CONTRACTIONS,
        Skeleton::Contraction(_) | Skeleton::Streamed(_) => CONTRACTIONS,
        Skeleton::Scan(class) if class.way == Way::Pass => EXCHANGE,
        Skeleton::Rows(body, class) if class.has_scans(body) => SCANNED,
        Skeleton::Rows(_, class) if class.is_held_by_blocks() => BY_BLOCKS,
        Skeleton::Rows(_, class) if class.online.is_some() => ONLINE,
        _ => "",
    }
}
