//! Bindings to cuSOLVER, NVIDIA's library of decompositions, and to some functions of cuBLAS.
//!
//! In: [`Matrices`]. Out: workspaces for them, and runs of routines on a stream. Types and constants are those of
//! cusolverDn.h and cublas_api.h. cuSOLVER is linked with cuBLAS, so the functions of both are found through the same
//! library.
//!
//! Always true: each stream has handles of its own, since only one stream at a time may use a handle's memory.

use super::functions::functions;
use super::{BatchBuffer, Matrices, Routine, RoutineBuffers};
use crate::find::Sought;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::ptr::null_mut;

type Status = i32;
const SUCCESS: Status = 0;
type Handle = *mut c_void;
type At = *mut c_void;

/// Maximum number of matrices of a call of `XsyevBatched`: with one more it returns an internal error (CUDA 13.0,
/// H100).
const MAX_SYMMETRIC_BATCH: usize = 65_535;

/// `cublasFillMode_t` for the lower and the upper half of a matrix.
const LOWER: i32 = 0;
const UPPER: i32 = 1;
/// `cublasSideMode_t` for a triangular operand on the right: `X A = B`.
const RIGHT: i32 = 1;

functions! {
    create: "cusolverDnCreate" (*mut Handle);
    destroy: "cusolverDnDestroy" (Handle);
    stream: "cusolverDnSetStream" (Handle, At);
    blas: "cublasCreate_v2" (*mut Handle);
    blas_destroy: "cublasDestroy_v2" (Handle);
    blas_stream: "cublasSetStream_v2" (Handle, At);
    jacobi: "cusolverDnCreateGesvdjInfo" (*mut Handle);
    jacobi_destroy: "cusolverDnDestroyGesvdjInfo" (Handle);
    symmetric_jacobi: "cusolverDnCreateSyevjInfo" (*mut Handle);
    symmetric_jacobi_destroy: "cusolverDnDestroySyevjInfo" (Handle);
    potrf_size: "cusolverDnSpotrf_bufferSize" (Handle, i32, i32, At, i32, *mut i32);
    potrf_size_double: "cusolverDnDpotrf_bufferSize" (Handle, i32, i32, At, i32, *mut i32);
    potrf: "cusolverDnSpotrf" (Handle, i32, i32, At, i32, At, i32, At);
    potrf_double: "cusolverDnDpotrf" (Handle, i32, i32, At, i32, At, i32, At);
    potrf_batched: "cusolverDnSpotrfBatched" (Handle, i32, i32, At, i32, At, i32);
    potrf_batched_double: "cusolverDnDpotrfBatched" (Handle, i32, i32, At, i32, At, i32);
    getrf_size: "cusolverDnSgetrf_bufferSize" (Handle, i32, i32, At, i32, *mut i32);
    getrf_size_double: "cusolverDnDgetrf_bufferSize" (Handle, i32, i32, At, i32, *mut i32);
    getrf: "cusolverDnSgetrf" (Handle, i32, i32, At, i32, At, At, At);
    getrf_double: "cusolverDnDgetrf" (Handle, i32, i32, At, i32, At, At, At);
    getrf_batched: "cublasSgetrfBatched" (Handle, i32, At, i32, At, At, i32);
    getrf_batched_double: "cublasDgetrfBatched" (Handle, i32, At, i32, At, At, i32);
    getrs: "cusolverDnSgetrs" (Handle, i32, i32, i32, At, i32, At, At, i32, At);
    getrs_double: "cusolverDnDgetrs" (Handle, i32, i32, i32, At, i32, At, At, i32, At);
    getrs_batched: "cublasSgetrsBatched" (Handle, i32, i32, i32, At, i32, At, At, i32, *mut i32, i32);
    getrs_batched_double: "cublasDgetrsBatched" (Handle, i32, i32, i32, At, i32, At, At, i32, *mut i32, i32);
    geqrf_size: "cusolverDnSgeqrf_bufferSize" (Handle, i32, i32, At, i32, *mut i32);
    geqrf_size_double: "cusolverDnDgeqrf_bufferSize" (Handle, i32, i32, At, i32, *mut i32);
    geqrf: "cusolverDnSgeqrf" (Handle, i32, i32, At, i32, At, At, i32, At);
    geqrf_double: "cusolverDnDgeqrf" (Handle, i32, i32, At, i32, At, At, i32, At);
    geqrf_batched: "cublasSgeqrfBatched" (Handle, i32, i32, At, i32, At, *mut i32, i32);
    geqrf_batched_double: "cublasDgeqrfBatched" (Handle, i32, i32, At, i32, At, *mut i32, i32);
    orgqr_size: "cusolverDnSorgqr_bufferSize" (Handle, i32, i32, i32, At, i32, At, *mut i32);
    orgqr_size_double: "cusolverDnDorgqr_bufferSize" (Handle, i32, i32, i32, At, i32, At, *mut i32);
    orgqr: "cusolverDnSorgqr" (Handle, i32, i32, i32, At, i32, At, At, i32, At);
    orgqr_double: "cusolverDnDorgqr" (Handle, i32, i32, i32, At, i32, At, At, i32, At);
    syevd_size: "cusolverDnSsyevd_bufferSize" (Handle, i32, i32, i32, At, i32, At, *mut i32);
    syevd_size_double: "cusolverDnDsyevd_bufferSize" (Handle, i32, i32, i32, At, i32, At, *mut i32);
    syevd: "cusolverDnSsyevd" (Handle, i32, i32, i32, At, i32, At, At, i32, At);
    syevd_double: "cusolverDnDsyevd" (Handle, i32, i32, i32, At, i32, At, At, i32, At);
    syevj_size: "cusolverDnSsyevjBatched_bufferSize" (Handle, i32, i32, i32, At, i32, At, *mut i32, Handle, i32);
    syevj_size_double: "cusolverDnDsyevjBatched_bufferSize" (Handle, i32, i32, i32, At, i32, At, *mut i32, Handle, i32);
    syevj: "cusolverDnSsyevjBatched" (Handle, i32, i32, i32, At, i32, At, At, i32, At, Handle, i32);
    syevj_double: "cusolverDnDsyevjBatched" (Handle, i32, i32, i32, At, i32, At, At, i32, At, Handle, i32);
    gesvdj_size: "cusolverDnSgesvdj_bufferSize" (
        Handle, i32, i32, i32, i32, At, i32, At, At, i32, At, i32, *mut i32, Handle
    );
    gesvdj_size_double: "cusolverDnDgesvdj_bufferSize" (
        Handle, i32, i32, i32, i32, At, i32, At, At, i32, At, i32, *mut i32, Handle
    );
    gesvdj: "cusolverDnSgesvdj" (
        Handle, i32, i32, i32, i32, At, i32, At, At, i32, At, i32, At, i32, At, Handle
    );
    gesvdj_double: "cusolverDnDgesvdj" (
        Handle, i32, i32, i32, i32, At, i32, At, At, i32, At, i32, At, i32, At, Handle
    );
    gesvdj_batched_size: "cusolverDnSgesvdjBatched_bufferSize" (
        Handle, i32, i32, i32, At, i32, At, At, i32, At, i32, *mut i32, Handle, i32
    );
    gesvdj_batched_size_double: "cusolverDnDgesvdjBatched_bufferSize" (
        Handle, i32, i32, i32, At, i32, At, At, i32, At, i32, *mut i32, Handle, i32
    );
    gesvdj_batched: "cusolverDnSgesvdjBatched" (
        Handle, i32, i32, i32, At, i32, At, At, i32, At, i32, At, i32, At, Handle, i32
    );
    gesvdj_batched_double: "cusolverDnDgesvdjBatched" (
        Handle, i32, i32, i32, At, i32, At, At, i32, At, i32, At, i32, At, Handle, i32
    );
    trsm: "cublasStrsm_v2" (Handle, i32, i32, i32, i32, i32, i32, At, At, i32, At, i32);
    trsm_double: "cublasDtrsm_v2" (Handle, i32, i32, i32, i32, i32, i32, At, At, i32, At, i32);
    trsm_batched: "cublasStrsmBatched" (Handle, i32, i32, i32, i32, i32, i32, At, At, i32, At, i32, i32);
    trsm_batched_double: "cublasDtrsmBatched" (Handle, i32, i32, i32, i32, i32, i32, At, At, i32, At, i32, i32);
}

