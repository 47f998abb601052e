//! Random kernels as plain data, and their execution over any numbers.
//!
//! Input: a seed. Output: [`Code`], which [`Code::run`] runs over any [`Real`] with the calls that `#[kernel]`
//! generates: alike on numbers and traced values. Invariant: an instruction reads existing registers, each of its own
//! kind.

use fastrand::Rng;
use thalweg::kernel::{Edge, Field, Int, Loop, Mask, Real, Repr, and, compare, looped, or, select, to_int, to_real};
use thalweg_ir::element::Output;
use thalweg_ir::{DType, ElementOp};

/// Instruction of a random kernel. Register numbers are taken modulo the number of registers.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// Float constant.
    Literal(f64),
    /// Integer constant.
    Integer(i32),
    /// Element-wise operation on floats with a float result.
    Float(ElementOp, [usize; 3]),
    /// Element-wise operation on integers.
    Int(ElementOp, [usize; 3]),
    /// Comparison of floats (`true`) or of integers (`false`).
    Compare(ElementOp, [usize; 2], bool),
    /// `&&` (`true`) or `||` (`false`), with the right operand optionally negated.
    Logic(bool, [usize; 2], bool),
    /// Conversion of a float to an integer.
    ToInt(usize),
    /// Conversion of an integer to a float.
    ToReal(usize),
    /// `if` on a bool; both branches return a float and an integer.
    If(usize, Vec<Instruction>, Vec<Instruction>),
    /// Loop with this many iterations that carries a float and an integer.
    For(usize, Vec<Instruction>),
    /// Loop with at most this many iterations: it continues while one of the last bools holds, which the first
    /// instructions compute, and for some iterations in any case. The second instructions change a float and an
    /// integer.
    While(u32, usize, Vec<Instruction>, Vec<Instruction>),
    /// Element of the field, at coordinates that are affine in the result's index (axis, scale, shift) or computed.
    Read(Vec<ReadIndex>, Edge),
}

/// Coordinate of a read.
#[derive(Clone, Debug)]
pub enum ReadIndex {
    Affine(usize, i32, i32),
    Computed(usize),
}

/// Random kernel: a list of instructions, with its inputs.
#[derive(Clone, Debug)]
pub struct Code {
    pub body: Vec<Instruction>,
    /// For an index kernel: number of dimensions of its index and of its field.
    pub index: Option<[usize; 2]>,
}

/// Register files of a kernel, by type of value.
#[derive(Clone)]
pub struct Registers<F: Real> {
    pub floats: Vec<F>,
    pub ints: Vec<Int<F>>,
    pub masks: Vec<Mask<F>>,
}

impl<F: Real> Registers<F> {
    fn float(&self, i: usize) -> F {
        self.floats[i % self.floats.len()]
    }
    fn int(&self, i: usize) -> Int<F> {
        self.ints[i % self.ints.len()]
    }
    fn mask(&self, i: usize) -> Mask<F> {
        self.masks[i % self.masks.len()]
    }
    fn last(&self) -> (F, Int<F>) {
        (self.float(self.floats.len() - 1), self.int(self.ints.len() - 1))
    }
}

/// Field (tensor that an index kernel reads) of one or two dimensions.
pub enum Fields<F: Real> {
    None,
    One(Field<F, 1>),
    Two(Field<F, 2>),
}

impl Code {
    /// Makes a random kernel, with or without data-dependent loops.
    pub fn new(rng: &mut Rng, loops: bool) -> Code {
        let index = rng.bool().then(|| [rng.usize(1..4), rng.usize(1..3)]);
        let length = rng.usize(1..16);
        Code { body: block(rng, length, 2, May { index, loops, exact: false }), index }
    }

    /// Runs the kernel; returns a float, an integer and a bool.
    pub fn run<F: Real>(&self, mut registers: Registers<F>, at: &[Int<F>], fields: &Fields<F>) -> (F, Int<F>, Mask<F>) {
        run(&self.body, &mut registers, at, fields);
        let (x, i) = registers.last();
        (x, i, registers.mask(registers.masks.len() - 1))
    }
}

