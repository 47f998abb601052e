//! Expressions.
//!
//! An operand of a selection, or the right operand of a connective, that must not be evaluated becomes a statement before
//! the expression's own: the language's `select` evaluates both.

use super::elements::expression;
use super::kernel::Emitter;
use super::scope::{SharedRange, Symbol, spelled};
use super::types::{bitcast, cast, constant, number, pack, scalar, unpack, widened, wrapped};
use std::fmt::Write;
use thalweg_gpu::ir::{Binary, Expr, Type};
use thalweg_ir::{DType, ElementOp};

/// Whether an expression must not be evaluated where its value is not used, since it reads memory or calls a function.
fn is_guarded(of: &Expr) -> bool {
    let own = match of {
        Expr::Load(..) | Expr::Scratch(..) | Expr::Fresh(..) | Expr::Gather { .. } | Expr::Call(..) => true,
        Expr::Element { at, .. } => !at.iter().all(|i| matches!(i, Expr::Number(..))),
        Expr::Routine(..) => true,
        _ => false,
    };
    own || of.parts().iter().any(is_guarded)
}

impl Emitter<'_> {
    /// Prints an expression; statements that it needs go before.
    pub fn expr(&mut self, of: &Expr) -> String {
        match of {
            Expr::Name(name, _) => spelled(name),
            Expr::Element { of, at, ty } => self.element(of, at, *ty),
            Expr::OfPair { of, at, lane, dtype } => {
                let at: Vec<Expr> = at.iter().cloned().chain([(**lane).clone()]).collect();
                let raw = self.element(of, &at, Type::Stored(*dtype));
                unpack(*dtype, &raw)
            }
            Expr::Param(slot) => format!("word_u64({})", self.word(slot.word())),
            Expr::Scalar(dtype, slot) => {
                let words = self.word(slot.word());
                self.type_name(Type::Held(*dtype));
                scalar(*dtype, &words)
            }
            Expr::Number(n, ty) => number(*n, *ty),
            Expr::Constant(dtype, bits) => {
                self.type_name(Type::Held(*dtype));
                constant(*dtype, *bits)
            }
            Expr::Thread => "own_thread".into(),
            Expr::Block => "own_block".into(),
            Expr::Blocks => self.low_word(self.kernel.params.words()),
            Expr::Threads => format!("{}u", self.kernel.block),
            Expr::Binary(op, two) => self.binary(*op, two),
            Expr::Convert(ty, x) => self.converted(*ty, x),
            Expr::Quotient(name) => format!("{}.q", spelled(name)),
            Expr::Remainder(name) => format!("{}.r", spelled(name)),
            Expr::Operation(op, dtype, args) => self.operation(*op, *dtype, args),
            Expr::Inverse(x) => format!("(1.0 / {})", self.expr(x)),
            Expr::Hidden(x) | Expr::Unrounded(_, x) => self.expr(x),
            Expr::Product(two) => {
                let [x, y] = two.each_ref().map(|x| self.expr(x));
                format!("({x} * {y})")
            }
            Expr::Cast(from, to, x) => {
                self.type_name(Type::Held(*from));
                self.type_name(Type::Held(*to));
                let x = self.expr(x);
                cast(*from, *to, &x)
            }
            Expr::Bitcast(from, to, x) => {
                self.type_name(Type::Held(*from));
                self.type_name(Type::Held(*to));
                // A narrow float in its memory format is its bits.
                match (&**x, *from, *to) {
                    (Expr::Unpack(_, raw), DType::BF16 | DType::F16, DType::U16) => self.expr(raw),
                    _ => {
                        let x = self.expr(x);
                        bitcast(*from, *to, &x)
                    }
                }
            }
            Expr::Unpack(dtype, x) => {
                let x = self.expr(x);
                unpack(*dtype, &x)
            }
            Expr::Pack(dtype, x) => {
                let x = self.expr(x);
                pack(*dtype, &x)
            }
            Expr::Select(three) => self.select(three),
            Expr::Load(_, operand, at) | Expr::Scratch(_, operand, at) | Expr::Fresh(_, operand, at) => {
                match self.place(operand, at) {
                    Some(place) => self.load(&place),
                    None => String::new(),
                }
            }
            Expr::Whole(name, _) => match self.scopes.find(name) {
                Some(Symbol::Shared { range: Some(_), .. }) => self.refuse(format!("{name} is a part of an array")),
                Some(Symbol::Shared { global, .. }) => global.clone(),
                _ => spelled(name),
            },
            Expr::Routine(of, args) => self.routine(*of, args),
            Expr::Gather { operand, place, .. } => self.gather(operand, place),
            Expr::Call(name, x) => {
                let x = self.expr(x);
                format!("{}({x})", spelled(name))
            }
            Expr::LoadState(..) | Expr::Matrix { .. } | Expr::Taken { .. } | Expr::Drawn(_) => {
                self.refuse("blocks exchange nothing, and strict sums have no tree")
            }
        }
    }

    /// Index of an array in registers or in workgroup memory.
    pub fn subscript(&mut self, at: &Expr) -> String {
        let text = self.expr(at);
        if let Expr::Number(n, _) = at {
            return number(*n, Type::I32);
        }
        if matches!(at.ty(), Type::I32 | Type::U32) { text } else { format!("u32({text})") }
    }

    /// Element of an array, as a place.
    pub fn element_place(&mut self, of: &str, at: &[Expr]) -> String {
        if let Some(Symbol::Shared { global, range: Some(SharedRange { first, shape, vectors }), .. }) =
            self.scopes.find(of)
        {
            // Indices of several dimensions become one.
            let (global, first, shape, vectors) = (global.clone(), *first, shape.clone(), *vectors);
            let linear = at.iter().zip(&shape).skip(1).fold(at[0].clone().to(Type::U32), |n, (i, &size)| {
                n * Expr::Number(size.into(), Type::U32) + i.clone().to(Type::U32)
            });
            let linear = self.expr(&linear);
            let place = if first == 0 { linear } else { format!("({first}u + {linear})") };
            return match vectors {
                true => format!("{global}[{place} / 4u][{place} % 4u]"),
                false => format!("{global}[{place}]"),
            };
        }
        let at: String = at.iter().map(|i| format!("[{}]", self.subscript(i))).collect();
        match self.scopes.find(of) {
            Some(Symbol::Shared { global, .. }) => format!("{global}{at}"),
            _ => format!("{}{at}", spelled(of)),
        }
    }

    fn element(&mut self, of: &str, at: &[Expr], ty: Type) -> String {
        if let Some(Symbol::Operand(..)) = self.scopes.find(of) {
            return match self.place(of, &at[0]) {
                Some(place) => self.load(&place),
                None => String::new(),
            };
        }
        let place = self.element_place(of, at);
        match self.scopes.find(of) {
            Some(Symbol::Shared { atomic: true, .. }) => {
                let ty = self.type_name(ty);
                format!("{ty}(atomicLoad(&{place}))")
            }
            _ => place,
        }
    }

    fn binary(&mut self, op: Binary, two: &[Expr; 2]) -> String {
        use Binary::*;
        if let And | Or = op {
            return self.connective(op, two);
        }
        let ty = two[0].ty();
        let [x, y] = two.each_ref().map(|x| self.expr(x));
        let (Type::Held(dtype) | Type::Stored(dtype)) = ty else {
            return self.refuse("there is no arithmetic of such values");
        };
        if ty == Type::Held(dtype) && dtype.is_float() {
            let element = match op {
                Add => ElementOp::Add,
                Sub => ElementOp::Sub,
                Mul => ElementOp::Mul,
                Div => ElementOp::Div,
                Lt => ElementOp::Lt,
                Le => ElementOp::Le,
                Ge => ElementOp::Ge,
                Eq => ElementOp::Eq,
                Ne => ElementOp::Ne,
                _ => return self.refuse("floats have no bits"),
            };
            return expression(element, dtype, &[&x, &y]).unwrap_or_default();
        }
        if op.is_condition() && dtype.size() == 8 {
            let t = self.type_name(ty);
            return match op {
                Lt => format!("less_{t}({x}, {y})"),
                Le => format!("!less_{t}({y}, {x})"),
                Ge => format!("!less_{t}({x}, {y})"),
                Ne => format!("!equal_{t}({x}, {y})"),
                _ => format!("equal_{t}({x}, {y})"),
            };
        }
        let sign = match op {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            Rem => "%",
            BitAnd => "&",
            BitOr => "|",
            BitXor => "^",
            Shl => "<<",
            Shr => ">>",
            Lt => "<",
            Le => "<=",
            Ge => ">=",
            Eq => "==",
            Ne => "!=",
            And | Or => unreachable!("they are connectives"),
        };
        let y = match (&two[1], op) {
            (Expr::Number(n, _), Shl | Shr) => format!("{n}u"),
            (other, Shl | Shr) if other.ty() != Type::U32 => format!("u32({y})"),
            _ => y,
        };
        let text = format!("({x} {sign} {y})");
        if op.is_condition() || !matches!(ty, Type::Held(_)) { text } else { wrapped(dtype, &text) }
    }

    /// Prints an expression into a buffer of its own: its text, and the statements before it.
    fn in_own_buffer(&mut self, of: &Expr) -> (String, String) {
        let saved = std::mem::take(&mut self.out);
        let text = self.expr(of);
        (text, std::mem::replace(&mut self.out, saved))
    }

    fn connective(&mut self, op: Binary, [left, right]: &[Expr; 2]) -> String {
        let x = self.expr(left);
        let (y, before) = self.in_own_buffer(right);
        let is_and = op == Binary::And;
        // Connectives that skip an operand are branches, which only operands that must be skipped are worth.
        if before.is_empty() {
            let sign = if is_and { "&" } else { "|" };
            return format!("({x} {} {y})", if is_guarded(right) { sign.repeat(2) } else { sign.into() });
        }
        let name = self.fresh("both");
        let unless = if is_and { "" } else { "!" };
        let _ = writeln!(self.out, "var {name} = {x};\nif {unless}{name} {{\n{before}{name} = {y};\n}}");
        name
    }

    fn select(&mut self, [condition, yes, no]: &[Expr; 3]) -> String {
        let condition = self.expr(condition);
        let (yes_text, before_yes) = self.in_own_buffer(yes);
        let (no_text, before_no) = self.in_own_buffer(no);
        if before_yes.is_empty() && before_no.is_empty() && !is_guarded(yes) && !is_guarded(no) {
            return format!("select({no_text}, {yes_text}, {condition})");
        }
        let (name, ty) = (self.fresh("either"), self.type_name(yes.ty()));
        let _ = writeln!(
            self.out,
            "var {name}: {ty};\nif {condition} {{\n{before_yes}{name} = {yes_text};\n}} else {{\n{before_no}{name} = {no_text};\n}}"
        );
        name
    }

    fn converted(&mut self, ty: Type, x: &Expr) -> String {
        if let Expr::Number(n, _) = x {
            return number(*n, ty);
        }
        // Arguments that fit 32 bits are read as such.
        if let Expr::Param(slot) = x {
            let word = slot.word();
            match ty {
                Type::I32 => return format!("bitcast<i32>({})", self.low_word(word)),
                Type::U32 => return self.low_word(word),
                _ => {}
            }
        }
        let text = self.expr(x);
        let (from, to) = (self.type_name(x.ty()), self.type_name(ty));
        let dtype = match ty {
            Type::Held(dtype) | Type::Stored(dtype) => dtype,
            _ => return text,
        };
        if dtype == DType::Bool && ty == Type::BOOL {
            return match x.ty() {
                Type::BOOL => text,
                other if from.ends_with("64") => format!("!equal_{from}({text}, {})", number(0, other)),
                other => format!("({text} != {})", number(0, other)),
            };
        }
        let (from, text) = match &*from {
            "bool" if matches!(&*to, "i64" | "u64") => ("u32", format!("u32({text})")),
            other => (other, text),
        };
        if from == to { wrapped(dtype, &text) } else { wrapped(dtype, &widened(from, &to, &text)) }
    }

    fn operation(&mut self, op: ElementOp, dtype: DType, args: &[Expr]) -> String {
        self.type_name(Type::Held(dtype));
        // Arguments become variables: an operation may use one several times.
        let mut texts = vec![];
        for arg in args {
            let text = self.expr(arg);
            let is_atom = text.chars().all(|c| c.is_alphanumeric() || c == '_');
            texts.push(match is_atom {
                true => text,
                false => {
                    let name = self.fresh("x");
                    let _ = writeln!(self.out, "let {name} = {text};");
                    name
                }
            });
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match expression(op, dtype, &texts) {
            Some(text) => text,
            None => self.refuse(format!("there is no {} of {dtype}", op.name())),
        }
    }

    /// Gathered element; out of range nothing is read, and a fault is reported where there is an address for it.
    fn gather(&mut self, operand: &str, [position, inside, fault]: &[Expr; 3]) -> String {
        let Some(&Symbol::Operand(ty, _)) = self.scopes.find(operand) else {
            return self.refuse(format!("{operand} is not in global memory"));
        };
        let (name, type_name) = (self.fresh("found"), self.type_name(ty));
        let inside = self.expr(inside);
        let _ = writeln!(self.out, "var {name}: {type_name};\nif {inside} {{");
        if let Some(place) = self.place(operand, position) {
            let value = self.load(&place);
            let _ = writeln!(self.out, "{name} = {value};");
        }
        let _ = writeln!(self.out, "}} else {{");
        self.fault(fault);
        let _ = writeln!(self.out, "}}");
        name
    }

    /// Prints the report of an out-of-range index to an address, if that is not 0.
    pub fn fault(&mut self, address: &Expr) {
        if matches!(address, Expr::Number(0, _)) {
            return;
        }
        let address = self.expr(address);
        let Some(word) = self.fault_word() else {
            self.refuse("it has no fault slot");
            return;
        };
        self.store_function(32, word);
        let low = self.low_word(word);
        let _ = writeln!(self.out, "if !equal_u64({address}, 0lu) {{ store32_{word}(bitcast<i32>({low}) / 4i, 1u); }}");
    }
}