/// Functions of cuSOLVER 11.7.1 and later (CUDA 12.6), which older versions lack.
mod newer {
    use super::{At, Handle, Status, functions};

    functions! {
        params: "cusolverDnCreateParams" (*mut Handle);
        params_destroy: "cusolverDnDestroyParams" (Handle);
        syev_size: "cusolverDnXsyevBatched_bufferSize" (
            Handle, Handle, i32, i32, i64, i32, At, i64, i32, At, i32, *mut usize, *mut usize, i64
        );
        syev: "cusolverDnXsyevBatched" (
            Handle, Handle, i32, i32, i64, i32, At, i64, i32, At, i32, At, usize, At, usize, At, i64
        );
    }

    /// Function table of cuSOLVER 11.7.1 or newer, for the batched symmetric eigensolver (`cusolverDnXsyevBatched`).
    #[derive(Clone, Copy)]
    pub(super) struct Table(&'static Api);

    pub(super) fn table(at_most: u32) -> Option<Table> {
        Api::get(crate::find::Sought::Cusolver, at_most).ok().map(Table)
    }

    /// `cudaDataType_t` of the elements: `CUDA_R_32F` or `CUDA_R_64F`.
    fn kind(double: bool) -> i32 {
        i32::from(double)
    }

    impl Table {
        /// # Safety
        /// `params` is an out-pointer to a handle.
        pub(super) unsafe fn make(self, params: &mut Handle) -> Status {
            // SAFETY: as above.
            unsafe { (self.0.params)(params) }
        }

        /// # Safety
        /// `params` was created by [`Table::make`], and nobody uses it any more.
        pub(super) unsafe fn destroy(self, params: Handle) {
            // SAFETY: as above.
            unsafe { (self.0.params_destroy)(params) };
        }

        pub(super) fn size(
            self,
            (handle, params): (Handle, Handle),
            (vectors, n, double, count): (bool, usize, bool, usize),
        ) -> (Status, [usize; 2]) {
            let ([mut device, mut host], kind, none) = ([0; 2], kind(double), std::ptr::null_mut());
            let n = n as i64;
            // SAFETY: out-pointers to two numbers; matrices are not accessed.
            let status = unsafe {
                (self.0.syev_size)(
                    handle,
                    params,
                    i32::from(vectors),
                    super::UPPER,
                    n,
                    kind,
                    none,
                    n,
                    kind,
                    none,
                    kind,
                    &mut device,
                    &mut host,
                    count as i64,
                )
            };
            (status, [device, host])
        }

        /// # Safety
        /// The addresses are of memory of sufficient size.
        pub(super) unsafe fn run(
            self,
            (handle, params): (Handle, Handle),
            (vectors, n, double, count): (bool, usize, bool, usize),
            [a, w, work, infos]: [At; 4],
            (bytes, host): (usize, &mut [u8]),
        ) -> Status {
            let (kind, n) = (kind(double), n as i64);
            // SAFETY: the caller's promise.
            unsafe {
                (self.0.syev)(
                    handle,
                    params,
                    i32::from(vectors),
                    super::UPPER,
                    n,
                    kind,
                    a,
                    n,
                    kind,
                    w,
                    kind,
                    work,
                    bytes,
                    host.as_mut_ptr().cast(),
                    host.len(),
                    infos,
                    count as i64,
                )
            }
        }
    }
}

/// Error message of a call that returned `status`.
fn said(call: &str, status: Status) -> String {
    let text = match status {
        1 => "not initialised",
        2 => "no memory",
        3 => "invalid value",
        4 => "not for this chip",
        5 => "mapping error",
        6 => "execution failed",
        7 => "internal error",
        8 => "not for such matrices",
        9 => "not supported",
        _ => "failed",
    };
    format!("{call}: {text} (status {status})")
}

fn check(call: &str, status: Status) -> Result<(), String> {
    if status == SUCCESS { Ok(()) } else { Err(said(call, status)) }
}

/// Converts a size to the library's integer type; fails beyond `i32::MAX`.
fn int(n: usize) -> Result<i32, String> {
    i32::try_from(n).map_err(|_| format!("{n} is beyond what the library counts"))
}

/// Handles of the libraries for one stream; destroyed when dropped.
struct Solver {
    api: &'static Api,
    newer: Option<newer::Table>,
    handle: Handle,
    blas: Handle,
    jacobi: Handle,
    symmetric_jacobi: Handle,
    /// Handle of parameters; null where there is no `newer` table.
    params: Handle,
    /// Host memory that a routine may use while it runs, the largest last. Smaller ones are kept: a routine in the
    /// stream may still use them.
    host: Vec<Vec<u8>>,
}

// SAFETY: the library's handles may be used on any thread, one at a time.
unsafe impl Send for Solver {}

impl Drop for Solver {
    fn drop(&mut self) {
        let api = self.api;
        // SAFETY: each was created by the function beside it, or is null, and nobody uses it any more.
        unsafe {
            if let (Some(newer), false) = (self.newer, self.params.is_null()) {
                newer.destroy(self.params);
            }
            let all = [
                (self.symmetric_jacobi, api.symmetric_jacobi_destroy),
                (self.jacobi, api.jacobi_destroy),
                (self.blas, api.blas_destroy),
                (self.handle, api.destroy),
            ];
            all.into_iter().filter(|(handle, _)| !handle.is_null()).for_each(|(handle, destroy)| {
                destroy(handle);
            });
        }
    }
}

/// Handles of the libraries on a device, by stream.
#[derive(Default)]
pub(super) struct Solvers(HashMap<usize, Solver>);

impl std::fmt::Debug for Solvers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Solvers({} streams)", self.0.len())
    }
}

