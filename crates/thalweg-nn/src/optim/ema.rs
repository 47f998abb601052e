//! Exponential moving average of a model.

use crate::leaf::Memo;
use crate::module::Slot;
use crate::{Kind, Module, NamePath};
use thalweg::{Tensor, no_grad};

/// Exponential moving average of a model's parameters (Polyak and Juditsky 1992), often better than the model itself.
/// Buffers are copied unchanged. A parameter that two fields share has one average.
///
/// ```
/// use thalweg_nn::optim::Ema;
/// use thalweg_nn::prelude::*;
/// let mut model = Linear::new(2, 1);
/// let mut average = Ema::new(&model, 0.99);
/// model.update(&mut |_, _, t| (t + 1.0).tracked());
/// average.update(&model);
/// let moved = (&average.model().bias.clone().unwrap() - model.bias.as_ref().unwrap()).item::<f32>()?;
/// assert!((moved + 0.99).abs() < 1e-5);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Ema<M> {
    model: M,
    decay: f64,
}

impl<M: Module + Clone> Ema<M> {
    /// Makes an average that starts as the model and keeps the fraction `decay` of itself in each update. It is in
    /// evaluation mode and untracked.
    pub fn new(model: &M, decay: f64) -> Ema<M> {
        let mut own = model.map(Tensor::detach);
        own.eval();
        Ema { model: own, decay }
    }

    /// Moves the average toward the model.
    ///
    /// # Panics
    /// If the model has other tensors than the one it was made from.
    #[track_caller]
    pub fn update(&mut self, model: &M) {
        let mut new = Vec::new();
        model.visit(&mut NamePath::root(), &mut |_, _, tensor| new.push(tensor.detach()));
        let mut new = new.into_iter();
        let decay = self.decay;
        let mut averages = Memo::default();
        no_grad(|| {
            self.model.visit_mut(&mut NamePath::root(), &mut |name, slot| {
                let Slot::Tensor(kind, own) = slot else { return };
                let Some(new) = new.next().filter(|new| new.shape() == own.shape()) else {
                    panic!("Ema: {name} {} is not of the model it is moved toward", own.shape())
                };
                *own = match kind {
                    Kind::Parameter => averages.get(own, || &*own * decay + new * (1.0 - decay)),
                    _ => new,
                };
            });
        });
    }

    /// Averaged model.
    pub fn model(&self) -> &M {
        &self.model
    }
}
