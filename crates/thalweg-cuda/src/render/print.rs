//! Printer of GPU programs ([`thalweg_gpu::ir`]) as CUDA C++.
//!
//! In: a kernel, or statements of one. Out: text. Operations with a function in the prelude are calls of it: loads and
//! stores (in order and volatile), divisions by words, gathers.

use super::elements::expression;
use super::monoid::{self, Running};
use super::types::{bitcast, cast, constant, held, pack_rounded, scalar, stored, unpack};
use super::warpgroup::{self, EIGHT};
use std::borrow::Cow;
use std::fmt::Write;
use thalweg_gpu::ir::{
    Action, Atomic, Binary, Definition, Expr, For, Kernel, Left, Math, Rotation, Routine, Shuffle, Slot, Statement,
    Type, Unroll,
};
use thalweg_ir::DType;

/// Precedence levels of C++ operators, the loosest first.
mod tight {
    pub const SELECT: u8 = 0;
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const EITHER: u8 = 3;
    pub const EXCLUSIVE: u8 = 4;
    pub const BITS: u8 = 5;
    pub const SAME: u8 = 6;
    pub const COMPARED: u8 = 7;
    pub const SHIFTED: u8 = 8;
    pub const SUM: u8 = 9;
    pub const PRODUCT: u8 = 10;
    pub const UNARY: u8 = 11;
    pub const ATOM: u8 = 12;
}

/// Source of a kernel, after the prelude.
pub fn kernel(k: &Kernel) -> String {
    let definitions: String = k.definitions.iter().map(definition).collect();
    let blocks = k.blocks.map_or(String::new(), |n| format!(", {n}"));
    // Tensor maps must be aligned to cache lines in the parameter.
    let lines = if k.has_maps() { "_LINES" } else { "" };
    format!(
        "{definitions}extern \"C\" __global__ void __launch_bounds__({}{blocks}) {}(THALWEG_PARAMETER{lines}({})) {{\n  begin();\n{}}}\n",
        k.block,
        k.name,
        k.params.words(),
        statements(&k.body)
    )
}

/// C++ name of a type.
pub fn type_name(ty: Type) -> Cow<'static, str> {
    match ty {
        Type::Held(dtype) => held(dtype).into(),
        Type::Stored(dtype) => stored(dtype).into(),
        Type::State(l) => format!("State{l}").into(),
        Type::Wide(scan) => format!("Scan{scan}::Wide").into(),
        Type::Matrix => "Matrix".into(),
    }
}

/// C++ definition that a routine of the kernel needs: a monoid's struct, a scan's struct, a `wgmma` function or a state
/// type.
fn definition(of: &Definition) -> String {
    match *of {
        Definition::Monoid(op, dtype) => monoid::definition(op, dtype),
        Definition::Scan { number, op, dtype } => {
            let Running { wide, identity, combined, functions } = Running::new(op, dtype);
            let (element, narrowed) = (held(dtype), narrowed(dtype));
            format!(
                "{functions}\nstruct Scan{number} {{\n  typedef {wide} Wide;\n  FN static Wide identity() {{ return {identity}; }}\n  FN static Wide of(Wide x, Wide y) {{ return {combined}; }}\n  FN static Wide wide({element} x) {{ return (Wide)x; }}\n  FN static {element} narrow(Wide y) {{ return {narrowed}; }}\n}};\n"
            )
        }
        Definition::Warpgroups { f16, left, right, columns } => {
            let left = left.map_or(warpgroup::Left::Registers, |across| warpgroup::Left::Shared { across });
            warpgroup::function(f16, left, right, columns)
        }
        Definition::State { number, dtype, power, mean } => {
            format!("typedef Shifted<{}, {power}, {mean}> State{number};\n", held(dtype))
        }
    }
}

/// Conversion of an accumulator `y` to a register value.
fn narrowed(dtype: DType) -> String {
    match dtype {
        DType::F64 => "y".into(),
        DType::BF16 => "bf16_of(y)".into(),
        DType::F16 => "f16_of(y)".into(),
        // A scan of bools adds modulo 2.
        DType::Bool => "(y & 1) != 0".into(),
        other => format!("({})y", held(other)),
    }
}

