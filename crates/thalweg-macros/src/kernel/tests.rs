//! Tests of the macro: on random tokens, and of its output.

use super::expand;
use proc_macro2::TokenStream;
use quote::quote;

/// Tokens that may occur in a kernel, and some that may not.
const WORDS: &[&str] = &[
    "fn", "f", "x", "y", "F", "Real", "i32", "bool", "usize", "let", "mut", "if", "else", "for", "in", "while", "loop",
    "match", "return", "break", "continue", "unsafe", "async", "await", "const", "as", "move", "self", "&", "&&", "|",
    "||", "+", "-", "*", "/", "%", "=", "==", "+=", "<", ">", "<=", "..", "..=", "?", "!", ",", ";", ":", "::", "->",
    "Tile", "tile", "dot", ".", "=>", "_", "@", "#", "'a", "0", "1", "2u8", "0.5", "1e3", "1.0f32", "true", "\"s\"",
    "'c'", "b\"b\"",
];

fn random(rng: &mut fastrand::Rng, depth: usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(..12) {
        let open = if depth > 0 { rng.usize(..24) } else { 24 };
        let inner = |rng: &mut fastrand::Rng| random(rng, depth - 1);
        text += &match open {
            0 | 1 => format!("({})", inner(rng)),
            2..=4 => format!("{{{}}}", inner(rng)),
            5 => format!("[{}]", inner(rng)),
            _ => WORDS[rng.usize(..WORDS.len())].to_string(),
        };
        text.push(' ');
    }
    text
}

/// For any tokens the macro returns tokens: its output, or errors.
#[test]
fn no_tokens_make_it_panic() {
    let mut rng = fastrand::Rng::with_seed(1410000000);
    let mut kernels = 0;
    for _ in 0..10_000 {
        let text = match rng.usize(..4) {
            0 => random(&mut rng, 3),
            1 => format!(
                "fn f<F: Real>({}) -> {} {{ {} }}",
                random(&mut rng, 1),
                random(&mut rng, 1),
                random(&mut rng, 3)
            ),
            _ => format!("fn f<F: Real>(x: F, mut n: i32) -> F {{ {} }}", statements(&mut rng, 3)),
        };
        let Ok(tokens) = text.parse::<TokenStream>() else { continue };
        let options = if rng.bool() { TokenStream::new() } else { random(&mut rng, 1).parse().unwrap_or_default() };
        let written = expand(options, tokens).to_string();
        assert!(!written.is_empty(), "{text}");
        kernels += !written.contains("compile_error") as usize;
    }
    assert!(kernels > 500, "only {kernels} of them were kernels");
}

/// Generates random statements, about half of which parse.
fn statements(rng: &mut fastrand::Rng, depth: usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(..4) {
        let e = expression(rng, depth);
        text += &match rng.usize(..11) {
            0 => format!("let mut y = {e};"),
            1 => format!("let (mut a, b): (i32, bool) = ({e}, {e});"),
            2 => format!("x = {e};"),
            3 => format!("(x, n) = ({e}, 1);"),
            4 => format!("y += {e};"),
            5 if depth > 0 => format!("for k in 0..3 {{ {} }}", statements(rng, depth - 1)),
            7 if depth > 0 => format!("while {e} {{ {} }}", statements(rng, depth - 1)),
            8 if depth > 0 => format!("loop {{ if {e} {{ break; }} {} }}", statements(rng, depth - 1)),
            9 if depth > 0 => format!("for k in 0..n {{ if {e} {{ continue; }} {} }}", statements(rng, depth - 1)),
            6 if depth > 0 => format!("if {e} {{ {} }}", statements(rng, depth - 1)),
            _ => format!("{e};"),
        };
    }
    text + &expression(rng, depth)
}

fn expression(rng: &mut fastrand::Rng, depth: usize) -> String {
    if depth == 0 {
        return ["x", "y", "n", "0.5", "2", "true", "k"][rng.usize(..7)].into();
    }
    let mut next = || expression(rng, depth - 1);
    let (a, b) = (next(), next());
    let block = statements(rng, depth - 1);
    match rng.usize(..13) {
        0 => format!("({a} + {b})"),
        1 => format!("({a} < {b})"),
        2 => format!("({a} && !{b})"),
        3 => format!("if {a} {{ {block} }} else {{ {b} }}"),
        4 => format!("match {a} {{ 0 => {b}, 1 | 2..=5 => {{ {block} }} _ => {a} }}"),
        5 => format!("match {a} {{ m if m > {b} => m, _ => {a} }}"),
        6 => format!("({a} as F)"),
        7 => format!("{a}.max({b})"),
        8 => format!("[{a}; 3][{b}]"),
        9 => format!("(|z| {{ {block} }})({a})"),
        10 => format!("-{a}"),
        11 => format!("{{ {block} }}"),
        _ => random(rng, 1),
    }
}

/// Every mistake is reported separately, at its position.
#[test]
fn all_mistakes_of_a_kernel_are_told_at_once() {
    let written = expand(
        TokenStream::new(),
        quote! {
            fn f<F: Real>(x: F, list: Vec<F>) -> String {
                println!("{x}");
                while x > 0.0 {}
                return x;
            }
        },
    );
    assert_eq!(written.to_string().matches("compile_error").count(), 5, "{written}");
}
