//! User-defined operations in CUDA C++.
//!
//! In: a source with a named entry, the shapes and dtypes of its results, and its launch. Out: ordinary tensors. Always
//! true: a call is recorded like other operations, does not cut the stream, and is one launch. Everything but the
//! operands' values is known when it is recorded, so a mistake panics at the caller's line. A source that does not
//! compile is an error of the read.

use crate::grad::{Backward, InputGradients, Inputs, Results};
use crate::opaque::{self, Back, Outputs};
use crate::{DType, Device, Shape, Tensor};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_ir::{Foreign, ForeignCode, ForeignLaunch, ForeignSource, MAX_ARGS, Op, Scalar};
use thalweg_stream::{self as stream, Counted, Site, Value};

type Launches = dyn Fn(&[Tensor]) -> CudaLaunch + Send + Sync;
type Reference = dyn Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync;

/// User-defined operation with a source in CUDA C++, like a PyTorch C++/CUDA extension.
///
/// The entry is a `__global__` function. Its parameters are pointers to the operands (row-major), pointers to the
/// results, then the [sizes](CudaLaunch::size) and [numbers](CudaLaunch::number) of the launch. A pointer has its
/// tensor's dtype (for bf16 and f16, any two-byte type); other types do not compile. The entry writes every element of
/// its results, and nothing else. It may use shared memory, barriers, atomics and inline PTX. Dynamic shared memory
/// named by `THALWEG_SHARED(name)` also works on the emulated GPU.
///
/// It is opaque: nothing fuses into it, and its cost is its own launch. The operations around it are planned as usual
/// and fuse among themselves. NVRTC compiles it at its first run, and the binary is cached on disk. A source that does
/// not compile is the error of the read ([`Error::Host`](crate::Error::Host)), with the compiler's message and the line
/// of the call. It runs only if a result is needed, so it should be a pure function of its operands.
///
/// ```
/// # use thalweg::{CudaLaunch, CudaOp, Tensor};
/// let twice = CudaOp::new(
///     "twice",
///     r#"extern "C" __global__ void twice(const float *x, float *y, int n) {
///            int i = blockIdx.x * blockDim.x + threadIdx.x;
///            if (i < n) y[i] = 2 * x[i];
///        }"#,
///     "twice",
///     |x: &[Tensor]| [(*x[0].shape(), x[0].dtype())],
///     |x| CudaLaunch::linear(x[0].numel(), 256).size(x[0].numel()),
/// )
/// .reference(|x| &x[0] * 2.0);
/// let x = Tensor::new([1.0f32, 2.0]);
/// assert_eq!((twice.on(&(&x + 1.0)) * 10.0).to_vec::<f32>()?, [40.0, 60.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
pub struct CudaOp {
    name: &'static str,
    text: Arc<str>,
    entry: &'static str,
    outputs: Arc<Outputs>,
    launch: Arc<Launches>,
    reference: Option<Arc<Reference>>,
    backward: Option<Arc<Back>>,
    /// The interned sources of earlier calls, so that the text is not hashed for each call.
    known: Arc<Mutex<Vec<Foreign>>>,
}

/// Launch of a [`CudaOp`]: grid, block, and the arguments of its entry after the tensors.
#[derive(Clone, PartialEq, Debug)]
pub struct CudaLaunch {
    grid: [usize; 3],
    block: [u32; 3],
    shared: u32,
    additions: Option<u64>,
    sizes: Vec<i64>,
    numbers: Vec<Scalar>,
}

/// Maximum number of sizes that an entry takes.
const MAX_SIZES: usize = 32;

impl CudaLaunch {
    /// A grid of blocks along x, y and z, each of `block` threads.
    pub fn new(grid: [usize; 3], block: [u32; 3]) -> CudaLaunch {
        CudaLaunch { grid, block, shared: 0, additions: None, sizes: vec![], numbers: vec![] }
    }

    /// The one-dimensional grid of blocks of `threads` threads that covers `n`.
    ///
    /// # Panics
    /// When `threads` is 0.
    #[track_caller]
    pub fn linear(n: usize, threads: u32) -> CudaLaunch {
        assert!(threads > 0, "CudaLaunch::linear: a block has at least one thread");
        CudaLaunch::new([n.div_ceil(threads as usize), 1, 1], [threads, 1, 1])
    }

    /// Adds an integer as the next argument of the entry. Like the sizes of tensors, it is part of the plan's sizes.
    ///
    /// # Panics
    /// When it exceeds a signed 64-bit integer.
    #[track_caller]
    pub fn size(mut self, n: usize) -> CudaLaunch {
        self.sizes.push(i64::try_from(n).expect("a size has 63 bits"));
        self
    }

