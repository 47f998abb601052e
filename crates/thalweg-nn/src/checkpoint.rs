//! Checkpoints: the state of a training run in one file, from which it continues to the same bits.

use crate::StateDict;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use thalweg::{Error, Generator, Safetensors, Tensor, random_state, set_random_state, write_safetensors};

impl StateDict {
    /// Reads all tensors of a safetensors file onto the default device.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read, is damaged, or has a dtype that this library does not support.
    pub fn load(path: impl AsRef<Path>) -> Result<StateDict, Error> {
        let file = Safetensors::open(path)?;
        file.names().map(|name| Ok((name.to_string(), file.get(name)?))).collect()
    }

    /// Writes a safetensors file atomically: after a failure the old file is still complete.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written; another error if a value cannot be computed.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write_safetensors(path, self.iter(), &BTreeMap::new())
    }
}

/// State of a training run, to be saved and resumed: state dicts by name, numbers and text by name, and the state of
/// the thread's random generator. It is stored as one safetensors file, written atomically.
///
/// ```
/// use thalweg_nn::optim::{Adam, Optimizer};
/// use thalweg_nn::prelude::*;
/// use thalweg_nn::Checkpoint;
/// let path = std::env::temp_dir().join(format!("thalweg-doc-{}.checkpoint", std::process::id()));
/// let (mut model, mut optimizer) = (Linear::new(2, 1), Adam::new(1e-3));
///
/// let mut saved = Checkpoint::new();
/// saved.put("model", model.state_dict());
/// saved.put("optimizer", optimizer.state_dict());
/// saved.set("step", 120);
/// saved.save(&path)?;
///
/// let resumed = Checkpoint::load(&path)?;
/// model.load_state_dict(&resumed.part("model"))?;
/// optimizer.load_state_dict(&resumed.part("optimizer"))?;
/// let step: u64 = resumed.get("step")?;
/// resumed.restore_random()?;
/// # assert_eq!(step, 120);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: String,
    tensors: StateDict,
    values: BTreeMap<String, String>,
}

impl Default for Checkpoint {
    fn default() -> Checkpoint {
        Checkpoint::new()
    }
}

impl Checkpoint {
    /// Makes a checkpoint that holds the state of this thread's random generator and nothing else.
    pub fn new() -> Checkpoint {
        let (seed, draws) = random_state().parts();
        let random = ("random".to_string(), format!("{seed} {draws}"));
        Checkpoint { path: "<new>".to_string(), tensors: StateDict::new(), values: [random].into() }
    }

    /// Adds a state dict under a name without dots.
    ///
    /// # Panics
    /// If the name has a dot.
    #[track_caller]
    pub fn put(&mut self, name: &str, state: StateDict) {
        assert!(!name.contains('.'), "put: the name {name:?} has a dot");
        self.tensors.extend_below(name, state);
    }

    /// State dict stored under a name; empty if there is none.
    pub fn part(&self, name: &str) -> StateDict {
        self.tensors.below(name)
    }

    /// Adds a number or a text.
    pub fn set(&mut self, name: &str, value: impl Display) {
        self.values.insert(name.to_string(), value.to_string());
    }

    /// Number or text stored under a name.
    ///
    /// # Errors
    /// [`Error::File`] if there is none, or it does not parse as `T`.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<T, Error> {
        let refused = |message: String| Error::File { path: self.path.clone(), message };
        let text = self.values.get(name).ok_or_else(|| refused(format!("the checkpoint has no {name:?}")))?;
        text.parse().map_err(|_| refused(format!("{name:?} of the checkpoint is {text:?}")))
    }

    /// Sets this thread's random generator to the saved state.
    ///
    /// # Errors
    /// [`Error::File`] if the file has no state of a random generator.
    pub fn restore_random(&self) -> Result<(), Error> {
        let text: String = self.get("random")?;
        let parts = text.split_once(' ').and_then(|(seed, draws)| Some((seed.parse().ok()?, draws.parse().ok()?)));
        let Some((seed, draws)) = parts else {
            let message = format!("the state of the random generator is {text:?}");
            return Err(Error::File { path: self.path.clone(), message });
        };
        set_random_state(Generator::from_parts(seed, draws));
        Ok(())
    }

    /// Writes the checkpoint to a temporary file that is renamed once it is complete on disk: a program killed at any
    /// moment leaves the previous checkpoint or this one.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written; another error if a value cannot be computed.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let tensors: Vec<(&str, &Tensor)> = self.tensors.iter().collect();
        write_safetensors(path, tensors, &self.values)
    }

    /// Reads a checkpoint; its tensors are on the default device.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read or is damaged.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint, Error> {
        let file = Safetensors::open(path.as_ref())?;
        let tensors = file.names().map(|name| Ok((name.to_string(), file.get(name)?))).collect::<Result<_, Error>>()?;
        let path = path.as_ref().display().to_string();
        Ok(Checkpoint { path, tensors, values: file.metadata().clone() })
    }
}
