//! Tests of the DSL: statements of texts, and messages of errors.

use crate::dsl::*;
use crate::ir::{Kernel, Kind, Layout, verify};
use thalweg_ir::DType;

/// Arguments of all kernels here.
fn arguments() -> Layout {
    let mut layout = Layout::named();
    for name in ["x", "y", "z"] {
        layout.field(name, |layout| layout.add(Kind::Address));
    }
    layout.field("n", |layout| layout.add(Kind::U32));
    layout.field("dims", |layout| layout.each(2, |layout, _| layout.field("stride", |layout| layout.add(Kind::I64))));
    layout
}

fn kernel(text: &Text<'_>, source: &str) -> Kernel {
    let params = arguments();
    let body = text.clone().params(&params).statements(&[source]);
    Kernel { name: "k", block: 64, blocks: None, params, definitions: vec![], body }
}

/// Statements of a text in their printed form.
#[track_caller]
fn shown(text: &Text<'_>, source: &str) -> String {
    let kernel = kernel(text, source);
    assert_eq!(verify(&kernel), Ok(()));
    kernel.to_string().lines().skip(7).map(|line| format!("{}\n", &line[2..])).collect()
}

#[track_caller]
fn becomes(source: &str, expected: &str) {
    let text = Text::new().number("EACH", 4).holds("LAST", true).ty("S", Type::Stored(DType::BF16));
    assert_eq!(shown(&text, source), expected);
}

#[test]
fn values_are_put_together_as_in_c() {
    becomes(
        "let x = thread + 2 * 3 << 1 & ~7, y = x > 3 && x % EACH != 0 ? x : 9;",
        "x: u32 = (((thread + 6) << 1) & -8)\ny: u32 = (x if ((3 < x) and ((x % 4) != 0)) else 9)\n",
    );
    becomes("let x = i64(thread) - -1, y = !(x >= 2);", "x: i64 = (i64(thread) - -1)\ny: bool = not((2 <= x))\n");
}

#[test]
fn elements_are_packed_and_unpacked() {
    becomes(
        "operand from: S = param x; scratch to: S = param y; let x = value(from[3]); to[thread] = S(x); let b = bits(x);",
        "operand from: stored bf16 at x\noperand to: stored bf16 at y\nx: bf16 = unpack(load from[3])\nscratch to[thread] = pack bf16(x)\nb: u16 = bits of x as u16\n",
    );
}

#[test]
fn arguments_are_read_by_name_as_their_type_or_another() {
    becomes(
        "let a = param n, b = i64(param n) * param dims[1].stride, c = param x != param y;",
        "a: u32 = u32(n)\nb: i64 = (i64(n) * i64(dims[1].stride))\nc: bool = (x != y)\n",
    );
}

#[test]
fn loops_and_choices() {
    becomes(
        "var x = u32(0); for k in 0..8 by 2 unroll { x += 1; } while x < 9 { x ^= 1; break; } if x == 1 { x = 0; } else if x == 2 { return; }",
        "variable x: u32 = 0\nfor k from 0 below 8 by 2 written out:\n  x = (x + 1)\nwhile (x < 9):\n  x = (x ^ 1)\n  break\nif (x == 1):\n  x = 0\nelse:\n  if (x == 2):\n    return\n",
    );
    becomes("when LAST { let x = thread; } else { nonsense( } let y = x;", "x: u32 = thread\ny: u32 = x\n");
    becomes("when !LAST { nonsense } else when LAST { let x = thread; } else { more }", "x: u32 = thread\n");
}

#[test]
fn what_stands_for_others_has_its_own_names() {
    // `m` of the proc is not the `m` that its argument mentions; functions see the names around their definition.
    becomes(
        "let m = thread; fn next(i) = m + i; proc more(x, f) { let m = f(x + 1); x = m; } var y = m; more(y, next); more(y, next);",
        "m: u32 = thread\nvariable y: u32 = m\nscope:\n  m_1: u32 = (m + (y + 1))\n  y = m_1\nscope:\n  m_2: u32 = (m + (y + 1))\n  y = m_2\n",
    );
    // An argument is evaluated once.
    becomes(
        "var y: u32[EACH]; proc set(i) { y[i] = i; } set(thread % EACH);",
        "registers y: u32 [4]\nscope:\n  i_1: u32 = (thread % 4)\n  y[i_1] = i_1\n",
    );
}

