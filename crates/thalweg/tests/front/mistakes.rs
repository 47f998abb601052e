//! Mistakes: each panics with the operation's name and both operands at the caller's line, and the stream stays usable.

use crate::mistake::panic_of;
use thalweg::prelude::*;

/// Asserts that each expression panics with the message, at this file; operations recorded before are intact, and the
/// stream continues.
macro_rules! mistakes {
    ($($mistake:expr => $message:expr;)*) => {$(
        let pending = Tensor::arange(3) * 2.0;
        let (message, file) = panic_of(|| $mistake);
        assert_eq!(message, $message, "{}", stringify!($mistake));
        assert!(file.ends_with("mistakes.rs"), "{}: reported at {file}", stringify!($mistake));
        assert_eq!((pending + 1.0).to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0]);
    )*};
}

#[test]
fn of_elementwise_operations() {
    let (a, b) = (Tensor::zeros([2, 3]), Tensor::zeros([4]));
    let (i, t) = (Tensor::new([1i32, 2]), Tensor::new([true]));
    mistakes! {
        &a + &b => "add: shapes [2, 3] and [4] do not broadcast";
        a.clone() + b.clone() => "add: shapes [2, 3] and [4] do not broadcast";
        a.maximum(&b) => "maximum: shapes [2, 3] and [4] do not broadcast";
        &a * &i => "mul: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        &i + 2.5 => "add: 2.5 does not fit i32; .cast(..) the tensor first";
        2.5 - &i => "sub: 2.5 does not fit i32; .cast(..) the tensor first";
        Tensor::new([1u8]).eq(-1) => "eq: -1 does not fit u8; .cast(..) the tensor first";
        i.exp() => "exp: takes a float dtype, not i32; .cast(DType::F32) first";
        i.gelu() => "gelu: takes a float dtype, not i32; .cast(DType::F32) first";
        -&t => "neg: takes a float or integer dtype, not bool; .cast(DType::F32) first";
        &t + &t => "add: takes a float or integer dtype, not bool; .cast(DType::F32) first";
        !&a => "bit_not: takes an integer dtype or bool, not f32; compare (.ne(0)) or .cast(DType::I64) first";
        &a & 1 => "bit_and: takes an integer dtype or bool, not f32; compare (.ne(0)) or .cast(DType::I64) first";
        a.and(true) => "and: takes bool, not f32; compare (.ne(0)) or .cast(DType::Bool) first";
        a.where_(1, 0) => "where: takes bool, not f32; compare (.ne(0)) or .cast(DType::Bool) first";
        t.where_(&a, &i) => "where: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        a.gt(0).where_(&b, 0) => "where: shapes [2, 3] and [4] do not broadcast";
        a.clamp(0, &b) => "clamp: shapes [2, 3] and [4] do not broadcast";
        i.clamp(0.5, 3) => "clamp: 0.5 does not fit i32; .cast(..) the tensor first";
        i.powf(2.5) => "pow: 2.5 does not fit i32; .cast(..) the tensor first";
        t.pow(2) => "pow: takes a float or integer dtype, not bool; .cast(DType::F32) first";
        a.isclose(&i, 0.0, 0.0) => "sub: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        { let mut c = a.clone(); c += &b; } => "add: shapes [2, 3] and [4] do not broadcast";
    }
}

