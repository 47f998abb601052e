//! Modules hold named tensors in a fixed order.
//!
//! [`Module`] has two methods that visit the tensors, one to read and one to change them; the others are written in
//! terms of these. `#[derive(Module)]` implements them for structs and enums of modules.

use crate::leaf::{self, Memo};
use crate::{LoadReport, Mode, StateDict};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use thalweg::{Device, Error, Tensor, TensorId};

/// Position in the names of a module: the parts so far, joined by dots.
#[derive(Clone, Debug, Default)]
pub struct NamePath(String);

impl NamePath {
    /// Path of the outermost module, which adds nothing to the names.
    pub fn root() -> NamePath {
        NamePath::default()
    }

    /// Calls `f` with one more part in the path.
    pub fn part<R>(&mut self, part: &str, f: impl FnOnce(&mut NamePath) -> R) -> R {
        let length = self.0.len();
        if length > 0 {
            self.0.push('.');
        }
        self.0.push_str(part);
        let out = f(self);
        self.0.truncate(length);
        out
    }

    /// Calls [`part`](NamePath::part) with the index of an element.
    pub fn index<R>(&mut self, index: usize, f: impl FnOnce(&mut NamePath) -> R) -> R {
        self.part(&index.to_string(), f)
    }

    /// The name: parts joined by dots.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Role of a tensor in the module that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Tensor that training changes, through its gradient.
    Parameter,
    /// Tensor that is part of the state but not trained, such as the running statistics of a normalization.
    Buffer,
    /// Tensor that is computed from the module's options: moved and converted with the rest, but not part of the state.
    Constant,
}

