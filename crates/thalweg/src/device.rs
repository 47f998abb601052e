//! Devices by name, and the default device.

use crate::environment::{self, Value};
use crate::{Error, MemoryStats};
use std::cell::Cell;
use std::fmt;
use std::sync::{Mutex, OnceLock};
use thalweg_cpu::{CpuDevice, CpuOptions};
use thalweg_runtime::Backend;
use thalweg_stream::DeviceRef;

/// Device that stores tensors and computes them. A small `Copy` handle.
///
/// [`Device::default`] is the fastest device there is, unless the environment variable `THALWEG_DEVICE` names another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device(pub(crate) DeviceRef);

impl Device {
    /// The host's processor.
    ///
    /// # Panics
    /// When an environment variable of Thalweg has an invalid value. [`Device::try_default`] and [`Device::from_name`]
    /// return that as an error.
    pub fn cpu() -> Device {
        Device::try_cpu().unwrap_or_else(|mistake| panic!("{mistake}"))
    }

    fn try_cpu() -> Result<Device, Error> {
        static CPU: OnceLock<Result<Device, Error>> = OnceLock::new();
        CPU.get_or_init(|| Ok(Device(DeviceRef::register(CpuDevice::open()?)))).clone()
    }

    /// A further device on the host's processor, with its own memory pool, memory limit, costs, plans and programs. It
    /// exists for the life of the process. Its name is "cpu", too; an operation does not accept tensors of both this
    /// device and [`Device::cpu`].
    ///
    /// ```
    /// use thalweg::{CpuOptions, Device, Tensor};
    /// let device = Device::new_cpu(CpuOptions { threads: 1, ..CpuOptions::default() });
    /// assert_ne!(device, Device::cpu());
    /// assert_eq!(Tensor::ones_with([3], device).sum(..).item::<f32>()?, 3.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn new_cpu(options: CpuOptions) -> Device {
        Device(DeviceRef::register(CpuDevice::with(options)))
    }

    /// The GPU with a number, from 0, as NVIDIA's driver counts them.
    ///
    /// # Errors
    /// [`Error::Device`] if there is none, with the package to install if the driver or compiler is missing; always if
    /// Thalweg was built without the feature `cuda`.
    pub fn cuda(number: usize) -> Result<Device, Error> {
        Device::from_name(&format!("cuda:{number}"))
    }

    /// The device with a name, as `THALWEG_DEVICE` takes it: `"cpu"`, `"cuda:0"`; `"cuda"` is the first GPU.
    ///
    /// # Errors
    /// [`Error::Device`] if there is none with that name.
    pub fn from_name(name: &str) -> Result<Device, Error> {
        match name {
            "cpu" => Device::try_cpu(),
            _ => {
                if let Some((backend, name)) = BACKENDS.iter().find_map(|b| Some((b, b.full_name(name)?))) {
                    return open(backend, &name);
                }
                let names = Device::names();
                let there = if names.len() == 1 { "there is" } else { "there are" };
                let mut message = format!("no such device; {there}: {}", names.join(", "));
                if cfg!(not(feature = "cuda")) && name.starts_with("cuda") {
                    message += " (built without the feature `cuda`)";
                }
                if cfg!(not(feature = "wgpu")) && name.starts_with("wgpu") {
                    message += " (built without the feature `wgpu`)";
                }
                Err(Error::Device { device: name.to_string(), message })
            }
        }
    }

    /// The names of the available devices, for [`Device::from_name`]: the CPU first, then every GPU that its driver
    /// shows to this process. Opens none of them.
    ///
    /// ```
    /// assert_eq!(thalweg::Device::names()[0], "cpu");
    /// ```
    pub fn names() -> Vec<String> {
        let of = |b: &Backend| (0..(b.count)()).map(|n| format!("{}:{n}", b.kind)).collect::<Vec<_>>();
        std::iter::once("cpu".to_string()).chain(BACKENDS.iter().flat_map(of)).collect()
    }

    /// The device for tensors created without one. In this order: the one that [`set_default_device`] set for this
    /// thread, the one that `THALWEG_DEVICE` names, the first GPU (if Thalweg was built with the feature `cuda` and the
    /// machine has a GPU, its driver and NVRTC), the CPU. A GPU that cannot be used is reported through `tracing`, and
    /// the CPU is used instead.
    ///
    /// # Errors
    /// If `THALWEG_DEVICE` names a missing device, or any environment variable of Thalweg has an invalid value.
    pub fn try_default() -> Result<Device, Error> {
        if let Some(own) = OWN_DEFAULT.get() {
            return Ok(own);
        }
        static DEFAULT: OnceLock<Result<Device, Error>> = OnceLock::new();
        DEFAULT
            .get_or_init(|| {
                environment::check()?;
                match environment::DEVICE.read()? {
                    Some(Value::Text(name)) => Device::from_name(&name),
                    _ => fastest(),
                }
            })
            .clone()
    }

    /// The device's name: `"cpu"`, `"cuda:0"`.
    pub fn name(self) -> &'static str {
        self.0.device().name()
    }

    /// A description for people: the chip's name and the instruction set in use.
    pub fn describe(self) -> String {
        self.0.device().describe()
    }

    /// The statistics of the device's memory pool, in bytes: in use, peak, reserved, limit.
    pub fn memory(self) -> MemoryStats {
        self.0.device().memory()
    }

    /// Resets the peak of [`Device::memory`] to the bytes in use now, to measure a section of code; as
    /// `torch.cuda.reset_peak_memory_stats`.
    pub fn reset_peak(self) {
        self.0.device().reset_peak();
    }

    /// Sets how many bytes tensors and intermediates may use at once; `None` for no limit. A computation that would not
    /// fit is reordered, or some of it runs twice instead of being stored, with the same values. If that is not enough,
    /// the read fails with [`Error::OutOfMemory`]. Memory in use already stays. The environment variable
    /// `THALWEG_MEMORY_LIMIT` (`512M`, `4G`) sets the default.
    ///
    /// ```
    /// # use thalweg::prelude::*;
    /// let device = Device::default();
    /// device.set_memory_limit(Some(1 << 30));
    /// let x = Tensor::randn([64, 64]);
    /// assert_eq!(x.matmul(&x).sum(..).to_vec::<f32>()?.len(), 1);
    /// assert!(device.memory().peak <= 1 << 30);
    /// device.set_memory_limit(None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_memory_limit(self, bytes: Option<usize>) {
        self.0.device().set_memory_limit(bytes);
    }
}

