//! What things take on one device.

use serde::{Deserialize, Serialize};

/// What it takes to move a byte where so many are in use.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Level {
    /// Bytes in use: the footprint of a segment, or what is read again and again.
    pub footprint: u64,
    /// Nanoseconds a byte that one thread reads.
    pub read: f64,
    /// That one thread writes.
    pub write: f64,
    /// Nanoseconds a byte that all threads read together.
    pub read_all: f64,
    /// That all write.
    pub write_all: f64,
}

/// The constants of a device. Times are nanoseconds; arithmetic is a lane of 4 bytes of a vector that is full, on one thread.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Costs {
    /// A kernel that does nothing, with what the stream does to launch it: memory for the result, counters. Measured with one point.
    pub launch: f64,
    /// One more box of a kernel in pieces.
    pub boxed: f64,
    /// Threads that a launch may use.
    pub threads: u32,
    /// Until a sleeping thread takes part.
    pub wake: f64,
    /// Work (on one thread) from which a launch uses more than one.
    pub parallel: f64,
    /// What a byte takes, by bytes in use, ascending; between two it is interpolated over the logarithm. Measured by adding and by copying.
    pub levels: [Level; 6],
    /// How much of the shorter one of arithmetic and memory does not hide behind the longer one, from 0 to 1.
    pub overlap: f64,
    /// An addition, product, comparison or choice. Measured by a chain of them.
    pub simple: f64,
    /// A division or square root.
    pub divide: f64,
    /// A function, each addition that the table of operations gives for it. Measured with several.
    pub special: f64,
    /// The same in f64, an element.
    pub special_wide: f64,
    /// A conversion.
    pub convert: f64,
    /// What has no vector instruction, an element.
    pub slow: f64,
    /// An element that is folded along a row.
    pub fold: f64,
    /// An element that is folded across rows.
    pub fold_across: f64,
    /// An element of a running sum.
    pub scan: f64,
    /// An element that is sorted.
    pub sort: f64,
    /// An element of a transposed operand, of a strided one, one through a table of positions, one that is gathered.
    pub transposed: f64,
    /// See `transposed`.
    pub strided: f64,
    /// See `transposed`.
    pub mapped: f64,
    /// See `transposed`.
    pub gathered: f64,
    /// A stretch of neighbouring points, however short: loop, and a vector that is not full.
    pub run: f64,
    /// A call of the code.
    pub call: f64,
    /// A row of a kernel along rows, a walk.
    pub row: f64,
    /// The end of a fold along a row.
    pub row_fold: f64,
    /// Arithmetic once a row, an addition.
    pub once: f64,
    /// Registers for values.
    pub registers: u32,
    /// A value more than there are registers, a point.
    pub spill: f64,
    /// A multiplication with its addition in a matrix product: of f32, of f64, of narrow floats, of integers.
    pub multiply: [f64; 4],
    /// One product of a batch.
    pub product: f64,
    /// A value that a scatter puts in.
    pub scattered: f64,
}

impl Costs {
    /// Those of a processor with 2 to 4 cores and AVX-512: what a process counts with before anything was measured.
    pub fn typical() -> Costs {
        let level = |footprint: u64, read: f64, write: f64| Level {
            footprint,
            read,
            write,
            read_all: rounded(read * 0.55),
            write_all: rounded(write * 0.55),
        };
        Costs {
            launch: 600.0,
            boxed: 150.0,
            threads: 2,
            wake: 7_000.0,
            parallel: 30_000.0,
            levels: [
                level(16 << 10, 0.006, 0.008),
                level(256 << 10, 0.012, 0.02),
                level(2 << 20, 0.03, 0.05),
                level(16 << 20, 0.06, 0.09),
                level(64 << 20, 0.08, 0.12),
                level(256 << 20, 0.09, 0.14),
            ],
            overlap: 0.3,
            simple: 0.015,
            divide: 0.09,
            special: 0.02,
            special_wide: 0.06,
            convert: 0.03,
            slow: 5.0,
            fold: 0.02,
            fold_across: 0.04,
            scan: 0.7,
            sort: 20.0,
            transposed: 0.3,
            strided: 0.3,
            mapped: 2.0,
            gathered: 1.0,
            run: 2.0,
            call: 40.0,
            row: 10.0,
            row_fold: 10.0,
            once: 1.0,
            registers: 28,
            spill: 0.03,
            multiply: [0.03, 0.06, 0.035, 0.1],
            product: 500.0,
            scattered: 2.0,
        }
    }

    /// The level between those that were measured; `footprint` may be any.
    pub(super) fn level(&self, footprint: u64) -> Level {
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

    /// All constants in the order of declaration, levels with theirs.
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
            &mut self.fold,
            &mut self.fold_across,
            &mut self.scan,
            &mut self.sort,
            &mut self.transposed,
            &mut self.strided,
            &mut self.mapped,
            &mut self.gathered,
            &mut self.run,
            &mut self.call,
            &mut self.row,
            &mut self.row_fold,
            &mut self.once,
            &mut self.spill,
            &mut self.product,
            &mut self.scattered,
        ]);
        all.extend(&mut self.multiply);
        all
    }

    /// The constants, none further from those of `other` than by that factor.
    pub fn near(mut self, other: &Costs, factor: f64) -> Costs {
        let mut other = other.clone();
        for (own, other) in self.numbers().into_iter().zip(other.numbers()) {
            *own = own.clamp(*other / factor, *other * factor);
        }
        self
    }

    /// The constants to four digits: more says nothing, and so they are the same after they were written as text.
    pub fn rounded(mut self) -> Costs {
        self.numbers().into_iter().for_each(|n| *n = rounded(*n));
        self
    }

    /// A number that stands for all of them: equal for equal constants, in every process.
    pub fn id(&self) -> u64 {
        let text = serde_json::to_vec(self).expect("plain numbers become JSON");
        // FNV-1a: short, and the same everywhere.
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
