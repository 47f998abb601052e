//! Matrix products of many shapes, layouts and dtypes on a device, compared with the CPU's: `THALWEG_DEVICE=cuda cargo
//! run --release -p thalweg --features cuda --example products`.
//!
//! Products of small integers are exact, so values must be equal; those of normal numbers must differ at most as the
//! order of a sum allows. Each product runs several times, alone and as one of several that become a CUDA graph, and
//! must give the same bits each time. It exits with an error if anything differs.

use std::process::ExitCode;
use std::time::Instant;
use thalweg::prelude::*;
use thalweg::{DType, Device, MatmulPrecision, counters, manual_seed, set_matmul_precision};

/// Layout of an operand.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Rows,
    Transposed,
    /// A slice of a larger matrix, from its second row and column.
    Sliced,
    /// Every second column: the only unit stride is along the rows of the transpose.
    Stepped,
    Flipped,
    /// One matrix for the whole batch.
    Broadcast,
    /// The heads of a [rows, heads, columns] tensor.
    Heads,
}

use Layout::{Broadcast, Flipped, Heads, Rows, Sliced, Stepped, Transposed};

const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

/// The tensor, computed.
fn in_memory(x: Tensor) -> Tensor {
    thalweg::synchronize().expect("the device is well");
    x
}

/// A tensor of that shape in that layout.
fn operand(batch: &[usize], [m, n]: [usize; 2], layout: Layout, dtype: DType, integers: bool) -> Tensor {
    let full = |dims: &[usize]| {
        let x = Tensor::randn(dims.to_vec());
        let x = if integers { (x * 1.5).round().clamp(-3.0, 3.0) } else { x };
        in_memory(x.cast(dtype))
    };
    let shape = |last: &[usize]| [batch, last].concat();
    match layout {
        Rows => full(&shape(&[m, n])),
        Transposed => full(&shape(&[n, m])).transpose(-1, -2),
        Sliced => full(&shape(&[m + 3, n + 5])).narrow(-2, 1, m).narrow(-1, 1, n),
        Stepped => full(&shape(&[m, n, 2])).narrow(-1, 1, 1).reshape(shape(&[m, n])),
        Flipped => full(&shape(&[m, n])).flip(-1),
        Broadcast => full(&[m, n]).expand(shape(&[m, n])),
        Heads if batch.len() == 1 => full(&[m, batch[0], n]).permute([1, 0, 2]),
        Heads => full(&shape(&[m, n])),
    }
}

/// Batch dimensions, m, n, k.
const SHAPES: &[(&[usize], [usize; 3])] = &[
    (&[], [1, 1, 1]),
    (&[], [64, 64, 64]),
    (&[], [63, 65, 67]),
    (&[], [128, 256, 1]),
    (&[], [1, 1024, 513]),
    (&[], [1000, 1, 515]),
    (&[], [1, 1, 4097]),
    (&[], [300, 200, 4100]),
    (&[], [257, 511, 1023]),
    (&[], [2048, 16, 64]),
    (&[], [300, 416, 264]),
    (&[], [1200, 395, 136]),
    (&[5], [33, 65, 129]),
    (&[16], [128, 128, 64]),
    (&[12], [1, 300, 64]),
    (&[2, 3], [40, 50, 60]),
];

/// The bits in memory: a value that is cast before it is stored is not rounded.
fn bytes(x: &Tensor) -> Vec<u64> {
    thalweg::synchronize().expect("the device is well");
    x.cast(DType::F64).to_vec::<f64>().expect("the device is well").iter().map(|v| v.to_bits()).collect()
}

/// The tolerance for the order of a sum of normal numbers, and a final rounding.
fn tolerance(dtype: DType, tf32: bool, k: usize) -> f64 {
    let (own, sum) = match dtype {
        DType::F64 => (2f64.powi(-53), 2f64.powi(-53)),
        DType::F32 if tf32 => (0.0, 2f64.powi(-10)),
        DType::F32 => (0.0, 2f64.powi(-24)),
        DType::BF16 => (2f64.powi(-8), 2f64.powi(-24)),
        _ => (2f64.powi(-11), 2f64.powi(-24)),
    };
    let k = k as f64;
    8.0 * (own + sum * k.sqrt().max(8.0)) * k.sqrt().max(4.0)
}

struct Case {
    name: String,
    a: Tensor,
    b: Tensor,
    dtype: DType,
    k: usize,
    integers: bool,
}