/// Mutable item of a module.
#[non_exhaustive]
pub enum Slot<'a> {
    /// Tensor of the module, with its role.
    Tensor(Kind, &'a mut Tensor),
    /// Training or evaluation mode.
    Mode(&'a mut Mode),
}

/// Holds named tensors: a layer, a network, a part of one; as `torch.nn.Module`.
///
/// It is derived for structs of modules. The name of a tensor is the path of fields to it, as in PyTorch:
/// `blocks.0.attn.q_proj.weight`.
///
/// ```
/// use thalweg_nn::prelude::*;
///
/// #[derive(Module, Clone)]
/// struct Mlp {
///     hidden: Vec<Linear>,
///     norm: Option<LayerNorm>,
///     #[module(name = "head")]
///     output: Linear,
///     steps: usize,
///     #[module(skip)]
///     labels: Vec<String>,
/// }
///
/// impl Mlp {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         let mut x = x.clone();
///         for layer in &self.hidden {
///             x = layer.forward(&x).relu();
///         }
///         if let Some(norm) = &self.norm {
///             x = norm.forward(&x);
///         }
///         self.output.forward(&x)
///     }
/// }
///
/// let hidden = vec![Linear::new(4, 8), Linear::new(8, 8)];
/// let labels = vec!["cat".to_string(), "dog".to_string()];
/// let mlp = Mlp { hidden, norm: None, output: Linear::new(8, 2), steps: 0, labels };
/// let names: Vec<String> = mlp.named_parameters().into_iter().map(|(name, _)| name).collect();
/// let layers = ["hidden.0.weight", "hidden.0.bias", "hidden.1.weight", "hidden.1.bias"];
/// assert_eq!(names, [layers.as_slice(), &["head.weight", "head.bias"]].concat());
/// assert_eq!(mlp.forward(&Tensor::randn([3, 4])).dims(), [3, 2]);
/// ```
///
/// # Types of fields
/// | type | meaning |
/// |---|---|
/// | [`Tensor`] | a parameter; frozen unless it is tracked (`Tensor::randn([8]).tracked()`) |
/// | [`Buffer`] | a buffer, or a constant |
/// | [`Mode`](crate::Mode) | training or evaluation mode |
/// | another module | its tensors, prefixed by the field's name |
/// | `Option`, `Box`, `Vec`, array, tuple of these | its elements, named by number |
/// | number, `bool`, `char`, `String`, `()` | nothing |
///
/// Any other type needs `#[module(skip)]`. `#[module(name = "..")]` sets the field's part of the name, and
/// `#[module(flatten)]` leaves it out. The fields of a tuple struct are named by number. An enum of modules acts as its
/// current variant; the variant's name is not part of the names.
///
/// A field of any other type is an error at the field:
///
/// ```compile_fail
/// use thalweg_nn::prelude::*;
/// #[derive(Module)]
/// struct Labelled { head: Linear, labels: std::collections::BTreeSet<String> }
/// ```
///
/// # Values
/// A module owns handles; `clone` copies these, never the elements, and as values are immutable, a clone is a snapshot.
/// An optimizer step replaces the handles in its module. Parameters of the layers of this crate are tracked from the
/// start; a tensor that you create yourself is tracked after [`Tensor::tracked`], and else it stays as it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "holds no tensors that a module could name",
    note = "derive(Module) for it, or put #[module(skip)] on the field if it holds no tensors"
)]
pub trait Module {
    /// Calls `f` with the name, role and value of every tensor, in the order of the fields.
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor));

    /// Calls `f` with the name and slot of every mutable item, in the same order.
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>));

    /// Parameters with their names.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        named(self, |kind| kind == Kind::Parameter)
    }

    /// Buffers with their names.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        named(self, |kind| kind == Kind::Buffer)
    }

    /// Parameters. A leaf shared by two fields appears twice.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// Number of elements of all parameters.
    fn num_parameters(&self) -> usize {
        let mut count = 0;
        self.visit(&mut NamePath::root(), &mut |_, kind, tensor| {
            count += if kind == Kind::Parameter { tensor.numel() } else { 0 };
        });
        count
    }

    /// Parameters and buffers with their names: the contents of a weight file.
    fn state_dict(&self) -> StateDict {
        named(self, |kind| kind != Kind::Constant).into_iter().collect()
    }

    /// Loads parameters and buffers from a state with the same names and shapes, converted to the dtypes and moved to
    /// the devices of the module. A tracked parameter becomes a new tracked leaf. A parameter that two fields share
    /// stays shared; the state may have it under any of its names.
    ///
    /// ```
    /// use thalweg_nn::prelude::*;
    /// let (a, mut b) = (Linear::new(3, 2), Linear::new(3, 2));
    /// b.load_state_dict(&a.state_dict())?;
    /// assert_eq!(a.weight.to_vec::<f32>()?, b.weight.to_vec::<f32>()?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] with every name that is missing, unexpected, or has a wrong shape or kind of dtype, and every
    /// shared parameter that has different values under two names; the module is then unchanged. Another error if a
    /// tensor cannot be moved.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<(), Error> {
        load(self, state, true).map(drop)
    }

    /// Loads the tensors whose names and shapes are on both sides and keeps the rest, as
    /// `torch.nn.Module.load_state_dict` with `strict=False`. Returns which names were not loaded, and why; unlike in
    /// PyTorch, tensors of other shapes are reported, too, and are no error.
    ///
    /// ```
    /// use thalweg_nn::prelude::*;
    /// let (a, mut b) = (Linear::new(3, 2), Linear::new(3, 5).without_bias());
    /// let report = b.load_matching(&a.state_dict())?;
    /// assert_eq!((report.unexpected, report.mismatched), (vec!["bias".to_string()], vec!["weight".to_string()]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] if a shared parameter has different values under two names; the module is then unchanged.
    /// Another error if a tensor cannot be moved.
    fn load_matching(&mut self, state: &StateDict) -> Result<LoadReport, Error> {
        load(self, state, false)
    }

    /// Sets training or evaluation mode: in training, dropout drops, and batch norms use the statistics of the batch
    /// and update their running ones.
    fn set_training(&mut self, training: bool) {
        self.visit_mut(&mut NamePath::root(), &mut |_, slot| {
            if let Slot::Mode(mode) = slot {
                *mode = Mode::new(training);
            }
        });
    }

    /// Sets training mode, the mode of new modules.
    fn train(&mut self) {
        self.set_training(true);
    }

    /// Sets evaluation mode.
    fn eval(&mut self) {
        self.set_training(false);
    }

    /// Makes the parameters constants: they get no gradients, and no optimizer changes them. A parameter that a field
    /// outside of this module shares is frozen here only: freeze the module that has both.
    fn freeze(&mut self) {
        self.update(&mut |_, kind, tensor| if kind == Kind::Parameter { tensor.detach() } else { tensor.clone() });
    }

    /// Makes untracked parameters tracked leaves, for a module that was frozen or whose parameters were assigned
    /// untracked. Fields that share a tensor, as a frozen layer and its clone do, share the new leaf.
    fn unfreeze(&mut self) {
        let mut leaves = Memo::default();
        self.update(&mut |_, kind, tensor| match kind {
            Kind::Parameter if !tensor.is_tracked() => leaves.get(tensor, || leaf::new(tensor.clone())),
            _ => tensor.clone(),
        });
    }

    /// Freezes the parameters whose names `matches` accepts, as [`freeze`](Module::freeze); the others stay as they
    /// are. A parameter that two fields share is frozen if one of its names is accepted.
    /// Returns the number of names accepted: 0 if a pattern is misspelt.
    ///
    /// ```
    /// use thalweg_nn::prelude::*;
    /// let mut net = Sequential::new().push(Linear::new(4, 8)).push(Linear::new(8, 2));
    /// assert_eq!(net.freeze_matching(|name| name.starts_with("0.")), 2);
    /// let tracked: Vec<bool> = net.parameters().iter().map(Tensor::is_tracked).collect();
    /// assert_eq!(tracked, [false, false, true, true]);
    /// ```
    fn freeze_matching(&mut self, matches: impl FnMut(&str) -> bool) -> usize
    where
        Self: Sized,
    {
        let (wanted, count) = matching(self, matches);
        self.update(&mut |_, kind, tensor| match kind {
            Kind::Parameter if wanted.contains(&tensor.id()) => tensor.detach(),
            _ => tensor.clone(),
        });
        count
    }

    /// Makes the parameters whose names `matches` accepts tracked leaves, as [`unfreeze`](Module::unfreeze); the others
    /// stay as they are. To train a part of a model: `model.freeze()`, then this. Returns the number of names accepted.
    ///
    /// ```
    /// use thalweg_nn::prelude::*;
    /// let mut net = Sequential::new().push(Linear::new(4, 8)).push(Linear::new(8, 2));
    /// net.freeze();
    /// assert_eq!(net.unfreeze_matching(|name| name.ends_with("bias")), 2);
    /// let tracked: Vec<bool> = net.parameters().iter().map(Tensor::is_tracked).collect();
    /// assert_eq!(tracked, [false, true, false, true]);
    /// ```
    fn unfreeze_matching(&mut self, matches: impl FnMut(&str) -> bool) -> usize
    where
        Self: Sized,
    {
        let (wanted, count) = matching(self, matches);
        let mut leaves = Memo::default();
        self.update(&mut |_, kind, tensor| match kind {
            Kind::Parameter if wanted.contains(&tensor.id()) && !tensor.is_tracked() => {
                leaves.get(tensor, || leaf::new(tensor.clone()))
            }
            _ => tensor.clone(),
        });
        count
    }

    /// Writes the state to a safetensors file, atomically.
    ///
    /// # Errors
    /// As [`StateDict::save`].
    fn save(&self, path: impl AsRef<Path>) -> Result<(), Error>
    where
        Self: Sized,
    {
        self.state_dict().save(path)
    }

    /// Loads the state from a safetensors file.
    ///
    /// # Errors
    /// As [`StateDict::load`] and [`load_state_dict`](Module::load_state_dict).
    fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error>
    where
        Self: Sized,
    {
        self.load_state_dict(&StateDict::load(path)?)
    }

    /// Replaces each tensor by `f` of its name, role and value. `f` is called for each field: of a tensor that two
    /// fields share it returns one leaf for both, or they come apart.
    fn update(&mut self, f: &mut dyn FnMut(&str, Kind, &Tensor) -> Tensor) {
        self.visit_mut(&mut NamePath::root(), &mut |name, slot| {
            if let Slot::Tensor(kind, tensor) = slot {
                *tensor = f(name, kind, tensor);
            }
        });
    }

    /// Copy of the module with each tensor (parameters, buffers and constants) replaced by `f` of it. `f` is called once
    /// for a parameter that two fields share.
    ///
    /// Operations that `f` records are differentiable: a bf16 step with f32 parameters is a step of
    /// `model.map(|t| t.cast(DType::BF16))`.
    fn map(&self, mut f: impl FnMut(&Tensor) -> Tensor) -> Self
    where
        Self: Sized + Clone,
    {
        let mut out = self.clone();
        let mut parameters = Memo::default();
        out.update(&mut |_, kind, tensor| match kind {
            Kind::Parameter => parameters.get(tensor, || f(tensor)),
            _ => f(tensor),
        });
        out
    }

    /// Moves every tensor to a device; tracked tensors become new leaves. Fields that share a tensor share the new one.
    ///
    /// # Errors
    /// If a value cannot be computed, or the device has no memory for it; the module is then unchanged.
    fn to_device(&mut self, device: Device) -> Result<(), Error> {
        let mut moved: HashMap<TensorId, Tensor> = HashMap::new();
        let mut failed = None;
        self.visit(&mut NamePath::root(), &mut |_, _, tensor| {
            if failed.is_some() || moved.contains_key(&tensor.id()) {
                return;
            }
            match tensor.to_device(device) {
                Ok(there) => drop(moved.insert(tensor.id(), leaf::like(tensor, there))),
                Err(error) => failed = Some(error),
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        self.update(&mut |_, _, tensor| moved[&tensor.id()].clone());
        Ok(())
    }
}

fn named<M: Module + ?Sized>(module: &M, wanted: impl Fn(Kind) -> bool) -> Vec<(String, Tensor)> {
    let mut out = Vec::new();
    module.visit(&mut NamePath::root(), &mut |name, kind, tensor| {
        if wanted(kind) {
            out.push((name.to_string(), tensor.clone()));
        }
    });
    out
}

/// Loads a state; where `strict`, names that are not loaded are an error, and the module is unchanged.
fn load<M: Module + ?Sized>(module: &mut M, state: &StateDict, strict: bool) -> Result<LoadReport, Error> {
    let mut own = Vec::new();
    module.visit(&mut NamePath::root(), &mut |name, kind, tensor| {
        if kind != Kind::Constant {
            own.push((name.to_string(), kind == Kind::Parameter, tensor.clone()));
        }
    });
    let (loaded, report) = crate::state::fitting(&own, state)?;
    if strict {
        report.check()?;
    }
    module.update(&mut |name, kind, own| match loaded.get(name) {
        Some(tensor) if kind != Kind::Constant => tensor.clone(),
        _ => own.clone(),
    });
    Ok(report)
}

/// Ids of the parameters whose names are accepted by `matches`, and the number of these names.
fn matching<M: Module>(module: &M, mut matches: impl FnMut(&str) -> bool) -> (HashSet<TensorId>, usize) {
    let (mut ids, mut count) = (HashSet::new(), 0);
    module.visit(&mut NamePath::root(), &mut |name, kind, tensor| {
        if kind == Kind::Parameter && matches(name) {
            ids.insert(tensor.id());
            count += 1;
        }
    });
    (ids, count)
}

impl Module for Tensor {
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
        f(path.as_str(), Kind::Parameter, self);
    }
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        f(path.as_str(), Slot::Tensor(Kind::Parameter, self));
    }
}

