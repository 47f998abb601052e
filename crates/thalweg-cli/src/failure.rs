//! Error that ends a command, with a message for the user.

use std::fmt;

/// Error of the program: a message, printed after "error: ", and an exit code.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

/// Result type of this program.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Failure with this message and exit code 1.
pub fn failure(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), code: 1 }
}

impl Failure {
    /// Exit code: 2 for invalid usage, else 1.
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

/// Adds context to an I/O error.
pub trait During<T> {
    /// Prefixes the error with "`what`: ".
    fn during(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T> During<T> for std::io::Result<T> {
    fn during(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|e| failure(format!("{what}: {e}")))
    }
}
