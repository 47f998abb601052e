//! Update rules, one formula each, as in PyTorch.

use super::{Optimizer, Shared, Step};
use thalweg::Tensor;

/// Defines an optimizer: its options, their builder methods and the shared part. No state is kept if the option after
/// `if` is 0.
macro_rules! optimizer {
    (
        $(#[$about:meta])*
        $name:ident { $($(#[$field_about:meta])* $field:ident: $t:ty = $default:expr),* $(,)? }
        keeps [$($state:literal),*] $(if $needs:ident)?
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name {
            shared: Shared,
            $($field: $t,)*
        }

        impl $name {
            /// Makes an optimizer with this learning rate.
            #[must_use]
            pub fn new(rate: f64) -> $name {
                $name { shared: Shared::new(rate), $($field: $default,)* }
            }

            $(
                $(#[$field_about])*
                #[must_use]
                pub fn $field(mut self, $field: $t) -> $name {
                    self.$field = $field;
                    self
                }
            )*

            /// Sets a factor of the learning rate per parameter name: another rate for a part of a model, or 0 for
            /// none.
            #[must_use]
            pub fn factors(mut self, factor: impl Fn(&str) -> f64 + Send + Sync + 'static) -> $name {
                self.shared.factors = Some(Box::new(factor));
                self
            }

            /// Selects the parameters with weight decay by name; all by default.
            #[must_use]
            pub fn decays(mut self, decays: impl Fn(&str) -> bool + Send + Sync + 'static) -> $name {
                self.shared.decays = Some(Box::new(decays));
                self
            }
        }

        impl Optimizer for $name {
            fn shared(&self) -> &Shared {
                &self.shared
            }
            fn shared_mut(&mut self) -> &mut Shared {
                &mut self.shared
            }
            fn state_names(&self) -> &'static [&'static str] {
                $(if self.$needs == 0.0 {
                    return &[];
                })?
                &[$($state),*]
            }
            fn update(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor {
                self.formula(step, state)
            }
        }
    };
}

/// Weighted mean `a·share + b·(1 - share)`.
fn mix(a: &Tensor, b: &Tensor, share: f64) -> Tensor {
    a * share + b * (1.0 - share)
}

/// Gradient of the loss with the L2 penalty `decay/2·|w|²`.
fn decayed(step: &Step<'_>, decay: f64) -> Tensor {
    if decay != 0.0 && step.decays { step.gradient + step.value * decay } else { step.gradient.clone() }
}

/// Value of the parameter after decoupled weight decay.
fn shrunk(step: &Step<'_>, decay: f64) -> Tensor {
    if decay != 0.0 && step.decays { step.value * (1.0 - step.rate * decay) } else { step.value.clone() }
}

optimizer! {
    /// Stochastic gradient descent, with optional momentum (Sutskever et al. 2013), as `torch.optim.SGD`:
    /// `v = momentum·v + g`, and the parameter moves by `-rate·v`; with Nesterov momentum by `-rate·(g + momentum·v)`.
    Sgd {
        /// Sets the momentum: the fraction of the last step that is repeated.
        momentum: f64 = 0.0,
        /// Sets whether momentum is Nesterov's.
        nesterov: bool = false,
        /// Sets the dampening: the fraction of each gradient but the first that does not enter the momentum.
        dampening: f64 = 0.0,
        /// Sets the L2 penalty: this multiple of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    }
    keeps ["momentum_buffer"] if momentum
}

impl Sgd {
    fn formula(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor {
        let gradient = decayed(step, self.weight_decay);
        if self.momentum == 0.0 {
            return step.value - gradient * step.rate;
        }
        let [buffer] = state else { unreachable!("one for each of state_names()") };
        // The first gradient is not dampened.
        let fresh = if step.number == 1 { 1.0 } else { 1.0 - self.dampening };
        *buffer = &*buffer * self.momentum + &gradient * fresh;
        let by = if self.nesterov { gradient + &*buffer * self.momentum } else { buffer.clone() };
        step.value - by * step.rate
    }
}

/// Computes the amount that an Adam step subtracts from the parameter: bias-corrected first moment over the root of the
/// bias-corrected second moment, times the rate. Updates both moments.
fn adam(step: &Step<'_>, gradient: &Tensor, betas: (f64, f64), eps: f64, state: &mut [Tensor]) -> Tensor {
    let [mean, square] = state else { unreachable!("one for each of state_names()") };
    *mean = mix(mean, gradient, betas.0);
    *square = mix(square, &gradient.square(), betas.1);
    let number = step.number as f64;
    let (first, second) = (1.0 - betas.0.powf(number), 1.0 - betas.1.powf(number));
    &*mean * (step.rate / first) / (square.sqrt() * (1.0 / second.sqrt()) + eps)
}

optimizer! {
    /// Adam (Kingma and Ba 2015), as `torch.optim.Adam`.
    Adam {
        /// Sets the decay rates of the first and second moments.
        betas: (f64, f64) = (0.9, 0.999),
        /// Sets the epsilon added to the root of the second moment.
        eps: f64 = 1e-8,
        /// Sets the L2 penalty: this multiple of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    }
    keeps ["exp_avg", "exp_avg_sq"]
}

impl Adam {
    fn formula(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor {
        let gradient = decayed(step, self.weight_decay);
        step.value - adam(step, &gradient, self.betas, self.eps, state)
    }
}

optimizer! {
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019), as `torch.optim.AdamW`.
    AdamW {
        /// Sets the decay rates of the first and second moments.
        betas: (f64, f64) = (0.9, 0.999),
        /// Sets the epsilon added to the root of the second moment.
        eps: f64 = 1e-8,
        /// Sets the weight decay: the fraction by which weights shrink in a step of rate 1.
        weight_decay: f64 = 0.01,
    }
    keeps ["exp_avg", "exp_avg_sq"]
}

impl AdamW {
    fn formula(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor {
        shrunk(step, self.weight_decay) - adam(step, step.gradient, self.betas, self.eps, state)
    }
}

optimizer! {
    /// Lion (Chen et al. 2023): steps by the sign of a moving average of gradients.
    Lion {
        /// Sets the decay rates of the average, in the step and in the stored state.
        betas: (f64, f64) = (0.9, 0.99),
        /// Sets the weight decay: the fraction by which weights shrink in a step of rate 1.
        weight_decay: f64 = 0.0,
    }
    keeps ["exp_avg"]
}

impl Lion {
    fn formula(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor {
        let [mean] = state else { unreachable!("one for each of state_names()") };
        let by = mix(mean, step.gradient, self.betas.0).sign();
        *mean = mix(mean, step.gradient, self.betas.1);
        shrunk(step, self.weight_decay) - by * step.rate
    }
}

optimizer! {
    /// RMSprop (Hinton 2012), as `torch.optim.RMSprop`: divides by the root of a moving average of squared gradients.
    RmsProp {
        /// Sets the decay rate of the average of squares.
        alpha: f64 = 0.99,
        /// Sets the epsilon added to the root.
        eps: f64 = 1e-8,
        /// Sets whether to divide by the standard deviation instead of the root mean square.
        centered: bool = false,
        /// Sets the momentum: the fraction of the last step that is repeated.
        momentum: f64 = 0.0,
        /// Sets the L2 penalty: this multiple of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    }
    keeps ["square_avg", "grad_avg", "momentum_buffer"]
}

impl RmsProp {
    fn formula(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor {
        let [square, mean, buffer] = state else { unreachable!("one for each of state_names()") };
        let gradient = decayed(step, self.weight_decay);
        *square = mix(square, &gradient.square(), self.alpha);
        let mut spread = square.clone();
        if self.centered {
            *mean = mix(mean, &gradient, self.alpha);
            spread = &spread - mean.square();
        }
        let by = gradient / (spread.sqrt() + self.eps);
        if self.momentum == 0.0 {
            return step.value - by * step.rate;
        }
        *buffer = &*buffer * self.momentum + by;
        step.value - &*buffer * step.rate
    }
}

optimizer! {
    /// Adagrad (Duchi, Hazan and Singer 2011), as `torch.optim.Adagrad`: divides by the root of the sum of all squared
    /// gradients.
    Adagrad {
        /// Sets the decay of the rate: it falls as `1/(1 + (step - 1)·rate_decay)`.
        rate_decay: f64 = 0.0,
        /// Sets the epsilon added to the root.
        eps: f64 = 1e-10,
        /// Sets the L2 penalty: this multiple of the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    }
    keeps ["sum"]
}

impl Adagrad {
    fn formula(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor {
        let [sum] = state else { unreachable!("one for each of state_names()") };
        let gradient = decayed(step, self.weight_decay);
        *sum = &*sum + gradient.square();
        let rate = step.rate / (1.0 + (step.number - 1) as f64 * self.rate_decay);
        step.value - gradient * rate / (sum.sqrt() + self.eps)
    }
}
