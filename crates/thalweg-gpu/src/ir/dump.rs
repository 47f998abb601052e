//! Text form of programs for people: written by `THALWEG_DUMP`, quoted in errors of `verify`.

use crate::ir::{Action, Atomic, Binary, Definition, Expr, For, Kernel, Left, Statement, Type, Unroll};
use std::fmt::{self, Display, Formatter};

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Type::Held(dtype) => write!(f, "{dtype}"),
            Type::Stored(dtype) => write!(f, "stored {dtype}"),
            Type::State(l) => write!(f, "state {l}"),
            Type::Wide(scan) => write!(f, "sum {scan}"),
            Type::Matrix => f.write_str("matrix"),
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
            Binary::BitOr => "|",
            Binary::BitXor => "^",
            Binary::Shl => "<<",
            Binary::Shr => ">>",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::Ge => ">=",
            Binary::Eq => "==",
            Binary::Ne => "!=",
        })
    }
}

/// Displays indices, each in brackets.
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
            Expr::Param(param) => write!(f, "{param}"),
            Expr::Scalar(dtype, param) => write!(f, "{dtype} in {param}"),
            Expr::Number(n, _) => write!(f, "{n}"),
            Expr::Constant(dtype, bits) => write!(f, "{dtype} {bits:#x}"),
            Expr::Thread => f.write_str("thread"),
            Expr::Block => f.write_str("block"),
            Expr::Blocks => f.write_str("blocks"),
            Expr::Threads => f.write_str("threads"),
            Expr::Binary(op, two) => write!(f, "({} {op} {})", two[0], two[1]),
            Expr::Convert(ty, x) => write!(f, "{ty}({x})"),
            Expr::Quotient(name) => write!(f, "{name}.quotient"),
            Expr::Remainder(name) => write!(f, "{name}.remainder"),
            Expr::Operation(op, _, args) => write!(f, "{}({})", op.name(), List(args)),
            Expr::Routine(routine, args) => write!(f, "{routine:?}({})", List(args)),
            Expr::Matrix { of, at, .. } => write!(f, "matrix {of}[{at}]"),
            Expr::Whole(name, _) => write!(f, "all of {name}"),
            Expr::Taken { tree, identity } => write!(f, "{tree} or {identity}"),
            Expr::Drawn(name) => write!(f, "number of {name}"),
            Expr::Inverse(x) => write!(f, "inverse({x})"),
            Expr::Product(two) => write!(f, "product({}, {})", two[0], two[1]),
            Expr::Hidden(x) => write!(f, "hidden({x})"),
            Expr::Cast(_, to, x) => write!(f, "{to}({x})"),
            Expr::Bitcast(_, to, x) => write!(f, "bits of {x} as {to}"),
            Expr::Unrounded(dtype, x) => write!(f, "{x} as {dtype}"),
            Expr::Unpack(_, x) => write!(f, "unpack({x})"),
            Expr::Pack(dtype, x) => write!(f, "pack {dtype}({x})"),
            Expr::Select(three) => write!(f, "({} if {} else {})", three[1], three[0], three[2]),
            Expr::Load(_, operand, at) => write!(f, "load {operand}[{at}]"),
            Expr::Scratch(_, name, at) => write!(f, "scratch {name}[{at}]"),
            Expr::Fresh(_, name, at) => write!(f, "fresh {name}[{at}]"),
            Expr::LoadState(_, name, at) => write!(f, "state {name}[{at}]"),
            Expr::Gather { operand, place, .. } => write!(f, "gather {operand}[{}] if {}", place[0], place[1]),
            Expr::Call(name, x) => write!(f, "{name}({x})"),
        }
    }
}

