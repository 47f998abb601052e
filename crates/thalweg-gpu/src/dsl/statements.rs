//! Statements of the DSL.

use crate::dsl::parser::{Meaning, Memory, Parser, Read, Value};
use crate::dsl::tokens::Token;
use crate::ir::{Action, Atomic, Binary, Expr, For, Left, Math, Name, Slot, Statement, Type, Unroll};
use rustc_hash::FxHashMap;

impl<'t> Parser<'t> {
    /// Parses statements up to the end of the text.
    pub(super) fn all(&mut self) -> Read<Vec<Statement>> {
        let mut out = vec![];
        while self.ahead(0) != Token::End {
            self.statement(&mut out)?;
        }
        Ok(out)
    }

    /// Parses statements in braces, in a scope of their own.
    fn block(&mut self) -> Read<Vec<Statement>> {
        self.want("{")?;
        self.scoped(FxHashMap::default(), Parser::rest_of_block)
    }

    fn rest_of_block(&mut self) -> Read<Vec<Statement>> {
        let mut out = vec![];
        while !self.is("}") {
            if self.ahead(0) == Token::End {
                return self.wrong("a block has no end");
            }
            self.statement(&mut out)?;
        }
        Ok(out)
    }

    fn statement(&mut self, out: &mut Vec<Statement>) -> Read<()> {
        let Token::Name(name) = self.ahead(0) else {
            let other = self.ahead(0);
            return self.wrong(format!("a statement is wanted, and not {other:?}"));
        };
        self.at += 1;
        match name {
            "let" => self.declarations(out, false)?,
            "var" => self.declarations(out, true)?,
            "shared" => {
                let (name, own, ty) = self.declared()?;
                let shape = self.sizes()?;
                self.means(name, Meaning::Elements(own.clone(), ty));
                out.push(Statement::Shared { name: own, ty, shape });
            }
            "operand" | "scratch" | "constant" => self.operand(name, out)?,
            "ticket" => {
                let name = self.name()?;
                self.want("=")?;
                let (param, own) = (self.address()?, self.own(name));
                self.means(name, Meaning::Ticket(own.clone()));
                out.push(Statement::Ticket { name: own, param });
            }
            "fn" => {
                let (name, of) = self.definition("=", ";")?;
                self.means(name, Meaning::Fn(of));
                return Ok(());
            }
            "proc" => {
                let (name, of) = self.definition("{", "}")?;
                self.means(name, Meaning::Proc(of));
                return Ok(());
            }
            "for" => return self.turns(out),
            "while" => {
                let condition = self.expression()?;
                out.push(Statement::While(condition, self.block()?));
                return Ok(());
            }
            "if" => return self.choice(out),
            "when" => return self.chosen(out),
            "barrier" => out.push(Statement::Barrier),
            "warp_barrier" => out.push(Statement::WarpBarrier),
            "fence" => out.push(Statement::Do(Action::Fence)),
            "break" => out.push(Statement::Break),
            "return" => out.push(Statement::Return),
            "fault" => {
                self.want("(")?;
                out.push(Statement::Fault(self.expression()?));
                self.want(")")?;
            }
            _ if self.action(name, out)? || self.atomic(name, None, out)? => {}
            _ => match self.meaning(name) {
                Some(Meaning::Proc(of)) => self.expanded_proc(&of, out)?,
                Some(Meaning::Given(all)) => out.extend(all.iter().cloned()),
                Some(Meaning::Procedure(f)) => {
                    let args: Vec<Expr> = self.arguments()?.into_iter().map(|v| v.expr).collect();
                    out.push(Statement::Scope(f(&args)));
                }
                _ => {
                    self.at -= 1;
                    self.assignment(out)?;
                }
            },
        }
        self.want(";")
    }

    /// Parses `name: type`; returns the name, its name in the program, and the type.
    fn declared(&mut self) -> Read<(&'t str, String, Type)> {
        let name = self.name()?;
        self.want(":")?;
        Ok((name, self.own(name), self.ty()?))
    }

