//! Loops compiled twice: for the build target of the crate, and for x86-64 with AVX2 and FMA, selected at run time.
//!
//! The compiler vectorises the loops. It neither contracts nor reorders floating-point arithmetic (a `mul_add` is fused
//! in both, by an instruction or by a library call), so both give the same bits.

/// A loop that [`dispatch`] compiles for two instruction sets. Its body is `#[inline(always)]`, so that it is compiled
/// for that of each caller.
pub trait Job {
    /// Type of the loop's result.
    type Out;
    /// Runs the loop and returns its result.
    fn run(self) -> Self::Out;
}

/// Runs a job with the widest vectors of this machine.
#[inline]
pub fn dispatch<J: Job>(job: J) -> J::Out {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: both features were just detected.
        return unsafe { with_avx2(job) };
    }
    job.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<J: Job>(job: J) -> J::Out {
    job.run()
}

/// A raw pointer that threads may share; whoever dereferences it must keep accesses of threads disjoint.
#[derive(Clone, Copy)]
pub struct Shared<T>(pub *mut T);
// SAFETY: only an address; each use states why its writes are exclusive.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Returns the pointer (a method, so that closures capture the whole of `self`).
    pub fn get(self) -> *mut T {
        self.0
    }
}
