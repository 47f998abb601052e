//! Assembler for the generic kernels (bytecode that `render/generic.cuh` interprets).
//!
//! In: bodies in order, and the use of a row's values between them. Out: words, each an instruction: its opcode, the
//! slot of its result, and up to three operands. A slot is the shared memory of one interpreter value. Operands are
//! slots or (from [`WORD`] on) kernel arguments, which all threads share. A slot is freed after the last use of its
//! value; values of a row keep their slots.
//!
//! Always true: the result is `None` where a body has an operation without an instruction, or does not fit.

use super::accesses::Described;
use crate::render::generic::{Code, Computes, WORDS, computed, has_instruction, number};
use rustc_hash::FxHashMap;
use thalweg_gpu::body::divisor;
use thalweg_gpu::kernels::generic::Width;
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::monoid::combination;
use thalweg_kernel::{Body, Fold, Node, NodeId, expand};

/// Operand code of kernel argument 0. Lower codes are slots; higher ones are the following kernel arguments.
const WORD: u32 = 0x800;

/// Maximum number of slots. A slot takes 2 KiB of a block's shared memory (16 bytes for each of 128 threads).
const SLOTS: usize = 40;

/// Assembler of the bytecode of one launch.
pub struct Assembler<'a> {
    width: Width,
    described: &'a Described<'a>,
    code: Vec<u64>,
    /// Constants, the first of which is kernel argument `constants_at`.
    constants: Vec<u64>,
    constants_at: usize,
    /// Kernel-argument index of the first scalar.
    scalars: usize,
    /// For each slot, whether it is in use.
    taken: Vec<bool>,
    /// Maximum number of slots in use at once, which sets the block's shared memory.
    most: usize,
    /// Slot of each value that phases of a row pass on (a fold's result or a set value), by the value's number.
    values: FxHashMap<u16, u32>,
    /// Whether the bytecode has a gather, whose index may be out of range.
    pub gathers: bool,
}

/// Encodes an instruction: its opcode (`number`), result slot (`to`), operands, dtype and number of arguments
/// (`arity`).
fn word(number: u16, to: u32, [a, b, c]: [u32; 3], dtype: DType, arity: u64) -> u64 {
    u64::from(number)
        | u64::from(to) << 10
        | u64::from(a) << 18
        | u64::from(b) << 30
        | u64::from(c) << 42
        | (dtype as u64) << 54
        | arity << 58
}

