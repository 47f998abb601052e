//! Reader of golden.bin, whose format bench/golden_opdb.py describes.

use std::collections::HashMap;
use thalweg::prelude::*;
use thalweg::{bf16, f16};

/// Elements with their shape, as they are in the file.
#[derive(Clone, Debug)]
pub struct Array {
    pub dtype: DType,
    pub dims: Vec<usize>,
    /// Little-endian bytes of the elements.
    pub bytes: Vec<u8>,
}

/// One argument of a sample.
#[derive(Clone, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Array { array: Array, graded: bool, complex: bool },
    List(Vec<Value>),
}

/// Results of a sample in one dtype.
pub struct Expected {
    pub dtype: DType,
    /// Outputs, and whether each counts in the loss.
    pub outputs: Vec<(Array, bool)>,
    /// Gradients of the graded arguments.
    pub first: Option<Vec<Array>>,
    /// Gradients of the sum of those gradients times fixed numbers.
    pub second: Option<Vec<Array>>,
}

/// One sample of one entry.
pub struct Record {
    pub entry: String,
    /// Whether the arguments are special points.
    pub special: bool,
    pub arguments: Vec<(String, Value)>,
    pub expected: Vec<Expected>,
}

const DTYPES: [DType; 10] = [
    DType::F64,
    DType::F32,
    DType::BF16,
    DType::F16,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::Bool,
];

impl Array {
    /// The elements as f64, exact except for large i64.
    pub fn numbers(&self) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.chunks_exact(N).map(|c| f(c.try_into().expect("chunks have N bytes"))).collect()
        }
        match self.dtype {
            DType::F64 => each(&self.bytes, f64::from_le_bytes),
            DType::F32 => each(&self.bytes, |b| f32::from_le_bytes(b).into()),
            DType::BF16 => each(&self.bytes, |b| bf16::from_le_bytes(b).into()),
            DType::F16 => each(&self.bytes, |b| f16::from_le_bytes(b).into()),
            DType::I8 => each(&self.bytes, |b| i8::from_le_bytes(b).into()),
            DType::I16 => each(&self.bytes, |b| i16::from_le_bytes(b).into()),
            DType::I32 => each(&self.bytes, |b| i32::from_le_bytes(b).into()),
            DType::I64 => each(&self.bytes, |b| i64::from_le_bytes(b) as f64),
            _ => each(&self.bytes, |[b]: [u8; 1]| b.into()),
        }
    }

    /// The elements of an integer dtype as i64.
    pub fn integers(&self) -> Vec<i64> {
        assert_eq!(self.dtype, DType::I64);
        self.bytes.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().expect("8 bytes"))).collect()
    }

    /// A tensor of the elements; those of f64 in a float dtype, which represents all of them.
    pub fn tensor(&self, float: DType) -> Tensor {
        let dims = self.dims.clone();
        match self.dtype {
            DType::Bool => Tensor::from_slice(&self.bytes.iter().map(|&b| b != 0).collect::<Vec<_>>(), dims),
            DType::I64 => Tensor::from_slice(&self.integers(), dims),
            DType::U8 => Tensor::from_slice(&self.bytes, dims),
            DType::I8 | DType::I16 | DType::I32 => {
                let of = self.numbers().iter().map(|&v| v as i64).collect::<Vec<_>>();
                Tensor::from_slice(&of, dims).cast(self.dtype)
            }
            _ => {
                let to = if self.dtype == DType::F64 { float } else { self.dtype };
                let of = self.numbers();
                match to {
                    DType::F64 => Tensor::from_slice(&of, dims),
                    DType::F32 => Tensor::from_slice(&of.iter().map(|&v| v as f32).collect::<Vec<_>>(), dims),
                    DType::BF16 => Tensor::from_slice(&of.iter().map(|&v| bf16::from_f64(v)).collect::<Vec<_>>(), dims),
                    _ => Tensor::from_slice(&of.iter().map(|&v| f16::from_f64(v)).collect::<Vec<_>>(), dims),
                }
            }
        }
    }
}

