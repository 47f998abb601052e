//! `.npy` files of complex numbers (`<c8`, `<c16`), with interleaved parts.
//!
//! They have the layout of a real array with one more axis of size 2, and another type code. So the reader of real
//! arrays checks, swaps and transposes the bytes.

use super::npy::{content, elements, write};
use super::npy_header::{Header, header, split};
use super::{little_endian, refused};
use crate::{Complex, DType, Error, MAX_RANK, Shape};
use std::path::Path;

/// Files of complex numbers.
impl Complex {
    /// Reads a `.npy` file of `complex64` (parts of f32) or `complex128` (of f64) onto the default device, as
    /// `numpy.load`; in either byte order, row-major or Fortran-order.
    ///
    /// ```
    /// # use thalweg::{Complex, Error};
    /// let path = std::env::temp_dir().join("thalweg-complex-example.npy");
    /// Complex::from_pairs(&[(1.0, 2.0)], [1]).write_npy(&path)?;
    /// assert_eq!(Complex::read_npy(&path)?.to_string(), "[1.+2.j]");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::read_npy`](crate::Tensor::read_npy), and when the file has real numbers, or eight dimensions.
    pub fn read_npy(path: impl AsRef<Path>) -> Result<Complex, Error> {
        let path = path.as_ref();
        parse(&content(path)?, &path.display().to_string())
    }

    /// Parses the content of a file; see [`read_npy`](Complex::read_npy).
    ///
    /// ```
    /// # use thalweg::{Complex, Error, Tensor};
    /// let real = Tensor::zeros([2]).to_npy_bytes()?;
    /// assert!(Complex::from_npy_bytes(&real).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`read_npy`](Complex::read_npy); the path of the error is `<bytes>`.
    pub fn from_npy_bytes(bytes: &[u8]) -> Result<Complex, Error> {
        parse(bytes, "<bytes>")
    }

    /// Writes a `.npy` file, as `numpy.save`: `complex64` for parts of f32, `complex128` for f64.
    ///
    /// ```
    /// # use thalweg::{Complex, Error};
    /// let path = std::env::temp_dir().join("thalweg-complex-written.npy");
    /// Complex::zeros([2, 3]).write_npy(path)?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::write_npy`](crate::Tensor::write_npy), and when the parts are bf16 or f16, for which NumPy has no
    /// complex type, or there are eight dimensions.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let header = head(self).map_err(|why| refused(&path.display().to_string(), why))?;
        write(path, &header, &self.view_as_real())
    }

    /// The content of a file; see [`write_npy`](Complex::write_npy).
    ///
    /// ```
    /// # use thalweg::{Complex, Error};
    /// assert!(Complex::zeros([2]).to_npy_bytes()?.ends_with(&[0; 16]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`write_npy`](Complex::write_npy); the path of the error is `<bytes>`.
    pub fn to_npy_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut out = head(self).map_err(|why| refused("<bytes>", why))?;
        self.view_as_real().with_bytes(|bytes| out.extend_from_slice(&little_endian(bytes, self.dtype())))?;
        Ok(out)
    }
}

fn head(z: &Complex) -> Result<Vec<u8>, String> {
    if z.rank() == MAX_RANK {
        return Err(too_many());
    }
    match z.dtype() {
        DType::F32 => Ok(header("c8", 8, z.dims())),
        DType::F64 => Ok(header("c16", 16, z.dims())),
        other => Err(format!("NumPy has no complex numbers of {other}; .cast(DType::F32) first")),
    }
}

fn too_many() -> String {
    format!("files of complex numbers have at most {} dimensions here", MAX_RANK - 1)
}

pub(super) fn parse(bytes: &[u8], path: &str) -> Result<Complex, Error> {
    let (mut header, data) = split(bytes).map_err(|message| refused(path, message))?;
    let Header { dtype, complex, shape: own, .. } = header;
    if !complex {
        return Err(refused(path, format!("real numbers of {dtype}, which are read as `Tensor`")));
    }
    if own.rank() == MAX_RANK {
        return Err(refused(path, too_many()));
    }
    // In column-major files the parts are interleaved, too: the file is the reversed shape in row-major order.
    let mut sizes: Vec<usize> = own.to_vec();
    let turned = std::mem::replace(&mut header.fortran, false) && own.rank() > 1;
    if turned {
        sizes.reverse();
    }
    sizes.push(2);
    header.shape = Shape::new(&sizes);
    let z = Complex::view_as_complex(&elements(header, data, path)?);
    let order: Vec<usize> = (0..own.rank()).rev().collect();
    Ok(if turned { z.permute(order) } else { z })
}
