//! Intermediate representation of GPU kernels: statements over typed values, printed in a device's own language.
//!
//! In: the programs that families emit from class keys. Out: a [`Kernel`], which `verify` checks and `dump` prints. It
//! accesses memory by the argument with an operand's address and an offset, never by a computed address.
//!
//! Always true: the type of an expression follows from the expression alone ([`Expr::ty`]).

mod action;
mod dump;
mod expr;
mod layout;
mod routine;
mod verify;

pub use crate::ir::action::Action;
pub use crate::ir::action::Left;
pub use crate::ir::action::Math;
pub use crate::ir::action::Rotation;
pub use crate::ir::expr::Binary;
pub use crate::ir::expr::Expr;
pub use crate::ir::layout::Kind;
pub use crate::ir::layout::Layout;
pub use crate::ir::layout::Slot;
pub use crate::ir::routine::Definition;
pub use crate::ir::routine::Routine;
pub use crate::ir::routine::Shuffle;
pub use crate::ir::verify::verify;

use thalweg_ir::{DType, Monoid};

/// Name of a variable, an array, an operand or a function of a kernel.
pub type Name = String;

/// Type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// Value in a register. Narrow floats are held as f32.
    Held(DType),
    /// Element in its memory format.
    Stored(DType),
    /// State of an online fold ([`Definition::State`]).
    State(u16),
    /// Accumulator of a scan ([`Definition::Scan`]).
    Wide(u16),
    /// Descriptor of a matrix in shared memory, an operand of `wgmma` ([`Expr::Matrix`]).
    Matrix,
}

impl Type {
    /// Type of conditions.
    pub const BOOL: Type = Type::Held(DType::Bool);
    /// Type of thread, block and lane numbers.
    pub const U32: Type = Type::Held(DType::U32);
    /// Type of indices where all indices of a launch fit 32 bits.
    pub const I32: Type = Type::Held(DType::I32);
    /// Type of indices that may need 64 bits.
    pub const I64: Type = Type::Held(DType::I64);
    /// Type of addresses, and of a kernel-argument word.
    pub const U64: Type = Type::Held(DType::U64);

    /// Type of indices: 64 bits if `wide`, else 32 bits.
    pub fn index(wide: bool) -> Type {
        if wide { Type::I64 } else { Type::I32 }
    }

    /// Whether the type is an integer type of index arithmetic.
    pub fn is_index(self) -> bool {
        matches!(self, Type::I32 | Type::U32 | Type::I64 | Type::U64)
    }
}

/// Unrolling of a loop by the compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unroll {
    /// Full unrolling by the compiler.
    All,
    /// No unrolling, since the trip count is unknown.
    Never,
    /// Unrolling by this factor.
    Times(u32),
    /// Unrolling at the compiler's choice.
    Free,
}

/// Counting loop.
#[derive(Clone, PartialEq, Debug)]
pub struct For {
    /// Name of the loop variable.
    pub name: Name,
    /// Type of the loop variable.
    pub ty: Type,
    /// First value of the loop variable.
    pub from: Expr,
    /// Exclusive upper bound of the loop variable.
    pub below: Expr,
    /// Increment of the loop variable.
    pub step: Expr,
    /// Unrolling of the loop by the compiler.
    pub unroll: Unroll,
    /// Body of an iteration.
    pub body: Vec<Statement>,
}

/// Operation of an atomic update.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Atomic {
    /// Addition.
    Add,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Exchange.
    Exchange,
}