impl Solvers {
    /// Bytes of workspace for a routine in that stream. The device's context must be current.
    ///
    /// # Errors
    /// Package to install where no library of a CUDA major version up to `at_most` is found, or its message.
    pub fn workspace(&mut self, of: &Matrices, stream: usize, at_most: u32) -> Result<usize, String> {
        self.solver(stream, at_most)?.workspace(of)
    }

    fn solver(&mut self, stream: usize, at_most: u32) -> Result<&mut Solver, String> {
        Ok(match self.0.entry(stream) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Solver::new(stream, at_most)?),
        })
    }

    /// Submits a routine to a stream of the current context.
    ///
    /// # Errors
    /// The library's message.
    ///
    /// # Safety
    /// The addresses are of device memory, of the extents that sizes and steps require, and of a workspace of
    /// [`Solvers::workspace`] bytes. The stream is one of the current context.
    pub unsafe fn run(
        &mut self,
        of: &Matrices,
        places: &RoutineBuffers,
        stream: usize,
        at_most: u32,
    ) -> Result<(), String> {
        let solver = self.solver(stream, at_most)?;
        let (bytes, most) = (solver.workspace(of)?, solver.at_once(of));
        (0..of.count).step_by(most).try_for_each(|first| {
            let some = Matrices { count: most.min(of.count - first), ..*of };
            // SAFETY: the caller's promise.
            unsafe { solver.run(&some, places, bytes, first) }
        })
    }
}