/// Displays arguments, separated by commas.
struct List<'a>(&'a [Expr]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(i, x)| write!(f, "{}{x}", if i == 0 { "" } else { ", " }))
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Action::FoldPoints { monoid, wide, registers, .. } => {
                write!(f, "fold {registers} by {} over threads, {wide} rows side by side", monoid.row().name)
            }
            Action::Push { tree, value } => write!(f, "{tree} takes {value}"),
            Action::Fence => f.write_str("fence"),
            Action::AsyncCopy { to, from, bytes, kept } => {
                write!(f, "copy {bytes} bytes ahead to {}[{}] from {}[{}]", to.0, to.1, from.0, from.1)?;
                kept.as_ref().map_or(Ok(()), |kept| write!(f, ", of which there are {kept}"))
            }
            Action::CopiesCommit => f.write_str("copies end a step"),
            Action::CopiesWait(n) => write!(f, "wait for copies but {n} steps"),
            Action::AsyncFence => f.write_str("fence of shared memory"),
            Action::LoadShared { to, from } => write!(f, "{}{} = vector {}[{}]", to.0, At(&to.1), from.0, from.1),
            Action::Fragments { to, from, transposed } => {
                let how = if *transposed { "transposed fragments" } else { "fragments" };
                write!(f, "{}{} = {how} {}[{}]", to.0, At(&to.1), from.0, from.1)
            }
            Action::Multiply { math, sums, left, right } => {
                let [x, y] = right;
                write!(f, "{}{} += {math:?} {}{} * ({x}, {y})", sums.0, At(&sums.1), left.0, At(&left.1))
            }
            Action::WarpgroupFence => f.write_str("fence of multiplications"),
            Action::WarpgroupMultiply { sums, left, right, columns, keep, .. } => {
                write!(f, "{}{} = (it if {keep} else 0) + ", sums.0, At(&sums.1))?;
                match &left.0 {
                    Left::Matrix(x) => write!(f, "{x}")?,
                    Left::Registers(name, at) => write!(f, "{name}{}", At(at))?,
                }
                write!(f, " * {}, {columns} columns", right.0)
            }
            Action::WarpgroupCommit => f.write_str("multiplications end"),
            Action::WarpgroupWait(n) => write!(f, "wait for multiplications but {n}"),
            Action::Kept(name, at) => write!(f, "{name}{} is there", At(at)),
            Action::BarrierStart(b, count) => write!(f, "barrier {}[{}] of {count} threads", b.0, b.1),
            Action::BarriersStarted => f.write_str("barriers are there"),
            Action::BarrierArrive(b) => write!(f, "come to {}[{}]", b.0, b.1),
            Action::BarrierExpect(b, bytes) => write!(f, "come to {}[{}], and {bytes} bytes will", b.0, b.1),
            Action::BarrierWait(b, phase) => write!(f, "wait for phase {phase} of {}[{}]", b.0, b.1),
            Action::TensorMapPrefetch(map) => write!(f, "prefetch {map}"),
            Action::TensorMapCopy { to, map, barrier, at } => {
                write!(f, "copy box {} by {map} to {}[{}], tell {}[{}]", At(at), to.0, to.1, barrier.0, barrier.1)
            }
            Action::RegistersLess(n) => write!(f, "registers down to {n}"),
            Action::RegistersMore(n) => write!(f, "registers up to {n}"),
            Action::RotationStart(groups) => write!(f, "the first turn of {groups}"),
            Action::RotationWait(how, ..) => write!(f, "take a turn, {how:?}"),
            Action::RotationSignal(how, ..) => write!(f, "give a turn, {how:?}"),
            Action::StoreAccumulators { pass, to, cases, .. } => {
                write!(f, "{}{} = sums of pass {pass} of {}", to.0, At(&to.1), cases.len())
            }
            Action::StoreInterleaved { operand, at, from, kept } => {
                write!(f, "{operand}[{at}] = {from} of four threads, if {kept}")
            }
            Action::Reset { counters, at } => write!(f, "reset {counters}[{at}]"),
            Action::StoreState { operand, at, value } => write!(f, "{operand}[{at}] = {value}"),
            Action::FoldBlocks { monoid, value, at: [first, chunk, chunks], .. } => {
                write!(f, "{} over blocks of {value}: {chunk} of {chunks}, told at {first}", monoid.row().name)
            }
            Action::Scan { number, buffer, count, back, links, .. } => {
                let from = if *back { "end" } else { "start" };
                let told = if links.is_some() { ", tiles tell each other" } else { "" };
                write!(f, "scan {number} of {count} vectors of {buffer} from the {from}{told}")
            }
        }
    }
}

