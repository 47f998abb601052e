//! Tensors as text, in NumPy's layout, with up to four digits after the decimal point, or as many as the format
//! requests.
//!
//! Floats are printed with the fewest digits that distinguish them from their neighbours in their dtype, at most four
//! (`{x:.2}`: two) after the point. They share one column layout: fixed or, if magnitudes differ widely, scientific
//! (NumPy's rule). A tensor of more than 1,000 elements is abridged to the first and last three of each dimension; only
//! these are read.

use crate::{DType, Element, Error, Tensor};
use std::fmt::{self, Write};

/// Maximum number of digits after the decimal point, unless the format sets it.
const PRECISION: usize = 4;
/// Maximum number of elements of a tensor that is printed whole; larger ones are abridged.
const THRESHOLD: usize = 1000;
/// Number of elements shown at each end of an abridged dimension.
const EDGE: usize = 3;
/// Maximum number of characters in a line.
const WIDTH: usize = 75;

impl fmt::Display for Tensor {
    /// Prints the values, as `numpy.ndarray.__str__`; `{x:.2}` rounds floats to two digits after the point, the default
    /// is at most four. A value that cannot be computed prints its error. Computes and waits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_text(&TextStyle::display(f.precision())) {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<{} {}: {e}>", self.dtype(), self.shape()),
        }
    }
}

impl fmt::Debug for Tensor {
    /// Prints the values, then dtype and shape; takes a precision like `Display`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_text(&TextStyle::display(f.precision())) {
            Ok(text) => write!(f, "{text} ({} {})", self.dtype(), self.shape()),
            Err(e) => write!(f, "<{} {}: {e}>", self.dtype(), self.shape()),
        }
    }
}

/// Layout of a tensor as text.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// Maximum number of digits after the decimal point.
    pub precision: usize,
    /// Whether a comma follows each element and row, as in `numpy.ndarray.__repr__`.
    pub commas: bool,
    /// Number of columns that lines after the first are indented by, for text that is put after a name.
    pub indent: usize,
}

impl TextStyle {
    /// Style of `Display`: no commas, no indent.
    pub(crate) fn display(precision: Option<usize>) -> TextStyle {
        TextStyle { precision: precision.unwrap_or(PRECISION), commas: false, indent: 0 }
    }

    /// Lays out the words of the shown elements of an array of sizes `dims`.
    fn page(&self, dims: &[usize], shown: &[usize], words: &[String], abridged: bool) -> String {
        let page = Page { dims, shown, words, abridged, separator: if self.commas { "," } else { "" } };
        page.part(0, 0, &" ".repeat(self.indent + 1), WIDTH)
    }
}

impl Tensor {
    /// The values as text in a style; `Display` and `Debug` use the one without commas. Computes and waits.
    ///
    /// ```
    /// # use thalweg::{Tensor, TextStyle};
    /// let style = TextStyle { precision: 8, commas: true, indent: 0 };
    /// assert_eq!(Tensor::new([[1i32, 2], [3, 4]]).to_text(&style)?, "[[1, 2],\n [3, 4]]");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the values cannot be computed.
    pub fn to_text(&self, style: &TextStyle) -> Result<String, Error> {
        if self.numel() == 0 {
            return Ok("[]".to_string());
        }
        let abridged = self.numel() > THRESHOLD;
        let shown = if abridged { edges(self) } else { self.clone() };
        let words = words(&shown, style.precision)?;
        if self.rank() == 0 {
            return Ok(words[0].trim().to_string());
        }
        Ok(style.page(self.dims(), shown.dims(), &words, abridged))
    }
}

