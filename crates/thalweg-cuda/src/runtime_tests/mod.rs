//! Tests of [`thalweg_gpu::runtime`] on the emulated GPU.

mod memory;
mod queue;
mod queues;