/// Prints statements as C++, each on one or more lines of its own.
pub fn statements(all: &[Statement]) -> String {
    let mut out = String::new();
    all.iter().for_each(|s| write(&mut out, s));
    out
}

fn write(out: &mut String, statement: &Statement) {
    let _ = match statement {
        Statement::Let(name, value) => writeln!(out, "const {} {name} = {};", type_name(value.ty()), expr(value)),
        Statement::Variable(name, value) => writeln!(out, "{} {name} = {};", type_name(value.ty()), expr(value)),
        Statement::Later(name, ty) => writeln!(out, "{} {name};", type_name(*ty)),
        Statement::Registers { name, ty, shape } => {
            writeln!(out, "__align__(16) {} {name}{};", type_name(*ty), sizes(shape))
        }
        Statement::Shared { name, ty: Type::Stored(DType::U8), shape } if shape.is_empty() => {
            writeln!(out, "THALWEG_SHARED_LINES({name});")
        }
        Statement::Shared { name, ty, shape } if shape.is_empty() => {
            let ty = type_name(*ty);
            writeln!(out, "THALWEG_SHARED(room);\n{ty} *const {name} = ({ty} *)room;")
        }
        Statement::Shared { name, ty, shape } => {
            // A byte array is aliased by others, which need alignment.
            let aligned = if *ty == Type::Stored(DType::U8) { "__align__(16) " } else { "" };
            writeln!(out, "__shared__ {aligned}{} {name}{};", type_name(*ty), sizes(shape))
        }
        Statement::SharedPart { name, ty, shape, of, at } => {
            writeln!(out, "auto &{name} = *({} (*){})({of} + {at});", type_name(*ty), sizes(shape))
        }
        Statement::Tree { name, monoid, dtype } => {
            writeln!(out, "Tree<{}, {}> {name};\n{name}.count = 0;", monoid::name(*monoid, *dtype), held(*dtype))
        }
        Statement::Ticket { name, param } => writeln!(
            out,
            "u64 *const {name}_words = (u64 *){};\n__shared__ u64 {name}_drawn;\nconst Ticket {name} = ticket({name}_words, &{name}_drawn);",
            argument(param)
        ),
        Statement::Operand { name, ty, param } => {
            let (ty, at) = (type_name(*ty), argument(param));
            writeln!(out, "{ty} *const {name} = ({ty} *){at};")
        }
        Statement::Constants { name, ty, param } => {
            let (ty, at) = (type_name(*ty), argument(param));
            writeln!(out, "const {ty} *const {name} = (const {ty} *){at};")
        }
        Statement::SetScratch { name, at, value } => {
            writeln!(out, "set_at({name}, {}, ({}){});", expr(at), type_name(value.ty()), at_least(value, tight::UNARY))
        }
        Statement::Do(action) => return act(out, action),
        Statement::Function { name, argument, body, value } => {
            let (body, value) = (statements(body), expr(value));
            writeln!(out, "auto {name} = [&](i64 {argument}) -> i64 {{\n{body}return {value};\n}};")
        }
        Statement::Split { name, of, param } => {
            let word = param.word();
            writeln!(out, "const Split {name} = split({}, a.w[{word}], a.w[{}]);", expr(of), word + 1)
        }
        Statement::Set(place, value) => writeln!(out, "{} = {};", expr(place), expr(value)),
        Statement::LoadVector { to, operand, at, fresh } => {
            let cold = if *fresh { "_cold" } else { "" };
            writeln!(out, "loadv{cold}({}, {});", vector(to), place(operand, at))
        }
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
                Atomic::Exchange => "Exch",
            };
            // CUDA has no 64-bit signed atomic addition: additions wrap, so the unsigned one serves.
            let wraps = op == "Add" && matches!(value.ty(), Type::Held(DType::I64) | Type::Stored(DType::I64));
            let ty = if wraps { "u64".into() } else { type_name(value.ty()) };
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
        Statement::While(condition, body) => writeln!(out, "while ({}) {{\n{}}}", expr(condition), statements(body)),
        Statement::Within(words, body) => {
            let own = statements(body).replace("a.w[", &format!("a.w[{} + ", expr(words)));
            writeln!(out, "{{\n{own}}}")
        }
        Statement::Scope(body) => writeln!(out, "{{\n{}}}", statements(body)),
        Statement::Break => writeln!(out, "break;"),
        Statement::Return => writeln!(out, "return;"),
        Statement::Barrier => writeln!(out, "__syncthreads();"),
        Statement::WarpBarrier => writeln!(out, "__syncwarp();"),
    };
}