/// Tensor of a module that no gradient changes: running statistics, masks, tables; as
/// `torch.nn.Module.register_buffer`.
///
/// `forward` may replace it ([`set`](Buffer::set)) through a shared reference to the module. A clone holds the value at
/// the time of cloning and is independent.
#[derive(Debug)]
pub struct Buffer {
    tensor: Mutex<Tensor>,
    kind: Kind,
}

impl Buffer {
    /// Makes a buffer that is part of the state.
    pub fn new(tensor: Tensor) -> Buffer {
        Buffer { tensor: Mutex::new(tensor), kind: Kind::Buffer }
    }

    /// Makes a buffer that is not part of the state because the module can compute it, as `register_buffer` with
    /// `persistent=False`.
    pub fn constant(tensor: Tensor) -> Buffer {
        Buffer { tensor: Mutex::new(tensor), kind: Kind::Constant }
    }

    /// Current value.
    pub fn get(&self) -> Tensor {
        self.tensor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value; does nothing while a backward pass recomputes a function of [`thalweg::checkpoint`], whose
    /// first call has already replaced it.
    pub fn set(&self, tensor: Tensor) {
        if thalweg::is_recomputing() {
            return;
        }
        *self.tensor.lock().unwrap_or_else(PoisonError::into_inner) = tensor;
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer { tensor: Mutex::new(self.get()), kind: self.kind }
    }
}

impl Module for Buffer {
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
        f(path.as_str(), self.kind, &self.get());
    }
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        let tensor = self.tensor.get_mut().unwrap_or_else(PoisonError::into_inner);
        f(path.as_str(), Slot::Tensor(self.kind, tensor));
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
        (**self).visit(path, f);
    }
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        (**self).visit_mut(path, f);
    }
}

