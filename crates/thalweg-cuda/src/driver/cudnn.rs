//! Bindings to cuDNN, NVIDIA's library of convolutions, by its graph interface (version 9).
//!
//! In: a [`Convolution`]. Out: an execution plan for it, and its launches on a stream. Types and constants are those of
//! cudnn_graph.h. An operation graph has one operation; the library's heuristic names engines for it, the fastest first.
//!
//! Always true: an engine from here computes in f32 (or TF32 where permitted), and adds sums in a fixed order unless any
//! order is permitted. So its bits depend on the engine alone.

use super::functions::functions;
use crate::find::Sought;
use crate::tunable::TUNABLES;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_ir::{Convolution, ConvolutionPass, ConvolutionTensor, DType};

/// Alignment of operands in bytes that plans rely on.
pub const ALIGNMENT: usize = 16;
/// Time after the first plan of a convolution after which no further engine is planned.
const PLANNING: Duration = Duration::from_millis(50);

type Status = i32;
const SUCCESS: Status = 0;
type Opaque = *mut c_void;

functions! {
    create: "cudnnCreate" (*mut Opaque);
    destroy: "cudnnDestroy" (Opaque);
    stream: "cudnnSetStream" (Opaque, Opaque);
    descriptor: "cudnnBackendCreateDescriptor" (i32, *mut Opaque);
    descriptor_destroy: "cudnnBackendDestroyDescriptor" (Opaque);
    finalize: "cudnnBackendFinalize" (Opaque);
    set: "cudnnBackendSetAttribute" (Opaque, i32, i32, i64, *const c_void);
    get: "cudnnBackendGetAttribute" (Opaque, i32, i32, i64, *mut i64, *mut c_void);
    execute: "cudnnBackendExecute" (Opaque, Opaque, Opaque);
    text: "cudnnGetErrorString" (Status) -> *const c_char;
    version: "cudnnGetVersion" () -> usize;
}

/// Kinds of descriptors (`cudnnBackendDescriptorType_t`).
mod kind {
    pub const CONVOLUTION: i32 = 1;
    pub const ENGINE: i32 = 2;
    pub const ENGINE_CONFIG: i32 = 3;
    pub const HEURISTIC: i32 = 4;
    pub const PLAN: i32 = 5;
    pub const FORWARD: i32 = 10;
    pub const WEIGHT_GRADIENT: i32 = 11;
    pub const INPUT_GRADIENT: i32 = 12;
    pub const GRAPH: i32 = 15;
    pub const VARIANT_PACK: i32 = 16;
    pub const TENSOR: i32 = 17;
}

/// Attributes of descriptors (`cudnnBackendAttributeName_t`).
mod attribute {
    pub const COMPUTE_TYPE: i32 = 100;
    pub const MODE: i32 = 101;
    pub const DILATIONS: i32 = 102;
    pub const STRIDES: i32 = 103;
    pub const PADDING_AFTER: i32 = 104;
    pub const PADDING_BEFORE: i32 = 105;
    pub const AXES: i32 = 106;
    pub const HEURISTIC_MODE: i32 = 200;
    pub const HEURISTIC_GRAPH: i32 = 201;
    pub const HEURISTIC_RESULTS: i32 = 202;
    pub const CONFIG_ENGINE: i32 = 300;
    pub const PLAN_HANDLE: i32 = 400;
    pub const PLAN_CONFIG: i32 = 401;
    pub const PLAN_WORKSPACE: i32 = 402;
    /// First attribute of a convolution operation, by pass; alpha, beta and the convolution follow it in that order.
    pub const FORWARD: i32 = 700;
    pub const INPUT_GRADIENT: i32 = 706;
    pub const WEIGHT_GRADIENT: i32 = 712;
    pub const GRAPH_HANDLE: i32 = 800;
    pub const GRAPH_OPERATIONS: i32 = 801;
    pub const ALIGNMENT: i32 = 900;
    pub const DTYPE: i32 = 901;
    pub const DIMENSIONS: i32 = 902;
    pub const TENSOR_STRIDES: i32 = 903;
    pub const ID: i32 = 906;
    pub const PACK_IDS: i32 = 1000;
    pub const PACK_ADDRESSES: i32 = 1001;
    pub const PACK_WORKSPACE: i32 = 1003;
    pub const ENGINE_NUMERICAL_NOTES: i32 = 1303;
    pub const ENGINE_BEHAVIOUR_NOTES: i32 = 1305;
}

