//! Einstein summation of any number of operands.
//!
//! In: a specification and tensors. Out: products of two operands at a time ([`pair`]), in the order with the fewest
//! multiplications ([`order`]). Always true: an axis keeps its label to the end, and a label is summed as soon as
//! neither another operand nor the result needs it.

mod order;
mod pair;
mod spec;

use crate::Tensor;
use crate::record::{check_alike, wrong_dtype};
use pair::Labelled;
use spec::Spec;
use thalweg_ir::DType;

/// # Linear algebra: einsum
impl Tensor {
    /// Einstein summation, as NumPy's and PyTorch's `einsum`: letters name each operand's axes, and the result is the
    /// product of all operands, summed over the letters that the result does not have.
    ///
    /// * A letter that occurs twice in one operand takes its diagonal.
    /// * `...` matches any number of axes, which broadcast. Axes of size 1 broadcast under letters, too.
    /// * Without `->`, the result has the axes of `...` and then the letters that occur once, in alphabetical order.
    ///   With `->` and without `...` after it, the axes of `...` are summed.
    /// * Blanks are ignored.
    ///
    /// Operands are multiplied two at a time: as a batched [`matmul`](Tensor::matmul) of permuted views if letters are
    /// summed, else element by element. For up to eight operands the order is the one with the fewest multiplications;
    /// for more, the cheapest pair is multiplied repeatedly.
    ///
    /// Sums are those of [`matmul`](Tensor::matmul): bf16 and f16 are accumulated in f32, and the result of each pair
    /// is rounded once; integers wrap. The last bits of a result depend on the order of the products, which depends
    /// only on the specification and the shapes.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (a, b) = (Tensor::randn([5, 2, 3]), Tensor::randn([5, 3, 4]));
    /// assert_eq!(Tensor::einsum("bij,bjk->bik", &[&a, &b]).dims(), [5, 2, 4]);
    /// let m = Tensor::arange(9).reshape([3, 3]);
    /// assert_eq!(Tensor::einsum("ii", &[&m]).item::<f32>()?, 12.0);
    /// assert_eq!(Tensor::einsum("ij->j", &[&m]).to_vec::<f32>()?, [9.0, 12.0, 15.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the specification is invalid or does not match the shapes, or an operand or an intermediate would have more
    /// than eight axes; when dtypes or devices differ, or the dtype is bool.
    #[track_caller]
    pub fn einsum<T: AsRef<Tensor>>(spec: &str, operands: &[T]) -> Tensor {
        let tensors: Vec<&Tensor> = operands.iter().map(T::as_ref).collect();
        let shapes = || tensors.iter().map(|t| t.shape().to_string()).collect::<Vec<_>>().join(", ");
        let ranks: Vec<&[usize]> = tensors.iter().map(|t| t.dims()).collect();
        let Spec { inputs, output, sizes } = match Spec::parse(spec, &ranks) {
            Ok(parsed) => parsed,
            Err(why) => panic!("einsum: {spec:?} of shapes {}: {why}", shapes()),
        };
        for other in &tensors {
            check_alike("einsum", tensors[0], other);
        }
        if tensors[0].dtype() == DType::Bool {
            wrong_dtype("einsum", "a float or integer dtype", DType::Bool);
        }
        let mut left: Vec<Labelled> =
            tensors.iter().zip(inputs).map(|(t, labels)| Labelled::new(t, &labels, &sizes)).collect();
        let masks: Vec<u64> = left.iter().map(Labelled::mask).collect();
        for (a, b) in order::order(&masks, output.iter().fold(0, |m, &l| m | 1 << l), &sizes) {
            // The later one is removed first, so that the earlier index stays valid.
            let (second, first) = (left.remove(a.max(b)), left.remove(a.min(b)));
            let needed = left.iter().fold(output.iter().fold(0, |m, &l| m | 1 << l), |m, o| m | o.mask());
            match pair::product(first, second, needed, &sizes) {
                Ok(made) => left.push(made),
                Err(rank) => panic!(
                    "einsum: {spec:?} of shapes {}: a step has {rank} axes, over the rank limit of {}",
                    shapes(),
                    crate::MAX_RANK
                ),
            }
        }
        let last = left.pop().expect("a specification has an operand");
        last.finished(&output, &sizes)
    }
}
