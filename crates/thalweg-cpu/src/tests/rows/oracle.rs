//! Reference evaluation of row kernels, one point at a time: every value rounded to its dtype, folds in the order of
//! [`order`], implemented independently.

use super::super::{read, write};
use thalweg_ir::{DType, Monoid, Scalar, ScanOp};
use thalweg_kernel::{Access, AccessClass, AccessGeometry, Body, Node, NodeId, RowGeometry, order, reference};

/// Tree reduction of blocks, by recursion: the left side has the largest power of two blocks that is less than all.
fn pairwise(op: Monoid, dtype: DType, blocks: &[u64]) -> u64 {
    match blocks {
        [] => op.identity(dtype),
        [one] => *one,
        _ => {
            let left = 1 << (blocks.len() - 1).ilog2();
            let (a, b) = blocks.split_at(left);
            order::combine(op, dtype, pairwise(op, dtype, a), pairwise(op, dtype, b))
        }
    }
}

/// Folds a row that consists of runs of `n` elements.
pub fn fold(op: Monoid, dtype: DType, elements: &[u64], n: usize) -> u64 {
    let mut blocks = vec![];
    for block in elements.chunks(n.max(1)).flat_map(|run| run.chunks(4096)) {
        let mut lanes = [op.identity(dtype); 32];
        for (i, &e) in block.iter().enumerate() {
            lanes[i % 32] = order::combine(op, dtype, lanes[i % 32], e);
        }
        for half in [16, 8, 4, 2, 1] {
            for l in 0..half {
                lanes[l] = order::combine(op, dtype, lanes[l], lanes[l + half]);
            }
        }
        blocks.push(lanes[0]);
    }
    pairwise(op, dtype, &blocks)
}

/// State of a row's evaluation: results of the folds and scans computed so far.
#[derive(Clone)]
struct Known {
    values: Vec<Option<u64>>,
    scanned: Vec<Option<Vec<Scalar>>>,
}

impl Known {
    /// Whether a node can be evaluated: all folds and scans that it depends on are known.
    fn has(&self, body: &Body, id: NodeId) -> bool {
        match body.nodes[id.index()] {
            Node::Value { slot, .. } => self.values[slot as usize].is_some(),
            Node::Scanned { scan, .. } => self.scanned[scan as usize].is_some(),
            _ => body.args(id).all(|a| self.has(body, a)),
        }
    }
}

/// Evaluates a strict body over its rows.
pub fn run(body: &Body, geometry: &RowGeometry, operands: &mut [Vec<u8>], scalars: &[u64]) {
    let (rows, row) = (geometry.rows(), geometry.row());
    let inputs = operands.to_vec();
    for r in 0..rows {
        let kept = unravel(&geometry.extents[..geometry.kept], r);
        let mut known = Known { values: vec![None; body.folds.len()], scanned: vec![None; body.scans.len()] };
        let elements = |known: &Known, id: NodeId| -> Vec<Scalar> {
            let point = |p| Point { body, geometry, operands: &inputs, scalars, row: &kept, at: (r, p), known };
            (0..row).map(|p| point(p).value(id)).collect()
        };
        while known.values.contains(&None) || known.scanned.contains(&None) {
            for f in &body.folds {
                if known.values[f.slot as usize].is_none() && known.has(body, f.node) {
                    let dtype = body.dtype(f.node);
                    let all: Vec<u64> = elements(&known, f.node).iter().map(|v| v.to_bits(dtype)).collect();
                    let n = *geometry.extents.last().unwrap();
                    known.values[f.slot as usize] = Some(fold(f.op, dtype, &all, n));
                }
            }
            for (i, s) in body.scans.iter().enumerate() {
                if known.scanned[i].is_none() && known.has(body, s.node) {
                    let dtype = if s.op == ScanOp::Argsort { DType::I64 } else { body.dtype(s.node) };
                    let all = reference::scan_row(s.op, s.reverse, body.dtype(s.node), &elements(&known, s.node));
                    known.scanned[i] = Some(all.into_iter().map(|v| reference::cast(v, dtype)).collect());
                }
            }
        }
        for store in &body.stores {
            let access = &body.accesses[store.access as usize];
            for p in 0..if access.per_row { 1 } else { row } {
                let point = Point { body, geometry, operands: &inputs, scalars, row: &kept, at: (r, p), known: &known };
                let v = point.value(store.node);
                let to = point.position(store.access).unwrap();
                let bytes = &mut operands[access.operand.unwrap() as usize];
                // SAFETY: the position is inside the operand, or the slice index would have panicked.
                unsafe { write(bytes[to * access.dtype.size()..].as_mut_ptr(), access.dtype, v) };
            }
        }
    }
}

