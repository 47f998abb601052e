//! Folds and scans of rows of scratch memory by user-defined combines, a block per row.
//!
//! In: the combine, and whether it folds or scans. Out: the program. Each component of the elements has a region of its
//! own. Always true: the order is that of [`thalweg_kernel::order::fold_by`] and [`thalweg_kernel::order::scan_by`], so
//! that results have the same bits on every device, if all operations of the combine are correctly rounded.

use crate::dsl::Text;
use crate::emit::loops::{Native, inner, statement};
use crate::ir::{Expr, Kernel, Statement, Type};
use crate::kernels::combine::params::CombineParams;
use crate::kernels::combine::{BLOCK, CombineClass, LEVELS};
use thalweg_ir::Loop;
use thalweg_kernel::order::SEGMENT;
use thalweg_kernel::{Along, NodeId, expand, turn};

/// Builds the kernel of a class key.
pub fn kernel(class: &CombineClass, native: Native) -> Kernel {
    let (of, k) = (class.of, class.components());
    let types = &of.region().args;
    let identity: Vec<u64> = of.identity().collect();
    let names = |name: &str| -> Vec<String> { (0..k).map(|i| format!("{name}{i}")).collect() };
    let (elements, nothing) = (names("T"), names("nothing"));
    let (_, params) = CombineParams::new(class);
    let mut text = Text::new()
        .params(&params)
        .number("BLOCK", BLOCK)
        .number("SEGMENT", SEGMENT as u32)
        .number("LEVELS", LEVELS as u32)
        .holds("REVERSED", class.along == Along::Reversed)
        .procedure("combine", move |all| combine(of, all, native));
    for (i, &dtype) in types.iter().enumerate() {
        let bits = identity[i];
        text = text.ty(&elements[i], Type::Held(dtype)).function(&nothing[i], move |_| Expr::Constant(dtype, bits));
    }
    let own = if class.along == Along::Fold { FOLD } else { SCAN };
    let operands: String = (0..k).map(|i| format!("scratch of{i}: T{i} = param elements[{i}];\n")).collect();
    let results: String = (0..k).map(|i| format!("scratch to{i}: T{i} = param results[{i}];\n")).collect();
    let body = text.statements(&[&operands, &results, HEAD, &for_each(own, k)]);
    Kernel { name: "combine", block: BLOCK, blocks: None, params, definitions: vec![], body }
}

/// Expands a DSL text: a line with `#` is repeated for each component, with the component's index in place of `#`; `@x`
/// becomes `x0, x1, …`.
fn for_each(text: &str, components: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_string();
        while let Some(at) = line.find('@') {
            let name: String = line[at + 1..].chars().take_while(|c| c.is_alphanumeric()).collect();
            let all: Vec<String> = (0..components).map(|i| format!("{name}{i}")).collect();
            line.replace_range(at..=at + name.len(), &all.join(", "));
        }
        let times = if line.contains('#') { components } else { 1 };
        for i in 0..times {
            out += &line.replace('#', &i.to_string());
            out.push('\n');
        }
    }
    out
}

/// Emits the combination of the first third of `all` with the second third, to the last third.
fn combine(of: Loop, all: &[Expr], native: Native) -> Vec<Statement> {
    let k = all.len() / 3;
    let (before, after, to) = (&all[..k], &all[k..2 * k], &all[2 * k..]);
    let body = expand(&turn(of), native);
    let carried = |i: usize| before[i].clone();
    let mut out = vec![];
    for i in 0..body.nodes.len() as u32 {
        out.extend(statement(&body, NodeId(i), ("c", after), &carried, k, native));
    }
    let value = |id| Expr::name(inner("c", id), Type::Held(body.dtype(id)));
    out.extend(body.sets[1..].iter().zip(to).map(|(s, to)| Statement::Set(to.clone(), value(s.node))));
    out
}

const HEAD: &str = r"
let n = param points, begin = i64(block) * param row_stride, step = param point_stride, t = i64(thread);
";

/// Tree fold: combines the two halves of the row, then the halves of the result.
const FOLD: &str = r"
var left = n;
while left > 1 {
    let half = (left + 1) / 2;
    for i: i64 in t..left - half by BLOCK {
        let x# = of#[begin + i * step];
        let y# = of#[begin + (i + half) * step];
        var z#: T#;
        combine(@x, @y, @z);
        of#[begin + i * step] = z#;
    }
    barrier;
    left = half;
}
if t == 0 {
    to#[i64(block)] = n > 0 ? of#[begin] : nothing#();
}
";

/// Scan by levels: each thread scans segments. The last elements of segments form the next level, which is scanned in
/// the same way; each of its results is then combined into the elements of the segment that follows.
const SCAN: &str = r"
let own = i64(block) * param row_scratch;
fn place(i) = begin + (REVERSED ? n - 1 - i : i) * step;
var starts: i64[LEVELS];
var counts: i64[LEVELS];
var level = i32(0);
var at = i64(0), count = n;
var more = u32(1);
while more == 1 {
    starts[level] = at;
    counts[level] = count;
    let next = level == 0 ? i64(0) : at + count;
    for segment: i64 in t..(count + SEGMENT - 1) / SEGMENT by BLOCK {
        let first = segment * SEGMENT, end = min(count, first + SEGMENT);
        var x#: T#;
        var y#: T#;
        var z#: T#;
        if level == 0 { x# = of#[place(first)]; } else { x# = to#[own + at + first]; }
        for i: i64 in first + 1..end {
            if level == 0 { y# = of#[place(i)]; } else { y# = to#[own + at + i]; }
            combine(@x, @y, @z);
            x# = z#;
            if level == 0 { of#[place(i)] = z#; } else { to#[own + at + i] = z#; }
        }
        if count > SEGMENT { to#[own + next + segment] = x#; }
    }
    barrier;
    if count <= SEGMENT {
        more = 0;
    } else {
        at = next;
        count = (count + SEGMENT - 1) / SEGMENT;
        level += 1;
    }
}
while level > 0 {
    level -= 1;
    for i: i64 in t + SEGMENT..counts[level] by BLOCK {
        let x# = to#[own + starts[level + 1] + i / SEGMENT - 1];
        var y#: T#;
        var z#: T#;
        if level == 0 { y# = of#[place(i)]; } else { y# = to#[own + starts[level] + i]; }
        combine(@x, @y, @z);
        if level == 0 { of#[place(i)] = z#; } else { to#[own + starts[level] + i] = z#; }
    }
    barrier;
}
";
