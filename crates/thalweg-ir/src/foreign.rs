//! Operations that are not planned from their elements: source text in another language, or a routine of a library.
//!
//! In: source text with a named entry point, or a routine; dtypes of operands and results. Out: a [`Foreign`], an id
//! that is compared and recorded like other operations. Equal sources share an id. The id hashes like its content, so that plans on disk,
//! which are found by hash, can be used by other processes. Interned sources are never freed: their number is bounded
//! by the program. Always true: dtypes and counts are part of the source, sizes are not.

use crate::interned::{Interned, Table, by_content};
use crate::{ConvolutionRoutine, DType, View};
use std::fmt;

/// Alignment in bytes of the operands of a routine.
const ROUTINE_ALIGNMENT: isize = 16;

/// Code of a foreign operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ForeignCode {
    /// Source text.
    Cuda {
        /// Source text in CUDA C++.
        text: String,
        /// Name of the function in the source that is launched.
        entry: String,
    },
    /// Routine of a library that the device opens. The sizes of a call are those of a
    /// [`Convolution`](crate::Convolution).
    Convolution(ConvolutionRoutine),
}

/// Definition of a foreign operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ForeignSource {
    /// Display name of the operation.
    pub name: String,
    /// Code that computes the results.
    pub code: ForeignCode,
    /// Dtypes of the operands.
    pub operands: Vec<DType>,
    /// Dtypes of the results.
    pub results: Vec<DType>,
    /// Number of size arguments.
    pub sizes: usize,
    /// Dtypes of the scalar arguments: f64 or i64.
    pub numbers: Vec<DType>,
}

/// Id of an interned source. Equal sources have equal ids; order and hash are those of the content's hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Foreign(u32);

static SOURCES: Table<ForeignSource, ()> = Table::new();

/// Launch configuration of a [`Foreign`] operation, recorded as the first of its integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ForeignLaunch {
    /// Number of thread blocks in x, y and z.
    pub grid: [u32; 3],
    /// Number of threads per block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Arithmetic cost of the launch in additions, if the caller gave it.
    pub additions: Option<u64>,
}

impl ForeignLaunch {
    /// Number of integers that represent the configuration.
    pub const INTS: usize = 8;

    /// Encodes the configuration as integers of the operation.
    pub fn to_ints(self) -> [i64; ForeignLaunch::INTS] {
        let ([x, y, z], [a, b, c]) = (self.grid.map(i64::from), self.block.map(i64::from));
        [x, y, z, a, b, c, i64::from(self.shared), self.additions.map_or(-1, |n| n as i64)]
    }

    /// Decodes the configuration from the integers of an operation.
    pub fn from_ints(ints: &[i64]) -> ForeignLaunch {
        let at = |i: usize| ints[i] as u32;
        ForeignLaunch {
            grid: [at(0), at(1), at(2)],
            block: [at(3), at(4), at(5)],
            shared: at(6),
            additions: u64::try_from(ints[7]).ok(),
        }
    }
}

impl ForeignSource {
    /// Interns the source; equal sources give equal ids.
    pub fn intern(self) -> Foreign {
        Foreign(SOURCES.intern(self, |_| ()))
    }

    /// Number of integers recorded with a result: launch configuration, sizes, bytes of each result.
    pub fn int_count(&self) -> usize {
        ForeignLaunch::INTS + self.sizes + self.results.len()
    }
}

impl Foreign {
    fn interned(self) -> &'static Interned<ForeignSource, ()> {
        SOURCES.get(self.0)
    }

    /// Returns the interned source.
    pub fn source(self) -> &'static ForeignSource {
        &self.interned().key
    }

    /// Whether the operation can read operand `n` in memory through this view: dense, and for a routine of a library,
    /// which reads vectors, from an aligned position on.
    pub fn reads(self, n: usize, view: &View) -> bool {
        let source = self.source();
        let aligned = match source.code {
            ForeignCode::Convolution(_) => {
                let bytes = view.offset * source.operands[n].size() as isize;
                view.shape.numel() == 0 || bytes.rem_euclid(ROUTINE_ALIGNMENT) == 0
            }
            ForeignCode::Cuda { .. } => true,
        };
        view.is_dense() && aligned
    }

    /// Parses the text form of an operation, which `Display` writes; `None` if the text is malformed.
    pub fn parse(text: &str) -> Option<Foreign> {
        let inside = text.strip_prefix("foreign{")?.strip_suffix('}')?;
        let [name, entry, text, operands, results, sizes, numbers] = inside.split(';').collect::<Vec<_>>()[..] else {
            return None;
        };
        // No function has an empty name.
        let code = match entry {
            "" => ForeignCode::Convolution(ConvolutionRoutine::parse(&unquoted(text)?)?),
            _ => ForeignCode::Cuda { text: unquoted(text)?, entry: unquoted(entry)? },
        };
        let dtypes = |list: &str| -> Option<Vec<DType>> {
            list.split(',').filter(|d| !d.is_empty()).map(DType::from_name).collect()
        };
        let source = ForeignSource {
            name: unquoted(name)?,
            code,
            operands: dtypes(operands)?,
            results: dtypes(results)?,
            sizes: sizes.parse().ok()?,
            numbers: dtypes(numbers)?,
        };
        (!source.results.is_empty() && !source.operands.is_empty()).then(|| source.intern())
    }
}

