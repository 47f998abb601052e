//! Operations whose source is CUDA C++ of the user's own.
//!
//! In: a text with a named entry, what its results are, how it is launched. Out: tensors like any other. Always true: a
//! call is recorded like other operations, does not cut the stream, and is one launch; what it needs beyond its operands is
//! known when it is recorded, so a mistake in it panics at the caller's line. What does not compile is the error of the read.

use crate::grad::{Backward, InputGradients, Inputs, Results};
use crate::opaque::{self, Back, Outputs};
use crate::{DType, Device, Shape, Tensor};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_ir::{Foreign, ForeignLaunch, ForeignSource, MAX_ARGS, Op, Scalar};
use thalweg_stream::{self as stream, Counted, Site, Value};

type Launches = dyn Fn(&[Tensor]) -> CudaLaunch + Send + Sync;
type Reference = dyn Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync;

/// An operation whose source is CUDA C++.
///
/// The entry is a function marked `__global__`. Its parameters are pointers to the operands, which lie row-major, pointers
/// to the results, then what the launch gives it: [sizes](CudaLaunch::size) and [numbers](CudaLaunch::number). A pointer has
/// its tensor's dtype (bf16 and f16 any type of two bytes); whatever does not fit does not compile. It writes every element
/// of its results, and nothing else. It may use shared memory, barriers, atomics, and inline PTX; dynamic shared memory
/// named by `THALWEG_SHARED(name)` also runs where the host plays a GPU.
///
/// It is opaque: nothing fuses into it, and it costs its own launch and nothing else. What is recorded around it is planned
/// as if it were any other operation, so its neighbours fuse among themselves. It is compiled by NVRTC when it first runs,
/// and kept on disk; a text that does not compile is the error of the read ([`Error::Host`](crate::Error::Host)), with what
/// the compiler said and the line of the call. It runs when a result is needed, and not at all where none is; so it should
/// be a function of its operands.
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
    /// What it was called as: so the text is not hashed for each call.
    known: Arc<Mutex<Vec<Foreign>>>,
}

/// How a [`CudaOp`] is launched: blocks, threads of a block, and what its entry is given behind the tensors.
#[derive(Clone, PartialEq, Debug)]
pub struct CudaLaunch {
    grid: [usize; 3],
    block: [u32; 3],
    shared: u32,
    additions: Option<u64>,
    sizes: Vec<i64>,
    numbers: Vec<Scalar>,
}

/// Sizes and numbers that an entry takes at most.
const MOST_SIZES: usize = 32;

impl CudaLaunch {
    /// So many blocks along x, y and z, of so many threads.
    pub fn new(grid: [usize; 3], block: [u32; 3]) -> CudaLaunch {
        CudaLaunch { grid, block, shared: 0, additions: None, sizes: vec![], numbers: vec![] }
    }

    /// As many blocks of that many threads as cover `n`, in one dimension.
    ///
    /// # Panics
    /// When there are no threads.
    #[track_caller]
    pub fn linear(n: usize, threads: u32) -> CudaLaunch {
        assert!(threads > 0, "CudaLaunch::linear: a block has at least one thread");
        CudaLaunch::new([n.div_ceil(threads as usize), 1, 1], [threads, 1, 1])
    }

    /// With an integer as the next argument of the entry: a part of the plan's sizes, as a tensor's are.
    ///
    /// # Panics
    /// When it is beyond 64 bits with sign.
    #[track_caller]
    pub fn size(mut self, n: usize) -> CudaLaunch {
        self.sizes.push(i64::try_from(n).expect("a size has 63 bits"));
        self
    }

    /// With a float or an integer as the next argument of the entry, behind all sizes (double or long long, converted to
    /// what the parameter is; a u64 above `i64::MAX` as its bits, which an `unsigned long long` takes whole). Calls with other
    /// numbers have the same plan; operands and numbers are at most eight.
    pub fn number(mut self, value: impl Into<Scalar>) -> CudaLaunch {
        self.numbers.push(value.into());
        self
    }

    /// With so many bytes of dynamic shared memory a block.
    pub fn shared(self, bytes: u32) -> CudaLaunch {
        CudaLaunch { shared: bytes, ..self }
    }

    /// With so much arithmetic, in additions of f32, for whoever chooses between plans. Bytes are those of the tensors.
    pub fn cost(self, additions: u64) -> CudaLaunch {
        CudaLaunch { additions: Some(additions), ..self }
    }

    /// In the form in which it is recorded.
    ///
    /// # Panics
    /// When no GPU launches that.
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
        if self.sizes.len() > MOST_SIZES {
            panic!("{name}: it is given {} sizes; there are at most {MOST_SIZES}", self.sizes.len());
        }
        let grid = self.grid.map(|n| n as u32);
        ForeignLaunch { grid, block: self.block, shared: self.shared, additions: self.additions }
    }
}

impl CudaOp {
    /// An operation of that name, which errors have in them: the text, the function in it that is launched, shape and dtype
    /// of each result out of the operands, and how it is launched on these. Neither function looks at values.
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

    /// The same operation with a function of tensors that gives the same results: what is recorded in its place on devices
    /// that run no CUDA C++, and under [`with_reference`](crate::with_reference), to test against. A function of slices is a
    /// [`HostOp`](crate::HostOp) in it.
    pub fn reference<R: Results>(self, f: impl Fn(&[Tensor]) -> R + Send + Sync + 'static) -> CudaOp {
        let all = move |x: &[Tensor]| f(x).tensors().into_iter().cloned().collect();
        CudaOp { reference: Some(Arc::new(all)), ..self }
    }

    /// The same operation with a backward pass, as that of [`custom_grad`](crate::custom_grad()). Without one it panics
    /// where an operand is tracked.
    pub fn backward<G: InputGradients>(
        self,
        f: impl Fn(Backward<Vec<Tensor>, Vec<Tensor>>) -> G + Send + Sync + 'static,
    ) -> CudaOp {
        CudaOp { backward: Some(Arc::new(move |b| f(b).list())), ..self }
    }

    /// Its result on these operands.
    ///
    /// # Panics
    /// When it has another number of results than one, and as [`on_all`](CudaOp::on_all).
    #[track_caller]
    pub fn on<I: Inputs>(&self, inputs: I) -> Tensor {
        opaque::only(self.name, self.on_all(inputs))
    }

    /// Its results on these operands, one launch for all of them.
    ///
    /// # Panics
    /// When there is no operand, or more than eight with the numbers; they are on different devices, or on one that runs no
    /// CUDA C++ and there is no [`reference`](CudaOp::reference); an operand is tracked and there is no
    /// [`backward`](CudaOp::backward); there is no result, or one is beyond any memory; no GPU launches what the launch says;
    /// the reference gives other shapes or dtypes.
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

    /// Records the call: an operation for each result.
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

    /// What is recorded for operands and results of these dtypes.
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
            text: self.text.to_string(),
            entry: self.entry.into(),
            operands: x.iter().map(Tensor::dtype).collect(),
            results: outputs.iter().map(|o| o.1).collect(),
            sizes: launch.sizes.len(),
            numbers: launch.numbers.iter().map(kind).collect(),
        };
        known.push(source.intern());
        known[known.len() - 1]
    }
}

/// Whether a device runs CUDA C++.
fn runs_cuda(device: Device) -> bool {
    device.name().starts_with("cuda")
}

/// The values of a reference, which are what was said of the results.
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