#[test]
fn of_convolutions_and_pooling() {
    use thalweg::{Conv, ConvTranspose, Interpolation, Pool};
    let (x, w) = (Tensor::zeros([2, 4, 5, 5]), Tensor::zeros([6, 4, 3, 3]));
    let b = Tensor::zeros([4]);
    mistakes! {
        x.conv2d(&Tensor::zeros([6, 4, 6, 3]), None, Conv::default()) => "conv2d: a window of 6 elements (kernel [6, 3], dilation [1, 1]) is over the 5 of axis 2 of [2, 4, 5, 5] with padding";
        x.conv1d(&w, None, Conv::default()) => "conv1d: takes weights of rank 3, not shape [6, 4, 3, 3]";
        x.conv3d(&w.unsqueeze(0), None, Conv::default()) => "conv3d: weights of shape [1, 6, 4, 3, 3] do not fit the 2 channels of [1, 2, 4, 5, 5] in 1 groups";
        x.conv2d(&w, None, Conv::default().groups(2)) => "conv2d: weights of shape [6, 4, 3, 3] do not fit the 4 channels of [2, 4, 5, 5] in 2 groups";
        x.conv2d(&w, None, Conv::default().stride(0)) => "conv2d: kernel [3, 3], stride [0, 0] and dilation [1, 1] must be above 0";
        x.conv2d(&w, None, Conv::default().dilation(3)) => "conv2d: a window of 7 elements (kernel [3, 3], dilation [3, 3]) is over the 5 of axis 2 of [2, 4, 5, 5] with padding";
        x.conv2d(&w, Some(&b), Conv::default()) => "conv2d: a bias of shape [4] for 6 channels of weights [6, 4, 3, 3]";
        x.conv2d(&w.cast(DType::F64), None, Conv::default()) => "conv2d: dtypes f32 and f64 differ; convert one with .cast(DType::F32) or .cast(DType::F64)";
        x.slice(0).slice(0).conv2d(&w, None, Conv::default()) => "conv2d: takes samples × channels × 2 axes, or channels × 2 axes, not shape [5, 5]";
        x.conv_transpose2d(&w, None, ConvTranspose::default()) => "conv_transpose2d: weights of shape [6, 4, 3, 3] do not fit the 4 channels of [2, 4, 5, 5] in 1 groups";
        x.conv_transpose2d(&w.transpose(0, 1), None, ConvTranspose::default().output_padding(1)) => "conv_transpose2d: output padding [1, 1] is not below stride [1, 1] or dilation [1, 1]";
        x.conv_transpose2d(&w.transpose(0, 1), None, ConvTranspose::default().padding(4)) => "conv_transpose2d: padding [(4, 4), (4, 4)] leaves nothing of axis 2 of [2, 4, 5, 5]";
        x.max_pool2d(Pool::new(6)) => "max_pool2d: a window of 6 elements (kernel [6, 6], dilation [1, 1]) is over the 5 of axis 2 of [2, 4, 5, 5] with padding";
        x.max_pool2d(Pool::new(2).padding(2)) => "max_pool2d: padding (2, 2) is not below the 2 elements of a window";
        x.avg_pool2d(Pool::new(2).dilation(2)) => "avg_pool2d: takes no dilation, not [2, 2], of shape [2, 4, 5, 5]";
        x.gt(0).max_pool2d(Pool::new(2)) => "max_pool2d: takes a float or integer dtype, not bool; .cast(DType::F32) first";
        x.adaptive_avg_pool2d([0, 1]) => "adaptive_avg_pool2d: 0 windows over axis 2 of [2, 4, 5, 1]";
        x.interpolate([0, 3], Interpolation::Nearest) => "interpolate: shape [2, 4, 5, 5] to sizes [0, 3]: a size is 0";
    }
}

