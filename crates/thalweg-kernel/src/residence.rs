//! What a program takes of a GPU: devices say it, explanations show it.

/// What a kernel takes of each multiprocessor of a GPU: of several launches that of the one that leaves most of it idle.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Residence {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread keeps in memory for want of registers.
    pub spilled_bytes: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Blocks that run on a multiprocessor at once.
    pub blocks: u32,
    /// Threads of these.
    pub threads: u32,
    /// Their share of the threads that a multiprocessor has room for.
    pub occupancy: f32,
}