impl<M: Module> Module for Option<M> {
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
        if let Some(module) = self {
            module.visit(path, f);
        }
    }
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        if let Some(module) = self {
            module.visit_mut(path, f);
        }
    }
}

/// Sequences of modules; elements are named by index.
macro_rules! sequences {
    ($([$($generics:tt)*] $t:ty),*) => {$(
        impl<$($generics)*> Module for $t {
            fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
                self.iter().enumerate().for_each(|(i, module)| path.index(i, |path| module.visit(path, f)));
            }
            fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
                self.iter_mut().enumerate().for_each(|(i, module)| path.index(i, |path| module.visit_mut(path, f)));
            }
        }
    )*};
}
sequences!([M: Module] Vec<M>, [M: Module, const N: usize] [M; N]);

macro_rules! tuples {
    ($(($($name:ident $at:tt),+)),*) => {$(
        impl<$($name: Module),+> Module for ($($name,)+) {
            fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
                $(path.index($at, |path| self.$at.visit(path, f));)+
            }
            fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
                $(path.index($at, |path| self.$at.visit_mut(path, f));)+
            }
        }
    )*};
}
tuples!((A 0), (A 0, B 1), (A 0, B 1, C 2), (A 0, B 1, C 2, D 3), (A 0, B 1, C 2, D 3, E 4));

/// Options of a module; they hold no tensors.
macro_rules! nothing {
    ($($t:ty),*) => {$(
        impl Module for $t {
            fn visit(&self, _: &mut NamePath, _: &mut dyn FnMut(&str, Kind, &Tensor)) {}
            fn visit_mut(&mut self, _: &mut NamePath, _: &mut dyn FnMut(&str, Slot<'_>)) {}
        }
    )*};
}
nothing!((), bool, char, f32, f64, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, String, &'static str);

impl Module for Mode {
    fn visit(&self, _: &mut NamePath, _: &mut dyn FnMut(&str, Kind, &Tensor)) {}
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        f(path.as_str(), Slot::Mode(self));
    }
}
