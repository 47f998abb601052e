//! Bindings to cuFFT, NVIDIA's library of Fourier transforms.
//!
//! In: [`Lines`]. Out: plans for them, and their runs on a stream. Types and constants are those of cufft.h.
//!
//! Always true: a plan allocates no workspace; it is given one for each run.

use super::Lines;
use super::functions::functions;
use crate::find::Sought;
use crate::tunable::TUNABLES;
use std::ffi::c_void;
use std::ptr::null_mut;
use thalweg_runtime::FourierKind;

type Status = i32;
const SUCCESS: Status = 0;
type Handle = i32;
type DevicePtr = *mut c_void;

functions! {
    create: "cufftCreate" (*mut Handle);
    destroy: "cufftDestroy" (Handle);
    own_memory: "cufftSetAutoAllocation" (Handle, i32);
    make: "cufftMakePlanMany64" (
        Handle, i32, *mut i64, *mut i64, i64, i64, *mut i64, i64, i64, i32, i64, *mut usize
    );
    stream: "cufftSetStream" (Handle, *mut c_void);
    workspace: "cufftSetWorkArea" (Handle, DevicePtr);
    complex: "cufftExecC2C" (Handle, DevicePtr, DevicePtr, i32);
    complex_double: "cufftExecZ2Z" (Handle, DevicePtr, DevicePtr, i32);
    half: "cufftExecR2C" (Handle, DevicePtr, DevicePtr);
    half_double: "cufftExecD2Z" (Handle, DevicePtr, DevicePtr);
    real: "cufftExecC2R" (Handle, DevicePtr, DevicePtr);
    real_double: "cufftExecZ2D" (Handle, DevicePtr, DevicePtr);
}

/// Error message of a call that returned `status`.
fn said(call: &str, status: Status) -> String {
    let text = match status {
        1 => "invalid plan",
        2 => "no memory",
        3 => "invalid type",
        4 => "invalid value",
        5 => "internal error",
        6 => "execution failed",
        7 => "setup failed",
        8 => "invalid size",
        _ => "failed",
    };
    format!("{call}: {text} (status {status})")
}

fn check(call: &str, status: Status) -> Result<(), String> {
    if status == SUCCESS { Ok(()) } else { Err(said(call, status)) }
}

/// Plan of the library for transforms of one shape and dtype; destroyed when dropped.
struct Plan {
    api: &'static Api,
    handle: Handle,
    /// Bytes of workspace that a run of the plan needs.
    workspace: usize,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: created by `cufftCreate`, and nobody uses it any more. Work that it submitted does not need it.
        unsafe { (self.api.destroy)(self.handle) };
    }
}

/// Plans of a device, the most recently used last.
#[derive(Default)]
pub(super) struct Plans {
    /// Plans by transforms and stream: a plan cannot run twice at once.
    known: Vec<((Lines, usize), Plan)>,
}

impl std::fmt::Debug for Plans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.known.iter().map(|k| k.0.0)).finish()
    }
}

impl Plans {
    /// Bytes of workspace of a plan for these transforms in that stream; the plan is created if necessary. The device's
    /// context must be current.
    ///
    /// # Errors
    /// Package to install where no library of a CUDA major version up to `at_most` is found, or its message.
    pub fn workspace(&mut self, lines: &Lines, stream: usize, at_most: u32) -> Result<usize, String> {
        self.plan(lines, stream, at_most).map(|plan| plan.workspace)
    }

    fn plan(&mut self, lines: &Lines, stream: usize, at_most: u32) -> Result<&Plan, String> {
        match self.known.iter().position(|k| k.0 == (*lines, stream)) {
            Some(at) => self.known[at..].rotate_left(1),
            None => {
                let plan = plan(Api::get(Sought::Cufft, at_most)?, lines)?;
                if TUNABLES.max_fourier_plans.reached_by(self.known.len()) {
                    self.known.remove(0);
                }
                self.known.push(((*lines, stream), plan));
            }
        }
        Ok(&self.known.last().expect("just put there").1)
    }

    /// Submits the transforms to a stream of the current context.
    ///
    /// # Errors
    /// The library's message.
    ///
    /// # Safety
    /// The addresses are of device memory: of the lines, of as many results (the same, where both are complex), and of
    /// a workspace of [`Plans::workspace`] bytes. The stream is one of the current context.
    pub unsafe fn run(
        &mut self,
        lines: &Lines,
        [from, to, work]: [u64; 3],
        stream: usize,
        at_most: u32,
    ) -> Result<(), String> {
        let plan = self.plan(lines, stream, at_most)?;
        let (api, handle) = (plan.api, plan.handle);
        let [from, to, work] = [from, to, work].map(|address| address as usize as DevicePtr);
        let direction = if lines.kind == FourierKind::Inverse { 1 } else { -1 };
        // SAFETY: the caller's promise; the plan is of this library.
        unsafe {
            check("cufftSetStream", (api.stream)(handle, stream as *mut c_void))?;
            check("cufftSetWorkArea", (api.workspace)(handle, work))?;
            match (lines.kind, lines.double) {
                (FourierKind::Half, false) => check("cufftExecR2C", (api.half)(handle, from, to)),
                (FourierKind::Half, true) => check("cufftExecD2Z", (api.half_double)(handle, from, to)),
                (FourierKind::Real, false) => check("cufftExecC2R", (api.real)(handle, from, to)),
                (FourierKind::Real, true) => check("cufftExecZ2D", (api.real_double)(handle, from, to)),
                (_, false) => check("cufftExecC2C", (api.complex)(handle, from, to, direction)),
                (_, true) => check("cufftExecZ2Z", (api.complex_double)(handle, from, to, direction)),
            }
        }
    }
}

/// `cufftType` of the transforms: real or complex input and output, and precision.
fn kind(lines: &Lines) -> i32 {
    match (lines.kind, lines.double) {
        (FourierKind::Half, false) => 0x2a,
        (FourierKind::Real, false) => 0x2c,
        (_, false) => 0x29,
        (FourierKind::Half, true) => 0x6a,
        (FourierKind::Real, true) => 0x6c,
        (_, true) => 0x69,
    }
}

fn plan(api: &'static Api, lines: &Lines) -> Result<Plan, String> {
    let mut handle = 0;
    // SAFETY: an out-pointer to a handle.
    check("cufftCreate", unsafe { (api.create)(&mut handle) })?;
    let mut plan = Plan { api, handle, workspace: 0 };
    // SAFETY: the plan just created.
    check("cufftSetAutoAllocation", unsafe { (api.own_memory)(handle, 0) })?;
    let mut n = lines.n as i64;
    // Without embedding parameters, lines are contiguous.
    // SAFETY: the plan just created, a size, and an out-pointer to a number.
    let made = unsafe {
        let count = lines.count as i64;
        let (none, size) = (null_mut(), &mut plan.workspace);
        (api.make)(handle, 1, &mut n, none, 1, 0, none, 1, 0, kind(lines), count, size)
    };
    check("cufftMakePlanMany64", made)?;
    Ok(plan)
}
