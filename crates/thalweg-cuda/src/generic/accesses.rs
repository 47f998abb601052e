//! Access descriptors of a generic launch: a word for each access, with the index of its first kernel argument, its
//! dtype and its addressing mode.

use thalweg_gpu::kernels::generic::params::GenericParams;
use thalweg_gpu::space::{Addressing, SpaceClass};
use thalweg_ir::DType;
use thalweg_kernel::Access;

/// Maximum number of views in an index map.
const LEVELS: usize = 6;

/// Layout of the access descriptors of a launch among its kernel arguments.
pub struct Described<'a> {
    params: &'a GenericParams,
}

impl Described<'_> {
    /// Creates the layout of the access descriptors that `params` declares.
    pub fn new(params: &GenericParams) -> Described<'_> {
        Described { params }
    }

    /// Operand code of an access in an instruction: the kernel-argument index of its descriptor.
    pub fn of(&self, access: u16) -> Option<u32> {
        self.params.descriptors.get(access as usize).map(|descriptor| descriptor.slot().word() as u32)
    }

    /// Values of all descriptors, one 64-bit word each; `None` where an index map has too many views.
    pub fn values(&self, accesses: &[Access], class: &SpaceClass) -> Option<Vec<usize>> {
        let value = |(k, access): (usize, &Access)| {
            let map = match &class.addressing[k] {
                Addressing::Strided { .. } => 0,
                Addressing::Mapped(levels) => 1 << 16 | views(levels)? << 20,
            };
            let at = self.params.space.accesses[k].base.slot().word();
            Some((at as u64 | map | number(access.dtype) << 56) as usize)
        };
        accesses.iter().enumerate().map(value).collect()
    }
}

fn number(dtype: DType) -> u64 {
    dtype as u64
}

/// Encodes the views of an index map, six bits each: bits 0 to 3 are the rank, bit 4 is set if it has a mask, bit 5
/// always.
fn views(levels: &[(u8, bool)]) -> Option<u64> {
    let one = |&(rank, masked): &(u8, bool)| u64::from(rank) | u64::from(masked) << 4 | 1 << 5;
    (levels.len() <= LEVELS).then(|| levels.iter().rev().fold(0, |all, level| all << 6 | one(level)))
}
