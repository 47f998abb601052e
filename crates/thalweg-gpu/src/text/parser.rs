//! Where a text is being read, and what its names stand for.

use super::tokens::{Token, tokens};
use super::{Function, Given, Procedure};
use crate::ir::{Expr, Statement, Type};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::DType;

pub(super) type Read<T> = Result<T, String>;

/// How an operand's elements are read and written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// In order, since others may lie over it.
    Ordered,
    /// In any order.
    Scratch,
}

/// A value, and whether it is a number that has the type of what it meets.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) expr: Expr,
    pub(super) free: bool,
}

/// An expression or statements that stand for each of their uses: names of arguments, where the body begins, and the scopes
/// around it.
#[derive(Clone)]
pub(super) struct Macro<'t> {
    pub(super) parameters: Vec<&'t str>,
    body: usize,
    around: Vec<usize>,
}

/// What a name stands for.
#[derive(Clone)]
pub(super) enum Meaning<'t> {
    Value(Value),
    /// A variable, by its name in the program.
    Variable(String, Type),
    /// Registers or shared memory.
    Elements(String, Type),
    Operand(String, Type, Memory),
    Ticket(String),
    Type(Type),
    Function(Function<'t>),
    Procedure(Procedure<'t>),
    /// Statements as they are.
    Given(Rc<[Statement]>),
    Fn(Macro<'t>),
    Proc(Macro<'t>),
}

pub(super) struct Parser<'t> {
    tokens: Vec<(Token<'t>, usize)>,
    /// The next one.
    pub(super) at: usize,
    /// All that there were, and the numbers of those around.
    scopes: Vec<FxHashMap<&'t str, Meaning<'t>>>,
    around: Vec<usize>,
    /// Uses of procs so far, and the one that is being read.
    pub(super) uses: usize,
    pub(super) within: Option<usize>,
    /// Uses of `fn`s and procs around.
    deep: usize,
}

/// Uses in each other at most.
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
    pub(super) fn new(given: &FxHashMap<&'t str, Given<'t>>, text: &'t str) -> Read<Parser<'t>> {
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
        Ok(Parser { tokens, at: 0, scopes, around: vec![0, 1], uses: 0, within: None, deep: 0 })
    }

    /// What stands so many tokens further.
    pub(super) fn ahead(&self, by: usize) -> Token<'t> {
        self.tokens.get(self.at + by).map_or(Token::End, |t| t.0)
    }

    pub(super) fn next(&mut self) -> Token<'t> {
        let token = self.ahead(0);
        self.at += 1;
        token
    }

    /// What is wrong, with the line.
    pub(super) fn wrong<T>(&self, what: impl std::fmt::Display) -> Read<T> {
        let line = self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)].1;
        Err(format!("line {line}: {what}"))
    }

    /// Whether that sign or word stands here; then it is behind.
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

    /// What stands in brackets, with commas between.
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

    /// Gives a name a meaning from here on.
    pub(super) fn means(&mut self, name: &'t str, meaning: Meaning<'t>) {
        let scope = *self.around.last().expect("a text is in a scope");
        self.scopes[scope].insert(name, meaning);
    }

    /// Reads with names of its own.
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

    /// The name in the program: those of a proc are its own.
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

    /// The parameters and the body of a macro, which ends where `end` finds it.
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

    /// Reads the body of a macro, whose parameters have these meanings, where it was defined.
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
