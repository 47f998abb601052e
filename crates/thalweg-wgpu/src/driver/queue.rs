//! The queue: recorded work, and its submission.

use super::heap::{Heap, split};
use super::{MAX_RECORDED, WgpuState};
use crate::adapters::MAX_ARGUMENTS;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use thalweg_gpu::runtime::Launch;
use thalweg_runtime::Error;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindingResource, Buffer, BufferBinding,
    BufferDescriptor, BufferUsages, CommandEncoder, CommandEncoderDescriptor, ComputePass, ComputePassDescriptor,
    ComputePipeline, Device, MapMode, Queue, SubmissionIndex,
};

/// Bytes of the arguments of all recorded launches.
const ARGUMENTS: usize = 256 << 10;
/// Alignment of a launch's arguments: the largest that an adapter may ask for.
const ALIGNMENT: usize = 256;
/// Maximum number of workgroups along a dimension of a dispatch.
pub const MAX_SIDE: u32 = 65_535;

/// Work that is not submitted yet, and the memory that it uses.
#[derive(Debug)]
pub struct Recorded {
    queue: Queue,
    device: Device,
    /// All memory.
    pub heap: Heap,
    encoder: Option<CommandEncoder>,
    /// Compute pass that launches go into. It ends before other commands.
    pass: Option<ComputePass<'static>>,
    /// Arguments of the recorded launches, and the buffer that they are copied to before these run.
    arguments: Vec<u8>,
    uniform: Buffer,
    launches: usize,
    groups: FxHashMap<Vec<usize>, BindGroup>,
}

/// A read whose copy is submitted.
pub struct Reading {
    staging: Buffer,
    /// State of the map: 0 pending, 1 mapped, 2 failed.
    mapped: Arc<AtomicUsize>,
    skip: usize,
}

impl Reading {
    /// Copies the bytes, after the submission has completed; `None` if the memory cannot be mapped.
    pub fn finish(self, bytes: &mut [u8]) -> Option<()> {
        if self.mapped.load(Relaxed) != 1 {
            return None;
        }
        let view = self.staging.slice(..).get_mapped_range().ok()?;
        bytes.copy_from_slice(&view[self.skip..][..bytes.len()]);
        drop(view);
        self.staging.unmap();
        Some(())
    }
}

