//! Replay of a trace: records its operations on the operands.
//!
//! In: a trace and its operands. Out: the recorded results. Always true: only operations that a result needs are
//! recorded, in the order of the kernel. Constant nodes are folded here, by the table of operations, and an `if` with a
//! constant condition is the selected branch. Reads at affine indices are views, others gathers.

use super::number::{on_floats, on_ints};
use super::place::{self, Affine, affine_places};
use super::regions::{Refused, Regions};
use super::repr::{Edge, TileOp};
use super::trace::{Kind, Node, Take, Trace};
use crate::operand::Arg;
use crate::record::{push, push_all};
use crate::tape::is_tracking;
use crate::{DType, Device, Operand, Scalar, Shape, Tensor};
use std::cell::RefCell;
use std::collections::HashMap;
use thalweg_ir::{ElementOp, MAX_ARGS, Op};

/// Value of a node in a replay.
#[derive(Clone)]
pub(super) enum Value {
    Tensor(Tensor),
    Scalar(Scalar),
}

/// Extent of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    /// One element, of the result shape or for each row.
    Once,
    /// A row.
    Row,
    /// A tile of these sizes.
    Tile([usize; 2]),
}

/// Replay of a trace: records the kernel's operations on the operands of a call.
pub(super) struct Recording<'a> {
    pub(super) name: &'static str,
    pub(super) names: Vec<&'static str>,
    pub(super) operands: Vec<Operand<'a>>,
    /// The kernel's float dtype.
    float: DType,
    pub(super) device: Device,
    /// The shape of the results.
    pub(super) over: Shape,
    pub(super) trace: Trace,
    /// For each node, its value if it depends on numbers only.
    pub(super) known: Vec<Option<Scalar>>,
    /// Loops with data-dependent ends.
    pub(super) regions: Regions,
    /// For each fold and scan, the components of its result that are needed.
    pub(super) wanted: Vec<Vec<bool>>,
    /// Components of folds and scans that are recorded already.
    pub(super) combined: RefCell<HashMap<u32, Vec<Option<Tensor>>>>,
    /// The kind of each operand in the signature.
    pub(super) takes: Vec<Take>,
    /// For each node, the affine index that it computes, if any.
    affine: Vec<Option<Affine>>,
    /// Whether the kernel is a tile kernel.
    pub(super) of_tiles: bool,
    values: Vec<Option<Value>>,
}

