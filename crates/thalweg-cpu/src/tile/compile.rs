//! Compilation of a body to the steps of a tile program: selection of loops, conversions, register allocation.

use super::folds::{Derived, Folder, Lane};
use super::lanes::{Code, Loop};
use super::program::{Folding, Pass, Register, Setting, Step, TILE, TileProgram, Value, Write, lay_out, width};
use super::{casts, floats, folds, ints};
use crate::math;
use crate::prepare::{Fused, contractions, prepare};
use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, LazyLock, Mutex};
use thalweg_ir::{Compute, DType, ElementOp, Monoid};
use thalweg_kernel::monoid::combination;
use thalweg_kernel::{AccessClass, Body, Node, NodeId, Store};

/// Compiles a map body for the tile engine; never fails.
pub fn compile(body: &Body) -> TileProgram {
    compile_with(body, body.operands)
}

/// Like [`compile`], for a body with operands that the driver added: only the first `operands` operands are those of a
/// launch.
pub fn compile_with(body: &Body, operands: u16) -> TileProgram {
    let body = prepare(body);
    let mut pass = compile_pass(&body, Level::Point);
    let bytes = lay_out(&mut [&mut pass]);
    TileProgram { pass, bytes, accesses: body.accesses, operands }
}

/// Compiles a prepared body. `row` is the level of values that are uniform in a row: [`Level::Row`] if a tile is within
/// one row, else [`Level::Point`].
pub(super) fn compile_pass(body: &Body, row: Level) -> Pass {
    let mut c = Compiler::new(body, row);
    for i in 0..body.nodes.len() {
        c.node(NodeId(i as u32));
    }
    c.folds();
    for s in &body.stores {
        c.store(s);
    }
    c.pass
}

/// Loop of a cast or bitcast node; `None` if the lanes already have the requested format.
fn converted(node: Node, from: DType, to: DType) -> Option<Loop> {
    if matches!(node, Node::Bitcast { .. }) { casts::bitcast(from, to) } else { casts::cast(from, to) }
}

/// Frequency at which a value is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    /// Once per call: the value is uniform over all points.
    Call,
    /// Once per row: the value is uniform in a row.
    Row,
    /// At each point.
    Point,
}

/// Selects the loop or vector math function of an operation whose arguments have this dtype.
fn code(op: ElementOp, dtype: DType) -> Code {
    let own = |l: Option<Loop>| l.map(Code::Loop);
    let code = match dtype.compute() {
        Compute::F32 => math::lanes::find_f32(op).map(Code::F32).or_else(|| own(floats::f32(op))),
        Compute::F64 => math::lanes::find_f64(op).map(Code::F64).or_else(|| own(floats::f64(op))),
        Compute::I32 | Compute::U32 | Compute::I64 | Compute::U64 => own(ints::int(op, dtype)),
        Compute::Mask => own(ints::bool(op)),
    };
    code.unwrap_or_else(|| panic!("{} on {dtype} is not an operation of the table", op.name()))
}

/// Cache of loops derived from the monoid table.
type DerivedCache = HashMap<(Monoid, DType), Arc<Derived>>;

/// Returns the reduction code of a monoid: the engine's native loops, or loops derived from its table row.
pub(crate) fn folder(op: Monoid, dtype: DType) -> Folder {
    static DERIVED: LazyLock<Mutex<DerivedCache>> = LazyLock::new(Mutex::default);
    match folds::own(op, dtype) {
        Some(own) => Folder::Own(own),
        None => {
            let mut known = DERIVED.lock().expect("nothing panics while it is held");
            Folder::Derived(known.entry((op, dtype)).or_insert_with(|| Arc::new(derived(op, dtype))).clone())
        }
    }
}

fn derived(op: Monoid, dtype: DType) -> Derived {
    let body = prepare(&combination(op, dtype, true));
    let lane = |(i, node): (usize, &Node)| {
        let id = NodeId(i as u32);
        match *node {
            Node::Value { slot, .. } => Lane::Given(slot),
            Node::Const { bits, dtype } => Lane::Bits(bits, width(dtype)),
            Node::Element { op, args, .. } => Lane::Apply(code(op, body.operand_dtype(id)), args.map(|a| a.index())),
            ref other => unreachable!("{other:?} is no operation on two partial results"),
        }
    };
    let lanes = body.nodes.iter().enumerate().map(lane).collect();
    Derived { lanes, result: body.sets[0].node.index(), width: width(dtype) }
}

