//! Programs of GPU kernels ([`thalweg_gpu::ir`]) in CUDA C++.
//!
//! In: a kernel, or statements of one. Out: text. What the prelude has a function for is a call of it: loads and stores,
//! which stand in order and are volatile, quotients by words, gathers.

use super::elements::expression;
use super::types::{bitcast, cast, constant, held, pack_rounded, scalar, stored, unpack};
use std::fmt::Write;
use thalweg_gpu::ir::{Atomic, Binary, Expr, For, Kernel, Statement, Type, Unroll};
use thalweg_ir::DType;

/// How tightly an expression holds together, as in C.
mod tight {
    pub const SELECT: u8 = 0;
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const BITS: u8 = 3;
    pub const SAME: u8 = 4;
    pub const COMPARED: u8 = 5;
    pub const SHIFTED: u8 = 6;
    pub const SUM: u8 = 7;
    pub const PRODUCT: u8 = 8;
    pub const UNARY: u8 = 9;
    pub const ATOM: u8 = 10;
}

/// The source of a kernel, behind the prelude.
pub fn kernel(k: &Kernel) -> String {
    format!(
        "extern \"C\" __global__ void __launch_bounds__({}) {}(THALWEG_PARAMETER({})) {{\n  begin();\n{}}}\n",
        k.block,
        k.name,
        k.words,
        statements(&k.body)
    )
}

/// The name of a type.
pub fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Held(dtype) => held(dtype),
        Type::Stored(dtype) => stored(dtype),
    }
}

/// Statements, a line each.
pub fn statements(all: &[Statement]) -> String {
    let mut out = String::new();
    all.iter().for_each(|s| write(&mut out, s));
    out
}

fn write(out: &mut String, statement: &Statement) {
    let _ = match statement {
        Statement::Let(name, value) => writeln!(out, "const {} {name} = {};", type_name(value.ty()), expr(value)),
        Statement::Variable(name, value) => writeln!(out, "{} {name} = {};", type_name(value.ty()), expr(value)),
        Statement::Registers { name, ty, shape } => {
            let aligned = if matches!(ty, Type::Stored(_)) { "__align__(16) " } else { "" };
            let shape: String = shape.iter().map(|n| format!("[{n}]")).collect();
            writeln!(out, "{aligned}{} {name}{shape};", type_name(*ty))
        }
        Statement::Shared { name, ty, count: Some(n) } => writeln!(out, "__shared__ {} {name}[{n}];", type_name(*ty)),
        Statement::Shared { name, ty, count: None } => {
            let ty = type_name(*ty);
            writeln!(out, "THALWEG_SHARED(room);\n{ty} *const {name} = ({ty} *)room;")
        }
        Statement::Operand { name, dtype, word } => {
            let ty = stored(*dtype);
            writeln!(out, "{ty} *const {name} = ({ty} *)a.w[{word}];")
        }
        Statement::Function { name, argument, body, value } => {
            let (body, value) = (statements(body), expr(value));
            writeln!(out, "auto {name} = [&](i64 {argument}) -> i64 {{\n{body}return {value};\n}};")
        }
        Statement::Split { name, of, word } => {
            writeln!(out, "const Split {name} = split({}, a.w[{word}], a.w[{}]);", expr(of), word + 1)
        }
        Statement::Set(place, value) => writeln!(out, "{} = {};", expr(place), expr(value)),
        Statement::LoadVector { to, operand, at } => writeln!(out, "loadv({}, {});", vector(to), place(operand, at)),
        Statement::StoreVector { operand, at, from } => {
            writeln!(out, "storev({}, {});", place(operand, at), vector(from))
        }
        Statement::Store { operand, at, value } => {
            writeln!(out, "store1({}, {});", place(operand, at), expr(value))
        }
        Statement::Atomic { op, name, at, value, before } => {
            let op = match op {
                Atomic::Add => "Add",
                Atomic::Max => "Max",
                Atomic::Min => "Min",
            };
            // There are no sums of signed numbers of 64 bits: they wrap, so those without a sign do.
            let wraps = op == "Add" && matches!(value.ty(), Type::Held(DType::I64) | Type::Stored(DType::I64));
            let ty = if wraps { "u64" } else { type_name(value.ty()) };
            let before = before.as_ref().map(|b| format!("const {ty} {b} = ")).unwrap_or_default();
            writeln!(out, "{before}atomic{op}(({ty} *)({}), ({ty}){});", place(name, at), at_least(value, tight::UNARY))
        }
        Statement::Fault(at) => writeln!(out, "*(u32 *){} = 1;", at_least(at, tight::UNARY)),
        Statement::For(turns) => return looped(out, turns),
        Statement::If(condition, then, otherwise) => {
            let _ = write!(out, "if ({}) {{\n{}}}", expr(condition), statements(then));
            match &otherwise[..] {
                [] => writeln!(out),
                other => writeln!(out, " else {{\n{}}}", statements(other)),
            }
        }
        Statement::Scope(body) => writeln!(out, "{{\n{}}}", statements(body)),
        Statement::Break => writeln!(out, "break;"),
        Statement::Return => writeln!(out, "return;"),
        Statement::Barrier => writeln!(out, "__syncthreads();"),
        Statement::Comment(line) => writeln!(out, "// {line}"),
    };
}

