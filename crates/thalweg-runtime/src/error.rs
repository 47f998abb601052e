//! What the outside world can cause.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A failure that no change of the calling program's shapes and dtypes would have avoided.
///
/// Mistakes in shapes and dtypes panic at the caller's line instead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device has no memory left for an allocation, or a limit leaves too little for what is to be computed.
    OutOfMemory {
        /// Bytes asked for: of an allocation, or of all that has to be in use at once to compute a segment.
        requested: usize,
        /// Bytes in use on the device by this process at that moment.
        in_use: usize,
        /// The limit that was set for the device, if one was.
        limit: Option<usize>,
        /// The device.
        device: String,
    },
    /// A kernel could not be compiled for the device.
    Compile {
        /// The device.
        device: String,
        /// What the compiler said.
        message: String,
    },
    /// The device refused or failed.
    Device {
        /// The device.
        device: String,
        /// What it said.
        message: String,
    },
    /// A file could not be read or written, or its content is not what it should be.
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The value was asked for in a form that it does not have.
    Value(
        /// What was asked for and what there is.
        String,
    ),
    /// An index names no element.
    Index(
        /// The operation, the index and what there is.
        String,
    ),
    /// An environment variable is set to what it may not be.
    Environment(
        /// Which, to what, and what it may be.
        String,
    ),
    /// A function of the program's own, in the midst of its operations, failed.
    Host {
        /// The operation's name.
        operation: String,
        /// Where it was called.
        at: &'static Location<'static>,
        /// Why it failed.
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Thalweg itself is wrong: no change of the calling program is called for.
    Internal {
        /// What went wrong.
        message: String,
        /// A file with what is needed to see it again, if one could be written: to be sent in.
        report: Option<String>,
    },
    /// The value depends on a segment that failed.
    Failed(
        /// Why it failed.
        Arc<Error>,
    ),
}

impl Error {
    /// The error for values that depend on what failed; it keeps the first cause.
    pub fn poisoned(&self) -> Error {
        match self {
            Error::Failed(cause) => Error::Failed(cause.clone()),
            other => Error::Failed(Arc::new(other.clone())),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::OutOfMemory { requested, in_use, limit, device } => {
                write!(f, "out of memory on {device}: {} asked for, {} in use", bytes(*requested), bytes(*in_use))?;
                limit.map_or(Ok(()), |limit| write!(f, ", limit {}", bytes(limit)))
            }
            Error::Compile { device, message } => write!(f, "a kernel could not be compiled for {device}: {message}"),
            Error::Device { device, message } => write!(f, "{device}: {message}"),
            Error::File { path, message } => write!(f, "{path}: {message}"),
            Error::Value(message) | Error::Index(message) | Error::Environment(message) => f.write_str(message),
            Error::Host { operation, at, cause } => write!(f, "{operation}: {cause}, at {at}"),
            Error::Internal { message, report } => {
                write!(f, "a defect of Thalweg, not of the calling program: {message}")?;
                let told = |report| {
                    write!(f, "; to have it mended, send in {report}, which holds the operations and no values")
                };
                report.as_ref().map_or(Ok(()), told)
            }
            Error::Failed(cause) => write!(f, "a value this depends on could not be computed: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Failed(cause) => Some(cause),
            Error::Host { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

fn bytes(n: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut v = n as f64;
    let mut unit = 0;
    while v >= 1024.0 && unit + 1 < UNITS.len() {
        v /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{v:.1} {}", UNITS[unit]) }
}
