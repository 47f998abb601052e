//! Properties of a GPU, as the driver reports them.

use super::api::{Api, SUCCESS};
use crate::driver::{Chip, capabilities, nvrtc};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute_enum as Attribute};
use std::ffi::CStr;

/// Queries an integer attribute of a device.
pub(super) fn ask(api: &Api, device: CUdevice, attribute: Attribute) -> Result<u32, String> {
    let mut value = 0;
    // SAFETY: an out-pointer to a number.
    match unsafe { (api.device_attribute)(&mut value, attribute as u32, device) } {
        SUCCESS => Ok(value.max(0) as u32),
        error => Err(format!("cuDeviceGetAttribute: {}", api.describe(error))),
    }
}

/// Queries the properties of a chip.
pub(super) fn chip(
    api: &Api,
    device: CUdevice,
    get: &dyn Fn(Attribute) -> Result<u32, String>,
) -> Result<Chip, String> {
    let mut name = [0; 128];
    let (mut memory, mut version) = (0, 0);
    // SAFETY: out-pointers to a text of that length and to numbers.
    let asked = unsafe {
        [
            (api.device_name)(name.as_mut_ptr(), name.len() as i32, device),
            (api.device_memory)(&mut memory, device),
            (api.version)(&mut version),
        ]
    };
    if let Some(&error) = asked.iter().find(|&&result| result != SUCCESS) {
        return Err(format!("cuDeviceGetName: {}", api.describe(error)));
    }
    // SAFETY: the driver terminates it with zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    // A GPU without a compiler can be queried; compilation reports what to install.
    let nvrtc = nvrtc::open(version as u32 / 1000);
    let compiler = nvrtc.as_ref().map_or_else(|_| "no NVRTC".into(), |(major, minor)| format!("NVRTC {major}.{minor}"));
    // Long arguments need CUDA 12.1 of both driver and compiler; every chip that we compile for supports them.
    let long = version >= 12_010 && nvrtc.is_ok_and(|version| version >= (12, 1));
    let (major, minor) = (
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    let multiprocessors = get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    // Not every driver reports clocks: they are used for planning only.
    let known = |attribute, otherwise| get(attribute).ok().filter(|&n| n > 0).map_or(otherwise, f64::from);
    let khz = known(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 0.0);
    let bits = known(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 0.0);
    // Two transfers a cycle; where clocks are unknown, the bandwidth per multiprocessor of an H100.
    let bandwidth = if khz * bits > 0.0 { 2e-6 * khz * bits / 8.0 } else { 25.0 * f64::from(multiprocessors) };
    let sm = 10 * major + minor;
    Ok(Chip {
        name,
        sm,
        capabilities: capabilities(sm),
        multiprocessors,
        threads: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        registers: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        shared: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        l2: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        memory,
        bandwidth,
        clock: 1e-6 * known(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1.7e6),
        arguments: if long { 32_764 } else { 4096 },
        faults: 4096,
        compiler,
    })
}
