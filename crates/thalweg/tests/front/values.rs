//! Every movement, reduction, product and function against NumPy.

use crate::golden::Golden;
use thalweg::prelude::*;

fn f64s(shape: &[usize]) -> Tensor {
    Tensor::arange_with(shape.iter().product::<usize>(), DType::F64).reshape(Shape::new(shape))
}

#[test]
fn everything_is_as_numpy_has_it() {
    let mut g = Golden::load(include_str!("golden.txt"));
    views(&mut g);
    joins(&mut g);
    broadcasts(&mut g);
    creation(&mut g);
    reductions(&mut g);
    products(&mut g);
    elementwise(&mut g);
    composites(&mut g);
    assert_eq!(g.left(), Vec::<&str>::new());
}

fn views(g: &mut Golden) {
    let (x, m) = (f64s(&[2, 3, 4]), f64s(&[3, 4]));
    g.check("reshape", &x.reshape([4, -1]));
    g.check("permute", &x.permute([2, 0, 1]));
    g.check("transpose", &x.transpose(0, -1));
    g.check("movedim_forward", &x.movedim(0, 2));
    g.check("movedim_back", &x.movedim(-1, 0));
    g.check("t", &x.t());
    g.check("broadcast_to", &m.unsqueeze(1).broadcast_to([2, 3, 2, 4]));
    g.check("slice_ranges", &x.slice((.., 1.., 1..3)));
    g.check("slice_negative", &x.slice((-1.., ..-1, -3..-1)));
    g.check("slice_steps", &x.slice((.., (..).by(2), (..).by(-1))));
    g.check("slice_back", &x.slice((0, SliceArg::range(2, 0, -1), (3..).by(-2))));
    g.check("slice_index", &x.slice((1, .., -2)));
    g.check("slice_past_the_end", &x.slice((..9, SliceArg::range(2, 1, 1), ..)));
    g.check("slice_rest", &x.slice((SliceArg::Rest, 1)));
    g.check("slice_new_axis", &x.slice((.., SliceArg::NewAxis, 0)));
    g.check("flip", &x.flip([0, 2]));
    g.check("flip_of_permute", &x.permute([2, 1, 0]).flip(0).slice((..).by(2)));
    g.check("roll", &x.roll(5, 2));
    g.check("roll_back", &m.roll(-1, 0));
    g.check("window", &m.window(1, 2, 2));
    g.check("diagonal", &x.diagonal(1));
    g.check("diagonal_below", &m.diagonal(-1));
    g.check("diagonal_none", &m.diagonal(9));
}

fn joins(g: &mut Golden) {
    let (x, m, v) = (f64s(&[2, 3, 4]), f64s(&[3, 4]), f64s(&[5]));
    g.check("cat", &Tensor::cat(&[&x, &x.slice((.., ..1)), &(&x * 2)], 1));
    g.check("stack", &Tensor::stack(&[&m, &(&m + 1), &(&m + 2)], 1));
    g.check("stack_last", &Tensor::stack(&[m.clone(), &m + 1], -1));
    g.check("repeat", &m.repeat(2, 1));
    g.check("tile", &m.tile([2, 1, 2]));
    g.check("tile_short", &x.tile(2));
    g.check("pad_constant", &m.pad([(1, 0), (2, 3)], -1));
    g.check("pad_edge", &m.pad([(1, 2), (2, 0)], Border::Edge));
    g.check("pad_reflect", &m.pad([(1, 2), (3, 2)], Border::Reflect));
    g.check("pad_wrap", &m.pad([(2, 1), (4, 3)], Border::Wrap));
    let parts = v.split(2, 0);
    g.check("split_1", &parts[1]);
    g.check("split_2", &parts[2]);
}

fn broadcasts(g: &mut Golden) {
    let (x, m, v) = (f64s(&[2, 3, 4]), f64s(&[3, 4]), f64s(&[5]));
    g.check("broadcast_add", &(x.slice((.., ..1)) + m.slice((.., ..1)) * f64s(&[4])));
    g.check("broadcast_outer", &(v.unsqueeze(1) - &v));
    g.check("broadcast_where", &v.unsqueeze(1).gt(&v).where_(v.unsqueeze(1), -&v));
    let (low, high) = (Tensor::new([[1.0], [5.0], [9.0]]), Tensor::new([2.0, 4.0, 8.0, 10.0]));
    g.check("broadcast_clamp", &m.clamp(low, high));
}

