//! Errors returned to calling programs.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Failure that is independent of the calling program's shapes and dtypes.
///
/// Mistakes in shapes and dtypes panic at the caller's line instead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device is out of memory, or a limit leaves too little for the computation.
    OutOfMemory {
        /// Bytes requested: by an allocation, or needed at once to compute a segment.
        requested: usize,
        /// Bytes in use on the device by this process at that time.
        in_use: usize,
        /// The device's limit, if set.
        limit: Option<usize>,
        /// Name of the device.
        device: String,
    },
    /// A kernel could not be compiled for the device.
    Compile {
        /// Name of the device.
        device: String,
        /// Message of the compiler.
        message: String,
    },
    /// The device rejected a request or failed.
    Device {
        /// Name of the device.
        device: String,
        /// Message of the device.
        message: String,
    },
    /// A file could not be read or written, or its content is invalid.
    File {
        /// Path of the file.
        path: String,
        /// Description of the problem.
        message: String,
    },
    /// The value was requested in an unavailable form.
    Value(
        /// Requested and available form.
        String,
    ),
    /// An index is out of range.
    Index(
        /// Operation, index and valid range.
        String,
    ),
    /// An environment variable has an invalid value.
    Environment(
        /// Variable, value and permitted values.
        String,
    ),
    /// A user-defined function called between operations failed.
    Host {
        /// The operation's name.
        operation: String,
        /// Call site.
        at: &'static Location<'static>,
        /// Cause of the failure.
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Defect of Thalweg: the calling program need not change.
    Internal {
        /// Description of the defect.
        message: String,
        /// File with the data needed to reproduce it, if one could be written, to be sent with a defect report.
        report: Option<String>,
    },
    /// The value depends on a segment that failed.
    Failed(
        /// Error of that segment.
        Arc<Error>,
    ),
}

impl Error {
    /// The error for values that depend on a failed one; it preserves the first cause.
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
