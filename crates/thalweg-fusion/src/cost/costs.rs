//! Cost constants of one device.

use super::correction::Corrections;
use serde::{Deserialize, Serialize};
use thalweg_ir::DType;
use thalweg_kernel::Machine;

/// Cost of memory traffic at one level, identified by the bytes in use.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Level {
    /// Bytes in use at which the costs hold: the footprint of a segment, or of data that is read repeatedly.
    pub footprint: u64,
    /// Nanoseconds per byte read by one thread.
    pub read: f64,
    /// Nanoseconds per byte written by one thread.
    pub write: f64,
    /// Nanoseconds per byte read by all threads together.
    pub read_all: f64,
    /// Nanoseconds per byte written by all threads together.
    pub write_all: f64,
}

/// Cost constants of a device. Times are in nanoseconds. Arithmetic is per 4-byte lane of a full vector, on one thread.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Costs {
    /// Launch of an empty kernel, including the stream's work for it: memory for the result, counters. Measured with
    /// one point.
    pub launch: f64,
    /// Overhead of each box after the first in a kernel whose domain is cut into boxes.
    pub boxed: f64,
    /// Maximum number of threads that a launch may use.
    pub threads: u32,
    /// Latency until a sleeping thread takes part in a launch.
    pub wake: f64,
    /// Minimum work, on one thread, at which a launch uses several threads.
    pub parallel: f64,
    /// Memory levels by bytes in use, ascending; interpolated over the logarithm between them. Measured by adding and
    /// by copying.
    pub levels: [Level; 6],
    /// Fraction of the shorter of arithmetic and memory time that does not overlap with the longer one, from 0 to 1.
    pub overlap: f64,
    /// Time of an addition, product, comparison or select, per element. Measured by a chain of them.
    pub simple: f64,
    /// Time of a division or square root, per element.
    pub divide: f64,
    /// Time of an elementary function, per element and per addition of its cost in the operation table. Measured with
    /// several functions.
    pub special: f64,
    /// Time of an elementary function in f64, per element and per addition of its cost in the operation table.
    pub special_wide: f64,
    /// Time of a conversion between dtypes, per element.
    pub convert: f64,
    /// Time of an operation without a vector form, per element and per addition of its cost in the operation table.
    pub slow: f64,
    /// Slowdown factor of a kernel without vector code. It does not apply to a matrix product, nor to operations
    /// without a vector form.
    pub portable: f64,
    /// Slowdown factor of a strided, mapped or gathered element of fewer than 4 bytes.
    pub narrow: f64,
    /// Time to fold an element of an inner-axis reduction.
    pub fold: f64,
    /// Time to fold an element of an outer-axis reduction.
    pub fold_across: f64,
    /// Time of an element of a running sum.
    pub scan: f64,
    /// Time to sort, per element.
    pub sort: f64,
    /// Additional time to read or write an element of a transposed operand, compared with a contiguous one. So are the
    /// following four, for other access patterns.
    pub transposed: f64,
    /// Additional time of an element of a transposed operand whose neighbours are a multiple of 1,024 bytes apart.
    pub conflicting: f64,
    /// Additional time of an element of a strided operand.
    pub strided: f64,
    /// Additional time of an element that is read through a table of positions.
    pub mapped: f64,
    /// Additional time of an element that is read through a table of positions, close to those of other lanes.
    pub close: f64,
    /// Additional time of a gathered element.
    pub gathered: f64,
    /// Overhead of a run of neighbouring points, however short: a loop, and a partly filled vector.
    pub run: f64,
    /// Overhead of a call of the generated code.
    pub call: f64,
    /// Overhead of a strip (a vector's width of neighbouring rows) of an outer-axis kernel, per pass.
    pub strip: f64,
    /// Overhead of a row of an inner-axis kernel, per pass.
    pub row: f64,
    /// Time to end the fold of a row of an inner-axis kernel, which combines the lanes of a vector.
    pub row_fold: f64,
    /// Time of arithmetic that is done once per row, per addition.
    pub once: f64,
    /// Number of vector registers available for values.
    pub registers: u32,
    /// Time to spill a value (one beyond `registers`), per point.
    pub spill: f64,
    /// Time of a multiply-add in a matrix product: of f32, f64, bf16, f16, bytes, other integers, and f32 that may be
    /// rounded to TF32.
    pub multiply: [f64; 7],
    /// Overhead of each product of a batch.
    pub product: f64,
    /// Time to repack an element of a right operand for a block of rows, in additions. Not measured.
    #[serde(default = "packing")]
    pub packing: f64,
    /// Time per byte of a computed operand of a large product, which is written to memory and read back. Not measured.
    #[serde(default)]
    pub factor: f64,
    /// Time to check and prepare an access for a launch. Not measured by calibration.
    #[serde(default)]
    pub setup: f64,
    /// Overhead of a launch of a prologue or epilogue on a rectangle of a contraction, for each box after the first. Not
    /// measured by calibration.
    #[serde(default)]
    pub inner_launch: f64,
    /// Time to set the arguments of an access for a call of a row kernel. Not measured by calibration.
    #[serde(default)]
    pub argument: f64,
    /// Time of a position, per dimension of the levels of its index map. Not measured by calibration.
    #[serde(default)]
    pub position: f64,
    /// Cost of rereading a byte of a row in a later pass, relative to reading it from the memory level where it is.
    /// Below 1 if rows stay in registers.
    pub again: f64,
    /// Time of a value that a scatter writes.
    pub scattered: f64,
    /// Whether the weights between two products are computed in one pass (flash attention), where possible.
    #[serde(default)]
    pub one_pass: bool,
    /// Whether GEMM packing reads a padded operand in place, like an unpadded one.
    #[serde(default = "yes")]
    pub borders: bool,
    /// Machine facts that determine how programs cut a kernel. Neither measured nor saved: the device reports them.
    #[serde(skip)]
    pub machine: Machine,
    /// Factors for classes of kernels that were measured to take longer. No part of [`Costs::id`]: plans found with
    /// and without them answer the same question.
    #[serde(skip)]
    pub corrections: Corrections,
}

