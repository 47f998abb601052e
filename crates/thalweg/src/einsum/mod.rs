//! Einstein's sums of any number of operands.
//!
//! In: a specification and tensors. Out: products of two operands at a time ([`pair`]), in the order that takes the
//! fewest multiplications ([`order`]). Always true: an axis has a label that it keeps to the end, and what is summed
//! away is summed as soon as no operand and not the result needs it.

mod order;
mod pair;
mod spec;

use crate::Tensor;
use crate::record::{check_alike, wrong_dtype};
use pair::Labelled;
use spec::Spec;
use thalweg_ir::DType;

impl Tensor {
    /// Einstein's summation: each operand's axes are named by letters, and the result is the product of all operands,
    /// summed over the letters that it does not have (NumPy's and PyTorch's `einsum`).
    ///
    /// * A letter that stands twice in one operand takes its diagonal.
    /// * `...` stands for any axes, which broadcast. Axes of size 1 broadcast under letters, too.
    /// * Without `->`, the result has the axes of `...` and then the letters that stand once, in alphabetical order.
    ///   With `->` and without `...` behind it, the axes of `...` are summed away.
    /// * Blanks mean nothing.
    ///
    /// Two operands at a time are multiplied: as a batched [`matmul`](Tensor::matmul) of permuted views where letters
    /// are summed away, else element by element. The order of the products is the one with the fewest multiplications
    /// for up to eight operands; of more, the cheapest pair is taken again and again.
    ///
    /// Sums are added up as those of [`matmul`](Tensor::matmul): bf16 and f16 in f32, each pair's result rounded once;
    /// integers wrap. What a result's last bits are depends on the order of the products, which follows from the
    /// specification and the shapes alone.
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
    /// When the specification is not one, does not fit the shapes, or an operand or a step would have more than eight
    /// axes; when dtypes or devices differ, or the dtype is bool.
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
            // The later one goes first, so that the earlier one's place stays.
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
