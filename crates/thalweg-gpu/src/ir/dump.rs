//! Programs as people read them: what `THALWEG_DUMP` writes, and what errors of `verify` quote.

use super::{Atomic, Binary, Expr, For, Kernel, Statement, Type, Unroll};
use std::fmt::{self, Display, Formatter};

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Type::Held(dtype) => write!(f, "{dtype}"),
            Type::Stored(dtype) => write!(f, "stored {dtype}"),
        }
    }
}

impl Display for Binary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::Rem => "%",
            Binary::BitAnd => "&",
            Binary::Shr => ">>",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::Ge => ">=",
            Binary::Eq => "==",
        })
    }
}

/// Indices, each in brackets.
struct At<'a>(&'a [Expr]);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|i| write!(f, "[{i}]"))
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Name(name, _) => f.write_str(name),
            Expr::Element { of, at, .. } => write!(f, "{of}{}", At(at)),
            Expr::OfPair { of, at, lane, .. } => write!(f, "half {lane} of {of}{}", At(at)),
            Expr::Word(number) => write!(f, "word {number}"),
            Expr::Scalar(dtype, number) => write!(f, "{dtype} in word {number}"),
            Expr::Number(n, _) => write!(f, "{n}"),
            Expr::Constant(dtype, bits) => write!(f, "{dtype} {bits:#x}"),
            Expr::Thread => f.write_str("thread"),
            Expr::Block => f.write_str("block"),
            Expr::Blocks => f.write_str("blocks"),
            Expr::Binary(op, two) => write!(f, "({} {op} {})", two[0], two[1]),
            Expr::Convert(ty, x) => write!(f, "{ty}({x})"),
            Expr::Quotient(name) => write!(f, "{name}.quotient"),
            Expr::Remainder(name) => write!(f, "{name}.remainder"),
            Expr::Operation(op, _, args) => {
                write!(f, "{}(", op.name())?;
                for (i, arg) in args.iter().enumerate() {
                    write!(f, "{}{arg}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Expr::Inverse(x) => write!(f, "inverse({x})"),
            Expr::Hidden(x) => write!(f, "hidden({x})"),
            Expr::Cast(_, to, x) => write!(f, "{to}({x})"),
            Expr::Bitcast(_, to, x) => write!(f, "bits of {x} as {to}"),
            Expr::Unpack(_, x) => write!(f, "unpack({x})"),
            Expr::Pack(dtype, x) => write!(f, "pack {dtype}({x})"),
            Expr::Select(three) => write!(f, "({} if {} else {})", three[1], three[0], three[2]),
            Expr::Load(_, operand, at) => write!(f, "load {operand}[{at}]"),
            Expr::Gather { operand, place, .. } => write!(f, "gather {operand}[{}] if {}", place[0], place[1]),
            Expr::Call(name, x) => write!(f, "{name}({x})"),
        }
    }
}

/// Statements, so deep in others.
struct Block<'a>(&'a [Statement], usize);

impl Display for Block<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Block(all, depth) = *self;
        for statement in all {
            write!(f, "{:1$}", "", 2 * depth)?;
            line(f, statement, depth)?;
        }
        Ok(())
    }
}

fn line(f: &mut Formatter<'_>, statement: &Statement, depth: usize) -> fmt::Result {
    let inside = depth + 1;
    match statement {
        Statement::Let(name, value) => writeln!(f, "{name}: {} = {value}", value.ty()),
        Statement::Variable(name, value) => writeln!(f, "variable {name}: {} = {value}", value.ty()),
        Statement::Registers { name, ty, shape } => writeln!(f, "registers {name}: {ty} {shape:?}"),
        Statement::Shared { name, ty, count: Some(n) } => writeln!(f, "shared {name}: {ty} [{n}]"),
        Statement::Shared { name, ty, count: None } => writeln!(f, "shared {name}: {ty}, as many as the launch says"),
        Statement::Operand { name, dtype, word } => writeln!(f, "operand {name}: {dtype} at word {word}"),
        Statement::Function { name, argument, body, value } => {
            write!(f, "function {name}({argument}):\n{}", Block(body, inside))?;
            writeln!(f, "{:1$}gives {value}", "", 2 * inside)
        }
        Statement::Split { name, of, word } => writeln!(f, "{name} = {of} by word {word}"),
        Statement::Set(place, value) => writeln!(f, "{place} = {value}"),
        Statement::LoadVector { to, operand, at } => writeln!(f, "{}{} = vector {operand}[{at}]", to.0, At(&to.1)),
        Statement::StoreVector { operand, at, from } => {
            writeln!(f, "vector {operand}[{at}] = {}{}", from.0, At(&from.1))
        }
        Statement::Store { operand, at, value } => writeln!(f, "{operand}[{at}] = {value}"),
        Statement::Atomic { op, name, at, value, before } => {
            let op = match op {
                Atomic::Add => "add",
                Atomic::Max => "max",
                Atomic::Min => "min",
            };
            let before = before.as_ref().map(|b| format!("{b} = ")).unwrap_or_default();
            writeln!(f, "{before}atomic {op} {name}[{at}], {value}")
        }
        Statement::Fault(at) => writeln!(f, "fault at {at}"),
        Statement::For(For { name, from, below, step, unroll, body, .. }) => {
            let unroll = match unroll {
                Unroll::All => " written out",
                Unroll::Never => " as a loop",
                Unroll::Free => "",
            };
            write!(f, "for {name} from {from} below {below} by {step}{unroll}:\n{}", Block(body, inside))
        }
        Statement::If(condition, then, otherwise) => {
            write!(f, "if {condition}:\n{}", Block(then, inside))?;
            match &otherwise[..] {
                [] => Ok(()),
                other => write!(f, "{:1$}else:\n{2}", "", 2 * depth, Block(other, inside)),
            }
        }
        Statement::Scope(body) => write!(f, "scope:\n{}", Block(body, inside)),
        Statement::Break => writeln!(f, "break"),
        Statement::Return => writeln!(f, "return"),
        Statement::Barrier => writeln!(f, "barrier"),
        Statement::Comment(text) => writeln!(f, "# {text}"),
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Kernel { name, block, words, body } = self;
        write!(f, "kernel {name}, blocks of {block} threads, {words} words:\n{}", Block(body, 1))
    }
}
