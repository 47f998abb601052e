//! Source of the generic kernels, interpreters of bytecode on the GPU.
//!
//! In: the width of interpreter values. Out: a kernel that interprets the instructions which `generic` assembles from a
//! body. An instruction's computation is the same expression as in a compiled kernel (`elements`, `types`), so that
//! results are the same. `generic.cuh` is the interpreter loop.
//!
//! There are several kernels, since compile time grows with the source: each has instructions that occur together.
//!
//! Always true: an instruction has the same opcode in all of them.

use super::elements::{expression, is_native};
use super::types::cast;
use std::fmt::Write;
use std::sync::LazyLock;
use thalweg_gpu::kernels::generic::Width;
use thalweg_ir::{DType, ElementOp};

/// Threads per block of every generic kernel.
pub const THREADS: u32 = 128;
/// Maximum number of kernel arguments: a launch has at most 4 KiB of them before CUDA 12.1.
pub const WORDS: usize = 500;
/// Bytes of shared memory that one interpreter value takes per block: 16 bytes for each of 128 threads.
pub const SLOT: usize = THREADS as usize * 16;

/// Whether the kernel of that width has an instruction for an operation.
pub fn has_instruction(width: Width, of: Computes) -> bool {
    let dtypes = match of {
        Computes::Element(_, dtype) => [dtype; 2],
        Computes::Cast(from, to) => [from, to],
    };
    let any = |wanted: DType| dtypes.contains(&wanted);
    match width {
        Width::Narrow => !any(DType::F64) && !any(DType::I64) && !is_function(of),
        Width::Functions => match of {
            Computes::Element(_, dtype) => {
                matches!(dtype, DType::F32 | DType::Bool) || is_light(of) && dtype == DType::U32
            }
            Computes::Cast(..) => dtypes.iter().all(|d| d.is_float() && *d != DType::F64 || *d == DType::U32),
        },
        Width::Wide => !any(DType::F64) && !is_function(of),
        Width::Double => any(DType::F64) || !is_function(of),
    }
}

/// Opcodes besides elementwise operations: memory accesses up to `Gather`, control flow `End` to `Once`, cross-thread
/// exchange and stores of reductions `Partner` to `Commit`, move and select.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Code {
    Load,
    Store,
    Index,
    Valid,
    Gather,
    End,
    Loop,
    EndLoop,
    Once,
    Partner,
    Rotate,
    Broadcast,
    Partial,
    Commit,
    Move,
    Where,
}

const CODES: [(&str, Code); 16] = [
    ("LOAD", Code::Load),
    ("STORE", Code::Store),
    ("INDEX", Code::Index),
    ("VALID", Code::Valid),
    ("GATHER", Code::Gather),
    ("END", Code::End),
    ("LOOP", Code::Loop),
    ("ENDLOOP", Code::EndLoop),
    ("ONCE", Code::Once),
    ("PARTNER", Code::Partner),
    ("ROTATE", Code::Rotate),
    ("BROADCAST", Code::Broadcast),
    ("PARTIAL", Code::Partial),
    ("COMMIT", Code::Commit),
    ("MOVE", Code::Move),
    ("WHERE", Code::Where),
];

/// Dtypes in which instructions compute. Narrow integers are computed in i32 and wrapped.
const COMPUTED: [DType; 6] = [DType::F32, DType::I32, DType::U32, DType::Bool, DType::F64, DType::I64];

/// Whether the generic kernels support a dtype.
pub fn has(dtype: DType) -> bool {
    !matches!(dtype, DType::U16 | DType::U64)
}

/// Dtype of [`COMPUTED`] in which a value of this dtype is held in a slot.
pub fn computed(dtype: DType) -> DType {
    match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        DType::I8 | DType::I16 | DType::U8 => DType::I32,
        other => other,
    }
}

/// Operation of an arithmetic instruction (as opposed to memory accesses and control flow).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Computes {
    /// Elementwise operation on arguments of a dtype of [`COMPUTED`].
    Element(ElementOp, DType),
    /// Cast from a dtype of [`COMPUTED`] to any dtype.
    Cast(DType, DType),
}

/// All operations, ordered by opcode. Their opcodes follow those of [`Code`].
static OPERATIONS: LazyLock<Vec<Computes>> = LazyLock::new(|| {
    let elements = COMPUTED.into_iter().flat_map(|d| {
        let own = ElementOp::ALL.iter().filter(move |&&op| op != ElementOp::Where && is_native(op, d));
        own.map(move |&op| Computes::Element(op, d))
    });
    let casts = COMPUTED.into_iter().filter(|d| *d != DType::Bool);
    let casts =
        casts.flat_map(|from| DType::ALL.into_iter().filter(|to| has(*to)).map(move |to| Computes::Cast(from, to)));
    elements.chain(casts.filter(|c| !matches!(c, Computes::Cast(a, b) if a == b))).collect()
});

/// Opcode of an operation; `None` if no kernel has it.
pub fn number(of: Computes) -> Option<u16> {
    OPERATIONS.iter().position(|o| *o == of).map(|at| (CODES.len() + at) as u16)
}