fn looped(out: &mut String, turns: &For) {
    let For { name, ty, from, below, step, unroll, body } = turns;
    out.push_str(&match unroll {
        Unroll::All => "#pragma unroll\n".into(),
        Unroll::Never => "#pragma unroll 1\n".into(),
        Unroll::Times(n) => format!("#pragma unroll {n}\n"),
        Unroll::Free => String::new(),
    });
    let on = match step {
        Expr::Number(1, _) => format!("{name}++"),
        other => format!("{name} += {}", expr(other)),
    };
    let (ty, from, below) = (type_name(*ty), expr(from), at_least(below, tight::SHIFTED));
    let _ = writeln!(out, "for ({ty} {name} = {from}; {name} < {below}; {on}) {{\n{}}}", statements(body));
}

/// Prints the call of a routine that has no result.
fn act(out: &mut String, action: &Action) {
    let _ = match action {
        Action::FoldPoints { monoid, dtype, wide, registers } => {
            writeln!(out, "fold_points<{}, {wide}>({registers});", monoid::name(*monoid, *dtype))
        }
        Action::Push { tree, value } => writeln!(out, "{tree}.push({});", expr(value)),
        Action::Fence => writeln!(out, "__threadfence();"),
        Action::AsyncCopy { to, from, bytes, kept } => {
            let kept_text = kept.as_ref().map_or(String::new(), |kept| format!(", {}", expr(kept)));
            let name = match (bytes, kept) {
                (16, None) => "copy16_whole".into(),
                (16, Some(_)) => "copy16".into(),
                (n, None) => format!("copy_element_whole<{n}>"),
                (n, Some(_)) => format!("copy_element<{n}>"),
            };
            writeln!(out, "{name}({}, {}{kept_text});", place(&to.0, &to.1), place(&from.0, &from.1))
        }
        Action::CopiesCommit => writeln!(out, "copies_commit();"),
        Action::CopiesWait(n) => writeln!(out, "copies_wait<{n}>();"),
        Action::AsyncFence => writeln!(out, "async_fence();"),
        Action::LoadShared { to, from } => {
            let (to, from) = (vector(to), place(&from.0, &from.1));
            writeln!(out, "#pragma unroll\nfor (int e = 0; e < 4; e++) {to}[e] = (&{from})[e];")
        }
        Action::Fragments { to, from, transposed } => {
            let name = if *transposed { "fragments_transposed" } else { "fragments" };
            writeln!(out, "{name}({}, {});", vector(to), place(&from.0, &from.1))
        }
        Action::Multiply { math, sums, left, right } => {
            let name = match math {
                Math::Bf16 => "multiply16<false>",
                Math::F16 => "multiply16<true>",
                Math::Tf32 => "multiply_tf32",
            };
            let [x, y] = right.each_ref().map(expr);
            writeln!(out, "{name}({}, {}, {x}, {y});", vector(sums), vector(left))
        }
        Action::WarpgroupFence => writeln!(out, "warpgroup_fence();"),
        Action::WarpgroupMultiply { f16, sums, left, right, columns, keep } => {
            let (sums, right_across, y) = (vector(sums), right.1, expr(&right.0));
            match &left.0 {
                Left::Matrix(x) => writeln!(
                    out,
                    "warpgroup_multiply<{f16}, {}, {right_across}, {columns}>({sums}, {}, {y}, {});",
                    left.1,
                    expr(x),
                    expr(keep)
                ),
                Left::Registers(name, at) => writeln!(
                    out,
                    "warpgroup_multiply<{f16}, {right_across}, {columns}>({sums}, {name}{}, {y});",
                    indices(at)
                ),
            }
        }
        Action::WarpgroupCommit => writeln!(out, "warpgroup_commit();"),
        Action::WarpgroupWait(n) => writeln!(out, "warpgroup_wait<{n}>();"),
        Action::Kept(name, at) => writeln!(out, "keep({name}{});", indices(at)),
        Action::BarrierStart(of, count) => writeln!(out, "barrier_start({}, {count});", barrier(of)),
        Action::BarriersStarted => writeln!(out, "barriers_started();"),
        Action::BarrierArrive(of) => writeln!(out, "barrier_arrive({});", barrier(of)),
        Action::BarrierExpect(of, bytes) => writeln!(out, "barrier_expect({}, {});", barrier(of), expr(bytes)),
        Action::BarrierWait(of, phase) => writeln!(out, "barrier_wait({}, {});", barrier(of), expr(phase)),
        Action::TensorMapPrefetch(map) => writeln!(out, "map_ahead(&{});", argument(map)),
        Action::TensorMapCopy { to, map, barrier: tell, at } => {
            let all: Vec<String> = at.iter().map(expr).collect();
            let (to, tell, map) = (place(&to.0, &to.1), barrier(tell), argument(map));
            writeln!(
                out,
                "{{\nconst i32 box[{}] = {{{}}};\nmap_copy({to}, &{map}, {tell}, box);\n}}",
                all.len(),
                all.join(", ")
            )
        }
        Action::RegistersLess(n) => writeln!(out, "registers_less<{n}>();"),
        Action::RegistersMore(n) => writeln!(out, "registers_more<{n}>();"),
        Action::RotationStart(groups) => writeln!(out, "first_turn<{groups}>(group);"),
        Action::RotationWait(how, turns, turn) => {
            writeln!(out, "take_turn_{}(group, (Barrier *){turns}, {turn});", turn_name(*how))
        }
        Action::RotationSignal(how, turns, groups) => {
            writeln!(out, "give_turn_{}<{groups}>(group, (Barrier *){turns});", turn_name(*how))
        }
        Action::StoreAccumulators { pass, to, pitch, eights, cases } => {
            let _ = writeln!(out, "switch ({}) {{", expr(pass));
            for (n, (sums, first)) in cases.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "case {n}: hand_on<{pitch}, {eights}>({}, {}, {first}); break;",
                    vector(to),
                    vector(sums)
                );
            }
            writeln!(out, "}}")
        }
        Action::StoreInterleaved { operand, at, from, kept } => {
            writeln!(out, "store_dealt({}, {from}, {});", place(operand, at), expr(kept))
        }
        Action::Reset { counters, at } => writeln!(out, "{counters}[{}] = 0;", expr(at)),
        Action::StoreState { operand, at, value } => {
            writeln!(out, "store_state({}, {});", place(operand, at), expr(value))
        }
        Action::FoldBlocks { monoid, dtype, value, parts, all, ticket, at } => {
            let ([first, chunk, chunks], name) = (at.each_ref().map(expr), monoid::name(*monoid, *dtype));
            let none = constant(*dtype, monoid.identity(*dtype));
            writeln!(
                out,
                "fold_blocks<{name}, {}>({ticket}_words + 8 + {first}, {ticket}.tag, {chunk}, {chunks}, {none}, {value}, {parts}, {all});",
                held(*dtype)
            )
        }
        Action::Scan { number, group, back, buffer, thread, count, parts, links } => {
            let at = match links {
                None => "Alone()".into(),
                Some((ticket, places)) => {
                    let places: Vec<String> = places.iter().map(expr).collect();
                    format!("links({ticket}_words, {ticket}, {})", places.join(", "))
                }
            };
            let [thread, count] = [thread, count].map(expr);
            writeln!(out, "scan_row<Scan{number}, {group}, {back}>({buffer}, {thread}, {count}, {parts}, {at});")
        }
    };
}