fn yes() -> bool {
    true
}

/// Default cost of packing an element, in additions: one read and one write.
fn packing() -> f64 {
    2.0
}

impl Costs {
    /// Time of a multiply-add in a matrix product of operands of `dtype`; `tf32` says whether f32 may be rounded to
    /// TF32.
    pub(crate) fn multiply_of(&self, dtype: DType, tf32: bool) -> f64 {
        self.multiply[match dtype {
            DType::F32 if tf32 => 6,
            DType::F32 => 0,
            DType::F64 => 1,
            DType::BF16 => 2,
            DType::F16 => 3,
            DType::I8 | DType::U8 => 4,
            _ => 5,
        }]
    }

    /// Constants of a CPU with 2 to 4 cores and AVX-512: used until something was measured.
    pub fn typical() -> Costs {
        let level = |footprint: u64, [read, write, read_all, write_all]: [f64; 4]| Level {
            footprint,
            read,
            write,
            read_all,
            write_all,
        };
        Costs {
            launch: 450.0,
            boxed: 150.0,
            threads: 2,
            wake: 7_000.0,
            parallel: 30_000.0,
            levels: [
                level(16 << 10, [0.0025, 0.0035, 0.00125, 0.00175]),
                level(256 << 10, [0.0105, 0.0175, 0.00525, 0.00875]),
                level(2 << 20, [0.0137, 0.0228, 0.00685, 0.0114]),
                level(16 << 20, [0.035, 0.052, 0.024, 0.036]),
                level(64 << 20, [0.062, 0.093, 0.0245, 0.037]),
                level(256 << 20, [0.07, 0.108, 0.027, 0.042]),
            ],
            overlap: 0.15,
            simple: 0.0135,
            divide: 0.22,
            special: 0.021,
            special_wide: 0.063,
            convert: 0.04,
            slow: 0.75,
            portable: 3.0,
            narrow: 2.0,
            fold: 0.01,
            fold_across: 0.06,
            scan: 0.82,
            sort: 11.0,
            transposed: 0.32,
            conflicting: 0.6,
            strided: 0.22,
            mapped: 0.55,
            close: 0.15,
            gathered: 0.32,
            run: 2.6,
            call: 14.0,
            strip: 190.0,
            row: 1.0,
            row_fold: 2.0,
            once: 0.25,
            registers: 28,
            spill: 0.027,
            multiply: [0.0145, 0.031, 0.024, 0.024, 0.07, 0.07, 0.0145],
            product: 280.0,
            packing: packing(),
            factor: 0.0,
            setup: 80.0,
            inner_launch: 700.0,
            argument: 8.0,
            position: 0.7,
            again: 1.0,
            scattered: 3.2,
            one_pass: false,
            borders: true,
            machine: Machine::default(),
            corrections: Corrections::default(),
        }
    }