thread_local! {
    /// The calling thread's default device, if set.
    static OWN_DEFAULT: Cell<Option<Device>> = const { Cell::new(None) };
}

/// Sets the default device of the calling thread, or with `None` removes it, and returns the previous setting.
pub fn set_default_device(device: Option<Device>) -> Option<Device> {
    OWN_DEFAULT.replace(device)
}

impl Default for Device {
    /// See [`Device::try_default`].
    ///
    /// # Panics
    /// When [`Device::try_default`] returns an error.
    #[track_caller]
    fn default() -> Device {
        match Device::try_default() {
            Ok(device) => device,
            Err(e) => panic!("the default device: {e}"),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

/// Backends of GPUs in this build, the preferred one first.
const BACKENDS: &[Backend] = &[
    #[cfg(feature = "cuda")]
    thalweg_cuda::BACKEND,
    #[cfg(feature = "wgpu")]
    thalweg_wgpu::BACKEND,
];

/// The first GPU, if one can be used. If not, the CPU, unless the environment names a backend's libraries: then the
/// error.
fn fastest() -> Result<Device, Error> {
    for backend in BACKENDS {
        let first = match (backend.is_usable)() {
            Ok(false) => continue,
            Ok(true) => open(backend, &format!("{}:0", backend.kind)),
            Err(why) => Err(why),
        };
        match first {
            Err(why) if !backend.is_requested() => tracing::warn!(%why, "a GPU cannot be used"),
            first => return first,
        }
    }
    Device::try_cpu()
}

/// Opens the GPU of that name, once per process.
fn open(backend: &Backend, name: &str) -> Result<Device, Error> {
    static OPEN: Mutex<Vec<Device>> = Mutex::new(Vec::new());
    // A panic while a GPU is opened leaves the list intact.
    let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(device) = open.iter().find(|d| d.name() == name) {
        return Ok(*device);
    }
    let device = Device(DeviceRef::register((backend.open)(name)?));
    open.push(device);
    Ok(device)
}