    /// Adds a float or an integer as the next argument of the entry, after all sizes. It is passed as double or long
    /// long and converted to the parameter's type; a u64 above `i64::MAX` is passed by its bits, which an
    /// `unsigned long long` takes unchanged. Calls with other numbers share the plan. There are at most eight operands
    /// and numbers together.
    pub fn number(mut self, value: impl Into<Scalar>) -> CudaLaunch {
        self.numbers.push(value.into());
        self
    }

    /// Sets the bytes of dynamic shared memory of a block.
    pub fn shared(self, bytes: u32) -> CudaLaunch {
        CudaLaunch { shared: bytes, ..self }
    }

    /// Sets the arithmetic, in additions of f32, for the cost model. Memory traffic is taken from the tensors.
    pub fn cost(self, additions: u64) -> CudaLaunch {
        CudaLaunch { additions: Some(additions), ..self }
    }

    /// The launch in the form that is recorded.
    ///
    /// # Panics
    /// When no GPU can launch it.
    #[track_caller]
    fn checked(&self, name: &str, nothing: bool) -> ForeignLaunch {
        let ([x, y, z], threads) = (self.grid, self.block.iter().map(|&b| u64::from(b)).product::<u64>());
        let few = x <= i32::MAX as usize && y <= 65_535 && z <= 65_535;
        if !few || !nothing && x * y * z == 0 {
            panic!(
                "{name}: its launch has {x} x {y} x {z} blocks; there are at least one, and at most 2147483647, 65535 and 65535"
            );
        }
        let [_, _, deep] = self.block;
        if threads == 0 || threads > 1024 || deep > 64 {
            panic!("{name}: its blocks have {:?} threads; a block has 1 to 1024, at most 64 along z", self.block);
        }
        if self.sizes.len() > MAX_SIZES {
            panic!("{name}: it is given {} sizes; there are at most {MAX_SIZES}", self.sizes.len());
        }
        let grid = self.grid.map(|n| n as u32);
        ForeignLaunch { grid, block: self.block, shared: self.shared, additions: self.additions }
    }
}

impl CudaOp {
    /// An operation with a name (for error messages), its source, the entry to launch, a function from the operands to
    /// the shape and dtype of each result, and a function from the operands to the launch. Neither function may look at
    /// values.
    pub fn new<O, S>(
        name: &'static str,
        text: impl Into<String>,
        entry: &'static str,
        outputs: impl Fn(&[Tensor]) -> O + Send + Sync + 'static,
        launch: impl Fn(&[Tensor]) -> CudaLaunch + Send + Sync + 'static,
    ) -> CudaOp
    where
        O: IntoIterator<Item = (S, DType)>,
        S: Into<Shape>,
    {
        CudaOp {
            name,
            text: Arc::from(text.into()),
            entry,
            outputs: opaque::outputs(outputs),
            launch: Arc::new(launch),
            reference: None,
            backward: None,
            known: Arc::default(),
        }
    }

    /// Adds a function of tensors with the same results. It is recorded instead on devices without CUDA C++, and under
    /// [`with_reference`](crate::with_reference) for tests. To use a function of slices, call a
    /// [`HostOp`](crate::HostOp) in it.
    pub fn reference<R: Results>(self, f: impl Fn(&[Tensor]) -> R + Send + Sync + 'static) -> CudaOp {
        let all = move |x: &[Tensor]| f(x).tensors().into_iter().cloned().collect();
        CudaOp { reference: Some(Arc::new(all)), ..self }
    }

    /// Adds a backward pass, as that of [`custom_grad`](crate::custom_grad()). Without one, calls with a tracked
    /// operand panic.
    pub fn backward<G: InputGradients>(
        self,
        f: impl Fn(Backward<Vec<Tensor>, Vec<Tensor>>) -> G + Send + Sync + 'static,
    ) -> CudaOp {
        CudaOp { backward: Some(Arc::new(move |b| f(b).list())), ..self }
    }

    /// Records a call with one result.
    ///
    /// # Panics
    /// When it does not have exactly one result, and as [`on_all`](CudaOp::on_all).
    #[track_caller]
    pub fn on<I: Inputs>(&self, inputs: I) -> Tensor {
        opaque::only(self.name, self.on_all(inputs))
    }