    fn sizes(&mut self) -> Read<Vec<u32>> {
        let mut shape = vec![];
        while self.is("[") {
            let n = self.known()?;
            let Ok(n) = u32::try_from(n) else { return self.wrong(format!("a size of {n}")) };
            shape.push(n);
            self.want("]")?;
        }
        Ok(shape)
    }

    /// Parses declarations `a = x, b: u32 = y`, mutable or not.
    fn declarations(&mut self, out: &mut Vec<Statement>, changes: bool) -> Read<()> {
        loop {
            let name = self.name()?;
            let own = self.own(name);
            let ty = if self.is(":") { Some(self.ty()?) } else { None };
            let shape = self.sizes()?;
            match ty {
                Some(ty) if !shape.is_empty() => {
                    self.means(name, Meaning::Elements(own.clone(), ty));
                    out.push(Statement::Registers { name: own, ty, shape });
                }
                Some(ty) if changes && self.ahead(0) != Token::Sign("=") => {
                    self.means(name, Meaning::Variable(own.clone(), ty));
                    out.push(Statement::Later(own, ty));
                }
                _ => {
                    if !shape.is_empty() {
                        return self.wrong(format!("elements of `{name}` have no type"));
                    }
                    self.want("=")?;
                    if !changes
                        && let (Token::Name(op), Token::Sign("(")) = (self.ahead(0), self.ahead(1))
                        && op.starts_with("atomic_")
                    {
                        self.at += 1;
                        self.atomic(op, Some(name), out)?;
                        return Ok(());
                    }
                    let value = self.value()?;
                    if value.free && ty.is_none() && changes {
                        return self.wrong(format!("`{name}` has no type"));
                    }
                    // An untyped literal stays one.
                    if value.free && ty.is_none() {
                        self.means(name, Meaning::Value(value));
                    } else {
                        let value = ty.map_or_else(|| value.expr.clone(), |ty| value.clone().like(ty));
                        if let Some(ty) = ty
                            && value.ty() != ty
                        {
                            return self.wrong(format!("`{name}` is {ty}, and {value} is {}", value.ty()));
                        }
                        self.means(name, Meaning::Variable(own.clone(), value.ty()));
                        out.push(if changes { Statement::Variable(own, value) } else { Statement::Let(own, value) });
                    }
                }
            }
            if !self.is(",") {
                return Ok(());
            }
        }
    }

    /// Parses `param name`: the kernel argument with an operand's address.
    fn address(&mut self) -> Read<Slot> {
        self.want("param")?;
        self.param()
    }

    fn operand(&mut self, kind: &str, out: &mut Vec<Statement>) -> Read<()> {
        let (name, own, ty) = self.declared()?;
        self.want("=")?;
        let param = self.address()?;
        let memory = if kind == "scratch" { Memory::Scratch } else { Memory::Ordered };
        self.means(name, Meaning::Operand(own.clone(), ty, memory));
        out.push(match kind {
            "constant" => Statement::Constants { name: own, ty, param },
            _ => Statement::Operand { name: own, ty, param },
        });
        Ok(())
    }

