//! Permission to use tile registers (AMX).
//!
//! A processor may have them although the operating system does not save them. Linux (5.16 or later) gives them to a
//! process that asks, before any of its threads uses them; it refuses if a thread's alternate signal stack is too small
//! for a frame with 8 KiB of tiles.

/// Whether this machine has tile registers with products of bf16, and this process may use them. Asks the operating
/// system on the first call.
pub fn permitted() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        static PERMITTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *PERMITTED.get_or_init(|| linux::present() && linux::ask())
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    false
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod linux {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;

    /// Bits of CPUID leaf 7 in EDX: AMX-BF16 and AMX-TILE.
    const FEATURES: u32 = 1 << 22 | 1 << 24;
    /// Number of the system call `arch_prctl`, and its request for a component of the extended state.
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    /// Number of the component that holds tile data.
    const XFEATURE_XTILEDATA: usize = 18;

    /// Whether the processor has the instructions.
    pub fn present() -> bool {
        // Leaf 7 exists on every processor with AVX-512, which is asked for first.
        is_x86_feature_detected!("avx512f") && __cpuid_count(7, 0).edx & FEATURES == FEATURES
    }

    /// Asks the operating system for permission, for all threads of the process.
    pub fn ask() -> bool {
        let failed: isize;
        // SAFETY: the system call reads and writes no memory of the process; it clobbers rcx and r11.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => failed,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") XFEATURE_XTILEDATA,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        failed == 0
    }
}
