//! Registry of the devices that streams run on, one per process.

use std::sync::{Arc, RwLock};
use thalweg_runtime::Device;

static DEVICES: RwLock<Vec<&'static Arc<dyn Device>>> = RwLock::new(Vec::new());

/// Handle of a registered device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceRef(pub(crate) u16);

impl DeviceRef {
    /// Registers a device for the life of the process.
    ///
    /// # Panics
    /// When 65,536 devices are registered already.
    pub fn register(device: Arc<dyn Device>) -> DeviceRef {
        let mut devices = DEVICES.write().unwrap_or_else(|e| e.into_inner());
        devices.push(Box::leak(Box::new(device)));
        DeviceRef(u16::try_from(devices.len() - 1).expect("fewer than 65,536 devices"))
    }

    /// The registered device.
    pub fn device(self) -> &'static Arc<dyn Device> {
        DEVICES.read().unwrap_or_else(|e| e.into_inner())[self.0 as usize]
    }
}
