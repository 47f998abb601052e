//! Encoding of tensor maps (TMA descriptors): see [`crate::driver::TensorMap`].

use super::Gpu;
use super::api::SUCCESS;
use crate::driver::{MAP_WORDS, TensorMap};
use cudarc::driver::sys::{CUtensorMap, CUtensorMapDataType as Type};
use std::ffi::c_void;

/// Address that a tensor map is encoded with until its operand's address is known. The driver checks only its
/// alignment.
const NOWHERE: usize = 1 << 30;
/// Constants of cuda.h for all tensor maps: no interleaving, 128-byte swizzle, L2 promotion to 128 bytes, zero fill out
/// of bounds.
const INTERLEAVE: u32 = 0;
const SWIZZLE: u32 = 3;
const PROMOTION: u32 = 2;
const FILL: u32 = 0;

impl Gpu {
    /// Encodes a tensor map with a placeholder address; `None` where the driver refuses it.
    pub(super) fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        let mut out = CUtensorMap { opaque: [0; MAP_WORDS] };
        let dtype =
            if map.f16 { Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16 } else { Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 };
        let rank = map.extents.len();
        let extents: Vec<u64> = map.extents.iter().map(|&n| n as u64).collect();
        let strides: Vec<u64> = map.strides.iter().map(|&s| s as u64).collect();
        let tile = &map.tile[..rank];
        let steps = vec![1u32; rank];
        // SAFETY: lists as long as the rank, and an out-pointer to the map, aligned as its type requires.
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

    /// Sets the address of a tensor map.
    pub(super) fn place(&self, map: &mut [u64], address: u64) {
        let mut own = CUtensorMap { opaque: [0; MAP_WORDS] };
        own.opaque.copy_from_slice(map);
        // SAFETY: a map that the driver encoded, aligned as its type requires.
        let placed = unsafe { (self.api.map_place)(&mut own, address as *mut c_void) };
        debug_assert_eq!(placed, SUCCESS, "a map begins at {address:#x}");
        map.copy_from_slice(&own.opaque);
    }
}