/// Selects the function of a precision: `$wide` for f64, `$single` for f32.
macro_rules! of {
    ($api:expr, $double:expr, $single:ident, $wide:ident) => {
        if $double { $api.$wide } else { $api.$single }
    };
}

impl Solver {
    fn new(stream: usize, at_most: u32) -> Result<Solver, String> {
        let api = Api::get(Sought::Cusolver, at_most)?;
        let newer = newer::table(at_most);
        let none = null_mut();
        let mut s = Solver {
            api,
            newer,
            handle: none,
            blas: none,
            jacobi: none,
            symmetric_jacobi: none,
            params: none,
            host: vec![],
        };
        // SAFETY: out-pointers to handles, and a stream of the current context.
        unsafe {
            check("cusolverDnCreate", (api.create)(&mut s.handle))?;
            check("cusolverDnSetStream", (api.stream)(s.handle, stream as At))?;
            check("cublasCreate", (api.blas)(&mut s.blas))?;
            check("cublasSetStream", (api.blas_stream)(s.blas, stream as At))?;
            check("cusolverDnCreateGesvdjInfo", (api.jacobi)(&mut s.jacobi))?;
            check("cusolverDnCreateSyevjInfo", (api.symmetric_jacobi)(&mut s.symmetric_jacobi))?;
            if let Some(newer) = newer {
                check("cusolverDnCreateParams", newer.make(&mut s.params))?;
            }
        }
        Ok(s)
    }