fn creation(g: &mut Golden) {
    let f = DType::F64;
    g.check("arange_step", &Tensor::arange_with((1, 10, 3), f));
    g.check("arange_back", &Tensor::arange_with((5, -4, -2), f));
    g.check("arange_fraction", &Tensor::arange_with((0.0, 1.0, 0.3), f));
    g.check("linspace", &Tensor::linspace_with(-1.0, 2.0, 7, f));
    g.check("linspace_one", &Tensor::linspace_with(3.0, 4.0, 1, f));
    g.check("eye", &Tensor::eye_with(3, 4, f));
    g.check("tri", &Tensor::tri_with(3, 4, 1, f));
    let x = f64s(&[2, 3, 4]);
    g.check("tril", &x.tril(-1));
    g.check("triu", &x.triu(1));
}

fn reductions(g: &mut Golden) {
    let (x, m) = (f64s(&[2, 3, 4]), f64s(&[3, 4]));
    let (s, sm) = (x.sin(), m.sin());
    let f = |t: Tensor| t.cast(DType::F64);
    g.check("sum_all", &x.sum(..));
    g.check("sum_middle", &x.sum(1));
    g.check("sum_two_keep", &x.sum_keepdim([0, -1]));
    g.check("mean", &x.mean(-1));
    g.check("prod", &(&m + 1).prod(1));
    g.check("amax", &s.amax([1, 2]));
    g.check("amin", &s.amin(0));
    g.check("argmax", &f(s.argmax(1)));
    g.check("argmin_all", &f(s.argmin(..)));
    g.check("any", &f(x.gt(20).any(2)));
    g.check("all", &f(x.gt(3).all([1, 2])));
    g.check("var", &s.var([0, 2]));
    g.check("var_unbiased", &s.var_with(1, 1.0));
    g.check("std", &s.std(..));
    g.check("norm", &m.norm(1));
    g.check("norm_1", &sm.norm_p(1.0, 0));
    g.check("norm_3", &sm.norm_p(3.0, 0));
    g.check("softmax", &s.softmax(1));
    g.check("log_softmax", &s.log_softmax(1));
    g.check("logsumexp", &s.logsumexp([0, 1]));
    g.check("layer_norm", &x.layer_norm([1, 2], 1e-5));
    g.check("rms_norm", &x.rms_norm(-1, 1e-5));
}

fn products(g: &mut Golden) {
    let (x, m, v) = (f64s(&[2, 3, 4]), f64s(&[3, 4]), f64s(&[5]));
    let v4 = v.slice(..4);
    g.check("matmul", &x.matmul(&m.t()));
    g.check("matmul_batched", &x.unsqueeze(1).matmul(&x.t()));
    g.check("matmul_row", &v4.matmul(&x.t()));
    g.check("matmul_column", &x.matmul(&v4));
    g.check("matmul_vectors", &v.matmul(&v));
    g.check("dot", &v.dot(&(&v + 1)));
    g.check("outer", &v.outer(&(&v + 1)));
}

/// Samples of both signs; above 0; between -1 and 1.
fn samples() -> (Tensor, Tensor, Tensor) {
    let s = Tensor::new([-3.7, -2.5, -1.0, -0.3, -0.0, 0.0, 0.2, 0.5, 1.0, 1.5, 2.5, 30.0]);
    let (p, u) = (s.abs() + 0.1, &s / 31.0);
    (s, p, u)
}

