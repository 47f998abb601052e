//! State of modules and optimizers: named tensors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use thalweg::{DType, Error, Tensor, TensorId};

/// Named tensors in insertion order.
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    entries: Vec<(String, Tensor)>,
    places: BTreeMap<String, usize>,
}

impl StateDict {
    /// Makes an empty state.
    pub fn new() -> StateDict {
        StateDict::default()
    }

    /// Tensor with this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.places.get(name).map(|&at| &self.entries[at].1)
    }

    /// Inserts a tensor; returns the previous one with that name.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) -> Option<Tensor> {
        let name = name.into();
        match self.places.get(&name) {
            Some(&at) => Some(std::mem::replace(&mut self.entries[at].1, tensor)),
            None => {
                self.places.insert(name.clone(), self.entries.len());
                self.entries.push((name, tensor));
                None
            }
        }
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and tensors, in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.entries.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Names, in insertion order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Tensors renamed by `rename`; those for which it returns `None` are left out. Use it to load files with the names
    /// of another library.
    ///
    /// ```
    /// use thalweg_nn::prelude::*;
    /// let state = Linear::new(2, 1).state_dict().renamed(|name| Some(format!("head.{name}")));
    /// assert_eq!(state.names().collect::<Vec<_>>(), ["head.weight", "head.bias"]);
    /// ```
    #[must_use]
    pub fn renamed(&self, mut rename: impl FnMut(&str) -> Option<String>) -> StateDict {
        self.iter().filter_map(|(name, tensor)| Some((rename(name)?, tensor.clone()))).collect()
    }

    /// Tensors whose names start with `prefix` and a dot, with that part removed.
    #[must_use]
    pub fn below(&self, prefix: &str) -> StateDict {
        self.renamed(|name| name.strip_prefix(prefix)?.strip_prefix('.').map(str::to_string))
    }

    /// Inserts all tensors of another state, with `prefix` and a dot before their names.
    pub fn extend_below(&mut self, prefix: &str, other: StateDict) {
        for (name, tensor) in other {
            self.insert(format!("{prefix}.{name}"), tensor);
        }
    }
}

impl FromIterator<(String, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(entries: I) -> StateDict {
        let mut state = StateDict::new();
        for (name, tensor) in entries {
            state.insert(name, tensor);
        }
        state
    }
}

impl IntoIterator for StateDict {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;
    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// Names that [`Module::load_matching`](crate::Module::load_matching) did not load, in the order of the module or the
/// state. Printed, one line each, with shapes and dtypes.
#[derive(Clone, Debug, Default)]
#[must_use = "names that were not loaded keep their values; print the report or assert on it"]
pub struct LoadReport {
    /// Names of the module that the state does not have.
    pub missing: Vec<String>,
    /// Names of the state that the module does not have.
    pub unexpected: Vec<String>,
    /// Names on both sides with different shapes, or dtypes of different kinds (float and integer).
    pub mismatched: Vec<String>,
    mistakes: Mistakes,
}

impl LoadReport {
    /// Whether every name of the module and of the state was loaded.
    pub fn is_complete(&self) -> bool {
        self.mistakes.count == 0
    }

    /// Returns an error with a line for each name that was not loaded.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_complete() {
            Ok(())
        } else {
            Err(Error::Value(format!("the state does not fit the module:\n{self}")))
        }
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_complete() {
            return f.write_str("every name was loaded");
        }
        f.write_str(self.mistakes.text.trim_start_matches('\n'))?;
        match self.mistakes.count.checked_sub(Mistakes::MAX_SHOWN) {
            None | Some(0) => Ok(()),
            Some(hidden) => write!(f, "\n  … and {hidden} more"),
        }
    }
}

/// List of error messages that stays readable with hundreds of entries.
#[derive(Clone, Debug, Default)]
struct Mistakes {
    text: String,
    count: usize,
}

impl Mistakes {
    const MAX_SHOWN: usize = 12;

