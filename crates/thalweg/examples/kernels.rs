//! Kernels from one line to forty, described in docs/custom-kernels.md. Each is compared with itself on numbers;
//! `--time` also times them on large tensors (`--time 1024` on smaller ones, `--time 1024 heat` one of them), next to
//! `bench/kernels.py`.
//!
//! ```sh
//! cargo run --release --example kernels -- --time
//! ```

use std::f64::consts::FRAC_1_SQRT_2;
use std::time::Instant;
use thalweg::kernel::{Edge, Field, Row};
use thalweg::prelude::*;

/// 1. Leaky ReLU: `x` is scaled where it is negative.
#[kernel]
pub fn leaky<F: Real>(x: F, slope: F) -> F {
    if x < 0.0 { slope * x } else { x }
}

/// 2. The cube root by unrolled Newton steps.
#[kernel]
pub fn cube_root<F: Real>(x: F) -> F {
    let mut y = if x > 1.0 { x / 3.0 + 0.6 } else { 0.4 + 0.6 * x };
    for _ in 0..5 {
        y -= (y * y * y - x) / (3.0 * y * y);
    }
    y
}

/// 3. The price of a call and of a put by Black and Scholes (1973).
#[kernel]
pub fn black_scholes<F: Real>(spot: F, strike: F, years: F, rate: F, volatility: F) -> (F, F) {
    let root = volatility * years.sqrt();
    let up = ((spot / strike).ln() + (rate + 0.5 * volatility * volatility) * years) / root;
    let discounted = strike * (-rate * years).exp();
    let call = spot * normal(up) - discounted * normal(up - root);
    (call, call - spot + discounted)
}

/// The distribution function of the normal distribution: kernels call each other.
#[kernel]
pub fn normal<F: Real>(x: F) -> F {
    0.5 * (-x * F::lit(FRAC_1_SQRT_2)).erfc()
}

/// 4. A step of the heat equation: a five-point stencil with clamped edges.
#[kernel(index)]
pub fn heat<F: Real>(at: [i32; 2], u: &Field<F, 2>, k: F) -> F {
    let [i, j] = at;
    let u = |di: i32, dj: i32| u.get([i + di, j + dj], Edge::Clamp);
    let around = u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1);
    u(0, 0) + k * (around - 4.0 * u(0, 0))
}

/// 5. A warped image, interpolated between pixels; black outside.
#[kernel(index)]
pub fn warp<F: Real>(at: [i32; 2], image: &Field<F, 2>, dy: F, dx: F) -> F {
    let (y, x) = (at[0] as F + dy, at[1] as F + dx);
    let (top, left) = (y.floor(), x.floor());
    let (fy, fx) = (y - top, x - left);
    let (i, j) = (top as i32, left as i32);
    let upper = image.get([i, j], Edge::Zero).lerp(image.get([i, j + 1], Edge::Zero), fx);
    let lower = image.get([i + 1, j], Edge::Zero).lerp(image.get([i + 1, j + 1], Edge::Zero), fx);
    upper.lerp(lower, fy)
}

/// 6. Clouds: noise of several octaves, computed from the index only. Integers are i32, and wrap.
#[kernel(index)]
pub fn clouds<F: Real>(at: [i32; 2], seed: i32, zoom: F, octaves: usize) -> F {
    let (mut y, mut x) = (at[0] as F / zoom, at[1] as F / zoom);
    let (mut sum, mut weight, mut all) = (0.0, 1.0, 0.0);
    for octave in 0..octaves {
        sum += weight * lattice(y, x, seed + octave as i32);
        all += weight;
        (y, x, weight) = (y * 2.0 + 17.0, x * 2.0 + 31.0, weight * 0.5);
    }
    let cloud = sum / all;
    // Blue sky for small values, white for large ones.
    match (cloud * 10.0) as i32 {
        0..=3 => 0.0,
        4 | 5 => smooth((cloud - 0.4) * 5.0) * 0.5,
        6 => 0.5 + (cloud - 0.6) * 4.0,
        _ => 0.9 + 0.1 * cloud,
    }
}

/// Values at integer positions, interpolated smoothly.
#[kernel]
pub fn lattice<F: Real>(y: F, x: F, seed: i32) -> F {
    let (top, left) = (y.floor(), x.floor());
    let (fy, fx) = (smooth(y - top), smooth(x - left));
    let (i, j) = (top as i32, left as i32);
    let mut corners = [[0.0; 2]; 2];
    for di in 0..2 {
        for dj in 0..2 {
            corners[di][dj] = hashed::<F>(i + di as i32, j + dj as i32, seed);
        }
    }
    corners[0][0].lerp(corners[0][1], fx).lerp(corners[1][0].lerp(corners[1][1], fx), fy)
}

/// Function from 0 to 1 with slope 0 at both ends, for `t` from 0 to 1.
#[kernel]
pub fn smooth<F: Real>(t: F) -> F {
    t * t * (3.0 - 2.0 * t)
}

/// A number in [0, 1) for each integer position.
#[kernel]
pub fn hashed<F: Real>(i: i32, j: i32, seed: i32) -> F {
    let mut h = i * 374761393 + j * 668265263 + seed * 362437;
    h = (h ^ (h >> 13)) * 1274126177;
    let bits = (h ^ (h >> 16)) & 0xffffff;
    bits as F / 16777216.0
}

