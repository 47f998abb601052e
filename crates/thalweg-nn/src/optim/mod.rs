//! Optimisers: how parameters follow their gradients. Plain tensor code; a step over all parameters is recorded as one
//! stretch, and what is alike runs in one launch.
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

/// A choice of parameters by name.
type Choice<T> = Box<dyn Fn(&str) -> T + Send + Sync>;

/// What every optimiser has: a rate, what was chosen for which parameters, and what it knows of each of them.
pub struct Shared {
    rate: f64,
    factors: Option<Choice<f64>>,
    decays: Option<Choice<bool>>,
    known: BTreeMap<String, Known>,
}

/// What an optimiser knows of a parameter.
#[derive(Clone, Debug)]
struct Known {
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

/// One step of one parameter: what a rule is given. All is in f32, or in f64 where the parameter is.
pub struct Step<'a> {
    /// The parameter.
    pub value: &'a Tensor,
    /// Its gradient.
    pub gradient: &'a Tensor,
    /// The number of the step, from 1 on.
    pub number: u64,
    /// The rate.
    pub rate: f64,
    /// Whether weights decay here.
    pub decays: bool,
}

/// An optimiser.
///
/// It knows parameters by name, so that its state can be saved and loaded, and steps only where there is a gradient.
/// Where two fields hold one leaf, they hold one leaf afterwards.
pub trait Optimizer {
    /// What every optimiser has.
    #[doc(hidden)]
    fn shared(&self) -> &Shared;
    #[doc(hidden)]
    fn shared_mut(&mut self) -> &mut Shared;

    /// The names of what it keeps for a parameter.
    fn kept(&self) -> &'static [&'static str];

    /// The parameter after a step. `kept` has what was kept for it, by [`kept`](Optimizer::kept), and takes what is from
    /// now on; each starts as zeros.
    fn update(&self, step: &Step<'_>, kept: &mut [Tensor]) -> Tensor;

    /// Puts parameters that have followed their gradients into a model, as new leaves. Records and runs nothing.
    ///
    /// # Panics
    /// When a parameter's shape is not that of the state loaded for its name.
    #[track_caller]
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients)
    where
        Self: Sized,
    {
        thalweg::no_grad(|| step(self, model, gradients));
    }

    /// The learning rate.
    fn rate(&self) -> f64 {
        self.shared().rate
    }

    /// Sets the learning rate, before a step.
    fn set_rate(&mut self, rate: f64) {
        self.shared_mut().rate = rate;
    }

    /// Everything that it knows, by `WHAT.PARAMETER`.
    fn state_dict(&self) -> StateDict {
        let mut state = StateDict::new();
        for (name, known) in &self.shared().known {
            state.insert(format!("step.{name}"), Tensor::new(known.steps as i64));
            for (what, tensor) in self.kept().iter().zip(&known.tensors) {
                state.insert(format!("{what}.{name}"), tensor.clone());
            }
        }
        state
    }

    /// Takes such a state for its own.
    ///
    /// # Errors
    /// [`Error::Value`] when something of a parameter is missing or too many; the optimiser is then as it was.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<(), Error> {
        let kept = self.kept();
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
            known.insert(name.to_string(), Known { steps, tensors });
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
    // Leaves that two fields hold are one gradient; the second takes what the first became.
    let mut done: BTreeMap<*const Tensor, Tensor> = BTreeMap::new();
    let kept = optimizer.kept().len();
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
            Known { steps: 0, tensors: (0..kept).map(|_| zeros()).collect() }
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
