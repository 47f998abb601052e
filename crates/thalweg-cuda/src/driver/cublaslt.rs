//! Bindings to cuBLASLt, NVIDIA's library of matrix products.
//!
//! In: a [`Product`]. Out: algorithms for it, and their launches on a stream. Types and constants are those of
//! cublasLt.h. cudarc is not used here: it would ask the loader for `libcublasLt.so` by name before the one that
//! [`crate::find`] chose, and adds ten thousand lines for the twenty functions.
//!
//! Always true: an algorithm from here adds the parts of a split sum (split-K) in a fixed order and in the accumulators'
//! dtype, if it splits sums (reduction schemes NONE and COMPUTE_TYPE). So its bits depend on the algorithm alone, and
//! narrow results are rounded once.

use super::functions::functions;
use crate::find::Sought;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{from_ref, null_mut};
use thalweg_gpu::product::{Product, Side};
use thalweg_ir::DType;

/// Maximum workspace of an algorithm in bytes: what PyTorch allows on Hopper.
pub const MAX_WORKSPACE_BYTES: usize = 32 << 20;
/// Reduction scheme of an algorithm that stores the parts of split sums in the workspace, in the accumulators' dtype. As
/// a set of allowed schemes it includes algorithms that split no sum.
const COMPUTE_TYPE: u32 = 2;
/// Maximum number of algorithms that the heuristic returns.
const CANDIDATES: usize = 8;

type Status = i32;
const SUCCESS: Status = 0;
type Opaque = *mut c_void;

/// Algorithm in the library's encoding: 64 bytes. They are valid for the library version that they come from, and may
/// be stored on disk.
pub type Algorithm = [u64; 8];

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Heuristic {
    algorithm: Algorithm,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [i32; 4],
}

const NO_HEURISTIC: Heuristic =
    Heuristic { algorithm: [0; 8], workspace: 0, state: SUCCESS, waves: 0.0, reserved: [0; 4] };

/// Attribute numbers of cublasLt.h: of matmul and layout descriptors, of preferences, and of algorithms.
mod attribute {
    pub const TRANSPOSE_LEFT: u32 = 3;
    pub const TRANSPOSE_RIGHT: u32 = 4;
    pub const BATCH_COUNT: u32 = 5;
    pub const BATCH_STRIDE: u32 = 6;
    pub const MAX_WORKSPACE_BYTES: u32 = 1;
    pub const REDUCTION_SCHEMES: u32 = 3;
    pub const ALIGNMENTS: [u32; 4] = [5, 6, 7, 8];
    pub const ALGORITHM_REDUCTION: u32 = 3;
}

functions! {
    create: "cublasLtCreate" (*mut Opaque);
    destroy: "cublasLtDestroy" (Opaque);
    operation: "cublasLtMatmulDescCreate" (*mut Opaque, u32, u32);
    operation_set: "cublasLtMatmulDescSetAttribute" (Opaque, u32, *const c_void, usize);
    operation_destroy: "cublasLtMatmulDescDestroy" (Opaque);
    layout: "cublasLtMatrixLayoutCreate" (*mut Opaque, u32, u64, u64, i64);
    layout_set: "cublasLtMatrixLayoutSetAttribute" (Opaque, u32, *const c_void, usize);
    layout_destroy: "cublasLtMatrixLayoutDestroy" (Opaque);
    preference: "cublasLtMatmulPreferenceCreate" (*mut Opaque);
    preference_set: "cublasLtMatmulPreferenceSetAttribute" (Opaque, u32, *const c_void, usize);
    preference_destroy: "cublasLtMatmulPreferenceDestroy" (Opaque);
    heuristic: "cublasLtMatmulAlgoGetHeuristic" (
        Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, i32, *mut Heuristic, *mut i32
    );
    check: "cublasLtMatmulAlgoCheck" (
        Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, *const Algorithm, *mut Heuristic
    );
    algorithm_get: "cublasLtMatmulAlgoConfigGetAttribute" (*const Algorithm, u32, *mut c_void, usize, *mut usize);
    multiply: "cublasLtMatmul" (
        Opaque, Opaque, *const c_void, *const c_void, Opaque, *const c_void, Opaque, *const c_void, *const c_void, Opaque,
        *mut c_void, Opaque, *const Algorithm, *mut c_void, usize, Opaque
    );
    text: "cublasLtGetStatusString" (Status) -> *const c_char;
    version: "cublasLtGetVersion" () -> usize;
}