fn cases() -> Vec<Case> {
    let pairs = [(Rows, Rows), (Transposed, Rows), (Rows, Transposed), (Transposed, Transposed), (Sliced, Sliced)];
    let others = [(Stepped, Rows), (Rows, Flipped), (Rows, Broadcast), (Broadcast, Rows), (Heads, Heads)];
    let mut all = vec![];
    for &(batch, [m, n, k]) in SHAPES {
        for (x, y) in pairs.into_iter().chain(others) {
            for dtype in DTYPES {
                for integers in [true, false] {
                    let (a, b) =
                        (operand(batch, [m, k], x, dtype, integers), operand(batch, [k, n], y, dtype, integers));
                    let name = format!("{batch:?} {m}x{n}x{k} {dtype} {x:?} {y:?}");
                    all.push(Case { name, a, b, dtype, k, integers });
                }
            }
        }
    }
    all
}

/// The error of a product against the CPU's, relative to the tolerance; infinite if it must be equal and is not.
fn distance(case: &Case, got: &[u64], want: &[u64], tf32: bool) -> f64 {
    let allowed = if case.integers { 0.0 } else { tolerance(case.dtype, tf32, case.k) };
    let pairs = got.iter().zip(want).map(|(&g, &w)| (f64::from_bits(g), f64::from_bits(w)));
    let far = |(g, w): (f64, f64)| match (g - w).abs() {
        0.0 => 0.0,
        d if d.is_nan() => f64::INFINITY,
        d => d / allowed,
    };
    if got.len() == want.len() { pairs.map(far).fold(0.0, f64::max) } else { f64::INFINITY }
}

fn main() -> ExitCode {
    manual_seed(7);
    let (device, cpu) = (Device::default(), Device::cpu());
    let (begin, before) = (Instant::now(), counters());
    let all = cases();
    let (mut failed, mut farthest) = (0, 0f64);
    let mut fail = |what: String| {
        failed += 1;
        println!("FAILED: {what}");
    };
    for case in &all {
        let here = |x: &Tensor| x.to_device(cpu).expect("the device is well");
        let want = bytes(&here(&case.a).matmul(&here(&case.b)));
        for precision in [MatmulPrecision::Highest, MatmulPrecision::High] {
            let tf32 = precision == MatmulPrecision::High;
            if tf32 && case.dtype != DType::F32 {
                continue;
            }
            set_matmul_precision(precision);
            let first = bytes(&case.a.matmul(&case.b));
            let far = distance(case, &first, &want, tf32);
            farthest = farthest.max(if far.is_finite() { far } else { 0.0 });
            if far > 1.0 {
                fail(format!("{} {precision:?}: {far} times as far as allowed", case.name));
            }
            for _ in 0..2 {
                if bytes(&case.a.matmul(&case.b)) != first {
                    fail(format!("{} {precision:?}: other bits each time", case.name));
                }
            }
        }
        set_matmul_precision(MatmulPrecision::Highest);
    }
    println!("{}: {} products compared, the farthest at {farthest:.3} of what is allowed", device.name(), all.len());
    // Several products, which become a CUDA graph: with the same addresses each time, and with others.
    let chain = |x: &Tensor, w: &[Tensor]| w.iter().fold(x.clone(), |x, w| x.matmul(w).tanh());
    for dtype in DTYPES {
        let weights: Vec<Tensor> = (0..6).map(|_| in_memory((Tensor::randn([256, 256]) * 0.05).cast(dtype))).collect();
        let x = in_memory(Tensor::randn([128, 256]).cast(dtype));
        let runs = counters();
        let first = bytes(&in_memory(chain(&x, &weights)));
        let mut held = vec![];
        for turn in 0..40 {
            // Computed before the cast: a value that is not stored is not rounded.
            let y = in_memory(chain(&x, &weights));
            if bytes(&y) != first {
                fail(format!("a chain in {dtype}: other bits in turn {turn}"));
            }
            // Holding memory makes the next runs use other addresses.
            if turn % 3 == 0 {
                held.push(y);
            }
        }
        let c = counters() - runs;
        println!(
            "a chain in {dtype}: {} launches, {} graphs made, {} graphs run",
            c.device_launches, c.graphs_made, c.graph_runs
        );
    }
    // Cost of the first run of a product of a new size, in a process that has run others.
    let mut times: Vec<f64> = (200..260)
        .map(|n| {
            let (x, w) = (in_memory(Tensor::randn([n, 256])), in_memory(Tensor::randn([256, 300])));
            let begin = Instant::now();
            drop(in_memory(x.matmul(&w)));
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("a product of a new size: {:.3} ms, the slowest of sixty {:.3}", times[30], times[59]);
    let c = counters() - before;
    println!(
        "{failed} failed; {} launches, {} bytes of workspace, {:.1} s",
        c.device_launches,
        c.scratch_bytes,
        begin.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