/// C++ expression of a kernel argument: its first argument word.
pub fn argument(param: &Slot) -> String {
    format!("a.w[{}]", param.word())
}

/// Pointer to an mbarrier in shared memory.
fn barrier((name, at): &(String, Expr)) -> String {
    format!("(Barrier *)({})", place(name, at))
}

fn turn_name(how: Rotation) -> &'static str {
    match how {
        Rotation::NamedBarrier => "met",
        Rotation::Mbarrier => "told",
    }
}

/// C++ call of a routine that has a result.
fn routine(of: Routine, args: &[Expr]) -> String {
    let all = || args.iter().map(expr).collect::<Vec<_>>().join(", ");
    match of {
        Routine::Combine(op, dtype) => format!("{}::of({})", monoid::name(op, dtype), all()),
        Routine::FoldLanes(op, dtype) => format!("fold_lanes<{}>({})", monoid::name(op, dtype), all()),
        Routine::FoldThreads(op, dtype, group) => {
            format!("fold_warp<{}, {group}>({})", monoid::name(op, dtype), all())
        }
        Routine::FoldWarps(op, dtype, group) => format!("fold_parts<{}, {group}>({})", monoid::name(op, dtype), all()),
        Routine::FirstLane(_) => format!("__shfl_sync(0xffffffffu, {}, 0)", all()),
        Routine::Shuffle(from, _) => {
            let way = match from {
                Shuffle::From => "",
                Shuffle::Up => "_up",
                Shuffle::Xor => "_xor",
            };
            format!("__shfl{way}_sync(0xffffffffu, {})", all())
        }
        Routine::Nothing(scan) => format!("Scan{scan}::identity()"),
        Routine::Widened(scan) => format!("Scan{scan}::wide({})", all()),
        Routine::Accumulated(scan) => format!("Scan{scan}::of({})", all()),
        Routine::Narrowed(scan, _) => format!("Scan{scan}::narrow({})", all()),
        Routine::Further => format!("further({})", all()),
        Routine::PowerOfTwo => format!("power_of_two({})", all()),
        Routine::AnyOfWarp => format!("(__any_sync(0xffffffffu, {}) != 0)", all()),
        Routine::Pair(DType::F16) => format!("pack_f16({})", all()),
        Routine::Pair(_) => format!("pack_bf16({})", all()),
        Routine::MultiplyAdd(_) => format!("multiply_add({})", all()),
        Routine::Tf32 => format!("round_tf32({})", all()),
        Routine::Bits => format!("f32_bits({})", all()),
        Routine::Ballot => format!("__ballot_sync(0xffffffffu, {})", all()),
        Routine::Ones => format!("(u32)__popc({})", all()),
        Routine::AnyOfBlock => format!("(__syncthreads_or({}) != 0)", all()),
        Routine::TilesBefore => {
            let Expr::Drawn(ticket) = &args[0] else { unreachable!("the verifier asks for a ticket") };
            let [at, tile, total] = [&args[1], &args[2], &args[3]].map(expr);
            format!("tiles_before({ticket}_words + 8 + {at}, {ticket}.tag, {tile}, {total})")
        }
        Routine::OwnMean(dtype) => format!("own_mean<{}>({})", held(dtype), all()),
        Routine::NoState(l) => format!("State{l}::none()"),
        Routine::State(l) => {
            let [many, shift] = [&args[0], &args[1]].map(expr);
            let sums: Vec<String> = args[2..].iter().map(expr).collect();
            format!("State{l}{{{many}, {shift}, {{{}}}}}", sums.join(", "))
        }
        Routine::CombineStates(l) => format!("State{l}::of({})", all()),
        Routine::StatesOfWarp(_, group) => format!("states_of_warp<{group}>({})", all()),
        Routine::StatesOfBlock(_, group) => format!("states_of_block<{group}>({})", all()),
        Routine::About(_) => format!("{}.result({})", expr(&args[0]), expr(&args[1])),
        Routine::AboutMean(_) => {
            let rest: Vec<String> = args[1..].iter().map(expr).collect();
            format!("{}.result_about_mean({})", expr(&args[0]), rest.join(", "))
        }
    }
}

