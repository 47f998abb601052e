//! Where a point of a domain is, and an access of it, as text.

use thalweg_gpu::space::{Inner, Slots, SpaceClass, Way};

/// The type of a position.
pub fn index_type(wide: bool) -> &'static str {
    if wide { "i64" } else { "i32" }
}

/// Source that takes `index`, row-major over some dimensions, apart into `{name}0, {name}1, …` (numbered by dimension),
/// from the innermost on.
pub fn decompose(class: &SpaceClass, slots: &Slots, dims: std::ops::Range<usize>, index: &str, name: &str) -> String {
    let mut out = String::new();
    let index_type = index_type(class.wide);
    if dims.is_empty() {
        return out;
    }
    let mut rest = index.to_string();
    for d in dims.clone().skip(1).rev() {
        let w = slots.dims + 2 * d;
        if class.wide {
            out += &format!("const i64 {name}{d} = {rest} % (i64)a.w[{w}], {name}q{d} = {rest} / (i64)a.w[{w}]; ");
        } else {
            out += &format!(
                "const Split {name}s{d} = split((u32){rest}, a.w[{w}], a.w[{}]); const {index_type} {name}{d} = {name}s{d}.r, {name}q{d} = {name}s{d}.q; ",
                w + 1
            );
        }
        rest = format!("{name}q{d}");
    }
    let first = dims.start;
    out + &format!("const {index_type} {name}{first} = {rest};\n")
}

/// The part of an access's position that some dimensions make, `names` their indices; the dimension of lanes counts in
/// vectors and is left at the first lane. Empty where it makes none.
pub fn offset(class: &SpaceClass, slots: &Slots, access: usize, dims: std::ops::Range<usize>, name: &str) -> String {
    let Way::Strided { inner, .. } = &class.ways[access] else { unreachable!("a map has no strides") };
    let index_type = index_type(class.wide);
    let mut terms = vec![];
    for d in dims {
        let stride = format!("({index_type})a.w[{}]", slots.accesses[access] + 1 + d);
        if Some(d) == class.lane() {
            match inner {
                Inner::Unit => terms.push(format!("{name}{d} * {}", class.lanes)),
                Inner::Zero => {}
                Inner::Any => terms.push(format!("{name}{d} * {} * {stride}", class.lanes)),
            }
        } else {
            terms.push(format!("{name}{d} * {stride}"));
        }
    }
    terms.join(" + ")
}

/// A device function's body that maps `point` to a position, -1 where it is masked out.
pub fn map_function(class: &SpaceClass, slots: &Slots, access: usize) -> String {
    let Way::Mapped(levels) = &class.ways[access] else { unreachable!("no map") };
    let mut out = String::from("    i64 at = point; bool in = true;\n");
    let mut w = slots.accesses[access] + 1;
    for &(rank, masked) in levels {
        let step = if masked { 5 } else { 3 };
        out += &format!("    {{ i64 to = (i64)a.w[{w}];");
        w += 1;
        for d in (0..rank as usize).rev() {
            let at = w + d * step;
            if class.wide {
                out += &format!(
                    "\n      {{ i64 n = (i64)a.w[{at}]; i64 i = at % n; at /= n; to += i * (i64)a.w[{}];",
                    at + 2
                );
            } else {
                out += &format!(
                    "\n      {{ Split s = split((u32)at, a.w[{at}], a.w[{}]); i32 i = s.r; at = s.q; to += (i64)i * (i64)a.w[{}];",
                    at + 1,
                    at + 2
                );
            }
            if masked {
                out += &format!(" in = in && i >= (i64)a.w[{}] && i < (i64)a.w[{}];", at + 3, at + 4);
            }
            out += " }";
        }
        // Where a point is masked out, the next view is not to be asked for something below 0.
        out += "\n      at = in ? to : 0; }\n";
        w += rank as usize * step;
    }
    out + "    return in ? at : -1;\n"
}
