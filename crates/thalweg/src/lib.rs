//! Thalweg: eager tensor code, recorded lazily and run as fused kernels, on CPUs and NVIDIA GPUs.
//!
//! ```
//! use thalweg::prelude::*;
//!
//! fn main() -> Result<(), Error> {
//!     let x = Tensor::randn([1024, 256]);
//!     let weight = Tensor::randn([256]);
//!     let mut y = &x * weight + 1.0;               // nothing has run yet
//!     if y.slice((0, 0)).item::<f32>()? > 0.0 {    // now it has: a value was asked for
//!         y = y.gelu();
//!     }
//!     let rows = y.softmax(-1).sum(1);
//!     println!("{rows}");
//!     rows.write_npy(std::env::temp_dir().join("rows.npy"))
//! }
//! ```
//!
//! [`Tensor`] is the one type: shape, dtype and device are known at run time. Its page lists the methods by topic.
//! Methods record operations on the calling thread's stream and return at once. Reading a value cuts the stream and
//! runs what was recorded with few kernels: chains, diamonds and views fuse, and intermediates that nobody holds are
//! never written to memory. Ordinary Rust control flow stays ordinary.
//!
//! The [guide] has thirteen short chapters, and tables for users of [NumPy](guide::from_numpy),
//! [PyTorch](guide::from_pytorch) and [ndarray](guide::from_ndarray).
//!
//! # Rules
//! - **Broadcasting** follows NumPy. **Negative axes** count from the end. Reductions take one axis, several, or all
//!   (`..`).
//! - **No type promotion between tensors**: `f32 + f64` panics and names `.cast(...)`. A number takes the tensor's
//!   dtype, and panics if the dtype cannot hold it (`2.5` in `i32`).
//! - **Mistakes panic** at the caller's line, with the operation's name and both shapes or dtypes; nothing recorded is
//!   lost.
//! - **Failures are results**: out of memory, failed devices, bad files and indices out of range give an [`Error`]
//!   where a value is read.
//! - **Creation** from data keeps the data's dtype; from a rule it is f32 on [`Device::default`], and the variant with
//!   the suffix `_with` takes a dtype, a device or both ([`Options`]).
//!
//! # Features
//! - `ndarray`: conversion from and to `ndarray` arrays.
//! - `linalg`: matrix decompositions and solvers (`cholesky`, `svd`, `eigh`, `solve` …).
//! - `fft`: Fourier transforms (`rfft`, `fft2`, `irfft` …), of and to [`Complex`] numbers.
//! - `safetensors`, `npz`, `csv`: files of weights, NumPy's archives, tables as text.

// rustdoc lists the methods of `Tensor` in the order of these modules, so they are ordered by topic. Blank lines keep
// rustfmt from sorting them.

mod tensor;

// Creation.
mod create;
mod frequencies;
mod grids;
mod signal;

// Shape and views.
mod views;

mod bitcast;
mod join;
mod pad;

// Indexing.
mod slice;

mod assign;
mod gather;
mod scatter;

// Arithmetic and comparisons.
mod elementwise;

mod activation;
mod arithmetic;
mod calculus;
mod powers;
mod special;

// Reductions.
mod reduce;

mod histogram;
mod nan;
mod quantile;
mod statistics;

// Scans, sorting, searching.
mod scan;
mod sets;
mod sort;

// Linear algebra.
mod matmul;

mod einsum;
#[cfg(feature = "fft")]
mod fft;
#[cfg(feature = "linalg")]
mod linalg;
mod matrices;

// Normalization, attention, losses.
mod normalize;

mod attention;
mod loss;

// Convolution and pooling.
mod conv;
mod interpolate;
mod pool;

// Random numbers, gradients, transfer.
mod random;

mod grad;

mod transfer;

// Reading and display.
mod read;

mod display;
mod io;
#[cfg(feature = "ndarray")]
mod ndarray;
mod reading;
mod rows;