    /// Parses an action (a routine that fills registers or shared memory); `false` for other names.
    fn action(&mut self, name: &str, out: &mut Vec<Statement>) -> Read<bool> {
        let action = match name {
            "copies_commit" => Action::CopiesCommit,
            "async_fence" => Action::AsyncFence,
            "warpgroup_fence" => Action::WarpgroupFence,
            "warpgroup_commit" => Action::WarpgroupCommit,
            "barriers_started" => Action::BarriersStarted,
            "copies_wait" => Action::CopiesWait(self.count()?),
            "warpgroup_wait" => Action::WarpgroupWait(self.count()?),
            "registers_less" => Action::RegistersLess(self.count()?),
            "registers_more" => Action::RegistersMore(self.count()?),
            "keep" => {
                self.want("(")?;
                let (name, at) = self.vector()?;
                self.want(")")?;
                Action::Kept(name, at)
            }
            "barrier_start" => {
                self.want("(")?;
                let of = self.place()?;
                self.want(",")?;
                let n = self.number()?;
                self.want(")")?;
                Action::BarrierStart(of, n)
            }
            "barrier_arrive" => {
                self.want("(")?;
                let of = self.place()?;
                self.want(")")?;
                Action::BarrierArrive(of)
            }
            "barrier_expect" | "barrier_wait" => {
                self.want("(")?;
                let of = self.place()?;
                self.want(",")?;
                let x = self.of_type(Type::U32)?;
                self.want(")")?;
                if name == "barrier_wait" { Action::BarrierWait(of, x) } else { Action::BarrierExpect(of, x) }
            }
            "warpgroup_multiply" => self.warpgroup_multiply()?,
            "copy_ahead" => {
                self.want("(")?;
                let to = self.place()?;
                self.want(",")?;
                let from = self.place()?;
                self.want(",")?;
                let bytes = self.number()?;
                let kept = if self.is(",") { Some(self.expression()?) } else { None };
                self.want(")")?;
                Action::AsyncCopy { to, from, bytes, kept }
            }
            "load_shared" | "fragments" | "fragments_transposed" => {
                self.want("(")?;
                let to = self.vector()?;
                self.want(",")?;
                let from = self.place()?;
                self.want(")")?;
                if name == "load_shared" {
                    out.push(Statement::Do(Action::LoadShared { to, from }));
                    return Ok(true);
                }
                Action::Fragments { to, from, transposed: name == "fragments_transposed" }
            }
            "multiply_bf16" | "multiply_f16" | "multiply_tf32" => {
                let math = match name {
                    "multiply_bf16" => Math::Bf16,
                    "multiply_f16" => Math::F16,
                    _ => Math::Tf32,
                };
                self.want("(")?;
                let sums = self.vector()?;
                self.want(",")?;
                let left = self.vector()?;
                self.want(",")?;
                let first = self.expression()?;
                self.want(",")?;
                let right = [first, self.expression()?];
                self.want(")")?;
                Action::Multiply { math, sums, left, right }
            }
            _ => return Ok(false),
        };
        out.push(Statement::Do(action));
        Ok(true)
    }

    /// Parses `(N)` with a compile-time constant.
    fn count(&mut self) -> Read<u32> {
        self.want("(")?;
        let n = self.number()?;
        self.want(")")?;
        Ok(n)
    }

    /// Parses `(f16, left M-major, right N-major, columns, accumulators, left, right, whether to add)`.
    fn warpgroup_multiply(&mut self) -> Read<Action> {
        self.want("(")?;
        let mut known = [0; 4];
        for n in &mut known {
            *n = self.number()?;
            self.want(",")?;
        }
        let [f16, left_across, right_across, columns] = known;
        let sums = self.vector()?;
        self.want(",")?;
        let in_registers =
            matches!(self.ahead(0), Token::Name(n) if matches!(self.meaning(n), Some(Meaning::Elements(..))));
        let left = if in_registers {
            let (name, at) = self.vector()?;
            Left::Registers(name, at)
        } else {
            Left::Matrix(self.expression()?)
        };
        self.want(",")?;
        let right = self.expression()?;
        self.want(",")?;
        let keep = self.expression()?;
        self.want(")")?;
        Ok(Action::WarpgroupMultiply {
            f16: f16 != 0,
            sums,
            left: (left, left_across != 0),
            right: (right, right_across != 0),
            columns,
            keep,
        })
    }

