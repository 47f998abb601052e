//! Expressions.

use super::{Name, Routine, Type};
use std::ops;
use thalweg_ir::{DType, ElementOp};

/// Arithmetic and comparisons, and what holds of two conditions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The product.
    Mul,
    /// The quotient, towards zero.
    Div,
    /// What is left of that.
    Rem,
    /// Bits of both.
    BitAnd,
    /// Bits of one or the other.
    BitOr,
    /// Bits of one of them alone.
    BitXor,
    /// Bits moved to the left.
    Shl,
    /// Bits moved to the right.
    Shr,
    /// Both hold; where the first does not, the second is not computed.
    And,
    /// One holds; where the first does, the second is not computed.
    Or,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater or equal.
    Ge,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
}

impl Binary {
    /// Whether the result is a condition.
    pub fn is_condition(self) -> bool {
        use Binary::*;
        matches!(self, And | Or | Lt | Le | Ge | Eq | Ne)
    }
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A variable.
    Name(Name, Type),
    /// An element of registers or of shared memory.
    Element {
        /// What it is of.
        of: Name,
        /// An index for each dimension.
        at: Vec<Expr>,
        /// Its type.
        ty: Type,
    },
    /// The same of a vector of elements of 16 bits that are read two at a time, as a value.
    OfPair {
        /// What it is of.
        of: Name,
        /// An index for each dimension but the last.
        at: Vec<Expr>,
        /// The lane.
        lane: Box<Expr>,
        /// The dtype, bf16.
        dtype: DType,
    },
    /// A word of the argument, a u64.
    Word(usize),
    /// A word as a value of a dtype ([`thalweg_ir::Scalar::to_bits`]).
    Scalar(DType, usize),
    /// A number that is a position or counts something.
    Number(i64, Type),
    /// A constant of a dtype, in the form of [`thalweg_ir::Scalar::to_bits`].
    Constant(DType, u64),
    /// The thread's number in its block, a u32.
    Thread,
    /// The block's number, a u32.
    Block,
    /// How many blocks there are, a u32.
    Blocks,
    /// How many threads a block has, a u32.
    Threads,
    /// Arithmetic of positions, products of floats, and conditions.
    Binary(Binary, Box<[Expr; 2]>),
    /// An integer or a condition as another integer, or as a float.
    Convert(Type, Box<Expr>),
    /// The quotient of a [`super::Statement::Split`], a u32.
    Quotient(Name),
    /// Its remainder, a u32.
    Remainder(Name),
    /// An elementwise operation on values of a dtype.
    Operation(ElementOp, DType, Vec<Expr>),
    /// The reciprocal of an f32, an ulp or so off.
    Inverse(Box<Expr>),
    /// A float of which the compiler is to know nothing.
    Hidden(Box<Expr>),
    /// A product of two f32 or f64 that is rounded by itself: no compiler contracts it with a sum.
    Product(Box<[Expr; 2]>),
    /// A value of one dtype as another.
    Cast(DType, DType, Box<Expr>),
    /// An f32 taken for a narrow float, or the other way round, as it is in its register: nothing is rounded.
    Unrounded(DType, Box<Expr>),
    /// The bits of a value of one dtype as another.
    Bitcast(DType, DType, Box<Expr>),
    /// A value from an element as it is in memory.
    Unpack(DType, Box<Expr>),
    /// An element as it is in memory from a value, which has been rounded to the dtype.
    Pack(DType, Box<Expr>),
    /// The second where the first holds, else the third; the other is not computed.
    Select(Box<[Expr; 3]>),
    /// An element of memory: the operand, and its position.
    Load(Type, Name, Box<Expr>),
    /// The same of scratch memory, which lies over nothing else.
    Scratch(Type, Name, Box<Expr>),
    /// The same of what other blocks of the launch have written.
    Fresh(Type, Name, Box<Expr>),
    /// A state from memory, which other blocks have written.
    LoadState(u16, Name, Box<Expr>),
    /// A matrix of narrow floats in lines of 128 bytes whose parts are exchanged: shared elements, where it begins among
    /// them, and bytes from 64 lines to the next 64, or from 64 terms to the next.
    Matrix {
        /// The shared elements.
        of: Name,
        /// Where it begins.
        at: Box<Expr>,
        /// See above.
        leading: u32,
    },
    /// All of registers, or of shared elements.
    Whole(Name, Type),
    /// The result of a tree, or the identity where nothing was pushed.
    Taken {
        /// The tree.
        tree: Name,
        /// The identity.
        identity: Box<Expr>,
    },
    /// The number of a ticket, a u32.
    Drawn(Name),
    /// A routine of these.
    Routine(Routine, Vec<Expr>),
    /// An element of memory that data say the place of. Where that is not inside, the element is 0, and the fault is told.
    Gather {
        /// Of the element.
        dtype: DType,
        /// The operand.
        operand: Name,
        /// Its position, an i64; whether it is inside; the address where a fault is told, a u64, 0 where it is none.
        place: Box<[Expr; 3]>,
    },
    /// What a function of the kernel gives for a position.
    Call(Name, Box<Expr>),
}

impl Expr {
    /// A variable.
    pub fn name(name: impl Into<Name>, ty: Type) -> Expr {
        Expr::Name(name.into(), ty)
    }