// Everything else.
mod axes;
mod capture;
mod combine;
pub mod communication;
mod complex;
#[cfg(feature = "cuda")]
pub mod cuda;
mod cuda_op;
mod device;
mod element;
mod external;
pub mod guide;
mod host;
#[cfg(any(feature = "linalg", feature = "fft"))]
mod host_threads;
pub mod kernel;
mod mistake;
mod mode;
mod node;
mod observe;
mod opaque;
mod operand;
pub mod prelude;
#[doc(hidden)]
pub mod raw;
mod record;
mod recorded;
mod sweep;
mod tape;
#[doc(hidden)]
pub mod tunable;
#[cfg(feature = "wgpu")]
pub mod wgpu;
mod windows;

pub use assign::{SliceMut, SlicePart};
pub use attention::Attention;
pub use axes::{Axes, Axis, Index, Sizes};
pub use capture::{Capture, CapturedSegment};
pub use complex::Complex;
pub use conv::{Conv, ConvTranspose};
pub use create::{Options, Progression};
pub use cuda_op::{CudaLaunch, CudaOp};
pub use device::{Device, set_default_device};
pub use display::TextStyle;
pub use element::{Data, Element};
pub use external::TensorMemory;
#[cfg(feature = "fft")]
pub use fft::{Fft, FftNorm};
pub use grad::{
    Backward, Form, Gradients, InputGradients, Inputs, Results, checkpoint, custom_grad, grad, grad_graph, hessian,
    is_recomputing, jacobian, jvp, no_grad, retain_graph, vjp,
};
pub use grids::Indexing;
pub use half::{bf16, f16};
pub use histogram::{Bins, Histogram};
pub use host::{HostInput, HostOp, HostOutput};
pub use interpolate::Interpolation;
#[cfg(feature = "csv")]
pub use io::csv::{Csv, CsvOptions};
#[cfg(feature = "npz")]
pub use io::npz::{Npz, write_npz};
#[cfg(feature = "safetensors")]
pub use io::safetensors::{Safetensors, safetensors_bytes, write_safetensors};
#[cfg(feature = "linalg")]
pub use linalg::MatrixNorm;
pub use loss::{ClassLoss, Reduction};
pub use matmul::Contracted;
pub use mistake::{MistakeKind, take_mistake_kind};
pub use mode::{
    flush, set_atomic_sums, set_convolution_precision, set_deferring, set_matmul_precision, set_measuring,
    set_recomputing, set_reproducible, set_search_effort, set_tiers, synchronize, with_fusion, with_precision,
    with_strict,
};
pub use observe::{accuracy, explain, explain_steady, launch_times, tier_runs, with_reference};
pub use operand::{IntoOperand, Operand};
pub use pad::Border;
pub use pool::Pool;
pub use quantile::{QuantileMethod, Quantiles};
pub use random::{Generator, manual_seed, random_state, set_random_state};
pub use reading::Reading;
pub use rows::Rows;
pub use scatter::ScatterOp;
pub use slice::{By, SliceArg, SliceArgs};
pub use sweep::{Each, Padding};
pub use tensor::{Tensor, TensorId};
pub use thalweg_cpu::math::accuracy::Accuracy;
pub use thalweg_cpu::{Bandwidth, Choice as CpuEngine, CpuOptions};
pub use thalweg_fusion::{
    Candidate, CostFeatures, Costs, EdgeReport, Effort, Explanation, KernelReport, OperationReport, SegmentReport,
    Totals,
};
pub use thalweg_ir::{DType, FloatInfo, MAX_RANK, Scalar, Shape};
pub use thalweg_kernel::Residence;
pub use thalweg_macros::kernel;
pub use thalweg_runtime::{Counters, Error, MemoryStats, counters, disk, environment, trace};
pub use thalweg_stream::{
    MatmulPrecision, PlanStoreStats, calibrated, clear_plans, finish_further_searches, finish_searches, plan_store,
};
pub use thalweg_stream::{Tier, TierRun};
