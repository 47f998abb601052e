//! Traces of kernels: a list of operations on operands and constants, in SSA form.
//!
//! A call on tensors opens a trace on its thread, calls the kernel once on [`Traced`] numbers, which append their
//! operations, and closes it. Always true: a number is only used in its own trace.

use super::repr::{Edge, LoopTracer, Repr, TileOp};
use std::cell::RefCell;
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
use thalweg_kernel::Along;

/// Maximum number of operations in a trace; beyond it, a loop has been unrolled that should not be.
const MAX_OPERATIONS: usize = 1 << 14;

/// Traced number: the elements of a tensor during a call on tensors, as the index of a node of the trace.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    trace: u32,
    node: u32,
}

/// Type of a node's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Float of the kernel's dtype.
    Float,
    /// Integer, an i32.
    Int,
    /// Truth value, a bool.
    Mask,
}

/// Kind of an operand in a kernel's signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// An `F`.
    Number,
    /// An `i32`.
    Int,
    /// A `bool`.
    Mask,
    /// A `Field` of that many dimensions.
    Field(usize),
    /// A `Row`.
    Row,
    /// A `Tile` of floats.
    Tile,
    /// A `Tile` of `i32`.
    IntTile,
    /// A `Tile` of `bool`.
    MaskTile,
}

impl Take {
    /// Whether the operand is a tile.
    pub fn is_tile(self) -> bool {
        matches!(self, Take::Tile | Take::IntTile | Take::MaskTile)
    }

    /// The dtype of the operand, in a call of that float dtype.
    pub(super) fn dtype(self, float: DType) -> DType {
        match self {
            Take::Number | Take::Field(_) | Take::Row | Take::Tile => float,
            Take::Int | Take::IntTile => DType::I32,
            Take::Mask | Take::MaskTile => DType::Bool,
        }
    }

    /// Whether the operand has the kernel's float dtype.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Take::Number | Take::Field(_) | Take::Row | Take::Tile)
    }
}

/// Node of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    /// Operand of the kernel, by its number.
    Operand(usize),
    /// Constant.
    Constant(Scalar),
    /// An operation on arguments of kind `of`; [`ElementOp::Where`] has a truth value as its first argument.
    Op { op: ElementOp, of: Kind, args: [u32; 3] },
    /// Conversion of a value to the node's kind.
    Cast(u32),
    /// Index of the result's element along an axis.
    Place(usize),
    /// Read of a field's element, by the number of the read.
    Read(u32),
    /// A carried value of loop `of`, at the start of an iteration.
    Carried { of: u32 },
    /// A component of one operand of the combine of fold or scan `of`.
    Side { of: u32, number: u32, after: bool },
    /// Component `number` of the result of fold or scan `of`.
    Combined { of: u32, number: u32 },
    /// Result of an operation on whole tiles, by the number of the operation.
    Tile(u32),
    /// Carried value `number` of loop `of` after its last iteration.
    Looped { of: u32, number: u32 },
}

/// Loop with a data-dependent end.
pub(super) struct TracedLoop {
    /// Maximum number of iterations.
    pub most: u32,
    /// Nesting depth: the number of loops around it.
    pub depth: usize,
    /// Nodes of the carried values before the loop.
    pub first: Vec<u32>,
    /// Nodes of the carried values at the start of an iteration.
    pub carried: Vec<u32>,
    /// Node of the condition for another iteration.
    pub go: u32,
    /// Nodes of the carried values at the end of an iteration.
    pub next: Vec<u32>,
    /// All nodes that the loop depends on.
    needs: Vec<u32>,
}

/// Fold or scan of rows, or of tiles along an axis.
pub(super) struct TracedCombined {
    pub along: Along,
    /// For a tile, the axis of the fold, and the tile's sizes; `None` for rows.
    pub tile: Option<(usize, [usize; 2])>,
    /// Nodes of the components of an element.
    pub elements: Vec<u32>,
    /// Nodes of the components of the identity, for a fold.
    pub identity: Vec<u32>,
    /// Nodes of the components of two combined partial results.
    pub next: Vec<u32>,
}