/// Pseudo node index of a fold, as the last reader of a register. [`READ_BY_STORE`], that of a store, also marks an
/// argument that must not be read in place.
const READ_BY_FOLD: usize = usize::MAX - 1;
const READ_BY_STORE: usize = usize::MAX;

pub(super) struct Compiler<'a> {
    pub body: &'a Body,
    row: Level,
    pub pass: Pass,
    pub widths: Vec<usize>,
    pub free: Vec<Register>,
    /// Registers of the loop's values, in a loop iteration (`given`), and the register of the active lanes.
    given: Vec<Register>,
    pub active: Option<Register>,
    /// Register of each node so far; a conversion that changes nothing shares its argument's register.
    place: Vec<Register>,
    level: Vec<Level>,
    /// Registers of the results of each loop node compiled so far.
    looped: Vec<(NodeId, Vec<Register>)>,
    /// For each register, the last node that reads its current value.
    pub last: Vec<usize>,
    /// For each node, the last node that reads it, looking through conversions that share its register.
    pub readers: Vec<usize>,
    contractions: Contractions,
}

/// For each node, the fused multiply-add that it becomes by absorbing a product, if any: kind and operands.
type Contractions = Vec<Option<(Fused, [NodeId; 3])>>;

/// Nodes that a node reads: its arguments, and the operands of a fused multiply-add that it becomes.
fn reads(body: &Body, contractions: &Contractions, id: NodeId) -> Vec<NodeId> {
    let factors = contractions[id.index()].into_iter().flat_map(|(_, args)| args);
    body.args(id).chain(factors).collect()
}

