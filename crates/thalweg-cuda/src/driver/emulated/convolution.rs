//! Convolutions that replace cuDNN's: each result by its defining sum, in f64.

use half::{bf16, f16};
use thalweg_ir::{Convolution, ConvolutionTensor, DType};

/// Bytes of workspace; like the library, which needs some.
pub(super) const WORKSPACE: usize = 256;

/// Number of bytes of both operands and the result, in the order of a call's arguments.
pub(super) fn bytes(c: &Convolution) -> [usize; 3] {
    c.routine.pass.tensors().map(|t| c.shape(t).iter().product::<usize>() * c.dtype.size())
}

/// Computes the convolution from both operands to the result.
///
/// # Safety
/// The addresses have [`bytes`] of memory, of the convolution's dtype, which nobody else uses.
pub(super) unsafe fn run(c: &Convolution, [first, second, result]: [u64; 3]) {
    let tensors = c.routine.pass.tensors().map(|t| Layout::new(c, t));
    // SAFETY: the caller's promise.
    let [first, second] = [(first, 0), (second, 1)].map(|(at, i)| unsafe { read(c.dtype, at, tensors[i].elements) });
    let mut sums = vec![0f64; tensors[2].elements];
    let [inner, outer] = [c.channels[0] / c.groups, c.channels[1] / c.groups];
    each(&[c.samples, c.groups, outer, inner], |at| {
        let [sample, group, o, i] = [at[0], at[1], at[2], at[3]];
        let windows: Vec<usize> = c.axes().iter().flat_map(|a| [a.windows, a.kernel]).collect();
        each(&windows, |at| {
            let (mut inside, mut place, mut window, mut tap) = (true, [0; 3], [0; 3], [0; 3]);
            for (axis, a) in c.axes().iter().enumerate() {
                (window[axis], tap[axis]) = (at[2 * axis], at[2 * axis + 1]);
                match (window[axis] * a.stride + tap[axis] * a.dilation).checked_sub(a.padding[0]) {
                    Some(p) if p < a.size => place[axis] = p,
                    _ => inside = false,
                }
            }
            if !inside {
                return;
            }
            let of = |tensor| match tensor {
                ConvolutionTensor::Input => ([sample, group * inner + i], place),
                ConvolutionTensor::Weights => ([group * outer + o, i], tap),
                ConvolutionTensor::Result => ([sample, group * outer + o], window),
            };
            let [x, y, z] = std::array::from_fn(|n| tensors[n].position(of(c.routine.pass.tensors()[n])));
            sums[z] += first[x] * second[y];
        });
    });
    // SAFETY: the caller's promise.
    unsafe { write(c.dtype, result, &sums) };
}

/// Strides of a tensor: of its two leading dimensions in PyTorch's order, and of its axes.
struct Layout {
    lead: [usize; 2],
    axes: [usize; 3],
    elements: usize,
}

impl Layout {
    fn new(c: &Convolution, tensor: ConvolutionTensor) -> Layout {
        let shape = c.shape(tensor);
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if c.routine.channels_last {
            order[1..].rotate_left(1);
        }
        let (mut strides, mut step) = ([0; 5], 1);
        for &i in order.iter().rev() {
            strides[i] = step;
            step *= shape[i];
        }
        Layout { lead: [strides[0], strides[1]], axes: [strides[2], strides[3], strides[4]], elements: step }
    }

    fn position(&self, (lead, axes): ([usize; 2], [usize; 3])) -> usize {
        let along = self.axes.iter().zip(axes).map(|(s, i)| s * i).sum::<usize>();
        self.lead[0] * lead[0] + self.lead[1] * lead[1] + along
    }
}

/// Calls `f` with each index of an array of these sizes.
fn each(sizes: &[usize], mut f: impl FnMut(&[usize])) {
    let mut at = vec![0; sizes.len()];
    for number in 0..sizes.iter().product() {
        let mut rest: usize = number;
        for (i, &size) in at.iter_mut().zip(sizes).rev() {
            (*i, rest) = (rest % size, rest / size);
        }
        f(&at);
    }
}

/// Reads elements of a dtype.
///
/// # Safety
/// There are that many elements at the address, which is aligned.
unsafe fn read(dtype: DType, address: u64, count: usize) -> Vec<f64> {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::BF16 => (0..count).map(|i| (*(address as *const bf16).add(i)).to_f64()).collect(),
            DType::F16 => (0..count).map(|i| (*(address as *const f16).add(i)).to_f64()).collect(),
            _ => (0..count).map(|i| f64::from(*(address as *const f32).add(i))).collect(),
        }
    }
}

/// Rounds sums to elements of a dtype, and stores them.
///
/// # Safety
/// There is space for that many elements at the address, which is aligned.
unsafe fn write(dtype: DType, address: u64, sums: &[f64]) {
    for (i, &sum) in sums.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            match dtype {
                DType::BF16 => *(address as *mut bf16).add(i) = bf16::from_f32(sum as f32),
                DType::F16 => *(address as *mut f16).add(i) = f16::from_f32(sum as f32),
                _ => *(address as *mut f32).add(i) = sum as f32,
            }
        }
    }
}

/// Whether the library has an engine for a convolution.
pub(super) fn is_supported(c: &Convolution) -> bool {
    matches!(c.dtype, DType::F32 | DType::BF16 | DType::F16)
        && c.routine.pass.tensors().iter().all(|&t| c.shape(t).iter().product::<usize>() > 0)
}
