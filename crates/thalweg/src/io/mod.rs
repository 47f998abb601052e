//! File formats.

#[cfg(any(feature = "safetensors", feature = "npz"))]
mod atomic;
#[cfg(feature = "csv")]
pub(crate) mod csv;
mod npy;
mod npy_complex;
mod npy_header;
#[cfg(feature = "npz")]
pub(crate) mod npz;
#[cfg(feature = "safetensors")]
pub(crate) mod safetensors;

use crate::{DType, Error};
use std::borrow::Cow;

/// Error about the file `path`.
fn refused(path: &str, message: impl ToString) -> Error {
    Error::File { path: path.to_string(), message: message.to_string() }
}

/// Bytes of elements, converted between the host's byte order and little-endian.
fn little_endian(bytes: &[u8], dtype: DType) -> Cow<'_, [u8]> {
    let mut bytes = Cow::Borrowed(bytes);
    if cfg!(target_endian = "big") {
        bytes.to_mut().chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    bytes
}
