//! Headers of `.npy` files, real and complex: a magic number, a format version, and a Python dictionary literal (`descr`,
//! `fortran_order`, `shape`). The reader accepts exactly that dictionary and nothing else of Python.

use crate::{DType, MAX_RANK, Shape};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// NumPy's type code of a dtype, without the byte order.
pub(super) fn code(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f4",
        DType::F64 => "f8",
        DType::BF16 => "V2",
        DType::F16 => "f2",
        DType::I8 => "i1",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::U8 => "u1",
        DType::U16 => "u2",
        DType::U32 => "u4",
        DType::U64 => "u8",
        DType::Bool => "b1",
    }
}

/// Dtype of the parts of complex numbers with NumPy's type code `code`; `None` for other codes.
fn parts(code: &str) -> Option<DType> {
    match code {
        "c8" => Some(DType::F32),
        "c16" => Some(DType::F64),
        _ => None,
    }
}

/// Header of a file with elements of that type code and size.
pub(super) fn header(code: &str, size: usize, dims: &[usize]) -> Vec<u8> {
    let order = if size == 1 { '|' } else { '<' };
    let mut shape = dims.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if dims.len() == 1 {
        shape.push(',');
    }
    let mut text = format!("{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The elements start at a multiple of 64; the header ends with a newline.
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out
}

/// Parsed header of an .npy file.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub dtype: DType,
    pub big_endian: bool,
    pub fortran: bool,
    pub shape: Shape,
    /// Whether the elements are complex numbers, whose parts have the dtype.
    pub complex: bool,
}

/// Splits a file into its header and the bytes after it.
pub(super) fn split(bytes: &[u8]) -> Result<(Header, &[u8]), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not a .npy file: it does not start with \\x93NUMPY")?;
    let cut = "truncated in the header";
    let (version, rest) = rest.split_at_checked(2).ok_or(cut)?;
    let length_bytes = match version[0] {
        1 => 2,
        2 | 3 => 4,
        other => return Err(format!("format version {other} is not known")),
    };
    let (length, rest) = rest.split_at_checked(length_bytes).ok_or(cut)?;
    let length = length.iter().rev().fold(0usize, |n, &b| n << 8 | b as usize);
    let (text, data) = rest.split_at_checked(length).ok_or(cut)?;
    let text = std::str::from_utf8(text).map_err(|_| "the header is not text")?;
    Ok((Literal { rest: text }.header()?, data))
}

/// Parser of the Python literals in headers.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn header(mut self) -> Result<Header, String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "descr" => descr = Some(self.descr()?),
                "fortran_order" => fortran = Some(self.boolean()?),
                "shape" => shape = Some(self.shape()?),
                other => return Err(format!("the header has an unknown entry {other:?}")),
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        self.skip();
        if !self.rest.is_empty() {
            return Err(self.unexpected("its end"));
        }
        match (descr, fortran, shape) {
            (Some((dtype, complex, big_endian)), Some(fortran), Some(shape)) => {
                Ok(Header { dtype, big_endian, fortran, shape, complex })
            }
            _ => Err("the header lacks one of descr, fortran_order, shape".to_string()),
        }
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self, wanted: &str) -> String {
        let found: String = self.rest.chars().take(12).collect();
        format!("the header is damaged: {wanted} expected at {found:?}")
    }

    fn accept(&mut self, c: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.accept(c) { Ok(()) } else { Err(self.unexpected(&format!("'{c}'"))) }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        self.skip();
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let inner = quote.and_then(|q| self.rest[1..].split_once(q));
        let (text, rest) = inner.ok_or_else(|| self.unexpected("a string"))?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.skip();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    /// Parses the element type: the dtype, whether it is that of the parts of complex numbers, and whether the bytes
    /// are big-endian.
    fn descr(&mut self) -> Result<(DType, bool, bool), String> {
        self.skip();
        if self.rest.starts_with('[') {
            return Err("records (structured dtypes) are not supported".to_string());
        }
        let text = self.string()?;
        let (order, kind) = match text.chars().next() {
            Some(c @ ('<' | '>' | '|' | '=')) => (c, &text[1..]),
            _ => ('=', text),
        };
        let kind = if kind == "?" { "b1" } else { kind };
        let parts = parts(kind);
        let found = parts.or_else(|| DType::ALL.into_iter().find(|&d| code(d) == kind));
        let dtype = found.ok_or_else(|| {
            let known = DType::ALL.map(|d| format!("{} ({d})", code(d))).join(", ");
            format!("elements of type {text:?} are not supported; supported are {known}, c8 and c16")
        })?;
        Ok((dtype, parts.is_some(), if order == '=' { cfg!(target_endian = "big") } else { order == '>' }))
    }

    fn shape(&mut self) -> Result<Shape, String> {
        self.expect('(')?;
        let (mut sizes, mut rank) = ([0; MAX_RANK], 0);
        while !self.accept(')') {
            self.skip();
            let digits = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let size = self.rest[..digits].parse().map_err(|_| self.unexpected("a size"))?;
            self.rest = self.rest[digits..].strip_prefix('L').unwrap_or(&self.rest[digits..]);
            if rank == MAX_RANK {
                return Err(format!("the shape has more than {MAX_RANK} dimensions"));
            }
            sizes[rank] = size;
            rank += 1;
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(Shape::new(&sizes[..rank]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn headers_are_read() {
        let bytes = file("{'descr': '>i4', 'fortran_order': True, 'shape': (3L, 2), }   \n", b"data");
        let (header, data) = split(&bytes).unwrap();
        let shape = Shape::new(&[3, 2]);
        assert_eq!(header, Header { dtype: DType::I32, big_endian: true, fortran: true, shape, complex: false });
        assert_eq!(data, b"data");
        let bytes = file("{\"shape\":(),\"descr\":\"?\",\"fortran_order\":False}", b"");
        assert_eq!(split(&bytes).unwrap().0.shape, Shape::SCALAR);
    }

    #[test]
    fn damaged_headers_say_what_is_wrong() {
        for (header, says) in [
            ("{'descr': '<f4', 'fortran_order': False}", "lacks one of"),
            ("{'descr': '<c32', 'fortran_order': False, 'shape': ()}", "type \"<c32\" are not supported"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "records"),
            ("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "True or False expected"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "a size expected"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "a size expected"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "more than 8 dimensions"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "its end expected"),
            ("{'descr': '<f4', 'extra': 1}", "unknown entry"),
            ("", "'{' expected"),
            ("{'\u{e9}", "a string expected"),
        ] {
            let message = split(&file(header, b"")).unwrap_err();
            assert!(message.contains(says), "{header}: {message}");
        }
        assert!(split(b"PK\x03\x04").unwrap_err().contains("not a .npy file"));
        assert!(split(b"\x93NUMPY\x01\x00\xff").unwrap_err().contains("truncated"));
        assert!(split(b"\x93NUMPY\x09\x00\x00\x00").unwrap_err().contains("version 9"));
    }
}