#[test]
fn of_views() {
    let x = Tensor::zeros([2, 3, 4]);
    let deep = Tensor::zeros([1; 8]);
    mistakes! {
        x.reshape([5, -1]) => "reshape: shape [2, 3, 4] with 24 elements does not fit [5, -1]";
        x.reshape([4, 5]) => "reshape: shape [2, 3, 4] with 24 elements does not fit [4, 5]";
        x.reshape([-1, -1]) => "reshape: more than one size of [-1, -1] is -1";
        x.reshape([-2, 12]) => "reshape: [-2, 12] has a negative size";
        x.reshape([1; 9]) => "rank 9 is over the limit of 8";
        x.transpose(0, 3) => "transpose: axis 3 is out of range for rank 3";
        x.transpose(-4, 0) => "transpose: axis -4 is out of range for rank 3";
        x.permute([0, 1]) => "permute: [0, 1] does not name every axis of shape [2, 3, 4]";
        x.permute([0, 1, -2]) => "permute: axis -2 is named twice";
        x.squeeze(1) => "squeeze: axis 1 of shape [2, 3, 4] is not of size 1";
        deep.unsqueeze(0) => "unsqueeze: shape [1, 1, 1, 1, 1, 1, 1, 1] is at the rank limit of 8";
        x.expand([2, 5, 4]) => "expand: shape [2, 3, 4] does not expand to [2, 5, 4]";
        x.expand([-1, 2, 3, 4]) => "expand: shape [2, 3, 4] does not expand to [-1, 2, 3, 4]";
        x.broadcast_to([3, 4]) => "broadcast_to: shape [2, 3, 4] does not expand to [3, 4]";
        x.slice((0, 0, 0, 0)) => "slice: 4 arguments for the 3 axes of [2, 3, 4]";
        x.slice((.., 3)) => "slice: index 3 is out of range for axis 1 of [2, 3, 4]";
        x.slice((.., -4)) => "slice: index -4 is out of range for axis 1 of [2, 3, 4]";
        x.slice((..).by(0)) => "slice: the step of axis 0 is 0";
        x.index_axis(2, 4) => "index_axis: index 4 is out of range for axis 2 of [2, 3, 4]";
        x.narrow(1, -4, 2) => "narrow: 2 elements from -4 on are not in axis 1 of [2, 3, 4]";
        x.narrow(1, 0, -1) => "narrow: -1 elements from 0 on are not in axis 1 of [2, 3, 4]";
        x.narrow(1, usize::MAX, 2) => "narrow: 2 elements from 9223372036854775807 on are not in axis 1 of [2, 3, 4]";
        x.narrow(1, 2, 2) => "narrow: 2 elements from 2 on are not in axis 1 of [2, 3, 4]";
        x.window(2, 5, 1) => "window: size 5 is over the 4 elements of axis 2 of [2, 3, 4]";
        x.window(2, 1, 0) => "window: size 1 and step 0 must be above 0";
        x.unflatten(1, [2, -1]) => "unflatten: size 3 of axis 1 does not divide into [2, -1]";
        x.flatten_axes(2, 0) => "flatten_axes: axis 2 comes after axis 0";
        x.flip(3) => "flip: axis 3 is out of range for rank 3";
        x.size(3) => "size: axis 3 is out of range for rank 3";
    }
}

#[test]
fn of_joining_and_padding() {
    let (a, b) = (Tensor::zeros([2, 3]), Tensor::zeros([2, 4]));
    let i = Tensor::new([[1i32, 2, 3]]);
    mistakes! {
        Tensor::cat(&[&a, &b], 0) => "cat: shapes [2, 3] and [2, 4] differ beside axis 0";
        Tensor::cat(&[&a, &Tensor::zeros([3])], 0) => "cat: shapes [2, 3] and [3] differ beside axis 0";
        Tensor::cat(&[&a, &i], 0) => "cat: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        Tensor::cat::<Tensor>(&[], 0) => "cat: there are no tensors";
        Tensor::stack(&[&a, &b], 0) => "stack: shapes [2, 3] and [2, 4] differ";
        a.split(0, 1) => "split: parts of size 0";
        a.split_sizes(&[1, 1], 1) => "split_sizes: [1, 1] does not add up to axis 1 of [2, 3]";
        a.chunk(0, 1) => "chunk: 0 parts";
        a.pad([(1, 1)], 0) => "pad: 1 pairs of widths for shape [2, 3]";
        i.pad([(1, 1), (0, 0)], 0.5) => "pad: 0.5 does not fit i32; .cast(..) the tensor first";
        a.pad([(0, 0), (0, 3)], Border::Reflect) => "pad: axis 1 of [2, 3] is too small for a border of 3 by Reflect";
        a.pad([(3, 0), (0, 0)], Border::Wrap) => "pad: axis 0 of [2, 3] is too small for a border of 3 by Wrap";
    }
}

