//! Access descriptors of a generic launch: a word for each access, with the index of its first kernel argument, its
//! dtype and its addressing mode.

use thalweg_gpu::kernels::generic::params::GenericParams;
use thalweg_gpu::space::{Addressing, SpaceClass};
use thalweg_ir::DType;
use thalweg_kernel::Access;

/// Maximum number of views in an index map.
const LEVELS: usize = 6;

/// Access descriptors of a launch.
pub struct Described<'a> {
    params: &'a GenericParams,
}

impl Described<'_> {
    /// Access descriptors, which are kernel arguments of these parameters.
    pub fn new(params: &GenericParams) -> Described<'_> {
        Described { params }
    }

    /// Operand by which an instruction refers to an access: the kernel-argument index of its descriptor.
    pub fn of(&self, access: u16) -> Option<u32> {
        self.params.descriptors.get(access as usize).map(|descriptor| descriptor.slot().word() as u32)
    }

    /// Values of the descriptors; `None` where an index map has too many views.
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

/// Encoding of an index map's views, six bits each: its rank, whether it has a mask, and a bit that is set.
fn views(levels: &[(u8, bool)]) -> Option<u64> {
    let one = |&(rank, masked): &(u8, bool)| u64::from(rank) | u64::from(masked) << 4 | 1 << 5;
    (levels.len() <= LEVELS).then(|| levels.iter().rev().fold(0, |all, level| all << 6 | one(level)))
}
