//! Scatters: values put in at given places along an axis.
//!
//! First the tensor is copied to where the result is, unless it lies there. Then each thread takes one line along the axis, and puts its values in one after the other: values that
//! meet one element do so in the order of the index, and each result is rounded where it lies. Lines side by side are threads side by side.

use super::elements::expression;
use super::types::{held, pack, stored, unpack};
use crate::compiler::Compiler;
use crate::launch::Word;
use crate::program::{Draft, Plan, blocks};
use crate::render::UnitKey;
use crate::space::divisor;
use std::fmt::Write;
use thalweg_ir::{DType, ElementOp, ScatterOp};
use thalweg_kernel::ScatterGeometry;

/// Words before those of the dimensions: addresses of tensor, index, values, result; lines; indices of a line; elements of a line; strides along the
/// axis of the four; the fault.
const HEAD: usize = 12;
const BLOCK: u32 = 128;

/// What decides the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScatterClass {
    /// How a value is put in; none: the copy of the tensor.
    pub op: Option<ScatterOp>,
    /// Of tensor, values, result.
    pub dtype: DType,
    /// Dimensions beside the axis.
    pub dims: u8,
}

/// Adds a scatter. `targets`: where tensor, index, values and result are.
pub fn add(plan: &mut Plan, op: ScatterOp, dtype: DType, g: &ScatterGeometry, targets: [Word; 4], compiler: &Compiler) {
    let dims: Vec<_> = g.outer.iter().chain(&g.inner).copied().collect();
    let lines: usize = dims.iter().map(|d| d.0).product();
    let mut words = vec![0u64; HEAD + 6 * dims.len()];
    words[4..7].copy_from_slice(&[lines, g.n, g.size].map(|v| v as u64));
    words[7..11].copy_from_slice(&g.steps.map(|s| s as u64));
    for (i, (d, strides)) in dims.iter().enumerate() {
        let at = HEAD + 6 * i;
        words[at..at + 2].copy_from_slice(&divisor((*d).max(1)));
        words[at + 2..at + 6].copy_from_slice(&strides.map(|s| s as u64));
    }
    let sizes = [dtype.size(), 8, dtype.size(), dtype.size()];
    let mut patches = vec![(11, Word::Fault)];
    for (i, target) in targets.into_iter().enumerate() {
        let base = g.base[i] as i64 * sizes[i] as i64;
        match target {
            Word::Operand(o, offset) => patches.push((i, Word::Operand(o, offset + base))),
            // What is computed is read through a view, too.
            Word::Scratch(piece, offset) => patches.push((i, Word::Scratch(piece, offset + base))),
            other => patches.push((i, other)),
        }
    }
    plan.checked = true;
    for (op, work) in [(None, lines * g.size), (Some(op), if g.n == 0 { 0 } else { lines })] {
        if work > 0 {
            let unit = compiler.unit(UnitKey::Scatter(ScatterClass { op, dtype, dims: dims.len() as u8 }));
            let grid = [blocks(work, BLOCK as usize), 1, 1];
            let (words, patches) = (words.clone(), patches.clone());
            plan.stages.push(Draft { unit, grid, block: BLOCK, shared: 0, words, patches });
        }
    }
}

/// The source of a scatter, or of the copy before it, with one function, `scatter`.
pub fn source(class: &ScatterClass) -> String {
    let mut out = String::new();
    let (s, dims) = (stored(class.dtype), class.dims as usize);
    let mut lines = String::new();
    for d in (0..dims).rev() {
        let w = HEAD + 6 * d;
        let _ = write!(lines, "  {{ const i64 d = (i64)(u32)a.w[{w}], i = rest % d; rest /= d;");
        for (k, p) in ["at0", "at1", "at2", "at3"].iter().enumerate() {
            let _ = write!(lines, " {p} += i * (i64)a.w[{}];", w + 2 + k);
        }
        lines += " }\n";
    }
    let work = match class.op {
        None => format!(
            r#"  // Lines run side by side, so that neighbours in memory mostly are neighbouring threads.
  if (a.w[0] == a.w[3]) return;
  if (g >= (i64)a.w[4] * (i64)a.w[6]) return;
  i64 rest = g % (i64)a.w[4]; const i64 along = g / (i64)a.w[4];
{lines}  store1(to + at3 + along * (i64)a.w[10], load1(tensor + at0 + along * (i64)a.w[7]));
"#
        ),
        Some(op) => format!(
            r#"  if (g >= (i64)a.w[4]) return;
  i64 rest = g;
{lines}  for (i64 i = 0; i < (i64)a.w[5]; i++) {{
    const i64 place = load1(index + at1 + i * (i64)a.w[8]);
    if (place < 0 || place >= (i64)a.w[6]) {{ *(u32 *)a.w[11] = 1; continue; }}
    const {s} raw = load1(values + at2 + i * (i64)a.w[9]);
    {s} *const p = to + at3 + place * (i64)a.w[10];
    {}
  }}
"#,
            put(op, class.dtype)
        ),
    };
    let _ = write!(
        out,
        r#"
extern "C" __global__ void __launch_bounds__({BLOCK}) scatter(THALWEG_PARAMETER({words})) {{
  begin();
  const {s} *const tensor = (const {s} *)a.w[0], *const values = (const {s} *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  {s} *const to = ({s} *)a.w[3];
  const i64 g = (i64)blockIdx.x * {BLOCK} + threadIdx.x;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0;
{work}}}
"#,
        words = HEAD + 6 * dims,
    );
    out
}

fn put(op: ScatterOp, dtype: DType) -> String {
    let element = match op {
        ScatterOp::Set => return "*p = raw;".into(),
        ScatterOp::Add => ElementOp::Add,
        ScatterOp::Prod => ElementOp::Mul,
        ScatterOp::Max => ElementOp::Maximum,
        ScatterOp::Min => ElementOp::Minimum,
    };
    let (old, new) = (unpack(dtype, "(*p)"), unpack(dtype, "raw"));
    let result = match (dtype, element) {
        // Sums modulo 2.
        (DType::Bool, ElementOp::Add) => "before != value".into(),
        (DType::Bool, ElementOp::Maximum) => "before || value".into(),
        (DType::Bool, _) => "before && value".into(),
        (DType::BF16 | DType::F16, op) => expression(op, DType::F32, &["before", "value"]),
        (_, op) => expression(op, dtype, &["before", "value"]),
    };
    let h = held(dtype);
    format!("{{ const {h} before = {old}, value = {new}; *p = {}; }}", pack(dtype, &format!("({result})")))
}
