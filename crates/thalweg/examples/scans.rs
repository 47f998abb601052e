//! Checks scans and sorts of long rows on a GPU, where blocks exchange prefixes (decoupled look-back): compares with
//! the CPU, and the bits of repeated runs.
//!
//! `cargo run --release -p thalweg --features cuda --example scans`

use thalweg::prelude::*;

/// Runs of each case, in which blocks finish in different orders.
const RUNS: usize = 20;

type Function = fn(&Tensor) -> Tensor;

/// Relative tolerance between the two devices.
fn tolerance(exact: bool, dtype: DType) -> f64 {
    match dtype {
        _ if exact || !dtype.is_float() => 0.0,
        DType::F64 => 1e-12,
        DType::F32 => 1e-6,
        _ => 1e-2,
    }
}

fn differs(a: &[f64], b: &[f64], tolerance: f64) -> Option<usize> {
    let same =
        |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * a.abs().max(1.0);
    a.iter().zip(b).position(|pair| !same(pair))
}

fn main() -> Result<(), thalweg::Error> {
    let gpu = Device::from_name("cuda:0")?;
    let scans: [(&str, bool, Function); 5] = [
        ("cumsum", false, |x| x.cumsum(1)),
        ("cumsum_reverse", false, |x| x.cumsum_reverse(1)),
        ("cummax", true, |x| x.cummax(1)),
        ("sort", true, |x| x.sort(1, false)),
        ("argsort", true, |x| x.argsort(1, true)),
    ];
    let shapes = [[300, 8192], [40, 50_000], [7, 300_007], [1, 4_000_001]];
    let mut wrong = 0;
    for shape in shapes {
        for dtype in [DType::F32, DType::I64, DType::BF16, DType::F64] {
            manual_seed(shape[1] as u64);
            let x = (Tensor::randn(shape) * 1000.0).cast(dtype);
            let there = x.to_device(gpu)?;
            for (name, exact, f) in scans {
                let wide = |y: &Tensor| y.to_device(Device::cpu())?.cast(DType::F64).to_vec::<f64>();
                let first = f(&there);
                let (want, got) = (wide(&f(&x))?, wide(&first)?);
                if let Some(i) = differs(&want, &got, tolerance(exact, dtype)) {
                    println!("{name} of {} {shape:?}: {} and not {} at {i}", dtype.name(), got[i], want[i]);
                    wrong += 1;
                }
                for run in 0..RUNS {
                    let again = f(&there);
                    // NaN is not compared.
                    let same = (again.eq(&first) | again.ne(&again)).all(..).to_vec::<bool>()?;
                    if same != [true] {
                        println!("{name} of {} {shape:?}: other bits in run {run}", dtype.name());
                        wrong += 1;
                        break;
                    }
                }
            }
        }
        println!("{shape:?} compared");
    }
    println!("{wrong} of {} scans and sorts are wrong", shapes.len() * 4 * scans.len());
    std::process::exit(i32::from(wrong > 0));
}