/// 7. Iterations for which `z² + c` stays within 2 for points of the plane: the Mandelbrot set. Each point has its own
///    number of iterations.
#[kernel(index)]
pub fn mandelbrot<F: Real>(at: [i32; 2], top: F, left: F, step: F) -> i32 {
    let (cy, cx) = (top + at[0] as F * step, left + at[1] as F * step);
    let (mut x, mut y, mut turns) = (0.0, 0.0, 0);
    while x * x + y * y <= 4.0 && turns < 200 {
        let next = x * x - y * y + cx;
        y = 2.0 * x * y + cy;
        x = next;
        turns += 1;
    }
    turns
}

/// 8. Kepler's equation `e - eccentricity·sin(e) = mean` by Newton's method, until it has converged.
#[kernel(max_turns = 30)]
pub fn kepler<F: Real>(mean: F, eccentricity: F) -> F {
    let mut e = mean;
    loop {
        let step = (e - eccentricity * e.sin() - mean) / (1.0 - eccentricity * e.cos());
        e -= step;
        if step.abs() <= 1e-5 {
            break;
        }
    }
    e
}

/// 9. Number of steps of Collatz's sequence to 1.
#[kernel]
pub fn collatz<F: Real>(start: i32) -> i32 {
    let (mut n, mut steps) = (start, 0);
    while n > 1 {
        n = if n & 1 == 0 { n >> 1 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

/// 10. The linear recurrence `h[t] = a[t]·h[t-1] + b[t]`, by a scan: the composition of two steps is a step.
#[kernel(row)]
pub fn recurrence<F: Real>(a: &Row<F>, b: &Row<F>) -> Row<F> {
    let steps = a.zip(b).scan(|(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2));
    steps.map(|(_, h)| h)
}

/// 11. Softmax with the maximum exponent and the sum in one fold (Milakov and Gimelshein 2018).
#[kernel(row)]
pub fn softmax<F: Real>(x: &Row<F>) -> Row<F> {
    let none = (F::lit(f64::NEG_INFINITY), 0.0);
    let (m, s) = x.map(|x| (x, 1.0)).fold(none, |(m1, s1), (m2, s2)| {
        let m = m1.max(m2);
        (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
    });
    x.map(|x| (x - m).exp() / s)
}

/// Kernel with its name, on captured tensors.
pub type Named = (&'static str, Box<dyn Fn() -> Tensor>);

/// The kernels on tensors of this size; those with rows on a 64th and a quarter of it.
pub fn all(size: usize) -> Vec<Named> {
    let shape = [size, size];
    let (x, dy, dx) = (Tensor::randn(shape), Tensor::randn(shape), Tensor::randn(shape));
    let positive = x.abs() + 0.5;
    thalweg::synchronize().expect("the device works");
    let (starts, mean) =
        (Tensor::arange_with((size * size) as i64, DType::I32).reshape(shape) % 100_000 + 1, x.clone());
    let (p, u, image) = (positive.clone(), x.clone(), x.clone());
    let rows = [Tensor::rand([size / 64, size]), Tensor::randn([size / 64, size]), Tensor::randn([size, size / 4])];
    thalweg::synchronize().expect("the device works");
    let [a, b, wide] = rows;
    let call = move || black_scholes::on(&positive, 1.0, 0.5, 0.02, 0.3).0;
    vec![
        ("leaky", Box::new(move || leaky::on(&x, 0.1))),
        ("cube_root", Box::new(move || cube_root::on(&p))),
        ("black_scholes", Box::new(call)),
        ("heat", Box::new(move || heat::over(shape).on(&u, 0.1))),
        ("warp", Box::new(move || warp::over(shape).on(&image, &dy, &dx))),
        ("clouds", Box::new(move || clouds::over(shape).on(7, size as f64 / 8.0, 4))),
        ("mandelbrot", Box::new(move || mandelbrot::over(shape).on(-1.3, -2.0, 2.6 / size as f64))),
        ("kepler", Box::new(move || kepler::on(&mean, 0.6))),
        ("collatz", Box::new(move || collatz::on(&starts))),
        ("recurrence", Box::new(move || recurrence::on(&a, &b))),
        ("softmax", Box::new(move || softmax::on(&wide))),
    ]
}

#[allow(dead_code, reason = "the tests have the kernels from here")]
fn main() -> Result<(), Error> {
    let x = Tensor::new([-2.0f32, 8.0]);
    println!("{} {}", leaky::on(&x, 0.5), leaky(-2.0, 0.5));
    println!("{} {}", cube_root::on(x.abs()), cube_root(8.0));
    for (name, kernel) in all(256) {
        let (_, told) = thalweg::explain(&kernel);
        println!("{name}: {} operations, kernels {}", told.unfused().kernels, told.totals().kernels);
    }
    let mut arguments = std::env::args().skip_while(|a| a != "--time");
    if arguments.next().is_some() {
        let size = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(4096);
        let only = arguments.next();
        for (name, kernel) in all(size).into_iter().filter(|k| only.as_deref().is_none_or(|only| only == k.0)) {
            let mut best = f64::INFINITY;
            let (mut calls, begun) = (0, Instant::now());
            while calls < 10 || begun.elapsed().as_secs_f64() < 0.4 {
                calls += 1;
                let begin = Instant::now();
                let y = kernel();
                thalweg::synchronize()?;
                best = best.min(begin.elapsed().as_secs_f64());
                drop(y);
            }
            println!("{name} {:.3}", best * 1e3);
        }
    }
    Ok(())
}
