//! Loops compiled twice: for the machine that the crate is built for, and for x86-64 with AVX2 and FMA, chosen at run
//! time.
//!
//! The compiler vectorises the loops; nothing here contracts or reorders floating-point arithmetic (a `mul_add` is fused
//! in both, by an instruction or by a library), so both give the same bits.

/// A loop, whose body is marked `#[inline(always)]` so that it is compiled into each caller's instruction set.
pub trait Job {
    /// What it gives.
    type Out;
    /// Runs it.
    fn run(self) -> Self::Out;
}

/// Runs a job with the widest vectors there are.
#[inline]
pub fn dispatch<J: Job>(job: J) -> J::Out {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: both were just found.
        return unsafe { with_avx2(job) };
    }
    job.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<J: Job>(job: J) -> J::Out {
    job.run()
}

/// A pointer that several threads may hold; who dereferences it keeps their accesses apart.
#[derive(Clone, Copy)]
pub struct Shared<T>(pub *mut T);
// SAFETY: an address alone; each use says why it is alone in writing what it writes.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The pointer (closures then capture the whole of `self`).
    pub fn get(self) -> *mut T {
        self.0
    }
}
