//! Multiplications by a warpgroup (`wgmma`, sm_90a) as CUDA C++ with inline PTX.
//!
//! The instruction names every accumulator register, so a function for each width is generated where it is used. The
//! emulator has templates of the same names.

use std::fmt::Write;

/// Stride byte offset of a `wgmma` descriptor: bytes from one group of eight rows in shared memory to the next.
pub const EIGHT: u32 = 1024;

/// Location of operand A.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Shared memory; `across`: A is M-major there (elements along M are contiguous), else K-major.
    Shared { across: bool },
    /// Registers of the warpgroup's threads.
    Registers,
}

/// C++ definition of the function `warpgroup_multiply` for an accumulator tile of `columns` columns.
pub fn function(f16: bool, left: Left, right_across: bool, columns: u32) -> String {
    let sums = columns / 2;
    let dtype = if f16 { "f16" } else { "bf16" };
    let list: Vec<String> = (0..sums).map(|i| format!("%{i}")).collect();
    let constraints: Vec<String> = (0..sums).map(|i| format!("\"+f\"(d[{}][{}])", i / 4, i % 4)).collect();
    let (name, parameters, operands, matrices, inputs, flags) = match left {
        Left::Shared { across } => (
            format!(
                "template <bool F16, bool TA, bool TB, int N> FN void warpgroup_multiply(float (&d)[{}][4]",
                columns / 8
            ),
            "Matrix a, Matrix b, u32 keep".to_string(),
            "x, y".to_string(),
            format!("mov.b64 x, {{%{sums}, %{}}};\\nmov.b64 y, {{%{}, %{}}};\\n", sums + 1, sums + 2, sums + 3),
            "\"r\"(a.place), \"r\"(a.form), \"r\"(b.place), \"r\"(b.form), \"r\"(keep)".to_string(),
            format!("1, 1, {}, {}", across as u8, right_across as u8),
        ),
        Left::Registers => (
            format!("template <bool F16, bool TB, int N> FN void warpgroup_multiply(float (&d)[{}][4]", columns / 8),
            "const u32 (&a)[4], Matrix b".to_string(),
            format!("{{%{sums},%{},%{},%{}}}, y", sums + 1, sums + 2, sums + 3),
            format!("mov.b64 y, {{%{}, %{}}};\\n", sums + 4, sums + 5),
            "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b.place), \"r\"(b.form), \"r\"(1)".to_string(),
            format!("1, 1, {}", right_across as u8),
        ),
    };
    let keep = if left == Left::Registers { sums + 6 } else { sums + 4 };
    let mut out = String::from("#ifndef THALWEG_EMULATED\n");
    let _ = writeln!(out, "{name}, {parameters}) {{");
    let _ = writeln!(
        out,
        "  asm volatile(\"{{.reg .pred p;\\n.reg .b64 x, y;\\n{matrices}setp.ne.b32 p, %{keep}, 0;\\nwgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{dtype}.{dtype} {{{}}}, {operands}, p, {flags};}}\" : {} : {inputs} : \"memory\");",
        list.join(","),
        constraints.join(", "),
    );
    out + "}\n#endif\n"
}
