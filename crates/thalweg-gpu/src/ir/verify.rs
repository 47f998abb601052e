//! What is always true of a kernel, checked.
//!
//! * Every name is declared before its use, once in a scope, and used as what it is: with its type, with an index for
//!   each dimension, a constant index within it. What is declared by `Let` stays as it is. No value mentions the name that it
//!   gets: in most languages that is the new one already.
//! * Operands of an operation have one type, conditions are bool, positions integers; nothing becomes another type but by
//!   an expression that says so.
//! * Words are those of the argument.
//! * All threads of a block come to a barrier: conditions and loops around it, and returns before it, depend on words,
//!   constants and the block's number alone. A return in a loop is before all that is in the loop.

use super::{Action, Binary, Definition, Expr, For, Kernel, Left, Name, Routine, Statement, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use thalweg_ir::{DType, ElementOp};

/// Checks a kernel.
///
/// # Errors
/// What is wrong, in words.
pub fn verify(kernel: &Kernel) -> Result<(), String> {
    let (words, definitions) = (kernel.words, &kernel.definitions);
    // What changes is the same in all threads until it is found to be set in some alone, or to something else in each.
    let mut apart = FxHashSet::default();
    loop {
        let before = apart.len();
        let mut checker =
            Checker { words, definitions, scopes: vec![], same: true, same_words: true, left: false, loops: 0, apart };
        let checked = checker.block(&kernel.body);
        apart = checker.apart;
        if apart.len() == before {
            return checked.map_err(|what| format!("{}: {what}", kernel.name));
        }
    }
}

/// What a name stands for.
#[derive(Clone, Debug)]
enum Known {
    /// A variable: whether it changes, and whether all threads of a block have the same value.
    Value {
        ty: Type,
        changes: bool,
        same: bool,
    },
    /// Registers or shared elements, with their sizes; of shared elements that the launch counts none.
    Elements {
        ty: Type,
        shape: Option<Vec<u32>>,
        shared: bool,
    },
    /// Elements of memory; of those that no thread of the launch writes whether they are the same ones for all threads.
    Operand {
        ty: Type,
        constant: Option<bool>,
    },
    Function,
    Tree(DType),
    Ticket,
    /// A number taken apart, the same in all threads or not.
    Split {
        same: bool,
    },
}

struct Checker<'a> {
    words: usize,
    definitions: &'a [Definition],
    scopes: Vec<FxHashMap<Name, Known>>,
    /// Whether all threads of the block are here.
    same: bool,
    /// Whether all of them count their words from the same number on ([`Statement::Within`]).
    same_words: bool,
    /// Whether some threads have left for good.
    left: bool,
    /// Loops around.
    loops: usize,
    /// Variables, by name, that differ between threads of a block.
    apart: FxHashSet<Name>,
}

type Checked = Result<(), String>;

