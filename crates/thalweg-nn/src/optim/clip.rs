//! Gradient clipping.

use std::ops::Deref;
use thalweg::{DType, Gradients, Tensor, no_grad};

/// Total norm of the gradients before clipping: an f32 scalar, computed only if read or needed.
#[derive(Clone)]
pub struct Norm(Tensor);

impl Deref for Norm {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

/// Scales all gradients by one factor so that their total norm is at most `most` (Pascanu, Mikolov and Bengio 2013), as
/// `torch.nn.utils.clip_grad_norm_`. Returns the norm before clipping. If a gradient is NaN or infinite, so is the
/// norm, and gradients become NaN or 0. Records operations and runs nothing.
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
pub fn clip_norm(gradients: &mut Gradients, most: f64) -> Norm {
    no_grad(|| {
        let squares: Vec<Tensor> = gradients.iter().map(|g| g.cast(DType::F32).square().sum(..)).collect();
        let Some((first, rest)) = squares.split_first() else { return Norm(Tensor::zeros([0; 0])) };
        let norm = rest.iter().fold(first.clone(), |sum, square| sum + square.clone()).sqrt();
        let factor = (most / (&norm + 1e-6)).minimum(1.0);
        for gradient in gradients.iter_mut() {
            *gradient = &*gradient * factor.cast(gradient.dtype());
        }
        Norm(norm)
    })
}

/// Clamps every element of every gradient to `[-most, most]`, as `torch.nn.utils.clip_grad_value_`.
pub fn clip_value(gradients: &mut Gradients, most: f64) {
    no_grad(|| gradients.iter_mut().for_each(|gradient| *gradient = gradient.clamp(-most, most)));
}
