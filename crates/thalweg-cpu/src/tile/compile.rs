//! From a body to the steps of a tile program: choice of loops, conversions, registers.

use super::lanes::Loop;
use super::program::{Code, Register, Step, TILE, TileProgram, Value};
use super::{casts, floats, ints};
use crate::math;
use crate::prepare::prepare;
use thalweg_ir::{Compute, DType, ElementOp};
use thalweg_kernel::{AccessClass, Body, Node, NodeId};

/// Compiles a body; there is none that it refuses.
pub fn compile(body: &Body) -> TileProgram {
    let body = prepare(body);
    let mut c = Compiler::new(&body);
    for i in 0..body.nodes.len() {
        c.node(NodeId(i as u32));
    }
    for s in &body.stores {
        let run = casts::store(body.dtype(s.node));
        let value = c.register(s.node);
        c.steps.push(Step::Store { access: s.access, value, run });
    }
    TileProgram {
        hoisted: c.hoisted,
        steps: c.steps,
        offsets: c.offsets,
        bytes: c.bytes,
        accesses: body.accesses.clone(),
    }
}

/// Bytes of a lane.
pub(super) fn width(dtype: DType) -> usize {
    match dtype.compute() {
        Compute::F64 | Compute::I64 => 8,
        Compute::F32 | Compute::I32 | Compute::U32 => 4,
        Compute::Mask => 1,
    }
}

/// The loop of an operation whose arguments have the dtype.
fn code(op: ElementOp, dtype: DType) -> Code {
    let own = |l: Option<Loop>| l.map(Code::Loop);
    let code = match dtype.compute() {
        Compute::F32 => math::lanes::find_f32(op).map(Code::F32).or_else(|| own(floats::f32(op))),
        Compute::F64 => math::lanes::find_f64(op).map(Code::F64).or_else(|| own(floats::f64(op))),
        Compute::I32 | Compute::U32 | Compute::I64 => own(ints::int(op, dtype)),
        Compute::Mask => own(ints::bool(op)),
    };
    code.unwrap_or_else(|| panic!("{} on {dtype} is not an operation of the table", op.name()))
}

struct Compiler<'a> {
    body: &'a Body,
    hoisted: Vec<Step>,
    steps: Vec<Step>,
    /// Byte offset of each register's tile.
    offsets: Vec<usize>,
    widths: Vec<usize>,
    bytes: usize,
    free: Vec<Register>,
    /// Register of each node so far; a conversion that changes nothing shares its argument's.
    place: Vec<Register>,
    /// Whether each node so far is the same for all points.
    constant: Vec<bool>,
    /// For each register, the last node that reads it (as of what is known to live in it now).
    last: Vec<usize>,
    /// For each node, the last node that reads it, conversions looked through.
    readers: Vec<usize>,
}