fn want(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl Checker<'_> {
    fn known(&self, name: &str) -> Result<&Known, String> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.ok_or_else(|| format!("`{name}` is not declared"))
    }

    fn declare(&mut self, name: &str, known: Known) -> Checked {
        let scope = self.scopes.last_mut().expect("statements are in a scope");
        want(scope.insert(name.into(), known).is_none(), || format!("`{name}` is declared twice"))
    }

    fn block(&mut self, body: &[Statement]) -> Checked {
        self.scopes.push(FxHashMap::default());
        body.iter().try_for_each(|s| self.statement(s))?;
        self.scopes.pop();
        Ok(())
    }

    /// Statements that threads of a block run together, or not; in a loop with what it counts.
    fn under(&mut self, same: bool, counter: Option<(&str, Type)>, body: &[Statement]) -> Checked {
        let before = self.same;
        self.same &= same;
        self.scopes.push(FxHashMap::default());
        if let Some((name, ty)) = counter {
            self.declare(name, Known::Value { ty, changes: false, same })?;
        }
        body.iter().try_for_each(|s| self.statement(s))?;
        self.scopes.pop();
        // Where some threads have left for good, those that are left are not all.
        self.same = before && !self.left;
        Ok(())
    }

    /// The turns of a loop, as many in all threads or not: what is computed in each turn, what is counted, and what is done.
    fn repeated(
        &mut self,
        same: bool,
        each: &[(&Expr, Type)],
        counter: Option<(&str, Type)>,
        body: &[Statement],
    ) -> Checked {
        // Who leaves in one turn does not come to the next.
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
                self.declare(name, Known::Value { ty: value.ty(), changes, same })
            }
            Statement::Later(name, ty) => {
                let same = self.changed(name, true);
                self.declare(name, Known::Value { ty: *ty, changes: true, same })
            }
            Statement::Registers { name, ty, shape } => {
                want(!shape.is_empty() && shape.iter().all(|&n| n > 0), || format!("`{name}` has no elements"))?;
                self.declare(name, Known::Elements { ty: *ty, shape: Some(shape.clone()), shared: false })
            }
            Statement::Shared { name, ty, shape } => {
                want(self.same, || format!("`{name}` is shared by some threads of a block"))?;
                let shape = (!shape.is_empty()).then(|| shape.clone());
                self.declare(name, Known::Elements { ty: *ty, shape, shared: true })
            }
            Statement::SharedPart { name, ty, shape, of, at } => {
                let Known::Elements { ty: Type::Stored(DType::U8), shape: room, shared: true } = self.known(of)? else {
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
                // How many there are where the launch says it is for the class to know.
                let room = room.as_ref().map_or(u64::from(u32::MAX), |room| count(room));
                want(u64::from(*at) % size == 0, || format!("`{name}` begins at {at}, between elements"))?;
                want(end <= room, || format!("`{name}` ends {end} bytes behind the begin of `{of}`"))?;
                self.declare(name, Known::Elements { ty: *ty, shape: Some(shape.clone()), shared: true })
            }
            Statement::Tree { name, monoid, dtype } => {
                self.defined(Definition::Monoid(*monoid, *dtype))?;
                self.declare(name, Known::Tree(*dtype))
            }
            Statement::Ticket { name, word } => {
                self.word(*word)?;
                want(self.same, || format!("`{name}` is drawn by some threads of a block"))?;
                self.declare(name, Known::Ticket)
            }
            Statement::Operand { name, ty, word } => {
                self.word(*word)?;
                self.declare(name, Known::Operand { ty: *ty, constant: None })
            }
            Statement::Constants { name, ty, word } => {
                self.word(*word)?;
                let same = self.same_words;
                self.declare(name, Known::Operand { ty: *ty, constant: Some(same) })
            }
            Statement::Do(action) => self.action(action),
            Statement::Function { name, argument, body, value } => {
                self.scopes.push(FxHashMap::default());
                self.declare(argument, Known::Value { ty: Type::I64, changes: false, same: false })?;
                // It is used where some threads are, and in no loop that it could end.
                let before = (std::mem::replace(&mut self.same, false), std::mem::take(&mut self.loops));
                body.iter().try_for_each(|s| self.statement(s))?;
                self.typed(value, Type::I64)?;
                (self.same, self.loops) = before;
                self.scopes.pop();
                want(!leaves(body), || format!("`{name}` ends a thread"))?;
                self.declare(name, Known::Function)
            }
            Statement::Split { name, of, word } => {
                self.typed(of, Type::U32)?;
                self.word(word + 1)?;
                want(!mentions(of, name), || format!("`{name}` is declared by what has its name"))?;
                let same = self.is_same(of) && self.same_words;
                self.declare(name, Known::Split { same })
            }
            Statement::Set(place, value) => {
                self.check(place)?;
                self.typed(value, place.ty())?;
                match place {
                    Expr::Element { .. } => Ok(()),
                    Expr::Name(name, _) => {
                        want(matches!(self.known(name)?, Known::Value { changes: true, .. }), || {
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
                    Known::Operand { ty, constant: None } => *ty,
                    Known::Elements { shared: true, .. } => {
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
                    Some(name) => self.declare(name, Known::Value { ty: value.ty(), changes: false, same: false }),
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

    /// Whether a variable that is set to something, the same in all threads or not, is the same in them from there on.
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

    fn defined(&self, of: Definition) -> Checked {
        want(self.definitions.contains(&of), || format!("{of} is not defined"))
    }

    fn state(&self, l: u16) -> Checked {
        let is = |d: &Definition| matches!(d, Definition::State { number, .. } if *number == l);
        want(self.definitions.iter().any(is), || format!("state {l} is not defined"))
    }

    /// A barrier in shared memory.
    fn barrier(&self, (name, at): &(Name, Expr)) -> Checked {
        want(self.shared(name)? == Type::U64, || format!("`{name}` are no barriers"))?;
        self.position(at)
    }

    /// The type of shared elements.
    fn shared(&self, name: &str) -> Result<Type, String> {
        match self.known(name)? {
            Known::Elements { ty, shared: true, .. } => Ok(*ty),
            _ => Err(format!("`{name}` is not shared")),
        }
    }

    /// The dtype of what a scan is of.
    fn scan(&self, number: u16) -> Result<DType, String> {
        let of = |d: &Definition| match *d {
            Definition::Scan { number: n, dtype, .. } if n == number => Some(dtype),
            _ => None,
        };
        self.definitions.iter().find_map(of).ok_or_else(|| format!("scan {number} is not defined"))
    }

    /// A routine: what it is made of is defined, and its arguments are of its kind.
    fn routine(&self, routine: Routine, args: &[Expr]) -> Checked {
        args.iter().try_for_each(|arg| self.check(arg))?;
        let each = |ty: Type| args.iter().try_for_each(|arg| self.typed(arg, ty));
        let count = match routine {
            Routine::NoState(_) | Routine::Nothing(_) => 0,
            Routine::Combine(..) | Routine::CombineStates(_) | Routine::About(_) => 2,
            Routine::Shuffle(..) | Routine::Accumulated(_) | Routine::Pair(_) | Routine::Further => 2,
            Routine::MultiplyAdd(_) => 3,
            Routine::OwnMean(_) | Routine::AboutMean(_) | Routine::TilesBefore => 4,
            Routine::State(_) => args.len(),
            _ => 1,
        };
        want(args.len() == count, || format!("{routine:?} takes {count} arguments"))?;
        let whole = |arg: &Expr| want(matches!(arg, Expr::Whole(..)), || format!("{arg} are no elements"));
        match routine {
            Routine::Combine(monoid, dtype) | Routine::FoldThreads(monoid, dtype, _) => {
                self.defined(Definition::Monoid(monoid, dtype))?;
                each(Type::Held(dtype))
            }
            Routine::FoldLanes(monoid, dtype) | Routine::FoldWarps(monoid, dtype, _) => {
                self.defined(Definition::Monoid(monoid, dtype))?;
                whole(&args[0])?;
                each(Type::Held(dtype))
            }
            Routine::FirstLane(dtype) | Routine::OwnMean(dtype) => each(Type::Held(dtype)),
            Routine::NoState(l) => self.state(l),
            Routine::Nothing(scan) => self.scan(scan).map(|_| ()),
            Routine::Widened(scan) => each(Type::Held(self.scan(scan)?)),
            Routine::Accumulated(scan) => each(Type::Wide(scan)),
            Routine::Narrowed(scan, dtype) => {
                want(self.scan(scan)? == dtype, || format!("scan {scan} is not of {dtype}"))?;
                each(Type::Wide(scan))
            }
            Routine::Shuffle(_, ty) => {
                self.typed(&args[0], ty)?;
                self.typed(&args[1], Type::U32)
            }
            Routine::MultiplyAdd(dtype) => each(Type::Held(dtype)),
            Routine::Tf32 | Routine::Bits => each(Type::Held(DType::F32)),
            Routine::Ballot | Routine::AnyOfWarp => each(Type::BOOL),
            Routine::PowerOfTwo | Routine::Pair(_) => each(Type::Held(DType::F32)),
            Routine::Further => {
                self.typed(&args[0], Type::Matrix)?;
                self.typed(&args[1], Type::U32)
            }
            Routine::Ones => each(Type::U32),
            Routine::AnyOfBlock => {
                want(self.same, || "some threads of a block do not come to what all of them tell".into())?;
                each(Type::BOOL)
            }
            Routine::TilesBefore => {
                let ticket = matches!(args[0], Expr::Drawn(_));
                want(ticket, || format!("{} is no ticket", args[0]))?;
                self.typed(&args[1], Type::U64)?;
                args[2..].iter().try_for_each(|arg| self.typed(arg, Type::U32))
            }
            Routine::State(l) => {
                self.state(l)?;
                let of = |d: &Definition| match *d {
                    Definition::State { number, dtype, .. } if number == l => Some(Type::Held(dtype)),
                    _ => None,
                };
                self.definitions.iter().find_map(of).map_or(Ok(()), each)
            }
            Routine::CombineStates(l) | Routine::StatesOfWarp(l, _) => each(Type::State(l)),
            Routine::StatesOfBlock(l, _) => {
                whole(&args[0])?;
                each(Type::State(l))
            }
            Routine::About(dtype) | Routine::AboutMean(dtype) => {
                let state = matches!(args[0].ty(), Type::State(_));
                want(state, || format!("{} is no state", args[0]))?;
                args[1..].iter().try_for_each(|arg| self.typed(arg, Type::Held(dtype)))
            }
        }
    }

    fn action(&self, action: &Action) -> Checked {
        want(self.same || !action.is_met(), || format!("some threads of a block do not come to: {action}"))?;
        match action {
            Action::FoldPoints { monoid, dtype, registers, .. } => {
                self.defined(Definition::Monoid(*monoid, *dtype))?;
                self.check(&Expr::Whole(registers.clone(), Type::Held(*dtype)))
            }
            Action::FoldBlocks { monoid, dtype, value, parts, all, ticket, at: [first, chunk, chunks] } => {
                self.defined(Definition::Monoid(*monoid, *dtype))?;
                for of in [value, parts, all] {
                    self.check(&Expr::Whole(of.clone(), Type::Held(*dtype)))?;
                }
                self.check(&Expr::Drawn(ticket.clone()))?;
                self.typed(first, Type::U64)?;
                [chunk, chunks].into_iter().try_for_each(|x| self.typed(x, Type::U32))
            }
            Action::Push { tree, value } => match *self.known(tree)? {
                Known::Tree(dtype) => self.typed(value, Type::Held(dtype)),
                _ => Err(format!("`{tree}` is no tree")),
            },
            Action::Fence
            | Action::CopiesCommit
            | Action::CopiesWait(_)
            | Action::AsyncFence
            | Action::WarpgroupFence
            | Action::WarpgroupCommit
            | Action::WarpgroupWait(_)
            | Action::BarriersStarted
            | Action::RegistersLess(_)
            | Action::RegistersMore(_)
            | Action::FirstTurn(_) => Ok(()),
            Action::Kept(name, at) => self.element(name, at, Type::Held(DType::F32), 2),
            Action::BarrierStart(b, _) | Action::BarrierArrive(b) => self.barrier(b),
            Action::BarrierExpect(b, x) | Action::BarrierWait(b, x) => {
                self.barrier(b)?;
                self.typed(x, Type::U32)
            }
            Action::MapAhead(map) => self.word(*map),
            Action::MapCopy { to, map, barrier, at } => {
                self.word(*map)?;
                self.shared(&to.0)?;
                self.position(&to.1)?;
                self.barrier(barrier)?;
                at.iter().try_for_each(|x| self.typed(x, Type::I32))
            }
            Action::TakeTurn(_, turns, turn) => {
                self.barrier(&(turns.clone(), Expr::Number(0, Type::I32)))?;
                self.typed(&Expr::name(turn.clone(), Type::U32), Type::U32)
            }
            Action::GiveTurn(_, turns, _) => self.barrier(&(turns.clone(), Expr::Number(0, Type::I32))),
            Action::CopyAhead { to, from, bytes, kept } => {
                let (to_ty, from_ty) = (self.shared(&to.0)?, self.operand(&from.0)?);
                let size = |ty| match ty {
                    Type::Held(d) | Type::Stored(d) => d.size() as u32,
                    _ => 0,
                };
                let alike = size(to_ty) == size(from_ty) && (*bytes == 16 || *bytes == size(to_ty));
                want(alike, || format!("{bytes} bytes of {from_ty} for {to_ty}"))?;
                [&to.1, &from.1].into_iter().try_for_each(|at| self.position(at))?;
                let ty = if *bytes == 16 { Type::I32 } else { Type::BOOL };
                kept.as_ref().map_or(Ok(()), |kept| self.typed(kept, ty))
            }
            Action::Fragments { to, from, .. } => {
                self.element(&to.0, &to.1, Type::U32, 1)?;
                self.shared(&from.0)?;
                self.position(&from.1)
            }
            Action::Multiply { sums, left, right, .. } => {
                self.element(&sums.0, &sums.1, Type::Held(DType::F32), 1)?;
                self.element(&left.0, &left.1, Type::U32, 1)?;
                right.iter().try_for_each(|x| self.typed(x, Type::U32))
            }
            Action::WarpgroupMultiply { f16, sums, left, right, columns, keep } => {
                let across = matches!(left.0, Left::Matrix(_)).then_some(left.1);
                let of = Definition::Warpgroups { f16: *f16, left: across, right: right.1, columns: *columns };
                self.defined(of)?;
                self.element(&sums.0, &sums.1, Type::Held(DType::F32), 2)?;
                match &left.0 {
                    Left::Matrix(x) => self.typed(x, Type::Matrix)?,
                    Left::Registers(name, at) => self.element(name, at, Type::U32, 1)?,
                }
                self.typed(&right.0, Type::Matrix)?;
                self.typed(keep, Type::BOOL)
            }
            Action::HandOn { pass, to, cases, .. } => {
                self.position(pass)?;
                self.element(&to.0, &to.1, Type::Held(DType::F32), 1)?;
                cases.iter().try_for_each(|(of, _)| self.element(&of.0, &of.1, Type::Held(DType::F32), 2))
            }
            Action::Reset { counters, at } => {
                let ty = self.written(counters)?;
                want(ty == Type::U32, || format!("`{counters}` are {ty}, no counters"))?;
                self.position(at)
            }
            Action::StoreState { operand, at, value } => {
                let ty = self.written(operand)?;
                self.position(at)?;
                self.typed(value, ty)
            }
            Action::Scan { number, buffer, thread, count, parts, links, .. } => {
                let dtype = self.scan(*number)?;
                self.check(&Expr::Whole(buffer.clone(), Type::Held(dtype)))?;
                self.check(&Expr::Whole(parts.clone(), Type::Wide(*number)))?;
                let (ticket, places) = links.as_ref().map_or((None, &[][..]), |(name, all)| (Some(name), &all[..]));
                ticket.map_or(Ok(()), |name| self.check(&Expr::Drawn(name.clone())))?;
                [thread, count].into_iter().chain(places).try_for_each(|x| self.typed(x, Type::U32))
            }
        }
    }

    fn word(&self, number: usize) -> Checked {
        want(number < self.words, || format!("word {number} of {}", self.words))
    }

    fn operand(&self, name: &str) -> Result<Type, String> {
        match self.known(name)? {
            Known::Operand { ty, .. } => Ok(*ty),
            _ => Err(format!("`{name}` is no operand")),
        }
    }

    /// The same of one that threads write.
    fn written(&self, name: &str) -> Result<Type, String> {
        let constant = matches!(self.known(name)?, Known::Operand { constant: Some(_), .. });
        want(!constant, || format!("`{name}` is constant"))?;
        self.operand(name)
    }

    fn vector(&self, (name, before): &(Name, Vec<Expr>), operand: &str, at: &Expr) -> Checked {
        let of = self.operand(operand)?;
        self.position(at)?;
        let Known::Elements { ty, shape: Some(_), shared: false } = self.known(name)? else {
            return Err(format!("`{name}` are no registers"));
        };
        want(*ty == of, || format!("`{name}` are {ty}, and `{operand}` is {of}"))?;
        self.element(name, before, *ty, 1)
    }

    fn typed(&self, of: &Expr, ty: Type) -> Checked {
        self.check(of)?;
        want(of.ty() == ty, || format!("{of} is {} where {ty} is wanted", of.ty()))
    }

    fn position(&self, of: &Expr) -> Checked {
        self.check(of)?;
        want(of.ty().is_index(), || format!("{of} is {}, no position", of.ty()))
    }

    fn check(&self, of: &Expr) -> Checked {
        match of {
            Expr::Name(name, ty) => match self.known(name)? {
                Known::Value { ty: is, .. } => want(is == ty, || format!("`{name}` is {is}, not {ty}")),
                _ => Err(format!("`{name}` is no value")),
            },
            Expr::Element { of: name, at, ty } => self.element(name, at, *ty, 0),
            Expr::OfPair { of: name, at, lane, dtype } => {
                self.position(lane)?;
                self.element(name, at, Type::Stored(*dtype), 1)
            }
            Expr::Word(number) | Expr::Scalar(_, number) => self.word(*number),
            Expr::Number(n, ty) => {
                want(ty.is_index(), || format!("a number that counts is {ty}"))?;
                // A mask may be written as a negative number.
                let fits = match *ty {
                    Type::I32 => i32::try_from(*n).is_ok(),
                    Type::U32 => i32::try_from(*n).is_ok() || u32::try_from(*n).is_ok(),
                    _ => true,
                };
                want(fits, || format!("{n} is no {ty}"))
            }
            Expr::Constant(..) | Expr::Thread | Expr::Block | Expr::Blocks | Expr::Threads => Ok(()),
            Expr::Quotient(name) | Expr::Remainder(name) => match self.known(name)? {
                Known::Split { .. } => Ok(()),
                _ => Err(format!("`{name}` is not taken apart")),
            },
            Expr::Binary(op, two) => self.binary(*op, &two[0], &two[1]),
            Expr::Select(three) => {
                self.typed(&three[0], Type::BOOL)?;
                self.reached(&three[0], &three[1..])?;
                self.check(&three[1])?;
                self.typed(&three[2], three[1].ty())
            }
            Expr::Convert(ty, x) => {
                self.check(x)?;
                want(matches!(ty, Type::Held(_)), || format!("{x} does not become {ty}"))?;
                let whole = |d: DType| d.is_int() || d == DType::Bool;
                want(matches!(x.ty(), Type::Held(d) if whole(d)), || format!("{x} is {}, no integer", x.ty()))
            }
            Expr::Operation(op, dtype, args) => {
                want(args.len() == op.row().arity, || format!("{} takes {} arguments", op.name(), op.row().arity))?;
                let of = |i: usize| if *op == ElementOp::Where && i == 0 { DType::Bool } else { *dtype };
                args.iter().enumerate().try_for_each(|(i, arg)| self.typed(arg, Type::Held(of(i))))?;
                if *op == ElementOp::Where { self.reached(&args[0], &args[1..]) } else { Ok(()) }
            }
            Expr::Inverse(x) => self.typed(x, Type::Held(DType::F32)),
            Expr::Hidden(x) => {
                self.check(x)?;
                want(matches!(x.ty(), Type::Held(d) if d.is_float()), || format!("{x} is no float"))
            }
            Expr::Cast(from, _, x) => self.typed(x, Type::Held(*from)),
            Expr::Bitcast(from, to, x) => {
                self.typed(x, Type::Held(*from))?;
                want(from.size() == to.size(), || format!("the bits of {from} are no {to}"))
            }
            Expr::Unrounded(dtype, x) => {
                self.check(x)?;
                let in_f32 = |d: DType| matches!(d, DType::F32 | DType::BF16 | DType::F16);
                let both = in_f32(*dtype) && matches!(x.ty(), Type::Held(d) if in_f32(d));
                want(both, || format!("{x} is {}, which is not held as {dtype}", x.ty()))
            }
            Expr::Unpack(dtype, x) => self.typed(x, Type::Stored(*dtype)),
            Expr::Pack(dtype, x) => self.typed(x, Type::Held(*dtype)),
            Expr::Load(ty, name, at) | Expr::Scratch(ty, name, at) | Expr::Fresh(ty, name, at) => {
                let is = self.operand(name)?;
                want(is == *ty, || format!("`{name}` is {is}, not {ty}"))?;
                self.position(at)
            }
            Expr::LoadState(l, name, at) => {
                let is = self.operand(name)?;
                want(is == Type::State(*l), || format!("`{name}` is {is}, not state {l}"))?;
                self.position(at)
            }
            Expr::Matrix { of, at, .. } => {
                self.shared(of)?;
                self.position(at)
            }
            Expr::Whole(name, ty) => match self.known(name)? {
                Known::Elements { ty: is, .. } => want(is == ty, || format!("`{name}` are {is}, not {ty}")),
                _ => Err(format!("`{name}` has no elements")),
            },
            Expr::Taken { tree, identity } => match *self.known(tree)? {
                Known::Tree(dtype) => self.typed(identity, Type::Held(dtype)),
                _ => Err(format!("`{tree}` is no tree")),
            },
            Expr::Drawn(name) => match self.known(name)? {
                Known::Ticket => Ok(()),
                _ => Err(format!("`{name}` is no ticket")),
            },
            Expr::Routine(routine, args) => self.routine(*routine, args),
            Expr::Gather { dtype, operand, place } => {
                let is = self.operand(operand)?;
                want(is == Type::Stored(*dtype), || format!("`{operand}` is {is}, not {dtype}"))?;
                self.typed(&place[0], Type::I64)?;
                self.typed(&place[1], Type::BOOL)?;
                self.typed(&place[2], Type::U64)
            }
            Expr::Call(name, x) => {
                want(matches!(self.known(name)?, Known::Function), || format!("`{name}` is no function"))?;
                self.typed(x, Type::I64)
            }
        }
    }

    /// All threads of a block come to what is computed where a condition says so.
    fn reached(&self, condition: &Expr, then: &[Expr]) -> Checked {
        let all = self.is_same(condition) || !then.iter().any(is_met);
        want(all, || "some threads of a block do not come to what all of them tell".into())
    }

    fn binary(&self, op: Binary, left: &Expr, right: &Expr) -> Checked {
        self.check(left)?;
        self.typed(right, left.ty())?;
        if matches!(op, Binary::And | Binary::Or) {
            self.reached(left, std::slice::from_ref(right))?;
        }
        let of = match op {
            Binary::And | Binary::Or => left.ty() == Type::BOOL,
            // Products by reciprocals are of floats.
            Binary::Mul => matches!(left.ty(), Type::Held(d) if d.is_float()) || left.ty().is_index(),
            _ => left.ty().is_index(),
        };
        want(of, || format!("{left} is {}, which has no {op:?}", left.ty()))
    }

    /// An element of something, all of whose dimensions but the last so many have an index.
    fn element(&self, name: &str, at: &[Expr], ty: Type, open: usize) -> Checked {
        let Known::Elements { ty: is, shape, .. } = self.known(name)? else {
            return Err(format!("`{name}` has no elements"));
        };
        want(*is == ty, || format!("elements of `{name}` are {is}, not {ty}"))?;
        let dims = shape.as_ref().map_or(1, Vec::len);
        want(at.len() + open == dims, || format!("`{name}` has {dims} dimensions, and {} indices", at.len()))?;
        for (d, index) in at.iter().enumerate() {
            self.position(index)?;
            if let (Expr::Number(n, _), Some(size)) = (index, shape.as_ref().map(|s| s[d])) {
                want((0..i64::from(size)).contains(n), || format!("index {n} of `{name}`, which has {size}"))?;
            }
        }
        Ok(())
    }

    /// Whether all threads of a block have the same value.
    fn is_same(&self, of: &Expr) -> bool {
        let own = match of {
            Expr::Name(name, _) => matches!(self.known(name), Ok(Known::Value { same: true, .. })),
            Expr::Quotient(name) | Expr::Remainder(name) => matches!(self.known(name), Ok(Known::Split { same: true })),
            // What all threads read of one place that they share.
            Expr::Element { of, .. } => matches!(self.known(of), Ok(Known::Elements { shared: true, .. })),
            Expr::Drawn(_) => true,
            Expr::Routine(Routine::AnyOfBlock, _) => return true,
            Expr::Routine(Routine::Ones, _) => true,
            Expr::Thread | Expr::OfPair { .. } | Expr::Whole(..) | Expr::Routine(..) | Expr::Taken { .. } => false,
            // Other threads may have written what is read.
            Expr::Load(_, name, _) | Expr::Scratch(_, name, _) => {
                matches!(self.known(name), Ok(Known::Operand { constant: Some(true), .. }))
            }
            // What a function reads beside its argument is not known.
            Expr::Fresh(..) | Expr::LoadState(..) | Expr::Gather { .. } | Expr::Call(..) => false,
            Expr::Word(_) | Expr::Scalar(..) => self.same_words,
            _ => true,
        };
        own && of.parts().iter().all(|x| self.is_same(x))
    }
}

/// Whether all threads of a block have to come to what a value is made of.
fn is_met(value: &Expr) -> bool {
    matches!(value, Expr::Routine(Routine::AnyOfBlock, _)) || value.parts().iter().any(is_met)
}

/// Whether a value is made of something of that name.
fn mentions(value: &Expr, name: &str) -> bool {
    let own = match value {
        Expr::Name(n, _) | Expr::Element { of: n, .. } | Expr::OfPair { of: n, .. } | Expr::Whole(n, _) => n == name,
        Expr::Load(_, n, _) | Expr::Scratch(_, n, _) | Expr::Fresh(_, n, _) | Expr::LoadState(_, n, _) => n == name,
        Expr::Quotient(n) | Expr::Remainder(n) | Expr::Drawn(n) | Expr::Call(n, _) => n == name,
        Expr::Matrix { of: n, .. } | Expr::Taken { tree: n, .. } | Expr::Gather { operand: n, .. } => n == name,
        _ => false,
    };
    let own =
        own || matches!(value, Expr::OfPair { at, lane, .. } if at.iter().chain([&**lane]).any(|x| mentions(x, name)));
    own || value.parts().iter().any(|x| mentions(x, name))
}

/// Whether a thread may come to its end in these statements.
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

/// Whether the loop around these statements may end in them.
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