    /// Records a call with all its results, which is one launch.
    ///
    /// # Panics
    /// When there is no operand, or more than eight with the numbers; the operands are on different devices, or on one
    /// without CUDA C++ and there is no [`reference`](CudaOp::reference); an operand is tracked and there is no
    /// [`backward`](CudaOp::backward); there is no result, or one is larger than any memory; no GPU can launch it; the
    /// reference returns other shapes or dtypes.
    #[track_caller]
    pub fn on_all<I: Inputs>(&self, inputs: I) -> Vec<Tensor> {
        let (name, from) = (self.name, inputs.tensors().into_iter().cloned().collect::<Vec<Tensor>>());
        let Some(first) = from.first() else { panic!("{name}: it has no operand") };
        from.iter().for_each(|x| crate::record::check_device(name, first, x));
        let (plain, outputs) = opaque::prepare(name, &from, self.backward.is_some(), &*self.outputs);
        if outputs.is_empty() {
            panic!("{name}: it has no result");
        }
        let values = match &self.reference {
            _ if runs_cuda(first.device()) && !stream::mode().reference => self.record(&plain, &outputs),
            Some(reference) => in_place_of(name, &**reference, &plain, &outputs),
            None => panic!(
                "{name}: it is written in CUDA C++, which {} does not run; give it a .reference(..), or move its operands \
                 with .to_device(..)",
                if stream::mode().reference { "the reference interpreter" } else { first.device().name() }
            ),
        };
        opaque::results(name, values, &from, &self.backward)
    }

    /// Records the call as one operation per result.
    #[track_caller]
    fn record(&self, x: &[Tensor], outputs: &[(Shape, DType)]) -> Vec<Arc<Value>> {
        let (name, launch) = (self.name, (self.launch)(x));
        let how = launch.checked(name, outputs.iter().all(|(shape, _)| shape.numel() == 0));
        if x.len() + launch.numbers.len() > MAX_ARGS {
            panic!("{name}: {} operands and {} numbers; there are at most {MAX_ARGS}", x.len(), launch.numbers.len());
        }
        let of = self.interned(x, outputs, &launch);
        let kinds = &of.source().numbers;
        let numbers = launch.numbers.iter().zip(kinds).map(|(n, &dtype)| stream::Operand::Scalar(n.to_bits(dtype)));
        let args: Vec<stream::Operand<'_>> =
            x.iter().map(|x| stream::Operand::Value(&x.value)).chain(numbers).collect();
        let bytes = outputs.iter().map(|(shape, dtype)| (shape.numel() * dtype.size()) as i64);
        let ints: Vec<i64> = how.to_ints().into_iter().chain(launch.sizes.iter().copied()).chain(bytes).collect();
        let (at, device) = (Location::caller(), x[0].value.device());
        let one = |(number, &(shape, dtype)): (usize, &(Shape, DType))| {
            stream::site(Site { name, at, counted: Counted::Plain });
            stream::record(device, Op::Foreign(of), dtype, shape, number as u32, &args, &ints)
        };
        outputs.iter().enumerate().map(one).collect()
    }

    /// Interned source for operands and results of these dtypes.
    fn interned(&self, x: &[Tensor], outputs: &[(Shape, DType)], launch: &CudaLaunch) -> Foreign {
        let kind = |n: &Scalar| if matches!(n, Scalar::Float(_)) { DType::F64 } else { DType::I64 };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |of: &&Foreign| {
            let s = of.source();
            s.sizes == launch.sizes.len()
                && s.operands.iter().copied().eq(x.iter().map(Tensor::dtype))
                && s.results.iter().copied().eq(outputs.iter().map(|o| o.1))
                && s.numbers.iter().copied().eq(launch.numbers.iter().map(kind))
        };
        if let Some(&found) = known.iter().find(same) {
            return found;
        }
        let source = ForeignSource {
            name: self.name.into(),
            code: ForeignCode::Cuda { text: self.text.to_string(), entry: self.entry.into() },
            operands: x.iter().map(Tensor::dtype).collect(),
            results: outputs.iter().map(|o| o.1).collect(),
            sizes: launch.sizes.len(),
            numbers: launch.numbers.iter().map(kind).collect(),
        };
        known.push(source.intern());
        known[known.len() - 1]
    }
}

/// Whether a device compiles CUDA C++.
fn runs_cuda(device: Device) -> bool {
    device.name().starts_with("cuda")
}

/// Computes the results by the Rust reference in place of the source; checks them against the declared shapes and
/// dtypes.
#[track_caller]
fn in_place_of(name: &str, reference: &Reference, x: &[Tensor], outputs: &[(Shape, DType)]) -> Vec<Arc<Value>> {
    let made = reference(x);
    let of: Vec<(Shape, DType)> = made.iter().map(|y| (*y.shape(), y.dtype())).collect();
    if of != outputs {
        let said = |all: &[(Shape, DType)]| all.iter().map(|(s, d)| format!("{d}{s}")).collect::<Vec<_>>().join(", ");
        panic!("{name}: its reference gives {}, where its results are {}", said(&of), said(outputs));
    }
    made.into_iter().map(|y| y.value).collect()
}