impl<'a> Compiler<'a> {
    fn new(body: &'a Body, row: Level) -> Compiler<'a> {
        let n = body.nodes.len();
        let mut readers = vec![0; n];
        let read = body.folds.iter().map(|f| f.node).chain(body.sets.iter().map(|s| s.node));
        read.for_each(|id| readers[id.index()] = READ_BY_FOLD);
        for s in &body.stores {
            readers[s.node.index()] = READ_BY_STORE;
        }
        let contractions = contractions(body);
        // Backwards, so that readers of a shared register's later name count for the earlier one.
        for i in (0..n).rev() {
            for a in reads(body, &contractions, NodeId(i as u32)) {
                let shared = match body.nodes[i] {
                    n @ (Node::Cast { dtype, .. } | Node::Bitcast { dtype, .. }) => {
                        converted(n, body.dtype(a), dtype).is_none()
                    }
                    Node::Round { .. } => true,
                    _ => false,
                };
                let until = if shared { readers[i].max(i) } else { i };
                readers[a.index()] = readers[a.index()].max(until);
            }
        }
        Compiler {
            body,
            row,
            pass: Pass::default(),
            widths: vec![],
            free: vec![],
            given: vec![],
            active: None,
            place: vec![],
            level: vec![],
            looped: vec![],
            last: vec![],
            readers,
            contractions,
        }
    }

    /// Creates the compiler of a loop iteration, which takes over the register state; `given` are the registers of the
    /// iteration's values.
    pub(super) fn inside<'b>(&mut self, body: &'b Body, given: Vec<Register>) -> Compiler<'b> {
        Compiler {
            pass: Pass { steps: vec![], ..take(&mut self.pass) },
            widths: take(&mut self.widths),
            free: take(&mut self.free),
            last: take(&mut self.last),
            given,
            active: self.active,
            ..Compiler::new(body, self.row)
        }
    }

    /// Takes the register state back from the compiler of a loop iteration; `steps` are this compiler's own steps.
    pub(super) fn outside(&mut self, inner: Compiler<'_>, steps: Vec<Step>) {
        let Compiler { pass, widths, free, last, .. } = inner;
        (self.pass, self.widths, self.free, self.last) = (Pass { steps, ..pass }, widths, free, last);
    }

    pub(super) fn register(&self, id: NodeId) -> Register {
        self.place[id.index()]
    }

    /// Allocates a register for lanes of this many bytes, in use until node `last`.
    pub(super) fn allocate(&mut self, width: usize, last: usize, level: Level) -> Register {
        // Tiles must not overwrite a value computed once per call or row.
        let keep = level < Level::Point;
        let found = if keep { None } else { self.free.iter().rposition(|&r| self.widths[r as usize] == width) };
        if let Some(at) = found {
            let r = self.free.swap_remove(at);
            self.last[r as usize] = last;
            return r;
        }
        let bytes = if keep { &mut self.pass.bytes.0 } else { &mut self.pass.bytes.1 };
        self.pass.places.push((*bytes, keep));
        // Padded by a cache line, so that equal positions in different tiles do not share cache sets.
        *bytes += TILE * width + 64;
        self.widths.push(width);
        self.last.push(if keep { usize::MAX } else { last });
        self.last.len() as Register - 1
    }

    pub(super) fn push(&mut self, level: Level, step: Step) {
        match level {
            Level::Call => self.pass.hoisted.push(step),
            Level::Row => self.pass.row.push(step),
            Level::Point => self.pass.steps.push(step),
        }
    }

    /// Applies a loop to `from` and returns the register of the result; frees `from`.
    fn then(&mut self, run: Option<Loop>, from: Register, width: usize, last: usize, level: Level) -> Register {
        let Some(run) = run else { return from };
        let out = self.allocate(width, last, level);
        self.push(level, Step::Apply { code: Code::Loop(run), args: [from; 3], out });
        if level == Level::Point {
            self.free.push(from);
        }
        out
    }

    /// Frequency at which values that are read through an access change.
    fn access_level(&self, access: u16) -> Level {
        if self.body.accesses[access as usize].class == AccessClass::Uniform { self.row } else { Level::Point }
    }

    pub(super) fn node(&mut self, id: NodeId) {
        let (i, dtype) = (id.index(), self.body.dtype(id));
        let (w, last) = (width(dtype), self.readers[i]);
        let args: Vec<NodeId> = self.body.args(id).collect();
        let of_args = args.iter().map(|a| self.level[a.index()]).max().unwrap_or(Level::Call);
        let level = match self.body.nodes[i] {
            Node::Value { .. } if self.given.is_empty() => self.row,
            Node::Value { .. } | Node::Loop { .. } => Level::Point,
            Node::Load { access } | Node::Index { access, .. } | Node::Valid { access } => self.access_level(access),
            Node::Gather { access, .. } => of_args.max(self.access_level(access)),
            _ => of_args,
        };
        let out = match self.body.nodes[i] {
            Node::Load { access } => self.load(access, last, level),
            Node::Gather { access, offset, inside } => {
                let a = self.body.accesses[access as usize];
                assert!(a.class != AccessClass::Mapped, "what is gathered from is not mapped");
                let (offset, inside) = (self.register(offset), self.register(inside));
                let size = a.dtype.size();
                self.raw(a.dtype, last, level, |out| Step::Indexed { access, size, offset, inside, out })
            }
            Node::Index { access, .. } => {
                let out = self.allocate(w, last, level);
                self.push(level, Step::Index { access, wide: w == 8, out });
                out
            }
            Node::Valid { access } => {
                let out = self.allocate(w, last, level);
                self.push(level, Step::Valid { access, out });
                out
            }
            Node::Scanned { .. } | Node::Combined { .. } => {
                unreachable!("results of scans are loads in the phases of a body")
            }
            Node::Value { slot, .. } if !self.given.is_empty() => self.given[slot as usize],
            Node::Value { slot, .. } => self.fill(Value::Row(slot), w, level),
            Node::Scalar { slot, .. } => self.fill(Value::Scalar(slot), w, level),
            Node::Const { bits, .. } => self.fill(Value::Bits(bits), w, level),
            Node::Loop { of, .. } => {
                let args: Vec<Register> = args.iter().map(|a| self.register(*a)).collect();
                let carried = self.looped(id, of, &args);
                let first = carried[0];
                self.looped.push((id, carried));
                first
            }
            Node::Looped { of, number, .. } => {
                let known = self.looped.iter().find(|l| l.0 == of).expect("a loop comes before its results");
                known.1[number as usize]
            }
            // Narrow floats have been widened before, so f32 and f64 values are already rounded.
            Node::Round { arg } => self.register(arg),
            node @ (Node::Cast { arg, .. } | Node::Bitcast { arg, .. }) => {
                match converted(node, self.body.dtype(arg), dtype) {
                    None => self.register(arg),
                    Some(run) => {
                        let (from, out) = (self.register(arg), self.allocate(w, last, level));
                        self.push(level, Step::Apply { code: Code::Loop(run), args: [from; 3], out });
                        out
                    }
                }
            }
            Node::Element { op, .. } => {
                let operand = self.body.operand_dtype(id);
                let mut registers = [self.register(args[0]); 3];
                for (r, a) in registers.iter_mut().zip(&args) {
                    *r = self.place[a.index()];
                }
                let mut code = code(op, operand);
                if let Some((how, args)) = self.contractions[i] {
                    registers = args.map(|a| self.register(a));
                    code = Code::Loop(floats::fused(how, operand.compute() == Compute::F64));
                }
                let out = self.allocate(w, last, level);
                self.push(level, Step::Apply { code, args: registers, out });
                // Narrow floats have been widened before; only narrow integers still need wrapping.
                let after = if dtype.is_float() { None } else { casts::wrap(dtype).filter(|_| ints::may_leave(op)) };
                self.then(after, out, w, last, level)
            }
        };
        self.place.push(out);
        self.level.push(level);
        // Registers are freed only now, so a result never overlaps an argument.
        for a in reads(self.body, &self.contractions, id) {
            let r = self.register(a);
            let ends = self.last[r as usize] <= i && r != out && self.level[a.index()] == Level::Point;
            if ends && !self.free.contains(&r) && !self.given.contains(&r) {
                self.free.push(r);
            }
        }
    }

    pub(super) fn fill(&mut self, value: Value, width: usize, level: Level) -> Register {
        let out = self.allocate(width, usize::MAX, level);
        self.push(level, Step::Fill { value, width, out });
        out
    }

    fn load(&mut self, access: u16, last: usize, level: Level) -> Register {
        let a = self.body.accesses[access as usize];
        let (width, size) = (width(a.dtype), a.dtype.size());
        match a.class {
            AccessClass::Contiguous => {
                let (convert, out) = (casts::load(a.dtype), self.allocate(width, last, level));
                // A tile that is stored is copied even if it could be read in place: the output may be the input.
                let in_place = last != READ_BY_STORE;
                self.push(level, Step::Load { access, convert, size, width, in_place, out });
                out
            }
            AccessClass::Uniform => {
                let out = self.allocate(width, last, level);
                self.push(level, Step::Uniform { access, dtype: a.dtype, width, out });
                out
            }
            class @ (AccessClass::Strided | AccessClass::Reversed | AccessClass::Mapped) => {
                self.raw(a.dtype, last, level, |out| Step::Gather { access, size, class, out })
            }
        }
    }

    /// Adds a step that loads elements in their memory format, and their conversion to lanes.
    fn raw(&mut self, dtype: DType, last: usize, level: Level, step: impl Fn(Register) -> Step) -> Register {
        let out = self.allocate(width(dtype), last, level);
        let Some(convert) = casts::load(dtype) else {
            self.push(level, step(out));
            return out;
        };
        let raw = self.allocate(4, last, level);
        self.push(level, step(raw));
        self.push(level, Step::Apply { code: Code::Loop(convert), args: [raw; 3], out });
        if level == Level::Point {
            self.free.push(raw);
        }
        out
    }

    /// Compiles folds before stores: an output may overlap what they read in place.
    fn folds(&mut self) {
        for f in &self.body.folds {
            let dtype = self.body.dtype(f.node);
            let lanes = self.allocate(width(dtype), usize::MAX, Level::Row);
            let (code, value) = (folder(f.op, dtype), self.register(f.node));
            self.pass.steps.push(Step::Fold { value, code: code.clone(), lanes });
            let (identity, slot) = (f.op.identity(dtype), f.slot);
            self.pass.folds.push(Folding { identity, width: width(dtype), code, lanes, slot });
        }
        for s in &self.body.sets {
            self.pass.sets.push(Setting {
                value: self.register(s.node),
                width: width(self.body.dtype(s.node)),
                slot: s.slot,
            });
        }
    }

    fn store(&mut self, s: &Store) {
        let (a, dtype) = (self.body.accesses[s.access as usize], self.body.dtype(s.node));
        let write = match (s.combine, a.class) {
            (_, AccessClass::Mapped) => panic!("what is written is not mapped"),
            (Some(op), _) => Write::Combine(folder(op, dtype)),
            (None, AccessClass::Contiguous) => Write::Dense(casts::store(dtype)),
            (None, _) => {
                let size = dtype.size();
                let convert = (size != width(dtype)).then(|| {
                    let raw = self.allocate(4, usize::MAX, Level::Point);
                    self.free.push(raw);
                    (casts::store(dtype), raw)
                });
                Write::Apart { size, convert }
            }
        };
        let value = self.register(s.node);
        self.pass.steps.push(Step::Store { access: s.access, value, write });
    }
}