impl<'a> Recording<'a> {
    /// A replay on operands with their names and kinds.
    #[track_caller]
    pub fn new(
        name: &'static str,
        operands: Vec<(&'static str, Take, Operand<'a>)>,
        (float, device): (DType, Device),
        over: Shape,
        trace: Trace,
    ) -> Recording<'a> {
        let of_tiles = operands.iter().any(|o| o.1.is_tile());
        let names = operands.iter().map(|o| o.0).collect();
        let takes = operands.iter().map(|o| o.1).collect();
        let operands: Vec<_> = operands.into_iter().map(|o| o.2).collect();
        let (known, affine) = (Vec::with_capacity(trace.nodes.len()), vec![]);
        let values = Vec::with_capacity(trace.nodes.len());
        let regions = Regions::new(&trace, float);
        let wanted = trace.combined.iter().map(|c| vec![false; c.elements.len()]).collect();
        let combined = RefCell::default();
        #[rustfmt::skip]
        let mut own = Recording {
            name, names, operands, takes, float, device, over, trace, known, regions, wanted, combined, affine, of_tiles, values,
        };
        let loops = !own.trace.loops.is_empty();
        for i in 0..own.trace.nodes.len() {
            if let Node::Looped { of, .. } = own.trace.nodes[i].0 {
                own.regions.close(&own.trace, of);
            }
            own.known.push(own.number(i));
            if loops && let Err(refused) = own.regions.push(&own.trace, own.known[i].is_some()) {
                own.refuse(refused);
            }
        }
        if !own.trace.reads.is_empty() {
            own.affine = affine_places(&own.trace, &own.known);
        }
        own
    }

    #[track_caller]
    fn refuse(&self, refused: Refused) -> ! {
        let name = self.name;
        match refused {
            Refused::Read(read) => panic!(
                "{name}: a read of `{}` in a loop, at a place that the loop changes; read before it, or by a `for` \
                 over constants",
                self.names[self.trace.reads[read as usize].operand]
            ),
            Refused::Combined => {
                panic!(
                    "{name}: a fold, scan or product in a loop, of a row or tile that the loop changes; use a `for` over \
                     constants"
                )
            }
        }
    }

    /// The value of a node, if it is constant; of an `if` with a constant condition, that of the selected branch.
    fn number(&self, i: usize) -> Option<Scalar> {
        let (node, kind) = self.trace.nodes[i];
        let dtype = self.dtype(kind);
        let rounded = |s: Scalar| Scalar::from_bits(s.to_bits(dtype), dtype);
        match node {
            Node::Operand(o) => match self.operands[o] {
                Operand::Tensor(_) => None,
                Operand::Scalar(s) => Some(rounded(s)),
            },
            Node::Constant(s) => Some(rounded(s)),
            Node::Cast(x) => self.known[x as usize].map(|s| match kind {
                Kind::Int => Scalar::Int(s.to_f64() as i32 as i64),
                _ => rounded(s),
            }),
            // A number is its own transpose.
            Node::Tile(of) => match self.trace.tiles[of as usize] {
                TileOp::Transposed { x } => self.known[x as usize],
                _ => None,
            },
            Node::Place(_) | Node::Read(_) | Node::Carried { .. } | Node::Side { .. } | Node::Combined { .. } => None,
            Node::Looped { of, number } => {
                let args: Option<Vec<Scalar>> = self.regions.of(of).1.iter().map(|&a| self.known[a]).collect();
                args.map(|args| rounded(self.regions.on_numbers(of, &args)[number as usize]))
            }
            Node::Op { op, of, args: from } => match self.chosen(i) {
                Some(chosen) => self.known[chosen],
                None => {
                    let (mut args, n) = ([Scalar::Int(0); 3], op.row().arity);
                    for (arg, a) in args.iter_mut().zip(&from[..n]) {
                        *arg = self.known[*a as usize]?;
                    }
                    Some(on_numbers(op, self.dtype(of), &args[..n]))
                }
            },
        }
    }

    /// The selected branch of an `if` with a constant condition.
    pub(super) fn chosen(&self, i: usize) -> Option<usize> {
        let Node::Op { op: ElementOp::Where, args: [c, a, b], .. } = self.trace.nodes[i].0 else { return None };
        self.known[c as usize].map(|c| if c.to_f64() != 0.0 { a } else { b } as usize)
    }

    /// Calls `f` with the nodes that a node is recorded from.
    fn each_needed(&self, i: usize, f: impl FnMut(usize)) {
        // Inside a loop, the region selects.
        let chosen = self.chosen(i).filter(|_| !self.in_a_turn(i));
        match chosen {
            _ if self.known[i].is_some() => {}
            Some(chosen) => std::iter::once(chosen).for_each(f),
            None => match self.trace.nodes[i].0 {
                Node::Op { op, args, .. } => args[..op.row().arity].iter().map(|a| *a as usize).for_each(f),
                // Affine indices need not exist as tensors.
                Node::Read(_) if self.by_map(i).is_some() => {}
                _ => self.trace.args(i).for_each(f),
            },
        }
    }

    /// Result of the kernel. In a row kernel it is one row for each row, or one element for each row.
    #[track_caller]
    pub fn result(&self, i: usize, extent: Extent) -> Tensor {
        match (extent, self.trace.axis) {
            (Extent::Tile(sizes), _) => self.tile_result(i, sizes),
            (Extent::Once, Some(axis)) => self.once_a_row(i, axis),
            _ => self.all(i),
        }
    }

    /// Value of node `i`, broadcast to the shape of the results.
    #[track_caller]
    fn all(&self, i: usize) -> Tensor {
        spread(self.value(i).given(), self.dtype(self.trace.nodes[i].1), self.over, self.device)
    }

    pub(super) fn dtype(&self, kind: Kind) -> DType {
        match kind {
            Kind::Float => self.float,
            Kind::Int => DType::I32,
            Kind::Mask => DType::Bool,
        }
    }

    /// Records the operations that the results need, in the order of the kernel.
    #[track_caller]
    pub fn run(&mut self, results: &[usize]) {
        let n = self.trace.nodes.len();
        let mut needed = vec![false; n];
        results.iter().for_each(|&r| needed[r] = true);
        for i in (0..n).rev() {
            if needed[i] {
                self.each_needed(i, |a| needed[a] = true);
            }
        }
        if !self.trace.loops.is_empty() {
            self.check_gradients(&needed);
        }
        for (i, _) in needed.iter().enumerate().filter(|(_, needed)| **needed) {
            if let Node::Combined { of, number } = self.trace.nodes[i].0 {
                self.wanted[of as usize][number as usize] = true;
            }
        }
        for (i, needed) in needed.into_iter().enumerate() {
            // Nodes of an iteration are recorded with the loop.
            let value = if needed && !self.in_a_turn(i) { Some(self.node(i)) } else { None };
            self.values.push(value);
        }
    }

    /// Whether a node was recorded, because a result needs it.
    pub(super) fn is_recorded(&self, i: usize) -> bool {
        self.values[i].is_some()
    }

    pub(super) fn value(&self, i: usize) -> &Value {
        self.values[i].as_ref().expect("what it is made of comes first")
    }

    #[track_caller]
    fn node(&self, i: usize) -> Value {
        let (node, kind) = self.trace.nodes[i];
        match (node, self.known[i]) {
            (_, Some(s)) => Value::Scalar(s),
            (Node::Operand(o), _) => match self.operands[o] {
                Operand::Tensor(t) => Value::Tensor(self.operand(o, t)),
                Operand::Scalar(_) => unreachable!("a number is known"),
            },
            (Node::Constant(_), _) => unreachable!("a number is known"),
            (Node::Cast(x), _) => match self.value(x as usize) {
                Value::Tensor(t) => Value::Tensor(t.cast(self.dtype(kind))),
                Value::Scalar(_) => unreachable!("a number is known"),
            },
            (Node::Looped { of, number }, _) => self.looped(of, number, kind),
            (Node::Carried { .. }, _) => unreachable!("a carried value is in a turn"),
            (Node::Combined { of, number }, _) => self.combined(of, number, kind),
            (Node::Side { .. }, _) => unreachable!("a combine is recorded as one"),
            (Node::Tile(of), _) => Value::Tensor(self.tiles(of)),
            (Node::Place(axis), _) => Value::Tensor(self.places(axis)),
            (Node::Read(read), _) => Value::Tensor(self.read(i, read as usize)),
            (Node::Op { op, of, args: from }, _) => match self.chosen(i) {
                Some(chosen) => self.value(chosen).clone(),
                None => {
                    let (mut args, n) = ([Given::Scalar(Scalar::Int(0)); 3], op.row().arity);
                    args.iter_mut().zip(&from[..n]).for_each(|(arg, a)| *arg = self.value(*a as usize).given());
                    Value::Tensor(operation(op, self.dtype(of), &args[..n]))
                }
            },
        }
    }

    /// The indices of a read, if all of them are affine and the read is a view.
    fn by_map(&self, i: usize) -> Option<Vec<Affine>> {
        let Node::Read(read) = self.trace.nodes[i].0 else { return None };
        let read = &self.trace.reads[read as usize];
        let at: Option<Vec<Affine>> = read.at.iter().map(|&a| self.affine[a as usize]).collect();
        let Operand::Tensor(x) = self.operands[read.operand] else { return None };
        at.filter(|at| place::is_map(x, at, read.edge, &self.over))
    }

    /// Tensor of the indices 0, 1, 2, … along an axis of the results. It has their shape, so that no value derived from
    /// it is a small tensor that would get a kernel of its own.
    #[track_caller]
    fn places(&self, axis: usize) -> Tensor {
        let mut sizes = Shape::new(&vec![1; self.over.rank()]);
        sizes.dims_mut()[axis] = self.over[axis];
        Tensor::arange_with(self.over[axis], (DType::I32, self.device)).reshaped(sizes).broadcast_to(self.over)
    }

    /// Records read number `read`, which is node `i`.
    #[track_caller]
    fn read(&self, i: usize, read: usize) -> Tensor {
        let by_map = self.by_map(i);
        let read = &self.trace.reads[read];
        let Operand::Tensor(x) = self.operands[read.operand] else { unreachable!("a field is a tensor") };
        if let Some(at) = by_map {
            match place::read(x, &at, read.edge, &self.over) {
                Ok(y) => return y,
                Err((axis, [low, high])) => panic!(
                    "{}: a read of `{}` reaches places {low} to {high} of axis {axis} of shape {}; say what stands \
                     outside with another `Edge`",
                    self.name,
                    self.names[read.operand],
                    x.shape()
                ),
            }
        }
        let at: Vec<Tensor> = read.at.iter().map(|&a| self.index(a as usize)).collect();
        if x.numel() == 0 && self.over.numel() > 0 && read.edge != Edge::Zero {
            panic!(
                "{}: a read of `{}`, which has no elements: shape {}",
                self.name,
                self.names[read.operand],
                x.shape()
            );
        }
        place::gathered(x, &at, read.edge, &self.over)
    }

    /// Index that node `i` computes, as i64.
    #[track_caller]
    fn index(&self, i: usize) -> Tensor {
        match self.value(i) {
            Value::Tensor(t) => t.cast(DType::I64),
            Value::Scalar(s) => Tensor::full_with(Shape::SCALAR, *s, (DType::I64, self.device)),
        }
    }

    /// Whether a node belongs to an iteration of a loop.
    fn in_a_turn(&self, i: usize) -> bool {
        self.regions.inside.get(i).is_some_and(Option::is_some)
    }

    /// Carried value `number` of a loop after its last iteration.
    #[track_caller]
    fn looped(&self, of: u32, number: u32, kind: Kind) -> Value {
        let regions = &self.regions;
        let (region, args) = regions.of(of);
        if args.len() > MAX_ARGS {
            let (name, n) = (self.name, args.len());
            panic!(
                "{name}: a loop takes {n} values of outside, which are at most {MAX_ARGS}; carry some of them in it"
            );
        }
        let values: Vec<Value> = args.iter().map(|&a| self.value(a).clone()).collect();
        // Converted to the region's dtypes (f32 for bf16 and f16), and broadcast to one shape.
        let shape = values.iter().fold(Shape::SCALAR, |shape, v| match v {
            Value::Tensor(t) => shape.broadcast(t.shape()).expect("the operands broadcast"),
            Value::Scalar(_) => shape,
        });
        let values: Vec<Value> = values
            .into_iter()
            .zip(&region.args)
            .map(|(v, &dtype)| match v {
                Value::Tensor(t) => {
                    let t = if t.dtype() == dtype { t } else { t.cast(dtype) };
                    Value::Tensor(if *t.shape() == shape { t } else { t.broadcast_to(shape) })
                }
                scalar => scalar,
            })
            .collect();
        let args: Vec<Arg<'_>> = values
            .iter()
            .zip(&region.args)
            .map(|(v, &dtype)| match v {
                Value::Tensor(t) => Arg::Tensor(t),
                Value::Scalar(s) => Arg::Scalar(s.to_bits(dtype)),
            })
            .collect();
        let (l, dtype) = (region.clone().intern(), regions.dtype(kind));
        let result = push_all(Op::Loop(l), dtype, shape, number, &args, &[]);
        Value::Tensor(if dtype == self.dtype(kind) { result } else { result.cast(self.dtype(kind)) })
    }

    /// Checks that no gradient flows through a loop, which has no derivative.
    #[track_caller]
    fn check_gradients(&self, needed: &[bool]) {
        let regions = &self.regions;
        // For each node the operand that a gradient would flow to from it.
        let mut flows: Vec<Option<usize>> = vec![];
        for (i, &(node, kind)) in self.trace.nodes.iter().enumerate() {
            let of = |args: &[usize]| args.iter().find_map(|&a| flows[a]);
            let tracked = |o: usize| {
                let Operand::Tensor(t) = self.operands[o] else { return None };
                (t.dtype().is_float() && t.node.as_ref().is_some_and(|n| n.carries())).then_some(o)
            };
            let flow = match node {
                _ if kind != Kind::Float || self.known[i].is_some() => None,
                Node::Operand(o) => tracked(o),
                Node::Read(r) => tracked(self.trace.reads[r as usize].operand),
                Node::Looped { of: l, .. } => of(&regions.of(l).1),
                // Gradients through the carried values of an iteration are attributed to the loop.
                Node::Carried { .. } => None,
                _ => of(&self.trace.args(i).collect::<Vec<_>>()),
            };
            let outside = regions.inside[i].is_none();
            if let (Node::Looped { .. }, Some(o), true, true) = (node, flow, needed[i], outside && is_tracking()) {
                panic!(
                    "{}: a loop whose end depends on data has no derivative, and operand `{}` is tracked; say what it is \
                     with `custom_grad`, or give `.detach()`",
                    self.name, self.names[o]
                );
            }
            flows.push(flow);
        }
    }
}