impl<'a> Assembler<'a> {
    /// Assembler of a launch whose `count` scalars begin at kernel argument `scalars`; constants and instructions
    /// follow them.
    pub fn new(width: Width, described: &'a Described<'a>, scalars: usize, count: usize) -> Assembler<'a> {
        let constants_at = scalars + count;
        Assembler {
            width,
            described,
            code: vec![],
            constants: vec![],
            constants_at,
            scalars,
            taken: vec![],
            most: 0,
            values: FxHashMap::default(),
            gathers: false,
        }
    }

    /// Appends an instruction of [`Code`].
    pub fn control(&mut self, code: Code, to: u32, operands: [u32; 2], dtype: DType) {
        self.code.push(word(code as u16, to, [operands[0], operands[1], 0], dtype, 0));
    }

    /// Opcode of an operation; `None` if the kernel of this width does not have it.
    fn number(&self, of: Computes) -> Option<u16> {
        number(of).filter(|_| has_instruction(self.width, of))
    }

    fn take(&mut self) -> Option<u32> {
        let free = self.taken.iter().position(|t| !t).unwrap_or(self.taken.len());
        if free == self.taken.len() {
            self.taken.push(false);
        }
        self.taken[free] = true;
        self.most = self.most.max(free + 1);
        (free < SLOTS).then_some(free as u32)
    }

    fn free(&mut self, slot: u32) {
        self.taken[slot as usize] = false;
    }

    /// Operand code of a constant, given by its bits in a register. A new constant becomes another kernel argument.
    fn constant(&mut self, bits: u64) -> u32 {
        let at = self.constants.iter().position(|&c| c == bits).unwrap_or_else(|| {
            self.constants.push(bits);
            self.constants.len() - 1
        });
        WORD + (self.constants_at + at) as u32
    }

    /// Assembles a phase: a pass over the points of rows, or (`once`) a computation that runs once a row. `deep` is the
    /// number of threads per row. Results of folds stay in the slots of their values.
    pub fn phase(&mut self, body: &Body, once: bool, deep: u32) -> Option<()> {
        let body = &expand(body, &crate::render::elements::is_native);
        if once {
            self.control(Code::Once, 0, [0; 2], DType::F32);
            self.points(body, &[])?;
            return Some(());
        }
        let mut partials = vec![];
        for fold in &body.folds {
            let dtype = body.dtype(fold.node);
            let identity = self.constant(fold.op.row().identity[0](dtype).to_bits(dtype));
            let slot = self.take()?;
            self.code.push(word(Code::Move as u16, slot, [identity; 3], DType::F32, 1));
            partials.push(slot);
        }
        let begin = self.code.len();
        self.control(Code::Loop, 0, [0; 2], DType::F32);
        self.points(body, &partials)?;
        // Jump targets are relative to the first instruction, whose argument index is not known yet.
        self.control(Code::EndLoop, 0, [begin as u32 + 1, 0], DType::F32);
        self.code[begin] = word(Code::Loop as u16, 0, [self.code.len() as u32, 0, 0], DType::F32, 0);
        for (fold, &partial) in body.folds.iter().zip(&partials) {
            self.fold(body, fold, partial, deep)?;
        }
        Some(())
    }

    /// Emits the reduction of a row's partial results: over the row's `deep` threads by a butterfly, then over lanes.
    /// All threads get the result.
    fn fold(&mut self, body: &Body, fold: &Fold, partial: u32, deep: u32) -> Option<()> {
        let other = self.take()?;
        let mut distance = deep / 2;
        while distance > 0 {
            self.control(Code::Partner, other, [partial, distance], DType::F32);
            self.combine(fold.op, body.dtype(fold.node), partial, other)?;
            distance /= 2;
        }
        let mut lanes = self.width.lanes() as u32 / 2;
        while lanes > 0 {
            self.control(Code::Rotate, other, [partial, lanes], DType::F32);
            self.combine(fold.op, body.dtype(fold.node), partial, other)?;
            lanes /= 2;
        }
        self.free(other);
        // A slot other than the partial result's, which other threads may still read.
        let value = self.take()?;
        self.control(Code::Broadcast, value, [partial, 0], DType::F32);
        self.values.insert(fold.slot, value);
        Some(())
    }

    /// Emits the instructions that combine slot `other` into the partial result `partial`, in lanes whose point exists.
    fn combine(&mut self, op: Monoid, dtype: DType, partial: u32, other: u32) -> Option<()> {
        let body = expand(&combination(op, dtype, false), &crate::render::elements::is_native);
        let given = |node: &Node| match *node {
            Node::Value { slot: 0, .. } => Some(partial),
            Node::Value { .. } => Some(other),
            _ => None,
        };
        let nodes = self.nodes(&body, &given)?;
        let result = nodes.operand(body.sets[0].node);
        self.control(Code::Commit, partial, [result, 0], DType::F32);
        nodes.free_all(self);
        Some(())
    }

    /// Assembles the computation of a point: its nodes, stores, sets and folds.
    fn points(&mut self, body: &Body, partials: &[u32]) -> Option<()> {
        let nodes = self.nodes(body, &|_| None)?;
        for store in &body.stores {
            if store.combine.is_some() {
                return None;
            }
            let access = self.described.of(store.access)?;
            let from = nodes.operand(store.node);
            self.code.push(word(Code::Store as u16, 0, [from, 0, access], DType::F32, 0));
        }
        for (fold, &partial) in body.folds.iter().zip(partials) {
            let from = nodes.operand(fold.node);
            self.combine(fold.op, body.dtype(fold.node), partial, from)?;
        }
        for set in &body.sets {
            let slot = self.take()?;
            let from = nodes.operand(set.node);
            self.code.push(word(Code::Move as u16, slot, [from; 3], DType::F32, 1));
            self.values.insert(set.slot, slot);
        }
        nodes.free_all(self);
        Some(())
    }

    /// Emits the computation of a body's nodes. The results are operands, which are slots or kernel arguments. `given`
    /// returns the operand of a node that already has one.
    fn nodes(&mut self, body: &Body, given: &dyn Fn(&Node) -> Option<u32>) -> Option<Nodes> {
        let mut last = vec![0usize; body.nodes.len()];
        for i in 0..body.nodes.len() {
            body.args(NodeId(i as u32)).for_each(|a| last[a.index()] = i);
        }
        body.roots().for_each(|r| last[r.index()] = usize::MAX);
        let mut nodes = Nodes { at: vec![0; body.nodes.len()], owner: vec![], last };
        for (i, node) in body.nodes.iter().enumerate() {
            let id = NodeId(i as u32);
            if let Some(operand) = given(node) {
                nodes.at[i] = operand;
                continue;
            }
            match self.node(body, id, &mut nodes)? {
                NodeSource::Is(operand) => nodes.at[i] = operand,
                // Shares its argument's slot, as long as either is needed.
                NodeSource::Same(of) => nodes.alias(id, of),
                NodeSource::By(number, operands, dtype, arity) => {
                    // Arguments without later uses free their slots for the result.
                    nodes.release(i, self);
                    let slot = self.take()?;
                    self.code.push(word(number, slot, operands, dtype, arity));
                    nodes.own(id, slot);
                }
            }
            nodes.release(i, self);
        }
        Some(nodes)
    }

    fn node(&mut self, body: &Body, id: NodeId, nodes: &mut Nodes) -> Option<NodeSource> {
        let through = |code: Code, access: u16, assembler: &Assembler<'_>, [a, b]: [u32; 2]| {
            let access = assembler.described.of(access)?;
            Some(NodeSource::By(code as u16, [a, b, access], DType::F32, 0))
        };
        Some(match body.nodes[id.index()] {
            Node::Load { access } => through(Code::Load, access, self, [0; 2])?,
            Node::Index { access, .. } => through(Code::Index, access, self, [0; 2])?,
            Node::Valid { access } => through(Code::Valid, access, self, [0; 2])?,
            Node::Gather { access, offset, inside } => {
                self.gathers = true;
                through(Code::Gather, access, self, [offset, inside].map(|n| nodes.operand(n)))?
            }
            Node::Scalar { slot, .. } => NodeSource::Is(WORD + (self.scalars + slot as usize) as u32),
            Node::Const { bits, .. } => NodeSource::Is(self.constant(bits)),
            Node::Value { slot, .. } => NodeSource::Is(*self.values.get(&slot)?),
            Node::Element { op, dtype, .. } => {
                let of = body.operand_dtype(id);
                let mut operands = [0; 3];
                body.args(id).zip(&mut operands).for_each(|(a, o)| *o = nodes.operand(a));
                if divisor(body, &body.nodes[id.index()]).is_some() {
                    // Same bits as compiled kernels, which multiply by the reciprocal of a number.
                    let one = Scalar::Float(1.0).to_bits(of);
                    let (one, inverse) = (self.constant(one), self.take()?);
                    let [divide, multiply] =
                        [ElementOp::Div, ElementOp::Mul].map(|op| self.number(Computes::Element(op, computed(of))));
                    self.code.push(word(divide?, inverse, [one, operands[1], operands[1]], dtype, 2));
                    self.free(inverse);
                    return Some(NodeSource::By(multiply?, [operands[0], inverse, inverse], dtype, 2));
                }
                let arity = op.row().arity as u64;
                if op == ElementOp::Where {
                    NodeSource::By(Code::Where as u16, operands, DType::F32, arity)
                } else {
                    let number = self.number(Computes::Element(op, computed(of)))?;
                    // The dtype to which the result is wrapped, for integers narrower than i32.
                    NodeSource::By(number, operands, dtype, arity)
                }
            }
            Node::Cast { dtype, arg } => {
                let from = body.dtype(arg);
                if is_same(from, dtype) {
                    return Some(NodeSource::Same(arg));
                }
                let from = if from == DType::Bool { DType::I32 } else { computed(from) };
                let number = self.number(Computes::Cast(from, dtype))?;
                NodeSource::By(number, [nodes.operand(arg); 3], DType::F32, 1)
            }
            // Nothing is contracted here, and narrow floats have been widened before.
            Node::Round { arg } => NodeSource::Same(arg),
            Node::Bitcast { .. }
            | Node::Loop { .. }
            | Node::Looped { .. }
            | Node::Scanned { .. }
            | Node::Combined { .. } => return None,
        })
    }

    /// Emits the instruction that stores a row's value to its chunk's partial results; `address` is the index of the
    /// kernel argument with their address.
    pub fn partial(&mut self, slot: u16, dtype: DType, address: usize) -> Option<()> {
        let value = *self.values.get(&slot)?;
        self.control(Code::Partial, 0, [value, address as u32], dtype);
        Some(())
    }

    /// Returns the constants and instructions, which are kernel arguments after the scalars; the index of the first
    /// instruction among all arguments; and the number of slots.
    pub fn finish(mut self) -> Option<(Vec<u64>, usize, usize)> {
        self.control(Code::End, 0, [0; 2], DType::F32);
        let begin = self.constants_at + self.constants.len();
        if begin + self.code.len() > WORDS {
            return None;
        }
        for code in &mut self.code {
            if matches!(*code & 1023, c if c == Code::Loop as u64 || c == Code::EndLoop as u64) {
                *code += (begin as u64) << 18;
            }
        }
        let mut words = self.constants;
        words.extend(self.code);
        Some((words, begin, self.most.max(1)))
    }
}