/// Elements of one dtype and role, in byte planes.
struct Stream {
    bytes: Vec<u8>,
    /// Elements taken so far.
    at: usize,
}

struct Reader<'a> {
    bytes: &'a [u8],
    streams: HashMap<(u8, u8), Stream>,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> &[u8] {
        let (head, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        head
    }

    fn fixed<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("N bytes")
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u16(&mut self) -> usize {
        u16::from_le_bytes(self.fixed()).into()
    }

    fn text(&mut self) -> String {
        let count = self.u8().into();
        String::from_utf8(self.take(count).to_vec()).expect("UTF-8")
    }

    fn array(&mut self, role: u8) -> Array {
        let code = self.u8();
        let dtype = DTYPES[usize::from(code)];
        let rank = self.u8();
        let dims: Vec<usize> = (0..rank).map(|_| self.u16()).collect();
        let count: usize = dims.iter().product();
        let Some(stream) = self.streams.get_mut(&(code, role)) else {
            assert_eq!(count, 0);
            return Array { dtype, dims, bytes: vec![] };
        };
        let size = dtype.size();
        let all = stream.bytes.len() / size;
        let at = stream.at;
        stream.at += count;
        let byte = |i: usize| stream.bytes[(i % size) * all + at + i / size];
        let bytes = (0..count * size).map(byte).collect();
        Array { dtype, dims, bytes }
    }

    fn value(&mut self) -> Value {
        match self.u8() {
            0 => Value::None,
            1 => Value::Bool(self.u8() != 0),
            2 => Value::Int(i64::from_le_bytes(self.fixed())),
            3 => Value::Float(f64::from_le_bytes(self.fixed())),
            4 => Value::Text(self.text()),
            5 => {
                let flags = self.u8();
                Value::Array { array: self.array(0), graded: flags == 1, complex: flags == 2 }
            }
            6 => {
                let count = self.u16();
                Value::List((0..count).map(|_| self.value()).collect())
            }
            tag => panic!("tag {tag}"),
        }
    }

    fn order(&mut self) -> Option<Vec<Array>> {
        let count = self.u8();
        (count != 255).then(|| (0..count).map(|_| self.array(1)).collect())
    }

    fn record(&mut self) -> Record {
        let (entry, special) = (self.text(), self.u8() != 0);
        let count = self.u8();
        let arguments = (0..count).map(|_| (self.text(), self.value())).collect();
        let count = self.u8();
        let expected = (0..count)
            .map(|_| {
                let dtype = DTYPES[usize::from(self.u8())];
                let count = self.u8();
                let outputs = (0..count).map(|_| (self.array(1), self.u8() != 0)).collect();
                Expected { dtype, outputs, first: self.order(), second: self.order() }
            })
            .collect();
        Record { entry, special, arguments, expected }
    }
}

/// All records of the file.
pub fn records() -> Vec<Record> {
    let file = include_bytes!("golden.bin");
    let mut head = Reader { bytes: file.strip_prefix(b"OPDB1\n").expect("the magic word"), streams: HashMap::new() };
    let count = u32::from_le_bytes(head.fixed());
    let mut streams = HashMap::new();
    for _ in 0..count {
        let key = (head.u8(), head.u8());
        let (raw, packed) = (u32::from_le_bytes(head.fixed()), u32::from_le_bytes(head.fixed()));
        let bytes = miniz_oxide::inflate::decompress_to_vec_zlib(head.take(packed as usize)).expect("a zlib stream");
        assert_eq!(bytes.len(), raw as usize);
        streams.insert(key, Stream { bytes, at: 0 });
    }
    let structure = streams.remove(&(255, 0)).expect("there is a structure").bytes;
    let mut reader = Reader { bytes: &structure, streams };
    let mut out = vec![];
    while !reader.bytes.is_empty() {
        out.push(reader.record());
    }
    assert!(reader.streams.iter().all(|((code, _), s)| s.at * DTYPES[usize::from(*code)].size() == s.bytes.len()));
    out
}