/// Argument of an operation.
#[derive(Clone, Copy)]
pub(super) enum Given<'a> {
    Tensor(&'a Tensor),
    Scalar(Scalar),
}

impl Value {
    pub(super) fn given(&self) -> Given<'_> {
        match self {
            Value::Tensor(t) => Given::Tensor(t),
            Value::Scalar(s) => Given::Scalar(*s),
        }
    }
}

/// The dtype of an argument of an operation that computes in `of`.
pub(super) fn taken(op: ElementOp, of: DType, argument: usize) -> DType {
    if op == ElementOp::Where && argument == 0 { DType::Bool } else { of }
}

/// Records an elementwise operation on arguments of a dtype, which broadcast; at least one is a tensor.
#[track_caller]
fn operation(op: ElementOp, dtype: DType, args: &[Given<'_>]) -> Tensor {
    let arg = |n: usize| match args[n] {
        Given::Tensor(t) => Arg::Tensor(t),
        Given::Scalar(s) => Arg::Scalar(s.to_bits(taken(op, dtype, n))),
    };
    let out = op.output(dtype);
    match args.len() {
        1 => broadcast(op, out, [arg(0)]),
        2 => broadcast(op, out, [arg(0), arg(1)]),
        _ => broadcast(op, out, [arg(0), arg(1), arg(2)]),
    }
}

/// Records an operation on arguments, which broadcast to one shape.
#[track_caller]
pub(super) fn broadcast<const N: usize>(op: ElementOp, out: DType, args: [Arg<'_>; N]) -> Tensor {
    let mut shape: Option<Shape> = None;
    for arg in &args {
        if let Arg::Tensor(t) = arg
            && shape != Some(*t.shape())
        {
            let both = shape.map_or(Some(*t.shape()), |shape| shape.broadcast(t.shape()));
            shape = Some(both.expect("the operands broadcast"));
        }
    }
    let shape = shape.expect("what follows from numbers alone is known");
    let mask = |(i, arg): (usize, &Arg<'_>)| match arg {
        Arg::Tensor(t) if *t.shape() != shape => (t.shape().broadcast_mask(&shape) as u32) << (8 * i),
        _ => 0,
    };
    let attr = args.iter().enumerate().map(mask).fold(0, |all, mask| all | mask);
    push(Op::Element(op), out, shape, attr, args, &[])
}

/// A value broadcast to the shape of the results.
#[track_caller]
pub(super) fn spread(value: Given<'_>, dtype: DType, over: Shape, device: Device) -> Tensor {
    match value {
        Given::Tensor(t) if *t.shape() == over => t.clone(),
        Given::Tensor(t) => t.broadcast_to(over),
        Given::Scalar(s) => Tensor::full_with(over, s, (dtype, device)),
    }
}

/// Evaluates an operation on numbers.
fn on_numbers(op: ElementOp, dtype: DType, args: &[Scalar]) -> Scalar {
    let (out, n) = (op.output(dtype), args.len());
    let result = match dtype.is_float() {
        true => Scalar::Float(on_floats(op, out, &std::array::from_fn::<f64, 3, _>(|i| args[i % n].to_f64())[..n])),
        false => {
            let y = on_ints(op, dtype, &std::array::from_fn::<i64, 3, _>(|i| args[i % n].to_i64())[..n]);
            Scalar::integer(y, out)
        }
    };
    Scalar::from_bits(result.to_bits(out), out)
}
