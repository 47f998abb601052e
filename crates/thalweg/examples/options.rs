//! Option prices: by the Black-Scholes formula, by random paths and by Sobol points, with the derivatives of the
//! formula.
//!
//!     cargo run --release -p thalweg --example options

use thalweg::prelude::*;

/// The distribution function of the normal distribution.
fn phi(x: &Tensor) -> Tensor {
    (x * -std::f64::consts::FRAC_1_SQRT_2).erfc() * 0.5
}

/// The price of a call, with a tensor for each parameter.
fn call(spot: &Tensor, strike: &Tensor, vol: &Tensor, rate: f64, years: f64) -> Tensor {
    let sd = vol * years.sqrt();
    let d1 = ((spot / strike).log() + rate * years) / &sd + &sd * 0.5;
    spot * phi(&d1) - strike * (-rate * years).exp() * phi(&(&d1 - &sd))
}

/// The mean payoff at the end of paths driven by these normal numbers.
fn simulated(z: &Tensor, spot: f64, strike: &Tensor, vol: f64, rate: f64, years: f64) -> Tensor {
    let end = (z * (vol * years.sqrt()) + (rate - vol * vol / 2.0) * years).exp() * spot;
    (end.unsqueeze(1) - strike).relu().mean(0) * (-rate * years).exp()
}

fn main() -> Result<(), Error> {
    thalweg::manual_seed(1);
    let (spot, vol, rate, years, paths) = (100.0, 0.2, 0.03, 1.0, 1 << 16);
    let strike = Tensor::arange_with((80, 130, 10), DType::F64);
    let of = |v: f64| strike.full_like(v).tracked();
    let (s, v) = (of(spot), of(vol));
    let exact = call(&s, &strike, &v, rate, years);
    let slopes = exact.sum(..).backward();
    let (delta, vega) = (slopes[&s].clone(), slopes[&v].clone());
    let random = simulated(&Tensor::randn_with(paths, DType::F64), spot, &strike, vol, rate, years);
    // Shifted by half a step, so that none is 0, then mapped to the normal distribution.
    let points = Tensor::sobol_with(paths, 1, 0, DType::F64).flatten() + 0.5 / paths as f64;
    let normal = (points * 2.0 - 1.0).erfinv() * std::f64::consts::SQRT_2;
    let even = simulated(&normal, spot, &strike, vol, rate, years);
    println!("{:>8} {:>10} {:>10} {:>10} {:>8} {:>8}", "strike", "formula", "random", "Sobol", "delta", "vega");
    let all = Tensor::stack(&[strike, exact.detach(), random, even, delta, vega], 1);
    for row in &all {
        let r = row.to_vec::<f64>()?;
        println!("{:>8.0} {:>10.5} {:>10.5} {:>10.5} {:>8.4} {:>8.4}", r[0], r[1], r[2], r[3], r[4], r[5]);
    }
    Ok(())
}