/// Whether a value of one dtype is represented like that of another one, with the same meaning.
fn is_same(from: DType, to: DType) -> bool {
    use DType::{BF16, Bool, F16, F32, I8, I16, I32, U8, U32};
    from == to
        || matches!(
            (from, to),
            (BF16 | F16, F32)
                | (Bool, I8 | I16 | I32 | U8 | U32)
                | (I8 | I16 | U8 | U32, I32)
                | (I8 | I16 | U8 | I32, U32)
        )
}

/// Location of a node's value, or the instruction that computes it.
enum NodeSource {
    /// Operand (slot or kernel argument) that already has the value.
    Is(u32),
    /// Another node with the same value, whose slot is shared.
    Same(NodeId),
    /// Instruction that computes it: opcode, operands, dtype, number of arguments.
    By(u16, [u32; 3], DType, u64),
}

/// Slot allocation of a body's nodes: a slot is freed after the last use of all nodes in it.
struct Nodes {
    /// Operand of each node, by node index.
    at: Vec<u32>,
    /// Slots in use, each with the nodes whose value it holds.
    owner: Vec<(u32, Vec<NodeId>)>,
    /// Index of the last node that uses each node.
    last: Vec<usize>,
}

impl Nodes {
    fn operand(&self, id: NodeId) -> u32 {
        self.at[id.index()]
    }

    fn own(&mut self, id: NodeId, slot: u32) {
        self.at[id.index()] = slot;
        self.owner.push((slot, vec![id]));
    }

    fn alias(&mut self, id: NodeId, of: NodeId) {
        self.at[id.index()] = self.at[of.index()];
        if let Some(owner) = self.owner.iter_mut().find(|o| o.1.contains(&of)) {
            owner.1.push(id);
        }
    }

    /// Frees the slots of values that no node after node `node` uses.
    fn release(&mut self, node: usize, assembler: &mut Assembler<'_>) {
        let last = &self.last;
        self.owner.retain(|(slot, ids)| {
            let dead = ids.iter().all(|id| last[id.index()] <= node);
            if dead {
                assembler.free(*slot);
            }
            !dead
        });
    }

    fn free_all(self, assembler: &mut Assembler<'_>) {
        self.owner.iter().for_each(|(slot, _)| assembler.free(*slot));
    }
}
