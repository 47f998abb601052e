//! Complex numbers as text, in NumPy's layout.

use super::Complex;
use crate::Error;
use crate::display::TextStyle;
use std::fmt;

impl fmt::Display for Complex {
    /// Prints the values, `re+imj`, in NumPy's layout; takes a precision like [`Tensor`](crate::Tensor). A value that
    /// cannot be computed prints its error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_text(&TextStyle::display(f.precision())) {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<complex {} {}: {e}>", self.dtype(), self.shape()),
        }
    }
}

impl fmt::Debug for Complex {
    /// Prints the values, then the dtype of the parts and the shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_text(&TextStyle::display(f.precision())) {
            Ok(text) => write!(f, "{text} (complex {} {})", self.dtype(), self.shape()),
            Err(e) => write!(f, "<complex {} {}: {e}>", self.dtype(), self.shape()),
        }
    }
}

impl Complex {
    /// The numbers as text in a style; see [`Tensor::to_text`](crate::Tensor::to_text).
    ///
    /// ```
    /// # use thalweg::{Complex, TextStyle};
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, -4.5)], [2]);
    /// let style = TextStyle { precision: 8, commas: true, indent: 0 };
    /// assert_eq!(z.to_text(&style)?, "[1.+2.j , 3.-4.5j]");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the numbers cannot be computed.
    pub fn to_text(&self, style: &TextStyle) -> Result<String, Error> {
        crate::display::complex(&self.re, &self.im, style)
    }
}
