//! Kernels of a GPU as programs: statements over typed values, of which a device's own language is a printing.
//!
//! In: what `write` makes of a skeleton. Out: a [`Kernel`], which `verify` checks and `dump` shows. It names operands by
//! the word with their address and a position behind it, never by an address that it computes.
//!
//! Always true: an expression knows its type by itself ([`Expr::ty`]).

mod action;
mod dump;
mod expr;
mod routine;
mod verify;

pub use action::{Action, Left, Math, Turn};
pub use expr::{Binary, Expr};
pub use routine::{Definition, Routine, Shuffle};
pub use verify::verify;

use thalweg_ir::{DType, Monoid};

/// The name of a variable, an array, an operand or a function of a kernel.
pub type Name = String;

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A value in a register: narrow floats are the f32 that they stand for.
    Held(DType),
    /// An element as it is in memory.
    Stored(DType),
    /// The state of an online fold ([`Definition::State`]).
    State(u16),
    /// What a scan accumulates ([`Definition::Scan`]).
    Wide(u16),
    /// A matrix in shared memory as warpgroups take it ([`Expr::Matrix`]).
    Matrix,
}

impl Type {
    /// Conditions.
    pub const BOOL: Type = Type::Held(DType::Bool);
    /// Numbers of threads, blocks and lanes.
    pub const U32: Type = Type::Held(DType::U32);
    /// Positions, where all of a launch fit.
    pub const I32: Type = Type::Held(DType::I32);
    /// Positions.
    pub const I64: Type = Type::Held(DType::I64);
    /// Words.
    pub const U64: Type = Type::Held(DType::U64);

    /// The type of positions, of 64 bits or of 32.
    pub fn index(wide: bool) -> Type {
        if wide { Type::I64 } else { Type::I32 }
    }

    /// Whether it is an integer that positions are computed in.
    pub fn is_index(self) -> bool {
        matches!(self, Type::I32 | Type::U32 | Type::I64 | Type::U64)
    }
}

/// Whether a loop is written out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unroll {
    /// All of its turns.
    All,
    /// Not: nothing is known of how many there are.
    Never,
    /// So many of its turns at a time.
    Times(u32),
    /// As the compiler likes.
    Free,
}

/// A counting loop.
#[derive(Clone, PartialEq, Debug)]
pub struct For {
    /// The variable that counts.
    pub name: Name,
    /// Its type.
    pub ty: Type,
    /// Where it begins.
    pub from: Expr,
    /// What it stays below.
    pub below: Expr,
    /// How far it goes each turn.
    pub step: Expr,
    /// Whether it is written out.
    pub unroll: Unroll,
    /// A turn.
    pub body: Vec<Statement>,
}

