//! Maps of tensors: see [`crate::driver::TensorMap`].

use super::Gpu;
use super::api::SUCCESS;
use crate::driver::{MAP_WORDS, TensorMap};
use cudarc::driver::sys::{CUtensorMap, CUtensorMapDataType as Type};
use std::ffi::c_void;

/// What stands for the address until there is one: the driver looks at its alignment alone.
const NOWHERE: usize = 1 << 30;
/// Enumerations of cuda.h: no interleaving, parts of lines of 128 bytes exchanged, 128 bytes to the second-level cache at a
/// time, zeros outside.
const INTERLEAVE: u32 = 0;
const SWIZZLE: u32 = 3;
const PROMOTION: u32 = 2;
const FILL: u32 = 0;

impl Gpu {
    /// A map without an address; `None` where the driver refuses.
    pub(super) fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        let mut out = CUtensorMap { opaque: [0; MAP_WORDS] };
        let dtype =
            if map.f16 { Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16 } else { Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 };
        let rank = map.extents.len();
        let extents: Vec<u64> = map.extents.iter().map(|&n| n as u64).collect();
        let strides: Vec<u64> = map.strides.iter().map(|&s| s as u64).collect();
        let tile = &map.tile[..rank];
        let steps = vec![1u32; rank];
        // SAFETY: lists as long as the rank says, and a place for the map, aligned as its type is.
        let encoded = unsafe {
            (self.api.map)(
                &mut out,
                dtype as u32,
                rank as u32,
                NOWHERE as *mut c_void,
                extents.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                steps.as_ptr(),
                INTERLEAVE,
                SWIZZLE,
                PROMOTION,
                FILL,
            )
        };
        if encoded != SUCCESS {
            tracing::debug!(error = self.api.describe(encoded), ?map, "the driver makes no such map");
            return None;
        }
        Some(out.opaque)
    }

    /// Sets the address of a map.
    pub(super) fn place(&self, map: &mut [u64], address: u64) {
        let mut own = CUtensorMap { opaque: [0; MAP_WORDS] };
        own.opaque.copy_from_slice(map);
        // SAFETY: a map that the driver made, aligned as its type is.
        let placed = unsafe { (self.api.map_place)(&mut own, address as *mut c_void) };
        debug_assert_eq!(placed, SUCCESS, "a map begins at {address:#x}");
        map.copy_from_slice(&own.opaque);
    }
}
