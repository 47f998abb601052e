//! Expressions.

use crate::ir::{Name, Routine, Slot, Type};
use std::ops;
use thalweg_ir::{DType, ElementOp};

/// Binary operators: arithmetic, comparisons, and connectives of conditions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    /// Addition.
    Add,
    /// Subtraction.
    Sub,
    /// Multiplication.
    Mul,
    /// Quotient, rounded towards zero.
    Div,
    /// Remainder of the quotient that is rounded towards zero.
    Rem,
    /// Bitwise and.
    BitAnd,
    /// Bitwise or.
    BitOr,
    /// Bitwise exclusive or.
    BitXor,
    /// Left shift.
    Shl,
    /// Right shift.
    Shr,
    /// Logical and; the second operand is evaluated only where the first holds.
    And,
    /// Logical or; the second operand is evaluated only where the first does not hold.
    Or,
    /// Less than (`<`).
    Lt,
    /// Less than or equal (`<=`).
    Le,
    /// Greater than or equal (`>=`).
    Ge,
    /// Equality (`==`).
    Eq,
    /// Inequality (`!=`).
    Ne,
}

impl Binary {
    /// Whether the result of the operator is a condition.
    pub fn is_condition(self) -> bool {
        use Binary::*;
        matches!(self, And | Or | Lt | Le | Ge | Eq | Ne)
    }
}

/// Expression of the loop IR.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// Variable.
    Name(Name, Type),
    /// Element of an array in registers or in shared memory.
    Element {
        /// Name of the array.
        of: Name,
        /// Index of each dimension.
        at: Vec<Expr>,
        /// Element type.
        ty: Type,
    },
    /// Element of a vector of bf16 whose elements are read two at a time, as a value.
    OfPair {
        /// Name of the array.
        of: Name,
        /// Index of each dimension but the last.
        at: Vec<Expr>,
        /// Index of the element in the vector.
        lane: Box<Expr>,
        /// Dtype of the elements: bf16.
        dtype: DType,
    },
    /// First word of a kernel argument, a u64.
    Param(Slot),
    /// Kernel argument as a value of a dtype ([`thalweg_ir::Scalar::to_bits`]).
    Scalar(DType, Slot),
    /// Integer literal, an index or a count.
    Number(i64, Type),
    /// A constant of a dtype, in the form of [`thalweg_ir::Scalar::to_bits`].
    Constant(DType, u64),
    /// Index of the thread in its block, a u32.
    Thread,
    /// Index of the block in its launch, a u32.
    Block,
    /// Number of blocks of the launch, a u32.
    Blocks,
    /// Number of threads per block, a u32.
    Threads,
    /// Binary operation: index arithmetic, products of floats, conditions.
    Binary(Binary, Box<[Expr; 2]>),
    /// Conversion of an integer or a condition to another integer type or to a float.
    Convert(Type, Box<Expr>),
    /// Quotient of a [`crate::ir::Statement::Split`], a u32.
    Quotient(Name),
    /// Remainder of a [`crate::ir::Statement::Split`], a u32.
    Remainder(Name),
    /// An elementwise operation on values of a dtype.
    Operation(ElementOp, DType, Vec<Expr>),
    /// Approximate reciprocal of an f32, off by about one ulp.
    Inverse(Box<Expr>),
    /// Float whose value is hidden from the compiler, so that it folds no constants.
    Hidden(Box<Expr>),
    /// Product of two f32 or f64 that is rounded by itself: no compiler contracts it with a sum to FMA.
    Product(Box<[Expr; 2]>),
    /// Conversion of a value from one dtype to another.
    Cast(DType, DType, Box<Expr>),
    /// Reinterpretation of an f32 register as a narrow float or back, without rounding.
    Unrounded(DType, Box<Expr>),
    /// Bitcast of a value from one dtype to another.
    Bitcast(DType, DType, Box<Expr>),
    /// Conversion of an element from its memory format to a value in registers.
    Unpack(DType, Box<Expr>),
    /// Conversion of a value, already rounded to the dtype, to an element in memory format.
    Pack(DType, Box<Expr>),
    /// Select: the second where the first holds, else the third; the other is not evaluated.
    Select(Box<[Expr; 3]>),
    /// Load from memory: the operand, and the element's offset.
    Load(Type, Name, Box<Expr>),
    /// Load from scratch memory, which aliases nothing.
    Scratch(Type, Name, Box<Expr>),
    /// Load of an element that other blocks of the launch have written.
    Fresh(Type, Name, Box<Expr>),
    /// Load of an online fold's state that other blocks have written.
    LoadState(u16, Name, Box<Expr>),
    /// Descriptor of a matrix of bf16 or f16 in 128-byte lines with 128-byte swizzle (`wgmma`).
    Matrix {
        /// Shared array with the matrix.
        of: Name,
        /// Index of the first element.
        at: Box<Expr>,
        /// Leading byte offset: bytes from 64 lines to the next 64, or from 64 terms to the next.
        leading: u32,
    },
    /// Whole array of registers or shared memory, as an argument.
    Whole(Name, Type),
    /// Result of a tree, or the identity where nothing was pushed.
    Taken {
        /// Name of the tree.
        tree: Name,
        /// Identity, the result where nothing was pushed.
        identity: Box<Expr>,
    },
    /// Number of a block's ticket, a u32: its position in the order in which blocks begin
    /// ([`crate::ir::Statement::Ticket`]).
    Drawn(Name),
    /// Call of a routine.
    Routine(Routine, Vec<Expr>),
    /// Gathered element, at a data-dependent offset. Out of range it is 0, and a fault is reported.
    Gather {
        /// Dtype of the element.
        dtype: DType,
        /// Operand to gather from.
        operand: Name,
        /// Offset, an i64; whether it is in range; address of the fault slot, a u64, 0 for no report.
        place: Box<[Expr; 3]>,
    },
    /// Call of one of the kernel's functions with an index.
    Call(Name, Box<Expr>),
}