/// Read of an element of a field.
pub(super) struct Read {
    /// Index of the operand, which is a field.
    pub operand: usize,
    /// Nodes of the index along each axis of the operand.
    pub at: Vec<u32>,
    pub edge: Edge,
}

/// Traced field: the operand, and its sizes.
#[derive(Clone, Debug)]
pub struct TracedField {
    pub(super) operand: usize,
    pub(super) sizes: Vec<usize>,
}

/// Trace of a kernel call.
pub(super) struct Trace {
    name: &'static str,
    number: u32,
    /// Nodes in the order of the kernel, with their kinds.
    pub nodes: Vec<(Node, Kind)>,
    pub reads: Vec<Read>,
    pub loops: Vec<TracedLoop>,
    /// Folds and scans of rows.
    pub combined: Vec<TracedCombined>,
    /// Operations on whole tiles.
    pub tiles: Vec<TileOp<u32>>,
    /// Axis of the rows in a row kernel; `None` in other kernels.
    pub axis: Option<usize>,
    /// Number of open loops.
    inside: usize,
    /// Open branches within the innermost loop: conditions, and whether they are true in the branch.
    under: Vec<(Traced, bool)>,
    /// Whether operations were dropped, because the trace is full.
    full: bool,
}

thread_local! {
    /// Open traces of this thread: a kernel may call another one on tensors.
    static OPEN: RefCell<(u32, Vec<Trace>)> = const { RefCell::new((0, Vec::new())) };
}

/// Guard of an open trace; closes it also when a panic unwinds.
pub(super) struct Open(u32);

impl Open {
    /// Opens a trace.
    pub fn new(name: &'static str) -> Open {
        OPEN.with_borrow_mut(|(next, open)| {
            *next = next.wrapping_add(1);
            let nodes = Vec::with_capacity(64);
            let (reads, loops, combined, tiles, under) = (vec![], vec![], vec![], vec![], vec![]);
            let number = *next;
            let (axis, inside, full) = (None, 0, false);
            open.push(Trace { name, number, nodes, reads, loops, combined, tiles, axis, inside, under, full });
            Open(*next)
        })
    }

    /// Appends operand `i` to the trace; returns it as a traced number.
    pub fn operand(&self, i: usize, kind: Kind) -> Traced {
        push(Node::Operand(i), kind)
    }

    /// Sets the axis of the rows in the open trace.
    pub fn set_row_axis(&self, axis: usize) {
        with_last(|t| t.axis = Some(axis));
    }

    /// Appends the result's index along an axis to the trace; returns it as a traced number.
    pub fn place(&self, axis: usize) -> Traced {
        push(Node::Place(axis), Kind::Int)
    }

    /// Closes the trace and returns it.
    pub fn close(self) -> Trace {
        let trace = OPEN.with_borrow_mut(|(_, open)| open.pop());
        let trace = trace.filter(|t| t.number == self.0).expect("traces close in the order in which they open");
        std::mem::forget(self);
        trace
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.with_borrow_mut(|(_, open)| open.retain(|t| t.number < self.0));
    }
}

impl Trace {
    /// Checks that the trace is complete.
    ///
    /// # Panics
    /// When it had too many operations.
    #[track_caller]
    pub fn check(&self) {
        if self.full {
            panic!("{}: more than {MAX_OPERATIONS} operations; a `for` over so many turns is unrolled", self.name);
        }
    }

    /// Index of the node of a traced number.
    #[track_caller]
    pub fn place(&self, x: Traced) -> usize {
        assert!(x.trace == self.number, "{}: a result is a number of another call", self.name);
        x.node as usize
    }