impl Recorded {
    /// Creates an empty recording.
    pub fn new(device: &Device, queue: Queue, heap: Heap) -> Recorded {
        let uniform = device.create_buffer(&BufferDescriptor {
            label: Some("thalweg arguments"),
            size: (ARGUMENTS + MAX_ARGUMENTS) as u64,
            usage: BufferUsages::UNIFORM | BufferUsages::STORAGE | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Recorded {
            queue,
            device: device.clone(),
            heap,
            encoder: None,
            pass: None,
            arguments: vec![],
            uniform,
            launches: 0,
            groups: FxHashMap::default(),
        }
    }

    /// Encoder for commands that are no launches.
    fn encoder(&mut self) -> &mut CommandEncoder {
        self.pass = None;
        let device = &self.device;
        self.encoder.get_or_insert_with(|| device.create_command_encoder(&CommandEncoderDescriptor::default()))
    }

    fn buffer(&self, chunk: usize) -> &Buffer {
        self.heap.buffer(chunk).expect("the address is in a chunk")
    }

    /// Submits everything that is recorded; `None` if that is nothing.
    pub fn submit(&mut self) -> Option<SubmissionIndex> {
        self.pass = None;
        let encoder = self.encoder.take()?;
        if !self.arguments.is_empty() {
            self.queue.write_buffer(&self.uniform, 0, &self.arguments);
            self.arguments.clear();
        }
        self.launches = 0;
        Some(self.queue.submit([encoder.finish()]))
    }

    /// Submits everything, and sets a flag when it has run.
    pub fn mark(&mut self, happened: &Arc<AtomicBool>) -> Option<SubmissionIndex> {
        let submission = self.submit();
        let happened = happened.clone();
        self.queue.on_submitted_work_done(move || happened.store(true, Relaxed));
        submission
    }

    /// Records a launch that binds these chunks.
    ///
    /// # Errors
    /// When the arguments are too long.
    pub fn launch(
        &mut self,
        state: &WgpuState,
        (pipeline, layout): (&ComputePipeline, &BindGroupLayout),
        chunks: &[usize],
        launch: &Launch,
    ) -> Result<(), Error> {
        let blocks = launch.grid[0];
        // The number of blocks follows the launch's own arguments.
        let words = launch.arguments.iter().copied().chain([u64::from(blocks)]);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        if bytes.len() > MAX_ARGUMENTS {
            let message = format!("a launch has {} bytes of arguments", bytes.len());
            return Err(Error::Device { device: state.name.clone(), message });
        }
        if self.launches >= MAX_RECORDED || self.arguments.len() + bytes.len() > ARGUMENTS {
            self.submit();
        }
        let offset = self.arguments.len();
        self.arguments.extend(bytes);
        self.arguments.resize(self.arguments.len().next_multiple_of(ALIGNMENT), 0);
        self.launches += 1;
        if !self.groups.contains_key(chunks) {
            let group = self.group(layout, chunks);
            self.groups.insert(chunks.to_vec(), group);
        }
        if self.pass.is_none() {
            let pass = self.encoder().begin_compute_pass(&ComputePassDescriptor::default()).forget_lifetime();
            self.pass = Some(pass);
        }
        let pass = self.pass.as_mut().expect("just begun");
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &self.groups[chunks], &[offset as u32]);
        pass.dispatch_workgroups(blocks.min(MAX_SIDE), blocks.div_ceil(MAX_SIDE), 1);
        Ok(())
    }

    fn group(&self, layout: &BindGroupLayout, chunks: &[usize]) -> BindGroup {
        let size = std::num::NonZero::new(MAX_ARGUMENTS as u64);
        let uniform = BufferBinding { buffer: &self.uniform, offset: 0, size };
        let mut entries = vec![BindGroupEntry { binding: 0, resource: BindingResource::Buffer(uniform) }];
        entries.extend(
            chunks
                .iter()
                .zip(1..)
                .map(|(&chunk, binding)| BindGroupEntry { binding, resource: self.buffer(chunk).as_entire_binding() }),
        );
        self.device.create_bind_group(&BindGroupDescriptor { label: None, layout, entries: &entries })
    }

    /// Frees memory, which later work may use.
    pub fn release(&mut self, address: u64) {
        if let Some(chunk) = self.heap.release(address) {
            // Recorded work may use the chunk; it stays alive by that.
            self.groups.retain(|chunks, _| !chunks.contains(&chunk));
        }
    }

    /// Records a fill with zeros of whole words.
    pub fn clear(&mut self, address: u64, bytes: u64) {
        let (chunk, offset) = split(address);
        let buffer = self.buffer(chunk).clone();
        self.encoder().clear_buffer(&buffer, offset, Some(bytes));
    }

    /// Writes whole words after all recorded work.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        self.submit();
        let (chunk, offset) = split(address);
        self.queue.write_buffer(self.buffer(chunk), offset, bytes);
    }

    /// Submits a copy to memory that the host can map.
    pub fn read(&mut self, device: &Device, address: u64, bytes: usize) -> Reading {
        let (chunk, offset) = split(address);
        let skip = (offset % 4) as usize;
        let size = (skip + bytes).next_multiple_of(4) as u64;
        let staging = device.create_buffer(&BufferDescriptor {
            label: Some("thalweg read"),
            size,
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let buffer = self.buffer(chunk).clone();
        self.encoder().copy_buffer_to_buffer(&buffer, offset - skip as u64, &staging, 0, size);
        self.submit();
        let mapped = Arc::new(AtomicUsize::new(0));
        let state = mapped.clone();
        staging.slice(..).map_async(MapMode::Read, move |done| state.store(1 + usize::from(done.is_err()), Relaxed));
        Reading { staging, mapped, skip }
    }

    /// Records a copy of whole words.
    pub fn copy(&mut self, device: &Device, from: u64, to: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let ((from, from_offset), (to, to_offset)) = (split(from), split(to));
        let (source, target) = (self.buffer(from).clone(), self.buffer(to).clone());
        if from != to {
            return self.encoder().copy_buffer_to_buffer(&source, from_offset, &target, to_offset, bytes);
        }
        // A buffer is not copied to itself.
        let between = device.create_buffer(&BufferDescriptor {
            label: Some("thalweg copy"),
            size: bytes,
            usage: BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.encoder().copy_buffer_to_buffer(&source, from_offset, &between, 0, bytes);
        self.encoder().copy_buffer_to_buffer(&between, 0, &target, to_offset, bytes);
    }
}
