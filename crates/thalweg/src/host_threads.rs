//! The threads that share what an operation on the host has to do: matrices of a batch, lines of a transform.
//!
//! As many as the CPU device has (`THALWEG_THREADS`), made when first needed. Always true: on a worker of a rayon pool,
//! the program's own for one, nothing else is woken: it is that pool's work.

use crate::Device;
use std::sync::OnceLock;

/// Calls `f` where rayon's parallel iterators use these threads; right here if there is but one.
pub(crate) fn on_host_threads<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let build = || {
        let count = Device::cpu().0.device().threads();
        // Where threads cannot be made, the caller does everything.
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|i| format!("thalweg-host-{i}"));
        if count > 1 { pool().build().ok() } else { None }
    };
    match POOL.get_or_init(build) {
        Some(pool) if rayon::current_thread_index().is_none() => pool.install(f),
        _ => f(),
    }
}

/// Whether [`on_host_threads`] has several.
pub(crate) fn has_host_threads() -> bool {
    Device::cpu().0.device().threads() > 1
}