/// Types of attributes (`cudnnBackendAttributeType_t`).
mod ty {
    pub const HANDLE: i32 = 0;
    pub const DTYPE: i32 = 1;
    pub const INT64: i32 = 3;
    pub const FLOAT: i32 = 4;
    pub const ADDRESS: i32 = 6;
    pub const CONVOLUTION_MODE: i32 = 7;
    pub const HEURISTIC_MODE: i32 = 8;
    pub const NUMERICAL_NOTE: i32 = 11;
    pub const DESCRIPTOR: i32 = 15;
    pub const BEHAVIOUR_NOTE: i32 = 19;
}

/// Heuristics (`cudnnBackendHeurMode_t`).
mod heuristic {
    pub const INSTANT: i32 = 0;
    pub const FALLBACK: i32 = 2;
    pub const BEST: i32 = 3;
}

/// Numerical notes of an engine (`cudnnBackendNumericalNote_t`), and one of its behaviour
/// (`cudnnBackendBehaviorNote_t`).
mod note {
    pub const TENSOR_CORE: i32 = 0;
    pub const DOWN_CONVERT_INPUTS: i32 = 1;
    pub const REDUCED_PRECISION_REDUCTION: i32 = 2;
    pub const NONDETERMINISTIC: i32 = 4;
    pub const RUNTIME_COMPILATION: i32 = 0;
    /// Number of kinds of notes that are read.
    pub const COUNT: usize = 16;
}

impl Api {
    fn check(&self, call: &str, status: Status) -> Result<(), String> {
        if status == SUCCESS { Ok(()) } else { Err(self.failure(call, status)) }
    }

    #[cold]
    fn failure(&self, call: &str, status: Status) -> String {
        // SAFETY: it accepts any number, and its texts are zero-terminated and static.
        let text = unsafe { CStr::from_ptr((self.text)(status)) };
        format!("{call}: {} (status {status})", text.to_string_lossy())
    }
}

/// The opened library, with a handle for one device. A handle serves one thread at a time.
pub struct Cudnn {
    api: &'static Api,
    handle: Mutex<Handle>,
}

struct Handle(Opaque);

// SAFETY: by its documentation a handle may be used on several threads, one at a time.
unsafe impl Send for Handle {}

impl std::fmt::Debug for Cudnn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cudnn({})", self.version())
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: created in `new`, and nobody uses it any more.
        unsafe { (self.api.destroy)(handle.0) };
    }
}

/// Descriptor that the library created; destroyed when dropped.
struct Descriptor {
    api: &'static Api,
    handle: Opaque,
}

// SAFETY: descriptors are plain memory of the library; nothing changes them once they are finalized.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: created by the library, and nobody uses it any more.
        unsafe { (self.api.descriptor_destroy)(self.handle) };
    }
}

impl Descriptor {
    fn new(api: &'static Api, kind: i32) -> Result<Descriptor, String> {
        let mut handle = null_mut();
        // SAFETY: an out-pointer to a handle.
        api.check("cudnnBackendCreateDescriptor", unsafe { (api.descriptor)(kind, &mut handle) })?;
        Ok(Descriptor { api, handle })
    }

    /// Sets an attribute to a list of values; `T` must be the type that `ty` names.
    fn set<T>(&self, attribute: i32, ty: i32, values: &[T]) -> Result<(), String> {
        // SAFETY: this many values, which are copied in the call.
        let done = unsafe { (self.api.set)(self.handle, attribute, ty, values.len() as i64, values.as_ptr().cast()) };
        self.api.check("cudnnBackendSetAttribute", done)
    }

    /// Sets an attribute to another descriptor, which must outlive this one's use.
    fn refer(&self, attribute: i32, other: &Descriptor) -> Result<(), String> {
        self.set(attribute, ty::DESCRIPTOR, &[other.handle])
    }

    fn finalize(&self) -> Result<(), String> {
        // SAFETY: a descriptor of this library.
        self.api.check("cudnnBackendFinalize", unsafe { (self.api.finalize)(self.handle) })
    }

