//! Assignment of constants to samples.
//!
//! In: typical constants, and a clock. Out: constants with which the model is right about every sample. The order
//! matters: a sample also depends on constants other than its own, which were fitted before.

use super::clock::Bench;
use super::measure::SLICE;
use super::samples::{self, Sizes};
use thalweg_fusion::Costs;
use thalweg_ir::DType;
use thalweg_kernel::Precision;
use thalweg_runtime::Error;

/// Maximum bytes in use at which one launch is timed repeatedly on a CPU. Beyond, small launches go through the buffers
/// one after another.
const WHOLE: u64 = 4 << 20;
/// Maximum bytes that calibration touches on a CPU, where cache sizes are unknown. Costs beyond are extrapolated from
/// the typical constants.
const MAX_TOUCHED_BYTES: u64 = 64 << 20;

/// Nanoseconds that a stream adds to a launch: looking up operands, counting, freeing memory. With asynchronous
/// launches this overlaps with execution.
const STREAM: f64 = 200.0;

/// Dtypes with a constant for products, in the order of `Costs::multiply`. One more follows: f32 rounded to TF32.
const MULTIPLIED: [DType; 6] = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8, DType::I32];

/// Nanoseconds that the model counts per launch, but no clock measures.
pub fn unseen(sizes: &Sizes) -> f64 {
    if sizes.wide { 0.0 } else { STREAM }
}

/// Fits all constants of a device with that many threads.
pub fn all(b: &mut Bench<'_>, threads: u32) -> Result<(), Error> {
    // Small launches run on one thread.
    b.costs.threads = 1;
    let stream = unseen(&b.sizes);
    // Arithmetic is fitted twice: the first time the memory constants are unknown.
    b.costs.launch -= stream;
    b.fit(|_| samples::point(), |c, f| c.launch *= f)?;
    b.costs.launch += stream;
    b.offset = stream;
    b.fit(samples::simple, |c, f| c.simple *= f)?;
    memory(b)?;
    b.fit(samples::simple, |c, f| c.simple *= f)?;
    arithmetic(b)?;
    moving(b)?;
    rows(b)?;
    b.fit(samples::scatter, |c, f| c.scattered *= f)?;
    products(b)?;
    self::threads(b, threads)
}

/// Fits the nanoseconds per byte at each memory level, on one thread.
fn memory(b: &mut Bench<'_>) -> Result<(), Error> {
    let (nearest, wide) = (b.sizes.nearest, b.sizes.wide);
    let mut last = 1.0;
    for i in nearest..b.costs.levels.len() {
        let footprint = b.costs.levels[i].footprint;
        let scale = move |c: &mut Costs, f: f64| {
            let nearer = if i == nearest { 0 } else { i };
            for l in &mut c.levels[nearer..=i] {
                for ns in [&mut l.read, &mut l.write, &mut l.read_all, &mut l.write_all] {
                    *ns *= f;
                }
            }
        };
        // On a GPU the last level but one is out of cache already, so that the last level gets the same factor.
        let beyond = if wide { i + 1 == b.costs.levels.len() } else { footprint > MAX_TOUCHED_BYTES };
        if beyond {
            scale(&mut b.costs, last);
        } else if wide || footprint <= WHOLE {
            last = b.fit(|_| samples::copy(footprint), scale)?;
        } else {
            last = b.fit_within(&samples::copy_from(SLICE, 0), footprint, scale)?;
        }
    }
    if wide {
        // Operands of large products are written to and read from memory at that level.
        b.costs.factor *= last;
    }
    // A larger footprint never makes memory faster.
    for i in 1..b.costs.levels.len() {
        let nearer = b.costs.levels[i - 1];
        let l = &mut b.costs.levels[i];
        (l.read, l.write) = (l.read.max(nearer.read), l.write.max(nearer.write));
        (l.read_all, l.write_all) = (l.read_all.max(nearer.read_all), l.write_all.max(nearer.write_all));
    }
    Ok(())
}