/// Statement of the GPU IR.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// Immutable variable.
    Let(Name, Expr),
    /// Mutable variable with its initial value.
    Variable(Name, Expr),
    /// Mutable variable without an initial value.
    Later(Name, Type),
    /// Array in the registers of a thread. Its last dimension is a vector of lanes.
    Registers {
        /// Name of the register array.
        name: Name,
        /// Type of the array's elements.
        ty: Type,
        /// Dimensions, the last one for lanes.
        shape: Vec<u32>,
    },
    /// Array in shared memory. Without dimensions it is dynamic shared memory of the size that the launch requests, in
    /// bytes, aligned for every copy.
    Shared {
        /// Name of the shared array.
        name: Name,
        /// Type of the array's elements.
        ty: Type,
        /// Dimensions; none for dynamic shared memory.
        shape: Vec<u32>,
    },
    /// Array that aliases a range of another one in shared memory, whose elements are bytes.
    SharedPart {
        /// Name of the aliasing array.
        name: Name,
        /// Type of the array's elements.
        ty: Type,
        /// Dimensions of the aliasing array.
        shape: Vec<u32>,
        /// Name of the aliased array.
        of: Name,
        /// Offset in the aliased array, in bytes.
        at: u32,
    },
    /// Tree that combines the results of a row's blocks pairwise as they are pushed: the fixed order of strict kernels.
    Tree {
        /// Name of the reduction tree.
        name: Name,
        /// Monoid that combines two results.
        monoid: Monoid,
        /// Dtype of the results.
        dtype: DType,
    },
    /// Ticket of a block: its number in the order in which blocks begin, so that all blocks with lower numbers have
    /// begun ([`Expr::Drawn`]).
    Ticket {
        /// Name of the ticket.
        name: Name,
        /// Address of the exchange buffer.
        param: Slot,
    },
    /// Operand in global memory, at the address in an argument.
    Operand {
        /// Name of the operand.
        name: Name,
        /// Type of the operand's elements.
        ty: Type,
        /// Kernel argument with the operand's address.
        param: Slot,
    },
    /// Read-only operand, which no thread of the launch writes: loads of one element give all threads the same value.
    Constants {
        /// Name of the operand.
        name: Name,
        /// Type of the operand's elements.
        ty: Type,
        /// Kernel argument with the operand's address.
        param: Slot,
    },
    /// Function of an index, which may read kernel arguments.
    Function {
        /// Name of the function.
        name: Name,
        /// Name of the parameter, an i64.
        argument: Name,
        /// Statements before the return.
        body: Vec<Statement>,
        /// Returned value, an i64.
        value: Expr,
    },
    /// Division of a number by the divisor in an argument ([`crate::space::divisor`]).
    Split {
        /// Name by which quotient and remainder are referred to.
        name: Name,
        /// Dividend, a u32.
        of: Expr,
        /// Kernel argument with the divisor.
        param: Slot,
    },
    /// Assignment to a variable, or to an element of registers or of shared memory.
    Set(Expr, Expr),
    /// Vector load from memory, aligned.
    LoadVector {
        /// Destination registers, with indices of all dimensions but the last.
        to: (Name, Vec<Expr>),
        /// Operand to load from.
        operand: Name,
        /// Offset of the first element.
        at: Expr,
        /// Whether other blocks of the launch have written the elements, so that the first-level cache may be stale.
        fresh: bool,
    },
    /// Vector store to memory, aligned.
    StoreVector {
        /// Operand to store to.
        operand: Name,
        /// Offset of the first element.
        at: Expr,
        /// Source registers, with indices of all dimensions but the last.
        from: (Name, Vec<Expr>),
    },
    /// Store of an element to memory.
    Store {
        /// Operand to store to.
        operand: Name,
        /// Offset of the element.
        at: Expr,
        /// Element in memory format.
        value: Expr,
    },
    /// Store to scratch memory, which aliases nothing: it may be reordered with accesses to other memory.
    SetScratch {
        /// Name of the operand, which is in scratch memory.
        name: Name,
        /// Offset of the element.
        at: Expr,
        /// Element in memory format.
        value: Expr,
    },
    /// Call of a routine without a result.
    Do(Action),
    /// Atomic update of an element of global or shared memory.
    Atomic {
        /// Operation of the update.
        op: Atomic,
        /// Operand or shared array.
        name: Name,
        /// Offset of the element.
        at: Expr,
        /// Right operand of the atomic update.
        value: Expr,
        /// Variable that receives the previous value.
        before: Option<Name>,
    },
    /// Report of an out-of-range index to the fault slot at this address.
    Fault(Expr),
    /// Counting loop.
    For(For),
    /// Loop while a condition holds.
    While(Expr, Vec<Statement>),
    /// Conditional: statements where the condition holds, and where not.
    If(Expr, Vec<Statement>, Vec<Statement>),
    /// Block with a scope of its own.
    Scope(Vec<Statement>),
    /// Block whose arguments are this many words, a u32, after those of the layout. Used by launches of several problems.
    Within(Expr, Vec<Statement>),
    /// Exit from the innermost loop.
    Break,
    /// Exit of the thread from the kernel.
    Return,
    /// Barrier of the block (`__syncthreads`).
    Barrier,
    /// Barrier of the warp.
    WarpBarrier,
}

impl Statement {
    /// Conditional without an else branch.
    pub fn when(condition: Expr, then: Vec<Statement>) -> Statement {
        Statement::If(condition, then, vec![])
    }

    /// Loop with variable `v` over the lanes of a vector.
    pub fn lanes(lanes: usize, unroll: Unroll, body: Vec<Statement>) -> Statement {
        Statement::count("v", lanes, unroll, body)
    }

    /// Loop of `turns` iterations, whose variable counts from 0.
    pub fn count(name: &str, turns: usize, unroll: Unroll, body: Vec<Statement>) -> Statement {
        let number = |n: usize| Expr::Number(n as i64, Type::I32);
        let (from, below, step) = (number(0), number(turns), number(1));
        Statement::For(For { name: name.into(), ty: Type::I32, from, below, step, unroll, body })
    }
}

/// Kernel of the GPU IR: the program that each thread runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Name of the kernel's function.
    pub name: &'static str,
    /// Threads per block, in one dimension.
    pub block: u32,
    /// Resident blocks per multiprocessor, if specified (launch bounds).
    pub blocks: Option<u32>,
    /// Kernel arguments.
    pub params: Layout,
    /// Definitions that the kernel's routines need.
    pub definitions: Vec<Definition>,
    /// Program of a thread.
    pub body: Vec<Statement>,
}

impl Kernel {
    /// Whether the kernel copies boxes by tensor maps among its arguments (TMA).
    pub fn has_maps(&self) -> bool {
        fn any(body: &[Statement]) -> bool {
            body.iter().any(|s| match s {
                Statement::Do(Action::TensorMapCopy { .. }) => true,
                Statement::If(_, then, otherwise) => any(then) || any(otherwise),
                Statement::For(For { body, .. })
                | Statement::While(_, body)
                | Statement::Scope(body)
                | Statement::Within(_, body) => any(body),
                _ => false,
            })
        }
        any(&self.body)
    }
}
