//! Times slice assignment: a stencil step by `slice_mut`, by concatenation and by a mask, and a loop over rows.
//!
//!     cargo run --release -p thalweg --example parts
#![allow(clippy::reversed_empty_ranges, reason = "-1 counts from the end: clippy does not know")]

use std::time::Instant;
use thalweg::prelude::*;

/// The minimum time of some iterations, in microseconds, after a warm-up.
fn least(mut turn: impl FnMut()) -> f64 {
    (0..40).for_each(|_| turn());
    let time = |turn: &mut dyn FnMut()| {
        let begin = Instant::now();
        turn();
        begin.elapsed().as_secs_f64() * 1e6
    };
    (0..200).map(|_| time(&mut turn)).fold(f64::INFINITY, f64::min)
}

/// The inner points after a step of the heat equation.
fn inner(u: &Tensor) -> Tensor {
    let here = u.slice((1..-1, 1..-1));
    let near = u.slice((2.., 1..-1)) + u.slice((..-2, 1..-1)) + u.slice((1..-1, 2..)) + u.slice((1..-1, ..-2));
    &here + (near - &here * 4.0) * 0.1
}

fn by_part(u: &mut Tensor) {
    let new = inner(u);
    u.slice_mut((1..-1, 1..-1)).assign(new);
}

fn by_joins(u: &mut Tensor) {
    let new = inner(u);
    let row = Tensor::cat(&[u.slice((1..-1, ..1)), new, u.slice((1..-1, -1..))], 1);
    *u = Tensor::cat(&[u.slice((..1, ..)), row, u.slice((-1.., ..))], 0);
}

fn by_mask(u: &mut Tensor, mask: &Tensor) {
    let new = inner(u).pad([(1, 1), (1, 1)], 0);
    *u = mask.where_(new, &*u);
}

fn main() -> Result<(), Error> {
    println!("{:>6} {:>12} {:>12} {:>12}   microseconds a step", "n", "slice_mut", "cat", "pad, mask");
    for n in [128, 512, 2048] {
        let mask = Tensor::ones([n - 2, n - 2]).pad([(1, 1), (1, 1)], 0).ne(0);
        let mut u = Tensor::randn([n, n]);
        thalweg::synchronize()?;
        let run = |u: &mut Tensor, step: &dyn Fn(&mut Tensor)| {
            least(|| {
                step(u);
                thalweg::synchronize().expect("it runs");
            })
        };
        let part = run(&mut u, &by_part);
        let joins = run(&mut u, &by_joins);
        let masked = run(&mut u, &|u| by_mask(u, &mask));
        println!("{n:>6} {part:>12.1} {joins:>12.1} {masked:>12.1}");
    }
    let mut x = Tensor::zeros([4096, 256]);
    thalweg::synchronize()?;
    for pass in ["first", "second"] {
        let (before, begin) = (thalweg::counters(), Instant::now());
        for i in 0..4096i64 {
            x.set(i, Tensor::arange(256) * i);
            if i % 64 == 63 {
                thalweg::synchronize()?;
            }
        }
        let (c, us) = (thalweg::counters() - before, begin.elapsed().as_secs_f64() * 1e6);
        let (each, bytes) = (us / 4096.0, c.bytes_written / 4096);
        println!("{each:.1} microseconds and {bytes} bytes written a row of 4096 x 256, {pass} pass");
    }
    Ok(())
}