fn arithmetic(b: &mut Bench<'_>) -> Result<(), Error> {
    // A spilled value is stored and loaded: it scales with simple instructions.
    let faster = b.costs.simple / b.typical.simple;
    b.costs.spill *= faster;
    if b.sizes.wide {
        // The samples `beside` and `simple` each depend a little on the other's constant.
        b.fit(samples::beside, |c, f| c.overlap *= f)?;
        b.fit(samples::simple, |c, f| c.simple *= f)?;
        b.fit(samples::beside, |c, f| c.overlap *= f)?;
        // Boxes are parts of one launch on a GPU.
        b.fit(|_| samples::boxes(), |c, f| c.boxed *= f)?;
    }
    b.fit(samples::divide, |c, f| c.divide *= f)?;
    b.fit(|s| samples::special(DType::F32, s), |c, f| c.special *= f)?;
    b.fit(|s| samples::special(DType::F64, s), |c, f| c.special_wide *= f)?;
    b.fit(samples::convert, |c, f| c.convert *= f)?;
    b.fit(samples::slow, |c, f| c.slow *= f)?;
    Ok(())
}

fn moving(b: &mut Bench<'_>) -> Result<(), Error> {
    b.fit(|_| samples::runs(), |c, f| c.run *= f)?;
    b.fit(|_| samples::calls(), |c, f| c.call *= f)?;
    b.fit(samples::transposed, |c, f| c.transposed *= f)?;
    b.fit(samples::conflicting, |c, f| c.conflicting *= f)?;
    b.fit(samples::strided, |c, f| c.strided *= f)?;
    b.fit(samples::mapped, |c, f| c.mapped *= f)?;
    if b.costs.machine.close_bytes > 0 {
        b.fit(samples::close, |c, f| c.close *= f)?;
    }
    b.fit(samples::gathered, |c, f| c.gathered *= f)?;
    Ok(())
}

fn rows(b: &mut Bench<'_>) -> Result<(), Error> {
    b.fit(samples::fold_inner, |c, f| c.fold *= f)?;
    b.fit(
        |_| samples::short_rows(),
        |c, f| {
            c.row *= f;
            c.row_fold *= f;
        },
    )?;
    if b.sizes.wide {
        b.fit(samples::twice, |c, f| c.again *= f)?;
    }
    b.fit(samples::once, |c, f| c.once *= f)?;
    b.fit(samples::fold_outer, |c, f| c.fold_across *= f)?;
    b.fit(|_| samples::strips(), |c, f| c.strip *= f)?;
    b.fit(samples::scan, |c, f| c.scan *= f)?;
    b.fit(samples::sort, |c, f| c.sort *= f)?;
    Ok(())
}

fn products(b: &mut Bench<'_>) -> Result<(), Error> {
    let n = b.sizes.product;
    for (i, dtype) in MULTIPLIED.into_iter().enumerate() {
        // GPUs multiply integers on plain cores.
        let n = if b.sizes.wide && dtype.is_int() { n / 2 } else { n };
        b.fit(|_| samples::product((dtype, Precision::Full), 1, n), |c, f| c.multiply[i] *= f)?;
    }
    if b.sizes.wide {
        b.fit(|_| samples::product((DType::F32, Precision::Tf32), 1, n), |c, f| c.multiply[6] *= f)?;
    } else {
        b.costs.multiply[6] = b.costs.multiply[0];
    }
    b.fit(|_| samples::product((DType::F32, Precision::Full), 64, 8), |c, f| c.product *= f)?;
    Ok(())
}

/// Fits the memory costs of all `count` threads together.
fn threads(b: &mut Bench<'_>, count: u32) -> Result<(), Error> {
    b.costs.threads = count;
    let n = b.costs.threads as f64;
    for l in &mut b.costs.levels {
        (l.read_all, l.write_all) = (l.read / n, l.write / n);
    }
    if b.costs.threads == 1 {
        return Ok(());
    }
    let mut last = 1.0;
    for i in 0..b.costs.levels.len() {
        let footprint = b.costs.levels[i].footprint;
        // Footprints this small use several threads only for arithmetic.
        if footprint <= WHOLE {
            continue;
        }
        let scale = move |c: &mut Costs, f: f64| {
            let l = &mut c.levels[i];
            // Bounds: n times one thread's rate, and one thread's rate.
            l.read_all = (l.read_all * f).clamp(l.read / n, l.read);
            l.write_all = (l.write_all * f).clamp(l.write / n, l.write);
        };
        if footprint <= MAX_TOUCHED_BYTES {
            last = b.fit(|_| samples::copy(footprint), scale)?;
        } else {
            scale(&mut b.costs, last);
        }
    }
    for i in 1..b.costs.levels.len() {
        let nearer = b.costs.levels[i - 1];
        let l = &mut b.costs.levels[i];
        (l.read_all, l.write_all) = (l.read_all.max(nearer.read_all), l.write_all.max(nearer.write_all));
    }
    Ok(())
}
