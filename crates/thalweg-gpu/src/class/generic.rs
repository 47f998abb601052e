//! Interpreters of bodies.

/// What decides the source of a generic kernel: which values it has, and which instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// Words of 32 bits: for bodies without f64 and i64. Without the functions of f32.
    Narrow,
    /// The same with the functions of f32, and without most of what integers have.
    Functions,
    /// Words of 64 bits, for i64; without f64 and the functions of f32.
    Wide,
    /// The same with f64 and its functions.
    Double,
}

impl Width {
    /// Every one.
    pub const ALL: [Width; 4] = [Width::Narrow, Width::Functions, Width::Wide, Width::Double];

    /// Points that a thread takes side by side.
    pub fn lanes(self) -> usize {
        if self.is_wide() { 2 } else { 4 }
    }

    /// Whether words have 64 bits.
    pub fn is_wide(self) -> bool {
        self >= Width::Wide
    }
}
