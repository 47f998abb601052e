//! GPU resources that a program uses, reported by devices and shown by explanations.

/// Resources of a kernel on each multiprocessor of a GPU; of several launches, those of the one with the least
/// occupancy.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Residence {
    /// Number of registers per thread.
    pub registers: u32,
    /// Bytes that a thread spills to memory for want of registers.
    pub spilled_bytes: u32,
    /// Shared memory per block in bytes.
    pub shared_bytes: u32,
    /// Number of resident blocks per multiprocessor.
    pub blocks: u32,
    /// Number of resident threads per multiprocessor.
    pub threads: u32,
    /// Resident threads as a fraction of the multiprocessor's maximum.
    pub occupancy: f32,
}
