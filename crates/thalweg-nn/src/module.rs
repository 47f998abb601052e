//! What a module is: something that holds tensors with names, in an order that never changes.
//!
//! [`Module`] has two methods that go over the tensors, one to look and one to change; everything else is written in
//! them. `#[derive(Module)]` writes them for structs and enums of modules.

use crate::{Mode, StateDict};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use thalweg::{Device, Error, Tensor};

/// Where one is among the names of a module: the parts so far, with dots between.
#[derive(Clone, Debug, Default)]
pub struct NamePath(String);

impl NamePath {
    /// The outermost module, which adds nothing to the names.
    pub fn root() -> NamePath {
        NamePath::default()
    }

    /// Calls `f` one part further in.
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

    /// [`part`](NamePath::part) with the number of an element.
    pub fn index<R>(&mut self, index: usize, f: impl FnOnce(&mut NamePath) -> R) -> R {
        self.part(&index.to_string(), f)
    }

    /// The name: parts with dots between.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a tensor is to the module that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// What training changes, by gradients.
    Parameter,
    /// What belongs to the state all the same, such as the running statistics of a normalisation.
    Buffer,
    /// What is computed from the options of the module: moved and converted with the rest, and not part of the state.
    Constant,
}

/// What a module holds, to be changed.
#[non_exhaustive]
pub enum Slot<'a> {
    /// A tensor.
    Tensor(Kind, &'a mut Tensor),
    /// Whether the module is trained.
    Mode(&'a mut Mode),
}

/// Something that holds tensors with names: a layer, a network, a part of one.
///
/// It is derived for structs of modules. The name of a tensor is the path of fields to it, as PyTorch writes it:
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
/// # What a field may be
/// | type | is |
/// |---|---|
/// | [`Tensor`] | a parameter |
/// | [`Buffer`] | a buffer, or a constant |
/// | [`Mode`](crate::Mode) | whether it is trained |
/// | another module | its tensors, with the field's name in front |
/// | `Option`, `Box`, `Vec`, array, tuple of such | what is there; elements are named by number |
/// | number, `bool`, `char`, `String`, `()` | nothing |
///
/// Anything else takes `#[module(skip)]`. `#[module(name = "..")]` puts another part into the names, and
/// `#[module(flatten)]` none. The fields of a tuple struct are named by number. An enum of modules stands for the one
/// that it is; its name does not show.
///
/// A field whose type is none of these is an error at the field:
///
/// ```compile_fail
/// use thalweg_nn::prelude::*;
/// #[derive(Module)]
/// struct Labelled { head: Linear, labels: std::collections::BTreeSet<String> }
/// ```
///
/// # Values
/// A module owns handles; `clone` copies these, never the elements, and as values do not change, a clone is a snapshot.
/// A step of an optimiser puts new handles into the module it is given. Parameters of the layers of this crate are
/// tracked from the start.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "holds no tensors that a module could name",
    note = "derive(Module) for it, or put #[module(skip)] on the field if it holds no tensors"
)]
pub trait Module {
    /// Calls `f` with every tensor, its name and what it is, in the order of the fields.
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor));

    /// Calls `f` with everything that can be changed, and its name, in the same order.
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>));

    /// The parameters, with their names.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        named(self, |kind| kind == Kind::Parameter)
    }

    /// The buffers, with their names.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        named(self, |kind| kind == Kind::Buffer)
    }

    /// The parameters. Where two fields hold one leaf, it is there twice.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// The number of elements of all parameters.
    fn num_parameters(&self) -> usize {
        let mut count = 0;
        self.visit(&mut NamePath::root(), &mut |_, kind, tensor| {
            count += if kind == Kind::Parameter { tensor.numel() } else { 0 };
        });
        count
    }

    /// Parameters and buffers with their names: what a file of weights holds.
    fn state_dict(&self) -> StateDict {
        named(self, |kind| kind != Kind::Constant).into_iter().collect()
    }

    /// Takes parameters and buffers from a state of the same names and shapes, converted to the dtypes and moved to
    /// the devices that the module has. A parameter that was tracked is tracked again, as a new leaf.
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
    /// [`Error::Value`] with every name that is missing, that is too many, or whose shape or kind of dtype does not fit;
    /// the module is then as it was. Another error when a tensor cannot be moved.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<(), Error> {
        load(self, state, true).map(|_| ())
    }

    /// [`load_state_dict`](Module::load_state_dict) of what both sides have by name; the rest stays. Returns the names
    /// that were missing in the state.
    ///
    /// # Errors
    /// As [`load_state_dict`](Module::load_state_dict), names apart.
    fn load_matching(&mut self, state: &StateDict) -> Result<Vec<String>, Error> {
        load(self, state, false)
    }

    /// Whether it is trained from now on: dropout drops, batch norms use and follow the statistics of the batch.
    fn set_training(&mut self, training: bool) {
        self.visit_mut(&mut NamePath::root(), &mut |_, slot| {
            if let Slot::Mode(mode) = slot {
                *mode = Mode::new(training);
            }
        });
    }

    /// From now on it is trained, as modules are when they are made.
    fn train(&mut self) {
        self.set_training(true);
    }

    /// From now on it is not trained, but used.
    fn eval(&mut self) {
        self.set_training(false);
    }

    /// Its parameters are constants from now on: they have no gradients, and no optimiser changes them.
    fn freeze(&mut self) {
        self.update(&mut |_, kind, tensor| if kind == Kind::Parameter { tensor.detach() } else { tensor.clone() });
    }

    /// Its parameters are tracked from now on, as leaves. For a module that was frozen, or whose parameters were put in
    /// untracked.
    fn unfreeze(&mut self) {
        self.update(&mut |_, kind, tensor| match kind {
            Kind::Parameter if !tensor.is_tracked() => crate::leaf::new(tensor.clone()),
            _ => tensor.clone(),
        });
    }

    /// Writes its state to a safetensors file: whole or not at all.
    ///
    /// # Errors
    /// As [`StateDict::save`].
    fn save(&self, path: impl AsRef<Path>) -> Result<(), Error>
    where
        Self: Sized,
    {
        self.state_dict().save(path)
    }

    /// Takes its state from a safetensors file.
    ///
    /// # Errors
    /// As [`StateDict::load`] and [`load_state_dict`](Module::load_state_dict).
    fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error>
    where
        Self: Sized,
    {
        self.load_state_dict(&StateDict::load(path)?)
    }

    /// Puts what `f` makes of each tensor in its place; `f` gets its name and what it is, too.
    fn update(&mut self, f: &mut dyn FnMut(&str, Kind, &Tensor) -> Tensor) {
        self.visit_mut(&mut NamePath::root(), &mut |name, slot| {
            if let Slot::Tensor(kind, tensor) = slot {
                *tensor = f(name, kind, tensor);
            }
        });
    }

    /// A module with what `f` makes of each tensor, parameters, buffers and constants.
    ///
    /// What `f` records is differentiable: a step in bf16 with parameters in f32 is a step of
    /// `model.map(|t| t.cast(DType::BF16))`.
    fn map(&self, mut f: impl FnMut(&Tensor) -> Tensor) -> Self
    where
        Self: Sized + Clone,
    {
        let mut out = self.clone();
        out.update(&mut |_, _, tensor| f(tensor));
        out
    }

    /// Moves every tensor to a device, as new leaves where they are tracked.
    ///
    /// # Errors
    /// When a value cannot be computed, or the device has no memory for it; the module is then as it was.
    fn to_device(&mut self, device: Device) -> Result<(), Error> {
        let mut moved = Vec::new();
        let mut failed = None;
        self.visit(
            &mut NamePath::root(),
            &mut |_, _, tensor| match failed.is_none().then(|| tensor.to_device(device)) {
                Some(Ok(there)) => moved.push(crate::leaf::like(tensor, there)),
                Some(Err(error)) => failed = Some(error),
                None => {}
            },
        );
        if let Some(error) = failed {
            return Err(error);
        }
        let mut moved = moved.into_iter();
        self.update(&mut |_, _, _| moved.next().expect("as many as were visited"));
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

/// Loads a state; returns the names that were missing where that is no mistake.
fn load<M: Module + ?Sized>(module: &mut M, state: &StateDict, all: bool) -> Result<Vec<String>, Error> {
    let own = named(module, |kind| kind != Kind::Constant);
    let (loaded, missing) = crate::state::fitting(&own, state, all)?;
    module.update(&mut |name, kind, own| match loaded.get(name) {
        Some(tensor) if kind != Kind::Constant => tensor.clone(),
        _ => own.clone(),
    });
    Ok(missing)
}

impl Module for Tensor {
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
        f(path.as_str(), Kind::Parameter, self);
    }
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        f(path.as_str(), Slot::Tensor(Kind::Parameter, self));
    }
}

/// A tensor of a module that no gradient changes: running statistics, masks, tables.
///
/// A forward may replace it ([`set`](Buffer::set)) though it has the module by reference alone. A clone holds the value
/// of that moment and goes its own way.
#[derive(Debug)]
pub struct Buffer {
    tensor: Mutex<Tensor>,
    kind: Kind,
}

impl Buffer {
    /// One that is part of the state.
    pub fn new(tensor: Tensor) -> Buffer {
        Buffer { tensor: Mutex::new(tensor), kind: Kind::Buffer }
    }

    /// One that is not part of the state, since the module can compute it again.
    pub fn constant(tensor: Tensor) -> Buffer {
        Buffer { tensor: Mutex::new(tensor), kind: Kind::Constant }
    }

    /// What it holds.
    pub fn get(&self) -> Tensor {
        self.tensor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another value into it; not where a backward pass calls a function of [`thalweg::checkpoint`] again, whose first
    /// call has done so.
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

/// Elements, named by number.
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

/// Options of a module hold no tensors.
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
