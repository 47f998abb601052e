//! What ends a command early: one message for the person at the terminal.

use std::fmt;

/// A message, and nothing else: it is printed after "error: ", and the program ends with 1.
#[derive(Debug)]
pub struct Failure(String);

/// The result of everything that can fail here.
pub type Outcome<T = ()> = Result<T, Failure>;

/// A failure with this message.
pub fn failure(message: impl Into<String>) -> Failure {
    Failure(message.into())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<thalweg::Error> for Failure {
    fn from(error: thalweg::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// Adds what was being done to an error of the operating system.
pub trait During<T> {
    /// The same, with "`what`: " before the error.
    fn during(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|e| Failure(format!("{what}: {e}")))
    }
}
