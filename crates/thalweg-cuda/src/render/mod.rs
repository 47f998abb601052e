//! CUDA C++ from kernels.
//!
//! In: a [`Skeleton`]. Out: source text, the same for all sizes of its class. Sizes, addresses and scalars are words of
//! the one argument.
//!
//! * `print`: programs of `thalweg-gpu`, which nearly all kernels are.
//! * `types`, `elements`, `monoid`: dtypes, elementwise operations, what folds and scans put together. `warpgroup`: the
//!   multiplications of four warps.
//! * `generic`: an interpreter of bodies. `foreign`: sources of the user's own.
//! * `joined`: parts that need nothing of each other.
//! * `tidy`: how they are laid out.

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

/// The first line of a source: what the compiler is asked for. Exact kernels are compiled without contraction.
fn options(of: &Skeleton) -> &'static str {
    match (of.has_warpgroups(), of.is_exact()) {
        (false, false) => "// options:\n",
        (false, true) => "// options: -fmad=false\n",
        (true, false) => "// options: --gpu-architecture=sm_90a\n",
        (true, true) => "// options: --gpu-architecture=sm_90a -fmad=false\n",
    }
}

/// What stands in front of row kernels whose scans run in registers.
pub const SCANNED: &str = concat!(include_str!("told.cuh"), include_str!("scanned.cuh"));
/// What stands in front of contractions.
pub const CONTRACTIONS: &str = include_str!("contraction.cuh");
/// What stands in front of those whose factors are copied by maps of tensors.
pub const FED: &str = concat!(include_str!("contraction.cuh"), include_str!("mapped.cuh"));
/// What blocks of a launch tell each other.
pub const TOLD: &str = include_str!("told.cuh");
/// What stands in front of row kernels whose blocks hold a part of each row.
pub const BY_BLOCKS: &str = concat!(include_str!("told.cuh"), include_str!("by_blocks.cuh"));
/// What stands in front of row kernels with online passes.
pub const ONLINE: &str = include_str!("online.cuh");

/// What is compiled: options and the prelude, then what follows them here.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source {
    /// The first line.
    pub options: &'static str,
    /// What comes behind the prelude.
    pub own: String,
}

impl Source {
    /// All of it.
    pub fn text(&self) -> String {
        format!("{}{PRELUDE}{}", self.options, self.own)
    }
}

/// The source of a kernel; a joined one is put together from those of its parts.
///
/// # Panics
/// Of a library's product, which has none.
pub fn source(of: &Skeleton) -> Source {
    let own = match program(of) {
        Some(kernel) => print::kernel(&kernel),
        None => text(of),
    };
    if let Skeleton::Joined(_) = of {
        return Source { options: options(of), own };
    }
    // The user's own lines stay as they are, and so does what was written by hand.
    let as_is = matches!(of, Skeleton::Foreign(_) | Skeleton::Generic(_));
    let own = if as_is { own } else { tidy(own.trim_start()) };
    Source { options: options(of), own: format!("{}\n// {}\n{own}", before(of), of.about()) }
}

/// The program of a kernel that is not written as text. It is checked wherever programs are tested.
///
/// # Panics
/// When it is wrong.
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

/// The source of what has no program.
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

/// What stands behind the prelude.
fn before(of: &Skeleton) -> &'static str {
    match of {
        Skeleton::Fed(_) => FED,
        Skeleton::Streamed(class) if class.fed.is_some() => FED,
        Skeleton::Contraction(_) | Skeleton::Streamed(_) => CONTRACTIONS,
        Skeleton::Scan(class) if class.way == Way::Pass => TOLD,
        Skeleton::Rows(body, class) if class.has_scans(body) => SCANNED,
        Skeleton::Rows(_, class) if class.is_held_by_blocks() => BY_BLOCKS,
        Skeleton::Rows(_, class) if class.online.is_some() => ONLINE,
        _ => "",
    }
}
