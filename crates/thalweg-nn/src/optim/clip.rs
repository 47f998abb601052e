//! Gradients that are kept within bounds.

use thalweg::{DType, Gradients, Tensor, no_grad};

/// Scales all gradients alike, so that the norm of all of them together is at most `most` (Pascanu, Mikolov and Bengio
/// 2013). Returns the norm before, as a scalar of f32: NaN or infinite where a gradient is, in which case all of them
/// become NaN or 0. Records and runs nothing.
///
/// ```
/// use thalweg_nn::optim::clip_norm;
/// # use thalweg::Tensor;
/// let w = Tensor::new([3.0f32, 4.0]).tracked();
/// let mut gradients = (w.square().sum(..) * 0.5).backward();
/// assert_eq!(clip_norm(&mut gradients, 1.0).item::<f32>()?, 5.0);
/// assert!(gradients[&w].allclose(Tensor::new([0.6f32, 0.8]), 1e-5, 0.0)?);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn clip_norm(gradients: &mut Gradients, most: f64) -> Tensor {
    no_grad(|| {
        let squares: Vec<Tensor> = gradients.iter().map(|g| g.cast(DType::F32).square().sum(..)).collect();
        let Some((first, rest)) = squares.split_first() else { return Tensor::zeros([0; 0]) };
        let norm = rest.iter().fold(first.clone(), |sum, square| sum + square.clone()).sqrt();
        let factor = (most / (&norm + 1e-6)).minimum(1.0);
        for gradient in gradients.iter_mut() {
            *gradient = &*gradient * factor.cast(gradient.dtype());
        }
        norm
    })
}

/// Brings every element of every gradient between `-most` and `most`.
pub fn clip_value(gradients: &mut Gradients, most: f64) {
    no_grad(|| gradients.iter_mut().for_each(|gradient| *gradient = gradient.clamp(-most, most)));
}