#[test]
fn of_reductions_and_products() {
    let (a, v) = (Tensor::zeros([2, 3]), Tensor::zeros([3]));
    let (i, t, none) = (Tensor::new([1i32]), Tensor::new([true]), Tensor::zeros([0, 2]));
    mistakes! {
        a.sum(2) => "sum: axis 2 is out of range for rank 2";
        a.sum([0, -2]) => "sum: axis -2 is named twice";
        t.amax(0) => "amax: takes a float or integer dtype, not bool; .cast(DType::F32) first";
        a.any(0) => "any: takes bool, not f32; compare (.ne(0)) or .cast(DType::Bool) first";
        i.mean(0) => "mean: takes a float dtype, not i32; .cast(DType::F32) first";
        none.amax(0) => "amax: nothing to reduce in shape [0, 2], and no value stands for nothing";
        none.argmin(..) => "argmin: nothing to reduce in shape [0, 2], and no value stands for nothing";
        a.argmax([0, 1]) => "argmax: takes one axis or all (..), not 2";
        i.softmax(0) => "softmax: takes a float dtype, not i32; .cast(DType::F32) first";
        a.softmax(5) => "softmax: axis 5 is out of range for rank 2";
        a.linear(&a.t(), None) => "linear: shape [2, 3] by weights of shape [3, 2], which are [out, in]";
        a.linear(&a, Some(&a)) => "linear: a bias of shape [2, 3] for weights of shape [2, 3]";
        a.tensordot(&a, 1) => "tensordot: axes [1] of [2, 3] against axes [0] of [2, 3]";
        a.tensordot(&a, ([0, 0], [0, 1])) => "tensordot: axis 0 is named twice";
        a.tensordot(&a, 3) => "tensordot: 3 axes of shapes [2, 3] and [2, 3]";
        Tensor::einsum("ij,jk->ik", &[&a, &a]) => "einsum: \"ij,jk->ik\" of shapes [2, 3], [2, 3]: j is 3 and 2";
        Tensor::einsum("ij->ii", &[&a]) => "einsum: \"ij->ii\" of shapes [2, 3]: i stands twice in the result";
        Tensor::einsum("ij,ij->ij", &[&a, &Tensor::zeros([1, 2])]) => "einsum: \"ij,ij->ij\" of shapes [2, 3], [1, 2]: j is 3 and 2";
        Tensor::einsum("ij,j->i", &[&a, &i.slice(0)]) => "einsum: \"ij,j->i\" of shapes [2, 3], []: operand 1 has 0 axes, its term names 1";
        a.scaled_dot_product_attention(&a.t(), &a, thalweg::Attention::default()) => "scaled_dot_product_attention: shapes do not fit: queries [2, 3], keys [3, 2] and values [2, 3]";
        a.matmul(&a) => "matmul: shapes [2, 3] and [2, 3] do not multiply: 3 columns against 2 rows";
        a.matmul(&i) => "matmul: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        a.matmul(&Tensor::new(1.0f32)) => "matmul: shapes [2, 3] and [] are not both of rank 1 or more";
        Tensor::zeros([2, 1, 3]).matmul(&Tensor::zeros([3, 3, 1])) => "matmul: shapes [2, 1, 3] and [3, 3, 1] do not broadcast in their leading dimensions";
        a.dot(&v) => "dot: takes two vectors of one length, not shapes [2, 3] and [3]";
        a.outer(&v) => "outer: takes two vectors, not shapes [2, 3] and [3]";
        v.tril(0) => "tril: takes at least two dimensions, not shape [3]";
        v.diagonal(0) => "diagonal: takes at least two dimensions, not shape [3]";
    }
}

#[test]
fn of_creation() {
    mistakes! {
        Tensor::new(vec![vec![1.0f32], vec![1.0, 2.0]]) => "new: nested data is ragged, lengths 1 and 2 stand at one level";
        Tensor::from_slice(&[1.0f32, 2.0], [3]) => "from_slice: shape [3] holds 3 elements, not the 2 given";
        Tensor::full_with([2], 300, DType::U8) => "full: 300 does not fit u8; .cast(..) the tensor first";
        Tensor::arange((0, 5, 0)) => "arange: the step is 0";
        Tensor::arange((0.0, f64::INFINITY, 1.0)) => "arange: from 0 to inf by 1 has no finite number of elements";
        Tensor::arange_with((0.0, 1.0, 0.5), DType::I32) => "arange: 0.5 does not fit i32; .cast(..) the tensor first";
        Tensor::linspace_with(0.0, 1.0, 3, DType::I32) => "linspace: takes a float dtype, not i32; .cast(DType::F32) first";
        Tensor::rand_with([2], DType::I32) => "rand: takes a float dtype, not i32; .cast(DType::F32) first";
        Tensor::randint(3..3, [1]) => "randint: the range 3..3 is empty";
        Tensor::randint_with(0..300, [1], DType::I8) => "randint: the range 0..300 does not fit i8";
        Tensor::zeros([usize::MAX, 2]) => "full: f32[18446744073709551615, 2] has more bytes than can be addressed";
        Tensor::zeros([1]).expand([1usize << 62]) => "expand: f32[4611686018427387904] has more bytes than can be addressed";
        Tensor::zeros([1; 9]) => "rank 9 is over the limit of 8";
    }
}

