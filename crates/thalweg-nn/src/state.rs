//! State of modules and optimizers: named tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use thalweg::{DType, Error, Tensor};

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

/// List of errors that stays readable with hundreds of entries.
#[derive(Default)]
struct Mistakes {
    text: String,
    count: usize,
}

impl Mistakes {
    const SHOWN: usize = 12;

    fn add(&mut self, mistake: std::fmt::Arguments<'_>) {
        self.count += 1;
        if self.count <= Mistakes::SHOWN {
            let _ = write!(self.text, "\n  {mistake}");
        }
    }

    fn result(self, what: &str) -> Result<(), Error> {
        match self.count {
            0 => Ok(()),
            count if count <= Mistakes::SHOWN => Err(Error::Value(format!("{what}:{}", self.text))),
            count => Err(Error::Value(format!("{what}:{}\n  … and {} more", self.text, count - Mistakes::SHOWN))),
        }
    }
}

/// Whether a state of dtype `from` may be loaded into `to`: equal dtypes, float to float, or integer to integer.
fn converts(from: DType, to: DType) -> bool {
    from == to || from.is_float() && to.is_float() || from.is_int() && to.is_int()
}

/// Tensors of a state for a module, converted to its dtypes and moved to its devices; and the missing names, which are
/// errors if `all`.
pub(crate) fn fitting(
    own: &[(String, Tensor)],
    state: &StateDict,
    all: bool,
) -> Result<(BTreeMap<String, Tensor>, Vec<String>), Error> {
    let (mut mistakes, mut missing) = (Mistakes::default(), Vec::new());
    let mut fitting: BTreeMap<String, Tensor> = BTreeMap::new();
    for (name, own) in own {
        let Some(tensor) = state.get(name) else {
            match all {
                true => mistakes.add(format_args!("{name} {} is missing", own.shape())),
                false => missing.push(name.clone()),
            }
            continue;
        };
        if tensor.shape() != own.shape() {
            mistakes.add(format_args!("{name} has shape {}, not {}", tensor.shape(), own.shape()));
        } else if !converts(tensor.dtype(), own.dtype()) {
            mistakes.add(format_args!("{name} is {}, not {}", tensor.dtype(), own.dtype()));
        } else {
            let there = tensor.to_device(own.device())?;
            let there = if there.dtype() == own.dtype() { there } else { there.cast(own.dtype()) };
            fitting.insert(name.clone(), crate::leaf::like(own, there));
        }
    }
    if all {
        let known: BTreeSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        for name in state.names().filter(|name| !known.contains(name)) {
            mistakes.add(format_args!("{name} is not of this module"));
        }
    }
    mistakes.result("the state does not fit the module")?;
    Ok((fitting, missing))
}