    /// The arguments of a node; for a result of a loop all nodes that the loop depends on.
    pub fn args(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        let mut at: &[u32] = &[];
        let (args, n) = match self.nodes[i].0 {
            Node::Operand(_) | Node::Constant(_) | Node::Place(_) | Node::Carried { .. } | Node::Side { .. } => {
                ([0; 3], 0)
            }
            Node::Looped { of, .. } => {
                at = &self.loops[of as usize].needs;
                ([0; 3], 0)
            }
            Node::Combined { of, .. } => {
                at = &self.combined[of as usize].elements;
                ([0; 3], 0)
            }
            Node::Op { op, args, .. } => (args, op.row().arity),
            Node::Tile(of) => match self.tiles[of as usize] {
                TileOp::Dot { x, y, .. } => ([x, y, 0], 2),
                TileOp::Transposed { x } | TileOp::Reduced { x, .. } => ([x, 0, 0], 1),
                TileOp::Place { .. } => ([0; 3], 0),
            },
            Node::Cast(x) => ([x, 0, 0], 1),
            Node::Read(r) => {
                at = &self.reads[r as usize].at;
                ([0; 3], 0)
            }
        };
        args.into_iter().take(n).chain(at.iter().copied()).map(|a| a as usize)
    }
}

fn push(node: Node, kind: Kind) -> Traced {
    push_from(&[], |_| node, kind)
}

/// Appends a node with these arguments.
fn push_from(args: &[Traced], node: impl FnOnce(&[Traced]) -> Node, kind: Kind) -> Traced {
    OPEN.with_borrow_mut(|(_, open)| {
        let trace = open.last_mut().expect("a kernel's numbers are used while it is called");
        let own = args.iter().all(|a| a.trace == trace.number);
        assert!(own, "{}: a number of another call of a kernel", trace.name);
        trace.full |= trace.nodes.len() == MAX_OPERATIONS;
        if !trace.full {
            trace.nodes.push((node(args), kind));
        }
        Traced { trace: trace.number, node: trace.nodes.len() as u32 - 1 }
    })
}

/// Appends an operation on traced numbers.
fn note(op: ElementOp, of: Kind, args: &[Traced], kind: Kind) -> Traced {
    let node = |from: &[Traced]| {
        let mut args = [0; 3];
        args.iter_mut().zip(from).for_each(|(to, a)| *to = a.node);
        Node::Op { op, of, args }
    };
    push_from(args, node, kind)
}

impl Repr for Traced {
    type RawInt = Traced;
    type RawMask = Traced;
    type RawField = TracedField;
    const TRACED: bool = true;