#[test]
fn of_scans_sorts_gathers_and_scatters() {
    let (a, v) = (Tensor::zeros([2, 3]), Tensor::zeros([4]));
    let (i, t) = (Tensor::new([1i32, 2]), Tensor::new([true]));
    mistakes! {
        a.cumsum(2) => "cumsum: axis 2 is out of range for rank 2";
        t.cummax(0) => "cummax: takes a float or integer dtype, not bool; .cast(DType::F32) first";
        i.logcumsumexp_reverse(0) => "logcumsumexp: takes a float dtype, not i32; .cast(DType::F32) first";
        a.sort(-3, true) => "sort: axis -3 is out of range for rank 2";
        a.topk(4, 1, true) => "topk: 4 elements are not in axis 1 of [2, 3]";
        v.searchsorted(&i, false) => "searchsorted: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        a.searchsorted(&v, false) => "searchsorted: sorted rows of shape [2, 3] and values of shape [4]";
        a.gather(0, &i) => "gather: an index of shape [2] does not go along axis 0 of shape [2, 3]";
        a.gather(0, &Tensor::zeros_with([1, 2], DType::I64)) => "gather: an index of shape [1, 2] does not go along axis 0 of shape [2, 3]";
        a.gather(0, &a) => "gather: takes an index of an integer dtype, not f32; .cast(DType::I64) first";
        a.index_select(0, &t) => "index_select: takes an index of an integer dtype, not bool; .cast(DType::I64) first";
        v.embedding(&i) => "embedding: takes a table of rank 2, not shape [4]";
        a.index(&[&i, &i, &i]) => "index: 3 indices for shape [2, 3]";
        a.masked_select(&v) => "masked_select: takes a mask of bool, not f32; compare (.ne(0)) first";
        a.masked_select(&t.expand([4])) => "masked_select: shapes [2, 3] and [4] do not broadcast";
        v.scatter(0, &i, &i) => "scatter: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        v.scatter_add(0, &i, Tensor::zeros([3])) => "scatter_add: index [2] and values [3] do not go along axis 0 of shape [4]";
        i.scatter(0, &i, 2.5) => "scatter: 2.5 does not fit i32; .cast(..) the tensor first";
        v.index_add(0, &i, Tensor::zeros([3])) => "index_add: values of shape [3] are not of shape [2]";
        v.one_hot(3) => "one_hot: takes an integer dtype, not f32; .cast(DType::I64) first";
        a.group_norm(2, None, None, 0.0) => "group_norm: the 3 channels of shape [2, 3] do not divide into 2 groups";
        v.instance_norm(None, None, 0.0) => "instance_norm: takes samples of channels (rank 2 or more), not shape [4]";
        a.group_norm(1, Some(&v), None, 0.0) => "group_norm: [4] for the channels of shape [2, 3]";
        a.batch_norm(&v, &v, None, None, 0.0) => "batch_norm: [4] for the channels of shape [2, 3]";
        a.layer_norm_with(-1, Some(&v), None, 0.0) => "layer_norm: shapes [2, 3] and [4] do not broadcast";
        a.cross_entropy(&Tensor::zeros_with([3], DType::I64), Reduction::Mean) => "cross_entropy: logits of shape [2, 3] and classes of shape [3]";
        a.mse_loss(&v, Reduction::Sum) => "mse_loss: shapes [2, 3] and [4] do not broadcast";
        a.cdist(&v, 2.0) => "cdist: takes two matrices of rows of one length, not shapes [2, 3] and [4]";
        a.cdist_by_products(&v) => "cdist_by_products: takes two matrices of rows of one length, not shapes [2, 3] and [4]";
        a.dropout(1.5) => "dropout: 1.5 is no probability";
    }
}