fn run<F: Real>(body: &[Instruction], r: &mut Registers<F>, at: &[Int<F>], fields: &Fields<F>) {
    for instruction in body {
        match instruction {
            Instruction::Literal(v) => r.floats.push(F::lit(*v)),
            Instruction::Integer(v) => r.ints.push(Int::from(*v)),
            Instruction::Float(op, args) => {
                let args = args.map(|a| r.float(a));
                r.floats.push(<F as Repr>::apply(*op, &args[..op.row().arity]));
            }
            Instruction::Int(op, args) => r.ints.push(integer(*op, args.map(|a| r.int(a)))),
            Instruction::Compare(op, [a, b], true) => r.masks.push(compare(*op, r.float(*a), r.float(*b))),
            Instruction::Compare(op, [a, b], false) => r.masks.push(compare(*op, r.int(*a), r.int(*b))),
            Instruction::Logic(both, [a, b], negated) => {
                let (a, b) = (r.mask(*a), r.mask(*b));
                let right = || if *negated { !b } else { b };
                r.masks.push(if *both { and(a, right) } else { or(a, right) });
            }
            Instruction::ToInt(a) => r.ints.push(to_int(r.float(*a))),
            Instruction::ToReal(a) => r.floats.push(to_real(r.int(*a))),
            Instruction::If(c, a, b) => {
                let branch = |body: &[Instruction]| {
                    let mut inner = r.clone();
                    run(body, &mut inner, at, fields);
                    inner.last()
                };
                let (x, i) = select::<F, _, _, _>(r.mask(*c), || branch(a), || branch(b));
                r.floats.push(x);
                r.ints.push(i);
            }
            Instruction::For(turns, body) => {
                for _ in 0..*turns {
                    let mut inner = r.clone();
                    run(body, &mut inner, at, fields);
                    let (x, i) = inner.last();
                    r.floats.push(x);
                    r.ints.push(i);
                }
            }
            Instruction::While(most, mask, condition, body) => {
                let of = Loop { kernel: "random", most: Some(*most) };
                let (x, i) = r.last();
                let turn = |(x, i, count): (F, Int<F>, Int<F>), body: &[Instruction]| {
                    let mut inner = r.clone();
                    inner.floats.push(x);
                    inner.ints.extend([count, i]);
                    run(body, &mut inner, at, fields);
                    inner
                };
                let go = |state: (F, Int<F>, Int<F>)| {
                    let more: Mask<F> = compare(ElementOp::Lt, state.2, 5);
                    let inner = turn(state, condition);
                    or(inner.mask(*mask + inner.masks.len() - 1), || more)
                };
                let next = |state: (F, Int<F>, Int<F>)| {
                    let (x, i) = turn(state, body).last();
                    (x, i, state.2 + 1)
                };
                let (x, i, count) = looped::<F, _, _>(of, (x, i, Int::from(0)), go, next);
                r.floats.push(x);
                r.ints.extend([i, count]);
            }
            Instruction::Read(places, edge) => {
                let place = |p: &ReadIndex| match *p {
                    ReadIndex::Affine(axis, scale, shift) => at[axis % at.len()] * scale + shift,
                    ReadIndex::Computed(i) => r.int(i),
                };
                let places: Vec<Int<F>> = places.iter().map(place).collect();
                let read = match fields {
                    Fields::One(x) => x.get([places[0]], *edge),
                    Fields::Two(x) => x.get([places[0], places[1]], *edge),
                    Fields::None => unreachable!("only index kernels read"),
                };
                r.floats.push(read);
            }
        }
    }
}

fn integer<F: Real>(op: ElementOp, [a, b, c]: [Int<F>; 3]) -> Int<F> {
    match op {
        ElementOp::Add => a + b,
        ElementOp::Sub => a - b,
        ElementOp::Mul => a * b,
        ElementOp::Div => a / b,
        ElementOp::Rem => a % b,
        ElementOp::FloorDiv => a.floor_div(b),
        ElementOp::BitAnd => a & b,
        ElementOp::BitXor => a ^ b,
        ElementOp::Shl => a << b,
        ElementOp::Shr => a >> b,
        ElementOp::Maximum => a.max(b),
        ElementOp::Minimum => a.min(b),
        ElementOp::Neg => -a,
        ElementOp::Abs => a.abs(),
        ElementOp::BitNot => !a,
        _ => a.clamp(b, c),
    }
}