    /// Parses an array or operand, and its indices.
    fn vector(&mut self) -> Read<(Name, Vec<Expr>)> {
        let name = self.name()?;
        let own = match self.meaning(name) {
            Some(Meaning::Elements(own, _) | Meaning::Operand(own, ..)) => own,
            _ => return self.wrong(format!("`{name}` has no elements")),
        };
        Ok((own, self.indices()?))
    }

    /// Parses an array or operand with one index.
    pub(super) fn place(&mut self) -> Read<(Name, Expr)> {
        let (name, mut at) = self.vector()?;
        match (at.pop(), at.is_empty()) {
            (Some(at), true) => Ok((name, at)),
            _ => self.wrong(format!("`{name}` takes one index here")),
        }
    }

    /// Parses `atomic_add(counts[i], 1)`, whose previous value is bound to a name; `false` for other names.
    fn atomic(&mut self, name: &str, before: Option<&'t str>, out: &mut Vec<Statement>) -> Read<bool> {
        let op = match name {
            "atomic_add" => Atomic::Add,
            "atomic_exchange" => Atomic::Exchange,
            _ => return Ok(false),
        };
        self.want("(")?;
        let of = self.name()?;
        let (own, ty) = match self.meaning(of) {
            Some(Meaning::Elements(own, ty) | Meaning::Operand(own, ty, _)) => (own, ty),
            _ => return self.wrong(format!("`{of}` has no elements")),
        };
        let mut at = self.indices()?;
        let (Some(at), true) = (at.pop(), at.is_empty()) else { return self.wrong(format!("{name} takes one index")) };
        self.want(",")?;
        let value = self.of_type(ty)?;
        self.want(")")?;
        let before = before.map(|b| {
            self.means(b, Meaning::Variable(self.own(b), ty));
            self.own(b)
        });
        out.push(Statement::Atomic { op, name: own, at, value, before });
        Ok(true)
    }

    fn turns(&mut self, out: &mut Vec<Statement>) -> Read<()> {
        let name = self.name()?;
        let said = if self.is(":") { Some(self.ty()?) } else { None };
        self.want("in")?;
        let from = self.value()?;
        self.want("..")?;
        let below = self.value()?;
        let own_type = || [&from, &below].into_iter().find(|v| !v.free).map(|v| v.expr.ty());
        let ty = said.or_else(own_type).unwrap_or(Type::I32);
        let step = if self.is("by") { self.of_type(ty)? } else { Expr::Number(1, ty) };
        let unroll = match () {
            () if self.is("rolled") => Unroll::Never,
            () if !self.is("unroll") => Unroll::Free,
            () if self.ahead(0) == Token::Sign("(") => Unroll::Times(self.count()?),
            () => Unroll::All,
        };
        let own = self.own(name);
        let counts = FxHashMap::from_iter([(name, Meaning::Variable(own.clone(), ty))]);
        let body = self.scoped(counts, Parser::block)?;
        let (from, below) = (from.like(ty), below.like(ty));
        out.push(Statement::For(For { name: own, ty, from, below, step, unroll, body }));
        Ok(())
    }

    fn choice(&mut self, out: &mut Vec<Statement>) -> Read<()> {
        let condition = self.expression()?;
        let then = self.block()?;
        let mut otherwise = vec![];
        if self.is("else") {
            if self.is("if") { self.choice(&mut otherwise)? } else { otherwise = self.block()? }
        }
        // Bound statements may be empty.
        if !(then.is_empty() && otherwise.is_empty()) {
            out.push(Statement::If(condition, then, otherwise));
        }
        Ok(())
    }

    /// Parses `when`: the statements of the chosen block replace it.
    fn chosen(&mut self, out: &mut Vec<Statement>) -> Read<()> {
        let holds = self.known()? != 0;
        self.alternative(holds, out)?;
        if self.is("else") {
            if self.is("when") {
                return if holds { self.alternative_of_when() } else { self.chosen(out) };
            }
            self.alternative(!holds, out)?;
        }
        Ok(())
    }

