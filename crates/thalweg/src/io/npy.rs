//! NumPy's `.npy` files (format versions 1 to 3), read and written.
//!
//! A file is a header (`npy_header`) and the elements. The reader checks the element count against the number of bytes
//! before it allocates anything, so that a hostile header costs nothing. Big-endian and Fortran-order files are read;
//! files are written little-endian and row-major.
//!
//! NumPy has no bf16. It is written as `<V2` (two opaque bytes, as ml_dtypes writes it) and read from that; in Python,
//! `array.view(ml_dtypes.bfloat16)` converts it to numbers.
//!
//! Complex numbers (`<c8`, `<c16`) are in `npy_complex`.

use super::npy_header::{Header, code, header, split};
use super::{little_endian, refused};
use crate::{DType, Device, Error, Shape, Tensor};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// # Files: .npy
impl Tensor {
    /// Reads a `.npy` file onto the default device, as `numpy.load`. Takes every dtype of this crate, in either byte
    /// order, row-major or Fortran-order.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read, is damaged or truncated, or has elements of another type; another
    /// error when the device has no memory for it.
    pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor, Error> {
        let path = path.as_ref();
        parse(&content(path)?, &path.display().to_string())
    }

    /// Parses the content of a `.npy` file; see [`read_npy`](Tensor::read_npy).
    ///
    /// # Errors
    /// As [`read_npy`](Tensor::read_npy); the path of the error is `<bytes>`.
    pub fn from_npy_bytes(bytes: &[u8]) -> Result<Tensor, Error> {
        parse(bytes, "<bytes>")
    }

    /// Writes a `.npy` file, little-endian and row-major, as `numpy.save`. bf16 is written as `<V2`, two opaque bytes
    /// in NumPy (`.view(ml_dtypes.bfloat16)` interprets them). Computes the tensor and waits.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let path = std::env::temp_dir().join(format!("thalweg-example-{}.npy", std::process::id()));
    /// Tensor::new([1i32, 2]).write_npy(&path)?;
    /// assert_eq!(Tensor::read_npy(&path)?.to_vec::<i32>()?, [1, 2]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written, another error when the value cannot be computed.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        write(path, &header(code(self.dtype()), self.dtype().size(), self.dims()), self)
    }

    /// The content of a `.npy` file of this tensor; see [`write_npy`](Tensor::write_npy).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let bytes = Tensor::new([1i32, 2]).to_npy_bytes()?;
    /// assert_eq!(Tensor::from_npy_bytes(&bytes)?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the value cannot be computed.
    pub fn to_npy_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut out = header(code(self.dtype()), self.dtype().size(), self.dims());
        self.with_bytes(|bytes| out.extend_from_slice(&little_endian(bytes, self.dtype())))?;
        Ok(out)
    }
}

/// Reads all bytes of a file.
pub(super) fn content(path: &Path) -> Result<Vec<u8>, Error> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    read().map_err(|e| refused(&path.display().to_string(), e.to_string()))
}

/// Writes a file that consists of a header and the elements of a tensor.
pub(super) fn write(path: &Path, header: &[u8], x: &Tensor) -> Result<(), Error> {
    let write = |bytes: &[u8]| {
        let mut file = File::create(path)?;
        file.write_all(header)?;
        file.write_all(&little_endian(bytes, x.dtype()))?;
        file.flush()
    };
    let written: std::io::Result<()> = x.with_bytes(write)?;
    written.map_err(|e| refused(&path.display().to_string(), e.to_string()))
}

pub(super) fn parse(bytes: &[u8], path: &str) -> Result<Tensor, Error> {
    let (header, data) = split(bytes).map_err(|message| refused(path, message))?;
    if header.complex {
        return Err(refused(path, "complex numbers, which are read as `Complex`".to_string()));
    }
    elements(header, data, path)
}

/// Tensor of the elements after a header, whose number is checked.
pub(super) fn elements(header: Header, data: &[u8], path: &str) -> Result<Tensor, Error> {
    let Header { dtype, big_endian, fortran, shape, .. } = header;
    let wanted = shape.checked_bytes(dtype.size());
    if wanted != Some(data.len()) {
        let message = format!(
            "shape {shape} of {dtype} takes {} bytes of data, but there are {}",
            wanted.map_or("too many".to_string(), |n| n.to_string()),
            data.len()
        );
        return Err(refused(path, message));
    }
    let mut data = Cow::Borrowed(data);
    if big_endian != cfg!(target_endian = "big") && dtype.size() > 1 {
        data.to_mut().chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    // Device memory holds 0 and 1 for bool; files may have other values.
    if dtype == DType::Bool && data.iter().any(|&b| b > 1) {
        data.to_mut().iter_mut().for_each(|b| *b = (*b != 0) as u8);
    }
    let device = Device::try_default()?;
    if !fortran || shape.rank() < 2 {
        return Tensor::from_bytes(&data, shape, dtype, device);
    }
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let order: Vec<usize> = (0..shape.rank()).rev().collect();
    Ok(Tensor::from_bytes(&data, Shape::new(&reversed), dtype, device)?.permute(order))
}
