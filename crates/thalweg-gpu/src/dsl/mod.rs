//! DSL for kernels that are written by hand; programs in it become statements of [`crate::ir`].
//!
//! ```text
//! operand from: S = param from;             operand at the address in a kernel argument; `scratch` is memory that nothing
//! scratch counts: u32 = param counts;       else aliases, `constant` memory that no thread of the launch writes
//! shared sums: u32[WARPS];                  shared memory
//! let n = param points, t = thread;         immutable values; `param dims[0].stride` is an argument of a group
//! var pairs: u64[8]; var before = u32(0);   registers, and a mutable variable
//! fn slot(s) = s + s / 16;                  an expression for each use
//! proc sum_to(x, sums) { .. }               statements for each use
//! for k: u32 in 0..8 unroll { .. }          also `by step`, `unroll(4)`, `rolled`
//! while left > 1 { .. }
//! if a < b { .. } else { .. }               `when C { .. } else { .. }` chooses as the text is read
//! x += y; from[i] = S(value(raw)); barrier; warp_barrier; fence; break; return;
//! copy_ahead(sums[i], from[j], 16);         and others that fill registers or shared memory
//! ```
//!
//! A type called with a value converts it: integers are converted, `S(x)` packs a value for memory, `value(raw)`
//! unpacks it, and `bits(x)` are the bits of a value. Literals take the type of the other operand. There are no
//! implicit conversions. Types, numbers and functions that depend on a class are bound from outside ([`Text`]).
//!
//! Always true: macros are hygienic: names of a `proc` are its own, whatever its arguments mention.

mod expressions;
mod parser;
mod statements;
mod tokens;

use crate::dsl::parser::Parser;
use crate::ir::{Expr, Layout, Slot, Statement, Type};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Rust function that is bound to a name: from argument expressions to an expression.
type Function<'a> = Rc<dyn Fn(&[Expr]) -> Expr + 'a>;
/// Rust procedure that is bound to a name: from argument expressions to statements.
type Procedure<'a> = Rc<dyn Fn(&[Expr]) -> Vec<Statement> + 'a>;

/// Meaning of a name that the caller binds before a text is parsed.
#[derive(Clone)]
enum Given<'a> {
    Number(i64),
    Type(Type),
    Function(Function<'a>),
    Procedure(Procedure<'a>),
    Value(Expr),
    Variable(Expr),
    Elements(Type),
    Operand(Type),
    Statements(Rc<[Statement]>),
}

/// Kernel arguments that a text may read, by name.
type Named = FxHashMap<String, Slot>;

/// Environment of a DSL text: the names that the caller binds before the text is parsed.
#[derive(Clone, Default)]
pub struct Text<'a> {
    given: FxHashMap<&'a str, Given<'a>>,
    params: Rc<Named>,
}

impl<'a> Text<'a> {
    /// Creates an environment without bindings.
    pub fn new() -> Text<'a> {
        Text::default()
    }

    fn with(mut self, name: &'a str, given: Given<'a>) -> Text<'a> {
        self.given.insert(name, given);
        self
    }

    /// Declares the kernel arguments that `param` reads.
    pub fn params(mut self, layout: &Layout) -> Text<'a> {
        self.params = Rc::new(layout.slots().iter().map(|slot| (slot.name().into(), slot.clone())).collect());
        self
    }

    /// Binds an integer literal, which takes the type of the other operand.
    pub fn number(self, name: &'a str, n: impl TryInto<i64>) -> Text<'a> {
        let n = n.try_into().unwrap_or_else(|_| panic!("{name} fits 63 bits"));
        self.with(name, Given::Number(n))
    }

    /// Binds a condition for `when`: 1 where it holds, else 0.
    pub fn holds(self, name: &'a str, holds: bool) -> Text<'a> {
        self.number(name, i64::from(holds))
    }

    /// Binds a name to a type.
    pub fn ty(self, name: &'a str, ty: Type) -> Text<'a> {
        self.with(name, Given::Type(ty))
    }

    /// Binds a name to a function from argument expressions to an expression.
    pub fn function(self, name: &'a str, f: impl Fn(&[Expr]) -> Expr + 'a) -> Text<'a> {
        self.with(name, Given::Function(Rc::new(f)))
    }

    /// Binds a value, or a variable of the surrounding program for reading.
    pub fn value(self, name: &'a str, value: Expr) -> Text<'a> {
        self.with(name, Given::Value(value))
    }

    /// Binds a variable of the surrounding program for assignment.
    pub fn variable(self, name: &'a str, variable: Expr) -> Text<'a> {
        self.with(name, Given::Variable(variable))
    }

    /// Declares an array of registers or shared memory of the surrounding program, under its own name.
    pub fn elements(self, name: &'a str, ty: Type) -> Text<'a> {
        self.with(name, Given::Elements(ty))
    }

    /// Declares an operand of the surrounding program, under its own name.
    pub fn operand(self, name: &'a str, ty: Type) -> Text<'a> {
        self.with(name, Given::Operand(ty))
    }

    /// Binds statements that replace the name where it is a statement. Their declarations are visible only to other
    /// bound statements.
    pub fn given(self, name: &'a str, statements: Vec<Statement>) -> Text<'a> {
        self.with(name, Given::Statements(statements.into()))
    }

    /// Binds a name to a procedure, which builds statements from argument expressions.
    pub fn procedure(self, name: &'a str, f: impl Fn(&[Expr]) -> Vec<Statement> + 'a) -> Text<'a> {
        self.with(name, Given::Procedure(Rc::new(f)))
    }

    /// Parses texts, joined in order, to statements.
    ///
    /// # Panics
    /// When a text has an error, with its line. All texts are part of Thalweg, and tests parse each of them.
    pub fn statements(&self, texts: &[&str]) -> Vec<Statement> {
        let text = texts.join("\n");
        let read = Parser::new(&self.given, self.params.clone(), &text).and_then(|mut parser| parser.all());
        read.unwrap_or_else(|what| {
            let number = what.strip_prefix("line ").and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
            let line = number.and_then(|n| text.lines().nth(n - 1)).unwrap_or_default();
            panic!("a program's text, {what}: {}", line.trim())
        })
    }
}

#[cfg(test)]
mod tests;