impl Api {
    fn check(&self, call: &str, status: Status) -> Result<(), String> {
        if status == SUCCESS { Ok(()) } else { Err(self.failure(call, status)) }
    }

    #[cold]
    fn failure(&self, call: &str, status: Status) -> String {
        // SAFETY: it accepts any number.
        let text = unsafe { (self.text)(status) };
        if text.is_null() {
            return format!("{call}: status {status}");
        }
        // SAFETY: the library's texts are zero-terminated and static.
        format!("{call}: {} (status {status})", unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }
}

/// The opened library, with a handle for one device.
pub struct CublasLt {
    api: &'static Api,
    handle: Opaque,
}

// SAFETY: by its documentation a handle may be used on several threads at once; nothing is set on it here.
unsafe impl Send for CublasLt {}
// SAFETY: as above.
unsafe impl Sync for CublasLt {}

impl std::fmt::Debug for CublasLt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CublasLt({})", self.version())
    }
}

impl CublasLt {
    /// Opens the library of a CUDA major version of at most `at_most`, for the device whose context is current.
    ///
    /// # Errors
    /// Package to install where the library is missing, or the library's message.
    pub fn new(at_most: u32) -> Result<CublasLt, String> {
        let api = Api::get(Sought::CublasLt, at_most)?;
        let mut handle = null_mut();
        // SAFETY: an out-pointer to a handle; a context is current.
        api.check("cublasLtCreate", unsafe { (api.create)(&mut handle) })?;
        Ok(CublasLt { api, handle })
    }

    /// Version of the library in its own numbering: algorithms are valid for one version only.
    pub fn version(&self) -> usize {
        // SAFETY: it may be called at any time.
        unsafe { (self.api.version)() }
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: created in `new`, and nobody uses it any more.
        unsafe { (self.api.destroy)(self.handle) };
    }
}

/// C function that destroys a descriptor, such as `cublasLtMatmulDescDestroy`.
type Destroy = unsafe extern "C" fn(Opaque) -> Status;
/// C function that sets an attribute of a descriptor, such as `cublasLtMatmulDescSetAttribute`: descriptor, attribute
/// number, address of the value, and its size in bytes.
type Set = unsafe extern "C" fn(Opaque, u32, *const c_void, usize) -> Status;

/// Descriptor that the library created: a matmul, layout or preference object. Destroyed when dropped.
struct Description {
    handle: Opaque,
    destroy: Destroy,
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: created by the function's counterpart, and nobody uses it any more.
        unsafe { (self.destroy)(self.handle) };
    }
}

impl Description {
    /// Sets attribute number `attribute` to `value`; `T` must be the attribute's type in cublasLt.h.
    fn set<T>(&self, api: &Api, set: Set, attribute: u32, value: &T) -> Result<(), String> {
        // SAFETY: a value of this many bytes, which is copied in the call.
        let done = unsafe { set(self.handle, attribute, from_ref(value).cast(), size_of::<T>()) };
        api.check("cublasLt…SetAttribute", done)
    }
}

/// Descriptors of a product: the matmul operation, and the layouts of its three matrices.
pub struct Problem {
    product: Product,
    operation: Description,
    left: Description,
    right: Description,
    result: Description,
}

// SAFETY: descriptions are plain memory of the library; nothing changes them once they are created.
unsafe impl Send for Problem {}
// SAFETY: as above.
unsafe impl Sync for Problem {}