    fn alternative(&mut self, taken: bool, out: &mut Vec<Statement>) -> Read<()> {
        self.want("{")?;
        if !taken {
            return self.leave_out();
        }
        out.extend(self.rest_of_block()?);
        Ok(())
    }

    /// Skips the rest of a chain of `when`s whose first condition holds.
    fn alternative_of_when(&mut self) -> Read<()> {
        while self.ahead(0) != Token::Sign("{") {
            if self.next() == Token::End {
                return self.wrong("a `when` has no block");
            }
        }
        self.alternative(false, &mut vec![])?;
        match self.is("else") {
            true if self.is("when") => self.alternative_of_when(),
            true => self.alternative(false, &mut vec![]),
            false => Ok(()),
        }
    }

    /// Skips to the end of a block.
    fn leave_out(&mut self) -> Read<()> {
        let mut deep = 1usize;
        while deep > 0 {
            match self.next() {
                Token::Sign("{") => deep += 1,
                Token::Sign("}") => deep -= 1,
                Token::End => return self.wrong("a block has no end"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Expands a use of a `proc` macro to its statements.
    fn expanded_proc(&mut self, of: &crate::dsl::parser::Macro<'t>, out: &mut Vec<Statement>) -> Read<()> {
        let mut meanings = self.meanings(of)?;
        self.uses += 1;
        let within = self.within.replace(self.uses);
        let mut body = vec![];
        // Arguments are evaluated once, before the body.
        for &parameter in &of.parameters {
            let Some(Meaning::Value(value)) = meanings.get(parameter) else { continue };
            if !matches!(value.expr, Expr::Number(..) | Expr::Name(..)) {
                let (own, ty) = (self.own(parameter), value.expr.ty());
                body.push(Statement::Let(own.clone(), value.expr.clone()));
                meanings.insert(parameter, Meaning::Variable(own, ty));
            }
        }
        body.extend(self.inside(of, meanings, Parser::rest_of_block)?);
        self.within = within;
        out.push(Statement::Scope(body));
        Ok(())
    }

    fn assignment(&mut self, out: &mut Vec<Statement>) -> Read<()> {
        let name = self.name()?;
        let (memory, place) = match self.meaning(name) {
            Some(Meaning::Variable(own, ty)) => (None, Expr::Name(own, ty)),
            Some(Meaning::Elements(own, ty)) => (None, Expr::Element { of: own, at: self.indices()?, ty }),
            Some(Meaning::Operand(own, ty, memory)) => {
                let mut at = self.indices()?;
                let (Some(at), true) = (at.pop(), at.is_empty()) else {
                    return self.wrong(format!("`{name}` takes one index"));
                };
                (Some((own.clone(), memory)), Expr::Load(ty, own, Box::new(at)))
            }
            _ => return self.wrong(format!("`{name}` is no place")),
        };
        let Token::Sign(sign) = self.next() else { return self.wrong("`=` is wanted") };
        let given = self.value()?;
        let ty = place.ty();
        let value = match sign {
            "=" => given.like(ty),
            "+=" | "-=" | "*=" | "&=" | "|=" | "^=" => {
                let op = match sign {
                    "+=" => Binary::Add,
                    "-=" => Binary::Sub,
                    "*=" => Binary::Mul,
                    "&=" => Binary::BitAnd,
                    "|=" => Binary::BitOr,
                    _ => Binary::BitXor,
                };
                self.both(op, Value { expr: place.clone(), free: false }, given)?.expr
            }
            other => return self.wrong(format!("`=` is wanted, and not `{other}`")),
        };
        out.push(match (memory, place) {
            (None, place) => Statement::Set(place, value),
            (Some((operand, Memory::Ordered)), Expr::Load(_, _, at)) => Statement::Store { operand, at: *at, value },
            (Some((name, _)), Expr::Load(_, _, at)) => Statement::SetScratch { name, at: *at, value },
            _ => return self.wrong("no place"),
        });
        Ok(())
    }
}
