//! Folds and scans of rows of scratch memory by combines of the user's own, a block a row.
//!
//! In: the combine, and what becomes of a row. Out: source of a function `combine`. The elements' components lie in a region
//! each. Always true: the order is that of [`thalweg_kernel::order::fold_by`] and [`thalweg_kernel::order::scan_by`], so that
//! results have the bits that every other device gives, where the combine is made of what is rounded correctly.

use super::elements::is_native;
use super::print;
use super::types::{constant, held};
use std::fmt::Write;
use thalweg_gpu::class::combined::{BLOCK, CombinedClass, LEVELS};
use thalweg_gpu::ir::{Expr, Type};
use thalweg_gpu::write::looped::{inner, result, statement};
use thalweg_ir::Loop;
use thalweg_kernel::order::SEGMENT;
use thalweg_kernel::{Along, NodeId, expand, turn};

/// The source of a fold or scan.
pub fn source(class: &CombinedClass) -> String {
    let mut out = definitions(class.of);
    let k = class.components();
    let _ = write!(
        out,
        "\nextern \"C\" __global__ void __launch_bounds__({BLOCK}) combine(THALWEG_PARAMETER({})) {{\n  begin();\n  \
         const i64 n = (i64)a.w[{}], row_step = (i64)a.w[{}], step = (i64)a.w[{}];\n  \
         const i64 row = blockIdx.x, t = threadIdx.x;\n  const Places of = {{{}}};\n",
        class.words(),
        2 * k,
        2 * k + 1,
        2 * k + 2,
        addresses(class.of, 0, "row * row_step"),
    );
    out += &if class.along == Along::Fold { fold(class) } else { scan(class) };
    out + "}\n"
}

/// The addresses in the words from number `first` on, moved by so many elements.
fn addresses(of: Loop, first: usize, moved: &str) -> String {
    let each = of.region().args.iter().enumerate();
    each.map(|(i, &d)| format!("({} *)a.w[{}] + {moved}", held(d), first + i)).collect::<Vec<_>>().join(", ")
}

/// An element, a place for some, and the combine.
fn definitions(of: Loop) -> String {
    let region = of.region();
    let k = region.args.len();
    let members = |mark: &str| -> String {
        region.args.iter().enumerate().map(|(i, &d)| format!(" {} {mark}c{i};", held(d))).collect()
    };
    let each = |f: &dyn Fn(usize) -> String| (0..k).map(f).collect::<Vec<_>>().join(" ");
    let mut out = format!("struct State {{{} }};\nstruct Places {{{} }};\n", members(""), members("*"));
    let _ = write!(
        out,
        "FN State get(Places p, i64 i) {{ State s; {} return s; }}\nFN void put(Places p, i64 i, State s) {{ {} }}\n",
        each(&|i| format!("s.c{i} = element_at(p.c{i}, i);")),
        each(&|i| format!("set_at(p.c{i}, i, s.c{i});")),
    );
    let identity: Vec<String> = of.identity().zip(&region.args).map(|(bits, &d)| constant(d, bits)).collect();
    let _ = writeln!(
        out,
        "FN State nothing() {{ State s; {} return s; }}",
        each(&|i| format!("s.c{i} = {};", identity[i]))
    );
    out += "FN State combined(State x, State y) {\n";
    for (i, &d) in region.args.iter().enumerate() {
        let _ = writeln!(out, "  const {} {} = x.c{i};", held(d), result("before", i as u16));
    }
    let after: Vec<Expr> =
        region.args.iter().enumerate().map(|(i, &d)| Expr::name(format!("y.c{i}"), Type::Held(d))).collect();
    let carried = |i: usize| Expr::name(result("before", i as u16), Type::Held(region.args[i]));
    let body = expand(&turn(of), &is_native);
    for i in 0..body.nodes.len() as u32 {
        out += &print::statements(&statement(&body, NodeId(i), ("before", &after), &carried, k, &is_native));
    }
    out += "  State z;\n";
    for (i, s) in body.sets[1..].iter().enumerate() {
        let _ = writeln!(out, "  z.c{i} = {};", inner("before", s.node));
    }
    out + "  return z;\n}\n"
}

/// Halves put together, then halves of what is left.
fn fold(class: &CombinedClass) -> String {
    let k = class.components();
    format!(
        r#"  const Places to = {{{}}};
  for (i64 left = n; left > 1;) {{
    const i64 half = (left + 1) / 2;
    for (i64 i = t; i < left - half; i += {BLOCK}) {{
      put(of, i * step, combined(get(of, i * step), get(of, (i + half) * step)));
    }}
    __syncthreads();
    left = half;
  }}
  if (t == 0) put(to, row, n > 0 ? get(of, 0) : nothing());
"#,
        addresses(class.of, k, "0"),
    )
}

/// Segments, a thread each; their last ones as a level above; and these put before what follows.
fn scan(class: &CombinedClass) -> String {
    let k = class.components();
    let place = if class.along == Along::Reversed { "(n - 1 - i) * step" } else { "i * step" };
    format!(
        r#"  const Places lasts = {{{}}};
  i64 at = 0, count = n;
  i64 starts[{LEVELS}], counts[{LEVELS}];
  int level = 0;
  for (;; level++) {{
    starts[level] = at;
    counts[level] = count;
    const i64 next = level == 0 ? 0 : at + count;
    for (i64 segment = t; segment * {SEGMENT} < count; segment += {BLOCK}) {{
      i64 i = segment * {SEGMENT};
      const i64 end = count - i < {SEGMENT} ? count : i + {SEGMENT};
      State y = level == 0 ? get(of, {place}) : get(lasts, at + i);
      for (i++; i < end; i++) {{
        y = combined(y, level == 0 ? get(of, {place}) : get(lasts, at + i));
        if (level == 0) put(of, {place}, y);
        else put(lasts, at + i, y);
      }}
      if (count > {SEGMENT}) put(lasts, next + segment, y);
    }}
    __syncthreads();
    if (count <= {SEGMENT}) break;
    at = next;
    count = (count + {SEGMENT} - 1) / {SEGMENT};
  }}
  while (--level >= 0) {{
    for (i64 i = {SEGMENT} + t; i < counts[level]; i += {BLOCK}) {{
      const State before = get(lasts, starts[level + 1] + i / {SEGMENT} - 1);
      if (level == 0) put(of, {place}, combined(before, get(of, {place})));
      else put(lasts, starts[level] + i, combined(before, get(lasts, starts[level] + i)));
    }}
    __syncthreads();
  }}
"#,
        addresses(class.of, k, &format!("row * (i64)a.w[{}]", 2 * k + 3)),
    )
}