impl std::fmt::Debug for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.product.fmt(f)
    }
}

/// Codes of the dtypes of a product: `cudaDataType_t` of the operands, `cublasComputeType_t`, and `cudaDataType_t` of
/// the scale factors.
fn types(product: &Product) -> (u32, u32, u32) {
    const F32: u32 = 0;
    const F64: u32 = 1;
    const F16: u32 = 2;
    const BF16: u32 = 14;
    const IN_F32: u32 = 68;
    const IN_F64: u32 = 70;
    const IN_TF32: u32 = 77;
    match product.dtype {
        DType::F64 => (F64, IN_F64, F64),
        DType::F32 if product.tf32 => (F32, IN_TF32, F32),
        DType::F32 => (F32, IN_F32, F32),
        DType::BF16 => (BF16, IN_F32, F32),
        DType::F16 => (F16, IN_F32, F32),
        other => unreachable!("the library is given no products of {other}"),
    }
}

impl CublasLt {
    /// Creates the descriptors of a product.
    ///
    /// # Errors
    /// The library's message.
    pub fn problem(&self, product: &Product) -> Result<Problem, String> {
        let api = self.api;
        let (operands, compute, scale) = types(product);
        let mut handle = null_mut();
        // SAFETY: an out-pointer to a handle.
        api.check("cublasLtMatmulDescCreate", unsafe { (api.operation)(&mut handle, compute, scale) })?;
        let operation = Description { handle, destroy: api.operation_destroy };
        for (attribute, side) in
            [(attribute::TRANSPOSE_LEFT, &product.left), (attribute::TRANSPOSE_RIGHT, &product.right)]
        {
            operation.set(api, api.operation_set, attribute, &i32::from(side.transposed))?;
        }
        let layout = |side: &Side, rows: usize, columns: usize| -> Result<Description, String> {
            let [rows, columns] = if side.transposed { [columns, rows] } else { [rows, columns] };
            let mut handle = null_mut();
            // SAFETY: an out-pointer to a handle.
            let made = unsafe { (api.layout)(&mut handle, operands, rows as u64, columns as u64, side.leading as i64) };
            api.check("cublasLtMatrixLayoutCreate", made)?;
            let layout = Description { handle, destroy: api.layout_destroy };
            if product.count > 1 {
                let count = i32::try_from(product.count).map_err(|_| "too many products".to_string())?;
                layout.set(api, api.layout_set, attribute::BATCH_COUNT, &count)?;
                layout.set(api, api.layout_set, attribute::BATCH_STRIDE, &(side.stride as i64))?;
            }
            Ok(layout)
        };
        let &Product { rows, columns, depth, .. } = product;
        let (left, right) = (layout(&product.left, rows, depth)?, layout(&product.right, depth, columns)?);
        let result = layout(&product.result, rows, columns)?;
        Ok(Problem { product: *product, operation, left, right, result })
    }

