//! Optimizers in plain tensor code. A step over all parameters is recorded as one segment, and updates with equal
//! formulas run in one kernel launch.
//!
//! ```
//! use thalweg_nn::optim::{AdamW, Optimizer, clip_norm};
//! use thalweg_nn::prelude::*;
//!
//! let mut model = Linear::new(4, 1);
//! let mut optimizer = AdamW::new(1e-2).decays(|name| name.ends_with("weight"));
//! let (x, y) = (Tensor::randn([16, 4]), Tensor::randn([16, 1]));
//! for _ in 0..3 {
//!     let loss = model.forward(&x).mse_loss(&y, Reduction::Mean);
//!     let mut gradients = loss.backward();
//!     clip_norm(&mut gradients, 1.0);
//!     optimizer.step(&mut model, &gradients);
//!     // Read after the step: forward, backward and step are planned together.
//!     println!("{}", loss.item::<f32>()?);
//! }
//! # Ok::<(), Error>(())
//! ```

mod clip;
mod ema;
mod rules;
mod schedule;

pub use clip::{Norm, clip_norm, clip_value};
pub use ema::Ema;
pub use rules::{Adagrad, Adam, AdamW, Lion, RmsProp, Sgd};
pub use schedule::{Plateau, Schedule};

use crate::module::Slot;
use crate::{Kind, Module, NamePath, StateDict, leaf};
use std::collections::BTreeMap;
use std::fmt;
use thalweg::{DType, Error, Gradients, Tensor};

/// Function from parameter names to a setting of the optimizer.
type Choice<T> = Box<dyn Fn(&str) -> T + Send + Sync>;

/// State common to all optimizers: learning rate, settings per parameter name, and state per parameter.
pub struct Shared {
    rate: f64,
    factors: Option<Choice<f64>>,
    decays: Option<Choice<bool>>,
    known: BTreeMap<String, ParameterState>,
}

/// Optimizer state of one parameter.
#[derive(Clone, Debug)]
struct ParameterState {
    steps: u64,
    tensors: Vec<Tensor>,
}

impl Shared {
    fn new(rate: f64) -> Shared {
        Shared { rate, factors: None, decays: None, known: BTreeMap::new() }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("rate", &self.rate).field("parameters", &self.known.len()).finish()
    }
}

/// Arguments of an update rule for one step of one parameter. Tensors are f32, or f64 if the parameter is.
pub struct Step<'a> {
    /// Value of the parameter before the step.
    pub value: &'a Tensor,
    /// Gradient of the parameter.
    pub gradient: &'a Tensor,
    /// Number of the step, starting at 1.
    pub number: u64,
    /// Learning rate of this step for the parameter.
    pub rate: f64,
    /// Whether weight decay applies to this parameter.
    pub decays: bool,
}

/// Optimizer, as `torch.optim.Optimizer`.
///
/// State is kept per parameter name, so that it can be saved and loaded; parameters without a gradient are not changed.
/// A leaf shared by two fields stays shared.
pub trait Optimizer {
    /// State common to all optimizers.
    #[doc(hidden)]
    fn shared(&self) -> &Shared;
    #[doc(hidden)]
    fn shared_mut(&mut self) -> &mut Shared;