/// Escapes a text so that it has no spaces, brackets and separators: bytes other than letters, digits and `_` become
/// `%` and two hexadecimal digits. [`unquoted`] decodes it.
fn quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02x}") }).collect()
}

fn unquoted(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Foreign {
    /// Formats the operation as a word that [`Foreign::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.source();
        let dtypes = |of: &[DType]| of.iter().map(|d| d.name()).collect::<Vec<_>>().join(",");
        let routine;
        let (entry, text) = match &s.code {
            ForeignCode::Cuda { text, entry } => (&entry[..], &text[..]),
            ForeignCode::Convolution(of) => {
                routine = of.to_string();
                ("", &routine[..])
            }
        };
        let [name, entry, text] = [&s.name, entry, text].map(quoted);
        let [operands, results, numbers] = [&s.operands, &s.results, &s.numbers].map(|d| dtypes(d));
        write!(f, "foreign{{{name};{entry};{text};{operands};{results};{};{numbers}}}", s.sizes)
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "foreign({})", self.source().name)
    }
}

by_content!(Foreign);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    fn cuda(text: &str) -> ForeignCode {
        ForeignCode::Cuda { text: text.into(), entry: "f".into() }
    }

    #[test]
    fn a_routine_is_read_back_from_its_text() {
        let routine = ConvolutionRoutine::parse("input_gradient-2-tf32").unwrap();
        let source = ForeignSource {
            name: "conv2d".into(),
            code: ForeignCode::Convolution(routine),
            operands: vec![DType::F32; 2],
            results: vec![DType::F32],
            sizes: routine.sizes(),
            numbers: vec![],
        };
        let made = source.intern();
        assert_eq!(Foreign::parse(&made.to_string()), Some(made));
    }

    #[test]
    fn a_routine_reads_dense_aligned_operands_and_a_source_dense_ones() {
        let intern = |code, dtype| {
            let (operands, results) = (vec![dtype; 2], vec![dtype]);
            ForeignSource { name: "f".into(), code, operands, results, sizes: 0, numbers: vec![] }.intern()
        };
        let routine = ConvolutionRoutine::parse("forward-2").unwrap();
        let routine = intern(ForeignCode::Convolution(routine), DType::BF16);
        let source = intern(cuda("void f() {}"), DType::BF16);
        let view = |offset| View::new(crate::Shape::new(&[4, 6]), &[6, 1], offset);
        assert!([0, 8, 16, -8].into_iter().all(|offset| routine.reads(1, &view(offset))));
        assert!(!routine.reads(0, &view(1)) && !routine.reads(0, &view(4)) && source.reads(0, &view(1)));
        let columns = View::new(crate::Shape::new(&[6, 4]), &[1, 6], 0);
        assert!(!routine.reads(0, &columns) && !source.reads(0, &columns));
    }

    #[test]
    fn a_source_is_one_and_is_read_back_from_its_text() {
        let source = ForeignSource {
            name: "a name".into(),
            code: cuda("extern \"C\" __global__ void f(float *y) { y[0] = 1; /* ü % ; } */ }"),
            operands: vec![DType::F32, DType::I64],
            results: vec![DType::F32],
            sizes: 2,
            numbers: vec![],
        };
        let made = source.clone().intern();
        assert_eq!(made, source.clone().intern());
        assert_ne!(made, ForeignSource { code: cuda("another"), ..source.clone() }.intern());
        let text = made.to_string();
        assert!(!text.contains([' ', '(', ')', '\n']), "{text}");
        assert_eq!(Foreign::parse(&text), Some(made));
        assert_eq!(Op::from_name(&Op::Foreign(made).spelled()), Some(Op::Foreign(made)));
        assert_eq!((made.source(), Op::Foreign(made).name()), (&source, "a name"));
        assert_eq!(Foreign::parse("foreign{a;b;%zz;f32;f32;0;}"), None);
    }

    #[test]
    fn a_launch_is_its_integers() {
        let launch = ForeignLaunch { grid: [u32::MAX, 2, 3], block: [4, 5, 6], shared: 7, additions: Some(8) };
        let unsaid = ForeignLaunch { additions: None, ..launch };
        assert_eq!([launch, unsaid].map(|l| ForeignLaunch::from_ints(&l.to_ints())), [launch, unsaid]);
    }
}