fn looped(out: &mut String, turns: &For) {
    let For { name, ty, from, below, step, unroll, body } = turns;
    out.push_str(match unroll {
        Unroll::All => "#pragma unroll\n",
        Unroll::Never => "#pragma unroll 1\n",
        Unroll::Free => "",
    });
    let on = match step {
        Expr::Number(1, _) => format!("{name}++"),
        other => format!("{name} += {}", expr(other)),
    };
    let (ty, from, below) = (type_name(*ty), expr(from), at_least(below, tight::SHIFTED));
    let _ = writeln!(out, "for ({ty} {name} = {from}; {name} < {below}; {on}) {{\n{}}}", statements(body));
}

fn vector((name, at): &(String, Vec<Expr>)) -> String {
    format!("{name}{}", indices(at))
}

fn indices(at: &[Expr]) -> String {
    at.iter().map(|i| format!("[{}]", expr(i))).collect()
}

/// Where an element of memory is.
fn place(operand: &str, at: &Expr) -> String {
    format!("{operand} + {}", at_least(at, tight::PRODUCT))
}

/// An expression.
pub fn expr(of: &Expr) -> String {
    written(of).0
}

/// An expression, in brackets where it does not hold together that tightly.
fn at_least(of: &Expr, tightness: u8) -> String {
    let (text, own) = written(of);
    if own < tightness { format!("({text})") } else { text }
}

/// An expression, and how tightly it holds together.
fn written(of: &Expr) -> (String, u8) {
    use tight::{ATOM, SELECT, UNARY};
    let atom = |x: &Expr| at_least(x, UNARY);
    match of {
        Expr::Name(name, _) => (name.clone(), ATOM),
        Expr::Element { of, at, .. } => (format!("{of}{}", indices(at)), ATOM),
        Expr::OfPair { of, at, lane, .. } => (format!("bf16_of_pair({of}{}, {})", indices(at), expr(lane)), ATOM),
        Expr::Word(number) => (format!("a.w[{number}]"), ATOM),
        Expr::Scalar(dtype, number) => (scalar(*dtype, &format!("a.w[{number}]")), UNARY),
        Expr::Number(n, ty) => (number(*n, *ty), UNARY),
        Expr::Constant(dtype, bits) => (constant(*dtype, *bits), UNARY),
        Expr::Thread => ("threadIdx.x".into(), ATOM),
        Expr::Block => ("blockIdx.x".into(), ATOM),
        Expr::Blocks => ("gridDim.x".into(), ATOM),
        Expr::Binary(op, two) => {
            let (sign, own) = sign(*op);
            // What stands on the right of the same sign was put together first.
            let [left, right] = [at_least(&two[0], own), at_least(&two[1], own + 1)];
            (format!("{left} {sign} {right}"), own)
        }
        Expr::Convert(ty, x) => (format!("({}){}", type_name(*ty), atom(x)), UNARY),
        Expr::Quotient(name) => (format!("{name}.q"), ATOM),
        Expr::Remainder(name) => (format!("{name}.r"), ATOM),
        Expr::Operation(op, dtype, args) => {
            let args: Vec<String> = args.iter().map(atom).collect();
            (expression(*op, *dtype, &args.iter().map(String::as_str).collect::<Vec<_>>()), SELECT)
        }
        Expr::Inverse(x) => (format!("inverse({})", expr(x)), ATOM),
        Expr::Hidden(x) => (format!("hidden({})", expr(x)), ATOM),
        Expr::Cast(from, to, x) => (cast(*from, *to, &atom(x)), UNARY),
        Expr::Bitcast(from, to, x) => (bitcast(*from, *to, &atom(x)), UNARY),
        Expr::Unpack(dtype, x) => (unpack(*dtype, &atom(x)), UNARY),
        Expr::Pack(dtype, x) => (pack_rounded(*dtype, &atom(x)), UNARY),
        Expr::Select(three) => {
            let [condition, yes, no] = three.each_ref().map(|x| at_least(x, tight::OR));
            (format!("{condition} ? {yes} : {no}"), SELECT)
        }
        Expr::Load(_, operand, at) => (format!("load1({})", place(operand, at)), ATOM),
        Expr::Gather { operand, place, .. } => {
            let [position, inside, fault] = place.each_ref();
            (format!("gather({operand}, {}, {}, (u32 *){})", expr(position), expr(inside), atom(fault)), ATOM)
        }
        Expr::Call(name, x) => (format!("{name}({})", expr(x)), ATOM),
    }
}

/// A number that is a position or counts something.
fn number(n: i64, ty: Type) -> String {
    match ty {
        Type::U32 => format!("{n}u"),
        Type::U64 => format!("{n}ull"),
        Type::I64 if i32::try_from(n).is_err() => format!("{n}ll"),
        _ => n.to_string(),
    }
}

fn sign(op: Binary) -> (&'static str, u8) {
    match op {
        Binary::Add => ("+", tight::SUM),
        Binary::Sub => ("-", tight::SUM),
        Binary::Mul => ("*", tight::PRODUCT),
        Binary::Div => ("/", tight::PRODUCT),
        Binary::Rem => ("%", tight::PRODUCT),
        Binary::Shr => (">>", tight::SHIFTED),
        Binary::Lt => ("<", tight::COMPARED),
        Binary::Le => ("<=", tight::COMPARED),
        Binary::Ge => (">=", tight::COMPARED),
        Binary::Eq => ("==", tight::SAME),
        Binary::BitAnd => ("&", tight::BITS),
        Binary::And => ("&&", tight::AND),
        Binary::Or => ("||", tight::OR),
    }
}