impl<'a> Compiler<'a> {
    fn new(body: &'a Body) -> Compiler<'a> {
        let n = body.nodes.len();
        let mut readers = vec![0; n];
        for s in &body.stores {
            readers[s.node.index()] = usize::MAX;
        }
        // Backwards, so that what reads a shared register's later name counts for the earlier one.
        for i in (0..n).rev() {
            for a in body.args(NodeId(i as u32)) {
                let shared =
                    matches!(body.nodes[i], Node::Cast { dtype, .. } if casts::cast(body.dtype(a), dtype).is_none());
                let until = if shared { readers[i].max(i) } else { i };
                readers[a.index()] = readers[a.index()].max(until);
            }
        }
        Compiler {
            body,
            hoisted: vec![],
            steps: vec![],
            offsets: vec![],
            widths: vec![],
            bytes: 0,
            free: vec![],
            place: vec![],
            constant: vec![],
            last: vec![],
            readers,
        }
    }

    fn register(&self, id: NodeId) -> Register {
        self.place[id.index()]
    }

    /// A register for lanes of this many bytes, in use until `last`.
    fn allocate(&mut self, width: usize, last: usize, keep: bool) -> Register {
        // What is computed once for a call must not be overwritten by its tiles.
        let found = if keep { None } else { self.free.iter().rposition(|&r| self.widths[r as usize] == width) };
        if let Some(at) = found {
            let r = self.free.swap_remove(at);
            self.last[r as usize] = last;
            return r;
        }
        self.offsets.push(self.bytes);
        self.widths.push(width);
        self.last.push(if keep { usize::MAX } else { last });
        // A line apart, so that equal positions in different tiles do not share cache sets.
        self.bytes += TILE * width + 64;
        self.offsets.len() as Register - 1
    }

    fn push(&mut self, constant: bool, step: Step) {
        if constant { self.hoisted.push(step) } else { self.steps.push(step) }
    }

    /// Applies a loop to what is in `from` and gives the register of the result; `from` is given back.
    fn then(&mut self, run: Option<Loop>, from: Register, width: usize, last: usize, constant: bool) -> Register {
        let Some(run) = run else { return from };
        let out = self.allocate(width, last, constant);
        self.push(constant, Step::Apply { code: Code::Loop(run), args: [from; 3], out });
        if !constant {
            self.free.push(from);
        }
        out
    }

    fn node(&mut self, id: NodeId) {
        let (i, dtype) = (id.index(), self.body.dtype(id));
        let (w, last) = (width(dtype), self.readers[i]);
        let args: Vec<NodeId> = self.body.args(id).collect();
        let constant = match self.body.nodes[i] {
            Node::Const { .. } | Node::Scalar { .. } => true,
            Node::Element { .. } | Node::Cast { .. } => args.iter().all(|a| self.constant[a.index()]),
            _ => false,
        };
        let out = match self.body.nodes[i] {
            Node::Load { access } => self.load(access, last),
            Node::Index { access, .. } => {
                let out = self.allocate(w, last, false);
                self.steps.push(Step::Index { access, wide: w == 8, out });
                out
            }
            Node::Valid { access } => {
                let out = self.allocate(w, last, false);
                self.steps.push(Step::Valid { access, out });
                out
            }
            Node::Value { .. } | Node::Scanned { .. } | Node::Gather { .. } => unimplemented!("rows"),
            Node::Scalar { slot, .. } => self.fill(Value::Scalar(slot), w),
            Node::Const { bits, .. } => self.fill(Value::Bits(bits), w),
            Node::Cast { arg, .. } => match casts::cast(self.body.dtype(arg), dtype) {
                None => self.register(arg),
                Some(run) => {
                    let (from, out) = (self.register(arg), self.allocate(w, last, constant));
                    self.push(constant, Step::Apply { code: Code::Loop(run), args: [from; 3], out });
                    out
                }
            },
            Node::Element { op, .. } => {
                let operand = self.body.operand_dtype(id);
                let code = code(op, operand);
                let mut registers = [self.register(args[0]); 3];
                for (r, a) in registers.iter_mut().zip(&args) {
                    *r = self.place[a.index()];
                }
                let out = self.allocate(w, last, constant);
                self.push(constant, Step::Apply { code, args: registers, out });
                // Narrow floats have been widened before; what is left to mend are narrow integers.
                let after = if dtype.is_float() { None } else { casts::wrap(dtype).filter(|_| ints::may_leave(op)) };
                self.then(after, out, w, last, constant)
            }
        };
        self.place.push(out);
        self.constant.push(constant);
        // Registers are freed only now: a result never lies over an argument.
        for a in args {
            let r = self.register(a);
            let ends = self.last[r as usize] <= i && r != out && !self.constant[a.index()];
            if ends && !self.free.contains(&r) {
                self.free.push(r);
            }
        }
    }

    fn fill(&mut self, value: Value, width: usize) -> Register {
        let out = self.allocate(width, usize::MAX, true);
        self.hoisted.push(Step::Fill { value, width, out });
        out
    }

    fn load(&mut self, access: u16, last: usize) -> Register {
        let a = self.body.accesses[access as usize];
        let (w, convert) = (width(a.dtype), casts::load(a.dtype));
        let out = self.allocate(w, last, false);
        let step = match a.class {
            // A stored tile is copied even where it could be read in place: the output may be the input.
            AccessClass::Contiguous => {
                Step::Load { access, convert, size: a.dtype.size(), width: w, in_place: last != usize::MAX, out }
            }
            AccessClass::Uniform => Step::Uniform { access, dtype: a.dtype, width: w, out },
            AccessClass::Strided | AccessClass::Mapped if convert.is_none() => {
                Step::Gather { access, size: w, class: a.class, out }
            }
            AccessClass::Strided | AccessClass::Mapped => {
                let raw = self.allocate(4, last, false);
                self.steps.push(Step::Gather { access, size: a.dtype.size(), class: a.class, out: raw });
                self.free.push(raw);
                Step::Apply { code: Code::Loop(convert.expect("just checked")), args: [raw; 3], out }
            }
        };
        self.steps.push(step);
        out
    }
}
