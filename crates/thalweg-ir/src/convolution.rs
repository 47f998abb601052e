//! Convolutions and their gradients as routines of a device's library.
//!
//! In: a [`ConvolutionRoutine`], which is the code of a [`Foreign`](crate::Foreign) operation, and the integers that are
//! recorded with a call. Out: a [`Convolution`], which describes the call completely. Always true: operands and result
//! are row-major, in the order of dimensions that [`Convolution::dims`] returns.

use crate::DType;
use std::fmt;

/// Maximum number of axes that windows slide over.
pub const MAX_AXES: usize = 3;

/// Pass of a convolution `y = conv(x, w)`: the tensor that a routine computes. Each result is linear in both operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ConvolutionPass {
    /// `y` of `x` and `w`.
    Forward,
    /// Gradient of `x`, of the gradient of `y` and `w`: a transposed convolution.
    InputGradient,
    /// Gradient of `w`, of the gradient of `y` and `x`.
    WeightGradient,
}

/// Tensor of a convolution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConvolutionTensor {
    /// Input `x`, or its gradient: `[samples, in, size…]`.
    Input,
    /// Weights `w`, or their gradient: `[out, in/groups, kernel…]`.
    Weights,
    /// Result `y`, or its gradient: `[samples, out, windows…]`.
    Result,
}

impl ConvolutionPass {
    /// Both operands and the result, in the order of a call's arguments.
    pub fn tensors(self) -> [ConvolutionTensor; 3] {
        use ConvolutionTensor::{Input, Result, Weights};
        match self {
            ConvolutionPass::Forward => [Input, Weights, Result],
            ConvolutionPass::InputGradient => [Result, Weights, Input],
            ConvolutionPass::WeightGradient => [Result, Input, Weights],
        }
    }

    /// Name of the pass: "forward", "input_gradient" or "weight_gradient".
    pub fn name(self) -> &'static str {
        match self {
            ConvolutionPass::Forward => "forward",
            ConvolutionPass::InputGradient => "input_gradient",
            ConvolutionPass::WeightGradient => "weight_gradient",
        }
    }
}

/// Convolution routine of a library: all but dtype and sizes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvolutionRoutine {
    /// Pass that is computed.
    pub pass: ConvolutionPass,
    /// Number of axes that windows slide over, 1 to [`MAX_AXES`].
    pub axes: usize,
    /// Whether channels are the last dimension in memory of all three tensors, instead of the second one.
    pub channels_last: bool,
    /// Whether f32 operands may be rounded to TF32.
    pub tf32: bool,
    /// Whether sums may be added in an order that differs from run to run.
    pub any_order: bool,
    /// Whether the clock may decide which of the library's algorithms computes it. Otherwise it follows from the sizes.
    pub timed: bool,
}

impl ConvolutionRoutine {
    /// Number of sizes that are recorded with a call: samples, channels, groups, and seven per axis.
    pub fn sizes(self) -> usize {
        4 + 7 * self.axes
    }

    /// Parses the text form, which `Display` writes; `None` if the text is malformed.
    pub fn parse(text: &str) -> Option<ConvolutionRoutine> {
        let [pass, axes, rest @ ..] = &text.split('-').collect::<Vec<_>>()[..] else { return None };
        let passes = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
        let pass = passes.into_iter().find(|p| p.name() == *pass)?;
        let axes = axes.parse().ok().filter(|n| (1..=MAX_AXES).contains(n))?;
        let known = ["channels_last", "tf32", "any_order", "timed"];
        if rest.iter().any(|word| !known.contains(word)) {
            return None;
        }
        let [channels_last, tf32, any_order, timed] = known.map(|word| rest.contains(&word));
        Some(ConvolutionRoutine { pass, axes, channels_last, tf32, any_order, timed })
    }
}

impl fmt::Display for ConvolutionRoutine {
    /// Formats the routine as a word that [`ConvolutionRoutine::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pass.name(), self.axes)?;
        let words = [
            (self.channels_last, "channels_last"),
            (self.tf32, "tf32"),
            (self.any_order, "any_order"),
            (self.timed, "timed"),
        ];
        words.iter().filter(|w| w.0).try_for_each(|w| write!(f, "-{}", w.1))
    }
}

/// Windows of a convolution along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ConvolutionAxis {
    /// Size of the input.
    pub size: usize,
    /// Number of elements of a window.
    pub kernel: usize,
    /// Number of windows.
    pub windows: usize,
    /// Distance between windows, in elements.
    pub stride: usize,
    /// Distance between the elements of a window.
    pub dilation: usize,
    /// Zeros before and after the input.
    pub padding: [usize; 2],
}