/// Complex numbers as text: real and imaginary parts each in a column layout of their own, the imaginary one with its
/// sign and a `j`.
pub(crate) fn complex(re: &Tensor, im: &Tensor, style: &TextStyle) -> Result<String, Error> {
    if re.numel() == 0 {
        return Ok("[]".to_string());
    }
    let abridged = re.numel() > THRESHOLD;
    let [real, imaginary] = [re, im].map(|x| if abridged { edges(x) } else { x.clone() });
    let precision = style.precision;
    let left = floats(&real.to_f64_vec()?, re.dtype(), precision);
    let values = imaginary.to_f64_vec()?;
    let sizes: Vec<f64> = values.iter().map(|v| v.abs()).collect();
    let right = floats(&sizes, re.dtype(), precision);
    // The sign is next to the first digit; spaces that pad a fraction follow the j.
    let signed = right.iter().zip(&values).map(|(text, v)| {
        let (sign, digits) = (if v.is_sign_negative() && !v.is_nan() { '-' } else { '+' }, text.trim_start());
        let kept = digits.trim_end();
        format!("{sign}{kept}j{}", " ".repeat(digits.len() - kept.len()))
    });
    let signed: Vec<String> = signed.collect();
    let (wide, width) = (widest(&left), widest(&signed));
    let words: Vec<String> = left.iter().zip(&signed).map(|(l, r)| format!("{l:>wide$}{r:>width$}")).collect();
    if re.rank() == 0 {
        return Ok(words[0].split_whitespace().collect());
    }
    Ok(style.page(re.dims(), real.dims(), &words, abridged))
}

fn widest(words: &[String]) -> usize {
    words.iter().map(String::len).max().unwrap_or(0)
}

/// Reduces each long dimension to its first and last elements, which are shown.
fn edges(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    for axis in 0..x.rank() {
        let size = x.dims()[axis];
        if size > 2 * EDGE {
            let (head, tail) = (x.narrow(axis, 0, EDGE), x.narrow(axis, size - EDGE, EDGE));
            x = Tensor::cat(&[head, tail], axis);
        }
    }
    x
}

/// Every element as text, padded to one width.
fn words(x: &Tensor, precision: usize) -> Result<Vec<String>, Error> {
    let words = match x.dtype() {
        dtype if dtype.is_float() => floats(&x.to_f64_vec()?, dtype, precision),
        DType::Bool => texts::<bool>(x)?,
        DType::I8 => texts::<i8>(x)?,
        DType::I16 => texts::<i16>(x)?,
        DType::I32 => texts::<i32>(x)?,
        DType::I64 => texts::<i64>(x)?,
        DType::U8 => texts::<u8>(x)?,
        DType::U16 => texts::<u16>(x)?,
        DType::U64 => texts::<u64>(x)?,
        _ => texts::<u32>(x)?,
    };
    let width = widest(&words);
    Ok(words.into_iter().map(|w| format!("{w:>width$}")).collect())
}

fn texts<T: Element>(x: &Tensor) -> Result<Vec<String>, Error> {
    Ok(x.to_vec::<T>()?.into_iter().map(|v| format!("{v:?}")).collect())
}

/// Formats floats in one column layout.
fn floats(values: &[f64], dtype: DType, precision: usize) -> Vec<String> {
    let finite = || values.iter().filter(|v| v.is_finite());
    let sizes = || finite().map(|v| v.abs()).filter(|&v| v != 0.0);
    let (largest, smallest) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
    let scientific = largest >= 1e8 || smallest < 1e-4 || (largest > 0.0 && largest / smallest > 1000.0);
    let digits: Vec<Option<String>> =
        values.iter().map(|&v| v.is_finite().then(|| shortest(v, dtype, scientific, precision))).collect();
    // Width before and after the point, over all elements.
    let (mut before, mut behind) = (0, 0);
    for text in digits.iter().flatten() {
        let (whole, rest) = text.split_once('.').expect("a point is always written");
        before = before.max(whole.len());
        behind = behind.max(rest.split('e').next().unwrap_or("").len());
    }
    let place = |(text, value): (&Option<String>, &f64)| match text {
        None => match (value.is_nan(), *value > 0.0) {
            (true, _) => "nan".to_string(),
            (_, true) => "inf".to_string(),
            _ => "-inf".to_string(),
        },
        // Scientific numbers all have as many digits as the longest; fixed ones are padded with spaces.
        Some(_) if scientific => scientific_text(*value, behind),
        Some(text) => {
            let (whole, rest) = text.split_once('.').expect("a point is always written");
            format!("{whole:>before$}.{rest:<behind$}")
        }
    };
    let exponents = digits.iter().flatten().filter_map(|t| t.split_once('e')).map(|(_, e)| e.len()).max().unwrap_or(0);
    let width = if scientific { before + 1 + behind + 1 + exponents } else { before + 1 + behind };
    let place = |pair| {
        let text: String = place(pair);
        format!("{text:>width$}")
    };
    digits.iter().zip(values).map(place).collect()
}