    fn add(&mut self, mistake: std::fmt::Arguments<'_>) {
        self.count += 1;
        if self.count <= Mistakes::MAX_SHOWN {
            let _ = write!(self.text, "\n  {mistake}");
        }
    }
}

/// Whether a state of dtype `from` may be loaded into `to`: equal dtypes, float to float, or integer to integer.
fn converts(from: DType, to: DType) -> bool {
    from == to || from.is_float() && to.is_float() || from.is_int() && to.is_int()
}

/// Whether two tensors of one shape and dtype have equal elements; NaN equals NaN.
fn equal(a: &Tensor, b: &Tensor) -> Result<bool, Error> {
    (a.eq(b) | (a.ne(a) & b.ne(b))).all(..).item::<bool>()
}

/// Tensors of a state for the tensors `own` of a module (name, whether it is a parameter, value), by name, converted to
/// its dtypes and moved to its devices; and the report of names that do not fit. Names of one parameter get one tensor;
/// two values for it are an error.
pub(crate) fn fitting(
    own: &[(String, bool, Tensor)],
    state: &StateDict,
) -> Result<(BTreeMap<String, Tensor>, LoadReport), Error> {
    let (mut report, mut conflict) = (LoadReport::default(), false);
    let mut fitting: BTreeMap<String, Tensor> = BTreeMap::new();
    // Name, tensor of the state and new leaf of each parameter.
    let mut parameters: HashMap<TensorId, (&str, &Tensor, Tensor)> = HashMap::new();
    for (name, is_parameter, own) in own {
        let Some(tensor) = state.get(name) else { continue };
        if tensor.shape() != own.shape() {
            report.mistakes.add(format_args!("{name} has shape {}, not {}", tensor.shape(), own.shape()));
            report.mismatched.push(name.clone());
            continue;
        }
        if !converts(tensor.dtype(), own.dtype()) {
            report.mistakes.add(format_args!("{name} is {}, not {}", tensor.dtype(), own.dtype()));
            report.mismatched.push(name.clone());
            continue;
        }
        let shared = if *is_parameter { parameters.get(&own.id()) } else { None };
        if let Some((_, _, new)) = shared.filter(|(_, theirs, _)| theirs.id() == tensor.id()) {
            fitting.insert(name.clone(), new.clone());
            continue;
        }
        let there = tensor.to_device(own.device())?;
        let there = if there.dtype() == own.dtype() { there } else { there.cast(own.dtype()) };
        let new = match shared {
            Some((_, _, new)) if equal(&new.detach(), &there.detach())? => new.clone(),
            Some((first, ..)) => {
                conflict = true;
                report.mistakes.add(format_args!(
                    "{first} and {name} are one parameter of the module (a clone shares it), but two values of the state"
                ));
                continue;
            }
            None => crate::leaf::like(own, there),
        };
        if *is_parameter {
            parameters.entry(own.id()).or_insert((name, tensor, new.clone()));
        }
        fitting.insert(name.clone(), new);
    }
    // Names without a tensor of the state: loaded where another name of the parameter is.
    for (name, is_parameter, own) in own.iter().filter(|(name, ..)| !fitting.contains_key(name)).collect::<Vec<_>>() {
        match parameters.get(&own.id()) {
            Some((_, _, new)) if *is_parameter => drop(fitting.insert(name.clone(), new.clone())),
            _ if state.get(name).is_some() => {}
            _ => {
                report.mistakes.add(format_args!("{name} {} is missing", own.shape()));
                report.missing.push(name.clone());
            }
        }
    }
    let known: BTreeSet<&str> = own.iter().map(|(name, ..)| name.as_str()).collect();
    for name in state.names().filter(|name| !known.contains(name)) {
        report.mistakes.add(format_args!("{name} is not of this module"));
        report.unexpected.push(name.to_string());
    }
    if conflict {
        report.check()?;
    }
    Ok((fitting, report))
}
