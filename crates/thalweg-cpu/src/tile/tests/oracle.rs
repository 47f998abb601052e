//! Reference evaluation of bodies, point by point from the operation table, and memory for programs to run on.

use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Access, AccessClass, Body, Node, NodeId};

/// Exact value of an element: floats as f64, integers and bool as i64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Val {
    F(f64),
    I(i64),
}
use Val::*;

impl Val {
    pub fn float(self) -> f64 {
        match self {
            F(v) => v,
            I(v) => v as f64,
        }
    }
    fn int(self) -> i64 {
        match self {
            F(_) => panic!("not an integer"),
            I(v) => v,
        }
    }
}

pub fn encode(dtype: DType, v: Val) -> Vec<u8> {
    match dtype {
        DType::F32 => (v.float() as f32).to_le_bytes().to_vec(),
        DType::F64 => v.float().to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(v.float()).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(v.float()).to_le_bytes().to_vec(),
        _ => v.int().to_le_bytes()[..dtype.size()].to_vec(),
    }
}

pub fn decode(dtype: DType, b: &[u8]) -> Val {
    match dtype {
        DType::F32 => F(f32::from_le_bytes(b.try_into().unwrap()) as f64),
        DType::F64 => F(f64::from_le_bytes(b.try_into().unwrap())),
        DType::BF16 => F(half::bf16::from_le_bytes(b.try_into().unwrap()).to_f64()),
        DType::F16 => F(half::f16::from_le_bytes(b.try_into().unwrap()).to_f64()),
        _ => {
            let mut full = [0u8; 8];
            full[..b.len()].copy_from_slice(b);
            I(dtype.wrap(i64::from_le_bytes(full)))
        }
    }
}

/// Rounds a float to the precision of the dtype's lanes; bf16 and f16 are rounded to their own precision only if
/// `narrow`.
fn hold(dtype: DType, v: f64, narrow: bool) -> f64 {
    match dtype {
        DType::BF16 | DType::F16 if !narrow => v as f32 as f64,
        _ => dtype.round(v),
    }
}

/// Converts a value; u64 integers are represented by their bits.
pub fn cast(v: Val, from: DType, to: DType) -> Val {
    match (v, to.is_float(), to) {
        (I(v), true, DType::F32) if from == DType::U64 => F(v as u64 as f32 as f64),
        (I(v), true, _) if from == DType::U64 => F(to.round(v as u64 as f64)),
        (F(v), true, _) => F(to.round(v)),
        (I(v), true, DType::F32) => F(v as f32 as f64),
        (I(v), true, _) => F(to.round(v as f64)),
        (v, _, DType::Bool) => I((v.float() != 0.0) as i64),
        (F(v), _, _) => {
            let (lo, hi) = to.int_range();
            // `as` saturates at i128, the clamp at the narrower range.
            I((v as i128).clamp(lo, hi) as i64)
        }
        (I(v), _, _) => I(to.wrap(v)),
    }
}

/// Element (if loaded) and position of an access at a point.
#[derive(Clone, Copy)]
pub struct Seen {
    pub value: Option<Val>,
    pub position: i64,
}

/// Decodes a value from the form of `Scalar::to_bits`.
pub fn scalar(bits: u64, dtype: DType) -> Val {
    match Scalar::from_bits(bits, dtype) {
        Scalar::Float(v) => F(v),
        Scalar::Int(v) => I(v),
        Scalar::Unsigned(v) => I(v as i64),
        Scalar::Bool(v) => I(v as i64),
    }
}

/// Encodes a value in the form of `Scalar::to_bits`.
pub fn bits(v: Val, dtype: DType) -> u64 {
    match v {
        F(v) => Scalar::Float(v),
        I(v) => Scalar::Int(v),
    }
    .to_bits(dtype)
}

/// Evaluates the values that a body stores at one point.
pub fn evaluate(body: &Body, seen: &dyn Fn(u16) -> Seen, scalars: &[u64]) -> Vec<Val> {
    let all = evaluate_all(body, seen, scalars, &[]);
    body.stores.iter().map(|s| all[s.node.index()]).collect()
}

