//! Complex numbers as text, in NumPy's layout.

use super::Complex;
use std::fmt;

impl fmt::Display for Complex {
    /// Prints the values, `re+imj`, in NumPy's layout; takes a precision like [`Tensor`](crate::Tensor). A value that
    /// cannot be computed prints its error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::display::complex(&self.re, &self.im, f.precision()) {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<complex {} {}: {e}>", self.dtype(), self.shape()),
        }
    }
}

impl fmt::Debug for Complex {
    /// Prints the values, then the dtype of the parts and the shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::display::complex(&self.re, &self.im, f.precision()) {
            Ok(text) => write!(f, "{text} (complex {} {})", self.dtype(), self.shape()),
            Err(e) => write!(f, "<complex {} {}: {e}>", self.dtype(), self.shape()),
        }
    }
}