    fn constant(value: f64) -> Traced {
        push(Node::Constant(Scalar::Float(value)), Kind::Float)
    }
    fn int(value: i32) -> Traced {
        push(Node::Constant(Scalar::Int(value as i64)), Kind::Int)
    }
    fn mask(value: bool) -> Traced {
        push(Node::Constant(Scalar::Bool(value)), Kind::Mask)
    }
    fn apply(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Float, args, Kind::Float)
    }
    fn test(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Float, args, Kind::Mask)
    }
    fn apply_int(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Int, args, Kind::Int)
    }
    fn test_int(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Int, args, Kind::Mask)
    }
    fn logic(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Mask, args, Kind::Mask)
    }
    fn pick(c: Traced, a: Traced, b: Traced) -> Traced {
        note(ElementOp::Where, Kind::Float, &[c, a, b], Kind::Float)
    }
    fn pick_int(c: Traced, a: Traced, b: Traced) -> Traced {
        note(ElementOp::Where, Kind::Int, &[c, a, b], Kind::Int)
    }
    fn into_int(self) -> Traced {
        push_from(&[self], |from| Node::Cast(from[0].node), Kind::Int)
    }
    fn from_int(i: Traced) -> Traced {
        push_from(&[i], |from| Node::Cast(from[0].node), Kind::Float)
    }
    fn sizes(field: &TracedField) -> &[usize] {
        &field.sizes
    }
    fn read(field: &TracedField, at: &[Traced], edge: Edge) -> Traced {
        let number = OPEN.with_borrow_mut(|(_, open)| {
            let trace = open.last_mut().expect("a kernel's numbers are used while it is called");
            assert!(at.iter().all(|a| a.trace == trace.number), "{}: a place of another call", trace.name);
            trace.reads.push(Read { operand: field.operand, at: at.iter().map(|a| a.node).collect(), edge });
            trace.reads.len() as u32 - 1
        });
        push(Node::Read(number), Kind::Float)
    }
    fn known(_: Traced) -> Option<bool> {
        None
    }
    fn turns(most: u32) -> Option<Box<dyn LoopTracer<Traced>>> {
        Some(Box::new(Tracing::new(most)))
    }
    fn combining(along: Along, tile: Option<(usize, [usize; 2])>) -> Option<Box<dyn LoopTracer<Traced>>> {
        Some(Box::new(Combining::new(along, tile)))
    }
    fn place(_: i32) -> Traced {
        let axis = with_last(|t| t.axis).expect("a row is one of a row kernel's");
        push(Node::Place(axis), Kind::Int)
    }
    fn tile_place(axis: usize, sizes: [usize; 2], _: i32) -> Traced {
        push_tile(TileOp::Place { axis, sizes }, Kind::Int)
    }
    fn tile(op: TileOp<Traced>) -> Option<Traced> {
        let node = |x: Traced| with_last(|t| t.place(x) as u32);
        let op = match op {
            TileOp::Dot { x, y, sizes } => TileOp::Dot { x: node(x), y: node(y), sizes },
            TileOp::Transposed { x } => TileOp::Transposed { x: node(x) },
            TileOp::Reduced { monoid, x, axis, sizes } => TileOp::Reduced { monoid, x: node(x), axis, sizes },
            TileOp::Place { axis, sizes } => TileOp::Place { axis, sizes },
        };
        Some(push_tile(op, Kind::Float))
    }
    fn fold_elements(_: Monoid, _: &[Traced]) -> Traced {
        unreachable!("a trace notes down what is done with tiles")
    }
    fn dotted(_: &mut dyn Iterator<Item = (Traced, Traced)>) -> Traced {
        unreachable!("a trace notes down what is done with tiles")
    }
    fn under(mask: Traced, is: bool) {
        with_last(|t| t.under.push((mask, is)));
    }
    fn done() {
        with_last(|t| t.under.pop());
    }
}

/// Appends an operation on whole tiles.
fn push_tile(op: TileOp<u32>, kind: Kind) -> Traced {
    let number = with_last(|t| {
        t.tiles.push(op);
        t.tiles.len() as u32 - 1
    });
    push(Node::Tile(number), kind)
}

/// Calls `f` with the open trace.
fn with_last<R>(f: impl FnOnce(&mut Trace) -> R) -> R {
    OPEN.with_borrow_mut(|(_, open)| f(open.last_mut().expect("a kernel's numbers are used while it is called")))
}

/// Loop whose body is being traced.
struct Tracing {
    of: u32,
    /// Stage of the loop's trace: the pass that the carried values make now.
    stage: Stage,
    /// The number of values that have passed in this stage.
    done: u32,
    /// Branches that are open around the loop.
    under: Vec<(Traced, bool)>,
}

#[derive(Clone, Copy)]
enum Stage {
    First,
    Next,
    Result,
}

impl Tracing {
    fn new(most: u32) -> Tracing {
        let (of, under) = with_last(|t| {
            let (first, carried, next, needs) = (vec![], vec![], vec![], vec![]);
            t.loops.push(TracedLoop { most, depth: t.inside, first, carried, go: 0, next, needs });
            t.inside += 1;
            (t.loops.len() as u32 - 1, std::mem::take(&mut t.under))
        });
        Tracing { of, stage: Stage::First, done: 0, under }
    }