fn elementwise(g: &mut Golden) {
    let (s, p, u) = samples();
    macro_rules! check {
        ($x:ident: $($name:ident)*) => { $(g.check(stringify!($name), &$x.$name());)* };
    }
    check!(s: neg abs sign square exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc sigmoid relu floor ceil round trunc);
    check!(p: sqrt rsqrt recip log log2 log10 log1p);
    check!(u: asin acos atanh);
    g.check("acosh", &(&p + 1).acosh());
    g.check("floor_div", &s.floor_div(0.7));
    g.check("rem", &(&s % 0.7));
    g.check("rem_negative", &s.rem(-0.7));
    g.check("pow", &p.pow(&s));
    g.check("minimum", &s.minimum(0.3));
    g.check("maximum", &Tensor::new(0.3).maximum(&s));
    g.check("atan2", &s.atan2(&p));
    g.check("hypot", &s.hypot(&p));
    g.check("lerp", &s.lerp(&p, 0.25));
}

fn composites(g: &mut Golden) {
    let (s, _, u) = samples();
    macro_rules! check {
        ($($name:ident($($arg:expr),*))*) => { $(g.check(stringify!($name), &s.$name($($arg),*));)* };
    }
    check! {
        gelu() gelu_tanh() silu() softplus() mish() leaky_relu(0.1) elu(1.5) selu() celu(2.0) hardtanh(-1.0, 2.0) relu6() hardsigmoid()
        hardswish() softsign() tanhshrink() hardshrink(0.5) softshrink(0.5) threshold(1.0, 7.0) log_sigmoid() sinc() rad2deg() deg2rad() fract()
    }
    g.check("logit", &((u + 1.0) / 2.0).logit());
    let odd = Tensor::new([1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    g.check("nan_to_num", &odd.nan_to_num(2.0, 3.0, -4.0));
}

#[test]
fn trivial_views_are_the_same_tensor() {
    thalweg::synchronize().unwrap();
    let before = thalweg::counters();
    let x = Tensor::zeros([2, 3]);
    for y in [
        x.reshape([2, -1]),
        x.permute([0, 1]),
        x.transpose(1, 1),
        x.expand([-1, 3]),
        x.slice((.., 0..)),
        x.slice(..),
        x.pad([(0, 0), (0, 0)], 0),
        x.roll(3, 1),
        x.tile([1, 1]),
        x.cast(DType::F32),
        x.squeeze(..),
        x.split(5, 0).remove(0),
        Tensor::cat(&[&x], 0),
    ] {
        assert_eq!(y.dims(), [2, 3]);
    }
    thalweg::synchronize().unwrap();
    assert_eq!((thalweg::counters() - before).operations, 1);
}

#[test]
fn parts_have_the_sizes_asked_for() {
    let x = f64s(&[7, 2]);
    let sizes = |list: Vec<Tensor>| list.iter().map(|t| t.dims()[0]).collect::<Vec<_>>();
    assert_eq!(sizes(x.split(3, 0)), [3, 3, 1]);
    assert_eq!(sizes(x.chunk(3, 0)), [3, 3, 1]);
    assert_eq!(sizes(x.chunk(9, 0)), [1; 7]);
    assert_eq!(sizes(x.split_sizes(&[0, 5, 2], 0)), [0, 5, 2]);
    assert_eq!(sizes(x.unbind(1)), [7, 7]);
    assert_eq!(x.flatten_axes(0, -1).dims(), [14]);
    assert_eq!(x.unflatten(0, [-1, 7]).dims(), [1, 7, 2]);
    assert_eq!(x.unsqueeze(-1).squeeze(2).dims(), [7, 2]);
    assert_eq!(x.narrow(0, 2, 3).to_vec::<f64>().unwrap(), [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    assert_eq!(x.index_axis(0, -1).to_vec::<f64>().unwrap(), [12.0, 13.0]);
    assert_eq!(x.positions(0, DType::I64).dims(), [7, 1]);
}

#[test]
fn casts_saturate_round_and_wrap() {
    let x = Tensor::new([f64::NAN, 1e300, -1e300, 2.9, -2.9, 300.0]);
    assert_eq!(x.cast(DType::I32).to_vec::<i32>().unwrap(), [0, i32::MAX, i32::MIN, 2, -2, 300]);
    assert_eq!(x.cast(DType::U8).to_vec::<u8>().unwrap(), [0, 255, 0, 2, 0, 255]);
    assert_eq!(x.cast(DType::Bool).to_vec::<bool>().unwrap(), [true; 6]);
    assert_eq!(Tensor::new([300i64, -1]).cast(DType::U8).to_vec::<u8>().unwrap(), [44, 255]);
    assert_eq!(Tensor::new([true, false]).cast(DType::F16).to_f64_vec().unwrap(), [1.0, 0.0]);
    for from in DType::ALL {
        for to in DType::ALL {
            let x = Tensor::new([0i32, 1]).cast(from).cast(to);
            assert_eq!((x.dtype(), x.to_f64_vec().unwrap()), (to, vec![0.0, 1.0]), "{from} to {to}");
        }
    }
}

#[test]
fn special_exponents_mean_what_pow_means() {
    let x = Tensor::new([0.5, 1.5, 3.0]);
    for e in [0.0, 1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0, 2.5] {
        assert!(x.powf(e).allclose(x.pow(x.full_like(e)), 1e-14, 0.0).unwrap(), "{e}");
        assert!(x.pow(e).allclose(x.powf(e), 0.0, 0.0).unwrap(), "{e}");
    }
    let i = Tensor::new([-3i32, 2, 0]);
    assert_eq!(i.powi(3).to_vec::<i32>().unwrap(), [-27, 8, 0]);
    assert_eq!(i.pow(5).to_vec::<i32>().unwrap(), [-243, 32, 0]);
}

#[test]
fn closeness_is_numpys() {
    let a = Tensor::new([1.0, f64::INFINITY, f64::NAN, 100.0, f64::INFINITY]);
    let b = Tensor::new([1.0 + 1e-9, f64::INFINITY, f64::NAN, 101.0, f64::NEG_INFINITY]);
    assert_eq!(a.isclose(&b, 1e-5, 1e-8).to_vec::<bool>().unwrap(), [true, true, false, false, false]);
    assert!(!a.allclose(&b, 1e-5, 1e-8).unwrap());
    assert!(Tensor::new([2.0, 2.0]).allclose(2.0, 0.0, 0.0).unwrap());
}

#[test]
fn extremes_of_softmax_stay_finite() {
    let x = Tensor::new([1e30f32, 0.0, -1e30]);
    assert_eq!(x.softmax(0).to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0]);
    assert_eq!(x.logsumexp(0).item::<f32>().unwrap(), 1e30);
    assert_eq!(Tensor::full([3], f64::NEG_INFINITY).logsumexp(0).item::<f32>().unwrap(), f32::NEG_INFINITY);
    assert_eq!(Tensor::zeros([0, 3]).softmax(1).dims(), [0, 3]);
}

#[test]
fn narrow_floats_are_rounded_once_at_the_end() {
    // The sum itself would overflow f16.
    let x = Tensor::full_with([100_000], 2, DType::F16);
    assert_eq!(x.mean(0).to_f64_vec().unwrap(), [2.0]);
    assert_eq!(x.var(0).to_f64_vec().unwrap(), [0.0]);
    assert_eq!(x.rms_norm(0, 0.0).slice(0).to_f64_vec().unwrap(), [1.0]);
    assert_eq!((x * 100).norm(0).to_f64_vec().unwrap(), [63232.0]);
    for dtype in [DType::F16, DType::BF16] {
        let x = Tensor::linspace_with(-4.0, 4.0, 100, dtype);
        let exact =
            |f: fn(&Tensor) -> Tensor| f(&x.cast(DType::F64)).cast(DType::F32).cast(dtype).to_f64_vec().unwrap();
        for f in [Tensor::gelu, Tensor::mish, |x: &Tensor| x.softmax(0), |x: &Tensor| x.layer_norm(0, 1e-5)] {
            let y = f(&x);
            assert_eq!(y.dtype(), dtype);
            // The f32 result may be on the other side of a rounding boundary.
            let step = 2f64.powi(2 - dtype.mantissa_digits() as i32);
            for (got, wanted) in y.to_f64_vec().unwrap().into_iter().zip(exact(f)) {
                assert!((got - wanted).abs() <= step * wanted.abs() + 1e-7, "{dtype}: {got} instead of {wanted}");
            }
        }
    }
}

#[test]
fn the_remaining_methods() {
    let x = Tensor::new([-2.0f32, 4.0]);
    assert_eq!(x.prelu(&Tensor::new([0.5f32, 9.0])).to_vec::<f32>().unwrap(), [-1.0, 4.0]);
    assert_eq!(x.norm_p(f64::INFINITY, 0).item::<f32>().unwrap(), 4.0);
    assert_eq!(x.norm_p(f64::NEG_INFINITY, 0).item::<f32>().unwrap(), 2.0);
    assert_eq!(x.norm_p(0.0, ..).item::<f32>().unwrap(), 2.0);
    assert_eq!(x.rand_like().dims(), [2]);
    assert_eq!(x.cast(DType::F64).randn_like().dtype(), DType::F64);
    assert_eq!(x.unsqueeze(0).swap_axes(0, 1).dims(), [2, 1]);
    assert_eq!(x.select(0, -1).item::<f32>().unwrap(), 4.0);
    assert_eq!((x.size(-1), x.numel(), x.rank()), (2, 2, 1));
    assert_eq!(x.argmax_keepdim(..).dims(), [1]);
    assert_eq!(x.sum([0; 0]).dims(), [2]);
    let mask = Tensor::new([[true, false], [true, true]]);
    assert_eq!(mask.all_keepdim(1).to_vec::<bool>().unwrap(), [false, true]);
    let (_, explanation) = thalweg::explain(|| (&x + 1.0).to_vec::<f32>().unwrap());
    assert_eq!(explanation.segments.len(), 1);
}

#[test]
fn nothing_and_single_elements_go_through_everything() {
    let none = Tensor::zeros([0, 3]);
    let v = |x: Tensor| x.to_vec::<f32>().unwrap();
    assert_eq!(v((&none + 1.0).exp()), [0.0; 0]);
    assert_eq!(v(none.sum(0)), [0.0; 3]);
    assert_eq!(v(none.prod(0)), [1.0; 3]);
    assert_eq!(v(none.sum(1)), [0.0; 0]);
    assert!(v(none.mean(0)).iter().all(|m| m.is_nan()));
    assert_eq!(v(none.t().matmul(&none)), [0.0; 9]);
    assert_eq!(v(Tensor::cat(&[&none, &Tensor::ones([1, 3])], 0)), [1.0; 3]);
    assert_eq!(v(none.pad([(1, 0), (0, 0)], 2)), [2.0; 3]);
    assert_eq!(none.reshape([3, 0, 7]).flip(..).dims(), [3, 0, 7]);
    assert_eq!(v(Tensor::ones([2, 1]) * Tensor::zeros([0])), [0.0; 0]);
    assert_eq!(none.to_string(), "[]");
    let one = Tensor::new(3.0f32);
    assert_eq!(v(one.sum(..) + one.amax(..) + one.unsqueeze(0).softmax(0).squeeze(0)), [7.0]);
    assert_eq!(one.argmax(..).item::<i64>().unwrap(), 0);
    assert_eq!(v(one.expand([2, 2]).sum(..)), [12.0]);
    let deep = Tensor::arange(256).reshape([2; 8]);
    assert_eq!(v(deep.permute([7, 6, 5, 4, 3, 2, 1, 0]).flip(..).slice((0, 0, 0, 0, 0, 0, 0, 0))), [255.0]);
    assert_eq!(v(deep.repeat(2, 7).sum(..)), [65280.0]);
    assert_eq!(v(deep.tile([1, 1, 1, 1, 1, 1, 1, 2]).sum([0, 1, 2, 3, 4, 5, 6])).len(), 4);
}

#[test]
fn a_value_without_elements_is_reduced_in_the_segment_that_makes_it() {
    let none = Tensor::zeros([0, 3]);
    assert!(none.gt(0).all(..).item::<bool>().unwrap());
    assert_eq!((&none + 1.0).sum(0).to_vec::<f32>().unwrap(), [0.0; 3]);
    assert_eq!((none.t() * 2.0).matmul(&none).sum(..).item::<f32>().unwrap(), 0.0);
}