#[test]
fn of_parts_that_are_written() {
    let mut x = Tensor::zeros([2, 3]);
    let v = Tensor::zeros([4]);
    mistakes! {
        x.clone().set((0, ..), &v) => "set: values of shape [4] are not of the part's shape [3]";
        x.set((0, 0, 0), 1) => "set: 3 arguments for the 2 axes of [2, 3]";
        x.set(2, 1) => "set: index 2 is out of range for axis 0 of [2, 3]";
        x.set(.., Tensor::new([1i32])) => "set: dtypes f32 and i32 differ; convert one with .cast(DType::F32) or .cast(DType::I32)";
        x.slice_mut(..).assign(Tensor::zeros([1, 2, 3])) => "assign: values of shape [1, 2, 3] are not of the part's shape [2, 3]";
        *x.slice_mut((.., 1)) += &v => "add: shapes [2] and [4] do not broadcast";
        x.slice_scatter((..).by(0), 1) => "slice_scatter: the step of axis 0 is 0";
        x.select_scatter(1, 3, 1) => "select_scatter: index 3 is out of range for axis 1 of [2, 3]";
        Tensor::new([1u8]).set(0, 256) => "set: 256 does not fit u8; .cast(..) the tensor first";
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 6]);
}

#[test]
fn of_numbers_and_sizes() {
    let (half, whole) = (Tensor::zeros_with([2], DType::F16), Tensor::new([1i32, 2]));
    mistakes! {
        &half + 70000 => "add: 70000 does not fit f16; .cast(..) the tensor first";
        half.full_like(-1e30) => "full: -1000000000000000000000000000000 does not fit f16; .cast(..) the tensor first";
        Tensor::full([1], 1e39) => "full: 1000000000000000000000000000000000000000 does not fit f32; .cast(..) the tensor first";
        &whole / 0 => "div: i32 divided by 0; a tensor of divisors gives 0 where it is 0";
        &whole % 0 => "rem: i32 divided by 0; a tensor of divisors gives 0 where it is 0";
        whole.floor_div(0) => "floor_div: i32 divided by 0; a tensor of divisors gives 0 where it is 0";
        Tensor::zeros([1; 9]) => "rank 9 is over the limit of 8";
        Tensor::zeros([2; 8]).unsqueeze(0) => "unsqueeze: shape [2, 2, 2, 2, 2, 2, 2, 2] is at the rank limit of 8";
    }
    // Infinities are numbers of a float dtype, and a divisor that is data may be 0.
    assert_eq!((half + f64::INFINITY).cast(DType::F32).to_vec::<f32>().unwrap(), [f32::INFINITY; 2]);
    assert_eq!((&whole / Tensor::new([0i32, 2])).to_vec::<i32>().unwrap(), [0, 1]);
}

#[test]
fn tuples_are_shapes_and_axes() {
    let n = 2usize;
    let x = Tensor::arange(24).reshape((n, -1, 4));
    assert_eq!(x.dims(), [2, 3, 4]);
    assert_eq!(Tensor::zeros((n, 3)).dims(), [2, 3]);
    assert_eq!(x.sum((0, -1)).to_vec::<f32>().unwrap(), [60.0, 92.0, 124.0]);
    assert_eq!(x.permute((2, 0, 1)).dims(), [4, 2, 3]);
    let (largest, places) = Tensor::new([1.0f32, 3.0, 3.0, 2.0]).cummax_with_indices(0);
    assert_eq!(largest.to_vec::<f32>().unwrap(), [1.0, 3.0, 3.0, 3.0]);
    assert_eq!(places.to_vec::<i64>().unwrap(), [0, 1, 2, 2]);
    let (_, places) = Tensor::new([1.0f32, f32::NAN, 0.0, f32::NAN]).cummin_with_indices(0);
    assert_eq!(places.to_vec::<i64>().unwrap(), [0, 1, 1, 3]);
    assert_eq!(x.max(..).item_f64().unwrap(), 23.0);
    assert!(x.item_f64().is_err());
}
