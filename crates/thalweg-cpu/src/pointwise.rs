//! One point at a time, straight from the meanings in the table of operations: what tests compare launches with.

use crate::rows::{ACCESS_WORDS, RowArgs, Rows};
use half::{bf16, f16};
use thalweg_ir::{DType, Scalar};
use thalweg_kernel::{AccessClass, Body, Node};

/// A body, interpreted.
pub struct Pointwise(Body);

impl Pointwise {
    /// Nothing to compile.
    pub fn new(body: &Body) -> Pointwise {
        Pointwise(body.clone())
    }

    /// Address (index only: position) of a point's element, `None` where masked out.
    fn place(&self, args: &RowArgs, access: u16, row: usize, column: usize) -> Option<i64> {
        let a = &self.0.accesses[access as usize];
        let words = &args[ACCESS_WORDS * access as usize..][..ACCESS_WORDS];
        let unit = if a.operand.is_some() { a.dtype.size() as i64 } else { 1 };
        let step = match a.class {
            AccessClass::Contiguous => 1,
            AccessClass::Uniform => 0,
            AccessClass::Strided => words[2] as i64,
            AccessClass::Mapped => {
                assert_eq!(row, 0);
                // SAFETY: the table has a position for each column.
                let position = unsafe { *(words[3] as *const i32).add(column) } as i64;
                let start = if a.operand.is_some() { words[0] as i64 } else { 0 };
                return (position >= 0).then_some(start + position * unit);
            }
        };
        Some(words[0] as i64 + row as i64 * words[1] as i64 + column as i64 * step * unit)
    }
}

/// Reads an element.
///
/// # Safety
/// The address is readable and holds one.
pub unsafe fn read(address: *const u8, dtype: DType) -> Scalar {
    // SAFETY: the caller's promise, for the type that the dtype is.
    unsafe {
        match dtype {
            DType::F32 => Scalar::Float(*address.cast::<f32>() as f64),
            DType::F64 => Scalar::Float(*address.cast::<f64>()),
            DType::BF16 => Scalar::Float(address.cast::<bf16>().read().to_f64()),
            DType::F16 => Scalar::Float(address.cast::<f16>().read().to_f64()),
            DType::I8 => Scalar::Int(*address.cast::<i8>() as i64),
            DType::I16 => Scalar::Int(*address.cast::<i16>() as i64),
            DType::I32 => Scalar::Int(*address.cast::<i32>() as i64),
            DType::I64 => Scalar::Int(*address.cast::<i64>()),
            DType::U8 => Scalar::Int(*address as i64),
            DType::U32 => Scalar::Int(*address.cast::<u32>() as i64),
            DType::Bool => Scalar::Bool(*address != 0),
        }
    }
}

/// Writes an element.
///
/// # Safety
/// The address is writable and has room for one.
pub unsafe fn write(address: *mut u8, dtype: DType, value: Scalar) {
    let (v, i) = (value.to_f64(), value.to_i64());
    // SAFETY: the caller's promise, for the type that the dtype is.
    unsafe {
        match dtype {
            DType::F32 => *address.cast::<f32>() = v as f32,
            DType::F64 => *address.cast::<f64>() = v,
            DType::BF16 => address.cast::<bf16>().write(bf16::from_f64(v)),
            DType::F16 => address.cast::<f16>().write(f16::from_f64(v)),
            DType::I8 => *address.cast::<i8>() = i as i8,
            DType::I16 => *address.cast::<i16>() = i as i16,
            DType::I32 => *address.cast::<i32>() = i as i32,
            DType::I64 => *address.cast::<i64>() = i,
            DType::U8 => *address = i as u8,
            DType::U32 => *address.cast::<u32>() = i as u32,
            DType::Bool => *address = (v != 0.0) as u8,
        }
    }
}

impl Rows for Pointwise {
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize) -> bool {
        let body = &self.0;
        let scalars = &args[ACCESS_WORDS * body.accesses.len()..];
        let mut values: Vec<Scalar> = Vec::with_capacity(body.nodes.len());
        for (row, column) in (0..rows).flat_map(|r| (0..n).map(move |c| (r, c))) {
            values.clear();
            for (i, node) in body.nodes.iter().enumerate() {
                let id = thalweg_kernel::NodeId(i as u32);
                let value = match *node {
                    Node::Load { access } => match self.place(args, access, row, column) {
                        // SAFETY: the caller's promise.
                        Some(p) => unsafe { read(p as *const u8, body.dtype(id)) },
                        None => Scalar::from_bits(0, body.dtype(id)),
                    },
                    Node::Index { access, dtype } => {
                        Scalar::Int(dtype.wrap(self.place(args, access, row, column).unwrap_or(0)))
                    }
                    Node::Valid { access } => Scalar::Bool(self.place(args, access, row, column).is_some()),
                    Node::Scalar { slot, dtype } => Scalar::from_bits(scalars[slot as usize], dtype),
                    Node::Const { bits, dtype } => Scalar::from_bits(bits, dtype),
                    Node::Element { op, dtype, .. } => {
                        let operands = body.operand_dtype(id);
                        let meaning = &op.row().meaning;
                        if operands.is_float() {
                            let x: Vec<f64> = body.args(id).map(|a| values[a.index()].to_f64()).collect();
                            let v = meaning.float.expect("takes floats")(&x);
                            let v = if dtype == DType::F64 { v } else { v as f32 as f64 };
                            if dtype == DType::Bool { Scalar::Bool(v != 0.0) } else { Scalar::Float(v) }
                        } else {
                            let x: Vec<i64> = body.args(id).map(|a| values[a.index()].to_i64()).collect();
                            let v = dtype.wrap(meaning.int.expect("takes integers")(&x, operands));
                            if dtype == DType::Bool { Scalar::Bool(v != 0) } else { Scalar::Int(v) }
                        }
                    }
                    Node::Cast { dtype, arg } => {
                        let from = values[arg.index()];
                        if dtype.is_float() {
                            Scalar::Float(dtype.round(from.to_f64()))
                        } else if dtype == DType::Bool {
                            Scalar::Bool(from.to_f64() != 0.0)
                        } else if let Scalar::Float(v) = from {
                            let (low, high) = dtype.int_range();
                            Scalar::Int((v as i64).clamp(low, high))
                        } else {
                            Scalar::Int(dtype.wrap(from.to_i64()))
                        }
                    }
                };
                values.push(value);
            }
            for store in &body.stores {
                let p = self.place(args, store.access, row, column).expect("stores are not mapped");
                // SAFETY: the caller's promise.
                unsafe { write(p as *mut u8, body.dtype(store.node), values[store.node.index()]) };
            }
        }
        true
    }
}
