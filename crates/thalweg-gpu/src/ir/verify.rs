//! Verifier of kernels: checks the IR's invariants.
//!
//! * Every name is declared before its use, once in a scope, and used as what it is: with its type, with an index for
//!   each dimension, a constant index within bounds. `Let` declares an immutable variable. The value of a declaration
//!   does not mention the declared name: in most languages that refers to the new one already.
//! * Operands of an operation have one type, conditions are bool, indices integers. Types change by explicit
//!   conversions only.
//! * Arguments are declared, and used as what they are.
//! * All threads of a block reach every barrier (barriers are in uniform control flow): conditions and loops around it,
//!   and returns before it, depend on arguments, constants and the block's number alone. A return in a loop is before all
//!   barriers of the loop.

mod action;
mod value;

use crate::ir::verify::value::mentions;
use crate::ir::{Definition, Expr, For, Kernel, Kind, Layout, Name, Slot, Statement, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use thalweg_ir::DType;

/// Checks a kernel.
///
/// # Errors
/// A description of the violated rule.
pub fn verify(kernel: &Kernel) -> Result<(), String> {
    let (params, definitions) = (&kernel.params, &kernel.definitions);
    // Fixed point: a mutable variable counts as uniform until an assignment in divergent control flow, or of a value
    // that differs between threads, is found.
    let mut apart = FxHashSet::default();
    loop {
        let before = apart.len();
        let mut checker =
            Checker { params, definitions, scopes: vec![], same: true, same_words: true, left: false, loops: 0, apart };
        let checked = checker.block(&kernel.body);
        apart = checker.apart;
        if apart.len() == before {
            return checked.map_err(|what| format!("{}: {what}", kernel.name));
        }
    }
}

/// Properties of a declared name.
#[derive(Clone, Debug)]
enum Declared {
    /// Variable: whether it is mutable, and whether it is uniform in a block.
    Value {
        ty: Type,
        changes: bool,
        same: bool,
    },
    /// Array in registers or shared memory, with its dimensions; `None` for dynamic shared memory.
    Elements {
        ty: Type,
        shape: Option<Vec<u32>>,
        shared: bool,
    },
    /// Operand in global memory. For a read-only one, whether its base is uniform in a block.
    Operand {
        ty: Type,
        constant: Option<bool>,
    },
    Function,
    Tree(DType),
    Ticket,
    /// Division with quotient and remainder: whether it is uniform in a block.
    Split {
        same: bool,
    },
}

struct Checker<'a> {
    params: &'a Layout,
    definitions: &'a [Definition],
    scopes: Vec<FxHashMap<Name, Declared>>,
    /// Whether control flow is uniform at the current statement: all threads of the block reach it.
    same: bool,
    /// Whether all threads of a block read their kernel arguments from the same base ([`Statement::Within`]).
    same_words: bool,
    /// Whether some threads of the block have returned before the current statement.
    left: bool,
    /// Number of enclosing loops.
    loops: usize,
    /// Names of mutable variables whose values may differ between threads of a block.
    apart: FxHashSet<Name>,
}

type Checked = Result<(), String>;

