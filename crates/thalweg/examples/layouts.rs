//! Measures how the layout that code meets first affects layouts it meets later:
//! `cargo run --release -p thalweg --example layouts`.
//!
//! Each case runs the same code on two inputs with different layouts or sizes, in a child process (so that neither
//! finds the other's plans), in both orders. The disk cache is off, and plans compete as by default. It prints the
//! median of the last calls of each.

use std::process::Command;
use std::time::Instant;
use thalweg::prelude::*;

const CALLS: usize = 40;

/// The tensor, computed, so that it is an input of the following segment.
fn in_memory(x: Tensor) -> Tensor {
    thalweg::synchronize().expect("the device is well");
    x
}

/// Row-wise: a softmax whose result is also reduced over columns.
fn rows(x: &Tensor) -> Vec<f32> {
    let e = (x - x.amax_keepdim(-1)).exp();
    let p = &e / e.sum_keepdim(-1);
    (&p * x).sum(0).to_vec().expect("it runs")
}

/// Statistics along both axes of a function of the input.
fn statistics(x: &Tensor) -> Vec<f32> {
    let h = (x * 1.5).tanh();
    let centred = &h - h.mean(0);
    let out = (&centred * &centred).sum(1) + h.sum(1);
    out.to_vec().expect("it runs")
}

/// Rows made of every `step`-th column of a wide tensor. The step is an argument, so the code is the same.
fn stepped(rows: usize, columns: usize, step: usize) -> Tensor {
    in_memory(Tensor::randn([rows, columns * step]))
}

fn columns_of(x: &Tensor, step: i64) -> Tensor {
    x.slice((.., thalweg::SliceArg::range(0, None, step)))
}

type Call = Box<dyn Fn() -> Vec<f32>>;

/// A case: its name, and the code on the one input and on the other.
fn case(name: &str) -> [(&'static str, Call); 2] {
    let sliced = |f: fn(&Tensor) -> Vec<f32>, step: i64| -> Call {
        let x = stepped(2048, 512, step as usize);
        Box::new(move || f(&columns_of(&x, step)))
    };
    let given = |f: fn(&Tensor) -> Vec<f32>, x: Tensor| -> Call {
        let x = in_memory(x);
        Box::new(move || f(&x))
    };
    let wide = |step: i64| columns_of(&Tensor::randn([2048, 512 * step as usize]), step);
    match name {
        "slice, rows" => [("strided", sliced(rows, 16)), ("contiguous", sliced(rows, 1))],
        "slice, statistics" => [("strided", sliced(statistics, 16)), ("contiguous", sliced(statistics, 1))],
        "view, rows" => {
            [("strided", given(rows, wide(16))), ("transposed", given(rows, Tensor::randn([512, 2048]).t()))]
        }
        "view, statistics" => [
            ("strided", given(statistics, wide(16))),
            ("with gaps", given(statistics, Tensor::randn([2048, 1024]).narrow(1, 0, 512))),
        ],
        "size, rows" => {
            [("16 x 16", given(rows, Tensor::randn([16, 16]))), ("2048 x 512", given(rows, Tensor::randn([2048, 512])))]
        }
        "size, statistics" => [
            ("16 x 16", given(statistics, Tensor::randn([16, 16]))),
            ("2048 x 512", given(statistics, Tensor::randn([2048, 512]))),
        ],
        _ => panic!("no case is named {name}"),
    }
}

const CASES: [&str; 6] =
    ["slice, rows", "slice, statistics", "view, rows", "view, statistics", "size, rows", "size, statistics"];

/// Measures a call: returns the median time of the second half of the calls, in µs.
fn measure(call: &Call) -> f64 {
    let mut times: Vec<f64> = (0..CALLS)
        .map(|_| {
            let begin = Instant::now();
            std::hint::black_box(call());
            begin.elapsed().as_secs_f64() * 1e6
        })
        .skip(CALLS / 2)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Child process: the time of the last case after the ones before it.
fn child(name: &str, order: &str) {
    let calls = case(name);
    let times: Vec<f64> = order.chars().map(|c| measure(&calls[if c == 'a' { 0 } else { 1 }].1)).collect();
    println!("{}", times[times.len() - 1]);
}

fn in_a_process(name: &str, order: &str) -> f64 {
    let program = std::env::current_exe().expect("it runs");
    let out = Command::new(program).args([name, order]).env("THALWEG_CACHE", "off").output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().parse().expect("a time")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [name, order] = &args[..] {
        return child(name, order);
    }
    println!("| code | second | alone, µs | after the first, µs | first | alone, µs | after the second, µs |");
    println!("|---|---|---|---|---|---|---|");
    for name in CASES {
        let names = case(name).map(|c| c.0);
        let time = |order: &str| in_a_process(name, order);
        let [second, after, first, behind] = ["b", "ab", "a", "ba"].map(time);
        println!("| {name} | {} | {second:.0} | {after:.0} | {} | {first:.0} | {behind:.0} |", names[1], names[0]);
    }
}
