//! Interpreters of bodies: class key and kernel arguments. Bytecode and interpreter are the device's
//! (`thalweg-cuda/src/generic`).

pub mod params;

/// Class key of a generic kernel, an interpreter of bytecode: the width of its values and its instruction set decide
/// its source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// Values of 32 bits, for bodies without f64, i64 and the transcendental functions of f32.
    Narrow,
    /// Values of 32 bits with the transcendental functions of f32, without most integer operations.
    Functions,
    /// Values of 64 bits, for i64, without f64 and the transcendental functions of f32.
    Wide,
    /// Values of 64 bits with f64 and its functions.
    Double,
}

impl Width {
    /// All widths, in the order of their discriminants.
    pub const ALL: [Width; 4] = [Width::Narrow, Width::Functions, Width::Wide, Width::Double];

    /// Number of points per thread.
    pub fn lanes(self) -> usize {
        if self.is_wide() { 2 } else { 4 }
    }

    /// Whether interpreter values have 64 bits.
    pub fn is_wide(self) -> bool {
        self >= Width::Wide
    }
}