/// What is done with an element of memory that others may do something with at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Atomic {
    /// The sum.
    Add,
    /// The larger one.
    Max,
    /// The smaller one.
    Min,
    /// The new one.
    Exchange,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// A variable that stays as it is.
    Let(Name, Expr),
    /// A variable that changes, with its first value.
    Variable(Name, Expr),
    /// A variable that changes, and has no value yet.
    Later(Name, Type),
    /// Elements in the registers of a thread, over some dimensions, the last of which is one of lanes: a vector.
    Registers {
        /// Their name.
        name: Name,
        /// The type of one.
        ty: Type,
        /// Sizes.
        shape: Vec<u32>,
    },
    /// Elements that the threads of a block share, over some dimensions; without any as many as the launch asks for, bytes
    /// aligned as every copy wants them.
    Shared {
        /// Their name.
        name: Name,
        /// The type of one.
        ty: Type,
        /// Sizes.
        shape: Vec<u32>,
    },
    /// Others in a part of those, which are bytes.
    SharedPart {
        /// Their name.
        name: Name,
        /// The type of one.
        ty: Type,
        /// Sizes.
        shape: Vec<u32>,
        /// Whose part.
        of: Name,
        /// Bytes before it.
        at: u32,
    },
    /// Results of blocks of a row, put together pairwise as they come: the order that strict kernels keep to.
    Tree {
        /// Its name.
        name: Name,
        /// How.
        monoid: Monoid,
        /// Of the results.
        dtype: DType,
    },
    /// A block's number in the order in which blocks begin, so that those before it have begun, too ([`Expr::Drawn`]).
    Ticket {
        /// Its name.
        name: Name,
        /// The word with the address where blocks tell each other.
        word: usize,
    },
    /// An operand: elements from the address that is in a word.
    Operand {
        /// Its name.
        name: Name,
        /// The type of one.
        ty: Type,
        /// The word.
        word: usize,
    },
    /// The same of elements that no thread of the launch writes: what all threads of a block read of one place is the same.
    Constants {
        /// Its name.
        name: Name,
        /// The type of one.
        ty: Type,
        /// The word.
        word: usize,
    },
    /// A function of a position, which may use the words.
    Function {
        /// Its name.
        name: Name,
        /// Its argument, an i64.
        argument: Name,
        /// What it does.
        body: Vec<Statement>,
        /// What it gives, an i64.
        value: Expr,
    },
    /// A number taken apart by the divisor that stands in a word and the next one ([`crate::space::divisor`]).
    Split {
        /// What quotient and remainder are asked of.
        name: Name,
        /// The number, a u32.
        of: Expr,
        /// The first word.
        word: usize,
    },
    /// A variable, or an element of registers or of shared memory, set to something.
    Set(Expr, Expr),
    /// A vector of registers filled from memory, which is aligned for it.
    LoadVector {
        /// The registers, and indices of all dimensions but the last.
        to: (Name, Vec<Expr>),
        /// The operand.
        operand: Name,
        /// The position of the first element.
        at: Expr,
        /// Whether other blocks of the launch have written it: what a first-level cache has may be old.
        fresh: bool,
    },
    /// The same to memory.
    StoreVector {
        /// The operand.
        operand: Name,
        /// The position of the first element.
        at: Expr,
        /// The registers, and indices of all dimensions but the last.
        from: (Name, Vec<Expr>),
    },
    /// An element to memory.
    Store {
        /// The operand.
        operand: Name,
        /// Its position.
        at: Expr,
        /// The element.
        value: Expr,
    },
    /// An element to scratch memory, which lies over nothing else: in any order with other memory's loads and stores.
    SetScratch {
        /// The operand.
        name: Name,
        /// Its position.
        at: Expr,
        /// The element.
        value: Expr,
    },
    /// A routine.
    Do(Action),
    /// An element of memory, or of shared memory, changed though others may change it at the same time.
    Atomic {
        /// How.
        op: Atomic,
        /// The operand or the shared elements.
        name: Name,
        /// Its position.
        at: Expr,
        /// What with.
        value: Expr,
        /// The variable that is what was there before.
        before: Option<Name>,
    },
    /// An index out of range is told where this address says.
    Fault(Expr),
    /// A loop.
    For(For),
    /// A loop as long as a condition holds.
    While(Expr, Vec<Statement>),
    /// What is done where a condition holds, and where not.
    If(Expr, Vec<Statement>, Vec<Statement>),
    /// Statements with names of their own.
    Scope(Vec<Statement>),
    /// The same, whose words are counted from that number on, a u32.
    Within(Expr, Vec<Statement>),
    /// The end of the loop around it.
    Break,
    /// The end of a thread.
    Return,
    /// All threads of the block come here before one goes on.
    Barrier,
    /// All threads of the warp do.
    WarpBarrier,
}

impl Statement {
    /// What is done where a condition holds.
    pub fn when(condition: Expr, then: Vec<Statement>) -> Statement {
        Statement::If(condition, then, vec![])
    }

    /// A loop over the lanes of a vector, `v`.
    pub fn lanes(lanes: usize, unroll: Unroll, body: Vec<Statement>) -> Statement {
        Statement::count("v", lanes, unroll, body)
    }

    /// A loop of so many turns.
    pub fn count(name: &str, turns: usize, unroll: Unroll, body: Vec<Statement>) -> Statement {
        let number = |n: usize| Expr::Number(n as i64, Type::I32);
        let (from, below, step) = (number(0), number(turns), number(1));
        Statement::For(For { name: name.into(), ty: Type::I32, from, below, step, unroll, body })
    }
}

/// A kernel: what each thread does. Its argument is an array of words of 64 bits.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: &'static str,
    /// Threads of a block, along one dimension.
    pub block: u32,
    /// Blocks that a multiprocessor is to hold, if that is said.
    pub blocks: Option<u32>,
    /// Words of the argument.
    pub words: usize,
    /// What its routines are made of.
    pub definitions: Vec<Definition>,
    /// What a thread does.
    pub body: Vec<Statement>,
}

impl Kernel {
    /// Whether boxes are copied by maps that are part of the argument.
    pub fn has_maps(&self) -> bool {
        fn any(body: &[Statement]) -> bool {
            body.iter().any(|s| match s {
                Statement::Do(Action::MapCopy { .. }) => true,
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