    /// Whether the library has a batched call for the matrices.
    fn is_batched(&self, of: &Matrices) -> bool {
        match of.routine {
            // The older batched function is for small matrices.
            Routine::Symmetric { n, .. } => of.batched && (self.newer.is_some() || n <= 32),
            Routine::Reflections { .. } => false,
            _ => of.batched,
        }
    }

    /// Number of matrices that one call takes. A batched call takes all, up to the library's limit; any other call
    /// takes one.
    fn at_once(&self, of: &Matrices) -> usize {
        match of.routine {
            _ if !self.is_batched(of) => 1,
            Routine::Symmetric { .. } if self.newer.is_some() => of.count.clamp(1, MAX_SYMMETRIC_BATCH),
            _ => of.count.max(1),
        }
    }

    fn workspace(&self, of: &Matrices) -> Result<usize, String> {
        let (api, h, double, together) = (self.api, self.handle, of.double, self.is_batched(of));
        let (none, mut elements, count) = (null_mut(), 0, int(of.count)?);
        let size = if double { 8 } else { 4 };
        // Offsets within a matrix have the library's integer type, too.
        let fits = |m: usize, n: usize| int(m.checked_mul(n).ok_or("too large")?).map(|_| ());
        // SAFETY: an out-pointer to a number; matrices are not accessed.
        unsafe {
            match of.routine {
                Routine::Cholesky { n } => {
                    fits(n, n)?;
                    let n = int(n)?;
                    if !together {
                        let ask = of!(api, double, potrf_size, potrf_size_double);
                        check("potrf_bufferSize", ask(h, LOWER, n, none, n, &mut elements))?;
                    }
                }
                Routine::Lu { m, n } => {
                    fits(m, n)?;
                    let (m, n) = (int(m)?, int(n)?);
                    if !together {
                        let ask = of!(api, double, getrf_size, getrf_size_double);
                        check("getrf_bufferSize", ask(h, m, n, none, m, &mut elements))?;
                    }
                }
                Routine::Solve { n, columns } => fits(n, columns)?,
                Routine::Triangular { n, columns, .. } => {
                    fits(n, n)?;
                    fits(n, columns)?;
                }
                Routine::Qr { m, n } => {
                    fits(m, n)?;
                    let (m, n) = (int(m)?, int(n)?);
                    if !together {
                        let ask = of!(api, double, geqrf_size, geqrf_size_double);
                        check("geqrf_bufferSize", ask(h, m, n, none, m, &mut elements))?;
                    }
                }
                Routine::Reflections { m, columns, k } => {
                    fits(m, columns)?;
                    let (m, columns, k) = (int(m)?, int(columns)?, int(k)?);
                    let ask = of!(api, double, orgqr_size, orgqr_size_double);
                    check("orgqr_bufferSize", ask(h, m, columns, k, none, m, none, &mut elements))?;
                }
                Routine::Symmetric { n, vectors } => {
                    fits(n, n)?;
                    if let (true, Some(newer)) = (together, self.newer) {
                        let of_call = (vectors, n, double, self.at_once(of));
                        let (status, [device, _]) = newer.size((h, self.params), of_call);
                        return check("XsyevBatched_bufferSize", status).map(|()| device);
                    }
                    let (n, mode) = (int(n)?, i32::from(vectors));
                    if together {
                        let (ask, info) = (of!(api, double, syevj_size, syevj_size_double), self.symmetric_jacobi);
                        let asked = ask(h, mode, UPPER, n, none, n, none, &mut elements, info, count);
                        check("syevjBatched_bufferSize", asked)?;
                    } else {
                        let ask = of!(api, double, syevd_size, syevd_size_double);
                        check("syevd_bufferSize", ask(h, mode, UPPER, n, none, n, none, &mut elements))?;
                    }
                }
                Routine::Singular { m, n, left } => {
                    fits(m, n)?;
                    fits(m, left)?;
                    let (mode, thin) = (i32::from(left > 0), i32::from(left <= n));
                    let (m, n) = (int(m)?, int(n)?);
                    let asked = if together {
                        let ask = of!(api, double, gesvdj_batched_size, gesvdj_batched_size_double);
                        ask(h, mode, m, n, none, m, none, none, m, none, n, &mut elements, self.jacobi, count)
                    } else {
                        let ask = of!(api, double, gesvdj_size, gesvdj_size_double);
                        ask(h, mode, thin, m, n, none, m, none, none, m, none, n, &mut elements, self.jacobi)
                    };
                    check("gesvdj_bufferSize", asked)?;
                }
            }
        }
        Ok(elements.max(0) as usize * size)
    }