fn sizes(shape: &[u32]) -> String {
    shape.iter().map(|n| format!("[{n}]")).collect()
}

fn vector((name, at): &(String, Vec<Expr>)) -> String {
    format!("{name}{}", indices(at))
}

fn indices(at: &[Expr]) -> String {
    at.iter().map(|i| format!("[{}]", expr(i))).collect()
}

/// C++ expression of a pointer to an element: `operand + at`.
fn place(operand: &str, at: &Expr) -> String {
    format!("{operand} + {}", at_least(at, tight::PRODUCT))
}

/// Prints an expression.
pub fn expr(of: &Expr) -> String {
    written(of).0
}

/// Prints an expression, parenthesised if its precedence is lower than `tightness`.
fn at_least(of: &Expr, tightness: u8) -> String {
    let (text, own) = written(of);
    if own < tightness { format!("({text})") } else { text }
}

/// Prints an expression; also returns the precedence of its outermost operator.
fn written(of: &Expr) -> (String, u8) {
    use tight::{ATOM, SELECT, UNARY};
    let atom = |x: &Expr| at_least(x, UNARY);
    match of {
        Expr::Name(name, _) => (name.clone(), ATOM),
        Expr::Element { of, at, .. } => (format!("{of}{}", indices(at)), ATOM),
        Expr::OfPair { of, at, lane, .. } => (format!("bf16_of_pair({of}{}, {})", indices(at), expr(lane)), ATOM),
        Expr::Param(param) => (argument(param), ATOM),
        Expr::Scalar(dtype, param) => (scalar(*dtype, &argument(param)), UNARY),
        Expr::Number(n, ty) => (number(*n, *ty), UNARY),
        Expr::Constant(dtype, bits) => (constant(*dtype, *bits), UNARY),
        Expr::Thread => ("threadIdx.x".into(), ATOM),
        Expr::Block => ("blockIdx.x".into(), ATOM),
        Expr::Blocks => ("gridDim.x".into(), ATOM),
        Expr::Threads => ("blockDim.x".into(), ATOM),
        Expr::Binary(op, two) => {
            let (sign, own) = sign(*op);
            // Operators are left-associative: a right operand of the same precedence needs parentheses.
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
        Expr::Product(two) => (format!("rounded_product({}, {})", expr(&two[0]), expr(&two[1])), ATOM),
        Expr::Hidden(x) => (format!("hidden({})", expr(x)), ATOM),
        Expr::Cast(from, to, x) => (cast(*from, *to, &atom(x)), UNARY),
        // A narrow float in its memory format is its bits.
        Expr::Bitcast(DType::BF16 | DType::F16, DType::U16, x) if matches!(**x, Expr::Unpack(..)) => {
            written(&x.parts()[0])
        }
        Expr::Bitcast(from, to, x) => (bitcast(*from, *to, &atom(x)), UNARY),
        Expr::Unrounded(_, x) => written(x),
        Expr::Unpack(dtype, x) => (unpack(*dtype, &atom(x)), UNARY),
        Expr::Pack(dtype, x) => (pack_rounded(*dtype, &atom(x)), UNARY),
        Expr::Select(three) => {
            let [condition, yes, no] = three.each_ref().map(|x| at_least(x, tight::OR));
            (format!("{condition} ? {yes} : {no}"), SELECT)
        }
        Expr::Load(_, operand, at) => (format!("load1({})", place(operand, at)), ATOM),
        Expr::Scratch(_, name, at) => (format!("element_at({name}, {})", expr(at)), ATOM),
        Expr::Fresh(_, name, at) => (format!("load_cold({})", place(name, at)), ATOM),
        Expr::LoadState(_, name, at) => (format!("load_state({})", place(name, at)), ATOM),
        Expr::Matrix { of, at, leading } => (format!("matrix({}, {leading}, {EIGHT})", place(of, at)), ATOM),
        Expr::Whole(name, _) => (name.clone(), ATOM),
        Expr::Taken { tree, identity } => (format!("{tree}.take({})", expr(identity)), ATOM),
        Expr::Drawn(name) => (format!("{name}.number"), ATOM),
        Expr::Routine(of, args) => (routine(*of, args), ATOM),
        Expr::Gather { operand, place, .. } => {
            let [position, inside, fault] = place.each_ref();
            (format!("gather({operand}, {}, {}, (u32 *){})", expr(position), expr(inside), atom(fault)), ATOM)
        }
        Expr::Call(name, x) => (format!("{name}({})", expr(x)), ATOM),
    }
}

/// C++ literal of an integer of this type.
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
        Binary::Ne => ("!=", tight::SAME),
        Binary::BitAnd => ("&", tight::BITS),
        Binary::BitXor => ("^", tight::EXCLUSIVE),
        Binary::BitOr => ("|", tight::EITHER),
        Binary::Shl => ("<<", tight::SHIFTED),
        Binary::And => ("&&", tight::AND),
        Binary::Or => ("||", tight::OR),
    }
}
