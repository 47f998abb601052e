//! Grouped launches: independent kernels in one launch (horizontal fusion).
//!
//! In: the classes of the components. Out: a source with one function, `group`. Its argument is a table (for each
//! component its first block, its class, and the index of its first argument word), followed by the argument words of
//! all components. A block finds its component in the table, and runs like a block of that component alone. The first
//! component has most blocks, so these ask the table once. The source has each class once, whatever the number and sizes
//! of components.

use super::Source;
use std::fmt::Write;
use thalweg_gpu::kernels::GroupClass;

/// Beginning of a kernel function's definition, at which a component's source is split.
const FUNCTION: &str = "extern \"C\" __global__";

/// Definition lines before a component's function that begin with `of`: of its monoids (`struct`), or of the states of
/// its online folds (`typedef`).
fn definitions<'a>(part: &'a Source, of: &'a str) -> impl Iterator<Item = &'a str> {
    let function = part.own.rfind(FUNCTION).unwrap_or(0);
    part.own[..function].lines().filter(move |line| line.starts_with(of))
}

/// Body of a component's function, which is the last item of its source.
fn statements(part: &Source) -> &str {
    let own = &part.own;
    let function = own.rfind(FUNCTION).unwrap_or(0);
    let begin = own[function..].find("begin();\n").map_or(0, |at| function + at + 9);
    let end = own.rfind('}').unwrap_or(begin);
    &own[begin..end]
}

/// Source of a grouped launch, after the prelude.
pub fn source(class: &GroupClass) -> String {
    let (block, words) = (class.block, class.words);
    let parts: Vec<Source> = class.parts.iter().map(|part| super::source(part)).collect();
    let mut functions: Vec<&str> = vec![];
    for part in &class.parts {
        let before = super::before(part);
        if !functions.contains(&before) {
            functions.push(before);
        }
    }
    // Monoids are named by operation and type; states are numbered by kernel, so they are local to a case.
    let mut monoids: Vec<&str> = parts.iter().flat_map(|part| definitions(part, "struct ")).collect();
    monoids.sort_unstable();
    monoids.dedup();
    let mut out: String = functions.concat();
    out.extend(monoids.iter().map(|line| format!("\n{line}")));
    let _ = write!(
        out,
        r#"
extern "C" __global__ void __launch_bounds__({block}) group(THALWEG_PARAMETER({words})) {{
  u32 part = 0;
  if ((u32)a.w[2] <= blockIdx.x) {{
    part = 1;
    for (u32 end = (u32)a.w[0]; end - part > 1;) {{
      const u32 middle = (part + end) / 2;
      if ((u32)a.w[1 + middle] <= blockIdx.x) part = middle; else end = middle;
    }}
  }}
  begin();
  const u64 part_head = a.w[1 + part];
  const u32 part_block = blockIdx.x - (u32)part_head, part_words = (u32)(part_head >> 32) & 0xfffff;
  switch ((u32)(part_head >> 52)) {{
"#
    );
    // Classes whose source is the same share a case.
    for (number, part) in parts.iter().enumerate() {
        if parts[..number].iter().any(|other| other.own == part.own) {
            continue;
        }
        let cases = (number..parts.len()).filter(|&n| parts[n].own == part.own);
        let cases: String = cases.map(|n| format!("case {n}: ")).collect();
        let statements = statements(part).replace("a.w[", "a.w[part_words + ").replace("blockIdx.x", "part_block");
        let states: String = definitions(part, "typedef ").map(|line| format!("  {line}\n")).collect();
        let _ = write!(out, "  {cases}{{\n{states}{statements}  break; }}\n");
    }
    out + "  }\n}\n"
}
