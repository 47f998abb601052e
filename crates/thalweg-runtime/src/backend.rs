//! Backends: kinds of devices that a build supports.

use crate::environment::Variable;
use crate::{Device, Error};
use std::fmt::Debug;
use std::sync::Arc;

/// Kind of device, declared by the crate that implements it. Names of its devices are `kind:number`.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// First part of the device names, such as "cuda".
    pub kind: &'static str,
    /// Function that counts the devices of this machine; it opens none of them.
    pub count: fn() -> usize,
    /// Whether the first device exists and can be used. Fast where there is none.
    ///
    /// # Errors
    /// The reason why an existing device cannot be used.
    pub is_usable: fn() -> Result<bool, Error>,
    /// Opens the device of that name.
    ///
    /// # Errors
    /// When there is none, or it cannot be used.
    pub open: fn(&str) -> Result<Arc<dyn Device>, Error>,
    /// Environment variables that name its libraries. If one is set, a device that cannot be used is an error instead
    /// of a reason to use another.
    pub libraries: &'static [&'static Variable],
}

impl Backend {
    /// Full name of a device: "cuda" is "cuda:0". `None` for names of other backends.
    pub fn full_name(&self, name: &str) -> Option<String> {
        match name.strip_prefix(self.kind)? {
            "" => Some(format!("{}:0", self.kind)),
            number if number.starts_with(':') => Some(name.into()),
            _ => None,
        }
    }

    /// Whether an environment variable names one of the backend's libraries.
    pub fn is_requested(&self) -> bool {
        self.libraries.iter().any(|v| matches!(v.read(), Ok(Some(_))))
    }
}