    fn through(&mut self, x: Traced, kind: Kind) -> Traced {
        let number = self.done;
        self.done += 1;
        let of = self.of;
        let own = |l: &mut dyn FnMut(&mut TracedLoop)| with_last(|t| l(&mut t.loops[of as usize]));
        match self.stage {
            Stage::First => {
                let carried = push_from(&[x], |_| Node::Carried { of }, kind);
                own(&mut |l| {
                    l.first.push(x.node);
                    l.carried.push(carried.node);
                });
                carried
            }
            Stage::Next => {
                own(&mut |l| l.next.push(x.node));
                x
            }
            Stage::Result => push(Node::Looped { of, number }, kind),
        }
    }
}

impl LoopTracer<Traced> for Tracing {
    fn number(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Float)
    }
    fn int(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Int)
    }
    fn mask(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Mask)
    }
    fn go(&mut self, mask: Traced) {
        // Elements that are in the other branch do not iterate.
        let logic = <Traced as Repr>::logic;
        let branches = self.under.iter().map(|&(on, is)| if is { on } else { logic(ElementOp::Not, &[on]) });
        let all = branches.reduce(|a, b| logic(ElementOp::And, &[a, b]));
        let all = all.map_or(mask, |all| logic(ElementOp::And, &[all, mask]));
        with_last(|t| t.loops[self.of as usize].go = all.node);
        (self.stage, self.done) = (Stage::Next, 0);
    }
    fn end(&mut self) {
        with_last(|t| {
            let l = &mut t.loops[self.of as usize];
            l.needs = l.first.iter().chain([&l.go]).chain(&l.next).copied().collect();
            t.inside -= 1;
            t.under = std::mem::take(&mut self.under);
        });
        (self.stage, self.done) = (Stage::Result, 0);
    }
}

/// Fold or scan whose combine is being traced.
struct Combining {
    of: u32,
    stage: CombineSlot,
    /// The number of components that have passed in this stage.
    done: u32,
}

#[derive(Clone, Copy)]
enum CombineSlot {
    /// An element, which becomes the left operand.
    Before,
    /// An element, which becomes the right operand.
    After,
    Identity,
    Next,
    Result,
}

impl Combining {
    fn new(along: Along, tile: Option<(usize, [usize; 2])>) -> Combining {
        let of = with_last(|t| {
            let (elements, identity, next) = (vec![], vec![], vec![]);
            t.combined.push(TracedCombined { along, tile, elements, identity, next });
            t.combined.len() as u32 - 1
        });
        Combining { of, stage: CombineSlot::Before, done: 0 }
    }

    fn through(&mut self, x: Traced, kind: Kind) -> Traced {
        let (of, number) = (self.of, self.done);
        self.done += 1;
        let note = |place: fn(&mut TracedCombined) -> &mut Vec<u32>| {
            with_last(|t| {
                let node = t.place(x) as u32;
                place(&mut t.combined[of as usize]).push(node);
            });
        };
        match self.stage {
            CombineSlot::Before => {
                note(|c| &mut c.elements);
                push_from(&[], |_| Node::Side { of, number, after: false }, kind)
            }
            CombineSlot::After => push_from(&[], |_| Node::Side { of, number, after: true }, kind),
            CombineSlot::Identity => {
                note(|c| &mut c.identity);
                x
            }
            CombineSlot::Next => {
                note(|c| &mut c.next);
                x
            }
            CombineSlot::Result => push_from(&[], |_| Node::Combined { of, number }, kind),
        }
    }
}

impl LoopTracer<Traced> for Combining {
    fn number(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Float)
    }
    fn int(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Int)
    }
    fn mask(&mut self, x: Traced) -> Traced {
        self.through(x, Kind::Mask)
    }
    fn go(&mut self, _: Traced) {
        unreachable!("a combine is no loop")
    }
    fn end(&mut self) {
        self.done = 0;
        self.stage = match self.stage {
            CombineSlot::Before => CombineSlot::After,
            CombineSlot::After => CombineSlot::Identity,
            CombineSlot::Identity => CombineSlot::Next,
            CombineSlot::Next | CombineSlot::Result => CombineSlot::Result,
        };
    }
}
