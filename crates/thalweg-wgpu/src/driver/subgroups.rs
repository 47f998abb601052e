//! Size of subgroups, the threads that exchange values without workgroup memory.
//!
//! Kernels take subgroups for ranges of neighbouring threads of a workgroup. Neither WGSL nor Vulkan promises that, so a
//! shader measures it when an adapter is opened.

use crate::adapters::ready;
use std::borrow::Cow;
use wgpu::{
    Adapter, BindGroupDescriptor, BindGroupEntry, BufferDescriptor, BufferUsages, CommandEncoderDescriptor,
    ComputePassDescriptor, ComputePipelineDescriptor, Device, ErrorFilter, Features, MapMode,
    PipelineCompilationOptions, PollType, Queue, ShaderModuleDescriptor, ShaderSource,
};

/// Threads of the measuring workgroup.
const THREADS: usize = 256;

/// Each thread stores its index in its subgroup, and the subgroup's size in the upper half.
const MEASURE: &str = "@group(0) @binding(0) var<storage, read_write> found: array<u32>;
@compute @workgroup_size(256)
fn measure(
  @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_size) size: u32,
) {
  found[thread] = (size << 16u) | lane;
}
";

/// Threads of a subgroup of a device, which are neighbours in their workgroup; 1 where the size is not fixed, where
/// threads are numbered otherwise, and without the feature.
pub fn size(adapter: &Adapter, device: &Device, queue: &Queue) -> u32 {
    let info = adapter.get_info();
    let size = info.subgroup_min_size;
    let is_fixed = size == info.subgroup_max_size && size.is_power_of_two() && size <= 128;
    if !device.features().contains(Features::SUBGROUP) || !is_fixed {
        return 1;
    }
    let found = measured(device, queue).unwrap_or_default();
    let is_in_order = found.len() == THREADS && (0..).zip(&found).all(|(n, &x)| x == (size << 16) | (n % size));
    if is_in_order { size } else { 1 }
}

/// Words that the threads of a workgroup have stored; `None` where the shader does not run.
fn measured(device: &Device, queue: &Queue) -> Option<Vec<u32>> {
    let scope = device.push_error_scope(ErrorFilter::Validation);
    let source = ShaderSource::Wgsl(Cow::Borrowed(MEASURE));
    let module = device.create_shader_module(ShaderModuleDescriptor { label: Some("thalweg subgroups"), source });
    let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
        label: Some("thalweg subgroups"),
        layout: None,
        module: &module,
        entry_point: Some("measure"),
        compilation_options: PipelineCompilationOptions::default(),
        cache: None,
    });
    if ready(scope.pop())?.is_some() {
        return None;
    }
    let buffer = |usage| {
        let size = 4 * THREADS as u64;
        device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    };
    let found = buffer(BufferUsages::STORAGE | BufferUsages::COPY_SRC);
    let staging = buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST);
    let group = device.create_bind_group(&BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[BindGroupEntry { binding: 0, resource: found.as_entire_binding() }],
    });
    let mut encoder = device.create_command_encoder(&CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    encoder.copy_buffer_to_buffer(&found, 0, &staging, 0, 4 * THREADS as u64);
    queue.submit([encoder.finish()]);
    staging.slice(..).map_async(MapMode::Read, |_| {});
    device.poll(PollType::Wait { submission_index: None, timeout: None }).ok()?;
    let view = staging.slice(..).get_mapped_range().ok()?;
    Some(view.chunks_exact(4).map(|x| u32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect())
}