fn want(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl Checker<'_> {
    fn known(&self, name: &str) -> Result<&Declared, String> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.ok_or_else(|| format!("`{name}` is not declared"))
    }

    fn declare(&mut self, name: &str, known: Declared) -> Checked {
        let scope = self.scopes.last_mut().expect("statements are in a scope");
        want(scope.insert(name.into(), known).is_none(), || format!("`{name}` is declared twice"))
    }

    fn block(&mut self, body: &[Statement]) -> Checked {
        self.scopes.push(FxHashMap::default());
        body.iter().try_for_each(|s| self.statement(s))?;
        self.scopes.pop();
        Ok(())
    }

    /// Checks statements in uniform (`same`) or divergent control flow, after binding the variable of the loop around
    /// them.
    fn under(&mut self, same: bool, counter: Option<(&str, Type)>, body: &[Statement]) -> Checked {
        let before = self.same;
        self.same &= same;
        self.scopes.push(FxHashMap::default());
        if let Some((name, ty)) = counter {
            self.declare(name, Declared::Value { ty, changes: false, same })?;
        }
        body.iter().try_for_each(|s| self.statement(s))?;
        self.scopes.pop();
        // Control flow is no longer uniform after some threads have returned.
        self.same = before && !self.left;
        Ok(())
    }

    /// Checks a loop with a uniform trip count or not: expressions of each iteration, loop variable, and body.
    fn repeated(
        &mut self,
        same: bool,
        each: &[(&Expr, Type)],
        counter: Option<(&str, Type)>,
        body: &[Statement],
    ) -> Checked {
        // A thread that exits in one iteration does not reach the next.
        let same = same && !breaks(body) && !leaves(body);
        let before = self.same;
        self.same &= same;
        each.iter().try_for_each(|&(x, ty)| self.typed(x, ty))?;
        self.same = before;
        self.loops += 1;
        self.under(same, counter, body)?;
        self.loops -= 1;
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Checked {
        match statement {
            Statement::Let(name, value) | Statement::Variable(name, value) => {
                self.check(value)?;
                want(!mentions(value, name), || format!("`{name}` is declared by what has its name"))?;
                let changes = matches!(statement, Statement::Variable(..));
                let same = self.is_same(value);
                let same = if changes { self.changed(name, same) } else { same };
                self.declare(name, Declared::Value { ty: value.ty(), changes, same })
            }
            Statement::Later(name, ty) => {
                let same = self.changed(name, true);
                self.declare(name, Declared::Value { ty: *ty, changes: true, same })
            }
            Statement::Registers { name, ty, shape } => {
                want(!shape.is_empty() && shape.iter().all(|&n| n > 0), || format!("`{name}` has no elements"))?;
                self.declare(name, Declared::Elements { ty: *ty, shape: Some(shape.clone()), shared: false })
            }
            Statement::Shared { name, ty, shape } => {
                want(self.same, || format!("`{name}` is shared by some threads of a block"))?;
                let shape = (!shape.is_empty()).then(|| shape.clone());
                self.declare(name, Declared::Elements { ty: *ty, shape, shared: true })
            }
            Statement::SharedPart { name, ty, shape, of, at } => {
                let Declared::Elements { ty: Type::Stored(DType::U8), shape: room, shared: true } = self.known(of)?
                else {
                    return Err(format!("`{of}` are no shared bytes"));
                };
                let size = match ty {
                    // Narrow floats are held as f32.
                    Type::Held(DType::BF16 | DType::F16) => 4,
                    Type::Held(dtype) | Type::Stored(dtype) => dtype.size() as u64,
                    other => return Err(format!("elements of `{name}` are {other}")),
                };
                let count = |shape: &[u32]| shape.iter().map(|&n| u64::from(n)).product::<u64>();
                let end = u64::from(*at) + size * count(shape);
                // The size of dynamic shared memory is the class's responsibility.
                let room = room.as_ref().map_or(u64::from(u32::MAX), |room| count(room));
                want(u64::from(*at) % size == 0, || format!("`{name}` begins at {at}, between elements"))?;
                want(end <= room, || format!("`{name}` ends {end} bytes behind the begin of `{of}`"))?;
                self.declare(name, Declared::Elements { ty: *ty, shape: Some(shape.clone()), shared: true })
            }
            Statement::Tree { name, monoid, dtype } => {
                self.defined(Definition::Monoid(*monoid, *dtype))?;
                self.declare(name, Declared::Tree(*dtype))
            }
            Statement::Ticket { name, param } => {
                self.param(param, &[Kind::Address])?;
                want(self.same, || format!("`{name}` is drawn by some threads of a block"))?;
                self.declare(name, Declared::Ticket)
            }
            Statement::Operand { name, ty, param } => {
                self.param(param, &[Kind::Address, Kind::Base])?;
                self.declare(name, Declared::Operand { ty: *ty, constant: None })
            }
            Statement::Constants { name, ty, param } => {
                self.param(param, &[Kind::Address, Kind::Base])?;
                let same = self.same_words;
                self.declare(name, Declared::Operand { ty: *ty, constant: Some(same) })
            }
            Statement::Do(action) => self.action(action),
            Statement::Function { name, argument, body, value } => {
                self.scopes.push(FxHashMap::default());
                self.declare(argument, Declared::Value { ty: Type::I64, changes: false, same: false })?;
                // Calls may be divergent, and the function's body cannot exit a loop around a call.
                let before = (std::mem::replace(&mut self.same, false), std::mem::take(&mut self.loops));
                body.iter().try_for_each(|s| self.statement(s))?;
                self.typed(value, Type::I64)?;
                (self.same, self.loops) = before;
                self.scopes.pop();
                want(!leaves(body), || format!("`{name}` ends a thread"))?;
                self.declare(name, Declared::Function)
            }
            Statement::Split { name, of, param } => {
                self.typed(of, Type::U32)?;
                self.param(param, &[Kind::Divisor])?;
                want(!mentions(of, name), || format!("`{name}` is declared by what has its name"))?;
                let same = self.is_same(of) && self.same_words;
                self.declare(name, Declared::Split { same })
            }
            Statement::Set(place, value) => {
                self.check(place)?;
                self.typed(value, place.ty())?;
                match place {
                    Expr::Element { .. } => Ok(()),
                    Expr::Name(name, _) => {
                        want(matches!(self.known(name)?, Declared::Value { changes: true, .. }), || {
                            format!("`{name}` does not change")
                        })?;
                        let same = self.is_same(value);
                        self.changed(name, same);
                        Ok(())
                    }
                    other => Err(format!("{other} is no place")),
                }
            }
            Statement::LoadVector { to, operand, at, .. } => self.vector(to, operand, at),
            Statement::StoreVector { operand, at, from } => {
                self.written(operand)?;
                self.vector(from, operand, at)
            }
            Statement::Store { operand, at, value } | Statement::SetScratch { name: operand, at, value } => {
                let ty = self.written(operand)?;
                self.position(at)?;
                self.typed(value, ty)
            }
            Statement::Atomic { name, at, value, before, .. } => {
                let of = match self.known(name)? {
                    Declared::Operand { ty, constant: None } => *ty,
                    Declared::Elements { shared: true, .. } => {
                        let ty = self.shared(name)?;
                        self.element(name, std::slice::from_ref(at), ty, 0)?;
                        ty
                    }
                    _ => return Err(format!("`{name}` has no elements that others may change")),
                };
                self.position(at)?;
                self.check(value)?;
                let (Type::Held(has) | Type::Stored(has), Type::Held(is) | Type::Stored(is)) = (of, value.ty()) else {
                    return Err(format!("{value} is {}, and elements are {of}", value.ty()));
                };
                want(has.size() == is.size(), || format!("{value} is {is} where elements are {has}"))?;
                match before {
                    Some(before) if mentions(value, before) || mentions(at, before) || name == before => {
                        Err(format!("`{before}` is declared by what has its name"))
                    }
                    Some(name) => self.declare(name, Declared::Value { ty: value.ty(), changes: false, same: false }),
                    None => Ok(()),
                }
            }
            Statement::Fault(at) => self.typed(at, Type::U64),
            Statement::For(turns) => self.turns(turns),
            Statement::While(condition, body) => {
                self.typed(condition, Type::BOOL)?;
                let same = self.is_same(condition);
                self.repeated(same, &[(condition, Type::BOOL)], None, body)
            }
            Statement::If(condition, then, otherwise) => {
                self.typed(condition, Type::BOOL)?;
                let same = self.is_same(condition);
                self.under(same, None, then)?;
                self.under(same, None, otherwise)
            }
            Statement::Scope(body) => self.block(body),
            Statement::Within(words, body) => {
                self.typed(words, Type::U32)?;
                let before = self.same_words;
                self.same_words &= self.is_same(words);
                self.block(body)?;
                self.same_words = before;
                Ok(())
            }
            Statement::Break => want(self.loops > 0, || "a break is in no loop".into()),
            Statement::Return => {
                self.left |= !self.same;
                Ok(())
            }
            Statement::Barrier => want(self.same, || "some threads of a block do not come to a barrier".into()),
            Statement::WarpBarrier => Ok(()),
        }
    }

    /// Records an assignment, of a uniform value or not; returns whether the variable is uniform from there on.
    fn changed(&mut self, name: &str, same: bool) -> bool {
        if !(same && self.same) {
            self.apart.insert(name.into());
        }
        !self.apart.contains(name)
    }

    fn turns(&mut self, turns: &For) -> Checked {
        let For { name, ty, from, below, step, body, .. } = turns;
        want(ty.is_index(), || format!("`{name}` counts in {ty}"))?;
        let bounds = [from, below, step];
        bounds.into_iter().try_for_each(|x| self.typed(x, *ty))?;
        want(!bounds.into_iter().any(|x| mentions(x, name)), || format!("`{name}` is declared by what has its name"))?;
        let same = bounds.into_iter().all(|x| self.is_same(x));
        self.repeated(same, &[(below, *ty), (step, *ty)], Some((name, *ty)), body)
    }

    /// Checks that an argument is declared, and is of one of these kinds, if there are any.
    fn param(&self, param: &Slot, kinds: &[Kind]) -> Checked {
        want(self.params.slots().contains(param), || format!("`{param}` is no argument"))?;
        let fits = kinds.is_empty() || kinds.contains(&param.kind());
        want(fits, || format!("`{param}` is {:?}, where {kinds:?} is wanted", param.kind()))
    }

    fn operand(&self, name: &str) -> Result<Type, String> {
        match self.known(name)? {
            Declared::Operand { ty, .. } => Ok(*ty),
            _ => Err(format!("`{name}` is no operand")),
        }
    }

    /// Element type of an operand, which must not be read-only.
    fn written(&self, name: &str) -> Result<Type, String> {
        let constant = matches!(self.known(name)?, Declared::Operand { constant: Some(_), .. });
        want(!constant, || format!("`{name}` is constant"))?;
        self.operand(name)
    }
}

/// Whether a thread may return in these statements.
fn leaves(body: &[Statement]) -> bool {
    body.iter().any(|s| match s {
        Statement::Return => true,
        Statement::If(_, then, otherwise) => leaves(then) || leaves(otherwise),
        Statement::For(For { body, .. })
        | Statement::While(_, body)
        | Statement::Within(_, body)
        | Statement::Scope(body) => leaves(body),
        _ => false,
    })
}

/// Whether these statements may exit the loop around them.
fn breaks(body: &[Statement]) -> bool {
    body.iter().any(|s| match s {
        Statement::Break => true,
        Statement::If(_, then, otherwise) => breaks(then) || breaks(otherwise),
        Statement::Scope(body) | Statement::Within(_, body) => breaks(body),
        _ => false,
    })
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
