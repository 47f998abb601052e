//! What ends a command early: one message for the person at the terminal.

use std::fmt;

/// A message, which is printed after "error: ", and what the program ends with.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

/// The result of everything that can fail here.
pub type Outcome<T = ()> = Result<T, Failure>;

/// A failure with this message; the program ends with 1.
pub fn failure(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), code: 1 }
}

impl Failure {
    /// What the program ends with: 2 where it was called in a way that cannot be meant, as for arguments that are
    /// wrong.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<thalweg::Error> for Failure {
    fn from(error: thalweg::Error) -> Failure {
        let code = if matches!(error, thalweg::Error::Environment(_)) { 2 } else { 1 };
        Failure { message: error.to_string(), code }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        failure(error.to_string())
    }
}

/// Adds what was being done to an error of the operating system.
pub trait During<T> {
    /// The same, with "`what`: " before the error.
    fn during(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|e| failure(format!("{what}: {e}")))
    }
}