#[test]
fn memory_that_threads_share() {
    becomes(
        "shared counts: u32[EACH]; let before = atomic_add(counts[thread % EACH], 1); ticket own = param x; constant all: u32 = param y; if all[own] == 0 { return; } barrier;",
        "shared counts: u32 [4]\nbefore = atomic add counts[(thread % 4)], 1\nticket own from x\nconstant all: u32 at y\nif (load all[number of own] == 0):\n  return\nbarrier\n",
    );
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let cases = [
        ("let x = y;", "line 1: `y` is not declared"),
        ("let x = param y;", "line 1: `y` is no kernel argument"),
        ("let x = thread;\nx = 4", "line 2: `;` is wanted, and not End"),
        ("var x = 4;", "line 1: `x` has no type"),
        ("let x: f99 = 1;", "line 1: `f99` is no type"),
        ("if thread == 0 {", "line 1: a block has no end"),
        ("barrier(3);", "line 1: `;` is wanted, and not Sign(\"(\")"),
        ("let x = nothing(thread);", "line 1: there is no `nothing` of 1 values"),
        ("var x: u32[thread];", "line 1: a number is wanted that is known here"),
        ("let x = f32(u8(thread)) + 99999999999999999999;", "line 1: `99999999999999999999` is no number"),
        ("fn two(i) = i + i i; let x = two(thread);", "line 1: `;` is wanted, and not Name(\"i\")"),
        ("fn both(i, j) = i + j; let x = both(thread block);", "line 1: `,` is wanted, and not Name(\"block\")"),
        ("fn both(i j) = i + j;", "line 1: `,` is wanted, and not Name(\"j\")"),
        ("let x = ones(thread block);", "line 1: `,` is wanted, and not Name(\"block\")"),
        ("fn same(i) = same(i); let x = same(thread);", "line 1: something stands for itself"),
        ("let x: i64 = thread;", "line 1: `x` is i64, and thread is u32"),
        ("let x[4] = thread;", "line 1: elements of `x` have no type"),
        ("let x = 9223372036854775807 + 1;", "line 1: 9223372036854775807 + 1"),
        ("when 1 { let x = thread; } else when 0", "line 1: a `when` has no block"),
        ("for k: u32 in 0..8 unroll(0 - 1) { }", "line 1: -1 is no count"),
        ("shared s: u32[8]; copy_ahead(s[0], s[1], 0 - 16);", "line 1: -16 is no count"),
        ("shared s: u32[8]; copy_ahead(s[0] s[1] 16);", "line 1: `,` is wanted, and not Name(\"s\")"),
    ];
    for (source, expected) in cases {
        let read = Parser::new(&FxHashMap::default(), Rc::default(), source).and_then(|mut parser| parser.all());
        assert_eq!(read.unwrap_err(), expected, "{source}");
    }
}

#[test]
fn barriers_are_met_where_what_changes_is_the_same_in_all_threads() {
    let text = Text::new();
    let checked = |source| verify(&kernel(&text, source));
    assert_eq!(checked("var x = u32(8); while x < param n { barrier; x += x; }"), Ok(()));
    let missed = Err("k: some threads of a block do not come to a barrier".to_string());
    assert_eq!(checked("var x = u32(8); while x < param n { barrier; x += thread; }"), missed);
    assert_eq!(checked("var x = u32(8); while x < 9 { barrier; if thread == 0 { x += 1; } }"), missed);
    assert_eq!(checked("let x = any_of_block(thread == 3); if x { barrier; }"), Ok(()));
    let apart = "k: some threads of a block do not come to what all of them tell".to_string();
    assert_eq!(checked("if thread < 3 { let x = any_of_block(thread == 1); }"), Err(apart));
    assert_eq!(checked("constant x: u32 = param x; x[0] = 2;"), Err("k: `x` is constant".to_string()));
}