    /// Reads an attribute into `values`; the number of values that there are.
    fn get<T>(&self, attribute: i32, ty: i32, values: &mut [T]) -> Result<usize, String> {
        let mut count = 0;
        // SAFETY: space for this many values of the type that `ty` names, and an out-pointer to a number.
        let asked = unsafe {
            let place = values.as_mut_ptr().cast();
            (self.api.get)(self.handle, attribute, ty, values.len() as i64, &mut count, place)
        };
        self.api.check("cudnnBackendGetAttribute", asked)?;
        Ok((count.max(0) as usize).min(values.len()))
    }
}

/// Execution plan of a convolution.
pub struct ConvolutionPlan {
    plan: Descriptor,
    /// Bytes of workspace that a launch needs.
    pub workspace: usize,
    /// Engine of the plan.
    _config: Descriptor,
    /// Descriptors that it refers to: the operation with its tensors, and the graph.
    _described: Arc<(Vec<Descriptor>, Descriptor)>,
}

impl std::fmt::Debug for ConvolutionPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConvolutionPlan({} bytes of workspace)", self.workspace)
    }
}

/// Id of a tensor in plans.
fn id(tensor: ConvolutionTensor) -> i64 {
    match tensor {
        ConvolutionTensor::Input => 1,
        ConvolutionTensor::Weights => 2,
        ConvolutionTensor::Result => 3,
    }
}

/// Code of a dtype (`cudnnDataType_t`).
fn code(dtype: DType) -> Option<i32> {
    match dtype {
        DType::F32 => Some(0),
        DType::F16 => Some(2),
        DType::BF16 => Some(9),
        _ => None,
    }
}

impl Cudnn {
    /// Opens the library for the device whose context is current.
    ///
    /// # Errors
    /// Package to install where the library is missing, or the library's message.
    pub fn new(at_most: u32) -> Result<Cudnn, String> {
        let api = Api::get(Sought::Cudnn, at_most)?;
        let mut handle = null_mut();
        // SAFETY: an out-pointer to a handle; a context is current.
        api.check("cudnnCreate", unsafe { (api.create)(&mut handle) })?;
        Ok(Cudnn { api, handle: Mutex::new(Handle(handle)) })
    }

    /// Version of the library in its own numbering.
    pub fn version(&self) -> usize {
        // SAFETY: it may be called at any time.
        unsafe { (self.api.version)() }
    }

