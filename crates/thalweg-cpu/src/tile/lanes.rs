//! Signature of the loops over a tile, and the macro that defines one.

use crate::math::lanes::Lanes;

/// Type of the precompiled loops over `n` lanes: up to three inputs (registers or contiguous memory), one output.
///
/// # Safety
/// Each argument that the loop uses points at `n` initialised elements of its type, and `out` at space for `n` of the
/// result's, all aligned for their types; `out` overlaps no argument.
pub(super) type Loop = unsafe fn(args: [*const u8; 3], out: *mut u8, n: usize);

/// `lanes!(|a: f32, b: f32| -> f32 { a + b })` is a [`Loop`], compiled for the baseline and, on x86-64, for AVX2 with
/// FMA; the version for this machine is selected here.
macro_rules! lanes {
    (|$($x:ident: $t:ty),+| -> $r:ty $body:block) => {{
        #[inline(always)]
        fn slices($($x: &[$t],)+ out: &mut [$r]) {
            let n = out.len();
            $(let $x = &$x[..n];)+
            for i in 0..n {
                $(let $x = $x[i];)+
                out[i] = $body;
            }
        }
        $crate::tile::lanes::whole!(slices, |$($x: $t),+| -> $r)
    }};
}
pub(super) use lanes;

/// `whole!(slices, |a: f32, b: f32| -> f32)` is a [`Loop`] made of an always-inlined function of slices, which iterates
/// over all lanes itself.
macro_rules! whole {
    ($slices:path, |$($x:ident: $t:ty),+| -> $r:ty) => {{
        #[inline(always)]
        unsafe fn body(args: [*const u8; 3], out: *mut u8, n: usize) {
            let mut args = args.into_iter();
            // SAFETY: the contract of `Loop`.
            unsafe {
                $slices(
                    $(std::slice::from_raw_parts(args.next().unwrap_or(std::ptr::null()).cast::<$t>(), n),)+
                    std::slice::from_raw_parts_mut(out.cast::<$r>(), n),
                )
            }
        }
        unsafe fn baseline(args: [*const u8; 3], out: *mut u8, n: usize) {
            // SAFETY: the contract of `Loop`.
            unsafe { body(args, out, n) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn with_fma(args: [*const u8; 3], out: *mut u8, n: usize) {
            // SAFETY: the contract of `Loop`.
            unsafe { body(args, out, n) }
        }
        #[cfg(target_arch = "x86_64")]
        let picked: $crate::tile::lanes::Loop = if $crate::math::lanes::has_fma() {
            |args, out, n| {
                // SAFETY: the processor has the features, as just checked; the rest is the contract of `Loop`.
                unsafe { with_fma(args, out, n) }
            }
        } else {
            baseline
        };
        #[cfg(not(target_arch = "x86_64"))]
        let picked: $crate::tile::lanes::Loop = baseline;
        picked
    }};
}
pub(super) use whole;

/// Code of an operation: a loop of this engine, or a vector math function.
#[derive(Clone, Copy)]
pub(super) enum Code {
    Loop(Loop),
    F32(Lanes<f32>),
    F64(Lanes<f64>),
}

impl Code {
    /// Runs the code on `n` lanes of the arguments, and writes the results to `out`.
    ///
    /// # Safety
    /// Arguments that the code uses hold `n` lanes; `out` has space for as many and overlaps none of them.
    pub(super) unsafe fn run(self, args: [*const u8; 3], out: *mut u8, n: usize) {
        // SAFETY: as above; registers are aligned to cache lines, memory to its elements.
        unsafe {
            match self {
                Code::Loop(run) => run(args, out, n),
                Code::F32(run) => run(
                    std::slice::from_raw_parts(args[0].cast(), n),
                    std::slice::from_raw_parts(args[1].cast(), n),
                    std::slice::from_raw_parts_mut(out.cast(), n),
                ),
                Code::F64(run) => run(
                    std::slice::from_raw_parts(args[0].cast(), n),
                    std::slice::from_raw_parts(args[1].cast(), n),
                    std::slice::from_raw_parts_mut(out.cast(), n),
                ),
            }
        }
    }
}
