//! Convolutions by a library of the device (cuDNN), and their gradients.
//!
//! In: operands, and windows over the input. Out: a result that one routine of the library computes, if the device has
//! one for these sizes. A convolution is linear in both operands, so each gradient is again a convolution pass, and so
//! are gradients of these. Nothing fuses into a routine: what is around it are kernels of their own.

use crate::sweep::Sweep;
use crate::tunable::TUNABLES;
use crate::{Backward, DType, MatmulPrecision, Shape, Tensor, custom_grad};
use std::cell::RefCell;
use std::panic::Location;
use thalweg_ir::{
    Convolution, ConvolutionAxis, ConvolutionPass, ConvolutionRoutine, ConvolutionTensor, Foreign, ForeignCode,
    ForeignLaunch, ForeignSource, MAX_AXES, Op,
};
use thalweg_stream::{self as stream, Counted, Site};

/// Minimum arithmetic of a convolution, in additions of f32, whose algorithm the clock may choose: some 10 µs on an H100. For
/// a smaller one measuring several takes longer than it gains.
const MIN_TIMED_ADDITIONS: u64 = 1 << 28;

/// Windows of a convolution over an input of these sizes, for the library.
///
/// `shape` is that of the input, `channels` that of the result.
pub(super) fn described<const N: usize>(
    (shape, channels): (&[usize], usize),
    sweep: &Sweep<N>,
    groups: usize,
    dtype: DType,
    channels_last: bool,
) -> Convolution {
    let mut axes = [ConvolutionAxis::default(); MAX_AXES];
    for (i, axis) in axes.iter_mut().take(N).enumerate() {
        let (before, after) = sweep.pads[i];
        *axis = ConvolutionAxis {
            size: shape[2 + i],
            kernel: sweep.kernel[i],
            windows: sweep.out[i],
            stride: sweep.stride[i],
            dilation: sweep.dilation[i],
            padding: [before, after],
        };
    }
    let mode = stream::mode();
    let tf32 = stream::convolution_precision() == MatmulPrecision::High;
    let routine = ConvolutionRoutine {
        pass: ConvolutionPass::Forward,
        axes: N,
        channels_last,
        tf32: tf32 && dtype == DType::F32,
        any_order: mode.atomic_sums && !mode.reproducible,
        timed: false,
    };
    let of = Convolution { routine, dtype, samples: shape[0], channels: [shape[1], channels], groups, axes };
    let timed = stream::measuring().is_some() && additions(&of) >= MIN_TIMED_ADDITIONS;
    Convolution { routine: ConvolutionRoutine { timed, ..routine }, ..of }
}

/// Arithmetic of a convolution in additions of f32: tensor cores compute several multiplications in the time of one.
fn additions(of: &Convolution) -> u64 {
    let speed = match (of.dtype, of.routine.tf32) {
        (DType::F32, false) => 1,
        (DType::F32, true) => 8,
        _ => 16,
    };
    of.multiplications() / speed
}

/// Result of a pass of a convolution; `None` if no library of the operands' device computes the convolution and its
/// gradients.
#[track_caller]
pub(super) fn convolved(
    name: &'static str,
    pass: ConvolutionPass,
    (x, y): (&Tensor, &Tensor),
    of: Convolution,
) -> Option<Tensor> {
    let mode = stream::mode();
    let large = TUNABLES.min_library_convolution.reached_by(of.multiplications() as usize);
    let float = matches!(of.dtype, DType::F32 | DType::BF16 | DType::F16);
    if !large || !float || mode.strict || mode.reference || x.numel() == 0 || y.numel() == 0 {
        return None;
    }
    // It is one product of matrices as they are in memory.
    let pointwise = of.groups == 1 && of.axes().iter().all(|a| a.kernel == 1 && a.stride == 1 && a.padding == [0, 0]);
    if pointwise && !of.routine.channels_last {
        return None;
    }
    let of = with(of, pass);
    if !x.device().0.device().convolves(&of) {
        return None;
    }
    if x.is_tracked() || y.is_tracked() {
        let passes = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
        if !passes.iter().all(|&pass| x.device().0.device().convolves(&with(of, pass))) {
            return None;
        }
    }
    Some(tracked(name, (x, y), of))
}