/// Whether an instruction is expanded in the source for each lane. All others, which are long or rare, call one shared
/// function, so that the source stays short and compiles fast.
fn is_light(of: Computes) -> bool {
    use ElementOp::*;
    let arithmetic = |op| matches!(op, Add | Sub | Mul);
    match of {
        Computes::Element(op, DType::F32) => arithmetic(op) || matches!(op, Neg | Square | Relu | Maximum | Minimum),
        Computes::Element(op, DType::U32) => arithmetic(op) || matches!(op, BitXor | BitOr | Shl | Shr),
        Computes::Element(op, DType::I64) => arithmetic(op),
        Computes::Cast(DType::F32, to) => matches!(to, DType::BF16 | DType::F16),
        _ => false,
    }
}

/// Whether an operation takes many instructions (transcendental functions).
fn is_function(of: Computes) -> bool {
    use ElementOp::*;
    let Computes::Element(op, dtype) = of else { return false };
    let plain =
        matches!(op, Neg | Abs | Sign | Square | Relu | Add | Sub | Mul | Div | Minimum | Maximum | Clamp | Lerp);
    let asked = matches!(op, IsNan | IsInf | IsFinite | Eq | Ne | Lt | Le | Gt | Ge | Floor | Ceil | Round | Trunc);
    dtype.is_float() && !plain && !asked
}

/// Expression that decodes an interpreter value as a dtype.
fn reading(dtype: DType, name: &str) -> String {
    format!("as_{}({name})", dtype.name())
}

/// CUDA C++ expression of an operation on the interpreter values named `x`, `y` and `z`.
fn text(of: Computes, [x, y, z]: [&str; 3]) -> String {
    match of {
        Computes::Element(op, dtype) => {
            let args = [x, y, z].map(|name| reading(dtype, name));
            expression(op, dtype, &args.each_ref().map(String::as_str)[..op.row().arity])
        }
        Computes::Cast(from, to) => cast(from, to, &reading(from, x)),
    }
}

/// Source of the generic kernel of this width: one function, `generic`.
pub fn source(width: Width) -> String {
    let mut out = String::new();
    let word = if width.is_wide() { "u64" } else { "u32" };
    let _ = write!(out, "typedef {word} WORD;\nconstexpr int LANES = {}, THREADS = {THREADS};\n", width.lanes());
    let _ = writeln!(out, "#define WORDS {WORDS}");
    for (name, code) in CODES {
        let _ = writeln!(out, "constexpr u32 {name} = {};", code as u16);
    }
    let _ = writeln!(out, "constexpr u32 LAST_ACCESS = GATHER, LAST_CONTROL = COMMIT;");
    for (number, dtype) in DType::ALL.into_iter().enumerate() {
        let _ = writeln!(out, "constexpr u32 OF_{} = {number};", dtype.name().to_uppercase());
    }
    let sizes = DType::ALL.map(|d| d.size().trailing_zeros()).into_iter().rev().fold(0, |all, s| all << 2 | s);
    let _ = writeln!(out, "constexpr u32 SIZES = {sizes};");
    out += WORDS_TEXT;
    if width.is_wide() {
        out += WIDE_TEXT;
    }
    let (mut light, mut heavy) = (String::new(), String::new());
    for (at, &of) in OPERATIONS.iter().enumerate() {
        if !has_instruction(width, of) {
            continue;
        }
        let number = CODES.len() + at;
        if is_light(of) {
            let _ = writeln!(light, "    EACH({number}, {})", text(of, ["x.x[v]", "y.x[v]", "z.x[v]"]));
        } else {
            let _ = writeln!(heavy, "    case {number}: return word({});", text(of, ["x", "y", "z"]));
        }
    }
    let _ = write!(
        out,
        "__device__ __noinline__ WORD heavy(u32 op, WORD x, WORD y, WORD z) {{\n  switch (op) {{\n{heavy}    default: return 0;\n  }}\n}}\n"
    );
    out +=
        "#define EACH(number, value) case number: for (int v = 0; v < LANES; v++) r.x[v] = word(value); return true;\n";
    let _ = write!(
        out,
        "FN bool light(u32 op, Lanes &r, const Lanes &x, const Lanes &y, const Lanes &z) {{\n  switch (op) {{\n    case MOVE: r = x; return true;\n    case WHERE: for (int v = 0; v < LANES; v++) r.x[v] = as_bool(x.x[v]) ? y.x[v] : z.x[v]; return true;\n{light}    default: return false;\n  }}\n}}\n"
    );
    out + GENERIC
}

/// Interpreter loop, shared by all widths.
pub const GENERIC: &str = include_str!("generic.cuh");

/// Conversions between interpreter values (words) and typed values: a value of 32 bits or less is in the low half of a
/// word.
const WORDS_TEXT: &str = "FN float as_f32(WORD x) { return bits_f32((u32)x); }
FN i32 as_i32(WORD x) { return (i32)(u32)x; }
FN u32 as_u32(WORD x) { return (u32)x; }
FN bool as_bool(WORD x) { return (u32)x != 0; }
FN WORD word(float x) { return f32_bits(x); }
FN WORD word(i32 x) { return (u32)x; }
FN WORD word(u32 x) { return x; }
FN WORD word(bool x) { return x; }
struct __align__(16) Lanes { WORD x[LANES]; };
";

const WIDE_TEXT: &str = "FN double as_f64(WORD x) { return __longlong_as_double((i64)x); }
FN i64 as_i64(WORD x) { return (i64)x; }
FN WORD word(double x) { return (u64)__double_as_longlong(x); }
FN WORD word(i64 x) { return (u64)x; }
";
