//! Product of two operands of an einsum.
//!
//! In: tensors with a label per axis, no label twice. Out: their product, summed over the labels that are no longer
//! needed. Common labels that are needed are the batch; common labels that are not are the terms; the others are rows
//! of the left and columns of the right factor.

use super::spec::LABELS;
use crate::record::widened;
use crate::{MAX_RANK, Shape, Tensor};
use thalweg_ir::DType;

/// Tensor with a label for each axis.
pub struct Labelled {
    tensor: Tensor,
    labels: Vec<u8>,
}

/// The sum over axes in the tensor's own dtype: integers wrap, bf16 and f16 are accumulated in f32.
fn summed(x: &Tensor, axes: &[usize]) -> Tensor {
    if axes.is_empty() { x.clone() } else { x.sum(axes).cast(x.dtype()) }
}

fn product_of(sizes: &[usize]) -> usize {
    sizes.iter().product()
}

impl Labelled {
    /// An operand with its diagonals taken. Axes of size 1 whose label is larger elsewhere are dropped, since they only
    /// broadcast.
    pub fn new(x: &Tensor, labels: &[u8], sizes: &[usize; LABELS]) -> Labelled {
        let (mut tensor, mut labels) = (x.clone(), labels.to_vec());
        while let Some((a, b)) = twins(&labels) {
            let label = labels[a];
            let rank = tensor.rank();
            tensor = tensor.movedim(b, rank - 1).movedim(a, rank - 2).diagonal(0);
            labels.remove(b);
            labels.remove(a);
            labels.push(label);
        }
        let broadcast = |i: usize| tensor.dims()[i] == 1 && sizes[labels[i] as usize] != 1;
        let (gone, kept): (Vec<usize>, Vec<usize>) = (0..labels.len()).partition(|&i| broadcast(i));
        labels = kept.into_iter().map(|i| labels[i]).collect();
        Labelled { tensor: tensor.squeeze(gone), labels }
    }

    /// Bit mask of the labels.
    pub fn mask(&self) -> u64 {
        self.labels.iter().fold(0, |m, &l| m | 1 << l)
    }

    fn of(self, wanted: impl Fn(u8) -> bool) -> Vec<u8> {
        self.labels.iter().copied().filter(|&l| wanted(l)).collect()
    }

    /// Sums the tensor over the axes whose labels are not in the mask `wanted`.
    fn without(self, wanted: u64) -> Labelled {
        let gone: Vec<usize> = (0..self.labels.len()).filter(|&i| wanted >> self.labels[i] & 1 == 0).collect();
        let tensor = summed(&self.tensor, &gone);
        Labelled { tensor, labels: self.of(|l| wanted >> l & 1 == 1) }
    }

    /// Permutes the axes to the order of `labels`; labels that the tensor does not have are skipped.
    fn ordered(&self, labels: &[u8]) -> Tensor {
        let place = |l: &u8| self.labels.iter().position(|own| own == l);
        self.tensor.permute(labels.iter().filter_map(place).collect::<Vec<_>>())
    }

    /// Reshapes the tensor so that it broadcasts against others that have axes `labels`.
    fn spread(&self, labels: &[u8]) -> Tensor {
        let ordered = self.ordered(labels);
        let mut own = ordered.dims().iter();
        let dims: Vec<usize> = labels
            .iter()
            .map(|l| if self.labels.contains(l) { *own.next().expect("an axis for each label") } else { 1 })
            .collect();
        ordered.reshaped(Shape::new(&dims))
    }

    /// The result: summed, permuted, and broadcast along labels of which only axes of size 1 existed.
    pub fn finished(self, output: &[u8], sizes: &[usize; LABELS]) -> Tensor {
        let last = self.without(output.iter().fold(0, |m, &l| m | 1 << l));
        let dims: Vec<usize> = output.iter().map(|&l| sizes[l as usize]).collect();
        last.spread(output).broadcast_to(Shape::new(&dims))
    }
}

/// Positions of two axes with the same label, if there are any.
fn twins(labels: &[u8]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|a| (a + 1..labels.len()).find(|&b| labels[a] == labels[b]).map(|b| (a, b)))
}

/// The product of two operands, summed over labels that are not needed; `Err` with its rank if that exceeds the limit.
pub fn product(a: Labelled, b: Labelled, needed: u64, sizes: &[usize; LABELS]) -> Result<Labelled, usize> {
    // Labels of only one operand that are not needed are summed before the product.
    let (of_a, of_b) = (a.mask(), b.mask());
    let (a, b) = (a.without(needed | of_b), b.without(needed | of_a));
    let (of_a, of_b) = (a.mask(), b.mask());
    let of = |from: &Labelled, mask: u64| -> Vec<u8> {
        from.labels.iter().copied().filter(|l| mask >> l & 1 == 1).collect()
    };
    let (batch, terms) = (of(&a, of_b & needed), of(&a, of_b & !needed));
    let (rows, columns) = (of(&a, !of_b), of(&b, !of_a));
    let labels = [batch.as_slice(), &rows, &columns].concat();
    if labels.len() > MAX_RANK {
        return Err(labels.len());
    }
    let dims = |labels: &[u8]| -> Vec<usize> { labels.iter().map(|&l| sizes[l as usize]).collect() };
    let shape = Shape::new(&dims(&labels));
    let one = product_of(&dims(&rows)) == 1 && product_of(&dims(&columns)) == 1;
    if terms.is_empty() || one && labels.len() + terms.len() <= MAX_RANK {
        // No data reuse between rows and columns: element by element, then one fold.
        let all = [labels.as_slice(), &terms].concat();
        let (x, y) = (a.spread(&all), b.spread(&all));
        if terms.is_empty() {
            return Ok(Labelled { tensor: (x * y).broadcast_to(shape), labels });
        }
        let axes: Vec<usize> = (labels.len()..all.len()).collect();
        let dtype = x.dtype();
        let tensor = summed(&(widened(&x) * widened(&y)), &axes).cast(dtype);
        return Ok(Labelled { tensor: tensor.broadcast_to(shape), labels });
    }
    // Batch axes stay separate, unless there are too many beside rows and columns.
    let lead = if batch.len() + 2 > MAX_RANK { vec![product_of(&dims(&batch))] } else { dims(&batch) };
    let matrix = |x: &Labelled, first: &[u8], second: &[u8]| -> Tensor {
        let sizes = [product_of(&dims(first)), product_of(&dims(second))];
        x.ordered(&[batch.as_slice(), first, second].concat()).reshaped(Shape::new(&[lead.as_slice(), &sizes].concat()))
    };
    let sums = matrix(&a, &rows, &terms).matmul(&matrix(&b, &terms, &columns));
    debug_assert!(sums.dtype() != DType::Bool);
    Ok(Labelled { tensor: sums.reshaped(shape), labels })
}