    /// Its type.
    pub fn ty(&self) -> Type {
        match self {
            Expr::Name(_, ty)
            | Expr::Element { ty, .. }
            | Expr::Number(_, ty)
            | Expr::Convert(ty, _)
            | Expr::Load(ty, ..)
            | Expr::Scratch(ty, ..)
            | Expr::Fresh(ty, ..)
            | Expr::Whole(_, ty) => *ty,
            Expr::LoadState(l, ..) => Type::State(*l),
            Expr::Matrix { .. } => Type::Matrix,
            Expr::Taken { identity, .. } => identity.ty(),
            Expr::Routine(routine, _) => routine.ty(),
            Expr::OfPair { dtype, .. } => Type::Held(*dtype),
            Expr::Word(_) => Type::U64,
            Expr::Scalar(dtype, _) | Expr::Constant(dtype, _) => Type::Held(*dtype),
            Expr::Thread
            | Expr::Block
            | Expr::Blocks
            | Expr::Threads
            | Expr::Quotient(_)
            | Expr::Remainder(_)
            | Expr::Drawn(_) => Type::U32,
            Expr::Binary(op, _) if op.is_condition() => Type::BOOL,
            Expr::Binary(_, two) | Expr::Product(two) => two[0].ty(),
            Expr::Operation(op, dtype, _) => Type::Held(op.output(*dtype)),
            Expr::Inverse(_) => Type::Held(DType::F32),
            Expr::Hidden(x) => x.ty(),
            Expr::Cast(_, to, _) | Expr::Bitcast(_, to, _) | Expr::Unpack(to, _) | Expr::Unrounded(to, _) => {
                Type::Held(*to)
            }
            Expr::Pack(dtype, _) | Expr::Gather { dtype, .. } => Type::Stored(*dtype),
            Expr::Select(three) => three[1].ty(),
            Expr::Call(..) => Type::I64,
        }
    }

    /// As another integer, where it is none of that already.
    pub fn to(self, ty: Type) -> Expr {
        match self {
            Expr::Number(n, _) => Expr::Number(n, ty),
            same if same.ty() == ty => same,
            other => Expr::Convert(ty, Box::new(other)),
        }
    }

    fn with(self, op: Binary, other: Expr) -> Expr {
        Expr::Binary(op, Box::new([self, other]))
    }

    /// Whether it is less.
    pub fn lt(self, other: Expr) -> Expr {
        self.with(Binary::Lt, other)
    }

    /// Whether it is not less.
    pub fn ge(self, other: Expr) -> Expr {
        self.with(Binary::Ge, other)
    }

    /// Whether both are the same.
    pub fn same(self, other: Expr) -> Expr {
        self.with(Binary::Eq, other)
    }

    /// Whether both hold.
    pub fn and(self, other: Expr) -> Expr {
        self.with(Binary::And, other)
    }

    /// Whether one holds.
    pub fn or(self, other: Expr) -> Expr {
        self.with(Binary::Or, other)
    }

    /// The bits of both.
    pub fn bits(self, other: Expr) -> Expr {
        self.with(Binary::BitAnd, other)
    }

    /// The second where this holds, else the third.
    pub fn select(self, yes: Expr, no: Expr) -> Expr {
        Expr::Select(Box::new([self, yes, no]))
    }

    /// The sum of those that there are, 0 of that type where there are none.
    pub fn sum(terms: impl IntoIterator<Item = Expr>, ty: Type) -> Expr {
        terms.into_iter().reduce(|x, y| x + y).unwrap_or(Expr::Number(0, ty))
    }

    /// What it is made of.
    pub fn parts(&self) -> &[Expr] {
        use std::slice::from_ref;
        match self {
            Expr::Element { at, .. } => at,
            Expr::Binary(_, two) | Expr::Product(two) => &two[..],
            Expr::Select(three) | Expr::Gather { place: three, .. } => &three[..],
            Expr::Operation(_, _, args) | Expr::Routine(_, args) => args,
            Expr::Convert(_, x)
            | Expr::Inverse(x)
            | Expr::Hidden(x)
            | Expr::Cast(_, _, x)
            | Expr::Bitcast(_, _, x)
            | Expr::Unpack(_, x)
            | Expr::Unrounded(_, x)
            | Expr::Pack(_, x)
            | Expr::Load(_, _, x)
            | Expr::Scratch(_, _, x)
            | Expr::Fresh(_, _, x)
            | Expr::LoadState(_, _, x)
            | Expr::Matrix { at: x, .. }
            | Expr::Taken { identity: x, .. }
            | Expr::Call(_, x) => from_ref(x),
            _ => &[],
        }
    }
}

impl Routine {
    /// On these arguments.
    pub fn of(self, args: impl IntoIterator<Item = Expr>) -> Expr {
        Expr::Routine(self, args.into_iter().collect())
    }
}

impl ops::Add for Expr {
    type Output = Expr;
    fn add(self, other: Expr) -> Expr {
        self.with(Binary::Add, other)
    }
}

impl ops::Sub for Expr {
    type Output = Expr;
    fn sub(self, other: Expr) -> Expr {
        self.with(Binary::Sub, other)
    }
}

impl ops::Mul for Expr {
    type Output = Expr;
    fn mul(self, other: Expr) -> Expr {
        self.with(Binary::Mul, other)
    }
}

impl ops::Div for Expr {
    type Output = Expr;
    fn div(self, other: Expr) -> Expr {
        self.with(Binary::Div, other)
    }
}

impl ops::Rem for Expr {
    type Output = Expr;
    fn rem(self, other: Expr) -> Expr {
        self.with(Binary::Rem, other)
    }
}