    /// Plans a convolution by up to `most` engines of the library's heuristics that compute as required, the fastest first
    /// by their estimate.
    ///
    /// # Errors
    /// The library's message. Some convolutions have no engine.
    pub fn plans(&self, c: &Convolution, most: usize) -> Result<Vec<ConvolutionPlan>, String> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = self.operation(c)?;
        let graph = Descriptor::new(self.api, kind::GRAPH)?;
        graph.refer(attribute::GRAPH_OPERATIONS, &operation[0])?;
        graph.set(attribute::GRAPH_HANDLE, ty::HANDLE, &[handle.0])?;
        graph.finalize()?;
        let described = Arc::new((operation, graph));
        let (mut found, mut refused, mut first) = (vec![], "no engine".to_string(), None);
        for mode in [heuristic::INSTANT, heuristic::BEST, heuristic::FALLBACK] {
            // A heuristic takes as long as a plan: it is asked only if more engines are wanted.
            if found.len() >= most || mode == heuristic::FALLBACK && !found.is_empty() {
                break;
            }
            // Half of the candidates from each of the first two, as they differ.
            let most = if mode == heuristic::INSTANT { most.div_ceil(2) } else { most };
            let configs = match self.configs(&described.1, mode) {
                Ok(configs) => configs,
                Err(why) => {
                    refused = why;
                    continue;
                }
            };
            for config in configs {
                if found.len() >= most || first.is_some_and(|at: Instant| at.elapsed() > PLANNING) {
                    break;
                }
                match self.planned(c, &handle, config, !found.is_empty()) {
                    Ok((plan, workspace, config)) => {
                        first.get_or_insert_with(Instant::now);
                        found.push(ConvolutionPlan { plan, workspace, _config: config, _described: described.clone() });
                    }
                    Err(why) => refused = why,
                }
            }
        }
        if found.is_empty() { Err(refused) } else { Ok(found) }
    }

    /// Engines that a heuristic names for an operation graph, the fastest first.
    fn configs(&self, graph: &Descriptor, mode: i32) -> Result<Vec<Descriptor>, String> {
        let heuristic = Descriptor::new(self.api, kind::HEURISTIC)?;
        heuristic.refer(attribute::HEURISTIC_GRAPH, graph)?;
        heuristic.set(attribute::HEURISTIC_MODE, ty::HEURISTIC_MODE, &[mode])?;
        heuristic.finalize()?;
        // Without values to write, the library returns their number.
        let mut count = 0i64;
        // SAFETY: an out-pointer to a number.
        let asked = unsafe {
            let (results, ty) = (attribute::HEURISTIC_RESULTS, ty::DESCRIPTOR);
            (self.api.get)(heuristic.handle, results, ty, 0, &mut count, null_mut())
        };
        self.api.check("cudnnBackendGetAttribute", asked)?;
        let configs: Result<Vec<Descriptor>, String> =
            (0..count).map(|_| Descriptor::new(self.api, kind::ENGINE_CONFIG)).collect();
        let mut configs = configs?;
        let mut handles: Vec<Opaque> = configs.iter().map(|d| d.handle).collect();
        let count = heuristic.get(attribute::HEURISTIC_RESULTS, ty::DESCRIPTOR, &mut handles)?;
        configs.truncate(count);
        Ok(configs)
    }

    /// Execution plan of an engine, with its workspace, if the engine computes as required. `compiled`: only if the library
    /// need not compile it first.
    fn planned(
        &self,
        c: &Convolution,
        handle: &Handle,
        config: Descriptor,
        compiled: bool,
    ) -> Result<(Descriptor, usize, Descriptor), String> {
        let engine = Descriptor::new(self.api, kind::ENGINE)?;
        config.get(attribute::CONFIG_ENGINE, ty::DESCRIPTOR, &mut [engine.handle])?;
        let mut notes = [-1i32; note::COUNT];
        let count = engine.get(attribute::ENGINE_NUMERICAL_NOTES, ty::NUMERICAL_NOTE, &mut notes)?;
        let has = |note: i32| notes[..count].contains(&note);
        if has(note::DOWN_CONVERT_INPUTS) || has(note::REDUCED_PRECISION_REDUCTION) {
            return Err("an engine with less precision".into());
        }
        if c.dtype == DType::F32 && !c.routine.tf32 && has(note::TENSOR_CORE) {
            return Err("an engine that rounds to TF32".into());
        }
        if !c.routine.any_order && has(note::NONDETERMINISTIC) {
            return Err("an engine that adds in any order".into());
        }
        let mut behaviours = [-1i32; note::COUNT];
        let count = engine.get(attribute::ENGINE_BEHAVIOUR_NOTES, ty::BEHAVIOUR_NOTE, &mut behaviours)?;
        if compiled && behaviours[..count].contains(&note::RUNTIME_COMPILATION) {
            return Err("an engine that is compiled first".into());
        }
        let plan = Descriptor::new(self.api, kind::PLAN)?;
        plan.set(attribute::PLAN_HANDLE, ty::HANDLE, &[handle.0])?;
        plan.refer(attribute::PLAN_CONFIG, &config)?;
        plan.finalize()?;
        let mut workspace = [0i64];
        plan.get(attribute::PLAN_WORKSPACE, ty::INT64, &mut workspace)?;
        let workspace = workspace[0].max(0) as usize;
        if !TUNABLES.max_convolution_workspace.admits(workspace) {
            return Err(format!("an engine that needs {workspace} bytes of workspace"));
        }
        Ok((plan, workspace, config))
    }

    /// Operation of a convolution, and the descriptors that it refers to.
    fn operation(&self, c: &Convolution) -> Result<Vec<Descriptor>, String> {
        let dtype = code(c.dtype).ok_or_else(|| format!("no convolutions of {}", c.dtype))?;
        // Windows over one axis slide over a second one of one element.
        let with_axis = |values: Vec<i64>, filler| if values.len() == 1 { vec![filler, values[0]] } else { values };
        let along = |f: fn(&thalweg_ir::ConvolutionAxis) -> usize, filler| {
            with_axis(c.axes().iter().map(|a| f(a) as i64).collect(), filler)
        };
        let convolution = Descriptor::new(self.api, kind::CONVOLUTION)?;
        convolution.set(attribute::COMPUTE_TYPE, ty::DTYPE, &[0i32])?;
        // Cross-correlation.
        convolution.set(attribute::MODE, ty::CONVOLUTION_MODE, &[1i32])?;
        convolution.set(attribute::AXES, ty::INT64, &[c.routine.axes.max(2) as i64])?;
        convolution.set(attribute::STRIDES, ty::INT64, &along(|a| a.stride, 1))?;
        convolution.set(attribute::DILATIONS, ty::INT64, &along(|a| a.dilation, 1))?;
        convolution.set(attribute::PADDING_BEFORE, ty::INT64, &along(|a| a.padding[0], 0))?;
        convolution.set(attribute::PADDING_AFTER, ty::INT64, &along(|a| a.padding[1], 0))?;
        convolution.finalize()?;
        let (operation, first) = match c.routine.pass {
            ConvolutionPass::Forward => (kind::FORWARD, attribute::FORWARD),
            ConvolutionPass::InputGradient => (kind::INPUT_GRADIENT, attribute::INPUT_GRADIENT),
            ConvolutionPass::WeightGradient => (kind::WEIGHT_GRADIENT, attribute::WEIGHT_GRADIENT),
        };
        let operation = Descriptor::new(self.api, operation)?;
        operation.set(first, ty::FLOAT, &[1f32])?;
        operation.set(first + 1, ty::FLOAT, &[0f32])?;
        operation.refer(first + 2, &convolution)?;
        let mut kept = vec![convolution];
        use ConvolutionTensor::{Input, Result as Output, Weights};
        for (i, tensor) in [Weights, Input, Output].into_iter().enumerate() {
            let described = self.tensor(c, tensor, dtype)?;
            operation.refer(first + 3 + i as i32, &described)?;
            kept.push(described);
        }
        operation.finalize()?;
        kept.insert(0, operation);
        Ok(kept)
    }

    fn tensor(&self, c: &Convolution, tensor: ConvolutionTensor, dtype: i32) -> Result<Descriptor, String> {
        let mut shape: Vec<i64> = c.shape(tensor).into_iter().map(|n| n as i64).collect();
        if shape.len() == 3 {
            shape.insert(2, 1);
        }
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if c.routine.channels_last {
            order[1..].rotate_left(1);
        }
        let (mut strides, mut step) = (vec![0; shape.len()], 1);
        for &i in order.iter().rev() {
            strides[i] = step;
            step *= shape[i];
        }
        let described = Descriptor::new(self.api, kind::TENSOR)?;
        described.set(attribute::DTYPE, ty::DTYPE, &[dtype])?;
        described.set(attribute::DIMENSIONS, ty::INT64, &shape)?;
        described.set(attribute::TENSOR_STRIDES, ty::INT64, &strides)?;
        described.set(attribute::ID, ty::INT64, &[id(tensor)])?;
        described.set(attribute::ALIGNMENT, ty::INT64, &[ALIGNMENT as i64])?;
        described.finalize()?;
        Ok(described)
    }

    /// Submits a convolution to a stream of the current context. `addresses` are those of both operands, the result and
    /// the workspace.
    ///
    /// # Errors
    /// The library's message.
    ///
    /// # Safety
    /// The addresses are of device memory that covers the convolution's tensors and a workspace of the plan's size, and
    /// the stream is one of the current context.
    pub unsafe fn convolve(
        &self,
        (plan, c): (&ConvolutionPlan, &Convolution),
        addresses: [u64; 4],
        stream: usize,
    ) -> Result<(), String> {
        let [first, second, result, workspace] = addresses.map(|a| a as usize as *mut c_void);
        let pack = Descriptor::new(self.api, kind::VARIANT_PACK)?;
        pack.set(attribute::PACK_IDS, ty::INT64, &c.routine.pass.tensors().map(id))?;
        pack.set(attribute::PACK_ADDRESSES, ty::ADDRESS, &[first, second, result])?;
        pack.set(attribute::PACK_WORKSPACE, ty::ADDRESS, &[workspace])?;
        pack.finalize()?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a stream of the current context.
        self.api.check("cudnnSetStream", unsafe { (self.api.stream)(handle.0, stream as Opaque) })?;
        // SAFETY: the caller's promise; plan and pack are of this library.
        let put = unsafe { (self.api.execute)(handle.0, plan.plan.handle, pack.handle) };
        self.api.check("cudnnBackendExecute", put)
    }
}