impl Expr {
    /// Expression of a variable.
    pub fn name(name: impl Into<Name>, ty: Type) -> Expr {
        Expr::Name(name.into(), ty)
    }

    /// Type of the value.
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
            Expr::Param(_) => Type::U64,
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

    /// Converts to another integer type; a value of that type stays as it is.
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

    /// Comparison `<`.
    pub fn lt(self, other: Expr) -> Expr {
        self.with(Binary::Lt, other)
    }

    /// Comparison `>=`.
    pub fn ge(self, other: Expr) -> Expr {
        self.with(Binary::Ge, other)
    }

    /// Comparison `==`.
    pub fn same(self, other: Expr) -> Expr {
        self.with(Binary::Eq, other)
    }

    /// Logical and.
    pub fn and(self, other: Expr) -> Expr {
        self.with(Binary::And, other)
    }

    /// Logical or.
    pub fn or(self, other: Expr) -> Expr {
        self.with(Binary::Or, other)
    }

    /// Bitwise and of two integers.
    pub fn bits(self, other: Expr) -> Expr {
        self.with(Binary::BitAnd, other)
    }

    /// Select: `yes` where this condition holds, else `no`.
    pub fn select(self, yes: Expr, no: Expr) -> Expr {
        Expr::Select(Box::new([self, yes, no]))
    }

    /// Sum of the terms; 0 of that type where there are none.
    pub fn sum(terms: impl IntoIterator<Item = Expr>, ty: Type) -> Expr {
        terms.into_iter().reduce(|x, y| x + y).unwrap_or(Expr::Number(0, ty))
    }

    /// Direct subexpressions of an expression.
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

impl Slot {
    /// Reads the argument's first word, converted to `ty`.
    pub fn read(&self, ty: Type) -> Expr {
        Expr::Param(self.clone()).to(ty)
    }
}

impl Routine {
    /// Call with these arguments.
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