/// Convolution by a library, or one of its gradients.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Convolution {
    /// Routine that computes it.
    pub routine: ConvolutionRoutine,
    /// Dtype of all three tensors: f32, bf16 or f16. Sums are in f32.
    pub dtype: DType,
    /// Number of samples.
    pub samples: usize,
    /// Channels of the input, and of the result.
    pub channels: [usize; 2],
    /// Number of groups of channels, each with a convolution of its own.
    pub groups: usize,
    /// Windows along each axis; those beyond the routine's axes are unused.
    pub axes: [ConvolutionAxis; MAX_AXES],
}

impl Convolution {
    /// Windows along each axis in use.
    pub fn axes(&self) -> &[ConvolutionAxis] {
        &self.axes[..self.routine.axes]
    }

    /// Encodes the sizes as integers of a call.
    pub fn to_ints(&self) -> Vec<i64> {
        let mut all = vec![self.samples, self.channels[0], self.channels[1], self.groups];
        for a in self.axes() {
            all.extend([a.size, a.kernel, a.windows, a.stride, a.dilation, a.padding[0], a.padding[1]]);
        }
        all.into_iter().map(|n| n as i64).collect()
    }

    /// Decodes the sizes of a call.
    pub fn from_ints(routine: ConvolutionRoutine, dtype: DType, ints: &[i64]) -> Convolution {
        let at = |i: usize| ints[i] as usize;
        let mut axes = [ConvolutionAxis::default(); MAX_AXES];
        for (i, axis) in axes.iter_mut().take(routine.axes).enumerate() {
            let [size, kernel, windows, stride, dilation, before, after] = std::array::from_fn(|j| at(4 + 7 * i + j));
            *axis = ConvolutionAxis { size, kernel, windows, stride, dilation, padding: [before, after] };
        }
        Convolution { routine, dtype, samples: at(0), channels: [at(1), at(2)], groups: at(3), axes }
    }

    /// Sizes of a tensor in PyTorch's order: samples, channels, axes; weights `[out, in/groups, kernel…]`.
    pub fn shape(&self, tensor: ConvolutionTensor) -> Vec<usize> {
        let (lead, along): ([usize; 2], fn(&ConvolutionAxis) -> usize) = match tensor {
            ConvolutionTensor::Input => ([self.samples, self.channels[0]], |a| a.size),
            ConvolutionTensor::Weights => ([self.channels[1], self.channels[0] / self.groups], |a| a.kernel),
            ConvolutionTensor::Result => ([self.samples, self.channels[1]], |a| a.windows),
        };
        lead.into_iter().chain(self.axes().iter().map(along)).collect()
    }

    /// Sizes of a tensor in the order of its memory, outermost first.
    pub fn dims(&self, tensor: ConvolutionTensor) -> Vec<usize> {
        let mut dims = self.shape(tensor);
        if self.routine.channels_last {
            dims[1..].rotate_left(1);
        }
        dims
    }

    /// Multiplications of the direct method.
    pub fn multiplications(&self) -> u64 {
        let along = |f: fn(&ConvolutionAxis) -> usize| self.axes().iter().map(|a| f(a) as u64).product::<u64>();
        let [inner, outer] = self.channels.map(|n| n as u64);
        self.samples as u64 * outer * (inner / self.groups as u64) * along(|a| a.kernel) * along(|a| a.windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routines_and_sizes_are_read_back() {
        for pass in [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient] {
            for bits in 0..16 {
                let [channels_last, tf32, any_order, timed] = [1, 2, 4, 8].map(|b| bits & b != 0);
                let routine = ConvolutionRoutine { pass, axes: 2, channels_last, tf32, any_order, timed };
                assert_eq!(ConvolutionRoutine::parse(&routine.to_string()), Some(routine));
            }
        }
        assert_eq!(ConvolutionRoutine::parse("forward-2-other"), None);
        assert_eq!(ConvolutionRoutine::parse("forward-4"), None);
        let routine = ConvolutionRoutine::parse("weight_gradient-2-channels_last").unwrap();
        let axis =
            |size, kernel, windows| ConvolutionAxis { size, kernel, windows, stride: 2, dilation: 1, padding: [1, 0] };
        let c = Convolution {
            routine,
            dtype: DType::BF16,
            samples: 3,
            channels: [8, 4],
            groups: 2,
            axes: [axis(9, 3, 4), axis(7, 2, 4), ConvolutionAxis::default()],
        };
        assert_eq!(c.to_ints().len(), routine.sizes());
        assert_eq!(Convolution::from_ints(routine, DType::BF16, &c.to_ints()), c);
        assert_eq!(c.dims(ConvolutionTensor::Input), [3, 9, 7, 8]);
        assert_eq!(c.dims(ConvolutionTensor::Weights), [4, 3, 2, 4]);
        assert_eq!(c.shape(ConvolutionTensor::Result), [3, 4, 4, 4]);
        assert_eq!(c.multiplications(), 3 * 4 * 4 * 6 * 16);
    }
}