fn unravel(sizes: &[usize], mut i: usize) -> Vec<usize> {
    let mut index = vec![0; sizes.len()];
    for (d, &size) in sizes.iter().enumerate().rev() {
        index[d] = i % size;
        i /= size;
    }
    index
}

struct Point<'a> {
    body: &'a Body,
    geometry: &'a RowGeometry,
    operands: &'a [Vec<u8>],
    scalars: &'a [u64],
    row: &'a [usize],
    /// Index of the row, and of the point in the row.
    at: (usize, usize),
    known: &'a Known,
}

impl Point<'_> {
    fn position(&self, access: u16) -> Option<usize> {
        let (a, at): (&Access, &AccessGeometry) =
            (&self.body.accesses[access as usize], &self.geometry.accesses[access as usize]);
        if a.class == AccessClass::Mapped {
            return at.map.as_ref().unwrap().position(self.at.0 * self.geometry.row() + self.at.1);
        }
        let mut index = self.row.to_vec();
        if !a.per_row {
            index.extend(unravel(&self.geometry.extents[self.geometry.kept..], self.at.1));
        }
        Some(index.iter().zip(&at.strides).fold(at.base, |p, (&i, s)| p + i as isize * s) as usize)
    }

    fn value(&self, id: NodeId) -> Scalar {
        let body = self.body;
        match body.nodes[id.index()] {
            Node::Load { access } => {
                let a = &body.accesses[access as usize];
                let Some(p) = self.position(access) else { return Scalar::Int(0) };
                // SAFETY: as in `run`.
                unsafe { read(self.operands[a.operand.unwrap() as usize][p * a.dtype.size()..].as_ptr(), a.dtype) }
            }
            Node::Index { access, .. } => Scalar::Int(self.position(access).unwrap_or(0) as i64),
            Node::Valid { access } => Scalar::Int(self.position(access).is_some() as i64),
            Node::Scalar { slot, dtype } => Scalar::from_bits(self.scalars[slot as usize], dtype),
            Node::Const { bits, dtype } => Scalar::from_bits(bits, dtype),
            Node::Value { slot, dtype } => Scalar::from_bits(self.known.values[slot as usize].unwrap(), dtype),
            Node::Cast { dtype, arg } => reference::cast(self.value(arg), dtype),
            Node::Round { arg } => reference::cast(self.value(arg), body.dtype(arg)),
            Node::Element { op, dtype, .. } => {
                // Without allocating: an operation has at most three operands.
                let (mut args, mut count) = ([Scalar::Int(0); 3], 0);
                for arg in body.args(id) {
                    args[count] = self.value(arg);
                    count += 1;
                }
                let operand = body.operand_dtype(id);
                if operand.is_float() {
                    let x = args.map(|a| a.to_f64());
                    let v = op.row().meaning.float.unwrap()(&x[..count]);
                    if dtype == DType::Bool { Scalar::Int(v as i64) } else { Scalar::Float(dtype.round(v)) }
                } else {
                    let x = args.map(|a| a.to_i64());
                    Scalar::integer(dtype.wrap(op.row().meaning.int.unwrap()(&x[..count], operand)), dtype)
                }
            }
            Node::Bitcast { .. } | Node::Combined { .. } | Node::Loop { .. } | Node::Looped { .. } => {
                unreachable!("no body here has these")
            }
            Node::Scanned { scan, .. } => self.known.scanned[scan as usize].as_ref().unwrap()[self.at.1],
            Node::Gather { access, offset, inside } => {
                if self.value(inside).to_i64() == 0 {
                    return Scalar::Int(0);
                }
                let a = &body.accesses[access as usize];
                let p = self.position(access).unwrap() as i64 + self.value(offset).to_i64();
                // SAFETY: as in `run`.
                unsafe {
                    read(self.operands[a.operand.unwrap() as usize][p as usize * a.dtype.size()..].as_ptr(), a.dtype)
                }
            }
        }
    }
}