    /// Constants of a device with asynchronous launches, from its throughput: `memory` and `cache` in bytes per
    /// nanosecond, the latter for footprints of up to `cache_bytes`; additions per nanosecond; nanoseconds from launch
    /// to launch.
    pub fn of_throughput(memory: f64, (cache, cache_bytes): (f64, usize), additions: f64, launch: f64) -> Costs {
        let level = |footprint: u64| {
            let near = footprint as usize <= cache_bytes / 2;
            let ns = 1.0 / if near { cache } else { memory };
            Level { footprint, read: ns, write: ns, read_all: ns, write_all: ns }
        };
        let half = cache_bytes as u64 / 2;
        let one = 1.0 / additions;
        // Non-contiguous reads move sectors of 32 bytes; neighbours use the rest of a sector while it is cached.
        let sector = 32.0 / memory;
        Costs {
            launch,
            boxed: launch / 4.0,
            threads: 1,
            wake: 0.0,
            parallel: 0.0,
            levels: [half / 64, half / 8, half, 2 * half, 4 * half, 16 * half].map(level),
            overlap: 0.3,
            simple: one,
            divide: 18.0 * one,
            special: one,
            special_wide: 3.0 * one,
            convert: 0.5 * one,
            slow: 4.0 * one,
            portable: 1.0,
            narrow: 1.0,
            fold: 2.0 * one,
            fold_across: 4.0 * one,
            scan: 5.0 * one,
            sort: 1800.0 * one,
            transposed: sector / 12.0,
            conflicting: sector / 18.0,
            strided: sector / 22.0,
            // Divisions by sizes of dimensions, as multiplications, per element.
            mapped: 50.0 * one,
            close: 50.0 * one,
            gathered: sector / 2.0,
            run: 0.0,
            call: 0.0,
            strip: 0.0,
            row: 0.0,
            row_fold: 0.0,
            // Every thread of a row computes it.
            once: 12.0 * one,
            registers: 160,
            spill: 2.0 * one,
            // Tensor cores take narrow floats, and f32 that may be rounded.
            multiply: [1.15 * one, 0.9 * one, 0.075 * one, 0.075 * one, 3.0 * one, 2.65 * one, 0.155 * one],
            product: 0.0,
            packing: 0.0,
            // One write and one read.
            factor: 2.0 / memory,
            setup: 0.0,
            inner_launch: 0.0,
            argument: 0.0,
            position: 0.0,
            // Rows stay in registers.
            again: 0.125,
            scattered: sector,
            one_pass: true,
            borders: false,
            machine: Machine::gpu(),
            corrections: Corrections::default(),
        }
    }

    /// Level for any footprint, interpolated between the measured ones.
    pub(crate) fn level(&self, footprint: u64) -> Level {
        let [first, .., last] = self.levels;
        let Some(above) = self.levels.iter().position(|l| footprint <= l.footprint) else { return last };
        if above == 0 {
            return first;
        }
        let (a, b) = (self.levels[above - 1], self.levels[above]);
        let log = |n: u64| (n as f64).log2();
        let t = (log(footprint) - log(a.footprint)) / (log(b.footprint) - log(a.footprint));
        let mix = |x: f64, y: f64| x + (y - x) * t;
        Level {
            footprint,
            read: mix(a.read, b.read),
            write: mix(a.write, b.write),
            read_all: mix(a.read_all, b.read_all),
            write_all: mix(a.write_all, b.write_all),
        }
    }

    /// References to all constants that are times or factors: levels first, then the others.
    fn numbers(&mut self) -> Vec<&mut f64> {
        let levels = self.levels.iter_mut();
        let mut all: Vec<&mut f64> =
            levels.flat_map(|l| [&mut l.read, &mut l.write, &mut l.read_all, &mut l.write_all]).collect();
        all.extend([
            &mut self.launch,
            &mut self.boxed,
            &mut self.wake,
            &mut self.parallel,
            &mut self.overlap,
            &mut self.simple,
            &mut self.divide,
            &mut self.special,
            &mut self.special_wide,
            &mut self.convert,
            &mut self.slow,
            &mut self.portable,
            &mut self.narrow,
            &mut self.fold,
            &mut self.fold_across,
            &mut self.scan,
            &mut self.sort,
            &mut self.transposed,
            &mut self.conflicting,
            &mut self.strided,
            &mut self.mapped,
            &mut self.close,
            &mut self.gathered,
            &mut self.run,
            &mut self.call,
            &mut self.strip,
            &mut self.row,
            &mut self.row_fold,
            &mut self.once,
            &mut self.spill,
            &mut self.product,
            &mut self.packing,
            &mut self.factor,
            &mut self.setup,
            &mut self.inner_launch,
            &mut self.argument,
            &mut self.position,
            &mut self.again,
            &mut self.scattered,
        ]);
        all.extend(&mut self.multiply);
        all
    }

    /// Copy of the constants in which each time and factor is clamped to within the factor `factor` of that of `other`.
    pub fn near(mut self, other: &Costs, factor: f64) -> Costs {
        let mut other = other.clone();
        for (own, other) in self.numbers().into_iter().zip(other.numbers()) {
            *own = own.clamp(*other / factor, *other * factor);
        }
        self
    }

    /// Copy of the constants with times and factors rounded to four digits: more are not significant, and rounded
    /// numbers survive being written as text.
    pub fn rounded(mut self) -> Costs {
        self.numbers().into_iter().for_each(|n| *n = rounded(*n));
        self
    }

    /// Copy of the constants without corrections.
    pub fn uncorrected(&self) -> Costs {
        Costs { corrections: Corrections::default(), ..self.clone() }
    }

    /// Hash of all constants: equal for equal constants, in every process.
    pub fn id(&self) -> u64 {
        let mut text = serde_json::to_vec(self).expect("plain numbers become JSON");
        if self.machine != Machine::default() {
            text.extend(format!("{:?}", self.machine).into_bytes());
        }
        // FNV-1a: short, and the same on every platform.
        text.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x0100_0000_01b3))
    }
}

fn rounded(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return 0.0;
    }
    let digits = 10f64.powi(3 - v.abs().log10().floor() as i32);
    (v * digits).round() / digits
}