/// The fewest digits after the point, up to the precision, that parse to the value in its dtype; else the rounded
/// value.
fn shortest(value: f64, dtype: DType, scientific: bool, precision: usize) -> String {
    for digits in 0..=precision {
        let text = if scientific { scientific_text(value, digits) } else { format!("{value:.digits$}") };
        let exact = text.parse::<f64>().is_ok_and(|v| dtype.round(v) == value);
        if exact || digits == precision {
            return with_point(text);
        }
    }
    unreachable!("the loop ends at the precision")
}

/// Adds a missing decimal point, and strips trailing zeros.
fn with_point(text: String) -> String {
    let (mantissa, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0') } else { mantissa };
    let point = if mantissa.contains('.') { "" } else { "." };
    format!("{mantissa}{point}{exponent}")
}

/// `1.5e+02`: a sign and at least two digits in the exponent.
fn scientific_text(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').expect("exponent form");
    let point = if digits == 0 { "." } else { "" };
    let (sign, size) = exponent.strip_prefix('-').map_or(('+', exponent), |size| ('-', size));
    format!("{mantissa}{point}e{sign}{size:0>2}")
}

/// Printed page: the words of the shown elements, in the layout of NumPy's `_formatArray`.
struct Page<'a> {
    dims: &'a [usize],
    shown: &'a [usize],
    words: &'a [String],
    abridged: bool,
    /// Text that follows each element and row but the last: a comma, or nothing.
    separator: &'static str,
}

impl Page<'_> {
    /// The text of a sub-array, in brackets: `axis` is its first free dimension and `at` the index of its first word.
    fn part(&self, axis: usize, at: usize, indent: &str, width: usize) -> String {
        let cut = self.abridged && self.dims[axis] > 2 * EDGE;
        let count = self.shown[axis];
        let stride: usize = self.shown[axis + 1..].iter().product();
        let mut out = String::from("[");
        if axis + 1 == self.dims.len() {
            let mut column = indent.len();
            let mut put = |word: &str, last: bool| {
                if column > indent.len() && column + word.len() > width - 1 {
                    let kept = out.trim_end().len();
                    out.truncate(kept);
                    let _ = write!(out, "\n{indent}");
                    column = indent.len();
                }
                out.push_str(word);
                column += word.len();
                if !last {
                    let _ = write!(out, "{} ", self.separator);
                    column += 1 + self.separator.len();
                }
            };
            for i in 0..count {
                if cut && i == EDGE {
                    put("...", false);
                }
                put(&self.words[at + i], i + 1 == count);
            }
        } else {
            let breaks = "\n".repeat(self.dims.len() - axis - 1);
            let deeper = format!("{indent} ");
            for i in 0..count {
                if i > 0 {
                    let _ = write!(out, "{}{breaks}{indent}", self.separator);
                }
                if cut && i == EDGE {
                    let _ = write!(out, "...{}{breaks}{indent}", self.separator);
                }
                out.push_str(&self.part(axis + 1, at + i * stride, &deeper, width - 1));
            }
        }
        out.push(']');
        out
    }
}
