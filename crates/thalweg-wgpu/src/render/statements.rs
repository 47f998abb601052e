//! Statements.

use super::kernel::{Emitter, Pool};
use super::scans::RowScan;
use super::scope::{SharedRange, Symbol, spelled};
use super::types::{number, size};
use std::fmt::Write;
use thalweg_gpu::ir::{Action, Atomic, Expr, For, Name, Statement, Type};
use thalweg_ir::DType;

impl Emitter<'_> {
    /// Prints statements, each on one or more lines of its own.
    pub fn statements(&mut self, all: &[Statement]) {
        all.iter().for_each(|s| self.statement(s));
    }

    /// Prints statements in a scope of their own.
    fn block(&mut self, all: &[Statement]) {
        self.scopes.open();
        self.out.push_str("{\n");
        self.statements(all);
        self.out.push('}');
        self.scopes.close();
    }

    fn line(&mut self, text: String) {
        self.out.push_str(&text);
        self.out.push('\n');
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Let(name, value) => {
                let value = self.expr(value);
                self.line(format!("let {} = {value};", spelled(name)));
            }
            Statement::Variable(name, value) => {
                let (text, ty) = (self.expr(value), self.type_name(value.ty()));
                self.line(format!("var {}: {ty} = {text};", spelled(name)));
            }
            Statement::Later(name, ty) => {
                let ty = self.type_name(*ty);
                self.line(format!("var {}: {ty};", spelled(name)));
            }
            Statement::Registers { name, ty, shape } => {
                self.scopes.declare(name, Symbol::Registers(shape.clone()));
                let ty = self.type_name(*ty);
                let ty = self.array_type(&ty, shape);
                self.line(format!("var {}: {ty};", spelled(name)));
            }
            Statement::Shared { name, ty, shape } => self.shared(name, *ty, shape),
            Statement::SharedPart { name, ty, shape, of, at } => self.shared_part(name, (*ty, shape), of, *at),
            Statement::Operand { name, ty, param } | Statement::Constants { name, ty, param } => {
                self.type_name(*ty);
                let (low, bytes) = (self.low_word(param.word()), size(self.resolved(*ty)));
                self.scopes.declare(name, Symbol::Operand(*ty, param.word()));
                // Elements are aligned to their size.
                self.line(format!("let {} = bitcast<i32>({low}) >> {}u;", spelled(name), bytes.ilog2()));
            }
            Statement::Function { name, argument, body, value } => self.function(name, argument, body, value),
            Statement::Split { name, of, param } => {
                let (of, word) = (self.expr(of), param.word());
                let (divisor, shift) = (self.word(word), self.low_word(word + 1));
                self.line(format!("let {} = split({of}, {divisor}, {shift});", spelled(name)));
            }
            Statement::Set(place, value) => self.set(place, value),
            Statement::LoadVector { to, operand, at, .. } => {
                if let Some((to, lanes)) = self.vector(to)
                    && let Some(place) = self.place(operand, at)
                {
                    self.load_vector(&to, lanes, &place);
                }
            }
            Statement::StoreVector { operand, at, from } => {
                if let Some((from, lanes)) = self.vector(from)
                    && let Some(place) = self.place(operand, at)
                {
                    self.store_vector(&from, lanes, &place);
                }
            }
            Statement::Store { operand: name, at, value } | Statement::SetScratch { name, at, value } => {
                let value = self.expr(value);
                if let Some(place) = self.place(name, at) {
                    self.store(&place, &value);
                }
            }
            Statement::Do(action) => self.action(action),
            Statement::Atomic { op, name, at, value, before } => self.atomic(*op, (name, at), value, before.as_ref()),
            Statement::Fault(at) => self.fault(at),
            Statement::For(turns) => self.looped(turns),
            Statement::While(condition, body) => {
                // The condition may need statements before it.
                self.scopes.open();
                self.line("loop {".into());
                let condition = self.expr(condition);
                self.line(format!("if !({condition}) {{ break; }}"));
                self.statements(body);
                self.line("}".into());
                self.scopes.close();
            }
            Statement::If(condition, then, otherwise) => {
                let condition = self.expr(condition);
                let _ = write!(self.out, "if {condition} ");
                self.block(then);
                if !otherwise.is_empty() {
                    self.out.push_str(" else ");
                    self.block(otherwise);
                }
                self.out.push('\n');
            }
            Statement::Scope(body) => {
                self.block(body);
                self.out.push('\n');
            }
            Statement::Break => self.line("break;".into()),
            Statement::Return => self.line("return;".into()),
            Statement::Barrier | Statement::WarpBarrier => self.line("workgroupBarrier();".into()),
            Statement::Within(..) => {
                self.refuse("arguments of several problems are not supported");
            }
            Statement::Tree { .. } | Statement::Ticket { .. } => {
                self.refuse("blocks exchange nothing, and strict sums have no tree");
            }
        }
    }

    /// Declares an array in workgroup memory, a global variable.
    fn shared(&mut self, name: &str, ty: Type, shape: &[u32]) {
        if self.overlaid.iter().any(|n| n == name) {
            self.shared_groups += 1;
            self.scopes.declare(name, Symbol::SharedBytes(self.shared_groups));
            return;
        }
        if shape.is_empty() {
            self.refuse("there is no dynamic workgroup memory");
            return;
        }
        let atomic = self.atomic_shared.iter().any(|n| n == name);
        let global = self.fresh(name);
        let element = self.type_name(ty);
        let element = if atomic { format!("atomic<{element}>") } else { element };
        let array = self.array_type(&element, shape);
        self.globals.insert(global.clone(), format!("var<workgroup> {global}: {array};"));
        self.scopes.declare(name, Symbol::Shared { global, ty, atomic, range: None });
    }

    /// Declares an array over a range of shared bytes. Arrays of one element type share memory; others are apart.
    fn shared_part(&mut self, name: &str, (ty, shape): (Type, &[u32]), of: &str, at: u32) {
        let Some(&Symbol::SharedBytes(group)) = self.scopes.find(of) else {
            self.refuse(format!("{of} are no shared bytes"));
            return;
        };
        let element = self.type_name(ty);
        let bytes = size(ty) as u32;
        let count: u32 = shape.iter().product();
        let fits = |pool: &&Pool| {
            pool.group == group
                && pool.element == element
                && at >= pool.begin
                && (at - pool.begin).is_multiple_of(bytes)
        };
        if self.atomic_shared.iter().any(|n| n == name) {
            return self.shared(name, ty, shape);
        }
        if !self.pools.iter().any(|pool| fits(&pool)) {
            let global = self.fresh("shared");
            let vectors = self.loads_shared && element == "f32";
            self.pools.push(Pool { group, element: element.clone(), global, begin: at, elements: 0, vectors });
        }
        let Some(pool) = self.pools.iter_mut().find(|pool| fits(&&**pool)) else { return };
        let first = (at - pool.begin) / bytes;
        pool.elements = pool.elements.max(first + count);
        let (global, range) =
            (pool.global.clone(), Some(SharedRange { first, vectors: pool.vectors, shape: shape.to_vec() }));
        self.scopes.declare(name, Symbol::Shared { global, ty, atomic: false, range });
    }

    /// Prints a function of an index. It sees kernel arguments only.
    fn function(&mut self, name: &Name, argument: &Name, body: &[Statement], value: &Expr) {
        let saved = std::mem::take(&mut self.out);
        self.scopes.open();
        self.statements(body);
        let value = self.expr(value);
        self.scopes.close();
        let body = std::mem::replace(&mut self.out, saved);
        let (name, argument) = (spelled(name), spelled(argument));
        let text = format!("fn {name}({argument}: i64) -> i64 {{\n{body}return {value};\n}}");
        self.globals.insert(name, text);
    }

    fn set(&mut self, place: &Expr, value: &Expr) {
        let text = self.expr(value);
        match place {
            Expr::Element { of, at, .. } => {
                let target = self.element_place(of, at);
                match self.scopes.find(of) {
                    Some(Symbol::Shared { atomic: true, .. }) => self.line(format!("atomicStore(&{target}, {text});")),
                    _ => self.line(format!("{target} = {text};")),
                }
            }
            Expr::Name(name, _) => self.line(format!("{} = {text};", spelled(name))),
            _ => {
                self.refuse("there is no such assignment");
            }
        }
    }

    /// Text of a vector of registers, and the number of its lanes.
    fn vector(&mut self, (name, at): &(Name, Vec<Expr>)) -> Option<(String, u32)> {
        let lanes = match self.scopes.find(name) {
            Some(Symbol::Registers(shape)) => *shape.last()?,
            _ => {
                self.refuse(format!("{name} is no vector of registers"));
                return None;
            }
        };
        Some((self.element_place(name, at), lanes))
    }

    fn looped(&mut self, turns: &For) {
        let For { name, ty, from, below, step, body, .. } = turns;
        if let Some(values) = self.unrolling.values(turns) {
            for value in values {
                self.scopes.open();
                let value = number(value, *ty);
                self.line(format!("{{\nlet {} = {value};", spelled(name)));
                self.statements(body);
                self.line("}".into());
                self.scopes.close();
            }
            return;
        }
        let (from, ty, name) = (self.expr(from), self.type_name(*ty), spelled(name));
        let saved = std::mem::take(&mut self.out);
        let [below, step] = [below, step].map(|e| self.expr(e));
        let before = std::mem::replace(&mut self.out, saved);
        if !before.is_empty() {
            self.refuse("a loop's bound reads memory");
        }
        let goes_on =
            if ty.ends_with("64") { format!("less_{ty}({name}, {below})") } else { format!("{name} < {below}") };
        let _ = write!(self.out, "for (var {name}: {ty} = {from}; {goes_on}; {name} += {step}) ");
        self.block(body);
        self.out.push('\n');
    }

    /// Prints the load of four neighbouring elements of workgroup memory.
    fn load_shared(&mut self, to: &(Name, Vec<Expr>), (from, at): &(Name, Expr)) {
        let Some((to, _)) = self.vector(to) else { return };
        if let Some(Symbol::Shared { global, range: Some(SharedRange { first, vectors: true, .. }), .. }) =
            self.scopes.find(from)
        {
            let (global, first, own) = (global.clone(), *first, self.fresh("four"));
            let at = self.subscript(&at.clone().to(Type::U32));
            self.line(format!("let {own} = {global}[({first}u + {at}) / 4u];"));
            ["x", "y", "z", "w"].iter().enumerate().for_each(|(n, c)| self.line(format!("{to}[{n}] = {own}.{c};")));
            return;
        }
        for n in 0..4 {
            let element = self.element_place(from, &[at.clone() + Expr::Number(n, at.ty())]);
            self.line(format!("{to}[{n}] = {element};"));
        }
    }

    fn atomic(&mut self, op: Atomic, (name, at): (&str, &Expr), value: &Expr, before: Option<&Name>) {
        let text = self.expr(value);
        if let Some(Symbol::Shared { global, ty, .. }) = self.scopes.find(name).cloned() {
            if !matches!(ty, Type::I32 | Type::U32 | Type::Stored(DType::I32 | DType::U32)) {
                self.refuse("workgroup memory has atomic updates of 32-bit integers only");
            }
            let call = match op {
                Atomic::Add => "atomicAdd",
                Atomic::Max => "atomicMax",
                Atomic::Min => "atomicMin",
                Atomic::Exchange => "atomicExchange",
            };
            let at = self.subscript(at);
            let before = before.map_or(String::new(), |b| format!("let {} = ", spelled(b)));
            self.line(format!("{before}{call}(&{global}[{at}], {text});"));
        } else if let Some(place) = self.place(name, at) {
            self.update(op, &place, &text, before);
        }
    }

    /// Prints the call of a routine without a result.
    fn action(&mut self, action: &Action) {
        match action {
            Action::FoldPoints { monoid, dtype, wide, registers } => {
                let Some((text, lanes)) = self.vector(&(registers.clone(), vec![])) else { return };
                let call = self.fold_points(*monoid, *dtype, *wide);
                (0..lanes).for_each(|v| self.line(format!("{text}[{v}] = {call}({text}[{v}]);")));
            }
            Action::LoadShared { to, from } => self.load_shared(to, from),
            Action::Scan { number, group, back, buffer, thread, count, parts, links: None } => {
                self.scan_row(&RowScan {
                    number: *number,
                    group: u32::from(*group),
                    back: *back,
                    buffer,
                    thread,
                    count,
                    parts,
                })
            }
            Action::Scan { .. } | Action::Push { .. } | Action::FoldBlocks { .. } => {
                self.refuse("blocks exchange nothing");
            }
            Action::Fence | Action::Reset { .. } | Action::StoreState { .. } => {
                self.refuse("blocks exchange nothing");
            }
            _ => {
                self.refuse("there are neither asynchronous copies nor tensor cores");
            }
        }
    }
}
