//! What pays. Policy only: nothing here decides what is allowed.
//!
//! Times are estimates for one thread; both sides of every comparison scale alike with threads.

/// Nanoseconds of one addition on one element in a vector loop.
const ARITHMETIC_NS: f64 = 0.015;
/// Additions an element that hide behind the loads of the kernel which computes them again.
const HIDDEN: u64 = 4;
/// Nanoseconds of moving one byte that lies in cache, and of one that does not.
const CACHED_BYTE_NS: f64 = 0.012;
const MEMORY_BYTE_NS: f64 = 0.1;
/// Bytes that stay in cache from one kernel to the next.
const CACHE_BYTES: usize = 1 << 20;
/// Nanoseconds of one more kernel in a plan.
const LAUNCH_NS: f64 = 600.0;

/// Time to move that many bytes once.
fn moving(bytes: usize) -> f64 {
    let per_byte = if bytes <= CACHE_BYTES { CACHED_BYTE_NS } else { MEMORY_BYTE_NS };
    bytes as f64 * per_byte
}

/// A value that several places of a plan need: computed in each, or stored once and loaded.
pub(crate) struct Shared {
    /// Elements of the value.
    pub elements: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Evaluations of an element over all places, if it is computed in each.
    pub evaluations: usize,
    /// Arithmetic of one evaluation, in additions.
    pub arithmetic: u64,
    /// Bytes of what it is computed from.
    pub source_bytes: usize,
    /// Kernels that need it.
    pub kernels: usize,
    /// Whether storing it takes a kernel that is not there otherwise.
    pub own_kernel: bool,
}

impl Shared {
    /// Whether storing the value takes less time than computing it wherever it is needed.
    pub fn store_pays(&self) -> bool {
        let again = self.evaluations.saturating_sub(self.elements) as f64;
        let compute = again * self.arithmetic.saturating_sub(HIDDEN) as f64 * ARITHMETIC_NS
            + self.kernels.saturating_sub(1) as f64 * moving(self.source_bytes);
        let loads = if self.own_kernel { self.kernels } else { self.kernels.saturating_sub(1) };
        let launch = if self.own_kernel { LAUNCH_NS } else { 0.0 };
        let store = moving(self.bytes) * (1 + loads) as f64 + launch;
        compute > store
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: Shared = Shared {
        elements: 1 << 20,
        bytes: 4 << 20,
        evaluations: 2 << 20,
        arithmetic: 1,
        source_bytes: 4 << 20,
        kernels: 2,
        own_kernel: true,
    };

    #[test]
    fn cheap_producers_are_computed_again_and_dear_ones_stored() {
        assert!(!BIG.store_pays());
        assert!(Shared { arithmetic: 200, ..BIG }.store_pays());
        // A bias of 2,048 elements under an exp, needed by a million rows.
        let bias = Shared {
            elements: 2048,
            bytes: 8192,
            evaluations: 2048 << 10,
            arithmetic: 12,
            source_bytes: 8192,
            kernels: 1,
            own_kernel: true,
        };
        assert!(bias.store_pays());
    }
}
