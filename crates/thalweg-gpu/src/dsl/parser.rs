//! Parser state: the token position, and scopes of names.

use crate::dsl::tokens::{Token, tokens};
use crate::dsl::{Function, Given, Named, Procedure};
use crate::ir::{Expr, Statement, Type};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::DType;

pub(super) type Read<T> = Result<T, String>;

/// Memory model of an operand's accesses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Ordered: accesses keep their order, since other operands may alias it.
    Ordered,
    /// Scratch memory: accesses may be reordered, since no other operand aliases it.
    Scratch,
}

/// Parsed expression. `free`: it is an untyped literal, which takes the type of the other operand.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) expr: Expr,
    pub(super) free: bool,
}

/// A macro (`fn` or `proc`), expanded at each use: its parameters, the position of its body, and the scopes around its
/// definition.
#[derive(Clone)]
pub(super) struct Macro<'t> {
    pub(super) parameters: Vec<&'t str>,
    body: usize,
    around: Vec<usize>,
}

/// Meaning of a name in a scope of the text.
#[derive(Clone)]
pub(super) enum Meaning<'t> {
    Value(Value),
    /// Variable, with its name in the program and its type.
    Variable(String, Type),
    /// Array of registers or shared memory, with its name in the program and its element type.
    Elements(String, Type),
    Operand(String, Type, Memory),
    Ticket(String),
    Type(Type),
    Function(Function<'t>),
    Procedure(Procedure<'t>),
    /// Statements that replace the name.
    Given(Rc<[Statement]>),
    Fn(Macro<'t>),
    Proc(Macro<'t>),
}

pub(super) struct Parser<'t> {
    tokens: Vec<(Token<'t>, usize)>,
    pub(super) params: Rc<Named>,
    /// Index of the next token.
    pub(super) at: usize,
    /// All scopes so far, and the indices of the enclosing ones.
    scopes: Vec<FxHashMap<&'t str, Meaning<'t>>>,
    around: Vec<usize>,
    /// Number of `proc` uses so far, and the number of the use that is being expanded.
    pub(super) uses: usize,
    pub(super) within: Option<usize>,
    /// Nesting depth of macro uses.
    deep: usize,
}

/// Maximum nesting depth of macro uses.
const DEEPEST: usize = 32;

const TYPES: [DType; 12] = [
    DType::Bool,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F32,
    DType::F64,
    DType::BF16,
];

impl<'t> Parser<'t> {
    pub(super) fn new(given: &FxHashMap<&'t str, Given<'t>>, params: Rc<Named>, text: &'t str) -> Read<Parser<'t>> {
        let mut names: FxHashMap<_, _> = TYPES.iter().map(|d| (d.name(), Meaning::Type(Type::Held(*d)))).collect();
        names.extend(given.iter().map(|(name, given)| {
            let meaning = match given {
                Given::Number(n) => Meaning::Value(Value { expr: Expr::Number(*n, Type::I32), free: true }),
                Given::Type(ty) => Meaning::Type(*ty),
                Given::Function(f) => Meaning::Function(f.clone()),
                Given::Procedure(f) => Meaning::Procedure(f.clone()),
                Given::Value(expr) => Meaning::Value(Value { expr: expr.clone(), free: false }),
                Given::Variable(Expr::Name(own, ty)) => Meaning::Variable(own.clone(), *ty),
                Given::Variable(expr) => Meaning::Value(Value { expr: expr.clone(), free: false }),
                Given::Elements(ty) => Meaning::Elements((*name).into(), *ty),
                Given::Operand(ty) => Meaning::Operand((*name).into(), *ty, Memory::Ordered),
                Given::Statements(all) => Meaning::Given(all.clone()),
            };
            (*name, meaning)
        }));
        let tokens = tokens(text)?;
        let scopes = vec![names, FxHashMap::default()];
        Ok(Parser { tokens, params, at: 0, scopes, around: vec![0, 1], uses: 0, within: None, deep: 0 })
    }

    /// Token at offset `by` from the position.
    pub(super) fn ahead(&self, by: usize) -> Token<'t> {
        self.tokens.get(self.at + by).map_or(Token::End, |t| t.0)
    }

    pub(super) fn next(&mut self) -> Token<'t> {
        let token = self.ahead(0);
        self.at += 1;
        token
    }

    /// Error at the current line of the text.
    pub(super) fn wrong<T>(&self, what: impl std::fmt::Display) -> Read<T> {
        let line = self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)].1;
        Err(format!("line {line}: {what}"))
    }

    /// Consumes the next token if it is the sign or word `what`; returns whether it was.
    pub(super) fn is(&mut self, what: &str) -> bool {
        let here = matches!(self.ahead(0), Token::Sign(s) | Token::Name(s) if s == what);
        self.at += usize::from(here);
        here
    }

    pub(super) fn want(&mut self, sign: &str) -> Read<()> {
        let found = self.ahead(0);
        if self.is(sign) { Ok(()) } else { self.wrong(format!("`{sign}` is wanted, and not {found:?}")) }
    }

    pub(super) fn name(&mut self) -> Read<&'t str> {
        match self.next() {
            Token::Name(name) => Ok(name),
            other => self.wrong(format!("a name is wanted, and not {other:?}")),
        }
    }

    /// Parses a list in parentheses, separated by commas.
    pub(super) fn listed<T>(&mut self, read: impl Fn(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        self.want("(")?;
        let mut all = vec![];
        while !self.is(")") {
            if !all.is_empty() {
                self.want(",")?;
            }
            all.push(read(self)?);
        }
        Ok(all)
    }

    pub(super) fn meaning(&self, name: &str) -> Option<Meaning<'t>> {
        self.around.iter().rev().find_map(|&scope| self.scopes[scope].get(name).cloned())
    }

    /// Binds a name in the innermost scope.
    pub(super) fn means(&mut self, name: &'t str, meaning: Meaning<'t>) {
        let scope = *self.around.last().expect("a text is in a scope");
        self.scopes[scope].insert(name, meaning);
    }

    /// Calls a parsing function in a new scope.
    pub(super) fn scoped<T>(
        &mut self,
        names: FxHashMap<&'t str, Meaning<'t>>,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<T> {
        self.around.push(self.scopes.len());
        self.scopes.push(names);
        let result = read(self);
        self.around.pop();
        result
    }

    /// Name of a variable in the program; within a `proc` it is made unique.
    pub(super) fn own(&self, name: &str) -> String {
        self.within.map_or_else(|| name.into(), |n| format!("{name}_{n}"))
    }

    pub(super) fn ty(&mut self) -> Read<Type> {
        let name = self.name()?;
        if name == "stored" {
            return match self.ty()? {
                Type::Held(dtype) => Ok(Type::Stored(dtype)),
                other => self.wrong(format!("{other} is not stored")),
            };
        }
        match self.meaning(name) {
            Some(Meaning::Type(ty)) => Ok(ty),
            _ => self.wrong(format!("`{name}` is no type")),
        }
    }

    /// Parses the name and parameters of a macro, and skips its body up to `close`.
    pub(super) fn definition(&mut self, open: &str, close: &str) -> Read<(&'t str, Macro<'t>)> {
        let name = self.name()?;
        let parameters = self.listed(Parser::name)?;
        self.want(open)?;
        let body = self.at;
        let mut deep = 0usize;
        loop {
            match self.next() {
                Token::Sign(s) if s == close && deep == 0 => break,
                Token::Sign("{") => deep += 1,
                Token::Sign("}") => deep = deep.saturating_sub(1),
                Token::End => return self.wrong(format!("`{name}` has no end")),
                _ => {}
            }
        }
        Ok((name, Macro { parameters, body, around: self.around.clone() }))
    }

    /// Parses the body of a macro with its parameters bound, in the scopes of its definition.
    pub(super) fn inside<T>(
        &mut self,
        of: &Macro<'t>,
        meanings: FxHashMap<&'t str, Meaning<'t>>,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<T> {
        if self.deep == DEEPEST {
            return self.wrong("something stands for itself");
        }
        self.deep += 1;
        let around = std::mem::replace(&mut self.around, of.around.clone());
        let back = std::mem::replace(&mut self.at, of.body);
        let result = self.scoped(meanings, read)?;
        self.deep -= 1;
        self.at = back;
        self.around = around;
        Ok(result)
    }
}