    /// Names of the state tensors of a parameter.
    fn state_names(&self) -> &'static [&'static str];

    /// Former name of [`state_names`](Optimizer::state_names).
    #[deprecated(note = "renamed to `state_names`")]
    fn kept(&self) -> &'static [&'static str] {
        self.state_names()
    }

    /// Computes the parameter after a step. `state` holds the state tensors named by
    /// [`state_names`](Optimizer::state_names), which the rule replaces; each starts as zeros.
    fn update(&self, step: &Step<'_>, state: &mut [Tensor]) -> Tensor;

    /// Updates the parameters of a model by their gradients; they become new leaves. Parameters without a gradient,
    /// such as frozen and untracked ones, stay as they are. Records operations and runs nothing.
    ///
    /// A model is any [`Module`], also a list of tensors:
    ///
    /// ```
    /// use thalweg_nn::optim::{Optimizer, Sgd};
    /// use thalweg_nn::prelude::*;
    /// let mut weights = vec![Tensor::new([1.0f32, 2.0]).tracked(), Tensor::new([3.0f32]).tracked()];
    /// let loss = weights[0].square().sum(..) + weights[1].sum(..);
    /// Sgd::new(0.5).step(&mut weights, &loss.backward());
    /// assert_eq!(weights[0].to_vec::<f32>()?, [0.0, 0.0]);
    /// assert_eq!(weights[1].to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// If a parameter's shape differs from that of the state loaded for its name.
    #[track_caller]
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients)
    where
        Self: Sized,
    {
        thalweg::no_grad(|| step(self, model, gradients));
    }

    /// Learning rate.
    fn rate(&self) -> f64 {
        self.shared().rate
    }

    /// Sets the learning rate of the next steps.
    fn set_rate(&mut self, rate: f64) {
        self.shared_mut().rate = rate;
    }

    /// State of all parameters, named `STATE.PARAMETER`, for example `exp_avg.head.weight`; `step.PARAMETER` counts
    /// steps.
    fn state_dict(&self) -> StateDict {
        let mut state = StateDict::new();
        for (name, known) in &self.shared().known {
            state.insert(format!("step.{name}"), Tensor::new(known.steps as i64));
            for (what, tensor) in self.state_names().iter().zip(&known.tensors) {
                state.insert(format!("{what}.{name}"), tensor.clone());
            }
        }
        state
    }

    /// Replaces the state by one of [`state_dict`](Optimizer::state_dict).
    ///
    /// # Errors
    /// [`Error::Value`] if the state of a parameter is incomplete, or a name is not of this optimizer; the optimizer is
    /// then unchanged.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<(), Error> {
        let kept = self.state_names();
        let mut known = BTreeMap::new();
        let steps = state.below("step");
        for (name, count) in steps.iter() {
            let of = |what: &&str| {
                let tensor = state.get(&format!("{what}.{name}"));
                tensor.cloned().ok_or_else(|| Error::Value(format!("the optimiser's state has no {what}.{name}")))
            };
            let steps = u64::try_from(count.item::<i64>()?);
            let steps = steps.map_err(|_| Error::Value(format!("step.{name} of the optimiser's state is negative")))?;
            let tensors = kept.iter().map(of).collect::<Result<_, _>>()?;
            known.insert(name.to_string(), ParameterState { steps, tensors });
        }
        if state.len() != known.len() * (1 + kept.len()) {
            let wanted = |name: &str| {
                let (what, name) = name.split_once('.').unwrap_or((name, ""));
                known.contains_key(name) && (what == "step" || kept.contains(&what))
            };
            let other = state.names().find(|name| !wanted(name)).unwrap_or_default();
            return Err(Error::Value(format!("{other} of the state is not of this optimiser")));
        }
        self.shared_mut().known = known;
        Ok(())
    }
}

fn step<O: Optimizer>(optimizer: &mut O, model: &mut dyn Module, gradients: &Gradients) {
    // A leaf shared by two fields has one gradient; the second field gets the updated leaf of the first.
    let mut done: BTreeMap<*const Tensor, Tensor> = BTreeMap::new();
    let kept = optimizer.state_names().len();
    model.visit_mut(&mut NamePath::root(), &mut |name, slot| {
        let Slot::Tensor(Kind::Parameter, parameter) = slot else { return };
        let Some(gradient) = gradients.get(parameter) else { return };
        if let Some(new) = done.get(&std::ptr::from_ref(gradient)) {
            *parameter = new.clone();
            return;
        }
        let wide = if parameter.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let widened = |t: &Tensor| if t.dtype() == wide { t.detach() } else { t.detach().cast(wide) };
        let (value, own) = (widened(parameter), widened(gradient));
        let mut known = optimizer.shared_mut().known.remove(name).unwrap_or_else(|| {
            let zeros = || Tensor::zeros_with(*value.shape(), (wide, value.device()));
            ParameterState { steps: 0, tensors: (0..kept).map(|_| zeros()).collect() }
        });
        for tensor in &known.tensors {
            assert!(
                tensor.shape() == value.shape(),
                "step: the state of {name} has shape {}, the parameter {}",
                tensor.shape(),
                value.shape()
            );
        }
        known.steps += 1;
        let shared = optimizer.shared();
        let rate = shared.rate * shared.factors.as_ref().map_or(1.0, |factor| factor(name));
        let decays = shared.decays.as_ref().is_none_or(|decays| decays(name));
        let step = Step { value: &value, gradient: &own, number: known.steps, rate, decays };
        let new = optimizer.update(&step, &mut known.tensors);
        optimizer.shared_mut().known.insert(name.to_string(), known);
        let new = if new.dtype() == parameter.dtype() { new } else { new.cast(parameter.dtype()) };
        *parameter = leaf::new(new);
        done.insert(std::ptr::from_ref(gradient), parameter.clone());
    });
}