fn with(of: Convolution, pass: ConvolutionPass) -> Convolution {
    Convolution { routine: ConvolutionRoutine { pass, ..of.routine }, ..of }
}

/// Records a pass, with a node for the backward pass if an operand is tracked.
#[track_caller]
fn tracked(name: &'static str, (x, y): (&Tensor, &Tensor), of: Convolution) -> Tensor {
    if !x.is_tracked() && !y.is_tracked() {
        return record(name, (x, y), &of);
    }
    let backward = move |Backward { inputs: (x, y), gradients: dz, .. }: Backward<(Tensor, Tensor), Tensor>| {
        use ConvolutionPass::{Forward, InputGradient, WeightGradient};
        let gradient = |pass, first: &Tensor, second: &Tensor| tracked(name, (first, second), with(of, pass));
        match of.routine.pass {
            Forward => (gradient(InputGradient, &dz, &y), gradient(WeightGradient, &dz, &x)),
            InputGradient => (gradient(Forward, &dz, &y), gradient(WeightGradient, &x, &dz)),
            WeightGradient => (gradient(Forward, &y, &dz), gradient(InputGradient, &x, &dz)),
        }
    };
    custom_grad((x, y), move |(x, y): (Tensor, Tensor)| record(name, (&x, &y), &of), backward)
}

/// Records a pass as one foreign operation.
#[track_caller]
fn record(name: &'static str, (x, y): (&Tensor, &Tensor), of: &Convolution) -> Tensor {
    let tensors = of.routine.pass.tensors();
    let rank = of.routine.axes + 2;
    let to_memory: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let from_memory: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let operand = |t: &Tensor, which: ConvolutionTensor| {
        let t = t.reshaped(Shape::new(&of.shape(which)));
        if of.routine.channels_last { t.permute(to_memory.clone()) } else { t }
    };
    let operands = [operand(x, tensors[0]), operand(y, tensors[1])];
    let shape = Shape::new(&of.dims(tensors[2]));
    let additions = Some(additions(of));
    let launch = ForeignLaunch { grid: [1; 3], block: [1; 3], shared: 0, additions };
    let bytes = (shape.numel() * of.dtype.size()) as i64;
    let ints: Vec<i64> = launch.to_ints().into_iter().chain(of.to_ints()).chain([bytes]).collect();
    stream::site(Site { name, at: Location::caller(), counted: Counted::Plain });
    let args = operands.each_ref().map(|t| stream::Operand::Value(&t.value));
    let op = Op::Foreign(interned(of.routine, of.dtype));
    let result = Tensor::of(stream::record(x.value.device(), op, of.dtype, shape, 0, &args, &ints));
    if of.routine.channels_last { result.permute(from_memory) } else { result }
}

/// Interned foreign operation of a routine.
fn interned(routine: ConvolutionRoutine, dtype: DType) -> Foreign {
    thread_local! {
        static KNOWN: RefCell<Vec<(ConvolutionRoutine, DType, Foreign)>> = RefCell::default();
    }
    let new = || {
        let suffix = match routine.pass {
            ConvolutionPass::Forward => "".into(),
            pass => format!("_{}", pass.name()),
        };
        let source = ForeignSource {
            name: format!("conv{}d{suffix}", routine.axes),
            code: ForeignCode::Convolution(routine),
            operands: vec![dtype; 2],
            results: vec![dtype],
            sizes: routine.sizes(),
            numbers: vec![],
        };
        source.intern()
    };
    KNOWN.with_borrow_mut(|known| {
        if let Some(found) = known.iter().find(|k| (k.0, k.1) == (routine, dtype)) {
            return found.2;
        }
        known.push((routine, dtype, new()));
        known[known.len() - 1].2
    })
}