impl Display for Definition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Definition::Monoid(monoid, dtype) => write!(f, "{} of {dtype}", monoid.row().name),
            Definition::Scan { number, op, dtype } => write!(f, "sum {number}: {op:?} of {dtype}"),
            Definition::Warpgroups { f16, left, right, columns } => {
                write!(f, "multiplications of {columns} columns, f16 {f16}, lines together {left:?} {right}")
            }
            Definition::State { number, dtype, power, mean } => {
                let about = if *mean { ", about a mean" } else { "" };
                write!(f, "state {number}: {power} powers of {dtype}{about}")
            }
        }
    }
}

/// Displays statements, indented by their nesting depth.
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
        Statement::Later(name, ty) => writeln!(f, "variable {name}: {ty}"),
        Statement::SharedPart { name, ty, shape, of, at } => {
            writeln!(f, "shared {name}: {ty} {shape:?}, byte {at} of {of}")
        }
        Statement::Tree { name, monoid, dtype } => writeln!(f, "tree {name}: {} of {dtype}", monoid.row().name),
        Statement::Ticket { name, param } => writeln!(f, "ticket {name} from {param}"),
        Statement::SetScratch { name, at, value } => writeln!(f, "scratch {name}[{at}] = {value}"),
        Statement::Do(action) => writeln!(f, "{action}"),
        Statement::Registers { name, ty, shape } => writeln!(f, "registers {name}: {ty} {shape:?}"),
        Statement::Shared { name, ty, shape } if shape.is_empty() => {
            writeln!(f, "shared {name}: {ty}, as many as the launch says")
        }
        Statement::Shared { name, ty, shape } => writeln!(f, "shared {name}: {ty} {shape:?}"),
        Statement::Operand { name, ty, param } => writeln!(f, "operand {name}: {ty} at {param}"),
        Statement::Constants { name, ty, param } => writeln!(f, "constant {name}: {ty} at {param}"),
        Statement::Function { name, argument, body, value } => {
            write!(f, "function {name}({argument}):\n{}", Block(body, inside))?;
            writeln!(f, "{:1$}gives {value}", "", 2 * inside)
        }
        Statement::Split { name, of, param } => writeln!(f, "{name} = {of} by {param}"),
        Statement::Set(place, value) => writeln!(f, "{place} = {value}"),
        Statement::LoadVector { to, operand, at, .. } => {
            writeln!(f, "{}{} = vector {operand}[{at}]", to.0, At(&to.1))
        }
        Statement::StoreVector { operand, at, from } => {
            writeln!(f, "vector {operand}[{at}] = {}{}", from.0, At(&from.1))
        }
        Statement::Store { operand, at, value } => writeln!(f, "{operand}[{at}] = {value}"),
        Statement::Atomic { op, name, at, value, before } => {
            let op = match op {
                Atomic::Add => "add",
                Atomic::Max => "max",
                Atomic::Min => "min",
                Atomic::Exchange => "exchange",
            };
            let before = before.as_ref().map(|b| format!("{b} = ")).unwrap_or_default();
            writeln!(f, "{before}atomic {op} {name}[{at}], {value}")
        }
        Statement::Fault(at) => writeln!(f, "fault at {at}"),
        Statement::For(For { name, from, below, step, unroll, body, .. }) => {
            let unroll = match unroll {
                Unroll::All => " written out",
                Unroll::Never => " as a loop",
                Unroll::Times(_) | Unroll::Free => "",
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
        Statement::Within(words, body) => write!(f, "arguments {words} words further:\n{}", Block(body, inside)),
        Statement::Break => writeln!(f, "break"),
        Statement::Return => writeln!(f, "return"),
        Statement::While(condition, body) => write!(f, "while {condition}:\n{}", Block(body, inside)),
        Statement::Barrier => writeln!(f, "barrier"),
        Statement::WarpBarrier => writeln!(f, "barrier of a warp"),
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Kernel { name, block, blocks, params, definitions, body } = self;
        definitions.iter().try_for_each(|d| writeln!(f, "define {d}"))?;
        write!(f, "kernel {name}, blocks of {block} threads")?;
        blocks.map_or(Ok(()), |n| write!(f, ", {n} on a multiprocessor"))?;
        writeln!(f, ", {} words:", params.words())?;
        for slot in params.slots() {
            writeln!(f, "  param {slot}: {:?} at word {}", slot.kind(), slot.word())?;
        }
        write!(f, "{}", Block(body, 1))
    }
}
