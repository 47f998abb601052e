//! Subgraph of a segment as a segment of its own.

use crate::segment::{BitSet, Indexed, OwnedSegment, Segment, ValueId};
use thalweg_ir::{Arg, DType, InputKind, RelArg, View};

/// Subgraph: some operations of a segment. Values that they read from outside are its inputs.
#[derive(Clone, Debug)]
pub struct Subgraph {
    /// Operations; no result is live. Its scalars are those of the original segment.
    pub segment: OwnedSegment,
    /// Index of each operation in the original segment, ascending.
    pub from: Vec<u32>,
    /// Value of the original segment that each input stands for.
    pub inputs: Vec<ValueId>,
    /// Index of each scalar in the original segment.
    pub scalars: Vec<u32>,
    /// Offset of each operation's integers, plus the end.
    pub ints: Vec<u32>,
    /// Offset of each operation's scalars, plus the end.
    pub scalars_at: Vec<u32>,
}

impl Subgraph {
    /// Subgraph of the operations in `ops`, in order. Results that become inputs are assumed row-major.
    pub fn of(segment: Segment<'_>, ops: &BitSet) -> Subgraph {
        let ix = Indexed::new(segment);
        let mut out = Subgraph {
            segment: OwnedSegment {
                ops: vec![],
                live: BitSet::default(),
                mode: segment.mode,
                shapes: vec![],
                ints: vec![],
                scalars: vec![],
                inputs: vec![],
            },
            from: vec![],
            inputs: vec![],
            scalars: vec![],
            ints: vec![0],
            scalars_at: vec![0],
        };
        for i in ops.iter() {
            let mut rel = segment.ops[i];
            for (n, to) in rel.args.iter_mut().enumerate() {
                match segment.ops[i].args[n].decode() {
                    Arg::Op(o) => {
                        *to = match out.from.binary_search(&(o as u32)) {
                            Ok(at) => RelArg::op(at),
                            Err(_) => {
                                let lies = (segment.ops[o].dtype, View::contiguous(segment.shapes[o]));
                                out.input(ValueId::Op(o), lies)
                            }
                        }
                    }
                    Arg::Input(o) => *to = out.input(ValueId::Input(o), segment.inputs[o]),
                    Arg::Scalar => out.scalars.push(ix.scalar(i, n) as u32),
                    Arg::None => {}
                }
            }
            out.from.push(i as u32);
            out.segment.ops.push(rel);
            out.segment.shapes.push(segment.shapes[i]);
            out.segment.ints.extend(ix.ints(i));
            out.ints.push(out.segment.ints.len() as u32);
            out.scalars_at.push(out.scalars.len() as u32);
        }
        out.segment.scalars = out.scalars.iter().map(|&s| segment.scalars[s as usize]).collect();
        out.segment.live = BitSet::new(out.from.len());
        out
    }

    fn input(&mut self, from: ValueId, (dtype, view): (DType, View)) -> RelArg {
        let number = self.inputs.iter().position(|v| *v == from).unwrap_or_else(|| {
            self.inputs.push(from);
            self.segment.inputs.push((dtype, view));
            self.inputs.len() - 1
        });
        let kind = InputKind { dtype, rank: view.shape.rank(), contiguous: view.is_contiguous() };
        RelArg::input(number, kind)
    }

    /// Index in the subgraph of an operation of the original segment; `None` if it is not in the subgraph.
    pub fn place(&self, operation: usize) -> Option<usize> {
        self.from.binary_search(&(operation as u32)).ok()
    }

    /// Operation `at` and its ancestors; and the inputs that any of them reads. Ancestors for which `there` holds are
    /// left out, as are ancestors and inputs reached only through them.
    pub fn needed(&self, at: usize, there: impl Fn(usize) -> bool) -> (BitSet, BitSet) {
        let mut ops = BitSet::new(self.from.len());
        let mut inputs = BitSet::new(self.inputs.len());
        ops.insert(at);
        let mut waiting = vec![at];
        while let Some(i) = waiting.pop() {
            for arg in self.segment.ops[i].args() {
                match arg {
                    Arg::Op(o) if !ops.has(o) && !there(o) => {
                        ops.insert(o);
                        waiting.push(o);
                    }
                    Arg::Input(n) => inputs.insert(n),
                    _ => {}
                }
            }
        }
        (ops, inputs)
    }
}
