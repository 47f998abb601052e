//! Views, creation and mistakes of complex numbers.

use crate::mistake::assert_mistake_at;
use thalweg::Complex;
use thalweg::prelude::*;

fn some() -> Complex {
    Complex::from_pairs(&[(1.0f32, 2.0), (-3.5, -40.0), (0.0, 1.0), (0.5, -0.25), (7.0, 0.0), (2.0, 3.0)], [2, 3])
}

#[test]
fn what_moves_moves_both_parts() {
    let z = some();
    let all = z.to_vec::<f32>().unwrap();
    let at = |places: &[usize]| places.iter().map(|&p| all[p]).collect::<Vec<_>>();
    let is = |z: Complex, dims: &[usize], places: &[usize]| {
        assert_eq!((z.dims(), z.im.dims(), z.to_vec::<f32>().unwrap()), (dims, dims, at(places)));
    };
    is(z.permute([1, 0]), &[3, 2], &[0, 3, 1, 4, 2, 5]);
    is(z.t(), &[3, 2], &[0, 3, 1, 4, 2, 5]);
    is(z.transpose(0, 1), &[3, 2], &[0, 3, 1, 4, 2, 5]);
    is(z.movedim(0, -1), &[3, 2], &[0, 3, 1, 4, 2, 5]);
    is(z.flatten(), &[6], &[0, 1, 2, 3, 4, 5]);
    is(z.flatten_axes(0, 1).unflatten(0, [-1, 2]), &[3, 2], &[0, 1, 2, 3, 4, 5]);
    is(z.reshape([3, 2]), &[3, 2], &[0, 1, 2, 3, 4, 5]);
    is(z.slice((1, ..2)), &[2], &[3, 4]);
    is(z.index_axis(1, -1), &[2], &[2, 5]);
    is(z.narrow(1, 1, 2), &[2, 2], &[1, 2, 4, 5]);
    is(z.index_select(0, &Tensor::new([1i64, 1])), &[2, 3], &[3, 4, 5, 3, 4, 5]);
    is(z.gather(1, &Tensor::new([[2i64], [0]])), &[2, 1], &[2, 3]);
    is(z.take(&Tensor::new([5i64, -6])), &[2], &[5, 0]);
    is(z.index(&[Tensor::new([0i64, 1]), Tensor::new([1i64, 2])]), &[2], &[1, 5]);
    is(z.masked_select(&z.re.gt(0.6)).unwrap(), &[3], &[0, 4, 5]);
    is(z.flip(1), &[2, 3], &[2, 1, 0, 5, 4, 3]);
    is(z.roll(1, 1), &[2, 3], &[2, 0, 1, 5, 3, 4]);
    is(z.rot90(1, 0, 1), &[3, 2], &[2, 5, 1, 4, 0, 3]);
    is(z.repeat(2, 0), &[4, 3], &[0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    is(z.tile([2, 1]), &[4, 3], &[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    is(z.unsqueeze(0).squeeze(0), &[2, 3], &[0, 1, 2, 3, 4, 5]);
    is(z.slice(0).broadcast_to([2, 3]), &[2, 3], &[0, 1, 2, 0, 1, 2]);
    is(z.slice((.., 0..1)).expand([-1, 2]), &[2, 2], &[0, 0, 3, 3]);
    is(z.diagonal(1), &[2], &[1, 5]);
    is(z.window(1, 2, 1), &[2, 2, 2], &[0, 1, 1, 2, 3, 4, 4, 5]);
    is(z.pad([(0, 0), (1, 0)], Border::Wrap), &[2, 4], &[2, 0, 1, 2, 5, 3, 4, 5]);
    is(Complex::cat(&[z.slice(1), z.slice(0)], 0), &[6], &[3, 4, 5, 0, 1, 2]);
    is(Complex::stack(&[z.slice(1), z.slice(0)], 0), &[2, 3], &[3, 4, 5, 0, 1, 2]);
    is(z.unbind(0).remove(1), &[3], &[3, 4, 5]);
    is(z.split(2, 1).remove(1), &[2, 1], &[2, 5]);
    is(Complex::where_(&Tensor::new([true, false, true]), &z.slice(0), &z.slice(1)), &[3], &[0, 4, 2]);
    let mut set = z.clone();
    set.set((.., 0), &z.slice((.., 2)));
    is(set, &[2, 3], &[2, 1, 2, 5, 4, 5]);
}

#[test]
fn parts_side_by_side() {
    let z = some();
    let parts = z.view_as_real();
    assert_eq!(parts.dims(), [2, 3, 2]);
    let flat = parts.to_vec::<f32>().unwrap();
    assert_eq!(flat[..4], [1.0, 2.0, -3.5, -40.0]);
    let same = |w: Complex| assert_eq!((w.dims(), w.to_vec::<f32>().unwrap()), (z.dims(), z.to_vec().unwrap()));
    same(Complex::view_as_complex(&parts));
    same(Complex::from_interleaved(&flat, [2, 3]));
    assert_eq!(z.cast(DType::F64).dtype(), DType::F64);
    assert_eq!(z.slice((0, 1)).item::<f32>().unwrap(), (-3.5, -40.0));
    let empty = Complex::real(&Tensor::zeros([0, 2]));
    assert_eq!(empty.prod(0).to_vec::<f32>().unwrap(), [(1.0, 0.0); 2]);
    assert_eq!(empty.cumprod(0).dims(), [0, 2]);
}

#[test]
fn made_from_a_rule() {
    assert_eq!(Complex::full_with([2], (1.0, -2.0), DType::F64).to_vec::<f64>().unwrap(), [(1.0, -2.0); 2]);
    assert_eq!(Complex::ones([1]).to_vec::<f32>().unwrap(), [(1.0, 0.0)]);
    assert_eq!(Complex::zeros([1]).to_vec::<f32>().unwrap(), [(0.0, 0.0)]);
    manual_seed(7);
    let z = Complex::randn_with([40_000], DType::F64);
    let [power, square] = [z.abs_square().mean(..).item::<f64>().unwrap(), z.square().mean(..).abs().item().unwrap()];
    // Circular: the parts are independent and have equal variance.
    assert!((power - 1.0).abs() < 0.03 && square < 0.03, "{power} {square}");
    let u = Complex::rand([40_000]).mean(..).item::<f32>().unwrap();
    assert!((u.0 - 0.5).abs() < 0.01 && (u.1 - 0.5).abs() < 0.01, "{u:?}");
    manual_seed(7);
    assert_eq!(
        Complex::randn_with([40_000], DType::F64).slice(5).to_vec::<f64>().unwrap(),
        z.slice(5).to_vec().unwrap()
    );
}

/// A function of complex numbers is one kernel, which reads its argument once.
#[test]
fn functions_fuse() {
    let z = Complex::new(Tensor::rand([64, 64]), Tensor::rand([64, 64]));
    (&z.re + 0.0).sum(..).item::<f32>().unwrap();
    let (_, why) = thalweg::explain(|| {
        let w = (z.exp() * z.conj() / (2.0 + z.sqrt())).abs();
        w.item_sum()
    });
    assert_eq!(why.segments.iter().map(|s| s.kernels.len()).sum::<usize>(), 1, "{why}");
}

trait ItemSum {
    fn item_sum(&self) -> f32;
}

impl ItemSum for Tensor {
    fn item_sum(&self) -> f32 {
        self.sum(..).item().unwrap()
    }
}

#[test]
fn mistakes_panic_at_the_line() {
    let z = some();
    let told = |f: &dyn Fn(), parts: &[&str]| assert_mistake_at("tests/complex/", f, parts);
    let other = Complex::zeros([4]);
    told(&|| drop(&z + &other), &["add: shapes [2, 3] and [4] do not broadcast"]);
    told(&|| drop(&z * other.clone()), &["mul: shapes [2, 3] and [4] do not broadcast"]);
    told(&|| drop(&z / &other), &["div: shapes [2, 3] and [4] do not broadcast"]);
    told(&|| drop(Tensor::zeros([4]) / &z), &["div: shapes [4] and [2, 3] do not broadcast"]);
    told(&|| drop(2.0 * z.matmul(&other)), &["matmul: shapes [2, 3] and [4]"]);
    told(&|| drop(z.pow(&other)), &["pow: shapes [2, 3] and [4] do not broadcast"]);
    told(&|| drop(z.eq(&z.cast(DType::F64))), &["eq: dtypes f32 and f64 differ"]);
    told(&|| drop(z.reshape([4])), &["reshape: shape [2, 3] with 6 elements does not fit [4]"]);
    told(&|| drop(z.flip(2)), &["flip: axis 2 is out of range for rank 2"]);
    told(&|| drop(z.slice((0, 0, 0))), &["slice"]);
    told(&|| drop(z.sum(2)), &["sum: axis 2 is out of range for rank 2"]);
    told(&|| drop(z.prod(2)), &["prod: axis 2 is out of range for rank 2"]);
    told(&|| drop(z.cumprod(2)), &["cumprod: axis 2 is out of range for rank 2"]);
    told(&|| drop(z.cast(DType::I32)), &["Complex::cast: takes a float dtype, not i32"]);
    told(&|| drop(z.vdot(&other)), &["vdot: shapes [2, 3] and [4] have not as many numbers"]);
    told(&|| drop(other.adjoint()), &["adjoint: takes matrices, not shape [4]"]);
    told(&|| drop(Complex::einsum("i,i,i", &[&other; 3])), &["Complex::einsum: takes one or two operands, not 3"]);
    told(&|| drop(Complex::cat(&[&z, &other], 0)), &["cat: shapes [2, 3] and [4] differ"]);
    told(&|| drop(z.map(|t| if t.gt(1e9).rank() == 2 { t.cast(DType::Bool) } else { t.clone() })), &["Complex::map"]);
    told(&|| drop(Complex::from_interleaved(&[1.0f32; 3], [2])), &["Complex::from_interleaved: 3 parts for shape [2]"]);
    told(&|| drop(Complex::view_as_complex(&Tensor::zeros([2, 3]))), &["a last axis of size 2, not shape [2, 3]"]);
    told(&|| drop(Complex::from_pairs(&[(1i32, 2)], [1])), &["Complex::from_pairs: takes a float dtype, not i32"]);
}