/// Evaluates all nodes of a body at one point, given the values of the row that are known so far; others count as 0.
pub fn evaluate_all(body: &Body, seen: &dyn Fn(u16) -> Seen, scalars: &[u64], row: &[Val]) -> Vec<Val> {
    let mut values: Vec<Val> = vec![];
    for (i, node) in body.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let args: Vec<Val> = body.args(id).map(|a| values[a.index()]).collect();
        values.push(match *node {
            Node::Scanned { .. }
            | Node::Combined { .. }
            | Node::Gather { .. }
            | Node::Loop { .. }
            | Node::Looped { .. } => {
                unreachable!("no body here has these")
            }
            Node::Value { slot, dtype } => row.get(slot as usize).copied().unwrap_or_else(|| scalar(0, dtype)),
            Node::Load { access } => {
                let zero = if body.dtype(id).is_float() { F(0.0) } else { I(0) };
                seen(access).value.unwrap_or(zero)
            }
            Node::Index { access, dtype } => I(dtype.wrap(seen(access).position)),
            Node::Valid { access } => I((seen(access).position >= 0) as i64),
            Node::Scalar { slot, dtype } => scalar(scalars[slot as usize], dtype),
            Node::Const { bits, dtype } => scalar(bits, dtype),
            Node::Round { arg } => F(hold(body.dtype(arg), args[0].float(), true)),
            Node::Bitcast { dtype, arg } => decode(dtype, &encode(body.dtype(arg), args[0])),
            Node::Cast { dtype, .. } => {
                let from = body.dtype(body.args(id).next().unwrap());
                if from == dtype && !from.is_float() { args[0] } else { cast(args[0], from, dtype) }
            }
            Node::Element { op, dtype, .. } => {
                let (meaning, operand) = (&op.row().meaning, body.operand_dtype(id));
                if op == ElementOp::Lerp && operand != DType::F64 {
                    // The sum may cancel, which exposes the rounding of its terms: each is an f32.
                    let [a, b, c] = [0, 1, 2].map(|i| args[i].float() as f32);
                    F(hold(dtype, (a + c * (b - a)) as f64, body.strict))
                } else if operand.is_float() {
                    let v = (meaning.float.unwrap())(&args.iter().map(|a| a.float()).collect::<Vec<_>>());
                    if dtype == DType::Bool { I(v as i64) } else { F(hold(dtype, v, body.strict)) }
                } else {
                    let v = (meaning.int.unwrap())(&args.iter().map(|a| a.int()).collect::<Vec<_>>(), operand);
                    I(dtype.wrap(v))
                }
            }
        });
    }
    values
}

/// Memory and strides of an access of a test body.
pub struct Operand {
    pub memory: Vec<u8>,
    /// Index of the first point's element in `memory` (or its position, for an access without an operand).
    pub offset: i64,
    /// Strides in elements: between rows, and between points of a row.
    pub strides: (i64, i64),
    pub table: Vec<i32>,
}

impl Operand {
    fn position(&self, a: Access, row: usize, column: usize) -> i64 {
        let step = match a.class {
            AccessClass::Contiguous => 1,
            AccessClass::Uniform => 0,
            AccessClass::Reversed => -1,
            AccessClass::Strided => self.strides.1,
            AccessClass::Mapped => return self.table[column] as i64,
        };
        self.offset + row as i64 * self.strides.0 + column as i64 * step
    }

    pub fn seen(&self, a: Access, row: usize, column: usize) -> Seen {
        let position = self.position(a, row, column);
        let size = a.dtype.size();
        let value = (a.operand.is_some() && position >= 0)
            .then(|| decode(a.dtype, &self.memory[position as usize * size..][..size]));
        Seen { value, position }
    }

    pub fn words(&mut self, a: Access) -> [u64; 4] {
        let size = a.dtype.size() as i64;
        let table = self.table.as_ptr() as u64;
        if a.operand.is_none() {
            return [self.offset as u64, self.strides.0 as u64, self.strides.1 as u64, table];
        }
        let base = self.memory.as_mut_ptr();
        let start =
            if a.class == AccessClass::Mapped { base as u64 } else { base as u64 + (self.offset * size) as u64 };
        [start, (self.strides.0 * size) as u64, self.strides.1 as u64, table]
    }
}

/// Allocates zeroed memory that is aligned for elements of every dtype.
pub fn memory(bytes: usize) -> Vec<u8> {
    // All allocators that run tests align more than this; the assertion fails if one does not.
    let out = vec![0u8; bytes.next_multiple_of(8).max(64)];
    assert_eq!(out.as_ptr() as usize % 8, 0);
    out
}