    /// Algorithms for a product with their workspaces, the fastest first by the library's heuristic. Always the same.
    ///
    /// # Errors
    /// The library's message. Some products have no algorithm.
    pub fn candidates(&self, problem: &Problem) -> Result<Vec<(Algorithm, usize)>, String> {
        let api = self.api;
        let mut handle = null_mut();
        // SAFETY: an out-pointer to a handle.
        api.check("cublasLtMatmulPreferenceCreate", unsafe { (api.preference)(&mut handle) })?;
        let preference = Description { handle, destroy: api.preference_destroy };
        let set = |attribute, value: u32| preference.set(api, api.preference_set, attribute, &value);
        preference.set(api, api.preference_set, attribute::MAX_WORKSPACE_BYTES, &(MAX_WORKSPACE_BYTES as u64))?;
        set(attribute::REDUCTION_SCHEMES, COMPUTE_TYPE)?;
        let Product { left, right, result, .. } = &problem.product;
        for (attribute, side) in attribute::ALIGNMENTS.into_iter().zip([left, right, result, result]) {
            set(attribute, side.alignment as u32)?;
        }
        let (mut found, mut count) = ([NO_HEURISTIC; CANDIDATES], 0);
        // SAFETY: descriptions of this library, and space for this many results.
        let asked = unsafe {
            (api.heuristic)(
                self.handle,
                problem.operation.handle,
                problem.left.handle,
                problem.right.handle,
                problem.result.handle,
                problem.result.handle,
                preference.handle,
                CANDIDATES as i32,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        api.check("cublasLtMatmulAlgoGetHeuristic", asked)?;
        let found = found.iter().take(count.max(0) as usize).filter(|h| h.state == SUCCESS);
        Ok(found.filter(|h| self.is_allowed(h)).map(|h| (h.algorithm, h.workspace)).collect())
    }

    /// Whether an algorithm adds split sums as promised, and fits the maximum workspace.
    fn is_allowed(&self, found: &Heuristic) -> bool {
        let (mut scheme, mut written) = (u32::MAX, 0);
        // SAFETY: an algorithm of this library, and an out-pointer to a number of this many bytes.
        let asked = unsafe {
            let place = (&raw mut scheme).cast();
            (self.api.algorithm_get)(&found.algorithm, attribute::ALGORITHM_REDUCTION, place, 4, &mut written)
        };
        asked == SUCCESS && [0, COMPUTE_TYPE].contains(&scheme) && found.workspace <= MAX_WORKSPACE_BYTES
    }

    /// Bytes of workspace of a stored algorithm; `None` where it is not valid for this product on this device.
    pub fn workspace(&self, problem: &Problem, algorithm: &Algorithm) -> Option<usize> {
        let mut result = NO_HEURISTIC;
        // SAFETY: descriptions of this library, and an out-pointer to a result. The call checks the algorithm.
        let asked = unsafe {
            (self.api.check)(
                self.handle,
                problem.operation.handle,
                problem.left.handle,
                problem.right.handle,
                problem.result.handle,
                problem.result.handle,
                algorithm,
                &mut result,
            )
        };
        result.algorithm = *algorithm;
        (asked == SUCCESS && result.state == SUCCESS && self.is_allowed(&result)).then_some(result.workspace)
    }

    /// Submits a product of the matrices at `left`, `right` and `result` to a stream of the current context, with a
    /// workspace of `workspace` bytes.
    ///
    /// # Errors
    /// The library's message.
    ///
    /// # Safety
    /// The addresses are of device memory that covers the product's layouts, and the stream is one of the current
    /// context.
    pub unsafe fn multiply(
        &self,
        problem: &Problem,
        (algorithm, workspace): (&Algorithm, usize),
        [left, right, result, work]: [u64; 4],
        stream: usize,
    ) -> Result<(), String> {
        // Scale factors have the type of the product's scale.
        let (one, zero) = ((1f32, 1f64), (0f32, 0f64));
        let pick = |v: &(f32, f64)| -> *const c_void {
            if problem.product.dtype == DType::F64 { from_ref(&v.1).cast() } else { from_ref(&v.0).cast() }
        };
        let at = |address: u64| address as usize as *mut c_void;
        // SAFETY: the caller's promise; descriptions and algorithm are of this library and match each other. The result
        // is not read, since it is multiplied by 0.
        let put = unsafe {
            (self.api.multiply)(
                self.handle,
                problem.operation.handle,
                pick(&one),
                at(left),
                problem.left.handle,
                at(right),
                problem.right.handle,
                pick(&zero),
                at(result),
                problem.result.handle,
                at(result),
                problem.result.handle,
                algorithm,
                at(work),
                workspace,
                stream as Opaque,
            )
        };
        self.api.check("cublasLtMatmul", put)
    }
}