    /// Submits the routine for matrix `first`, or a batched routine for several matrices from `first` on. The workspace
    /// has `bytes` bytes.
    ///
    /// # Safety
    /// As [`Solvers::run`].
    unsafe fn run(&mut self, of: &Matrices, places: &RoutineBuffers, bytes: usize, first: usize) -> Result<(), String> {
        let (api, h, double, together) = (self.api, self.handle, of.double, self.is_batched(of));
        let (elements, count) = (int(bytes / if double { 8 } else { 4 })?, int(of.count)?);
        let at = |place: BatchBuffer| (place.at + (place.step * first) as u64) as usize as At;
        let list = |place: BatchBuffer| place.list as usize as At;
        let [a, b, c, d] = [places.a, places.b, places.c, places.d].map(at);
        let (info, work) = ((places.infos + 4 * first as u64) as usize as At, places.work as usize as At);
        // SAFETY: the caller's promise.
        unsafe {
            match of.routine {
                Routine::Cholesky { n } if together => {
                    let (f, n) = (of!(api, double, potrf_batched, potrf_batched_double), int(n)?);
                    check("potrfBatched", f(h, LOWER, n, list(places.a), n, info, count))
                }
                Routine::Cholesky { n } => {
                    let (f, n) = (of!(api, double, potrf, potrf_double), int(n)?);
                    check("potrf", f(h, LOWER, n, a, n, work, elements, info))
                }
                Routine::Lu { m, .. } if together => {
                    let (f, m) = (of!(api, double, getrf_batched, getrf_batched_double), int(m)?);
                    check("getrfBatched", f(self.blas, m, list(places.a), m, b, info, count))
                }
                Routine::Lu { m, n } => {
                    let (f, m, n) = (of!(api, double, getrf, getrf_double), int(m)?, int(n)?);
                    check("getrf", f(h, m, n, a, m, work, b, info))
                }
                Routine::Solve { n, columns } if together => {
                    let f = of!(api, double, getrs_batched, getrs_batched_double);
                    let (n, columns, mut wrong) = (int(n)?, int(columns)?, 0);
                    let (a, c) = (list(places.a), list(places.c));
                    check("getrsBatched", f(self.blas, 0, n, columns, a, n, b, c, n, &mut wrong, count))
                }
                Routine::Solve { n, columns } => {
                    let (f, n, columns) = (of!(api, double, getrs, getrs_double), int(n)?, int(columns)?);
                    check("getrs", f(h, 0, n, columns, a, n, b, c, n, info))
                }
                Routine::Qr { m, n } if together => {
                    let f = of!(api, double, geqrf_batched, geqrf_batched_double);
                    let (m, n, mut wrong) = (int(m)?, int(n)?, 0);
                    let (a, b) = (list(places.a), list(places.b));
                    check("geqrfBatched", f(self.blas, m, n, a, m, b, &mut wrong, count))
                }
                Routine::Qr { m, n } => {
                    let (f, m, n) = (of!(api, double, geqrf, geqrf_double), int(m)?, int(n)?);
                    check("geqrf", f(h, m, n, a, m, b, work, elements, info))
                }
                Routine::Reflections { m, columns, k } => {
                    let f = of!(api, double, orgqr, orgqr_double);
                    let (m, columns, k) = (int(m)?, int(columns)?, int(k)?);
                    check("orgqr", f(h, m, columns, k, a, m, b, work, elements, info))
                }
                Routine::Symmetric { n, vectors } => {
                    if let (true, Some(newer)) = (together, self.newer) {
                        let (handles, what) = ((h, self.params), (vectors, n, double, of.count));
                        let (status, [device, host]) = newer.size(handles, what);
                        check("XsyevBatched_bufferSize", status)?;
                        if self.host.last().is_none_or(|last| last.len() < host) {
                            self.host.push(vec![0; host]);
                        }
                        let host = &mut self.host.last_mut().expect("just put there")[..host];
                        let status = newer.run(handles, what, [a, b, work, info], (device, host));
                        return check("XsyevBatched", status);
                    }
                    let (n, mode) = (int(n)?, i32::from(vectors));
                    if together {
                        let (f, jacobi) = (of!(api, double, syevj, syevj_double), self.symmetric_jacobi);
                        check("syevjBatched", f(h, mode, UPPER, n, a, n, b, work, elements, info, jacobi, count))
                    } else {
                        let f = of!(api, double, syevd, syevd_double);
                        check("syevd", f(h, mode, UPPER, n, a, n, b, work, elements, info))
                    }
                }
                Routine::Singular { m, n, left } => {
                    let (mode, thin, jacobi) = (i32::from(left > 0), i32::from(left <= n), self.jacobi);
                    let (m, n) = (int(m)?, int(n)?);
                    if together {
                        let f = of!(api, double, gesvdj_batched, gesvdj_batched_double);
                        let put = f(h, mode, m, n, a, m, b, c, m, d, n, work, elements, info, jacobi, count);
                        check("gesvdjBatched", put)
                    } else {
                        let f = of!(api, double, gesvdj, gesvdj_double);
                        let put = f(h, mode, thin, m, n, a, m, b, c, m, d, n, work, elements, info, jacobi);
                        check("gesvdj", put)
                    }
                }
                Routine::Triangular { n, columns, upper, transposed, unit } => {
                    let (half, turned, unit) = (i32::from(upper), i32::from(transposed), i32::from(unit));
                    let (n, columns, one, wide) = (int(n)?, int(columns)?, 1f32, 1f64);
                    let one: At =
                        if double { (&raw const wide).cast_mut().cast() } else { (&raw const one).cast_mut().cast() };
                    if together {
                        let f = of!(api, double, trsm_batched, trsm_batched_double);
                        let (a, c) = (list(places.a), list(places.c));
                        let put = f(self.blas, RIGHT, half, turned, unit, columns, n, one, a, n, c, columns, count);
                        check("trsmBatched", put)
                    } else {
                        let f = of!(api, double, trsm, trsm_double);
                        let put = f(self.blas, RIGHT, half, turned, unit, columns, n, one, a, n, c, columns);
                        check("trsm", put)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::find;

    /// If the library is installed, it has all functions that are used: a wrong function name would silently move all
    /// decompositions to the host.
    #[test]
    fn what_is_there_has_all_functions() {
        if find(Sought::Cusolver).library.is_some() {
            Api::get(Sought::Cusolver, u32::MAX).map(|_| ()).unwrap();
            let version = find(Sought::Cusolver).version.unwrap();
            assert!(newer::table(u32::MAX).is_some() || version.starts_with("11."), "{version}");
        }
    }
}
