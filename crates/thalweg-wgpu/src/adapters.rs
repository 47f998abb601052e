//! Adapters of the machine: enumeration, requirements, and properties as a [`Chip`].

use std::future::Future;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use thalweg_gpu::{Capabilities, Chip};
use wgpu::{Adapter, Backends, DeviceType, Features, Instance, InstanceDescriptor, Limits};

/// Threads per workgroup of the largest kernels, which an adapter must allow.
const MIN_THREADS: u32 = 1024;
/// Maximum bytes of a launch's arguments: the smallest uniform binding that WebGPU guarantees.
pub(crate) const MAX_ARGUMENTS: usize = 16 << 10;
/// Maximum bytes of a buffer: addresses of bytes in it are signed 32-bit offsets.
const MAX_BUFFER: u64 = (1 << 31) - 256;

/// Description of an adapter, for people.
#[derive(Clone, Debug)]
pub struct AdapterReport {
    /// Name of the device: "wgpu:0".
    pub device: String,
    /// Name of the chip, its API and its driver.
    pub about: String,
    /// Reason why the adapter cannot be used; `None` if it can.
    pub lacks: Option<String>,
}

/// Returns the result of a future of `wgpu`, which is ready at once on native systems.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Adapters of the machine in the order of their numbers: of each API, those with hardware of their own first.
pub(crate) fn all() -> &'static [Adapter] {
    static ALL: OnceLock<Vec<Adapter>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut descriptor = InstanceDescriptor::new_without_display_handle();
        descriptor.backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
        let instance = Instance::new(descriptor);
        let mut found = ready(instance.enumerate_adapters(Backends::all())).unwrap_or_default();
        found.sort_by_key(|adapter| rank(adapter.get_info().device_type));
        found
    })
}

/// Order of kinds of adapters: fast ones first.
fn rank(kind: DeviceType) -> u32 {
    match kind {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

/// Reports of all adapters of the machine.
pub fn adapters() -> Vec<AdapterReport> {
    let report = |(number, adapter): (usize, &Adapter)| {
        let device = format!("wgpu:{number}");
        AdapterReport { device, about: about(adapter), lacks: lacks(adapter) }
    };
    all().iter().enumerate().map(report).collect()
}

/// Advice for a machine without adapters: the packages to install.
pub fn advice() -> String {
    if cfg!(target_os = "linux") {
        "no Vulkan adapter; install the GPU's Vulkan driver and its loader (Debian: `mesa-vulkan-drivers libvulkan1`; \
         NVIDIA: its driver and `libvulkan1`)"
            .into()
    } else {
        "no adapter; update the GPU's driver".into()
    }
}

/// Name of an adapter's chip, with its API and driver.
pub(crate) fn about(adapter: &Adapter) -> String {
    let info = adapter.get_info();
    let driver = [info.driver.trim(), info.driver_info.trim()].into_iter().filter(|text| !text.is_empty());
    format!("{} ({:?}, {})", info.name, info.backend, driver.collect::<Vec<_>>().join(" "))
}

/// Features that kernels need: 64-bit integers, for i64 tensors and indices.
pub(crate) const REQUIRED: Features = Features::SHADER_INT64;
/// Features that are used where an adapter has them: shuffles within subgroups, and the driver's own code of pipelines.
pub(crate) const OPTIONAL: Features = Features::SUBGROUP.union(Features::PIPELINE_CACHE);

/// Reason why an adapter cannot be used; `None` if it can.
pub(crate) fn lacks(adapter: &Adapter) -> Option<String> {
    if !adapter.features().contains(REQUIRED) {
        return Some("it has no 64-bit integers (SHADER_INT64)".into());
    }
    let threads = limits(adapter).max_compute_invocations_per_workgroup;
    (threads < MIN_THREADS).then(|| format!("it allows {threads} threads a workgroup, and kernels have {MIN_THREADS}"))
}

/// Limits that a device of an adapter is opened with: the adapter's own.
pub(crate) fn limits(adapter: &Adapter) -> Limits {
    adapter.limits()
}

/// Maximum bytes of a buffer that a kernel binds.
pub(crate) fn max_binding(limits: &Limits) -> usize {
    let most = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(MAX_BUFFER);
    (most & !255) as usize
}

/// Properties of an adapter. `wgpu` tells neither multiprocessors nor bandwidth, so these are typical values of the kind
/// of adapter; the planner's cost constants are calibrated by measurements.
pub(crate) fn chip(adapter: &Adapter) -> Chip {
    let (info, limits) = (adapter.get_info(), limits(adapter));
    let (multiprocessors, bandwidth, l2) = match info.device_type {
        DeviceType::DiscreteGpu => (64, 500.0, 4 << 20),
        DeviceType::IntegratedGpu | DeviceType::VirtualGpu | DeviceType::Other => (12, 60.0, 1 << 20),
        DeviceType::Cpu => (std::thread::available_parallelism().map_or(1, |n| n.get()) as u32, 10.0, 1 << 20),
    };
    Chip {
        name: info.name.clone(),
        sm: 0,
        capabilities: Capabilities {
            warp_matrix: false,
            warpgroup_matrix: false,
            tensor_maps: false,
            exchange: false,
            warps: false,
            held_scans: true,
            async_copies: false,
            dynamic_shared: false,
            groups: false,
            wide_atomics: false,
        },
        multiprocessors,
        threads: 2048,
        registers: 65_536,
        shared: limits.max_compute_workgroup_storage_size,
        l2,
        memory: 1 << 40,
        bandwidth,
        clock: 1.5,
        arguments: MAX_ARGUMENTS - 16,
        faults: 1024,
        compiler: format!("wgpu 30, {}", about(adapter)),
    }
}
