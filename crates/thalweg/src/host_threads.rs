//! Threads for operations on the host: matrices of a batch, lines of a transform.
//!
//! There are as many as the CPU device has (`THALWEG_THREADS`), started when first needed. Always true: a call from a
//! worker of a rayon pool, such as the program's own, wakes no other threads; the work is that pool's.

use crate::Device;
use std::sync::OnceLock;

/// Calls `f` where rayon's parallel iterators use these threads; directly if there is only one.
pub(crate) fn on_host_threads<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let build = || {
        let count = Device::cpu().0.device().threads();
        // If threads cannot be started, the caller does everything.
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|i| format!("thalweg-host-{i}"));
        if count > 1 { pool().build().ok() } else { None }
    };
    match POOL.get_or_init(build) {
        Some(pool) if rayon::current_thread_index().is_none() => pool.install(f),
        _ => f(),
    }
}

/// Whether [`on_host_threads`] uses several threads.
pub(crate) fn has_host_threads() -> bool {
    Device::cpu().0.device().threads() > 1
}
