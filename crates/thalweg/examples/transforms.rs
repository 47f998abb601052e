//! Compares Fourier transforms on a GPU with the CPU's, batched or not, along every axis; and times them.
//!
//! `cargo run --release -p thalweg --features fft,cuda --example transforms [cuda:0]`. It exits with 1 if one is wrong,
//! and reports transforms that ran on the host because cuFFT is missing.

use std::time::Instant;
use thalweg::prelude::*;
use thalweg::{Complex, Fft, FftNorm, counters};

/// Tolerance of a transform of `n` samples, relative to the largest result.
fn allowed(dtype: DType, n: usize) -> f64 {
    let eps = if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    4.0 * eps * ((n as f64).log2() + 2.0)
}

fn relative_error(a: &Complex, b: &Complex) -> Result<f64, Error> {
    let wide = |z: &Complex| Ok::<_, Error>(z.to_device(Device::cpu())?.cast(DType::F64));
    let (a, b) = (wide(a)?, wide(b)?);
    let size = b.abs().amax(..).item::<f64>()?;
    Ok((a - b).abs().amax(..).item::<f64>()? / size.max(f64::MIN_POSITIVE))
}

type Transform<'a> = (&'static str, Box<dyn Fn(&Complex) -> Complex + 'a>);

fn transforms(axis: usize, n: usize) -> Vec<Transform<'static>> {
    let ortho = || Fft::new().norm(FftNorm::Ortho);
    let odd = Fft::new().sizes([2 * n - 1]);
    let mut all: Vec<Transform<'static>> = vec![
        ("fft", Box::new(move |z| z.fft(axis))),
        ("ifft", Box::new(move |z| z.ifft(axis))),
        ("fft, ortho", Box::new(move |z| z.fft_with(axis, &ortho()))),
        ("rfft", Box::new(move |z| z.re.rfft(axis))),
        ("irfft, odd", Box::new(move |z| Complex::real(&z.irfft_with(axis, &odd)))),
        ("fftn", Box::new(|z| z.fftn(..))),
        ("rfftn", Box::new(|z| z.re.rfftn(..))),
        ("of a transpose", Box::new(|z| z.t().fft(-1))),
    ];
    if n > 1 {
        all.push(("irfft", Box::new(move |z| Complex::real(&z.irfft(axis)))));
    }
    all
}

fn main() -> Result<(), Error> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "cuda:0".into());
    let gpu = Device::from_name(&name)?;
    println!("{name}: {}", gpu.describe());
    // The emulated GPU computes each result as a sum.
    let played = name == "cuda:emulated";
    let shapes: &[(&[usize], usize)] = match played {
        true => &[(&[16], 0), (&[3, 10], 1), (&[10, 3], 0), (&[2, 7, 4], 1)],
        false => &[
            (&[1024], 0),
            (&[1009], 0),
            (&[1 << 20], 0),
            (&[64, 1000], 1),
            (&[1000, 64], 0),
            (&[7, 243, 33], 1),
            (&[128, 128, 128], 0),
            (&[3, 1, 5], 1),
        ],
    };
    let mut wrong = 0;
    for dtype in [DType::F32, DType::F64] {
        for &(shape, axis) in shapes {
            manual_seed(1);
            let z = Complex::randn_with(shape, (dtype, Device::cpu()));
            let own = z.to_device(gpu)?;
            for (what, f) in transforms(axis, shape[axis]) {
                let before = counters();
                let (got, want) = (f(&own), f(&z));
                let off = relative_error(&got, &want)?;
                let c = counters() - before;
                let fine = off <= allowed(dtype, z.numel()) && c.library_calls > 0;
                wrong += usize::from(!fine);
                if !fine {
                    println!(
                        "OFF  {what} of {dtype}{shape:?} along {axis}: {off:.1e} ({} calls of the library)",
                        c.library_calls
                    );
                }
            }
        }
    }
    println!(
        "{}",
        if wrong == 0 { "every transform is that of the CPU".to_string() } else { format!("{wrong} are off") }
    );
    if !played {
        times(gpu)?;
    }
    if wrong > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// Transform to be timed, with the shape of its operand.
type Timed = (&'static str, &'static [usize], fn(&Complex) -> Complex);

/// The minimum of 10 times in ms, each including the copy of one number to the host.
fn times(gpu: Device) -> Result<(), Error> {
    println!("\n| transform | {} | CPU |\n|---|---|---|", gpu.name());
    let cases: [Timed; 5] = [
        ("fft f32 2^22", &[1 << 22], |z| z.fft(0)),
        ("fft f32 4096 × 1024", &[4096, 1024], |z| z.fft(1)),
        ("fft f32 1024 × 4096, axis 0", &[1024, 4096], |z| z.fft(0)),
        ("rfft f32 4096 × 1024", &[4096, 1024], |z| z.re.rfft(1)),
        ("fft2 f32 16 × 512 × 512", &[16, 512, 512], Complex::fft2),
    ];
    for (what, shape, f) in cases {
        let mut least = [f64::INFINITY; 2];
        for (device, least) in [gpu, Device::cpu()].into_iter().zip(&mut least) {
            let z = Complex::randn_with(shape, (DType::F32, device));
            for part in [&z.re, &z.im] {
                part.flatten().slice(0).item::<f32>()?;
            }
            for _ in 0..10 {
                let start = Instant::now();
                f(&z).re.flatten().slice(0).item::<f32>()?;
                *least = least.min(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        println!("| {what} | {:.3} | {:.3} |", least[0], least[1]);
    }
    Ok(())
}