const INTEGERS: [ElementOp; 16] = {
    use ElementOp::*;
    [Add, Sub, Mul, Div, Rem, FloorDiv, BitAnd, BitXor, Shl, Shr, Maximum, Minimum, Neg, Abs, BitNot, Clamp]
};
const COMPARISONS: [ElementOp; 6] =
    [ElementOp::Eq, ElementOp::Ne, ElementOp::Lt, ElementOp::Le, ElementOp::Gt, ElementOp::Ge];

fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())].clone()
}

/// Restrictions on the instructions of a block.
#[derive(Clone, Copy)]
struct May {
    /// Dimensions of index and field, as in [`Code::index`].
    index: Option<[usize; 2]>,
    /// Whether data-dependent loops are allowed.
    loops: bool,
    /// Whether all operations must give the same results on every device.
    exact: bool,
}

fn block(rng: &mut Rng, length: usize, depth: usize, may: May) -> Vec<Instruction> {
    (0..length).map(|_| instruction(rng, depth, may)).collect()
}

fn instruction(rng: &mut Rng, depth: usize, may: May) -> Instruction {
    let floats: Vec<ElementOp> = ElementOp::ALL
        .iter()
        .copied()
        .filter(|op| op.row().takes.has(DType::F32) && op.row().output == Output::Same && *op != ElementOp::Where)
        .filter(|op| !may.exact || op.row().ulps == 0 && !matches!(op, ElementOp::Lerp | ElementOp::FloorDiv))
        .collect();
    // Recent registers are as likely as all others, so that instructions form chains.
    let register = |rng: &mut Rng| rng.usize(..1 << 20);
    let args = [register(rng), register(rng), register(rng)];
    match rng.usize(..22) {
        0 => Instruction::Literal(pick(rng, &[0.0, -0.0, 1.0, 0.5, -2.25, 3.0, 0.1, 1e-3, 100.0])),
        1 => Instruction::Integer(rng.i32(-5..40)),
        2..=8 => Instruction::Float(pick(rng, &floats), args),
        9 | 10 => Instruction::Int(pick(rng, &INTEGERS), args),
        11 | 12 => Instruction::Compare(pick(rng, &COMPARISONS), [args[0], args[1]], rng.bool()),
        13 => Instruction::Logic(rng.bool(), [args[0], args[1]], rng.bool()),
        14 => Instruction::ToInt(args[0]),
        15 => Instruction::ToReal(args[0]),
        16 if depth > 0 => {
            let (a, b) = (rng.usize(..5), rng.usize(..5));
            Instruction::If(args[0], block(rng, a, depth - 1, may), block(rng, b, depth - 1, may))
        }
        17 if depth > 0 => {
            let length = rng.usize(1..4);
            Instruction::For(rng.usize(1..4), block(rng, length, depth - 1, may))
        }
        18 | 19 if depth > 0 && may.loops => {
            let (a, b) = (rng.usize(..3), rng.usize(1..6));
            // A read at a coordinate that changes in the loop is refused.
            let may = May { index: None, exact: may.exact || rng.usize(..3) > 0, ..may };
            let [condition, body] = [a, b].map(|length| block(rng, length, depth - 1, may));
            Instruction::While(pick(rng, &[1, 2, 7, 30]), args[0] & 1, condition, body)
        }
        _ => match may.index {
            Some([_, dimensions]) => {
                let place = |rng: &mut Rng| match rng.usize(..5) {
                    0 => ReadIndex::Computed(register(rng)),
                    _ => ReadIndex::Affine(rng.usize(..8), pick(rng, &[1, 1, 1, 2, -1, 0]), rng.i32(-3..4)),
                };
                let places = (0..dimensions).map(|_| place(rng)).collect();
                Instruction::Read(places, pick(rng, &[Edge::Zero, Edge::Clamp, Edge::Wrap]))
            }
            None => Instruction::Float(pick(rng, &floats), args),
        },
    }
}
